"""The check of fit leaves honest reports alone at its level: ``make calibrate`` writes fitness.csv."""

import pathlib
import time

import pytest
from fitcases import DESIGNS, flagged_share
from recorded import record

#: Honest collections of every design; the share flagged has a standard error of 0.003.
COLLECTIONS = 4_000
SUMMARY = pathlib.Path(__file__).with_name("fitness.csv")


@pytest.mark.calibrate
@pytest.mark.parametrize("name", DESIGNS)
def test_honest_reports_are_flagged_at_the_level(name):
    """Between 2 and 6.5 % of 4,000 at the level of 5 %: discrete tests are conservative."""
    start = time.process_time()
    share = flagged_share(name, COLLECTIONS, 11)
    line = {"design": name, "collections": COLLECTIONS, "flagged": f"{share:.4f}"}
    record(SUMMARY, line | {"seconds": f"{time.process_time() - start:.0f}"}, ("design",))
    assert 0.02 <= share <= 0.065
