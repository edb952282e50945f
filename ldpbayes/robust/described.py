"""Probabilities of reports as papers state them, by no code of the likelihoods: what a cross-check starts from."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import InfeasibleError
from ldpbayes.protocols.formats import split_cohorts

#: Memory: Distinct reports times categories beyond which probabilities are not written out: 16 MB.
WRITTEN_ENTRIES = 2_000_000


def grr(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return e^ε where the report is the category, else 1."""
    same = reports[:, None] == np.arange(protocol.n_categories)
    return np.where(same, np.exp(protocol.epsilon), 1.0)


def channel(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return the rows of the matrix that the design states."""
    return np.asarray(protocol.matrix, dtype=float)[reports]


def unary(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return the odds of each category's bit: κ against λ where it is one, 1 − κ against 1 − λ where it is zero."""
    kappa, lam = protocol.hit_rates
    return np.where(_bits(reports, protocol.n_categories), kappa / lam, (1 - kappa) / (1 - lam))


def subset(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return e^ε for the categories of the reported set, else 1."""
    return np.where(_bits(reports, protocol.n_categories), np.exp(protocol.epsilon), 1.0)


def hashing(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return e^ε for the categories that the report's seed or cohort sends to the reported bucket, else 1."""
    a = protocol.n_categories
    places, bucket = reports[:, :1], reports[:, 1:]
    hashed = protocol.mapped(np.repeat(places, a), np.tile(np.arange(a), len(reports))).reshape(-1, a)
    return np.where(hashed == bucket, np.exp(protocol.epsilon), 1.0)


def hadamard(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return e^ε where the report and the category, counted from 1, have an even number of binary ones in common, else 1."""
    shared = np.bitwise_count(reports[:, None] & np.arange(1, protocol.n_categories + 1))
    return np.where(shared % 2 == 0, np.exp(protocol.epsilon), 1.0)


def rappor(protocol: Any, reports: np.ndarray) -> np.ndarray:
    """Return the product over bits of their probabilities where the Bloom filter of a category in the cohort is sent.

    In units of the probability of the report where the filter is empty.
    """
    on, off = protocol.rates
    cohorts, packed = split_cohorts(reports)
    odds = np.where(_bits(packed, protocol.n_bits), on / off, (1 - on) / (1 - off))
    filters = np.zeros((protocol.cohorts, protocol.n_categories, protocol.n_bits + 1), dtype=bool)
    np.put_along_axis(filters, protocol.table.transpose(0, 2, 1), True, axis=2)
    filters = filters[..., :-1]  # a position −1 is none
    out = np.empty((len(reports), protocol.n_categories))
    for cohort in np.unique(cohorts):
        at = cohorts == cohort
        out[at] = np.exp(np.log(odds[at]) @ filters[cohort].T)
    return out


#: The probabilities of reports up to a factor of each, by the name of the protocol in files.
DESCRIBED: dict[str, Callable[[Any, np.ndarray], np.ndarray]] = {
    "grr": grr,
    "channel": channel,
    "unary": unary,
    "subset": subset,
    "local_hashing": hashing,
    "cohort_rr": hashing,
    "hadamard": hadamard,
    "rappor": rappor,
}


def probabilities(collection: Collection) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of a collection's distinct reports, up to a factor of each report, and how often each came.

    Reports with the same probabilities are one.

    Parameters
    ----------
    collection : Collection

    Returns
    -------
    tuple of (m, a) and (m,) arrays

    Raises
    ------
    InfeasibleError
        Where a protocol has no description here, some respondents deny or ignore the device, or the table is too large.
    """
    if collection.laws:
        raise InfeasibleError("The channel is not all of the model where respondents deny, or ignore the device.")
    tables = [_of_channel(tally) for tally in collection.tallies]
    table, place = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    counts = np.concatenate([np.asarray(tally.counts, dtype=float) for tally in collection.tallies])
    return table, np.bincount(np.ravel(place), counts, len(table))


def _of_channel(tally: Tally) -> np.ndarray:
    """Return the probabilities of the distinct reports of one channel, the largest of each report 1."""
    protocol, size = tally.protocol, len(tally.reports) * tally.protocol.n_categories
    describe = DESCRIBED.get(protocol.name)
    if describe is None:
        raise InfeasibleError(f"The protocol {protocol.name} has no description apart from its likelihood.")
    if size > WRITTEN_ENTRIES:
        raise InfeasibleError(f"The reports have {size:,} probabilities, and at most {WRITTEN_ENTRIES:,} are written out.")
    table = describe(protocol, np.asarray(tally.reports))
    return np.round(table / table.max(axis=1, keepdims=True), 15)


def _bits(packed: np.ndarray, size: int) -> np.ndarray:
    """Return the bits of packed reports, shape (m, size)."""
    return np.unpackbits(packed, axis=1, count=size).astype(bool)


__all__ = ["probabilities"]
