"""Priors: one file each, found by importing this package; as_prior turns what a user types into an object."""

import contextlib
import importlib
import numbers
import pkgutil

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection, Summarized
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.compliance import Compliance
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.hierarchical import Hierarchical
from ldpbayes.priors.learnt import Learnt
from ldpbayes.priors.loglinear import LogLinear
from ldpbayes.priors.regression import Regression
from ldpbayes.priors.smooth import Smooth

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):  # modules with an underscore load compilers
        importlib.import_module(f"{__name__}.{_module.name}")

#: The prior by rule, the default of ``fit``: what the study of priors supports.
DEFAULT = "default"
#: From this number of categories on, the rule learns the concentration; below it is Jeffreys'.
LEARNT_FROM = 20
#: What a user may type for a prior: name → maker from the number of categories.
PRIORS = {name: maker for family in AbstractPrior.__subclasses__() for name, maker in family.named().items()}


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


def prior_for(prior, collection) -> AbstractPrior:
    """Return the prior over a collection's categories that a user means.

    Where respondents may ignore the device (``with_noncompliers``), a word, a number, concentrations of the compliers'
    categories and a prior over these are for the compliers, and γ ~ Beta(1, 9); a prior over all categories stays as it is.

    Parameters
    ----------
    prior : as in as_prior
    collection : Collection

    Raises
    ------
    InfeasibleError
        Where the reports do not identify γ and the user gave no prior of it.
    """
    if not isinstance(collection, Collection | Summarized):
        raise ArgumentError(f"collection must be a Collection, got {type(collection).__name__}.")
    n_laws, size = collection.n_laws, collection.n_categories
    if not n_laws or isinstance(collection, Summarized):
        return as_prior(prior, size)
    if isinstance(prior, AbstractPrior):
        prior = prior.beside(n_laws) or prior
        whole = prior.n_categories == size or prior.beside(n_laws) is not None
    else:
        whole = not isinstance(prior, str) and np.size(prior) == size
    if whole:
        return as_prior(prior, size)
    found = collection.noncompliance()
    if not found.identified:
        raise InfeasibleError(found.sentence)
    return Compliance(prior, n_laws=n_laws, n_categories=size)


def as_dirichlet(prior, n_categories: int, what: str) -> Dirichlet:
    """Return the conjugate prior over n_categories that a user means, for formulas that need one.

    Parameters
    ----------
    prior : as in as_prior
    n_categories : int
    what : str
        What needs it, the subject of the sentence that refuses any other prior.

    Raises
    ------
    InfeasibleError
        Where the prior is not Dirichlet.
    """
    prior = as_prior(prior, n_categories)
    alpha = prior.concentrations()
    if alpha is None:
        raise InfeasibleError(f"{what} needs a Dirichlet prior, got {prior.describe()}.")
    return Dirichlet(alpha)


def parse_prior(text: str):
    """Return what as_prior takes from text: a name, a number, or a list of concentrations such as ``0.5,1,2``.

    Parameters
    ----------
    text : str

    Returns
    -------
    str, float or list of float

    Raises
    ------
    ArgumentError
        Where the text is none of them.

    Examples
    --------
    >>> parse_prior("jeffreys"), parse_prior("2"), parse_prior("0.5, 1, 2")
    ('jeffreys', 2.0, [0.5, 1.0, 2.0])
    """
    word = checks.text(text, "prior").strip()
    if word in PRIORS or word == DEFAULT:
        return word
    cells = [cell.strip() for cell in word.split(",")]
    try:
        if not word.isascii() or "_" in word:  # float() also takes other scripts' digits and 1_000
            raise ValueError
        found = [float(cell) for cell in cells]
    except ValueError:
        raise ArgumentError(
            f"prior must be one of {', '.join(PRIORS)}, a concentration such as 0.5, or one concentration per category "
            f"such as 0.5,1,2, got {shown(text[:60])}."
        ) from None
    for number in found:
        checks.positive(number, "prior")
    return found[0] if len(found) == 1 else found


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
    return "a fitted result" if kind == "DataTree" else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


__all__ = [
    "DEFAULT",
    "LEARNT_FROM",
    "PRIORS",
    "AbstractPrior",
    "Compliance",
    "Dirichlet",
    "Hierarchical",
    "Learnt",
    "LogLinear",
    "Regression",
    "Smooth",
    "as_dirichlet",
    "as_prior",
    "default_prior",
    "parse_prior",
    "prior_for",
]
