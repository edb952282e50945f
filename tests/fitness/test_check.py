"""check() leaves honest reports alone at its level, and sees designs that were not followed and fabricated reports."""

import numpy as np
import pytest
from fitcases import DESIGNS, collection_of, flagged_share, honest, zipf
from scipy.optimize import minimize_scalar
from scipy.stats import binom, chi2, kstest

from ldpbayes import Collection, Tally, fit
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.fitness import Check, Fitness, check, structural
from ldpbayes.fitness.goodness import goodness_of_fit
from ldpbayes.fitness.structural import support_checks
from ldpbayes.protocols import GRR, designs
from ldpbayes.protocols.base import Binomials
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    [
        *("subset", "cohorts", "crosswise pair"),
        *(pytest.param(name, marks=pytest.mark.calibrate) for name in ("oue", "olh", "three epsilons")),
    ],
)
def test_honest_reports_are_flagged_at_the_level(name):
    """Of 200 honest collections at 5 %, between 1 and 21: a one in a thousand event on either side."""
    assert 1 <= 200 * flagged_share(name, 200, 5) <= 21


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name, df",
    [
        ("oue", 15 - 3),
        ("subset", 14 - 5),
        ("hadamard", 7 - 5),
        ("three epsilons", 12 - 4),
        ("crosswise pair", 2 - 1),
        ("cohorts", 31 - 9),
    ],
)
def test_degrees_of_freedom_inside_the_simplex(name, df):
    """Free counts less free parameters; P is well inside, so that no category is at zero."""
    protocols, p, n = DESIGNS[name]
    collection = honest(protocols, np.full(p.size, 1 / p.size), 100 * n, np.random.default_rng(1))
    (found,) = goodness_of_fit(collection, collection.tallies, np.random.default_rng(0))
    assert found.df == df and found.method == "chi-squared"


def test_g_squared_against_a_search():
    """Two Warner questions: the likelihood ratio of two free shares to one p, found by a scalar search."""
    tallies = [
        Tally(designs.warner(0.2), [0, 1], [700, 300], name="a"),
        Tally(designs.warner(0.8), [0, 1], [560, 440], name="b"),
    ]

    def deviance(p):
        shares = [0.2 * p + 0.8 * (1 - p), 0.8 * p + 0.2 * (1 - p)]
        return 2 * sum(
            s * np.log(s / 1000 / q)
            for pair, share in zip(([700, 300], [560, 440]), shares, strict=True)
            for s, q in zip(pair, (share, 1 - share), strict=True)
        )

    best = minimize_scalar(deviance, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).fun
    (found,) = goodness_of_fit(collection_of(*tallies), tallies, np.random.default_rng(0))
    assert found.statistic == pytest.approx(best, rel=1e-6)
    assert found.p_value == pytest.approx(chi2.sf(best, 1), rel=0.01)


def test_one_sayers_are_seen():
    """Two-probability crosswise surveys, 10 % of 3,000 always report the second answer: seen in nine of ten."""
    rng, seen = np.random.default_rng(3), 0
    for _ in range(60):
        tallies = []
        for truth in (0.2, 0.8):
            followers = rng.binomial(1500, 0.9)
            reports, counts = designs.warner(truth).simulate(rng.multinomial(followers, [0.8, 0.2]), rng)
            total = np.bincount(reports, counts, 2) + np.array([0, 1500 - followers])
            tallies.append(Tally(designs.warner(truth), [0, 1], total.astype(int), name=f"{truth}"))
        seen += check(collection_of(*tallies)).flagged
    assert seen >= 57


def test_a_repeated_seed_is_flagged():
    rng = np.random.default_rng(8)
    protocol = LocalHashing(20, 1.0)
    reports = protocol.privatize(rng.choice(20, 10_000, p=zipf(20)), rng)
    assert not check(collection_of(Tally(protocol, reports))).flagged
    reports[:101] = reports[0]
    found = check(collection_of(Tally(protocol, reports)))
    assert found.flagged and "repeated seeds" in found.verdict and "copies of" in found.verdict
    twice = protocol.privatize(rng.choice(20, 2000, p=zipf(20)), rng)
    twice[1, 0] = twice[0, 0]
    assert "repeated seeds" in check(collection_of(Tally(protocol, twice))).verdict


