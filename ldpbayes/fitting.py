"""The front door: select_method says which posterior method suits a collection and why, fit runs it."""

import importlib
import os
import warnings
from dataclasses import dataclass

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError, ConvergenceError, DiagnosticWarning, InfeasibleError
from ldpbayes.posteriors.base import AbstractPosterior
from ldpbayes.priors import as_prior
from ldpbayes.sources import read_collection

#: Posterior methods in the order in which ``auto`` considers them, by module and class (imported when needed).
METHODS = {
    "exact": ("ldpbayes.posteriors.exact", "Exact"),
    "quadrature": ("ldpbayes.posteriors.quadrature", "Quadrature"),
    "tally_states": ("ldpbayes.posteriors.tally_states", "TallyStates"),
    "surrogate": ("ldpbayes.posteriors.surrogate", "Surrogate"),
    "augmentation": ("ldpbayes.posteriors.augmentation", "Augmentation"),
    "pair_slice": ("ldpbayes.posteriors.pair_slice", "PairSlice"),
    "nuts": ("ldpbayes.posteriors.nuts", "NUTS"),
}

#: ``auto`` prefers an exact method only where its predicted time stays below this many seconds.
PATIENCE = 10.0


@dataclass(frozen=True)
class Choice:
    """What select_method chose.

    Attributes
    ----------
    method : AbstractPosterior
        Ready to run.
    reason : str
        Why this one.
    considered : tuple of (name, Feasibility)
        Every method in order, up to the one chosen: why those before it were passed over.
    """

    method: AbstractPosterior
    reason: str
    considered: tuple


def make_method(name, **settings):
    """Return a posterior method by its name, with its settings.

    Raises
    ------
    ArgumentError
        On an unknown name or setting.
    """
    checks.choice(name, "method", ("auto", *METHODS))
    module, cls = METHODS[name]
    try:
        return getattr(importlib.import_module(module), cls)(**settings)
    except TypeError as err:
        raise ArgumentError(f"method {name!r} does not take these settings: {err}.") from err


def select_method(collection, prior="jeffreys", *, exclude=(), **settings):
    """Return what ``method="auto"`` would use for this collection and prior, and why.

    The first method in METHODS that applies and whose predicted time is below PATIENCE.

    Parameters
    ----------
    collection : Collection
    prior : str, float, array or Dirichlet
    exclude : sequence of str
        Methods not to consider.
    **settings
        Fields that every method has: draws (per chain) and chains.

    Returns
    -------
    Choice
    """
    prior = as_prior(prior, collection.n_categories)
    considered = []
    for name in (name for name in METHODS if name not in exclude):
        method = make_method(name, **settings)
        answer = method.feasibility(collection, prior)
        considered.append((name, answer))
        if answer.feasible and not answer.seconds > PATIENCE:
            break
    else:
        feasible = [(answer.seconds, name) for name, answer in considered if answer.feasible]
        if not feasible:
            raise InfeasibleError("No posterior method applies: " + " ".join(a.reason for _, a in considered))
        _, name = min(feasible)
        method, answer = make_method(name, **settings), dict(considered)[name]
    return Choice(method, answer.reason, tuple(considered))


