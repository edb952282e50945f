"""A result read back as what describers read."""

from ldpbayes.inference.diagnostics import Diagnostics, Statistics
from ldpbayes.result.fits import Fit


def fit_of(result, data, prior):
    """Return the Fit of a result: its draws, and mean and sd of P."""
    posterior, summary = result["posterior"].to_dataset(), result["summary"].to_dataset()
    draws = {str(name): (values.dims[2:], values.values) for name, values in posterior.data_vars.items()}
    of_p = {name: summary[name].sel(target="distribution").values for name in ("mean", "sd")}
    known = Statistics({"distribution": of_p}, (), (), float(summary.attrs["ci_prob"]), Diagnostics())
    labels = {"category": posterior["category"].values.tolist()}
    return Fit(data, prior, result.attrs["method"], {}, draws, labels, summary=known)
