"""Reports: the one kind of data inside, of one cell or of several."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ldpbayes.collections.noncompliance import with_deniers, with_noncompliers
from ldpbayes.collections.wrappers import WRAPPERS, AbstractWrapper
from ldpbayes.errors import ArgumentError, CompositeWarning, RankDeficientWarning, warn
from ldpbayes.protocols.uncertain import Uncertain

if TYPE_CHECKING:
    from ldpbayes.collections.tally import Tally
    from ldpbayes.likelihoods import AbstractLikelihood

#: Display: Parameters of protocols are written out up to this many characters.
LONGEST = 60
#: What a weighted result says of the draws of F, and why it has none.
LEFT_OUT = "left out"
#: What a result of summaries says of the draws of F: mean and sd are known, draws are not.
MOMENTS_ONLY = "moments only"


class Reports(ABC):
    """Reports, or sums over them, of one cell or of several; the last categories may be those who deny or do not comply.

    What is fitted, described and shown is of this kind: a ``Collection`` and a ``Summarized`` are one cell, ``Cells`` are
    several, and a ``Tally`` becomes a collection at the door (``as_data``). ``collections()`` yields the cells; ``dims`` and
    ``shape`` say whether arrays have an axis for them.
    """

    #: Grouping columns, and the cells' labels; none where there is one cell.
    by: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    categories: tuple[str, ...]

    @abstractmethod
    def collections(self) -> Iterator[Any]:
        """Yield what can be fitted on its own: each cell, or the only one."""

    @property
    def lists(self) -> tuple[int, ...]:
        """How many numbers of items may apply of each of several lists about one trait; empty where there are none."""
        return ()

    @property
    def apart_by_design(self) -> bool:
        """Whether nobody answers two of several lists, which leaves open how they go together, but not the trait."""
        return False

    @property
    def trait(self) -> str:
        """Name of the share of those with the trait that several lists ask for; empty where there is none."""
        return ""

    @property
    def weighted(self) -> bool:
        """Whether sampling weights temper the likelihood, so that its evidence and F have no meaning."""
        return any(data.survey is not None for data in self.collections())

    @property
    def obstacle(self) -> str:
        """Why evidence does not compare priors, nor has F a meaning of its own, in words; empty of plain likelihoods.

        That is so where something wraps the likelihood: weights, or respondents who may deny or ignore the device.
        """
        return self.doubt or ("the reports are weighted" if self.weighted else "")

    @property
    def stated(self) -> Mapping[str, Any]:
        """What every result of these data says of what wraps their likelihood, by name; empty of plain ones."""
        return {}

    def undecided(self) -> str:
        """Return what no number of these reports decides, but the prior, in words; empty where there is nothing."""
        return ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of P: (a,), or (cells, a)."""
        return (len(self.labels), self.n_categories) if self.by else (self.n_categories,)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of P's dimensions."""
        return ("cell", "category") if self.by else ("category",)

    def coords(self) -> dict:
        """Return the coordinates of P's dimensions."""
        return {"category": list(self.categories)}

    @property
    def likelihoods(self) -> tuple[AbstractLikelihood, ...]:
        """The likelihood of each cell."""
        return tuple(data.likelihood for data in self.collections())

    @property
    def keeps_reports(self) -> bool:
        """Whether every cell has its distinct reports, and not only sums over them."""
        return all(data.tallies for data in self.collections())

    def channels(self) -> dict[str, list[tuple[int, Tally]]]:
        """Return (position of the cell, tally) by channel name; cells that are summaries have no channels."""
        channels: dict[str, list[tuple[int, Tally]]] = {}
        for position, data in enumerate(self.collections()):
            for tally in data.tallies:
                channels.setdefault(tally.name, []).append((position, tally))
        return channels

    def identifiability(self) -> str:
        """Return which categories the channels cannot distinguish, in a sentence; empty where there are none."""
        return ""

    def caveat(self) -> str:
        """Return what the protocols say every reader of a fit must know; empty where there is nothing."""
        return ""

    def device(self) -> str:
        """Return what a report of an explicit channel stands for, in words; empty where there is nothing to say."""
        return ""

    def warn_if_unidentified(self) -> None:
        """Warn where channels cannot tell categories apart, and of caveats, unless a reader has done so: ``announce``."""
        if self.__dict__.get("_announced"):
            return
        for sentence, kind in ((self.identifiability(), RankDeficientWarning), (self.caveat(), CompositeWarning)):
            if sentence and not (kind is RankDeficientWarning and self.apart_by_design):
                warn(sentence, kind)

    @property
    @abstractmethod
    def owners(self) -> tuple[int | None, ...]:
        """Of each of the last categories that are no answers: whose deniers they are, None for those who do not comply."""

    def with_noncompliers(self, laws: Mapping) -> Self:
        """Return these data with respondents who ignore the device: one more category for each law of their reports.

        P(report) = (1 − γ) Q p + γ q in every channel, with the same γ; of cells each has its own. The result's quantity
        ``noncompliance`` is γ, and "LABEL among compliers" are the shares of those who follow the device; that the others
        have the same distribution is an assumption that no report can test.

        Parameters
        ----------
        laws : mapping of str to law
            Name of the category → how its people report: a label that they always report ("no"), "always LABEL", "uniform",
            for unary encodings also "fair coins", "no bits" and "all bits", for hashed words "unlisted" (a word that is no
            candidate, of many that few people have); for fake reports "maximal gain: LABEL, …" and "input: LABEL, …", or
            ``{"law": "maximal gain", "targets": […]}``; or a mapping from the channels' names to these.

        Raises
        ------
        ArgumentError
            On a name that is taken, a law that a channel's reports cannot follow, or summaries, which have no reports.
        """
        return self._extended(with_noncompliers, laws)

    def with_deniers(self, of: str | Sequence[str], say: str, channel: str | Sequence[str]) -> Self:
        """Return these data with respondents who deny: of each category in ``of`` some say another one in a channel.

        The most common design asks a part of the respondents directly and the others through a device, which is obeyed. A
        category s is split into those who would admit it and those who would deny it: P(s) is their sum, and δ = P(denies)/
        P(s) the share of s who, asked directly, say something else. The result's P is that of all; its quantities are
        ``denial`` (of several categories "denial, LABEL"), which is δ, and ``deniers``, the share of all who deny.

        Parameters
        ----------
        of : str or sequence of str
            Categories that may be denied.
        say : str
            The category that those say who deny.
        channel : str or sequence of str
            Names of the channels in which they do.

        Raises
        ------
        ArgumentError
            On an unknown category or channel, one that cannot be denied, or summaries, which have no reports.

        Examples
        --------
        >>> from ldpbayes import Collection, Tally
        >>> from ldpbayes.protocols.designs import crosswise, direct
        >>> tallies = [Tally(crosswise(0.25), [0, 1], [210, 190], "device"), Tally(direct(), [0, 1], [300, 100], "direct")]
        >>> survey = Collection(["no", "yes"], tallies).with_deniers(of="yes", say="no", channel="direct")
        >>> survey.denied, survey.noncompliance().identified
        (('yes',), True)
        """
        return self._extended(with_deniers, of, say, channel)

    def _extended(self, extend: Callable[..., Any], *stated: Any) -> Self:
        """Return these data with what a function makes of each collection; a cell may lack a channel that others have."""
        if not self.keeps_reports:
            raise ArgumentError("summaries have no reports, so that a law cannot be added to them.")
        names = list(self.channels())
        return self._mapped(lambda data: extend(data, *stated, names))

    def _mapped(self, function: Callable[[Any], Any]) -> Self:
        """Return what a function makes of the collection, or these cells with what it makes of each."""
        return function(self)

    @property
    def device_law(self) -> Any:
        """The law of the outcomes of uncertain devices, where the categories are these; else None. See ``with_outcomes``."""
        tallies = next(iter(self.collections())).tallies if self.n_laws else ()
        return tallies[0].protocol.device_law() if tallies else None

    @property
    def wrapper(self) -> AbstractWrapper | None:
        """What the last categories are that are no answers; None where everybody follows the device."""
        return WRAPPERS[next(iter(self.collections())).tallies[0].protocol.wrapper] if self.n_laws else None

    def explained(self) -> dict[str, str]:
        """Return what P and F mean where something wraps the device, by the name of the fact; else nothing."""
        return self.wrapper.stated(bool(self.by)) if self.wrapper else {}

    @property
    def n_laws(self) -> int:
        """Number of the last categories that are no answers; 0 where everybody follows the device."""
        return len(self.owners)

    @property
    def n_categories(self) -> int:
        """Number of categories, a."""
        return len(self.categories)

    @property
    def laws(self) -> tuple[str, ...]:
        """The last categories, if they are respondents who deny or ignore the device; empty where everybody follows it."""
        return self.categories[self.n_categories - self.n_laws :]

    @property
    def answers(self) -> tuple[str, ...]:
        """The categories that P is about: all but the ``laws``."""
        return self.categories[: self.n_categories - self.n_laws]

    @property
    def denied(self) -> tuple[str, ...]:
        """The answers that some of their people deny; empty where nobody does."""
        return self.wrapper.denied(self) if self.wrapper else ()

    @property
    def doubt(self) -> str:
        """What some respondents may do instead of following the device, in words; empty where everybody follows it."""
        return self.wrapper.doubt if self.wrapper else ""


