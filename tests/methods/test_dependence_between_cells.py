"""What cells share stays with them after draws are weighted, in more cells than any limit that the package has had."""

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.methods.base import Watch
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.problem import Joint
from ldpbayes.priors import as_prior
from ldpbayes.protocols import UnaryEncoding

A, CELLS = 4, 601


def surveyed(users, cells=CELLS, epsilon=1.0, a=A):
    """Return cells of so many users, whose shares differ little."""
    rng, protocol, found = np.random.default_rng(7), UnaryEncoding.optimized(a, epsilon), {}
    centre = rng.normal(size=a)
    for c in range(cells):
        p = np.exp(centre + 0.4 * rng.normal(size=a))
        reports = protocol.simulate(rng.multinomial(users, p / p.sum()), rng)
        found[f"g{c}"] = lb.Collection([f"c{x}" for x in range(a)], [lb.Tally(protocol, *reports)])
    return lb.Cells(found)


def drawn(cells, seed, **settings):
    """Return (Outcome, mean over cells of the first category, log scale of the cells)."""
    problem = Joint(cells, as_prior("hierarchical", cells.n_categories, cells=cells))
    engine = HMC(**settings)
    sample = engine.run(engine.plan(problem), np.random.default_rng(seed), Watch())
    return (
        sample,
        sample.distribution[..., 0].mean(axis=-1),
        np.log(sample.variables["scale"][1]).reshape(4, settings["draws"], -1).mean(axis=-1),
    )


@pytest.mark.calibrate
def test_summaries_of_many_cells_have_the_moments_of_their_reports():
    """Mean and sd of the mean over all cells, and of the scale, against the reports; P is the softmax of its unknowns."""
    many = surveyed(4000, 150, 2.0, 6)
    sample, means, scales = drawn(many, 1, draws=1000, written=1)
    assert sample.facts["form"] == "summaries" and sample.verdict.accepted
    eta = np.log(sample.distribution) - np.log(sample.variables["pooled"][1])[:, :, None]
    effect = sample.variables["effect"][1]
    np.testing.assert_allclose(effect, eta - eta.mean(axis=-1, keepdims=True), atol=1e-8)
    _, other, others = drawn(many, 2, draws=1000, written=2**25)
    for one, two in ((means, other), (scales, others)):
        assert abs(one.mean() - two.mean()) < 0.2 * two.std()
        assert abs(one.std() / two.std() - 1) < 0.12
