"""The first sentence of a page: what was found, in words that need no statistics."""

import json
import math

import numpy as np

from ldpbayes.fitness.cells import contradicting
from ldpbayes.pages.prose import number_of
from ldpbayes.pages.tables import interval_of
from ldpbayes.plots.base import asked
from ldpbayes.plots.groups import group_names
from ldpbayes.result.facts import facts_of

#: What follows an answer where a test of fit says so.
CONTRADICTED = "The reports contradict the design, so this is not final."
#: Display: Categories and derived quantities that a summary names.
NAMED = 3


def summary_of_fit(result) -> str:
    """Return the answer of a result of fit(): the shares, or the range of one share over the groups."""
    summary = _without_unknowns(result)
    start = f"From {_collected(facts_of(result), 'cell' in summary.dims)}"
    if summary.sizes.get("cell") == 1:
        (name,) = group_names(summary)
        start, summary = start if name == "all" else f"{start} in {name}", summary.isel(cell=0)
    text = _groups(summary, start) if "cell" in summary.dims else _shares(summary, start)
    doubt = "" if result.attrs.get("converged", 1) else "; the computation failed its own checks, so this is not final"
    return " ".join(filter(None, (f"{text}{_design_and_model(facts_of(result))}{doubt}.", _contradicted(result))))


def _contradicted(result):
    """Return the sentence that the reports do not fit the design; of cells in how many of them; empty where they fit."""
    if not result.attrs.get("fitness_flagged", 0):
        return ""
    cells = result["cells"].to_dataset() if "cells" in result.children else {}
    if "fitness_p" in cells and (flagged := contradicting(cells["fitness_p"].values.astype(float)).size):
        return CONTRADICTED.replace(",", f" in {flagged:,} of {number_of(cells.sizes['cell'], 'cell')},", 1)
    return CONTRADICTED


def _design_and_model(facts):
    """Return design and prior as the end of a sentence; empty for a regression, which names them itself."""
    if "formula" in facts:
        return ""
    design = facts.get("mechanisms", "")
    starts = [f"{number_of(int(facts['n_reports']), unit)} through " for unit in ("report", "user")]
    start = next((text for text in starts if design.startswith(text)), "")
    through = f" through {design.removeprefix(start)}" if start and " and " not in design else ""
    through = through or (f" by {design}" if design else "")
    return f";{through}{',' if through else ''} under the prior {facts['prior']}"


def _without_unknowns(result):
    """Return the summary without the unknowns of a caller's own model, which are no shares even where they lie in [0, 1]."""
    summary = result["summary"].to_dataset()
    unknowns = [name for name, values in result["posterior"].data_vars.items() if values.attrs.get("of") == "model"]
    if "quantity" not in summary.coords or not set(unknowns) & set(summary["quantity"].values):
        return summary
    rest = summary.drop_sel(quantity=[name for name in summary["quantity"].values if name in unknowns])
    return rest if rest.sizes["quantity"] else rest.drop_dims("quantity")


def _collected(attrs, several):
    """Return how many reports there are, and where users of one cell sent several each, of how many users."""
    n, histories = int(attrs["n_reports"]), json.loads(attrs.get("epsilon_spent", "[]"))
    reports = number_of(n + sum((times - 1) * users for times, _, users in histories), "report")
    if "formula" in attrs and attrs.get("mechanisms"):  # of a regression, whose page says it nowhere else
        design = attrs["mechanisms"]
        reports = design if design.startswith(reports) else f"{reports} ({design})"
    return f"{reports} of {number_of(n, 'user')}" if histories and not several else reports


def _shares(summary, start):
    """Return the quantities that the data declare where these are shares, or else the largest shares of people."""
    p, level = summary.sel(target="distribution"), interval_of(summary.attrs["ci_prob"])
    labels, numbers = p["category"].values, [p[key].values for key in ("mean", "lower", "upper", "sd")]
    yes = asked(labels)
    if yes is not None:
        (share,) = shares(*(part[[yes]] for part in numbers), level)
        return f"{start}, an estimated {share.replace(' (', f' of people are in the category {labels[yes]} (', 1)}"
    derived, first = _derived(summary), np.argsort(-numbers[0], kind="stable")[:NAMED]
    if derived is not None:
        (labels, numbers), first = derived, np.arange(min(len(derived[0]), NAMED))
    texts, named = shares(*(part[first] for part in numbers), level), labels[first]
    if derived is None and labels.size > first.size:
        clauses = [text.replace(" (", f" for {label} (", 1) for text, label in zip(texts, named, strict=True)]
        return f"{start}, the largest of {labels.size:,} shares are estimated as {_listed(clauses)}"
    clauses = [f"that of {label} as {text}" for text, label in zip(texts, named, strict=True)]
    return f"{start}, {_listed(clauses).replace('that of', 'the share of', 1).replace(' as ', ' is estimated as ', 1)}"


def _derived(summary):
    """Return (names, (means, lower ends, upper ends, sds)) of the derived quantities; None unless all are shares."""
    if "quantity" not in summary.coords:
        return None
    numbers = [summary[f"derived_{key}"].transpose(..., "quantity").values for key in ("mean", "lower", "upper", "sd")]
    are_shares = all(((0 <= part) & (part <= 1)).all() for part in numbers[:3])
    return (summary["quantity"].values, numbers) if are_shares else None


def _groups(summary, start):
    """Return the range over the groups of the share that a question is about, or of that which is largest on average."""
    p = summary.sel(target="distribution")
    labels, cells = p["category"].values, group_names(summary)
    numbers = [p[key].transpose("cell", "category").values for key in ("mean", "lower", "upper", "sd")]
    yes, derived = asked(labels), _derived(summary)
    if yes is None and derived is not None and len(derived[0]) == 1:  # such as the trait of a list
        labels, numbers = derived
    x = int(np.argmax(numbers[0].mean(axis=0))) if yes is None else yes
    ends = [int(find(numbers[0][:, x])) for find in (np.argmin, np.argmax)]
    texts = shares(*(part[ends, x] for part in numbers), interval_of(summary.attrs["ci_prob"]))
    if ends[0] == ends[1]:  # no group is larger than another
        return f"{start} in {len(cells):,} groups, the share of {labels[x]} is estimated as {texts[0]} in each"
    low, high = (text.replace(" (", f" in {cells[c]} (", 1) for text, c in zip(texts, ends, strict=True))
    return f"{start} in {len(cells):,} groups, the share of {labels[x]} is estimated between {low} and {high}"


def shares(mean, lower, upper, sd, level: str) -> list[str]:
    """Return shares in per cent with their intervals, all with as many decimals as the smallest sd allows.

    Parameters
    ----------
    mean, lower, upper, sd : (n,) arrays
    level : str
        What the first interval is called, such as "95 % interval".

    Returns
    -------
    list of str
        Such as "26.2 % (95 % interval 23.4 % to 29.0 %)".
    """
    sd = np.asarray(sd)
    least = np.min(sd, initial=1.0, where=(sd > 0) & (sd < 1))
    decimals = min(max(math.ceil(-math.log10(20 * least)), 0), 6)
    texts = []
    for i, numbers in enumerate(zip(mean, lower, upper, strict=True)):
        middle, low, high = (f"{100 * number:.{decimals}f} %" for number in numbers)
        texts.append(f"{middle} ({'' if i else f'{level} '}{low} to {high})")
    return texts


def _listed(texts):
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
