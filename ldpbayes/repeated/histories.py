"""The interface of protocols whose report is a user's whole history, and what all of them share."""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ldpbayes import arrays, checks, entropy
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, shown
from ldpbayes.likelihoods import DenseRows
from ldpbayes.protocols.base import MAX_LISTED, AbstractProtocol, Ancillary, log_above
from ldpbayes.protocols.decoding import SupportDecoder
from ldpbayes.protocols.formats import Histories
from ldpbayes.protocols.laws import ListLaw, SupportLaw

if TYPE_CHECKING:
    from ldpbayes.likelihoods import Rows

#: Memory: Most reports of one user.
MAX_TIMES = 2**16
#: Memory: Entries of the rows of histories: 2 GiB of doubles.
MAX_ROW_ENTRIES = 2**28
#: Memory: Histories that are listed.
MAX_HISTORIES = 2**16
#: Mathematics: Above so many reports the exact level is its limit, to the last digit of any setting of use.
MAX_EXACT_TIMES = 2**12
Times = int | Mapping[int, int] | Sequence[tuple[int, int]] | None


class AbstractHistories(AbstractProtocol):
    """A protocol whose report is everything that one user sent: one row a user, exact for any number of reports.

    The number T of a user's reports is public and does not depend on the value. ``times`` is its law: the rows hold for any
    T up to the largest, and what needs a law (the channel, simulation, the variance of the oracle) uses that one.

    Canonical histories are (m, k) int64 arrays of sufficient statistics, T among them or its sum. Subclasses are final
    frozen dataclasses.

    Attributes
    ----------
    times : tuple of (int, int), or None
        Pairs (T, weight): a share weight / Σ weights of the users sends T reports. None: any number, and no law.
    epsilon_infinity : float
        Level of any number of reports on one value; inf for fresh reports.
    epsilon_one : float
        Level of one report.
    epsilon_changing : float
        Level of any number of reports on any number of values whose permanent answers are drawn from one key: between users
        who take new and former ones at the same times. That and when a user goes over to another one is not hidden.
    """

    times: Any  # a Times comes in
    epsilon_infinity: float
    epsilon_one: float

    @property
    def epsilon_changing(self) -> float:  # type: ignore[no-redef]
        return self.n_categories * self.epsilon_infinity

    #: Whether a permanent answer ties the reports of a user together.
    memoized: ClassVar[bool] = True

    # ---- what a subclass states ----------------------------------------------------------------------------------------
    @property
    @abc.abstractmethod
    def single(self) -> AbstractProtocol:
        """The protocol of one report by itself: its form in long data, one report a line."""

    @abc.abstractmethod
    def gather(self, reports: np.ndarray, user: np.ndarray, names: Sequence) -> np.ndarray:
        """Return the histories of users 0 … len(names) − 1 from canonical single reports.

        Parameters
        ----------
        reports : array
            As ``single.check_reports`` returns them.
        user : (m,) int array
            Whose report it is; every user has at least one.
        names : sequence
            What users are called, for messages.

        Raises
        ------
        DataError
            Where the reports of a user contradict each other.
        """

    @abc.abstractmethod
    def lengths(self, histories: np.ndarray) -> np.ndarray:
        """Return the number T of reports of every history, (m,) integers."""

    @abc.abstractmethod
    def likelihoods(self, histories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows L, shape (m, a), log constants) with P(history | T, x) = exp(log constant) L_x, largest L near 1."""

    @abc.abstractmethod
    def supported(self, histories: np.ndarray) -> np.ndarray:
        """Return in how many of its reports each history supports each category, shape (m, a) integers."""

    def level_ratio(self, times: int) -> Fraction | None:
        """Return the exact largest likelihood ratio of a history of so many reports on one value; None: infinite."""

    @abc.abstractmethod
    def draw(self, values: np.ndarray, times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return histories of ``times`` reports each, drawn with a numpy Generator."""

    @abc.abstractmethod
    def draw_one(self, value: int, times: int) -> np.ndarray:
        """Return one history drawn from the operating system's entropy; the draws are the same for every value."""

    def list_histories(self, times: int) -> np.ndarray | None:
        """Return every history of so many reports, or None where there are too many."""
        return None

    def rates(self) -> "Rates | None":
        """Return what the mean of a user's supports obeys, or None where supports have no such law."""
        return None

    @property
    def n_leading(self) -> int:
        """Columns of a canonical history before those of the last field."""
        return len(self.leading_fields)

    # ---- times and levels ----------------------------------------------------------------------------------------------
    @property
    def epsilon(self) -> float:  # type: ignore[override]  # a field of other protocols
        """Exact level of the longest history; without ``times`` that of any number of reports."""
        return self._limit if self.times is None else self.spent(max(t for t, _ in self.times))

    #: Level of any number of reports.
    _limit = property(lambda self: self.epsilon_infinity)

    def spent(self, times: int) -> float:
        """Return the exact level, in nats, of so many reports on one value: log of the largest likelihood ratio.

        It is at most min(T ε_1, ε_∞) with a permanent answer, and T ε_1 with fresh reports.
        """
        times = checks.integer(times, "times", 1, checks.MAX_COUNT)
        if times > MAX_EXACT_TIMES and self.memoized:
            return self._limit
        level = self._levels.get(times)
        if level is None:
            ratio = self.level_ratio(times)
            level = self._levels[times] = math.inf if ratio is None else log_above(ratio)
        return level

    @cached_property
    def _levels(self) -> dict[int, float]:
        return {}

    @property
    def law(self) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of reports, their shares); an ArgumentError where ``times`` is None."""
        if self.times is None:
            raise ArgumentError(
                f"times must be stated: how many reports a user of {self.name} sends, such as times=7; got None."
            )
        numbers, weights = np.array(self.times, dtype=float).T
        return numbers.astype(np.int64), weights / weights.sum()

    def repeats(self):
        return self

    def merged(self, other):
        if not isinstance(other, type(self)) or replace(self, times=None) != replace(other, times=None):
            return None
        if self.times is None or other.times is None:
            return replace(self, times=None)
        if len(self.times) == len(other.times) == 1 and self.times[0][0] == other.times[0][0]:
            return self
        both = dict(self.times)
        for times, weight in other.times:
            both[times] = both.get(times, 0) + weight
        return replace(self, times=tuple(sorted(both.items())))

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def n_outputs(self):
        every = self._every
        return None if every is None else len(every)

    def list_reports(self):
        return self._every.copy()

    @cached_property
    def _every(self):
        if self.times is None:
            return None
        lists = [self.list_histories(times) for times, _ in self.times]
        if any(part is None for part in lists) or sum(map(len, lists)) > MAX_HISTORIES:
            return None
        return np.unique(np.concatenate(lists), axis=0)

    @property
    def report_format(self):
        return Histories(self.leading_fields, self.report_fields[-1], self.n_listed, self.gaps)

    def check_reports(self, reports):
        array = self.report_format.check(reports)
        self._check_lengths(self.lengths(array))
        self.check_histories(array)
        return array

    #: Numbers that the last field of a history lists, and whether some of them may be missing.
    n_listed: int
    gaps: ClassVar[bool] = False

    def check_histories(self, histories: np.ndarray) -> None:
        """Raise a DataError, with the position as line, on the first history that cannot be; by default none."""

    def _check_lengths(self, lengths):
        most = MAX_TIMES if self.times is None else max(t for t, _ in self.times)
        bad = np.flatnonzero((lengths < 1) | (lengths > most))
        if bad.size:
            i = int(bad[0])
            raise DataError(f"history {i} has {lengths[i]} reports, it must have 1 to {most}", line=i)

    def parse_reports(self, columns, categories):
        return self.check_reports(self.report_format.parse(columns, categories))

    @property
    def leading_fields(self) -> tuple[tuple[str, int], ...]:
        """(name, limit) of the fields that are one number each."""
        return ()

    def report_columns(self, reports, categories):
        return (*reports[:, : self.n_leading].T, self.report_format.text(reports))

    # ---- server --------------------------------------------------------------------------------------------------------
    def rows(self, reports: np.ndarray, counts: np.ndarray) -> "Rows":
        if len(reports) * self.n_categories > MAX_ROW_ENTRIES:
            raise InfeasibleError(
                f"The rows of {len(reports):,} histories over {self.n_categories:,} categories are too large (limit "
                f"{MAX_ROW_ENTRIES:,} entries); fit parts of the users, or merge categories."
            )
        lengths = self.lengths(reports)
        matrix, constants = self.likelihoods(reports)
        if self.times is not None:
            numbers, shares = self.law
            place = np.minimum(np.searchsorted(numbers, lengths), len(numbers) - 1)
            listed = numbers[place] == lengths  # of another number of reports the row is that given the number
            constants = constants + np.where(listed, np.log(shares[place]), 0.0)
        supports = self.supported(reports) / lengths[:, None] if self.rates() is not None else None
        return DenseRows(matrix, counts, constants, supports)

    def has_full_rank(self):
        return True

    @cached_property
    def _decoder(self):
        # Every user counts once, and the variance knows that a user's reports share one value and one permanent answer.
        rates = self.rates()
        if rates is None or self.times is None:
            return super()._decoder
        noise = tuple(rates.noise(share, *self.law) for share in (rates.true, rates.other))
        return SupportDecoder(self.n_categories, *rates.first_of_both, noise)

    def ancillaries(self):
        rates = self.rates()
        return () if rates is None else self._agreement(self.supported, rates.on, rates.off)

    def _agreement(self, ones, on, off, shown=lambda histories: None):
        """Return what a user's reports on one permanent answer have in common, which is less where the answer changed.

        A report shows a bit as one with probability r where the permanent answer has it, and s where it has not. Two reports
        have (y_t − r)(y_u − s) + (y_u − r)(y_t − s) of mean zero in both cases, and of −(r − s)² where they are on different
        bits. ``ones`` and ``shown`` of Histories are how many reports show each bit as one, (m, j), and which bits are
        shown, or None for all; ``on`` is r, ``off`` is s.
        """

        def values(histories):
            times, count, seen = self.lengths(histories)[:, None], ones(histories), shown(histories)
            pairs = count * (count - 1) - (times - 1) * ((on + off) * count - times * on * off)
            return (pairs if seen is None else np.where(seen, pairs, 0.0)).sum(axis=1) / np.maximum(times[:, 0] - 1, 1)

        return (Ancillary("agreement of a user's reports on one unchanging value", values, 0, mean=0.0),)

    def report_law(self):
        if self.times is None:
            return None
        if self.n_outputs is not None and self.n_outputs <= MAX_LISTED:
            return ListLaw(self)
        rates = self.rates()
        return None if rates is None else SupportLaw.of_rates(self, *rates.first_of_both)

    # ---- client --------------------------------------------------------------------------------------------------------
    def randomize(self, values, rng):
        numbers, shares = self.law
        times = np.full(values.size, numbers[0]) if len(numbers) == 1 else rng.choice(numbers, size=values.size, p=shares)
        return self.draw(values, times, rng)

    def randomize_one(self, value):
        self.law  # noqa: B018  (refuses a protocol without one)
        drawn, total = entropy.below(sum(weight for _, weight in self.times)), 0
        for times, weight in self.times:  # the number of reports is public
            total += weight
            if drawn < total:
                return self.draw_one(value, times)
        raise AssertionError("a draw below the sum of the weights")

    # ---- parameters ----------------------------------------------------------------------------------------------------
    def parameters(self):
        out = super().parameters()
        if self.times is not None:
            (first, *others) = self.times
            out["times"] = [list(pair) for pair in self.times] if others else first[0]
        return out


@dataclass(frozen=True, eq=False)
class Rates:
    """The law of a user's supports: a report supports x w.p. u r + (1 − u) s, and so do two reports, jointly with squares.

    Attributes
    ----------
    true, other : (float, float)
        u of the value and of any other category: the chance that the permanent answer holds x.
    on, off : float
        r and s: the chance that a report supports x where the permanent answer holds it, and where it does not.
    seen : float
        Chance that the user's reports can hold x at all.
    """

    true: float
    other: float
    on: float
    off: float
    seen: float = 1.0

    def first(self, held):
        """Return the chance that a report supports x."""
        return self.seen * (held * self.on + (1 - held) * self.off)

    @property
    def first_of_both(self):
        """(g, h): the chances that a report supports the value, and another category."""
        return self.first(self.true), self.first(self.other)

    def noise(self, held, times, shares):
        """Return the variance of the share of a user's reports that support x, averaged over the law of T."""
        first = self.first(held)
        pair = self.seen * (held * self.on**2 + (1 - held) * self.off**2)
        return float(shares @ (first / times + (1 - 1 / times) * pair - first**2))


