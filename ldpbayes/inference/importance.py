"""Weights of draws from a stand-in: Pareto-smoothed, judged, and resampled."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ldpbayes.inference import verdict
from ldpbayes.inference.constants import EQUAL, LEAST_WEIGHED, LOWEST, TOGETHER
from ldpbayes.inference.verdict import LIMITS, Limits, Verdict


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws of a stand-in with weights that make them draws of the posterior.

    Attributes
    ----------
    distribution : (S, k) array
        The draws, of P or of any quantities that the weights are judged by.
    log_weight : (S,) array
        Pareto-smoothed and normalized.
    k_hat : float
        Shape of the weights' tail; below 0.7 the weighted means have a usable error.
    unseen : float
        Share of the weight that is expected beyond the largest one drawn.
    shift : float
        Largest move of a mean by the weights, in posterior sd.
    log_evidence, log_evidence_error : float
        log of the mean weight, and its standard error.
    """

    distribution: np.ndarray
    log_weight: np.ndarray
    k_hat: float
    unseen: float
    shift: float
    log_evidence: float
    log_evidence_error: float

    @cached_property
    def weight(self) -> np.ndarray:
        """Normalized weights, shape (S,)."""
        return np.exp(self.log_weight)

    @cached_property
    def effective_sample(self) -> float:
        """1/Σ w²."""
        return float(1 / (self.weight**2).sum())

    @property
    def finite_variance(self) -> bool:
        """Whether the weights have a variance, so that errors fall with their number: a Pareto tail has below one half."""
        return self.k_hat < 0.5

    @property
    def facts(self) -> dict[str, float]:
        """What a result says of the weights."""
        return {
            "k_hat": self.k_hat,
            "shift_by_weights": self.shift,
            "log_evidence": self.log_evidence,
            "log_evidence_error": self.log_evidence_error,
        }

    @cached_property
    def squares(self) -> tuple[float, int]:
        """Effective draws for squared distances from the mean, and the quantity that has the fewest."""
        values = squares_of(self.distribution, self.weight)
        return verdict.worst_share(values), int(np.argmin(values))

    @cached_property
    def verdict(self) -> Verdict:
        """The Verdict where as many draws are kept as were weighted."""
        return self.judged()

    def judged(self, kept: int | None = None, limits: Limits = LIMITS) -> Verdict:
        """Return the Verdict where ``kept`` draws are kept; the default, and the maximum, is all that were weighted."""
        drawn = self.log_weight.size
        kept = drawn if kept is None else min(kept, drawn)
        least, worst = self.squares
        heavy = math.nan
        if least < limits.squares * drawn:
            x = self.distribution[:, worst]
            square = (x - self.weight @ x) ** 2
            moved = square > 0
            heavy = smooth(self.log_weight[moved] + np.log(square[moved]))[1]
        return verdict.of_weights(
            self.k_hat,
            self.effective_sample,
            drawn,
            kept,
            unseen=self.unseen,
            squares=least,
            k_squares=heavy,
            shift=self.shift,
            limits=limits,
        )


