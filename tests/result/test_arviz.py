"""What ArviZ's functions say of results: each against another way to the same number."""

import arviz_plots
import arviz_stats
import numpy as np
import pytest
import xarray as xr
from arviz_stats.psense import power_scale_dataset

import ldpbayes as lb
from ldpbayes.errors import MissingGroupError
from ldpbayes.pages.about import known_of
from ldpbayes.protocols import designs
from ldpbayes.result import extending
from ldpbayes.theory.enumeration import Enumeration

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("agg")]
#: Whether ArviZ divides by n - 1, and draws the same numbers twice: it did neither before 1.3.
OF_TODAY = arviz_stats.__version__ >= "1.3"
COUNTS = {"north": [40, 28, 12], "south": [16, 8, 20]}


@pytest.fixture
def agg():
    """Draw without a display, and close what was drawn."""
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def survey(counts=(40, 28, 12), epsilon=1.0):
    return lb.Collection(["a", "b", "c"], [lb.Tally(lb.GRR(3, epsilon), [0, 1, 2], counts)])


def regions():
    return lb.Cells({name: survey(counts) for name, counts in COUNTS.items()}, by="region")


def flat(result, group, name):
    return result[group][name].stack(sample=("chain", "draw")).transpose("sample", ...).values


def test_loo_is_leave_one_out_by_enumeration_of_what_is_left():
    """log P(Y) − log P(Y without the report), both sums over all tallies of the true values."""
    data = lb.Collection(["a", "b", "c"], [lb.Tally(lb.GRR(3, 1.5), [0, 1, 2], [9, 4, 2], "grr")])
    both = lb.Collection(data.categories, [*data.tallies, lb.Tally(lb.GRR(3, 0.5), [0, 1, 2], [3, 5, 1], "weak")])
    exact = []
    for t, tally in enumerate(both.tallies):
        for report, count in enumerate(tally.counts):
            less = [c - (k == report) for k, c in enumerate(tally.counts)]
            left = [
                lb.Tally(one.protocol, [0, 1, 2], less if k == t else one.counts, one.name)
                for k, one in enumerate(both.tallies)
            ]
            gap = (
                Enumeration()(both, "flat").log_evidence
                - Enumeration()(lb.Collection(both.categories, left), "flat").log_evidence
            )
            exact += [gap] * int(count)
    result = lb.fit(both, "flat", draws=4000, random_seed=1, extend="log_likelihood")
    found = arviz_stats.loo(result, pointwise=True)
    assert found.n_data_points == len(exact) == both.n_reports
    np.testing.assert_allclose(found.elpd_i.values, exact, atol=0.01)
    assert found.elpd == pytest.approx(sum(exact), abs=0.05)
    assert found.se == pytest.approx(np.sqrt(len(exact)) * np.std(exact, ddof=1), rel=0.02)
    assert found.elpd_i["report_channel"].values.tolist() == ["grr"] * 15 + ["weak"] * 9
    again = result.loo()
    divisor = 1 if OF_TODAY else np.sqrt(1 - 1 / len(exact))
    for name, factor in (("elpd", 1), ("se", divisor), ("p", 1), ("n_data_points", 1)):
        assert getattr(again, name) * factor == pytest.approx(getattr(found, name), rel=1e-9)
    np.testing.assert_allclose(again.elpd_i.values, found.elpd_i.values, rtol=1e-12)


def test_compare_has_the_difference_of_exact_leave_one_out():
    data, exact = survey((9, 4, 2)), {}
    for prior in ("flat", 10.0):
        whole = Enumeration()(data, prior).log_evidence
        less = [survey([c - (k == x) for k, c in enumerate((9, 4, 2))]) for x in range(3)]
        exact[prior] = sum(
            c * (whole - Enumeration()(one, prior).log_evidence) for c, one in zip((9, 4, 2), less, strict=True)
        )
    fits = {str(prior): lb.fit(data, prior, draws=4000, random_seed=1) for prior in exact}
    table = arviz_stats.compare({"flat": fits["flat"].loo(), "10.0": fits["10.0"].extend("log_likelihood")}, round_to="none")
    for prior, value in exact.items():
        assert table.loc[str(prior), "elpd"] == pytest.approx(value, abs=0.02)
    assert table.index[0] == str(max(exact, key=exact.get))


