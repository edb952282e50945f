"""The surrogate where its approximation is poor: few reports, large epsilon. ``make calibrate`` writes hard_cells.csv.

What it accepts must be right, by long runs of pair slices that are themselves converged; what it rejects must be
answered, converged, by the method that ``auto`` hands it to.
"""

import itertools
import pathlib
import time
import warnings

import numpy as np
import pytest
from arviz_stats.base import array_stats
from conditioned import weighted
from recorded import record

from ldpbayes import Collection, Tally
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.fitting import fit
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of
from ldpbayes.road.methods import METHODS

PROTOCOLS = {
    "oue": UnaryEncoding.optimized,
    "subset": SubsetSelection,
    "olh": LocalHashing,
    "hadamard": HadamardResponse,
}
CATEGORIES, REPORTS, EPSILON = (5, 10, 30, 100), (30, 100, 300, 1000), (1.0, 2.0, 3.5, 5.0)
#: An accepted posterior mean may be wrong by so many posterior sd, apart from Monte Carlo errors of both sides.
TOLERANCE, MCSE = 0.1, 4.0
SUMMARY = pathlib.Path(__file__).with_name("hard_cells.csv")


def collected(protocol, n, rng):
    """Return n users of a distribution drawn from Jeffreys' prior: many categories close to none."""
    a = protocol.n_categories
    truth = rng.multinomial(n, rng.dirichlet(np.full(a, 0.5)))
    return Collection([f"c{x}" for x in range(a)], [Tally(protocol, *protocol.simulate(truth, rng))])


def reference(collection):
    """Return (mean, sd, MCSE of the mean, worst R-hat, least ESS) of converged chains of pair slices, longer until it is."""
    for thin in (2, 8, 40):
        # A quadratic in the likelihood's place is no reference: with 100 categories at ε = 5, 17 % of its sweeps are taken.
        method = METHODS["pair_slice"](draws=600, tune=200, chains=4, thin=thin, route="rows")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiagnosticWarning)  # of chains that are still too short
            tree = fit(collection, "jeffreys", method, random_seed=thin, estimates=False)
        draws = np.moveaxis(tree["posterior"]["distribution"].values, -1, 0)
        r_hat, ess = array_stats.rhat(draws).max(), array_stats.ess(draws).min()
        if r_hat < 1.01 and ess > 400:
            break
    return draws.mean(axis=(1, 2)), draws.std(axis=(1, 2)), array_stats.mcse(draws, method="mean"), r_hat, ess


def check(name, a, n, epsilon):
    """Return the line of one cell."""
    start = time.process_time()
    rng = np.random.default_rng([list(PROTOCOLS).index(name), a, n, int(10 * epsilon)])
    collection = collected(PROTOCOLS[name](a, epsilon), n, rng)
    found = weighted(collection, "jeffreys")
    line = dict(protocol=name, categories=a, reports=n, epsilon=epsilon, k_hat=f"{found.k_hat:.2f}")
    line |= {
        "efficiency": f"{found.effective_sample / len(found.distribution):.2f}",
        "accepted": int(not found.verdict.problem),
    }
    line |= dict.fromkeys(("error_in_sd", "allowed_in_sd", "r_hat", "ess"), "")
    if found.verdict.problem:
        tree = fit(collection, random_seed=1, estimates=False)
        line |= {"answered_by": tree.attrs["method"], "right": int(tree.attrs["converged"])}
        line |= {
            field: f"{facts_of(tree)[key]:.4g}"
            for field, key in (("r_hat", "worst_r_hat"), ("ess", "least_ess"))
            if key in facts_of(tree)
        }
    else:
        mean, sd, mcse, r_hat, ess = reference(collection)
        error = np.abs(found.weight @ found.distribution - mean) / sd
        allowed = TOLERANCE + MCSE * np.sqrt((mcse / sd) ** 2 + 1 / found.effective_sample)
        worst = (error - allowed).argmax()
        line |= {"error_in_sd": f"{error[worst]:.3f}", "allowed_in_sd": f"{allowed[worst]:.3f}", "r_hat": f"{r_hat:.4f}"}
        line |= {"ess": f"{ess:.0f}", "answered_by": "surrogate", "right": int((error < allowed).all() and r_hat < 1.01)}
    return line | {"seconds": f"{time.process_time() - start:.1f}"}


@pytest.mark.calibrate
@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("a", CATEGORIES)
def test_accepted_answers_are_right_and_rejected_ones_are_answered(name, a):
    lines = []
    for n, epsilon in itertools.product(REPORTS, EPSILON if a < 100 else EPSILON[1::2]):  # the long references
        lines.append(check(name, a, n, epsilon))
        record(SUMMARY, lines[-1], ("protocol", "categories", "reports", "epsilon"))
    assert not [line for line in lines if not line["right"]]
