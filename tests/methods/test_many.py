"""Many cells in vectorized calls against one at a time; results without draws, and what they refuse."""

import numpy as np
import pytest
from conditioned import Alone

from ldpbayes import Cells, Collection, Tally, answers, fit, load, result, save, simulate
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError
from ldpbayes.likelihoods import Summary
from ldpbayes.methods.conditioned_product import ConditionedProduct, PowerFactors
from ldpbayes.methods.exact import ExactMoments
from ldpbayes.methods.expanded import ExpandedFactors
from ldpbayes.methods.many import undrawn
from ldpbayes.methods.problem import Problem
from ldpbayes.pages import show
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import HadamardResponse, LocalHashing, UnaryEncoding
from ldpbayes.protocols.designs import warner
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.local_hashing import PooledHashing
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.long

LEVELS = (0.025, 0.5, 0.975)


def counted(size, seed=1, n=2000):
    rng = np.random.default_rng(seed)
    protocol = GRR(size, 1.0)
    p = rng.dirichlet(np.ones(size))
    return Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))


@pytest.fixture(scope="module")
def cells():
    found = {k: Collection([f"c{x}" for x in range(12)], [counted(12, k, n)]) for k, n in enumerate((80, 900, 40_000))}
    return Cells(found, by="day")


@pytest.mark.parametrize(
    ("kind", "size", "alpha"), [("powers", 2, 0.5), ("powers", 2, 0.01), ("powers", 5, 0.5), ("gaussians", 8, 0.5)]
)
def test_batches_are_what_one_set_at_a_time_gives(size, kind, alpha):
    rng = np.random.default_rng(size)
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.ones(size))) for n in (300, 3000, 90_000)]).astype(float)
    if kind == "powers":
        family = PowerFactors(np.full(3 * size, alpha), np.full((3 * size, 1), 1.7), counts.reshape(-1, 1))
    else:
        family = ExpandedFactors(np.full(3 * size, alpha), 0.3 * counts.ravel(), np.repeat(0.3 * counts.sum(axis=1), size))
    found = ConditionedProduct(family, np.arange(size), sets=3)
    for i in range(3):
        if found.rough[i]:
            continue
        one = Alone(family.take(slice(i * size, (i + 1) * size)), np.arange(size))
        sd = np.sqrt(one.variance)
        assert (np.abs(found.mean[i] - one.mean) < 1e-8 * sd).all()
        np.testing.assert_allclose(found.variance[i], one.variance, rtol=1e-7)
        assert (np.abs(found.covariance()[i] - one.covariance()) < 1e-7 * np.outer(sd, sd)).all()
        assert found.log_evidence[i] == pytest.approx(one.log_evidence, abs=1e-7)
        assert (np.abs(found.quantile(LEVELS)[:, i] - one.quantile(LEVELS)) < 2e-4 * sd).all()
    assert found.rough.sum() <= 1


def test_sets_with_a_window_too_long_for_the_nodes_are_worked_on_by_counts():
    """Small concentrations and strong data: the densities reach down to e^-1500, and the means of too few nodes miss one."""
    hit, other = GRR(20, 4.0).hit_rates
    counts = np.random.default_rng(0).multinomial(1000, np.full(20, 0.05)).astype(float)
    for alpha in (0.015, 0.03):
        family = PowerFactors(np.full(20, alpha), np.full((20, 1), hit / other - 1), counts[:, None])
        found, one = ConditionedProduct(family, np.arange(20), sets=1), Alone(family, np.arange(20))
        assert not found.rough[0]
        assert found.log_evidence[0] == pytest.approx(one.log_evidence, abs=1e-7)
        np.testing.assert_allclose(found.mean[0], one.mean, rtol=1e-9)
        assert (np.abs(found.quantile(LEVELS)[:, 0] - one.quantile(LEVELS)) < 2e-4 * np.sqrt(one.variance)).all()


