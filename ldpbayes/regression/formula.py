"""Formulas: from a data frame to the design matrix, its distinct rows, and the same columns for new data."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.sources.base import optional

#: A design with more entries than this is refused: it would not fit in memory several times over.
MAX_ENTRIES = 2**27
#: Functions that formulas may use without naming NumPy, as in R.
FUNCTIONS = {"np": np} | {name: getattr(np, name) for name in ("log", "log2", "log10", "log1p", "exp", "sqrt", "abs")}


@dataclass(frozen=True, eq=False)
class Formula:
    """``answer ~ terms``, taken apart.

    Attributes
    ----------
    text : str
    answer : str
        Name of the private answer.
    right : str
        The terms, as formulae reads them.
    variables : tuple of str
        Columns that the terms use.
    """

    text: str
    answer: str
    right: str
    variables: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Formula":
        """Return the parts of a formula.

        Raises
        ------
        ArgumentError
            Where it is no formula, or has no left side.
        """
        formulae = _formulae()
        if not isinstance(text, str):
            raise ArgumentError(f'formula must be a text such as "answer ~ age + C(sex)", got {shown(text)}.')
        left, tilde, right = text.partition("~")
        answer, right = left.strip(), right.strip()
        if not tilde or not answer.isidentifier() or not right or "~" in right:
            raise ArgumentError(
                'formula must name the private answer, a "~" and the terms, such as "answer ~ age + C(sex)", got '
                f"{shown(text)}."
            )
        if re.search(r"(?<![\w.`])offset\s*\(", right):
            raise ArgumentError(
                "formula must not have an offset: every term has coefficients to estimate, one per category but the "
                f"reference, got {shown(text)}."
            )
        try:
            description = formulae.model_description(right)
            names = sorted(name for name in description.var_names if name)
        except Exception as err:  # the formula library's parser raises errors of many kinds
            hint = ""
            if re.search(r"levels\s*=", right):
                hint = " Levels are sorted, or in the order of an ordered Categorical; T(x, 'b') takes 'b' as the base."
            raise ArgumentError(f"formula cannot be read ({_first(err)}), got {shown(text)}.{hint}") from err
        if answer in names:
            raise ArgumentError(f"formula must not have the private answer {answer!r} on its right side.")
        return cls(text.strip(), answer, right, tuple(names))


@dataclass(frozen=True, eq=False)
class Group:
    """The columns of one grouping factor, such as ``(1 | county)``: one nonzero entry a row.

    Attributes
    ----------
    name : str
    levels : tuple of str
    index : (n,) int array
        The group of each row.
    value : (n,) array
        The column that varies; ones for an intercept.
    """

    name: str
    levels: tuple[str, ...]
    index: np.ndarray
    value: np.ndarray

    def matrix(self, rows=slice(None)) -> np.ndarray:
        """Return the columns of some rows as a dense array."""
        index, value = self.index[rows], self.value[rows]
        found = np.zeros((index.size, len(self.levels)))
        found[np.arange(index.size), index] = value
        return found


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a design: X of the common terms, and those of grouping factors."""

    common: np.ndarray
    groups: tuple[Group, ...]


