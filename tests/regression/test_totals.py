"""Known totals as data: posteriors on grids, constrained maxima of SciPy, samples with weights, and what they say."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import cli
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError
from ldpbayes.protocols.designs import warner

DEVICE = warner(0.8)


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(1)
    g = rng.integers(0, 2, 400)
    truth = rng.random(400) < stats.logistic.cdf(-1.2 + 1.0 * g)
    return pd.DataFrame({"g": g, "sent": DEVICE.privatize(truth.astype(int), rng)})


def regressed(frame, formula="trait ~ g", **settings):
    return lb.regress(frame, formula, DEVICE, report="sent", **({"random_seed": 1} | settings))


def log_likelihood(beta, frame):
    """Return log P(reports) at coefficients (…, 2)."""
    total = 0.0
    for (g, sent), count in frame.groupby(["g", "sent"]).size().items():
        share = stats.logistic.cdf(beta[..., 0] + g * beta[..., 1])
        total = total + count * np.log(DEVICE.channel()[sent, 1] * share + DEVICE.channel()[sent, 0] * (1 - share))
    return total


@pytest.mark.filterwarnings("ignore:.*prior", "ignore:Known totals")
@pytest.mark.parametrize(("total", "sd"), [(0.25, 0.02), (0.45, 0.01)])
def test_the_posterior_is_that_of_a_grid(survey, total, sd):
    found = regressed(survey, totals={"yes": (total, sd)})
    m, spread = survey["g"].mean(), survey["g"].std(ddof=0)
    centre, z = np.meshgrid(np.linspace(-6, 4, 901), np.linspace(-4, 4, 801), indexing="ij")
    slope = 2.5 * z / spread
    beta = np.stack([centre - m * slope, slope], axis=-1)
    shares = stats.logistic.cdf(beta[..., :1] + beta[..., 1:] * np.array([0, 1]))
    mean = shares @ np.array([1 - m, m])
    value = log_likelihood(beta, survey) + stats.norm.logpdf(centre, 0, np.pi) + stats.norm.logpdf(z)
    value += stats.norm.logpdf(total, mean, sd)
    weight = np.exp(value - value.max())
    weight /= weight.sum()
    draws = found["posterior"]["distribution"].sel(category="yes")
    assert float(draws.mean()) == pytest.approx((weight * mean).sum(), abs=sd / 20)
    assert float(draws.std()) == pytest.approx(np.sqrt((weight * (mean - (weight * mean).sum()) ** 2).sum()), rel=0.06)
    difference = lb.comparisons(found, "g").sel(category="yes")
    expected = (weight * (shares[..., 1] - shares[..., 0])).sum()
    assert difference["mean"].item() == pytest.approx(expected, abs=0.004)
    assert "totals" in str(lb.show(found))


@pytest.mark.filterwarnings("ignore:Known totals")
def test_an_exact_total_holds_within_what_draws_leave_open(survey):
    free, found = regressed(survey), regressed(survey, totals={"yes": 0.25})
    sd = float(free["posterior"]["distribution"].sel(category="yes").std())
    draws = found["posterior"]["distribution"].sel(category="yes")
    assert found.attrs["converged"] and abs(draws - 0.25).max() < sd / 10
    assert "exact" in str(lb.show(found))


@pytest.mark.filterwarnings("ignore:Known totals")
def test_exact_maximum_likelihood_is_that_under_the_constraint(survey):
    found = regressed(survey, totals={"yes": 0.25}, method="mle")
    m = survey["g"].mean()

    def total(beta):
        return (1 - m) * stats.logistic.cdf(beta[0]) + m * stats.logistic.cdf(beta[0] + beta[1]) - 0.25

    best = optimize.minimize(
        lambda beta: -log_likelihood(beta, survey),
        [-1, 0.5],
        constraints={"type": "eq", "fun": total},
        method="SLSQP",
        tol=1e-10,
    )
    np.testing.assert_allclose(found.coefficients.sel(category="yes"), best.x, atol=2e-3)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=0.02)
    assert np.isnan(found.aic) and "criterion" in found.fit
    free = regressed(survey, method="mle")
    share = total(free.coefficients.sel(category="yes").values) + 0.25
    there = regressed(survey, totals={"yes": share}, method="mle")
    np.testing.assert_allclose(there.coefficients, free.coefficients, atol=1e-6)
    assert (there.standard_errors.sel(category="yes", term="Intercept") < free.standard_errors.sel(category="yes")[0]).all()


@pytest.mark.filterwarnings("ignore:.*[Pp]rior")
@pytest.mark.parametrize("method", ["auto", "mle"])
def test_a_total_that_reports_contradict_is_announced(survey, method):
    with pytest.warns(DiagnosticWarning, match=r"totals.*yes"):
        regressed(survey, totals={"yes": (0.9, 0.01)}, method=method, **({} if method == "mle" else {"draws": 250}))


def test_totals_of_samples_groups_and_several_categories():
    rng = np.random.default_rng(2)
    n, device = 1500, lb.GRR(3, 2.0)
    region, w = rng.integers(0, 6, n), rng.choice([1.0, 3.0], n)
    sent = device.privatize(rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng)
    frame = pd.DataFrame({"region": region.astype(str), "w": w, "sent": sent})
    totals = {"1": (0.25, 0.005), "2": 0.22}
    found = lb.regress(frame, "x ~ (1 | region)", device, report="sent", totals=totals, random_seed=1, draws=250)
    mean = found["summary"]["mean"].sel(target="distribution")
    assert found.attrs["converged"]
    assert float(mean.sel(category="1")) == pytest.approx(0.25, abs=0.01)
    assert float(mean.sel(category="2")) == pytest.approx(0.22, abs=0.002)
    weighted = lb.regress(frame, "x ~ 1", device, report="sent", weights="w", totals=totals, random_seed=1, draws=250)
    assert float(weighted["summary"]["mean"].sel(target="distribution", category="2")) == pytest.approx(0.22, abs=0.002)
    with pytest.raises(InfeasibleError):
        lb.regress(frame, "x ~ (1 | region)", device, report="sent", totals=totals, method="mle")


@each_row(
    "totals, word",
    [
        ({"perhaps": 0.2}, "perhaps"),
        ({"yes": 1.2}, "yes"),
        ({"yes": (0.2, -1)}, "yes"),
        ({"yes": 0.2, "no": 0.8}, "categories"),
        (0.2, "totals"),
        ({}, "totals"),
    ],
)
def test_what_is_no_total_is_one_sentence(survey, totals, word):
    with pytest.raises(ArgumentError, match=word):
        regressed(survey, totals=totals)


def test_totals_on_the_command_line(survey, tmp_path, capsys):
    survey.to_csv(tmp_path / "survey.csv", index=False)
    stated = ["--protocol", "warner", "-p", "p=0.8", "--report", "sent", "--categories", "0,1", "--method", "mle"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["regress", str(tmp_path / "survey.csv"), "trait ~ g", *stated, "--total", "1=0.25,0.01", "--explain"])
    assert not ended.value.code and "totals" in capsys.readouterr().out
