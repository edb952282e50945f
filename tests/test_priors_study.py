"""The study of priors: what its stored results say, and that it computes what it says."""

import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpbayes import Collection, Tally
from ldpbayes.methods.exact import Exact
from ldpbayes.priors.naming import LEARNT_FROM
from ldpbayes.protocols.grr import GRR
from studies import common, floor, pooled, priors
from studies.catalogue import STUDIES

DOCS = pathlib.Path(__file__).parents[1] / "docs"
STORED, FLOORS = DOCS / "theory" / "priors-study.parquet", DOCS / "studies" / "floor.parquet"


@pytest.fixture(scope="module")
def table():
    return pq.read_table(STORED)


def ratios(table, estimator, keep=lambda line: True):
    lines = [line for line in table.to_pylist() if line["metric"] == "ratio" and line["estimator"] == estimator]
    return [line for line in lines if keep(line)]


def test_the_learnt_prior_beats_jeffreys(table):
    found = priors.geometric_means(table, "learnt")
    assert found["all"][2] == 420
    assert found["all"][0] <= 0.9
    assert found["zipf"][0] <= 0.75


#: The cell that misses the line: its ratio is 1.37 ± 0.01 in 815 replications of this cell alone. See the page of the study.
MISSED = {("zipf_1.5", "grr", 205, 1_000_000, 4.0)}


def test_no_cell_is_much_worse_than_jeffreys(table):
    """At most 1.35 in every cell; the cell that misses stands here by name, and has to go when it is mended."""
    names = ("population", "protocol", "n_categories", "n_reports", "epsilon")
    above = {tuple(line[name] for name in names): line["value"] for line in ratios(table, "learnt") if line["value"] > 1.35}
    assert above.keys() == MISSED
    assert max(above.values()) < 1.45


def test_the_default_rule_is_supported(table):
    few, many = (
        np.exp(np.mean([np.log(line["value"]) for line in ratios(table, "learnt", keep)]))
        for keep in (lambda line: line["n_categories"] < LEARNT_FROM, lambda line: line["n_categories"] >= LEARNT_FROM)
    )
    assert few > 1 and many < 0.8


def test_the_smooth_prior_beats_jeffreys_on_ordered_categories(table):
    found = priors.geometric_means(table, "smooth")["ordered"]
    assert found[2] == 140 and found[0] <= 0.7


def test_a_cell_compares_every_estimator_on_the_same_reports():
    cell = {"protocol": "grr", "n_categories": 8, "epsilon": 1.0, "n_reports": 300, "population": "zipf_1_sparse"}
    lines = priors.compare_priors(cell | {"replications": 2}, np.random.default_rng(1))
    held = {(line["estimator"], line["metric"]): line for line in lines}
    assert held["jeffreys", "ratio"]["value"] == 1 and held["jeffreys", "ratio"]["standard_error"] == 0
    for name in ("learnt", "flat", "mle", "norm_sub", "norm_cut", "power_law", "oracle"):
        ratio = held[name, "mse"]["value"] / held["jeffreys", "mse"]["value"]
        assert held[name, "ratio"]["value"] == pytest.approx(ratio)
        assert held[name, "mse"]["excess"] == pytest.approx(held[name, "mse"]["value"] - held["jeffreys", "mse"]["value"])
    assert 0 <= held["learnt", "coverage"]["value"] <= 1
    assert priors.shares("zipf_1_sparse", 8).round(3).tolist() == [0.667, 0.333, 0, 0, 0, 0, 0, 0]


def test_the_first_replications_of_a_longer_run_are_those_of_a_shorter_one(monkeypatch):
    monkeypatch.setattr(priors, "lines_of", list)
    cell = {"protocol": "grr", "n_categories": 6, "epsilon": 1.0, "n_reports": 200, "population": "zipf_1"}
    few, more = (priors.compare_priors(cell | {"replications": size}, np.random.default_rng(3)) for size in (1, 2))
    assert few == more[:1] and len(more) == 2


def test_matched_intervals_are_near_the_exact_ones():
    protocol = GRR(10, 1.0)
    rng = np.random.default_rng(1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(2000, np.arange(10, 0, -1) / 55), rng))
    found = Exact().moments(Collection([f"c{x}" for x in range(10)], [tally]), "jeffreys")
    for matched, exact in zip(priors.matched_interval(found.mean, found.variance), found.interval(), strict=True):
        assert (np.abs(matched - exact) < 0.5 * found.sd).all()


@pytest.mark.skipif(not common.POPULATIONS.is_dir(), reason="data/populations is in a checkout only")
def test_the_study_is_listed_with_its_full_grid():
    study = STUDIES["priors"]
    full = study.cells("paper")
    assert len(full) == 420 and {cell["replications"] for cell in full} == {20}
    assert {cell["population"] for cell in full} == {*priors.ZIPF, *priors.CENSUSES}
    assert priors.ORDERED <= set(priors.CENSUSES)


def test_the_floor_is_no_default_by_its_own_rule():
    """Lower errors in the mean, and most over Zipf's law; but the coverage of some populations falls."""
    lines = pooled.read(FLOORS)
    assert len({line["cell"] for line in lines}) == 420 and len(floor.by_cell(lines)) >= 352
    found, populations = floor.rule(lines), floor.by_population(lines)
    assert found["ratio"][0] + 2 * found["ratio"][1] < 1 and found["cost"] < 4 and not found["lost"]
    assert {"adult_age", "adult_age_sex", "adult_workclass", "flights_dest"} <= set(found["fallen"])
    assert floor.summary(populations["zipf_1"])["ratio"][0] < 0.97 < floor.summary(populations["adult_hours"])["ratio"][0]


def test_a_ratio_of_floors_has_the_error_of_pairs():
    rng = np.random.default_rng(1)
    learnt = rng.gamma(20.0, 1.0, 4000)
    both = {"learnt": learnt, "floor": 0.8 * learnt + rng.normal(0, 0.1, 4000)}
    cell = pooled.Cell({"block": 4000, "goal": 4000}, "learnt")
    cell.take({(name, "distribution", "mse"): values for name, values in both.items()}, 1.0)
    value, error = floor.ratio({(line["estimator"], line["metric"]): line for line in cell.rows()})
    assert value == pytest.approx(0.8, abs=4 * error)
    assert error == pytest.approx(0.1 / np.sqrt(4000) / 20, rel=0.1)


@pytest.mark.skipif(not common.POPULATIONS.is_dir(), reason="data/populations is in a checkout only")
def test_one_replication_of_the_study_of_floors():
    cell = next(cell for cell in floor.cells() if cell["n_categories"] == 9)
    found = floor.losses(cell, np.random.default_rng(1))
    squared = {name: found[name, "distribution", "mse"].item() for name in ("learnt", "floor")}
    assert found["floor", "distribution", "beyond"].item() == pytest.approx(squared["floor"] - 1.1 * squared["learnt"])
    assert found["floor", "cost", "seconds"].item() > 0 and 0 <= found["floor", "distribution", "coverage"].item() <= 1
