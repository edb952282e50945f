"""What a plain install brings, what is an extra, and that exact fits need none of the heavy libraries."""

import ast
import functools
import pathlib
import re
import subprocess
import sys
import tomllib

import ldpbayes

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Distributions whose import name differs, and those that another one imports.
IMPORT_NAMES = {"arviz-base": "arviz_base", "arviz-stats": "arviz_stats", "tomli-w": "tomli_w"}
IMPORTED_BY_OTHERS = {"h5py", "arviz_base"}  # h5netcdf writes through the one, arviz-stats stands on the other
FEATURES = {"plots", "frames", "regress"}
#: Features that ``all`` leaves out, for their size.
LARGE = {"spark"}


def distribution(requirement):
    return re.match(r"[A-Za-z0-9_-]+", requirement).group().lower()


@functools.cache
def imported():
    """Return the top-level names that the package imports anywhere."""
    found = set()
    for path in (ROOT / "ldpbayes").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found


def test_nothing_is_mandatory_that_is_not_imported():
    names = {IMPORT_NAMES.get(d, d) for d in map(distribution, PROJECT["dependencies"])} - IMPORTED_BY_OTHERS
    assert names <= imported()


def test_every_import_is_declared():
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *(r for name in FEATURES | LARGE for r in extras[name])]
    names = {IMPORT_NAMES.get(d, d).replace("-", "_") for d in map(distribution, declared)}
    # pytensor comes with PyMC, and is its interface; only type checkers read typing_extensions, and they bring its types
    own = {"ldpbayes", "pytensor", "typing_extensions"}
    assert {m for m in imported() if m not in sys.stdlib_module_names} - own <= names | {"numpy", "scipy"}


def test_no_extra_lists_what_nothing_imports():
    extras = PROJECT["optional-dependencies"]
    for name in FEATURES | LARGE:
        names = {IMPORT_NAMES.get(d, d).replace("-", "_") for d in map(distribution, extras[name])}
        assert names <= imported(), name


def test_all_has_every_feature():
    stated = PROJECT["optional-dependencies"]["all"][0]
    assert {f.strip() for f in stated.removeprefix("ldpbayes[").removesuffix("]").split(",")} == FEATURES


def test_the_wheel_holds_the_package_alone():
    """Studies, benchmarks and tools stand beside the package, which imports none of them."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert tool["packages"]["find"]["include"] == ["ldpbayes*"]
    assert not imported() & {"studies", "benchmarks", "tools", "tests"}


def test_licence_authors_and_citation_are_there():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert PROJECT["authors"]
    assert (ROOT / "ldpbayes" / "py.typed").exists()


def test_one_version_everywhere():
    """Package, metadata, citation and changelog name the same version, on the same day."""
    version = PROJECT["version"]
    assert ldpbayes.__version__ == version
    citation = dict(re.findall(r"^([a-z-]+): *(.*)$", (ROOT / "CITATION.cff").read_text(), re.M))
    assert {"cff-version", "message", "title", "authors", "version", "date-released", "license"} <= citation.keys()
    assert citation["version"] == version and citation["license"] == PROJECT["license"]
    newest = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest.groups() == (version, citation["date-released"])


BLOCKED = """
import sys
from importlib.machinery import PathFinder

ABSENT = {"pymc", "pytensor", "nutpie", "cvxpy", "matplotlib", "numba", "narwhals", "joblib"}

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in ABSENT else find_spec(name, *rest)
"""


EXACT = """
import ldpbayes as lb
from ldpbayes import cli

three = lb.Collection(["a", "b", "c"], [lb.Tally(lb.GRR(3, 1.0), [0, 1, 2, 2])])
lb.fit(three)
for arguments in (["data/rr_eriksson_cheating.toml", "--json"], ["data/rr_nigeria.toml"]):
    try:
        cli.main(["fit", *arguments, "--seed", "1"])
    except SystemExit as end:
        assert not end.code, arguments
ABSENT.remove("numba")
lb.fit(lb.Cells({1: three, 2: three}), "flat", random_seed=1, estimates=False)
"""


def test_exact_fits_need_no_heavy_library():
    done = subprocess.run([sys.executable, "-c", BLOCKED + EXACT], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
