"""Sizes of tests, limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Memory: Entries of the rows of repeated reports that are written out.
ROW_ENTRIES = 2**24
#: Time: Entries of a channel up to which it is tested by the counts of its reports.
COUNTED_ENTRIES = 2**22
#: Mathematics: A share that is as good as zero.
TINY = 1e-12
#: Mathematics: The least probability that floats hold to all digits, and thirds of [0, 1] until a share is known to 1e-14.
SMALLEST, THIRDS = 1e-300, 80
#: Display: Chance with which a test shows another ε that is said to show.
SURE = 0.95
