"""A private answer as predictor: sums over answers, grids, expectation-maximization, a textbook model, what is refused."""

import itertools
import json
import pathlib
import runpy
import shlex

import arviz as az
import commands
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import expit, logsumexp, softmax
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import examples
from ldpbayes.errors import ArgumentError, DataError, DiagnosticWarning, InfeasibleError
from ldpbayes.pages import show
from ldpbayes.protocols.designs import warner
from ldpbayes.regression import predictor_target
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree|Without any report)")

MODELS = pathlib.Path(__file__).parents[2] / "models"
DEVICE = warner(0.75)
LABELS = ("no", "yes")


def people(n=400, seed=1, device=DEVICE):
    """Return rows with a covariate, a factor, a report, and an outcome of each family."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(1, 2, n), rng.choice(["a", "b"], n)
    z = rng.random(n) < expit(-0.8 + 0.4 * (x - 1))
    eta = 0.2 + 0.1 * x + 1.2 * z
    outcomes = {
        "normal": 3 + 5 * eta + 4 * rng.normal(size=n),
        "bernoulli": (rng.random(n) < expit(eta)).astype(int),
        "poisson": rng.poisson(np.exp(0.5 * eta)),
    }
    return pd.DataFrame({"x": x, "g": g, "report": device.privatize(z.astype(int), rng), **outcomes})


def asked(frame, family="normal", formula=None, device=DEVICE, **more):
    settings = {"report": "report", "categories": LABELS, "random_seed": 1, "family": family} | more
    return lb.regress(frame, formula or f"{family} ~ x + private(z)", device, **settings)


def target_of(monkeypatch, *arguments, **more):
    """Return the density that a fit had."""
    seen = []
    climb = predictor_target.climb
    monkeypatch.setattr(predictor_target, "climb", lambda target, *rest: seen.append(target) or climb(target, *rest))
    asked(*arguments, **more)
    return seen[0]


# ---- the density ---------------------------------------------------------------------------------------------------------
def densities(family, y, eta, sd):
    """Return log f(y | η) by SciPy."""
    if family == "normal":
        return stats.norm.logpdf(y, eta, sd)
    return stats.bernoulli.logpmf(y, expit(eta)) if family == "bernoulli" else stats.poisson.logpmf(y, np.exp(eta))


@pytest.mark.parametrize("family", ["normal", "bernoulli", "poisson"])
def test_the_likelihood_is_the_sum_over_answers(monkeypatch, family):
    """With an interaction and a formula of the answer's own, at some unknowns; and the gradient by differences."""
    frame = people(120)
    target = target_of(monkeypatch, frame, family, f"{family} ~ x * private(z)", private="z ~ g", draws=10)
    rng, prior = np.random.default_rng(2), target.prior
    for z in 0.3 * rng.normal(size=(3, prior.n_unknowns)):
        gamma = prior.coefficients(z[None])[0][:, 1]
        b = dict(zip(prior.outcome.design.terms, prior.outcome_coefficients(z[None])[0], strict=True))
        sd = prior.variables(z[None])["outcome_sd"][1][0, 0] if family == "normal" else 1.0
        shares = expit(gamma[0] + gamma[1] * (frame["g"] == "b").to_numpy())
        terms = []
        for answer, share in enumerate((1 - shares, shares)):
            eta = (
                b["Intercept"] + b["x"] * frame["x"] + answer * (b["private(z)[yes]"] + b["x:private(z)[yes]"] * frame["x"])
            )
            seen = DEVICE.channel()[frame["report"], answer]
            terms.append(np.log(seen) + np.log(share) + densities(family, frame[family], eta, sd))
        expected = logsumexp(terms, axis=0).sum()
        flat = predictor_target.replace(target, flat=True)
        value, gradient = flat.value_and_gradient(z)
        assert value + target.reports.constant == pytest.approx(expected, abs=1e-8)
        assert target.likelihoods(z[None])[0][0] == pytest.approx(expected, abs=1e-8)
        steps = 1e-5 * np.eye(z.size)
        slopes = [(flat.value_and_gradient(z + d)[0] - flat.value_and_gradient(z - d)[0]) / 2e-5 for d in steps]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-4)


