"""What can be concluded if some reports are fake: the range of an estimate over all sets of at most so many fakes."""

import bisect
import math
import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers.base import conclusion, one_channel, words
from ldpbayes.answers.prior_nodes import Moments, PriorNodes
from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.collections.data import mechanisms
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.estimators.confidence import clopper_pearson
from ldpbayes.inference.ends import tails
from ldpbayes.priors import Dirichlet, as_prior
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.protocols.base import Binomials

if TYPE_CHECKING:
    from ldpbayes.posteriors.exact import ExactMoments

#: Categories whose ranges are worked out one by one where no support counts give them.
MOST = 1000
#: Points of the curve of a conclusion.
POINTS = 61
#: A range of posterior means is searched for in so many rounds, each with shorter and shorter steps.
ROUNDS, STEPS = 4, (1.0, 0.5, 0.25, 0.1)
#: Rounds end where a first-order move gains less than this.
TOLERANCE = 1e-6
#: Quantiles between which a posterior's mass is counted, for bounds that hold under every Dirichlet prior.
LEVELS, LEVELS_APART = expit(np.linspace(-30, 30, 241)), 60.0
#: Numbers of removed reports of a category that such a bound tells apart; the second under a learnt concentration, where
#: each is looked at given every node.
BLOCKS = 6, 2
#: Posterior means that bounds by own reports take.
MEANS = 128
#: An end this near to its bound is the extreme; bounds this near to 0 and 1 say nothing.
REACHED, NOTHING = 1e-9, 1e-3
#: The ends of a range: of the estimate, and with sampling error.
ENDS = ("low", "high", "confidence_low", "confidence_high")


class ContaminationHull(Answer):
    """The range of estimates that are possible if at most a share η of the reports is fake.

    Over ``share`` (η) and ``quantity``: ``low`` and ``high``, the least and the largest estimate from the honest reports,
    within what a distribution allows; ``confidence_low`` and ``confidence_high``, with their sampling error. ``fakes`` is
    ⌊ηn⌋, ``estimate`` the unbiased estimate from all n reports. The attributes are question, sentence, n, ci_prob; exact
    (confidence limits are those of a binomial law, otherwise normal); threshold of a conclusion (nan without one), turning
    and turning_confident: the least share of fakes at which it may be the other way round, by the estimate and with
    sampling error (inf where no share below one half is enough).
    """

    __slots__ = ()

    @property
    def curve(self) -> xr.Dataset:
        """The four ends of a single quantity, and ``share``, along a fine grid of η; empty for every category."""
        return self._part("curve_")

    @property
    def posterior(self) -> xr.Dataset | None:
        """The least and the largest posterior mean over all sets of at most so many fakes; None without a prior.

        ``mean`` is that of all reports. Over ``share``: ``low`` and ``high``, which some set of fakes leaves;
        ``credible_low`` and ``credible_high``, the outer ends of equal-tailed credible intervals there (nan for a sum or a
        difference); ``bound_low`` and ``bound_high``, beyond which no set of fakes leaves a mean; ``certified``, whether
        both are reached. ``gap`` is the most that one more step of the search would gain at an end, to first order, and
        ``error`` the standard error of ``mean``: zero but under a prior that is neither Dirichlet nor ``learnt``.
        """
        return self._part("posterior_") if "posterior_mean" in self.data_vars else None

    def _part(self, start: str) -> xr.Dataset:
        names = [name for name in self.data_vars if str(name).startswith(start)]
        return xr.Dataset({str(name).removeprefix(start): self[name].variable for name in names})


