"""Chains of effects whose scales are learnt: Hamiltonian Monte Carlo, and the No-U-Turn sampler where that does not hold.

Unknowns are coefficients that are standard normal, and batches of standard normal effects, each times a scale e^s, as in a
regression with groups. Chains move in coordinates in which the effects hardly depend on their scale.
"""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ldpbayes.inference import hmc
from ldpbayes.inference.bending import Bend
from ldpbayes.inference.chains import LEAST, least_effective
from ldpbayes.inference.diagnostics import chain_diagnostics, entries_of_chains, extremes
from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.inference.sampling import Run, by_hmc, by_nuts, going_on, settled
from ldpbayes.inference.structure import MAX_DENSE, Arrow, Dense, Plain
from ldpbayes.inference.target import Target
from ldpbayes.inference.verdict import MAX_R_HAT

#: Rounds of trajectories that say where the posterior lies.
ROUNDS = 3
#: Where log σ starts: the mode of a small sd between groups lies far from its mass.
FIRST_SCALE = -1.0
#: Chains go on until the worst unknown is worth so many draws and interval ends have errors below this share of the largest
#: that is accepted. Chains that nobody asked for by name go on, where more of them are needed, until the second share.
ENOUGH, AIMED, ACCEPTABLE = 1000, 0.7, 0.875
#: There are at most so many times the draws asked for. Chains that nobody asked for by name have more where gradients cost
#: less than so many entries of the likelihood in all, or the second of these until ends are acceptable. A gradient costs
#: its entries and EACH more, or the second of these where the sampler calls it back, the third where it is not compiled.
MOST_TIMES, COSTS, EACH, MOST_DRAWN = 4, (4e8, 1.6e9), (300, 3000, 20_000), 2**17
#: Powers of two by which the draws grow at a time.
FASTEST = 2
#: At most this share of an effect counts as decided by the reports.
MOST_SHARE = 0.98
#: NUTS: draws of a short run, discarded ones before it and before the run that is kept, acceptance rates of one run and,
#: where draws diverged, of another.
SHORT, TUNE, ACCEPTANCE = 200, 200, (0.85, 0.99)


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
    allowed: float = 0.1,
    method: str = "auto",
) -> tuple[Run, str]:
    """Return (Run, name of the sampler).

    Chains that are short of effective draws, or whose interval ends are uncertain, go on: there are a multiple of the draws
    asked for. An interruption leaves fewer.

    Parameters
    ----------
    target : Target
    start : (u,) array
        The mode.
    draws, chains : int
    rng : numpy.random.Generator
    watch : Watch
    values : callable, optional
        z (S, u) → quantities (S, …) whose interval ends are judged.
    prob : float
        Of the intervals.
    allowed : float
        Largest error of their ends that is accepted, in posterior sd.
    method : {"auto", "hmc", "nuts"}
        ``auto`` goes on with NUTS where trajectories do not hold.
    """
    size, centre = start.size, start.copy()
    for batch in target.batches:
        centre[batch.place] = max(centre[batch.place], FIRST_SCALE)
    density, at = Bent(target, centre, np.zeros(size)), [rng.standard_normal(size) for _ in range(chains)]
    density, at, steps, z = settled(density, at, ROUNDS, rng)

    def going(more, each):
        each = each if target.kernel is not None else EACH[2]

        def times(run, made):
            worst = 0.0 if values is None or made < LEAST else end_errors(values, run.z, prob).max() / allowed
            most = MOST_TIMES * draws / made
            if method == "auto":
                cost = float(run.stats["n_steps"].sum()) * (target.reports.visited + each)
                most = max(most, min(COSTS[int(worst > ACCEPTABLE)] / cost, MOST_DRAWN / (len(run.z) * made)))
            return _times(run.z, worst, most)

        return going_on(more, times, draws, watch)

    def nuts():
        first = by_nuts(density, density.back(z), 1, rng, None, lambda more: more(SHORT), [(TUNE, ACCEPTANCE[0])])
        u = density.back(first.z[0])
        better = density.anew(u)
        tries = [(TUNE, rate) for rate in ACCEPTANCE]
        return by_nuts(better, better.back(first.z[0]), chains, rng, watch, partial(going, each=EACH[1]), tries)

    ways = {"hmc": lambda: by_hmc(density, at, steps, rng, watch, partial(going, each=EACH[0])), "nuts": nuts}
    asked = {name: way for name, way in ways.items() if method in ("auto", name)}
    outcome = hand_over(in_order(asked), lambda found: "" if watch.interrupted else found.trouble)
    return outcome.answer, outcome.name


