"""A mixture of Dirichlet priors that are not symmetric is that mixture on every road, and no other."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.special import gammaln

import ldpbayes as lb
from ldpbayes.priors import Dirichlet, Learnt
from ldpbayes.protocols import GRR, UnaryEncoding
from ldpbayes.result.facts import facts_of


@dataclasses.dataclass(frozen=True, eq=False)
class Guessed(Learnt):
    """P | η ~ Dirichlet(η · base), log η ~ N(log median, sd²): a guess at the shares, of a strength that is learnt."""

    base: np.ndarray = None

    def given(self, value):
        """Return the prior with α(η) = η · base: no category is like another."""
        return Dirichlet(value * self.base)


A, CELLS = 6, 2
BASES = [np.array([3.0, 0.2, 0.2, 1.0, 0.5, 1.1]), np.array([0.2, 3.0, 1.1, 0.5, 1.0, 0.2])]  # of one sum
PRIORS = [Guessed(median=1.0, sd=1.0, n_categories=A, base=base) for base in BASES]
T = np.linspace(-3, 3, 25)  # log η in prior standard deviations


def collected(protocol, n, seed):
    rng = np.random.default_rng(seed)
    truth = rng.multinomial(n, [0.05, 0.4, 0.2, 0.05, 0.1, 0.2][: protocol.n_categories])
    return lb.Collection(list("abcdef"[: protocol.n_categories]), [lb.Tally(protocol, *protocol.simulate(truth, rng))])


def by_grid(cells, base, moments):
    """Return (log-evidence, means and sds of every cell, mean of η) from Dirichlet priors on a grid of log η."""
    found = [[moments(cell, Dirichlet(np.exp(t) * base)) for cell in cells] for t in T]
    log = np.array([sum(one[0] for one in cell) for cell in found]) - T**2 / 2
    weight = np.exp(log - log.max())
    evidence = log.max() + np.log(weight.sum() * (T[1] - T[0]) / np.sqrt(2 * np.pi))
    weight /= weight.sum()
    means, variances = (np.array([[one[k] for one in cell] for cell in found]) for k in (1, 2))
    mean = np.tensordot(weight, means, 1)
    return evidence, mean, np.sqrt(np.tensordot(weight, variances + (means - mean) ** 2, 1)), weight @ np.exp(T)


def exactly(cell, prior):
    found = lb.methods.Exact().moments(cell, prior)
    return found.log_evidence, found.mean, found.variance


@functools.cache
def tallies_of(cell):
    """Return (tallies of the true values, their likelihoods), one user after the other."""
    mixture = {(0,) * cell.n_categories: 1.0}
    rows = cell.rows
    matrix = np.exp(rows.log_constants)[:, None] * rows.dense()
    for row in np.repeat(matrix, rows.counts.astype(int), axis=0):
        grown = {}
        for tally, weight in mixture.items():
            for x, chance in enumerate(row):
                key = (*tally[:x], tally[x] + 1, *tally[x + 1 :])
                grown[key] = grown.get(key, 0.0) + weight * chance
        mixture = grown
    return np.array(list(mixture)), np.log(list(mixture.values()))


def by_states(cell, prior):
    """The law of the true tallies, enumerated."""
    tallies, log = tallies_of(cell)
    alpha = prior.alpha + tallies
    log = log + log_beta(alpha) - log_beta(prior.alpha)
    weight = np.exp(log - log.max())
    evidence = log.max() + np.log(weight.sum())
    weight, total = weight / weight.sum(), alpha[0].sum()
    mean = weight @ alpha / total
    return evidence, mean, weight @ (alpha * (alpha + 1)) / (total * (total + 1)) - mean**2


def log_beta(alpha):
    return gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1))


@pytest.fixture(scope="module")
def separable():
    return [collected(GRR(A, 1.0), 400, seed) for seed in range(CELLS)]


@pytest.fixture(scope="module")
def references(separable):
    """The reference of one cell and of all of them, for both bases."""
    return [[by_grid(cells, base, exactly) for cells in (separable[:1], separable)] for base in BASES]


def close(tree, reference, cell=0, exact=True):
    """Compare the summary of a cell with the reference: exact to a hundredth of an sd, else within Monte Carlo errors."""
    evidence, mean, sd, _ = reference
    summary = tree["summary"].to_dataset().sel(target="distribution")
    if "cell" in summary.dims:
        summary = summary.isel(cell=cell)
    allowed = 0.01 if exact else 0.12
    assert (np.abs(summary["mean"] - mean[cell]) < allowed * sd[cell]).all()
    np.testing.assert_allclose(summary["sd"], sd[cell], rtol=0.02 if exact else 0.1)
    found = (
        float(tree["exact"]["log_evidence"])
        if exact and "cell" not in tree["exact"].dims
        else facts_of(tree)["log_evidence"]
    )
    return abs(found - evidence)


@pytest.mark.calibrated("0")
@pytest.mark.parametrize("k", [0, 1])
def test_one_collection(separable, references, k):
    reference = references[k][0]
    trees = [lb.fit(separable[0], PRIORS[k], draws=draws, estimates=False, random_seed=1) for draws in (0, 250)]
    for tree in trees:
        assert tree.attrs["method"] == "exact"
        assert close(tree, reference) < 5e-3
        assert abs(facts_of(tree)["alpha_mean"] / reference[3] - 1) < 0.05
        assert abs(facts_of(tree)["prior_weight"] / (reference[3] * BASES[k].sum()) - 1) < 0.05
    moments = trees[0]["exact"]
    np.testing.assert_allclose(moments["distribution_mean"], reference[1][0], atol=0.01 * reference[2].min())
    assert abs(float(moments["log_evidence"]) - reference[0]) < 5e-3


def test_two_priors_have_two_evidences(separable, references):
    """They differ by far more than any error, and so do the Bayes factors that a fit shows."""
    factors = [
        facts_of(lb.fit(separable[0], prior, draws=250, random_seed=1))["log_bayes_factor_jeffreys"] for prior in PRIORS
    ]
    wanted = references[0][0][0] - references[1][0][0]
    assert abs(wanted) > 1 and abs((factors[0] - factors[1]) - wanted) < 5e-3


def test_cells_that_share_the_hyperparameter(separable, references, k=1):
    cells = lb.Cells(dict(zip("xy", separable, strict=True)))
    for draws in (0, 250):
        tree = lb.fit(cells, PRIORS[k], draws=draws, estimates=False, random_seed=1)
        evidence = [close(tree, references[k][1], cell) for cell in range(CELLS)]
        assert max(evidence) < 5e-3


@pytest.mark.calibrate
def test_few_categories_by_quadrature():
    base = np.array([2.0, 0.1, 0.6])
    protocol = UnaryEncoding.optimized(3, 1.5)
    cells = [collected(protocol, 12, seed) for seed in range(2)]
    prior = Guessed(median=1.0, sd=1.0, n_categories=3, base=base)
    wanted = [by_grid(some, base, by_states) for some in (cells[:1], cells)]
    for draws in (0, 250):
        assert close(lb.fit(cells[0], prior, draws=draws, estimates=False, random_seed=1), wanted[0]) < 5e-3
    tree = lb.fit(lb.Cells(dict(zip("xy", cells, strict=True))), prior, draws=250, estimates=False, random_seed=1)
    assert max(close(tree, wanted[1], cell) for cell in range(2)) < 5e-3


def test_surrogates_weighted_by_the_likelihood(separable, references):
    """The surrogates' road, on reports whose posterior is known exactly."""
    from ldpbayes.methods.base import Problem, Watch
    from ldpbayes.methods.conjugate import _weighed, nodes_of, shares
    from ldpbayes.methods.nodes import Placement
    from ldpbayes.methods.servers import WeightedServer

    for k, prior in list(enumerate(PRIORS))[:1]:
        server = WeightedServer([Problem.of(separable[0], prior)])
        nodes, _ = nodes_of(prior.nodes(), [server], Placement())
        counts = shares(nodes.weights, 4000)
        found, _, verdict = _weighed(server, 0, nodes, counts, np.random.default_rng(1), Watch())
        evidence, mean, sd, _ = references[k][0]
        assert verdict.accepted
        assert (np.abs(found.weight @ found.distribution - mean[0]) < 0.1 * sd[0]).all()
        assert abs(nodes.log_evidence + found.log_evidence - evidence) < 4 * found.log_evidence_error + 2e-3


def test_summaries_of_cells(separable):
    """Without draws, cells that are summaries go by the conditioned product of the nodes."""
    protocol = UnaryEncoding.optimized(A, 1.0)
    cells = lb.Cells({name: collected(protocol, 20_000, seed) for seed, name in enumerate("xy")})
    means = lb.fit(cells, "jeffreys", draws=250, estimates=False, random_seed=1)["posterior"]["distribution"]
    summaries = cells.summaries(means.mean(("chain", "draw")).transpose("cell", "category").values)
    whole = lb.fit(cells, PRIORS[0], draws=500, estimates=False, random_seed=1)["summary"].sel(target="distribution")
    sums = lb.fit(summaries, PRIORS[0], draws=0, estimates=False, random_seed=1)["summary"].sel(target="distribution")
    assert (np.abs(whole["mean"] - sums["mean"]) < 0.1 * whole["sd"]).all()
