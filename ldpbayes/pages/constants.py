"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Display: Numbers below this are written out, and not in powers of ten.
WRITTEN_OUT = 1e7
