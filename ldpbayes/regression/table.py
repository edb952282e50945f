"""Tables of a regression: any data frame as pandas columns of plain types, and its distinct rows."""

import numbers
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ldpbayes.errors import DataError, listed, shown
from ldpbayes.sources.base import foreign, optional


def clean(
    table: Any,
    variables: Sequence[str],
    *,
    bad_rows: str = "refuse",
    extra: Sequence[str] = (),
    reported: Mapping[str, np.ndarray] | None = None,
    remedy: str = "fill it in, or leave them out with bad_rows='skip'",
) -> tuple[Any, np.ndarray]:
    """Return (pandas frame of the variables in plain types, which rows are kept).

    Parameters
    ----------
    table : pandas.DataFrame
    variables : sequence of str
    bad_rows : {"refuse", "skip"}
        Whether rows where a variable, or a column that they need, is missing are refused or left out.
    extra : sequence of str
        Other columns that must exist.
    reported : mapping of str to (n,) bool array, optional
        Columns of reports, of how they were made and of the sample: which rows need them.
    remedy : str
        What to do about missing values, for the error.

    Raises
    ------
    DataError
        On unknown columns, missing values, and values that are not finite.
    """
    import pandas as pd

    names = [str(name) for name in table.columns]
    for name in [*variables, *extra]:
        if name not in names:
            raise DataError(f"the frame has no column {shown(name)}; it has {listed(names) or 'none'}")
    kept = np.ones(len(table), dtype=bool)
    columns: dict[str, Any] = {}
    reported = reported or {}
    for name in dict.fromkeys((*variables, *reported)):
        values = table[name]
        gone = values.isna().to_numpy() & (True if name in variables else reported[name])
        if gone.any() and bad_rows == "refuse":
            raise DataError(
                f"is missing in {int(gone.sum()):,} of {len(table):,} rows; {remedy}",
                field=name,
            )
        kept &= ~gone
        columns |= {name: values} if name in variables else {}
    if not kept.any():
        raise DataError("the frame has no rows" if not len(table) else "no row has all covariates and a report")
    out = {}
    for name, values in columns.items():
        values = values[kept]
        kind = str(values.dtype).lower()
        if kind.startswith("sparse"):
            values = values.sparse.to_dense()
            kind = str(values.dtype).lower()
        if kind.startswith(("datetime", "timedelta", "period", "timestamp", "duration", "date32", "date64", "time")):
            raise DataError("holds times; turn them into numbers, such as years, or into texts for a factor", field=name)
        if kind == "category":
            levels = values.cat.categories
            if values.cat.ordered:
                if len(set(map(str, levels))) < len(levels):
                    raise DataError("has two levels that are written alike", field=name)
                out[name] = pd.Categorical(_texts(values, name), list(map(str, levels)), ordered=True)
            else:
                out[name] = _texts(values, name)
        elif kind.startswith(("bool", "boolean")):
            out[name] = values.to_numpy(dtype=bool)
        elif kind.startswith(("int", "uint")) and values.max() <= np.iinfo(np.int64).max:
            out[name] = values.to_numpy(dtype=np.int64)
        elif kind.startswith(("int", "uint", "float", "double", "decimal")) or (
            kind == "object" and all(isinstance(value, (numbers.Real, Decimal)) for value in values)
        ):  # such as decimals of a database
            out[name] = _floats(values, name)
        elif kind.startswith("complex"):
            raise DataError("holds complex numbers; a covariate is a real one", field=name)
        else:
            out[name] = _texts(values, name)
    return pd.DataFrame(out, index=range(int(kept.sum()))), kept


def _texts(values: Any, name: str) -> np.ndarray:
    """Return the values of a column as texts, or the error of bytes that are none."""
    try:
        return values.astype(str).to_numpy(dtype=object)
    except UnicodeDecodeError:
        raise DataError("holds bytes that are no UTF-8 text; decode them first", field=name) from None


def to_pandas(frame: Any) -> Any:
    """Return any data frame as a pandas one.

    Raises
    ------
    ArgumentError
        Where it is none, or the package that converts it is missing.
    """
    pandas = optional("pandas", "A regression", "regress")
    if isinstance(frame, pandas.DataFrame):
        table = frame
    elif isinstance(frame, Mapping):
        with foreign("the columns do not make a table"):
            table = pandas.DataFrame({name: [value] if np.isscalar(value) else value for name, value in frame.items()})
    else:
        from ldpbayes.sources.frames import eager

        table = eager(frame).to_pandas()
    if len(set(map(str, table.columns))) < len(table.columns):
        raise DataError("the frame has two columns of the same name; rename one")
    return table.rename(columns=str).reset_index(drop=True)


def distinct_rows(columns: Sequence[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (first row of each distinct row, in order of appearance, number of the distinct row of each row)."""
    import pandas as pd

    table = pd.DataFrame({k: np.asarray(column) for k, column in enumerate(columns)})
    code = table.groupby(list(table), sort=False).ngroup().to_numpy() if columns else np.zeros(size, dtype=np.int64)
    return np.unique(code, return_index=True)[1], code


def _floats(values, name):
    """Return a column of numbers in double precision."""
    try:
        floats = values.to_numpy(dtype=float)
    except (ArithmeticError, TypeError, ValueError):  # an integer of 400 digits, a signalling NaN
        raise DataError(
            "has numbers that double precision cannot hold; divide them, or turn them into texts", field=name
        ) from None
    if not np.isfinite(floats).all():
        raise DataError("has values that are not finite", field=name)
    return floats
