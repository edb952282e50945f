"""Draws of the joint distribution of an open value and a private group, and the answers that follow from them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbayes.inference.constants import LEAST_WEIGHED
from ldpbayes.inference.importance import smooth

#: Mathematics: The variance is infinite from this shape of a Pareto tail on, and nothing that records say bounds it.
SHAPE = 0.5
#: Mathematics: Such a tail has half of the squared distances from the mean in fewer than about e^{−γ/2} √n = .75 √n of n
#: records.
ROOTS = 0.5


@dataclass(frozen=True, eq=False)
class Atoms:
    """The distinct values of a cell's records, in order, by bin.

    A bin may hold several *slots*: sets of records that weigh differently within the bin, such as those with different
    reports.

    Attributes
    ----------
    value : (A,) array
        Increasing.
    bin : (A,) int array
        Not decreasing.
    prefix : (A, slots) array
        Share of the weight of a slot in this bin that lies at this value or below.
    mean : (m, slots) array
        Mean value of the records of a slot in a bin.
    lone : tuple of bool
        Whether the least, and the greatest, value is that of one record, so that nothing says what lies beyond.
    """

    value: np.ndarray
    bin: np.ndarray
    prefix: np.ndarray
    mean: np.ndarray
    lone: tuple[bool, ...] = (False, False)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the values of each bin begin, with the end of the last: shape (m + 1,)."""
        return np.searchsorted(self.bin, np.arange(len(self.mean) + 1))

    @classmethod
    def of(
        cls, value: np.ndarray, index: np.ndarray, size: int, slot: np.ndarray, slots: int, weight: np.ndarray
    ) -> "Atoms":
        """Return the atoms of records: value, bin and slot of each.

        Parameters
        ----------
        value : (n,) array
        index : (n,) int array
            The bin; not decreasing in the value.
        size : int
            Number of bins.
        slot : (n,) int array
        slots : int
        weight : (n,) array
        """
        distinct, first, code = np.unique(value, return_index=True, return_inverse=True)
        bins = index[first]
        mass = np.bincount(code * slots + slot, weight, len(distinct) * slots).reshape(len(distinct), slots)
        total = np.zeros((size, slots))
        np.add.at(total, bins, mass)
        moment = np.zeros((size, slots))
        centre = np.zeros(size)  # about the first value of a bin, so that sums keep their digits
        centre[bins[::-1]] = distinct[::-1]
        np.add.at(moment, bins, mass * (distinct - centre[bins])[:, None])
        running = np.cumsum(mass, axis=0)
        before = np.concatenate([np.zeros((1, slots)), np.cumsum(total, axis=0)])[bins]
        divisor = np.where(total > 0, total, 1.0)
        prefix = (running - before) / divisor[bins]
        prefix = np.clip(prefix, 0.0, 1.0)
        last = np.append(np.flatnonzero(np.diff(bins)), len(bins) - 1)
        prefix[last] = total[bins[last]] > 0
        lone = tuple(bool((value == end).sum() == 1) for end in distinct[[0, -1]])
        return cls(distinct, bins, prefix, centre[:, None] + moment / divisor, lone)


