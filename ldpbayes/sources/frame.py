"""Data frames as sources of reports: pandas, Polars, PyArrow, DuckDB and anything else that narwhals reads."""

import contextlib
import functools

import numpy as np

from ldpbayes import checks
from ldpbayes.checks import MAX_COUNT
from ldpbayes.collections.survey import SampleColumns
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.protocols.columns import Bytes, Integers, Lists
from ldpbayes.sources.base import AbstractSource, Groups, check_column, check_total, foreign, located, optional
from ldpbayes.sources.channels import labels_of, read_table
from ldpbayes.sources.keys import check_kinds, kinds_of, plain_keys


class FrameSource(AbstractSource):
    """A data frame, eager or lazy.

    Columns of texts, numbers and booleans are grouped by the frame itself, so that only distinct reports leave it. Bytes
    and lists, which hardly ever repeat, leave it whole.

    Parameters
    ----------
    frame : data frame or lazy frame
    """

    def __init__(self, frame):
        try:
            self.frame = narwhal(frame)
            if self._is_arrow():  # its chunks may have dictionaries that differ
                self.frame = narwhal(self.frame.to_native().unify_dictionaries())
        except TypeError as err:
            raise ArgumentError(f"frame must be a data frame that narwhals reads, got {type(frame).__name__}.") from err

    def eager(self):
        """Return the frame as a narwhals DataFrame; a lazy one is collected."""
        import narwhals as nw

        with foreign("the frame cannot be read"):
            return _collected(nw, self.frame)

    def distinct(self, columns, *, count=None, where=None, by=(), labelled=True):
        import narwhals as nw

        where = where or {}
        with foreign("the frame cannot be read"):
            schema = self._schema([*columns, *by, *([count] if count else []), *where])
            if count and not _is_whole(nw, schema[count]):
                raise DataError(f"counts must be whole numbers, got a column of {schema[count]}; cast it", field=count)
            frame = self.frame
            for key, value in where.items():
                frame = frame.filter(_matches(nw, key, value, schema[key]))
            # Names that cannot clash with the frame's own.
            report = [f"report {i}" for i in range(len(columns))]
            keys = [f"key {i}" for i in range(len(by))]
            chosen = [nw.col(old).alias(new) for old, new in zip([*columns, *by], [*report, *keys], strict=True)]
            if count:
                column = nw.col(count)
                # A sum of fewer than 2^22 counts up to 10^12 fits in 64 bits; more rows are added up below, by parts.
                chosen.append(column.cast(nw.Int64).alias("count") if schema[count] != nw.UInt64 else column.alias("count"))
            frame = frame.select(*chosen)
            grouped = all(_groupable(nw, schema[column]) for column in [*columns, *by])
            if grouped:
                groups, counts = _grouped(nw, frame, [*report, *keys], count)
            else:
                groups, counts = _ungrouped(nw, frame, count)
            if not isinstance(frame, nw.LazyFrame):
                sent = len(frame) if not count else frame["count"].to_numpy().astype(np.int64).sum()
                check_total(int(sent), int(counts.sum()))
            if not len(groups):
                return
            held = dict(zip([*columns, *by], [*report, *keys], strict=True))
            find = functools.partial(self._row, held, where, groups if grouped else None)
            try:
                cells = tuple(_column(nw, groups[new], old, labelled) for new, old in zip(report, columns, strict=True))
                names = [_keys(groups[new], old) for new, old in zip(keys, by, strict=True)]
            except DataError as err:
                raise located(err, Groups((), counts, row=find)) from err.__cause__
        yield Groups(cells, counts, list(zip(*names, strict=True)) if by else None, row=find)

    def _row(self, names, where, groups, position):
        """Return the first row of an eager frame, counted from one, that holds an entry of groups; else None.

        Parameters
        ----------
        names : dict
            From the frame's columns to those of groups.
        where : mapping
        groups : narwhals DataFrame or None
            None where the entries are the rows that match ``where``.
        position : int
        """
        import narwhals as nw

        if isinstance(self.frame, nw.LazyFrame):  # rows have no order, or are not at hand
            return None
        try:
            schema, number = dict(self.frame.collect_schema()), "row of the frame"
            frame = self.frame.with_row_index(number)
            for key, value in where.items():
                frame = frame.filter(_matches(nw, key, value, schema[key]))
            for old, new in names.items() if groups is not None else ():
                cell = groups[new][position]
                frame = frame.filter(_holds(nw, old, cell, schema[old]))
            return int(frame[number][position if groups is None else 0]) + 1
        except Exception:  # this only helps the reader of an error
            return None

    def names(self):
        with foreign("the frame cannot be read"):
            return [name for name in self.frame.collect_schema() if isinstance(name, str)]

    def metadata(self):
        if not self._is_arrow():
            return ()
        held = self.frame.to_native().schema.metadata or {}
        return [{key.decode(errors="replace"): text.decode(errors="replace") for key, text in held.items()}]

    def _is_arrow(self):
        return type(self.frame.to_native()).__module__.split(".")[0] == "pyarrow"

    def _schema(self, used):
        """Return the data type of every column in use."""
        schema = dict(self.frame.collect_schema())
        for column in used:
            check_column(schema, column, "the frame ")
        return schema