def mechanisms(channels: Mapping[str, Sequence[tuple[int, Any]]]) -> str:
    """Return how many reports came through which protocol, in words, such as "600 reports through warner (p = 0.7)".

    Of protocols whose report is everything that a user sent, users are counted.

    Parameters
    ----------
    channels : mapping of str to sequence of (int, Tally)
        As ``Reports.channels`` has them; without any of them nothing is known, and the text is empty.
    """
    numbers: dict[tuple[str, str], int] = {}
    for _, tally in (pair for pairs in channels.values() for pair in pairs):
        wrapped = tally.protocol.noncompliance()
        device = tally.protocol if wrapped is None else wrapped.compliers
        text = design_in_words(device.design, device.parameters())
        if wrapped is not None and not wrapped.of:
            text += " that some ignore"
        elif wrapped is not None and any(law.targets[0] != x for law, x in zip(wrapped.laws, wrapped.of, strict=True)):
            text += " where some deny"
        key = "report" if device.repeats() is None else "user", text
        numbers[key] = numbers.get(key, 0) + tally.n_reports
    return " and ".join(f"{n:,.0f} {unit}{'s' * (n != 1)} through {text}" for (unit, text), n in numbers.items())


def designs_of(text: str) -> list[str]:
    """Return the designs that a text of ``mechanisms`` names."""
    return re.split(r"(?:^| and )[\d,]+ (?:report|user)s? through ", text)[1:]


