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
        ("informative", "prior must.*jeffreys.*flat.*'informative'"),
        ([1.0, 2.0], r"prior must.*\(3\)"),
        (Dirichlet([1, 2]), "prior must.*3"),
        (LogisticNormal(2), "prior must.*3"),
        (0, "prior must.*finite"),
        (-1.5, "prior must.*finite"),
        (float("nan"), "prior must.*finite"),
        ([1.0, 0.0, 2.0], "alpha must.*0"),
        ([1.0, float("inf"), 2.0], "alpha must.*0"),
        (True, "prior must.*True"),
        (None, "prior must.*NoneType"),
        ([[1.0, 2.0, 3.0]], "prior must.*list"),
        (["a", "b", "c"], "prior must.*list"),
        ([True, True, True], "prior must.*list"),
        ({"alpha": 1}, "prior must.*dict"),
        (Dirichlet, "prior must.*class"),
        (SURVEY, "prior must.*Collection"),
    ],
)
def test_what_is_none(typed, words):
    with pytest.raises(ArgumentError, match=words):
        as_prior(typed, 3)


def test_a_fitted_result_is_no_prior():
    result = fit(SURVEY, random_seed=1, draws=50, estimates=False)
    with pytest.raises(ArgumentError, match="fitted result"):
        fit(SURVEY, prior=result)


@each_row(
    "text, typed",
    [("jeffreys", "jeffreys"), (" flat ", "flat"), ("0.5", 0.5), ("2", 2.0), ("1e-3", 1e-3), ("0.5,1, 2", [0.5, 1.0, 2.0])],
)
def test_priors_on_the_command_line(text, typed):
    assert parse_prior(text) == typed


@each_row("text", ["", "jefreys", "1,,2", "1;2", "1_000", "٣", "1,x", "x" * 5000])
def test_what_the_command_line_refuses(text):
    with pytest.raises(ArgumentError, match=r"prior must.*jeffreys.*flat") as caught:
        parse_prior(text)
    assert len(str(caught.value)) < 300


@each_row("text", ["nan", "-1", "1,0", "inf", "1,-2"])
def test_numbers_that_are_no_concentrations(text):
    with pytest.raises(ArgumentError, match=r"prior must.*finite"):
        parse_prior(text)


def test_formulas_for_conjugate_priors_say_so():
    assert as_dirichlet("flat", 3, "Planning").total == 3
    with pytest.raises(InfeasibleError, match=r"Planning.*logistic-normal"):
        as_dirichlet(LogisticNormal(3), 3, "Planning")
