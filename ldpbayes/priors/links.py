"""Links of two answers: how the share of one follows from a number η that covariates move.

Densities, priors and predictions are written in log odds, so a link is a function from η to these.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtri_exp

from ldpbayes.priors.base import NormalLaw

#: η is cut off here: below, a share is e^−700, and above, what is left of a share is.
ENDS = -700.0, math.log(700.0)


class Link:
    """A share F(η), given by the logarithms of F, 1 − F and of the density F′.

    Attributes
    ----------
    name : str
        What ``link=`` takes.
    title : str
        What a coefficient moves, as pages write it.
    unit : float
        ¼ / F′ where F is ½: so many units of η are worth a unit of log odds there.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[float]

    def log_shares(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log F(x) and log(1 − F(x))."""
        raise NotImplementedError

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return log F′(x)."""
        raise NotImplementedError

    def bend(self, x: np.ndarray) -> np.ndarray:
        """Return F″/F′ at x."""
        raise NotImplementedError

    def of_log_odds(self, t: np.ndarray) -> np.ndarray:
        """Return the η at which the log odds of the share are t."""
        raise NotImplementedError

    def log_odds(self, x: np.ndarray) -> np.ndarray:
        """Return the log odds of the share at x."""
        yes, no = self.log_shares(x)
        return yes - no

    def slope(self, x: np.ndarray) -> np.ndarray:
        """Return the derivative of the log odds, F′/(F(1 − F))."""
        yes, no = self.log_shares(x)
        return np.exp(self.log_density(x) - yes - no)

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Return the second derivative of the log odds."""
        slope = self.slope(x)
        yes, no = self.log_shares(x)
        return slope * (self.bend(x) + slope * (np.exp(yes) - np.exp(no)))


class Probit(Link):
    name, title, unit = "probit", "probit", 0.25 * math.sqrt(2 * math.pi)

    def log_shares(self, x):
        return log_ndtr(x), log_ndtr(-x)

    def log_density(self, x):
        return -0.5 * x**2 - 0.5 * math.log(2 * math.pi)

    def bend(self, x):
        return -x

    def of_log_odds(self, t):
        return -np.sign(t) * ndtri_exp(log_expit(-np.abs(t)))


class ComplementaryLogLog(Link):
    name, title, unit = "cloglog", "complementary log-log", 0.5 / math.log(2)

    def log_shares(self, x):
        hazard = np.exp(np.clip(x, *ENDS))
        return np.log(-np.expm1(-hazard)), -hazard

    def log_density(self, x):
        return x - np.exp(np.clip(x, *ENDS))

    def bend(self, x):
        return 1 - np.exp(np.clip(x, *ENDS))

    def of_log_odds(self, t):
        return np.log(np.logaddexp(0.0, t))


class Cauchit(Link):
    name, title, unit = "cauchit", "Cauchit", 0.25 * math.pi

    def log_shares(self, x):
        return np.log(np.arctan2(1.0, -x) / math.pi), np.log(np.arctan2(1.0, x) / math.pi)

    def log_density(self, x):
        return -np.log(math.pi * (1 + x**2))

    def bend(self, x):
        return -2 * x / (1 + x**2)

    def of_log_odds(self, t):
        return np.sign(t) / np.tan(math.pi * np.exp(log_expit(-np.abs(t))))


#: Links by name; the logit is none of them, since log odds are what densities are written in.
LINKS: dict[str, Link] = {link.name: link for link in (Probit(), ComplementaryLogLog(), Cauchit())}


def scale_of(link: str) -> str:
    """Return what coefficients of a link change, in words."""
    return LINKS[link].title if link in LINKS else "log odds"


def logits_of(eta: np.ndarray, link: str, reference: int) -> np.ndarray:
    """Return logits of shares, (…, a), from what the columns add up to against the reference category.

    Parameters
    ----------
    eta : (…, a) array
    link : str
    reference : int
    """
    if link not in LINKS:
        return eta
    out = np.zeros_like(eta)
    out[..., 1 - reference] = LINKS[link].log_odds(eta[..., 1 - reference] - eta[..., reference])
    return out


@dataclass(frozen=True, eq=False)
class ShareLaw(NormalLaw):
    """Unknowns of the coefficients, z ~ N(0, 1), where that of the intercept stands for a share with normal log odds.

    People with average covariates then have the same prior with every link.

    Attributes
    ----------
    link : Link
    place : int
        That of the intercept.
    odds : float
        Log odds of the share for a unit of its z.
    unit : float
        η for a unit of what it stands for.
    """

    link: Link
    place: int
    odds: float
    unit: float

    def of(self, z, xp=np):
        z = np.array(z)
        z[..., self.place] = self.link.of_log_odds(self.odds * z[..., self.place]) / self.unit
        return z

    def slope(self, z):
        slope, t = np.ones_like(z), self.odds * z[..., self.place]
        slope[..., self.place] = self.odds / (self.unit * self.link.slope(self.link.of_log_odds(t)))
        return slope
