"""Who decides is a question of sensitivity: a learnt prior that has found the empty categories does not decide."""

import numpy as np
import pytest
import xarray as xr
from arviz_stats import psense
from scipy.stats import beta
from support.fits import fit_of

import ldpbayes as lb
from ldpbayes.answers.deciding import decision_given, who_decides
from ldpbayes.answers.sensitivity import sensitivities
from ldpbayes.inference.scaling import DOUBLINGS, POWERS, VERDICTS, Scaled, by_weights
from ldpbayes.methods.problem import Problem
from ldpbayes.priors import Learnt
from ldpbayes.protocols import UnaryEncoding, designs


def survey(protocol, filled, n, seed=0):
    """Return n reports of a population in which so many categories, with shares as 1, 1/2, 1/3, …, are not empty."""
    rng, p = np.random.default_rng(seed), np.zeros(protocol.n_categories)
    p[:filled] = 1 / np.arange(1, filled + 1)
    tally = lb.Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))
    return lb.Collection([f"c{x}" for x in range(p.size)], tally)


@pytest.mark.calibrated("oue")
@pytest.mark.parametrize("protocol", [lb.GRR(60, 2.0), UnaryEncoding.optimized(40, 1.0)], ids=["grr", "oue"])
def test_nine_tenths_of_the_categories_are_empty(protocol):
    """Most credible intervals are less than half as wide as the confidence intervals, rightly so."""
    found = survey(protocol, protocol.n_categories // 10, 8000)
    tree = lb.fit(found, random_seed=1, draws=500)
    assert tree.attrs["prior"].startswith("learnt")
    assert tree.attrs["prior_decides"] == 0 and not tree.attrs["decides"]
    page = " ".join(note.text for note in lb.show(tree).notes)
    assert "prior decides" not in page


@pytest.mark.parametrize("prior", ["learnt", "jeffreys"])
def test_weak_reports_hang_on_the_prior(prior):
    tree = lb.fit(survey(lb.GRR(30, 0.5), 30, 200), prior=prior, random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 1
    assert "with twice its weight the mean or an end of" in tree.attrs["decides"]


def test_strong_reports_do_not():
    tree = lb.fit(survey(lb.GRR(6, 2.0), 6, 20_000), prior="jeffreys", random_seed=1, draws=250)
    assert tree.attrs["prior_decides"] == 0


def direct(counts):
    labels = [f"c{x}" for x in range(len(counts))]
    return lb.Collection(labels, lb.Tally(designs.direct(len(counts)), np.arange(len(counts)), counts))


def scaled_by(result, problem, **settings):
    """Return what scaling the prior does to the shares of one collection."""
    return sensitivities(fit_of(result, problem.collection, problem.prior), [problem], **settings)[0]


def test_sensitivities_are_those_of_fits_in_closed_form():
    """Direct answers: the posterior under γα is Dirichlet(γα + counts), whose margins are Beta."""
    counts, alpha = np.array([40, 25, 3, 0]), np.array([0.5, 1.0, 2.0, 0.3])
    data = direct(counts)
    found = scaled_by(lb.fit(data, prior=alpha, random_seed=1, draws=250), Problem.of(data, alpha))

    def law(scale, power=1.0):
        a = power * (scale * alpha + counts)
        return beta(a, a.sum() - a)

    low, high = law(POWERS[0]), law(POWERS[1])
    np.testing.assert_allclose(found.shift, (high.mean() - low.mean()) / law(1).std() / DOUBLINGS, atol=1e-6)
    np.testing.assert_allclose(found.growth, np.log(high.std() / low.std()) / DOUBLINGS, atol=1e-6)
    # Reports to a power: what is left of a posterior to that power when the prior's part is taken away.
    step = 1e-4
    narrowed = np.log(law(1, 1 + step).std() / law(1).std()) / np.log2(1 + step)
    np.testing.assert_allclose(-found.room, narrowed, atol=1e-3)
    # The ends by Beta distributions with these moments are those of two fits, half a doubling down and up.
    ends = np.abs(law(2**0.5).ppf(0.975) - law(2**-0.5).ppf(0.975))
    assert (found.moves >= 0.97 * ends).all() and (found.moves < 1.3 * ends + 0.02 * law(1).std()).all()


def test_sensitivities_are_those_of_psense():
    """Normal posteriors of three means whose prior is known: ArviZ's gradient of the distance, on the same draws."""
    rng, tau, y = np.random.default_rng(1), np.array([0.05, 1.0, 4.0]), np.array([0.0, 3.0, 1.0])
    weight = tau / (1 + tau)
    draws = rng.normal(weight * y, np.sqrt(weight / tau), (4, 2000, 3))
    prior, reports = -0.5 * draws**2, -0.5 * tau * (draws - y) ** 2
    for k in range(3):
        tree = xr.DataTree.from_dict(
            {
                name: xr.Dataset({"x": (("chain", "draw"), values[..., k])})
                for name, values in (("posterior", draws), ("log_prior", prior), ("log_likelihood", reports))
            }
        )
        flat, density = draws[..., k].reshape(-1, 1), prior[..., k].ravel()
        found = Scaled.of(flat.mean(0), flat.std(0), by_weights(flat, density), shares=False, floor=0.0)
        for mine, group in ((found.prior, "prior"), (found.reports, "likelihood")):
            theirs = float(psense(tree, group=group)["x"])
            assert abs(mine[0] - theirs) < 0.1 * theirs + 0.006


def test_no_reports_of_a_thousand_is_a_conflict_that_does_not_matter():
    data = direct([600, 400, 0])
    found = lb.fit(data, prior="jeffreys", random_seed=1, draws=250)
    of = found["sensitivity"].sel(category="c2")
    assert of["prior_sensitivity"] > 0.1 and of["reports_sensitivity"] > 0.1 and of["decided_by"] == "reports"
    without = scaled_by(found, Problem.of(data, "jeffreys"), floor=1e-6)
    assert VERDICTS[without.verdict[2]] == "conflict"


def test_a_prior_against_the_reports_is_a_conflict():
    found = lb.fit(direct([30, 70]), prior=np.array([90.0, 10.0]), random_seed=1, draws=250)
    assert found.attrs["decided_by"] == "conflict" and found.attrs["decides"].startswith("Here prior and reports disagree: ")
    assert "reports disagree" in who_decides(found)


def test_weights_of_the_learnt_prior_are_those_of_another_fit():
    """Under the learnt prior: moves by weighted draws against two fits with the moved medians, within Monte Carlo error."""
    data = survey(lb.GRR(12, 1.0), 5, 400)
    found = scaled_by(lb.fit(data, prior="learnt", random_seed=1), Problem.of(data, "learnt"))
    low, high = (
        lb.fit(data, prior=Learnt(median=0.5 * power), draws=0)["summary"].to_dataset().sel(target="distribution")
        for power in POWERS
    )
    np.testing.assert_allclose(
        found.shift * found.sd * DOUBLINGS, (high["mean"] - low["mean"]).values, atol=0.02 * found.sd.max()
    )
    np.testing.assert_allclose(found.growth * DOUBLINGS, np.log(high["sd"] / low["sd"]).values, atol=0.05)
    # Without draws the nodes are weighted anew: moves were up to 1.4 times as large.
    tree = lb.fit(data, prior="learnt", draws=0)
    known = tree["summary"].to_dataset().sel(target="distribution")
    under = (np.stack([one[name].values for one in (low, high)]) for name in ("mean", "sd"))
    exact = Scaled.of(known["mean"].values, known["sd"].values, tuple(under), shares=True)
    for name, values in (("move", exact.moves), ("prior_sensitivity", exact.prior)):
        np.testing.assert_allclose(tree["sensitivity"][name], values, rtol=0.01)


@pytest.mark.parametrize(
    ("epsilon", "n", "by"), [(1.0, 2, "prior"), (0.2, 50, "prior"), (3.0, 10, "reports"), (1.0, 50, "reports")]
)
def test_ends_that_cannot_move_are_no_sign_that_the_reports_decide(epsilon, n, by):
    """Half of the reports name either category: the mean stays at ½, and the interval of Jeffreys' prior reaches 0 and 1."""
    data = lb.Collection(["yes", "no"], lb.Tally(lb.GRR(2, epsilon), [0, 1], [n // 2, n // 2]))
    for draws in (250, 0):
        found = lb.fit(data, prior="jeffreys", random_seed=1, draws=draws)
        lower, upper = (
            float(found["summary"][name].sel(target="distribution", category="yes")) for name in ("lower", "upper")
        )
        assert found.attrs["decided_by"] == by and (upper - lower > 0.9) == (by == "prior")
        assert ("holds more than half of the information" in found.attrs["decides"]) == (by == "prior")


def test_the_practical_floor_is_an_option():
    data = survey(lb.GRR(30, 0.5), 30, 200)
    tree = lb.fit(data, prior="jeffreys", random_seed=1, draws=250)
    for floor, by in ((0.002, "prior"), (0.5, "reports")):
        moved = scaled_by(tree, Problem.of(data, "jeffreys"), floor=floor)
        assert decision_given(data, moved)["decided_by"] == by


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prior", ["learnt", "jeffreys"])
@pytest.mark.parametrize("n", [200, 60_000])
def test_fits_without_draws_say_the_same(prior, n):
    data = survey(lb.GRR(30, 0.5 if n == 200 else 2.0), 30, n)
    drawn, undrawn = (lb.fit(data, prior, random_seed=1, draws=draws).attrs["decided_by"] for draws in (250, 0))
    assert drawn == undrawn == ("prior" if n == 200 else "reports")
