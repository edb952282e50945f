"""What a scan says of its source: parts that differ, reports that came too often, supports that no P explains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ldpbayes.collections.data import design_in_words
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.scanning.partials import ChannelSums


class Drift(NamedTuple):
    """The test that parts of a source have the same support counts, but for chance.

    Attributes
    ----------
    over : {"files of a cell", "files", "cells"}
        Files are those of all cells together where no cell is in two, or the cells are very many.
    statistic, df : float
        χ² of the counts of all parts against their sum, and its degrees of freedom.
    p_value : float
    worst : str
        The part that differs most.
    category : int
        The place of the category that differs most by itself; −1 where all are too rare to say.
    category_p_value : float
        Of its counts, times the number of categories; nan where all are too rare.
    """

    over: str
    statistic: float
    df: float
    p_value: float
    worst: str
    category: int
    category_p_value: float


class Duplicates(NamedTuple):
    """How often equal reports came among distinct reports that their content chose.

    Attributes
    ----------
    share, expected : float
        1 − (distinct reports)/(reports), and what the design leads one to expect of the same reports.
    share_error : float
        Standard error of ``share`` as that of all reports, not only of the chosen; 0 where all are.
    most : int
        How often one report came.
    p_value : float
        Upper bound of the chance that any report of the design comes as often as one did.
    share_p_value : float
        Upper bound of the chance that so many reports repeat another one, whatever P is; nan for very many categories.
    channel : str
        Through which the reports came.
    """

    share: float
    share_error: float
    expected: float
    most: int
    p_value: float
    share_p_value: float
    channel: str


@dataclass(frozen=True)
class Monitor:
    """What is known of the source of a scan.

    Attributes
    ----------
    drifts : tuple of Drift
    duplicates : tuple of Duplicates
        One a channel, where reports are not counted.
    needs : str
        What a test would need that was not made; empty where all were.
    """

    drifts: tuple[Drift, ...] = ()
    duplicates: tuple[Duplicates, ...] = ()
    needs: str = ""


#: What scans without a test of either kind say of it.
OF_FILES = (
    "Drift was not tested: it needs two files or more, such as one a day, and reports over at most 1,024 categories whose "
    "counts have a known covariance."
)
OF_CELLS = "Drift between cells was not tested: pilot_by names the columns whose values, where they agree, make cells alike."
OF_COUNTS = "Duplicates were not tested: equal reports are many in any sample where reports are counted."
OF_USERS = "Neither drift nor duplicates were tested: reports of one user go together, and both tests need independent ones."
OF_SUMS = (
    "Neither drift nor duplicates were tested: sums of scans and files of them keep no parts; scan all of their files "
    "together."
)


def drift(over: str, channels: Iterable[tuple[AbstractProtocol, Mapping[str, np.ndarray]]]) -> Drift | None:
    """Return the test of parts: of each channel and group of parts that should agree.

    Σ_k (C_k − n_k q)ᵀ Σ⁻ (C_k − n_k q)/n_k with q of all parts of a group, and Σ the covariance of the supports of one
    report at the unbiased shares p of q, which agree with it: P(x and y are supported) = ν + (ω − ν)(p_x + p_y) of
    ``pair_rates``, of independent bits without; of reports that are labels diag(q) − q qᵀ. Its degrees of freedom are the
    parts less one times the rank of Σ. A jump of one category is lost among many: each is tested by itself as well, where
    every part expects LEAST_EXPECTED of it.

    Parameters
    ----------
    over : str
    channels : iterable of (protocol, mapping of name to arrays (1 + a,) of the number of reports and counts)
    """
    statistic = df = 0.0
    worst, each, freedom = ("", -1.0), np.zeros(1), np.zeros(1)
    for protocol, parts in channels:
        if len(parts) < 2:
            continue
        from ldpbayes.fitness.goodness import LEAST_EXPECTED

        table = np.array(list(parts.values()), dtype=float)
        n, counts = table[:, 0], table[:, 1:]
        q, joint = counts.sum(axis=0) / n.sum(), np.zeros((counts.shape[1],) * 2)
        if (counts.sum(axis=1) != n).any():  # else every report is, or supports, one label
            if protocol.hit_rates is None:
                continue
            (hit, other), rates = protocol.hit_rates, protocol.pair_rates()
            if rates is None and (supports := protocol.supports()) is not None and supports.hashed is None:
                continue  # of sets so small or so large that they have no rates of pairs
            shares = (q - other) / (hit - other)
            neither, one = (other**2, hit * other) if rates is None else (rates.neither, rates.one)
            joint += neither + (one - neither) * np.add.outer(shares, shares)
        np.fill_diagonal(joint, q)
        values, vectors = np.linalg.eigh(joint - np.outer(q, q))
        some = values > 1e-9 * values.max()
        terms = (((counts - n[:, None] * q) @ vectors[:, some]) ** 2 / values[some]).sum(axis=1) / n
        statistic, df = statistic + terms.sum(), df + (len(table) - 1) * some.sum()
        name = " and ".join(parts) if len(parts) == 2 else list(parts)[terms.argmax()]  # of two neither is the odd one
        worst = max(worst, (name, float(terms.max())), key=lambda part: part[1])
        known = n.min() * np.minimum(q, 1 - q) >= LEAST_EXPECTED
        variance = n[:, None] * np.where(known, q * (1 - q), 1.0)
        each = each + np.where(known, ((counts - n[:, None] * q) ** 2 / variance).sum(axis=0), 0.0)
        freedom = freedom + known * (len(table) - 1)
    if not df:
        return None
    from scipy.special import chdtrc

    chances = np.where(freedom > 0, chdtrc(np.maximum(freedom, 1), each), np.inf)
    first, among = int(chances.argmin()), int((freedom > 0).sum())
    alone = (first, float(min(chances[first] * among, 1.0))) if among else (-1, np.nan)
    return Drift(over, float(statistic), float(df), float(chdtrc(df, statistic)), worst[0], *alone)


def duplicates(protocol: AbstractProtocol, sums: ChannelSums, n: float, shares: np.ndarray) -> Duplicates | None:
    """Return how often the distinct reports that were chosen by content came, at these shares of all reports together."""
    if sums.chosen is None or not len(sums.chosen.counts):
        return None
    from ldpbayes.fitness.constants import ROW_ENTRIES
    from ldpbayes.fitness.copies import rarity

    reports, counts = sums.chosen.reports, sums.chosen.counts.astype(float)
    rows: Any = protocol.rows(reports, counts)
    chances = np.exp(rows.log_constants + protocol.log_public_share()) * rows.matvec(shares)
    often = n * chances
    expected = np.where(often > 1e-8, often / -np.expm1(-np.maximum(often, 1e-8)), 1.0).sum()
    p_value = float(min(rarity(counts, chances, n).min(), 1.0))
    share, by_design = 1 - counts.size / counts.sum(), 1 - counts.size / float(expected)
    error = (1 - share) * float(counts.std()) / counts.mean() / np.sqrt(counts.size) if sums.chosen.level else 0.0
    of_share = np.nan
    if rows.n_rows * rows.n_categories <= ROW_ENTRIES:
        each = n * np.exp(rows.log_constants + protocol.log_public_share())[:, None] * rows.dense()
        of_share = repeats(counts.sum(), often, each, n)
    channel = design_in_words(protocol.design, protocol.parameters())
    return Duplicates(share, error, by_design, int(counts.max()), p_value, of_share, channel)


def repeats(total: float, often: np.ndarray, each: np.ndarray, n: float) -> float:
    """Return an upper bound, over all P, of the chance that distinct reports came so often, given which of them came.

    Of Poisson(n) reports the counts N of those that came are independent Poisson(λ), given that they are above 0. By
    Chernoff P(Σ N ≥ T) ≤ exp(Σ K(λ) − tT) with K(λ) = log[(exp(λeᵗ) − 1)/(exp(λ) − 1)] for every t ≥ 0. K is convex in λ,
    which is linear in P: Σ K is largest where all people have one category. Of n reports everything is at most
    1/P(Poisson(n) = n) ≤ √(2πn) exp(1/(12n)) times as likely as of Poisson(n).

    Parameters
    ----------
    total : float
        T, at least one for each.
    often : (m,) array
        λ at the estimated P, for which t is the best.
    each : (m, a) array
        λ where all people have one category.
    n : float
        Reports, chosen or not.
    """
    from scipy.optimize import brentq

    often = np.maximum(often, 1e-300)

    def excess(t):
        tilted = often * np.exp(t)
        return float((tilted / -np.expm1(-tilted)).sum()) - total

    highest = float(np.log(total / often.sum()))
    if highest <= 0 or excess(0.0) >= 0:
        return 1.0
    t = brentq(excess, 0.0, highest)

    def log_mgf(rates):
        tilted = rates * np.exp(t)
        return (tilted - rates + np.log(np.expm1(-tilted) / np.expm1(-rates))).sum()

    largest = max(log_mgf(np.maximum(rates, 1e-300)) for rates in each.T)  # one by one: the matrix may be large
    return float(np.exp(min(largest - t * total + np.log(2 * np.pi * n) / 2 + 1 / (12 * n), 0.0)))


def beyond(protocol: AbstractProtocol, n: float, supports: Any) -> tuple[float, float] | None:
    """Return the share of supports that no distribution explains, and the p-value of the largest excess; None if unknown.

    A report supports x with a probability from h to g. What a count has below n h or above n g is beyond the design.

    Parameters
    ----------
    protocol : AbstractProtocol
    n : float
    supports : (a,) array or None
    """
    if supports is None or protocol.hit_rates is None:
        return None
    from scipy.special import ndtr

    g, h = protocol.hit_rates
    excess = np.maximum(np.maximum(n * h - supports, supports - n * g), 0.0)
    sd = np.sqrt(n * np.where(supports < n * h, h * (1 - h), g * (1 - g)))
    z = np.max(np.divide(excess, sd, out=np.where(excess > 0, np.inf, 0.0), where=sd > 0))
    return float(excess.sum() / max(supports.sum(), 1.0)), float(min(1.0, supports.size * ndtr(-z)))
