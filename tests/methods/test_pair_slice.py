"""Pair slices against exact moments, the prior itself and NUTS, on both routes; and what they refuse."""

import pathlib

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from tabulated import each_row

from ldpbayes import Collection, Tally, fit, read, select_method, simulate
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.methods.base import Watch
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.nuts import NUTS
from ldpbayes.methods.pair_slice import PairSlice
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Attributes, FakeData, SampledAttribute, kronecker
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.designs import crosswise
from ldpbayes.protocols.local_hashing import PooledHashing
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.long

DATA = pathlib.Path(__file__).parents[2] / "data"
ROUTES = ("rows", "quadratic")


def collected(protocol, n, seed):
    """Return a collection of n users with a Zipf distribution."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, protocol.n_categories + 1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])


def draws_of(tree, name="distribution"):
    return tree["posterior"][name].values


def errors(draws, expected, moment="mean"):
    """Return (moment of the draws − expected) in Monte Carlo standard errors."""
    some = np.moveaxis(draws, -1, 0)
    found = {"mean": some.mean, "sd": some.std}[moment](axis=(1, 2))
    return (found - expected) / array_stats.mcse(some, method=moment)


TABLES = {
    "one attribute each": (SampledAttribute(4, 2.0, [2, 2], "grr"), "rows", 0.5),
    "both, on the quadratic": (Attributes.split([2, 2], 2.0, "grr"), "quadratic", 0.5),
    "beside fake data, unequal": (FakeData(4, 2.0, [2, 2], "grr", "uniform"), "rows", [2.0, 0.4, 1.0, 0.5]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_rectangles_in_a_table_of_attributes_keep_the_posterior(name):
    protocol, route, alpha = TABLES[name]
    collection, prior = collected(protocol, 300, seed=3), Dirichlet(np.broadcast_to(alpha, 4))
    exact = fit(collection, prior, Quadrature(draws=2), random_seed=1, estimates=False)["exact"]
    tree = fit(collection, prior, PairSlice(thin=3, route=route), random_seed=2, estimates=False)
    for moment in ("mean", "sd"):
        assert np.abs(errors(draws_of(tree), exact[f"distribution_{moment}"].values, moment)).max() < 4.5


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_margins_that_many_reports_fix_do_not_hold_the_chains():
    """Setting 57 of benchmarks/small_settings.py: weights are rejected, and pairs alone had an R-hat of 1.1."""
    protocol = FakeData(44, 3.0, [2, 22], "grr", "uniform")
    collection = simulate(np.random.default_rng(1).dirichlet(np.ones(44)), protocol, 54_000, random_seed=1)
    assert select_method(collection, "jeffreys").method.name == "surrogate"
    handed = fit(collection, "jeffreys", random_seed=1, estimates=False)
    assert handed.attrs["method"] == "pair_slice" and handed.attrs["converged"] and "surrogate" in handed.attrs["reason"]
    tree = fit(collection, "jeffreys", PairSlice(draws=500, tune=500, thin=3), random_seed=1, estimates=False)
    assert facts_of(tree)["worst_r_hat"] < 1.05 and facts_of(tree)["least_ess"] > 200  # pairs alone: 2.0 and 6
    one, other = (result["summary"].sel(target="distribution") for result in (handed, tree))
    assert (np.abs(one["mean"] - other["mean"]) < 4.5 * np.hypot(one["mcse"], other["mcse"])).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("alpha", [0.5, pytest.param(1.0, marks=pytest.mark.calibrate), "unequal"])
def test_moments_against_the_exact_posterior(route, alpha):
    prior = Dirichlet(np.linspace(0.3, 3, 8) if alpha == "unequal" else np.full(8, alpha))
    collection = collected(GRR(8, 1.0), 2000, seed=3)
    exact = fit(collection, prior, Exact(), random_seed=1, estimates=False)["exact"]
    tree = fit(collection, prior, PairSlice(route=route), random_seed=2, estimates=False)
    for name in ("distribution", "frequency"):
        for moment in ("mean", "sd"):
            assert np.abs(errors(draws_of(tree, name), exact[f"{name}_{moment}"].values, moment)).max() < 4.5
    assert facts_of(tree)["route"] == route
    assert (facts_of(tree)["acceptance"] == 1) == (route == "rows")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", ROUTES)
def test_two_attributes_against_quadrature(route):
    collection = collected(kronecker([crosswise(0.8), crosswise(0.25)]), 400, seed=5)
    exact = fit(collection, "jeffreys", Quadrature(), random_seed=1, estimates=False)["exact"]
    draws = draws_of(fit(collection, "jeffreys", PairSlice(route=route), random_seed=2, estimates=False))
    assert np.abs(errors(draws, exact["distribution_mean"].values)).max() < 4
    assert np.abs(errors(draws, exact["distribution_sd"].values, "sd")).max() < 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("alpha", [0.2, 0.5, 4.0])
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_reports_that_say_nothing_leave_the_prior(route, alpha):
    """Margins are Beta(α, (a − 1) α) to the ends, where Jeffreys' density is infinite."""
    silent = Channel(np.full((2, 5), 0.5))
    collection = Collection(list("abcde"), [Tally(silent, [0, 1], [3, 4])])
    draws = draws_of(fit(collection, alpha, PairSlice(route=route, thin=20), random_seed=2, estimates=False)).reshape(-1, 5)
    for x in range(5):
        assert stats.kstest(draws[::2, x], stats.beta(alpha, 4 * alpha).cdf).pvalue > 1e-3


