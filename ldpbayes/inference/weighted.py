"""Weighted draws: proposals about the middle of a posterior that are mended until weights on the true density hold, and
drawn from until errors are as small as is cheap."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from ldpbayes.inference.conditional import Conditional
from ldpbayes.inference.ends import ends_of_weighted_draws
from ldpbayes.inference.importance import Weighted, moments, resample, weigh
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.proposals import Beside, FromPrior, Mixture, StudentT, fitted_parts
from ldpbayes.inference.structure import Arrow
from ldpbayes.inference.target import Target
from ldpbayes.inference.verdict import LIMITS, Verdict

#: Degrees of freedom of the proposals: half as many as unknowns, within these bounds. Tails heavier than the posterior's
#: keep weights bounded; in many dimensions the radius of a t with few degrees misses the posterior's.
DEGREES = 8, 50
#: A shift of the mean by more than this many posterior sd is not to be trusted to third order.
LARGEST_SHIFT = 3.0
#: Proposals are fitted anew to weighted draws at most this often, unless their k-hat is below the first of these and …
MAX_REFITS, GOOD_K_HAT = 7, 0.5
#: … while there are this many effective draws for each unknown, and a fitted distribution for so many.
LEAST_FOR_REFIT, DRAWS_EACH = 2, 20
#: Least degrees of freedom of coordinates given scales, those of each, and the scales of their sides that are believed.
GIVEN, SIDES = (8.0, 1.5), (0.8, 3.0)
#: This share of the proposals comes from the prior, where the reports leave some unknown with this share of its prior sd.
DEFENCE, WEAK = 0.1, 0.25
#: Proposals of so few unknowns whose prior cannot propose have this share from one t fitted to all weighted draws, and from
#: wider ones: several fitted ones are narrow, and a tail that they leave out shows in a few draws of large weight alone.
FEW, BROAD, WIDER = 6, 0.6, (1.0, 2.0, 5.0)
#: So few unknowns have a mixture of fitted distributions, more have one; the first ones keep this share beside them.
MAX_MIXED, FIRST = 24, 0.2
#: So many unknowns with effects are proposed given their scales. A draw of n of these costs as many entries of the
#: likelihood as it visits, and n³ over the second number.
MAX_GIVEN, CUBES = 200, 40
#: There are at most so many fitted distributions, the second number where many draws are weighted. Batches are twice as
#: large as the one before, up to so many times LEAST_DRAWN.
MOST_PARTS, LARGER = (6, 12), 8
#: This share of the draws that they are fitted to stands as far out as squared distances from the means are large: ends and
#: sds hang on the tails.
TAILS = 0.8
#: Proposals of few unknowns are Sobol points, at least so many; more of them make the errors of interval ends what a target
#: aims at, where that costs at most CHEAP evaluations of a likelihood's entry, and as many draws as the target allows, of
#: more unknowns MORE times those that are kept. Where errors are then more than ACCEPTABLE times as large, there are more,
#: of MOST_HELD unknowns in all: a flat tail wants many, and chains cost ten times as much.
LEAST_DRAWN, CHEAP, MORE, ACCEPTABLE, MOST_HELD = 4096, 2e8, 8, 1.2, 2**22
#: Proposals are mended with at most as much work as so many times the most draws. Where only ends are uncertain they are
#: gone on with: before NUTS to at most as many; before chains that cost little, where weights have light tails, so that
#: errors fall as they say, to the most draws; or to so many times what is cheap, of twice MOST_HELD unknowns in all.
SPENT, BEFORE_CHAINS = 3, 4
#: Where draws cost more than CHEAP, proposals are fitted to batches of so many first.
BATCH = 512
#: Draws are cheap where so many times LEAST_DRAWN cost at most CHEAP.
ROOM = 4
#: Distances from the mean, in posterior sd, at which weights are looked at along axes, and the largest accepted there in
#: units of the mean weight where the density has fallen by fewer nats: what has a larger one would hold little.
FAR, MOST_MISSED, DEEP = (1.0, 2.0, 3.0, 4.5, 6.0, 9.0), 50.0, 8.0
#: That costs at most this share of the draws.
CHECKED = 0.7
#: Where weights reach more than half of the largest accepted stands a t distribution with so many degrees of freedom, all of
#: these together with this share.
REACHING, REACHED = 10.0, 0.1
#: Draws of P from the prior that say whether proposals miss a mode, where so many of them are likely under the reports;
#: the share of the weights beyond the ends of their box, the least gap in its widths beyond which there is a mode, and the
#: most modes that are added.
LOOKED, LIKELY, BEYOND, GAP, MOST_MODES = 2048, 20, 2e-3, 0.25, 3
#: Draws with an unknown beyond are lost: their scale is beyond floats.
FARTHEST = 1e100


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws.

    Attributes
    ----------
    z, u : (N, u) arrays
        Unknowns, and the coordinates in which they were proposed.
    values : (N, …) array
        What the target says of them beside the density.
    found : Weighted
    kept : int
        How many draws will be kept.
    judged : (N, …) array
        Quantities that have interval ends which are judged.
    missed : float
        The largest weight along the axes, in units of the mean weight; 0 where nobody looked.
    heavy : (k, u) array
        Coordinates of places there whose weights are large.
    outside : float
        Share of the posterior, by draws of the prior, that is surely outside the box of the weighted draws of P.
    away : (a,) array, optional
        A likely one of these draws, far outside.
    prob : float
        Of the intervals.
    allowed, aimed : float
        Largest standard error of an interval end that is accepted, and the one that is aimed at, in posterior sd.
    """

    z: np.ndarray
    u: np.ndarray
    values: np.ndarray
    found: Weighted
    kept: int
    judged: np.ndarray
    missed: float
    heavy: np.ndarray
    outside: float = 0.0
    away: np.ndarray | None = None
    prob: float = 0.95
    allowed: float = math.inf
    aimed: float = math.inf

    @property
    def effective(self) -> float:
        """Independent draws that the kept ones are worth."""
        return min(self.found.effective_sample, float(self.kept))

    @cached_property
    def end_error(self) -> float:
        """The largest error of the interval ends that are judged, in posterior sd."""
        moments = self.known(self.judged)
        moved = moments["sd"] > 0
        errors = np.array([moments["lower_error"][moved], moments["upper_error"][moved]]) / moments["sd"][moved]
        return float(errors.max(initial=0.0))

    @property
    def share(self) -> float:
        """Independent draws that a weighted one is worth."""
        return self.found.effective_sample / len(self.z)

    @property
    def lacking(self) -> float:
        """How many times these draws would make ends as exact as is aimed at."""
        return (self.end_error / self.aimed) ** 2

    @property
    def wanted(self) -> float:
        """How many draws would make ends as exact as is aimed at."""
        return self.lacking * len(self.z)

    @property
    def tailed(self) -> np.ndarray:
        """Normalized weights (N,) of which the share TAILS goes with the squared distances from the means, in sd."""
        weight = self.found.weight
        square = (self.u - weight @ self.u) ** 2
        square /= np.maximum(weight @ square, np.finfo(float).tiny)
        out = weight * (1 - TAILS + TAILS * square.mean(axis=1))
        return out / out.sum()

    @cached_property
    def weighs(self) -> Verdict:
        """Whether the weights may be used, whatever the errors of ends."""
        judged = self.found.judged(self.kept)
        if self.missed > MOST_MISSED:
            judged = judged.rejecting(f"weights along the axes reach {self.missed:.3g} times their mean")
        return judged.with_outside(self.outside)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the kept draws may be used."""
        return self.weighs.with_ends(self.end_error, self.allowed)

    @property
    def good(self) -> bool:
        """Whether they may be used, and their proposal needs no mending."""
        return self.verdict.accepted and self.found.k_hat < GOOD_K_HAT

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


class Seen(NamedTuple):
    """Draws of P from the prior (S, a), and their log-likelihoods: they show modes that other draws miss."""

    p: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, prior: Any, reports: Any, rng: np.random.Generator) -> "Seen":
        """Return those of a prior, given the reports of all cells."""
        p = prior.sample(LOOKED, rng)
        return cls(p.reshape(LOOKED, -1), reports.log_likelihood(p.reshape(LOOKED, -1, p.shape[-1])))

    @property
    def worth(self) -> float:
        """How many independent draws of the posterior they are worth."""
        return float(1 / (softmax(self.value) ** 2).sum())

    def outside(self, p: np.ndarray, weight: np.ndarray, effective: float = math.inf) -> tuple[float, np.ndarray | None]:
        """Return (what they show of the posterior outside the box of weighted P (S, a), less two errors, one of them).

        A mode that no draw reaches leaves no trace in weights, nor in chains. Where few draws of the prior are likely, the
        reports say so much that they leave no two modes. Of exponential tails a/n^(1 + g) lies farther than g widths beyond
        the box of n effective draws: gaps are so wide that this is no mode.
        """
        if self.worth < LIKELY:
            return 0.0, None
        share = softmax(self.value)
        some = slice(None, None, max(len(p) // LEAST_DRAWN, 1) | 1)  # every second Sobol point is in one half of the space
        p, weight = p[some], weight[some] / weight[some].sum()
        low, high, *_ = ends_of_weighted_draws(p, weight, 1 - BEYOND / p.shape[1])
        far = np.maximum(np.maximum(low - self.p, self.p - high) / np.maximum(high - low, 1e-12), 0.0).max(axis=1)
        worth = max(min(effective, 1 / (weight**2).sum()), 2.0)
        gap = max(GAP, math.log(3 * p.shape[1] / LIMITS.unseen) / math.log(worth) - 1)
        share = share * (far > gap)
        return float(share.sum() - 2 * np.linalg.norm(share)), self.p[np.argmax(share * far)]


class Near(NamedTuple):
    """Reports that name a P, as many as matter more than the prior."""

    p: np.ndarray
    arrays: None = None

    def value_and_gradient(self, eta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-likelihood of logits (cells, a), and its gradient."""
        p = self.p.reshape(eta.shape)
        return 1e6 * float((p * log_softmax(eta, axis=1)).sum()), 1e6 * (p - softmax(eta, axis=1))


