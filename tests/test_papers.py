"""The papers at full size: the vectorized engine against other ways to the same numbers, pooling, and the stored results."""

import csv
import itertools
import math
import pathlib

import numpy as np
import pytest
from conditioned import Alone
from scipy.stats import t as student

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.postprocess import project_to_simplex, truncate_and_renormalize
from ldpbayes.fitting import fit
from ldpbayes.methods.conditioned_product import ConditionedProduct, PowerFactors
from ldpbayes.methods.exact import Exact
from ldpbayes.priors import as_prior
from ldpbayes.protocols.grr import GRR
from ldpbayes.theory.bounds import exact_bound
from studies import __main__ as command
from studies import figures, hashed, vectorized
from studies.common import POPULATIONS
from studies.evaluate import labels
from studies.pooled import LISTED, FullStudy, load, pooled, prediction, read, run_full
from studies.runner import run_study
from studies.tabulated import tabulate

pytestmark = pytest.mark.long

STORED = pathlib.Path(__file__).parents[1] / "docs" / "studies"


def grr_collection(tallies, epsilon):
    protocol = GRR(tallies.size, epsilon)
    return Collection(labels(tallies.size), Tally(protocol, protocol.all_reports(), tallies))


def some_tallies(a, n, epsilon, size, alpha=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return vectorized.grr_tallies(rng.multinomial(n, rng.dirichlet(np.full(a, alpha), size)), epsilon, rng)


# ---- many replications at once -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("a, n, epsilon, alpha", [(16, 100, 1.0, 1.0), (40, 30_000, 4.0, 0.5), (300, 10_000, 1.0, 0.5)])
def test_tables_of_shared_factors_agree_with_one_set_at_a_time(a, n, epsilon, alpha):
    tallies = some_tallies(a, n, epsilon, 6, alpha)
    beta = math.expm1(epsilon)

    def family(values):
        return PowerFactors(np.full(values.size, alpha), np.full((values.size, 1), beta), values[:, None].astype(float))

    values, index = np.unique(tallies, return_inverse=True)
    found = tabulate(family(values), index.reshape(tallies.shape))
    known = ConditionedProduct(family(tallies.ravel()), np.arange(a), sets=6)
    assert not found.rough.any()
    np.testing.assert_allclose(found.mean, known.mean, atol=1e-9 * np.sqrt(known.variance).max())
    np.testing.assert_allclose(found.variance, known.variance, rtol=1e-9)
    np.testing.assert_allclose(found.log_evidence, known.log_evidence, rtol=1e-10)


def test_sets_far_apart_have_tilts_of_their_own():
    """One set has all its reports in one category, another has them spread evenly."""
    tallies = np.array([[1000] + [0] * 19, [50] * 20, [500, 500] + [0] * 18])
    found = vectorized.grr_posterior(tallies, 3.0, 0.5)
    for row, mean, variance in zip(tallies, *found[:2], strict=True):
        known = Exact().moments(grr_collection(row, 3.0), as_prior("jeffreys", 20))
        np.testing.assert_allclose(mean, known.mean, rtol=1e-7)
        np.testing.assert_allclose(variance, known.variance, rtol=1e-6)


def test_transforms_that_do_not_die_out_are_of_second_order():
    """A small α: the saddle point, within a tenth of a posterior sd of the exact means."""
    tallies = some_tallies(30, 60, 1.0, 2, 0.1)
    values, index = np.unique(tallies, return_inverse=True)
    powers = values[:, None].astype(float)
    family = PowerFactors(np.full(values.size, 0.05), np.full(powers.shape, math.expm1(1.0)), powers)
    found = tabulate(family, index.reshape(tallies.shape))
    assert found.rough.all()
    for row, mean, evidence in zip(tallies, found.mean, found.log_evidence, strict=True):
        one = PowerFactors(np.full(30, 0.05), np.full((30, 1), math.expm1(1.0)), row[:, None].astype(float))
        known = Alone(one, np.arange(30))
        assert (np.abs(mean - known.mean) < 0.1 * np.sqrt(known.variance)).all()
        assert evidence == pytest.approx(known.log_evidence, abs=0.2)


def test_maximum_likelihood_and_projections_of_many():
    tallies = some_tallies(12, 60, 1.0, 30)
    oracle = vectorized.grr_oracle(tallies, 1.0)
    found = vectorized.grr_mle(tallies, 1.0), vectorized.project(oracle), vectorized.normalize(oracle)
    assert (found[0] == 0).any()
    for row, raw, mle, projected, normalized in zip(tallies, oracle, *found, strict=True):
        np.testing.assert_allclose(mle, MLE()(grr_collection(row, 1.0)).distribution, atol=1e-12)
        np.testing.assert_allclose(projected, project_to_simplex(raw), atol=1e-12)
        np.testing.assert_allclose(normalized, truncate_and_renormalize(raw), atol=1e-12)


@pytest.mark.parametrize(
    "a, n, epsilon", [(32, 100, 8.0), *(pytest.param(*case, marks=pytest.mark.calibrate) for case in [(40, 3000, 3.0)])]
)
def test_learnt_prior_of_many(a, n, epsilon):
    tallies = some_tallies(a, n, epsilon, 1, 0.3)
    mean, variance, frequency = vectorized.grr_learnt(tallies, epsilon)
    for row, own, spread, shares in zip(tallies, mean, variance, frequency, strict=True):
        exact = fit(grr_collection(row, epsilon), "learnt", draws=0)["exact"]
        known = {name: exact[name].values for name in ("distribution_mean", "distribution_sd", "frequency_mean")}
        assert (np.abs(own - known["distribution_mean"]) < 0.01 * known["distribution_sd"]).all()
        np.testing.assert_allclose(np.sqrt(spread), known["distribution_sd"], rtol=0.01)
        assert (np.abs(shares - known["frequency_mean"]) < 0.01 * known["distribution_sd"]).all()


# ---- hashed reports: mean and covariance by enumeration ------------------------------------------------------------------
@pytest.mark.parametrize("closed", [False, True])
def test_least_squares_of_randomized_response_by_enumeration(closed):
    p, k, cohorts, epsilon = np.array([0.4, 0.3, 0.2, 0.1]), 3, 3, 1.3
    places = hashed._places(cohorts, 4, k, 1, closed, np.random.default_rng(5))[:, 0]
    law = hashed.Hashed.drawn(p, k, cohorts, np.random.default_rng(5), closed=closed).randomized_response(epsilon)
    beta = math.expm1(epsilon)
    filters = np.array([places[c] == y for c in range(cohorts) for y in range(k)], dtype=float)
    share = (1 + beta * filters @ p) / (cohorts * (beta + k))
    assert share.sum() == pytest.approx(1)
    linear = np.linalg.pinv(filters) * cohorts * (beta + k) / beta
    np.testing.assert_allclose(law.mean, linear @ share - np.linalg.pinv(filters) @ np.ones(len(share)) / beta, atol=1e-10)
    covariance = linear @ (np.diag(share) - np.outer(share, share)) @ linear.T
    np.testing.assert_allclose(law.covariance, covariance, atol=1e-9)
    np.testing.assert_allclose(law.root @ law.root.T, covariance, atol=1e-5)


@pytest.mark.parametrize("hashes", [1, 2])
def test_least_squares_of_rappor_by_enumeration(hashes):
    p, k, cohorts, epsilon = np.array([0.5, 0.3, 0.2]), 3, 2, 1.3
    places = hashed._places(cohorts, 3, k, hashes, False, np.random.default_rng(2))
    law = hashed.Hashed.drawn(p, k, cohorts, np.random.default_rng(2), hashes=hashes).rappor(epsilon, hashes)
    filters = np.zeros((cohorts, k, 3))
    for c, h, x in itertools.product(range(cohorts), range(hashes), range(3)):
        filters[c, places[c, h, x], x] = 1
    keep = 1 / (1 + math.exp(-epsilon / (2 * hashes)))
    # The mean and the second moments of one report, as a vector of C k bits, over cohorts, values and all sets of bits.
    mean, square = np.zeros(cohorts * k), np.zeros((cohorts * k,) * 2)
    for c, x in itertools.product(range(cohorts), range(3)):
        for bits in itertools.product((0, 1), repeat=k):
            same = np.array(bits) == filters[c, :, x]
            chance = p[x] / cohorts * np.prod(np.where(same, keep, 1 - keep))
            report = np.zeros(cohorts * k)
            report[c * k : (c + 1) * k] = bits
            mean += chance * report
            square += chance * np.outer(report, report)
    linear = np.linalg.pinv(filters.reshape(cohorts * k, 3)) * cohorts / (2 * keep - 1)
    np.testing.assert_allclose(law.covariance, linear @ (square - np.outer(mean, mean)) @ linear.T, atol=1e-9)
    right = (cohorts * mean - (1 - keep)) / (2 * keep - 1)
    np.testing.assert_allclose(law.mean, np.linalg.pinv(filters.reshape(cohorts * k, 3)) @ right, atol=1e-9)


# ---- blocks that add up ------------------------------------------------------------------------------------------------
def draws(cell, rng):
    values = rng.standard_exponential(cell["block"])
    return {
        ("posterior_mean", "distribution", "mse"): values,
        ("oracle", "distribution", "mse"): values * 2 + cell["epsilon"],
    }


def three_cells():
    return [{"protocol": "grr", "n_categories": 3, "epsilon": e, "goal": 12, "block": 4} for e in (0.5, 1.0, 2.0)]


NOTED = FullStudy("noted", "A study of draws", "nobody", three_cells, draws)


def test_pooled_moments_are_those_of_all_values():
    values = np.random.default_rng(0).standard_exponential(50)
    mean = error = None
    for start, stop in ((0, 5), (5, 6), (6, 50)):
        mean, error = pooled(mean, error, start, values[start:stop])
    assert mean == pytest.approx(values.mean(), rel=1e-12)
    assert error == pytest.approx(values.std(ddof=1) / math.sqrt(50), rel=1e-12)


def test_a_study_goes_on_from_its_file(tmp_path):
    whole = run_full(NOTED, tmp_path / "whole.parquet")
    assert [cell.replications for cell in whole] == [12] * 3

    class Stopped(Exception):
        pass

    def stops(cell, rng):
        calls.append(cell)
        if len(calls) == 5:
            raise Stopped
        return draws(cell, rng)

    calls, path = [], tmp_path / "part.parquet"
    with pytest.raises(Stopped):
        run_full(FullStudy("noted", "", "", three_cells, stops), path)
    part = load(NOTED, path)
    assert 0 < sum(cell.replications for cell in part) < 36
    run_full(NOTED, path)
    for one, other in zip(read(path), read(tmp_path / "whole.parquet"), strict=True):
        assert one["replications"] == 12 and one["blocks"] == 3
        for name in ("value", "standard_error", "excess", "excess_error"):
            assert (one[name] is None) == (other[name] is None)
            assert one[name] is None or one[name] == pytest.approx(other[name], rel=1e-12)
    hours, unknown = prediction(load(NOTED, path))
    assert hours == 0 and unknown == 0


def test_a_file_of_another_study_or_seed_is_left_alone(tmp_path):
    path = tmp_path / "study.parquet"
    run_full(NOTED, path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"study 'noted'.*'other'"):
        run_full(FullStudy("other", "", "", three_cells, draws), path)
    with pytest.raises(DataError, match=r"seed 0.*seed 1"):
        run_full(NOTED, path, random_seed=1)
    assert path.read_bytes() == before


def test_cells_without_a_block_come_first(tmp_path):
    """A cell that is thought dear still has its first block before any other has a second."""

    def cells():
        return [cell | {"guess": guess} for cell, guess in zip(three_cells(), (0.0, 1e3, 1e6), strict=True)]

    def notes(cell, rng):
        seen.append(cell["epsilon"])
        return draws(cell, rng)

    seen = []
    run_full(FullStudy("noted", "", "", cells, notes), tmp_path / "study.parquet")
    assert seen[:3] == [0.5, 1.0, 2.0] and len(seen) == 9


def test_time_that_is_over_and_files_that_are_not_studies(tmp_path):
    path = tmp_path / "study.parquet"
    with pytest.raises(ArgumentError, match="minutes"):
        run_full(NOTED, path, minutes=0)
    cells = run_full(NOTED, path, minutes=1e-9)
    assert not any(cell.blocks for cell in cells) and not path.exists()
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="stored study"):
        run_full(NOTED, path)


