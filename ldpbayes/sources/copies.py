"""Copies: files of reports, and cells of scans, that hold the same reports twice."""

import collections
import contextlib
import hashlib
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ldpbayes import files
from ldpbayes.errors import DataError
from ldpbayes.sources.base import sorted_keys
from ldpbayes.sources.constants import COMPARED

#: Rule: Reports that agree with others by chance with less than this probability are a copy of them.
CHANCE = 1e-6
#: What sentences advise.
REMEDY = 'leave one of them out, or add both all the same with copies="add"'


def is_copy(nats: float, n: int) -> bool:
    """Return whether some two of n that agree with the probability e^−nats by chance are copies.

    Parameters
    ----------
    nats : float
    n : int
    """
    return nats > math.log(max(n * (n - 1) / 2, 1) / CHANCE)


def check_files(sources: Sequence[Any], count: str | None = None) -> None:
    """Refuse files with the same bytes, unless so few rows, or rows so much alike, agree by chance.

    Rows that are drawn like those of the file are the same in the same order with the probability Π (c/m)^c, c the count of
    each different row among m; where they are sorted, or a table of counts, their counts are the same with that of
    ``_nats_of_counts``. Three rows that say "no" agree with three others, and twenty different ones do not.

    Parameters
    ----------
    sources : sequence of AbstractFile
    count : str, optional
        The column of counts.

    Raises
    ------
    DataError
    """
    by_path = {file.source: file for file in sources if file.source != files.STDIN}
    for same in _same_bytes(list(by_path)):
        if is_copy(_nats(by_path[same[0]], count), len(by_path)):
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
        step = COMPARED if not start else 2**22
        parts = collections.defaultdict(list)
        for path in same:
            with files.open_input(path) as handle:
                handle.seek(start)
                parts[hashlib.blake2b(handle.read(step)).digest()].append(path)
        waiting += [(start + step, size, part) for part in parts.values() if len(part) > 1]


def _nats(file: Any, count: str | None = None) -> float:
    """Return −log of the probability with which rows that are drawn like the first of a file are the same."""
    table: Any = None
    with contextlib.suppress(DataError):  # its reader says what is wrong
        names = file.schema().names
        table = next((table for piece in file.pieces() for table in piece.tables(names)), None)
    if table is None:
        return 0.0
    if count in table.column_names:
        counts = _numbers_of(table.column(count))
        return 0.0 if counts is None else _nats_of_counts(counts)
    try:
        columns = [column.combine_chunks() for column in table.columns if not _is_numbering(column)]
        codes = [column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False) for column in columns]
    except Exception:  # lists have no codes: reports that are sets differ
        codes = [np.arange(table.num_rows)]
    table_of_codes = np.column_stack([np.zeros(table.num_rows), *codes])
    _, rows, counts = np.unique(table_of_codes, axis=0, return_inverse=True, return_counts=True)
    m, n_runs = len(table_of_codes), 1 + np.count_nonzero(np.diff(rows.ravel()))
    if n_runs == len(counts) < m:  # sorted
        return _nats_of_counts(counts)
    return float(-(counts * np.log(counts / max(m, 1))).sum())


def _numbers_of(column: Any) -> Any:
    """Return the numbers of a column, of texts as well; None where it has others."""
    try:
        return np.nan_to_num(column.cast("float64").to_numpy())
    except Exception:
        return None


def _is_numbering(column: Any) -> bool:
    """Return whether a column numbers the rows, which says nothing about what they hold."""
    steps = np.diff([] if (numbers := _numbers_of(column)) is None else numbers)
    return len(steps) > 1 and steps[0] != 0 and bool((steps == steps[0]).all())


def origins_of(sources: Iterable[Any], columns: Sequence[str]) -> frozenset[str]:
    """Return what tells the files of a scan from others, also on another machine: "digest name" of each.

    The digest is of the file's name with the columns in names of folders, its size, its first and last bytes, and the
    columns of reports that were read. Files that agree with others by chance are left out.

    Parameters
    ----------
    sources : iterable of AbstractFile
    columns : sequence of str
    """
    out = set()
    for file in sources:
        path = file.source
        parts = pathlib.Path(path).parts
        name = "/".join([*(part for part in parts[:-1] if "=" in part), parts[-1]])
        size = os.stat(path).st_size
        if size < COMPARED and not is_copy(_nats(file), 2):
            continue
        digest = hashlib.blake2b("\0".join([name, str(size), *columns]).encode(errors="surrogateescape"), digest_size=12)
        with files.open_input(path) as handle:
            digest.update(handle.read(COMPARED))
            handle.seek(max(size - COMPARED, 0))
            digest.update(handle.read(COMPARED))
        out.add(f"{digest.hexdigest()} {name}")
    return frozenset(out)


