"""Public modules whose names load on first use, and that show editors what is public."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a public module whose names others define.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    homes : mapping of str to str
        Public names, and the modules below ldpbayes that define them. A home that ends in the name is the value itself.

    Returns
    -------
    tuple of callable
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = importlib.import_module(f"ldpbayes.{homes[name]}")
        if homes[name].rpartition(".")[2] != name:
            value = getattr(value, name)
        setattr(sys.modules[module], name, value)
        return value

    return load, lambda: [*sys.modules[module].__all__]
