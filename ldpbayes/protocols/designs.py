"""Named randomized-response survey designs, each a constructor of a Channel with P(answer | truth).

Carriers have the sensitive attribute; with two categories they are the second, after the others. Every constructor takes
``answers``, the labels under which files state the answers, in the order of the channel's rows; by default the design's own.
A probability that is not known exactly is an ``Uncertain``: its Beta law, such as that after trials of the device. GRR with
such a probability of the truth is ``forced_response`` with equal ``forced``.
"""

import math
import numbers
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.protocols.base import check_entries
from ldpbayes.protocols.channel import YES_NO, Channel, check_answers
from ldpbayes.protocols.formats import parse_labels
from ldpbayes.protocols.labels import Places
from ldpbayes.protocols.registry import DESIGNS
from ldpbayes.protocols.uncertain import RULE, DeviceLaw, Uncertain, laws_in

#: Rule: More cards tell carriers from others ever more surely, and nobody draws as many.
MAX_CARDS = 100
#: Rule: Longer lists than this are asked of nobody.
MAX_ITEMS = 50
#: The groups of a list experiment; the last of two lists.
GROUPS = ("control", "treatment", "direct", "both")


def direct(n_categories=2, answers=None) -> Channel:
    """A question that is answered openly, without privacy, beside a device or as a benchmark.

    Q = I, no privacy.

    Parameters
    ----------
    n_categories : int
    answers : sequence of str, optional
    """
    size = checks.categories_count(n_categories)
    check_entries(size, size)
    return _design("direct", np.eye(size), {"n_categories": size}, answers)


def warner(p, answers=None) -> Channel:
    """A survey that states the sensitive attribute or its negation, by chance (Warner 1965).

    With probability p the statement is the sensitive one, else its negation.

    P(yes | carrier) = p, P(yes | other) = 1 − p; p = e^ε/(e^ε + 1) is GRR with two categories.

    Parameters
    ----------
    p : float
        Probability of the sensitive statement, other than 0.5.
    answers : sequence of str, optional
        By default "no", "yes".
    """
    p = _informative(p, "p")
    return _design("warner", lambda p: [[p, 1 - p], [1 - p, p]], {"p": p}, answers)


def forced_response(truth, forced, answers=None) -> Channel:
    """A survey with a die: the truth by chance, otherwise a forced answer.

    The truth with a fixed probability, else answer y with probability forced_y/Σ forced.

    Q = truth·I + u 1ᵀ with u = (1 − truth) forced/Σforced. Two categories: Boruch (1971), Fox & Tracy (1986);
    several: Eriksson (1973), where categories that are never forced have u = 0.

    Parameters
    ----------
    truth : float
        Probability of being asked to answer truthfully, in (0, 1].
    forced : (a,) sequence
        Relative frequencies of the forced answers, one per category.
    answers : sequence of str, optional
    """
    truth, law = _probability(truth, "truth", open_low=True), Uncertain.stated(forced, "forced", None)
    rule = "a list of numbers, one per category"
    stated = forced if law is None else law.concentrations
    weights = np.array([checks.real(weight, "forced", rule) for weight in checks.entries(stated, "forced", rule)])
    if weights.size < 2 or not (0 <= weights).all() or not 0 < math.fsum(weights / len(weights)) < 1e300:
        raise ArgumentError("forced must be non-negative with a positive sum, one entry per category.")
    check_entries(weights.size, weights.size)

    def channel(truth, forced):
        return truth * np.eye(weights.size) + ((1 - truth) * np.asarray(forced) / np.sum(forced))[:, None]

    settings = {"truth": truth, "forced": weights.tolist() if law is None else law}
    return _design("forced_response", channel, settings, answers)


def unrelated_question(p, innocuous, answers=None) -> Channel:
    """A survey that asks the sensitive question or a harmless one, by chance (Horvitz 1967; Greenberg 1969).

    P(yes | carrier) = p + (1 − p)·innocuous, P(yes | other) = (1 − p)·innocuous.

    Parameters
    ----------
    p : float
        Probability of the sensitive question, in (0, 1].
    innocuous : float
        Known probability that the innocuous question is answered yes.
    answers : sequence of str, optional
        By default "no", "yes".
    """
    p, innocuous = _probability(p, "p", open_low=True), _probability(innocuous, "innocuous")

    def channel(p, innocuous):
        yes_other = (1 - p) * innocuous
        return [[1 - yes_other, 1 - p - yes_other], [yes_other, p + yes_other]]

    return _design("unrelated_question", channel, {"p": p, "innocuous": innocuous}, answers)


