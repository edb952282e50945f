"""The reference lists what exists, and all of it; tools/write_reference.py writes it from the public names."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

import ldpbayes as lb
from ldpbayes.protocols.registry import ALIASES

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "index.md").read_text()
LISTED = re.findall(r"^   ([\w.]+)$", PAGE, re.M)


def test_the_page_is_what_the_public_names_say():
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "tools" / "write_reference.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.page() == PAGE, "run tools/write_reference.py"


@pytest.mark.parametrize(
    "names",
    [pytest.param(LISTED[::-1], marks=pytest.mark.calibrate), ["pages.Page", "planning.power", *LISTED]],
    ids=["backwards", "forwards"],
)
def test_every_name_exists_in_a_fresh_process(names):
    """Each one is looked up first of all, before another one has imported its module."""
    code = (
        "import pkgutil, sys, ldpbayes\n"
        "before = set(sys.modules)\n"
        "for name in sys.argv[1:]:\n"
        "    assert pkgutil.resolve_name('ldpbayes.' + name) is not None\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_every_protocol_design_answer_and_plot_is_listed():
    protocols = lb.protocols
    names = {cls.__name__ for cls in protocols.PROTOCOLS.values()}
    assert names <= {name.rpartition(".")[2] for name in LISTED}
    assert {f"protocols.{name}" for name in protocols.DESIGNS} <= set(LISTED)
    assert {f"answers.{name}" for name in lb.answers.__all__} >= {name for name in LISTED if name.startswith("answers.")}
    for name in protocols.protocol_names():  # every name that a collection file may say leads to something listed
        name = ALIASES.get(name, (name,))[0]
        made = protocols.PROTOCOLS.get(name)
        found = {made.__name__} if made else {name}
        assert found <= {listed.rpartition(".")[2] for listed in LISTED}, name
