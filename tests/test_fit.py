"""The front door: what it chooses, what it says, and what it hands over."""

import numpy as np
import pytest
import xarray as xr
from cases import neighbours
from samples import from_sample
from scipy import stats
from tabulated import each_row

from ldpbayes import Collection, Tally, fit, select_method
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError, RankDeficientWarning
from ldpbayes.methods.base import Pace
from ldpbayes.methods.pair_slice import PairSlice
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of
from ldpbayes.road.methods import METHODS

#: Methods for priors that are not Dirichlet: their tests are in tests/methods.
OTHER_PRIORS = ("weighted", "hmc")


def simulated(protocol, n, seed=1):
    rng = np.random.default_rng(seed)
    truth = rng.multinomial(n, rng.dirichlet(np.ones(protocol.n_categories)))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [Tally(protocol, *protocol.simulate(truth, rng))])


WARNER = Collection(["no", "yes"], [Tally(designs.warner(0.7), [0, 1], [60, 40])])


def test_select_method_of_so_many_categories_that_a_fit_makes_no_draws():
    """The methods are those of a fit with draws; draws=0 is for fit alone."""
    large = Collection([f"x{k}" for k in range(25_001)], [Tally(GRR(25_001, 9.0), np.arange(50), np.full(50, 5))])
    choice = select_method(large, "jeffreys")
    assert choice.method.draws * choice.method.chains * large.n_categories <= 1e8
    with pytest.raises(ArgumentError, match=r"draws must.*1"):
        select_method(large, draws=0)


@pytest.mark.parametrize(
    "collection, name",
    [
        (WARNER, "exact"),
        (simulated(GRR(1024, 1.0), 100_000), "exact"),
        (simulated(UnaryEncoding.symmetric(3, 1.0), 5000), "quadrature"),
        (simulated(UnaryEncoding.optimized(50, 1.0), 5000), "surrogate"),
    ],
    ids=["warner", "grr", "three", "fifty"],
)
def test_select_method(collection, name):
    choice = select_method(collection, "jeffreys")
    assert choice.method.name == name
    assert choice.reason.endswith(".")
    assert [passed for passed, _ in choice.considered][-1] == name
    assert all(not answer.feasible or answer.work > METHODS[passed].most for passed, answer in choice.considered[:-1])


def test_the_choice_hangs_on_counts_and_never_on_seconds(monkeypatch):
    """Prior, method, the order in which others would follow and their settings stay on a machine a tenth as fast."""
    collections = [
        simulated(protocol, n)
        for protocol in (GRR(30, 1.0), UnaryEncoding.symmetric(3, 1.0), UnaryEncoding.optimized(24, 1.0), neighbours(6))
        for n in (12, 5000)
    ]

    def choices():
        out = []
        for data in collections:
            every = (("default", ()), ("default", ("exact", "surrogate")), ("jeffreys", ("surrogate", "quadrature")))
            for prior, exclude in every:
                choice = select_method(data, prior, exclude=exclude)
                out.append((choice.method, choice.reason, [name for name, _ in choice.considered], choice.plan.seconds))
        return out

    usual, plain = choices(), Pace.seconds
    monkeypatch.setattr(Pace, "seconds", lambda *sizes: 10 * plain(*sizes))
    slow = choices()
    assert [one[:3] for one in slow] == [one[:3] for one in usual]
    np.testing.assert_allclose([one[3] for one in slow], [10 * one[3] for one in usual])
    assert len({one[0].name for one in usual}) >= 4


def test_every_method_is_tried_in_order_when_others_are_excluded():
    collection = simulated(UnaryEncoding.optimized(4, 1.0), 12)
    excluded, order = [], []
    while True:
        try:
            order.append(select_method(collection, exclude=tuple(excluded)).method.name)
        except InfeasibleError:
            break
        excluded.append(order[-1])
    assert order == [name for name in METHODS if name not in ("exact", *OTHER_PRIORS)]


def test_beta_posterior_in_closed_form():
    """Direct questioning: Beta, through every layer down to the printed summary."""
    collection = Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [7, 3])])
    tree = fit(collection, prior=[2.0, 5.0], random_seed=1, ci_prob=0.9)
    beta = stats.beta(9, 8)
    row = tree["summary"].sel(target="distribution").isel(category=0)
    assert float(row["mean"]) == pytest.approx(beta.mean(), rel=1e-12)
    assert float(row["sd"]) == pytest.approx(beta.std(), rel=1e-10)
    assert [float(row["lower"]), float(row["upper"])] == pytest.approx(beta.ppf([0.05, 0.95]).tolist(), rel=1e-9)
    assert tree["summary"]["mean"].sel(target="frequency").values == pytest.approx([0.7, 0.3])
    assert tree["summary"]["sd"].sel(target="frequency").values == pytest.approx([0, 0], abs=1e-7)