def fit(
    collection,
    prior="jeffreys",
    method="auto",
    *,
    draws=1000,
    chains=4,
    random_seed=None,
    ci_prob=0.95,
    progressbar=False,
    estimates=True,
    exclude=(),
):
    """Return the posterior of the distribution P and of the users' own frequencies F.

    Parameters
    ----------
    collection : Collection or path-like
        Reports, or a collection file.
    prior : {"jeffreys", "flat"}, float, (a,) array or Dirichlet
        Dirichlet prior over P; a number is a symmetric concentration.
    method : str or AbstractPosterior
        "auto", a name of METHODS, or a method object with its own settings.
    draws, chains : int
        Draws per chain and chains, for methods given by name.
    random_seed : int, optional
        Reproduces every draw; chosen and recorded where not given.
    ci_prob : float
        Probability of the equal-tailed intervals in the group ``summary``.
    progressbar : bool
        Show progress on standard error.
    estimates : bool
        Add MLE and oracle in the group ``estimate``, and what the reports are worth to the attrs.

    exclude : sequence of str
        Methods that "auto" leaves out.

    Returns
    -------
    xarray.DataTree
        Groups posterior, summary, exact (where known), estimate, sample_stats, observed_data and constant_data; attrs
        say the method, why it was chosen, its diagnostics and the seed. See ldpbayes.result.

    Warns
    -----
    RankDeficientWarning
        Where the channels cannot tell some categories apart.
    DiagnosticWarning
        Where the diagnostics say not to trust the posterior yet.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally, fit
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])])
    >>> posterior = fit(survey, prior="flat", random_seed=1)
    >>> posterior.attrs["method"], posterior["summary"]["mean"].sel(target="distribution").values.round(3).tolist()
    ('exact', [0.741, 0.259])
    """
    from ldpbayes import answers, result

    if isinstance(collection, (str, os.PathLike)):
        collection = read_collection(collection)
    elif isinstance(collection, Collection):
        collection.warn_if_unidentified()
    else:
        raise ArgumentError(f"collection must be a Collection or a path, got {type(collection).__name__}.")
    prior = as_prior(prior, collection.n_categories)
    ci_prob = checks.probability(ci_prob, "ci_prob", open_low=True, open_high=True)
    settings = {"draws": checks.integer(draws, "draws", minimum=1), "chains": checks.integer(chains, "chains", minimum=1)}
    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0])
    random_seed = checks.integer(random_seed, "random_seed", minimum=0)
    run = {"random_seed": random_seed, "ci_prob": ci_prob, "progressbar": progressbar}
    if method == "auto":
        tree = _run_automatic(collection, prior, settings, run, tuple(exclude))
    else:
        method = make_method(method, **settings) if isinstance(method, str) else method
        tree = _run(method, collection, prior, run)
        tree.attrs["reason"] = "Chosen by the caller."
    tree.attrs |= {
        "random_seed": random_seed,
        "identifiability": collection.identifiability(),
        "caveat": collection.caveat(),
    }
    if estimates:
        result.add_estimates(tree, point_estimates(collection))
        tree.attrs |= answers.worth(tree, collection)
    if not tree.attrs["converged"]:
        warnings.warn(tree.attrs["outcome"], DiagnosticWarning, stacklevel=2)
    return tree


def _run(method, collection, prior, run):
    """Return the summarised result of one method."""
    from ldpbayes.posteriors import diagnostics

    tree = method.posterior(collection, prior, **run)
    tree.attrs["sampling"] = method.sampling
    return diagnostics.summarise(tree, run["ci_prob"])


def _run_automatic(collection, prior, settings, run, exclude):
    """Run the chosen method; where its own check or its diagnostics reject the answer, hand over to the next.

    Where none is left, the last answer comes back with its problems, which fit() warns of.
    """
    refused, tree = {}, None
    while True:
        try:
            choice = select_method(collection, prior, exclude=(*exclude, *refused), **settings)
        except InfeasibleError:
            if tree is None:
                raise
            return tree
        handed = "".join(f" {other} ran first and was rejected: {why}" for other, why in refused.items())
        try:
            tree = _run(choice.method, collection, prior, run)
        except ConvergenceError as err:
            refused[choice.method.name] = str(err)
            continue
        tree.attrs["reason"] = choice.reason + handed
        if tree.attrs["converged"] or tree.attrs.get("interrupted"):
            return tree
        refused[choice.method.name] = tree.attrs["problems"]


def point_estimates(collection):
    """Return the estimates shown beside a posterior: MLE, and the oracle where the channels have one."""
    from ldpbayes.estimators.derived import with_derived
    from ldpbayes.estimators.mle import MLE
    from ldpbayes.estimators.oracle import Oracle

    found = [MLE()(collection)]
    try:
        found.append(Oracle()(collection))
    except ArgumentError:
        pass  # Rank-deficient channels have no oracle; the table leaves its column out.
    return [with_derived(estimate, collection) for estimate in found]
