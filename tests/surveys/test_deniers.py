"""Deniers: direct questions beside a device, by quadrature, by weighted draws and by a grid; their test, files and pages."""

import json

import numpy as np
import pytest
from commands import run
from samples import weighted
from scipy.special import xlogy
from scipy.stats import beta, chi2

from ldpbayes import GRR, Cells, Collection, Tally, check, fit, load, read, regress, show, write
from ldpbayes.answers import largest
from ldpbayes.collections import Derived
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError, RankDeficientWarning
from ldpbayes.fitness.nested import boundary_weights, compliance_test
from ldpbayes.priors import Compliance, Denial, Tree, prior_for
from ldpbayes.protocols import ListExperiment, Noncompliance, crosswise, direct, make_protocol, warner
from ldpbayes.regression import denying, fitting
from ldpbayes.regression.formula import Formula
from ldpbayes.result import extended_draws
from ldpbayes.result.facts import facts_of
from ldpbayes.robust import sensitivity

pytestmark = pytest.mark.long

#: Spec 9.1: crosswise with p = .25, 190 of 400 "same"; direct, 100 of 400 "yes".
DEVICE, DIRECT = np.array([210, 190]), np.array([300, 100])
#: Mean, sd and 95 % ends of P, δ and the share who deny, by a grid over p and δ.
CHECK = {
    "yes": (0.545640, 0.050248, 0.446967, 0.643838),
    "denial": (0.535531, 0.059519, 0.406371, 0.639475),
    "deniers": (0.294396, 0.054696, 0.186852, 0.401175),
}


def survey(device=DEVICE, asked=DIRECT, **more):
    tallies = [Tally(crosswise(0.25), [0, 1], device, "device"), Tally(direct(), [0, 1], asked, "direct")]
    return Collection(["no", "yes"], tallies, **more)


def denied(*counts, **more):
    return survey(*counts, **more).with_deniers(of="yes", say="no", channel="direct")


def three(rng, delta=(0.4, 0.2), n=2000, p=(0.5, 0.3, 0.2), device=None):
    """Return a survey of three answers, two of which are denied, half of it asked directly."""
    device, p = device or GRR(3, 1.5), np.asarray(p)
    said = np.array([p[0] + p[1:] @ delta, *(p[1:] * (1 - np.array(delta)))])
    first = rng.multinomial(n, device.channel() @ p)
    tallies = [
        Tally(device, device.all_reports(), first, "device"),
        Tally(direct(3), [0, 1, 2], rng.multinomial(n, said), "direct"),
    ]
    return Collection(["a", "b", "c"], tallies)


def grid(device, asked, b=1.0, c=1.0, size=1200):
    """Return (p, δ, weights) of the posterior on a grid: Jeffreys for p, by its quantiles, and Beta(b, c) for δ, by its."""
    even = (np.arange(size) + 0.5) / size
    p, delta = beta(0.5, 0.5).ppf(even)[:, None], beta(b, c).ppf(even)[None, :]
    same, yes = 0.75 - 0.5 * p, p * (1 - delta)
    log = xlogy(device[0], 1 - same) + xlogy(device[1], same) + xlogy(asked[0], 1 - yes) + xlogy(asked[1], yes)
    weight = np.exp(log - log.max())
    return p + 0 * delta, delta + 0 * p, weight / weight.sum()


def numbers(tree, name):
    """Return mean, sd and ends of a category or of a derived quantity in a summary."""
    summary = tree["summary"]
    if name in summary["quantity"].values:
        return [float(summary[f"derived_{key}"].sel(quantity=name)) for key in ("mean", "sd", "lower", "upper")]
    at = {"target": "distribution", "category": name}
    return [float(summary[key].sel(at)) for key in ("mean", "sd", "lower", "upper")]


@pytest.fixture(scope="module")
def fitted():
    return fit(denied(), random_seed=1)


