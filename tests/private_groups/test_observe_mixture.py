"""observe_mixture against NumPy, against enumeration of the private answers, and against the textbook model."""

import itertools
import pathlib
import runpy

import numpy as np
import pandas
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special, stats

import ldpbayes as lb
from ldpbayes import GRR
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.private_groups import mixture
from ldpbayes.pymc import observe_mixture

MODELS = pathlib.Path(__file__).parents[2] / "models"
RATE = 0.4994798
CENTRE, SPREAD = np.array([6.5, 7.4]), np.float64(0.6)


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.random(n) < 0.3).astype(int)
    reports = np.where(rng.random(n) < RATE, rng.integers(2, size=n), x)
    return rng.lognormal(CENTRE[x], SPREAD).round(1), reports


def components(centre=CENTRE, spread=SPREAD):
    return [pm.LogNormal.dist(np.float64(mu), np.float64(spread)) for mu in centre]  # a plain 0.6 is in single precision


def log_density(z, rows, p, parts):
    """Return log Σ_x p_x L_yx f_x(z) of every record with NumPy and SciPy."""
    return special.logsumexp(np.stack([part.logpdf(z) for part in parts], axis=-1), b=rows * p, axis=-1)


def evaluate(model, inputs=(), **given):
    """Return the log-probability of each observed value."""
    logp = model.logp(vars=model.observed_RVs, sum=False)
    return pytensor.function(list(inputs), logp, mode="FAST_COMPILE")


def test_log_density_is_that_of_numpy_for_every_form_of_data():
    z, reports = records(40)
    protocol = GRR(2, epsilon=1.1)
    channel = 0.25 * RATE * 2 * np.ones((2, 2)) + (1 - RATE) * np.eye(2)
    frame = pandas.DataFrame({"z": z, "y": np.array(["high", "low"])[reports], "rate": RATE})
    forms = {
        "protocol": (z, (protocol, reports), {}),
        "likelihoods": (z, channel[reports], {}),
        "frame": ("z", frame, {"report": "y", "rate_column": "rate", "categories": ["high", "low"]}),
    }
    p = pt.vector("p", shape=(2,))
    parts = [stats.lognorm(SPREAD, scale=np.exp(mu)) for mu in CENTRE]
    for q in ([0.7, 0.3], [1.0, 0.0], [1e-300, 1.0]):
        expected = log_density(z, channel[reports], np.array(q), parts)
        for value, data, settings in forms.values():
            with pm.Model() as model:
                observe_mixture("z", value, components(), p, data, **settings)
            found = evaluate(model, [p])(q)[0]
            np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-5)  # a factor per report is free
            if data is not frame:
                np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_sum_over_all_private_answers_of_all_people():
    z, reports = records(5, seed=3)
    protocol, q = GRR(3, epsilon=0.8), np.array([0.5, 0.3, 0.2])
    channel = (
        np.exp(protocol.rows(np.arange(3), np.ones(3)).log_constants)[:, None]
        * protocol.rows(np.arange(3), np.ones(3)).dense()
    )
    parts = [stats.lognorm(0.5, scale=np.exp(mu)) for mu in (6, 7, 8)]
    total = 0.0
    for answers in itertools.product(range(3), repeat=len(z)):
        total += np.prod(
            [q[x] * channel[y, x] * parts[x].pdf(value) for x, y, value in zip(answers, reports, z, strict=True)]
        )
    with pm.Model() as model:
        observe_mixture("z", z, components((6, 7, 8), 0.5), q, (protocol, reports))
    assert evaluate(model)()[0].sum() == pytest.approx(np.log(total), rel=1e-10)


def test_shares_that_follow_covariates_and_components_with_one_entry_per_record():
    z, reports = records(30)
    rng = np.random.default_rng(1)
    w, shares = rng.normal(size=30), rng.dirichlet([1, 1], size=30)
    channel = np.array([[0.8, 0.1], [0.2, 0.9]])
    with pm.Model() as model:
        parts = [pm.Normal.dist(1000 + 100 * w, np.float64(500)), pm.Normal.dist(np.float64(2000), np.float64(800))]
        observe_mixture("z", z, parts, shares, channel[reports])
    expected = log_density(z, channel[reports], shares, [stats.norm(1000 + 100 * w, 500), stats.norm(2000, 800)])
    np.testing.assert_allclose(evaluate(model)()[0], expected, rtol=1e-10)


def test_direct_answers_pick_their_component_and_impossible_values_have_no_probability():
    with pm.Model() as model:
        parts = [pm.Uniform.dist(0, 1), pm.Uniform.dist(2, 3)]
        observe_mixture("z", np.array([0.5, 2.5, 2.5]), parts, np.array([0.5, 0.5]), np.array([[1, 0], [0, 1], [1, 0]]))
    assert evaluate(model)()[0].tolist() == [np.log(0.5), np.log(0.5), -np.inf]


