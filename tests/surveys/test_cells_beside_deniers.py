"""Cells that borrow strength while some of their respondents deny or ignore the device, against sums over a grid."""

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import beta, chi2, halfnorm, norm

from ldpbayes import GRR, Cells, Collection, Tally, contrast, fit, load, poststratify, result, save, show
from ldpbayes.errors import ArgumentError, DiagnosticWarning, RankDeficientWarning
from ldpbayes.inference import effects
from ldpbayes.inference.structure import curvature
from ldpbayes.inference.target import Target
from ldpbayes.methods.forms import Apart, Forms
from ldpbayes.methods.problem import prior_of_cells
from ldpbayes.priors import Denial, Hierarchical
from ldpbayes.priors.extended import logit_of_beta
from ldpbayes.protocols import crosswise, direct
from ldpbayes.result import extended_draws
from ldpbayes.result.facts import facts_of

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
    tree = fit(cells, "hierarchical", method="weighted", random_seed=1, estimates=False)
    found = [float(tree["summary"][f"parameter_{key}"].sel(parameter="scale")) for key in ("mean", "sd", "mcse")]
    assert (mean, sd) == pytest.approx((0.9073, 0.4591), abs=2e-3) and facts_of(tree)["k_hat"] < 0.3
    assert found[0] == pytest.approx(mean, abs=3.5 * found[2]) and found[1] == pytest.approx(sd, rel=0.06)


@pytest.mark.parametrize("share", [pytest.param((1, 1), marks=pytest.mark.calibrate), (2, 18)])
def test_two_cells_with_deniers_are_the_grid(share):
    """At δ ~ Beta(2, 18) the direct answers of the second cell contradict the prior of δ."""
    asked = np.array([300, 100]), np.array([380, 20])
    cells = Cells(dict(zip("ns", map(survey, asked), strict=True))).with_deniers("yes", "no", "direct")
    tree = fit(cells, Denial("hierarchical", denial=share), random_seed=1, draws=2000, estimates=False)
    summary, worth = tree["summary"], facts_of(tree)["effective_draws"]
    assert tree.attrs["converged"] and worth > 2000
    for name, (mean, sd) in on_a_grid(asked, share).items():
        found = [
            float(summary[f"parameter_{key}"].sel(parameter="scale"))
            if name == "scale"
            else float(summary[f"derived_{key}"].sel(quantity="denial")[int(name[-1])])
            if name.startswith("delta")
            else float(summary[key].sel(target="distribution", category="yes")[int(name[-1])])
            for key in ("mean", "sd")
        ]
        assert abs(found[0] - mean) < 4 * sd / np.sqrt(worth) and found[1] == pytest.approx(sd, rel=0.1), name


