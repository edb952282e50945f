"""Collections in waves: the published adaptive scheme, and plans that follow the exact posterior, on the same settings.

The scheme (Aydın and Yıldırım 2024) chooses a subset anew for every report, from one draw of stochastic gradient Langevin
dynamics, and estimates by such draws. Here it is written out from its description, at the sizes of its own experiments.
"""

import math

import numpy as np

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.compiling import compiled
from ldpbayes.protocols import GRR, RestrictedResponse, SubsetSelection
from studies.base import grid
from studies.pooled import FullStudy

#: The settings of the paper: 500 reports a category, replications, draws a report, reports a gradient, ε₁/ε.
REPORTS, REPLICATIONS, MOVES, SAMPLED, SPLIT = 500, 50, 20, 50, 0.8
#: What a subset is chosen by: the share that it must hold, or the number of a utility.
HELD, FISHER, DISTANCE = range(3)
#: The published schemes by name: what the subset is chosen by, the share it must hold, and whether ε₂ keeps ε.
SCHEMES = {
    "non-adaptive": (HELD, 1.0, True),
    "semi-adaptive, 0.95": (HELD, 0.95, True),
    "semi-adaptive, 0.6": (HELD, 0.6, True),
    "adaptive, Fisher information": (FISHER, 0.0, True),
    "adaptive, distance": (DISTANCE, 0.0, True),
    "adaptive, Fisher information, as published code": (FISHER, 0.0, False),
}
#: Waves of a plan that follows the posterior, and the draws per chain of each fit.
WAVES, DRAWS = 4, 250
#: What is planned: the protocols that a wave may take.
PLANNED = {
    "waves, GRR then restricted": ("grr", ("restricted_response",)),
    "waves, planned": ("subset", ("subset", "restricted_response")),
}


def cells():
    """Return settings of the paper: ten categories, three levels, populations from three Dirichlet laws."""
    found = grid(n_categories=[10], population=["dirichlet 0.01", "dirichlet 0.1", "dirichlet 1"], epsilon=[0.5, 1.0, 5.0])
    fixed = {"figure": "waves", "part": "main", "protocol": "waves", "goal": REPLICATIONS, "block": 1}
    return [fixed | cell | {"n_reports": REPORTS * cell["n_categories"]} for cell in found]


def levels(a, epsilon, split, keeps):
    """Return (ε₁, ε₂ by size of the subset): the most that keeps ε, or as the code that came with the paper has it.

    That code takes min(ε, r) for ε₂, with the ratio r whose logarithm the bound is, and indexes it by the size of the subset
    where the bound is about that of its complement. Its reports exceed ε.
    """
    first, second = split * epsilon, np.zeros(a + 1)
    for k in range(1, a):
        if keeps:
            second[k] = RestrictedResponse(a, epsilon, range(k), split).levels[1]
        else:
            shrunk = k * math.exp(first - epsilon) - 1
            second[k] = min(epsilon, (k - 1) / shrunk) if k >= math.ceil(math.exp(epsilon - first)) else epsilon
    return first, second


def channels(a, first, second):
    """Return the channels with the first k categories as the subset, (a + 1, a, a); all of them where k is a."""
    out = np.zeros((a + 1, a, a))
    for k in range(1, a + 1):
        own = math.exp(first)
        hit, miss, c = own / (own + min(k, a - 1)), 1 / (own + min(k, a - 1)), a - k
        out[k] = miss
        out[k, range(k), range(k)] = hit
        if c:
            inner = math.exp(second[k])
            out[k, k:, :k] = miss / c
            out[k, k:, k:] = hit / (inner + c - 1)
            out[k, range(k, a), range(k, a)] = hit * inner / (inner + c - 1)
    return out


@compiled()
def best_size(q, theta, chosen_by, held):
    """Return the size of the subset: the least that holds a share of theta, in falling order, or that of most utility."""
    a = theta.size
    if chosen_by == 0:
        total, k = 0.0, 0
        while k < a and total < held:
            total += theta[k]
            k += 1
        return min(max(k, 1), a)
    best, found = -np.inf, 1
    for k in range(1, a + 1):
        mixed = q[k] @ theta
        if chosen_by == 1:
            slopes = q[k, :, : a - 1] - q[k, :, a - 1 :]
            fisher = slopes.T @ (slopes / mixed.reshape(-1, 1))
            value = -np.trace(np.linalg.inv(fisher + 1e-12 * np.eye(a - 1)))
        else:
            value = -np.abs(theta - mixed).sum()
        if value > best:
            best, found = value, k
    return found


