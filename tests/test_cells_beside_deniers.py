"""Cells that borrow strength while some of their respondents deny or ignore the device, against sums over a grid."""

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import beta, halfnorm, norm

from ldpbayes import Cells, Collection, Tally, fit
from ldpbayes.protocols import crosswise, direct

#: Counts of "no" and "yes" of a crosswise device with p = .25.
DEVICE = np.array([210, 190])


def survey(asked):
    """Return 400 answers through a device beside direct ones."""
    tallies = [Tally(crosswise(0.25), [0, 1], DEVICE, "device"), Tally(direct(), [0, 1], asked, "direct")]
    return Collection(["no", "yes"], tallies)


def on_a_grid(asked, share=None):
    """Return mean and sd of the scale, of P(yes) of each of two cells and of their δ, under the hierarchical prior.

    Logits are √2 (1.5 m + s e) with m, e ~ N(0, 1) and s ~ HalfNormal(1). Given m and s the cells are independent, and each
    is a sum over e and δ ~ Beta(b, c).

    Parameters
    ----------
    asked : pair of (2,) arrays
        Direct answers of each cell.
    share : pair of float, optional
        b and c; without it nobody denies.
    """
    m, e, level = np.linspace(-3.5, 3.5, 141), np.linspace(-4.5, 4.5, 241), (np.arange(60) + 0.5) / 60
    s, p = 4 * level**2, np.linspace(1e-9, 1 - 1e-9, 4001)
    delta = np.zeros(1) if share is None else (np.arange(800) + 0.5) / 800
    of_delta = np.ones(1) if share is None else beta(*share).pdf(delta)
    weight_e, sums = norm.pdf(e) / norm.pdf(e).sum(), []
    same = 0.75 - 0.5 * p
    for counts in asked:
        yes = p[:, None] * (1 - delta)
        log = xlogy(counts[0], 1 - yes) + xlogy(counts[1], yes)
        log += (xlogy(DEVICE[0], 1 - same) + xlogy(DEVICE[1], same))[:, None]
        table = np.exp(log - log.max()) * of_delta
        own = [table.sum(axis=1), table @ delta, table @ delta**2]
        at = 1 / (1 + np.exp(-np.sqrt(2) * (1.5 * m[:, None, None] + s[:, None] * e)))
        whole, first, second = (np.interp(at.ravel(), p, one).reshape(at.shape) for one in own)
        sums.append([one @ weight_e for one in (whole, whole * at, whole * at**2, first, second)])
    weight = norm.pdf(m)[:, None] * (halfnorm.pdf(s) * np.sqrt(s))
    both = weight * sums[0][0] * sums[1][0]

    def moments(mean, square):
        mean, square = mean.sum() / both.sum(), square.sum() / both.sum()
        return mean, np.sqrt(square - mean**2)

    out = {"scale": moments(both * s, both * s**2)}
    for c, other in ((0, weight * sums[1][0]), (1, weight * sums[0][0])):
        out[f"p{c}"] = moments(other * sums[c][1], other * sums[c][2])
        out[f"delta{c}"] = moments(other * sums[c][3], other * sums[c][4])
    return out


def test_scale_of_cells_whose_reports_are_far_from_normal():
    """The direct answers contradict the device: expansions about no mode made the scale .87, and were accepted."""
    asked = np.array([300, 100]), np.array([380, 20])
    mean, sd = on_a_grid(asked)["scale"]
    cells = Cells(dict(zip("ns", map(survey, asked), strict=True)))
    tree = fit(cells, "hierarchical", method="laplace", random_seed=1, estimates=False)
    found = [float(tree["summary"][f"parameter_{key}"].sel(parameter="scale")) for key in ("mean", "sd", "mcse")]
    assert (mean, sd) == pytest.approx((0.9073, 0.4591), abs=2e-3) and tree.attrs["k_hat"] < 0.3
    assert found[0] == pytest.approx(mean, abs=3.5 * found[2]) and found[1] == pytest.approx(sd, rel=0.06)
