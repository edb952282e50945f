"""observe() and build_model() against the rows, against models/ and against SciPy; nothing here is sampled by MCMC."""

import pathlib
import runpy
from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special, stats

from ldpbayes import GRR, Collection, Tally, fit, hashing
from ldpbayes.collections import tensor
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.model import build_model, observe
from ldpbayes.priors import Dirichlet
from ldpbayes.priors import dirichlet as sticks
from ldpbayes.protocols import Channel
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.formats import split_cohorts
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

pytestmark = pytest.mark.together("models")

MODELS = pathlib.Path(__file__).parents[1] / "models"


def textbook(name):
    return runpy.run_path(str(MODELS / f"{name}.py"))["model"]


def evaluate(model, inputs, variables=None):
    """Return the log-probability of the observed variables as a function of the inputs."""
    return pytensor.function(inputs, model.logp(vars=variables or model.observed_RVs), mode="FAST_COMPILE")


def observed_logp(collection):
    p = pt.vector("p", shape=(collection.n_categories,))
    with pm.Model() as model:
        observe("reports", p, collection)
    return evaluate(model, [p])


def textbook_logp(model):
    p = pt.vector("p")
    return evaluate(pm.do(model, {"distribution": p}), [p])


def points(n_categories, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n_categories, 0.7), size=6)


def multinomial_coefficient(collection):
    return sum(special.gammaln(t.n_reports + 1) - special.gammaln(t.counts + 1).sum() for t in collection.tallies)


@pytest.mark.parametrize("name", ["nigeria", "eriksson", "minarets", "grr10"])
def test_log_probability_is_that_of_the_rows(name, request):
    collection = request.getfixturevalue(name)
    logp = observed_logp(collection)
    for p in points(collection.n_categories):
        expected = collection.rows.log_likelihood(p) + multinomial_coefficient(collection)
        assert logp(p) == pytest.approx(expected, rel=1e-10)


def test_textbook_grr_has_the_same_log_probability(grr10):
    tally = grr10.tallies[0]
    ours, theirs = observed_logp(grr10), textbook_logp(textbook("grr")(tally.counts, tally.protocol.epsilon))
    for p in points(10):
        assert ours(p) == pytest.approx(float(theirs(p)), rel=1e-10)


@pytest.mark.parametrize("name", ["nigeria", "eriksson", "minarets"])
def test_textbook_channel_has_the_same_log_probability(name, request):
    collection = request.getfixturevalue(name)
    channels = {
        t.name: (t.protocol.matrix, np.bincount(t.reports, t.counts, t.protocol.n_outputs).astype(int))
        for t in collection.tallies
    }
    ours, theirs = observed_logp(collection), textbook_logp(textbook("channel")(channels))
    for p in points(collection.n_categories):
        assert ours(p) == pytest.approx(float(theirs(p)), rel=1e-10)


def simulated(protocol, n=40, seed=5):
    rng = np.random.default_rng(seed)
    p = 0.8 ** np.arange(protocol.n_categories)
    reports, counts = protocol.simulate(rng.multinomial(n, p / p.sum()), rng)
    return Collection([f"c{x}" for x in range(protocol.n_categories)], Tally(protocol, reports, counts))


def textbook_of(collection, alpha=0.5):
    """Return the model of models/ that is the collection's protocol, with its reports person by person or as counts."""
    tally = collection.tallies[0]
    protocol, a = tally.protocol, collection.n_categories
    people = np.repeat(tally.reports, tally.counts, axis=0)
    match protocol.name:
        case "unary":
            bits = np.unpackbits(people, axis=1, count=a).astype(int)
            return textbook("unary")(bits, protocol.kappa, protocol.lam, alpha)
        case "subset":
            return textbook("subset")(np.unpackbits(people, axis=1, count=a).astype(int), protocol.epsilon, alpha)
        case "hadamard":
            counts = np.bincount(people, minlength=protocol.n_outputs)
            return textbook("hadamard")(counts, a, protocol.epsilon, alpha)
        case "local_hashing":
            seeds, values = people.T
            table = hashing.buckets(protocol.family, seeds[:, None], np.arange(a)[None, :], protocol.buckets)
            return textbook("local_hashing")(table, values, protocol.buckets, protocol.epsilon, alpha)
        case "rappor":
            cohorts, bits = split_cohorts(people)
            bits = np.unpackbits(bits, axis=1, count=protocol.n_bits).astype(int)
            filters = np.stack([protocol.filters(c).T for c in range(protocol.cohorts)])
            return textbook("rappor")(filters, cohorts, bits, *protocol.rates, alpha)
        case "cohort_rr":
            counts = np.zeros((protocol.cohorts, protocol.buckets), dtype=int)
            np.add.at(counts, tuple(people.T), 1)
            return textbook("cohort_rr")(protocol.table, counts, protocol.epsilon, alpha)


