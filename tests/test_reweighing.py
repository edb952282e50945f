"""Draws made on summaries of cells, expanded again and weighed, against draws made on the reports."""

import numpy as np
import pytest
import xarray as xr
from priorcases import CellsApart, LogisticNormal

from ldpbayes import Cells, Collection, Tally, fit, result
from ldpbayes.errors import ArgumentError, ConvergenceError, InfeasibleError
from ldpbayes.protocols.unary import UnaryEncoding

A, CELLS = 5, 8


@pytest.fixture(scope="module")
def cells():
    rng, protocol = np.random.default_rng(3), UnaryEncoding.optimized(A, 1.0)
    centre, found = rng.normal(size=A), {}
    for c in range(CELLS):
        p = np.exp(centre + 0.5 * rng.normal(size=A))
        reports = protocol.simulate(rng.multinomial(400, p / p.sum()), rng)
        found[f"g{c}"] = Collection([f"c{x}" for x in range(A)], [Tally(protocol, *reports)])
    return Cells(found)


def drawn(rng):
    """Return a trace of uniform draws."""
    p = rng.dirichlet(np.ones(A), size=(4, 50, CELLS))
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"distribution": (("chain", "draw", "cell", "category"), p)})})


def pilot_run(*arguments, **settings):
    """Return a result whose own weights leave few effective draws, which the comparison allows for."""
    try:
        return fit(*arguments, **settings)
    except ConvergenceError as err:
        return err.result


def test_refined_and_weighed_draws_are_those_of_the_reports(cells):
    prior, settings = CellsApart(LogisticNormal(A), CELLS), {"method": "laplace", "estimates": False}
    pooled = fit(cells.pooled(), random_seed=1, draws=200, estimates=False)
    centre = pooled["summary"]["mean"].sel(target="distribution").values
    summaries = cells.summaries(centre, (0.3 * centre) ** 2)
    for seed in (2, 3):
        trace = pilot_run(summaries, prior, draws=200, random_seed=seed, **settings)
        summaries = result.repilot(trace, cells, var_name="distribution")
    trace = pilot_run(summaries, prior, draws=2000, random_seed=4, **settings)
    weighed = result.reweigh(trace, summaries, cells, var_name="distribution", random_seed=5)
    assert weighed.attrs["k_hat"] < 0.7 and 2000 < weighed.attrs["effective_draws"] <= 8000
    facts = {**weighed.attrs, "sampling": "independent"}
    tree = result.attach(weighed, cells, var_name="distribution", random_seed=6, log_likelihood=False, attrs=facts)
    assert tree.attrs["k_hat"] == weighed.attrs["k_hat"]
    whole = pilot_run(cells, prior, draws=2000, random_seed=7, **settings)
    one, other = (part["summary"].sel(target="distribution") for part in (tree, whole))
    # Both sides come from weighted draws, of which so many are effective.
    left = trace.attrs["effective_draws"] * weighed.attrs["effective_draws"] / 8000
    error = np.hypot(one["sd"] / np.sqrt(left), other["sd"] / np.sqrt(whole.attrs["effective_draws"]))
    assert float((np.abs(one["mean"] - other["mean"]) / error).max()) < 4.5
    assert np.allclose(one["sd"], other["sd"], rtol=0.25)


def test_hopeless_weights_are_refused(cells):
    trace = drawn(np.random.default_rng(1))
    far = np.array([0.96, 0.01, 0.01, 0.01, 0.01])
    with pytest.raises(InfeasibleError, match=r"cannot be trusted: Pareto k-hat .* below 0\.7 and 25% are needed"):
        result.reweigh(trace, cells.summaries(far), cells, var_name="distribution", random_seed=1)


def test_what_does_not_fit_is_refused(cells):
    trace = drawn(np.random.default_rng(1))
    with pytest.raises(ArgumentError, match="cells must be Cells"):
        result.repilot(trace, cells["g0"], var_name="distribution")
    fewer = Cells({key: cells[key] for key in list(cells)[:-1]})
    with pytest.raises(ArgumentError, match="summaries must have the same cells"):
        result.reweigh(trace, fewer.summaries(np.ones(A) / A), cells, var_name="distribution")
