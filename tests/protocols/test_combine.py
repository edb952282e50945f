"""Combinators: matrices by their definition, exact levels and the bounds of the papers, round trips, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tabulated import each_row

from ldpbayes import entropy
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.protocols import GRR, Channel, compose, designs, kronecker, make_protocol, mixture, product
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.combine import as_channel
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.unary import UnaryEncoding

GRR3 = GRR(3, 1.0)
COHORT3 = CohortRR(3, 0.7, buckets=2, cohorts=3)
FORCED3 = designs.forced_response(0.6, [1, 2, 1])


def channels(rows, columns):
    """Strategy of strictly positive channels with the given shape."""
    weights = st.lists(st.lists(st.floats(0.01, 1.0), min_size=rows, max_size=rows), min_size=columns, max_size=columns)
    return weights.map(lambda w: Channel(np.array(w).T / np.sum(w, axis=1)))


# ---- the matrices ----------------------------------------------------------------------------------------------------
def test_compose_is_the_matrix_product():
    result = compose(GRR(6, 2.0), COHORT3)
    np.testing.assert_allclose(result.matrix, GRR(6, 2.0).channel() @ COHORT3.channel(), rtol=1e-14)
    assert result.design == "compose"


def test_compose_of_both_stages_is_full_rappor():
    """RAPPOR's permanent stage, then its instantaneous one on all bit strings."""
    whole = Rappor.direct(3, 0.25, 0.75, 0.5)
    permanent = Rappor.direct(3, 0.0, 1.0, 0.5)
    strings = np.array(list(itertools.product((0, 1), repeat=3)))
    rate = np.where(strings == 1, 0.75, 0.25)
    again = Channel(np.prod(np.where(strings[:, None] == 1, rate[None], 1 - rate[None]), axis=2))
    np.testing.assert_allclose(compose(again, permanent).matrix, whole.channel(), rtol=1e-12)


def test_product_lists_every_pair_of_answers():
    result = product([GRR3, FORCED3, COHORT3])
    expected = [a * b * c for a in GRR3.channel() for b in FORCED3.matrix for c in COHORT3.channel()]
    np.testing.assert_allclose(result.matrix, expected, rtol=1e-13)
    assert result.answers[:2] == ("0/0/0 0", "0/0/0 1")


def test_mixture_stacks_the_weighted_channels():
    result = mixture([0.25, 0.75], [GRR3, FORCED3])
    np.testing.assert_allclose(result.matrix, np.concatenate([0.25 * GRR3.channel(), 0.75 * FORCED3.matrix]), rtol=1e-14)
    assert result.answers == ("1:0", "1:1", "1:2", "2:0", "2:1", "2:2")


def test_kronecker_takes_grr_factors():
    result = kronecker([GRR3, designs.warner(0.8)], "/")
    np.testing.assert_allclose(result.matrix, np.kron(GRR3.channel(), [[0.8, 0.2], [0.2, 0.8]]), rtol=1e-14)
    assert result.n_categories == 6 and result.answers[:2] == ("0/no", "0/yes")
    assert result.epsilon == pytest.approx(1 + math.log(4))


def test_a_mixture_has_the_posterior_of_a_collection_of_its_channels():
    mixed = mixture([0.4, 0.6], [GRR3, FORCED3])
    one = Tally(mixed, np.arange(6), [5, 3, 2, 1, 7, 4])
    two = [Tally(GRR3, np.arange(3), [5, 3, 2], "a"), Tally(FORCED3, np.arange(3), [1, 7, 4], "b")]
    together, apart = (Collection(["x", "y", "z"], tallies).rows for tallies in (one, two))
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.1, 0.3])
    difference = together.log_likelihood(p) - apart.log_likelihood(p)
    assert difference == pytest.approx(together.log_likelihood(q) - apart.log_likelihood(q), abs=1e-12)


# ---- levels ----------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(channels(3, 2), channels(4, 3), channels(2, 2))
def test_levels_obey_the_papers_bounds(inner, outer, other):
    slack = 1 + 1e-12
    composed = compose(outer, inner)
    assert composed.epsilon <= min(inner.epsilon, outer.epsilon) * slack + 1e-12
    assert product([inner, other]).epsilon <= (inner.epsilon + other.epsilon) * slack
    assert mixture([0.3, 0.7], [inner, other]).epsilon == pytest.approx(
        max(inner.epsilon, other.epsilon), rel=1e-9, abs=1e-12
    )
    assert kronecker([inner, other]).epsilon == pytest.approx(inner.epsilon + other.epsilon, rel=1e-9, abs=1e-12)


