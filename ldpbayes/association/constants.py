"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Format: Bits that the code of a set may have.
MAX_BITS = 62
#: Mathematics: Logarithms of odds ratios from here on stand for infinite ones.
BEYOND = 1e4
#: Display: Conditional shares are printed and drawn for at most so many pairs: those with the largest Cramér's V.
TOP = 6
#: Mathematics: A Cramér's V below this is 0 but for rounding.
NOTHING = 1e-12
