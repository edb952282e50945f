"""What cells share stays with them after draws are weighted, in more cells than any limit that the package has had."""

import numpy as np
import pytest
import xarray as xr

import ldpbayes as lb
from ldpbayes import result
from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors.base import Watch
from ldpbayes.posteriors.joint import Rotating
from ldpbayes.posteriors.problem import Joint
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


@pytest.fixture(scope="module")
def cells():
    return surveyed(8)


def traced(draws=1000, spread=0.1):
    """Return a trace in which all cells move together: level is a shared unknown, and P hangs on it."""
    rng = np.random.default_rng(1)
    level = rng.normal(0, spread, (1, draws))
    eta = np.linspace(0, 1, A) * level[..., None, None] + 0.02 * rng.normal(size=(1, draws, CELLS, A))
    p = np.exp(eta) / np.exp(eta).sum(axis=-1, keepdims=True)
    data = {"p": (("chain", "draw", "cell", "category"), p), "level": (("chain", "draw"), level)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(data)})


def weights_of(trace, cells, summaries):
    """Return the plain importance weights of all draws, from the likelihoods of all cells."""
    p = trace["posterior"]["p"].values[0]
    pairs = zip(cells.likelihoods, summaries.likelihoods, strict=True)
    log = sum(full.log_likelihood(p[:, c].T) - short.log_likelihood(p[:, c].T) for c, (full, short) in enumerate(pairs))
    weight = np.exp(log - log.max())
    return weight / weight.sum()


def test_a_reweighed_trace_keeps_its_dependence(cells):
    trace = traced()
    summaries = result.repilot(trace, cells)
    found = result.reweigh(trace, summaries, cells, random_seed=3)["posterior"]
    mean, level = found["p"].values[0, :, :, 0].mean(axis=1), found["level"].values[0]
    # The shared unknown is the one that the shares were drawn with: one permutation moves both.
    before = dict(zip(trace["posterior"]["level"].values[0], trace["posterior"]["p"].values[0], strict=True))
    assert all(np.array_equal(before[one], p) for one, p in zip(level[:200], found["p"].values[0][:200], strict=True))
    assert abs(np.corrcoef(mean, level)[0, 1]) > 0.99
    # Against the weighted sd of the mean over all cells; cells shuffled one by one have a twentieth of it.
    weight, plain = weights_of(trace, cells, summaries), trace["posterior"]["p"].values[0, :, :, 0].mean(axis=1)
    centre = weight @ plain
    assert abs(mean.std() / np.sqrt(weight @ (plain - centre) ** 2) - 1) < 0.1


def test_draws_that_no_joint_weight_can_mend_are_refused(cells):
    with pytest.raises(InfeasibleError, match=r"cannot be trusted: .* under a prior over them"):
        result.reweigh(traced(500, 0.5), cells.summaries(np.array([0.91, 0.03, 0.03, 0.03])), cells, random_seed=3)


def drawn(cells, seed, **settings):
    """Return (Sample, mean over cells of the first category, log scale of the cells)."""
    problem = Joint(cells, as_prior("hierarchical", cells.n_categories, cells=cells))
    engine = Rotating(**settings)
    sample = engine.run(engine.plan(problem), np.random.default_rng(seed), Watch())
    return (
        sample,
        sample.distribution[..., 0].mean(axis=-1),
        np.log(sample.variables["scale"][1]).reshape(4, settings["draws"], -1).mean(axis=-1),
    )


@pytest.mark.calibrate
def test_summaries_of_many_cells_have_the_moments_of_their_reports():
    """Mean and sd of the mean over all cells, and of the scale, against the reports; P is the softmax of its unknowns."""
    many = surveyed(100, 650, 2.0, 6)
    sample, means, scales = drawn(many, 1, draws=1000)
    assert sample.facts["form"] == "summaries" and sample.verdict.accepted
    eta = np.log(sample.distribution) - np.log(sample.variables["pooled"][1])[:, :, None]
    effect = sample.variables["effect"][1]
    np.testing.assert_allclose(effect, eta - eta.mean(axis=-1, keepdims=True), atol=1e-8)
    _, other, others = drawn(many, 2, draws=1000, form="rows")
    for one, two in ((means, other), (scales, others)):
        assert abs(one.mean() - two.mean()) < 0.2 * two.std()
        assert abs(one.std() / two.std() - 1) < 0.12
