"""What several studies need: true populations, and posterior means that are computed the fastest way that is good enough."""

import functools
import pathlib

from ldpbayes.errors import ArgumentError, ConvergenceError, InfeasibleError
from ldpbayes.fitting import fit
from ldpbayes.methods.expansion import checked_expansion, proposal_of
from ldpbayes.methods.surrogate import Surrogate
from ldpbayes.road.methods import METHODS
from ldpbayes.simulation import population
from studies import evaluate

POPULATIONS = pathlib.Path(__file__).parents[1] / "data" / "populations"


@functools.lru_cache
def census(name):
    """Return a population of data/populations by its name."""
    return population(POPULATIONS / f"{name}.toml")


def whole_census(cell, _rng):
    """Return (None, true counts): everybody of the cell's population reports, and no distribution is drawn."""
    return None, census(cell["population"]).counts


def require_populations():
    """Raise an ArgumentError where the folder of true populations is missing."""
    if not POPULATIONS.is_dir():
        raise ArgumentError("study must run from a checkout of the project, which holds data/populations; got none.")


def expanded(collection, prior, rng):
    """Return (mean, variance) of P by an expansion of the likelihood; where that may be off, by slower methods.

    Where respondents may ignore the device, those of P with their shares after it.

    Parameters
    ----------
    collection : Collection
    prior : Dirichlet
    rng : numpy.random.Generator
    """
    try:
        own, _ = checked_expansion(collection.rows, prior.alpha)
        return proposal_of(own, prior.alpha).saddle_moments()
    except InfeasibleError:
        if not collection.n_laws:
            return evaluate.posterior_moments(collection, prior, rng)
    quick = evaluate.quick_moments(collection, prior, rng)
    if quick is not None:
        return quick
    # A fit would give the compliers' P alone.
    tree = fit(collection, prior, METHODS["pair_slice"](), random_seed=int(rng.integers(2**31)), estimates=False)
    summary = tree["summary"].sel(target="distribution")
    return summary["mean"].values, summary["sd"].values ** 2


def learnt(collection, rng):
    """Return (mean, variance) of P, and mean of F, under the learnt prior: by draws where an expansion may be off.

    Parameters
    ----------
    collection : Collection
    rng : numpy.random.Generator
    """
    for method in ("exact", "surrogate"):
        try:
            found = fit(collection, "learnt", method, draws=0, estimates=False)["exact"]
            return found["distribution_mean"].values, found["distribution_sd"].values ** 2, found["frequency_mean"].values
        except InfeasibleError:
            continue
    try:
        tree = fit(collection, "learnt", Surrogate(), random_seed=int(rng.integers(2**31)), estimates=False)
    except ConvergenceError as err:  # few of the weighted draws count: a noisy mean instead of an hour of chains
        tree = err.result
    one, users = (tree["summary"].sel(target=target) for target in ("distribution", "frequency"))
    return one["mean"].values, one["sd"].values ** 2, users["mean"].values
