"""Priors over all cells: filled in from the cells, their unknowns in results, engines and their hand-over."""

import copy
import importlib.util
import pathlib
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from ldpbayes import GRR, Cells, Collection, Tally, fit, load, read, result, save, show
from ldpbayes.errors import ArgumentError, ConvergenceError
from ldpbayes.inference import hmc as hamiltonian
from ldpbayes.inference.diagnostics import mcse_of_mean
from ldpbayes.inference.effects import Bent
from ldpbayes.inference.importance import moments
from ldpbayes.inference.newton import find_mode
from ldpbayes.inference.structure import Curvatures
from ldpbayes.inference.target import Target
from ldpbayes.methods import hmc
from ldpbayes.methods.base import Watch
from ldpbayes.methods.forms import Apart, Forms
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.nuts import NUTS
from ldpbayes.methods.problem import Joint, scaled
from ldpbayes.methods.sampler import weighted_entries
from ldpbayes.priors import AbstractPrior, Hierarchical
from ldpbayes.protocols import crosswise
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.long

LABELS = ["a", "b", "c"]
ROOT = pathlib.Path(__file__).parents[2]


@dataclass(frozen=True, eq=False)
class Slopes(AbstractPrior):
    """p_c = softmax(0, b x_c), b ~ N(0, 1): a prior that is written down without numbers and needs a covariate."""

    column: str
    x: np.ndarray | None = None
    n_categories: int | None = None

    def on(self, cells):
        if cells.covariates is None or self.column not in cells.covariates:
            raise ArgumentError(f"cells have no covariate {self.column!r}.")
        return replace(self, x=np.asarray(cells.covariates[self.column], float), n_categories=cells.n_categories)

    @property
    def shape(self):
        return (len(self.x), self.n_categories)

    @property
    def n_unknowns(self):
        return self.n_categories - 1

    def sample(self, size, rng):
        return self.to_simplex(rng.standard_normal((size, self.n_unknowns)))

    def log_density(self, z):
        return -0.5 * (np.asarray(z) ** 2).sum(axis=-1) - 0.5 * self.n_unknowns * np.log(2 * np.pi)

    def gradient(self, z):
        return -z

    def to_simplex(self, z):
        eta = self.x[:, None] * np.asarray(z)[..., None, :]
        p = np.exp(np.concatenate([np.zeros_like(eta[..., :1]), eta], axis=-1))
        return p / p.sum(axis=-1, keepdims=True)

    def pullback(self, z, dp):
        p = self.to_simplex(z)
        return self.x @ (p * (dp - (p * dp).sum(axis=-1, keepdims=True)))[:, 1:]

    def pymc(self, name):
        raise NotImplementedError

    def describe(self):
        return f"slopes along {self.column}"

    def to_dict(self):
        return {"x": self.x}

    def variables(self, z):
        z = np.asarray(z)
        padded = np.concatenate([np.zeros_like(z[:, :1]), z], axis=1)
        return {"size": ((), np.abs(z).sum(axis=1)), "coefficients": (("term", "category"), padded[:, None])}

    def coords(self):
        return {"term": [self.column]}


@pytest.fixture(scope="module")
def cells():
    rng, x, found = np.random.default_rng(1), np.linspace(-1, 1, 6), {}
    for c in range(6):
        p = np.exp(np.array([0.0, 1.0, -0.5]) * x[c])
        found[f"g{c}"] = Collection(
            LABELS, [Tally(GRR(3, 1.0), [0, 1, 2], rng.multinomial(300, GRR(3, 1.0).channel() @ (p / p.sum())))]
        )
    return Cells(found, by="group", covariates={"x": x})