SETS = [
    UnaryEncoding.symmetric(4, 1.5),
    UnaryEncoding.optimized(14, 2.0),
    SubsetSelection(6, 1.0, size=2),
    SubsetSelection(16, 2.0, size=5),
    HadamardResponse(5, 1.0),
    LocalHashing(6, 1.2),
    CohortRR(5, 1.0, buckets=2, cohorts=4),
    Rappor.direct(4, p=0.2, q=0.8, f=0.1),
    Rappor(5, p=0.1, q=0.7, f=0.2, n_bits=6, cohorts=3, hashes=2, candidates=tuple("abcde")),
    Rappor(5, p=0.1, q=0.7, f=0.2, n_bits=20, cohorts=3, hashes=2, candidates=tuple("abcde")),
]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", SETS, ids=str)
def test_textbook_of_every_protocol_has_the_same_likelihood(protocol):
    collection = simulated(protocol)
    ours, theirs = observed_logp(collection), textbook_logp(textbook_of(collection))
    p, *others = points(protocol.n_categories)
    for q in others:
        assert ours(q) - ours(p) == pytest.approx(float(theirs(q) - theirs(p)), rel=1e-9)
        rows = collection.rows
        assert ours(q) - ours(p) == pytest.approx(rows.log_likelihood(q) - rows.log_likelihood(p), rel=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", SETS, ids=str)
def test_textbook_predicts_what_the_protocol_sends(protocol):
    collection = simulated(protocol)
    tally, model = collection.tallies[0], textbook_of(collection)
    a, n = collection.n_categories, collection.n_reports
    p = 0.8 ** np.arange(a) / (0.8 ** np.arange(a)).sum()
    fixed = pm.do(model, {"distribution": p})
    draws = pm.draw(fixed["reports"], draws=50, random_seed=2, mode="FAST_COMPILE").astype(float)
    if protocol.name in ("unary", "subset"):
        g, h = protocol.hit_rates
        expected = h + (g - h) * p
        error = np.sqrt(expected * (1 - expected) / (50 * n))
        assert np.abs((draws.mean(axis=(0, 1)) - expected) / error).max() < 4
    elif protocol.name == "rappor":
        cohorts = split_cohorts(np.repeat(tally.reports, tally.counts, axis=0))[0]
        on, off = protocol.rates
        expected = np.stack([off + (on - off) * protocol.filters(c) @ p for c in range(protocol.cohorts)])[cohorts]
        error = np.sqrt((expected * (1 - expected)).sum(axis=0) / 50)
        assert np.abs((draws.mean(axis=0) - expected).sum(axis=0) / error).max() < 4
    elif protocol.name == "hadamard":
        expected = protocol.channel() @ p
        assert np.abs((draws.mean(axis=0) / n - expected) / np.sqrt(expected / (50 * n))).max() < 4
    else:
        assert draws.shape == (50, *np.shape(model.rvs_to_values[model["reports"]].eval()))


def test_predictive_support_counts_of_unary_reports():
    collection = simulated(UnaryEncoding.optimized(14, 2.0), n=500)
    p = points(14)[0]
    with pm.Model():
        (reports,) = observe("reports", pt.as_tensor(p), collection)
        draws = pm.draw(reports, draws=300, random_seed=1, mode="FAST_COMPILE")
    g, h = collection.tallies[0].protocol.hit_rates
    expected = h + (g - h) * p
    assert draws.shape == (300, 14)
    assert np.abs((draws.mean(axis=0) / 500 - expected) / np.sqrt(expected * (1 - expected) / 150000)).max() < 4


def test_grr_with_many_categories_is_counted_without_a_matrix():
    collection = simulated(GRR(3000, 1.0))
    names = [variable.name for variable in build_model(collection).data_vars]
    assert "reports_slope" in names and "reports_rows" not in names


def test_whole_reports_have_the_log_probability_of_the_rows(grr10, minarets, monkeypatch):
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)
    for collection in (grr10, minarets):
        logp = observed_logp(collection)
        for p in points(collection.n_categories):
            assert logp(p) == pytest.approx(collection.rows.log_likelihood(p), rel=1e-10)


def test_rows_that_single_out_a_category_make_no_matrix(grr10, eriksson, minarets):
    for collection, kind in ((grr10, "slope"), (eriksson, "slope"), (minarets, "channel")):
        names = {name.rsplit("_", 1)[-1] for name in (v.name for v in build_model(collection).data_vars)}
        assert kind in names and not {"slope", "channel"} <= names


