"""Collections whose devices have uncertain probabilities: over pairs of a category and what the devices do to its people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes.collections.noncompliance import extended
from ldpbayes.collections.tally import Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.protocols.outcomes import DeviceOutcomes
from ldpbayes.protocols.uncertain import DeviceLaw

#: Memory: Outcomes of all uncertain devices of a collection: each is a category of the likelihood.
MAX_OUTCOMES = 2**12


def over_outcomes(protocols: Mapping[str, Any], categories: Sequence[str]) -> tuple[dict, tuple[str, ...]]:
    """Return (protocols over the outcomes of the uncertain devices among them, labels of the outcomes).

    As they are where every device is known. Equal protocols are one device.

    Parameters
    ----------
    protocols : mapping of str to AbstractProtocol
        By the name of a channel.
    categories : sequence of str

    Raises
    ------
    ArgumentError, InfeasibleError
        Where the devices have too many outcomes together, or some respondents may deny or ignore the device.
    """
    devices: dict[Any, str] = {}
    for name, protocol in protocols.items():
        if not protocol.owners and protocol.device_law() is not None:
            devices.setdefault(protocol, name)
    if not devices:
        return dict(protocols), tuple(categories)
    if any(protocol.owners for protocol in protocols.values()):
        raise InfeasibleError(
            "Respondents who deny or ignore the device and a device with uncertain probabilities cannot be fitted together. "
            "Take the device as known: by its known(), and with its probabilities at either end of their distributions. "
            "What differs between these fits is what its uncertainty could change. Or leave out who denies or ignores it."
        )
    first, *others = (device.device_law() for device in devices)
    law, places = first.beside(others, MAX_OUTCOMES)
    law = law.named([names for device, name in devices.items() for names in _names(device, categories, name, len(devices))])
    kernels = {device: device.device_law().kernel[:, at] for device, at in zip(devices, places, strict=True)}
    labels, seen = list(categories), list(range(len(categories)))
    for x in law.owners:
        labels.append(f"{categories[x]}, outcome {seen.count(x) + 1}")
        seen.append(x)
    if clash := next((label for label in labels[len(categories) :] if label in categories), None):
        raise ArgumentError(f"categories must leave the name {clash!r} to an outcome of the device; rename that one.")
    wrapped = {protocol: DeviceOutcomes(protocol, law, kernels.get(protocol)) for protocol in protocols.values()}
    return {name: wrapped[protocol] for name, protocol in protocols.items()}, tuple(labels)


def with_outcomes(data: Any) -> Any:
    """Return data over the outcomes of their uncertain devices, with one law for all cells; any other as they are.

    Parameters
    ----------
    data : Collection, Summarized or Cells

    Raises
    ------
    ArgumentError, InfeasibleError
        As over_outcomes.
    """
    found: dict[str, Any] = {}
    for name, held in data.channels().items():
        for protocol in dict.fromkeys(tally.protocol for _, tally in held):
            found[name if name not in found else f"{name} {len(found)}"] = protocol
    named, labels = over_outcomes(found, data.categories)
    if len(labels) == data.n_categories:
        return data
    wrapped = {protocol.inner: protocol for protocol in named.values()}

    def extend(collection: Any) -> Any:
        tallies = [Tally.trusted(wrapped[t.protocol], t.reports, t.counts, t.name) for t in collection.tallies]
        return extended(collection, labels[data.n_categories :], tallies)

    return data._mapped(extend)


def over_reports(data: Any, p: np.ndarray, channel: np.ndarray) -> tuple[Any, np.ndarray, dict[str, np.ndarray]]:
    """Return data over pairs of a category and a report, draws of their probabilities, and those of the device by name.

    Parameters
    ----------
    data : Collection or Cells
        Of one protocol, whose reports are numbers from 0.
    p : (..., [cells,] a) array
        Draws of P.
    channel : (..., b, a) array
        Draws of P(report | category).

    Raises
    ------
    ArgumentError
        Where a category or a derived quantity has the name of a pair or of a probability.
    InfeasibleError
        On summaries, on several protocols and on reports that cannot be listed.
    """
    protocols = list(dict.fromkeys(tally.protocol for held in data.channels().values() for _, tally in held))
    every = protocols[0].all_reports() if len(protocols) == 1 and data.keeps_reports and not data.owners else None
    if every is None or every.shape != channel.shape[-2:-1] or not np.array_equal(every, np.arange(len(every))):
        raise InfeasibleError("A random channel needs reports of one protocol that are answers, one row of it for each.")
    law = DeviceLaw.of_counts(np.zeros(channel.shape[-2:]), np.ones(channel.shape[-2:], dtype=bool))
    answers = [", ".join(text) for text in zip(*protocols[0].format_reports(every, data.categories), strict=True)]
    named = {s: f"{answers[s[0]]} given {data.categories[s[1]]}" for shares, _ in law.unknowns for s in shares if s}
    law = law.named([tuple(named.get(share, "") for share in shares) for shares, _ in law.unknowns])
    report = law.kernel.argmax(axis=0)
    labels = [f"{data.categories[x]}, {answers[y]}" for x, y in zip(law.category, report, strict=True)]
    wrapped = DeviceOutcomes(protocols[0], law, law.kernel)

    def extend(collection: Any) -> Any:
        tallies = [Tally.trusted(wrapped, t.reports, t.counts, t.name) for t in collection.tallies]
        return extended(collection, tuple(labels[data.n_categories :]), tallies)

    each = channel[..., report, law.category]
    p = p[..., law.category] * (each[..., None, :] if p.ndim == channel.ndim else each)
    return data._mapped(extend), p, {name: channel[..., y, x] for (y, x), name in named.items()}


def without_outcomes(collection: Any) -> Any:
    """Return the collection that ``with_outcomes`` was given, with its derived quantities."""
    brought, answers = {item.name for item in collection.wrapper.shares(collection)}, collection.answers
    derived = []
    for item in collection.derived:
        if item.name not in brought:
            of, given = (tuple(x for x in labels if x in answers) for labels in (item.of, item.given))
            derived.append(replace(item, of=of, given=() if given == answers else given))
    inner: list[Any] = [tally.protocol for tally in collection.tallies]
    tallies = tuple(
        Tally.trusted(protocol.inner, t.reports, t.counts, t.name)
        for protocol, t in zip(inner, collection.tallies, strict=True)
    )
    return replace(collection, categories=answers, tallies=tallies, derived=tuple(derived))


def _names(device: Any, categories: Sequence[str], channel: str, devices: int) -> list[tuple[str, ...]]:
    """Return for each unknown of a device the names of its shares, empty for those that follow from the others."""
    out, suffix = [], f", {channel}" if devices > 1 else ""
    for shares, _ in device.device_law().unknowns:
        texts = [s if isinstance(s, str) else f"{device.answers[s[0]]} given {categories[s[1]]}" for s in shares]
        out.append(tuple(f"{text}{suffix}".replace("/", "∕") if text else "" for text in texts))
    return out
