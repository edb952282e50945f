"""Collections whose respondents may deny or ignore the device: how they are made, and what reports say of the share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.collections.derived import columns_of
from ldpbayes.collections.tally import Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, listed, shown
from ldpbayes.protocols.laws import ListLaw
from ldpbayes.protocols.noncompliance import Noncompliance, as_law
from ldpbayes.protocols.respondents import Input

#: Rule: Reports drawn to stand for a channel that cannot be written out.
SAMPLED = 4000


#: What is said where no law was stated.
NOBODY = "Every respondent is taken to follow the device; with_noncompliers and with_deniers state how others would report."


@dataclass(frozen=True)
class Identification:
    """What the reports of a design can say of the share γ of respondents who ignore the device, or of those who deny.

    Attributes
    ----------
    identified : bool
        Whether two different γ, or δ of a category, never have the same reports.
    low, high : float
        The γ, or shares of all who deny, between which the reports do not decide, found from these reports; both nan where
        they are identified.
    sd : float
        The sd of γ, or of the least certain δ, that the design gives at this number of reports, of a weighted sample times
        the root of its design effect; inf where it is not identified.
    sentence : str
    """

    identified: bool
    low: float
    high: float
    sd: float
    sentence: str


def with_noncompliers(collection: Any, laws: Mapping, known: Sequence[str]) -> Any:
    """Return the collection over its categories and one more for each law; see Collection.with_noncompliers.

    A law may be stated for ``known`` channels: those of all cells, of which the collection may lack some.
    """
    if not isinstance(laws, Mapping) or not laws:
        raise ArgumentError(
            f'laws must be a mapping such as {{"no-sayer": "no"}} from names to laws of reports, got {shown(laws)}.'
        )
    _alone(collection, "with_noncompliers", "laws")
    for name in laws:
        if not isinstance(name, str) or not name or name in collection.categories:
            raise ArgumentError(f"laws must have names that are no category, got {shown(name)}.")
    tallies = []
    for law in laws.values():
        for channel in law if _by_channel(law) else ():
            if channel not in known:
                raise ArgumentError(f"laws must name channels of the collection ({listed(known)}), got {shown(channel)}.")
    for tally in collection.tallies:
        stated = [_of_channel(law, tally.name) for law in laws.values()]
        try:
            laws_of = tuple(as_law(law, tally.protocol, collection.categories) for law in stated)
        except ArgumentError as err:
            if len(known) < 2:
                raise
            raise ArgumentError(f"Channel {shown(tally.name)}: {err} Each channel may have a law of its own.") from err
        tallies.append(Tally.trusted(Noncompliance(tally.protocol, laws_of), tally.reports, tally.counts, tally.name))
    return extended(collection, tuple(laws), tallies)


def with_deniers(
    collection: Any,
    of: str | Sequence[str],
    say: str,
    channel: str | Sequence[str],
    known: Sequence[str],
) -> Any:
    """Return the collection over its categories and one more for the deniers of each; see Collection.with_deniers.

    ``channel`` may be one of the ``known``: those of all cells, of which the collection may lack some.
    """
    _alone(collection, "with_deniers", "categories that are denied")
    where = _named(channel, "channel", known, "channels")
    denied = _named(of, "of", collection.categories, "categories")
    (answer,) = _named((say,), "say", collection.categories, "categories")
    if answer in denied:
        raise ArgumentError(f"say must be none of the categories in of, got {shown(say)}.")
    places, target = tuple(collection.categories.index(label) for label in denied), collection.categories.index(answer)
    names = tuple(f"{label}, denied" for label in denied)
    clash = next((name for name in names if name in collection.categories), None)
    if clash is not None:
        raise ArgumentError(f"categories must leave the name {clash!r} to those who deny; rename that one.")
    tallies = []
    for tally in collection.tallies:
        laws = tuple(Input((target if tally.name in where else x,)) for x in places)
        protocol = Noncompliance(tally.protocol, laws, places)
        tallies.append(Tally.trusted(protocol, tally.reports, tally.counts, tally.name))
    return extended(collection, names, tallies)


def deniers_stated(stated: Mapping) -> dict[str, Any]:
    """Return the arguments of ``with_deniers`` that a file or the command line states, each of them once.

    Parameters
    ----------
    stated : mapping
    """
    names = ("of", "say", "channel")
    if set(stated) != set(names):
        raise ArgumentError(f"deniers must state {listed(names)}, got {listed(list(stated))}.")
    return dict(stated)


def _named(value: object, name: str, known: Sequence[str], kind: str) -> tuple[str, ...]:
    """Return one label or several as a tuple of different ones that are known."""
    labels = (value,) if isinstance(value, str) else checks.labels(value, name, f"one or several of the {kind}")
    unknown = next((label for label in labels if label not in known), None)
    if not labels or unknown is not None or len(set(labels)) != len(labels):
        raise ArgumentError(f"{name} must be one or several of the {kind} ({listed(known)}), got {shown(value)}.")
    return labels


def _alone(collection: Any, door: str, what: str) -> None:
    """Refuse a collection whose respondents may deny or ignore the device already."""
    if collection.n_laws and collection.wrapper.door == door:
        raise ArgumentError(f"{door} must be called once, with all {what}.")
    if collection.n_laws:
        raise ArgumentError(
            "those who deny and those who ignore the device must not be stated together: a device and a direct question do "
            "not identify both shares. State the one that matters more, and compare."
        )


def extended(collection: Any, names: tuple[str, ...], tallies: list[Tally]) -> Any:
    """Return the collection with further categories, through channels that know their laws."""
    out = replace(collection, categories=(*collection.categories, *names), tallies=tuple(tallies), derived=())
    columns = columns_of(out, collection.categories)
    shares = tuple(
        replace(item, of=columns_of(out, item.of), given=columns_of(out, item.given) or columns)
        for item in collection.derived
    )
    repeated = next((item.name for item in shares if item.name in {share.name for share in out.wrapper.shares(out)}), None)
    if repeated is not None:
        raise ArgumentError(f"laws bring the derived quantity {repeated!r}; rename that of the collection.")
    return replace(out, derived=shares)


def _by_channel(law: object) -> bool:
    """Return whether a mapping states one law for each channel."""
    return isinstance(law, Mapping) and set(law) != {"law", "targets"}


def _of_channel(law: object, channel: str) -> object:
    """Return the law of one channel, where a mapping states one for each; {"law": …, "targets": …} is itself a law."""
    if not isinstance(law, Mapping) or not _by_channel(law):
        return law
    if channel not in law:
        raise ArgumentError(f"laws must name a law for every channel, got none for {shown(channel)}.")
    return law[channel]


def collapse(p: np.ndarray, owners: tuple[int | None, ...]) -> np.ndarray:
    """Return what distributions (…, columns) say of the answers: deniers with the answer that is theirs, others left out.

    Divided by the sum where somebody is left out; uniform where that is 0.
    """
    size = p.shape[-1] - len(owners)
    first = np.array(p[..., :size])
    for column, x in enumerate(owners, size):
        if x is not None:
            first[..., x] += p[..., column]
    if None not in owners:
        return first
    total = first.sum(axis=-1, keepdims=True)
    return np.divide(first, total, out=np.full_like(first, 1 / size), where=total > 0)


def identification(collection: Any, gamma: float | None = None, reports: float | None = None) -> Identification:
    """Return what the reports can say of γ or δ, as if there were so many; see Collection.noncompliance."""
    owners, size = collection.owners, collection.n_categories
    if not owners or not collection.wrapper.tested:
        return Identification(True, float("nan"), float("nan"), 0.0, NOBODY)
    a, n, words = size - len(owners), collection.n_reports if reports is None else reports, collection.wrapper
    gamma = words.usual if gamma is None else gamma
    effect = 1.0 if collection.survey is None else collection.survey.known_effect()
    listable = all(tally.protocol.decoder() is not None for tally in collection.tallies)
    designs = [_design(tally, listable, owners, gamma) for tally in collection.tallies]
    null = null_space(np.concatenate([matrix for matrix, _ in designs]))
    ignoring = np.append(np.zeros(a), np.ones(len(owners)))
    apart = ignoring[None] if None in owners else np.eye(size)[a:]
    identified = bool((np.abs(null @ apart.T) < 1e-7).all())
    fitted = _fitted(collection, designs) if listable else _improved(collection)
    if identified:
        sd = _sd(designs, fitted, owners, gamma) * math.sqrt(effect * collection.n_reports / n)
        worth = f", with a design effect of {effect:.3g}," if collection.survey is not None else ""
        (named, them), s = words.subject(collection), words.symbol
        sentence = (
            f"{named[0].upper()}{named[1:]} {'are' if named.startswith('the shares') else 'is'} identified; at {s} = "
            f"{gamma:g} these {n:,.0f} reports{worth} determine {them} to a standard deviation of {sd:.2g}."
        )
        if sd > gamma:
            sentence += f" That is more than {s} itself: the prior of {s} decides."
        return Identification(True, float("nan"), float("nan"), sd, sentence)
    low, high = _bounds(fitted, null, ignoring)
    sentence = (
        f"No number of reports through these channels identifies {words.share}: every share from {low:.3g} to {high:.3g} "
        f"gives the reports that came in. {words.remedy} whose {words.symbol} follows the prior within that interval."
    )
    return Identification(False, low, high, float("inf"), sentence)


def _design(tally: Tally, listable: bool, owners: tuple, gamma: float) -> tuple[np.ndarray, int]:
    """Return ((reports, a + m) probabilities, their number of users): the channel, or rows of sampled reports."""
    protocol = tally.protocol
    if listable:
        return protocol.channel(), tally.n_reports
    rng, size = np.random.default_rng(0), protocol.n_categories
    if size > 2000:
        raise InfeasibleError(f"Identification of γ is worked out for at most 2,000 categories here, got {size:,}.")
    p = centre(np.full(size - len(owners), 1 / (size - len(owners))), owners, gamma)
    reports, counts = protocol.simulate(rng.multinomial(max(SAMPLED, 4 * size), p), rng)
    rows = protocol.rows(reports[counts > 0], counts[counts > 0])
    dense = rows.dense()
    # As importance samples of all reports: E over reports of f(y) is their mean.
    return dense / (dense @ p)[:, None] * (rows.counts / rows.counts.sum())[:, None], tally.n_reports


def centre(p: np.ndarray, owners: tuple, gamma: float) -> np.ndarray:
    """Return p′ of shares p of the answers, where γ or δ is gamma."""
    if None in owners:
        return np.append((1 - gamma) * p, np.full(len(owners), gamma / len(owners)))
    honest = np.where(np.isin(np.arange(p.size), owners), (1 - gamma) * p, p)
    return np.append(honest, gamma * p[list(owners)])


def null_space(matrix: np.ndarray, tolerance: float = 1e-11) -> np.ndarray:
    """Return an orthonormal basis, shape (k, columns), of what a matrix maps to zero, or nearly so."""
    from scipy import linalg

    scale = matrix.max(axis=1, keepdims=True)
    rows = np.divide(matrix, scale, out=np.zeros_like(matrix), where=scale > 0)
    return linalg.null_space(np.linalg.qr(rows, mode="r"), rcond=tolerance).T


def _fitted(collection: Any, designs: list) -> np.ndarray:
    """Return p′ with the least Σ (share − expected)²/share, by non-negative least squares."""
    from scipy.optimize import nnls

    blocks, right = [np.full((1, collection.n_categories), 1e4)], [[1e4]]
    tallies, survey = collection.tallies, collection.survey
    seen = [tally.counts for tally in tallies] if survey is None else survey.totals(tallies)
    for (channel, n), tally, counts in zip(designs, tallies, seen, strict=True):
        share = ListLaw(tally.protocol).tally(tally.reports, counts) / counts.sum()
        weight = np.sqrt(n / collection.n_reports / (share + 0.5 / n))
        blocks.append(weight[:, None] * channel)
        right.append(weight * share)
    p, _ = nnls(np.concatenate(blocks), np.concatenate(right))
    return p / p.sum()


def _improved(collection: Any) -> np.ndarray:
    """Return p′ after a hundred steps of expectation and maximization from the uniform one."""
    rows, p = collection.rows, np.full(collection.n_categories, 1 / collection.n_categories)
    for _ in range(100):
        p = p * rows.rmatvec(rows.counts / rows.matvec(p)) / rows.n_reports
    return p / p.sum()


def _bounds(p: np.ndarray, null: np.ndarray, ignoring: np.ndarray) -> tuple[float, float]:
    """Return the least and the largest γ of p + Nᵀz ≥ 0, which all have the same reports, by two linear programmes."""
    from scipy.optimize import linprog

    direction = null @ ignoring
    ends = []
    for sign in (1.0, -1.0):
        solution = linprog(sign * direction, A_ub=-null.T, b_ub=p, bounds=(None, None), method="highs")
        if solution.status != 0:
            raise DataError("the interval of γ could not be worked out from these reports")
        ends.append(float(np.clip(p @ ignoring + direction @ solution.x, 0.0, 1.0)))
    return ends[0], ends[1]


def _sd(designs: list, fitted: np.ndarray, owners: tuple, gamma: float) -> float:
    """Return the largest sd of γ, or of the δ, by the information at that γ or δ and the fitted shares of the answers."""
    p, n = collapse(fitted, owners), sum(size for _, size in designs)
    a = p.size
    answers = (n * p + 0.5) / (n * p.sum() + 0.5 * a)
    p = centre(answers, owners, gamma)
    if None in owners:
        return float(spreads(designs, p, np.append(np.zeros(a), np.ones(len(owners)))[None])[0])
    return float(spreads(designs, p, denial_slopes(answers, owners, gamma)).max())


def denial_slopes(p: np.ndarray, owners: tuple, delta: float) -> np.ndarray:
    """Return the gradients of every δ = p⁻/(p⁺ + p⁻) by p′, shape (k, a + k), for shares p of the answers."""
    places = np.eye(p.size + len(owners))
    extra = places[p.size :]
    return (extra - delta * (extra + places[list(owners)])) / p[list(owners), None]


def spreads(parts: list, p: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Return the sds along gradients (k, a) by the information of reports at p; nan where it does not determine them.

    Parameters
    ----------
    parts : list of ((m, a) array, float)
        Each channel and its number of reports.
    p : (a,) array
    gradients : (k, a) array
    """
    information = np.zeros((p.size, p.size))
    for channel, size in parts:
        mixed = channel @ p
        weight = np.divide(size, mixed, out=np.zeros_like(mixed), where=mixed > 0)
        information += channel.T @ (weight[:, None] * channel)
    basis = np.linalg.svd(np.ones((1, p.size)))[2][1:]
    values, vectors = np.linalg.eigh(basis @ information @ basis.T)
    along, seen = gradients @ basis.T @ vectors, values > 1e-13 * values[-1]
    variance = (along[:, seen] ** 2 / values[seen]).sum(axis=1)
    return np.where((np.abs(along[:, ~seen]) > 1e-7 * np.abs(gradients).max()).any(axis=1), np.nan, np.sqrt(variance))


