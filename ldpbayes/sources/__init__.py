"""Where reports come from: collection files, CSV and Parquet files, and data frames.

A reader of tables is one file with a subclass of AbstractSource that states the suffixes it reads.
"""

import importlib
import pkgutil

from ldpbayes.sources.base import READERS, AbstractSource, Groups, open_table
from ldpbayes.sources.channels import read_reports
from ldpbayes.sources.collection_file import read_collection, write_collection
from ldpbayes.sources.frame import read_frame
from ldpbayes.sources.scanning import read_summaries, scan
from ldpbayes.sources.writing import write_reports

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

READERS |= {suffix: cls for cls in AbstractSource.__subclasses__() for suffix in cls.suffixes}

__all__ = [
    "READERS",
    "AbstractSource",
    "Groups",
    "open_table",
    "read_collection",
    "read_frame",
    "read_reports",
    "read_summaries",
    "scan",
    "write_collection",
    "write_reports",
]
