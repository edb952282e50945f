"""What a file of HDF5 says that it holds, looked at before its values are read.

A file of some kilobytes can state variables of gigabytes, which nobody has written, and values or groups that stand in other
files. As a script, this file looks at another one and reads it.
"""

import os
import sys

#: Bytes of all variables, and bytes for each byte of the file, up to which they are read: draws hardly compress.
MOST_BYTES, BYTES_A_BYTE = 2**27, 2**8
#: How netCDF marks a dimension that has no values.
_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"


def check(path):
    """Raise a ValueError that says why a file is not read: its size when read, links, and values in other files."""
    import h5py

    size, total = os.path.getsize(path), 0
    with h5py.File(path) as file:
        groups, seen = [file], set()
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
                if isinstance(item, h5py.Group):
                    groups.append(item)
                elif isinstance(item, h5py.Dataset) and not bytes(_name_of(item)).startswith(_DIMENSION):
                    if item.is_virtual or item.id.get_create_plist().get_external_count():
                        raise ValueError(f"the values of {name!r} stand in another file")
                    total += item.nbytes
    if total > max(MOST_BYTES, BYTES_A_BYTE * size):
        raise ValueError(f"it says that it holds {total:,} bytes in {size:,}, which no result does")


def _name_of(item):
    """Return the attribute NAME of a variable, as the bytes that netCDF writes."""
    name = item.attrs["NAME"] if "NAME" in item.attrs else b""
    return name.encode() if isinstance(name, str) else name if isinstance(name, bytes) else b""


if __name__ == "__main__":
    import xarray

    check(sys.argv[1])
    xarray.open_datatree(sys.argv[1], engine="h5netcdf").load()
