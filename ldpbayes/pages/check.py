"""The page of a check of fit."""

from dataclasses import asdict, replace

from ldpbayes import plots
from ldpbayes.estimators.mle import maximize
from ldpbayes.fitness.cells import adjusted_of_cells
from ldpbayes.pages.page import DRAWN, Column, Kind, Note, Page, Table, figure_of
from ldpbayes.pages.prose import sourced, split

_P = "Probability of a statistic at least this large where the reports fit the design."
_ADJUSTED = "The same, adjusted for the number of tests."


def of_check(result, *, title: str = "Check of fit", collection=None) -> Page:
    """Return the Page of a Fitness."""
    columns = (
        Column("test", "test", "text"),
        Column("statistic", "statistic", spec=".4g", priority=1),
        Column("df", "df", spec=".0f", priority=2),
        Column("p_value", "p", spec=".3g", means=_P),
        Column("adjusted", "adjusted p", spec=".3g", means=_ADJUSTED),
        Column("method", "by", "text", priority=3, means="Where the p-value comes from."),
    )
    rows = [
        (check.label, check.statistic, check.df, check.p_value, float(adjusted), check.method)
        for check, adjusted in zip(result.checks, result.adjusted, strict=True)
    ]
    notes = [] if result.compliance is None else [Note(Kind.EVIDENCE, result.compliance.sentence(result.level))]
    notes += [Note(Kind.METHOD, text) for text in (result.notes if result.checks else ())]
    page = _page(result, title, columns, rows, notes, facts_of(result))
    collection = result.collection if collection is None else collection
    return page if collection is None else replace(page, figures=tuple(_figures(result, collection)))


def _page(result, title, columns, rows, notes, facts) -> Page:
    """Return the page of a check: the verdict is its summary, and the last of its notes where it is long."""
    summary, rest = split(sourced(result.verdict, {"source": result.source}))
    notes += [Note(Kind.WARNING if result.flagged else Kind.VERDICT, rest)] if rest else []
    heading = f"{title}: do the reports fit the design?"
    tables = (Table(heading, columns, tuple(rows)),) if rows else ()
    return Page(heading, tables, tuple(notes), facts=facts, summary=summary)


def _figures(result, collection):
    """Yield the picture of the reports beside what the maximum-likelihood estimate expects, where they can be counted."""
    if all(tally.protocol.report_law() is None for tally in collection.tallies):
        return

    most = max(DRAWN // len(collection.tallies), 2)

    caption = "Counts of the reports that came in, and of those expected at the maximum-likelihood estimate"
    caption += ": those that fit least." if any(len(tally.counts) > most for tally in collection.tallies) else "."
    yield figure_of("expected", caption, f"{caption} {result.verdict}", _expected, collection, most=most)


def _expected(collection, **style):
    """Return the picture at the maximum-likelihood estimate, which is computed where the picture is drawn."""
    return plots.plot_expected(collection, maximize(collection.rows).p, **style)


def of_check_of_cells(result, *, title: str = "Check of fit") -> Page:
    """Return the Page of a CellsFitness."""
    columns = (
        Column("cell", "cell", "text"),
        Column("test", "least fitting test", "text", priority=1),
        Column("p_value", "p", spec=".3g", means=_P),
        Column("adjusted", "adjusted p", spec=".3g", means=_ADJUSTED),
    )
    rows = []
    for label, cell, adjusted in zip(result.labels, result.cells, adjusted_of_cells(result.p_values), strict=True):
        least = cell.checks[int(cell.adjusted.argmin())].label if cell.checks else "no test is possible"
        rows.append((label, least, cell.p_value, float(adjusted)))
    told = dict.fromkeys(text for cell in result.cells for text in cell.notes)
    notes = [Note(Kind.EVIDENCE, result.compliance)] if result.compliance else []
    notes += [Note(Kind.METHOD, text) for text in told if text not in result.verdict]
    facts = {"cells": dict(zip(result.labels, map(facts_of, result.cells), strict=True)), "flagged": result.flagged}
    if result.equality is not None:
        same = result.equality.p_value > result.level
        words = "do not contradict one distribution in all cells" if same else "come from different distributions"
        notes.append(
            Note(Kind.EVIDENCE, f"The reports {words} (p = {result.equality.p_value:.3g}, {result.equality.detail}).")
        )
        facts["equality"] = {name: getattr(result.equality, name) for name in ("statistic", "df", "p_value")}
    return _page(result, title, columns, rows, notes, facts | {"level": result.level, "verdict": result.verdict})


def of_compliance(result, *, title: str = "Who follows the device") -> Page:
    """Return the Page of a ComplianceTest."""
    columns = (
        Column("statistic", "likelihood ratio", spec=".4g"),
        Column("p_value", "p", spec=".3g", means=f"Probability of a ratio at least this large under {result.words.nobody}."),
        Column("gamma", f"{result.words.symbol} at the maximum", spec=".3g", means=f"{result.words.some}: their share."),
    )
    row = (result.statistic, result.p_value, result.gamma)
    facts = dict(zip(("statistic", "p_value", "gamma"), row, strict=True))
    summary = sourced(result.sentence(), {"source": result.source})
    return Page(title, (Table(title, columns, (row,)),), facts=facts, summary=summary)


def facts_of(result) -> dict:
    """Return a Fitness as plain data."""
    tests = [asdict(check) | {"adjusted": float(p)} for check, p in zip(result.checks, result.adjusted, strict=True)]
    facts: dict = {"checks": tests}
    if result.compliance is not None:
        facts["compliance"] = {name: getattr(result.compliance, name) for name in ("statistic", "p_value", "gamma")}
    return facts | {name: getattr(result, name) for name in ("level", "p_value", "flagged", "verdict")}
