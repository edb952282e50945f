"""The README's examples run as printed."""

import pathlib
import re
import shlex
import warnings

import pytest
from commands import run
from tabulated import each_row

from ldpbayes import fit, load_example

pytestmark = pytest.mark.together("models")

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
#: What a command exits with, where that is not 0.
STATUS = {"crosscheck": 1, "check": 1}


def numbers(text):
    return [float(x.replace(",", "")) for x in re.findall(r"\d[\d,]*\.?\d*", text)]


@pytest.mark.parametrize("examples", [1, pytest.param(None, marks=pytest.mark.calibrate)], ids=["first", "all"])
def test_python_examples_print_what_the_readme_shows(examples, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    monkeypatch.setenv("COLUMNS", "80")
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(blocks) >= 4
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(blocks[0], namespace)
        (shown,), printed = re.findall(r"```\n(From.*?)```", TEXT, re.S), capsys.readouterr().out
        assert [re.sub(r"[\d.,]+", "#", line) for line in shown.splitlines()] == [
            re.sub(r"[\d.,]+", "#", line) for line in printed.splitlines()[: len(shown.splitlines())]
        ]
        assert numbers(shown) == pytest.approx(numbers(printed)[: len(numbers(shown))], abs=2e-4)
        for block in blocks[1:examples]:
            exec(block, namespace)
    if examples:
        return
    summary = namespace["groups"]["summary"].sel(target="distribution", category="yes")
    smallest = summary["mean"].sel(cell=["0, 0, 55+", "1, 0, 55+"])
    assert smallest.values == pytest.approx([0.21, 0.25], abs=0.015)  # what the picture's text says
    yes = load_example("nigeria").categories.index("yes")
    share = namespace["draws"]["posterior"]["p"].mean(["chain", "draw"]).values[yes]
    assert share == pytest.approx(0.262, abs=0.005)


@each_row("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_links_of_the_front_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    folder = {"tutorials": "../notebooks"}
    paths = [page.parent / re.sub(r"^tutorials", folder["tutorials"], link) for link in links]
    assert not [str(path) for path in paths if not path.exists()]


COMMANDS = [shlex.split(line, comments=True)[1:] for line in TEXT.splitlines() if line.startswith("ldpbayes ")]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    status, printed, problems = run(capsys, *arguments)
    assert status == STATUS.get(arguments[0], 0), problems
    assert printed and "Traceback" not in problems


def test_numbers_beside_the_figure_of_groups_are_those_that_it_draws():
    """The README, the first page and the gallery say in words what the figure shows: they move with it, or this fails."""
    shares = r"0 % and 50 % (?:of|in) the smallest.*?(\d+) % and (\d+) %"
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md", "docs/gallery.md")]
    stated = [tuple(map(int, re.search(shares, text).groups())) for text in texts]
    groups = fit(load_example("nigeria_cells"), prior="hierarchical", random_seed=1)
    summary = groups["summary"].sel(target="distribution", category="yes")
    drawn = [summary.sel(cell=name) for name in ("0, 0, 55+", "1, 0, 55+")]
    for numbers in stated:
        for number, one in zip(numbers, drawn, strict=True):
            assert abs(number / 100 - float(one["mean"])) < 0.005 + 4 * float(one["mcse"])
