"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Memory: Largest listed channel, in entries, whose most effective report is looked for.
MAX_ENTRIES = 2**22
#: Time: Reports up to which the trace of the information is a sum over all of them, however many categories there are.
MAX_REPORTS = 2**17
#: Mathematics: Ends of the searches for a level and for a number of categories.
SMALLEST_EPSILON, LARGEST_CATEGORIES = 1e-4, 2**20
