"""Reading text and TOML files with errors that name the place, and writing files whole.

A file is written under a temporary name and then renamed, so that an interrupted run loses nothing. Only regular files
are read and replaced, and what would take the parser much memory is refused before it is parsed.
"""

import atexit
import contextlib
import contextvars
import csv
import functools
import os
import pathlib
import re
import secrets
import shutil
import stat
import sys
import tempfile
import tomllib

from ldpbayes.constants import MAX_DOTS, MAX_TOML_BYTES, MAX_TOML_ENTRIES
from ldpbayes.errors import ArgumentError, DataError, shown

#: The keys of a TOML file that have more parts than are read; possessive, so that the time is linear in the length.
_DOTTED = re.compile(
    rf"""(?:^|[\[{{,])[ \t]*(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*\.[ \t]*){{{MAX_DOTS}}}""", re.MULTILINE
)
#: The name of standard input.
STDIN = "-"

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

#: Files that the running command has read, as (device, inode); None outside ``keeping_inputs``.
_inputs = contextvars.ContextVar("inputs", default=None)


# ---- writing ---------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def replacing(path):
    """Yield a temporary path beside ``path``; on success it takes the place of ``path``, on failure it is removed.

    A new file has the permissions that the umask leaves; a replaced one keeps its own. A symbolic link stays, and the
    file that it points to is replaced.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    pathlib.Path
        A new, empty file with the ending of ``path``.

    Raises
    ------
    DataError
        Where the file cannot be written: a missing folder, a full disk, something that is not a regular file.
    """
    target = check_output(path)
    temporary = None
    try:
        temporary = _new_file_beside(target)
        yield temporary
        _settle(temporary, target)
        os.replace(temporary, target)
    except OSError as err:
        raise DataError(f"cannot be written ({_reason(err)})", source=path) from err
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):  # after the rename there is nothing left to remove
                temporary.unlink()


def write_text(path, text):
    """Write text to path, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path, data):
    """Write bytes to path, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


class _Lines:
    """A text stream for the csv module, whose lines end in CR LF: they are passed on with LF."""

    def __init__(self, handle):
        self.handle = handle

    def write(self, line):
        return self.handle.write(line.removesuffix("\r\n") + "\n")


def write_rows(handle, rows):
    """Write rows as CSV with lines that end in LF, to a text stream that translates no line ends.

    Early releases of Python 3.12 quote a carriage return only where the ends of lines hold one.
    """
    csv.writer(_Lines(handle), lineterminator="\r\n").writerows(rows)


def check_output(path):
    """Return where ``path`` would be written, or raise the DataError that writing it would end in.

    Nothing is written, so that a long computation can check its outputs first.

    Raises
    ------
    DataError
        On a folder, a pipe or a device, a missing or read-only folder, a read-only file, or a file that this command has
        read.
    """
    try:
        target = pathlib.Path(os.path.realpath(path))
        info = os.stat(path) if os.path.exists(path) else None  # also of the pipe behind /dev/stdout
        above = target.parent.stat()
    except ValueError:
        raise DataError("cannot be written (a name cannot hold a NUL character)", source=path) from None
    except OSError as err:
        raise DataError(f"cannot be written ({_reason(err)})", source=path) from err
    if info is not None and stat.S_ISDIR(info.st_mode):
        raise DataError("cannot be written (Is a directory); name a file in it", source=path)
    if info is not None and not stat.S_ISREG(info.st_mode):
        raise DataError("cannot be written (not a regular file)", source=path)
    if not stat.S_ISDIR(above.st_mode):
        raise DataError("cannot be written (Not a directory)", source=path)
    if not os.access(target.parent, os.W_OK | os.X_OK) or (info is not None and not os.access(target, os.W_OK)):
        raise DataError("cannot be written (Permission denied)", source=path)
    if info is not None and (info.st_dev, info.st_ino) in (_inputs.get() or ()):
        raise DataError("cannot be written, for this command has read it; name another file", source=path)
    return target


def check_outputs(*paths):
    """Check several outputs of one command, as ``check_output`` does; None is left out.

    Raises
    ------
    DataError
        Also where two of them are the same file.
    """
    seen = {}
    for path in paths:
        if path is not None:
            target = check_output(path)
            if target in seen:
                raise DataError("cannot be written twice by one command; name two files", source=path)
            seen[target] = path


def check_folder(path):
    """Raise the DataError that writing files into a folder would end in, where it is there or is to be made.

    Raises
    ------
    DataError
        On a file of that name, and on a folder in which nothing can be written.
    """
    target = pathlib.Path(path)
    try:
        inside = target if target.exists() else target.parent
        good, writable = inside.is_dir(), os.access(inside, os.W_OK | os.X_OK)
    except (OSError, ValueError) as err:
        raise DataError(f"cannot be written ({_reason(err) if isinstance(err, OSError) else err})", source=path) from err
    if not good:
        raise DataError("cannot be made a folder (a file has that name)", source=path)
    if not writable:
        raise DataError("cannot be written (Permission denied)", source=path)


def make_folder(path):
    """Make a folder where there is none, and those above it.

    Raises
    ------
    DataError
        Where that is not possible.
    """
    try:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
    except ValueError:
        raise DataError("cannot be made (a name cannot hold a NUL character)", source=path) from None
    except FileExistsError as err:
        raise DataError("cannot be made a folder (a file has that name)", source=path) from err
    except OSError as err:
        raise DataError(f"cannot be made ({_reason(err)})", source=path) from err


@contextlib.contextmanager
def keeping_inputs():
    """Refuse, inside this context, to replace a file that was read inside it: no command overwrites its own input."""
    held = _inputs.get()  # of the command around this one
    token = _inputs.set(set() if held is None else held)
    try:
        yield
    finally:
        _inputs.reset(token)


