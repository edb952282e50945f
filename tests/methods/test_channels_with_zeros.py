"""Channels that rule answers out (direct questions, certain cards, one-sided forced answers), in every engine."""

import warnings

import numpy as np
import pandas as pd
import pytest

import ldpbayes as lb
from ldpbayes.errors import ConvergenceError, DiagnosticWarning, InfeasibleError, no_foreign_errors
from ldpbayes.inference.nuts import sample_density
from ldpbayes.protocols.designs import crosswise, direct, forced_response, kuk
from ldpbayes.result.facts import facts_of

YES_NO = ("no", "yes")
CHANNELS = {
    "direct": direct(answers=YES_NO),
    "kuk": kuk(1.0, 0.3, answers=YES_NO),
    "one-sided": forced_response(0.7, (0, 1), answers=YES_NO),
    "edge": forced_response(1.0, (1, 1), answers=YES_NO),
}


def people(n, regions, channels, rng):
    """Return n people of some regions, asked through channels (name -> protocol) in turn."""
    names = list(channels)
    frame = pd.DataFrame(
        {
            "mode": [names[k % len(names)] for k in range(n)],
            "gender": rng.choice(["f", "m"], n),
            "age": rng.integers(18, 80, n).astype(float),
            "region": [f"r{k:02d}" for k in rng.integers(0, regions, n)],
        }
    )
    own = 0.5 * rng.standard_normal(regions)[frame["region"].str[1:].astype(int)]
    log_odds = -1.0 - 0.6 * (frame["mode"] == "direct") + 0.3 * (frame["gender"] == "m") + 0.02 * (frame["age"] - 45) + own
    truth = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    drawn = [channels[name].privatize(np.array([x]), rng)[0] for name, x in zip(frame["mode"], truth, strict=True)]
    frame["report"] = [channels[name].answers[int(y)] for name, y in zip(frame["mode"], drawn, strict=True)]
    return frame


def regressed(formula, frame, channels, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        return lb.regress(frame, formula, channels, design="mode", report="report", categories=YES_NO, **more)


@pytest.mark.calibrated("1", "2", "3")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_direct_questions_beside_a_device_with_effects_of_regions(seed):
    """The commonest design of the field: 875 people in 24 regions. The sampler panicked on three of three seeds."""
    channels = {"direct": direct(answers=YES_NO), "crosswise": crosswise(0.25, answers=YES_NO)}
    frame = people(875, 24, channels, np.random.default_rng(seed))
    found = regressed("oppose ~ mode + gender*age + (1 | region)", frame, channels, random_seed=seed)
    assert found.attrs["converged"], found.attrs["outcome"]
    assert found["posterior"].sizes["draw"] == 1000
    weighted = found.attrs["method"] == "weighted"  # which has no chains
    assert facts_of(found)["effective_draws" if weighted else "least_ess"] > 400
    assert weighted or facts_of(found)["worst_r_hat"] < 1.01


@pytest.mark.sampled(3)
@pytest.mark.calibrated(
    "direct- + (1 | region)-alone",
    "edge- + (1 | region)-alone",
    "edge- + (1 | region)-beside a device",
    "kuk- + (1 | region)-alone",
    "kuk- + (1 | region)-beside a device",
    "one-sided- + (1 | region)-alone",
    "one-sided- + (1 | region)-beside a device",
)
@pytest.mark.parametrize("beside", ["alone", "beside a device"])
@pytest.mark.parametrize("effects", ["", " + (1 | region)"])
@pytest.mark.parametrize("name", CHANNELS)
def test_every_engine_takes_channels_with_zeros(name, effects, beside):
    rng = np.random.default_rng(5)
    channels = {name: CHANNELS[name]} | ({"device": crosswise(0.2, answers=YES_NO)} if beside != "alone" else {})
    frame = people(120, 4, channels, rng)
    for method in ("auto", "nuts") if effects else ("auto", "hmc", "mle"):
        try:
            found = regressed(
                f"oppose ~ gender{effects}", frame, channels, method=method, **({} if method == "mle" else {"draws": 50})
            )
        except (ConvergenceError, InfeasibleError) as error:  # weights that do not hold, or no maximum
            assert method == "mle", error
            continue
        values = found.coefficients if method == "mle" else found["posterior"]["coefficients"]
        assert np.isfinite(values).all()


def test_a_gradient_beyond_the_range_of_floats_is_finite():
    """Where a share underflows, the density of a direct answer is taken in logarithms."""
    from ldpbayes.inference.effects import Bent
    from ldpbayes.regression import fitting

    frame = people(60, 3, {"direct": CHANNELS["direct"]}, np.random.default_rng(1))
    model = {}

    class Stop(Exception):
        pass

    def caught(of, *_):
        model["target"] = of.target
        raise Stop

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(fitting, "_posterior", caught)
        regressed("oppose ~ age + (1 | region)", frame, {"direct": CHANNELS["direct"]})
    target = model["target"]
    size = target.prior.n_unknowns
    density = Bent(target, np.zeros(size), np.zeros(size))
    far = np.zeros(size)
    far[0] = 2000.0  # log odds in the thousands
    value, slope = density.value_and_gradient(density.back(far))
    assert np.isfinite(value) and np.isfinite(slope).all() and value < -1e5
    near = np.random.default_rng(2).standard_normal(size) / 3
    values = [density.value_and_gradient(density.back(z))[0] for z in (near, 0.5 * near)]
    plain = [target.value_and_gradient(z)[0] for z in (near, 0.5 * near)]
    assert values[0] - values[1] == pytest.approx(plain[0] - plain[1], abs=1e-9)


def test_what_a_density_raises_never_reaches_the_sampler():
    def density(u):
        if u[0] > 1:
            raise ZeroDivisionError("division by zero")
        return -0.5 * float(u @ u), -u if u[0] > 0.5 else np.full(2, np.nan) if u[0] < -2 else -u

    settings = {"size": 2, "draws": 50, "tune": 100, "chains": 2, "target_accept": 0.8}
    draws, _ = sample_density(density, lambda rng: rng.standard_normal(2), np.random.default_rng(1), **settings)
    assert np.isfinite(draws).all() and draws[..., 0].max() <= 1

    def broken(u):
        raise TypeError("no density at all")

    with pytest.raises(lb.errors.LDPBayesError, match=r"no density|stopped"):
        sample_density(broken, lambda rng: np.zeros(2), np.random.default_rng(1), **settings)


def test_a_panic_of_a_dependency_is_an_error_of_ours():
    class Panic(BaseException):
        pass

    with (
        pytest.raises(ConvergenceError, match=r"nutpie.*Panic: Poisoned"),
        no_foreign_errors("The sampler nutpie"),
    ):
        raise Panic("Poisoned sampler state mutex: ..\nstack")
    with pytest.raises(KeyboardInterrupt), no_foreign_errors("The sampler nutpie"):
        raise KeyboardInterrupt
