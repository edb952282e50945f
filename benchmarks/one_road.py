"""CPU seconds of one thread that users wait for, beside what each is asked to stay below.

``python benchmarks/one_road.py [part …]`` prints one line a number; parts are undrawn, drawn, whole, frequencies,
regressions, devices, population, hierarchical and strong, by default all. Each is measured after the same call, so that
neither imports nor compilation count. More cells with draws are in cells.py, small settings of every protocol in
small_settings.py, maximum likelihood in mle.py.
"""

import sys
import time
import warnings

import numpy as np
import pandas as pd

import ldpbayes as lb
from ldpbayes.methods.completion import Completion
from ldpbayes.methods.problem import Problem
from ldpbayes.priors import as_prior
from ldpbayes.protocols import Channel, crosswise, direct
from ldpbayes.result.facts import facts_of
from ldpbayes.road.methods import METHODS


def timed(call, *arguments, **settings):
    """Return (result, CPU seconds)."""
    start = time.process_time()
    found = call(*arguments, **settings)
    return found, time.process_time() - start


def collected(protocol, n, seed=1, concentration=1.0):
    """Return the collection of n users whose distribution is drawn from a symmetric Dirichlet law."""
    rng, a = np.random.default_rng(seed), protocol.n_categories
    truth = rng.multinomial(n, rng.dirichlet(np.full(a, concentration)))
    return lb.Collection([f"x{x}" for x in range(a)], [lb.Tally(protocol, *protocol.simulate(truth, rng))])


def cells(number, protocol, n, concentration=1.0):
    """Return so many cells of n users each."""
    return lb.Cells({f"c{i:04d}": collected(protocol, n, i, concentration) for i in range(number)}, by="cell")


def undrawn():
    """Yield milliseconds a cell of 1,000 cells without draws."""
    rng = np.random.default_rng(1)
    for a in (3, 4, 6, 10, 12):
        n, epsilon = int(rng.integers(100, 1001)), float(rng.uniform(0.3, 1.0))
        protocol = lb.GRR(a, epsilon=epsilon)
        lb.fit(cells(3, protocol, n), "jeffreys", draws=0)
        tree, seconds = timed(lb.fit, cells(1000, protocol, n), "jeffreys", draws=0)  # seconds of a thousand are ms of one
        rough = facts_of(tree).get("rough_cells", 0)
        yield (
            f"1,000 cells without draws, GRR a = {a}, n = {n}, ε = {epsilon:.2f} ({rough} of second order), ms",
            seconds,
            6.0,
        )


def drawn():
    """Yield default fits of cells: GRR in one computation, and optimised unary encoding as a multiple of it."""
    protocol, oue = lb.GRR(10, epsilon=1.0), lb.make_protocol("oue", [f"x{x}" for x in range(10)], {"epsilon": 1.0})
    for one in (protocol, oue):
        lb.fit(cells(3, one, 300), random_seed=1)
    _, few = timed(lb.fit, cells(20, protocol, 300), random_seed=1)
    yield "20 cells of GRR, a = 10, n = 300", few, 1.0
    _, seconds = timed(lb.fit, cells(20, oue, 300), random_seed=1)
    yield "20 cells of OUE, a = 10, n = 300, multiples of those of GRR", seconds / few, 5.0
    _, seconds = timed(lb.fit, cells(1000, protocol, 300), random_seed=1)
    yield "1,000 cells of GRR, a = 10, n = 300", seconds, 20.0


def posterior(method, problem):
    """Return the Posterior of a method, with draws, moments and ends."""
    answer = method.answer(problem, method.plan(problem), random_seed=1, ci_prob=0.95)
    return Completion(method.chains, method.draws, 0.95).of_collection(problem, answer.outcome, answer.rng, answer.watch)


