"""A seeded few of the problems that `make fuzz-numbers` draws afresh, and what its references are by hand."""

import numpy as np
import pytest
import worlds
from fuzz_numbers import KINDS, compare
from scipy import stats

#: Seeds of quick problems of every kind but the slowest, with numbers to compare.
SEEDS = (100, 101, 102, 103, 104, 105, 106, 109, 111)


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_the_references(seed):
    _, found = compare(seed)
    assert not found.faults, f"{found.said}: {found.faults}; python tests/fuzz_numbers.py --seed {seed} --count 1"


def test_a_number_that_is_off_is_found(monkeypatch):
    """Reports of one more person in the first category than the reference knows of."""
    honest = worlds.Tallies.of
    monkeypatch.setattr(worlds.Tallies, "of", lambda rows: honest(np.vstack([rows, np.eye(rows.shape[1])[:1]])))
    assert any(compare(seed)[1].faults for seed in range(200, 206))


def test_references_of_direct_answers_are_those_of_the_textbook():
    """Open answers: P is Dirichlet(α + counts), each share a Beta variate, F what was counted."""
    alpha, rows = np.array([0.5, 1.0, 2.0]), np.eye(3)[[0] * 7 + [1] * 2 + [2]]
    law = worlds.Law(worlds.Tallies.of(rows), [(0.0, alpha)])
    beta = stats.beta(7.5, 6.0)
    np.testing.assert_allclose(law.share([0]), [beta.mean(), beta.std(), *beta.ppf([0.025, 0.975])], rtol=1e-9)
    assert law.count(0).argmax() == 7 and law.count(0)[7] == pytest.approx(1)
    assert law.log_evidence == pytest.approx(stats.dirichlet_multinomial(alpha, 10).logpmf([7, 2, 1]) - np.log(360))
    assert sum(KINDS.values()) == 100
