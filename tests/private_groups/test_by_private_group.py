"""by_private_group: exact where groups are open, near the truth where they are not, one sentence for bad input."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow
import pytest
from scipy.stats import beta
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError, DiagnosticWarning, InfeasibleError
from ldpbayes.private_groups.fitting import Arguments, _absence, analyse
from ldpbayes.private_groups.measure import Atoms, Measure
from ldpbayes.private_groups.page import long_rows
from ldpbayes.private_groups.records import read_records
from ldpbayes.protocols import GRR, Channel, LocalHashing, UnaryEncoding
from ldpbayes.sources.records import Entries

pytestmark = pytest.mark.long

EPSILON = 1.1


def people(n, seed, k=2):
    """Return (groups, log-normal values) of people."""
    rng = np.random.default_rng(seed)
    x = rng.choice(k, n, p=np.arange(k, 0, -1) / (k * (k + 1) / 2))
    return x, rng.lognormal(0.5 * x, 0.6)


def table(n=3000, seed=1, k=2, **columns):
    x, z = people(n, seed, k)
    report = GRR(k, EPSILON).privatize(x, np.random.default_rng(seed + 1))
    return pyarrow.table({"duration": z, "report": report, **columns}), x, z


@pytest.fixture(scope="module")
def found():
    frame, x, z = table(4000)
    return lb.by_private_group(frame, "duration", protocol=GRR(2, EPSILON), draws=125, random_seed=1), x, z


def test_the_identity_gives_the_frame_s_own_groups():
    """Records that report their group: means, quantiles and shares of pandas, by covariates and with ties."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.choice(list("abc"), 2000), "site": rng.choice(["u", "v"], 2000)})
    frame["z"] = np.round(rng.lognormal(frame["x"].map({"a": 0, "b": 0.4, "c": 1}), 0.7), 1)
    protocol = Channel(np.eye(3), answers=["a", "b", "c"])
    settings = {"categories": ["a", "b", "c"], "by": "site", "target": "frequency", "draws": 25, "random_seed": 1}
    answer = lb.by_private_group(frame, "z", protocol, report="x", **settings)
    groups = frame.groupby(["site", "x"])["z"]
    np.testing.assert_allclose(answer.mean()["mean"].values, groups.mean().unstack().values, rtol=1e-12)
    np.testing.assert_allclose(answer.mean()["sd"].values, 0, atol=1e-12)
    levels = [0.01, 0.25, 0.5, 0.9, 0.999]
    expected = groups.quantile(levels).unstack(level=2)
    for level in levels:
        own = answer.quantile(level)["mean"].isel(quantile=0).values
        np.testing.assert_allclose(own, expected[level].unstack().values, rtol=1e-12)
    share = frame.groupby("site")["x"].value_counts(normalize=True).unstack().values
    np.testing.assert_allclose(answer.shares()["mean"].values, share, rtol=1e-12)
    np.testing.assert_allclose(
        answer.cdf(1.5)["mean"].values[:, 0],
        (frame["z"] <= 1.5).groupby([frame["site"], frame["x"]]).mean().unstack().values,
        rtol=1e-12,
    )


def test_the_identity_with_weights_gives_weighted_means():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.choice(2, 600), "z": rng.normal(size=600), "w": rng.exponential(size=600)})
    answer = lb.by_private_group(
        frame, "z", Channel(np.eye(2)), report="x", weights="w", target="frequency", draws=25, random_seed=1
    )
    for x in (0, 1):
        own = frame[frame["x"] == x]
        assert answer.mean()["mean"].values[x] == pytest.approx(np.average(own["z"], weights=own["w"]), rel=1e-12)
        assert answer.shares()["mean"].values[x] == pytest.approx(own["w"].sum() / frame["w"].sum(), rel=1e-12)


def test_answers_are_near_the_truth(found):
    answer = found[0]
    assert answer.trusted and answer.method == "smooth"
    for g in (0, 1):
        mean = answer.mean().isel(group=g)
        assert abs(float(mean["mean"]) - np.exp(0.5 * g + 0.18)) < 4 * float(mean["sd"])
        middle = answer.quantile(0.5).isel(group=g, quantile=0)
        assert abs(float(middle["mean"]) - np.exp(0.5 * g)) < 4 * float(middle["sd"])


