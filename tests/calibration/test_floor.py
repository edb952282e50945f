"""Calibration of the learnt prior over a floor: ranks of P, of the floor's share and of α are uniform (Talts 2018).

The numbers go to floor.csv beside this file.
"""

import pathlib
import time

import numpy as np
import pytest
from ranks import RANKED, p_value, rank
from recorded import record

from ldpbayes import Collection, Tally, fit
from ldpbayes.errors import ConvergenceError
from ldpbayes.methods.surrogate import Surrogate
from ldpbayes.priors import Floor
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding

REPLICATIONS, LEVEL = 120, 1e-3
DESIGNS = {"grr": (GRR(8, 2.5), 200), "oue": (UnaryEncoding.optimized(8, 2.0), 300)}
SUMMARY = pathlib.Path(__file__).with_name("floor.csv")


def ranks(name, replications):
    """Return the ranks of P_0, the share of the floor and α, and how many results are not to be trusted, which count too."""
    protocol, n = DESIGNS[name]
    rng, a = np.random.default_rng([11, list(DESIGNS).index(name)]), protocol.n_categories
    prior, out, rejected = Floor(n_categories=a), [], 0
    for _ in range(replications):
        z = np.array([rng.standard_normal(), rng.standard_normal()])
        truth = prior.hyperparameters(np.array([[*z, *np.zeros(prior.n_unknowns - 2)]]))
        share, alpha = float(truth["floor"][0]), float(truth["alpha"][0])
        log_gamma = np.log(rng.standard_gamma(alpha + 1, a)) + np.log(rng.random(a)) / alpha
        uneven = np.exp(log_gamma - log_gamma.max())
        p = share * prior.even.sample(1, rng)[0] + (1 - share) * uneven / uneven.sum()
        data = Collection("abcdefgh"[:a], [Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))])
        try:
            tree = fit(data, prior, Surrogate(draws=250, chains=4), random_seed=int(rng.integers(2**31)), estimates=False)
        except ConvergenceError as refused:
            tree, rejected = refused.result, rejected + 1
        posterior = tree["posterior"]
        some = np.linspace(0, posterior.sizes["draw"] * 4 - 1, RANKED).astype(int)
        drawn = [posterior["distribution"].values.reshape(-1, a)[:, 0], posterior["floor"].values, posterior["alpha"].values]
        pairs = zip((p[0], share, alpha), drawn, strict=True)
        out.append([rank(true, np.ravel(values)[some], rng) for true, values in pairs])
    return np.array(out), rejected


@pytest.mark.calibrate
@pytest.mark.parametrize("name", DESIGNS)
def test_ranks_are_uniform(name):
    start = time.process_time()
    found, rejected = ranks(name, REPLICATIONS)
    p = [p_value(column) for column in found.T]
    line = {"design": name, "replications": REPLICATIONS, "rejected": rejected}
    line |= {f"p_{key}": f"{one:.4f}" for key, one in zip(("distribution", "floor", "alpha"), p, strict=True)}
    inside = ((found >= 5) & (found <= RANKED - 5)).mean(axis=0)
    line |= {f"coverage_{key}": f"{one:.3f}" for key, one in zip(("distribution", "floor", "alpha"), inside, strict=True)}
    record(SUMMARY, line | {"seconds": f"{time.process_time() - start:.1f}"}, ("design",))
    assert min(p) > LEVEL
