"""Limits of memory, and orders of interpolation."""

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