def whole():
    """Yield a default fit as a multiple of its engine."""
    protocol = lb.GRR(10, epsilon=1.0)
    lb.fit(collected(protocol, 300), random_seed=1)
    method, ratios = METHODS["exact"](), []
    for seed in range(2, 12):
        data = collected(protocol, 300, seed)
        _, all_of_it = timed(lb.fit, data, random_seed=1)
        problem = Problem.of(collected(protocol, 300, seed), as_prior("jeffreys", 10))
        _, engine = timed(posterior, method, problem)
        ratios.append(all_of_it / engine)
    yield "a default fit of GRR a = 10, n = 300, multiples of its engine", float(np.median(ratios)), 3.0


def frequencies():
    """Yield the draws of P and F as a multiple of those of P."""
    from ldpbayes.methods.frequency import frequency_draws
    from ldpbayes.methods.products import Products

    data = collected(lb.GRR(1024, epsilon=4.0), 10**6)
    form, alpha = data.rows.separable(), np.full(1024, 0.5)
    engine = Products.of([form], 1024).engine(alpha, route="polynomial")
    engine.draws(10, np.random.default_rng(0))
    (p, signal, _), first = timed(engine.draws, 10_000, np.random.default_rng(1))
    frequency_draws(data.rows, p[:10], np.random.default_rng(0), signal=signal[:10])
    _, second = timed(frequency_draws, data.rows, p, np.random.default_rng(2), signal=signal)
    yield "10,000 draws of P and F, a = 1,024, n = 1e6, multiples of those of P", (first + second) / first, 2.0


def regressions():
    """Yield regressions on two continuous columns."""
    for n, limit in ((2000, np.nan), (10**5, 5.0), (10**6, 40.0)):
        rng = np.random.default_rng(1)
        x, y = rng.standard_normal((2, n))
        truth = (rng.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * x + 0.4 * y))).astype(int)
        protocol = lb.GRR(2, epsilon=1.0)
        frame = pd.DataFrame({"x": x, "y": y, "report": protocol.privatize(truth, rng)})
        _, seconds = timed(lb.regress, frame, "a ~ x + y", protocol, report="report", random_seed=1)
        if np.isfinite(limit):
            yield f"regression on two continuous columns, n = {n:,}", seconds, limit


def devices():
    """Yield a private predictor of 1,000 people, and regressions behind a device with two unknown probabilities."""
    rng, n = np.random.default_rng(1), 1000
    x, g = rng.integers(20, 80, n), rng.choice(list("abcdef"), n)
    carrier = rng.random(n) < 1 / (1 + np.exp(1 - 0.03 * (x - 50)))
    frame = pd.DataFrame({"x": x, "g": g, "y": rng.normal(carrier + 0.01 * x)})
    tried = Channel(validated=[[106, 12], [14, 68]])
    frame["report"] = tried.known().privatize(carrier.astype(int), rng)
    for formula, device, limit in (
        ("y ~ x + private(z)", tried.known(), 5.0),
        ("y ~ x + private(z)", tried, np.inf),
        ("z ~ x", tried, np.inf),
        ("z ~ mo(x) + (1 | g)", tried, np.inf),
    ):
        settings = {"report": "report", "random_seed": 1} | ({"family": "normal"} if "private" in formula else {})
        lb.regress(frame.iloc[:100], formula, device, **settings, draws=10)  # imports and compiled functions
        found, seconds = timed(lb.regress, frame, formula, device, **settings)
        how = "known" if device.law is None else "uncertain"
        yield f"{formula}, {how} device, n = {n:,}, by {facts_of(found)['method']}", seconds, limit


