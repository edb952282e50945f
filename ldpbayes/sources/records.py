"""Records: tables whose rows are taken one by one, each with its report. The third fold, beside tally and scan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.base import check_column
from ldpbayes.sources.constants import MAX_ENTRIES
from ldpbayes.sources.encode import Format, column, crossed, encoded, encoded_key

#: Mathematics: Rounds of expectation-maximization of the pooled distribution.
ROUNDS = 100


class Sent(NamedTuple):
    """The reports that came through one protocol, whose place is given: their rows in the table and distinct reports."""

    place: int
    rows: np.ndarray
    code: np.ndarray  # the number of the distinct report in each row, in order of appearance
    reports: np.ndarray
    likelihood: Any  # their Rows, one each


def sent(table: Any, formats: Sequence[Format], place: np.ndarray) -> Iterator[Sent]:
    """Yield the distinct reports of a table by protocol; protocols without a row are left out.

    Raises
    ------
    DataError
        On reports that are missing, or that the protocol does not make.
    InfeasibleError
        As ``likelihood_rows``.
    """
    for i, form in enumerate(formats):
        rows = np.flatnonzero(place == i)
        if not rows.size:
            continue
        batch = table if rows.size == table.num_rows else table.take(rows)
        first = code = np.arange(rows.size)
        columns = [encoded(column(batch, name), name) for name in form.report]
        if None not in columns:  # of lists every row is parsed
            codes, _ = crossed([(codes, len(values)) for codes, values in columns])
            _, found, code = np.unique(codes, return_index=True, return_inverse=True)
            order = np.argsort(found)
            first, code = found[order], np.argsort(order)[code]
        try:
            reports = form.rows(batch.take(first))
        except DataError as err:  # of a distinct report: the first row that has it
            line = None if err.line is None else int(rows[first[err.line]])
            raise DataError(err.message, line=line, field=err.field) from None
        yield Sent(i, rows, code, reports, likelihood_rows(form.protocol, reports))


def likelihood_rows(protocol: AbstractProtocol, reports: np.ndarray) -> Any:
    """Return the Rows of distinct reports, one for each.

    Raises
    ------
    InfeasibleError
        Where reports are taken apart, or there are too many entries.
    """
    rows = protocol.rows(reports, np.ones(len(reports)))
    if rows.n_rows != len(reports):
        raise InfeasibleError("Records need whole reports; these reports are taken apart into bits.")
    if rows.n_rows * rows.n_categories > MAX_ENTRIES:
        raise InfeasibleError(
            f"The reports have {rows.n_rows:,} × {rows.n_categories:,} likelihood entries, more than {MAX_ENTRIES:,}; use "
            "a protocol with fewer possible reports or fewer categories."
        )
    return rows


def report_columns(
    protocol: AbstractProtocol, report: Sequence[str] | None, names: Iterable[str], other: str | None = None
) -> tuple[str, ...]:
    """Return the columns of one report: as stated, else by the protocol's own names, else the other one."""
    fields, names = protocol.report_fields, list(names)
    if report is None:
        if all(name in names for name in fields):
            return tuple(fields)
        if len(fields) == 1 and other in names:
            return (str(other),)
        raise ArgumentError(f"report must name the column of reports ({', '.join(fields)}), got none.")
    for name in report:
        check_column(names, name, "the frame ", " for report")
    return tuple(report)


@dataclass(frozen=True, eq=False)
class Entries:
    """log P(Y | p) of all cells: Σ_e weight_e log Σ_x table[row_e, x] p[cell_e, x], entries in the order of the cells.

    Attributes
    ----------
    cell, row : (e,) int arrays
    weight : (e,) array
        How often the likelihood row was seen in the cell.
    table : (m, a) array
    n_cells : int
    log_constants : (m,) array, optional
        P(report j | p) = exp(log_constants_j) (table p)_j.
    """

    cell: np.ndarray
    row: np.ndarray
    weight: np.ndarray
    table: np.ndarray
    n_cells: int
    log_constants: np.ndarray | None = None

    @classmethod
    def counted(
        cls, cell: np.ndarray, row: np.ndarray, amount: np.ndarray | None, table: np.ndarray, n_cells: int, *rest: Any
    ) -> Self:
        """Return the entries of records, each of which counts by an amount, or once."""
        m, key = len(table), cell * len(table) + row
        if n_cells * m <= 4 * len(key) + 10_000:
            unique, place = np.arange(n_cells * m), key
        else:
            unique, place = np.unique(key, return_inverse=True)
        total = np.bincount(place, amount, len(unique)).astype(float)
        seen = total > 0
        return cls(unique[seen] // m, unique[seen] % m, total[seen], table, n_cells, *rest)

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
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What compiled functions read (inference._kernels.of_logits): the entries, no summaries."""
        none, empty = np.empty((0, self.n_categories)), np.empty(0)
        apart = np.zeros(1, np.int64), np.zeros(0, np.int64), empty, empty, empty
        entries = self.starts, self.row, self.weight, self.table, none
        return none, none, *(np.ascontiguousarray(array) for array in (*apart, *entries))

    @property
    def visited(self) -> int:
        """Numbers that an evaluation visits."""
        return self.cell.size * self.n_categories

    @cached_property
    def constant(self) -> float:
        """The part of the log-likelihood that does not depend on p."""
        return 0.0 if self.log_constants is None else float(self.weight @ self.log_constants[self.row])

    def pooled(self) -> np.ndarray:
        """Return the distribution of all reports together after some rounds of expectation-maximization, none below 1e-3."""
        counts = np.bincount(self.row, self.weight, len(self.table))
        table, counts = self.table[counts > 0], counts[counts > 0]
        p = np.full(self.n_categories, 1 / self.n_categories)
        for _ in range(ROUNDS):
            p *= table.T @ (counts / (table @ p)) / counts.sum()
            p = np.maximum(p, 1e-12)
            p /= p.sum()
        p = np.maximum(p, 1e-3)
        return p / p.sum()


def numbers_of(table: Any, name: str) -> np.ndarray | None:
    """Return a column of numbers in double precision; None where it holds something else."""
    import pyarrow as pa

    array = column(table, name, why="holds missing values; leave those rows out")
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return None
    return array.to_numpy(zero_copy_only=False).astype(float)


def weights_of(table: Any, name: str) -> np.ndarray:
    """Return a column of survey weights: finite numbers, none of them negative and some above 0."""
    weights = numbers_of(table, name)
    if weights is None or not np.isfinite(weights).all():
        raise DataError("weights must be finite numbers", field=name)
    if (weights < 0).any():
        raise DataError(f"weights must not be negative, got {weights.min():g}", field=name)
    if not weights.any():
        raise DataError("no row has a weight above 0", field=name)
    return weights


def entries_of(table: Any, name: str) -> tuple[np.ndarray, list[str]]:
    """Return (number of the entry of each row, the entries as texts) of a column without missing ones.

    Some of the entries may not occur.
    """
    codes, values = encoded_key(table, name)
    return codes, [str(value) for value in values]