def test_sets_whose_transforms_do_not_die_out_have_the_saddle_point():
    found = ConditionedProduct(ExpandedFactors(np.full(6, 0.01), np.zeros(6), np.full(6, 2.0)), np.arange(3), sets=2)
    assert found.rough.all() and np.isfinite(found.quantile(LEVELS)).all()
    np.testing.assert_allclose(found.mean, 1 / 3, rtol=1e-6)


def test_cells_without_draws_are_those_of_single_fits(cells):
    tree = fit(cells, "flat", draws=0, random_seed=1, ci_prob=0.9)
    assert "asked for" in tree.attrs["reason"] and tree.attrs["draws"] == "none"
    assert tree["summary"]["mean"].dims == ("target", "cell", "category")
    for i, cell in enumerate(cells.values()):
        known = ExactMoments(cell.rows, Dirichlet.flat(12))
        exact = tree["exact"].isel(cell=i)
        for name, value in {
            "distribution_mean": known.mean,
            "distribution_sd": known.sd,
            "frequency_mean": known.frequency_mean,
            "frequency_sd": known.frequency_sd,
            "log_evidence": known.log_evidence,
        }.items():
            np.testing.assert_allclose(exact[name], value, rtol=1e-9)
        np.testing.assert_allclose(
            [exact["distribution_lower"], exact["distribution_upper"]], known.interval(0.9), atol=1e-6
        )
    frequency = tree["summary"].sel(target="frequency")
    assert (frequency["lower"] <= frequency["mean"]).all() and (frequency["mean"] <= frequency["upper"]).all()
    assert set(tree["cells"]["method"].values) == {"exact"}


@pytest.mark.calibrate
def test_one_hyperparameter_of_all_cells(cells):
    """Against the engine that works on one cell after the other."""
    some = cells.take([1])
    out, *_, nodes = undrawn([Problem.of(cell, "learnt") for cell in some.collections()], (0.025, 0.975), labels=some.labels)
    known = fit(cells[1], "learnt", draws=0)["exact"]
    assert nodes.log_evidence == pytest.approx(float(known["log_evidence"]), abs=1e-6)
    for name in ("distribution_mean", "distribution_sd", "frequency_sd"):
        np.testing.assert_allclose(out[name][0], known[name], rtol=1e-6)
    assert (
        (out["distribution_lower"] < out["distribution_mean"]) & (out["distribution_mean"] < out["distribution_upper"])
    ).all()


def test_summaries_without_draws():
    rng = np.random.default_rng(1)
    protocol = UnaryEncoding.optimized(8, 1.0)
    rows = Tally(protocol, *protocol.simulate(rng.multinomial(4000, np.full(8, 1 / 8)), rng)).rows
    summary = Summary.of(rows, np.full(8, 1 / 8))
    kept = Cells({"x": summary, "y": summary + summary}, categories=[*"abcdefgh"])
    tree = fit(kept, "jeffreys", draws=0)
    alone = fit(summary, "jeffreys", random_seed=1, draws=50)
    for name in ("mean", "sd", "lower", "upper"):
        found, known = tree["summary"][name].sel(cell="x"), alone["summary"][name]
        np.testing.assert_allclose(found.sel(target="distribution"), known.sel(target="distribution"), atol=1e-6)
    assert tree.attrs["method"] == "surrogate" and facts_of(tree)["predicted_error"] < 0.1
    far = Summary.of(rows, np.r_[0.65, np.full(7, 0.05)])
    both = Cells({"x": far, "y": summary}, categories=[*"abcdefgh"])
    for prior, settings in (("jeffreys", {"draws": 0}), ("learnt", {"draws": 0}), ("learnt", {"draws": 50})):
        with pytest.warns(DiagnosticWarning, match=r"1 of 2.*x:.*summary"):
            tree = fit(both, prior, random_seed=1, **settings)
        assert tree["summary"]["cell"].values.tolist() == ["y"] and "left_out" in tree.attrs
    with pytest.raises(InfeasibleError, match=r"summary.*cell x.*stand"):
        fit(both.take(["x"]), "jeffreys", draws=0)


