"""Standard output: JSON is JSON in every encoding, and nothing that a file holds steers the terminal.

Looked at: titles, labels, names and keys of grouping columns, in tables, notes, warnings and JSON; ASCII, Latin-1, UTF-8.
"""

import json
import os
import subprocess
import sys

import pytest

ODD = "\x1b[31m\x9b2J\u202e"


def printed(encoding, *arguments):
    """Return what a command prints on standard output, and on standard error, decoded."""
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "ldpbayes", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.fixture
def files(tmp_path):
    """A collection file with an odd title, and a table with an odd grouping column and odd keys."""
    (tmp_path / "reports.csv").write_text(f"report,g{ODD}\n" + "no,ä\nyes,b\n" * 20 + f"no,x{ODD}\n" * 20, encoding="utf-8")
    title = f"Ünder {ODD}"
    (tmp_path / "x.toml").write_text(
        f'title = {json.dumps(title)}\nid = "x"\ncategories = ["no", "yes"]\n[[channels]]\nprotocol = "grr"\n'
        'parameters = {epsilon = 1.0}\nfile = "reports.csv"\nreport = "report"\n',
        encoding="utf-8",
    )
    table = (
        tmp_path / "reports.csv",
        "--protocol",
        "grr",
        "-p",
        "epsilon=1",
        "--report",
        "report",
        "--by",
        f"g{ODD}",
        "--categories",
        "no,yes",
    )
    return {"title": (tmp_path / "x.toml",), "group": table}


@pytest.mark.calibrated("title-latin-1", "title-utf-8", "group-ascii", "group-utf-8")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("kind", ["title", "group"])
def test_json_is_json_in_every_encoding(files, kind, encoding):
    said, _ = printed(encoding, "fit", *files[kind], "--json", "--draws", "0")
    found = json.dumps(json.loads(said), ensure_ascii=False)
    assert "Ü" in found if kind == "title" else "ä" in found
    assert "\u202e" in found
    assert not {"\x1b", "\x9b", "\u202e"} & set(said)


@pytest.mark.parametrize("kind", ["title", "group"])
def test_nothing_steers_the_terminal(files, kind):
    said = "".join(printed("utf-8", "fit", *files[kind], "--draws", "0"))
    assert "\\x1b[31m\\x9b2J\\u202e" in said
    assert not {"\x1b", "\x9b", "\u202e"} & set(said)
