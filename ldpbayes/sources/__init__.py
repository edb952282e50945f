"""Where reports come from: collection files, CSV files and data frames."""

from ldpbayes.sources.collection_file import read_collection, write_collection
from ldpbayes.sources.frame import read_frame

__all__ = ["read_collection", "read_frame", "write_collection"]
