"""Collections whose respondents may ignore the device: how they are made, and what their reports can say of the share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ldpbayes.collections.derived import Derived
from ldpbayes.collections.tally import Tally
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, listed, shown
from ldpbayes.protocols.laws import ListLaw
from ldpbayes.protocols.noncompliance import Noncompliance, as_law

if TYPE_CHECKING:
    from ldpbayes.collections.collection import Collection

#: Reports drawn to stand for a channel that cannot be written out.
SAMPLED = 4000
#: The share at which the sd of the design is stated: the mean of its default prior.
GAMMA = 0.1


#: What P and F of a noncompliant collection mean, and what that assumes, for the reader of a result.
EXPLANATION = (
    "P and F are those of the respondents who follow the device; 'noncompliance' is the share γ of those who ignore it. "
    "That they have the same P as the others is an assumption, which no report can test."
)


#: What is said where no law was stated.
NOBODY = "Every respondent is taken to follow the device; with_noncompliers states how others would report."


@dataclass(frozen=True)
class Identification:
    """What the reports of a design can say of the share γ of respondents who ignore the device.

    Attributes
    ----------
    identified : bool
        Whether two different γ never have the same reports.
    low, high : float
        The γ between which the reports do not decide, found from these reports; both nan where γ is identified.
    sd : float
        The sd of γ that the design gives at this number of reports, of a weighted sample times the root of its design
        effect; inf where it is not identified.
    sentence : str
    """

    identified: bool
    low: float
    high: float
    sd: float
    sentence: str


def with_noncompliers(collection: Collection, laws: Mapping, channels: Iterable[str] | None = None) -> Collection:
    """Return the collection over its categories and one more for each law; see Collection.with_noncompliers.

    ``channels`` are the names that a law may be stated for, where the collection is a cell that may lack some of them.
    """
    if not isinstance(laws, Mapping) or not laws:
        raise ArgumentError(
            f'laws must be a mapping such as {{"no-sayer": "no"}} from names to laws of reports, got {shown(laws)}.'
        )
    if collection.n_laws:
        raise ArgumentError("with_noncompliers must be called once, with all laws.")
    for name in laws:
        if not isinstance(name, str) or not name or name in collection.categories:
            raise ArgumentError(f"laws must have names that are no category, got {shown(name)}.")
    tallies, known = [], [tally.name for tally in collection.tallies] if channels is None else list(channels)
    for law in laws.values():
        for channel in law if _by_channel(law) else ():
            if channel not in known:
                raise ArgumentError(f"laws must name channels of the collection ({listed(known)}), got {shown(channel)}.")
    for tally in collection.tallies:
        stated = [_of_channel(law, tally.name) for law in laws.values()]
        try:
            found = tuple(as_law(law, tally.protocol, collection.categories) for law in stated)
        except ArgumentError as err:
            if len(known) < 2:
                raise
            raise ArgumentError(f"Channel {shown(tally.name)}: {err} Each channel may have a law of its own.") from err
        tallies.append(Tally.trusted(Noncompliance(tally.protocol, found), tally.reports, tally.counts, tally.name))
    return replace(
        collection,
        categories=(*collection.categories, *laws),
        tallies=tuple(tallies),
        derived=_derived(collection, tuple(laws)),
    )


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


def _derived(collection: Collection, names: tuple[str, ...]) -> tuple:
    """Return the collection's derived quantities as shares of the compliers; γ is none of them yet."""
    own = tuple(replace(item, given=item.given or collection.categories) for item in collection.derived)
    taken = {item.name for item in shares_of(names)}
    repeated = next((item.name for item in own if item.name in taken), None)
    if repeated is not None:
        raise ArgumentError(f"laws bring the derived quantity {repeated!r}; rename that of the collection.")
    return own


def shares_of(names: tuple[str, ...]) -> tuple[Derived, ...]:
    """Return γ and, with several laws, the share of each as derived quantities."""
    each = [Derived(f"noncompliance, {name.replace('/', '∕')}", (name,)) for name in names] if len(names) > 1 else []
    return (Derived("noncompliance", names), *each)


def collapse(p: np.ndarray, size: int) -> np.ndarray:
    """Return the first ``size`` entries of distributions (…, columns) over their sum; uniform where that is 0."""
    if p.shape[-1] == size:
        return p
    first = p[..., :size]
    total = first.sum(axis=-1, keepdims=True)
    return np.divide(first, total, out=np.full_like(first, 1 / size), where=total > 0)