def test_the_command_continues_a_study(tmp_path, capsys):
    for _ in range(2):
        command.main(["tradeoff", "--output", str(tmp_path)])
        shown = capsys.readouterr().out
        assert "64 of 64" in shown and "tradeoff.parquet" in shown
    assert {row["metric"] for row in read(tmp_path / "tradeoff.parquet")} >= {"average_privacy", "participation_factor"}
    with pytest.raises(SystemExit) as stopped:
        command.main(["tradeoff", "--output", str(tmp_path), "--seed", "1"])
    assert stopped.value.code == 2
    assert "seed 0" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(ArgumentError, match="setting must"):
        run_study("decoders", "paper")


def test_the_command_lists_our_own_studies_too(capsys):
    command.main([])
    assert "coverage" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        command.main(["nonsense"])
    assert stopped.value.code == 2 and "poisoning" in capsys.readouterr().err


# ---- every study of the papers runs ------------------------------------------------------------------------------------
def small(cell):
    """Whether a cell is cheap enough for a test."""
    return cell["n_categories"] <= 8 and cell.get("n_reports", 0) <= 30_000 and cell.get("cohorts", 1) <= 2


@pytest.mark.parametrize("name", ["decoders", "cohorts", "subset", "privacy"])
def test_a_block_of_every_kind_of_cell(name):
    """One small cell of every part and protocol gives finite losses."""
    study, seen = figures.FULL[name], set()
    for cell in study.cells():
        kind = cell["part"], cell["protocol"]
        cell |= {"block": 2} | ({"n_categories": 8, "n_reports": 10_000} if name == "cohorts" else {})
        if kind in seen or not small(cell):
            continue
        seen.add(kind)
        found = study.evaluate(cell, np.random.default_rng(1))
        lines = found if cell["part"] in LISTED else [{"value": values} for values in found.values()]
        assert lines and all(np.isfinite(line["value"]).all() for line in lines)
    assert len(seen) >= 3


