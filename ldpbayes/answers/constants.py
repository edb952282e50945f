"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Mathematics: Step of a lattice along its second dimension: the golden section.
GOLDEN = (5**0.5 - 1) / 2
#: Mathematics: Shares that differ by less are equal.
ROUNDING = 1e-12
#: Mathematics: Numbers of users are whole to this.
ATOMS = 1e-6
#: Mathematics: Steps of the bisection for the level of each category: to a 2^-40th of the range.
STEPS = 40