def test_channels_of_both_kinds_stand_side_by_side(monkeypatch):
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: tally.protocol.name == "grr")
    first, second = simulated(GRR(4, 1.0)), simulated(UnaryEncoding.symmetric(4, 1.5))
    tallies = [replace(first.tallies[0], name="form"), replace(second.tallies[0], name="app")]
    both = Collection(first.categories, tallies)
    model = build_model(both, "flat")
    assert [variable.name for variable in model.observed_RVs] == ["reports_form", "reports_app"]
    logp = observed_logp(both)
    for p in points(4):
        expected = both.rows.log_likelihood(p) + multinomial_coefficient(first)
        assert logp(p) == pytest.approx(expected, rel=1e-10)


def test_several_channels_are_several_variables(minarets):
    model = build_model(minarets)
    assert [v.name for v in model.observed_RVs] == [f"reports_{t.name}" for t in minarets.tallies]
    assert model.coords["category"] == minarets.categories


@pytest.mark.usefixtures("interpreted")
def test_predictive_reports_and_log_likelihood_come_from_pymc(grr10):
    p = np.full(10, 0.1)
    with pm.Model() as model:
        fixed = pm.Deterministic("distribution", pt.as_tensor(p) + pm.Normal("nothing", 0, 1e-12))
        observe("reports", fixed, grr10)
        trace = {"nothing": np.zeros((1, 400))}
        predicted = pm.sample_posterior_predictive(_tree(trace), random_seed=1, progressbar=False)
        likelihood = pm.compute_log_likelihood(_tree(trace), progressbar=False, extend_inferencedata=False)
    draws = predicted["posterior_predictive"]["reports"]
    assert draws.dims == ("chain", "draw", "reports_report") and (draws.sum("reports_report") == 1000).all()
    z = (draws.values[0].mean(axis=0) - 100) / (np.sqrt(90) / 20)
    assert np.abs(z).max() < 4
    expected = grr10.rows.log_likelihood(p) + multinomial_coefficient(grr10)
    values = likelihood["reports"] if "reports" in likelihood else likelihood["log_likelihood"]["reports"]
    assert values.values == pytest.approx(expected, rel=1e-9)
    assert model.coords["reports_report"] == grr10.categories


@pytest.mark.usefixtures("interpreted")
def test_predictive_support_counts_of_whole_reports(grr10, monkeypatch):
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)
    p = np.full(10, 0.1)
    with pm.Model():
        observe("reports", pt.as_tensor(p) + pm.Normal("nothing", 0, 1e-12), grr10)
        tree = _tree({"nothing": np.zeros((1, 2))})
        likelihood = pm.compute_log_likelihood(tree, progressbar=False, extend_inferencedata=False)["reports"]
        assert likelihood.values == pytest.approx(grr10.rows.log_likelihood(p), rel=1e-10)
        predicted = pm.sample_posterior_predictive(_tree({"nothing": np.zeros((1, 400))}), random_seed=1, progressbar=False)
    draws = predicted["posterior_predictive"]["reports"].values[0]
    assert (draws.sum(axis=-1) == 1000).all()
    assert np.abs((draws.mean(axis=0) - 100) / (np.sqrt(90) / 20)).max() < 4
    assert predicted["observed_data"]["reports"].values.tolist() == grr10.tallies[0].rows.support_counts().tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("alpha", [[0.5, 1.0, 3.0], [0.5] * 12, [2.0, *[0.3] * 11]], ids=["sticks", "normals", "gammas"])
def test_dirichlet_draws_have_the_moments_of_the_prior(alpha):
    alpha = np.array(alpha)
    with pm.Model():
        p = Dirichlet(alpha).pymc("latent")
        draws = pm.draw(p, draws=4000, random_seed=3, mode="FAST_COMPILE")
    mean = alpha / alpha.sum()
    variance = mean * (1 - mean) / (alpha.sum() + 1)
    assert draws.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert np.abs((draws.mean(axis=0) - mean) / np.sqrt(variance / 4000)).max() < 4
    assert draws.var(axis=0) == pytest.approx(variance, rel=0.2)


def test_latent_densities_are_those_of_scipy():
    y, alpha, beta = np.linspace(-30, 3, 12), np.array(0.02), np.array(0.7)
    log_gamma = sticks._log_gamma_logp(pt.as_tensor(y), alpha).eval(mode="FAST_COMPILE")
    assert log_gamma == pytest.approx(stats.loggamma(0.02).logpdf(y), rel=1e-10)
    logit_beta = sticks._logit_beta_logp(pt.as_tensor(y), alpha, beta).eval(mode="FAST_COMPILE")
    x = special.expit(y)
    assert logit_beta == pytest.approx(stats.beta(0.02, 0.7).logpdf(x) + np.log(x * (1 - x)), rel=1e-9)


def test_latent_draws_stay_finite_where_gammas_underflow():
    small, third = (
        pm.draw(sticks.log_gamma_variable(np.array(alpha), (2000,)), random_seed=0, mode="FAST_COMPILE")
        for alpha in (1e-3, 0.3)
    )
    assert np.isfinite(small).all() and small.min() < -745
    assert stats.kstest(third, stats.loggamma(0.3).cdf).pvalue > 1e-3


