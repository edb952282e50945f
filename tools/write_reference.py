"""Write docs/reference/index.md from the public names: those of ``ldpbayes.__all__``, and those of its modules.

A test holds the page to what this script writes.
"""

import importlib
import inspect
import pathlib

import ldpbayes as lb

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "reference" / "index.md"
#: Headings of what stands at the door itself, and of each module; with dots, what is returned without a public name.
DOOR = {
    "Fit and ask": "fit regress associate by_private_group predictions comparisons poststratify contrast".split(),
    "What functions return": (
        "result.frame.Result regression.maximum.Maximum private_groups.result.PrivateGroups fitness.base.Fitness "
        "fitness.cells.CellsFitness robust.crosschecking.CrossCheck road.methods.Choice scanning.found.Found"
    ).split(),
    "Check, choose and plan": "check crosscheck select_method plan simulate".split(),
    "Data in, results out": "read scan write load save show load_example list_examples scanning.Scan".split(),
    "What was collected": "Collection Cells Tally".split(),
    "Protocols and survey designs": "GRR make_protocol".split(),
    "Priors": "priors.base.AbstractPrior priors.base.AbstractSoftmax priors.base.QuantileLaw".split(),
    "Errors and warnings": "LDPBayesError".split(),
}
MODULES = {
    "collections": "What was collected",
    "protocols": "Protocols and survey designs",
    "priors": "Priors",
    "methods": "Methods",
    "estimators": "Point estimates",
    "answers": "Questions to a posterior",
    "robust": "What conclusions withstand",
    "pymc": "Models of your own in PyMC",
    "planning": "Theory and plans",
    "theory": "Theory and plans",
    "plots": "Figures",
    "pages": "Pages",
    "errors": "Errors and warnings",
}


def members(module: str) -> list[str]:
    """Return the dotted names of what a public module and its modules have, without what stands at the door."""
    public = importlib.import_module(f"ldpbayes.{module}")
    found = []
    for name in public.__all__:
        value = getattr(public, name)
        if inspect.ismodule(value):
            found.extend(members(f"{module}.{name}"))
        elif callable(value) and getattr(lb, name, None) is not value:
            found.append(f"{module}.{name}")
    return found


def sections() -> dict[str, list[str]]:
    """Return the dotted names below ldpbayes of every section."""
    found: dict[str, list[str]] = {title: [*names] for title, names in DOOR.items()}
    for name in lb.__all__:
        if inspect.ismodule(getattr(lb, name)):
            found.setdefault(MODULES[name], []).extend(members(name))
        elif not any(name in names for names in DOOR.values()):
            raise SystemExit(f"{name} has no section of the reference: add it to DOOR.")
    return {title: sorted(set(names), key=lambda name: (name.count("."), name.lower())) for title, names in found.items()}


def page() -> str:
    """Return the text of the page."""
    entries = (
        "[Protocols and designs](../protocols/index.md) have an entry each: formula, level, expected error, an example.\n\n"
        "Results and answers have `.headline`, `.table()`, `.plot()`, `.page()`, `.save()` and `.settings`. "
        "`.plot()` draws the\n"
        "first picture of the page, and takes `ax` and `title`."
    )
    parts = [f"# Reference\n\n{entries}\n\n```{{eval-rst}}\n.. currentmodule:: ldpbayes\n"]
    for title, names in sections().items():
        listed = "\n".join(f"   {name}" for name in names)
        options = "   :toctree: generated\n   :nosignatures:"  # of overloads it would print the first's, cut
        parts.append(f"\n{title}\n{'-' * len(title)}\n\n.. autosummary::\n{options}\n\n{listed}\n")
    return "".join([*parts, "```\n"])


if __name__ == "__main__":
    PAGE.write_text(page())
