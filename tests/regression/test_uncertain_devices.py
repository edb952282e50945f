"""Regression through a device whose probabilities are not known exactly, against importance weights of plain NumPy."""

import json

import numpy as np
import pandas as pd
import pytest
from samples import regression_model
from scipy import optimize
from scipy.special import expit
from scipy.stats import beta, norm, t

import ldpbayes as lb
from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.effects import Bent
from ldpbayes.protocols import Channel, Uncertain, warner
from ldpbayes.regression import devices, predictor_target

pytestmark = pytest.mark.filterwarnings("ignore:(The prior decides|Prior and reports disagree|Without any report)")

TEST = Channel(validated=[[95, 12], [5, 88]], answers=["negative", "positive"])
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


@pytest.mark.parametrize("trials", [pytest.param((6, 3), marks=pytest.mark.calibrate), (4, 2)])
def test_labels_that_switch_with_the_device_have_their_share(trials):
    """Few trials leave p below ½ possible, with effects of the other sign: by a grid over log odds, slope and p."""
    counts = {-1: [150, 50], 1: [80, 120]}
    ends = np.linspace(-12, 12, 121), np.linspace(-9, 9, 91), np.linspace(0.005, 0.995, 100)
    a, b, p = np.meshgrid(*ends, indexing="ij", sparse=True)
    log_density = norm(0, np.pi).logpdf(a) + norm(0, 2.5).logpdf(b) + beta(*trials).logpdf(p)
    for x, (no, yes) in counts.items():
        says = expit(a + b * x) * p + (1 - expit(a + b * x)) * (1 - p)
        log_density = log_density + yes * np.log(says) + no * np.log(1 - says)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    rows = [{"x": x, "r": r, "n": n} for x, pair in counts.items() for r, n in enumerate(pair)]
    device, settings = warner(Uncertain(trials)), {"report": "r", "count": "n", "random_seed": 1}
    found = lb.regress(pd.DataFrame(rows), "z ~ x", device, draws=4000, **settings)
    draws = found["posterior"].to_dataset()
    share = float((draws["coefficients"].sel(term="x", category="yes") > 0).mean())
    assert found.attrs["converged"] and share == pytest.approx(float((weight * (b > 0)).sum()), abs=0.015)
    mean = float((weight * p).sum())
    sd = float(np.sqrt((weight * (p - mean) ** 2).sum()))
    assert float(draws["p"].mean()) == pytest.approx(mean, abs=0.08 * sd)
    assert float(draws["p"].std()) == pytest.approx(sd, rel=0.06)


def test_only_the_intercept_may_exclude_zero():
    """Half of a thousand people say yes at x = -1 and at x = 1: of two coefficients the intercept is clear."""
    data = pd.DataFrame({"x": [-1, -1, 1, 1], "test": [0, 1, 0, 1], "n": [700, 300, 700, 300]})
    found = lb.regress(data, "test ~ x", warner(0.9), report="test", count="n", random_seed=1)
    assert "but the intercept" in found.page().summary


def test_the_gradient_is_that_of_the_density():
    from ldpbayes.regression.devices import Tried

    rng = np.random.default_rng(1)
    device = Channel(validated=[[40, 3, 1], [5, 30, 4], [1, 2, 25]]).law
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


