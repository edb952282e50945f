"""Hypothesis strategies that several test files share."""

import numpy as np
from hypothesis import strategies as st

from ldpbayes.protocols.channel import Channel


@st.composite
def channels(draw, a=3):
    """Strictly positive (b, a) channels with b from a to a + 2."""
    b = draw(st.integers(a, a + 2))
    entries = draw(st.lists(st.floats(0.05, 1), min_size=a * b, max_size=a * b))
    matrix = np.array(entries).reshape(b, a)
    return Channel(matrix / matrix.sum(axis=0))
