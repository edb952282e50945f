"""check(): can these reports have come from their design?"""

import math

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Collection
from ldpbayes.errors import ArgumentError
from ldpbayes.fitness.base import Fitness
from ldpbayes.fitness.goodness import REPLICATIONS, goodness_of_fit, listed
from ldpbayes.fitness.structural import structural_checks

SATURATED = (
    "The channels have as many parameters as free report counts, so that every table of reports fits. A second channel with "
    "another epsilon, or asking some of the respondents directly, would allow a test."
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
    found, notes = [], []
    tallies = [tally for tally in collection.tallies if listed(tally)]
    if tallies:
        counted = goodness_of_fit(collection, tallies, rng, replications)
        if isinstance(counted, str):
            notes.append(counted)
        elif counted is not None:
            found.append(counted)
        elif len(tallies) == len(collection.tallies):
            notes.append(SATURATED)
    left = [tally.name for tally in collection.tallies if not listed(tally)]
    if left:
        notes.append(f"The reports of {', '.join(map(repr, left))} are too many to list, so their counts were not compared.")
    for tally in collection.tallies:
        found += structural_checks(tally)
    return Fitness(tuple(c for c in found if math.isfinite(c.p_value)), level, tuple(notes))
