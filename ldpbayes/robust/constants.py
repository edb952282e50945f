"""Limits of memory, of double precision and of formats, and a sentence: no number here is a choice about results."""

#: Time: Likelihood rows with more entries than this are not written out for a curve.
MAX_ENTRIES = 2**22
#: Time: Points of a curve; each is a maximum of the likelihood.
MAX_POINTS = 10**5
#: Memory: Distinct reports times categories beyond which probabilities are not written out: 16 MB.
WRITTEN_ENTRIES = 2_000_000
#: Display: Categories of the table and the figure of a hull, the largest estimates first.
CATEGORIES = 20
#: Memory: Counts of a sum over tallies that are held at a time: 80 MB.
SUMMED_NUMBERS = 10_000_000
#: Display: What a cross-check of an uncertain device says of the estimates beside it.
AT_MEANS = "MLE, oracle and cvxpy take the probabilities of the device at their means: they have none of its uncertainty."
