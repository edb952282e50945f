"""Calibrations take hours: what passed on this very code is kept in a file, and a run that was cut off goes on.

The code of a test is the package, the modules that tests share, the test's own file and the test files from which it
imports, all without docstrings and comments, with the versions that are pinned and the data: prose and other tests may
change meanwhile.
"""

import ast
import hashlib
import json
import pathlib


def code_of(*folders, files=()):
    """Return a hash of the code of all modules of some folders but those of tests, and of files as they are."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.name.encode() + path.read_bytes())
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if not path.name.startswith("test_"):
                found.update(f"{path.relative_to(folder)} {_parsed(path)[0]}".encode())
    return found.hexdigest()


def code_of_test(path, shared):
    """Return a hash of a test's file, of the test files from which it imports, and of the code that all tests share."""
    path = pathlib.Path(path)
    code, imported = _parsed(path)
    for name in sorted(imported):
        code += _parsed(next(file for folder in path.parents if (file := folder / f"{name}.py").exists()))[0]
    return hashlib.sha256(f"{shared} {code}".encode()).hexdigest()[:16]


def _parsed(path):
    """Return a module's syntax tree without docstrings, as text, and the test files that it names in imports."""
    tree, imported = ast.parse(path.read_text(encoding="utf-8")), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body[0] = ast.Pass()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("test_"):
            imported.add(node.module)
    return ast.dump(tree), imported


def passed(path):
    """Return the pairs of a test and of the code on which it passed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(entry["test"], entry["code"]) for entry in map(json.loads, lines)}


def add(path, code, test):
    """Add a test that passed; a line is written whole."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"code": code, "test": test}) + "\n")
