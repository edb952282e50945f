"""Sums over many reports at once, by group: support counts, and the likelihood's expansion at one pilot a group.

A pass reads reports in batches, and what it returns adds up over batches, files and machines. Rows are L = 1 + β[x ∈ S]
with supports S in packed bits (unary encoding, subset selection), or given by a public seed and a bucket (local hashing).
"""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks, hashing
from ldpbayes.arrays import IntArray
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods.expansion import FLOOR, NODES, WEIGHTS, Sums, expected_inverses

#: Entries up to which a pass is made in NumPy, which takes less time than loading the compiled kernels.
SMALL = 2**16
#: Entries of one unpacked block of the NumPy versions.
_BLOCK = 2**20
#: Most entries that the compiled kernels sort by group at a time.
_CHUNK = 2**28


def support_counts(
    packed: ArrayLike, group: ArrayLike, n_groups: int, n_bits: int, counts: ArrayLike | None = None, jobs: int = 1
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
    jobs : int, optional
        Number of threads.

    Returns
    -------
    (n_groups, a) int64 array

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    packed, group, counts = _checked(packed, group, n_groups, -(-n_bits // 8), counts, np.int64)
    return _in_threads(_Supports(_Packed(packed), n_bits), group, n_groups, counts, jobs)


def likelihood_pass(
    packed: ArrayLike,
    group: ArrayLike,
    pilots: ArrayLike,
    beta: float,
    spread: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    curvature: bool = True,
    jobs: int = 1,
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
    curvature : bool, optional
        Whether the sums for the curvature are taken too; without them a pass takes two thirds of the time.
    jobs : int, optional
        Number of threads.

    Returns
    -------
    Sums

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    points, variances = _checked_pilots(pilots, spread)
    packed, group, counts = _checked(packed, group, len(points), -(-points.shape[1] // 8), counts, float)
    work = _Expansion(_Packed(packed), points, float(beta), variances, curvature)
    return _in_threads(work, group, len(points), counts, jobs)


def hashed_support_counts(
    seeds: ArrayLike,
    values: ArrayLike,
    group: ArrayLike,
    n_groups: int,
    n_categories: int,
    n_buckets: int,
    family: str = "ldpbayes",
    counts: ArrayLike | None = None,
    jobs: int = 1,
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
    jobs : int, optional
        Number of threads.

    Returns
    -------
    (n_groups, n_categories) int64 array

    Raises
    ------
    ArgumentError
        Where a shape does not fit or a group is out of range.
    """
    seeds, values, group, counts = _checked_pairs(seeds, values, group, n_groups, counts, np.int64)
    source = _Hashed(seeds, values, n_categories, n_buckets, family)
    return _in_threads(_Supports(source, n_categories), group, n_groups, counts, jobs)


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
    curvature: bool = True,
    jobs: int = 1,
) -> Sums:
    """Return likelihood_pass of the supports {x : hash_seed(x) = value}.

    Parameters
    ----------
    seeds, values : (m,) int arrays
        The public seed and the reported bucket.
    group, pilots, beta, spread, counts, curvature, jobs
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
    points, variances = _checked_pilots(pilots, spread)
    n_groups, n_categories = points.shape
    seeds, values, group, counts = _checked_pairs(seeds, values, group, n_groups, counts, float)
    work = _Expansion(_Hashed(seeds, values, n_categories, n_buckets, family), points, float(beta), variances, curvature)
    return _in_threads(work, group, n_groups, counts, jobs)


class _Packed:
    """Supports that are given as packed bits."""

    def __init__(self, bits):
        self._bits = bits

    def packed(self, some):
        """Return packed bits of reports, by a slice or their numbers."""
        return self._bits[some]

    def words(self, part, group, n_groups):
        """Return a slice of reports as 64-bit words sorted by group, and where each group starts."""
        bits = self._bits[part]
        n_bytes = bits.shape[1]
        whole = n_bytes % 8 == 0
        if n_groups == 1 and whole:
            return _frozen(bits.view("<u8")), np.array([0, len(bits)])
        words = np.empty((len(bits), -(-n_bytes // 8)), dtype="<u8")
        words[:, -1] = 0
        unit = np.uint64 if whole else np.uint8
        starts = _kernels().sort_by(group, n_groups, _frozen(bits.view(unit)), words.view(unit))
        return _frozen(words), starts


class _Hashed:
    """Supports {x : hash_seed(x) = value}."""

    def __init__(self, seeds, values, n_categories, n_buckets, family):
        self._seeds, self._values = seeds, values
        self._n_categories, self._n_buckets, self._family = n_categories, n_buckets, family

    def packed(self, some):
        return hashing.supports(self._family, self._seeds[some], self._values[some], self._n_categories, self._n_buckets)

    def words(self, part, group, n_groups):
        pairs = np.stack([self._seeds[part], self._values[part]], axis=1).astype(np.uint64)
        starts = np.array([0, len(pairs)])
        if n_groups > 1:
            pairs, given = np.empty_like(pairs), pairs
            starts = _kernels().sort_by(group, n_groups, _frozen(given), pairs)
        return _frozen(hashing.support_words(self._family, *pairs.T, self._n_categories, self._n_buckets)), starts


class _Supports:
    """The pass that counts supports."""

    chunk, reports_a_group = 2**22, 64

    def __init__(self, source, n_categories):
        self._source, self.n_categories = source, n_categories

    def zeros(self, n_groups):
        return (np.zeros((n_groups, self.n_categories), dtype=np.int64),)

    def finish(self, totals):
        return totals[0]

    def small(self, part, group, counts, totals):
        order, starts, groups = _grouped(group)
        members = np.unpackbits(self._source.packed(part)[order], axis=1, count=self.n_categories).astype(np.int64)
        if counts is not None:
            members *= counts[order, None]
        totals[0][groups] += np.add.reduceat(members, starts)

    def large(self, part, group, counts, totals):
        words, starts = self._source.words(part, group, len(totals[0]))
        if counts is not None:
            # With u = 1 the pass sums the counts themselves: whole numbers below 2^53 stay exact in floating point.
            pilots = np.zeros((len(totals[0]), 8 * -(-self.n_categories // 8)))
            pilots[:, 0] = 1.0
            sums, held = np.zeros((len(pilots), 4)), np.zeros((len(pilots), 3, pilots.shape[1]))
            settings = pilots, 0.0, np.empty((0, 0)), _sorted(counts, group, len(pilots)), False
            _run_pass(words, starts, self.n_categories, *settings, sums, held)
            totals[0][:] += held[:, 0, : self.n_categories].astype(np.int64)
            return
        found = np.zeros((len(totals[0]), 64 * words.shape[1]), dtype=np.int64)
        _kernels().grouped_bits(words, starts, found)
        totals[0][:] += found[:, : self.n_categories]


class _Expansion:
    """The pass that expands the log-likelihood at the pilots."""

    chunk, reports_a_group = 2**25, 1024

    def __init__(self, source, pilots, beta, spread, curvature):
        self._source, self._pilots, self._beta, self._spread, self._curvature = source, pilots, beta, spread, curvature
        self.n_categories = pilots.shape[1]
        width = 8 * -(-self.n_categories // 8)
        self._padded = np.zeros((len(pilots), width))
        self._padded[:, : self.n_categories] = pilots
        self._padded_spread = np.zeros((0, 0) if spread is None else (len(pilots), width))
        if spread is not None:
            self._padded_spread[:, : self.n_categories] = spread

    def zeros(self, n_groups):
        """Return (Σ w log u, Σ r₁, Σ r₂, Σ r₃) and Σ_j r_j [x ∈ S_j] of these r, by group."""
        return np.zeros((n_groups, 4)), np.zeros((n_groups, 3, self._padded.shape[1]))

    def finish(self, totals):
        sums, held = totals[0], totals[1][:, :, : self.n_categories]
        scales = (self._beta, self._beta * (2 + self._beta), self._beta)
        return Sums(sums[:, 0], *(sums[:, i + 1, None] + scales[i] * held[:, i] for i in range(3)))

    def small(self, part, group, counts, totals):
        order, starts, groups = _grouped(group)
        here, beta = group[order], self._beta
        members = np.unpackbits(self._source.packed(part)[order], axis=1, count=self.n_categories).astype(float)
        weight = np.ones(len(here)) if counts is None else counts[order]
        centre = self._pilots.sum(axis=1)[here] + beta * np.einsum("jx,jx->j", members, self._pilots[here])
        first, second = 1 / centre, 1 / centre**2
        if self._spread is not None:
            held, total = np.einsum("jx,jx->j", members, self._spread[here]), self._spread.sum(axis=1)[here]
            share = np.divide(held, total, out=np.zeros_like(held), where=total > 0)
            # u = 1 + β p(S), and p(S) has variance v(S) (1 − v(S)/Σv) where the sum of p is known.
            first, second = expected_inverses(centre, beta * np.sqrt(np.maximum(held * (1 - share), 0.0)))
        first, second = weight * first, weight * second
        totals[0][groups, 0] += np.add.reduceat(weight * np.log(centre), starts)
        thirds = second * (self.n_categories + beta * members.sum(axis=1))
        for i, r in enumerate((first, second, thirds) if self._curvature else (first,)):
            totals[0][groups, i + 1] += np.add.reduceat(r, starts)
            totals[1][groups, i, : self.n_categories] += np.add.reduceat(members * r[:, None], starts)

    def large(self, part, group, counts, totals):
        words, starts = self._source.words(part, group, len(self._pilots))
        counts = np.empty(0) if counts is None else _sorted(counts, group, len(self._pilots))
        settings = self._padded, self._beta, self._padded_spread, counts, self._curvature
        _run_pass(words, starts, self.n_categories, *settings, *totals)


def _run_pass(words, starts, n_categories, pilots, beta, spread, counts, curvature, sums, totals):
    """Add to sums and totals with the compiled kernel."""
    _kernels().grouped_pass(
        words,
        starts,
        -(-n_categories // 8),
        n_categories,
        pilots,
        beta,
        spread,
        counts,
        curvature,
        NODES,
        WEIGHTS,
        FLOOR,
        sums,
        totals,
    )


def _sorted(counts, group, n_groups):
    """Return the counts by group as floats."""
    out = np.array(counts, dtype=float)
    if n_groups > 1:
        given = out.view(np.uint64)[:, None]
        out = np.empty_like(out)
        _kernels().sort_by(group, n_groups, _frozen(given), out.view(np.uint64)[:, None])
    return out


def _in_threads(work, group, n_groups, counts, jobs):
    """Return work's result over all reports: the sums of ``jobs`` parts, made at the same time."""
    jobs = checks.integer(jobs, "jobs", 1)
    edges = np.linspace(0, len(group), jobs + 1).astype(int)
    parts = [slice(start, stop) for start, stop in itertools.pairwise(edges) if stop > start]
    if len(parts) > 1:
        with ThreadPoolExecutor(jobs) as pool:
            found = list(pool.map(lambda part: _over(work, part, group, n_groups, counts), parts))
    else:
        found = [_over(work, part, group, n_groups, counts) for part in parts or [slice(0, 0)]]
    return work.finish(tuple(sum(pieces) for pieces in zip(*found, strict=True)))


def _over(work, whole, group, n_groups, counts):
    """Return the totals of one slice of the reports, in blocks."""
    totals, a = work.zeros(n_groups), work.n_categories
    small = (whole.stop - whole.start) * a <= SMALL
    # Reports of one chunk are sorted by group in the cache; tables are made for each of its groups.
    least = max(work.chunk // a, work.reports_a_group * n_groups)
    size = max(1, _BLOCK // a if small else min(least, _CHUNK // a))
    for start in range(whole.start, whole.stop, size):
        part = slice(start, min(start + size, whole.stop))
        make = work.small if small else work.large
        make(part, group[part], None if counts is None else counts[part], totals)
    return totals


def _grouped(group):
    """Return (order of reports by group, where each group starts, the groups present)."""
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    return order, starts, groups


def _frozen(words):
    """Return a read-only view in the machine's order: the kernels are compiled for one kind of array, ours and foreign."""
    out = words.astype(words.dtype.newbyteorder("="), copy=False).view()
    out.setflags(write=False)
    return out


def _kernels():
    """Return the compiled kernels, loaded by the first large pass."""
    from ldpbayes.likelihoods import pass_kernels

    return pass_kernels


def _checked(packed, group, n_groups, n_bytes, counts, dtype):
    packed = np.require(packed, requirements=["C", "A"])
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
    return np.ascontiguousarray(group, dtype=np.int64), counts


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