def test_a_prior_is_filled_in_from_the_cells_and_its_unknowns_are_in_the_result(cells, tmp_path):
    tree = fit(cells, Slopes("x"), random_seed=1, draws=500)
    assert tree.attrs["method"] == "weighted" and tree.attrs["converged"]
    posterior, summary = tree["posterior"], tree["summary"]
    assert posterior["coefficients"].dims == ("chain", "draw", "category", "term")
    assert set(summary["coefficients_mean"].dims) == {"term", "category"} and summary["term"].values.tolist() == ["x"]
    mean, sd = (float(summary[f"coefficients_{key}"].sel(term="x", category="b")) for key in ("mean", "sd"))
    assert abs(mean - 1) < 4 * sd and 0 < sd < 1
    assert float(summary["coefficients_ess_bulk"].sel(category="b").squeeze()) > 500
    assert summary["parameter"].values.tolist() == ["size"]
    assert tree["constant_data"]["x"].shape == (6,)
    save(tree, tmp_path / "slopes.nc")
    again = load(tmp_path / "slopes.nc")
    page = show(again)
    table = next(table for table in page.tables if table.title == "Coefficients")
    assert [column.key for column in table.columns][:2] == ["term", "category"] and len(table.rows) == 3
    assert page.facts["unknowns"]["coefficients"]["dims"]["term"] == ["x"]
    one = result.select(again, "g2")
    result.validate(one)
    with pytest.raises(ArgumentError, match="no covariate 'y'"):
        fit(cells, Slopes("y"))


def test_weighted_moments_are_those_of_repeated_draws():
    rng = np.random.default_rng(2)
    values, counts = rng.normal(size=(50, 2)), rng.integers(0, 4, 50)
    found = moments(values, counts / counts.sum())
    np.testing.assert_allclose(found["mean"], np.repeat(values, counts, axis=0).mean(axis=0))
    np.testing.assert_allclose(found["sd"], np.repeat(values, counts, axis=0).std(axis=0))
    assert (found["ess_bulk"] < 50).all() and moments(values, np.full(50, 0.02))["ess_bulk"] == pytest.approx(50)


def unary_groups(sizes, a=4, epsilon=1.0, seed=3, sd=0.5):
    """Return (cells, their distributions): groups that vary about a centre, behind unary encodings."""
    rng, protocol, found = np.random.default_rng(seed), UnaryEncoding.optimized(a, epsilon), {}
    centre, truth = rng.normal(size=a), []
    for g, n in enumerate(sizes):
        p = np.exp(centre + sd * rng.normal(size=a))
        truth.append(p / p.sum())
        reports = protocol.simulate(rng.multinomial(n, truth[-1]), rng)
        found[f"g{g}"] = Collection([f"c{x}" for x in range(a)], [Tally(protocol, *reports)])
    return Cells(found, by="group"), np.array(truth)


def settled(sample):
    """Return (mean, its error) of the draws of P of an Outcome."""
    if "mean" in sample.known.get("distribution", {}):
        return sample.known["distribution"]["mean"], sample.known["distribution"]["mcse"]
    draws = sample.distribution
    error = mcse_of_mean(draws.reshape(*draws.shape[:2], -1), independent=False)
    return draws.mean(axis=(0, 1)), error.reshape(draws.shape[2:])


def run(cells, prior, seed=1, method=HMC, **settings):
    problem, engine = Joint(cells, prior.on(cells)), method(**settings)
    return engine.run(engine.plan(problem), np.random.default_rng(seed), Watch())