def origin_of_cells(cells: Mapping[tuple, Any]) -> frozenset[str]:
    """Return what tells the cells of a scan from those of others, whatever its files are called, in the form of origins_of.

    A sum of scans keeps it of each of them. Cells that agree with others by chance have none.

    Parameters
    ----------
    cells : mapping of tuple to Collection or Summary
    """
    if not is_copy(sum(_nats_of_cell(cell) for cell in cells.values()), 2):
        return frozenset()
    held = [(list(map(str, key)), *_identity(cells[key])) for key in sorted_keys(cells)]
    return frozenset({f"{hashlib.blake2b(repr(held).encode(), digest_size=12).hexdigest()} "})


def check_counts(files: Mapping[str, np.ndarray]) -> None:
    """Refuse files that have as many reports of every kind, whatever the order of their rows, and not by chance.

    Parameters
    ----------
    files : mapping of str to (1 + a,) array
        By the name of the file, the number of its reports, and how many are, or support, each category.

    Raises
    ------
    DataError
    """
    seen: dict[bytes, str] = {}
    for name, part in files.items():
        other = seen.setdefault(part.tobytes(), name)
        if other is not name and is_copy(_nats_of_supports(part[1:], part[0]), len(files)):
            says = f"holds the reports of {other} in another order or form, which would count twice"
            raise DataError(f"{says}; {REMEDY}", source=name)


def counted_twice(pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether cells of two scans, those of each key that both have, hold the same reports, and not by chance.

    Parameters
    ----------
    pairs : sequence of (Collection or Summary, Collection or Summary)
    """
    same = all(_identity(one) == _identity(other) for one, other in pairs)
    return same and is_copy(sum(_nats_of_cell(one) for one, _ in pairs), 2)


def copied(cells: Sequence[Any]) -> bool:
    """Return whether two of some cells that are to be added hold the same reports, or sums over the same, and not by chance.

    Parameters
    ----------
    cells : sequence of Collection or Summary
    """
    seen = set()
    for cell in cells:
        identity = _identity(cell)
        if identity in seen and is_copy(_nats_of_cell(cell), len(cells)):
            return True
        seen.add(identity)
    return False


def _identity(cell: Any) -> tuple:
    """Return what two cells with the same reports share."""
    held = [array for tally in cell.tallies for array in (tally.reports, tally.counts)] if cell.keeps_reports else []
    digest = hashlib.blake2b()
    for array in held or [np.float64(cell.value), cell.supports if cell.supports is not None else cell.gradient]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return cell.n_reports, digest.digest()


def _nats_of_cell(cell: Any) -> float:
    """Return −log of the probability with which another cell has the same counts, or sums, which is at most that."""
    if cell.keeps_reports:
        return sum(_nats_of_counts(tally.counts) for tally in cell.tallies)
    if cell.supports is None:  # of an earlier version
        return 0.0
    return _nats_of_supports(cell.supports, cell.n_reports)


def _nats_of_supports(supports: Any, n: float) -> float:
    """Return −log of the probability with which n other reports support each category as often, where each does by itself.

    Of labels, which support one category each, it is that of ``_nats_of_counts``.
    """
    if supports.sum() == n:
        return _nats_of_counts(supports)
    return float(np.log(np.maximum(4 * np.pi * supports * (1 - supports / n), 1)).sum()) / 2


def _nats_of_counts(counts: Any) -> float:
    """Return −log Π (4π c)^(−1/2) (4π n)^(1/2), with which counts c of n reports agree by chance."""
    counts = counts[counts > 0]
    return float(np.log(4 * np.pi * counts).sum() - np.log(4 * np.pi * max(counts.sum(), 1))) / 2
