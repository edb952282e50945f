"""The method of summaries: against the full likelihood, F's moments, refusals, cells, and what a sample predicts."""

from dataclasses import replace

import conditioned
import numpy as np
import pyarrow.parquet as pq
import pytest
from references.enumeration import enumerated

from ldpbayes import Cells, Collection, Tally, fit, scan, write
from ldpbayes.errors import ArgumentError, CellsError, InfeasibleError
from ldpbayes.likelihoods import Summary
from ldpbayes.methods import expanded
from ldpbayes.methods.expansion import ExpansionAccuracy, at_mean, of_rows, proposal_of, refusal, trusted
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import UnaryEncoding
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.result.facts import facts_of


def tally(protocol, n, seed=3):
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1.0, protocol.n_categories + 1)
    return Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))


@pytest.fixture(scope="module")
def held():
    """Reports of eight categories at epsilon 1, and their summary without a sample."""
    rows = tally(UnaryEncoding.optimized(8, 1.0), 3000).rows
    return rows, replace(at_mean(rows)[0], sample=None)


def weighted(rows, summary, alpha, size=4000):
    """Return (means, sds) of draws of the summary's posterior, plain and weighted by the full likelihood."""
    p, log_surrogate = expanded.proposals(proposal_of(summary, alpha), size, np.random.default_rng(1))
    out = []
    for likelihood in (summary, rows):
        log_weight = likelihood.log_likelihood(p.T) - log_surrogate
        weight = np.exp(log_weight - log_weight.max())
        mean = weight @ p / weight.sum()
        out.append((mean, np.sqrt(weight @ (p - mean) ** 2 / weight.sum())))
    return out


def test_means_and_sds_are_those_of_the_reports(held):
    rows, summary = held
    alpha = np.full(8, 0.5)
    (mean, sd), (true, true_sd) = weighted(rows, summary, alpha)
    assert (np.abs(mean - true) / true_sd).max() < 0.045 and np.abs(sd / true_sd - 1).max() < 0.03
    tree = fit(summary, "jeffreys", random_seed=1)
    assert tree.attrs["method"] == "surrogate" and tree.attrs["converged"] and facts_of(tree)["predicted_error"] < 0.1
    # The integrals are those of the expansion; weighted draws of it agree within their errors.
    shown = tree["summary"].sel(target="distribution")
    np.testing.assert_allclose(shown["mean"], mean, atol=5 * sd.max() / 60)
    np.testing.assert_allclose(shown["sd"], sd, rtol=0.08)
    assert (shown["mcse"] == 0).all() and shown["lower"].values.min() >= 0
    draws = tree["posterior"]["distribution"].values.reshape(-1, 8)
    np.testing.assert_allclose(np.quantile(draws, 0.025, axis=0), shown["lower"], atol=0.25 * sd.max())
    found = conditioned.weighted(Collection([*"abcdefgh"], [tally(UnaryEncoding.optimized(8, 1.0), 3000)]), 0.5, 500)
    assert float(tree["exact"]["log_evidence"]) == pytest.approx(found.log_evidence, abs=0.1)


def test_frequencies_have_moments_and_no_draws():
    """Against dynamic programming, which is exact for few users."""
    collection = Collection([*"abc"], [tally(UnaryEncoding.optimized(3, 1.0), 80)])
    exact = enumerated(collection, "jeffreys")
    tree = fit(replace(at_mean(collection.rows)[0]), "jeffreys", random_seed=1)
    assert "frequency" not in tree["posterior"] and facts_of(tree)["frequency_draws"] == "moments only"
    shown = tree["summary"].sel(target="frequency")
    assert (np.abs(shown["mean"] - exact["frequency_mean"]) / exact["frequency_sd"] < 0.05).all()
    np.testing.assert_allclose(shown["sd"], exact["frequency_sd"], rtol=0.05)
    # The other way, which serves any prior: E[T | P] and Var(T | P) of the expansion over draws of P.
    other = fit(replace(at_mean(collection.rows)[0]), "learnt", random_seed=1)
    assert np.isfinite(other["summary"]["sd"].sel(target="frequency")).all()


