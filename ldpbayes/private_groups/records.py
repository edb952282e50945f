"""Records of a private answer beside an open measurement: from a frame to values, distinct likelihood rows and cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.checks import LARGEST
from ldpbayes.collections.data import value_in_words
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.sources.base import check_column, sorted_keys
from ldpbayes.sources.channels import find_channels
from ldpbayes.sources.encode import Format, encoded_key
from ldpbayes.sources.encode import cells as grouped
from ldpbayes.sources.frames import arrow_of, eager
from ldpbayes.sources.opening import open_source
from ldpbayes.sources.parameters import labels_of
from ldpbayes.sources.records import entries_of, numbers_of, report_columns, sent, weights_of
from ldpbayes.sources.tally import TableColumns


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
    weight : (n,) array
        Survey weights; ones without.
    cell : (n,) int array
        The combination of open covariates of each record.
    cells : tuple of tuple
        Keys of these combinations.
    by : tuple of str
        Names of the covariates.
    groups : tuple of str
        Labels of the private groups.
    design : str
        How the reports were made, in words.
    """

    value: np.ndarray
    levels: tuple[str, ...] | None
    kind: np.ndarray
    table: np.ndarray
    decode: np.ndarray | None
    weight: np.ndarray
    cell: np.ndarray
    cells: tuple[tuple, ...]
    by: tuple[str, ...]
    groups: tuple[str, ...]
    design: str = ""

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.value)

    def take(self, chosen: np.ndarray) -> "Records":
        """Return some of the records, and the cells that have any."""
        cells, cell = np.unique(self.cell[chosen], return_inverse=True)
        columns = {name: getattr(self, name)[chosen] for name in ("value", "kind", "weight")}
        return replace(self, cell=cell, cells=tuple(self.cells[c] for c in cells), **columns)


