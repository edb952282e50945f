"""Sizes of tests, limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Memory: Entries of the rows of repeated reports that are written out.
ROW_ENTRIES = 2**24
#: Time: Entries of a channel up to which it is tested by the counts of its reports.
COUNTED_ENTRIES = 2**22
#: Mathematics: A share that is as good as zero.
TINY = 1e-12
#: Mathematics: |z| that shows at a size of 0.05, and by how many sds more is needed to show in 95 % of collections.
SHOWN, SURE = 1.959964, 1.644854
#: Rule: A p-value below this is pointed out beside an answer that was not asked for a test.
MIN_P_VALUE = 0.01
