"""The README's style type-checks, examples in the docs run, and what they say of files is true."""

import ast
import importlib.util
import inspect
import json
import pathlib
import re
import subprocess
import sys
import typing
import uuid
import warnings

import pytest

import ldpbayes as lb
from ldpbayes.answer import Answer
from ldpbayes.estimators.estimate import Estimate
from ldpbayes.fitness.base import Fitness
from ldpbayes.fitness.cells import CellsFitness
from ldpbayes.presenting import AbstractResult
from ldpbayes.private_groups import PrivateGroups
from ldpbayes.result import Result

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = pathlib.Path(lb.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: What runs neither here nor in test_docs, and why: a word of the block.
NOT_RUN = {
    "spark": "needs a cluster; tests/scanning/test_spark.py runs the same calls where Spark is installed",
    "dask": "needs a cluster; tests/test_docs.py runs the block with a stand-in",
    "ray": "needs a cluster; tests/test_docs.py runs the block with a stand-in",
    "arviz.compare": "takes half a minute; run below by `make calibrate`",
}


def blocks(page, kinds="py|python"):
    return re.findall(rf"^```(?:{kinds})\n(.*?)^```", page.read_text(), re.S | re.M)


def test_every_block_of_python_is_run_or_has_a_reason():
    """Blocks marked ``python`` are run by test_docs and test_readme in a fresh folder; those marked ``py`` are listed."""
    unexplained = [
        block
        for page in PAGES
        if "_build" not in page.parts and "tutorials" not in page.parts
        for block in blocks(page, "py")
        if not any(word in block for word in NOT_RUN)
    ]
    assert not unexplained


@pytest.mark.calibrate
def test_the_page_on_regressions_runs_whole_and_its_posteriors_are_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", lb.errors.LDPBayesWarning)
        for block in blocks(ROOT / "docs" / "howto" / "regression.md"):
            exec(block, names)
    assert names["counties"].attrs["converged"] and names["found"].attrs["converged"]


def test_no_function_shares_its_name_with_a_module_beside_it():
    """A type checker takes the module: ``lb.show(posterior)`` was "Module not callable"."""
    for init in PACKAGE.rglob("__init__.py"):
        beside = {path.stem for path in init.parent.glob("*.py")}
        for node in ast.walk(ast.parse(init.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] in beside:
                assert node.module.rpartition(".")[2] not in {alias.name for alias in node.names}, (init, node.module)
    assert callable(lb.show)


def test_annotations_take_sequences_and_fit_has_a_type():
    """As mypy reads them; the whole README is checked by tools/type_readme.py, below and by `make lint`."""
    for path, cls, wide in (("tally", "Tally", "ArrayLike"), ("collection", "Collection", "Sequence[str]")):
        tree = ast.parse((PACKAGE / "collections" / f"{path}.py").read_text())
        (body,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls)
        (init,) = (n for n in ast.walk(body) if isinstance(n, ast.FunctionDef) and n.name == "__init__")
        stated = {argument.arg: ast.unparse(argument.annotation) for argument in init.args.args[1:]}
        assert stated["reports" if cls == "Tally" else "categories"] == wide
        fields = [n.target.id for n in body.body if isinstance(n, ast.AnnAssign)]
        assert list(stated) == fields, "the constructor that type checkers see names every field, in order"
    assert typing.get_type_hints(lb.fit, localns={"Result": Result})["return"] is Result


def test_type_checkers_know_every_keyword_of_read():
    from ldpbayes.sources.door import Reading, read

    keywords = set(inspect.signature(read).parameters) - {"data", "protocol", "by"}
    assert set(Reading.__annotations__) == keywords


@pytest.mark.calibrate
def test_the_readme_type_checks_under_the_strictest_rules():
    done = subprocess.run([sys.executable, ROOT / "tools" / "type_readme.py"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


#: What mypy may say of pages, by a part of its line, and why.
TOLERATED = {
    "DuckDBPyRelation | None": "of another library",
    'base class "AbstractPrior"': "a prior without a size has None until it is asked for one",
    'Unsupported operand types for - ("None"': "the same",
    "Need type annotation": "of the notebook's own dict",
}
#: Names whose type another library keeps to itself (pandas, PyArrow, ArviZ and PyMC have no types), and what a result was
#: fitted to, which rooms have of their own kinds.
FOREIGN = {"build_model", "fitted", "frame", "loo", "table", "write"}

#: Classes of answers, whose names are asked for beside those of the door.
CLASSES = (AbstractResult, Answer, CellsFitness, Estimate, Fitness, PrivateGroups, Result, lb.pages.Page, lb.planning.Plans)


def type_tool():
    spec = importlib.util.spec_from_file_location("type_readme", ROOT / "tools" / "type_readme.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def answers_of_the_door():
    """Return the expressions whose types are asked for: names of the door, and what answers and data have."""
    lines = (ROOT / "tests" / "data" / "signatures.txt").read_text().splitlines()
    names = [match[0] for line in lines if (match := re.match(r"[A-Za-z][\w.]*(?=\(|$)", line))]
    for cls in CLASSES:
        names += [f"{cls.__name__}.{name}" for name in vars(cls) if not name.startswith("_")]
    nigeria = 'load_example("nigeria")'
    names += [f"estimators.{name}()(lb.{nigeria})" for name in ("MLE", "Oracle")] + ["plan(n=100, n_categories=2)[0]"]
    names += [
        f"{made}.{name}" for made in ("GRR(3, 1.0)", "protocols.crosswise(0.25)") for name in ("epsilon", "n_categories")
    ]
    return names


@pytest.mark.calibrate
def test_nothing_at_the_door_is_of_any_type_and_pages_type_check():
    """One run of mypy, some 30 CPU seconds: what the door returns, and each page of the docs as a script."""
    classes, names = [cls.__name__ for cls in CLASSES], answers_of_the_door()
    modules = sorted({name.rpartition(".")[0] for name in names if re.fullmatch(r"[a-z_.0-9]+", name) and "." in name})
    imports = [f"from {cls.__module__} import {cls.__name__}" for cls in CLASSES]
    opening = ["import ldpbayes as lb", *(f"import ldpbayes.{name}" for name in modules), *imports]
    asked = [name if name.split(".")[0] in classes else f"lb.{name}" for name in names]
    new = f"# {uuid.uuid4()}: of a file that it knows from its cache mypy reveals nothing"
    scripts = {"door": "\n".join([*opening, *(f"reveal_type({name})" for name in asked), new])}
    pages = [page for page in [*PAGES, *sorted((ROOT / "notebooks").glob("*.ipynb"))] if "_build" not in page.parts]
    tool = type_tool()
    scripts |= {str(page.relative_to(ROOT)): script for page in pages if (script := tool.script_of(page))}
    said, _ = tool.check(scripts, "--config-file", str(ROOT / "pyproject.toml"), *tool.OF_PAGES)
    lines = said.splitlines()
    wrong = [line for line in lines if ": error:" in line and not any(part in line for part in TOLERATED)]
    assert not wrong, "\n".join(wrong)
    found = {int(match[1]): match[2] for line in lines if (match := re.match(r'door\.py:(\d+): note: .*"(.*)"$', line))}
    revealed = [found[len(opening) + 1 + i] for i in range(len(asked))]
    returned = {
        name: text.rpartition("-> ")[2] for name, text in zip(asked, revealed, strict=True) if "-> " in text or "(" in name
    }
    untyped = {name: text for name, text in returned.items() if re.search(r"^Any$|\| Any\b|^tuple\[Any, Any\]", text)}
    assert not {name for name in untyped if name.rpartition(".")[2] not in FOREIGN}, untyped


def test_notebooks_take_shipped_examples_by_name():
    """Surveys that load_example knows are not read from a folder beside the notebook."""
    examples = {f"rr_{name}.toml" for name in lb.list_examples()}
    sources = {}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        sources[path] = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert len(sources) >= 10 and sum("load_example(" in source for source in sources.values()) >= 3
    for path, source in sources.items():
        assert not [name for name in re.findall(r"\.\./data/([\w.]+)", source) if name in examples], path


def test_contributors_are_told_which_models_use_the_package():
    using = [p.stem for p in (ROOT / "models").glob("*.py") if re.search(r"^(from|import) ldpbayes", p.read_text(), re.M)]
    (line,) = (line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| `models/`"))
    assert sorted(using) == ["hierarchical_groups", "ordered_random_walk", "regression_with_observe"]
    assert "show `observe`" in line and importlib.util.find_spec("ldpbayes")


def test_examples_of_help_that_name_shipped_data_find_it():
    """Those too that take long, which test_docs runs among the calibrations alone: files exist, and columns of formulas."""
    from ldpbayes.examples import path_of
    from ldpbayes.regression.formula import Formula

    shown = "".join(path.read_text() for path in (PACKAGE / "cli").glob("*.py"))
    named = set(re.findall(r"^ +ldpbayes \w+ example:([\w.]+)", shown, re.M))
    assert len(named) >= 5 and all(path_of(name).is_file() for name in named)
    formulas = re.findall(r'^ +ldpbayes regress example:(\w+) "([^"]+)"', shown, re.M)
    assert len(formulas) >= 2
    for name, text in formulas:
        cells = lb.load_example(name)
        assert set(Formula.parse(text).variables) <= {*cells.by, *(cells.covariates or {})}


@pytest.mark.calibrate
def test_the_regression_of_help_with_effects_of_groups_runs(tmp_path, capsys):
    from commands import run

    page = tmp_path / "regression.html"
    arguments = ("example:nigeria_cells", "connections ~ female + (1 | age_group)", "--page", page, "--seed", "1")
    status, printed, problems = run(capsys, "regress", *arguments)
    assert status == 0 and "age_group" in printed and page.exists(), problems
