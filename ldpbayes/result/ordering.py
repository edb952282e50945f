"""Groups of draws as ArviZ's ``summary`` reads them."""

import xarray as xr


def in_one_order(draws: xr.Dataset) -> xr.Dataset:
    """Return variables whose dimensions all stand in the order in which the data set first names them.

    ArviZ's ``summary`` takes the values of a variable in the order of the data set, and its labels in that of the variable.
    It takes no further coordinates, such as the grouping columns of cells, that only some of the variables have.

    Parameters
    ----------
    draws : Dataset
        The first variable keeps its order; of two orders that contradict each other the later one gives way.
    """
    variables = draws.data_vars.values()
    order = dict.fromkeys(dim for values in variables for dim in values.dims)
    further = [name for name, x in draws.coords.items() if name not in x.dims]
    partial = [name for name in further if not all(set(draws[name].dims) <= set(values.dims) for values in variables)]
    return draws.drop_vars(partial).transpose(*order, ...)
