"""The study of sampling weights: its ends are those that fit and regress state, and its stored table holds what is promised.

The kind: a weighted regression near the edge of what a device can give, whose design effect fell to a tenth. Searched: fit
of the same sample, weights and strata, devices, cells, deniers (tests/test_deniers.py) and lists (regression/).
"""

import pathlib

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

import ldpbayes as lb
from ldpbayes.result.facts import facts_of
from studies import weights

STORED = pathlib.Path(__file__).parents[1] / "docs" / "studies" / "weights.parquet"


def ends_of(found):
    category = str(found["posterior"]["category"].values[1])
    summary = found["summary"].sel(target="distribution", category=category)
    return np.array([float(summary["lower"]), float(summary["upper"])]), float(summary["sd"])


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_a_weighted_regression_at_the_edge_is_no_surer_than_fit():
    """17 yes of 100 where the device gives .231 by itself: it said .003 [.0003, .0088] where fit says [0, .11]."""
    frame = pd.DataFrame({"answer": [1] * 17 + [0] * 83, "w": [0.5, 1.5] * 50})
    regressed = lb.regress(frame, "answer ~ 1", lb.GRR(2, 1.2), weights="w", random_seed=1)
    plain = lb.regress(frame, "answer ~ 1", lb.GRR(2, 1.2), random_seed=1)
    fitted = lb.fit(lb.read(frame, lb.GRR(2, 1.2), report="answer", weights="w"), random_seed=1)
    assert facts_of(regressed)["design_effect"] == pytest.approx(facts_of(fitted)["design_effect"], rel=1e-6)
    (_, high), _ = ends_of(regressed)
    assert ends_of(plain)[0][1] < high < 1.1 * ends_of(fitted)[0][1]


def agree(number, draws):
    """Return by how many posterior sds ends of surveys of the study differ from those of fit, and of regress."""
    rng, apart = np.random.default_rng(3), []
    every = weights.cells("paper")
    for k in rng.choice(len(every), number, replace=False):
        cell = every[k]
        frame, columns, _ = weights.draw(cell, rng)
        device = weights.DEVICES[cell["protocol"]]
        known, seen = weights.respondents_of(frame, columns, device)
        no, yes = device.channel().T
        settings = {"random_seed": 1, "draws": draws}
        fitted = lb.fit(lb.read(frame, device, report="answer", **columns), estimates=False, **settings)
        regressed = lb.regress(frame.rename(columns={"answer": "y"}), "a ~ 1", device, report="y", **columns, **settings)
        for answer, found in (("fit", fitted), ("regress", regressed)):
            stated, sd = ends_of(found)
            apart.append(np.abs(stated - weights.ends(seen, known, yes, no, answer)).max() / sd)
    return np.array(apart).reshape(-1, 2).T


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_ends_on_the_grid_are_those_of_fit_and_of_regress():
    fitted, regressed = agree(4, 1000)
    assert fitted.max() < 0.03 and regressed.max() < 0.15


@pytest.mark.calibrate
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")
def test_ends_on_the_grid_are_those_of_a_hundred_fits_and_regressions():
    fitted, regressed = agree(100, 1000)
    assert fitted.max() < 0.1 and regressed.max() < 0.3 and regressed.mean() < 0.04


def test_the_stored_table_covers():
    table = parquet.read_table(STORED).to_pandas()
    weighted = table[(table.metric == "coverage") & ~table.population.isin(list(weights.STRATA))]
    assert len(weighted) == 2 * 108 and (weighted.replications == 200).all()
    for _, of in weighted.groupby("estimator"):
        assert of.value.min() >= 0.95 - 3.5 * np.sqrt(0.95 * 0.05 / 200) and of.value.mean() >= 0.945
    wider = table[table.metric == "wider"]
    assert len(wider) == 36 and wider.value.max() <= 1.1
