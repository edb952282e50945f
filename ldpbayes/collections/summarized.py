"""Summarized: one cell of which only a summary was kept, with what engines and results ask a collection for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ldpbayes.collections.collection import Collection
from ldpbayes.collections.data import Reports
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import Summary


@dataclass(frozen=True, eq=False)
class Summarized(Reports):
    """A summary with the labels of its categories.

    Parameters
    ----------
    categories : sequence of str
    summary : Summary
    id, title : str
    ordered : bool
        Whether the categories stand in their order.
    """

    categories: tuple[str, ...]
    summary: Summary
    id: str = "summary"
    title: str = ""
    ordered: bool = False

    #: What collections have and summaries do not.
    tallies = ()
    derived = ()
    survey = None
    owners = ()

    def __post_init__(self) -> None:
        labels = tuple(self.categories)
        if len(labels) != self.summary.n_categories:
            raise ArgumentError(f"categories must be {self.summary.n_categories} labels, got {len(labels)}.")
        object.__setattr__(self, "categories", labels)

    @classmethod
    def of(cls, summary: Summary) -> Summarized:
        """Return a summary with the labels "0", "1", …"""
        return cls(tuple(map(str, range(summary.n_categories))), summary)

    @property
    def missing(self) -> int:
        """How many more people were asked and gave no answer."""
        return self.summary.missing

    @property
    def likelihood(self) -> Summary:
        """The summary."""
        return self.summary

    def observed(self, prefix: str = "") -> dict:
        """Return the support counts, where they were kept, as a variable of a Dataset."""
        supports = self.summary.support_counts()
        return {} if supports is None else {f"{prefix}supports": (("category",), supports)}

    constants = Collection.constants

    def collections(self) -> Iterator[Summarized]:
        """Yield what is fitted on its own: this summary."""
        yield self

    def single(self, what: str) -> Collection:
        """Refuse, as a statement about reports needs them."""
        raise ArgumentError(f"{what} needs the reports of a collection, got a summary of them.")

    @property
    def n_reports(self) -> int:
        """Number of users."""
        return int(np.rint(self.summary.n_reports))
