"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Channels with more entries than this are never written out.
MAX_CHANNEL_ENTRIES = 2**24
#: More users than this are not drawn one by one.
MAX_DRAWN_USERS = 2**27
#: Entries of one unpacked block. A call works on one block at a time, so its memory does not grow with the reports.
BLOCK = 2**23
#: Reports, and bits, from which they are drawn by the compiled kernel; what is done with so many reports loads such kernels
#: anyway. Seeds of version 0.1.0 keep fewer.
FEW_USERS, MANY = 2**13, 2**23
#: Most categories: the points of a geometry are listed once.
MAX_POINTS = 2**20
#: Comparisons after which the rank of a design is not looked at.
MAX_MEETINGS = 2**30
#: Reports that are crafted together.
CRAFTED_TOGETHER = 2**18
#: Multiplications after which the decoder of a design is not made: half a minute.
MAX_PRODUCTS = 2**35
#: Bytes of a cohort before the bits of a report.
COHORT_BYTES = 4
#: Largest a + β at which one random double settles truth and category; their probabilities are then exact to 2^-53.
ONE_DRAW = 2.0**20
#: Users drawn at a time: the working arrays stay in the cache.
USERS_IN_CACHE = 2**14
#: Most reports whose number fits in the bits of a word that 53 others leave.
ONE_WORD = 2**11
#: A bit above every index and report of a single client: Python keeps small integers and makes large ones anew, which takes
#: longer, so that none of its integers may be small for one value and large for another.
TOP = 2**32
#: Orders of fields are at most this: addition and multiplication are tables.
MAX_ORDER = 512
#: Levels of a row are one byte: (h + 1)² ≤ 256.
MAX_HASHES = 15
#: Entries of a combined channel: several copies of it are in memory together while it is made.
COMBINED_ENTRIES = 2**22
#: Part of ε by which the level outside the subset stays below its bound: more than all rounding, less than anybody sees.
MARGIN = 1e-12
#: Relative error of a chance, and more.
ROUNDING = 2.0**-48
#: A level below this outside the subset is none: those categories are not told apart.
LEAST_LEVEL = 1e-9
#: Level below which the best share of categories is taken from its series: both errors are some 1e-11 there.
SMALL_EPSILON = 1e-5
#: Most reports that are listed.
MAX_SETS = 2**16
#: Generators that run side by side, as many as vector units take at once.
LANES = 16