def contamination_hull(
    collection: Collection | Tally,
    question: str | Sequence[str] | None = None,
    *,
    share: float | Sequence[float] = (0.01, 0.05, 0.1),
    channel: str | None = None,
    ci_prob: float = 0.95,
    prior: object = None,
) -> ContaminationHull:
    """Return what the honest reports may say if at most a share η of all reports is fake, by any law.

    The unbiased estimate of Σ_x w_x p_x is the mean of a score of each report. With at most m = ⌊ηn⌋ fakes among n reports
    the honest ones' estimate lies between the means that are left when the m largest and when the m smallest scores are
    taken away, and every value there is one that some set of fakes leaves. For one category with support count C and rates
    g and h that is [(C − m)/(n − m), C/(n − m)] for the share of supports, mapped by (· − h)/(g − h).

    The confidence limits add the sampling error of the honest reports: exact for one category whose support count is
    binomial, however the fakes were chosen; normal otherwise, with a bound on the variance of honest scores.

    Parameters
    ----------
    collection : Collection or Tally
        One channel, or several with ``channel``.
    question : str or sequence of str, optional
        A category; several, for their sum; or a conclusion such as "yes > 0.2", "a + b < 10 %" or "apples > pears". By
        default every category for itself.
    share : float or sequence of float
        η, at least 0 and below 0.5.
    channel : str, optional
        Name of the channel, for a collection with several.
    ci_prob : float
        Probability of the confidence limits.
    prior : str, float, array or AbstractPrior, optional
        Adds the range of the posterior mean over all sets of at most so many fakes, with bounds of both ends, for a question
        about one quantity and reports that each single out one category, such as GRR's. Of two categories any prior serves,
        and both ends are certified. More need a Dirichlet prior, or ``learnt``, under which the bounds of many reports say
        nothing.

    Returns
    -------
    ContaminationHull

    Raises
    ------
    ArgumentError
        If an argument breaks its rule, or names an unknown category.
    InfeasibleError
        Where the protocol's estimate is no mean over the reports, or the posterior is not exact.

    Notes
    -----
    Derivation, tightness and the search are in docs/theory/contamination.md.

    Examples
    --------
    >>> from ldpbayes.protocols import GRR
    >>> tally = Tally(GRR(3, 1.0), [0, 1, 2], [500, 300, 200], categories=("a", "b", "c"))
    >>> hull = contamination_hull(tally, "a > 0.4", share=0.05)
    >>> hull.low.round(3).item(), hull.high.round(3).item(), round(hull.turning, 3)
    (0.719, 0.863, 0.222)
    """
    tally, labels = _one_channel(collection, channel)
    shares = _shares(share)
    ci_prob = checks.level(ci_prob)
    n = tally.n_reports
    fakes = np.floor(shares * n * (1 + 1e-12)).astype(np.int64)
    form = tally.protocol.binomials(tally.reports, tally.counts)
    if question is None:
        if prior is not None:
            raise ArgumentError("prior goes with a question about one quantity, such as a category.")
        if form is None and len(labels) > MOST:
            raise InfeasibleError(
                f"The range of every category is worked out for at most {MOST:,} of them here, got {len(labels):,}; ask one."
            )
        text, names, weights, threshold, above = "every category", labels, np.eye(len(labels)), math.nan, True
    else:
        name, one, threshold, above = _asked(question, labels)
        text, names, weights = question if isinstance(question, str) else name, (name,), one[None]
    every = [_Ends.of(tally, row, ci_prob, form) for row in weights]
    low, high, sure_low, sure_high = np.array([ends(fakes) for ends in every]).transpose(1, 2, 0)
    estimate = np.array([ends.estimate for ends in every])
    ranges = dict(zip(ENDS, (low, high, sure_low, sure_high), strict=True))
    arrays: dict[str, tuple] = {name: (("share", "quantity"), values) for name, values in ranges.items()}
    arrays |= {"estimate": ("quantity", estimate), "fakes": ("share", fakes)}
    facts: dict[str, Any] = {"turning": math.nan, "turning_confident": math.nan}
    if question is not None:
        facts, curve = _turned(every[0], shares, threshold)
        arrays |= {f"curve_{name}": ("at", values) for name, values in curve.items()}
        if prior is not None:
            found = _posterior_range(tally, weights[0], fakes, as_prior(prior, len(labels)), ci_prob)
            arrays |= {f"posterior_{name}": (("share",)[: np.ndim(one)], one) for name, one in found.items()}
    facts |= {"source": f"{mechanisms({tally.name: [(0, tally)]})}, by the unbiased estimate"}
    facts |= {"question": text, "n": n, "ci_prob": ci_prob, "exact": every[-1].exact, "threshold": threshold}
    hull = ContaminationHull(arrays, {"share": shares, "quantity": list(names)}, facts)
    holds = None if math.isnan(threshold) else bool(estimate[0] > threshold if above else estimate[0] < threshold)
    hull.attrs["sentence"] = _of_every_category(hull) if question is None else _sentence(hull, holds)
    return hull


