"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Memory: Reports times draws whose probabilities are computed together.
BLOCK = 2**21
#: Mathematics: The largest number below one that a sum added up in another order stays above.
BELOW_ONE = 1 - 2.0**-50
#: Memory: Rows of few values with up to so many entries are kept written out, 8 bytes an entry.
KEPT = 2**22
#: Memory: Weights of so many entries of the rows, or of the rows once, are written out together.
MAX_BLOCK = 2**17
#: Memory: Rows that are read and added up together: their sums stay in the first-level cache, and tables are loaded rarely.
ROWS_IN_CACHE = 512
#: Memory: Entries that are sorted by group at a time, to count supports and to expand, so that they stay in the cache; and
#: the least number of reports for each group, for which the kernels make tables.
COUNTED, EXPANDED = (2**22, 64), (2**25, 1024)
#: Memory: Entries that are sorted at a time, at most.
SORTED = 2**28
#: Memory: A table of products over the distinct rows of every attribute is made where it has at most so many entries, 8
#: bytes each: 2 MB a distribution, which a core's cache holds, or of at most four entries a report.
MAX_TABLE = 2**18
#: Memory: Numbers of a block of rows × draws, 8 bytes each: 8 MB, and half as much for those of 4 bytes that fill it.
PRODUCTS = 2**20
#: Mathematics: Rows whose ratios are multiplied before a logarithm is taken: ratios from 1/8 to 8 keep the product of 256
#: within 2^±768, and floats end at 2^±1022. Half takes twice the logarithms; with double, ratios of 4 leave floats.
FACTORS = 256
