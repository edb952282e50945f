"""CPU seconds of structured inference on one thread, compilation apart: priors that learn."""

import time

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from ldpbayes.collections import Collection, Tally
from ldpbayes.posteriors.mixture import Mixture
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


def _since(start):
    return time.process_time() - start


#: What is timed: functions that yield (case, seconds, limit).
PARTS = (learnt,)


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