def test_three_answers_and_a_reference_of_ones_own(monkeypatch):
    """Indicators of two answers against the third, which the reference says; the order of the answers stays."""
    rng, device = np.random.default_rng(3), lb.GRR(3, epsilon=2.0)
    z = rng.integers(0, 3, 900)
    y = np.array([0.0, 2.0, 3.0])[z] + rng.normal(size=900)
    frame = pd.DataFrame({"report": device.privatize(z, rng), "y": y})
    found = asked(frame, formula="y ~ private(z)", device=device, categories=["a", "b", "c"], reference="b", draws=250)
    summary = found["summary"].to_dataset()
    assert summary["outcome_term"].values.tolist() == ["Intercept", "private(z)[a]", "private(z)[c]"]
    mean, sd = summary["outcome_coefficients_mean"].values, summary["outcome_coefficients_sd"].values
    assert (np.abs(mean - [2.0, -2.0, 1.0]) < 4 * sd).all() and found.attrs["converged"]
    difference = lb.comparisons(found, "z")
    assert difference["comparison"].values.tolist() == ["a - b", "c - b"]
    np.testing.assert_allclose(difference["mean"], mean[1:], atol=0.02)
    rows = lb.predictions(found)
    assert rows["category"].values.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(rows["mean"][0], mean[0] + [mean[1], 0, mean[2]], atol=0.02)
    np.testing.assert_allclose(rows["share_mean"][0], summary["mean"].sel(target="distribution"), atol=0.01)


# ---- the posterior -------------------------------------------------------------------------------------------------------
def test_two_binary_answers_against_a_grid():
    """Without covariates, over the log odds of the answer, those of the outcome, and its effect."""
    counts = np.array([[70, 30], [45, 55]])  # reports × outcomes
    rows = [{"report": r, "y": y, "n": counts[r, y]} for r, y in itertools.product((0, 1), repeat=2)]
    found = asked(pd.DataFrame(rows), "bernoulli", "y ~ private(z)", count="n", draws=2000)
    a, b, d = np.meshgrid(*(np.linspace(-s, s, 121) for s in (9.0, 9.0, 9.0)), indexing="ij")
    log_density = stats.norm.logpdf(a, 0, np.pi) + stats.norm.logpdf(b, 0, np.pi) + stats.norm.logpdf(d, 0, 2.5)
    shares, ones = (1 - expit(a), expit(a)), (expit(b - d / 2), expit(b + d / 2))
    for r, y in itertools.product((0, 1), repeat=2):
        chance = sum(DEVICE.channel()[r, z] * shares[z] * (ones[z] if y else 1 - ones[z]) for z in (0, 1))
        log_density = log_density + counts[r, y] * np.log(chance)
    weight = softmax(log_density)
    mean = (weight * d).sum()
    sd = np.sqrt((weight * (d - mean) ** 2).sum())
    summary = found["summary"].to_dataset().sel(outcome_term="private(z)[yes]")
    assert float(summary["outcome_coefficients_mean"]) == pytest.approx(mean, abs=0.05 * sd)
    assert float(summary["outcome_coefficients_sd"]) == pytest.approx(sd, rel=0.05)
    assert float(summary["mean"].sel(target="distribution", category="yes")) == pytest.approx(
        (weight * shares[1]).sum(), abs=0.01
    )


def test_labels_that_switch_have_their_share():
    """A device that says next to nothing leaves two modes, δ and −δ: their masses are those of a mixture's draws."""
    rng, n, device = np.random.default_rng(5), 100, warner(0.55)
    z = rng.random(n) < 0.4
    frame = pd.DataFrame({"report": device.privatize(z.astype(int), rng), "y": 3.0 * z + rng.normal(size=n)})
    with pytest.warns(DiagnosticWarning, match="Without any report"):
        found = asked(frame, formula="y ~ private(z)", device=device)
    y, channel = ((frame["y"] - frame["y"].mean()) / frame["y"].std(ddof=0)).to_numpy(), device.channel()[frame["report"]]

    def log_density(u):
        odds, middle, effect, log_sd = u.T[..., None]
        each = [
            np.log(channel[:, x])
            - np.logaddexp(0, odds * (1, -1)[x])
            + stats.norm.logpdf(y, middle + s * effect, np.exp(log_sd))
            for x, s in ((0, -0.5), (1, 0.5))
        ]
        prior = stats.norm.logpdf(u[:, 2], 0, 2.5) + stats.norm.logpdf(u[:, :2], 0, np.pi).sum(axis=1)
        return np.logaddexp(*each).sum(axis=1) + prior + stats.halfnorm.logpdf(np.exp(u[:, 3])) + u[:, 3]

    laws = []
    for effect in (1.5, -1.5):  # a t about each mode
        at = optimize.minimize(lambda u: -log_density(u[None])[0], np.array([0.0, 0.0, effect, -0.5]), method="BFGS")
        laws.append(stats.multivariate_t(at.x, 1.5 * at.hess_inv, 6, seed=1))
    u = np.concatenate([law.rvs(6000) for law in laws])
    weight = softmax(log_density(u) - np.logaddexp(*(law.logpdf(u) for law in laws)))
    expected = weight @ (u[:, 2] > 0)
    share = float((found["posterior"]["outcome_coefficients"][..., 1] > 0).mean())
    assert found.attrs["converged"] and 0.5 < expected < 0.99
    assert share == pytest.approx(expected, abs=0.03)


