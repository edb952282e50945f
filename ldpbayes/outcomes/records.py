"""Records of a private answer beside an open measurement: from a frame to values, distinct likelihood rows and cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, listed, shown
from ldpbayes.sources.base import check_column, sorted_keys
from ldpbayes.sources.channels import find_channels, labels_of
from ldpbayes.sources.encode import Format
from ldpbayes.sources.frames import arrow_of, eager
from ldpbayes.sources.stream import open_source

#: Distinct likelihood rows × groups, at most.
MAX_ENTRIES = 2**24
#: Largest size of an open value.
LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class Records:
    """Records with an open value each and a private group that is seen through a report only.

    Attributes
    ----------
    value : (n,) array
        The open value; for an open category the place of its label.
    levels : tuple of str or None
        Labels of an open categorical outcome; None for a number.
    kind : (n,) int array
        The likelihood row of each record.
    table : (J, k) array
        Likelihood rows, each scaled so that its largest entry is one: P(report | group x) ∝ table[kind, x].
    decode : (J, k) array or None
        Unbiased weights: E[decode[kind, x]] = 1 where x is the record's group and else 0. None where the reports do not
        identify the groups.
    weight : (n,) array or None
        Survey weights.
    cell : (n,) int array
        The combination of open covariates of each record.
    cells : tuple of tuple
        Keys of these combinations.
    by : tuple of str
        Names of the covariates.
    groups : tuple of str
        Labels of the private groups.
    """

    value: np.ndarray
    levels: tuple[str, ...] | None
    kind: np.ndarray
    table: np.ndarray
    decode: np.ndarray | None
    weight: np.ndarray | None
    cell: np.ndarray
    cells: tuple[tuple, ...]
    by: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.value)

    def take(self, chosen: np.ndarray) -> "Records":
        """Return some of the records."""
        weight = None if self.weight is None else self.weight[chosen]
        parts = {"value": self.value[chosen], "kind": self.kind[chosen], "weight": weight, "cell": self.cell[chosen]}
        return replace(self, **parts)


def read_records(
    frame: Any,
    value: str,
    report: str | Sequence[str] | None = None,
    protocol: Any = None,
    *,
    categories: Sequence[str] | None = None,
    epsilon: str | None = None,
    rate: str | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
) -> Records:
    """Return the Records of a data frame.

    Parameters
    ----------
    frame : data frame
    value : str
        The column of the open value: numbers, or texts and booleans for an open category.
    report, protocol, categories, epsilon, rate
        As in ``ldpbayes.read``. With a rate the categories are those that were reported where they are not named.
    by : str or sequence of str, optional
        Columns of open covariates.
    weights : str, optional
        Column of survey weights.

    Returns
    -------
    Records

    Raises
    ------
    ArgumentError
        On a protocol that is none, or the wrong number of columns.
    DataError
        On missing columns and entries, rates outside [0, 1], unknown reports and negative weights.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"value must be the name of a column, got {shown(value)}.")
    epsilon, rate = checks.column(epsilon, "epsilon_column"), checks.column(rate, "rate_column")
    weights = checks.column(weights, "weights")
    table = eager(frame)
    names = [str(name) for name in table.columns]
    columns = checks.columns(report, "report")
    covariates = checks.columns(by, "by") or ()
    wanted = [(value, "value"), (weights, "weights"), (epsilon, "epsilon_column"), (rate, "rate_column")]
    wanted += [(name, "report") for name in columns or ()] + [(name, "by") for name in covariates]
    for name, what in wanted:
        if name is not None:
            check_column(names, name, "the frame ", f" for {what}")
    if not len(table):
        raise DataError("the frame has no rows")
    labels = labels_of(categories)
    if rate is not None and labels is None and protocol is None:
        labels = _reported(table, columns, names)
    source = open_source(table.to_native())
    channels = find_channels(source, protocol, categories=labels, report=columns or (), epsilon=epsilon, rate=rate)
    first = channels.protocols[0]
    labels = channels.categories or tuple(str(x) for x in range(first.n_categories))
    columns = _columns(channels.protocols, columns, names)
    for name in covariates:
        if name == value or name in columns or covariates.count(name) > 1:
            raise ArgumentError(
                f"by must name open covariates, each once and other than the value and the report, got {shown(name)}."
            )
    values, levels = _values(table[value], value)
    weight = None if weights is None else _weights(table[weights], weights)
    cell, cells = _cells(table, covariates)
    place = np.zeros(len(table), dtype=np.int64)
    if channels.level is not None:
        column, places = channels.level
        code, distinct = _codes(table[column], column)
        texts = [str(entry).strip() for entry in table[column].to_numpy()[distinct].tolist()]
        place = np.array([places[text] for text in texts], dtype=np.int64)[code]
    named = categories is not None or rate is not None
    kind, rows, decode = _kinds(table, columns, channels, place, labels, named)
    records = Records(values, levels, kind, rows, decode, weight, cell, cells, covariates, tuple(labels))
    if weight is not None and (weight == 0).any():
        records = records.take(weight > 0)
    return records