def narwhal(frame):
    """Return a frame as narwhals has it; a TypeError where it is none that narwhals reads."""
    narwhals = optional("narwhals", "Reading a data frame")
    try:
        return narwhals.from_native(frame)
    except narwhals.exceptions.DuplicateError as err:
        raise DataError("the frame has two columns of the same name; rename one") from err
    except narwhals.exceptions.NarwhalsError as err:
        raise DataError(f"the frame cannot be read: {str(err).splitlines()[0]}") from err


def read_frame(
    frame,
    protocol=None,
    report=None,
    count=None,
    categories=None,
    name="all",
    *,
    by=None,
    weight=None,
    strata=None,
    cluster=None,
    population=None,
    epsilon=None,
    rate=None,
    by_user=None,
):
    """Tally the reports of a data frame: pandas, Polars, PyArrow, DuckDB, or anything else that narwhals reads.

    The frame groups its own rows, so that only distinct reports leave it; a lazy frame is collected after that.

    What a column holds decides how it is read, and each kind means one thing:

    ==============================  ====================================================================================
    column                          reports
    ==============================  ====================================================================================
    text, categorical, dictionary   what a CSV file would hold: a label, a number, or the text of a set
    whole numbers                   the number of the report as the protocol makes it, or, where ``categories`` are named
                                    and one of them is a number, the label in digits; refused for sets
    booleans                        0 and 1, where a report or a field of it is a number of two; refused otherwise
    bytes                           a set in packed bits, ⌈a/8⌉ bytes a report, as ``numpy.packbits`` writes them
    lists of booleans               a set: one entry per category
    lists of whole numbers          a set: one zero or one per category, or the members; refused where it could be both
    lists of texts                  a set: its members
    ==============================  ====================================================================================

    Parameters
    ----------
    frame : data frame or lazy frame
    protocol : AbstractProtocol, optional
        May be left out where a column ``protocol`` states it, as ``write_reports`` writes it: every reader recognizes such
        a column, whole numbers are then reports as the protocol makes them, and several protocols in it give several
        channels. What contradicts the argument is refused. With ``epsilon`` also a name, such as ``"olh"``.
    report : str or sequence of str, optional
        The column or columns of one report; the protocol's own names by default.
    count : str, optional
        The column of counts; without it every row is one report.
    categories : sequence of str, optional
        Labels of the categories, in order: the cells are then labels, as in a file. Without it a column of integers holds
        reports as the protocol makes them, and the labels in text are "0", "1", ….
    name : str
        Of the channel.
    by : str or sequence of str, optional
        Grouping columns. The result then has a cell for each combination that occurs.
    weight, strata, cluster : str, optional
        Columns of sampling weights, strata and clusters of the respondents; see ``Collection.from_sample``.
    population : float or mapping, optional
        How many respondents, or clusters where clusters were sampled, the population has; in all or by stratum.
    epsilon : str, optional
        The column of the ε that each report was made with: one channel for each level. The other parameters of
        ``protocol`` stay as they are; those of a protocol that is only named follow from ε.
    rate : str, optional
        The column of the probability with which each value was replaced by a uniformly drawn category, randomised response
        with a rate in every record: one channel for each rate. ``categories`` are named, ``protocol`` is left out.
    by_user : str, optional
        The column of users, where a user may have sent several reports, one a row. Every user is then one report of the
        tally, a history; see ``Tally`` and ``protocols.repeated``.

    Returns
    -------
    Tally, Collection or Cells
        A Tally, which ``fit`` takes as it is; a Collection where there are several channels, or where it is stated how
        respondents were sampled; Cells with ``by``, whose keys are tuples with an entry per grouping column.

    Raises
    ------
    ArgumentError
        On something that is no data frame, a protocol that is none, or the wrong number of columns.
    DataError
        On a missing column or cell, a report that the protocol does not make, or a count that is no whole number.

    Examples
    --------
    >>> import pyarrow
    >>> from ldpbayes.protocols.designs import warner
    >>> table = pyarrow.table({"answer": ["yes", "no", "yes"], "country": ["SE", "SE", "NO"]})
    >>> read_frame(table, warner(0.7), "answer").counts.tolist()
    [1, 2]
    >>> read_frame(table, warner(0.7), "answer", by="country")
    <Cells by country: 2 cells, 2 categories, 3 reports>
    """
    return read_table(
        FrameSource(frame),
        protocol,
        checks.columns(report, "report"),
        count=count,
        categories=labels_of(categories),
        name=name,
        by=checks.columns(by, "by") or (),
        sample=SampleColumns(weight, strata, cluster, population),
        epsilon=epsilon,
        rate=rate,
        by_user=by_user,
    )