def crosswise(p, answers=None) -> Channel:
    """A survey without a sensitive answer: "are your answers to both questions the same?" (Yu, Tian, Tang 2008).

    The innocuous question is answered yes with known probability p: P(same | carrier) = p, P(same | other) = 1 − p.

    Parameters
    ----------
    p : float
        Probability of yes to the innocuous question, other than 0.5.
    answers : sequence of str, optional
        By default "different", "same".
    """
    p = _informative(p, "p")
    return _design("crosswise", lambda p: [[p, 1 - p], [1 - p, p]], {"p": p}, answers, ("different", "same"))


def triangular(p, answers=None) -> Channel:
    """A survey with a safe answer: "none of the two apply" against "at least one does" (Yu, Tian, Tang 2008).

    P(at least one | carrier) = 1, P(at least one | other) = p, p the innocuous yes-probability.

    Parameters
    ----------
    p : float
        Probability that the innocuous statement applies, in [0, 1).
    answers : sequence of str, optional
        By default "neither", "at least one".
    """
    p = _probability(p, "p", open_high=True)
    return _design("triangular", lambda p: [[1 - p, 0], [p, 1]], {"p": p}, answers, ("neither", "at least one"))


def kuk(p_carrier, p_other, cards=1, answers=None) -> Channel:
    """A survey with two decks of cards: how many of the drawn cards are red (Kuk 1990).

    Carriers draw cards from one deck, others from a second deck, and report how many were red.

    Cards are drawn with replacement: P(r red | carrier) = C(k, r) p_carrier^r (1 − p_carrier)^{k−r}, likewise for others.

    Parameters
    ----------
    p_carrier, p_other : float
        Share of red cards in the deck of carriers and in that of others; they must differ.
    cards : int
        Number k of cards drawn, from 1 to 100.
    answers : sequence of str, optional
        Labels of 0 to k red cards; by default "black", "red" for one card and "0" to "k" for several.

    Examples
    --------
    >>> kuk(0.8, 0.2, cards=2).matrix.round(2)
    array([[0.64, 0.04],
           [0.32, 0.32],
           [0.04, 0.64]])
    """
    p_carrier, p_other = _probability(p_carrier, "p_carrier"), _probability(p_other, "p_other")
    uncertain = laws_in({"p_carrier": p_carrier, "p_other": p_other})
    if p_carrier == p_other and not uncertain:
        raise ArgumentError(f"p_carrier must be different from p_other, got {p_carrier!r} for both.")
    cards = checks.integer(cards, "cards", 1, MAX_CARDS)
    if uncertain and cards > 1:
        raise ArgumentError(f"cards must be 1 where a share of red cards is uncertain, got {cards}.")

    def channel(p_carrier, p_other):
        pair, r = np.array([p_other, p_carrier]), np.arange(cards + 1)[:, None]
        return np.array([[math.comb(cards, k)] for k in range(cards + 1)]) * pair**r * (1 - pair) ** (cards - r)

    settings = {"p_carrier": p_carrier, "p_other": p_other}
    return _design(
        "kuk",
        channel,
        settings | ({"cards": cards} if cards > 1 else {}),
        answers,
        ("black", "red") if cards == 1 else tuple(map(str, range(cards + 1))),
    )


def christofides(shares, answers=None) -> Channel:
    """A survey with numbered cards: carriers turn their number round (Christofides 2003).

    A card has a number j from 1..L with probability shares_j; carriers report L + 1 − j, others j.

    Parameters
    ----------
    shares : (L,) sequence
        Probabilities of the numbers 1..L; not symmetric, or answers carry no information.
    answers : sequence of str, optional
        By default "1" to "L".
    """
    law = Uncertain.stated(shares, "shares", None)
    w = checks.distribution(shares, "shares") if law is None else law.mean
    if law is None and np.allclose(w, w[::-1], rtol=0, atol=1e-12):
        raise ArgumentError("shares must not be symmetric; answers to symmetric cards carry no information.")
    return _design(
        "christofides",
        lambda shares: np.stack([w := checks.distribution(shares, "shares"), w[::-1]], axis=1),
        {"shares": list(map(float, shares)) if law is None else law},
        answers,
        tuple(str(j) for j in range(1, w.size + 1)),
    )


