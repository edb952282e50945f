"""check(): can these reports have come from their design?"""

import math
from dataclasses import replace
from os import PathLike
from typing import Any, overload

import numpy as np

from ldpbayes import checks
from ldpbayes.arrays import FloatArray
from ldpbayes.collections import Cells, Collection, Tally, as_data
from ldpbayes.collections.data import mechanisms
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.estimators.estimate import Estimate
from ldpbayes.estimators.solvers.base import certificate
from ldpbayes.fitness.base import Check, Fitness
from ldpbayes.fitness.cells import CellsFitness
from ldpbayes.fitness.copies import copies_checks
from ldpbayes.fitness.devices import fit_of_devices
from ldpbayes.fitness.goodness import REPLICATIONS, goodness_of_fit, listed
from ldpbayes.fitness.nested import compliance_test, equality_test
from ldpbayes.fitness.structural import channels_agree, structural_checks, support_checks
from ldpbayes.fitness.sums import combined, fitness_of_sums
from ldpbayes.likelihoods import Summary
from ldpbayes.presenting import recorded
from ldpbayes.sources.door import data_of

#: Rule: An estimate that is handed in may be so many nats below the maximum: a twentieth of what would move a p-value.
MAX_GAP = 0.05
#: Time: Simulated tables for the test of fit beside a posterior, where reports are sparse: a fit should not wait for more.
QUICK_REPLICATIONS = 199

SATURATED = (
    "The channels have as many parameters as free report counts, so that every table of reports fits. A second channel with "
    "another epsilon, or asking some of the respondents directly, would allow a test; copied or fabricated reports cannot "
    "be seen in this design at all."
)


@overload
def check(
    collection: Collection | Tally | Summary,
    *,
    level: float = ...,
    random_seed: int | None = ...,
    replications: int = ...,
    estimate: Estimate | FloatArray | None = ...,
) -> Fitness: ...


@overload
def check(
    collection: Cells, *, level: float = ..., random_seed: int | None = ..., replications: int = ...
) -> CellsFitness: ...


@overload
def check(
    collection: str | PathLike[str], *, level: float = ..., random_seed: int | None = ..., replications: int = ...
) -> Fitness | CellsFitness: ...


@recorded
def check(
    collection: Collection | Tally | Cells | Summary | str | PathLike[str],
    *,
    level: float = 0.05,
    random_seed: int | None = 0,
    replications: int = REPLICATIONS,
    estimate: Estimate | FloatArray | None = None,
) -> Fitness | CellsFitness:
    """Test without a prior whether reports fit their protocols; ``flagged`` is True only where a test exists and rejects.

    There are three kinds of tests: the counts of all possible reports against those expected at the maximum-likelihood
    estimate, where the reports can be listed and the design is not saturated; properties of a report whose law does not
    depend on P (support sizes, seeds, cohorts); and the report that came in most often for its probability. Where none
    exists, as of one channel of randomized response, ``p_value`` is nan. The trials of a device that is not known
    exactly are counts beside those of the reports. There is one verdict from all tests, adjusted for their number.
    Respondents who may deny or ignore the device are in the model that is tested; whether there are any
    (``compliance_test``) is said beside the verdict.

    Parameters
    ----------
    collection : Collection, Tally, Cells, Summary or path-like
        Cells are checked one by one, and whether their distributions are equal; the level is that of all together. Of a
        summary there is one test: the unbiased estimates of all shares add up to one under its design.
    level : float
        Probability with which honest reports may be flagged.
    random_seed : int, optional
        Of the simulated tables for sparse counts. It is 0 by default, so that the same reports have the same verdict each
        time. None draws one. ``settings`` of the result state it.
    replications : int
        Simulated tables where counts are sparse.
    estimate : Estimate or (a,) array, optional
        The maximum-likelihood estimate of a collection, where it is known, so that it is not computed again.

    Returns
    -------
    Fitness, or CellsFitness of Cells

    Raises
    ------
    ArgumentError
        If an argument breaks its rule, or estimate is not the maximum-likelihood estimate.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally
    >>> from ldpbayes.protocols.unary import UnaryEncoding
    >>> bits = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    >>> honest = Collection("abc", [Tally(UnaryEncoding.optimized(3, 1.0), bits, [50, 40, 30, 2])])
    >>> check(honest).flagged
    True
    """
    data, level = with_outcomes(as_data(data_of(collection))), checks.probability(level, "level")
    random_seed = checks.seed(random_seed)
    replications = checks.integer(replications, "replications", minimum=19, maximum=10**6)
    tested: Fitness | CellsFitness
    if data.by:
        tested = _check_cells(data, level, random_seed, replications)
    elif not data.keeps_reports:
        tested = fitness_of_sums(data.likelihood, level)
    else:
        tested = replace(_check_one(data, level, random_seed, replications, estimate), collection=data)
    return replace(tested, source=mechanisms(data.channels()) or f"{data.n_reports:,} reports", random_seed=random_seed)


