"""Coverage under devices whose probabilities are not known exactly: surveys drawn from the prior of P and of the device."""

import warnings

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.protocols import Channel, Uncertain, warner

DEVICES = {
    "validated test": (Channel(validated=[[95, 12], [5, 88]]), 100),
    "validated test, few trials": (Channel(validated=[[18, 3], [1, 9]]), 80),
    "spinner": (warner(Uncertain.counted([70, 30])), 70),
    "three categories": (Channel(validated=[[40, 3, 1], [5, 30, 4], [1, 2, 25]]), 50),
}


def covered(device, surveys, seed):
    """Return whether intervals of 95 % hold P and the probabilities of the device, (surveys, quantities), and trust."""
    rng, a, out, trusted = np.random.default_rng(seed), device.n_categories, [], []
    for k in range(surveys):
        theta = [share[0] for share in device.law.sample(1, rng)]
        p, n = rng.dirichlet(np.ones(a)), int(rng.choice([100, 1000, 5000]))
        counts = rng.multinomial(n, device.law.channel(theta) @ p)
        data = lb.Collection([f"c{x}" for x in range(a)], [lb.Tally(device, np.arange(a), counts)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lb.errors.DiagnosticWarning)  # counted below
            fit = lb.fit(data, "flat", random_seed=k, draws=500, chains=4, estimates=False)
        trusted.append(bool(fit.attrs["converged"]))
        summary = fit["summary"].to_dataset()
        ends = summary.sel(target="distribution")
        truth = [
            t[u] for t, (names, _) in zip(theta, device.law.unknowns, strict=True) for u, name in enumerate(names) if name
        ]
        low = np.concatenate([ends["lower"].values[1:], ends["derived_lower"].values])
        high = np.concatenate([ends["upper"].values[1:], ends["derived_upper"].values])
        truth = np.concatenate([p[1:], truth])
        out.append((low <= truth) & (truth <= high))
    return np.array(out), trusted


@pytest.mark.calibrate
def test_intervals_cover_p_and_the_device():
    held, trusted = zip(*(covered(device, surveys, s) for s, (device, surveys) in enumerate(DEVICES.values())), strict=True)
    assert np.concatenate(trusted).mean() >= 0.99  # 2,000 draws of NUTS may be worth a few less than 400
    for name, of in (("P", [one[:, 0] for one in held]), ("device", [one[:, -1] for one in held])):
        share, size = np.concatenate(of).mean(), sum(map(len, of))
        assert size == 300
        assert abs(share - 0.95) < 3 * np.sqrt(0.95 * 0.05 / size), (name, share)
