"""The page of a cross-check."""

import functools
import math

import numpy as np

from ldpbayes import plots
from ldpbayes.fitness.crosschecking import MIN_P_VALUE
from ldpbayes.pages.check import facts_of
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.prose import as_sentences

_LABELS = {"mle": "MLE", "oracle": "oracle"}
_MCSE = "The same difference in Monte Carlo standard errors."


def of_crosscheck(check, *, title: str = "Cross-check") -> Page:
    """Return the Page of a CrossCheck."""
    columns = [
        Column("category", "category", "text"),
        Column("mean", "mean"),
        Column("sd", "sd"),
        Column("difference_sd", "NUTS − mean (sd)", spec="+.3f", priority=4),
        Column("difference_mcse", "(MCSE)", spec="+.2f", priority=1, means=_MCSE),
    ]
    for name in check.estimates:
        columns.append(
            Column(
                f"{name}_difference_sd", f"{_LABELS.get(name, name)} − mean (sd)", spec="+.2f", priority=3 + (name != "mle")
            )
        )
    columns.append(Column("verdict", "verdict", "text"))
    rows = []
    for x, category in enumerate(check.categories):
        numbers = (check.mean, check.sd, check.difference_sd, check.difference_mcse, *check.estimates.values())
        rows.append((str(category), *(float(values[x]) for values in numbers), check.verdicts[x]))
    heading = f"{title}: {check.reference} against {check.sampler}"
    return Page(
        heading,
        (Table(heading, tuple(columns), tuple(rows)),),
        tuple(dict.fromkeys(_notes(check))),  # a finding of the sampler is a part of the conclusion too
        (_figure(check, title),),
        _facts(check),
        _summary(check),
    )


def of_crosscheck_of_cells(check, *, title: str = "Cross-check") -> Page:
    """Return the Page of a CellsCrossCheck: one row per cell."""
    columns = (
        Column("cell", "cell", "text"),
        Column("reference", "reference", "text", priority=2),
        Column("difference_sd", "largest difference (sd)", spec=".3f", priority=1),
        Column("difference_mcse", "(MCSE)", spec=".2f", means=_MCSE),
        Column("predictive_p", "predictive p", spec=".3g"),
        Column("fitness_p", "least adjusted p", spec=".3g"),
    )
    rows = []
    for label, found in zip(check.labels, check.cells, strict=True):
        largest = (float(np.abs(values).max()) for values in (found.difference_sd, found.difference_mcse))
        predictive = min((one.p_value for one in found.channels), default=math.nan)
        rows.append((label, found.reference, *largest, predictive, found.fitness.p_value))
    heading = f"{title}: every cell by two methods"
    notes = (
        Note(Kind.WARNING if check.fitness.flagged else Kind.DIAGNOSTIC, check.fitness.verdict),
        Note(Kind.WARNING if check.flagged else Kind.VERDICT, as_sentences(check.conclusion)),
    )
    facts = {"cells": dict(zip(check.labels, map(_facts, check.cells), strict=True))}
    facts |= {"flagged": check.flagged, "conclusion": check.conclusion}
    return Page(heading, (Table(heading, columns, tuple(rows)),), notes, facts=facts)


def _summary(check):
    """Return what was compared, and the conclusion is the verdict's."""
    worst = int(np.argmax(np.abs(check.difference_sd)))
    return (
        f"The posterior of {len(check.categories):,} shares was computed twice, by {check.reference} and by "
        f"{check.sampler}. Their means differ by at most {abs(check.difference_sd[worst]):.2g} posterior standard "
        f"deviations ({check.categories[worst]})."
    )


def _figure(check, title):
    draw = functools.partial(plots.plot_crosscheck, check, title=f"{title}: the same posterior by other means")
    caption = f"Differences from the posterior mean by {check.reference}, in its standard deviations."
    return Figure("crosscheck", caption, f"One line per category. {caption} {_summary(check)}", draw)


def _notes(check):
    for found in check.channels:
        flagged = found.p_value < MIN_P_VALUE
        word = "does not fit" if flagged else "fits"
        p = f"p = {found.p_value:.3f} by {found.detail}"
        text = f"Posterior predictive check of {found.name}: {p}: {word}."
        yield Note(Kind.WARNING if flagged else Kind.DIAGNOSTIC, text)
    yield Note(Kind.WARNING if check.fitness.flagged else Kind.DIAGNOSTIC, check.fitness.verdict)
    yield Note(Kind.DIAGNOSTIC if check.sampler_converged else Kind.WARNING, as_sentences(check.outcome))
    yield Note(Kind.WARNING if check.flagged else Kind.VERDICT, as_sentences(check.conclusion))


def _facts(check):
    names = ("reference", "sampler", "mean", "sd", "difference_sd", "difference_mcse", "flagged", "conclusion")
    return {
        "categories": [str(c) for c in check.categories],
        **{name: getattr(check, name) for name in names},
        "estimates_difference_sd": dict(check.estimates),
        "verdicts": list(check.verdicts),
        "channels": [
            {"name": one.name, "statistic": one.statistic, "p_value": one.p_value, "flagged": one.p_value < MIN_P_VALUE}
            for one in check.channels
        ],
        "fitness": facts_of(check.fitness),
    }
