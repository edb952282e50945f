"""Sums over many reports at once, by group: support counts, and the likelihood's expansion at one pilot a group.

A pass reads reports in batches, and what it returns adds up over batches, files and machines. Rows are L = 1 + β[x ∈ S]
with supports S in packed bits (unary encoding, subset selection), or given by a public seed and a bucket (local hashing).
"""

from typing import Any

import numpy as np

from ldpbayes import hashing
from ldpbayes.arrays import FloatArray, IntArray
from ldpbayes.likelihoods.base import SMALL
from ldpbayes.likelihoods.constants import COUNTED, EXPANDED, SORTED
from ldpbayes.likelihoods.expansion import Sums
from ldpbayes.likelihoods.two_level import SupportRows, expanded, grouped_pass, pass_kernels

#: Time: Groups up to which a pass over few entries is made in NumPy.
FEW_GROUPS = 256


class PackedSupports:
    """Supports that are given as packed bits.

    Parameters
    ----------
    bits : (m, ⌈a/8⌉) uint8 array
        As ``np.packbits(member, axis=1)`` gives them, padding zero.
    n_categories : int
        Number of categories, a.
    """

    def __init__(self, bits, n_categories):
        self._bits, self.n_categories = np.require(bits, requirements="C"), n_categories

    def packed(self, some):
        """Return packed bits of reports, by a slice or a mask."""
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
        starts = pass_kernels().sort_by(group, n_groups, _frozen(bits.view(unit)), words.view(unit))
        return _frozen(words), starts


class HashedSupports:
    """Supports {x : hash_seed(x) = value}.

    Parameters
    ----------
    seeds, values : (m,) int arrays
        The public seed and the reported bucket.
    n_categories, n_buckets : int
    family : {"ldpbayes", "xxhash"}
        Hash family.
    """

    def __init__(self, seeds, values, n_categories, n_buckets, family):
        self._seeds, self._values = seeds, values
        self.n_categories, self._n_buckets, self._family = n_categories, n_buckets, family

    def packed(self, some):
        """Return packed bits of reports, by a slice or a mask."""
        return hashing.supports(self._family, self._seeds[some], self._values[some], self.n_categories, self._n_buckets)

    def words(self, part, group, n_groups):
        """Return a slice of reports as 64-bit words sorted by group, and where each group starts."""
        pairs = np.stack([self._seeds[part], self._values[part]], axis=1).astype(np.uint64)
        starts = np.array([0, len(pairs)])
        if n_groups > 1:
            pairs, given = np.empty_like(pairs), pairs
            starts = pass_kernels().sort_by(group, n_groups, _frozen(given), pairs)
        return _frozen(hashing.support_words(self._family, *pairs.T, self.n_categories, self._n_buckets)), starts


def support_counts(supports: PackedSupports | HashedSupports, group: IntArray, n_groups: int) -> IntArray:
    """Return how many reports of each group have each category in their support.

    Parameters
    ----------
    supports : PackedSupports or HashedSupports
        Of m reports over a categories.
    group : (m,) int array
        Group of each report, from 0 to n_groups − 1.
    n_groups : int

    Returns
    -------
    (n_groups, a) int64 array
    """
    a = supports.n_categories
    out = np.zeros((n_groups, a), dtype=np.int64)
    if len(group) * a <= SMALL and n_groups <= FEW_GROUPS:
        for g in np.unique(group):
            out[g] = np.unpackbits(supports.packed(group == g), axis=1, count=a).sum(axis=0)
        return out
    for words, starts in _sorted(supports, group, n_groups, *COUNTED):
        counts = np.zeros((n_groups, 64 * words.shape[1]), dtype=np.int64)
        pass_kernels().grouped_bits(words, starts, counts)
        out += counts[:, :a]
    return out


def expansions(
    supports: PackedSupports | HashedSupports,
    group: IntArray,
    pilots: FloatArray,
    beta: float,
    spread: FloatArray | None = None,
) -> Sums:
    """Return the sums over each group's reports that expand its log-likelihood at its pilot.

    Parameters
    ----------
    supports : PackedSupports or HashedSupports
        Of m reports over a categories.
    group : (m,) int array
        Group of each report, from 0 to n_groups − 1.
    pilots : (n_groups, a) array
        One point on the simplex for each group.
    beta : float
        e^ε − 1.
    spread : (n_groups, a) array, optional
        Variances of p about the pilot over which the expectations are taken.

    Returns
    -------
    Sums
    """
    n_groups, a = pilots.shape
    if len(group) * a <= SMALL and n_groups <= FEW_GROUPS:
        out: Any = Sums(np.zeros(n_groups), *np.zeros((3, n_groups, a)))  # arrays of all groups
        for g in np.unique(group):
            bits = supports.packed(group == g)
            rows = SupportRows(bits, beta, np.ones(len(bits)), a)
            for total, term in zip(out, rows.expansion(pilots[g], None if spread is None else spread[g]), strict=True):
                total[g] = term
        return out
    sums, totals = np.zeros((n_groups, 4)), np.zeros((n_groups, 3, a))
    for words, starts in _sorted(supports, group, n_groups, *EXPANDED):
        more, further = grouped_pass(words, starts, pilots, beta, spread)
        sums, totals = sums + more, totals + further
    return expanded(sums, totals, beta)


def _sorted(supports, group, n_groups, chunk, reports_a_group):
    """Yield (words of a block of reports sorted by group, where each group starts)."""
    group, a = np.ascontiguousarray(group, dtype=np.int64), supports.n_categories
    size = max(1, min(max(chunk // a, reports_a_group * n_groups), SORTED // a))
    for start in range(0, len(group), size):
        part = slice(start, min(start + size, len(group)))
        yield supports.words(part, group[part], n_groups)


def _frozen(words):
    """Return a read-only view in the machine's order: the kernels are compiled for one kind of array, ours and foreign."""
    out = words.astype(words.dtype.newbyteorder("="), copy=False).view()
    out.setflags(write=False)
    return out