def test_leave_one_out_of_a_million_reports_comes_from_the_distinct_ones():
    counts = np.array([450_000, 300_000, 250_000])
    result = lb.fit(survey(counts), "flat", random_seed=1, estimates=False)
    with pytest.raises(lb.errors.InfeasibleError, match="loo"):
        result.extend("log_likelihood")
    found, p = result.loo(), flat(result, "posterior", "distribution").mean(axis=0)
    log = np.log(lb.GRR(3, 1.0).channel() @ p)
    assert found.n_data_points == counts.sum() == found.elpd_i.size
    assert found.elpd == pytest.approx(counts @ log - 2, abs=0.15)  # two free shares
    assert found.p == pytest.approx(2, abs=0.1)
    assert found.se == pytest.approx(np.sqrt(counts @ (log - counts @ log / counts.sum()) ** 2), rel=1e-3)


def test_power_scaling_is_a_fit_under_the_scaled_prior_and_of_scaled_reports():
    alpha, counts = np.array([40.0, 20.0, 20.0]), np.array([360, 240, 200])
    result = lb.fit(survey(counts), alpha, draws=5000, random_seed=1, extend=["log_prior", "log_likelihood"])
    for group, refit in (
        ("prior", lambda power: lb.fit(survey(counts), power * alpha, random_seed=1)),
        ("likelihood", lambda power: lb.fit(survey((power * counts).astype(int)), alpha, random_seed=1)),
    ):
        weighed = power_scale_dataset(result.tree, group, (0.75, 1.25), ["chain", "draw"], None, None)["distribution"]
        for place, power in ((0, 0.75), (2, 1.25)):
            expected = refit(power)["exact"]
            moved = weighed.isel(alpha=place).stack(s=[dim for dim in weighed.dims if dim not in ("alpha", "category")])
            sd = expected["distribution_sd"].values
            assert (np.abs(moved.mean("s").values - expected["distribution_mean"].values) < 0.04 * sd).all()
            np.testing.assert_allclose(moved.std("s").values, sd, rtol=0.03)
    table, said = arviz_stats.psense_summary(result, var_names=["distribution"], round_to=6), result["sensitivity"]
    for name, ours in (("prior", said["prior_sensitivity"]), ("likelihood", said["reports_sensitivity"])):
        np.testing.assert_allclose(table[name], ours, rtol=0.1)


def test_hyperparameters_are_scaled_where_the_prior_has_them():
    learnt = lb.priors.Learnt(median=0.5)
    result = lb.fit(survey(), learnt, draws=5000, random_seed=1, extend=["log_prior", "log_likelihood"])
    tree = result.tree  # whose variable alpha ArviZ takes for its own
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars("alpha"))
    scaled = power_scale_dataset(tree, "prior", (0.99, 1.25), ["chain", "draw"], None, None)["distribution"].isel(alpha=2)
    expected = lb.fit(survey(), lb.priors.Learnt(median=0.5 * 1.25), draws=5000, random_seed=1)["exact"]
    moved = scaled.stack(s=[dim for dim in scaled.dims if dim != "category"]).mean("s").values
    sd = expected["distribution_sd"].values
    assert (np.abs(moved - expected["distribution_mean"].values) < 0.05 * sd).all()
    assert set(arviz_stats.psense_summary(result, var_names=["distribution", "alpha"]).index) >= {"alpha"}


def test_plot_ppc_dist_draws_the_reports_and_what_the_posterior_predicts():
    result = lb.fit(survey(), "flat", random_seed=1, extend="posterior_predictive")
    drawn = arviz_plots.plot_ppc_dist(
        result,
        var_names=["reports"],
        kind="ecdf",
        num_samples=250,
        backend="matplotlib",
        stats={"predictive_dist": {"npoints": 50}},
    )
    height = np.interp(0.5, *drawn.viz["observed_dist"]["reports"].item().get_data())
    assert height == pytest.approx(40 / 80, abs=1e-9)
    heights = [np.interp(0.5, *line.get_data()) for line in drawn.viz["predictive_dist"]["reports"].values.ravel()]
    share = (lb.GRR(3, 1.0).channel() @ result["exact"]["distribution_mean"].values)[0]
    sd = np.sqrt(share * (1 - share) / 80 + np.var(flat(result, "posterior", "distribution") @ lb.GRR(3, 1.0).channel()[0]))
    assert np.mean(heights) == pytest.approx(share, abs=4 * sd / np.sqrt(250))
    assert np.std(heights) == pytest.approx(sd, rel=0.18)
    assert result["observed_data"]["reports"].values.tolist() == [0] * 40 + [1] * 28 + [2] * 12