def _matches(nw, column, value, dtype):
    """Return the expression that is true where a column holds a value, compared as text except for booleans."""
    if dtype == nw.Boolean:
        texts = {"true": True, "false": False}
        if str(value).lower() not in texts:
            raise DataError(f"holds booleans, got the condition {shown(value)}", field=column)
        return nw.col(column) == texts[str(value).lower()]
    if dtype.is_float():
        return nw.col(column) == float(value)
    return nw.col(column).cast(nw.String) == str(value)


def _holds(nw, column, cell, dtype):
    """Return the expression that is true where a column holds a cell, which may be missing."""
    if cell is not None and cell == cell:
        return nw.col(column) == cell
    missing = nw.col(column).is_null()
    return missing | nw.col(column).is_nan() if dtype.is_float() else missing


def _is_whole(nw, dtype):
    """Return whether a type holds whole numbers alone, as the decimals without places that warehouses make of them do."""
    return dtype.is_integer() or (dtype == nw.Decimal and "scale=0)" in str(dtype))


def _groupable(nw, dtype):
    return dtype.is_numeric() or dtype in (nw.String, nw.Boolean, nw.Categorical, nw.Enum, nw.Date)


def _grouped(nw, frame, names, count):
    """Return (distinct rows as an eager frame, their int64 counts)."""
    parts = {"rows": nw.len()}
    if count:  # elementary aggregations only: some backends know no others
        column = nw.col("count")
        parts |= {"sum": column.sum(), "low": column.min(), "high": column.max(), "filled": column.count()}
    groups = _collected(nw, frame.group_by(names).agg(**parts))
    if not count or not len(groups):
        return groups, groups["rows"].to_numpy().astype(np.int64)
    _check_counts(groups["rows"].sum() - groups["filled"].sum(), groups["low"].min(), groups["high"].max(), count)
    if int(groups["rows"].max()) * int(groups["high"].max()) >= 2**63:  # a sum may have wrapped around
        total = _collected(nw, frame.select(nw.col("count").cast(nw.Float64).sum()))["count"][0]
        if total > 2 * MAX_COUNT:
            raise DataError("the counts add up to more than 10**12", field=count)
    return groups, _totals(groups["sum"].to_list(), count)


def _ungrouped(nw, frame, count):
    """Return (the rows as an eager frame, their int64 counts)."""
    rows = _collected(nw, frame)
    if not count or not len(rows):
        return rows, np.ones(len(rows), dtype=np.int64)
    column = rows["count"]
    _check_counts(int(column.null_count()), column.min(), column.max(), count)
    return rows, _totals(column.to_list(), count)


def _check_counts(n_missing, low, high, field):
    if n_missing or low is None or low < 0:
        raise DataError("counts must be non-negative, and none may be missing", field=field)
    if high > MAX_COUNT:
        raise DataError(f"count must be from 0 to 10**12, got {high}", field=field)


def _totals(values, field):
    """Return Python numbers as int64, or refuse where they add up to more than 10^12."""
    if sum(map(int, values)) > MAX_COUNT:
        raise DataError("the counts add up to more than 10**12", field=field)
    return np.array(values, dtype=np.int64)


def _collected(nw, frame):
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _column(nw, series, name, labelled):
    """Return a report column as parse_reports takes it."""
    if series.null_count():
        raise DataError("holds missing values", line=int(series.is_null().arg_true()[0]), field=name)
    dtype = series.dtype
    if dtype == nw.Boolean:
        return Integers(series.to_numpy().astype(np.int64), labelled, boolean=True)
    if dtype.is_integer():
        if dtype == nw.UInt64 and series.max() >= 2**63:
            raise DataError(f"holds whole numbers above 2**63, got {series.max()}", field=name)
        return Integers(series.to_numpy().astype(np.int64), labelled)
    if dtype == nw.String:
        return series.to_list()
    if dtype == nw.Decimal and _is_whole(nw, dtype):
        return _from_arrow(series, name, labelled)
    if _groupable(nw, dtype):
        values = series.to_list()
        missing = [i for i, value in enumerate(values) if value is None or value != value]
        if missing:  # also where the null is an entry of a dictionary
            raise DataError("holds missing values", line=missing[0], field=name)
        if values and all(isinstance(value, (int, np.integer)) for value in values):  # a dictionary of numbers
            return Integers(np.array(values, dtype=np.int64), labelled)
        if any(isinstance(value, bytes) for value in values):  # a dictionary of bytes
            return _from_arrow(series, name, labelled)
        return list(map(str, plain_keys(values, name)))
    return _from_arrow(series, name, labelled)


