"""Designs: what a formula makes of a data frame, kept as data (levels, centres, knots), so that new data get its columns."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.regression.constants import MAX_COLUMNS, MAX_ENTRIES, MAX_NUMBER
from ldpbayes.regression.formula import Apply, Formula, FrameColumn, Literal, Node, Term, of_levels
from ldpbayes.regression.functions import FACTOR, LEVELS, SMOOTH, TABLE, middles
from ldpbayes.regression.table import distinct_rows

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
#: Kinds of variables by the kind of their array.
_KINDS = {"b": "truth", "i": "whole", "u": "whole", "f": "number"}


@dataclass(frozen=True)
class Variable:
    """A column of the data.

    Attributes
    ----------
    kind : {"truth", "whole", "number", "text", "ordered"}
    levels : tuple of str
        Of an ordered factor, in their order.
    """

    kind: str
    levels: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        return self.kind in ("whole", "number")


@dataclass(frozen=True, eq=False)
class Part:
    """A factor of terms: numbers, or levels that become columns.

    Attributes
    ----------
    name : str
    of : Node
        What is computed, fitted.
    width : int
        How many columns numbers make.
    levels : tuple, optional
        Texts, numbers or truth values; None for numbers.
    base : int
        The level without a column of its own.
    sums : bool
        Whether columns sum to zero over the levels, instead of comparing with the base.
    """

    name: str
    of: Node
    width: int = 1
    levels: tuple[Any, ...] | None = None
    base: int = 0
    sums: bool = False

    def labels(self, full: bool) -> list[str]:
        """Return the names of the columns, of all levels or of all but one."""
        if self.levels is None:
            return [self.name] if self.width == 1 else [f"{self.name}[{k}]" for k in range(self.width)]
        others = [str(level) for k, level in enumerate(self.levels) if k != self.base]
        every = ["mean", *others] if self.sums else map(str, self.levels)
        return [f"{self.name}[{level}]" for level in (every if full else others)]

    def columns(self, data: Mapping[str, np.ndarray], rows: int, full: bool) -> np.ndarray:
        """Return the columns, shape (rows, columns)."""
        if self.levels is None:
            found = np.asarray(evaluate(self.of, data), dtype=float)
            return found.reshape(rows, self.width)
        code, found = self.codes(data), np.zeros((rows, len(self.levels)))
        found[np.arange(rows), code] = 1
        if full and not self.sums:
            return found
        found = np.delete(found, self.base, axis=1)
        if self.sums:
            found[code == self.base] = -1
        return np.column_stack([np.ones(rows), found]) if full else found

    def codes(self, data: Mapping[str, np.ndarray], new: list | None = None) -> np.ndarray:
        """Return the number of each row's level.

        Parameters
        ----------
        data : mapping of str to array
        new : list, optional
            Gets the levels that the fit has not seen, whose numbers follow; without it they are refused.
        """
        import pandas as pd

        values = evaluate(self.of, data)
        code = pd.Index(np.array(self.levels, dtype=_dtype(self.levels))).get_indexer(values)
        if (code < 0).any():
            other, levels = pd.factorize(np.asarray(values)[code < 0], sort=True)
            levels = [_plain(level.item() if isinstance(level, np.generic) else level) for level in levels]
            if new is None:
                raise DataError(
                    f"{self.name} has the level {shown(levels[0])}, which the fit has not seen; it has "
                    f"{listed(sorted(map(str, self.levels or ())))}"
                )
            code[code < 0] = len(self.levels or ()) + other
            new += levels
        return code


@dataclass(frozen=True, eq=False)
class Group:
    """The columns of one grouping factor, such as ``(1 | county)``, or of ordered levels: one nonzero entry a row.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Of a smooth the middles of its basis functions.
    index : (n,) int array
        The group of each row.
    value : (n,) array
        The column that varies; ones for an intercept.
    kind : {"group", "rw", "mo", "s"}
    places : (levels,) array
        Of ordered levels: where they lie; of a smooth the places of its basis functions, one apart.
    new : tuple of str
        Groups that the fit has not seen, whose numbers follow those of ``levels``.
    new_places : array
    basis : (n, levels) array, optional
        Of a smooth, whose levels are its basis functions.
    """

    name: str
    levels: tuple[str, ...]
    index: np.ndarray
    value: np.ndarray
    kind: str = "group"
    places: np.ndarray = field(default_factory=lambda: np.zeros(0))
    new: tuple[str, ...] = ()
    new_places: np.ndarray = field(default_factory=lambda: np.zeros(0))
    basis: np.ndarray | None = None

    def matrix(self, rows=slice(None)) -> np.ndarray:
        """Return the columns of some rows as a dense array."""
        if self.basis is not None:
            return self.basis[rows] * self.value[rows, None]
        index, value = self.index[rows], self.value[rows]
        found = np.zeros((index.size, len(self.levels)))
        found[np.arange(index.size), index] = value
        return found

    def times(self, effects: np.ndarray, rows=slice(None)) -> np.ndarray:
        """Return what effects (S, levels, a) add to some rows, (S, rows, a)."""
        if self.basis is not None:
            return self.matrix(rows) @ effects
        return self.value[rows][:, None] * effects[:, self.index[rows]]

    def stored(self) -> dict[str, np.ndarray]:
        """Return the columns as a result keeps them: those of a smooth, or the level and value of each row."""
        return {"index": self.index, "value": self.value} if self.basis is None else {"basis": self.matrix()}


@dataclass(frozen=True, eq=False)
class Varying:
    """What varies between levels: a column of a block of terms, by the levels of some parts.

    Attributes
    ----------
    kind : {"group", "rw", "mo", "s"}
    block : Block
    by : tuple of Part
    column : int
        Of those of the block.
    """

    kind: str
    block: "Block"
    by: tuple[Part, ...]
    column: int = 0

    @property
    def name(self) -> str:
        """As a result names it, such as 1|county or sex[f]:mo(age)."""
        if self.kind == "group":
            names = [":".join(part.name for part in parts) for parts in ([part for part, _ in self.block], self.by)]
            return f"{names[0] or 1}|{names[1]}"
        return ":".join([*([labels_of(self.block)[self.column]] if self.block else []), self.by[0].name])

    def change(self) -> tuple[str, str, np.ndarray]:
        """Return (the first level, the last, weights of the effects of levels whose sum is the change between these).

        Of a curve the ends are the least and the largest value, and the weights those of its basis functions.
        """
        part = self.by[0]
        if self.kind == "s" and isinstance(part.of, Apply):
            state = part.of.state
            first, last = _in_digits(state["ends"])
            low, high = TABLE["s"].apply(state["ends"], **state)
            return first, last, high - low
        levels = part.levels or ()
        weights = np.zeros(len(levels))
        weights[0], weights[-1] = -1.0, 1.0
        return str(levels[0]), str(levels[-1]), weights


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a design: X of the common terms, and those of grouping factors."""

    common: np.ndarray
    groups: tuple[Group, ...]


