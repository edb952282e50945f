"""check(): can these reports have come from their design?"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from ldpbayes import checks
from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError
from ldpbayes.fitness.base import Fitness
from ldpbayes.fitness.goodness import REPLICATIONS, goodness_of_fit, listed
from ldpbayes.fitness.structural import structural_checks
from ldpbayes.fitness.supports import support_checks

#: Cells whose names a verdict lists.
NAMED = 8
SATURATED = (
    "The channels have as many parameters as free report counts, so that every table of reports fits. A second channel with "
    "another epsilon, or asking some of the respondents directly, would allow a test; copied or fabricated reports cannot "
    "be seen in this design at all."
)


def check(
    collection: Collection,
    *,
    level: float = 0.05,
    random_seed: int | np.random.Generator | None = 0,
    replications: int = REPLICATIONS,
) -> Fitness:
    """Return whether the reports can have come from their design, without a prior and without sampling.

    Two kinds of tests: the counts of all possible reports against those expected at the maximum-likelihood estimate, where
    the reports can be listed and the design is not saturated; and properties of a report whose law does not depend on P
    (support sizes, seeds, cohorts, repeated reports). The verdict adjusts for their number.

    Parameters
    ----------
    collection : Collection
    level : float
        Probability with which honest reports may be flagged.
    random_seed : int or Generator, optional
        Of the simulated tables for sparse counts; the same tables each time by default.

    replications : int
        Simulated tables where counts are sparse.

    Returns
    -------
    Fitness

    Raises
    ------
    ArgumentError
        If collection is not a Collection, or level or random_seed breaks its rule.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally
    >>> from ldpbayes.protocols.unary import UnaryEncoding
    >>> bits = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    >>> honest = Collection("abc", [Tally(UnaryEncoding.optimised(3, 1.0), bits, [50, 40, 30, 2])])
    >>> check(honest).flagged
    True
    """
    if not isinstance(collection, Collection):
        raise ArgumentError(f"collection must be a Collection, got {type(collection).__name__}.")
    rng = checks.generator(random_seed, "random_seed")
    replications = checks.integer(replications, "replications", minimum=19, maximum=10**6)
    found, notes, compared = [], [], True
    tallies = [tally for tally in collection.tallies if listed(tally)]
    if collection.survey is not None:
        notes.append("Reports with sampling weights are not compared with the design by their counts.")
    elif tallies:
        counted = goodness_of_fit(collection, tallies, rng, replications)
        if isinstance(counted, str):
            notes.append(counted)
            compared = False
        elif counted:
            found += counted
        elif len(tallies) == len(collection.tallies):
            notes.append(SATURATED)
    left = [tally.name for tally in collection.tallies if not listed(tally)]
    if left:
        notes.append(f"The reports of {', '.join(map(repr, left))} are too many to list, so their counts were not compared.")
    for tally in collection.tallies:
        found += structural_checks(tally)
        if tally not in tallies or not compared:
            found += support_checks(tally)
    return Fitness(tuple(c for c in found if math.isfinite(c.p_value)), level, tuple(notes))


def verdict_of_cells(labels: Sequence[str], p_values: ArrayLike, level: float = 0.05) -> tuple[str, bool]:
    """Return (one sentence, whether the reports do not fit) of the p-values of many cells.

    Half of the level goes to the least p-value, adjusted by the number of cells, and half to Fisher's combination
    −2 Σ log p ~ χ² with two degrees of freedom per cell, which sees a fault that all cells share.

    Parameters
    ----------
    labels : sequence of str
    p_values : (cells,) array
        ``Fitness.p_value`` of every cell; nan where no test was possible.
    level : float
        Probability with which honest reports may be flagged.
    """
    p = np.asarray(p_values, dtype=float)
    tested = np.isfinite(p)
    if not tested.any():
        return "No test of fit is possible in any cell.", False
    known = np.clip(p[tested], 1e-300, 1.0)
    together = float(chi2.sf(-2 * np.log(known).sum(), 2 * known.size))
    least = min(1.0, float(known.min()) * known.size)
    which = f"all {p.size} cells"
    if known.size < p.size:
        which = f"the {known.size} of {p.size} cells in which a test is possible"
    numbers = f"all together p = {together:.3g}, the least of the adjusted p-values {least:.3g}"
    if 2 * min(together, least) > level:
        return f"The reports of {which} fit the design ({numbers}).", False
    bad = [labels[int(c)] for c in np.flatnonzero(tested & (2 * p * known.size <= level))]
    where = f", least well in {', '.join(bad[:NAMED])}{', …' if len(bad) > NAMED else ''}" if bad else ""
    return (
        f"The reports of {which} do not fit the design{where} ({numbers}). Respondents did not follow the device, reports "
        "were fabricated or copied, or the design, its parameters or the categories are wrong.",
        True,
    )
