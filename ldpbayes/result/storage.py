"""What a file of HDF5 says that it holds, looked at before its values are read.

A file of some kilobytes can state variables of gigabytes, which nobody has written, and values or groups that stand in other
files. As a script, this file looks at another one and reads it.
"""

import math
import os
import sys

from ldpbayes.result.constants import BYTES_A_BYTE, MOST_BYTES

#: How netCDF marks a dimension that has no values.
_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"


def check(path):
    """Raise a ValueError that says why a file is not read: its size when read, links, and values in other files."""
    import h5py

    size, total = os.path.getsize(path), 0
    most = max(MOST_BYTES, BYTES_A_BYTE * size)
    with h5py.File(path) as file:
        groups, seen = [file], set()
        total = _texts(file, size, most, total)
        while groups:
            group = groups.pop()
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{name!r} is a link to another place")
                item = group[name]
                place = h5py.h5o.get_info(item.id).addr
                if place in seen:
                    raise ValueError(f"{name!r} stands in it twice")
                seen.add(place)
                total = _texts(item, size, most, total)
                if isinstance(item, h5py.Group):
                    groups.append(item)
                elif isinstance(item, h5py.Dataset) and not bytes(_name_of(item)).startswith(_DIMENSION):
                    if item.is_virtual or item.id.get_create_plist().get_external_count():
                        raise ValueError(f"the values of {name!r} stand in another file")
                    total = _total(total + item.nbytes, size, most)
                    if item.dtype.hasobject:
                        if h5py.check_string_dtype(item.dtype) is None:
                            raise ValueError(f"{name!r} holds values of variable length that are no texts")
                        for piece in _pieces(item, most // size):
                            total = _total(total + sum(map(sys.getsizeof, piece)), size, most)


def _total(total, size, most):
    """Return a number of bytes; refuse more than the most that are read of a file of this size."""
    if total > most:
        raise ValueError(f"it says that it holds {total:,} bytes in {size:,}, which no result does")
    return total


def _pieces(item, n):
    """Yield the texts of a variable, at most n at once: each is no longer than the file, and many can be one text of it."""
    import numpy as np

    if not item.shape:
        yield [item[()]]
        return
    axis = int(np.argmax(item.shape))
    others = item.size // max(item.shape[axis], 1)
    if others > n:
        raise ValueError(f"{item.name!r} holds texts along several axes")
    for first in range(0, item.shape[axis], n // max(others, 1)):
        yield item[(*[slice(None)] * axis, slice(first, first + n // max(others, 1)))].flat


def _texts(item, size, most, total):
    """Return a number of bytes and those of the texts among the attributes of an item, which HDF5 reads whole."""
    import h5py

    for name in item.attrs:
        attribute = item.attrs.get_id(name)
        kind = attribute.dtype
        kinds = [kind[part] for part in kind.names] if kind.names else [kind]
        if all(h5py.check_ref_dtype(one) or not one.hasobject for one in kinds):
            continue
        n, is_text = math.prod(attribute.shape or ()), h5py.check_string_dtype(kind) is not None
        if not is_text and h5py.check_vlen_dtype(kind) != h5py.ref_dtype:  # of a variable, to the coordinates of its axes
            raise ValueError(f"{name!r} holds values of variable length that are no texts")
        _total(n * size, size, most)
        if n and is_text:
            values = item.attrs[name]
            total += sum(map(sys.getsizeof, [values] if isinstance(values, str | bytes) else values.flat))
    return _total(total, size, most)


def _name_of(item):
    """Return the attribute NAME of a variable, as the bytes that netCDF writes."""
    name = item.attrs["NAME"] if "NAME" in item.attrs else b""
    return name.encode() if isinstance(name, str) else name if isinstance(name, bytes) else b""


if __name__ == "__main__":
    import xarray

    check(sys.argv[1])
    xarray.open_datatree(sys.argv[1], engine="h5netcdf").load()
