"""Answers from a posterior against closed forms of the Dirichlet and a multinomial without privacy."""

import numpy as np
import pytest
import xarray as xr
from scipy import special, stats
from tabulated import each_row

from ldpbayes import Cells, Collection, Tally, answers, fit
from ldpbayes.errors import ArgumentError, DiagnosticWarning
from ldpbayes.estimators import Oracle
from ldpbayes.estimators.confidence import combined_interval, confidence_intervals
from ldpbayes.inference.diagnostics import Diagnostics, summarize
from ldpbayes.methods.exact import Exact
from ldpbayes.pages import show
from ldpbayes.priors import Dirichlet, as_prior
from ldpbayes.protocols import GRR, HadamardResponse, SubsetSelection, designs
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.building import write
from ldpbayes.result.facts import facts_of
from ldpbayes.result.fits import Fit

COUNTS = np.array([5, 9, 16, 30])
ALPHA = COUNTS + 0.5


@pytest.fixture(scope="module")
def direct_answers():
    """A result whose posterior is Dirichlet(α + counts): direct questioning, no privacy."""
    rng = np.random.default_rng(11)
    collection = Collection(list("abcd"), [Tally(designs.direct(4), np.arange(4), COUNTS)])
    draws = rng.dirichlet(ALPHA, size=(4, 5000))
    frequencies = np.broadcast_to(COUNTS / COUNTS.sum(), draws.shape)
    variables = {"distribution": (("category",), draws), "frequency": (("category",), frequencies)}
    summary = summarize(variables, Diagnostics("independent"), 0.95)
    prior = Dirichlet.jeffreys(4)
    return write(Fit(collection, prior, "test", {}, variables, summary=summary))


def test_simultaneous_band_covers_jointly_and_is_wider(direct_answers):
    band = answers.simultaneous_intervals(direct_answers, ci_prob=0.9)
    fresh = np.random.default_rng(5).dirichlet(ALPHA, size=40_000)
    inside = ((fresh >= band["lower"].values) & (fresh <= band["upper"].values)).all(axis=1).mean()
    assert abs(inside - 0.9) < 0.01
    single = stats.beta.ppf([[0.05], [0.95]], ALPHA, ALPHA.sum() - ALPHA)
    assert (band["lower"].values < single[0]).all() and (band["upper"].values > single[1]).all()


def grr_fit(a, seed, n=20_000, epsilon=3.0, **settings):
    """Return (result, exact moments) of GRR reports from Zipf's law over a categories."""
    rng, protocol = np.random.default_rng(a), GRR(a, epsilon=epsilon)
    reports, counts = protocol.simulate(rng.multinomial(n, 1 / np.arange(1, a + 1) / (1 / np.arange(1, a + 1)).sum()), rng)
    collection = Collection([f"c{x}" for x in range(a)], [Tally(protocol, reports, counts)])
    return fit(collection, "jeffreys", random_seed=seed, **settings), Exact().moments(collection, as_prior("jeffreys", a))


def inside(band, draws):
    return float(((draws >= band["lower"].values) & (draws <= band["upper"].values)).all(axis=1).mean())


def without_quantiles(tree):
    """Return the tree as a method without exact quantiles would give it."""
    tree["exact"] = xr.DataTree(tree["exact"].to_dataset().drop_vars("distribution_quantile"))
    return tree


@pytest.mark.calibrated("256")
@pytest.mark.parametrize("a", [8, 256])
def test_simultaneous_intervals_hold_out_of_sample(a):
    """Default draws, exact quantiles, against 40,000 fresh exact draws."""
    tree, moments = grr_fit(a, 1)
    fresh = moments.engine.draws(40_000, np.random.default_rng(17))[0]
    for ci_prob in (0.9, 0.95, 0.99):
        band = answers.simultaneous_intervals(tree, ci_prob=ci_prob)
        assert inside(band, fresh) == pytest.approx(ci_prob, abs=0.006)
        assert band.attrs["probability"] == pytest.approx(ci_prob, abs=1e-4)
        assert band.attrs["mcse"] < 0.002


