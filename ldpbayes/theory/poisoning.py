"""What fabricated reports can do to a share: the rates at which reports support it. See docs/theory/fitness.md."""

from dataclasses import dataclass

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.protocols.base import AbstractProtocol, Binomials

__all__ = ["Poisoning", "poisoning", "rates_of", "reports_for_lift", "reports_to_overtake"]


@dataclass(frozen=True)
class Poisoning:
    """The expected effect of fabricated reports that all support one category.

    Attributes
    ----------
    share : float
        Share of the reports that are fabricated.
    lift : float
        By how much the estimate of the category's share rises.
    sentence : str
    """

    share: float
    lift: float
    sentence: str


def poisoning(protocol: AbstractProtocol, share: float = 0.01, p: float = 0.0, category: int = 0) -> Poisoning:
    """Return how far fabricated reports lift the unbiased estimate of one share.

    Where a part φ of all reports is replaced by reports that support x, the estimate rises in expectation by
    φ (1 − q_x) / (g − h) with q_x = h + (g − h) p_x. Nobody sees it from the reports of a saturated design such as GRR.

    Parameters
    ----------
    protocol : AbstractProtocol
    share : float
        φ, between 0 and 1.
    p : float
        The category's true share.
    category : int
        Position of the category, for designs whose rates differ between categories.

    Returns
    -------
    Poisoning

    Raises
    ------
    InfeasibleError
        Where the protocol has no support counts.

    References
    ----------
    Cao, Jia and Gong (2021), USENIX Security: the maximal gain attack.

    Examples
    --------
    >>> from ldpbayes.protocols import GRR
    >>> round(poisoning(GRR(20, 1.0), 0.05).lift, 3)
    0.603
    """
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
    share = checks.probability(share, "share")
    p = checks.probability(p, "p")
    category = checks.integer(category, "category", 0, protocol.n_categories - 1)
    rates = rates_of(protocol)
    if rates is None:
        raise InfeasibleError(f"The effect of fabricated reports is not known for {protocol.design}.")
    hit, other = (float(one[category]) for one in rates)
    lift = share * (1 - other - (hit - other) * p) / (hit - other)
    sentence = (
        f"If {100 * share:.3g} % of the reports were fabricated to support one category, its estimated share would rise by "
        f"{lift:.3g}."
    )
    return Poisoning(share, lift, sentence)


def rates_of(protocol: AbstractProtocol) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (g, h), shape (a,) each, the rates at which reports support their own value and another; None: unknown."""
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
    if protocol.hit_rates is not None:
        hit, other = (np.full(protocol.n_categories, float(rate)) for rate in protocol.hit_rates)
        return hit, other
    if protocol.n_outputs is None or protocol.n_outputs > 2**16:
        return None
    found = protocol.binomials(protocol.all_reports(), np.ones(protocol.n_outputs))
    return None if found is None else (found.hit, found.other)


def reports_for_lift(form: Binomials, category: int, lift: float) -> tuple[float, float]:
    """Return (added, replaced): how many fabricated reports that support x raise its estimated share by a lift.

    m added reports raise the estimate by m (1 − C_x/n) / ((n + m)(g − h)), m replaced ones in expectation by
    m (1 − C_x/n) / (n (g − h)); both are solved for m. inf where no number is enough.

    Parameters
    ----------
    form : Binomials
    category : int
        x.
    lift : float
        Above 0.
    """
    category, lift = _place(form, category, "category"), checks.positive(lift, "lift")
    missing = 1 - form.counts[category] / form.n
    wanted = lift * (form.hit[category] - form.other[category])
    added = form.n * wanted / (missing - wanted) if missing > wanted else float("inf")
    replaced = form.n * wanted / missing if missing > 0 else float("inf")
    return float(added), float(replaced) if replaced <= form.n else float("inf")


def _place(form: Binomials, category: int, name: str) -> int:
    checks.instance(form, "form", Binomials, "the Binomials of a protocol")
    return checks.integer(category, name, 0, len(form.counts) - 1)


def reports_to_overtake(form: Binomials, category: int, other: int) -> float:
    """Return how many added reports that support x and not y make the estimate of p_x as large as that of p_y.

    With s = g − h the estimates are (C/N − h)/s, and N = n + m, C_x + m: m is the root of a linear equation; where both
    categories have the same rates, m = C_y − C_x.

    Parameters
    ----------
    form : Binomials
    category, other : int
        x and y.
    """
    x, y = _place(form, category, "category"), _place(form, other, "other")
    slope = form.hit - form.other
    behind = slope[x] * (form.counts[y] - form.other[y] * form.n) - slope[y] * (form.counts[x] - form.other[x] * form.n)
    gain = slope[y] * (1 - form.other[x]) + slope[x] * form.other[y]
    return float(max(behind / gain, 0.0))
