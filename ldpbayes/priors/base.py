"""What every prior has in common: draws, unconstrained coordinates with a density and a gradient, and a PyMC variable."""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ldpbayes.errors import ArgumentError

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from ldpbayes.collections import Cells
    from ldpbayes.priors.dirichlet import Dirichlet
    from ldpbayes.priors.loglinear import LogLinear


@dataclass(frozen=True, eq=False)
class Grouped:
    """Logits η_c = (centre·m + σ∘w_c) basis of unknowns z = (m, log of σ/scale, w) with standard normal m and w.

    σ/scale is half-normal(1): a form that engines compile as a whole.

    Attributes
    ----------
    centre, scale : float
    n_scales : int
        One σ for all coordinates, or one each.
    basis : (k, categories) array
    """

    centre: float
    scale: float
    n_scales: int
    basis: np.ndarray


class AbstractLogits(abc.ABC):
    """P = softmax(η): what a prior over cells does to get the logits η of all cells, so that engines need no more.

    Engines then compute the softmax and the likelihood of all cells in one compiled function.
    """

    @abc.abstractmethod
    def of(self, z: np.ndarray) -> np.ndarray:
        """Return η, shape (cells, categories), for z of shape (n_unknowns,)."""

    @abc.abstractmethod
    def pullback(self, z: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return Jᵀ slope: the gradient with respect to z of a function of η whose gradient is slope, of η's shape."""

    def spectrum(self, z: np.ndarray) -> "tuple[int, np.ndarray, np.ndarray] | None":
        """Return (start, σ, weights) where z is (centre, …, effects) and their Hessian is nearly block diagonal.

        The effects are z[start:], k to each weight v, and their block is nearly I + v σσᵀ∘J with J (k, k) minus the Hessian
        of the log-likelihood in a shift of the logits of all cells, along the first k unknowns. Else None.
        """
        return None

    def scales(self) -> slice | None:
        """Return where z holds logs of scales s ~ HalfNormal(1) that multiply the effects after them, in turn; else None.

        What is before them are k standard normal unknowns of the centre, and the effects are k to each weight.
        """
        return None

    def grouped(self) -> Grouped | None:
        """Return the Grouped form where this is one, else None."""
        return None

    def local(self) -> "tuple[int, int] | None":
        """Return (start, k) where z[start:] are k unknowns for each cell in turn, which move that cell only; else None."""
        return None


@dataclass(frozen=True, eq=False)
class Nodes:
    """A mixture of conjugate priors as it matters under a likelihood: quadrature nodes with their posterior weights.

    Attributes
    ----------
    values : (k,) array
        The hyperparameter at each node.
    priors : tuple of Dirichlet
        The conjugate prior at each node.
    weights : (k,) array
        Posterior weights of the nodes; they sum to one.
    log_evidence : float
        log ∫ (evidence given the hyperparameter) × (its prior).
    log_evidences : (k,) array
        The log-evidence given each node.
    seen, seen_log_evidences : (m,) arrays
        All values of the hyperparameter that were looked at, in order, and the log-evidences there.
    error : float
        Of log_evidence by the rule: its difference to the integral of the curve through all values that were looked at.
    """

    values: np.ndarray
    priors: "tuple[Dirichlet, ...]"
    weights: np.ndarray
    log_evidence: float
    log_evidences: np.ndarray
    seen: np.ndarray
    seen_log_evidences: np.ndarray
    error: float = math.nan


class AbstractMixture(abc.ABC):
    """A prior that is a one-parameter mixture of conjugate ones, so that exact methods can handle it."""

    #: The mixing hyperparameter, as results call it.
    parameter: ClassVar[str]

    @abc.abstractmethod
    def at(self, value: float) -> "Dirichlet":
        """Return the conjugate prior given the hyperparameter."""

    @abc.abstractmethod
    def nodes(
        self,
        log_evidence: "Callable[[Dirichlet], float]",
        rough: "Callable[[Dirichlet], float] | None" = None,
        near: Nodes | None = None,
    ) -> Nodes:
        """Return quadrature nodes placed about the mode of evidence × hyperprior.

        Parameters
        ----------
        log_evidence : callable
            The log-evidence of the reports under a Dirichlet prior.
        rough : callable, optional
            A faster one, accurate to some hundredths, for placing the nodes.
        near : Nodes, optional
            Of a log-evidence that differs little: the search starts there.
        """

    @abc.abstractmethod
    def quantile(self, nodes: Nodes, levels: np.ndarray) -> np.ndarray:
        """Return posterior quantiles of the hyperparameter, from what the nodes know of its density."""


@dataclass(frozen=True)
class Walk:
    """log p = a walk over the ordered categories + a deviation of each, up to a constant.

    The walk's steps are σ t with t ~ Student-t(degrees) and σ ~ Exponential(rate); the deviations are N(0, τ²) with
    τ ~ Exponential(mean ``local``).

    Attributes
    ----------
    rate, degrees, local : float
    """

    rate: float
    degrees: float
    local: float


class AbstractPrior(abc.ABC):
    """A prior over the distribution P, or over the distributions of several cells at once.

    The unconstrained unknowns z are n_unknowns real numbers; P = to_simplex(z), and log_density is the density of z
    itself, Jacobian included. z = 0 lies where the prior has its mass, so that searches start there. A prior is one file
    of ldpbayes.priors; it knows neither protocols nor likelihoods.

    Attributes
    ----------
    n_categories : int
        Number of categories, a; a field or a property of the family.
    """

    n_categories: int
    #: What hyperparameters() returns, and the names of their PyMC variables.
    hyperparameter_names: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def named(cls) -> "Mapping[str, Callable[[int], AbstractPrior]]":
        """Return the names under which users ask for this family, each with its maker from the number of categories."""
        return {}

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of P: (categories,), or (cells, categories)."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of P's dimensions."""
        return ("cell", "category")[-len(self.shape) :]

    def over(self, n_categories: int, n_cells: int | None = None) -> "AbstractPrior":
        """Return this prior for so many categories (and cells).

        Raises
        ------
        ArgumentError
            Where the prior is for another number, or for several cells where there are none.
        """
        sized = self.sized(n_categories, n_cells)
        if len(sized.shape) > 1 and n_cells is None:
            raise ArgumentError(
                f"prior must be for one distribution, got one for {sized.shape[0]} cells at once; it needs Cells, which "
                "hold a collection for each."
            )
        if len(sized.shape) > 1 and sized.shape[0] != n_cells:
            raise ArgumentError(f"prior must be for {n_cells} cells like the data, got {sized.shape[0]}.")
        if sized.n_categories != n_categories:
            raise ArgumentError(
                f"prior must be for {n_categories} categories like the collection, got {sized.n_categories}."
            )
        return sized

    def sized(self, n_categories: int, n_cells: int | None) -> "AbstractPrior":
        """Return a copy with the numbers filled in, for a family that can be written down without them."""
        return self

    def on(self, cells: "Cells") -> "AbstractPrior":
        """Return this prior over the cells: a family that needs their keys or covariates takes them from there.

        Parameters
        ----------
        cells : Cells
            ``cells.by`` and its keys (in the order of the cells), ``cells.labels`` and ``cells.covariates``.

        Raises
        ------
        ArgumentError
            Where the prior is for another number of categories or of cells, or a column that it needs is missing.
        """
        return self.over(cells.n_categories, len(cells))

    def beside(self, n_laws: int) -> "AbstractPrior | None":
        """Return this prior for so many laws of respondents who ignore the device; None where it is for compliers only."""
        return None

    def without(self, n_laws: int) -> "AbstractPrior | None":
        """Return the prior of the compliers' P that this prior of p′ holds, for so many laws; None where there is none."""
        return None

    @abc.abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return independent draws of P from the prior, shape ``(size, *shape)``."""

    @property
    @abc.abstractmethod
    def n_unknowns(self) -> int:
        """Number of unconstrained unknowns."""

    @abc.abstractmethod
    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the normalised log-density of z, for z of shape (n_unknowns,) or (k, n_unknowns)."""

    @abc.abstractmethod
    def gradient(self, z: np.ndarray) -> np.ndarray:
        """Return the gradient of log_density at z of shape (n_unknowns,)."""

    @abc.abstractmethod
    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        """Return P, shape ``(*shape)`` or ``(k, *shape)``, for z of shape (n_unknowns,) or (k, n_unknowns)."""

    @abc.abstractmethod
    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        """Return Jᵀ dp: the gradient with respect to z of a function of P whose gradient is dp, of P's shape."""

    @abc.abstractmethod
    def pymc(self, name: str) -> "TensorVariable":
        """Return P as an expression of unconstrained variables in the PyMC model on the context stack."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Return a short name for people."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the settings as arrays by name, kept with every result; one of P's shape has P's dimensions."""

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the hyperparameters that readers ask for, by name, for z of shape (k, n_unknowns)."""
        return {}

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return what readers ask for beside P: name → (dims, values), for z of shape (k, n_unknowns).

        The values have shape (k, …); dims name what follows the first axis: none for one number, "category", "cell", or a
        dim of ``coords``. A result has them in its groups ``posterior`` and ``summary``.
        """
        return {name: ((), values) for name, values in self.hyperparameters(z).items()}

    def coords(self) -> dict[str, Sequence]:
        """Return the labels of the dims of variables() other than cell and category."""
        return {}

    def weight(self) -> float:
        """Return how many open answers the prior weighs: Σα of a Dirichlet; nan where no number of answers says it."""
        return float("nan")

    # ---- capabilities: the object, or None -----------------------------------------------------------------------------
    def concentrations(self) -> np.ndarray | None:
        """Return α where P is Dirichlet(α), the conjugate prior, else None."""
        return None

    def tilted(self) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]] | None:
        """Return (concentrations of a Dirichlet, log of this prior's density over its at p (k, a)), or None.

        For priors that differ from a Dirichlet by a factor which the weights of draws can carry.
        """
        return None

    def mixture(self) -> AbstractMixture | None:
        """Return the mixture of Dirichlet priors that this prior is, where it has one mixing parameter, else None."""
        return None

    def logits(self) -> AbstractLogits | None:
        """Return how the logits of P come from z, where P is their softmax and has shape (cells, categories), else None."""
        return None

    def log_linear(self) -> "LogLinear | None":
        """Return this prior where the logits of P are linear in normal effects of a table's attributes, else None."""
        return None

    def walk(self) -> Walk | None:
        """Return the random walk over ordered categories that this prior is, else None."""
        return None
