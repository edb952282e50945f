"""RAPPOR's likelihoods: that of whole reports, and the composite one of marginal bit counts."""

import math

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import LevelRows, StackedRows, SupportRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.rappor.codec import by_cohort, split


def report_rows(protocol, reports, counts):
    """Return the likelihood rows of whole reports: of two levels with one hash, of several with more.

    Parameters
    ----------
    protocol : Rappor
    reports : (m, 4 + ⌈k/8⌉) uint8 array
        Canonical reports.
    counts : (m,) array
        How many users sent each report.

    Returns
    -------
    SupportRows or LevelRows
    """
    cohorts, packed = split(reports)
    log_one, log_zero, held_gain, missed = _logs(protocol)
    ones = bits.sizes(packed)
    log_constants = ones * log_one + (protocol.n_bits - ones) * log_zero - math.log(protocol.cohorts)
    held = np.empty((len(reports), protocol.n_categories), dtype=np.uint8)
    for c, users in by_cohort(cohorts):
        members = np.zeros((users.size, protocol.n_bits + 1), dtype=np.uint8)  # position −1 is the last, empty column
        members[:, :-1] = np.unpackbits(packed[users], axis=1, count=protocol.n_bits)
        held[users] = sum(members[:, positions] for positions in protocol.table[c])
    # A bit of the candidate moves the log of the row by held_gain where the report holds it, else by missed.
    gain = held_gain - missed
    if protocol.hashes == 1:
        support = np.packbits(held, axis=1)
        return SupportRows(support, math.expm1(gain), counts, protocol.n_categories, log_constants + missed)
    sizes = (protocol.table >= 0).sum(axis=1)  # (C, a)
    levels = held + (protocol.hashes + 1) * sizes.astype(np.uint8)[cohorts]
    level = np.arange((protocol.hashes + 1) ** 2)
    hits, size = level % (protocol.hashes + 1), level // (protocol.hashes + 1)
    values = np.exp(hits * gain + (size - protocol.hashes) * missed)
    return LevelRows(levels, values, counts, hits, log_constants + protocol.hashes * missed)


def bit_counts(protocol, reports, counts):
    """Return (bit counts, shape (C, k), and cohort sizes, shape (C,)) of whole reports: what composite_rows needs.

    Parameters
    ----------
    protocol : Rappor
    reports : (m, 4 + ⌈k/8⌉) uint8 array
        Canonical reports.
    counts : (m,) array
        How many users sent each report.

    Returns
    -------
    (C, k) int64 array, (C,) int64 array
    """
    cohorts, packed = split(reports)
    totals = np.zeros((protocol.cohorts, protocol.n_bits), dtype=np.int64)
    for c, users in by_cohort(cohorts):
        totals[c] = counts[users] @ np.unpackbits(packed[users], axis=1, count=protocol.n_bits).astype(np.int64)
    return totals, np.bincount(cohorts, counts, protocol.cohorts).astype(np.int64)


def composite_rows(protocol, bit_counts, cohort_sizes):
    """Return the composite likelihood of marginal bit counts: a stand-in for the likelihood, not the likelihood.

    Π_cb r_cb^{N_cb} (1 − r_cb)^{n_c − N_cb} with r_cb = p* + (q* − p*) Σ_{x: b ∈ B_c(x)} p_x: the bits' own likelihoods
    multiplied as if independent. The bits of one report are dependent given p, so its maximizer is the *composite* MLE
    and its curvature is not the information. It is all that counts such as those of RAPPOR's servers allow.

    Parameters
    ----------
    bit_counts : (C, k) array
        Reports of cohort c with bit b set.
    cohort_sizes : (C,) array
        Reports of cohort c.

    Returns
    -------
    StackedRows
        At most two rows per bit and cohort; their counts add up to n·k, one for every bit.

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), Proposition 7.
    """
    n = checks.counts(cohort_sizes, "cohort_sizes", protocol.cohorts)
    array = np.asarray(bit_counts)
    if array.shape != (protocol.cohorts, protocol.n_bits):
        raise ArgumentError(f"bit_counts must be of shape {(protocol.cohorts, protocol.n_bits)}, got {array.shape}.")
    held = checks.counts(array.ravel(), "bit_counts").reshape(array.shape)
    if (held > n[:, None]).any():
        c, b = np.argwhere(held > n[:, None])[0]
        raise ArgumentError(f"bit_counts must be at most the cohort's size {n[c]}, got {held[c, b]} in cohort {c}, bit {b}.")
    members = np.concatenate([protocol.filters(c).astype(bool) for c in range(protocol.cohorts)])
    on, off = protocol.exact_rates
    parts = []
    for counts, support, low, high in ((held, members, off, on), (n[:, None] - held, ~members, 1 - on, 1 - off)):
        seen = counts.ravel() > 0
        beta = float((high - low) / low)
        packed = np.packbits(support[seen], axis=1)
        parts.append(SupportRows(packed, beta, counts.ravel()[seen], protocol.n_categories, math.log(low)))
    return StackedRows([part for part in parts if part.n_rows])


def _logs(protocol):
    """Logs of p*, 1 − p*, q*/p* and (1 − q*)/(1 − p*), without cancellation where the rates are close to 0 or 1."""
    on, off = protocol.exact_rates
    clear, set_ = (math.log(off), math.log(1 - off)), (math.log(on), math.log(1 - on))
    return *clear, set_[0] - clear[0], set_[1] - clear[1]
