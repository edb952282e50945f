"""Data frames as sources of reports: pandas, Polars, PyArrow, DuckDB and anything else that narwhals reads."""

import numpy as np

from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError


def read_frame(frame, protocol, report=None, count=None, categories=None, name="all"):
    """Tally the reports of a data frame: pandas, Polars, PyArrow, or anything else that narwhals reads.

    The frame groups its own rows, so that only distinct reports leave it; a lazy frame is collected after that.

    Parameters
    ----------
    frame : data frame or lazy frame
    protocol : AbstractProtocol
    report : str or sequence of str, optional
        The column or columns of one report; the protocol's own names by default.
    count : str, optional
        The column of counts; without it every row is one report.
    categories : sequence of str, optional
        Labels of the categories, in order: the cells are then labels, as in a file. Without it a column of integers holds
        reports as the protocol makes them, and the labels in text are "0", "1", ….
    name : str
        Of the channel.

    Returns
    -------
    Tally

    Raises
    ------
    ArgumentError
        On something that is no data frame, or the wrong number of columns.
    DataError
        On a missing column or cell, a report that the protocol does not make, or a count that is no whole number.

    Examples
    --------
    >>> import pyarrow
    >>> from ldpbayes.protocols.designs import warner
    >>> table = pyarrow.table({"answer": ["yes", "no", "yes"]})
    >>> read_frame(table, warner(0.7), "answer").counts.tolist()
    [1, 2]
    """
    import narwhals

    try:
        frame = narwhals.from_native(frame)
    except TypeError as err:
        raise ArgumentError(f"frame must be a data frame that narwhals reads, got {type(frame).__name__}.") from err
    report = list(protocol.report_fields) if report is None else [report] if isinstance(report, str) else list(report)
    if len(report) != len(protocol.report_fields):
        fields = ", ".join(protocol.report_fields)
        raise ArgumentError(f"report must name {len(protocol.report_fields)} columns ({fields}), got {len(report)}.")
    known = frame.collect_schema()
    for column in [*report, *([count] if count else [])]:
        if column not in known:
            raise DataError(f"the frame has no column {column!r}; it has {', '.join(known)}")
    if count and not known[count].is_integer():
        raise DataError(f"counts must be whole numbers, got a column of {known[count]}", field=count)
    parts = {"_rows": narwhals.len()}
    if count:  # elementary aggregations only: some backends know no others
        column = narwhals.col(count)
        parts |= {"_sum": column.sum(), "_low": column.min(), "_filled": column.count()}
    groups = frame.group_by(report).agg(**parts)
    groups = groups.collect() if isinstance(groups, narwhals.LazyFrame) else groups
    if not len(groups):
        raise DataError("the frame has no rows")
    if count and (groups["_filled"].sum() < groups["_rows"].sum() or groups["_low"].min() < 0):
        raise DataError("counts must be non-negative, and none may be missing", field=count)
    counts = groups["_sum" if count else "_rows"].to_numpy()
    return Tally(protocol, _frame_reports(groups, protocol, report, categories), counts, name)


def _frame_reports(groups, protocol, report, categories):
    """Return the report array of the distinct rows of a frame."""
    cells = {column: groups[column].to_list() for column in report}
    for column, values in cells.items():
        if any(value is None or value != value for value in values):
            raise DataError("holds missing reports", field=column)
    if categories is None and len(report) == 1 and groups[report[0]].dtype.is_integer():
        return np.array(cells[report[0]], dtype=np.int64)
    labels = [str(i) for i in range(protocol.n_categories)] if categories is None else list(categories)
    try:
        return protocol.parse_reports([[str(value) for value in values] for values in cells.values()], labels)
    except DataError as err:
        raise DataError(err.message, field=err.field or report[0]) from None
