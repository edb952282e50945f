"""Engines for a prior over all cells: the pattern of posteriors.base, with one likelihood a cell."""

from ldpbayes.posteriors.joint.base import AbstractJoint
from ldpbayes.posteriors.joint.hmc import Rotating
from ldpbayes.posteriors.joint.laplace import AboutTheMode
from ldpbayes.posteriors.joint.nuts import Whitened

#: Joint engines by the name of the method, in the order in which ``auto`` considers them.
JOINT: dict[str, type] = {"laplace": AboutTheMode, "hmc": Rotating, "nuts": Whitened}

__all__ = ["JOINT", "AboutTheMode", "AbstractJoint", "Rotating", "Whitened"]
