"""Columns of a batch of rows, as Arrow holds them: cells, and reports with the rows that they come from."""

from __future__ import annotations

import math

import numpy as np

from ldpbayes.errors import DataError
from ldpbayes.sources import keys as plain
from ldpbayes.sources.base import check_column, optional
from ldpbayes.sources.frame import arrow_column

#: Most entries of a table of codes that is counted without sorting.
MOST_CODES = 2**22


def column(batch, name):
    """Return a column of a batch as one Arrow array without missing entries.

    Raises
    ------
    DataError
        Where the column is missing, or an entry of it, with its row as ``line``.
    """
    pa = optional("pyarrow", "Scanning reports")
    check_column(batch.schema.names, name)
    array = batch.column(name)
    if isinstance(array, pa.ChunkedArray):
        array = _whole(pa, array)
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):  # of these Arrow takes no rows
        array = array.cast(pa.string() if pa.types.is_string_view(array.type) else pa.binary())
    if array.null_count:
        row = int(np.flatnonzero(~array.is_valid().to_numpy(zero_copy_only=False))[0])
        raise DataError("holds missing values", line=row, field=name)
    return array


def _whole(pa, chunked):
    """Return the one array of a chunked one; the usual single chunk is not copied."""
    if chunked.num_chunks == 1:
        return chunked.chunk(0)
    if pa.types.is_dictionary(chunked.type):
        chunked = chunked.unify_dictionaries()
    whole = chunked.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def encoded(array, name):
    """Return (codes, the distinct values as an Arrow array) of a column of texts, numbers, booleans, dates or bytes.

    Some of the values may not occur. Returns None for lists, which have no codes.
    """
    pa = optional("pyarrow", "Scanning reports")
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return None
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).to_numpy(), pa.array([False, True])
    if pa.types.is_integer(kind) and kind != pa.uint64():
        values = array.to_numpy()
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if high - low < 2**16:
            # Where the values are small their type holds the codes too.
            codes = values if low == 0 else values.astype(np.int64) - low
            return codes, pa.array(np.arange(low, high + 1), type=kind)
    if pa.types.is_nested(kind):
        raise DataError(f"holds {kind}, which is not read; use texts, numbers, bytes or lists", field=name)
    if not pa.types.is_dictionary(kind):
        array = array.dictionary_encode()
    if array.dictionary.null_count:
        bad = int(np.flatnonzero(~array.dictionary.is_valid().to_numpy(zero_copy_only=False))[0])
        rows = np.flatnonzero(array.indices.to_numpy() == bad)
        if rows.size:
            raise DataError("holds missing values", line=int(rows[0]), field=name)
    return array.indices.to_numpy(), array.dictionary


def crossed(parts):
    """Return (codes of the rows, number of codes) of columns of (codes, number of values); no columns are one code.

    Where the products of the numbers grow large, codes are renumbered on the way.
    """
    if not parts:
        return None, 1
    code, size = parts[0]
    for codes, n in parts[1:]:
        if size * n > MOST_CODES:
            seen, code = np.unique(code, return_inverse=True)
            size = len(seen)
        code = code.astype(np.int64)
        code *= n
        code += codes
        size *= n
    return code, size


def present(code, size, n_rows):
    """Return (codes that occur, how often, the place of each row among them or None where all is one code)."""
    if code is None:
        return np.zeros(1, dtype=np.int64), np.array([n_rows]), None
    if size > MOST_CODES:
        seen, place, counts = np.unique(code, return_inverse=True, return_counts=True)
        return seen, counts, place
    counts = np.bincount(code, minlength=size)
    seen = np.flatnonzero(counts)
    if len(seen) == size:
        return seen, counts, code
    place = np.empty(size, dtype=np.int64)
    place[seen] = np.arange(len(seen))
    return seen, counts[seen], place[code]


def cells(batch, by):
    """Return (keys of the cells of a batch, number of rows of each, the place of each row's cell or None for one cell)."""
    columns = [encoded_key(batch, name) for name in by]
    code, size = crossed([(codes, len(values)) for codes, values in columns])
    n_rows = batch.num_rows
    if size > MOST_CODES or len(by) > 1:
        seen, counts, place = present(code, size, n_rows)
        first = first_rows(place, len(seen), n_rows)
        keys = list(zip(*([values[i] for i in codes[first].tolist()] for codes, values in columns), strict=True))
        return keys, counts, place
    seen, counts, place = present(code, size, n_rows)
    values = columns[0][1] if columns else None
    return [(values[i],) if columns else () for i in seen.tolist()], counts, place


def encoded_key(batch, name):
    """Return (codes, list of the distinct values) of a grouping column; None is a value that does not occur."""
    found = encoded(column(batch, name), name)
    if found is None:
        raise DataError("must hold texts, numbers or dates, got lists", field=name)
    codes, values = plain.unique_codes(found[0], plain.plain_keys(found[1], name))
    if None in values:
        rows = np.flatnonzero(codes == values.index(None))
        if rows.size:
            raise DataError("holds missing values", line=int(rows[0]), field=name)
    return codes, values