def test_moments_of_tallies_are_exact_at_the_pilot(held):
    rows, summary = held
    for found, known in zip(summary.tally_moments(summary.pilot), rows.tally_moments(summary.pilot), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-8)
    mean, variance = summary.tally_moments(np.random.default_rng(1).dirichlet(50 * summary.pilot, 5))
    np.testing.assert_allclose(mean.sum(axis=1), 3000)
    assert variance.shape == (5, 8)


@pytest.mark.calibrate
@pytest.mark.parametrize("prior", ["learnt", "smooth"])
def test_priors_that_are_no_dirichlet_agree_with_the_reports(held, prior):
    _, summary = held
    tree = fit(summary, prior, random_seed=1)
    full = fit(Collection([str(x) for x in range(8)], [tally(UnaryEncoding.optimized(8, 1.0), 3000)]), prior, random_seed=2)
    ours, theirs = (one["summary"].sel(target="distribution") for one in (tree, full))
    assert (np.abs(ours["mean"] - theirs["mean"]) < 0.2 * theirs["sd"]).all()
    np.testing.assert_allclose(ours["sd"], theirs["sd"], rtol=0.15)
    assert np.isfinite(tree["summary"]["mean"]).all()


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")  # few draws, of chains
def test_priors_that_are_no_dirichlet(held):
    """An ordered walk, by its sampler; the moments of F come from draws of P."""
    tree = fit(held[1], "smooth", random_seed=1, draws=300)
    mean = tree["summary"]["mean"].sel(target="frequency").values
    assert tree.attrs["method"] == "hmc" and mean.sum() == pytest.approx(1, abs=1e-6)
    assert (tree["summary"]["sd"].sel(target="frequency") < tree["summary"]["sd"].sel(target="distribution") * 1.05).all()


def test_a_summary_that_may_be_off_is_refused_with_what_to_do():
    rows = tally(UnaryEncoding.optimized(8, 4.0), 1000).rows
    for summary in (at_mean(rows)[0], replace(at_mean(rows)[0], sample=None)):
        for method in ("auto", "surrogate"):
            with pytest.raises(InfeasibleError, match=r"1,000 reports.*keep=1001"):
                fit(summary, "jeffreys", method)
    with pytest.raises(InfeasibleError, match="curvature"):
        rows = tally(HadamardResponse(16, 4.0), 20_000).rows
        fit(replace(at_mean(rows)[0], sample=None), "jeffreys")
    with pytest.raises(InfeasibleError, match=r"from.*pilot"):
        fit(Summary.of(tally(UnaryEncoding.optimized(8, 2.0), 1000).rows, np.full(8, 1 / 8)), "jeffreys")


def test_a_refusal_says_first_that_the_reports_contradict_the_design(tmp_path):
    """Reports at ε = 1 that are read as those of ε = 4: their estimated shares add up to far more than one."""
    rng = np.random.default_rng(1)
    made = UnaryEncoding.optimized(32, 1.0)
    write(made.privatize(rng.integers(32, size=3000), rng), tmp_path / "r.parquet", made)
    reports = pq.read_table(tmp_path / "r.parquet").drop(["protocol"]).replace_schema_metadata(None)
    with pytest.raises(CellsError, match=r"^The reports contradict the design \(.* 1 ± .*The summary of"):
        fit(scan(reports, UnaryEncoding.optimized(32, 4.0), keep=0), draws=0)
    assert "contradict" not in refusal(scan(reports, made, keep=0).likelihoods[0], ExpansionAccuracy(0, 1, "", 0, 0))


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 3.0])
def test_the_prediction_is_above_the_error(epsilon):
    rows = tally(UnaryEncoding.optimized(8, epsilon), 2000).rows
    summary, alpha = at_mean(rows)[0], np.full(8, 0.5)
    (mean, _), (true, sd) = weighted(rows, summary, alpha)
    error = np.abs((mean - true) / sd).max()
    predicted, bound = (trusted(one, alpha).error for one in (summary, replace(summary, sample=None)))
    assert error < predicted + 0.01 and error < bound
    # A tenth of the reports predict about the same.
    users = tally(UnaryEncoding.optimized(8, epsilon), 2000)
    few = np.random.default_rng(2).binomial(users.counts, 0.2)
    part = Tally(users.protocol, users.reports[few > 0], few[few > 0]).rows
    part = replace(summary, sample=part, rate=0.2)
    assert trusted(part, alpha).error == pytest.approx(predicted, abs=0.05)