@pytest.mark.calibrate
def test_bands_from_draws_alone_hold_out_of_sample():
    """Without exact quantiles the error is that of 4,000 draws: averaged over five fits it must vanish."""
    found = []
    for seed in range(5):
        tree, moments = grr_fit(64, seed, estimates=False)
        band = answers.simultaneous_intervals(without_quantiles(tree), ci_prob=0.9)
        found.append(inside(band, moments.engine.draws(10_000, np.random.default_rng(seed))[0]))
        assert abs(found[-1] - 0.9) < 4 * np.hypot(band.attrs["mcse"], 0.003)
    assert np.mean(found) == pytest.approx(0.9, abs=0.008)


@pytest.mark.calibrate
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("a", [8, 64, 256, 1000])
def test_simultaneous_intervals_full_table(a, exact):
    """Coverage minus ci_prob by 40,000 fresh exact draws, mean over four fits (largest of the four in brackets).

         | a | exact .9 | .95 | .99 | draws alone .9 | .95 | .99 |
         |---|---|---|---|---|---|---|
        |8|-0.0020 (0.0053)|-0.0007 (0.0013)|-0.0002 (0.0013)|-0.0002 (0.0071)|+0.0012 (0.0046)|+0.0013 (0.0029) |
    |64|+0.0009 (0.0025)|+0.0002 (0.0008)|+0.0001 (0.0007)|+0.0011 (0.0024)|+0.0023 (0.0049)|+0.0014 (0.0028) |
    |256|-0.0014 (0.0048)|-0.0007 (0.0013)|-0.0003 (0.0009)|-0.0030 (0.0087)|-0.0013 (0.0026)|+0.0009 (0.0017) |
    |1000|-0.0001 (0.0024)|-0.0000 (0.0016)|+0.0003 (0.0010)|-0.0014 (0.0085)|-0.0014 (0.0059)|+0.0008 (0.0018) |
    """
    gaps = []
    for seed in range(4):
        tree, moments = grr_fit(a, seed, estimates=False)
        tree = tree if exact else without_quantiles(tree)
        fresh = moments.engine.draws(40_000, np.random.default_rng(100 + seed))[0]
        gaps.append([inside(answers.simultaneous_intervals(tree, ci_prob=c), fresh) - c for c in (0.9, 0.95, 0.99)])
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.01
    if exact:
        assert np.abs(gaps).max() < 0.01


def test_simultaneous_intervals_of_known_frequencies():
    """Direct answers leave nothing unknown about F: the band is the point."""
    direct = fit(Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [70, 30])]), random_seed=1)
    band = answers.simultaneous_intervals(direct, target="frequency")
    assert band["lower"].values.tolist() == band["upper"].values.tolist()
    assert band["lower"].values == pytest.approx([0.7, 0.3])


def test_ties_share_the_last_places():
    """Three direct answers, one of each: every frequency is a third, and each is the largest with probability a third."""
    tree = fit(Collection(list("abc"), [Tally(designs.direct(3), [0, 1, 2], [1, 1, 1])]), random_seed=1)
    top = answers.probability_in_top(tree, 1, target="frequency")
    assert np.allclose(top["probability"].values, 1 / 3)
    top = answers.probability_in_top(tree, 2, target="frequency")
    assert np.allclose(top["probability"].values, 2 / 3)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda t: answers.contrast(t, 3, 3), "categories must.*3"),
        (lambda t: answers.contrast(t, ["a", 3], "b"), "labels.*got 3"),
        (lambda t: answers.contrast(t, "z", "a"), "labels.*'z'"),
        (lambda t: answers.contrast(t, ["a", "a"], "b"), "category once"),
        (lambda t: answers.entropy(t, cell="north"), "cell must.*left"),
        (lambda t: answers.poststratify(t, [1, 2]), "with cells"),
        (lambda t: answers.poststratify(t, [1, 2], count="n"), "left out.*not one of regress"),
    ],
)
def test_bad_labels_are_refused_in_a_sentence(direct_answers, call, words):
    with pytest.raises(ArgumentError, match=words):
        call(direct_answers)


