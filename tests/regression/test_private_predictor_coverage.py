"""Coverage of the effect of a private answer, over surveys drawn from the prior."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import ldpbayes as lb
from ldpbayes.protocols.designs import forced_response
from ldpbayes.result.facts import facts_of

SURVEYS, PEOPLE = 200, 500
DIE = forced_response(2 / 3, (1, 1))
#: Stated to ``regress`` as well: under its default, many surveys have nobody with one of the answers.
SCALE = {"Intercept": 1.0, "x": 0.5, "private(z)": 1.0}


def survey(family, rng):
    """Return (table, effect of the answer) of a survey whose coefficients are drawn from the prior, in units of one."""
    x = rng.normal(size=PEOPLE)
    x = (x - x.mean()) / x.std()
    odds, eta = (SCALE["Intercept"] * rng.normal() + SCALE["x"] * rng.normal() * x for _ in range(2))
    effect = SCALE["private(z)"] * rng.normal()
    z = rng.random(PEOPLE) < expit(odds)
    eta = eta + effect * (z - 0.5)
    y = eta + abs(rng.normal()) * rng.normal(size=PEOPLE) if family == "normal" else rng.random(PEOPLE) < expit(eta)
    return pd.DataFrame({"x": x, "y": y, "report": DIE.privatize(z.astype(int), rng)}), effect


def covered(family, seed):
    """Return (whether the 95 % interval has the effect, whether the result is trusted); None where y has one value."""
    frame, effect = survey(family, np.random.default_rng([seed, len(family)]))
    if frame["y"].nunique() < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"report": "report", "family": family, "scale": SCALE, "draws": 250, "random_seed": seed}
        found = lb.regress(frame, "y ~ x + private(z)", DIE, **settings)
    at = found["summary"].to_dataset().sel(outcome_term="private(z)[yes]")
    inside = float(at["outcome_coefficients_lower"]) < effect < float(at["outcome_coefficients_upper"])
    return inside, bool(found.attrs["converged"]), facts_of(found)["method"], bool(facts_of(found)["contradiction"])


@pytest.mark.calibrate
@pytest.mark.parametrize("family", ["normal", "bernoulli"])
def test_intervals_of_the_effect_cover_it(family):
    answers = [answer for seed in range(SURVEYS) if (answer := covered(family, seed)) is not None]
    inside, trusted, _, contradicted = (np.array(column) for column in zip(*answers, strict=True))
    error = np.sqrt(0.95 * 0.05 / len(inside))
    assert abs(inside.mean() - 0.95) < 3 * error
    assert trusted.mean() > 0.97
    assert contradicted.mean() < 0.01 + 3 * np.sqrt(0.01 * 0.99 / len(inside))
