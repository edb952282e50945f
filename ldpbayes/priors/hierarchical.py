"""Cells that borrow strength: groups that vary about a common mean, days in their order, regions beside their neighbours."""

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.linalg import helmert

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.priors.base import AbstractSoftmax, Law, Linear, NormalLaw, ScaleLaw, Term, softmax

#: Mathematics: Eigenvalues of a graph's Laplacian below this share of the largest are zero: one for each connected part.
NULL = 1e-9
#: Time: Most cells whose effects engines compute by a matrix of cells × cells. The bank's 317 problems never cross it.
MAX_ROOT = 500

if TYPE_CHECKING:
    from ldpbayes.collections import Cells

#: Structures that have a name.
NAMES = ("groups", "days")


@dataclass(frozen=True, eq=False)
class Hierarchical(AbstractSoftmax):
    """p_c = softmax(μ + σ e_c): the cells c vary about a common centre μ, and σ, how much they vary, is learnt.

    ========== ==================================================================================================
    structure  effects e
    ========== ==================================================================================================
    "groups"   e_c ~ N(0, I), independent: any set of groups
    "days"     random walk over the order of the cells, e_t − e_{t−1} ~ N(0, gap), with Σ_t e_t = 0
    neighbours Gaussian field with precision (number of neighbours on the diagonal, −1 for each pair of neighbours),
               Σ_c e_c = 0 in each connected part, scaled to a geometric mean of the variances of 1
    ========== ==================================================================================================

    Parameters
    ----------
    structure : {"groups", "days"}, array, mapping or sequence of pairs
        How the cells depend on each other. Neighbours are a symmetric (cells, cells) matrix of zeros and weights in the
        order of the cells (a data frame may name its rows and columns by the cells' labels instead), as {label: labels of
        its neighbours}, or as pairs of labels. A cell without neighbours has an independent effect.
    scale : float
        σ ~ HalfNormal(scale), on the scale of log odds. For days it is the sd of one step of length 1.
    centre : float
        μ_x ~ N(0, centre²).
    by_category : bool
        Whether each category has its own σ.

    Notes
    -----
    Days are ordered by their key where this is a number, a date or time (2024-03-31), a month (2024-03) or a quarter
    (2024-Q1), also as text, and a step over a gap has the variance of as many steps of the most common length. Whole numbers
    like 20240331 are dates. Any other key keeps the order of the cells, and the description of the prior mentions it.
    Groups by several columns are the groups of the joint key. The unknowns are standard normal effects (the non-centred
    form) in an orthonormal basis of the contrasts of the categories, to which softmax is blind otherwise: the prior is the
    same. A result has ``pooled`` (category), the distribution softmax(μ) of a typical cell, ``scale``, and ``effect``
    (cell, category), σ e_c, by which the centred log shares of a cell depart: of two categories half the log odds.

    References
    ----------
    Besag, York and Mollié 1991, Ann. Inst. Statist. Math. 43, on neighbours; Sørbye and Rue 2014, Spatial Statistics 8, on
    their scale; the theory page on cells.

    Examples
    --------
    >>> from ldpbayes import GRR, Cells, Collection, Tally, fit
    >>> device = GRR(2, 2.0)
    >>> counts = {f"region {i}": [600 + 50 * (i % 4), 400 + 30 * i] for i in range(8)}
    >>> groups = {key: Collection(["no", "yes"], [Tally(device, [0, 1], held)]) for key, held in counts.items()}
    >>> tree = fit(Cells(groups, by="region"), prior="hierarchical", random_seed=1)
    >>> tree["posterior"]["effect"].dims
    ('chain', 'draw', 'cell', 'category')
    """

    structure: Any = "groups"
    scale: float = 1.0
    centre: float = 1.5
    by_category: bool = False
    n_categories: int | None = None
    n_cells: int | None = None
    field_: Any = field(default=None, repr=False)

    def __post_init__(self):
        for name in ("scale", "centre"):
            object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        if isinstance(self.structure, str):
            checks.choice(self.structure, "structure", NAMES)
        if self.n_categories is not None:
            object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Hierarchical"]]:
        return {
            "hierarchical": lambda n_categories: cls(n_categories=n_categories),
            "days": lambda n_categories: cls("days", n_categories=n_categories),
        }

    # ---- filling in ------------------------------------------------------------------------------------------------------
    def sized(self, n_categories: int, n_cells: int | None) -> "Hierarchical":
        if n_cells is None:
            raise ArgumentError(
                "prior must be for one distribution, got hierarchical, which joins several cells: split the reports "
                "with by, or make Cells of several collections."
            )
        if self.field_ is not None:
            return self
        return self._with(_field(self.structure, n_cells, None), n_categories)

    def on(self, cells: "Cells") -> "Hierarchical":
        if self.field_ is not None:
            return self.over(cells.n_categories, len(cells))
        return self._with(_field(self.structure, len(cells), cells), cells.n_categories).over(cells.n_categories, len(cells))

    def _with(self, found, n_categories):
        size = n_categories if self.n_categories is None else self.n_categories
        return replace(self, field_=found, n_cells=found.n_cells, n_categories=size)

    # ---- sizes -----------------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_cells, self.n_categories)

    @property
    def _width(self):
        """Number of coordinates of the logits of a cell."""
        return self.n_categories if self.by_category else self.n_categories - 1

    @property
    def _scales(self):
        return self.n_categories if self.by_category else 1

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        w, effects = self._width, (NormalLaw(), (self.field_.rank, self._width))
        return {"centre": (NormalLaw(), (w,)), "scale": (ScaleLaw(2), (self._scales,)), "": effects}

    @cached_property
    def _basis(self):
        """(width, categories): rows span the contrasts, orthonormal; the identity where each category has its scale."""
        if self.by_category:
            return np.eye(self.n_categories)
        return helmert(self.n_categories)

    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        effects = self.field_.of(values[""]) if xp is np else xp.dot(self.field_.root, values[""])
        offset = self.scale * values["scale"][..., None, :] * effects
        return (self.centre * values["centre"][..., None, :] + offset) @ self._basis

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        inner = slope @ self._basis.T
        back = self.field_.transposed(inner)
        along = np.vecdot(back, values[""], axis=0)  # type: ignore[call-overload]  # NumPy's stubs know no axis
        return {
            "centre": self.centre * inner.sum(axis=0),
            "scale": self.scale * (along if self.by_category else along.sum()),
            "": self.scale * values["scale"] * back,
        }

    def multiplied(self) -> Mapping[str, str]:
        return {"scale": ""}

    def cell_unknowns(self) -> tuple[int, int] | None:
        return None if self.field_.make else (self._width + self._scales, self._width)

    def spectrum(self, z: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        first, second = self._width, self._width + self._scales
        sigma = self.scale * np.exp(np.minimum(z[first:second], 300.0)) / self.centre
        return second, np.broadcast_to(sigma, self._width), self.field_.norms() / self.n_cells

    @cached_property
    def linear(self) -> Linear | None:  # type: ignore[override]  # cached
        alone, cells = self.cell_unknowns() is not None, np.arange(self.n_cells)
        if not alone and self.n_cells > MAX_ROOT:
            return None
        index = np.stack([np.zeros_like(cells), 1 + cells], axis=1).ravel()  # the centre, and the effect of the cell
        value, starts = np.tile([self.centre, self.scale], self.n_cells), 2 * np.append(cells, self.n_cells)
        columns = sparse.csr_array((value, index, starts))
        root = None if alone else np.ascontiguousarray(self.field_.root)
        return Linear(self._basis.T, columns, (Term(0, 0, 1), Term(int(not alone), self._width, self.n_cells, root)))

    # ---- what readers see ------------------------------------------------------------------------------------------------
    def learnt(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {} if self.by_category else {"scale": self.scale * values["scale"][..., 0]}

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        if not {"scale", "pooled"} <= set(draws):
            return None
        centre = np.log(np.maximum(draws["pooled"], 1e-300)) @ self._basis.T
        scale = draws["scale"].reshape(len(centre), -1)
        return -0.5 * ((centre / self.centre) ** 2).sum(axis=1) - 0.5 * ((scale / self.scale) ** 2).sum(axis=1)

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        values = self.values(np.asarray(z, dtype=float))
        scale = self.scale * values["scale"]
        effect = scale[:, None, :] * self.field_.of(values[""]) @ self._basis
        effect -= effect.mean(axis=-1, keepdims=True)
        return {
            "scale": (("category",), scale) if self.by_category else ((), scale[:, 0]),
            "pooled": (("category",), softmax(self.centre * values["centre"] @ self._basis)),
            "effect": (("cell", "category"), effect),
        }

    def describe(self) -> str:
        kind = "groups" if self.field_ is None else self.field_.what
        scales = ", one for each category" if self.by_category else ""
        return f"hierarchical, {kind} about a common mean with scale ~ HalfNormal({self.scale:g}){scales}"

    def to_dict(self) -> dict[str, np.ndarray]:
        numbers = {
            "scale": np.array(self.scale),
            "centre": np.array(self.centre),
            "by_category": np.array(int(self.by_category)),
        }
        return numbers | ({} if self.field_ is None else self.field_.settings)


# ---- how cells depend on each other -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Field:
    """Effects of the cells as a linear map of independent standard normal numbers.

    Attributes
    ----------
    what : str
    n_cells : int
    make : callable, optional
        Returns the map, (cells, rank), where it must be written out; without it each cell has its own number.
    settings : dict of arrays
        What a result keeps.
    """

    what: str
    n_cells: int
    make: Callable[[], np.ndarray] | None = None
    settings: dict = field(default_factory=dict)

    @cached_property
    def root(self):
        """The map, (cells, rank)."""
        return np.eye(self.n_cells) if self.make is None else self.make()

    @property
    def rank(self):
        return self.n_cells if self.make is None else self.root.shape[1]

    def of(self, effects):
        """Return the effects (…, cells, k) for standard normal numbers (…, rank, k)."""
        return effects if self.make is None else self.root @ effects

    def transposed(self, d):
        """Return the transposed map of d (cells, k), shape (rank, k)."""
        return d if self.make is None else self.root.T @ d

    def norms(self):
        """Return the squared lengths of the map's columns, (rank,)."""
        return np.ones(self.n_cells) if self.make is None else (self.root**2).sum(axis=0)


class Waves(Field):
    """The map of a random walk with steps of one length, by cosine transforms; its settings hold the order of the cells."""

    @cached_property
    def _order(self):
        return self.settings["order"].astype(np.int64)

    @cached_property
    def _roots(self):
        """Roots of the variances of the waves, (size − 1, 1)."""
        return 1 / (2 * np.sin(np.pi * np.arange(1, self.n_cells)[:, None] / (2 * self.n_cells)))

    @cached_property
    def root(self):
        return self.of(np.eye(self.rank))

    @property
    def rank(self):
        return self.n_cells - 1

    def norms(self):
        return self._roots[:, 0] ** 2

    def of(self, effects):
        from scipy.fft import idct

        waves = np.zeros((*effects.shape[:-2], self.n_cells, effects.shape[-1]))
        np.multiply(effects, self._roots, out=waves[..., 1:, :])
        out = np.empty_like(waves)
        out[..., self._order, :] = idct(waves, axis=-2, norm="ortho", overwrite_x=True)
        return out

    def transposed(self, d):
        from scipy.fft import dct

        return dct(d[self._order], axis=0, norm="ortho")[1:] * self._roots


def _root_of_walk(order, gaps):
    """Return the map of a random walk over cells in an order, with effects that sum to zero: its eigenvectors.

    Reports say much about the slow waves of the walk and little about the fast ones: in this basis the posterior is nearly
    independent, where in the steps it is not. With steps of one length the basis is the discrete cosine transform.
    """
    forward = np.diag(1 / gaps, 1)  # one over the variance of each step, between neighbours
    basis = _eigenroot(forward + forward.T)
    root = np.empty_like(basis)
    root[order] = basis
    return root


def _walk_of(order, gaps, what):
    kind, settings = Waves if (gaps == 1).all() else Field, {"order": order.astype(float), "gaps": gaps}
    return kind(what, order.size, partial(_root_of_walk, order, gaps), settings)


def _root_of_graph(weights):
    """Return R with R Rᵀ the generalized inverse of the graph's Laplacian, scaled in each connected part.

    A cell without neighbours has an independent effect.
    """
    from scipy.sparse.csgraph import connected_components

    n = len(weights)
    _, component = connected_components(weights > 0, directed=False)
    columns = []
    for k in range(component.max() + 1):
        members = np.flatnonzero(component == k)
        if members.size == 1:
            column = np.zeros((n, 1))
            column[members] = 1.0
            columns.append(column)
            continue
        inside = weights[np.ix_(members, members)]
        root = _eigenroot(inside)
        root /= math.exp(0.5 * np.log((root**2).sum(axis=1)).mean())
        column = np.zeros((n, root.shape[1]))
        column[members] = root
        columns.append(column)
    return np.concatenate(columns, axis=1)


def _eigenroot(weights):
    """Return the eigenvectors of a connected graph's Laplacian, each over the root of its eigenvalue."""
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    positive = values > NULL * values[-1]
    return vectors[:, positive] / np.sqrt(values[positive])


def _field(structure, n_cells, cells) -> Field:
    """Return the field of a structure over the cells."""
    if isinstance(structure, str) and structure == "groups":
        return Field(f"{n_cells} groups", n_cells)
    if isinstance(structure, str):
        return _walk(n_cells, cells)
    weights = _adjacency(structure, n_cells, cells)
    what, settings = f"{n_cells} cells beside their neighbours", {"neighbours": weights}
    return Field(what, n_cells, partial(_root_of_graph, weights), settings)


def _walk(n_cells, cells):
    if n_cells < 2:
        raise ArgumentError("prior days needs at least two cells, got one; a single cell has no order.")
    order, gaps, what = np.arange(n_cells), np.ones(n_cells - 1), f"random walk over {n_cells} days"
    if cells is None:
        return _walk_of(order, gaps, what)
    if len(cells.by) > 1:
        raise ArgumentError(
            f'prior days needs one grouping column, the day, got {listed(cells.by)}; use the structure "groups" for the '
            "joint key, or give the neighbours of each cell."
        )
    when = _times([key[0] for key in cells])
    if when is None:
        return _walk_of(order, gaps, f"{what} in the order of the cells")
    if not np.isfinite(when).all():
        label = cells.labels[int(np.flatnonzero(~np.isfinite(when))[0])]
        raise ArgumentError(f"prior days needs keys that are finite numbers or dates, got {label}.")
    order = np.argsort(when, kind="stable")
    steps = np.diff(when[order])
    if not steps.all():
        at = int(np.flatnonzero(steps == 0)[0])
        same = [cells.labels[place] for place in order[at : at + 2]]
        raise ArgumentError(f"prior days needs keys that differ, got {same[0]} and {same[1]}, which are the same time.")
    values, counts = np.unique(steps, return_counts=True)
    return _walk_of(order, steps / values[counts.argmax()], what)


def _times(keys):
    """Return keys as numbers that order them, or None where they are neither numbers nor dates nor months."""
    for read in (_day, _month, _number):
        times = [read(key) for key in keys]
        if None not in times:
            return np.array(times, dtype=float)
    return None


def _day(key):
    """Return days since 1970 of a date, also as text or as a number like 20240331; None for anything else."""
    import datetime

    if isinstance(key, int) and not isinstance(key, bool) and 19_000_101 <= key <= 21_001_231:
        key = str(key)
    if isinstance(key, str):
        with contextlib.suppress(ValueError):
            key = datetime.datetime.fromisoformat(key)
    if isinstance(key, datetime.datetime):
        if key.tzinfo is not None:
            key = key.astimezone(datetime.UTC).replace(tzinfo=None)
        return (key - datetime.datetime(1970, 1, 1)).total_seconds() / 86400
    return float((key - datetime.date(1970, 1, 1)).days) if isinstance(key, datetime.date) else None


def _month(key):
    """Return the number of a month such as 2024-03, or of a quarter such as 2024-Q1; None for anything else."""
    matches = re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])", str(key)), re.fullmatch(r"(\d{4})-?Q([1-4])", str(key))
    if matches[0]:
        return 12.0 * int(matches[0][1]) + int(matches[0][2])
    return 12.0 * int(matches[1][1]) + 3 * int(matches[1][2]) if matches[1] else None


