"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Mathematics: Information below this share of the largest counts as none: the reports do not identify that direction.
RANK_TOLERANCE = 1e-10
#: Mathematics: Terms further from the mean than so many of the largest standard deviations have less than 1e-14 of all.
REACH = 8
#: Mathematics: Others are expanded at their saddle point, whose tails are right to a relative half per cent: so much is
#: given away.
SLACK = 0.99
#: Memory: Likelihood rows with more entries than this are not written out.
MAX_ENTRIES = 2**26
#: Memory: Quadrature nodes times categories of a power law, in the largest array.
MAX_NODES = 2**16
#: Time: Categories above which the last steps of Newton's method on the positive ones, an (a, a) matrix, are left out. The
#: bank's 317 problems never cross it.
LARGEST_MATRIX = 3000
