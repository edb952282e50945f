"""Rows of covariates in which everybody's value of one of them is changed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown


def changed(
    frame: Any, variable: str, own: Any, number: bool, values: Sequence[Any] | None = None
) -> tuple[list[Any], list[str]]:
    """Return (frames, labels of the differences between each of them and the first).

    Parameters
    ----------
    frame : pandas.DataFrame
    variable : str
    own : pandas.Series
        The values of the fit.
    number : bool
        Whether the variable enters as a number.
    values : sequence, optional
        By default the levels of a factor, the two values of a number that has two, and otherwise everybody's own value with
        one more.

    Raises
    ------
    ArgumentError
        Where values are fewer than two, or not like those of the variable.
    """
    chosen = own.sort_values().unique().tolist() if values is None else compared(values)
    if values is None and number and len(chosen) > 2:
        return [frame, frame.assign(**{variable: frame[variable] + 1})], ["+1"]
    return [_with(frame, variable, value, own) for value in chosen], [f"{value} - {chosen[0]}" for value in chosen[1:]]


def compared(values: Any) -> list[Any]:
    """Return values to compare, of which there must be two."""
    rule = "at least two values to compare"
    chosen = [] if isinstance(values, str) else list(checks.entries(values, "values", rule))
    if len(chosen) < 2:
        raise ArgumentError(f"values must be {rule}, got {shown(values)}.")
    return chosen


def _with(frame: Any, variable: str, value: Any, like: Any) -> Any:
    """Return the frame with one value for everybody, in the type of the variable; the design refuses levels it has not."""
    if like.dtype.kind in "iuf":
        number = float(checks.reals(value, "values", f"finite numbers like those of {variable!r}", ndim=0))
        value = int(number) if like.dtype.kind != "f" and number.is_integer() else number
    elif like.dtype.kind == "b":
        if not isinstance(value, (bool, np.bool_)) and (isinstance(value, str) or value not in (0, 1)):
            raise ArgumentError(f"values must be True or False like those of {variable!r}, got {shown(value)}.")
        value = bool(value)
    else:
        value = str(value)
    return frame.assign(**{variable: value})
