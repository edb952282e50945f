"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Format: Bytes of the number of reports.
HEAD = 4
#: Memory: Entries of rows of single reports that are in memory together.
TOGETHER = 2**22
#: Memory: Most reports of one user.
MAX_TIMES = 2**16
#: Memory: Entries of the rows of histories: 2 GiB of doubles.
MAX_ROW_ENTRIES = 2**28
#: Memory: Histories that are listed.
MAX_HISTORIES = 2**16
#: Mathematics: Above so many reports the exact level is its limit, to the last digit of any setting of use.
MAX_EXACT_TIMES = 2**12
#: Memory: Entries of the chances from which counts are drawn together.
COUNTED_TOGETHER = 2**20
