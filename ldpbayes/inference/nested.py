"""Posteriors with few hyperparameters: a Gaussian core at each node of a grid of these, and weighted draws about the cores.

Given the hyperparameters the other unknowns are nearly normal. Newton's method finds their mode and precision at the nodes
that matter, draws of these normal laws get importance weights, and the mean weight of a node is its evidence. Several
families of unknowns may share the hyperparameters; given these they are independent, so that their evidence multiplies.

Where reports bound an unknown on one side only, the posterior is a wide prior with a cliff, which Laplace's approximation at
the mode misses on one side or the other, and chains cross slowly. There the normal law about the mode has a share of the
information of the reports. Particles are drawn from it, and the density is changed to the posterior's by steps (annealed
importance sampling; Neal, 2001); between steps each particle moves by a trajectory that leaves the density of the step as it
is. The product of the ratios along the way is the particle's weight; weights are judged like those of plain draws.

References
----------
Rue, Martino, Chopin (2009), JRSS B 71, on grids of hyperparameters; Neal (2001), Statistics and Computing 11.
"""

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError
from scipy.special import logsumexp, softmax

from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.constants import PARTICLES_TOGETHER, VISITED
from ldpbayes.inference.handover import Handover, hand_over, in_order
from ldpbayes.inference.hmc import rotated
from ldpbayes.inference.importance import WeightedDraws, resample, weigh
from ldpbayes.inference.newton import Steps, climb
from ldpbayes.inference.proposals import StudentT
from ldpbayes.inference.structure import Factor, positive
from ldpbayes.inference.verdict import Verdict, together


@dataclass(frozen=True)
class Annealing:
    """How draws are made: plain weighted ones at first, then rounds of particles that move, each with shorter steps.

    A round k from 1 on keeps a share 1 − lost/k of the effective particles at a step, and its particles start from a normal
    law with a share 2^−k of the information of the reports: a narrower start leaves weights heavy tails. From the second on
    it draws twice the particles of the one before.

    Attributes
    ----------
    rounds : int
        Rounds of particles that move. Bank: without the second and third two of 8 are lost; of 21 problems whose draws are
        weighted first, 17 need one.
    lost : float
        Share of the effective particles that a step of the first round may lose. Bank: half and double show nothing.
    drawn : int
        Draws of a family that are weighted, at least. Bank: half and double show nothing.
    pilot : int
        Particles of the run that chooses the steps; a quarter of them are drawn of every node, at least. Bank: half and
        double show nothing.
    """

    rounds: int = 3
    lost: float = 0.03
    drawn: int = 600
    pilot: int = 80


ANNEALING = Annealing()
WAYS = ("weighted", *(f"annealed {number}" for number in range(1, ANNEALING.rounds + 1)))