class Design:
    """What a formula makes of a data frame; it gives new data the same columns.

    Parameters
    ----------
    formula : Formula
    frame : pandas.DataFrame
        With the formula's variables, as clean() returns them; a row per row of the table.

    Raises
    ------
    DataError
        On factors with one level, and on terms that cannot be computed.
    """

    def __init__(self, formula: Formula, frame: Any):
        formulae = _formulae()
        self.formula, self.frame = formula, frame
        for name in formula.variables:
            if frame[name].dtype.kind not in "biuf" and frame[name].nunique() == 1:
                raise DataError(
                    f"has one level ({shown(str(frame[name].iloc[0]))}), so it explains nothing; leave it out", field=name
                )
        try:
            self._matrices = formulae.design_matrices(formula.right, _some(frame), "error", extra_namespace=FUNCTIONS)
        except KeyError as err:
            raise DataError(
                f"the terms {shown(formula.right)} use the function {err}, which is not known; those of NumPy are written "
                "np.log(x)"
            ) from err
        except Exception as err:
            raise DataError(f"the terms {shown(formula.right)} cannot be computed: {_first(err)}") from err
        common, group = self._matrices.common, self._matrices.group
        size = len(frame) * ((0 if common is None else common.design_matrix.shape[1]) + 1)
        if size > MAX_ENTRIES:
            raise DataError(f"the design has {size:.2g} entries, more than {MAX_ENTRIES:.2g}; bin or leave out columns")
        if common is None:
            raise ArgumentError("formula must have at least one common term, such as the intercept 1.")
        self.terms = tuple(str(name) for name in common.as_dataframe().columns)
        for term in common.terms.values():
            if not len(_labels_of(term)):
                raise DataError("has one level, so it explains nothing; leave it out", field=str(term.name))
        self.columns = self._columns(common, group)

    def _columns(self, common, group) -> Columns:
        x = np.asarray(common.design_matrix, dtype=float)
        if not np.isfinite(x).all():
            bad = self.terms[int(np.flatnonzero(~np.isfinite(x).all(axis=0))[0])]
            raise DataError("has values that are not finite", field=bad)
        groups = []
        for name, term in () if group is None else group.terms.items():
            part = group[name] if not _is_sparse(group[name]) else group[name].tocsr()
            matrix = part if not _is_sparse(part) else part.toarray() if part.shape[1] * part.shape[0] < 2**22 else part
            index, value = _one_hot(matrix)
            levels = tuple(str(level) for level in term.groups)
            if matrix.shape[1] != len(levels):
                raise ArgumentError(f"formula must have terms of one column before the bar, got ({name}).")
            groups.append(Group(str(name), levels, index, value))
        return Columns(x, tuple(groups))

    def new(self, frame: Any) -> Columns:
        """Return the columns of new data.

        Raises
        ------
        DataError
            On levels that the fit has not seen, on columns of another type, and on terms that cannot be computed.
        """
        frame = self._aligned(frame)
        try:
            common = self._matrices.common.evaluate_new_data(_some(frame))
            group = self._matrices.group
            group = None if group is None else group.evaluate_new_data(_some(frame))
        except ValueError as err:
            said = _first(err)
            if "not present" in said:
                raise DataError(f"{self._unknown(frame) or said}") from err
            raise DataError(f"the terms cannot be computed for these data: {said}") from err
        except Exception as err:
            raise DataError(f"the terms cannot be computed for these data: {_first(err)}") from err
        return self._columns(common, group)

    def _aligned(self, frame):
        """Return new data with every column in the type that it had in the fit."""
        import pandas as pd

        out = {}
        for name in self.formula.variables:
            own, values = self.frame[name], frame[name]
            kind = own.dtype.kind
            if str(own.dtype) == "category":
                levels = list(own.cat.categories)
                if not values.astype(str).isin(levels).all():
                    raise DataError(self._unknown(frame))
                values = pd.Categorical(values.astype(str), levels, ordered=True)
            elif kind == "b":
                if values.dtype.kind != "b" and not values.isin([0, 1]).all():
                    raise DataError("must hold True or False, as in the fit", field=name)
                values = values.astype(bool)
            elif kind in "iuf":
                if values.dtype.kind not in "biuf":
                    raise DataError("must hold numbers, as in the fit", field=name)
                whole = kind != "f" and values.dtype.kind == "f" and (values == values.round()).all()
                values = values.astype(np.int64 if whole or values.dtype.kind == "b" else values.dtype)
            else:
                values = values.astype(str).astype(object)
            out[name] = values
        return pd.DataFrame(out, index=range(len(frame)))

    def _unknown(self, frame):
        """Return the sentence about the first unknown level."""
        for name in self.formula.variables:
            if frame[name].dtype.kind not in "biuf" or name in self.factors:
                seen = set(self.frame[name].astype(str))
                new = [str(level) for level in frame[name].unique() if str(level) not in seen]
                if new:
                    return f"{name} has the level {shown(new[0])}, which the fit has not seen; it has {listed(sorted(seen))}"
        return ""

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """Variables that some term takes as a factor: texts, booleans, and numbers inside C()."""
        texts = [name for name in self.formula.variables if self.frame[name].dtype.kind not in "iuf"]
        compact = self.formula.right.replace(" ", "")
        inside = [name for name in self.formula.variables if f"C({name})" in compact or f"C({name}," in compact]
        bars = [name for name in self.formula.variables if f"|{name})" in compact]
        return tuple(dict.fromkeys([*texts, *inside, *bars]))

    # ---- distinct rows -------------------------------------------------------------------------------------------------
    @cached_property
    def patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """(first row of each distinct combination of the variables, number of the combination of each row)."""
        return distinct_rows([self.frame[name].to_numpy() for name in self.formula.variables], len(self.frame))

    @cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """(first row of each distinct row of the design, number of the cell of each row)."""
        columns = [*self.columns.common.T]
        for group in self.columns.groups:
            columns += [group.index, group.value]
        return distinct_rows(columns, len(self.frame))

    # ---- to and from a result ------------------------------------------------------------------------------------------
    def describe(self) -> str:
        """Return what restore() needs beside the columns, as JSON."""
        kinds = {}
        for name in self.formula.variables:
            values = self.frame[name]
            ordered = str(values.dtype) == "category"
            kinds[name] = {"ordered": [str(v) for v in values.cat.categories]} if ordered else {"kind": values.dtype.kind}
        return json.dumps({"formula": self.formula.text, "variables": kinds})

    @classmethod
    def restore(cls, text: str, patterns: Mapping[str, np.ndarray], rows: np.ndarray) -> "Design":
        """Return the design that describe() described, from the distinct combinations and how many rows have each."""
        import pandas as pd

        facts = json.loads(text)
        frame = {}
        for name, kind in facts["variables"].items():
            values = np.asarray(patterns[name])
            if "ordered" in kind:
                frame[name] = pd.Categorical(values.astype(str), kind["ordered"], ordered=True)
            elif kind["kind"] in "iuf":
                frame[name] = values
            elif kind["kind"] == "b":
                frame[name] = values.astype(bool)
            else:
                frame[name] = values.astype(str).astype(object)
        whole = pd.DataFrame(frame, index=range(len(rows)))
        return cls(Formula.parse(facts["formula"]), whole.loc[np.repeat(np.arange(len(rows)), rows)].reset_index(drop=True))


