"""CPU seconds of structured inference on one thread, compilation apart: priors that learn, and cells under one prior."""

import contextlib
import signal
import time
import warnings

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from ldpbayes.collections import Cells, Collection, Tally
from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.fitting import fit
from ldpbayes.methods.base import Watch
from ldpbayes.methods.hmc import HMC
from ldpbayes.methods.problem import Joint, Problem
from ldpbayes.priors import Hierarchical
from ldpbayes.protocols.designs import forced_response
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.regression import regress
from ldpbayes.result.facts import facts_of


def survey(protocol, n, seed=1):
    """Return n simulated users with a Zipf distribution."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, protocol.n_categories + 1)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, weights / weights.sum()), rng))
    collection = Collection([str(x) for x in range(protocol.n_categories)], [tally])
    _ = collection.rows
    return collection


def learnt():
    """Yield (case, CPU seconds, what it is to stay below) of the moments under the learnt prior."""
    fit(survey(UnaryEncoding.optimized(30, 1.0), 1000), "learnt", draws=0)  # compiles
    cases = [(GRR(1000, e), n, 0.5) for e in (1.0, 4.0) for n in (10**4, 10**5, 10**6)]
    cases += [(UnaryEncoding.optimized(1000, e), 10**5, 1.5) for e in (1.0, 4.0)]
    for protocol, n, limit in cases:
        collection = survey(protocol, n)
        start = time.process_time()
        case = f"learnt, moments, {protocol.name}, a = 1,000, n = {n:,}, epsilon {protocol.epsilon:g}"
        try:
            fit(collection, "learnt", draws=0)
        except InfeasibleError:  # the expansion may be off by more than a tenth of an sd: draws are asked for
            case += " (refused)"
        yield case, _since(start), limit


def groups():
    """Yield (case, CPU seconds, limit) of cells under a hierarchical prior: seconds for 2,000 effective draws, and a year.

    Counted are pilots, sampling, weights, errors, diagnostics and the draws of F, until the mean of the median share is as
    exact as 2,000 independent draws make it. Chains go on until they are trusted.
    """
    joined(cells(8, 385), Hierarchical(), written=0)  # compiles
    for n in (385, 4786):
        data = cells(50, n)
        start = time.process_time()
        sample = joined(data, Hierarchical())
        seconds = _since(start)
        effective = float(np.nanmedian(sample.known["distribution"]["ess_bulk"]))
        yield (
            f"hierarchical, 50 groups × 10 categories × {n:,} reports, 2,000 effective draws",
            2000 * seconds / effective,
            1.0,
        )
    data = cells(365, 300, walk=True)
    start = time.process_time()
    sample = joined(data, Hierarchical("days"))
    yield f"days, 365 × 10 categories × 300 reports, 4,000 draws{_trust(sample)}", _since(start), 60


def smooth():
    """Yield (case, CPU seconds, what it is to stay below) of the chains of a default fit under the smooth prior.

    Limits are those of 600 draws, a second, for as many draws as a default fit keeps.
    """
    method, rng = HMC(), np.random.default_rng(0)
    limit = method.draws * method.chains / 600

    def sample(collection):
        problem = Problem.of(collection, "smooth")
        return method.run(method.plan(problem), rng, Watch())

    sample(survey(GRR(10, 1.0), 1000))  # compiles
    cases = [(GRR(1000, e), n) for e in (1.0, 4.0) for n in (10**5, 10**6)]
    cases += [(UnaryEncoding.optimized(1000, 1.0), 10**4)]
    for protocol, n in cases:
        collection = survey(protocol, n)
        start = time.process_time()
        trust = _trust(sample(collection))
        case = f"smooth, chains, {protocol.name}, a = 1,000, n = {n:,}, epsilon {protocol.epsilon:g}{trust}"
        yield case, _since(start), limit


def cells(number, n, walk=False, seed=1):
    """Return simulated cells behind optimised unary encoding at ε = 1 with scale ½, or a walk with steps of 0.1."""
    rng, a = np.random.default_rng(seed), 10
    protocol, centre = UnaryEncoding.optimized(a, 1.0), rng.normal(size=a)
    effects = rng.normal(size=(number, a))
    effects = np.cumsum(0.1 * effects, axis=0) if walk else 0.5 * effects
    found = {}
    for c in range(number):
        p = np.exp(centre + effects[c])
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))
        found[c] = Collection([str(x) for x in range(a)], [tally])
    return Cells(found, by="day")


def joined(data, prior, **settings):
    """Return the Outcome of the joint engine that ``fit`` takes."""
    problem, engine = Joint(data, prior.on(data)), HMC(**settings)
    return engine.run(engine.plan(problem), np.random.default_rng(1), Watch())


def regressions():
    """Yield (case, CPU seconds of 4,000 draws, what it is to stay below) of regressions: reading, fit and result."""
    rng = np.random.default_rng(0)
    n, device = 2423, forced_response(2 / 3, (1, 1))
    x = rng.standard_normal((n, 9))
    yes = rng.random(n) < 1 / (1 + np.exp(1 - x @ rng.normal(0, 0.4, 9)))
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(9)]).assign(report=device.privatize(yes.astype(int), rng))
    yield _regression("binary logit, n = 2,423, 10 columns", frame, device, None, 10_000)
    n, a = 10**5, 10
    x = rng.integers(0, 2, (n, 7))
    p = np.exp(np.column_stack([np.ones(n), x]) @ rng.normal(0, 0.4, (8, a)))
    values = (rng.random((n, 1)) > (p / p.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    labels = [str(i) for i in range(a)]
    for protocol in (GRR(a, 2.0), UnaryEncoding.optimized(a, 2.0)):
        (reports,) = protocol.format_reports(protocol.privatize(values, rng), labels)
        frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(7)]).assign(report=reports)
        yield _regression(f"multinomial logit, {protocol.name}, n = 100,000, 72 coefficients", frame, protocol, labels, 1500)


def _regression(case, frame, protocol, labels, rate):
    """Return (case with its effective draws, CPU seconds, seconds that these may take at a rate)."""
    formula = "answer ~ " + " + ".join(frame.columns[:-1])
    settings = {"report": "report", "categories": labels, "random_seed": 1}
    with warnings.catch_warnings(), contextlib.suppress(ConvergenceError):
        warnings.simplefilter("ignore")
        regress(frame.iloc[:500], formula, protocol, method="weighted", draws=20, **settings)  # imports
    start = time.process_time()
    found = regress(frame, formula, protocol, **settings)
    seconds, facts = _since(start), facts_of(found)
    if (effective := facts.get("effective_draws")) is None:  # chains: of the coefficient that they know least
        draws = found["posterior"]["coefficients"].stack(unknown=("category", "term")).transpose("unknown", "chain", "draw")
        effective = float(np.nanmin(array_stats.ess(draws.values)))
    return f"{case}: {effective:,.0f} effective draws, {effective / seconds:,.0f} a second", seconds, effective / rate


def tables():
    """Yield (case, CPU seconds, what it is to stay below) of 2,000 draws of joint tables under the log-linear prior."""
    from ldpbayes.methods.base import Problem, Watch
    from ldpbayes.methods.weighted import Weighted
    from ldpbayes.priors import LogLinear
    from ldpbayes.protocols import Attributes

    for sizes, n, limit in (((8, 5), 10**4, 5.0), ((2,) * 12, 10**5, 60.0)):
        rng = np.random.default_rng(1)
        truth = LogLinear(sizes, order=2, scale=0.25).sample(1, rng)[0]
        protocol = Attributes(tuple(GRR(size, 2.0) for size in sizes))
        tally = Tally(protocol, protocol.privatize(rng.choice(truth.size, n, p=truth), rng))
        collection, method = Collection([str(x) for x in range(truth.size)], [tally]), Weighted(draws=500)
        start = time.process_time()
        problem = Problem.of(collection, LogLinear(sizes))
        method.run(method.prepare(problem), rng, Watch())
        yield f"joint table of {truth.size:,} cells, {len(sizes)} attributes, n = {n:,}", _since(start), limit


def _trust(sample):
    """Return what a case says of an Outcome that is not trusted: the fit goes to the next method."""
    return "" if sample.verdict.accepted else f" (not trusted: {sample.verdict.problem})"


def _since(start):
    return time.process_time() - start


#: What is timed: functions that yield (case, seconds, limit).
PARTS = (learnt, smooth, groups, regressions, tables)

#: CPU seconds after which a part is stopped. Only the last cases of groups and tables come near.
MOST = 1200


def main():
    """Print each case as it ends, then the table."""
    table = Table("case", "CPU seconds", "limit", title="Structured inference")
    signal.signal(signal.SIGPROF, _stop)
    with threadpool_limits(1):
        for part in PARTS:
            signal.setitimer(signal.ITIMER_PROF, MOST)
            try:
                for case, seconds, limit in part():
                    print(f"{case}: {seconds:.2f} s", flush=True)
                    table.add_row(case, f"{seconds:.2f}", f"{limit:g}")
            except TimeoutError as err:
                print(f"{part.__name__}: {err}", flush=True)
                table.add_row(f"{part.__name__}: {err}", f"> {MOST}", "")
    signal.setitimer(signal.ITIMER_PROF, 0)
    Console().print(table)


def _stop(*_):
    raise TimeoutError(f"its next case was stopped when the part had taken {MOST:,} s")


if __name__ == "__main__":
    main()
