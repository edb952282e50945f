"""The papers' figures and tables at their own sizes: cells, and what is simulated in each."""

import functools
import math

import numpy as np

from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.methods.frequency import frequency_moments
from ldpbayes.priors import as_prior
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.simulation import population
from studies import common, evaluate, fakes, vectorized, waves
from studies.base import grid
from studies.hashed import Hashed
from studies.pooled import BASE, FullStudy

#: Concentrations of the priors that populations are drawn from.
ALPHAS = {"jeffreys": 0.5, "flat": 1.0}
#: The learnt prior enters from so many categories on, as in fits by default.
LEAST_LEARNT = 20
#: Tables of GRR are shared by every replication with at least this Σα.
SMALL = 6.0


# ---- populations ---------------------------------------------------------------------------------------------------------
def people(name):
    """Return the counts of a census, whose smaller categories are merged where the name ends in a number, shape (a,)."""
    base, _, kept = name.rpartition("_")
    if not kept.isdigit():
        return common.census(name).counts
    ordered = np.sort(common.census(base).counts)[::-1]
    return np.append(ordered[: int(kept) - 1], ordered[int(kept) - 1 :].sum())


def truths(cell, size, rng):
    """Return (distributions or None, true counts), two (size, a) arrays, of so many replications."""
    name, a, n = cell["population"], cell["n_categories"], cell["n_reports"]
    if name in ALPHAS:
        p = np.maximum(rng.dirichlet(np.full(a, ALPHAS[name]), size), 1e-300)
    elif name == "uniforms":
        p = rng.random((size, a))
    elif name == "geometric":
        p = np.repeat(population(name, a).distribution[None], size, axis=0)
    else:
        return None, np.repeat(people(name)[None], size, axis=0)
    p /= p.sum(axis=1, keepdims=True)
    return p, rng.multinomial(n, p)


def _prior_alpha(cell):
    return ALPHAS.get(cell["population"], ALPHAS["jeffreys"])


# ---- estimators of many replications -----------------------------------------------------------------------------------
def frequencies(cell, rng, *, targets, projection):
    """Return the losses of one block of a cell.

    The part "main" simulates tallies (of GRR, or of the bits of unary encoding) of all replications at once. The others
    make the reports themselves: "posterior" has the posterior mean and maximum likelihood, "learnt" the learnt prior too.

    Parameters
    ----------
    cell : dict
    rng : numpy.random.Generator
    targets : tuple of str
        "distribution", "frequency".
    projection : str
        What the paper calls the projection: "norm_sub" or "projected".
    """
    if cell["part"] == "exact":
        return floors(cell)
    size = cell["block"]
    p, true_counts = truths(cell, size, rng)
    aims = {"distribution": p, "frequency": true_counts / true_counts.sum(axis=1, keepdims=True)}
    aims = {target: aims[target] for target in targets if aims[target] is not None}
    if cell["protocol"] == "grr":
        found, spread = _of_grr(cell, true_counts, rng, projection)
    elif cell["part"] == "main" and not cell["protocol"].startswith("subset"):
        found, spread = _of_bits(cell, true_counts, rng), {}
        found |= _processed(found["oracle", None], projection)
    else:
        found, spread = _of_reports(cell, true_counts, rng, projection)
    out = vectorized.losses_of(found, aims)
    for name, variance in spread.items():
        if "distribution" in aims:
            out[name, "distribution", "variance"] = variance.sum(axis=1)
    return out


def floors(cell):
    """Return the lines with the floors under the mean squared error that a cell has: nothing is simulated but P.

    "bound" and "bound_any" are the large-n floors of Corollary 4.3 and Theorem 4.5 of Lopuhaä-Zwakenberg et al. (2020),
    "bound_finite" that of Theorem 4.1 at this n, "floor" the least worst case of any protocol: theory.bounds.exact_bound.
    """
    from ldpbayes.theory import bounds

    protocol, n, a = evaluate.protocol_of(cell), cell["n_reports"], cell["n_categories"]
    prior = as_prior(cell["population"], a)
    lines = []
    for target in ("distribution", "frequency"):
        found = {
            "bound": bounds.corollary_4_3(protocol, prior, target, draws=400 if a <= 64 else 2),
            "bound_any": bounds.theorem_4_5(a, cell["epsilon"], target),
            "floor": bounds.exact_bound(a, cell["epsilon"], target),
        }
        found = {name: (value.value / n, value.standard_error / n) for name, value in found.items()}
        if target == "distribution" and cell["protocol"] == "grr":
            value = bounds.theorem_4_1(protocol, prior, n, draws=4)
            found["bound_finite"] = value.value, value.standard_error
        for name, (value, error) in found.items():
            lines.append({"target": target, "metric": name, "value": value, "standard_error": error, "replications": 1})
    return lines


