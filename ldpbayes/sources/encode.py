"""From Arrow tables to reports: cells, counts, conditions, and columns of reports as protocols take them."""

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.checks import MAX_COUNT
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.columns import Bytes, Integers, ListColumn
from ldpbayes.protocols.labels import Places
from ldpbayes.sources import keys as plain
from ldpbayes.sources.base import arrow_integers, arrow_kind, check_column, foreign, numpy_integers
from ldpbayes.sources.constants import MOST_CODES
from ldpbayes.sources.numbers import thousands

#: How bits may stand in bytes and texts, and every byte with its bits the other way round.
BIT_ORDERS = ("big", "little")
REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1).ravel()
#: Key of the metadata of a table whose cells are texts of a file, as those of CSV are.
TEXTS = b"ldpbayes.texts"
_NO_KEY = 'holds missing values; fill them in, or leave these rows out with bad_rows="skip"'
_NO_REPORT = "holds missing values; say missing='' to count who gave no answer"
_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")


def column(batch, name, missing=False, why="holds missing values"):
    """Return a column of a batch as one Arrow array, by default without missing entries, or the error that says why.

    Raises
    ------
    DataError
        Where the column is missing, or an entry of it, with its row as ``line``.
    """
    import pyarrow as pa

    check_column(batch.schema.names, name)
    array = batch.column(name)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:  # a code may stand for nothing
        array = array.dictionary_decode()
    # Of these types Arrow takes no rows, or codes them since version 22 alone.
    for odd, plain_one in (pa.string_view(), pa.string()), (pa.binary_view(), pa.binary()), (pa.float16(), pa.float64()):
        array = array.cast(plain_one) if array.type == odd else array
    if array.null_count and not missing:
        raise DataError(why, line=int(np.argmax(array.is_null().to_numpy(zero_copy_only=False))), field=name)
    return array


def unread(kind, name):
    """Return the error of a column of a type that no report and no group has."""
    return DataError(f"holds {kind}, which is not read; use texts, numbers, bytes or lists", field=name)


def encoded(array, name, missing=False):
    """Return (codes, the distinct values as an Arrow array) of a column of texts, numbers, booleans, dates or bytes.

    Some of the values may not occur. Returns None for lists, which have no codes.
    """
    import pyarrow as pa

    kind = array.type
    if arrow_kind(kind).startswith("lists"):
        return None
    if pa.types.is_boolean(kind) and not array.null_count:
        return numpy_integers(array.cast(pa.int8())), arrow_integers(np.arange(2)).cast(pa.bool_())
    if pa.types.is_integer(kind) and kind != pa.uint64() and not array.null_count:
        values = numpy_integers(array)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if high - low < 2**16:
            # Where the values are small their type holds the codes too.
            codes = values if low == 0 else values.astype(np.int64) - low
            return codes, arrow_integers(np.arange(low, high + 1).astype(values.dtype), kind)
    if pa.types.is_nested(kind):
        raise unread(kind, name)
    if not pa.types.is_dictionary(kind):
        try:
            array = array.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise unread(kind, name) from None
    elif len(array) > array.null_count and _largest(array.indices) >= len(array.dictionary):
        raise DataError("is damaged: it holds codes of no entry", field=name)
    if missing and array.null_count:
        codes = array.indices.cast(pa.int64()).fill_null(len(array.dictionary)).to_numpy()
        return codes, pa.concat_arrays([array.dictionary, pa.nulls(1, array.dictionary.type)])
    return array.indices.to_numpy() if array.null_count else numpy_integers(array.indices), array.dictionary


def _largest(codes):
    """Return the largest of some codes; those that are missing are none."""
    if not codes.null_count:
        return int(numpy_integers(codes).max())
    from pyarrow import compute

    return compute.max(codes).as_py()


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


def cells(grouping, n_rows):
    """Return (keys of the cells, number of rows of each, the cell of each row) of encoded grouping columns."""
    if not grouping:
        return [()], np.array([n_rows]), np.zeros(n_rows, dtype=np.int64)
    code, size = crossed([(codes, len(values)) for codes, values in grouping])
    if size > MOST_CODES:
        seen, place, counts = np.unique(code, return_inverse=True, return_counts=True)
    else:
        counts = np.bincount(code, minlength=size)
        seen, place = np.flatnonzero(counts), code
        if len(seen) < size:
            place, counts = (np.cumsum(counts > 0) - 1)[code], counts[seen]
    if len(grouping) == 1:
        return [(grouping[0][1][i],) for i in seen.tolist()], counts, place
    first = np.empty(len(seen), dtype=np.int64)
    first[place[::-1]] = np.arange(n_rows - 1, -1, -1)
    keys = zip(*([values[i] for i in codes[first].tolist()] for codes, values in grouping), strict=True)
    return list(keys), counts, place


