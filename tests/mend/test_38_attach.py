"""A result of the modeller's own model keeps all its unknowns, and the predictions that ArviZ's checks read."""

import arviz_plots
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ldpbayes as lb
from ldpbayes.result import add_log_likelihood, attach

RNG = np.random.default_rng(38)
CATEGORIES = ["a", "b", "c"]


def survey():
    protocol = lb.GRR(3, 1.0)
    reports, counts = protocol.simulate(np.array([600, 300, 100]), RNG)
    return lb.Collection(CATEGORIES, [lb.Tally(protocol, reports, counts)])


def trace(**more):
    """Return a trace as pm.sample does: P, a scalar, an array, and one over a dimension named as P's is in a result."""
    of = {
        "p": (("chain", "draw", "answer"), RNG.dirichlet([60, 30, 10], size=(4, 500))),
        "scale": (("chain", "draw"), RNG.gamma(3, size=(4, 500))),
        "slope": (("chain", "draw", "term"), RNG.normal(size=(4, 500, 2))),
        "effect": (("chain", "draw", "region", "category"), RNG.normal(size=(4, 500, 4, 5))),
    } | more
    coords = {"chain": range(4), "draw": range(500), "term": ["x", "y"], "category": list("vwxyz")}
    groups = {"posterior": xr.Dataset(of, coords)}
    drawn = RNG.multinomial(1000, [0.5, 0.3, 0.2], size=(4, 500))
    groups["posterior_predictive"] = xr.Dataset({"reports": (("chain", "draw", "reports_report"), drawn)})
    groups["observed_data"] = xr.Dataset({"reports": (("reports_report",), np.array([500, 300, 200]))})
    return xr.DataTree.from_dict(groups)


def test_arrays_of_the_model_are_kept_and_summarized():
    given = trace()
    tree = attach(given, survey(), random_seed=1)
    for name in ("scale", "slope", "effect"):
        np.testing.assert_array_equal(tree["posterior"][name].values, given["posterior"][name].values)
    assert tree["posterior"]["effect"].dims == ("chain", "draw", "region", "effect_category")
    assert tree["posterior"]["effect"]["effect_category"].values.tolist() == list("vwxyz")
    np.testing.assert_allclose(tree["summary"]["slope_mean"], given["posterior"]["slope"].mean(("chain", "draw")))
    assert tree["summary"]["slope_mean"]["term"].values.tolist() == ["x", "y"]
    assert tree["summary"]["effect_sd"].shape == (4, 5)


def test_an_array_that_did_not_mix_is_said_not_to_be_trusted():
    apart = RNG.normal(size=(4, 500, 2)) + 3 * np.arange(4)[:, None, None]
    tree = attach(trace(slope=(("chain", "draw", "term"), apart)), survey(), random_seed=1)
    assert not tree.attrs["converged"] and "R-hat" in tree.attrs["problems"]


def test_a_saved_result_has_them_too(tmp_path):
    tree = attach(trace(), survey(), random_seed=1)
    lb.save(tree, tmp_path / "fit.nc")
    again = lb.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again["posterior"]["effect"].values, tree["posterior"]["effect"].values)


@pytest.mark.filterwarnings("ignore:(Variables .* look|Detected at least one) discrete")
def test_predictions_are_where_arviz_looks_for_them():
    tree = attach(trace(), survey(), random_seed=1)
    assert "counts_all" in tree["observed_data"] and "reports" in tree["observed_data"]
    arviz_plots.plot_ppc_dist(tree, var_names=["reports"], backend="none")


def test_a_variable_named_as_one_of_the_results_is_refused():
    name = "frequency"
    with pytest.raises(lb.LDPBayesError, match="rename it"):
        attach(trace(**{name: (("chain", "draw", "term"), np.zeros((4, 500, 2)))}), survey(), random_seed=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by", [None, "report", "cell"])
def test_no_pit_is_drawn_of_predicted_counts_which_have_no_likelihood_each(by):
    given, data = trace(), survey()
    if by is not None:
        data = lb.Cells({region: survey() for region in "uvw"})
        p = RNG.dirichlet([60, 30, 10], size=(4, 500, 3))
        drawn = RNG.multinomial(1000, [0.5, 0.3, 0.2], size=(4, 500, 3))
        groups = {
            "posterior": {"p": (("chain", "draw", "cell", "category"), p)},
            "posterior_predictive": {"reports": (("chain", "draw", "cell", "reports_report"), drawn)},
            "observed_data": {"reports": (("cell", "reports_report"), drawn[0, 0])},
        }
        given = xr.DataTree.from_dict({name: xr.Dataset(of) for name, of in groups.items()})
    tree = attach(given, data, random_seed=1, log_likelihood=False)
    add_log_likelihood(tree, data, by=by)
    with pytest.raises((ValueError, IndexError)):
        arviz_plots.plot_loo_pit(tree, var_names=["reports"], backend="none")


def test_a_dimension_called_as_the_grouping_column_is_the_cells(tmp_path):
    """Who builds a model over regions calls its dimension region, as the cells call their column."""
    import arviz_base

    rng, names = np.random.default_rng(1), ["north", "south"]
    held = {name: lb.Collection(["a", "b"], lb.Tally(lb.GRR(2, 1.0), [0, 1], [30, 20])) for name in names}
    shapes = {"p": rng.dirichlet([3, 2], size=(4, 100, 2)), "z": rng.normal(size=(4, 100, 2))}
    dims, coords = {"p": ["region", "category"], "z": ["region"]}, {"region": names, "category": ["a", "b"]}
    trace = arviz_base.from_dict({"posterior": shapes}, coords=coords, dims=dims)
    result = lb.pymc.attach(trace, lb.Cells(held, by="region"), random_seed=1)
    assert result["posterior"]["z"].dims == ("chain", "draw", "cell")
    assert result["posterior"]["region"].values.tolist() == names and "in south" in repr(result)
    lb.save(result, tmp_path / "own.md")


def test_the_usual_names_of_p_need_not_be_said():
    data = survey()
    model = lb.pymc.build_model(data, "flat")  # calls P distribution
    with model:
        drawn = pm.sample(50, tune=50, chains=2, cores=1, random_seed=1, progressbar=False)
    named = attach(drawn, data, var_name="distribution", random_seed=1)
    np.testing.assert_array_equal(attach(drawn, data, random_seed=1)["summary"]["mean"], named["summary"]["mean"])
    with pytest.raises(lb.LDPBayesError, match="var_name must be a variable of the trace"):
        attach(trace(), survey(), var_name="q", random_seed=1)
