"""Weights are judged by squared distances, too: a forced surrogate with sds that are too small is not accepted."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

import ldpbayes as lb
from ldpbayes.protocols import Rappor

A, USERS = 12, 3
pytestmark = pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")


@pytest.fixture(scope="module")
def survey():
    protocol, rng = Rappor(A, 0.01, 0.99, 0.01, 8, 1, 2, candidates=tuple(map(str, range(A)))), np.random.default_rng(2)
    tally = lb.Tally(protocol, *protocol.simulate(np.bincount(rng.integers(0, A, USERS), minlength=A), rng))
    return lb.Collection(list(map(str, range(A))), [tally])


@pytest.fixture(scope="module")
def truth(survey):
    """The sds under Jeffreys' prior, from all sequences of the true values."""
    rows = survey.rows
    matrix = np.repeat(rows.dense(), rows.counts.astype(int), axis=0)
    alpha, total = np.full(A, 0.5), 0.5 * A + USERS
    weight, first, second = 0.0, np.zeros(A), np.zeros(A)
    for values in itertools.product(range(A), repeat=USERS):
        after = alpha + np.bincount(values, minlength=A)
        one = np.prod(matrix[range(USERS), values]) * np.exp((gammaln(after) - gammaln(alpha)).sum())
        weight += one
        first += one * after / total
        second += one * after * (after + 1) / (total * (total + 1))
    return np.sqrt(second / weight - (first / weight) ** 2)


@pytest.mark.calibrated("4", "5", "6", "7")
@pytest.mark.parametrize("seed", range(8))
def test_a_forced_surrogate_is_accepted_and_right(survey, truth, seed):
    """Seven of eight seeds were accepted with a sd 6 to 14 % too small; those of 16,000 draws are known to a per cent.

    Today the weights of every seed are sound: a refusal would leave nothing to compare, and fails.
    """
    tree = lb.fit(survey, "jeffreys", method="surrogate", draws=4000, estimates=False, random_seed=seed)
    ratio = tree["summary"]["sd"].sel(target="distribution").values / truth
    assert ratio.min() > 0.95


@pytest.mark.calibrate
def test_the_methods_choice_has_the_right_sds(survey, truth):
    tree = lb.fit(survey, "jeffreys", estimates=False, random_seed=1)
    assert tree.attrs["converged"]
    np.testing.assert_allclose(tree["summary"]["sd"].sel(target="distribution"), truth, rtol=0.06)
