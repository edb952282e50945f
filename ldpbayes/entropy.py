"""Operating-system entropy for single-value clients: integer comparisons only, so that the realised channel is rational.

A client that must not exceed epsilon rounds its probabilities so that the exact ratio stays at or below e^epsilon.
"""

import secrets
from decimal import Context, Decimal
from fractions import Fraction

from ldpbayes import checks
from ldpbayes.errors import ArgumentError

#: Bits of one comparison; a threshold N means probability N / 2**BITS exactly.
BITS = 128
_CONTEXT = Context(prec=80)


def exp_below(epsilon):
    """Return a rational in [e^ε(1 − 1e-75), e^ε], exact in its comparison because it is rounded down."""
    return Fraction(_CONTEXT.exp(Decimal(epsilon))) * (1 - Fraction(1, 10**76))


def exp_above(epsilon):
    """Return a rational just above e^ε (relative distance below 1e-75)."""
    return Fraction(_CONTEXT.exp(Decimal(epsilon))) * (1 + Fraction(1, 10**76))


def threshold_below(probability):
    """Return the largest N with N / 2**BITS <= probability (a Fraction in [0, 1])."""
    return int(probability * 2**BITS)


def bernoulli(threshold):
    """Return True with probability threshold / 2**BITS, from the operating system's CSPRNG."""
    return secrets.randbits(BITS) < threshold


def below(n):
    """Return a uniform integer in 0..n-1 from the operating system's CSPRNG (exact, by rejection)."""
    return secrets.randbelow(n)


def one_value(value, n_categories, name="value"):
    """Return one private value as an int in 0..n_categories-1."""
    number = checks.integer(value, name)
    if not 0 <= number < n_categories:
        raise ArgumentError(f"{name} must be an integer from 0 to {n_categories - 1}, got {value!r}.")
    return number