def check_times(times: Times) -> tuple[tuple[int, int], ...] | None:
    """Return the law of the number of reports as sorted pairs (T, weight).

    Parameters
    ----------
    times : int, mapping, sequence of pairs, or None
        One number for everybody; or from numbers to whole weights, such as how many users sent so many.

    Returns
    -------
    tuple of (int, int), or None

    Raises
    ------
    ArgumentError
        On anything else.
    """
    if times is None:
        return None
    if isinstance(times, (int, np.integer, float, str)):
        return ((checks.integer(times, "times", 1, MAX_TIMES), 1),)
    rule = "a number of reports, or pairs (reports, weight)"
    pairs = list(times.items()) if isinstance(times, Mapping) else checks.entries(times, "times", rule)
    if not pairs or any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in pairs):
        raise ArgumentError(f"times must be {rule}, got {shown(times)}.")
    out = tuple(
        sorted((checks.integer(t, "times", 1, MAX_TIMES), checks.integer(w, "the weight of times", 1)) for t, w in pairs)
    )
    if len({t for t, _ in out}) < len(out):
        raise ArgumentError(f"times must state every number of reports once, got {shown(times)}.")
    return out


def check_level_pair(epsilon_infinity: float, epsilon_one: float) -> tuple[float, float]:
    """Return (ε_∞, ε_1), where one report must give away less than any number of them."""
    infinity, single = checks.epsilon(epsilon_infinity, "epsilon_infinity"), checks.epsilon(epsilon_one, "epsilon_one")
    if not single < infinity:
        raise ArgumentError(
            f"epsilon_one must be below epsilon_infinity ({infinity!r}), the level of any number of reports, got {single!r}."
        )
    return infinity, single