def cells_result(n_cells, counts, alpha=0.5, seed=0):
    """Return a result with cells, each with direct answers in these counts: Dirichlet(α + counts) posteriors."""
    rng, counts = np.random.default_rng(seed), np.broadcast_to(counts, (n_cells, 2))
    draws = np.stack([rng.dirichlet(alpha + row, size=(4, 500)) for row in counts], axis=2)
    labels = [f"day {c}" for c in range(n_cells)]
    coords = {"cell": labels, "day": ("cell", np.arange(n_cells)), "category": ["no", "yes"]}
    dims = ("chain", "draw", "cell", "category")
    flat = draws.reshape(-1, n_cells, 2)
    summary = {name: (("target", "cell", "category"), f(flat)[None]) for name, f in (("mean", _mean), ("sd", _sd))}
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs={"sampling": "independent", "n_reports": int(counts.sum()), "prior": "jeffreys"}),
            "/posterior": xr.Dataset({"distribution": (dims, draws), "frequency": (dims, draws)}, coords),
            "/summary": xr.Dataset(summary, {"target": ["distribution"], "cell": labels, "category": ["no", "yes"]}),
            "/constant_data": xr.Dataset({"alpha": (("cell", "category"), np.full((n_cells, 2), alpha))}),
        }
    )


def _mean(flat):
    return flat.mean(axis=0)


def _sd(flat):
    return flat.std(axis=0, ddof=1)


def test_answers_ask_one_cell():
    tree = cells_result(3, [[90, 10], [50, 50], [10, 90]])
    assert float(answers.category_sum(tree, "yes", cell="day 2")["mean"]) == pytest.approx(0.9, abs=0.02)
    assert float(answers.category_sum(tree, "yes", cell=(0,))["mean"]) == pytest.approx(0.1, abs=0.02)
    delta = answers.contrast(tree, "yes", "yes", cell="day 2", other_cell="day 0")
    assert float(delta["mean"]) == pytest.approx(0.8, abs=0.03)
    with pytest.raises(ArgumentError, match=r"cell must.*3"):
        answers.entropy(tree)
    with pytest.raises(ArgumentError, match=r"cell must.*0"):
        answers.entropy(tree, cell="monday")


def test_answers_to_a_fit_of_cells():
    """Cells that were fitted: keys and labels name them, exact quantiles are those of the cell, and sizes weigh them."""
    surveys = {("north", 2020): [60, 40], ("south", 2021): [30, 70]}
    one = {key: Collection(["no", "yes"], [Tally(designs.warner(0.8), [0, 1], n)]) for key, n in surveys.items()}
    tree = fit(Cells(one, by=("region", "year")), random_seed=1)
    alone = fit(one["south", 2021], random_seed=2)
    expected = float(alone["summary"]["mean"].sel(target="distribution", category="yes"))
    for cell in (("south", 2021), "south, 2021"):
        found = answers.category_sum(tree, "yes", cell=cell)
        assert float(found["mean"]) == pytest.approx(expected, abs=5 * float(found["mcse"]))
    band = answers.simultaneous_intervals(tree, cell=("south", 2021))
    assert band["lower"].values == pytest.approx(answers.simultaneous_intervals(alone)["lower"].values, abs=0.01)
    parts = answers.interval_parts(tree, cell=("south", 2021))
    assert parts["privacy_share"].values == pytest.approx(answers.interval_parts(alone)["privacy_share"].values, rel=1e-6)
    mixed = answers.poststratify(tree, {("south", 2021): 1, ("north", 2020): 0})
    assert float(mixed["mean"].sel(category="yes")) == pytest.approx(expected, abs=0.01)


