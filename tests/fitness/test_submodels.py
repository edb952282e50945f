"""A test of a submodel (nobody denies, nobody ignores the device) is an answer and no test of fit.

The kind: the model that is fitted has deniers or non-compliers; that there are some is no misfit. Searched: one survey and
cells, deniers and laws, saturated designs and others, fit with and without draws, priors over all cells, the command line.

Its other half: the submodel may make reports impossible (a control question with one right answer). Then the model has a
likelihood, the submodel has none, and p = 0; without the respondents who can send such reports every door refuses with one
sentence. Searched: laws of two kinds, cells, priors over all cells, draws=0, check, MLE, the curve of
sensitivity, the command line.
"""

import math

import numpy as np
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes.errors import DataError
from ldpbayes.protocols import Channel, crosswise, direct
from ldpbayes.result.facts import facts_of


def asked(first, second):
    """Return a survey with direct answers and crosswise ones (p = ¼), from (no, yes) and (different, same)."""
    tallies = [lb.Tally(direct(), [0, 1], first, "direct"), lb.Tally(crosswise(0.25), [0, 1], second, "device")]
    return lb.Collection(["no", "yes"], tallies)


def of_cells(*surveys):
    return lb.Cells(dict(zip("abc", surveys, strict=False)), by="group")


def notes(page):
    return " ".join([page.summary, *(note.text for note in page.notes)])


def test_some_deny_is_said_and_not_flagged():
    survey = asked([850, 150], [600, 400])
    alone, cells = (data.with_deniers("yes", "no", "direct") for data in (survey, of_cells(survey, survey)))
    one, both = lb.check(alone), lb.check(cells)
    assert not one.flagged and not both.flagged and one.compliance.p_value < 1e-50
    assert "Some deny: p = " in notes(lb.show(one))
    assert "2 of 2 cells: a, b" in notes(lb.show(both))
    tree = lb.fit(cells, method="weighted", random_seed=1, draws=100)
    assert not tree.attrs["fitness_flagged"] and both.verdict.startswith(facts_of(tree)["fitness"])
    assert "2 of 2 cells: a, b" in notes(lb.show(tree))
    tree = lb.fit(alone, method="weighted", random_seed=1, draws=100)
    assert "Some deny: p = " in notes(lb.show(tree)) and "do not fit" not in notes(lb.show(tree))


def test_that_the_reports_do_not_show_that_some_deny_is_said_too():
    survey = asked([300, 700], [600, 400])
    cells = of_cells(survey, asked([850, 150], [600, 400])).with_deniers("yes", "no", "direct")
    assert "1 of 2 cells: b" in notes(lb.show(lb.check(cells)))
    none = of_cells(survey, survey).with_deniers("yes", "no", "direct")
    assert "any of 2 cells" in notes(lb.show(lb.check(none)))


def test_the_command_line_does_not_flag_those_who_ignore_the_device(tmp_path, capsys):
    survey = lb.Collection(
        ["no", "yes"],
        [lb.Tally(crosswise(p), [0, 1], n, f"{p}") for p, n in ((0.2, [350, 650]), (0.7, [420, 580]))],
    ).with_noncompliers({"sayer": 1})
    lb.write(survey, tmp_path / "survey.toml")
    status, out, _ = run(capsys, "check", tmp_path / "survey.toml")
    assert status == 0 and "device: p =" in " ".join(out.split())


def drawn(design, share, rng, n=150):
    """Return a survey drawn from the model with a share of everybody who deny, or say "same" whatever is true."""
    p, tallies = np.array([0.7, 0.3]), []
    if design == "laws":
        for one in (0.1, 0.25, 0.8):
            law = (1 - share) * crosswise(one).channel() @ p + share * np.array([0, 1])
            tallies.append(lb.Tally(crosswise(one), [0, 1], rng.multinomial(n, law), f"{one}"))
        return lb.Collection(["no", "yes"], tallies)
    for one in (0.25, 0.15) if design == "two devices" else (0.25,):
        counts = rng.multinomial(n, crosswise(one).channel() @ p)
        tallies.append(lb.Tally(crosswise(one), [0, 1], counts, f"{one}"))
    tallies.append(lb.Tally(direct(), [0, 1], rng.multinomial(n, p + np.array([share, -share])), "direct"))
    return lb.Collection(["no", "yes"], tallies)


@pytest.mark.calibrated("one device-0.0-12", "two devices-0.15-12", "laws-0.0-12")
@pytest.mark.parametrize("surveys", [12, pytest.param(200, marks=pytest.mark.calibrate)])
@pytest.mark.parametrize("share", [0.0, 0.15])
@pytest.mark.parametrize("design", ["one device", "two devices", "laws"])
def test_surveys_from_the_model_are_flagged_at_the_level(design, share, surveys):
    """The share is a parameter of the model that is tested, and may be zero: .05 and three standard deviations at most."""
    rng, flagged = np.random.default_rng(5), np.zeros(2)
    for _ in range(surveys):
        cells = of_cells(drawn(design, share, rng), drawn(design, share, rng))
        found = lb.check(
            cells.with_noncompliers({"sayer": 1}) if design == "laws" else cells.with_deniers("yes", "no", "direct"),
            replications=99,
        )
        flagged += found.cells[0].flagged, found.flagged
    assert (flagged <= 0.05 * surveys + 3 * math.sqrt(0.05 * 0.95 * surveys)).all(), flagged