def test_distribution_functions_are_monotone_and_meet_their_quantiles(found):
    answer, _, z = found
    points = np.quantile(z, np.linspace(0, 1, 200))
    draws = answer.draws("cdf", points)
    assert (np.diff(draws, axis=2) >= -1e-12).all() and draws.min() >= 0 and draws.max() <= 1
    assert (draws[:, :, -1] > 0.99).all() and 0.4 < (draws[:, :, -1] == 1).mean() < 0.6
    levels = np.array([0.05, 0.3, 0.5, 0.8, 0.99])
    quantiles = answer.draws("quantile", levels)
    assert (np.diff(quantiles, axis=2) >= 0).all()
    measure = answer.measures[0]
    for s, t, g in itertools.product((0, 7, 99), range(len(levels)), (0, 1)):
        at = quantiles[s, 0, t, g]
        below = np.nextafter(at, -np.inf)
        low, high = measure.cdf(np.array([below, at]))[s, :, g]
        assert low < levels[t] + 1e-9 and high >= levels[t] - 1e-9


def test_the_mean_is_that_of_the_step_function(found):
    measure = found[0].measures[0]
    value, bins = measure.atoms.value, measure.atoms.bin
    steps = np.diff(np.vstack([np.zeros(1), measure.atoms.prefix]), axis=0)[:, 0]
    steps[measure.atoms.starts[:-1][measure.atoms.starts[:-1] < len(value)]] = measure.atoms.prefix[
        measure.atoms.starts[:-1][measure.atoms.starts[:-1] < len(value)], 0
    ]
    each = measure.mass[:, bins, 0] * steps[:, None]
    np.testing.assert_allclose((each * value[:, None]).sum(axis=1) / each.sum(axis=1), measure.mean(), rtol=1e-10)
    far = replace(measure.atoms, value=value + 2.0**40, mean=measure.atoms.mean + 2.0**40)  # sums keep their digits
    np.testing.assert_allclose(replace(measure, atoms=far).mean() - 2.0**40, measure.mean(), atol=2.0**-11)


def test_summary_difference_and_text(found):
    answer = found[0]
    summary = answer.summary()
    assert summary["mean"].dims == ("group", "quantity")
    assert list(summary["quantity"].values) == ["share", "mean", "q50", "q75", "q95"]
    apart = answer.difference("mean")
    assert apart["group"].values.tolist() == ["1"] and float(apart["probability_positive"].squeeze()) == 1.0
    draws = answer.draws("mean")[:, 0]
    assert float(apart["mean"].squeeze()) == pytest.approx((draws[:, 1] - draws[:, 0]).mean())
    assert "private group" in repr(answer) and set(answer.table()["group"]) == {"0", "1"}
    assert answer.discretization_sd < 0.3 and answer.who_decides.startswith("The data decide")
    assert set(answer.attrs) >= {"method", "reason", "random_seed", "discretization_sd", "who_decides"}
    few = table(150)[0]  # read as reports of a protocol that says next to nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        weak = lb.by_private_group(few, "duration", protocol=GRR(2, 0.2), draws=125, method="smooth", random_seed=1)
    assert weak.who_decides.startswith("Prior and reports disagree on the share of 0, 1")


def test_a_group_that_is_empty_in_some_draws_is_summarized_by_the_others():
    frame = pyarrow.table({"z": np.arange(1.0, 13.0), "report": [0] * 11 + [1]})
    ask = {"protocol": GRR(2, 3.0), "target": "frequency", "method": "smooth", "draws": 50, "random_seed": 1}
    answer = lb.by_private_group(frame, "z", **ask)
    draws = answer.draws("mean")[:, 0, 1]
    assert np.isnan(draws).any() and np.isfinite(answer.mean()["lower"].values).all()
    assert float(answer.mean()["mean"][1]) == pytest.approx(np.nanmean(draws))
    apart = draws - answer.draws("mean")[:, 0, 0]
    above = float(answer.difference("mean")["probability_positive"].squeeze())
    known = apart[np.isfinite(apart)]  # also where draws are missing; draws in which the two are equal count half
    assert above == pytest.approx((known > 0).mean() + (known == 0).mean() / 2) and above > 0.5