@pytest.mark.parametrize("device", [Channel(validated=[[40, 3, 1], [5, 30, 4], [1, 2, 25]]), warner(Uncertain((90, 10)))])
def test_what_is_compiled_is_the_plain_density(device):
    """Of one point, of many, and of a chain with the law of the device; a device that errs always or never is finite."""
    rng, a = np.random.default_rng(1), device.n_categories
    frame = pd.DataFrame({"x": rng.integers(0, 3, 60), "g": rng.choice(["u", "v"], 60), "n": rng.integers(0, 4, 60)})
    frame["report"] = device.format_reports(rng.integers(0, a, 60), [str(x) for x in range(a)])[0]
    target = regression_model("answer ~ x + (1|g)", frame, device, "n").target
    prior, e = target.prior, target.reports
    chain = Bent(target, 0.3 * rng.standard_normal(prior.n_unknowns))
    offsets = []
    for _ in range(3):
        u = rng.standard_normal(prior.n_unknowns)
        z = chain.of(u)
        kinds = prior.kinds(z)
        seen = (kinds[e.cell] * e.table[e.row]).sum(axis=1)
        slope = np.zeros_like(kinds)
        np.add.at(slope, e.cell, (e.weight / seen)[:, None] * e.table[e.row])
        value, gradient = target.value_and_gradient(z)
        assert value == pytest.approx(e.weight @ np.log(seen) + prior.log_density(z), abs=1e-9)
        slope = prior.pullback_logits(z, kinds * (slope - (kinds * slope).sum(axis=1, keepdims=True))) + prior.gradient(z)
        np.testing.assert_allclose(gradient, slope, atol=1e-9)
        of_chain = chain.value_and_gradient(u)
        known, pulled = chain.bend.pulled(z, value, gradient)
        offsets.append(of_chain[0] - known)
        np.testing.assert_allclose(of_chain[1], chain.coordinates.gradient(pulled), atol=1e-8)
    np.testing.assert_allclose(offsets, offsets[:1] * 3, atol=1e-8)  # up to a constant
    z = rng.standard_normal((5, prior.n_unknowns))
    found, plain = target.likelihoods(z, tallies=True), (np.full(5, e.constant), np.zeros((5, a)), np.zeros((5, a)))
    target._by_row(z, *plain)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    for end in (-800.0, 800.0):
        z[0, prior.spans["device"]] = end
        assert all(np.isfinite(part).all() for part in target.value_and_gradient(z[0]))