def test_the_check_of_the_specification(fitted):
    tree = fitted
    assert tree.attrs["method"] == "quadrature" and tree.attrs["converged"]
    for name, known in CHECK.items():
        found = numbers(tree, name)
        assert np.abs(np.subtract(found, known)).max() < 1e-3 * known[1], (name, found)
    posterior = tree["posterior"]
    draws = posterior["distribution"].values[..., 1].ravel(), posterior["denial"].values.ravel()
    for values, name in zip((*draws, draws[0] * draws[1]), CHECK, strict=True):
        mean, sd = CHECK[name][:2]
        assert abs(values.mean() - mean) < 4 * sd / np.sqrt(values.size) and values.std() == pytest.approx(sd, rel=0.06)
    np.testing.assert_allclose(posterior["deniers"].values.ravel(), draws[0] * draws[1])
    # F, of all these respondents: those asked directly who say yes are known to be yes.
    frequency = posterior["frequency"].values[..., 1]
    assert frequency.min() >= 100 / 800 and abs(frequency.mean() - 0.5455) < 0.003


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "device, asked, prior", [((30, 10), (12, 0), (1, 1)), ((9, 14), (20, 3), (2, 18)), ((2100, 1900), (1600, 400), (1, 3))]
)
def test_quadrature_weighted_draws_and_a_grid_agree(device, asked, prior):
    """At the boundary of P and of δ, under other priors of δ, and the evidence too."""
    collection, belief = denied(device, asked), Denial(denial=prior)
    p, delta, weight = grid(device, asked, *prior)
    exact = fit(collection, belief, method="quadrature", draws=200, random_seed=1, estimates=False)
    rough = fit(collection, belief, method="weighted", random_seed=1, estimates=False)
    for name, values in (("yes", p), ("denial", delta), ("deniers", p * delta)):
        known = weighted(values, weight)
        error = np.abs(np.subtract(numbers(exact, name), known)) / known[1]
        assert error[:2].max() < 3e-3 and error[2:].max() < 0.1, name  # the grid's ends lie between its points
        assert np.abs(np.subtract(numbers(rough, name)[:2], known[:2])).max() < 0.12 * known[1], name
    assert float(exact["exact"]["log_evidence"]) == pytest.approx(facts_of(rough)["log_evidence"], abs=0.05)


def three_answers(seen, said, eps, denied, nodes=50, inner=30):
    """Return means and sds of P of three answers and of δ: Gauss rules over P, Jeffreys, and over every δ, uniform.

    Sticks of P are squares of sines, and the rules cover what is within 22 nats of the maximum.
    """
    hit, other = np.exp(eps) / (np.exp(eps) + 2), 1 / (np.exp(eps) + 2)
    windows = [(0.0, 1.0)] * (2 + len(denied))
    for sizes in [[40, 40, *[24] * len(denied)]] * 3 + [[nodes, nodes, *[inner] * len(denied)]]:
        rules = [np.polynomial.legendre.leggauss(size) for size in sizes]
        axes = [(a + b) / 2 + (b - a) / 2 * rule[0] for (a, b), rule in zip(windows, rules, strict=True)]
        u, v, *delta = np.meshgrid(*axes, indexing="ij", sparse=True)
        first, second = np.sin(np.pi / 2 * u) ** 2, np.sin(np.pi / 2 * v) ** 2
        p = [first + 0 * v, (1 - first) * second, (1 - first) * (1 - second)]
        log, told = np.log(np.cos(np.pi / 2 * u)), list(p)
        for x, share in zip(denied, delta, strict=True):
            told[0], told[x] = told[0] + p[x] * share, p[x] * (1 - share)
        for x in range(3):
            log = log + xlogy(seen[x], other + (hit - other) * p[x]) + xlogy(said[x], told[x])
        weight = np.exp(log - log.max())
        for k, rule in enumerate(rules):
            weight = weight * rule[1].reshape([-1 if i == k else 1 for i in range(log.ndim)])
            best = np.flatnonzero(log.max(axis=tuple(i for i in range(log.ndim) if i != k)) > log.max() - 22)
            low, high = best[0] - 1, best[-1] + 1
            windows[k] = (
                axes[k][low] if low >= 0 else windows[k][0],
                axes[k][high] if high < axes[k].size else windows[k][1],
            )
    weight = weight / weight.sum()
    means = np.array([(weight * value).sum() for value in (*p, *delta)])
    squares = [(weight * (value - mean) ** 2).sum() for value, mean in zip((*p, *delta), means, strict=True)]
    return means, np.sqrt(squares)


