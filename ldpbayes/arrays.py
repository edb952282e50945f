"""Names for the array types of the annotations; shapes are in the docstrings."""

import numpy as np
from numpy.typing import NDArray

#: Double-precision numbers: distributions, draws, densities.
FloatArray = NDArray[np.float64]
#: Counts, positions and reports that are numbers.
IntArray = NDArray[np.int64]