@pytest.mark.calibrated("device0")
@pytest.mark.parametrize(
    "device",
    [
        TEST,
        Channel(validated=[[40, 3], [5, 30], [1, 9]], answers=["negative", "positive", "unclear"]),
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


# ---- maximum likelihood --------------------------------------------------------------------------------------------------
UNCLEAR = Channel(validated=[[40, 3], [5, 30], [1, 9]], answers=["negative", "positive", "unclear"])
TRIALS = {"p": (90, 30)}


def sloped(function):
    """Return (minus a function, its gradient by complex steps, its Hessian by differences of these)."""

    def gradient(x):
        return -np.imag([function(x + 1e-30j * step) for step in np.eye(x.size)]) / 1e-30

    def hessian(x):
        return np.stack([(gradient(x + 1e-5 * e) - gradient(x - 1e-5 * e)) / 2e-5 for e in np.eye(x.size)])

    return lambda x: np.nan_to_num(-np.real(function(x)), nan=np.inf), gradient, hessian


def maximum_of(function, start):
    """Return (place of the maximum of a function, standard errors by its Hessian there), by SciPy."""
    minus, gradient, hessian = sloped(function)
    with np.errstate(invalid="ignore"):  # a step may leave the simplex
        settings = {"jac": gradient, "hess": hessian, "method": "trust-exact"}
        best = optimize.minimize(minus, start, **settings, options={"gtol": 1e-9, "initial_trust_radius": 0.01})
    return best.x, np.sqrt(np.diag(np.linalg.inv(hessian(best.x))))


def channel_of(device, theta):
    """Return (Q, log-likelihood of the trials), where theta are the probabilities of all reports but the first."""
    if device.n_outputs == 2 and device.law.unknowns[0][0][0] == "p":
        p, (yes, no) = theta[0], TRIALS["p"]
        return np.array([[p, 1 - p], [1 - p, p]]), yes * np.log(p) + no * np.log(1 - p)
    free = theta.reshape(2, -1).T
    q = np.concatenate([1 - free.sum(axis=0, keepdims=True), free])
    return q, (np.array(device.validated) * np.log(q)).sum()


@pytest.mark.calibrated("device0-start0")
@pytest.mark.parametrize(
    ("device", "start"),
    [(TEST, [0.06, 0.86]), (UNCLEAR, [0.11, 0.02, 0.71, 0.22]), (warner(Uncertain.counted(TRIALS["p"])), [0.75])],
)
def test_the_maximum_of_reports_and_trials_by_scipy(device, start):
    """Of log odds and of probabilities themselves, not of their logits: standard errors are those of any coordinates."""
    every = {-1: [140, 60, 20], 1: [100, 100, 25]}
    rows = [(x, *pair) for x, counts in every.items() for pair in zip(device.answers, counts, strict=False)]

    def value(at):
        q, out = channel_of(device, at[2:])
        for x, counts in every.items():
            share = 1 / (1 + np.exp(-at[0] - x * at[1]))
            out = out + counts[: len(q)] @ np.log(q @ np.array([1 - share, share]))
        return out

    at, errors = maximum_of(value, np.array([-0.5, 0.3, *start]))
    data = pd.DataFrame(rows, columns=["x", "test", "n"])
    found = lb.regress(data, "test ~ x", device, categories=["no", "yes"], count="n", method="mle")
    np.testing.assert_allclose(found.coefficients.sel(category="yes"), at[:2], atol=1e-6)
    np.testing.assert_allclose(found.standard_errors.sel(category="yes"), errors[:2], rtol=1e-5)
    names = found["device_share"].values.tolist()
    place = {"p": 2} if names == ["p"] else {"negative given no": 2, "positive given yes": 3}
    if device is UNCLEAR:
        place = {name: 2 + k for k, name in enumerate(name for name in names if not name.startswith("negative"))}
    for name, k in place.items():
        value = 1 - at[k] if name == "negative given no" else at[k]  # of two shares the more likely has the name
        assert float(found["device"].sel(device_share=name)) == pytest.approx(value, abs=1e-6)
        assert float(found["device_errors"].sel(device_share=name)) == pytest.approx(errors[k], rel=1e-5)
    assert len(names) == {"p": 1}.get(names[0], 6 if device is UNCLEAR else 2)
    assert found.n_parameters == at.size


@pytest.mark.parametrize("method", ["mle", "posterior"])
def test_ever_more_trials_give_the_known_device(method):
    """Also the log-likelihood, because that of the trials is a ratio to their own maximum."""
    many, known = warner(Uncertain.counted([9e7, 3e7])), warner(0.75)
    data = pd.DataFrame({"x": [-1, -1, 1, 1], "answer": [0, 1, 0, 1], "n": [140, 60, 100, 100]})
    settings = {"report": "answer", "count": "n"} | ({"method": "mle"} if method == "mle" else {"random_seed": 1})
    almost, exact = (lb.regress(data, "test ~ x", device, **settings) for device in (many, known))
    if method == "mle":
        np.testing.assert_allclose(almost.coefficients, exact.coefficients, atol=1e-6)
        np.testing.assert_allclose(almost.standard_errors, exact.standard_errors, rtol=1e-5)
        assert almost.log_likelihood == pytest.approx(exact.log_likelihood, abs=1e-5)
        assert almost["device"].item() == pytest.approx(0.75, abs=1e-6)
        return
    means = [one["posterior"]["coefficients"].sel(category="yes").mean(("chain", "draw")) for one in (almost, exact)]
    np.testing.assert_allclose(*means, atol=0.02)


def test_a_maximum_shows_the_device(tmp_path):
    found = fitted(method="mle")
    assert found["device"]["device_share"].values.tolist() == ["negative given no", "positive given yes"]
    found.save(tmp_path / "found.json")
    stored = json.loads((tmp_path / "found.json").read_text())
    assert stored["probability"] == ["negative given no", "positive given yes"] and len(stored["device_errors"]) == 2
    assert "Probabilities of the device" in {one.title for one in found.page().tables}
    assert "validated" in found.page().summary and devices.AS_TRIALS in found.outcome
    right, wrong = found["device"].values[[1, 0]], 1 - found["device"].values
    there = fitted(Channel([[right[1], wrong[1]], [wrong[0], right[0]]], answers=TEST.answers), method="mle")
    np.testing.assert_allclose(found.coefficients, there.coefficients, atol=1e-6)  # where the device is at its estimate
    assert (found.standard_errors[:, 1] > there.standard_errors[:, 1]).values.all()


@pytest.mark.parametrize("formula, tolerance", [("test ~ 1", 1e-6), ("test ~ x", 2e-3)])
def test_a_maximum_has_the_average_share_with_the_error_of_the_device(formula, tolerance):
    """P = (λ − h)/(g − h), with the binomial variances of reports and of both columns of trials, by hand."""
    trials, n = np.array([[90, 12], [10, 48]]), np.array([748, 252, 741, 259])
    data = pd.DataFrame({"x": [-1, -1, 1, 1], "answer": [0, 1, 0, 1], "n": n})
    device = Channel(validated=trials)
    found = lb.regress(data, formula, device, report="answer", count="n", categories=["no", "yes"], method="mle")
    (low, high), share = trials[1] / trials.sum(axis=0), n[1::2].sum() / n.sum()
    p = (share - low) / (high - low)
    variance = share * (1 - share) / n.sum()
    variance += ((np.array([1 - p, p]) * np.sqrt([low * (1 - low), high * (1 - high)])) ** 2 / trials.sum(axis=0)).sum()
    assert found.average.values == pytest.approx([1 - p, p], rel=tolerance)
    assert found.average_errors.values == pytest.approx(np.sqrt(variance) / (high - low), rel=tolerance)
    assert "Average" in " ".join(table.title for table in found.page().tables)


def test_a_device_that_errs_more_than_reports_allow_has_no_maximum():
    """Nobody who had none was positive in the trials, and a tenth of the reports less than that would be."""
    never = Channel(validated=[[95, 12], [0, 88]], answers=["negative", "positive"])
    with pytest.raises(InfeasibleError, match="'negative given no' of the device"):
        fitted(never, method="mle")
    half = warner(Uncertain((5, 0.5)))
    data = table().assign(test=[0, 1, 0, 1])
    with pytest.raises(InfeasibleError, match=r"Beta\(5, 0\.5\)"):
        lb.regress(data, "y ~ x", half, report="test", count="n", method="mle")
    with pytest.raises(InfeasibleError, match="full rank"):
        lb.regress(data, "y ~ x", warner(Uncertain((9, 9))), report="test", count="n", method="mle")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"totals": {"yes": 0.3}}, "totals"),
        ({"deniers": {"of": "yes", "say": "no", "channel": "a"}, "design": "g"}, "deniers"),
        ({"method": "mle", "weights": "w"}, "weights"),
        ({"method": "mle", "formula": "test ~ x + (1 | g)"}, "groups"),
    ],
)
def test_what_needs_a_known_device_is_named(more, named):
    settings = {"formula": "test ~ x", "categories": ["no", "yes"], "count": "n"} | more
    with pytest.raises(InfeasibleError, match=named):
        device = {"a": TEST, "b": TEST} if "design" in more else TEST
        lb.regress(table().assign(w=[1.0, 2, 3, 4], g=["a", "b", "a", "b"]), protocol=device, **settings)


