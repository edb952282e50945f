"""Memoized unary encoding: RAPPOR's two stages with a bit for each category, and the chains L-SUE, L-OSUE, L-OUE, L-SOUE."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import check_parameters, log_above
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.repeated import memoized_bits
from ldpbayes.repeated.histories import (
    Rates,
    Times,
    check_level_pair,
    check_times,
)

#: Chains by name: (is the permanent stage OUE, is the instantaneous stage OUE); the other one is SUE.
CHAINS = {"l-sue": (False, False), "l-osue": (True, False), "l-oue": (True, True), "l-soue": (False, True)}


@dataclass(frozen=True)
class MemoizedUnary(memoized_bits.AbstractMemoizedBits):
    """Many categories reported again and again: one permanent set, and fresh noise on its bits each time.

    The permanent set is UE(κ, λ); in every report each of its bits is a one w.p. r, each other bit w.p. s.

    The bit of the value is set permanently with probability κ, each other one with λ; a report shows a set bit as one with
    probability r and a clear one with s. Bits are independent given the value, so that a user's row is a product, and
    depends on category x through the number c_x of ones of its bit among T reports alone:
    L_x ∝ ρ(c_x) with ρ(c) = [κ R(c) + (1 − κ) S(c)] / [λ R(c) + (1 − λ) S(c)], R(c) = r^c (1 − r)^{T−c} and
    S(c) = s^c (1 − s)^{T−c}.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    kappa, lam : float
        κ and λ of the permanent stage, 0 < λ < κ < 1.
    on, off : float
        r and s of the instantaneous stage, 0 ≤ s < r ≤ 1.
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is T and the ones of every bit. In a file these are two columns, "4" and "3 0 1"; in long data a report is a
    set, as for ``UnaryEncoding``. A file's parameters are {kappa, lam, on, off}, or {epsilon_infinity, epsilon_one,
    variant}. T reports on one value cost log ρ(T)/ρ(0), which rises to ε_∞ = log κ(1 − λ)/(λ(1 − κ)).

    References
    ----------
    Erlingsson, Pihur, Korolova (2014), §3 (L-SUE is basic RAPPOR); Arcolezi, Couchot, Al Bouna, Xiao (2021),
    arXiv:2111.04636, for the chains; docs/theory/repeated.md for the rows.

    Examples
    --------
    >>> protocol = MemoizedUnary.from_levels(3, epsilon_infinity=2.0, epsilon_one=1.0, variant="l-osue", times=4)
    >>> round(protocol.epsilon_one, 6), round(protocol.spent(4), 3), round(protocol.epsilon_infinity, 3)
    (1.0, 1.974, 2.0)
    """

    n_categories: int
    kappa: float
    lam: float
    on: float
    off: float
    times: Any = None  # a Times comes in
    name: ClassVar[str] = "memoized_unary"
    report_fields: ClassVar[tuple[str, ...]] = ("times", "ones")
    file_parameters: ClassVar[str] = "kappa, lam, on, off; or epsilon_infinity, epsilon_one, variant (l-osue, …); times"

    def __post_init__(self):
        object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))
        for name in ("kappa", "lam"):
            value = checks.probability(getattr(self, name), name, open_low=True, open_high=True)
            object.__setattr__(self, name, value)
        for name in ("on", "off"):
            object.__setattr__(self, name, checks.probability(getattr(self, name), name))
        for low, high in (("lam", "kappa"), ("off", "on")):
            if not getattr(self, low) < getattr(self, high):
                raise ArgumentError(f"{low} must be below {high} ({getattr(self, high)!r}), got {getattr(self, low)!r}.")
        object.__setattr__(self, "times", check_times(self.times))

    @classmethod
    def from_levels(
        cls,
        n_categories: int,
        epsilon_infinity: float,
        epsilon_one: float,
        variant: str = "l-osue",
        times: Times = None,
    ) -> "MemoizedUnary":
        """Return the chain one report of which costs ε_1.

        Parameters
        ----------
        n_categories : int
        epsilon_infinity, epsilon_one : float
            ε_1 is below ε_∞.
        variant : {"l-sue", "l-osue", "l-oue", "l-soue"}
            First the permanent stage, then the instantaneous one: SUE is symmetric, OUE sets the bit of the value with
            probability 1/2.
        times : optional
            As for the class.

        Returns
        -------
        MemoizedUnary

        Raises
        ------
        ArgumentError
            If an argument breaks its rule, or the instantaneous stage cannot reach ε_1: one that is OUE shows a set bit
            with probability 1/2 only.
        """
        infinity, single = check_level_pair(epsilon_infinity, epsilon_one)
        first, second = CHAINS[checks.choice(variant, "variant", tuple(CHAINS))]
        make = UnaryEncoding.optimized if first else UnaryEncoding.symmetric
        stage = make(checks.categories_count(n_categories), infinity)

        def chain(lam, on, off):
            return cls(n_categories, stage.kappa, lam, on, off, times)

        # Rounding may put the exact levels of a client above those that were asked for.
        lam = _raised(stage.lam, lambda lam: chain(lam, 1.0, 0.0).epsilon_infinity <= infinity)
        shown = (lambda off: (0.5, off)) if second else (lambda off: (1 - off, off))
        off = _instant(stage.kappa, lam, single, second, variant)
        off = _raised(off, lambda off: chain(lam, *shown(off)).spent(1) <= single)
        return chain(lam, *shown(off))

    @classmethod
    def rappor(cls, n_categories: int, p: float, q: float, f: float, times: Times = None) -> "MemoizedUnary":
        """Return basic RAPPOR(p, q, f): bits replaced by fair coins with probability f, then shown with probability q or p.

        Parameters
        ----------
        n_categories : int
        p, q, f : float
            As for ``Rappor.direct``; f is above zero.
        times : optional
            As for the class.

        Returns
        -------
        MemoizedUnary
        """
        f = checks.probability(f, "f", open_low=True, open_high=True)
        return cls(n_categories, 1 - f / 2, f / 2, q, p, times)

    # ---- levels --------------------------------------------------------------------------------------------------------
    @property
    def epsilon_infinity(self) -> float:  # type: ignore[override]
        kappa, lam = (Fraction(threshold, 2**entropy.BITS) for threshold in self._thresholds[:2])
        return log_above(kappa * (1 - lam) / (lam * (1 - kappa)))

    def rates(self):
        return Rates(*self.stages)

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def n_bits(self):
        return self.n_categories

    @property
    def single(self):
        rates = self.rates()
        return UnaryEncoding.from_rates(self.n_categories, rates.first(self.kappa), rates.first(self.lam))

    def permanent_one(self, value, key):
        """Return the permanent bits of one value, which a device has for good: a function of the value and of its key."""
        value, public = entropy.one_value(value, self.n_categories), (self.name, self.n_categories, *self._thresholds[:2])
        with entropy.keyed(entropy.secret_key(key), public, value.to_bytes(8, "big")):
            return self.draw_permanent_one(value)[1:].tolist()

    def instantaneous_one(self, permanent):
        """Return one report on permanent bits: a packed set, from the operating system's entropy."""
        kept = checks.array_of(permanent, "permanent", "a zero or one for each category")
        kept = self.check_reports(np.append(1, kept)[None])[0]
        return np.packbits(self.draw_reports_one(kept, 1)[1:].astype(np.uint8))

    # ---- stages --------------------------------------------------------------------------------------------------------
    @property
    def table(self):
        return np.arange(self.n_categories)[None, None, :]

    @cached_property
    def _thresholds(self):
        # Towards more noise: λ up and κ down.
        scale = 2**entropy.BITS
        lam = math.ceil(Fraction(self.lam) * scale)
        kappa = max(lam, entropy.threshold_below(Fraction(self.kappa)))
        return kappa, lam, *(entropy.threshold_below(Fraction(rate)) for rate in (self.on, self.off))

    @classmethod
    def from_parameters(cls, categories, parameters):
        if "epsilon_infinity" in parameters or "epsilon_one" in parameters:
            levels = ("epsilon_infinity", "epsilon_one")
            check_parameters(f"{cls.name} with levels", parameters, (*levels, "variant", "times"), levels)
            return cls.from_levels(len(categories), **parameters)
        return super().from_parameters(categories, parameters)


def _instant(kappa, lam, single, optimized, variant):
    """Return s of the instantaneous stage that gives one report the level ε_1, to rounding.

    With r* = κ r + (1 − κ) s and s* = λ r + (1 − λ) s the level is log r*(1 − s*)/(s*(1 − r*)), which falls as s rises.
    """

    from scipy.optimize import brentq

    def level(off):
        on = 0.5 if optimized else 1 - off
        high, low = (share * on + (1 - share) * off for share in (kappa, lam))
        return math.log(high / low) + math.log1p(-low) - math.log1p(-high)

    least = 1e-300
    if level(least) <= single:
        raise ArgumentError(
            f"epsilon_one must be below {level(least):.6g}, all that one report of {variant} can reach at this "
            f"epsilon_infinity, got {single!r}."
        )
    return brentq(lambda s: level(s) - single, least, 0.5, xtol=1e-300, rtol=8.9e-16, maxiter=500)


def _raised(value, kept):
    """Return a value, or the next one found above it at which ``kept`` holds."""
    step = math.ulp(value)
    while not kept(value):
        value, step = value + step, 2 * step
    return value