@pytest.mark.parametrize(
    "prior", [Hierarchical(), Hierarchical("days"), Hierarchical(by_category=True)], ids=["groups", "days", "by category"]
)
def test_the_compiled_density_is_that_of_prior_and_likelihoods(prior):
    cells, _ = unary_groups([50, 60, 40])
    separable = Collection(cells.categories, [Tally(GRR(4, 1.0), [0, 1, 2, 3], [9, 8, 7, 6])])
    cells = Cells({**cells, "grr": separable}, by="group")
    prior = prior.on(cells)
    target = Target(prior, Forms.of(cells.likelihoods))
    slow, rng = Target(prior, Apart(cells.likelihoods)), np.random.default_rng(1)
    centre = 0.3 * rng.standard_normal(prior.n_unknowns)
    density, offsets, compiled = Bent(target, centre), [], []
    coordinates = density.coordinates
    for _ in range(3):
        u = 0.5 * rng.standard_normal(prior.n_unknowns)
        z = coordinates.of(u)
        np.testing.assert_allclose(coordinates.back(z), u, atol=1e-9)
        np.testing.assert_allclose(coordinates.of(u[None])[0], z, atol=1e-12)
        value, gradient = target.value_and_gradient(z)
        known, slope = slow.value_and_gradient(z)
        offsets.append(value - known)
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8)
        one, other = density.value_and_gradient(u)
        compiled.append(one - known)
        np.testing.assert_allclose(other, coordinates.gradient(slope), rtol=1e-8, atol=1e-8)
    for found in (offsets, compiled):  # each up to its constant
        np.testing.assert_allclose(found, found[:1] * len(found), atol=1e-8)
    assert target.functions is not None


def test_chains_that_stand_still_have_no_effective_draws():
    """Their variance is rounding, and their error zero."""
    values = np.full((1, 50, 2), 0.94466321)
    values[..., 1] = np.linspace(0, 1, 50)
    shown = weighted_entries(values, np.full((1, 50), 0.02))
    assert np.isnan(shown["mcse"][0]) and np.isnan(shown["ess_bulk"][0])
    assert shown["mcse"][1] > 0 and shown["ess_bulk"][1] > 0


def test_whitened_coordinates_make_the_hessian_one():
    cells, _ = unary_groups([300] * 5)
    for prior in (Hierarchical().on(cells), slopes_over(cells)):
        target = Target(prior, Forms.of(cells.likelihoods))
        centre = find_mode(Target(prior, Apart(cells.likelihoods)), np.zeros(prior.n_unknowns))[0]
        coordinates, h = Bent(target, centre).coordinates, 1e-4

        def gradient(u, target=target, coordinates=coordinates):
            return coordinates.gradient(target.value_and_gradient(coordinates.of(u))[1])

        steps = h * np.eye(centre.size)
        hessian = np.array([(gradient(-s) - gradient(s)) / (2 * h) for s in steps])
        np.testing.assert_allclose(hessian, np.eye(centre.size), atol=1e-4)


def slopes_over(cells):
    return Slopes("x", np.linspace(-1, 1, len(cells)), cells.n_categories)


@pytest.mark.calibrate
def test_summaries_with_weights_agree_with_the_reports():
    cells, _ = unary_groups([400] * 6)
    by_rows = run(cells, Hierarchical(), method=NUTS, draws=1000, chains=2)
    by_summaries = run(cells, Hierarchical(), seed=2, written=0, draws=1000, chains=2)
    assert not by_summaries.rejected and by_summaries.facts["k_hat"] < 0.7
    (one, error), (other, others) = settled(by_rows), settled(by_summaries)
    assert (np.abs(one - other) / np.hypot(error, others)).max() < 4.5
    assert by_summaries.distribution.shape == (2, 1000, 6, 4)
    for name in ("scale", "pooled", "effect"):
        left, right = (sample.variables[name][1] for sample in (by_rows, by_summaries))
        assert np.allclose(left.std(axis=(0, 1)), right.std(axis=(0, 1)), rtol=0.3), name


@pytest.mark.calibrate
def test_few_reports_at_high_epsilon_enter_as_they_are():
    """Forced to summaries, the same cells take a thinning of 48 and 80 s until their weights hold."""
    cells, _ = unary_groups([57] * 15, epsilon=3.0, a=10)
    plan = HMC().plan(Joint(cells, Hierarchical().on(cells)))
    assert "their reports" in plan.reason
    assert run(cells, Hierarchical(), draws=20, chains=1).facts["form"] == "reports"


