"""Proposals about the mode, mended until weights on the true density hold, and the weighted draws with their errors."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ldpbayes.inference.conditional import Conditional, Given
from ldpbayes.inference.ends import ends_of_weighted_draws
from ldpbayes.inference.importance import Weighted, moments, proposed, resample
from ldpbayes.inference.proposals import FromPrior, Mixture, StudentT, fitted_parts
from ldpbayes.inference.verdict import Verdict
from ldpbayes.priors.regression import Regression
from ldpbayes.regression.target import Target

#: Degrees of freedom of the proposals: half as many as unknowns, within these bounds. Tails heavier than the posterior's
#: keep weights bounded; in many dimensions the radius of a t with few degrees misses the posterior's.
DEGREES = 8, 50
#: A shift of the mean by more than this many posterior sd is not to be trusted to third order.
LARGEST_SHIFT = 3.0
#: Proposals are fitted anew to weighted draws at most this often, unless their k-hat is below the first of these and …
MAX_REFITS, GOOD_K_HAT = 7, 0.5
#: … while there are this many effective draws for each unknown.
LEAST_FOR_REFIT = 2
#: This share of the proposals comes from the prior, where the reports leave some unknown with this share of its prior sd.
DEFENCE, WEAK = 0.1, 0.25
#: So few unknowns have a mixture of fitted distributions beside the first ones, which keep this share.
MAX_MIXED, FIRST = 32, 0.2
#: So many unknowns with effects have proposals of the scales, and given these of the rest. A draw of n of these costs as
#: many entries of the likelihood as it visits, and n³ over the second number.
MAX_GIVEN, CUBES = 200, 40
#: Their scales are fitted anew at most so often where weights are bad.
MOST_GIVEN = 3
#: There are at most so many fitted distributions; where so many batches of LEAST_DRAWN do not do, batches that are so many
#: times larger have the second number of them.
MOST_PARTS, SMALL_BATCHES, LARGER = (6, 12), 4, 8
#: This share of the draws that they are fitted to stands as far out as squared distances from the means are large: ends and
#: sds hang on the tails.
TAILS = 0.8
#: Their proposals are Sobol points, at least so many; more of them make the errors of interval ends, in posterior sd, AIMED
#: where that costs at most CHEAP evaluations of a likelihood's entry, and MOST_DRAWN draws; where errors are then above
#: ACCEPTABLE, there are more, of MOST_HELD unknowns in all: a flat tail wants many, and chains cost ten times as much.
LEAST_DRAWN, AIMED, CHEAP, MOST_DRAWN, ACCEPTABLE, MOST_HELD = 4096, 0.025, 2e8, 2**17, 0.03, 2**22
#: Where draws cost more than CHEAP, proposals are fitted to batches of so many first.
BATCH = 512
#: An interval end of a coefficient with a larger standard error, in posterior sd, is not accepted; where so many times the
#: draws are cheap, the second, so that a tenth is two and a half errors away.
MAX_END_ERROR, MAX_CHEAP_ERROR, ROOM = 0.1, 0.04, 4
#: Axes along which log odds of so many cells move belong to those that are looked along.
MOST_CELLS = 12
#: Distances from the mean, in posterior sd, at which weights are looked at along axes, and the largest accepted there in
#: units of the mean weight where the density has fallen by fewer nats: what has a larger one would hold little.
FAR, MOST_MISSED, DEEP = (1.0, 2.0, 3.0, 4.5, 6.0, 9.0), 50.0, 8.0


def about(target: Target, mode: np.ndarray, eigenvalues: np.ndarray, vectors: np.ndarray) -> StudentT:
    """Return the proposal with the Hessian's shape, its centre moved from the mode to the mean as far as third order shows.

    In coordinates v with unit Hessian the log-density is −|v|²/2 + Σ T_ijk v_i v_j v_k/6 + …, so the mean lies at
    ½ Σ_j T_ijj; each T_·jj is a second difference of the gradient along axis j.

    Parameters
    ----------
    target : Target
    mode : (u,) array
    eigenvalues, vectors : (u,) and (u, u) arrays
        Of minus the Hessian at the mode.
    """
    found = StudentT.at_mode(mode, eigenvalues, vectors, float(np.clip(mode.size / 2, *DEGREES)))
    steps = np.concatenate([mode + found.root.T, mode - found.root.T])
    with np.errstate(all="ignore"):
        slopes = (
            np.array([target.value_and_gradient(one)[1] for one in steps]) @ found.root
            - target.value_and_gradient(mode)[1] @ found.root
        )
    shift = 0.5 * slopes.sum(axis=0)
    size = np.linalg.norm(shift)
    if not np.isfinite(size):
        return found
    return replace(found, centre=mode + found.root @ (shift * min(1.0, LARGEST_SHIFT / max(size, LARGEST_SHIFT))))


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws.

    Attributes
    ----------
    z : (N, u) array
    shares : (N, a) array
        Sums of P over people.
    found : Weighted
    kept : int
        How many draws will be kept.
    prior : Regression, optional
        Whose coefficients have interval ends that are judged.
    missed : float
        The largest weight along the axes, in units of the mean weight; 0 where nobody looked.
    prob : float
        Of the intervals.
    allowed : float
        Largest standard error of an interval end that is accepted, in posterior sd.
    """

    z: np.ndarray
    shares: np.ndarray
    found: Weighted
    kept: int
    prior: Regression | None = None
    missed: float = 0.0
    prob: float = 0.95
    allowed: float = MAX_END_ERROR

    @property
    def effective(self) -> float:
        """Independent draws that the kept ones are worth."""
        return min(self.found.effective_sample, float(self.kept))

    @cached_property
    def end_errors(self) -> np.ndarray:
        """Errors of the interval ends of the coefficients, in posterior sd."""
        if self.prior is None:
            return np.zeros(0)
        known = self.known(self.prior.coefficients(self.z))
        sd = known["sd"][known["sd"] > 0]
        return np.concatenate([known[name][known["sd"] > 0] / sd for name in ("lower_error", "upper_error")])

    @property
    def tailed(self) -> np.ndarray:
        """Normalized weights (N,) of which the share TAILS goes with the squared distances from the means, in sd."""
        weight = self.found.weight
        square = (self.z - weight @ self.z) ** 2
        square /= np.maximum(weight @ square, np.finfo(float).tiny)
        out = weight * (1 - TAILS + TAILS * square.mean(axis=1))
        return out / out.sum()

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the kept draws may be used."""
        judged = self.found.judged(self.kept)
        if self.missed > MOST_MISSED:
            judged = judged.rejecting(f"weights along the axes reach {self.missed:.3g} times their mean")
        return judged.with_ends(self.end_errors.max(initial=0.0), self.allowed)

    def known(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Return the weighted moments of a quantity, the ends of its intervals, and errors; the mean's is of kept draws.

        Parameters
        ----------
        values : (N, …) array
            Of every proposal.
        """
        weight, shape = self.found.weight, values.shape[1:]
        ends = ends_of_weighted_draws(values.reshape(len(values), -1), weight, self.prob)
        named = zip(("lower", "upper", "lower_error", "upper_error"), ends, strict=True)
        return moments(values, weight, self.kept) | {name: value.reshape(shape) for name, value in named}

    def chosen(self, rng: np.random.Generator) -> np.ndarray:
        """Return the positions of equally weighted draws, by systematic resampling, in random order."""
        return rng.permutation(resample(self.found.weight, rng, self.kept))


