"""Formulas in CSV pages, control characters in documents, booleans and numbers as reports, "/" in designs."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ldpbayes as lb
from ldpbayes import read
from ldpbayes.errors import DataError
from ldpbayes.protocols import GRR, HadamardResponse, LocalHashing, designs
from ldpbayes.scanning import scan

ABC = ["a", "b", "c"]


def test_no_page_steers_a_terminal_or_turns_a_text(tmp_path):
    """ESC and U+202E in labels, titles and names of cells reach no document as they are."""
    labels = ["\x1b[2Jno", "yes\u202etxt.exe", "\u2066both\u2069"]
    collection = lb.Collection(labels, lb.Tally(GRR(3, 1.0), [0, 1, 2], [60, 40, 20]), title="A \x1b]0;x\x07 \u202e survey")
    fitted = lb.fit(collection, draws=100, random_seed=1)
    for suffix in (".html", ".md", ".tex", ".csv", ".svg"):
        if suffix == ".svg":
            text = lb.plots.base.to_svg(lb.plots.plot_forest(fitted))
        else:
            lb.save(fitted, tmp_path / f"page{suffix}")
            text = (tmp_path / f"page{suffix}").read_text()
            assert "x1b[2Jno" in text.replace("\\textbackslash{}", "\\").replace("\\[", "[")
        assert not any(c in text for c in "\x1b\x07\u202e\u2066\u2069"), suffix


@pytest.mark.parametrize("read", [read, lambda frame, *args, **settings: scan(pa.table(frame), *args, **settings)])
def test_booleans_are_reports_of_two(read):
    two = pd.DataFrame({"report": [True, False, True]})
    for protocol in (GRR(3, 1.0), designs.forced_response(0.7, [1, 2, 1]), HadamardResponse(3, 1.0)):
        with pytest.raises(DataError, match="holds booleans"):
            read(two, protocol, report="report")
    found = read(two, GRR(2, 1.0), report="report")
    tally = found if isinstance(found, lb.Tally) else found["all",].tallies[0]
    assert tally.counts.tolist() == [1, 2]
    hashed = pd.DataFrame({"seed": [1, 2], "value": [True, False]})
    with pytest.raises(DataError, match="booleans"):
        read(hashed, LocalHashing(30, 3.0), report=["seed", "value"])


@pytest.mark.parametrize("read", [read, lambda frame, *args, **settings: scan(pa.table(frame), *args, **settings)])
def test_whole_numbers_are_reports_beside_named_categories(read):
    def counts(values, categories):
        found = read(pd.DataFrame({"report": values}), GRR(3, 1.0), report="report", categories=categories)
        tally = found if isinstance(found, lb.Tally) else found["all",].tallies[0]
        return np.bincount(tally.reports, tally.counts, 3).tolist()

    assert counts([0, 2, 2], ABC) == [1, 0, 2]
    assert counts([3, 1, 1], ["1", "2", "3"]) == [2, 0, 1]  # labels that are numbers are meant
    assert counts([2, 1, 1], ["0", "1", "2"]) == [0, 2, 1]
    with pytest.raises(DataError, match=r"row 1: report 3.*0\.\.2"):
        counts([3, 1, 1], ABC)
    with pytest.raises(DataError, match="unknown report"):
        counts([0, 1], ["1", "2", "x"])


def test_values_of_design_with_a_slash():
    rng = np.random.default_rng(1)
    protocols = {"face/face": designs.warner(0.8), "by phone": GRR(2, 2.0), "": GRR(2, 3.0)}
    frame = pd.DataFrame({"mode": np.array(list(protocols))[rng.integers(3, size=300)], "x": rng.normal(size=300)})
    reports = [int(protocols[mode].privatize_one(int(rng.random() < 0.4))) for mode in frame["mode"]]
    frame["answer"] = np.array(["no", "yes"])[reports]
    fitted = lb.regress(frame, "answer ~ x", protocols, design="mode", categories=["no", "yes"], draws=100, random_seed=1)
    assert fitted["summary"]["coefficients_mean"].sizes["term"] == 2


def test_columns_of_bits_with_the_names_of_the_categories_stand_in_their_order():
    """All labels would be swapped in silence."""
    labels = ["a", "b", "c"]
    frame = pd.DataFrame({"a": [True, False], "b": [False, True], "c": [True, True]})
    protocol = lb.make_protocol("oue", labels, {"epsilon": 1.0})
    counts = lb.read(frame, protocol, report=labels, categories=labels).rows.support_counts()
    np.testing.assert_array_equal(counts, [1, 1, 2])
    with pytest.raises(lb.errors.ArgumentError, match="report"):
        lb.read(frame, protocol, report=labels[::-1], categories=labels)
    shouted = frame.rename(columns=str.upper)
    np.testing.assert_array_equal(
        lb.read(shouted, protocol, report=list("ABC"), categories=labels).rows.support_counts(), [1, 1, 2]
    )
    with pytest.raises(lb.errors.ArgumentError, match="report"):
        lb.read(shouted, protocol, report=list("BAC"), categories=labels)
    numbered = frame.set_axis(["1", "2", "3"], axis=1)
    assert lb.read(numbered, lb.make_protocol("oue", 3, {"epsilon": 1.0}), report=["1", "2", "3"]).n_reports == 2


def test_shares_are_no_trials():
    with pytest.raises(lb.errors.ArgumentError, match="whole numbers of trials"):
        lb.protocols.Channel(validated=[[0.95, 0.15], [0.05, 0.85]])
