"""What a user may type for a prior: as_prior turns it into an object."""

import contextlib
import numbers
from collections.abc import Callable

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Cells
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.dirichlet import Dirichlet

#: The prior by rule, the default of ``fit``: what the study of priors supports.
DEFAULT = "default"
#: Rule: From this number of categories on, the rule learns the concentration; below it is Jeffreys'. In the study of
#: docs/theory/priors-study.md the learnt prior has 1.04 times the squared error of Jeffreys' for 9 categories, 1.02 for 16,
#: .83 for 73 to 94 and .6 for 1,000 and more. Chosen: any value from 17 to 73 serves, because it has no population between
#: these. Half would learn for 16 categories, where nothing is gained; double is within the range.
LEARNT_FROM = 20
#: What a user may type for a prior: name → maker from the number of categories; filled where the package is imported.
PRIORS: dict[str, Callable] = {}


def default_prior(n_categories: int) -> str:
    """Return the name of the prior by rule: learnt from LEARNT_FROM categories on, else jeffreys.

    See docs/theory/priors-study.md.
    """
    return "learnt" if checks.categories_count(n_categories) >= LEARNT_FROM else "jeffreys"


def as_prior(prior, n_categories: int, n_cells: int | None = None, cells: Cells | None = None) -> AbstractPrior:
    """Return the prior over n_categories that a user means.

    Parameters
    ----------
    prior : str, number, sequence of numbers or AbstractPrior
        "default", a name of PRIORS, one concentration for all categories, one per category, or a prior.
    n_categories : int
    n_cells : int, optional
        Number of cells, for priors over several of them at once.
    cells : Cells, optional
        The cells themselves, for priors over several of them that need their keys or covariates.

    Returns
    -------
    AbstractPrior

    Raises
    ------
    ArgumentError
        On anything else, or a prior for another number of categories.

    Examples
    --------
    >>> as_prior("flat", 3).describe(), as_prior([1, 2, 3], 3).describe()
    ('flat, Dirichlet(1)', 'Dirichlet with concentrations 1 to 3')
    """
    n_categories = checks.categories_count(n_categories)
    if cells is not None:
        checks.instance(cells, "cells", Cells, "Cells")
    if isinstance(prior, str):
        prior = default_prior(n_categories) if prior == DEFAULT else prior
        prior = PRIORS[checks.choice(prior, "prior", tuple(PRIORS))](n_categories)
    if isinstance(prior, AbstractPrior):
        return prior.over(n_categories, n_cells) if cells is None else prior.on(cells)
    if isinstance(prior, numbers.Real) or (isinstance(prior, np.ndarray) and prior.ndim == 0):
        value = prior.item() if isinstance(prior, np.ndarray) else prior
        return Dirichlet(np.full(n_categories, checks.positive(value, "prior")))
    concentrations = _vector(prior)
    if concentrations.size != n_categories:
        raise ArgumentError(f"prior must have one concentration per category ({n_categories}), got {concentrations.size}.")
    return Dirichlet(concentrations)


def _vector(prior):
    """Return concentrations as a float vector, or say what a prior may be."""
    with contextlib.suppress(ArgumentError):
        return checks.reals(prior, "prior", finite=False)
    raise ArgumentError(
        f"prior must be one of {', '.join(PRIORS)}, a concentration, one concentration per category, or a prior of "
        f"ldpbayes.priors, got {_named(prior)}."
    )


def _named(value):
    """Return a short name of something that is no prior."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return "a fitted result" if kind in ("DataTree", "Result") else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
