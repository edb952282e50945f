"""Nothing that was right has moved: outputs recorded with version 0.1.0 are reproduced within the errors that they state.

The same seed gives the same draws on the same kind of processor. Another one rounds sums differently; a draw that is
accepted at .5000000001 here is then refused there, and all draws after it are others. So a number that comes from draws is
compared within its Monte Carlo error, and an exact one within the error of the root or integral that it comes from. See
tests/net/record.py.
"""

import json
import math
import pathlib
import sys

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(pathlib.Path(__file__).parent / "net"))
import record

pytestmark = pytest.mark.together("kernels")

OLD = json.loads(record.FILE.read_text())
ENTRIES = dict(record.entries())


def test_every_entry_is_recorded():
    assert set(OLD) == set(ENTRIES)


#: Entries that take several seconds each, compared by `make calibrate`.
SLOW = {f"random/{seed}" for seed in (6, 17, 28, 36, 38, 41, 55, 63, 69, 71, 73, 75, 76, 77, 87)} | {
    "data/rr_granada_joint/pair_slice",
    "case/mixture/5",
    "case/blh/5",
    "case/olh-xxhash/5",
    "case/dual/5",
    "case/unary-rates/5",
    "random/37",
}


#: Entries of which means are compared: weights were accepted that are worth too few draws for standard deviations
#: (random/65), or Gibbs draws, gone since, had effective sizes of 9 and 6 of 400 draws, and were said not to be
#: trusted. Long runs of Gibbs draws, pair slices and NUTS agree with what was recorded: .042 and .060 for ends that are
#: recorded as .040 and .060, where the short runs of today say .067 and .026.
REJECTED = {"random/65", "random/17", "random/75"}
#: Entries that another method answers since version 0.2.0; one of chains has no evidence (random/63: .3 s instead of 5). In
#: 25, 31 and 81 every reported set has one category, which is seen, so that they are exact. Weighted draws answer 37, 38, 73
#: and 76, whose sums over tallies take seconds, and 71: sums over tallies are no method any more.
TAKEN_OVER = {f"random/{seed}" for seed in (6, 25, 28, 31, 36, 37, 38, 55, 63, 69, 71, 73, 76, 77, 81, 87)}
#: Entries of five categories that quadrature answered; draws with weights do today, and are compared within their errors.
WEIGHTED = {f"case/{name}/5" for name in ("blh", "cohort-label", "cohort-permutation", "dual", "hadamard", "mixture", "olh")}
WEIGHTED |= {f"case/{name}/5" for name in ("olh-xxhash", "oue", "rappor", "rappor-bloom", "rappor-direct", "subset-2")}
WEIGHTED |= {"case/sue/5", "case/unary-rates/5"}
#: Entries that were refused or rejected, and are served today: each is held to another recorded method of its posterior.
SERVED_NOW = {"data/rr_eriksson_cheating/surrogate": "data/rr_eriksson_cheating/exact"}
#: Draws behind every recorded fit: four chains of a hundred.
DRAWS = 400
#: Standard errors by which two statistics of draws may differ: a mean, a standard deviation (which has a long tail where the
#: posterior has), an end, each in errors of its own.
FAR = {"mean": 5, "sd": 8, "lower": 5, "upper": 5}
#: Error of an exact mean, standard deviation or interval end, in standard deviations, and of an estimate or an evidence.
EXACT = 1e-6
#: Methods that give the same moments: which of them answers is a matter of time, and of which reports name one category.
SAME = {"exact", "quadrature"}


def error_of_end(mean, sd):
    """Return the error of the 95 % quantile of draws over that of their mean: 2.1 where they are normal, 5 near zero.

    A share near zero is taken for a gamma variate of this mean and sd. Cut into runs of 400 draws, two chains of 20,000
    (Gibbs draws and pair slices, rr_granada_joint, 64 categories) have upper ends whose sd is 7 to 8 errors of the mean.
    """
    law = stats.gamma((np.maximum(mean, 1e-12) / np.maximum(sd, 1e-12)) ** 2)
    density = np.maximum(law.pdf(law.ppf(0.95)) * law.std(), 1e-3)
    return np.clip(math.sqrt(0.95 * 0.05) / density, 2.1, 8.0)