def _processed(oracle, projection):
    return {(projection, None): vectorized.project(oracle), ("normalized", None): vectorized.normalize(oracle)}


def _of_grr(cell, true_counts, rng, projection):
    epsilon, n = cell["epsilon"], cell["n_reports"]
    tallies = vectorized.grr_tallies(true_counts, epsilon, rng)
    oracle = vectorized.grr_oracle(tallies, epsilon)
    found = {("oracle", None): oracle, ("mle", None): vectorized.grr_mle(tallies, epsilon)}
    found |= _processed(oracle, projection)
    alpha, a, spread = _prior_alpha(cell), cell["n_categories"], {}
    if cell["part"] == "main" and a > 2 and a * alpha < SMALL:
        return found, spread
    mean, variance, _ = vectorized.grr_posterior(tallies, epsilon, alpha)
    found |= {(BASE, "distribution"): mean, (BASE, "frequency"): ((a * alpha + n) * mean - alpha) / n}
    spread[BASE] = variance
    if cell["part"] == "learnt":
        mean, variance, alphas = vectorized.grr_learnt(tallies, epsilon)
        found |= {("learnt", "distribution"): mean, ("learnt", "frequency"): alphas}
        spread["learnt"] = variance
    return found, spread


def _of_bits(cell, true_counts, rng):
    protocol = evaluate.protocol_of(cell)
    counts = vectorized.unary_counts(true_counts, protocol.kappa, protocol.lam, rng)
    return {("oracle", None): (counts / cell["n_reports"] - protocol.lam) / (protocol.kappa - protocol.lam)}


def _of_reports(cell, true_counts, rng, projection):
    """Return estimates from simulated reports of each replication."""
    protocol, alpha = evaluate.protocol_of(cell), _prior_alpha(cell)
    a, part, n = cell["n_categories"], cell["part"], cell["n_reports"]
    prior = as_prior("flat" if alpha == 1.0 else "jeffreys", a)
    estimates, spread = {}, {}
    for counts in true_counts:
        collection = Collection(evaluate.labels(a), Tally(protocol, *_reports(protocol, counts, rng)))
        one = {("oracle", None): Oracle()(collection).distribution}
        if part != "main":
            one["mle", None] = MLE(tolerance=1e-4)(collection).distribution
            mean, variance = _moments(collection, cell["epsilon"], prior, rng)
            one |= {(BASE, "distribution"): mean, (BASE, "frequency"): frequency_moments(mean, variance, prior.alpha, n)[0]}
            spread.setdefault(BASE, []).append(variance)
        if part == "learnt":
            mean, variance, frequency = common.learnt(collection, rng)
            one |= {("learnt", "distribution"): mean, ("learnt", "frequency"): frequency}
            spread.setdefault("learnt", []).append(variance)
        for key, value in one.items():
            estimates.setdefault(key, []).append(value)
    estimates = {key: np.stack(values) for key, values in estimates.items()}
    estimates |= _processed(estimates["oracle", None], projection)
    return estimates, {name: np.stack(values) for name, values in spread.items()}


def _reports(protocol, true_counts, rng):
    """Return (reports, counts); the counts of every possible report where these are few."""
    if protocol.n_outputs is not None and protocol.n_outputs <= 1024 < true_counts.sum():
        channel = _channel(protocol)
        counts = sum(rng.multinomial(t, channel[:, x]) for x, t in enumerate(true_counts))
        seen = counts > 0
        return protocol.all_reports()[seen], counts[seen]
    return protocol.simulate(true_counts, rng)


@functools.lru_cache(maxsize=4)
def _channel(protocol):
    channel = protocol.channel()
    return channel / channel.sum(axis=0)


def _moments(collection, epsilon, prior, rng):
    """Return (mean, variance) of P: exact for two categories, weighted by the likelihood for few, else by an expansion."""
    if collection.n_categories == 2:
        # A report names one of the two, or says nothing: what is left is that of GRR.
        first, second = collection.rows.dense().T
        tallies = [
            collection.rows.counts[named].sum() for named in (first > second * (1 + 1e-9), second > first * (1 + 1e-9))
        ]
        mean, variance, _ = vectorized.grr_posterior(np.array([tallies]), epsilon, prior.alpha[0])
        return mean[0], variance[0]
    if 2 < collection.n_categories <= 16:
        return evaluate.posterior_moments(collection, prior, rng)
    return common.expanded(collection, prior, rng)


