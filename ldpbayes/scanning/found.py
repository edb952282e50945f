"""What a scan finds: cells with their reports counted, or with a summary of them, and samples of the reports."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.likelihoods import Summary
from ldpbayes.presenting import AbstractResult
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning import summary_files
from ldpbayes.scanning.monitor import OF_SUMS, Monitor
from ldpbayes.scanning.partials import ReportSample
from ldpbayes.sources.base import sorted_keys
from ldpbayes.sources.copies import REMEDY, copied, counted_twice
from ldpbayes.sources.keys import check_kinds, kinds_of
from ldpbayes.sources.parameters import channel_names


@dataclass(frozen=True, eq=False)
class ChannelCells:
    """What the cells of a scan have of one channel.

    Attributes
    ----------
    protocol : AbstractProtocol
        Which made the reports.
    cells : mapping of tuple to Collection or Summary
        By the key of a cell; of one channel each.
    samples : mapping of tuple to ReportSample
        Reports that were kept by chance, by the key of their cell.
    """

    protocol: AbstractProtocol
    cells: Mapping[tuple, Collection | Summary]
    samples: Mapping[tuple, ReportSample] = field(default_factory=dict)

    def checkable(self, key: tuple) -> Collection | Summary:
        """Return a cell, a summary with the sample of its reports, by which its error is predicted."""
        cell: Any = self.cells[key]
        sample = self.samples.get(key)
        if cell.keeps_reports or sample is None or not len(sample.keys):
            return cell
        return replace(cell, sample=self.protocol.rows(sample.reports, np.ones(len(sample.keys))), rate=sample.rate)

    def parts(self) -> Iterator[tuple[tuple, Collection | Summary, ReportSample | None]]:
        """Yield (key, cell, its sample) of every cell."""
        return ((key, cell, self.samples.get(key)) for key, cell in self.cells.items())

    @classmethod
    def of(cls, protocol: AbstractProtocol, parts: Iterable[tuple]) -> ChannelCells:
        """Return the cells of parts as ``parts`` yields them; those of a key are added up."""
        groups: dict[tuple, list[tuple]] = {}
        for key, *part in parts:
            groups.setdefault(key, []).append(tuple(part))
        columns = {key: tuple(zip(*members, strict=True)) for key, members in groups.items()}
        cells = {key: _sum_of(key, own) for key, (own, _) in columns.items()}
        return cls(protocol, cells, {key: _joined(own) for key, (_, own) in columns.items() if None not in own})


class Found(Cells, AbstractResult):
    """The cells of a scan, which ``fit`` takes as they are, with a page, a table and a file.

    Parameters
    ----------
    channels : sequence of ChannelCells
        A cell is the sum of what the channels have of it.
    by : sequence of str, optional
        Names of the grouping columns.
    categories : sequence of str
        Labels of the categories.
    notes : str
        What a reader should know, such as how many rows were left out.
    origins : iterable of str
        What tells the files that were read from others; see ``copies.origins_of``.

    Examples
    --------
    >>> import pyarrow
    >>> from ldpbayes.protocols.designs import warner
    >>> from ldpbayes.scanning import scan
    >>> table = pyarrow.table({"answer": ["yes", "no", "yes"], "country": ["NL", "NL", "BE"]})
    >>> found = scan(table, warner(0.7), report="answer", by="country", categories=["no", "yes"])
    >>> found
    <Found by country: 2 cells, 2 categories, 3 reports>
    >>> found["NL",].tallies[0].counts.tolist()
    [1, 1]
    """

    #: What the cells have of each channel.
    by_channel: tuple[ChannelCells, ...]
    #: Whether cells that hold the same reports are refused where scans are added, or added.
    copies = "refuse"
    #: What is known of the source; of sums of scans, what it would need.
    monitor = Monitor(needs=OF_SUMS)
    #: Where the states of the scans are kept until the cells are written.
    checkpoints: tuple = ()

    def __init__(
        self,
        channels: Sequence[ChannelCells],
        by: str | Sequence[str] | None = None,
        categories: Sequence[str] | None = None,
        *,
        id: str = "cells",
        title: str = "",
        notes: str = "",
        origins: Iterable[str] = (),
    ) -> None:
        self.by_channel, self._noted, self.origins = tuple(channels), notes, frozenset(origins)
        parts: dict[tuple, list] = {}
        names = channel_names(self.protocols) if len(self.by_channel) > 1 else [""]
        for channel, name in zip(self.by_channel, names, strict=True):
            for key in channel.cells:
                parts.setdefault(key, []).append(_named(channel.checkable(key), name, notes))
        cells = {key: _sum_of(key, parts[key]) for key in sorted_keys(parts)}
        super().__init__(cells, by, None, categories, id=id, title=title)

    @property
    def notes(self) -> str:  # type: ignore[override]  # those of data are a text
        """What was left out while the reports were read, also where no cell keeps its reports."""
        return self._noted

    @property
    def protocols(self) -> tuple[AbstractProtocol, ...]:
        """The protocols that made the reports, one of each channel."""
        return tuple(channel.protocol for channel in self.by_channel)

    @property
    def protocol(self) -> AbstractProtocol:
        """The protocol of the first channel."""
        return self.protocols[0]

    @property
    def samples(self) -> Mapping[tuple, ReportSample]:
        """Reports of the first channel that were kept by chance, by the key of their cell."""
        return self.by_channel[0].samples

    def __add__(self, other: Cells) -> Found:
        """Return the cells of both scans, channel by channel: those with the same key are added, new ones are appended.

        Raises
        ------
        ArgumentError
            Where the summaries of a cell were expanded at different pilots, or both scans hold the same reports.
        """
        if not isinstance(other, Found):
            return NotImplemented
        if (self.by, self.categories) != (other.by, other.categories):
            raise ArgumentError("scans must have the same grouping columns and categories to be added.")
        twice = sorted(entry.partition(" ")[2] for entry in self.origins & other.origins)
        copies = "add" if "add" in (self.copies, other.copies) else "refuse"
        if twice and copies == "refuse":
            if not twice[-1]:  # of files with other names
                raise ArgumentError(f"two scans hold the same reports; {REMEDY}.")
            raise ArgumentError(
                f"two scans read the same files, such as {shown(twice[-1])}, whose reports would count twice; {REMEDY}."
            )
        kinds = [mine | theirs for mine, theirs in zip(kinds_of(self), kinds_of(other), strict=True)]
        check_kinds(kinds if self.by else (), self.by)
        pairs = [(self[key], other[key]) for key in self if key in other]
        if copies == "refuse" and pairs and counted_twice(pairs):
            raise ArgumentError(f"two scans hold the same reports; {REMEDY}.")
        merged: list[ChannelCells] = []
        for channel in (*self.by_channel, *other.by_channel):
            place = next((i for i, before in enumerate(merged) if before.protocol == channel.protocol), len(merged))
            before = [] if place == len(merged) else merged[place].parts()
            merged[place:] = [ChannelCells.of(channel.protocol, (*before, *channel.parts())), *merged[place + 1 :]]
        notes = "\n".join(dict.fromkeys(filter(None, (self.notes, other.notes))))
        return self._of(merged, self.by, notes, copies, other)

    def __radd__(self, other: int) -> Found:
        """Return the cells themselves where ``sum`` adds them to zero."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def added(self, by: str | Sequence[str] = ()) -> Found:
        """Return the cells added up over all grouping columns but these: the days of each country, say.

        Parameters
        ----------
        by : str or sequence of str
            Columns that stay; none of them adds up all cells.

        Returns
        -------
        Found

        Raises
        ------
        ArgumentError
            On a column that the scan was not grouped by, or where summaries that meet have different pilots.
        """
        kept = list(checks.columns(by, "by") or ())
        unknown = [name for name in kept if name not in self.by]
        if unknown:
            raise ArgumentError(f"by must name grouping columns of the scan ({listed(self.by)}), got {shown(unknown[0])}.")
        at = [self.by.index(name) for name in kept]
        keys = {key: tuple(key[i] for i in at) or ("all",) for key in self}
        groups: dict[tuple, list] = {}
        for key, name in keys.items():
            groups.setdefault(name, []).append(self[key])
        for name, cells in groups.items():
            if self.copies == "refuse" and copied(cells):
                raise ArgumentError(f"cell {', '.join(map(str, name))} joins cells that hold the same reports; {REMEDY}.")
        channels = [
            ChannelCells.of(channel.protocol, ((keys[key], *part) for key, *part in channel.parts()))
            for channel in self.by_channel
        ]
        return self._of(channels, kept or None, self.notes, self.copies)

    def _of(
        self, channels: Sequence[ChannelCells], by: Sequence[str] | None, notes: str, copies: str, other: Found | None = None
    ) -> Found:
        """Return other cells of this scan, or of both."""
        scans = [scan for scan in (self, other) if scan is not None]
        origins = frozenset().union(*(scan.origins for scan in scans))
        out = Found(channels, by, self.categories, id=self.id, title=self.title, notes=notes, origins=origins)
        out.copies, out.checkpoints = copies, tuple(itertools.chain.from_iterable(scan.checkpoints for scan in scans))
        return out