@dataclass(frozen=True, eq=False)
class Measure:
    """Draws of how much each bin and slot weighs for each group.

    Attributes
    ----------
    atoms : Atoms
    mass : (S, m, slots, k) array
        Not negative.
    whole : bool
        Whether masses are numbers of records: quantiles are then interpolated between neighbouring records, as data frames
        do it; otherwise they are the least value at which the distribution function reaches the level.
    record : float
        Mass of a record. The next one of a population may lie beyond all others: n records leave n + 1 spacings, each as
        probable as another. 0 for masses of these very records.
    """

    atoms: Atoms
    mass: np.ndarray
    whole: bool = False
    record: float = 0.0

    @cached_property
    def _cumulative(self) -> np.ndarray:
        """Mass of the bins before each bin, with the total at the end: shape (S, m + 1, k)."""
        sums = np.cumsum(self.mass.sum(axis=2), axis=1)
        return np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)

    @cached_property
    def _beyond(self) -> tuple[np.ndarray, np.ndarray]:
        """Mass of each group below the least value and above the greatest, (S, k) each: a record's on one of the sides.

        A quantile lies in one of the n + 1 spacings, whose probabilities are Dirichlet: half of the draws answer with its
        lower end, half with its upper one. Distribution functions have the quantiles of Clopper and Pearson's binomial
        bounds on average. Draws are exchangeable, so that a fixed seed does, and a stored result has the same numbers.
        """
        rng, shape = np.random.default_rng([1, len(self.mass)]), self.total.shape
        mass, above = self.record * rng.standard_exponential(shape), rng.random(shape) < 0.5
        return mass * ~above, mass * above

    @property
    def total(self) -> np.ndarray:
        """Mass of each group, shape (S, k)."""
        return self._cumulative[:, -1]

    def shares(self) -> np.ndarray:
        """Return the share of each group, (S, k); nan where no group has any mass."""
        with np.errstate(invalid="ignore"):
            return self.total / self.total.sum(axis=1, keepdims=True)

    def mean(self) -> np.ndarray:
        """Return the mean value in each group, (S, k); nan for a group of mass 0."""
        middle = self.atoms.value[len(self.atoms.value) // 2]  # about which sums keep their digits
        with np.errstate(invalid="ignore", divide="ignore"):
            return middle + np.einsum("smjx,mj->sx", self.mass, self.atoms.mean - middle) / self.total

    def cdf(self, points: np.ndarray) -> np.ndarray:
        """Return P(value ≤ z | group) at points (T,), shape (S, T, k)."""
        out = np.empty((len(self.mass), len(points), self.mass.shape[3]))
        below, above = self._beyond
        total = np.where(self.total > 0, below + self.total + above, np.nan)
        for t, position in enumerate(np.searchsorted(self.atoms.value, points, side="right")):
            out[:, t] = below
            if position:
                place = self.atoms.bin[position - 1]
                inside = np.einsum("sjx,j->sx", self.mass[:, place], self.atoms.prefix[position - 1])
                out[:, t] += self._cumulative[:, place] + inside
            out[:, t] = np.minimum(out[:, t] / total, 1.0)
        return out

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Return the quantiles of the value in each group, shape (S, T, k); nan for a group of mass 0."""
        values, (below, above) = [], self._beyond
        for level in levels:
            if not self.whole:
                values.append(self._reach(level * (below + self.total + above) - below))
                continue
            place = level * np.maximum(self.total - 1, 0)
            low = np.floor(place + 1e-9)
            rest = np.clip(place - low, 0, 1)
            first = self._reach(low + 0.5)
            second = self._reach(np.minimum(low + 1.5, self.total - 0.5))
            # between neighbours as numpy's lerp, so that equal neighbours give their value
            values.append(np.where(rest > 1e-9, first + (second - first) * rest, first))
        return np.stack(values, axis=1)

    def _reach(self, target: np.ndarray) -> np.ndarray:
        """Return the least value at which the running mass reaches a target (S, k); the first or last value beyond these."""
        out = np.full(target.shape, np.nan)
        starts, value = self.atoms.starts, self.atoms.value
        for x in range(target.shape[1]):
            rows = np.flatnonzero(self.total[:, x] > 0)
            if not rows.size:
                continue
            aim = np.minimum(target[rows, x], self.total[rows, x] * (1 - 1e-15)) * (1 - 1e-13)
            cumulative = self._cumulative[rows, :, x]
            place = np.minimum((cumulative[:, 1:] < aim[:, None]).sum(axis=1), cumulative.shape[1] - 2)
            inside = self.mass[rows, place, :, x]
            aim = aim - cumulative[np.arange(rows.size), place]
            low, high = starts[place], np.maximum(starts[place + 1] - 1, starts[place])
            while (low < high).any():
                middle = (low + high) // 2
                running = (inside * self.atoms.prefix[middle]).sum(axis=1)
                reached = running >= aim
                high = np.where(reached, middle, high)
                low = np.where(reached, low, np.minimum(middle + 1, high))
            out[rows, x] = value[low]
        known = self.total > 0
        return np.where(known & (target <= 0), value[0], np.where(known & (target > self.total), value[-1], out))

    def per_bin(self) -> np.ndarray:
        """Return P(bin | group), shape (S, m, k): the distribution of an open category."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.mass.sum(axis=2) / self.total[:, None]


def hangs_on(value: np.ndarray, weight: np.ndarray) -> int:
    """Return on how many records the mean hangs: the fewest with half of the squared distances, 0 where it has an interval.

    An interval of a mean holds where the variance is finite: where excesses over a high threshold have a Pareto law of a
    shape below one half. The shape is fitted as for importance weights (Vehtari et al., 2024), on either side; so few
    records as make half of the variance have to agree, because rounding bends the fit. A mean that depends on one record
    needs no fit.

    Parameters
    ----------
    value : (n,) array
    weight : (n,) array
    """
    pull = weight * (value - np.average(value, weights=weight))
    squares = np.sort(pull**2)[::-1]
    total = squares.sum()
    if not total > 0:
        return int(len(value) == 1)
    few = int(np.searchsorted(np.cumsum(squares), total / 2)) + 1
    if few == 1 or (few < ROOTS * len(value) ** 0.5 and _shape(pull) >= SHAPE):
        return few
    return 0


def _shape(pull: np.ndarray) -> float:
    """Return the larger Pareto shape of the two tails, as far as there are enough values to fit one."""
    apart = _untied(pull)
    shapes = [-np.inf]
    for side in (apart - apart[0], apart[-1] - apart):
        side = side[side > 0]
        if len(side) >= LEAST_WEIGHED:
            shapes.append(smooth(np.log(side))[1])
    return max(shape for shape in shapes if not np.isnan(shape) and shape < np.inf)


def _untied(value: np.ndarray) -> np.ndarray:
    """Return values in order, ties spread evenly up to halfway to the neighbours: a density needs values that differ."""
    distinct, counts = np.unique(value, return_counts=True)
    gap = np.diff(distinct)
    place = np.repeat(np.arange(len(distinct)), counts)
    within = (np.arange(len(value)) - (np.cumsum(counts) - counts)[place] + 0.5) / counts[place] - 0.5
    return distinct[place] + within * np.where(within < 0, np.append(gap[:1], gap)[place], np.append(gap, gap[-1:])[place])
