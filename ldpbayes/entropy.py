"""Operating-system entropy for single-value clients: integer comparisons only, so that the realized channel is rational.

A client that must not exceed epsilon rounds its probabilities so that the exact ratio stays at or below e^epsilon.

Every draw has a fixed number of bits; nothing is rejected and drawn again. A client therefore makes the same draws for
every value and every outcome. It selects its report by arithmetic and indexing; even comparisons of large integers are
avoided, because a mispredicted branch inside them can be seen in the running time. Integers are kept large where small ones
would depend on the value: Python stores −5 to 256 and makes others anew. This is no guarantee of constant time: Python's
integers, memory allocator and interpreter give none, and local hashing by xxHash takes longer for longer labels.
Where an observer can time single calls, send reports at fixed times.
"""

import contextlib
import contextvars
import hmac
import math
import secrets
from collections.abc import Callable, Hashable
from decimal import Context, Decimal
from fractions import Fraction

from ldpbayes import checks
from ldpbayes.constants import BITS, DIGIT, KEY_BYTES, MANY_VALUES, MAX_OUTCOMES
from ldpbayes.errors import ArgumentError, InfeasibleError

_CONTEXT = Context(prec=80)
_source: contextvars.ContextVar = contextvars.ContextVar("source", default=None)


def exp_below(epsilon):
    """Return a rational in [e^ε(1 − 1e-75), e^ε], exact in its comparison because it is rounded down."""
    return Fraction(_CONTEXT.exp(Decimal(epsilon))) * (1 - Fraction(1, 10**76))


def threshold_below(probability):
    """Return the largest N with N / 2**BITS <= probability (a Fraction in [0, 1])."""
    return int(probability * 2**BITS)


def bernoulli(threshold):
    """Return 1 with probability threshold / 2**BITS, else 0, from the operating system's CSPRNG."""
    return 1 - passed(word(BITS), threshold, BITS)


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
    return (_source.get() or secrets).randbits(bits)


def below(n):
    """Return an integer in 0..n-1 from one draw of BITS bits, uniform to a relative n / 2**BITS.

    ⌊n·U / 2**BITS⌋ with U uniform below 2**BITS; exactly uniform where n is a power of two.
    """
    # One is added before the shift and taken off after it: Python treats a result of zero in another way.
    return ((n * word(BITS) + (1 << BITS)) >> BITS) - 1


def some_of(number, n):
    """Return so many different integers of 0..n-1 in random order, by a draw of ``below`` each."""
    left = list(range(n))
    return [left.pop(below(n - step)) for step in range(number)]


@contextlib.contextmanager
def keyed(key: bytes | None, public: tuple, private: bytes = b""):
    """Make all draws inside a function of a secret key and of these words; without a key they are fresh.

    What a device keeps of its permanent answers is this key: a value, or a bucket, has the same noise whenever it comes up.

    Parameters
    ----------
    key : bytes, or None
        See ``secret_key``.
    public : tuple
        Numbers and texts: for what the draws are, such as the name and the parameters of a protocol.
    private : bytes
        Their number must not depend on what is private.
    """
    if key is None:
        yield
        return
    token = _source.set(Keyed(key, repr(public).encode() + b"\0" + private))
    try:
        yield
    finally:
        _source.reset(token)


class Keyed:
    """A source of draws from a key and a message: HMAC-SHA-512 of the message and the number of the draw."""

    def __init__(self, key, message):
        self.key, self.message, self.made = key, message, 0

    def randbits(self, bits):
        self.made += 1
        digest = hmac.digest(self.key, self.message + self.made.to_bytes(8, "big"), "sha512")
        return int.from_bytes(digest, "big") >> (512 - bits)


def one_label(label):
    """Return one private text; what is refused is not quoted."""
    if not isinstance(label, str) or any("\ud800" <= letter <= "\udfff" for letter in label):
        raise ArgumentError("label must be Unicode text; what was given is private and not shown.")
    return label


