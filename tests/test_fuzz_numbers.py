"""A seeded few of the problems that `make fuzz-numbers` draws afresh, and what its references are by hand."""

import fuzz_numbers
import numpy as np
import populations
import pytest
import worlds
from fuzz_numbers import KINDS, Compared, combinations, compare, small, tried
from scipy import stats

#: Seeds of quick problems of every kind but the slowest, with numbers to compare.
SEEDS = (102, 103, 104, 106, 108, 110, 111, 114, 117, 118, 129, 130, 138)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_the_references(seed):
    _, found = compare(seed)
    assert not found.faults, f"{found.said}: {found.faults}; python tests/support/fuzz_numbers.py --seed {seed} --count 1"


def test_a_number_that_is_off_is_found(monkeypatch):
    """Reports of one more person in the first category than the reference knows of."""
    honest = worlds.Tallies.of
    monkeypatch.setattr(worlds.Tallies, "of", lambda rows: honest(np.vstack([rows, np.eye(rows.shape[1])[:1]])))
    assert all(tried(seed)[1].faults for seed in (103, 129))


@pytest.mark.calibrated("mean")
@pytest.mark.parametrize("name", ["evidence", "mean", "sd"])
def test_a_stated_error_that_is_too_small_is_found(monkeypatch, name):
    """Numbers a hundredth of an sd away from a small setting's exact ones, which state a ten-thousandth."""
    honest = fuzz_numbers.of_law

    def moved(law):
        log_evidence, error, share = honest(law)
        move = [0.01 * (name == key) for key in ("mean", "sd")]

        def other(target, x):
            (mean, sd, *ends), *rest = share(target, x)
            return (mean + move[0] * sd, sd * (1 + move[1]), *ends), *rest

        return log_evidence + 0.01 * (name == "evidence"), error, other

    monkeypatch.setattr(fuzz_numbers, "of_law", moved)
    found = Compared()
    small(np.random.default_rng(2000 + 16), found)
    assert found.within[name] < found.within[f"{name}, all"]


def test_a_posterior_under_another_prior_is_found(monkeypatch):
    honest = populations.population
    monkeypatch.setattr(
        populations, "population", lambda prior, *rest: honest(populations.dirichlet([2.0, 9.0, 1.0, 1.0]), *rest)
    )
    found, rng = Compared(), np.random.default_rng(108)
    rng.random()
    combinations(rng, found, size=200)
    assert found.faults


def test_populations_of_chains_are_at_the_posterior():
    """Direct answers under Dirichlet(½, 1, 2), and under a learnt concentration against its grid."""
    rows, counts, rng = np.eye(3), np.array([7, 2, 1]), np.random.default_rng(1)
    listed = worlds.Tallies.of(np.repeat(rows, counts, axis=0))
    pairs = [
        ([(0.0, np.array([0.5, 1.0, 2.0]))], populations.dirichlet([0.5, 1, 2])),
        (worlds.learnt(3), populations.concentration(3)),
    ]
    for parts, prior in pairs:
        law, chains = worlds.Law(listed, parts), populations.population(prior, [(rows, counts)], rng, 1000)
        mean, error, sd, sd_error = populations.of_chains(chains.p[:, :, 0, 0])
        assert abs(mean - law.share([0])[0]) < 4 * error and abs(sd - law.share([0])[1]) < 4 * sd_error
        assert abs(chains.log_evidence - law.log_evidence) < 3 * chains.log_evidence_error


def test_references_of_direct_answers_are_those_of_the_textbook():
    """Direct answers: P is Dirichlet(α + counts), each share a Beta variate, F what was counted."""
    alpha, rows = np.array([0.5, 1.0, 2.0]), np.eye(3)[[0] * 7 + [1] * 2 + [2]]
    law = worlds.Law(worlds.Tallies.of(rows), [(0.0, alpha)])
    beta = stats.beta(7.5, 6.0)
    np.testing.assert_allclose(law.share([0]), [beta.mean(), beta.std(), *beta.ppf([0.025, 0.975])], rtol=1e-9)
    assert law.count(0).argmax() == 7 and law.count(0)[7] == pytest.approx(1)
    assert law.log_evidence == pytest.approx(stats.dirichlet_multinomial(alpha, 10).logpmf([7, 2, 1]) - np.log(360))
    assert sum(KINDS.values()) == 100
