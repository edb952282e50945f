"""Limits of memory, of double precision and of formats, for the modules beside this one and folders with few."""

#: Memory: Longest TOML file, in bytes; its keys, tables and lists; and parts of a key. Every part takes the parser a
#: kilobyte.
MAX_TOML_BYTES, MAX_TOML_ENTRIES, MAX_DOTS = 2**24, 2**15, 8
#: Memory: Brackets within brackets of a line of JSON: Arrow goes one call deeper for each.
MAX_NESTING = 64
#: Mathematics: Above this a report equals the value to within e^-50 < 2e-22, and e^epsilon leaves no room in double
#: precision.
MAX_EPSILON = 50.0
#: Mathematics: Below this e^epsilon - 1 is lost in the rounding of rates and thresholds, and an estimate needs more than
#: 1e18 reports.
MIN_EPSILON = 1e-9
#: Memory: A hundred times everybody alive; far above it the windows of the exact sums no longer fit in memory. The bank's
#: 317 problems never cross it.
MAX_COUNT = 10**12
#: Memory: Categories of one collection; draws of more would not fit in memory. The bank's 317 problems never cross it.
MAX_CATEGORIES = 2**22
#: Memory: Most cells of a table of attributes. The bank's 317 problems never cross it.
MAX_CELLS = 2**20
#: Mathematics: Intervals have at least this probability, and leave out at least as much.
MIN_LEVEL = 1e-9
#: Mathematics: Positive numbers have squares, and are divisors of squares, in double precision.
LARGEST = 1e150
#: Format: Seeds stay below this: NetCDF stores no larger integer.
MAX_SEED = 2**63
#: Memory: Bytes that the draws of one result may take. The bank's 317 problems never cross it.
MAX_DRAWS_BYTES = 2**33
#: Mathematics: A bucket's share is within this relative distance of 1/g at the largest g: MAX_BUCKETS / 2^32 = 2^-12.
MAX_BUCKETS = 2**20
#: Memory: Most entries of a protocol's table of buckets, one for each cohort, hash and category.
MAX_TABLE = 2**24
#: Memory: Entries hashed at a time: the working arrays stay in the cache.
HASHED_TOGETHER = 2**16
#: Mathematics: Bits of one comparison; a threshold N means probability N / 2**BITS exactly.
BITS = 128
#: Format: Bits of one digit of Python's large integers.
DIGIT = 30
#: Format: Bytes of the key from which a device draws its permanent answers.
KEY_BYTES = 32
#: Memory: Values of one expression, and results of a client, that ``outcomes`` goes through.
MANY_VALUES, MAX_OUTCOMES = 2**12, 2**20
#: Format: Rows of a file of reports; NumPy draws no users from a larger urn.
MAX_ROWS = 10**9 - 1
#: Memory: Users whose reports are in memory together.
USERS_TOGETHER = 2**18
#: Memory: Bytes that the draws of P take by default; a fit takes some six times as many at its peak.
DRAWS_BYTES = 2**27
#: Format: Exit status of tools whose output nobody reads any more: as a shell has that of a process ended by SIGPIPE.
BROKEN_PIPE = 141
#: Display: Numbers below this are written out, and not in powers of ten.
WRITTEN_OUT = 1e7
#: Mathematics: Step of the trapezoidal rule for ∫ e^{−t(1+βs)} dt with t = e^τ: its error is below the last digit of a
#: double.
STEP = 0.3
#: Mathematics: Step of a lattice along its second dimension: the golden section.
GOLDEN = (5**0.5 - 1) / 2
#: Mathematics: Shares that differ by less are equal.
ROUNDING = 1e-12
#: Mathematics: Numbers of users are whole to this.
ATOMS = 1e-6
#: Mathematics: Steps of the bisection for the level of each category: to a 2^-40th of the range.
STEPS = 40
#: Rule: A p-value below this is pointed out beside an answer that was not asked for a test.
MIN_P_VALUE = 0.01
