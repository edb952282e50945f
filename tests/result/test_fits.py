"""What describers read: a fit of cells has what each cell has, and one cell is described as several are."""

import numpy as np
import pytest

from ldpbayes import Cells, Collection, Tally, fit
from ldpbayes.inference.diagnostics import Diagnostics, Statistics
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import UnaryEncoding, designs
from ldpbayes.result.building import write
from ldpbayes.result.cells import stack
from ldpbayes.result.fits import Fit
from ldpbayes.result.moments import summary_alone

KEYS = ("mean", "sd", "lower", "upper", "mcse", "ess_bulk", "ess_tail", "r_hat", "lower_error", "upper_error")


def cells_of(**counts):
    return Cells({name: Collection(["no", "yes"], Tally(designs.warner(0.7), [0, 1], n)) for name, n in counts.items()})


def one_fit(collection, draws, seed, frequency=True):
    """Return a Fit of one collection with random draws."""
    p = np.random.default_rng(seed).dirichlet([2.0, 3.0], size=(2, draws))
    variables = {"distribution": (("category",), p)} | ({"frequency": (("category",), p)} if frequency else {})
    entries = {name: dict.fromkeys(KEYS, p.mean(axis=(0, 1))) for name in variables}
    summary = Statistics(entries, (), (), 0.95, Diagnostics("independent", converged=True))
    facts = {"reason": "Drawn.", "random_seed": seed, "frequency_draws": "allocated"}
    return Fit(collection, Dirichlet([1.0, 1.0]), "exact", {"random_seed": 1}, variables, facts=facts, summary=summary)


def test_fits_of_cells_are_stacked_and_cut_to_the_shortest():
    cells = cells_of(a=[60, 40], b=[20, 30])
    fits = [one_fit(cell, draws, draws, draws == 7) for cell, draws in zip(cells.collections(), (7, 5), strict=True)]
    together = stack(cells, fits[0].prior, fits, {"random_seed": 1})
    assert together.draws["distribution"][0] == ("cell", "category") and "frequency" not in together.draws
    for k, one in enumerate(fits):
        np.testing.assert_array_equal(together.flat(k)["distribution"], one.draws["distribution"][1][:, :5].reshape(10, 2))
        np.testing.assert_array_equal(together.moments[0][k], one.moments[0][0])
    frequency = together.summary.entries["frequency"]["mean"]
    assert np.isfinite(frequency[0]).all() and np.isnan(frequency[1]).all()
    tree = write(together)
    assert tree["posterior"]["distribution"].shape == (2, 5, 2, 2)
    assert tree["cells"]["random_seed"].values.tolist() == [7, 5] and tree.attrs["method"] == "exact"


def test_a_summary_alone_has_no_draws_but_their_covariance():
    (cell,) = cells_of(a=[60, 40]).collections()
    drawn = one_fit(cell, 50, 1)
    tree = write(summary_alone(drawn))
    assert "chain" not in tree["posterior"].sizes and tree.attrs["draws"] == "none"
    expected = np.cov(drawn.flat()["distribution"].T)
    np.testing.assert_allclose(tree["exact"]["distribution_cov"].values, expected)
    np.testing.assert_array_equal(tree["summary"]["mean"].sel(target="distribution"), drawn.moments[0][0])


def test_one_summary_says_who_decides_as_cells_do():
    protocol, shares = UnaryEncoding.optimized(6, epsilon=1.0), np.arange(1, 7) / 21
    reports = protocol.privatize(np.random.default_rng(3).choice(6, 9000, p=shares), np.random.default_rng(4))
    cells = Cells({"a": Collection([*"uvwxyz"], Tally(protocol, reports))}).summaries(shares)
    alone = fit(next(cells.collections()), "jeffreys", random_seed=1, draws=500)
    several = fit(cells, "jeffreys", random_seed=1, draws=500)
    assert alone.attrs["decided_by"] == several.attrs["decided_by"] == "reports"
    assert alone["sensitivity"]["move"].values == pytest.approx(several["sensitivity"]["move"].values[0], abs=0.002)
