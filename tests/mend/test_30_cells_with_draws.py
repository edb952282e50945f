"""Cells with draws: the users of all draws are allocated together, and quantiles are found at all levels at once."""

import time

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.posteriors.frequency import frequency_draws


def cells(number):
    """Return cells with 300 reports of GRR over ten categories."""
    rng, protocol = np.random.default_rng(30), lb.GRR(10, 1.0)
    labels, groups = [f"x{x}" for x in range(10)], {}
    for i in range(number):
        reports, counts = protocol.simulate(rng.multinomial(300, rng.dirichlet(np.ones(10))), rng)
        groups[f"c{i}"] = lb.Collection(labels, [lb.Tally(protocol, reports, counts)])
    return lb.Cells(groups, by="cell")


@pytest.mark.parametrize("name", ["grr", "local_hashing", "unary"])
def test_users_allocated_together_follow_the_law_of_users_allocated_one_draw_at_a_time(name):
    rng, labels = np.random.default_rng(30), list("abcde")
    parameters = {"epsilon": 2.0} | ({"variant": "optimised"} if name == "unary" else {})
    protocol = lb.make_protocol(name, labels, parameters)
    survey = lb.Collection(labels, [lb.Tally(protocol, *protocol.simulate(np.array([90, 50, 30, 20, 10]), rng))])
    p = np.tile(rng.dirichlet(np.ones(5)), (4000, 1))
    together = frequency_draws(survey.rows, p, rng) * 200
    sampler = survey.rows.sampler()
    alone = np.stack([sampler.allocate(one, rng) for one in p])
    assert (np.abs(together.sum(axis=1) - 200) < 1e-9).all() and (np.abs(together - np.round(together)) < 1e-9).all()
    mean, variance = survey.likelihood.tally_moments(p[0])
    for drawn in (together, alone):
        assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4000)).all()
        often = variance > 1  # tallies that are nearly always 0 have too long a tail
        np.testing.assert_allclose(drawn.var(axis=0)[often], variance[often], rtol=5 * np.sqrt(2 / 4000) + 0.02)


def test_twenty_cells_do_not_take_ten_seconds():
    lb.fit(cells(2), random_seed=1)
    data = cells(10)
    start = time.process_time()
    tree = lb.fit(data, random_seed=1)
    each = (time.process_time() - start) / 10
    assert each < 0.5, "some .15 s on a quiet machine, and more than .5 before"
    assert tree["posterior"]["frequency"].shape[-2:] == (10, 10)