def stochastic_lie_detector(p, answers=None) -> Channel:
    """A survey in which some carriers lie, and their share is estimated (Moshagen, Musch, Erdfelder 2012), for one group.

    Three latent categories.

    Categories are honest carriers (always yes), lying carriers (always no) and non-carriers, who answer the statement
    with probability p (no) and its negation with probability 1 − p (yes). Two groups with different p identify all
    three: carriers are the sum of the first two categories, π = 1 − (λ₁ − λ₂)/(p₂ − p₁), and the share of them who tell the
    truth is t = (λ₁ − (1 − π)(1 − p₁))/π, λ the shares of yes.

    Parameters
    ----------
    p : float
        Probability of the statement, not its negation.
    answers : sequence of str, optional
        By default "no", "yes".
    """
    p = _probability(p, "p")
    return _design("stochastic_lie_detector", lambda p: [[0, 1, p], [1, 0, 1 - p]], {"p": p}, answers)


def cheater_detection(p, answers=None) -> Channel:
    """A survey that estimates how many say no whatever the device says (Clark and Desharnais 1998), for one group.

    Three latent categories.

    A die orders yes with probability p and the truth otherwise. Categories are honest carriers (always yes), honest
    non-carriers (yes with probability p) and cheaters, who always say no. Two groups with different p
    identify all three: β = (λ₁ − λ₂)/(p₁ − p₂) honest non-carriers, π = λ₁ − p₁β honest carriers and γ = 1 − π − β cheaters,
    λ the shares of yes. No report shows whether cheaters are carriers: the prevalence lies between π and π + γ.

    Parameters
    ----------
    p : float
        Probability of the order to say yes.
    answers : sequence of str, optional
        By default "no", "yes".
    """
    p = _probability(p, "p", open_high=True)
    return _design("cheater_detection", lambda p: [[0, 1 - p, 1], [1, p, 0]], {"p": p}, answers)


def item_count(items, group, ceiling_effect=0.0, floor_effect=0.0, answers=None, on=None) -> Channel:
    """A survey by lists: how many items apply, not which (the list experiment), for one group.

    Categories are the trait joined with the number c of innocuous items that apply, "no/0" … "no/J", "yes/0" … "yes/J".
    The control group reports c, the treatment group c + 1 with the trait and c without; the group asked directly reports
    the trait. Nothing is randomized: the report of a carrier in treatment with c = J, or c = 0 and no other item, gives the
    trait away, or its absence.

    Of several lists about one trait, categories join it with the number of each, "no/0/0" … "yes/J/K". A group answers one
    of them, or both of two: with the sensitive item on one, and the number of the other's items alone.

    Parameters
    ----------
    items : int or sequence of int
        Number J of innocuous items; of several lists one number each.
    group : {"control", "treatment", "both", "direct"}
    ceiling_effect, floor_effect : float
        Share of carriers with c = J, and with c = 0, who leave out the sensitive item in treatment.
    answers : sequence of str, optional
        By default "0" to "J", of treatment to "J + 1"; "no", "yes" of those asked directly; "1/3" and the
        like of both lists, which stand in two columns.
    on : int, optional
        Which of several lists, from 1 on: the one that is answered, of a group that answers both the one with the sensitive
        item.

    References
    ----------
    Imai (2011), Journal of the American Statistical Association 106; Blair and Imai (2012), Political Analysis 20; of
    two lists, Droitcour et al. (1991), in Measurement Errors in Surveys.
    """
    sizes = items_of_lists(items)
    several = len(sizes) > 1
    checks.choice(group, "group", GROUPS if several else GROUPS[:-1])
    stated = {"ceiling_effect": ceiling_effect, "floor_effect": floor_effect}
    shares = {name: checks.probability(share, name) for name, share in stated.items()}
    if group not in ("treatment", "both") and any(shares.values()):
        raise ArgumentError("ceiling_effect and floor_effect must be left out of groups other than the treatment.")
    if (on is None) == (several and group != "direct"):
        rule = (
            "left out where there is no choice of a list"
            if on is not None
            else f"which of {len(sizes)} lists the group answers"
        )
        raise ArgumentError(f"on must be {rule}, got {shown(on)}.")
    if group == "both" and len(sizes) != 2:
        raise ArgumentError(f"group must be that of one list where there are more than two, got 'both' of {len(sizes)}.")
    first = 0 if on is None else checks.integer(on, "on", 1, len(sizes)) - 1
    answered = [size + 2 for size in sizes] if group == "both" else [max(sizes) + 2]
    check_entries(math.prod(answered), 2 * math.prod(size + 1 for size in sizes))
    table = _of_list(sizes, first, "treatment" if group == "both" else group, **shares)
    settings = {"items": list(sizes) if several else sizes[0], "group": group}
    settings |= {name: share for name, share in shares.items() if share} | ({} if on is None else {"on": first + 1})
    if group == "both":
        pair = [table, _of_list(sizes, 1 - first, "control")][:: 1 if first == 0 else -1]
        table = (pair[0][:, None] * pair[1][None]).reshape(-1, *table.shape[1:])
        default = tuple(f"{y}/{z}" for y in range(len(pair[0])) for z in range(len(pair[1])))
    else:
        default = YES_NO if group == "direct" else tuple(map(str, range(len(table))))
    made = _design("item_count", table.reshape(len(table), -1), settings, answers, default)
    return OfTwoLists(made.matrix, made.answers, made.design, made.settings) if group == "both" else made


