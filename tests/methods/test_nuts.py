"""NUTS against references of another kind, reproducibility, and what it says of itself."""

import json
import subprocess
import sys

import numpy as np
import nutpie
import pytest
from arviz_stats.base import array_stats
from scipy import special, stats

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.collections import tensor
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.inference.nuts import finished
from ldpbayes.methods import NUTS, Exact, nuts
from ldpbayes.methods.frequency import frequency_moments
from ldpbayes.priors import Dirichlet, Learnt, Smooth
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.together("models")


def errors(tree, name, expected):
    """Return (posterior mean − expected) in Monte Carlo standard errors."""
    draws = tree["posterior"][name].values
    mcse = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean")
    return (draws.mean(axis=(0, 1)) - expected) / mcse


def convolved_mean(base, slope, counts, alpha):
    """Return E[P|Y] for the likelihood Π_x (base_x + slope_x p_x)^{s_x}, by convolution in k-space.

    k_x of the s_x reports are truthful: weights Π_x C(s_x, k_x) (slope_x p_x)^{k_x} base_x^{s_x − k_x}, Dirichlet in p. Each
    factor is tilted by t^{-k} so that the typical |k| is where the factors are large.
    """
    total, t = alpha.sum(), 1.0 + counts.sum()
    for _ in range(50):
        factors = [_factor(b, m, s, a, t) for b, m, s, a in zip(base, slope, counts, alpha, strict=True)]
        t = (t + total + sum((f * np.arange(f.size)).sum() for f in factors)) / 2
    factors = [_factor(b, m, s, a, t) for b, m, s, a in zip(base, slope, counts, alpha, strict=True)]

    def integral(factors, shift):
        product = np.ones(1)
        for factor in factors:
            product = np.convolve(product, factor)
        m = np.arange(product.size)
        peak = (m * np.log(t) - special.gammaln(total + m)).max()
        return (product * np.exp(m * np.log(t) - special.gammaln(total + m + shift) - peak)).sum()

    means = []
    for x in range(alpha.size):
        raised = [f * (alpha[x] + np.arange(f.size)) if y == x else f for y, f in enumerate(factors)]
        means.append(integral(raised, 1) / integral(factors, 0))
    return np.array(means)


def _factor(base, slope, count, alpha, t):
    k = np.arange(count + 1)
    log = special.gammaln(count + 1) - special.gammaln(k + 1) - special.gammaln(count - k + 1)
    log += special.gammaln(alpha + k) - special.gammaln(alpha) + special.xlogy(count - k, base) + k * np.log(slope / t)
    return special.softmax(log)


def reference_mean(collection, alpha):
    """Return the convolved mean of a collection whose channel is identity plus rank one."""
    tally = collection.tallies[0]
    channel = tally.protocol.channel()
    counts = np.bincount(tally.reports, tally.counts, len(channel)).astype(int)
    base = np.array([np.delete(row, x).max() for x, row in enumerate(channel)])
    return convolved_mean(base, channel.diagonal() - base, counts, alpha)


@pytest.mark.calibrate
def test_nigeria_agrees_with_quadrature(nigeria, nuts_nigeria):
    grid = np.linspace(0, 1, 20001)[1:-1]
    density = stats.binom.logpmf(831, 2435, 1 / 6 + 2 / 3 * grid)
    weight = np.exp(density - density.max())
    mean = (weight * grid).sum() / weight.sum()
    sd = np.sqrt((weight * (grid - mean) ** 2).sum() / weight.sum())
    assert np.abs(errors(nuts_nigeria, "distribution", [1 - mean, mean])).max() < 4
    assert nuts_nigeria["posterior"]["distribution"].values[..., 1].std() == pytest.approx(sd, rel=0.1)
    frequency, _ = frequency_moments(np.array([1 - mean, mean]), np.full(2, sd**2), np.ones(2), 2435)
    assert np.abs(errors(nuts_nigeria, "frequency", frequency)).max() < 4


#: Collections that NUTS has drawn from; that of two categories is a structure of its own, and a compilation.
DRAWN = [pytest.param("nigeria", marks=pytest.mark.calibrate), "eriksson", "grr10"]


