"""Keys of cells: entries of grouping columns as plain Python values that are equal where the entries are."""

import datetime
import decimal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ldpbayes.errors import DataError, LDPBayesWarning, shown, warn
from ldpbayes.sources.base import foreign
from ldpbayes.sources.constants import DIGITS


def plain_keys(array: Any, name: str) -> list:
    """Return the entries of an Arrow array, or of a list of Python values, as plain keys; None where one is missing.

    Two keys are equal where their entries are: −0.0 is 0.0, a decimal without places is a whole number, and a time with a
    zone is its wall time with its distance from UTC, so that the two half past twos of a night in autumn are two.

    Raises
    ------
    DataError
        On an entry that is neither a text, a number nor a date.
    """
    with foreign("holds dates that are not read"):
        values = array if isinstance(array, list) else array.to_pylist()
    return [_plain(value, name) for value in values]


def _plain(value, name):
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, (float, np.floating)):
        return float(value) + 0.0 if value == value else None
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            return None
        is_whole = value.is_finite() and value.adjusted() < DIGITS and value == value.to_integral_value()
        return int(value) if is_whole else value
    if isinstance(value, datetime.datetime):
        return _time(value, name)
    if isinstance(value, (str, int, datetime.date)):
        return value
    pandas = sys.modules.get("pandas")
    if pandas is not None and value is pandas.NA:
        return None
    raise DataError(f"must hold texts, numbers or dates, got {shown(value)}", field=name)


def _time(value, name):
    """Return a time as Python's own, with its distance from UTC instead of its zone."""
    if value != value:  # pandas.NaT
        return None
    offset = value.utcoffset()
    value = value if offset is None else value.astimezone(datetime.timezone(offset))
    plain = value if type(value) is datetime.datetime else value.to_pydatetime(warn=False)
    if plain != value:  # pandas.Timestamp
        raise DataError(f"holds times finer than a microsecond, got {value}; round them", field=name)
    return plain


def kind_of(key: Any) -> str:
    """Return the kind of a key; values of two kinds may be equal in Python, as True, 1 and 1.0 are."""
    if isinstance(key, str):
        return "texts"
    if isinstance(key, bool):
        return "booleans"
    if isinstance(key, (int, decimal.Decimal)):
        return "whole or decimal numbers"
    if isinstance(key, float):
        return "floating-point numbers"
    return "times" if isinstance(key, datetime.datetime) else "dates"


def kinds_of(keys: Iterable[tuple]) -> tuple[frozenset[str], ...]:
    """Return the kinds of keys that each grouping column has."""
    return tuple(frozenset(map(kind_of, column)) for column in zip(*keys, strict=True))


def check_kinds(kinds: Iterable[frozenset[str]], by: Sequence[str]) -> None:
    """Refuse a grouping column whose entries are of several kinds: equal ones of them would be one cell."""
    for name, kinds_of_key in zip(by, kinds, strict=False):  # without rows there are no kinds
        if len(kinds_of_key) > 1:
            first, second, *_ = sorted(kinds_of_key)
            raise DataError(f"holds {first} in some rows and {second} in others", field=name)


def check_alike(keys: Iterable[tuple], by: Sequence[str | None]) -> None:
    """Refuse numbers of a grouping column of which several are one, and warn of texts that look the same and are two.

    ``by`` has None in the place of a column that holds no keys.
    """
    for name, parts in zip(by, zip(*keys, strict=True), strict=False):
        seen: dict[str, list[str]] = {}
        for part in dict.fromkeys(parts) if name else ():
            if isinstance(part, float) and 2**53 <= abs(part) < np.inf:
                raise DataError(f"holds {part:.17g} in floating point, which stands for several whole numbers", field=name)
            if isinstance(part, str):
                seen.setdefault(unicodedata.normalize("NFC", part).strip(), []).append(part)
        twins = next((sorted(texts) for texts in seen.values() if len(texts) > 1), None)
        if twins is not None:
            warn(
                f"The column {shown(name)} holds {shown(twins[0])} and {shown(twins[1])}, which differ in blanks around "
                "them or in how Unicode writes an accent, and are two; write them alike to make them one.",
                LDPBayesWarning,
            )


_READ: dict[str, Callable] = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "decimal": decimal.Decimal,
}


def as_json(part: Any) -> Any:
    """Return an entry of a key as JSON holds it; ``from_json`` returns the entry."""
    if isinstance(part, decimal.Decimal):
        return {"decimal": str(part)}
    for kind in (datetime.datetime, datetime.date):
        if isinstance(part, kind):
            return {kind.__name__: part.isoformat()}
    return part


def from_json(part: Any) -> Any:
    """Return the entry of a key that ``as_json`` wrote."""
    if isinstance(part, dict):
        ((name, text),) = part.items()
        return _READ[name](text)
    return part