def _number(key):
    """Return a number, also as text; None for anything else."""
    if isinstance(key, bool) or not isinstance(key, (int, float, str)):
        return None
    try:
        return float(key)
    except (ValueError, OverflowError):
        return None


def _adjacency(structure, n_cells, cells):
    """Return a symmetric (cells, cells) array of weights from what a user gives for the neighbours."""
    labels = None if cells is None else list(cells.labels)
    pairs = _pairs(structure, n_cells)
    if pairs is None:
        matrix = _matrix(structure, n_cells, labels)
    elif labels is None:
        raise ArgumentError("structure names neighbours by label, which only Cells have; give a matrix instead.")
    else:
        matrix, places = np.zeros((n_cells, n_cells)), {label: place for place, label in enumerate(labels)}
    for left, right in pairs or ():
        i, j = _position(left, places), _position(right, places)
        if i == j:
            raise ArgumentError(f"structure must not make the cell {labels[i]!r} its own neighbour.")
        matrix[i, j] = matrix[j, i] = 1.0
    if not matrix.any():
        raise ArgumentError('structure must name at least one pair of neighbours; without any use "groups".')
    return matrix


def _pairs(structure, n_cells):
    """Return the pairs of neighbours that are named, or None where the structure is a matrix."""
    if isinstance(structure, Mapping):
        return [(cell, neighbour) for cell, neighbours in structure.items() for neighbour in _several(neighbours)]
    if not isinstance(structure, (Sequence, Set, np.ndarray)):
        return None
    rows = [_several(row) for row in structure]
    if not rows or any(len(row) != 2 for row in rows):
        return None
    numbers = all(isinstance(x, (int, float, np.number)) for row in rows for x in row)
    square = np.ndim(structure) == 2 and len(rows) == n_cells == 2  # a sequence of two pairs of numbers is a matrix
    return None if numbers and (square or isinstance(structure, np.ndarray)) else rows


