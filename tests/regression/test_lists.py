"""Regression on the trait of a list experiment: grids, gradients, surveys whose truth is known, and what a result holds."""

import numpy as np
import pandas as pd
import pytest
from samples import weighted
from tabulated import each_row

from ldpbayes import Cells, Collection, load, load_example, predictions, regress, show
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.protocols import GRR, ListExperiment
from ldpbayes.regression import lists
from ldpbayes.regression.design import Design
from ldpbayes.regression.fitting import Model
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.reports import reports_of_cells
from ldpbayes.result.facts import facts_of

DENIERS = {"of": "yes/3", "say": "no/3", "channel": "1"}
ASKED = {"report": "y", "design": "treat", "random_seed": 1}


def logistic(x):
    return 1 / (1 + np.exp(-x))


def survey(
    n, seed=3, coefficients=(-1.0, 0.8, 0.5), of_items=0.2, items=(0.0, 0.8, 1.0, 0.2), carriers=(0.0, 0.4, 0.2, 0.0)
):
    """Return a survey with a list of three: the trait and the number of other items both hang on x."""
    rng = np.random.default_rng(seed)
    x, south, treat = rng.normal(size=n).round(1), rng.integers(0, 2, n), rng.integers(0, 2, n)
    trait = rng.random(n) < logistic(np.column_stack([np.ones(n), x, south]) @ coefficients)
    share = np.exp(np.array(items) + np.outer(of_items * x, np.arange(4)) + np.outer(trait, carriers))
    share = (share / share.sum(axis=1, keepdims=True)).cumsum(axis=1)
    count = (share < rng.random(n)[:, None]).sum(axis=1)
    return pd.DataFrame({"x": x, "south": south, "treat": treat, "y": count + treat * trait})


def test_a_share_and_two_distributions_of_one_item_are_a_grid():
    """With one other item and no covariates there are three unknowns: log odds N(0, π²), and N(0, 1) by trait."""
    control, treatment = [30, 50], [25, 40, 20]
    whole = Collection.from_lists(ListExperiment(1), control, treatment)
    found = regress(Cells({"all": whole}, by="where"), "trait ~ 1", random_seed=1)
    grid, coarse = np.linspace(-4.5, 4.5, 271), np.linspace(-4.5, 4.5, 91)  # ends of the share need the finer one
    one = logistic(np.pi * grid)
    p, apart = one[:, None, None], 0.5 * coarse[None, None, :]
    without, beside = (logistic(np.pi * coarse[None, :, None] + sign * apart) for sign in (-1, 1))
    log = control[0] * np.log((1 - p) * (1 - without) + p * (1 - beside)) + control[1] * np.log(
        (1 - p) * without + p * beside
    )
    log = log + treatment[0] * np.log((1 - p) * (1 - without)) + treatment[2] * np.log(p * beside)
    log += treatment[1] * np.log((1 - p) * without + p * (1 - beside))
    log -= 0.5 * (grid[:, None, None] ** 2 + coarse[None, :, None] ** 2 + coarse[None, None, :] ** 2)
    mass = np.exp(log - log.max())
    summary, mass = found["summary"], mass / mass.sum()
    known = [float(summary[key].sel(target="distribution", category="yes")) for key in ("mean", "sd", "lower", "upper")]
    exact = weighted(one, mass.sum(axis=(1, 2)))
    np.testing.assert_allclose(known[:2], exact[:2], atol=0.03 * exact[1])
    np.testing.assert_allclose(known[2:], exact[2:], atol=0.12 * exact[1])
    average = [(mass * values).sum() for values in (1 - without, without, 1 - beside, beside)]
    np.testing.assert_allclose(summary["items_mean"].values.ravel(), average, atol=0.01)


