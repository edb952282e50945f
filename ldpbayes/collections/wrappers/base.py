"""What adds categories to those that were asked, and says what that means."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ldpbayes.collections.derived import Derived


class AbstractWrapper(ABC):
    """What further categories of a collection are: people who do something else than their device asks, or its outcomes.

    The reports of each category come from protocols whose ``wrapper`` is this kind, and how likely the categories are from
    a prior over all of them. A file in this folder with a subclass is all that reports, results and pages need to know.

    Attributes
    ----------
    kind : str
        What its protocols say in ``AbstractProtocol.wrapper``.
    door : str
        The method that states it.
    doubt : str
        What it makes of the data, after "where": why their evidence compares no priors.
    name, test : str
        Of the facts of a result about it, and about the test that it is not there.
    symbol, nobody, some : str
        Of its share, that this is zero, and that it is not.
    share : str
        Its share, in words.
    explanation : str
        What P and F mean, and what that assumes, for the reader of a result.
    remedy : str
        What may identify the share, and the prior with which a fit is possible where nothing does.
    usual : float
        The share at which the sd of the design is stated: the mean of its default prior.
    tested : bool
        Whether reports may leave its share open, and whether a test compares it with zero.
    """

    kind: ClassVar[str]
    door: ClassVar[str] = ""
    doubt: ClassVar[str]
    name: ClassVar[str]
    test: ClassVar[str] = ""
    symbol: ClassVar[str] = ""
    nobody: ClassVar[str] = ""
    some: ClassVar[str] = ""
    share: ClassVar[str] = ""
    explanation: ClassVar[str]
    remedy: ClassVar[str] = ""
    usual: ClassVar[float] = 0.0
    tested: ClassVar[bool] = True

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of what a result may say of each cell: sd, test and Bayes factor of its share."""
        of_test = (f"{self.name}_sd", f"{self.test}_statistic", f"{self.test}_p", f"log_bayes_factor_{self.name}")
        return of_test if self.tested else ()

    @abstractmethod
    def shares(self, data: Any) -> tuple[Derived, ...]:
        """Return what a result says of the further categories of a collection, as derived quantities."""

    @abstractmethod
    def extended(self, draws: Mapping[str, np.ndarray], data: Any) -> np.ndarray:
        """Return draws of all categories, (S, columns), from those of P, (…, answers), and of ``shares``, by their names."""

    def denied(self, data: Any) -> tuple[str, ...]:
        """Return the answers that some of their people deny."""
        return ()

    def subject(self, data: Any) -> tuple[str, str]:
        """Return (its share in words, the pronoun of what is determined least)."""
        return self.share, "it"

    def at_maximum(self, share: float) -> str:
        """Return the share of all at the maximum of the likelihood, in words."""
        return f"{self.symbol} = {share:.3g}"

    def stated(self, several: bool) -> dict[str, str]:
        """Return what a result says, by the name of the fact; of several cells, that each has a share of its own."""
        return {self.name: f"{self.explanation}{f' Every cell has its own {self.symbol}.' if several else ''}"}
