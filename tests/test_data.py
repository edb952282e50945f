"""Every number published for the collections in data/, reproduced to the digits that were printed."""

import collections
import functools
import pathlib
from decimal import Decimal

import numpy as np
import pytest
from scipy import special, stats
from tabulated import each_row

from ldpbayes import fit
from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.base import information_covariance
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.likelihoods import DenseRows, StackedRows
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.quadrature import Quadrature
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import designs
from ldpbayes.simulation import population
from ldpbayes.sources import read_collection, write_collection

DATA = pathlib.Path(__file__).parent.parent / "data"
PATHS = {path.stem: path for path in sorted(DATA.glob("*.toml"))}
GRANADA = ("copied", "fought", "bullied", "bullying", "drug", "sex")
WADA = ("drug_tested", "supplements", "psychoactive", "doping")
ONE_CHANNEL = ["rr_nigeria", *(f"rr_granada_{item}" for item in GRANADA), "rr_plagiarism_partial", "rr_plagiarism_severe"]
#: Digits beyond the certificate's default: a gap of 1e-6 nats may still move the sixth decimal.
BEST = MLE(tolerance=1e-10)


@pytest.fixture(scope="module")
def read():
    """Read a collection of data/ once."""
    seen = {}
    return lambda name: seen.setdefault(name, read_collection(PATHS[name]))


def entries(collection, source, what="", quantity=None):
    """Return the published entries of one source whose ``what`` holds the words, for one quantity or any."""
    found = [e for e in collection.published if e["source"] == source and what in e["what"]]
    return [e for e in found if quantity is None or e["quantity"] == quantity]


def as_printed(numbers):
    """Return what equals the numbers within half a unit of each one's last printed digit (a zero: of the list's finest)."""
    numbers = np.atleast_1d(numbers)
    units = np.array([10.0 ** Decimal(repr(x)).as_tuple().exponent for x in numbers.tolist()])
    return Printed(numbers, np.where(numbers == 0, units.min(), units))


class Printed:
    """Numbers with the unit of their last digit; equal to whatever would be printed so."""

    __array_ufunc__ = None  # or an array on the left would compare element by element

    def __init__(self, numbers, units):
        self.numbers, self.units = numbers, units

    def __eq__(self, values):
        return bool((np.abs(np.atleast_1d(values) - self.numbers) <= self.units * 0.5001).all())

    def __repr__(self):
        return f"printed as {self.numbers.tolist()}"


def yes_share(collection):
    """Return (count of yes or same, n, P(yes | other), P(yes | carrier)) of a one-channel yes/no collection."""
    (tally,) = collection.tallies
    return tally.counts[1], tally.n_reports, *tally.protocol.matrix[1]


def flat_posterior(collection, ci_prob=0.95, method=Exact):
    """Return the exact group of the flat-prior posterior at the category yes: mean, sd, lower and upper end."""
    prior = Dirichlet.flat(collection.n_categories)
    tree = fit(collection, prior, method(draws=4, chains=1), random_seed=1, ci_prob=ci_prob, estimates=False)
    exact = tree["exact"].sel(category="yes")
    return {key: float(exact[f"distribution_{key}"]) for key in ("mean", "sd", "lower", "upper")}


# ---- the files ----------------------------------------------------------------------------------------------------


def test_all_collections_are_here():
    joint = {"rr_granada_joint", "rr_minarets", "rr_minarets_as_warner", "rr_eriksson_cheating", "rr_wada_forum_joint"}
    assert set(PATHS) == {*ONE_CHANNEL, *joint}


@each_row("name", PATHS)
def test_files_are_in_canonical_form_and_cited(read, tmp_path, name):
    collection = read(name)
    write_collection(collection, tmp_path / f"{name}.toml")
    for suffix in (".toml", ".csv"):
        assert (tmp_path / name).with_suffix(suffix).read_bytes() == PATHS[name].with_suffix(suffix).read_bytes()
    assert collection.id == name
    assert all((collection.title, collection.question, collection.citation, collection.licence, collection.notes))


@each_row("name", PATHS)
def test_published_entries_follow_the_readme(read, name):
    keys = {"source", "what", "quantity", "estimate", "se", "variance", "ci", "logit", "logit_se", "x2", "p_value"}
    keys |= {"mean", "sd", "q025", "median", "q975", "mode"}
    for entry in read(name).published:
        assert set(entry) <= keys and entry["source"] in ("published", "recomputed")
        assert "estimate" in entry or "mean" in entry


@each_row("name", PATHS)
def test_every_collection_is_identified(read, name):
    assert read(name).unidentified() == []


