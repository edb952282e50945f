"""Nothing that was right has moved: outputs recorded with version 0.1.0 are reproduced.

Methods without chance to 1e-12, sampled ones from the same seed; see tests/net/record.py. NUTS is compared within its
Monte Carlo errors: PyMC draws from seeds that depend on the names of the model's variables, which have changed since.
Under NumPy before 2.5 so is every number with a Monte Carlo error that is another: `Generator.binomial` and `multinomial`
had a wrong sign in the last acceptance step of their rejection sampler, and its correction changed the stream.
"""

import json
import math
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "net"))
import record

OLD = json.loads(record.FILE.read_text())
ENTRIES = dict(record.entries())


def test_every_entry_is_recorded():
    assert set(OLD) == set(ENTRIES)


#: Entries that take several seconds each, compared by `make calibrate`.
SLOW = {f"random/{seed}" for seed in (6, 17, 28, 36, 38, 41, 55, 63, 69, 71, 73, 75, 76, 77, 87)} | {
    "data/rr_granada_joint/pair_slice",
    "data/rr_granada_joint/augmentation",
    "data/rr_wada_forum_joint/augmentation",
    "data/rr_minarets/tally_states",
    "case/mixture/5",
    "case/blh/5",
    "case/olh-xxhash/5",
    "case/dual/5",
    "case/unary-rates/5",
    "random/37",
}


#: Whether binomial draws are those that the recorded ones were.
NEW_BINOMIALS = np.lib.NumpyVersion(np.__version__) >= "2.5.0"


def standard_errors(old, new, key):
    """Return the Monte Carlo errors of the difference of two summaries; None where the numbers of a key have none."""
    if key not in ("mean", "sd", "lower", "upper") and not key.startswith("derived_"):
        return None
    mcse, sd = ([np.array(one[kind], dtype=float) for one in (old, new)] for kind in ("mcse", "sd"))
    if key.startswith("derived_"):  # no more draws' worth of noise than in the noisiest category
        return np.hypot(*map(np.nanmax, map(np.divide, mcse, sd))) * np.array(old["derived_sd"], dtype=float)
    return np.hypot(*mcse)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.calibrate if name in SLOW else ()) for name in sorted(ENTRIES)]
)
def test_outputs_are_those_of_the_first_version(name):
    old = OLD[name]
    if old is None:  # refused or rejected then: it may be served now
        return
    new = ENTRIES[name]()
    assert new is not None, "refused now"
    assert new.get("method") == old.get("method")
    if old.get("method") == "nuts":
        mean, mcse, sd = ([np.array(one[key], dtype=float) for one in (old, new)] for key in ("mean", "mcse", "sd"))
        assert (np.abs(mean[1] - mean[0]) < 4 * np.hypot(*mcse)).all()
        np.testing.assert_allclose(sd[1], sd[0], rtol=0.25)
        return
    for key, values in old.items():
        if key in ("method", "mcse") or values is None:
            continue
        then, now = np.array(values, dtype=float), np.array(new[key], dtype=float)
        assert now.shape == then.shape, key
        known = np.isfinite(then)
        if NEW_BINOMIALS or (errors := standard_errors(old, new, key)) is None:
            np.testing.assert_allclose(now[known], then[known], rtol=1e-9, atol=1e-12, err_msg=f"{name} {key}")
        else:
            # An end of the shortest interval is a noisier statistic than a mean or a standard deviation.
            far = 10 if key.endswith(("lower", "upper")) else 4
            assert (np.abs(now - then)[known] <= far * errors[known] + 1e-9 * np.abs(then[known]) + 1e-12).all(), key
    assert math.isfinite(sum(map(float, np.ravel(new.get("mean", 0.0)))))
