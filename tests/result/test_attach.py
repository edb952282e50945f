"""A result of the modeller's own model keeps all its unknowns, and the predictions that ArviZ's checks read."""

import arviz_plots
import arviz_stats
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import Channel
from ldpbayes.result import attach, select
from ldpbayes.result.facts import facts_of

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
    assert tree.settings["arguments"]["random_seed"] == 1
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


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore")
def test_the_prior_of_the_model_is_where_arviz_looks_for_it(tmp_path):
    """Draws of the prior and its density were dropped, and ArviZ took the attr ``prior`` for their group."""
    data = survey()
    with pm.Model(coords={"answer": CATEGORIES}):
        p = pm.Dirichlet("p", np.full(3, 2.0), dims="answer")
        lb.pymc.observe("reports", p, data)
        drawn = pm.sample(100, tune=100, chains=2, cores=1, random_seed=1, progressbar=False)
        drawn["prior"] = pm.sample_prior_predictive(50, random_seed=1)["prior"]
        pm.stats.compute_log_prior(drawn, progressbar=False)
    attach(drawn, data, random_seed=1).extend("log_likelihood").save(tmp_path / "own.nc")
    tree = lb.load(tmp_path / "own.nc").tree
    arviz_plots.plot_prior_posterior(tree, var_names=["distribution"], backend="none")
    sensitivity = arviz_stats.psense_summary(tree, var_names=["distribution"])
    assert len(sensitivity) == 3 and np.isfinite(sensitivity["prior"]).all()
    np.testing.assert_array_equal(tree["prior"]["distribution"].values, drawn["prior"]["p"].values)
    assert tree["prior"]["category"].values.tolist() == CATEGORIES


def test_a_variable_named_as_one_of_the_results_is_refused():
    name = "frequency"
    with pytest.raises(lb.LDPBayesError, match="rename it"):
        attach(trace(**{name: (("chain", "draw", "term"), np.zeros((4, 500, 2)))}), survey(), random_seed=1)


def test_predictions_of_other_outcomes_are_kept_beside_those_of_reports():
    given = trace()
    drawn = given["posterior_predictive"].to_dataset()
    given["posterior_predictive"] = xr.DataTree(drawn.assign(y=(("chain", "draw", "person"), RNG.normal(size=(4, 500, 7)))))
    tree = attach(given, survey(), random_seed=1).extend("posterior_predictive")
    predicted = tree["posterior_predictive"]
    np.testing.assert_array_equal(predicted["y"].values, given["posterior_predictive"]["y"].values)
    assert predicted["reports"].dims == ("chain", "draw", "report") and predicted["reports"].shape[2] == 1000
    given["posterior_predictive"] = xr.DataTree(given["posterior_predictive"].to_dataset().isel(draw=slice(100)))
    with pytest.raises(lb.LDPBayesError, match="has y of other draws"):
        attach(given, survey(), random_seed=1).extend("posterior_predictive")


@pytest.mark.sampled(3)
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
    tree = attach(given, data, random_seed=1).extend("log_likelihood", by=by)
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
    (name,) = [variable.name for variable in lb.pymc.build_model(data, "flat").deterministics]  # distribution
    p = (("chain", "draw", "category"), RNG.dirichlet([60, 30, 10], size=(4, 500)))
    drawn = xr.DataTree.from_dict({"posterior": xr.Dataset({name: p})})
    named = attach(drawn, data, var_name=name, random_seed=1)
    np.testing.assert_array_equal(attach(drawn, data, random_seed=1)["summary"]["mean"], named["summary"]["mean"])
    with pytest.raises(lb.LDPBayesError, match="var_name must"):
        attach(trace(), survey(), var_name="q", random_seed=1)


def doubted(kind):
    """Return a survey in which some deny, or ignore the device."""
    tallies = [lb.Tally(lb.GRR(2, 1.0), [0, 1], [60, 40], "device"), lb.Tally(lb.GRR(2, 3.0), [0, 1], [80, 20], "other")]
    survey = lb.Collection(["no", "yes"], tallies)
    if kind == "denial":
        return survey.with_deniers(of="yes", say="no", channel="other")
    return survey.with_noncompliers({"no-sayer": "no"})


