"""Log Bayes factors between priors: the quick evidences against the exact ones, and what a fit says of them."""

import math

import numpy as np
import pytest
from references.enumeration import enumerated
from scipy.special import gammaln

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.methods import expanded
from ldpbayes.methods.conditioned_product.batched import log_masses
from ldpbayes.methods.evidence import log_bayes_factors
from ldpbayes.methods.nodes import Placement
from ldpbayes.methods.products import Products
from ldpbayes.priors import Dirichlet, Learnt
from ldpbayes.protocols import HadamardResponse, RestrictedResponse, SubsetSelection
from ldpbayes.result.facts import facts_of


def collection_of(protocol, p, n, seed):
    rng = np.random.default_rng(seed)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])


def evidence_of(form, alpha):
    """Return the log-evidence that comes with exact moments."""
    products = Products.of([form], alpha.size)
    return float(products.engine(alpha).log_evidence[0] + products.left_out(alpha)[0])


@pytest.mark.parametrize("a, n, epsilon", [(2, 40, 1.0), (3, 300, 0.5), (60, 4000, 2.0)])
def test_evidences_of_separable_reports_are_the_exact_ones(a, n, epsilon):
    collection = collection_of(GRR(a, epsilon), np.random.default_rng(a).dirichlet(np.full(a, 0.3)), n, 1)
    found = log_bayes_factors(collection)
    form = collection.rows.separable()
    assert found.used == "jeffreys" and not found.skipped
    for name, alpha in (("jeffreys", 0.5), ("flat", 1.0)):
        assert abs(found.log_evidence[name] - evidence_of(form, np.full(a, alpha))) < found.error[name]
    nodes = Placement().place(
        Learnt(n_categories=a).nodes(), lambda some: np.array([evidence_of(form, one.concentrations()) for one in some])
    )
    assert abs(found.log_evidence["learnt"] - nodes.log_evidence) < found.error["learnt"] + nodes.error
    assert found.between("flat", "jeffreys") == found.log_evidence["flat"] - found.log_evidence["jeffreys"]


def test_the_mass_of_pure_powers_is_the_beta_function():
    """The saddle point stands on a Gamma law, so that it is all but exact for Dirichlet densities."""
    alpha = np.array([[0.02] * 3, [0.5, 0.5, 4.0], [7.0, 0.3, 1.0]])
    family = expanded.ExpandedFactors(alpha.ravel(), np.zeros(9), np.full(9, 1e-12))
    exact = gammaln(alpha).sum(axis=1) - gammaln(alpha.sum(axis=1))
    np.testing.assert_allclose(log_masses(family, np.ones(3), 3)[0], exact, atol=1e-3)


def test_evidences_of_other_reports_are_near_those_of_all_tallies():
    collection = collection_of(SubsetSelection(4, 1.0), np.array([0.5, 0.3, 0.1, 0.1]), 60, 3)
    found = log_bayes_factors(collection)
    for name, prior in (("jeffreys", Dirichlet.jeffreys(4)), ("flat", Dirichlet.flat(4))):
        exact = enumerated(collection, prior)["log_evidence"]
        assert abs(found.log_evidence[name] - exact) < max(3 * found.error[name], 0.05)


def test_a_fit_says_what_the_reports_favour():
    collection = collection_of(GRR(40, 3.0), np.r_[np.full(3, 0.3), np.full(37, 0.1 / 37)], 3000, 5)
    tree = fit(collection, random_seed=1, draws=50)
    assert facts_of(tree)["log_bayes_factor_learnt"] > 3  # three large categories and nothing else
    assert facts_of(tree)["log_bayes_factor_learnt_error"] < 0.1
    assert "prior: flat" in facts_of(tree)["bayes_factors"]
    own = fit(collection, prior=0.1, random_seed=1, draws=50)
    form = collection.rows.separable()
    exact = evidence_of(form, np.full(40, 0.1)) - evidence_of(form, np.full(40, 0.5))
    assert abs(facts_of(own)["log_bayes_factor_own"] - exact) < facts_of(own)["log_bayes_factor_own_error"]
    bare = fit(collection, random_seed=1, draws=50, estimates=False)
    assert "bayes_factors" not in facts_of(bare)