# ---- a private predictor -------------------------------------------------------------------------------------------------
DIE = warner(Uncertain.counted(TRIALS["p"]))


def people(n=300):
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    z = rng.random(n) < expit(-0.4 + 0.5 * x)
    y = 1 + 0.5 * x + 2 * z + rng.normal(size=n)
    return pd.DataFrame({"x": x, "r": warner(0.75).privatize(z.astype(int), rng), "y": y, "b": (y > 2).astype(int)})


def predicted(frame, formula="y ~ x + private(z)", device=DIE, family="normal", **more):
    settings = {"report": "r", "categories": ["no", "yes"], "family": family, "random_seed": 1} | more
    return lb.regress(frame, formula, device, **settings)


def joint_density(frame, at):
    """Return log f of all reports, outcomes and trials: log odds (2,), coefficients (3,), log sd, p."""
    (g0, g1, b0, bx, bz, log_sd, p), out = at, 0.0
    x, r, y = (frame[name].to_numpy() for name in ("x", "r", "y"))
    share, terms = 1 / (1 + np.exp(-g0 - g1 * x)), []
    for z, chance in enumerate((1 - share, share)):
        rest = (y - b0 - bx * x - bz * z) * np.exp(-log_sd)
        terms.append(np.where(r == z, p, 1 - p) * chance * np.exp(-0.5 * rest**2 - log_sd))
    out = np.log(terms[0] + terms[1]).sum() - 0.5 * len(frame) * np.log(2 * np.pi)
    return out + TRIALS["p"][0] * np.log(p) + TRIALS["p"][1] * np.log(1 - p)


def test_the_maximum_with_an_outcome_by_scipy():
    frame = people()
    found = predicted(frame, method="mle")
    at, errors = maximum_of(lambda at: joint_density(frame, at), np.array([-0.4, 0.5, 1, 0.5, 2, 0, 0.75]))
    np.testing.assert_allclose(found.coefficients.sel(category="yes"), at[:2], atol=2e-6)
    np.testing.assert_allclose(found.standard_errors.sel(category="yes"), errors[:2], rtol=1e-4)
    np.testing.assert_allclose(found.outcome_coefficients, at[2:5], atol=2e-6)
    np.testing.assert_allclose(found.outcome_standard_errors, errors[2:5], rtol=1e-4)
    assert found.outcome_sd == pytest.approx(np.exp(at[5]), abs=2e-6)
    assert found["device"].item() == pytest.approx(at[6], abs=2e-6)
    assert found["device_errors"].item() == pytest.approx(errors[6], rel=1e-4)
    trials = np.array(TRIALS["p"])
    expected = joint_density(frame, at) - trials @ np.log(trials / trials.sum())
    assert found.log_likelihood == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("trials", [pytest.param((16, 4), marks=pytest.mark.calibrate), (4, 2)])
