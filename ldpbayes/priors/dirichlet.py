"""Dirichlet priors over the distribution P."""

from dataclasses import dataclass

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Dirichlet:
    """Dirichlet(α): density ∝ Π_x p_x^{α_x − 1} on the simplex.

    Parameters
    ----------
    alpha : (a,) array
        Concentrations, finite and above zero; Jeffreys is ½, flat is 1.
    """

    alpha: np.ndarray

    def __post_init__(self):
        alpha = np.array(self.alpha, dtype=float)
        if alpha.ndim != 1 or alpha.size < 2:
            raise ArgumentError(f"alpha must be one-dimensional with at least two entries, got shape {alpha.shape}.")
        if not (np.isfinite(alpha) & (alpha > 0)).all():
            raise ArgumentError(f"alpha must be finite and above 0, got {alpha[~(np.isfinite(alpha) & (alpha > 0))][0]}.")
        alpha.setflags(write=False)
        object.__setattr__(self, "alpha", alpha)

    def __eq__(self, other):
        return isinstance(other, Dirichlet) and np.array_equal(self.alpha, other.alpha)

    def __hash__(self):
        return hash(self.alpha.tobytes())

    @classmethod
    def jeffreys(cls, n_categories):
        """Return Dirichlet(½, …, ½)."""
        return cls(np.full(checks.categories_count(n_categories), 0.5))

    @classmethod
    def flat(cls, n_categories):
        """Return Dirichlet(1, …, 1), uniform on the simplex."""
        return cls(np.ones(checks.categories_count(n_categories)))

    @property
    def n_categories(self):
        """Number of categories, a."""
        return self.alpha.size

    @property
    def total(self):
        """Σ_x α_x."""
        return float(self.alpha.sum())

    @property
    def mean(self):
        """E[P] = α / Σα."""
        return self.alpha / self.total

    def describe(self):
        """Return a short name such as ``Jeffreys, Dirichlet(0.5)``."""
        first = self.alpha[0]
        if (self.alpha == first).all():
            known = {0.5: "Jeffreys, ", 1.0: "flat, "}.get(float(first), "")
            return f"{known}Dirichlet({first:g})"
        return f"Dirichlet with concentrations {self.alpha.min():g} to {self.alpha.max():g}"


def as_prior(prior, n_categories):
    """Return a Dirichlet over n_categories from "jeffreys", "flat", a number, a vector or a Dirichlet."""
    if isinstance(prior, Dirichlet):
        result = prior
    elif isinstance(prior, str):
        checks.choice(prior, "prior", ("jeffreys", "flat"))
        result = Dirichlet.jeffreys(n_categories) if prior == "jeffreys" else Dirichlet.flat(n_categories)
    elif np.ndim(prior) == 0:
        result = Dirichlet(np.full(n_categories, checks.positive(prior, "prior")))
    else:
        result = Dirichlet(prior)
    if result.n_categories != n_categories:
        raise ArgumentError(f"prior must have one concentration per category ({n_categories}), got {result.n_categories}.")
    return result
