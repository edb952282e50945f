import json
import math

import numpy as np
import pytest
from arviz_stats.base import array_stats

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.posteriors import augmentation
from ldpbayes.posteriors.augmentation import Augmentation
from ldpbayes.posteriors.base import Problem, Watch
from ldpbayes.posteriors.tally_states import TallyStates
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, Channel
from ldpbayes.protocols.hadamard import HadamardResponse


def survey(*parts):
    tallies = [Tally(p, np.arange(len(counts)), counts, name=f"c{i}") for i, (p, counts) in enumerate(parts)]
    return Collection([f"x{i}" for i in range(tallies[0].protocol.n_categories)], tallies)


def random_channel(seed, b, a):
    return Channel(np.random.default_rng(seed).dirichlet(np.ones(b), size=a).T)


SURVEYS = {
    "GRR": (survey((GRR(4, 2.0), [30, 12, 5, 3])), [0.5, 0.5, 0.5, 0.5]),
    "few users a row": (survey((random_channel(1, 12, 3), [1, 0, 3, 2, 4, 1, 5, 3, 2, 1, 3, 1])), [0.5, 1.0, 2.0]),
    "many users a row": (survey((random_channel(2, 4, 4), [25, 20, 25, 30])), [0.3, 0.5, 1.0, 1.5]),
    "rank-deficient": (survey((random_channel(3, 2, 3), [17, 25])), [0.5, 0.5, 0.5]),
    "negative slope": (survey((Channel([[0.9, 0.9, 0.2], [0.1, 0.1, 0.8]]), [20, 9])), [1.0, 1.0, 0.5]),
    "two channels": (survey((GRR(3, 1.0), [9, 4, 4]), (random_channel(4, 3, 3), [5, 8, 3])), [1.0, 1.0, 1.0]),
    "direct": (survey((Channel(np.eye(3)), [4, 0, 3])), [0.5, 0.5, 0.5]),
}


@pytest.mark.parametrize("name", SURVEYS)
def test_agrees_with_the_exact_posterior(name):
    collection, alpha = SURVEYS[name]
    prior = Dirichlet(alpha)
    tree = Augmentation(draws=3000, tune=200, thin=1).posterior(collection, prior, random_seed=11)
    exact = TallyStates(draws=10).posterior(collection, prior, random_seed=1)["exact"]
    for target in ("distribution", "frequency"):
        mean, sd = exact[f"{target}_mean"].values, exact[f"{target}_sd"].values
        for x, values in enumerate(np.moveaxis(tree["posterior"][target].values, -1, 0)):
            if sd[x] < 1e-12:
                np.testing.assert_allclose(values, mean[x], rtol=1e-12)
                continue
            assert array_stats.rhat(values, chain_axis=0, draw_axis=1) < 1.02
            error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
            assert abs(values.mean() - mean[x]) < 4 * error
            square = (values - mean[x]) ** 2
            error = array_stats.mcse(square, chain_axis=0, draw_axis=1, method="mean")
            assert abs(square.mean() - sd[x] ** 2) < 4 * error


def test_log_likelihood_and_shares_are_those_of_the_draws():
    for name in ("GRR", "few users a row", "two channels"):
        collection, alpha = SURVEYS[name]
        tree = Augmentation(draws=20, tune=5, chains=2).posterior(collection, Dirichlet(alpha), random_seed=3)
        stats = tree["sample_stats"]
        for c in range(2):
            expected = collection.rows.log_likelihood(tree["posterior"]["distribution"].values[c].T)
            np.testing.assert_allclose(stats["log_likelihood"].values[c], expected, rtol=1e-12)
        assert ((stats["signal_share"] >= 0) & (stats["signal_share"] <= 1)).all()
        whole = tree["posterior"]["frequency"].values * collection.n_reports
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-9)


def test_tiny_concentrations_do_not_break_the_dirichlet():
    draws = augmentation._dirichlet(np.full((4000, 3), 1e-3), np.random.default_rng(1))
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    assert np.abs(draws.mean(axis=0) - 1 / 3).max() < 4 * math.sqrt(2 / 9 / 4000)


