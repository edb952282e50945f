"""Summaries at epsilon 1: simulation-based calibration, and hierarchical models on summaries against those on reports."""

import numpy as np
import pytest
from ranks import LEVEL, RANKED, binomial_p, covered, p_value

from ldpbayes import Cells, Collection, Tally, fit
from ldpbayes.likelihoods import Summary
from ldpbayes.methods.expansion import at_mean, proposal_of
from ldpbayes.protocols import UnaryEncoding

SIZE, REPORTS = 8, 3000


def replicate(seed):
    """Return (ranks of P among draws of the summary's posterior, whether the 90 % intervals of F have it), each (SIZE,)."""
    rng = np.random.default_rng(seed)
    alpha = np.full(SIZE, 1.0)
    p = rng.dirichlet(alpha)
    protocol = UnaryEncoding.optimized(SIZE, 1.0)
    truth = rng.multinomial(REPORTS, p)
    rows = Tally(protocol, *protocol.simulate(truth, rng)).rows
    summary = at_mean(rows)[0]
    tree = fit(Summary.of(rows, summary.pilot), alpha, random_seed=seed, draws=RANKED, chains=1, ci_prob=0.9)
    draws = tree["posterior"]["distribution"].values.reshape(-1, SIZE)
    shown = tree["summary"].sel(target="frequency")
    inside = (truth / REPORTS >= shown["lower"].values) & (truth / REPORTS <= shown["upper"].values)
    return (draws < p).sum(axis=0), inside


def found_in(replications, seed=1):
    """Return the ranks of P and the coverage of F of so many replications."""
    seeds = np.random.SeedSequence(seed).generate_state(replications)
    found = [replicate(int(one)) for one in seeds]
    ranks, inside = (np.stack(part) for part in zip(*found, strict=True))
    # Categories are exchangeable, and those of one replication dependent: one of them is tested.
    place = np.arange(replications) % SIZE
    return ranks[np.arange(replications), place], inside[np.arange(replications), place]


@pytest.mark.calibrate
def test_summaries_are_calibrated():
    ranks, inside = found_in(300)
    assert p_value(ranks) > LEVEL / 10 and binomial_p(covered(ranks)) > LEVEL / 10 and binomial_p(inside) > LEVEL / 10


def test_a_few_summaries_are_calibrated():
    ranks, inside = found_in(10)
    assert abs(ranks.mean() / RANKED - 0.5) < 4 * np.sqrt(1 / 12 / 10) and inside.sum() >= 6


def regions(n):
    rng = np.random.default_rng(5)
    protocol = UnaryEncoding.optimized(5, 1.0)
    centre = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    cells = {}
    for k in range(6):
        p = rng.dirichlet(60 * centre)
        cells[f"r{k}"] = Collection([*"abcde"], [Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))])
    return Cells(cells, by="region")


def summarized(cells):
    """Return the same cells as summaries, each expanded at its posterior mean under the hierarchical model."""
    tree = fit(cells, "hierarchical", random_seed=1, draws=2000, estimates=False)
    mean = tree["summary"]["mean"].sel(target="distribution").transpose("cell", "category").values
    return cells.summaries(mean), tree


@pytest.mark.calibrate
def test_hierarchical_models_on_summaries_agree_with_reports():
    cells = regions(1500)
    kept, full = summarized(cells)
    tree = fit(kept, "hierarchical", random_seed=2, draws=2000)
    ours, theirs = (one["summary"].sel(target="distribution") for one in (tree, full))
    sd = theirs["sd"]
    assert float((np.abs(ours["mean"] - theirs["mean"]) / sd).max()) < 0.15  # four Monte Carlo errors
    assert float(np.abs(ours["sd"] / sd - 1).max()) < 0.15


def test_summaries_of_cells_are_near_their_reports():
    """The small sibling: where a hierarchical model looks at the likelihood, the summary is the reports' to 0.02 nats."""
    cells = regions(600)
    mean = np.array([proposal_of(at_mean(cell.rows)[0], np.full(5, 2.0)).saddle_moments()[0] for cell in cells.values()])
    kept = cells.summaries(mean / mean.sum(axis=1, keepdims=True))
    rng = np.random.default_rng(1)
    for key, pilot in zip(cells, mean, strict=True):
        p = rng.dirichlet(200 * pilot / pilot.sum(), 200).T
        error = kept[key].log_likelihood(p) - cells[key].rows.log_likelihood(p)
        assert error.std() < 0.15 < cells[key].rows.log_likelihood(p).std()
