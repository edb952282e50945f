"""Reports for a regression: the distinct likelihood rows, and which of them came in from which cell, how often."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.collections.survey import SampleColumns, design_effect
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, listed, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.regression.table import distinct_rows
from ldpbayes.sources.encode import Format
from ldpbayes.sources.frames import arrow_of

#: Likelihood rows (distinct reports × categories) with more entries than this are refused.
MAX_ENTRIES = 2**26


@dataclass(frozen=True, eq=False)
class Reports:
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
    """

    table: np.ndarray
    log_constants: np.ndarray
    code: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    pooled: Collection
    strata: np.ndarray | None = None
    cluster: np.ndarray | None = None

    @property
    def weighted(self) -> bool:
        """Whether the sample is no simple random one: rows have different survey weights, or strata or clusters."""
        return self.strata is not None or self.cluster is not None or bool(np.ptp(self.weight[self.count > 0]) > 0)

    def variance(self, scores: np.ndarray) -> np.ndarray:
        """Return the variance of the total of the weighted scores (n, k) of users over the design, shape (k, k).

        Without strata and clusters Σ_i w_i² s_i s_iᵀ; with them that of ``collections.survey.design_effect``.
        """
        if self.strata is None and self.cluster is None:
            return (scores.T * (self.count * self.weight**2)) @ scores
        asked = self.count > 0
        strata, cluster = (None if held is None else held[asked] for held in (self.strata, self.cluster))
        count, weight = self.count[asked], self.weight[asked]
        return design_effect(scores[asked], weight, strata, cluster, counts=count).variance

    def entries(self, cell: np.ndarray, n_cells: int, scale: float = 1.0) -> "Entries":
        """Return the likelihood of cells, by the number of the cell of each row.

        Parameters
        ----------
        cell : (n,) int array
        n_cells : int
        scale : float
            Factor of the weights, where there are some.
        """
        m = len(self.table)
        key = cell * m + self.code
        amount = self.count * (self.weight * scale if self.weighted else 1.0)
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(key[order]) > 0))
        total = np.add.reduceat(amount[order], starts)
        first = key[order[starts]]
        kept = total > 0
        return Entries(first[kept] // m, first[kept] % m, total[kept], self.table, self.log_constants, n_cells)


@dataclass(frozen=True, eq=False)
class Entries:
    """log P(Y | p) of all cells: Σ_e weight_e log Σ_x table[row_e, x] p[cell_e, x], entries in the order of the cells.

    Attributes
    ----------
    cell, row : (e,) int arrays
    weight : (e,) array
    table : (m, a) array
    log_constants : (m,) array
    n_cells : int
    """

    cell: np.ndarray
    row: np.ndarray
    weight: np.ndarray
    table: np.ndarray
    log_constants: np.ndarray
    n_cells: int

    @property
    def n_categories(self) -> int:
        return self.table.shape[1]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Sum of the weights of each cell, shape (cells,)."""
        return np.bincount(self.cell, self.weight, self.n_cells)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the entries of each cell begin, with the end of the last: shape (cells + 1,)."""
        return np.searchsorted(self.cell, np.arange(self.n_cells + 1))

    @cached_property
    def constant(self) -> float:
        """The part of the log-likelihood that does not depend on p."""
        return float(self.weight @ self.log_constants[self.row])

    def per_cell(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the entries of each cell of an (e, …) array, shape (cells, …)."""
        out = np.zeros((self.n_cells, *values.shape[1:]))
        some = np.flatnonzero(np.diff(self.starts))
        if some.size:
            out[some] = np.add.reduceat(values, self.starts[some], axis=0)
        return out


def read_reports(
    table: Any,
    kept: np.ndarray,
    protocol: AbstractProtocol | Mapping[Any, AbstractProtocol],
    report: str | Sequence[str] | None,
    *,
    answer: str,
    design: str | None = None,
    count: str | None = None,
    weights: str | None = None,
    strata: str | None = None,
    cluster: str | None = None,
    categories: Sequence[str] | None = None,
) -> Reports:
    """Return the reports of a pandas frame.

    Parameters
    ----------
    table : pandas.DataFrame
    kept : (n,) bool array
        Rows that take part.
    protocol : AbstractProtocol, or mapping of value to AbstractProtocol
        With ``design``: the protocol of each value of that column.
    report : str or sequence of str, optional
    answer : str
        Name of the private answer; also the default name of the column of reports.
    design, count, weights, strata, cluster : str, optional
        Columns.
    categories : sequence of str, optional

    Raises
    ------
    ArgumentError, DataError
        As read, and where designs do not fit the column.
    """
    names = [str(name) for name in table.columns]
    SampleColumns(weights, strata, cluster)
    stated = ((design, "design"), (count, "count"), (weights, "weights"), (strata, "strata"), (cluster, "cluster"))
    for name, what in stated:
        if name is not None and name not in names:
            raise DataError(f"the frame has no column {shown(name)} for {what}; it has {listed(names) or 'none'}")
    table = table[kept].reset_index(drop=True)
    parts = _designs(table, protocol, design)
    first = parts[0][1]
    labels = tuple(str(x) for x in range(first.n_categories)) if categories is None else _labels(categories, first)
    n = len(table)
    code, rows, constants, tallies, at = np.full(n, -1), [], [], [], 0
    counts = _counts(table, count)
    for name, one, chosen in parts:
        columns = _columns(one, report, answer, names)
        part = table.loc[chosen, columns]
        own, distinct = _codes(part)
        found = _parsed(part.iloc[distinct], one, columns, labels if categories is not None else None)
        likelihood = one.rows(found, np.ones(len(found)))
        if likelihood.n_rows != len(found):
            raise InfeasibleError("A regression needs whole reports; these reports are taken apart into bits.")
        if likelihood.n_rows * likelihood.n_categories > MAX_ENTRIES:
            raise InfeasibleError(
                f"The reports have {likelihood.n_rows:,} × {likelihood.n_categories:,} likelihood entries, more than the "
                f"{MAX_ENTRIES:.2g} that a regression takes; use a protocol with fewer possible reports or fewer categories."
            )
        dense = likelihood.dense()
        top = dense.max(axis=1)
        rows.append(dense / top[:, None])
        constants.append(np.log(top) + likelihood.log_constants)
        code[chosen] = at + own
        at += len(dense)
        totals = np.bincount(own, counts[chosen], len(found)).round().astype(np.int64)
        if totals.sum():
            tallies.append(Tally.trusted(one, found, totals, name, labels))
    if not tallies:
        raise DataError("no row has a count above 0")
    weight = np.ones(n) if weights is None else _weights(table, weights, counts)
    pooled = Collection(labels, tuple(tallies), id=answer)
    groups = _groups(table, strata), _groups(table, cluster)
    return Reports(np.concatenate(rows), np.concatenate(constants), code, counts.astype(float), weight, pooled, *groups)


def reports_of_cells(cells: Cells) -> tuple[Reports, np.ndarray]:
    """Return (reports, cell of each of their rows) of Cells whose reports were kept."""
    rows, constants, code, count, owner, at = [], [], [], [], [], 0
    seen: dict[bytes, int] = {}
    for position, (label, likelihood) in enumerate(zip(cells.labels, cells.likelihoods, strict=True)):
        held = likelihood.rows()
        if held is None:
            raise InfeasibleError(
                f"A regression needs the reports; of the cell {shown(label)} only a summary was kept. "
                "Fit such cells with fit(cells, prior=Regression(…))."
            )
        dense = held.dense()
        top = dense.max(axis=1)
        dense, constant = dense / top[:, None], np.log(top) + held.log_constants
        for j in range(len(dense)):
            key = dense[j].tobytes() + constant[j].tobytes()
            if key not in seen:
                seen[key] = at
                rows.append(dense[j])
                constants.append(constant[j])
                at += 1
            code.append(seen[key])
            count.append(held.counts[j])
            owner.append(position)
    found = Reports(
        np.stack(rows), np.array(constants), np.array(code), np.array(count), np.ones(len(count)), cells.pooled()
    )
    return found, np.array(owner)


def _designs(table, protocol, design):
    """Return [(channel name, protocol, positions of its rows)]."""
    if design is None:
        if isinstance(protocol, Mapping):
            raise ArgumentError("design must name the column whose values the mapping of protocols has, got none.")
        if not isinstance(protocol, AbstractProtocol):
            raise ArgumentError(
                f"protocol must be a protocol such as GRR(4, epsilon=1.0), or a mapping of them with design=, got "
                f"{_named(protocol)}."
            )
        return [("all", protocol, np.arange(len(table)))]
    if not isinstance(protocol, Mapping) or not protocol:
        raise ArgumentError(
            f"protocol must be a mapping from the values of {design!r} to protocols, got {_named(protocol)}."
        )
    for one in protocol.values():
        if not isinstance(one, AbstractProtocol):
            raise ArgumentError(f"protocol must map to protocols, got {_named(one)}.")
    sizes = {one.n_categories for one in protocol.values()}
    if len(sizes) > 1:
        raise ArgumentError(f"protocol must map to protocols over the same categories, got {listed(sorted(sizes))} of them.")
    known = {str(value): one for value, one in protocol.items()}
    values = table[design]
    if values.isna().any():
        raise DataError("is missing in some rows", field=design)
    texts = values.astype(str).to_numpy()
    found = []
    for value in dict.fromkeys(texts):
        if value not in known:
            raise DataError(
                f"has the value {shown(value)}, for which protocol has no entry; it has {listed(known)}", field=design
            )
        found.append((str(value).replace("/", "∕") or "empty", known[value], np.flatnonzero(texts == value)))
    return found


def _columns(protocol, report, answer, names):
    """Return the columns of one report."""
    fields = list(protocol.report_fields)
    if report is None:
        if all(name in names for name in fields):
            return fields
        if len(fields) == 1 and answer in names:
            return [answer]
        raise ArgumentError(f"report must name the column of reports ({', '.join(fields)}), got none.")
    columns = [report] if isinstance(report, str) else list(report)
    if len(columns) != len(fields):
        raise ArgumentError(f"report must name {len(fields)} columns ({', '.join(fields)}), got {len(columns)}.")
    for name in columns:
        if name not in names:
            raise DataError(f"the frame has no column {shown(name)}; it has {listed(names)}")
    return columns


def _codes(part):
    """Return (number of the distinct report of each row, first row of each)."""
    columns = []
    for name in part.columns:
        values = part[name]
        if values.isna().any():
            raise DataError("holds missing values", field=name)
        try:
            hash(values.iloc[0])
            columns.append(values.to_numpy() if values.dtype.kind in "biuf" else values.astype(object).to_numpy())
        except TypeError:  # lists and arrays: every row is parsed
            return np.arange(len(part)), np.arange(len(part))
    first, code = distinct_rows(columns, len(part))
    return code, first


def _parsed(part, protocol, columns, labels):
    """Return the reports of a frame, one per row and in its order, as the protocol makes them."""
    known = [str(x) for x in range(protocol.n_categories)] if labels is None else list(labels)
    try:
        return Format(protocol, tuple(columns), known, labels is not None).rows(arrow_of(part, columns))
    except DataError as err:  # the rows are distinct ones, in another order
        raise DataError(err.message, field=err.field) from None


def _counts(table, count):
    if count is None:
        return np.ones(len(table), dtype=np.int64)
    values = table[count]
    if values.isna().any():
        raise DataError("counts must be non-negative, and none may be missing", field=count)
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iu":
        try:
            numbers = numbers.astype(float)
        except (TypeError, ValueError):
            raise DataError("counts must be whole numbers", field=count) from None
        if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any():
            raise DataError("counts must be whole numbers", field=count)
    if (numbers < 0).any():
        raise DataError("counts must be non-negative, and none may be missing", field=count)
    if float(numbers.max()) > MAX_COUNT or numbers.sum(dtype=float) > MAX_COUNT:
        raise DataError("the counts add up to more than 10**12", field=count)
    return numbers.astype(np.int64)


def _weights(table, weights, counts):
    try:
        found = table[weights].to_numpy(dtype=float)
    except (TypeError, ValueError):
        raise DataError("weights must be numbers", field=weights) from None
    if not np.isfinite(found).all() or (found < 0).any() or not found @ counts > 0:
        raise DataError("weights must be finite, not negative and not all zero", field=weights)
    return found * counts.sum() / (found @ counts)


def _groups(table, name):
    """Return the label of the group of each row, by a column; None without one."""
    if name is None:
        return None
    if table[name].isna().any():
        raise DataError("holds missing values", field=name)
    return table[name].astype(str).to_numpy(dtype=object)


def _labels(categories, protocol):
    rule = "distinct texts, one per category"
    labels = None if isinstance(categories, str) else checks.labels(categories, "categories", rule)
    if labels is None or len(set(labels)) != len(labels):
        raise ArgumentError(f"categories must be distinct texts, one per category, got {shown(categories)}.")
    if len(labels) != protocol.n_categories:
        raise ArgumentError(f"categories must be the protocol's {protocol.n_categories} labels, got {len(labels)}.")
    return labels


def _named(value):
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
