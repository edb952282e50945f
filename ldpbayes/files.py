"""Reading text and TOML files with errors that name the place, and writing files whole.

A file is written under a temporary name and then renamed, so that an interrupted run loses nothing.
"""

import contextlib
import os
import pathlib
import tempfile
import tomllib

from ldpbayes.errors import DataError


@contextlib.contextmanager
def replacing(path):
    """Yield a temporary path beside ``path``; on success it takes the place of ``path``, on failure it is removed.

    Raises
    ------
    DataError
        Where the folder does not exist or cannot be written.
    """
    path = pathlib.Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    except OSError as err:
        raise DataError(f"cannot be written ({err.strerror})", source=path) from err
    os.close(handle)
    try:
        yield pathlib.Path(name)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise


def write_text(path, text):
    """Write text to path, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def read_text(path):
    """Return the text of a UTF-8 file (with or without a byte-order mark), or raise a DataError in one sentence."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as err:
        raise DataError(f"is not UTF-8 text (byte {err.start})", source=path) from err
    except OSError as err:
        raise DataError(f"cannot be read ({err.strerror})", source=path) from err


def read_toml(path):
    """Return the document of a TOML file, or raise a DataError that holds the parser's line and column."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as err:
        raise DataError(f"is not valid TOML: {err}", source=path) from err
