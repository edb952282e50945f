"""What was collected: tallies of distinct reports, and collections of tallies over the same categories."""

from ldpbayes.collections.collection import Collection, Derived
from ldpbayes.collections.tally import Tally

__all__ = ["Collection", "Derived", "Tally"]