def test_reports_that_tell_all_leave_conjugate_draws():
    """Direct answers: Dirichlet(α + counts), rows full of zeros."""
    collection = Collection(list("abc"), [Tally(Channel(np.eye(3)), [0, 1, 2], [50, 7, 1])])
    draws = draws_of(fit(collection, "jeffreys", PairSlice(), random_seed=1, estimates=False))
    assert np.abs(errors(draws, np.array([50.5, 7.5, 1.5]) / 59.5)).max() < 4


@pytest.mark.calibrate
def test_quadratic_against_the_rows_where_both_serve():
    collection = collected(UnaryEncoding.optimized(8, 1.0), 500, seed=4)
    by_rows = draws_of(fit(collection, "jeffreys", PairSlice(route="rows", thin=1), random_seed=1, estimates=False))
    tree = fit(collection, "jeffreys", PairSlice(route="quadratic"), random_seed=2, estimates=False)
    assert facts_of(tree)["acceptance"] > 0.8
    error = array_stats.mcse(np.moveaxis(by_rows, -1, 0), method="mean")
    other = array_stats.mcse(np.moveaxis(draws_of(tree), -1, 0), method="mean")
    difference = by_rows.mean(axis=(0, 1)) - draws_of(tree).mean(axis=(0, 1))
    assert np.abs(difference / np.hypot(error, other)).max() < 4.5


@pytest.mark.calibrate  # several seconds
def test_four_items_at_once_against_nuts():
    collection = read(DATA / "rr_wada_forum_joint.toml")
    nuts = draws_of(fit(collection, "jeffreys", NUTS(), random_seed=1, estimates=False))
    draws = draws_of(fit(collection, "jeffreys", PairSlice(), random_seed=2, estimates=False))
    spread = array_stats.mcse(np.moveaxis(nuts, -1, 0), method="mean")
    own = array_stats.mcse(np.moveaxis(draws, -1, 0), method="mean")
    assert np.abs((draws.mean(axis=(0, 1)) - nuts.mean(axis=(0, 1))) / np.hypot(spread, own)).max() < 4


@pytest.mark.calibrate
def test_auto_answers_four_items_without_nuts(monkeypatch):
    monkeypatch.setattr(NUTS, "run", lambda *_, **__: pytest.fail("handed over to NUTS"))
    tree = fit(read(DATA / "rr_wada_forum_joint.toml"), draws=400, random_seed=1, estimates=False)
    assert tree.attrs["method"] == "pair_slice" and tree.attrs["converged"]


