"""The page of a check of fit."""

from ldpbayes.pages.page import Column, Kind, Note, Page, Table


def of_check(found, *, title: str = "Check of fit") -> Page:
    """Return the Page of a Fitness.

    Parameters
    ----------
    found : Fitness
        From fitness.check().
    title : str
        Of the collection.

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
    return Page(heading, tables, tuple(notes), facts=facts_of(found))


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
