"""The exact posterior of few reports through a device that was tried: a sum over what its device did to everybody."""

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ldpbayes.arrays import FloatArray
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import InfeasibleError

#: Memory: Counts of a sum over tallies that are held at a time: 80 MB.
SUMMED_NUMBERS = 10_000_000


class SummedMoments(NamedTuple):
    """Mean and variance of P by the sum.

    Attributes
    ----------
    mean, variance : (a,) arrays
    """

    mean: FloatArray
    variance: FloatArray


def enumerate_outcomes(collection: Collection, prior: Any) -> SummedMoments:
    """Return the moments of P by the sum over the tallies of every report by the outcomes of its device.

    Given how many people of each report had each outcome, P and the probabilities of the devices are Dirichlet, each by
    itself: the weight of such a tally is Π_y n_y!/Π_e T_ye! K_ye^{T_ye} times a Dirichlet-multinomial of the categories and
    one of each unknown of a device.

    Parameters
    ----------
    collection : Collection
        Over the outcomes of its devices.
    prior : AbstractPrior
        Over the same.

    Raises
    ------
    InfeasibleError
        Where P has no Dirichlet prior, reports are weighted or cannot be listed, or the tallies are too many.
    """
    first, *_ = prior.parts
    alpha = first.concentrations()
    if alpha is None or collection.weighted:
        raise InfeasibleError("A sum over tallies needs a Dirichlet prior and reports without weights.")
    law, a = collection.device_law, alpha.size
    sizes = [a, *(len(unknown.concentrations) for _, unknown in law.unknowns)]
    starts = np.cumsum([0, *sizes])
    totals, weight = np.zeros((1, starts[-1]), dtype=np.int64), np.zeros(1)
    for tally in collection.tallies:
        for report, n in zip(tally.reports, tally.counts.tolist(), strict=True):
            kinds, chances = _kinds(tally.protocol, report, law, starts, a)
            counts = _compositions(int(n), len(chances), len(totals) * starts[-1])
            own = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(chances)
            totals = (totals[:, None] + (counts @ kinds)[None]).reshape(-1, starts[-1])
            weight = np.add.outer(weight, own).ravel()
            totals, place = np.unique(totals, axis=0, return_inverse=True)
            weight = _log_sums(weight, np.ravel(place), len(totals))
    priors = [alpha, *(np.array(unknown.concentrations) for _, unknown in law.unknowns)]
    for start, concentrations in zip(starts[:-1], priors, strict=True):
        seen = totals[:, start : start + concentrations.size]
        weight = weight + gammaln(concentrations + seen).sum(axis=1) - gammaln(concentrations.sum() + seen.sum(axis=1))
    chance = np.exp(weight - weight.max())
    chance /= chance.sum()
    after = alpha + totals[:, :a]
    size = after.sum(axis=1, keepdims=True)
    each = after / size
    mean = chance @ each
    return SummedMoments(mean, chance @ (each * (1 - each) / (size + 1) + (each - mean) ** 2))


def known_devices(collection: Collection) -> Collection:
    """Return the collection with uncertain devices at their means; any other as it is.

    Parameters
    ----------
    collection : Collection
        Not over outcomes.
    """
    uncertain: list[Any] = [tally.protocol for tally in collection.tallies]
    uncertain = [None if protocol.owners or protocol.device_law() is None else protocol for protocol in uncertain]
    if not any(uncertain):
        return collection
    pairs = zip(collection.tallies, uncertain, strict=True)
    tallies = [t if p is None else Tally.trusted(p.known(), t.reports, t.counts, t.name) for t, p in pairs]
    return replace(collection, tallies=tuple(tallies))


def _kinds(protocol: Any, report: Any, law: Any, starts: np.ndarray, a: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (what an outcome of a report counts for among the shares of P and of each unknown (k, shares), its chances)."""
    if protocol.kernel is None:
        (chances,) = protocol.inner.rows(np.array([report]), np.ones(1)).dense()
        category, places = np.arange(a), np.full((len(law.unknowns), a), -1)
    else:
        chances, category, places = protocol.kernel[report], law.category, law.places
    kinds = np.zeros((category.size, starts[-1]), dtype=np.int64)
    kinds[np.arange(category.size), category] = 1
    for start, own in zip(starts[1:-1], places, strict=True):
        seen = np.flatnonzero(own >= 0)
        kinds[seen, start + own[seen]] = 1
    some = chances > 0
    return kinds[some], chances[some]


def _compositions(n: int, k: int, beside: int) -> np.ndarray:
    """Return the ways to write n as k numbers, (ways, k), where no more numbers than are held are needed beside others."""
    ways = np.prod([(n + i) / i for i in range(1, k)])
    if not ways * beside <= SUMMED_NUMBERS:
        raise InfeasibleError(
            f"A sum over tallies has {ways * beside:.3g} numbers, and at most {SUMMED_NUMBERS:,} are held."
        )
    every = list(itertools.combinations(range(n + k - 1), k - 1))
    bars = np.array(every, dtype=np.int64).reshape(len(every), k - 1)
    edges = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + k - 1)], axis=1)
    return np.diff(edges, axis=1) - 1


def _log_sums(values: np.ndarray, place: np.ndarray, size: int) -> np.ndarray:
    """Return log Σ exp of the values at each place."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, place, values)
    return top + np.log(np.bincount(place, np.exp(values - top[place]), size))


__all__ = ["SummedMoments", "enumerate_outcomes", "known_devices"]
