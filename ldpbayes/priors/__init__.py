"""Priors: one file each; as_prior turns what a user types into an object."""

from ldpbayes.priors.dirichlet import Dirichlet, as_prior

__all__ = ["Dirichlet", "as_prior"]
