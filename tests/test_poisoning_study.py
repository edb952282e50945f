"""The study of poisoning: that it computes what its stored results say."""

import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpbayes.collections import Tally
from ldpbayes.protocols import GRR
from ldpbayes.protocols.respondents import MaximalGain
from studies import common, poisoning
from studies.catalogue import STUDIES

pytestmark = pytest.mark.skipif(not common.POPULATIONS.is_dir(), reason="data/populations is in a checkout only")


STORED = pathlib.Path(__file__).parents[1] / "docs" / "theory" / "poisoning-study.parquet"


def test_the_stored_results_say_what_the_page_says():
    lines = pq.read_table(STORED).to_pylist()
    names = ("population", "protocol", "n_reports", "fakes")
    held = {(*(line[name] for name in names), line["estimator"], line["metric"]): line["value"] for line in lines}
    settings = {key[:4] for key in held}
    assert len(settings) == 36
    for share, plain, starred in ((0.01, 2.4, 1.45), (0.05, 19.1, 1.73), (0.1, 41.6, 1.91)):
        for estimator, expected in (("posterior", plain), ("recover_targets", starred)):
            ratios = [
                held[*key, estimator, "mse"] / held[*key, "posterior_law", "mse"] for key in settings if key[3] == share
            ]
            assert np.exp(np.log(ratios).mean()) == pytest.approx(expected, rel=0.01)
    ranges = [line for line in lines if line["estimator"] == "hull" and line["metric"] == "coverage"]
    assert sum(line["value"] * line["replications"] for line in ranges) == pytest.approx(1776)
    assert sum(line["replications"] for line in ranges) == 1800


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", ["grr", "oue", "olh"])
def test_the_law_of_the_fakes_is_worth_knowing(protocol):
    cell = {"protocol": protocol, "n_categories": 20, "epsilon": 1.0, "n_reports": 3000, "population": "zipf_1"}
    lines = poisoning.compare_defences(cell | {"fakes": 0.1, "replications": 2}, np.random.default_rng(1))
    held = {(line["estimator"], line["metric"]): line["value"] for line in lines}
    for name in ("posterior", "norm_sub", "recover"):
        assert held["posterior_law", "mse"] < 0.3 * held[name, "mse"] and held[name, "gain"] > 0.3
    assert held["recover_targets", "mse"] < 0.3 * held["norm_sub", "mse"]
    assert abs(held["posterior_law", "gain"]) < 0.15 and held["hull", "coverage"] == 1
    assert (("posterior_law", "share") in held) == (protocol != "grr")


def test_rows_of_a_known_share_are_those_of_the_mixed_channel():
    protocol, law, share = GRR(5, 1.0), MaximalGain((1, 3)), 0.1
    tally = Tally(protocol, np.arange(5), np.arange(1, 6))
    rows = poisoning.mixed_rows(protocol, tally, law, share)
    channel = (1 - share) * protocol.channel() + share * np.array([0, 0.5, 0, 0.5, 0])[:, None]
    np.testing.assert_allclose(rows.dense(), channel, atol=1e-12)


def test_the_study_is_listed_with_its_full_grid():
    full = STUDIES["poisoning"].cells("paper")
    assert len(full) == 36 and {cell["fakes"] for cell in full} == {0.01, 0.05, 0.1}
    assert {cell["protocol"] for cell in full} == {"grr", "oue", "olh"}
