"""Reports at scale: a scan of any source as a fold whose partial results add up."""

from ldpbayes.sources.scanning.driver import Scan, scan
from ldpbayes.sources.scanning.fold import Fold
from ldpbayes.sources.scanning.found import Found
from ldpbayes.sources.scanning.partials import Partial, ReportSample
from ldpbayes.sources.scanning.pilots import Pilots

__all__ = ["Fold", "Found", "Partial", "Pilots", "ReportSample", "Scan", "scan"]
