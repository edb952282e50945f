"""Models with priors that are not Dirichlet, built on observe(): they sample, and do what their prior is for."""

import pathlib
import runpy

import numpy as np
import pymc as pm
import pytest
from arviz_stats.base import array_stats

from ldpbayes import GRR, Collection, Tally, load_example, regress, result

MODELS = pathlib.Path(__file__).parents[1] / "models"
#: Answers of the cheating survey by faculty (Arcos, Rueda, Singh 2015; package RRTCS, ErikssonData).
FACULTIES = {
    "Ciencias": [12, 2, 0, 9, 2, 5, 2, 0, 1, 0],
    "Ingenieria": [1, 4, 1, 2, 0, 1, 0, 0, 0, 0],
    "Salud": [14, 9, 0, 5, 8, 7, 1, 1, 0, 0],
    "SocialesJuridicas": [4, 4, 0, 1, 0, 4, 0, 0, 0, 2],
}


def sample(model, variable):
    """Return (trace, posterior mean of the variable) of a fit that converged."""
    with model:
        trace = pm.sample(
            draws=500,
            tune=500,
            chains=4,
            cores=1,
            random_seed=1,
            nuts_sampler="nutpie",
            nuts={"target_accept": 0.95},
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    draws = trace["posterior"][variable].values
    assert array_stats.rhat(draws, chain_axis=0, draw_axis=1).max() < 1.02
    assert not trace["sample_stats"]["diverging"].any()
    return trace, draws.mean(axis=(0, 1))


@pytest.mark.calibrate  # several seconds
def test_faculties_are_pooled_in_part(eriksson):
    protocol = eriksson.tallies[0].protocol
    groups = {
        name: Collection(eriksson.categories, Tally(protocol, np.arange(10), counts)) for name, counts in FACULTIES.items()
    }
    assert sum(groups.values(), start=groups.pop("Ciencias")).tallies[0] == eriksson.tallies[0]
    groups = {"Ciencias": Collection(eriksson.categories, Tally(protocol, np.arange(10), FACULTIES["Ciencias"])), **groups}
    model = runpy.run_path(str(MODELS / "hierarchical_groups.py"))["model"](groups)
    trace, mean = sample(model, "distribution")
    overall = trace["posterior"]["overall"].values.mean(axis=(0, 1))
    shares = [np.array(counts) / np.sum(counts) for counts in FACULTIES.values()]
    inverse = np.stack([protocol.decoder().inverse @ share for share in shares])
    # Each faculty's mean moves from its own unbiased estimate towards the overall one, and differs between faculties.
    assert (np.abs(mean - overall).sum(axis=1) < np.abs(inverse - overall).sum(axis=1)).all()
    assert mean.std(axis=0).max() > 0.02
    assert mean.sum(axis=1) == pytest.approx(1)


@pytest.mark.calibrate  # several seconds
def test_random_walk_beats_jeffreys_on_a_smooth_distribution():
    a, rng = 20, np.random.default_rng(1)
    p = np.exp(-0.5 * ((np.arange(a) - 8) / 4) ** 2)
    p /= p.sum()
    protocol = GRR(a, epsilon=1.0)
    reports, counts = protocol.simulate(rng.multinomial(2000, p), rng)
    collection = Collection([str(x) for x in range(a)], Tally(protocol, reports, counts))
    _, mean = sample(runpy.run_path(str(MODELS / "ordered_random_walk.py"))["model"](collection), "distribution")
    oracle = protocol.oracle(collection.rows)
    assert ((mean - p) ** 2).sum() < 0.5 * ((np.maximum(oracle, 0) / np.maximum(oracle, 0).sum() - p) ** 2).sum()


@pytest.mark.calibrate  # several seconds
def test_covariates_that_leave_nothing_open_agree_with_the_regression():
    """The sd of what the covariates leave open is near zero in this survey: the log odds are those of regress."""
    cells = load_example("nigeria_cells")
    x = np.array([[1.0, float(female), float(married)] for female, married, _ in cells])
    model = runpy.run_path(str(MODELS / "regression_with_observe.py"))["model"](cells, x)
    trace, _ = sample(model, "distribution")
    b = trace["posterior"]["coefficients"].values
    odds = (b[..., 1] - b[..., 0]).mean(axis=(0, 1))
    found = regress(cells, "connected ~ female + married", random_seed=1)["posterior"]["coefficients"]
    mean, sd = (getattr(found, name)(("chain", "draw")).values[:, 1] for name in ("mean", "std"))
    assert (np.abs(odds - mean) < sd).all()
    assert trace["posterior"]["spread"].values.mean() < 0.4
    tree = result.attach(trace, cells, var_name="distribution", random_seed=1)
    assert tree["summary"]["mean"].sizes["cell"] == 20
