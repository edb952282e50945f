"""What every prior has in common: draws, unconstrained coordinates with a density and a gradient, and a PyMC variable."""

import abc
import functools
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln, log_ndtr, ndtr

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.inference.bending import ScaledEffects
from ldpbayes.priors.mixing import Mixing

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from ldpbayes.collections import Cells

#: Mathematics: A table of quantiles is refused where its spline falls over more of the probability than this.
MAX_FALL = 0.01


class Term(NamedTuple):
    """Coefficients of some columns of a Linear.

    Attributes
    ----------
    kind : int
        0 where numbers are the coefficients, 1 where a root multiplies them, 2 for a monotone effect.
    place : int
        Where its numbers begin.
    size : int
        Number of columns.
    root : (size, m) array, optional
    """

    kind: int
    place: int
    size: int
    root: np.ndarray | None = None


class Linear:
    """η = X B Vᵀ with coefficients B of the columns of X: a form that engines compile as a whole.

    The unknowns without the logs of scales, effects times their scales, are the numbers that the terms make B of.

    Parameters
    ----------
    basis : (a, k) array
        V.
    matrix : (cells, K) array or sparse array
        X.
    terms : sequence of Term
        In the order of their columns.
    device : tuple of arrays, optional
        Of unknown shares of a device, what ``inference._kernels.likelihood`` reads after the rows of its outcomes.

    Attributes
    ----------
    columns : tuple of arrays
        The numbers of columns of which a good share is not zero, these columns in rows, and the others without their zeros:
        where the entries of each cell begin, their columns and their values.
    """

    def __init__(self, basis: np.ndarray, matrix: Any, terms: Sequence[Term], device: tuple | None = None) -> None:
        form = csr_array(matrix)
        # A vector of a processor has eight numbers.
        full = 8 * np.bincount(form.indices, minlength=form.shape[1]) > form.shape[0]
        rest = csr_array(form.multiply(~full))
        rest.eliminate_zeros()
        apart = rest.indptr.astype(np.int64), rest.indices.astype(np.int64), rest.data.astype(float)
        dense = np.ascontiguousarray(form[:, np.flatnonzero(full)].toarray().T, dtype=float)
        self.basis, self.columns = np.ascontiguousarray(basis), (np.flatnonzero(full), dense, *apart)
        self.device = device
        rows = np.cumsum([0, *(term.size for term in terms)])
        self.n_columns = int(rows[-1])
        steps = [0 if term.root is None else term.root.shape[1] for term in terms]
        self.parts = np.array([(*term[:2], row, term.size, m) for term, row, m in zip(terms, rows[:-1], steps, strict=True)])
        self.roots = np.concatenate([np.zeros(0), *(np.ravel(term.root) for term in terms if term.root is not None)])


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
    #: What methods know of the form of the prior: "walk", a random walk over ordered categories; "table", logits that are
    #: linear in normal effects of a table's attributes; empty where a density is all.
    kind: ClassVar[str] = ""

    @property
    def ordered(self) -> bool:
        """Whether the order of the categories matters, beside unknowns of a device too."""
        return self.kind == "walk"

    @classmethod
    def named(cls) -> "Mapping[str, Callable[[int], AbstractPrior]]":
        """Return the names under which users ask for this family, each with its maker from the number of categories."""
        return {}

    @classmethod
    def families(cls) -> "list[type[AbstractPrior]]":
        """Return all classes of priors that are known to Python, those derived from this one directly first."""
        first = cls.__subclasses__()
        return [*first, *(member for family in first for member in family.families())]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of P: (categories,), or (cells, categories)."""
        return (self.n_categories,)

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
        return self if self.n_categories is not None else replace(self, n_categories=n_categories)

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

    def beside(self, owners: tuple[int | None, ...]) -> "AbstractPrior | None":
        """Return this prior for further categories of these owners (``Collection.owners``); None where it is for P only."""
        return None

    def without(self, owners: tuple[int | None, ...]) -> "AbstractPrior | None":
        """Return the prior of P that this prior of p′ holds, for further categories of these owners; None where none."""
        return None

    @abc.abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return independent draws of P from the prior, shape ``(size, *shape)``."""

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray | None:
        """Return independent draws of z from the prior, shape (size, n_unknowns), or None where only P is drawn."""
        return None

    @property
    @abc.abstractmethod
    def n_unknowns(self) -> int:
        """Number of unconstrained unknowns."""

    @abc.abstractmethod
    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the normalized log-density of z, for z of shape (n_unknowns,) or (k, n_unknowns)."""

    @abc.abstractmethod
    def gradient(self, z: np.ndarray) -> np.ndarray:
        """Return the gradient of log_density at z of shape (n_unknowns,)."""

    @abc.abstractmethod
    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        """Return P, shape ``(*shape)`` or ``(k, *shape)``, for z of shape (n_unknowns,) or (k, n_unknowns)."""

    @abc.abstractmethod
    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        """Return Jᵀ dp: the gradient with respect to z of a function of P whose gradient is dp, of P's shape."""

    def logits_of(self, z: np.ndarray) -> np.ndarray:
        """Return logits η of P = softmax(η), for z of shape (n_unknowns,)."""
        return np.log(np.maximum(self.to_simplex(z), 1e-300))

    def pullback_logits(self, z: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return Jᵀ slope: the gradient with respect to z of a function of η whose gradient is slope, of η's shape."""
        return self.pullback(z, slope / np.maximum(self.to_simplex(z), 1e-300))

    @property
    def varying(self) -> list[ScaledEffects]:
        """The effects that are multiplied by learnt scales, whose logs are among the unknowns before them."""
        return []

    @property
    def pivots(self) -> list[int]:
        """Places of unknowns, beside scales, on which it hangs what reports say of the others, such as a share of people."""
        return []

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

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return the log-density of the prior of the hyperparameters at draws of them, shape (S,), up to a constant.

        To the power γ it says what scaling the prior does (``inference.scaling``); None where there are none to tell.

        Parameters
        ----------
        draws : mapping of str to (S, …) array
            Variables of a result by name.
        """
        return None

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """Names of hyperparameters(), and of their PyMC variables."""
        return tuple(self.hyperparameters(np.zeros((1, self.n_unknowns))))

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
        """Return how many direct answers the prior weighs: Σα of a Dirichlet; nan where no number of answers says it."""
        alpha = self.concentrations()
        return float("nan") if alpha is None else float(alpha.sum())

    # ---- capabilities: the object, or None -----------------------------------------------------------------------------
    def concentrations(self) -> np.ndarray | None:
        """Return α where P is Dirichlet(α), the conjugate prior, else None."""
        return None

    def split(self) -> "tuple[np.ndarray, int, tuple[float, float]] | None":
        """Return (α, x, (b, c)) where P ~ Dirichlet(α) and the last category is a share ~ Beta(b, c) of P_x, else None."""
        return None

    def nodes(self) -> Mixing | None:
        """Return the conjugate priors that this prior mixes, by its hyperparameters; None where it mixes none.

        One for a Dirichlet prior, which mixes nothing.
        """
        return None if self.concentrations() is None else Mixing.alone(self)

    @property
    def linear(self) -> Linear | None:
        """The form of the logits that engines compile as a whole, where they have it, else None."""
        return None

    def cell_unknowns(self) -> tuple[int, int] | None:
        """Return (start, k) where z[start:] are k unknowns for each cell in turn, which move that cell only; else None."""
        return None

    def disjoint(self) -> tuple[int, int] | None:
        """Return (start, k) where z[start:] come k at a time and no cell depends on two of these, else None."""
        return self.cell_unknowns()

    def spectrum(self, z: np.ndarray) -> tuple[int, np.ndarray, np.ndarray] | None:
        """Return (start, σ, weights) where z is (centre, …, effects) and their Hessian is nearly block diagonal.

        The effects are z[start:], k to each weight v, and their block is nearly I + v σσᵀ∘J with J (k, k) minus the Hessian
        of the log-likelihood in a shift of the logits of all cells, along the first k unknowns. Else None.
        """
        return None

    def exchanged(self, z: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return starts from z (u,) towards modes in which answers are exchanged, each with the places of what was changed.

        A device whose probabilities are not known may report to two answers the other way round: then reports do not tell
        which answer is which.
        """
        return []

    @property
    def has_atom(self) -> bool:
        """Whether a hyperparameter has a probability of its own at one value: weights about a mode may miss a part then."""
        return False


def unused(name: str, names: Container[str]) -> str:
    """Return a name, with the first number from 2 on where it is among ``names``."""
    return name if name not in names else next(one for k in count(2) if (one := f"{name}_{k}") not in names)


def state(name: str, value: Any) -> "TensorVariable":
    """Return a hyperparameter as a variable of the PyMC model on the context stack, numbered where its name is taken."""
    import pymc as pm

    return pm.Deterministic(unused(name, pm.modelcontext(None).named_vars), value)


#: Time: Over so many categories of so many numbers the largest and the sum are taken one by one: NumPy is slow along short
#: axes.
FEW, MANY = 7, 256


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return exp(η)/Σ exp(η) along the last axis."""
    if logits.size < MANY or not 0 < logits.shape[-1] <= FEW:
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)
    p = np.exp(logits - functools.reduce(np.maximum, np.moveaxis(logits, -1, 0))[..., None])
    p /= functools.reduce(np.add, np.moveaxis(p, -1, 0))[..., None]
    return p


class Law(abc.ABC):
    """The density of one kind of unknowns z, each independent of the others, and what they stand for, of(z).

    Formulas with ``xp`` are read by NumPy and by PyTensor, whichever module is given.
    """

    @abc.abstractmethod
    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density of every z."""

    def total(self, z: np.ndarray) -> np.ndarray:
        """Return the sum of log_density along the last axis."""
        return self.log_density(z).sum(axis=-1)

    @abc.abstractmethod
    def score(self, z: np.ndarray) -> np.ndarray:
        """Return the derivative of log_density."""

    @abc.abstractmethod
    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return draws of z."""

    def of(self, z: Any, xp: Any = np) -> Any:
        """Return what z stands for: z itself, where nothing else is said."""
        return z

    def slope(self, z: np.ndarray) -> np.ndarray | float:
        """Return the derivative of ``of``."""
        return 1.0

    @abc.abstractmethod
    def pymc(self, name: str, shape: tuple[int, ...]) -> "TensorVariable":
        """Return what z stands for as a PyMC variable."""


@dataclass(frozen=True)
class NormalLaw(Law):
    """z ~ N(0, 1)."""

    def log_density(self, z):
        return -0.5 * z**2 - 0.5 * math.log(2 * math.pi)

    def total(self, z):
        return -0.5 * np.vecdot(z, z) - 0.5 * math.log(2 * math.pi) * z.shape[-1]

    def score(self, z):
        return -z

    def draw(self, shape, rng):
        return rng.standard_normal(shape)

    def pymc(self, name, shape):
        import pymc as pm
        import pytensor.tensor as pt

        return self.of(pm.Normal(name, 0.0, 1.0, shape=shape), pt)


@dataclass(frozen=True)
class StudentLaw(Law):
    """z ~ Student-t(degrees)."""

    degrees: float

    def log_density(self, z):
        nu = self.degrees
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * math.log(nu * math.pi)
        return constant - 0.5 * (nu + 1) * np.log1p(z**2 / nu)

    def score(self, z):
        return -(self.degrees + 1) * z / (self.degrees + z**2)

    def draw(self, shape, rng):
        return rng.standard_t(self.degrees, shape)

    def pymc(self, name, shape):
        import pymc as pm
        import pytensor.tensor as pt

        return self.of(pm.StudentT(name, nu=self.degrees, mu=0.0, sigma=1.0, shape=shape), pt)


@dataclass(frozen=True)
class ScaleLaw(Law):
    """z = log x of x > 0 with a density ∝ exp(−(x/unit)^power/power): exponential for power 1, half-normal for power 2."""

    power: int
    unit: float = 1.0

    def _raised(self, z):
        """Return (x/unit)^power, cut off far in the tail, within the range of floats."""
        return np.exp(self.power * np.minimum(z - math.log(self.unit), 300.0))

    def log_density(self, z):
        constant = 0.5 * math.log(2 / math.pi) if self.power == 2 else 0.0
        return constant + z - math.log(self.unit) - self._raised(z) / self.power

    def score(self, z):
        return 1 - self._raised(z)

    def draw(self, shape, rng):
        x = np.abs(rng.standard_normal(shape)) if self.power == 2 else rng.standard_exponential(shape)
        return np.log(np.maximum(self.unit * x, 1e-300))

    def of(self, z, xp=np):
        return xp.exp(xp.minimum(z, 300.0))

    def slope(self, z):
        return self.of(z)

    def pymc(self, name, shape):
        import pymc as pm

        scale = pm.HalfNormal(name, 1.0, shape=shape) if self.power == 2 else pm.Exponential(name, 1.0, shape=shape)
        return self.unit * scale


class ExponentialLaw(NormalLaw):
    """z ~ N(0, 1), which stands for −log Φ(−z), an exponential number."""

    def of(self, z, xp=np):
        if xp is np:
            return -log_ndtr(-np.maximum(z, -37.0))  # above 0: steps are divided by their sum
        from pymc.distributions.dist_math import normal_lccdf

        return -normal_lccdf(0.0, 1.0, z)

    def slope(self, z):
        return np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(-z))


class LogitLaw(NormalLaw):
    """z ~ N(0, 1), which stands for the logit of Φ(z), a share with a flat prior."""

    def of(self, z, xp=np):
        if xp is np:
            return log_ndtr(z) - log_ndtr(-z)
        from pymc.distributions.dist_math import normal_lcdf

        return normal_lcdf(0.0, 1.0, z) - normal_lcdf(0.0, 1.0, -z)

    def slope(self, z):
        return np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(z) - log_ndtr(-z))


class QuantileLaw(NormalLaw):
    """z ~ N(0, 1), which stands for F⁻¹(Φ(z)) of a continuous distribution with cdf F: of any law, however heavy its tails.

    Samplers then move in z, where every such prior is standard normal and has no funnel.

    Parameters
    ----------
    x : (k,) array
        Increasing values, far into both tails and close together where F bends.
    z : (k,) array
        Φ⁻¹(F(x)), increasing; asinh(x) is read as a cubic spline of z between them, and is constant beyond.

    Raises
    ------
    ArgumentError
        Where x or z do not increase, or the spline falls over more than MAX_FALL of the probability.
    """

    def __init__(self, x: np.ndarray, z: np.ndarray) -> None:
        from scipy.interpolate import CubicSpline

        x, z = checks.reals(x, "x"), checks.reals(z, "z")
        for name, values in (("x", x), ("z", z)):
            if len(x) != len(z) or len(values) < 2 or (np.diff(values) <= 0).any():
                raise ArgumentError(f"{name} must be increasing numbers, as many as the other's, got {shown(values)}.")
        knots = np.linspace(z[0], z[-1], max(2001, 4 * len(z)))
        heights = CubicSpline(z, np.arcsinh(x))(knots)
        if (falls := np.diff(ndtr(knots))[np.diff(heights) < 0].sum()) > MAX_FALL:
            raise ArgumentError(f"x must be close together where F bends: its spline falls over {falls:.2g} of probability.")
        object.__setattr__(self, "_ends", (knots[0], knots[-1], knots[1] - knots[0]))
        object.__setattr__(self, "_table", CubicSpline(knots, heights).c[::-1].copy())

    def _cubic(self, z, xp, table):
        """Return (what is left of z above the knot before it, the powers' coefficients there)."""
        low, high, step = self._ends
        inside = xp.clip(z, low, high - 1e-9 * step)
        place = xp.floor((inside - low) / step).astype("int64")
        return inside - low - step * place, [xp.take(table[power], place, mode="clip") for power in range(4)]

    def _read(self, z, xp, table):
        offset, powers = self._cubic(z, xp, table)
        return xp.sinh(powers[0] + offset * (powers[1] + offset * (powers[2] + offset * powers[3])))

    def of(self, z, xp=np):
        return self._read(z, xp, self._table)

    def pymc(self, name, shape):
        import pymc as pm
        import pytensor.tensor as pt

        from ldpbayes.compiling import model_data

        # As data: with constants of that size the draws of a seed would depend on what was compiled before.
        table = model_data(f"{name}_quantiles", self._table)
        return self._read(pm.Normal(name, 0.0, 1.0, shape=shape), pt, table)

    def slope(self, z):
        (offset, (value, first, second, third)), (low, high, _) = self._cubic(z, np, self._table), self._ends
        outer = np.cosh(value + offset * (first + offset * (second + offset * third)))
        return np.where((z > low) & (z < high), outer * (first + offset * (2 * second + 3 * offset * third)), 0.0)


class AbstractSoftmax(AbstractPrior):
    """P = softmax(η), and η a formula of independent unknowns: a prior in one description.

    A member writes down ``blocks`` and ``eta``. Draws, the density, its gradient, P and the PyMC variable follow from these;
    the gradient of η too, by PyTensor, unless ``pulled`` states it where it must be fast.
    """

    @abc.abstractmethod
    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        """Return the unknowns in their order: name → (law, shape). PyMC adds the name to that of the latent variable."""

    @abc.abstractmethod
    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        """Return the logits of P, shape ``(…, *shape)``, from what the unknowns stand for.

        Parameters
        ----------
        values : mapping
            Arrays with any axes before their own, or PyTensor's variables with none.
        xp : module
            numpy, or pytensor.tensor.
        """

    def learnt(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the hyperparameters that readers ask for, one number for each draw, from what the unknowns stand for."""
        return {}

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> Mapping[str, np.ndarray] | None:
        """Return the gradient in the values, by name, of a function of η with this gradient; None: PyTensor derives it."""
        return None

    def multiplied(self) -> Mapping[str, str]:
        """Return the block of effects that each block of scales multiplies in turn."""
        return {}

    @cached_property
    def varying(self) -> list[ScaledEffects]:  # type: ignore[override]  # cached
        batches = []
        for scale, effects in self.multiplied().items():
            law: Any = self.blocks()[scale][0]  # of scales
            first, span = self.spans[scale].start, self.spans[effects]
            many = self.spans[scale].stop - first
            batches += [
                ScaledEffects(first + k, slice(span.start + k, span.stop, many), float(law.unit), law.power)
                for k in range(many)
            ]
        return batches

    @cached_property
    def spans(self) -> dict[str, slice]:
        """Where the unknowns of each block stand."""
        return {name: slice(first, last) for name, _, _, first, last in self._layout}

    @cached_property
    def _layout(self):
        """(Name, law, shape, first, last place among the unknowns) of each block."""
        out, at = [], 0
        for name, (law, shape) in self.blocks().items():
            if not isinstance(law, Law) or not isinstance(shape, tuple):
                what = f"a Law of ldpbayes.priors.base and a tuple of sizes, got {shown(law)} and {shown(shape)}"
                raise ArgumentError(f"blocks of {type(self).__name__} must have for {name!r} {what}.")
            out.append((name, law, shape, at, at + math.prod(shape)))
            at = out[-1][-1]
        return out

    @property
    def n_unknowns(self) -> int:
        return self._layout[-1][-1]

    def values(self, z: np.ndarray, xp: Any = np) -> dict[str, Any]:
        """Return what the unknowns z, shape (…, n_unknowns), stand for, by block."""
        lead = z.shape[:-1] if xp is np else ()
        return {name: law.of(z[..., i:j], xp).reshape((*lead, *shape)) for name, law, shape, i, j in self._layout}

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws of z from the prior, shape (size, n_unknowns)."""
        return np.concatenate([law.draw((size, j - i), rng) for _, law, _, i, j in self._layout], axis=1)

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.to_simplex(self.unknowns(size, rng))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        return sum(law.total(z[..., i:j]) for _, law, _, i, j in self._layout)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        out = np.empty_like(z, dtype=float)
        for _, law, _, i, j in self._layout:
            out[..., i:j] = law.score(z[..., i:j])
        return out

    def logits_of(self, z: np.ndarray) -> np.ndarray:
        """Return η for z of shape (…, n_unknowns)."""
        z = np.asarray(z, dtype=float)
        logits = np.asarray(self.eta(self.values(z), np))
        if logits.shape != (*z.shape[:-1], *self.shape):
            wanted, got = (listed(map(str, shape)) for shape in (self.shape, logits.shape[z.ndim - 1 :]))
            raise ArgumentError(f"eta of {type(self).__name__} must return a logit for each category ({wanted}), got {got}.")
        return logits

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        return softmax(self.logits_of(z))

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        p = self.to_simplex(z)
        return self.pullback_logits(z, p * (dp - (p * dp).sum(axis=-1, keepdims=True)))

    def pullback_logits(self, z: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return Jᵀ slope: the gradient with respect to z, (n_unknowns,), of a function of η whose gradient is slope."""
        z = np.asarray(z, dtype=float)
        pulled = self.pulled(self.values(z), slope)
        if pulled is None:
            return self._derived(z, slope)
        out = np.empty(z.size)
        for name, law, _, i, j in self._layout:
            out[i:j] = np.ravel(pulled[name])
            out[i:j] *= law.slope(z[i:j])
        return out

    @cached_property
    def _derived(self):
        """The gradient of Σ slope∘η(z) as a function of z and slope, by PyTensor, which nothing is compiled for."""
        import pytensor
        import pytensor.tensor as pt

        z, slope = pt.vector(shape=(self.n_unknowns,), dtype="float64"), pt.tensor(shape=self.shape, dtype="float64")
        gradient = pytensor.grad((self.eta(self.values(z, pt), pt) * slope).sum(), z)
        return pytensor.function([z, slope], gradient, mode=pytensor.compile.mode.Mode("py", "fast_compile"))

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self.learnt(self.values(np.asarray(z, dtype=float)))

    def pymc(self, name: str) -> "TensorVariable":
        import pymc as pm
        import pytensor.tensor as pt

        values = {key: law.pymc(f"{name}_{key}" if key else name, shape) for key, law, shape, _, _ in self._layout}
        for key, value in self.learnt(values).items():
            state(key, value)
        return pm.math.softmax(self.eta(values, pt), axis=-1)

    def describe(self) -> str:
        """Return the name of the class and its settings, such as ``logistic-normal with scale 1``."""
        words = re.sub("(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()
        settings = ", ".join(f"{name} {float(value):g}" for name, value in self.to_dict().items())
        return f"{words} with {settings}" if settings else words

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the numbers among the fields."""
        numbers = {name: value for name, value in asdict(self).items() if isinstance(value, (int, float))}  # type: ignore[call-overload]  # a dataclass
        return {name: np.array(value) for name, value in numbers.items() if name != "n_categories"}
