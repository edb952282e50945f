"""What chains are worth, against ArviZ, which looks at one quantity at a time."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from ldpbayes.inference.chains import diagnosed, error_of_mean


@pytest.mark.parametrize(("chains", "length"), [(4, 250), (2, 37), (1, 60), (4, 4)])
def test_chains_are_worth_what_arviz_says(chains, length):
    rng = np.random.default_rng(length)
    along, x = np.linspace(-0.6, 0.97, 40), rng.standard_normal((chains, length, 40))
    for t in range(1, length):
        x[:, t] += along * x[:, t - 1]
    x[..., ::4] = np.round(x[..., ::4])  # ties
    x[..., 1::4] = np.exp(3 * x[..., 1::4])
    x[..., 2::4] += rng.standard_normal((chains, 1, 10))  # chains that have not met
    x[0, 1, -1] = np.nan
    found, each = diagnosed(x), np.moveaxis(x, -1, 0)
    known = {
        "mcse": array_stats.mcse(each, method="mean"),
        "ess_bulk": array_stats.ess(each, method="bulk"),
        "ess_tail": array_stats.ess(each, method="tail", prob=0.9),
        "r_hat": array_stats.rhat(each, method="rank"),
    }
    for name, values in known.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(error_of_mean(x[..., :-1]), known["mcse"][:-1], rtol=1e-9)


def test_few_draws_say_nothing_and_what_stands_still_has_all_its_draws():
    few = diagnosed(np.ones((4, 3, 2)))
    assert all(np.isnan(values).all() for values in few.values())
    still = diagnosed(np.ones((4, 50, 1)))
    assert still["ess_bulk"] == still["ess_tail"] == 200 and still["mcse"] == 0
