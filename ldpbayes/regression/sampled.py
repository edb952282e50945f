"""Hamiltonian Monte Carlo on the unknowns of a regression, and the No-U-Turn sampler where its trajectories do not hold."""

import math
from functools import partial

import numpy as np

from ldpbayes.inference import hmc
from ldpbayes.inference.chains import sample_density
from ldpbayes.inference.diagnostics import entries_of_chains, least_effective
from ldpbayes.inference.structure import curvature, roots, spread
from ldpbayes.posteriors.base import Watch
from ldpbayes.regression.target import Target

#: Trajectories of all chains in each round that says where the posterior lies, and how many such rounds there are.
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


def sample(
    target: Target,
    mode: np.ndarray,
    draws: int,
    chains: int,
    rng: np.random.Generator,
    watch: Watch,
    method: str = "auto",
    prob: float = 0.95,
):
    """Return (unknowns (chains, draws, u), statistics by ArviZ's names, name of the sampler, what is wrong or "").

    Chains that are short of effective draws, or whose interval ends are uncertain, go on: there are a multiple of the draws
    asked for. An interruption leaves fewer.

    Parameters
    ----------
    target : Target
    mode : (u,) array
        Where the first trajectories start.
    draws, chains : int
    rng : numpy.random.Generator
    watch : Watch
    method : {"auto", "hmc", "nuts"}
        ``auto`` goes on with NUTS where trajectories do not hold.
    prob : float
        Of the intervals.
    """
    centre = mode.copy()
    for place, _ in target.prior.places:
        centre[place] = max(centre[place], FIRST_SCALE)
    density, steps = Bent(target, centre, np.zeros(centre.size)), hmc.FIRST_STEPS
    start = [rng.standard_normal(centre.size) for _ in range(chains)]
    for _ in range(ROUNDS):
        steps = min(hmc.tried(density.pair, start, steps, rng), hmc.MAX_STEPS)
        u, _ = hmc.moved(density.pair, start, steps, math.ceil(PILOT / chains), rng)
        z = density.of(u[:, u.shape[1] // 3 :].reshape(-1, centre.size))
        last = density.of(np.array(start))
        density = Bent.about(target, z)
        start = list(density.back(last))
    going = partial(_going_on, draws=draws, target=target, prob=prob, watch=watch, free=method == "auto")

    def along(steps, number):
        (u, stats), trouble = hmc.sampled(density.pair, start, steps, number, rng, watch)
        return density.of(u), stats, trouble

    if method != "nuts":
        steps = min(hmc.tried(density.pair, start, steps, rng), hmc.MAX_STEPS)
        trouble = "yes"
        while trouble and not watch.interrupted and steps <= hmc.MAX_STEPS:
            found, stats, trouble = going(partial(along, steps), each=EACH[0])
            steps *= 2
        if method == "hmc" or not trouble or watch.interrupted:
            return found, stats, "hmc", trouble
    return *_by_nuts(density, z, chains, rng, watch, going), "nuts", ""


def _going_on(more, *, draws, target, prob, watch, free, each):
    """Return (draws, statistics, trouble) of 1, 2, 4, … times the draws asked for, as ends and effective draws ask."""
    runs, number, cost = [], draws, 0.0
    entries = target.entries.cell.size * target.entries.n_categories + each
    while True:
        z, stats, trouble = more(number)
        stop = bool(trouble) or watch.interrupted
        if not stop or not runs:
            runs.append((z, stats))
        z = np.concatenate([z for z, _ in runs], axis=1)
        cost += float(stats["n_steps"].sum()) * entries
        size = z.shape[1]
        worst, ess = (end_errors(target.prior, z, prob).max(), least_effective(z)) if size >= 4 else (0.0, ENOUGH)
        wanted = max(worst / AIMED, math.sqrt(ENOUGH / max(ess, 1.0))) ** 2
        most = MOST_TIMES * draws / size
        if free:
            most = max(most, min(COSTS[int(worst > ACCEPTABLE)] / cost, MOST_DRAWN / (z.shape[0] * size)))
        wanted = math.ceil(math.log2(max(wanted, 1.0))) if wanted < 1e9 else FASTEST  # nan: of chains that stood still
        times = 2 ** min(wanted, math.floor(math.log2(most)), FASTEST)
        if stop or times <= 1:
            return z, {name: np.concatenate([held[name] for _, held in runs], axis=1) for name in runs[0][1]}, trouble
        number = int(times - 1) * size


def end_errors(prior, z: np.ndarray, prob: float) -> np.ndarray:
    """Return the errors of the interval ends of the coefficients by chains, in posterior sd.

    Parameters
    ----------
    prior : Regression
    z : (chains, draws, u) array
    prob : float
        Of the intervals.
    """
    values = prior.coefficients(z.reshape(-1, z.shape[-1])).reshape(*z.shape[:2], -1)
    found = entries_of_chains(values[..., np.ptp(values, axis=(0, 1)) > 0], prob)
    return np.concatenate([found[name] / found["sd"] for name in ("lower_error", "upper_error")])


def _by_nuts(density, start, chains, rng, watch, going):
    """Return (unknowns, statistics) of the No-U-Turn sampler."""

    def run(acceptance, number, chains=chains, watch=watch):
        begin = density.back(start)
        settings = {"size": start.shape[1], "tune": TUNE, "target_accept": acceptance, "watch": watch}
        settings |= {"draws": number, "chains": chains}
        u, stats = sample_density(density.pair[0], lambda own: begin[own.integers(len(begin))], rng, **settings)
        return density.of(u), stats, ""

    start = run(ACCEPTANCE[0], SHORT, 1, None)[0][0]
    density = Bent.about(density.target, start)
    for acceptance in ACCEPTANCE:
        z, stats, _ = going(partial(run, acceptance), each=EACH[1])
        if not stats["diverging"].any() or watch.interrupted:
            break
    return z, stats


class Bent:
    """The log-density in coordinates u that are nearly standard normal, in which effects hardly depend on their scale.

    Reports that gave an effect w σ the mean m and the precision r, as normal ones would, make w given σ normal with mean
    σ r m/(1 + σ² r) and variance 1/(1 + σ² r). The bent unknowns are y with w = mean(σ) + sd(σ)/sd(σ̂) y, as far from σ as
    the reports are normal; of what is no effect they are the unknowns themselves. The Hessian whitens them.

    Parameters
    ----------
    target : Target
    at : (u,) array
        Unknowns: log σ̂, and the means of the effects w at σ̂.
    precision : (u,) array
        σ̂² r of the effects, zero for what is no effect.

    References
    ----------
    Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22, on partially centred forms.
    """

    def __init__(self, target: Target, at: np.ndarray, precision: np.ndarray):
        from ldpbayes.regression import _kernels

        self.target, self.at, self.precision, self._kernels = target, at, precision, _kernels
        prior = target.prior
        free, size = prior.n_categories - 1, at.size
        self.spans = [
            (place, slice(start, start + len(effect.levels) * free))
            for effect, (place, start) in zip(prior.effects, prior.places, strict=True)
        ]
        spans = np.array([(place, span.start, span.stop) for place, span in self.spans], dtype=np.int64).reshape(-1, 3)
        scales = np.array([effect.scale for effect in prior.effects], dtype=float)
        room = (size,), *((target.columns.shape[1], free),) * 2
        self._around = at, precision, *np.ascontiguousarray(spans.T), scales, prior.design.shape[1] * free
        self._around += prior.basis, *target.arrays
        self._room = tuple(np.empty(shape) for shape in room)
        self.centre = at.copy()
        for _, span in self.spans:
            self.centre[span] = 0.0
        self.root = self.inverse = np.eye(size)
        self.root, self.inverse = roots(curvature(lambda u: self.value_and_gradient(u)[1], np.zeros(size)))

    @classmethod
    def about(cls, target: Target, draws: np.ndarray) -> "Bent":
        """Return the density bent about draws (S, u) of the unknowns, and whitened by what is left of their covariance."""
        precision = np.zeros(draws.shape[1])
        centre = draws.mean(axis=0)
        free = target.prior.n_categories - 1
        for effect, (place, start) in zip(target.prior.effects, target.prior.places, strict=True):
            span = slice(start, start + len(effect.levels) * free)
            apart = draws[:, place] - centre[place]
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
        return self._kernels.density(u, out, *self._room, self.centre, self.root, *self._around), out

    @property
    def pair(self):
        """The density and its trajectories, as ``inference.hmc`` takes them."""
        known = *self._room, self.centre, self.root, *self._around
        return self.value_and_gradient, lambda *moved: self._kernels.trajectories(*moved, *known)

    def of(self, u: np.ndarray) -> np.ndarray:
        """Return the prior's unknowns of coordinates, shape (…, u)."""
        z = self.centre + u @ self.root
        for apart, ratio, span in self._factors(z):
            z[..., span] = self.at[span] * np.exp(apart) * ratio + np.sqrt(ratio) * z[..., span]
        return z

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return the coordinates of unknowns, shape (…, u)."""
        y = z.copy()
        for apart, ratio, span in self._factors(z):
            y[..., span] = (z[..., span] - self.at[span] * np.exp(apart) * ratio) / np.sqrt(ratio)
        return (y - self.centre) @ self.inverse

    def _factors(self, z):
        for place, span in self.spans:
            apart = (np.minimum(z[..., place], 300.0) - self.at[place])[..., None]
            yield apart, (1 + self.precision[span]) / (1 + self.precision[span] * np.exp(2 * apart)), span
