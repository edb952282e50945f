"""Cells: groups, days or strata over the same categories, each with its reports or a summary of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks
from ldpbayes.collections.collection import Collection
from ldpbayes.collections.data import Reports
from ldpbayes.collections.derived import check_text
from ldpbayes.collections.summarized import Summarized
from ldpbayes.collections.survey import stated_of_cells
from ldpbayes.collections.tally import Tally, excess_of
from ldpbayes.collections.wrappers import WRAPPERS
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.likelihoods import Summary

#: Facts about the fit of each cell in the group ``cells``, with the entry of an unknown fact.
FACTS: dict[str, Any] = {
    **dict.fromkeys(
        "method reason outcome problems frequency_draws worth decided_by decides decides_note fitness".split(), ""
    ),
    **dict.fromkeys("converged interrupted random_seed divergences prior_decides fitness_flagged".split(), 0),
    **dict.fromkeys("worst_r_hat least_ess k_hat effective_draws log_evidence log_evidence_error".split(), np.nan),
    **dict.fromkeys("effective_direct_answers total_sd bound_sd prior_share fitness_p design_effect".split(), np.nan),
    **{name: np.nan for wrapper in WRAPPERS.values() for name in wrapper.facts},
    **{f"log_bayes_factor_{name}{of}": np.nan for name in ("flat", "learnt", "smooth", "own") for of in ("", "_error")},
    "bayes_factors": "",
}
#: Names of dimensions, variables and facts of a result, which grouping columns cannot have.
RESERVED = frozenset(FACTS) | frozenset(
    "chain draw category category_bis target quantity estimator parameter distribution frequency alpha sigma scale "
    "pooled effect coefficients mean sd lower upper mcse ess_bulk ess_tail r_hat value standard_error log_likelihood "
    "gap distribution_mean distribution_sd distribution_cov distribution_lower distribution_upper frequency_mean "
    "frequency_sd n_reports lp energy acceptance_rate accepted diverging n_steps tree_depth step_size frequency_lower "
    "frequency_upper level distribution_quantile support_count rate_of_value rate_of_others lower_error upper_error "
    "frequency_lower_error frequency_upper_error thinned prior_sensitivity reports_sensitivity move".split()
)


class Cells(Mapping, Reports):
    """Several populations (cells), same categories: a mapping from the values of columns ``by`` to Collection or Summary.

    Parameters
    ----------
    cells : mapping of key to Collection or Summary
        A key is a tuple with one value per grouping column; any other key stands for the tuple that holds it.
    by : str or sequence of str, optional
        Names of the grouping columns; "cell", or "key_1", "key_2", … by default.
    covariates : mapping of str to sequence, optional
        Columns with one value per cell: in the order of the cells, or matched by the grouping columns where the table has
        all of them. A pandas data frame is one.
    categories : sequence of str, optional
        Labels of the categories; needed only where every cell is a summary.
    id, title : str
        What a reader should know.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = {
    ...     region: Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], counts)])
    ...     for region, counts in {"north": [60, 40], "south": [80, 20]}.items()
    ... }
    >>> cells = Cells(survey, by="region")
    >>> list(cells), cells["south"].n_reports, cells.n_reports
    ([('north',), ('south',)], 100, 200)
    """

    def __init__(
        self,
        cells: Mapping,
        by: str | Sequence[str] | None = None,
        covariates: Mapping[str, ArrayLike] | None = None,
        categories: Sequence[str] | None = None,
        *,
        id: str = "cells",
        title: str = "",
    ) -> None:
        if not isinstance(cells, Mapping):
            raise ArgumentError(
                f"cells must be a mapping from keys to collections, got {type(cells).__name__}; "
                'for instance {"north": collection, "south": collection}.'
            )
        if not cells:
            raise DataError("cells need at least one cell, got none")
        items = {_key(key): value for key, value in cells.items()}
        if len(items) != len(cells):
            raise ArgumentError("cells must have distinct keys; a key and the tuple that holds it are the same key.")
        width = len(next(iter(items)))
        for key in items:
            if len(key) != width or not key:
                raise ArgumentError(f"keys must all have one value per grouping column ({width}), got {key}.")
        self._cells = items
        self.by = _names(by, width)
        self.categories = _categories(items, categories)
        derived_names = {item.name for cell in items.values() if isinstance(cell, Collection) for item in cell.derived}
        if clash := next((name for name in self.by if name in derived_names), None):
            raise ArgumentError(f"by must not contain {clash!r}, which is also the name of a derived quantity; rename one.")
        self.labels = tuple(", ".join(str(part) for part in key) for key in items)
        if len(set(self.labels)) != len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise ArgumentError(f"keys must differ in their text, got two that read {twice!r}.")
        self.covariates = None if covariates is None else self._aligned(covariates)
        self.id, self.title = check_text(id, "id"), check_text(title, "title")

    # ---- the mapping -------------------------------------------------------------------------------------------------
    def __getitem__(self, key: object) -> Collection | Summary:
        return self._cells[_key(key)]

    def __iter__(self) -> Iterator[tuple]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cells):
            return NotImplemented
        same = self.by == other.by and self.categories == other.categories and list(self) == list(other)
        return same and all(self[key] == other[key] for key in self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = f"{type(self).__name__} by {' × '.join(self.by)}"
        return f"<{what}: {len(self)} cells, {self.n_categories} categories, {self.n_reports:,} reports>"

    def __add__(self, other: Cells) -> Cells:
        """Return the cells of both: those with the same key are added, new ones are appended."""
        if not isinstance(other, Cells):
            return NotImplemented
        if (self.by, self.categories) != (other.by, other.categories):
            raise ArgumentError("cells must have the same grouping columns and categories to be added.")
        merged = dict(self._cells)
        for key, cell in other.items():
            merged[key] = merged[key] + cell if key in merged else cell
        return Cells(merged, self.by, None, self.categories, id=self.id, title=self.title)

    def collections(self) -> Iterator[Collection | Summarized]:
        """Yield each cell as something to fit: its collection, or its summary with the labels of its categories."""
        for label, cell in zip(self.labels, self.values(), strict=True):
            yield Summarized(self.categories, cell, id=label) if isinstance(cell, Summary) else cell

    def with_cells(self, cells: Mapping) -> Cells:
        """Return other contents of the same cells: keys, columns and texts stay.

        Parameters
        ----------
        cells : mapping of key to Collection or Summary
            In the order of these cells.
        """
        checks.instance(cells, "cells", Mapping, "a mapping from keys to collections")
        categories = any(as_data(cell, "cells").n_categories == self.n_categories for cell in [*cells.values()][:1])
        return Cells(cells, self.by, self.covariates, self.categories if categories else None, id=self.id, title=self.title)

    def take(self, keys: Iterable) -> Cells:
        """Return the cells with these keys, in this order.

        Parameters
        ----------
        keys : iterable of key

        Raises
        ------
        ArgumentError
            Where there is no cell of that key, or a key stands twice.
        """
        if isinstance(keys, str):
            raise ArgumentError(f"keys must be several keys, got the text {shown(keys)}; put it into a list.")
        places = {key: place for place, key in enumerate(self)}
        chosen = [_key(key) for key in checks.entries(keys, "keys", "a sequence of keys of cells")]
        for key in chosen:
            if not all(isinstance(part, Hashable) for part in key):
                raise ArgumentError(f"keys must be those of cells, got {shown(key)}.")
        if len(set(chosen)) != len(chosen):
            raise ArgumentError("keys must be distinct.")
        missing = next((key for key in chosen if key not in places), None)
        if missing is not None:
            raise ArgumentError(f"keys must be those of cells, got {shown(missing)}.")
        order = [places[key] for key in chosen]
        covariates = None if self.covariates is None else {name: values[order] for name, values in self.covariates.items()}
        cells = {key: self._cells[key] for key in chosen}
        return Cells(cells, self.by, covariates, self.categories, id=self.id, title=self.title)

    # ---- what all cells have -----------------------------------------------------------------------------------------
    @property
    def notes(self) -> str:
        """What a reader should know of all cells: what every collection among them notes."""
        notes = {cell.notes for cell in self.values() if isinstance(cell, Collection)}
        return notes.pop() if len(notes) == 1 else ""

    @property
    def n_reports(self) -> int:
        """Number of users over all cells."""
        return int(self.sizes.sum())

    @property
    def sizes(self) -> np.ndarray:
        """Number of users in each cell, shape (cells,)."""
        return np.array([cell.n_reports for cell in self.values()], dtype=float).round().astype(np.int64)

    def coords(self) -> dict:
        """Return the coordinates of P's dimensions: labels of the categories, labels and key columns of the cells."""
        return super().coords() | self.cell_coords()

    def cell_coords(self) -> dict:
        """Return the coordinates of the dim cell: labels, and the key columns."""
        columns = {name: (("cell",), values) for name, values in self.key_columns().items() if name != "cell"}
        return {"cell": np.array(self.labels, dtype=object)} | columns

    def constants(self) -> dict:
        """Return the sizes, the missing answers and the covariates of the cells as variables of a Dataset."""
        data: dict = {"n_reports": (("cell",), self.sizes)}
        each: Iterator[Any] = self.collections()
        of_each = [cell.constants() for cell in each]
        for name in dict.fromkeys(name for constants in of_each for name in constants if name != "n_reports"):
            data[name] = ("cell",), np.array([c.get(name, ((), 0 if name == "missing" else np.nan))[1] for c in of_each])
        for name, values in (self.covariates or {}).items():
            array = np.asarray(values)
            plain = array if array.dtype.kind in "iufbM" else np.array([str(value) for value in array], dtype=object)
            data[name if name not in (*data, "alpha", *self.by) else f"covariate_{name}"] = (("cell",), plain)
        return data

    @cached_property
    def stated(self) -> dict[str, str]:
        return stated_of_cells([data.survey for data in self.collections() if data.survey is not None])

    def observed(self) -> dict:
        """Return what every cell observed as variables of a Dataset; names start with ``cell_{position}_``."""
        columns: dict = {}
        for position, cell in enumerate(self.collections()):
            columns |= cell.observed(f"cell_{position}_")
        return columns

    @property
    def derived(self) -> tuple:
        """The derived quantities that every cell has."""
        first, *others = (data.derived for data in self.collections())
        return tuple(item for item in first if all(item in other for other in others))

    def key_columns(self) -> dict[str, np.ndarray]:
        """Return the grouping columns by name, one value per cell."""
        columns = zip(*self, strict=True)
        return {name: _column(values) for name, values in zip(self.by, columns, strict=True)}

    def _mapped(self, function: Callable[[Any], Collection]) -> Cells:
        return self.with_cells({key: function(cell) for key, cell in self.items()})

    @property
    def owners(self) -> tuple[int | None, ...]:
        """Of the last categories, whose deniers they are; None for those who ignore the device, the same in every cell."""
        owners = {data.owners for data in self.collections()}
        return owners.pop() if len(owners) == 1 else ()

    @property
    def ordered(self) -> bool:
        """Whether the categories stand in their order, in every cell."""
        return all(data.ordered for data in self.collections())

    @property
    def apart_by_design(self) -> bool:
        return all(data.apart_by_design for data in self.collections())

    @property
    def trait(self) -> str:
        traits = {data.trait for data in self.collections()}
        return traits.pop() if len(traits) == 1 else ""

    def single(self, what: str) -> Collection:
        """Refuse, as a statement about one collection must say about which."""
        raise ArgumentError(f"{what} needs a single collection, got {len(self):,} cells; choose one of them.")

    def pooled(self) -> Collection:
        """Return the reports of all cells together, as if they were one.

        Raises
        ------
        ArgumentError
            Where a cell is a summary, or a channel differs between cells.
        """
        if self.weighted:
            raise ArgumentError("cells with sampling weights cannot be pooled; read their respondents as one collection.")
        if not self.keeps_reports:
            raise ArgumentError("cells that are summaries cannot be pooled; add the summaries up instead.")
        tallies, missing = [], sum(cell.missing for cell in self.values())
        for name, held in self.channels().items():
            kinds: dict[object, list[Tally]] = {}
            for _, tally in held:
                kinds.setdefault(tally.protocol, []).append(tally)
            for i, same in enumerate(kinds.values()):
                label = name if len(kinds) == 1 else f"{name} {i + 1}"
                reports = np.concatenate([tally.reports for tally in same])
                counts = np.concatenate([tally.counts for tally in same])
                tallies.append(replace(same[0], reports=reports, counts=counts, name=label))
        return Collection(
            self.categories, tuple(tallies), id=self.id, title=self.title, derived=self.derived, missing=missing
        )

    def summaries(self, pilot: ArrayLike, spread: ArrayLike | None = None) -> Cells:
        """Return these cells with the likelihood of each expanded at a pilot.

        Parameters
        ----------
        pilot : (a,) or (cells, a) array
            One for all cells, or one each.
        spread : (a,) or (cells, a) array, optional
            Variances about the pilot; see Summary.

        Returns
        -------
        Cells
        """
        shape = (len(self), self.n_categories)
        pilots = _of_each(pilot, "pilot", shape)
        spreads = [None] * len(self) if spread is None else _of_each(spread, "spread", shape)
        summaries = {
            key: replace(Summary.of(cell.likelihood, at, spread), missing=cell.missing, excess=excess_of(cell.tallies))
            for (key, cell), at, spread in zip(self.items(), pilots, spreads, strict=True)
        }
        return self.with_cells(summaries)

    def identifiability(self) -> str:
        """Return one sentence per group of cells whose reports do not identify all categories; empty if there is none."""
        return self._said("identifiability")

    def caveat(self) -> str:
        """Return what the protocols say every reader of a fit must know, and of which cells; empty if nothing."""
        return self._said("caveat")

    def device(self) -> str:
        """Return what the devices do, in words, and in which cells; empty where there is nothing to say."""
        return self._said("device")

    def _said(self, name: str) -> str:
        """Return the sentences of a method of Collection, each with the cells it is true of."""
        labels_of: dict[str, list[str]] = {}
        for label, data in zip(self.labels, self.collections(), strict=True):
            if sentence := getattr(data, name)():
                labels_of.setdefault(sentence, []).append(label)
        sentences = []
        for sentence, labels in labels_of.items():
            between = "; " if any(", " in label for label in labels) else ", "
            named = between.join([*labels[:8], *(["…"] if len(labels) > 8 else [])])
            sentences.append(sentence if len(labels) == len(self) else f"Cells {named}: {sentence}")
        return " ".join(sentences)

    def _aligned(self, table: Any) -> dict[str, np.ndarray]:
        """Return the covariates as columns in the order of the cells."""
        rule = "a mapping of column names to one value per cell"
        try:
            named = {str(name): table[name] for name in table.keys()}
        except (AttributeError, TypeError):
            raise ArgumentError(f"covariates must be {rule}, got {type(table).__name__}.") from None
        columns = {
            name: checks.array_of(values, f"covariate {name!r}", "one value per cell") for name, values in named.items()
        }
        for name, values in columns.items():
            if values.ndim != 1:
                raise ArgumentError(f"covariate {name!r} must have one value per cell, got shape {values.shape}.")
        if set(self.by) <= set(columns):
            places: dict[tuple, int] = {}
            for place, key in enumerate(zip(*(columns[name].tolist() for name in self.by), strict=True)):
                if places.setdefault(key, place) != place:
                    raise DataError(f"covariates have two rows for the cell {key}")
            missing = [key for key in self if key not in places]
            if missing:
                raise DataError(f"covariates have no row for the cell {missing[0]}")
            order = [places[key] for key in self]
            return {name: values[order] for name, values in columns.items() if name not in self.by}
        for name, values in columns.items():
            if values.size != len(self):
                raise ArgumentError(f"covariate {name!r} must have one value per cell ({len(self)}), got {values.size}.")
        return columns