# ---- the stored results ------------------------------------------------------------------------------------------------
needs_stored = pytest.mark.skipif(not STORED.is_dir(), reason="the stored results are in a checkout only")


def stored(name, **where):
    """Return the rows of a stored study with these values."""
    return [row for row in read(STORED / f"{name}.parquet") if all(row[key] == value for key, value in where.items())]


@needs_stored
def test_the_settings_are_the_papers():
    """The grids as the papers state them: sizes, numbers of reports, ε and replications."""

    def axis(name, column, **where):
        cells = [c for c in figures.FULL[name].cells() if all(c.get(key) == value for key, value in where.items())]
        return sorted({cell[column] for cell in cells})

    assert axis("risk", "n_reports", figure="2") == [10_000, 1_000_000] and axis("risk", "n_categories", figure="2") == [
        1024
    ]
    assert axis("risk", "n_reports", figure="3") == [100, 1_000_000] and axis("risk", "n_categories", figure="3") == [10]
    assert axis("risk", "goal", part="learnt") == [100] and axis("risk", "epsilon")[::9] == [0.2, 2.0]
    assert axis("decoders", "n_reports") == [100, 30_000] and axis("decoders", "goal", part="main") == [10_000]
    assert axis("cohorts", "n_categories") == [256] and axis("cohorts", "goal", part="least squares") == [50]
    assert axis("cohorts", "buckets", part="least squares", figure="3") == [2**i for i in range(1, 13)]
    assert axis("cohorts", "cohorts", part="least squares", protocol="orr_open", figure="3") == [2**i for i in range(11)]
    assert axis("subset", "n_reports") == [10_000] and axis("subset", "goal") == [100]
    with (STORED / "wang-2016-table-1.csv").open() as handle:
        published = {(int(row["d"]), float(row["epsilon"])) for row in csv.DictReader(handle)}
    assert published == {(d, e) for d, epsilons in figures.TABLE.items() for e in epsilons}


