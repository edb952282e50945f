"""The table of priors that every contract test of a prior runs over, with a family that the package does not know."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from ldpbayes.priors import (
    PRIORS,
    AbstractPrior,
    Compliance,
    Denial,
    Dirichlet,
    Hierarchical,
    Lists,
    LogLinear,
    Product,
    Regression,
    Tree,
)
from ldpbayes.priors.base import AbstractSoftmax, NormalLaw
from ldpbayes.priors.compliance import over_cells
from ldpbayes.priors.extended import Extended
from ldpbayes.priors.regression import Effects, Monotone, walk_root


@dataclass(frozen=True)
class LogisticNormal(AbstractSoftmax):
    """A family in one file: P = softmax(0, scale·z), z standard normal; its gradient is derived."""

    n_categories: int
    scale: float = 1.0

    def blocks(self):
        return {"": (NormalLaw(), (self.n_categories - 1,))}

    def eta(self, values, xp):
        return xp.concatenate([xp.zeros_like(values[""][..., :1]), self.scale * values[""]], axis=-1)


@dataclass(frozen=True, eq=False)
class CellsApart(AbstractPrior):
    """Several cells at once, each with the same one-cell prior: the smallest family with P of shape (cells, categories)."""

    one: AbstractPrior
    n_cells: int

    @property
    def shape(self):
        return (self.n_cells, *self.one.shape)

    @property
    def n_categories(self):
        return self.one.n_categories

    @property
    def n_unknowns(self):
        return self.n_cells * self.one.n_unknowns

    def _split(self, z):
        z = np.asarray(z, dtype=float)
        return z.reshape(*z.shape[:-1], self.n_cells, self.one.n_unknowns)

    def sample(self, size, rng):
        return np.stack([self.one.sample(size, rng) for _ in range(self.n_cells)], axis=1)

    def log_density(self, z):
        return sum(self.one.log_density(part) for part in np.moveaxis(self._split(z), -2, 0))

    def gradient(self, z):
        return np.concatenate([self.one.gradient(part) for part in self._split(z)])

    def to_simplex(self, z):
        return np.stack([self.one.to_simplex(part) for part in np.moveaxis(self._split(z), -2, 0)], axis=-2)

    def pullback(self, z, dp):
        return np.concatenate([self.one.pullback(part, d) for part, d in zip(self._split(z), dp, strict=True)])

    def pymc(self, name):
        import pytensor.tensor as pt

        return pt.stack([self.one.pymc(f"{name}_{c}") for c in range(self.n_cells)])

    def describe(self):
        return f"{self.one.describe()} in each of {self.n_cells} cells"

    def to_dict(self):
        return self.one.to_dict()


@dataclass(frozen=True)
class Modes(AbstractPrior):
    """Logits against the first category are normal, about one of several places: modes that nothing else shows."""

    shares: tuple
    places: tuple
    sd: float
    n_categories: int = 2

    @property
    def n_unknowns(self):
        return self.n_categories - 1

    def sample(self, size, rng):
        place = rng.choice(self.places, (size, 1), p=self.shares)
        return self.to_simplex(place + self.sd * rng.standard_normal((size, self.n_unknowns)))

    def _parts(self, z):
        places = np.array(self.places).reshape(-1, *(1,) * z.ndim)
        normal = -0.5 * ((z - places) / self.sd) ** 2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi)
        logs = normal.sum(axis=-1) + np.log(self.shares).reshape(-1, *(1,) * (z.ndim - 1))
        return logs, (places - z) / self.sd**2

    def log_density(self, z):
        return np.logaddexp.reduce(self._parts(np.asarray(z))[0])

    def gradient(self, z):
        logs, slopes = self._parts(np.asarray(z))
        return np.exp(logs - np.logaddexp.reduce(logs)) @ slopes

    def to_simplex(self, z):
        return softmax(np.concatenate([np.zeros_like(z[..., :1]), z], axis=-1), axis=-1)

    def pullback(self, z, dp):
        p = self.to_simplex(z)
        return (p * (dp - p @ dp))[1:]

    def pymc(self, name):
        raise NotImplementedError

    def describe(self):
        return "several modes"

    def to_dict(self):
        return {}


class Hidden(Dirichlet):
    """A Dirichlet that does not say it is one: general engines must find what exact ones know."""

    def concentrations(self):
        return None

    @classmethod
    def named(cls):
        return {}


def compliance(a, gamma):
    """Return Jeffreys for the compliers with one law, or two where the categories allow; at a = 2 the prior of γ alone."""
    if a == 2:
        return Dirichlet(np.array(gamma))
    return Compliance(np.full(a - 1 - (a > 3), 0.5), gamma, 1 + (a > 3), a)


def tree(a, shares, splits):
    """Return a tree of the first and last category as one block and the others as one; at a = 2 of the shares alone."""
    blocks = ((0,), (1,)) if a == 2 else ((a - 1, 0), tuple(range(1, a - 1)))
    return Tree(blocks, shares, splits)


def denial(a, beta, alpha=0.5):
    """Return Dirichlet(alpha) of the answers with one that is denied, or two where the categories allow."""
    if a == 2:
        return Dirichlet(np.array(beta))
    return Denial(np.full(a - 1 - (a > 3), alpha), beta, (1, 0) if a > 3 else (1,), a)


def regression(a, grouped=False):
    """Return a regression of four cells on a column, with effects of two groups and of ordered levels where asked for."""
    design = np.column_stack([np.ones(4), [-1.0, 0.0, 0.5, 2.0]])
    sizes, levels = np.array([5.0, 1.0, 2.0, 2.0]), (("0", "1", "3"), np.eye(3)[[0, 2, 1, 1]])
    if not grouped:
        return Regression(design, n_categories=a, sizes=sizes, reference=a - 1)
    groups = Effects("1|g", ("u", "v"), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), 0.5)
    effects = groups, Effects("rw(x)", *levels, 0.8, root=walk_root(np.array([0.0, 1, 3])))
    monotone = (Monotone("mo(x)", *levels, np.tri(3, 2, -1) - [0.75, 0.25]),)
    return Regression(design, n_categories=a, effects=effects, monotone=monotone, sizes=sizes, reference=a - 1)


def lists(a, apart):
    """Return one list, or two at a = 12; below four categories there are none."""
    return Lists((1, 2) if a == 12 else a // 2 - 1, apart) if a > 3 else LogisticNormal(a)


def extended(inner, beside, a, beta):
    """Return a prior over three cells beside those who deny or ignore the device; at a = 2 that of P alone."""
    if a == 2:
        return inner.sized(2, 3)
    one, number = beside(a, beta), 1 + (a > 3)
    owners = one.of if beside is denial else (None,) * number
    return Extended(over_cells(replace(one, n_categories=None), inner.sized(a - number, 3), owners, a))


#: name → prior over so many categories.
PRIOR_CASES = {
    **{name: maker for name, maker in PRIORS.items()},
    "hierarchical": lambda a: Hierarchical().sized(a, 3),
    "days": lambda a: Hierarchical("days").sized(a, 3),
    "neighbours": lambda a: Hierarchical(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]])).sized(a, 3),
    "hierarchical by category": lambda a: Hierarchical(by_category=True, scale=0.7).sized(a, 3),
    "uneven Dirichlet": lambda a: Dirichlet(np.linspace(0.3, 4.0, a)),
    "logistic-normal": lambda a: LogisticNormal(a, 1.5),
    "compliance": lambda a: compliance(a, (2.0, 7.0)),
    "conjugate compliance": lambda a: compliance(a, (1.0, 0.5 * (a - 1 - (a > 3)))),
    "tree": lambda a: tree(a, [1.5, 0.8], "jeffreys"),
    "tree of logistic-normals": lambda a: tree(a, LogisticNormal(2), "flat"),
    "product": lambda a: Product((2, a // 2), [LogisticNormal(2), 0.7]) if a > 3 else Product((a,)),
    "denial": lambda a: denial(a, (2.0, 3.0)),
    "conjugate denial": lambda a: denial(a, (0.8, 1.2), 2.0),
    "lists": lambda a: lists(a, False),
    "lists apart": lambda a: lists(a, True),
    "regression": regression,
    "regression with groups": lambda a: regression(a, grouped=True),
    "log-linear": lambda a: LogLinear((2, a // 2) if a > 3 else (a,)),
    "hierarchical beside deniers": lambda a: extended(Hierarchical(), denial, a, (2.0, 3.0)),
    "days beside noncompliance": lambda a: extended(Hierarchical("days"), compliance, a, (2.0, 7.0)),
    "cells apart": lambda a: CellsApart(LogisticNormal(a), 3),
}
