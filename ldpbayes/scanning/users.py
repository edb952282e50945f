"""Reports of users, each of whom may send several: they are put together on disk, and every user is one report, a history.

A pass before the others reads the source, checks every row, and writes canonical reports to partitions by a hash of the
user, so that all reports of a user are in one. Each partition is then read by itself: memory is that of a batch and of a
partition.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import hashing, rooms
from ldpbayes.arrays import groups_of
from ldpbayes.errors import DataError, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning.channel import Parsed
from ldpbayes.scanning.constants import PARTITIONS, ROWS_A_PARTITION
from ldpbayes.scanning.partials import stacked
from ldpbayes.sources.base import arrow_integers, arrow_kind, numpy_integers
from ldpbayes.sources.encode import column
from ldpbayes.sources.stream import Batch


def histories_of(protocol: AbstractProtocol) -> Any:
    """Return the protocol whose reports are histories of users, each of any number of reports unless it says how many."""
    design = protocol.repeats()
    if design is not None:
        return design
    report = protocol.privatize(np.zeros(1, dtype=np.int64), np.random.default_rng(0))
    law: Any = rooms.function(rooms.brought("USERS")["histories"])(protocol, protocol.check_reports(report), [0])[0]
    return replace(law, times=None)


def with_lengths(protocol: Any, histories: np.ndarray) -> Any:
    """Return a protocol of histories with the law of the lengths of some."""
    numbers, many = np.unique(protocol.lengths(histories), return_counts=True)
    law = numbers.tolist()[0] if len(numbers) == 1 else tuple(zip(numbers.tolist(), many.tolist(), strict=True))
    return replace(protocol, times=law)


class _File:
    """A file of reports of one form, which grows."""

    def __init__(self, path: pathlib.Path, like: np.ndarray, schema: Any) -> None:
        import pyarrow as pa

        self.path, self.dtype, self.shape = path, like.dtype, like.shape[1:]
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_stream(self._sink, schema)
        self.write = self._writer.write_table

    def close(self) -> None:
        """End the file."""
        self._writer.close()
        self._sink.close()


class Partitions:
    """Files of reports, each with all reports of some users.

    Parameters
    ----------
    fold : Fold
    folder : path
        Empty; the files are written there.
    n_rows : int, optional
        Of the source, where it is known.
    """

    def __init__(self, fold: Any, folder: pathlib.Path, n_rows: int | None) -> None:
        self.fold, self.folder = fold, folder
        self.size = PARTITIONS if n_rows is None else max(1, -(-n_rows // ROWS_A_PARTITION))
        self._files: dict[tuple[str, int], _File] = {}
        self._cells: dict[tuple, int] = {}
        self._kind: Any = None

    def split(self, text: str, batch: Batch) -> list[tuple[tuple[str, int], np.ndarray, Any]]:
        """Return the reports of a batch, all of one channel, by file: (its channel and partition, reports, table)."""
        import pyarrow as pa

        parsed = self.fold.channel(text).parsed(batch, self.fold.by)
        codes = np.array([self._cells.setdefault(key, len(self._cells)) for key in parsed.keys])[parsed.group]
        users, hashes = self._users(batch.table)
        data = np.ascontiguousarray(parsed.reports).reshape(len(codes), -1).view(np.uint8)
        out = []
        for place, rows in groups_of((hashes % np.uint64(self.size)).astype(np.int64)):
            own = pa.py_buffer(data[rows])
            reports = pa.FixedSizeBinaryArray.from_buffers(pa.binary(data.shape[1]), len(rows), [None, own])
            columns = {"user": users.take(arrow_integers(rows)), "cell": arrow_integers(codes[rows]), "report": reports}
            out.append(((text, place), parsed.reports, pa.table(columns)))
        return out

    def write(self, parts: list[tuple[tuple[str, int], np.ndarray, Any]]) -> int:
        """Write what ``split`` returned, and return the number of reports."""
        for place, like, table in parts:
            if place not in self._files:
                self._files[place] = _File(self.folder / f"{len(self._files)}.arrow", like, table.schema)
            self._files[place].write(table)
        return sum(len(table) for *_, table in parts)

    def _users(self, table: Any) -> tuple[Any, np.ndarray]:
        """Return the users of rows as an Arrow array, and a hash of each; those of all batches are of one kind."""
        import pyarrow as pa
        from pyarrow import compute

        name = self.fold.user
        array = column(table, name, why="has a row without a user")
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        whole = arrow_kind(array.type) == "whole numbers"
        array = array.cast(pa.int64()) if whole else compute.utf8_trim_whitespace(array.cast(pa.large_string()))
        self._kind = array.type if self._kind is None else self._kind
        if array.type != self._kind:
            raise DataError("must hold names of one kind, numbers or texts, got several", line=0, field=name)
        if whole:
            return array, hashing.mix64(numpy_integers(array).astype(np.uint64))
        coded = array.dictionary_encode()
        names = coded.dictionary.to_pylist()
        if "" in names:
            row = int(np.argmax(numpy_integers(coded.indices) == names.index("")))
            raise DataError("has a row without a user", line=row, field=name)
        return array, hashing.label_keys(names)[numpy_integers(coded.indices)]

    def pieces(self) -> list[Partition]:
        """Return the partitions, once all reports are written."""
        files: dict[int, dict[str, tuple]] = {}
        for (text, place), file in self._files.items():
            file.close()
            files.setdefault(place, {})[text] = file.path, file.dtype, file.shape
        cells = list(self._cells)
        return [Partition(place, files[place], cells) for place in sorted(files)]


@dataclass(frozen=True, eq=False)
class Partition:
    """All reports of some users.

    Attributes
    ----------
    place : int
    files : mapping of str to (path, dtype, shape)
        By the text of the protocol: where its reports stand, and the form of one.
    cells : list of tuple
        The keys of the cells.
    """

    place: int
    files: Mapping[str, tuple]
    cells: list[tuple]
    #: Reports of the source are counted where they are written.
    n_rows: int | None = None

    def identity(self) -> str:
        """Return what tells this partition from others."""
        return f"users {self.place}"

    def parsed(self, fold: Any) -> Iterator[tuple[str, Parsed]]:
        """Yield (text of the protocol, the histories of its users by cell).

        Raises
        ------
        DataError
            Where a user has reports of two protocols in a cell, or in two cells where a permanent answer ties them together,
            or his reports contradict each other.
        """
        seen: dict[Any, Any] = {}
        made = rooms.function(rooms.brought("USERS")["histories"])
        for text, (path, dtype, shape) in self.files.items():
            channel: Any = fold.channel(text)
            out: list[tuple] = []
            users, cells, reports = _read(path, dtype, shape)
            tied = channel.protocol.memoized
            for cell, rows in groups_of(cells):
                if tied or len(self.files) > 1:
                    self._check(users[rows].tolist(), text, cell, tied, seen, fold)
                try:
                    law, histories = made(channel.protocol, reports[rows], users[rows])
                except DataError as err:
                    raise DataError(err.message, field=fold.user) from None
                out.append((self.cells[cell], replace(law, times=None).check_reports(histories)))
            sizes = np.array([len(histories) for _, histories in out])
            joined = stacked(*(histories for _, histories in out))
            group = np.repeat(np.arange(len(out)), sizes)
            origin = f"{self.identity()} {text}"
            yield text, Parsed(tuple(key for key, _ in out), sizes, group, joined, origin, np.arange(len(joined)))

    def _check(self, users, text, cell, tied, seen, fold):
        """Refuse a user whose reports cannot be one history in each cell; ``seen`` keeps what users have there."""
        for who in dict.fromkeys(users):
            before, (place, bound) = seen.setdefault((who, cell), text), seen.setdefault(who, (cell, tied))
            if before != text:
                names = " and ".join(shown(fold.channel(own).form.protocol) for own in (before, text))
                raise DataError(
                    f"user {shown(who)} has reports of two protocols in one cell, {names}; group by a column that tells "
                    "them apart",
                    field=fold.user,
                )
            if place != cell and (tied or bound):
                first, other = (", ".join(map(str, self.cells[at])) for at in (place, cell))
                raise DataError(
                    f"user {shown(who)} has reports in two cells, {shown(first)} and {shown(other)}, which one permanent "
                    "answer ties together; group users, not reports",
                    field=fold.user,
                )


def _read(path, dtype, shape):
    """Return (users, cells, canonical reports) of a file of a partition."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_stream(source).read_all()
    users = table.column("user").combine_chunks()
    whole = arrow_kind(users.type) == "whole numbers"
    data = table.column("report").combine_chunks()
    data = data.chunk(0) if isinstance(data, pa.ChunkedArray) else data
    reports = np.frombuffer(data.buffers()[1], dtype=dtype, count=-1).reshape(-1, *shape)[: len(data)]
    names = numpy_integers(users) if whole else np.array(users.to_pylist(), dtype=object)
    return names, numpy_integers(table.column("cell").combine_chunks()), reports