def test_margins_of_the_joint_tables_are_the_single_items(read):
    (joint,) = read("rr_granada_joint").tallies
    table = joint.counts.reshape((2,) * 6)
    assert (table > 0).sum() == 53
    for axis, item in enumerate(GRANADA):
        margin = table.sum(axis=tuple(k for k in range(6) if k != axis))
        assert margin.tolist() == read(f"rr_granada_{item}").tallies[0].counts.tolist()
    two_way = {"A": [[163, 438], [316, 285], [299, 302], [463, 138]], "B": [[378, 232], [280, 330], [310, 300], [132, 478]]}
    for tally in read("rr_wada_forum_joint").tallies:
        assert [counts.tolist() for counts in wada_margins(tally)] == two_way[tally.name]


def test_joint_channels_are_the_products_of_their_items(read):
    (joint,) = read("rr_granada_joint").tallies
    product = np.ones((1, 1))
    for item in GRANADA:
        product = np.kron(product, read(f"rr_granada_{item}").tallies[0].protocol.matrix)
    assert joint.protocol.matrix == pytest.approx(product, abs=1e-15)
    assert joint.protocol.answers == read("rr_granada_joint").categories


def test_the_misread_minarets_are_the_same_answers(read):
    right, wrong = read("rr_minarets"), read("rr_minarets_as_warner")
    for a, b in zip(right.tallies, wrong.tallies, strict=True):
        assert (a.name, a.counts.tolist()) == (b.name, b.counts.tolist())
        assert a.protocol.matrix[:, 2] == pytest.approx(b.protocol.matrix[:, 0])  # those who are no carriers do the same
    alone = [Oracle()(Collection(wrong.categories, tally)).distribution[1] for tally in wrong.tallies]
    assert alone == pytest.approx([0.258, 0.613], abs=5e-4)
    assert "misreading" in wrong.notes and "crosscheck" in wrong.notes


POPULATIONS = {
    "adult_age": (32561, 73, 73, {"17": 395, "90": 43}),
    "adult_age_sex": (32561, 144, 144, {"17 Female": 186, "17 Male": 209}),
    "adult_workclass": (32561, 9, 9, {"Private": 22696, "?": 1836}),
    "adult_workclass_education": (32561, 117, 117, {"? 10th": 100}),
    "adult_education": (32561, 16, 16, {"HS-grad": 10501, "Preschool": 51}),
    "adult_education_marital_income": (32561, 173, 173, {"10th Divorced <=50K": 118, "10th Divorced >50K": 2}),
    "adult_hours": (32561, 94, 94, {"40": 15217, "1": 20}),
    "flights_air_time": (327346, 1000, 509, {"0": 0}),
    "flights_carrier": (336776, 16, 16, {"9E": 18460}),
    "flights_dep_delay": (328515, 1000, 521, {"-43": 1, "0": 16514}),
    "flights_dep_minute_of_day": (328521, 1440, 1318, {"0": 29, "1439": 55}),
    "flights_dest": (336776, 105, 105, {}),
    "flights_distance": (336776, 1000, 168, {"4980": 342, "4960": 365}),
    "flights_origin_dest": (336776, 224, 224, {"JFK HNL": 342, "EWR HNL": 365}),
    "flights_speed": (327346, 1000, 605, {"0": 0}),
}
true_population = functools.cache(lambda name: population(DATA / "populations" / f"{name}.toml"))


def test_every_shipped_population_is_known():
    assert {path.stem for path in (DATA / "populations").glob("*.toml")} == set(POPULATIONS)


@each_row("name", POPULATIONS)
def test_populations(name):
    n, a, occurring, facts = POPULATIONS[name]
    true = true_population(name)
    assert (true.id, int(true.counts.sum()), true.n_categories) == (name, n, a)
    assert (true.counts > 0).sum() == occurring
    assert true.citation and true.licence and true.title
    assert {label: true.counts[true.categories.index(label)] for label in facts} == facts
    if a == 1440:
        assert true.categories == tuple(map(str, range(1440)))


@pytest.mark.parametrize(
    ("whole", "part", "part_of"),
    [
        ("adult_age_sex", "adult_age", lambda label: label.split()[0]),
        ("adult_workclass_education", "adult_workclass", lambda label: label.split()[0]),
        ("adult_workclass_education", "adult_education", lambda label: label.split()[1]),
        ("adult_education_marital_income", "adult_education", lambda label: label.split()[0]),
        ("flights_origin_dest", "flights_dest", lambda label: label.split()[1]),
    ],
)
def test_populations_of_pairs_have_the_margins_of_their_parts(whole, part, part_of):
    """Also, as published for these data, 10,771 women among the adults and 7,841 with more than 50,000 dollars."""
    pairs, margin = true_population(whole), collections.Counter()
    for label, count in zip(pairs.categories, pairs.counts.tolist(), strict=True):
        margin[part_of(label)] += count
    single = true_population(part)
    assert dict(margin) == {label: n for label, n in zip(single.categories, single.counts.tolist(), strict=True) if n}
    ends = {"adult_age_sex": (" Female", 10771), "adult_education_marital_income": (" >50K", 7841)}
    for ending, number in [ends[whole]] if whole in ends else []:
        assert sum(n for label, n in zip(pairs.categories, pairs.counts, strict=True) if label.endswith(ending)) == number


