"""The cross-check must flag a survey read with the wrong design, and leave a sound one alone."""

import functools
import json

import numpy as np
import pytest
import xarray as xr
from references.enumeration import enumerated
from samples import from_sample

from ldpbayes import Cells, Collection, Tally, cli, read
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators.mle import MLE
from ldpbayes.fitting import fit
from ldpbayes.pages import show
from ldpbayes.priors import prior_for
from ldpbayes.protocols import (
    GRR,
    Channel,
    CohortRR,
    HadamardResponse,
    LocalHashing,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
    Uncertain,
    designs,
)
from ldpbayes.robust import crosschecking
from ldpbayes.robust.crosschecking import crosscheck, ends_apart, predictive_check
from ldpbayes.robust.enumerating import enumerate_outcomes

pytestmark = pytest.mark.together("models")
LABELS = list("abcd")
#: A protocol for each model of models/.
PROTOCOLS = {
    "channel": Channel(np.full((4, 4), 0.1) + 0.6 * np.eye(4)),
    "cohort_rr": CohortRR(4, 1.5, cohorts=8, buckets=3),
    "grr": GRR(4, 1.0),
    "hadamard": HadamardResponse(4, 1.5),
    "local_hashing": LocalHashing(4, 1.5),
    "rappor": Rappor(4, 0.25, 0.75, 0.3, 8, 2, 2, candidates=LABELS),
    "subset": SubsetSelection(4, 1.0),
    "unary": UnaryEncoding.optimized(4, 1.5),
}


@pytest.fixture(scope="module")
def root(request):
    return request.config.rootpath


@pytest.mark.parametrize(
    "name, prior",
    [  # the second is compiled for the tests of NUTS
        pytest.param("nigeria", "flat", marks=pytest.mark.calibrate),
        ("eriksson_cheating", "jeffreys"),
    ],
)
def test_sound_surveys_are_not_flagged(root, name, prior):
    report = crosscheck(read(root / f"data/rr_{name}.toml"), prior=prior, random_seed=1)
    assert not report.flagged, report.sentence
    assert (report["reference"].item(), report["sampler"].item()) == ("exact", "nuts")
    assert np.abs(report["difference_mcse"]).max() <= 4
    summed = {"enumeration"} if name == "nigeria" else set()  # of ten categories there are 5e12 tallies
    assert set(report["estimator"].values) == {"mle", "oracle", "convex"} | summed
    assert abs(report["convex_excess"]) < 1e-6 and not report["convex_astray"] and "cvxpy" in report.sentence
    assert "to flag" in report.sentence and "agrees" in str(show(report))


@pytest.mark.sampled(6)  # a channel that is a table, and sets
@pytest.mark.parametrize("way", ["pair_slice", pytest.param("nuts", marks=pytest.mark.calibrate)])
@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_every_protocol_in_cells(name, way, monkeypatch):
    """Each cell by two methods, by the sum over all tallies where these are few, and beside cvxpy."""
    monkeypatch.setattr(crosschecking, "fit", functools.partial(quick, fit, way))
    protocol, rng = PROTOCOLS[name], np.random.default_rng(4)
    sizes = {"few": 12, "many": 400}
    cells = Cells(
        {
            key: Collection(LABELS, Tally(protocol, protocol.privatize(rng.choice(4, n, p=[0.5, 0.3, 0.1, 0.1]), rng)))
            for key, n in sizes.items()
        },
        by="size",
    )
    found = crosscheck(cells, "jeffreys", random_seed=1)
    assert not found.flagged, found.sentence
    assert np.abs(found["difference_mcse"]).max() <= 4 and not found["convex_astray"].any()
    assert (np.abs(found["convex_excess"]) < 1e-5).all() and (found["convex_gap"] < 1e-3).all()
    few = found.sel(cell="few")
    if few["reference"] != "enumeration":
        assert np.abs(few["away"].sel(estimator="enumeration")).max() < 1e-6
    assert len(found.table()) == 2 and protocol.design.replace("_", " ") in found.headline


