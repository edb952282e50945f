"""A prior far from normal that a user writes in one file: the page's horseshoe, on three data sets, cells and no draws."""

import pathlib
import re

import numpy as np
import pytest
from scipy import stats

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.priors.base import QuantileLaw
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "howto" / "own-prior.md"


@pytest.fixture(scope="module")
def page():
    """What the first block of the page defines."""
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)[0]
    assert len(code.splitlines()) <= 45
    namespace = {"__name__": "page"}
    exec(code, namespace)
    return namespace


def survey(protocol, logits, n, seed):
    rng, p = np.random.default_rng(seed), np.exp(logits) / np.exp(logits).sum()
    return lb.Collection(map(str, range(p.size)), lb.Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng)))


def test_quantiles_are_those_of_scale_times_normal(page):
    """At 200,000 draws each the two-sample statistic exceeds 0.0062 once in a thousand times."""
    rng = np.random.default_rng(1)
    u = page["horseshoe"].of(rng.standard_normal(200_000))
    tau = page["half_cauchy"].of(rng.standard_normal(200_000))
    x = np.abs(rng.standard_cauchy(200_000)) * rng.standard_normal(200_000)
    assert stats.ks_2samp(u, x).statistic < 0.0062
    assert stats.kstest(tau, stats.halfcauchy.cdf).statistic < 0.0044


def test_draws_numbers_and_gradients_agree(page):
    prior = page["Horseshoe"](0.7, 5)
    z, h = np.random.default_rng(2).standard_normal(5), 1e-5
    dp, steps = np.arange(5.0), h * np.eye(5)
    numeric = (prior.to_simplex(z + steps) - prior.to_simplex(z - steps)) @ dp / (2 * h)
    np.testing.assert_allclose(prior.pullback(z, dp), numeric, rtol=1e-5, atol=1e-8)
    assert prior.describe() == "horseshoe with scale 0.7" and prior.to_dict() == {"scale": 0.7}


def test_the_model_of_pymc_has_the_same_p(page):
    """The law's quantiles were left out there: NUTS, which the fit hands over to, sampled under another prior."""
    import pytensor

    prior = page["Horseshoe"](0.7, 5)
    model = lb.pymc.build_model(survey(lb.GRR(5, 1.0), np.zeros(5), 100, 1), prior)
    p = pytensor.function(model.free_RVs, model["distribution"], mode="FAST_COMPILE")
    tau = pytensor.function(model.free_RVs, model["tau"], mode="FAST_COMPILE", on_unused_input="ignore")
    for z in 1.5 * np.random.default_rng(3).standard_normal((4, 5)):
        np.testing.assert_allclose(p(z[:1], z[1:]), prior.to_simplex(z), rtol=1e-9)
        assert tau(z[:1], z[1:]) == pytest.approx(prior.hyperparameters(z)["tau"], rel=1e-9)
    assert [variable.name for variable in model.data_vars][:2] == ["latent_tau_quantiles", "latent_quantiles"]


def test_quantiles_that_are_no_law_are_refused():
    z = stats.norm.ppf(np.linspace(0.01, 0.99, 99))
    for x, y, words in [
        (z[::-1], z, "x must be increasing numbers"),
        (z, np.r_[z[0], z[:-1]], "z must be increasing numbers"),
        (z[1:], z, "x must be increasing numbers, as many as the other's"),
        ([0.0, np.nan], [0.0, 1.0], "x must be finite numbers"),
        ([-4.0, -3.9, 3.9, 4.0, 4.1], [-3.0, -0.2, 0.2, 2.0, 3.0], "its spline falls over"),  # two points in four
    ]:
        with pytest.raises(ArgumentError, match=words):
            QuantileLaw(x, y)


def test_moments_without_draws_are_refused_in_words(page):
    one = survey(lb.GRR(6, 1.5), [1.0, 0, 0, 0, 0, 0], 100, 3)
    for data in (one, lb.Cells({"u": one, "v": one}, by="g")):
        with pytest.raises(InfeasibleError, match=r"Dirichlet prior.*horseshoe"):
            lb.fit(data, page["Horseshoe"](), draws=0)


SETS = {
    "few reports": (lb.GRR(10, 1.0), [2.0] * 2 + [0.0] * 8, 300),
    "many reports": (lb.GRR(6, 2.0), [1.4, 1.1, 0.0, 0.0, -0.7, -0.7], 100_000),
    "many categories": (UnaryEncoding.optimized(20, 1.0), [2.5] * 3 + [0.0] * 17, 5000),
}


@pytest.mark.calibrate  # NUTS serves two of them: a compilation and two minutes
@pytest.mark.parametrize("name", SETS)
def test_the_default_method_converges(page, name):
    tree = lb.fit(survey(*SETS[name], seed=1), page["Horseshoe"](), estimates=False, random_seed=1)
    assert tree.attrs["converged"] and not facts_of(tree).get("divergences")
    p = np.exp(SETS[name][1]) / np.exp(SETS[name][1]).sum()
    row = tree["summary"].sel(target="distribution")
    assert (np.abs(row["mean"] - p) < 4.5 * row["sd"] + 1e-9).all()


def test_mistakes_of_a_prior_of_ones_own_are_named(page):
    family, data = page["Horseshoe"], survey(lb.GRR(4, 1.0), np.zeros(4), 500, 1)

    class Short(family):
        def eta(self, values, xp):
            return self.scale * values["tau"] * values[""]

    class Sized(family):
        def blocks(self):
            return {"tau": (page["half_cauchy"], 1), "": (page["horseshoe"], (self.n_categories - 1,))}

    class Scipy(family):
        def blocks(self):
            return {"tau": (stats.halfcauchy(), (1,)), "": (page["horseshoe"], (self.n_categories - 1,))}

    for wrong, words in ((Short, "a logit for each category"), (Sized, "a tuple of sizes"), (Scipy, "a Law of")):
        with pytest.raises(ArgumentError, match=words):
            lb.fit(data, wrong(), draws=50, random_seed=1)
