"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Memory: Channels with more entries than this are never written out. The bank's 317 problems never cross it.
MAX_CHANNEL_ENTRIES = 2**24
#: Time: More users than this are not drawn one by one.
MAX_DRAWN_USERS = 2**27
#: Memory: Entries of one unpacked block. A call works on one block at a time, so its memory does not grow with the reports.
BLOCK = 2**23
#: Time: Reports, and bits, from which they are drawn by the compiled kernel; what is done with so many reports loads such
#: kernels anyway. Seeds of version 0.1.0 keep fewer.
FEW_USERS, MANY = 2**13, 2**23
#: Memory: Most categories: the points of a geometry are listed once.
MAX_POINTS = 2**20
#: Time: Comparisons after which the rank of a design is not looked at. The bank's 317 problems never cross it.
MAX_MEETINGS = 2**30
#: Memory: Reports that are crafted together.
CRAFTED_TOGETHER = 2**18
#: Time: Multiplications after which the decoder of a design is not made: half a minute. The bank's 317 problems never cross
#: it.
MAX_PRODUCTS = 2**35
#: Format: Bytes of a cohort before the bits of a report.
COHORT_BYTES = 4
#: Mathematics: Largest a + β at which one random double settles truth and category; their probabilities are then exact to
#: 2^-53.
ONE_DRAW = 2.0**20
#: Memory: Users drawn at a time: the working arrays stay in the cache.
USERS_IN_CACHE = 2**14
#: Format: Most reports whose number fits in the bits of a word that 53 others leave.
ONE_WORD = 2**11
#: Mathematics: A bit above every index and report of a single client: Python keeps small integers and makes large ones
#: anew, which takes longer, so that none of its integers may be small for one value and large for another.
TOP = 2**32
#: Memory: Orders of fields are at most this: addition and multiplication are tables.
MAX_ORDER = 512
#: Format: Levels of a row are one byte: (h + 1)² ≤ 256.
MAX_HASHES = 15
#: Memory: Entries of a combined channel: several copies of it are in memory together while it is made.
COMBINED_ENTRIES = 2**22
#: Mathematics: Part of ε by which the level outside the subset stays below its bound: more than all rounding, less than
#: anybody sees.
MARGIN = 1e-12
#: Mathematics: Relative error of a chance, and more.
ROUNDING = 2.0**-48
#: Mathematics: A level below this outside the subset is none: those categories are not told apart.
LEAST_LEVEL = 1e-9
#: Mathematics: Level below which the best share of categories is taken from its series: both errors are some 1e-11 there.
SMALL_EPSILON = 1e-5
#: Memory: Most reports that are listed.
MAX_SETS = 2**16
#: Time: Generators that run side by side, as many as vector units take at once.
LANES = 16
