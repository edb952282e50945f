"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Memory: Reports of a cell that the second pass takes together, as far as so many rows allow: a cell's tables are made
#: once.
ROWS_A_CELL, MOST_ROWS = 128, 2**21
#: Memory: Reports that are kept to be expanded, and bytes of them.
KEPT_MOST, KEPT_BYTES = 500_000, 2**26
#: Memory: Reports of a partition of users, about, which are in memory together with what is computed of them; and the
#: number of partitions where that of the reports is not known.
ROWS_A_PARTITION, PARTITIONS = 2**18, 2**8
#: Memory: Distinct reports of a channel whose counts are kept, which their content chooses.
CHOSEN = 2**10
#: Memory: Counts of a file that are compared with those of others: their covariance is a matrix.
MAX_DRIFTED = 2**10
#: Memory: Rows of a table of counts that wait before they are merged.
WAITING = 2**16