def test_report_that_cannot_occur_leaves_the_gradient_finite():
    protocol = Channel([[0.7, 0.2], [0.3, 0.8], [0.0, 0.0]])
    collection = Collection(["no", "yes"], Tally(protocol, [0, 1], [60, 40]))
    p = pt.vector("p")
    with pm.Model() as model:
        observe("reports", p, collection)
    gradient = pytensor.function([p], pytensor.grad(model.logp(vars=model.observed_RVs), p), mode="FAST_COMPILE")
    q = protocol.matrix[:2] @ [0.4, 0.6]
    ahead, expected = gradient(np.array([0.4, 0.6])), protocol.matrix[:2].T @ ([60, 40] / q)
    assert ahead[1] - ahead[0] == pytest.approx(expected[1] - expected[0])


def test_wrong_shape_of_p_is_refused(nigeria):
    with pm.Model(), pytest.raises(ArgumentError, match=r"p must.*\(2\)"):
        observe("reports", pt.as_tensor(np.full(3, 1 / 3)), nigeria)
    with pm.Model(), pytest.raises(ArgumentError, match="p must"):
        observe("reports", pt.as_tensor(0.3), nigeria)
    with pm.Model(), pytest.raises(ArgumentError, match=r"one row.*Cells"):
        observe("reports", pt.as_tensor(np.full((5, 2), 0.5)), nigeria)


@pytest.mark.parametrize("make", [pm.Normal, pm.ZeroSumNormal, pm.Flat, pm.Uniform])
def test_a_variable_that_is_no_distribution_is_refused(make, nigeria):
    """Log odds in place of shares; what is computed from variables is not looked at before PyMC does it."""
    with pm.Model(), pytest.raises(ArgumentError, match=r"add up to 1.*softmax\(z"):
        observe("reports", make("z", shape=2), nigeria)
    with pm.Model(), pytest.raises(ArgumentError, match=r"stack\(\[1 - q, q\]"):  # the usual mistake of two categories
        observe("reports", pm.Beta("q", 1, 1), nigeria)
    for transform in ({}, {"default_transform": None}):
        with pm.Model():
            assert observe("reports", pm.Dirichlet("p", np.ones(2), **transform), nigeria)
    with pm.Model():
        assert observe("reports", pm.math.softmax(make("z", shape=2)), nigeria)


def test_rows_too_large_for_a_model_are_refused(grr10, monkeypatch):
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)
    monkeypatch.setattr(tensor, "MAX_ENTRIES", 99)
    with pytest.raises(InfeasibleError, match=r"100 likelihood.*99"):
        build_model(grr10)


def _tree(posterior):
    import arviz_base

    return arviz_base.from_dict({"posterior": posterior})


def test_the_default_prior_is_one_word_with_one_rule():
    """build_model takes the prior that fit takes by default: learnt from 20 categories on, else Jeffreys'."""
    counts = np.random.default_rng(0).integers(5, 40, 24)
    many = Collection(list(map(str, range(24))), [Tally(GRR(24, 2.0), np.arange(24), counts)])
    few = Collection("abc", [Tally(GRR(3, 1.0), np.arange(3), [30, 20, 10])])
    for data, prior in ((many, "learnt"), (few, "jeffreys")):
        named, default = (build_model(data, word).free_RVs for word in (prior, "default"))
        assert [one.name for one in default] == [one.name for one in named]
    assert build_model(many, likelihood="surrogate").observed_RVs


@pytest.mark.calibrate  # PyMC compiles for ten seconds
@pytest.mark.filterwarnings("ignore")
def test_sequential_monte_carlo_begins_at_the_prior():
    """PyMC puts all of its first draws where an initval is: they stayed at the uniform distribution."""
    survey = Collection("abc", [Tally(GRR(3, 1.0), [0, 1, 2], [30, 10, 10])])
    with build_model(survey, "flat"):
        found = pm.sample_smc(500, chains=2, cores=1, progressbar=False, random_seed=1)["posterior"]["distribution"]
    exact = fit(survey, "flat", draws=0)["summary"].sel(target="distribution")
    assert found.mean(("chain", "draw")).values == pytest.approx(exact["mean"].values, abs=0.02)
    assert found.std(("chain", "draw")).values == pytest.approx(exact["sd"].values, rel=0.15)


@pytest.mark.parametrize("prior, start", [("jeffreys", 1.0), ("flat", 0.0)])
def test_models_of_many_categories_begin_at_the_uniform_distribution_and_draw_from_the_prior(prior, start):
    model = build_model(Collection(map(str, range(40)), [Tally(GRR(40, 1.0), [0], [9])]), prior)
    assert (model.initial_point()["latent"] == start).all()
    assert all(value is None for value in model.rvs_to_initial_values.values())
