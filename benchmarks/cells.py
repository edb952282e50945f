"""CPU seconds of independent cells, as multiples of one cell alone: with draws, without, and at the limit of the draws.

``python benchmarks/cells.py [most]`` fits up to so many cells (1,000 by default) of ten categories, 300 reports each. Asked:
20 cells in 1 s and 1,000 in 20 s by GRR with draws, cells of unary encodings at most 5 times that.
"""

import sys
import time
import warnings

import numpy as np

import ldpbayes as lb

SIZE, REPORTS = 10, 300


def cells(number, protocol):
    """Return cells of so many populations drawn evenly from the simplex."""
    rng, labels, groups = np.random.default_rng(number), [f"x{x}" for x in range(SIZE)], {}
    for i in range(number):
        truth = rng.multinomial(REPORTS, rng.dirichlet(np.ones(SIZE)))
        groups[f"c{i:04d}"] = lb.Collection(labels, [lb.Tally(protocol, *protocol.simulate(truth, rng))])
    return lb.Cells(groups, by="cell")


def seconds(data, **settings):
    """Return the CPU seconds of a fit."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lb.fit(data, random_seed=1, **settings)
    return time.process_time() - start


def main(most):
    """Print one line a fit: cells, what is made, CPU seconds, milliseconds a cell, multiples of one cell alone."""
    for protocol in (lb.GRR(SIZE, epsilon=1.0), lb.make_protocol("oue", [f"x{x}" for x in range(SIZE)], {"epsilon": 1.0})):
        name = protocol.design
        single = list(cells(3, protocol).values())
        seconds(single[0])  # imports and compiled functions
        alone = min(seconds(one) for one in single)
        print(f"{name}: one cell alone {alone:.2f} s")
        seconds(cells(3, protocol))
        for number in (20, 200, 1000, 2500, 2501):
            if number > most or (number > 20 and not isinstance(protocol, lb.GRR)):
                continue
            data = cells(number, protocol)
            for made, settings in (("draws", {}), ("no draws", {"draws": 0})):
                try:
                    taken = seconds(data, **settings)
                except lb.errors.InfeasibleError as refused:
                    print(f"{number:6,} cells, {made}: {refused}")
                    continue
                print(
                    f"{number:6,} cells, {made:8}: {taken:7.2f} s, {1e3 * taken / number:6.1f} ms a cell, "
                    f"{taken / alone / number:.2f} x one alone"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