def test_too_many_draws_give_way_to_moments(cells, monkeypatch):
    monkeypatch.setattr("ldpbayes.road.request.MAX_DRAWN", 1e4)
    tree = fit(cells, "jeffreys")
    assert tree.attrs["draws"] == "none" and "vectorized" in tree.attrs["reason"]
    monkeypatch.setattr("ldpbayes.methods.many.Cost.mixed", lambda *_: 1e6)
    monkeypatch.setattr("ldpbayes.road.ruling.default_prior", lambda size: "learnt")
    assert "take about" in fit(cells).attrs["prior_reason"]
    one = fit(cells.take([1]), "jeffreys", draws=50, random_seed=1, estimates=False)  # draws of named cells on demand
    np.testing.assert_allclose(one["summary"]["mean"].isel(cell=0), tree["summary"]["mean"].isel(cell=1), rtol=1e-9)


def test_results_without_draws_are_saved_shown_and_asked(cells, tmp_path):
    tree = fit(cells, "jeffreys", draws=0)
    save(tree, tmp_path / "cells.nc")
    again = load(tmp_path / "cells.nc")
    np.testing.assert_array_equal(again["summary"]["mean"], tree["summary"]["mean"])
    assert result.select(again, "1")["summary"]["mean"].dims == ("target", "category")
    assert "c0" in str(show(tree, collection=cells).tables[0].rows)
    single = fit(cells[2], "jeffreys", draws=0)
    assert show(single, collection=cells[2]).figures
    for ask in (
        lambda: answers.entropy(single),
        lambda: answers.entropy(again, cell="1"),
    ):
        with pytest.raises(ArgumentError, match="needs draws"):
            ask()
    known, found = single["exact"], answers.contrast(single, "c0", "c1")
    assert float(found["mean"]) == pytest.approx(
        float(known["distribution_mean"].values @ np.r_[1, -1, np.zeros(10)]), abs=1e-12
    )
    with pytest.raises(ArgumentError, match="needs draws"):
        single.extend("log_likelihood", collection=cells[2])


def test_what_cannot_be_done_without_draws(cells):
    for prior in ("smooth", "hierarchical"):
        with pytest.raises(InfeasibleError, match="Dirichlet prior"):
            fit(cells, prior, draws=0)
    with pytest.raises(ArgumentError, match="keys must"):
        cells.take(["nowhere"])
    assert ExactMoments(cells[1].rows, Dirichlet.flat(12)).mean.sum() == pytest.approx(1)


def test_two_categories_are_one_dimensional():
    tallies = [Tally(warner(0.7), [0, 1], counts) for counts in ([60, 40], [3, 0], [9000, 21_000])]
    tree = fit(Cells({i: Collection(["no", "yes"], [one]) for i, one in enumerate(tallies)}), "flat", draws=0)
    for i, one in enumerate(tallies):
        known = ExactMoments(one.rows, Dirichlet.flat(2))
        np.testing.assert_allclose(tree["exact"]["distribution_mean"][i], known.mean, rtol=1e-8)
        np.testing.assert_allclose(tree["exact"]["distribution_lower"][i], known.interval()[0], atol=1e-6)
        assert float(tree["exact"]["log_evidence"][i]) == pytest.approx(known.log_evidence, abs=1e-7)


