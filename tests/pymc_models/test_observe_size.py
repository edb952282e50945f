"""observe() of a GRR survey has no more nodes to evaluate than the model written by hand; of cells, four more at most."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import ldpbayes as lb

A = 8


def survey(protocol, seed=38):
    reports, counts = protocol.simulate(np.full(A, 50), np.random.default_rng(seed))
    return lb.Collection([str(x) for x in range(A)], [lb.Tally(protocol, reports, counts, name="all")])


def channel(epsilon):
    matrix = np.ones((A, A)) + np.expm1(epsilon) * np.eye(A)
    return matrix / matrix.sum(axis=0)


def function_of(add, shape):
    """Return the log-probability with its gradient, and how many nodes it is compiled from."""
    with pm.Model() as model:
        add(pm.math.softmax(pm.Normal("z", shape=shape), axis=-1))
    function = model.logp_dlogp_function(ravel_inputs=True, mode="FAST_COMPILE")
    optimised = model.logp_dlogp_function(ravel_inputs=True)
    return function._pytensor_function, len(optimised._pytensor_function.maker.fgraph.toposort())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cells", [1, 5])
def test_a_grr_survey_is_evaluated_as_by_hand_from_fewer_nodes(cells):
    surveys = [survey(lb.GRR(A, 1.0), seed) for seed in range(cells)]
    counts = np.stack([np.bincount(s.tallies[0].reports, s.tallies[0].counts, A).astype(int) for s in surveys])
    data, shape = surveys[0], (A,)
    if cells > 1:
        data, shape = lb.Cells({f"g{i}": s for i, s in enumerate(surveys)}), (cells, A)
    else:
        counts = counts[0]
    by_hand = lambda p: pm.Multinomial("y", counts.sum(-1), pt.dot(p, channel(1.0)), observed=counts)  # noqa: E731
    hand, most = function_of(by_hand, shape)
    ours, nodes = function_of(lambda p: lb.pymc.observe("y", p, data), shape)
    assert nodes <= most + 4 * (cells > 1), (nodes, most)
    z = np.random.default_rng(1).normal(size=shape).ravel()
    for a, b in zip(ours(z), hand(z), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