@pytest.mark.parametrize("prior", ["hierarchical", "days"])
def test_one_group_and_small_groups_have_results(prior):
    one = Collection(LABELS, [Tally(GRR(3, 1.0), [1], [1])])
    cells = Cells({1: one, 2: one} if prior == "days" else {"only": one})
    tree = fit(cells, prior, random_seed=1, draws=300, chains=2, estimates=False)
    mean = tree["summary"]["mean"].sel(target="distribution")
    assert (mean.sel(category="b") > mean.sel(category="a")).all()
    # One report says next to nothing: the scale keeps its prior, a half-normal with mean 0.8.
    assert float(tree["posterior"]["scale"].mean()) == pytest.approx(0.8, abs=0.15)
    assert set(tree["posterior"].data_vars) >= {"scale", "pooled", "effect"}


@pytest.mark.calibrate
@pytest.mark.parametrize("structure", ["groups", "days", "neighbours"])
def test_draws_are_those_of_pymc_on_the_reports(structure):
    """The full likelihood in PyMC, with the prior's variables there; of groups also the model as textbooks write it.

    A run whose trajectories lose their energy says so, which hands groups over to NUTS; then the next seed is taken.
    """
    from nutscells import sample_cells

    cells, _ = unary_groups([400] * 6)
    ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    prior = Hierarchical(ring if structure == "neighbours" else structure)
    sample = next(found for seed in range(1, 6) if not (found := run(cells, prior, seed, written=0)).rejected)
    mean, error = settled(sample)
    traces = [sample_cells(cells, prior.on(cells), draws=1000, tune=1000, chains=4, random_seed=1)]
    if structure == "groups":
        import pymc as pm

        spec = importlib.util.spec_from_file_location("textbook", ROOT / "models" / "hierarchical_groups.py")
        textbook = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(textbook)
        with textbook.model(cells):
            traces.append(
                pm.sample(draws=1000, tune=1000, chains=4, random_seed=1, nuts_sampler="nutpie", progressbar=False)
            )
    for trace in traces:
        draws = trace["posterior"]["distribution"].values
        other = mcse_of_mean(draws.reshape(*draws.shape[:2], -1), independent=False).reshape(draws.shape[2:])
        assert (np.abs(draws.mean(axis=(0, 1)) - mean) / np.hypot(error, other)).max() < 4.5
        scale = trace["posterior"]["scale" if "scale" in trace["posterior"] else "spread"].values
        apart = abs(scale.mean() - sample.known["scale"]["mean"])
        assert apart < 4.5 * np.hypot(mcse_of_mean(scale[..., None], independent=False)[0], sample.known["scale"]["mcse"])
        np.testing.assert_allclose(scale.std(), sample.known["scale"]["sd"], rtol=0.15)


@pytest.mark.calibrate
def test_trajectories_of_hmc_agree_with_nuts():
    cells, _ = unary_groups([100] * 8)
    problem, found = Joint(cells, Hierarchical().on(cells)), {}
    for engine in (HMC(draws=2000), HMC(draws=2000, written=0), NUTS()):
        for seed in range(2, 7):  # a run that loses its energy says so, and fit() would leave it to NUTS
            found[engine] = engine.run(engine.plan(problem), np.random.default_rng(seed), Watch())
            if not found[engine].rejected:
                break
    quick, weighted, slow = found.values()
    assert not (quick.rejected or weighted.rejected or slow.rejected)
    assert quick.stats["acceptance_rate"].mean() > 0.6 and not quick.stats["diverging"].any()
    other, others = settled(slow)
    for sample in (quick, weighted):
        mean, error = settled(sample)
        assert (np.abs(mean - other) / np.hypot(error, others)).max() < 4.5
        scales = [np.log(one.variables["scale"][1]) for one in (sample, slow)]
        errors = [mcse_of_mean(scale[..., None], independent=False)[0] for scale in scales]
        assert abs(scales[0].mean() - scales[1].mean()) < 4.5 * np.hypot(*errors)
        squares = [(scale - scale.mean()) ** 2 for scale in scales]
        errors = [mcse_of_mean(square[..., None], independent=False)[0] / (2 * np.sqrt(square.mean())) for square in squares]
        assert abs(scales[0].std() - scales[1].std()) < 4.5 * np.hypot(*errors)
        assert np.hypot(*errors) < 0.08 * scales[1].std()  # the bound says something


