"""Chains of effects whose scales are learnt: Hamiltonian Monte Carlo, and the No-U-Turn sampler where that does not hold.

A regression with groups and a table with interactions have the same unknowns: coefficients that are standard normal, and
batches of standard normal effects, each times a scale e^s. Chains move in coordinates in which the effects hardly depend on
their scale.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldpbayes.inference import hmc
from ldpbayes.inference.bending import Bend
from ldpbayes.inference.chains import least_effective
from ldpbayes.inference.diagnostics import chain_numbers, entries_of_chains
from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.inference.nuts import sample_density
from ldpbayes.inference.structure import curvature, roots, spread
from ldpbayes.inference.verdict import MAX_R_HAT

#: Trajectories of all chains in each round that says where the posterior lies, and how many such rounds there are; one will
#: do from draws of it.
PILOT, ROUNDS = 240, 3
#: Where log σ starts: the mode of a small sd between groups lies far from its mass.
FIRST_SCALE = -1.0
#: Chains go on until the worst unknown is worth so many draws and interval ends have errors below so many posterior sd.
#: Chains that nobody asked for by name go on, where more of them are needed, until errors are below the second of these.
ENOUGH, AIMED, ACCEPTABLE = 1000, 0.028, 0.035
#: There are at most so many times the draws asked for. Chains that nobody asked for by name have more where gradients cost
#: less than so many entries of the likelihood in all, or the second of these until ends are acceptable. A gradient costs
#: its entries and EACH more, or the second of these where the sampler calls it back.
MOST_TIMES, COSTS, EACH, MOST_DRAWN = 4, (4e8, 1.6e9), (300, 3000), 2**17
#: Powers of two by which the draws grow at a time.
FASTEST = 2
#: At most this share of an effect counts as decided by the reports.
MOST_SHARE = 0.98
#: NUTS: draws of a short run, discarded ones before it and before the run that is kept, acceptance rates of one run and,
#: where draws diverged, of another.
SHORT, TUNE, ACCEPTANCE = 200, 200, (0.85, 0.99)


class Target(Protocol):
    """A posterior density of such unknowns.

    Attributes
    ----------
    batches : sequence of Batch
    entries : object
        Of the likelihood: how many numbers a gradient visits.
    kernel : tuple or None
        What the compiled density reads: (first, fixed, shape of the coefficients, what ``likelihood`` takes after them).
    """

    batches: Any
    visited: int
    kernel: tuple | None

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density of the unknowns z (u,), up to a constant, and its gradient."""


class Run(NamedTuple):
    """Unknowns (chains, draws, u), statistics by ArviZ's names, and what is wrong or an empty string."""

    z: np.ndarray
    stats: dict
    trouble: str


