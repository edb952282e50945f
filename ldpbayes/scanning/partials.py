"""Partial results of a scan: what a worker returns for a piece of the table, and what adds up."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes.arrays import groups_of
from ldpbayes.errors import DataError
from ldpbayes.protocols.formats import distinct
from ldpbayes.scanning.constants import CHOSEN, KEPT_BYTES, WAITING
from ldpbayes.sources.keys import as_json, from_json
from ldpbayes.sources.missing import added
from ldpbayes.sources.skipping import Skipped

#: Names of the arrays of kept reports.
_ROWS = ("group", "reports", "counts")
#: The sum of the sizes of reports, which checkpoints of earlier versions have not.
SIZES = "sizes"


@dataclass(frozen=True, eq=False)
class ReportSample:
    """Reports of one cell that were kept by chance: those whose random 64-bit key has ``level`` leading zeros.

    Every report of the cell is in the sample with probability 2^−level, independently of the others, and samples of
    different reports join into one of the higher level.

    Attributes
    ----------
    level : int
    keys : (m,) uint64 array
        Sorted.
    reports : (m, …) array
        Canonical reports, in the order of the keys.
    """

    level: int
    keys: np.ndarray
    reports: np.ndarray

    @property
    def rate(self) -> float:
        """The share of the cell's reports that are kept, 2^−level."""
        return 2.0**-self.level

    @classmethod
    def of(cls, level: int, keys: np.ndarray, reports: np.ndarray, most: int) -> ReportSample:
        """Return the sample of reports with these keys, at the least level from ``level`` on with at most ``most``."""
        while level < 64 and (keys < _bound(level)).sum() > most:
            level += 1
        inside = np.flatnonzero(keys < _bound(level)) if level else np.arange(len(keys))
        inside = inside[np.argsort(keys[inside], kind="stable")]
        return cls(level, keys[inside], reports[inside])

    def joined(self, other: ReportSample, most: int) -> ReportSample:
        """Return the sample of both sets of reports."""
        level = max(self.level, other.level)
        keys = np.concatenate([self.keys, other.keys])
        reports = stacked(self.reports, other.reports)
        return ReportSample.of(level, keys, reports, most)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReportSample):
            return NotImplemented
        same = self.level == other.level and np.array_equal(self.keys, other.keys)
        return same and np.array_equal(self.reports, other.reports)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Distinct reports that their content chose, at most ``CHOSEN``: those whose 64-bit key has ``level`` leading zeros.

    Attributes
    ----------
    level : int
    reports : (m, …) array
    counts : (m,) int64 array
        How often each came.
    """

    level: int
    reports: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, level: int, reports: np.ndarray, counts: np.ndarray | None = None) -> Chosen:
        """Return the reports that are chosen among some, at the least level from ``level`` on that chooses few enough."""
        flat = np.ascontiguousarray(reports).reshape(len(reports), -1)
        words = _words(flat) if flat.dtype == np.uint8 else flat.astype(np.uint64)
        odd, keys = 0x9E3779B97F4A7C15, np.full(len(words), 0x9E3779B97F4A7C15, dtype=np.uint64)
        for word in words.reshape(len(words), -1).T:
            keys += word * np.uint64(odd)
            odd = odd * 0xBF58476D1CE4E5B9 % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):  # Steele et al. (2014)
            keys ^= keys >> np.uint64(shift)
            keys *= np.uint64(factor)
        if counts is None:
            counts = np.ones(len(reports), dtype=np.int64)
        while True:
            inside = np.flatnonzero(keys < _bound(level)) if level else np.arange(len(keys))
            if len(inside) <= 4 * CHOSEN or level == 63:  # so many that merging them is cheap
                some, totals = distinct(reports[inside], counts[inside])
                if len(some) <= CHOSEN or level == 63:
                    return cls(level, some, totals)
            level += 1

    def joined(self, other: Chosen) -> Chosen:
        """Return the chosen reports of both."""
        both = np.concatenate([self.reports, other.reports]), np.concatenate([self.counts, other.counts])
        return Chosen.of(max(self.level, other.level), *both)


def _words(rows):
    """Return rows of bytes as 64-bit words."""
    if rows.shape[1] % 8:
        rows = np.pad(rows, [(0, 0), (0, -rows.shape[1] % 8)])
    return rows.view("<u8")


def _bound(level: int) -> np.uint64:
    return np.uint64(2**64 - 1 if level == 0 else 2 ** (64 - level))


def of_files(origins: Mapping) -> dict[tuple[str, tuple | None], np.ndarray]:
    """Return what came from each file, all cells together."""
    out: dict[tuple[str, tuple | None], np.ndarray] = {}
    for (name, _), part in origins.items():
        out[name, None] = out[name, None] + part if (name, None) in out else part
    return out


def joined(first: Mapping, second: Mapping) -> dict[tuple[str, tuple | None], np.ndarray]:
    """Return what came from each file and cell in two pieces; of all cells together, where the cells are very many."""
    if any(key is None for _, key in (*first, *second)):
        first, second = of_files(first), of_files(second)
    out = dict(first)
    for place, part in second.items():
        out[place] = out[place] + part if place in out else part
    return of_files(out) if sum(part.nbytes for part in out.values()) > KEPT_BYTES else out


@dataclass(frozen=True, eq=False)
class ChannelSums:
    """Sums, counts of distinct reports, reports that stay and samples of the cells of one channel.

    Sums of floating-point numbers are carried with their rounding errors, so that the total of the same pieces does not
    depend on the order in which they are added.

    Attributes
    ----------
    keys : tuple of tuple
        The cells.
    sums : mapping of str to (cells, …) array
        Whole numbers, or floating-point sums.
    errors : mapping of str to (cells, …) array
        What rounding took from each floating-point sum.
    rows : tuple of arrays
        Reports that are kept: the position of the cell in ``keys``, the canonical report, and how often it came; or empty.
    merged : bool
        Whether equal reports are merged as they add up.
    settled : int
        Kept reports after the last merge.
    samples : mapping of tuple to ReportSample
        By the key of the cell.
    most : int
        Largest size of a sample.
    origins : mapping of (str, tuple or None) to (1 + a,) int64 array
        By the file and the cell, the number of its reports, and how many support each category; None of all cells together.
    chosen : Chosen, optional
        Reports by whose counts duplicates are seen.
    """

    keys: tuple[tuple, ...]
    sums: Mapping[str, np.ndarray] = field(default_factory=dict)
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    rows: tuple[np.ndarray, ...] = ()
    merged: bool = True
    settled: int = 0
    samples: Mapping[tuple, ReportSample] = field(default_factory=dict)
    most: int = 0
    origins: Mapping[tuple[str, tuple | None], np.ndarray] = field(default_factory=dict)
    chosen: Chosen | None = None

    def __add__(self, other: ChannelSums) -> ChannelSums:
        """Return the sums of both."""
        places = {key: i for i, key in enumerate(self.keys)}
        moved = np.array([places.setdefault(key, len(places)) for key in other.keys], dtype=np.int64)
        most, samples = max(self.most, other.most), dict(self.samples)
        for key, sample in other.samples.items():
            samples[key] = samples[key].joined(sample, most) if key in samples else sample
        sums, errors = self._added(other, moved, len(places))
        rows, settled = self._joined(other, moved)
        origins = joined(self.origins, other.origins)
        chosen = self.chosen if other.chosen is None else other.chosen
        if self.chosen is not None and other.chosen is not None:
            chosen = self.chosen.joined(other.chosen)
        merged, keys = self.merged and other.merged, tuple(places)
        return ChannelSums(keys, sums, errors, rows, merged, settled, samples, most, origins, chosen)

    def _added(self, other, moved, n):
        """Return the sums of both pieces over n cells, and what rounding took from them."""
        names = set(self.sums or other.sums)
        if self.keys and other.keys and names != set(other.sums):
            names &= set(other.sums)
            if {*self.sums, *other.sums} - names != {SIZES}:
                raise DataError("partials of different passes do not add up; add those of one pass")
        sums, errors, mine = {}, {}, np.arange(len(self.keys))
        for name in sorted(names):
            one, two = _spread(self.sums, name, mine, n), _spread(other.sums, name, moved, n)
            sums[name] = total = one + two
            if total.dtype.kind == "f":
                virtual = total - one
                errors[name] = (one - (total - virtual)) + (two - virtual)
                errors[name] += _spread(self.errors, name, mine, n) + _spread(other.errors, name, moved, n)
        return sums, errors

    def _joined(self, other, moved):
        """Return the kept reports of both pieces, and how many there were after the last merge."""
        theirs = other.rows and (moved[other.rows[0]], *other.rows[1:])
        if not (self.rows and theirs):
            return self.rows or theirs, self.settled
        group, reports, counts = zip(self.rows, theirs, strict=True)
        rows = np.concatenate(group), stacked(*reports), np.concatenate(counts)
        if self.merged and other.merged and len(rows[0]) > 2 * self.settled + WAITING:
            rows = merge(*rows)
            return rows, len(rows[0])
        return rows, self.settled

    def settle(self) -> ChannelSums:
        """Return these sums with equal reports merged, where they are to be."""
        if not (self.rows and self.merged):
            return self
        rows = merge(*self.rows)
        return replace(self, rows=rows, settled=len(rows[0]))

    def total(self, name: str) -> np.ndarray:
        """Return a sum by its name, one entry per cell, with what rounding took from it."""
        return self.sums[name] + self.errors[name] if name in self.errors else self.sums[name]

    def rows_of(self) -> dict[tuple, tuple[np.ndarray, np.ndarray]]:
        """Return {key: (reports, counts)} of the reports that are kept."""
        if not self.rows:
            return {}
        group, reports, counts = self.rows
        return {self.keys[i]: (reports[rows], counts[rows]) for i, rows in groups_of(group)}

    def stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what ``restored`` takes: entries of JSON, and arrays."""
        arrays = {f"sum {name}": value for name, value in self.sums.items()}
        arrays |= {f"error {name}": value for name, value in self.errors.items()}
        arrays |= dict(zip(_ROWS, self.rows, strict=True)) if self.rows else {}
        samples = [(i, self.samples[key]) for i, key in enumerate(self.keys) if key in self.samples]
        for i, sample in samples:
            arrays |= {f"keys {i}": sample.keys, f"sample {i}": sample.reports}
        arrays |= {f"origin {i}": part for i, part in enumerate(self.origins.values())}
        if self.chosen is not None:
            arrays |= {"chosen": self.chosen.reports, "chosen counts": self.chosen.counts}
        header = {
            "origins": [[name, None if key is None else [*map(as_json, key)]] for name, key in self.origins],
            "chosen": None if self.chosen is None else self.chosen.level,
            "keys": [[as_json(part) for part in key] for key in self.keys],
            "levels": {str(i): sample.level for i, sample in samples},
            **{name: getattr(self, name) for name in ("merged", "most", "settled")},
        }
        return header, arrays

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ChannelSums:
        """Return the sums that ``stored`` gave."""
        keys = tuple(tuple(from_json(part) for part in key) for key in header["keys"])
        samples = {
            keys[int(i)]: ReportSample(level, arrays[f"keys {i}"], arrays[f"sample {i}"])
            for i, level in header["levels"].items()
        }
        sums, errors = (
            {name.removeprefix(kind): value for name, value in arrays.items() if name.startswith(kind)}
            for kind in ("sum ", "error ")
        )
        rows = tuple(arrays[name] for name in _ROWS) if "group" in arrays else ()
        facts = {name: header[name] for name in ("merged", "most", "settled")}
        origins = {
            (name, None if key is None else tuple(map(from_json, key))): arrays[f"origin {i}"]
            for i, (name, key) in enumerate(header["origins"])
        }
        level = header["chosen"]
        chosen = None if level is None else Chosen(level, arrays["chosen"], arrays["chosen counts"])
        return cls(keys, sums, errors, rows, samples=samples, origins=origins, chosen=chosen, **facts)