@pytest.mark.calibrated("False-denial", "True-noncompliance")
@pytest.mark.parametrize("kind", ["denial", "noncompliance"])
@pytest.mark.parametrize("many", [False, True])
def test_p_is_that_of_the_answers_where_some_deny_or_ignore_the_device(kind, many, tmp_path):
    """As a fit shows it: those who deny were apart from the answer that is theirs, which looked rarer than it is."""
    survey = doubted(kind)
    data = lb.Cells({"u": survey, "v": survey}, by="g") if many else survey
    p = RNG.dirichlet([30, 12, 6], size=(4, 200, 2) if many else (4, 200))
    dims = ("chain", "draw", *(["g"] if many else []), "answer")
    given = xr.DataTree.from_dict({"posterior": xr.Dataset({"p": (dims, p), "twice": (dims, 2 * p)})})
    tree = attach(given, data, random_seed=1)
    yes = p[..., 1] + p[..., 2] if kind == "denial" else p[..., 1] / (p[..., 0] + p[..., 1])
    share = p[..., 2] / yes if kind == "denial" else p[..., 2]
    np.testing.assert_allclose(tree["posterior"]["distribution"].sel(category="yes"), yes, rtol=1e-12)
    np.testing.assert_allclose(tree["posterior"][kind], share, rtol=1e-12)
    assert tree["posterior"]["category"].values.tolist() == ["no", "yes"] and tree["posterior"]["twice"].shape == p.shape
    assert {"denial": "'denial' is", "noncompliance": "'noncompliance' is"}[kind] in str(facts_of(tree))
    tree.extend("log_likelihood", by="cell" if many else "report")
    total = tree["log_likelihood"]["reports"].sum(tree["log_likelihood"]["reports"].dims[-1]).values
    columns = np.moveaxis(p, -1, 0).reshape(3, 800, -1)
    each = [survey.rows.log_likelihood(np.ascontiguousarray(columns[..., c])) for c in range(1 + many)]
    np.testing.assert_allclose(total.ravel(), np.sum(each, axis=0), rtol=1e-9)
    lb.save(tree, tmp_path / "fit.nc")
    assert lb.load(tmp_path / "fit.nc")["posterior"].equals(tree["posterior"])


def test_what_observe_takes_attach_takes_and_what_is_no_trace_is_refused():
    data, given = survey(), trace()
    (tally,) = data.tallies
    named, one = (attach(given, reports, random_seed=1) for reports in (data, tally))
    np.testing.assert_array_equal(one["posterior"]["frequency"].values, named["posterior"]["frequency"].values)
    assert one.extend("log_likelihood")["log_likelihood"].sizes["report"] == 1000
    summary = lb.collections.Summary.of(tally.rows, np.full(3, 1 / 3))
    assert attach(trace(), summary, random_seed=1).attrs["n_reports"] == 1000
    for wrong in ({"posterior": trace()["posterior"].to_dataset()}, trace()["posterior"], trace()["posterior"].to_dataset()):
        with pytest.raises(lb.LDPBayesError, match=r"pm\.sample"):
            attach(wrong, tally)


def test_an_unknown_of_the_model_is_no_share():
    """A step between 0 and 1 is no share of people: the first sentence names categories, and the table has the step."""
    step = {"step": (("chain", "draw"), RNG.uniform(0.1, 0.4, size=(4, 500)))}
    unknowns = trace(**step)
    unknowns["posterior"] = xr.DataTree(unknowns["posterior"].to_dataset()[["p", "step"]])
    page = lb.show(attach(unknowns, survey(), random_seed=1))
    assert "step" not in page.summary
    assert "share of a" in page.summary
    assert any("step" in map(str, row.values()) for table in page.tables for row in table.records())


