"""Limits of memory, of double precision and of formats, and one published rule: that for the pieces of curves."""

#: Memory: Designs with more entries or columns are refused: they, or the Hessian, would not fit in memory several times
#: over. The bank's 317 problems never cross it.
MAX_ENTRIES, MAX_COLUMNS = 2**27, 4_000
#: Mathematics: Numbers that are larger, or all smaller than its inverse, are refused: their squares leave double precision.
MAX_NUMBER = 1e100
#: Mathematics: Smaller shares have the logarithm of this.
LEAST = 1e-300
#: Mathematics: Logits of numbers of items are cut off here, far beyond what reports say.
FAR = 300.0
#: Memory: Longest formula, most terms after all products, and most factors of an interaction. The bank's 317 problems never
#: cross it.
MAX_LENGTH, MAX_TERMS, MAX_ORDER = 20_000, 2_000, 6
#: Memory: Most parentheses inside each other, and most signs and functions above a column: what recursion can follow.
MAX_DEPTH, MAX_HEIGHT = 40, 200
#: Mathematics: Largest degree of polynomials and splines, and most columns of a spline.
MAX_DEGREE, MAX_BASIS = 20, 200
#: Rule: Most pieces of s(x), where there are four values to a piece: the rule of Ruppert 2002, JCGS 11; a penalised curve
#: needs no choice of knots.
MOST_PIECES = 35
#: Time: Numbers (draws × rows × categories) that one answer computes; beyond, only some of the draws are taken.
MAX_NUMBERS = 4 * 10**8
#: Memory: Numbers that are held at once.
NUMBERS_TOGETHER = 2**22
#: Mathematics: Stored columns and those that a stored design gives may differ by rounding, relative to the largest of the
#: column.
ROUNDING = 1e-7
#: Memory: Numbers that a block of draws × entries holds where nothing is compiled: few enough to stay near the processor.
NUMBERS_IN_CACHE = 2**18
#: Mathematics: Draws that are computed together, and where their log odds are cut: e^325 and its reciprocal are far from
#: the ends.
DRAWS_TOGETHER, LARGEST_LOGIT = 64, 325.0