@pytest.mark.calibrate
@pytest.mark.parametrize("family", ["normal", "bernoulli", "poisson"])
def test_nuts_on_the_textbook_model(family):
    import pymc as pm

    frame = people()
    found = asked(frame, family)
    textbook = runpy.run_path(str(MODELS / "regression_on_private_answer.py"))["model"]
    columns = np.column_stack([np.ones(len(frame)), frame["x"]])
    with textbook(columns, frame["report"], frame[family], DEVICE.channel(), family):
        trace = pm.sample(5000, tune=1000, chains=4, cores=1, random_seed=1, progressbar=False).posterior
    theirs = np.concatenate([trace["gamma"], trace["beta"], trace["delta"].values[..., None]], axis=-1).reshape(-1, 5)
    summary = found["summary"].to_dataset()
    ours = {
        key: np.append(summary[f"coefficients_{key}"][:, 1], summary[f"outcome_coefficients_{key}"])
        for key in ("mean", "sd", "lower", "upper")
    }
    np.testing.assert_allclose((ours["mean"] - theirs.mean(axis=0)) / ours["sd"], 0, atol=0.1)
    # The effect of the answer has a heavy tail: its sd is known to 4 %, those of the others to 1 %.
    effective = [facts_of(found)["effective_draws"], az.ess(trace, var_names=["delta"])["delta"].item()]
    error = np.sqrt((stats.kurtosis(theirs, fisher=False) - 1) / 4 * np.sum(1 / np.array(effective)))
    np.testing.assert_array_less(np.abs(np.log(ours["sd"] / theirs.std(axis=0))), 4 * error)
    for key, level in (("lower", 0.025), ("upper", 0.975)):
        np.testing.assert_allclose((ours[key] - np.quantile(theirs, level, axis=0)) / ours["sd"], 0, atol=0.2)


def test_the_textbook_model_has_the_same_density(monkeypatch):
    """log P of the textbook's rows, at the unknowns that both share."""
    import pytensor

    frame = people(60)
    target = target_of(monkeypatch, frame, draws=10)
    textbook = runpy.run_path(str(MODELS / "regression_on_private_answer.py"))["model"]
    columns = np.column_stack([np.ones(len(frame)), frame["x"]])
    model = textbook(columns, frame["report"], frame["normal"], DEVICE.channel(), "normal")
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        log_density = model.compile_logp()
    spans, scales = target.prior.spans, np.array([np.pi, 2.5])
    for z in 0.5 * np.random.default_rng(1).normal(size=(3, target.prior.n_unknowns)):
        own = z[spans["outcome"]]
        # The basis of two categories has log odds √2 z, and prior sd 1/√2.
        point = {"g": -z[spans[""]] * scales if target.prior.odds[0, 1] < 0 else z[spans[""]] * scales}
        point |= {"b": own[:2] * scales, "d": own[2] * 2.5, "spread_log__": z[spans["spread"]][0]}
        ours = target.log_density(z[None])[0][0]
        constant = np.log(scales).sum() * 2 + np.log(2.5)
        theirs = float(log_density({name: np.asarray(value) for name, value in point.items()}))
        assert ours - constant == pytest.approx(theirs, abs=1e-6)


