"""Priors for fit(prior=…): Dirichlet([1, 1]), Learnt(), Smooth(), LogLinear(sizes), Hierarchical() over cells, your own."""

import importlib
import pkgutil

from ldpbayes import checks
from ldpbayes.collections import Collection, Summarized
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.priors.base import AbstractPrior
from ldpbayes.priors.compliance import Compliance, Denial
from ldpbayes.priors.device import WithDevice
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.floor import Floor
from ldpbayes.priors.hierarchical import Hierarchical
from ldpbayes.priors.learnt import Learnt
from ldpbayes.priors.lists import Lists
from ldpbayes.priors.loglinear import LogLinear
from ldpbayes.priors.naming import DEFAULT, PRIORS, as_prior
from ldpbayes.priors.product import Product
from ldpbayes.priors.regression import Regression
from ldpbayes.priors.smooth import Smooth
from ldpbayes.priors.tree import SHARE, Tree

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):  # modules with an underscore load compilers
        importlib.import_module(f"{__name__}.{_module.name}")

for _family in AbstractPrior.families():
    PRIORS.update(_family.named())


def prior_for(prior, collection) -> AbstractPrior:
    """Return the prior over a collection's categories that a user means.

    "share:NAME" is a flat prior of the derived quantity NAME, a share of all, and Jeffreys' of the splits of its categories
    and of the others.

    Where respondents may ignore the device (``with_noncompliers``), a word, a number, concentrations of the compliers'
    categories and a prior over these are for the compliers, and γ ~ Beta(1, 9); a prior over all categories stays as it is.
    Where they may deny (``with_deniers``), the same of the answers, and each δ ~ Beta(1, 1).

    Parameters
    ----------
    prior : as in as_prior
    collection : Collection

    Raises
    ------
    InfeasibleError
        Where the reports do not identify γ or δ and the user gave no prior of it.
    """
    checks.instance(collection, "collection", (Collection, Summarized), "a Collection")
    owners, size = collection.owners, collection.n_categories
    if collection.device_law is not None:
        return WithDevice.of(prior, collection, prior_for)
    if isinstance(prior, str) and prior.startswith(SHARE):
        prior = Tree.of_share(collection, prior.removeprefix(SHARE))
    if not owners:
        return as_prior(prior, size)
    if isinstance(prior, AbstractPrior):
        prior = prior.beside(owners) or prior
        is_whole = prior.n_categories == size or prior.beside(owners) is not None
    else:
        is_whole = not isinstance(prior, str) and checks.array_of(prior, "prior", "concentrations, or a prior").size == size
    if is_whole:
        return as_prior(prior, size)
    test = collection.noncompliance()
    if not test.identified:
        raise InfeasibleError(test.sentence)
    if collection.denied:
        return Denial(prior, of=owners, n_categories=size)
    return Compliance(prior, n_laws=len(owners), n_categories=size)


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
    """Return a prior as ``fit`` takes it from text: a name, "share:NAME", a number, or concentrations such as ``0.5,1,2``.

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
    if word in PRIORS or word == DEFAULT or word.startswith(SHARE):
        return word
    cells = [cell.strip() for cell in word.split(",")]
    try:
        if not word.isascii() or "_" in word:  # float() also takes other scripts' digits and 1_000
            raise ValueError
        numbers = [float(cell) for cell in cells]
    except ValueError:
        raise ArgumentError(
            f"prior must be one of {', '.join(PRIORS)}, a concentration such as 0.5, or one concentration per category "
            f"such as 0.5,1,2, got {shown(text[:60])}."
        ) from None
    for number in numbers:
        checks.positive(number, "prior")
    return numbers[0] if len(numbers) == 1 else numbers


__all__ = [
    "AbstractPrior",
    "Compliance",
    "Denial",
    "Dirichlet",
    "Floor",
    "Hierarchical",
    "Learnt",
    "Lists",
    "LogLinear",
    "Product",
    "Regression",
    "Smooth",
    "Tree",
    "as_prior",
]


def __dir__() -> list[str]:
    return [*__all__]