def _of_each(value: ArrayLike, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Return numbers of every cell, from an array for all of them or one row each."""
    array = checks.reals(value, name, ndim=None)
    if array.shape not in (shape, shape[1:]):
        raise ArgumentError(f"{name} must have shape {shape[1:]} or {shape}, got {array.shape}.")
    return np.broadcast_to(array, shape)


def _key(key: object) -> tuple:
    """Return a key as a tuple of plain values."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(_plain(part) if isinstance(part, np.generic) else part for part in parts)


def _plain(part: np.generic) -> Any:
    """Return a value of NumPy as one of Python; item() turns times of nanoseconds into integers."""
    return part.astype("datetime64[us]").item() if isinstance(part, np.datetime64) and part.dtype != "M8[D]" else part.item()


def _names(by: str | Sequence[str] | None, width: int) -> tuple[str, ...]:
    """Return the names of the grouping columns."""
    if by is None:
        return ("cell",) if width == 1 else tuple(f"key_{i + 1}" for i in range(width))
    names = (by,) if isinstance(by, str) else checks.labels(by, "by", f"{width} distinct column names")
    if len(names) != width or len(set(names)) != width or not all(names):
        raise ArgumentError(f"by must be {width} distinct column names, one per part of a key, got {shown(by)}.")
    for name in names:
        if name in RESERVED or (name == "cell" and width > 1):
            raise ArgumentError(f"by must not contain {name!r}, a name that results use themselves; rename that column.")
        if "/" in name:
            raise ArgumentError(
                f"by must not contain {name!r}: slashes separate the groups of a result; rename that column."
            )
    return names


def _categories(items: Mapping, categories: Sequence[str] | None) -> tuple[str, ...]:
    """Return the categories that all cells share."""
    labels = None if categories is None else checks.labels(categories, "categories")
    for key, cell in items.items():
        if isinstance(cell, Collection):
            labels = cell.categories if labels is None else labels
            if cell.categories != labels:
                raise DataError(f"cell {key} has other categories than those before it")
        elif not isinstance(cell, Summary):
            raise ArgumentError(f"cells must be Collections or Summaries, got {type(cell).__name__} for {key}.")
    if labels is None:
        raise ArgumentError("categories must be given where every cell is a summary.")
    for key, cell in items.items():
        if cell.n_categories != len(labels):
            raise DataError(f"cell {key} has {cell.n_categories} categories, the others {len(labels)}")
    return labels


def _column(values: Sequence) -> np.ndarray:
    """Return key values as an array: numbers stay numbers, all else becomes text."""
    array = np.array(values)
    return array if array.dtype.kind in "iufM" else np.array([str(value) for value in values], dtype=object)


def as_data(value: object, name: str = "collection", *, cells: bool = True, summaries: bool = True) -> Any:
    """Return data as functions take them: a Tally is a collection of one channel, a Summary has labels "0", "1", …

    Parameters
    ----------
    value : Collection, Tally, Cells or Summary
    name : str
        Of the argument.
    cells, summaries : bool
        Whether cells and summaries are taken too.

    Returns
    -------
    Collection, Cells or Summarized

    Raises
    ------
    ArgumentError
        On anything else, with a remedy where there is a usual one.
    """
    if isinstance(value, Tally):
        return Collection(value.categories or value.protocol.default_labels, (value,))
    if isinstance(value, Collection) or (cells and isinstance(value, Cells)):
        return value
    if summaries and isinstance(value, Summarized | Summary):
        return value if isinstance(value, Summarized) else Summarized.of(value)
    kind = type(value).__name__
    if isinstance(value, (str, PathLike)):
        kind = f"the path {shown(value)}; read it first, with read"
    elif isinstance(value, (list, tuple, dict)):
        kind = f"a {kind}; make Cells of several collections: Cells({{key: collection, …}})"
    elif isinstance(value, Cells):
        kind = "Cells; take the collection of one cell, cells[key]"
    else:
        kind += "; read makes a Tally of a data frame"
    words = ("a Collection", "a Tally", *(["a Summary"] if summaries else []), *(["Cells"] if cells else []))
    raise ArgumentError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, got {kind}.")


def as_collection(value: object) -> Collection:
    """Return as_data(value) of one collection whose reports are there."""
    return as_data(value, cells=False, summaries=False)
