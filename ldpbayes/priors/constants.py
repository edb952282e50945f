"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Mathematics: Relative error of the moments of P by integrals, and that by rounding alone; error of their log-evidence.
INTEGRALS, ROUNDING, NATS = 1e-9, 1e-12, 1e-6
#: Mathematics: Quantiles of shares are tabulated at so many points, as far into the tails of a normal law as these are
#: floats.
FAR, POINTS = 37.0, 1481
#: Mathematics: Eigenvalues of a graph's Laplacian below this share of the largest are zero: one for each connected part.
NULL = 1e-9
#: Memory: The basis of a log-linear model is written out up to so many entries. The bank's 317 problems never cross it.
MAX_BASIS = 2**24
#: Memory: Most laws by which respondents may ignore the device.
MAX_LAWS = 1000