def _new_file_beside(target):
    """Return a new, empty file in the folder of target, with its ending."""
    ending = target.suffix if len(os.fsencode(target.suffix)) <= 20 else ""
    path = target.parent / f".{target.stem[:20]}.{secrets.token_hex(6)}{ending}"
    # The kernel takes the umask from 0o666: a process has one umask, which changing for a moment would change for all.
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return path


def _settle(temporary, target):
    """Give the finished file the permissions of the one it replaces, and have it on the disk before it takes its place."""
    with contextlib.suppress(FileNotFoundError):
        os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
    descriptor = os.open(temporary, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(err):
    return err.strerror or str(err) or type(err).__name__


def text_of(path):
    """Return a path-like object, text or bytes as the text that it stands for: a last slash, say, means a folder.

    Raises
    ------
    ArgumentError
        On anything that names no file.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise ArgumentError(f"path must be the name of a file, got {shown(path)}.")
    try:
        text = os.fsdecode(path)
        os.fsencode(text)
    except Exception as err:  # whatever __fspath__ of an object of another library raises; half of a surrogate pair
        raise ArgumentError(f"path must be the name of a file, got {shown(path)}.") from err
    if not text:
        raise ArgumentError("path must be the name of a file, got an empty text.")
    return text


def as_path(path):
    """Return a path-like object, text or bytes as a pathlib.Path, or raise the ArgumentError of ``text_of``."""
    return pathlib.Path(text_of(path))


def is_parquet(path):
    """Return whether a path names a Parquet file."""
    return os.path.splitext(os.fsdecode(path))[1].lower() in (".parquet", ".pq")


def as_parquet(path):
    """Return the path of a Parquet file as a pathlib.Path, or raise an ArgumentError."""
    path = as_path(path)
    if not is_parquet(path):
        raise ArgumentError(f"path must end in .parquet, got {shown(str(path))}.")
    return path


def stem(path):
    """Return the name of a file without its ending, as text; bytes that are not UTF-8 become replacement characters."""
    name = "standard input" if str(path) == STDIN else path.stem
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ---- reading ---------------------------------------------------------------------------------------------------------
def open_input(path):
    """Open a regular file, or standard input as "-", to read its bytes; no other pipe is, which could wait forever.

    Raises
    ------
    DataError
        On a missing file, or one that is not regular.
    """
    if os.fsdecode(path) == STDIN:
        return open(_standard_input(), "rb")
    try:
        mode = os.stat(path).st_mode
    except ValueError:
        raise DataError("cannot be read (a name cannot hold a NUL character)", source=path) from None
    except OSError as err:
        raise DataError(f"cannot be read ({_reason(err)}){elsewhere(path)}", source=path) from err
    if not stat.S_ISREG(mode):
        raise DataError(f"cannot be read ({'Is a directory' if stat.S_ISDIR(mode) else 'not a regular file'})", source=path)
    try:
        handle = open(path, "rb")
        info = os.fstat(handle.fileno())
    except OSError as err:
        raise DataError(f"cannot be read ({_reason(err)})", source=path) from err
    if _inputs.get() is not None:
        _inputs.get().add((info.st_dev, info.st_ino))
    return handle


@functools.cache
def _standard_input():
    """Return the name of a copy of standard input: what is read is read several times."""
    if sys.stdin is None:
        raise DataError("standard input is closed", source=STDIN)
    with tempfile.NamedTemporaryFile(delete=False) as copy:
        atexit.register(os.unlink, copy.name)
        shutil.copyfileobj(sys.stdin.buffer, copy)
    return copy.name


def elsewhere(path):
    """Return what to do with an address such as s3://bucket/reports.parquet, or an empty text where a path is none."""
    if os.fsdecode(path).startswith("example:"):
        return f"; load_example({os.fsdecode(path)[8:]!r}) loads what is shipped"
    if not _ADDRESS.match(os.fsdecode(path)):
        return ""
    return "; only files of this machine are read: copy it here, or give scan a pyarrow dataset that reads it"


def read_text(path, limit=None):
    """Return the text of a UTF-8 file (with or without a byte-order mark), or raise a DataError in one sentence."""
    try:
        with open_input(path) as handle:
            data = handle.read() if limit is None else handle.read(limit + 1)
        if limit is not None and len(data) > limit:
            raise DataError(f"is longer than {limit:,} bytes", source=path)
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as err:
        raise DataError(f"is not UTF-8 text (byte {err.start})", source=path) from err
    except OSError as err:
        raise DataError(f"cannot be read ({_reason(err)})", source=path) from err


def read_toml(path):
    """Return the document of a TOML file, or raise a DataError that holds the parser's line and column.

    Parameters
    ----------
    path : path-like
        A file of at most MAX_TOML_BYTES.
    """
    text = read_text(path, MAX_TOML_BYTES)
    check_structure(text, path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise DataError(f"is not valid TOML: {err}", source=path) from err
    except ValueError as err:  # int() refuses thousands of digits
        raise DataError(
            "is not valid TOML: it holds a number of thousands of digits, or an impossible date", source=path
        ) from err
    except RecursionError as err:
        raise DataError("is nested too deep", source=path) from err


def check_structure(text, path):
    """Raise a DataError where the parser of TOML would need much time or memory, by counts that include those of strings."""
    if sum(map(text.count, "=[{")) > MAX_TOML_ENTRIES:
        raise DataError(f"holds more than {MAX_TOML_ENTRIES:,} keys, tables and lists", source=path)
    if _DOTTED.search(text):
        raise DataError(f"has a key of more than {MAX_DOTS} parts", source=path)
