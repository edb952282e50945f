"""Priors over all cells: filled in from the cells, their unknowns in results, engines and their hand-over."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ldpbayes import GRR, ArgumentError, Cells, Collection, Tally, fit, load, result, save, show
from ldpbayes.posteriors.joint import moments
from ldpbayes.priors import AbstractPrior

LABELS = ["a", "b", "c"]


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
    assert tree.attrs["method"] == "laplace" and tree.attrs["converged"]
    posterior, summary = tree["posterior"], tree["summary"]
    assert posterior["coefficients"].dims == ("chain", "draw", "term", "category")
    assert summary["coefficients_mean"].dims == ("term", "category") and summary["term"].values.tolist() == ["x"]
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
