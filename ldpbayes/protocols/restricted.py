"""Randomized response that is restricted to a subset of the categories: the protocol of adaptive collections."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.protocols.base import check_entries
from ldpbayes.protocols.channel import AbstractMatrix
from ldpbayes.protocols.constants import LEAST_LEVEL, MARGIN, ROUNDING
from ldpbayes.protocols.formats import Labels


@dataclass(frozen=True)
class RestrictedResponse(AbstractMatrix):
    """A second wave: GRR over the categories that matter, and one symbol for all others.

    The symbol, and each category of S, is kept with probability e^ε₁/(e^ε₁ + k), k the size of S, else exchanged for one
    of the others. What comes out as the symbol is reported as a category outside S: of those, a value that lies there
    itself is kept with the odds e^ε₂ against each of the others, and one of S is not favoured at all. ε₁ is ``split``
    times ε, and ε₂ the most that leaves every report within ε. Where S holds most of the population, those few answers
    see less noise than under GRR over all categories.

    Parameters
    ----------
    n_categories : int
        Size a of the alphabet, at least two.
    epsilon : float
        LDP level in nats, in [1e-9, 50].
    subset : sequence of int
        Positions of the categories in S; some but not all. A collection file may state labels.
    split : float
        ε₁/ε, above 0 and at most 1. At 1 the categories outside S are not told apart, unless there is only one.

    Notes
    -----
    Write c = a − k for the number of categories outside. A report y outside has the probability e^ε₁/(e^ε₁ + k) times
    e^ε₂/(e^ε₂ + c − 1) given y, and 1/(e^ε₁ + k)/c given a category of S. Their ratio, e^(ε₁+ε₂) c/(e^ε₂ + c − 1), is at
    most e^ε where e^ε₂ (c e^(ε₁−ε) − 1) ≤ c − 1; e^ε₂ itself must not exceed e^ε either. With c = 1 there is nothing to
    split, and ε₁ is ε.

    References
    ----------
    Aydın and Yıldırım (2024), Bayesian frequency estimation under local differential privacy with an adaptive randomized
    response mechanism.

    Examples
    --------
    >>> RestrictedResponse(4, math.log(3), subset=[0, 1], split=0.5).channel().round(3)
    array([[0.464, 0.268, 0.268, 0.268],
           [0.268, 0.464, 0.268, 0.268],
           [0.134, 0.134, 0.348, 0.116],
           [0.134, 0.134, 0.116, 0.348]])
    """

    n_categories: int
    epsilon: float
    subset: Sequence[int]
    split: float = 0.8
    name: ClassVar[str] = "restricted_response"

    def __post_init__(self):
        super().__post_init__()
        check_entries(self.n_categories, self.n_categories)
        given = checks.entries(self.subset, "subset", "a sequence of positions")
        subset = sorted({checks.integer(x, "subset", 0, self.n_categories - 1) for x in given})
        if not 0 < len(subset) < self.n_categories or len(subset) < len(given):
            raise ArgumentError(f"subset must hold some but not all categories, each once, got {shown(list(given))}.")
        object.__setattr__(self, "subset", tuple(subset))
        object.__setattr__(self, "split", checks.probability(self.split, "split", open_low=True))

    @cached_property
    def levels(self) -> tuple[float, float]:
        """ε₁ and ε₂; the second is 0 where the categories outside S are not told apart."""
        outside, spared = self.n_categories - len(self.subset), (1 - self.split) * self.epsilon
        if outside == 1:
            return self.epsilon, 0.0
        bent = outside / (outside - 1) * math.expm1(-spared)
        second = self.epsilon if bent <= -1 else min(self.epsilon, -math.log1p(bent) - MARGIN * self.epsilon)
        return self.epsilon - spared, second if second > LEAST_LEVEL else 0.0

    @property
    def report_format(self):
        return Labels(self.n_categories, categories=True)

    def has_full_rank(self):
        return self.n_categories - len(self.subset) == 1 or self.levels[1] > 0

    @cached_property
    def matrix(self):
        """The channel, shape (a, a)."""
        others, (first, second) = np.setdiff1d(np.arange(self.n_categories), self.subset), self.levels
        (hit, miss), (same, other) = _chances(len(self.subset), first), _chances(others.size - 1, second)
        out = np.full((self.n_categories, self.n_categories), miss)
        out[others] = hit * other
        out[np.ix_(others, self.subset)] = miss / others.size
        out[others, others], out[self.subset, self.subset] = hit * same, hit
        out.setflags(write=False)
        return out

    @classmethod
    def from_parameters(cls, categories, parameters):
        given = parameters.get("subset")
        if isinstance(given, list | tuple):
            places = {label: x for x, label in enumerate(categories)} if any(isinstance(x, str) for x in given) else {}
            for label in given:
                if isinstance(label, str) and label not in places:
                    raise ArgumentError(f"subset must name categories of the collection, got {shown(label)}.")
            parameters = parameters | {"subset": [places[x] if isinstance(x, str) else x for x in given]}
        return super().from_parameters(categories, parameters)


def _chances(others, level):
    """Return the chances of a value, and of each of so many others in its stead, at a level; no rounding exceeds it."""
    odds = min(math.exp(-level) * (1 + ROUNDING), 1.0)
    return 1 / (1 + others * odds), odds / (1 + others * odds)
