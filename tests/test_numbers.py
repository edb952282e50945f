"""Every tuned number has a written reason: fields of the kit and of the methods, and numbers on module level."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "ldpbayes"
#: What a field's reason begins with: worked out in a line, shown by the bank (benchmarks/ablation.md), timed or compared
#: once, what memory holds, or what others read.
REASONS = re.compile(r"\b(Derived|Bank|Measured|Memory|Format):|\bBank \(")
#: What a number on module level is.
KINDS = re.compile(r"#: (Memory|Format|Mathematics|Time|Display|Rule): ")
#: Parts whose numbers decide what a posterior is.
CORE = ("inference", "methods", "road")


def numeric(node):
    """Whether an expression is made of numbers alone."""
    plain = (ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    whole = all(isinstance(part, plain) for part in ast.walk(node))
    return bool(numbers) and whole and all(type(number) in (int, float) for number in numbers)


def fields(tree):
    """Yield (class, names of its fields whose default is a number)."""
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        values = [part for part in cls.body if isinstance(part, ast.AnnAssign) and part.value is not None]
        if names := [part.target.id for part in values if numeric(part.value)]:
            yield cls, names


def described(doc):
    """Return {name: text} of the sections Attributes and Parameters of a docstring."""
    entries, names = {}, ()
    for section in re.split(r"\n(?=\w+\n-{4,}\n)", doc):
        if not section.startswith(("Attributes\n", "Parameters\n")):
            continue
        for line in section.splitlines()[2:]:
            if head := re.match(r"([\w, ]+) : ", line):
                names = [name.strip() for name in head[1].split(",")]
                entries |= dict.fromkeys(names, "")
            elif line.startswith("    "):
                entries |= {name: f"{entries[name]} {line.strip()}" for name in names}
    return entries


def without_reason(tree):
    """Return the fields of a module's classes that its docstrings give no reason for."""
    lacking = []
    for cls, names in fields(tree):
        entries = described(ast.get_docstring(cls) or "")
        lacking += [f"{cls.name}.{name}" for name in names if not REASONS.search(entries.get(name, ""))]
    return lacking


def test_the_reader_of_reasons_sees_what_is_missing():
    stated = '"""A.\n\nAttributes\n----------\na, b : int\n    Steps. Derived: a loop ends.\nc : int\n    Steps.\n"""'
    code = f"class A:\n    {stated!s}\n    a: int = 1\n    b: int = 2\n    c: int = 3\n    d: int = 4".replace(
        "\n\nAttributes", "\n\n    Attributes"
    )
    code = re.sub(r"\n(?=(-{4}|[abc][, :]|    Steps))", "\n    ", code)
    assert without_reason(ast.parse(code)) == ["A.c", "A.d"]


@pytest.mark.parametrize("part", CORE)
def test_every_numeric_default_has_a_reason(part):
    files = [path for path in sorted((PACKAGE / part).rglob("*.py")) if path.name != "constants.py"]
    lacking = [f"{path.name}: {name}" for path in files for name in without_reason(ast.parse(path.read_text()))]
    assert not lacking, lacking


def on_module_level(path):
    """Yield (names, comment) of the numbers on module level; in constants.py, of all that stands there."""
    lines = path.read_text().splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if not (isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None):
            continue
        names = []
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            targets, values = [target], [node.value]
            if isinstance(target, ast.Tuple):
                targets = target.elts
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(targets)
            names += [
                part.id
                for part, value in zip(targets, values, strict=False)
                if isinstance(part, ast.Name)
                and part.id.lstrip("_").isupper()
                and (numeric(value) or path.name == "constants.py")
            ]
        if names:
            first = node.lineno - 1
            while first and lines[first - 1].startswith("#"):
                first -= 1
            yield names, "\n".join(lines[first : node.lineno - 1])


def test_every_number_on_module_level_says_what_it_is():
    lacking = [
        f"{path.relative_to(PACKAGE)}: {', '.join(names)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for names, comment in on_module_level(path)
        if not KINDS.match(comment)
    ]
    assert not lacking, "say Memory, Format, Mathematics, Time, Display or Rule first:\n" + "\n".join(lacking)


def test_constants_of_the_core_are_no_rules():
    """A rule of inference/, methods/ or road/ is a field of what uses it; no constant of theirs is one."""
    files = [path for part in CORE for path in (PACKAGE / part).rglob("constants.py")]
    rules = [names for path in files for names, comment in on_module_level(path) if comment.startswith("#: Rule")]
    assert files and not rules, rules
