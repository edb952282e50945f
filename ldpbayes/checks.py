"""Validators: each returns the cleaned value or raises an ArgumentError that states the rule, the value and the remedy.

``name`` is that of the argument and ``rule`` what it must be, both for the message.
"""

import contextlib
import decimal
import difflib
import math
import numbers
import sys
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.constants import (
    LARGEST,
    MAX_CATEGORIES,
    MAX_CELLS,
    MAX_COUNT,
    MAX_DRAWS_BYTES,
    MAX_EPSILON,
    MAX_SEED,
    MIN_EPSILON,
    MIN_LEVEL,
)
from ldpbayes.errors import ArgumentError, InfeasibleError, listed, shown


def epsilon(value: object, name: str = "epsilon") -> float:
    """Return an LDP level in nats as a float in (0, MAX_EPSILON], and not so small that reports carry no information."""
    number = real(value, name, f"a number in (0, {MAX_EPSILON:g}]")
    if not 0 < number <= MAX_EPSILON:
        raise ArgumentError(
            f"{name} must be a number in (0, {MAX_EPSILON:g}], got {shown(value)}"
            + ("; reports at that level are the values themselves." if number > MAX_EPSILON else ".")
        )
    if number < MIN_EPSILON:
        raise ArgumentError(
            f"{name} must be at least {MIN_EPSILON:g}, got {shown(value)}; reports below that level carry no information."
        )
    return number


