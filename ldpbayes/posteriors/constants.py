"""Limits of memory."""

#: Draws of P hold at most so many numbers; P, F and their summary take some ten times the bytes of one such array.
MAX_DRAWN = 1e8
