"""Limits of memory, and sizes of what is read together: no result depends on them."""

#: Rows of one batch.
BATCH = 2**20
#: Rows of a piece of a Parquet file, at least: what is read between two notes in a checkpoint.
PIECE = 2**22
#: Bytes that a column of a batch takes, and bytes of a file's column that are read whatever the file takes: 128 MiB.
MOST_BYTES = 2**27
#: Bytes, items of lists and rows for each byte of a file, beyond which it is no file of reports: privacy makes these random,
#: so that they hardly compress. Rows without a byte of their own are those of constant columns.
BYTES_A_BYTE, ROWS_A_BYTE = 2**8, 2**12
#: Items of lists, or rows, that are read whatever the file takes, and items of a row group beyond which none is read: each
#: takes four bytes beside its value.
ITEMS, MOST_ITEMS = 2**25, 2**30
