"""Subset selection: the report is a set of fixed size that holds the true value more often than not."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.arrays import blocks, log_choose
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import AbstractProtocol, PairRates, Supports
from ldpbayes.protocols.constants import MAX_SETS, SMALL_EPSILON
from ldpbayes.protocols.crafting import SetCrafting
from ldpbayes.protocols.formats import Sets


@dataclass(frozen=True)
class SubsetSelection(AbstractProtocol):
    """Many categories with the least error: a set of them that holds the true one more often than chance (subset selection).

    Q[Z, x] = a (1 + β[x ∈ Z]) / ((w e^ε + a − w) C(a, w)) over the sets Z of w categories.

    The report holds the true value with probability g = w e^ε/(w e^ε + a − w) and is filled up uniformly. w = 1 is GRR.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].
    size : int, optional
        w, from 1 to a − 1; by default the one of ⌊a/(e^ε+1)⌋, ⌈a/(e^ε+1)⌉ with the least oracle variance.

    Notes
    -----
    Reports are (m, ⌈a/8⌉) packed bits with exactly w set; (m, a) zeros and ones are accepted too.
    A tally of sets has no law simpler than its users, so ``simulate`` draws every user, vectorized.

    References
    ----------
    Wang et al. (2016), Algorithm 1 and Theorem 2.1; Ye and Barg (2018).

    Examples
    --------
    >>> SubsetSelection(5, epsilon=math.log(2)).size
    2
    """

    n_categories: int
    epsilon: float
    size: int | None = None
    name: ClassVar[str] = "subset"

    def __post_init__(self):
        super().__post_init__()
        size = variance_optimal_size(self.n_categories, self.epsilon) if self.size is None else self.size
        object.__setattr__(self, "size", checks.integer(size, "size", 1, self.n_categories - 1))

    @property
    def hit_rates(self):
        return _hit_rates(self.n_categories, self.epsilon, self.size)

    @property
    def support_sizes(self):
        return np.eye(1, self.n_categories + 1, self.size)[0]

    @property
    def n_outputs(self):
        a, size = self.n_categories, self.size
        if log_choose(a, size) > math.log(2 * MAX_SETS):  # before a number of thousands of digits is made
            return None
        number = math.comb(a, size)
        return number if number <= MAX_SETS else None

    def list_reports(self):
        members = list(itertools.combinations(range(self.n_categories), self.size))
        out = np.zeros((len(members), self.n_categories), dtype=bool)
        np.put_along_axis(out, np.array(members), True, axis=1)
        # Combinations come with the leading category first, which is the largest code: reversed, they are sorted.
        return np.packbits(out[::-1], axis=1)

    def pair_rates(self):
        a, k, (g, _) = self.n_categories, self.size, self.hit_rates
        if a < 4 or not 1 < k < a - 1:
            return None
        inside, outside = g * (k - 1) * (k - 2), (1 - g) * k * (k - 1)
        neither = (inside + outside) / ((a - 1) * (a - 2))
        return PairRates(neither, g * (k - 1) / (a - 1), a * (a - 3) // 2, independent=False)

    def crafted(self, targets):
        return SetCrafting(self.n_categories, targets, self.size)

    @property
    def report_format(self):
        return Sets(self.n_categories, self.size)

    def supports(self):
        a, w = self.n_categories, self.size
        return Supports(self.beta, math.log(a) - math.log(a + w * self.beta) - log_choose(a, w))

    def rows(self, reports, counts):
        return SupportRows(reports, self.beta, counts, self.n_categories, self.supports().per_report)

    def randomize(self, values, rng):
        # Small sets grow from nothing; large ones start at a binomial size close to theirs.
        size = int(self.size or 0)  # a number once __post_init__ has run
        density = size / self.n_categories
        start = density if size > 16 and density > 1 / 16 else 0.0
        out = bits.bernoulli(values.size, self.n_categories, start, rng)
        bits.assign(out, values, rng.random(values.size) < self.hit_rates[0])
        for part in blocks(values.size, self.n_categories, bits.BLOCK):
            bits.resize(out[part], values[part], self.size, self.n_categories, rng)
        return out

    def randomize_one(self, value):
        hit = entropy.bernoulli(self._hit_threshold)
        others, wanted, is_negative = [], self.size - hit, [1] * self.n_categories + [0] * self.n_categories
        # Selection sampling: each of the others is a member with probability (members wanted) / (categories left).
        for left in range(self.n_categories - 1, 0, -1):
            others.append(is_negative[entropy.below(left) - wanted + self.n_categories])
            wanted -= others[-1]
        members = [others[x - (x > value)] for x in range(self.n_categories - 1)] + [others[-1]]
        members[value] = hit
        return np.packbits(members)

    def rational_channel(self):
        hit = Fraction(self._hit_threshold, 2**entropy.BITS)
        # Given whether the value is held, the others' probability depends only on where they stand among themselves.
        chances = {}
        channel = []
        for report in np.unpackbits(self.all_reports(), axis=1, count=self.n_categories).tolist():
            row = []
            for x, member in enumerate(report):
                others = (*report[:x], *report[x + 1 :])
                if others not in chances:
                    chances[others] = _selection_probability(others)
                row.append((hit if member else 1 - hit) * chances[others])
            channel.append(row)
        return channel

    @cached_property
    def _hit_threshold(self):
        # N/2^128 ≤ w r/(w r + a − w) with r ≤ e^ε, so the exact ratio is at most e^ε were the others exactly uniform.
        # Their a − 1 selections round probabilities by less than 2^-128 each, which moves that of a set by less than a
        # relative a²/2^128, up or down; with two categories nothing is selected by chance.
        a = self.n_categories
        slack = 1 - Fraction(4 * a**2 * (a > 2), 2**entropy.BITS)
        lower = self.size * entropy.exp_below(self.epsilon) * slack
        return entropy.threshold_below(lower / (lower + a - self.size))


def variance_optimal_size(n_categories, epsilon):
    """Return the set size with the least total oracle variance: next to a/(e^ε + 1), at least one."""
    best = n_categories / (math.exp(epsilon) + 1)

    def variance(size):
        g, h = _hit_rates(n_categories, epsilon, size)
        return (g * (1 - g) + (n_categories - 1) * h * (1 - h)) / (g - h) ** 2

    return min(_neighbours(best, n_categories), key=variance)


def mutual_information(n_categories, epsilon, size):
    """Return I_w, the mutual information in nats of a uniform value and its report of size w; 0 at w = 0 and w = a.

    I_w = [w e^ε log(a e^ε/z) + (a − w) log(a/z)] / z with z = w e^ε + a − w.

    Parameters
    ----------
    n_categories : int
        Number of categories, a ≥ 2.
    epsilon : float
        LDP level in nats.
    size : int
        w, from 0 to a.

    Returns
    -------
    float
        In nats.

    References
    ----------
    Wang et al. (2016), Theorem 2.1.
    """
    beta = math.expm1(epsilon)
    excess = beta * size / n_categories
    return size * math.exp(epsilon) / (n_categories * (1 + excess)) * epsilon - math.log1p(excess)


def mutual_information_size(n_categories, epsilon):
    """Return the set size with the most mutual information between a uniform value and its report.

    The better of ⌊⌋ and ⌈⌉ of (ε e^ε − e^ε + 1) a / (e^ε − 1)², from 1 to a − 1.

    References
    ----------
    Wang et al. (2016), Theorem 2.1.
    """
    a, epsilon = checks.categories_count(n_categories), checks.epsilon(epsilon)
    beta = math.expm1(epsilon)
    # The numerator cancels at small ε, where the ratio is 1/2 − ε/6.
    share = (epsilon * (1 + beta) - beta) / beta**2 if epsilon > SMALL_EPSILON else 0.5 - epsilon / 6
    return max(_neighbours(share * a, a), key=lambda size: mutual_information(a, epsilon, size))


def _hit_rates(a, epsilon, size):
    g = size / (size + (a - size) * math.exp(-epsilon))
    return g, (size - g) / (a - 1)


def _neighbours(x, n_categories):
    return sorted({min(max(size, 1), n_categories - 1) for size in (math.floor(x), math.ceil(x))})


def _selection_probability(members):
    """Return the exact probability that selection sampling by entropy.below selects these members, a Fraction."""
    out, wanted, unit = 1, sum(members), 2**entropy.BITS
    for left, member in zip(range(len(members), 0, -1), members, strict=True):
        chosen = -(-wanted * unit // left)  # the draws with ⌊left·U / 2^128⌋ < wanted
        out *= chosen if member else unit - chosen
        wanted -= member
    return Fraction(out, unit ** len(members))


def least_variance(n_categories: int, epsilon: float) -> float:
    """Return the least n·Σ_x E(P̂_x − p_x)² of any ε-LDP protocol and unbiased estimator at uniform p.

    See ``theory.bounds.exact_bound`` for what it bounds, and the proof.

    Parameters
    ----------
    n_categories : int
    epsilon : float

    Returns
    -------
    float

    Raises
    ------
    ArgumentError
        On anything else than two or more categories and ε above 0.
    """
    a, beta = checks.categories_count(n_categories), math.expm1(checks.epsilon(epsilon))

    def information_of(k: int) -> float:
        return a * beta**2 * k * (a - k) / (a + beta * k) ** 2

    # Unimodal in k, with the maximum over real k at a/(e^ε + 1).
    best = a / (beta + 2)
    trace = max(information_of(k) for k in {max(1, math.floor(best)), min(a - 1, max(1, math.ceil(best)))})
    return (a - 1) ** 2 / trace
