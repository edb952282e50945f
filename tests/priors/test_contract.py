"""What every prior keeps: densities, gradients, draws and PyMC variables that agree with each other."""

import numpy as np
import pytest
from priorcases import PRIOR_CASES
from scipy import integrate, special
from tabulated import each_row

from ldpbayes.errors import ArgumentError
from ldpbayes.priors import PRIORS, AbstractPrior, Dirichlet
from ldpbayes.priors.base import softmax

pytestmark = pytest.mark.together("models")

SIZES = (2, 3, 12)
CASES = [(name, a) for name in PRIOR_CASES for a in SIZES]


every_prior = each_row("prior", [PRIOR_CASES[name](a) for name, a in CASES])


def unknowns(prior, size=4):
    return 0.7 * np.random.default_rng(prior.n_unknowns).standard_normal((size, prior.n_unknowns))


def test_every_registered_family_is_in_the_table():
    inside = {type(make(12)) for make in PRIOR_CASES.values()}
    families = {cls for cls in AbstractPrior.families() if cls.__module__.startswith("ldpbayes.priors.")}
    families = {cls for cls in families if not cls.__abstractmethods__}
    families -= {cls for cls in families if cls.__module__ == "ldpbayes.priors.device"}  # methods/test_uncertain_device.py
    assert families <= inside
    assert set(PRIORS) <= set(PRIOR_CASES)


@every_prior
def test_shape_and_dims(prior):
    assert len(prior.shape) == len(prior.dims)
    assert prior.dims[-1] == "category" and prior.n_categories == prior.shape[-1]
    assert prior.sample(5, np.random.default_rng(0)).shape == (5, *prior.shape)
    assert prior.to_simplex(np.zeros(prior.n_unknowns)).shape == prior.shape
    assert isinstance(prior.describe(), str) and prior.describe()


@every_prior
def test_draws_and_coordinates_lie_on_the_simplex(prior):
    z = unknowns(prior)
    for p in (prior.to_simplex(z), prior.sample(50, np.random.default_rng(1))):
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-12)
    assert np.isfinite(prior.to_simplex(30 * z)).all()


@every_prior
def test_many_unknowns_at_once(prior):
    z = unknowns(prior)
    np.testing.assert_allclose(prior.log_density(z), [prior.log_density(one) for one in z], rtol=1e-12)
    np.testing.assert_allclose(prior.to_simplex(z), [prior.to_simplex(one) for one in z], rtol=1e-12)


@every_prior
def test_gradient_is_the_derivative(prior):
    z, h = unknowns(prior)[0], 1e-5
    steps = h * np.eye(z.size)
    numeric = (prior.log_density(z + steps) - prior.log_density(z - steps)) / (2 * h)
    np.testing.assert_allclose(prior.gradient(z), numeric, rtol=1e-6, atol=1e-7)


@every_prior
def test_pullback_is_the_derivative(prior):
    z, h = unknowns(prior)[0], 1e-5
    dp = np.random.default_rng(3).standard_normal(prior.shape)
    steps = h * np.eye(z.size)
    inner = ((prior.to_simplex(z + steps) - prior.to_simplex(z - steps)) * dp).reshape(z.size, -1).sum(axis=1) / (2 * h)
    np.testing.assert_allclose(prior.pullback(z, dp), inner, rtol=1e-6, atol=1e-8)


@every_prior
def test_variables_have_dims_and_labels(prior):
    z = unknowns(prior)
    sizes = {
        "cell": prior.shape[0] if len(prior.shape) > 1 else None,
        "category": getattr(prior, "answers", prior).n_categories,
    }
    sizes |= {name: len(labels) for name, labels in prior.coords().items()}
    for name, (dims, values) in prior.variables(z).items():
        assert values.shape == (len(z), *(sizes[dim] for dim in dims)), name
    assert set(prior.hyperparameter_names) <= set(prior.variables(z))


@every_prior
def test_logits_are_those_of_the_shares(prior):
    """Their softmax is P, and their pullback is a derivative."""
    z, h = unknowns(prior)[0], 1e-5
    p = np.exp(prior.logits_of(z))
    np.testing.assert_allclose(p / p.sum(axis=-1, keepdims=True), prior.to_simplex(z), rtol=1e-12)
    slope = np.random.default_rng(4).standard_normal(prior.shape)
    numeric = [((prior.logits_of(z + s) - prior.logits_of(z - s)) * slope).sum() / (2 * h) for s in h * np.eye(z.size)]
    np.testing.assert_allclose(prior.pullback_logits(z, slope), numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PRIOR_CASES)