def test_counts():
    reports, channel = np.array([0, 1, 1]), np.array([[0.75, 0.25], [0.25, 0.75]])
    counts, rates = np.array([0, 3, 1]), np.array([1.0, 4.0])
    with pm.Model() as model:
        observe_mixture("k", counts, [pm.Poisson.dist(rate) for rate in rates], np.array([0.5, 0.5]), channel[reports])
    expected = special.logsumexp(stats.poisson(rates).logpmf(counts[:, None]), b=0.5 * channel[reports], axis=-1)
    np.testing.assert_allclose(evaluate(model)()[0], expected, rtol=1e-10)


@pytest.mark.calibrate  # a Cholesky factor takes ten seconds to compile
def test_vectors():
    reports, channel = np.array([0, 1, 1]), np.array([[0.75, 0.25], [0.25, 0.75]])
    centres, values = np.array([[0.0, 0.0], [3.0, 3.0]]), np.array([[0.1, 0.2], [3.0, 2.5], [1.0, 1.0]])
    with pm.Model() as model:
        parts = [pm.MvNormal.dist(centre, np.eye(2)) for centre in centres]
        observe_mixture("v", values, parts, np.array([0.4, 0.6]), channel[reports])
    expected = log_density(values, channel[reports], np.array([0.4, 0.6]), [stats.multivariate_normal(c) for c in centres])
    np.testing.assert_allclose(evaluate(model)()[0], expected, rtol=1e-10)


def test_the_textbook_model_has_the_same_numbers():
    z, reports = records(60)
    textbook = runpy.run_path(str(MODELS / "private_predictor.py"))["model"](z, reports, RATE)
    low, centre, spread = pt.scalar("low_"), pt.vector("centre_"), pt.scalar("spread_")
    theirs = evaluate(pm.do(textbook, {"low": low, "centre": centre, "spread": spread}), [low, centre, spread])
    with pm.Model() as model:
        parts = [pm.LogNormal.dist(centre[x], spread) for x in range(2)]
        protocol = GRR(2, epsilon=np.log(2 / RATE - 1))
        observe_mixture("z", z, parts, pt.stack([1 - low, low]), (protocol, reports))
    ours = evaluate(model, [low, centre, spread])
    for point in ((0.3, CENTRE, 0.5), (0.01, [7.0, 5.0], 1.5)):
        np.testing.assert_allclose(ours(*point)[0], sum(theirs(*point)), rtol=1e-9)


def test_predictions_are_of_people_with_these_reports():
    reports = np.repeat([0, 1], 4000)
    draw = mixture._draw
    rng = np.random.default_rng(0)
    logs = np.log(np.array([[0.75, 0.25], [0.25, 0.75]]))[reports]
    found = draw(logs, np.array([0.5, 0.5]), np.zeros(8000), np.ones(8000), rng=rng)
    assert abs(found[:4000].mean() - 0.25) < 0.03 and abs(found[4000:].mean() - 0.75) < 0.03
    vectors = draw(logs, np.array([0.5, 0.5]), np.zeros((8000, 2)), np.ones((8000, 2)), rng=rng)
    assert vectors.shape == (8000, 2) and (vectors[:, 0] == vectors[:, 1]).all()


Z, Y = np.array([1.0, 2.0]), np.array([0, 1])
ROWS = np.array([[0.75, 0.25], [0.25, 0.75]])


