"""What works after ``import ldpbayes as lb``, and the sentences for what does not."""

import ast
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys

import pytest
from naming import unknown_names

import ldpbayes as lb

ROOT = pathlib.Path(__file__).parents[1]
MODULES = [value for name in lb.__all__ if inspect.ismodule(value := getattr(lb, name))]


@pytest.fixture
def tally():
    return lb.Tally(lb.GRR(3, epsilon=1.0), [0, 1, 2])


def test_every_public_name_loads_and_editors_see_it():
    for module in (lb, *MODULES):
        tree = ast.parse(pathlib.Path(module.__file__).read_text())
        seen = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        for name in module.__all__:
            assert getattr(module, name) is not None
            assert name in seen or name not in vars(module).get("_HOMES", ()), f"{name} is not imported for type checkers"
        assert dir(module) == sorted(module.__all__)


def test_the_door_is_small():
    assert len(lb.__all__) <= 40


def test_signatures_change_on_purpose():
    path = ROOT / "tools" / "write_signatures.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stored, now = tool.FILE.read_text().splitlines(), tool.text().splitlines()
    changed = [f"- {line}" for line in stored if line not in now] + [f"+ {line}" for line in now if line not in stored]
    assert stored == now, "\n".join(["python tools/write_signatures.py takes these on:", *changed])


#: Functions of one or two arguments whose first sentence says what these are: no more are to come.
SAID_IN_A_SENTENCE = {
    *("planning.bytes_per_report", "planning.has_free_epsilon", "planning.risk.spread", "theory.metrics.frontier"),
    *(f"theory.information.{name}" for name in ("dense_feasible", "dense_informations", "explicit_channel", "log_dets")),
    *("theory.information.support_law", "theory.information.value_entropy"),
}


def test_arguments_of_questions_figures_and_the_theory_are_described():
    """Most of them once, by name, for all functions that take them."""
    theory = [value for name in lb.theory.__all__ if inspect.ismodule(value := getattr(lb.theory, name))]
    undescribed = set()
    for module in (lb.answers, lb.plots, lb.planning, lb.planning.risk, *theory):
        functions = {name: function for name in module.__all__ if inspect.isfunction(function := getattr(module, name))}
        assert len(functions) >= 5, module.__name__
        for name, function in functions.items():
            names = set(inspect.signature(function).parameters)
            described = inspect.getdoc(function).partition("\nParameters\n")[2].partition("\n\n")[0]
            heads = [line.partition(" : ")[0] for line in described.splitlines() if not line.startswith(" ")]
            known = {one.strip(" *") for head in heads for one in head.split(",")}
            assert known >= names or len(names) < 3, f"{module.__name__}.{name}: {names - known}"
            undescribed |= set() if known >= names else {f"{module.__name__}.{name}".removeprefix("ldpbayes.")}
    assert undescribed == SAID_IN_A_SENTENCE


def test_submodules_are_attributes():
    code = "import ldpbayes as lb; lb.answers.contrast, lb.planning.risk, lb.planning, lb.plots.plot_forest"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_no_module_shares_the_name_of_a_function():
    for name in lb.__all__:
        if callable(getattr(lb, name)):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(f"ldpbayes.{name}")


def test_tallies_and_collections_add_up(tally):
    assert sum([tally, tally]).counts.tolist() == [2, 2, 2]
    collection = lb.Collection("abc", tally)
    assert sum([collection, collection]).n_reports == 6
    assert hash(collection) == hash(lb.Collection("abc", tally))


def test_texts_are_no_reports(tally):
    with pytest.raises(lb.errors.ArgumentError, match=r"numbers.*read takes"):
        lb.Tally(tally.protocol, ["yes", "no"])


def test_tallies_of_a_collection_are_tallies():
    with pytest.raises(lb.errors.ArgumentError, match=r"Tally objects.*int"):
        lb.Collection(["a", "b"], [1, 2])


@pytest.mark.parametrize("page", ["README.md"])
def test_names_in_the_readme_exist(page):
    text = (ROOT / page).read_text()
    for path in re.findall(r"\blb\.([A-Za-z_]+(?:\.[A-Za-z_]+)*)", text):
        value = lb
        for part in path.split("."):
            value = getattr(value, part)


@pytest.mark.parametrize("folder", ["benchmarks", "models", "studies", "tools"])
def test_what_scripts_name_is_there(folder):
    """Most of them take too long to be run here."""
    unknown = {path.name: unknown_names(path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))}
    assert len(unknown) > 2 and not {name: names for name, names in unknown.items() if names}
