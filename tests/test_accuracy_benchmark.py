"""The comparison with other packages: our reports in their form mean the same, by their servers' published formulas."""

import importlib.util
import math
import pathlib

import numpy as np
import pytest
import xxhash

from ldpbayes.collections import Tally
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.estimators.postprocess import truncate_and_renormalize

SCRIPT = pathlib.Path(__file__).parents[1] / "benchmarks" / "accuracy.py"
A, EPSILON, N = 12, 1.0, 400


@pytest.fixture(scope="module")
def accuracy():
    specification = importlib.util.spec_from_file_location("accuracy_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def supports(label, reports):
    """Return how many encoded reports support each category, as a server counts them report by report."""
    g = round(math.exp(EPSILON)) + 1
    counts = np.zeros(A)
    for report in reports:
        for x in range(A):
            if label == "GRR":
                counts[x] += report == x
            elif label in ("SUE", "OUE"):
                counts[x] += report[x]
            elif label == "SS":
                counts[x] += x in report
            elif label == "HR":
                counts[x] += bin((x + 1) & int(report)).count("1") % 2 == 0
            else:
                counts[x] += report[0] == xxhash.xxh32(str(x).encode(), seed=int(report[1])).intdigest() % g
    return counts


def rates(label):
    """Return the published probabilities that a report supports its own value, and another one."""
    e, half = math.exp(EPSILON), math.exp(EPSILON / 2)
    g, size = round(e) + 1, max(1, round(A / (e + 1)))
    own = size * e / (size * e + A - size)
    return {
        "GRR": (e / (e + A - 1), 1 / (e + A - 1)),
        "SUE": (half / (half + 1), 1 / (half + 1)),
        "OUE": (0.5, 1 / (e + 1)),
        "OLH": (e / (e + g - 1), 1 / g),
        "HR": (e / (e + 1), 0.5),
        "SS": (own, (own * (size - 1) + (1 - own) * size) / (A - 1)),
    }[label]


@pytest.mark.parametrize("label", ["GRR", "SUE", "OUE", "OLH", "HR", "SS"])
def test_encoded_reports_give_the_same_oracle(accuracy, label):
    protocol, rng = accuracy.protocols(A, EPSILON)[label], np.random.default_rng(1)
    reports = protocol.privatize(rng.integers(A, size=N) // 2, rng)
    p, q = rates(label)
    counts = supports(label, accuracy.encode(label, reports, A))
    np.testing.assert_allclose((counts / N - q) / (p - q), Oracle()(Tally(protocol, reports)).distribution, atol=1e-12)


@pytest.mark.parametrize("label", ["SPL", "SMP", "RS+FD"])
def test_margins_of_several_attributes(accuracy, label):
    """Attribute by attribute, the published estimates of the schemes."""
    sizes, rng = (3, 4), np.random.default_rng(2)
    protocol = accuracy.schemes(sizes, EPSILON)[label]
    reports = protocol.privatize(rng.integers(12, size=N), rng)
    wanted = []
    for k, size in enumerate(sizes):
        inner = {"SPL": EPSILON / 2, "SMP": EPSILON, "RS+FD": math.log(2 * (math.exp(EPSILON) - 1) + 1)}[label]
        p, q = math.exp(inner) / (math.exp(inner) + size - 1), 1 / (math.exp(inner) + size - 1)
        own = reports[reports[:, 0] == k, 1] if label == "SMP" else reports[:, k]
        counts, n = np.bincount(own, minlength=size), len(own)
        if label == "RS+FD":
            estimate = (counts * 2 * size - n * (1 + q * size)) / (n * size * (p - q))
        else:
            estimate = (counts / n - q) / (p - q)
        wanted.append(truncate_and_renormalize(estimate))
    pairs = accuracy.by_attribute(label, reports, protocol)
    found = [truncate_and_renormalize(Oracle()(Tally(channel, own)).distribution) for channel, own in pairs]
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(wanted), atol=1e-12)
    if label == "SMP":
        found = accuracy.margin_estimates(label, reports, protocol)
        np.testing.assert_allclose(found["Norm-Mul"], np.concatenate(wanted), atol=1e-12)
        for name in ("MLE", accuracy.BASE):
            assert found[name][:3].sum() == pytest.approx(1) and found[name][3:].sum() == pytest.approx(1)


def test_losses_are_compared_on_the_same_reports(accuracy):
    truth, rng = np.array([0.5, 0.3, 0.2]), np.random.default_rng(3)
    base = truth + 0.01 * rng.standard_normal((50, 3))
    case = {"truth": truth, "label": "SUE", "found": {accuracy.BASE: base, "oracle": truth + 2 * (base - truth)}}
    rows = {name: rest for name, *rest in accuracy.compare(case)}
    assert rows[accuracy.BASE][2:] == [1.0, 0.0]
    assert rows["oracle"][2] == pytest.approx(4) and rows["oracle"][3] == pytest.approx(0, abs=1e-12)
    assert rows["oracle"][0] == pytest.approx(((case["found"]["oracle"] - truth) ** 2).sum(axis=1).mean())
    case["found"] |= {"pure-ldp, raw": case["found"]["oracle"] + 1e-3, "multi-freq-ldpy, IBU": base, "MLE": base}
    assert accuracy.differences(case) == {("pure-ldp, raw", "oracle"): pytest.approx(1e-3)}
    assert ("multi-freq-ldpy, IBU", "MLE") in accuracy.differences(case | {"label": "GRR"})