@dataclass(frozen=True, eq=False)
class Partial:
    """The sums of a piece of the table, by channel.

    Partials of different pieces add up, channel by channel: ``sum(partials)``.

    Attributes
    ----------
    channels : mapping of str to ChannelSums
        By the text of the protocol that made the reports; see ``parameters.protocol_text``.
    n_rows : int
        Reports that were read.
    kinds : tuple of frozenset
        What each grouping column holds; see ``sources.keys``.
    skipped : Skipped, optional
        Rows that were left out.
    missing : mapping
        From the keys of cells, as texts, to the number of answers that are missing there.
    """

    channels: Mapping[str, ChannelSums] = field(default_factory=dict)
    n_rows: int = 0
    kinds: tuple[frozenset[str], ...] = ()
    skipped: Skipped | None = None
    missing: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[tuple, ...]:
        """The cells of all channels."""
        return tuple(dict.fromkeys(key for sums in self.channels.values() for key in sums.keys))

    def __add__(self, other: Partial) -> Partial:
        """Return the partial of both pieces."""
        if not isinstance(other, Partial):
            return NotImplemented
        channels = dict(self.channels)
        for text, sums in other.channels.items():
            channels[text] = channels[text] + sums if text in channels else sums
        kinds = tuple(mine | theirs for mine, theirs in zip(self.kinds, other.kinds, strict=False))
        return Partial(
            channels,
            n_rows=self.n_rows + other.n_rows,
            kinds=kinds or self.kinds or other.kinds,
            skipped=other.skipped if self.skipped is None else self.skipped + other.skipped,
            missing=added(self.missing, other.missing),
        )

    def __radd__(self, other: int) -> Partial:
        """Let sum() start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def settle(self) -> Partial:
        """Return this partial with equal reports merged, where they are to be."""
        return replace(self, channels={text: sums.settle() for text, sums in self.channels.items()})

    def to_bytes(self) -> bytes:
        """Return this partial as bytes, to send between machines or to keep."""
        stored = [(text, *sums.stored()) for text, sums in self.channels.items()]
        arrays = {f"{i} {name}": array for i, (*_, own) in enumerate(stored) for name, array in own.items()}
        header = {
            "channels": [[text, entries] for text, entries, _ in stored],
            "rows": self.n_rows,
            "kinds": [sorted(kinds) for kinds in self.kinds],
            "skipped": self.skipped and vars(self.skipped),
            "missing": list(self.missing.items()),
        }
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        out = io.BytesIO()
        np.savez(out, **arrays)  # type: ignore[arg-type]  # its flag allow_pickle is no name of ours
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Partial:
        """Return the partial that ``to_bytes`` wrote.

        Raises
        ------
        DataError
            Where the bytes are something else.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as held:
                if any(entry.compress_type for entry in held.zip.infolist()):  # ``to_bytes`` compresses nothing
                    raise ValueError("compressed")
                arrays = {name: held[name] for name in held.files}
            header = json.loads(bytes(arrays.pop("header")))
            of_channel: list[dict[str, np.ndarray]] = [{} for _ in header["channels"]]
            for name, array in arrays.items():
                place, _, own = name.partition(" ")
                of_channel[int(place)][own] = array
            entries = zip(header["channels"], of_channel, strict=True)
            return cls(
                {text: ChannelSums.restored(stated, own) for (text, stated), own in entries},
                n_rows=header["rows"],
                kinds=tuple(map(frozenset, header["kinds"])),
                skipped=header["skipped"] and Skipped(**header["skipped"]),
                missing={tuple(key): n for key, n in header["missing"]},
            )
        except Exception as err:
            raise DataError("is not a partial result of a scan") from err


#: The partial result of no rows, to which all others add up.
NOTHING = Partial()


def stacked(*parts: np.ndarray) -> np.ndarray:
    """Return all reports of some arrays; histories of fewer reports than others have zeros at the end."""
    width = max(rows.shape[-1] for rows in parts)
    if parts[0].ndim == 2 and any(rows.shape[1] < width for rows in parts):
        parts = tuple(np.pad(rows, [(0, 0), (0, width - rows.shape[1])]) for rows in parts)
    return np.concatenate(parts)


def merge(group: np.ndarray, reports: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct (cell, report) pairs, sorted, and their total counts."""
    if not len(group):
        return group, reports, counts
    table = np.column_stack([group, reports.reshape(len(reports), -1).astype(np.int64)])
    table, counts = distinct(table, counts)
    return table[:, 0], table[:, 1:].reshape(-1, *reports.shape[1:]).astype(reports.dtype), counts


def _spread(sums, name, places, n):
    """Return sums over cells as sums over n cells, among which they stand at these places; 0 where there are none."""
    if name not in sums:
        return 0
    out = np.zeros((n, *sums[name].shape[1:]), dtype=sums[name].dtype)
    out[places] = sums[name]
    return out
