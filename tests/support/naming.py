"""Names of the package that a script uses, looked up without running the script."""

import ast
import importlib
import types


def unknown_names(source):
    """Return what a script imports from ldpbayes, or reads as ``lb.module.name``, that is not there."""
    unknown = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("lb."):
            unknown += [ast.unparse(node)] * (not _there("ldpbayes", *ast.unparse(node).split(".")[1:]))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ldpbayes":
            unknown += [f"{node.module}.{alias.name}" for alias in node.names if not _there(node.module, alias.name)]
    return unknown


def _there(module, *names):
    """Return whether names lead somewhere, as far as they go through modules."""
    place = importlib.import_module(module)
    for name in names:
        if not isinstance(place, types.ModuleType) or not name.isidentifier():
            return True
        if not hasattr(place, name):
            return importlib.util.find_spec(f"{place.__name__}.{name}") is not None
        place = getattr(place, name)
    return True
