"""G² and X²: observed report counts against those expected at the maximum-likelihood estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, xlogy

from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.mle import maximize
from ldpbayes.fitness.base import Check
from ldpbayes.fitness.constants import COUNTED_ENTRIES
from ldpbayes.protocols.base import MAX_LISTED
from ldpbayes.protocols.laws import ListLaw

#: Rule: G² is χ² where every cell expects so many; X² where every cell expects one, and few less than that (Cochran 1954).
LEAST_EXPECTED, FEW = 5.0, 0.2
#: Time: Simulated tables, and the most cells that they may have.
REPLICATIONS, MAX_SPARSE = 999, 1024
#: Rule: Share of the level of the test at the boundary where it stands apart, since it is conservative next to it.
EDGE = 0.25
#: Mathematics: The log-likelihood falls by so many nats per unit of p_x from the estimate on: then p_x is zero and no free
#: parameter. A positive p_x falls by at most the certified gap over p_x.
MULTIPLIER_SLACK = 1e-2


def listed(tally: Tally) -> bool:
    """Return whether all possible reports of a tally can be counted, as independent draws of one law."""
    protocol = tally.protocol
    size = protocol.n_outputs
    return (
        size is not None and size <= MAX_LISTED and size * protocol.n_categories <= COUNTED_ENTRIES and not protocol.caveat
    )


def goodness_of_fit(
    collection: Collection,
    tallies: Sequence[Tally],
    rng: np.random.Generator,
    replications: int = REPLICATIONS,
    estimate: NDArray | None = None,
) -> tuple[Check, ...] | str:
    """Return the tests of the report counts at the estimate, none without degrees of freedom; or why there is none.

    G² = 2 Σ S log(S/E), E = n Qp̂ within every channel, with df = Σ_channels (reports − 1) − (rank of the stacked Q − 1). A
    report that cannot occur at p̂ is a cell less. Where some E is below 5, X² = Σ (S − E)²/E takes its place; where tables
    are sparse, X² is compared with that of simulated tables, each less its projection on the space that the parameters
    span, which is to first order what a new fit would remove.

    A category at zero whose multiplier Σ_j w_j L_jx/(Lp̂)_j / n is below one is a parameter less, and a degree of freedom
    more (Susko 2013). Where P is near the boundary but not on it, so much freedom makes the test conservative: z degrees of
    freedom too many among d + z, whose χ² has the sd √(2(d + z)). Where z² > 2d, two parts are therefore tested apart: X²
    less its projection on the directions of all categories, which no boundary touches, and the rest, which says whether
    reports ask for negative shares. A design without degrees of freedom has the second part alone.

    Parameters
    ----------
    collection : Collection
    tallies : sequence of Tally
        Its channels whose reports can be listed.
    rng : numpy.random.Generator
    replications : int
        Simulated tables where tables are sparse.
    estimate : (a,) array, optional
        The maximum-likelihood estimate of the collection, where it is known.

    Returns
    -------
    tuple of Check, or str

    References
    ----------
    Susko (2013), Biometrika 100.
    """
    tested = collection if len(tallies) == len(collection.tallies) else replace(collection, tallies=tuple(tallies))
    if sum(tally.protocol.n_outputs - 1 for tally in tallies) < 1:
        return ()
    p = maximize(tested.rows).p if estimate is None or tested is not collection else estimate
    table = _Table.of(tallies, p)
    df, inside, fixed = _freedom(tallies, table)
    if df < 1:
        return ()
    counts, expected = table.counts[table.possible], table.expected[table.possible]
    plain = expected.min() >= 1 and (expected < LEAST_EXPECTED).mean() <= FEW
    if not plain and expected.size > MAX_SPARSE:
        users = int(table.sizes.sum())
        return f"{expected.size:,} possible reports are too many for {users:,} users: counts were not compared."
    likelihood_ratio = 2 * float(xlogy(counts, np.where(counts > 0, counts / expected, 1.0)).sum())
    statistic = float(((counts - expected) ** 2 / expected).sum())
    detail = f"G² = {likelihood_ratio:.4g}, X² = {statistic:.4g}, {df} degrees of freedom"
    apart = 0 < inside < df and (df - inside) ** 2 > 2 * inside
    if not apart and expected.min() >= LEAST_EXPECTED:
        # E G² exceeds its limit by this factor to the next order in 1/n (Williams 1976).
        factor = 1 + ((1 / expected).sum() - (1 / table.sizes).sum()) / (6 * (expected.size - len(tallies)))
        p_value = float(chdtrc(df, likelihood_ratio / factor))
        return (Check("G² of the report counts", "", likelihood_ratio, df, p_value, "chi-squared", detail=detail),)
    checks: tuple[Check, ...] = ()
    basis = table.directions(slice(None) if apart else ~fixed) if apart or not plain else np.empty((expected.size, 0))
    if apart:
        beyond = float(((((counts - expected) / np.sqrt(expected)) @ basis) ** 2).sum())
        p_value = float(chdtrc(df - inside, beyond))
        checks = (Check("X² of shares below zero", "", beyond, df - inside, p_value, "chi-squared", EDGE),)
        statistic, df = max(statistic - beyond, 0.0), inside
    overall = Check("X² of the report counts", "", statistic, df, float(chdtrc(df, statistic)), "chi-squared", detail=detail)
    if not plain:
        p_value = table.simulated(statistic, basis, rng, replications)
        overall = replace(overall, p_value=p_value, method="bootstrap")
    return (overall, *checks)


@dataclass(frozen=True, eq=False)
class _Table:
    """Observed counts of all reports of all channels, and those expected at an estimate.

    ``stacked`` holds the channels one below the other, ``weights`` the users of each row's channel, ``shares`` and ``sizes``
    the law of the reports and the users by channel; ``possible`` are the reports that can occur at the estimate.
    """

    counts: NDArray
    expected: NDArray
    stacked: NDArray
    weights: NDArray
    shares: list[NDArray]
    sizes: NDArray
    possible: NDArray

    @classmethod
    def of(cls, tallies: Sequence[Tally], p: NDArray) -> "_Table":
        channels = [tally.protocol.channel() for tally in tallies]
        sizes = np.array([float(tally.n_reports) for tally in tallies])
        shares = [channel @ p for channel in channels]
        expected = np.concatenate([n * share for n, share in zip(sizes, shares, strict=True)])
        counts = np.concatenate([ListLaw(tally.protocol).tally(tally.reports, tally.counts) for tally in tallies])
        weights = np.repeat(sizes, [len(channel) for channel in channels])
        return cls(counts, expected, np.concatenate(channels), weights, shares, sizes, expected > 1e-12 * weights)

    def directions(self, kept: Any) -> NDArray:
        """Return a basis of how some parameters move the expected counts, each over the root of the expectation."""
        moved = self.stacked[self.possible][:, kept]
        used = moved * (self.weights[self.possible] / np.sqrt(self.expected[self.possible]))[:, None]
        basis, singular, _ = np.linalg.svd(used, full_matrices=False)
        return basis[:, singular > singular[0] * max(used.shape) * np.finfo(float).eps]

    def simulated(self, statistic: float, basis: NDArray, rng: np.random.Generator, replications: int) -> float:
        """Return the p-value of X² among those of simulated tables, less what a new fit would remove to first order."""
        laws = zip(self.sizes, self.shares, strict=True)
        tables = np.concatenate([_tables(int(n), law / law.sum(), rng, replications) for n, law in laws], axis=1)
        expected = self.expected[self.possible]
        residuals = (tables[:, self.possible] - expected) / np.sqrt(expected)
        simulated = (residuals**2).sum(axis=1) - ((residuals @ basis) ** 2).sum(axis=1)
        return float((1 + (simulated >= statistic).sum()) / (1 + replications))


def _tables(n: int, law: NDArray, rng: np.random.Generator, size: int) -> NDArray:
    """Return tables of the counts of n users, (size, reports): user by user where these are fewer than the reports."""
    if n >= law.size:
        return rng.multinomial(n, law, size)
    reports = np.repeat(np.arange(law.size), rng.multinomial(n * size, law))  # of all users of all tables, in order
    place = rng.permutation(reports).reshape(size, n) + law.size * np.arange(size)[:, None]
    return np.bincount(place.ravel(), minlength=size * law.size).reshape(size, -1)


def _freedom(tallies: Sequence[Tally], table: _Table) -> tuple[int, int, NDArray]:
    """Return (degrees of freedom, those without the boundary, which categories are zeros that take no parameter)."""
    n, possible = table.sizes.sum(), table.possible
    ratio = np.divide(table.counts, table.expected, out=np.zeros_like(table.expected), where=possible)
    multipliers = table.stacked.T @ (ratio * table.weights) / n
    fixed = n * (1 - multipliers) > MULTIPLIER_SLACK
    free, whole = int(possible.sum()) - len(tallies), bool(possible.all())
    df = free - (_rank(tallies, table.stacked[possible][:, ~fixed], whole) - 1)
    inside = df
    if fixed.any() and df >= 1:
        inside = max(free - (_rank(tallies, table.stacked[possible], whole) - 1), 0)
    return df, inside, fixed


def _rank(tallies: Sequence[Tally], stacked: NDArray, whole: bool) -> int:
    """Return the rank of the stacked channels: full where some protocol has an oracle and all its reports are there."""
    if whole and any(tally.protocol.has_full_rank() for tally in tallies):
        return stacked.shape[1]
    return int(np.linalg.matrix_rank(stacked))
