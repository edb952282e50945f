"""Constants of the methods that no result depends on: mathematics, codes and limits of memory, each with its reason."""

#: Mathematics: Prior sds that no node stands beyond: N(0, 1) has 1e-15 there.
FARTHEST = 8.0
#: Mathematics: Prior sds beyond the nodes that the curve through them goes on, in a straight line, and its points: its
#: integrals have errors of 1e-6.
BEYOND, CURVE = 3.0, 4001
#: Mathematics: What a log-evidence that cannot be computed counts as: no double is near it.
NOTHING = -1e300
#: Memory: Engines of a cell that stay in memory: more than nodes.
ENGINES = 256
#: Mathematics: Quantiles are sought from the logarithm of the least double on, in more steps than bisection needs, until
#: the level is met to this share of the tail.
LONGEST, STEPS, CLOSE = 690.0, 60, 1e-5
#: Memory: Numbers of draws that are weighted at once, for the memory.
MOST_WEIGHTED = 2**21
#: Memory: Draws whose likelihood is computed together: enough that a pass over the rows costs little, few enough to
#: interrupt.
BLOCK = 500
#: Mathematics: Nodes of the integral over the radius of a proposal, which is off by some 1e-5 at most, three times as many
#: where Σα < 1, whose left tail is long; steps to its mode; numbers that are looked at together, for the memory.
RADII, RADIUS_STEPS, TOGETHER = 31, 60, 2**16
#: Mathematics: A factor's power D/s² is at most this, so that the logarithm of 1 + s d keeps its digits …
STRAIGHT = 1e10
#: Mathematics: and s times the pilot at most this: the factor of a category stays above zero everywhere.
NEVER_ZERO = 1 - 1e-9
#: Memory: Categories of one collection up to which covariances are kept beside draws and without any, and numbers of those
#: of all cells: the memory of a result.
COVARIANCES, DEPENDENT, MOST_COVARIANCES = 2000, 500, 10**6
#: Memory: GB of the likelihood of reports, and categories of an expansion, beyond which moments are refused for the memory.
#: The bank's 317 problems never cross it.
LARGEST, MAX_FACTORS = 12.0, 200_000
#: Memory: Draws of P hold at most this many numbers; P, F and their summary take some ten times the bytes of one such array.
#: The bank's 317 problems never cross it.
MAX_DRAWN = 1e8
#: Memory: Rows with more entries than this are never written out: 512 MB. The bank's 317 problems never cross it.
MAX_WRITTEN = 2**26
#: Memory: Draws of P whose users are allocated together: enough to be quick, few enough to be interrupted.
ALLOCATED_TOGETHER = 250
#: Mathematics: Concentrations outside are refused: below, a draw of P is one category, to rounding; above, P is the prior's
#: mean.
CONCENTRATIONS = 1e-9, 1e12
#: Mathematics: A report whose chance changes by less than this share of itself, for a unit of mass, does not tell places
#: apart: round-off of its chance is some 1e-13.
UNTOLD = 1e-11
#: Memory: More entries (distinct reports × categories) than this are not written out where chains and modes visit them: 256
#: MB. The bank's 317 problems never cross it.
MAX_ENTRIES = 2**25
#: Memory: Numbers in the tables that exact draws are made from, some 20 √w for a category named by w reports: 800 MB. The
#: bank's 317 problems never cross it.
MAX_TABLES = 1e8
#: Memory: Categories above which no a × a matrix is made: 128 MB. The bank's 317 problems never cross it.
MAX_SQUARE = 4096
#: Mathematics: The least concentration of which the angle of a pair is resolved to 1e-6: below it sin^{2α−1} puts mass next
#: to 0.
MIN_ALPHA = 0.2
#: Memory: Nodes expanded, or draws moved, at a time: some dozen arrays of this length stay in a processor's cache.
BATCH = 2048
#: Memory: Nodes that draws are made from and that stay in memory, about 100 MB of them; beyond them batches are computed
#: twice.
KEPT_NODES = 2**22
#: Mathematics: Cells of the distribution function of a conditional density: inverting it is off by less than 1e-4 in
#: probability.
CELLS = 512
#: Mathematics: Nodes of δ that interpolate between nodes, and points for each node: ends agree with grids, where four put
#: one off by 4e-3 sd.
NEAR = 8