def test_seed_is_recorded_and_reproduces():
    first = fit(WARNER)
    again = fit(WARNER, random_seed=first.attrs["random_seed"])
    assert np.array_equal(first["posterior"]["distribution"], again["posterior"]["distribution"])
    assert np.array_equal(first["posterior"]["frequency"], again["posterior"]["frequency"])


def test_a_chain_that_is_too_short_warns_and_says_so():
    with pytest.warns(DiagnosticWarning, match="not trust"):
        tree = fit(
            simulated(UnaryEncoding.optimized(10, 0.5), 5000), method=PairSlice(draws=20, tune=100, thin=1), random_seed=1
        )
    assert not tree.attrs["converged"] and tree.attrs["problems"] in tree.attrs["outcome"]


def test_rank_deficient_channel_warns_and_the_posterior_is_the_prior_there():
    collection = Collection(["honest", "lying", "other"], [Tally(designs.stochastic_lie_detector(1 / 6), [0, 1], [40, 60])])
    with pytest.warns(RankDeficientWarning, match=r"honest,.*lying,.*other.*apart"):
        tree = fit(collection, random_seed=1)
    assert "told apart" in facts_of(tree)["identifiability"]
    assert list(tree["estimate"]["estimator"].values) == ["mle"]


@each_row(
    "arguments, words",
    [
        ({"method": "magic"}, "method must"),
        ({"prior": "informative"}, "prior must"),
        ({"prior": [1.0, 1.0, 1.0]}, "concentration per"),
        ({"prior": 0}, "prior must.*finite"),
        ({"ci_prob": 0}, "ci_prob must"),
        ({"draws": -1}, "draws must.*0"),
        (
            {"draws": 0, "method": "pair_slice"},
            "draws=0.*exact",
        ),
        ({"random_seed": -1}, "random_seed must"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        fit(WARNER, **arguments)


def test_wrong_objects_and_settings():
    with pytest.raises(ArgumentError, match=r"Cells, got.*list"):
        fit([1, 2, 3])


def test_auto_returns_the_last_answer_with_its_problems_where_none_converged():
    """Everything left refuses or does not converge: the caller gets the answer, the problems and a warning."""
    collection = simulated(neighbours(10), 60)
    with pytest.warns(DiagnosticWarning, match="not trust"):
        tree = fit(collection, draws=50, random_seed=1, exclude=("nuts",), estimates=False)
    assert tree.attrs["method"] == "pair_slice" and not tree.attrs["converged"]
    assert "surrogate ran" in tree.attrs["reason"]


@pytest.mark.parametrize("draws", [2, 5])
def test_too_few_draws_to_diagnose_are_not_accepted(draws):
    collection = simulated(UnaryEncoding.optimized(3, 1.0), 20)
    with pytest.warns(DiagnosticWarning, match=r"nan.*1\.01|below 400"):
        tree = fit(collection, method=PairSlice(draws=draws, chains=1), random_seed=1)
    assert not tree.attrs["converged"]


@each_row("name", [name for name in METHODS if name != "nuts"])
def test_a_single_draw_is_refused(name):
    with pytest.raises(ArgumentError, match=r"draws must.*>= (2|4)"):
        METHODS[name](draws=1, chains=1)


def test_without_draws_respondents_count_alike_and_the_result_says_who_decides():
    tree = fit(WARNER, draws=0, random_seed=1)
    assert tree.attrs["decided_by"] == "conflict" and "twice its" in tree.attrs["decides"]
    drawn = fit(WARNER, draws=250, random_seed=1)["sensitivity"]
    for name in ("prior_sensitivity", "reports_sensitivity", "move"):
        xr.testing.assert_allclose(tree["sensitivity"][name], drawn[name])
    protocol = GRR(3, 1.0)
    weighted = from_sample(["a", "b", "c"], protocol, [0, 1, 2, 1], weights=[1.0, 2.0, 0.5, 1.0])
    known, drawn = (fit(weighted, draws=draws, random_seed=1) for draws in (0, 100))
    assert (
        "a pseudo-posterior" in known.attrs["pseudo"] and "exact" in known.children and "log_evidence" not in known["exact"]
    )
    for name in ("mean", "sd", "lower", "upper"):
        np.testing.assert_allclose(known["exact"][f"distribution_{name}"], drawn["exact"][f"distribution_{name}"], atol=1e-5)
