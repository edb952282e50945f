"""What users who sent several reports have spent: the exact level of each history."""

import json
from collections import Counter
from collections.abc import Iterable

from ldpbayes import checks
from ldpbayes.collections.tally import Tally


def spent(tallies: Iterable[Tally]) -> dict:
    """Return the levels that users with several reports have spent, as attributes of a result.

    The level of a user is that of the whole history, log of its largest likelihood ratio between two values; see
    ``docs/theory/repeated.md``. It is for one value that does not change.

    Parameters
    ----------
    tallies : iterable of Tally
        Those whose reports are histories count.

    Returns
    -------
    dict
        ``epsilon_spent_max``, ``epsilon_spent_mean`` and ``epsilon_spent_bound`` (of any number of reports) in nats,
        ``epsilon_spent`` (JSON: triples of reports, level and users, in order) and the sentence ``spent``; empty where no
        report is a history.

    Examples
    --------
    >>> from ldpbayes.protocols.grr import GRR
    >>> found = spent([Tally(GRR(3, epsilon=0.5), [0, 2, 2], user=["ann", "bo", "bo"])])
    >>> found["epsilon_spent_max"], found["epsilon_spent_mean"], found["epsilon_spent"]
    (1.0, 0.75, '[[1, 0.5, 1], [2, 1.0, 1]]')
    """
    users: Counter[tuple[int, float]] = Counter()
    bound = 0.0
    for tally in checks.entries(tallies, "tallies", "Tally objects"):
        checks.instance(tally, "tallies", Tally, "Tally objects")
        repeats = tally.protocol.repeats()
        if repeats is None:
            continue
        bound = max(bound, repeats.epsilon_infinity)
        lengths: Counter[int] = Counter()
        for times, count in zip(repeats.lengths(tally.reports).tolist(), tally.counts.tolist(), strict=True):
            lengths[times] += count
        for times, count in lengths.items():
            users[times, repeats.spent(times)] += count
    if not users:
        return {}
    lines = sorted((times, level, count) for (times, level), count in users.items() if count)
    n = sum(count for *_, count in lines)
    most, mean = max(level for _, level, _ in lines), sum(level * count for _, level, count in lines) / n
    low, high, reports = lines[0][0], lines[-1][0], sum(times * count for times, _, count in lines)
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    limit = f", of {bound:.4g} for any number of reports" if bound < float("inf") else ", and every further report adds up"
    sentence = (
        f"{reports:,} reports of {n:,} users, {number} each: a user has spent {mean:.4g} nats on average and {most:.4g} at "
        f"most{limit} on one value."
    )
    return {
        "epsilon_spent_max": most,
        "epsilon_spent_mean": mean,
        "epsilon_spent_bound": bound,
        "epsilon_spent": json.dumps(lines),
        "spent": sentence,
    }
