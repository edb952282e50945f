"""The study of sampling weights: how often intervals of `fit` and of a regression on an intercept hold the true share.

A survey of two answers has one unknown, so that ends are found on a grid of its log odds: with the design effect and the
prior of the package, which ``tests/test_weights_study.py`` holds against the ends that ``fit`` and ``regress`` state.
"""

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.collections.survey import Survey
from ldpbayes.estimators.linearized import linearized
from ldpbayes.estimators.mle import maximize
from ldpbayes.priors.regression import INTERCEPT
from ldpbayes.protocols.designs import crosswise, forced_response
from studies import evaluate
from studies.base import grid

LEVEL = 0.95
#: Devices by their names.
DEVICES = {"grr": lb.GRR(2, 1.2), "forced": forced_response(2 / 3, (1, 1)), "crosswise": crosswise(0.25)}
SHARES, SPREADS = (0.02, 0.05, 0.15, 0.5), (0.5, 0.7, 1.0)
#: Shares of the strata of samples whose design effect is below one: ten strata that are sampled alike.
STRATA = {"strata, apart": np.repeat([0.02, 0.98], 5), "strata, graded": np.linspace(0.05, 0.95, 10)}
#: Log odds of the grid, and the log-priors there: of the intercept, and Jeffreys'.
LOG_ODDS = np.linspace(-25.0, 25.0, 5001)
PRIORS = {
    "regress": -0.5 * (LOG_ODDS / INTERCEPT) ** 2,
    "fit": 0.5 * (log_expit(LOG_ODDS) + log_expit(-LOG_ODDS)),
}


def cells(setting):
    """Return the cells of a setting: devices, numbers of respondents, shares and spreads of the log weights; and strata."""
    paper = setting == "paper"
    names = (
        [f"share {p:g}, sd {sd:g}" for p in SHARES for sd in SPREADS] if paper else ["share 0.02, sd 0.5", "share 0.5, sd 1"]
    )
    sizes = {"n_categories": [2], "n_reports": [100, 500, 1000] if paper else [100]}
    of = {"protocol": list(DEVICES), **sizes, "replications": [200 if paper else 20]}
    return grid(**of, population=names) + grid(**of, population=list(STRATA) if paper else ["strata, apart"])


def ends(shares, respondents, yes, no, answer):
    """Return the ends of the equal-tailed interval of P(yes): of a likelihood tempered to so many respondents.

    Parameters
    ----------
    shares : (2,) array
        Weighted shares of the reports no and yes.
    respondents : float
    yes, no : (2,) arrays
        Probabilities of the reports from the answers.
    answer : {"fit", "regress"}
        Whose prior.
    """
    p = expit(LOG_ODDS)
    log = PRIORS[answer] + respondents * (np.log(np.outer(1 - p, no) + np.outer(p, yes)) @ shares)
    below = np.cumsum(np.exp(log - log.max()))
    return np.interp([(1 - LEVEL) / 2 * below[-1], (1 + LEVEL) / 2 * below[-1]], below, p)


def draw(cell, rng):
    """Return (table of reports, weights and strata, the columns of the sample, the true share) of one survey."""
    n, device = cell["n_reports"], DEVICES[cell["protocol"]]
    if cell["population"] in STRATA:
        shares = STRATA[cell["population"]]
        stratum = np.repeat(np.arange(shares.size), n // shares.size)
        truth, columns = shares[stratum], {"strata": "stratum"}
    else:
        share, spread = (float(part.split()[1]) for part in cell["population"].split(","))
        stratum, truth, columns = np.zeros(n, int), np.full(n, share), {"weights": "weight"}
    weight = np.exp(spread * rng.standard_normal(n)) if "weights" in columns else np.ones(n)
    reports = device.privatize((rng.random(n) < truth).astype(int), rng)
    frame = pd.DataFrame({"answer": reports, "weight": weight, "stratum": [f"s{h}" for h in stratum]})
    return frame, columns, float(truth.mean())


def respondents_of(frame, columns, device):
    """Return (respondents of a simple random sample who know as much, weighted shares of the reports)."""
    place, weight = frame["answer"].to_numpy(), frame["weight"].to_numpy()
    strata = frame["stratum"].to_numpy(dtype=object) if "strata" in columns else None
    survey = Survey(np.zeros_like(place), place, np.ones_like(place), weight, strata)
    tally = Tally(device, [0, 1], np.bincount(place, minlength=2))
    sample = Collection(["no", "yes"], tally, survey=survey)
    effect, _ = linearized(sample, maximize(sample.rows).p)
    yes = float(np.average(place, weights=weight))
    return effect.respondents, np.array([1 - yes, yes])


def true_effect(cell):
    """Return the design effect of a stratified sample of equal weights: the share of the variance within strata."""
    no, yes = DEVICES[cell["protocol"]].channel().T
    seen = no[1] + STRATA[cell["population"]] * (yes[1] - no[1])
    return float((seen * (1 - seen)).mean() / (seen.mean() * (1 - seen.mean())))


def coverage_of_weights(cell, rng):
    """Return the lines of a cell: coverage and width of the intervals of fit and regress, above and below which truths lie.

    Of stratified samples ``wider`` is the width over that of intervals with the true design effect.

    Parameters
    ----------
    cell : dict
    rng : Generator

    Returns
    -------
    list of dict
    """
    device, found = DEVICES[cell["protocol"]], {}
    no, yes = device.channel().T
    for own in rng.spawn(cell["replications"]):
        frame, columns, share = draw(cell, own)
        known, seen = respondents_of(frame, columns, device)
        for answer in PRIORS:
            low, high = ends(seen, known, yes, no, answer)
            values = {"coverage": low <= share <= high, "below": share < low, "above": share > high, "width": high - low}
            if cell["population"] in STRATA:
                right = ends(seen, cell["n_reports"] / true_effect(cell), yes, no, answer)
                values["wider"] = (high - low) / (right[1] - right[0])
            for metric, value in values.items():
                found.setdefault((answer, metric), []).append(float(value))
    lines = []
    for (answer, metric), values in found.items():
        value, error = evaluate.mean_and_error(values)
        line = {"estimator": answer, "target": "distribution", "metric": metric, "replications": len(values)}
        lines.append(line | {"value": value, "standard_error": error})
    return lines
