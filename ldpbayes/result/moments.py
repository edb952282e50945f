"""Results that hold moments, intervals and evidence, and no draws: of very many cells or categories."""

import numpy as np
import xarray as xr

from ldpbayes.collections.data import LEFT_OUT, MOMENTS_ONLY
from ldpbayes.inference.ends import ACCURACY, numerical_error
from ldpbayes.methods.frequency import frequency_intervals
from ldpbayes.result.building import build
from ldpbayes.result.constants import MAX_OBSERVED
from ldpbayes.result.frame import Result
from ldpbayes.result.validation import NO_DRAWS, TARGETS, validate


def build_moments(data, prior, *, method: str, settings: dict, exact: dict, ci_prob: float, attrs: dict, facts=None):
    """Return the summarized DataTree of a posterior whose moments, intervals and evidence are known, without draws.

    Parameters
    ----------
    data : Cells, Collection or Summarized
    prior : AbstractPrior
    method : str
    settings : dict
    exact : dict
        distribution_mean, distribution_sd, distribution_lower, distribution_upper, frequency_mean, frequency_sd of shape
        ([cells,] a) and log_evidence of shape ([cells]).
    ci_prob : float
    attrs : dict
        Further facts, the diagnostics among them.
    facts : dict of (cells,) arrays, optional
        Of each cell, for the group ``cells``.

    Returns
    -------
    DataTree
        Its group ``posterior`` has the coordinates alone, and the attr ``draws`` is "none".
    """
    sizes = np.reshape([cell.n_reports for cell in data.collections()], (*data.shape[:-1], 1))
    attrs_of = {"draws": NO_DRAWS, "frequency_draws": LEFT_OUT}
    if "frequency_mean" in exact:
        exact = exact | frequency_intervals(exact, sizes, ci_prob)
        how = "those of P moved to the mean and sd of F; of a beta distribution where F is much narrower"
        attrs_of |= {"frequency_draws": MOMENTS_ONLY, "frequency_intervals": how}
    keeps = len(data.likelihoods) <= MAX_OBSERVED
    tree = build(
        data,
        prior,
        method=method,
        settings=settings,
        draws={},
        exact=exact,
        facts=facts,
        attrs=attrs_of | attrs,
        observed=keeps,
    )
    tree["summary"] = _summary(exact, data.dims, data.coords(), prior, ci_prob, attrs)
    validate(tree)
    return tree


def _summary(exact, dims, coords, prior, ci_prob, attrs):
    """Return the group ``summary`` of moments without draws."""
    none = np.full_like(exact["distribution_mean"], np.nan)  # of F under weights
    keys = ("mean", "sd", "lower", "upper")
    columns = {key: np.stack([exact.get(f"{target}_{key}", none) for target in TARGETS]) for key in keys}
    off = numerical_error(attrs, ci_prob)
    for key in ("lower_error", "upper_error"):
        columns[key] = np.stack([off * columns["sd"][0], exact.get(f"frequency_{key}", none)])
    blank = {"mcse": 0.0} | dict.fromkeys(("ess_bulk", "ess_tail", "r_hat"), np.nan)
    columns |= {key: np.full_like(columns["mean"], value) for key, value in blank.items()}
    summary = {key: (("target", *dims), values) for key, values in columns.items()}
    named = {"target": list(TARGETS)}
    if learnt := [name for name in prior.hyperparameter_names if f"{name}_mean" in attrs]:
        named["parameter"] = learnt
        for key in columns:
            blanks = [
                ACCURACY.solved * attrs[f"{name}_sd"] if key.endswith("_error") else blank.get(key, np.nan)
                for name in learnt
            ]
            values = [attrs.get(f"{name}_{key}", blank_of) for name, blank_of in zip(learnt, blanks, strict=True)]
            summary[f"parameter_{key}"] = (("parameter",), np.array(values))
    return xr.DataTree(xr.Dataset(summary, coords | named, {"ci_prob": ci_prob, "ci_kind": "eti"}))


def summary_alone(result: xr.DataTree) -> Result:
    """Return a result of draws without them: their summary stays, with its Monte Carlo errors, and their covariance of P.

    Parameters
    ----------
    result : DataTree
        Summarized.
    """
    posterior = result["posterior"].to_dataset()
    drawn = posterior.sizes["chain"] * posterior.sizes["draw"]
    out = Result(
        children={name: xr.DataTree(group.to_dataset()) for name, group in result.children.items() if name != "sample_stats"}
    )
    out["posterior"] = xr.DataTree(posterior.drop_dims(("chain", "draw")))
    if "cell" not in posterior["distribution"].dims and "exact" not in out.children:
        shares = posterior["distribution"].values.reshape(drawn, -1)
        labels = posterior["category"].values
        dims = ("category", "category_bis")
        covariance = xr.DataArray(np.atleast_2d(np.cov(shares.T)), dict.fromkeys(dims, labels), dims)
        out["exact"] = xr.DataTree(xr.Dataset({"distribution_cov": covariance}))
    out.attrs |= result.attrs | {"draws": NO_DRAWS}
    out.attrs["reason"] += f" The moments and ends that are no integrals come from {drawn:,} draws, which are not kept."
    validate(out)
    return out
