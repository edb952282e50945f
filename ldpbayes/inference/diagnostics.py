"""Numbers that say whether to trust a posterior: summary with errors, convergence diagnostics and their verdict."""

from dataclasses import dataclass, fields, replace

import numpy as np

from ldpbayes.inference.chains import diagnosed, error_of_mean
from ldpbayes.inference.ends import ACCURACY, ends_of_draws, numerical_error
from ldpbayes.inference.verdict import Verdict, of_chains

#: Above this many entries, ESS and R-hat are computed for the rarest, the commonest and evenly spaced categories only.
MAX_DIAGNOSED = 256


@dataclass(frozen=True)
class Diagnostics:
    """Whether to trust a result: what its engine found, and the verdict of verdict(). The attrs of a result, by name.

    Attributes
    ----------
    sampling : {"mcmc", "independent"}
    effective_draws : float, optional
        Independent draws that repeated ones are worth.
    checked, problem : str
        What the engine checked, and what it found wrong.
    interrupted : bool
    worst_r_hat, least_ess : float, optional
        Of chains.
    divergences : int, optional
    converged : bool, optional
        The verdict.
    problems, outcome : str
        What is wrong, and the sentence for the reader.
    """

    sampling: str = "mcmc"
    effective_draws: float | None = None
    checked: str = ""
    problem: str = ""
    interrupted: bool = False
    worst_r_hat: float | None = None
    least_ess: float | None = None
    divergences: int | None = None
    converged: bool | None = None
    problems: str = ""
    outcome: str = ""

    @classmethod
    def from_attrs(cls, attrs):
        """Return the diagnostics in the attrs of a result, also of one written by version 0.1.0."""
        values = {field.name: attrs[field.name] for field in fields(cls) if field.name in attrs}
        for name in ("interrupted", "converged"):
            if name in values:
                values[name] = bool(values[name])
        return cls(**values)

    def to_attrs(self):
        """Return the attrs of a result; NetCDF has no booleans."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: int(v) if isinstance(v, bool) else v for k, v in values.items() if v is not None}

    def adding(self, problem):
        """Return the same with one more problem."""
        return replace(self, problem="; ".join(filter(None, (self.problem, problem))))


def summarize(tree, ci_prob, effective=None, known=None):
    """Add the group ``summary`` to a result and the verdict of its diagnostics to the attrs; return the tree.

    Variables have dims (target, [cell,] category) with targets distribution and frequency: mean, sd, lower, upper
    (equal-tailed interval at ci_prob), mcse (of the mean, 0 where it is an integral), lower_error and upper_error (standard
    errors of both ends by the draws, or how far they may be off where these are integrals), ess_bulk, ess_tail and r_hat
    (nan where the draws are independent; all are nan
    for a frequency that has no draws). Derived quantities have the same variables under ``derived_…``, dims [cell,]
    quantity; hyperparameters of the prior, and of cells every number per draw, under ``parameter_…``; each array of unknowns
    of the prior under its name: ``effect_mean``, dims cell, category. A mean and ends of a hyperparameter that the engine
    knows are in the attrs, and those are shown.

    Parameters
    ----------
    tree : DataTree
        From result.build.
    ci_prob : float
    effective : mapping, optional
        Independent draws that weighted ones are worth, by variable and category; by default the attr ``effective_draws``.
    known : mapping, optional
        Entries that are known better than from the draws, by the name of the variable: arrays mean, sd, mcse and ess_bulk
        of weighted draws; or those of ``chain_diagnostics``, which are then not computed again.
    """
    import xarray as xr

    posterior = tree["posterior"]
    exact = {name: values.values for name, values in tree["exact"].data_vars.items()} if "exact" in tree.children else {}
    diagnostics = Diagnostics.from_attrs(tree.attrs)
    independent, worth, known = diagnostics.sampling == "independent", effective or {}, known or {}
    first, off = posterior["distribution"], numerical_error(tree.attrs, ci_prob)
    dims, shape = first.dims[2:], first.shape[2:]

    def summary_of(draws, name, shape, variables):
        ess = diagnostics.effective_draws
        if worth:  # of a prior's hyperparameters only the draws that were kept are known, not their weights
            ess = [np.asarray(worth.get(quantity, diagnostics.effective_draws), dtype=float) for quantity in variables]
            ess = np.stack(np.broadcast_arrays(*ess), axis=-1).ravel()
        stored = known.get(name, {})
        if {"lower", "r_hat"} <= set(stored):  # all is known
            return {k: np.reshape(v, shape) for k, v in stored.items()}
        entries = entries_of(draws, exact, name, ci_prob, independent, ess, stored if "r_hat" in stored else None, off)
        at = [(k, quantity) for k, quantity in enumerate(variables) if quantity in known]
        for k, quantity in at:
            place = slice(None) if len(variables) == 1 else slice(k, k + 1)
            for key, value in known[quantity].items():
                entries[key] = np.array(entries[key])
                entries[key][place] = np.ravel(value)
        return {k: np.reshape(v, shape) for k, v in entries.items()}

    parts = [
        summary_of(posterior[name].values, name, shape, [name]) if name in posterior.data_vars else None
        for name in ("distribution", "frequency")
    ]
    if parts[1] is None and "frequency_mean" in exact:  # moments without draws
        parts[1] = {key: np.full(shape, np.nan) for key in parts[0]}
        known_of = ("mean", "sd", "lower", "upper", "lower_error", "upper_error")
        parts[1] |= {key: exact[f"frequency_{key}"] for key in known_of if f"frequency_{key}" in exact}
    blank = np.full(shape, np.nan)
    data = {key: (("target", *dims), np.stack([blank if part is None else part[key] for part in parts])) for key in parts[0]}
    coords = {"target": ["distribution", "frequency"]} | {
        name: values for name, values in first.coords.items() if values.dims and set(values.dims) <= set(dims)
    }
    arrays = unknown_arrays(posterior)
    names = [name for name in posterior.data_vars if name not in ("distribution", "frequency", *arrays)]
    scalars = [name for name in names if posterior[name].ndim == 2]
    unknowns = [name for name in scalars if len(dims) > 1 or posterior[name].attrs.get("of") == "prior"]
    for dim, prefix, chosen in (
        ("quantity", "derived", [name for name in names if name not in (unknowns if len(dims) == 1 else scalars)]),
        ("parameter", "parameter", unknowns),
    ):
        if chosen:
            draws = np.stack([posterior[name].values for name in chosen], axis=-1)
            own_dims = () if prefix == "parameter" else dims[:-1]
            derived = summary_of(draws, prefix, draws.shape[2:], chosen)
            if prefix == "parameter":
                derived |= _known_by_engine(tree.attrs, chosen, derived)
            data |= {f"{prefix}_{key}": ((*own_dims, dim), value) for key, value in derived.items()}
            coords[dim] = chosen
    for name in arrays:
        values = posterior[name]
        entries = summary_of(values.values, name, values.shape[2:], [name])
        data |= {f"{name}_{key}": (values.dims[2:], value) for key, value in entries.items()}
        coords |= {dim: values.coords[dim] for dim in values.dims[2:] if dim in values.coords}
    tree["summary"] = xr.DataTree(xr.Dataset(data, coords, {"ci_prob": ci_prob, "ci_kind": "eti"}))
    tree.attrs |= verdict(tree).to_attrs()
    return tree


def _known_by_engine(attrs, names, part):
    """Return the summary entries of hyperparameters with what the attrs know of them."""
    out: dict = {}
    for key, error in (("mean", "mcse"), ("sd", ""), ("lower", "lower_error"), ("upper", "upper_error")):
        known = [f"{name}_{key}" in attrs for name in names]
        out[key] = np.array([attrs.get(f"{name}_{key}", value) for name, value in zip(names, part[key], strict=True)])
        if error:
            off = (
                np.array([attrs.get(f"{name}_mcse", 0.0) for name in names])
                if key == "mean"
                else ACCURACY.solved * out["sd"]
            )
            out[error] = np.where(known, off, part[error])
    return out


def unknown_arrays(posterior):
    """Return the names of unknowns of the prior, or of a caller's model, that are arrays in a group ``posterior``."""
    arrays = {name: values for name, values in posterior.data_vars.items() if values.ndim > 2}
    return [name for name, values in arrays.items() if values.attrs.get("of") in ("prior", "model")]


