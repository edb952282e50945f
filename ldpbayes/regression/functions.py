"""The functions that a formula may use: a closed table. Nothing else is ever called, whatever a formula or a file says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.regression import walk_root
from ldpbayes.regression.constants import MAX_BASIS, MAX_DEGREE, MOST_PIECES

NUMBER, COLUMNS, FACTOR, LEVELS, SMOOTH = "number", "columns", "factor", "levels", "smooth"
#: Options of C(): how the levels become columns.
CODINGS = ("Treatment", "Sum")


@dataclass(frozen=True)
class Function:
    """One function of the table.

    Attributes
    ----------
    apply : callable
        ``apply(*values, **state)`` gives an array with a row per row: of one number, or of several for COLUMNS.
    fit : callable, optional
        ``fit(*values, **options)`` gives what apply needs to treat new data as it treated those of the fit.
    options : mapping of str to str
        Names of the options in their order, and what each must be: "integer", "truth", "numbers", "label" or "coding".
    makes : {"number", "columns", "factor", "levels", "smooth"}
        An effect over ordered levels is one of "levels", a curve one of "smooth".
    texts : bool
        Whether values may be texts.
    """

    apply: Callable[..., Any]
    fit: Callable[..., Mapping[str, Any]] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    makes: str = NUMBER
    texts: bool = False


# ---- functions with a memory ---------------------------------------------------------------------------------------------
def _fit_scale(x):
    unit = float(np.std(x))
    if not unit > 0:
        raise ArgumentError("scale needs a column that varies.")
    return {"centre": float(np.mean(x)), "unit": unit}


def _fit_binary(x, success=None):
    if success is None:
        return {"success": sorted(set(x.tolist()))[0]}
    if not _equal(x, success).any():
        raise ArgumentError(f"no value is {shown(success)}.")
    return {"success": success}


def _equal(x, label):
    """Return where values are a label; a text is no number."""
    return x == label if (x.dtype == object) == isinstance(label, str) else np.zeros(x.shape, dtype=bool)


def _fit_poly(x, degree=1, raw=False):
    if not 1 <= degree <= MAX_DEGREE or not degree < len(np.unique(x)):
        raise ArgumentError(
            f"the degree of poly must be from 1 to {MAX_DEGREE} and below the number of values, got {shown(degree)}."
        )
    if raw:
        return {"powers": np.arange(1, degree + 1)}
    ends = np.array([x.min(), x.max()])
    triangle = np.linalg.qr(_legendre(x, ends, degree), mode="r")
    return {"ends": ends, "matrix": (np.linalg.inv(triangle) * np.sign(np.diag(triangle)))[:, 1:]}


def _legendre(x, ends, degree):
    return legvander((2 * x - ends.sum()) / np.diff(ends), degree)


def _poly(x, ends=None, matrix=None, powers=None):
    """Return polynomials that are orthonormal over the values of the fit, or powers."""
    return x[:, None] ** powers if ends is None else _legendre(x, ends, len(matrix) - 1) @ matrix


def _fit_bs(x, df=None, knots=None, degree=3):
    if not 1 <= degree <= MAX_DEGREE:
        raise ArgumentError(f"the degree of bs must be from 1 to {MAX_DEGREE}, got {shown(degree)}.")
    low, high = float(x.min()), float(x.max())
    if not low < high:
        raise ArgumentError("bs needs a column that varies.")
    if knots is None:
        if df is None or not degree <= df <= MAX_BASIS:
            raise ArgumentError(
                f"bs needs df, a number of columns from the degree {degree} to {MAX_BASIS}, or knots=c(…), got {shown(df)}."
            )
        inner = np.quantile(x, np.linspace(0, 1, df - degree + 2)[1:-1]).tolist()
    else:
        inner = sorted(knots)
        if not low < inner[0] <= inner[-1] < high or (df is not None and df != len(inner) + degree):
            raise ArgumentError(
                f"the knots of bs must lie between {low:g} and {high:g}, and df is their number plus the degree."
            )
    return {"degree": degree, "knots": [low] * (degree + 1) + inner + [high] * (degree + 1)}


def _bs(x, degree, knots):
    """Return B-splines without the first, whose place the intercept takes, as R's bs does."""
    from scipy.interpolate import BSpline

    return BSpline(np.array(knots), np.eye(len(knots) - degree - 1), degree)(x)[:, 1:]


