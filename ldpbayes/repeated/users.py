"""Long data: a column names the user of every report, and every user becomes one report, a history."""

from dataclasses import replace

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.repeated.fresh import histories_of, user_array
from ldpbayes.sources.base import check_total
from ldpbayes.sources.tally import read_parts


def read_users(source, channels, columns):
    """Return the tallies of users of a source by cell, a dict for each channel: one report, a history, for each user.

    The channels are of histories, or of any other protocols, by which each report was then made anew; there is one column of
    reports per field of a single report.

    Raises
    ------
    DataError
        On a row without a user; on a user with reports of two protocols in a cell, or in two cells where a permanent answer
        ties them together; and as ``histories_of``.
    """
    if columns.missing is not None:
        raise ArgumentError(
            "missing must be left out with by_user: it counts people, and a user's other reports are answers."
        )
    wholes = [protocol.repeats() for protocol in channels.protocols]
    pairs = zip(channels.protocols, wholes, strict=True)
    long = replace(channels, protocols=tuple(protocol if design is None else design.single for protocol, design in pairs))
    seen: dict = {}
    out: list[dict] = []
    parts_of = read_parts(source, long, columns, (*columns.by, columns.user))
    for protocol, design, name, parts in zip(channels.protocols, wholes, channels.names, parts_of, strict=True):
        cells: dict = {}
        for (*cell, who), own in parts.items():
            _check_user(who, name, cell, seen, design is not None and design.memoized, columns.user)
            cells.setdefault(tuple(cell), []).extend((who, *part) for part in own)
        out.append({})
        for cell, users in cells.items():
            who, reports, counts = zip(*users, strict=True)
            counts = np.concatenate(counts)
            merged = np.repeat(np.concatenate(reports), counts, axis=0)
            who = np.repeat(np.repeat(user_array(who), [len(part) for part in reports]), counts)
            try:
                law, histories = histories_of(protocol, merged, who)
                check_total(len(merged), int(law.lengths(histories).sum()))
            except DataError as err:
                raise DataError(err.message, field=columns.user) from None
            out[-1][cell] = Tally.trusted(law, histories, np.ones(len(histories), dtype=np.int64), name, channels.categories)
    return out


def _check_user(who, channel, cell, seen, tied, column):
    """Refuse a user without a name, with reports of two protocols in a cell, or in two cells where they are tied."""
    if checks.blank(who):
        raise DataError("has a row without a user", field=column)
    first, (before, bound) = seen.setdefault((who, *cell), channel), seen.setdefault(who, (cell, tied))
    if first != channel:
        raise DataError(
            f"user {shown(who)} has reports of two protocols in one cell, {first} and {channel}; group by a column that "
            "tells them apart",
            field=column,
        )
    if before != cell and (tied or bound):
        at = ", ".join(map(str, before)), ", ".join(map(str, cell))
        raise DataError(
            f"user {shown(who)} has reports in two cells, {shown(at[0])} and {shown(at[1])}, which one permanent answer "
            "ties together; group users, not reports",
            field=column,
        )
