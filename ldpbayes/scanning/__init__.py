"""Reports that do not fit in memory: a scan of any source as a fold whose partial results add up, here or in Spark.

From the core it takes readers and their streams (``sources``), summaries of likelihoods, and collections of them. It brings
files of cells, a source and the page of a scan (``registered.py``), and the command ``scan``.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.scanning.driver import Scan as Scan
    from ldpbayes.scanning.driver import scan as scan
    from ldpbayes.scanning.fold import Fold as Fold
    from ldpbayes.scanning.found import ChannelCells as ChannelCells
    from ldpbayes.scanning.found import Found as Found
    from ldpbayes.scanning.partials import ChannelSums as ChannelSums
    from ldpbayes.scanning.partials import Partial as Partial
    from ldpbayes.scanning.partials import ReportSample as ReportSample
    from ldpbayes.scanning.pilots import Pilots as Pilots

_HOMES = {
    "ChannelCells": "scanning.found",
    "Fold": "scanning.fold",
    "Found": "scanning.found",
    "Partial": "scanning.partials",
    "Pilots": "scanning.pilots",
    "ReportSample": "scanning.partials",
    "Scan": "scanning.driver",
    "ChannelSums": "scanning.partials",
    "scan": "scanning.driver",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