def identification(collection: Collection, gamma: float = GAMMA, reports: float | None = None) -> Identification:
    """Return what the reports can say of γ, as if there were so many; see Collection.noncompliance."""
    n_laws, size = collection.n_laws, collection.n_categories
    if not n_laws:
        return Identification(True, float("nan"), float("nan"), 0.0, NOBODY)
    a, n = size - n_laws, collection.n_reports if reports is None else reports
    effect = 1.0 if collection.survey is None else collection.survey.known_effect()
    listable = all(tally.protocol.decoder() is not None for tally in collection.tallies)
    parts = [_design(tally, listable, a, gamma) for tally in collection.tallies]
    null = null_space(np.concatenate([part for part, _ in parts]))
    ignoring = np.append(np.zeros(a), np.ones(n_laws))
    identified = bool((np.abs(null @ ignoring) < 1e-7).all())
    fitted = _fitted(collection, parts) if listable else _improved(collection)
    if identified:
        sd = _sd(parts, fitted, ignoring, a, gamma) * math.sqrt(effect * collection.n_reports / n)
        worth = f", with a design effect of {effect:.3g}," if collection.survey is not None else ""
        sentence = (
            f"The share γ of respondents who ignore the device is identified; at γ = {gamma:g} these {n:,.0f} reports"
            f"{worth} determine it to a standard deviation of {sd:.2g}."
        )
        if sd > gamma:
            sentence += " That is more than γ itself: the prior of γ decides."
        return Identification(True, float("nan"), float("nan"), sd, sentence)
    low, high = _bounds(fitted, null, ignoring)
    sentence = (
        "No number of reports through these channels identifies the share γ of respondents who ignore the device: every γ "
        f"from {low:.3g} to {high:.3g} gives the reports that came in. A second channel with another ε, or asking some "
        "of the respondents directly, may identify it; with an informative prior, such as Compliance(gamma=(2, 18)) or "
        "--set noncompliance_prior=2,18, a fit is possible whose γ follows the prior within that interval."
    )
    return Identification(False, low, high, float("inf"), sentence)


def _design(tally: Tally, listable: bool, a: int, gamma: float) -> tuple[np.ndarray, int]:
    """Return ((reports, a + m) probabilities, their number of users): the channel, or rows of sampled reports."""
    protocol = tally.protocol
    if listable:
        return protocol.channel(), tally.n_reports
    rng, size = np.random.default_rng(0), protocol.n_categories
    if size > 2000:
        raise InfeasibleError(f"Identification of γ is worked out for at most 2,000 categories here, got {size:,}.")
    p = _centre(np.full(a, 1 / a), size - a, gamma)
    reports, counts = protocol.simulate(rng.multinomial(max(SAMPLED, 4 * size), p), rng)
    rows = protocol.rows(reports[counts > 0], counts[counts > 0])
    dense = rows.dense()
    # As importance samples of all reports: E over reports of f(y) is their mean.
    return dense / (dense @ p)[:, None] * (rows.counts / rows.counts.sum())[:, None], tally.n_reports


def _centre(p: np.ndarray, n_laws: int, gamma: float) -> np.ndarray:
    return np.append((1 - gamma) * p, np.full(n_laws, gamma / n_laws))


def null_space(matrix: np.ndarray, tolerance: float = 1e-11) -> np.ndarray:
    """Return an orthonormal basis, shape (k, columns), of what a matrix maps to zero, or nearly so."""
    scale = matrix.max(axis=1, keepdims=True)
    rows = np.divide(matrix, scale, out=np.zeros_like(matrix), where=scale > 0)
    _, singular, vt = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=True)
    small = singular <= singular[0] * tolerance
    return np.concatenate([vt[: singular.size][small], vt[singular.size :]])


def _fitted(collection: Collection, parts: list) -> np.ndarray:
    """Return p′ with the least Σ (share − expected)²/share, by non-negative least squares."""
    from scipy.optimize import nnls

    blocks, right = [np.full((1, collection.n_categories), 1e4)], [[1e4]]
    tallies, survey = collection.tallies, collection.survey
    seen = [tally.counts for tally in tallies] if survey is None else survey.totals(tallies)
    for (channel, n), tally, counts in zip(parts, tallies, seen, strict=True):
        share = ListLaw(tally.protocol).tally(tally.reports, counts) / counts.sum()
        weight = np.sqrt(n / collection.n_reports / (share + 0.5 / n))
        blocks.append(weight[:, None] * channel)
        right.append(weight * share)
    p, _ = nnls(np.concatenate(blocks), np.concatenate(right))
    return p / p.sum()


def _improved(collection: Collection) -> np.ndarray:
    """Return p′ after a hundred steps of expectation and maximisation from the uniform one."""
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
        found = linprog(sign * direction, A_ub=-null.T, b_ub=p, bounds=(None, None), method="highs")
        if found.status != 0:
            raise DataError("the interval of γ could not be worked out from these reports")
        ends.append(float(np.clip(p @ ignoring + direction @ found.x, 0.0, 1.0)))
    return ends[0], ends[1]


def _sd(parts: list, fitted: np.ndarray, ignoring: np.ndarray, a: int, gamma: float) -> float:
    """Return the root of the entry of the inverse information that belongs to γ, at that γ and the fitted compliers."""
    p, n = fitted[:a], sum(size for _, size in parts)
    p = (n * p + 0.5) / (n * p.sum() + 0.5 * a)
    p = _centre(p, len(fitted) - a, gamma)
    information = np.zeros((p.size, p.size))
    for channel, size in parts:
        mixed = channel @ p
        weight = np.divide(size, mixed, out=np.zeros_like(mixed), where=mixed > 0)
        information += channel.T @ (weight[:, None] * channel)
    basis = np.linalg.svd(np.ones((1, p.size)))[2][1:]
    along = basis @ ignoring
    return float(np.sqrt(along @ np.linalg.pinv(basis @ information @ basis.T, rcond=1e-13, hermitian=True) @ along))


def compliers_only(collection: Collection) -> Collection:
    """Return the collection of a noncompliant one as if everybody followed the device; any other as it is."""
    if not collection.n_laws:
        return collection
    known = collection.categories[: collection.n_categories - collection.n_laws]
    tallies = [Tally.trusted(t.protocol.noncompliance().compliers, t.reports, t.counts, t.name) for t in collection.tallies]
    return replace(collection, categories=known, tallies=tuple(tallies), derived=())
