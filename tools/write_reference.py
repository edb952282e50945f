"""Write docs/reference/index.md from the public names: what ``ldpbayes.__all__`` and its modules say, and every protocol.

A test holds the page to what this script writes.
"""

import inspect
import pathlib

import ldpbayes as lb

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "reference" / "index.md"
#: Headings, and the packages whose names stand below them.
SECTIONS = {
    "Fit and check": ("association", "fitness", "fitting", "outcomes", "pages", "protocols.respondents", "regression"),
    "What was collected": ("collections", "examples", "likelihoods", "simulate", "sources"),
    "Priors": ("priors",),
    "Estimators and methods": ("estimators", "posteriors"),
    "Models of your own, and results": ("model", "outcomes.mixture", "result"),
    "Questions to a posterior": ("answers",),
    "Protocols": ("protocols",),
    "Errors and warnings": ("errors",),
}
#: What plans and prospects offer; the other modules of the theory are cited by the pages about it.
PLANS = (
    "planning.plan",
    "planning.plan_design",
    "planning.expected_error",
    "prospects.power",
    "prospects.poisoned_share",
    "prospects.noncompliance",
)


def sections() -> dict[str, list[str]]:
    """Return the dotted names below ldpbayes of every section."""
    found: dict[str, list[str]] = {title: [] for title in SECTIONS}
    for name in lb.__all__:
        value = getattr(lb, name)
        if not inspect.ismodule(value):
            home = value.__module__.removeprefix("ldpbayes.")
            closest = max((part for homes in SECTIONS.values() for part in homes if home.startswith(part)), key=len)
            found[next(title for title, homes in SECTIONS.items() if closest in homes)].append(name)
    protocols = lb.protocols
    known = set(lb.__all__)
    found["Protocols"] += [f"protocols.{cls.__name__}" for cls in protocols.PROTOCOLS.values() if cls.__name__ not in known]
    found["Protocols"] += [f"protocols.{name}" for name in protocols.COMBINATORS if name not in known]
    found["Survey designs"] = [f"protocols.designs.{name}" for name in protocols.DESIGNS]
    found["Questions to a posterior"] += [f"answers.{name}" for name in lb.answers.__all__ if name not in known]
    found["Pages and figures"] = [
        "pages.Page",
        "pages.write",
        *(f"plots.{n}" for n in dir(lb.plots) if n.startswith("plot_")),
    ]
    found["Plans"] = [f"theory.{name}" for name in PLANS]
    return {title: sorted(set(names), key=lambda name: (name.count("."), name.lower())) for title, names in found.items()}


def page() -> str:
    """Return the text of the page."""
    parts = ["# Reference\n\n```{eval-rst}\n.. currentmodule:: ldpbayes\n"]
    for title, names in sections().items():
        listed = "\n".join(f"   {name}" for name in names)
        parts.append(f"\n{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :toctree: generated\n\n{listed}\n")
    return "".join([*parts, "```\n"])


if __name__ == "__main__":
    PAGE.write_text(page())
