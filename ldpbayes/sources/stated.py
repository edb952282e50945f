"""What a collection file states of reports beside their channels: the same keys for a table, where a caller states them."""

from collections.abc import Mapping
from typing import Any

from ldpbayes.collections import Derived
from ldpbayes.collections.noncompliance import deniers_stated
from ldpbayes.errors import DataError, listed, shown

#: Keys whose values are texts that a reader should know.
TEXTS = ("id", "title", "question", "citation", "licence", "notes")
#: Keys about respondents who ignore the device or deny.
DOUBTS = ("noncompliance", "deniers")
#: Keys that describe the reports and their categories, with the kind of their values.
DESCRIBED: dict[str, type] = {**dict.fromkeys(TEXTS, str), **dict.fromkeys(("derived", *DOUBTS), dict), "ordered": bool}
_KINDS = {str: "text", int: "a whole number", list: "a list", dict: "a table", bool: "true or false"}


def checked(table: Mapping, kinds: Mapping[str, type], path: Any, field: str | None = None) -> dict[str, Any]:
    """Return the values of all keys that a table may have, None where one is missing; other keys and types are refused."""
    unknown = next((key for key in table if key not in kinds), None)
    if unknown is not None:
        keys = listed(sorted(kinds), most=20)
        raise DataError(f"unknown key {shown(unknown)}; known are {keys}", source=path, field=field)
    for key, kind in kinds.items():
        value = table.get(key, kind())
        if kind is not object and not (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
            raise DataError(f"{key} must be {_KINDS[kind]}, got {shown(value)}", source=path, field=field or key)
    return {key: table.get(key) for key in kinds}


def merged(document: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the keys that a caller states in their place; of a table, the entries that are stated."""
    both = {key: {**document[key], **value} for key, value in stated.items() if _tables(document.get(key), value)}
    return {**document, **stated, **both}


def _tables(*values):
    return all(isinstance(value, Mapping) for value in values)


def facts(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a collection that keys of DESCRIBED state."""
    out = {key: stated[key] for key in TEXTS if stated.get(key) is not None}
    if stated.get("ordered") is not None:
        out["ordered"] = stated["ordered"]
    if stated.get("derived"):
        out["derived"] = tuple(_derived(name, entry) for name, entry in stated["derived"].items())
    return out


def doubted(data: Any, stated: Mapping[str, Any]) -> Any:
    """Return reports with the respondents who ignore the device, or deny, that keys of DOUBTS state."""
    if stated.get("noncompliance"):
        data = data.with_noncompliers(stated["noncompliance"])
    return data.with_deniers(**deniers_stated(stated["deniers"])) if stated.get("deniers") else data


def _derived(name, entry):
    lists = [entry.get("of"), entry.get("given", [])] if isinstance(entry, dict) else [None]
    good = all(isinstance(labels, list) and all(isinstance(label, str) for label in labels) for labels in lists)
    if not good or set(entry) - {"of", "given"} or not entry["of"]:
        raise DataError("must have of = [categories] and, for a share, given = [categories]", field=f"derived.{name}")
    return Derived(name, tuple(entry["of"]), tuple(entry.get("given", ())))