def _fit_smooth(x, k=None):
    levels = np.unique(x)
    if len(levels) < 4:
        raise ArgumentError(f"s needs a column of four values or more, got {len(levels)}; rw or C takes fewer.")
    pieces = min(max(len(levels) // 4, 1), MOST_PIECES) if k is None else k - 3
    if not 1 <= pieces <= MAX_BASIS:
        raise ArgumentError(f"k of s must be a number of basis functions from 4 to {MAX_BASIS + 3}, got {shown(k)}.")
    low, high = float(levels[0]), float(levels[-1])
    state = {"knots": low + (high - low) / pieces * np.arange(-3, pieces + 4), "ends": np.array([low, high])}
    columns = _smooth(levels, **state, centre=0.0, unit=1.0)
    centre = columns.mean(axis=0)
    curves = (columns - centre) @ walk_root(np.arange(float(pieces + 3)))
    return state | {"centre": centre, "unit": float(np.sqrt((curves**2).sum(axis=1).mean()))}


def _smooth(x, knots, ends, centre, unit):
    """Return cubic B-splines with mean 0 over the values of the fit; beyond these a curve stays where it ends."""
    from scipy.interpolate import BSpline

    columns = BSpline(knots, np.eye(len(knots) - 4), 3)(np.clip(x, *ends))
    return (columns - centre) / unit


def middles(knots: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the centre of mass of each basis function of a curve, within the data; three nodes a piece integrate exactly.

    Parameters
    ----------
    knots : array
        Uniform.
    ends : pair
        The least and the largest value.
    """
    nodes, weights = leggauss(3)
    pieces = knots[3:-3]
    x = (pieces[:-1, None] + np.diff(pieces)[:, None] * (nodes + 1) / 2).ravel()
    mass = _smooth(x, knots, ends, 0.0, 1.0) * np.tile(weights, len(pieces) - 1)[:, None]
    return (x @ mass) / mass.sum(axis=0)


_NUMBERS = {
    name: Function(getattr(np, name))
    for name in ("abs", "ceil", "cos", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "sin", "sqrt")
}
_ROUND = Function(np.round, lambda x, digits=0: {"decimals": digits}, {"digits": "integer"})
_SCALE = Function(lambda x, centre, unit: (x - centre) / unit, _fit_scale)
_BINARY = Function(lambda x, success: _equal(x, success), _fit_binary, {"success": "label"}, texts=True)
_FACTOR = Function(lambda x: x, options={"contrast": "coding"}, makes=FACTOR, texts=True)
#: Functions by the name that a formula writes; those of NumPy may be written np.log(x) as well.
FUNCTIONS: dict[str, Function] = {
    **_NUMBERS,
    **{f"np.{name}": function for name, function in _NUMBERS.items()},
    "round": _ROUND,
    "np.round": _ROUND,
    "I": Function(lambda x: x),
    "center": Function(lambda x, centre: x - centre, lambda x: {"centre": float(np.mean(x))}),
    "scale": _SCALE,
    "standardize": _SCALE,
    "binary": _BINARY,
    "B": _BINARY,
    "poly": Function(_poly, _fit_poly, {"degree": "integer", "raw": "truth"}, COLUMNS),
    "bs": Function(_bs, _fit_bs, {"df": "integer", "knots": "numbers", "degree": "integer"}, COLUMNS),
    "C": _FACTOR,
    "factor": _FACTOR,
    "as.factor": _FACTOR,
    "T": Function(lambda x: x, options={"ref": "label"}, makes=FACTOR, texts=True),
    "S": Function(lambda x: x, options={"omit": "label"}, makes=FACTOR, texts=True),
    "private": Function(lambda x: x, makes=FACTOR, texts=True),
    "rw": Function(lambda x: x, makes=LEVELS, texts=True),
    "mo": Function(lambda x: x, makes=LEVELS, texts=True),
    "s": Function(_smooth, _fit_smooth, {"k": "integer"}, SMOOTH),
}
#: Operators by their sign; "neg" is the sign before a number.
OPERATORS: dict[str, Function] = {
    "neg": Function(np.negative),
    "+": Function(np.add),
    "-": Function(np.subtract),
    "*": Function(np.multiply),
    "/": Function(np.divide),
    "**": Function(np.power),
    "<": Function(np.less),
    "<=": Function(np.less_equal),
    ">": Function(np.greater),
    ">=": Function(np.greater_equal),
    "==": Function(lambda x, y: x == y, texts=True),
    "!=": Function(lambda x, y: x != y, texts=True),
}
TABLE: dict[str, Function] = FUNCTIONS | OPERATORS
#: What a refusal lists.
NAMES: tuple[str, ...] = tuple(sorted((name for name in FUNCTIONS if "." not in name and name != "B"), key=str.lower))
