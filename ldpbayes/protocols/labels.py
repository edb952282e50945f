"""Which label of a file or a frame is which category, or which answer of a device: readers and guards ask here."""

import contextlib
import math
import unicodedata
from functools import cached_property
from itertools import product

import numpy as np

from ldpbayes.errors import ArgumentError, listed, shown


class Places:
    """The places of labels in a list of them.

    Parameters
    ----------
    labels : sequence of str
    """

    def __init__(self, labels):
        self.labels = labels

    @cached_property
    def _exact(self):
        return {label: i for i, label in enumerate(self.labels)}

    @cached_property
    def _folded(self):
        """Place by folded label; empty where labels differ by what is folded."""
        folded = {_folded(label): i for i, label in enumerate(self.labels)}
        return folded if len(folded) == len(self.labels) else {}

    @cached_property
    def counted(self):
        """Whether the labels are "0", "1", … in order."""
        return list(map(str, range(len(self.labels)))) == list(self.labels)

    @cached_property
    def numbered(self):
        """Whether some label is a number, so that a number is a label and no position."""
        return any(map(_is_number, self.labels))

    def place(self, text, positions=True):
        """Return the place of the label that a text means, or None.

        Blanks around and within a text are one blank or none, and neither its case nor the way in which Unicode writes a
        letter is part of it, unless labels differ by it.

        Parameters
        ----------
        text : str
        positions : bool
            Whether a whole number, also with a point and a zero, is a place from zero where no label is a number.
        """
        for key in (text, text.strip()):
            if key in self._exact:
                return self._exact[key]
        found = self._folded.get(_folded(text))
        if found is not None:
            return found
        whole = text.strip().removesuffix(".0")  # a column of whole numbers becomes one of floats where an entry is missing
        if not (whole.isdecimal() and len(whole) < 20):
            return None
        if whole in self._exact:
            return self._exact[whole]
        number = int(whole)
        is_position = positions and str(number) == whole and number < len(self.labels) and not self.numbered
        return number if is_position else None

    def moved(self, others, whole=False, positions=False):
        """Return the first label of another list that is at another place there, or None.

        Parameters
        ----------
        others : sequence of str
        whole : bool
            Whether lists are compared only where each has all labels of the other.
        positions : bool
            Whether whole numbers are places, as ``place`` has it.
        """
        if tuple(others) == tuple(self.labels):
            return None
        places = [self.place(label, positions) for label in others]
        if whole and (None in places or len(places) != len(self.labels)):
            return None
        return next((label for x, (label, y) in enumerate(zip(others, places, strict=True)) if y not in (None, x)), None)


def check_order(categories, labels, of, whole=False):
    """Refuse labels of categories one of which is another place among the labels that a protocol has.

    Parameters
    ----------
    categories : sequence of str
    labels : sequence of str
        Answers or candidates, in the order of the categories.
    of : str
        What these are, such as "answers of warner".
    whole : bool
        Whether labels are the same only where each list has all those of the other.
    """
    label = Places(labels).moved(categories, whole)
    if label is not None:
        raise ArgumentError(
            f"categories must be in the order of the {of} ({listed(labels)}), got {listed(categories)}: {shown(label)} "
            "would stand for another one."
        )


def split_labels(categories, sizes, separator):
    """Return the labels of every attribute from those of the cells; None where these are not joined labels.

    Parameters
    ----------
    categories : sequence of str
    sizes : sequence of int
    separator : str

    Returns
    -------
    list of tuple of str, or None
    """
    cells = [tuple(label.split(separator)) for label in categories] if separator else []
    if len(cells) == math.prod(sizes) and all(len(cell) == len(sizes) for cell in cells):
        steps = np.cumprod([1, *sizes[:0:-1]])[::-1].tolist()
        lists = [
            tuple(cells[i * step][k] for i in range(size)) for k, (size, step) in enumerate(zip(sizes, steps, strict=True))
        ]
        if all(len(set(names)) == len(names) for names in lists) and cells == list(product(*lists)):
            return lists
    return None


def check_factors(factors, categories, separators):
    """Refuse labels of cells, joined by one of the separators, in another order than that of the attributes' own labels."""
    for separator in separators:
        labels = split_labels(categories, [factor.n_categories for factor in factors], separator)
        for factor, of_factor in zip(factors, labels or (), strict=False):
            factor.check_categories(of_factor)
        if labels is None:
            cells = [separator.join(cell) for cell in product(*(factor.default_labels for factor in factors))]
            check_order(categories, cells, "attributes' labels", whole=True)


def _folded(text):
    """Return a text without capitals, needless blanks, and the ways in which Unicode writes one letter."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", text).casefold())
    return " ".join(text.split())


def _is_number(label):
    """Return whether a label is a number, such as 1, 1.0, −2 or a digit of another script."""
    text = unicodedata.normalize("NFKC", label).replace("−", "-")
    if any(map(str.isdecimal, text)):
        with contextlib.suppress(ValueError):
            float(text)
            return True
    return False