def _times(z, worst, most):
    """Return how many times the draws (chains, draws, u) made so far would do, a power of two, at most ``most``.

    ``worst`` is the largest error of an end, as a share of what is accepted.
    """
    ess = least_effective(z) if z.shape[1] >= LEAST else ENOUGH
    wanted = max(worst / AIMED, math.sqrt(ENOUGH / max(ess, 1.0))) ** 2
    wanted = math.ceil(math.log2(max(wanted, 1.0))) if wanted < 1e9 else FASTEST  # nan: of chains that stood still
    times = 2 ** min(wanted, math.floor(math.log2(most)), FASTEST)
    if times <= 1 and most >= 2 and z.shape[1] >= LEAST and extremes(chain_diagnostics(z))[0] > MAX_R_HAT:
        return 2
    return int(times)


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


class Bent:
    """The log-density in coordinates u that are nearly standard normal, in which effects hardly depend on their scale.

    Unknowns are bent, and coordinates of the target whiten what they are bent to.

    Parameters
    ----------
    target : Target
    at : (u,) array
        Unknowns.
    precision : (u,) array, optional
        Of bending.Bend at them; without it nothing is bent.
    """

    def __init__(self, target: Target, at: np.ndarray, precision: np.ndarray | None = None):
        self.target, size, point = target, at.size, at.copy()
        if precision is None:
            for batch in target.batches:
                point[batch.span] = 0.0
        self.bend = Bend(target.batches, point, np.zeros(size) if precision is None else precision, target.normality)
        small = target.kernel is not None and size <= MAX_DENSE
        self._within(Dense(np.zeros(size), np.eye(size), np.eye(size)) if small else Plain(np.zeros(size)))
        self._within(target.whitened(lambda y: self.value_and_gradient(y)[1], self.bend.back(at)))

    def _within(self, coordinates):
        """Take these coordinates, with the functions that are compiled for them."""
        self.coordinates, self._functions = coordinates, self.target.functions(coordinates)
        if self._functions is not None:
            (fixed, numbers, reports), size = self.target.kernel, self.bend.at.size
            room = tuple(np.empty(one) for one in (size, size, numbers, numbers))
            self._known = room, coordinates.frame, self.bend.arrays(fixed), reports
        return self

    def anew(self, u: np.ndarray) -> "Bent":
        """Return the density in coordinates that draws (S, u) of these say are better.

        An arrow is stretched: so few draws say little of the effects of many cells.
        """
        if isinstance(self.coordinates, Arrow):
            return copy.copy(self)._within(self.coordinates.stretched(u))
        return self.about(self.target, self.of(u))

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
        return found._within(found.coordinates.stretched(found.back(draws)))

    def value_and_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-density at u, up to a constant, and its gradient."""
        if self._functions is not None:
            out = np.empty(u.size)
            return self._functions[0](u, out, *self._known), out
        z = self.of(u)
        value, slope = self.bend.pulled(z, *self.target.value_and_gradient(z))
        return value, self.coordinates.gradient(slope)

    @property
    def pair(self):
        """The density and its trajectories, as ``inference.hmc`` takes them."""
        if self._functions is None:
            return self.value_and_gradient, hmc.stepwise(self.value_and_gradient), self.target.turn
        return self.value_and_gradient, lambda *moved: self._functions[1](*moved, *self._known), self.target.turn

    def of(self, u: np.ndarray) -> np.ndarray:
        """Return the unknowns of coordinates, shape (…, u)."""
        return self.bend.unbent(self.coordinates.of(u))

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns, shape (…, u)."""
        return self.coordinates.back(self.bend.back(z))
