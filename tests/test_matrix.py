"""A seeded part of the table of worlds and actions: served, or refused for a reason that is known."""

import numpy as np
import pytest
from matrix import REASONS, Place, outcome, pairs, reason

#: Actions that start PyMC's sampler, or take long under many categories: other tests do these.
SLOW = {"by NUTS", "crosscheck", "prior days", "prior hierarchical", "regress", "by Quadrature"}


def chosen():
    """Return a twentieth of the pairs."""
    listed = [pair for pair in pairs() if pair[2] not in SLOW]
    return [listed[i] for i in sorted(np.random.default_rng(20).choice(len(listed), len(listed) // 20, replace=False))]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("pair", chosen(), ids=", ".join)
def test_every_world_meets_every_action(pair, tmp_path):
    world, form, action = pair
    kind, said = outcome(action, Place(world, form, tmp_path))
    assert kind == "served" or (kind == "refused" and reason(said)), said


def test_reasons_are_few():
    assert len(REASONS) <= 12