@pytest.mark.parametrize("name", DRAWN)
def test_exact_agrees(name, request):
    collection, tree = request.getfixturevalue(name), request.getfixturevalue(f"nuts_{name}")
    exact = fit(collection, Dirichlet(tree["constant_data"]["alpha"].values), Exact(), random_seed=1, estimates=False)[
        "exact"
    ]
    assert np.abs(errors(tree, "distribution", exact["distribution_mean"].values)).max() < 4
    assert np.abs(errors(tree, "frequency", exact["frequency_mean"].values)).max() < 4


@pytest.mark.parametrize("name", ["eriksson", "grr10"])
def test_ten_categories_agree_with_the_convolution(name, request):
    collection, tree = request.getfixturevalue(name), request.getfixturevalue(f"nuts_{name}")
    mean = reference_mean(collection, np.full(10, 0.5))
    assert mean.sum() == pytest.approx(1, abs=1e-9)
    assert np.abs(errors(tree, "distribution", mean)).max() < 4
    frequency, _ = frequency_moments(mean, np.zeros(10), np.full(10, 0.5), collection.n_reports)
    assert np.abs(errors(tree, "frequency", frequency)).max() < 4


@pytest.mark.parametrize("name", DRAWN)
def test_chains_converge_without_divergences(name, request):
    tree = request.getfixturevalue(f"nuts_{name}")
    draws = tree["posterior"]["distribution"].values
    assert array_stats.rhat(draws, chain_axis=0, draw_axis=1).max() < 1.01
    assert array_stats.ess(draws, chain_axis=0, draw_axis=1).min() > 400
    assert not tree["sample_stats"]["diverging"].any()
    assert {"energy", "tree_depth", "step_size", "acceptance_rate"} <= set(tree["sample_stats"].data_vars)


@pytest.mark.calibrate  # compiles anew
def test_same_seed_same_draws_whatever_was_compiled_or_sampled_between(nigeria, nuts_nigeria, monkeypatch):
    def draws(method, seed):
        return fit(nigeria, "flat", method, random_seed=seed, estimates=False)["posterior"]

    first = nuts_nigeria["posterior"]
    assert not np.array_equal(first["distribution"], draws(NUTS(), 2)["distribution"])
    again = draws(NUTS(), 1)
    assert all(np.array_equal(first[name], again[name]) for name in ("distribution", "frequency"))
    monkeypatch.setattr(nuts, "_compiled", {})
    assert np.array_equal(first["distribution"], draws(NUTS(), 1)["distribution"])


def test_one_compilation_serves_every_collection_of_a_structure(nuts_eriksson, nuts_grr10, eriksson, monkeypatch):
    monkeypatch.setattr("nutpie.compile_pymc_model", lambda *_, **__: pytest.fail("compiled again"))
    alpha = np.linspace(0.5, 3, 10)
    tree = fit(eriksson, Dirichlet(alpha), NUTS(), random_seed=4, estimates=False)
    assert np.abs(errors(tree, "distribution", reference_mean(eriksson, alpha))).max() < 4


def test_settings_say_how_to_run_it_again(nuts_eriksson):
    settings = json.loads(nuts_eriksson.attrs["settings"])
    method = NUTS(**{k: v for k, v in settings.items() if k not in ("random_seed", "ci_prob")})
    assert method == NUTS() and settings["random_seed"] == 2
    assert nuts_eriksson.attrs["method"] == "nuts"


@pytest.mark.calibrate  # tests/test_engines_agree.py compares both forms for other protocols
@pytest.mark.parametrize("listed", [True, False], ids=["counts", "whole reports"])
def test_three_categories_agree_with_a_grid_whichever_way_they_are_observed(minarets, listed, monkeypatch):
    if not listed:
        monkeypatch.setattr("ldpbayes.collections.tensor.lists_reports", lambda tally: False)
    tree = fit(minarets, "flat", NUTS(), random_seed=5, estimates=False)
    step = (np.arange(400) + 0.5) / 400
    first, second = np.meshgrid(step, step)
    inside = first + second < 1
    p = np.stack([first[inside], second[inside], 1 - first[inside] - second[inside]])
    log = minarets.rows.log_likelihood(p)
    weight = np.exp(log - log.max())
    assert np.abs(errors(tree, "distribution", p @ weight / weight.sum())).max() < 4


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_interruption_keeps_what_the_chains_have_finished(eriksson, monkeypatch):
    def interrupted(*args, sample=nutpie.sample, **settings):
        tree = sample(*args, **settings)
        for chain, length in enumerate((80, 0, 70, 3) if settings["chains"] > 1 else ()):  # one chain tells the time
            tree["posterior"]["distribution"].values[chain, length:] = np.nan
        return tree

    monkeypatch.setattr("nutpie.sample", interrupted)
    tree = fit(eriksson, "jeffreys", NUTS(draws=100), random_seed=1, estimates=False)
    assert tree["posterior"]["distribution"].shape == (2, 70, 10) == (*tree["sample_stats"]["energy"].shape, 10)
    assert facts_of(tree)["problem"] == "sampling was interrupted and left 2 of 4 chains with 70 of 100 draws"
    with pytest.raises(KeyboardInterrupt):
        finished(np.full((4, 10, 2), np.nan))