def test_the_gradient_is_that_of_differences():
    rng = np.random.default_rng(1)
    halves = {("a", 0.5): ([20, 30, 9], [8, 30, 25, 3]), ("b", -1.0): ([9, 40, 20], [6, 31, 30, 8])}
    design = ListExperiment(2)
    cells = Cells({key: Collection.from_lists(design, *counts) for key, counts in halves.items()}, ["g", "x"])
    reports, owner = reports_of_cells(cells)
    columns = Design(Formula.parse("trait ~ x"), pd.DataFrame({"x": [0.5, -1.0]}).iloc[owner].reset_index(drop=True))
    target = Model.of(columns, reports, None, None, None, lists.traits_of(reports.pooled)).target
    for _ in range(5):
        z = rng.standard_normal(target.prior.n_unknowns)
        slope, step = target.value_and_gradient(z)[1], 1e-6 * np.eye(z.size)
        apart = [target.value_and_gradient(z + e)[0] - target.value_and_gradient(z - e)[0] for e in step]
        np.testing.assert_allclose(slope, np.array(apart) / 2e-6, rtol=2e-6, atol=2e-6)
        value, _, expected = target.likelihoods(z[None], tallies=True)
        alone = target.value_and_gradient(z)[0] - target.prior.log_density(z) + target.reports.constant
        np.testing.assert_allclose(value[0], alone, rtol=1e-12)
        np.testing.assert_allclose(expected.sum(), reports.count.sum(), rtol=1e-9)


@pytest.fixture(scope="module")
def known():
    """A survey of 3,000 and its regression."""
    frame = survey(3000)
    return frame, regress(frame, "angry ~ x + south", ListExperiment(3), draws=250, **ASKED)


def test_coefficients_and_items_are_those_of_the_survey(known):
    found = known[1]
    summary = found["summary"]
    assert found.attrs["converged"]
    for mean, sd, truth in (
        (summary["coefficients_mean"].values[:, 1], summary["coefficients_sd"].values[:, 1], (-1.0, 0.8, 0.5)),
        (summary["item_coefficients_mean"].values, summary["item_coefficients_sd"].values, (0.2, 0.0)),
    ):
        assert (abs(mean - truth) < 4 * sd).all() and (sd < 0.5).all()
    page = show(found)
    assert "items apply" in page.tables[2].title and page.tables[3].rows[0][0] == "x"
    assert predictions(found).sizes["category"] == 2


def test_leave_one_out_densities_are_those_of_the_model(known, tmp_path):
    frame, found = known
    found.save(tmp_path / "list.nc")
    draws = load(tmp_path / "list.nc").extend("log_likelihood", by="report")["log_likelihood"].to_dataset()
    log = next(iter(draws.values())).isel(chain=0, draw=0).values
    first = found["posterior"].to_dataset().isel(chain=0, draw=0)
    columns = np.column_stack([np.ones(len(frame)), frame["x"], frame["south"]])
    share = logistic(columns @ first["coefficients"].values[:, 1])
    moved = columns[:, 1:] @ first["item_coefficients"].values
    odds = np.exp(first["item_odds"].values[None] + moved[:, None, None] * np.arange(4))
    odds /= odds.sum(axis=-1, keepdims=True)
    chance, y, treat = np.zeros(len(frame)), frame["y"].values, frame["treat"].values
    for trait, part in enumerate((1 - share, share)):
        count = y - trait * treat
        inside = (count >= 0) & (count <= 3)
        chance += np.where(inside, part * odds[np.arange(len(frame)), trait, np.clip(count, 0, 3)], 0.0)
    np.testing.assert_allclose(log, np.log(chance), atol=1e-9)