@compiled()
def scheme(values, q, chosen_by, held, moves, sampled, rng):
    """Return (estimate, mean size of the subset) of the published scheme on true values that come one by one."""
    size, a = values.size, q.shape[1]
    step, phi = 0.5 / size, np.full(a, 1 / a)
    rows, gradient, sizes, estimate = np.empty((size, a)), np.empty(a), 0.0, np.zeros(a)
    for t in range(size):
        order = np.argsort(-phi)
        theta = phi[order] / phi.sum()
        k = best_size(q, theta, chosen_by, held)
        sizes += k
        place = np.empty(a, np.int64)
        place[order] = np.arange(a)
        u, y = rng.random(), 0
        column = q[k, :, place[values[t]]]
        total = column[0]
        while total < u and y < a - 1:
            y += 1
            total += column[y]
        for x in range(a):
            rows[t, x] = q[k, y, place[x]]
        last = moves * 100 if t == size - 1 else moves
        for move in range(last):
            whole, number = phi.sum(), min(t + 1, sampled)
            gradient[:] = -number
            for _ in range(number):
                j, chance = rng.integers(0, t + 1), 0.0
                for x in range(a):
                    chance += rows[j, x] * phi[x]
                for x in range(a):
                    gradient[x] += rows[j, x] * whole / chance
            for x in range(a):  # a flat prior: Gamma(1) of each φ
                slope = gradient[x] * (t + 1) / number / whole - 1
                phi[x] = abs(phi[x] + step / 2 * slope + rng.normal() * math.sqrt(step))
            if last > moves and move >= last // 2:
                estimate += phi / phi.sum() / (last - last // 2)
    return estimate, sizes / size


def replicate(cell, rng):
    """Return {(estimator, metric): value} for one population and its users.

    Metrics: "tv" is half the sum of absolute errors of the estimated distribution, "mse" the sum of squared ones, "size" the
    mean size of the subset, "level" the largest ε of a report.
    """
    a, epsilon, n = cell["n_categories"], cell["epsilon"], cell["n_reports"]
    weights = rng.gamma(float(cell["population"].split()[1]), size=a)
    p = weights / weights.sum()
    values = rng.choice(a, n, p=p)
    out = {}

    def note(name, estimate, **more):
        out.update({(name, "tv"): np.abs(estimate - p).sum() / 2, (name, "mse"): ((estimate - p) ** 2).sum()})
        out.update({(name, metric): value for metric, value in more.items()})

    for name, (chosen_by, held, keeps) in SCHEMES.items():
        first, second = (epsilon, np.zeros(a + 1)) if chosen_by == HELD else levels(a, epsilon, SPLIT, keeps)
        q = channels(a, first, second)
        estimate, size = scheme(values, q, chosen_by, held, MOVES, SAMPLED, rng)
        level = np.log((q[1:].max(axis=2) / q[1:].min(axis=2)).max())
        note(name, estimate, size=size, level=level)
    for name, protocol in (
        ("posterior, GRR", GRR(a, epsilon)),
        ("posterior, subset selection", SubsetSelection(a, epsilon)),
    ):
        note(name, mean_of(fitted([Tally(protocol, protocol.privatize(values, rng))], a, rng)))
    for name, (begin, options) in PLANNED.items():
        note(name, in_waves(values, a, epsilon, begin, options, rng))
    return out


def fitted(tallies, a, rng):
    """Return the result of some waves, under a flat prior."""
    labels = tuple(map(str, range(a)))
    return lb.fit(Collection(labels, tuple(tallies)), "flat", draws=DRAWS, random_seed=int(rng.integers(2**31)))


def in_waves(values, a, epsilon, begin, options, rng):
    """Return the posterior mean after WAVES equal waves, each through the protocol that the ones before advise."""
    labels, tallies = list(map(str, range(a))), []
    protocol = lb.make_protocol(begin, labels, {"epsilon": epsilon})
    for i, part in enumerate(np.array_split(values, WAVES)):
        tallies.append(Tally(protocol, protocol.privatize(part, rng), name=f"wave {i + 1}"))
        result = fitted(tallies, a, rng)
        if i < WAVES - 1:
            left = len(values) - sum(tally.n_reports for tally in tallies)
            protocol = lb.plan(after=result, n=left, epsilon=epsilon, protocols=options)[0].mechanism
    return mean_of(result)


def mean_of(result):
    """Return the posterior mean of P, (a,)."""
    return result["posterior"]["distribution"].mean(["chain", "draw"]).values


def losses(cell, rng):
    """Return the block of a cell: {(estimator, target, metric): (block,) array}."""
    found = [replicate(cell, own) for own in rng.spawn(cell["block"])]
    return {(name, "distribution", metric): np.array([one[name, metric] for one in found]) for name, metric in found[0]}


STUDY = FullStudy(
    "waves",
    "Randomized response that is restricted to a subset, wave by wave and report by report, against one protocol for all",
    "Aydın and Yıldırım (2024), on the settings of their experiments",
    cells,
    losses,
)
