"""The learnt prior over a floor: against draws from the prior weighted by the likelihood, and through every door."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, softmax

import ldpbayes as lb
from ldpbayes import Collection, Tally, fit
from ldpbayes.cli import main
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.nodes import Placement
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.servers import Floored
from ldpbayes.priors import Floor, as_prior
from ldpbayes.priors.floor import OverFloor
from ldpbayes.priors.mixing import Mixing
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

pytestmark = pytest.mark.long

SPIKED = np.array([0.6, 0.1, 0.1, 0.1, 0.1])


def collected(protocol, n, p, seed=1):
    rng = np.random.default_rng(seed)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
    return Collection([f"c{x}" for x in range(len(p))], [tally])


def settled(problem, **placement):
    server = Floored([problem])
    return server, server.settle(problem.mixing, Placement(**placement))


@pytest.fixture(scope="module")
def spiked():
    return collected(GRR(30, 3.0), 2000, np.array([0.4, *[0.6 / 29] * 29]))


@pytest.fixture(scope="module")
def found(spiked):
    return fit(spiked, "floor", draws=250, random_seed=1)


@functools.cache
def served(protocol, evenness):
    """Return reports of five categories, of which one stands out, and their fit."""
    data = collected(protocol, 150, SPIKED)
    return data, fit(data, Floor(evenness=evenness, n_categories=5), draws=1000, random_seed=1, estimates=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("evenness", [4.0, math.inf])
@pytest.mark.parametrize("protocol", [GRR(5, 2.0), UnaryEncoding.optimized(5, 1.5)], ids=["grr", "oue"])
def test_it_is_the_prior_weighted_by_the_likelihood(protocol, evenness):
    """Means, sds, evidence and P(λ = 0), within five Monte Carlo errors of both."""
    (data, tree), prior = served(protocol, evenness), Floor(evenness=evenness, n_categories=5)
    rng = np.random.default_rng(2)
    p = prior.sample(50_000, rng)
    log_likelihood = data.rows.log_likelihood(p.T)
    weight = np.exp(log_likelihood - log_likelihood.max())
    log_evidence = log_likelihood.max() + np.log(weight.mean())
    error = weight.std() / weight.mean() / np.sqrt(len(p))
    weight /= weight.sum()
    mean = weight @ p
    sd = np.sqrt(weight @ (p - mean) ** 2)
    assert tree.attrs["method"] == "surrogate" and tree.attrs["converged"]
    near = 5 * np.sqrt((weight**2).sum() + 1 / facts_of(tree)["effective_draws"])
    summary = tree["summary"].sel(target="distribution")
    assert (np.abs(summary["mean"] - mean) < near * sd).all()
    assert (np.abs(summary["sd"] / sd - 1) < near).all()
    assert abs(facts_of(tree)["log_evidence"] - log_evidence) < 5 * np.hypot(error, facts_of(tree)["log_evidence_error"])


@pytest.fixture(scope="module")
def direct_answers():
    """Five hundred direct answers and as many with little noise over three categories."""
    p = [0.6, 0.3, 0.1]
    direct, nearly = collected(GRR(3, 12.0), 500, p), collected(GRR(3, 3.0), 500, p, seed=2)
    return Collection("abc", [*direct.tallies, replace(nearly.tallies[0], name="nearly")])


@pytest.mark.calibrate
def test_nodes_that_move_by_little_keep_their_evidence(direct_answers):
    """Reports hardly tell floor from rest: means move slowly, and the evidence does not. P(λ = 0) was a third off."""
    _, nodes = settled(Problem.of(direct_answers, Floor(1.2, 1.5, 3.0)), drop=12.0)  # light nodes, too
    share, alpha = nodes.values["floor"], nodes.values["alpha"]
    inside = (share > 0.01) & (share < 0.95) & (alpha > 0.1) & (alpha < 3.0)
    assert inside.sum() >= 4 and (nodes.log_evidences[inside] > nodes.log_evidences.max() - 20).all()


def test_weights_about_a_mode_leave_a_share_that_may_be_zero_to_chains(direct_answers):
    for data in (direct_answers, direct_answers.with_deniers("b", "a", "nearly")):
        with pytest.raises(InfeasibleError, match=r"probability.*one value"):
            fit(data, Floor(1.2, 1.5, 3.0), method="weighted")


@pytest.mark.calibrate
def test_strong_reports_of_few_categories(direct_answers):
    """P(λ = 0) and the mean of λ by many draws of the prior."""
    prior, rng = Floor(1.2, 1.5, 3.0, n_categories=3), np.random.default_rng(4)
    rows, sums = direct_answers.rows, np.zeros((3, 2))
    top = rows.log_likelihood(np.full((3, 1), 1 / 3))[0] + 140
    for _ in range(100):
        z = rng.standard_normal((50_000, 2))
        share, alpha = np.maximum(2 * ndtr(z[:, 0]) - 1, 0), prior.learnt.alpha(z[:, 1])
        log_g = np.log(rng.standard_gamma(alpha[:, None] + 1, (50_000, 3)))
        uneven = softmax(log_g + np.log(rng.random((50_000, 3))) / alpha[:, None], axis=1)
        p = share[:, None] * rng.dirichlet(np.full(3, 3.0), 50_000) + (1 - share[:, None]) * uneven
        weight = np.exp(rows.log_likelihood(np.maximum(p.T, 1e-300)) - top)
        for k, of in enumerate((np.ones(50_000), share == 0, share)):
            sums[k] += (weight @ of, weight**2 @ of)
    zero, mean = sums[1:, 0] / sums[0, 0]
    error = 3 * np.sqrt(sums[0, 1]) / sums[0, 0]
    tree = fit(direct_answers, prior, random_seed=1, estimates=False)
    floor = tree["posterior"]["floor"].values
    assert tree.attrs["converged"] and error < 0.03
    assert abs((floor == 0).mean() - zero) < 0.04 + error and abs(floor.mean() - mean) < 0.03 + error


@pytest.mark.calibrate
def test_without_a_floor_the_nodes_are_those_of_the_learnt_prior(spiked):
    server, _ = settled(Problem.of(spiked, "floor"))
    prior = as_prior("learnt", 30)
    atom = Mixing(lambda alpha: OverFloor(0.0, alpha, 4.0), prior.nodes().values)
    nodes = Placement().place(atom, lambda priors: server.log_evidences(priors)[:, 0])
    learnt = lb.fit(spiked, "learnt", Exact(), random_seed=1, estimates=False)["exact"]
    sd = learnt["distribution_sd"].values
    mean = nodes.weights @ server.moments(nodes.priors)[0]
    assert (np.abs(mean - learnt["distribution_mean"].values) < 0.02 * sd).all()
    assert abs(nodes.log_evidence - float(learnt["log_evidence"])) < 0.02


@pytest.mark.calibrate
def test_one_spike_over_an_even_rest_has_a_floor(spiked, found):
    """Its squared error is below a half of the learnt prior's, and the result says what was learnt."""
    learnt = fit(spiked, "learnt", draws=0, estimates=False)["exact"]["distribution_mean"].values
    truth = np.array([0.4, *[0.6 / 29] * 29])
    mean = found["summary"].sel(target="distribution")["mean"].values
    assert ((mean - truth) ** 2).sum() < 0.5 * ((learnt - truth) ** 2).sum()
    attrs, share = facts_of(found), found["posterior"]["floor"]
    assert attrs["floor_zero"] < 0.05 and share.quantile(0.025) < 0.6 < share.quantile(0.975)
    assert f"and 0 with probability {attrs['floor_zero']:.2g}" in attrs["prior_reason"]
    draws = found["posterior"]
    assert float((draws["floor"] == 0).mean()) == pytest.approx(attrs["floor_zero"], abs=0.05)
    assert {"floor", "alpha"} <= {name for name, one in draws.data_vars.items() if one.attrs.get("of") == "prior"}


