"""Numba kernels of local hashing: the categories that a seed hashes to the reported bucket, 64 at a time."""

import numpy as np

from ldpbayes.compiling import compiled

ONE = np.uint64(1)


@compiled(nogil=True)
def _mix(word):
    """Return hashing.mix64 of one word."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled(nogil=True)
def multiply_shift_words(seeds, values, keys, n_buckets, out):
    """Write the supports {x : multiply-shift hash of keys[x] is values[j]} of (seed, value) pairs, as words.

    The bucket is v where (A·key + B − first_v) mod 2^64 < width_v. Keys beyond the categories are not in ``keys``.

    Parameters
    ----------
    seeds, values : (m,) uint64 arrays
    keys : (a,) uint64 array
    n_buckets : uint64
    out : (m, ⌈a/64⌉) uint64 array
    """
    golden, half = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
    a = keys.size
    # Category x is bit 7 − x mod 8 of its byte: keys are put in the order of the bits.
    ordered = np.zeros(64 * out.shape[1], dtype=np.uint64)
    used = np.zeros(out.shape[1], dtype=np.uint64)
    for x in range(a):
        place = 8 * (x >> 3) + 7 - (x & 7)
        ordered[place] = keys[x]
        used[place >> 6] |= ONE << np.uint64(place & 63)
    for j in range(seeds.size):
        state = _mix(seeds[j] ^ golden)
        factor = _mix(state + golden)
        offset = _mix(state + golden + golden + golden)
        v = values[j]
        start = ((v << half) + n_buckets - ONE) // n_buckets
        stop = (((v + ONE) << half) + n_buckets - ONE) // n_buckets
        offset -= start << half
        width = (stop - start) << half
        for w in range(out.shape[1]):
            word = np.uint64(0)
            for k in range(64):
                inside = factor * ordered[64 * w + k] + offset < width
                word |= np.uint64(inside) << np.uint64(k)
            out[j, w] = word & used[w]
