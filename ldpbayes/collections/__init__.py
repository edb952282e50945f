"""Classes of data: Tally, Collection, Cells, Summary (an expanded likelihood), Derived (a sum, a conditional share)."""

from ldpbayes.collections.cells import Cells, as_collection, as_data
from ldpbayes.collections.collection import Collection
from ldpbayes.collections.derived import Derived
from ldpbayes.collections.summarized import Summarized
from ldpbayes.collections.tally import Tally
from ldpbayes.likelihoods import Summary

__all__ = ["Cells", "Collection", "Derived", "Summary", "Tally"]


def __dir__() -> list[str]:
    return [*__all__]
