"""What the likelihood of some data is, which decides what can be said beside P."""

import enum


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
