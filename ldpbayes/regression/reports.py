"""Reports for a regression: the distinct likelihood rows, and which of them came in from which cell, how often."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.collections.devices import over_outcomes
from ldpbayes.collections.survey import DesignEffect, SampleColumns, design_effect
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.labels import Places
from ldpbayes.sources.base import check_column
from ldpbayes.sources.encode import Format, counts_of
from ldpbayes.sources.frames import arrow_of
from ldpbayes.sources.parameters import labels_of
from ldpbayes.sources.records import Entries, entries_of, report_columns, sent, weights_of
from ldpbayes.sources.skipping import Skipped, good_rows
from ldpbayes.sources.stream import Batch, Piece


@dataclass(frozen=True, eq=False)
class RowReports:
    """The reports of a table, row by row, by the number of their likelihood row.

    Attributes
    ----------
    table : (m, a) array
        Likelihood rows, each scaled so that its largest entry is one.
    log_constants : (m,) array
        P(report j | p) = exp(log_constants_j) (table p)_j.
    code : (n,) int array
        The likelihood row of each row of the table.
    count : (n,) array
        How many users each row stands for.
    weight : (n,) array
        Survey weight of each row; ones without.
    pooled : Collection
        All reports together, over all covariates.
    strata, cluster : (n,) arrays of str, optional
        Labels of the stratum and of the cluster from which each row was sampled.
    channel : (m,) array of str, optional
        The channel of each likelihood row, of a table.
    dropped : str
        The sentence about the rows that are left out; empty without.
    """

    table: np.ndarray
    log_constants: np.ndarray
    code: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    pooled: Collection
    strata: np.ndarray | None = None
    cluster: np.ndarray | None = None
    channel: np.ndarray | None = None
    dropped: str = ""

    @property
    def weighted(self) -> bool:
        """Whether the sample is no simple random one: rows have different survey weights, or strata or clusters."""
        return self.strata is not None or self.cluster is not None or bool(np.ptp(self.weight[self.count > 0]) > 0)

    def design(self, scores: np.ndarray, device: np.ndarray | float = 0.0, curvature: float | None = None) -> DesignEffect:
        """Return the design effect of scores (n, k) of users; see ``collections.survey.design_effect``."""
        told = self.count * self.weight > 0
        strata, cluster = (None if column is None else column[told] for column in (self.strata, self.cluster))
        sample = self.weight[told], strata, cluster
        return design_effect(scores[told], *sample, counts=self.count[told], device=device, curvature=curvature)

    def entries(self, cell: np.ndarray, n_cells: int, scale: float = 1.0) -> Entries:
        """Return the likelihood of cells, by the number of the cell of each row.

        Parameters
        ----------
        cell : (n,) int array
        n_cells : int
        scale : float
            Factor of the weights, where there are some.
        """
        amount = self.count * (self.weight * scale if self.weighted else 1.0)
        return Entries.counted(cell, self.code, amount, self.table, n_cells, self.log_constants)


@dataclass(frozen=True, eq=False)
class Asked:
    """How the rows of a frame were asked.

    Attributes
    ----------
    protocols : mapping of str to AbstractProtocol
        By the value of the column of designs; one alone without.
    columns : list of tuple of str
        The columns of a report of each protocol.
    stated : mapping of str to str or None
        Columns of ``design``, ``count``, ``weights``, ``strata`` and ``cluster``.
    """

    protocols: Mapping[str, AbstractProtocol]
    columns: list[tuple[str, ...]]
    stated: Mapping[str, str | None]

    @classmethod
    def of(
        cls,
        table: Any,
        protocol: AbstractProtocol | Mapping[Any, AbstractProtocol],
        report: str | Sequence[str] | None,
        answer: str,
        stated: Mapping[str, str | None] | None = None,
    ) -> "Asked":
        """Return how the rows of a pandas frame were asked; ``answer`` is also the default name of the column of reports.

        Raises
        ------
        ArgumentError, DataError
            Where designs or columns do not fit the frame.
        """
        names = [str(name) for name in table.columns]
        stated = dict.fromkeys(("design", "count", "weights", "strata", "cluster")) | dict(stated or {})
        SampleColumns(stated["weights"], stated["strata"], stated["cluster"])
        for what, name in stated.items():
            if name is not None:
                check_column(names, name, "the frame ", f" for {what}")
        protocols = protocols_of(protocol, stated["design"])
        fields = checks.columns(report, "report")
        return cls(protocols, [report_columns(one, fields, names, answer) for one in protocols.values()], stated)

    @property
    def names(self) -> list[str]:
        """The columns that are stated."""
        return [name for name in self.stated.values() if name is not None]

    def places(self, table: Any) -> np.ndarray:
        """Return the place of the protocol of each row of an Arrow table, -1 where its design has none."""
        design = self.stated["design"]
        if design is None:
            return np.zeros(table.num_rows, dtype=np.int64)
        found, (codes, texts) = Places(list(self.protocols)), entries_of(table, design)
        places = [found.place(text, positions=False) for text in texts]
        return np.array([-1 if place is None else place for place in places], dtype=np.int64)[codes]

    def places_of(self, table: Any) -> np.ndarray:
        """Return ``places``, or the error of a row whose design has no protocol."""
        place, design = self.places(table), self.stated["design"]
        if (place < 0).any():
            row = int(np.argmin(place))
            value, known = table[design][row].as_py(), listed(self.protocols)
            why = f"has the value {shown(str(value))}, for which protocol has no entry; it has {known}"
            raise DataError(why, line=row, field=design)
        return place

    def formats(self, labels: Sequence[str], labelled: bool) -> list[Format]:
        """Return how rows are reports, by protocol."""
        return [Format(one, own, labels, labelled) for one, own in zip(self.protocols.values(), self.columns, strict=True)]

    def needed(self, table: Any) -> dict[str, np.ndarray]:
        """Return which rows of a pandas frame need each column: that of a report those of its design."""
        every = np.ones(len(table), dtype=bool)
        place, design = np.zeros(len(table), dtype=np.int64), self.stated["design"]
        if design is not None:
            present = table[design].notna().to_numpy()
            place[~present] = -1
            if present.any():
                place[present] = self.places(arrow_of(table.loc[present, [design]], [design]))
        rows = dict.fromkeys(self.names, every)
        for i, fields in enumerate(self.columns):
            rows |= {name: rows.get(name, False) | (place == i) for name in fields}
        return rows


def read_reports(
    table: Any, kept: np.ndarray, asked: Asked, answer: str, categories: Sequence[str] | None = None
) -> RowReports:
    """Return the reports of a pandas frame.

    Parameters
    ----------
    table : pandas.DataFrame
    kept : (n,) bool array
        Rows that take part.
    asked : Asked
    answer : str
        Name of the private answer.
    categories : sequence of str, optional

    Raises
    ------
    ArgumentError, DataError
        As read, and where designs do not fit the column.
    """
    asked, labels, arrow = _of_frame(table, kept, asked, categories)
    try:
        return _reports(arrow, asked, labels, categories is not None, answer)
    except DataError as err:  # of a row of those that take part
        row = "" if err.line is None else f"row {np.flatnonzero(kept)[err.line] + 1:,}: "
        message, of_read, _ = err.message.partition("; say missing=")
        advice = "; make it None, and leave such rows out with bad_rows='skip'" if of_read else ""
        raise DataError(row + message + advice, field=err.field) from None


def readable(
    table: Any, kept: np.ndarray, asked: Asked, categories: Sequence[str] | None = None
) -> tuple[np.ndarray, Skipped]:
    """Return (which rows take part and hold a report, what was wrong with the others)."""
    asked, labels, arrow = _of_frame(table, kept, asked, categories)
    formats, count, skipped = asked.formats(labels, categories is not None), asked.stated["count"], Skipped()

    def read(batch):
        for _ in sent(batch.table, formats, asked.places_of(batch.table)):
            pass
        if count is not None:
            counts_of(batch.table, count)
        return batch.places

    by = [] if asked.stated["design"] is None else [asked.stated["design"]]
    of_design = {name: [name] for name in by} | {name: [*fields, *by] for fields in asked.columns for name in fields}
    good = np.zeros(kept.size, dtype=bool)
    for places in good_rows([Batch(arrow, Piece(), rows=np.flatnonzero(kept))], read, skipped, of_design):
        good[places] = True
    return good, skipped


def _of_frame(table, kept, asked, categories):
    """Return (Asked over the outcomes of its devices, labels, Arrow table of the rows that take part)."""
    first = next(iter(asked.protocols.values()))
    protocols, labels = over_outcomes(asked.protocols, labels_of(categories, first) or first.default_labels)
    used = [*(name for fields in asked.columns for name in fields), *asked.names]
    return replace(asked, protocols=protocols), labels, arrow_of(table.loc[kept, list(dict.fromkeys(used))], used)


def _reports(table, asked, labels, labelled, answer):
    """Return the RowReports of an Arrow table, whose columns are those of each protocol and those that are stated."""
    protocols, stated, place = asked.protocols, asked.stated, asked.places_of(table)
    counts = np.ones(table.num_rows, dtype=np.int64)
    if stated["count"] is not None:
        counts = counts_of(table, stated["count"])
        if counts.sum(dtype=float) > MAX_COUNT:
            raise DataError("counts must be at most 10**12 all together", field=stated["count"])
    formats = asked.formats(labels, labelled)
    code, rows, constants, tallies, channel, at = np.empty_like(place), [], [], [], [], 0
    for batch in sent(table, formats, place):
        dense = batch.likelihood.dense()
        top = dense.max(axis=1)
        rows.append(dense / top[:, None])
        constants.append(np.log(top) + batch.likelihood.log_constants)
        code[batch.rows] = at + batch.code
        at += len(dense)
        name = [*protocols][batch.place].replace("/", "∕") or "empty"
        channel += [name] * len(dense)
        totals = np.bincount(batch.code, counts[batch.rows], len(dense)).round().astype(np.int64)
        if totals.sum():
            tallies.append(Tally.trusted(formats[batch.place].protocol, batch.reports, totals, name, labels))
    if not tallies:
        raise DataError("no row has a count above 0")
    weight = np.ones(table.num_rows)
    if stated["weights"] is not None:
        weight = weights_of(table, stated["weights"])
        if not weight @ counts > 0:
            raise DataError("no row has a weight above 0", field=stated["weights"])
        weight = weight * counts.sum() / (weight @ counts)
    pooled = Collection(labels, tuple(tallies), id=answer)
    groups = (_groups(table, stated[name]) for name in ("strata", "cluster"))
    place_of = np.concatenate(rows), np.concatenate(constants), code, counts.astype(float), weight, pooled, *groups
    return RowReports(*place_of, np.array(channel))


def cells_of(data: Any) -> Cells | None:
    """Return data that are Cells, which bring their reports along; None of a table."""
    return data if isinstance(data, Cells) else None


def reports_of_cells(cells: Cells) -> tuple[RowReports, np.ndarray]:
    """Return (reports, cell of each of their rows) of Cells with their reports; of samples every kind of respondent."""
    of_cells = [_of_cell(cell) for cell in cells.collections()]
    dense, constants, count, weight = (np.concatenate([part[k] for part in of_cells]) for k in range(4))
    strata, cluster = (
        None if any(part[k] is None for part in of_cells) else np.concatenate([part[k] for part in of_cells]) for k in (4, 5)
    )
    top = dense.max(axis=1, keepdims=True)
    rows, code = np.unique(np.column_stack([dense / top, np.log(top[:, 0]) + constants]), axis=0, return_inverse=True)
    weight = weight * count.sum() / (weight @ count)
    pooled = cells.with_cells({key: replace(cell, survey=None) for key, cell in cells.items()}).pooled()
    reports = RowReports(rows[:, :-1], rows[:, -1], np.ravel(code), count, weight, pooled, strata, cluster)
    return reports, np.repeat(np.arange(len(of_cells)), [len(part[2]) for part in of_cells])


def _of_cell(cell: Any) -> tuple:
    """Return (rows, log constants, counts, weights, strata, clusters) of a cell; the last two are None without."""
    rows, survey = cell.likelihood.rows(), cell.survey
    constants = np.broadcast_to(rows.log_constants, rows.n_rows)
    if survey is None:
        return rows.dense(), constants, rows.counts, np.ones(rows.n_rows), None, None
    dense, place = survey.respondents(cell.tallies)
    return dense[place], constants[place], survey.counts.astype(float), survey.weights, survey.strata, survey.clusters


def protocols_of(protocol: Any, design: str | None) -> dict[str, AbstractProtocol]:
    """Return {value of the design: protocol}, or {"all": protocol} without one."""
    if design is None:
        if isinstance(protocol, Mapping):
            raise ArgumentError("design must name the column whose values the mapping of protocols has, got none.")
        rule = "a protocol such as GRR(4, epsilon=1.0), or a mapping of them with design="
        return {"all": checks.instance(protocol, "protocol", AbstractProtocol, rule)}
    rule = f"a mapping from the values of {design!r} to protocols"
    channels: Mapping[Any, AbstractProtocol] = checks.instance(protocol, "protocol", Mapping, rule)
    for channel in channels.values():
        checks.instance(channel, "protocol", AbstractProtocol, rule)
    sizes = {channel.n_categories for channel in channels.values()}
    if len(sizes) != 1:
        numbers = listed(sorted(sizes)) or "none"
        raise ArgumentError(f"protocol must map to protocols over the same categories, got {numbers} of them.")
    return {str(value): channel for value, channel in channels.items()}


def _groups(table, name):
    """Return the label of the group of each row, by a column; None without one."""
    if name is None:
        return None
    codes, texts = entries_of(table, name)
    return np.array(texts, dtype=object)[codes]