@pytest.mark.calibrate  # several seconds
def test_auto_answers_counts_of_bits_without_nuts(monkeypatch):
    monkeypatch.setattr(NUTS, "run", lambda *_, **__: pytest.fail("handed over to NUTS"))
    with pytest.warns(match="bit counts"):
        bits = read(DATA / "rappor" / "rappor_demo.toml")
    tree = fit(bits, random_seed=1, draws=600, estimates=False)
    assert tree.attrs["method"] == "pair_slice" and tree.attrs["converged"]
    assert facts_of(tree)["route"] == "quadratic" and facts_of(tree)["acceptance"] > 0.99


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_seed_reproduces():
    collection = collected(UnaryEncoding.optimized(6, 1.0), 100, seed=1)
    for route in ROUTES:
        method = PairSlice(draws=50, chains=2, tune=100, route=route)
        first, second = (fit(collection, "flat", method, random_seed=5, estimates=False) for _ in range(2))
        assert np.array_equal(draws_of(first), draws_of(second))
        assert np.array_equal(draws_of(first, "frequency"), draws_of(second, "frequency"))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_interruption_keeps_what_is_finished(route, monkeypatch):
    def interrupted(where, items, description, *_):
        if description != where:
            yield from items
            return
        yield from range(30)
        raise KeyboardInterrupt

    collection = collected(GRR(4, 1.0), 100, seed=1)
    method = PairSlice(draws=50, chains=2, tune=100, route=route)
    monkeypatch.setattr(Watch, "track", lambda _, *items, **_settings: interrupted("Pair slices", *items))
    tree = fit(collection, "flat", method, random_seed=1, estimates=False)
    assert draws_of(tree).shape == (2, 30, 4)
    assert facts_of(tree)["problem"] == "sampling was interrupted after 30 of 50 draws"
    monkeypatch.setattr(Watch, "track", lambda _, *items, **_settings: interrupted("Settling of pair slices", *items))
    with pytest.raises(KeyboardInterrupt):
        fit(collection, "flat", method, random_seed=1, estimates=False)


def test_chains_that_are_short_of_draws_go_on():
    """A pool of few seeds: categories that share hashes are correlated, and R-hat of 200 sweeps is above its limit."""
    collection = collected(PooledHashing(40, seeds=48, epsilon=0.5), 3000, seed=1)
    result = fit(collection, "jeffreys", PairSlice(thin=1, draws=200, tune=200), estimates=False, random_seed=1)
    assert result.attrs["converged"] and facts_of(result)["thinned"] > 1 and draws_of(result).shape == (4, 200, 40)
    assert result["sample_stats"]["accepted"].shape == (4, 200)


def test_refusals():
    collection = collected(GRR(4, 1.0), 100, seed=1)
    with pytest.raises(InfeasibleError, match=r"concentration.*0\.2, got 0\.1"):
        fit(collection, 0.1, PairSlice(), estimates=False)
    large = collected(GRR(5000, 1.0), 100, seed=1)
    assert "4096 categories" in PairSlice(route="quadratic").feasibility(large, "flat").reason
    with pytest.raises(InfeasibleError, match=r"1e\+06 operations"):
        fit(collection, "flat", PairSlice(max_work=1e6), estimates=False)


@each_row(
    "settings, message",
    [
        ({"draws": 0}, "draws must.*1"),
        ({"tune": 99}, "tune must.*100"),
        ({"thin": 0}, "thin must.*1"),
        ({"route": "columns"}, "route must"),
    ],
)
def test_settings_are_validated(settings, message):
    with pytest.raises(ArgumentError, match=message):
        PairSlice(**settings)


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_a_poor_quadratic_is_not_trusted():
    """Few reports at a high level are far from quadratic: rows agree with the exact sd, the quadratic says it is lost."""
    rng = np.random.default_rng(5)
    tallies = [
        Tally(GRR(4, epsilon), *GRR(4, epsilon).simulate(truth, rng), name)
        for name, epsilon, truth in (("weak", 0.5, [8, 4, 2, 1]), ("strong", 3.0, [8, 5, 2, 1]))
    ]
    collection = Collection(list("abcd"), tallies)
    sd = Exact().moments(collection, "jeffreys").sd
    settings = {"draws": 2000, "chains": 4, "thin": 4}
    rows = fit(collection, Dirichlet.jeffreys(4), PairSlice(route="rows", **settings), random_seed=3, estimates=False)
    assert np.abs(rows["posterior"]["distribution"].values.std(axis=(0, 1)) / sd - 1).max() < 0.05
    poor = fit(collection, Dirichlet.jeffreys(4), PairSlice(route="quadratic", **settings), random_seed=3, estimates=False)
    assert "accepts" in facts_of(poor)["problem"]
