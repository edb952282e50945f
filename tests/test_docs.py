"""The examples on the pages of the site run as printed, one page after another in a namespace of its own."""

import functools
import inspect
import json
import pathlib
import pickle
import re
import shlex
import subprocess
import sys
import types
import warnings

import commands
import numpy as np
import pytest
import typer
import xarray as xr
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.cli import options, shell
from ldpbayes.scanning import Scan

pytestmark = pytest.mark.together("kernels")

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import blocks  # noqa: E402

FOLDERS = [ROOT / "docs", *(ROOT / "docs" / name for name in ("howto", "theory", "protocols"))]
PAGES = [path for folder in FOLDERS for path in sorted(folder.glob("*.md")) if "```python\n" in path.read_text()]
#: A block that fits effects of groups takes five seconds: `test_every_block_runs_alone` executes it.
SAMPLED = "~ age + (1 |"
#: A number, and what is left of a text without its numbers and the spaces that line them up.
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
WORDS = functools.partial(re.sub, r"[\d.,\s]+", " ")


def numbers(text):
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


#: Pages whose examples take more than five seconds: `make calibrate` runs these.
LONG_PAGES = (
    "reports-at-scale",
    "from-ldp-packages",
    "direct-questions",
    "survey-to-population",
    "gallery",
    "repeated-reports",
    "arviz",
)
PAGES_AND_MARKS = [pytest.param(page, marks=pytest.mark.calibrate if page.stem in LONG_PAGES else ()) for page in PAGES]


