"""The README's examples run as printed."""

import pathlib
import re
import shlex
import warnings

import pytest
from commands import run

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
#: What a command exits with, where that is not 0.
STATUS = {"crosscheck": 1, "check": 1}


def test_python_examples(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(blocks) >= 4
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(block, namespace)
    out = capsys.readouterr().out
    assert "an estimated 26.2 % of people" in out and "mean of P" in " ".join(out.split())
    assert namespace["draws"]["posterior"]["p"].mean().item() == pytest.approx(0.5, abs=0.01)


COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in TEXT.splitlines()
    if line.startswith("ldpbayes ") and not line.startswith("ldpbayes study")
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    status, printed, problems = run(capsys, *arguments)
    assert status == STATUS.get(arguments[0], 0), problems
    assert printed and "Traceback" not in problems
