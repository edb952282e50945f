"""What a scan finds: cells with their reports counted, or with a summary of them, and samples of the reports."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.presenting import AbstractResult
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning import summary_files
from ldpbayes.scanning.partials import ReportSample
from ldpbayes.sources.base import sorted_keys
from ldpbayes.sources.copies import REMEDY, copied, counted_twice
from ldpbayes.sources.keys import check_kinds, kinds_of


class Found(Cells, AbstractResult):
    """The cells of a scan, which ``fit`` takes as they are, with a page, a table and a file.

    Parameters
    ----------
    cells : mapping of key to Collection or Summary
    by : sequence of str, optional
        Names of the grouping columns.
    covariates : mapping of str to sequence, optional
        As in ``Cells``.
    categories : sequence of str
        Labels of the categories.
    protocol : AbstractProtocol
    samples : mapping of tuple to ReportSample, optional
        Reports that were kept by chance, by the key of their cell.
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
    >>> found = scan(table, warner(0.7), "answer", by="country", categories=["no", "yes"])()
    >>> found
    <Found by country: 2 cells, 2 categories, 3 reports>
    >>> found["NL",].tallies[0].counts.tolist()
    [1, 1]
    """

    #: What was left out while the reports were read, also where no cell keeps its reports.
    notes = ""
    #: Whether cells that hold the same reports are refused where scans are added, or added.
    copies = "refuse"
    #: Where the state of the scan is kept until the cells are written.
    checkpoint: Any = None

    def __init__(
        self,
        cells: Mapping,
        by: str | Sequence[str] | None = None,
        covariates: Mapping | None = None,
        categories: Sequence[str] | None = None,
        *,
        protocol: AbstractProtocol,
        samples: Mapping[tuple, ReportSample] | None = None,
        id: str = "cells",
        title: str = "",
        notes: str = "",
        origins: Iterable[str] = (),
    ) -> None:
        self.protocol, self.notes, self.origins = protocol, notes, frozenset(origins)
        self.samples = dict(samples or {})
        cells = {key: self._checkable(key, cell) for key, cell in cells.items()}
        super().__init__(cells, by, covariates, categories, id=id, title=title)

    def _checkable(self, key: Any, cell: Any) -> Any:
        """Return a summary with the sample of its reports, by which its error is predicted; other cells as they are."""
        sample = self.samples.get(key)
        if isinstance(cell, Collection) and self.notes:
            return replace(cell, notes=self.notes)
        if sample is None or isinstance(cell, Collection) or not len(sample.keys):
            return cell
        return replace(cell, sample=self.protocol.rows(sample.reports, np.ones(len(sample.keys))), rate=sample.rate)

    def __add__(self, other: Cells) -> Found:
        """Return the cells of both scans: those with the same key are added, new ones are appended.

        Raises
        ------
        ArgumentError
            Where the protocols differ, or the summaries of a cell were expanded at different pilots.
        """
        if not isinstance(other, Found):
            return NotImplemented
        if self.protocol != other.protocol:
            mine, theirs = shown(self.protocol), shown(other.protocol)
            raise ArgumentError(
                f"scans of two protocols, {mine} and {theirs}, do not add up; fit those of each by themselves."
            )
        if (self.by, self.categories) != (other.by, other.categories):
            raise ArgumentError("scans must have the same protocol, grouping columns and categories to be added.")
        twice = sorted(entry.partition(" ")[2] for entry in self.origins & other.origins)
        if twice and "add" not in (self.copies, other.copies):
            raise ArgumentError(
                f"two scans read the same files, such as {shown(twice[0])}, whose reports would count twice; {REMEDY}."
            )
        kinds = [mine | theirs for mine, theirs in zip(kinds_of(self), kinds_of(other), strict=True)]
        check_kinds(kinds if self.by else (), self.by)
        groups: dict[tuple, list] = {}
        for cells in (self, other):
            for key, cell in cells.items():
                groups.setdefault(key, []).append((cell, cells.samples.get(key)))
        pairs = [(members[0][0], members[1][0]) for members in groups.values() if len(members) > 1]
        if "add" not in (self.copies, other.copies) and pairs and counted_twice(pairs):
            raise ArgumentError(f"two scans hold the same reports; {REMEDY}.")
        return self._added_up(groups, self.by, "\n".join(dict.fromkeys(filter(None, (self.notes, other.notes)))), other)

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
        groups: dict[tuple, list] = {}
        for key, cell in self.items():
            groups.setdefault(tuple(key[i] for i in at) or ("all",), []).append((cell, self.samples.get(key)))
        return self._added_up({key: groups[key] for key in sorted_keys(groups)}, kept or None, self.notes)

    def _added_up(
        self, groups: Mapping[tuple, list], by: Sequence[str] | None, notes: str, other: Found | None = None
    ) -> Found:
        """Return the cells of groups of pairs of a cell and its sample or None, each group added up."""
        scans = [scan for scan in (self, other) if scan is not None]
        copies = "add" if any(scan.copies == "add" for scan in scans) else "refuse"
        cells: dict[tuple, Any] = {}
        samples: dict[tuple, ReportSample] = {}
        for key, members in groups.items():
            summaries, of_reports = zip(*members, strict=True)
            name = ", ".join(map(str, key))
            if len({isinstance(cell, Collection) for cell in summaries}) > 1:
                raise ArgumentError(
                    f"cell {name} joins cells whose reports were kept with cells that are summaries: scan them together, "
                    "with pilot_by the columns that stay."
                )
            if copies == "refuse" and copied(summaries):
                raise ArgumentError(f"cell {name} joins cells that hold the same reports; {REMEDY}.")
            try:
                cells[key] = sum(summaries)
            except ArgumentError as err:
                if isinstance(summaries[0], Collection):
                    raise
                raise ArgumentError(
                    f"cell {name} joins summaries that were expanded at different pilots: scan with pilot_by the columns "
                    "that stay, or expand all cells again at one pilot, scan.again(pilot)."
                ) from err
            if all(sample is not None for sample in of_reports):
                samples[key] = _joined(of_reports)
        facts: dict[str, Any] = {"protocol": self.protocol, "id": self.id, "title": self.title, "notes": notes}
        origins = frozenset().union(*(scan.origins for scan in scans))
        added = Found(cells, by, None, self.categories, samples=samples, origins=origins, **facts)
        added.copies = copies
        return added


def of_file(path: Any, copies: str = "refuse") -> Cells:
    """Return the cells of a file of summaries: Found, or Cells where it states no protocol; ``copies`` as for ``read``."""
    known = summary_files.read(path)
    if known["protocol"] is None:
        return Cells(known["cells"], known["by"], categories=known["categories"])
    found = Found(**known)
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
