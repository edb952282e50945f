"""Data that models of one's own observe: new values that no likelihood would read are refused, and attached ones keep names.

Kinds: new counts that ``pm.set_data`` has cut to 32 bits; values that people look at and the likelihood does not read (unary
encoding, hashing, RAPPOR, summaries); variables of a trace that are called as those of a result ("reports", "counts").
"""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from tabulated import each_row

import ldpbayes as lb


def observed(data, **settings):
    """Return the model that observes data as "reports" under a flat prior."""
    with pm.Model() as model:
        lb.pymc.observe("reports", pm.Dirichlet("p", np.ones(data.n_categories)), data, **settings)
    return model


@pytest.mark.calibrated("int64")
@pytest.mark.parametrize("dtype", ["int64", "int32", "float64"])
def test_new_counts_have_no_sign(dtype):
    model = observed(lb.Collection(["a", "b", "c"], (lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [30, 20, 10]),)))
    with pytest.raises(lb.errors.ArgumentError, match="astype"):
        pm.set_data({"reports_counts": np.array([10, 20, 30]).astype(dtype)}, model=model)
    before = model.compile_logp()({"p_simplex__": np.array([0.3, -0.2])})
    pm.set_data({"reports_counts": np.array([10, 20, 30], dtype="uint64")}, model=model)
    assert model.compile_logp()({"p_simplex__": np.array([0.3, -0.2])}) != before


@each_row(
    "protocol",
    [lb.protocols.UnaryEncoding.optimized(12, 1.0), lb.protocols.LocalHashing(12, 1.0, 4)],
)
@each_row("likelihood", ["full", "surrogate"])
def test_values_that_the_likelihood_does_not_read_are_not_replaced(protocol, likelihood):
    data = lb.simulate(np.full(12, 1 / 12), protocol, 100, random_seed=1)
    with pytest.raises(lb.errors.ArgumentError, match="reports_counts"):
        pm.set_data({"reports_counts": np.zeros(12)}, model=observed(data, likelihood=likelihood))


@pytest.mark.parametrize("name", ["reports", "counts", "votes"])
def test_predictions_of_two_channels_are_attached_under_any_name(name):
    """xarray refused to merge them with the reports of the result."""
    counts = {"one": np.array([30, 20, 10]), "two": np.array([5, 6, 7])}
    tallies = [lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], values, name=channel) for channel, values in counts.items()]
    data, draws = lb.Collection(["a", "b", "c"], tuple(tallies)), np.random.default_rng(1).dirichlet([3, 2, 1], (2, 20))
    shown = {f"{name}_{channel}": ((f"{name}_{channel}_report",), values) for channel, values in counts.items()}
    fresh = {key: (("chain", "draw", *dims), np.tile(values, (2, 20, 1))) for key, (dims, values) in shown.items()}
    groups = {
        "posterior": xr.Dataset({"p": (("chain", "draw", "category"), draws)}),
        "observed_data": xr.Dataset(shown),
        "posterior_predictive": xr.Dataset(fresh),
    }
    for key, group in groups.items():
        groups[key] = group.assign_coords({dim: np.arange(size) for dim, size in group.sizes.items()})
    result = lb.pymc.attach(xr.DataTree.from_dict(groups), data, random_seed=1)
    for channel, values in counts.items():
        assert result["observed_data"][f"{name}_{channel}"].values.tolist() == values.tolist()
        own = {"reports": [0, 1, 2], "counts": values.tolist()}
        for kind, expected in own.items():
            called = f"data_{kind}_{channel}" if kind == name else f"{kind}_{channel}"
            assert result["observed_data"][called].values.tolist() == expected
