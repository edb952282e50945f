"""Another wave after a posterior: the expected error against regression and simulation, subsets, exact posteriors."""

import json

import numpy as np
import pytest
import xarray as xr
from commands import run
from scipy.stats import chi2

import ldpbayes as lb
from ldpbayes import Collection, Tally, planning
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.methods.exact import ExactMoments
from ldpbayes.planning import waves
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import GRR, RestrictedResponse, SubsetSelection

LABELS = tuple("abcdef")
SHARES = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])


@pytest.fixture(scope="module")
def first():
    rng = np.random.default_rng(1)
    reports = GRR(6, 1.0).privatize(rng.choice(6, 600, p=SHARES), rng)
    return lb.fit(Tally(GRR(6, 1.0), reports, categories=LABELS, name="first"), "flat", draws=1000, random_seed=2)


@pytest.mark.parametrize(
    "protocol", [GRR(6, 1.0), RestrictedResponse(6, 1.0, (0, 1)), RestrictedResponse(6, 2.0, (0, 1), 1.0)]
)
def test_the_expected_error_is_that_of_a_regression_on_the_counts(first, protocol):
    """Var(P | counts) of the linear regression, from the moments of P and the channel alone, also for one report."""
    draws = first["posterior"]["distribution"].values.reshape(-1, 6)
    mean, sigma = draws.mean(axis=0), np.cov(draws, rowvar=False)
    q = protocol.channel()
    for n in (1, 2, 50, 10_000):
        noise = (np.diag(q @ mean) - q @ (sigma + np.outer(mean, mean)) @ q.T) / n
        both = q @ sigma @ q.T + noise
        left = sigma - sigma @ q.T @ np.linalg.pinv(both, rcond=1e-11) @ q @ sigma
        found = waves.Belief(first).variances(protocol)(n)
        assert found.shape == (1 + waves.BATCHES, 6)
        np.testing.assert_allclose(found[0], np.diag(left), rtol=1e-6)


@pytest.mark.calibrate
def test_posterior_means_do_at_least_as_well_and_hardly_better():
    """The expected exact posterior variance of GRR, simulated, against what the plan says of one with these moments."""
    rng, protocol, prior = np.random.default_rng(3), GRR(3, 1.5), Dirichlet([4.0, 2.0, 1.0])
    draws = rng.dirichlet(prior.alpha, (4, 5000))
    coords = {"category": ["a", "b", "c"]}
    variables = {"distribution": (("chain", "draw", "category"), draws)}
    result = lb.fit(Tally(protocol, [0], [1], categories="abc"), "flat", draws=50, random_seed=1)
    result["posterior"] = xr.DataTree(xr.Dataset(variables, coords))
    predicted = lb.plan(after=result, n=150, epsilon=1.5, protocols="grr")[0]
    exact = []
    for p in draws[0, :200]:
        reports, counts = protocol.simulate(rng.multinomial(150, p), rng)
        seen = counts > 0
        exact.append(ExactMoments(protocol.rows(reports[seen], counts[seen]), prior).variance.sum())
    mean, error = np.mean(exact), np.std(exact) / np.sqrt(200)
    assert mean - 3 * error < predicted.error < 1.1 * mean
    assert predicted.before == pytest.approx((prior.mean * (1 - prior.mean)).sum() / (prior.total + 1), rel=0.05)


def test_a_plan_after_a_wave_inverts_itself_and_finds_the_best_restriction(first):
    for kind in ("l2", "half_width"):
        lines = lb.plan(after=first, n=700, epsilon=1.0, kind=kind)
        assert [line.error for line in lines] == sorted(line.error for line in lines)
        assert {line.protocol for line in lines} == {*planning.PROTOCOLS, "restricted_response"}
        for line in lines:
            assert line.direct_answers < line.error < line.before and 0 < line.standard_error < 0.1 * line.error
            again = lb.plan(
                after=first, error=line.error, epsilon=1.0, kind=kind, protocols={"x": lambda a, e, one=line: one.mechanism}
            )
            assert again[0].n == pytest.approx(700, rel=1e-6)
    best = next(line for line in lines if line.protocol == "restricted_response")
    assert best.subset == tuple(LABELS[x] for x in best.mechanism.subset) and set(best.subset) & {"a", "b"}
    others = [RestrictedResponse(6, 1.0, range(k), split) for k in range(1, 5) for split in (0.6, 0.8, 1.0)]
    options = {f"{i}": lambda a, e, one=one: one for i, one in enumerate(others)}
    rest = lb.plan(after=first, n=700, epsilon=1.0, kind="half_width", protocols=options)
    assert best.error <= min(line.error for line in rest) * (1 + 1e-9)
    assert "answers to S =" in lines.page().render("markdown")


def test_a_wave_of_protocols_that_fix_their_level_states_it(first):
    """Their tables and pages raised TypeError."""
    week = lb.protocols.MemoizedGRR.from_levels(6, 2.0, 1.0).spent(7)
    for protocol, level in (("grr:epsilon=2", 2.0), ("memoized_grr:epsilon_infinity=2,epsilon_one=1,times=7", week)):
        assert lb.plan(after=first, n=700, protocols=protocol).table()["epsilon"].tolist() == [level]
        assert lb.plan(after=first, error=1e-9, protocols=protocol).table()["users"][0] > 1e6
    (unmade,) = lb.plan(after=first, n=700, protocols="restricted_response:epsilon=1,subset=9")
    assert not unmade.feasible and np.isnan(unmade.epsilon)


