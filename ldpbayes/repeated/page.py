"""The table of what users have spent, on the page of a fit."""

import json

from ldpbayes.pages.page import Column, Table
from ldpbayes.result.facts import facts_of

#: Display: Numbers of reports a user that are listed one by one.
ROWS = 12


def of_spending(tree):
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
