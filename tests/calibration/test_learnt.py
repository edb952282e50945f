"""Calibration of the learnt prior, alone and with one α for several cells: ranks of α and of P are uniform (Talts 2018).

The numbers go to learnt.csv beside this file.
"""

import pathlib
import time
import warnings

import numpy as np
import pytest
from ranks import rank
from recorded import record
from scipy import stats

from ldpbayes import Cells, Collection, Tally, fit
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.priors.learnt import Learnt
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding

REPLICATIONS, RANKED, LEVEL = 200, 99, 1e-3
#: Protocol, reports a cell, cells, and chains and draws: weights need more draws than are ranked.
DESIGNS = {
    "grr": (GRR(4, 1.5), 100, 1, (1, RANKED)),
    "grr, three cells": (GRR(4, 1.5), 100, 3, (1, RANKED)),
    "oue": (UnaryEncoding.optimized(4, 1.0), 300, 1, (4, 250)),
    "oue, three cells": (UnaryEncoding.optimized(4, 1.0), 300, 3, (4, 250)),
}
SUMMARY = pathlib.Path(__file__).with_name("learnt.csv")


def ranks(name, replications):
    """Return the ranks of α and of P_0 of the first cell among 99 draws, and how many results are not to be trusted.

    The ranks have those results too: leaving them out would select among the reports.
    """
    protocol, n, n_cells, (chains, draws) = DESIGNS[name]
    rng, a = np.random.default_rng([7, list(DESIGNS).index(name)]), protocol.n_categories
    prior, out, rejected = Learnt(n_categories=a), [], 0
    for _ in range(replications):
        alpha = float(prior.alpha(rng.standard_normal()))
        cells, truth = {}, None
        for c in range(n_cells):
            p = dirichlet_draw(alpha, a, rng)
            truth = p[0] if truth is None else truth
            cells[f"g{c}"] = Collection("abcd"[:a], [Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))])
        data = Cells(cells) if n_cells > 1 else cells["g0"]
        settings = {"draws": draws, "chains": chains, "random_seed": int(rng.integers(2**31)), "estimates": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiagnosticWarning)
            tree = fit(data, "learnt", exclude=("nuts",), **settings)
        rejected += not tree.attrs["converged"]
        some = np.linspace(0, draws * chains - 1, RANKED).astype(int)
        posterior = tree["posterior"]
        drawn = posterior["distribution"].values.reshape(draws * chains, -1)[some, 0]
        out.append((rank(truth, drawn, rng), rank(alpha, posterior["alpha"].values.ravel()[some], rng)))
    return np.array(out), rejected


def dirichlet_draw(alpha, a, rng):
    """Return a draw of Dirichlet(α), in logs: small α underflow otherwise."""
    log_gamma = np.log(rng.standard_gamma(alpha + 1, a)) + np.log(rng.random(a)) / alpha
    p = np.exp(log_gamma - log_gamma.max())
    return np.maximum(p / p.sum(), 1e-300) / np.maximum(p / p.sum(), 1e-300).sum()


def calibrate(name, replications=REPLICATIONS):
    """Return the p-values of the ranks of P and of α, and record them."""
    start = time.process_time()
    found, rejected = ranks(name, replications)
    p = [stats.chisquare(np.histogram(column, 10, (-0.5, RANKED + 0.5))[0]).pvalue for column in found.T]
    line = {"design": name, "replications": replications, "rejected": rejected}
    line |= {"p_distribution": f"{p[0]:.4f}", "p_alpha": f"{p[1]:.4f}"}
    inside = ((found >= 5) & (found <= RANKED - 5)).mean(axis=0)
    line |= {"coverage_distribution": f"{inside[0]:.3f}", "coverage_alpha": f"{inside[1]:.3f}"}
    record(SUMMARY, line | {"seconds": f"{time.process_time() - start:.1f}"}, ("design",))
    return p


@pytest.mark.calibrate
@pytest.mark.parametrize("name", DESIGNS)
def test_ranks_are_uniform(name):
    assert min(calibrate(name)) > LEVEL