def _check_one(
    collection: Collection, level: float, random_seed: int, replications: int, estimate: Estimate | FloatArray | None = None
) -> Fitness:
    """Return the tests of one collection."""
    rng = np.random.default_rng(random_seed)
    if estimate is not None:
        estimate = _maximum(collection, estimate)
    checks_made: list[Check] = []
    notes: list[str] = []
    compared = True
    tallies = [tally for tally in collection.tallies if listed(tally)]
    if collection.weighted:
        notes.append("Reports with sampling weights are not compared with the design by their counts.")
    elif tallies:
        if collection.device_law is not None:
            counted: Any = fit_of_devices(collection, tallies)
        else:
            counted = goodness_of_fit(collection, tallies, rng, replications, estimate)
        if isinstance(counted, str):
            notes.append(counted)
            compared = False
        elif counted:
            checks_made += counted
        elif len(tallies) == len(collection.tallies):
            notes.append(SATURATED)
    left = [tally.name for tally in collection.tallies if not listed(tally)]
    if left:
        notes.append(f"The reports of {', '.join(map(repr, left))} are too many to list, so their counts were not compared.")
    for tally in collection.tallies:
        checks_made += structural_checks(tally)
        if tally not in tallies or not compared:
            checks_made += support_checks(tally)
    if (left or not compared) and not collection.weighted and collection.wrapper is None:
        checks_made += channels_agree(collection)
    checks_made += copies_checks(collection, estimate)
    wrapper = None if collection.weighted else collection.wrapper
    tested = wrapper is not None and wrapper.tested and collection.noncompliance().identified
    compliance = compliance_test(collection) if tested else None
    return Fitness(tuple(c for c in checks_made if math.isfinite(c.p_value)), level, tuple(notes), compliance)


def _maximum(collection: Collection, estimate: Estimate | FloatArray) -> FloatArray:
    """Return an estimate that the reports bear out to be the maximum-likelihood estimate, or refuse it."""
    estimate = estimate.distribution if isinstance(estimate, Estimate) else estimate
    p = checks.distribution(estimate, "estimate", collection.n_categories, atol=1e-6)
    gap = certificate(collection.rows, p)
    if not gap <= MAX_GAP:
        raise ArgumentError(
            f"estimate must be the maximum-likelihood estimate to {MAX_GAP:g} nats; another distribution may be more likely "
            f"by {gap:.3g} nats. Leave it out, and it is computed."
        )
    return p


def _check_cells(cells: Cells, level: float, random_seed: int, replications: int) -> CellsFitness:
    """Return the tests of every cell; of those of which only a summary was kept that of its sum."""
    collections: list[Any] = list(cells.collections())
    fits = [
        _check_one(cell, level, random_seed, replications) if cell.keeps_reports else fitness_of_sums(cell.likelihood, level)
        for cell in collections
    ]
    try:
        equality = equality_test(cells)
    except InfeasibleError:
        equality = None
    joint = None if cells.keeps_reports else combined(np.array([fit.p_value for fit in fits]), cells)
    return CellsFitness(cells.labels, tuple(fits), equality, level, joint)
