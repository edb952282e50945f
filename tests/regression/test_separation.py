"""Who decides on a coefficient is told by its sensitivity to the prior, not by a ratio of standard deviations."""

import warnings

import numpy as np
import pandas as pd
import pytest

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.protocols.designs import direct, forced_response

NO_YES = ("no", "yes")


def people(n=400):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.standard_normal(n), "w": rng.standard_normal(n)})
    return frame, rng


def regressed(formula, frame, protocol, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        return lb.regress(frame, formula, protocol, report="report", categories=NO_YES, random_seed=1, **more)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("scale", "about"), [(2.5, 13), (5.0, 21), (10.0, 35)])
def test_a_separated_coefficient_is_named(scale, about):
    """Under prior sd 2.5, 5 and 10 it is 13, 21 and 35: nothing said so. The column beside it is known."""
    frame, _ = people()
    frame["report"] = np.where(frame["x"] > 0, "yes", "no")
    found = regressed("y ~ x + w", frame, direct(answers=NO_YES), scale=scale)
    mean = float(found["summary"]["coefficients_mean"].sel(category="yes", term="x"))
    assert mean == pytest.approx(about, rel=0.1)
    assert found.attrs["prior_decides"].startswith("Prior and reports disagree on x: ")


def test_the_warning_says_so():
    frame, _ = people(100)
    frame["report"] = np.where(frame["x"] > 0, "yes", "no")
    with pytest.warns(DiagnosticWarning, match="disagree on x"):
        lb.regress(frame, "y ~ x", direct(answers=NO_YES), report="report", categories=NO_YES, random_seed=1)


def test_known_coefficients_are_not_named():
    frame, rng = people()
    frame["report"] = np.where(rng.random(400) < 1 / (1 + np.exp(-frame["x"])), "yes", "no")
    assert regressed("y ~ x + w", frame, direct(answers=NO_YES)).attrs["prior_decides"] == ""
    survey = lb.load_example("nigeria_cells")
    found = lb.regress(survey, "connected ~ female + married + age_group", random_seed=1)
    assert found.attrs["prior_decides"] == ""


def test_a_share_below_the_floor_is_the_priors():
    """Fewer yes than the device forces: how far below zero the log odds lie is for the prior to say."""
    table = pd.DataFrame({"g": list("aabb"), "report": ["no", "yes"] * 2, "n": [180, 120, 265, 35]})
    found = regressed("y ~ g", table, forced_response(0.75, (1, 1), answers=NO_YES), count="n")
    assert "g[b]" in found.attrs["prior_decides"] and "Intercept" not in found.attrs["prior_decides"]
