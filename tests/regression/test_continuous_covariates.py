"""Regression on continuous covariates: a first batch of draws judges the proposal before many are weighted at every row."""

import numpy as np
import pandas as pd
import pytest

import ldpbayes as lb
from ldpbayes.regression.target import RegressionTarget

#: So many distinct rows make 4,096 draws at each of them dear.
ROWS = 25_000

pytestmark = pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree) on")


def survey(epsilon):
    """Return (frame, protocol, x, reports)."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(ROWS)
    truth = (rng.random(ROWS) < 1 / (1 + np.exp(1.5 - 0.7 * x))).astype(int)
    protocol = lb.protocols.GRR(2, epsilon=epsilon)
    reports = protocol.privatize(truth, rng)
    return pd.DataFrame({"x": x, "report": reports}), protocol, x, reports


@pytest.fixture
def evaluated(monkeypatch):
    """Numbers of draws whose likelihood was evaluated at every row, one for each time."""
    sizes, whole = [], RegressionTarget.likelihoods

    def counted(self, z, **settings):
        sizes.append(len(z))
        return whole(self, z, **settings)

    monkeypatch.setattr(RegressionTarget, "likelihoods", counted)
    return sizes


def by_a_grid(x, reports, stay, centre, sd, points=23):
    """Return (means, sds) of intercept and slope under priors N(0, π²) at the mean of x and N(0, 2.5²) for one sd of x."""
    line = np.linspace(-5, 5, points)
    spread, mean = x.std(), x.mean()
    root = np.linalg.cholesky(sd)
    theta = centre + np.stack([part.ravel() for part in np.meshgrid(line, line)], axis=1) @ root.T
    values = np.empty(len(theta))
    for k, (a, b) in enumerate(theta):
        share = 1 / (1 + np.exp(-a - b * x))
        yes = 1 - stay + (2 * stay - 1) * share
        values[k] = np.log(np.where(reports == 1, yes, 1 - yes)).sum()
        values[k] -= 0.5 * ((a + b * mean) / np.pi) ** 2 + 0.5 * (b * spread / 2.5) ** 2
    weight = np.exp(values - values.max())
    weight /= weight.sum()
    means = weight @ theta
    return means, np.sqrt(weight @ (theta - means) ** 2)


def test_the_answer_is_that_of_a_grid_after_one_pass_over_all_rows(evaluated):
    frame, protocol, x, reports = survey(2.0)
    found = lb.regress(frame, "a ~ x", protocol, report="report", random_seed=1)
    assert found.attrs["converged"] and found.attrs["method"] == "weighted"
    assert sorted(evaluated)[-1] == 4096 and evaluated.count(4096) == 1
    assert sum(evaluated) < 10_000  # 512, 1,024 and 4,096, axes after each, and 200 for frequencies
    values = found["posterior"]["coefficients"].sel(category="1").values.reshape(-1, 2)
    stay = np.exp(2.0) / (1 + np.exp(2.0))
    means, sds = by_a_grid(x, reports, stay, values.mean(axis=0), np.cov(values.T))
    summary = found["summary"].to_dataset().sel(category="1")
    np.testing.assert_allclose(summary["coefficients_mean"], means, atol=0.08 * sds.min())  # 5 errors of 4,000 draws
    np.testing.assert_allclose(summary["coefficients_sd"], sds, rtol=0.06)
    for end, way in (("lower", -1), ("upper", 1)):  # nearly normal, by the number of reports
        np.testing.assert_allclose((summary[f"coefficients_{end}"] - means) / sds, 1.96 * way, atol=0.2)
