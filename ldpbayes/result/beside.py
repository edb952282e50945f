"""Point estimates and confidence intervals beside the posterior in a result, of one collection or of cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes.inference.scaling import VERDICTS, Scaled


def estimates_of(data: Any, estimates: Sequence[Sequence[Any]], categories: Any) -> xr.Dataset:
    """Return the group ``estimate``: value, standard_error (estimator, [cell,] category), log_likelihood, gap, outcome.

    Where the data have derived quantities also derived and derived_standard_error (estimator, [cell,] quantity). An
    estimator that some cell lacks has nan there.

    Parameters
    ----------
    data : Collection or Cells
    estimates : sequence of sequences of Estimate
        Of each cell, or of the one collection.
    categories : sequence of str
        Labels of P: fewer than the data's where respondents may ignore the device.
    """
    names, categories = list(dict.fromkeys(estimate.name for cell in estimates for estimate in cell)), np.asarray(categories)
    blank = np.full(categories.size, np.nan)
    labels = (
        [item.name for item in data.derived] if all(one.derived is not None for cell in estimates for one in cell) else []
    )
    none = np.full(len(labels), np.nan)
    by_name = [{estimate.name: estimate for estimate in cell} for cell in estimates]

    def arrays(read, empty, *dims):
        values = [np.array([read(cell[name]) if name in cell else empty for name in names]) for cell in by_name]
        return (("estimator", *data.dims[:-1], *dims), _stacked(data, values, 1))

    variables = {
        "value": arrays(lambda estimate: estimate.distribution, blank, "category"),
        "standard_error": arrays(lambda e: blank if e.standard_error is None else e.standard_error, blank, "category"),
        "log_likelihood": arrays(lambda estimate: estimate.log_likelihood, np.nan),
        "gap": arrays(lambda estimate: estimate.gap, np.nan),
        "outcome": arrays(lambda estimate: estimate.outcome, ""),
    }
    coords = data.coords() | {"category": categories, "estimator": names}
    if labels:
        coords["quantity"] = labels
        for key, field in (("derived", "derived"), ("derived_standard_error", "derived_error")):
            variables[key] = arrays(lambda e, field=field: getattr(e, field), none, "quantity")
    return xr.Dataset(variables, coords)


def confidence_of(data: Any, intervals: Sequence[Any]) -> xr.Dataset:
    """Return the group ``confidence``: lower and upper (target, [cell,] category), and the support counts behind them.

    Parameters
    ----------
    data : Collection or Cells
    intervals : sequence of Confidence
        Of each cell, or of the one collection.
    """
    variables = {
        name: (("target", *data.dims), _stacked(data, [getattr(ends, name) for ends in intervals], 1))
        for name in ("lower", "upper")
    }
    if all(ends.form is not None for ends in intervals):
        fields_of = {"support_count": "counts", "rate_of_value": "hit", "rate_of_others": "other"}
        variables |= {
            name: (data.dims, _stacked(data, [np.asarray(getattr(ends.form, field), float) for ends in intervals]))
            for name, field in fields_of.items()
        }
        sizes = [float(np.ravel(ends.form.n)[0]) for ends in intervals]
        variables["n_reports"] = (data.dims[:-1], _stacked(data, sizes))
    attrs = {"method": ", ".join(sorted({ends.method for ends in intervals})), "ci_prob": intervals[0].ci_prob}
    coords = data.coords() | {"target": ["distribution", "frequency"]}
    return xr.Dataset(variables, coords, attrs)


def sensitivity_of(data: Any, scaled: Sequence[Scaled], hyper: Mapping[str, Scaled], categories: Any) -> xr.Dataset:
    """Return the group ``sensitivity``: prior_sensitivity, reports_sensitivity, move and decided_by ([cell,] category).

    Of hyperparameters the same under ``parameter_…`` (parameter); ``move`` is that of the mean or an end for a doubling of
    the prior's weight, of a hyperparameter on the log scale.

    Parameters
    ----------
    data : Collection or Cells
    scaled : sequence of Scaled
        Of the shares in each cell, or in the one collection.
    hyper : mapping of str to Scaled
        Of one number each.
    categories : sequence of str
        Labels of P.
    """

    def entries(scaled: Sequence[Scaled]) -> dict[str, list]:
        arrays = {"prior_sensitivity": [one.prior for one in scaled], "reports_sensitivity": [one.reports for one in scaled]}
        arrays |= {"move": [one.moves for one in scaled], "decided_by": [np.array(VERDICTS)[one.verdict] for one in scaled]}
        return arrays

    variables = {name: (data.dims, _stacked(data, values)) for name, values in entries(scaled).items()}
    coords = dict(data.coords()) | {"category": categories}
    if hyper:
        several = entries(list(hyper.values()))
        variables |= {f"parameter_{name}": (("parameter",), np.stack(values)) for name, values in several.items()}
        coords["parameter"] = list(hyper)
    return xr.Dataset(variables, coords)


def _stacked(data: Any, values: Sequence[Any], axis: int = 0) -> Any:
    """Return values of each cell, along an axis of their own, or that of the one collection."""
    return np.stack(values, axis=axis) if len(data.dims) > 1 else values[0]
