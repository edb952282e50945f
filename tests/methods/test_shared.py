"""One α shared by all cells: nodes against brute force, the same α in every cell's draws, and fallbacks."""

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from ldpbayes import Cells, Collection, Tally, fit
from ldpbayes.errors import InfeasibleError
from ldpbayes.methods.base import Problem, Watch
from ldpbayes.methods.conjugate import _weighed
from ldpbayes.methods.exact import ExactMoments
from ldpbayes.methods.nodes import Nodes
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.methods.servers import WeightedServer
from ldpbayes.priors import Dirichlet
from ldpbayes.priors.learnt import Learnt
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

A, QUICK = 6, {"random_seed": 1, "estimates": False}


def grouped(protocol, n, n_cells=4, seed=5):
    """Return Cells whose distributions are draws from Dirichlet(2, …, 2)."""
    rng, a = np.random.default_rng(seed), protocol.n_categories
    cells = {}
    for c in range(n_cells):
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, rng.dirichlet(np.full(a, 2.0))), rng))
        cells[f"g{c}"] = Collection([f"c{x}" for x in range(a)], [tally])
    return Cells(cells)


@pytest.fixture(scope="module")
def cells():
    return grouped(GRR(A, 1.5), 400)


@pytest.fixture(scope="module")
def tree(cells):
    return fit(cells, "learnt", draws=500, **QUICK)


@pytest.mark.calibrate
def test_one_alpha_agrees_with_brute_force(cells, tree):
    prior, t = Learnt(n_categories=A), np.linspace(-2.0, 3.0, 31)
    found = [[ExactMoments(cell.rows, Dirichlet(np.full(A, v))) for cell in cells.values()] for v in prior.alpha(t)]
    log_weight = np.array([sum(one.log_evidence for one in row) for row in found]) + stats.norm.logpdf(t)
    weight = np.exp(log_weight - logsumexp(log_weight))
    alpha = weight @ prior.alpha(t)
    assert facts_of(tree)["alpha_mean"] == pytest.approx(alpha, rel=2e-3)
    assert facts_of(tree)["log_evidence"] == pytest.approx(logsumexp(log_weight) + np.log(t[1] - t[0]), abs=2e-3)
    fine = np.linspace(t[0], t[-1], 1001)
    density = np.exp(CubicSpline(t, log_weight)(fine) - log_weight.max())
    ends = prior.alpha(np.interp([0.025, 0.975], np.cumsum(density) / density.sum(), fine))
    assert (facts_of(tree)["alpha_lower"], facts_of(tree)["alpha_upper"]) == pytest.approx(ends, rel=0.02)
    for c in range(len(cells)):
        mean = weight @ np.array([row[c].mean for row in found])
        np.testing.assert_allclose(tree["exact"]["distribution_mean"].isel(cell=c).values, mean, rtol=2e-3)


def test_weights_of_few_reports_are_trusted_and_agree_with_quadrature():
    """Few reports have a log-likelihood that falls off more slowly than its quadratic: the proposals are wider."""
    protocol, rng = UnaryEncoding.optimized(4, 1.0), np.random.default_rng(8)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(300, rng.dirichlet(np.full(4, 0.6))), rng))
    cell, one = Collection("abcd", [tally]), Dirichlet(np.full(4, 0.5))
    server = WeightedServer([Problem.of(cell, Learnt(n_categories=4))])
    server.look()
    nodes = Nodes.alone(one, float(server.log_evidences([one])[0, 0]))
    found, _, verdict = _weighed(server, 0, nodes, np.array([4000]), np.random.default_rng(0), Watch())
    assert verdict.accepted and found.k_hat < 0.5 and found.effective_sample > 0.7 * 4000
    exact = fit(cell, one, Quadrature(draws=2, chains=1), random_seed=1, estimates=False)["exact"]
    error = 4 * exact["distribution_sd"].values / np.sqrt(found.effective_sample)
    assert (np.abs(found.weight @ found.distribution - exact["distribution_mean"].values) < error).all()
    assert nodes.log_evidence + found.log_evidence == pytest.approx(float(exact["log_evidence"]), abs=0.05)


def test_the_result_has_one_alpha(cells, tree):
    alpha = tree["posterior"]["alpha"]
    assert alpha.dims == ("chain", "draw")
    assert float(alpha.mean()) == pytest.approx(facts_of(tree)["alpha_mean"], rel=0.05)
    assert tree.attrs["prior"].endswith("one alpha for all cells") and tree.attrs["method"] == "exact"
    assert tree.attrs["converged"] and "one alpha" in tree.attrs["reason"]
    # Under a larger α all cells are more even: the draws of all cells go with the same α.
    spread = tree["posterior"]["distribution"].var("category").mean("cell")
    assert stats.spearmanr(alpha.values.ravel(), spread.values.ravel()).statistic < -0.2
    alone = facts_of(fit(cells["g0"], "learnt", draws=50, **QUICK))
    assert np.log(facts_of(tree)["alpha_upper"] / facts_of(tree)["alpha_lower"]) < np.log(
        alone["alpha_upper"] / alone["alpha_lower"]
    )


@pytest.mark.calibrate
def test_surrogates_share_alpha_too():
    cells = grouped(UnaryEncoding.optimized(5, 1.5), 300, n_cells=3)
    tree = fit(cells, "learnt", draws=250, **QUICK)
    assert tree.attrs["converged"] and tree["posterior"]["alpha"].dims == ("chain", "draw")
    other = fit(cells, "learnt", draws=250, **(QUICK | {"random_seed": 2}))
    mean, sd = (tree["summary"][key].sel(target="distribution").values for key in ("mean", "sd"))
    apart = np.abs(mean - other["summary"]["mean"].sel(target="distribution").values)
    assert (apart < 5 * sd * np.sqrt(2 / 500)).all()


def test_the_method_that_shares_cannot_be_excluded(cells):
    with pytest.raises(InfeasibleError, match=r"all cells.*exact.*surrogate"):
        fit(cells, "learnt", exclude=("exact", "surrogate"), **QUICK)


def test_cells_of_twenty_categories_share_alpha_by_default():
    cells = grouped(GRR(20, 2.0), 200, n_cells=2)
    tree = fit(cells, draws=50, **QUICK)
    assert tree.attrs["prior"].startswith("learnt") and "20 categories" in tree.attrs["prior_reason"]
