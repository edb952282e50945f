"""The papers at full size: the vectorised engine against other ways to the same numbers, pooling, and the stored results."""

import itertools
import math

import numpy as np
import pytest

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.postprocess import project_to_simplex, truncate_and_renormalize
from ldpbayes.posteriors.conditioned_product import PowerFactors
from ldpbayes.posteriors.conditioned_product.batched import batch
from ldpbayes.posteriors.conditioned_product.tabulated import tabulate
from ldpbayes.posteriors.exact import Exact
from ldpbayes.posteriors.mixture import Mixture
from ldpbayes.priors import as_prior
from ldpbayes.protocols.grr import GRR
from ldpbayes.study.evaluate import labels
from ldpbayes.study.papers import hashed, vectorised
from ldpbayes.study.papers.pooled import FullStudy, load, pooled, prediction, read, run_full


def grr_collection(tallies, epsilon):
    protocol = GRR(tallies.size, epsilon)
    return Collection(labels(tallies.size), Tally(protocol, protocol.all_reports(), tallies))


def some_tallies(a, n, epsilon, size, alpha=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return vectorised.grr_tallies(rng.multinomial(n, rng.dirichlet(np.full(a, alpha), size)), epsilon, rng)


# ---- many replications at once -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("a, n, epsilon, alpha", [(16, 100, 1.0, 1.0), (40, 30_000, 4.0, 0.5), (300, 10_000, 1.0, 0.5)])
def test_tables_of_shared_factors_agree_with_one_set_at_a_time(a, n, epsilon, alpha):
    tallies = some_tallies(a, n, epsilon, 6, alpha)
    beta = math.expm1(epsilon)

    def family(values):
        return PowerFactors(np.full(values.size, alpha), np.full((values.size, 1), beta), values[:, None].astype(float))

    values, index = np.unique(tallies, return_inverse=True)
    found = tabulate(family(values), index.reshape(tallies.shape))
    known = batch(family(tallies.ravel()), 6)
    assert not found.rough.any()
    np.testing.assert_allclose(found.mean, known.mean, atol=1e-9 * np.sqrt(known.variance).max())
    np.testing.assert_allclose(found.variance, known.variance, rtol=1e-9)
    np.testing.assert_allclose(found.log_evidence, known.log_evidence, rtol=1e-10)


def test_sets_far_apart_have_tilts_of_their_own():
    """One set has all its reports in one category, another has them spread evenly."""
    tallies = np.array([[1000] + [0] * 19, [50] * 20, [500, 500] + [0] * 18])
    found = vectorised.grr_posterior(tallies, 3.0, 0.5)
    for row, mean, variance in zip(tallies, *found[:2], strict=True):
        known = Exact().moments(grr_collection(row, 3.0), as_prior("jeffreys", 20))
        np.testing.assert_allclose(mean, known.mean, rtol=1e-7)
        np.testing.assert_allclose(variance, known.variance, rtol=1e-6)


def test_transforms_that_do_not_die_out_are_of_second_order():
    """Few categories with a small α: the saddle point, within a twentieth of a posterior sd of the exact means."""
    tallies = some_tallies(8, 4000, 1.0, 5)
    mean, _, evidence = vectorised.grr_posterior(tallies, 1.0, 0.5, tables=True)
    exact = vectorised.grr_posterior(tallies, 1.0, 0.5)
    assert (np.abs(mean - exact[0]) < 0.05 * np.sqrt(exact[1])).all()
    np.testing.assert_allclose(evidence, exact[2], rtol=1e-3)


def test_maximum_likelihood_and_projections_of_many():
    tallies = some_tallies(12, 60, 1.0, 30)
    oracle = vectorised.grr_oracle(tallies, 1.0)
    found = vectorised.grr_mle(tallies, 1.0), vectorised.project(oracle), vectorised.normalise(oracle)
    assert (found[0] == 0).any()
    for row, raw, mle, projected, normalised in zip(tallies, oracle, *found, strict=True):
        np.testing.assert_allclose(mle, MLE()(grr_collection(row, 1.0)).distribution, atol=1e-12)
        np.testing.assert_allclose(projected, project_to_simplex(raw), atol=1e-12)
        np.testing.assert_allclose(normalised, truncate_and_renormalize(raw), atol=1e-12)


@pytest.mark.parametrize(
    "a, n, epsilon", [(32, 100, 8.0), *(pytest.param(*case, marks=pytest.mark.calibrate) for case in [(40, 3000, 3.0)])]
)
def test_learnt_prior_of_many(a, n, epsilon):
    tallies = some_tallies(a, n, epsilon, 1, 0.3)
    mean, variance, frequency = vectorised.grr_learnt(tallies, epsilon)
    for row, own, spread, shares in zip(tallies, mean, variance, frequency, strict=True):
        known = Mixture().moments(grr_collection(row, epsilon), "learnt")
        assert (np.abs(own - known.mean) < 0.01 * known.sd).all()
        np.testing.assert_allclose(np.sqrt(spread), known.sd, rtol=0.01)
        assert (np.abs(shares - known.frequency_mean) < 0.01 * known.sd).all()


# ---- hashed reports: mean and covariance by enumeration ------------------------------------------------------------------
@pytest.mark.parametrize("closed", [False, True])
def test_least_squares_of_randomised_response_by_enumeration(closed):
    p, k, cohorts, epsilon = np.array([0.4, 0.3, 0.2, 0.1]), 3, 3, 1.3
    places = hashed._places(cohorts, 4, k, 1, closed, np.random.default_rng(5))[:, 0]
    law = hashed.Hashed.drawn(p, k, cohorts, np.random.default_rng(5), closed=closed).randomised_response(epsilon)
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


def test_time_that_is_over_and_files_that_are_not_studies(tmp_path):
    path = tmp_path / "study.parquet"
    with pytest.raises(ArgumentError, match="minutes"):
        run_full(NOTED, path, minutes=0)
    cells = run_full(NOTED, path, minutes=1e-9)
    assert not any(cell.blocks for cell in cells) and not path.exists()
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="is no stored study; remove it to begin anew"):
        run_full(NOTED, path)
