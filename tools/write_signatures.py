"""Write tests/data/signatures.txt: what every public name takes. A test holds the names to it, so that a change is meant.

Run ``python tools/write_signatures.py`` after a change of a public signature.
"""

import enum
import inspect
import pathlib
import re
from collections.abc import Iterator

import ldpbayes as lb

FILE = pathlib.Path(__file__).parents[1] / "tests" / "data" / "signatures.txt"


def signature(value) -> str:
    """Return the parameters of a callable with their defaults, without annotations."""
    stated = inspect.signature(value)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in stated.parameters.values()]
    text = str(stated.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def methods(name: str, cls: type) -> Iterator[str]:
    """Yield the methods of a class whose parameters its documentation explains to users."""
    for member in sorted(n for n in dir(cls) if not n.startswith("_")):
        value = getattr(cls, member)
        if inspect.isroutine(value) and "Parameters\n" in (inspect.getdoc(value) or ""):
            yield f"{name}.{member}{signature(value)}"


def lines(module, prefix: str) -> Iterator[str]:
    """Yield one line for each public name of a module, and of the modules in it."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from lines(value, f"{prefix}{name}.")
        elif inspect.isclass(value):
            plain = issubclass(value, (Exception, enum.Enum))
            yield f"{prefix}{name}" + ("" if plain else signature(value))
            if prefix == "":
                yield from methods(name, value)
        else:
            yield f"{prefix}{name}" + (signature(value) if callable(value) else "")


def text() -> str:
    """Return the whole file."""
    return "\n".join(lines(lb, "")) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
