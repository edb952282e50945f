"""Groups seen through any protocol. Weights of the recipe add up to the Oracle, and three answers agree.

Reports of one likelihood row used to get the unbiased weights of the first of them: the empty and the full set share a row,
and count 0 and all groups. OUE gave shares of .935 and .065 for .7 and .3, and called them trusted.
"""

import functools
import warnings

import numpy as np
import pyarrow
import pytest
from cases import CASES

import ldpbayes as lb
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.estimators.oracle import Oracle

pytestmark = pytest.mark.long

EVERY = [(case, a) for case in CASES for a in (2, 3, 5) if a in case.categories]
#: One of each kind of report that was wrong, and one that was not.
FITTED = ("grr", "oue", "sue", "olh", "olh-pool", "hadamard", "rappor-bloom")


@functools.cache
def collected(case, a, n, epsilon):
    """Return (frame, settings, tally, shares that people were drawn with)."""
    protocol, rng = case.build(a, epsilon), np.random.default_rng([a, n])
    k = protocol.n_categories
    p = np.arange(k, 0, -1.0) / (k * (k + 1) / 2)
    x = rng.choice(k, n, p=p)
    reports, names = protocol.privatize(x, rng), [f"group {g}" for g in range(k)]
    columns = dict(zip(protocol.report_fields, protocol.format_reports(reports, names), strict=True))
    frame = pyarrow.table({"z": rng.lognormal(0.4 * x, 0.6), **{key: list(map(str, one)) for key, one in columns.items()}})
    ask = {"value": "z", "protocol": protocol, "categories": names, "draws": 50, "random_seed": 1}
    return frame, ask, lb.Tally(protocol, reports), p


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
@pytest.mark.parametrize(
    "case, a",
    [pytest.param(case, a, marks=pytest.mark.calibrate if a == 3 else ()) for case, a in EVERY],
    ids=lambda one: str(one),
)
def test_weights_add_up_to_the_oracle(case, a):
    frame, ask, tally, _ = collected(case, a, 150, 1.5)
    decoder = tally.protocol.decoder()
    if decoder is None or decoder.rank < tally.protocol.n_categories:
        with pytest.raises(lb.errors.InfeasibleError, match="identify"):
            lb.by_private_group(frame, **ask, method="recipe")
        return
    found = lb.by_private_group(frame, **(ask | {"draws": 25}), method="recipe")
    oracle = Oracle()(tally).distribution
    np.testing.assert_allclose(found.recipe[0]["share"], oracle / oracle.sum(), atol=1e-9)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case, a", [(case, a) for case, a in EVERY if case.name in FITTED and a < 5], ids=str)
def test_smooth_curves_the_recipe_and_a_fit_of_the_reports_agree(case, a):
    frame, ask, tally, p = collected(case, a, 4000, 2.0)
    fitted = lb.fit(tally, draws=0)["summary"].sel(target="distribution")["mean"].values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        for method in ("smooth", "recipe"):
            found = lb.by_private_group(frame, **ask, method=method)
            share = found.shares()
            mean, sd = share["mean"].values, share["sd"].values
            # 4.5 sd of the truth; beside the fit of the same reports an answer may be less precise, by half in its sd
            assert (np.abs(mean - p) < 4.5 * sd).all(), (method, mean, p)
            assert (np.abs(mean - fitted) < 2.0 * sd).all(), (method, mean, fitted)
            assert found.check.good and np.isfinite(found.check.discrepancy).all()


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
@pytest.mark.parametrize("name, parameters", [("hadamard", {}), ("rappor-bits", {})])
def test_equal_reports_have_a_variance(name, parameters):
    """Hadamard of two groups and RAPPOR used to end in "sum of nan" where few reports vary."""
    case = next(one for one in CASES if one.name == name)
    frame, ask, _, _ = collected(case, 2, 40, 1.0)
    found = lb.by_private_group(frame, **ask)
    assert np.isfinite(found.check.discrepancy).all() and np.isfinite(found.shares()["mean"].values).all()