def test_it_is_saved_loaded_shown_and_printed(tmp_path):
    _, found = served(GRR(5, 2.0), 4.0)
    lb.save(found, tmp_path / "fit.nc")
    again = lb.load(tmp_path / "fit.nc")
    assert facts_of(again)["floor_zero"] == facts_of(found)["floor_zero"]
    assert "floor Dirichlet(4)" in str(again.attrs["prior"])
    assert "the floor" in str(lb.show(again))
    lb.pages.save(again, tmp_path / "page.html")
    assert "the floor" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.calibrate
def test_the_command_line_takes_it(spiked, tmp_path, capsys):
    lb.write(spiked, tmp_path / "data.toml")
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(tmp_path / "data.toml"), "--prior", "floor", "--draws", "50", "--seed", "1", "--explain"])
    assert not ended.value.code
    assert "the floor" in " ".join(capsys.readouterr().out.split())


@pytest.mark.calibrate
def test_cells_have_a_floor_each():
    cells = lb.Cells({"a": collected(GRR(5, 3.0), 300, SPIKED), "b": collected(GRR(5, 3.0), 200, SPIKED[::-1], 2)})
    tree = fit(cells, "floor", draws=250, random_seed=1)
    assert tree["posterior"]["distribution"].sizes["cell"] == 2


def test_where_it_cannot_serve_it_says_why(spiked):
    with pytest.raises(InfeasibleError, match="three categories"):
        fit(collected(GRR(2, 1.0), 50, [0.5, 0.5]), "floor", method="surrogate", draws=50)
    with pytest.raises(InfeasibleError, match="Dirichlet priors"):
        fit(spiked, "floor", method="exact", draws=50)
    with pytest.raises(InfeasibleError, match=r"Moments.*Dirichlet"):
        fit(spiked, "floor", draws=0)
    for wrong in (0.5, -1.0, math.nan):
        with pytest.raises(ArgumentError, match="evenness"):
            Floor(evenness=wrong)


def test_a_floor_that_is_even_has_no_unknowns_of_its_own():
    prior = as_prior("floor", 4)
    assert prior.evenness == 4 and prior.n_unknowns == 1 + 4 + 3
    even = Floor(evenness=math.inf, n_categories=4)
    p = even.to_simplex(np.array([50.0, *np.zeros(4)]))
    np.testing.assert_allclose(p, 0.25)
