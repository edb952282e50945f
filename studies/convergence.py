"""Maximum likelihood against the posterior as reports come in: every number is that of a cross-check."""

import math

import numpy as np

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.robust.crosschecking import MAX_MCSE
from studies import evaluate
from studies.base import grid

#: Draws of each of the four chains of NUTS, and of the reference where it draws.
DRAWS = 1000


def cells(setting):
    """Return the cells of a setting: with four categories and 100 reports the sum over all tallies is among the answers."""
    paper = setting == "paper"
    return grid(
        protocol=["grr", "oue", "hadamard"],
        n_categories=[4, 8] if paper else [4],
        epsilon=[1.0],
        population=["geometric"],
        n_reports=[100, 1_000, 10_000, 100_000],
        replications=[10 if paper else 4],
    )


def cross_checks(cell, rng):
    """Return the lines of a cell: distances from the posterior mean, squared errors, and how many answers disagree.

    Parameters
    ----------
    cell : dict
    rng : numpy.random.Generator
    """
    protocol, categories, losses = evaluate.protocol_of(cell), evaluate.labels(cell["n_categories"]), {}
    for _ in range(cell["replications"]):
        p, true_counts = evaluate.truth(cell, rng)
        collection = Collection(categories, Tally(protocol, *protocol.simulate(true_counts, rng)))
        checked = lb.crosscheck(collection, "jeffreys", draws=DRAWS, random_seed=int(rng.integers(2**31)))
        for (name, metric), value in losses_of(checked, p).items():
            losses.setdefault((name, "distribution", metric), []).append(value)
    return evaluate.summarize_losses(losses)


def losses_of(checked, p):
    """Return {(estimator, metric): value} of one cross-check.

    Metrics: ``distance_in_sd``, √(mean_x ((estimate_x − E[P_x|Y]) / sd_x)²), of order 1/√n inside the simplex
    (Lopuhaä-Zwakenberg et al. 2020, Theorem 3.3); ``distance``, √Σ_x (estimate_x − E[P_x|Y])², of order 1/n there; ``mse``,
    Σ_x (estimate_x − P_x)². ``apart`` is 1 where the cross-check says that two answers which should be one are not: the mean
    by NUTS or by the sum over all tallies and the reference, or cvxpy's maximum and the package's.

    Parameters
    ----------
    checked : CrossCheck
        Of one collection.
    p : (a,) array
        The true distribution.
    """
    mean, sd = checked["mean"].values, checked["sd"].values
    away = {"nuts": checked["difference_sd"].values}
    away |= {str(name): checked["away"].sel(estimator=name).values for name in checked["estimator"].values}
    found = {("posterior_mean", "mse"): float(((mean - p) ** 2).sum())}
    for name, apart in away.items():
        found[name, "distance_in_sd"] = math.sqrt((apart**2).mean())
        found[name, "distance"] = math.sqrt(((apart * sd) ** 2).sum())
        found[name, "mse"] = float(((mean + apart * sd - p) ** 2).sum())
    found["nuts", "apart"] = float((np.abs(checked["difference_mcse"].values) > MAX_MCSE).any())
    if "convex" in away:
        found["convex", "apart"] = float(checked["convex_astray"].item())
    if "enumeration" in away:
        found["enumeration", "apart"] = float(checked["enumeration_apart"].item())
    return found