def test_large_alphabets_have_moments_and_the_largest_categories():
    """Eight thousand categories: distinct counts are worked on once, labels and numbers are arrays, no draw is made."""
    size, n = 8_000, 200_000
    rng = np.random.default_rng(1)
    p = 1 / np.arange(1.0, size + 1)
    truth = rng.multinomial(n, p / p.sum())
    protocol = GRR(size, 9.0)
    collection = Collection([f"c{x}" for x in range(size)], [Tally(protocol, *protocol.simulate(truth, rng))])
    tree = fit(collection, draws=0, random_seed=1)
    assert tree.attrs["method"] == "exact" and "learnt" in tree.attrs["prior_reason"]
    summary = tree["summary"].sel(target="frequency")
    inside = ((truth + 0.5) / n >= summary["lower"]) & (truth / n <= summary["upper"])
    assert float(inside.mean()) > 0.9 and abs(float(summary["mean"].sum()) - 1) < 1e-6
    table = show(tree, top=5, collection=collection).tables[0]
    means = [row[1] for row in table.rows]
    assert len(table.rows) == 5 and means == sorted(means, reverse=True) and table.rows[0][0] == "c0"
    exact = fit(collection, "jeffreys", draws=0)
    assert not tree.attrs["prior_decides"]
    weak = Collection([str(x) for x in range(500)], [Tally(GRR(500, 1.0), np.arange(500), np.full(500, 2))])
    assert "twice its" in fit(weak, "jeffreys", draws=0).attrs["decides"]
    known = ExactMoments(collection.rows, Dirichlet.jeffreys(size))
    np.testing.assert_allclose(exact["exact"]["distribution_mean"], known.mean, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:The independent priors")
@pytest.mark.parametrize("prior", ["jeffreys", "learnt"])
def test_sums_and_contrasts_in_and_between_cells_need_no_draws(cells, prior):
    few = cells.take([0, 1])
    drawn, tree = fit(few, prior, random_seed=1, estimates=False), fit(few, prior, draws=0, random_seed=1)
    asked = [("c0", ["c1", "c2"], {"cell": "1"})]
    if prior == "jeffreys":
        asked.append((["c0", "c3"], "c1", {"cell": "0", "other_cell": "1"}))
    else:  # cells share what the prior learns
        with pytest.raises(ArgumentError, match="needs draws"):
            answers.contrast(tree, "c0", "c0", cell="0", other_cell="1")
    for first, second, where in asked:
        known, found = (answers.contrast(one, first, second, **where) for one in (drawn, tree))
        sd = float(found["sd"])
        assert abs(float(known["mean"] - found["mean"])) < 5 * float(known["mcse"])
        assert float(known["sd"]) == pytest.approx(sd, rel=0.06)
        for end in ("lower", "upper"):
            off = float(known[f"{end}_error"]) * 5 + float(found[f"{end}_error"])
            assert abs(float(known[end] - found[end])) < off
    if prior == "learnt":
        with pytest.raises(ArgumentError, match="needs draws"):
            answers.poststratify(tree, [1, 3])
        return
    for target in ("distribution", "frequency"):
        known, found = (answers.poststratify(one, [1, 3], target=target) for one in (drawn, tree))
        assert (np.abs(known["mean"] - found["mean"]) < 5 * known["mcse"]).all()
        np.testing.assert_allclose(known["sd"], found["sd"], rtol=0.06)
        for end in ("lower", "upper"):
            assert (np.abs(known[end] - found[end]) < 5 * known[f"{end}_error"] + found[f"{end}_error"]).all()


@pytest.mark.calibrate
@pytest.mark.parametrize("kind", [UnaryEncoding.optimized, LocalHashing, HadamardResponse])
@pytest.mark.parametrize("prior", ["jeffreys", "learnt"])
def test_other_reports_without_draws_are_expanded(prior, kind):
    """Against weighted draws of the full likelihood; the test below is that of the quantiles by the saddle point."""
    rng = np.random.default_rng(2)
    protocol = kind(40, 1.5)
    p = 1 / np.arange(1.0, 41)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(3000, p / p.sum()), rng))
    collection = Collection([str(x) for x in range(40)], [tally])
    tree = fit(collection, prior, draws=0)
    known = fit(collection, prior, "surrogate", random_seed=1, estimates=False)
    for target in ("distribution", "frequency"):
        ours, theirs = (one["summary"].sel(target=target) for one in (tree, known))
        sd = theirs["sd"].values
        assert (np.abs(ours["mean"] - theirs["mean"]) < 0.15 * sd).all()
        np.testing.assert_allclose(ours["sd"], sd, rtol=0.12)
        for end in ("lower", "upper"):
            noise = np.hypot(ours[f"{end}_error"], theirs[f"{end}_error"])  # ours are of draws where an expansion is refused
            assert (np.abs(ours[end] - theirs[end]) < 0.35 * sd + 3 * noise).all()


