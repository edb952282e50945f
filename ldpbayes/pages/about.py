"""Question, design and source of the data in words, and what it takes to compute a page again."""

import hashlib
import importlib
import math
import platform
import re
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from ldpbayes.collections import Cells, Collection
from ldpbayes.collections.data import value_in_words
from ldpbayes.pages.prose import number_of
from ldpbayes.result.extending import BESIDE_PREDICTIONS
from ldpbayes.result.facts import facts_of
from ldpbayes.version import __version__

#: Libraries whose versions may change a number in its last digits.
LIBRARIES = ("numpy", "scipy", "xarray")
#: What to cite for the program and for its estimators.
REFERENCE = (
    "ldpbayes {version}. The estimators are those of M. Lopuhaä-Zwakenberg, Z. Li, B. Škorić and N. Li (2020), Improving "
    "frequency estimation under local differential privacy, and of the papers that its documentation names."
)


def about(collection: Collection | Cells) -> dict[str, str]:
    """Return what a reader should know of a collection before its numbers, by heading.

    Returns
    -------
    dict of str to str
        Question, design (one paragraph per channel), groups, notes, source and licence; those that are known.
    """
    cells: list[Any] = [cell for cell in collection.collections() if cell.keeps_reports]
    first = cells[0] if cells else None
    texts = {"Question": first.question if first else "", "Answers": _answers(collection.answers)}
    channels = {tally.name: tally.protocol for cell in cells for tally in cell.tallies}
    users = {name: sum(t.n_reports for cell in cells for t in cell.tallies if t.name == name) for name in channels}
    texts["Design"] = " ".join(
        _channel(name, protocol, users[name], len(channels), collection.answers) for name, protocol in channels.items()
    )
    if collection.by:
        sizes = np.array([cell.n_reports for cell in collection.collections()])
        unit = "user" if channels and all(protocol.repeats() for protocol in channels.values()) else "report"
        per = f"{sizes.min():,} to {sizes.max():,} {unit}s" if sizes.min() < sizes.max() else number_of(sizes[0], unit)
        texts["Groups"] = f"{sizes.size:,} groups by {' and '.join(collection.by)}, with {per} each."
    texts["Notes"] = _paragraphs(first.notes if first else collection.notes)
    texts |= {"Source": first.citation, "Licence": first.licence} if first else {}
    return {heading: text for heading, text in texts.items() if text}


def _paragraphs(text):
    """Return text with one line a paragraph: a line that does not end a sentence goes on in the next."""
    return re.sub(r"(?<![.!?:;)])[ \t]*\n[ \t]*(?=\S)", " ", text.strip())


def _answers(categories):
    if len(categories) <= 12:
        return f"{len(categories)} categories: {', '.join(categories)}."
    return f"{len(categories):,} categories, from {categories[0]} to {categories[-1]}."


def _denied(law, label, labels):
    """Return who denies a category in a channel, in words; empty where nobody does."""
    said = labels[law.targets[0]]
    return "" if said == label else f" Some who are {label!r} report as {said!r} would."


def _channel(name, protocol, users, total, labels):
    """Return one channel in words: protocol, parameters, ε and what ε means."""
    from ldpbayes.protocols.registry import describe_protocol

    wrapped = protocol.noncompliance()
    if wrapped is not None:
        laws = "; ".join(
            textwrap.shorten(law.words(wrapped.compliers, labels), 60, placeholder=" …") for law in wrapped.laws
        )
        other = f" Respondents who ignore the device report by another law ({laws}); nothing of their answers is sent."
        if wrapped.of:
            other = "".join(_denied(law, labels[x], labels) for law, x in zip(wrapped.laws, wrapped.of, strict=True))
        return _channel(name, wrapped.compliers, users, total, labels) + other
    described = describe_protocol(protocol.design)
    settings = [f"{key} = {value_in_words(value)}" for key, value in protocol.parameters().items() if key != "epsilon"]
    start = f"Channel {name}: " if total > 1 else ""
    unit, what = ("user", "nothing that a user sends") if protocol.repeats() else ("report", "no report")
    text = f"{start}{number_of(users, unit)} through {protocol.design.replace('_', ' ')}"
    text += f" ({', '.join(settings)})." if settings else "."
    if described is not None:
        text += f" {described.summary.rstrip('.')}."
    epsilon, known = float(protocol.epsilon), protocol.device_law() is None
    if 0 < epsilon < 30:
        means = "With its probabilities at the means of their distributions, the device has"
        level = "The privacy level is" if known else means
        text += (
            f" {level} ε = {epsilon:.3g}: {what} is more than {math.exp(epsilon):.3g} times as likely from one true answer "
            "as from another."
        )
    elif math.isinf(epsilon):
        text += " Some reports exclude a true answer with certainty, so that ε is infinite."
    return text


def again(command: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return what it takes to compute the same numbers, by heading; what is empty is left out.

    Parameters
    ----------
    command : str
        A line for a shell.
    known : mapping of str to str
        What the result itself knows, such as its seed.

    Returns
    -------
    dict of str to str
        Command, what is known, versions of programs, and what to cite.
    """
    versions = [f"ldpbayes {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {importlib.import_module(name).__version__}" for name in LIBRARIES]
    cite = REFERENCE.format(version=__version__)
    texts = {"Command": command, **known, "Versions": ", ".join(versions), "Please cite": cite}
    return {heading: text for heading, text in texts.items() if text}


def known_of(result: Any) -> dict[str, str]:
    """Return seed, settings and the fingerprint of the data of a tree of arrays, by heading."""
    variables = result["observed_data"].data_vars if "observed_data" in result.children else {}
    arrays = {str(name): x.values for name, x in variables.items() if x.attrs != BESIDE_PREDICTIONS}
    data = fingerprint_of_arrays(result["summary"]["category"].values, arrays)
    return {
        "Design": result.attrs.get("mechanisms", ""),
        "Prior": result.attrs.get("prior", ""),
        "Random seed": str(result.attrs["random_seed"]),
        "Settings": facts_of(result).get("call") or result.attrs.get("settings", ""),
        "Data (SHA-256)": data,
    }


def fingerprint(collection: Collection | Cells) -> str:
    """Return the SHA-256 of the categories and of all distinct reports with their counts.

    Returns
    -------
    str
        The same as ``fingerprint_of_arrays`` of what a result keeps of the data.
    """
    arrays = {name: np.asarray(values) for name, (_, values) in collection.observed().items()}
    return fingerprint_of_arrays(collection.categories, arrays)


def fingerprint_of_arrays(categories, observed: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of labels and of arrays by name; integers count by value, not by width.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256("\0".join(map(str, categories)).encode())
    for name in sorted(observed):
        values = np.asarray(observed[name])
        kind = "<i8" if values.dtype.kind in "iu" and values.dtype.itemsize <= 8 else values.dtype.newbyteorder("<")
        digest.update(f"\0{name}{values.shape}".encode())
        digest.update(np.ascontiguousarray(values.astype(kind)).tobytes())
    return digest.hexdigest()
