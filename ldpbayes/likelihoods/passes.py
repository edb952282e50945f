"""Sums over many reports at once, by group: support counts, and the likelihood's expansion at one pilot a group.

A pass reads reports in batches, and what it returns adds up over batches, files and machines. Rows are L = 1 + β[x ∈ S]
with supports S in packed bits (unary encoding, subset selection), or given by a public seed and a bucket (local hashing).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols import hashing

#: Nodes and weights for the expectation over a Gaussian spread of (L p)_j.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
#: A Gaussian reaches below what any distribution gives a report; a tenth of the mean is far in that tail.
FLOOR = 0.1
#: Entries of one unpacked block of the NumPy versions.
_BLOCK = 2**20


class Sums(NamedTuple):
    """The sums that ``Summary`` keeps, one row a group, with u_j = (L p₀)_j at the pilot of the group of report j.

    Attributes
    ----------
    value : (n_groups,) array
        Σ_j w_j log u_j.
    gradient : (n_groups, a) array
        Σ_j w_j E[1/u_j] L_j.
    square : (n_groups, a) array
        Σ_j w_j E[1/u_j²] L_jx².
    cross : (n_groups, a) array
        Σ_j w_j E[1/u_j²] (Σ_x L_jx) L_j.
    """

    value: FloatArray
    gradient: FloatArray
    square: FloatArray
    cross: FloatArray


def support_counts(
    packed: ArrayLike, group: ArrayLike, n_groups: int, n_bits: int, counts: ArrayLike | None = None
) -> IntArray:
    """Return how many reports of each group have each category in their support.

    Parameters
    ----------
    packed : (m, ⌈a/8⌉) uint8 array
        Supports as ``np.packbits(member, axis=1)`` gives them, padding zero.
    group : (m,) int array
        Group of each report, from 0 to n_groups − 1.
    n_groups : int
    n_bits : int
        Number of categories, a.
    counts : (m,) int array, optional
        How many users sent each report; by default one.

    Returns
    -------
    (n_groups, a) int64 array

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    packed, group, counts = _checked(packed, group, n_groups, -(-n_bits // 8), counts, np.int64)
    return _support_counts(packed, group, n_groups, n_bits, counts)


def likelihood_pass(
    packed: ArrayLike,
    group: ArrayLike,
    pilots: ArrayLike,
    beta: float,
    spread: ArrayLike | None = None,
    counts: ArrayLike | None = None,
) -> Sums:
    """Return the sums over each group's reports that expand its log-likelihood at its pilot.

    Parameters
    ----------
    packed : (m, ⌈a/8⌉) uint8 array
        Supports as ``np.packbits(member, axis=1)`` gives them, padding zero.
    group : (m,) int array
        Group of each report, from 0 to n_groups − 1.
    pilots : (n_groups, a) array
        One point on the simplex for each group.
    beta : float
        e^ε − 1.
    spread : (n_groups, a) or (a,) array, optional
        Variances of p about the pilot over which the expectations are taken.
    counts : (m,) array, optional
        How many users sent each report; by default one.

    Returns
    -------
    Sums

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    pilots, spread = _checked_pilots(pilots, spread)
    packed, group, counts = _checked(packed, group, len(pilots), -(-pilots.shape[1] // 8), counts, float)
    return _likelihood_pass(packed, group, pilots, float(beta), spread, counts)


def hashed_support_counts(
    seeds: ArrayLike,
    values: ArrayLike,
    group: ArrayLike,
    n_groups: int,
    n_categories: int,
    n_buckets: int,
    family: str = "ldpbayes",
    counts: ArrayLike | None = None,
) -> IntArray:
    """Return how many reports of each group have each category in their support {x : hash_seed(x) = value}.

    Parameters
    ----------
    seeds, values : (m,) int arrays
        The public seed and the reported bucket.
    group : (m,) int array
        Group of each report, from 0 to n_groups − 1.
    n_groups, n_categories, n_buckets : int
    family : {"ldpbayes", "xxhash"}
        Hash family.
    counts : (m,) int array, optional
        How many users sent each report; by default one.

    Returns
    -------
    (n_groups, n_categories) int64 array

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    seeds, values, group, counts = _checked_pairs(seeds, values, group, n_groups, counts, np.int64)
    out = np.zeros((n_groups, n_categories), dtype=np.int64)
    for part in _blocks(len(seeds), n_categories):
        packed = hashing.supports(family, seeds[part], values[part], n_categories, n_buckets)
        out += _support_counts(packed, group[part], n_groups, n_categories, _part(counts, part))
    return out


def hashed_likelihood_pass(
    seeds: ArrayLike,
    values: ArrayLike,
    group: ArrayLike,
    pilots: ArrayLike,
    beta: float,
    n_buckets: int,
    spread: ArrayLike | None = None,
    family: str = "ldpbayes",
    counts: ArrayLike | None = None,
) -> Sums:
    """Return likelihood_pass of the supports {x : hash_seed(x) = value}.

    Parameters
    ----------
    seeds, values : (m,) int arrays
        The public seed and the reported bucket.
    group, pilots, beta, spread, counts
        As for ``likelihood_pass``.
    n_buckets : int
    family : {"ldpbayes", "xxhash"}
        Hash family.

    Returns
    -------
    Sums

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    pilots, spread = _checked_pilots(pilots, spread)
    n_groups, n_categories = pilots.shape
    seeds, values, group, counts = _checked_pairs(seeds, values, group, n_groups, counts, float)
    out = _zeros(pilots)
    for part in _blocks(len(seeds), n_categories):
        packed = hashing.supports(family, seeds[part], values[part], n_categories, n_buckets)
        found = _likelihood_pass(packed, group[part], pilots, float(beta), spread, _part(counts, part))
        for total, added in zip(out, found, strict=True):
            total += added
    return out


def _support_counts(packed, group, n_groups, n_bits, counts):
    out = np.zeros((n_groups, n_bits), dtype=np.int64)
    for part in _blocks(len(packed), n_bits):
        order, starts, groups = _grouped(group[part])
        members = np.unpackbits(packed[part][order], axis=1, count=n_bits).astype(np.int64)
        if counts is not None:
            members *= counts[part][order, None]
        out[groups] += np.add.reduceat(members, starts)
    return out


def _likelihood_pass(packed, group, pilots, beta, spread, counts):
    out, a = _zeros(pilots), pilots.shape[1]
    totals = pilots.sum(axis=1)
    for part in _blocks(len(packed), a):
        order, starts, groups = _grouped(group[part])
        here = group[part][order]
        members = np.unpackbits(packed[part][order], axis=1, count=a).astype(float)
        weight = np.ones(len(here)) if counts is None else counts[part][order]
        centre = totals[here] + beta * np.einsum("jx,jx->j", members, pilots[here])
        first, second = 1 / centre, 1 / centre**2
        if spread is not None:
            first, second = expected(centre, beta, np.einsum("jx,jx->j", members, spread[here]), spread.sum(axis=1)[here])
        first, second = weight * first, weight * second
        third = second * (a + beta * members.sum(axis=1))
        out.value[groups] += np.add.reduceat(weight * np.log(centre), starts)
        for total, r, scale in (
            (out.gradient, first, beta),
            (out.square, second, beta * (2 + beta)),
            (out.cross, third, beta),
        ):
            total[groups] += np.add.reduceat(r, starts)[:, None]
            total[groups] += scale * np.add.reduceat(members * r[:, None], starts)
    return out


def expected(centre, beta, held, total):
    """Return (E[1/u], E[1/u²]) over a Gaussian u about ``centre`` with the variance that a spread of p gives it.

    For independent p_x of variances v_x given their sum, u = 1 + β p(S) has variance β² v(S) (1 − v(S)/Σv).

    Parameters
    ----------
    centre : (m,) array
        u at the pilot.
    beta : float
    held : (m,) array
        v(S), the variances summed over the support.
    total : (m,) array
        Σ v.

    Returns
    -------
    tuple of two (m,) arrays
    """
    share = np.divide(held, total, out=np.zeros_like(held), where=total > 0)
    noise = beta * np.sqrt(np.maximum(held * (1 - share), 0.0))
    mean, square = np.zeros_like(centre), np.zeros_like(centre)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        inverse = 1 / np.maximum(centre + noise * node, FLOOR * centre)
        mean += weight * inverse
        square += weight * inverse**2
    return mean, square


def _blocks(n, n_categories):
    size = max(1, _BLOCK // n_categories)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _grouped(group):
    """Return (order of reports by group, where each group starts, the groups present)."""
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    return order, starts, groups


def _part(counts, part):
    return None if counts is None else counts[part]


def _zeros(pilots):
    return Sums(np.zeros(len(pilots)), *(np.zeros(pilots.shape) for _ in range(3)))


def _checked(packed, group, n_groups, n_bytes, counts, dtype):
    packed = np.ascontiguousarray(packed)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != n_bytes:
        raise ArgumentError(f"packed must be (m, {n_bytes}) bytes (uint8), got {packed.dtype} of shape {packed.shape}.")
    return packed, *_checked_groups(group, n_groups, len(packed), counts, dtype)


def _checked_pairs(seeds, values, group, n_groups, counts, dtype):
    seeds, values = np.asarray(seeds), np.asarray(values)
    if seeds.ndim != 1 or values.shape != seeds.shape:
        raise ArgumentError(f"seeds and values must have one entry a report, got shapes {seeds.shape} and {values.shape}.")
    return seeds, values, *_checked_groups(group, n_groups, len(seeds), counts, dtype)


def _checked_groups(group, n_groups, n_reports, counts, dtype):
    group = np.asarray(group)
    if group.shape != (n_reports,) or not np.issubdtype(group.dtype, np.integer):
        raise ArgumentError(f"group must hold one whole number a report ({n_reports}), got {group.dtype} of {group.shape}.")
    if n_reports and not (group.min() >= 0 and group.max() < n_groups):
        raise ArgumentError(f"group must be from 0 to {n_groups - 1}, got {group.min()} to {group.max()}.")
    if counts is not None:
        counts = np.ascontiguousarray(counts, dtype=dtype)
        if counts.shape != (n_reports,):
            raise ArgumentError(f"counts must have one entry a report ({n_reports}), got shape {counts.shape}.")
    return group, counts


def _checked_pilots(pilots, spread):
    pilots = np.ascontiguousarray(pilots, dtype=float)
    if pilots.ndim != 2:
        raise ArgumentError(f"pilots must have one row a group and one column a category, got shape {pilots.shape}.")
    if spread is not None:
        spread = np.asarray(spread, dtype=float)
        if spread.shape not in (pilots.shape, pilots.shape[1:]):
            raise ArgumentError(f"spread must have the shape of pilots or of one of them, got {spread.shape}.")
        spread = np.ascontiguousarray(np.broadcast_to(spread, pilots.shape)) if spread.any() else None
    return pilots, spread