class OfTwoLists(Channel):
    """The channel of a group that answers two lists: the answers to them stand in two columns."""

    report_fields: ClassVar[tuple[str, ...]] = ("list_1", "list_2")

    @property
    def _shape(self):
        """Numbers of answers to the first list and to the second."""
        return tuple(size + 1 + (self.settings["on"] == k) for k, size in enumerate(self.settings["items"], 1))

    def parse_reports(self, columns, categories):
        each = [parse_labels(column, list(map(str, range(n)))) for column, n in zip(columns, self._shape, strict=True)]
        return np.ravel_multi_index(each, self._shape)

    def format_reports(self, reports, categories):
        return [list(map(str, each.tolist())) for each in np.unravel_index(reports, self._shape)]

    def report_columns(self, reports, categories):
        return np.unravel_index(reports, self._shape)


def items_of_lists(items) -> tuple[int, ...]:
    """Return how many innocuous items each list has, from one number or a sequence of them, checked."""
    rule = "a number of items, or one for each list"
    each = (items,) if isinstance(items, (str, numbers.Number)) else checks.entries(items, "items", rule)
    if not each:
        raise ArgumentError(f"items must be {rule}, got none.")
    return tuple(checks.integer(size, "items", 1, MAX_ITEMS) for size in each)


def _of_list(sizes, which, group, ceiling_effect=0.0, floor_effect=0.0):
    """Return P(answer | t, c_1, c_2, …) of a group that answers one list, or the trait."""
    size = sizes[which]
    table = np.zeros((2 if group == "direct" else size + 1 + (group == "treatment"), 2, size + 1))
    for t, c in np.ndindex(2, size + 1):
        table[{"direct": t, "control": c}.get(group, c + t), t, c] = 1.0
    if group == "treatment":
        for share, c in ((ceiling_effect, size), (floor_effect, 0)):
            table[[c, c + 1], 1, c] = share, 1 - share
    spread = [size + 1 if k == which else 1 for k in range(len(sizes))]
    return np.broadcast_to(table.reshape(-1, 2, *spread), (len(table), 2, *(size + 1 for size in sizes)))


