"""The page of a cross-check."""

import functools

import numpy as np
import xarray as xr

from ldpbayes import plots
from ldpbayes.constants import MIN_P_VALUE
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page
from ldpbayes.pages.prose import as_sentences, sourced
from ldpbayes.pages.tables import TableRows, filled
from ldpbayes.plots.base import NAMES
from ldpbayes.robust.crosschecking import AT_MEANS

#: Which column is left out first where there is little room: the largest number; 4 unless stated.
_PRIORITY = {"mle": 3, "oracle": 5}
_MCSE = "The same difference in Monte Carlo standard errors."
_ENDS = "The end of the interval by NUTS less that by the other method, in standard errors of both: the larger of two."


def of_crosscheck(check, *, title: str = "Cross-check") -> Page:
    """Return the Page of a CrossCheck: a row for each category, or for each cell."""
    return _of_cells(check, title) if "cell" in check.dims else _of_one(check, title)


def _of_one(check, title) -> Page:
    heading = f"{title}: {check['reference'].item()} against {check['sampler'].item()}"
    notes = tuple(dict.fromkeys(_notes(check)))
    return Page(heading, (_shares(check, heading),), notes, (_figure(check, title),), _facts(check), _headline(check))


def _shares(check, heading):
    """Return the table of every share: the posterior, and what the other methods say in its standard deviations."""
    rows, away = TableRows(check, "cell", "category"), check["away"]
    columns = [
        *map(rows.label, rows.sizes),
        *(rows.number("mean", "mean"), rows.number("sd", "sd")),
        rows.number("difference_sd", "NUTS − mean (sd)", "+.3f", 2),
        rows.number("difference_mcse", "(MCSE)", "+.2f", 1, _MCSE),
        rows.number("end_errors", "interval end (s.e.)", "+.2f", 4, _ENDS),
    ]
    for name in map(str, away["estimator"].values):
        of = f"{NAMES.get(name, name)} − mean (sd)"
        column = Column(f"{name}_difference_sd", of, spec="+.2f", priority=_PRIORITY.get(name, 4))
        columns.append((column, rows.numbers(away.sel(estimator=name))))
    columns.append((Column("verdict", "verdict", "text"), rows(check["verdict"]).tolist()))
    return filled(heading, columns)


def _of_cells(check, title) -> Page:
    worst = np.abs(check[["difference_sd", "difference_mcse"]]).max("category")
    predictive = check["predictive_p"].min("channel") if check.sizes["channel"] else xr.full_like(check["fitness_p"], np.nan)
    rows = TableRows(check.assign({**worst, "predictive_p": predictive}), "cell")
    columns = [
        *(rows.label("cell"), rows.label("reference")),
        rows.number("difference_sd", "largest difference (sd)", ".3f", 1),
        rows.number("difference_mcse", "(MCSE)", ".2f", 0, _MCSE),
        rows.number("convex_excess", "MLE − cvxpy (nats)", "+.1g", 2),
        rows.number("predictive_p", "predictive p", ".3g"),
        rows.number("fitness_p", "least adjusted p", ".3g"),
    ]
    heading = f"{title}: every cell by two methods"
    notes = (*_said(check), *([Note(Kind.METHOD, AT_MEANS)] if check.attrs.get("at_means") else []))
    tables = filled(heading, columns), _shares(check, f"{title}: every share")
    return Page(heading, tables, notes, facts=_facts(check), summary=_headline(check))


def _headline(check):
    """Return what was found, with reports, design and prior in its first sentence."""
    return sourced(as_sentences(check.sentence), check.attrs)


def _compared(check):
    """Return what was compared, and by how much it differs at most."""
    away = np.abs(check["difference_sd"].values)
    worst = int(np.argmax(away))
    return (
        f"The posterior of {away.size:,} shares was computed twice, by {check['reference'].item()} and by "
        f"{check['sampler'].item()}. Their means differ by at most {away[worst]:.2g} posterior standard deviations "
        f"({check['category'].values[worst]})."
    )


def _figure(check, title):
    caption = f"Differences from the posterior mean by {check['reference'].item()}, in its standard deviations."
    draw = functools.partial(plots.plot_crosscheck, check, title=f"{title}: the same posterior by other means")
    return Figure("crosscheck", caption, f"One line per category. {caption} {_compared(check)}", draw)


def _notes(check):
    yield Note(Kind.VERDICT, _compared(check))
    for name, p in zip(check["channel"].values, check["predictive_p"].values, strict=True):
        flagged = p < MIN_P_VALUE
        text = f"The posterior predicts the reports of {name}{' badly' if flagged else ''}: p = {p:.3f}."
        yield Note(Kind.WARNING if flagged else Kind.DIAGNOSTIC, text)
    fitness, seed = _said(check)
    yield fitness
    yield Note(Kind.WARNING if check["convex_astray"].item() else Kind.DIAGNOSTIC, check["convex_verdict"].item())
    converged = check["sampler_converged"].item()
    yield Note(Kind.DIAGNOSTIC if converged else Kind.WARNING, as_sentences(check["outcome"].item()))
    yield seed


def _said(check):
    """Yield the notes that every cross-check has."""
    yield Note(Kind.WARNING if check.fitness_flagged else Kind.DIAGNOSTIC, check.fitness)
    yield Note(Kind.DATA, f"Seed {check.attrs['random_seed']}.")


def _facts(check):
    return dict(check.attrs) | {str(name): values.values.tolist() for name, values in check.variables.items()}
