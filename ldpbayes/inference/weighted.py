"""Weighted draws: a mode, a proposal about it, weights on the true density, a verdict, and more draws for exact ends.

1. Newton's method finds the mode of the density in the unknowns. Where effects have learnt scales, the middle of
   the posterior takes its place. Coordinates are then the scales, and the effects given the scales. Where it hangs on P
   what reports say of a device, they are P's unknowns, and the device's given these (inference.conditional).
2. A multivariate t about it, beside wider ones, proposes draws. The next are proposed by t distributions with the means and
   covariances of clusters of these draws, weighted by the true density, and others at places where weights are large,
   until weights hold or rounds are over.
3. Weights are judged by their tail, by draws along axes, and by draws of the prior that lie where no other draw is.
4. The best proposal makes more draws until interval ends are as exact as ``Weighting.aimed``, or draws become dear.

Step 2 tries ``Weighting.rounds`` proposals, each with at most as many draws as are affordable. Step 4 ends at the number
that errors or the verdict ask for, or where more draws are no better. Accepted draws end at what is affordable, rejected
ones at what memory holds.

A problem whose draws are not accepted goes to chains or NUTS.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes.inference.conditional import Conditional
from ldpbayes.inference.constants import FARTHEST, MOST_HELD
from ldpbayes.inference.ends import ends_of_weighted_draws
from ldpbayes.inference.importance import WeightedDraws, moments, resample, weigh
from ldpbayes.inference.modes import PriorDraws
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.proposals import FromPrior, Johnson, Mixture, SplitProposal, StudentT, sobol
from ldpbayes.inference.structure import Arrow
from ldpbayes.inference.target import Target
from ldpbayes.inference.verdict import LIMITS, Verdict


@dataclass(frozen=True)
class Weighting:
    """How draws are proposed, and how many.

    Attributes
    ----------
    least : int
        Draws of a proposal, a power of two. Derived: ends of 4,096 good draws have errors of 2.7/√4096 = .04 posterior sd.
        Bank: half and double show nothing.
    work : float
        Entries of the likelihood that draws of a proposal may visit, for the sake of exact ends. Measured: a second. Bank:
        half and double show nothing.
    draw : float
        Entries of the likelihood that a draw costs without them. Measured: the time of its random numbers, weight and
        place in order, over the time of an entry.
    entry : float
        Floating-point operations that an entry of the likelihood costs. Measured: operations of a Cholesky factor in the
        time of an entry.
    aimed : float
        Error of interval ends, in posterior sd, that more draws aim at. Derived: 5/8 of LIMITS.end_error, which an estimate
        of it then seldom exceeds. Bank: half and double show nothing.
    rounds : int
        Proposals that are tried, at most. Derived: draws double from one to the next, so that four go from 4,096 to the
        32,768 that ``work`` allows of a cheap likelihood, and the fifth is fitted to as many. With half, two, the only
        fit is to 4,096 draws; with double, five more have 32,768 each, a second apiece. Bank: half and double change no
        number of seven problems.
    wider : tuple of float
        How many times wider than the t others beside it are. Bank: without them tails of few unknowns go to chains.
    wide : float
        Share of the wider ones, together. Derived: it costs a fifth of the draws, and bounds weights by five times those of
        the wider ones. Bank: half and double show nothing.
    prior : float
        Share of the prior, where it can propose. Derived: weights are then at most ten times the likelihood over its mean.
        Bank: half and double show nothing.
    degrees : float
        Degrees of freedom for each coordinate, of a t. Derived: the squared radius of a normal law in u dimensions varies
        by 2/u of its square, that of a t with u/2 degrees by 6/u, which covers it. Bank: half and double change no number
        where unknowns are few.
    each : int
        Effective draws for each unknown, which a fit of a covariance wants. Derived: with two its
        sds are .3 to 1.7 of the true ones (Marchenko and Pastur 1967), and wider proposals stand beside it.
    part, parts : int
        Effective draws for each unknown of each t of a mixture, and the most of these. Bank: with one t alone, and without
        those at places with large weights, several answers and two lists go to chains or NUTS.
    widened : float
        How many times wider than its cluster each is, which ends where another begins. Bank: at 1, two lists go to NUTS.
    far : tuple of float
        Distances from the mean along axes, in posterior sd, at which weights are computed. Derived: each is some 3/2 of the
        one before, and beyond nine a normal law has nothing. Bank: half and double change no number of seven.
    missed : float
        The largest weight accepted there, in units of the mean weight. Derived: of 4,096 draws one with a weight of 50 has
        1.2 %, just above LIMITS.unseen; where it is larger, few draws stand for much. Bank: half and double change no
        number.
    deep : float
        Nats below the density at the mean, beyond which a place counts for nothing. Derived: e^−8 is .0003.
    """

    least: int = 4096
    work: float = 2e8
    draw: float = 5000.0
    entry: float = 13.0
    aimed: float = 0.0625
    rounds: int = 5
    wider: tuple[float, ...] = (2.0, 5.0)
    wide: float = 0.2
    prior: float = 0.1
    degrees: float = 0.5
    each: int = 2
    part: int = 20
    parts: int = 6
    widened: float = 1.2
    far: tuple[float, ...] = (1.0, 2.0, 3.0, 4.5, 6.0, 9.0)
    missed: float = 50.0
    deep: float = 8.0

    def cost(self, target: Target) -> float:
        """Return how many entries of the likelihood a draw is worth, with a Cholesky factor given scales."""
        factor = target.prior.n_unknowns**3 / 3 / self.entry if target.batches or target.prior.pivots else 0.0
        return self.draw + target.reports.visited + factor

    def affordable(self, target: Target, width: int = 1) -> int:
        """Return how many draws are cheap, a power of two, where each holds ``width`` numbers."""
        most = min(self.work / self.cost(target), MOST_HELD / width)
        return 2 ** int(math.log2(max(most, 1)))


WEIGHTING = Weighting()


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws.

    Attributes
    ----------
    z, u : (N, u) arrays
        Unknowns, and the coordinates in which they were proposed.
    values : (N, …) array
        What the target says of them beside the density.
    found : WeightedDraws
    kept : int
        How many draws will be kept.
    judged : (N, …) array
        Quantities that have interval ends which are judged.
    missed : float
        The largest weight along the axes, in units of the mean weight. Derived: the maximum over the
        places of ``Weighting``; 0 before the axes are checked.
    heavy : (k, u) array
        Coordinates of places there whose weights are large.
    outside : float
        Share of the posterior, by draws of the prior, that is surely outside the box of the weighted draws of P.
        Derived: from draws of the prior (modes.py); 0 before they are made.
    prob : float
        Probability of the intervals. Format: 95 %, the default of ``fit``.
    weighting : Weighting
    """

    z: np.ndarray
    u: np.ndarray
    values: np.ndarray
    found: WeightedDraws
    kept: int
    judged: np.ndarray
    missed: float = 0.0
    heavy: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    outside: float = 0.0
    prob: float = 0.95
    weighting: Weighting = WEIGHTING

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

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the kept draws may be used."""
        judged = self.found.judged(self.kept)
        if self.missed > self.weighting.missed:
            judged = judged.rejecting(f"weights along the axes reach {self.missed:.3g} times their mean")
        judged = judged.with_outside(self.outside)
        made = max(len(self.z) / self.kept, 1.0)
        return judged.with_ends(self.end_error, LIMITS.end_error, made) if judged.accepted else judged

    @property
    def good(self) -> bool:
        """Whether they may be used, and their proposal needs no mending: errors fall as their number grows."""
        return self.verdict.accepted and self.found.finite_variance

    @property
    def wanted(self) -> float:
        """How many draws would be accepted, or have ends as exact as is aimed at; none where no number would."""
        if not self.verdict.accepted:
            return len(self.z) * self.verdict.times if self.verdict.next == "more" else 0
        return max(self.kept, len(self.z) * (self.end_error / self.weighting.aimed) ** 2)

    @property
    def width(self) -> int:
        """How many numbers a draw holds, of the unknowns or beside them."""
        return max(self.z.shape[1], self.values[0].size)

    @property
    def rank(self) -> tuple:
        """What makes the better of two, the most important first."""
        return self.verdict.accepted, self.verdict.next == "more", self.found.effective_sample

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


@dataclass(frozen=True, eq=False)
class Proposal:
    """A t of coordinates, about the middle or fitted to weighted draws of the proposal before, beside wider ones.

    Where effects have scales, it is of the scales alone; the effects given them are nearly standard normal.

    Attributes
    ----------
    target : Target
    frame : Arrow or Conditional
        Whose coordinates they are.
    law : StudentT
    rest : Johnson, optional
        Distribution of the effects given their scales.
    prior : FromPrior, optional
    weighting : Weighting
    parts : pair of tuple of StudentT or SplitProposal and (k,) array, optional
        In place of ``law`` and ``rest``: one distribution for each cluster of the draws, and their shares.
    heavy : tuple of (u,) arrays
        Places with large weights, about which there is a t each.
    """

    target: Target
    frame: Arrow | Conditional
    law: StudentT
    rest: Johnson | None = None
    prior: FromPrior | None = None
    weighting: Weighting = WEIGHTING
    parts: tuple[tuple[Any, ...], np.ndarray] | None = None
    heavy: tuple[np.ndarray, ...] = ()

    @classmethod
    def about(cls, target: Target, mode: tuple | None, watch: Any, weighting: Weighting = WEIGHTING) -> "Proposal":
        """Return the first proposal; see ``weighted``."""
        size = first = target.prior.n_unknowns
        frame: Arrow | Conditional
        if target.batches:
            near = weighting.far[:3]  # beyond three sd lie .3 % of a share that scales stand beside: it is nearly normal
            frame, others = Conditional(target, None if mode is None else mode[0], near), []
        else:
            centre, values, vectors = find_mode(target, np.zeros(size), watch) if mode is None else mode
            frame, others = Arrow.along(centre, vectors / np.sqrt(values)), target.others(centre, weighting.deep)
            if target.prior.pivots and not others:
                frame = Conditional(target, centre, weighting.far)
        if isinstance(frame, Conditional):
            first = frame.places.size
        rest = Johnson.standard(size - first) if size > first else None
        proposes = target.prior.unknowns(1, np.random.default_rng(0)) is not None
        prior = FromPrior(target.prior, frame) if proposes else None
        law = StudentT.standard(first, weighting.degrees)
        proposal = cls(target, frame, law, rest, prior, weighting)
        if not others:
            return proposal
        laws = [law]
        for other, axes in others:
            at = frame.back(other[None])[0]
            laws.append(replace(law, centre=at, root=(frame.back(other + axes.T) - at).T))
        return replace(proposal, parts=(tuple(laws), np.full(len(laws), 1 / len(laws))))

    @cached_property
    def mixture(self) -> Mixture:
        """The distribution as a whole."""
        wide, share = self.weighting.wide, 0.0 if self.prior is None else self.weighting.prior
        laws, shares = self.parts or ((self._whole(self.law, self.rest),), np.ones(1))
        wider = [replace(self.law, root=times * self.law.root) for times in self.weighting.wider]
        beside = [self._whole(Mixture(tuple(wider), np.full(len(wider), 1 / len(wider))), self.rest)]
        beside += [self._at(place) for place in self.heavy]
        each = np.full(len(beside), wide / len(beside))
        every, shares = (*laws, *beside), (1 - share) * np.append((1 - wide) * shares, each)
        return Mixture(every, shares) if self.prior is None else Mixture((*every, self.prior), np.append(shares, share))

    def _at(self, place):
        """Return a distribution about a place, with scales one."""
        size = self.law.size
        rest = None if self.rest is None else replace(Johnson.standard(self.rest.size), centre=place[size:])
        return self._whole(replace(self.law, centre=place[:size], root=np.eye(size)), rest)

    @staticmethod
    def _whole(law, rest):
        """Return the distribution of all coordinates, by the marginal of the first and the conditional of the rest."""
        return law if rest is None else SplitProposal(law, rest)

    def refitted(self, draws: Draws) -> "Proposal | None":
        """Return the same with a t fitted to weighted draws, or None where these are too few."""
        worth, weight, size = draws.found.effective_sample, draws.found.weight, self.law.centre.size
        law = StudentT.fitted(draws.u[:, :size], weight, self.law.degrees)
        if law is None or worth < self.weighting.each * draws.u.shape[1]:
            return None
        number, nearest = min(int(worth / (self.weighting.part * size)), self.weighting.parts), None
        if number > 1:
            nearest = law.clusters(draws.u[:, :size], weight, number, self.weighting.least)
        parts, rest = None, self._rest(draws.u, weight)
        if nearest is not None:
            shares = np.bincount(nearest, weight, number)
            each = [(nearest == k, share) for k, share in enumerate(shares)]
            parts = tuple(self._part(draws.u[here], weight[here] / share) for here, share in each), shares
        heavy = (*self.heavy, *draws.heavy)
        return replace(self, law=law, rest=rest, parts=parts, heavy=heavy)

    def _rest(self, u, weight):
        """Return what is fitted to the coordinates given others of weighted draws, or None where nothing is given."""
        return None if self.rest is None else Johnson.fitted(u[:, self.law.size :], weight)

    def _part(self, u, weight):
        """Return the distribution of all coordinates that is fitted to a cluster, wider where it is cut off."""
        law = StudentT.fitted(u[:, : self.law.size], weight, self.law.degrees)
        return self._whole(replace(law, root=self.weighting.widened * law.root), self._rest(u, weight))

    def draw(self, number: int, size: int, seen: PriorDraws | None, prob: float, rng, watch: Any) -> Draws:
        """Return weighted Draws, with what they miss.

        Parameters
        ----------
        number : int
            Of the draws.
        size : int
            Draws that are kept of them.
        seen : PriorDraws or None
        prob : float
            Of the intervals.
        rng : numpy.random.Generator
        watch : Watch
        """
        target = self.target
        u, log_proposal = sobol(self.mixture, number, rng)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            z, volume = self.frame.placed(u)
            lost = ~(np.abs(z) < FARTHEST).all(axis=1)
            z[lost] = 0.0
            value, values = target.log_density(z, watch=watch)
            log_ratio = np.where(lost, -np.inf, value + volume - log_proposal)
            weights = weigh(target.weighed_by(z, values), log_ratio)
        outside = 0.0 if seen is None else seen.outside(values.reshape(len(z), -1), weights.weight)
        (missed, heavy), judged = self._missed(z, weights), target.judged(z, values)
        return Draws(z, u, values, weights, size, judged, missed, heavy, outside, prob, self.weighting)

    def _missed(self, z, weights):
        """Return (the largest weight along axes through the mean in units of the mean weight, coordinates of large ones).

        Nobody looks where there would be more places than draws.
        """
        target, weight, far = self.target, weights.weight, np.array(self.weighting.far)
        centre = weight @ z
        axes = target.axes((weight[:, None] * (z - centre)).T @ (z - centre) + 1e-12 * np.eye(z.shape[1]))
        points = (centre + np.multiply.outer(far, np.concatenate([axes, -axes]))).reshape(-1, z.shape[1])
        if not 0 < len(points) <= len(z):
            return 0.0, np.empty((0, z.shape[1]))
        with np.errstate(all="ignore"):
            u = self.frame.back(np.concatenate([centre[None], points]))
            places, volume = self.frame.placed(u)
            height = target.log_density(places)[0] + volume  # a density of what is nearly normal shows the mass
            log_ratio = height[1:] - self.mixture.log_density(u[1:]) - weights.log_evidence
            log_ratio = np.where(height[1:] > height[0] - self.weighting.deep, log_ratio, -np.inf)
        ratio = np.exp(np.clip(np.nan_to_num(log_ratio, nan=-np.inf), -50.0, 50.0))
        largest, place = ratio.reshape(far.size, -1).max(axis=0), ratio.reshape(far.size, -1).argmax(axis=0)
        heaviest = np.argsort(-largest)[: np.count_nonzero(largest > self.weighting.missed / 2)][: self.weighting.parts]
        return float(ratio.max(initial=0.0)), u[1:].reshape(far.size, largest.size, -1)[place[heaviest], heaviest]


def weighted(
    target: Target,
    size: int,
    rng: np.random.Generator,
    watch: Any,
    mode: tuple | None = None,
    prob: float = 0.95,
    weighting: Weighting = WEIGHTING,
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
        The result of find_mode.
    prob : float
        Probability of the intervals whose ends are judged.
    weighting : Weighting
    """
    seen, proposal = target.prior_draws(rng), Proposal.about(target, mode, watch, weighting)
    needed = 2 ** math.ceil(math.log2(max(size, weighting.least)))  # Sobol points are best in powers of two
    number = needed if needed <= weighting.affordable(target) else needed // 8  # few before many at every row
    best = draws = proposal.draw(number, size, seen, prob, rng, watch)
    source, most = proposal, max(needed, weighting.affordable(target, draws.width))
    for _ in range(weighting.rounds - 1):
        lacking = weighting.each * draws.u.shape[1] / draws.found.effective_sample
        if draws.good or max(lacking, 1) * number > most:
            break
        proposal = proposal.refitted(draws) or proposal
        number = min(2 ** math.ceil(math.log2(number * max(lacking, 2))), most)
        draws = proposal.draw(number, size, seen, prob, rng, watch)
        if draws.rank > best.rank:
            best, source = draws, proposal
    while len(best.z) < min(best.wanted, last := most if best.verdict.accepted else MOST_HELD // draws.width):
        source = source.refitted(best) or source  # what is rejected goes on as long as its verdict says
        number = min(2 ** math.ceil(math.log2(max(best.wanted, needed))), last)
        more = source.draw(number, size, seen, prob, rng, watch)
        if more.rank <= best.rank:
            break
        best = more
    return best


def from_prior(
    target: Target,
    size: int,
    rng: np.random.Generator,
    watch: Any,
    prob: float = 0.95,
    weighting: Weighting = WEIGHTING,
) -> Draws | None:
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
        Probability of the intervals whose ends are judged.
    weighting : Weighting
    """
    prior, seen = target.prior, PriorDraws.of(target.prior, target.reports, rng)
    most = int(min(MOST_HELD // max(prior.n_unknowns, seen.p.shape[1]), weighting.work // weighting.cost(target)))
    number = math.ceil(size * len(seen.p) / seen.worth)
    if seen.few or number > most or prior.unknowns(1, rng) is None:
        return None

    def drawn(number):
        z = prior.unknowns(number, rng)
        value, values = target.log_density(z, watch=watch)
        weights = weigh(target.weighed_by(z, values), value - prior.log_density(z))
        return Draws(z, z, values, weights, size, target.judged(z, values), prob=prob, weighting=weighting)

    draws = drawn(number)
    more = min(math.ceil(draws.wanted), most)
    return drawn(more) if more > number else draws