def test_two_binary_answers_through_an_uncertain_device_against_a_grid(trials):
    """Over the log odds of the answer, those of the outcome, its effect, and the device, which may be below ½."""
    counts = np.array([[140, 60], [60, 140]])  # reports × outcomes
    rows = [{"r": r, "b": b, "n": counts[r, b]} for r in (0, 1) for b in (0, 1)]
    device = warner(Uncertain(trials))
    found = predicted(pd.DataFrame(rows), "b ~ private(z)", device, "bernoulli", count="n", draws=4000)
    ends = (np.linspace(-4, 4, 41), np.linspace(-4, 4, 41), np.linspace(-9.9, 9.9, 67), np.linspace(0.01, 0.99, 50))
    a, b, d, p = np.meshgrid(*ends, indexing="ij", sparse=True)
    log_density = norm(0, np.pi).logpdf(a) + norm(0, np.pi).logpdf(b) + norm(0, 2.5).logpdf(d) + beta(*trials).logpdf(p)
    ones = expit(b - d / 2), expit(b + d / 2)
    for r, y in ((0, 0), (0, 1), (1, 0), (1, 1)):
        of_outcome = [one if y else 1 - one for one in ones]
        chance = np.where(r, 1 - p, p) * (1 - expit(a)) * of_outcome[0] + np.where(r, p, 1 - p) * expit(a) * of_outcome[1]
        log_density = log_density + counts[r, y] * np.log(chance)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    draws = found["posterior"].to_dataset()
    for one, value in ((draws["outcome_coefficients"][..., 1], d), (draws["p"], p)):
        mean = float((weight * value).sum())
        sd = float(np.sqrt((weight * (value - mean) ** 2).sum()))
        assert float(one.mean()) == pytest.approx(mean, abs=0.08 * sd)
        assert float(one.std()) == pytest.approx(sd, rel=0.08)


@pytest.mark.calibrate
def test_nuts_on_a_private_predictor_with_its_device():
    import pymc as pm

    frame = people()
    x, r, y = (frame[name].to_numpy() for name in ("x", "r", "y"))
    found, (centre, unit) = predicted(frame, draws=4000), (y.mean(), y.std())
    with pm.Model():
        p, sd = pm.Beta("p", 91, 31), pm.HalfNormal("sd", 1)
        odds, slope = pm.Normal("odds", 0, np.pi), pm.Normal("slope", 0, 2.5)
        middle, of_x, effect = pm.Normal("middle", 0, np.pi), pm.Normal("of_x", 0, 2.5), pm.Normal("effect", 0, 2.5)
        share = pm.math.sigmoid(odds + slope * (x - x.mean()) / x.std())
        terms = []
        for z, chance in enumerate((1 - share, share)):
            mean = middle + of_x * (x - x.mean()) / x.std() + effect * (z - 0.5)
            density = pm.logp(pm.Normal.dist(mean, sd), (y - centre) / unit)
            terms.append(pm.math.log(pm.math.where(r == z, p, 1 - p) * chance) + density)
        pm.Potential("rows", pm.math.logaddexp(*terms).sum())
        trace = pm.sample(2000, tune=1000, chains=4, cores=1, random_seed=1, progressbar=False).posterior
    draws = found["posterior"].to_dataset()
    pairs = (
        (draws["p"], trace["p"]),
        (draws["outcome_coefficients"][..., 1] * x.std() / unit, trace["of_x"]),
        (draws["outcome_coefficients"][..., 2] / unit, trace["effect"]),
        (draws["coefficients"].sel(term="x", category="yes") * x.std(), trace["slope"]),
        (draws["outcome_sd"] / unit, trace["sd"]),
    )
    for ours, theirs in pairs:
        assert float(ours.mean()) == pytest.approx(float(theirs.mean()), abs=0.08 * float(theirs.std()))
        assert float(ours.std()) == pytest.approx(float(theirs.std()), rel=0.06)