def compliers_only(collection: Any) -> Any:
    """Return the collection of a noncompliant one as if everybody followed the device; any other as it is."""
    if not collection.n_laws:
        return collection
    tallies = [Tally.trusted(t.protocol.noncompliance().compliers, t.reports, t.counts, t.name) for t in collection.tallies]
    return replace(collection, categories=collection.answers, tallies=tuple(tallies), derived=())


def stated_deniers(data: Any) -> dict[str, Any] | None:
    """Return the arguments of ``with_deniers`` that made data; None where no such call did.

    Parameters
    ----------
    data : Any or Cells
    """
    held = [tally for tallies in data.channels().values() for _, tally in tallies] if data.denied else []
    said = {t.name: {law.targets for law in t.protocol.laws} for t in held if {law.targets for law in t.protocol.laws}}
    places = {(x,) for x in data.owners}
    where = [name for name, targets in said.items() if targets != places]
    targets = {target for name in where for target in said[name]}
    if len(targets) != 1 or any(
        law.targets != (x,) for t in held if t.name not in where for law, x in zip(t.protocol.laws, data.owners, strict=True)
    ):
        return None
    ((x,),) = targets
    return {"of": list(data.denied), "say": data.categories[x], "channel": where}


def undenied(collection: Any) -> Any:
    """Return the collection that ``with_deniers`` was called on, with its derived quantities."""
    brought, answers = {item.name for item in collection.wrapper.shares(collection)}, collection.answers
    derived = [
        replace(item, of=tuple(x for x in item.of if x in answers), given=tuple(x for x in item.given if x in answers))
        for item in collection.derived
        if item.name not in brought
    ]
    shares = [replace(item, given=()) if item.given == answers else item for item in derived]
    return replace(compliers_only(collection), derived=tuple(shares))
