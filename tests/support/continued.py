"""Calibrations take hours: what passed on this very code is kept in a file, and a run that was cut off goes on.

The code is that of the package and of the tests, without docstrings and comments, so that prose may change meanwhile, with
the versions that are pinned and the data.
"""

import ast
import hashlib
import json


def code_of(*folders, files=()):
    """Return a hash of the code of all modules of some folders, and of files as they are."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.name.encode() + path.read_bytes())
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
                    node.body[0] = ast.Pass()
            found.update(f"{path.relative_to(folder)} {ast.dump(tree)}".encode())
    return found.hexdigest()


def passed(path, code):
    """Return the tests that passed on this code."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {entry["test"] for entry in map(json.loads, lines) if entry["code"] == code}


def add(path, code, test):
    """Add a test that passed; a line is written whole."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"code": code, "test": test}) + "\n")
