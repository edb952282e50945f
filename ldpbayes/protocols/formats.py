"""Formats of reports: how they are checked, counted, read from columns and written as texts, whatever made them."""

import abc
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import DataError, listed, shown
from ldpbayes.protocols import bits
from ldpbayes.protocols.columns import Bytes, Integers, ListColumn, refuse
from ldpbayes.protocols.constants import COHORT_BYTES
from ldpbayes.protocols.labels import Places

#: Stands for a number that is not there, in text.
GAP = "-"


class AbstractFormat(abc.ABC):
    """One kind of report."""

    #: Whether a report is, or ends in, a set of bits, whose order in bytes and texts may be another one.
    has_bits: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, reports):
        """Return reports as a canonical array, or raise a DataError that names the first malformed one."""

    @abc.abstractmethod
    def parse(self, columns, categories):
        """Return the canonical array for one column per report field: texts, or a class of ``protocols.columns``."""

    @abc.abstractmethod
    def format(self, reports, categories):
        """Return the text columns that parse reads back."""


@dataclass(frozen=True)
class Labels(AbstractFormat):
    """One of a few answers each, as its position.

    Attributes
    ----------
    n : int
        Number of answers.
    labels : tuple of str, optional
        Their texts; by default "0", "1", ….
    categories : bool
        Whether the texts are those of the categories.
    """

    n: int
    labels: tuple[str, ...] | None = None
    categories: bool = False

    def check(self, reports):
        return check_labels(reports, self.n)

    def parse(self, columns, categories):
        labels = categories if self.categories else self.labels
        if labels is None:
            return parse_labels(columns[0], list(map(str, range(self.n))))
        return parse_labels(columns[0], labels, categories)

    def format(self, reports, categories):
        labels = categories if self.categories else self.labels
        return [list(map(str, reports.tolist())) if labels is None else [labels[i] for i in reports]]


@dataclass(frozen=True)
class Sets(AbstractFormat):
    """Sets of categories, as packed bits.

    Attributes
    ----------
    n : int
        Number of categories.
    size : int, optional
        Members that every set has.
    """

    n: int
    size: int | None = None
    has_bits: ClassVar[bool] = True

    def check(self, reports):
        return self._of_size(bits.check(reports, self.n))

    def parse(self, columns, categories):
        return self._of_size(bits.parse(columns[0], categories))

    def format(self, reports, categories):
        return [bits.format(reports, self.n, categories)]

    def _of_size(self, packed):
        if self.size is not None:
            bits.check_size(packed, self.size)
        return packed


@dataclass(frozen=True)
class Numbers(AbstractFormat):
    """Several whole numbers each, such as a public seed and a value: an (m, fields) int64 array.

    Attributes
    ----------
    fields : tuple of str
        Their names.
    limits : tuple of int
        Each number is below its limit.
    """

    fields: tuple[str, ...]
    limits: tuple[int, ...]

    def check(self, reports):
        return _check_numbers(reports, len(self.fields), f" ({', '.join(self.fields)})", self.fields, self.limits)

    def parse(self, columns, categories):
        parsed = zip(columns, self.fields, self.limits, strict=True)
        return np.stack([parse_integers(column, name, limit) for column, name, limit in parsed], axis=1)

    def format(self, reports, categories):
        return [[str(number) for number in column] for column in reports.T.tolist()]