def _named(cell, name, notes):
    """Return a cell of one channel whose tally has the name of the channel, with what a reader should know."""
    if not (cell.keeps_reports and (name or notes)):
        return cell
    (tally,) = cell.tallies
    if name:
        tally = Tally.trusted(tally.protocol, tally.reports, tally.counts, name, tally.categories)
    return replace(cell, tallies=(tally,), notes=notes)


def _sum_of(key, cells):
    """Return the sum of cells, which all keep their reports or are summaries at one pilot."""
    if len(cells) == 1:
        return cells[0]
    name = ", ".join(map(str, key))
    if len({cell.keeps_reports for cell in cells}) > 1:
        raise ArgumentError(
            f"cell {name} joins cells whose reports were kept with cells that are summaries: scan them together, with "
            "pilot_by the columns that stay."
        )
    try:
        return sum(cells)
    except ArgumentError as err:
        if cells[0].keeps_reports:
            raise
        raise ArgumentError(
            f"cell {name} joins summaries that were expanded at different pilots: scan with pilot_by the columns that stay, "
            "or expand all cells again at one pilot, scanning.Scan(...).again(pilot)."
        ) from err


def of_file(path: Any, copies: str = "refuse") -> Cells:
    """Return the cells of a file of summaries: Found, or Cells where it states no protocol; ``copies`` as for ``read``."""
    stored = summary_files.read(path)
    if stored.protocols[0] is None:
        return Cells(stored.cells[0], stored.by, categories=stored.categories)
    channels = [ChannelCells(*own) for own in zip(stored.protocols, stored.cells, stored.samples, strict=True)]
    found = Found(channels, stored.by, stored.categories, notes=stored.notes, origins=stored.origins)
    found.copies = copies
    return found


def of_files(data: Any, copies: str = "refuse") -> Cells | None:
    """Return the cells of files of summaries, those of the same key added up; None where the files are others.

    Parameters
    ----------
    data : path, list of paths or folder
    copies : {"refuse", "count"}
    """
    paths = summary_files.paths_of(data)
    if not paths:
        return None
    total = of_file(paths[0], copies)
    for path in paths[1:]:
        try:
            total = total + of_file(path, copies)
        except ArgumentError as err:
            raise ArgumentError(f"{path} does not add to the files before it: {err}") from err
    return total


def _joined(samples):
    """Return one sample of several cells; it may hold as many reports as the largest of them."""
    most = max(len(sample.keys) for sample in samples) if any(sample.level for sample in samples) else 2**62
    return functools.reduce(lambda sample, other: sample.joined(other, max(most, 1)), samples)