def read_records(
    data: Any,
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
    data : data frame
    value : str
        The column of the open value: numbers, or texts and booleans for an open category.
    report, protocol, categories, epsilon, rate
        As in ``ldpbayes.read``. With a rate the categories are those that were reported where they are not named.
    by : str or sequence of str, optional
        TableColumns of open covariates.
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
    frame = eager(data)
    names = [str(name) for name in frame.columns]
    columns = checks.columns(report, "report")
    covariates = checks.columns(by, "by") or ()
    wanted = [(value, "value"), (weights, "weights"), (epsilon, "epsilon_column"), (rate, "rate_column")]
    wanted += [(name, "report") for name in columns or ()] + [(name, "by") for name in covariates]
    for name, what in wanted:
        if name is not None:
            check_column(names, name, "the frame ", f" for {what}")
    if not len(frame):
        raise DataError("the frame has no rows")
    labels = labels_of(categories)
    if rate is not None and labels is None and protocol is None:
        labels = _reported(frame, columns, names)
    source = open_source(frame.to_native())
    channels = find_channels(source, protocol, TableColumns(columns), categories=labels, epsilon=epsilon, rate=rate)
    *_, columns = (report_columns(mechanism, columns, names) for mechanism in channels.protocols)
    for name in (value, *covariates):
        if name in columns or (value, *covariates).count(name) > 1:
            raise ArgumentError(
                f"value and by must name open columns, each once and none of them of the report, got {shown(name)}."
            )
    table = arrow_of(frame, [value, *columns, *covariates, *channels.columns, *([] if weights is None else [weights])])
    try:
        values, levels = _values(table, value)
        weight = np.ones(table.num_rows) if weights is None else weights_of(table, weights)
        cell, cells = _cells(table, covariates)
        kind, rows, decode = _kinds(table, columns, channels, categories is not None or rate is not None)
    except DataError as err:  # the row of a table that nobody sees
        raise DataError(err.message, field=err.field) from None
    records = Records(
        values, levels, kind, rows, decode, weight, cell, cells, covariates, tuple(channels.labels), _design(channels)
    )
    return records if weight.all() else records.take(weight > 0)


def _design(channels):
    """Return how reports were made, in words: the device with its parameters, or how many devices there are."""
    names = dict.fromkeys(protocol.design.replace("_", " ") for protocol in channels.protocols)
    if len(channels.protocols) > 1:
        return f"{len(channels.protocols):,} channels of {listed(names)}"
    parameters = channels.protocols[0].parameters().items()
    settings = ", ".join(f"{name} = {value_in_words(x)}" for name, x in parameters if name != "n_categories")
    return next(iter(names)) + (f" ({settings})" if settings else "")


def _reported(frame, columns, names):
    """Return the distinct labels of the one column of reports, in order."""
    column, *others = columns or ["report"]
    if others:
        raise ArgumentError(f"report must name one column where rates are given, got {1 + len(others)}.")
    check_column(names, column, "the frame ", " for report")
    texts = entries_of(arrow_of(frame[column].unique().to_frame(), [column]), column)[1]
    labels = sorted({text.strip() for text in texts})
    if len(labels) < 2:
        raise DataError(f"holds one report only, {listed(labels)}; name the categories", field=column)
    return tuple(labels)


def _values(table, name):
    """Return (values, labels): numbers and None, or places and the labels of an open category."""
    import pyarrow as pa

    values = numbers_of(table, name)
    if values is not None:
        if np.isnan(values).any():
            raise DataError("holds missing values; leave those rows out", field=name)
        if not np.isfinite(values).all():
            raise DataError("must hold finite numbers", field=name)
        if np.abs(values).max() > LARGEST:  # squares of larger ones are no longer finite
            raise DataError(f"must hold numbers of at most {LARGEST:g} in size", field=name)
        return values, None
    kind = table.schema.field(name).type
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        raise DataError(f"must hold numbers, or texts for an open category, got {kind}", field=name)
    codes, texts = entries_of(table, name)
    order = [key for (key,) in sorted_keys({(texts[code],) for code in np.unique(codes).tolist()})]
    place = {text: i for i, text in enumerate(order)}
    return np.array([place.get(text, -1) for text in texts])[codes], tuple(order)


def _cells(table, covariates):
    """Return (cell of each row, keys of the cells)."""
    keys, _, cell = grouped([encoded_key(table, name) for name in covariates], table.num_rows)
    order = sorted_keys(keys)
    place = {key: i for i, key in enumerate(order)}
    return np.array([place[key] for key in keys])[cell], tuple(order)


def _kinds(table, columns, channels, named):
    """Return (kind of each row, likelihood rows, unbiased weights or None).

    Reports of one kind have proportional likelihood rows and the same weights. Proportional rows alone do not make a kind:
    the empty and the full set say the same of the groups, and count 0 and all of them.
    """
    place = channels.places(table)
    formats = [Format(protocol, columns, channels.labels, named, channels.positions) for protocol in channels.protocols]
    code, tables, decoded, at = np.empty_like(place), [], [], 0
    for group in sent(table, formats, place):
        code[group.rows] = at + group.code
        at += len(group.reports)
        dense = group.likelihood.dense()
        tables.append(dense / dense.max(axis=1, keepdims=True))
        decoded.append(_decoded(formats[group.place].protocol.decoder(), group.likelihood))
    rows, decode = np.concatenate(tables), None if any(scores is None for scores in decoded) else np.concatenate(decoded)
    whole = rows if decode is None else np.hstack([rows, decode / np.abs(decode).max()])
    _, where, kind = np.unique(whole.round(12), axis=0, return_index=True, return_inverse=True)
    return np.ravel(kind)[code], rows[where], None if decode is None else decode[where]


def _decoded(decoder, rows):
    """Return what each report adds to the unbiased estimates of all groups, (m, k), or None where there is no such thing."""
    if decoder is None or decoder.rank < rows.n_categories:
        return None
    columns = [decoder.scores(rows, unit) for unit in np.eye(rows.n_categories)]
    return None if any(column is None for column in columns) else np.stack(columns, axis=1)
