"""One verdict: k-hat counts where weights matter, many cells are judged together, and what is short of draws goes on."""

import inspect
import pathlib
from dataclasses import replace

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning, LDPBayesWarning
from ldpbayes.inference import effects, importance, sampling, verdict
from ldpbayes.inference.diagnostics import chain_diagnostics, extremes
from ldpbayes.methods import base
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.watch import Watch
from ldpbayes.protocols import GRR
from ldpbayes.result.facts import facts_of


def test_k_hat_counts_only_where_the_weights_matter():
    """A tail with k-hat near one does not matter where it holds next to no weight, and does where it holds some."""
    rng = np.random.default_rng(1)
    values, tail = rng.standard_normal((4000, 3)), rng.pareto(0.9, 4000)
    equal = importance.weigh(values, np.log1p(0.0005 * tail))
    assert equal.k_hat > verdict.LIMITS.k_hat and equal.effective_sample > 0.99 * 4000
    assert equal.verdict.accepted and equal.unseen < verdict.LIMITS.unseen
    uneven = importance.weigh(values, np.log1p(0.5 * tail))
    assert uneven.k_hat > verdict.LIMITS.k_hat and uneven.verdict.next == "other"


def test_ends_with_large_errors_say_how_many_draws_help():
    """Errors fall as one over the root of the number; the draws that were made count, not those that were kept of them."""
    assert verdict.ACCEPTED.with_ends(0.12, 0.1).advised(1000).endswith("draws=1800")
    assert verdict.ACCEPTED.with_ends(0.12, 0.1, 8).advised(1000).endswith("draws=15000")
    assert verdict.ACCEPTED.with_ends(0.12, 0.1).rejecting("more").advised(1000).count("draws=") == 0
    outcome = Outcome(np.zeros((4, 500, 2)), verdict=verdict.ACCEPTED.with_ends(0.2, 0.1))
    assert all("draws=2500" in said for said in (outcome.problem, outcome.rejected, outcome.diagnostics(False).problem))
    assert "draws=2500" in replace(outcome, independent=False).problem


@pytest.mark.calibrate
def test_hundreds_of_cells_are_not_refused_by_chance():
    """Of 620 cells with nearly equal weights some have a large k-hat; none of them refuses the others."""
    rng = np.random.default_rng(2)
    every = [importance.weigh(rng.standard_normal((1000, 2)), 0.01 * rng.standard_t(3, 1000)) for _ in range(620)]
    assert max(one.k_hat for one in every) > verdict.LIMITS.k_hat
    assert verdict.together(one.verdict for one in every).accepted


def test_what_to_do_next():
    assert verdict.of_chains(1.005, 500).next == "done"
    short = verdict.of_chains(1.008, 348)
    assert not short.accepted and (short.next, short.times) == ("more", 2) and "348 is below 400" in short.problem
    assert verdict.of_chains(1.3, 50).next == "other" and verdict.of_chains(1.0, 900, 3).next == "other"
    assert verdict.of_chains(np.nan, np.nan).next == "other"
    # A single chain goes on while its draws are worth too little, and no longer: more of them give it no R-hat.
    single = verdict.of_chains(np.nan, 131, 0, 495)
    assert not single.accepted and single.next == "done" and "single chain" in single.problem
    assert verdict.of_chains(np.nan, 90, 0, 495).next == verdict.of_chains(np.nan, 300, 0, 1000).next == "more"
    assert verdict.of_chains(np.nan, 500, 0, 1000).next == "done" and verdict.of_chains(np.nan, 500, 2, 1000).next == "other"
    # Of 400 draws that were asked for 400 effective ones are too many: nothing is left to do, unless they are stuck.
    asked = verdict.of_chains(1.02, 230, 0, 400)
    assert not asked.accepted and asked.next == "done" and "230 is below 400" in asked.problem
    assert verdict.of_chains(1.2, 15, 0, 400).next == "more" and verdict.of_chains(1.2, 15, 0, 4000).next == "other"
    assert verdict.of_chains(1.1, 230, 0, 400).next == "more" and verdict.of_chains(1.02, 230, 1, 400).next == "other"
    # So it is with an R-hat that 800 draws have by chance, once 4,000 were made; of 4,000 it has another reason.
    assert [verdict.of_chains(1.015, 450, 0, 800, made).next for made in (800, 4000)] == ["more", "done"]
    assert verdict.of_chains(1.015, 450, 0, 4000, 4000).next == "more"
    few = verdict.of_weights(0.3, 500, 4000)
    assert few.next == "more" and few.times == 3
    assert verdict.of_weights(0.9, 500, 4000).next == "other"
    assert verdict.of_weights(0.3, 500, 4000, kept=1000).accepted
    # A large correction is no alarm where the weights may be trusted, and is not said to be sound where they may not.
    trusted = verdict.of_weights(0.3, 3500, 4000, shift=4.44)
    assert trusted.accepted and "sound" in trusted.checked and "4.44" in trusted.checked
    assert "sound" not in verdict.of_weights(0.9, 500, 4000, shift=4.44).checked


