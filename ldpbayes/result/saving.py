"""Results as files: NetCDF with a checksum behind it, by which a damaged file is refused before HDF5 parses it.

HDF5 checks little of what it reads, and some damaged files keep it busy for ever, in code that neither an alarm nor Ctrl-C
interrupts. A file without the checksum, of an earlier version or of another program, is read in a second process first.
"""

import hashlib
import importlib
import io
import os
import subprocess
import sys
from os import PathLike

import xarray as xr

from ldpbayes import files, rooms
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.presenting import AbstractResult
from ldpbayes.result import storage
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import validate

#: The mark between a NetCDF file and the SHA-256 of all its bytes. HDF5 ignores what follows the end of its file.
SEAL = b"\nldpbayes sha256"
_SIZE = len(SEAL) + hashlib.sha256().digest_size
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: Time: Seconds, and bytes a second, that the second process has to read a file without a checksum.
PATIENCE, PACE = 60.0, 10.0 * 2**20


def save(result, path):
    """Write a result as NetCDF, whole or not at all, with a checksum that ``load`` verifies.

    Any program that reads NetCDF or HDF5 reads the file. The bytes are made in memory first: HDF5 cannot close a file on a
    full disk, and ends the process with a fault.

    Parameters
    ----------
    result : Result, PrivateGroups or DataTree
    path : path-like

    Raises
    ------
    ArgumentError
        Where the tree is no result, which ``load`` would refuse.
    DataError
        Where the file cannot be written.
    """
    path = files.as_path(path)
    files.check_output(path)
    try:
        tree = result.to_tree() if isinstance(result, AbstractResult) else result
        if tree is None and result is not None:
            raise ArgumentError(f"result must be a posterior or private groups for NetCDF, got {type(result).__name__}.")
        if tree is result:
            validate(tree)
    except (AttributeError, DataError) as err:
        detail = f"; {err}" if type(err) is DataError else ""
        raise ArgumentError(f"result must be a result, got {type(result).__name__}{detail}; write is for data.") from None
    finished = io.BytesIO()
    try:
        tree.to_netcdf(finished, engine="h5netcdf")
    except (TypeError, ValueError) as err:
        raise DataError(f"cannot be written as NetCDF ({err})", source=path) from err
    data = finished.getvalue()
    files.write_bytes(path, data + SEAL + hashlib.sha256(data).digest())


def load(path: str | PathLike) -> Result | AbstractResult:
    """Load a result that ``save`` wrote as .nc, by this or an earlier version, and validate it; ``read`` loads reports.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Result or PrivateGroups

    Raises
    ------
    DataError
        Where the file is damaged, cannot be read as NetCDF, or what it holds is no result; where it holds links, values that
        stand in other files, or far more bytes than it takes.
    """
    path = files.as_path(path)
    if not _sealed(path):
        _read_elsewhere(path)
    try:
        storage.check(path)
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
    except Exception as err:  # a damaged file makes the library below raise almost anything
        detail = str(err).splitlines()[0] if str(err) else type(err).__name__
        raise DataError(f"cannot be read as NetCDF ({shown(detail)})", source=path) from err
    holds = tree.attrs.get("holds")
    try:
        if isinstance(holds, str) and holds in rooms.brought("HOLDERS"):
            return importlib.import_module(rooms.brought("HOLDERS")[holds]).from_tree(tree)
        validate(tree)
    except DataError as err:
        raise err.at(source=path) from None
    return Result(tree.to_dataset(), dict(tree.children))


def _sealed(path):
    """Return whether a file has a checksum, which is right; refuse what is damaged or no HDF5 file."""
    with files.open_input(path) as handle:
        start = handle.read(64)
        size = handle.seek(0, os.SEEK_END)
        if not start.startswith(_SIGNATURE):
            raise DataError(
                "cannot be read as NetCDF (it is no HDF5 file; read is for reports and collections)", source=path
            )
        handle.seek(max(0, size - _SIZE))
        seal = handle.read()
        if not seal.startswith(SEAL):
            # The first version of the format states its length here; all files of ``save`` have it.
            stated = int.from_bytes(start[40:48], "little") if start[8:9] == b"\0" else 0
            if size < max(stated, 48):
                raise DataError(f"is cut short, after {size:,} bytes", source=path)
            return False
        handle.seek(0)
        digest, left = hashlib.sha256(), size - _SIZE
        while left:
            block = handle.read(min(left, 2**20))
            if not block:
                break
            digest.update(block)
            left -= len(block)
    if digest.digest() != seal[len(SEAL) :]:
        raise DataError("is damaged: its content does not match its checksum", source=path)
    return True


def _read_elsewhere(path):
    """Read a file in a second process, and refuse one at which HDF5 does not come to an end, or fails with a fault."""
    limit = PATIENCE + os.stat(path).st_size / PACE
    command, quiet = [sys.executable, "-P", storage.__file__, os.path.abspath(path)], subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=limit)
    except subprocess.TimeoutExpired:
        raise DataError(
            f"cannot be read as NetCDF (the HDF5 library did not finish within {limit:.0f} seconds; the file is damaged)",
            source=path,
        ) from None
    except OSError:  # no second process can be started
        return
    if done.returncode < 0:
        raise DataError("cannot be read as NetCDF (the HDF5 library failed with a fault; the file is damaged)", source=path)