def first_rows(place, n, n_rows):
    """Return the first row of each of n groups."""
    if place is None:
        return np.zeros(1, dtype=np.int64)
    first = np.full(n, n_rows, dtype=np.int64)
    first[place[::-1]] = np.arange(n_rows - 1, -1, -1)
    return first


def reports(protocol, batch, names, labels, labelled):
    """Return the canonical reports of all rows of a batch.

    Raises
    ------
    DataError
        With the row of a bad report as ``line``.
    """
    if len(names) != len(protocol.report_fields):
        return _from_numbers(protocol, batch, names)
    columns = [arrow_column(column(batch, name), name, labelled) for name in names]
    try:
        return protocol.parse_reports(columns, labels)
    except DataError as err:
        raise _at_column(err, protocol, names) from None


def _from_numbers(protocol, batch, names):
    """Return sets whose bytes, or whose zeros and ones, stand in separate columns."""
    pa = optional("pyarrow", "Scanning reports")
    a, table = protocol.n_categories, np.empty((batch.num_rows, len(names)), dtype=np.uint8)
    most = 255 if len(names) < a else 1
    for i, name in enumerate(names):
        array = column(batch, name)
        kind = array.type
        if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise DataError(f"holds {kind}; a column of several that make a set holds whole numbers", field=name)
        values = (array.cast(pa.uint8()) if pa.types.is_boolean(kind) else array).to_numpy()
        bad = np.flatnonzero((values < 0) | (values > most))
        if bad.size:
            raise DataError(f"must hold whole numbers from 0 to {most}, got {values[bad[0]]}", line=int(bad[0]), field=name)
        table[:, i] = values
    return protocol.check_reports(table)


def distinct_reports(protocol, batch, by, names, labels, labelled, weights=None):
    """Return (keys of the cells, cell of each distinct report of a batch, canonical reports, counts).

    Only distinct reports are parsed.

    Parameters
    ----------
    protocol : AbstractProtocol
    batch : pyarrow.Table
    by, names : sequences of str
        Grouping columns, and those of one report.
    labels : sequence of str
    labelled : bool
        Whether the caller named the categories.
    weights : (m,) int array, optional
        How many users each row stands for.
    """
    columns = [encoded(column(batch, name), name) for name in names]
    if any(found is None for found in columns) or len(names) != len(protocol.report_fields):
        keys, _, group = cells(batch, by)
        parsed = reports(protocol, batch, names, labels, labelled)
        ones = np.ones(batch.num_rows, dtype=np.int64) if weights is None else weights
        return keys, np.zeros(len(parsed), dtype=np.int64) if group is None else group.astype(np.int64), parsed, ones
    grouping = [encoded_key(batch, name) for name in by]
    parts = [(codes, len(values)) for codes, values in (*grouping, *columns)]
    code, size = crossed(parts)
    first = None
    if math.prod(n for _, n in parts) == size <= MOST_CODES:  # codes tell all values: no row is looked at again
        counts = np.bincount(code, minlength=size)
        seen = np.flatnonzero(counts)
        counts = counts[seen] if weights is None else _weighed(code, weights, size)[seen]
        indices = np.unravel_index(seen, [n for _, n in parts])
    else:
        seen, first, place, counts = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        counts = counts if weights is None else _weighed(place, weights, len(seen))
        indices = [codes[first] for codes, _ in parts]
    keys, group = _cells_of(grouping, indices[: len(by)], len(seen))
    taken = [
        arrow_column(values.take(_indices(index)), name, labelled)
        for (_, values), index, name in zip(columns, indices[len(by) :], names, strict=True)
    ]
    try:
        return keys, group, protocol.parse_reports(taken, labels), counts.astype(np.int64)
    except DataError as err:
        if err.line is not None:
            row = int(np.argmax(code == seen[err.line])) if first is None else int(first[err.line])
            err = DataError(err.message, line=row, field=err.field)
        raise _at_column(err, protocol, names) from None


def _cells_of(grouping, indices, n):
    """Return (distinct keys, the place of each of n entries among them) of grouping columns."""
    if not grouping:
        return [()], np.zeros(n, dtype=np.int64)
    code, _ = crossed([(index, len(values)) for index, (_, values) in zip(indices, grouping, strict=True)])
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    columns = zip(indices, grouping, strict=True)
    keys = zip(*([values[i] for i in index[first].tolist()] for index, (_, values) in columns), strict=True)
    return list(keys), place.astype(np.int64)


def _weighed(places, weights, n):
    out = np.zeros(n, dtype=np.int64)
    np.add.at(out, places, weights)
    return out


def _indices(index):
    pa = optional("pyarrow", "Scanning reports")
    return pa.array(np.asarray(index, dtype=np.int64))


def _at_column(err, protocol, names):
    """Return an error of a protocol with the name of the table's column."""
    columns = dict(zip(protocol.report_fields, names, strict=True))
    return DataError(err.message, line=err.line, field=columns.get(err.field, names[0]))
