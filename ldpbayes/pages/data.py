"""The pages of data before anything is fitted: a Collection, a Tally or Cells, and what ``auto`` considers."""

from ldpbayes.collections import Cells, Collection, Tally, as_collection
from ldpbayes.collections.data import mechanisms
from ldpbayes.pages.page import TOP, Column, Kind, Note, Page, Table
from ldpbayes.pages.prose import as_sentences, number_of


def of_collection(collection: Collection, *, title: str = "", top: int = TOP) -> Page:
    """Return the Page of a Collection: its channels, and the reports that came in where they are few."""
    heading = title or collection.title or collection.id
    columns = (
        Column("channel", "channel", "text"),
        Column("design", "design", "text"),
        Column("epsilon", "epsilon", spec=".4g"),
        Column("reports", "reports", spec=",.0f"),
    )
    rows = tuple((t.name, t.protocol.design, float(t.protocol.epsilon), float(t.n_reports)) for t in collection.tallies)
    listed = (
        Column("channel", "channel", "text"),
        Column("report", "report", "text"),
        Column("count", "count", spec=",.0f"),
    )
    lines = []
    if sum(len(tally.counts) for tally in collection.tallies) <= top:
        for tally in collection.tallies:
            texts = tally.protocol.format_reports(tally.reports, collection.categories[: tally.protocol.n_categories])
            for text, count in zip(zip(*texts, strict=True), tally.counts.tolist(), strict=True):
                lines.append((tally.name, ", ".join(map(str, text)), float(count)))
    channels = Table(f"{heading}: channels", columns, rows)
    reports = Table(f"{heading}: reports", listed, tuple(lines))
    said = mechanisms(collection.channels())
    summary = f"{said}, of {number_of(len(collection.categories), 'category', 'categories')}."
    facts = {"categories": list(collection.categories), "channels": channels.records(), "reports": reports.records()}
    tables = (channels, reports) if lines else (channels,)
    return Page(heading, tables, _noted(collection.notes), facts=facts, summary=summary)


def _noted(notes):
    """Return the notes of data, such as how many rows were left out while they were read."""
    return tuple(Note(Kind.DATA, line) for line in notes.splitlines() if line)


def of_tally(tally: Tally, *, title: str = "", top: int = TOP) -> Page:
    """Return the Page of a Tally, that of the collection with this one channel."""
    return of_collection(as_collection(tally), title=title or tally.name, top=top)


def of_cells(cells: Cells, *, title: str = "") -> Page:
    """Return the Page of Cells: a row for each cell."""
    heading = title or cells.title or cells.id
    covariates = cells.covariates or {}
    names = (*cells.by, *covariates)
    histories = bool(held := cells.channels()) and all(t.protocol.repeats() for pairs in held.values() for _, t in pairs)
    columns = (
        *(Column(name, name, "text") for name in names),
        Column("channels", "channels", "text"),
        Column("reports", "users" if histories else "reports", spec=",.0f"),
    )
    rows = []
    for i, (key, cell) in enumerate(zip(cells, cells.collections(), strict=True)):
        channels = ", ".join(t.name for t in cell.tallies) if cell.keeps_reports else "summary"
        entries = [str(values[i]) for values in covariates.values()]
        rows.append((*map(str, key), *entries, channels, float(cell.n_reports)))
    whole = Table(heading, columns, tuple(rows))
    said = mechanisms(cells.channels()) or number_of(int(cells.n_reports), "report")
    summary = f"{said}, in {number_of(len(cells), 'cell')}."
    facts = {"categories": list(cells.categories), "by": list(cells.by), "cells": whole.records()}
    return Page(heading, (whole,), _noted(cells.notes), facts=facts, summary=summary)


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
    summary = as_sentences(f"{choice.method.name}: {choice.reason}")
    return Page(heading, (Table(heading, columns, tuple(rows)),), notes, facts=facts, summary=summary)
