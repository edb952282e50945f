"""What users who sent several reports have spent: the exact level of each history."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ldpbayes import checks
from ldpbayes.collections.tally import Tally
from ldpbayes.pages.page import Column, Table
from ldpbayes.result.facts import facts_of

#: Display: Numbers of reports a user that are listed one by one.
ROWS = 12


def spent(tallies: Iterable[Tally], cells: int = 1) -> dict:
    """Return the levels that users with several reports have spent, as attributes of a result.

    The level of a user is that of the whole history, log of its largest likelihood ratio between two values; see
    ``docs/theory/repeated.md``. It is for one value that does not change. Which users of a cell are in another is not
    known: with fresh reports what they may have spent in all cells together is bounded by the sum.

    Parameters
    ----------
    tallies : iterable of Tally
        Those whose reports are histories count.
    cells : int
        Number of cells that they belong to.

    Returns
    -------
    dict
        ``epsilon_spent_max`` (of all cells together), ``epsilon_spent_mean`` (of a user in a cell) and
        ``epsilon_spent_bound`` (of any number of reports) in nats, ``epsilon_spent`` (JSON: triples of reports, level and
        users, in order, each user once in every cell) and the sentence ``spent``; empty where no report is a history.

    Examples
    --------
    >>> from ldpbayes.protocols.grr import GRR
    >>> found = spent([Tally(GRR(3, epsilon=0.5), [0, 2, 2], user=["ann", "bo", "bo"])])
    >>> found["epsilon_spent_max"], found["epsilon_spent_mean"], found["epsilon_spent"]
    (1.0, 0.75, '[[1, 0.5, 1], [2, 1.0, 1]]')
    """
    users: Counter[tuple[int, float]] = Counter()
    bound = together = 0.0
    for tally in checks.entries(tallies, "tallies", "Tally objects"):
        checks.instance(tally, "tallies", Tally, "Tally objects")
        repeats = tally.protocol.repeats()
        if repeats is None:
            continue
        bound = max(bound, replace(repeats, times=None).epsilon)
        lengths: Counter[int] = Counter()
        for times, count in zip(repeats.lengths(tally.reports).tolist(), tally.counts.tolist(), strict=True):
            lengths[times] += count
        for times, count in lengths.items():
            users[times, repeats.spent(times)] += count
        together += 0.0 if repeats.memoized else repeats.spent(max(lengths))
    if not users:
        return {}
    lines = sorted((times, level, count) for (times, level), count in users.items() if count)
    most, mean = max(level for _, level, _ in lines), sum(level * n for _, level, n in lines) / sum(n for *_, n in lines)
    again = checks.integer(cells, "cells", 1) > 1 and together > 0
    start = f"{_histories(lines)}: {'in a cell ' * again}a user has spent {mean:.4g} nats on average and {most:.4g} at most"
    if again:
        limit = f". Who is in several cells counts as a user in each and has spent the sum, {together:.4g} where in all."
    elif bound < float("inf"):
        limit = f", of {bound:.4g} for any number of reports on one value."
    else:
        limit = ". Every further report adds to that."
    return {
        "epsilon_spent_max": max(most, together) if again else most,
        "epsilon_spent_mean": mean,
        "epsilon_spent_bound": bound,
        "epsilon_spent": json.dumps(lines),
        "spent": start + limit,
    }


def spent_in(data: Any) -> dict:
    """Return what users have spent in all cells of some data, or in its one collection.

    Parameters
    ----------
    data : Collection, Summary or Cells
    """
    tallies = [cell.tallies for cell in data.collections()]
    return spent(itertools.chain.from_iterable(tallies), cells=len(tallies))


def _histories(lines: list[tuple[int, float, int]]) -> str:
    """Return how many reports there are, of how many users, and how many of one."""
    low, high, reports = lines[0][0], lines[-1][0], sum(times * n for times, _, n in lines)
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{reports:,} reports of {sum(n for *_, n in lines):,} users, {number} each"


def of_spending(tree: Any) -> Table | None:
    """Return how many users sent how many reports, and the level spent, or None; of many numbers, spans of them."""
    facts = facts_of(tree)
    if "epsilon_spent" not in facts:
        return None
    lines = json.loads(facts["epsilon_spent"])
    spans: dict = {}
    for times, level, users in lines:
        key = times if len(lines) <= ROWS else times.bit_length()
        low, _, most, total = spans.get(key, (times, times, 0.0, 0))
        spans[key] = (low, times, max(most, level), total + users)
    rows = [(str(low) if low == high else f"{low} to {high}", users, most) for low, high, most, users in spans.values()]
    columns = (
        Column("reports", "reports a user", "text", align="right"),
        Column("users", "users", spec=",d"),
        Column("epsilon_spent", "spent", spec=".4g", full="level spent, in nats"),
    )
    return Table("Reports of a user, and the epsilon they have spent", columns, tuple(rows))
