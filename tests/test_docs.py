"""The examples on the pages of the site run as printed, one page after another in a namespace of its own."""

import inspect
import pathlib
import re
import warnings

import pytest

import ldpbayes as lb

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = [ROOT / "docs", *(ROOT / "docs" / name for name in ("howto", "theory", "reference"))]
PAGES = [path for folder in FOLDERS for path in sorted(folder.glob("*.md")) if "```python\n" in path.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M):
            exec(block, namespace)


def test_pages_with_examples_are_found():
    assert {"index.md", "howto/from-r-packages.md"} <= {str(page.relative_to(ROOT / "docs")) for page in PAGES}


def test_the_reference_names_everything_public():
    """Everything in ldpbayes but its modules, and every plot."""
    text = (ROOT / "docs" / "reference" / "index.md").read_text()
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.M))
    public = {name for name in lb.__all__ if not inspect.ismodule(getattr(lb, name))}
    assert public | {f"plots.{name}" for name in dir(lb.plots) if name.startswith("plot_")} <= listed
