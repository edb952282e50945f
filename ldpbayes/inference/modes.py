"""Modes that draws miss: draws of the prior, under the likelihood, show them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from ldpbayes.inference.ends import ends_of_weighted_draws
from ldpbayes.inference.verdict import LIMITS


@dataclass(frozen=True)
class Looking:
    """When draws of the prior show a mode.

    Attributes
    ----------
    draws : int
        Draws of P from the prior. Derived: ten lie beyond the box where a mode has ``LIMITS.unseen`` / 2 of the prior.
        Bank: half and double show nothing.
    likely : float
        Independent draws of the posterior that they must be worth. Derived: with 20 the error of a share is .1, and where
        they are worth fewer, the reports say so much that they leave no two modes. Bank: half and double change no number.
    beyond : float
        Share of the weight of the other draws that lies beyond the ends of their box. Derived: a fifth of
        LIMITS.unseen, which leaves the rest to what no draw of the prior shows.
    gap : float
        Least distance from the box, in its widths, of what counts as another mode. Derived: the box of ten normal shares
        reaches 3.7 sd to either side, so that a quarter of its width ends 5.6 sd from the mean, where a normal law has
        2e-8, and exponential tails of 4,096 draws 10/4096^1.25 = 3e-4, far below LIMITS.unseen. With half, 4.6 sd, skewed
        tails are some 1e-3 and begin to count; with double, 7.4 sd, a mode that wide proposals of 5 sd do not reach either
        would pass unseen. (Fewer draws, or a hundred shares and more, have the larger
        log(3a/``LIMITS.unseen``) / log(draws) − 1 in its place.) Bank: half and double change no number.
    """

    draws: int = 2048
    likely: float = 20.0
    beyond: float = 2e-3
    gap: float = 0.25


LOOKING = Looking()


@dataclass(frozen=True, eq=False)
class PriorDraws:
    """Draws of P from the prior.

    Attributes
    ----------
    p : (S, a) array
    value : (S,) array
        Their log-likelihoods.
    looking : Looking
    """

    p: np.ndarray
    value: np.ndarray
    looking: Looking = LOOKING

    @classmethod
    def of(cls, prior: Any, reports: Any, rng: np.random.Generator, looking: Looking = LOOKING) -> "PriorDraws":
        """Return draws of a prior, given the reports of all cells."""
        p = prior.sample(looking.draws, rng)
        value = reports.log_likelihood(p.reshape(looking.draws, -1, p.shape[-1]))
        return cls(p.reshape(looking.draws, -1), value, looking)

    @property
    def worth(self) -> float:
        """Independent draws of the posterior that the draws of the prior are worth."""
        return float(1 / (softmax(self.value) ** 2).sum())

    @property
    def few(self) -> bool:
        """Whether the reports say too much for draws of the prior."""
        return self.worth < self.looking.likely

    def outside(self, p: np.ndarray, weight: np.ndarray, effective: float = math.inf) -> float:
        """Return the share of the posterior outside the box of weighted P (S, a), by draws of the prior, less two errors.

        A mode that no draw reaches leaves no trace in weights, nor in chains. Of exponential tails a/n^(1 + g) lies farther
        than g widths beyond the box of n effective draws: gaps are so wide that this is no mode.

        Parameters
        ----------
        p : (S, a) array
        weight : (S,) array
            Normalized.
        effective : float
            Independent draws that these are worth, where it is fewer than their weights say.
        """
        if self.few:
            return 0.0
        # Of many draws some do; an odd step, as every second Sobol point is in one half of the space.
        some = slice(None, None, max(len(p) // (2 * self.looking.draws), 1) | 1)
        p, weight = p[some], weight[some] / weight[some].sum()
        low, high, *_ = ends_of_weighted_draws(p, weight, 1 - self.looking.beyond / p.shape[1])
        far = np.maximum(np.maximum(low - self.p, self.p - high) / np.maximum(high - low, 1e-12), 0.0).max(axis=1)
        worth = max(min(effective, 1 / (weight**2).sum()), 2.0)
        gap = max(self.looking.gap, math.log(3 * p.shape[1] / LIMITS.unseen) / math.log(worth) - 1)
        share = softmax(self.value) * (far > gap)
        return float(share.sum() - 2 * np.linalg.norm(share))