def _matrix(structure, n_cells, labels):
    """Return a matrix of weights; of a data frame, whose rows and columns may be named, in the order of the cells."""
    names = None
    with contextlib.suppress(AttributeError, TypeError):  # a method of lists, and missing elsewhere
        names = list(structure.index), list(structure.columns)
    try:
        matrix = np.asarray(structure.toarray() if sparse.issparse(structure) else structure, dtype=float)
    except (TypeError, ValueError):
        raise ArgumentError(
            "structure must be groups, days, a matrix with a row and a column for every cell, {label: labels of its "
            f"neighbours}}, or pairs of labels; got {shown(structure)}."
        ) from None
    if matrix.shape != (n_cells, n_cells):
        raise ArgumentError(f"structure must be a matrix of {n_cells} × {n_cells} cells, got shape {matrix.shape}.")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
        raise ArgumentError("structure must hold finite weights that are not negative.")
    if labels is not None and names is not None and names[1] != list(range(n_cells)):
        places = {label: place for place, label in enumerate(labels)}
        rows, columns = ([_position(name, places) for name in names] for names in names)
        if len(set(rows)) != n_cells or len(set(columns)) != n_cells:
            raise ArgumentError("structure must have one row and one column for every cell.")
        ordered = np.empty_like(matrix)
        ordered[np.ix_(rows, columns)] = matrix
        matrix = ordered
    if not np.array_equal(matrix, matrix.T):
        raise ArgumentError("structure must be symmetric: neighbours are so on both sides.")
    if matrix.diagonal().any():
        raise ArgumentError("structure must have a zero diagonal: no cell is its own neighbour.")
    return matrix


def _several(value):
    """Return what a user gives for none, one or several labels as a tuple."""
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    return tuple(value) if isinstance(value, Iterable) else (value,)


def _position(name, places):
    label = ", ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)
    if label not in places:
        raise ArgumentError(f"structure names the cell {shown(label)}, which is none of {listed(places)}.")
    return places[label]