def surveys(rng, cells, denying=(0.4, 0.2), n=600):
    """Return cells of three answers that vary, half of each asked directly, where b and c are denied."""
    found = {}
    for c in range(cells):
        p = np.exp(np.array([0.3, 0.0, -0.4]) + 0.4 * rng.standard_normal(3))
        p /= p.sum()
        said = np.array([p[0] + p[1:] @ denying, *(p[1:] * (1 - np.array(denying)))])
        counts = rng.multinomial(n // 2, GRR(3, 1.5).channel() @ p), rng.multinomial(n // 2, said)
        tallies = [Tally(GRR(3, 1.5), range(3), counts[0], "device"), Tally(direct(3), range(3), counts[1], "direct")]
        found[c] = Collection(["a", "b", "c"], tallies)
    return Cells(found, by="day")


def test_without_deniers_a_priori_the_answer_is_that_without_them():
    plain = surveys(np.random.default_rng(1), 5, (0.0, 0.0))
    stated = plain.with_deniers(["b", "c"], "a", "direct"), Denial("hierarchical", denial=(1, 1e5))
    one = fit(*stated, random_seed=1, estimates=False)["summary"].sel(target="distribution")
    other = fit(plain, "hierarchical", random_seed=2, estimates=False)["summary"].sel(target="distribution")
    error = np.hypot(one["mcse"].values, other["mcse"].values)
    assert (np.abs(one["mean"].values - other["mean"].values) < 4.5 * error + 1e-4).all()
    np.testing.assert_allclose(one["sd"].values, other["sd"].values, rtol=0.12)


@pytest.mark.parametrize("size, prior", [(3, "days"), pytest.param(6, "hierarchical", marks=pytest.mark.calibrate)])
def test_a_result_has_shares_of_every_cell(size, prior, tmp_path):
    """Of three cells by weights, of six by trajectories."""
    cells = surveys(np.random.default_rng(2), size).with_deniers(["b", "c"], "a", "direct")
    tree = fit(cells, prior, random_seed=1, draws=250)
    assert tree.attrs["converged"] and "own δ" in facts_of(tree)["deniers"]
    posterior, summary = tree["posterior"], tree["summary"]
    assert posterior["distribution"].dims[2:] == posterior["effect"].dims[2:] == ("cell", "category")
    assert posterior["category"].values.tolist() == ["a", "b", "c"] and summary["quantity"].size == 3
    truth = {"denial, b": 0.4, "denial, c": 0.2}
    mean, sd = (summary[f"derived_{key}"].sel(quantity=list(truth)).values for key in ("mean", "sd"))
    assert (np.abs(mean - list(truth.values())) < 4 * sd).all() and posterior["denial, b"].dims[2:] == ("cell",)
    # F, of those who answered: the direct answers b and c are known to be true.
    known = np.array([cell.tallies[1].counts[1] for cell in cells.values()]) / 600
    assert (posterior["frequency"].values[..., 1].min(axis=(0, 1)) >= known - 1e-12).all()
    # p′ of the draws has those who deny apart again.
    p = extended_draws(tree, cells)
    denying = posterior["distribution"][..., 1] * posterior["denial, b"]
    np.testing.assert_allclose(p[:, 3].reshape(-1, size).mean(axis=0), denying.mean(("chain", "draw")))
    save(tree, tmp_path / "x.nc")
    text = str(show(load(tmp_path / "x.nc")))
    assert "denial, b" in text and "hierarchical" in text
    assert "estimate" in tree.children and {"fitness", "decides"} <= set(facts_of(tree)) and "left_out" not in tree.attrs


@pytest.mark.parametrize("structure", ["groups", "days", [("0", "1"), ("1", "2")]])
@pytest.mark.parametrize("deny", [True, False])
def test_coordinates_of_samplers_have_the_density_of_the_posterior(structure, deny):
    """The target of trajectories is that of weights, and its gradient is right where effects are bent and cells whitened."""
    cells, rng = surveys(np.random.default_rng(3), 3), np.random.default_rng(1)
    cells = cells.with_deniers(["b", "c"], "a", "direct") if deny else cells.with_noncompliers({"o": 0})
    prior = prior_of_cells(Hierarchical(structure), cells)
    target, plain = Target(prior, Forms.of(cells.likelihoods)), Target(prior, Apart(cells.likelihoods))
    z = 0.3 * rng.standard_normal((2, prior.n_unknowns))
    (one, slope), (other, known) = target.value_and_gradient(z[0]), plain.value_and_gradient(z[0])
    np.testing.assert_allclose(slope, known, rtol=1e-8, atol=1e-8)
    # Up to the constant of reports that are joined.
    change = target.value_and_gradient(z[1])[0] - one
    assert change == pytest.approx(plain.value_and_gradient(z[1])[0] - other, abs=1e-8)
    density = effects.bent(target, None)
    u, step = 0.5 * rng.standard_normal(z.shape[1]), 1e-5 * np.eye(z.shape[1])
    numeric = [(density.value_and_gradient(u + h)[0] - density.value_and_gradient(u - h)[0]) / 2e-5 for h in step]
    np.testing.assert_allclose(density.value_and_gradient(u)[1], numeric, rtol=1e-5, atol=1e-5)
    # Where the posterior lies, these coordinates make its Hessian nearly one.
    bent = curvature(lambda at: density.value_and_gradient(at)[1], np.zeros(u.size))
    assert np.linalg.eigvalsh(bent)[[0, -1]] == pytest.approx([1, 1], abs=0.75)


def test_facts_about_each_cell_stand_beside_a_prior_over_all_cells():
    """What the reports of a cell say alone is no function of the prior: the statistic is that of a grid over p and δ."""
    asked = np.array([300, 100]), np.array([380, 20])
    plain = Cells(dict(zip("ns", map(survey, asked), strict=True)), by="region")
    cells = plain.with_deniers("yes", "no", "direct")
    tree = fit(cells, "hierarchical", random_seed=1, draws=250)
    together, apart = tree["cells"], fit(cells, "jeffreys", method="weighted", random_seed=1, draws=250)["cells"]
    p = np.linspace(0.0005, 0.9995, 2000)
    same = 0.75 - 0.5 * p
    device, statistics = xlogy(DEVICE[0], 1 - same) + xlogy(DEVICE[1], same), []
    for no, yes in asked:
        alone = device + xlogy(no, 1 - p) + xlogy(yes, p)
        said = p[:, None] * (1 - np.linspace(0, 1, 2001))
        statistics.append(2 * ((device[:, None] + xlogy(no, 1 - said) + xlogy(yes, said)).max() - alone.max()))
    np.testing.assert_allclose(together["honesty_statistic"], statistics, atol=0.01)
    np.testing.assert_allclose(together["honesty_p"], 0.5 * chi2.sf(statistics, 1), rtol=0.01)
    for name in ("honesty_p", "deniers_sd", "deniers", "fitness", "decided_by", "prior_decides"):
        assert together[name].values.tolist() == apart[name].values.tolist(), name
    assert together["fitness_p"].isnull().all()  # as many parameters as free counts: whether some deny is no question of fit
    one = facts_of(result.select(tree, "s"))
    assert "statistic 101.03" in one["honesty"] and "Every cell" not in one["deniers"]
    assert one["method"] == tree.attrs["method"] == "weighted"
    counts = {"a": [30, 70], "b": [50, 50], "c": [70, 30]}
    weak = Cells({k: Collection(["no", "yes"], Tally(crosswise(0.4), [0, 1], n)) for k, n in counts.items()}, by="region")
    found = fit(weak, "hierarchical", random_seed=1, draws=250)
    assert found["cells"]["prior_decides"].values.tolist() == [1, 0, 1] and found.attrs["prior_decides"] == 2
    assert [bool(result.select(found, cell).attrs["decides"]) for cell in counts] == [True, False, True]


def test_moments_alone_come_from_draws():
    cells = surveys(np.random.default_rng(3), 2).with_deniers("b", "a", "direct")
    tree = fit(cells, "hierarchical", draws=0, random_seed=1)
    assert "4,000 draws" in tree.attrs["reason"] and tree["summary"]["derived_mean"].shape == (2, 2)


def test_a_cell_that_says_nothing_of_its_share_is_left_out_unless_a_prior_of_it_is_stated():
    plain, device = surveys(np.random.default_rng(4), 3), surveys(np.random.default_rng(5), 1)[(0,)].tallies[:1]
    cells = Cells({**plain, 9: Collection(["a", "b", "c"], device)}, by="day").with_deniers("b", "a", "direct")
    with pytest.warns(RankDeficientWarning), pytest.warns(DiagnosticWarning, match="9"):
        tree = fit(cells, "hierarchical", random_seed=1, draws=200, estimates=False)
    assert tree["summary"].sizes["cell"] == 3 and "who deny" in str(tree.attrs["left_out"])
    with pytest.warns(RankDeficientWarning):
        tree = fit(cells, Denial("hierarchical", denial=(2, 18)), random_seed=1, draws=500, estimates=False)
    delta = tree["summary"]["derived_mean"].sel(quantity="denial").values
    assert tree["summary"].sizes["cell"] == 4 and delta[3] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("b, c", [(1, 9), (0.2, 0.3), (1000, 1e6), (1, 1)])
def test_logits_of_shares_have_the_quantiles_of_their_law(b, c):
    z = np.linspace(-6, 6, 25)
    law = logit_of_beta(b, c)
    share = 1 / (1 + np.exp(-law.of(z)))
    np.testing.assert_allclose(beta(b, c).cdf(share)[:13], norm.cdf(z[:13]), rtol=1e-5)
    np.testing.assert_allclose(beta(c, b).cdf(1 / (1 + np.exp(law.of(z))))[12:], norm.sf(z[12:]), rtol=1e-4)
    np.testing.assert_allclose(law.slope(z), (law.of(z + 1e-5) - law.of(z - 1e-5)) / 2e-5, rtol=1e-5)


def test_cells_that_a_prior_links_are_not_added_up_without_draws():
    """Their variances do not add up: the answer needs draws, or an error says so."""
    cells = Cells({k: survey(np.array([300 + 9 * k, 100 - 9 * k])) for k in range(3)}, by="region")
    tree = fit(cells.with_deniers("yes", "no", "direct"), "hierarchical", draws=0, random_seed=1)
    for ask in (lambda: poststratify(tree, [1, 1, 1]), lambda: contrast(tree, "yes", "yes", cell="0", other_cell="1")):
        with pytest.raises(ArgumentError, match="needs draws"):
            ask()