@needs_stored
@pytest.mark.parametrize("name", figures.FULL)
def test_every_cell_of_the_papers_is_stored(name):
    """Every cell, with finite numbers and their errors."""
    if name == "populations" and not POPULATIONS.is_dir():
        pytest.skip("data/populations is in a checkout only")
    cells = load(figures.FULL[name], STORED / f"{name}.parquet")
    for cell in cells:
        assert cell.blocks, cell.settings
        if name == "decoders" and cell.settings["protocol"] == "grr":
            assert cell.replications >= 20, cell.settings
    for row in read(STORED / f"{name}.parquet"):
        assert math.isfinite(row["value"]) and row["value"] >= 0, row
        assert row["replications"] >= 1
        assert row["standard_error"] is None or row["replications"] == 1 or row["standard_error"] >= 0


def with_true_prior():
    """Return the rows whose base is the posterior mean under the prior that the population was drawn from."""
    rows = [row for name in ("risk", "decoders", "subset") for row in stored(name, metric="mse")]
    return [row for row in rows if row["population"] in figures.ALPHAS and row["excess"] is not None]


@needs_stored
def test_nothing_beats_the_posterior_mean_under_the_true_prior():
    """A theorem: paired differences to the posterior mean, on the same reports, are not below zero beyond their errors."""
    rows = with_true_prior()
    assert len(rows) > 500
    z = []
    for row in rows:
        # An estimator that almost never differs has an error that a few replications do not show.
        error = math.hypot(row["excess_error"], 1e-4 * row["value"])
        z.append(row["excess"] / error)
        # Few replications: Student's t instead of the normal law.
        assert z[-1] > -student.ppf(1 - 1e-6, max(row["replications"] - 1, 2)), row
    # The fraction of a normal law's tail is that of cells with many replications.
    z = np.array([value for value, row in zip(z, rows, strict=True) if row["replications"] >= 50])
    assert z.size > 500
    assert (z < -2).mean() < 0.05
    assert (z > 2).mean() > 0.6


