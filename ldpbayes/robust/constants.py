"""Limits of memory, of double precision and of formats, and a sentence: no number here is a choice about results."""

#: Likelihood rows with more entries than this are not written out for a curve.
MAX_ENTRIES = 2**22
#: Points of a curve; each is a maximum of the likelihood.
MAX_POINTS = 10**5
#: Distinct reports times categories beyond which probabilities are not written out: 16 MB.
WRITTEN_ENTRIES = 2_000_000
#: Counts of a sum over tallies that are held at a time: 80 MB.
SUMMED_NUMBERS = 10_000_000
#: What a cross-check of an uncertain device says of the estimates beside it.
AT_MEANS = "MLE, oracle and cvxpy take the probabilities of the device at their means: they have none of its uncertainty."
