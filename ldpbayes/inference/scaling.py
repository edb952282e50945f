"""Who decides, by power-scaling: how far a posterior moves as its prior is scaled, and what that says of prior and reports.

Kallioinen, Paananen, Bürkner and Vehtari (2024), Statistics and Computing 34, 57. See docs/theory/fitness.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from ldpbayes.inference.constants import BOTH, POWERS, SHIFTED, WIDENED
from ldpbayes.inference.ends import beta_ends, normal_reach, tails
from ldpbayes.inference.verdict import LIMITS

#: How many doublings lie between the powers of the prior under which a posterior is made again.
DOUBLINGS = float(np.log2(POWERS[1] / POWERS[0]))
VERDICTS = ("reports", "prior", "conflict")


@dataclass(frozen=True)
class PowerScaling:
    """From where on a posterior depends on its prior.

    Attributes
    ----------
    sensitive : float
        Distance a doubling. Format: the limit of ``arviz_stats.psense_summary``.
    moved : float
        A move matters where the mean or an end moves by more than this share of an sd a doubling, and by more than
        ``floor``. Derived: a tenth of an sd is the accepted error of an interval's end (LIMITS.end_error).
    priors : float
        Ends next to 0 and 1 cannot move: a move matters there, too, where more than this share of the information is the
        prior's. Derived: above a half the prior says more than the reports.
    floor : float
        Share of a population below which a move does not matter. Derived: two units of the third decimal, which is
        the last that tables of shares show.
    """

    sensitive: float = 0.05
    moved: float = 0.1
    priors: float = 0.5
    floor: float = 0.002


SENSITIVITY = PowerScaling()


@dataclass(frozen=True, eq=False)
class Scaled:
    """What scaling the prior does to some quantities, each an array of their shape.

    Attributes
    ----------
    mean, sd : array
        Mean and sd of the posterior as it is.
    shift, growth : array
        Change of the mean, in sds, and of the log sd for a doubling of the prior's weight.
    room : array
        Change of −log sd for a doubling of prior and reports together.
    shares : bool
        Whether the quantities are shares.
    floor, ci_prob : float
    """

    mean: np.ndarray
    sd: np.ndarray
    shift: np.ndarray
    growth: np.ndarray
    room: np.ndarray
    shares: bool
    floor: float
    ci_prob: float

    @classmethod
    def of(
        cls, mean: Any, sd: Any, under: Any, *, shares: bool, floor: float = SENSITIVITY.floor, ci_prob: float = 0.95
    ) -> "Scaled":
        """Return the Scaled of posterior means and sds, and of those under the prior to both POWERS.

        Parameters
        ----------
        mean, sd : (…) arrays
        under : pair of (2, …) arrays
            Means, and sds.
        shares : bool
        floor : float
            In units of the quantities.
        ci_prob : float
        """
        mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
        means, sds = (np.asarray(moments, dtype=float) for moments in under)
        safe = np.where(sd > 0, sd, 1.0)
        shift = np.where(sd > 0, (means[1] - means[0]) / safe, 0.0) / DOUBLINGS
        varying = (sds > 0).all(axis=0)
        growth = np.where(varying, np.diff(np.log(np.where(varying, sds, 1.0)), axis=0)[0], 0.0) / DOUBLINGS
        room = np.full(mean.shape, 0.5 * np.log(2))
        if shares:  # of Dirichlet(K m) the sd is √(m (1 − m)/(K + 1))
            spread = np.maximum(mean * (1 - mean), 1e-300)
            room *= np.clip(1 - sd**2 / spread, 0.0, 1.0)
        return cls(mean, sd, shift, growth, room, shares, floor, ci_prob)

    @classmethod
    def of_draws(cls, draws: np.ndarray, log_prior: np.ndarray, **settings: Any) -> "Scaled":
        """Return the Scaled of draws (S, …), by weights on them; see ``by_weights``, and for the settings ``of``."""
        under = (x.reshape(2, *draws.shape[1:]) for x in by_weights(draws.reshape(len(draws), -1), log_prior))
        return cls.of(draws.mean(axis=0), draws.std(axis=0), tuple(under), **settings)

    @cached_property
    def prior(self) -> np.ndarray:
        """Sensitivity to the prior."""
        return _distance(self.shift, self.growth)

    @cached_property
    def reports(self) -> np.ndarray:
        """Sensitivity to the reports.

        A posterior to a power keeps its mean (exactly so in the Dirichlet family) and is narrower: what the prior's part of
        that does not do, the likelihood's does.
        """
        return _distance(-self.shift, -self.room - self.growth)

    @cached_property
    def moves(self) -> np.ndarray:
        """Largest move of the mean and of both ends for a doubling of the prior's weight, in units of the quantities."""
        half = 0.5 * np.array([-1.0, 1.0]).reshape(2, *[1] * self.mean.ndim)
        means, sds = self.mean + half * self.shift * self.sd, self.sd * np.exp(half * self.growth)
        if self.shares:
            means = np.clip(means, 0.0, 1.0)
            ends = beta_ends(means, sds, tails(self.ci_prob))
        else:
            reach = normal_reach(self.ci_prob)
            ends = [means - reach * sds, means + reach * sds]
        return np.max([np.abs(pair[1] - pair[0]) for pair in (means, *ends)], axis=0)

    @cached_property
    def verdict(self) -> np.ndarray:
        """Who decides, as positions in VERDICTS.

        The prior, where the reports are not sensitive and it moves the posterior more than they do, and enough to matter; a
        conflict where both are sensitive. Under a prior that is learnt, neither may be: the larger of the two decides.
        """
        moves = self.moves
        matters = ((moves > SENSITIVITY.moved * self.sd) | (-self.growth > SENSITIVITY.priors * self.room)) & (
            moves > self.floor
        )
        hangs = (self.prior > np.minimum(self.reports, SENSITIVITY.sensitive)) & matters
        return np.where(hangs, np.where(self.reports >= SENSITIVITY.sensitive, 2, 1), 0)

    def at(self, index: Any) -> "Scaled":
        """Return the Scaled of some of the quantities."""
        return replace(self, **{name: getattr(self, name)[index] for name in ("mean", "sd", "shift", "growth", "room")})

    @property
    def times(self) -> float:
        """How many times as many reports would be sensitive without moving a mean, on average over these shares.

        The prior's share w of the information, which is by how much less than prior and reports together it narrows an sd,
        becomes w/(w + t(1 − w)).
        """
        weight = -(self.mean @ self.growth) / max(self.mean @ self.room, 1e-12)
        most = 1 - SENSITIVITY.sensitive / (np.sqrt(WIDENED) * 0.5 * np.log(2))
        return weight * (1 - most) / (most * (1 - weight)) if weight < 1 else np.inf