def test_log_density_is_normalized_and_that_of_the_draws(name):
    """Two categories: by quadrature over z, against the mean and the second moment of draws.

    With hyperparameters z has more dimensions than quadrature takes; there importance sampling does the integral.
    """
    prior = PRIOR_CASES[name](2)
    draws = prior.sample(40_000, np.random.default_rng(7)).reshape(-1, 2)[:, 0]
    if prior.n_unknowns == 1:
        found = [
            integrate.quad(
                lambda y, k=k: np.exp(prior.log_density(np.array([y]))) * prior.to_simplex(np.array([y]))[..., 0] ** k,
                -60, 60, points=[0], limit=400,
            )[0]
            for k in (0, 1, 2)
        ]  # fmt: skip
        error = 1e-6
    else:
        rng, u = np.random.default_rng(8), prior.n_unknowns
        z = 2.0 * rng.standard_t(5, size=(100_000, u))
        from scipy import stats

        weight = np.exp(prior.log_density(z) - stats.t.logpdf(z / 2.0, 5).sum(axis=1) + u * np.log(2.0))
        p = prior.to_simplex(z).reshape(len(z), -1)[:, 0]
        found = [(weight * p**k).mean() for k in (0, 1, 2)]
        error = 4 * weight.std() / np.sqrt(len(z))
    assert found[0] == pytest.approx(1, abs=error)
    assert found[1] == pytest.approx(draws.mean(), abs=error + 4 * draws.std() / 200)
    assert found[2] == pytest.approx((draws**2).mean(), abs=error + 4 * (draws**2).std() / 200)


@every_prior
def test_weight_is_that_of_direct_answers(prior):
    """Σ Var(P_x) = (1 − Σ E[P_x]²)/(weight + 1) for a Dirichlet; the others have no such number."""
    if prior.concentrations() is None and not isinstance(prior, Dirichlet):
        assert np.isnan(prior.weight())
        return
    draws = prior.sample(20_000, np.random.default_rng(5))
    ratio = (1 - (draws.mean(axis=0) ** 2).sum()) / draws.var(axis=0).sum() - 1
    assert prior.weight() == pytest.approx(ratio, rel=0.15, abs=0.05)


@every_prior
def test_settings_are_arrays(prior):
    assert prior.to_dict() and all(np.isfinite(np.asarray(value)).all() for value in prior.to_dict().values())


@every_prior
def test_another_number_of_categories_is_refused(prior):
    with pytest.raises(ArgumentError, match=r"prior must.*(7|one)"):
        prior.over(7)


@pytest.mark.sampled(6)
@pytest.mark.calibrated(
    "conjugate compliance-1000", "hierarchical by category-1000", "jeffreys-1000", "neighbours-1000", "uneven Dirichlet-1000"
)
@pytest.mark.parametrize("size", [1000, pytest.param(8000, marks=pytest.mark.calibrate)])
@pytest.mark.parametrize("name", PRIOR_CASES)
def test_pymc_variable_has_the_moments_of_the_draws(name, size):
    import pymc as pm

    prior = PRIOR_CASES[name](4)
    with pm.Model():
        p = prior.pymc("latent")
        drawn = pm.draw(p, size, random_seed=1, mode="FAST_COMPILE")
    assert drawn.shape == (size, *prior.shape)
    ours = prior.sample(20_000, np.random.default_rng(2))
    for power in (1, 2):
        error = (ours**power).std(axis=0) * np.sqrt(1 / size + 1 / 20_000)
        assert (np.abs((drawn**power).mean(axis=0) - (ours**power).mean(axis=0)) < 5 * error).all()


@each_row("shape", [(3,), (4, 2), (200, 2), (20, 30, 3), (50, 7), (50, 8), (500, 1), (0, 3)])
def test_softmax_takes_short_axes_and_long_ones(shape):
    logits = 300 * np.random.default_rng(1).standard_normal(shape)
    np.testing.assert_allclose(softmax(logits), special.softmax(logits, axis=-1), rtol=1e-12, atol=1e-300)
