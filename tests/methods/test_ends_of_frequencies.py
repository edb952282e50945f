"""Users' own frequencies in cells of summaries have the intervals that the same reports give when they are read whole."""

import numpy as np
import pyarrow
import pytest

import ldpbayes as lb

pytestmark = pytest.mark.filterwarnings("ignore::ldpbayes.errors.LDPBayesWarning")


@pytest.fixture(scope="module")
def table():
    """Return 8,000 reports in two cells, 24 categories, and their protocol."""
    rng = np.random.default_rng(1)
    protocol = lb.protocols.UnaryEncoding.optimized(24, epsilon=1.0)
    reports = protocol.privatize(rng.choice(24, size=8000, p=np.arange(1, 25) / 300), rng)
    return pyarrow.table({"report": list(map(bytes, reports)), "c": ["a", "b"] * 4000}), protocol


def shown(result, target):
    """Return mean, sd and ends of a target, (cells, a) arrays."""
    part = result["summary"].to_dataset().sel(target=target)
    return [part[name].values for name in ("mean", "sd", "lower", "upper")]


def test_intervals_of_f_are_those_of_the_whole_reports(table):
    summaries, whole = lb.scan(*table, by="c", keep=0), lb.read(*table, report="report", by="c")
    assert not any(cell.keeps_reports for cell in summaries.collections())
    found, known = lb.fit(summaries, "learnt", random_seed=1), lb.fit(whole, "learnt", draws=0)
    (mean, sd, *ends), (centre, spread, *ends_of_p) = shown(found, "frequency"), shown(found, "distribution")
    known_f, known_p = (shown(known, target) for target in ("frequency", "distribution"))
    for k, (end, of_p) in enumerate(zip(ends, ends_of_p, strict=True), start=2):
        assert (np.abs(end - mean - sd / spread * (of_p - centre)) / sd).max() < 0.03  # multiples of 1/n
        away, away_of_p = (end - known_f[k]) / sd, (of_p - known_p[k]) / spread
        assert abs(away.mean()) < 0.05 and np.abs(away - away_of_p).mean() < 0.05
    errors = found["summary"].to_dataset().sel(target="frequency")[["lower_error", "upper_error"]]
    assert all((errors[name].values > 0).all() for name in errors)