def test_interval_ends_that_differ_are_flagged_where_means_agree(monkeypatch):
    """The lower end by one method is moved by a posterior sd, and keeps the error that it states."""
    survey = Collection(["no", "yes"], Tally(GRR(2, 1.0), [0, 1], [70, 30]))
    real = functools.partial(quick, fit, "pair_slice")

    def moved(*args, method="auto", **settings):
        tree = real(*args, method=method, **settings)
        if method != "nuts":
            lower, sd = (tree["summary"][name].values for name in ("lower", "sd"))
            tree["summary"]["lower"].values[:] = lower - sd
        return tree

    monkeypatch.setattr(crosschecking, "fit", real)
    sound = crosscheck(survey, random_seed=1)
    monkeypatch.setattr(crosschecking, "fit", moved)
    found = crosscheck(survey, random_seed=1)
    assert not sound.flagged and found.flagged and "interval end" in found.sentence
    np.testing.assert_array_equal(found["mean"], sound["mean"])
    assert float(np.abs(found["end_sd"]).max()) == pytest.approx(1, abs=0.3)
    assert np.abs(sound["end_errors"]).max() < 4 and all("end" in word for word in found["verdict"].values)


def test_ends_at_a_bound_are_compared_by_the_levels_of_draws():
    """Draws x² of uniform x, whose lower end of .0006 a sample of 400 puts at .0001 or .0016: levels off by two errors."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(1000):
        draws = rng.random((1, 400, 1)) ** 2
        entries = {name: ("x", np.quantile(draws, [level])) for name, level in (("lower", 0.025), ("upper", 0.975))}
        nuts = xr.Dataset(entries | {"ess_tail": ("x", [400.0])}, attrs={"ci_prob": 0.95})
        exact = {"lower": 0.025**2, "upper": 0.975**2, "lower_error": 0.0, "upper_error": 0.0, "sd": 0.3}
        reference = xr.Dataset({name: ("x", [value]) for name, value in exact.items()})
        _, errors = ends_apart(reference, nuts, draws)
        found.append(errors[0])
    found = np.array(found)
    # The larger of two: .0026 of both would be beyond 3 of normal errors, and 1.3e-4 beyond 4.
    assert np.abs(found).max() < 4.5 and np.mean(np.abs(found) > 3) < 0.01 and 0.08 < np.mean(np.abs(found) > 1.96) < 0.12


def test_a_weighted_sample_is_refused_in_words_of_the_question():
    sample = from_sample(["no", "yes"], GRR(2, 1.0), [0, 1, 1, 0], weights=[1.0, 2.0, 1.0, 2.0])
    with pytest.raises(InfeasibleError, match="cross-check the same reports without weights"):
        crosscheck(sample)


@pytest.mark.calibrate
@pytest.mark.sampled(4)
def test_methods_agree_in_forty_honest_cross_checks():
    """Up to 10,000 reports of truths at a bound too: a third way found two of a hundred that NUTS could not have noticed."""
    rng = np.random.default_rng(5)
    for k in range(40):
        a, epsilon, n = 2 + k % 3, float(rng.choice([0.5, 1, 2, 4])), int(rng.choice([30, 300, 3000, 10_000]))
        protocol = GRR(a, epsilon) if k % 2 else UnaryEncoding.optimized(a, epsilon)
        tally = Tally(
            protocol, *protocol.simulate(rng.multinomial(n, rng.dirichlet(np.full(a, rng.choice([0.3, 1.0])))), rng)
        )
        found = crosscheck(Collection(LABELS[:a], tally), "jeffreys", random_seed=k)
        assert found["enumeration_apart"] == 0 and found["convex_astray"] == 0, (k, found.sentence)
        assert max(np.abs(found[name]).max() for name in ("difference_mcse", "end_errors")) < 4.5, (k, found.sentence)


def test_the_sum_over_all_tallies_is_a_row_and_is_flagged_where_it_differs(monkeypatch):
    monkeypatch.setattr(crosschecking, "fit", functools.partial(quick, fit, "pair_slice"))
    collection = Collection(LABELS, Tally(GRR(4, 1.0), [0, 1, 2, 3], [20, 12, 8, 6]))
    right = crosscheck(collection, "flat", random_seed=1)
    assert right["reference"] == "exact" and "sum over" in right.headline
    exact = (enumerated(collection, "flat")["distribution_mean"] - right["mean"]) / right["sd"]
    np.testing.assert_allclose(right["away"].sel(estimator="enumeration"), exact, atol=1e-9)
    assert "enumeration_difference_sd" in right.table().columns
    moved = crosschecking._enumerated
    monkeypatch.setattr(crosschecking, "_enumerated", lambda cell, prior: moved(cell, crosschecking.prior_for(3.0, cell)))
    wrong = crosscheck(collection, "flat", random_seed=1)
    assert wrong.flagged and "sum over" in wrong.sentence


def test_a_likelihood_that_is_wrong_is_seen_beside_cvxpy():
    """The package's maximum under another device lies further from cvxpy's than both certificates allow."""
    right = Collection(["no", "yes"], Tally(designs.warner(0.7), [0, 1], [60, 40]))
    wrong = Collection(["no", "yes"], Tally(designs.warner(0.8), [0, 1], [60, 40]))
    estimate = MLE()(wrong)
    _, said = crosschecking._beside_cvxpy(right, estimate)
    assert said["convex_astray"] and "package's" in said["convex_verdict"]
    _, said = crosschecking._beside_cvxpy(right, MLE()(right))
    assert not said["convex_astray"] and said["convex_gap"] < 1e-3


@pytest.mark.calibrate  # tests/test_readme.py runs the same command
def test_minarets_read_as_warner_are_flagged(root):
    report = crosscheck(read(root / "data/rr_minarets_as_warner.toml"), random_seed=1)
    assert report.flagged
    assert report["predictive_p"][0] < 0.002
    assert "not look" in report.sentence
    assert report.fitness_flagged and "not fit" in report.sentence


@pytest.mark.calibrate  # tests/test_readme.py runs the same command
def test_command_exits_with_one_when_flagged(root, capsys, monkeypatch):
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["crosscheck", "data/rr_minarets_as_warner.toml", "--seed", "1"])
    out = " ".join(capsys.readouterr().out.split())
    assert stopped.value.code == 1 and "not fit" in out


def predictive_p_values(size, seed):
    """Return the p-values of direct answers in five categories and of a crosswise pair whose P come from the prior."""
    rng, found = np.random.default_rng(seed), np.empty((size, 2))
    grid = np.linspace(0.0005, 0.9995, 1000)
    pair = [designs.warner(0.2), designs.warner(0.8)]
    for i in range(size):
        counts = rng.multinomial(60, rng.dirichlet(np.ones(5)))
        opened = Collection(list("abcde"), [Tally(designs.direct(5), np.arange(5), counts)])
        truth = rng.random()
        tallies = [Tally(d, *d.simulate(rng.multinomial(100, [1 - truth, truth]), rng), name=f"{d}") for d in pair]
        crosswise = Collection(["no", "yes"], tallies)
        likelihood = crosswise.rows.log_likelihood(np.stack([1 - grid, grid]))
        weight = np.exp(likelihood - likelihood.max())
        yes = rng.choice(grid, p=weight / weight.sum())
        for j, (collection, p) in enumerate(((opened, rng.dirichlet(1 + counts)), (crosswise, np.array([1 - yes, yes])))):
            tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"distribution": (("chain", "draw", "category"), [[p]])})})
            found[i, j] = predictive_check(collection, tree, draws=199, random_seed=int(rng.integers(2**31)))[0].p_value
    return found


@pytest.mark.calibrate
def test_predictive_check_is_uniform_under_the_truth():
    """P(p ≤ .05) and P(p ≤ .5), each within what 300 uniform numbers leave once in ten thousand."""
    p = predictive_p_values(300, 3)
    assert (np.abs((p <= 0.05).mean(axis=0) - 0.05) < 0.05).all()
    assert (np.abs((p <= 0.5).mean(axis=0) - 0.5) < 0.12).all()


@pytest.mark.calibrate
def test_predictive_check_is_uniform_to_two_per_cent():
    """Of 10,000 each."""
    p = predictive_p_values(10_000, 4)
    assert (np.abs((p <= 0.05).mean(axis=0) - 0.05) < 0.02).all()
    assert (np.abs((p <= 0.5).mean(axis=0) - 0.5) < 0.02).all()


def test_reports_outside_the_channels_range_are_flagged():
    """Forced response forces a sixth of each answer: 2 % of yes cannot come from it."""
    collection = Collection(["no", "yes"], [Tally(designs.forced_response(2 / 3, [1, 1]), [0, 1], [980, 20])])
    tree = fit(collection, random_seed=1, estimates=False)
    assert predictive_check(collection, tree, random_seed=1)[0].p_value < 0.01


def test_check_command(root, capsys, monkeypatch):
    """Exit status 0 where the reports fit, 1 where they are flagged, 2 for bad input."""
    monkeypatch.chdir(root)
    codes = []
    for file, words in (
        ("data/rr_nigeria.toml", "No test of fit is possible"),
        ("data/rr_minarets_as_warner.toml", "The reports do not fit the design"),
        ("data/nowhere.toml", ""),
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["check", file])
        codes.append(stopped.value.code)
        assert words in " ".join(capsys.readouterr().out.split())
    assert codes == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")  # of so few draws
def test_the_seed_is_recorded_and_finds_the_same_again(monkeypatch):
    """With no seed nobody could make a cross-check again."""
    monkeypatch.setattr(crosschecking, "fit", functools.partial(quick, fit, "pair_slice"))
    collection = Collection(["no", "yes"], Tally(designs.warner(0.8), [0, 1], [30, 20]))
    for given in (None, 7):
        first = crosscheck(collection, draws=100, chains=2, random_seed=given)
        again = crosscheck(collection, draws=100, chains=2, random_seed=first.attrs["random_seed"])
        assert first.identical(again) and (given != 7 or first.attrs["random_seed"] == 7)
    assert "Seed 7." in str(first.page()) and json.loads(first.page().render("json"))["random_seed"] == 7


def quick(fit, way, collection, *, method="auto", **settings):
    """Return a fit by another method in place of NUTS, whose models take time to compile."""
    return fit(collection, method=way if method == "nuts" else method, **settings)


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")  # of so few draws
def test_of_few_reports_the_reference_is_the_sum_over_all_tallies(monkeypatch):
    monkeypatch.setattr(crosschecking, "fit", functools.partial(quick, fit, "pair_slice"))
    protocol = UnaryEncoding.optimized(10, 1.0)
    reports = protocol.privatize(np.arange(10), np.random.default_rng(1))
    collection = Collection(list("abcdefghij"), Tally(protocol, reports))
    found, exact = crosscheck(collection, "flat", draws=250, random_seed=1), enumerated(collection, "flat")
    assert found["reference"].item() == "enumeration" and (np.abs(found["difference_mcse"]) < 4).all()
    np.testing.assert_allclose(found["mean"], exact["distribution_mean"])
    np.testing.assert_allclose(found["sd"], exact["distribution_sd"])


def test_a_seed_of_the_cross_check_is_an_integer(root):
    collection = read(root / "data/rr_nigeria.toml")
    tree = fit(collection, random_seed=1, estimates=False)
    assert predictive_check(collection, tree, random_seed=1)[0].p_value > 0.01
    for wrong in (-1, np.random.default_rng(1)):
        with pytest.raises(ArgumentError, match="random_seed"):
            crosscheck(collection, random_seed=wrong)


def test_cells_of_which_summaries_are_left_are_refused():
    """They had ended in an AttributeError: the matrix of worlds and actions found it."""
    cells = Cells({"x": Collection(["no", "yes"], Tally(designs.warner(0.8), [0, 1], [30, 20]))}, by="g")
    with pytest.raises(ArgumentError, match=r"cross-check.*summary"):
        crosscheck(cells.summaries(np.array([0.5, 0.5])))


def test_the_page_of_cells_has_a_row_for_each_and_for_each_share(monkeypatch):
    monkeypatch.setattr(crosschecking, "fit", lambda cell, method="", exclude=(), **settings: fit(cell, **settings))
    cells = Cells({x: Collection(["no", "yes"], Tally(designs.warner(0.8), [0, 1], [30, 20])) for x in "ab"}, by="g")
    check = crosscheck(cells, "flat", random_seed=1)
    table, shares = show(check).tables
    assert [row[0] for row in table.rows] == ["a", "b"] and len(table.columns) == 7
    assert [row[:2] for row in shares.rows] == [(cell, x) for cell in "ab" for x in ("no", "yes")]
    assert [row[2] for row in shares.rows] == check["mean"].values.ravel().tolist()
    worst = np.abs(check["difference_sd"]).max("category").values
    assert [row[2] for row in table.rows] == worst.tolist()


TRIED = {
    "test": (Channel(validated=[[399, 19], [2, 103]]), [3280, 50]),
    "spinner": (designs.warner(Uncertain.counted([70, 30])), [60, 40]),
    "two shares": (designs.forced_response(Uncertain((75, 25)), Uncertain((2, 5))), [12, 9]),
}


@pytest.mark.parametrize("name", TRIED)
def test_the_sum_over_outcomes_of_an_uncertain_device_is_its_quadrature(name):
    device, counts = TRIED[name]
    data = with_outcomes(Collection(["no", "yes"], Tally(device, [0, 1], counts)))
    exact, summed = fit(data, "jeffreys", random_seed=1)["exact"], enumerate_outcomes(data, prior_for("jeffreys", data))
    np.testing.assert_allclose(summed.mean, exact["distribution_mean"], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(summed.variance), exact["distribution_sd"], rtol=1e-6)


def test_an_uncertain_device_beside_direct_questions_by_importance_weights():
    """Three categories, a known channel and one whose columns are uncertain: the sum against draws from the prior."""
    device, asked = Channel(validated=[[9, 1, 0], [2, 8, 1], [1, 1, 6]]), Channel(np.eye(3))
    data = Collection(list("abc"), [Tally(device, [0, 1, 2], [5, 2, 4], "a"), Tally(asked, [0, 2], [3, 1], "b")])
    wide = with_outcomes(data)
    summed = enumerate_outcomes(wide, prior_for("flat", wide))
    rng, size = np.random.default_rng(0), 200_000
    p, q = rng.dirichlet(np.ones(3), size), device.law.channel(device.law.sample(size, rng))
    weight = np.exp(np.log(np.einsum("nyx,nx->ny", q, p)) @ [5, 2, 4] + np.log(p) @ [3, 0, 1])
    weight /= weight.sum()
    error = np.sqrt(weight**2 @ (p - weight @ p) ** 2)
    assert (np.abs(summed.mean - weight @ p) < 4 * error).all()
    np.testing.assert_allclose(summed.variance, weight @ (p - weight @ p) ** 2, rtol=0.03)
    with pytest.raises(InfeasibleError):
        many = with_outcomes(Collection(list("abc"), Tally(device, [0, 1, 2], [500, 200, 400])))
        enumerate_outcomes(many, prior_for("flat", many))


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
@pytest.mark.parametrize(
    "way, cells",
    [
        pytest.param("weighted", False, marks=pytest.mark.calibrate),
        ("weighted", True),
        pytest.param("nuts", False, marks=pytest.mark.calibrate),
    ],
)
def test_an_uncertain_device_is_compared_and_estimates_are_said_to_be_at_its_means(way, cells, monkeypatch):
    monkeypatch.setattr(crosschecking, "fit", functools.partial(quick, fit, way))
    device, counts = TRIED["test"]
    data = Collection(["no", "yes"], Tally(device, [0, 1], counts))
    if cells:
        south = Collection(["no", "yes"], Tally(device, [0, 1], [950, 40]))
        data = Cells({"north": data, "south": south}, by="region")
    found = crosscheck(data, "flat", random_seed=1)
    assert not found.flagged, found.sentence
    assert {"enumeration", "convex", "mle"} <= set(found["estimator"].values)
    assert np.abs(found["away"].sel(estimator="enumeration")).max() < 1e-6
    assert not found["convex_astray"].any() and (np.abs(found["convex_excess"]) < 1e-6).all()
    assert "means" in " ".join(note.text for note in found.page().notes)