@needs_stored
def test_its_risk_is_its_posterior_variance():
    """E‖P − E[P|Y]‖² = E Σ Var(P|Y) under the true prior, for every protocol and size."""
    z = []
    for name in ("risk", "subset"):
        variances = {(row["cell"], row["estimator"]): row for row in stored(name, metric="variance")}
        for row in stored(name, metric="mse", estimator="posterior_mean", target="distribution"):
            if row["population"] in figures.ALPHAS and row["replications"] >= 10:
                known = variances[row["cell"], "posterior_mean"]
                z.append((row["value"] - known["value"]) / math.hypot(row["standard_error"], known["standard_error"]))
    z = np.array(z)
    assert z.size > 100
    assert abs(z.mean()) < 0.4 and np.median(np.abs(z)) < 1.0


def setting_of(row):
    """Return what a row is an estimate of, whatever the part of the study that it comes from."""
    names = "protocol", "population", "n_reports", "n_categories", "epsilon", "estimator", "target", "metric"
    return tuple(row[name] for name in names)


@needs_stored
def test_parts_with_few_replications_agree_with_the_main_one():
    """The same estimator, other reports: differences are standard normal, with errors from the main part's spread."""
    rows = stored("decoders", metric="mse", target="frequency", estimator="oracle")
    main, z = {setting_of(row): row for row in rows if row["part"] == "main"}, []
    for row in rows:
        if row["part"] != "main":
            known = main[setting_of(row)]
            error = known["standard_error"] * math.sqrt(known["replications"] / row["replications"] + 1)
            z.append((row["value"] - known["value"]) / error)
    assert len(z) == 252 + 54 + 342
    assert abs(np.mean(z)) < 0.15 and 0.9 < np.std(z) < 1.15 and np.abs(z).max() < 4.5


@needs_stored
def test_floors_stand_below_what_they_bound():
    """The exact floor under the oracle's risk for F, which no distribution changes; the bounds of the papers under all."""
    for name in ("risk", "populations", "decoders"):
        # The test above compares few replications with the main part: their own errors are too rough for five of them.
        rows = sorted(
            stored(name, estimator="oracle", metric="mse", target="frequency"), key=lambda row: row["replications"]
        )
        for row in {setting_of(row): row for row in rows}.values():
            floor = exact_bound(row["n_categories"], row["epsilon"], "frequency").value / row["n_reports"]
            assert row["value"] + 5 * row["standard_error"] > floor, row
    held = {}
    for row in stored("risk", part="exact"):
        held[row["protocol"], row["n_reports"], row["epsilon"], row["target"], row["metric"]] = row["value"]
    for row in stored("risk", metric="mse", estimator="posterior_mean"):
        at = row["protocol"], row["n_reports"], row["epsilon"], row["target"]
        assert held[*at, "bound_any"] <= held[*at, "bound"] * (1 + 1e-9)
        assert held[*at, "bound_any"] <= held[*at, "floor"]
        if (*at, "bound_finite") in held:
            assert held[*at, "bound_finite"] <= row["value"] + 5 * row["standard_error"]
        if row["n_reports"] == 1_000_000 and row["protocol"] == "oue":
            assert held[*at, "bound"] <= row["value"] + 5 * row["standard_error"]
