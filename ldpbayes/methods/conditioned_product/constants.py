"""Constants of conditioned products: where floats end, and what stays in memory. No result depends on them."""

#: Mathematics: exp(−DROP) = 3e-20 is the relative mass that windows may leave out: a float's precision, less the digits
#: that sums lose.
DROP = 45.0
#: Mathematics: The tails of a factor end within this distance of u, left and right of its centre: there g^α is below
#: exp(−DROP) from α = 1e-7 on, and g is beyond the range of sums.
LONGEST = 20.0, 60.0
#: Mathematics: Relative error of modes, and Newton's steps to them, which fall monotonically: more than bisection needs.
MODE_ERROR, NEWTON_STEPS = 1e-12, 60
#: Mathematics: Below it log(1 + x) − x is a series, which five terms give to all digits; above it the difference loses one
#: and a half.
SMALL = 0.05
#: Mathematics: Error of an unknown log-evidence: it stays finite times a weight of zero.
UNKNOWN = 1e300
#: Mathematics: The line of ω is cut where the product of the transforms is below the first number, two units of the last
#: place. It must end below the second, round-off of a sum of hundreds, and what is below the third is left out: it changes
#: no digit.
TOLERANCE, LOUD, NEGLIGIBLE = 4e-16, 1e-13, 1e-19
#: Mathematics: A margin is lost where an error of 1e-16 in its own transform grows above the first number, which leaves
#: five digits of a density's tail. Where there are no polynomials to take its place, only half of the digits must be left
#: at the end.
LOST, ROUGHLY_LOST = 1e-11, TOLERANCE**0.25
#: Mathematics: Means given the sum add up to one: by how much those by transforms, and those by polynomials, may miss it.
#: Round-off is far below the first number; noise of the transforms, where a tilt leaves the sums that matter in it, is
#: above the second.
OFF, NOISY = 1e-8, 1e-5
#: Mathematics: Error of the transform of a law at one sum, and of log-evidences by such transforms.
NOISE, ROUNDING = 1e-15, 1e-8
#: Mathematics: Powers of a polynomial that are summed before logarithms are taken, and e-folds that their argument may
#: span: together they stay within the range of floats, e^700.
POWERS, FOLDS = 32, 700 / 32
#: Mathematics: A cdf is known to the first number; Newton's step after one of the second, in grid steps, is below it.
LAST_DIGIT, LAST_STEP = 1e-15, 1e-6
#: Mathematics: Grid points of a margin: Fourier series of densities with small concentrations, whose grids are long,
#: converge with them.
MARGIN_NODES = 512
#: Memory: Nodes of a factor that are computed together, sets of factors, and complex numbers or counts: what a processor's
#: cache holds, and 16 MB.
BLOCK, SETS, TOGETHER = 2**15, 2**10, 2**20
#: Time: Proposed counts for one that is accepted, beyond which no draws are made: a loop has to end.
MOST_TRIED = 20_000