def test_poststratify_mixes_cells():
    tree = cells_result(3, [[90, 10], [50, 50], [10, 90]])
    found = answers.poststratify(tree, {"day 0": 1, "day 1": 2, "day 2": 1})
    assert found["mean"].values == pytest.approx([0.5, 0.5], abs=0.02)
    expected = np.sqrt(sum(w**2 * s * (1 - s) / 102 for w, s in ((0.25, 0.1), (0.5, 0.5), (0.25, 0.9))))
    assert found["sd"].values[0] == pytest.approx(expected, rel=0.1)
    assert np.abs(found["pull"].values).max() < 0.1
    with pytest.raises(ArgumentError, match=r"population.*'day 1'"):
        answers.poststratify(tree, {"day 0": 1, "day 2": 1})
    with pytest.raises(ArgumentError, match=r"population must.*3"):
        answers.poststratify(tree, [1, 2])


def test_sums_of_cells_without_draws_have_the_ends_of_the_sum():
    """A quarter of the population is known and moves the skewed rest: ends were half a sd off, and said .05."""
    direct_answers, counts, weights = (
        designs.direct(2),
        np.array([[220, 240], [12, 1], [40, 4]]),
        np.array([0.25, 0.6, 0.15]),
    )
    cells = {f"{k}": Collection(["no", "yes"], Tally(direct_answers, [0, 1], each)) for k, each in enumerate(counts)}
    found = answers.poststratify(fit(Cells(cells, by=["g"]), "jeffreys", draws=0), weights).sel(category="yes")
    rng = np.random.default_rng(1)
    whole = sum(w * rng.beta(yes + 0.5, no + 0.5, 1_000_000) for w, (no, yes) in zip(weights, counts, strict=True))
    for name, level in (("lower", 0.025), ("upper", 0.975)):
        off = abs(found[name].item() - np.quantile(whole, level))
        assert off < 0.03 * whole.std() and off < found[f"{name}_error"].item() + 0.01 * whole.std()


def test_poststratify_warns_where_independent_priors_add_up():
    """A hundred cells of ten answers, all of them no: every prior adds half a yes, a twentieth in the sum."""
    tree = cells_result(100, [10, 0])
    with pytest.warns(DiagnosticWarning, match=r"priors.*100 cells"):
        found = answers.poststratify(tree, np.ones(100))
    bias = found["mean"].values[1]  # the truth is 0
    assert found["pull"].values[1] * found["sd"].values[1] == pytest.approx(bias, rel=0.05)


def test_probability_in_top(direct_answers):
    top = answers.probability_in_top(direct_answers, 1)
    assert top["probability"].sum() == pytest.approx(1)
    # P(category d is the largest) by direct integration over its Gamma against those of the others.
    g = np.linspace(0, 120, 20_001)[1:]
    density = stats.gamma.pdf(g, ALPHA[3]) * stats.gamma.cdf(g[:, None], ALPHA[:3]).prod(axis=1)
    expected = np.trapezoid(density, g)
    assert abs(top["probability"].values[3] - expected) < 4 * top["mcse"].values[3] + 1e-4


def test_contrast_of_categories(direct_answers):
    delta = answers.contrast(direct_answers, "d", ["a", "b"])
    total = ALPHA.sum()
    mean = (ALPHA[3] - ALPHA[0] - ALPHA[1]) / total
    weights = np.array([-1, -1, 0, 1])
    covariance = (np.diag(ALPHA / total) - np.outer(ALPHA, ALPHA) / total**2) / (total + 1)
    assert abs(float(delta["mean"]) - mean) < 4 * float(delta["mcse"])
    assert float(delta["sd"]) == pytest.approx(np.sqrt(weights @ covariance @ weights), rel=0.03)
    assert 0.9 < float(delta["probability_positive"]) < 1
    turned = answers.contrast(direct_answers, ["a", "b"], "d")
    low, high = -float(turned["upper"]), -float(turned["lower"])
    assert "smaller" in turned.sentence and f"{low:.3f} to {high:.3f}" in turned.sentence