# ---- maximum likelihood --------------------------------------------------------------------------------------------------
def maximized(frame, family, rounds=3000):
    """Return the log-likelihood that expectation-maximization comes to, on x + z for the outcome and x for the answer."""
    x, y = np.column_stack([np.ones(len(frame)), frame["x"]]), frame[family].to_numpy(float)
    seen, gamma, b, sd = (
        DEVICE.channel()[frame["report"]],
        np.zeros(2),
        np.array([y.mean() * (family == "normal"), 0, 0.5]),
        y.std(),
    )
    both = np.vstack([np.column_stack([x, np.full(len(x), z)]) for z in (0.0, 1.0)])
    outcomes, old = np.tile(y, 2), -np.inf
    for _ in range(rounds):
        p = expit(x @ gamma)
        eta = (both @ b).reshape(2, -1)
        terms = np.log(seen.T) + np.log([1 - p, p]) + densities(family, y, eta, sd)
        value = logsumexp(terms, axis=0).sum()
        if value - old < 1e-9:
            break
        old, q = value, softmax(terms, axis=0)
        for _ in range(3):  # Newton's method for the answer's part
            p = expit(x @ gamma)
            gamma = gamma + np.linalg.solve((x.T * (p * (1 - p))) @ x, x.T @ (q[1] - p))
        weight = q.ravel()
        if family == "normal":
            b = np.linalg.solve((both.T * weight) @ both, both.T @ (weight * outcomes))
            sd = np.sqrt(weight @ (outcomes - both @ b) ** 2 / len(y))
        else:
            for _ in range(3):
                mean = expit(both @ b) if family == "bernoulli" else np.exp(both @ b)
                curve = mean * (1 - mean) if family == "bernoulli" else mean
                b = b + np.linalg.solve((both.T * (weight * curve)) @ both, both.T @ (weight * (outcomes - mean)))
    return value


@pytest.mark.parametrize("family", ["normal", "bernoulli", "poisson"])
def test_expectation_maximization_comes_to_the_same_maximum(family):
    frame = people()
    found = asked(frame, family, method="mle")
    assert found.log_likelihood == pytest.approx(maximized(frame, family), abs=1e-6)
    assert found.n_parameters == 5 + (family == "normal") and found.family == family


def test_direct_answers_are_least_squares_and_a_logit():
    """Through a device that hides nothing both parts are ordinary, with ordinary standard errors."""
    sm = pytest.importorskip("statsmodels.api")
    frame = people(device=lb.protocols.Channel(np.eye(2)))
    found = asked(frame, device=lb.protocols.Channel(np.eye(2)), method="mle")
    x = sm.add_constant(frame[["x"]])
    outcome = sm.OLS(frame["normal"], x.assign(z=frame["report"])).fit()
    answer = sm.Logit(frame["report"], x).fit(disp=0)
    np.testing.assert_allclose(found.outcome_coefficients, outcome.params, rtol=1e-6)
    ratio = np.sqrt(outcome.df_resid / len(frame))
    np.testing.assert_allclose(found.outcome_standard_errors, outcome.bse * ratio, rtol=1e-4)
    np.testing.assert_allclose(found.coefficients[:, 1], answer.params, atol=1e-6)
    np.testing.assert_allclose(found.standard_errors[:, 1], answer.bse, rtol=1e-4)
    assert found.log_likelihood == pytest.approx(outcome.llf + answer.llf, abs=1e-7)


def test_separation_has_no_maximum_and_a_posterior():
    """Everybody with the answer has the outcome: the posterior keeps the effect finite."""
    rng = np.random.default_rng(4)
    z = rng.random(300) < 0.4
    frame = pd.DataFrame({"report": warner(0.95).privatize(z.astype(int), rng), "y": z | (rng.random(300) < 0.3)})
    with pytest.raises(InfeasibleError, match=r"private\(z\)\[yes\]"):
        asked(frame, "bernoulli", "y ~ private(z)", warner(0.95), method="mle")
    found = asked(frame, "bernoulli", "y ~ private(z)", warner(0.95), draws=250)
    at = found["summary"].to_dataset().sel(outcome_term="private(z)[yes]")
    assert found.attrs["converged"] and float(at["outcome_coefficients_lower"]) > 1.5


# ---- devices -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["auto", "mle"])
def test_a_device_that_tells_nothing_is_refused(method):
    """Two normals fit any skewed outcome: their form is no measurement of who is who."""
    blind = lb.protocols.Channel(np.full((2, 2), 0.5))
    with pytest.raises(InfeasibleError, match="distribution of normal"):
        asked(people(), device=blind, method=method)