def count_vectors(size: int, total: int) -> np.ndarray | None:
    """Return every vector of ``size`` whole numbers with this sum, or None where there are too many."""
    return arrays.count_vectors(size, total) if math.comb(total + size - 1, total) <= MAX_HISTORIES else None


def every_history(spans: Sequence[int]) -> np.ndarray | None:
    """Return every vector whose entries are below these numbers, or None where there are too many."""
    if math.prod(spans) > MAX_HISTORIES:
        return None
    return np.indices(tuple(spans)).reshape(len(spans), -1).T.astype(np.int64)


def counts_of(place: np.ndarray, user: np.ndarray, n_users: int, size: int) -> np.ndarray:
    """Return how many reports of each user are at each of ``size`` places, shape (n_users, size)."""
    return np.bincount(user * size + place, minlength=n_users * size).reshape(n_users, size)


def constant(values: np.ndarray, user: np.ndarray, names: Sequence, where: str, word: str) -> np.ndarray:
    """Return the value that all reports of each user share, or raise a DataError: "has reports {where}, 1 and 0; …"."""
    out = np.empty(len(names), dtype=values.dtype)
    out[user] = values
    bad = np.flatnonzero(out[user] != values)
    if bad.size:
        i = bad[0]
        name, both = names[user[i]], f"{out[user[i]]} and {values[i]}"
        raise DataError(f"user {name!r} has reports {where}, {both}; a user keeps one {word}")
    return out
