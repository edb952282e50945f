"""Who decides, by power-scaling, against full refits: 150 random fits, ``make calibrate``.

The prior is Jeffreys' or the learnt one. Every fit is made again with α·0.8 and α·1.25 (for the learnt prior: with the
median times these), without draws; the verdict on each category follows from the moments of the refits. Categories one of
whose measures lies within 20 % of its threshold are left out, and those whose verdict changes within the errors of the
refits: moments of a few unary reports come from weighted draws. The numbers go to scaled_priors.csv beside this file.
"""

import pathlib
import warnings

import numpy as np
import pytest
from recorded import record

import ldpbayes as lb
from ldpbayes.inference.scaling import POWERS, SENSITIVITY, VERDICTS, Scaled
from ldpbayes.priors import Learnt

SUMMARY = pathlib.Path(__file__).with_name("scaled_priors.csv")
#: Fits, and how near a threshold a measure may be, as a share of it.
FITS, NEAR = 150, 0.2
#: Times that the moments of the refits are drawn again within their errors.
DRAWN_AGAIN = 200


def drawn(rng):
    """Return (collection, "jeffreys" or "learnt", draws or 0) at random."""
    name, n, epsilon = str(rng.choice(["grr", "grr", "oue"])), int(10 ** rng.uniform(1.5, 5)), rng.uniform(0.5, 4)
    labels = [f"v{x}" for x in range(rng.integers(2 if name == "grr" else 9, 21))]  # few unary ones take quadrature
    a, protocol = len(labels), lb.make_protocol(name, labels, {"epsilon": epsilon})
    reports = protocol.simulate(rng.multinomial(n, rng.dirichlet(np.full(a, rng.choice([0.1, 0.5, 2.0])))), rng)
    return (
        lb.Collection(labels, lb.Tally(protocol, *reports)),
        str(rng.choice(["jeffreys", "learnt"])),
        int(rng.choice([0, 250])),
    )


def moments(collection, prior):
    """Return mean and sd of P and the error of the mean, (3, a)."""
    summary = lb.fit(collection, prior, draws=0, random_seed=1, estimates=False)["summary"].sel(target="distribution")
    return np.array([summary[name].values for name in ("mean", "sd", "mcse")])


def refitted(collection, prior):
    """Return what scaling the prior does to the shares, by full refits, and where their errors leave the verdict."""
    a = len(collection.categories)
    scaled = [Learnt(median=0.5 * power) if prior == "learnt" else np.full(a, 0.5 * power) for power in POWERS]
    mean, sd, _ = moments(collection, prior)
    means, sds, errors = np.array([moments(collection, one) for one in scaled]).swapaxes(0, 1)
    known, rng = Scaled.of(mean, sd, (means, sds), shares=True), np.random.default_rng(1)
    again = [(m + errors * rng.normal(size=m.shape) for m in (means, sds)) for _ in range(DRAWN_AGAIN)]
    verdicts = [Scaled.of(mean, sd, tuple(under), shares=True).verdict for under in again]
    return known, (np.array(verdicts) == known.verdict).all(axis=0)


def far(found):
    """Return which categories have no measure near its threshold."""
    measures = (
        found.prior / np.minimum(found.reports, SENSITIVITY.sensitive),
        found.reports / SENSITIVITY.sensitive,
        found.moves / (SENSITIVITY.moved * found.sd),
        found.moves / SENSITIVITY.floor,
        -found.growth / (SENSITIVITY.priors * np.maximum(found.room, 1e-12)),
    )
    return np.all([abs(measure - 1) > NEAR for measure in measures], axis=0)


def agree(seed):
    """Return (categories judged, categories with the same verdict) of one random fit, or None where it is refused."""
    collection, prior, draws = drawn(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            known, clear = refitted(collection, prior)
            found = lb.fit(collection, prior, draws=draws, random_seed=seed)["sensitivity"]["decided_by"].values
        except lb.errors.InfeasibleError:  # moments of few reports at a high level are refused
            return None
    chosen = far(known) & clear
    return int(chosen.sum()), int((np.array(VERDICTS)[known.verdict] == found)[chosen].sum())


@pytest.mark.calibrate
def test_one_random_fit_has_the_verdicts_of_its_refits():
    """The small sibling."""
    judged, same = agree(10)
    assert judged == same > 0


@pytest.mark.calibrate
def test_verdicts_are_those_of_full_refits():
    found, seed = [], 0
    while len(found) < FITS:
        one, seed = agree(seed), seed + 1
        found += [one] if one is not None and one[0] else []
    judged, same = np.array(found).T
    share = float((judged == same).mean())
    line = {"fits": FITS, "refused_or_near": seed - FITS, "categories": judged.sum(), "same": same.sum()}
    record(SUMMARY, line | {"fits_with_all_same": share}, ("fits",))
    assert share >= 0.95