def most_error(target: Target, given: bool = False) -> float:
    """Return the largest standard error of an interval end that is accepted, in posterior sd.

    Parameters
    ----------
    target : Target
    given : bool
        Whether draws have weights, and all but the scales are proposed given these.
    """
    cheap = (given or target.prior.n_unknowns <= MAX_MIXED) and CHEAP >= ROOM * LEAST_DRAWN * _cost(target, given)
    return MAX_CHEAP_ERROR if cheap else MAX_END_ERROR


def _cost(target, given):
    """Return how many entries of the likelihood a draw costs."""
    return target.reports.visited + (target.prior.n_unknowns**3 // CUBES if given else 0)


def weighted(target: Target, mode: tuple, size: int, rng: np.random.Generator, watch, prob: float = 0.95) -> Draws:
    """Return draws with Pareto-smoothed weights, of effects first by their scales, else about the mode of all unknowns.

    Parameters
    ----------
    target : Target
    mode : tuple
        Of find_mode.
    size : int
        Draws that are kept.
    rng : numpy.random.Generator
    watch : Watch
    prob : float
        Of the intervals whose ends are judged.
    """
    best = None
    if target.batches and mode[0].size <= MAX_GIVEN:
        given = Conditional(target, mode[0])
        best = _mended(target, Proposal(given.proposal(), target.prior, given=given), size, prob, rng, watch)
        if best.verdict.accepted:
            return best
    weak = 1 / math.sqrt(mode[1].min()) > WEAK
    few = mode[0].size <= MAX_MIXED
    source = Proposal(_split(target, mode) if few else about(target, *mode), target.prior, DEFENCE * weak, few)
    found = _mended(target, source, size, prob, rng, watch)
    return found if best is None or found.verdict.accepted else best


def _mended(target, source, size, prob, rng, watch):
    """Return Draws of proposals that are fitted anew where the weights ask for it."""
    few = source.few
    drawn = max(2 ** math.ceil(math.log2(size)), LEAST_DRAWN) if few else size
    entries = _cost(target, source.given is not None)
    dear = entries * drawn > CHEAP
    if dear:
        source = _by_batches(target, source, prob, rng, watch)
    most = max(drawn, min(MOST_DRAWN, 2 ** int(math.log2(CHEAP / entries)))) if few else drawn
    tried: list[tuple[Draws, Any]] = []
    for _ in range(1 + MAX_REFITS):
        found = _draws(target, source, drawn, size, prob, rng, watch)
        tried.append((found, source))
        good = found.verdict.accepted and found.found.k_hat < GOOD_K_HAT
        if source.given is not None:  # where only ends are uncertain; what scales do not mend, others must
            good = good or (found.verdict.next == "more" and found.found.k_hat < GOOD_K_HAT)
            if not good and len(tried) == MOST_GIVEN:
                break
        short = good and drawn < most and found.end_errors.max(initial=0.0) > AIMED
        if good and not short and (len(tried) > 1 or not few or dear):
            break
        source = source.refitted(found, rng)
        if source is None:
            break
        if good and few:  # ends as exact as is cheap
            wanted = math.ceil(math.log2(max(found.end_errors.max(initial=0.0) / AIMED, 1.0) ** 2))
            drawn = min(drawn * 2**wanted, most)
        elif few and not dear and len(tried) >= SMALL_BATCHES:
            drawn = max(drawn, min(LARGER * LEAST_DRAWN, most))
    best, source = max(tried, key=_worth)
    worst = best.end_errors.max(initial=0.0)
    times = best.verdict.times if best.verdict.next == "more" else 1
    if few and (best.verdict.accepted or times > 1) and worst > AIMED:  # ends as exact as is cheap, once more
        if worst > ACCEPTABLE and most == MOST_DRAWN:
            most = min(2 ** int(math.log2(MOST_HELD / target.prior.n_unknowns)), int(CHEAP / entries))
        times = max(min(2 ** math.ceil(math.log2((worst / AIMED) ** 2)), most // len(best.z)), times)
    if times > 1:
        times = 2 ** math.ceil(math.log2(times)) if few else times  # Sobol points are balanced in powers of two
        more = _draws(target, source, len(best.z) * times, size, prob, rng, watch)
        return more if (more.verdict.accepted, more.effective) >= (best.verdict.accepted, best.effective) else best
    return best


def _by_batches(target, source, prob, rng, watch):
    """Return a proposal fitted to small batches of weighted draws, before many are weighted at every row."""
    for _ in range(1 + MAX_REFITS):
        batch = _draws(target, source, BATCH, BATCH, prob, rng, watch)
        better = source.refitted(batch, rng)
        if better is None:
            break
        source = better
        weighs = batch.found.judged().accepted and batch.found.k_hat < GOOD_K_HAT and batch.missed <= MOST_MISSED
        if weighs and batch.end_errors.max(initial=0.0) * math.sqrt(BATCH / LEAST_DRAWN) < MAX_END_ERROR:
            break
    return source


def _worth(one):
    """Return what the better of two pairs (draws, their proposal) has more of, the most important first."""
    drawn, verdict = one[0], one[0].verdict
    return (
        verdict.accepted,
        verdict.next == "more",
        len(drawn.z),
        drawn.found.k_hat < GOOD_K_HAT,
        drawn.found.effective_sample,
    )


def _split(target, mode):
    """Return the first proposal of few unknowns: a t about the mode whose halves along its axes have scales of their own."""
    z, eigenvalues, vectors = mode
    about_the_mode = StudentT.at_mode(z, eigenvalues, vectors, float(np.clip(z.size / 2, *DEGREES)))
    return about_the_mode.looking(lambda at: target.log_density(at)[0])


def _axes(target, covariance):
    """Return axes, one sd long each: those of a covariance, of each unknown, and of the log odds of the least known cells.

    Those of an unknown or of log odds move the others as they go with it.
    """
    prior, u = target.prior, len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    fixed = prior.design.shape[1] * (prior.n_categories - 1)
    asked = target.reports.sizes > 0
    # An unknown of two categories counts once; the log odds of a cell are X_c Z Vᵀ.
    part = covariance[:fixed, :fixed].reshape(prior.design.shape[1], prior.n_categories - 1, prior.design.shape[1], -1)
    known = np.einsum("ck,kflf,cl->c", prior.columns, part, prior.columns, optimize=True) * asked
    cells = np.argsort(-known)[:MOST_CELLS]
    odds = np.zeros((len(cells), prior.n_categories, u))
    odds[:, :, :fixed] = np.einsum("ck,xf->cxkf", prior.columns[cells], prior.basis).reshape(*odds.shape[:2], fixed)
    odds = odds.reshape(-1, u)[: prior.n_categories * len(cells)]
    spread = np.sqrt(np.einsum("iu,uv,iv->i", odds, covariance, odds))
    odds = (odds @ covariance)[spread > 0] / spread[spread > 0, None]
    return np.concatenate([(vectors * np.sqrt(np.maximum(values, 0.0))).T, covariance / np.sqrt(np.diag(covariance)), odds])


@dataclass(frozen=True, eq=False)
class Proposal:
    """A t about the mode, t distributions fitted to weighted draws of proposals before, and the prior.

    Attributes
    ----------
    first : StudentT
    prior : Regression
    defence : float
        Share of the prior, by which weights are bounded as the likelihood is.
    few : bool
        Whether there are at most MAX_MIXED unknowns. Of more, one fitted t takes the place of the first.
    given : Conditional, optional
        Proposes all unknowns but the scales, given these; the others then propose scales alone.
    fitted : tuple of StudentT
    shares : (parts,) array, optional
        Of the fitted ones, with sum one.
    """

    first: StudentT
    prior: Regression
    defence: float = 0.0
    few: bool = True
    given: Conditional | None = None
    fitted: tuple = ()
    shares: np.ndarray | None = None

    @cached_property
    def mixture(self) -> Mixture | Given:
        """The distribution as a whole."""
        parts, shares = (self.first, *self.fitted), np.ones(1)
        if self.shares is not None and self.few:
            shares = np.append(FIRST, (1 - FIRST) * self.shares)
        elif self.shares is not None:
            parts, shares = self.fitted, self.shares
        if self.defence:
            parts, shares = (*parts, FromPrior(self.prior)), np.append((1 - self.defence) * shares, self.defence)
        found = Mixture(parts, shares, sobol=self.few)
        return found if self.given is None else Given(found, self.given)

    def refitted(self, found: Draws, rng: np.random.Generator) -> "Proposal | None":
        """Return the same with t distributions fitted to weighted draws, or None where these are too few."""
        worth, degrees = found.found.effective_sample, self.first.degrees
        z = found.z if self.given is None else found.z[:, self.given.places]
        u = z.shape[1]
        if worth < LEAST_FOR_REFIT * u:
            return None
        if not self.few:
            one = StudentT.fitted(z, found.found.weight, degrees)
            return None if one is None else replace(self, fitted=(one,), shares=np.ones(1))
        large = len(found.z) > 2 * LEAST_DRAWN
        number = int(np.clip(worth / (20 * u), 1, MOST_PARTS[large]))
        try:
            weight = found.tailed if self.given is None else found.found.weight
            chosen = resample(weight, rng, min(len(found.z), LEAST_DRAWN << large))
            parts, shares = fitted_parts(z[chosen], number, degrees, rng)
        except np.linalg.LinAlgError:
            return None
        return replace(self, fitted=parts, shares=shares)


def _draws(target, source, drawn, kept, prob, rng, watch):
    """Return Draws of a proposal, with what it misses along the axes."""

    allowed = most_error(target, source.given is not None)
    z, shares, found = proposed(partial(target.log_density, watch=watch), source.mixture, drawn, rng, "draws")
    return Draws(z, shares, found, kept, target.prior, _missed(target, source, found), prob, allowed)


def _missed(target, source, found):
    """Return the largest weight along axes through the mean, in units of the mean weight, where that is cheap to know."""
    z, weight = found.distribution, found.weight
    u = z.shape[1]
    if 6 * (u + MOST_CELLS) * len(FAR) > len(z):
        return 0.0
    centre = weight @ z
    axes = _axes(target, (weight[:, None] * (z - centre)).T @ (z - centre) + 1e-12 * np.eye(u))
    axes = np.concatenate([axes, -axes])
    points = (centre + np.multiply.outer(np.array(FAR), axes)).reshape(-1, u)
    with np.errstate(all="ignore"):
        value = target.log_density(np.concatenate([centre[None], points]))[0]
        log_ratio = np.where(value[1:] > value[0] - DEEP, value[1:] - source.mixture.log_density(points), -np.inf)
    return float(np.exp(np.clip(np.nanmax(log_ratio) - found.log_evidence, -50.0, 50.0)))
