"""Validators: the cleaned value comes back, and anything else is one sentence with rule and value."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import checks
from ldpbayes.errors import ArgumentError, DataError, listed


@each_row("value", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf, 50.1, 800, "1", None, True, [1.0]])
def test_epsilon_refuses(value):
    with pytest.raises(ArgumentError, match=r"^epsilon must.*\(0, 50\]") as caught:
        checks.epsilon(value)
    assert repr(value) in str(caught.value)


@given(st.floats(min_value=1e-9, max_value=50))
def test_epsilon_keeps_every_digit(value):
    assert checks.epsilon(value) == value
    assert type(checks.epsilon(np.float64(value))) is float


@each_row("value", [1e-10, 1e-17, 1e-300, 5e-324])
def test_epsilon_lost_in_rounding_is_refused(value):
    # Below 2^-128 the rational channel of a client could not keep to e^ε; below 1e-16 the oracle divided by zero.
    with pytest.raises(ArgumentError, match=r"^epsilon must.*1e-09.*information"):
        checks.epsilon(value)


def test_large_epsilon_is_told_what_it_means():
    with pytest.raises(ArgumentError, match="values themselves"):
        checks.epsilon(800)


@each_row("value", [1.5, "3", None, True, np.bool_(True), math.nan, 1, 9])
def test_integer_refuses(value):
    with pytest.raises(ArgumentError, match=r"^n must.*>= 2 and <= 8"):
        checks.integer(value, "n", minimum=2, maximum=8)


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.uint8(3)])
def test_integer_accepts_whole_numbers_of_any_type(value):
    assert checks.integer(value, "n") == 3 and type(checks.integer(value, "n")) is int


@each_row("value", [-0.1, 1.1, math.nan, "0.5", None, True])
def test_probability_refuses(value):
    with pytest.raises(ArgumentError, match=r"^p must.*\[0, 1\]"):
        checks.probability(value, "p")


def test_probability_open_ends():
    assert checks.probability(0, "p") == 0.0 and checks.probability(1, "p") == 1.0
    with pytest.raises(ArgumentError, match=r"in \(0, 1\]"):
        checks.probability(0, "p", open_low=True)
    with pytest.raises(ArgumentError, match=r"in \[0, 1\)"):
        checks.probability(1, "p", open_high=True)


@each_row(
    "value, problem",
    [
        ([1, -1], "got -1 at position 1"),
        ([1.5, 2], "got 1.5 at position 0"),
        ([1, math.nan], "got nan at position 1"),
        ([1, math.inf], "got inf at position 1"),
        ([True, False], "got dtype bool"),
        (["1", "2"], "got dtype"),
        ([[1, 2]], "must be one-dimensional"),
        (3, "must be one-dimensional"),
    ],
)
def test_counts_refuses(value, problem):
    with pytest.raises(ArgumentError, match=r"^counts must") as caught:
        checks.counts(value)
    assert problem in str(caught.value)


def test_counts_copies_and_checks_the_length():
    given_counts = np.array([3.0, 4.0])
    cleaned = checks.counts(given_counts)
    cleaned[0] = 9
    assert given_counts[0] == 3.0 and cleaned.dtype == np.int64
    with pytest.raises(ArgumentError, match="of length 3"):
        checks.counts(given_counts, size=3)


@each_row("value", [[0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [0.0, 0.0]])
def test_distribution_refuses(value):
    with pytest.raises(ArgumentError, match=r"^p must.*non-negative"):
        checks.distribution(value)


def test_distribution_divides_by_its_sum_in_a_copy():
    p = np.array([0.25, 0.75 + 5e-10])
    assert checks.distribution(p).sum() == 1.0 and p[1] == 0.75 + 5e-10


@pytest.mark.parametrize("value", [[-1], [3], [0, 1, 3]])
def test_values_never_wrap_around(value):
    with pytest.raises(ArgumentError, match=r"^values must.*0.*2"):
        checks.values(value, 3)


@each_row("value", [[0.0], [True], [[0, 1]], ["a"]])
def test_values_refuses_other_types(value):
    with pytest.raises(ArgumentError, match=r"one-dimensional.*integers"):
        checks.values(value, 3)


def test_generator():
    rng = np.random.default_rng(1)
    assert checks.generator(rng) is rng
    assert checks.generator(3).random() == checks.generator(np.int64(3)).random()
    for bad in (-1, True, "seed", 1.5):
        with pytest.raises(ArgumentError, match=r"^rng must"):
            checks.generator(bad)


def test_choice_names_the_options():
    with pytest.raises(ArgumentError, match=r"^prior must.*'flt'"):
        checks.choice("flt", "prior", ("flat", "jeffreys"))


def test_data_error_tells_the_location_and_fills_only_what_is_missing():
    err = DataError("is wrong", line=3).at(source="a.csv", line=9, field="count")
    assert str(err) == "a.csv, line 3, field 'count': is wrong"
    assert str(DataError("is wrong")) == "is wrong"


def test_names_that_cannot_be_printed_are_quoted():
    assert listed(["report", "count\xa00"]) == "report, 'count\\xa00'"


# A wrong name is answered with all names, and the nearest one. Searched: method= and exclude= of fit, protocols, columns.
@pytest.mark.parametrize("setting", [{"method": "exat"}, {"exclude": "exat"}])
def test_a_wrong_name_is_answered_with_the_list(setting):
    survey = lb.Collection(["no", "yes"], [lb.Tally(lb.GRR(2, 1.0), [0, 1], [60, 40])])
    with pytest.raises(ArgumentError, match=r"exact, quadrature.*nuts.*'exat'.*exact\?"):
        lb.fit(survey, **setting)
    with pytest.raises(ArgumentError, match=r"channel,.*'crosswize'.*crosswise\?"):
        lb.make_protocol("crosswize")