@pytest.mark.parametrize("denied", [pytest.param((1,), marks=pytest.mark.calibrate), (1, 2)])
def test_three_answers_are_the_sum_over_a_grid(denied):
    """Exact where one of them may be denied; where two may, weighted draws with the error that they state."""
    seen, said = np.array([175, 121, 104]), np.array([258, 69, 73])
    tallies = [Tally(GRR(3, 1.5), range(3), seen, "device"), Tally(direct(3), range(3), said, "direct")]
    collection = Collection(["a", "b", "c"], tallies).with_deniers(["abc"[x] for x in denied], "a", "direct")
    mean, sd = three_answers(seen, said, 1.5, denied)
    tree = fit(collection, random_seed=1, draws=2500, estimates=False)
    summary, several = tree["summary"].sel(target="distribution"), len(denied) > 1
    assert tree.attrs["method"] == ("weighted" if several else "quadrature") and tree.attrs["converged"]
    found, spread, error = (
        np.concatenate([summary[key].values, summary[f"derived_{key}"].values[: len(denied)]])
        for key in ("mean", "sd", "mcse")
    )
    assert (np.abs(found - mean) <= 4 * error + 1e-6 * sd).all() and (error <= 0.012 * sd).all()
    np.testing.assert_allclose(spread, sd, rtol=0.03 if several else 1e-6)


@pytest.mark.parametrize(
    "asked, said, n, same", [(300, 130, 40_000, 6_000), pytest.param(200_000, 80_000, 40, 6, marks=pytest.mark.calibrate)]
)
def test_ends_where_the_reports_of_one_half_pin_a_product(asked, said, n, same):
    """Given δ almost nothing of P, or of the share who deny, is open: nodes of δ alone put ends off by .06 sd."""
    device, honest = (
        Tally(crosswise(0.75), [0, 1], [asked - said, said], "a"),
        Tally(direct(), [0, 1], [n - same, same], "b"),
    )
    tree = fit(Collection(["no", "yes"], [device, honest]).with_deniers("yes", "no", "b"), draws=0, estimates=False)
    x, p = (  # the share who admit, and P
        np.linspace(max(at - 9 * sd, 0), min(at + 9 * sd, 1), 1602)[1:-1]
        for at, sd in ((same / n, np.sqrt(same) / n), (2 * said / asked - 0.5, 1 / np.sqrt(asked)))
    )
    shown = 0.25 + 0.5 * p
    log = (said * np.log(shown) + (asked - said) * np.log1p(-shown) - 0.5 * np.log1p(-p) - 1.5 * np.log(p))[:, None]
    log = np.where(x < p[:, None], log + same * np.log(x) + (n - same) * np.log1p(-x), -np.inf)
    weight = np.exp(log - log.max()).ravel()
    summary = tree["summary"].to_dataset().sel(target="distribution", category="yes", quantity="deniers")
    for name, values in (("", np.repeat(p, x.size)), ("derived_", np.subtract.outer(p, x).ravel())):
        order = np.argsort(values)
        below = np.cumsum(weight[order]) / weight.sum()
        lower, upper = values[order][np.searchsorted(below, [0.025, 0.975])]
        allowed = 4e-3 * float(summary[f"{name}sd"])
        assert abs(summary[f"{name}lower"] - lower) < allowed and abs(summary[f"{name}upper"] - upper) < allowed


@pytest.mark.calibrate
@pytest.mark.parametrize("same, said", [(10_228, 0), (10_190, 15)])
def test_a_weak_device_beside_many_direct_answers(same, said):
    """δ is then a ridge that 40 nodes do not resolve; the weighted draws that took over had ends off by up to .39 sd."""
    device = Tally(crosswise(0.49), [0, 1], [20_000 - same, same], "a")
    asked = Tally(direct(), [0, 1], [10_000 - said, said], "b")
    tree = fit(Collection(["no", "yes"], [device, asked]).with_deniers("yes", "no", "b"), draws=0, estimates=False)
    z = np.linspace(-40, 30, 1401)  # of the logits of P and of δ
    (yes, no), (deny, admit) = ((-np.logaddexp(0, -t), -np.logaddexp(0, t)) for t in (z, z))
    log = (same * np.log(0.49 + 0.02 * np.exp(no)) + (20_000 - same) * np.log(0.51 - 0.02 * np.exp(no)) + (yes + no) / 2)[
        :, None
    ]
    log = log + deny + admit + (10_000 - said) * np.logaddexp(no[:, None], yes[:, None] + deny)
    log += said * (yes[:, None] + admit)
    weight = np.exp(log - log.max())
    for name, values, margin in (("yes", np.exp(yes), weight.sum(1)), ("denial", np.exp(deny), weight.sum(0))):
        below, mean = (np.cumsum(margin) - margin / 2) / margin.sum(), np.average(values, weights=margin)
        sd = np.sqrt(np.average((values - mean) ** 2, weights=margin))
        ends = [1 / (1 + np.exp(-np.interp(level, below, z))) for level in (0.025, 0.975)]
        assert np.abs(np.subtract(numbers(tree, name), (mean, sd, *ends))).max() < 0.01 * sd, name