# ---- one channel, two categories ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_CHANNEL)
def test_maximum_likelihood(read, name):
    collection = read(name)
    (expected,) = entries(collection, "recomputed", "maximum likelihood")
    estimate = BEST(collection)
    assert estimate.distribution[1] == as_printed(expected["estimate"])
    assert estimate.standard_error[1] == as_printed(expected["se"])
    yes, n, low, high = yes_share(collection)
    assert estimate.distribution[1] == pytest.approx((yes / n - low) / (high - low), abs=1e-9)  # all are interior


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", [Exact, Quadrature])
@pytest.mark.parametrize("name", ONE_CHANNEL)
def test_flat_prior_posterior(read, name, method):
    collection = read(name)
    (expected,) = entries(collection, "recomputed", "posterior, flat prior")
    answer, centre = (flat_posterior(collection, ci_prob, method) for ci_prob in (0.95, 1e-9))
    for key, value in {"mean": answer["mean"], "sd": answer["sd"], "q025": answer["lower"], "q975": answer["upper"]}.items():
        assert value == as_printed(expected[key]), key
    assert centre["lower"] == as_printed(expected["median"])
    assert BEST(collection).distribution[1] == as_printed(expected["mode"])  # the mode under a flat prior


@each_row("name", ONE_CHANNEL)
def test_flat_prior_posterior_is_a_truncated_beta(read, name):
    """A flat prevalence makes P(yes) = low + (high − low) p uniform on [low, high], hence a Beta cut off there."""
    yes, n, low, high = yes_share(read(name))
    beta = stats.beta(yes + 1, n - yes + 1)
    ends = beta.ppf(beta.cdf(low) + np.array([0.025, 0.975]) * (beta.cdf(high) - beta.cdf(low)))
    answer = flat_posterior(read(name))
    assert [answer["lower"], answer["upper"]] == pytest.approx((ends - low) / (high - low), abs=1e-6)


def test_nigeria_by_other_packages(read):
    collection = read("rr_nigeria")
    estimate, n = BEST(collection), collection.n_reports
    p, se = estimate.distribution[1], estimate.standard_error[1]
    logistic, rrreg, averaged = entries(collection, "published")
    # rr::rrreg stops its EM 9e-7 short of the maximum; its standard error on the logit scale goes with that point.
    assert p == pytest.approx(logistic["estimate"], abs=1e-6)
    assert special.logit(p) == pytest.approx(logistic["logit"], abs=1e-6 / (p * (1 - p)))
    assert se / (p * (1 - p)) == pytest.approx(logistic["logit_se"], rel=1e-4)
    assert p == as_printed(rrreg["estimate"])
    assert se * np.sqrt(n / (n - 1)) == as_printed(rrreg["se"])  # RRreg divides by n − 1
    # Averaged over respondents' covariates: not a function of these tallies, but it must agree within its error.
    assert abs(p - averaged["estimate"]) < 0.2 * averaged["se"]
    assert se == pytest.approx(averaged["se"], rel=2e-3)


@pytest.mark.parametrize("item", GRANADA)
def test_granada_as_a_simple_random_sample(read, item):
    """RRTCS: r = (z − (1−p)α)/p per student; variance (1 − n/N) s²_r/n for the sample plus mean r(r−1)/N for the coins."""
    collection = read(f"rr_granada_{item}")
    (printed,) = entries(collection, "published")
    yes, n, low, high = yes_share(collection)
    scores = np.repeat((np.array([0, 1]) - low) / (high - low), [n - yes, yes])
    variance = (1 - n / 10777) * scores.var(ddof=1) / n + (scores * (scores - 1)).mean() / 10777
    estimate = Oracle()(collection)
    assert estimate.distribution[1] == as_printed(printed["estimate"])
    assert variance == as_printed(printed["variance"])
    assert np.sqrt(variance) == as_printed(printed["se"])
    ends = estimate.distribution[1] + stats.norm.ppf([0.025, 0.975]) * np.sqrt(variance)
    assert ends == as_printed(printed["ci"])
    assert estimate.standard_error[1] > printed["se"]  # independent users: no finite-population correction


