"""What users type for a prior, and one clear sentence for what is none."""

import numpy as np
import pytest
from priorcases import LogisticNormal
from tabulated import each_row

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.priors import Dirichlet, as_dirichlet, as_prior, parse_prior

SURVEY = Collection(["a", "b", "c"], [Tally(GRR(3, 1.0), [0, 1, 2], [30, 20, 10])])


@each_row(
    "typed, alpha",
    [
        ("jeffreys", [0.5] * 3),
        ("flat", [1.0] * 3),
        (2, [2.0] * 3),
        (np.float32(0.5), [0.5] * 3),
        (np.array(3), [3.0] * 3),
        ([1, 2, 3], [1, 2, 3]),
        ((1.0, 2.0, 3.0), [1, 2, 3]),
        (np.array([1.0, 2.0, 3.0]), [1, 2, 3]),
        (Dirichlet([1, 2, 3]), [1, 2, 3]),
    ],
)
def test_what_is_a_prior(typed, alpha):
    np.testing.assert_array_equal(as_prior(typed, 3).concentrations(), alpha)


@each_row(
    "typed, words",
    [
        ("informative", "prior must be one of jeffreys, flat.*got 'informative'"),
        ([1.0, 2.0], r"prior must have one concentration per category \(3\), got 2"),
        (Dirichlet([1, 2]), "prior must be for 3 categories like the collection, got 2"),
        (LogisticNormal(2), "prior must be for 3 categories like the collection, got 2"),
        (0, "prior must be a finite number above 0"),
        (-1.5, "prior must be a finite number above 0"),
        (float("nan"), "prior must be a finite number above 0"),
        ([1.0, 0.0, 2.0], "alpha must be finite and above 0"),
        ([1.0, float("inf"), 2.0], "alpha must be finite and above 0"),
        (True, "prior must be a finite number above 0, got True"),
        (None, "prior must be one of jeffreys, flat.* or a prior of ldpbayes.priors, got a NoneType"),
        ([[1.0, 2.0, 3.0]], "prior must be one of .*got a list"),
        (["a", "b", "c"], "prior must be one of .*got a list"),
        ([True, True, True], "prior must be one of .*got a list"),
        ({"alpha": 1}, "prior must be one of .*got a dict"),
        (Dirichlet, "prior must be one of .*got the class Dirichlet"),
        (SURVEY, "prior must be one of .*got a Collection"),
    ],
)
def test_what_is_none(typed, words):
    with pytest.raises(ArgumentError, match=words):
        as_prior(typed, 3)


def test_a_fitted_result_is_no_prior():
    result = fit(SURVEY, random_seed=1, draws=50, estimates=False)
    with pytest.raises(ArgumentError, match="got a fitted result"):
        fit(SURVEY, prior=result)


@each_row(
    "text, typed",
    [("jeffreys", "jeffreys"), (" flat ", "flat"), ("0.5", 0.5), ("2", 2.0), ("1e-3", 1e-3), ("0.5,1, 2", [0.5, 1.0, 2.0])],
)
def test_priors_on_the_command_line(text, typed):
    assert parse_prior(text) == typed


@each_row("text", ["", "jefreys", "1,,2", "1;2", "1_000", "٣", "1,x", "x" * 5000])
def test_what_the_command_line_refuses(text):
    with pytest.raises(ArgumentError, match="prior must be one of jeffreys, flat") as caught:
        parse_prior(text)
    assert len(str(caught.value)) < 300


@each_row("text", ["nan", "-1", "1,0", "inf", "1,-2"])
def test_numbers_that_are_no_concentrations(text):
    with pytest.raises(ArgumentError, match="prior must be a finite number above 0"):
        parse_prior(text)


def test_formulas_for_conjugate_priors_say_so():
    assert as_dirichlet("flat", 3, "Planning").total == 3
    with pytest.raises(InfeasibleError, match=r"Planning needs a Dirichlet prior, got logistic-normal with scale 1\."):
        as_dirichlet(LogisticNormal(3), 3, "Planning")