def allowed(old, new, key):
    """Return by how much the numbers of a key may differ from the recorded ones, by their shape."""
    kind = key.removeprefix("derived_")
    if kind not in FAR:
        error = new["log_evidence_error"] if key == "log_evidence" else 0.0
        return max(EXACT, 5 * math.hypot(error, old.get("log_evidence_error", error)))
    mcse, sd = ([np.array(one[name], dtype=float) for one in (old, new)] for name in ("mcse", "sd"))
    error = np.nan_to_num(np.hypot(*mcse))
    whole = np.zeros(error.size)
    if kind in ("lower", "upper"):  # the draws of F are whole reports, and its ends are read from them
        error[error.size // 2 :] = np.hypot(*sd)[error.size // 2 :] / np.sqrt(DRAWS)
        whole[error.size // 2 :] = 1.01 * new["step"]
    if key != kind:  # no more draws' worth of noise than in the noisiest category
        mean, sd = (np.array(old[f"derived_{name}"], dtype=float) for name in ("mean", "sd"))
        error = np.nanmax(error / np.array(old["sd"], dtype=float)) * sd
        # Where P is exact these are of draws all the same: both runs have the error that today's states.
        error = np.fmax(error, math.sqrt(2) * np.array(new["derived_mcse"])) * (2 if kind in ("lower", "upper") else 1)
        return FAR[kind] * error + EXACT * (sd + np.abs(mean))
    if kind in ("lower", "upper"):
        error = error * error_of_end(np.array(old["mean"], dtype=float), sd[0])
    return FAR[kind] * error + EXACT * sd[0] + whole


@pytest.mark.sampled(5)
@pytest.mark.calibrated(
    "case/cohort-label/5",
    "case/cohort-permutation/5",
    "random/3",
    "random/23",
    "random/30",
    "random/40",
    "random/50",
    "random/53",
    "random/62",
    "random/78",
    "random/80",
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.calibrate if name in SLOW else ()) for name in sorted(ENTRIES)]
)
def test_outputs_are_those_of_the_first_version(name):
    old, new = OLD[SERVED_NOW.get(name, name)], ENTRIES[name]()
    if old is None:
        assert new is None, "served now: name it in SERVED_NOW, beside the entry that it is held to"
        return
    assert new is not None, "refused now"
    methods = {new.get("method"), old.get("method")}
    if name in SERVED_NOW:
        assert OLD[name] is None and new["method"] == name.rpartition("/")[2]
    elif name in WEIGHTED:
        assert (old["method"], new["method"]) == ("quadrature", "surrogate")
    else:
        assert len(methods) == 1 or methods <= SAME or name in REJECTED | TAKEN_OVER
    for key, values in old.items():
        if key in ("method", "mcse", "log_evidence_error") or values is None or (name in REJECTED and key != "mean"):
            continue
        if name in TAKEN_OVER and key == "log_evidence" and key not in new:
            continue
        if name == "random/25" and key == "log_evidence":  # that of 400 weighted draws had no error: -7089.2557
            assert new[key] == pytest.approx(-7089.25308, abs=2e-5)  # 8,000 draws say -7089.2533 ± .0012
            continue
        then, now = np.array(values, dtype=float), np.array(new[key], dtype=float)
        assert now.shape == then.shape, key
        recorded = np.isfinite(then)
        far = (np.abs(now - then) / allowed(old, new, key))[recorded]
        assert (far <= 1).all(), f"{name} {key}: up to {far.max():.3g} times as far as allowed"
    assert math.isfinite(sum(map(float, np.ravel(new.get("mean", 0.0)))))