@dataclass(frozen=True, eq=False)
class Proposal:
    """Distributions of coordinates: a first one, those fitted to weighted draws of proposals before, and the prior.

    Where effects have scales, they are of the scales alone; the other coordinates are nearly standard normal.

    Attributes
    ----------
    target : Target
    frame : Arrow or Conditional
        Whose coordinates they are.
    first : StudentT
    defence : float
        Share of the prior, by which weights are bounded as the likelihood is.
    few : bool
        Whether many draws are worth their while.
    fitted : tuple of StudentT
    shares : (parts,) array, optional
        Of the fitted ones, with sum one.
    rest : StudentT, optional
        Of what is no scale, given these.
    broad : StudentT, optional
        Stands, with wider ones, where the prior would.
    modes : tuple of StudentT
        About modes beside that of the first.
    reached : tuple of StudentT
        About places with large weights, of all coordinates.
    seen : Seen, optional
    """

    target: Target
    frame: Arrow | Conditional
    first: StudentT
    defence: float = 0.0
    few: bool = True
    rest: StudentT | None = None
    fitted: tuple = ()
    shares: np.ndarray | None = None
    broad: StudentT | None = None
    modes: tuple = ()
    reached: tuple = ()
    seen: Seen | None = None

    @classmethod
    def of(cls, target: Target, mode: tuple | None, rng: np.random.Generator, watch: Any) -> "Proposal":
        """Return the first proposal; see ``weighted``."""
        size, weak = target.prior.n_unknowns, True
        few = size <= MAX_MIXED or (bool(target.batches) and size <= MAX_GIVEN)
        frame: Arrow | Conditional
        if few and target.batches:
            frame = Conditional(target, None if mode is None else mode[0])
        else:
            centre, values, vectors = find_mode(target, np.zeros(size), watch) if mode is None else mode
            weak, frame = 1 / math.sqrt(values.min()) > WEAK, Arrow.along(centre, vectors / np.sqrt(values))
        first, broad = about(target, frame, few), size <= FEW and not target.defended
        bounded = weak and target.defended and first.centre.size == size
        defence, width = BROAD if broad else DEFENCE * bounded, size - first.centre.size
        rest = StudentT(np.zeros(width), np.eye(width), max(GIVEN[0], GIVEN[1] * width)) if width else None
        seen = None if target.defended or target.batches else Seen.of(target.prior, target.reports, rng)
        return cls(target, frame, first, defence, few, rest, broad=first if broad else None, seen=seen)

    @property
    def sobol(self) -> bool:
        """Whether draws are Sobol points."""
        return self.target.prior.n_unknowns <= MAX_MIXED

    @cached_property
    def mixture(self) -> Mixture:
        """The distribution as a whole."""
        modes = (self.first, *self.modes)
        laws, shares = (*modes, *self.fitted), np.full(len(modes), 1 / len(modes))
        if self.shares is not None:
            shares = np.append(FIRST * shares, (1 - FIRST) * self.shares)
        if self.rest is not None:
            laws, shares = (Beside(Mixture(laws, shares, sobol=True), self.rest),), np.ones(1)
        if self.reached:
            each = REACHED / len(self.reached)
            laws, shares = (*laws, *self.reached), np.append((1 - REACHED) * shares, [each] * len(self.reached))
        if self.defence:
            last: tuple = (FromPrior(self.target.prior, self.frame),)
            if self.broad is not None:
                last = tuple(replace(self.broad, root=wider * self.broad.root) for wider in WIDER)
            shares = np.append((1 - self.defence) * shares, [self.defence / len(last)] * len(last))
            laws = (*laws, *last)
        return Mixture(laws, shares, sobol=self.sobol)

    def beside(self, p: np.ndarray, watch: Any) -> "Proposal | None":
        """Return the same with a t about the mode next to a P, or None where there are many."""
        if len(self.modes) == MOST_MODES:
            return None
        at, start = replace(self.target, reports=Near(p)), np.zeros(self.target.prior.n_unknowns)
        centre, values, vectors = find_mode(self.target, find_mode(at, start, watch)[0], watch)
        place, *ends = self.frame.back(centre + np.concatenate([np.zeros((1, centre.size)), (vectors / np.sqrt(values)).T]))
        law = StudentT(place, np.transpose(ends) - place[:, None], _degrees(place.size))
        return replace(self, modes=(*self.modes, law), fitted=(), shares=None)

    def reaching(self, found: Draws) -> "Proposal":
        """Return the same with distributions about the places whose weights are large."""
        laws = tuple(StudentT(place, np.eye(place.size), REACHING) for place in found.heavy)
        return replace(self, reached=(*self.reached, *laws))

    def refitted(self, found: Draws, rng: np.random.Generator) -> "Proposal | None":
        """Return the same with t distributions fitted to weighted draws, or None where these are too few."""
        worth, weight, u = found.found.effective_sample, found.found.weight, found.u[:, : self.first.centre.size]
        size, degrees = u.shape[1], _degrees(u.shape[1])
        if worth < LEAST_FOR_REFIT * size:
            return None
        if size > MAX_MIXED:
            fitted = StudentT.fitted(u, weight, degrees)
            return None if fitted is None else replace(self, fitted=(fitted,), shares=np.ones(1))
        large = len(u) > 2 * LEAST_DRAWN
        number = int(np.clip(worth / (DRAWS_EACH * size), 1, MOST_PARTS[large]))
        chosen = resample(found.tailed if u.shape == found.u.shape else weight, rng, min(len(u), LEAST_DRAWN << large))
        try:
            laws, shares = fitted_parts(u[chosen], number, degrees, rng)
        except np.linalg.LinAlgError:
            return None
        broad, rest = None if self.broad is None else StudentT.fitted(u, weight, degrees), self.rest
        if rest is not None and worth > DRAWS_EACH * rest.centre.size:
            squares = found.u[:, size:] ** 2
            sides = [found.u[:, size:] > 0, found.u[:, size:] < 0]
            ahead, behind = (np.sqrt(weight @ (squares * on) / np.maximum(weight @ on, 1e-3)) for on in sides)
            rest = replace(rest, ahead=np.clip(ahead, *SIDES), behind=np.clip(behind, *SIDES))
        return replace(self, fitted=laws, shares=shares, broad=broad or self.broad, rest=rest)


