"""Data frames: pandas, Polars, DuckDB relations and whatever else narwhals reads, by their Arrow export."""

import functools
from os import PathLike
from typing import Any

from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.sources.base import foreign, optional
from ldpbayes.sources.constants import BATCH
from ldpbayes.sources.keys import check_kinds, kinds_of, plain_keys
from ldpbayes.sources.stream import COUNT, Source


def opened(data):
    """Return the Source of a data frame, eager or lazy; a lazy one groups its own rows. None where narwhals reads none."""
    try:
        frame = narwhal(data)
    except TypeError:
        return None
    with foreign("the frame cannot be read"):
        names, lazy = list(frame.collect_schema()), _is_lazy(frame)

    def read(columns, most):
        chosen = frame.select(columns)
        return _batches(chosen if most is None else chosen.head(most))

    return Source(names, read, functools.partial(_counted, frame) if lazy else None, n_rows=None if lazy else len(frame))


def _counted(frame, columns):
    """Return the distinct rows of a lazy frame with their number, by its engine; None of columns that it does not group."""
    import narwhals as nw

    with foreign("the frame cannot be read"):
        schema = frame.collect_schema()
        if any(schema[name] in (nw.List, nw.Array, nw.Object, nw.Struct, nw.Binary) for name in columns):
            return None
        plain = [f"column {i}" for i in range(len(columns))]  # some engines read a point in a name as that of a table
        own = frame.select(*(nw.col(name).alias(new) for name, new in zip(columns, plain, strict=True)))
        counted = arrow_of(own.group_by(plain).agg(nw.len().alias(COUNT)), [*plain, COUNT])
        return counted.rename_columns([*columns, COUNT])


def narwhal(frame: Any) -> Any:
    """Return a frame as narwhals has it; a TypeError where it is none that narwhals reads."""
    narwhals = optional("narwhals", "Reading a data frame")
    try:
        return narwhals.from_native(frame)
    except narwhals.exceptions.DuplicateError as err:
        raise DataError("the frame has two columns of the same name; rename one") from err
    except narwhals.exceptions.NarwhalsError as err:
        raise DataError(f"the frame cannot be read: {str(err).splitlines()[0]}") from err


def eager(frame: Any) -> Any:
    """Return any data frame as a narwhals DataFrame; a lazy one is collected.

    Raises
    ------
    ArgumentError
        Where narwhals does not read it.
    """
    try:
        frame = narwhal(frame)
    except TypeError as err:
        hint, got = "", type(frame).__name__
        if isinstance(frame, str | PathLike):
            hint, got = ", as pandas.read_csv makes one of a file", shown(frame)
        raise ArgumentError(f"data must be a data frame that narwhals reads{hint}, got {got}.") from err
    with foreign("the frame cannot be read"):
        return frame.collect() if _is_lazy(frame) else frame


def arrow_of(frame: Any, columns: Any) -> Any:
    """Return columns of a frame that narwhals reads as an Arrow table."""
    with foreign("the frame cannot be read"):
        frame = narwhal(frame).select(list(dict.fromkeys(columns)))
        return _to_arrow(_collected(frame))


def _to_arrow(frame):
    """Return an eager frame as an Arrow table, or the sentence for a column of Python objects that Arrow does not hold."""
    import pyarrow as pa

    try:
        table = frame.to_arrow()
        _check_objects(frame, table)
        return table
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as err:
        for name in frame.columns:
            try:
                frame.select(name).to_arrow()
            except Exception:
                problem = (
                    "holds values of several kinds, or objects that are neither texts, numbers, bytes nor lists of them"
                )
                problem = "holds whole numbers beyond 64 bits" if isinstance(err, OverflowError) else problem
                raise DataError(problem, field=name) from err
        raise


def _check_objects(frame, table):
    """Refuse a column of Python objects of several kinds, of which Arrow makes numbers."""
    import narwhals as nw
    from pyarrow import types

    for name, dtype in frame.schema.items() if frame.implementation.is_pandas_like() else ():
        kind = table.schema.field(name).type
        if dtype == nw.Object and (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            keys = [(key,) for key in plain_keys(frame[name].to_list(), name) if key is not None]
            check_kinds(kinds_of(keys), [name])


def _is_lazy(frame):
    import narwhals as nw

    return isinstance(frame, nw.LazyFrame)


def _collected(frame):
    """Return a frame collected, as Arrow where the engine can."""
    if not _is_lazy(frame):
        return frame
    kind = frame.implementation
    return frame.collect() if kind.is_polars() or kind.is_dask() else frame.collect("pyarrow")


def _batches(frame):
    """Yield a frame's rows as record batches, without holding all of them where the engine can."""
    with foreign("the frame cannot be read"):
        native, kind = frame.to_native(), frame.implementation
        if _is_lazy(frame) and kind.is_duckdb():
            newer = "to_arrow_reader" in dir(native)
            yield from native.to_arrow_reader(BATCH) if newer else native.fetch_arrow_reader(BATCH)
        elif _is_lazy(frame) and kind.is_polars() and "collect_batches" in dir(native):
            for batch in native.collect_batches(chunk_size=BATCH, maintain_order=True):
                yield from batch.to_arrow().to_batches()
        else:
            frame = _collected(frame)
            for start in range(0, len(frame), BATCH):
                yield from _to_arrow(frame[start : start + BATCH]).to_batches()
