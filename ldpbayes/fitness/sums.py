"""Reports of which only sums were kept: do the estimates of all shares add up to one, as the design has it for every P?"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ldpbayes.arrays import FloatArray
from ldpbayes.collections import Cells
from ldpbayes.fitness.base import Check, Fitness
from ldpbayes.fitness.cells import verdict_of_cells
from ldpbayes.fitness.constants import SURE
from ldpbayes.likelihoods.summary import LEAST_REPORTS, Summary, sum_of_shares
from ldpbayes.protocols.base import AbstractProtocol

NAME = "sum of the shares"
#: What is said of sums that allow no test.
UNKNOWN = (
    "Only sums over the reports of this cell were kept, without the one that the design fixes: it is not known for this "
    "protocol, or the sums were made by an earlier version."
)
CONSTANT = (
    "Only sums over the reports of this cell were kept, and every report of this protocol supports as many categories, so "
    "that no sum can say whether they fit the design."
)
FEW = f"Only sums over the reports of this cell were kept, and fewer than {LEAST_REPORTS} reports are too few to test them."


def fitness_of_sums(summary: Summary, level: float = 0.05) -> Fitness:
    """Return the test of a summary: Σ_x p̃_x of the unbiased estimates against one, its mean for every P.

    Σ_x p̃_x − 1 is the sum of the sizes of the reports less its mean, over n (g − h). A size is how many categories a
    report supports; it has one law for every P, or for RAPPOR with several hashes one mean (``AbstractProtocol.size_law``).
    A wrong ε, variant, number of buckets or hash family moves it.

    Parameters
    ----------
    summary : Summary
    level : float

    Returns
    -------
    Fitness
        Without a test where none is possible, and why.
    """
    return fitness_of_excess(summary.excess, summary.n_reports, level)


def fitness_of_excess(total: FloatArray | None, n: float, level: float = 0.05) -> Fitness:
    """Return the test of ``Summary.excess`` of n reports; see ``fitness_of_sums``."""
    if (found := sum_of_shares(total, n)) is None:
        return Fitness((), level, (UNKNOWN if total is None else CONSTANT,))
    if n < LEAST_REPORTS:
        return Fitness((), level, (FEW,))
    summed, error, z, p_value = found
    detail = f"{summed:.6g} where the design has 1 ± {error:.2g}"
    return Fitness((Check(NAME, "", z, math.nan, p_value, "normal", detail=detail),), level)


def summaries_of(data: Any) -> list[Summary]:
    """Return the summaries among data."""
    return [cell.likelihood for cell in data.collections() if not cell.keeps_reports]


def combined(p_values: FloatArray, cells: Cells) -> FloatArray:
    """Return the p-values of the cells that kept their reports, and the one of all summaries together.

    The errors of summaries add up, and so do their variances: a fault that all share is seen where none stands out.

    Parameters
    ----------
    p_values : (cells,) array
    cells : Cells
    """
    kept = np.array([cell.keeps_reports for cell in cells.collections()])
    terms = [summary.excess for summary in summaries_of(cells) if summary.excess is not None]
    found = sum_of_shares(np.sum(terms, axis=0), 1) if terms else None
    return np.append(np.asarray(p_values, dtype=float)[kept], [] if found is None else found[3])


def described(data: Any) -> dict[str, Any]:
    """Return the facts of a result about the sums of its data, which take no draws."""
    fits = [Fitness(()) if cell.keeps_reports else fitness_of_sums(cell.likelihood) for cell in data.collections()]
    sentence, flagged = fits[0].verdict, fits[0].flagged
    if data.by:
        joint = combined(np.full(len(fits), math.nan), data)
        sentence, flagged = verdict_of_cells(data.labels, [fit.p_value for fit in fits], combined=joint)
    return {"fitness": sentence, "fitness_flagged": int(flagged)}


def power(made: AbstractProtocol, read: AbstractProtocol, n: float, level: float = 0.05) -> float:
    """Return the chance that n reports of one protocol, read as those of another, do not add up to one.

    Parameters
    ----------
    made, read : AbstractProtocol
        With a ``size_law``, and the sizes of reports being the same numbers under both.
    n : float
    level : float
        Size of the test.
    """
    law, other = read.size_law(), made.size_law()
    if law is None or other is None or law.variance <= 0:
        return math.nan
    moved, ratio = math.sqrt(n) * (other.mean - law.mean), math.sqrt(max(other.variance, 1e-300))
    edge = -ndtri(level / 2) * math.sqrt(law.variance)
    return float(ndtr((moved - edge) / ratio) + ndtr((-moved - edge) / ratio))


def shown_levels(protocol: AbstractProtocol, n: float, level: float = 0.05) -> tuple[float, float] | None:
    """Return the ε next below and above that of a protocol with which n reports would not add up to one in 95 % of cases.

    Parameters
    ----------
    protocol : AbstractProtocol
    n : float
    level : float
        Size of the test.

    Returns
    -------
    (float, float) or None
        0 and inf where there is none; None where ε is no parameter, or nothing shows.
    """
    law = protocol.size_law()
    if law is None or law.variance <= 0 or protocol.at_level(protocol.epsilon) is None:
        return None
    return tuple(_edge(protocol, n, level, far) for far in (1e-6, 50.0))  # type: ignore[return-value]


def _edge(protocol, n, level, far):
    """Return the ε closest to that of the protocol, towards ``far``, that shows."""

    def shows(log_level):
        other = protocol.at_level(math.exp(log_level))
        return power(other, protocol, n, level) >= SURE

    near, limit = math.log(protocol.epsilon), math.log(far)
    steps = np.linspace(near, limit, 17)
    found = next((i for i, step in enumerate(steps) if shows(step)), None)
    if found is None:
        return 0.0 if limit < near else math.inf
    inside, outside = steps[max(found - 1, 0)], steps[found]
    for _ in range(30):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if shows(middle) else (middle, outside)
    return math.exp(outside)