def test_densities_of_respondents_who_answer_two_lists():
    """Covariates move the numbers of both lists together: a report has the sum over traits and pairs of numbers."""
    rng, n = np.random.default_rng(4), 60
    x, first = rng.standard_normal(n), rng.random(n) < 0.5
    trait = rng.random(n) < logistic(-0.5 + x)
    items = rng.binomial([[2], [1]], logistic(0.3 + 0.8 * x))
    frame = pd.DataFrame({"x": x, "y": items[0] + (trait & first), "z": items[1] + (trait & ~first)})
    frame["group"] = np.where(first, "both_1", "both_2")
    design = {"report": ["y", "z"], "design": "group", "draws": 100, "random_seed": 1}
    found = regress(frame, "angry ~ x", ListExperiment((2, 1)), **design)
    log = next(iter(found.extend("log_likelihood", by="report")["log_likelihood"].to_dataset().values())).isel(
        chain=0, draw=0
    )
    draw = found["posterior"].to_dataset().isel(chain=0, draw=0)
    share = logistic(draw["coefficients"].sel(category="yes").values @ np.stack([np.ones(n), x]))
    pairs = [tuple(map(int, str(label).split("/"))) for label in draw["items_applying"].values]
    moved = x[:, None, None] * draw["item_coefficients"].values[0] * np.array(pairs).sum(axis=1)
    odds = np.exp(draw["item_odds"].values + moved)
    odds /= odds.sum(axis=-1, keepdims=True)
    chance = np.zeros(n)
    for has, part in enumerate((1 - share, share)):
        for k, (a, b) in enumerate(pairs):
            said = (frame["y"] == a + has * first) & (frame["z"] == b + has * ~first)
            chance += np.where(said, part * odds[:, has, k], 0.0)
    np.testing.assert_allclose(log, np.log(chance), atol=1e-9)


def test_cells_channels_and_labels_of_a_list():
    """Channels by name, labels of the trait, effects of groups, weights, and the collection of a file: one model."""
    frame, design = survey(400).assign(w=np.random.default_rng(1).uniform(0.5, 2, 400)), ListExperiment(3)
    by_hand = {"0": design.control, "1": design.treatment}
    found = regress(frame, "angry ~ x", by_hand, categories=["calm", "angry"], draws=100, weights="w", **ASKED)
    assert list(found["posterior"]["category"].values) == ["calm", "angry"] and facts_of(found)["design_effect"] > 1
    race = regress(Cells({"all": load_example("race")}, by="where"), "angry ~ 1", draws=100, random_seed=1)
    assert 0.02 < float(race["summary"]["mean"].sel(target="distribution", category="yes")) < 0.2


@each_row(
    "change, error, match",
    [
        ({"method": "mle"}, InfeasibleError, "lists"),
        ({"deniers": DENIERS}, ArgumentError, "ceiling_effect.*floor_effect"),
        ({"formula": "angry ~ x - 1"}, ArgumentError, "intercept"),
        ({"design": None}, ArgumentError, "design must"),
        ({"protocol": {"0": ListExperiment(3).control, "1": GRR(8, 1.0)}}, ArgumentError, "list experiment"),
        ({"categories": ["a", "b", "c"]}, ArgumentError, "two labels"),
        ({"y": 9}, DataError, "outside 0..3"),
    ],
)
def test_what_is_refused(change, error, match):
    frame = survey(60).assign(**{"y": change.pop("y")} if "y" in change else {})
    settings = {"formula": "angry ~ x", "protocol": ListExperiment(3)} | ASKED | change
    with pytest.raises(error, match=match):
        regress(frame, **settings)


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
def test_intervals_cover_in_surveys_drawn_from_the_prior():
    """Of 90 % intervals of three coefficients over 60 surveys of 400, between .83 and .97 hold the truth."""
    rng, held = np.random.default_rng(1), []
    for seed in range(60):
        x_sd, spread = 1.0, np.sqrt(2)
        truth = np.array([np.pi * rng.standard_normal(), 2.5 / x_sd * rng.standard_normal()])
        items, apart = np.pi / spread * rng.standard_normal(4), rng.standard_normal(4) / spread
        frame = survey(400, seed, (*truth, 0.0), rng.standard_normal(), items - apart / 2, apart)
        found = regress(frame, "angry ~ x", ListExperiment(3), ci_prob=0.9, **ASKED | {"random_seed": seed})
        ends = [found["summary"][f"coefficients_{name}"].values[:, 1] for name in ("lower", "upper")]
        held.append((ends[0] <= truth) & (truth <= ends[1]))
    assert 0.83 < np.mean(held) < 0.97