def test_direct_questions_beside_a_device_where_some_deny():
    rng, n = np.random.default_rng(6), 1500
    z, direct = rng.random(n) < 0.4, rng.random(n) < 0.5
    said = np.where(direct, z & (rng.random(n) > 0.3), warner(0.8).privatize(z.astype(int), rng))
    table = pd.DataFrame(
        {"report": said.astype(int), "mode": np.where(direct, "direct", "device"), "y": z + rng.normal(size=n)}
    )
    devices = {"direct": lb.protocols.Channel(np.eye(2)), "device": warner(0.8)}
    deniers = {"of": "yes", "say": "no", "channel": "direct"}
    more = {"design": "mode", "deniers": deniers, "draws": 250}
    found = asked(table, formula="y ~ private(z)", device=devices, **more)
    summary = found["summary"].to_dataset()
    for name, truth in (("outcome_coefficients", [0.0, 1.0]), ("denial", [0.3])):
        apart = np.abs(summary[f"{name}_mean"] - truth) / summary[f"{name}_sd"]
        assert (apart < 3.5).all(), name
    assert found.attrs["converged"]
    found.extend("log_likelihood")
    draw = found["posterior"].dataset.isel(chain=0, draw=3)
    share, delta = expit(draw["coefficients"].sel(category="yes").item()), expit(draw["denial_coefficients"].item())
    chances = np.where(direct[:, None], [[0.0, 1 - delta]], warner(0.8).channel()[1])
    chances = np.where(said[:, None], chances, 1 - chances)
    mean = draw["outcome_coefficients"].values @ [[1.0, 1.0], [0.0, 1.0]]
    density = stats.norm.pdf(table["y"].to_numpy()[:, None], mean, draw["outcome_sd"].item())
    expected = np.log((chances * density) @ [1 - share, share])
    np.testing.assert_allclose(found["log_likelihood"]["reports"][0, 3], expected, rtol=1e-9)


# ---- the form of the outcome ---------------------------------------------------------------------------------------------
def test_a_form_that_reports_contradict_is_announced():
    """Incomes are skewed: two normals fit that, with an effect of the wrong sign, which mean incomes by report give away."""
    survey = pd.read_csv(examples.FOLDER / "survey.csv")
    survey["log_income"] = np.log(survey["income"])
    settings = {"report": "smokes", "device": warner(0.7), "draws": 250}
    with pytest.warns(DiagnosticWarning, match="contradict"):
        skewed = asked(survey, formula="income ~ age + private(smokes)", **settings)
    assert "contradict" in show(skewed).summary and facts_of(skewed)["agreement"] < 0.001
    fitting_form = asked(survey, formula="log_income ~ age + private(smokes)", **settings)
    assert not facts_of(fitting_form)["contradiction"] and facts_of(fitting_form)["agreement"] > 0.1
    effect = [float(lb.comparisons(one, "smokes")["mean"][0]) for one in (skewed, fitting_form)]
    assert effect[0] > 0 > effect[1]


def test_maximum_likelihood_warns_of_the_form_as_the_posterior_does():
    survey = pd.read_csv(examples.FOLDER / "survey.csv")
    settings = {"formula": "income ~ age + private(smokes)", "report": "smokes", "device": warner(0.7), "method": "mle"}
    with pytest.warns(DiagnosticWarning) as met:
        found = asked(survey, **settings)
    said = [str(one.message) for one in met]
    assert sum("contradict" in text for text in said) == 1 and sum("Without any report" in text for text in said) == 1
    assert all(text in found.outcome for text in said)


# ---- answers and files ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def fitted():
    return asked(people(), "bernoulli", "bernoulli ~ x * private(z) + g", private="z ~ x", draws=500)