def test_samples_add_up():
    protocol = UnaryEncoding.optimized(8, 2.0)
    first, second = tally(protocol, 900, 1).rows, tally(protocol, 1200, 2).rows
    pilot = np.full(8, 1 / 8)
    whole = [replace(Summary.of(rows, pilot), sample=rows, rate=1.0) for rows in (first, second)]
    total = whole[0] + whole[1]
    assert total.rate == 1.0 and total.sample.counts.sum() == 2100
    spread = np.full(8, 1e-4)
    parts = [one.missed(pilot, spread)[0] for one in (*whole, total)]
    np.testing.assert_allclose(parts[0] + parts[1], parts[2], atol=1e-6 * np.abs(parts[2]).max())
    # Half as many of the second: those of the first then count half.
    halved = whole[0] + replace(whole[1], rate=0.5)
    assert halved.rate == 0.5 and halved.sample.counts.sum() == pytest.approx(450 + 1200)
    assert (whole[0] + replace(whole[1], sample=None)).sample is None


def test_cells_of_summaries_are_fitted_one_by_one(held):
    _, summary = held
    labels = [*"abcdefgh"]
    cells = Cells({"x": summary, "y": summary + summary}, categories=labels)
    tree = fit(cells, "jeffreys", random_seed=1, draws=200)
    assert tree["posterior"]["distribution"].dims == ("chain", "draw", "cell", "category")
    alone = fit(summary, "jeffreys", random_seed=1)
    for name in ("mean", "sd"):
        both = tree["summary"][name].sel(cell="x"), alone["summary"][name]
        np.testing.assert_allclose(*(one.values for one in both), rtol=1e-9)
    assert tree.attrs["method"] == "surrogate" and np.isfinite(tree["cells"]["log_evidence"]).all()
    shared = fit(cells, "learnt", random_seed=1, draws=200)
    assert "alpha" in shared["posterior"] and shared.attrs["converged"]


def test_labels_must_fit(held):
    from ldpbayes.collections import Summarized

    with pytest.raises(ArgumentError, match="8 labels"):
        Summarized(["a", "b"], held[1])
    assert "pilot" in ExpansionAccuracy(0.1, 0.2, "a bound", 0.0, 0.0).problem
    assert Dirichlet.jeffreys(8).total == 4


@pytest.mark.parametrize(("kind", "epsilon", "refused"), [("dual", 3.0, True), ("optimized", 1.0, False)])
def test_two_categories_that_share_everything_are_no_diagonal(kind, epsilon, refused):
    """The curvature between the two is their own; what the sds lose by a diagonal is seen in a sample, and in all rows."""
    rng = np.random.default_rng(1)
    protocol = getattr(UnaryEncoding, kind)(24, epsilon)
    truth = np.zeros(24, dtype=int)
    truth[:2] = 12_000, 8000
    rows = Tally(protocol, *protocol.simulate(truth, rng)).rows
    own, found = of_rows(rows, np.full(24, 0.5))
    assert bool(found.problem) == refused
    # Against the curvature of all pairs at the same point.
    pilot = own.pilot
    tangent = np.eye(24) - 1 / 24
    here = Summary.of(rows, pilot)
    weights = rows.counts / rows.matvec(pilot) ** 2
    both = [tangent @ matrix @ tangent for matrix in (rows.gram(weights), np.diag(here.tangent_curvature))]
    ridge = np.diag(0.5 / pilot**2)  # the prior holds the categories that are nearly empty
    exact, diagonal = (np.sqrt(np.linalg.pinv(tangent @ (one + ridge) @ tangent).diagonal()[:2]) for one in both)
    off = np.abs(exact / diagonal - 1).max()
    assert 0.7 * off - 0.02 < found.pairs < 2 * off + 0.02 and (off > 0.2) == refused
    np.testing.assert_allclose(rows.columns(np.array([3, 0])), rows.dense()[:, [3, 0]])
