"""Views of texts and NUL in scans, Python without docstrings, and arguments that are no results or estimates."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import answers
from ldpbayes.protocols import UnaryEncoding, designs

ROOT = pathlib.Path(__file__).parents[1]
WARNER = designs.warner(0.7)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_texts_are_scanned_in_every_layout(kind):
    table = pa.table({"report": pa.array(["no", "yes", "yes"] * 2, kind), "g": pa.array(list("ababab"), kind)})
    found = lb.scan(table, WARNER, by="g", categories=["no", "yes"], progressbar=False)
    assert {key: cell.n_reports for key, cell in found.items()} == {("a",): 3, ("b",): 3}
    assert lb.read(table, WARNER, by="g", categories=["no", "yes"]).n_reports == 6


def test_bytes_are_scanned_in_every_layout():
    protocol = UnaryEncoding.symmetric(3, 1.0)
    for kind in (pa.binary(), pa.binary_view()):
        table = pa.table({"report": pa.array([b"\x80", b"\x40", b"\x40"], kind)})
        tally = lb.scan(table, protocol, progressbar=False)["all",].tallies[0]
        assert tally.counts.tolist() == [2, 1]


@each_row("source", ["a\0b", "a\0b.parquet", "x*\0.parquet", ["a\0b.parquet"]])
def test_a_name_with_nul_is_no_file_to_scan(source):
    with pytest.raises(lb.errors.DataError, match=r"cannot.*NUL"):
        lb.scan(source, WARNER)


WITHOUT_DOCSTRINGS = """
from ldpbayes.cli import main

for arguments in (["fit", "data/rr_nigeria.toml", "--seed", "1"], ["plan", "--help"]):
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:  # -OO leaves assertions out
            raise
    print("done", arguments[0])
"""


@pytest.mark.calibrate
def test_the_commands_run_without_docstrings():
    done = subprocess.run(
        [sys.executable, "-OO", "-c", WITHOUT_DOCSTRINGS], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    fitted, planned = re.fullmatch(r"(.*)done fit\n(.*)done plan\n", done.stdout, re.S).groups()
    assert fitted.strip() and "Usage" in planned, done.stdout


def test_a_word_is_no_other_result():
    tree = lb.fit(lb.Collection("ab", [lb.Tally(lb.GRR(2, 1.0), [0, 1], [6, 4])]), "flat", draws=20, random_seed=1)
    for wrong in ("DQ", 3, tree["posterior"]):
        with pytest.raises(lb.errors.ArgumentError, match=r"other must.*DataTree"):
            answers.contrast(tree, "a", "b", other=wrong)


def test_check_takes_a_tally_as_fit_does():
    tally = lb.Tally(UnaryEncoding.optimized(3, 1.0), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], [50, 40, 30, 2])
    found, whole = lb.check(tally), lb.check(lb.Collection("012", [tally]))
    assert (found.verdict, found.p_value) == (whole.verdict, whole.p_value)


def test_moments_of_unary_cells_are_those_of_each():
    protocol = UnaryEncoding.optimized(4, 1.0)
    reports = protocol.privatize(np.arange(300) % 4, np.random.default_rng(1))
    cell = lb.Collection("abcd", [lb.Tally(protocol, reports)])
    both, alone = lb.fit(lb.Cells({"x": cell, "y": cell}), "jeffreys", draws=0), lb.fit(cell, "jeffreys", draws=0)
    for name in ("mean", "sd", "lower", "upper"):
        np.testing.assert_allclose(both["summary"][name].isel(cell=1), alone["summary"][name])
    np.testing.assert_allclose(both["sensitivity"]["move"].isel(cell=0), alone["sensitivity"]["move"])
    assert lb.show(both).tables and both["posterior"].sizes == {"cell": 2, "category": 4}


@pytest.mark.parametrize("reports", [lb.load_example("nigeria"), [0, 1, 1]], ids=["collection", "reports"])
def test_write_with_the_path_first_says_so(reports, tmp_path):
    for path in (tmp_path / "x.toml", str(tmp_path / "x.parquet")):
        with pytest.raises(lb.errors.ArgumentError, match=r"write\(collection, path\)"):
            lb.write(path, reports)
