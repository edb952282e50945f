"""What all data that are fitted have in common, and what their likelihood is, which decides what can be said beside P."""

import enum
from abc import ABC, abstractmethod

#: What a weighted result says of the draws of F, and why it has none.
LEFT_OUT = "left out"
#: What a result of summaries says of the draws of F: mean and sd are known, draws are not.
MOMENTS_ONLY = "moments only"


class AbstractData(ABC):
    """Reports, or sums over them, whose last categories may be respondents who ignore the device."""

    categories: tuple[str, ...]

    @property
    @abstractmethod
    def n_laws(self) -> int:
        """Number of the last categories that are respondents who ignore the device; 0 where everybody follows it."""

    @property
    def n_categories(self) -> int:
        """Number of categories, a."""
        return len(self.categories)

    @property
    def laws(self) -> tuple[str, ...]:
        """The last categories, if they are respondents who ignore the device; empty where everybody follows it."""
        return self.categories[self.n_categories - self.n_laws :]

    @property
    def answers(self) -> tuple[str, ...]:
        """The categories of those who follow the device: all but the ``laws``."""
        return self.categories[: self.n_categories - self.n_laws]


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
