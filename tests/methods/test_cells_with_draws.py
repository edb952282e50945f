"""Cells with draws: the users of all draws are allocated together, and quantiles are found at all levels at once."""

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.methods.frequency import frequency_draws
from ldpbayes.protocols.designs import warner
from ldpbayes.result.facts import facts_of
from ldpbayes.road import walk


def cells(number):
    """Return cells with 300 reports of GRR over ten categories."""
    rng, protocol = np.random.default_rng(30), lb.GRR(10, 1.0)
    labels, groups = [f"x{x}" for x in range(10)], {}
    for i in range(number):
        reports, counts = protocol.simulate(rng.multinomial(300, rng.dirichlet(np.ones(10))), rng)
        groups[f"c{i}"] = lb.Collection(labels, [lb.Tally(protocol, reports, counts)])
    return lb.Cells(groups, by="cell")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["grr", "local_hashing", "unary"])
def test_users_allocated_together_follow_the_law_of_users_allocated_one_draw_at_a_time(name):
    rng, labels = np.random.default_rng(30), list("abcde")
    parameters = {"epsilon": 2.0} | ({"variant": "optimised"} if name == "unary" else {})
    protocol = lb.make_protocol(name, labels, parameters)
    survey = lb.Collection(labels, [lb.Tally(protocol, *protocol.simulate(np.array([90, 50, 30, 20, 10]), rng))])
    p = np.tile(rng.dirichlet(np.ones(5)), (4000, 1))
    together = frequency_draws(survey.rows, p, rng) * 200
    sampler = survey.rows.sampler()
    alone = np.concatenate([sampler.allocate_each(one[None], rng) for one in p])
    assert (np.abs(together.sum(axis=1) - 200) < 1e-9).all() and (np.abs(together - np.round(together)) < 1e-9).all()
    mean, variance = survey.likelihood.tally_moments(p[0])
    for drawn in (together, alone):
        assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4000)).all()
        often = variance > 1  # tallies that are nearly always 0 have too long a tail
        np.testing.assert_allclose(drawn.var(axis=0)[often], variance[often], rtol=5 * np.sqrt(2 / 4000) + 0.02)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prior", ["jeffreys", 0.02])
def test_cells_together_have_the_posteriors_of_cells_alone(prior):
    """Two categories under small concentrations had means up to 1.6 sd off where cells were made without draws."""
    rng = np.random.default_rng(31)
    yes = {k: lb.simulate(rng.dirichlet([1, 1]), warner(0.7), 150, random_seed=k) for k in range(2)}
    for data in (cells(2), lb.Cells(yes, by="cell")):
        tree = lb.fit(data, prior, random_seed=1, draws=500)
        undrawn = lb.fit(data, prior, random_seed=1, draws=0)["summary"].sel(target="distribution")
        for k, cell in enumerate(data.values()):
            alone, one = lb.fit(cell, prior, random_seed=2, draws=500), tree["summary"].isel(cell=k)
            p, own = (part.sel(target="distribution") for part in (one, alone["summary"]))
            for name in ("mean", "sd", "lower", "upper"):
                assert (np.abs(p[name].values - own[name].values) < 1e-7 * own["sd"].values).all()
                assert (np.abs(undrawn[name].isel(cell=k).values - own[name].values) < 1e-7 * own["sd"].values).all()
            f, expected = tree["posterior"]["frequency"].isel(cell=k), alone["exact"]["frequency_mean"].values
            error = alone["exact"]["frequency_sd"].values / np.sqrt(2000)
            assert (np.abs(f.mean(["chain", "draw"]).values - expected) < 5 * error + 1e-12).all()
            facts = tree["cells"].isel(cell=k)
            assert float(facts["log_evidence"]) == pytest.approx(float(alone["exact"]["log_evidence"]), abs=1e-8)
            for name in ("worth", "decides", "fitness", "bayes_factors", "prior_decides"):
                assert facts[name].item() == facts_of(alone)[name], name
            for group, name in (("estimate", "value"), ("confidence", "lower"), ("confidence", "upper")):
                np.testing.assert_allclose(tree[group][name].isel(cell=k), alone[group][name], rtol=1e-9, atol=1e-12)


def test_no_cell_is_fitted_alone(monkeypatch):
    """Twenty cells of ten categories took ten seconds: nine tenths went into what stands beside the posteriors."""
    monkeypatch.setattr(walk, "_alone", None)
    data = cells(3)
    tree = lb.fit(data, random_seed=1, draws=100)
    assert tree["posterior"]["frequency"].shape == (4, 100, 3, 10)
    users = tree["posterior"]["frequency"].values * 300
    assert np.abs(users - np.round(users)).max() < 1e-9
    with pytest.raises(lb.errors.ArgumentError, match=r"draws must.*2"):
        lb.fit(data, random_seed=1, draws=1, chains=1)
    first = lb.fit(lb.Cells(dict(list(data.items())[:1]), by="cell"), random_seed=1, draws=100)
    np.testing.assert_array_equal(first["posterior"]["distribution"][:, :, 0], tree["posterior"]["distribution"][:, :, 0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["grr", "unary"])
def test_what_is_said_of_a_cell_is_what_is_said_of_its_collection(name):
    """One describer serves both: evidence within its stated errors, the worth of the reports within Monte Carlo error."""
    rng, labels, groups = np.random.default_rng(31), list("abcd"), {}
    protocol = lb.make_protocol(name, labels, {"epsilon": 1.5} | ({"variant": "optimised"} if name == "unary" else {}))
    for key in "xy":
        reports, counts = protocol.simulate(rng.multinomial(150, [0.5, 0.3, 0.15, 0.05]), rng)
        groups[key] = lb.Collection(labels, [lb.Tally(protocol, reports, counts)])
    tree = lb.fit(lb.Cells(groups, by="group"), "jeffreys", draws=250, random_seed=1)
    alone, cell = lb.fit(groups["y"], "jeffreys", draws=250, random_seed=2), tree["cells"].to_dataset().isel(cell=1)
    for prior in ("flat", "learnt"):
        key = f"log_bayes_factor_{prior}"
        assert abs(float(cell[key]) - facts_of(alone)[key]) < 3 * facts_of(alone)[f"{key}_error"] + 1e-3
    np.testing.assert_equal(float(cell["fitness_p"]), facts_of(alone)["fitness_p"])
    assert float(cell["effective_direct_answers"]) == pytest.approx(facts_of(alone)["effective_direct_answers"], rel=0.15)
    assert int(cell["prior_decides"]) == alone.attrs["prior_decides"]
    for group in ("estimate", "confidence"):
        for variable, values in alone[group].data_vars.items():
            if values.dtype.kind == "f":
                found = tree[group][variable].isel(cell=1).transpose(*values.dims)
                np.testing.assert_allclose(found.values, values.values, atol=1e-9)