def test_contrast_of_a_collection_with_itself_is_centred(direct_answers):
    shuffled = direct_answers.copy(deep=True)
    values = shuffled["posterior"]["distribution"].values
    shuffled["posterior"]["distribution"].values[:] = values[::-1]
    delta = answers.contrast(direct_answers, "d", "d", other=shuffled)
    assert abs(float(delta["mean"])) < 1e-12
    assert abs(float(delta["probability_positive"]) - 0.5) < 0.02


def test_contrast_of_fits_from_one_seed():
    """One seed gives both fits the same random numbers; the difference must still vary as that of independent posteriors."""
    bits = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    tallies = [Tally(UnaryEncoding.optimized(3, 1.0), bits, counts) for counts in ([60, 40, 30, 20], [50, 45, 35, 20])]
    first, second = (Collection(list("abc"), [tally]) for tally in tallies)
    trees = [fit(c, method="quadrature", draws=n, random_seed=1) for c, n in ((first, 1000), (second, 400))]
    assert "a in the first result" in answers.contrast(trees[0], "a", "a", other=trees[1]).sentence
    for tree, name in zip(trees, ("day 2", "day 1"), strict=True):
        tree.attrs["collection"] = name
    said = answers.contrast(trees[0], "a", "a", other=trees[1])
    assert "a in day 2" in said.sentence and "a in day 1" in said.sentence
    for x in "abc":
        one, other = (tree["summary"].sel(target="distribution", category=x) for tree in trees)
        delta = answers.contrast(trees[0], x, x, other=trees[1])
        assert float(delta["sd"]) == pytest.approx(np.hypot(one["sd"], other["sd"]).item(), rel=0.06)
        assert abs(float(delta["mean"] - one["mean"] + other["mean"])) < 4 * float(delta["mcse"])


def test_errors_of_weighted_draws_count_effective_draws(direct_answers):
    weighted = direct_answers.copy()
    weighted["details"].attrs["effective_draws"] = 5000.0
    plain, worse = (answers.category_sum(tree, "d")["mcse"] for tree in (direct_answers, weighted))
    assert float(worse) == pytest.approx(2 * float(plain))
    paired = answers.contrast(direct_answers, "d", "d", other=weighted)
    assert float(paired["mcse"]) == pytest.approx(np.hypot(plain, worse).item())


def test_entropy_mean(direct_answers):
    found = answers.entropy(direct_answers)
    total = ALPHA.sum()
    expected = special.digamma(total + 1) - (ALPHA / total * special.digamma(ALPHA + 1)).sum()
    assert abs(float(found["mean"]) - expected) < 4 * float(found["mcse"])


def test_parts_of_the_interval():
    """Without privacy all the width is sampling; at small epsilon nearly all of it is privacy."""
    direct = fit(Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [70, 30])]), random_seed=1)
    assert answers.interval_parts(direct)["privacy_share"].max() < 1e-6
    noisy = fit(Collection(["no", "yes"], [Tally(designs.warner(0.55), [0, 1], [500, 500])]), random_seed=1)
    parts = answers.interval_parts(noisy)
    assert parts["privacy_share"].min() > 0.95
    assert np.allclose(parts["sampling_sd"] ** 2 + parts["privacy_sd"] ** 2, parts["sd"] ** 2)


@each_row(
    "call, words",
    [
        (lambda t: answers.probability_in_top(t, 0), "k must.*1"),
        (lambda t: answers.category_sum(t, ["a", "z"]), "got 'z'"),
        (lambda t: answers.category_sum(t, []), "got none"),
        (lambda t: answers.entropy(t, target="tallies"), "target must"),
        (lambda t: answers.simultaneous_intervals(t, ci_prob=1.0), "ci_prob must"),
    ],
)
def test_bad_questions(direct_answers, call, words):
    with pytest.raises(ArgumentError, match=words):
        call(direct_answers)


