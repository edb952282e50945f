"""How much the shares of a fit depend on the prior: it is scaled a little up and down, and the posterior is made again."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ldpbayes.inference.scaling import POWERS, SENSITIVITY, Scaled, by_weights
from ldpbayes.methods.conditioned_product.constants import SETS
from ldpbayes.methods.expanded import expanded, joined
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.products import Products
from ldpbayes.priors import AbstractPrior
from ldpbayes.priors.parts import log_density_of_shares
from ldpbayes.result.compliers import extended
from ldpbayes.result.fits import Fit

#: Rule: Moves of the log of a hyperparameter that matter, for a doubling of its prior's weight: it becomes 1.35 times as
#: large. Half is 1.16 times, less than draws tell of a scale; double 1.8 times, which a reader calls another value. It is
#: the .3 log odds of a regression (``Serving.floor``).
FLOOR_LOG = 0.3
#: Time: Entries of the likelihood's rows up to which a fit is made again.
MOST_ENTRIES = 1e7
#: Rule: An expansion stands for the likelihood where its means and sds are within this share of an sd of the posterior's.
#: A move is the difference of two posteriors by the same expansion, in sds that are off by 15 % at most: the limit of .1 sd
#: is then .085 to .115. Half makes it .093 to .108, and leaves more cells to weighted draws, which say less of large moves;
#: double .07 to .13, where the verdict begins to be another one.
LIKE = 0.15


def sensitivities(fit: Fit, problems: Sequence[Problem], floor: float = SENSITIVITY.floor) -> list[Scaled | None]:
    """Return what scaling the prior does to the shares of each cell, or None where draws do not tell the prior's density.

    Dirichlet(α) to the power γ is Dirichlet(γα) in softmax coordinates. Under a fixed α the posteriors of all cells are
    computed again at both POWERS: exactly where reports are separable, else with the likelihood expanded at the posterior's
    mean, where this gives the posterior's mean and sd under the prior as it is. Elsewhere draws are weighted, under a prior
    with hyperparameters by the prior of these.

    Parameters
    ----------
    fit : Fit
        Of one collection or of cells.
    problems : sequence of Problem
        What it is the posterior of, one for each cell, all under one prior.
    floor : float
        Share of the population below which a move does not matter.
    """
    (mean, sd), size = fit.moments, len(fit.categories)
    scaled: list[Any] = [None] * len(problems)
    places = [k for k, problem in enumerate(problems) if problem.collection is not None]
    if places and problems[places[0]].alpha is not None:
        kept = [k for k in places if problems[k].keeps_reports and not problems[k].collection.laws]
        exact = [k for k in kept if problems[k].singled]
        _exactly(problems, exact, scaled)
        left = [k for k in kept if scaled[k] is None and problems[k].separable is None and size > 2]
        _expanded(problems, [k for k in left if problems[k].entries <= MOST_ENTRIES], mean, sd, scaled)
    for k in places:
        if scaled[k] is None:
            scaled[k] = _weighted(fit, k, problems[k])[1]
    of = functools.partial(Scaled.of, shares=True, floor=floor, ci_prob=fit.ci_prob)
    return [None if under is None else of(mean[k], sd[k], under) for k, under in enumerate(scaled)]


def of_trait(fit: Fit, cell: int, problem: Problem) -> Scaled | None:
    """Return what scaling the prior does to the share that several lists ask for, and to the rest; None where unknown.

    Parameters
    ----------
    fit : Fit
    cell : int
        Which one; of one collection it is not looked at.
    problem : Problem
    """
    item = next(item for item in problem.collection.derived if item.name == problem.collection.trait)
    inside = np.isin(problem.collection.categories, item.of)
    values, under = _weighted(fit, cell, problem, np.column_stack([inside, ~inside]).astype(float))
    if under is None:
        return None
    return Scaled.of(values.mean(axis=0), values.std(axis=0), under, shares=True, ci_prob=fit.ci_prob)


def of_draws(fit: Fit, prior: AbstractPrior) -> tuple[Scaled | None, dict[str, Scaled]]:
    """Return what scaling the prior of the hyperparameters does to P, and to each of these that is one number.

    Parameters
    ----------
    fit : Fit
        With draws of both; P has any shape.
    prior : AbstractPrior
        Of P, or of that of all cells.
    """
    draws, ci_prob = fit.flat(), fit.ci_prob
    log_prior = prior.log_hyperprior(draws)
    if log_prior is None:
        return None, {}

    scaled = functools.partial(Scaled.of_draws, log_prior=log_prior)
    hyper = {name: draws[name] for name in prior.hyperparameter_names if name in draws and draws[name].ndim == 1}
    above = {name: np.log(x) for name, x in hyper.items() if x.min() > 0}  # one that may be 0 has no logarithm
    by_name = {name: scaled(x, shares=False, floor=FLOOR_LOG, ci_prob=ci_prob) for name, x in above.items()}
    return scaled(draws["distribution"], shares=True, ci_prob=ci_prob), by_name


def _exactly(problems: Sequence, places: list[int], scaled: list) -> None:
    """Write (means, sds) under both scaled priors, two (2, a) arrays, of cells whose reports are separable."""
    if not places:
        return
    alpha = problems[places[0]].alpha
    powered = [power * alpha for power in POWERS]
    means, sds = _moments(lambda block: Products.of([problems[k].separable for k in block], alpha.size), places, powered)
    for i, k in enumerate(places):
        scaled[k] = means[:, i], sds[:, i]


def _expanded(problems: Sequence, places: list[int], mean: Any, sd: Any, scaled: list) -> None:
    """Write what _exactly does for other reports, where their expansion has the means and sds of the posterior."""
    if not places:
        return
    alpha, scales = problems[places[0]].alpha, (POWERS[0], 1.0, POWERS[1])

    def products(block: list[int]) -> Products:
        families = [expanded(problems[k].rows, np.zeros_like(alpha), np.maximum(mean[k], 1e-12)) for k in block]
        return Products(joined(families), np.zeros(len(block)))

    # Of second order in the saddle point, like the expansion: integrals would cost ten times as much and say no more.
    means, sds = _moments(products, places, [scale * alpha for scale in scales], "saddle point")
    for i, k in enumerate(places):
        off = np.abs(means[1, i] - mean[k]) / sd[k], np.abs(sds[1, i] / sd[k] - 1)
        if max(gap.max() for gap in off) < LIKE:
            scaled[k] = means[::2, i], sds[::2, i]


def _moments(
    make: Callable[[list[int]], Products], places: list[int], alphas: list, route: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and sds (alphas, cells, a) under some Dirichlet priors, of a block of cells at a time."""
    out, step = [], max(1, SETS // alphas[0].size)
    for start in range(0, len(places), step):
        products = make(places[start : start + step])
        engines = [products.engine(alpha, route=route) for alpha in alphas]
        out.append(np.array([[engine.mean for engine in engines], np.sqrt([engine.variance for engine in engines])]))
    means, sds = np.concatenate(out, axis=2)
    return means, sds


def _weighted(fit: Fit, cell: int, problem: Problem, sums: Any = None) -> tuple[np.ndarray, Any]:
    """Return draws of P of one cell, or of P @ sums, and their (means, sds) under both scaled priors by weights, or None."""
    draws = fit.flat(cell)
    p, log_prior = draws["distribution"], problem.prior.log_hyperprior({k: x for k, x in draws.items() if x.ndim == 1})
    if log_prior is None and problem.collection.device_law is not None:  # what trials say of the device is no prior of P
        log_prior = log_density_of_shares(problem.prior.without(problem.collection.owners), p)
    elif log_prior is None:
        log_prior = log_density_of_shares(problem.prior, extended(draws, problem.collection))
    values = p if sums is None else p @ sums
    return values, None if log_prior is None else by_weights(values, log_prior)
