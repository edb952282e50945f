"""Regression through a device whose probabilities are not known exactly, against importance weights of plain NumPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm, t

import ldpbayes as lb
from ldpbayes.errors import InfeasibleError
from ldpbayes.protocols import Channel, Uncertain, warner

TEST = Channel(counts=[[95, 12], [5, 88]], answers=["negative", "positive"])
COUNTS = {-1: [140, 60], 1: [100, 100]}


def table():
    rows = [(x, answer, n) for x, counts in COUNTS.items() for answer, n in zip(TEST.answers, counts, strict=True)]
    return pd.DataFrame(rows, columns=["x", "test", "n"])


def fitted(device=TEST, **settings):
    return lb.regress(table(), "test ~ x", device, categories=["no", "yes"], count="n", random_seed=1, **settings)


def weighted(device, result, size=200_000):
    """Return (means, sds) of the coefficients and of Q[1, 1]: draws about the coefficients' posterior, weighted anew."""
    rng = np.random.default_rng(0)
    prior_sd = result["constant_data"]["coefficient_prior_sd"].sel(category="yes").values
    proposal = t(4, result["posterior"]["coefficients"].sel(category="yes").mean(("chain", "draw")).values, [0.4, 0.3])
    b, q = proposal.rvs((size, 2), random_state=rng), device.law.channel(device.law.sample(size, rng))
    log_weight = (norm(0, prior_sd).logpdf(b) - proposal.logpdf(b)).sum(axis=1)
    for x, counts in COUNTS.items():
        share = expit(b @ [1, x])
        log_weight += np.log(q[:, :, 0] * (1 - share)[:, None] + q[:, :, 1] * share[:, None]) @ counts
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 4000
    values = np.column_stack([b, q[:, 1, 1]])
    mean = weight @ values
    return mean, np.sqrt(weight @ (values - mean) ** 2)


@pytest.mark.parametrize(("device", "name"), [(TEST, "positive given yes"), (warner(Uncertain((90, 10))), "p")])
def test_coefficients_against_importance_weights(device, name):
    data = table()
    data["test"] = [device.answers[TEST.answers.index(answer)] for answer in data["test"]]
    result = lb.regress(data, "test ~ x", device, categories=["no", "yes"], count="n", random_seed=1)
    mean, sd = weighted(device, result)
    draws = result["posterior"]
    found = [draws["coefficients"].sel(category="yes", term=term) for term in ("Intercept", "x")] + [draws[name]]
    for one, m, s in zip(found, mean, sd, strict=True):
        assert abs(float(one.mean()) - m) < 0.1 * s
        assert float(one.std()) == pytest.approx(s, rel=0.08)
    assert draws["distribution"].sizes["category"] == 2


def test_cells_and_a_table_are_one_regression():
    pairs = {x: lb.Collection(["no", "yes"], [lb.Tally(TEST, [0, 1], n)]) for x, n in COUNTS.items()}
    cells = lb.regress(lb.Cells(pairs, by="x"), "test ~ x", random_seed=1)
    both = [one["posterior"]["coefficients"].mean(("chain", "draw")).values for one in (cells, fitted())]
    np.testing.assert_allclose(both[0], both[1], atol=1e-8)


def test_an_uncertain_device_widens_intervals():
    both = (fitted(device)["posterior"]["coefficients"].sel(category="yes") for device in (TEST, TEST.known()))
    uncertain, known = (draws.std(("chain", "draw")) for draws in both)
    assert (uncertain > known).all()


def test_maximum_likelihood_needs_a_known_device():
    with pytest.raises(InfeasibleError, match=r"known\(\).*both ends"):
        fitted(method="mle")


def test_only_the_intercept_may_exclude_zero():
    """Half of a thousand people say yes at x = -1 and at x = 1: of two coefficients the intercept is clear."""
    data = pd.DataFrame({"x": [-1, -1, 1, 1], "test": [0, 1, 0, 1], "n": [700, 300, 700, 300]})
    found = lb.regress(data, "test ~ x", warner(0.9), report="test", count="n", random_seed=1)
    assert "but the intercept" in found.page().summary


def test_the_gradient_is_that_of_the_density():
    from ldpbayes.regression.devices import Tried

    rng = np.random.default_rng(1)
    device = Channel(counts=[[40, 3, 1], [5, 30, 4], [1, 2, 25]]).law
    design = np.column_stack([np.ones(4), rng.standard_normal(4)])
    prior = Tried(design, ("Intercept", "x"), 3, 2.5, (), np.ones(4), **Tried.settings(device, 4))
    z, slope = 0.3 * rng.standard_normal(prior.n_unknowns), rng.standard_normal((4, 9))
    steps = 1e-6 * np.eye(z.size)
    numeric = [((prior.kinds(z + e) - prior.kinds(z - e)) * slope).sum() / 2e-6 for e in steps]
    kinds = prior.kinds(z)
    np.testing.assert_allclose(kinds.sum(axis=1), 1)
    of_logits = kinds * (slope - (kinds * slope).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(prior.pullback_logits(z, of_logits), numeric, atol=1e-7)
    density = [(prior.log_density(z + e) - prior.log_density(z - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(prior.gradient(z), density, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*[Pp]rior")
@pytest.mark.parametrize(
    "device",
    [
        TEST,
        Channel(counts=[[40, 3], [5, 30], [1, 9]], answers=["negative", "positive", "unclear"]),
        warner(Uncertain((90, 10))),
    ],
)
def test_the_log_likelihood_of_reports_is_that_of_the_drawn_devices(device):
    data = table()
    data["test"] = [device.answers[TEST.answers.index(answer)] for answer in data["test"]]
    result = lb.regress(data, "test ~ x", device, categories=["no", "yes"], count="n", random_seed=1, draws=250)
    result.extend("log_likelihood", by="cell")
    draws = result["posterior"].to_dataset().isel(chain=0)
    law = device.law.named([_named(names, device) for names, _ in device.law.unknowns])
    q = law.channel(law.theta_of(lambda name: draws[name].values))
    b, order = draws["coefficients"].sel(category="yes").values, [device.answers.index(data["test"][k]) for k in range(2)]
    expected = []
    for x, counts in COUNTS.items():
        share = expit(b @ [1, x])
        expected.append(np.log(q[:, :, 0] * (1 - share)[:, None] + q[:, :, 1] * share[:, None])[:, order] @ counts)
    found = result["log_likelihood"]["reports"].values[0]
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(np.stack(expected, axis=1), axis=1), atol=1e-8)


def _named(names, device):
    """Return the names that a result gives the entries of a matrix."""
    return tuple(
        f"{device.answers[name[0]]} given {['no', 'yes'][name[1]]}" if isinstance(name, tuple) else name for name in names
    )
