"""Joint tables: errors against the MLE and the product of margins, and ranks of the truth under the log-linear prior.

``make calibrate`` writes joint_tables.csv; a test of every run holds the stored numbers to their limits.
"""

import csv
import pathlib
import time

import numpy as np
import pytest
from recorded import record
from scipy.stats import chi2

from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.mle import MLE
from ldpbayes.methods.base import Problem, Watch
from ldpbayes.methods.weighted import Weighted
from ldpbayes.priors import LogLinear
from ldpbayes.protocols import GRR, Attributes

SUMMARY = pathlib.Path(__file__).with_name("joint_tables.csv")
#: Education (the seven most frequent levels, and all others) by marital status (four and all others) of the training part
#: of Adult: Becker and Kohavi (1996), UCI Machine Learning Repository, doi:10.24432/C5XW20, CC BY 4.0.
ADULT = np.array(
    [
        [4845, 3089, 1613, 406, 548],
        [2818, 2933, 1069, 220, 251],
        [2768, 1795, 546, 92, 154],
        [1003, 404, 233, 25, 58],
        [689, 362, 234, 42, 55],
        [354, 586, 130, 48, 57],
        [460, 337, 203, 30, 37],
        [2039, 1177, 415, 162, 274],
    ]
)
REPLICATIONS = {("grr", 10_000): 4, ("oue", 10_000): 2, ("grr", 1_000): 4, ("oue", 1_000): 2}
#: Largest ratio of mean squared errors: to the MLE's at 10,000 users, to the product of the margins' at 1,000.
TO_MLE, TO_PRODUCT = 0.4, 1.15
RANKED, BINS = 200, 10
FIELDS = ("what", "base", "users", "log_linear", "mle", "product", "to_mle", "to_product", "least_p", "of", "by_nuts")
FIELDS += ("replications", "seconds")


def surveyed(protocol, p, n, rng):
    tally = Tally(protocol, protocol.privatize(rng.choice(p.size, n, p=p.ravel()), rng))
    return Collection([str(x) for x in range(p.size)], tally)


def run(collection, prior, rng, draws=1000):
    problem, method = Problem.of(collection, prior), Weighted(draws=draws)
    return method.run(method.prepare(problem), rng, Watch())


def errors(base, n, replications):
    """Return the line of a base and a number of users: mean squared errors summed over the cells."""
    p, start, found, sampled = ADULT / ADULT.sum(), time.process_time(), [], 0
    protocol = Attributes.split(p.shape, 2.0, base)
    for i in range(replications):
        rng = np.random.default_rng([n, len(base), ord(base[0]), i])
        collection = surveyed(protocol, p, n, rng)
        sample = run(collection, LogLinear(p.shape), rng)
        sampled += not sample.independent
        raw = MLE()(collection).distribution.reshape(p.shape)
        tally = collection.tallies[0]
        alone = [
            MLE()(Collection([str(x) for x in range(f.n_categories)], Tally(Attributes((f,)), r[:, None], tally.counts)))
            for f, r in zip(protocol.factors, tally.reports.T, strict=True)
        ]
        product = np.outer(*(one.distribution for one in alone))
        mean = sample.distribution.mean(axis=(0, 1)).reshape(p.shape)
        found.append([((q - p) ** 2).sum() for q in (mean, raw, product)])
    mean = np.mean(found, axis=0)
    line = dict(zip(("log_linear", "mle", "product"), (f"{x:.5f}" for x in mean), strict=True))
    line |= {"to_mle": f"{mean[0] / mean[1]:.3f}", "to_product": f"{mean[0] / mean[2]:.3f}", "by_nuts": sampled}
    return line | {"replications": replications, "seconds": f"{time.process_time() - start:.0f}"}


def ranks():
    """Return the line of the ranks: chi-square p-values of cells and odds ratio, and of sigma_2."""
    start, prior, protocol = time.process_time(), LogLinear((2, 3)), Attributes((GRR(2, 1.5), GRR(3, 1.5)))
    found, sampled = [], 0
    for i in range(RANKED):
        rng = np.random.default_rng([7, i])
        z = np.concatenate([np.log(rng.standard_exponential(1)), rng.standard_normal(prior.n_effects)])
        p, sigma = prior.to_simplex(z), prior.hyperparameters(z[None])["sigma_2"][0]
        sample = run(surveyed(protocol, p, 400, rng), prior, rng, draws=250)
        sampled += not sample.independent
        draws = sample.distribution.reshape(-1, 6)
        truths = [*p, np.log(p[0] * p[4] / (p[1] * p[3])), sigma]
        logs = np.log(np.maximum(draws, 1e-300))
        every = [*draws.T, logs[:, 0] + logs[:, 4] - logs[:, 1] - logs[:, 3], sample.hyperparameters["sigma_2"].ravel()]
        found.append([(values < truth).mean() for values, truth in zip(every, truths, strict=True)])
    counts = np.stack([np.histogram(column, BINS, (0, 1))[0] for column in np.array(found).T])
    statistic = ((counts - RANKED / BINS) ** 2 / (RANKED / BINS)).sum(axis=1)
    p_values = chi2.sf(statistic, BINS - 1)
    line = {"least_p": f"{p_values.min():.4f}", "of": p_values.size, "by_nuts": sampled, "replications": RANKED}
    return line | {"seconds": f"{time.process_time() - start:.0f}"}


@pytest.mark.calibrate
def test_log_linear_tables_beat_the_mle_and_have_uniform_ranks():
    lines = [{"what": "errors", "base": b, "users": n} | errors(b, n, k) for (b, n), k in REPLICATIONS.items()]
    lines.append({"what": "ranks", "base": "grr", "users": 400} | ranks())
    for line in lines:
        record(SUMMARY, {name: line.get(name, "") for name in FIELDS}, ("what", "base", "users"))
    hold(lines)


def hold(lines):
    """Hold lines of the table to their limits."""
    for line in lines:
        if line["what"] == "ranks":
            assert float(line["least_p"]) > 0.05 / (4 * int(line["of"])) and int(line["replications"]) >= 200
        elif int(line["users"]) == 10_000:
            assert float(line["to_mle"]) <= TO_MLE
        else:
            assert float(line["to_product"]) <= TO_PRODUCT


def test_stored_calibration_of_joint_tables():
    with SUMMARY.open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(REPLICATIONS) + 1
    hold(lines)
