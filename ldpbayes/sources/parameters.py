"""Protocols that travel with their reports: as JSON in a constant column, and in the metadata of a Parquet file."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, listed, shown
from ldpbayes.protocols import AbstractProtocol, make_protocol
from ldpbayes.sources.constants import MAX_TEXT

#: The column of a table that states the protocol of each report.
COLUMN = "protocol"
#: The key under which the metadata of a Parquet file states the same; a courtesy, since other programs drop it.
METADATA = "ldpbayes.protocol"

#: Format: The version of the wire format (docs/wire-format.md) that is written and read; texts that state none are of this
#: one.
VERSION = 1
_KEYS = {"version", "protocol", "n_categories", "categories", "parameters"}


@dataclass(frozen=True, eq=False)
class Stated:
    """A protocol as the data or the caller states it."""

    protocol: AbstractProtocol
    categories: tuple[str, ...] | None = None


def check_protocol(protocol: Any) -> None:
    """Refuse what is no protocol: the class of one, its name, or anything else."""
    if not isinstance(protocol, AbstractProtocol):
        got, say = type(protocol).__name__, ""
        if isinstance(protocol, str):
            say = f"; make_protocol({protocol!r}, categories, parameters) makes one"
        elif isinstance(protocol, type):
            got, say = f"the class {protocol.__name__}", "; call it with its parameters"
        raise ArgumentError(f"protocol must be an object, such as GRR(4, epsilon=1.0), got {got}{say}.")


def protocol_text(protocol: AbstractProtocol, categories: Sequence[str] | None = None) -> str:
    """Return a protocol as one line of JSON, which ``parse_protocol`` reads back exactly.

    Parameters
    ----------
    protocol : AbstractProtocol
    categories : sequence of str, optional
        Labels of the categories, which then travel with it.

    Returns
    -------
    str

    Examples
    --------
    >>> from ldpbayes.protocols.grr import GRR
    >>> protocol_text(GRR(3, epsilon=1.0), ["a", "b", "c"])
    '{"version":1,"protocol":"grr","n_categories":3,"categories":["a","b","c"],"parameters":{"epsilon":1.0}}'
    """
    document: dict[str, Any] = {"version": VERSION, "protocol": protocol.design, "n_categories": protocol.n_categories}
    document |= {} if categories is None else {"categories": list(categories)}
    document["parameters"] = plain(protocol.parameters())
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=256)
def parse_protocol(text: str) -> Stated:
    """Return the protocol, and the labels if any, that a text of ``protocol_text`` states.

    The text is a JSON object: ``protocol`` is a name of ``ldpbayes protocols``, ``n_categories`` or ``categories`` (labels)
    give the alphabet, ``parameters`` are those of a collection file.

    Raises
    ------
    DataError
        On anything else.
    """
    try:
        if len(text) > MAX_TEXT:
            raise ValueError("too long")
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"must hold a protocol as JSON, got {shown(text)}", field=COLUMN) from None
    if not isinstance(document, dict) or not isinstance(document.get("protocol"), str):
        raise DataError(f'must hold a JSON object with the key "protocol", got {shown(text)}', field=COLUMN)
    version = document.get("version", VERSION)
    if type(version) is not int or version != VERSION:
        raise DataError(f"states version {shown(version)} of the wire format, and version {VERSION} is read", field=COLUMN)
    for key in document:
        if key not in _KEYS:
            raise DataError(f"has the unknown key {shown(key)}; known are {', '.join(sorted(_KEYS))}", field=COLUMN)
    parameters = document.get("parameters", {})
    if not isinstance(parameters, dict):
        raise DataError(f"parameters must be a JSON object, got {shown(parameters)}", field=COLUMN)
    if document.get("categories") is None and "n_categories" not in document:
        raise DataError("must state n_categories or categories", field=COLUMN)
    try:
        labels = labels_of(document.get("categories"))
        size = checks.categories_count(document.get("n_categories", len(labels or ())))
        if labels is not None and len(labels) != size:
            raise ArgumentError(f"categories must be {size} labels, got {len(labels)}.")
        protocol = make_protocol(document["protocol"], labels or size, parameters)
        labels = labels_of(labels, protocol)
    except (LDPBayesError, TypeError, ValueError, OverflowError) as err:
        raise DataError(str(err).rstrip("."), field=COLUMN) from None
    return Stated(protocol, labels)


def states_protocols(texts: Iterable[object]) -> bool:
    """Return whether all entries of a column look like protocols; a column of this name may hold something else."""
    stated = [str(text).lstrip()[:1] == "{" for text in texts]
    return bool(stated) and all(stated)


def stated_throughout(texts: Collection[str], metadata: Collection[str | None]) -> bool:
    """Return whether the data say how every report was made: by the column, or by the metadata of all files."""
    return bool(texts) or (bool(metadata) and all(metadata))


def protocols_of(
    texts: Collection[str],
    metadata: Collection[str | None] = (),
    given: AbstractProtocol | None = None,
    categories: Sequence[str] | None = None,
) -> tuple[dict[str, AbstractProtocol], tuple[str, ...] | None]:
    """Return the protocols that a table states, by the text of its column, and the labels of their categories.

    ``texts`` are the distinct entries of the column ``protocol``, none where there is no such column: the only text is then
    "". ``metadata`` are what those of each file state, None where they state nothing; they then stand for all reports only
    beside the caller's protocol. Contradictions between column, metadata and arguments are refused, and a protocol that is
    stated nowhere, or by some files alone.
    """
    column = {text: parse_protocol(text) for text in texts}
    courtesy = [parse_protocol(text) for text in dict.fromkeys(metadata) if text]
    stated = list(column.values()) or courtesy
    if given is None and not stated_throughout(texts, metadata):
        silent = sum(not text for text in metadata)
        some = f", and {silent} of {len(metadata)} files do not state it in their metadata either" if courtesy else ""
        raise ArgumentError(f"protocol must be given: the data have no column 'protocol' that states it{some}.")
    if not stated:
        return {"": cast(AbstractProtocol, given)}, labels_of(categories, given)
    where = "the column 'protocol'" if column else "the metadata"
    for entry in stated:
        if given is not None and entry.protocol != given:
            raise DataError(
                f"{where} states {shown(entry.protocol)}, the argument {shown(given)}; leave the argument out, or correct it"
            )
    for other in courtesy if column else courtesy[1:]:
        if all(other.protocol != entry.protocol for entry in (stated if column else stated[:1])):
            most = "the column 'protocol'" if column else "that of another file"
            raise DataError(
                f"the metadata of a file states {shown(other.protocol)}, {most} {shown(stated[0].protocol)}; read the "
                "files of each protocol by themselves, or write that file again"
            )
    labels = None if categories is None else tuple(categories)
    for entry in stated:
        if entry.protocol.n_categories != stated[0].protocol.n_categories:
            sizes = listed(sorted({entry.protocol.n_categories for entry in stated}))
            raise DataError(f"{where} states protocols over different numbers of categories ({sizes}); read them separately")
        if entry.categories is not None:
            if labels is not None and entry.categories != labels:
                source = "the caller" if categories is not None else "another entry"
                raise DataError(f"{where} states other categories than {source}{difference(labels, entry.categories)}")
            labels = entry.categories
    labels = labels_of(labels, stated[0].protocol)
    return {text: entry.protocol for text, entry in column.items()} or {"": stated[0].protocol}, labels


def difference(labels: Sequence[str], others: Sequence[str]) -> str:
    """Return the first two labels by which two lists of categories differ, for the end of a sentence."""
    first = next((pair for pair in zip(labels, others, strict=False) if pair[0] != pair[1]), None)
    return f", such as {shown(first[0])} and {shown(first[1])}" if first else ""


def channel_names(protocols: Sequence[AbstractProtocol]) -> list[str]:
    """Return a distinct name for the channel of each protocol, such as "grr, epsilon 1"."""
    names: list[str] = []
    for protocol in protocols:
        name = f"{protocol.design}, epsilon {protocol.epsilon:.6g}"
        same = sum(other == name or other.startswith(f"{name}, ") for other in names)
        names.append(f"{name}, {same + 1}" if same else name)
    return names


def labels_of(categories: Any, protocol: AbstractProtocol | None = None) -> tuple[str, ...] | None:
    """Return labels as distinct texts, one for each category of a protocol where it is known; None where none are given."""
    if categories is None:
        return None
    rule = "distinct texts, one per category"
    labels = None if isinstance(categories, str) else checks.labels(categories, "categories", rule)
    if labels is None or not checks.distinct(labels):
        raise ArgumentError(f"categories must be {rule}, got {shown(categories)}.")
    if protocol is not None and len(labels) != protocol.n_categories:
        raise ArgumentError(f"categories must be the protocol's {protocol.n_categories} labels, got {len(labels)}.")
    if protocol is not None:
        protocol.check_categories(labels)
    return labels


def plain(value: Any, number: Callable = lambda x: x) -> Any:
    """Return parameters as JSON and TOML hold them, floating-point numbers as ``number`` writes them."""
    if isinstance(value, dict):
        return {str(key): plain(item, number) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, number) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist(), number)
    return number(value) if isinstance(value, float) else value
