"""Block designs: finite fields, difference sets, the channel, its risk at the floor, and the client."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes import entropy
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.confidence import confidence_intervals
from ldpbayes.planning.risk import balanced_mle_risk, mle_risk, oracle_risk
from ldpbayes.protocols import BlockDesign, make_protocol, projective
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.protocols.block_design import ORDERS, best_order
from ldpbayes.theory.bounds import exact_bound
from ldpbayes.theory.information import informations


# ---- geometry --------------------------------------------------------------------------------------------------------
@each_row("q", [2, 3, 4, 5, 8, 9, 16, 25, 27, 49, 64])
def test_fields_obey_their_axioms(q):
    field = projective.field(q)
    add, multiply, every = field.add, field.multiply, np.arange(q)
    for table in (add, multiply):
        assert (table == table.T).all()
        left, right = table[table], table[:, table]  # (x∘y)∘z and x∘(y∘z)
        assert (left == right).all()
    assert (multiply[:, add] == add[multiply[:, :, None], multiply[:, None, :]]).all()
    assert (add[0] == every).all() and (multiply[1] == every).all() and not multiply[0].any()
    assert all((np.sort(add[x]) == every).all() for x in every)
    assert all((np.sort(multiply[x]) == every).all() for x in every[1:])


def test_prime_powers():
    expected = [n for n in range(2, 65) if sum(n % p == 0 for p in range(2, n + 1) if all(p % d for d in range(2, p))) == 1]
    assert [q for q in ORDERS if q <= 64] == expected
    assert projective.prime_power(2**9) == (2, 9) and projective.prime_power(1) is None
    assert projective.prime_factors(360) == [2, 3, 5]


@each_row("q, t", [(2, 2), (2, 3), (2, 8), (3, 3), (3, 5), (4, 3), (5, 4), (8, 3), (9, 3), (25, 2), (27, 3)])
def test_every_difference_occurs_equally_often(q, t):
    """That is: any two points share as many hyperplanes, so that the shifts are a 2-design."""
    n = projective.n_points(q, t)
    found = projective.difference_set(q, t)
    assert len(found) == projective.n_points(q, t - 1) and len(np.unique(found)) == len(found)
    differences = (found[:, None] - found[None, :]) % n
    shared = np.bincount(differences.ravel(), minlength=n)
    assert shared[0] == len(found) and set(shared[1:]) == {projective.n_points(q, t - 2) if t > 2 else 0}


def test_difference_sets_never_change():
    """Frozen values: stored reports must decode for ever."""
    assert projective.difference_set(2, 4).tolist() == [1, 2, 3, 5, 6, 9, 11]
    assert projective.difference_set(3, 3).tolist() == [1, 2, 4, 10]
    assert projective.difference_set(4, 3).tolist() == [1, 2, 5, 15, 17]


# ---- channel ---------------------------------------------------------------------------------------------------------
@pytest.mark.sampled(2)
@pytest.mark.parametrize("a, epsilon, q", [(5, 1.0, 2), (13, 0.7, 3), (20, 1.5, 4), (9, 2.0, 8), (40, 1.0, 3)])
def test_the_channel_is_the_incidence_of_points_and_hyperplanes(a, epsilon, q):
    protocol = BlockDesign(a, epsilon, q)
    n, k, channel = protocol.n_outputs, protocol.block_size, protocol.channel()
    inside = channel > channel.min() * (1 + 1e-9)
    assert channel.shape == (n, a) and (inside.sum(axis=0) == k).all()
    np.testing.assert_allclose(channel, (1 + protocol.beta * inside) / (n + protocol.beta * k), rtol=1e-13)
    np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=1e-13)
    g, h = protocol.hit_rates
    hit = inside.T @ channel  # P(the support holds x | value x')
    np.testing.assert_allclose(hit, np.where(np.eye(a), g, h), rtol=1e-12)
    exact = protocol.rational_channel()
    np.testing.assert_allclose(np.array(exact, dtype=float), channel, rtol=1e-12)
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    ratio = largest_ratio(exact)
    assert float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert ratio <= entropy.exp_below(epsilon) * (1 + Fraction(1, 10**75))


@each_row("q, t", [(3, 2), (3, 3), (3, 4), (4, 3), (5, 3), (8, 2)])
def test_whole_geometries_are_at_the_floor(q, t):
    a, epsilon = projective.n_points(q, t), math.log(q - 1)
    protocol, p = BlockDesign(a, epsilon, q), np.full(a, 1 / a)
    floor = exact_bound(a, epsilon).value
    assert oracle_risk(protocol, p, 1).value == pytest.approx(floor, rel=1e-12)
    assert mle_risk(protocol, p, 1).value == pytest.approx(floor, rel=1e-9)


@pytest.mark.parametrize("epsilon, q, n, above", [(1.0, 3, 121, 0.0261), (1.0, 4, 341, 0.0213), (2.0, 11, 133, 0.0380)])
def test_some_points_are_a_few_per_cent_above_the_floor(epsilon, q, n, above):
    protocol, p = BlockDesign(100, epsilon, q), np.full(100, 0.01)
    floor = exact_bound(100, epsilon).value
    assert protocol.n_outputs == n
    oracle, mle = oracle_risk(protocol, p, 1).value / floor - 1, mle_risk(protocol, p, 1).value / floor - 1
    assert oracle == pytest.approx(above, abs=5e-5) and 0 < mle < oracle


@pytest.mark.parametrize("a, epsilon", [(16, 1.0), (30, 0.5), (100, 2.0)])
def test_the_trace_of_the_information_needs_no_channel(a, epsilon):
    protocol, p = BlockDesign(a, epsilon), np.full(a, 1 / a)
    batches, _ = informations(protocol, p)
    exact, balanced = mle_risk(protocol, p, 1).value, balanced_mle_risk(protocol, p, 1).value
    assert (a - 1) ** 2 / balanced == pytest.approx(np.trace(batches[0]), rel=1e-9)
    assert 0.995 * exact < balanced < exact


def test_the_order_is_that_of_the_least_risk():
    for a, epsilon in itertools.product((2, 10, 100, 3000), (0.3, 1.0, 3.0)):
        p = np.full(a, 1 / a)
        chosen = oracle_risk(BlockDesign(a, epsilon), p, 1).value
        assert BlockDesign(a, epsilon).order == best_order(a, epsilon)
        assert all(chosen <= oracle_risk(BlockDesign(a, epsilon, q), p, 1).value for q in ORDERS[:40])


def test_reports_are_a_table_with_binomial_supports():
    protocol, rng = BlockDesign(30, 1.0), np.random.default_rng(1)
    truth = rng.multinomial(10**7, rng.dirichlet(np.ones(30)))
    tally = Tally(protocol, *protocol.simulate(truth, rng))
    assert tally.n_reports == 10**7 and len(tally.reports) <= protocol.n_outputs == 40
    assert confidence_intervals([tally])[0].method == "exact"
    errors = (protocol.oracle(tally.rows) - truth / 10**7) / np.sqrt(protocol.oracle_variance(truth / 10**7, 10**7))
    assert np.abs(errors).max() < 4


def test_both_ways_of_simulating_follow_the_channel():
    """Many users of a category are one multinomial, few are drawn one by one."""
    protocol, rng = BlockDesign(6, 1.0), np.random.default_rng(2)
    for n in (8, 2000):
        total = sum(protocol.simulate([n, 0, 0, 0, 0, n], rng)[1] for _ in range(16000 // n))
        expected = protocol.channel()[:, [0, 5]].sum(axis=1) * 16000
        assert ((total - expected) ** 2 / expected).sum() < protocol.n_outputs + 5 * math.sqrt(2 * protocol.n_outputs)


def test_a_large_alphabet():
    protocol, rng = BlockDesign(40_000, 2.0, 9), np.random.default_rng(3)
    assert protocol.n_outputs == 66430
    reports = protocol.privatize(rng.integers(40_000, size=5000), rng)
    rows = Tally(protocol, reports).rows
    p = rng.dirichlet(np.ones(40_000))
    sums = rows.support_sums(p)  # by transforms
    members = np.isin((rows.index[:3, None] + np.arange(40_000)) % protocol.n_outputs, projective.difference_set(9, 6))
    np.testing.assert_allclose(sums[:3], members @ p, rtol=1e-10)
    assert 0 <= protocol.privatize_one(39_999) < protocol.n_outputs


@each_row(
    "settings, problem",
    [
        ({"order": 6}, "order must.*prime.*6"),
        ({"order": 1}, "order must.*2"),
        ({"order": 1000}, "order must.*2"),
        ({"n_categories": 2**20 + 1}, "n_categories must.*1048576"),
    ],
)
def test_impossible_designs(settings, problem):
    with pytest.raises(ArgumentError, match=problem):
        BlockDesign(**({"n_categories": 4, "epsilon": 1.0} | settings))


def test_files_keep_the_order():
    protocol = make_protocol("block_design", list("abcd"), {"epsilon": 1.0})
    assert protocol.parameters() == {"epsilon": 1.0, "order": protocol.order}
