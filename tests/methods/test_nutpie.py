"""NUTS on a log-density: moments of a normal distribution, and what an interruption leaves."""

import numpy as np
import nutpie
import pytest
from arviz_stats.base import array_stats

from ldpbayes.inference.nuts import sample_density
from ldpbayes.methods.base import Watch

SETTINGS = {"size": 2, "draws": 400, "tune": 200, "chains": 4, "target_accept": 0.8}
SD = np.array([0.5, 3.0])


def normal(u):
    return -0.5 * float(((u / SD) ** 2).sum()), -u / SD**2


def test_moments_of_a_normal_distribution():
    draws, stats = sample_density(normal, lambda rng: rng.standard_normal(2), np.random.default_rng(1), **SETTINGS)
    assert draws.shape == (4, 400, 2) and stats["diverging"].shape == (4, 400) and not stats["diverging"].any()
    values = np.moveaxis(draws, -1, 0)
    for moment, truth in (("mean", 0.0), ("sd", SD)):
        found = {"mean": values.mean, "sd": values.std}[moment](axis=(1, 2))
        assert (np.abs(found - truth) < 4 * array_stats.mcse(values, method=moment)).all()


def test_an_interruption_keeps_the_finished_rectangle(monkeypatch):
    def interrupted(*arguments, sample=nutpie.sample, **settings):
        tree = sample(*arguments, **settings)
        for chain, length in enumerate((80, 0, 70, 3)):
            tree["posterior"]["u"].values[chain, length:] = np.nan
        return tree

    monkeypatch.setattr("nutpie.sample", interrupted)
    watch = Watch()
    draws, stats = sample_density(normal, lambda rng: np.ones(2), np.random.default_rng(1), watch=watch, **SETTINGS)
    assert draws.shape == (2, 70, 2) and np.isfinite(draws).all() and stats["diverging"].shape == (2, 70)
    assert watch.interrupted


def test_points_of_no_density_are_never_drawn():
    def half(u):
        return normal(u) if u[0] > 0 else (np.nan, np.zeros(2))

    draws, _ = sample_density(half, lambda rng: np.ones(2), np.random.default_rng(1), **SETTINGS)
    assert (draws[..., 0] > 0).all()


def test_nothing_is_left_of_an_interruption_at_once(monkeypatch):
    def interrupted(*arguments, sample=nutpie.sample, **settings):
        tree = sample(*arguments, **settings)
        tree["posterior"]["u"].values[:] = np.nan
        return tree

    monkeypatch.setattr("nutpie.sample", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"before any.*draws"):
        sample_density(normal, lambda rng: np.ones(2), np.random.default_rng(1), **SETTINGS)
