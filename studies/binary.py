"""Exact coverage of intervals for a binary share: sums over every possible number of "yes" answers, no simulation."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import betainc, betaln, gammaln, log_expit, logsumexp, xlog1py, xlogy
from scipy.stats import binom

from ldpbayes.estimators.confidence import distribution_interval
from ldpbayes.inference.ends import normal_reach, tails
from ldpbayes.priors.learnt import Learnt
from ldpbayes.protocols.base import Binomials
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.designs import forced_response, unrelated_question, warner

#: Largest |logit p| on a grid; prior mass beyond it is added in closed form.
FAR = 34.0
#: Points of the grid that finds the posterior, and of the one that holds it.
COARSE, POINTS = 256, 768
#: exp(−DROP) of the peak is where a posterior's grid ends.
DROP = 42.0
#: Counts worked on together.
BLOCK = 2000
#: Counts whose chance is below this for every share are left out.
NEGLIGIBLE = 1e-15
_GOLDEN = (math.sqrt(5) - 1) / 2


def _forced(epsilon: float) -> Channel:
    # Forced yes is twice as likely as forced no, so that the no answers have the larger likelihood ratio.
    odds = math.expm1(epsilon)
    return forced_response(odds / (odds + 3), [1, 2])


def _unrelated(epsilon: float) -> Channel:
    # The innocuous question is answered yes by one in four; the yes answers have the larger likelihood ratio.
    share = 0.25 * math.expm1(epsilon)
    return unrelated_question(share / (1 + share), 0.25)


#: Designs with ε as their privacy level; the crosswise model and GRR with two categories have the channel of Warner's.
DESIGNS = {
    "warner": lambda epsilon: warner(1 / (1 + math.exp(-epsilon))),
    "forced_response": _forced,
    "unrelated_question": _unrelated,
}


@dataclass(frozen=True, eq=False)
class SymmetricPrior:
    """A mixture of Beta(α, α) densities of a share.

    Attributes
    ----------
    alpha, weight : (m,) arrays
        Concentrations and their weights, which sum to one.
    """

    alpha: NDArray
    weight: NDArray

    @functools.cached_property
    def _curve(self) -> CubicSpline:
        y = np.linspace(-FAR - 1, FAR + 1, 4097)
        logs = self.alpha[:, None] * (log_expit(y) + log_expit(-y)) - betaln(self.alpha, self.alpha)[:, None]
        return CubicSpline(y, logsumexp(logs, axis=0, b=self.weight[:, None]))

    def log_density(self, y: NDArray) -> NDArray:
        """Return the log-density of y = logit p."""
        return self._curve(y)

    def below(self, p: NDArray) -> NDArray:
        """Return the prior probability of shares below p."""
        return np.tensordot(self.weight, betainc(self.alpha[:, None], self.alpha[:, None], np.ravel(p)), 1).reshape(
            np.shape(p)
        )


def prior_of(name: str) -> SymmetricPrior:
    """Return the prior of a share by its name: "jeffreys", "flat" or "learnt"."""
    if name != "learnt":
        return SymmetricPrior(np.array([{"jeffreys": 0.5, "flat": 1.0}[name]]), np.ones(1))
    t = np.linspace(-6, 6, 121)  # the trapezium rule is accurate to rounding for a normal density
    weight = np.exp(-0.5 * t**2)
    return SymmetricPrior(Learnt().alpha(t), weight / weight.sum())


class Posteriors:
    """The posteriors of a share given each of several numbers of yes answers.

    In y = logit p the density is that of the prior times (h + (g − h) p)^C (1 − h − (g − h) p)^(n−C). Its integral is cubic
    between the points of a grid that ends where the density is below exp(−DROP) of its peak, or at ±FAR.

    Parameters
    ----------
    prior : SymmetricPrior
    counts : (k,) array
        Numbers C of yes answers.
    n : int
        Number of answers.
    hit, other : float
        g = P(yes | carrier) and h = P(yes | other), g > h.
    """

    def __init__(self, prior: SymmetricPrior, counts: NDArray, n: int, hit: float, other: float):
        self._prior, self._n, self._hit, self._other = prior, n, hit, other
        parts = [self._grid(np.asarray(counts[i : i + BLOCK], dtype=float)) for i in range(0, len(counts), BLOCK)]
        self._low, self._step, self._cdf, self._density = (np.concatenate(part) for part in zip(*parts, strict=True))

    def _log_density(self, y, counts):
        slope = self._hit - self._other
        yes = np.log(self._other + slope * np.exp(log_expit(y)))
        no = np.log(1 - self._hit + slope * np.exp(log_expit(-y)))
        return self._prior.log_density(y) + counts[:, None] * yes + (self._n - counts[:, None]) * no

    def _grid(self, counts):
        low, high = np.full(counts.size, -FAR), np.full(counts.size, FAR)
        for _ in range(2):
            y = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, COARSE)
            logs = self._log_density(y, counts)
            inside = logs > logs.max(axis=1, keepdims=True) - DROP
            first, last = inside.argmax(axis=1), COARSE - 1 - inside[:, ::-1].argmax(axis=1)
            rows = np.arange(counts.size)
            low, high = y[rows, np.maximum(first - 1, 0)], y[rows, np.minimum(last + 1, COARSE - 1)]
        step = (high - low) / (POINTS - 1)
        y = low[:, None] + step[:, None] * np.arange(POINTS)
        logs = self._log_density(y, counts)
        top = logs.max(axis=1)
        density = np.exp(logs - top[:, None])
        # Where the grid ends at ±FAR the likelihood is constant beyond, and the prior's mass there is known.
        beyond = []
        for end, log_prior in ((low, self._prior.log_density(low)), (-high, self._prior.log_density(high))):
            flat = np.exp(logs[:, 0 if end is low else -1] - log_prior - top)
            beyond.append(flat * self._prior.below(np.exp(log_expit(end))))
        panels = _panels(density) * step[:, None]
        cdf = beyond[0][:, None] + np.concatenate([np.zeros((counts.size, 1)), panels.cumsum(axis=1)], axis=1)
        total = cdf[:, -1] + beyond[1]
        return low, step, cdf / total[:, None], density / total[:, None]

    def quantile(self, level: NDArray | float) -> NDArray:
        """Return the quantiles of p, shape (k,), at one level for all or one for each: Newton within a cell of the grid."""
        level = np.broadcast_to(np.asarray(level, dtype=float), self._low.shape)
        rows = np.arange(level.size)
        cell = np.clip((self._cdf < level[:, None]).sum(axis=1) - 1, 0, POINTS - 2)
        start, end = self._cdf[rows, cell], self._cdf[rows, cell + 1]
        slopes = self._density[rows, cell] * self._step, self._density[rows, cell + 1] * self._step
        wanted, rise = np.clip(level, start, end) - start, end - start
        # The integral over the cell is the cubic with the rise and the two slopes.
        square, cube = 3 * rise - 2 * slopes[0] - slopes[1], slopes[0] + slopes[1] - 2 * rise
        u = np.divide(wanted, rise, out=np.zeros_like(rise), where=rise > 0)
        for _ in range(6):
            gap = u * (slopes[0] + u * (square + u * cube)) - wanted
            slope = slopes[0] + u * (2 * square + 3 * u * cube)
            u = np.clip(u - np.divide(gap, slope, out=np.zeros_like(gap), where=slope > 0), 0.0, 1.0)
        p = np.exp(log_expit(self._low + self._step * (cell + u)))
        return np.where(level <= 0, 0.0, np.where(level >= 1, 1.0, p))

    def equal_tailed(self, ci_prob: float = 0.95) -> tuple[NDArray, NDArray]:
        """Return the ends of the intervals that leave out (1 − ci_prob)/2 on either side."""
        lower, upper = tails(ci_prob)
        return self.quantile(lower), self.quantile(upper)

    def shortest(self, ci_prob: float = 0.95) -> tuple[NDArray, NDArray]:
        """Return the ends of the shortest intervals of probability ci_prob, which ArviZ calls HDI."""
        tail = 1 - ci_prob
        levels = tail * np.linspace(0, 1, 17)
        widths = np.array([self.quantile(one + ci_prob) - self.quantile(one) for one in levels])
        best = widths.argmin(axis=0)
        low, high = levels[np.maximum(best - 1, 0)], levels[np.minimum(best + 1, 16)]

        def width(level):
            return self.quantile(level + ci_prob) - self.quantile(level)

        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        of_left, of_right = width(left), width(right)
        for _ in range(16):
            keep = of_left < of_right
            low, high = np.where(keep, low, left), np.where(keep, right, high)
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            of_left, of_right = width(left), width(right)
        middle = 0.5 * (low + high)
        level = np.where(widths.min(axis=0) <= width(middle), levels[best], middle)
        return self.quantile(level), self.quantile(level + ci_prob)


def _panels(density):
    """Return the integrals between neighbouring points, in steps: the cubic through four points, two at the ends."""
    f = density
    inner = (13 * (f[:, 1:-2] + f[:, 2:-1]) - f[:, :-3] - f[:, 3:]) / 24
    first = (9 * f[:, :1] + 19 * f[:, 1:2] - 5 * f[:, 2:3] + f[:, 3:4]) / 24
    last = (9 * f[:, -1:] + 19 * f[:, -2:-1] - 5 * f[:, -3:-2] + f[:, -4:-3]) / 24
    return np.maximum(np.concatenate([first, inner, last], axis=1), 0.0)


# ---- intervals without a prior, from support counts --------------------------------------------------------------------
def wald(form: Binomials, ci_prob: float = 0.95) -> tuple[NDArray, NDArray]:
    """Return the oracle ± z standard errors, cut to [0, 1]; the errors are those at the oracle, cut to [0, 1] itself."""
    slope = form.hit - form.other
    estimate = (form.counts / form.n - form.other) / slope
    rate = form.other + slope * np.clip(estimate, 0, 1)
    reach = normal_reach(ci_prob) * np.sqrt(rate * (1 - rate) / form.n) / slope
    return np.clip(estimate - reach, 0, 1), np.clip(estimate + reach, 0, 1)


def wilson(form: Binomials, ci_prob: float = 0.95) -> tuple[NDArray, NDArray]:
    """Return Wilson's score interval of the rate of supports, carried to the share and cut to [0, 1]."""
    z = normal_reach(ci_prob)
    share = form.counts / form.n
    centre = (share + z**2 / (2 * form.n)) / (1 + z**2 / form.n)
    reach = z / (1 + z**2 / form.n) * np.sqrt(share * (1 - share) / form.n + z**2 / (4 * form.n**2))
    slope = form.hit - form.other
    return tuple(np.clip((centre + sign * reach - form.other) / slope, 0, 1) for sign in (-1, 1))  # type: ignore[return-value]


