"""What every posterior method has in common: settings as fields, feasibility before it runs, one signature."""

import abc
from dataclasses import dataclass
from typing import ClassVar

from ldpbayes import checks
from ldpbayes.errors import ArgumentError


@dataclass(frozen=True)
class Feasibility:
    """Whether a method applies to a collection, what it would cost, and why.

    Attributes
    ----------
    feasible : bool
    seconds : float
        Predicted time on one core; nan where unknown.
    reason : str
        One sentence for the reader.
    """

    feasible: bool
    seconds: float
    reason: str


class AbstractPosterior(abc.ABC):
    """A way to get the posterior of P and F. Settings are fields of the (frozen dataclass) subclass.

    Every subclass has at least ``draws`` (per chain) and ``chains`` fields.
    """

    name: ClassVar[str]
    #: "independent" where the draws are i.i.d. from the posterior, "mcmc" where they form chains.
    sampling: ClassVar[str] = "mcmc"

    def __post_init__(self):
        """Check the settings that every method has; a method with more of them calls this first."""
        for name in ("draws", "chains"):
            object.__setattr__(self, name, checks.integer(getattr(self, name), name, minimum=1))
        if self.draws * self.chains < 2:  # one draw has no spread
            raise ArgumentError("draws must be an integer >= 2 with one chain, got 1.")

    @abc.abstractmethod
    def feasibility(self, collection, prior):
        """Return the Feasibility of posterior(collection, prior); cheap, loads nothing heavy."""

    @abc.abstractmethod
    def posterior(self, collection, prior, *, random_seed=None, ci_prob=0.95, progressbar=False):
        """Return the DataTree of result.build: groups posterior, exact where known, sample_stats, data and attrs.

        Raises
        ------
        InfeasibleError
            Where feasibility() says no.
        """