@dataclass(frozen=True)
class CohortSets(AbstractFormat):
    """A cohort and a set of bits: the cohort in four big-endian bytes, then the packed bits, bit 0 first.

    Attributes
    ----------
    cohorts : int
        Number of cohorts C.
    n_bits : int
        Bits of a cohort's reports.
    """

    cohorts: int
    n_bits: int
    has_bits: ClassVar[bool] = True

    def check(self, reports):
        """Return canonical reports from canonical ones or from a pair (cohorts, bits), bits packed or zeros and ones."""
        if isinstance(reports, tuple) and len(reports) == 2:
            cohorts, packed = checks.array_of(reports[0], "cohorts", "integers"), bits.check(reports[1], self.n_bits)
            if cohorts.shape != (len(packed),) or not np.issubdtype(cohorts.dtype, np.integer):
                raise DataError(f"cohorts must be {len(packed)} integers, one per report, got shape {cohorts.shape}")
        else:
            array = checks.array_of(reports, "reports", "bytes, one report a row, or a pair (cohorts, bits)")
            expected = COHORT_BYTES + bits.width(self.n_bits)
            if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != expected:
                raise DataError(
                    f"reports must be (m, {expected}) bytes or a pair (cohorts, bits), got {array.shape} of {array.dtype}"
                )
            cohorts, packed = split_cohorts(array)
            try:
                packed = bits.check_packed(packed, self.n_bits)
            except DataError as err:
                raise err.at(field="bits") from None
        _check_below(cohorts, "cohort", self.cohorts)
        return join_cohorts(cohorts, packed)

    def parse(self, columns, categories):
        cohorts = parse_integers(columns[0], "cohort", self.cohorts)
        try:
            packed = bits.parse(columns[1], [f"bit {b}" for b in range(self.n_bits)])
        except DataError as err:
            raise err.at(field="bits") from None
        return join_cohorts(cohorts, packed)

    def format(self, reports, categories):
        cohorts, packed = split_cohorts(reports)
        return [[str(c) for c in cohorts.tolist()], bits.format(packed, self.n_bits)]


@dataclass(frozen=True)
class Histories(AbstractFormat):
    """Whole numbers about one user: fields of one number each, and a last field that lists all others, such as "3 0 1".

    Attributes
    ----------
    leading : tuple of (str, int)
        Name of each field of one number, and what it is below.
    last : str
        Name of the last field.
    size : int
        How many numbers it lists.
    gaps : bool
        Whether the listed numbers are one more than what their text says, and 0 is "-".
    """

    leading: tuple[tuple[str, int], ...]
    last: str
    size: int
    gaps: bool = False

    def check(self, reports):
        names, limits = zip(*self.leading, strict=True) if self.leading else ((), ())
        array = _check_numbers(reports, len(names) + self.size, ", one history a row", names, limits)
        bad = np.flatnonzero((array < 0).any(axis=1))
        if bad.size:
            raise DataError(f"history {bad[0]} holds a number below zero", line=int(bad[0]))
        return array

    def parse(self, columns, categories):
        *leading, last = columns
        fields = zip(leading, self.leading, strict=True)
        heads = [parse_integers(column, name, limit) for column, (name, limit) in fields]
        if isinstance(last, (Bytes, ListColumn, Integers)):
            refuse(last, f"{self.last} is a text of whole numbers with blanks between them, such as '3 0 1'")
        numbers = np.empty((len(last), self.size), dtype=np.int64)
        for i, text in enumerate(last):
            cells = text.split()
            plain = [cell for cell in cells if not (self.gaps and cell == GAP)]
            if len(cells) != self.size or not all(cell.isascii() and cell.isdecimal() and len(cell) < 19 for cell in plain):
                problem = f"{self.last} must be {self.size} whole numbers with blanks between them, got {shown(text)}"
                raise DataError(problem, line=i, field=self.last)
            numbers[i] = [0 if self.gaps and cell == GAP else int(cell) + self.gaps for cell in cells]
        return np.column_stack([*heads, numbers])

    def format(self, reports, categories):
        leading = [[str(number) for number in column] for column in reports[:, : len(self.leading)].T.tolist()]
        return [*leading, self.text(reports)]

    def text(self, reports):
        """Return the last field as text."""
        listed = reports[:, len(self.leading) :].tolist()
        if self.gaps:
            return [" ".join(str(code - 1) if code else GAP for code in row) for row in listed]
        return [" ".join(map(str, row)) for row in listed]


def join_cohorts(cohorts, packed):
    """Return the reports of these cohorts and packed bits."""
    heads = np.ascontiguousarray(cohorts, dtype=">u4").view(np.uint8).reshape(-1, COHORT_BYTES)
    return np.concatenate([heads, packed], axis=1)


def split_cohorts(reports):
    """Return (cohorts, packed bits) of reports."""
    heads = np.ascontiguousarray(reports[:, :COHORT_BYTES]).view(">u4").ravel()
    return heads.astype(np.int64), np.ascontiguousarray(reports[:, COHORT_BYTES:])


