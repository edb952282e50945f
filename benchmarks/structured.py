"""CPU seconds of structured inference on one thread, compilation apart: priors that learn, and cells under one prior."""

import time

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.posteriors.base import Watch
from ldpbayes.posteriors.joint import Joint, Whitened
from ldpbayes.posteriors.mixture import Mixture
from ldpbayes.priors import Hierarchical
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding


def survey(protocol, n, seed=1):
    """Return n simulated users with a Zipf distribution."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, protocol.n_categories + 1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, weights / weights.sum()), rng))
    collection = Collection([str(x) for x in range(protocol.n_categories)], [tally])
    _ = collection.rows
    return collection


def learnt():
    """Yield (case, CPU seconds, what it is to stay below) of the moments under the learnt prior."""
    Mixture().moments(survey(UnaryEncoding.optimised(30, 1.0), 1000))  # compiles
    cases = [(GRR(1000, e), n, 0.5) for e in (1.0, 4.0) for n in (10**4, 10**5, 10**6)]
    cases += [(UnaryEncoding.optimised(1000, e), 10**5, 1.5) for e in (1.0, 4.0)]
    for protocol, n, limit in cases:
        collection = survey(protocol, n)
        start = time.process_time()
        Mixture().moments(collection)
        yield f"learnt, moments, {protocol.name}, a = 1,000, n = {n:,}, epsilon {protocol.epsilon:g}", _since(start), limit


def groups():
    """Yield (case, CPU seconds, limit) of cells under a hierarchical prior: seconds for 2,000 effective draws, and a year.

    Counted are pilots, sampling, weights and errors, until the mean of the median share is as exact as 2,000 independent
    draws make it.
    """
    joined(cells(3, 30), Hierarchical(), draws=20, form="summary")  # compiles
    joined(cells(3, 30), Hierarchical(), draws=20, form="rows")
    for n in (385, 4786):
        data = cells(50, n)
        start = time.process_time()
        sample = joined(data, Hierarchical())
        seconds = _since(start)
        effective = float(np.nanmedian(sample.known["distribution"]["ess_bulk"]))
        yield (
            f"hierarchical, 50 groups × 10 categories × {n:,} reports, 2,000 effective draws",
            2000 * seconds / effective,
            1.0,
        )
    data = cells(365, 300, walk=True)
    start = time.process_time()
    joined(data, Hierarchical("days"))
    yield "days, 365 × 10 categories × 300 reports, 4,000 draws", _since(start), 60


def cells(number, n, walk=False, seed=1):
    """Return simulated cells behind optimised unary encoding at ε = 1 with scale ½, or a walk with steps of 0.1."""
    rng, a = np.random.default_rng(seed), 10
    protocol, centre = UnaryEncoding.optimised(a, 1.0), rng.normal(size=a)
    effects = rng.normal(size=(number, a))
    effects = np.cumsum(0.1 * effects, axis=0) if walk else 0.5 * effects
    found = {}
    for c in range(number):
        p = np.exp(centre + effects[c])
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))
        found[c] = Collection([str(x) for x in range(a)], [tally])
    return Cells(found, by="day")


def joined(data, prior, **settings):
    """Return the Sample of the joint engine."""
    problem, engine = Joint(data, prior.on(data)), Whitened(**settings)
    return engine.run(engine.plan(problem), np.random.default_rng(1), Watch())


def _since(start):
    return time.process_time() - start


#: What is timed: functions that yield (case, seconds, limit).
PARTS = (learnt, groups)


def main():
    """Print the table."""
    table = Table("case", "CPU seconds", "limit", title="Structured inference")
    with threadpool_limits(1):
        for part in PARTS:
            for case, seconds, limit in part():
                table.add_row(case, f"{seconds:.2f}", f"{limit:g}")
    Console().print(table)


if __name__ == "__main__":
    main()
