"""The former home of the readers; import them from ``ldpbayes.sources``."""

from ldpbayes.sources import read_collection, read_frame, write_collection

__all__ = ["read_collection", "read_frame", "write_collection"]
