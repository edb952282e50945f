"""The oracle: unbiased exactly, with the exact variance, for one channel and for several."""

import itertools
import math

import numpy as np
import pytest
from cases import CASES
from tabulated import each_row

from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.protocols import GRR, Channel, designs


def collection(*tallies):
    size = tallies[0].protocol.n_categories
    return Collection([f"c{x}" for x in range(size)], tallies)


def minarets():
    return collection(
        Tally(designs.stochastic_lie_detector(1 / 6), [0, 1], [191, 373], "one"),
        Tally(designs.stochastic_lie_detector(5 / 6), [0, 1], [294, 398], "two"),
    )


def moments(protocols, sizes, p):
    """Return the exact mean and variance of the oracle by enumeration of every tally of every channel."""
    mean, second = 0.0, 0.0
    tables = []
    for protocol, n in zip(protocols, sizes, strict=True):
        q = protocol.channel() @ p
        tallies = [t for t in itertools.product(range(n + 1), repeat=q.size) if sum(t) == n]
        weights = [math.factorial(n) * math.prod(q**t / [math.factorial(k) for k in t]) for t in map(np.array, tallies)]
        tables.append(list(zip(tallies, weights, strict=True)))
    for combination in itertools.product(*tables):
        weight = math.prod(w for _, w in combination)
        parts = [
            Tally(c, np.arange(len(t)), t, f"part {i}")
            for i, (c, (t, _)) in enumerate(zip(protocols, combination, strict=True))
        ]
        value = Oracle()(collection(*parts)).distribution
        mean, second = mean + weight * value, second + weight * value**2
    return mean, second - mean**2


P3 = np.array([0.2, 0.7, 0.1])
WIDE = Channel([[0.5, 0.2, 0.1], [0.2, 0.5, 0.2], [0.2, 0.2, 0.5], [0.1, 0.1, 0.2]])


@pytest.mark.parametrize(
    "protocols, sizes",
    [
        ([GRR(3, 1.0)], [4]),
        ([WIDE], [4]),
        ([WIDE, designs.forced_response(0.5, [1, 2, 3])], [2, 2]),
        ([GRR(3, 0.5), GRR(3, 2.0)], [2, 3]),
        ([GRR(3, 0.5), WIDE], [2, 2]),
        ([designs.stochastic_lie_detector(1 / 6), designs.stochastic_lie_detector(5 / 6)], [5, 6]),
    ],
)
def test_unbiased_with_the_variance_that_enumeration_gives(protocols, sizes, monkeypatch):
    mean, variance = moments(protocols, sizes, P3)
    assert mean == pytest.approx(P3, abs=1e-12)
    # The error is evaluated at the projected oracle; at the truth it must be the exact one.
    monkeypatch.setattr("ldpbayes.estimators.oracle.project", lambda value: P3)
    parts = [
        Tally(c, np.arange(c.n_outputs), [n] + [0] * (c.n_outputs - 1), f"part {i}")
        for i, (c, n) in enumerate(zip(protocols, sizes, strict=True))
    ]
    assert Oracle()(collection(*parts)).standard_error ** 2 == pytest.approx(variance, rel=1e-9)


@each_row("case", CASES)
def test_every_protocol_has_one(case):
    protocol = case.build(case.categories[-1], 1.5)
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(protocol.n_categories, 2.0))
    reports, counts = protocol.simulate(rng.multinomial(20_000, p), rng)
    try:
        estimate = Oracle()(collection(Tally(protocol, reports, counts)))
    except ArgumentError as err:
        assert "oracle" in str(err)
        return
    assert (np.abs(estimate.distribution - p) < 5 * estimate.standard_error).all()
    assert estimate.name == "oracle" and math.isnan(estimate.gap)


def test_eriksson_published_values():
    protocol = designs.forced_response(0.5, [1, 1, 0, 1, 1, 1, 0, 0, 0, 0])
    tally = np.array([31, 19, 1, 17, 10, 17, 3, 1, 1, 2])
    estimate = Oracle()(collection(Tally(protocol, np.arange(10), tally)))
    printed = [0.407843, 0.172549, 0.019608, 0.133333, -0.003922, 0.133333, 0.058824, 0.019608, 0.019608, 0.039216]
    assert estimate.distribution == pytest.approx(printed, abs=6e-7)
    # Identity plus rank one: the variance of one coordinate is q(1 − q)/(n t²).
    share = tally / tally.sum()
    roughly = np.sqrt(share * (1 - share) / tally.sum()) / 0.5
    assert estimate.standard_error == pytest.approx(roughly, abs=2e-3)
    assert "1 of 10 entries" in estimate.outcome and math.isnan(estimate.log_likelihood)


def test_minarets_needs_both_channels():
    survey = minarets()
    estimate = Oracle()(survey)
    # Three unknowns, two free shares and the sum: the estimate solves them.
    system = [[0, 1, 1 / 6], [0, 1, 5 / 6], [1, 1, 1]]
    assert estimate.distribution == pytest.approx(np.linalg.solve(system, [191 / 564, 294 / 692, 1]), abs=1e-12)
    assert np.isfinite(estimate.log_likelihood)
    with pytest.raises(ArgumentError, match=r"rank 3.*got 2"):
        Oracle()(collection(survey.tallies[0]))


def test_refuses_a_deficient_channel_beside_another_protocol():
    parts = [Tally(designs.stochastic_lie_detector(0.2), [0, 1], [5, 5], "one"), Tally(GRR(3, 1.0), [0, 1], [5, 5], "two")]
    with pytest.raises(ArgumentError, match="rank"):
        Oracle()(collection(*parts))
