"""Limits of memory, of double precision and of formats: no number here is a choice about results."""

#: Mathematics: A log-likelihood that varies by less than this over the draws does not depend on P.
FLAT = 1e-10
#: Memory: Draws whose log-likelihood is computed together.
DRAWS_TOGETHER = 500
#: Memory: Covariance matrices of all cells with more entries than this are left out.
MAX_COVARIANCES = 10**7
#: Memory: Reports of more cells than this are left out of the result: they would be a variable each.
MAX_OBSERVED = 200
#: Memory: A pointwise log-likelihood with more entries than this is not written out.
MAX_POINTWISE = 5 * 10**7
#: Memory: Numbers that a block of draws × reports × categories may hold.
BLOCK = 2**22
#: Memory: Bytes of all variables, and bytes for each byte of the file, up to which they are read: draws hardly compress.
MOST_BYTES, BYTES_A_BYTE = 2**27, 2**8
#: Mathematics: How far a sum of shares may be from one.
TOLERANCE = 1e-9
