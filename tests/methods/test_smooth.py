"""The smooth prior: neighbours share their reports, and a spike survives."""

import numpy as np
import pytest

from ldpbayes import GRR, Collection, Tally, fit
from ldpbayes.methods.exact import ExactMoments
from ldpbayes.priors import Dirichlet
from ldpbayes.priors.smooth import Smooth
from ldpbayes.result.facts import facts_of


@pytest.mark.calibrate
def test_smooth_populations_are_estimated_better_than_under_jeffreys():
    a, rng = 12, np.random.default_rng(6)
    p = np.exp(-0.5 * ((np.arange(a) - 4) / 3.0) ** 2)
    protocol = GRR(a, 1.0)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(1500, p / p.sum()), rng))
    collection = Collection([f"c{x}" for x in range(a)], [tally])
    tree = fit(collection, prior="smooth", random_seed=1, draws=500)
    assert tree.attrs["method"] == "hmc" and tree.attrs["converged"]
    assert "worth" not in facts_of(tree)  # the prior weighs no number of answers
    found = tree["summary"]["mean"].sel(target="distribution").values
    jeffreys = ExactMoments(collection.rows, Dirichlet.jeffreys(a)).mean
    assert ((found - p / p.sum()) ** 2).sum() < 0.6 * ((jeffreys - p / p.sum()) ** 2).sum()
    assert 0.02 < float(tree["posterior"]["sigma"].mean()) < 2


def test_heavy_tails_let_a_category_stand_out():
    """A priori a step of eight typical ones is ten times likelier with few degrees of freedom than with a Gaussian walk."""
    steps = [np.diff(np.log(Smooth(6.0, nu, 1e-6, 20).sample(4000, np.random.default_rng(1))), axis=1) for nu in (4.0, 1e6)]
    beyond = [(np.abs(step) > 8 * np.median(np.abs(step), axis=1, keepdims=True)).mean() for step in steps]
    assert beyond[0] > 10 * beyond[1]
