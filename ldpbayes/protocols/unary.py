"""Unary encoding: symmetric (SUE, basic one-time RAPPOR), optimized (OUE), κ-dual, or any (κ, λ)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import AbstractProtocol, Ancillary, PairRates, Rated, RatedForm, Supports, independent_sizes
from ldpbayes.protocols.crafting import SetCrafting
from ldpbayes.protocols.formats import Sets

VARIANTS = ("symmetric", "optimized", "dual")


@dataclass(frozen=True)
class UnaryEncoding(AbstractProtocol):
    """Many categories as bits: a set that holds the true value more often than any other (OUE, SUE).

    The report is a set that holds the true value w.p. κ and each other value w.p. λ.

    Q[y, x] = c_|y| (1 + β[x ∈ y]), β = e^ε − 1, c_k = (1 − κ) λ^k (1 − λ)^{a−1−k}, κ = e^ε λ / (1 + β λ).

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, log[κ(1 − λ) / (λ(1 − κ))], in [1e-9, 50].
    lam : float
        λ, in (0, 1); the constructors symmetric, optimized, dual and from_rates choose it.

    Notes
    -----
    Reports are (m, ⌈a/8⌉) packed bits; (m, a) zeros and ones are accepted too. In a collection file the parameters are
    {epsilon, variant} with variant "symmetric", "optimized" or "dual", {kappa, lam}, or {epsilon, lam}.
    A tally of whole reports has no law simpler than its users, so ``simulate`` draws every user, vectorized;
    the bit counts alone do, and ``simulate_support_counts`` draws them in O(a).

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), §10.2; Wang et al. (2017) for OUE; Erlingsson et al. (2014).

    Examples
    --------
    >>> UnaryEncoding.symmetric(2, epsilon=2 * math.log(3)).channel().round(4)
    array([[0.1875, 0.1875],
           [0.0625, 0.5625],
           [0.5625, 0.0625],
           [0.1875, 0.1875]])
    """

    n_categories: int
    epsilon: float
    lam: float
    name: ClassVar[str] = "unary"
    file_parameters: ClassVar[str] = "epsilon, variant (symmetric, optimized or dual); or kappa, lam; or epsilon, lam"

    def __post_init__(self):
        super().__post_init__()
        lam = checks.probability(self.lam, "lam", open_low=True, open_high=True)
        object.__setattr__(self, "lam", lam)

    @classmethod
    def symmetric(cls, n_categories: int, epsilon: float) -> "UnaryEncoding":
        """Return SUE (basic one-time RAPPOR): κ = e^{ε/2}/(e^{ε/2} + 1), λ = 1 − κ."""
        return cls(n_categories, epsilon, _lam("symmetric", checks.epsilon(epsilon)))

    @classmethod
    def optimized(cls, n_categories: int, epsilon: float) -> "UnaryEncoding":
        """Return OUE: κ = 1/2, λ = 1/(e^ε + 1), the least variance of rare categories."""
        return cls(n_categories, epsilon, _lam("optimized", checks.epsilon(epsilon)))

    @classmethod
    def dual(cls, n_categories: int, epsilon: float) -> "UnaryEncoding":
        """Return the κ-dual of OUE: κ = e^ε/(e^ε + 1), λ = 1/2."""
        return cls(n_categories, epsilon, _lam("dual", checks.epsilon(epsilon)))

    @classmethod
    def from_rates(cls, n_categories: int, kappa: float, lam: float) -> "UnaryEncoding":
        """Return UE(κ, λ) with 0 < λ < κ < 1; ε follows.

        Parameters
        ----------
        n_categories : int
            Number of categories, a ≥ 2.
        kappa : float
            Probability that the bit of the value is reported as one.
        lam : float
            Probability that any other bit is reported as one.

        Returns
        -------
        UnaryEncoding

        Raises
        ------
        ArgumentError
            If an argument breaks its rule.
        """
        kappa = checks.probability(kappa, "kappa", open_low=True, open_high=True)
        lam = checks.probability(lam, "lam", open_low=True, open_high=True)
        if not lam < kappa:
            raise ArgumentError(
                f"lam must be less than kappa ({kappa!r}), got {lam!r}; a report must favour the true value."
            )
        return cls(n_categories, math.log1p((kappa - lam) / lam / (1 - kappa)), lam)

    @property
    def kappa(self) -> float:
        """κ = e^ε λ / (1 + β λ)."""
        return (1 + self.beta) * self.lam / (1 + self.beta * self.lam)

    @property
    def variant(self):
        """ "symmetric", "optimized" or "dual" where λ is theirs, else None."""
        return next((name for name in VARIANTS if _lam(name, self.epsilon) == self.lam), None)

    @property
    def hit_rates(self):
        return self.kappa, self.lam

    @property
    def support_sizes(self):
        return independent_sizes(self.n_categories, self.hit_rates)

    def free_bits(self):
        return self.n_categories

    def crafted(self, targets: np.ndarray) -> SetCrafting:
        kappa, lam = self.hit_rates
        return SetCrafting(self.n_categories, targets, max(len(targets), int(kappa + (self.n_categories - 1) * lam)))

    def supports(self):
        # log c_k with 1 − κ = (1 − λ)/(1 + β λ), which does not cancel where κ is next to one.
        per_report = self.n_categories * math.log1p(-self.lam) - math.log1p(self.beta * self.lam)
        return Supports(self.beta, per_report, math.log(self.lam) - math.log1p(-self.lam))

    def ancillaries(self):
        return (Ancillary("support sizes", bits.sizes, self.n_categories + 1, self.support_sizes),)

    def pair_rates(self):
        g, h = self.hit_rates
        return PairRates(h * h, g * h, self.n_categories * (self.n_categories - 1) // 2, independent=True)

    @property
    def n_outputs(self):
        return 2**self.n_categories if self.n_categories <= 16 else None

    def list_reports(self):
        return bits.every_set(self.n_categories)

    @property
    def report_format(self):
        return Sets(self.n_categories)

    def rows(self, reports, counts):
        form = self.supports()
        log_constants = form.per_report + bits.sizes(reports) * form.per_member
        return SupportRows(reports, self.beta, counts, self.n_categories, log_constants)

    def rated(self):
        return RatedForm(self._of_rates, partial(self.from_rates, self.n_categories))

    def _of_rates(self, reports):
        hits = np.unpackbits(reports, axis=1, count=self.n_categories)
        return Rated(hits, np.ones_like(hits), bits.sizes(reports), self.n_categories)

    def randomize(self, values, rng):
        out = bits.bernoulli(values.size, self.n_categories, self.lam, rng)
        bits.assign(out, values, rng.random(values.size) < self.kappa)
        return out

    def randomize_one(self, value):
        kappa, lam = self._thresholds
        thresholds = [lam] * self.n_categories
        thresholds[value] = kappa
        return np.packbits([entropy.bernoulli(threshold) for threshold in thresholds])

    def empty_one(self):
        """Return one report of nobody's value from the operating system's entropy."""
        _, lam = self._thresholds
        return np.packbits([entropy.bernoulli(lam) for _ in range(self.n_categories)])

    def simulate_support_counts(self, true_counts, rng):
        """Return bit counts C of a population, C_x ~ Binomial(T_x, κ) + Binomial(n − T_x, λ), independent over x; O(a)."""
        true_counts = checks.counts(true_counts, "true_counts", self.n_categories)
        return rng.binomial(true_counts, self.kappa) + rng.binomial(true_counts.sum() - true_counts, self.lam)

    def parameters(self):
        variant = self.variant
        return {"epsilon": self.epsilon} | ({"variant": variant} if variant else {"lam": self.lam})

    @classmethod
    def from_parameters(cls, categories, parameters):
        given = set(parameters)
        if given == {"epsilon", "variant"}:
            stated = parameters["variant"]
            variant = checks.choice("optimized" if stated == "optimised" else stated, "variant", VARIANTS)
            return getattr(cls, variant)(len(categories), parameters["epsilon"])
        if given == {"kappa", "lam"}:
            return cls.from_rates(len(categories), **parameters)
        if given == {"epsilon", "lam"}:
            return cls(len(categories), **parameters)
        shown = ", ".join(sorted(given)) or "none"
        raise ArgumentError(f"unary parameters must be epsilon and variant, kappa and lam, or epsilon and lam, got {shown}.")

    @cached_property
    def _thresholds(self):
        # λ rounded up and κ down, from e^ε rounded down: κ(1−λ)/(λ(1−κ)) ≤ e^ε exactly.
        unit = 2**entropy.BITS
        lam = math.ceil(Fraction(self.lam) * unit)
        odds = entropy.exp_below(self.epsilon) * lam
        return int(odds * unit / (unit - lam + odds)), lam


def _lam(variant, epsilon):
    """Return the λ of a named variant."""
    if variant == "dual":
        return 0.5
    return 1 / (1 + math.exp(epsilon / 2 if variant == "symmetric" else epsilon))