def test_a_sampler_that_is_short_of_draws_goes_on(monkeypatch):
    """Four times 250 draws have some 280 effective ones: the same run goes on, and NUTS does not start from nothing."""
    rng, found = np.random.default_rng(3), {}
    for c in range(12):
        p = rng.dirichlet(np.full(4, 4.0))
        protocol = GRR(4, 1.0)
        found[f"g{c}"] = lb.Collection("abcd", [lb.Tally(protocol, *protocol.simulate(rng.multinomial(300, p), rng))])
    said = {}
    monkeypatch.setattr(Watch, "announce", lambda _, what, seconds: said.update({what: seconds}))
    tree = lb.fit(lb.Cells(found), "hierarchical", draws=250, exclude="weighted", estimates=False, random_seed=1)
    assert 0 < said["The method hmc"] < said["A run with enough draws"] < 100
    assert tree.attrs["method"] == "hmc" and tree.attrs["converged"]
    assert facts_of(tree)["thinned"] > 1 and tree["posterior"].sizes["draw"] == 250
    assert facts_of(tree)["least_ess"] >= verdict.LIMITS.ess


def test_independent_draws_are_not_asked_to_go_on_for_ever():
    """Of 800 draws of 500 quantities the worst R-hat is above its limit by chance: chains that go on for it never end."""
    draws = np.random.default_rng(0).standard_normal((4, 200, 500))
    diagnosed = extremes(chain_diagnostics(draws))
    judged = verdict.of_chains(*diagnosed, 0, 800, 4000)
    assert not judged.accepted and judged.next == "done" and "R-hat" in judged.problem
    wandering = extremes(chain_diagnostics(np.cumsum(draws, axis=1)))
    assert verdict.of_chains(*wandering, 0, 800, 4000).next == "other"  # chains that have not met, and never will


def test_few_draws_asked_for_are_no_reason_for_another_method():
    """Four times fifty draws never have 400 effective ones: the first sampler answers, and says so."""
    protocol, rng, found = GRR(4, 1.0), np.random.default_rng(4), {}
    for c in range(5):
        tally = lb.Tally(protocol, *protocol.simulate(rng.multinomial(300, rng.dirichlet(np.full(4, 4.0))), rng))
        found[f"g{c}"] = lb.Collection("abcd", [tally])
    with pytest.warns(DiagnosticWarning, match=r"effective.*below 400"):
        tree = lb.fit(lb.Cells(found), "hierarchical", draws=50, exclude="weighted", estimates=False, random_seed=1)
    assert tree.attrs["method"] == "hmc" and not tree.attrs["converged"] and "hmc ran first" not in tree.attrs["reason"]


def test_no_other_module_has_limits_of_its_own():
    """The numbers 0.7, 1.01 and 400 are compared with diagnostics in one file."""
    package = pathlib.Path(inspect.getfile(lb)).parent
    limits = ("k_hat <", "k_hat >", "r_hat <", "r_hat >", "MIN_EFFICIENCY", "LEAST_EFFECTIVE =")
    astray = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.parent.name != "inference"
        for line in path.read_text().splitlines()
        if any(word in line for word in limits)
    ]
    assert not [line for line in astray if "GOOD_K_HAT" not in line], astray


def test_chains_that_go_on_again_and_again_keep_draws_at_equal_distances():
    """Ten draws, then twice as many, then twice as many of these: the tenth of forty is the last, all four apart."""
    made = np.arange(40)

    def more(number):
        nonlocal made
        z, made = made[:number], made[number:]
        return sampling.Run(z[None, :, None], {"lp": z[None]})

    run = sampling.going_on(more, lambda found, draws: draws < 40, 10, base.Watch(), thin=True)
    np.testing.assert_array_equal(run.z[0, :, 0], np.arange(3, 40, 4))
    np.testing.assert_array_equal(run.stats["lp"][0], np.arange(3, 40, 4))
    assert run.facts["thinned"] == 4 and not made.size


def test_the_time_of_chains_that_go_on_is_announced_until_they_stop():
    """Chains double until they are long enough or too dear, and a longer time than was said is said again."""
    assert effects.lengthened(3.1, lambda times: True) == 4 and effects.lengthened(1.0, lambda times: True) == 2
    assert effects.lengthened(16.0, lambda times: times < 4) == 4
    watch = Watch()
    with pytest.warns(LDPBayesWarning) as said:
        for seconds in (44.0, 50.0, 88.0):
            watch.announce("The sampler", seconds)
    assert ["44 s" in str(said[0].message), "88 s" in str(said[1].message), len(said)] == [True, True, 2]