@pytest.mark.parametrize("share", [0.05, 0.01])
@pytest.mark.parametrize("a", [4, 20, 64])
def test_crafted_reports_of_all_ones_are_flagged(a, share):
    rng = np.random.default_rng(a)
    protocol = UnaryEncoding.optimized(a, 1.0)
    reports = protocol.privatize(rng.choice(a, 10_000, p=zipf(a)), rng)
    crafted = np.packbits(np.ones((int(10_000 * share), a), dtype=bool), axis=1)
    reports[: len(crafted), : crafted.shape[1]] = crafted
    assert check(collection_of(Tally(protocol, reports))).flagged


def test_seeds_and_cohorts_that_are_not_uniform_are_flagged():
    rng = np.random.default_rng(6)
    protocol = LocalHashing(8, 1.0)
    reports = protocol.privatize(rng.choice(8, 2000), rng)
    reports[:, 0] = np.arange(2000)
    assert "seeds of" in check(collection_of(Tally(protocol, reports))).verdict
    cohorts = CohortRR(8, 1.0, buckets=4, cohorts=8)
    reports = cohorts.privatize(rng.choice(8, 2000), rng)
    reports = reports[(reports[:, 0] > 0) | (rng.random(2000) < 0.5)]
    assert "cohorts of" in check(collection_of(Tally(cohorts, reports))).verdict


def test_supports_chosen_large_are_flagged():
    """Fabricated hashed reports with seeds that let many categories share a bucket."""
    rng = np.random.default_rng(6)
    protocol = LocalHashing(20, 1.0)
    reports = protocol.privatize(rng.choice(20, 5000, p=zipf(20)), rng)
    tried = protocol.privatize(rng.choice(20, 5000), rng)
    sizes = protocol.ancillaries()[2].values(tried)
    reports[:250] = tried[np.argsort(sizes)[-250:]]
    assert "support sizes" in check(collection_of(Tally(protocol, reports))).verdict


def test_saturated_designs_have_no_test():
    found = check(collection_of(Tally(designs.warner(0.7), [0, 1], [60, 40])))
    assert not found.flagged and np.isnan(found.p_value)
    assert found.verdict.startswith("No test of fit is possible.") and "A second channel" in found.verdict
    direct = check(collection_of(Tally(designs.direct(3), [0, 1, 2], [5, 0, 3])))
    assert not direct.checks


def test_a_saturated_design_beyond_its_range_is_flagged():
    """Forced response forces a sixth of each answer: 2 % of yes cannot come from it."""
    found = check(collection_of(Tally(designs.forced_response(2 / 3, [1, 1]), [0, 1], [980, 20])))
    assert found.flagged and found.checks[0].df == 1


def test_support_sizes_follow_one_law_for_every_value():
    protocol = UnaryEncoding.optimized(5, 1.0)
    (part,) = protocol.ancillaries()
    sizes, channel = part.values(protocol.all_reports()), protocol.channel()
    for x in range(5):
        assert np.bincount(sizes, channel[:, x], 6) == pytest.approx(part.law, rel=1e-12)
    assert part.law == pytest.approx(np.convolve(binom.pmf(range(5), 4, protocol.lam), [0.5, 0.5]), rel=1e-12)


def test_adjusted_p_values_are_those_of_holm():
    def one(p, weight=1.0):
        return Check("t", "", 0.0, 1, p, "chi-squared", weight)

    equal = Fitness((one(0.03), one(0.01), one(0.4)))
    assert equal.adjusted == pytest.approx([0.06, 0.03, 0.4])
    assert equal.flagged and "2" not in equal.verdict.split("p =")[0]
    weighted = Fitness((one(0.03), one(1e-6, 0.02)))
    assert weighted.adjusted == pytest.approx([0.03, 1e-6 / 0.02 * 1.02])


def test_bad_arguments():
    with pytest.raises(DataError, match=r"data.toml: cannot be read"):
        check("data.toml")
    with pytest.raises(ArgumentError, match="level must"):
        check(collection_of(Tally(designs.warner(0.7), [0, 1], [60, 40])), level=0)


