"""Faults that version 0.1.0 had in its posteriors, each under the number it was found by; every test failed before."""

import sys
from collections import Counter

import numpy as np
import pytest
from cases import neighbours
from conditioned import weighted
from priorcases import LogisticNormal
from references.enumeration import enumerated
from tabulated import each_row

from ldpbayes.collections import Collection, Derived, Tally
from ldpbayes.errors import ArgumentError, ConvergenceError, DiagnosticWarning, InfeasibleError
from ldpbayes.fitting import fit, select_method
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.frequency import _moved
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.methods.surrogate import Surrogate
from ldpbayes.methods.weighted import Weighted
from ldpbayes.protocols import GRR, Channel, designs, kronecker
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.road.methods import METHODS

pytestmark = pytest.mark.long

WARNER = Collection(["no", "yes"], [Tally(designs.warner(0.7), [0, 1], [60, 40])])


def collected(protocol, n, seed=1, **fields):
    rng = np.random.default_rng(seed)
    truth = rng.multinomial(n, rng.dirichlet(np.ones(protocol.n_categories)))
    labels = [f"c{x}" for x in range(protocol.n_categories)]
    return Collection(labels, [Tally(protocol, *protocol.simulate(truth, rng))], **fields)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("ci_prob", [0.95, 0.99])
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_upper_ends_of_categories_that_share_their_group(alpha, ci_prob):
    channel = Channel([[0.6, 0.6, 0.2], [0.1, 0.1, 0.5], [0.3, 0.3, 0.3]])
    collection = Collection("abc", [Tally(channel, [0, 1, 2], [6, 1, 3])])
    settings = {"random_seed": 1, "ci_prob": ci_prob}
    found = fit(collection, alpha, Quadrature(draws=10), **settings, estimates=False)["exact"]
    right = enumerated(collection, alpha, ci_prob)  # a finite mixture of Betas
    for end in ("lower", "upper"):
        np.testing.assert_allclose(found[f"distribution_{end}"], right[f"distribution_{end}"], atol=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_evidence_against_the_exact_one(alpha):
    collection = collected(GRR(3, 0.1), 6, seed=2)
    found = weighted(collection, alpha)
    right = Exact().moments(collection, alpha).log_evidence
    assert (
        not found.verdict.problem
        and found.log_evidence_error < 1e-3
        and abs(found.log_evidence - right) < 5 * found.log_evidence_error + 1e-6
    )


def test_the_error_of_weighted_means_counts_weights_that_go_with_the_quantity():
    collection = collected(kronecker([GRR(2, 2.0), GRR(3, 2.0)]), 2000, seed=2)
    means, errors = [], []
    for seed in range(24):
        try:
            tree = fit(collection, "jeffreys", Surrogate(draws=100), random_seed=seed, estimates=False)
        except ConvergenceError as err:  # some runs of 400 draws are rejected; they have errors all the same
            tree = err.result
        summary = tree["summary"].sel(target="distribution")
        means.append(summary["mean"].values)
        errors.append(summary["mcse"].values)
    ratio = np.std(means, axis=0, ddof=1) / np.mean(errors, axis=0)
    assert 0.8 < np.sqrt(np.mean(ratio**2)) < 1.18  # 6 correlated ratios, each known to 15 %; 1/Σw² alone gives 1.28


@pytest.mark.calibrated("weighted")
@pytest.mark.parametrize(
    "method, prior",
    [(Weighted(draws=250), LogisticNormal(4, 1.5)), (Surrogate(draws=250), "learnt")],
    ids=["weighted", "surrogate"],
)
def test_other_engines_that_resample_by_weights_have_that_error_too(method, prior, monkeypatch):
    """The bootstrap of (value, weight) pairs is the second way; 1/Σw² alone misses it by up to an eighth."""
    problem = Problem.of(collected(UnaryEncoding.optimized(4, 2.0), 60, seed=2), prior)
    answer = method.answer(problem, method.plan(problem), random_seed=1, ci_prob=0.95)
    summary = answer.summary.entries["distribution"]
    values, weight = answer.outcome.weighted_draws
    rng, size = np.random.default_rng(1), len(weight)
    times = rng.multinomial(size, np.full(size, 1 / size), 4000) * weight
    error = ((times @ values) / times.sum(axis=1, keepdims=True)).std(axis=0)
    sd = np.sqrt(weight @ (values - weight @ values) ** 2)
    kept = answer.outcome.distribution[..., 0].size  # of more proposals than these no more are independent
    least = kept**-0.5 if size > kept else 0.0
    np.testing.assert_allclose(summary["mcse"] / summary["sd"], np.maximum(error / sd, least), rtol=0.05)


def test_moved_draws_have_the_known_sd():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([600.0, 250.0, 100.0, 40.0, 10.0], 4000)
    sd = 0.8 * p.std(axis=0)
    moved = _moved(p - p.mean(axis=0), p.mean(axis=0), sd)
    np.testing.assert_allclose(moved.std(axis=0), sd, rtol=2e-3)
    np.testing.assert_allclose(moved.sum(axis=1), 1)


def test_a_share_of_tiny_shares_is_defined():
    derived = (Derived("share", ("c1",), ("c1", "c2")),)
    collection = Collection(["c0", "c1", "c2"], [Tally(GRR(3, 5.0), [0], [60])], derived=derived)
    tree = fit(collection, 0.002, random_seed=1, estimates=False)
    assert tree.attrs["converged"] and np.isfinite(tree["posterior"]["share"].values).all()


@each_row(
    "call, words",
    [
        (lambda: fit(WARNER, exclude="magic"), "exclude must"),
        (lambda: fit(WARNER, method="exact", exclude="exact"), "exclude must"),
        (lambda: fit(WARNER, method=Exact), "method must"),
        (lambda: fit(WARNER, method=Exact(draws=10), draws=500), "method object"),
        (lambda: fit(collected(GRR(3, 1.0), 50), "flat", Surrogate(), ci_prob=7, estimates=False), "ci_prob must"),
    ],
)
def test_arguments_are_refused(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


@each_row("name", METHODS)
def test_a_generator_is_no_seed_and_is_refused_before_sampling(name, monkeypatch):
    method = METHODS[name]()
    monkeypatch.setattr(type(method), "run", lambda *_: pytest.fail("sampled"))
    with pytest.raises(ArgumentError, match=r"random_seed must.*Generator"):
        fit(WARNER, "flat", method, random_seed=np.random.default_rng(1), estimates=False)


def test_one_name_may_be_excluded():
    assert select_method(WARNER, exclude="exact").method.name == "quadrature"


@pytest.mark.parametrize(
    "name",
    [name for name in METHODS if name not in ("weighted", "nuts", "hmc")],
)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_every_result_has_a_summary_and_its_seed(name):
    collection, method = collected(GRR(3, 1.0), 40), METHODS[name](draws=20, chains=2)
    tree = fit(collection, "flat", method, random_seed=3, estimates=False)
    assert tree["summary"]["mean"].shape == (2, 3) and tree.attrs["random_seed"] == 3
    drawn = fit(collection, "flat", method, estimates=False).attrs["random_seed"]
    again = fit(collection, "flat", method, random_seed=drawn, estimates=False)
    assert again.attrs["random_seed"] == drawn


#: mean, sd, 2.5 % and 97.5 % quantile, log-evidence of P_yes: warner(0.7), 40 % yes, Jeffreys; mpmath with 50 digits.
LARGE = {
    10**10: (0.24999999985, 1.2247448719529305e-5, 0.24997599533896541, 0.25002400445574988, -6730116680.7915604),
    10**12: (0.2499999999985, 1.2247448713972025e-6, 0.24999759954313539, 0.25000240045481176, -673011667022.25802),
}


@pytest.mark.parametrize("n", LARGE)
def test_two_categories_at_any_number_of_reports(n):
    mean, sd, lower, upper, log_evidence = LARGE[n]
    collection = Collection(["no", "yes"], [Tally(designs.warner(0.7), [0, 1], [6 * n // 10, 4 * n // 10])])
    found = Exact().moments(collection, "jeffreys")
    assert abs(found.mean[1] - mean) < 1e-9 * sd and found.sd[1] == pytest.approx(sd, rel=1e-12)
    low, high = found.interval()
    assert abs(low[1] - lower) < 1e-7 * sd and abs(high[1] - upper) < 1e-7 * sd
    assert found.log_evidence == pytest.approx(log_evidence, rel=2e-15)


@pytest.mark.parametrize("n", [10**10, 10**11, 10**12])
@pytest.mark.parametrize("a", [2, 4, 30])
def test_grr_at_any_number_of_reports(a, n):
    """At so many reports the posterior is normal: E[P] is the oracle and its sd that of the counts."""
    protocol, share = GRR(a, 1.0), np.linspace(1, 2, a) / np.linspace(1, 2, a).sum()
    channel = protocol.channel()
    counts = np.rint(n * channel @ share).astype(np.int64)
    collection = Collection([f"c{x}" for x in range(a)], [Tally(protocol, np.arange(a), counts)])
    found = Exact().moments(collection, "jeffreys")
    q = channel @ share
    inverse = np.linalg.inv(channel)
    sd = np.sqrt(np.diag(inverse @ (np.diag(q) - np.outer(q, q)) @ inverse.T) / n)
    assert (np.abs(found.mean - share) < 0.01 * sd).all()
    np.testing.assert_allclose(found.sd, sd, rtol=1e-4)


@pytest.mark.parametrize("prior", [1e-6, 1e9])
@pytest.mark.parametrize("n", [100, 10**6])
def test_extreme_priors_are_served(prior, n):
    counts = np.array([n // 2, n // 4, n - n // 2 - n // 4])
    tree = fit(Collection("abc", [Tally(GRR(3, 1.0), [0, 1, 2], counts)]), prior, draws=50, random_seed=1, estimates=False)
    mean = tree["summary"]["mean"].sel(target="distribution").values
    assert mean.sum() == pytest.approx(1) and np.isfinite(tree["summary"]["sd"]).all()


@each_row("prior", [1e-300, 1e-100, 1e-20, 1e13, 1e300])
def test_priors_beyond_are_refused_in_a_sentence(prior):
    for method in ("auto", "exact", "quadrature", "surrogate", "pair_slice"):
        with pytest.raises(ArgumentError, match=r"prior must.*(1e-09|1e-150)"):
            fit(WARNER, prior, method=method)


@pytest.mark.parametrize("a", [10**5, 10**6])
def test_draws_that_no_memory_holds_are_refused_before_time_is_spent(a):
    protocol = GRR(a, 5.0)
    collection = Collection([f"c{x}" for x in range(a)], [Tally(protocol, [0, 1, 2], [500, 300, 200])])
    with pytest.raises(InfeasibleError, match=r"fewer draws.*Exact") as caught:
        fit(collection, estimates=False, draws=1000)
    assert str(caught.value).count("fewer draws") == 1


def test_the_reason_of_a_rejection_is_kept_when_nothing_is_left():
    collection = collected(neighbours(10), 60)
    with pytest.warns(DiagnosticWarning, match="Pareto k-hat"):
        tree = fit(collection, "jeffreys", random_seed=1, exclude=("pair_slice", "nuts"), draws=250, estimates=False)
    assert tree.attrs["method"] == "surrogate" and not tree.attrs["converged"]


def test_one_fit_looks_once():
    """The prior, the separable form and identifiability are worked out once each in a default fit of a GRR collection."""
    watched = {"as_prior", "find_separable", "_identifiability", "unidentified"}
    seen = Counter()

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_name in watched and "ldpbayes" in frame.f_code.co_filename:
            seen[frame.f_code.co_name] += 1

    collection = collected(GRR(3, 1.0), 100)
    fit(collection, random_seed=1, draws=10)
    sys.setprofile(profile)
    try:
        fit(collected(GRR(3, 1.0), 100), random_seed=1, draws=10)
    finally:
        sys.setprofile(None)
    assert dict(seen) == dict.fromkeys(watched, 1)


def test_nothing_is_prepared_twice_at_a_hand_over_and_its_sentences_start_in_upper_case(monkeypatch):
    calls = Counter()
    for name in METHODS:
        kind = type(METHODS[name]())

        def counted(self, problem, name=name, original=kind.prepare):
            calls[name] += 1
            return original(self, problem)

        monkeypatch.setattr(kind, "prepare", counted)
    tree = fit(collected(neighbours(10), 60), "jeffreys", random_seed=1, estimates=False)
    assert tree.attrs["method"] == "pair_slice" and set(calls.values()) == {1}
    rejected = "Before it, surrogate ran first and was rejected: The draws cannot be trusted: Pareto"
    assert rejected in tree.attrs["reason"]
