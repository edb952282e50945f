"""Projective geometries over finite fields, as cyclic difference sets (Singer 1938)."""

import functools
import math
from collections.abc import Callable

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.constants import MAX_ORDER


class FiniteField:
    """The finite field of q = p^m elements; element e stands for the polynomial with the digits of e to base p.

    Parameters
    ----------
    order : int
        q, a prime power up to MAX_ORDER.

    Attributes
    ----------
    add, multiply : (q, q) int16 arrays
        Tables.

    Raises
    ------
    ArgumentError
        If order is no prime power, or too large.
    """

    def __init__(self, order: int) -> None:
        power = prime_power(order) if order <= MAX_ORDER else None
        if power is None:
            raise ArgumentError(f"order must be a prime power from 2 to {MAX_ORDER}, got {order}.")
        prime, degree = power
        places = prime ** np.arange(degree)
        digits = np.arange(order)[:, None] // places % prime
        self.add = ((digits[:, None, :] + digits[None, :, :]) % prime @ places).astype(np.int16)
        self.order, elements = order, np.arange(order)
        if degree == 1:
            self.multiply = (elements[:, None] * elements % prime).astype(np.int16)
            return
        base, element = field(prime), [1, *([0] * (degree - 1))]
        rule, powers = _generator(base, degree, order - 1, lambda constant: constant == 1), []
        for _ in range(order - 1):
            powers.append(int(np.dot(element, places)))
            element = base.times_x(element, rule)
        exponent = np.zeros(order, dtype=np.int64)
        exponent[powers] = np.arange(order - 1)
        self.multiply = np.array(powers)[(exponent[:, None] + exponent[None, :]) % (order - 1)].astype(np.int16)
        self.multiply[0] = self.multiply[:, 0] = 0

    def times_x(self, polynomial: list[int], rule: tuple[int, ...]) -> list[int]:
        """Return x times a polynomial of degree below t, where x^t = Σ rule_j x^j; coefficients from the constant on."""
        top = polynomial[-1]
        shifted = [0, *polynomial[:-1]]
        return [int(self.add[s, self.multiply[top, r]]) for s, r in zip(shifted, rule, strict=True)]

    def product(self, first: list[int], second: list[int], rule: tuple[int, ...]) -> list[int]:
        """Return the product of two polynomials of degree below t, where x^t = Σ rule_j x^j."""
        out = [0] * len(rule)
        for coefficient in second:
            out = [int(self.add[o, self.multiply[coefficient, f]]) for o, f in zip(out, first, strict=True)]
            first = self.times_x(first, rule)
        return out


@functools.cache
def field(order: int) -> FiniteField:
    """Return the field of this order, made once."""
    return FiniteField(order)


def prime_power(number: int) -> tuple[int, int] | None:
    """Return (p, m) with number = p^m for a prime p, else None.

    Examples
    --------
    >>> prime_power(27), prime_power(12)
    ((3, 3), None)
    """
    factors = prime_factors(number)
    return (factors[0], round(math.log(number, factors[0]))) if len(factors) == 1 else None


def prime_factors(number: int) -> list[int]:
    """Return the distinct prime factors of a positive integer, in order."""
    out, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            out.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*out, number] if number > 1 else out


def n_points(order: int, dimension: int) -> int:
    """Return (q^t − 1)/(q − 1), the points of the projective geometry of vectors of length t."""
    return (order**dimension - 1) // (order - 1)


@functools.lru_cache(maxsize=32)
def difference_set(order: int, dimension: int) -> np.ndarray:
    """Return the positions i below N of the points α^i that lie in one hyperplane, in order.

    α generates the field of q^t elements up to factors in the field of q elements, so that the N = (q^t − 1)/(q − 1) points
    of the geometry are its powers. The hyperplane is that of vectors without a constant term, and the N shifts of these
    positions modulo N are all hyperplanes. α is the root of the first fitting polynomial, so that the set never changes.

    Parameters
    ----------
    order : int
        q.
    dimension : int
        t, at least two.

    Returns
    -------
    ((q^(t−1) − 1)/(q − 1),) int64 array

    References
    ----------
    Singer (1938), A theorem in finite projective geometry.

    Examples
    --------
    >>> difference_set(2, 3)  # the Fano plane
    array([1, 2, 4])
    """
    numbers, size = field(order), n_points(order, dimension)
    rule = _generator(numbers, dimension, size, bool)
    # The constant terms of the powers obey the rule as the powers do.
    add, terms = numbers.add.tolist(), [(j, numbers.multiply[r].tolist()) for j, r in enumerate(rule) if r]
    constant = [1, *([0] * (dimension - 1))]
    for i in range(size - dimension):
        term = 0
        for j, times in terms:
            term = add[term][times[constant[i + j]]]
        constant.append(term)
    points = np.flatnonzero(np.array(constant[:size]) == 0)
    points.setflags(write=False)
    return points


def _generator(numbers: FiniteField, dimension: int, size: int, scalar: Callable[[int], bool]) -> tuple[int, ...]:
    """Return the first rule x^t = Σ rule_j x^j under which x^size is the first power that is such a scalar."""
    factors = prime_factors(size)
    x = [0, 1, *([0] * (dimension - 2))]

    def closed(exponent: int) -> bool:
        constant, *others = _power(numbers, x, exponent, rule)
        return scalar(constant) and not any(others)

    for code in range(1, numbers.order**dimension):
        rule = tuple(code // numbers.order**j % numbers.order for j in range(dimension))
        if rule[0] and closed(size) and not any(closed(size // factor) for factor in factors):
            return rule
    raise AssertionError(f"no generator of dimension {dimension} over {numbers.order}")  # there always is one


def _power(numbers: FiniteField, base: list[int], exponent: int, rule: tuple[int, ...]) -> list[int]:
    out = [1] + [0] * (len(rule) - 1)
    for bit in bin(exponent)[2:]:
        out = numbers.product(out, out, rule)
        if bit == "1":
            out = numbers.product(out, base, rule)
    return out
