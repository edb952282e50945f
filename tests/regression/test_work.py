"""What a regression costs: weights that cannot be mended hand over, chains announce themselves, matrices take one thread.

The kind: work that grew by chance of the draw. Siblings searched: `weighted` also serves effects of cells
(methods/weighted.py), and the compiled gradient hierarchical priors and the smoothing of private groups.
"""

import functools

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import ldpbayes as lb
from ldpbayes.errors import LDPBayesWarning
from ldpbayes.inference import effects
from ldpbayes.methods.watch import Watch
from ldpbayes.protocols import designs
from ldpbayes.regression import fitting
from ldpbayes.regression.target import RegressionTarget

pytestmark = pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")


def weak(seed, n=155, groups=24):
    """Return a table of few reports in many groups, whose device says little."""
    rng = np.random.default_rng(seed)
    x, z, g = rng.normal(size=n), rng.integers(2, size=n), rng.integers(groups, size=n)
    eta = -1.5 + 0.5 * x + 0.5 * z + rng.normal(0, 0.5, groups)[g]
    protocol = designs.crosswise(0.25)
    truth = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"x": x, "z": z, "g": [f"r{i}" for i in g], "y": protocol.privatize(truth, rng)}), protocol


@pytest.mark.calibrate
def test_weights_that_cannot_be_mended_hand_over(monkeypatch):
    weighed, log_density = [], RegressionTarget.log_density

    def counted(self, z, watch=None):
        weighed.append(len(z))
        return log_density(self, z, watch)

    monkeypatch.setattr(RegressionTarget, "log_density", counted)
    frame, protocol = weak(6)
    result = lb.regress(frame, "y ~ x + z + (1 | g)", protocol, random_seed=1)
    assert result.attrs["converged"] and result.attrs["method"] == "hmc"
    assert sum(weighed) < 300_000  # 231,046: a second set of weighted draws is made where the first may be mended


@pytest.mark.filterwarnings("error:Hamiltonian Monte Carlo takes about")
def test_chains_say_how_long_they_take_before_they_start(monkeypatch):
    """The warning is an error here, so that no chain runs."""
    monkeypatch.setattr(fitting, "Watch", functools.partial(Watch, long=1e-4))
    monkeypatch.setattr(effects, "going_on", None)  # no draw is made without a word
    frame, protocol = weak(1)
    with pytest.raises(LDPBayesWarning, match=r"Hamiltonian.*takes"):
        lb.regress(frame, "y ~ x", protocol, method="hmc", draws=250, random_seed=1)


def test_columns_of_any_kind_have_the_gradient_of_differences():
    """Full columns, factors of many levels and groups, in more cells than are computed together."""
    frame, protocol = weak(4, n=150)
    frame["h"] = [f"h{i % 20}" for i in range(150)]
    reached = {}

    def posterior(model, request, watch):
        reached["target"] = model.target
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_posterior", posterior)
        with pytest.raises(InterruptedError):
            lb.regress(frame, "y ~ x + C(h) + (1 | g)", protocol)
    target = reached["target"]
    full, dense, starts, *_ = target.prior.linear.columns
    assert 0 < len(full) < target.prior.linear.n_columns and dense.shape == (len(full), 150) and starts[-1] > 0
    z = np.random.default_rng(0).normal(size=target.prior.n_unknowns)
    value, slope = target.value_and_gradient(z)
    (whole,), _ = target.log_density(z[None])
    step = 1e-5 * np.eye(z.size)
    differences = (target.log_density(z + step)[0] - target.log_density(z - step)[0]) / 2e-5
    np.testing.assert_allclose(slope, differences, atol=1e-6)
    other, _ = target.value_and_gradient(0.5 * z)
    np.testing.assert_allclose(value - other, whole - target.log_density(0.5 * z[None])[0][0], atol=1e-9)


def threads():
    """Return the threads of each library of linear algebra."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_linear_algebra_of_a_regression_keeps_to_one_thread(monkeypatch):
    inside, climb = [], fitting.maximum.climb

    def looked(*arguments):
        inside.extend(threads())
        return climb(*arguments)

    monkeypatch.setattr(fitting.maximum, "climb", looked)
    frame, protocol = weak(1)
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        if max(before) < 2:
            pytest.skip("the libraries have one thread here")
        lb.regress(frame, "y ~ x", protocol, draws=50, random_seed=1)
        assert threads() == before
    assert set(inside) == {1}