class Uncompiled(Target):
    """The density without its compiled form."""

    functions = None


@pytest.mark.parametrize("structure", ["groups", "days"])
def test_a_compiled_trajectory_is_the_plain_one_and_new_coordinates_are_coordinates(structure):
    cells, _ = unary_groups([300] * 5)
    prior, rng = Hierarchical(structure).on(cells), np.random.default_rng(1)
    target = Target(prior, Forms.of(cells.likelihoods))
    density = Bent(target, *bend_of(target, rng))
    density = density.anew(0.5 * rng.standard_normal((400, prior.n_unknowns)))
    plain = copy.copy(density)
    plain.target = Uncompiled(prior, target.reports)
    plain = plain._within(density.coordinates)
    u, v = rng.standard_normal((2, prior.n_unknowns))
    z = density.of(u)
    np.testing.assert_allclose(density.back(z), u, atol=1e-9)
    np.testing.assert_allclose(density.of(u[None])[0], z, atol=1e-12)
    (value, slope), (other, known) = density.value_and_gradient(u), plain.value_and_gradient(u)
    np.testing.assert_allclose(slope, known, rtol=1e-8, atol=1e-8)
    ends = []
    for trajectories, start in ((density.pair[1], value), (plain.pair[1], other)):
        there, force, kicks = u.copy(), slope + u, np.array([v, -v])
        draws, (lp, gained) = np.empty((2, u.size)), np.empty((2, 2))
        trajectories(there, force, start, kicks, np.full(2, 0.05), np.full(2, -50.0), 4, draws, lp, gained)
        ends.append((there, force, draws, lp - start, gained))  # up to a constant, which differs
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
    assert np.abs(ends[0][2][0] - u).max() > 0.1  # it moved


def bend_of(target, rng):
    """Return unknowns and the precision of each effect."""
    at, precision = 0.2 * rng.standard_normal(target.prior.n_unknowns), np.zeros(target.prior.n_unknowns)
    precision[target.effects] = rng.random(target.effects.sum())
    return at, precision


@pytest.mark.parametrize("by_category", [False, True])
def test_bent_unknowns_have_the_density_of_their_image(by_category):
    cells, _ = unary_groups([30] * 2, a=3)
    prior, rng = Hierarchical(by_category=by_category).on(cells), np.random.default_rng(1)
    target = Target(prior, Forms.of(cells.likelihoods))
    density = Bent(target, *bend_of(target, rng))
    centre, steps = np.zeros(prior.n_unknowns), 1e-5 * np.eye(prior.n_unknowns)

    def determinant(u):
        return np.linalg.slogdet([(density.of(u + step) - density.of(u - step)) / 2e-5 for step in steps])[1]

    def expected(u):
        return target.value_and_gradient(density.of(u))[0] + determinant(u)

    u = centre + 0.5 * rng.standard_normal(centre.size)
    value, slope = density.value_and_gradient(u)
    assert value - density.value_and_gradient(centre)[0] == pytest.approx(expected(u) - expected(centre), abs=1e-6)
    value_at = [[density.value_and_gradient(u + sign * step)[0] for sign in (1, -1)] for step in steps]
    np.testing.assert_allclose(slope, [(up - down) / 2e-5 for up, down in value_at], rtol=1e-5, atol=1e-5)


