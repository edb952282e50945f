"""What all data that are fitted have in common, and what their likelihood is, which decides what can be said beside P."""

from __future__ import annotations

import enum
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ldpbayes.errors import CompositeWarning, RankDeficientWarning

if TYPE_CHECKING:
    from ldpbayes.collections.tally import Tally
    from ldpbayes.likelihoods import AbstractLikelihood

#: What a weighted result says of the draws of F, and why it has none.
LEFT_OUT = "left out"
#: What a result of summaries says of the draws of F: mean and sd are known, draws are not.
MOMENTS_ONLY = "moments only"


class AbstractData(ABC):
    """Reports, or sums over them, of one cell or of several; the last categories may be those who deny or do not comply."""

    #: Grouping columns, and the cells' labels; none where there is one cell.
    by: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    categories: tuple[str, ...]

    @abstractmethod
    def collections(self) -> Iterator[Any]:
        """Yield what can be fitted on its own: each cell, or the only one."""

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
        return tuple(one.likelihood for one in self.collections())

    @property
    def keeps_reports(self) -> bool:
        """Whether every cell has its distinct reports, and not only sums over them."""
        return all(one.tallies for one in self.collections())

    def channels(self) -> dict[str, list[tuple[int, Tally]]]:
        """Return (position of the cell, tally) by channel name; cells that are summaries have no channels."""
        found: dict[str, list[tuple[int, Tally]]] = {}
        for position, one in enumerate(self.collections()):
            for tally in one.tallies:
                found.setdefault(tally.name, []).append((position, tally))
        return found

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
            if sentence:
                warnings.warn(sentence, kind, stacklevel=3)

    @property
    @abstractmethod
    def owners(self) -> tuple[int | None, ...]:
        """Of each of the last categories that are no answers: whose deniers they are, None for those who do not comply."""

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
        return tuple(self.categories[x] for x in self.owners if x is not None)

    @property
    def doubt(self) -> str:
        """What some respondents may do instead of following the device, in words; empty where everybody follows it."""
        return "" if not self.n_laws else "respondents may deny" if self.denied else "respondents may ignore the device"


class Nature(enum.Enum):
    """What kind of likelihood the reports of a collection or of cells have.

    ``FULL``: the probability of the reports. ``PSEUDO``: sampling weights temper it, so that the respondents' own
    frequencies F and the evidence have no meaning. ``COMPOSITE``: a product of marginal likelihoods, which holds no user.
    """

    FULL = "full"
    PSEUDO = "pseudo"
    COMPOSITE = "composite"

    @property
    def evidence(self) -> bool:
        """Whether the likelihood is a probability of the reports, so that evidences can be compared."""
        return self is Nature.FULL

    @property
    def weighted(self) -> bool:
        """Whether sampling weights temper the likelihood."""
        return self is Nature.PSEUDO
