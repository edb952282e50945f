"""Effective draws per CPU second of every posterior method and of full NUTS, and the surrogate at full size."""

import argparse
import time

import numpy as np
from arviz_stats.base import array_stats
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from ldpbayes import fit
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ConvergenceError
from ldpbayes.methods.expanded import weighted_draws
from ldpbayes.priors import as_prior
from ldpbayes.protocols import GRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of
from ldpbayes.road import methods

PROTOCOLS = {"OUE": UnaryEncoding.optimized, "SS": SubsetSelection, "OLH": LocalHashing, "HR": HadamardResponse}
#: Settings under which every method takes seconds to a minute; NUTS's compilation is timed apart.
METHODS = {
    "exact": {"draws": 1000},
    "surrogate": {"draws": 1000},
    "pair_slice": {"draws": 1000, "tune": 200},
    "nuts": {"draws": 250, "tune": 250},
}


def survey(protocol, n, seed=1):
    """Return n simulated users with a Zipf distribution."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, protocol.n_categories + 1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, weights / weights.sum()), rng))
    collection = Collection([str(x) for x in range(protocol.n_categories)], [tally])
    _ = collection.rows
    return collection


def run(name, collection):
    """Return (CPU seconds, tree or None where the method refuses or rejects itself)."""
    method = methods.METHODS[name](**METHODS[name])
    prior = as_prior("jeffreys", collection.n_categories)
    if not method.feasibility(collection, prior).feasible:
        return np.nan, None
    if name == "nuts":  # compiled once per structure; the second run measures sampling
        fit(collection, prior, methods.METHODS[name](draws=4, tune=50, chains=1), random_seed=1, estimates=False)
    start = time.process_time()
    try:
        tree = fit(collection, prior, method, random_seed=1, estimates=False)
    except ConvergenceError:
        tree = None
    return time.process_time() - start, tree


def effective(tree):
    """Return (least, median) effective sample size over the categories of P."""
    draws = np.moveaxis(tree["posterior"]["distribution"].values, -1, 0)
    if "effective_draws" in facts_of(tree):
        return (facts_of(tree)["effective_draws"],) * 2
    if tree.attrs["method"] == "exact":
        return (draws[0].size,) * 2
    ess = array_stats.ess(draws)
    return ess.min(), np.median(ess)


def compare(settings, epsilon, console):
    """Print one table of methods over the settings (protocol, a, n)."""
    table = Table(title=f"Draws of P and F at ε = {epsilon:g}; CPU seconds of one thread, NUTS without its compilation")
    for column in ("collection", "method", "CPU s", "least ESS", "median ESS", "R-hat", "least ESS/s", "× NUTS"):
        table.add_column(column, justify="left" if column in ("collection", "method") else "right")
    for build, label, a, n in settings:
        collection = survey(build(a, epsilon), n)
        results = {name: run(name, collection) for name in METHODS}
        rates = {name: effective(tree)[0] / seconds for name, (seconds, tree) in results.items() if tree is not None}
        for name, (seconds, tree) in results.items():
            row = [f"{label} a={a} n={n:.0e}", name]
            if tree is None:
                table.add_row(*row, "" if np.isnan(seconds) else f"{seconds:.2f}", "refused", "", "", "", "")
                continue
            least, median = effective(tree)
            chains = tree.attrs["method"] in ("pair_slice", "nuts")
            draws = np.moveaxis(tree["posterior"]["distribution"].values, -1, 0)
            r_hat = f"{array_stats.rhat(draws).max():.3f}" if chains else ""
            ratio = f"{rates[name] / rates['nuts']:,.1f}"
            table.add_row(*row, f"{seconds:.2f}", f"{least:,.0f}", f"{median:,.0f}", r_hat, f"{rates[name]:,.1f}", ratio)
        table.add_section()
    console.print(table)


def full_size(sizes, n, epsilon, console):
    """Print the surrogate's time and weights for 2,000 draws of every protocol."""
    table = Table(title=f"Surrogate with weights on the true likelihood: 2,000 draws of P at n = {n:.0e}, ε = {epsilon:g}")
    for column in ("protocol", "a", "CPU s", "Pareto k-hat", "effective draws", "shift in sd"):
        table.add_column(column, justify="right")
    for a in sizes:
        for label, build in PROTOCOLS.items():
            collection = survey(build(a, epsilon), n)
            jeffreys, rng = np.full(a, 0.5), np.random.default_rng(1)
            weighted_draws(collection.rows, jeffreys, 50, rng)  # loads the compiled kernels
            start = time.process_time()
            found = weighted_draws(collection.rows, jeffreys, 2000, rng)[0]
            seconds = time.process_time() - start
            row = [f"{seconds:.2f}", f"{found.k_hat:.2f}", f"{found.effective_sample:,.0f}", f"{found.shift:.3f}"]
            table.add_row(label, str(a), *row)
    console.print(table)


def main():
    """Run both tables with one thread in every pool."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1024], help="Categories of the second table.")
    arguments = parser.parse_args()
    console = Console(width=130)
    settings = [(GRR, "GRR", 100, 10_000), (UnaryEncoding.optimized, "OUE", 10, 1000)]
    settings += [(UnaryEncoding.optimized, "OUE", 100, 10_000)]
    with threadpool_limits(1):
        compare(settings, arguments.epsilon, console)
        full_size(arguments.sizes, 100_000, arguments.epsilon, console)


if __name__ == "__main__":
    main()
