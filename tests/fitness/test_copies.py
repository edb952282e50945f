"""Copies of one report among 10,000: seen where the information allows it, and the bound that the test rests on."""

import math
import pathlib
import time

import numpy as np
import pytest
from fitcases import collection_of, zipf
from recorded import record
from samples import from_sample
from scipy.stats import binom

from ldpbayes import Tally
from ldpbayes.fitness import check
from ldpbayes.fitness.copies import copies_checks, rarity
from ldpbayes.protocols import GRR
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

USERS, COPIES = 10_000, 100
#: Copies that are an excess of so many standard deviations should be seen in nearly all collections.
CLEAR = 5.5
RECORDED = pathlib.Path(__file__).parents[1] / "calibration" / "copies.csv"


def crafted(protocol, rng, kind="typical"):
    """Return reports of which a hundred are copies of one of them, of four bits or of the most frequent; and that one."""
    a = protocol.n_categories
    reports = protocol.privatize(rng.choice(a, USERS, p=zipf(a)), rng)
    copied = reports[rng.integers(USERS)]
    if kind == "four bits":
        copied = np.packbits(np.isin(np.arange(a), rng.choice(a, 4, replace=False)))
    elif kind == "most frequent":
        distinct, counts = np.unique(reports, axis=0, return_counts=True)
        copied = distinct[counts.argmax()]
    reports[:COPIES] = copied
    return collection_of(Tally(protocol, reports)), reports[:1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "protocol, kind",
    [
        (UnaryEncoding.optimized(8, 0.5), "most frequent"),
        (UnaryEncoding.optimized(8, 1.0), "four bits"),
        (UnaryEncoding.optimized(8, 3.0), "four bits"),
        (UnaryEncoding.optimized(12, 1.0), "most frequent"),
        (UnaryEncoding.optimized(16, 3.0), "four bits"),
        (UnaryEncoding.optimized(20, 1.0), "typical"),
        (UnaryEncoding.optimized(32, 0.5), "typical"),
        (UnaryEncoding.optimized(64, 3.0), "typical"),
        (SubsetSelection(12, 1.0), "typical"),
        (LocalHashing(20, 1.0), "typical"),
        (CohortRR(20, 1.0, buckets=4, cohorts=16), "typical"),
        (CohortRR(100, 1.0, buckets=4, cohorts=4000, assignment="xxhash"), "typical"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.name} {value.n_categories} {value.epsilon}",
)
def test_copies_of_one_report_are_flagged(protocol, kind):
    """All of three; the calibration below has 200 of each design, and those in which copies cannot be seen."""
    for seed in range(3):
        found = check(crafted(protocol, np.random.default_rng(seed), kind)[0])
        assert found.flagged and "copies of" in found.verdict


def test_the_bound_by_enumeration():
    """Σ_y P(rarity of C_y ≤ u) ≤ u for every u, with the exact law of every count."""
    protocol, n = UnaryEncoding.optimized(3, 1.0), 60
    chances = protocol.channel() @ [0.6, 0.3, 0.1]
    counts = np.arange(n + 1)
    p_values = np.stack([rarity(counts.astype(float), np.full(n + 1, chance), n) for chance in chances])
    law = np.stack([binom.pmf(counts, n, chance) for chance in chances])
    for u in (0.5, 0.2, 0.05, 0.01, 1e-3):
        union = (law * (p_values <= u)).sum()
        assert union <= u
    assert (law * (p_values <= 0.05)).sum() > 0.01  # eight reports: what is lost is that counts are whole numbers
    expected = binom.sf(counts - 1, n, chances[3]) / chances[3]
    above = counts > n * chances[3]
    np.testing.assert_allclose(p_values[3][above], np.minimum(expected, 1)[above], rtol=1e-9)


@pytest.mark.parametrize(
    "protocol", [UnaryEncoding.optimized(5, 1.0), SubsetSelection(6, 1.0), HadamardResponse(5, 2.0)], ids=str
)
def test_largest_chances_add_up_to_no_more_than_the_ratio(protocol):
    assert 1 < protocol.channel().max(axis=1).sum() <= math.exp(protocol.epsilon) + 1e-12


def test_chances_of_hashed_reports_count_the_seed():
    """Three users of one (seed, value): the expected number of such triples, over the 2^63 seeds."""
    protocol, n = LocalHashing(6, 1.0), 1000
    reports = protocol.privatize(np.random.default_rng(0).choice(6, n), np.random.default_rng(1))
    reports[:3] = reports[0]
    (found,) = copies_checks(collection_of(Tally(protocol, reports)), np.full(6, 1 / 6))
    chance = np.mean([float(q) for q in protocol.rational_channel(int(reports[0, 0]))[reports[0, 1]]]) / 2**63
    assert found.p_value == pytest.approx(math.comb(n, 3) * chance**2, rel=1e-6)
    assert found.statistic == 3 and found.detail.startswith("3 times")


def test_copies_that_cannot_be_seen_have_no_test():
    """One GRR: every table of reports inside the simplex is that of some P."""
    reports = np.repeat(np.arange(4), [3500, 2500, 2100, 1900])
    assert not list(copies_checks(collection_of(Tally(GRR(4, 1.0), reports))))
    assert "fabricated reports" in check(collection_of(Tally(GRR(4, 1.0), reports))).verdict


def test_weighted_samples_have_the_bound_for_every_distribution():
    rng, protocol = np.random.default_rng(0), UnaryEncoding.optimized(20, 1.0)
    reports = protocol.privatize(rng.choice(20, 3000, p=zipf(20)), rng)
    labels, weights = [f"c{x}" for x in range(20)], rng.uniform(1, 3, 3000)
    honest = from_sample(labels, protocol, reports, weights=weights)
    (found,) = copies_checks(honest)
    assert found.p_value > 0.05
    reports[:40] = reports[0]
    (found,) = copies_checks(from_sample(labels, protocol, reports, weights=weights))
    assert found.p_value < 1e-9
    # The estimate of these users gives the report no more than the largest entry of its row.
    (sharper,) = copies_checks(collection_of(Tally(protocol, reports)))
    assert sharper.p_value <= found.p_value


def test_a_known_estimate_changes_nothing():
    from ldpbayes.estimators.mle import maximize

    collection, _ = crafted(UnaryEncoding.optimized(8, 3.0), np.random.default_rng(3))
    known = maximize(collection.rows, tolerance=1e-6).p
    assert check(collection).p_value == check(collection, estimate=known).p_value


#: (protocol, which report is copied): every alphabet and level of the acceptance.
DESIGNS = {
    f"oue {a} {epsilon:g} {kind}": (UnaryEncoding.optimized(a, epsilon), kind)
    for a in (4, 8, 12, 16, 20, 32, 64)
    for epsilon in (0.5, 1.0, 3.0)
    for kind in ("typical", "four bits", "most frequent")
}
DESIGNS |= {
    "subset 12 1 typical": (SubsetSelection(12, 1.0), "typical"),
    "olh 20 1 fresh seeds": (LocalHashing(20, 1.0), "typical"),
    "olh 100 1 pool of 16": (CohortRR(100, 1.0, buckets=4, cohorts=16, assignment="xxhash"), "typical"),
    "olh 100 1 pool of 1000": (CohortRR(100, 1.0, buckets=4, cohorts=1000, assignment="xxhash"), "typical"),
    "olh 100 1 pool of 4000": (CohortRR(100, 1.0, buckets=4, cohorts=4000, assignment="xxhash"), "typical"),
    "olh 100 3 pool of 1000": (CohortRR(100, 3.0, buckets=21, cohorts=1000, assignment="xxhash"), "typical"),
    "hadamard 20 1 typical": (HadamardResponse(20, 1.0), "typical"),
}


def excess(collection, copied):
    """Return (how often honest users send the report that is copied, the excess by a hundred copies in sd).

    A hundred copies are 100 √((1 − P)(1 − l)/E) standard deviations, E = nP and l the share that the estimate follows.
    """
    from ldpbayes.estimators.base import information_covariance

    tally, p = collection.tallies[0], zipf(collection.n_categories)
    row = tally.protocol.rows(copied, np.ones(1))
    chance = float(math.exp(row.log_constants[0] + tally.protocol.log_public_share()) * row.matvec(p)[0])
    slope = row.dense()[0] / row.matvec(p)[0]
    taken = USERS * chance * slope @ information_covariance(tally.rows, p) @ slope
    return USERS * chance, COPIES * math.sqrt((1 - chance - taken) / (USERS * chance))


#: How many of 200 collections are clear, by the design: all of them where it is not named.
CLEAR_ONES = dict.fromkeys(
    (
        "hadamard 20 1 typical",
        "olh 100 1 pool of 16",
        "oue 4 0.5 most frequent",
        "oue 4 1 most frequent",
        "oue 8 1 most frequent",
    ),
    0,
)
CLEAR_ONES |= {f"oue {a} 3 most frequent": 0 for a in (4, 8, 12, 16, 20, 32)}
CLEAR_ONES |= {"oue 4 0.5 typical": 5, "oue 4 1 typical": 19, "oue 8 1 typical": 182}
CLEAR_ONES |= {f"oue {a} 3 typical": n for a, n in {4: 12, 8: 36, 12: 59, 16: 81, 20: 117, 32: 171}.items()}


@pytest.mark.calibrate
@pytest.mark.parametrize("name", DESIGNS)
def test_power_of_a_hundred_copies_among_ten_thousand(name):
    """Of those in which the copies are 5.5 standard deviations or more nearly all are flagged, in nearly all designs all."""
    protocol, kind = DESIGNS[name]
    start, size = time.process_time(), 200
    seen, expected, sizes = np.empty(size, dtype=bool), np.empty(size), np.empty(size)
    for seed in range(size):
        collection, copied = crafted(protocol, np.random.default_rng(seed), kind)
        expected[seed], sizes[seed] = excess(collection, copied)
        seen[seed] = check(collection, replications=199).flagged
    clear = sizes >= CLEAR
    line = {"design": name, "collections": size, "expected": f"{np.median(expected):.3g}", "sd": f"{np.median(sizes):.3g}"}
    line |= {"flagged": f"{seen.mean():.3f}", "clear": int(clear.sum())}
    line |= {"flagged_clear": f"{seen[clear].mean():.3f}" if clear.any() else ""}
    record(RECORDED, line | {"seconds": f"{time.process_time() - start:.0f}"}, ("design",))
    assert abs(int(clear.sum()) - CLEAR_ONES.get(name, size)) <= 20  # other random numbers of a client draw other copies
    assert seen[clear].sum() >= 0.85 * clear.sum()


#: Protocols of the calibration above, each once.
HONEST = {name.removesuffix(" typical"): one for name, (one, kind) in DESIGNS.items() if kind == "typical"}
ALARMS = RECORDED.with_name("copies_honest.csv")


@pytest.mark.calibrate
@pytest.mark.parametrize("name", HONEST)
def test_honest_reports_raise_few_false_alarms(name):
    """At most 5 % of 500 collections at the level of 5 %, within three errors; the bound is conservative, mostly by far."""
    protocol, size, start = HONEST[name], 500, time.process_time()
    a, p_values = protocol.n_categories, []
    for seed in range(size):
        rng = np.random.default_rng([9, seed])
        reports = protocol.privatize(rng.choice(a, USERS, p=zipf(a)), rng)
        p_values.append([found.p_value for found in copies_checks(collection_of(Tally(protocol, reports)))])
    tested = np.array([min(found) for found in p_values if found])
    line = {"design": name, "collections": size, "tested": tested.size}
    line |= {f"alarms_{level:g}": f"{(tested <= level).mean() if tested.size else 0:.4f}" for level in (0.05, 0.01)}
    record(ALARMS, line | {"seconds": f"{time.process_time() - start:.0f}"}, ("design",))
    assert (tested <= 0.05).sum() <= 0.05 * size + 3 * math.sqrt(0.05 * 0.95 * size)
