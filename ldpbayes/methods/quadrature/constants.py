"""Limits of memory."""

#: Nodes expanded, or draws moved, at a time: some dozen arrays of so many rows stay in a processor's cache.
BATCH = 2048
#: Nodes that draws are made from and that stay in memory, about 100 MB of them; beyond them batches are computed twice.
KEPT_NODES = 2**22
