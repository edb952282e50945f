"""Links of two answers: likelihoods written down anew and maximised by SciPy, priors, predictions and pages."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import ldpbayes as lb
from ldpbayes.errors import ArgumentError
from ldpbayes.inference.structure import curvature
from ldpbayes.priors.links import LINKS
from ldpbayes.priors.regression import Regression
from ldpbayes.protocols.designs import forced_response, warner

DEVICES = {"die": forced_response(2 / 3, (1, 1)), "cross": warner(0.75)}
#: Shares by η, in other words than the package's.
SHARES = {
    "probit": stats.norm.cdf,
    "cloglog": lambda x: stats.gumbel_l.cdf(x),
    "cauchit": stats.cauchy.cdf,
}


@pytest.fixture(scope="module")
def survey():
    """Two devices, a number and a factor; a fifth to a half have the trait."""
    rng = np.random.default_rng(2)
    n = 3000
    x, g = rng.integers(-3, 4, n) / 2, rng.choice(["a", "b"], n)
    truth = (rng.random(n) < stats.norm.cdf(-0.6 + 0.5 * x + 0.4 * (g == "b"))).astype(int)
    mode = np.where(rng.random(n) < 0.5, "die", "cross")
    sent = np.where(mode == "die", DEVICES["die"].privatize(truth, rng), DEVICES["cross"].privatize(truth, rng))
    return pd.DataFrame({"report": np.array(["no", "yes"])[sent], "x": x, "g": g, "mode": mode, "sent": sent})


def regressed(survey, link, **settings):
    stated = {"design": "mode", "report": "report", "categories": ["no", "yes"], "link": link}
    return lb.regress(survey, "trait ~ x + g", DEVICES, **(stated | settings))


def negative(beta, survey, link, event=1):
    """Minus the log-likelihood of the reports, from the channels of the devices."""
    columns = np.column_stack([np.ones(len(survey)), survey["x"], survey["g"] == "b"])
    p = SHARES[link](columns @ beta)
    channels = np.stack([DEVICES["die"].channel(), DEVICES["cross"].channel()])
    rows = channels[(survey["mode"] == "cross").to_numpy(int), survey["sent"]]
    return -np.log(rows[:, event] * p + rows[:, 1 - event] * (1 - p)).sum()


@pytest.mark.parametrize("link", SHARES)
def test_maximum_likelihood_is_that_of_scipy(survey, link):
    found = regressed(survey, link, method="mle")
    best = optimize.minimize(negative, np.array([-0.5, 0.3, 0.3]), (survey, link), method="BFGS", options={"gtol": 1e-3})
    estimate = found.coefficients.sel(category="yes").values
    np.testing.assert_allclose(estimate, best.x, atol=2e-4)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-6)
    information = curvature(
        lambda b: optimize.approx_fprime(b, lambda at: -negative(at, survey, link), 1e-6), estimate, 1e-3
    )
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(found.standard_errors.sel(category="yes"), errors, rtol=2e-3)


def test_the_event_of_the_complementary_log_log_is_not_the_reference(survey):
    found = regressed(survey, "cloglog", method="mle", reference="yes")
    estimate = found.coefficients.sel(category="no").values
    best = optimize.minimize(negative, estimate, (survey, "cloglog", 0), method="BFGS", options={"gtol": 1e-3})
    np.testing.assert_allclose(estimate, best.x, atol=2e-4)


@pytest.mark.parametrize("link", SHARES)
def test_posterior_of_many_reports_is_near_the_maximum(survey, link):
    many = pd.concat([survey] * 10)
    found, best = regressed(many, link, random_seed=1), regressed(many, link, method="mle")
    assert found.attrs["converged"]
    mean, sd = (
        found["posterior"]["coefficients"].sel(category="yes").reduce(f, ("chain", "draw")) for f in (np.mean, np.std)
    )
    gap = (mean - best.coefficients.sel(category="yes")) / sd
    assert np.abs(gap).max() < 0.35
    np.testing.assert_allclose(sd, best.standard_errors.sel(category="yes"), rtol=0.1)


@pytest.mark.filterwarnings("ignore:.*prior")
@pytest.mark.parametrize("link", SHARES)
def test_posterior_is_that_of_a_grid(survey, link):
    """An intercept and a factor of few reports, on a grid over the log odds at the average and a standardised slope."""
    few = survey.iloc[:80]
    found = lb.regress(
        few, "trait ~ g", DEVICES, design="mode", report="report", categories=["no", "yes"], link=link, random_seed=1
    )
    t, b = (axis.ravel() for axis in np.meshgrid(np.linspace(-16, 16, 321), np.linspace(-6, 6, 241), indexing="ij"))
    g = (few["g"] == "b").to_numpy(float)
    slope = b * 2.5 * LINKS[link].unit / g.std()
    inverse = {"probit": stats.norm.ppf, "cloglog": stats.gumbel_l.ppf, "cauchit": stats.cauchy.ppf}[link]
    eta = inverse(1 / (1 + np.exp(-t)))[:, None] + slope[:, None] * (np.array([0.0, 1.0]) - g.mean())
    p = SHARES[link](eta)
    value = stats.norm.logpdf(t, 0, np.pi) + stats.norm.logpdf(b)
    for (mode, sent, level), count in few.groupby(["mode", "sent", "g"]).size().items():
        row, share = DEVICES[mode].channel()[sent], p[:, int(level == "b")]
        value = value + count * np.log(row[1] * share + row[0] * (1 - share))
    weight = np.exp(value - value.max())
    weight /= weight.sum()
    expected = weight @ (p @ np.array([1 - g.mean(), g.mean()])), weight @ (p[:, 1] - p[:, 0])
    mean = found["summary"]["mean"].sel(target="distribution", category="yes").item()
    difference = lb.comparisons(found, "g")
    assert mean == pytest.approx(expected[0], abs=0.006)
    assert difference["mean"].sel(category="yes").item() == pytest.approx(expected[1], abs=0.012)


@pytest.mark.parametrize("link", LINKS)
def test_gradients_and_curvatures_are_differences(link):
    x = np.linspace(-6, 1.5, 31)
    h, of = 1e-5, LINKS[link]
    np.testing.assert_allclose((of.log_odds(x + h) - of.log_odds(x - h)) / (2 * h), of.slope(x), rtol=1e-6)
    np.testing.assert_allclose((of.slope(x + h) - of.slope(x - h)) / (2 * h), of.curvature(x), rtol=1e-5, atol=1e-7)
    t = np.array([-600.0, -20, -1, -1e-9, 0.5, 5, 30])
    np.testing.assert_allclose(of.log_odds(of.of_log_odds(t)), t, rtol=1e-9, atol=1e-12)
    rng = np.random.default_rng(1)
    prior = Regression(np.column_stack([np.ones(5), rng.normal(size=5)]), link=link)
    z, slope = rng.normal(size=2), rng.normal(size=(5, 2))
    pulled = [(slope * (prior.logits_of(z + d) - prior.logits_of(z - d))).sum() / 2e-5 for d in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(prior.pullback_logits(z, slope), pulled, rtol=1e-7)


@pytest.mark.parametrize("link", LINKS)
def test_the_share_at_average_covariates_has_one_prior(link):
    prior, log_odds = Regression(np.ones((1, 1)), link=link), Regression(np.ones((1, 1)))
    z = np.linspace(-4, 4, 9)[:, None]
    np.testing.assert_allclose(prior.to_simplex(z), log_odds.to_simplex(z), rtol=1e-10)


def test_what_a_link_says_of_itself(survey, tmp_path):
    found = regressed(survey, "probit", random_seed=1, draws=100)
    for result in (found, regressed(survey, "probit", method="mle")):
        text = str(lb.show(result))
        assert "probit" in text and "log odds" not in text.replace("log odds at average", "") and "odds ratio" not in text
        with pytest.raises(ArgumentError, match="probit"):
            lb.answers.odds_ratio(result)
    lb.save(found, tmp_path / "found.nc")
    opened = lb.load(tmp_path / "found.nc")
    frame = pd.DataFrame({"x": [0.0, 1.0], "g": ["a", "b"]})
    shares = lb.predictions(opened, frame)["mean"].sel(category="yes").values
    draws = found["posterior"]["coefficients"].sel(category="yes").values.reshape(-1, 3)
    np.testing.assert_allclose(shares, stats.norm.cdf(draws @ np.array([[1, 0, 0], [1, 1, 1]]).T).mean(axis=0), rtol=1e-9)
    found.extend("log_likelihood")
    logs = found["log_likelihood"].to_dataset()["reports"].values.reshape(len(draws), -1).sum(axis=1)
    assert logs == pytest.approx([-negative(beta, survey, "probit") for beta in draws], abs=1e-6)


def test_links_beside_what_else_a_regression_has(survey):
    weighted = survey.assign(w=np.where(survey["g"] == "a", 1.0, 2.0))
    plain, found = (regressed(weighted, link, weights="w", method="mle") for link in ("logit", "probit"))
    ratio = (found.coefficients / found.standard_errors) / (plain.coefficients / plain.standard_errors)
    np.testing.assert_allclose(ratio.sel(category="yes", term="x"), 1, atol=0.1)
    drawn = regressed(weighted, "probit", weights="w", random_seed=1)
    sd = drawn["posterior"]["coefficients"].std(("chain", "draw")).sel(category="yes")
    np.testing.assert_allclose(sd, found.standard_errors.sel(category="yes"), rtol=0.15)
    with pytest.raises(ArgumentError, match="probit"):
        lb.regress(survey, "trait ~ x", lb.GRR(3, 2.0), report="sent", link="probit")


def test_a_link_with_groups_and_deniers():
    rng = np.random.default_rng(4)
    n = 1500
    region, x = rng.integers(0, 8, n), rng.integers(0, 3, n)
    truth = (rng.random(n) < stats.norm.cdf(-0.3 + 0.4 * x + rng.normal(0, 0.4, 8)[region])).astype(int)
    mode = np.where(rng.random(n) < 0.5, "cross", "direct")
    direct = np.where(rng.random(n) < 0.7, truth, 0)
    sent = np.where(mode == "cross", DEVICES["cross"].privatize(truth, rng), direct)
    frame = pd.DataFrame({"sent": sent, "x": x, "region": region.astype(str), "mode": mode})
    asked = {"cross": DEVICES["cross"], "direct": lb.protocols.direct()}
    found = lb.regress(
        frame,
        "trait ~ x + (1 | region)",
        asked,
        design="mode",
        report="sent",
        categories=["no", "yes"],
        deniers={"of": "yes", "say": "no", "channel": "direct"},
        link="probit",
        draws=250,
        random_seed=1,
    )
    assert found.attrs["converged"]
    mean, sd = (float(found["posterior"]["denial"].reduce(f)) for f in (np.mean, np.std))
    assert abs(mean - 0.3) < 3 * sd
