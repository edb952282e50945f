"""A private answer as a predictor in a PyMC model: the likelihood of an open value with the private category summed out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.basic import Variable
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from ldpbayes import checks
from ldpbayes.collections.tensor import as_tensor, check_dims, check_order, variable_name
from ldpbayes.compiling import give_pytensor_a_folder, model_data
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.private_groups.records import read_records
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.sources.records import likelihood_rows

_DISTRIBUTIONS = (RandomVariable, SymbolicRandomVariable)

give_pytensor_a_folder()


def observe_mixture(
    name: str,
    value: Any,
    components: Sequence,
    p: Any,
    data: Any,
    *,
    report: str | Sequence[str] | None = None,
    protocol: Any = None,
    epsilon_column: str | None = None,
    rate_column: str | None = None,
    categories: Sequence[str] | None = None,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Add records of an open value z beside a privatized category x to the PyMC model on the context stack.

    The category is summed out of each record: with report y, open covariates w and the model's unknowns θ,

        f(y, z | w, θ) = Σ_x p_x(w) L_yx f_x(z; w, θ),

    where L_yx = P(report y | x) under the protocol of the record and f_x is the distribution of z in category x. The sum is
    formed on the log scale. A regression of z on a private answer states one component for each category.

    Parameters
    ----------
    name : str
        Of the observed variable.
    value : (n,) or (n, d) array, or str
        The open values; with a data frame the name of their column.
    components : sequence of distributions
        One for each category, from PyMC's ``.dist``: ``pm.LogNormal.dist(mu[x] + w @ b, sigma[x])``. Parameters are scalars
        or have one entry per record.
    p : (a,) or (n, a) tensor
        The distribution of the private category, for everybody or for each record. Where its dims have coords with the
        labels of a frame's categories, they stand in the order of ``categories``: by default that of the alphabet.
    data : (protocol, reports), (n, a) array or data frame
        The reports in the order of the records: a protocol with reports as it makes them; the likelihood of each record's
        report given each category, up to a factor per record; or a frame whose columns the keywords name, with one channel
        for each protocol, ε or rate in it.
    report, protocol, epsilon_column, rate_column, categories
        Of a data frame only, as for ``read``.
    dims : str or sequence of str, optional
        Names of the dimensions of the open values.

    Returns
    -------
    TensorVariable
        The observed variable. Its log-likelihood has one entry per record, log f(y, z). Its predictions are open values
        of people who sent these reports.

    Raises
    ------
    ArgumentError
        Where the numbers of records, categories and components do not fit together, coords have the labels of the
        categories in another order, or a component is no distribution.
    DataError
        On values that are not whole beside discrete components, and values or likelihoods that are missing or not finite.

    Notes
    -----
    The likelihood rows enter as ``pm.Data`` named ``{name}_likelihood`` (on the log scale, one row for each distinct
    report) and ``{name}_row`` (the row of each record). See docs/theory/private-predictor.md.

    Examples
    --------
    Durations of page loads, whose confidence was reported through randomized response:

    >>> import numpy as np
    >>> import pymc as pm
    >>> from ldpbayes import GRR
    >>> from ldpbayes.pymc import observe_mixture
    >>> durations, reports = np.array([812.5, 2301.0, 640.0]), np.array([0, 1, 0])
    >>> with pm.Model(coords={"confidence": ["high", "low"]}) as model:
    ...     share = pm.Dirichlet("share", np.ones(2), dims="confidence")
    ...     centre = pm.Normal("centre", 7, 1, dims="confidence")
    ...     spread = pm.HalfNormal("spread", 1)
    ...     parts = [pm.LogNormal.dist(centre[x], spread) for x in range(2)]
    ...     _ = observe_mixture("duration", durations, parts, share, (GRR(2, epsilon=1.1), reports))
    >>> [variable.name for variable in model.observed_RVs]
    ['duration']
    """
    name = variable_name(name, "observe_mixture")
    dims = checks.columns(dims, "dims")
    rows, code, value, labels = _likelihood(data, value, report, protocol, epsilon_column, rate_column, categories)
    n_categories = rows.shape[1]
    parts = _components(components, n_categories)
    value = _values(value, len(code), parts[0].dtype)
    given, p = p, as_tensor(p)
    if p.type.ndim not in (1, 2) or p.type.shape[-1] not in (None, n_categories):
        raise ArgumentError(f"p must have one entry per category ({n_categories}), got shape {p.type.shape}.")
    if p.type.ndim == 2 and p.type.shape[0] not in (None, 1, len(code)):
        raise ArgumentError(f"p must have one row for each of the {len(code)} records, got shape {p.type.shape}.")
    support = parts[0].owner.op.ndim_supp
    if value.ndim != 1 + support:
        raise ArgumentError(f"value must have {1 + support} dimensions for these components, got shape {value.shape}.")
    check_order(given, None, ((), labels)[-p.type.ndim :])
    if dims is not None:
        check_dims(dims, value.shape)
    place = model_data(f"{name}_row", code)
    logs = model_data(f"{name}_likelihood", rows)[place]
    size = (place.shape[0],)  # a component with scalar parameters is drawn once for each record
    sized = [change_dist_size(part, size) for part in parts]
    inside = "(d)" if support else "()"
    return pm.CustomDist(
        name,
        logs,
        p,
        *sized,
        logp=_logp,
        random=_draw,
        signature=f"(a),(a),{','.join([inside] * n_categories)}->{inside}",
        dtype=sized[0].dtype,
        observed=value,
        dims=dims,
        class_name="PrivateMixture",
    )


