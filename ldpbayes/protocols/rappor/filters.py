"""Bloom filters: which bits each category sets in each cohort."""

import numpy as np

from ldpbayes import checks, hashing
from ldpbayes.errors import ArgumentError, DataError, shown


def label_positions(labels, seed, cohorts, hashes, n_bits):
    """Return the bits that strings set, shape (C, h, number of strings); a bit may stand twice.

    Parameters
    ----------
    labels : sequence of str
        The strings.
    seed : int
        Seed of the hash functions.
    cohorts : int
        Number of cohorts C.
    hashes : int
        Hash functions per filter, h.
    n_bits : int
        Bits per filter, k.

    Returns
    -------
    (C, h, a) int array
    """
    seeds = hashing.derive(seed, np.arange(cohorts)[:, None], np.arange(hashes))
    return hashing.key_buckets(seeds[:, :, None], hashing.label_keys(labels), n_bits)


def stated_positions(positions, cohorts, hashes):
    """Return an explicit map as an array (C, h, a), filled up with −1.

    Parameters
    ----------
    positions : nested sequence of int
        Bits by category, cohort and hash.
    cohorts : int
        Number of cohorts C.
    hashes : int
        Hash functions per filter, h.

    Returns
    -------
    (C, h, a) int array
    """
    table = np.full((cohorts, hashes, len(positions)), -1)
    for x, cells in enumerate(positions):
        for c, cell in enumerate(cells):
            table[c, : len(cell), x] = cell
    return table


def map_positions(lines, n_bits, cohorts):
    """Return the positions of a map as RAPPOR's own tools write it; see Rappor.from_map.

    Parameters
    ----------
    lines : sequence of (candidate, indices)
    n_bits : int
        Bits per filter, k.
    cohorts : int
        Number of cohorts C.

    Returns
    -------
    list
        Bits by candidate and cohort, counted from zero.

    Raises
    ------
    DataError
        If an index is outside 1 … C k.
    """
    positions = []
    rule = "pairs of a candidate and its indices"
    for line in checks.entries(lines, "lines", rule):
        if not isinstance(line, (tuple, list)) or len(line) != 2:
            raise ArgumentError(f"lines must be {rule}, got {shown(line)}.")
        candidate, indices = line
        cells = [[] for _ in range(cohorts)]
        for index in checks.entries(indices, "indices", rule):
            index = checks.integer(index, "indices")
            if not 1 <= index <= cohorts * n_bits:
                raise DataError(f"index {index} of candidate {candidate!r} is outside 1..{cohorts * n_bits}")
            cells[(index - 1) // n_bits].append((index - 1) % n_bits)
        positions.append(cells)
    return positions


def check_positions(positions, n_categories, cohorts, n_bits, hashes):
    """Return an explicit map, nested or as texts "0 5;2 7" (cohorts by semicolons), as nested tuples.

    Parameters
    ----------
    positions : nested sequence of int, or sequence of str
    n_categories : int
        Number of categories, a ≥ 2.
    cohorts : int
        Number of cohorts C.
    n_bits : int
        Bits per filter, k.
    hashes : int
        Hash functions per filter, h.

    Returns
    -------
    nested tuples of int
        Bits by category, cohort and hash.

    Raises
    ------
    ArgumentError
        If the map is malformed or a bit is out of range.
    """
    try:
        lists = [
            [cell.split() for cell in cells.split(";")] if isinstance(cells, str) else cells for cells in positions or ()
        ]
        out = tuple(tuple(tuple(int(b) for b in cell) for cell in cells) for cells in lists)
    except (TypeError, ValueError) as err:
        raise ArgumentError(f"positions must be nested lists of whole numbers or texts such as '0 5;2 7': {err}.") from err
    if len(out) != n_categories or any(len(cells) != cohorts for cells in out):
        raise ArgumentError(f"positions must be lists of bits for {n_categories} categories in {cohorts} cohorts each.")
    for x, cells in enumerate(out):
        for c, cell in enumerate(cells):
            if not 1 <= len(cell) <= hashes or not all(0 <= b < n_bits for b in cell):
                raise ArgumentError(
                    f"positions must list 1 to {hashes} bits from 0 to {n_bits - 1}, "
                    f"got {list(cell)} for category {x}, cohort {c}."
                )
    return out


def without_repeats(table):
    """Return the table with −1 in place of a bit that an earlier hash of the same filter set."""
    table = np.array(table)
    for j in range(1, table.shape[1]):
        table[:, j][(table[:, :j] == table[:, j : j + 1]).any(axis=1)] = -1
    return table