# ---- Lopuhaä-Zwakenberg et al. (2020) ------------------------------------------------------------------------------------
EPSILONS = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]


def _risk():
    rest = {"population": ["jeffreys"], "epsilon": EPSILONS, "goal": [100]}
    exact = {"part": ["exact"], "population": ["jeffreys"], "epsilon": EPSILONS, "goal": [1], "block": [1]}
    return [
        *grid(figure=["2"], protocol=["grr"], n_categories=[1024], n_reports=[10_000, 1_000_000], **exact),
        *grid(figure=["3"], protocol=["oue"], n_categories=[10], n_reports=[100, 1_000_000], **exact),
        *grid(
            figure=["2"],
            part=["learnt"],
            protocol=["grr"],
            n_categories=[1024],
            n_reports=[10_000, 1_000_000],
            block=[50],
            **rest,
        ),
        *grid(
            figure=["3"],
            part=["learnt"],
            protocol=["oue"],
            n_categories=[10],
            n_reports=[100, 1_000_000],
            block=[10],
            **rest,
        ),
    ]


def _populations():
    common.require_populations()
    cells = []
    for figure, protocol, names, block in (
        ("4", "grr", ("flights_distance", "adult_age"), 50),
        ("5", "oue", ("flights_carrier_5", "adult_workclass"), 10),
    ):
        for name in names:
            counts = people(name)
            sizes = {"n_categories": [counts.size], "n_reports": [int(counts.sum())], "population": [name]}
            rest = {"epsilon": EPSILONS, "goal": [100], "block": [block]}
            cells += grid(figure=[figure], part=["learnt"], protocol=[protocol], **sizes, **rest)
    return cells


# ---- Kairouz, Bonawitz, Ramage (2016) ------------------------------------------------------------------------------------
ALPHABETS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
KAIROUZ_EPSILONS = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
#: Posterior means of k-RAPPOR's reports are computed for alphabets up to this size.
LARGEST_REPORTS = {100: 2048, 30_000: 256}


def _decoders():
    cells = []
    for a in ALPHABETS:
        for n in (100, 30_000):
            rest = {"n_categories": [a], "n_reports": [n], "population": ["geometric", "flat"], "epsilon": KAIROUZ_EPSILONS}
            rest |= {"figure": ["1, 2"]}
            cells += grid(part=["main"], protocol=["grr", "sue"], **rest, goal=[10_000], block=[500])
            for cell in grid(part=["posterior"], protocol=["grr"], **rest, goal=[200], block=[10]):
                if 2 < a and a * _prior_alpha(cell) < SMALL:
                    cells.append(cell | {"guess": 0.3})
            if a >= LEAST_LEARNT:
                cells += grid(part=["learnt"], protocol=["grr"], **rest, goal=[200], block=[10], guess=[0.3])
            if a <= LARGEST_REPORTS[n]:
                guess = 0.2 + a * n / 4e6
                cells += grid(part=["posterior"], protocol=["sue"], **rest, goal=[100], block=[2], guess=[guess])
    return cells


BUCKETS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
COHORTS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
HASHED_EPSILONS = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0]
#: Candidates of the open and closed alphabets.
CANDIDATES = 256
#: Numbers of reports of the figure of the ε that a loss needs.
REPORTS = [1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8]