def bootstrap(form: Binomials, ci_prob: float = 0.95) -> tuple[NDArray, NDArray]:
    """Return the percentile interval of the parametric bootstrap of the MLE, with infinitely many repetitions.

    The MLE is the oracle cut to [0, 1]; repeated counts are Binomial(n, h + (g − h) · MLE), whose quantiles are known.
    """
    slope = form.hit - form.other

    def mle(counts):
        return np.clip((counts / form.n - form.other) / slope, 0, 1)

    rate = form.other + slope * mle(form.counts)
    tail = tails(ci_prob)[0]
    return mle(binom.ppf(tail, form.n, rate)), mle(binom.ppf(1 - tail, form.n, rate))


#: Methods that need support counts only.
FREQUENTIST = {"confidence": distribution_interval, "wilson": wilson, "wald": wald, "bootstrap": bootstrap}
PRIORS = ("jeffreys", "flat", "learnt")


def all_intervals(counts: NDArray, n: int, hit: float, other: float, ci_prob: float = 0.95) -> dict:
    """Return {method: (lower, upper)} for each number of yes answers.

    Parameters
    ----------
    counts : (k,) array
    n : int
    hit, other : float
    ci_prob : float
    """
    out = {}
    for name in PRIORS:
        found = Posteriors(prior_of(name), counts, n, hit, other)
        out[name], out[f"{name}_hdi"] = found.equal_tailed(ci_prob), found.shortest(ci_prob)
    form = Binomials(np.asarray(counts, dtype=float), np.full(len(counts), hit), np.full(len(counts), other), n)
    return out | {name: method(form, ci_prob) for name, method in FREQUENTIST.items()}