def _turned(ends: "_Ends", shares: FloatArray, threshold: float) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return (the shares of fakes that turn a conclusion, if there is one; the curve of a quantity)."""
    turning = confident = math.nan
    if not math.isnan(threshold):
        turning, confident = (_turning(ends, part, threshold) for part in (slice(0, 2), slice(2, 4)))
    most = max(shares.max(), 1.25 * turning if math.isfinite(turning) else 0.01, 0.01)
    grid = np.linspace(0, min(most, 0.499), POINTS)
    curve = dict(zip(ENDS, ends(np.floor(grid * ends.n).astype(np.int64)), strict=True))
    return {"turning": turning, "turning_confident": confident}, {"share": grid} | curve


def _one_channel(collection: Collection | Tally, channel: str | None) -> tuple[Tally, tuple[str, ...]]:
    """Return (tally, labels) of the channel in question, or refuse."""
    collection = as_collection(collection)
    if collection.weighted:
        raise ArgumentError("collection must have no sampling weights: nobody knows the weight of a fake report.")
    if collection.laws:
        raise ArgumentError("collection must be one of honest reports and unknown fakes; leave its laws out.")
    return one_channel(collection, channel), collection.categories


def _shares(share: Any) -> FloatArray:
    rule = "one share of fakes, or a sequence of them"
    found = [share] if isinstance(share, numbers.Real) else checks.entries(share, "share", rule)
    if not found:
        raise ArgumentError("share must hold at least one share of fakes, got none.")
    out = np.array([checks.real(one, "share", "a number") for one in found])
    bad = ~((out >= 0) & (out < 0.5))
    if bad.any():
        raise ArgumentError(f"share must be at least 0 and below 0.5, got {shown(float(out[bad][0]))}.")
    return out


def _asked(question: str | Sequence[str], labels: tuple[str, ...]) -> tuple[str, FloatArray, float, bool]:
    """Return (name, weights, threshold or nan, whether the conclusion says above) of a question."""
    parts, sign, right = conclusion(question, labels, "question")
    if len(parts) == len(labels):
        raise ArgumentError(f"question must leave some category out, got {shown(question)}.")
    weights = np.isin(labels, parts).astype(float)
    name, threshold = words(parts), math.nan if right is None else 0.0
    if isinstance(right, str):
        weights[labels.index(right)] = -1.0
        name = f"{name} − {right}"
    elif right is not None:
        threshold = right
    return name, weights, threshold, sign == ">"


class _Ends:
    """The least and the largest honest estimate of one quantity, with confidence limits, for numbers of fakes.

    Parameters
    ----------
    scores : (m,) array
        Distinct scores, in increasing order.
    counts : (m,) array
    bounds : pair of float
        What a distribution allows.
    tail : float
        Probability beyond each confidence limit.
    binomial : tuple, optional
        (C, g, h) where the quantity is one category's share with a binomial support count.
    """

    def __init__(
        self,
        scores: FloatArray,
        counts: FloatArray,
        bounds: tuple[float, float],
        tail: float,
        binomial: tuple[float, float, float] | None = None,
    ) -> None:
        self.scores, self.counts, self.bounds, self.tail, self.binomial = scores, counts, bounds, tail, binomial
        self.n = int(counts.sum())
        self.users = np.concatenate([[0], np.cumsum(counts)])
        self.sums = np.concatenate([[0], np.cumsum(counts * scores)])
        self.estimate = _rounded(float(self.sums[-1] / self.n))
        self.exact = binomial is not None

    @classmethod
    def of(cls, tally: Tally, weights: FloatArray, ci_prob: float, form: Binomials | None) -> "_Ends":
        """Return the ends of a quantity Σ w_x p_x of one tally, or refuse."""
        tail, bounds = tails(ci_prob)[0], (float(weights.min()), float(weights.max()))
        if form is not None and np.count_nonzero(weights) == 1:
            own = int(weights.argmax())
            held, g, h = float(form.counts[own]), float(form.hit[own]), float(form.other[own])
            scores, counts = np.array([-h, 1 - h]) / (g - h), np.array([form.n - held, held])
            if tally.protocol.hit_rates is not None or _counts_supports(tally, weights, scores):
                return cls(scores, counts, bounds, tail, (held, g, h))
        decoder, rows = tally.protocol.decoder(), tally.rows
        found = None if decoder is None else decoder.scores(rows, weights)
        if found is None and not tally.protocol.has_full_rank():
            raise InfeasibleError(
                f"The reports of {tally.protocol.design} do not identify every category. There is no unbiased estimate as a "
                "mean over the reports, and no range of it under fakes."
            )
        if found is None:
            raise InfeasibleError(
                f"The estimate from reports of {tally.protocol.design} is not known as a mean over the reports, so no range "
                "under fakes is."
            )
        order = np.argsort(found, kind="stable")
        return cls(found[order], rows.counts[order], bounds, tail)

    def __call__(self, fakes: IntArray) -> tuple[FloatArray, ...]:
        """Return (low, high, confidence_low, confidence_high), each of the shape of fakes."""
        left = self.n - fakes
        low = np.interp(left, self.users, self.sums) / left  # the sum of sorted scores is linear between whole reports
        high = (self.sums[-1] - np.interp(fakes, self.users, self.sums)) / left
        if self.binomial is not None:
            held, g, h = self.binomial
            least, most = np.maximum(held - fakes, 0.0), np.minimum(held, left)
            sure_low, sure_high = ((end - h) / (g - h) for end in clopper_pearson(least, most, left, self.tail))
        else:
            mean = self.estimate
            spread = float(self.counts @ (self.scores - mean) ** 2) / self.n
            apart = np.maximum(mean - low, high - mean)
            error = np.sqrt(self.n / left * (spread + apart**2) / left) * -ndtri(self.tail)
            sure_low, sure_high = low - error, high + error
        return tuple(np.clip(_rounded(end), *self.bounds) for end in (low, high, sure_low, sure_high))


def _rounded(end: Any) -> Any:
    """Return an end without the rounding of its sums, so that what is a tie on paper neither holds nor turns by 10⁻¹⁶."""
    return np.round(end, 13) + 0.0


def _counts_supports(tally: Tally, weights: FloatArray, scores: FloatArray) -> bool:
    """Return whether the unbiased estimate has the scores of a support count; an explicit channel may have a better one."""
    decoder = tally.protocol.decoder()
    found = None if decoder is None else decoder.scores(tally.rows, weights)
    return found is not None and bool(np.isclose(found[:, None], scores).any(axis=1).all())


def _of_every_category(hull: ContaminationHull) -> str:
    """Return the answer about every category in words."""
    worst = hull.isel(share=int(hull["share"].values.argmax()))
    worst = worst.isel(quantity=int((worst["high"] - worst["low"]).values.argmax()))
    low, high, share, fakes = (worst[name].item() for name in ("low", "high", "share", "fakes"))
    return (
        f"If at most {_percent(share)} of the {hull.n:,} reports are fake ({fakes:,}), the honest ones' estimate of "
        f"{worst['quantity'].item()} may be anything from {low:#.3g} to {high:#.3g}; no other range is wider."
    )


def _turning(ends: "_Ends", part: slice, threshold: float) -> float:
    """Return the least share of fakes whose range crosses the threshold; inf where less than half does not."""

    def crossed(m: int) -> bool:
        low, high = ends(np.array([m]))[part]
        return bool(low[0] <= threshold) if ends.estimate > threshold else bool(high[0] >= threshold)

    most = (ends.n - 1) // 2
    least = bisect.bisect_left(range(most + 1), True, key=crossed)
    return least / ends.n if least <= most else math.inf


class _Removals:
    """Posterior means of Σ w_x P_x where reports are removed, and bounds of them; see docs/theory/contamination.md."""

    def __init__(self, tally: Tally, prior: AbstractPrior, weights: FloatArray) -> None:
        alpha, form = prior.concentrations(), tally.rows.separable()
        learnt = alpha is None and prior.nodes() is not None and form is not None and bool((form.slope >= 0).all())
        other = alpha is None and not learnt
        if form is None or (other and weights.size > 2):
            raise InfeasibleError(
                "The range of the posterior mean needs reports that each single out one category, such as GRR's, and of "
                "three categories or more a Dirichlet prior, or one whose concentration is learnt: under a prior that ties "
                "them to each other a report fewer of one may raise or lower another, and which fakes move a share the "
                "farthest is not known. Leave prior out for the range of the unbiased estimate."
            )
        self.alpha: Any = alpha  # None where it is learnt, and under any other prior of two categories, which has nodes
        self.nodes = PriorNodes(prior) if other else None
        self.tally, self.prior, self.weights = tally, prior, weights
        came = np.asarray(tally.counts) > 0  # what nobody reported need not single out a category
        self.reports, self.counts = tally.reports[came], np.asarray(tally.counts, dtype=np.int64)[came]
        every: Any = tally.protocol.rows(self.reports, np.ones(len(self.counts))).separable()
        self.index, self.base, self.slope = every.index, every.base, every.slope
        self.whole = self.evaluate(np.zeros_like(self.counts))

    def evaluate(self, removed: IntArray, prior: AbstractPrior | None = None) -> Any:
        """Return the posterior of the reports that are left, under another prior where one is given."""
        if self.nodes is not None:
            return self.nodes.given(self.base, self.slope, self.index == 0, self.counts - removed)
        from ldpbayes.posteriors.exact import ExactMoments

        left = self.counts > removed
        rows = self.tally.protocol.rows(self.reports[left], (self.counts - removed)[left])
        return ExactMoments(rows, prior or self.prior)

    def slopes(self, moments: "ExactMoments | Moments") -> FloatArray:
        """Return by how much the mean rises with one more of each report: s Cov(w·P, P_x)/(b + s E P_x), exactly."""
        moved = self.slope * (moments.covariance() @ self.weights)[self.index]
        return moved / (self.base + self.slope * moments.mean[self.index])

    @property
    def associated(self) -> bool:
        """Whether shares are negatively associated: a report a category, each raising it, and log-concave factors."""
        if self.alpha is None:  # that is shared ties them
            return False
        concave = bool((self.alpha >= 1).all())
        return concave and self.index.size == np.unique(self.index).size and bool((self.slope > 0).all())

    def _of_two(self, weights: FloatArray, m: int, side: int) -> IntArray:
        """Return the removal that is known to move one of two shares farthest: under any prior.

        The likelihood of every report is linear in the share, 1 + c p up to a constant, and the ratio of any two moves one
        way with p: a report of larger c is one whose removal lowers the share more. c/(2 + c) is in the same order.
        """
        order = np.where(self.index == weights.argmax(), 1.0, -1.0) * self.slope / (2 * self.base + self.slope)
        return _steepest(order, side * order < 0, self.counts, m)

    def bound(self, share: FloatArray, m: int, side: int) -> float:
        """Return an outer end of the mean of a sum: at the removal that is known to move it most, or by odds."""
        if not m:
            return float(share @ self.whole.mean)
        if share.size == 2:
            return float(share @ self.evaluate(self._of_two(share, m, side)).mean)
        if not self.associated:
            odds = float(np.clip(np.sum([self._by_odds(int(x), m, side) for x in np.flatnonzero(share)]), 0.0, 1.0))
            return odds if self.alpha is None else side * min(side * odds, side * self._by_own(share, m, side))
        alpha, counts, index, base, slope = self.alpha, self.counts, self.index, self.base, self.slope
        group = np.flatnonzero(share[index] == (0.0 if side > 0 else 1.0))
        same = len({(alpha[index[y]], slope[y] / base[y]) for y in group}) <= 1
        removed = np.zeros_like(counts)
        removed[group] = _levelled(counts[group], m) if same else np.minimum(counts[group], m)
        return float(share @ self.evaluate(removed).mean)

    def _by_own(self, share: FloatArray, m: int, side: int) -> float:
        """Return a bound of a sum by the least means of its shares, or of the others, each by its own reports alone.

        A share is least where its own reports are removed and the others' concentrations are one at least.
        """
        chosen = np.flatnonzero(share > 0 if side < 0 else share == 0)
        if chosen.size > MEANS or (self.slope <= 0).any():
            return float(side > 0)
        steps = 1 if chosen.size == 1 else min(m, MEANS // chosen.size)
        edges = np.unique(np.linspace(0, m, steps + 1).astype(int))
        least = np.empty((chosen.size, edges.size))
        for own, x in zip(least, chosen, strict=True):
            alpha = np.maximum(self.alpha, 1.0)
            alpha[x] = self.alpha[x]
            for j, edge in enumerate(edges):
                removed = _steepest(self.slope / self.base, self.index == x, self.counts, int(edge))
                own[j] = self.evaluate(removed, Dirichlet(alpha)).mean[x]
        # What lies between two edges has the mean of the later one, and is worth the steps up to the earlier one.
        places = np.arange(edges.size)
        costs = places if edges.size == m + 1 else np.maximum(places - 1, 0)
        total = np.zeros(edges.size)  # the least sum for so many steps
        for own in least:
            pairs = list(zip(costs, own, strict=True))
            total = np.array([min(total[spent - cost] + mean for cost, mean in pairs if cost <= spent) for spent in places])
        return float(total[-1] if side < 0 else 1 - total[-1])

    def _by_odds(self, x: int, m: int, side: int) -> float:
        """Return a bound of one share: what its own reports do is known, and what others do has bounds at every value."""
        counts, base, slope = self.counts, self.base, self.slope
        if (np.minimum(base, base + slope)[counts > 0] <= 0).any():
            return float(side > 0)  # some report excludes a category: the odds of a removal have no bound
        own, steep = self.index == x, slope / base
        away = np.abs(np.log1p(steep)) @ _steepest(steep, ~own, counts, m)
        if away > LEVELS_APART:  # of a mass of e^−30 nothing is known
            return float(side > 0)
        towards, ends = own & (slope * side < 0), []  # its own reports whose removal moves it to this side
        blocks = BLOCKS[self.alpha is None]
        jumps = np.unique(np.linspace(0, min(m, int(counts[towards].sum())), blocks + 1).astype(int))
        for fewer, more in zip(np.append(0, jumps[:-1]), jumps, strict=True):
            moments = self.evaluate(_steepest(steep, towards, counts, more))
            edges = np.maximum.accumulate(moments.given(LEVELS)[:, :, x], axis=1)
            low, high = np.pad(edges, ((0, 0), (1, 0))), np.pad(edges, ((0, 0), (0, 1)), constant_values=1.0)
            log_mass = np.log(np.multiply.outer(moments.weights, np.diff(LEVELS, prepend=0.0, append=1.0))).ravel()
            order = np.argsort((high if side > 0 else low).ravel(), kind="stable")
            low, high, log_mass = low.ravel()[order], high.ravel()[order], log_mass[order]
            rest = 1 - low  # others can do most at the lower end of a bin
            least, most = (
                -np.log1p(np.multiply.outer(rest, steep)) @ _steepest(steep, ~own & (sign * slope > 0), counts, m - fewer)
                for sign in (1, -1)
            )
            ends.append(side * _by_odds(high if side > 0 else low, log_mass, least, most, side))
        return side * max(ends)

    def search(self, m: int, side: int, before: "tuple[IntArray, Any]") -> tuple[IntArray, Any, float]:
        """Return (removal, moments, gap) with at most m reports removed: the mean is least (side −1), or largest (+1).

        The search starts where counts are levelled from above among the categories of the right weight, and moves towards
        the removal with the best slopes as long as that gains. ``before`` is the best removal of fewer reports: it is
        allowed here too, so that ranges grow with m.
        """
        counts, weights = self.counts, self.weights
        if weights.size == 2:
            removed = self._of_two(weights, m, side)
            return removed, self.evaluate(removed), 0.0

        def best(gradient: FloatArray) -> IntArray:
            """Return the removal of at most m reports with the largest gain to first order."""
            return _steepest(gradient, side * gradient < 0, counts, m)

        def levelled(chosen: NDArray[np.bool_]) -> IntArray:
            out = np.zeros_like(counts)
            out[chosen] = _levelled(counts[chosen], m)
            return out

        order = -side * weights[self.index]
        starts = best(self.slopes(before[1])), levelled(order == order.max()), levelled(order > order.min())
        trials = [before, *((removal, self.evaluate(removal)) for removal in starts)]
        removed, moments = max(trials, key=lambda trial: side * (weights @ trial[1].mean))
        gap = math.inf
        for _ in range(ROUNDS):
            gradient = self.slopes(moments)
            towards = best(gradient)
            gap = float(-side * gradient @ (towards - removed))
            if gap < TOLERANCE:
                break
            value = weights @ moments.mean
            for step in STEPS:
                trial = _whole(removed + step * (towards - removed), counts)
                there = self.evaluate(trial)
                if side * (weights @ there.mean - value) > 0:
                    removed, moments = trial, there
                    break
            else:
                break
        return removed, moments, max(gap, 0.0)


def _posterior_range(
    tally: Tally, weights: FloatArray, fakes: IntArray, prior: AbstractPrior, ci_prob: float
) -> dict[str, Any]:
    """Return the range of E[Σ w_x P_x] over the sets of at most so many fakes; see docs/theory/contamination.md."""
    removals = _Removals(tally, prior, weights)
    none = np.zeros_like(removals.counts), removals.whole
    reached: dict[int, tuple[IntArray, Any]] = {-1: none, 1: none}
    ends, outer = np.empty((2, fakes.size)), np.empty((2, fakes.size))
    credible, gap = np.full((2, fakes.size), math.nan), 0.0
    plus, minus = (weights > 0).astype(float), (weights < 0).astype(float)
    for k in np.argsort(fakes, kind="stable"):
        m = int(fakes[k])
        for at, side in enumerate((-1, 1)):  # the least, and the largest mean
            if m:
                removed, moments, more = removals.search(m, side, reached[side])
                reached[side], gap = (removed, moments), max(gap, more)
            moments = reached[side][1]
            ends[at, k] = weights @ moments.mean
            outer[at, k] = removals.bound(plus, m, side) - (removals.bound(minus, m, -side) if minus.any() else 0.0)
            if np.count_nonzero(weights) == 1:
                credible[at, k] = moments.interval(ci_prob)[at, int(weights.argmax())]
    parts = {"": ends, "credible_": credible, "bound_": outer}
    found: dict[str, Any] = {
        f"{name}{side}": part[at] for name, part in parts.items() for at, side in enumerate(("low", "high"))
    }
    certified = np.abs(ends - outer).max(axis=0) <= REACHED
    whole = removals.whole
    error = float(np.ptp(weights)) * whole.error  # of two shares; elsewhere it is nil
    return found | {"mean": float(weights @ whole.mean), "gap": gap, "error": error, "certified": certified}


def _by_odds(values: FloatArray, log_mass: FloatArray, least: FloatArray, most: FloatArray, side: int) -> float:
    """Return the least (side −1) or the largest mean (+1) of a share whose density is multiplied by unknown odds.

    ``values`` are the lower or the upper ends of bins in increasing order, ``least`` and ``most`` bounds of the logarithm of
    the odds in each. The mean is extreme where all bins on one side of a threshold have the least odds, and all others the
    most.
    """
    with np.errstate(divide="ignore"):
        log_value = np.log(values)
    light, heavy, log_value = (part[::side] for part in (log_mass + least, log_mass + most, log_value))
    sums = [
        np.logaddexp(
            np.append(-np.inf, np.logaddexp.accumulate(light + part)),
            np.append(np.logaddexp.accumulate((heavy + part)[::-1])[::-1], -np.inf),
        )
        for part in (log_value, 0.0)
    ]
    return side * float((side * np.exp(sums[0] - sums[1])).max())


def _steepest(steep: FloatArray, chosen: NDArray[np.bool_], counts: IntArray, most: int) -> IntArray:
    """Return the removal of at most so many of the chosen reports, the steepest first."""
    order = np.argsort(-np.abs(steep), kind="stable")
    left = np.where(chosen, counts, 0)[order]
    out = np.empty_like(counts)
    out[order] = np.clip(most - np.cumsum(left) + left, 0, left)
    return out


def _levelled(counts: IntArray, m: int) -> IntArray:
    """Return the removal of m reports, or of all, that cuts the largest counts to one level."""
    if counts.sum() <= m:
        return counts.copy()
    # The least level with at most m reports above it.
    level = bisect.bisect_left(range(int(counts.max())), True, key=lambda x: np.maximum(counts - x, 0).sum() <= m)
    out = np.maximum(counts - level, 0)
    out[np.flatnonzero(counts >= level)[: m - int(out.sum())]] += 1
    return out


def _whole(removed: FloatArray, counts: IntArray) -> IntArray:
    """Return whole numbers near a removal with the same total, rounded."""
    out = np.floor(removed).astype(np.int64)
    short = round(float(removed.sum())) - int(out.sum())
    order = np.argsort(out - removed, kind="stable")
    for y in order[: max(short, 0)]:
        out[y] += out[y] < counts[y]
    return out


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _sentence(hull: ContaminationHull, holds: bool | None) -> str:
    """Return the answer in words."""
    i = int(hull["share"].values.argmax())
    worst = hull.isel(share=i, quantity=0)
    low, high, sure_low, sure_high, share, fakes, estimate = (
        worst[name].item() for name in (*ENDS, "share", "fakes", "estimate")
    )
    sentence = (
        f"The estimate of {worst['quantity'].item()} from all {hull.n:,} reports is {estimate:.3g}. If at most "
        f"{_percent(share)} of them are fake ({fakes:,}), that of the honest ones lies between {low:.3g} and {high:.3g}, "
        f"and with sampling error between {sure_low:.3g} and {sure_high:.3g}."
    )
    if holds is not None:
        claim = f"'{hull.question}'"
        state = "holds for this estimate" if holds else "does not hold for this estimate"
        if math.isinf(hull.turning):
            sentence += f" {claim} {state}, and no share of fakes below one half turns it."
        else:
            sentence += f" {claim} {state}; {_percent(hull.turning)} of fakes are enough to turn it"
            if hull.turning_confident == 0:
                sentence += ", and the sampling error is enough without any."
            else:
                sentence += f", and {_percent(hull.turning_confident)} together with the sampling error."
    if hull.posterior is not None:
        means = {str(name): values.values.ravel()[-1 if values.ndim == 0 else i] for name, values in hull.posterior.items()}
        sentence += f" The posterior mean, {means['mean']:.3g}, then lies between {means['low']:.3g} and {means['high']:.3g}"
        if means["certified"]:
            sentence += "."
        elif means["bound_low"] > NOTHING or means["bound_high"] < 1 - NOTHING:
            sentence += (
                f" as far as a search has seen, and no set of fakes moves it beyond {means['bound_low']:.3g} and "
                f"{means['bound_high']:.3g}."
            )
        else:
            sentence += " as far as a search has seen; the bounds of it say nothing here."
    return sentence


__all__ = ["ContaminationHull", "contamination_hull"]