def test_levels_are_exact_and_never_understated():
    for channel in (compose(GRR(3, 2.0), GRR3), product([GRR3, GRR3]), mixture([0.5, 0.5], [GRR3, FORCED3])):
        ratio = largest_ratio(channel.rational_channel())
        assert ratio <= entropy.exp_below(channel.epsilon) * (1 + Fraction(1, 10**75))
        np.testing.assert_allclose(
            channel.epsilon, np.log((channel.matrix.max(1) / channel.matrix.min(1)).max()), rtol=1e-12
        )
    assert product([GRR3, GRR3]).epsilon == pytest.approx(2.0)


def test_opposed_factors_spend_less_than_their_sum():
    """The bound of a product is not always reached: where one report is worst, the other is not."""
    first = Channel([[0.8, 0.4], [0.2, 0.6]])
    second = Channel([[0.9, 0.5], [0.1, 0.5]])
    level = product([first, Channel(second.matrix[:, ::-1])]).epsilon
    assert level < first.epsilon + second.epsilon - 0.1


# ---- collection files ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "channel",
    [
        compose(GRR(6, 2.0), COHORT3),
        compose(Channel([[0.9, 0.2, 0.5], [0.1, 0.8, 0.5]], ["l", "r"]), FORCED3),
        product([GRR3, FORCED3, UnaryEncoding.optimized(3, 1.0)], "|"),
        mixture([0.25, 0.75], [GRR3, product([GRR3, COHORT3])]),
        kronecker([GRR3, designs.warner(0.8), compose(GRR(2, 1.0), designs.kuk(0.2, 0.6))]),
    ],
    ids=lambda channel: channel.design,
)
def test_parameters_round_trip(channel):
    labels = [f"category {x}" for x in range(channel.n_categories)]
    again = make_protocol(channel.design, labels, channel.parameters())
    assert again == channel and again.parameters() == channel.parameters()


def test_factors_of_a_file_take_its_categories():
    table = {"factors": [{"protocol": "grr", "epsilon": 1.0}, {"protocol": "warner", "p": 0.7}]}
    assert make_protocol("product", ["no", "yes"], table) == product([GRR(2, 1.0), designs.warner(0.7)])


@each_row(
    "name, parameters, message",
    [
        ("product", {"factors": []}, "one channel"),
        ("product", {"factors": "grr"}, "factors must"),
        ("product", {"factors": [{"protocol": "md5"}]}, "factor 1.*'md5'"),
        ("product", {"factors": [{"epsilon": 1}]}, "factor 1.*None"),
        ("product", {"factors": [1]}, "factor 1 must"),
        ("product", {"factors": [{"protocol": "grr", "epsilon": 0}]}, "epsilon must"),
        ("product", {}, "product.*'factors'"),
        ("compose", {"inner": {"protocol": "grr", "epsilon": 1}}, "compose.*'outer'"),
        ("mixture", {"factors": [{"protocol": "grr", "epsilon": 1}], "shares": [0.5]}, "shares must"),
        ("mixture", {"factors": [{"protocol": "grr", "epsilon": 1}], "shares": [1.0], "w": 1}, "no parameter 'w'"),
        ("kronecker", {"factors": [{"protocol": "grr", "epsilon": 1}]}, "n_categories.*factor 1"),
        (
            "kronecker",
            {"factors": [{"protocol": "grr", "epsilon": 1, "n_categories": 3}]},
            "factor 1 must",
        ),
    ],
)
def test_malformed_tables_are_refused(name, parameters, message):
    with pytest.raises(ArgumentError, match=message):
        make_protocol(name, ["no", "yes"], parameters)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match=r"inner \(6\), got 3"):
        compose(GRR3, COHORT3)
    with pytest.raises(ArgumentError, match=r"same categories.*2, 3"):
        product([GRR3, designs.warner(0.7)])
    with pytest.raises(ArgumentError, match=r"shares must.*2"):
        mixture([1.0], [GRR3, FORCED3])
    with pytest.raises(InfeasibleError, match="too large"):
        product([GRR(100, 1.0)] * 4)
    with pytest.raises(InfeasibleError, match="too large"):
        kronecker([GRR(100, 1.0)] * 4)
    with pytest.raises(InfeasibleError):
        as_channel(LocalHashing(3, 1.0))
