"""Simulation-based calibration of regressions, and draws about the mode against NUTS: ``make calibrate``.

Coefficients from the prior, private answers, reports by the protocol's own client, then regress(): the ranks of a
coefficient, of the average distribution and of the log-likelihood among the draws are uniform. A case that leaves its 99 %
band is repeated once with fresh seeds, four times as often. The numbers go to regression.csv beside this file.
"""

import pathlib
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from recorded import record
from samples import regression_model
from scipy import stats

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.protocols.designs import forced_response, warner
from ldpbayes.protocols.unary import UnaryEncoding

LEVEL, RANKED = 0.01, 99
SUMMARY = pathlib.Path(__file__).with_name("regression.csv")
#: name → (formula, protocol, people, replications, draws a chain)
CASES = {
    "binary": ("answer ~ x + g", warner(0.85), 200, 200, 500),
    "three categories": ("answer ~ x", lb.GRR(3, 2.0), 200, 200, 500),
    "sets": ("answer ~ x", UnaryEncoding.optimized(3, 2.0), 200, 200, 500),
    "groups": ("answer ~ x + (1 | g)", warner(0.9), 150, 200, 250),
    "uncertain device": ("answer ~ x", lb.protocols.Channel(validated=[[60, 6], [12, 40]]), 200, 200, 500),
    "uncertain device, groups": ("answer ~ x + (1 | g)", lb.protocols.Channel(validated=[[60, 6], [12, 40]]), 150, 200, 250),
}


def people(n, rng):
    return pd.DataFrame({"x": rng.integers(0, 4, n) / 2, "g": rng.choice(list("abcdef"), n)})


def with_reports(frame, p, protocol, rng):
    values = (rng.random((len(frame), 1)) > p.cumsum(axis=1)).sum(axis=1)
    labels = [str(x) for x in range(protocol.n_categories)]
    (reports,) = protocol.format_reports(protocol.privatize(values, rng), labels)
    return frame.assign(report=reports)


def replicate(name, stage):
    """Return (ranks (replications, 3), how many NUTS answered)."""
    formula, protocol, n, replications, draws = CASES[name]
    replications *= 4 if stage else 1
    rng = np.random.default_rng([list(CASES).index(name), stage])
    labels = [str(x) for x in range(protocol.n_categories)]
    ranks, handed = np.empty((replications, 3), dtype=int), 0
    for r in range(replications):
        frame = people(n, rng)
        blank = regression_model(
            formula, with_reports(frame, np.full((n, len(labels)), 1 / len(labels)), protocol, rng), protocol
        )
        prior = blank.prior
        z = rng.standard_normal(prior.n_unknowns)
        for batch in prior.varying:
            z[batch.place] = np.log(batch.scale * np.abs(rng.standard_normal()))
        device = protocol
        if getattr(protocol, "law", None) is not None:
            z[prior.spans["device"]] = prior.law.draw((len(prior.law.sticks),), rng)
            device = lb.protocols.Channel(protocol.law.channel(prior.theta(prior.values(z))))
        p = prior.kinds(z) @ prior.collapse
        reported = with_reports(frame, p[blank.cell], device, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiagnosticWarning)
            found = lb.regress(
                reported,
                formula,
                protocol,
                report="report",
                categories=labels,
                draws=draws,
                random_seed=int(rng.integers(2**31)),
            )
        handed += found.attrs["method"] != "weighted"
        step = 4 * draws // RANKED
        term, category = r % len(prior.terms), 1 + r % (len(labels) - 1)
        own = found["posterior"]["coefficients"].values.reshape(4 * draws, -1, len(labels))[::step][:RANKED]
        mean = found["posterior"]["distribution"].values.reshape(-1, len(labels))[::step][:RANKED]
        weight = prior.sizes / prior.sizes.sum()
        ranks[r, 0] = _rank(prior.coefficients(z[None])[0, term, category], own[:, term, category], rng)
        ranks[r, 1] = _rank(weight @ p[:, category], mean[:, category], rng)
        found.extend("log_likelihood", by="cell")
        drawn = found["log_likelihood"]["reports"].sum("cell").values.ravel()[::step][:RANKED]
        ranks[r, 2] = _rank(_told(regression_model(formula, reported, protocol).target, z), drawn, rng)
    return ranks, handed


def _told(target, z):
    """Return the log-likelihood of z without the reports that say nothing, which the result leaves out."""
    e = target.reports
    silent = np.ptp(e.table, axis=1)[e.row] == 0
    constant = e.weight[silent] @ (np.log(e.table[e.row[silent], 0]) + e.log_constants[e.row[silent]])
    return target.likelihoods(z[None])[0][0] - constant


def _rank(truth, draws, rng):
    return (draws < truth).sum() + rng.integers(0, (draws == truth).sum() + 1)


def calibrated(name, stage):
    """Return the p-values of one case by name, and record its line."""
    start = time.process_time()
    ranks, handed = replicate(name, stage)
    jitter = np.random.default_rng(0).random(ranks.shape)
    names = ("coefficient", "distribution", "log_likelihood")
    tests = {key: stats.kstest(((ranks + jitter) / (RANKED + 1))[:, k], "uniform").pvalue for k, key in enumerate(names)}
    inside = (ranks[:, 0] >= 5) & (ranks[:, 0] <= RANKED - 5)
    tests["coverage"] = stats.binomtest(int(inside.sum()), inside.size, 0.9).pvalue
    line = {"case": name, "stage": stage, "replications": len(ranks), "nuts": handed}
    line |= {f"p_{key}": f"{tests[key]:.4f}" for key in names} | {"coverage_90": f"{inside.mean():.3f}"}
    record(SUMMARY, line | {"seconds": f"{time.process_time() - start:.0f}"}, ("case", "stage"))
    return tests