def test_a_seed_makes_the_same_answer_again():
    frame, _, _ = table(800)
    ask = {"protocol": GRR(2, EPSILON), "draws": 25, "random_seed": 5}
    one, two = (lb.by_private_group(frame, "duration", **ask).draws("mean") for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_rates_in_every_record_are_channels():
    """Half the records say their group, the others next to nothing: the answer is that of the first half."""
    x, z = people(3000, 8)
    rng = np.random.default_rng(9)
    rate = np.where(np.arange(3000) % 2, 0.0, 0.999)
    y = np.where(rng.random(3000) < rate, rng.integers(2, size=3000), x)
    frame = pyarrow.table({"z": z, "report": np.array(["no", "yes"])[y], "rate": rate})
    answer = lb.by_private_group(frame, "z", report="report", rate_column="rate", draws=75, random_seed=1)
    assert answer.groups == ("no", "yes")
    open_half = x[1::2].mean()
    share = answer.shares().sel(group="yes")
    assert abs(float(share["mean"]) - open_half) < 3 * float(share["sd"])
    assert float(share["sd"]) == pytest.approx(np.sqrt(open_half * (1 - open_half) / 1500), rel=0.35)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", [GRR(3, 2.0), UnaryEncoding.optimized(3, 2.0), LocalHashing(3, 2.0)], ids=str)
def test_any_protocol_and_three_groups(protocol):
    x, z = people(3000, 11, k=3)
    reports = protocol.privatize(x, np.random.default_rng(12))
    names = list("abc")
    columns = dict(zip(protocol.report_fields, protocol.format_reports(reports, names), strict=True))
    frame = pyarrow.table({"z": z, **{name: list(map(str, held)) for name, held in columns.items()}})
    answer = lb.by_private_group(frame, "z", protocol=protocol, categories=names, draws=50, random_seed=1)
    share, truth = answer.shares(), np.bincount(x) / len(x)
    assert (np.abs(share["mean"].values - truth) < 4.5 * share["sd"].values).all()
    assert float(share["mean"].sum()) == pytest.approx(1)
    # few distinct rows are left of many distinct reports
    assert len(read_records(frame, "z", protocol=protocol, categories=names).table) <= 8


def test_an_open_category_is_a_cross_table():
    x, _ = people(4000, 21)
    rng = np.random.default_rng(22)
    o = np.where(rng.random(4000) < np.where(x, 0.6, 0.2), "slow", "fast")
    frame = pyarrow.table({"speed": o, "report": GRR(2, 2.0).privatize(x, rng)})
    for target in ("distribution", "frequency"):
        answer = lb.by_private_group(frame, "speed", protocol=GRR(2, 2.0), target=target, draws=100, random_seed=1)
        held = answer.outcomes()
        np.testing.assert_allclose(held["mean"].sum("outcome"), 1)
        slow = held.sel(outcome="slow")
        assert (np.abs(slow["mean"].values - [0.2, 0.6]) < 4.5 * slow["sd"].values).all()
        assert float(answer.difference("outcome").sel(outcome="slow")["probability_positive"].squeeze()) > 0.999
    with pytest.raises(ArgumentError, match="use outcomes"):
        answer.mean()


def test_doubling_all_weights_changes_nothing():
    frame, _, _ = table(1500)
    weighed = frame.append_column("w", pyarrow.array(np.full(1500, 2.0)))
    ask = {"protocol": GRR(2, EPSILON), "draws": 50, "random_seed": 1}
    plain = lb.by_private_group(frame, "duration", **ask)
    same = lb.by_private_group(weighed, "duration", weights="w", **ask)
    np.testing.assert_allclose(same.draws("share"), plain.draws("share"), rtol=1e-6)


def test_cells_of_covariates_share_a_scale_and_have_answers_each():
    frame, x, _ = table(3000, site=np.random.default_rng(5).choice(["u", "v"], 3000))
    answer = lb.by_private_group(frame, "duration", protocol=GRR(2, EPSILON), by="site", draws=50, random_seed=1)
    assert answer.cells == (("u",), ("v",)) and answer.summary()["mean"].dims == ("cell", "group", "quantity")
    assert answer.discretization.shape == (2, 5, 2)
    assert (np.abs(answer.shares()["mean"].values[:, 1] - x.mean()) < 5 * answer.shares()["sd"].values[:, 1]).all()


def test_habits_of_rounding_that_differ_are_found():
    x, z = people(6000, 31)
    habit = np.random.default_rng(32).random(6000) < np.where(x, 0.9, 0.1)
    step = np.where(habit, 50.0, 1.0)
    z = step * np.maximum(1, np.round(100 * z / step))
    reports = GRR(2, 2.0).privatize(x, np.random.default_rng(33))
    answer = lb.by_private_group(
        pyarrow.table({"z": z, "report": reports}), "z", protocol=GRR(2, 2.0), draws=50, random_seed=1
    )
    assert answer.method == "rounding" and "multiples of" in answer.reason
    share = answer.shares().isel(group=1)
    assert abs(float(share["mean"]) - x.mean()) < 4 * float(share["sd"])


def test_the_recipe_s_bootstrap_is_monotone_and_near_the_truth():
    rng = np.random.default_rng(42)
    x, z = people(5000, 41)
    frame = pyarrow.table({"z": z, "report": GRR(2, 3.0).privatize(x, rng)})
    forced = analyse(read_records(frame, "z", protocol=GRR(2, 3.0)), Arguments(method="recipe", draws=200))
    assert forced.method == "recipe" and forced.trusted
    draws = forced.draws("cdf", np.quantile(z, np.linspace(0, 1, 50)))
    assert (np.diff(draws, axis=2) >= -1e-12).all() and draws.min() >= 0 and draws.max() <= 1 + 1e-12
    share = forced.shares().isel(group=1)
    assert abs(float(share["mean"]) - x.mean()) < 4.5 * float(share["sd"])
    assert abs(float(forced.mean()["mean"][1]) - z[x == 1].mean()) < 5 * float(forced.mean()["sd"][1])


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
def test_a_rare_group_stays_with_the_smooth_curves():
    """The recipe's share is negative: no evidence against curves whose shares cannot be. It used to take over."""
    rng = np.random.default_rng(32)
    x = (rng.random(500) < 0.02).astype(int)
    frame = pyarrow.table({"z": rng.lognormal(0.7 * x, 0.6), "report": GRR(2, EPSILON).privatize(x, rng)})
    answer = lb.by_private_group(frame, "z", protocol=GRR(2, EPSILON), draws=25, random_seed=1)
    share = answer.shares().sel(group="1")
    assert answer.recipe[0]["share"][1] < -0.05 and answer.method == "smooth"
    assert float(share["lower"]) < 0.02 < float(share["upper"]) < 0.15
    forced = analyse(read_records(frame, "z", protocol=GRR(2, EPSILON)), Arguments(method="recipe", draws=100))
    assert forced.edges == ("1",) and not forced.trusted and "nobody in 1" in forced.outcome


def test_one_record_in_a_cell_is_not_certain_of_its_group():
    """Its share used to be 1, from 1 to 1, and all other cells were given the recipe."""
    frame, _, _ = table(800, site=np.where(np.arange(800) < 1, "u", "v"))
    with pytest.warns(DiagnosticWarning, match=r"1 of 2.*1 in u"):
        answer = lb.by_private_group(frame, "duration", protocol=GRR(2, EPSILON), by="site", draws=25, random_seed=1)
    alone = answer.shares().isel(cell=0)
    assert np.isfinite(answer.mean()["lower"].values).tolist() == [[False] * 2, [True] * 2]
    assert answer.method == "smooth" and (alone["lower"] < 0.1).all() and (alone["upper"] > 0.9).all()


def test_means_that_hang_on_a_handful_of_records_are_left_out():
    """Means of log-Student-t values are infinite; their intervals used to look like any others."""
    rng = np.random.default_rng(7)
    n, laws = 1000, {"normal": rng.normal, "log-normal": lambda size: rng.lognormal(0, 0.6, size)}
    laws |= {"gamma": lambda size: rng.gamma(0.5, 1, size), "rounded": lambda size: rng.poisson(30, size) // 5 * 5.0}
    laws |= {"pareto": lambda size: rng.pareto(1.2, size), "log-t": lambda size: np.exp(0.6 * rng.standard_t(3, size))}
    laws |= {f"{name} again": laws[name] for name in ("pareto", "log-t")}
    z, x = np.concatenate([draw(size=n) for draw in laws.values()]), rng.integers(2, size=n * len(laws))
    columns = {"z": z, "report": GRR(2, 3.0).privatize(x, rng), "law": np.repeat(list(laws), n)}
    ask = {"protocol": GRR(2, 3.0), "by": "law", "method": "recipe", "draws": 25, "quantiles": [0.5], "random_seed": 1}
    with pytest.warns(DiagnosticWarning, match=r"8 cells.*interval"):
        answer = lb.by_private_group(pyarrow.table(columns), "z", **ask)
    left = {law for (law,), k in zip(answer.cells, answer.hanging, strict=True) if k}
    long = {"pareto", "log-t", "pareto again", "log-t again"}
    assert len(left & long) >= 3 and not left - long  # long tails are left out in 98 %, the others in 1 %
    known = np.isfinite(answer.mean()["sd"].values)
    assert (known == (np.array(answer.hanging) == 0)[:, None]).all()
    assert np.isfinite(answer.quantile(0.5)["sd"].values).all() and "data decide" in answer.left_out
    assert answer.attrs["left_out"] == answer.left_out
    assert (np.isfinite(answer.difference("mean")["probability_positive"].values) == known[:, :1]).all()
    last = pyarrow.table(columns).slice(7 * n)  # these very records have a mean
    own = lb.by_private_group(last, "z", **ask, target="frequency")
    assert answer.hanging[answer.cells.index(("log-t again",))] and not any(own.hanging)


def test_distribution_functions_have_the_bounds_of_counts():
    """Of records whose group is known the ends are those of Clopper and Pearson, averaged; beyond the last they were 1."""
    n, draws = 30, 20_000
    mass = np.random.default_rng(1).standard_exponential((draws, n, 1, 1))
    known, none = np.arange(1.0, n + 1), np.zeros(n, dtype=int)
    measure = Measure(Atoms.of(known, np.arange(n), n, none, 1, np.ones(n)), mass, record=1.0)
    below = np.array([0, 1, 8, 29, 30])
    found = np.quantile(measure.cdf(below.astype(float))[..., 0], [0.025, 0.5, 0.975], axis=0)

    def average(probability):  # Beta(0, ·) is at 0, Beta(·, 0) at 1
        low = np.where(below > 0, beta.cdf(probability, np.maximum(below, 1), n - below + 1), 1.0)
        high = np.where(below < n, beta.cdf(probability, below + 1, np.maximum(n - below, 1)), 0.0)
        return (low + high) / 2

    np.testing.assert_allclose(average(found[0])[1:], 0.025, atol=0.006)
    np.testing.assert_allclose(average(found[2])[:-1], 0.975, atol=0.006)
    assert found[0, 0] == 0 and found[2, -1] == 1 and 0.85 < found[0, -1] < 0.93  # 1 − 3/n = 0.9
    quantile = measure.quantile(np.array([0.9]))[:, 0, 0]
    assert abs((quantile == n).mean() - average(0.9)[3]) < 0.01


def test_a_group_may_be_absent_from_a_mode():
    """Fifty sd apart a curve leaks far enough to move means by many errors; now a share may be 0. Seed of plain weights."""
    rng, n = np.random.default_rng([2, 50, 1000, 30, 50]), 1000
    x = (rng.random(n) < 0.5).astype(int)
    frame = pyarrow.table({"z": rng.standard_normal(n) + 50 * x, "report": GRR(2, 3.0).privatize(x, rng)})
    ask = {"protocol": GRR(2, 3.0), "draws": 250, "method": "smooth", "quantiles": [0.5], "random_seed": 1}
    found = lb.by_private_group(frame, "z", **ask)
    atoms, mass = found.measures[0].atoms, found.measures[0].mass[:, :, 0]
    low = np.unique(atoms.bin[atoms.value < 25])
    leaks = np.stack([mass[:, low, 1].sum(axis=1), np.delete(mass, low, axis=1)[:, :, 0].sum(axis=1)])
    assert ((0.2 < (leaks == 0).mean(axis=1)) & ((leaks == 0).mean(axis=1) < 0.6)).all()  # none was 0
    mean = found.mean()
    assert ((mean["lower"] < [0, 50]) & (mean["upper"] > [0, 50])).all()


def test_reports_say_whether_a_group_is_absent():
    """Twice the chance against absence is at most the ratio of the greatest likelihoods with and without the group."""
    channel = GRR(2, 1.0).channel()
    for many, expected in (
        (500 * channel[0, 1], 0.5),
        (500 * channel[0, 1] + 3 * (500 * channel[0, 1] * channel[0, 0]) ** 0.5, 0.0127),
    ):
        counted = Entries(np.zeros(2, int), np.arange(2), np.array([many, 500 - many]), channel, 1)
        chance = _absence(counted)
        assert chance[0] == pytest.approx(expected, abs=0.003) and chance[1] < 1e-6
    three = Entries(np.zeros(3, int), np.arange(3), np.array([300.0, 300.0, 150.0]), GRR(3, 1.0).channel(), 1)
    assert (_absence(three)[:2] < 1e-6).all() and _absence(three)[2] > 0.2


def test_a_cell_that_fails_leaves_the_others_with_their_answers():
    """Nobody is in a group in many draws of its bootstrap. The whole result used to be untrusted."""
    rng = np.random.default_rng(32)
    site = np.repeat(["u", "v"], [500, 2000])
    x = (rng.random(2500) < np.where(site == "u", 0.02, 0.4)).astype(int)
    frame = pyarrow.table({"z": rng.lognormal(0.7 * x, 0.6), "report": GRR(2, EPSILON).privatize(x, rng), "site": site})
    ask = {"protocol": GRR(2, EPSILON), "by": "site", "method": "recipe", "draws": 50, "random_seed": 1}
    with pytest.warns(DiagnosticWarning, match=r"1 of 2.*u:.*nobody"):
        answer = lb.by_private_group(frame, "z", **ask)
    assert answer.cells == (("v",),) and answer.trusted and answer.n_records == 2000
    share = answer.shares().sel(group="1").isel(cell=0)
    assert abs(float(share["mean"]) - x[500:].mean()) < 4.5 * float(share["sd"])


def test_frames_of_all_kinds_and_a_column_of_levels_give_the_same_answer():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    x, z = people(120, 61)
    rng = np.random.default_rng(62)
    epsilon = rng.choice([1.0, 3.0], 120)
    report = np.where(epsilon == 1, *(GRR(2, level).privatize(x, rng) for level in (1.0, 3.0)))
    arrow = pyarrow.table({"z": z, "answer": np.array(["no", "yes"])[report], "eps": epsilon, "w": rng.random(120)})
    frames = [arrow, arrow.to_pandas(), polars.from_arrow(arrow), polars.from_arrow(arrow).lazy(), duckdb.from_arrow(arrow)]
    ask = {
        "categories": ["no", "yes"],
        "epsilon_column": "eps",
        "weights": "w",
        "method": "recipe",
        "draws": 25,
        "random_seed": 1,
        "quantiles": [0.5],
    }
    answers = [lb.by_private_group(frame, "z", "grr", report="answer", **ask).draws("mean") for frame in frames]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    first = arrow.filter(epsilon == 1.0).drop_columns(["eps"])  # a column of one level is that protocol
    one = lb.by_private_group(arrow.filter(epsilon == 1.0), "z", "grr", report="answer", **ask)
    same = lb.by_private_group(first, "z", GRR(2, 1.0), report="answer", **(ask | {"epsilon_column": None}))
    np.testing.assert_array_equal(one.draws("mean"), same.draws("mean"))


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
def test_covariates_may_be_called_like_columns_of_answers():
    frame, _, _ = table(200, group=np.arange(200) % 2, mean=np.full(200, "m"))
    ask = {"by": ["group", "mean"], "method": "recipe", "draws": 25, "random_seed": 1}
    answer = lb.by_private_group(frame, "duration", protocol=GRR(2, EPSILON), **ask)
    assert answer.summary()["by_group"].values.tolist() == ["0", "1"]
    row = long_rows(answer)[0]
    assert (row["by_group"], row["by_mean"], row["group"]) == (0, "m", "0") and isinstance(row["mean"], float)
    for value, by in (("duration", "duration"), ("duration", "report"), ("duration", ["group", "group"]), ("report", None)):
        with pytest.raises(ArgumentError, match="by must"):  # reports are no open value
            lb.by_private_group(frame, value, protocol=GRR(2, EPSILON), by=by)


BAD = {
    "too large": ({"duration": [1.0, -1e200, 2.0, 3.0]}, DataError, r"at most 1e\+150 in size"),
    "no column": ({"value": "speed"}, DataError, "no column 'speed' for value"),
    "no report": ({"report": "answer"}, DataError, "no column 'answer' for report"),
    "missing value": ({"duration": [1.0, None, 2.0, 3.0]}, DataError, "missing values"),
    "nan": ({"duration": [1.0, np.nan, 2.0, 3.0]}, DataError, "missing values"),
    "infinite": ({"duration": [1.0, np.inf, 2.0, 3.0]}, DataError, "finite"),
    "all equal": ({"duration": [2.0] * 4}, DataError, "all values are 2"),
    "unknown report": ({"report_column": [0, 1, 7, 0]}, DataError, "report"),
    "missing report": ({"report_column": [0, 1, None, 0]}, DataError, "missing"),
    "rate above 1": ({"rate": [0.5, 1.5, 0.5, 0.5]}, DataError, r"rate must be a probability in \[0, 1\]"),
    "negative rate": ({"rate": [0.5, -0.5, 0.5, 0.5]}, DataError, r"rate must be a probability in \[0, 1\]"),
    "missing rate": ({"rate": [0.5, None, 0.5, 0.5]}, DataError, "empty|missing"),
    "two columns beside a rate": ({"rate": [0.5] * 4, "report": ["report", "duration"]}, ArgumentError, "name one column"),
    "negative weight": ({"w": [1.0, -1.0, 1.0, 1.0]}, DataError, "negative"),
    "no weight": ({"w": [0.0] * 4}, DataError, "above 0"),
    "one bin": ({"bins": 1}, ArgumentError, "bins must be"),
    "more bins than records": ({"bins": 50}, ArgumentError, "at most the number of records"),
    "target": ({"target": "truth"}, ArgumentError, "target must be one of"),
    "method": ({"method": "magic"}, ArgumentError, "method must be one of"),
    "level": ({"quantiles": [1.5]}, ArgumentError, "quantiles must be"),
    "not rounded": ({"method": "rounding"}, DataError, "stand out as rounded"),
    "protocol": ({"protocol": "grr"}, ArgumentError, "protocol"),
}


@each_row("case", list(BAD))
def test_bad_input_is_one_sentence(case):
    change, error, said = BAD[case]
    change = dict(change)
    columns = {"duration": change.pop("duration", [1.0, 2.0, 3.0, 4.0]), "report": change.pop("report_column", [0, 1, 1, 0])}
    ask = {"value": "duration", "protocol": GRR(2, EPSILON), "draws": 25, "random_seed": 1}
    if "rate" in change:
        columns |= {"rate": change.pop("rate"), "report": ["a", "b", "b", "a"]}
        ask |= {"rate_column": "rate", "protocol": None, "report": "report"}
    if "w" in change:
        columns["w"] = change.pop("w")
        ask["weights"] = "w"
    with pytest.raises(error, match=said) as caught:
        lb.by_private_group(pyarrow.table(columns), **(ask | change))
    assert "\n" not in str(caught.value)


def test_reports_that_do_not_identify_the_groups_have_no_recipe():
    frame, _, _ = table(600, k=2)
    blind = Channel([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(InfeasibleError, match=r"recipe.*identify"):
        lb.by_private_group(frame, "duration", protocol=blind, method="recipe", random_seed=1)
    answer = lb.by_private_group(frame, "duration", protocol=blind, draws=50, quantiles=[0.5], random_seed=1)
    assert answer.recipe is None and not answer.check.identified and "prior decides" in answer.who_decides


def test_quantiles_beyond_which_no_record_says_anything_are_left_out(tmp_path):
    """The 95 % quantile of forty records had an interval that held the truth in 14 of 40 samples."""
    rng = np.random.default_rng(5)
    x = rng.integers(2, size=40)
    columns = {"z": rng.normal(x, 1), "score": np.clip(np.rint(rng.normal(3 + x, 1)), 1, 5), "report": x}
    frame, ask = pyarrow.table(columns), {"protocol": GRR(2, 3.0), "draws": 50, "bins": 20, "random_seed": 1}
    with pytest.warns(DiagnosticWarning, match=r"quantiles.*z.*95 %.*95 %"):
        found = lb.by_private_group(frame, "z", **ask)
    open_ = np.isnan(found.quantile()["mean"].values)
    assert not open_[0].any() and open_[2].all()
    above = found.difference("quantile")["probability_positive"].values
    assert np.isnan(above).ravel().tolist() == open_.any(axis=1).tolist()
    assert np.isfinite(found.quantile(0.95, ci_prob=0.1)["mean"]).any()  # an interval that ends below the last record
    assert np.isfinite(found.draws("quantile", [0.95])).all()
    lb.save(found, tmp_path / "found.nc")
    again = lb.load(tmp_path / "found.nc")
    np.testing.assert_array_equal(again.quantile()["upper"], found.quantile()["upper"])
    for value, target in (("score", "distribution"), ("z", "frequency")):  # several at the end; these very records
        assert np.isfinite(lb.by_private_group(frame, value, target=target, **ask).quantile()["mean"]).all()
