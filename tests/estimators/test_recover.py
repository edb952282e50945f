"""LDPRecover: exact in expectation where the attack is known, and never off the simplex."""

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.estimators.postprocess import ldp_recover, norm_sub
from ldpbayes.protocols import GRR, LocalHashing, SubsetSelection, UnaryEncoding

PROTOCOLS = [GRR(8, 1.0), UnaryEncoding.optimized(8, 1.0), SubsetSelection(8, 0.5, 3), LocalHashing(8, 1.0)]
P = np.arange(8, 0, -1) / 36


def attacked(protocol, targets, share):
    """Return the expectation of the unbiased estimate under the maximal gain attack, and the fakes' supports."""
    g, h = protocol.hit_rates
    support = protocol.crafted(np.array(targets)).support
    return (1 - share) * P + share * (support - h) / (g - h), support


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
@pytest.mark.parametrize("targets", [(2,), (1, 6)])
def test_a_known_attack_is_taken_off_exactly(protocol, targets):
    mean, support = attacked(protocol, targets, 0.1)
    np.testing.assert_allclose(ldp_recover(mean, protocol.hit_rates, 0.1, support=support), P, atol=1e-12)
    starred = ldp_recover(mean, protocol.hit_rates, 0.1, targets=targets, support=support.sum())
    np.testing.assert_allclose(starred, P, atol=1e-12)
    assert np.abs(norm_sub(mean) - P).max() > 0.02


def test_an_attack_on_everything_needs_no_targets():
    """Where all estimates are above zero and fakes are random reports of one category, the total is all there is to know."""
    protocol = GRR(8, 1.0)
    mean, support = attacked(protocol, range(8), 0.1)
    np.testing.assert_allclose(ldp_recover(mean, protocol.hit_rates, 0.1), P, atol=1e-12)
    assert support == pytest.approx(1 / 8)


def test_recovery_from_reports():
    protocol, rng, targets = UnaryEncoding.optimized(8, 1.0), np.random.default_rng(1), np.array([5, 6])
    crafted, errors = protocol.crafted(targets), []
    for _ in range(20):
        reports = [protocol.privatize(rng.choice(8, 3800, p=P), rng), crafted.draw(200, rng)]
        raw = Oracle()(Tally(protocol, np.concatenate(reports))).distribution
        found = ldp_recover(raw, protocol.hit_rates, 0.05, support=crafted.support)
        errors.append((((found - P) ** 2).sum(), ((norm_sub(raw) - P) ** 2).sum()))
        assert found.min() >= 0 and found.sum() == pytest.approx(1)
    recovered, projected = np.mean(errors, axis=0)
    assert recovered < 0.7 * projected


def test_without_fakes_it_is_norm_sub():
    raw = np.array([0.7, 0.4, -0.1])
    np.testing.assert_allclose(ldp_recover(raw, (0.5, 0.2), 0.0), norm_sub(raw))
    assert ldp_recover([-0.1, -0.2], (0.5, 0.2), 0.1).sum() == pytest.approx(1)


@each_row(
    "settings",
    [
        {"share": 1.0},
        {"share": -0.1},
        {"rates": (0.2, 0.5)},
        {"rates": 0.5},
        {"rates": (0.5, 0.2, 0.1)},
        {"support": "k"},
        {"targets": []},
        {"targets": [0, 0]},
        {"targets": [3]},
        {"support": [1.0, 0.0]},
        {"support": -1.0},
        {"support": [1.0, 0.0, 0.0], "targets": [0]},
    ],
)
def test_bad_arguments_are_one_sentence(settings):
    with pytest.raises(ArgumentError):
        ldp_recover([0.5, 0.3, 0.2], **{"rates": (0.5, 0.2), "share": 0.1} | settings)