def test_plot_prior_posterior_draws_both():
    result = lb.fit(survey(), [2.0, 1.0, 1.0], random_seed=1, extend="prior")
    drawn = arviz_plots.plot_prior_posterior(result, kind="ecdf", backend="matplotlib")
    for group, beta in (("prior", (2.0, 2.0)), ("posterior", None)):
        x, y = drawn.viz["dist"]["distribution"].sel(group=group, category="a").item().get_data()
        median = np.interp(0.5, y, x)
        middle = 0.5 if beta else np.median(flat(result, "posterior", "distribution")[:, 0])
        assert median == pytest.approx(middle, abs=0.02)
    shares, tallies = flat(result, "prior", "distribution"), flat(result, "prior", "frequency")
    np.testing.assert_allclose(shares.mean(axis=0), [0.5, 0.25, 0.25], atol=0.02)
    np.testing.assert_allclose((tallies - shares).var(axis=0), (shares * (1 - shares)).mean(axis=0) / 80, rtol=0.1)


def test_plot_loo_pit_has_the_values_of_leave_one_out():
    """Of a report y the PIT is uniform between P(less than y) and P(at most y) without it."""
    result = lb.fit(survey(), "flat", random_seed=1, extend=["posterior_predictive", "log_likelihood"])
    pit = arviz_stats.loo_pit(result, var_names=["reports"])["reports"].values
    last, channel = 0.0, lb.GRR(3, 1.0).channel()
    for y, count in enumerate((40, 28, 12)):
        less = [c - (k == y) for k, c in enumerate((40, 28, 12))]
        below = np.cumsum(
            np.append(0.0, channel @ lb.fit(survey(less), "flat", random_seed=1)["exact"]["distribution_mean"].values)
        )
        values = pit[int(last) : int(last) + count]
        assert values.min() > below[y] - 0.03 and values.max() < below[y + 1] + 0.03
        middle, sd = (below[y] + below[y + 1]) / 2, (below[y + 1] - below[y]) / np.sqrt(12 * count)
        assert values.mean() == pytest.approx(middle, abs=4 * sd + 0.01)
        last += count
    line = arviz_plots.plot_loo_pit(result, var_names=["reports"], backend="matplotlib").viz["ecdf_lines"]["reports"].item()
    x, y = line.get_data()
    np.testing.assert_allclose(y, [np.mean(pit <= at) - at for at in x], atol=0.02 if OF_TODAY else 0.1)


@pytest.mark.calibrated("flat")
@pytest.mark.parametrize("prior", ["flat", "learnt", "hierarchical"])
def test_cells_have_the_groups_of_one_collection(prior):
    data = regions()
    result = lb.fit(data, prior, draws=500, random_seed=1, estimates=False, extend=extending.GROUPS)
    posterior = result["posterior"]
    for name in ("distribution", "frequency"):
        assert result["prior"][name].dims == posterior[name].dims == ("chain", "draw", "cell", "category")
    assert set(result["prior"].data_vars) == set(posterior.data_vars)
    assert result["prior"]["cell"].values.tolist() == ["north", "south"]
    for group in ("log_likelihood", "posterior_predictive", "prior_predictive"):
        reports = result[group]["reports"]
        assert (
            reports.dims == ("chain", "draw", "report")
            and reports["report_cell"].values.tolist() == ["north"] * 80 + ["south"] * 44
        )
    log = flat(result, "log_likelihood", "reports")
    p, channel = flat(result, "posterior", "distribution"), lb.GRR(3, 1.0).channel()
    expected = sum(np.log(p[:, c] @ channel.T) @ counts for c, counts in enumerate(COUNTS.values()))
    np.testing.assert_allclose(log.sum(axis=1), expected, rtol=1e-10)
    predicted = flat(result, "posterior_predictive", "reports")[:, 80:]
    assert (predicted == 0).mean() == pytest.approx((p[:, 1] @ channel[0]).mean(), abs=0.01)
    before = flat(result, "prior_predictive", "reports")[:, :80]
    share = (flat(result, "prior", "distribution")[:, 0] @ channel[0]).mean()
    assert (before == 0).mean() == pytest.approx(share, abs=0.01)
    assert arviz_stats.loo(result).elpd == pytest.approx(result.loo().elpd, rel=1e-9)
    arviz_plots.plot_prior_posterior(result, var_names=["distribution"], backend="none")
    assert len(arviz_stats.psense_summary(result, var_names=["distribution"])) == 6


