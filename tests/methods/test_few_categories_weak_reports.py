"""Few categories and weak reports: sets whose transforms die out slowly are worked on together, by counts."""

import time

import numpy as np
import pytest
from conditioned import Alone

import ldpbayes as lb
from ldpbayes.methods.conditioned_product import ConditionedProduct, PowerFactors

LEVELS = [0.025, 0.5, 0.975]


def cells(number, a, n, epsilon):
    rng, protocol = np.random.default_rng(31), lb.GRR(a, epsilon)
    labels, groups = [f"x{x}" for x in range(a)], {}
    for i in range(number):
        reports, counts = protocol.simulate(rng.multinomial(n, rng.dirichlet(np.ones(a))), rng)
        groups[f"c{i}"] = lb.Collection(labels, [lb.Tally(protocol, reports, counts)])
    return lb.Cells(groups, by="cell")


#: Categories, reports, concentration and slope: weak and strong reports, none, small concentrations, a dominating category.
SETS = [
    ([4, 9, 7], 0.5, 1.0),
    ([0, 0, 0], 0.5, 2.0),
    ([60, 30, 20, 30, 10, 40, 50, 20, 30, 10], 0.5, 1.7),
    ([60, 30, 20, 30, 10, 40, 50, 20, 30, 10], 0.02, 5.0),
    ([400, 300, 250, 50], 0.5, 1000.0),
    ([9900, 60, 30, 10], 0.5, 0.5),
    ([20_000, 6_000, 3_000, 900, 100], 0.5, 0.3),
    ([0, 0, 0, 0, 1000], 0.01, 0.7),
    ([100, 0, 50, 80, 30, 40], 2.0, 1e6),
    ([48, 53, 51, 0, 41, 60, 44, 58, 52, 47], 0.003, 54.0),
]


@pytest.mark.parametrize(("counts", "alpha", "slope"), SETS)
def test_moments_ends_and_evidence_are_those_of_one_set_alone(counts, alpha, slope):
    a = len(counts)
    family = PowerFactors(np.full(a, alpha), np.full((a, 1), slope), np.array(counts, dtype=float)[:, None])
    many = PowerFactors(*(np.concatenate([part, part]) for part in (family.alpha, family.slopes, family.powers)))
    found, one = ConditionedProduct(many, np.arange(a), sets=2), Alone(family, np.arange(a), route="polynomial")
    assert not found.rough.any()
    sd = np.sqrt(one.variance)
    for i in range(2):
        assert (np.abs(found.mean[i] - one.mean) < 1e-9 * sd).all()
        np.testing.assert_allclose(found.variance[i], one.variance, rtol=1e-7)
        assert (np.abs(found.quantile(LEVELS)[:, i] - one.quantile(LEVELS)) < 1e-6 * sd).all()
        assert found.log_evidence[i] == pytest.approx(one.log_evidence, abs=1e-8)


@pytest.mark.parametrize(("a", "epsilon"), [(3, 0.5), (6, 1.0), (10, 1.0), (12, 0.5)])
def test_no_cell_is_worked_on_one_by_one(a, epsilon):
    lb.fit(cells(2, a, 300, epsilon), "jeffreys", draws=0)
    data = cells(40, a, 300, epsilon)
    start = time.process_time()
    tree = lb.fit(data, "jeffreys", draws=0)
    each = (time.process_time() - start) / 40
    assert "one by one" not in tree.attrs["reason"]
    assert each < 0.03, "some 3 ms on a quiet machine, and 34 to 97 before"
    alone = lb.fit(next(iter(data.values())), "jeffreys", "exact", draws=10, random_seed=1)
    for key in ("mean", "sd", "lower", "upper"):
        together, sd = tree["exact"][f"distribution_{key}"].values[0], alone["exact"]["distribution_sd"].values
        assert (np.abs(together - alone["exact"][f"distribution_{key}"].values) < 1e-6 * sd).all(), key
