"""How many fabricated reports would change a conclusion."""

import math

import xarray as xr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers.base import one_channel
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.collections.data import mechanisms
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.presenting import recorded
from ldpbayes.protocols.base import Binomials


@recorded
def fakes(
    collection: Collection | Tally | xr.DataTree,
    category: str,
    *,
    lift: float | None = None,
    overtake: str | None = None,
    channel: str | None = None,
) -> Answer:
    """Return how many fabricated reports would lift a category's estimated share, or make it overtake another.

    The estimate is the unbiased one, (C_x/n − h)/(g − h); every fabricated report supports ``category``, and not the one
    to overtake.

    Parameters
    ----------
    collection : Collection, Tally or result of fit
    category : str
        Label of the category that is to rise.
    lift : float, optional
        By how much its share is to rise. Exactly one of lift and overtake.
    overtake : str, optional
        Label of the category that it is to overtake.
    channel : str, optional
        Name of the channel, for a collection with several; the numbers then hold for the estimate from that channel.

    Returns
    -------
    Answer
        ``added``, the reports to add (inf where no number is enough, 0 where none are needed), ``replaced``, those to
        replace in expectation (nan where the question is about another category), and ``share``, the added reports as a
        share of all reports then; attrs ``sentence``.

    Raises
    ------
    ArgumentError
        If an argument breaks its rule.
    InfeasibleError
        Where the reports have no support counts with known rates.

    Examples
    --------
    >>> from ldpbayes.protocols import GRR
    >>> tally = Tally(GRR(3, 1.0), [0, 1, 2], [500, 300, 200], categories=("a", "b", "c"))
    >>> fakes(tally, "c", overtake="a").added.item()
    301
    """
    form, labels, source = _form(collection, channel)
    if (lift is None) == (overtake is None):
        raise ArgumentError("fakes needs exactly one of lift and overtake.")
    x = labels.index(checks.choice(category, "category", labels))
    if lift is not None:
        lift = checks.probability(lift, "lift", open_low=True)
        added, replaced = (m if math.isinf(m) else math.ceil(m - 1e-9) for m in _for_lift(form, x, lift))
        goal = f"lift the estimated share of {category} by {lift:g}"
    else:
        y = labels.index(checks.choice(overtake, "overtake", labels))
        if x == y:
            raise ArgumentError(f"overtake must be another category than {category!r}.")
        # Just as many make both estimates equal: one more is needed.
        added = _to_overtake(form, x, y)
        ahead = (form.counts / form.n - form.other) / (form.hit - form.other)
        added, replaced = 0 if ahead[x] > ahead[y] else math.floor(added + 1e-9) + 1, math.nan
        goal = f"let the estimated share of {category} overtake that of {overtake}"
    if math.isinf(added):
        share, sentence = 1.0, f"No number of fabricated reports would {goal}."
    else:
        share = float(added / (form.n + added))
        sentence = f"{added:,} fabricated reports that support {category} ({100 * share:.2g} % of all) would {goal}."
    if not added:
        sentence = f"No fabricated reports are needed to {goal}: it is larger already."
    attrs = {"question": f"Fabricated reports that support {category}", "sentence": sentence}
    attrs |= {"source": f"{source}, by the unbiased estimate"} if source else {}
    return Answer({"added": added, "replaced": replaced, "share": share}, None, attrs)


def _form(reports: Collection | Tally | xr.DataTree, channel: str | None) -> tuple[Binomials, tuple[str, ...], str]:
    """Return the support counts with their rates, the labels, and reports and design in words."""
    if isinstance(reports, xr.DataTree):
        if channel is not None:
            raise ArgumentError("channel goes with a collection; a result of several channels has no support counts.")
        intervals = reports.children["confidence"].to_dataset() if "confidence" in reports.children else None
        if intervals is None or "support_count" not in intervals or intervals["support_count"].ndim > 1:
            raise InfeasibleError(
                "This result has no support counts: it comes from several channels, from cells, from a protocol without "
                "them, or from a fit without estimates. Ask the collection of one channel instead."
            )
        counts, hit, other = (intervals[name].values for name in ("support_count", "rate_of_value", "rate_of_others"))
        labels = tuple(map(str, intervals["category"].values))
        return (
            Binomials(counts, hit, other, int(reports.attrs["n_reports"])),
            labels,
            str(reports.attrs.get("mechanisms", "")),
        )
    collection = as_collection(reports)
    tally = one_channel(collection, channel)
    form = tally.protocol.binomials(tally.reports, tally.counts)
    if form is None:
        raise InfeasibleError(f"Reports of {tally.protocol.design} have no support counts with known rates.")
    return form, collection.categories, mechanisms({tally.name: [(0, tally)]})


def _for_lift(form: Binomials, x: int, lift: float) -> tuple[float, float]:
    """Return (added, replaced): how many reports that support x raise its estimated share by a lift; inf where none do.

    m added reports raise the estimate by m (1 − C_x/n) / ((n + m)(g − h)), m replaced ones in expectation by
    m (1 − C_x/n) / (n (g − h)); both are solved for m.
    """
    missing = 1 - form.counts[x] / form.n
    gain = lift * (form.hit[x] - form.other[x])
    added = form.n * gain / (missing - gain) if missing > gain else math.inf
    replaced = form.n * gain / missing if missing > 0 else math.inf
    return float(added), float(replaced) if replaced <= form.n else math.inf


def _to_overtake(form: Binomials, x: int, y: int) -> float:
    """Return how many added reports that support x and not y make the estimate of p_x as large as that of p_y.

    With s = g − h the estimates are (C/N − h)/s, and N = n + m, C_x + m: m is the root of a linear equation; where both
    categories have the same rates, m = C_y − C_x.
    """
    slope = form.hit - form.other
    behind = slope[x] * (form.counts[y] - form.other[y] * form.n) - slope[y] * (form.counts[x] - form.other[x] * form.n)
    gain = slope[y] * (1 - form.other[x]) + slope[x] * form.other[y]
    return float(max(behind / gain, 0.0))