@pytest.mark.parametrize(
    "prob", [pytest.param(0.5, marks=pytest.mark.calibrate), 0.95, pytest.param(0.999, marks=pytest.mark.calibrate)]
)
def test_far_ends_are_moved_no_further_than_the_density_says(prob):
    """From an end in a flat tail a step by a secant led to 1, as the lower end of the share who deny."""
    tallies = [Tally(GRR(2, 3.0), [0, 1], [0, 10], "a"), Tally(direct(), [0, 1], [0, 10], "b")]
    data = Collection(["no", "yes"], tallies).with_deniers("yes", "no", "b")
    fitted = fit(data, Denial("jeffreys", denial=(1.5, 3.0)), draws=0, ci_prob=prob, random_seed=1)
    summary = fitted["summary"].to_dataset()
    mean = summary["derived_mean"]
    assert (summary["derived_lower"] < mean).all() and (mean < summary["derived_upper"]).all()


def test_a_derived_quantity_counts_those_who_deny():
    collection = denied(derived=[Derived("share of yes", ["yes"])])
    tree = fit(collection, method="weighted", draws=250, random_seed=1, estimates=False)
    np.testing.assert_allclose(tree["posterior"]["share of yes"].values, tree["posterior"]["distribution"].values[..., 1])
    # p′ of the draws has those who deny apart again.
    p = extended_draws(tree, collection)
    np.testing.assert_allclose(p[:, 2], tree["posterior"]["deniers"].values.ravel())
    np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.calibrate
def test_two_categories_that_are_denied():
    rng = np.random.default_rng(5)
    collection = three(rng).with_deniers(of=["b", "c"], say="a", channel="direct")
    assert collection.denied == ("b", "c") and collection.answers == ("a", "b", "c")
    tree = fit(collection, random_seed=1)
    for name, truth in (("b", 0.3), ("c", 0.2), ("denial, b", 0.4), ("denial, c", 0.2), ("deniers", 0.16)):
        mean, sd, *_ = numbers(tree, name)
        assert abs(mean - truth) < 3.5 * sd, name
    mle = tree["estimate"]["value"].sel(estimator="mle").values
    assert np.abs(mle - tree["summary"]["mean"].sel(target="distribution").values).max() < 0.02


@pytest.mark.calibrate
def test_a_wide_alphabet_beside_deniers():
    rng = np.random.default_rng(5)
    three(rng)  # the stream of numbers goes on behind those of three categories
    tree = fit(of_thirty(rng), random_seed=2, estimates=False)  # weights are near their limit: some seeds end with chains
    mean, sd, *_ = numbers(tree, "denial")
    assert tree.attrs["converged"] and abs(mean - 0.5) < 4 * sd


def of_thirty(rng):
    """Thirty categories, equally likely; half of those with the second one name the first where they are asked directly."""
    wide, a = GRR(30, 2.0), 30
    p = np.full(a, 1 / a)
    tallies = [
        Tally(wide, np.arange(a), rng.multinomial(4000, p), "device"),
        Tally(direct(a), np.arange(a), rng.multinomial(4000, np.r_[1.5, 0.5, p[2:] * a] / a), "direct"),
    ]
    return Collection([f"x{k}" for k in range(a)], tallies).with_deniers(of="x1", say="x0", channel="direct")


@pytest.mark.calibrate
def test_chains_of_nuts_that_are_short_of_draws_go_on():
    """A thousand draws of each chain were worth 350 for the share of deniers, and the fit ended untrusted."""
    tree = fit(of_thirty(np.random.default_rng(7)), method="nuts", random_seed=5, estimates=False)
    assert tree.attrs["converged"] and facts_of(tree)["thinned"] >= 2
    assert tree["posterior"].sizes["draw"] == 1000 and tree["sample_stats"].sizes["draw"] == 1000


