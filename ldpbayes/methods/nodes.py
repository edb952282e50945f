"""Nodes: the conjugate priors that a prior mixes, placed by the evidence of the reports, with their posterior weights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, softmax

from ldpbayes.errors import ArgumentError, shown
from ldpbayes.methods.constants import BEYOND, CURVE, FARTHEST, NOTHING
from ldpbayes.priors.mixing import Mixing

#: t (k, n) and the indices of their integrands → log-evidences and their errors, (k, n).
LogEvidences = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Any]]
#: Conjugate priors → the log-evidence of all reports under each.
OfPriors = Callable[[Sequence[Any]], np.ndarray]


@dataclass(frozen=True, eq=False)
class Nodes:
    """A prior as it matters under a likelihood: conjugate priors with their posterior weights.

    Attributes
    ----------
    mixing : Mixing
    z : (k, d) array
        Coordinates; −inf at an atom.
    step : (k, d) array
        Distances between neighbours.
    priors : tuple
        The conjugate prior at each node.
    weights : (k,) array
        Posterior weights, which sum to one.
    log_evidence : float
        log ∫ (evidence given z) × (prior of z).
    log_evidences : (k,) array
        The log-evidence given each node.
    error : float
        Error of log_evidence by the rule.
    noise : (k,) array or 0
        Monte Carlo errors of log_evidences, where draws correct them.
    shift : (k,) array or 0
        What draws add to log_evidences.
    """

    mixing: Mixing
    z: np.ndarray
    step: np.ndarray
    priors: tuple
    weights: np.ndarray
    log_evidence: float
    log_evidences: np.ndarray
    error: float
    noise: Any
    shift: Any

    @classmethod
    def alone(cls, prior: Any, log_evidence: float = 0.0) -> "Nodes":
        """Return the one node that a conjugate prior is."""
        none, certain = np.zeros((1, 0)), np.ones(1)
        return cls(Mixing.alone(prior), none, none, (prior,), certain, log_evidence, np.array([log_evidence]), 0.0, 0.0, 0.0)

    @property
    def single(self) -> bool:
        """Whether the prior is conjugate itself."""
        return self.mixing.single

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.priors)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The hyperparameters at each node."""
        return self.mixing.values(self.z)

    @property
    def atoms(self) -> np.ndarray:
        """Which nodes are of the atom, (k,)."""
        return np.isneginf(self.z).any(axis=1)

    def nearest(self, chosen: np.ndarray) -> np.ndarray:
        """Return the index of the nearest of some nodes, for every node."""
        z = np.maximum(self.z, -2 * FARTHEST)
        return np.flatnonzero(chosen)[((z[:, None] - z[None, chosen]) ** 2).sum(axis=2).argmin(axis=1)]

    def density(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (t, the posterior density there, with sum one) of the one coordinate: a curve through the log-evidences.

        Beyond the nodes the log-evidence goes on in a straight line. What draws add is noise where nodes have few: a curve
        through it would swing, and a line beyond it rise without end, so that it goes from node to node and stays beyond.
        """
        from scipy.interpolate import CubicSpline

        places = self.z[:, 0]
        t = np.linspace(places[0] - BEYOND, places[-1] + BEYOND, CURVE)
        inside, curve = np.clip(t, places[0], places[-1]), CubicSpline(places, self.log_evidences - self.shift)
        added = np.interp(inside, places, np.broadcast_to(self.shift, places.shape))
        return t, softmax(curve(inside) + curve(inside, 1) * (t - inside) + added - 0.5 * t**2)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the one coordinate."""
        t, density = self.density()
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
        return np.interp(np.asarray(levels) * cdf[-1], cdf, t)

    def draws(self, node: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of z for each draw of P, given the node that it came from, shape (S, d).

        Nodes share the posterior of one coordinate out in order: the first has the lowest part with its weight, and so on.
        Of several coordinates a draw lies between its node and the neighbours. All are drawn in until their moments equal
        the nodes'.

        References
        ----------
        Liu and West (2001), on draws about points that keep the covariance of the points.
        """
        if self.single or self.z.shape[1] > 1:
            return self._between(node, rng)
        order = np.argsort(self.z[node, 0], kind="stable")
        out = np.empty((node.size, 1))
        out[order, 0] = self.quantile((np.arange(node.size) + rng.random(node.size)) / node.size)
        return out

    def _between(self, node, rng):
        out = self.z[node]
        for atom in (False, True):
            part = self.atoms[node] == atom
            free = slice(int(atom), None)
            z, step = out[part, free], self.step[node[part], free]
            if len(z) < 2 or not z.shape[1]:
                continue
            mean, about = z.mean(axis=0), np.diag((step**2).mean(axis=0) / 6)  # of a triangle of this half-width
            within = np.cov(z.T).reshape(about.shape) + 1e-12 * np.eye(len(about))
            moved = z + step * (rng.random(z.shape) - rng.random(z.shape)) - mean
            narrow = np.linalg.cholesky(within) @ np.linalg.inv(np.linalg.cholesky(within + about))
            out[part, free] = mean + moved @ narrow.T
        return out


@dataclass(frozen=True)
class Placement:
    """Where the nodes of a prior stand: a trapezoid rule in t ~ N(0, 1), a product of rules for several coordinates.

    Attributes
    ----------
    nodes : int
        Nodes of a rule. Derived: the error of the rule, which is stated, is 1e-6 nats with them: a trapezoid rule at steps
        of h sd misses e^−2π²/h². Bank: half and double show nothing but their time.
    reach : float
        Prior sds that a rule reaches out to at first, before the reports are looked at. Derived: 1e-6 of the prior lies
        beyond. Bank: half and double show nothing.
    drop : float
        Nats below the largest density at which a rule ends, and nodes are left out. Derived: e⁻¹⁰ of the mass is left out,
        and stated.
    moved : float
        Posterior sds by which the mean of the nodes may be away from the point that reports are expanded at. Derived:
        weights correct what is left, by a few effective draws in a hundred. Bank: half and double show nothing.
    enough : int
        Weighted draws of a node, in each of several cells, from which its evidence is corrected by them alone. Derived: the
        error of their mean is then 1/√50 of a weight's. The product over many cells has a large error where there are
        fewer. Bank: half and double change no number.
    """

    nodes: int = 13
    reach: float = 5.0
    drop: float = 10.0
    moved: float = 0.1
    enough: int = 50

    def expected(self, mixing: Mixing) -> int:
        """Return about how many nodes a prior has: half of the nodes of a rule have weight."""
        return math.ceil(self.nodes / 2) ** mixing.size

    def place(
        self, mixing: Mixing, log_evidences: OfPriors, rough: OfPriors | None = None, near: Nodes | None = None
    ) -> Nodes:
        """Return the nodes of what a prior mixes.

        Parameters
        ----------
        mixing : Mixing
        log_evidences : callable
            Conjugate priors → the log-evidence of the reports under each.
        rough : callable, optional
            A faster one, accurate to some hundredths, for placing the nodes.
        near : Nodes, optional
            Of a log-evidence that differs little: the search starts there.
        """
        if mixing.single:
            prior = mixing.given()
            return Nodes.alone(prior, float(log_evidences([prior])[0]))
        atoms = (False, True) if mixing.atom else (False,)
        parts = [self._part(mixing, log_evidences, rough, near, atom) for atom in atoms]
        z, step, value, log_mass = (np.concatenate(arrays) for arrays in zip(*(part[:4] for part in parts), strict=True))
        total, weight = float(logsumexp(log_mass)), softmax(log_mass)
        heavy = weight > math.exp(-self.drop)
        weights = weight[heavy] / weight[heavy].sum()
        error = max(part[4] for part in parts)
        return Nodes(
            mixing, z[heavy], step[heavy], tuple(mixing.at(z[heavy])), weights, total, value[heavy], error, 0.0, 0.0
        )

    def _part(self, mixing, log_evidences, rough, near, atom):
        """Return (z, steps, log-evidences, log masses, error) of the nodes of the atom, or of the rest."""
        known = None if near is None else near.z[near.atoms == atom][:, int(atom) :]
        size = mixing.size - atom

        def at(free):
            return np.concatenate([np.full((len(free), int(atom)), -np.inf), free], axis=1)

        def along(point):
            return lambda t, _: (point(mixing.at(at(t.reshape(-1, size)))).reshape(t.shape[:2]), 0.0)

        low, high = self._ends(known, size)
        quick = None if rough is None else along(rough)
        if size == 1:
            t, value, log_mass, error = self.integrated(along(log_evidences), quick, low, high)
            free, step = t.reshape(-1, 1), np.full((t.size, 1), t[0, 1] - t[0, 0])
        else:
            free, step, value, log_mass, error = self._box(along(log_evidences), low, high)
        log_mass = log_mass.ravel() + math.log(mixing.atom if atom else 1 - mixing.atom)
        return at(free), at(step), value.ravel(), log_mass, float(error[0])

    def _ends(self, known, size):
        """Return the first ends of the rules in all coordinates, two (d,) arrays."""
        low, high = np.full(size, -self.reach), np.full(size, self.reach)
        if known is not None and len(known):
            low, high = known.min(axis=0), known.max(axis=0)
            alone = 0.5 * (low == high)  # a single node, where reports leave one value
            low, high = low - alone, high + alone
        return low, high

    def _box(self, log_evidence, low, high):
        """Return (nodes (k, d), their steps, log-evidences, log masses, (k,), error (1,)) of a product of rules.

        A side ends, and is placed anew, as a rule of its own does by the largest density across the others.
        """
        d = low.size
        for _ in range(6):
            sides = np.linspace(low, high, self.nodes, axis=1)
            grid = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(1, -1, d)
            value = _finite(*log_evidence(grid, None))[0][0]
            log_density = value - 0.5 * (grid[0] ** 2).sum(axis=1)
            shaped = log_density.reshape([self.nodes] * d)
            across = np.array([shaped.max(axis=tuple(k for k in range(d) if k != side)) for side in range(d)])
            low, high, moved = self._moved(sides, across)
            if not moved.any():
                break
        step = sides[:, 1] - sides[:, 0]
        log_mass = log_density + np.log(step).sum() - 0.5 * d * math.log(2 * math.pi)
        halves = shaped[(slice(None, None, 2),) * d]
        change = logsumexp(log_density) - logsumexp(halves) - d * math.log(2)
        error = np.array([change**2 + 2 * d * ndtr(-math.sqrt(2 * self.drop))])
        return grid[0], np.broadcast_to(step, grid[0].shape), value, log_mass, error

    def integrated(self, log_evidence: LogEvidences, rough: LogEvidences | None, low: np.ndarray, high: np.ndarray) -> tuple:
        """Return (t, log-evidences, logs of evidence × N(t; 0, 1) × step, three (k, nodes) arrays; error of the sums, (k,)).

        The trapezoid rule between the ends that a look at the whole range shows; where these are far apart, between those
        that it shows itself. For smooth densities that die out, twice the nodes square its error, so that this is the
        square of what half of the nodes change; the mean error of the evidences and what lies beyond the ends add to it.

        Parameters
        ----------
        log_evidence, rough : LogEvidences
            The second places the nodes.
        low, high : (k,) arrays
            The first ends.
        """
        k = low.size
        every, (t, value, off) = np.arange(k), np.zeros((3, k, self.nodes))
        for _ in range(6):
            t[every] = np.linspace(low[every], high[every], self.nodes, axis=1)
            value[every], off[every] = _finite(*(rough or log_evidence)(t[every], every))
            low[every], high[every], moved = self._moved(t[every], value[every] - 0.5 * t[every] ** 2)
            every = every[moved]
            if not every.size:
                break
        if rough is not None:
            value, off = _finite(*log_evidence(t, np.arange(k)))
        log_density = value - 0.5 * t**2
        totals = [logsumexp(log_density[:, ::step], axis=1) + np.log(t[:, step] - t[:, 0]) for step in (1, 2)]
        error = (softmax(log_density, axis=1) * off).sum(axis=1) + (totals[0] - totals[1]) ** 2
        log_mass = log_density + np.log(t[:, 1] - t[:, 0])[:, None] - 0.5 * math.log(2 * math.pi)
        return t, value, log_mass, error + 2 * ndtr(-math.sqrt(2 * self.drop))

    def _moved(self, t, log_density):
        """Return (low, high, whether the rule is to be placed there): the nodes next to those within ``drop`` of the top."""
        k, inside = np.arange(len(t)), log_density > log_density.max(axis=1, keepdims=True) - self.drop
        first, last = inside.argmax(axis=1), self.nodes - 1 - inside[:, ::-1].argmax(axis=1)
        step = t[:, 1] - t[:, 0]
        low, high = np.maximum(t[k, first] - step, -FARTHEST), np.minimum(t[k, last] + step, FARTHEST)
        cut = (inside[:, 0] & (low < t[:, 0])) | (inside[:, -1] & (high > t[:, -1]))
        return low, high, cut | (last - first < 2 * self.nodes // 3)


def checked_placement(value: Any, name: str) -> Placement:
    """Return a Placement, which is checked to be one."""
    if not isinstance(value, Placement):
        raise ArgumentError(f"{name} must be a Placement, got {shown(value)}.")
    return value


def _finite(value, error):
    """Return log-evidences and their errors, those that are not known as ones without weight."""
    return np.where(np.isfinite(value), value, NOTHING), error
