"""What a scan finds: cells with their reports counted, or with a summary of them, and samples of the reports."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.presenting import AbstractResult
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.base import sorted_keys
from ldpbayes.sources.keys import check_kinds, kinds_of
from ldpbayes.sources.scanning import summary_files
from ldpbayes.sources.scanning.partials import ReportSample

#: Sums over so many reports are equal to the last digit where the reports are the same.
CERTAIN = 100


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

    Examples
    --------
    >>> import pyarrow
    >>> from ldpbayes.protocols.designs import warner
    >>> from ldpbayes.sources.scanning import scan
    >>> table = pyarrow.table({"answer": ["yes", "no", "yes"], "country": ["NL", "NL", "BE"]})
    >>> found = scan(table, warner(0.7), "answer", by="country", categories=["no", "yes"])()
    >>> found
    <Found by country: 2 cells, 2 categories, 3 reports>
    >>> found["NL",].tallies[0].counts.tolist()
    [1, 1]
    """

    #: What was left out while the reports were read, also where no cell keeps its reports.
    notes = ""

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
    ) -> None:
        self.protocol, self.notes = protocol, notes
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
        if (self.by, self.categories, self.protocol) != (other.by, other.categories, other.protocol):
            raise ArgumentError("scans must have the same protocol, grouping columns and categories to be added.")
        kinds = [mine | theirs for mine, theirs in zip(kinds_of(self), kinds_of(other), strict=True)]
        check_kinds(kinds if self.by else (), self.by)
        groups: dict[tuple, list] = {}
        for cells in (self, other):
            for key, cell in cells.items():
                groups.setdefault(key, []).append((cell, cells.samples.get(key)))
        return self._added_up(groups, self.by, "\n".join(dict.fromkeys(filter(None, (self.notes, other.notes)))))

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

    def _added_up(self, groups: Mapping[tuple, list], by: Sequence[str] | None, notes: str) -> Found:
        """Return the cells of groups of pairs of a cell and its sample or None, each group added up."""
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
            sums = [cell.value for cell in summaries if not isinstance(cell, Collection) and cell.n_reports >= CERTAIN]
            if len(set(sums)) < len(sums):
                raise ArgumentError(f"cell {name} joins a summary with a copy of itself; leave one of them out.")
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
        return Found(cells, by, None, self.categories, samples=samples, **facts)


def of_file(path: Any) -> Cells:
    """Return the cells of a file of summaries: Found, or Cells where it states no protocol."""
    known = summary_files.read(path)
    if known["protocol"] is None:
        return Cells(known["cells"], known["by"], categories=known["categories"])
    return Found(**known)


def _joined(samples):
    """Return one sample of several cells; it may hold as many reports as the largest of them."""
    most = max(len(sample.keys) for sample in samples) if any(sample.level for sample in samples) else 2**62
    return functools.reduce(lambda sample, other: sample.joined(other, max(most, 1)), samples)
