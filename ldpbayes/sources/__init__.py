"""Where reports come from: collection files, CSV and Parquet files, and data frames.

A reader of tables is a file with a subclass of AbstractSource and an entry in READERS.
"""

from ldpbayes.sources.base import READERS, AbstractSource, Groups, open_table
from ldpbayes.sources.collection_file import read_collection, write_collection
from ldpbayes.sources.csv import CsvSource
from ldpbayes.sources.frame import read_frame
from ldpbayes.sources.parquet import ParquetSource

READERS |= {".csv": CsvSource, ".parquet": ParquetSource, ".pq": ParquetSource}

__all__ = ["READERS", "AbstractSource", "Groups", "open_table", "read_collection", "read_frame", "write_collection"]
