"""A seeded part of the table of worlds and actions: served, or refused for a reason that is known."""

import numpy as np
import pytest
from matrix import REASONS, Place, outcome, pairs, reason

#: Actions that start PyMC's sampler, or take long under many categories: other tests do these.
SLOW = {"by NUTS", "crosscheck", "prior days", "prior hierarchical", "regress", "by Quadrature"}


#: What is refused among the pairs below, and for which reason of matrix.REASONS, by its first words; all others are served.
REFUSED = {
    **dict.fromkeys(("OUE, cells, by Exact", "hashing, one, by Exact"), "the method asked for is not"),
    "weights, one, leave one out": "a weighted report is no user",
    "attributes, one, sensitivity": "nobody is said to deny",
    **dict.fromkeys(
        ("no report, one, plot", "no report, cells, prior smooth", "no report, cells, by PairSlice"), "no report came in"
    ),
}


def chosen():
    """Return a twentieth of the pairs."""
    listed = [pair for pair in pairs() if pair[2] not in SLOW]
    return [listed[i] for i in sorted(np.random.default_rng(20).choice(len(listed), len(listed) // 20, replace=False))]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("pair", chosen(), ids=", ".join)
def test_every_world_meets_every_action(pair, tmp_path):
    world, form, action = pair
    kind, said = outcome(action, Place(world, form, tmp_path))
    expected = REFUSED.get(", ".join(pair))
    assert kind == ("refused" if expected else "served"), said
    assert not expected or (reason(said) or "").startswith(expected), said


def test_what_is_stored_as_refused_is_tried():
    assert set(REFUSED) < set(map(", ".join, chosen())) and 60 <= len(chosen())


def test_reasons_are_few():
    assert len(REASONS) <= 12
