"""Copies of one report: has some report come in more often than a distribution P lets it?"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import betainc

from ldpbayes.arrays import FloatArray
from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.base import information_covariance
from ldpbayes.estimators.mle import maximize
from ldpbayes.fitness.base import Check
from ldpbayes.fitness.constants import ROW_ENTRIES

NAME = "copies of one report"
#: Rule: Share of the level that the test gets, where others get one: beside one other test 5 % become .45 % and 4.5 %. The
#: p-value is an upper bound, and small where there is an excess of some four sd. There half of a tail is .2 sd further out:
#: with half the share copies need .2 sd more, with double .2 sd fewer, and the other test has 4.2 %.
WEIGHT = 0.1
#: Rule: Where even the least probability that any P gives every report makes none of them this rare, no estimate is
#: computed. Beside one other test WEIGHT asks for a p-value of .0045, of which this is 44 times. Half spares more estimates
#: and double fewer; which verdicts depend on it, through the divisor of MOST_TAKEN, was not measured.
SETTLED = 0.2
#: Time: How much of the variance the estimate takes is computed for so many reports, the rarest.
FOLLOWED = 50
#: Time: where the information matrix takes at most so many multiplications.
MAX_WORK = 2**28
#: Rule: A report of whose variance the estimate takes more than this cannot be distinguished from a change of P: the excess
#: is divided by √.05, so that 4.5 times the copies are needed. With half as much left it is 6.3 times, and the error of
#: the information matrix begins to decide; with twice as much 3.2 times, and more reports are not tested.
MOST_TAKEN = 0.95


def copies_checks(collection: Collection, estimate: FloatArray | None = None) -> Iterator[Check]:
    """Yield for each channel the test that no report came in more often than the design lets it.

    Report y has the count C_y ~ Binomial(n, P(y)), P(y) = (Qp)_y. With t_y = P(Binomial(n, P(y)) ≥ C_y),
    P(t_y ≤ u P(y) for some y) ≤ Σ_y u P(y) = u: the p-value is the least t_y/P(y). P(y) is that of the maximum-likelihood
    estimate, which takes away some of the variance of C_y − nP(y); the excess is scaled up for it. Reports with sampling
    weights get the p-value that holds for every P: P(y) ≤ max_x Q_yx, and these add up to e^ε at most.

    A channel with no more possible reports than categories has no such test: copies look like a large share.

    Parameters
    ----------
    collection : Collection
    estimate : (a,) array, optional
        The maximum-likelihood estimate, where it is known.

    Yields
    ------
    Check
    """
    for tally in collection.tallies:
        size = tally.protocol.n_outputs
        if tally.protocol.caveat or (size is not None and size <= tally.protocol.n_categories):
            continue
        repeated = tally.counts > 1
        if not repeated.any():
            yield Check(NAME, tally.name, 1.0, math.nan, 1.0, "upper bound", WEIGHT)
            continue
        reports, counts, n = tally.reports[repeated], tally.counts[repeated].astype(float), float(tally.n_reports)
        rows, epsilon = tally.protocol.rows(reports, counts), float(tally.protocol.epsilon)
        scale = np.exp(rows.log_constants + tally.protocol.log_public_share())
        if collection.weighted:
            if math.isinf(epsilon) or rows.n_rows * rows.n_categories > ROW_ENTRIES:
                continue
            chances = scale * rows.dense().max(axis=1)
            p_values = np.exp(epsilon) * rarity(counts, chances, n)
        else:
            # Every P gives a report at least e^-ε times what the uniform distribution gives it.
            uniform = np.full(rows.n_categories, 1 / rows.n_categories)
            chances = scale * rows.matvec(uniform)
            p_values = rarity(counts, chances * math.exp(-epsilon), n)
            if p_values.min() <= SETTLED:
                if estimate is None:
                    estimate = maximize(collection.rows).p
                chances = scale * rows.matvec(estimate)
                p_values = rarity(counts, chances, n)
                likely = np.argsort(p_values, kind="stable")[:FOLLOWED]
                left = _left(collection, tally, reports[likely], chances[likely], estimate)
                expected = n * chances[likely]
                p_values[likely] = rarity(expected + (counts[likely] - expected) / np.sqrt(left), chances[likely], n)
        worst = int(p_values.argmin())
        detail = f"{counts[worst]:,.0f} times, {n * chances[worst]:,.3g} expected"
        p_value = min(float(p_values[worst]), 1.0)
        yield Check(NAME, tally.name, float(counts[worst]), math.nan, p_value, "upper bound", WEIGHT, detail)


def rarity(counts: FloatArray, chances: FloatArray, n: float) -> FloatArray:
    """Return P(Binomial(n, P) ≥ c)/P, at most one; one where c is not above nP. Continuous in c.

    Parameters
    ----------
    counts, chances : (m,) arrays
        c and P.
    n : float
    """
    chances = np.clip(chances, 1e-300, 1.0)
    tail = np.where(counts > n, 0.0, betainc(np.minimum(counts, n), np.maximum(n - counts + 1, 1.0), chances))
    return np.where(counts > n * chances, np.minimum(tail / chances, 1.0), 1.0)


def _left(
    collection: Collection, tally: Tally, reports: np.ndarray, chances: FloatArray, estimate: FloatArray
) -> FloatArray:
    """Return which share of the variance of C_y the estimate leaves: 1 − n L_y Cov(p̂) L_yᵀ/(P(y)(1 − P(y))), L_y a row of Q.

    One, which makes the p-value larger, where the information about many categories would take long. Infinite, so that
    there is no excess, where next to nothing is left.
    """
    rows, rows_of_reports = collection.rows, tally.protocol.rows(reports, np.ones(len(reports)))
    if rows.n_rows * rows.n_categories**2 > MAX_WORK:
        return np.ones(len(reports))
    covariance = np.nan_to_num(information_covariance(rows, estimate), nan=0.0)
    slopes = rows_of_reports.dense() / rows_of_reports.matvec(estimate)[:, None]
    lost = tally.n_reports * chances * ((slopes @ covariance) * slopes).sum(axis=1) / np.maximum(1 - chances, 1e-300)
    return np.where(lost < MOST_TAKEN, 1 - lost, math.inf)
