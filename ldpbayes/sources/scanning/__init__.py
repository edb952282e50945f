"""Reports at scale: a scan of files, Arrow, DuckDB and data frames as a fold whose partial results add up.

A kind of source is one file with a subclass of AbstractTable.
"""

import importlib
import pkgutil

from ldpbayes.sources.scanning.driver import Scan, scan
from ldpbayes.sources.scanning.fold import Fold
from ldpbayes.sources.scanning.found import Found, read_summaries
from ldpbayes.sources.scanning.partials import Partial, ReportSample
from ldpbayes.sources.scanning.pilots import Pilots
from ldpbayes.sources.scanning.tables import TABLES, AbstractPiece, AbstractTable, open_source

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

TABLES[:] = sorted(AbstractTable.__subclasses__(), key=lambda cls: cls.asked_last)

__all__ = [
    "TABLES",
    "AbstractPiece",
    "AbstractTable",
    "Fold",
    "Found",
    "Partial",
    "Pilots",
    "ReportSample",
    "Scan",
    "open_source",
    "read_summaries",
    "scan",
]
