"""The page of a scan: its cells, what is kept of each, and what to do next."""

from collections.abc import Sequence
from typing import Any

from ldpbayes.pages.page import Column, Kind, Note, Page, Table
from ldpbayes.pages.prose import number_of


def of_scan(result: Any, *, output: str | None = None) -> Page:
    """Return the Page of the cells of a scan."""
    protocol = result.protocol
    extent = f"{number_of(result.n_reports, 'report')} in {number_of(len(result), 'cell')}"
    sampled = bool(result.samples)
    columns = (
        *(Column(name, name, "text") for name in result.by),
        Column("reports", "reports", spec=",.0f"),
        Column("kept", "kept as", "text"),
        *([Column("sample", "sampled reports", spec=",.0f", priority=1)] if sampled else []),
        Column("category", "largest category of the pilot", "text", priority=3),
        Column("share", "its share", spec=".4f", priority=2),
    )
    rows = [_row(key, cell, result, sampled) for key, cell in zip(result, result.collections(), strict=True)]
    whole = Table(extent, columns, tuple(rows))
    design = f"{protocol.design}, {protocol.n_categories} categories, epsilon {protocol.epsilon:.6g}"
    notes = [Note(Kind.DATA, f"Reports of {design}."), Note(Kind.METHOD, _method(result))]
    if result.notes:
        notes.append(Note(Kind.DATA, result.notes))
    if output is not None:
        notes.append(Note(Kind.DATA, f"The posterior of each cell: ldpbayes fit {output}."))
    facts = {
        "protocol": protocol.design,
        "epsilon": protocol.epsilon,
        "categories": list(result.categories),
        "by": list(result.by),
        "cells": whole.records(),
    }
    return Page("Scan of reports", (whole,), tuple(notes), facts=facts, summary=f"The files hold {extent}.")


def _row(key: Sequence, cell: Any, result: Any, sampled: bool) -> tuple:
    """Return the row of one cell."""
    sample = result.samples.get(tuple(key))
    size = [None if sample is None else len(sample.keys)] if sampled else []
    names = [str(part) for part in key]
    if cell.keeps_reports:
        form = "counts" if result.protocol.countable() else "whole reports"
        return (*names, cell.n_reports, form, *size, None, None)
    top = int(cell.summary.pilot.argmax())
    return (*names, cell.n_reports, "summary", *size, result.categories[top], float(cell.summary.pilot[top]))


def _method(result: Any) -> str:
    if result.protocol.countable():
        return "One pass counted the reports; the counts are all that they say, and every method applies to them."
    numbers = 4 * result.n_categories + 3
    small = [cell for cell in result.collections() if cell.keeps_reports]
    said = f"Two passes: support counts, then the likelihood at their posterior mean, the pilot: {numbers:,} numbers a cell."
    if small:
        said += f" {number_of(len(small), 'small cell')} of {len(result):,} kept all reports: a summary would be inaccurate."
    return said