def clean(
    table: Any,
    variables: Sequence[str],
    *,
    missing: str = "refuse",
    extra: Sequence[str] = (),
    remedy: str = "fill it in, or drop them with missing='drop'",
) -> tuple[Any, np.ndarray]:
    """Return (pandas frame of the variables in plain types, which rows are kept).

    Parameters
    ----------
    table : pandas.DataFrame
    variables : sequence of str
    missing : {"refuse", "drop"}
        What becomes of rows where a variable is missing.
    extra : sequence of str
        Other columns that must exist.
    remedy : str
        What to do about missing values, for the error.

    Raises
    ------
    DataError
        On unknown columns, missing values, and values that are not finite.
    """
    import pandas as pd

    names = [str(name) for name in table.columns]
    for name in [*variables, *extra]:
        if name not in names:
            raise DataError(f"the frame has no column {shown(name)}; it has {listed(names) or 'none'}")
    kept, found = np.ones(len(table), dtype=bool), {}
    for name in variables:
        values = table[name]
        gone = values.isna().to_numpy()
        if gone.any() and missing == "refuse":
            raise DataError(
                f"is missing in {int(gone.sum()):,} of {len(table):,} rows; {remedy}",
                field=name,
            )
        kept &= ~gone
        found[name] = values
    if not kept.any():
        raise DataError("the frame has no rows" if not len(table) else "no row has all covariates")
    out = {}
    for name, values in found.items():
        values = values[kept]
        kind = str(values.dtype).lower()
        if kind.startswith("sparse"):
            values = values.sparse.to_dense()
            kind = str(values.dtype).lower()
        if kind.startswith(("datetime", "timedelta", "period")):
            raise DataError("holds times; turn them into numbers, such as years, or into texts for a factor", field=name)
        if kind == "category":
            levels = values.cat.categories
            if values.cat.ordered:
                used = [str(v) for v in levels if (values == v).any()]
                out[name] = pd.Categorical(values.astype(str), used, ordered=True)
            else:
                out[name] = values.astype(str).to_numpy(dtype=object)
        elif kind.startswith(("bool", "boolean")):
            out[name] = values.to_numpy(dtype=bool)
        elif kind.startswith(("int", "uint")):
            out[name] = values.to_numpy(dtype=np.int64)
        elif kind.startswith(("float", "double", "decimal")) or _all_numbers(values):
            out[name] = values.to_numpy(dtype=float)
            if not np.isfinite(out[name]).all():
                raise DataError("has values that are not finite", field=name)
        else:
            out[name] = values.astype(str).to_numpy(dtype=object)
    return pd.DataFrame(out, index=range(int(kept.sum()))), kept


