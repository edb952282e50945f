"""How much an answer hangs on the prior: it is scaled a little up and down, and the posterior is made again."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import softmax

from ldpbayes.inference.ends import ends_of_weighted_draws, tails
from ldpbayes.inference.importance import weigh
from ldpbayes.posteriors.conditioned_product.batched import batch
from ldpbayes.posteriors.exact import stacked_factors
from ldpbayes.posteriors.problem import Problem
from ldpbayes.posteriors.surrogate import expanded, joined

#: The prior is scaled by one over this and by this: a doubling in all.
HALF = math.sqrt(2.0)
#: A category hangs on the prior where its mean or an end moves by more than this share of its sd …
MOVED = 0.1
#: … and by more than this share of the population.
FLOOR = 0.002
#: Entries of the likelihood's rows up to which a fit is made again.
MOST_ENTRIES = 1e7
#: An expansion stands for the likelihood where its means and sds are within this share of an sd of the posterior's.
LIKE = 0.15


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


def sensitivities(result: xr.DataTree, problems: Sequence[Problem], floor: float = FLOOR) -> list[PriorSensitivity | None]:
    """Return how the shares of each cell hang on the prior, or None where it is neither Dirichlet nor learnt.

    Power-scaling of the prior (Kallioinen et al. 2024) in softmax coordinates, in which Dirichlet(α) becomes
    Dirichlet(γα): from γ = 1/√2 to √2. Under a fixed α the posteriors of all cells are computed again at both: exactly where
    reports are separable, else with the likelihood expanded at the posterior's mean, where this gives the posterior's mean
    and sd under the prior as it is. Elsewhere draws are weighted by the ratio of the
    priors, if these weights can be trusted. Under the learnt prior γ moves the median of α, and the ratio hangs on α alone.

    Parameters
    ----------
    result : DataTree
        The result, of one collection or of cells.
    problems : sequence of Problem
        What it is the posterior of, one for each cell, all under one prior.
    floor : float
        Share of the population below which a move does not matter.

    References
    ----------
    Kallioinen, Paananen, Bürkner and Vehtari (2024), Statistics and Computing 34.
    """
    summary = result["summary"].to_dataset().sel(target="distribution")
    ci_prob, size = float(summary.attrs["ci_prob"]), summary["mean"].shape[-1]
    mean, sd = (summary[name].values.reshape(-1, size) for name in ("mean", "sd"))
    found: list[Any] = [None] * len(problems)
    asked = [k for k, one in enumerate(problems) if one.collection is not None and not one.obstacle]
    if asked and problems[asked[0]].alpha is not None:
        kept = [k for k in asked if problems[k].keeps_reports]
        exact = [k for k in kept if problems[k].separable is not None and not (problems[k].separable.slope < 0).any()]
        _exactly(problems, exact, ci_prob, found)
        left = [k for k in kept if found[k] is None and problems[k].separable is None and size > 2]
        _expanded(problems, [k for k in left if problems[k].entries <= MOST_ENTRIES], mean, sd, ci_prob, found)
    for k in asked:
        if found[k] is None:
            found[k] = _weighted(_draws_of(result, k), problems[k], ci_prob)
    return [None if one is None else _judged(one, m, s, floor) for one, m, s in zip(found, mean, sd, strict=True)]


def _exactly(problems: Sequence, places: list[int], ci_prob: float, found: list) -> None:
    """Write (mean, lower, upper) under both scaled priors, two (3, a) arrays, of cells whose reports are separable."""
    if not places:
        return
    alpha, forms = problems[places[0]].alpha, [problems[k].separable for k in places]
    both = [batch(stacked_factors(forms, scale * alpha)[0], len(forms), tails(ci_prob)) for scale in (1 / HALF, HALF)]
    ends = [np.stack([one.mean, *one.quantiles], axis=1) for one in both]
    for place, *pair in zip(places, *ends, strict=True):
        found[place] = pair


def _expanded(problems: Sequence, places: list[int], mean: Any, sd: Any, ci_prob: float, found: list) -> None:
    """Write what _exactly does for other reports, where their expansion has the means and sds of the posterior."""
    if not places:
        return
    alpha, scales = problems[places[0]].alpha, (1 / HALF, 1.0, HALF)
    families = [expanded(problems[k].rows, alpha, np.maximum(mean[k], 1e-12)) for k in places]
    every = joined([replace(family, alpha=scale * alpha) for scale in scales for family in families])
    under = batch(every, len(scales) * len(places), tails(ci_prob))
    ends = np.stack([under.mean, *under.quantiles], axis=1).reshape(len(scales), len(places), 3, -1)
    spread = np.sqrt(under.variance).reshape(len(scales), len(places), -1)
    for i, k in enumerate(places):
        off = np.abs(ends[1, i, 0] - mean[k]) / sd[k], np.abs(spread[1, i] / sd[k] - 1)
        if max(one.max() for one in off) < LIKE:
            found[k] = [ends[0, i], ends[2, i]]


def _judged(found: Sequence[np.ndarray], mean: np.ndarray, sd: np.ndarray, floor: float) -> PriorSensitivity:
    """Return the PriorSensitivity of (mean, lower, upper) under both scaled priors, two (3, a) arrays."""
    moves = np.abs(found[1] - found[0]).max(axis=0)
    hangs = (moves > MOVED * sd) & (moves > floor)
    return PriorSensitivity(moves, hangs, float(mean[hangs].sum()))


def _draws_of(tree: Any, cell: int) -> tuple:
    """Return (draws of P (S, a), those of α (S,) or None) of one cell."""
    posterior = tree["posterior"].to_dataset()
    out: list = []
    for name in ("distribution", "alpha"):
        one = posterior[name] if name in posterior else None
        out.append(None if one is None else (one.isel(cell=cell) if "cell" in one.dims else one).values)
    p, alpha = out
    return p.reshape(-1, p.shape[-1]), None if alpha is None else alpha.ravel()


def _weighted(draws: tuple, problem: Problem, ci_prob: float) -> list[np.ndarray] | None:
    """Return (mean, lower, upper) under both scaled priors by weights on the draws."""
    (p, concentrations), known = draws, problem.prior.to_dict()
    if problem.alpha is not None:
        with np.errstate(divide="ignore"):
            ratio = np.log(p) @ problem.alpha
        log_weights = np.multiply.outer([1 / HALF - 1, HALF - 1], ratio)
        if not np.isfinite(ratio).all() or not all(weigh(p, one).verdict.accepted for one in log_weights):
            return None
    elif concentrations is not None and {"median", "sd"} <= set(known):
        median, sd = float(known["median"]), float(known["sd"])
        t = np.log(concentrations / median) / sd
        log_weights = np.multiply.outer([-math.log(HALF) / sd, math.log(HALF) / sd], t)  # N(t; step, 1)/N(t; 0, 1)
    else:
        return None
    weights = softmax(log_weights, axis=1)
    return list(np.stack([weights @ p, *ends_of_weighted_draws(p, weights, ci_prob)[:2]], axis=1))
