"""From a survey to a population: effects over ordered levels, nested groups, subgroups, new groups and raking."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError
from ldpbayes.protocols import direct
from ldpbayes.protocols.designs import crosswise, warner
from ldpbayes.result.facts import facts_of

# Short chains of weak reports on purpose; what makes them long and trusted is told elsewhere.
pytestmark = [pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning"), pytest.mark.long]

DEVICE, LABELS = warner(0.8), ["no", "yes"]
LEVELS = ["never", "rarely", "weekly", "daily"]


def reported(rng, eta):
    """Return texts of reports through the device of people with these log odds."""
    return np.array(LABELS)[DEVICE.privatize((rng.random(len(eta)) < expit(eta)).astype(int), rng)]


def asked(frame, formula, protocol=DEVICE, **more):
    settings = {"report": "report", "categories": LABELS, "random_seed": 1}
    return lb.regress(frame, formula, protocol, **(settings | more))


def yes(answer, **at):
    return float(answer["mean"].sel(category="yes", **at))


@pytest.fixture(scope="module")
def survey():
    """People of towns in regions, half of them asked directly; of two regions a town has the same name."""
    rng, n = np.random.default_rng(5), 240
    frame = pd.DataFrame({"region": rng.choice(["e", "n", "w"], n), "age": rng.choice([20, 30, 50, 60], n)})
    frame["town"] = np.where(frame["region"] == "e", rng.choice(["a", "b"], n), rng.choice(["b", "c"], n))
    frame["use"] = pd.Categorical(rng.choice(LEVELS[1:], n), LEVELS, ordered=True)
    frame["report"] = reported(rng, 0.03 * (frame["age"] - 40) + 0.5 * (frame["region"] == "n"))
    frame["mode"] = np.where(np.arange(n) % 2, "device", "asked")
    return frame


@pytest.fixture(scope="module")
def found(survey):
    frame = survey.rename(columns={"report": "said"})
    both = {"device": DEVICE, "asked": direct()}
    formula = "smokes ~ rw(age) + mo(use) + (1 | region/town)"
    return asked(frame, formula, both, design="mode", report="said", method="hmc", draws=100)


# ---- effects over ordered levels ---------------------------------------------------------------------------------------
@pytest.mark.sampled(2)
@pytest.mark.parametrize("term", ["rw(x)", "mo(x)"])
def test_shares_by_draws_of_the_prior(term):
    """Three levels against weighted draws of the stated prior: a second way that shares no code."""
    rng = np.random.default_rng(0)
    counts = np.array([[34, 26], [30, 30], [12, 18]])  # reports of no and yes
    x = np.array([0.0, 1.0, 3.0])  # the second step of a walk is twice as long
    frame = pd.DataFrame({"x": np.repeat(x, 2), "report": LABELS * 3, "n": counts.ravel()})
    found = asked(frame, f"a ~ {term}", count="n", draws=2000)
    answer = lb.predictions(found, {"x": x})

    size, people = 400_000, counts.sum(axis=1) / counts.sum()
    if term == "rw(x)":
        walk = np.array([[0.0, 0, 0], [0, 1, 1], [0, 1, 3]])  # covariance of a walk from 0
        off = np.eye(3) - 1 / 3
        covariance = off @ walk @ off
        root = np.linalg.cholesky(covariance / np.trace(covariance) * 3 + 1e-12 * np.eye(3))
        effect = np.abs(rng.standard_normal((size, 1))) * (rng.standard_normal((size, 3)) @ root.T)
    else:
        steps = rng.dirichlet([1, 1], size)
        height = np.stack([np.zeros(size), steps[:, 0], np.ones(size)], axis=1)
        even = np.array([0.0, 0.5, 1.0])
        sd = np.sqrt(people @ (even - people @ even) ** 2)
        effect = 2.5 / sd * rng.standard_normal((size, 1)) * (height - (height @ people)[:, None])
    p = expit(np.pi * rng.standard_normal((size, 1)) + effect)
    said = 0.2 + 0.6 * p
    log_weight = np.log(said) @ counts[:, 1] + np.log1p(-said) @ counts[:, 0]
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ p
    error = np.sqrt(weight**2 @ (p - mean) ** 2)
    sd = np.sqrt(weight @ (p - mean) ** 2)
    log_evidence = log_weight.max() + np.log(np.exp(log_weight - log_weight.max()).mean())
    relative = np.sqrt((weight**2).sum())  # standard error of the mean weight, over it
    assert facts_of(found)["log_evidence"] == pytest.approx(
        log_evidence, abs=5 * (relative + facts_of(found)["log_evidence_error"])
    )
    own = answer["mean"].sel(category="yes").values, answer["mcse"].sel(category="yes").values
    assert (error < 0.05 * sd).all()
    assert (np.abs(own[0] - mean) < 5 * np.hypot(own[1], error)).all()
    np.testing.assert_allclose(answer["sd"].sel(category="yes"), sd, rtol=0.1)


@pytest.mark.calibrate
def test_groups_and_walks_are_weighted_and_agree_with_chains():
    """Draws of the effects given their scales: no chain is needed, and chains say the same within five errors."""
    rng, n = np.random.default_rng(3), 400
    frame = pd.DataFrame({"region": rng.integers(0, 8, n).astype(str), "age": rng.integers(2, 8, n)})
    frame["mode"] = np.where(np.arange(n) % 2, "device", "asked")
    eta = 0.4 * (frame["age"] - 5) + rng.normal(0, 0.6, 8)[frame["region"].astype(int)]
    truth = rng.random(n) < expit(eta)
    frame["report"] = np.where(frame["mode"] == "asked", np.array(LABELS)[truth.astype(int)], reported(rng, eta))
    both = {"device": DEVICE, "asked": direct()}
    one, two = (
        asked(frame, "a ~ rw(age) + (1 | region)", both, design="mode", method=method, draws=500)
        for method in ("auto", "hmc")
    )
    assert one.attrs["method"] == "weighted" and one.attrs["converged"] and two.attrs["method"] == "hmc"
    for name in ("1|region_sigma", "rw(age)_sigma"):
        at = {"parameter": name}
        first, second = (found["summary"].to_dataset().sel(at) for found in (one, two))
        error = np.hypot(first["parameter_mcse"], second["parameter_mcse"])
        assert abs(float(first["parameter_mean"] - second["parameter_mean"])) < 5 * error


def test_two_ordered_levels_are_a_factor():
    frame = pd.DataFrame({"x": [0, 0, 1, 1], "report": LABELS * 2, "n": [30, 20, 15, 35]})
    one, two = (asked(frame, formula, count="n", draws=1000) for formula in ("a ~ mo(x)", "a ~ x"))
    error = np.hypot(facts_of(one)["log_evidence_error"], facts_of(two)["log_evidence_error"])
    assert facts_of(one)["log_evidence"] == pytest.approx(facts_of(two)["log_evidence"], abs=5 * error)
    change = one["posterior"]["mo(x)_change"].sel(category="yes")
    slope = two["posterior"]["coefficients"].sel(category="yes", term="x")
    assert float(change.mean()) == pytest.approx(float(slope.mean()), abs=5 * float(slope.std()) * np.sqrt(2 / 4000))


def test_levels_that_nobody_has_stay_in_their_place(found):
    """No answer was "never": its effect is drawn by the prior beyond the first step, and mo() is monotone in each draw."""
    effect = found["posterior"]["mo(use)"].sel(category="yes")
    assert effect["mo(use)_level"].values.tolist() == LEVELS
    assert any(row[0].startswith("mo(use) from ") for row in lb.show(found).tables[0].rows)
    steps = effect.diff("mo(use)_level").values
    assert ((steps >= -1e-12).all(axis=-1) | (steps <= 1e-12).all(axis=-1)).all()
    assert found["posterior"]["rw(age)"].sel(category="yes").mean("rw(age)_level").values == pytest.approx(0, abs=1e-9)


@pytest.mark.calibrate
def test_nested_groups_are_an_explicit_column(survey):
    joined = survey.assign(
        both=survey["region"] + "-" + survey["town"], report=reported(np.random.default_rng(1), 0 * survey["age"])
    )
    settings = {"method": "hmc", "draws": 20}
    nested = asked(joined, "a ~ (1 | region/town)", **settings)["posterior"]
    explicit = asked(joined, "a ~ (1 | region) + (1 | both)", **settings)["posterior"]
    assert nested["1|region:town_level"].values.tolist() == ["e:a", "e:b", "n:b", "n:c", "w:b", "w:c"]
    np.testing.assert_allclose(nested["1|region:town"].values, explicit["1|both"].values, atol=1e-8)


# ---- populations -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def census():
    rows = [(r, t, age, use) for r, t in ("ea", "eb", "nb", "nc", "wb") for age in (20, 30, 50, 60) for use in LEVELS]
    table = pd.DataFrame(rows, columns=["region", "town", "age", "use"])
    return table.assign(people=np.random.default_rng(2).integers(10, 100, len(table)))


def by_hand(found, table):
    """Return the draws of the share of yes of rows of levels that the fit has, (draws, rows)."""
    draws = {
        name: values.sel(category="yes").values.reshape(400, -1)
        for name, values in found["posterior"].data_vars.items()
        if "category" in values.dims
    }
    places = {
        name: list(map(str, found["posterior"][f"{name}_level"].values))
        for name in draws
        if f"{name}_level" in found["posterior"].coords
    }
    eta = draws["coefficients"][:, :1].repeat(len(table), axis=1)
    labels = {
        "rw(age)": table["age"],
        "mo(use)": table["use"],
        "1|region": table["region"],
        "1|region:town": table["region"] + ":" + table["town"],
    }
    for name, column in labels.items():
        eta = eta + draws[name][:, [places[name].index(str(label)) for label in column]]
    return expit(eta)


def test_population_and_subgroups(found, census):
    answer = lb.poststratify(found, census, count="people", by=["region", "use"])
    shares, weight = by_hand(found, census), census["people"].to_numpy()
    inside = ((census["region"] == "n") & (census["use"] == "daily")).to_numpy()
    expected = shares[:, inside] @ weight[inside] / weight[inside].sum()
    group = answer["draws"].sel(group="n, daily", category="yes").values.ravel()
    np.testing.assert_allclose(group, expected, atol=1e-9)
    whole = shares @ weight / weight.sum()
    np.testing.assert_allclose(answer["draws"].sel(group="population", category="yes").values.ravel(), whole, atol=1e-9)
    assert yes(lb.poststratify(found, census, count="people")) == pytest.approx(whole.mean(), abs=1e-9)
    assert float(answer["population_share"].sel(group="n, daily")) == pytest.approx(weight[inside].sum() / weight.sum())
    delta = lb.contrast(answer, "yes", "yes", cell="n, daily", other_cell="population")
    assert float(delta["mean"]) == pytest.approx((expected - whole).mean(), abs=1e-9)
    assert delta.question == "yes in n, daily − yes in population" and float(delta["mcse"]) > 0
    (figure,) = lb.show(answer).figures
    assert "the population" in figure.caption
    rows = [label.get_text() for label in lb.plots.plot_predictions(answer).axes[0].get_yticklabels()]
    assert "population" in rows and "n, daily" in rows
    assert "unseen" not in answer.attrs


def test_groups_that_the_sample_lacks_are_drawn_and_named(found, census, tmp_path):
    path = tmp_path / "found.nc"
    found.save(path)
    new = pd.concat([census.assign(kind="old"), census.assign(region="s", kind="new")])
    answer = lb.poststratify(lb.load(path), new, count="people", by="kind")
    assert "region 's' (50.0 %" in answer.unseen and "region:town 's:a', 's:b', 's:c'" in answer.unseen
    rng, posterior = np.random.default_rng(3), found["posterior"]
    shares = by_hand(found, census)
    known = [posterior[name].sel(category="yes").values.reshape(400, -1) for name in ("1|region", "1|region:town")]
    region, town = (posterior[f"{name}_sigma"].values.ravel()[:, None] for name in ("1|region", "1|region:town"))
    at = [["e", "n", "w"].index(name) for name in census["region"]]
    inner = list(posterior["1|region:town_level"].values)
    both = [inner.index(f"{r}:{t}") for r, t in zip(census["region"], census["town"], strict=True)]
    rest = logit(shares) - known[0][:, at] - known[1][:, both]
    towns = ["abc".index(t) for t in census["town"]]
    many = [
        expit(rest + region * rng.standard_normal((400, 1)) + (town * rng.standard_normal((400, 3)))[:, towns])
        @ (census["people"] / census["people"].sum())
        for _ in range(40)
    ]
    assert yes(answer, group="new") == pytest.approx(np.mean(many), abs=5 * np.std(many) / np.sqrt(100))
    np.testing.assert_allclose(answer["sd"].sel(group="new", category="yes"), np.std(many), rtol=0.25)
    people = new.drop(columns="people")
    assert "region 's'" in lb.predictions(found, people).unseen
    apart = lb.comparisons(found, "region", ["n", "s"], data=people)
    assert "region 's' (50.0 %" in apart.unseen
    means = [lb.predictions(found, people.assign(region=name))["mean"].sel(category="yes").mean() for name in ("n", "s")]
    assert float(apart["mean"].sel(category="yes")[0]) == pytest.approx(float(means[1] - means[0]), abs=1e-9)
    with pytest.raises(DataError, match="not seen"):
        lb.poststratify(found, census.assign(use="hourly"), count="people")


def test_new_places_of_a_walk_lie_between_their_neighbours(found, census):
    two = census[(census["age"] == 30) & (census["use"] == "daily") & (census["region"] == "n")]
    ages = [30, 40, 50, 75]
    answer = lb.poststratify(found, pd.concat([two.assign(age=a) for a in ages]), count="people", by="age")
    assert "rw(age) '40', '75'" in answer.unseen
    odds = logit(np.stack([answer["draws"].sel(group=str(a), category="yes").values.ravel() for a in ages]))
    sigma = found["posterior"]["rw(age)_sigma"].values.ravel()
    walk = np.minimum.outer(np.array([0, 10, 30, 40]), np.array([0, 10, 30, 40]))
    off = np.eye(4) - 0.25
    unit = np.diag(off @ walk @ off).mean()  # by which variances are divided
    between = (odds[1] - (odds[0] + odds[2]) / 2) / sigma  # a bridge of 10 + 10 years
    # Shares are averaged over two towns, so that log odds are linear to a few per cent only.
    assert between.std() == pytest.approx(np.sqrt(10 * 10 / 20 / unit), rel=0.15)
    assert abs(between.mean()) < 5 * between.std() / np.sqrt(100)


def test_raking_is_iterative_proportional_fitting(found, survey):
    regions = pd.DataFrame({"region": ["e", "n", "w"], "people": [500, 300, 200]})
    ages = pd.DataFrame({"age": [20, 30, 50, 60], "people": [100, 400, 300, 200]})
    answer = lb.poststratify(found, [regions, ages], count="people", by="region")
    np.testing.assert_allclose(answer["population_share"].sel(group=["e", "n", "w"]), [0.5, 0.3, 0.2], rtol=1e-6)
    cells = survey.groupby(["region", "town", "age", "use"], observed=True).size().rename("people").reset_index()
    cells["people"] = cells["people"].astype(float)
    for _ in range(200):
        for margin in (regions, ages):
            name = margin.columns[0]
            target = margin.set_index(name)["people"]
            now = cells.groupby(name)["people"].sum()
            cells["people"] *= cells[name].map(target / now)
    expected = lb.poststratify(found, cells, count="people", by="region")
    np.testing.assert_allclose(answer["mean"].sel(group=expected["group"]), expected["mean"], atol=1e-8)


def test_margins_that_cannot_be_met_are_one_sentence(found):
    ages = pd.DataFrame({"age": [20, 30, 50, 60], "people": [100, 400, 300, 200]})
    regions = pd.DataFrame({"region": ["e", "n", "w"], "people": [500, 300, 300]})
    with pytest.raises(DataError, match=r"disagree.*\(1,100, 1,000\)"):
        lb.poststratify(found, [regions, ages], count="people")
    with pytest.raises(DataError, match=r"nobody.*region s.*margin"):
        lb.poststratify(found, [regions.replace("w", "s")], count="people")
    # A level that a margin leaves out was nobody without a word; a census of combinations has none of what it omits.
    with pytest.raises(DataError, match=r"margin.*region lacks.*w"):
        lb.poststratify(found, [regions.iloc[:2]], count="people")
    assert np.isfinite(lb.poststratify(found, [regions.assign(people=[500, 600, 0])], count="people")["mean"]).all()
    with pytest.raises(ArgumentError, match=r"covariates.*land"):
        lb.poststratify(found, [ages.rename(columns={"age": "land"})], count="people")
    with pytest.raises(ArgumentError, match="empty list"):
        lb.poststratify(found, [], count="people")
    towns = pd.DataFrame({"town": ["a", "b", "c"], "people": [900, 50, 50]})  # a lies in the region e alone
    with pytest.raises(InfeasibleError, match=r"people.*margins"):
        lb.poststratify(found, [regions.assign(people=[100, 450, 450]), towns], count="people")


# ---- formulas and comparisons ------------------------------------------------------------------------------------------
def test_leave_one_out_of_effects_over_levels(found, survey):
    import arviz_stats

    found.extend("log_likelihood")
    table = survey.assign(region=survey["region"].astype(str))
    p = by_hand(found, table.iloc[:20])
    direct_, is_yes = (survey["mode"] == "asked").to_numpy()[:20], (survey["report"] == "yes").to_numpy()[:20]
    said = np.where(direct_, p, 0.2 + 0.6 * p)
    held = found["log_likelihood"]["reports"].values.reshape(400, -1)[:, :20]
    np.testing.assert_allclose(held, np.log(np.where(is_yes, said, 1 - said)), atol=1e-9)
    assert np.isfinite(arviz_stats.loo(found).elpd)


@each_row(
    "formula, words",
    [
        ("a ~ rw(age):mo(use)", r"rw\(\)"),
        ("a ~ (rw(age) | region)", r"rw\(\)"),
        ("a ~ (1 | mo(use))", r"mo\(\)"),
        ("a ~ I(rw(age) + 1)", "in arithmetic"),
        ("a ~ rw(town)", "no order"),
        ("a ~ rw(age, 2)", "rw.*options"),
    ],
)
def test_formulas_that_are_refused(formula, words, survey):
    with pytest.raises((ArgumentError, DataError), match=words):
        asked(survey, formula)


def test_the_share_who_deny_has_common_terms_only(survey):
    stated = {"of": "yes", "say": "no", "channel": "asked", "formula": "rw(age)"}
    with pytest.raises(ArgumentError, match="common terms"):
        asked(survey, "a ~ region", {"device": DEVICE, "asked": direct()}, design="mode", deniers=stated)


def test_forty_groups_of_few_reports_are_served_by_weights():
    """Weights along axes were 10^8 times their mean where the volume of all effects had fallen, too: chains took 10 s."""
    rng, protocol = np.random.default_rng(1), warner(0.8)
    group, effects = rng.integers(40, size=1000), 0.7 * rng.standard_normal(40)
    x = np.round(rng.standard_normal(1000))
    answer = (rng.random(1000) < expit(-0.5 + 0.4 * x + effects[group])).astype(int)
    (report,) = protocol.format_reports(protocol.privatize(answer, rng), ["no", "yes"])
    frame = pd.DataFrame({"x": x, "group": [f"g{k}" for k in group], "report": report})
    found = lb.regress(
        frame, "y ~ x + (1 | group)", protocol, report="report", categories=["no", "yes"], random_seed=1, method="weighted"
    )
    assert found.attrs["converged"] and facts_of(found)["weights_effective"] > 4_000


@pytest.mark.parametrize("case", [pytest.param(9, marks=pytest.mark.calibrate), 11])
def test_many_groups_and_flat_ends_are_served_by_weights(case):
    """150 groups, and ends of three groups in a flat tail, went to chains: one not trusted, one 185 s long."""
    rng = np.random.default_rng(100 + case)
    groups, n, spread, protocol = {9: (150, 3000, 0.05, direct()), 11: (3, 5000, 2.5, crosswise(0.2))}[case]
    group, x, level = rng.integers(groups, size=n), rng.normal(size=n), rng.integers(1, 9, size=n)
    eta = -1 + 0.5 * x + rng.normal(0, spread, groups)[group]
    answer = (rng.random(n) < expit(eta)).astype(int)
    (report,) = protocol.format_reports(protocol.privatize(answer, rng), ["no", "yes"])
    frame = pd.DataFrame({"x": x, "level": level, "group": [f"g{k}" for k in group], "report": report})
    formula = "y ~ (1 | group)" if case == 9 else "y ~ x + (1 | group) + rw(level)"
    found = lb.regress(frame, formula, protocol, report="report", categories=["no", "yes"], random_seed=3)
    assert found.attrs["converged"] and found.attrs["method"] == "weighted"
