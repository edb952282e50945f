"""Rounded values: classes of values by the grid they lie on."""

from dataclasses import dataclass

import numpy as np

#: Rule: Values of a heap are so many times as frequent as the median of their neighbours, of so many on each side. Where
#: a share h of people round to multiples of 5, these are 1 + 5h/(1 − h) times as frequent: three times from h = .29 on, six
#: times from h = .5 on, and 1.5 times from .09 on; but a count of four, the least of a heap, varies by half of itself, and
#: 1.5 times would be one sd of chance. Of twelve to each side five are multiples of 5, and the median is that of the
#: others. Of six to each side three are, which serves as well; with 24 the density itself moves within them.
HEAPED, NEIGHBOURS = 3.0, 12
#: Rule: A class of heaps needs this share of the records, and so do the others. A class moves a share or the level of a
#: quantile by its own share of the records at most: .02, against errors of .01 and more of 10,000 records behind a
#: device. With half that is one error at most, which no reader sees; with double four.
LEAST = 0.02
#: Rule: A value with this share of the records, and at least so many, is a spike where most of the others differ: where
#: their number is above this share of their records. The first is LEAST, for the same reason; ten records, as fewer meet
#: by rounding; and a half, because other values are then distinct more often than not, so that a heap has no neighbours.
#: Any value from a few hundredths (whole numbers) to .9 (measurements) tells such columns apart.
SPIKE, FEWEST, UNTIED = 0.02, 10, 0.5
#: Rule: This share of the heaps has to lie on a grid for the grid to be the class: one heap of ten may be a value of its
#: own, such as a limit. With twice as many off it a second habit is mixed in; with half as many, one odd value among
#: 19 hides the grid, and then the heaps themselves are the class, without the rare values of the grid.
ON_GRID = 0.9


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of records by how their value looks rounded.

    Attributes
    ----------
    index : (n,) int array
    names : tuple of str
    sure : bool
        Whether the classes are kept apart whatever their groups are.
    """

    index: np.ndarray
    names: tuple[str, ...]
    sure: bool = False


def rounding_classes(value: np.ndarray) -> list[Classes]:
    """Return the ways to split values by rounding that stand out: by multiples of 15 and 5, and by heaps.

    A heap is a value that is much more frequent than its neighbours. Where nearly all heaps are multiples of one step, the
    class is that of all its multiples, also of rare ones. Spikes among values that hardly ever meet, such as no income at
    all, are no neighbours of these, and always a class.

    Parameters
    ----------
    value : (n,) array
    """
    distinct, code, counts = np.unique(value, return_inverse=True, return_counts=True)
    if len(distinct) < 8 or len(distinct) > 0.98 * len(value):
        return []
    spikes = counts >= max(SPIKE * len(value), FEWEST)
    others = len(value) - counts[spikes].sum()
    if spikes.any() and others >= LEAST * len(value) and (~spikes).sum() > UNTIED * others:
        return [Classes(np.where(spikes, 0, 1)[code], ("values that many records share", "other values"), sure=True)]
    heaped = counts >= np.maximum(HEAPED * _neighbours(counts), 4)
    splits: list[tuple[np.ndarray, tuple[str, ...]]] = []
    whole = _in_units(distinct)
    if whole is not None:
        by = np.where(whole % 15 == 0, 0, np.where(whole % 5 == 0, 1, 2))
        heaps = [heaped[by == k].mean() if (by == k).any() else 0.0 for k in range(3)]
        if min(heaps[0], heaps[1]) > 2 * heaps[2] or max(heaps[0], heaps[1]) > max(0.3, 2 * heaps[2]):
            splits.append((by, ("multiples of 15", "other multiples of 5", "other values")))
    if heaped.any():
        steps = np.diff(whole[heaped]) if whole is not None else np.empty(0)
        steps = steps[steps > 0]
        marked = heaped
        names: tuple[str, ...] = ("heaps", "other values")
        if whole is not None and steps.size:
            sizes, often = np.unique(steps, return_counts=True)
            step = sizes[often.argmax()]
            on = whole % step == 0
            if step > 1 and on[heaped].mean() >= ON_GRID and not on.all():
                unit = float(distinct[-1] / whole[-1]) if whole[-1] else 1.0
                marked, names = on, (f"multiples of {step * unit:g}", "other values")
        splits.append((np.where(marked, 0, 1), names))
    out = []
    for by, labels in splits:
        index = by[code]
        share = np.bincount(index, minlength=len(labels)) / len(value)
        large = np.flatnonzero(share >= LEAST)
        if len(large) < 2:
            continue
        place = np.full(len(labels), len(large) - 1)  # too small a class joins the last
        place[large] = np.arange(len(large))
        out.append(Classes(place[index], tuple(labels[k] for k in large)))
    return out


def _neighbours(counts: np.ndarray) -> np.ndarray:
    """Return the median count of the neighbours of each value."""
    padded = np.pad(counts.astype(float), NEIGHBOURS, mode="reflect" if len(counts) > NEIGHBOURS else "edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1), axis=1)


def _in_units(value: np.ndarray) -> np.ndarray | None:
    """Return values as whole multiples of the largest power of ten, from 0.001 on, that divides them all, or None."""
    units = None
    for power in range(-3, 7):
        scaled = value / 10.0**power
        if np.abs(scaled).max() > 2**52:
            continue
        whole = np.round(scaled)
        if (np.abs(scaled - whole) > 1e-9 * np.maximum(np.abs(scaled), 1)).any():
            break
        units = whole
    return units