def chances(counts: NDArray, n: int, rate: NDArray) -> NDArray:
    """Return the probabilities of the counts under Binomial(n, rate), shape (rates, k)."""
    rate = np.asarray(rate, dtype=float)[:, None]
    log_choose = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    return np.exp(log_choose + xlogy(counts, rate) + xlog1py(n - counts, -rate))


def likely_counts(n: int, least: float, most: float) -> NDArray:
    """Return the numbers of yes answers whose chance is above NEGLIGIBLE for some rate between two."""
    low, high = binom.ppf(NEGLIGIBLE, n, least), binom.isf(NEGLIGIBLE, n, most)
    return np.arange(max(low, 0), min(high, n) + 1)


def expected(lower: NDArray, upper: NDArray, counts: NDArray, n: int, hit: float, other: float, p: NDArray) -> tuple:
    """Return (coverage, expected width) of intervals at true shares p: exact sums over the counts, (len(p),) each.

    Parameters
    ----------
    lower, upper, counts : (k,) arrays
    n : int
    hit, other : float
    p : (m,) array
    """
    p = np.asarray(p, dtype=float)
    chance = chances(counts, n, other + (hit - other) * p)
    chance /= chance.sum(axis=1, keepdims=True)  # what was left out as negligible
    inside = (lower <= p[:, None]) & (p[:, None] <= upper)
    return (chance * inside).sum(axis=1), chance @ (upper - lower)