# ---- reports that are impossible under the submodel -----------------------------------------------------------------

DEVICE, CONTROL = Channel([[0.8, 0.2], [0.2, 0.8]]), Channel([[1.0, 1.0], [0.0, 0.0]])
REFUSED = "channel 'control' has reports with probability zero under every distribution"


def controlled(device=(600, 400), control=(800, 200)):
    """Return a survey with a control question, to which everybody who follows the device gives the first answer."""
    tallies = [lb.Tally(DEVICE, [0, 1], device, "device"), lb.Tally(CONTROL, [0, 1], control, "control")]
    return lb.Collection(["no", "yes"], tallies)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("law, gamma", [("uniform", 0.4), (1, 0.2)])
def test_reports_that_only_those_send_who_ignore_the_device(law, gamma):
    survey = controlled().with_noncompliers({"some": law})
    test = lb.robust.compliance_test(survey)
    assert test.p_value == 0 and test.statistic == math.inf
    assert test.gamma == pytest.approx(gamma, abs=1e-4)
    assert lb.estimators.MLE()(survey).distribution[2] == pytest.approx(gamma, abs=1e-4)
    found = lb.check(survey)
    assert not found.flagged and found.compliance == test
    for draws in (0, 500):
        tree = lb.fit(survey, random_seed=1, draws=draws)
        assert facts_of(tree)["compliance_p"] == 0 and facts_of(tree)["log_bayes_factor_noncompliance"] == math.inf
        assert "p = 0 (some reports" in facts_of(tree)["compliance"]


def test_the_posterior_of_impossible_reports_is_that_of_a_grid():
    """γ/2 of the control's answers are wrong: Jeffreys' prior of p and Beta(1, 9) of γ, on a grid."""
    gamma, p = ((np.arange(2000) + 0.5) / 2000)[:, None], np.sin((np.arange(600) + 0.5) / 600 * np.pi / 2)[None] ** 2
    yes, wrong = (1 - gamma) * (0.2 + 0.6 * p) + gamma / 2, gamma / 2
    log = 400 * np.log(yes) + 600 * np.log1p(-yes) + 200 * np.log(wrong) + 800 * np.log1p(-wrong) + 8 * np.log1p(-gamma)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    means = float((weights * p).sum()), float((weights * gamma).sum())
    summary = lb.fit(controlled().with_noncompliers({"random": "uniform"}), random_seed=1)["summary"]
    shown = summary["mean"].sel(target="distribution", category="yes"), summary["derived_mean"].sel(quantity="noncompliance")
    np.testing.assert_allclose([float(one) for one in shown], means, atol=0.002)


@pytest.mark.parametrize("prior", ["jeffreys", "hierarchical"])
def test_impossible_reports_in_cells(prior):
    cells = lb.Cells({"a": controlled(), "b": controlled(control=(1000, 10)), "c": controlled(control=(1000, 0))})
    tree = lb.fit(cells.with_noncompliers({"random": "uniform"}), prior, random_seed=1, draws=300)
    assert tree.attrs["converged"] and tree["cells"]["compliance_p"].values[:2].tolist() == [0, 0]
    assert "2 of 3 cells: a, b" in facts_of(tree)["compliance"] and not tree.attrs["fitness_flagged"]


def test_a_curve_from_zero_drops_what_is_impossible_there():
    """As γ → 0 the answer tends to that of the reports that are possible."""
    curve = lb.robust.sensitivity(controlled((60, 40), (50, 1)).with_noncompliers({"random": "uniform"}), "yes", points=5)
    assert curve.gamma[0] == 0 and float(curve.answer[0]) == pytest.approx(1 / 3, abs=1e-4)


def test_every_door_says_the_same_sentence(tmp_path, capsys):
    survey = controlled()
    cells = lb.Cells({"a": survey, "b": survey})
    doors = {
        "fit": lambda: lb.fit(survey, random_seed=1),
        "fit, moments": lambda: lb.fit(survey, random_seed=1, draws=0),
        "cells": lambda: lb.fit(cells, random_seed=1),
        "cells together": lambda: lb.fit(cells, "hierarchical", random_seed=1),
        "check": lambda: lb.check(survey),
        "check of cells": lambda: lb.check(cells),
        "MLE": lambda: lb.estimators.MLE()(survey),
    }
    for name, door in doors.items():
        with pytest.raises(DataError, match=REFUSED):
            door()
            pytest.fail(name)
    lb.write(survey, tmp_path / "survey.toml")
    for command in ("fit", "check"):
        status, _, err = run(capsys, command, tmp_path / "survey.toml")
        assert status == 2 and REFUSED in " ".join(err.split())
    status, out, _ = run(capsys, "fit", tmp_path / "survey.toml", "--set", "noncompliance.random=uniform", "--draws", "0")
    assert status == 0 and "impossible under" in " ".join(out.split())