def test_curves_go_on_after_a_wave(first):
    found = planning.curves("n", [100, 700], after=first, n_categories=6, epsilon=1.0, protocols=["subset"])
    assert found["subset"][1] == lb.plan(after=first, n=700, epsilon=1.0, protocols="subset")[0].error < found["subset"][0]
    assert np.isnan(found["bound"]).all() and (found["direct answers"] < found["subset"]).all()


def test_the_error_says_how_far_other_draws_would_move_it(first):
    draws = first["posterior"]["distribution"].values
    errors = []
    for part in np.array_split(draws, 4, axis=1):
        other = first.copy()
        coords = {"category": list(LABELS)}
        other["posterior"] = xr.DataTree(xr.Dataset({"distribution": (("chain", "draw", "category"), part)}, coords))
        errors.append(lb.plan(after=other, n=300, epsilon=1.0, protocols="subset")[0])
    spread = np.std([line.error for line in errors], ddof=1)
    assert spread / 4 < np.mean([line.standard_error for line in errors]) < 4 * spread


def ranks(replications, seed):
    """Return the ranks of the true share of the first category after a second wave restricted as the first advises."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(replications):
        p = rng.dirichlet(np.ones(4))
        waves_ = [Tally(GRR(4, 1.0), GRR(4, 1.0).privatize(rng.choice(4, 60, p=p), rng), categories="abcd", name="first")]
        result = lb.fit(waves_[0], "flat", draws=50, random_seed=int(rng.integers(2**31)))
        protocol = lb.plan(after=result, n=60, epsilon=1.0, protocols="restricted_response")[0].mechanism
        waves_.append(Tally(protocol, protocol.privatize(rng.choice(4, 60, p=p), rng), categories="abcd", name="second"))
        draws = lb.fit(Collection("abcd", waves_), "flat", draws=50, random_seed=int(rng.integers(2**31)))["posterior"]
        top = waves_[1].protocol.subset[0]
        found.append((draws["distribution"].values[..., top] < p[top]).mean())
    return np.array(found)


@pytest.mark.calibrate
def test_a_restriction_that_follows_the_first_wave_leaves_the_posterior_exact():
    found = ranks(8, 5)
    assert abs(found.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 8)


@pytest.mark.calibrate
def test_ranks_are_uniform_after_an_adaptive_wave():
    counts = np.bincount((ranks(400, 6) * 9.999).astype(int), minlength=10)
    assert ((counts - 40) ** 2 / 40).sum() < chi2.isf(1e-3, 9)


def test_what_a_next_wave_cannot_be_is_one_sentence(first):
    for settings, words in (
        ({"n": 100}, "must leave out exactly one"),
        ({"n": 100, "error": 0.1}, "leave out n or error"),
        ({"n": 100, "epsilon": 1.0, "p": "flat"}, "follow from the earlier wave"),
        ({"n": 100, "epsilon": 1.0, "n_categories": 5}, "after a wave of 6 categories"),
        ({"n": 100, "epsilon": 1.0, "cell": "x"}, "cell must name one of the populations"),
        ({"n": 100, "epsilon": 1.0, "protocols": "magic"}, "magic"),
    ):
        with pytest.raises(ArgumentError, match=words):
            lb.plan(after=first, **settings)
    with pytest.raises(InfeasibleError, match="another wave"):
        lb.plan(after=first, error=1.0, epsilon=1.0)
    with pytest.raises(ArgumentError, match="after must"):
        lb.plan(after="first.nc", n=10, epsilon=1.0)
    flat = lb.plan(after=first, error=1e-9, epsilon=1.0, protocols=["restricted_response:subset=1", "subset"])
    assert flat[0].protocol == "subset" and not flat[1].feasible and flat[1].note
    with pytest.raises(ArgumentError, match="draws"):
        lb.plan(after=lb.fit(Tally(GRR(3, 1.0), [0, 1, 2], categories="abc"), draws=0), n=10, epsilon=1.0)


def test_cells_are_planned_one_by_one():
    cells = lb.Cells({k: Collection("abc", Tally(GRR(3, 1.0), [0, 1], c)) for k, c in (("x", [50, 9]), ("y", [20, 70]))})
    result = lb.fit(cells, "flat", draws=100, random_seed=1)
    errors = [lb.plan(after=result, cell=cell, n=50, epsilon=1.0, protocols="subset")[0].error for cell in ("x", "y")]
    assert errors[0] != errors[1]
    with pytest.raises(ArgumentError, match="cell must"):
        lb.plan(after=result, n=50, epsilon=1.0)


def test_command_line(first, tmp_path, capsys):
    first.save(tmp_path / "first.nc")
    command = ("plan", "--after", tmp_path / "first.nc", "--epsilon", 1)
    status, out, _ = run(capsys, *command, "--users", 700, "--json")
    lines = lb.plan(after=first, n=700, epsilon=1.0)
    assert status == 0 and [one["error"] for one in json.loads(out)["plans"]] == pytest.approx([one.error for one in lines])
    status, out, _ = run(capsys, *command, "--error", lines[0].error, "--protocol", "subset", "-p", "size=1")
    assert status == 0 and "more reports" in " ".join(out.split())
    for wrong, words in (
        (("--users", 9, "--n-groups", 2), "after goes with"),
        (("--n-categories", 5, "--users", 9), "6 categories"),
    ):
        status, out, err = run(capsys, *command, "--users", 9, *wrong)
        assert status == 2 and not out and words in err
    assert SubsetSelection(6, 1.0).size == lb.plan(after=first, n=9, epsilon=1.0, protocols="subset")[0].mechanism.size
