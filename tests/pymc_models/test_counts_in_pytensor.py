"""Counts enter PyMC models as they are: ``pm.Data`` casts integers to int32, and to int16 where floatX is float32."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

import ldpbayes as lb

CATEGORIES = ["a", "b", "c"]
RNG = np.random.default_rng(37)
#: Evaluated once: compiling would take a hundred times as long.
INTERPRETED = Mode(linker="py", optimizer=None)
#: Counts beyond int16 and beyond int32.
SIZES = (40_000, 5_000_000_000)


def collections(n):
    """Yield (name, data, shape of p): forms of likelihood that observe serves, with n of one report."""
    grr = lb.Collection(CATEGORIES, [lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], [n, n // 2, n // 4])])
    protocol = lb.make_protocol("local_hashing", CATEGORIES, {"epsilon": 1.0})
    reports, counts = protocol.simulate(np.array([30, 20, 10]), RNG)
    counts = np.array(counts)
    counts[0] = n
    hashed = lb.Collection(CATEGORIES, [lb.Tally(protocol, reports, counts)])
    yield "counts", grr, (3,)
    yield "counts of cells", lb.Cells({"u": grr, "v": grr}, by="g"), (2, 3)
    yield "whole reports", hashed, (3,)
    yield "whole reports of cells", lb.Cells({"u": hashed, "v": hashed}, by="g"), (2, 3)


def log_likelihoods(data, shape, **options):
    """Return the values of every observed variable at equal shares."""
    with pm.Model() as model:
        p = pm.math.softmax(pm.Normal("x", shape=shape), axis=-1)
        lb.pymc.observe("reports", p, data, **options)
    point = {"x": np.zeros(shape, dtype=pytensor.config.floatX)}
    return model, np.concatenate([np.ravel(model.compile_logp(v, mode=INTERPRETED)(point)) for v in model.observed_RVs])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("floatx", ["float64", "float32"])
@pytest.mark.parametrize("n", SIZES)
def test_every_form_of_the_likelihood_counts_every_report(n, floatx):
    share = np.full(3, 1 / 3)
    # Equal shares in float32 are wrong by 1e-8, once for every report.
    tolerance = 1e-9 if floatx == "float64" else 3e-7
    for name, data, shape in collections(n):
        with pytensor.config.change_flags(floatX=floatx):
            model, values = log_likelihoods(data, shape)
        cell = data if isinstance(data, lb.Collection) else next(iter(data.values()))
        if name.startswith("counts"):
            expected = stats.multinomial.logpmf(cell.tallies[0].counts, cell.n_reports, share)
            assert (model["reports_counts"].get_value().reshape(-1, 3) == cell.tallies[0].counts).all()
            scale = cell.n_reports
        else:
            expected, scale = cell.rows.log_likelihood(share), cell.n_reports
        assert values.sum() == pytest.approx(np.prod(shape[:-1], dtype=int) * expected, abs=tolerance * scale), name


def test_a_surrogate_of_many_reports_is_that_of_few_times_their_number():
    few, many = (next(collections(n))[1] for n in (4, 4_000_000_000))
    pilot = np.array([0.5, 0.3, 0.2])
    with pytensor.config.change_flags(floatX="float32"):
        summaries = [lb.Cells({"all": data}).summaries(pilot)["all"] for data in (few, many)]
        values = [log_likelihoods(summary, (3,))[1].sum() for summary in summaries]
    assert values[1] / values[0] == pytest.approx(1e9, rel=1e-6)


@pytest.mark.calibrate
def test_nuts_takes_more_reports_than_int32_counts():
    counts = np.array([3_000_000_000, 2_000_000_000, 1_000_000_000])
    data = lb.Collection(CATEGORIES, [lb.Tally(lb.GRR(3, 1.0), [0, 1, 2], counts)])
    tree = lb.fit(data, "flat", "nuts", random_seed=1)
    exact = lb.fit(data, "flat", draws=0, random_seed=1)
    mean, sd = (exact["summary"][key].sel(target="distribution") for key in ("mean", "sd"))
    assert (abs(tree["summary"]["mean"].sel(target="distribution") - mean) < 0.5 * sd).all()
    assert tree["summary"]["sd"].sel(target="distribution").values == pytest.approx(sd.values, rel=0.35)


def test_gradients_in_float32():
    data = next(collections(40_000))[1]
    with pytensor.config.change_flags(floatX="float32"), pm.Model() as model:
        p = pm.math.softmax(pm.Normal("x", shape=3))
        lb.pymc.observe("reports", p, data)
        gradient = model.compile_dlogp(mode=INTERPRETED)({"x": np.array([0.3, 0.1, -0.2], dtype="float32")})
    share = np.exp([0.3, 0.1, -0.2]) / np.exp([0.3, 0.1, -0.2]).sum()
    slope = data.rows.value_and_gradient(share)[1] * share
    expected = slope - slope.sum() * share - [0.3, 0.1, -0.2]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=0.1)