@pytest.mark.parametrize(
    "value, parts, p, data, settings, words",
    [
        (Z, components()[:1], [0.5, 0.5], ROWS, {}, "components must have one distribution for each of the 2"),
        (Z, [1.0, 2.0], [0.5, 0.5], ROWS, {}, "components must be distributions such as"),
        (Z, components(), [0.5, 0.3, 0.2], ROWS, {}, "p must have one entry per category"),
        (Z, components(), np.full((3, 2), 0.5), ROWS, {}, "p must have one row for each of the 2 records"),
        (Z[:1], components(), [0.5, 0.5], ROWS, {}, "value must have an entry for each of the 2 records"),
        (["a", "b"], components(), [0.5, 0.5], ROWS, {}, "value must hold numbers"),
        ([1.0, np.nan], components(), [0.5, 0.5], ROWS, {}, "values must be finite"),
        (np.ones((2, 2)), components(), [0.5, 0.5], ROWS, {}, "value must have 1 dimensions"),
        ([2.5, 3.0], [pm.Poisson.dist(1.0), pm.Poisson.dist(4.0)], [0.5, 0.5], ROWS, {}, "whole numbers"),
        (pytensor.shared(Z), components(), [0.5, 0.5], ROWS, {}, "value must be an array of numbers, got a tensor"),
        (Z, components(), [0.5, 0.5], [[1, 0], [0, 0]], {}, "no row may be zero"),
        (Z, components(), [0.5, 0.5], [[1, -1], [0, 1]], {}, "not negative"),
        (Z, components(), [0.5, 0.5], [1.0, 2.0], {}, "a column for each category"),
        (Z, components(), [0.5, 0.5], ("grr", Y), {}, "data must be (protocol, reports)"),
        (Z, components(), [0.5, 0.5], (GRR(2, 1.0), [0, 2]), {}, "2"),
        (Z, components(), [0.5, 0.5], ROWS, {"rate_column": "r"}, "must be left out unless data is a data frame"),
        (Z, components(), [0.5, 0.5], pandas.DataFrame({"y": Y}), {"report": "y"}, "value must be the name of a column"),
        (
            "t",
            components(),
            [0.5, 0.5],
            pandas.DataFrame({"y": Y, "t": ["a", "b"]}),
            {"report": "y", "protocol": GRR(2, 1.0)},
            "numbers",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(value, parts, p, data, settings, words):
    with pm.Model(), pytest.raises((ArgumentError, DataError, InfeasibleError)) as caught:
        observe_mixture("z", value, parts, np.asarray(p), data, **settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_registered_variables_and_reports_in_bits_are_refused():
    with pm.Model():
        registered = [pm.Normal("a"), pm.Normal("b")]
        with pytest.raises(ArgumentError, match="variable 'a'"):
            observe_mixture("z", Z, registered, np.array([0.5, 0.5]), ROWS)
        with pytest.raises(ArgumentError, match="one kind"):
            observe_mixture("z", Z, [pm.Normal.dist(), pm.Poisson.dist(1)], np.array([0.5, 0.5]), ROWS)


@pytest.mark.filterwarnings("ignore:Numba will use object mode")
@pytest.mark.calibrate  # a minute: compiles and samples
def test_nuts_agrees_with_the_groups_of_five_thousand_records():
    z, reports = records(5000)
    with pm.Model():
        share = pm.Dirichlet("share", np.ones(2))
        centre = pm.Normal("centre", 7, 1, shape=2)
        spread = pm.HalfNormal("spread", 1)
        parts = [pm.LogNormal.dist(centre[x], spread) for x in range(2)]
        observe_mixture("z", z, parts, share, (GRR(2, epsilon=np.log(2 / RATE - 1)), reports))
        trace = pm.sample(500, tune=500, chains=2, cores=1, random_seed=1, nuts_sampler="nutpie", progressbar=False)
        predicted = pm.sample_posterior_predictive(trace.sel(draw=slice(0, 20)), random_seed=1, progressbar=False)
    means = np.exp(trace["posterior"]["centre"] + trace["posterior"]["spread"] ** 2 / 2)
    nuts = np.r_[trace["posterior"]["share"].mean(("chain", "draw")), means.mean(("chain", "draw"))]
    frame = pandas.DataFrame({"z": z, "y": np.array(["high", "low"])[reports], "rate": RATE})
    found = lb.by_private_group(frame, value="z", report="y", rate_column="rate", random_seed=1)
    ours, sd = (np.r_[found.shares()[key], found.mean()[key]] for key in ("mean", "sd"))
    assert (np.abs(ours - nuts) < 2 * sd).all()  # a model with two numbers a group, and one with a curve
    assert predicted["posterior_predictive"]["z"].mean() == pytest.approx(z.mean(), rel=0.05)


def test_integers_beyond_32_bits_are_observed_as_they_are():
    """PyMC casts observed integers to int32: incomes in cents, or times in milliseconds, wrapped without a word."""
    large = np.array([5_000_000_000, -5_000_000_000])
    for value, parts in [
        (large, [stats.norm(5e9, 2e9), stats.norm(4e9, 1e9)]),
        (abs(large), [stats.poisson(5e9), stats.poisson(5.0001e9)]),
    ]:
        discrete = hasattr(parts[0], "pmf")
        of = pm.Poisson.dist if discrete else pm.Normal.dist
        with pm.Model() as model:
            observe_mixture("v", value, [of(*map(np.float64, part.args)) for part in parts], np.array([0.5, 0.5]), ROWS)
        logs = np.stack([part.logpmf(value) if discrete else part.logpdf(value) for part in parts], axis=-1)
        expected = special.logsumexp(logs, b=0.5 * ROWS, axis=-1)
        np.testing.assert_allclose(evaluate(model)()[0], expected, rtol=1e-6)


def test_labels_in_another_order_than_the_components_are_refused():
    frame = pandas.DataFrame({"z": Z, "y": ["low", "high"], "rate": RATE})  # categories as reported: high, low
    for labels in (["high", "low"], ["low", "high"]):
        with pm.Model(coords={"confidence": labels}):
            share = pm.Dirichlet("share", np.ones(2), dims="confidence")
            if labels[0] == "high":
                observe_mixture("z", "z", components(), share, frame, report="y", rate_column="rate")
                continue
            with pytest.raises(ArgumentError, match=r"high,.*low;.*low,.*high"):
                observe_mixture("z", "z", components(), share, frame, report="y", rate_column="rate")