class Family(Protocol):
    """Unknowns g, an array of any shape, that are nearly normal given the hyperparameters.

    Log-densities leave out (2π) to minus half the number of unknowns.
    """

    @property
    def visited(self) -> int:
        """Numbers that one evaluation of the density visits."""

    def start(self) -> np.ndarray:
        """Return where to look for the mode at the first node."""

    def log_density_and_gradient(self, g: np.ndarray, *at: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of likelihood times prior, (S,), of draws g (S, …) at a node, and its gradient, (S, …)."""

    def information(self, g: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of the log-likelihood, its mean over draws g (S, …), as ``factor`` takes it."""

    def factor(self, information: np.ndarray, *at: float) -> Factor:
        """Return the factor of the prior's precision plus an information; a LinAlgError where it is not positive."""

    def left_out(self, g: np.ndarray, nodes: Sequence[tuple[float, ...]]) -> np.ndarray | float:
        """Return the log of the prior over that of the sum over nodes, at draws g (S, …): what a grid leaves out."""

    def judged(self, g: np.ndarray) -> np.ndarray:
        """Return the quantities (S, k) of draws by which weights are judged."""


class Grid(NamedTuple):
    """A grid of hyperparameters.

    Attributes
    ----------
    axes : tuple of arrays
        Values of each, increasing.
    first : tuple of int
        The node where the search begins.
    log_prior : callable
        Values of a node → log of its prior mass, up to a constant; what families share and their densities leave out.
    fall : float
        Nodes whose evidence is more nats below the best one are left out.
    most : int
        Nodes.
    """

    axes: tuple[np.ndarray, ...]
    first: tuple[int, ...]
    log_prior: Callable[..., float]
    fall: float
    most: int


class Core(NamedTuple):
    """A normal approximation: its centre, the factor of its precision, and Laplace's log-evidence."""

    centre: np.ndarray
    factor: Factor
    log_evidence: float

    def log_ratio_and_gradient(self, family: Family, at: tuple, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (log of posterior over approximation, its gradient) at standard draws z.

        The mean of its exponential is the evidence.
        """
        value, slope = family.log_density_and_gradient(self.centre + self.factor.spread(z), *at)
        return value + 0.5 * (z**2).sum(axis=1) - self.factor.half_log_det, self.factor.pull(slope) + z


class Drawn(NamedTuple):
    """Weighted draws of one family.

    Attributes
    ----------
    node : (S,) int array
    g : (S, …) array
    log_ratio : (S,) array
        Log of posterior over proposal given the node; the mean exponential over a node's draws estimates its evidence.
    """

    node: np.ndarray
    g: np.ndarray
    log_ratio: np.ndarray

    def evidence(self, nodes: int) -> np.ndarray:
        """Return the log-evidence of each node."""
        ratios = [self.log_ratio[self.node == i] for i in range(nodes)]
        return np.array([logsumexp(ratio) - math.log(ratio.size) for ratio in ratios])


@dataclass(frozen=True, eq=False)
class Cores:
    """Normal approximations of families at the nodes of a grid that matter.

    Attributes
    ----------
    families : sequence of Family
    at : list of tuple
        Values of the hyperparameters at each node.
    log_prior : (nodes,) array
    cores : list of list of Core
        By family and node.
    """

    families: Sequence[Any]
    at: list[tuple[float, ...]]
    log_prior: np.ndarray
    cores: list[list[Core]]

    @classmethod
    def of(cls, families: Sequence[Any], grid: Grid, watch: Any = None) -> "Cores":
        """Return Laplace's approximations, from the first node outwards: the neighbours of the best node come next.

        Parameters
        ----------
        families : sequence of Family
        grid : Grid
        watch : Watch, optional
        """

        def values(place):
            return tuple(float(axis[i]) for axis, i in zip(grid.axes, place, strict=True))

        def settle(place, starts):
            cores = [conditional_mode(family, values(place), start) for family, start in zip(families, starts, strict=True)]
            return cores, grid.log_prior(*values(place)) + sum(core.log_evidence for core in cores)

        settled_at = {grid.first: settle(grid.first, [family.start() for family in families])}
        waiting = [(-settled_at[grid.first][1], grid.first)]
        rounds = iter(range(grid.most) if watch is None else watch.track(range(grid.most), "Modes over a grid of scales"))
        next(rounds)
        while waiting and len(settled_at) < grid.most:
            negative, place = heapq.heappop(waiting)
            if -negative < max(mass for _, mass in settled_at.values()) - grid.fall:
                break
            for k, axis in enumerate(grid.axes):
                for way in (-1, 1):
                    neighbour = tuple(i + way * (j == k) for j, i in enumerate(place))
                    if neighbour in settled_at or not 0 <= neighbour[k] < len(axis) or len(settled_at) >= grid.most:
                        continue
                    settled_at[neighbour] = settle(neighbour, [core.centre for core in settled_at[place][0]])
                    heapq.heappush(waiting, (-settled_at[neighbour][1], neighbour))
                    next(rounds, None)
        for _ in rounds:  # the bar ends full
            pass
        best = max(mass for _, mass in settled_at.values())
        kept = sorted(place for place, (_, mass) in settled_at.items() if mass > best - grid.fall)
        at = [values(place) for place in kept]
        cores = [[settled_at[place][0][c] for place in kept] for c in range(len(families))]
        return cls(families, at, np.array([grid.log_prior(*point) for point in at]), cores)

    @property
    def evidences(self) -> list[np.ndarray]:
        """Laplace's log-evidence at each node, (nodes,), of each family."""
        return [np.array([core.log_evidence for core in cores]) for cores in self.cores]

    @property
    def log_evidence(self) -> float:
        """Log-evidence of all families, summed over the nodes."""
        return float(logsumexp(self.log_prior + sum(self.evidences)))

    def share(self, evidences: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probabilities of the nodes from the log-evidences of each family, (nodes,)."""
        return softmax(self.log_prior + sum(evidences))

    def drawn(
        self, c: int, evidences: Sequence[np.ndarray], total: int, number: int, rng: np.random.Generator, watch: Any = None
    ) -> Drawn:
        """Return weighted draws of family c.

        Parameters
        ----------
        c : int
        evidences : sequence of (nodes,) arrays
            What is known of the log-evidences of each family.
        total : int
            Particles in the first rounds.
        number : int
            The round, from 0.
        rng : Generator
        watch : Watch, optional
        """
        family, plans, estimates = self.families[c], [], evidences[c].copy()
        for i, (core, at) in enumerate(zip(self.cores[c], self.at, strict=True)):
            if not number:
                plans.append(
                    (core, partial(_plain, partial(core.log_ratio_and_gradient, family, at), core.centre.size), None)
                )
                continue
            begun, near = time.process_time(), _wider(family, at, core, 0.5**number)
            path: list[tuple[float, float]] = []
            start = partial(annealed, partial(near.log_ratio_and_gradient, family, at), core.centre.size, path)
            pilot = start(1 - ANNEALING.lost / number, ANNEALING.pilot, rng)
            estimates[i] = logsumexp(pilot[1]) - math.log(ANNEALING.pilot)
            plans.append((near, partial(start, 0.0), pilot))
            if watch:
                pilots = len(self.at) + 2 ** (number - 1) * total / ANNEALING.pilot
                watch.announce("Annealed importance sampling", pilots * (time.process_time() - begun))
        share = self.share([estimates if k == c else evidence for k, evidence in enumerate(evidences)])
        sizes = np.maximum(np.ceil(2 ** max(number - 1, 0) * total * share), ANNEALING.pilot // 4).astype(int)
        block = min(PARTICLES_TOGETHER, max(VISITED // family.visited, 1))
        node, g, log_ratio = [], [], []
        for i, ((near, run, pilot), size) in enumerate(zip(plans, sizes.tolist(), strict=True)):
            runs: list[Any] = [] if pilot is None else [pilot]  # enough for a node with next to no probability
            if not runs or size > ANNEALING.pilot:
                runs = [run(piece.size, rng) for piece in np.array_split(np.arange(size), -(-size // block))]
            for z, log_weight in runs:
                g.append(near.centre + near.factor.spread(z))
                log_ratio.append(log_weight + family.left_out(g[-1], self.at))
                node.append(np.full(log_weight.size, i))
        return Drawn(np.concatenate(node), np.concatenate(g), np.concatenate(log_ratio))

    def weighed(self, c: int, drawn: Drawn, evidences: Sequence[np.ndarray]) -> WeightedDraws:
        """Return the weights of the draws of family c over all nodes, given what is known of the others' evidences."""
        log_others = self.log_prior + sum(evidence for k, evidence in enumerate(evidences) if k != c)
        sizes = np.bincount(drawn.node, minlength=len(self.at))
        log_node = log_others + np.log(drawn.node.size / sizes)
        return weigh(self.families[c].judged(drawn.g), drawn.log_ratio + log_node[drawn.node])


@dataclass(frozen=True, eq=False)
class Nested:
    """Draws of families that share hyperparameters.

    Attributes
    ----------
    g : tuple of (S, …) arrays
        Equally likely draws, by family: in one draw all have one node.
    at : (S, hyperparameters) array
        Values at the node of each draw.
    drawn, weights : tuples of Drawn and WeightedDraws
        By family: what the draws were taken from.
    outcome : Handover
        Its name is one of WAYS, its answer the Verdict on the weights of all families.
    """

    g: tuple[np.ndarray, ...]
    at: np.ndarray
    drawn: tuple[Drawn, ...]
    weights: tuple[WeightedDraws, ...]
    outcome: Handover

    @property
    def way(self) -> str:
        """Whether draws are plain weighted ones, or particles that moved: "weighted" or "annealed"."""
        return self.outcome.name.split()[0]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the weights of all families."""
        return self.outcome.answer

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdict on the weights of each family."""
        return tuple(weighted.judged(len(self.at)) for weighted in self.weights)

    @property
    def k_hat(self) -> float:
        """Worst Pareto k-hat over families."""
        return max(weighted.k_hat for weighted in self.weights)

    @property
    def effective(self) -> float:
        """Least number, over families, of independent draws that the weighted draws are worth."""
        return min(*(weighted.effective_sample for weighted in self.weights), float(len(self.at)))


def nested(
    cores: Cores,
    draws: int,
    rng: np.random.Generator,
    ways: Sequence[str] = WAYS,
    watch: Any = None,
    what: str = "curves",
) -> Nested:
    """Return draws of families of unknowns that share hyperparameters.

    Draws of the normal approximations get importance weights. Where these are not accepted, particles move from there to the
    posterior step by step, also where more draws would do.

    Parameters
    ----------
    cores : Cores
    draws : int
    rng : Generator
    ways : sequence of str
        Names from WAYS. Each way draws the families anew whose weights the way before it left unaccepted.
    watch : Watch, optional
    what : str
        What there are several of.
    """
    evidences, total = cores.evidences, max(draws, ANNEALING.drawn)
    drawn: list[Any] = [None] * len(evidences)
    weights: list[Any] = [None] * len(evidences)

    def run(way):
        nonlocal evidences, weights
        for c, weighted in enumerate(weights):
            if weighted is None or not weighted.judged(draws).accepted:
                drawn[c] = cores.drawn(c, evidences, total, WAYS.index(way), rng, watch)
        evidences = [family.evidence(len(cores.at)) for family in drawn]
        weights = [cores.weighed(c, family, evidences) for c, family in enumerate(drawn)]
        return together((weighted.judged(draws) for weighted in weights), what)

    outcome = hand_over(in_order({way: partial(run, way) for way in ways}), lambda verdict: verdict.problem)
    node, picked = _joined(cores.share(evidences), drawn, weights, draws, rng)
    g = tuple(family.g[place] for family, place in zip(drawn, picked, strict=True))
    return Nested(g, np.array(cores.at)[node], tuple(drawn), tuple(weights), outcome)


def conditional_mode(family: Family, at: tuple, start: np.ndarray) -> Core:
    """Return the Core at a node: Newton's method, with a positive stand-in where the Hessian is none.

    Parameters
    ----------
    family : Family
    at : tuple of float
    start : array

    Raises
    ------
    ConvergenceError
        Where there is none.
    """

    def density(g):
        value, slope = family.log_density_and_gradient(g[None], *at)
        return float(value[0]), slope[0]

    def newton(g, slope):
        information, sure = family.information(g[None]), True
        try:
            factor = family.factor(information, *at)
        except LinAlgError:
            sure, factor = False, _sure(family, information, at)
        step = factor.solve(slope)
        gain = float((slope * step).sum())
        return step, gain if sure else max(gain, Steps.settled), factor

    g, value, factor = climb(density, newton, start)
    return Core(g, factor, value - factor.half_log_det)


def _sure(family, information, at):
    try:
        return family.factor(positive(information), *at)
    except LinAlgError:
        raise ConvergenceError("There is no normal approximation; use fewer unknowns.") from None


def _wider(family, at, core, share):
    """Return the normal law about the mode with a share of the information of the reports."""
    information = positive(family.information(core.centre[None]))
    return Core(core.centre, _sure(family, share * information, at), core.log_evidence)


def _joined(share, drawn, weights, draws, rng):
    """Return (node of each draw, places of equally likely draws of each family): in one draw all families have one node."""
    chosen = np.bincount(resample(share, rng, draws), minlength=share.size)
    order = rng.permutation(draws)
    every = []
    for family, weighted in zip(drawn, weights, strict=True):
        picked = []
        for i in np.flatnonzero(chosen).tolist():
            mine = np.flatnonzero(family.node == i)
            picked.append(mine[rng.permutation(resample(softmax(weighted.log_weight[mine]), rng, chosen[i]))])
        every.append(np.concatenate(picked)[order])
    return np.repeat(np.arange(len(share)), chosen)[order], every


def _plain(ratio, u, size, rng):
    """Return (z, log-weights) of draws of a multivariate t, whose tails reach where the posterior does."""
    z, log_proposal = StudentT(np.zeros(u), np.eye(u), max(8.0, 1.5 * u)).draw(size, rng)
    return z, ratio(z)[0] - 0.5 * (z**2).sum(axis=1) - 0.5 * u * math.log(2 * math.pi) - log_proposal


def annealed(ratio, u, path, kept, size, rng):
    """Return (z, log-weights) of particles after all steps, which begin as standard normal draws.

    Parameters
    ----------
    ratio : callable
        Draws (S, u) → (log of a density over the standard normal one, its gradient).
    u : int
        Unknowns.
    path : list of (power, angle)
        The steps; where it is empty they are chosen, so that each keeps a share ``kept`` of the effective particles.
    kept : float
    size : int
    rng : Generator
    """
    z = rng.standard_normal((size, u))
    value, slope = ratio(z)
    log_weight, power, angle = np.zeros(len(z)), 0.0, 0.7
    chosen = bool(path)
    k = 0
    while power < 1.0:
        fresh, angle = path[k] if chosen else (_next(log_weight, value, power, kept), angle)
        log_weight = log_weight + (fresh - power) * value
        power = fresh
        if not chosen:
            path.append((power, angle))
        if power < 1.0:
            z, value, slope, accepted = _trajectory(ratio, power, z, value, slope, angle, rng)
            change = np.clip(1.5 * (accepted - 0.75), -0.7, 0.3)  # to where three trajectories of four are accepted
            angle = float(np.clip(angle * math.exp(change), 0.02, 1.2))
        k += 1
    return z, log_weight


def _next(log_weight, value, power, kept):
    """Return the power at which the weights of a step keep a share of the effective particles."""
    weight = softmax(log_weight)

    def share(fresh):
        gain = (fresh - power) * value
        gain = np.exp(gain - gain.max())
        return (weight @ gain) ** 2 / (weight @ gain**2)

    if share(1.0) >= kept:
        return 1.0
    low, high = power, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) >= kept else (low, middle)
    return min(max(low, power + 1e-4), 1.0)


def _trajectory(ratio, power, z, value, slope, angle, rng):
    """Return (z, log-ratio, its gradient, mean acceptance) after a trajectory of every particle.

    The density is that of the approximation times the ratio to a power. The normal part is followed exactly, by rotation;
    leaps correct for the rest.
    """
    momentum = rng.standard_normal(z.shape)
    begin = power * value - 0.5 * (z**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
    turn = angle * rng.uniform(0.85, 1.0)
    steps = min(10, math.ceil(0.5 * math.pi / angle))

    def force(at):
        reached, pull = ratio(at)
        return reached, power * pull

    at, momentum, reached, pull = rotated(z, momentum, power * slope, turn, steps, force)
    end = power * reached - 0.5 * (at**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        chance = np.exp(np.minimum(np.nan_to_num(end - begin, nan=-math.inf, posinf=0.0), 0.0))
    accept = rng.random(len(z)) < chance
    keep = accept[:, None]
    return np.where(keep, at, z), np.where(accept, reached, value), np.where(keep, pull / power, slope), float(chance.mean())