def _check_numbers(reports, width, what, names, limits):
    """Return reports of so many numbers as int64; the first numbers of each have names and limits."""
    array = checks.array_of(reports, "reports", "numbers, one report a row")
    if array.ndim != 2 or array.shape[1] != width or not np.issubdtype(array.dtype, np.integer):
        raise DataError(f"reports must be an (m, {width}) array of integers{what}, got shape {array.shape} of {array.dtype}")
    for name, limit, column in zip(names, limits, array.T, strict=False):
        _check_below(column, name, limit)
    return array.astype(np.int64, copy=False)


# ---- counting ----------------------------------------------------------------------------------------------------------
def distinct(reports, counts=None):
    """Return (distinct reports in sorted order, summed int64 counts) of a canonical report array."""
    reports = np.ascontiguousarray(reports)
    spans = _spans(reports) if reports.size else None
    if spans is not None:
        codes, totals = distinct(np.ravel_multi_index(tuple(reports.T), spans), counts)
        return np.stack(np.unravel_index(codes, spans), axis=1).astype(reports.dtype), totals
    if counts is None:
        if reports.ndim == 1 and reports.size and reports.dtype == np.int64 and checks.within(reports, 2**20):
            totals = np.bincount(reports)
            unique = np.flatnonzero(totals)
            return unique, totals[unique]
        counts = np.ones(len(reports), dtype=np.int64)
    if not reports.size:
        return reports, counts
    if reports.ndim == 1:
        order = np.argsort(reports)
        new = np.append(True, reports[order[1:]] != reports[order[:-1]])
    else:
        order, new = _sort_rows(reports.reshape(len(reports), -1).view(np.uint8))
    starts = np.flatnonzero(new)
    return reports.take(order[starts], axis=0), np.add.reduceat(counts[order], starts)


def keys(*parts):
    """Return numbers, one a row of each array of reports, that are equal where rows are and have their order."""
    both = np.concatenate(parts)
    if both.ndim > 1:
        spans = _spans(both) if both.size else None
        if spans is None:
            both = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        else:
            both = np.ravel_multi_index(tuple(both.T), spans)
    return np.split(both, np.cumsum([len(part) for part in parts])[:-1])


def places(every, reports):
    """Return the place of each canonical report among distinct ones, all of which are there."""
    codes, wanted = keys(every, reports)
    order = np.argsort(codes)
    return order[np.searchsorted(codes, wanted, sorter=order)]


def _spans(reports):
    """Return one more than the largest entry of each column where a row fits in one int64 code, else None."""
    if reports.ndim != 2 or reports.dtype != np.int64 or reports.min() < 0:
        return None
    spans = tuple(int(top) + 1 for top in reports.max(axis=0))
    return spans if math.prod(spans) < 2**62 else None


def _sort_rows(rows):
    """Return (order, whether each sorted row differs from the one before) of byte rows in lexicographic order."""
    key = np.zeros((len(rows), 8), dtype=np.uint8)
    key[:, : rows.shape[1]] = rows[:, :8]
    key = key.view(">u8").ravel().astype(np.uint64)
    order = np.argsort(key)
    new = np.ones(len(rows), dtype=bool)
    new[1:] = np.diff(key[order]) != 0
    if rows.shape[1] > 8:
        # Eight bytes settle the order of nearly all rows; only those that agree in them are compared in full.
        tied = np.flatnonzero(~new | np.append(~new[1:], False))
        whole = np.ascontiguousarray(rows[order[tied]]).view(np.dtype((np.void, rows.shape[1]))).ravel()
        order[tied] = order[tied][np.argsort(whole)]
        again = tied[~new[tied]]
        new[again] = (rows[order[again]] != rows[order[again - 1]]).any(axis=1)
    return order, new