@pytest.mark.calibrate
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_uniform(name):
    outside = [key for key, p in calibrated(name, 0).items() if p < LEVEL]
    if outside:
        again = calibrated(name, 1)
        assert not [f"{key}: p = {again[key]:.2g}" for key in outside if again[key] < LEVEL]


@pytest.mark.calibrate
@pytest.mark.parametrize("name", ["binary", "three categories", "sets"])
def test_draws_about_the_mode_agree_with_nuts(name):
    """Means and sds of every coefficient within four Monte Carlo errors."""
    formula, protocol, n, _, _ = CASES[name]
    rng = np.random.default_rng(11)
    frame = people(4 * n, rng)
    labels = [str(x) for x in range(protocol.n_categories)]
    p = np.tile(np.arange(1.0, len(labels) + 1) / np.arange(1.0, len(labels) + 1).sum(), (len(frame), 1))
    frame = with_reports(frame, p, protocol, rng)
    kept = {"report": "report", "categories": labels, "random_seed": 1, "draws": 2000}
    weighted, chains = (lb.regress(frame, formula, protocol, method=method, **kept) for method in ("weighted", "nuts"))
    one, two = weighted["summary"], chains["summary"]
    others = {"category": labels[1:]}
    error = np.hypot(one["coefficients_mcse"].sel(others), two["coefficients_mcse"].sel(others))
    apart = (one["coefficients_mean"] - two["coefficients_mean"]).sel(others)
    assert float(np.abs(apart / error).max()) < 4
    np.testing.assert_allclose(one["coefficients_sd"].sel(others), two["coefficients_sd"].sel(others), rtol=0.08)


def _compiled_models():
    import importlib.util

    path = pathlib.Path(__file__).parents[2] / "models" / "multinomial_logit.py"
    spec = importlib.util.spec_from_file_location("multinomial_logit", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.calibrate
def test_the_textbook_model_agrees():
    """PyMC's multinomial logit on reports, which does not import ldpbayes, against regress() on Nigeria's cells."""
    import pymc as pm

    cells = lb.load_example("nigeria_cells")
    found = lb.regress(cells, "connected ~ female + married", random_seed=1, draws=2000)
    columns = cells.key_columns()
    x = np.column_stack([np.ones(len(cells)), columns["female"], columns["married"]])
    counts = np.zeros((len(cells), 2), dtype=int)
    for row, cell in zip(counts, cells.values(), strict=True):
        row[cell.tallies[0].reports] = cell.tallies[0].counts
    channel = np.array([[5 / 6, 1 / 6], [1 / 6, 5 / 6]])
    with _compiled_models().model(x, counts, channel):
        trace = pm.sample(1000, tune=1000, chains=4, cores=1, random_seed=1, progressbar=False, nuts_sampler="nutpie")
    own = trace["posterior"]["log_odds"].values[..., 1].reshape(-1, 3)
    summary = found["summary"]
    mean, sd = (summary[f"coefficients_{key}"].sel(category="yes").values for key in ("mean", "sd"))
    assert np.abs(own.mean(axis=0) - mean).max() < 0.08 * sd.max()
    np.testing.assert_allclose(own.std(axis=0), sd, rtol=0.08)


@pytest.mark.calibrate
def test_a_regression_loads_no_pymc():
    import subprocess
    import sys

    code = (
        "import sys, ldpbayes as lb; lb.regress(lb.load_example('nigeria_cells'), 'connected ~ female', random_seed=1); "
        "sys.exit(bool({'pymc', 'pytensor'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parents[2]).returncode == 0


@pytest.mark.calibrate
def test_coefficients_of_stratified_and_clustered_samples_are_covered():
    """Four strata in unlike shares, 200 clusters of 8 people who are alike: with the columns of the sample, and without."""
    rng, replications = np.random.default_rng(5), 500
    truth, share, device = np.array([-0.4, 0.6, 0.5]), np.array([0.4, 0.3, 0.2, 0.1]), forced_response(0.9, (1, 1))
    strata, cluster = np.repeat(np.arange(4), 400), np.repeat(np.arange(200), 8)
    inside = np.zeros((replications, 2, 3), bool)
    for r in range(replications):
        x, v = rng.normal(size=1600).round(1), np.repeat(rng.normal(size=200).round(1), 8)
        p = 1 / (1 + np.exp(-(truth[0] + truth[1] * x + truth[2] * v)))
        alike = np.sqrt(0.5) * rng.normal(size=200)[cluster] + np.sqrt(0.5) * rng.normal(size=1600)
        reports = device.privatize((stats.norm.cdf(alike) < p).astype(int), rng)
        frame = pd.DataFrame({"x": x, "v": v, "s": strata, "c": cluster, "w": share[strata], "report": reports})
        for k, columns in enumerate(({"strata": "s", "cluster": "c"}, {})):
            found = lb.regress(
                frame, "answer ~ x + v", device, report="report", weights="w", random_seed=r, draws=250, **columns
            )
            draws = found["posterior"]["coefficients"].values[..., 1].reshape(-1, 3)
            low, high = np.quantile(draws, (0.025, 0.975), axis=0)
            inside[r, k] = (low <= truth) & (truth <= high)
    designed, weights_only = inside.mean(axis=0)
    assert abs(designed.mean() - 0.95) <= 0.02 and (designed > 0.92).all()
    assert weights_only[[0, 2]].max() < 0.92  # neighbours who are alike count as strangers there
