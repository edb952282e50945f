"""Numbers of inference that tune nothing: where floats end, and how much is held at once."""

#: Weights so many nats below the largest are nothing: e^−700 is next to the smallest float.
LOWEST = 700.0
#: Log weights within this range are equal: round-off of sums of thousands of terms.
EQUAL = 1e-9
#: Fewer draws than this have no tail to fit: it is a fifth of them, and a Pareto law wants five.
LEAST_WEIGHED = 25
#: Draws with an unknown beyond are lost: squares of it are near where floats end.
FARTHEST = 1e100
#: Numbers (draws × quantities) that are looked at together: 32 MB.
TOGETHER = 2**22
#: Numbers that are ordered together: 2 MB, which a core's cache holds.
ORDERED = 2**18
#: Numbers (draws × unknowns) that weighted draws hold at most: 32 MB.
MOST_HELD = 2**22
