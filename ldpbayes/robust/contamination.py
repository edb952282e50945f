"""What can be concluded if some reports are fake: the range of an estimate over all sets of at most so many fakes."""

import bisect
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtri

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers.base import conclusion, one_channel, words
from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.collections.data import mechanisms
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.estimators.confidence import clopper_pearson
from ldpbayes.inference.ends import tails
from ldpbayes.presenting import recorded
from ldpbayes.protocols.base import Binomials

#: Time: Categories whose ranges are worked out one by one where no support counts give them.
MOST = 1000
#: Display: Points of the curve of a conclusion.
POINTS = 61
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
        names = [str(name) for name in self.data_vars if str(name).startswith("curve_")]
        return xr.Dataset({name.removeprefix("curve_"): self[name].variable for name in names})


@recorded
def contamination_hull(
    collection: Collection | Tally,
    categories: str | Sequence[str] | None = None,
    *,
    share: float | Sequence[float] = (0.01, 0.05, 0.1),
    channel: str | None = None,
    ci_prob: float = 0.95,
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
    categories : str or sequence of str, optional
        A category; several, for their sum; or a conclusion such as "yes > 0.2", "a + b < 10 %" or "apples > pears". By
        default every category for itself.
    share : float or sequence of float
        η, at least 0 and below 0.5.
    channel : str, optional
        Name of the channel, for a collection with several.
    ci_prob : float
        Probability of the confidence limits.

    Returns
    -------
    ContaminationHull

    Raises
    ------
    ArgumentError
        If an argument breaks its rule, or names an unknown category.
    InfeasibleError
        Where the protocol's estimate is no mean over the reports.

    Notes
    -----
    Derivation and tightness are in docs/theory/contamination.md.

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
    if categories is None:
        if form is None and len(labels) > MOST:
            raise InfeasibleError(
                f"The range of every category is worked out for at most {MOST:,} of them here, got {len(labels):,}; ask one."
            )
        text, names, weights, threshold, above = "every category", labels, np.eye(len(labels)), math.nan, True
    else:
        name, one, threshold, above = _asked(categories, labels)
        text, names, weights = categories if isinstance(categories, str) else name, (name,), one[None]
    every = [_Ends.of(tally, row, ci_prob, form) for row in weights]
    low, high, sure_low, sure_high = np.array([ends(fakes) for ends in every]).transpose(1, 2, 0)
    estimate = np.array([ends.estimate for ends in every])
    ranges = dict(zip(ENDS, (low, high, sure_low, sure_high), strict=True))
    arrays: dict[str, tuple] = {name: (("share", "quantity"), values) for name, values in ranges.items()}
    arrays |= {"estimate": ("quantity", estimate), "fakes": ("share", fakes)}
    facts: dict[str, Any] = {"turning": math.nan, "turning_confident": math.nan}
    if categories is not None:
        facts, curve = _turned(every[0], shares, threshold)
        arrays |= {f"curve_{name}": ("at", values) for name, values in curve.items()}
    facts |= {"source": f"{mechanisms({tally.name: [(0, tally)]})}, by the unbiased estimate"}
    facts |= {"question": text, "n": n, "ci_prob": ci_prob, "exact": every[-1].exact, "threshold": threshold}
    hull = ContaminationHull(arrays, {"share": shares, "quantity": list(names)}, facts)
    holds = None if math.isnan(threshold) else bool(estimate[0] > threshold if above else estimate[0] < threshold)
    hull.attrs["sentence"] = _of_every_category(hull) if categories is None else _sentence(hull, holds)
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


def _asked(asked: str | Sequence[str], labels: tuple[str, ...]) -> tuple[str, FloatArray, float, bool]:
    """Return (name, weights, threshold or nan, whether the conclusion says above) of a question."""
    parts, sign, right = conclusion(asked, labels, "categories")
    if len(parts) == len(labels):
        raise ArgumentError(f"categories must leave some category out, got {shown(asked)}.")
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

    ``scores`` (m,) are distinct and increase, with ``counts`` (m,); ``bounds`` are what a distribution allows, and ``tail``
    is the probability beyond each limit. ``binomial`` is (C, g, h) where a category's share has a binomial support count.
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
    return sentence


__all__ = ["ContaminationHull", "contamination_hull"]