def test_a_thousand_categories():
    counts = np.random.default_rng(2).multinomial(20_000, np.random.default_rng(3).dirichlet(np.full(1024, 0.5)))
    tree = Augmentation(draws=50, tune=50).posterior(
        survey((GRR(1024, 5.0), counts)), Dirichlet.jeffreys(1024), random_seed=1
    )
    np.testing.assert_allclose(tree["posterior"]["distribution"].sum("category"), 1, rtol=1e-12)
    assert "exact" not in tree.children and tree.attrs["interrupted"] == 0


def test_the_same_seed_gives_the_same_draws():
    collection, alpha = SURVEYS["few users a row"]
    first, second = (Augmentation(draws=20).posterior(collection, Dirichlet(alpha), random_seed=9) for _ in range(2))
    np.testing.assert_array_equal(first["posterior"]["distribution"], second["posterior"]["distribution"])
    assert json.loads(first.attrs["settings"])["random_seed"] == 9


@pytest.mark.parametrize("sweeps", [3, 17])
def test_interruption_keeps_the_finished_draws(monkeypatch, sweeps):
    def interrupted(_, items, *__, **___):
        for i in items:
            if i == sweeps:
                raise KeyboardInterrupt
            yield i

    monkeypatch.setattr(Watch, "track", interrupted)
    collection, alpha = SURVEYS["GRR"]
    method = Augmentation(draws=20, tune=5, thin=1)
    if sweeps < 5:
        with pytest.raises(KeyboardInterrupt):
            method.posterior(collection, Dirichlet(alpha), random_seed=1)
        return
    tree = method.posterior(collection, Dirichlet(alpha), random_seed=1)
    assert tree["posterior"].sizes["draw"] == 12
    assert tree.attrs["interrupted"] == 1
    assert tree.attrs["problem"] == "sampling was interrupted after 12 of 20 draws"


def test_thinning_spends_sweeps_to_make_draws_less_alike():
    collection, alpha = SURVEYS["many users a row"]
    effective = []
    for thin in (1, 10):
        tree = Augmentation(draws=300, tune=20, thin=thin).posterior(collection, Dirichlet(alpha), random_seed=2)
        assert tree.attrs["sweeps_per_draw"] == thin
        values = tree["posterior"]["distribution"].values[..., 0]
        effective.append(array_stats.ess(values, chain_axis=0, draw_axis=1))
    assert effective[1] > 2 * effective[0]


def test_sweeps_that_forget_slowly_are_known_before_they_are_made():
    """Twelve categories, 24,467 reports with ε = .38: ten sweeps a draw gave 170 effective draws of 4,000."""
    protocol = HadamardResponse(12, 0.38)
    reports, counts = protocol.simulate(np.arange(12) * 370 + 4, np.random.default_rng(1))
    problem = Problem.of(Collection(list("abcdefghijkl"), [Tally(protocol, reports, counts)]), "jeffreys")
    slow, method = Augmentation(draws=250, tune=50, thin=1), Augmentation()
    assert method.plan(problem).work > method.most
    worth = 1000 * augmentation._mixing(problem.rows, problem.alpha)
    values = slow.answer(problem, slow.plan(problem), random_seed=1, ci_prob=0.95).tree["posterior"]["distribution"].values
    least = min(array_stats.ess(one, chain_axis=0, draw_axis=1) for one in np.moveaxis(values, -1, 0))
    assert worth / 4 < least < 4 * worth


def test_a_progress_bar_changes_nothing(capsys):
    collection, alpha = SURVEYS["GRR"]
    method = Augmentation(draws=20, tune=5, thin=1)
    bare, barred = (method.posterior(collection, Dirichlet(alpha), random_seed=1, progressbar=bar) for bar in (False, True))
    np.testing.assert_array_equal(bare["posterior"]["distribution"], barred["posterior"]["distribution"])


def test_refuses_above_its_limit(monkeypatch):
    collection, alpha = SURVEYS["GRR"]
    assert Augmentation().feasibility(collection, Dirichlet(alpha)).feasible
    monkeypatch.setattr(augmentation, "MAX_WORK", 1e6)
    with pytest.raises(InfeasibleError, match=r"Gibbs sweeps must take at most 1e\+06 operations, got"):
        Augmentation().posterior(collection, Dirichlet(alpha))


def test_refuses_wrong_settings():
    for field, value in (("draws", 0), ("tune", -1), ("thin", 0), ("chains", 2.5)):
        with pytest.raises(ArgumentError, match=f"{field} must be"):
            Augmentation(**{field: value})