def _from_arrow(series, name, labelled):
    """Return a column of bytes, lists or Python objects, by way of Arrow."""
    optional("pyarrow", "Reading columns of bytes or lists")
    try:
        array = series.to_arrow()
    except Exception as err:
        raise DataError("holds objects that are neither texts, numbers, bytes nor lists of them", field=name) from err
    return arrow_column(array, name, labelled)


def arrow_column(array, name, labelled):
    """Return an Arrow array of reports as parse_reports takes it.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
    name : str
        The column, for messages.
    labelled : bool
        Whether the caller named the categories; see ``columns.Integers``.

    Raises
    ------
    DataError
        On missing reports, and on types that no report has.
    """
    pa = optional("pyarrow", "Reading columns of bytes or lists")
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if array.null_count:
        raise DataError("holds missing values", field=name)
    if pa.types.is_fixed_size_binary(kind):
        size, start = kind.byte_width, array.offset * kind.byte_width
        data = np.frombuffer(array.buffers()[1], dtype=np.uint8, count=len(array) * size, offset=start)
        return Bytes(np.full(len(array), size, dtype=np.int64), data)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes(array.cast(pa.large_binary()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = array.value_lengths() if not pa.types.is_fixed_size_list(kind) else None
        lengths = np.full(len(array), kind.list_size) if lengths is None else lengths.to_numpy(zero_copy_only=False)
        return Lists(lengths.astype(np.int64), _items(pa, array.flatten(), name), "lists")
    if pa.types.is_boolean(kind):
        return Integers(array.to_numpy(zero_copy_only=False).astype(np.int64), labelled, boolean=True)
    if pa.types.is_integer(kind):
        values = array.to_numpy(zero_copy_only=False)
        if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
            raise DataError(f"holds whole numbers above 2**63, got {values.max()}", field=name)
        return Integers(values.astype(np.int64), labelled)
    if pa.types.is_decimal(kind) and kind.scale == 0:  # what warehouses make of whole numbers
        with foreign("holds whole numbers above 2**63"):
            return Integers(array.cast(pa.int64()).to_numpy(zero_copy_only=False), labelled)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.to_pylist()
    if pa.types.is_date(kind):
        return list(map(str, array.to_pylist()))
    raise DataError(f"holds {kind}, which is not read; use texts, numbers, bytes or lists", field=name)


def _bytes(array):
    """Return an Arrow array of large binary as Bytes."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64, count=array.offset + len(array) + 1)[array.offset :]
    values = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return Bytes(np.diff(bounds), values[bounds[0] : bounds[-1]])


def _items(pa, array, name):
    """Return the items of lists as a bool array, an int64 array or a list of texts."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if array.null_count:
        raise DataError("holds lists with missing items", field=name)
    if pa.types.is_boolean(kind):
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind):
        values = array.to_numpy(zero_copy_only=False)
        if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
            raise DataError("holds whole numbers above 2**63", field=name)
        return values.astype(np.int64)
    if pa.types.is_null(kind):  # only empty lists
        return np.empty(0, dtype=np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.to_pylist()
    raise DataError(f"holds lists of {kind}; a set is a list of booleans, whole numbers or labels", field=name)


def _keys(series, name):
    """Return the cells of a grouping column, none of which may be missing."""
    if series.null_count():
        first = int(series.is_null().arg_true()[0])
        raise DataError("holds missing keys; fill them in or leave these rows out", line=first, field=name)
    keys = plain_keys(_exact(series), name)
    if None in keys:
        raise DataError("holds missing keys; fill them in or leave these rows out", line=keys.index(None), field=name)
    if len({type(key) for key in keys}) > 1:
        check_kinds(kinds_of((key,) for key in keys), [name])
    return keys


def _exact(series):
    """Return a series as Arrow holds it, whose times keep their nanoseconds, or as a list where it holds objects."""
    import narwhals as nw

    if isinstance(series.dtype, nw.Datetime):
        with contextlib.suppress(Exception):  # a zone that Arrow does not know
            return series.to_arrow()
    return series.to_list()
