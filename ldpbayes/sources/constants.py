"""Limits of memory, and sizes of what is read together: no result depends on them."""

#: Memory: Rows of one batch.
BATCH = 2**20
#: Memory: Rows of a piece of a Parquet file, at least: what is read between two notes in a checkpoint.
PIECE = 2**22
#: Memory: Bytes that a column of a batch takes, and bytes of a file's column that are read whatever the file takes: 128
#: MiB.
MOST_BYTES = 2**27
#: Memory: Bytes, items of lists and rows for each byte of a file, beyond which it is no file of reports: privacy makes
#: these random, so that they hardly compress. Rows without a byte of their own are those of constant columns.
BYTES_A_BYTE, ROWS_A_BYTE = 2**8, 2**12
#: Memory: Bytes of a table that is read at once, of all its columns, about: 8 MiB.
READ_BYTES = 2**23
#: Memory: Items of lists, or rows, that are read whatever the file takes, and items of a row group beyond which none is
#: read: each takes four bytes beside its value.
ITEMS, MOST_ITEMS = 2**25, 2**30
#: Memory: Most different values of a column of ε, rates or protocols: each is a channel.
MAX_CHANNELS = 1000
#: Format: Bytes that are compared first, and that tell a file from others at either end.
COMPARED = 2**16
#: Memory: Bytes that are read in one go; a row must fit.
BLOCK = 2**24
#: Memory: Bytes from which columns are inferred together, and how many such parts a file begins with: a table has an entry
#: for every row and key of its part, whose number grows with the square of its bytes where every row has keys of its own.
#: Once there are more entries than bytes, which rows with the same keys never have, later keys are no columns either.
PART, PARTS = 2**14, 2**10
#: Memory: Most entries of a table of codes that is counted without sorting.
MOST_CODES = 2**22
#: Format: Digits before the point of a decimal number that is read as a whole one.
DIGITS = 80
#: Memory: Longest text of one protocol, in characters.
MAX_TEXT = 2**26
#: Memory: Likelihood rows (distinct reports × categories) with more entries than this are refused.
MAX_ENTRIES = 2**25
#: Memory: Rows that a quarantine file holds.
QUARANTINED = 10**6
#: Format: Rows of a row group: what a reader decodes together.
ROW_GROUP = 2**17
