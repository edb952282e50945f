"""Limits of memory and of doubles."""

#: Draws of P hold at most so many numbers; P, F and their summary take some ten times the bytes of one such array.
MAX_DRAWN = 1e8
#: Rows with more entries than this are never written out: 512 MB.
MAX_WRITTEN = 2**26
#: Draws of P whose users are allocated together: enough to be quick, few enough to be interrupted.
ALLOCATED_TOGETHER = 250
#: Concentrations outside are refused: below, a draw of P is one category, to rounding; above, P is the prior's mean.
CONCENTRATIONS = 1e-9, 1e12
