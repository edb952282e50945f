"""Limits of memory and of double precision: no number here is a choice about results."""

#: Distinct reports times categories beyond which probabilities are not written out: 16 MB.
WRITTEN_ENTRIES = 2_000_000