@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 2000), (5.0, 300)], ids=["noise decides", "values nearly given away"])
def test_intervals_of_the_users_shares_without_draws(epsilon, n):
    """Against exact draws of F. With noise a beta distribution would be off by half a sd where a share may be zero."""
    rng, labels = np.random.default_rng(3), [*"abcdefghijkl"]
    protocol = GRR(12, epsilon)
    truth = rng.multinomial(n, rng.dirichlet(np.full(12, 0.5)))
    collection = Collection(labels, [Tally(protocol, *protocol.simulate(truth, rng))])
    tree = fit(collection, "jeffreys", draws=0)
    known = fit(collection, "jeffreys", "exact", random_seed=1)
    shown = tree["summary"].sel(target="frequency")
    draws = known["posterior"]["frequency"].values.reshape(-1, 12)
    level = (1 - tree["summary"].attrs["ci_prob"]) / 2
    sd = np.maximum(shown["sd"].values, 1 / n)
    for end, at in (("lower", level), ("upper", 1 - level)):
        exact = np.quantile(draws, at, axis=0, method="inverted_cdf")
        assert (np.abs(shown[end].values - exact) < 0.25 * sd + 1.01 / n).all()
        np.testing.assert_allclose(shown[end] * n, np.rint(shown[end] * n), atol=1e-6)


def test_quantiles_by_the_saddle_point():
    rng = np.random.default_rng(3)
    counts = rng.multinomial(4000, rng.dirichlet(np.ones(60)))
    family = ExpandedFactors(np.full(60, 0.5), 0.3 * counts, np.full(60, 0.3 * 4000))
    one = Alone(family, np.arange(60))
    found = Alone(family, np.arange(60), route="saddle point").quantile(LEVELS)
    assert (np.abs(found - one.quantile(LEVELS)) < 0.04 * np.sqrt(one.variance)).all()


def test_what_would_take_too_long_is_refused_with_the_predicted_time(monkeypatch):
    from ldpbayes.methods import many

    protocol = UnaryEncoding.optimized(40, 1.0)
    rng = np.random.default_rng(1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(300, np.ones(40) / 40), rng))
    monkeypatch.setattr(many, "LARGEST", 1e-9)
    with pytest.raises(InfeasibleError, match=r"1\.2e\+04 entries.*minutes.*GB"):
        fit(Collection([str(x) for x in range(40)], [tally]), draws=0)


def test_who_decides_is_told_where_the_transforms_of_a_part_do_not_die_out():
    """A default fit of hashes of a pool ended in a ConvergenceError: one factor of a cell had no margin of its own."""
    rng = np.random.default_rng([20, 91])
    a, n = int(rng.integers(2, 51)), round(np.exp(rng.uniform(np.log(50), np.log(1e5))))
    protocol = PooledHashing(a, float(np.exp(rng.uniform(np.log(0.2), np.log(6)))), seeds=4096)
    truth = rng.dirichlet(np.full(a, rng.choice([0.1, 1.0, 10.0])))
    found = fit(simulate(truth, protocol, n, random_seed=91), random_seed=1)
    summary = found["summary"].to_dataset().sel(target="distribution")
    assert found.attrs["converged"] and float((np.abs(summary["mean"] - truth) / summary["sd"]).max()) < 4