def by_weights(values: np.ndarray, log_prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and sds of draws under the prior to both POWERS, two (2, k) arrays, by weights on the draws.

    The weights are prior^(γ − 1). Where they would leave few effective draws, a power nearer to one is taken, and the
    changes are scaled.

    Parameters
    ----------
    values : (S, k) array
    log_prior : (S,) array
        Log-density of the prior of what is scaled, up to a constant.
    """
    mean, sd = values.mean(axis=0), values.std(axis=0)
    means, sds = np.empty((2, 2, values.shape[1]))
    for k, power in enumerate(POWERS):
        share = 1.0
        while True:
            weight = softmax(share * (power - 1) * log_prior)
            if 1 / (weight**2).sum() >= LIMITS.share * len(values) or share < 1e-3:
                break
            share *= 0.5
        moved = weight @ values
        spread = np.sqrt(weight @ (values - moved) ** 2)
        means[k] = mean + (moved - mean) / share
        ratio = np.divide(spread, sd, out=np.ones_like(sd), where=(sd > 0) & (spread > 0))
        sds[k] = sd * ratio ** (1 / share)
    return means, sds


def _distance(shift: np.ndarray, growth: np.ndarray) -> np.ndarray:
    return np.sqrt(SHIFTED * shift**2 + WIDENED * growth**2 + 2 * BOTH * np.abs(shift * growth))
