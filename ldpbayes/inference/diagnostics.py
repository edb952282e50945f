"""Numbers that say whether to trust a posterior: summary with errors, convergence diagnostics and their verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ldpbayes.errors import listed
from ldpbayes.inference.chains import diagnosed, error_of_mean
from ldpbayes.inference.constants import MAX_DIAGNOSED
from ldpbayes.inference.ends import ACCURACY, ends_of_draws, numerical_error
from ldpbayes.inference.verdict import Verdict, of_chains


@dataclass(frozen=True)
class Diagnostics:
    """Whether to trust a result: what its engine found, and its Verdict. The attrs of a result, by name.

    Attributes
    ----------
    sampling : {"mcmc", "independent"}
    effective_draws : float, optional
        Independent draws that repeated ones are worth.
    checked, problem : str
        What the engine checked, and what it found wrong.
    interrupted : bool
    worst_r_hat, least_ess : float, optional
        Largest R-hat and least effective sample size of chains.
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


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is printed of a posterior, and whether to trust it.

    Attributes
    ----------
    entries : dict of str to dict of arrays
        By the name of a variable, of the shape of one draw: mean, sd, lower, upper (equal-tailed interval at ci_prob), mcse
        (of the mean, 0 where it is an integral), lower_error and upper_error (standard errors of both ends by the draws, or
        how far they may be off where these are integrals), ess_bulk, ess_tail and r_hat (nan where the draws are
        independent). Derived quantities stand under "derived", along the last axis; hyperparameters of the prior, and of
        cells every number per draw, under "parameter". Without "frequency" where nothing is known of F.
    quantities, parameters : tuple of str
        Names along these axes.
    ci_prob : float
    diagnostics : Diagnostics
        With the verdict.
    """

    entries: dict[str, dict[str, np.ndarray]]
    quantities: tuple[str, ...]
    parameters: tuple[str, ...]
    ci_prob: float
    diagnostics: Diagnostics


#: Quantities that every result has: the distribution P and the users' own frequencies F.
TARGETS = ("distribution", "frequency")


def summarize(
    draws: Mapping[str, tuple],
    diagnostics: Diagnostics,
    ci_prob: float,
    *,
    exact: Mapping[str, np.ndarray] | None = None,
    stats: Mapping[str, np.ndarray] | None = None,
    facts: Mapping[str, Any] | None = None,
    effective: Mapping[str, np.ndarray] | None = None,
    known: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    joint: bool = False,
) -> Statistics:
    """Return the Statistics of draws, with the verdict on them.

    Parameters
    ----------
    draws : mapping of name to (dims, array) or (dims, array, attrs)
        Dims after chain and draw; the attribute ``of`` is "prior" or "model" for unknowns of these.
    diagnostics : Diagnostics
        What the method says of them.
    ci_prob : float
    exact : mapping of name to array, optional
        Moments and ends that are known without draws.
    stats : mapping of name to (chains, draws) array, optional
        Statistics of a sampler: ``diverging`` counts against it.
    facts : mapping, optional
        What else the method says: a mean and ends of a hyperparameter that it knows, and its numerical error.
    effective : mapping, optional
        Independent draws that weighted ones are worth, by variable and category; by default the effective draws of the
        diagnostics.
    known : mapping, optional
        Entries that are known better than from the draws, by the name of the variable: arrays mean, sd, mcse and ess_bulk
        of weighted draws. Or the results of ``chain_diagnostics``, which are then not computed again.
    joint : bool
        Whether the numbers of the prior decide on trust like P: of cells they always do.
    """
    exact, facts, worth, known = exact or {}, facts or {}, effective or {}, known or {}
    independent, off = diagnostics.sampling == "independent", numerical_error(facts, ci_prob)
    dims, first, *_ = draws["distribution"]
    values = {name: array for name, (_, array, *_) in draws.items()}

    def summary_of(draws, name, variables):
        shape, ess = draws.shape[2:], diagnostics.effective_draws
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

    entries = {name: summary_of(values[name], name, [name]) for name in TARGETS if name in values}
    if "frequency" not in entries and "frequency_mean" in exact:  # moments without draws
        entries["frequency"] = {key: np.full(first.shape[2:], np.nan) for key in entries["distribution"]}
        known_of = ("mean", "sd", "lower", "upper", "lower_error", "upper_error")
        entries["frequency"] |= {key: exact[f"frequency_{key}"] for key in known_of if f"frequency_{key}" in exact}
    unknowns = {name for name, (_, _, *attrs) in draws.items() if attrs and attrs[0].get("of") in ("prior", "model")}
    arrays = [name for name in unknowns if values[name].ndim > 2]
    names = [name for name in values if name not in (*TARGETS, *arrays)]
    shared = [name for name, (_, _, *attrs) in draws.items() if attrs and attrs[0].get("of") == "prior"]
    several = len(dims) > 1
    scalars = [name for name in names if values[name].ndim == 2]
    parameters = [name for name in scalars if several or name in shared]
    quantities = [name for name in names if name not in (scalars if several else parameters)]
    for prefix, chosen in (("derived", quantities), ("parameter", parameters)):
        if chosen:
            together = np.stack([values[name] for name in chosen], axis=-1)
            entries[prefix] = summary_of(together, prefix, chosen)
    if parameters:
        entries["parameter"] |= _known_by_engine(facts, parameters, entries["parameter"])
    entries |= {name: summary_of(values[name], name, [name]) for name in values if name in arrays}
    if independent:
        judged = of_independent(diagnostics, first.shape[1])
    else:
        deciding = [*TARGETS, *arrays]
        # Of one population P and F decide: the table of its hyperparameters has their R-hat and effective draws.
        if (joint or several) and any(values[name].ndim == 2 for name in shared):
            deciding += [kind for kind in ("parameter", "derived") if kind in entries][:1]
        judged = _with_verdict(diagnostics, [entries[name] for name in deciding if name in entries], stats or {})
    return Statistics(entries, tuple(quantities), tuple(parameters), ci_prob, judged)


def _with_verdict(diagnostics, entries, stats):
    """Return the Diagnostics of chains, with the verdict, by the entries that decide on it."""
    problems = [diagnostics.problem] if diagnostics.problem else []
    # nan, which no threshold accepts, where too few draws or none that vary leave nothing to diagnose.
    r_hat, ess = np.nan, np.nan
    for each in entries:
        r_hat = float(np.fmax(r_hat, np.fmax.reduce(each["r_hat"], axis=None)))
        for kind in ("ess_bulk", "ess_tail"):
            ess = float(np.fmin(ess, np.fmin.reduce(each[kind], axis=None)))
    divergences = int(np.sum(stats["diverging"])) if "diverging" in stats else 0
    diagnostics = replace(diagnostics, worst_r_hat=r_hat, least_ess=ess, divergences=divergences)
    judged = of_chains(r_hat, ess, divergences)
    problems += [judged.problem] if judged.problem else []
    return _judged(diagnostics, problems, judged.checked)


def _known_by_engine(facts, names, part):
    """Return the summary entries of hyperparameters with what the method knows of them."""
    out: dict = {}
    for key, error in (("mean", "mcse"), ("sd", ""), ("lower", "lower_error"), ("upper", "upper_error")):
        known = [f"{name}_{key}" in facts for name in names]
        out[key] = np.array([facts.get(f"{name}_{key}", value) for name, value in zip(names, part[key], strict=True)])
        if error:
            off = (
                np.array([facts.get(f"{name}_mcse", 0.0) for name in names])
                if key == "mean"
                else ACCURACY.solved * out["sd"]
            )
            out[error] = np.where(known, off, part[error])
    return out


def of_independent(diagnostics, length):
    """Return the Diagnostics of independent draws, ``length`` of each chain, with the verdict.

    They need no chain diagnostics: their engine says in ``checked`` what it checked instead.
    """
    good = diagnostics.checked or "Independent draws: no chain diagnostics are needed."
    if diagnostics.interrupted:
        good += f" Interrupted: {length} draws a chain were kept."
    return _judged(diagnostics, [diagnostics.problem] if diagnostics.problem else [], good)


def _judged(diagnostics, problems, good):
    """Return the Diagnostics with what is wrong, and the sentence for the reader."""
    reasons = "; ".join(problems)
    outcome = f"Do not trust this posterior yet: {reasons}." if problems else good
    return replace(diagnostics, converged=not problems, problems=f"{reasons}." if problems else "", outcome=outcome)


def of_cells(labels: Sequence[str], each: Sequence[Diagnostics]) -> Diagnostics:
    """Return the Diagnostics of cells with posteriors of their own: the worst of each, which name the cells to distrust.

    Parameters
    ----------
    labels : sequence of str
        Labels of the cells.
    each : sequence of Diagnostics
        With their verdicts.
    """
    bad = [k for k, cell in enumerate(each) if not cell.converged]
    outcome = f"All {len(each)} cells were accepted." if len(each) > 1 else "The only cell was accepted."
    if bad:
        named = listed([labels[k] for k in bad])
        outcome = f"Do not trust the cells {named} yet: the first of them says {each[bad[0]].problems}"

    def worst(name, choose):
        values = [value for cell in each if (value := getattr(cell, name)) is not None and not np.isnan(value)]
        return float(choose(values)) if values else None

    mcmc = any(cell.sampling == "mcmc" for cell in each)
    return Diagnostics(
        sampling="mcmc" if mcmc else "independent",
        effective_draws=worst("effective_draws", min),
        interrupted=any(cell.interrupted for cell in each),
        worst_r_hat=worst("worst_r_hat", max),
        least_ess=worst("least_ess", min),
        divergences=sum(cell.divergences or 0 for cell in each) if mcmc else None,
        converged=not bad,
        problems=outcome if bad else "",
        outcome=outcome,
    )


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


def extremes(entries: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return (largest R-hat, least effective sample size of bulk and tails) of chain_diagnostics; nan where none varies."""
    ess = np.fmin.reduce([*entries["ess_bulk"], *entries["ess_tail"]])
    return float(np.fmax.reduce(entries["r_hat"])), float(ess)
