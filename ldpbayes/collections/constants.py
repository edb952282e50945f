"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Mathematics: Shares below this one are drawn again in logarithms, where a derived quantity divides by them.
TINY = 1e-290
#: Mathematics: Directions in which the scores vary by less than this share of the largest variance carry no information.
RANK_TOLERANCE = 1e-10
#: Memory: Outcomes of all uncertain devices of a collection: each is a category of the likelihood.
MAX_OUTCOMES = 2**12
#: Mathematics: Weights above are no weights of a sample; their squares would overflow.
LARGEST_WEIGHT = 1e100
#: Memory: Dense likelihood rows with more entries than this do not go into a PyMC model.
MAX_ENTRIES = 2**25
#: Mathematics: Shares down to this far below zero are those of a model that computes the last as one less the others.
ROUNDING = 1e-9