@pytest.mark.parametrize(("name", "direct"), [("partial", (7, 96)), ("severe", (1, 96))])
def test_plagiarism_as_printed(read, name, direct):
    collection = read(f"rr_plagiarism_{name}")
    crosswise, asked = entries(collection, "published")
    assert BEST(collection).distribution[1] == as_printed(crosswise["estimate"])
    assert direct[0] / direct[1] == as_printed(asked["estimate"]) and f"{direct[1]}" in asked["what"]


# ---- joint tables -------------------------------------------------------------------------------------------------


def optimality(collection, p):
    """Return max_x (Lᵀ(w/Lp))_x − n with the channels written out: zero at the maximum and nowhere else."""
    slopes = sum(
        t.protocol.channel()[t.reports].T @ (t.counts / (t.protocol.channel()[t.reports] @ p)) for t in collection.tallies
    )
    return float(slopes.max() - collection.n_reports)


def test_granada_joint_maximum_likelihood(read):
    collection = read("rr_granada_joint")
    estimate = BEST(collection)
    assert optimality(collection, estimate.distribution) < 1e-8
    for item in collection.derived:
        (expected,) = entries(collection, "recomputed", quantity=item.name)
        assert item.evaluate(estimate.distribution, collection.categories) == as_printed(expected["estimate"])


def test_minarets(read):
    collection = read("rr_minarets")
    estimate = BEST(collection)
    (expected,) = entries(collection, "recomputed", "maximum likelihood")
    assert estimate.distribution == as_printed(expected["estimate"])
    # As many free answers as unknowns, and an interior solution: the oracle solves the same equations.
    assert estimate.distribution == pytest.approx(Oracle()(collection).distribution, abs=1e-6)
    # RRreg divides by n − 1 in each group: the information of (n − 1)/n of the answers, at the same estimate.
    rows = StackedRows(
        [DenseRows(t.rows.dense(), t.rows.counts * (t.n_reports - 1) / t.n_reports) for t in collection.tallies]
    )
    covariance = information_covariance(rows, estimate.distribution)
    honest, lying, _ = estimate.distribution
    slopes = {"pi": [1, 1, 0], "t": [lying / (honest + lying) ** 2, -honest / (honest + lying) ** 2, 0]}
    for item in collection.derived:
        (printed,) = entries(collection, "published", quantity=item.name)
        slope = np.array(slopes[item.name])
        assert item.evaluate(estimate.distribution, collection.categories) == as_printed(printed["estimate"])
        assert np.sqrt(slope @ covariance @ slope) == as_printed(printed["se"])
    # The same for π by hand: non-carriers are 1.5 (yes₁ − yes₂).
    shares = [(t.counts[1] / t.n_reports, t.n_reports) for t in collection.tallies]
    by_hand = {d: 1.5 * np.sqrt(sum(q * (1 - q) / (n - d) for q, n in shares)) for d in (0, 1)}
    assert by_hand[1] == as_printed(entries(collection, "published", quantity="pi")[0]["se"])
    assert estimate.standard_error[2] == pytest.approx(by_hand[0], abs=1e-9)


def test_minarets_direct_question(read):
    (printed,) = entries(read("rr_minarets"), "published", quantity="direct")
    assert 158 / 365 == as_printed(printed["estimate"])
    assert np.sqrt(158 * 207 / 365**3) == as_printed(printed["se"])


def test_eriksson(read):
    collection = read("rr_eriksson_cheating")
    labels, n = list(collection.categories), collection.n_reports
    oracle, (printed,) = Oracle()(collection), entries(collection, "published", quantity=labels)
    assert oracle.distribution == as_printed(printed["estimate"])
    assert oracle.distribution == as_printed(entries(collection, "recomputed", "oracle")[0]["estimate"])
    answers = collection.tallies[0].counts / n
    assert np.sqrt(answers * (1 - answers) / (n - 1)) / 0.5 == as_printed(printed["se"])  # RRreg divides by n − 1
    estimate = BEST(collection)
    assert estimate.distribution == as_printed(entries(collection, "recomputed", "maximum likelihood")[0]["estimate"])
    assert estimate.distribution[labels.index("5")] < 1e-9 and optimality(collection, estimate.distribution) < 1e-8


def test_eriksson_standard_error_of_the_oracle_is_exact_at_the_projected_estimate(read):
    """The oracle is linear, so its error is that of multinomial answers; only the point at which it stands differs."""
    collection = read("rr_eriksson_cheating")
    (printed,) = entries(collection, "published", quantity=list(collection.categories))
    assert Oracle()(collection).standard_error == pytest.approx(printed["se"], rel=0.02)


