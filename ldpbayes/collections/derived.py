"""Quantities derived from the shares of categories, and the texts that name things of a result."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import DataError, shown

#: Mathematics: Shares below this one are drawn again in logarithms, where a derived quantity divides by them.
TINY = 1e-290


def check_text(value: object, name: str) -> str:
    """Return a text that a result can store, or raise a DataError: no NUL character, no half of a surrogate pair."""
    if not isinstance(value, str):
        raise DataError(f"{name} must be text, got {shown(value)}")
    if "\0" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)):
        raise DataError(f"{name} must not hold NUL characters or surrogates, got {shown(value)}")
    return value


def check_name(value: object, what: str) -> str:
    """Return the name of a channel or of a derived quantity, which names variables of the result: text without "/"."""
    value = check_text(value, f"the name of a {what}")
    if not value.strip(" .") or "/" in value:
        raise DataError(f"the name of a {what} must not be empty, dots, or hold '/', got {shown(value)}")
    return value


#: Names of variables and dimensions of a result, which no derived quantity may take.
RESERVED = {"distribution", "frequency", "chain", "draw", "cell", "category", "category_bis"}


@dataclass(frozen=True)
class Derived:
    """A quantity made of category sums: Σ_{x in of} p_x, divided by Σ_{x in given} p_x where given is stated.

    Parameters
    ----------
    name : str
        Names its variable in the result: not empty, without "/", and not a name that the result uses itself.
    of : sequence of str
        Labels of different categories, at least one.
    given : sequence of str
        Labels of different categories, those of ``of`` among them; the quantity is then a share of their sum.

    Raises
    ------
    DataError
        On a name or a list that breaks these rules.
    """

    name: str
    of: Sequence[str]
    given: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "derived quantity")
        if self.name in RESERVED:
            raise DataError(f"a derived quantity must not be called {self.name!r}; the result has one of that name")
        where = f"derived.{self.name}"
        for key in ("of", "given"):
            labels = getattr(self, key)
            if isinstance(labels, str):
                raise DataError(f"{key} must be a list of category labels, got {shown(labels)}", field=where)
            labels = checks.labels(labels, f"{where}: {key}", "a list of category labels")
            object.__setattr__(self, key, labels)
            repeated = next((label for i, label in enumerate(labels) if label in labels[:i]), None)
            if repeated is not None:
                raise DataError(f"{key} names the category {shown(repeated)} twice", field=where)
        if not self.of:
            raise DataError("of must name at least one category", field=where)
        missing = [label for label in self.of if self.given and label not in self.given]
        if missing:
            raise DataError(
                f"given must contain every category of of, {shown(missing[0])} is missing; without it the quotient is not a "
                "share",
                field=where,
            )

    def evaluate(self, p: np.ndarray, categories: Sequence[str]) -> np.ndarray:
        """Return the quantity for p of shape (..., a); nan where it is a share of categories that have none."""
        total = self._sum(self.of, p, categories)
        if not self.given:
            return total
        with np.errstate(invalid="ignore"):
            return total / self._sum(self.given, p, categories)

    @staticmethod
    def _sum(labels: Sequence[str], p: np.ndarray, categories: Sequence[str]) -> np.ndarray:
        return p[..., [categories.index(label) for label in labels]].sum(axis=-1)


def columns_of(data: Any, labels: Iterable[str]) -> tuple[str, ...]:
    """Return answers with the categories of those who deny them."""
    named = tuple(labels)
    return named + tuple(
        law for law, x in zip(data.laws, data.owners, strict=True) if x is not None and data.categories[x] in named
    )


def of_device(law: Any, categories: Sequence[str]) -> tuple[Derived, ...]:
    """Return the probabilities of a device, a DeviceLaw, as derived quantities of the categories, which are its outcomes."""
    labels, out = np.array(categories, dtype=object), []
    for (names, _), places in zip(law.unknowns, law.places, strict=True):
        given = tuple(labels[places >= 0])
        for u, name in enumerate(names):
            if name:
                out.append(Derived(name, tuple(labels[places == u]), () if len(given) == labels.size else given))
    return tuple(out)


def evaluate_draws(
    derived: Sequence[Derived],
    p: np.ndarray,
    categories: Sequence[str],
    concentrations: Callable[[np.ndarray], np.ndarray] | None,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Return derived quantities, by name, of draws from a posterior under a Dirichlet prior, however small its α.

    Where all categories of ``given`` have shares that no float64 holds, the quantity is 0/0 in floating point and well
    defined in logarithms: the density of a share that tends to zero is that of the prior, p^{α−1}, so that its logarithm
    below log t is log t + log(U)/α with U uniform.

    Parameters
    ----------
    derived : sequence of Derived
    p : (..., a) array
    categories : sequence of str
    concentrations : callable, optional
        Draws, by their places in the flat array → α, shape (k, a). None where the prior is no Dirichlet or mixture of them:
        such a quantity is nan then.
    rng : numpy.random.Generator
        Used for such draws alone.

    Returns
    -------
    dict of (...) arrays
    """
    found = {item.name: item.evaluate(p, categories) for item in derived}
    shares = [item for item in derived if item.given]
    if concentrations is None or not shares:
        return found
    flat = p.reshape(-1, p.shape[-1])
    least = np.min([Derived._sum(item.given, flat, categories) for item in shares], axis=0)
    small = np.flatnonzero(least < TINY)
    if not small.size:
        return found
    some, alpha = flat[small], concentrations(small)
    beyond = math.log(TINY) + np.log(rng.random(some.shape)) / alpha
    logs = np.where(some < TINY, beyond, np.log(np.maximum(some, TINY)))
    for item in shares:
        log_given = logs[:, [categories.index(label) for label in item.given]]
        relative = np.exp(np.minimum(logs - log_given.max(axis=1, keepdims=True), 0.0))
        values = found[item.name].reshape(-1)
        values[small] = item.evaluate(relative, categories)
        found[item.name] = values.reshape(p.shape[:-1])
    return found