def most_error(target: Target, few: bool | None = None) -> float:
    """Return the largest standard error of an interval end that is accepted, in posterior sd.

    Parameters
    ----------
    target : Target
    few : bool, optional
        Whether many draws are worth their while; by default where there are few unknowns.
    """
    few = target.prior.n_unknowns <= MAX_MIXED if few is None else few
    return target.end_errors[1 if few and CHEAP >= ROOM * LEAST_DRAWN * _cost(target, few) else 2]


def _cost(target, few):
    """Return how many entries of the likelihood a draw costs."""
    size = target.prior.n_unknowns
    return max(target.reports.visited, 1) + (size**3 // CUBES if few and target.batches else 0)


def weighted(
    target: Target, size: int, rng: np.random.Generator, watch: Any, mode: tuple | None = None, prob: float = 0.95
) -> Draws:
    """Return draws with Pareto-smoothed weights: of effects about the middle of the posterior, else about the mode.

    Parameters
    ----------
    target : Target
    size : int
        Draws that are kept.
    rng : numpy.random.Generator
    watch : Watch
    mode : tuple, optional
        Of find_mode.
    prob : float
        Of the intervals whose ends are judged.
    """
    source = Proposal.of(target, mode, rng, watch)
    drawn = max(2 ** math.ceil(math.log2(size)), LEAST_DRAWN) if source.few else size
    room = CHEAP / _cost(target, source.few)
    dear, times = drawn > room, min(room, target.most_drawn if source.few else MORE * size) / drawn
    most = drawn * 2 ** max(math.floor(math.log2(times)), 0)
    if dear:
        source = _by_batches(source, prob, rng, watch)
    tried: list[tuple[Draws, Proposal]] = []
    spent = vain = 0
    for _ in range(1 + MAX_REFITS):
        spent += drawn * (_cost(target, source.few) + len(source.mixture.parts) * source.first.centre.size**2 // CUBES)
        if tried and spent > SPENT * target.most_drawn * _cost(target, source.few):
            break
        draws = _draws(source, drawn, size, prob, rng, watch)
        better = all(draws.share > one.share or draws.wanted < one.wanted for one, _ in tried)
        vain = 0 if better else vain + 1
        tried.append((draws, source))
        good = draws.good
        if target.batches or not source.few:  # where only ends are uncertain
            good = draws.weighs.accepted and draws.found.k_hat < GOOD_K_HAT
        short = good and drawn < most and draws.lacking > 1
        if good and not short and (len(tried) > 1 or not source.sobol or dear):
            break
        if vain > 1 and not good:  # what cannot be mended is left to chains, whose cost does not hang on tails of weights
            break
        refitted = source.beside(draws.away, watch) if draws.away is not None and draws.outside > LIMITS.unseen else None
        refitted = refitted or source.refitted(draws, rng)
        if refitted is None and draws.missed <= MOST_MISSED:
            break
        source = (refitted or source).reaching(draws)
        if good:  # ends as exact as is cheap
            drawn = min(drawn * 2 ** max(math.ceil(math.log2(draws.lacking)), 0), most)
        elif source.few and not dear:
            drawn = max(drawn, min(2 * drawn, LARGER * LEAST_DRAWN, most))
    best = _gone_on(*max(tried, key=_worth), most, room, prob, rng, watch)
    # Draws that were thought cheap, and were too few for that, are better than chains.
    return best if best.verdict.accepted else replace(best, allowed=max(best.allowed, target.end_errors[2]))


def from_prior(target: Target, size: int, rng: np.random.Generator, watch: Any, prob: float = 0.95) -> Draws | None:
    """Return draws of the prior weighted by the likelihood, or None where the reports say too much for that.

    They miss no mode and no part of a posterior, whatever its shape.

    Parameters
    ----------
    target : Target
    size : int
        Draws that are kept.
    rng : numpy.random.Generator
    watch : Watch
    prob : float
        Of the intervals whose ends are judged.
    """
    prior, seen = target.prior, Seen.of(target.prior, target.reports, rng)
    most = int(min(MOST_HELD // max(prior.n_unknowns, seen.p.shape[1]), CHEAP // max(target.reports.visited, 1)))
    drawn = math.ceil(size * LOOKED / seen.worth)
    if seen.worth < LIKELY or drawn > most or prior.unknowns(1, rng) is None:
        return None

    def made(drawn):
        z = prior.unknowns(drawn, rng)
        value, values = target.log_density(z, watch=watch)
        weights = weigh(target.weighed_by(z, values), value - prior.log_density(z))
        aimed, _, allowed = target.end_errors
        judged = target.judged(z, values)
        return Draws(z, z, values, weights, size, judged, 0.0, z[:0], prob=prob, allowed=allowed, aimed=aimed)

    draws = made(drawn)
    return made(min(math.ceil(drawn * draws.lacking), most)) if draws.lacking > 1 else draws  # ends as exact as is cheap


def _gone_on(best, source, most, room, prob, rng, watch):
    """Return the best Draws, or more of their proposal where these are wanted, and cheap."""
    limit, drawn = source.target.most_drawn, len(best.z)
    patient = source.target.before_nuts
    longest = max((SPENT if patient else 1) * limit, min(2 * MOST_HELD // best.z.shape[1], int(BEFORE_CHAINS * room)))
    light = best.found.k_hat < GOOD_K_HAT and best.verdict.times * drawn <= longest
    times = min(best.verdict.times, longest // drawn) if best.verdict.next == "more" and (patient or light) else 1
    if (best.verdict.accepted or times > 1) and best.lacking > 1:  # ends as exact as is cheap, once more
        if source.few and best.lacking > ACCEPTABLE**2 and most == limit > LARGER * LEAST_DRAWN:
            most = min(2 ** int(math.log2(MOST_HELD / best.z.shape[1])), int(room))
        times = max(min(2 ** math.ceil(math.log2(best.lacking)), most // drawn), times)
    if times > 1:  # Sobol points are balanced in powers of two
        more = _draws(source, drawn * 2 ** math.ceil(math.log2(times)), best.kept, prob, rng, watch)
        if more.verdict.next == "more":  # once more, as far as the limit allows: chains cost a hundred times as much
            return _gone_on(more, source, most, room, prob, rng, watch)
        return more if (more.verdict.accepted, more.effective) >= (best.verdict.accepted, best.effective) else best
    return best


def _by_batches(source, prob, rng, watch):
    """Return a proposal fitted to small batches of weighted draws, before many are weighted at every row."""
    evenest = 0.0
    for _ in range(1 + MAX_REFITS):
        batch = _draws(source, BATCH, BATCH, prob, rng, watch)
        better = source.refitted(batch, rng)
        if better is None or batch.share < evenest:
            break
        source, evenest = better.reaching(batch), batch.share
        weighs = batch.found.judged().accepted and batch.found.k_hat < GOOD_K_HAT and batch.missed <= MOST_MISSED
        if weighs and batch.end_error * math.sqrt(BATCH / LEAST_DRAWN) < source.target.end_errors[2]:
            break
    return source


def _worth(batch):
    """Return what the better of two pairs (draws, their proposal) has more of, the most important first."""
    drawn, verdict = batch[0], batch[0].verdict
    return (
        verdict.accepted,
        verdict.next == "more",
        len(drawn.z),
        drawn.found.k_hat < GOOD_K_HAT,
        drawn.found.effective_sample,
    )


def about(target: Target, frame: Any, few: bool) -> StudentT:
    """Return a t about the middle of coordinates: where many draws are worth it, its halves along axes have own scales.

    Else its centre is moved from the mode to the mean as far as third order shows. In coordinates v with unit Hessian
    the log-density is −|v|²/2 + Σ T_ijk v_i v_j v_k/6 + …, so the mean lies at ½ Σ_j T_ijj; each T_·jj is a second
    difference of the gradient along axis j.

    Parameters
    ----------
    target : Target
    frame : Arrow or Conditional
    few : bool
    """
    size = target.prior.n_unknowns
    chosen = frame.places.size if isinstance(frame, Conditional) and size > MAX_MIXED else size

    def log_density(u):
        z, volume = frame.placed(np.pad(u, ((0, 0), (0, size - chosen))))
        return target.log_density(z)[0] + volume

    proposal = StudentT(np.zeros(chosen), np.eye(chosen), _degrees(chosen))
    if few:
        return proposal.looking(log_density)
    with np.errstate(all="ignore"):
        places = frame.of(np.concatenate([np.zeros((1, size)), np.eye(size), -np.eye(size)]))
        here, *slopes = (frame.gradient(target.value_and_gradient(z)[1]) for z in places)
        shift = 0.5 * (np.array(slopes) - here).sum(axis=0)
    length = np.linalg.norm(shift)
    if not np.isfinite(length):
        return proposal
    return replace(proposal, centre=shift * min(1.0, LARGEST_SHIFT / max(length, LARGEST_SHIFT)))


def _degrees(size):
    return float(np.clip(size / 2, *DEGREES))


def _draws(source, drawn, size, prob, rng, watch):
    """Return Draws of a proposal, with what it misses along the axes."""
    target = source.target
    u, log_proposal = source.mixture.draw(drawn, rng)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        z, volume = source.frame.placed(u)
        lost = ~(np.abs(z) < FARTHEST).all(axis=1)
        z[lost] = 0.0
        value, values = target.log_density(z, watch=watch)
        log_ratio = np.where(lost, -np.inf, value + volume - log_proposal)
        weights = weigh(target.weighed_by(z, values), log_ratio)
    missed, p = _missed(source, z, weights), values.reshape(len(z), -1)
    outside = (0.0, None) if source.seen is None else source.seen.outside(p, weights.weight)
    allowed, aimed = most_error(target, source.few), target.end_errors[0]
    return Draws(z, u, values, weights, size, target.judged(z, values), *missed, *outside, prob, allowed, aimed)


def _missed(source, z, weights):
    """Return (the largest weight along axes through the mean, in units of the mean weight, places with large ones).

    That is done where it is cheap to know.
    """
    target, weight = source.target, weights.weight
    centre = weight @ z
    axes = target.axes((weight[:, None] * (z - centre)).T @ (z - centre) + 1e-12 * np.eye(z.shape[1]))
    points = (centre + np.multiply.outer(np.array(FAR), np.concatenate([axes, -axes]))).reshape(-1, z.shape[1])
    if not 0 < len(points) <= CHECKED * len(z):
        return 0.0, points[:0]
    with np.errstate(all="ignore"):
        z = np.concatenate([centre[None], points])
        u = source.frame.back(z)
        height = target.log_density(z)[0] + source.frame.placed(u)[1]  # a density of what is nearly normal shows the mass
        log_ratio = height[1:] - source.mixture.log_density(u[1:])
        log_ratio = np.where(height[1:] > height[0] - DEEP, log_ratio, -np.inf)
    ratio = np.exp(np.clip(np.nan_to_num(log_ratio, nan=-np.inf) - weights.log_evidence, -50.0, 50.0)).reshape(len(FAR), -1)
    ahead = np.flatnonzero(ratio.max(axis=0) > 0.5 * MOST_MISSED)
    return float(ratio.max()), u[1:].reshape(*ratio.shape, -1)[ratio.argmax(axis=0)[ahead], ahead]
