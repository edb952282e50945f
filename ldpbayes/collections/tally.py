"""Tally: distinct reports and their counts under one protocol."""

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks, rooms
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.likelihoods import Rows
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.formats import distinct


@dataclass(frozen=True, eq=False)
class Tally:
    """Reports of one protocol, as numbers: the distinct ones with their counts; with ``user``, one history for each user.

    Parameters
    ----------
    protocol : AbstractProtocol
    reports : array
        Reports, repeated or not; merged and sorted.
    counts : (m,) array of whole numbers, optional
        Users behind each entry of reports; one each by default.
    name : str
        Name of the channel in the collection.
    categories : sequence of str, optional
        Labels of the categories, for results; they do not take part in comparisons.
    user : (m,) array, optional
        Who sent each report, where a user may have sent several. Every user is then one report of the tally: a history. The
        protocol is one of repeated reports, or any other, by which a user's reports are then made anew each time.

    Examples
    --------
    >>> from ldpbayes.protocols.grr import GRR
    >>> tally = Tally(GRR(3, epsilon=1.0), [0, 2, 2, 1, 2])
    >>> tally.reports.tolist(), tally.counts.tolist()
    ([0, 1, 2], [1, 1, 3])
    >>> of_users = Tally(GRR(3, epsilon=1.0), [0, 2, 2, 1, 2], user=["ann", "bo", "bo", "cy", "cy"])
    >>> of_users.n_reports, of_users.protocol.times
    (3, ((1, 1), (2, 2)))
    """

    protocol: AbstractProtocol
    reports: np.ndarray
    counts: np.ndarray = None  # type: ignore[assignment]  # None stands for ones, in the constructor alone
    name: str = "all"
    categories: tuple[str, ...] | None = None
    user: InitVar[ArrayLike | None] = None

    if TYPE_CHECKING:  # anything like an array goes in; arrays come out

        def __init__(
            self,
            protocol: AbstractProtocol,
            reports: ArrayLike,
            counts: ArrayLike | None = None,
            name: str = "all",
            categories: Sequence[str] | None = None,
            user: ArrayLike | None = None,
        ) -> None: ...

    def __repr__(self) -> str:
        unit = "users" if self.protocol.repeats() else "reports"
        return f"<Tally of {self.n_reports:,} {unit} through {self.protocol.design}: {len(self.counts):,} distinct>"

    def __post_init__(self, user: ArrayLike | None) -> None:
        if not isinstance(self.protocol, AbstractProtocol):
            raise ArgumentError(f"protocol must be a protocol of ldpbayes, got {type(self.protocol).__name__}.")
        checks.text(self.name, "name")
        if (
            len(self.protocol.report_fields) == 1
            and checks.array_of(self.reports, "reports", "numbers, one report a row").dtype.kind in "US"
        ):
            raise ArgumentError(
                "reports must be numbers, the protocol's own form of a report, got text; read takes files and frames of "
                "labels, and protocol.parse_reports([texts], labels) turns them into reports."
            )
        try:
            if user is not None:
                self._keep(*distinct(self._histories(user)))
                return
            if self.counts is None:
                self._keep(*distinct(self.protocol.check_reports(self.reports)))
                return
            reports = self.protocol.check_reports(self.reports)
        except DataError as err:
            where = "" if err.line is None else f" (position {err.line}); counts are the argument after the reports"
            raise DataError(f"{err.message}{where}", field=err.field or self.name) from None
        self._settle(reports, checks.counts(self.counts, "counts", len(reports)))

    def _histories(self, user: ArrayLike) -> np.ndarray:
        """Return the histories of long data, one report a row, and keep their protocol."""
        if self.counts is not None:
            raise ArgumentError("counts must be left out where user is given: every row is one report of one user.")
        repeats = self.protocol.repeats()
        reports = (self.protocol if repeats is None else repeats.single).check_reports(self.reports)
        made = rooms.function(rooms.brought("USERS")["histories"])
        protocol, histories = made(self.protocol, reports, user)
        object.__setattr__(self, "protocol", protocol)
        return histories

    @classmethod
    def trusted(
        cls,
        protocol: AbstractProtocol,
        reports: np.ndarray,
        counts: np.ndarray,
        name: str = "all",
        categories: tuple[str, ...] | None = None,
    ) -> "Tally":
        """Return a tally of reports that a reader has parsed: canonical reports and int64 counts, not checked again.

        Parameters
        ----------
        protocol : AbstractProtocol
        reports : array
            As ``protocol.parse_reports`` or ``protocol.check_reports`` returns them.
        counts : (m,) int64 array
            None is negative.
        name : str
        categories : sequence of str, optional

        Raises
        ------
        DataError
            Where the counts add up to nothing, or to more than 10^12.
        """
        self = object.__new__(cls)
        for key, value in {"protocol": protocol, "name": name, "categories": categories}.items():
            object.__setattr__(self, key, value)
        self._settle(reports, counts)
        return self

    def _settle(self, reports: np.ndarray, counts: np.ndarray) -> None:
        """Merge the reports and keep them."""
        if counts.sum(dtype=float) > checks.MAX_COUNT:
            raise DataError(f"channel {self.name!r} has more than 10**12 reports")
        self._keep(*distinct(reports, counts))

    def _keep(self, reports: np.ndarray, counts: np.ndarray) -> None:
        """Keep distinct reports, their counts and the labels as they will stay."""
        if counts.sum() == 0:
            raise DataError(f"channel {self.name!r} has no reports")
        for array in (reports, counts):
            array.setflags(write=False)
        object.__setattr__(self, "reports", reports)
        object.__setattr__(self, "counts", counts)
        if self.categories is not None:
            labels = checks.labels(self.categories, "categories", f"{self.protocol.n_categories} labels")
            if len(labels) != self.protocol.n_categories:
                raise ArgumentError(f"categories must be {self.protocol.n_categories} labels, got {len(labels)}.")
            self.protocol.check_categories(labels)
            object.__setattr__(self, "categories", labels)

    def __add__(self, other: "Tally") -> "Tally":
        """Return the tally of both sets of reports; they must have the same protocol, and the same labels where both do."""
        if not isinstance(other, Tally):
            return NotImplemented
        labels = self.categories or other.categories
        if labels != (other.categories or labels):
            raise ArgumentError("tallies must have the same categories to be added, in the same order.")
        protocol = self.protocol.merged(other.protocol)
        if protocol is None:
            raise ArgumentError("tallies must have the same protocol to be added; put them in one Collection instead.")
        reports = [self.reports, other.reports]
        if protocol is not self.protocol:  # histories of another length
            reports = [protocol.check_reports(rows) for rows in reports]
        counts = np.concatenate([self.counts, other.counts])
        return Tally.trusted(protocol, np.concatenate(reports), counts, self.name, labels)

    def __radd__(self, other: int) -> "Tally":
        """Return the tally itself where ``sum`` adds it to zero."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __hash__(self) -> int:
        return hash((self.protocol.name, self.name, self.reports.tobytes(), self.counts.tobytes()))

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, Tally) and (self.protocol, self.name) == (other.protocol, other.name)):
            return False
        return np.array_equal(self.reports, other.reports) and np.array_equal(self.counts, other.counts)

    @property
    def n_reports(self) -> int:
        """Number of users."""
        return int(self.counts.sum())

    @cached_property
    def rows(self) -> Rows:
        """Likelihood rows of the reports that came in at least once."""
        return rows_weighed(self, self.counts)


def rows_weighed(tally: Tally, weights: np.ndarray) -> Rows:
    """Return the likelihood rows of the reports with a weight above zero, whose weights stand for counts.

    Parameters
    ----------
    tally : Tally
    weights : (m,) array
        One for each distinct report.

    Raises
    ------
    DataError
        Where a report has probability zero whatever the distribution is.
    """
    seen = weights > 0
    # Large tallies of distinct reports are not copied.
    reports, weights = (tally.reports, weights) if seen.all() else (tally.reports[seen], weights[seen])
    rows = tally.protocol.rows(reports, weights)
    if (rows.matvec(np.ones(rows.n_categories)) <= 0).any():
        raise DataError(
            f"channel {tally.name!r} has reports with probability zero under every distribution; check the channel, or "
            "state how those report who ignore it (with_noncompliers)"
        )
    return rows


def excess_of(tallies: Iterable[Tally]) -> np.ndarray | None:
    """Return ``Summary.excess`` of reports that were kept, None where the sizes of some have no known law.

    Parameters
    ----------
    tallies : iterable of Tally
        Sampling weights do not count: the law is the same for every respondent.
    """
    out = np.zeros(2)
    for tally in tallies:
        if (law := tally.protocol.size_law()) is None:
            return None
        out += law.excess(tally.n_reports, tally.counts @ tally.protocol.report_sizes(tally.reports))
    return out
