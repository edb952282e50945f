"""A prior over all cells beside respondents who deny or ignore the device, whose shares are those of each cell.

``priors/compliance.py`` has the same for one distribution, and the Beta priors of the shares, which this uses. What the
further categories are called and what is said of them is no prior: ``collections/wrappers/``, one file a wrapper.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincinv, ndtr

from ldpbayes.collections.noncompliance import compliers_only
from ldpbayes.errors import CellsError
from ldpbayes.inference.bending import ScaledEffects
from ldpbayes.priors.base import AbstractPrior, NormalLaw, QuantileLaw
from ldpbayes.priors.compliance import Compliance, Denial, over_cells
from ldpbayes.priors.naming import as_prior

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from ldpbayes.collections import Cells

#: Mathematics: Quantiles of shares are tabulated at so many points, as far into the tails of a normal law as these are
#: floats.
FAR, POINTS = 37.0, 1481


@functools.lru_cache(maxsize=64)
def logit_of_beta(b: float, c: float) -> QuantileLaw:
    """Return the law of the logit of a share ~ Beta(b, c), as a function of a standard normal number."""
    z = np.linspace(-FAR, FAR, POINTS)
    share, rest = betaincinv(b, c, ndtr(z)), betaincinv(c, b, ndtr(-z))
    with np.errstate(divide="ignore"):
        # The smaller of both keeps its digits, and gives the logarithm of the other.
        log_share = np.where(rest < 0.5, np.log1p(-rest), np.log(share))
        log_rest = np.where(share < 0.5, np.log1p(-share), np.log(rest))
    logit = log_share - log_rest
    finite = np.isfinite(logit)
    finite[1:] &= np.diff(logit, prepend=-np.inf)[1:] > 0
    return QuantileLaw(logit[finite], z[finite])


@dataclass(frozen=True, eq=False)
class Extended(AbstractPrior):
    """p′ of all cells over the longer alphabet: P by a prior over all of them, independent shares of each cell beside it.

    Parameters
    ----------
    shares : Compliance or Denial
        How p′ comes from P and the shares of a cell, and the priors of both; that of P is one over all cells.

    Notes
    -----
    The unknowns are those of the answers, and standard normal numbers whose quantiles the shares have: the logit of a share
    is F⁻¹(Φ(z)). Where the answers of a cell have unknowns that move this cell only, its shares stand beside them, so that
    the Hessian is an arrow still; elsewhere they stand before the scales of the effects, or last.
    """

    shares: Compliance | Denial
    _last: list = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, prior: Any, cells: "Cells") -> "Extended | None":
        """Return the prior of cells whose respondents may deny or ignore the device; None where that of P is for one cell.

        A CellsError names cells whose reports do not identify their shares, where the user gave no prior of these.
        """
        owners = cells.owners
        plain = cells.with_cells({key: compliers_only(cell) for key, cell in cells.items()})
        stated: Any = prior.beside(owners) if isinstance(prior, AbstractPrior) else None
        answers = as_prior(stated.compliers if stated else prior, plain.n_categories, cells=plain)
        if len(answers.shape) == 1:
            return None
        tests = zip(cells.labels, [] if stated else [cell.noncompliance() for cell in cells.values()], strict=False)
        unknown = {label: test.sentence for label, test in tests if not test.identified}
        for label, why in unknown.items():
            raise CellsError(f"Cell {label}: {why}", unknown)
        shares = stated or (Denial() if cells.denied else Compliance())
        return cls(over_cells(shares, answers, owners, cells.n_categories))

    @cached_property
    def answers(self) -> Any:
        """The prior of P of all cells."""
        return self.shares.without(())

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of categories of p′."""
        return self.shares.n_categories  # type: ignore[return-value]  # known by now

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.answers.shape[0], self.n_categories)

    @property
    def n_unknowns(self) -> int:
        return self.answers.n_unknowns + self.places[1].size

    @cached_property
    def laws(self) -> list[tuple[Any, list[QuantileLaw]]]:
        """Each Dirichlet prior of shares of a cell, and the laws of the logits of its sticks."""
        priors: list[Any] = [prior for prior in self.shares.parts if prior is not self.answers]
        return [(prior, [logit_of_beta(float(b), float(c)) for b, c in prior.sticks]) for prior in priors]

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the unknowns of the answers stand, and where those of the shares do, (cells, shares)."""
        cells, size, each = self.shape[0], self.answers.n_unknowns, sum(len(laws) for _, laws in self.laws)
        local, varying = self.answers.cell_unknowns(), self.answers.varying
        if local is not None:
            start, width = local
            first = start + (width + each) * np.arange(cells)[:, None]
            of_answers = np.concatenate([np.arange(start), (first + np.arange(width)).ravel()])
            return of_answers, first + width + np.arange(each)
        start = min((batch.place for batch in varying), default=size)
        shares = start + np.arange(cells * each).reshape(cells, each)
        return np.r_[:start, start + shares.size : size + shares.size], shares

    def _of_answers(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(z, dtype=float)[..., self.places[0]]

    def _with(self, parts: list, answers: Any) -> list:
        """Return what p′ is joined of: parts of the shares, with that of the answers in its place."""
        parts.insert(self.shares.parts.index(self.answers), answers)
        return parts

    def _at(self, z: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return (unknowns of the sticks of each Dirichlet prior, what p′ is joined of); the last point is remembered."""
        z, sticks, at = np.asarray(z, dtype=float), [], 0
        if self._last and np.array_equal(self._last[0], z):
            return self._last[1]
        for _, laws in self.laws:
            u = z[..., self.places[1][:, at : at + len(laws)]]
            sticks.append(np.stack([law.of(u[..., j]) + math.log(len(laws) - j) for j, law in enumerate(laws)], axis=-1))
            at += len(laws)
        parts = [prior.to_simplex(stick) for (prior, _), stick in zip(self.laws, sticks, strict=True)]
        pair = sticks, self._with(parts, self.answers.to_simplex(self._of_answers(z)))
        if z.ndim == 1:
            self._last[:] = z.copy(), pair
        return pair

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        return self.shares.joined(self._at(z)[1])

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        (sticks, parts), out, of_answers = self._at(z), np.empty(self.n_unknowns), self._of_answers(z)
        slopes = self.shares.apart(parts, dp)
        out[self.places[0]] = self.answers.pullback(of_answers, slopes.pop(self.shares.parts.index(self.answers)))
        along = [prior.pullback(at, slope) for (prior, _), at, slope in zip(self.laws, sticks, slopes, strict=True)]
        laws, unknowns = [law for _, each in self.laws for law in each], z[self.places[1]]
        steep = np.stack([law.slope(unknowns[:, j]) for j, law in enumerate(laws)], axis=-1)
        out[self.places[1]] = np.concatenate(along, axis=-1) * steep
        return out

    def log_density(self, z: np.ndarray) -> np.ndarray:
        unknowns = np.asarray(z, dtype=float)[..., self.places[1].ravel()]
        return self.answers.log_density(self._of_answers(z)) + NormalLaw().total(unknowns)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        out = -np.asarray(z, dtype=float)
        out[self.places[0]] = self.answers.gradient(self._of_answers(z))
        return out

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray | None:
        out, answers = rng.standard_normal((size, self.n_unknowns)), self.answers.unknowns(size, rng)
        if answers is None:
            return None
        out[:, self.places[0]] = answers
        return out

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        cells = self.shape[0]
        parts = [prior.sample(size * cells, rng).reshape(size, cells, -1) for prior, _ in self.laws]
        return self.shares.joined(self._with(parts, self.answers.sample(size, rng)))

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        alphas = [prior.alpha for prior, _ in self.laws]
        parts = [pm.Dirichlet(f"{name}_shares_{k}", x, shape=(self.shape[0], len(x))) for k, x in enumerate(alphas)]
        return self.shares.joined(self._with(parts, self.answers.pymc(name)), pt)

    def describe(self) -> str:
        return f"{self.shares.describe()}, in each cell"

    def to_dict(self) -> dict[str, np.ndarray]:
        return self.shares.to_dict()

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self.answers.hyperparameters(self._of_answers(z))

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        return self.answers.log_hyperprior(draws)

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return self.answers.variables(self._of_answers(z))

    def coords(self) -> dict[str, Sequence]:
        return self.answers.coords()

    def cell_unknowns(self) -> tuple[int, int] | None:
        each, places = self.places[1].shape[1], self.answers.cell_unknowns()
        if places is None:
            return None if self.answers.varying else (self.answers.n_unknowns, each)
        return places[0], places[1] + each

    def spectrum(self, z: np.ndarray) -> tuple[int, np.ndarray, np.ndarray] | None:
        values = self.answers.spectrum(self._of_answers(z))
        return None if values is None else (int(self.places[0][values[0]]), *values[1:])

    @cached_property
    def varying(self) -> list[ScaledEffects]:  # type: ignore[override]  # cached
        of = self.places[0]
        return [batch._replace(place=int(of[batch.place]), span=of[batch.span]) for batch in self.answers.varying]