def test_categories_at_zero_are_counted_at_large_n():
    """A saturated GRR design with some three hundred categories at zero: multipliers are below one by less than 1e-3."""
    rng = np.random.default_rng(0)
    found = check(honest([GRR(1000, epsilon=3.0)], np.full(1000, 1e-3), 10**6, rng))
    assert found.checks[0].df > 200 and found.p_value > 0.001


def test_a_fit_states_whether_the_reports_fit():
    bad = fit(collection_of(Tally(designs.forced_response(2 / 3, [1, 1]), [0, 1], [980, 20])), random_seed=1)
    assert bad.attrs["fitness_flagged"] == 1 and "not fit" in facts_of(bad)["fitness"]
    good = fit(collection_of(Tally(designs.warner(0.7), [0, 1], [600, 400])), random_seed=1)
    assert good.attrs["fitness_flagged"] == 0 and facts_of(good)["fitness"].startswith("No test of fit is possible.")


@pytest.mark.parametrize("protocol", [UnaryEncoding.optimized(5, 1.0), SubsetSelection(7, 1.0, 3)], ids=str)
def test_centred_pairs_of_bits_have_mean_zero_for_every_value(protocol):
    """By the listed channel: t_xy = B_x B_y − α (B_x + B_y) − γ, and independent bits leave all pairs uncorrelated."""
    a, (g, h), rates = protocol.n_categories, protocol.hit_rates, protocol.pair_rates()
    bits = np.unpackbits(protocol.all_reports(), axis=1, count=a).astype(float)
    slope = (rates.one - rates.neither) / (g - h)
    x, y = np.triu_indices(a, 1)
    t = bits[:, x] * bits[:, y] - slope * (bits[:, x] + bits[:, y]) - (rates.neither - 2 * h * slope)
    np.testing.assert_allclose(protocol.channel().T @ t, 0, atol=1e-12)
    covariance = t.T @ ((protocol.channel() @ zipf(a))[:, None] * t)
    assert np.linalg.matrix_rank(covariance) == rates.dimension
    assert rates.independent == (np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-12)


def test_crafted_reports_of_a_typical_size_are_seen_by_their_pairs():
    """3 % of the reports hold the same ten of forty categories among others: every size is that of an honest report."""
    rng = np.random.default_rng(4)
    protocol = UnaryEncoding.optimized(40, 1.0)
    bits = np.unpackbits(protocol.privatize(rng.choice(40, 10_000, p=zipf(40)), rng), axis=1, count=40)
    crafted = bits[:300].copy()
    for row in crafted:
        free = np.flatnonzero(row[10:])[: row[:10].size - row[:10].sum()]
        row[10 + free], row[:10] = 0, 1
    fake = np.packbits(np.concatenate([crafted, bits[300:]]), axis=1)
    assert "pairs of" in check(collection_of(Tally(protocol, fake))).verdict
    sets = SubsetSelection(30, 1.0)
    reports = sets.privatize(rng.choice(30, 5000, p=zipf(30)), rng)
    assert not check(collection_of(Tally(sets, reports))).flagged
    reports[:150] = np.packbits(np.arange(30) < sets.size)
    found = check(collection_of(Tally(sets, reports)))
    assert "pairs of" in found.verdict and "copies of" in found.verdict


def test_channels_of_bits_whose_categories_are_in_another_order_are_flagged():
    """Either channel by itself fits; where the reports of one can be listed, the other may be listed or not."""
    rng, p = np.random.default_rng(4), zipf(20)
    days = [UnaryEncoding.optimized(20, 1.0), UnaryEncoding.optimized(20, 2.0), GRR(20, 3.0)]
    for first, second in ((days[0], days[1]), (days[2], days[0])):
        tallies = [
            Tally(day, *day.simulate(rng.multinomial(3000, shares), rng), name=name)
            for name, day, shares in (("Monday", first, p), ("Tuesday", second, p[::-1]))
        ]
        found = check(collection_of(*tallies))
        assert found.flagged
        worst = min(found.checks, key=lambda one: one.p_value)
        assert "channels" in worst.name and "Monday" in worst.detail
        assert not any(check(collection_of(one)).flagged for one in tallies)