#: A product of columns: parts, each with all of its levels (True) or all but one.
Block = tuple[tuple[Part, bool], ...]


def labels_of(block: Block) -> list[str]:
    """Return the names of the columns of a block."""
    return [":".join(each) or "Intercept" for each in itertools.product(*(part.labels(full) for part, full in block))]


class Design:
    """What a formula makes of a data frame; it gives new data the same columns.

    Parameters
    ----------
    formula : Formula
    frame : pandas.DataFrame
        With the formula's variables, as ``clean`` returns them; a row per row of the table.
    times : (n,) int array, optional
        How many rows of the table each row stands for.

    Attributes
    ----------
    text, answer : str
    frame : pandas.DataFrame
        The distinct combinations of the variables.
    pattern : (n,) int array
        The combination of each row of the table.
    rows : array
        How many rows of the table have each combination.
    variables : dict of str to Variable
    terms : tuple of str
        Names of the common columns.
    columns : Columns
        Of the distinct combinations.

    Raises
    ------
    DataError
        On factors with one level, and on terms that cannot be computed.
    """

    def __init__(self, formula: Formula, frame: Any, times: np.ndarray | None = None):
        self.text, self.answer = formula.text, formula.answer
        first, self.pattern = distinct_rows([frame[name].to_numpy() for name in formula.variables], len(frame))
        self.frame = frame.iloc[first].reset_index(drop=True)
        if times is not None:
            self.pattern = np.repeat(self.pattern, times)
        self.rows = np.bincount(self.pattern, minlength=len(first))
        self.variables = {name: _variable(frame[name]) for name in formula.variables}
        for name, variable in self.variables.items():
            if not variable.numeric and variable.kind != "truth" and frame[name].nunique() == 1:
                raise DataError(
                    f"has one level ({shown(str(frame[name].iloc[0]))}), so it explains nothing; leave it out", field=name
                )
        data = arrays(self.frame)
        varying, grouping = zip(*formula.groups, strict=True) if formula.groups else ((), ())
        every = itertools.chain(*formula.paths)
        paths = list(dict.fromkeys(node for node in every if isinstance(node, Apply) and of_levels(node)))
        beside = [tuple(node for node in term if not of_levels(node)) for term in formula.paths]
        parts = {node: self._part(node, data) for node in dict.fromkeys(itertools.chain(*formula.terms, *varying, *beside))}
        by = {node: self._levels(node, data) for node in dict.fromkeys([*itertools.chain(*grouping), *paths])}
        self.parts = [*parts.values(), *by.values()]
        self.blocks: list[Block] = _coded(formula.terms, parts)
        #: Each grouping factor, and each walk, monotone effect and smooth.
        self.effects: list[Varying] = []
        for what, group in formula.groups:
            full = ((), group) not in formula.groups
            block = tuple((parts[node], full and parts[node].levels is not None) for node in what)
            self.effects.append(Varying("group", block, tuple(by[node] for node in group)))
        numbers: dict[Apply, Part] = {
            node: Part(str(node), node) for node in paths
        }  # a product with one is coded as that with a number
        nodes: dict[Part, Apply] = {part: node for node, part in numbers.items()}
        for block in _coded(formula.paths, parts | numbers):
            (path,) = [nodes[part] for part, _ in block if part in nodes]
            rest = tuple(pair for pair in block if pair[0] not in nodes)
            self.effects += [Varying(path.name, rest, (by[path],), k) for k in range(len(labels_of(rest)))]
        #: Combinations of levels that the rows have, of each grouping factor; of ordered levels and smooths all.
        self.met = {effect.by: self._met(effect.kind, effect.by, data) for effect in self.effects}
        for name in (*self.variables, *(effect.name for effect in self.effects)):
            if "/" in name or "\0" in name:
                raise DataError(
                    "has a slash in its name, which no result can store; rename or compute the column", field=name
                )
        wide = [math.prod(len(part.labels(full)) for part, full in block) for block in self.blocks]
        wide += [len(self.met[effect.by]) for effect in self.effects]
        if sum(wide) > MAX_COLUMNS:
            raise DataError(
                f"the design has {sum(wide):,} columns, more than {MAX_COLUMNS:,}; join levels of factors and groups"
            )
        size = len(self.frame) * (sum(wide) + 1)
        if size > MAX_ENTRIES:
            raise DataError(f"the design has {size:.2g} entries, more than {MAX_ENTRIES:.2g}; bin or leave out columns")
        self.terms = tuple(itertools.chain(*map(labels_of, self.blocks)))
        name, often = max(Counter(self.terms).items(), key=lambda item: item[1])
        if often > 1:
            raise DataError(f"the design has two columns named {shown(name)}; rename a column of the table")
        self.columns = self.new(self.frame)

    def order(self, frame: Any) -> np.ndarray:
        """Return the rows of a frame of covariates in the order of the variables, levels in their own order.

        Parameters
        ----------
        frame : pandas.DataFrame
        """
        keys = []
        for name, values in arrays(frame).items():
            known = self.variables[name].levels if name in self.variables else ()
            keys.append([known.index(x) if x in known else len(known) for x in values] if known else values)
        codes = [np.unique(key, return_inverse=True)[1] for key in keys]
        return np.lexsort(codes[::-1]) if codes else np.arange(len(frame))

    # ---- fitting ---------------------------------------------------------------------------------------------------------
    def _part(self, node, data):
        """Return a factor of common terms: levels for texts and C(), numbers otherwise; texts among numbers are refused."""
        if isinstance(node, FrameColumn) and self.variables[node.name].kind == "text":
            texts = list(map(str, np.unique(data[node.name])))
            odd = [text for text in texts if not _NUMBER.fullmatch(text)]
            if odd and 10 * len(odd) < len(texts):  # such levels as 1, 2 and 3+ are a factor
                problem = f"holds {shown(odd[0])} among numbers; correct it, or write C({node.name}) for a factor"
                raise DataError(problem, field=node.name)
        if (isinstance(node, Apply) and TABLE[node.name].makes == FACTOR) or _is_text(node, self.variables):
            return self._levels(node, data)
        found = self._fitted(node, data)
        width = np.asarray(self._values(found, data)).shape[1:]
        return Part(str(node), found, *width)

    def _levels(self, node, data):
        """Return a factor of the levels of a node."""
        options: dict[str, Any] = {}
        of = node
        makes = TABLE[node.name].makes if isinstance(node, Apply) else ""
        if makes in (FACTOR, LEVELS):
            of, options = node.to[0], dict(node.options)
        fitted = self._fitted(of, data)
        values = self._values(fitted, data)
        if makes == SMOOTH:
            return Part(str(node), fitted, values.shape[1])
        ordered = self.variables[of.name].levels if isinstance(of, FrameColumn) else ()
        if makes == LEVELS and not ordered and values.dtype.kind in "OU":
            raise DataError("needs numbers or an ordered Categorical: texts have no order", field=str(node))
        if makes != LEVELS:
            ordered = tuple(level for level in ordered if level in values)
        levels = tuple(_plain(value) for value in (ordered or np.unique(values).tolist()))
        if len(levels) < 2:
            raise DataError("has one level, so it explains nothing; leave it out", field=str(node))
        sums = isinstance(node, Apply) and (node.name == "S" or options.get("contrast") == "Sum")
        chosen = options.get("omit" if sums else "ref")
        base = len(levels) - 1 if sums else 0
        if chosen is not None:
            same = [k for k, level in enumerate(levels) if level == chosen or str(level) == str(chosen)]
            if not same:
                raise DataError(f"{node} names {shown(chosen)}, which is none of its levels ({listed(levels)})")
            base = same[0]
        return Part(str(node), fitted, 1, levels, base, sums)

    def _fitted(self, node, data):
        """Return a node with the states of its functions, computed over all rows of the table."""
        if not isinstance(node, Apply):
            return node
        to = tuple(self._fitted(part, data) for part in node.to)
        function = TABLE[node.name]
        options = dict(node.options)
        state = {}
        if function.fit is not None:
            values = np.repeat(_argument(node.name, self._values(to[0], data)), self.rows)
            try:
                with np.errstate(all="ignore"):
                    state = function.fit(values, **options)
            except ArgumentError as err:
                raise DataError(f"{node} cannot be computed: {str(err).rstrip('.')}") from None
            if not all(isinstance(entry, str) or np.isfinite(entry).all() for entry in state.values()):
                raise DataError("leaves double precision; measure the column in another unit", field=str(node))
        return Apply(node.name, to, text=node.text, state=dict(state))

    def _values(self, node, data):
        """Return the values of a node, which must be finite."""
        found = evaluate(node, data)
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise DataError("has values that are not finite", field=str(node))
        return found

    # ---- columns ---------------------------------------------------------------------------------------------------------
    def new(self, frame: Any) -> Columns:
        """Return the columns of new data; groups, and places of walks, may be new.

        Parameters
        ----------
        frame : pandas.DataFrame
            With the variables, as ``clean`` returns them.

        Raises
        ------
        DataError
            On levels of other factors that the fit has not seen, on columns of another type, and on terms that cannot be
            computed.
        """
        data, rows = {name: self.values(name, frame[name]) for name in self.variables}, len(frame)
        whole = [self._product(block, data, rows) for block in self.blocks]
        common = np.column_stack(whole) if whole else np.empty((rows, 0))
        for name, column in zip(self.terms, common.T, strict=True):
            _check(name, column)
        groups = []
        for effect in self.effects:
            name, value = effect.name, self._product(effect.block, data, rows)
            if value.shape[1] != 1 and effect.kind == "group":
                raise ArgumentError(f"formula must have terms of one column before the bar, got ({name}).")
            value = value[:, effect.column]
            _check(name, value)
            groups.append(replace(self._grouped(effect.kind, effect.by, data), name=name, value=value))
        return Columns(common, tuple(groups))

    def _met(self, kind, by, data):
        """Return the combinations of levels of some parts that rows have, (combinations, parts); of ordered levels all."""
        if kind != "group":
            return np.arange(by[0].width if kind == "s" else len(by[0].levels))[:, None]
        return np.unique(np.column_stack([part.codes(data) for part in by]), axis=0)

    def _grouped(self, kind, parts, data):
        """Return the Group of each row, in the combinations that the fit has met and then those that are new.

        A walk has a place for numbers between its levels, too; other ordered levels are those of the fit.
        """
        import pandas as pd

        met = self.met[parts]
        if kind == "s":
            rows = len(next(iter(data.values())))
            basis, places = parts[0].columns(data, rows, True), np.arange(float(len(met)))
            none = np.zeros(rows, dtype=int)
            state = parts[0].of.state
            levels = _in_digits(middles(state["knots"], state["ends"]))
            return Group("", levels, none, np.ones(rows), kind, places, basis=basis)
        more: list[list] = [[] for _ in parts]
        numbers = kind != "group" and _dtype(parts[0].levels) is None
        open_ = kind == "group" or (kind == "rw" and numbers)
        codes = [part.codes(data, new if open_ else None) for part, new in zip(parts, more, strict=True)]
        sizes = [len(part.levels or ()) + len(new) for part, new in zip(parts, more, strict=True)]
        key, known = np.ravel_multi_index(codes, sizes), np.ravel_multi_index(tuple(met.T), sizes)
        index = pd.Index(known).get_indexer(key)
        other, rest = pd.factorize(key[index < 0], sort=True)
        index[index < 0] = len(known) + other
        named = [[*map(str, part.levels or ()), *map(str, new)] for part, new in zip(parts, more, strict=True)]
        rows = np.column_stack(np.unravel_index(np.append(known, rest), sizes)).tolist()
        levels = [":".join(names[k] for names, k in zip(named, row, strict=True)) for row in rows]
        places, between = np.arange(float(len(known))), np.array(more[0] if numbers else (), dtype=float)
        if not np.isfinite(between).all():
            raise DataError("has values that are not finite", field=parts[0].name)
        places = np.array(parts[0].levels, dtype=float) if numbers else places
        split = tuple(levels[: len(known)]), tuple(levels[len(known) :])
        return Group("", split[0], index, np.ones(len(index)), kind, places, split[1], between)

    def _product(self, block, data, rows):
        parts = [part.columns(data, rows, full) for part, full in block]
        with np.errstate(all="ignore"):
            return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(rows, -1), parts, np.ones((rows, 1)))

    def values(self, name: str, values: Any) -> np.ndarray:
        """Return new values of a variable as an array in the type that it had in the fit.

        Parameters
        ----------
        name : str
        values : pandas.Series
        """
        variable = self.variables[name]
        kind = values.dtype.kind
        if variable.kind == "truth":
            if kind != "b" and not values.isin([0, 1]).all():
                raise DataError("must hold True or False, as in the fit", field=name)
            return values.to_numpy(dtype=bool)
        if variable.numeric:
            if kind not in "biuf":
                raise DataError("must hold numbers, as in the fit", field=name)
            return values.to_numpy(dtype=float if kind in "bf" else np.int64)
        return values.astype(str).to_numpy(dtype=object)

    # ---- what the answers ask --------------------------------------------------------------------------------------------
    @cached_property
    def factors(self) -> tuple[str, ...]:
        """Variables that some term takes as a factor: texts, booleans, and numbers inside C() or behind a bar."""
        inside = {part.of.name for part in self.parts if part.levels is not None and isinstance(part.of, FrameColumn)}
        return tuple(name for name, variable in self.variables.items() if not variable.numeric or name in inside)

    @cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """(combination that stands for each distinct row of the design, number of that row for each row of the table)."""
        columns = [*self.columns.common.T]
        for group in self.columns.groups:
            columns += [column for array in group.stored().values() for column in array.T.reshape(-1, len(self.frame))]
        first, cell = distinct_rows(columns, len(self.frame))
        return first, cell[self.pattern]

    def split(self, other: "Design") -> np.ndarray:
        """Tell rows apart where another design of the same table does; return its combination that stands for each."""
        (first, cell), (other_first, other_cell) = self.cells, other.cells
        pair, place = np.unique(np.stack([cell, other_cell], axis=1), axis=0, return_inverse=True)
        self.cells = first[pair[:, 0]], np.ravel(place)
        return other_first[pair[:, 1]]

    # ---- to and from a result --------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return the formula and the kinds of the variables as JSON: with their combinations, all that ``restore`` needs."""
        variables = [
            {"name": name, "kind": variable.kind, "levels": list(variable.levels)}
            for name, variable in self.variables.items()
        ]
        return json.dumps({"formula": self.text, "variables": variables})

    @classmethod
    def restore(cls, text: Any, patterns: Mapping[str, np.ndarray], rows: np.ndarray) -> "Design":
        """Return the design that describe() described: its formula, read as any other, of the rows of the fit.

        Parameters
        ----------
        text : str
        patterns : mapping of str to array
            The distinct combinations of the variables.
        rows : array
            How many rows of the table have each.

        Raises
        ------
        DataError
            Where the text is no design, or not that of these variables.
        """
        try:
            facts = json.loads(text)
            formula, rows = Formula.parse(facts["formula"]), _rows(rows)
            kinds = {one["name"]: Variable(one["kind"], tuple(one.get("levels", ()))) for one in facts["variables"]}
            return cls(formula, _frame({name: kinds[name] for name in formula.variables}, patterns, len(rows)), rows)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as err:
            said = str(err).rstrip(".") if isinstance(err, (ArgumentError, DataError)) else type(err).__name__
            raise DataError(f"the attribute 'regression' describes no design of this result ({said})") from None


