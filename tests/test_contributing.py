"""The maintainers' map is true: every path and every identifier in backticks in CONTRIBUTING.md exists."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
#: What the tutorial of a new protocol makes, and is not there before.
MADE = {"ldpbayes/protocols/halting.py", "Halting(AbstractProtocol)", 'Case("halting", Halting)'}
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|js|toml|nc|parquet|json))")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\(\))?")


def marked():
    """Return what stands in backticks, outside of blocks of code."""
    text = re.sub(r"```.*?```", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S)
    return sorted(set(re.findall(r"`([^`\n]+)`", text)) - MADE)


@pytest.fixture(scope="module")
def code():
    listed = subprocess.run(["git", "ls-files", "*.py", "*.toml", "Makefile"], capture_output=True, text=True, cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return "\n".join((ROOT / name).read_text() for name in listed.stdout.split() if (ROOT / name).is_file())


def paths():
    return [word for word in marked() if PATH.fullmatch(word)]


def names():
    return [word for word in marked() if NAME.fullmatch(word) and not PATH.fullmatch(word)]


def test_the_map_names_many_files_and_things():
    assert len(paths()) > 60 and len(names()) > 30


def test_every_path_exists():
    missing = [word for word in paths() if not any(any(ROOT.glob(base + word)) for base in ("", "ldpbayes/", "ldpbayes/*/"))]
    assert not missing, missing


def test_every_identifier_exists(code):
    missing = []
    for word in names():
        parts = word.removesuffix("()").split(".")
        missing += [word] if any(not re.search(rf"\b{part}\b", code) for part in parts) else []
    assert not missing, missing


def test_every_tool_that_is_called_exists():
    called = [word for text in marked() for word in re.findall(r"(?:tools|tests)/[\w/.*-]+", text)]
    assert called and not [word for word in called if not list(ROOT.glob(word))]