def test_a_random_device_is_that_of_each_draw(tmp_path):
    """F and the log-likelihoods of the reports, against NumPy with the device of every draw; cells share the device."""
    size, rng = (4, 500), np.random.default_rng(5)
    share, specificity, sensitivity = rng.beta(3, 200, size), rng.beta(400, 3, size), rng.beta(104, 20, size)
    p = np.stack([1 - share, share], axis=-1)
    device = np.stack([specificity, 1 - sensitivity, 1 - specificity, sensitivity], axis=-1).reshape(*size, 2, 2)
    uncertain = Channel(validated=[[399, 19], [2, 103]], answers=["negative", "positive"])
    q = np.einsum("cdyx,cdx->cdy", device, p)
    yes = device[..., 1] * share[..., None] / q
    users = np.array([652, 14])
    mean, sd = yes @ users / 666, np.sqrt((yes * (1 - yes)) @ users) / 666
    for protocol in (uncertain, uncertain.known()):
        data = lb.Collection(["no", "yes"], [lb.Tally(protocol, [0, 1], users)])
        given = xr.Dataset({"p": (("chain", "draw", "x"), p), "device": (("chain", "draw", "y", "x"), device)})
        given = xr.DataTree.from_dict({"posterior": given})
        tree = attach(given, data, channel="device", random_seed=1)
        np.testing.assert_allclose(tree["posterior"]["distribution"], p, rtol=1e-12)
        z = (tree["posterior"]["frequency"].values[..., 1] - mean) / sd
        assert abs(z.mean()) < 4 / np.sqrt(z.size) and abs(z.std() - 1) < 4 / np.sqrt(2 * z.size)
        tree.extend("log_likelihood")
        logs = tree["log_likelihood"]["reports"].values
        np.testing.assert_allclose(logs[..., [0, -1]], np.log(q), rtol=1e-9)
        assert tree.loo().n_data_points == 666
        tree.save(tmp_path / "result.nc")
        loaded = lb.load(tmp_path / "result.nc")  # also with the collection, whose own device is another one
        assert loaded.loo(collection=data).elpd == pytest.approx(tree.loo().elpd, rel=1e-12)
        loaded.extend("log_likelihood", collection=data)
        np.testing.assert_allclose(loaded["log_likelihood"]["reports"].values, logs, rtol=1e-12)
        assert loaded.loo().elpd == pytest.approx(tree.loo().elpd, rel=1e-9)  # of the group that it holds
        assert f"{100 * share.mean():.2g} %" in tree.headline  # also where a dimension of the trace has no labels
        if protocol is uncertain:
            with pytest.raises(ArgumentError, match="channel="):
                attach(given, data)
            fitted, known = (
                lb.fit(data, random_seed=1),
                lb.Collection(data.categories, lb.Tally(uncertain.known(), [0, 1], users)),
            )
            assert fitted.loo(collection=data).elpd == pytest.approx(fitted.loo().elpd)
            with pytest.raises(ArgumentError, match="was fitted to"):
                fitted.loo(collection=known)
    cells = lb.Cells({key: data for key in ("north", "south")})
    both = xr.Dataset(
        {"p": (("chain", "draw", "g", "x"), np.stack([p, p[::-1]], axis=2)), "device": given["posterior"]["device"]}
    )
    tree = attach(xr.DataTree.from_dict({"posterior": both}), cells, channel="device", random_seed=1)
    tree.extend("log_likelihood")
    assert tree["posterior"]["negative given no"].dims == ("chain", "draw")
    np.testing.assert_allclose(tree["log_likelihood"]["reports"].values[..., 0], np.log(q[..., 0]), rtol=1e-9)


def test_what_is_no_channel_is_refused():
    wide = RNG.dirichlet(np.ones(2), size=(4, 500, 2))  # rows add up to one, not columns
    given, data = (
        trace(p=(("chain", "draw", "x"), RNG.dirichlet(np.ones(2), (4, 500))), wide=(("chain", "draw", "y", "x"), wide)),
        None,
    )
    data = lb.Collection(["no", "yes"], [lb.Tally(lb.GRR(2, 1.0), [0, 1], [30, 50])])
    with pytest.raises(DataError, match="wide"):
        attach(given, data, channel="wide")
    with pytest.raises(ArgumentError, match="channel"):
        attach(given, data, channel="scale")


def test_a_selected_cell_takes_its_own_collection():
    """Its reports are fewer than those that the fit says, and its design is one of the fit's."""
    one, other = (lb.Collection(list("abc"), lb.Tally(lb.GRR(3, e), [0, 1, 2], [40, 20, 30])) for e in (1.0, 2.0))
    fitted = lb.fit(lb.Cells({"x": one, "y": one}, by="city"), "flat", random_seed=1)
    part = select(fitted, "x")
    assert part.loo(collection=one).n_data_points == 90 and "90 reports through" in part.attrs["mechanisms"]
    with pytest.raises(ArgumentError, match="epsilon = 2"):
        part.loo(collection=other)
