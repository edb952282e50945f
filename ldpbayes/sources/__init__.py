"""Where reports come from: files, data frames and engines, as one stream of Arrow tables; see ``stream``.

A kind of source is a subclass of AbstractSource, and a format of files one of AbstractFile that states its suffixes, in a
file of this package.
"""

import importlib
import pkgutil

from ldpbayes.sources.collection_file import read_collection, write_collection
from ldpbayes.sources.door import read
from ldpbayes.sources.scanning import read_summaries, scan
from ldpbayes.sources.stream import READERS, SOURCES, AbstractFile, AbstractSource, open_source
from ldpbayes.sources.writing import write_reports

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
importlib.import_module(f"{__name__}.scanning.spark")

READERS |= {suffix: cls for cls in AbstractFile.__subclasses__() for suffix in cls.suffixes}
SOURCES[:] = sorted(AbstractSource.__subclasses__(), key=lambda cls: cls.asked_last)

__all__ = [
    "READERS",
    "AbstractFile",
    "AbstractSource",
    "open_source",
    "read",
    "read_collection",
    "read_summaries",
    "scan",
    "write_collection",
    "write_reports",
]
