"""What a result keeps of the data: reports and counts, sizes and covariates of cells, and the coordinates of cells."""

import numpy as np
import xarray as xr

from ldpbayes.collections import Cells, Collection


def observed_data(collection: Collection, prefix: str = "") -> dict:
    """Return the reports and counts of a collection as variables of a Dataset, their names starting with a prefix."""
    observed: dict = {}
    for tally in collection.tallies:
        name = tally.name
        report = f"{prefix}report_{name}"
        observed[f"{prefix}counts_{name}"] = ((report,), tally.counts)
        parts = (f"{prefix}part_{name}_{i}" for i in range(1, tally.reports.ndim))
        observed[f"{prefix}reports_{name}"] = ((report, *parts), tally.reports)
    return observed


def observed_of_cells(cells: Cells) -> xr.Dataset:
    """Return the reports and counts of all cells; names start with ``cell_{position}_``. Summaries keep support counts."""
    observed: dict = {}
    for position, cell in enumerate(cells.values()):
        prefix = f"cell_{position}_"
        if cell.likelihood.rows() is not None:
            observed |= observed_data(cell, prefix)
        elif cell.likelihood.support_counts() is not None:
            observed[f"{prefix}supports"] = (("category",), cell.likelihood.support_counts())
    return xr.Dataset(observed)


def constant_data(cells: Cells) -> xr.Dataset:
    """Return the sizes and the covariates of cells."""
    data = {"n_reports": (("cell",), cells.sizes)}
    for name, values in (cells.covariates or {}).items():
        array = np.asarray(values)
        plain = array if array.dtype.kind in "iufbM" else np.array([str(value) for value in array], dtype=object)
        data[name if name not in (*data, "alpha", *cells.by) else f"covariate_{name}"] = (("cell",), plain)
    return xr.Dataset(data, cell_coords(cells))


def cell_coords(cells: Cells) -> dict:
    """Return the coordinates of the dim cell: labels, and the key columns."""
    columns = {name: (("cell",), values) for name, values in cells.key_columns().items() if name != "cell"}
    return {"cell": np.array(cells.labels, dtype=object)} | columns