# ---- reading -----------------------------------------------------------------------------------------------------------
def parse_labels(column, labels, categories=()):
    """Return the positions in labels of a column of labels.

    Parameters
    ----------
    column : sequence of str, or Integers
        Texts are labels, as ``labels.Places`` has them. Whole numbers, also those that a CSV file writes as text, are
        positions from zero where no label is a number, else labels where the caller named the categories. Booleans are
        labels where these are true and false, else positions of two labels.
    labels : sequence of str
    categories : sequence of str
        Labels of the categories that labels stand for in order, where these are other ones: whole numbers are no positions
        where they are categories elsewhere.

    Returns
    -------
    (m,) int64 array

    Raises
    ------
    DataError
        On the first unknown label, with its row as ``line``; on bytes and lists; on whole numbers that could be labels as
        well as positions.
    """
    found = Places(labels)
    odd = found.moved(categories, positions=True) if found.counted or not found.numbered else None
    if odd is not None and (not column.positions if isinstance(column, Integers) else found.counted):
        answers = "" if found.counted else f", or write the answers as {listed(labels, most=8)}"
        raise DataError(
            f"holds reports that could be positions or labels of categories, such as {shown(odd)}; give the categories "
            f"other labels{answers}"
        )
    if isinstance(column, Integers):
        named = f"the labels {listed(labels, most=8)}" if column.labelled else f"{len(labels)}"
        truths = (found.place("false"), found.place("true")) if column.boolean else ()
        if column.boolean and len(labels) > 2:
            refuse(column, f"a report of this protocol is one of {named}")
        if truths and None not in truths:
            return np.array(truths)[column.values]
        if column.positions or found.counted or not ((column.boolean and column.labelled) or found.numbered):
            return check_labels(column.values, len(labels))
        if not column.labelled:
            raise DataError(
                "holds whole numbers, which could be labels or positions; name the categories (categories=…) to read them "
                "as labels"
            )
        if column.boolean:
            refuse(column, f"a report of this protocol is one of {named}")
        column = list(map(str, column.values.tolist()))
    elif isinstance(column, (Bytes, ListColumn)):
        refuse(column, "a report of this protocol is one label")
    out = np.empty(len(column), dtype=np.int64)
    for i, text in enumerate(column):
        position = found.place(text, odd is None)
        if position is None:
            say = (
                "; name the categories (categories=…) to read labels" if found.counted and not text.strip().isdigit() else ""
            )
            empty = text.strip().casefold() in NO_ANSWER
            say = f"; say missing={text.strip()!r} to count who gave no answer" if empty else say
            raise DataError(f"unknown report {shown(text)}; it must be one of {listed(labels, most=8)}{say}", line=i)
        out[i] = position
    return out


#: How files write that nothing was entered.
NO_ANSWER = frozenset(("", ".", "na", "n/a", "nan", "null", "none"))


def check_labels(reports, n_outputs):
    """Return integer reports as int64 in 0..n_outputs-1, or raise a DataError that names the first bad one."""
    array = checks.array_of(reports, "reports", "a one-dimensional array of integers")
    if array.ndim != 1 or array.dtype == bool or not np.issubdtype(array.dtype, np.integer):
        raise DataError(f"reports must be a one-dimensional array of integers, got shape {array.shape} of {array.dtype}")
    _check_below(array, "report", n_outputs, field=None)
    return array.astype(np.int64, copy=False)


def _check_below(numbers, name, limit, field=""):
    """Raise a DataError that names the first number outside 0..limit-1, and the field: by default of the same name."""
    if not checks.within(numbers, limit):
        i = int(np.flatnonzero((numbers < 0) | (numbers >= limit))[0])
        raise DataError(f"{name} {numbers[i]} is outside 0..{limit - 1}", line=i, field=name if field == "" else field)


def parse_integers(column, name, limit):
    """Return a column of whole numbers in 0..limit-1 as int64, or raise a DataError that names the first bad row."""
    if isinstance(column, (Bytes, ListColumn)):
        refuse(column, f"{name} is a whole number from 0 to {limit - 1}")
    if isinstance(column, Integers):
        if column.boolean and limit > 2:
            raise DataError(f"holds booleans; {name} is a whole number from 0 to {limit - 1}", field=name)
        _check_below(column.values, name, limit)
        return column.values
    lengths = set(map(len, column))
    joined = "".join(column) if lengths and min(lengths) > 0 and max(lengths) < 19 else ""
    if joined.isascii() and joined.isdecimal():  # the usual case, without a look at each text
        out = np.fromiter(map(int, column), dtype=np.int64, count=len(column))
        if (out < limit).all():
            return out
    out = np.empty(len(column), dtype=np.int64)
    for i, text in enumerate(column):
        text = text.strip()
        # int() raises a ValueError for thousands of digits; no limit has as many as forty.
        if not (text.isascii() and text.isdecimal()) or len(text) > 40 or int(text) >= limit:
            raise DataError(f"{name} must be a whole number from 0 to {limit - 1}, got {text!r:.80}", line=i, field=name)
        out[i] = int(text)
    return out
