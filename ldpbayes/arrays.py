"""Names for the array types of the annotations, whose shapes are in the docstrings; and what NumPy and SciPy lack."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Double-precision numbers: distributions, draws, densities.
FloatArray = NDArray[np.float64]
#: Counts, positions and reports that are numbers.
IntArray = NDArray[np.int64]


def log_choose(n: Any, k: Any) -> Any:
    """Return log C(n, k) of numbers or arrays of them."""
    from scipy.special import gammaln  # a scan of counts does without SciPy, which takes longer to import than to count

    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def log_multinomial(counts: Any) -> Any:
    """Return log (Σ counts)! / Π counts! along the last axis."""
    from scipy.special import gammaln

    return gammaln(counts.sum(axis=-1) + 1) - gammaln(counts + 1).sum(axis=-1)


def count_vectors(size: int, total: int) -> IntArray:
    """Return every vector of ``size`` whole numbers with this sum, one a row."""
    out = np.zeros((1, 0), dtype=np.int64)
    left = np.array([total])
    for _ in range(size - 1):
        many = left + 1
        place = np.repeat(np.arange(len(left)), many)
        number = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        out = np.column_stack([out[place], number])
        left = left[place] - number
    return np.column_stack([out, left])


def as_words(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return packed bits (m, ⌈a/8⌉) as 64-bit words padded with zeros: byte b of a row is bits 8b to 8b + 7, (m, ⌈a/64⌉)."""
    n_bytes = bits.shape[1]
    if n_bytes % 8 or not (bits.flags.aligned and bits.flags.c_contiguous):
        padded = np.zeros((len(bits), 8 * -(-n_bytes // 8)), dtype=np.uint8)
        padded[:, :n_bytes] = bits
        bits = padded
    return bits.view("<u8").astype(np.uint64, copy=False)


def blocks(n: int, width: int, most: int) -> Iterator[slice]:
    """Yield slices of n rows of so many entries each, of which at most so many are together, and a row at least."""
    step = max(1, most // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def groups_of(numbers: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield (number, its places in order) of every distinct number, the least first."""
    if len(numbers) and (numbers == numbers[0]).all():
        yield int(numbers[0]), np.arange(len(numbers))
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    yield from zip(ordered[starts].tolist(), np.split(order, starts)[1:], strict=True)


def times(matrix: Any, values: np.ndarray) -> np.ndarray:
    """Return a matrix, which may be sparse, times each of some values (…, m, k)."""
    if values.ndim == 2:
        return matrix @ values
    rows = np.moveaxis(values, -2, 0)
    product = matrix @ rows.reshape(len(rows), -1)
    return np.moveaxis(product.reshape(-1, *rows.shape[1:]), 0, -2)