def test_one_concentration_is_shared_by_the_prior_of_all_cells():
    result = lb.fit(regions(), "learnt", draws=1000, random_seed=1, estimates=False, extend="prior")
    alpha, p = flat(result, "prior", "alpha"), flat(result, "prior", "distribution")
    assert np.median(alpha) == pytest.approx(0.5, rel=0.1)
    np.testing.assert_allclose(
        np.corrcoef(np.log(alpha), p[..., :].max(axis=-1)[:, 0])[0, 1],
        np.corrcoef(np.log(alpha), p.max(axis=-1)[:, 1])[0, 1],
        atol=0.05,
    )
    variance = (1 - 1 / 3) / 3 / (3 * alpha + 1)  # of Dirichlet(α, α, α)
    assert p[:, 0, 0].var() == pytest.approx(variance.mean(), rel=0.1)


def test_supports_are_counted_where_reports_cannot_be_listed(monkeypatch):
    rng, protocol = np.random.default_rng(5), lb.protocols.UnaryEncoding.optimized(40, 1.0)
    tally = lb.Tally(protocol, *protocol.simulate(rng.multinomial(300, np.full(40, 1 / 40)), rng))
    data = lb.Collection([str(x) for x in range(40)], [tally])
    result = lb.fit(
        data, "flat", draws=100, random_seed=1, estimates=False, extend=["posterior_predictive", "log_likelihood"]
    )
    assert result["observed_data"]["support_counts"].values.tolist() == tally.rows.support_counts().tolist()
    predicted, p = (
        flat(result, "posterior_predictive", "support_counts"),
        flat(result, "posterior", "distribution").mean(axis=0),
    )
    hit, other = protocol.hit_rates
    np.testing.assert_allclose(predicted.mean(axis=0), 300 * (other + (hit - other) * p), rtol=0.04)
    arviz_plots.plot_ppc_dist(result, var_names=["support_counts"], backend="none")
    monkeypatch.setattr(extending, "MAX_POINTWISE", 300 * 100)
    few = result.extend("posterior_predictive")["posterior_predictive"]
    assert few.sizes["draw"] == 25 and few["draw"].values.tolist() == list(range(0, 100, 4))
    cells = lb.Cells({"u": data, "v": data})
    several = lb.fit(cells, "flat", draws=20, random_seed=1, estimates=False, extend="posterior_predictive")
    assert several["posterior_predictive"]["support_counts"].dims == ("chain", "draw", "cell", "category")


def test_deniers_are_in_the_prior_and_in_predictions():
    tallies = [lb.Tally(lb.GRR(2, 1.0), [0, 1], [60, 40], "device"), lb.Tally(designs.direct(), [0, 1], [80, 20], "direct")]
    data = lb.Collection(["no", "yes"], tallies).with_deniers(of="yes", say="no", channel="direct")
    result = lb.fit(data, method="weighted", random_seed=1, estimates=False, extend=extending.GROUPS)
    assert {"distribution", "denial"} <= set(result["prior"].data_vars)
    p, denial = flat(result, "prior", "distribution")[:, 1], flat(result, "prior", "denial")
    direct = result["prior_predictive"]["reports"].values[
        ..., result["prior_predictive"]["report_channel"].values == "direct"
    ]
    assert (direct == 1).mean() == pytest.approx((p * (1 - denial)).mean(), abs=0.01)


