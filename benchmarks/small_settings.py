"""What a default fit of small collections takes, and what is said beforehand that it takes.

``python benchmarks/small_settings.py [settings]`` draws settings (100 by default) with fixed seeds: a protocol of PROTOCOLS
in turn, 2 to 50 categories, 50 to 10^5 users and ε from .2 to 6, all but the categories evenly on a logarithmic scale.
Printed for each: CPU seconds of one thread for ``lb.fit(collection)``, those of them in posterior methods, the seconds that
``lb.select_method`` predicts, and the method that answered after how many were tried. Where the first call takes more than
LIMIT, compiled code may have been made in it, and a second one is counted. The last lines are the distribution, and the
settings beyond LIMIT. ``--only 3,17`` runs these alone.
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import ldpbayes as lb
from ldpbayes import protocols
from ldpbayes.errors import LDPBayesError
from ldpbayes.methods.base import AbstractPosterior
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing, PooledHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

#: CPU seconds that a default fit of a small collection may take, and the factor that a prediction may be off by.
LIMIT, FACTOR = 3.0, 2.0
SEED = 20


def words(a):
    """Return a candidate text for each category."""
    return tuple(f"word {x}" for x in range(a))


def halves(a):
    """Return the sizes of two attributes with at least a values together."""
    return [2, max(2, -(-a // 2))]


#: name → protocol at (n_categories, epsilon).
PROTOCOLS = {
    "grr": protocols.GRR,
    "oue": UnaryEncoding.optimized,
    "sue": UnaryEncoding.symmetric,
    "subset": SubsetSelection,
    "hadamard": HadamardResponse,
    "olh": LocalHashing,
    "blh": lambda a, e: LocalHashing(a, e, buckets=2),
    "olh of a pool": lambda a, e: PooledHashing(a, e, seeds=4096),
    "cohort_rr": lambda a, e: CohortRR(a, e, max(2, a // 4), 32),
    "rappor": lambda a, e: Rappor.one_time(a, e, 32, 16, 2, candidates=words(a)),
    "rappor_bits": lambda a, e: RapporBits(Rappor.one_time(a, 2 * e, 32, 16, candidates=words(a))),
    "mixture": lambda a, e: protocols.mixture([0.3, 0.7], [protocols.GRR(a, e), HadamardResponse(a, e)]),
    "product": lambda a, e: protocols.product([protocols.GRR(a, e / 2), HadamardResponse(a, e / 2)]),
    "attributes": lambda a, e: protocols.Attributes.split(halves(a), e, "grr"),
    "smp": lambda a, e: protocols.SampledAttribute(int(np.prod(halves(a))), e, halves(a), "grr"),
    "rs_fd": lambda a, e: protocols.FakeData(int(np.prod(halves(a))), e, halves(a), "grr", "uniform"),
    "repeated": lambda a, e: protocols.Repeated(protocols.GRR(a, e / 2), 2),
    "memoized_grr": lambda a, e: protocols.MemoizedGRR(a, e, e / 2, 2),
    "memoized_unary": lambda a, e: protocols.MemoizedUnary.from_levels(a, e, e / 2, times=2),
    "loloha": lambda a, e: protocols.LOLOHA.from_levels(a, e, e / 2, times=2),
    "d_bit_flip": lambda a, e: protocols.DBitFlip(a, e, a, min(a, 4), 0.1, times=2),
}


def settings(number):
    """Yield (place, name, categories, users, epsilon, collection)."""
    names = list(PROTOCOLS)
    for i in range(number):
        rng = np.random.default_rng([SEED, i])
        name = names[i % len(names)]
        a = int(rng.integers(2, 51))
        n = round(np.exp(rng.uniform(np.log(50), np.log(1e5))))
        epsilon = float(np.exp(rng.uniform(np.log(0.2), np.log(6))))
        protocol = PROTOCOLS[name](a, epsilon)
        a = protocol.n_categories
        truth = rng.dirichlet(np.full(a, rng.choice([0.1, 1.0, 10.0])))
        yield i, name, a, n, epsilon, lb.simulate(truth, protocol, n, random_seed=i)


PLAIN = AbstractPosterior.answer


class Methods:
    """CPU seconds in posterior methods, and how many ran."""

    def __init__(self):
        self.seconds, self.tried, plain = 0.0, 0, PLAIN

        def timed(*args, **kwargs):
            start = time.process_time()
            self.tried += 1
            try:
                return plain(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start

        AbstractPosterior.answer = timed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="?", type=int, default=100)
    parser.add_argument("--only", default="", help="places of settings, with commas between them")
    asked = parser.parse_args()
    only = {int(place) for place in asked.only.split(",") if place}
    warnings.simplefilter("ignore")
    lb.fit(lb.simulate(np.full(4, 0.25), LocalHashing(4, 1.0), 300, random_seed=1), random_seed=1)  # imports
    took, ratio, slow = [], [], []
    print(f"{'':>4} {'protocol':<15}{'a':>4}{'n':>8}{'ε':>6} {'rows':>6} {'fit':>7} {'methods':>8} {'predicted':>9}  method")
    for i, name, a, n, epsilon, collection in settings(asked.settings):
        if only and i not in only:
            continue
        predicted = seconds = np.nan
        try:
            predicted = lb.select_method(collection).plan.seconds
            for _ in range(2):
                watched, start = Methods(), time.process_time()
                tree = lb.fit(lb.Collection(collection.categories, collection.tallies), random_seed=1)
                seconds = time.process_time() - start
                if seconds < LIMIT:
                    break
            method = tree.attrs["method"] + ("" if tree.attrs["converged"] else " (not trusted)")
        except LDPBayesError as err:
            method = f"refused: {err}"
        print(
            f"{i:>4} {name:<15}{a:>4}{n:>8}{epsilon:>6.2f} {collection.rows.n_rows:>6} {seconds:>7.2f}"
            f" {watched.seconds:>8.2f} {predicted:>9.2f}  {method}, {watched.tried} tried",
            flush=True,
        )
        took.append(seconds)
        ratio.append(seconds / predicted)
        if not seconds <= LIMIT:
            slow.append(i)
    levels = [0.5, 0.75, 0.9, 0.95, 1.0]
    print("CPU seconds at " + ", ".join(f"{q:.0%}: {x:.2f}" for q, x in zip(levels, np.quantile(took, levels), strict=True)))
    within = np.mean(np.abs(np.log(ratio)) <= np.log(FACTOR))
    print(f"beyond {LIMIT:g} s: {len(slow)} of {len(took)} {slow}")
    print(f"predicted within a factor of {FACTOR:g}: {within:.0%}")


if __name__ == "__main__":
    main()
