"""Columns of reports that are not text, as a data frame holds them: whole numbers, bytes and lists.

``parse_reports`` takes one column per report field. A column is a sequence of texts, as in a CSV file, or one of the
classes below; the functions that read labels, numbers and sets decide what each kind means.
"""

from dataclasses import dataclass

import numpy as np

from ldpbayes.errors import DataError


@dataclass(frozen=True, eq=False)
class Integers:
    """A column of whole numbers (or of booleans, as 0 and 1).

    Attributes
    ----------
    values : (m,) int64 array
    labelled : bool
        Whether the caller named the categories. If so, and if one of them is a number, a number where a label belongs is
        that label; if not, it is the report as the protocol makes it.
    boolean : bool
        Whether the column held booleans.
    positions : bool
        Whether the numbers are known to be reports as the protocol makes them, also where labels are numbers.
    """

    values: np.ndarray
    labelled: bool = False
    boolean: bool = False
    positions: bool = False

    @property
    def what(self):
        """What the column holds, for messages."""
        return "booleans" if self.boolean else "whole numbers"

    def __len__(self):
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Bytes:
    """A column of byte strings.

    Attributes
    ----------
    lengths : (m,) int64 array
    values : (sum of lengths,) uint8 array
    """

    lengths: np.ndarray
    values: np.ndarray
    what: str = "bytes"

    def __len__(self):
        return len(self.lengths)


@dataclass(frozen=True, eq=False)
class ListColumn:
    """A column of lists of booleans, whole numbers or texts.

    Attributes
    ----------
    lengths : (m,) int64 array
    values : bool array, int64 array or list of str
        The items of all lists, one list after the other.
    what : str
    """

    lengths: np.ndarray
    values: object
    what: str = "lists"

    def __len__(self):
        return len(self.lengths)


def refuse(column, needed):
    """Raise the DataError of a column of the wrong kind: what it holds, and what it should hold."""
    raise DataError(f"holds {column.what}; {needed}")
