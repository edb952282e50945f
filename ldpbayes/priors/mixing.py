"""What a prior mixes: conjugate priors, by coordinates of a hyperparameter that are normal a priori."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def _nothing(values: Mapping[str, np.ndarray], zero: float) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, eq=False)
class Mixing:
    """Conjugate priors by hyperparameters, which are functions of z ~ N(0, I): what ``AbstractPrior.nodes`` returns.

    Attributes
    ----------
    given : callable
        Hyperparameters by name → the conjugate prior: a Dirichlet, or an ``OverFloor``.
    values : callable
        z (k, d) → the hyperparameters, (k,) arrays by name.
    size : int
        d; 0 of one conjugate prior.
    atom : float
        Probability that the first coordinate is −∞: that of a part of the prior with one coordinate less.
    facts : callable
        (draws of the hyperparameters by name, posterior probability of the atom) → further attrs of a result.
    """

    given: Callable[..., Any]
    values: Callable[[np.ndarray], dict[str, np.ndarray]]
    size: int = 1
    atom: float = 0.0
    facts: Callable[[Mapping[str, np.ndarray], float], dict[str, Any]] = _nothing

    @classmethod
    def alone(cls, prior: Any) -> "Mixing":
        """Return the Mixing of one conjugate prior, which mixes nothing."""
        return cls(lambda: prior, lambda z: {}, 0)

    @property
    def single(self) -> bool:
        """Whether there is one conjugate prior."""
        return not self.size

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        return tuple(self.values(np.zeros((1, self.size))))

    def priors(self, values: Mapping[str, np.ndarray], size: int) -> list[Any]:
        """Return the conjugate priors at so many values of the hyperparameters."""
        return [self.given(**{name: float(array[i]) for name, array in values.items()}) for i in range(size)]

    def at(self, z: np.ndarray) -> list[Any]:
        """Return the conjugate priors at z (k, d)."""
        return self.priors(self.values(z), len(z))