def test_comparisons_are_averages_over_the_rows(fitted):
    """By the draws of the coefficients: by the answer, and by a covariate while everybody's answer stays as it is."""
    frame, posterior = people(), fitted["posterior"]
    b = posterior["outcome_coefficients"].values.reshape(-1, 5)[:200]
    names = posterior["outcome_term"].values.tolist()
    gamma = posterior["coefficients"].values.reshape(-1, 2, 2)[:200, :, 1]

    def mean(x, z):
        values = {"Intercept": 1.0, "x": x, "g[b]": frame["g"] == "b", "private(z)[yes]": z, "x:private(z)[yes]": x * z}
        return expit(b @ np.array([np.broadcast_to(np.asarray(values[name], float), len(frame)) for name in names]))

    x = frame["x"].to_numpy()
    shares = expit(gamma @ np.array([np.ones(len(frame)), x]))
    by_answer = (mean(x, 1) - mean(x, 0)).mean()
    moved = ((1 - shares) * (mean(x + 1, 0) - mean(x, 0)) + shares * (mean(x + 1, 1) - mean(x, 1))).mean()
    for variable, expected in (("z", by_answer), ("x", moved)):
        found = lb.comparisons(fitted, variable)
        assert float(found["mean"][0]) == pytest.approx(expected, abs=0.3 * float(found["sd"][0]))
    some = lb.predictions(fitted, frame[:5])
    np.testing.assert_allclose(some["mean"].sel(category="yes"), mean(x, 1).mean(axis=0)[:5], atol=0.03)
    np.testing.assert_allclose(some["share_mean"].sel(category="yes"), shares.mean(axis=0)[:5], atol=0.03)
    assert lb.predictions(fitted).sizes == {"row": 400, "category": 2}
    with pytest.raises(ArgumentError, match="variable"):
        lb.comparisons(fitted, "income")
    with pytest.raises(ArgumentError, match="values"):
        lb.comparisons(fitted, "z", ["no", "perhaps"])


def test_figures_are_of_the_outcome(fitted):
    for answer, words in (
        (lb.comparisons(fitted, "z"), "difference of the outcome"),
        (lb.predictions(fitted), "mean outcome"),
    ):
        (axes,) = lb.plots.plot_predictions(answer).axes
        assert words in axes.get_xlabel()


def test_a_saved_result_answers_as_before(fitted, tmp_path):
    fitted.save(tmp_path / "found.nc")
    again = lb.load(tmp_path / "found.nc")
    for ask in (lb.predictions, lambda result: lb.comparisons(result, "z"), lambda result: lb.comparisons(result, "g")):
        np.testing.assert_allclose(ask(again)["mean"], ask(fitted)["mean"])
    assert show(again).summary == show(fitted).summary
    settings = again.settings["arguments"]
    assert settings["family"] == "bernoulli" and settings["private"] == "z ~ x"
    again["outcome_design"]["columns"][:] = 0.0
    with pytest.raises(DataError, match="outcome_design"):
        lb.predictions(again)


@pytest.mark.calibrated("bernoulli", "poisson")  # the sum over answers is that of the fit, which all families have above
@pytest.mark.parametrize("family", ["normal", "bernoulli", "poisson"])
def test_the_likelihood_of_each_report_with_its_outcome(family):
    """At one draw, the sum over answers in plain NumPy; and az.loo takes it."""
    frame = people(200)
    found = asked(frame, family, draws=50)
    found.extend("log_likelihood")
    at = {"chain": 1, "draw": 7}
    gamma, b = (found["posterior"][name].isel(at) for name in ("coefficients", "outcome_coefficients"))
    gamma, b = gamma.sel(category="yes").values, dict(zip(b["outcome_term"].values, b.values, strict=True))
    sd = found["posterior"]["outcome_sd"].isel(at).item() if family == "normal" else 1.0
    share, device = expit(gamma[0] + gamma[1] * frame["x"].to_numpy()), DEVICE.channel()[frame["report"].astype(int)]
    terms = []
    for answer, chance in enumerate((1 - share, share)):
        eta = b["Intercept"] + b["x"] * frame["x"].to_numpy() + b["private(z)[yes]"] * answer
        terms.append(np.log(device[:, answer] * chance) + densities(family, frame[family].to_numpy(), eta, sd))
    np.testing.assert_allclose(found["log_likelihood"]["reports"].isel(at), logsumexp(terms, axis=0), rtol=1e-9)
    assert az.loo(found).n_data_points == 200
    found.extend("log_likelihood", by="cell")
    of_cells = found["log_likelihood"]["reports"].isel(at)
    assert of_cells.sum().item() == pytest.approx(logsumexp(terms, axis=0).sum())