@pytest.mark.parametrize("page", PAGES_AND_MARKS, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block, shown in blocks.BLOCK.findall(page.read_text()):
            if SAMPLED in block:
                continue
            capsys.readouterr()
            exec(block, namespace)
            if shown:
                printed = capsys.readouterr().out
                assert WORDS(printed) == WORDS(shown)
                assert numbers(printed) == pytest.approx(numbers(shown), rel=0.01, abs=2e-5)
    for name, value in namespace.items():  # "Do not trust this posterior yet" is no example
        if isinstance(value, xr.DataTree) and "converged" in value.attrs:
            assert value.attrs["converged"], (name, value.attrs["outcome"])


@each_row("page", PAGES)
def test_every_block_can_be_copied_alone(page):
    """With the lines that the copy button takes along nothing is undefined; `test_every_block_runs_alone` runs them."""
    code = [block for block, _ in blocks.BLOCK.findall(page.read_text())]
    for above, block in zip(blocks.needed(code), code, strict=True):
        assert not blocks.undefined(f"{above}\n{block}"), block


@pytest.mark.calibrate
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_every_block_runs_alone(page, capsys, tmp_path, monkeypatch):
    code = [block for block, _ in blocks.BLOCK.findall(page.read_text())]
    for i, (above, block) in enumerate(zip(blocks.needed(code), code, strict=True)):
        (tmp_path / f"{i}").mkdir()
        monkeypatch.chdir(tmp_path / f"{i}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(f"{above}\n{block}", {})


class Cluster:
    """Stands in for Dask's Client and for ray; whatever it passes on has been pickled."""

    def __init__(self, *args):
        self.passed = 0

    def call(self, work, *args, **settings):
        self.passed += 1
        args, settings = pickle.loads(pickle.dumps((args, settings)))
        return pickle.loads(pickle.dumps(work(*args, **settings)))

    def map(self, work, items, pure, **settings):
        assert pickle.loads(pickle.dumps(work))
        return [self.call(work, item, **settings) for item in items]

    def remote(self, work):
        return types.SimpleNamespace(remote=lambda *args: self.call(work, *args))

    def scatter(self, value, broadcast):
        return value

    def gather(self, values):
        return values

    put = get = gather


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_the_recipes_for_clusters_give_the_cells_of_one_machine(name, tmp_path, monkeypatch):
    """The code on the page, with a cluster that calls the functions here; both were also run on the real ones."""
    monkeypatch.chdir(tmp_path)
    protocol, rng = lb.make_protocol("oue", list(map(str, range(20))), {"epsilon": 1.0}), np.random.default_rng(0)
    for i in range(2):
        reports = protocol.privatize(rng.integers(20, size=60), rng)
        lb.write(reports, f"{i}.parquet", protocol, country=["NL", "BE"] * 30)
    page = (ROOT / "docs" / "howto" / "reports-at-scale.md").read_text()
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.S | re.M)
    (code,) = (block for block in blocks if name in block.partition("\n")[0])
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    monkeypatch.setitem(sys.modules, "dask", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "dask.distributed", types.SimpleNamespace(Client=lambda address: cluster))
    scan = Scan("*.parquet", by="country")
    namespace = {"scan": scan}
    exec(code, namespace)
    assert cluster.passed == 4 and namespace["found"] == scan()


def test_theory_opens_with_what_a_user_needs():
    """What holds, when, and how sure it is come first; proofs follow."""
    pages = {path for path in (ROOT / "docs" / "theory").glob("*.md") if path.stem not in ("index", "setting")}
    assert len(pages) >= 5
    for page in pages:
        text = page.read_text()
        first, second = re.findall(r"^## .*", text, re.M)[:2]
        assert first == "## What you need" and second in ("## Proofs and details", "## The study"), page.name
        opening = re.findall(r"^\*\*(.*?)\*\*", text.partition(second)[0], re.M)
        assert opening == ["What holds.", "When.", "How sure."], page.name


def test_tutorials_ask_a_question_take_a_wrong_turn_and_answer():
    """The answer has a heading of its own, or a paragraph that begins with the words: readers look for it."""
    listed, notebooks = (ROOT / "docs" / "learn.md").read_text(), sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) >= 10
    unanswered = []
    for path in notebooks:
        cells = json.loads(path.read_text())["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        title = re.match(r"# (.*)", text)[1]
        assert title.endswith("?") and f"[{title}](tutorials/{path.name})" in listed, path.name
        assert "wrong turn" in text.lower(), path.name
        unanswered += [] if re.search(r"^(\*\*The answer\.\*\*|##+ .*\bThe answer\b)", text, re.M) else [path.name]
    assert not unanswered


def test_pages_with_examples_are_found():
    assert {"index.md", "howto/from-r-packages.md"} <= {str(page.relative_to(ROOT / "docs")) for page in PAGES}


def test_the_reference_names_everything_public():
    """Everything at the door and in its modules."""
    text = (ROOT / "docs" / "reference" / "index.md").read_text()
    listed = {name.rpartition(".")[2] for name in re.findall(r"^   ([\w.]+)$", text, re.M)}
    for door in (lb, *(value for name in lb.__all__ if inspect.ismodule(value := getattr(lb, name)))):
        assert {name for name in door.__all__ if callable(getattr(door, name))} <= listed


def test_every_protocol_has_its_entry():
    """By the name that files use, with its parameters, when to take it, and an example that prints something."""
    entries = [
        section
        for page in sorted((ROOT / "docs" / "protocols").glob("*.md"))
        for section in re.split(r"^\([\w-]+\)=\n(?=## )", page.read_text(), flags=re.M)[1:]
    ]
    for described in lb.protocols.describe_protocols():
        (entry,) = (section for section in entries if re.search(rf"(?<!named )`{described.name}`,\s+with", section))
        stated = {name for name in re.findall(r"`(\w+)`", entry)}
        assert {parameter.name for parameter in described.parameters} - {"separator", "protocol"} <= stated, described.name
        assert re.search(r"```python\n.*?```text\n", entry, re.S), described.name
        assert "**When**" in entry or described.name in ("channel", "noncompliance"), described.name


SHELL = typer.main.get_command(shell())
#: Commands on the pages, and those that --help shows, where a long one goes on after a backslash.
PRINTED = [
    line for path in sorted((ROOT / "docs").glob("*/*.md")) for line in re.findall(r"^ldpbayes .*", path.read_text(), re.M)
]
EXAMPLES = {
    name: [
        " ".join(line.replace("\\\n", " ").split())
        for line in re.split(r"\n\s*\n", command.help.partition("Examples:")[2])
        if line.strip()
    ]
    for name, command in SHELL.commands.items()
}
SHOWN = [line for lines in EXAMPLES.values() for line in lines if line.startswith("ldpbayes ")]
#: Examples that sample, or take more than a second or two.
LONG = ("--method nuts", "example:minarets --plot", "hierarchical", "--seed 1 --page", "--by country --quantiles", "(1 |")
LONG += ("female + married", "ldpbayes associate", "ldpbayes crosscheck")


@each_row("line", sorted({*PRINTED, *SHOWN}))
def test_commands_that_readers_see_are_understood(line):
    """Every option exists and takes its value, and a protocol has all its parameters."""
    name, *arguments = shlex.split(line, comments=True)[1:]
    with SHELL.commands[name].make_context(name, arguments) as context:
        given = context.params
    labels, number = given.get("categories"), given.get("n_categories")
    protocols = given.get("protocol") if name != "plan" else None
    if protocols and not given.get("epsilon_column") and (labels or number):
        labels = labels.split(",") if labels else list(map(str, range(number)))
        assert lb.make_protocol(protocols, labels, options.parameters(given["parameter"])).n_categories == len(labels)


def typed(lines, folder, monkeypatch, capsys):
    """Type lines into a shell of an empty folder, one after another: each must end well, a check also in "does not fit"."""
    monkeypatch.chdir(folder)
    for line in lines:
        program, *arguments = shlex.split(line)
        if program == "ldpbayes":
            status, _, complaint = commands.run(capsys, *arguments)
            assert status in ((0, 1) if arguments[0] == "check" else (0,)), f"{line}: {complaint}"
        else:
            subprocess.run(line, shell=True, check=True)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_help_run_as_printed(name, tmp_path, monkeypatch, capsys):
    typed([line for line in EXAMPLES[name] if not any(word in line for word in LONG)], tmp_path, monkeypatch, capsys)


#: A cluster that no test has.
ELSEWHERE = "--spark spark://"
COMMANDS = {page: re.findall(r"^ldpbayes .*", page.read_text(), re.M) for page in sorted((ROOT / "docs").glob("*/*.md"))}


@pytest.mark.calibrate
@pytest.mark.parametrize(
    "page", [page for page in COMMANDS if COMMANDS[page]], ids=lambda path: str(path.relative_to(ROOT / "docs"))
)
def test_commands_of_pages_run_as_printed(page, tmp_path, monkeypatch, capsys):
    """In the folder in which the page's own code has been run: what they read ships, or has been written on the page."""
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block, _ in blocks.BLOCK.findall(page.read_text()):
            exec(block, namespace)
    typed([line for line in COMMANDS[page] if ELSEWHERE not in line], tmp_path, monkeypatch, capsys)


@pytest.mark.calibrate
@pytest.mark.parametrize("line", [line for line in SHOWN if any(word in line for word in LONG)])
def test_long_examples_of_help_run_as_printed(line, tmp_path, monkeypatch, capsys):
    typed([line], tmp_path, monkeypatch, capsys)


def test_examples_of_help_fit_a_terminal_and_can_be_pasted():
    for command in SHELL.commands.values():
        lines = command.help.partition("Examples:")[2].splitlines()
        assert max(map(len, lines)) <= 78, max(lines, key=len)
        assert all(
            line.endswith("\\") == after.startswith("     ") for line, after in zip(lines, [*lines[1:], ""], strict=True)
        )


def test_help_shows_examples():
    assert all(EXAMPLES.values()) and len(SHOWN) >= 40 and len(PRINTED) >= 10
