"""Where reports come from: files, data frames and engines, as one stream of Arrow tables; see ``stream``.

A format of files is a subclass of AbstractFile that states its suffixes, in a file of this package.
"""

from ldpbayes.doors import lazily

_HOMES = {
    "AbstractFile": "sources.stream",
    "open_source": "sources.opening",
    "read_collection": "sources.collection_file",
    "write_collection": "sources.collection_file",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES)
