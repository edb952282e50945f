"""Maximum likelihood with effects of groups: marginal likelihoods by quadrature that is written down anew."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp, softmax

import ldpbayes as lb
from ldpbayes.errors import InfeasibleError
from ldpbayes.protocols.designs import forced_response, warner

INVERSE = {"logit": stats.logistic.cdf, "probit": stats.norm.cdf, "cloglog": stats.gumbel_l.cdf, "cauchit": stats.cauchy.cdf}
#: Device, link, groups, people, sd between groups, and whether a slope varies too.
DESIGNS = {
    "die": (forced_response(2 / 3, (1, 1)), "logit", 15, 1500, 0.8, False),
    "warner": (warner(0.75), "logit", 30, 1500, 1.5, False),
    "warner, few": (warner(0.8), "logit", 10, 150, 1.0, False),
    "open": (lb.protocols.direct(), "logit", 20, 200, 1.0, False),
    "probit": (warner(0.8), "probit", 20, 1200, 0.6, False),
    "cloglog": (forced_response(0.7, (0.5, 0.5)), "cloglog", 20, 1200, 0.6, False),
    "cauchit": (warner(0.85), "cauchit", 20, 1200, 0.8, False),
    "no spread": (warner(0.8), "logit", 20, 600, 0.0, False),
    "slopes": (warner(0.85), "logit", 12, 1500, 1.0, True),
    "three": (lb.GRR(3, 2.0), "logit", 12, 1200, 1.0, False),
}


def simulated(device, link, groups, people, sd, slopes, a=2):
    rng = np.random.default_rng(5)
    g, x = rng.integers(0, groups, people), rng.integers(-2, 3, people).astype(float)
    effects = rng.normal(0, sd / np.sqrt(2), (groups, a))
    eta = np.stack([0.6 - 0.3 * x, 0.2 * x, 0.1 * x][:a], axis=1) + effects[g]
    if slopes:
        eta += rng.normal(0, 0.5, (groups, a))[g] * x[:, None]
    p = softmax(eta, axis=1)
    if a == 2:
        p1 = INVERSE[link](eta[:, 1] - eta[:, 0])
        p = np.stack([1 - p1, p1], axis=1)
    truth = (rng.random(people)[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return pd.DataFrame({"sent": device.privatize(truth, rng), "x": x, "g": np.char.add("g", g.astype(str)), "group": g})


def marginal(frame, device, link, slopes, a, nodes):
    """Return θ → log P(reports), by a fixed grid over each effect; θ is coefficients without the reference, and σ."""
    at = np.linspace(-6, 6, nodes)
    log_weight = stats.norm.logpdf(at) + np.log(at[1] - at[0])
    number = (a - 1) * (1 + slopes)
    grid = np.stack(np.meshgrid(*[at] * number, indexing="ij"), axis=-1).reshape(-1, number)
    log_weight = np.stack(np.meshgrid(*[log_weight] * number, indexing="ij")).reshape(number, -1).sum(axis=0)
    cells = frame.groupby(["group", "x", "sent"]).size().reset_index(name="count")
    x, row = cells["x"].to_numpy(), device.channel()[cells["sent"]]
    # Effects between categories: contrasts that are orthonormal and sum to zero.
    basis = np.array([[-1, 1]]) / np.sqrt(2) if a == 2 else np.array([[-1, 1, 0], [-1, -1, 2]]) / np.sqrt([[2], [6]])
    centred, unit = x - frame["x"].mean(), frame["x"].std(ddof=0)

    def value(theta):
        beta = np.column_stack([np.zeros(2), theta[: 2 * (a - 1)].reshape(2, a - 1)])
        sd = theta[2 * (a - 1) :] / np.sqrt(2)
        fixed = beta[0] + x[:, None] * beta[1]
        moved = sd[0] * grid[:, : a - 1] @ basis
        eta = fixed[:, None] + moved
        if slopes:
            eta = eta + (centred / unit)[:, None, None] * (sd[1] * grid[:, a - 1 :] @ basis)
        if a == 2:
            p1 = INVERSE[link](eta[..., 1] - eta[..., 0])
            u = row[:, :1] * (1 - p1) + row[:, 1:] * p1
        else:
            u = (softmax(eta, axis=-1) * row[:, None]).sum(axis=-1)
        logs = cells["count"].to_numpy()[:, None] * np.log(u)
        each = np.zeros((frame["group"].max() + 1, len(grid)))
        np.add.at(each, cells["group"].to_numpy(), logs)
        return logsumexp(each + log_weight, axis=1).sum()

    return value


@pytest.mark.calibrated("warner", "open", "probit", "cloglog")
@pytest.mark.parametrize("name", DESIGNS)
def test_the_maximum_is_that_of_quadrature(name):
    device, link, groups, people, sd, slopes = DESIGNS[name]
    a = device.n_categories
    frame = simulated(device, link, groups, people, sd, slopes, a)
    formula = "trait ~ x + (x | g)" if slopes else "trait ~ x + (1 | g)"
    found = lb.regress(frame, formula, device, report="sent", method="mle", link=link)
    value = marginal(frame, device, link, slopes, a, 35 if slopes or a == 3 else 201)
    spread = found["group_sd"].values * ([1, frame["x"].std(ddof=0)] if slopes else 1)
    theta = np.append(found.coefficients.values[:, 1:].ravel(), spread)
    assert found.log_likelihood == pytest.approx(value(theta), abs=2e-3)
    searched = {"maxfev": 60 if a == 2 and not slopes else 20}  # where a value takes 1,225 nodes
    best = optimize.minimize(lambda t: -value(t), theta, method="Nelder-Mead", options=searched)
    assert found.log_likelihood > -best.fun - 2e-3
    if sd == 0:
        return
    # Nobody moves the maximum along any axis.
    for k, error in enumerate(np.append(found.standard_errors.values[:, 1:].ravel(), 0.3 * spread)):
        for way in (-0.5, 0.5):
            assert value(theta + way * error * np.eye(theta.size)[k]) < found.log_likelihood + 2e-3


def test_crossed_factors_by_laplace():
    """Two factors of two and three levels, integrated on a grid over all five effects."""
    rng, device = np.random.default_rng(3), warner(0.85)
    g, h = rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    truth = (rng.random(900) < stats.logistic.cdf(0.3 + np.array([-0.8, 0.8])[g] + np.array([-1, 0.2, 0.8])[h])).astype(int)
    frame = pd.DataFrame({"sent": device.privatize(truth, rng), "g": g.astype(str), "h": h.astype(str)})
    found = lb.regress(frame, "trait ~ 1 + (1 | g) + (1 | h)", device, report="sent", method="mle")
    at = np.linspace(-4, 4, 17)
    grid = np.stack(np.meshgrid(*[at] * 5, indexing="ij"), axis=-1).reshape(-1, 5)
    beta, (first, second) = float(found.coefficients.sel(category="yes")[0]), found["group_sd"].values
    total = stats.norm.logpdf(grid).sum(axis=1) + 5 * np.log(at[1] - at[0])
    for (i, j, sent), count in frame.groupby([g, h, "sent"]).size().items():
        share = stats.logistic.cdf(beta + first * grid[:, i] + second * grid[:, 2 + j])
        total += count * np.log(device.channel()[sent, 1] * share + device.channel()[sent, 0] * (1 - share))
    assert found.log_likelihood == pytest.approx(logsumexp(total), rel=1e-3)
    text = str(lb.show(found))
    assert "Laplace" in text and "1|h" in text
    # The effects at their modes are where the reports are.
    assert (np.diff(found["1|h"].sel(category="yes")) > 0).all() and found["1|g"].shape == (2, 2)


def test_what_has_no_marginal_maximum_is_refused():
    frame = simulated(*DESIGNS["warner"]).assign(w=lambda f: 1 + (f["x"] > 0))
    with pytest.raises(InfeasibleError, match=r"1\|g"):
        lb.regress(frame, "trait ~ (1 | g)", DESIGNS["warner"][0], report="sent", weights="w", method="mle")
    with pytest.raises(InfeasibleError, match=r"mo\(x\)"):
        lb.regress(frame, "trait ~ mo(x)", DESIGNS["warner"][0], report="sent", method="mle")


def test_a_spread_of_zero_has_no_standard_error():
    groups = [{"g": g, "sent": sent, "n": 10 + 10 * sent} for g in "abcdef" for sent in (0, 1)]
    found = lb.regress(pd.DataFrame(groups), "trait ~ (1 | g)", warner(0.8), report="sent", count="n", method="mle")
    assert found["group_sd"].item() == 0 and found["group_sd_errors"].item() == 0
    assert "1|g" in found.attrs["outcome"] and found.n_parameters == 2
    share = stats.logistic.cdf(found.coefficients.sel(category="yes").item())
    assert 0.2 + 0.6 * share == pytest.approx(2 / 3, abs=1e-5)
