"""The study of floors: the learnt prior over a floor against the learnt prior alone, in all cells of the study of priors."""

import math
import time

import numpy as np

from studies import priors
from studies.pooled import FullStudy

#: Replications of a cell.
GOAL = 20
#: A cell loses more than this of the learnt prior's squared error, or a population that much coverage: the rule's limits.
LOSS, COVERAGE = 1.1, 0.02


def cells():
    """Return the cells of the study of priors, each replication a block of its own."""
    out = []
    for cell in priors.cells("paper"):
        named = {name: value for name, value in cell.items() if name != "replications"}
        out.append(
            named | {"figure": cell["population"], "part": f"{cell['n_reports']:,} reports", "goal": GOAL, "block": 1}
        )
    return out


def losses(cell, rng):
    """Return squared errors, coverage and CPU seconds of one replication under both priors, on the same reports.

    ``beyond`` is the floor's squared error less LOSS times the learnt prior's: significantly above zero, the cell loses.

    Parameters
    ----------
    cell : dict
    rng : Generator
    """
    p, collection = priors.simulated(cell, rng)
    found = {}
    for prior in ("learnt", "floor"):
        start = time.process_time()
        mean, variance = priors.moments(collection, prior, rng)
        found[prior, "cost", "seconds"] = time.process_time() - start
        found[prior, "distribution", "mse"] = ((mean - p) ** 2).sum()
        for metric, value in priors.covered(p, mean, variance).items():
            found[prior, "distribution", metric] = value
    squared = (found[prior, "distribution", "mse"] for prior in ("floor", "learnt"))
    found["floor", "distribution", "beyond"] = next(squared) - LOSS * next(squared)
    return {key: np.array([value]) for key, value in found.items()}


STUDY = FullStudy(
    "floor",
    "The learnt prior over a floor against the learnt prior alone",
    "our own comparison; docs/theory/floor.md",
    cells,
    losses,
    base="learnt",
)


def by_cell(lines):
    """Return {cell: {(estimator, metric): line}} of stored lines, of cells with two replications, whose errors are known.

    Parameters
    ----------
    lines : list of dict
        From studies.pooled.read.
    """
    out: dict = {}
    for line in lines:
        if line["replications"] > 1:
            out.setdefault(line["cell"], {})[line["estimator"], line["metric"]] = line
    return out


def ratio(cell):
    """Return (squared error over the learnt prior's, its standard error) of a cell, by the delta method."""
    floor, learnt = cell["floor", "mse"], cell["learnt", "mse"]
    value, other = floor["value"] / learnt["value"], learnt["standard_error"] ** 2
    shared = (floor["standard_error"] ** 2 + other - floor["excess_error"] ** 2) / 2
    squared = floor["standard_error"] ** 2 - 2 * value * shared + value**2 * other
    return value, math.sqrt(max(squared, 0.0)) / learnt["value"]


def summary(cells):
    """Return what some cells say of the floor against the learnt prior.

    Parameters
    ----------
    cells : list of dict
        Of ``by_cell``.

    Returns
    -------
    dict
        ``ratio``, the geometric mean of squared errors over the learnt prior's, and ``coverage``, by metric the pair of mean
        coverages under the learnt prior and over a floor, and ``rise``, the difference of that of all categories; ``ratio``
        and ``rise`` are pairs with a standard error.
    """
    value, error = np.array([ratio(cell) for cell in cells]).T
    log_ratio, log_error = _mean(np.log(value), error / value)
    coverage = {}
    for metric in ("coverage", "coverage_large", "coverage_shown"):
        pairs = [
            [cell[name, metric]["value"] for name in ("learnt", "floor")] for cell in cells if ("floor", metric) in cell
        ]
        coverage[metric] = np.mean(pairs, axis=0).tolist() if pairs else [math.nan, math.nan]
    rises = np.array([[cell["floor", "coverage"][key] for key in ("excess", "excess_error")] for cell in cells])
    return {"ratio": (math.exp(log_ratio), math.exp(log_ratio) * log_error), "coverage": coverage, "rise": _mean(*rises.T)}


def by_population(lines):
    """Return {population: its cells} of stored lines, in the order of their names.

    Parameters
    ----------
    lines : list of dict
    """
    out: dict = {}
    for cell in by_cell(lines).values():
        out.setdefault(cell["floor", "mse"]["population"], []).append(cell)
    return dict(sorted(out.items()))


def rule(lines):
    """Return what the rule for a default asks of stored lines.

    Parameters
    ----------
    lines : list of dict

    Returns
    -------
    dict
        ``lost``, the names of cells that lost more than 10 % by two standard errors; ``fallen``, the populations whose mean
        coverage fell by more than .02 by two standard errors; ``ratio``, the geometric mean of squared errors over the
        learnt prior's, with its standard error; ``cost``, the CPU time over that of the learnt prior.
    """
    cells = by_cell(lines)
    rises = {name: summary(some)["rise"] for name, some in by_population(lines).items()}
    seconds = [sum(cell[name, "seconds"]["value"] for cell in cells.values()) for name in ("floor", "learnt")]
    return {
        "lost": [name for name, cell in cells.items() if _lost(cell["floor", "beyond"])],
        "fallen": [name for name, (rise, apart) in rises.items() if -rise - 2 * apart > COVERAGE],
        "ratio": summary(list(cells.values()))["ratio"],
        "cost": seconds[0] / seconds[1],
    }


def _lost(beyond):
    return beyond["value"] > 2 * beyond["standard_error"]


def _mean(values, errors):
    """Return the mean of independent values and its standard error."""
    return float(values.mean()), float(np.sqrt((errors**2).sum()) / values.size)
