"""Numbers of inference that tune nothing: where floats end, and how much is held at once."""

#: Mathematics: Weights this many nats below the largest count as zero: e^−700 is next to the smallest float.
LOWEST = 700.0
#: Mathematics: Log weights within this range are equal: round-off of sums of thousands of terms.
EQUAL = 1e-9
#: Mathematics: Fewer draws than this have no tail to fit: it is a fifth of them, and a Pareto law wants five.
LEAST_WEIGHED = 25
#: Mathematics: Draws with an unknown beyond are lost: squares of it are near where floats end.
FARTHEST = 1e100
#: Memory: Numbers (draws × quantities) that are looked at together: 32 MB.
TOGETHER = 2**22
#: Memory: Numbers that are ordered together: 2 MB, which a core's cache holds.
ORDERED = 2**18
#: Time: Draws that say about where tails begin: three times the tails are put in order then, and all where that is too
#: little.
SOME = 1024
#: Memory: Numbers (draws × unknowns, or what is said of them) that weighted draws hold at most: 128 MB.
MOST_HELD = 2**24
#: Memory: Numbers (draws × quantities) of chains that are diagnosed together: 8 MB, and their spectra as much again.
DIAGNOSED = 2**20
#: Format: Quantiles beyond which tails are looked at, as ArviZ does for the effective sample size of tails.
TAILS = 1 - 0.9, 0.9
#: Mathematics: Fewer draws of a chain have no two halves with a variance each.
LEAST_DRAWS = 4
#: Time: Starting points that are tried until one has a density: a search that finds none has to end.
MOST_STARTS = 100
#: Mathematics: A report with a smaller probability has it computed in logarithms: a category that the channel rules out has
#: a zero in its row, and the others may have shares beyond the range of floats.
TINY = 1e-200
#: Mathematics: Probabilities of single reports are multiplied until they are smaller than this, and then their logarithm is
#: taken: one more factor, which is above TINY, stays within floats.
LOW = 1e-100
#: Memory: Cells whose logits are computed together: a core's cache holds their numbers side by side.
BLOCK = 64
#: Mathematics: Step of the differences of a gradient: the fourth root of a float's precision, where round-off and third
#: order are small.
DIFFERENCE = 1e-4
#: Memory: Numbers that particles which move together visit at once (128 MB), and the most of these particles.
VISITED, PARTICLES_TOGETHER = 2**24, 1000
#: Memory: Draws of chains that go on: beyond them, draws of P and of what is derived fill memory.
MOST_CHAINED = 2**17
#: Mathematics: Squared distance of ``arviz_stats.psense`` by a shift δ in sds and a change ε of the log sd, from 4,000
#: normal draws: Aδ² + Bε² + 2C|δε|.
SHIFTED, WIDENED, BOTH = 0.0459, 0.0555, 0.0300
#: Format: Powers of the prior under which a posterior is made again, as in ``arviz_stats.psense``.
POWERS = (0.8, 1.25)
#: Memory: Above this many entries, ESS and R-hat are computed for the rarest, the commonest and evenly spaced categories
#: only: the spectra of 4,000 draws of each are 8 MB.
MAX_DIAGNOSED = 256