def verdict(tree):
    """Return the Diagnostics of a summarized result, with the verdict."""
    summary, diagnostics = tree["summary"], Diagnostics.from_attrs(tree.attrs)
    if diagnostics.sampling == "independent":
        return of_independent(diagnostics, tree["posterior"].sizes["draw"])
    problems = [diagnostics.problem] if diagnostics.problem else []
    # nan, which no threshold accepts, where too few draws or none that vary leave nothing to diagnose.
    names = ["", *(f"{name}_" for name in unknown_arrays(tree["posterior"]))]
    # Of one population P and F decide: the table of its hyperparameters has their R-hat and effective draws.
    shared = [values for values in tree["posterior"].data_vars.values() if values.attrs.get("of") == "prior"]
    joint = "cell" in summary.dims or "regression" in tree.attrs
    if joint and any(values.ndim == 2 for values in shared):
        names += [f"{kind}_" for kind in ("parameter", "derived") if f"{kind}_r_hat" in summary][:1]
    r_hat, ess = np.nan, np.nan
    for name in names:
        r_hat = float(np.fmax(r_hat, np.fmax.reduce(summary[f"{name}r_hat"].values, axis=None)))
        for kind in ("ess_bulk", "ess_tail"):
            ess = float(np.fmin(ess, np.fmin.reduce(summary[f"{name}{kind}"].values, axis=None)))
    divergences = 0
    if "sample_stats" in tree.children and "diverging" in tree["sample_stats"]:
        divergences = int(tree["sample_stats"]["diverging"].sum())
    diagnostics = replace(diagnostics, worst_r_hat=r_hat, least_ess=ess, divergences=divergences)
    judged = of_chains(r_hat, ess, divergences)
    problems += [judged.problem] if judged.problem else []
    return _judged(diagnostics, problems, judged.checked)


