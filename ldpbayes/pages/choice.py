"""The page of what ``auto`` considers for a collection."""

from ldpbayes.pages.page import Column, Kind, Note, Page, Table


def of_choice(choice, *, title: str = "Collection") -> Page:
    """Return the Page of a Choice: every method considered, in order, whether it applies, and why."""
    heading = f"{title}: what auto considers, in order"
    columns = (
        Column("method", "method", "text"),
        Column("applies", "applies", "text"),
        Column("seconds", "predicted seconds", spec=".2g", priority=1),
        Column("reason", "why", "text"),
    )
    rows = []
    for name, answer in choice.considered:
        mark = "chosen" if name == choice.method.name else ("yes" if answer.feasible else "no")
        rows.append((name, mark, float(answer.seconds), answer.reason))
    facts = {"chosen": choice.method.name, "reason": choice.reason}
    facts["considered"] = [{"method": n, "applies": a, "seconds": s, "reason": r} for n, a, s, r in rows]
    notes = (Note(Kind.METHOD, choice.prior_reason),) if choice.prior_reason else ()
    facts |= {"prior_reason": choice.prior_reason}
    return Page(heading, (Table(heading, columns, tuple(rows)),), notes, facts=facts)
