"""How often the posterior of the share of fakes holds it: shares drawn from the prior, and fixed ones."""

import warnings

import numpy as np

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ConvergenceError, RankDeficientWarning
from studies import evaluate
from studies.pooled import FullStudy

#: Categories, reports and replications of every cell, and the law of the fakes.
CATEGORIES, REPORTS, REPLICATIONS, LAW = 4, 600, 1000, "maximal gain: b, c"
#: Collections of one block.
BLOCK = 20
#: Probability of the intervals.
CI_PROB = 0.9
#: The prior: Jeffreys' of the honest users' distribution, and independently of it Beta(1, 9) of the share of fakes.
PRIOR = lb.priors.Compliance(n_categories=CATEGORIES + 1)
#: The true share by population: drawn from its prior, or fixed.
SHARES = {"share from Beta(1, 9)": None, "share 0.05": 0.05, "share 0.15": 0.15}
LABELS = "abcdefghij"


def cells():
    """Return the cells: three protocols, and shares from the prior before fixed ones."""
    fixed = {"figure": "fakes", "part": "main", "n_categories": CATEGORIES, "epsilon": 1.0, "n_reports": REPORTS}
    fixed |= {"goal": REPLICATIONS, "block": BLOCK}
    return [fixed | {"protocol": name, "population": kind} for kind in SHARES for name in ("grr", "oue", "olh")]


def surveyed(protocol, law, share, n, rng):
    """Return (collection, true share of fakes); everything that is unknown comes from the prior.

    Parameters
    ----------
    protocol : AbstractProtocol
    law : str
        How fakes report, as for ``Collection.with_noncompliers``.
    share : float or None
        The true share; None draws it with the distribution from the prior.
    n : int
        Number of reports.
    rng : Generator
    """
    a = protocol.n_categories
    truth = PRIOR.sample(1, rng)[0]
    if share is not None:
        truth = np.append((1 - share) * truth[:-1] / truth[:-1].sum(), share)
    plain = Collection(LABELS[:a], Tally(protocol, *protocol.simulate(np.ones(a, dtype=int), rng)))
    wrapped = plain.with_noncompliers({"fake": law}).tallies[0].protocol
    reports = wrapped.privatize(rng.choice(a + 1, n, p=truth), rng)
    return Collection(LABELS[:a], Tally(protocol, reports)).with_noncompliers({"fake": law}), truth[-1]


def found(collection, share, rng):
    """Return (does the interval hold the share, P(a smaller share), its ends' standard errors, is the fit trusted)."""
    options = {"estimates": False, "ci_prob": CI_PROB, "random_seed": int(rng.integers(2**31))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficientWarning)  # GRR's, which has no report to spare for the fakes
        try:
            result, trusted = lb.fit(collection, PRIOR, **options), True
        except ConvergenceError as err:
            result, trusted = err.result, False
    names = "lower", "upper", "lower_error", "upper_error"
    summary = result["summary"].sel(quantity="noncompliance")
    lower, upper, *errors = (float(summary[f"derived_{name}"]) for name in names)
    below = (result["posterior"]["noncompliance"].values < share).mean()
    return lower <= share <= upper, below, *errors, trusted


def losses(cell, rng):
    """Return {(estimator, target, metric): (block,) array}: what ``found`` says of each collection."""
    protocol, share = evaluate.protocol_of(cell), SHARES[cell["population"]]
    each = [found(*surveyed(protocol, LAW, share, cell["n_reports"], own), own) for own in rng.spawn(cell["block"])]
    names = "coverage", "below", "lower_error", "upper_error", "trusted"
    return {
        ("posterior", "share", name): np.array(values, dtype=float)
        for name, values in zip(names, zip(*each, strict=True), strict=True)
    }


STUDY = FullStudy(
    "fakes",
    "How often the 90 % interval of the share of fakes holds it, for shares from the prior and fixed ones",
    "our own; docs/theory/contamination.md",
    cells,
    losses,
)