def _reported(table, columns, names):
    """Return the distinct labels of the one column of reports, in order."""
    (column,) = columns or ["report"]
    check_column(names, column, "the frame ", " for report")
    series = table[column]
    if series.null_count():
        raise DataError("holds missing values", field=column)
    found = sorted({str(entry).strip() for entry in series.unique().to_list()})
    if len(found) < 2:
        raise DataError(f"holds one report only, {listed(found)}; name the categories", field=column)
    return tuple(found)


def _columns(protocols, columns, names):
    """Return the columns of one report."""
    fields = list(protocols[0].report_fields)
    if columns is None:
        if not all(name in names for name in fields):
            raise ArgumentError(f"report must name the column of reports ({', '.join(fields)}), got none.")
        return fields
    if any(len(one.report_fields) != len(columns) for one in protocols):
        raise ArgumentError(f"report must name {len(fields)} columns ({', '.join(fields)}), got {len(columns)}.")
    return columns


def _values(series, name):
    """Return (values, labels): numbers and None, or places and the labels of an open category."""
    if series.null_count():
        raise DataError("holds missing values; leave those rows out", field=name)
    if series.dtype.is_numeric():
        values = series.to_numpy().astype(float)
        if np.isnan(values).any():
            raise DataError("holds missing values; leave those rows out", field=name)
        if not np.isfinite(values).all():
            raise DataError("must hold finite numbers", field=name)
        if np.abs(values).max() > LARGEST:  # squares of larger ones are no longer finite
            raise DataError(f"must hold numbers of at most {LARGEST:g} in size", field=name)
        return values, None
    if str(series.dtype).split("(")[0] not in ("String", "Boolean", "Categorical", "Enum", "Object"):
        raise DataError(f"must hold numbers, or texts for an open category, got {series.dtype}", field=name)
    code, distinct = _codes(series, name)
    entries = np.asarray(series.to_numpy(), dtype=object)[distinct].tolist()
    if any(entry is None or entry != entry for entry in entries):
        raise DataError("holds missing values; leave those rows out", field=name)
    texts = [str(entry) for entry in entries]
    order = [key[0] for key in sorted_keys({(text,) for text in texts})]
    place = {text: i for i, text in enumerate(order)}
    return np.array([place[text] for text in texts])[code], tuple(order)


def _weights(series, name):
    """Return survey weights."""
    if series.null_count() or not series.dtype.is_numeric():
        raise DataError("must hold a number in every row", field=name)
    weight = series.to_numpy().astype(float)
    if not np.isfinite(weight).all():
        raise DataError("must hold finite numbers", field=name)
    if (weight < 0).any():
        raise DataError(f"weights must not be negative, got {weight.min():g}", field=name)
    if not weight.sum() > 0:
        raise DataError("no row has a weight above 0", field=name)
    return weight