def design_in_words(design: str, settings: Mapping[str, Any]) -> str:
    """Return a design with its parameters in words; of fresh reports of a user, the design of each with their number.

    Parameters
    ----------
    design : str
    settings : mapping
        As ``AbstractProtocol.parameters`` has them.

    Examples
    --------
    >>> design_in_words("repeated", {"of": {"protocol": "grr", "epsilon": 1.0}, "times": 2})
    'grr (epsilon = 1), 2 reports a user'
    """
    each = settings.get("of")
    if isinstance(each, Mapping) and "protocol" in each:
        inner = design_in_words(each["protocol"], {key: value for key, value in each.items() if key != "protocol"})
        times = settings.get("times")
        numbers = [times] if isinstance(times, int) else sorted(pair[0] for pair in times or ())
        if not numbers:
            return f"{inner}, several reports a user"
        ends = " to ".join(f"{n:,}" for n in dict.fromkeys((numbers[0], numbers[-1])))
        return f"{inner}, {ends} report{'s' * (numbers[-1] != 1)} a user"
    stated = ", ".join(f"{key} = {value_in_words(value)}" for key, value in settings.items() if key != "n_categories")
    return f"{design.replace('_', ' ')}{f' ({stated})' if stated else ''}"


def value_in_words(value: Any) -> str:
    """Return a parameter of a protocol in words: of long lists only how many entries they have."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping) and set(value) == {"concentrations"}:
        return Uncertain(**value).describe()
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(value_in_words, value))}]"
        return text if len(text) <= LONGEST else f"{len(value):,} values"
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
