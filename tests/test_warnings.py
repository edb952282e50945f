"""Warnings name the caller's own line, however deep in the package they arise: not ``<sys>:0``, no file of the package.

Looked at: bad rows of frames and of files, read and scanned, a column of counts that is not read, keys that differ in
blanks, fits of categories that no report tells apart and fits that are not trusted, by ``fit`` and ``regress``. No call of
the package counts frames.
"""

import pathlib
import subprocess
import sys

import pandas as pd
import pytest

import ldpbayes as lb

PROTOCOL = lb.GRR(2, 1.0)
SETTINGS = {"report": "report", "categories": ["no", "yes"]}
BAD = pd.DataFrame({"report": ["no", "yes", "x"] * 5})
FLAT = [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]


@pytest.mark.parametrize(
    "door",
    [
        lambda path: lb.read(BAD, PROTOCOL, **SETTINGS, bad_rows="skip"),
        lambda path: lb.read(path, PROTOCOL, **SETTINGS, bad_rows="skip"),
        lambda path: lb.scan(path, PROTOCOL, **SETTINGS, bad_rows="skip"),
        lambda path: lb.read(pd.DataFrame({"report": ["no", "yes"], "count": [3, 4]}), PROTOCOL, **SETTINGS),
        lambda path: lb.read(pd.DataFrame({"report": ["no", "yes"], "g": ["a", "a "]}), PROTOCOL, **SETTINGS, by="g"),
        lambda path: lb.fit(lb.Tally(lb.protocols.Channel(FLAT), [0, 1], [5, 6]), random_seed=1, draws=10),
    ],
    ids=["frame", "file", "scan", "counts", "keys", "fit"],
)
def test_a_warning_stands_at_the_line_of_the_caller(tmp_path, door):
    BAD.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(lb.errors.LDPBayesWarning) as caught:
        door(str(tmp_path / "x.csv"))
    assert {one.filename for one in caught if issubclass(one.category, lb.errors.LDPBayesWarning)} == {__file__}


def test_a_warning_of_a_script_names_the_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import ldpbayes as lb\nlb.fit(lb.Tally(lb.protocols.Channel({FLAT}), [0, 1], [5, 6]), draws=10)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert f"{script}:2: RankDeficientWarning" in done.stderr
    assert str(pathlib.Path(lb.__file__).parent) not in done.stderr
