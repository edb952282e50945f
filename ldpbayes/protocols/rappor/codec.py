"""RAPPOR's reports as bytes: the cohort in four big-endian bytes, then the packed bits, bit 0 first."""

import numpy as np

from ldpbayes.errors import DataError
from ldpbayes.protocols import bits

COHORT_BYTES = 4


def check(reports, n_cohorts, n_bits):
    """Return canonical reports from canonical ones or from a pair (cohorts, bits), bits packed or zeros and ones.

    Parameters
    ----------
    reports : (m, 4 + ⌈k/8⌉) uint8 array, or pair (cohorts, bits)
    n_cohorts : int
        Number of cohorts C.
    n_bits : int
        Bits per filter, k.

    Returns
    -------
    (m, 4 + ⌈k/8⌉) uint8 array

    Raises
    ------
    DataError
        On a wrong shape or type, or naming the first cohort or bit outside its range.
    """
    if isinstance(reports, tuple) and len(reports) == 2:
        cohorts, packed = np.asarray(reports[0]), bits.check(reports[1], n_bits)
        if cohorts.shape != (len(packed),) or not np.issubdtype(cohorts.dtype, np.integer):
            raise DataError(f"cohorts must be {len(packed)} integers, one per report, got shape {cohorts.shape}")
    else:
        array = np.asarray(reports)
        expected = COHORT_BYTES + bits.width(n_bits)
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != expected:
            raise DataError(
                f"reports must be (m, {expected}) bytes or a pair (cohorts, bits), got {array.shape} of {array.dtype}"
            )
        cohorts, packed = split(array)
        packed = check_packed(packed, n_bits)
    bad = np.flatnonzero((cohorts < 0) | (cohorts >= n_cohorts))
    if bad.size:
        i = int(bad[0])
        raise DataError(f"cohort {cohorts[i]} is outside 0..{n_cohorts - 1}", line=i, field="cohort")
    return join(cohorts, packed)


def join(cohorts, packed):
    """Return the reports of these cohorts and packed bits."""
    heads = np.ascontiguousarray(cohorts, dtype=">u4").view(np.uint8).reshape(-1, COHORT_BYTES)
    return np.concatenate([heads, packed], axis=1)


def split(reports):
    """Return (cohorts, packed bits) of reports."""
    heads = np.ascontiguousarray(reports[:, :COHORT_BYTES]).view(">u4").ravel()
    return heads.astype(np.int64), np.ascontiguousarray(reports[:, COHORT_BYTES:])


def check_packed(packed, n_bits):
    """Return packed bits, or raise a DataError that names the first report with a bit beyond the last."""
    padding = np.uint8((1 << (8 * packed.shape[1] - n_bits)) - 1)
    bad = np.flatnonzero(packed[:, -1] & padding)
    if bad.size:
        raise DataError(f"a report has bits set beyond its {n_bits} bits", line=int(bad[0]), field="bits")
    return packed


def by_cohort(cohorts):
    """Yield (cohort, positions of its reports)."""
    order = np.argsort(cohorts, kind="stable")
    present, starts = np.unique(cohorts[order], return_index=True)
    yield from zip(present.tolist(), np.split(order, starts[1:]), strict=True)
