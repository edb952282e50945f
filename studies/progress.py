"""The page of a study in blocks: how far it has come."""

import math

from ldpbayes.pages.page import Column, Kind, Note, Page, Table


def of_progress(study, cells) -> Page:
    """Return the Page that tells how far a study at its paper's size has come, and what the rest would take.

    Parameters
    ----------
    study : FullStudy
    cells : list of Cell
        From run_full.

    Returns
    -------
    Page
    """
    groups: dict[tuple, list] = {}
    for cell in cells:
        groups.setdefault((cell.settings["figure"], cell.settings["part"], cell.settings["protocol"]), []).append(cell)
    headers = ("figure", "part", "protocol", "cells", "finished", "replications", "wanted", "CPU time", "CPU time left")
    rows = []
    for at, held in groups.items():
        done = sorted(cell.replications for cell in held)
        goal = sorted({cell.goal for cell in held})
        left = [cell.seconds_left for cell in held]
        unknown = sum(map(math.isnan, left))
        rest = _duration(sum(x for x in left if not math.isnan(x))) + (f" + {unknown} cells" if unknown else "")
        finished = sum(cell.replications == cell.goal for cell in held)
        counts = f"{len(held):,}", f"{finished:,}", f"{done[0]:,} to {done[-1]:,}", f"{goal[-1]:,}"
        rows.append((*at, *counts, _duration(sum(cell.seconds for cell in held)), rest))
    columns = tuple(Column(h, h, "text", align="left" if h in ("figure", "part", "protocol") else "right") for h in headers)
    left = sum(cell.goal != cell.replications for cell in cells)
    summary = f"{study.title}: {len(cells) - left:,} of {len(cells):,} cells are finished."
    note = Note(
        Kind.METHOD,
        "CPU time left is at the measured rate; cells that have not begun are counted. The same command continues.",
    )
    title = f"{study.title} ({study.source})"
    facts = {"study": study.name, "cells": len(cells), "unfinished": left}
    return Page(title, (Table("", columns, tuple(rows)),), (note,), (), facts, summary, {"Source": study.source})


def _duration(seconds):
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