def test_eriksson_mean(read):
    """Horvitz–Thompson with inclusion probability 0.001911 in N = 53,376; Deville's variance needs the strata."""
    collection = read("rr_eriksson_cheating")
    (printed,) = entries(collection, "published", "mean number")
    numbers = np.array(collection.categories, dtype=float)
    mean = Oracle()(collection).distribution @ numbers
    assert mean * collection.n_reports / (0.001911 * 53376) == as_printed(printed["estimate"])
    answers = collection.tallies[0].counts / collection.n_reports
    pooled = np.sqrt((answers @ numbers**2 - (answers @ numbers) ** 2) / (collection.n_reports - 1)) / 0.5
    assert pooled == pytest.approx(printed["se"], rel=0.05)  # without the strata
    half = stats.norm.ppf(0.975) * printed["se"]
    assert [printed["estimate"] - half, printed["estimate"] + half] == pytest.approx(printed["ci"], abs=2e-5)


def wada_margins(tally):
    """Return the (one, both_or_none) counts of each item."""
    table = np.bincount(tally.reports, tally.counts, tally.protocol.n_outputs).astype(int).reshape((2,) * 4)
    return [table.sum(axis=tuple(k for k in range(4) if k != axis)) for axis in range(4)]


def wada_item(collection, axis):
    """Return the two-category collection of one item, both forms."""
    tallies = []
    for tally in collection.tallies:
        factor = tally.protocol.settings["factors"][axis]
        protocol = designs.crosswise(factor["p"], factor["answers"])
        tallies.append(Tally(protocol, [0, 1], wada_margins(tally)[axis], tally.name))
    return Collection(("no", "yes"), tallies)


@pytest.mark.calibrated("1-Exact", "2-Exact", "1-Quadrature", "2-Quadrature")
@pytest.mark.parametrize("method", [Exact, Quadrature])
@pytest.mark.parametrize("axis", range(4))
def test_wada_items_alone(read, axis, method):
    collection, item = read("rr_wada_forum_joint"), wada_item(read("rr_wada_forum_joint"), axis)
    (likelihood,) = entries(collection, "recomputed", "item alone: maximum", WADA[axis])
    (posterior,) = entries(collection, "recomputed", "item alone: posterior", WADA[axis])
    estimate = BEST(item)
    assert estimate.distribution[1] == as_printed(likelihood["estimate"])
    assert estimate.distribution[1] == as_printed(posterior["mode"])
    assert estimate.standard_error[1] == as_printed(likelihood["se"])
    answer, centre = (flat_posterior(item, ci_prob, method) for ci_prob in (0.95, 1e-9))
    for key, value in {"mean": answer["mean"], "sd": answer["sd"], "q025": answer["lower"], "q975": answer["upper"]}.items():
        assert value == as_printed(posterior[key]), key
    assert centre["lower"] == as_printed(posterior["median"])


@pytest.mark.parametrize("axis", range(4))
def test_wada_logistic_output(read, axis):
    """wada::logistic: logit-scale interval; twice the log likelihood ratio of the forms, on two degrees of freedom."""
    collection, item = read("rr_wada_forum_joint"), wada_item(read("rr_wada_forum_joint"), axis)
    (printed,) = entries(collection, "published", quantity=WADA[axis])
    estimate = BEST(item)
    p, se = estimate.distribution[1], estimate.standard_error[1]
    assert p == as_printed(printed["estimate"])
    half = stats.norm.ppf(0.975) * se / (p * (1 - p))
    assert special.expit(special.logit(p) + np.array([-half, half])) == as_printed(printed["ci"])
    expected = [tally.n_reports * tally.protocol.matrix @ estimate.distribution for tally in item.tallies]
    ratio = 2 * sum((tally.counts * np.log(tally.counts / e)).sum() for tally, e in zip(item.tallies, expected, strict=True))
    assert ratio == as_printed(printed["x2"])
    assert stats.chi2.sf(ratio, 2) == as_printed(printed["p_value"])


def test_wada_joint_maximum_likelihood(read):
    collection = read("rr_wada_forum_joint")
    estimate = BEST(collection)
    (expected,) = entries(collection, "recomputed", "joint maximum likelihood", list(collection.categories))
    assert optimality(collection, estimate.distribution) < 1e-8
    assert estimate.distribution == as_printed(expected["estimate"])
    for item in collection.derived:
        (margin,) = entries(collection, "recomputed", "marginal", item.name)
        assert item.evaluate(estimate.distribution, collection.categories) == as_printed(margin["estimate"])
