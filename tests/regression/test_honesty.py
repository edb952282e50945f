"""The stochastic lie detector, cheater detection and deniers: a logit of the prevalence beside a share of honest people."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.inference.structure import curvature
from ldpbayes.protocols import cheater_detection, stochastic_lie_detector

SHARES = {
    "sld": lambda pi, honest, p: pi * honest + (1 - pi) * (1 - p),
    "cdm": lambda pi, honest, p: honest * (pi + (1 - pi) * p),
}
DEVICES = {"sld": (stochastic_lie_detector, (0.2, 0.8)), "cdm": (cheater_detection, (0.15, 0.6))}


def simulated(name, n=6000, honest=0.8, seed=1):
    """Two groups with different p; one covariate."""
    make, p = DEVICES[name]
    rng = np.random.default_rng(seed)
    x, group = rng.integers(0, 4, n), rng.integers(0, 2, n)
    pi = stats.logistic.cdf(-1 + 0.5 * x)
    yes = rng.random(n) < SHARES[name](pi, honest, np.array(p)[group])
    frame = pd.DataFrame({"x": x, "group": group.astype(str), "report": np.where(yes, "yes", "no")})
    return frame, {"0": make(p[0]), "1": make(p[1])}


def negative(theta, name, frame):
    """Minus the log-likelihood, at the coefficients and the logit of the share who are honest."""
    p = np.array(DEVICES[name][1])[frame["group"].astype(int)]
    share = SHARES[name](stats.logistic.cdf(theta[0] + theta[1] * frame["x"]), stats.logistic.cdf(theta[2]), p)
    return -np.where(frame["report"] == "yes", np.log(share), np.log1p(-share)).sum()


@pytest.mark.parametrize("name", SHARES)
def test_maximum_likelihood_is_that_of_scipy(name):
    frame, devices = simulated(name)
    found = lb.regress(frame, "trait ~ x", devices, design="group", report="report", method="mle")
    best = optimize.minimize(negative, np.array([-1, 0.5, 1.4]), (name, frame), method="BFGS", options={"gtol": 1e-3})
    np.testing.assert_allclose(found.coefficients.sel(category="yes"), best.x[:2], atol=5e-4)
    delta = 1 - stats.logistic.cdf(best.x[2])
    np.testing.assert_allclose(found["denial"], delta, atol=2e-4)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-5) and found.n_parameters == 3
    information = curvature(lambda t: optimize.approx_fprime(t, lambda at: -negative(at, name, frame), 1e-6), best.x, 1e-3)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(found.standard_errors.sel(category="yes"), errors[:2], rtol=5e-3)
    np.testing.assert_allclose(found["denial_errors"], errors[2] * delta * (1 - delta), rtol=5e-3)
    shares = stats.logistic.cdf(best.x[0] + best.x[1] * frame["x"])
    slope = np.array([(shares * (1 - shares) * column).mean() for column in (1, frame["x"])])
    average = np.sqrt(slope @ np.linalg.inv(information)[:2, :2] @ slope)
    np.testing.assert_allclose(found["average"].sel(category="yes"), shares.mean(), atol=2e-4)
    np.testing.assert_allclose(found["average_errors"], average, rtol=5e-3)
    assert list(found["denied"].values) == (["yes"] if name == "sld" else ["no", "yes"])
    assert "denies" in str(lb.show(found))


@pytest.mark.parametrize("name", SHARES)
def test_the_posterior_is_that_of_a_grid(name):
    """The intercept alone: P and the share who are honest on a grid, under their priors."""
    frame, devices = simulated(name, 800, seed=2)
    found = lb.regress(frame, "trait ~ 1", devices, design="group", report="report", random_seed=1)
    t, honest = np.meshgrid(np.linspace(-12, 12, 801), np.linspace(0, 1, 402)[1:-1], indexing="ij")
    pi, value = stats.logistic.cdf(t), stats.norm.logpdf(t, 0, np.pi)
    for (group, report), count in frame.groupby(["group", "report"]).size().items():
        share = SHARES[name](pi, honest, DEVICES[name][1][int(group)])
        value = value + count * np.log(share if report == "yes" else 1 - share)
    weight = np.exp(value - value.max())
    weight /= weight.sum()
    mean = found["summary"]["mean"].sel(target="distribution", category="yes").item()
    assert mean == pytest.approx((weight * pi).sum(), abs=0.004)
    for denial in found["posterior"]["denial"].mean(("chain", "draw")).values:
        assert denial == pytest.approx((weight * (1 - honest)).sum(), abs=0.006)


def test_labels_formulas_of_the_honest_and_log_likelihoods():
    frame, devices = simulated("cdm", 2000)
    frame["report"] = frame["report"].map({"no": 0, "yes": 1})
    settings = {"design": "group", "report": "report", "categories": ["clean", "doped"], "random_seed": 1, "draws": 100}
    found = lb.regress(frame, "doping ~ x", devices, deniers="x", link="probit", **settings)
    assert list(found["posterior"]["category"].values) == ["clean", "doped"]
    coefficients = found["posterior"]["denial_coefficients"]
    assert coefficients.shape[2:] == (2, 2) and (coefficients[..., 0] == coefficients[..., 1]).all()
    found.extend("log_likelihood")
    logs = found["log_likelihood"]["reports"].values[0, 0]
    beta, delta = (found["posterior"][k].values[0, 0] for k in ("coefficients", "denial_coefficients"))
    p = np.array(DEVICES["cdm"][1])[frame["group"].astype(int)]
    honest = 1 - stats.logistic.cdf(delta[0, 0] + delta[1, 0] * frame["x"])
    share = SHARES["cdm"](stats.norm.cdf(beta[0, 1] + beta[1, 1] * frame["x"]), honest, p)
    np.testing.assert_allclose(np.sort(logs), np.sort(np.where(frame["report"], np.log(share), np.log1p(-share))), rtol=1e-9)
    with pytest.raises(ArgumentError):
        lb.regress(frame, "doping ~ x", devices, deniers={"of": "doped"}, **settings)


def test_cells_of_these_designs_are_as_their_table():
    frame, devices = simulated("sld", 3000)
    cells = {
        str(x): lb.Collection(
            ["honest", "lying", "none"],
            [
                lb.Tally(
                    device,
                    [0, 1],
                    [int(((part["group"] == key) & (part["report"] == w)).sum()) for w in ("no", "yes")],
                    key,
                )
                for key, device in devices.items()
            ],
        )
        for x, part in frame.groupby("x")
    }
    survey = lb.Cells(cells, by="k", covariates={"x": list(map(int, cells))})
    found = lb.regress(survey, "trait ~ x", method="mle")
    table = lb.regress(frame, "trait ~ x", devices, design="group", report="report", method="mle")
    np.testing.assert_allclose(found.coefficients, table.coefficients, atol=1e-6)
    np.testing.assert_allclose(found["denial"], table["denial"], atol=1e-6)


def test_everybody_honest_is_the_end_of_the_range():
    rng = np.random.default_rng(0)
    device, n = stochastic_lie_detector(0.3), 2000
    frame = pd.DataFrame({"g": rng.integers(0, 2, n)})
    # More "yes" than honest carriers explain.
    frame["report"] = np.where(rng.random(n) < np.where(frame["g"] == 0, 0.9, 0.54), "yes", "no")
    devices = {0: device, 1: stochastic_lie_detector(0.9)}
    with pytest.raises(InfeasibleError, match="deny"):
        lb.regress(frame, "trait ~ 1", devices, design="g", report="report", method="mle")


def test_deniers_have_a_maximum_and_lists_none():
    rng = np.random.default_rng(3)
    n = 4000
    truth, mode = rng.random(n) < 0.4, rng.integers(0, 2, n)
    device = lb.protocols.warner(0.8)
    sent = np.where(mode, truth & (rng.random(n) < 0.7), device.privatize(truth.astype(int), rng)).astype(int)
    frame = pd.DataFrame({"sent": sent, "mode": np.where(mode, "direct", "device")})
    asked = {"device": device, "direct": lb.protocols.direct()}
    stated = {"design": "mode", "report": "sent", "categories": ["no", "yes"], "method": "mle"}
    found = lb.regress(frame, "trait ~ 1", asked, deniers={"of": "yes", "say": "no", "channel": "direct"}, **stated)
    share, direct = (frame["sent"][frame["mode"] == name].mean() for name in ("device", "direct"))
    expected = (share - 0.2) / 0.6
    assert stats.logistic.cdf(found.coefficients[0, 1].item()) == pytest.approx(expected, abs=1e-6)
    assert found["denial"].item() == pytest.approx(1 - direct / expected, abs=1e-6)
    with pytest.raises(InfeasibleError):
        lb.regress(
            frame.assign(w=1.0 + frame["sent"]),
            "trait ~ 1",
            asked,
            weights="w",
            deniers={"of": "yes", "say": "no", "channel": "direct"},
            **stated,
        )