def _cells(table, covariates):
    """Return (cell of each row, keys of the cells)."""
    code, keys = np.zeros(len(table), dtype=np.int64), [()]
    for name in covariates:
        series = table[name]
        if series.null_count():
            raise DataError("holds missing keys", field=name)
        own, distinct = _codes(series, name)
        entries = np.asarray(series.to_numpy(), dtype=object)[distinct].tolist()
        if any(entry != entry for entry in entries):
            raise DataError("holds missing keys", field=name)
        pair = code * len(entries) + own
        found, code = np.unique(pair, return_inverse=True)
        keys = [(*keys[one // len(entries)], entries[one % len(entries)]) for one in found.tolist()]
    order = sorted_keys(keys)
    place = {key: i for i, key in enumerate(order)}
    return np.array([place[key] for key in keys])[code], tuple(order)


def _codes(series, name):
    """Return (number of the distinct entry of each row, first row of each)."""
    if series.null_count():
        raise DataError("has missing entries", field=name)
    if series.dtype.is_numeric() or str(series.dtype) == "Boolean":
        _, first, code = np.unique(series.to_numpy(), return_index=True, return_inverse=True)
        return code, first
    found: dict = {}
    try:
        code = np.fromiter((found.setdefault(entry, len(found)) for entry in series.to_list()), dtype=np.int64)
    except TypeError:  # lists and arrays: every row is parsed
        return np.arange(len(series)), np.arange(len(series))
    first = np.empty(len(found), dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first


def _kinds(table, columns, channels, place, labels, named):
    """Return (kind of each row, likelihood rows, unbiased weights or None).

    Reports of one kind have proportional likelihood rows and the same weights. Proportional rows alone do not make a kind:
    the empty and the full set say the same of the groups, and count 0 and all of them.
    """
    code = place
    for name in columns:
        if table[name].null_count():
            raise DataError("holds missing values", field=name)
        own, _ = _codes(table[name], name)
        pair = code * (int(own.max()) + 1) + own
        _, first, code = np.unique(pair, return_index=True, return_inverse=True)
    level = place[first]
    rows = np.zeros((len(first), len(labels)))
    decode: np.ndarray | None = np.zeros_like(rows)
    if rows.size > MAX_ENTRIES:
        raise InfeasibleError(
            f"The reports have {len(first):,} × {len(labels):,} likelihood entries, more than {MAX_ENTRIES:,}; use a "
            "protocol with fewer possible reports or fewer categories."
        )
    part = table.select(columns)
    for i, protocol in enumerate(channels.protocols):
        chosen = np.flatnonzero(level == i)
        if not chosen.size:
            continue
        reports = _parsed(part[first[chosen].tolist()], protocol, columns, labels, named and not channels.positions)
        likelihood = protocol.rows(reports, np.ones(len(reports)))
        if likelihood.n_rows != len(reports):
            raise InfeasibleError("Groups need whole reports; these reports are taken apart into bits.")
        dense = likelihood.dense()
        rows[chosen] = dense / dense.max(axis=1, keepdims=True)
        if decode is not None:
            found = _decoded(protocol.decoder(), likelihood)
            decode = None if found is None else decode
            if decode is not None:
                decode[chosen] = found
    whole = rows if decode is None else np.hstack([rows, decode / np.abs(decode).max()])
    _, where, own = np.unique(whole.round(12), axis=0, return_index=True, return_inverse=True)
    return np.ravel(own)[code], rows[where], None if decode is None else decode[where]


def _decoded(decoder, rows):
    """Return what each report adds to the unbiased estimates of all groups, (m, k), or None where there is no such thing."""
    if decoder is None or decoder.rank < rows.n_categories:
        return None
    columns = [decoder.scores(rows, unit) for unit in np.eye(rows.n_categories)]
    return None if any(one is None for one in columns) else np.stack(columns, axis=1)


def _parsed(part, protocol, columns, labels, named):
    """Return the reports of distinct rows, in their order, as the protocol makes them."""
    try:
        return Format(protocol, tuple(columns), list(labels), named).rows(arrow_of(part, columns))
    except DataError as err:  # the rows are distinct ones, in another order
        raise DataError(err.message, field=err.field) from None
