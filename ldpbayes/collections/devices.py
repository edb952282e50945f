"""Collections whose devices have uncertain probabilities: over pairs of a category and what the devices do to its people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ldpbayes.collections.constants import MAX_OUTCOMES
from ldpbayes.collections.noncompliance import extended, shares_of
from ldpbayes.collections.tally import Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.protocols.outcomes import Outcomes

if TYPE_CHECKING:
    from ldpbayes.collections.collection import Collection
    from ldpbayes.protocols.uncertain import DeviceLaw


def devices_of(data: Any) -> tuple:
    """Return the different protocols of data whose probabilities have laws; equal protocols are one device."""
    tallies = (tally for held in data.channels().values() for _, tally in held)
    protocols = (tally.protocol for tally in tallies)
    return tuple(dict.fromkeys(p for p in protocols if not p.owners and p.device_law() is not None))


def with_outcomes(data: Any) -> Any:
    """Return data over the outcomes of their uncertain devices, with one law for all cells; any other as they are.

    Parameters
    ----------
    data : Collection, Summarized or Cells

    Raises
    ------
    ArgumentError, InfeasibleError
        Where the devices have too many outcomes together, or some respondents may deny or ignore the device.
    """
    devices = devices_of(data)
    if not devices:
        return data
    if data.n_laws:
        raise InfeasibleError(
            "Respondents who deny or ignore the device and a device with uncertain probabilities cannot be fitted together: "
            "state the device as known, by known(), and compare."
        )
    first, *others = (protocol.device_law() for protocol in devices)
    law, places = first.beside(others, MAX_OUTCOMES)
    kernels = {protocol: protocol.device_law().kernel[:, at] for protocol, at in zip(devices, places, strict=True)}
    named = law.named(_names(data, devices))
    return data._mapped(lambda collection: _over_outcomes(collection, named, kernels))


def _over_outcomes(collection: Collection, law: DeviceLaw, kernels: dict) -> Collection:
    """Return a collection over the outcomes of a law."""
    tallies = [
        Tally.trusted(Outcomes(t.protocol, law, kernels.get(t.protocol)), t.reports, t.counts, t.name)
        for t in collection.tallies
    ]
    labels, seen = [], list(range(collection.n_categories))
    for x in law.owners:
        labels.append(f"{collection.categories[x]}, outcome {seen.count(x) + 1}")
        seen.append(x)
    if clash := next((name for name in labels if name in collection.categories), None):
        raise ArgumentError(f"categories must leave the name {clash!r} to an outcome of the device; rename that one.")
    return extended(collection, tuple(labels), tallies)


def without_outcomes(collection: Collection) -> Collection:
    """Return the collection that ``with_outcomes`` was given, with its derived quantities."""
    brought, answers = {item.name for item in shares_of(collection)}, collection.answers
    derived = []
    for item in collection.derived:
        if item.name not in brought:
            of, given = (tuple(x for x in labels if x in answers) for labels in (item.of, item.given))
            derived.append(replace(item, of=of, given=() if given == answers else given))
    tallies = tuple(Tally.trusted(t.protocol.inner, t.reports, t.counts, t.name) for t in collection.tallies)
    return replace(collection, categories=answers, tallies=tallies, derived=tuple(derived))


def _names(data: Any, devices: Sequence) -> list[tuple[str, ...]]:
    """Return for each unknown of the devices the names of its shares, empty for those that follow from the others."""
    channel_of = {t.protocol: name for name, held in reversed(data.channels().items()) for _, t in held}
    out: list[tuple[str, ...]] = []
    for protocol in devices:
        suffix = f", {channel_of[protocol]}" if len(devices) > 1 else ""
        for shares, _ in protocol.device_law().unknowns:
            texts = [s if isinstance(s, str) else f"{protocol.answers[s[0]]} given {data.categories[s[1]]}" for s in shares]
            out.append(tuple(f"{text}{suffix}".replace("/", "∕") if text else "" for text in texts))
    return out