@dataclass(frozen=True)
class ListExperiment:
    """List experiment: its channels, their categories, and those of carriers; ``Collection.from_lists`` takes it.

    Parameters
    ----------
    items : int or tuple of int
        Number of innocuous items; of several lists about one trait one number each.
    ceiling_effect, floor_effect : float
        Share of carriers to whom all innocuous items, or none, apply, and who leave out the sensitive one.
    traits : pair of str
        Labels of those without and with the trait.

    Examples
    --------
    >>> ListExperiment(items=1).categories
    ('no/0', 'no/1', 'yes/0', 'yes/1')
    >>> ListExperiment(items=1).treatment.matrix
    array([[1., 0., 0., 0.],
           [0., 1., 1., 0.],
           [0., 0., 0., 1.]])
    >>> list(ListExperiment(items=(3, 4)).channels)
    ['control_1', 'control_2', 'treatment_1', 'treatment_2', 'both_1', 'both_2', 'direct']
    """

    items: int | tuple[int, ...]
    ceiling_effect: float = 0.0
    floor_effect: float = 0.0
    traits: tuple[str, str] = YES_NO

    def __post_init__(self):
        pair = check_answers(self.traits)
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ArgumentError(
                f"traits must be two labels, of those without the trait and of those with it, got {listed(pair)}."
            )
        object.__setattr__(self, "traits", pair)
        sizes = items_of_lists(self.items)
        object.__setattr__(self, "items", sizes if len(sizes) > 1 else sizes[0])
        self.channels  # noqa: B018  (refuses effects that are no shares)

    @staticmethod
    def items_of(protocol) -> tuple[int, ...] | None:
        """Return the numbers of innocuous items of the lists whose answers a protocol makes, or None of any other."""
        return items_of_lists(protocol.settings["items"]) if protocol.design == item_count.__name__ else None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of innocuous items of each list."""
        return items_of_lists(self.items)

    @property
    def categories(self) -> tuple[str, ...]:
        """Labels of the trait joined with the number of innocuous items of each list."""
        counts = product(*(range(size + 1) for size in self.sizes))
        joined = ["/".join(map(str, each)) for each in counts]
        return tuple(f"{trait}/{each}" for trait in self.traits for each in joined)

    @property
    def carriers(self) -> tuple[str, ...]:
        """Labels of those with the trait: its share is the sum of theirs."""
        return self.categories[len(self.categories) // 2 :]

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels of all groups by name: of several lists ``treatment_2`` and the like, and ``both_1`` of two."""
        liars = {"ceiling_effect": self.ceiling_effect, "floor_effect": self.floor_effect}
        lists = range(1, len(self.sizes) + 1)
        groups = {"control": {}, "treatment": liars} | ({"both": liars} if len(lists) == 2 else {})
        if len(lists) == 1:
            table = {group: item_count(self.items, group, **more) for group, more in groups.items()}
        else:
            table = {
                f"{group}_{k}": item_count(self.items, group, **more, on=k) for group, more in groups.items() for k in lists
            }
        return table | {"direct": item_count(self.items, "direct", answers=None if self.traits == YES_NO else self.traits)}

    @property
    def control(self) -> Channel:
        """The channel of those who are asked the one list without the sensitive item."""
        return self._only("control")

    @property
    def treatment(self) -> Channel:
        """The channel of those who are asked the one list with the sensitive item."""
        return self._only("treatment")

    @property
    def direct(self) -> Channel:
        """The channel of those who are asked the sensitive item alone."""
        return self.channels["direct"]

    def _only(self, group):
        """Return the channel of a group where there is one list."""
        if len(self.sizes) > 1:
            raise ArgumentError(f"{group} is the group of one list; channels has those of {len(self.sizes)}.")
        return self.channels[group]


#: Parameters of designs that are shares of several events, which add up to one.
VECTORS = ("forced", "shares")


def _design(name, channel, settings, answers, default=None):
    """Return the Channel, with its answers among the settings where they are not the design's own.

    Parameters
    ----------
    channel : array or callable
        The matrix, or what makes it of the probabilities among the settings, linear in each that may be uncertain.
    """
    laws = laws_in(settings)
    stated = (
        {key: value for key, value in settings.items() if key not in laws and key != "cards"} if callable(channel) else {}
    )
    law = DeviceLaw.of_design(lambda **at: channel(**stated, **at), laws, VECTORS) if laws else None
    matrix = law.mean if law else np.array(channel(**stated) if callable(channel) else channel, dtype=float)
    if default is None:
        default = YES_NO if len(matrix) == 2 else tuple(map(str, range(len(matrix))))
    answers = tuple(default) if answers is None else check_answers(answers)
    words = not Places(default).numbered  # numbers of cards and the like may begin with another one
    if len(set(answers)) == len(answers) and Places(default).moved(answers, whole=not words) is not None:
        raise ArgumentError(
            f"answers must be in the order of the rows of {name} ({listed(default)}), got {listed(answers)}: this would "
            "swap what the reports stand for."
        )
    settings = settings | ({"answers": list(answers)} if answers != tuple(default) else {})
    return Channel(matrix, answers, name, settings, law=law)


def _probability(value, name, **ends):
    """Return a probability, or the law of one that is not known exactly."""
    if law := Uncertain.stated(value, name):
        return law
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        raise ArgumentError(f"{name} must be a probability, or for counts of trials {RULE}, got {shown(value)}.")
    return checks.probability(value, name, **ends)


def _informative(p, name):
    p = _probability(p, name)
    if p == 0.5:
        raise ArgumentError(f"{name} must be different from 0.5, where answers carry no information.")
    return p


# Constructors by the name that collection files use; parameters are the functions' own.
DESIGNS |= {
    f.__name__: f
    for f in (
        direct,
        warner,
        forced_response,
        unrelated_question,
        crosswise,
        triangular,
        kuk,
        christofides,
        stochastic_lie_detector,
        cheater_detection,
        item_count,
    )
}

__all__ = ["DESIGNS", "ListExperiment", *DESIGNS]