def test_the_largest_product_of_two_tails_by_a_grid():
    """Over 50,001 shares by SciPy's log tails; counts of which a product underflows are bounded."""
    rng, grid = np.random.default_rng(1), np.linspace(0, 1, 50_001)
    p, sizes, rates = rng.dirichlet(np.ones(6)), (300, 500), ((0.5, 0.2), (0.5, 0.1))
    for second in (p, p[::-1]):
        forms = [
            Binomials(rng.binomial(n, h + (g - h) * shares).astype(float), np.full(6, g), np.full(6, h), n)
            for n, (g, h), shares in zip(sizes, rates, (p, second), strict=True)
        ]
        products = []
        for x in range(6):
            pairs = [(form.counts[x], form.n, h + (g - h) * grid) for form, (g, h) in zip(forms, rates, strict=True)]
            shares = [(count / n - h) / (g - h) for (count, n, _), (g, h) in zip(pairs, rates, strict=True)]
            high, low = pairs if shares[0] >= shares[1] else pairs[::-1]
            products.append((binom.logsf(high[0] - 1, *high[1:]) + binom.logcdf(*low)).max())
        log, category = structural._least_tails(*forms, times=0)  # which looks for the top in every category
        assert log == pytest.approx(min(products), abs=1e-6) and category == np.argmin(products)
    apart = [Binomials(np.array([c, c]), np.full(2, 0.5), np.full(2, 0.2), 10**6) for c in (450_000.0, 250_000.0)]
    log, _ = structural._least_tails(*apart, times=4)
    assert -(10**6) < log < -20_000


@pytest.mark.calibrated("epsilons0-sizes1", "epsilons1-sizes0", "epsilons2-sizes1")
@pytest.mark.parametrize("sizes", [(100, 10_000), (100, 100)])
@pytest.mark.parametrize("epsilons", [(8.0, 8.0), (6.0, 8.0), (1.0, 3.0)])
def test_channels_of_any_size_and_level_are_not_flagged(epsilons, sizes):
    """Counts of a few bits are far from normal, so that z of estimates flagged a fifth of these."""
    rng, flagged = np.random.default_rng(5), 0
    channels = [UnaryEncoding.optimized(20, epsilon) for epsilon in epsilons]
    for _ in range(60):
        p = rng.dirichlet(np.full(20, 0.3))
        tallies = [
            Tally(channel, *channel.simulate(rng.multinomial(n, p), rng), name=f"day {k}")
            for k, (channel, n) in enumerate(zip(channels, sizes, strict=True))
        ]
        (made,) = structural.channels_agree(collection_of(*tallies))
        flagged += made.p_value < 0.05
    assert flagged <= 6  # 60 honest ones at most: P(Binomial(60, .05) > 6) = .02


def test_support_counts_below_what_any_population_has_are_flagged():
    protocol = GRR(3000, 5.0)
    reports = protocol.privatize(np.random.default_rng(0).choice(1500, 200_000), np.random.default_rng(1))
    assert not check(collection_of(Tally(protocol, reports))).flagged
    found = check(collection_of(Tally(protocol, reports[reports != 2999])))
    assert found.flagged and "support counts" in found.verdict


def test_reports_of_words_that_are_no_candidates_do_not_fit_bloom_filters():
    words = tuple(f"{x}.org" for x in range(30))
    every, listed = (Rappor(n, 0.25, 0.75, 0.2, 32, 8, 2, candidates=words[:n]) for n in (30, 15))
    rng = np.random.default_rng(0)
    found = check(Tally(listed, every.privatize(rng.integers(30, size=20_000), rng)))
    assert found.flagged and found.verdict.startswith(
        "The reports do not fit the design: bits of the filters of channel 'all'"
    )
    (bits, _), honest = found.checks, rng.choice(15, (200, 1600), p=zipf(15))
    assert bits.df == 8 * 32 - 14
    p_values = [next(support_checks(Tally(listed, listed.privatize(values, rng)))).p_value for values in honest]
    assert kstest(p_values, "uniform").pvalue > 0.001 and 1 <= (np.array(p_values) <= 0.05).sum() <= 21


def test_a_handful_of_hashed_reports_is_checked():
    """Too few seeds to compare their distribution, whose range does not fit in 64 bits."""
    pairs = np.array([[17, 0], [905, 2], [44, 1], [3120, 3]])
    collection = Collection([str(x) for x in range(16)], [Tally(LocalHashing(16, 1.0, family="xxhash"), pairs)])
    assert not check(collection).flagged