def smooth(log_ratio: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (normalized log weights with a Pareto-smoothed tail, k-hat): inf where their tail cannot be fitted."""
    from arviz_stats.base import array_stats

    size = log_ratio.size
    smoothed, k_hat = log_ratio - logsumexp(log_ratio), math.inf
    if size >= LEAST_WEIGHED and np.ptp(log_ratio) < EQUAL:
        k_hat = 0.0  # equal weights have no tail
    elif size >= LEAST_WEIGHED:
        try:
            with np.errstate(all="ignore"):  # hopeless weights overflow in its tail fit
                fitted, k = array_stats.psislw(-log_ratio)  # it takes the logs of the inverse weights
        except ValueError:  # a tail of equal weights cannot be fitted
            k = math.nan
        if np.isfinite(k):
            smoothed, k_hat = fitted, k
    return smoothed, float(k_hat)


def unseen(weight: np.ndarray, k_hat: float) -> float:
    """Return the share of all weight that is expected beyond the largest of the tail drawn, under its Pareto fit.

    E[(w − x)₊] falls as P(w > x)^{1−k}: from the excess over the beginning of the tail to that over the largest of its M
    draws by M^{k−1}.

    Parameters
    ----------
    weight : (S,) array
        Normalized.
    k_hat : float
    """
    size = weight.size
    tail = math.ceil(min(0.2 * size, 3 * math.sqrt(size)))  # the draws that a Pareto law is fitted to
    if not (math.isfinite(k_hat) and tail < size):
        return math.inf
    ordered = np.partition(weight, size - tail - 1)[size - tail - 1 :]
    excess = float((ordered - ordered[0]).sum())
    return excess * tail ** (k_hat - 1) if k_hat < 5 else math.inf


def squares_of(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return how many independent draws weighted ones are worth for (x − μ)² of each quantity, shape (k,).

    By the delta method: Σ w (z² − 1)² over Σ w² (z² − 1)², z = (x − μ)/σ. Quantities that do not vary have all draws.

    Parameters
    ----------
    values : (S, k) array
    weight : (S,) array
        Normalized.
    """
    size = values.shape[1]
    out = np.full(size, float(len(weight)))
    step = max(TOGETHER // len(weight), 1)
    for first in range(0, size, step):
        x = values[:, first : first + step]
        square = (x - weight @ x) ** 2
        variance = weight @ square
        moved = variance > 1e-300
        off = square[:, moved] / variance[moved] - 1  # its square may be beyond floats where a weight is next to nothing
        weighed = weight[:, None] * off
        below = (weighed**2).sum(axis=0)
        place = np.flatnonzero(moved) + first
        out[place] = np.divide((weighed * off).sum(axis=0), below, out=out[place], where=below > 0)
    return out


def weigh(values: np.ndarray, log_ratio: np.ndarray) -> WeightedDraws:
    """Return WeightedDraws from the log-ratios of posterior (unnormalized) to stand-in.

    Parameters
    ----------
    values : (S, k) array
        Quantities that the weights are judged by.
    log_ratio : (S,) array
    """
    size = log_ratio.size
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -math.inf)
    log_ratio = np.maximum(log_ratio, log_ratio.max() - LOWEST)
    smoothed, k_hat = smooth(log_ratio)
    weight = np.exp(smoothed)
    mean, plain = weight @ values, values.mean(axis=0)
    sd = np.sqrt(weight @ (values - mean) ** 2)
    moved = np.divide(np.abs(mean - plain), sd, out=np.full(sd.size, math.inf), where=sd > 0)
    log_evidence = logsumexp(log_ratio) - math.log(size)
    relative = np.exp(log_ratio - log_evidence)
    return WeightedDraws(
        values,
        smoothed,
        k_hat,
        unseen(weight, k_hat),
        float(moved.max()),
        float(log_evidence),
        float(relative.std(ddof=1) / math.sqrt(size)) if size > 1 else math.inf,
    )


def moments(values: np.ndarray, weight: np.ndarray, kept: int | None = None) -> dict[str, np.ndarray]:
    """Return mean, sd, mcse, ess_bulk and ess_tail of independent weighted draws, or of the draws resampled from them.

    The variance of Σ w x is Σ w² (x − μ)² (delta method): weights that go with a quantity make its error larger than Σ w²
    says. Resampled draws add Σ f (1 − f) (x − μ)²/S², f the fractional part of S w: draw j is kept ⌊S w⌋ times or once more.

    Parameters
    ----------
    values : (N, …) array
    weight : (N,) array
        Normalized.
    kept : int, optional
        S, the number of resampled draws; None for the errors of the weighted draws.
    """
    noise, most = weight**2, float(len(values) if kept is None else kept)
    if kept is not None:
        fraction = np.modf(kept * weight)[0]
        noise = noise + fraction * (1 - fraction) / kept**2
    mean = np.tensordot(weight, values, 1)
    square = (values - mean) ** 2
    variance, error = np.tensordot(weight, square, 1), np.tensordot(noise, square, 1)
    worth = np.divide(variance, error, out=np.full(np.shape(variance), most), where=error > 0)
    return {"mean": mean, "sd": np.sqrt(variance), "mcse": np.sqrt(error), "ess_bulk": worth, "ess_tail": worth}


def enough(make: Callable[[int], WeightedDraws], size: int, most: int) -> tuple[WeightedDraws, Verdict]:
    """Return weighted draws to keep ``size`` of, and the verdict; they are made again with more where more are enough.

    Parameters
    ----------
    make : callable
        Number of draws → WeightedDraws.
    size : int
        Draws that are kept, and weighted at first.
    most : int
        Draws that may be weighted.
    """
    weighted = make(size)
    verdict = weighted.judged(size)
    if verdict.next == "more" and weighted.log_weight.size == size and size * verdict.times <= most:
        weighted = make(size * verdict.times)
        verdict = weighted.judged(size)
    return weighted, verdict


def resample(weight: np.ndarray, rng: np.random.Generator, size: int | None = None) -> np.ndarray:
    """Return indices of equally weighted draws, by default as many, by systematic resampling (least added noise)."""
    size = weight.size if size is None else size
    positions = (rng.random() + np.arange(size)) / size
    return np.minimum(np.searchsorted(np.cumsum(weight), positions), weight.size - 1)


def left_out(tree: Any) -> Any:
    """Return the ELPDData of ``arviz.loo`` of a tree that has the group ``log_likelihood``."""
    from arviz_stats import loo

    return loo(tree, pointwise=True)


def left_out_of_counts(posterior: Any, values: np.ndarray, counts: np.ndarray, coords: Mapping[str, Any]) -> Any:
    """Return the ELPDData of ``arviz.loo`` for observations, many of them alike, from one of each kind.

    Parameters
    ----------
    posterior : Dataset
        The draws, whose effective number ``arviz.loo`` asks.
    values : (S, m) array
        Log-likelihood of each kind of observation, in the order of the chains.
    counts : (m,) int array
        How many observations are of each kind.
    coords : mapping
        Labels of the dim ``report``, of the observations in turn.
    """
    import xarray as xr
    from arviz_stats import loo

    shape = posterior.sizes["chain"], posterior.sizes["draw"], -1
    kinds = xr.Dataset({"reports": (("chain", "draw", "report"), values.reshape(shape))})
    elpd_data = loo(xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": kinds}), pointwise=True)
    elpd, total = elpd_data.elpd_i.values, int(counts.sum())
    elpd_data.elpd, elpd_data.n_data_points, elpd_data.log_weights = float(counts @ elpd), total, None
    elpd_data.se = math.sqrt(total * (counts @ (elpd - elpd_data.elpd / total) ** 2) / max(total - 1, 1))
    elpd_data.p = float(counts @ (logsumexp(values, axis=0) - math.log(len(values)))) - elpd_data.elpd
    each = np.repeat(np.arange(counts.size), counts)
    for name in ("elpd_i", "pareto_k"):
        setattr(elpd_data, name, vars(elpd_data)[name].isel(report=each).assign_coords(coords))
    return elpd_data
