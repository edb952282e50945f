"""Copies: files of reports, and cells of scans, that hold the same reports twice."""

import collections
import contextlib
import hashlib
import itertools
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ldpbayes import files
from ldpbayes.errors import DataError

#: Reports that agree with others by chance with less than this probability are a copy of them.
CHANCE = 1e-6
#: What sentences advise.
REMEDY = 'leave one of them out, or add both all the same with copies="add"'
#: Bytes that are compared first, and that tell a file from others at either end.
_BLOCK = 2**16


def is_copy(nats: float, n: int) -> bool:
    """Return whether some two of n that agree with the probability e^−nats by chance are copies.

    Parameters
    ----------
    nats : float
    n : int
    """
    return nats > math.log(max(n * (n - 1) / 2, 1) / CHANCE)


def check_files(sources: Sequence[Any]) -> None:
    """Refuse files with the same bytes, unless so few rows, or rows so much alike, agree by chance.

    Rows that are drawn like those of the file are the same in the same order with the probability Π (c/m)^c, c the count of
    each different row among m. Three rows that say "no" agree with three others, and twenty different ones do not.

    Parameters
    ----------
    sources : sequence of AbstractFile

    Raises
    ------
    DataError
    """
    by_path = {file.source: file for file in sources if file.source != files.STDIN}
    for same in _same_bytes(list(by_path)):
        if is_copy(_nats(by_path[same[0]]), len(by_path)):
            linked = os.path.samefile(*same[:2])
            says = f"is a hard link to {same[0]}" if linked else f"has the same bytes as {same[0]}"
            raise DataError(f"{says}, whose reports would count twice; {REMEDY}", source=same[1])


def _same_bytes(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield lists of files with the same bytes; those of one size are read as far as they agree."""
    by_size = collections.defaultdict(list)
    for path in paths:
        state = os.stat(path)
        if state.st_size and pathlib.Path(path).is_file():
            by_size[state.st_size].append(path)
    waiting = [(0, size, same) for size, same in by_size.items() if len(same) > 1]
    while waiting:
        start, size, same = waiting.pop()
        if start >= size:
            yield same
            continue
        step = _BLOCK if not start else 2**22
        parts = collections.defaultdict(list)
        for path in same:
            with files.open_input(path) as handle:
                handle.seek(start)
                parts[hashlib.blake2b(handle.read(step)).digest()].append(path)
        waiting += [(start + step, size, part) for part in parts.values() if len(part) > 1]


def _nats(file: Any) -> float:
    """Return −log Π (c/m)^c of the first rows of a file."""
    table: Any = None
    with contextlib.suppress(DataError):  # its reader says what is wrong
        names = file.schema().names
        table = next((table for piece in file.pieces() for table in piece.tables(names)), None)
    if table is None:
        return 0.0
    try:
        counts = table.group_by(table.column_names).aggregate([([], "count_all")]).column("count_all").to_numpy()
    except Exception:  # lists have no groups: reports that are sets differ
        counts = np.ones(table.num_rows)
    m = counts.sum()
    return float(-(counts * np.log(counts / max(m, 1))).sum())


def origins_of(paths: Iterable[str], columns: Sequence[str]) -> frozenset[str]:
    """Return what tells the files of a scan from others, also on another machine: "digest name" of each.

    The digest is of the file's name with the columns in names of folders, its size, its first and last bytes, and the
    columns of reports that were read.

    Parameters
    ----------
    paths : iterable of str
    columns : sequence of str
    """
    out = set()
    for path in paths:
        parts = pathlib.Path(path).parts
        name = "/".join([*(part for part in parts[:-1] if "=" in part), parts[-1]])
        size = os.stat(path).st_size
        digest = hashlib.blake2b("\0".join([name, str(size), *columns]).encode(errors="surrogateescape"), digest_size=12)
        with files.open_input(path) as handle:
            digest.update(handle.read(_BLOCK))
            handle.seek(max(size - _BLOCK, 0))
            digest.update(handle.read(_BLOCK))
        out.add(f"{digest.hexdigest()} {name}")
    return frozenset(out)


def counted_twice(pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether cells of two scans, their tallies for each key that both have, hold the same counts and not by chance.

    Parameters
    ----------
    pairs : sequence of (tuple of Tally, tuple of Tally)
    """
    return all(one == other for one, other in pairs) and is_copy(sum(_nats_of_counts(one) for one, _ in pairs), 2)


def copied(values: Sequence[float], kept: Sequence[Any]) -> bool:
    """Return whether two of some cells that are to be added hold the same reports, or sums over the same.

    Counts c of n reports agree by chance with the probability Π (4π c)^(−1/2) (4π n)^(1/2); sums over many reports do not.

    Parameters
    ----------
    values : sequence of float
        Log-likelihoods of summaries.
    kept : sequence of tuple of Tally
        Of cells that kept their reports.
    """
    alike = collections.defaultdict(list)
    for tallies in kept:
        alike[tuple((tally.n_reports, len(tally.counts)) for tally in tallies)].append(tallies)
    pairs = (pair for same in alike.values() for pair in itertools.combinations(same[:1000], 2))
    agree = any(one == other and is_copy(_nats_of_counts(one), len(kept)) for one, other in pairs)
    return agree or len(set(values)) < len(values)


def _nats_of_counts(tallies: Sequence[Any]) -> float:
    counts = [tally.counts[tally.counts > 0] for tally in tallies]
    return sum(float(np.log(4 * np.pi * c).sum() - np.log(4 * np.pi * max(c.sum(), 1))) / 2 for c in counts)
