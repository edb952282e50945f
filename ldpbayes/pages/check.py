"""The page of a check of fit."""

from ldpbayes.pages.about import about, again, fingerprint
from ldpbayes.pages.page import Column, Kind, Note, Page, Table


def of_check(found, *, title: str = "Check of fit", collection=None, command: str = "") -> Page:
    """Return the Page of a Fitness.

    Parameters
    ----------
    found : Fitness
        From fitness.check().
    title : str
        Of the collection.
    collection : Collection, optional
        What was checked: the page then says question and design.
    command : str
        The line for a shell that makes this page.

    Returns
    -------
    Page
        One row per test: statistic, p-value and p-value adjusted for the number of tests; the verdict.
    """
    columns = (
        Column("test", "test", "text"),
        Column("statistic", "statistic", spec=".4g", priority=1),
        Column("df", "df", spec=".0f", priority=2),
        Column("p_value", "p", spec=".3g"),
        Column("adjusted", "adjusted p", spec=".3g"),
        Column("method", "by", "text", priority=3),
    )
    rows = [
        (one.label, one.statistic, one.df, one.p_value, float(adjusted), one.method)
        for one, adjusted in zip(found.checks, found.adjusted, strict=True)
    ]
    notes = [Note(Kind.METHOD, text) for text in (found.notes if found.checks else ())]
    notes.append(Note(Kind.WARNING if found.flagged else Kind.VERDICT, found.verdict))
    heading = f"{title}: do the reports fit the design?"
    tables = (Table(heading, columns, tuple(rows)),) if rows else ()
    words = {} if collection is None else about(collection)
    data = "" if collection is None else fingerprint(collection)
    return Page(heading, tables, tuple(notes), (), facts_of(found), "", words, again(command, data=data))


def facts_of(found) -> dict:
    """Return a Fitness as plain data."""
    return {
        "checks": [
            {
                "name": one.name,
                "channel": one.channel,
                "statistic": one.statistic,
                "df": one.df,
                "p_value": one.p_value,
                "adjusted": float(adjusted),
                "method": one.method,
                "detail": one.detail,
            }
            for one, adjusted in zip(found.checks, found.adjusted, strict=True)
        ],
        "level": found.level,
        "p_value": found.p_value,
        "flagged": found.flagged,
        "verdict": found.verdict,
    }