def test_worth_of_the_reports():
    """Direct answers are worth themselves; a Warner survey is worth n times the share that the oracle's variance gives."""
    direct = Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [700, 300])])
    assert facts_of(fit(direct, random_seed=1))["effective_direct_answers"] == pytest.approx(1000, rel=0.01)
    warner = Collection(["no", "yes"], [Tally(designs.warner(0.75), [0, 1], [5100, 4900])])
    tree = fit(warner, random_seed=1)
    assert facts_of(tree)["effective_direct_answers"] == pytest.approx(10_000 * 0.25 / (0.25 / 0.5**2), rel=0.01)
    assert "about P as 2,4" in facts_of(tree)["worth"]


def test_worth_compares_with_the_exact_floor():
    """The floor of 16 categories at ε = 1 is 51.91/n; the bound that stood here before was a tenth of it."""
    rng = np.random.default_rng(4)
    grr = GRR(16, epsilon=1.0)
    reports, counts = grr.simulate(rng.multinomial(40_000, np.full(16, 1 / 16)), rng)
    tree = fit(Collection([f"c{x}" for x in range(16)], [Tally(grr, reports, counts)]), random_seed=1)
    assert facts_of(tree)["bound_sd"] == pytest.approx(np.sqrt(51.91 / 40_000), rel=1e-3)
    assert "guarantee less" in facts_of(tree)["worth"]


def test_no_posterior_is_said_to_beat_the_floor():
    """900 to 100 under warner(.7): P lies near the edge, and the posterior is narrower than the worst case over P."""
    edge = Collection(["no", "yes"], [Tally(designs.warner(0.7), [0, 1], [900, 100])])
    tree = fit(edge, random_seed=1)
    assert np.isnan(facts_of(tree)["bound_sd"])
    assert "guarantee" not in facts_of(tree)["worth"]


@pytest.mark.parametrize("alpha", [0.5, 100.0])
def test_worth_does_not_count_the_prior(alpha):
    """Direct answers are worth exactly themselves, and reports at a tiny epsilon nothing, whatever the prior."""
    direct = Collection(["no", "yes"], [Tally(designs.direct(), [0, 1], [70, 30])])
    assert facts_of(fit(direct, alpha, random_seed=1))["effective_direct_answers"] == pytest.approx(100, rel=1e-6)
    noise = Collection(["no", "yes"], [Tally(designs.warner(0.5025), [0, 1], [50, 50])])
    assert facts_of(fit(noise, alpha, random_seed=1))["effective_direct_answers"] < 0.1


def test_worth_states_where_the_prior_outweighs_the_reports():
    few = Collection([f"c{x}" for x in range(50)], [Tally(GRR(50, epsilon=0.5), np.arange(50), np.full(50, 4))])
    moved = "with twice its weight the mean or an end of all 50 shares would move"
    assert moved in fit(few, "jeffreys", random_seed=1).attrs["decides"]
    many = Collection(["no", "yes"], [Tally(designs.warner(0.75), [0, 1], [5000, 5000])])
    assert fit(many, random_seed=1).attrs["decides"] == ""


def test_ends_have_the_error_of_a_quantile(direct_answers):
    """√(q(1 − q)/S) over the density at the end, of a sum whose posterior is a Beta."""
    found = answers.category_sum(direct_answers, ["a", "d"])
    law = stats.beta(ALPHA[0] + ALPHA[3], ALPHA[1] + ALPHA[2])
    for name, level in (("lower", 0.025), ("upper", 0.975)):
        expected = np.sqrt(level * (1 - level) / 20_000) / law.pdf(law.ppf(level))
        assert 0.55 * expected < found[f"{name}_error"] < 1.6 * expected  # of 44 draws about the end
        assert abs(found[name] - law.ppf(level)) < 4 * expected