def integer(value: object, name: str, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return an int within the bounds (booleans and fractional floats are refused).

    Parameters
    ----------
    minimum, maximum : int, optional
    """
    rule = "an integer"
    if minimum is not None:
        rule += f" >= {minimum}"
    if maximum is not None:
        rule += f" and <= {maximum}" if minimum is not None else f" <= {maximum}"
    whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, (bool, np.bool_)) or not whole:
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    number = int(cast(int, value))
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    return number


def categories_count(value: object, name: str = "n_categories") -> int:
    """Return the number of categories: an integer from 2 to MAX_CATEGORIES."""
    return integer(value, name, minimum=2, maximum=MAX_CATEGORIES)


def seed(value: object, name: str = "random_seed") -> int:
    """Return a random seed: an integer from 0 to 2^63 − 1 as it is, and where None one that is drawn.

    A numpy Generator is refused: what is made states its seed, so that it can be made again.
    """
    if isinstance(value, np.random.Generator):
        raise ArgumentError(
            f"{name} must be an integer >= 0 or None, got a numpy Generator; a result records its seed, so that it can be "
            "made again."
        )
    if value is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return integer(value, name, minimum=0, maximum=MAX_SEED - 1)


def draws_size(draws: int, chains: int, n_categories: int) -> None:
    """Raise an ArgumentError where the draws of P and F would not fit in MAX_DRAWS_BYTES.

    Parameters
    ----------
    draws, chains : int
        Per chain, and chains.
    n_categories : int
        Numbers per draw, over all cells.

    Raises
    ------
    ArgumentError
        Before anything is allocated.
    """
    number = 16 * n_categories  # bytes of one draw of P and one of F
    if draws * chains * number > MAX_DRAWS_BYTES:
        most = MAX_DRAWS_BYTES // (chains * number)
        raise ArgumentError(
            f"draws must be an integer <= {most} with {chains} chains and {n_categories} categories, got {shown(draws)}; "
            f"the result would take more than {MAX_DRAWS_BYTES // 2**30} GiB of memory."
        )


def probability(value: object, name: str, *, open_low: bool = False, open_high: bool = False) -> float:
    """Return a float in [0, 1], or in the interval that the open ends leave.

    Parameters
    ----------
    open_low : bool
        Whether 0 is refused.
    open_high : bool
        Whether 1 is refused.
    """
    low, high = "(" if open_low else "[", ")" if open_high else "]"
    rule = f"a probability in {low}0, 1{high}"
    number = real(value, name, rule)
    if not 0 <= number <= 1 or (open_low and number == 0) or (open_high and number == 1):
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    return number


def level(value: object, name: str = "ci_prob") -> float:
    """Return the probability of an interval: not so near to 0 or 1 that its ends are lost in rounding."""
    number = probability(value, name, open_low=True, open_high=True)
    if not MIN_LEVEL <= number <= 1 - MIN_LEVEL:
        raise ArgumentError(f"{name} must be from {MIN_LEVEL:g} to 1 - {MIN_LEVEL:g}, got {shown(value)}.")
    return number


def positive(value: object, name: str) -> float:
    """Return a finite float above zero, whose square and its inverse are finite too."""
    number = real(value, name, "a finite number above 0")
    if not (number > 0 and math.isfinite(number)):
        raise ArgumentError(f"{name} must be a finite number above 0, got {shown(value)}.")
    if not 1 / LARGEST <= number <= LARGEST:
        raise ArgumentError(f"{name} must be from {1 / LARGEST:g} to {LARGEST:g}, got {shown(value)}.")
    return number


def choice[T](value: T, name: str, options: Collection) -> T:
    """Return value if it is one of the options.

    Parameters
    ----------
    options : collection

    Returns
    -------
    object
        The value.
    """
    # Compared with options of its own kind only: arrays answer == with an array, and some objects with an error.
    if not any(value is option or (isinstance(value, type(option)) and value == option) for option in options):
        near = difflib.get_close_matches(value, [str(option) for option in options], 1) if isinstance(value, str) else []
        hint = f"; did you mean {near[0]}?" if near else "."
        raise ArgumentError(f"{name} must be one of {listed(options, most=60)}, got {shown(value)}{hint}")
    return value


def users(value: object, name: str = "n") -> float:
    """Return a number of users, of at least one; a plan may have a fraction of one."""
    number = real(value, name, "a finite number >= 1")
    if not 1 <= number <= LARGEST:
        raise ArgumentError(f"{name} must be a number from 1 to {LARGEST:g}, got {shown(value)}.")
    return number


def users_count(value: object, name: str = "n") -> int:
    """Return the number of users who report: an integer from 1 to MAX_COUNT."""
    return integer(value, name, minimum=1, maximum=MAX_COUNT)


def counts(value: ArrayLike, name: str = "counts", size: int | None = None) -> IntArray:
    """Return a one-dimensional int64 copy of non-negative whole numbers.

    Parameters
    ----------
    size : int, optional
        Required length.
    """
    array = _array(value, name, "non-negative whole numbers", size)
    if array.dtype == bool or not (np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)):
        raise ArgumentError(f"{name} must be non-negative whole numbers, got dtype {array.dtype}.")
    good = np.isfinite(array) & (array >= 0) & (array == np.floor(array))
    if not good.all():
        i = int(np.flatnonzero(~good)[0])
        raise ArgumentError(f"{name} must be non-negative whole numbers, got {array[i]} at position {i}.")
    if array.size and array.max() > MAX_COUNT:
        i = int(array.argmax())
        raise ArgumentError(f"{name} must be at most 10**12, got {array[i]} at position {i}.")
    return array.astype(np.int64)


def text(value: object, name: str, *, empty: bool = True) -> str:
    """Return a text.

    Parameters
    ----------
    empty : bool
        Whether the empty text is one.
    """
    if not isinstance(value, str) or not (value or empty):
        raise ArgumentError(f"{name} must be {'text' if empty else 'non-empty text'}, got {shown(value)}.")
    return str(value)


def flag(value: object, name: str) -> bool:
    """Return True or False; nothing else counts as either, for the truth of an array or a text is a guess."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def entries(value: object, name: str, rule: str, *, ordered: bool = True) -> tuple:
    """Return the entries of a sequence, or of any other iterable that has an order.

    Parameters
    ----------
    ordered : bool
        Whether the order matters, so that a set will not do.

    Raises
    ------
    ArgumentError
        If the value has no entries, or, as a set and a mapping, none in an order.
    """
    without = (Mapping, bytes, bytearray, memoryview, type, *((Set,) if ordered else ()))
    if isinstance(value, Iterable) and not isinstance(value, without):
        try:
            return tuple(value)
        except Exception as err:  # whatever an object of another library raises where it cannot be listed
            raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.") from err
    raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")


def labels(value: object, name: str, rule: str = "a sequence of texts") -> tuple[str, ...]:
    """Return the texts of a sequence.

    Parameters
    ----------
    value : iterable of str
        A text alone is the sequence of its characters.

    Raises
    ------
    ArgumentError
        If the value is no sequence, or one of its entries is no text.
    """
    texts = entries(value, name, rule)
    for entry in texts:
        if not isinstance(entry, str):
            raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    return tuple(map(str, texts))


def distinct(texts: Iterable[str]) -> bool:
    """Return whether labels differ as readers compare them: without the blanks around them, in Unicode's composed form."""
    texts = list(texts)
    return len({unicodedata.normalize("NFC", text).strip() for text in texts}) == len(texts)


def column(value: object, name: str) -> str | None:
    """Return the name of a column, a non-empty text, or None, where none is named."""
    if value is not None and (not isinstance(value, str) or not value):
        raise ArgumentError(f"{name} must be the name of a column, got {shown(value)}.")
    return value


def columns(value: object, name: str) -> tuple[str, ...] | None:
    """Return the names of one column or of several, or None, where none is named."""
    rule = "the name of a column or a list of names"
    return None if value is None else (value,) if isinstance(value, str) else labels(value, name, rule)


def mapping(value: object, name: str, rule: str = "a mapping from names to values") -> dict:
    """Return a mapping whose keys are texts as a dict.

    Raises
    ------
    ArgumentError
        If the value is no mapping, or one of its keys is no text.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    return dict(value)


def instance[T](value: Any, name: str, cls: type[T] | tuple[type[T], ...] | Any, words: str) -> T:
    """Return the value if it is of the class, or of one of them.

    Parameters
    ----------
    cls : type or tuple of types
    words : str
        What it must be, for the message, such as "a Collection".

    Returns
    -------
    object
        The value.

    Raises
    ------
    ArgumentError
        If the value is of another class.
    """
    if not isinstance(value, cls):
        kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise ArgumentError(f"{name} must be {words}, got {shown(value) if value is None else kind}.")
    return value


def reals(
    value: ArrayLike, name: str, rule: str = "finite numbers", *, ndim: int | None = 1, finite: bool = True
) -> FloatArray:
    """Return a float64 copy of an array of numbers.

    Parameters
    ----------
    ndim : int, optional
        Number of dimensions; None for any.
    finite : bool
        Whether infinities and nan are refused.
    """
    array = _array(value, name, rule, dtype=float)
    if ndim is not None and array.ndim != ndim:
        raise ArgumentError(f"{name} must be {rule}, got shape {array.shape}.")
    if finite and not np.isfinite(array).all():
        raise ArgumentError(f"{name} must be {rule}, got {shown(array[~np.isfinite(array)].flat[0])}.")
    return array.copy()


def distribution(value: ArrayLike, name: str = "p", size: int | None = None, atol: float = 1e-9) -> FloatArray:
    """Return a float64 copy of a probability vector, divided by its sum.

    Parameters
    ----------
    size : int, optional
        Required length.
    atol : float
        Largest difference of the sum from one.
    """
    array = _array(value, name, "probabilities", size, dtype=float)
    if not np.isfinite(array).all() or (array < 0).any() or abs(array.sum() - 1) > atol:
        raise ArgumentError(f"{name} must be non-negative and sum to 1, got a sum of {array.sum():.12g}.")
    return array / array.sum()


def values(value: ArrayLike, n_categories: int, name: str = "values") -> IntArray:
    """Return private values as an int64 array in 0..n_categories-1; nothing wraps around.

    Parameters
    ----------
    value : array-like
        A single integer is taken as an array of one.
    n_categories : int
        Number of categories, a ≥ 2.
    """
    array = np.atleast_1d(_array(value, name, "a one-dimensional array of integers"))
    if array.ndim != 1 or array.dtype == bool or not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(f"{name} must be a one-dimensional array of integers, got shape {array.shape} of {array.dtype}.")
    if not within(array, n_categories):
        i = int(np.flatnonzero((array < 0) | (array >= n_categories))[0])
        raise ArgumentError(f"{name} must be integers from 0 to {n_categories - 1}, got {array[i]} at position {i}.")
    return array.astype(np.int64)


def blank(entry: Any) -> bool:
    """Return whether an entry of a column is missing: None, nan, or a text of blanks."""
    return bool(entry is None or entry != entry or (isinstance(entry, (str, bytes)) and not entry.strip()))


def within(array: NDArray, limit: int) -> bool:
    """Return whether every entry of an array of integers is from 0 to limit − 1, reading it once where it is int64."""
    if not array.size:
        return True
    if array.dtype == np.int64:  # negative numbers are large ones without the sign
        return bool(array.view(np.uint64).max() < limit)
    return bool(array.min() >= 0 and array.max() < limit)


def generator(rng: object, name: str = "rng") -> np.random.Generator:
    """Return a numpy Generator from a Generator, a seed or None."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, (int, np.integer, np.random.SeedSequence)) and not isinstance(rng, bool)):
        if isinstance(rng, (int, np.integer)) and rng < 0:
            raise ArgumentError(f"{name} must be a non-negative seed, got {shown(rng)}.")
        return np.random.default_rng(rng)
    raise ArgumentError(f"{name} must be a numpy Generator, a seed or None, got {type(rng).__name__}.")


def real(value: object, name: str = "value", rule: str = "a number") -> float:
    """Return a float; text and booleans are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    try:
        return float(value)
    except OverflowError:  # an integer above 1e308
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.") from None


_ANY = object()


def _array(value: ArrayLike, name: str, rule: str, size: object = _ANY, dtype: type | None = None) -> NDArray:
    """Return an array of one dimension (and size, unless None), or of any dimension where size is not given."""
    array = array_of(value, name, rule)
    if dtype is not None:
        array = _as_floats(array, name, rule)
    if size is not _ANY and (array.ndim != 1 or (size is not None and array.size != size)):
        shape = "one-dimensional" if size is None else f"of length {size}"
        raise ArgumentError(f"{name} must be {shape}, got shape {array.shape}.")
    return array


def array_of(value: ArrayLike, name: str, rule: str) -> NDArray:
    """Return what NumPy makes of a value, of any dtype.

    Raises
    ------
    ArgumentError
        If it makes no array of it, because it is ragged, too deep or an object that refuses; where entries of a masked
        array are missing; and where NumPy would make an array of objects of something that is no sequence.
    """
    masked = sys.modules.get("numpy.ma")  # whoever has such an array has imported it
    if masked is not None and isinstance(value, masked.MaskedArray) and masked.getmaskarray(value).any():
        raise ArgumentError(f"{name} must be {rule}, got a masked array with missing entries.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.asarray(value)
    except Exception as err:  # whatever __array__ of an object of another library raises, and NumPy about a ragged list
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.") from err


def _as_floats(array: NDArray, name: str, rule: str) -> NDArray[np.float64]:
    """Return an array of numbers as float64; texts, dates, booleans and complex numbers are none, missing ones neither."""
    if array.dtype.kind in "iuf":
        return array.astype(float)
    if array.dtype.kind == "O" and all(
        isinstance(x, numbers.Real | decimal.Decimal) and not isinstance(x, bool) for x in array.flat
    ):
        with contextlib.suppress(TypeError, ValueError, OverflowError):  # an integer above 1e308, a signalling NaN
            return array.astype(float)
    raise ArgumentError(f"{name} must be {rule}, got {shown(array.tolist())}.")


def attribute_sizes(sizes: Any) -> tuple[int, ...]:
    """Return the numbers of categories of the attributes, checked.

    Raises
    ------
    ArgumentError
        Where they are no list of whole numbers of at least two.
    """
    rule = "a list with the number of categories of each attribute"
    numbers = tuple(categories_count(size, "sizes") for size in entries(sizes, "sizes", rule))
    if not numbers:
        raise ArgumentError(f"sizes must be {rule}, got {shown(sizes)}.")
    if math.prod(numbers) > MAX_CELLS:
        raise InfeasibleError(f"The joint table has {math.prod(numbers):,} cells, at most {MAX_CELLS:,} are possible.")
    return numbers
