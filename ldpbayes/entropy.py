"""Operating-system entropy for single-value clients: integer comparisons only, so that the realised channel is rational.

A client that must not exceed epsilon rounds its probabilities so that the exact ratio stays at or below e^epsilon.

Every draw has a fixed number of bits; nothing is rejected and drawn again. A client therefore makes the same draws for
every value and every outcome. It selects its report by arithmetic and indexing; even comparisons of large integers are
avoided, because a mispredicted branch inside them can be seen in the running time. Integers are kept large where small ones
would depend on the value: Python stores −5 to 256 and makes others anew. This is no guarantee of constant time: Python's
integers, memory allocator and interpreter give none, and local hashing by xxHash takes longer for longer labels.
Where an observer can time single calls, send reports at fixed times.
"""

import itertools
import secrets
from decimal import Context, Decimal
from fractions import Fraction

from ldpbayes import checks
from ldpbayes.errors import ArgumentError

#: Bits of one comparison; a threshold N means probability N / 2**BITS exactly.
BITS = 128
#: Bits of one digit of Python's large integers.
DIGIT = 30
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
    """Return 1 with probability threshold / 2**BITS, else 0, from the operating system's CSPRNG."""
    return 1 - passed(secrets.randbits(BITS), threshold, BITS)


def passed(draw, threshold, bits):
    """Return 1 where a draw of so many bits is at least the threshold, else 0, by a carry instead of a comparison.

    draw + 2^(bits+2) − threshold lies in [3·2^bits, 4·2^bits) below the threshold and in [4·2^bits, 5·2^bits) above.
    """
    return ((draw + (4 << bits) - threshold) >> bits) - 3


def steady(bits):
    """Return the least number of bits, from ``bits`` up, for which no draw or sum of ``passed`` changes its digit count.

    All but one draw in 256 reach the top digit, and a carry leaves room in it.
    """
    top = bits % DIGIT
    return bits + (0 if 8 <= top <= DIGIT - 4 else (8 - top) % DIGIT)


def word(bits):
    """Return a uniform integer below 2**bits from the operating system's CSPRNG."""
    return secrets.randbits(bits)


def below(n):
    """Return an integer in 0..n-1 from one draw of BITS bits, uniform to a relative n / 2**BITS; see ``shares``.

    ⌊n·U / 2**BITS⌋ with U uniform below 2**BITS; exactly uniform where n is a power of two.
    """
    # One is added before the shift and taken off after it: Python treats a result of zero in another way.
    return ((n * secrets.randbits(BITS) + (1 << BITS)) >> BITS) - 1


def shares(n):
    """Return the exact probabilities of below(n), as Fractions."""
    starts = [-(-(j << BITS) // n) for j in range(n + 1)]
    return [Fraction(stop - start, 2**BITS) for start, stop in itertools.pairwise(starts)]


def one_value(value, n_categories, name="value"):
    """Return one private value as an int in 0..n_categories-1."""
    number = checks.integer(value, name)
    if not 0 <= number < n_categories:
        raise ArgumentError(f"{name} must be an integer from 0 to {n_categories - 1}, got {value!r}.")
    return number