def survey(seed):
    """Return (875 respondents of 24 regions and 14 ages, half of them asked directly; protocols; census).

    The census has every combination of region, age and sex, with equal numbers of people.
    """
    rng, n = np.random.default_rng(seed), 875
    regions = [f"r{k:02d}" for k in range(24)]
    region, age, sex = rng.choice(24, n, p=rng.dirichlet(np.full(24, 5.0))), rng.integers(0, 14, n), rng.integers(0, 2, n)
    eta = -0.6 + rng.normal(0, 0.5, 24)[region] + 0.8 * np.sin(age * 5 / 22) + 0.4 * sex
    truth = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    device, asked = crosswise(0.25), np.arange(n) % 2 == 0
    (sent,) = device.format_reports(device.privatize(truth, rng), ["no", "yes"])
    frame = pd.DataFrame({"region": np.array(regions)[region], "age": 20 + 5 * age, "sex": sex})
    frame["report"] = np.where(asked, np.array(["no", "yes"])[truth], np.array(sent))
    frame["mode"] = np.where(asked, "direct", "device")
    census = pd.MultiIndex.from_product([regions, range(20, 90, 5), [0, 1]], names=["region", "age", "sex"])
    return frame, {"device": device, "direct": direct()}, census.to_frame(index=False).assign(people=1)


#: Mean, sd and ends of the national share of yes in the survey of seed 0, by PyMC's NUTS with 4 × 20,000 draws.
REFERENCE = {"mean": 0.50588, "sd": 0.02191, "lower": 0.46277, "upper": 0.54887}


def population():
    """Yield a survey with regions and a walk over ages, 20 of them, and how far the national share is from a long run."""
    seconds, good, apart = [], 0, np.nan
    for seed in (-1, *range(20)):
        frame, protocols, census = survey(abs(seed))
        settings = {"design": "mode", "report": "report", "categories": ["no", "yes"], "random_seed": abs(seed)}
        tree, second = timed(lb.regress, frame, "a ~ sex + rw(age) + (1 | region)", protocols, **settings)
        if seed < 0:
            continue  # compilation
        seconds.append(second)
        good += tree.attrs["converged"]
        if seed == 0:
            answer = lb.poststratify(tree, census, count="people").sel(category="yes")
            apart = max(abs(float(answer[key]) - REFERENCE[key]) for key in ("mean", "lower", "upper")) / REFERENCE["sd"]
    yield f"regions and ages, 875 respondents, two modes: {good} of 20 converged; median", float(np.median(seconds)), 5.0
    yield "regions and ages, the slowest of 20", max(seconds), 5.0
    yield "regions and ages, national share and ends from a long run of NUTS, sd", apart, 0.1


def hierarchical():
    """Yield a hierarchical prior over weak cells with shares near zero, the slowest of twenty seeds."""
    data = cells(20, lb.GRR(10, epsilon=1.0), 300, 0.2)
    lb.fit(data, "hierarchical", random_seed=0)
    found = [timed(lb.fit, data, "hierarchical", random_seed=seed) for seed in range(20)]
    seconds = sorted(second for _, second in found)
    good = sum(tree.attrs["converged"] for tree, _ in found)
    methods = ", ".join(sorted({tree.attrs["method"] for tree, _ in found}))
    yield f"hierarchical, 20 × 10 weak cells: {good} of 20 converged, by {methods}; median", seconds[10], 5.0
    yield "hierarchical, 20 × 10 weak cells, the slowest of 20", seconds[-1], 5.0


def strong():
    """Yield the fit of strong reports whose likelihood is skewed."""
    protocol = lb.make_protocol("oue", [f"x{x}" for x in range(100)], {"epsilon": 8.0})
    data = collected(protocol, 10**4)
    lb.fit(collected(protocol, 500, 2), random_seed=1)
    tree, seconds = timed(lb.fit, data, random_seed=1)
    yield f"OUE a = 100, n = 1e4, ε = 8, by {tree.attrs['method']} under {tree.attrs['prior']}", seconds, 3.0


PARTS = {
    part.__name__: part
    for part in (undrawn, drawn, whole, frequencies, regressions, devices, population, hierarchical, strong)
}


def main(*names):
    """Print one line a number."""
    warnings.simplefilter("ignore")
    for name in names or PARTS:
        for what, number, limit in PARTS[name]():
            print(f"{what}: {number:.2f} (asked {limit:g}){'' if number <= limit else '  MISSED'}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