# ---- values --------------------------------------------------------------------------------------------------------------
def evaluate(node: Node, data: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values of a fitted node: one a row, or several.

    Parameters
    ----------
    node : Node
    data : mapping of str to array

    Raises
    ------
    DataError
        Where texts meet a function of numbers.
    """
    if isinstance(node, FrameColumn):
        return data[node.name]
    if isinstance(node, Literal):
        return np.asarray(node.value if isinstance(node.value, str) else float(node.value))
    values = [_argument(node.name, evaluate(part, data)) for part in node.to]
    if node.name in ("==", "!="):
        texts = [value.dtype.kind in "OU" for value in values]
        if texts[0] != texts[1]:
            raise DataError(f"{node} compares a text with a number")
    with np.errstate(all="ignore"):
        return np.asarray(TABLE[node.name].apply(*values, **node.state))


def _in_digits(values):
    """Return numbers as texts, with as many digits as tell them apart."""
    texts = ([f"{value:.{digits}g}" for value in values] for digits in range(3, 18))
    return tuple(next(names for names in texts if len(set(names)) == len(values)))


def _argument(name, values):
    """Return values as a function takes them: numbers in double precision, or texts where it takes any."""
    if values.dtype.kind in "OU":
        if not TABLE[name].texts:
            raise DataError(
                f"{'the sign ' if name not in TABLE or not name.isidentifier() else ''}{name} needs numbers, got texts"
            )
        return values
    return values.astype(float)


def arrays(frame: Any) -> dict[str, np.ndarray]:
    """Return the columns of a frame as arrays; factors and texts as objects."""
    return {
        name: values.to_numpy() if values.dtype.kind in "biuf" else values.astype(str).to_numpy(dtype=object)
        for name, values in frame.items()
    }


def _variable(values):
    if str(values.dtype) == "category":
        return Variable("ordered", tuple(map(str, values.cat.categories)))
    return Variable(_KINDS.get(values.dtype.kind, "text"))


def _is_text(node, variables):
    return isinstance(node, FrameColumn) and variables[node.name].kind in ("text", "ordered")


def _plain(level):
    """Return a level as it is written and stored: whole numbers without a decimal point."""
    return int(level) if isinstance(level, float) and level.is_integer() and abs(level) < 2**53 else level


def _dtype(levels):
    return object if any(isinstance(level, str) for level in levels) else None


def _check(name, column):
    """Refuse columns whose squares leave double precision."""
    if not np.isfinite(column).all():
        raise DataError("has values that are not finite", field=name)
    largest = np.abs(column).max(initial=0.0)
    if largest > MAX_NUMBER or 0 < largest < 1 / MAX_NUMBER:
        raise DataError(
            f"has numbers up to {largest:.0e}; a regression takes those from {1 / MAX_NUMBER:.0e} to {MAX_NUMBER:.0e}, so "
            "measure it in another unit",
            field=name,
        )


# ---- coding --------------------------------------------------------------------------------------------------------------
def _coded(terms: Iterable[Term], parts: Mapping[Node, Part]) -> list[Block]:
    """Return the columns of all terms, without those that earlier terms span already.

    A factor stands for its levels, or for all but one where the rest of its term is in the model: a product of factors is
    the sum of the spaces of all subsets, each coded with one level less; those spaces that are new are joined where they
    differ by one factor (as in Chambers and Hastie 1992, and in patsy by N. J. Smith).
    """
    spanned: dict[frozenset, set[frozenset]] = {}
    blocks: list[Block] = []
    for term in terms:
        factors = [node for node in term if parts[node].levels is not None]
        others = frozenset(term) - set(factors)
        before = spanned.setdefault(others, set())
        new: list[tuple[frozenset, frozenset]] = [
            (frozenset(subset), frozenset())
            for size in range(len(factors) + 1)
            for subset in itertools.combinations(factors, size)
            if frozenset(subset) not in before
        ]
        before |= {reduced for reduced, _ in new}
        while True:
            pairs = itertools.combinations(range(len(new)), 2)
            joined = next(
                (
                    (i, j)
                    for i, j in pairs
                    # The longer space has one reduced factor more, and the same full ones.
                    if new[i][0] < new[j][0] and len(new[j][0] - new[i][0]) == 1 and new[i][1] == new[j][1]
                ),
                None,
            )
            if joined is None:
                break
            i, j = joined
            new[j] = (new[i][0], new[i][1] | (new[j][0] - new[i][0]))
            del new[i]
        for reduced, full in new:
            blocks.append(tuple((parts[k], k in full) for k in term if k in others or k in reduced or k in full))
    return blocks


# ---- reading -------------------------------------------------------------------------------------------------------------
def _rows(rows):
    array = np.asarray(rows)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 0).any() or not 0 < array.sum() < MAX_ENTRIES:
        raise ValueError("rows")
    return array


def _frame(variables, patterns, size):
    """Return the distinct combinations of stored variables."""
    import pandas as pd

    out = {}
    for name, variable in variables.items():
        values = np.asarray(patterns[name])
        if values.shape != (size,):
            raise ValueError("shape")
        if variable.kind == "ordered":
            out[name] = pd.Categorical(values.astype(str), variable.levels, ordered=True)
            if (out[name].codes < 0).any():
                raise ValueError("level")
        elif variable.kind == "text":
            out[name] = values.astype(str).astype(object)
        else:
            if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
                raise ValueError("numbers")
            out[name] = values.astype({"truth": bool, "whole": np.int64, "number": float}[variable.kind])
    return pd.DataFrame(out, index=range(size))
