"""Long data: a column names the user of every report, and every user becomes one report, a history."""

from dataclasses import replace

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.protocols.repeated.fresh import histories_of, user_array
from ldpbayes.sources.base import check_total
from ldpbayes.sources.tally import read_parts


def read_users(source, channels, columns, user):
    """Return the tallies of users of a source by cell, a dict for each channel.

    Parameters
    ----------
    source : Source
    channels : Channels
        Of histories, or of any other protocols, by which each report was then made anew.
    columns : Columns
        With one column of reports per field of a single report.
    user : str
        The column of users.

    Returns
    -------
    list of dict
        From the key of a cell to its Tally, with one report, a history, for each user.

    Raises
    ------
    DataError
        On a row without a user; on a user with reports of two protocols, or in two cells where a permanent answer ties them
        together; and as ``histories_of``.
    """
    if columns.missing is not None:
        raise ArgumentError(
            "missing must be left out with by_user: it counts people, and a user's other reports are answers."
        )
    wholes = [protocol.repeats() for protocol in channels.protocols]
    pairs = zip(channels.protocols, wholes, strict=True)
    singles = [protocol if design is None else design.single for protocol, design in pairs]
    long = replace(channels, protocols=tuple(singles))
    cells_of = read_parts(source, long, replace(columns, by=(*columns.by, user)))
    seen: dict = {}
    out: list[dict] = []
    for protocol, design, name, parts in zip(channels.protocols, wholes, channels.names, cells_of, strict=True):
        cells: dict = {}
        tied = design is not None and design.memoized
        for key, held in parts.items():
            *cell, who = key
            if checks.blank(who):
                raise DataError("has a row without a user", field=user)
            channel, before = seen.setdefault(who, (name, cell))
            if channel != name:
                raise DataError(f"user {shown(who)} has reports of two protocols, {channel} and {name}", field=user)
            if before != cell and tied:
                at = ", ".join(map(str, before)), ", ".join(map(str, cell))
                raise DataError(
                    f"user {shown(who)} has reports in two cells, {shown(at[0])} and {shown(at[1])}, which one permanent "
                    "answer ties together; group users, not reports",
                    field=user,
                )
            cells.setdefault(tuple(cell), []).append((who, held))
        out.append({})
        for cell, users in cells.items():
            reports = [part for _, held in users for part, _ in held]
            counts = np.concatenate([many for _, held in users for _, many in held])
            sizes = [sum(len(many) for _, many in held) for _, held in users]
            who = np.repeat(user_array([name for name, _ in users]), sizes)
            merged = np.concatenate(reports)
            if (counts != 1).any():
                merged, who = np.repeat(merged, counts, axis=0), np.repeat(who, counts)
            try:
                law, histories = histories_of(protocol, merged, who)
                check_total(int(counts.sum()), int(law.lengths(histories).sum()))
            except DataError as err:
                raise DataError(err.message, field=user) from None
            out[-1][cell] = Tally.trusted(law, histories, np.ones(len(histories), dtype=np.int64), name, channels.categories)
    return out