def test_the_density_beside_an_outcome_is_that_of_its_parts(monkeypatch):
    """The likelihood in plain NumPy at some unknowns, the law of the device as prior, and gradients by differences."""
    frame, seen = people(80), []
    climb = predictor_target.climb
    monkeypatch.setattr(predictor_target, "climb", lambda target, *rest: seen.append(target) or climb(target, *rest))
    predicted(frame, draws=10)
    (target,), rng = seen, np.random.default_rng(2)
    prior = target.prior
    for z in 0.3 * rng.normal(size=(2, prior.n_unknowns)):
        named = {name: np.ravel(values[0]) for name, (_, values) in prior.variables(z[None]).items()}
        at = *named["coefficients"][1::2], *named["outcome_coefficients"], np.log(named["outcome_sd"][0]), named["p"][0]
        trials = TRIALS["p"] @ np.log([at[-1], 1 - at[-1]])
        assert target.likelihoods(z[None])[0][0] == pytest.approx(joint_density(frame, at) - trials, abs=1e-8)
        span = prior.spans["device"]
        logit = beta(91, 31).logpdf(at[-1]) + np.log(at[-1] * (1 - at[-1]))
        assert float(prior.law.log_density(z[span]).sum()) == pytest.approx(logit, abs=1e-9)
        gradient, steps = target.value_and_gradient(z)[1], 1e-5 * np.eye(z.size)
        slopes = [(target.value_and_gradient(z + d)[0] - target.value_and_gradient(z - d)[0]) / 2e-5 for d in steps]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-4)


def test_a_private_predictor_shows_its_device(tmp_path):
    frame = people()
    found = predicted(frame, draws=250)
    effect = found["posterior"]["outcome_coefficients"].sel(outcome_term="private(z)[yes]")
    known = predicted(frame, device=warner(0.75), draws=250)["posterior"]["outcome_coefficients"].sel(
        outcome_term="private(z)[yes]"
    )
    assert found.attrs["converged"] and float(effect.std()) > float(known.std())
    assert "Beta(91, 31) for p" in found.attrs["prior"] and "warner (p = Beta(91, 31))" in found.page().summary
    assert [one.title for one in found.page().tables].count("Probabilities of the device") == 1
    found.save(tmp_path / "found.nc")
    again = lb.load(tmp_path / "found.nc")
    np.testing.assert_allclose(lb.comparisons(again, "z")["mean"], lb.comparisons(found, "z")["mean"])
    again.extend("log_likelihood")
    draw = again["posterior"].dataset.isel(chain=0, draw=3)
    at = *draw["coefficients"].sel(category="yes").values, *draw["outcome_coefficients"].values
    at = *at, np.log(draw["outcome_sd"].item()), draw["p"].item()
    expected = joint_density(frame, at) - TRIALS["p"] @ np.log([at[-1], 1 - at[-1]])
    assert float(again["log_likelihood"]["reports"][0, 3].sum()) == pytest.approx(expected, abs=1e-7)
    with pytest.raises(InfeasibleError, match="Only the distribution of"):
        predicted(frame, device=warner(Uncertain((9, 9))))


def test_a_slope_that_may_be_a_step_has_its_tail():
    """Draws about the joint mode missed 1 % of the posterior, where the slope is steep: a grid of 241 × 851 × 24 × 24."""
    no = [39, 65, 73, 64, 66, 80, 69, 55, 54, 47, 48, 72, 58]
    yes = [16, 37, 46, 37, 46, 44, 46, 40, 61, 66, 57, 57, 57]
    ages = np.arange(17, 78, 5)
    frame = pd.DataFrame({"age": np.tile(ages, 2), "answer": np.repeat(["no", "yes"], 13), "n": no + yes})
    device = Channel(validated=[[118, 9], [42, 31]], answers=["no", "yes"])
    found = lb.regress(frame, "answer ~ age", device, count="n", categories=["no", "yes"], random_seed=2)
    assert "Beta(119, 43) for no given no; Beta(32, 10) for yes given yes" in found.attrs["prior"]
    summary = found["summary"].to_dataset().sel(category="yes")
    exact = {"Intercept": (-2.4675, 1.1566, -4.709, -1.234), "age": (0.0389, 0.02389, 0.01766, 0.0905)}
    for term, (mean, sd, low, high) in exact.items():
        own = summary.sel(term=term)
        assert (
            abs(own["coefficients_mean"] - mean) < 4 * own["coefficients_mcse"]
            and abs(own["coefficients_sd"] / sd - 1) < 0.2
        )
        assert abs(own["coefficients_lower"] - low) < 4 * own["coefficients_lower_error"]
        assert abs(own["coefficients_upper"] - high) < 4 * own["coefficients_upper_error"]