def test_the_page_leads_with_the_effect(fitted, tmp_path):
    page = show(fitted)
    for word in ("400 reports", "warner", "bernoulli ~ x * private(z) + g", "z is yes"):
        assert word in page.summary
    assert fitted.table()["outcome_term"].tolist() == fitted["posterior"]["outcome_term"].values.tolist()
    named = {column.key: column.full_heading for column in page.tables[0].columns}
    assert (named["odds_ratio"], named["odds_interval"]) == ("median odds ratio", "95 % interval of the odds ratio")
    medians = np.exp(fitted["posterior"]["outcome_coefficients"].median(("chain", "draw")))
    np.testing.assert_allclose(fitted.table()["odds_ratio"], medians)
    assert (fitted.table()["odds_ratio"] > fitted.table()["odds_lower"]).all()
    found = asked(people(), "poisson", method="mle")
    for one, name in ((fitted, "posterior"), (found, "mle")):
        one.save(tmp_path / f"{name}.html")
        assert "<svg" in (tmp_path / f"{name}.html").read_text()
        one.save(tmp_path / f"{name}.json")
        assert "outcome_coefficients" in json.loads((tmp_path / f"{name}.json").read_text())
    assert "private(z)[yes]" in show(found).summary and "warner" in show(found).summary
    np.testing.assert_allclose(found.table()["factor_ratio"], np.exp(found.outcome_coefficients))


def test_an_outcome_of_texts_is_told_how_to_be_recoded():
    table = people(20).assign(smoker=["yes", "no"] * 10)
    with pytest.raises(DataError, match=r'data\["smoker"\] == "yes"'):
        asked(table, "bernoulli", "smoker ~ x + private(z)")
    with pytest.raises(ArgumentError, match="without functions"):
        asked(table, "bernoulli", "binary(smoker, 'yes') ~ x + private(z)")
    for read in (
        lambda: asked("people.csv"),
        lambda: lb.by_private_group("people.csv", value="x", report="report", protocol=DEVICE),
    ):
        with pytest.raises(ArgumentError, match=r"^data must.*pandas\.read_csv"):
            read()


# ---- the door ------------------------------------------------------------------------------------------------------------
@each_row(
    "formula, more, named",
    [
        ("normal ~ x + private(z)", {"family": None}, "family"),
        ("normal ~ x + private(z)", {"family": "gamma"}, "family"),
        ("z ~ x", {}, "family"),
        ("z ~ x", {"family": None, "private": "z ~ x"}, "private"),
        ("normal ~ 0 + private(z)", {}, "intercept"),
        ("normal ~ private(z) + private(w)", {}, "private"),
        ("normal ~ report + private(report)", {}, "private"),
        ("normal ~ x + private(z) + (1 | g)", {}, "no groups"),
        ("normal ~ x + private(z)", {"private": "w ~ x"}, "private"),
        ("normal ~ x + private(z)", {"private": "z ~ normal"}, "outcome"),
        ("normal ~ x + private(z)", {"weights": "x"}, "weights"),
        ("normal ~ x + private(z)", {"reference": "maybe"}, "reference"),
        ("normal ~ x + private(z)", {"scale": {"income": 1.0}}, "scale"),
    ],
)
def test_what_does_not_go_together_is_named(formula, more, named):
    with pytest.raises(ArgumentError, match=named):
        asked(people(40), formula=formula, **more)


@pytest.mark.parametrize(
    ("formula", "family"), [("x ~ private(z)", "bernoulli"), ("x ~ private(z)", "poisson"), ("g ~ private(z)", "normal")]
)
def test_outcomes_that_are_none_are_named(formula, family):
    with pytest.raises(DataError, match=formula[0]):
        asked(people(40), family, formula)


def test_a_stated_prior_is_of_the_terms_that_it_names(monkeypatch):
    scale = {"private(z)": 0.7, "x": 1.5, "Intercept": 2.0}
    target = target_of(monkeypatch, people(40), scale=scale, draws=10)
    assert target.prior.outcome.scales.tolist() == [2.0, 1.5, 0.7] and target.prior.scales.tolist() == [2.0, 1.5]


def test_the_command_line(capsys):
    words = 'regress example:survey.csv "income ~ age + private(smokes)" --family normal --protocol warner -p p=0.7'
    asked_for = [*shlex.split(words), "--categories", "no,yes", "--private", "smokes ~ age + region"]
    status, out, _ = commands.run(capsys, *asked_for, "--method", "mle")
    assert status == 0 and "private(smokes)[yes]" in out and "region[south]" in out
    status, _, err = commands.run(capsys, *asked_for, "--family", "gamma")
    assert status == 2 and "family" in err


def test_rows_without_an_outcome_are_left_out():
    frame = people(60)
    frame.loc[3, "normal"] = np.nan
    with pytest.raises(DataError, match="normal"):
        asked(frame, method="mle")
    assert asked(frame, method="mle", bad_rows="skip").n_reports == 59
