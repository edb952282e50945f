"""The functions that a formula may use: a closed table. Nothing else is ever called, whatever a formula or a file says."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbayes.errors import ArgumentError, shown

#: Largest degree of polynomials and splines, and most columns of a spline.
MAX_DEGREE, MAX_BASIS = 20, 200
NUMBER, COLUMNS, FACTOR = "number", "columns", "factor"
#: Options of C(): how the levels become columns.
CODINGS = ("Treatment", "Sum")


@dataclass(frozen=True)
class Function:
    """One function of the table.

    Attributes
    ----------
    apply : callable
        ``apply(*values, **state)`` gives an array with a row per row: of one number, or of several for COLUMNS.
    fit : callable
        ``fit(*values, **options)`` gives what apply needs to treat new data as it treated those of the fit.
    options : mapping of str to str
        Names of the options in their order, and what each must be: "integer", "truth", "numbers", "label" or "coding".
    state : mapping of str to callable
        What fit returns, each with a test that an entry read from a file must pass.
    makes : {"number", "columns", "factor"}
    arguments : int
    texts : bool
        Whether values may be texts.
    """

    apply: Callable[..., Any]
    fit: Callable[..., Mapping[str, Any]] = lambda *values: {}
    options: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    makes: str = NUMBER
    arguments: int = 1
    texts: bool = False


# ---- what a stored state must be -----------------------------------------------------------------------------------------
def is_number(value: Any) -> bool:
    """Return whether a value read from a file is a finite number."""
    limit = 2**63 if isinstance(value, int) else 1e300
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < limit


def is_label(value: Any) -> bool:
    """Return whether a value read from a file can be a level."""
    return isinstance(value, (bool, str)) or is_number(value)


def _is_unit(value):
    return is_number(value) and value > 0


def _is_integer(low, high):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _are_numbers(value):
    return isinstance(value, list) and 0 < len(value) <= 4 * MAX_BASIS and all(map(is_number, value))


# ---- functions with a memory ---------------------------------------------------------------------------------------------
def _fit_center(x):
    return {"centre": float(np.mean(x))}


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
        return {"centres": [0.0] * degree, "norms": [1.0] * (degree + 1), "raw": True}
    before, now = np.zeros(x.shape), np.ones(x.shape)
    centres, norms = [], [float(len(x))]
    for k in range(degree):
        centres.append(float(x @ now**2 / norms[-1]))
        before, now = now, (x - centres[-1]) * now - (norms[-1] / norms[-2] if k else 0.0) * before
        norms.append(float(now @ now))
    return {"centres": centres, "norms": norms, "raw": False}


def _poly(x, centres, norms, raw):
    """Return orthonormal polynomials by their recurrence, or powers."""
    if raw:
        return x[:, None] ** np.arange(1, len(centres) + 1)
    before, now, out = np.zeros(x.shape), np.ones(x.shape), []
    for k, centre in enumerate(centres):
        before, now = now, (x - centre) * now - (norms[k] / norms[k - 1] if k else 0.0) * before
        out.append(now / math.sqrt(norms[k + 1]))
    return np.stack(out, axis=1)


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


_NUMBERS = {
    name: Function(getattr(np, name))
    for name in ("abs", "ceil", "cos", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "sin", "sqrt")
}
_ROUND = Function(
    np.round, lambda x, digits=0: {"decimals": digits}, {"digits": "integer"}, {"decimals": _is_integer(-300, 300)}
)
_SCALE = Function(lambda x, centre, unit: (x - centre) / unit, _fit_scale, state={"centre": is_number, "unit": _is_unit})
_BINARY = Function(
    lambda x, success: _equal(x, success), _fit_binary, {"success": "label"}, {"success": is_label}, texts=True
)
#: Functions by the name that a formula writes; those of NumPy may be written np.log(x) as well.
FUNCTIONS: dict[str, Function] = {
    **_NUMBERS,
    **{f"np.{name}": function for name, function in _NUMBERS.items()},
    "round": _ROUND,
    "np.round": _ROUND,
    "I": Function(lambda x: x),
    "center": Function(lambda x, centre: x - centre, _fit_center, state={"centre": is_number}),
    "scale": _SCALE,
    "standardize": _SCALE,
    "binary": _BINARY,
    "B": _BINARY,
    "poly": Function(
        _poly,
        _fit_poly,
        {"degree": "integer", "raw": "truth"},
        {"centres": _are_numbers, "norms": lambda v: _are_numbers(v) and min(v) > 0, "raw": lambda v: isinstance(v, bool)},
        COLUMNS,
    ),
    "bs": Function(
        _bs,
        _fit_bs,
        {"df": "integer", "knots": "numbers", "degree": "integer"},
        {"degree": _is_integer(1, MAX_DEGREE), "knots": lambda v: _are_numbers(v) and sorted(v) == v and v[0] < v[-1]},
        COLUMNS,
    ),
    "C": Function(lambda x: x, options={"contrast": "coding"}, makes=FACTOR, texts=True),
    "T": Function(lambda x: x, options={"ref": "label"}, makes=FACTOR, texts=True),
    "S": Function(lambda x: x, options={"omit": "label"}, makes=FACTOR, texts=True),
}
#: Operators by their sign; "neg" is the sign before a number.
OPERATORS: dict[str, Function] = {
    "neg": Function(np.negative),
    "+": Function(np.add, lambda x, y: {}, arguments=2),
    "-": Function(np.subtract, lambda x, y: {}, arguments=2),
    "*": Function(np.multiply, lambda x, y: {}, arguments=2),
    "/": Function(np.divide, lambda x, y: {}, arguments=2),
    "**": Function(np.power, lambda x, y: {}, arguments=2),
    "<": Function(np.less, lambda x, y: {}, arguments=2),
    "<=": Function(np.less_equal, lambda x, y: {}, arguments=2),
    ">": Function(np.greater, lambda x, y: {}, arguments=2),
    ">=": Function(np.greater_equal, lambda x, y: {}, arguments=2),
    "==": Function(lambda x, y: x == y, lambda x, y: {}, arguments=2, texts=True),
    "!=": Function(lambda x, y: x != y, lambda x, y: {}, arguments=2, texts=True),
}
TABLE: dict[str, Function] = FUNCTIONS | OPERATORS
#: What a refusal lists.
NAMES: tuple[str, ...] = tuple(sorted((name for name in FUNCTIONS if "." not in name and name != "B"), key=str.lower))
