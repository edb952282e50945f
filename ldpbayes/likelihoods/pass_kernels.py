"""Numba kernels of the passes over reports: positional popcounts, and byte tables by group.

Supports are 64-bit words: byte b of a report is bits 8b to 8b + 7 of its words (the order of little-endian machines), and
category x is bit 7 − x mod 8 of byte ⌊x/8⌋. Imported by the first large pass, so that nothing else pays for loading numba.
"""

import math

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.likelihoods.constants import ROWS_IN_CACHE

BYTE = np.uint64(255)
ONE = np.uint64(1)
ONES = np.uint64(0x0101010101010101)


@compiled(nogil=True)
def sort_by(group, n_groups, rows, out):
    """Copy rows to the first columns of out by group, in their old order, and return where each group starts."""
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    for j in range(group.size):
        starts[group[j] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    place = starts[:-1].copy()
    for j in range(group.size):
        i = place[group[j]]
        place[group[j]] = i + 1
        for c in range(rows.shape[1]):
            out[i, c] = rows[j, c]
    return starts


@compiled(nogil=True)
def count_bits(rows, start, stop, out):
    """Add to out[x] how many of rows[start:stop] hold category x: every eighth bit of words is added up in bytes."""
    for first in range(start, stop, 255):  # a byte counts no further
        for w in range(rows.shape[1]):
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.uint64(0)
            for i in range(first, min(first + 255, stop)):
                word = rows[i, w]
                s0 += word & ONES
                s1 += (word >> np.uint64(1)) & ONES
                s2 += (word >> np.uint64(2)) & ONES
                s3 += (word >> np.uint64(3)) & ONES
                s4 += (word >> np.uint64(4)) & ONES
                s5 += (word >> np.uint64(5)) & ONES
                s6 += (word >> np.uint64(6)) & ONES
                s7 += (word >> np.uint64(7)) & ONES
            for k, sums in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
                for b in range(8):
                    out[64 * w + 8 * b + 7 - k] += np.int64((sums >> np.uint64(8 * b)) & BYTE)


@compiled(nogil=True)
def grouped_bits(rows, starts, out):
    """Add the bit counts of rows[starts[g]:starts[g + 1]] to out[g]."""
    for g in range(starts.size - 1):
        if starts[g + 1] > starts[g]:
            count_bits(rows, starts[g], starts[g + 1], out[g])


@compiled(nogil=True)
def fill_tables(p, scale, tables):
    """Write scale · Σ p over the members of every byte value to tables[c, value]; p has eight entries a byte."""
    for c in range(tables.shape[0]):
        table = tables[c]
        table[0] = 0.0
        for k in range(8):
            bit = 1 << k
            entry = scale * p[8 * c + 7 - k]
            for b in range(bit):
                table[bit + b] = table[b] + entry


@compiled(nogil=True, fastmath={"reassoc", "nsz"})
def fold(histogram, out):
    """Return in out[k] the total of histogram[b] over byte values b that hold member k; the histogram is used up."""
    half = 128
    for k in range(8):
        total = 0.0
        for b in range(half):
            total += histogram[half + b]
            histogram[b] += histogram[half + b]
        out[k] = total
        half //= 2


@compiled(nogil=True)
def _turn(rows, start, n, words):
    """Write rows[start:start + n] to words[:, :n], word by word: what follows reads them in the order of memory."""
    for w in range(rows.shape[1]):
        for i in range(n):
            words[w, i] = rows[start + i, w]


@compiled(nogil=True)
def _look_up_words(words, n, n_bytes, tables, out):
    """Write Σ_c tables[c, byte c of report i] to out[i] for i < n."""
    for i in range(n):
        out[i] = 0.0
    for w in range(len(words)):
        stop = min(8, n_bytes - 8 * w)
        table = tables[8 * w : 8 * w + stop].reshape(-1)
        for i in range(n):
            x, total = words[w, i], 0.0
            for c in range(stop):
                total += table[np.int64(x & BYTE) + 256 * c]
                x >>= np.uint64(8)
            out[i] += total


@compiled(nogil=True)
def _add_words(words, n, n_bytes, r, histograms):
    """Add r[i] to histograms[c, byte c of report i] for i < n."""
    for w in range(len(words)):
        stop = min(8, n_bytes - 8 * w)
        histogram = histograms[8 * w : 8 * w + stop].reshape(-1)
        for i in range(n):
            x, weight = words[w, i], r[i]
            for c in range(stop):
                histogram[np.int64(x & BYTE) + 256 * c] += weight
                x >>= np.uint64(8)


@compiled(nogil=True)
def look_up(rows, n_bytes, p):
    """Return p(S) of every row; p has eight entries a byte."""
    tables, out = np.empty((n_bytes, 256)), np.empty(rows.shape[0])
    words = np.empty((rows.shape[1], ROWS_IN_CACHE), dtype=np.uint64)
    fill_tables(p, 1.0, tables)
    for start in range(0, rows.shape[0], ROWS_IN_CACHE):
        n = min(ROWS_IN_CACHE, rows.shape[0] - start)
        _turn(rows, start, n, words)
        _look_up_words(words, n, n_bytes, tables, out[start : start + n])
    return out


@compiled(nogil=True)
def add_up(rows, n_bytes, r):
    """Return Σ_j r_j [x ∈ S_j], eight entries a byte: the transpose of look_up."""
    histograms, out = np.zeros((n_bytes, 256)), np.empty(8 * n_bytes)
    words = np.empty((rows.shape[1], ROWS_IN_CACHE), dtype=np.uint64)
    for start in range(0, rows.shape[0], ROWS_IN_CACHE):
        n = min(ROWS_IN_CACHE, rows.shape[0] - start)
        _turn(rows, start, n, words)
        _add_words(words, n, n_bytes, r[start : start + n], histograms)
    for c in range(n_bytes):
        fold(histograms[c], out[8 * c : 8 * c + 8])
    return out


@compiled(nogil=True)
def _log_sum(u, n):
    """Return Σ log u over u[:n], one logarithm for eight; u is at least 1 and at most e^50, or of that order."""
    total = 0.0
    whole = n // 8 * 8
    for i in range(0, whole, 8):
        total += math.log(((u[i] * u[i + 1]) * (u[i + 2] * u[i + 3])) * ((u[i + 4] * u[i + 5]) * (u[i + 6] * u[i + 7])))
    for i in range(whole, n):
        total += math.log(u[i])
    return total


@compiled(nogil=True)
def value_and_totals(rows, n_bytes, p, total, counts):
    """Return Σ w log u, Σ w/u and Σ_j (w/u)_j [x ∈ S_j], eight entries a byte, with u = total + p(S), in one reading."""
    tables, histograms, out = np.empty((n_bytes, 256)), np.zeros((n_bytes, 256)), np.empty(8 * n_bytes)
    words, u, value, ratios = np.empty((rows.shape[1], ROWS_IN_CACHE), dtype=np.uint64), np.empty(ROWS_IN_CACHE), 0.0, 0.0
    fill_tables(p, 1.0, tables)
    for start in range(0, rows.shape[0], ROWS_IN_CACHE):
        n = min(ROWS_IN_CACHE, rows.shape[0] - start)
        _turn(rows, start, n, words)
        _look_up_words(words, n, n_bytes, tables, u)
        for i in range(n):
            u[i] += total
        value += _log_sum(u, n)
        for i in range(n):
            w = counts[start + i]
            if w != 1.0:
                value += (w - 1.0) * math.log(u[i])
            u[i] = w / u[i]
            ratios += u[i]
        _add_words(words, n, n_bytes, u, histograms)
    for c in range(n_bytes):
        fold(histograms[c], out[8 * c : 8 * c + 8])
    return value, ratios, out


@compiled(nogil=True)
def _add_three(words, n, n_bytes, first, second, third, histograms):
    for w in range(len(words)):
        stop = min(8, n_bytes - 8 * w)
        histogram = histograms[8 * w : 8 * w + stop].reshape(-1)
        for i in range(n):
            x, r, s, t = words[w, i], first[i], second[i], third[i]
            for c in range(stop):
                b = 3 * (np.int64(x & BYTE) + 256 * c)
                histogram[b] += r
                histogram[b + 1] += s
                histogram[b + 2] += t
                x >>= np.uint64(8)


@compiled(nogil=True)
def _sizes(words, n, out):
    """Write the number of members of each report to out."""
    for i in range(n):
        out[i] = 0.0
    for w in range(len(words)):
        for i in range(n):
            x = words[w, i]
            x -= (x >> ONE) & np.uint64(0x5555555555555555)
            x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
            x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            out[i] += np.float64((x * ONES) >> np.uint64(56))


@compiled(nogil=True)
def _weigh(u, sd, total_spread, n, beta, nodes, weights, floor, first, second):
    """Write E[1/u] and E[1/u²] over the spread, or 1/u and 1/u² where it is zero."""
    if total_spread <= 0.0:
        for i in range(n):
            first[i] = 1.0 / u[i]
            second[i] = first[i] * first[i]
        return
    for i in range(n):
        first[i] = 0.0
        second[i] = 0.0
        sd[i] = beta * math.sqrt(max(sd[i] * (1.0 - sd[i] / total_spread), 0.0))
    for k in range(nodes.size):
        for i in range(n):
            inverse = 1.0 / max(u[i] + nodes[k] * sd[i], floor * u[i])
            first[i] += weights[k] * inverse
            second[i] += weights[k] * inverse * inverse


@compiled(nogil=True)
def _unfold(histogram, totals):
    """Add what bytes have in common, (n_bytes, 256), to the totals of their bits."""
    bits, row = np.empty(8), np.empty(256)
    for c in range(len(histogram)):
        for i in range(256):
            row[i] = histogram[c, i]
        fold(row, bits)
        for k in range(8):
            totals[8 * c + k] += bits[k]


@compiled(nogil=True)
def grouped_pass(rows, starts, n_bytes, n_categories, pilots, beta, spread, counts, nodes, weights, floor, sums, totals):
    """Add to sums[g] = (Σ w log u, Σ r₁, Σ r₂, Σ r₃) and totals[g, i, x] = Σ_j rᵢ_j [x ∈ S_j] over each group's reports.

    r₁ = w E[1/u], r₂ = w E[1/u²] and r₃ = r₂ (a + β|S|); u = Σp + β p(S) is looked up byte by byte in 256 partial sums of
    the group's pilot, and r goes to one of 256 totals a byte, which are unfolded at the end.

    Parameters
    ----------
    rows : (m, ⌈a/64⌉) uint64 array
        Sorted by group, as starts says.
    pilots : (n_groups, 8 n_bytes) array
        Padded with zeros.
    spread : (n_groups, 8 n_bytes) or (0, 0) array
        No row where there is none.
    counts : (m,) or (0,) array
        Empty where every count is one.
    """
    words = np.empty((rows.shape[1], ROWS_IN_CACHE), dtype=np.uint64)
    u, sd, size = np.empty(ROWS_IN_CACHE), np.zeros(ROWS_IN_CACHE), np.empty(ROWS_IN_CACHE)
    first, second, third = np.empty(ROWS_IN_CACHE), np.empty(ROWS_IN_CACHE), np.empty(ROWS_IN_CACHE)
    tables, tables_spread = np.empty((n_bytes, 256)), np.empty((n_bytes if spread.shape[0] else 0, 256))
    histograms = np.empty((n_bytes, 256, 3))
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        if begin == end:
            continue
        total_spread = spread[g].sum() if spread.shape[0] else 0.0
        total = pilots[g].sum()
        fill_tables(pilots[g], beta, tables)
        if total_spread > 0.0:
            fill_tables(spread[g], 1.0, tables_spread)
        histograms[:] = 0.0
        for start in range(begin, end, ROWS_IN_CACHE):
            n = min(ROWS_IN_CACHE, end - start)
            _turn(rows, start, n, words)
            _look_up_words(words, n, n_bytes, tables, u)
            if total_spread > 0.0:
                _look_up_words(words, n, n_bytes, tables_spread, sd)
            for i in range(n):
                u[i] += total
            _weigh(u, sd, total_spread, n, beta, nodes, weights, floor, first, second)
            if counts.size:
                for i in range(n):
                    w = counts[start + i]
                    sums[g, 0] += w * math.log(u[i])
                    first[i] *= w
                    second[i] *= w
            else:
                sums[g, 0] += _log_sum(u, n)
            _sizes(words, n, size)
            for i in range(n):
                third[i] = second[i] * (n_categories + beta * size[i])
                sums[g, 1] += first[i]
                sums[g, 2] += second[i]
                sums[g, 3] += third[i]
            _add_three(words, n, n_bytes, first, second, third, histograms)
        for i in range(3):
            _unfold(histograms[:, :, i], totals[g, i])
