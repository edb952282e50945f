"""How much an answer hangs on the prior: it is scaled a little up and down, and the posterior is made again."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import softmax

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.ends import ends_of_weighted_draws, tails
from ldpbayes.inference.importance import weigh
from ldpbayes.posteriors.many import Many, undrawn
from ldpbayes.posteriors.problem import Problem
from ldpbayes.priors import Dirichlet

#: The prior is scaled by one over this and by this: a doubling in all.
HALF = math.sqrt(2.0)
#: A category hangs on the prior where its mean or an end moves by more than this share of its sd …
MOVED = 0.1
#: … and by more than this share of the population.
FLOOR = 0.002
#: Entries of the likelihood's rows up to which a fit is made again, and predicted seconds up to which by quadrature.
MOST_ENTRIES, QUICK = 1e7, 0.33


class PriorSensitivity(NamedTuple):
    """How far doubling the prior's weight moves the share of each category.

    Attributes
    ----------
    moves : (a,) array
        Largest move of the mean and of both ends.
    hangs : (a,) array of bool
        Where that is more than MOVED sd and more than the practical floor.
    share : float
        What the categories that hang on the prior hold together, by the posterior mean.
    """

    moves: np.ndarray
    hangs: np.ndarray
    share: float


def prior_sensitivity(tree: xr.DataTree, problem: Problem, floor: float = FLOOR) -> PriorSensitivity | None:
    """Return how the shares of a fit hang on the prior, or None where the prior is neither Dirichlet nor learnt.

    Power-scaling of the prior (Kallioinen et al. 2024) in softmax coordinates, in which Dirichlet(α) becomes
    Dirichlet(γα): from γ = 1/√2 to √2. Under a fixed α the posterior is computed again at both, by what takes no longer
    than a fit: exactly, by quick quadrature, or by its expansion. Where the expansion is refused or the reports are many,
    draws are weighted by the ratio of the priors, if these weights can be trusted. Under the learnt prior γ moves the median
    of α, and the ratio hangs on α alone.

    Parameters
    ----------
    tree : DataTree
        The result.
    problem : Problem
        What it is the posterior of.
    floor : float
        Share of the population below which a move does not matter.

    References
    ----------
    Kallioinen, Paananen, Bürkner and Vehtari (2024), Statistics and Computing 34.
    """
    if problem.collection is None or problem.obstacle:
        return None
    summary = tree["summary"].to_dataset().sel(target="distribution")
    if summary["mean"].ndim > 1:
        return None
    ci_prob, mean, sd = float(summary.attrs["ci_prob"]), summary["mean"].values, summary["sd"].values
    found = _again(problem, ci_prob) or _weighted(tree, problem, ci_prob)
    if found is None:
        return None
    return _judged(found, mean, sd, floor)


def sensitivity_of_cells(
    many: Many, alpha: np.ndarray, mean: np.ndarray, sd: np.ndarray, ci_prob: float
) -> list[PriorSensitivity]:
    """Return the PriorSensitivity of each of many cells under one Dirichlet prior, in a list.

    Parameters
    ----------
    many : Many
    alpha : (a,) array
    mean, sd : (cells, a) arrays
        Of P, under the prior as it is.
    ci_prob : float
    """
    levels = tails(ci_prob)
    both = [many.under(scale * alpha, levels) for scale in (1 / HALF, HALF)]
    ends = [np.stack([found.mean, *found.quantiles], axis=1) for found in both]
    return [_judged([low, high], m, s, FLOOR) for low, high, m, s in zip(*ends, mean, sd, strict=True)]


def _judged(found: Sequence[np.ndarray], mean: np.ndarray, sd: np.ndarray, floor: float) -> PriorSensitivity:
    """Return the PriorSensitivity of (mean, lower, upper) under both scaled priors, two (3, a) arrays."""
    moves = np.abs(found[1] - found[0]).max(axis=0)
    hangs = (moves > MOVED * sd) & (moves > floor)
    return PriorSensitivity(moves, hangs, float(mean[hangs].sum()))


def _again(problem: Problem, ci_prob: float) -> list[np.ndarray] | None:
    """Return (mean, lower, upper) under both scaled Dirichlet priors, two (3, a) arrays."""
    alpha = problem.alpha
    if alpha is None or not problem.keeps_reports or (problem.separable is None and problem.entries > MOST_ENTRIES):
        return None
    levels, found = tails(ci_prob), []
    for scale in (1 / HALF, HALF):
        try:
            entries = undrawn(replace(problem, prior=Dirichlet(scale * alpha)), levels, patient=QUICK)[0]
        except InfeasibleError:
            return None
        found.append(np.stack([entries[f"distribution_{name}"] for name in ("mean", "lower", "upper")]))
    return found


def _weighted(tree: xr.DataTree, problem: Problem, ci_prob: float) -> list[np.ndarray] | None:
    """Return (mean, lower, upper) under both scaled priors by weights on the draws."""
    p, known = np.asarray(tree["posterior"]["distribution"]), problem.prior.to_dict()
    p = p.reshape(-1, p.shape[-1])
    if problem.alpha is not None:
        with np.errstate(divide="ignore"):
            ratio = np.log(p) @ problem.alpha
        log_weights = np.multiply.outer([1 / HALF - 1, HALF - 1], ratio)
        if not np.isfinite(ratio).all() or not all(weigh(p, one).verdict.accepted for one in log_weights):
            return None
    elif "alpha" in tree["posterior"] and {"median", "sd"} <= set(known):
        median, sd = float(known["median"]), float(known["sd"])
        t = np.log(np.ravel(tree["posterior"]["alpha"]) / median) / sd
        log_weights = np.multiply.outer([-math.log(HALF) / sd, math.log(HALF) / sd], t)  # N(t; step, 1)/N(t; 0, 1)
    else:
        return None
    weights = softmax(log_weights, axis=1)
    return list(np.stack([weights @ p, *ends_of_weighted_draws(p, weights, ci_prob)[:2]], axis=1))
