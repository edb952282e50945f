"""Hash families that send categories to buckets, vectorized and the same on every platform.

Arithmetic is modulo 2^64 (our family) or 2^32 (xxHash) on NumPy's unsigned integers, so a seed means the same everywhere.
"""

import hashlib
import math

import numpy as np

from ldpbayes import checks
from ldpbayes.arrays import as_words, blocks
from ldpbayes.constants import HASHED_TOGETHER, MAX_BUCKETS, MAX_SEED, MAX_TABLE
from ldpbayes.errors import ArgumentError, shown

#: "ldpbayes" is ours; "xxhash" is xxh32(str(category), seed) mod g, what pure-ldp and multi-freq-ldpy collect with.
FAMILIES = ("ldpbayes", "xxhash")


#: Time: Entries up to which supports are hashed in NumPy, which takes less time than loading the compiled kernel.
SMALL = 2**18

#: Time: Users below which public seeds are drawn one by one.
FEW = 2**13

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_XX_PRIMES = [np.array([p], dtype=np.uint32) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393)]


def mix64(words):
    """Return a bijective scrambling of 64-bit words (the finalizer of SplitMix64; Steele, Lea, Flood 2014)."""
    words = np.array(words, dtype=np.uint64, ndmin=1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    return words


def derive(seed, *indices):
    """Return 64-bit seeds for (seed, index, …), broadcast over the indices: one independent-looking stream each."""
    words = mix64(np.uint64(seed) ^ _GOLDEN)
    for index in indices:
        words = mix64(words + np.atleast_1d(np.asarray(index, dtype=np.uint64) + np.uint64(1)) * _GOLDEN)
    return words


def category_keys(categories):
    """Return distinct keys below 2^32 of category numbers (below 2^32): the bijective finalizer of MurmurHash3.

    Neighbouring categories get unrelated keys, so that no small linear relation between them survives in the hash.
    """
    words = np.array(categories, dtype=np.uint32, ndmin=1)
    words ^= words >> np.uint32(16)
    words *= np.uint32(0x85EBCA6B)
    words ^= words >> np.uint32(13)
    words *= np.uint32(0xC2B2AE35)
    words ^= words >> np.uint32(16)
    return words.astype(np.uint64)


def label_keys(labels):
    """Return 64-bit keys of strings: the first eight bytes, little-endian, of BLAKE2b of their UTF-8 text."""
    try:
        digests = b"".join(hashlib.blake2b(label.encode(), digest_size=8).digest() for label in labels)
    except UnicodeEncodeError as err:
        raise ArgumentError(f"labels must be Unicode text, got half of a surrogate pair: {err.object!r}.") from err
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def md5_positions(labels, cohorts, hashes, n_bits):
    """Return the bits that strings set in the filters of google/rappor, shape (C, h, number of strings).

    Bit i is byte i of MD5 of the cohort, in four bytes, the highest first, and the UTF-8 text, modulo the number of bits.

    References
    ----------
    https://github.com/google/rappor, client/python/rappor.py.
    """
    digests = [
        hashlib.md5(cohort.to_bytes(4, "big") + label.encode(), usedforsecurity=False).digest()
        for cohort in range(cohorts)
        for label in labels
    ]
    bits = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(cohorts, len(labels), 16)[:, :, :hashes]
    return bits.transpose(0, 2, 1).astype(np.int64) % n_bits


def key_buckets(seeds, keys, n_buckets):
    """Return ⌊g·h/2^32⌋ with h the 32 high bits of A·low(key) + A'·high(key) + B mod 2^64; seeds and keys broadcast.

    (A, A', B) are three successive SplitMix64 outputs of the seed. For uniform coefficients the 32 high bits are exactly
    uniform and pairwise independent over the keys (multiply-shift, Dietzfelbinger 1996), so a bucket's share is within
    g/2^32 of 1/g (relative) and two keys meet with probability 1/g·(1 + δ), 0 ≤ δ ≤ (g/2^32)².

    Parameters
    ----------
    seeds : int array
        Public seeds.
    keys : uint64 array
        Keys of the categories.
    n_buckets : int
        Number of buckets g.

    Returns
    -------
    int64 array
        Buckets from 0 to g − 1, of the broadcast shape.
    """
    keys = np.asarray(keys, dtype=np.uint64)
    if keys.max(initial=0) <= _LOW:  # category numbers: A' is not asked for
        first, offset = _coefficients(seeds, (1, 3))
        high = first * keys
    else:
        first, second, offset = _coefficients(seeds)
        high = first * (keys & _LOW) + second * (keys >> _HALF)
    high += offset
    high >>= _HALF
    return ((high * np.uint64(n_buckets)) >> _HALF).astype(np.int64)


def draw_seeds(size, rng):
    """Return uniform seeds below MAX_SEED, int64: for many, the upper bits of whole words, which are drawn fastest.

    Few are drawn as in version 0.1.0, so that its random seeds keep their reports.
    """
    if size < FEW:
        return rng.integers(MAX_SEED, size=size)
    words = rng.integers(2**64, size=size, dtype=np.uint64)
    words >>= np.uint64(1)
    return words.view(np.int64)


def buckets(family, seeds, categories, n_buckets):
    """Return the bucket of categories[i] under seeds[i], int64 (the two broadcast).

    Parameters
    ----------
    family : {"ldpbayes", "xxhash"}
        Hash family.
    seeds : int array
        Public seeds.
    categories : int array
    n_buckets : int
        Number of buckets g.

    Returns
    -------
    int64 array
        Buckets from 0 to g − 1, of the broadcast shape.
    """
    if family == "ldpbayes":
        seeds, categories = np.asarray(seeds), np.asarray(categories)
        if seeds.ndim != 1 or seeds.shape != categories.shape:
            return key_buckets(seeds, category_keys(categories.ravel()).reshape(categories.shape), n_buckets)
        out = np.empty(seeds.size, dtype=np.int64)
        for part in blocks(out.size, 4, HASHED_TOGETHER):
            out[part] = key_buckets(seeds[part], category_keys(categories[part]), n_buckets)
        return out
    seeds, categories = np.broadcast_arrays(seeds, categories)
    out = np.empty(seeds.shape, dtype=np.int64)
    flat, flat_seeds, flat_categories = out.reshape(-1), _low_seeds(seeds).ravel(), categories.ravel()
    for length, low, high in _digit_groups(int(flat_categories.max(initial=0)) + 1):
        here = np.flatnonzero((flat_categories >= low) & (flat_categories < high))
        flat[here] = _xxh32(flat_seeds[here], _digits(flat_categories[here], length)) % np.uint32(n_buckets)
    return out


def bucket_of_one(family, seed, value, n_categories, n_buckets):
    """Return the bucket of one category under a seed, as an int.

    xxHash reads the decimal digits of a category: one category of every length is hashed besides, so that the work does not
    depend on how many the value has.
    """
    others = 10 ** np.arange(len(str(n_categories - 1)))
    return int(buckets(family, np.array([seed]), np.append(value, others), n_buckets)[0])


def supports(family, seeds, values, n_categories, n_buckets):
    """Return the packed supports {x : bucket of x under seeds[j] is values[j]}, shape (m, ⌈a/8⌉).

    One pass of a few integer operations per entry, in blocks: memory is that of the result.

    Parameters
    ----------
    family : {"ldpbayes", "xxhash"}
        Hash family.
    seeds : (m,) int array
        Public seeds.
    values : (m,) int array
        Reported buckets.
    n_categories : int
        Number of categories, a ≥ 2.
    n_buckets : int
        Number of buckets g.

    Returns
    -------
    (m, ⌈a/8⌉) uint8 array
        Packed as in ``bits``.
    """
    if family == "ldpbayes" and len(seeds) * n_categories > SMALL:
        words = support_words(family, seeds, values, n_categories, n_buckets).astype("<u8", copy=False).view(np.uint8)
        n_bytes = -(-n_categories // 8)
        return words if words.shape[1] == n_bytes else np.ascontiguousarray(words[:, :n_bytes])
    if family == "ldpbayes":
        hashed = key_buckets(np.asarray(seeds)[:, None], category_keys(np.arange(n_categories)), n_buckets)
        return np.packbits(hashed == np.asarray(values)[:, None], axis=1)
    out = np.empty((len(seeds), -(-n_categories // 8)), dtype=np.uint8)
    members = _xx_members(seeds, values, n_categories, n_buckets)
    for part in blocks(len(seeds), n_categories, HASHED_TOGETHER):
        out[part] = np.packbits(members(part), axis=1)
    return out


def support_words(family, seeds, values, n_categories, n_buckets):
    """Return supports() in 64-bit words, padded with zeros, shape (m, ⌈a/64⌉): byte b of a report is bits 8b to 8b + 7.

    Our family is compiled: the hash of 64 categories and their comparison with the bucket make one word.
    """
    out = np.zeros((len(seeds), -(-n_categories // 64)), dtype=np.uint64)
    if family == "ldpbayes":
        from ldpbayes import _hash_kernels

        seeds, values = (np.ascontiguousarray(column).astype(np.uint64) for column in (seeds, values))
        keys = category_keys(np.arange(n_categories))
        _hash_kernels.multiply_shift_words(seeds, values, keys, np.uint64(n_buckets), out)
    else:
        out = as_words(supports(family, seeds, values, n_categories, n_buckets))
    return out


def permutations(seed, count, size):
    """Return ``count`` permutations of range(size), shape (count, size).

    They are the ranks of hashed keys, so the result does not depend on NumPy's generator.

    Parameters
    ----------
    seed : int
        Part of the protocol, from 0 to 2^63 − 1.
    count : int
        Number of permutations.
    size : int
        Number of elements of each.

    Returns
    -------
    (count, size) int64 array
    """
    return derive(seed, np.arange(count)[:, None], np.arange(size)).argsort(axis=1, kind="stable").argsort(axis=1)


def check_buckets(value):
    """Return a number of buckets: an integer from 2 to MAX_BUCKETS."""
    return checks.integer(value, "buckets", 2, MAX_BUCKETS)


def check_cohorts(value):
    """Return a number of cohorts: an integer from 1 to MAX_BUCKETS."""
    return checks.integer(value, "cohorts", 1, MAX_BUCKETS)


def check_table(*sizes):
    """Refuse a table of buckets, with these numbers of cohorts, hashes and categories, that would take too much memory."""
    if math.prod(sizes) > MAX_TABLE:
        raise ArgumentError(
            f"cohorts times hashes times categories must be at most {MAX_TABLE}, got {' × '.join(map(str, sizes))}."
        )


def check_labels(value, n_categories):
    """Return candidate strings as a tuple of n_categories distinct ones."""
    rule = f"{n_categories} distinct strings, one per category"
    labels = () if value is None or isinstance(value, str) else checks.labels(value, "candidates", rule)
    if len(labels) != n_categories or len(set(labels)) != len(labels):
        raise ArgumentError(f"candidates must be {rule}, got {shown(value)}.")
    return labels


def _coefficients(seeds, which=(1, 2, 3)):
    """Return these of the SplitMix64 outputs of the seeds, in their shape."""
    seeds = np.asarray(seeds).astype(np.uint64)
    state = mix64(seeds.ravel() ^ _GOLDEN)
    return [mix64(state + np.uint64(i * int(_GOLDEN) % 2**64)).reshape(seeds.shape) for i in which]


def _xx_members(seeds, values, n_categories, n_buckets):
    seeds, values = _low_seeds(seeds), np.asarray(values).astype(np.uint32)
    groups = [_digits(np.arange(low, high), length) for length, low, high in _digit_groups(n_categories)]
    g = np.uint32(n_buckets)

    def members(part):
        hashed = np.concatenate([_xxh32(seeds[part, None], digits) for digits in groups], axis=1)
        hashed -= (hashed // g) * g  # NumPy divides by a scalar faster than it takes remainders
        return hashed == values[part, None]

    return members


def _xxh32(seeds, digits):
    """Return XXH32 (Collet) of ASCII strings shorter than 16 bytes; digits is a list of byte arrays, one per position."""
    p1, p2, p3, p4, p5 = _XX_PRIMES
    length = len(digits)
    state = seeds + (p5 + np.uint32(length))
    done = length - length % 4
    for i in range(0, done, 4):
        word = digits[i] | digits[i + 1] << np.uint32(8) | digits[i + 2] << np.uint32(16) | digits[i + 3] << np.uint32(24)
        state = _rotate(state + word * p3, 17) * p4
    for byte in digits[done:]:
        state = _rotate(state + byte * p5, 11) * p1
    for shift, prime in ((15, p2), (13, p3)):
        state ^= state >> np.uint32(shift)
        state *= prime
    state ^= state >> np.uint32(16)
    return state


def _rotate(words, bits):
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _digits(categories, length):
    """Return the ASCII digits of numbers that all have ``length`` of them, first digit first."""
    return [(categories // 10 ** (length - 1 - i) % 10 + 48).astype(np.uint32) for i in range(length)]


def _digit_groups(n_categories):
    """Yield (length, first, end) of the ranges of categories below n_categories with equally many digits."""
    length, low = 1, 0
    while low < n_categories:
        yield length, low, min(10**length, n_categories)
        length, low = length + 1, 10**length


def _low_seeds(seeds):
    """Return the 32 low bits of seeds: what xxHash's Python binding makes of a longer seed."""
    return (np.asarray(seeds).astype(np.uint64) & _LOW).astype(np.uint32)