def by_quadrature(likelihoods):
    """Return means and sds of (P(yes) of each cell, the scale) under hierarchical, by sums over (scale, centre, effect)."""
    t, s = np.linspace(-6, 6, 201), np.arange(0.05, 5, 0.1)
    w = np.exp(-0.5 * t**2)
    eta = np.sqrt(2) * (1.5 * t[:, None, None] + s[:, None] * t)  # (centre, scale, effect)
    p = 1 / (1 + np.exp(-eta))
    joint, parts = np.outer(w, np.exp(-0.5 * s**2)), []
    for one in likelihoods:
        log = one.log_likelihood(np.stack([1 - p.ravel(), p.ravel()])).reshape(p.shape)
        each = w * np.exp(log - log.max())
        parts.append([(each * p**k).sum(axis=-1) for k in (0, 1, 2)])
        joint = joint * parts[-1][0]
    joint /= joint.sum()
    first = [(joint * one / zero).sum() for zero, one, _ in parts] + [(joint * s).sum()]
    second = [(joint * two / zero).sum() for zero, _, two in parts] + [(joint * s**2).sum()]
    return np.array(first), np.sqrt(np.array(second) - np.square(first))


@pytest.mark.parametrize("p, n, seed", [(0.3, 400, 1), (0.15, 1500, 4)])
def test_three_weighted_regions_of_yes_and_no_are_as_sums_say(p, n, seed):
    rng, device = np.random.default_rng(seed), crosswise(p)
    region = rng.integers(0, 3, n)
    yes = rng.random(n) < np.array([0.05, 0.1, 0.3])[region]
    table = pd.DataFrame({"value": rng.binomial(1, device.channel()[1, yes.astype(int)]), "region": region})
    table["weight"] = rng.gamma(2.0, 0.5, n) + 0.2
    data = read(table, device, report="value", by="region", weights="weight")
    tree = fit(data, "hierarchical", random_seed=seed, estimates=False)
    assert tree.attrs["method"] == "weighted" and tree.attrs["converged"]
    mean, sd = by_quadrature(scaled(data).likelihoods)
    summary, worth = tree["summary"], facts_of(tree)["effective_draws"]
    ours = np.append(summary["mean"].sel(target="distribution").values[:, 1], summary["parameter_mean"].values)
    spread = np.append(summary["sd"].sel(target="distribution").values[:, 1], summary["parameter_sd"].values)
    assert (np.abs(ours - mean) < 5 * sd / np.sqrt(worth)).all()
    assert (np.abs(spread / sd - 1) < 0.1).all()


def test_ends_by_weights_are_off_by_no_more_than_their_errors_say():
    """Against long chains. Ends of resampled draws were off by half an sd, eight times the error beside them."""
    cells, _ = unary_groups([200] * 5, a=3, epsilon=1.0)
    cells = Cells({k: cells[key] for k, key in enumerate(cells)}, by="day")
    settings = {"random_seed": 2, "estimates": False, "ci_prob": 0.9}
    ours, long = fit(cells, "days", **settings), fit(cells, "days", method="nuts", **settings)
    assert ours.attrs["method"] == "weighted"
    one, other = (tree["summary"].to_dataset() for tree in (ours, long))
    for name in ("effect_", "pooled_", ""):
        for end in ("lower", "upper"):
            error = np.hypot(one[f"{name}{end}_error"], other[f"{name}{end}_error"]).values
            apart = np.abs(one[f"{name}{end}"] - other[f"{name}{end}"]).values
            known = np.isfinite(error) & (error > 0)
            assert known.any() and (apart[known] < 5 * error[known]).all(), (name, end)


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
def test_hmc_leaves_to_nuts_what_it_cannot_follow(monkeypatch):
    cells, _ = unary_groups([100] * 6)
    settings = {"random_seed": 1, "draws": 50, "chains": 2, "estimates": False}
    monkeypatch.setattr(hamiltonian, "TRAJECTORIES", hamiltonian.Trajectories(most=2))
    tree = fit(cells, "hierarchical", exclude="weighted", **settings)
    assert tree.attrs["method"] == "nuts" and "hmc ran" in tree.attrs["reason"]
    with pytest.raises(ConvergenceError, match=r"trusted: trajectories.*2"):
        fit(cells, "hierarchical", method="hmc", **settings)
    monkeypatch.setattr(hmc, "CURVATURES", Curvatures(most_dense=2))
    refusal = HMC().plan(Joint(cells, slopes_over(cells)))
    assert not refusal.feasible and "2 unknowns" in refusal.reason
