"""Numba kernel that tells whether all rows of bytes are distinct, by a table of their hashes, without sorting them."""

import numpy as np

from ldpbayes.compiling import compiled

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@compiled(nogil=True)
def _word(rows, j, at):
    """Return eight bytes of a row as a number."""
    return (
        np.uint64(rows[j, at])
        | np.uint64(rows[j, at + 1]) << np.uint64(8)
        | np.uint64(rows[j, at + 2]) << np.uint64(16)
        | np.uint64(rows[j, at + 3]) << np.uint64(24)
        | np.uint64(rows[j, at + 4]) << np.uint64(32)
        | np.uint64(rows[j, at + 5]) << np.uint64(40)
        | np.uint64(rows[j, at + 6]) << np.uint64(48)
        | np.uint64(rows[j, at + 7]) << np.uint64(56)
    )


@compiled(nogil=True)
def all_distinct(rows, table):
    """Return whether no two rows are equal.

    Parameters
    ----------
    rows : (m, b) uint8 array, contiguous
    table : (k,) uint64 array
        Zeros; k is a power of two above m, and m below 2^32. A place holds one more than the number of a row in its lower
        half and the upper half of its hash. Rows are compared in full where these agree.
    """
    m, b = rows.shape
    mask = np.uint64(table.size - 1)
    low, high = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)
    for j in range(m):
        found = np.uint64(b)
        if b < 8:
            for i in range(b):
                found = (found ^ np.uint64(rows[j, i])) * _FACTOR
        else:
            at = 0
            while at + 8 <= b:
                found = (found ^ _word(rows, j, at)) * _FACTOR
                found ^= found >> _SHIFT
                at += 8
            if at < b:
                found = (found ^ _word(rows, j, b - 8)) * _FACTOR
        found ^= found >> _SHIFT
        found *= _FACTOR
        found ^= found >> np.uint64(32)
        place = found & mask
        tag = found & high
        while table[place] != 0:
            if table[place] & high == tag:
                other = np.int64((table[place] & low) - np.uint64(1))
                same = True
                for i in range(b):
                    if rows[j, i] != rows[other, i]:
                        same = False
                        break
                if same:
                    return False
            place = (place + np.uint64(1)) & mask
        table[place] = tag | np.uint64(j + 1)
    return True
