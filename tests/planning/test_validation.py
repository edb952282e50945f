"""What a larger validation is worth: large-sample sds against posteriors by quadrature."""

import dataclasses

import numpy as np
import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.planning import validation
from ldpbayes.protocols import Channel, Uncertain, christofides, warner

P = np.array([0.7, 0.3])


def fitted(device, n=2000):
    """Return the sd of the posterior where the reports come as expected."""
    counts = (n * device.matrix @ P).round()
    survey = lb.Collection(["no", "yes"], [lb.Tally(device, np.arange(len(counts)), counts)])
    return lb.fit(survey, "flat", random_seed=1)["summary"]["sd"].sel(target="distribution").values[1]


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.calibrate), 4])
def test_the_sd_is_that_of_the_posterior(times):
    counts = np.array([[950, 100], [50, 900]])
    found = validation(Channel(validated=counts - 1), 2000, p=P, times=[times, np.inf])
    assert found.sd[0, 1] == pytest.approx(fitted(Channel(validated=times * counts - 1)), rel=0.03)
    assert found.sd[1, 1] == pytest.approx(fitted(Channel(counts / counts.sum(axis=0))), rel=0.02)
    assert "known" in found.sentence


@each_row(
    "counts, n, p",
    [
        ([[47, 5], [8, 6], [5, 29]], 800, 0.2),
        ([[80, 20], [20, 80]], 1e5, 0.3),
        ([[8000, 20], [2000, 80]], 1e5, 0.3),
        ([[399, 19], [2, 103]], 3330, 0.015),
    ],
)
def test_two_uncertain_columns_are_generalized_least_squares(counts, n, p):
    """Rows λ of P(report), S = Λ(λ)/n + (1 − p)² Λ(θ₀)/N₀ + p² Λ(θ₁)/N₁, d = θ₁ − θ₀: the variance of p is 1/(dᵀS⁻¹d)."""
    total = (np.array(counts) + 1).sum(axis=0)
    columns = (np.array(counts) + 1) / total
    rates = columns @ [1 - p, p]
    weights = zip((rates, *columns.T), (1 / n, (1 - p) ** 2 / (total[0] + 1), p**2 / (total[1] + 1)), strict=True)
    within = sum(weight * (np.diag(x) - np.outer(x, x)) for x, weight in weights)[:-1, :-1]
    apart = (columns[:, 1] - columns[:, 0])[:-1]
    found = validation(Channel(validated=counts), n, p=[1 - p, p], times=[1]).sd[0]
    assert found == pytest.approx([(apart @ np.linalg.solve(within, apart)) ** -0.5] * 2, rel=1e-9)


def test_a_probability_of_a_design():
    device = warner(Uncertain((1600, 400)))
    assert validation(device, 2000, p=P).sd[0, 1] == pytest.approx(fitted(device), rel=0.03)


def test_three_categories_have_an_sd_each():
    found = validation(Channel(validated=[[40, 3, 1], [5, 30, 4], [1, 2, 25]]), 1000)
    assert found.sd.shape == (5, 3)
    assert (np.diff(found.sd, axis=0) < 0).all()


def test_the_picture_has_the_sds_and_the_known_device():
    study = validation(Channel(validated=[[399, 19], [2, 103]]), 3330, p=P, times=[10, 1, np.inf])
    axes = study.plot()
    trials, known = axes.lines
    assert trials.get_xdata().tolist() == [1, 10] and trials.get_ydata().tolist() == study.sd[[1, 0], 1].tolist()
    assert set(known.get_ydata()) == {study.sd[2, 1]}


@each_row(
    "call, error",
    [
        (lambda: validation(warner(0.7), 100), ArgumentError),
        (lambda: validation(warner(Uncertain((7, 3))), 100, times=[0]), ArgumentError),
        (lambda: validation(christofides(Uncertain((3, 4, 3))), 100), InfeasibleError),
        (lambda: lb.planning.expected_error(warner(Uncertain((7, 3))), 100), InfeasibleError),
    ],
)
def test_what_is_refused(call, error):
    with pytest.raises(error):
        call()


def test_shares_and_names_are_those_of_a_result():
    device = Channel(validated=[[399, 19], [2, 103]])
    found = lb.fit(lb.Collection(["no", "yes"], [lb.Tally(device, [0, 1], [3280, 50])]), "flat", random_seed=1)
    study = validation(device, 3330, p=found)
    mean = found["summary"]["mean"].sel(target="distribution").values
    assert np.array_equal(study.sd, validation(device, 3330, p=mean).sd) and study.categories == ("no", "yes")
    assert "share of" not in study.sentence and "yes, the least certain share" in study.sentence
    cells = lb.Cells({("a",): lb.Collection(["no", "yes"], [lb.Tally(device, [0, 1], [30, 5])])}, ["town"])
    with pytest.raises(ArgumentError, match="shares of one population"):
        validation(device, 100, p=lb.fit(cells, "flat", random_seed=1))


def test_which_of_equally_certain_shares_is_named_does_not_hang_on_rounding():
    """Of two categories, and where nothing tells several apart, the last."""
    counts = np.full((3, 3), 2) + 20 * np.eye(3, dtype=int)
    study = validation(Channel(validated=counts), 500)
    np.testing.assert_allclose(study.sd[0], study.sd[0, 0], rtol=1e-9)
    assert study.least_certain == 2
    nudged = dataclasses.replace(study, sd=study.sd * [1, 1 + 1e-12, 1])
    assert nudged.least_certain == 2 and dataclasses.replace(study, sd=study.sd * [1, 1.01, 1]).least_certain == 1