def secret_key(key):
    """Return the secret key of one device and question; what is refused is not quoted."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise ArgumentError(
            f"key must be {KEY_BYTES} secret bytes, drawn once by secrets.token_bytes({KEY_BYTES}); what was given is not "
            "shown."
        )
    return key


def outcomes(client: Callable[[], Hashable]) -> dict[Hashable, Fraction]:
    """Return every result of a client that draws from this module, with its exact probability.

    The client runs once for every way in which the integers that it makes of its draws can turn out; other threads go on
    drawing from the operating system.

    Parameters
    ----------
    client : callable

    Returns
    -------
    dict of Fraction

    Raises
    ------
    InfeasibleError
        Where there are more than MAX_OUTCOMES ways, or one expression has more than MANY_VALUES values that the
        result depends on.
    """
    tally: dict[Hashable, dict[int, int]] = {}  # result → bits of all draws → how many words of so many bits
    left: list[tuple[int, ...]] = [()]
    for _ in range(MAX_OUTCOMES):
        draws = _Way(left.pop(), left)
        token = _source.set(draws)
        try:
            result = client()
        finally:
            _source.reset(token)
        ways, bits = tally.setdefault(result, {}), sum(size for _, _, size in draws.bounds)
        ways[bits] = ways.get(bits, 0) + math.prod(high - low for low, high, _ in draws.bounds)
        if not left:
            return {key: sum((Fraction(n, 2**bits) for bits, n in ways.items()), Fraction()) for key, ways in tally.items()}
    raise InfeasibleError(f"The client has more than {MAX_OUTCOMES:,} possible sequences of draws.")


class _Way:
    """One way in which draws turn out: the choices given, and then always the first, with the others put on a list."""

    def __init__(self, given, left):
        self.given, self.left, self.made, self.bounds = given, left, (), []

    def randbits(self, bits):
        self.bounds.append([0, 2**bits, bits])
        return _Draw(self, self.bounds[-1])

    def choose(self, number):
        if len(self.made) >= len(self.given):
            self.left += [(*self.made, i) for i in range(1, number)]
            self.made += (0,)
        else:
            self.made += (self.given[len(self.made)],)
        return self.made[-1]


class _Draw:
    """factor · U + offset, of a uniform integer U known by bounds; a shift settles in which interval U lies."""

    def __init__(self, way, bounds, factor=1, offset=0):
        self.way, self.bounds, self.factor, self.offset = way, bounds, factor, offset

    def __add__(self, number):
        return _Draw(self.way, self.bounds, self.factor, self.offset + number)

    def __sub__(self, number):
        return self + -number

    def __mul__(self, number):
        return _Draw(self.way, self.bounds, self.factor * number, self.offset * number)

    __rmul__ = __mul__

    def __rshift__(self, bits):
        (low, high, _), factor, offset = self.bounds, self.factor, self.offset
        first = (factor * low + offset) >> bits
        number = ((factor * (high - 1) + offset) >> bits) - first + 1
        if number > MANY_VALUES:
            return _Unread()
        value = first + (self.way.choose(number) if number > 1 else 0)
        self.bounds[0] = max(low, -((offset - (value << bits)) // factor))
        self.bounds[1] = min(high, -((offset - ((value + 1) << bits)) // factor))
        return value

    def __int__(self):
        return int(self >> 0)

    __index__ = __int__

    def __or__(self, number):
        return (self >> 0) | number

    def __lshift__(self, bits):
        return (self >> 0) << bits


class _Unread:
    """A value of too many possible ones: nothing may depend on it, so that it is only multiplied by zero."""

    def __rmul__(self, number):
        return self._refuse() if number else 0

    def _refuse(self, *_):
        raise InfeasibleError("The client depends on a number of too many possible values.")

    __add__ = __sub__ = __rshift__ = __lshift__ = __or__ = __int__ = __index__ = _refuse


def one_value(value, n_categories):
    """Return one private value as an int in 0..n_categories-1; what is refused is not quoted, for errors end up in logs."""
    try:
        number = checks.integer(value, "value")
    except ArgumentError:
        number = -1
    if not 0 <= number < n_categories:
        raise ArgumentError(
            f"value must be an integer from 0 to {n_categories - 1}; what was given is private and not shown."
        )
    return number