def of_independent(found, length):
    """Return the Diagnostics of independent draws, so many of each chain, with the verdict.

    They need no chain diagnostics: their engine says in ``checked`` what it checked instead.
    """
    good = found.checked or "Independent draws: no chain diagnostics are needed."
    if found.interrupted:
        good += f" Interrupted: {length} draws a chain were kept."
    return _judged(found, [found.problem] if found.problem else [], good)


def _judged(diagnostics, problems, good):
    """Return the Diagnostics with what is wrong, and the sentence for the reader."""
    reasons = "; ".join(problems)
    outcome = f"Do not trust this posterior yet: {reasons}." if problems else good
    return replace(diagnostics, converged=not problems, problems=f"{reasons}." if problems else "", outcome=outcome)


def mcse_of_mean(draws, *, independent):
    """Return the Monte Carlo standard error of the mean of draws (chains, draws, k), shape (k,).

    sd/√S for independent draws; by the effective sample size for chains. A quantity that never varied has error 0.
    """
    if independent:
        return draws.reshape(-1, draws.shape[-1]).std(axis=0, ddof=1) / np.sqrt(draws.shape[0] * draws.shape[1])
    moved = np.ptp(draws, axis=(0, 1)) > 0
    out = np.zeros(moved.size)
    out[moved] = error_of_mean(draws[..., moved])
    return out


def entries_of(draws, exact, name, ci_prob, independent, effective=None, diagnosed=None, off=ACCURACY.solved):
    """Return the summary entries of one variable; draws (chains, draws, …), exact moments and ends replace sampled ones.

    Such ends may be off by ``off`` sds where their errors are not among them.
    """
    (chains, per_chain), size = draws.shape[:2], int(np.prod(draws.shape[2:]))
    out = {key: np.ravel(exact[f"{name}_{key}"]) for key in ("mean", "sd", "lower", "upper") if f"{name}_{key}" in exact}
    exactly = "mean" in out
    if not independent or len(out) < 4:  # of cells a copy, in which the draws of one quantity lie side by side
        draws = np.moveaxis(draws, (0, 1), (-2, -1)).reshape(size, -1).T
    if not exactly:
        out["mean"] = draws.mean(axis=0)
    if "sd" not in out:
        out["sd"] = draws.std(axis=0, ddof=1)
    sd = out["sd"]
    if independent:
        n = np.broadcast_to(float(chains * per_chain) if effective is None else effective, size)
        out |= {"mcse": sd / np.sqrt(n), "ess_bulk": n, "ess_tail": n, "r_hat": np.full(size, np.nan)}
    else:
        out |= diagnosed or chain_diagnostics(draws.T.reshape(size, chains, per_chain).transpose(1, 2, 0))
    if exactly:
        out["mcse"] = np.zeros(size)
    if "lower" in out and "upper" in out:
        return out | {key: np.ravel(exact.get(f"{name}_{key}", off * sd)) for key in ("lower_error", "upper_error")}
    # Where only some categories were diagnosed, the others have at least the tails of the worst of these.
    tail = np.where(np.isfinite(out["ess_tail"]), out["ess_tail"], np.fmin.reduce(out["ess_tail"], initial=np.inf))
    ends = ends_of_draws(draws, ci_prob, np.where(sd > 0, tail, chains * per_chain))
    return out | dict(zip(("lower", "upper", "lower_error", "upper_error"), ends, strict=True))


def chain_diagnostics(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Return mcse, ess_bulk, ess_tail and r_hat of (chains, draws, k) arrays; nan for the quantities left out."""
    size = draws.shape[-1]
    order = np.argsort(draws.mean(axis=(0, 1)))
    chosen = order[np.unique(np.linspace(0, size - 1, min(size, MAX_DIAGNOSED)).astype(int))]
    chosen = chosen[np.ptp(draws[..., chosen], axis=(0, 1)) > 0]
    out = {key: np.full(size, np.nan) for key in ("mcse", "ess_bulk", "ess_tail", "r_hat")}
    for key, values in diagnosed(draws[..., chosen]).items():
        out[key][chosen] = values
    return out


def verdict_on(draws: np.ndarray, divergences: int = 0, drawn: int | None = None) -> Verdict:
    """Return the Verdict on chains (chains, draws, k); the other arguments as in verdict.of_chains."""
    return of_chains(*extremes(chain_diagnostics(draws)), divergences, drawn)


def extremes(found: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return (largest R-hat, least effective sample size of bulk and tails) of chain_diagnostics; nan where none varies."""
    ess = np.fmin.reduce([*found["ess_bulk"], *found["ess_tail"]])
    return float(np.fmax.reduce(found["r_hat"])), float(ess)