def test_the_factor_of_a_prior_used_far_from_jeffreys_states_what_its_expansion_leaves():
    """Of 52 reports in three categories the factor was .31 off, and the stated error .01."""
    labels, alpha, logs = ("a", "b", "c"), np.array([1.7, 4.0, 0.5]), {}
    weak, strong = HadamardResponse(3, 0.7), HadamardResponse(3, 3.0)
    counted = ((weak, [4, 3, 4, 6]), (strong, [9, 4, 4, 3]), (RestrictedResponse(3, 0.7, (0, 2), 0.6), [6, 6, 7]))
    for name, concentrations in (("own", alpha), ("jeffreys", np.full(3, 0.5))):
        draws = np.random.default_rng(1).dirichlet(concentrations, 100_000)
        likelihood = sum(np.log(draws @ protocol.channel().T) @ counts for protocol, counts in counted)
        logs[name] = likelihood.max() + np.log(np.exp(likelihood - likelihood.max()).mean())
    pairs = enumerate(counted)
    tallies = [Tally(protocol, range(len(counts)), counts, f"{k}", labels) for k, (protocol, counts) in pairs]
    stated = facts_of(fit(Collection(labels, tallies), alpha, draws=10, chains=2, random_seed=1))
    gap = stated["log_bayes_factor_own"] - (logs["own"] - logs["jeffreys"])
    assert abs(gap) < 2 * stated["log_bayes_factor_own_error"]


def test_what_would_take_long_is_left_out_with_the_reason():
    found = log_bayes_factors(collection_of(GRR(5, 1.0), np.full(5, 0.2), 50, 1), limit=0.0)
    assert not found.log_evidence and "would take" in found.sentence() and math.isnan(found.between("learnt", "jeffreys"))


def test_the_prior_used_is_named():
    collection = collection_of(GRR(5, 1.0), np.full(5, 0.2), 50, 1)
    assert log_bayes_factors(collection, "learnt").used == "learnt"
    assert log_bayes_factors(collection, 2.5).used == "own"


def convolved(reports, alpha, c):
    """Return log P(Y) of GRR under Dirichlet(α, …, α) up to the constant of the rows, by sums of positive terms in logs."""
    logs = np.zeros(1)
    for w in reports:
        k = np.arange(w + 1)
        own = gammaln(w + 1) - gammaln(k + 1) - gammaln(w - k + 1) + k * np.log(c) + gammaln(alpha + k)
        table = np.full((own.size, logs.size + w), -np.inf)
        for i, one in enumerate(own):
            table[i, i : i + logs.size] = logs + one
        logs = np.logaddexp.reduce(table)
    total = alpha * len(reports)
    return np.logaddexp.reduce(logs - gammaln(total + np.arange(logs.size))) + gammaln(total) - len(reports) * gammaln(alpha)


@pytest.mark.parametrize(
    ("a", "alpha", "n", "epsilon", "spread"),
    [
        (30, 0.000348, 549, 1.81, 6.5),
        (30, 0.00111, 270, 3.55, 1.8),
        (3, 0.095, 1528, 0.08, 0.34),
        (100, 0.167, 219, 0.51, 0.05),
    ],
)
def test_the_stated_error_of_an_evidence_covers_a_sum_over_all_tallies(a, alpha, n, epsilon, spread):
    """Small concentrations, of many categories or under weak and skewed reports: 5e-4 and 1.2 nats off at a stated 1e-8."""
    rng = np.random.default_rng(a)
    truth = rng.multinomial(n, rng.dirichlet(np.full(a, spread)))
    protocol = GRR(a, epsilon=epsilon)
    collection = Collection([str(x) for x in range(a)], [Tally(protocol, *protocol.simulate(truth, rng))])
    form = collection.likelihood.separable()
    reports = np.bincount(form.index, form.counts, a).astype(int)
    found = log_bayes_factors(collection, alpha)
    constant = form.counts @ (form.log_constants + np.log(form.base))
    exact = convolved(reports, alpha, float(form.slope[0] / form.base[0])) + constant
    assert abs(found.log_evidence["own"] - exact) < found.error["own"]