def to_pandas(frame: Any) -> Any:
    """Return any data frame as a pandas one.

    Raises
    ------
    ArgumentError
        Where it is none, or the package that converts it is missing.
    """
    pandas = optional_regress("pandas")
    if isinstance(frame, pandas.DataFrame):
        table = frame
    elif isinstance(frame, Mapping):
        try:
            table = pandas.DataFrame({name: [value] if np.isscalar(value) else value for name, value in frame.items()})
        except ValueError as err:
            raise DataError(f"the columns do not make a table: {_first(err)}") from err
    else:
        from ldpbayes.sources.frame import FrameSource

        eager = FrameSource(frame).eager()
        try:
            table = eager.to_pandas()
        except ImportError as err:
            raise ArgumentError("Converting this frame needs pyarrow: pip install 'ldpbayes[frames]'.") from err
    if len(set(map(str, table.columns))) < len(table.columns):
        raise DataError("the frame has two columns of the same name; rename one")
    return table.rename(columns=str).reset_index(drop=True)


def distinct_rows(columns: Sequence[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (first row of each distinct row, in order of appearance, number of the distinct row of each row)."""
    import pandas as pd

    code = np.zeros(size, dtype=np.int64)
    for column in columns:
        own, levels = pd.factorize(np.asarray(column))
        if len(levels) > 1:
            code = pd.factorize(code * len(levels) + own)[0]
    n = int(code.max()) + 1 if size else 0
    first = np.full(n, size)
    np.minimum.at(first, code, np.arange(size))
    return first, code


def optional_regress(module: str) -> Any:
    """Import a package of the extra ``regress``, or raise the ArgumentError that names it."""
    try:
        return optional(module, "A regression")
    except ArgumentError:
        raise ArgumentError(
            f"A regression needs the package {module}, which is not installed: pip install 'ldpbayes[regress]'."
        ) from None


def _formulae():
    return optional_regress("formulae")


def _first(err):
    """Return the first line of a foreign error."""
    text = next((line.strip() for line in str(err).splitlines() if line.strip()), type(err).__name__)
    return text.rstrip(".")[:200]


def _labels_of(term):
    """Return the names of a term's columns; the intercept has one."""
    return ["Intercept"] if term.name == "Intercept" else list(term.labels)


def _is_sparse(matrix):
    from scipy.sparse import issparse

    return issparse(matrix)


def _one_hot(matrix):
    """Return (column, value) of the one nonzero entry of each row; column 0 and value 0 where there is none."""
    from scipy.sparse import csr_matrix

    found = csr_matrix(matrix)
    index, value = np.zeros(found.shape[0], dtype=np.int64), np.zeros(found.shape[0])
    row = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    index[row], value[row] = found.indices, found.data
    return index, value


def _all_numbers(values):
    """Return whether a column of objects holds numbers only, such as decimals of a database."""
    import numbers
    from decimal import Decimal

    return str(values.dtype) == "object" and all(isinstance(v, (numbers.Real, Decimal)) for v in values)


def _some(frame):
    """Return a frame that has at least one column: formulae needs one even for an intercept alone."""
    return frame if len(frame.columns) else frame.assign(one_=1.0)