def _cohorts():
    rest = {"n_categories": [CANDIDATES], "population": ["geometric"], "goal": [50], "block": [50]}
    one = {"figure": ["3"], "part": ["least squares"], "n_reports": [1_000_000], "buckets": BUCKETS}
    cells = grid(
        protocol=["orr_open", "orr_closed", "orappor_open", "orappor_closed"], cohorts=COHORTS, hashes=[1], **one, **rest
    )
    cells += grid(protocol=["orappor_open", "orappor_closed"], cohorts=[2, 16], hashes=[2, 4, 8, 16], **one, **rest)
    cells += grid(
        figure=["9"], part=["least squares"], protocol=["orr_open"], buckets=BUCKETS, cohorts=[32, 1024], hashes=[1], **rest
    )
    cells += grid(
        figure=["9"], part=["least squares"], protocol=["orappor_open"], buckets=[4096], cohorts=[8], hashes=[1], **rest
    )
    best = {"figure": ["3"], "part": ["posterior"], "n_reports": [1_000_000], "n_categories": [CANDIDATES], "hashes": [1]}
    for epsilon in (1.0, 2.0, 4.0, 6.0):
        k = 2 ** max(1, round(math.log2(math.exp(epsilon) + 1)))
        cells += grid(
            protocol=["orr_open", "orr_closed", "subset"],
            population=["geometric"],
            buckets=[min(k, CANDIDATES)],
            cohorts=[min(1024, 65536 // min(k, CANDIDATES))],
            epsilon=[epsilon],
            goal=[10],
            block=[1],
            guess=[5.0],
            **best,
        )
    return cells


def hashed_losses(cell, rng):
    """Return what a cell of the study of cohorts finds: medians and ends of 90 % of the losses of the projected decoder.

    The least-squares estimate is normal about its mean at these numbers of reports, and its covariance is known. So it is
    drawn directly, for every ε and n of a hashing.
    """
    if cell["part"] == "posterior":
        return _hashed_reports(cell, rng)
    p = population("geometric", cell["n_categories"]).distribution
    rappor = cell["protocol"].startswith("orappor")
    hashed = Hashed.drawn(
        p, cell["buckets"], cell["cohorts"], rng, hashes=cell["hashes"], closed=cell["protocol"].endswith("closed")
    )
    out = []
    for epsilon in HASHED_EPSILONS:
        law = hashed.rappor(epsilon, cell["hashes"]) if rappor else hashed.randomized_response(epsilon)
        for n in [cell["n_reports"]] if "n_reports" in cell else REPORTS:
            loss = np.abs(law.draws(n, cell["block"], rng) - p).sum(axis=1)
            low, median, high = np.quantile(loss, [0.05, 0.5, 0.95])
            line = {"estimator": "projected", "target": "distribution", "metric": "l1_median", "replications": cell["block"]}
            # The error of a median from its own spread: 1.25 times that of the mean for a normal law.
            error = 1.2533 * loss.std(ddof=1) / math.sqrt(loss.size)
            place = {"epsilon": epsilon, "n_reports": int(n), "value": float(median), "standard_error": float(error)}
            out.append(line | place | {"low": float(low), "high": float(high)})
    return out


def _hashed_reports(cell, rng):
    """Return the losses of one simulated set of reports of O-RR, or of subset selection, with the posterior means."""
    names, settings = evaluate.labels(cell["n_categories"]), {"buckets": cell.get("buckets"), "cohorts": cell.get("cohorts")}
    if cell["protocol"] == "subset":
        protocol = evaluate.protocol_of(cell)
    else:
        known = {"assignment": "label", "candidates": names} if cell["protocol"] == "orr_open" else {}
        protocol = CohortRR(cell["n_categories"], cell["epsilon"], **settings, **known)
    p, true_counts = truths(cell, 1, rng)
    collection = Collection(names, Tally(protocol, *protocol.simulate(true_counts[0], rng)))
    oracle = (
        protocol.decoder().least_squares(collection.rows)
        if cell["protocol"] != "subset"
        else Oracle()(collection).distribution
    )
    mle = MLE(tolerance=1e-4)(collection).distribution
    mean = common.expanded(collection, as_prior("jeffreys", p.size), rng)[0]
    learnt = common.learnt(collection, rng)[0]
    found = {("projected", None): vectorized.project(oracle[None]), ("mle", None): mle[None], (BASE, None): mean[None]}
    found["learnt", None] = learnt[None]
    found["no_privacy", None] = true_counts / true_counts.sum()
    return vectorized.losses_of(found, {"distribution": p})


# ---- Wang et al. (2016) --------------------------------------------------------------------------------------------------
TABLE = {
    2: (0.1, 1.0),
    4: (0.01, 0.1, 0.5, 1.0),
    6: (0.01, 0.1, 0.5, 1.0),
    8: (0.01, 0.1, 0.5, 1.0, 2.0),
    16: (0.01, 0.1, 0.5, 1.0, 2.0, 3.0),
    32: (0.01, 0.1, 1.0, 1.5, 2.0, 3.0),
    64: (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
    128: (0.1, 1.0, 3.0, 5.0),
    256: (1.0, 3.0, 5.0),
}


def _subset():
    cells = []
    for a, epsilons in TABLE.items():
        rest = {"figure": ["Table 1"], "n_categories": [a], "epsilon": list(epsilons), "n_reports": [10_000], "goal": [100]}
        both = {"population": ["flat", "uniforms"]}
        counted = {"protocol": ["sue", "grr"], "block": [100]}
        simulated = {"protocol": ["subset_information", "subset"], "block": [20]}
        for how in (counted, simulated):
            cells += grid(part=["main"], **both, **how, **rest)
        protocols = ["sue", "subset"] + (["grr"] if a * ALPHAS["flat"] < SMALL and a > 2 else [])
        part = "learnt" if a >= LEAST_LEARNT else "posterior"
        guess = 0.3 if part == "posterior" else 0.5
        cells += grid(
            part=[part],
            population=["flat"],
            protocol=protocols,
            block=[4 if part == "posterior" else 2],
            guess=[guess],
            **rest,
        )
        if a >= LEAST_LEARNT:
            cells += grid(part=["learnt"], population=["flat"], protocol=["grr"], block=[20], guess=[0.5], **rest)
    return cells


# ---- Lopuhaä-Zwakenberg et al. (2019) ------------------------------------------------------------------------------------
UNARY = ["grr", "sue", "oue", "dual"]


def _privacy():
    sizes = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20]
    return grid(figure=["2"], part=["exact"], protocol=UNARY, n_categories=sizes, epsilon=[2.0], goal=[1], block=[1])


def _tradeoff():
    epsilons = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
    return grid(figure=["3"], part=["exact"], protocol=UNARY, n_categories=[3], epsilon=epsilons, goal=[1], block=[1])


def metric_values(cell, rng):
    """Return the lines of a cell of the study of metrics: no reports are simulated."""
    from ldpbayes.protocols.unary import UnaryEncoding
    from ldpbayes.theory import metrics

    a, epsilon, prior = cell["n_categories"], cell["epsilon"], as_prior("jeffreys", cell["n_categories"])
    protocol = UnaryEncoding.dual(a, epsilon) if cell["protocol"] == "dual" else evaluate.protocol_of(cell)
    found = {
        "worst_case_privacy": metrics.worst_case_privacy(protocol),
        "average_privacy": metrics.average_privacy(protocol, prior),
    }
    if a <= 16:
        found["participation_factor"] = metrics.participation_factor(protocol, prior, draws=2000)
    if cell["figure"] == "3":
        # Theorem 8.1: no protocol with this worst-case privacy has more.
        utility = metrics.frontier(math.exp(-epsilon)).value
        factor = math.exp(2 * utility - 2 * metrics.direct_answers_utility(prior).value)
        found["participation_limit"] = metrics.Value(factor)
    return [
        {
            "estimator": None,
            "target": None,
            "metric": name,
            "value": v.value,
            "standard_error": v.standard_error,
            "replications": 1,
        }
        for name, v in found.items()
    ]


LOPUHAA_2020, LOPUHAA_2019 = "Lopuhaä-Zwakenberg et al. (2020)", "Lopuhaä-Zwakenberg et al. (2019)"
KAIROUZ, WANG = "Kairouz, Bonawitz, Ramage (2016)", "Wang et al. (2016)"
BOTH = ("distribution", "frequency")
#: Every study at its paper's size, by its name.
FULL = {
    study.name: study
    for study in (
        FullStudy(
            "risk",
            "Mean squared error of the posterior mean, the MLE, Norm-Sub and the oracle",
            f"{LOPUHAA_2020}, Fig. 2 and 3",
            _risk,
            functools.partial(frequencies, targets=BOTH, projection="norm_sub"),
        ),
        FullStudy(
            "populations",
            "The same estimators on real populations",
            f"{LOPUHAA_2020}, Fig. 4 and 5",
            _populations,
            functools.partial(frequencies, targets=("frequency",), projection="norm_sub"),
        ),
        FullStudy(
            "decoders",
            "Decoders of k-RR and k-RAPPOR",
            f"{KAIROUZ}, Fig. 1, 2, 5 and 6",
            _decoders,
            functools.partial(frequencies, targets=("frequency",), projection="projected"),
        ),
        FullStudy(
            "cohorts", "O-RR and O-RAPPOR on open and closed alphabets", f"{KAIROUZ}, Fig. 3 and 9", _cohorts, hashed_losses
        ),
        FullStudy(
            "subset",
            "Subset selection against binary and multivariate randomized response",
            f"{WANG}, Table 1",
            _subset,
            functools.partial(frequencies, targets=BOTH, projection="projected"),
        ),
        FullStudy(
            "privacy",
            "Average and worst-case privacy over the number of categories",
            f"{LOPUHAA_2019}, Fig. 2",
            _privacy,
            metric_values,
        ),
        FullStudy(
            "tradeoff",
            "Privacy and participation factor over epsilon",
            f"{LOPUHAA_2019}, Fig. 3",
            _tradeoff,
            metric_values,
        ),
        fakes.STUDY,
        waves.STUDY,
    )
}
