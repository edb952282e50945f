"""Partial results of a scan: what a worker returns for a piece of the table, and what adds up."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes.errors import DataError
from ldpbayes.protocols.formats import distinct
from ldpbayes.sources.keys import as_json, from_json
from ldpbayes.sources.missing import added
from ldpbayes.sources.skipping import Skipped

#: Rows of a table of counts that wait before they are merged.
_WAITING = 2**16


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
        reports = np.concatenate([self.reports, other.reports])
        return ReportSample.of(level, keys, reports, most)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReportSample):
            return NotImplemented
        same = self.level == other.level and np.array_equal(self.keys, other.keys)
        return same and np.array_equal(self.reports, other.reports)

    def __hash__(self) -> int:
        return hash((self.level, self.keys.tobytes()))


def _bound(level: int) -> np.uint64:
    return np.uint64(2**64 - 1 if level == 0 else 2 ** (64 - level))


@dataclass(frozen=True, eq=False)
class Partial:
    """Sums, counts of distinct reports, kept reports and samples of the cells that a piece of the table has.

    Partials of different pieces add up: ``sum(partials)``. Sums of floating-point numbers are carried with their rounding
    errors, so that the total of the same pieces does not depend on the order in which they are added.

    Attributes
    ----------
    keys : tuple of tuple
        The cells.
    sums : mapping of str to (cells, …) array
        Whole numbers, or floating-point sums.
    errors : mapping of str to (cells, …) array
        What rounding took from each floating-point sum.
    group, reports, counts : arrays
        Reports that are kept: the position of the cell in ``keys``, the canonical report, and how often it came.
    merged : bool
        Whether equal reports are merged as partials add up.
    samples : mapping of int to ReportSample
        By the position of the cell.
    most : int
        Largest size of a sample.
    settled : int
        Kept reports after the last merge.
    n_rows : int
        Reports that were read.
    kinds : tuple of frozenset
        What each grouping column holds; see ``sources.keys``.
    skipped : Skipped, optional
        Rows that were left out.
    missing : mapping
        From the keys of cells, as texts, to the number of answers that are missing there.
    """

    keys: tuple[tuple, ...]
    sums: Mapping[str, np.ndarray] = field(default_factory=dict)
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    group: np.ndarray | None = None
    reports: np.ndarray | None = None
    counts: np.ndarray | None = None
    merged: bool = True
    samples: Mapping[int, ReportSample] = field(default_factory=dict)
    most: int = 0
    settled: int = 0
    n_rows: int = 0
    kinds: tuple[frozenset[str], ...] = ()
    skipped: Skipped | None = None
    missing: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def __add__(self, other: Partial) -> Partial:
        """Return the partial of both pieces."""
        if not isinstance(other, Partial):
            return NotImplemented
        places = {key: i for i, key in enumerate(self.keys)}
        moved = np.array([places.setdefault(key, len(places)) for key in other.keys], dtype=np.int64)
        sums, errors = self._added(other, moved, len(places))
        samples = dict(self.samples)
        for i, sample in other.samples.items():
            at = int(moved[i])
            samples[at] = samples[at].joined(sample, self.most) if at in samples else sample
        (group, reports, counts), settled = self._rows(other, moved)
        most = max(self.most, other.most)
        n_rows = self.n_rows + other.n_rows
        kinds = tuple(mine | theirs for mine, theirs in zip(self.kinds, other.kinds, strict=False))
        fields_of = group, reports, counts, self.merged and other.merged, samples, most, settled
        skipped = other.skipped if self.skipped is None else self.skipped + other.skipped
        missing = added(self.missing, other.missing)
        return Partial(tuple(places), sums, errors, *fields_of, n_rows, kinds or self.kinds or other.kinds, skipped, missing)

    def __radd__(self, other: int) -> Partial:
        """Let sum() start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _added(self, other, moved, n):
        sums, errors = {}, {}
        for name in dict.fromkeys([*self.sums, *other.sums]):
            mine, theirs = _spread(self.sums.get(name), None, n), _spread(other.sums.get(name), moved, n)
            mine = np.zeros_like(theirs) if mine is None and not self.keys else mine  # of no rows
            theirs = np.zeros_like(mine) if theirs is None and not other.keys else theirs
            if mine is None or theirs is None:
                raise DataError("partials of different passes do not add up; add those of one pass")
            total = mine + theirs
            sums[name] = total
            if total.dtype.kind == "f":
                virtual = total - mine
                lost = (mine - (total - virtual)) + (theirs - virtual)
                errors[name] = lost + sum(
                    part
                    for part in (_spread(self.errors.get(name), None, n), _spread(other.errors.get(name), moved, n))
                    if part is not None
                )
        return sums, errors

    def _rows(self, other, moved):
        if other.group is None or self.group is None:
            rows = (self.group, self.reports, self.counts)
            if other.group is not None:
                rows = (moved[other.group], other.reports, other.counts)
            return rows, self.settled
        rows = (
            np.concatenate([self.group, moved[other.group]]),
            np.concatenate([self.reports, other.reports]),
            np.concatenate([self.counts, other.counts]),
        )
        if self.merged and other.merged and len(rows[0]) > 2 * self.settled + _WAITING:
            rows = merge(*rows)
            return rows, len(rows[0])
        return rows, self.settled

    def settle(self) -> Partial:
        """Return this partial with equal reports merged, where they are to be."""
        if self.group is None or self.reports is None or self.counts is None or not self.merged:
            return self
        group, reports, counts = merge(self.group, self.reports, self.counts)
        return replace(self, group=group, reports=reports, counts=counts, settled=len(group))

    def total(self, name: str) -> np.ndarray:
        """Return a sum by its name, one entry per cell, with what rounding took from it."""
        return self.sums[name] + self.errors[name] if name in self.errors else self.sums[name]

    def to_bytes(self) -> bytes:
        """Return this partial as bytes, to send between machines or to keep."""
        arrays: dict[str, Any] = {f"sum {name}": value for name, value in self.sums.items()}
        arrays |= {f"error {name}": value for name, value in self.errors.items()}
        for name in ("group", "reports", "counts"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        for i, sample in self.samples.items():
            arrays |= {f"keys {i}": sample.keys, f"sample {i}": sample.reports}
        header = {
            "keys": [[as_json(part) for part in key] for key in self.keys],
            "levels": {str(i): sample.level for i, sample in self.samples.items()},
            "merged": self.merged,
            "most": self.most,
            "settled": self.settled,
            "rows": self.n_rows,
            "kinds": [sorted(kinds) for kinds in self.kinds],
            "skipped": self.skipped and vars(self.skipped),
            "missing": list(self.missing.items()),
        }
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        out = io.BytesIO()
        np.savez(out, **arrays)
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
                arrays = {name: held[name] for name in held.files}
            header = json.loads(bytes(arrays.pop("header")))
            samples = {
                int(i): ReportSample(level, arrays.pop(f"keys {i}"), arrays.pop(f"sample {i}"))
                for i, level in header["levels"].items()
            }
            return cls(
                tuple(tuple(from_json(part) for part in key) for key in header["keys"]),
                {name.removeprefix("sum "): value for name, value in arrays.items() if name.startswith("sum ")},
                {name.removeprefix("error "): value for name, value in arrays.items() if name.startswith("error ")},
                arrays.get("group"),
                arrays.get("reports"),
                arrays.get("counts"),
                header["merged"],
                samples,
                header["most"],
                header["settled"],
                header["rows"],
                tuple(map(frozenset, header["kinds"])),
                header["skipped"] and Skipped(**header["skipped"]),
                {tuple(key): n for key, n in header["missing"]},
            )
        except Exception as err:
            raise DataError("is not a partial result of a scan") from err


#: The partial result of no rows, to which all others add up.
NOTHING = Partial(())


def merge(group: np.ndarray, reports: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct (cell, report) pairs, sorted, and their total counts."""
    if not len(group):
        return group, reports, counts
    table = np.column_stack([group, reports.reshape(len(reports), -1).astype(np.int64)])
    table, counts = distinct(table, counts)
    return table[:, 0], table[:, 1:].reshape(-1, *reports.shape[1:]).astype(reports.dtype), counts


def _spread(values, moved, n):
    """Return sums over cells as sums over n cells, of which they are the first, or those at ``moved``."""
    if values is None:
        return None
    if moved is None and len(values) == n:
        return values
    out = np.zeros((n, *values.shape[1:]), dtype=values.dtype)
    np.add.at(out, slice(len(values)) if moved is None else moved, values)
    return out