def test_a_group_that_is_missing_says_how_to_get_it():
    result = lb.fit(survey(), "flat", random_seed=1, estimates=False)
    calls = {
        "log_likelihood": (
            arviz_stats.loo,
            lambda tree: arviz_plots.plot_loo_pit(tree, var_names=["reports"], backend="none"),
        ),
        "log_prior": (arviz_stats.psense_summary,),
        "prior": (lambda tree: arviz_plots.plot_prior_posterior(tree, backend="none"),),
        "posterior_predictive": (lambda tree: arviz_plots.plot_ppc_dist(tree, backend="none"),),
    }
    for name, functions in calls.items():
        for function in functions:
            with pytest.raises(MissingGroupError, match=rf"extend\('{name}'\)"):
                function(result)
    with pytest.raises(AttributeError):
        _ = result.nothing
    with pytest.raises(KeyError):
        result["nothing"]
    with pytest.raises(MissingGroupError):
        result["log_prior"]


def test_groups_added_later_are_those_added_at_once_and_are_saved(tmp_path):
    once = lb.fit(survey(), "flat", random_seed=1, extend=["prior", "prior_predictive", "posterior_predictive"])
    later = lb.fit(survey(), "flat", random_seed=1)
    before = known_of(later)
    later.extend("prior_predictive").extend("posterior_predictive", "prior").extend("prior")
    assert known_of(later) == before
    for group in ("prior", "prior_predictive", "posterior_predictive", "observed_data"):
        xr.testing.assert_equal(once[group].to_dataset(), later[group].to_dataset())
    later.save(tmp_path / "fit.nc")
    again = lb.load(tmp_path / "fit.nc")
    xr.testing.assert_equal(again["prior"].to_dataset(), later["prior"].to_dataset())
    again.extend("log_likelihood", "posterior_predictive", collection=survey())
    xr.testing.assert_equal(again["posterior_predictive"].to_dataset(), later["posterior_predictive"].to_dataset())
    for wrong in (lambda: again.extend("log_prior", collection=survey()), lambda: again.extend("log_likelihood")):
        with pytest.raises(lb.errors.ArgumentError, match="loaded"):
            wrong()
    with pytest.raises(lb.errors.ArgumentError, match="fitted to"):
        again.extend("log_likelihood", collection=survey((40, 28, 13)))


def test_what_has_no_groups_says_so():
    with pytest.raises(lb.errors.ArgumentError, match="prior_predictive"):
        lb.fit(survey(), extend="prior_predicted")
    moments = lb.fit(survey(), "flat", draws=0, random_seed=1)
    with pytest.raises(lb.errors.ArgumentError, match="draws"):
        moments.extend("prior")
    p = np.random.default_rng(1).dirichlet([40, 28, 12], size=(2, 50))
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"p": (("chain", "draw", "answer"), p)})})
    with pytest.raises(lb.errors.ArgumentError, match="own"):
        lb.pymc.attach(trace, survey(), random_seed=1).extend("log_prior")


def test_a_group_that_cannot_be_made_leaves_the_fit():
    class Own(lb.priors.Dirichlet):
        def log_hyperprior(self, draws):
            raise lb.errors.InfeasibleError("No density.")

    with pytest.warns(lb.errors.DiagnosticWarning, match="lacks the group 'log_prior'. No density"):
        found = lb.fit(survey(), Own(np.ones(3)), draws=100, random_seed=1, extend=["log_prior", "log_likelihood"])
    assert "log_likelihood" in found.children and "log_prior" not in found.children and "posterior" in found.children


def test_a_loaded_result_refuses_other_data_and_answers_keep_its_doubt(tmp_path):
    fitted = lb.fit(survey(), "flat", random_seed=1, draws=50)
    fitted.save(tmp_path / "found.nc")
    loaded = lb.load(tmp_path / "found.nc")
    tally = lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [40, 28, 12])
    relabelled = lb.Collection(["c", "b", "a"], [tally])
    for other, words in ((relabelled, "category labels"), (survey((28, 40, 12)), "counts_all differ")):
        for group in ("log_likelihood", "posterior_predictive"):
            with pytest.raises(lb.errors.ArgumentError, match=words):
                loaded.extend(group, collection=other)
    loaded.extend("log_likelihood", collection=survey())
    assert "not final" not in lb.contrast(loaded, "a", "b").sentence
    loaded.attrs["converged"] = 0
    for answer in (lb.contrast(loaded, "a", "b"), lb.answers.entropy(loaded)):
        assert str(answer).count("so this is not final") == 1 and "not final" in answer.page().summary