def _logp(value, logs, p, *components):
    """Return log Σ_x p_x L_yx f_x(z) of every record."""
    inside = pt.stack([pm.logp(part, value) for part in components], axis=-1)
    return pt.logsumexp(pt.log(p) + logs + inside, axis=-1)


def _draw(logs, p, *draws, rng=None, size=None):
    """Return open values given the reports: a category from P(x | y) ∝ p_x L_yx, then its component's draw."""
    ends = np.cumsum(np.exp(logs) * p, axis=-1)
    x = (rng.random(ends.shape[:-1])[..., None] * ends[..., -1:] > ends).sum(axis=-1)
    stacked = np.stack(np.broadcast_arrays(*draws), axis=-1)
    x = x.reshape(*x.shape, *[1] * (stacked.ndim - x.ndim))
    return np.take_along_axis(stacked, np.broadcast_to(x, (*stacked.shape[:-1], 1)), axis=-1)[..., 0]


def _likelihood(data, value, report, protocol, epsilon, rate, categories):
    """Return (log-likelihood rows of the distinct reports, row of each record, open values, labels of the categories)."""
    columns = (report, protocol, epsilon, rate, categories)
    if isinstance(data, tuple):
        _only_frames(columns)
        if len(data) != 2 or not isinstance(data[0], AbstractProtocol):
            raise ArgumentError(f"data must be (protocol, reports), likelihoods or a data frame, got {shown(data)}.")
        return *_rows_of(*data), value, ()
    if isinstance(data, (list, np.ndarray)):
        _only_frames(columns)
        return *_stated(data), value, ()
    if not isinstance(value, str):
        raise ArgumentError("value must be the name of a column where data is a data frame.")
    records = read_records(data, value, report, protocol, categories=categories, epsilon=epsilon, rate=rate)
    if records.levels is not None:
        raise DataError("must hold numbers", field=value)
    return _logs(records.table), records.kind, records.value, records.groups


def _only_frames(columns):
    if any(given is not None for given in columns):
        raise ArgumentError("report, protocol, categories and columns must be left out unless data is a data frame.")


def _rows_of(protocol, reports):
    """Return the rows of reports as a protocol makes them."""
    reports = protocol.check_reports(np.asarray(reports))
    flat = np.ascontiguousarray(reports).reshape(len(reports), -1)
    _, first, code = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    rows = likelihood_rows(protocol, reports[first])
    return _logs(rows.dense()) + rows.log_constants[:, None], code.reshape(-1)


def _stated(data):
    """Return the rows of likelihoods that the caller states."""
    try:
        rows = np.asarray(data, dtype=float)
    except (TypeError, ValueError):
        raise ArgumentError(f"data must hold numbers, a row for each record, got {shown(data)}.") from None
    if rows.ndim != 2:
        raise ArgumentError(f"data must have a row for each record and a column for each category, got shape {rows.shape}.")
    if not np.isfinite(rows).all() or (rows < 0).any() or not rows.max(axis=1, initial=0).all():
        raise DataError("likelihoods must be finite and not negative, and no row may be zero")
    distinct, code = np.unique(rows, axis=0, return_inverse=True)
    return _logs(distinct), code.reshape(-1)


def _logs(rows):
    """Return the logarithms of likelihood rows."""
    with np.errstate(divide="ignore"):
        return np.log(rows)


def _values(value, n, dtype):
    """Return the open values as an array with an entry per record, which PyMC casts to the components' dtype unharmed."""
    if isinstance(value, Variable):
        raise ArgumentError("value must be an array of numbers, got a tensor: name covariates that change pm.Data instead.")
    value = np.asarray(value)
    if value.ndim == 0 or len(value) != n or not n:
        raise ArgumentError(f"value must have an entry for each of the {n} records, got shape {value.shape}.")
    if value.dtype.kind not in "biuf":
        raise ArgumentError(f"value must hold numbers, got {value.dtype}.")
    if not np.isfinite(value).all():
        raise DataError("values must be finite; leave out records without one")
    if value.dtype.kind == "f" and np.dtype(dtype).kind != "f" and (value != np.round(value)).any():
        raise DataError("values must be whole numbers where the components are discrete")
    if value.dtype.kind == "i":  # of which PyMC keeps 32 bits
        return value.astype(np.uint64 if value.min() >= 0 else float)
    return value


def _components(components, n_categories):
    """Return the component distributions, one for each category."""
    parts = list(components) if isinstance(components, (list, tuple)) else [components]
    if len(parts) != n_categories:
        raise ArgumentError(
            f"components must have one distribution for each of the {n_categories} categories, got {len(parts)}."
        )
    for part in parts:
        if not isinstance(part, pt.TensorVariable) or not isinstance(part.owner and part.owner.op, _DISTRIBUTIONS):
            raise ArgumentError(f"components must be distributions such as pm.Normal.dist(mu, sigma), got {shown(part)}.")
        if part.name is not None:
            raise ArgumentError(f"components must be made with .dist and have no name, got the variable {part.name!r}.")
    if len({(part.owner.op.ndim_supp, part.dtype) for part in parts}) > 1:
        raise ArgumentError("components must be of one kind: all continuous or all discrete, of one number of dimensions.")
    return parts