def sample(
    target: Target,
    start: np.ndarray,
    draws: int,
    chains: int,
    rng: np.random.Generator,
    watch: Any,
    *,
    values: Callable[[np.ndarray], np.ndarray] | None = None,
    prob: float = 0.95,
    method: str = "auto",
) -> tuple[Run, str]:
    """Return (Run, name of the sampler).

    Chains that are short of effective draws, or whose interval ends are uncertain, go on: there are a multiple of the draws
    asked for. An interruption leaves fewer.

    Parameters
    ----------
    target : Target
    start : (u,) or (S, u) array
        The mode, or draws of the posterior.
    draws, chains : int
    rng : numpy.random.Generator
    watch : Watch
    values : callable, optional
        z (S, u) → quantities (S, …) whose interval ends are judged.
    prob : float
        Of the intervals.
    method : {"auto", "hmc", "nuts"}
        ``auto`` goes on with NUTS where trajectories do not hold.
    """
    size = start.shape[-1]
    if start.ndim == 1:
        centre = start.copy()
        for batch in target.batches:
            centre[batch.place] = max(centre[batch.place], FIRST_SCALE)
        density, at = Bent(target, centre, np.zeros(size)), [rng.standard_normal(size) for _ in range(chains)]
    else:
        density = Bent.about(target, start)
        at = list(density.back(start[rng.integers(len(start), size=chains)]))
    steps = hmc.FIRST_STEPS
    for _ in range(ROUNDS if start.ndim == 1 else 1):
        steps = min(hmc.tried(density.pair, at, steps, rng), hmc.MAX_STEPS)
        u, _ = hmc.moved(density.pair, at, steps, math.ceil(PILOT / chains), rng)
        z, last = density.of(u[:, u.shape[1] // 3 :].reshape(-1, size)), density.of(np.array(at))
        density = Bent.about(target, z)
        at = list(density.back(last))
    settings = {"draws": draws, "visited": target.visited, "values": values, "prob": prob, "watch": watch}
    going = partial(_going_on, **settings, free=method == "auto")

    def along(steps, number):
        (u, stats), trouble = hmc.sampled(density.pair, at, steps, number, rng, watch)
        return Run(density.of(u), stats, trouble)

    def by_hmc():
        steps = min(hmc.tried(density.pair, at, hmc.FIRST_STEPS, rng), hmc.MAX_STEPS)
        while True:
            found = going(partial(along, steps), each=EACH[0])
            steps *= 2
            if not found.trouble or watch.interrupted or steps > hmc.MAX_STEPS:
                return found

    ways = {"hmc": by_hmc, "nuts": lambda: _by_nuts(density, z, chains, rng, watch, going)}
    asked = {name: way for name, way in ways.items() if method in ("auto", name)}
    outcome = hand_over(in_order(asked), lambda found: "" if watch.interrupted else found.trouble)
    return outcome.answer, outcome.name


def _going_on(more, *, draws, visited, values, prob, watch, free, each):
    """Return the Run of 1, 2, 4, … times the draws asked for, as ends and effective draws ask."""
    runs, number, cost = [], draws, 0.0
    while True:
        found = more(number)
        stop = bool(found.trouble) or watch.interrupted
        if not stop or not runs:
            runs.append(found)
        z = np.concatenate([run.z for run in runs], axis=1)
        cost += float(found.stats["n_steps"].sum()) * (visited + each)
        size = z.shape[1]
        worst = 0.0 if values is None or size < 4 else end_errors(values, z, prob).max()
        ess = least_effective(z) if size >= 4 else ENOUGH
        wanted = max(worst / AIMED, math.sqrt(ENOUGH / max(ess, 1.0))) ** 2
        most = MOST_TIMES * draws / size
        if free:
            most = max(most, min(COSTS[int(worst > ACCEPTABLE)] / cost, MOST_DRAWN / (z.shape[0] * size)))
        wanted = math.ceil(math.log2(max(wanted, 1.0))) if wanted < 1e9 else FASTEST  # nan: of chains that stood still
        times = 2 ** min(wanted, math.floor(math.log2(most)), FASTEST)
        if times <= 1 and most >= 2 and not stop and size >= 4 and chain_numbers(z)[0] > MAX_R_HAT:
            times = 2
        if stop or times <= 1:
            stats = {name: np.concatenate([run.stats[name] for run in runs], axis=1) for name in runs[0].stats}
            return Run(z, stats, found.trouble)
        number = int(times - 1) * size


def end_errors(values: Callable[[np.ndarray], np.ndarray], z: np.ndarray, prob: float) -> np.ndarray:
    """Return the errors of interval ends by chains, in posterior sd.

    Parameters
    ----------
    values : callable
        z (S, u) → quantities (S, …).
    z : (chains, draws, u) array
    prob : float
        Of the intervals.
    """
    each = values(z.reshape(-1, z.shape[-1])).reshape(*z.shape[:2], -1)
    found = entries_of_chains(each[..., np.ptp(each, axis=(0, 1)) > 0], prob)
    return np.concatenate([found[name] / found["sd"] for name in ("lower_error", "upper_error")])


def _by_nuts(density, start, chains, rng, watch, going):
    """Return the Run of the No-U-Turn sampler, from draws of the sampler before it."""

    def run(acceptance, number, chains=chains, watch=watch):
        begin = density.back(start)
        settings = {"size": start.shape[1], "tune": TUNE, "target_accept": acceptance, "watch": watch}
        settings |= {"draws": number, "chains": chains}
        u, stats = sample_density(density.pair[0], lambda own: begin[own.integers(len(begin))], rng, **settings)
        return Run(density.of(u), stats, "")

    start = run(ACCEPTANCE[0], SHORT, 1, None).z[0]
    density = Bent.about(density.target, start)
    for acceptance in ACCEPTANCE:
        found = going(partial(run, acceptance), each=EACH[1])
        if not found.stats["diverging"].any() or watch.interrupted:
            break
    return found


class Bent:
    """The log-density in coordinates u that are nearly standard normal, in which effects hardly depend on their scale.

    Unknowns are bent, and the Hessian whitens what they are bent to.

    Parameters
    ----------
    target : Target
    at, precision : (u,) arrays
        Of bending.Bend.
    """

    def __init__(self, target: Target, at: np.ndarray, precision: np.ndarray):
        self.target, self.bend, self._known = target, Bend(target.batches, at, precision), None
        self.centre, self.root = at.copy(), np.eye(at.size)
        if target.kernel is not None:
            from ldpbayes.inference import _kernels

            first, fixed, shape, reports = target.kernel
            own, room = self.bend.arrays(first, fixed), tuple(np.empty(one) for one in (at.size, at.size, shape, shape))
            self._kernels = _kernels
            self._known = lambda: (room, (self.centre, self.root), own, reports)
        for batch in target.batches:
            self.centre[batch.span] = 0.0
        self.root = self.inverse = np.eye(at.size)
        self.root, self.inverse = roots(curvature(lambda u: self.value_and_gradient(u)[1], np.zeros(at.size)))

    @classmethod
    def about(cls, target: Target, draws: np.ndarray) -> "Bent":
        """Return the density bent about draws (S, u) of the unknowns, and whitened by what is left of their covariance."""
        precision = np.zeros(draws.shape[1])
        centre = draws.mean(axis=0)
        for batch in target.batches:
            span, apart = batch.span, draws[:, batch.place] - centre[batch.place]
            slope = apart @ draws[:, span] / max(float(apart @ apart), 1e-300)
            rest = (draws[:, span] - centre[span] - apart[:, None] * slope).var(axis=0)
            share = np.clip(1 - rest, 0.0, MOST_SHARE)
            precision[span] = share / (1 - share)
        found = cls(target, centre, precision)
        left, size = found.back(draws), draws.shape[1]
        if len(draws) > 2 * size:
            back, wider = spread(left)
            found.centre = found.centre + left.mean(axis=0) @ found.root
            found.root, found.inverse = wider @ found.root, found.inverse @ back
        return found

    def value_and_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at u, up to a constant, and its gradient."""
        out = np.empty(u.size)
        if self._known is not None:
            return self._kernels.density(u, out, *self._known()), out
        z = self.of(u)
        value, slope = self.bend.pulled(z, *self.target.value_and_gradient(z))
        return value, self.root @ slope

    @property
    def pair(self):
        """The density and its trajectories, as ``inference.hmc`` takes them."""
        if self._known is None:
            return self.value_and_gradient, hmc.stepwise(self.value_and_gradient)
        known = self._known()
        return self.value_and_gradient, lambda *moved: self._kernels.trajectories(*moved, *known)

    def of(self, u: np.ndarray) -> np.ndarray:
        """Return the unknowns of coordinates, shape (…, u)."""
        return self.bend.unbent(self.centre + u @ self.root)

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns, shape (…, u)."""
        return (self.bend.back(z) - self.centre) @ self.inverse
