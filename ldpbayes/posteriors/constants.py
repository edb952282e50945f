"""Limits of memory and of doubles."""

#: Draws of P hold at most so many numbers; P, F and their summary take some ten times the bytes of one such array.
MAX_DRAWN = 1e8
#: Concentrations outside are refused: below, a draw of P is one category, to rounding; above, P is the prior's mean.
CONCENTRATIONS = 1e-9, 1e12
