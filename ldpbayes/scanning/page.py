"""The page of the cells of a scan."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ldpbayes.collections.tally import excess_of
from ldpbayes.constants import MIN_P_VALUE
from ldpbayes.errors import listed, shown
from ldpbayes.fitness.base import p_in_words
from ldpbayes.fitness.sums import CONSTANT, UNKNOWN, fitness_of_excess, shown_levels
from ldpbayes.likelihoods.summary import sum_of_shares
from ldpbayes.pages.page import Column, Kind, Note, Page, Table
from ldpbayes.pages.prose import number_of
from ldpbayes.pages.summary import CONTRADICTED
from ldpbayes.scanning.monitor import beyond

_BEYOND = "Share of supports that no distribution explains: counts below n h or above n g; about 0 but for chance."
_SAMPLE = "Reports that were kept by chance beside the sums, by which the error of the summary is predicted."
_SUM = "Unbiased estimates of all shares add up to one under the design, whatever the shares, but for their error."
_NO_LAW = (
    "Only sums over the reports of this cell were kept, and no sum of this protocol has a law that is known for every P: "
    "they do not say whether the reports fit the design."
)
_COUNTED = (
    "The reports were counted: a check of the cells says whether they fit the design, ldpbayes check on the file of cells."
)
_KEPT = "All reports were kept, so that a check of them can say whether they fit the design."


def of_scan(result: Any, *, output: str | None = None) -> Page:
    """Return the Page of the cells of a scan."""
    protocol = result.protocol
    histories: Any = protocol.repeats()
    if histories is None or len(result) == 1 or histories.memoized:
        extent = number_of(result.n_reports, "report" if histories is None else "user")
    else:  # who is in several cells has a history in each
        extent = number_of(result.n_reports, "history of a user", "histories of users")
    extent += f" in {number_of(len(result), 'cell')}"
    summed = any(not cell.keeps_reports for cell in result.collections())
    sampled = summed and any(channel.samples for channel in result.by_channel)
    sums = _sums(result)
    columns = (
        *(Column(name, name, "text") for name in result.by),
        Column("reports", "reports", spec=",.0f") if histories is None else Column("users", "users", spec=",.0f"),
        Column("kept", "kept as", "text"),
        *([Column("sample", "sampled reports", spec=",.0f", priority=1, means=_SAMPLE)] if sampled else []),
        *([Column("category", "largest category of the pilot", "text", priority=3)] if summed else []),
        *([Column("share", "its share", spec=".4f", priority=2)] if summed else []),
        *([Column("sum", "sum of shares", spec=".4f", priority=1, means=_SUM)] if sums else []),
        *([Column("z", "z", spec=".2f", priority=1, means="The sum less one over its error.")] if sums else []),
        *([Column("beyond", "beyond the design", spec=".2%", priority=2, means=_BEYOND)] if sums else []),
    )
    rows = [
        _row(key, cell, result, sampled, summed)
        + ((*(sum_of_shares(sums[i], cell.n_reports) or (None,) * 4)[:3:2], _beyond(key, result)[0]) if sums else ())
        for i, (key, cell) in enumerate(zip(result, result.collections(), strict=True))
    ]
    whole = Table(extent, columns, tuple(rows))
    named = listed([_design(protocol) for protocol in result.protocols])
    design = f"{named}, {protocol.n_categories} categories"
    contradicted = False
    notes = [
        Note(Kind.DATA, f"{'Reports of ' if histories is None else 'Histories: '}{design}."),
        Note(Kind.METHOD, _method(result)),
        *_monitored(result),
    ]
    if result.notes:
        notes.append(Note(Kind.DATA, result.notes))
    if not protocol.countable():
        contradicted, said = _sum_of_all(result, sums)
        notes.append(said)
        notes += _beyond_of_all(result) if sums else []
    else:
        notes.append(Note(Kind.METHOD, _COUNTED))
    if output is not None:
        notes.append(Note(Kind.DATA, f"The posterior of each cell: ldpbayes fit {output}."))
    facts = {
        "protocol": protocol.design,
        "epsilon": protocol.epsilon,
        "categories": list(result.categories),
        "by": list(result.by),
        "cells": whole.records(),
    }
    if len(result.protocols) > 1:
        facts["channels"] = [{"protocol": one.design, "epsilon": one.epsilon} for one in result.protocols]
    facts["drift"] = [drift._asdict() for drift in result.monitor.drifts]
    facts["duplicates"] = [copies._asdict() for copies in result.monitor.duplicates]
    summary = " ".join((f"The files hold {extent}: {design}.", *([CONTRADICTED] if contradicted else [])))
    return Page("Scan of reports", (whole,), tuple(notes), facts=facts, summary=summary)


def _design(protocol: Any) -> str:
    """Return a protocol and its level in words; of users with several reports the level of each report."""
    each = protocol.parameters().get("of")
    if not isinstance(each, Mapping):
        return f"{protocol.design}, epsilon {protocol.epsilon:.6g}"
    level = f", epsilon {each['epsilon']:.6g} a report" if "epsilon" in each else ""
    return f"several reports of a user by {each['protocol']}{level}"


def _row(key: Sequence, cell: Any, result: Any, sampled: bool, summed: bool) -> tuple:
    """Return the row of one cell."""
    names = [str(part) for part in key]
    if cell.keeps_reports:
        form = "counts" if result.protocol.countable() else "whole reports"
        return (*names, cell.n_reports, form, *[None] * (sampled + 2 * summed))
    samples = [channel.samples[tuple(key)] for channel in result.by_channel if tuple(key) in channel.samples]
    size = [sum(len(sample.keys) for sample in samples) if samples else None] if sampled else []
    top = int(cell.summary.pilot.argmax())
    return (*names, cell.n_reports, "summary", *size, result.categories[top], float(cell.summary.pilot[top]))


def _sums(result: Any) -> list:
    """Return ``Summary.excess`` of every cell; none where reports are counted, whose counts say more, or none is known."""
    if result.protocol.countable():
        return []
    cells = list(result.collections())
    sums = [excess_of(cell.tallies) if cell.keeps_reports else cell.likelihood.excess for cell in cells]
    return sums if any(excess is not None and excess[1] > 0 for excess in sums) else []


def _sum_of_all(result: Any, sums: list) -> tuple[bool, Note]:
    """Return whether the sum of the shares of all cells together contradicts the design, and what it says and would show."""
    pairs = zip(sums, (cell.n_reports for cell in result.collections()), strict=bool(sums))
    known = [pair for pair in pairs if pair[0] is not None]
    if not known:
        law = result.protocol.size_law()
        said = _NO_LAW if law is None else CONSTANT if law.variance <= 0 else UNKNOWN
        return False, Note(Kind.METHOD, _KEPT if all(cell.keeps_reports for cell in result.collections()) else said)
    n = float(sum(n for _, n in known))
    tested = fitness_of_excess(sum(excess for excess, _ in known), n, MIN_P_VALUE)
    said = f"All cells together: {tested.verdict}"
    levels = shown_levels(result.protocol, n, MIN_P_VALUE) if len(result.protocols) == 1 else None
    if levels is not None:
        low, high = (f"{level:.4g}" if 0 < level < np.inf else "" for level in levels)
        ends = " or ".join(filter(None, (low and f"{low} and less", high and f"{high} and more")))
        said += f" Reports made with ε {ends} would show in 95 % of scans as large." if ends else " No other ε would show."
    said += " A wrong order of the categories would not show."
    return tested.flagged, Note(Kind.WARNING if tested.flagged else Kind.DIAGNOSTIC, said)


def _monitored(result: Any) -> list[Note]:
    """Return what a monitor says of drift between files and cells, of duplicates, and of keys that differ in case only."""
    twice = [name for name, many in Counter(", ".join(map(str, key)).casefold() for key in result).items() if many > 1]
    notes = [Note(Kind.WARNING, f"Cells differ in case only, such as {shown(name)}: are they one?") for name in twice[:1]]
    for drift in result.monitor.drifts:
        said = f"Drift between {drift.over}: χ² of support counts {drift.statistic:,.1f}, {drift.df:,.0f} degrees of freedom"
        said += f", {p_in_words(drift.p_value)}; the largest difference: {drift.worst}"
        if drift.category >= 0:
            said += f"; the category that differs most: {result.categories[drift.category]}"
            said += f", {p_in_words(drift.category_p_value)} for the largest of them"
        said += "."
        alike = drift.over != "files" or len(result) == 1
        said += "" if alike else " Files of several cells may hold different people."
        least = 2 * np.fmin(drift.p_value, drift.category_p_value)
        notes.append(Note(Kind.WARNING if alike and least < MIN_P_VALUE else Kind.DIAGNOSTIC, said))
    for copies in result.monitor.duplicates:
        of = f" of {copies.channel}" if len(result.by_channel) > 1 else ""
        chance = "" if np.isnan(copies.share_p_value) else f" ({p_in_words(copies.share_p_value, '≤')}, whatever P is)"
        known = f"{copies.share:.2%}" + (f" ± {copies.share_error:.2%}" if copies.share_error else "")
        said = f"Duplicates: {known} of reports{of} repeat an earlier one{chance}, {copies.expected:.2%} of the same under"
        said += " the design at the estimated P; one came"
        said += f" {number_of(copies.most, 'time')}, {p_in_words(copies.p_value, '≤')}."
        least = 2 * min(copies.p_value, copies.share_p_value)
        notes.append(Note(Kind.WARNING if least < MIN_P_VALUE else Kind.DIAGNOSTIC, said))
    return [*notes, Note(Kind.METHOD, result.monitor.needs)] if result.monitor.needs else notes


def _beyond(key: Any, result: Any) -> tuple[float | None, float]:
    """Return the share of supports of a cell that no P explains, and its p-value over all its channels."""
    cells = [(channel.protocol, channel.cells[tuple(key)]) for channel in result.by_channel if tuple(key) in channel.cells]
    found = [beyond(protocol, cell.n_reports, cell.likelihood.support_counts()) for protocol, cell in cells]
    parts = [part for part in found if part is not None]
    if len(parts) < len(cells):
        return None, 1.0
    sizes = [cell.n_reports for _, cell in cells]
    return float(np.average([share for share, _ in parts], weights=sizes)), min(1.0, len(parts) * min(p for _, p in parts))


def _beyond_of_all(result: Any) -> list[Note]:
    """Return the warning of cells whose supports no P explains, where there is one."""
    p_values = {key: _beyond(key, result)[1] for key in result}
    key = min(p_values, key=lambda key: p_values[key])
    p_value = min(1.0, len(result) * p_values[key])
    if p_value >= MIN_P_VALUE:
        return []
    name = ", ".join(map(str, key))
    return [Note(Kind.WARNING, f"Cell {name} has more or fewer supports of a category than any P gives, p = {p_value:.3g}.")]


def _method(result: Any) -> str:
    if result.protocol.countable():
        return "One pass counted the reports; the counts are all that they say, and every method applies to them."
    numbers = 4 * result.n_categories + 5
    first = "" if result.protocol.repeats() is None else "The reports of each user make one history. "
    small = [cell for cell in result.collections() if cell.keeps_reports]
    if len(small) == len(result):
        return f"{first}All reports were kept: a summary would be inaccurate."
    said = f"Two passes: support counts, then the likelihood at their posterior mean, the pilot: {numbers:,} numbers a cell."
    if small:
        said += f" {number_of(len(small), 'small cell')} of {len(result):,} kept all reports: a summary would be inaccurate."
    return first + said
