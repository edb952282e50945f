"""Randomly restricted randomized response: the published mechanism, its level, and subsets that files name."""

import math

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols import GRR, RestrictedResponse, make_protocol

SETTINGS = [
    (5, (0, 3), 0.8, 1.0),
    (6, (1, 2, 3, 4), 0.5, 3.0),
    (7, (6,), 0.9, 0.2),
    (4, (0, 1, 2), 0.6, 1.0),
    (8, (2, 5), 1.0, 2.0),
]


def published(a, subset, first, second):
    """Return the channel in the words of the paper: respond among S and one symbol, then among the others."""
    k, out = len(subset), np.zeros((a, a))
    others = [x for x in range(a) if x not in subset]
    for x in range(a):
        for symbol in [*subset, None]:
            own = symbol == (x if x in subset else None)
            chance = (math.exp(first) if own else 1) / (math.exp(first) + k)
            if symbol is not None:
                out[symbol, x] += chance
                continue
            for y in others:
                within = (math.exp(second) if y == x else 1) / (math.exp(second) + len(others) - 1)
                out[y, x] += chance * (within if x in others else 1 / len(others))
    return out


@pytest.mark.parametrize("a, subset, split, epsilon", SETTINGS)
def test_the_channel_is_the_published_one_at_the_largest_second_level(a, subset, split, epsilon):
    protocol = RestrictedResponse(a, epsilon, subset, split)
    first, second = protocol.levels
    np.testing.assert_allclose(protocol.channel(), published(a, subset, first, second), rtol=1e-12)
    if a - len(subset) == 1:  # nothing outside to be told apart: GRR over all
        np.testing.assert_allclose(protocol.channel(), GRR(a, epsilon).channel(), rtol=1e-12)
        return
    assert first == pytest.approx(split * epsilon)
    more = published(a, subset, first, second + 1e-6)
    assert math.log((more.max(axis=1) / more.min(axis=1)).max()) > epsilon  # and any more breaks the promise
    assert protocol.has_full_rank() == (split < 1) == (np.linalg.matrix_rank(protocol.channel()) == a)


def test_files_name_the_subset_by_labels(tmp_path):
    protocol = make_protocol("restricted_response", list("abcd"), {"epsilon": 1.0, "subset": ["c", "a"], "split": 0.9})
    assert protocol == RestrictedResponse(4, 1.0, (0, 2), 0.9)
    tally = lb.Tally(protocol, [0, 3, 2, 2], categories="abcd", name="second")
    lb.write(tally, tmp_path / "x.toml")
    assert lb.read(tmp_path / "x.toml").tallies[0].protocol == protocol
    for given, words in (
        ({"subset": ["z"]}, "subset must name categories"),
        ({"subset": list("abcd")}, "some but not all"),
        ({"subset": []}, "some but not all"),
        ({"subset": [1, 1]}, "each once"),
        ({"subset": [4]}, "subset must be"),
        ({"subset": 1}, "subset must be"),
        ({"subset": [0], "split": 0}, "split"),
        ({}, "needs the parameter 'subset'"),
    ):
        with pytest.raises(ArgumentError, match=words):
            make_protocol("restricted_response", list("abcd"), {"epsilon": 1.0} | given)


def test_the_study_of_waves_has_this_channel_and_says_by_how_much_published_code_exceeds_its_level():
    from studies import waves  # compiles when its scheme is called, which it is not here

    first, second = waves.levels(10, 1.0, 0.8, True)
    exact = waves.channels(10, first, second)
    for k in (1, 4, 8):
        np.testing.assert_allclose(exact[k], RestrictedResponse(10, 1.0, range(k), 0.8).channel(), rtol=1e-12)
    found = waves.channels(10, *waves.levels(10, 1.0, 0.8, False))[1:]
    assert np.log((found.max(axis=2) / found.min(axis=2)).max()) == pytest.approx(1.62, abs=0.01)