# ---- identification ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "device, several, channel, identified",
    [
        ("grr", True, "direct", True),
        ("grr", True, "device", True),
        ("grr", True, ("device", "direct"), False),
        ("merged", False, "direct", True),
        ("merged", True, "direct", False),
    ],
)
def test_identified_where_the_stack_gains_a_rank_for_each_denied_category(device, several, channel, identified):
    """A device that cannot tell b from c leaves both δ open; asked alone, that of b is seen where c is never denied."""
    merged = make_protocol("channel", ["a", "b", "c"], {"matrix": [[0.7, 0.2, 0.2], [0.3, 0.8, 0.8]]})
    protocol = GRR(3, 1.5) if device == "grr" else merged
    plain = three(np.random.default_rng(2), device=protocol)
    collection = plain.with_deniers(of=["b", "c"] if several else "b", say="a", channel=channel)
    stacked = np.concatenate([tally.protocol.channel() for tally in collection.tallies])
    plain_rank = np.linalg.matrix_rank(stacked[:, :3], tol=1e-10)
    gained = np.linalg.matrix_rank(stacked, tol=1e-10) - plain_rank
    found = collection.noncompliance()
    assert found.identified == identified == (gained == len(collection.denied))
    assert np.isfinite(found.sd) == identified
    if not identified:
        with pytest.raises(InfeasibleError, match="No number"), pytest.warns(RankDeficientWarning):
            fit(collection)


def test_a_prior_decides_where_nothing_is_identified():
    alone = Collection(["no", "yes"], Tally(direct(), [0, 1], DIRECT, "direct")).with_deniers("yes", "no", "direct")
    with pytest.warns(RankDeficientWarning):
        tree = fit(alone, Denial(denial=(2, 18)), method="weighted", random_seed=1)
    assert "not decide" in facts_of(tree)["deniers"] and tree.attrs["prior_decides"]
    assert "estimate" not in tree.children and "honesty" not in facts_of(tree)


# ---- the test of no denial -----------------------------------------------------------------------------------------
def test_weights_of_the_boundary_against_simulated_projections():
    """With two shares they are known; with three, by the signs of all subsets of a normal's projections."""
    np.testing.assert_allclose(boundary_weights(np.diag([1.0, 4.0])), [0.25, 0.5, 0.25])
    rho = np.array([[1.0, -0.6], [-0.6, 1.0]])
    assert boundary_weights(rho)[2] == pytest.approx(0.25 - np.arcsin(0.6) / (2 * np.pi))
    np.testing.assert_allclose(boundary_weights(np.eye(3)), np.array([1, 3, 3, 1]) / 8, atol=0.03)
    np.testing.assert_allclose(boundary_weights(np.full((2, 2), np.nan)), [0, 0.5, 0.5])


def rejections(replications, seed, device=None):
    """Return how often no denial is rejected at 5 % where it is true, by the weights and by the law of one share."""
    rng, own, one = np.random.default_rng(seed), 0, 0
    for _ in range(replications):
        test = compliance_test(three(rng, (0.0, 0.0), 800, device=device).with_deniers(["b", "c"], "a", "direct"))
        own += test.p_value < 0.05
        one += chi2.sf(test.statistic, 1) / 2 < 0.05
    return own, one


def test_size_of_the_test_with_two_denied_categories():
    own, one = rejections(40, 3)
    assert own <= 8 and one >= own  # 2 are expected, and 3 by the law of one


@pytest.mark.calibrate
def test_size_over_1000_samples():
    own, one = rejections(1000, 4)
    assert (
        30 <= own <= 71 < one + 20
    )  # 50 are expected, three standard deviations to either side; about 80 by the law of one


@pytest.mark.parametrize("surveys", [20, pytest.param(100, marks=pytest.mark.calibrate)])
def test_deniers_are_no_misfit(surveys):
    """The model that is tested has them: that some deny is an answer. Searched: one survey, cells, fit of cells, pages."""
    rng, flagged, some = np.random.default_rng(7), {"survey": 0, "cells": 0}, 0
    for _ in range(surveys):
        pair = [
            denied(rng.multinomial(400, [0.475, 0.525]), rng.multinomial(400, [0.75, 0.25])) for _ in range(2)
        ]  # 45 % are "yes", of whom four in nine deny
        found = check(pair[0])
        flagged["survey"] += found.flagged
        some += found.compliance.p_value <= 0.05
        flagged["cells"] += check(Cells(dict(zip("ns", pair, strict=True)), by="region")).flagged
    expected = 0.05 * surveys
    assert max(flagged.values()) <= expected + 3 * np.sqrt(0.95 * expected) and some > 0.9 * surveys