def test_sums_and_differences_have_confidence_intervals():
    """Direct answers: the sum has Clopper and Pearson's interval, the difference that of its score."""
    collection = Collection(list("abcd"), [Tally(designs.direct(4), np.arange(4), COUNTS)])
    tree = fit(collection, random_seed=1, draws=250)
    found = answers.category_sum(tree, ["a", "d"], collection=collection)
    held, n = COUNTS[0] + COUNTS[3], COUNTS.sum()
    assert found["confidence_lower"] == pytest.approx(stats.beta.ppf(0.025, held, n - held + 1))
    assert found["confidence_upper"] == pytest.approx(stats.beta.ppf(0.975, held + 1, n - held))
    own = fit(collection.tallies[0], random_seed=1, draws=250)
    alone = answers.category_sum(own, ["0", "3"], collection=collection.tallies[0])
    assert alone["confidence_upper"] == found["confidence_upper"]
    difference = answers.contrast(tree, "d", "a", collection=collection)
    estimate, total = (COUNTS[3] - COUNTS[0]) / n, (COUNTS[3] + COUNTS[0]) / n
    for name in ("lower", "upper"):
        end = difference[f"confidence_{name}"].item()
        assert n * (estimate - end) ** 2 == pytest.approx(stats.chi2.ppf(0.95, 1) * (total - end**2), rel=1e-6)
    with pytest.raises(ArgumentError, match="no category"):
        answers.contrast(tree, ["a", "b"], "b", collection=collection)
    with pytest.raises(ArgumentError, match=r"left out.*F"):
        answers.category_sum(tree, "a", target="frequency", collection=collection)


@pytest.mark.parametrize("make", [UnaryEncoding.optimized, SubsetSelection, LocalHashing, HadamardResponse])
def test_the_variance_of_a_sum_is_that_of_the_decoder(make):
    """A single category: score and sample variances against the decoder's exact variance at the truth, 40,000 reports."""
    a, n, rng = 6, 40_000, np.random.default_rng(1)
    p, protocol = np.array([0.4, 0.2, 0.15, 0.1, 0.1, 0.05]), make(6, 1.0)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
    found = combined_interval(tally, [0], ())
    sd = np.sqrt(protocol.decoder().variance(p, n, "distribution")[0])
    assert found.upper - found.lower == pytest.approx(2 * 1.96 * sd, rel=0.02)
    assert abs(found.estimate - Oracle()(tally).distribution[0]) < 1e-9
    several = combined_interval(
        Collection(list("abcdef"), [tally, Tally(GRR(a, 1.0), np.arange(a), np.full(a, 50), name="x")]), [0]
    )
    assert several.method == "estimated variance" and several.upper - several.lower < 1.001 * (found.upper - found.lower)


@pytest.mark.parametrize(
    "design", [designs.triangular(0.25), designs.unrelated_question(0.7, 0.25), designs.kuk(0.7, 0.4, 2)]
)
def test_one_category_against_the_others_has_the_interval_of_the_table_and_covers(design):
    """Normal intervals held a share of .99 in 20 % of surveys of thirty through the triangular model, and were points."""
    rng, p, held = np.random.default_rng(1), 0.99, []
    for counts in np.unique(rng.multinomial(30, design.channel() @ [1 - p, p], 400), axis=0):
        tally = Tally(design, range(counts.size), counts)
        (known,) = confidence_intervals([tally])
        share, apart = combined_interval(tally, [1]), combined_interval(tally, [1], [0])
        assert (share.lower, share.upper) == pytest.approx((known.lower[0, 1], known.upper[0, 1]))
        assert (apart.lower, apart.upper) == pytest.approx((2 * share.lower - 1, 2 * share.upper - 1))
        assert share.lower < share.upper
        held.append((share.lower <= p <= share.upper, stats.multinomial.pmf(counts, 30, design.channel() @ [1 - p, p])))
    inside, chance = np.transpose(held)
    assert inside @ chance > 0.95 * chance.sum()