def encoded_key(batch, name, missing=False):
    """Return (codes, list of the distinct values) of a grouping column.

    None is a value that does not occur, or with ``missing`` that of a missing cell.
    """
    entries = encoded(column(batch, name, missing, _NO_KEY), name, missing)
    if entries is None:
        raise DataError("must hold texts, numbers or dates, got lists", field=name)
    keys = plain.plain_keys(entries[1], name)
    if texts(batch):
        keys = [(key.strip() or None) if isinstance(key, str) else key for key in keys]
    codes, places = entries[0], {key: i for i, key in enumerate(dict.fromkeys(keys))}
    values = list(places)
    if len(values) < len(keys):  # a dictionary may hold a value twice
        codes = np.array([places[key] for key in keys])[codes]
    if None in values and not missing:
        rows = np.flatnonzero(codes == values.index(None))
        if rows.size:
            raise DataError(_NO_KEY, line=int(rows[0]), field=name)
    return codes, values


def arrow_column(array, name, labelled, positions):
    """Return an Arrow array of reports as parse_reports takes it.

    Raises
    ------
    DataError
        On numbers that are none, and on types that no report has.
    """
    import pyarrow as pa

    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    kind, stored = array.type, arrow_kind(array.type)
    if pa.types.is_fixed_size_binary(kind):
        size, start = kind.byte_width, array.offset * kind.byte_width
        data = np.frombuffer(array.buffers()[1], dtype=np.uint8, count=len(array) * size, offset=start)
        return Bytes(np.full(len(array), size, dtype=np.int64), data)
    if stored == "bytes":
        return _bytes(array.cast(pa.large_binary()))
    if stored.startswith("lists"):
        lengths = array.value_lengths() if not pa.types.is_fixed_size_list(kind) else None
        lengths = np.full(len(array), kind.list_size) if lengths is None else lengths.to_numpy(zero_copy_only=False)
        return ListColumn(lengths.astype(np.int64), _items(pa, array.flatten(), name), "lists")
    if stored == "booleans":
        return Integers(array.to_numpy(zero_copy_only=False).astype(np.int64), labelled, True, positions)
    if stored == "whole numbers":
        return Integers(_whole_numbers(pa, array, name), labelled, False, positions)
    if stored == "texts":
        return listed_texts(array, name)
    if pa.types.is_date(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        keys = plain.plain_keys(array, name)
        if None in keys:
            raise DataError("holds missing values", line=keys.index(None), field=name)
        return list(map(str, keys))
    raise unread(kind, name)


def _whole_numbers(pa, array, name):
    """Return whole numbers, also those that warehouses make decimals of, as int64."""
    if pa.types.is_decimal(array.type):
        with foreign("holds whole numbers above 2**63"):
            array = array.cast(pa.int64())
    values = array.to_numpy(zero_copy_only=False) if array.null_count else numpy_integers(array)
    if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
        raise DataError(f"holds whole numbers above 2**63, got {values.max()}", field=name)
    return values.astype(np.int64)


def listed_texts(array: Any, name: str) -> list:
    """Return the entries of an Arrow array of texts, or the error of one that is not UTF-8, as in a damaged file."""
    try:
        return array.to_pylist()
    except UnicodeDecodeError as err:
        raise DataError("holds texts that are not UTF-8", field=name) from err


def _bytes(array):
    """Return an Arrow array of large binary as Bytes."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64, count=array.offset + len(array) + 1)[array.offset :]
    values = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return Bytes(np.diff(bounds), values[bounds[0] : bounds[-1]])


def _items(pa, array, name):
    """Return the items of lists as a bool array, an int64 array or a list of texts."""
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    stored = arrow_kind(array.type)
    if array.null_count:
        raise DataError("holds lists with missing items", field=name)
    if stored == "booleans":
        return array.to_numpy(zero_copy_only=False)
    if stored == "whole numbers":
        return _whole_numbers(pa, array, name)
    if pa.types.is_null(array.type):  # only empty lists
        return np.empty(0, dtype=np.int64)
    if stored == "texts":
        return listed_texts(array, name)
    raise DataError(f"holds lists of {array.type}; a set is a list of booleans, whole numbers or labels", field=name)


def names_of_bits(protocol: AbstractProtocol, report: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of columns of bits, one for each category, which are labels where nobody states any; else None."""
    design: Any = protocol.repeats()
    protocol = protocol if design is None else design.single
    a, form = protocol.n_categories, protocol.supports()
    sets = form is not None and form.hashed is None and len(report) == a > len(protocol.report_fields)
    named = len({name.strip() for name in report}) == a and protocol.default_labels == tuple(map(str, range(a)))
    return tuple(report) if sets and named else None


@dataclass(frozen=True, eq=False)
class Format:
    """How the rows of a table are reports: the one way from Arrow to what a protocol takes. It can be pickled.

    Attributes
    ----------
    protocol : AbstractProtocol
    report : tuple of str
        The columns of one report: one for each field; of a set also its bytes, or a zero or one for each category.
    labels : sequence of str
        Labels of the categories.
    labelled : bool
        Whether the caller named the categories; see ``columns.Integers``.
    positions : bool
        Whether whole numbers are known to be reports as the protocol makes them: where the data state the protocol.
    bitorder : {"big", "little"}
        Whether the first category is the highest bit of the first byte and the first digit of a text, or the lowest and
        the last.
    """

    protocol: AbstractProtocol
    report: tuple[str, ...]
    labels: Sequence[str]
    labelled: bool = False
    positions: bool = False
    bitorder: str = "big"

    def __post_init__(self) -> None:
        a, fields, form = self.protocol.n_categories, self.protocol.report_fields, self.protocol.supports()
        sets = form is not None and form.hashed is None
        if len(self.report) not in (len(fields), *((-(-a // 8), a) if sets else ())):
            named = f"{len(fields)} column{'s' * (len(fields) > 1)} ({', '.join(fields)})"
            bits = f", or {a} columns of bits, one for each category" if sets else ""
            raise ArgumentError(f"report must name {named}{bits}, got {len(self.report)}.")
        is_bits = len(self.report) == a > len(fields)
        if is_bits and self.labelled and Places(self.labels).moved(self.report) is not None:
            raise ArgumentError(
                "report must name the columns of bits in the order of the categories, whose names they have."
            )
        if self.labelled:
            self.protocol.check_categories(self.labels)
        if checks.choice(self.bitorder, "bitorder", BIT_ORDERS) == "little" and not self.protocol.report_format.has_bits:
            raise ArgumentError(f"bitorder must be left out: reports of {self.protocol.name} are no sets of bits.")

    def rows(self, table: Any) -> np.ndarray:
        """Return the canonical reports of all rows of a table.

        Raises
        ------
        DataError
            With the row of a bad report as ``line``.
        """
        if len(self.report) != len(self.protocol.report_fields):
            return self._from_numbers(table)
        return self._parsed([(column(table, name, why=_NO_REPORT), name) for name in self.report])

    def distinct(
        self, table: Any, by: Sequence[str] = (), weights: np.ndarray | None = None
    ) -> tuple[list[tuple], np.ndarray, np.ndarray, np.ndarray]:
        """Return the reports of the cells of a table; where reports can be counted, only distinct ones are parsed.

        Parameters
        ----------
        table : pyarrow.Table
        by : sequence of str
            Grouping columns.
        weights : (m,) int array, optional
            How many reports each row stands for.

        Returns
        -------
        keys : list of tuple
            The cells.
        group : (k,) int64 array
            The cell of each report.
        reports : (k, …) array
            Canonical.
        counts : (k,) int64 array
        """

        columns = [self._codes(table, name) for name in self.report]
        grouping = [encoded_key(table, name) for name in by]
        if None in columns or len(columns) != len(self.protocol.report_fields):
            keys, _, group = cells(grouping, table.num_rows)
            ones = np.ones(table.num_rows, dtype=np.int64) if weights is None else weights
            return keys, group.astype(np.int64), self.rows(table), ones
        sizes = [len(values) for _, values in (*grouping, *columns)]
        code, size = crossed([(codes, len(values)) for codes, values in (*grouping, *columns)])
        if math.prod(sizes) == size <= MOST_CODES:  # codes tell all values: no row is looked at again
            counts, place, first = np.bincount(code, minlength=size), code, None
            seen = np.flatnonzero(counts)
            counts, indices = counts[seen], np.unravel_index(seen, sizes)
        else:
            seen, first, place, counts = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
            indices = tuple(codes[first] for codes, _ in (*grouping, *columns))
        if weights is not None:  # whole numbers whose sums are exact in double precision
            totals = np.bincount(place, weights).astype(np.int64)
            counts = totals[seen] if first is None else totals
        keys, _, group = cells([(index, values) for index, (_, values) in zip(indices, grouping, strict=False)], len(seen))
        taken = [
            (_taken(values, index), name)
            for (_, values), index, name in zip(columns, indices[len(by) :], self.report, strict=True)
        ]
        try:
            return keys, group.astype(np.int64), self._parsed(taken), counts
        except DataError as err:
            if err.line is None:
                raise
            row = int(np.argmax(code == seen[err.line])) if first is None else int(first[err.line])
            raise DataError(err.message, line=row, field=err.field) from None

    def _codes(self, table, name):
        """Return codes and values of a column of reports; None for lists, and for what hardly ever repeats."""
        import pyarrow as pa

        array = column(table, name, why=_NO_REPORT)
        texts = arrow_kind(array.type) == "texts" or pa.types.is_dictionary(array.type)
        return encoded(array, name) if texts or self.protocol.countable() else None

    def _parsed(self, columns):
        """Return the canonical reports of Arrow arrays, one for each field, with their names."""
        labelled = self.labelled and not self.positions
        found = [arrow_column(array, name, labelled, self.positions) for array, name in columns]
        if self.bitorder == "little":
            found[-1] = _turned(found[-1])
        try:
            return self.protocol.parse_reports(found, self.labels)
        except DataError as err:
            names = [name for _, name in columns]
            field = dict(zip(self.protocol.report_fields, names, strict=True)).get(err.field, names[0])
            raise DataError(err.message, line=err.line, field=field) from None

    def _from_numbers(self, table):
        """Return sets whose bytes, or whose zeros and ones, stand in separate columns; these are packed as they are read."""
        a, names = self.protocol.n_categories, self.report
        packed = len(names) < a
        out = np.zeros((-(-a // 8), table.num_rows), dtype=np.uint8)
        for i, name in enumerate(names):
            values = _small(column(table, name), name, 255 if packed else 1, texts(table))
            if packed:
                out[i] = values if self.bitorder == "big" else REVERSED[values]
            else:
                out[i // 8] |= values << np.uint8(7 - i % 8)
        return self.protocol.check_reports(np.ascontiguousarray(out.T))


def _turned(column):
    """Return a column of sets whose bits stand the other way round in each byte, or in each text of zeros and ones."""
    if isinstance(column, Bytes):
        return Bytes(column.lengths, REVERSED[column.values])
    return [_turned_text(text) for text in column] if isinstance(column, list) else column


def _turned_text(text):
    head, digits = (text[:2], text[2:]) if text[:2].lower() in ("0b", "0x") else ("", text)
    if head.lower() == "0x":
        with contextlib.suppress(ValueError):
            return head + REVERSED[np.frombuffer(bytes.fromhex(digits), dtype=np.uint8)].tobytes().hex()
    return head + digits[::-1] if not set(digits) - {"0", "1"} else text


def _small(array, name, most, of_texts):
    """Return whole numbers from 0 to ``most``, or booleans, of an Arrow array as uint8."""
    import pyarrow as pa

    if pa.types.is_boolean(array.type):
        stored = np.frombuffer(array.buffers()[1] or b"", dtype=np.uint8)
        start, end = array.offset // 8, -(-(array.offset + len(array)) // 8)
        return np.unpackbits(stored[start:end], bitorder="little")[array.offset % 8 :][: len(array)]
    if of_texts:
        with foreign("must hold whole numbers"):
            array = array.cast(pa.int64())
    if arrow_kind(array.type) != "whole numbers":
        raise DataError(f"holds {array.type}; a column of several that make a set holds whole numbers", field=name)
    plain_type = pa.types.is_integer(array.type) and not array.null_count
    values = numpy_integers(array) if plain_type else _whole_numbers(pa, array, name)
    if len(values) and (values.min() < 0 or values.max() > most):
        row = int(np.argmax((values < 0) | (values > most)))
        raise DataError(f"must hold whole numbers from 0 to {most}, got {values[row]}", line=row, field=name)
    return values.astype(np.uint8, copy=False)


# ---- counts and conditions -------------------------------------------------------------------------------------------
def counts_of(table: Any, name: str) -> np.ndarray:
    """Return a column of counts as int64.

    Raises
    ------
    DataError
        Where one is missing, or no whole number from 0 to 10^12, with its row as ``line``.
    """
    import pyarrow as pa

    array = column(table, name)
    kind = array.type
    if texts(table):
        codes, values = encoded(array, name)
        numbers = [_count(text) for text in values.to_pylist()]
        bad = [i for i, value in enumerate(numbers) if not isinstance(value, int)]
        if bad:
            row = int(np.flatnonzero(np.isin(codes, bad))[0])
            raise DataError(numbers[codes[row]], line=row, field=name)
        return np.array(numbers, dtype=np.int64)[codes]
    numbers = pa.types.is_floating(kind) or pa.types.is_decimal(kind)  # pandas and sums of decimals make these of counts
    if arrow_kind(kind) != "whole numbers" and not numbers:
        raise DataError(f"counts must be whole numbers, got a column of {kind}; cast it", field=name)
    values = np.array(array.to_pylist(), dtype=object) if pa.types.is_decimal(kind) else array.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~((values >= 0) & (values <= MAX_COUNT)) | ((values % 1 != 0) if numbers else False))
    if wrong.size:
        value = values[wrong[0]]
        problem = "a whole number" if numbers and 0 <= value <= MAX_COUNT else "from 0 to 10**12"
        raise DataError(f"count must be {problem}, got {value}", line=int(wrong[0]), field=name)
    return values.astype(np.int64)


def _taken(values, places):
    """Return some entries of an Arrow array; ``take`` imports Arrow's functions, which whole numbers do without."""
    import pyarrow as pa

    if pa.types.is_integer(values.type) and not values.null_count:
        return arrow_integers(numpy_integers(values)[places], values.type)
    return values.take(arrow_integers(places))


def _count(text):
    """Return the count that a text writes in the digits 0 to 9, as 2 or 2.0, or the sentence that says why it is none."""
    match = _WHOLE.fullmatch(text.strip(" \t"))  # of other white space int() would read some and refuse some
    if match is None or thousands(text):
        return f"count must be a whole number, got {shown(text)}{thousands(text)}"
    if len(match[1]) > 40 or not 0 <= int(match[1]) <= MAX_COUNT:
        return f"count must be from 0 to 10**12, got {match[1]:.40}"
    return int(match[1])


def matching(table: Any, where: Mapping[str, object]) -> np.ndarray | None:
    """Return the rows of a table whose cells are those of a condition, compared as texts; None where all are."""
    rows = np.ones(table.num_rows, dtype=bool)
    for name, value in where.items():
        codes, values = encoded_key(table, name, missing=True)
        wanted = value if isinstance(value, list) else [value]
        rows &= np.array([any(fits(key, one, name) for one in wanted) for key in values] or [False])[codes]
    return None if rows.all() else np.flatnonzero(rows)


def fits(key: Any, value: Any, name: str) -> bool:
    """Return whether an entry of a column is what a condition says; the name of the column is for messages."""
    if isinstance(key, bool):
        if str(value).lower() not in ("true", "false"):
            raise DataError(f"holds booleans, got the condition {shown(value)}", field=name)
        return str(key).lower() == str(value).lower()
    if isinstance(key, float):
        with foreign(f"holds numbers, got the condition {shown(value)}"):
            return key == float(value)  # type: ignore[arg-type]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return key is not None and str(key) == str(value).strip()


def texts(table: Any) -> bool:
    """Return whether the cells of a table are those of a file of texts, in which blanks around a cell mean nothing."""
    return TEXTS in (table.schema.metadata or {})


def with_folders(table: Any, folders: Sequence[tuple[str, str | int | None]]) -> Any:
    """Return an Arrow table with the columns, pairs of a name and the entry of all rows, that folders hold."""
    import pyarrow as pa

    for name, value in folders:
        entry = pa.repeat(value, 1)
        codes = arrow_integers(np.zeros(len(table), dtype=np.int32))
        column_of = pa.DictionaryArray.from_arrays(codes, entry) if isinstance(value, str) else entry.take(codes)
        table = table.append_column(name, column_of)
    return table
