"""What a planned collection can be used for: groups side by side, crafted reports, respondents who ignore it or deny."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from ldpbayes import checks
from ldpbayes.collections import Collection, Tally
from ldpbayes.collections.noncompliance import Identification, centre, denial_slopes, identification, spreads
from ldpbayes.errors import ArgumentError, InfeasibleError, LDPBayesError, listed, shown
from ldpbayes.inference.ends import normal_reach
from ldpbayes.planning import plans as planning
from ldpbayes.presenting import recorded
from ldpbayes.protocols import AbstractProtocol, make_protocol
from ldpbayes.protocols.base import MAX_LISTED

__all__ = [
    "POWER",
    "SHARE",
    "asked_directly",
    "half_width_for",
    "least_difference",
    "noncompliance",
    "poisoned_share",
    "power",
    "with_prospects",
]

#: Rule: Power at which the least difference between two groups is stated.
POWER = 0.8
#: Shares of the respondents who may be asked directly.
DIRECT = np.linspace(0.05, 0.95, 19)
#: Rule: The share of a category that crafted reports raise, where none is stated.
SHARE = 0.01
#: Memory: Largest listed channel, in entries, whose most effective report is looked for.
MAX_ENTRIES = 2**22
#: The design that asks two halves of the respondents with p and 1 − p.
_HALVES = "extended_crosswise"


@recorded
@planning.described
def with_prospects(
    plans: Iterable[planning.Plan],
    *,
    groups: int | None = None,
    delta: float | None = None,
    fakes: float | None = None,
    laws: Mapping | None = None,
    gamma: float = 0.1,
    deniers: Mapping | None = None,
    **assumed: Any,
) -> planning.Plans:
    """Return the plans with what was asked of them: widths and power for groups, and a share that is poisoned.

    Parameters
    ----------
    plans : list of Plan
        From ``planning.plan``.
    groups : int, optional
        Number of groups of equal size.
    delta : float, optional
        Difference between two groups whose power is wanted.
    fakes : float, optional
        Share of the reports that are crafted.
    laws : mapping of str to law, optional
        Respondents who ignore the device, as for ``Collection.with_noncompliers``.
    gamma : float
        Their share.
    deniers : mapping, optional
        ``of`` and ``say``, labels, and ``delta``: some are asked directly, and of those a share δ deny.
    **assumed
        p, target, estimator and ci_prob, as for ``planning.plan``.

    Returns
    -------
    Plans
        In the same order; plans that do not reach their target are left as they are, and the sd of γ of protocols that have
        no reports as the laws state them is nan.

    Raises
    ------
    ArgumentError, InfeasibleError
        Where no protocol has such reports.
    """
    given = (
        plans if isinstance(plans, planning.Plans) else planning.Plans(checks.entries(plans, "plans", "a sequence of Plans"))
    )
    for plan in given:
        checks.instance(plan, "plans", planning.Plan, "a sequence of Plans")
    laws = {} if laws is None else checks.mapping(laws, "laws")
    gamma = checks.probability(gamma, "gamma", open_low=True, open_high=True)
    if delta is not None and groups is None:
        groups = 2
    ci_prob = assumed.get("ci_prob", 0.95)
    if deniers is not None:
        deniers = checks.mapping(deniers, "deniers", "a mapping with of, say and, if wished, delta")
    out: list[planning.Plan] = []
    unknown: list[LDPBayesError] = []
    for plan in given:
        prospects: dict[str, Any] = {}
        protocol = plan.mechanism if plan.feasible else None
        if protocol is not None and groups is not None:
            prospects["group_half_width"] = _half_width(protocol, plan.n, groups, **assumed)
            population = assumed | {"target": "distribution"}  # groups are compared as populations, not as these people
            half_width = _half_width(protocol, plan.n, groups, **population)
            prospects["least_difference"] = least_difference(half_width, ci_prob=ci_prob)
            if delta is not None:
                prospects["power"] = power(protocol, plan.n, delta, groups=groups, **population)
        if protocol is not None and fakes is not None:
            prospects["poisoned"] = poisoned_share(protocol, fakes)
        if protocol is not None and deniers:
            prospects |= _directly(protocol, plan.n, deniers, assumed.get("p", "uniform"))
        if protocol is not None and laws:
            p = assumed.get("p", "uniform")
            p = None if isinstance(p, str) else p
            try:
                prospects["gamma_sd"] = noncompliance(_parts(plan.protocol, protocol), plan.n, laws, gamma=gamma, p=p).sd
            except (ArgumentError, InfeasibleError) as err:  # not every protocol has such reports
                unknown.append(err)
        out.append(dataclasses.replace(plan, **prospects))
    if unknown and len(unknown) == sum(plan.feasible for plan in out):
        raise unknown[0]
    return given.with_plans(out)


@planning.described
def power(protocol: AbstractProtocol, n: float, delta: float, *, groups: int = 2, ci_prob: float = 0.95, **assumed) -> float:
    """Return the probability that a difference between two groups is found.

    Each of the groups has n/groups reports. The difference of a category's two shares has the standard deviation σ√2, σ that
    of one group, and is found where it exceeds normal_reach(ci_prob) of them: the power is
    Φ(δ/(σ√2) − z) + Φ(−δ/(σ√2) − z).

    Parameters
    ----------
    delta : float
        The true difference of the share of the category with the widest interval.
    **assumed
        p and estimator, as for ``planning.plan``.

    Returns
    -------
    float
    """
    delta, groups, ci_prob = _delta(delta), checks.integer(groups, "groups", 2, checks.MAX_COUNT), checks.level(ci_prob)
    width = normal_reach(ci_prob)
    sd = _half_width(protocol, n, groups, ci_prob=ci_prob, **assumed) / width
    return _power(delta / (sd * math.sqrt(2)), width)


@planning.described
def least_difference(half_width_of_group: float, *, probability: float = POWER, ci_prob: float = 0.95) -> float:
    """Return the least difference of two groups' shares that is found with some probability.

    Parameters
    ----------
    half_width_of_group : float
        Of each group's interval.
    probability : float
        The power.

    Returns
    -------
    float
    """
    probability = checks.probability(probability, "probability", open_low=True, open_high=True)
    half_width_of_group = checks.positive(half_width_of_group, "half_width_of_group")
    width = ndtri((1 + checks.level(ci_prob)) / 2)
    return math.sqrt(2) * half_width_of_group / width * _distance(probability, width)


@planning.described
def half_width_for(delta: float, probability: float, *, groups: int = 2, ci_prob: float = 0.95) -> float:
    """Return the half-width of the interval over all users at which two of the groups differ detectably.

    Parameters
    ----------
    delta : float
        Difference of the two groups' shares.
    probability : float
        The power.

    Returns
    -------
    float
        The error of the kind "half_width" to plan for.
    """
    groups = checks.integer(groups, "groups", 2, checks.MAX_COUNT)
    probability, ci_prob = checks.probability(probability, "power", open_low=True, open_high=True), checks.level(ci_prob)
    if probability <= 1 - ci_prob:
        raise ArgumentError(f"power must be above the level of the test, {1 - ci_prob:.3g}, got {probability!r}.")
    difference = least_difference(1.0, probability=probability, ci_prob=ci_prob)
    return _delta(delta) / difference / math.sqrt(groups)


@planning.described
def poisoned_share(protocol: AbstractProtocol, fakes: float, share: float = SHARE) -> float:
    """Return what the estimate of a share becomes where some of the reports are crafted to raise it.

    The estimate is a mean over reports. One that supports the category adds D = (1 − h)/(g − h) in place of the true share,
    so that the estimate becomes (1 − f)·share + f·D, at most 1. Without hit rates D is the largest entry of the category's
    row of (QᵀWQ)⁻¹QᵀW at uniform p, W = diag(1/Qp), averaged over the categories.

    Parameters
    ----------
    fakes : float
        Share f of the reports that are crafted.
    share : float
        The true share.

    Returns
    -------
    float
        nan where the reports of the protocol are too many to list and have no hit rates.

    References
    ----------
    Cao, Jia and Gong (2021), Data Poisoning Attacks to Local Differential Privacy Protocols, USENIX Security; the maximal
    gain attack.
    """
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol of ldpbayes")
    fakes = checks.probability(fakes, "fakes", open_high=True)
    share = checks.probability(share, "share")
    poisoned = (1 - fakes) * share + fakes * _largest_weight(protocol)
    return 1.0 if poisoned > 1 else poisoned


def _largest_weight(protocol):
    """Return the largest weight D of one report in the estimate of a category; nan where it is not worked out."""
    if protocol.hit_rates is not None:
        g, h = protocol.hit_rates
        return (1 - h) / (g - h)
    size = protocol.n_outputs
    if size is None or size > MAX_LISTED or size * protocol.n_categories > MAX_ENTRIES:
        return math.nan
    channel = protocol.channel()
    weighted = channel.T / np.maximum(channel.mean(axis=1), 1e-300)
    return float((np.linalg.pinv(weighted @ channel) @ weighted).max(axis=1).mean())


@planning.described
def noncompliance(protocols, n: float, laws: Mapping, *, gamma: float = 0.1, p=None) -> Identification:
    """Return what n reports can tell of the share γ of respondents who ignore the device.

    Parameters
    ----------
    protocols : sequence of AbstractProtocol
        Channels with as many categories, each asked of an equal part of the users.
    laws : mapping of str to law
        As for ``Collection.with_noncompliers``.
    gamma : float
        The share at which the sd is stated.
    p : (a,) array, optional
        Distribution of those who follow the device; uniform by default.

    Returns
    -------
    Identification
        identified, sd and sentence; see ``Collection.noncompliance``.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import crosswise
    >>> round(noncompliance([crosswise(0.2), crosswise(0.8)], 3000, {"no-sayer": "different"}).sd, 3)
    0.018
    """
    gamma = checks.probability(gamma, "gamma", open_low=True, open_high=True)
    protocols = checks.entries(protocols, "protocols", "a sequence of protocols")
    if not protocols:
        raise ArgumentError("protocols must hold at least one protocol, got none.")
    for protocol in protocols:
        checks.instance(protocol, "protocols", AbstractProtocol, "a sequence of protocols")
    n = checks.users(n)
    if n > checks.MAX_COUNT:
        raise ArgumentError(f"n must be at most 10**12, got {shown(n)}.")
    a = protocols[0].n_categories
    p = np.full(a, 1 / a) if p is None else checks.distribution(p, "p", a)
    users = max(round(n / len(protocols)), 1)
    tallies = [_expected_tally(protocol, p, users, f"{i}") for i, protocol in enumerate(protocols, 1)]
    collection = Collection(tuple(_labels(a)), tuple(tallies)).with_noncompliers(laws)
    mixed = np.append((1 - gamma) * p, np.full(len(laws), gamma / len(laws)))
    expected = [_expected_tally(tally.protocol, mixed, users, tally.name) for tally in collection.tallies]
    expected_data = dataclasses.replace(collection, tallies=tuple(expected))
    return identification(expected_data, gamma, max(n, 1))


@planning.described
def asked_directly(
    protocol: AbstractProtocol, n: float, *, of: int = 1, say: int = 0, delta: float = 0.1, p=None, direct=DIRECT
) -> np.ndarray:
    """Return how well n respondents determine a share P and the share δ who deny it, where a part is asked directly.

    By the inverse information of one report through the device or directly. With δ unknown and above zero the direct
    answers are spent on δ: P is known about as well as from the others alone.

    Parameters
    ----------
    protocol : AbstractProtocol
        The device, whose reports can be listed.
    of, say : int
        Positions of the category that is denied, and of the one that those say who deny.
    delta : float
        δ.
    p : (a,) array, optional
        True shares; even by default.
    direct : (k,) array
        Shares of the respondents who are asked directly, from 0 to 1; the others answer through the device.

    Returns
    -------
    (k, 2) array
        Standard deviations of P and of δ; nan where no number of reports determines them.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import crosswise
    >>> asked_directly(crosswise(0.25), 800, delta=0.55, p=[0.45, 0.55], direct=[0.0, 0.5]).round(4)
    array([[0.0353,    nan],
           [0.0499, 0.0566]])
    """
    checks.instance(protocol, "protocol", AbstractProtocol, "a protocol")
    a, n, shares = protocol.n_categories, checks.users(n), checks.reals(direct, "direct")
    of, say = (checks.integer(value, name, 0, a - 1) for name, value in (("of", of), ("say", say)))
    if of == say:
        raise ArgumentError("say must be another category than of.")
    delta = checks.probability(delta, "delta", open_low=True, open_high=True)
    p = np.full(a, 1 / a) if p is None else checks.distribution(p, "p", a)
    if not ((shares >= 0) & (shares <= 1)).all() or p[of] == 0:
        raise ArgumentError("direct must be shares from 0 to 1, of a category that is there.")
    rows, gradients = (
        centre(p, (of,), delta),
        np.vstack([np.eye(a + 1)[[of, a]].sum(axis=0), denial_slopes(p, (of,), delta)]),
    )
    device, asked = (np.column_stack([q, q[:, x]]) for q, x in ((protocol.channel(), of), (np.eye(a), say)))
    return np.array([spreads([(device, n * (1 - w)), (asked, n * w)], rows, gradients) for w in shares])


def _directly(protocol, n, deniers, p):
    """Return what a plan says of asking some directly, where the two variances add up to least; deniers by labels."""
    if not {"of", "say"} <= set(deniers) <= {"of", "say", "delta"}:
        raise ArgumentError(f"deniers must state of, say and, if wished, delta, got {', '.join(deniers)}.")
    labels = _labels(protocol.n_categories)
    for name in ("of", "say"):
        if deniers[name] not in labels:
            raise ArgumentError(f"{name} must be one of the categories ({listed(labels)}), got {shown(deniers[name])}.")
    places = {name: labels.index(deniers[name]) for name in ("of", "say")}
    delta = checks.probability(deniers.get("delta", 0.1), "deniers.delta", open_low=True, open_high=True)
    sd = asked_directly(protocol, n, **places, delta=delta, p=None if isinstance(p, str) else p)
    if np.isnan(sd).any():
        raise InfeasibleError("The device does not tell all categories apart: no direct question tells who denies.")
    best = int((sd**2).sum(axis=1).argmin())
    return {"direct_share": float(DIRECT[best]), "share_sd": float(sd[best, 0]), "denial_sd": float(sd[best, 1])}


def _labels(a):
    return ["no", "yes"] if a == 2 else [str(x) for x in range(a)]


def _parts(name, protocol):
    """Return the channels of a plan: the extended crosswise design asks one half with p and the other with 1 − p."""
    if name != _HALVES:
        return [protocol]
    settings = protocol.parameters()
    return [protocol, make_protocol(name, _labels(2), settings | {"p": 1 - settings["p"]})]


def _expected_tally(protocol, p, users, name):
    """Return reports with whole counts near their expectation, or simulated ones where there are too many to list."""
    if protocol.n_outputs is not None and protocol.n_outputs <= MAX_LISTED:
        counts = np.maximum(np.rint(users * (protocol.channel() @ p)), 1).astype(np.int64)
        return Tally(protocol, protocol.all_reports(), counts, name)
    counts = np.floor(min(users, 20_000) * p).astype(np.int64)
    counts[0] += min(users, 20_000) - counts.sum()
    reports, seen = protocol.simulate(counts, np.random.default_rng(0))
    return Tally(protocol, reports, seen, name)


def _half_width(protocol, n, groups, **assumed):
    """Return the half-width of the widest category's interval in each of several groups of equal size."""
    groups = checks.integer(groups, "groups", 1, checks.MAX_COUNT)
    return planning.expected_error(protocol, checks.users(n) / groups, kind="half_width", **assumed)


def _delta(delta):
    return checks.probability(delta, "delta", open_low=True)


def _power(distance, width):
    return float(ndtr(distance - width) + ndtr(-distance - width))


def _distance(probability, width):
    """Return the difference, in standard deviations of it, that is found with this probability."""
    if not 2 * ndtr(-width) < probability < 1:
        raise InfeasibleError(f"No difference is found with probability {probability:g} at this level.")
    return brentq(lambda distance: _power(distance, width) - probability, 0.0, 60.0, xtol=1e-12)