def test_no_interval_of_a_sum_is_a_point_where_all_reports_are_alike():
    """The sample variance was 0, and thirty reports were said to prove shares of 0 and 1: the device's own is not."""
    unequal = Tally(designs.forced_response(0.75, [1, 2, 3, 4]), [0], [30])
    two = Collection(list("abcdef"), [Tally(GRR(6, level), [0], [30], name=str(level)) for level in (1.0, 2.0)])
    for found in (
        combined_interval(unequal, [1, 2]),
        combined_interval(unequal, [0, 1]),
        combined_interval(unequal, [0], [1]),
        combined_interval(two, [0]),
        combined_interval(two, [1, 2]),
    ):
        assert 0.03 < found.upper - found.lower < 0.15


@pytest.mark.calibrate
def test_intervals_of_the_largest_are_at_their_level():
    counts = np.array([400, 260, 150, *np.arange(60, 43, -1)])
    collection = Collection([f"c{x}" for x in range(20)], Tally(GRR(20, 2.0), np.arange(20), counts))
    tree = fit(collection, random_seed=1, draws=250)
    found, every = answers.largest(tree, 2), answers.largest(tree, 20, simultaneous=True)
    assert found["category"].values.tolist() == ["c0", "c1"] and found.attrs["level"] == pytest.approx(1 - 0.05 * 2 / 20)
    for answer, level in ((found, 0.995), (every, 1 - 0.05 / 20)):
        known = confidence_intervals([collection], level)[0]
        np.testing.assert_allclose(answer["upper"], known.upper[0][: answer.sizes["category"]], atol=1e-9)
    assert "2 shown" in found.attrs["sentence"] and "cover all 20" in every.attrs["sentence"]
    table = show(tree, top=2).tables[0]
    column = next(i for i, one in enumerate(table.columns) if one.key == "distribution_confidence")
    assert table.rows[0][column][1] == pytest.approx(float(found["upper"][0])) and len(table.rows) == 2
    assert "2 largest" in table.columns[column].means
    assert table.complete().rows[0][column][1] < table.rows[0][column][1]
    with pytest.raises(ArgumentError, match="k must be"):
        answers.largest(tree, 21)
    with pytest.raises(ArgumentError, match="confidence intervals"):
        answers.largest(fit(collection, random_seed=1, draws=250, estimates=False), 2)


def test_profile_intervals_are_widened_to_another_level():
    """Within a tenth of those that are computed at that level, for two channels."""
    p, rng = np.array([0.5, 0.3, 0.1, 0.06, 0.04]), np.random.default_rng(1)
    tallies = [
        Tally(one, *one.simulate(rng.multinomial(3000, p), rng), name=str(one.epsilon)) for one in (GRR(5, 1.0), GRR(5, 2.0))
    ]
    collection = Collection(list("abcde"), tallies)
    tree = fit(collection, random_seed=1, draws=250)
    found, known = answers.largest(tree, 2), confidence_intervals([collection], 0.98)[0]
    width = (known.upper - known.lower)[0][:2]
    assert (np.abs(found["lower"].values - known.lower[0][:2]) < 0.1 * width).all()
    assert (np.abs(found["upper"].values - known.upper[0][:2]) < 0.1 * width).all()


def test_an_answer_about_a_cell_names_it():
    days = {"2026-11-01": [30, 20], "11-14": [20, 30]}
    survey = {day: Collection(("a", "b"), Tally(GRR(2, epsilon=1.0), [0, 1], counts)) for day, counts in days.items()}
    fitted = fit(Cells(survey, by="day"), draws=100, random_seed=1)
    assert answers.contrast(fitted, "a", "b", cell="11-14").attrs["question"] == "a − b in 11-14"
    between = answers.contrast(fitted, "a", "a", cell="11-14", other_cell="2026-11-01")
    assert between.attrs["question"] == "a in 11-14 − a in 2026-11-01"
    assert answers.category_sum(fitted, ["a"], cell="11-14").attrs["question"] == "a in 11-14"
    assert "2026-11-01 (95 %" in str(fitted) and "11–14 (" in str(fitted)  # a date, and a range of ages
