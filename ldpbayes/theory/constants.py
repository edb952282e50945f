"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

STEP = 0.3
