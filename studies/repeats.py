"""The study of repeated reports: intervals from exact rows of users against those that take every report for a user."""

import numpy as np
from scipy.special import expit, logit

from ldpbayes import hashing
from ldpbayes.collections import Tally
from ldpbayes.inference.ends import normal_reach
from ldpbayes.protocols import LOLOHA, MemoizedGRR, MemoizedUnary
from studies import evaluate

#: Distribution of the users' values.
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
#: Level of the permanent answer, as a multiple of the level of one report, which is the cell's epsilon.
PERMANENT = 2.0
#: Probability of the intervals.
LEVEL = 0.9
#: Numbers of reports a user.
TIMES = (1, 5, 20, 100)
PROTOCOLS = ("memoized_grr", "memoized_unary", "loloha")


def protocol_of(cell):
    """Return the memoized protocol of a cell: ε_1 is the cell's epsilon, ε_∞ twice as much."""
    levels = (cell["n_categories"], PERMANENT * cell["epsilon"], cell["epsilon"])
    if cell["protocol"] == "memoized_unary":
        return MemoizedUnary.from_levels(*levels, "l-osue", cell["times"])
    maker = MemoizedGRR if cell["protocol"] == "memoized_grr" else LOLOHA
    return maker.from_levels(*levels, times=cell["times"])


def draw(protocol, values, times, rng):
    """Return (histories, single reports) of users with these values: two views of the same reports.

    Parameters
    ----------
    protocol : MemoizedGRR, MemoizedUnary or LOLOHA
    values : (n,) int array
    times : int
        Reports a user.
    rng : Generator

    Returns
    -------
    array, array
        One history a user, and one report a row, times n of them.
    """
    n, user = values.size, np.repeat(np.arange(values.size), times)
    if protocol.name == "memoized_unary":
        members = rng.random((n, protocol.n_categories)) < protocol.lam
        members[np.arange(n), values] = rng.random(n) < protocol.kappa
        chances = np.where(members, protocol.on, protocol.off)[user]
        reports = np.packbits(rng.random(chances.shape) < chances, axis=1)
    elif protocol.name == "loloha":
        seeds = hashing.draw_seeds(n, rng)
        hashed = hashing.buckets(protocol.family, seeds, values, protocol.buckets)
        answers = protocol.permanent.privatize(hashed, rng)
        reports = np.column_stack([seeds[user], protocol.instantaneous.privatize(answers[user], rng)])
    else:
        reports = protocol.instantaneous.privatize(protocol.permanent.privatize(values, rng)[user], rng)
    return protocol.gather(reports, user, range(n)), reports


def interval(rows, level, alpha=0.5):
    """Return (mode, lower ends, upper ends) of a posterior by Laplace's method on the log-odds of every share.

    With z the logarithms of the shares, r_jx = L_jx p_x/(Lp)_j and t_x = Σ_j w_j r_jx the expected tallies, the
    log-posterior has the gradient t + α − (n + Σα) p and the Hessian diag(t) − Rᵀ W R − (n + Σα)(diag p − p pᵀ).

    Parameters
    ----------
    rows : Rows
    level : float
        Probability of the equal-tailed intervals.
    alpha : float
        Concentration of the Dirichlet prior, for every category.

    Returns
    -------
    (a,) array, (a,) array, (a,) array
    """
    dense, a = rows.dense(), rows.n_categories
    total = rows.n_reports + alpha * a
    z, inverse = np.zeros(a), np.zeros((a, a))
    for _ in range(50):
        p = np.exp(z - z.max())
        p /= p.sum()
        shares = dense * p
        shares /= shares.sum(axis=1, keepdims=True)
        tallies = rows.counts @ shares
        gradient = tallies + alpha - total * p
        curvature = shares.T @ (rows.counts[:, None] * shares) - np.diag(tallies) + total * (np.diag(p) - np.outer(p, p))
        values, vectors = np.linalg.eigh(curvature[:-1, :-1])  # the last z stays: only differences matter
        inverse[:-1, :-1] = vectors / np.maximum(np.abs(values), 1e-3) @ vectors.T
        step = inverse @ gradient
        z += step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    slopes = (np.eye(a) - p) / (1 - p)[:, None]
    sd = np.sqrt(np.einsum("xi,ij,xj->x", slopes, inverse, slopes))
    reach = normal_reach(level) * sd
    return p, expit(logit(p) - reach), expit(logit(p) + reach)


def coverage_of_repeats(cell, rng):
    """Return the lines of a cell: coverage, width and squared error of 90 % intervals of both treatments.

    Users are drawn from SHARES anew in every replication, and Jeffreys' prior is the prior of both.

    Parameters
    ----------
    cell : dict
    rng : Generator

    Returns
    -------
    list of dict
    """
    protocol, found = protocol_of(cell), {}
    for own in rng.spawn(cell["replications"]):
        values = np.repeat(np.arange(SHARES.size), own.multinomial(cell["n_reports"], SHARES))
        histories, reports = draw(protocol, values, cell["times"], own)
        for treatment, tally in (("exact", Tally(protocol, histories)), ("independent", Tally(protocol.single, reports))):
            mode, low, high = interval(tally.rows, LEVEL)
            for metric, value in (
                ("coverage", ((low <= SHARES) & (SHARES <= high)).mean()),
                ("width", (high - low).mean()),
                ("mse", ((mode - SHARES) ** 2).sum()),
            ):
                found.setdefault((treatment, metric), []).append(value)
    lines = []
    for (treatment, metric), values in found.items():
        value, error = evaluate.mean_and_error(values)
        line = {"estimator": treatment, "target": "distribution", "metric": metric, "replications": len(values)}
        lines.append(line | {"value": value, "standard_error": error})
    return lines