def test_cells_alike_with_deniers_fit_and_say_so():
    one = denied(np.array([600, 400]), np.array([850, 150]))
    cells = Cells({"n": one, "s": one}, by="region")
    found, tree = check(cells), fit(cells, method="weighted", random_seed=1, draws=200)
    assert not found.flagged and not tree.attrs["fitness_flagged"]
    assert found.compliance == facts_of(tree)["honesty"] == show(found).notes[0].text
    assert found.compliance.startswith("Some deny in 2 of 2 cells: n, s (p = ")
    assert "do not fit" not in str(tree) and found.compliance in str(tree)


def test_check_and_page_say_who_denies(fitted, tmp_path):
    tree = fitted
    found = check(denied())
    assert not found.flagged and found.compliance.p_value < 1e-6
    assert found.compliance.sentence().startswith("Some deny: p = ")
    assert found.compliance.sentence() in [note.text for note in show(found).notes]
    assert check(denied(DEVICE, np.array([180, 220]))).compliance.sentence().startswith("The reports do not show that some")
    page = show(tree, collection=denied())
    text = " ".join(note.text for note in page.notes)
    assert "δ of 'yes'" in text and "denial, δ = 0" in text
    predictive = next(figure for figure in page.figures if figure.name == "predictive")
    assert predictive.draw().axes  # the reports of those who deny are predicted as they are said
    page.save(tmp_path / "page.md")
    assert "denial" in (tmp_path / "page.md").read_text()
    tree.save(tmp_path / "x.nc")
    assert numbers(load(tmp_path / "x.nc"), "denial") == numbers(tree, "denial")
    assert facts_of(tree)["honesty_p"] < 1e-6 and facts_of(tree)["log_bayes_factor_deniers"] > 10


