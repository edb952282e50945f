"""How often the posterior of the share of fakes holds it: shares drawn from the prior, and fixed ones."""

import numpy as np

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.study import evaluate
from studies.pooled import FullStudy

#: Categories, reports and replications of every cell, and the law of the fakes.
CATEGORIES, REPORTS, REPLICATIONS, LAW = 4, 600, 1000, "maximal gain: b, c"
#: Collections of one block.
BLOCK = 20
#: The true share by population: drawn from the prior Beta(1, 2), or fixed.
SHARES = {"share from the prior": None, "share 0.05": 0.05, "share 0.15": 0.15}
#: Weighted draws are taken where as many posteriors of a fit would trust them; else data augmentation answers.
K_HAT, EFFECTIVE = 0.7, 250
LABELS = "abcdefghij"


def cells():
    """Return the cells: three protocols, and shares from the prior before fixed ones."""
    fixed = {"figure": "fakes", "part": "main", "n_categories": CATEGORIES, "epsilon": 1.0, "n_reports": REPORTS}
    fixed |= {"goal": REPLICATIONS, "block": BLOCK}
    return [fixed | {"protocol": name, "population": kind} for kind in SHARES for name in ("grr", "oue", "olh")]


def below(protocol, law, share, n, rng):
    """Return (posterior probability that the share of fakes is below the true one, whether draws were weighted ones).

    Parameters
    ----------
    protocol : AbstractProtocol
    law : str
        How fakes report, as for ``Collection.with_noncompliers``.
    share : float or None
        The true share; None draws it with the distribution from the prior, p′ ~ Dirichlet(½, …, ½, 1).
    n : int
        Number of reports.
    rng : Generator
    """
    a = protocol.n_categories
    prior = lb.priors.Dirichlet(np.append(np.full(a, 0.5), 1.0))
    truth = rng.dirichlet(prior.alpha)
    if share is not None:
        truth = np.append((1 - share) * truth[:-1] / truth[:-1].sum(), share)
    plain = Collection(LABELS[:a], Tally(protocol, *protocol.simulate(np.ones(a, dtype=int), rng)))
    wrapped = plain.with_noncompliers({"fake": law}).tallies[0].protocol
    reports = wrapped.privatize(rng.choice(a + 1, n, p=truth), rng)
    found = Collection(LABELS[:a], Tally(protocol, reports)).with_noncompliers({"fake": law})
    sample = lb.methods.Surrogate(draws=1000, chains=1).weighted(found, prior, random_seed=rng)
    if sample.k_hat <= K_HAT and sample.effective_sample >= EFFECTIVE:
        return sample.weight[sample.distribution[:, -1] < truth[-1]].sum(), True
    # Many short chains: a sweep over all of them costs hardly more than one over two.
    method = lb.methods.Augmentation(draws=25, chains=32, tune=50)
    tree = method.posterior(found, prior, random_seed=int(rng.integers(2**31)))
    return float((tree["posterior"]["noncompliance"].values < truth[-1]).mean()), False


def losses(cell, rng):
    """Return {(estimator, target, metric): (block,) array}: whether the central 90 % interval holds the share."""
    protocol, share = evaluate.protocol_of(cell), SHARES[cell["population"]]
    found = np.array([below(protocol, LAW, share, cell["n_reports"], own) for own in rng.spawn(cell["block"])])
    inside = (found[:, 0] >= 0.05) & (found[:, 0] <= 0.95)
    lines = {"coverage": inside.astype(float), "below": found[:, 0], "weighted": found[:, 1]}
    return {("posterior", "share", metric): values for metric, values in lines.items()}


STUDY = FullStudy(
    "fakes",
    "How often the 90 % interval of the share of fakes holds it, for shares from the prior and fixed ones",
    "our own; docs/theory/contamination.md",
    cells,
    losses,
)
