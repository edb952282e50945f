"""Two modes in a private group. The answer is trusted, or handed over with a sentence.

Chains over curve and scale used to end at R-hat 1.25 to 1.38 with 50 to 76 effective draws; more draws did not help, and
nothing took over.
"""

import warnings

import numpy as np
import pyarrow
import pytest

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.inference import verdict


def two_modes(seed, gap, n=10_000):
    """Return (frame, groups, values): the second group has two modes, with the first between them or at one of them."""
    rng = np.random.default_rng([seed, 9])
    x = (rng.random(n) < 0.3).astype(int)
    side = np.where(rng.random(n) < 0.5, 0.0, 1.0)
    z = np.where(x, gap[0] + (gap[1] - gap[0]) * side, 0.0) + 0.4 * rng.standard_normal(n)
    return pyarrow.table({"z": z, "report": lb.GRR(2, epsilon=1.1).privatize(x, rng)}), x, z


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed, gap", [(1, (0.0, 2.5)), (2, (0.0, 2.5)), (3, (-2.0, 2.0))])
def test_two_modes_end_in_an_answer_that_is_trusted(seed, gap):
    frame, _, _ = two_modes(seed, gap)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiagnosticWarning)
        found = lb.by_private_group(frame, "z", protocol=lb.GRR(2, epsilon=1.1), draws=200, random_seed=1)
    assert found.trusted and "Do not trust" not in found.outcome
    share, mean = (one["mean"].values for one in (found.shares(), found.mean()))
    apart = np.abs(share - [0.7, 0.3]) / found.shares()["sd"].values
    assert (apart < 4.5).all()
    # the mean of the second group is midway: no share leaks over the gap
    assert (np.abs(mean - [0.0, sum(gap) / 2]) < 4.5 * found.mean()["sd"].values).all()
    if found.method == "smooth":
        assert found.k_hat < verdict.LIMITS.k_hat and found.effective_draws >= verdict.LIMITS.share * 800


def test_draws_that_cannot_be_trusted_are_replaced_with_a_sentence(monkeypatch):
    """Where no round is accepted the recipe takes over, and the result says why."""
    from ldpbayes.inference import nested

    refused = verdict.refused("the weights are made up")
    monkeypatch.setattr(nested, "together", lambda *_: refused)
    frame, _, _ = two_modes(1, (0.0, 1.0), 1500)
    ask = {"protocol": lb.GRR(2, epsilon=1.1), "draws": 50, "random_seed": 1}
    found = lb.by_private_group(frame, "z", **ask)
    assert found.method == "recipe" and found.trusted
    assert "made up" in found.reason
    with pytest.warns(DiagnosticWarning, match=r"trust.*made up"):
        lb.by_private_group(frame, "z", **ask, method="smooth")