# ---- doors ---------------------------------------------------------------------------------------------------------
def test_files_and_the_command_line(tmp_path, capsys):
    collection = denied(derived=[Derived("share of yes", ["yes"])])
    write(collection, tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text()
    assert "[deniers]" in text and "noncompliance" not in text
    assert read(tmp_path / "s.toml") == collection
    (tmp_path / "s.toml").write_text(text.replace('say = "no"', 'say = "maybe"'))
    with pytest.raises(Exception, match="say must"):
        read(tmp_path / "s.toml")
    write(survey(), tmp_path / "plain.toml")
    stated = [f"--set=deniers.{one}" for one in ("of=yes", "say=no", "channel=direct")]
    asked = (*stated, "--deniers-prior=1,3", "--method=weighted", "--draws=100")
    status, out, _ = run(capsys, "fit", tmp_path / "plain.toml", *asked)
    assert status == 0 and "Beta(1, 3)" in out
    for wrong in (stated[:2], ["--deniers-prior=1,3"], [*stated, "--noncompliance-prior=1,3"]):
        assert run(capsys, "fit", tmp_path / "plain.toml", *wrong)[0] == 2


def test_regress_on_the_command_line(tmp_path, capsys):
    cells = Cells({"north": survey(), "south": survey(DEVICE, np.array([300, 100]))}, by="region")
    write(cells, tmp_path / "s.toml")
    stated = [*(f"--set=deniers.{one}" for one in ("of=yes", "say=no", "channel=direct")), "--deniers-formula=region"]
    run_it = ("regress", tmp_path / "s.toml", "yes ~ region", "--seed=1", "--json")
    status, out, _ = run(capsys, *run_it, *stated)
    own = {"of": "yes", "say": "no", "channel": "direct", "formula": "region"}
    same = regress(cells, "yes ~ region", deniers=own, random_seed=1)
    found = json.loads(out)["denial"]
    assert status == 0 and found["denied"] == ["yes"]
    assert found["mean"] == pytest.approx(same["summary"]["denial_mean"].values, rel=1e-9)
    for wrong, said in ((stated[:2], "deniers must state"), ([*stated, "--set=deniers.when=ever"], "--set must be one of")):
        status, _, error = run(capsys, *run_it, *wrong)
        assert status == 2 and said in error


def test_every_cell_has_its_own_share():
    """A cell that lacks the direct question borrows nothing, and is left out by name."""
    cells = Cells({"north": survey(), "south": survey(DEVICE, np.array([380, 20]))}, by="region")
    tree = fit(cells.with_deniers("yes", "no", "direct"), method="weighted", random_seed=1)
    summary = tree["summary"]
    own = summary["derived_mean"].sel(quantity="denial").values
    np.testing.assert_allclose(own[0], CHECK["denial"][0], atol=5e-3)  # five errors of 4,000 draws; the other's is .8
    assert own[1] > 0.8 and "own δ" in facts_of(tree)["deniers"]
    assert tree["cells"]["honesty_p"].values.max() < 1e-5
    device = Collection(["no", "yes"], Tally(crosswise(0.25), [0, 1], DEVICE, "device"))
    mixed = Cells({"north": survey(), "south": device}, by="region").with_deniers("yes", "no", "direct")
    with pytest.warns(RankDeficientWarning), pytest.warns(DiagnosticWarning, match="south"):
        found = fit(mixed, method="weighted", random_seed=1, draws=100, estimates=False)
    assert found["summary"].sizes["cell"] == 1 and "who deny" in str(found.attrs["left_out"])


def test_a_regression_with_one_share_who_deny_is_the_grid():
    """N(0, π²) for the log odds of yes, δ uniform; the leave-one-out densities are those of the model."""
    found = regress(Cells({"all": denied()}, by="region"), "answer ~ 1", random_seed=1)
    odds, delta = np.linspace(-6, 6, 601)[:, None], (np.arange(400)[None, :] + 0.5) / 400
    p = 1 / (1 + np.exp(-odds))
    same, yes = 0.75 - 0.5 * p, p * (1 - delta)
    log = xlogy(DEVICE[0], 1 - same) + xlogy(DEVICE[1], same) + xlogy(DIRECT[0], 1 - yes) + xlogy(DIRECT[1], yes)
    weight = np.exp(log - 0.5 * (odds / np.pi) ** 2 - log.max())
    summary = found["summary"]
    known = [
        [float(summary[key].sel(target="distribution", category="yes")) for key in ("mean", "sd", "lower", "upper")],
        [float(summary[f"denial_{key}"].sel(denied="yes")) for key in ("mean", "sd", "lower", "upper")],
    ]
    for values, numbers_ in zip((p + 0 * delta, delta + 0 * p), known, strict=True):
        exact = weighted(values, weight / weight.sum())
        np.testing.assert_allclose(numbers_, exact, atol=0.1 * exact[1])
        np.testing.assert_allclose(numbers_[:2], exact[:2], atol=0.03 * exact[1])


def reported(n, seed=3):
    """Return (frame of half a survey asked directly, those who deny): both P and δ rise with x."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, n)
    truth, denies = (rng.random(n) < 1 / (1 + np.exp(-line)) for line in (-0.5 + 0.6 * x, -1 + 0.7 * x))
    mode, kept = rng.choice(["direct", "device"], n), rng.random(n) < 0.75
    said = np.where(mode == "direct", truth & ~denies, truth == kept)
    return {"x": x, "mode": mode, "report": np.where(said, "yes", "no"), "w": rng.uniform(0.5, 2, n)}


def test_a_regression_with_a_formula_for_those_who_deny():
    frame, asked = reported(3000), {"of": "yes", "say": "no", "channel": "direct", "formula": "x"}
    settings = {"design": "mode", "report": "report", "categories": ["no", "yes"], "random_seed": 1}
    devices = {"direct": direct(), "device": warner(0.75)}
    found = regress(frame, "answer ~ x", devices, deniers=asked, **settings)
    summary = found["summary"]
    for name, truth in (("coefficients", (-0.5, 0.6)), ("denial_coefficients", (-1, 0.7))):
        mean, sd = (summary[f"{name}_{key}"].values[:, -1] for key in ("mean", "sd"))
        assert (abs(mean - truth) < 4 * sd).all() and (sd < 0.4).all() and found.attrs["converged"]
    page = show(found)
    assert "log odds" in page.tables[3].title and page.tables[3].rows[1][0] == "x"
    # The leave-one-out densities, at the draws: P(yes | direct) = p (1 − δ).
    draws = found.extend("log_likelihood", by="report")["log_likelihood"].to_dataset()
    log = next(iter(draws.values())).isel(chain=0, draw=0).values
    first = found["posterior"].to_dataset().isel(chain=0, draw=0)
    p, delta = (
        1 / (1 + np.exp(-(first[name].values[0, -1] + first[name].values[1, -1] * frame["x"])))
        for name in ("coefficients", "denial_coefficients")
    )
    yes = np.where(frame["mode"] == "direct", p * (1 - delta), 0.75 * p + 0.25 * (1 - p))
    np.testing.assert_allclose(log, np.log(np.where(frame["report"] == "yes", yes, 1 - yes)), atol=1e-9)
    weighted_ = regress(frame, "answer ~ x", devices, deniers=asked, weights="w", **settings)
    assert 1.05 < facts_of(weighted_)["design_effect"] < 1.3
    for wrong, match in (
        ({"of": "yes"}, "deniers must state"),
        (3, "formula of δ"),
        (asked | {"formula": "x - 1"}, "intercept"),
    ):
        with pytest.raises(ArgumentError, match=match):
            regress(frame, "answer ~ x", devices, deniers=wrong, **settings)
    maximum = regress(frame, "answer ~ x", devices, deniers=asked, method="mle", **settings)
    drawn = found["posterior"]["coefficients"].sel(category="yes")
    apart = maximum.coefficients.sel(category="yes") - drawn.mean(("chain", "draw"))
    assert (np.abs(apart) < drawn.std(("chain", "draw"))).all()


def test_the_gradient_beside_deniers_is_that_of_differences():
    cells = Cells(
        {("a", 0.5): three(np.random.default_rng(1), n=60), ("b", -1.0): three(np.random.default_rng(2), n=90)}, ["g", "x"]
    )
    cells = cells.with_deniers(["b", "c"], "a", "direct")
    parsed, data = Formula.parse("answer ~ x"), denying.asked("x", cells, "answer")
    design, reports, beside, _ = fitting._read(parsed, data[0], None, None, "refuse", {}, None, data[1])
    target = fitting.Model.of(design, denying.apart(reports, None), None, None, beside).target
    z = np.random.default_rng(3).normal(size=target.prior.n_unknowns)
    step = 1e-5 * np.eye(z.size)
    slope = [(target.value_and_gradient(z + one)[0] - target.value_and_gradient(z - one)[0]) / 2e-5 for one in step]
    np.testing.assert_allclose(target.value_and_gradient(z)[1], slope, rtol=1e-6, atol=1e-6)
    value, shares, _ = target.likelihoods(z[None])
    assert value[0] == pytest.approx(target.value_and_gradient(z)[0] - target.prior.log_density(z) + target.reports.constant)
    assert shares.sum() == pytest.approx(cells.n_reports)


def test_a_curve_over_the_share_who_deny(fitted):
    """At the estimate of δ, 1 − (100/400)/.55, the curve has the estimate of P; it turns where P is a half."""
    curve = sensitivity(denied(), "yes < 0.5", points=9)
    assert float(curve.sel(gamma=1 - 0.25 / 0.55, method="nearest")["answer"]) == pytest.approx(0.55, abs=1e-4)
    assert "turns at δ = 0.463" in curve.sentence and "who deny" in show(curve).figures[0].caption
    with pytest.raises(ArgumentError, match="all follow"):
        largest(fitted, 1)


def test_what_cannot_be_stated_is_refused():
    plain = survey()
    for wrong in (
        ("yes", "yes", "direct"),
        ("yes", "no", "web"),
        ([], "no", "direct"),
        (3, "no", "direct"),
        ("yes", 1, "direct"),
    ):
        with pytest.raises(ArgumentError):
            plain.with_deniers(*wrong)
    with pytest.raises(ArgumentError, match="once"):
        denied().with_deniers("yes", "no", "direct")
    with pytest.raises(ArgumentError, match="identify both"):
        denied().with_noncompliers({"no-sayer": {"device": 0, "direct": "no"}})
    for wrong in ((1, 1), (5,)):
        with pytest.raises(ArgumentError, match="of must"):
            Noncompliance(direct(), [{"law": "input", "targets": [0]}], wrong)
    with pytest.raises(ArgumentError, match="Denial"):
        fit(denied(), Compliance())


def test_a_flat_share_of_a_trait_that_is_denied_says_why_and_how():
    """The sentence named another derived quantity as the only choice; what it names now is a prior that works."""
    lists = Collection.from_lists(ListExperiment(1), [50, 50], [30, 50, 20], direct=[150, 50], trait="angry")
    both = lists.with_deniers(of="yes/1", say="no/1", channel="direct")
    with pytest.raises(ArgumentError, match=r"deny.*Tree\.of_share\(survey,.*'angry'"):
        fit(both, "share:angry")
    told = prior_for(Tree.of_share(lists, "angry"), both).describe()
    assert "of blocks" in told and "who deny" in told
    with pytest.raises(ArgumentError, match=r"denial.*some respondents"):
        fit(both, "share:denial")