@pytest.mark.parametrize("rate, length, expected", [(0.9, 100, [0.9, 0.99]), (0.995, 100, [0.995]), (0.9, 60, [0.9])])
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_chains_that_diverge_are_made_once_more_with_smaller_steps(eriksson, monkeypatch, rate, length, expected):
    """Not where steps were small, and not after an interruption."""
    rates = []

    def diverging(*args, sample=nutpie.sample, **settings):
        tree = sample(*args, **settings)
        if settings["chains"] == 1:  # which tells the time
            return tree
        rates.append(settings["target_accept"])
        tree["sample_stats"]["diverging"].values[0, 3] = len(rates) == 1
        tree["posterior"]["distribution"].values[:, length:] = np.nan
        return tree

    monkeypatch.setattr("nutpie.sample", diverging)
    tree = fit(eriksson, "jeffreys", NUTS(draws=100, target_accept=rate), random_seed=1, estimates=False)
    assert list(dict.fromkeys(rates)) == expected and facts_of(tree)["divergences"] == (len(expected) == 1)
    assert facts_of(tree).get("target_accept_used") == (expected[1] if len(expected) > 1 else None)


def test_too_many_entries_are_refused_before_anything_is_compiled(minarets, monkeypatch):
    monkeypatch.setattr(nuts, "MAX_ENTRIES", 3)
    assert not NUTS().feasibility(minarets, "flat").feasible
    with pytest.raises(InfeasibleError, match=r"NUTS.*3"):
        fit(minarets, "flat", NUTS(), estimates=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 0}, "draws must.*4"),
        ({"chains": 1.5}, "chains must"),
        ({"target_accept": 1.0}, "target_accept must"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ArgumentError, match=message):
        NUTS(**settings)


@pytest.mark.parametrize("seed", [-1, True, "one"])
def test_invalid_seed_is_refused(nigeria, seed):
    with pytest.raises(ArgumentError, match=r"random_seed must.*0"):
        fit(nigeria, "flat", NUTS(), random_seed=seed, estimates=False)


def test_asking_for_feasibility_loads_no_pymc():
    code = (
        "import sys; from ldpbayes import GRR, Collection, Tally; from ldpbayes.methods import NUTS;"
        "NUTS().feasibility(Collection(['a', 'b'], Tally(GRR(2, 1.0), [0, 1])), 'flat');"
        "assert not {'pymc', 'nutpie', 'pytensor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "one, other",
    [
        (Learnt(n_categories=3), Learnt(median=5.0, n_categories=3)),
        (Smooth(n_categories=3), Smooth(rate=100.0, local=0.01, n_categories=3)),
        (Smooth(n_categories=3), Smooth(degrees=1.0, n_categories=3)),
    ],
)
def test_a_compiled_model_is_not_used_under_another_prior(one, other):
    """Settings of priors are constants of the graph: the draws of the second fit were once those under the first prior."""
    collection = Collection(["a", "b", "c"], Tally(GRR(3, 1.0), [0, 1, 2], [30, 20, 10]))
    more = Collection(["a", "b", "c"], Tally(GRR(3, 1.0), [0, 1, 2], [3, 2, 50]))
    models = [tensor.build(data, prior) for data, prior in ((collection, one), (more, one), (more, other))]
    keys = [nuts._structure(model) for model in models]
    assert keys[0] == keys[1] != keys[2]
