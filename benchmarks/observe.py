"""CPU seconds and effective draws a second of ``observe`` beside the same model written by hand, in fresh processes.

Both models have p = softmax(z), z ~ Normal(0, 1), a GRR survey of 5,000 users and nutpie with 4 × 1,000 draws. An unprinted
run of each comes first, so that both find PyTensor's cache of compiled kernels filled: who comes first to an empty one pays
for both. Run with ``python benchmarks/observe.py``.
"""

import json
import subprocess
import sys
import time

CATEGORIES, USERS, EPSILON, REPEATS = 8, 5000, 1.0, 3


def measure(way):
    """Return CPU seconds of compilation and of sampling, and the least effective draws of an entry of p."""
    import numpy as np
    import nutpie
    import pymc as pm
    import pytensor.tensor as pt
    from arviz_stats.base import array_stats

    from ldpbayes import GRR, Collection, Tally
    from ldpbayes.pymc import observe

    protocol, rng = GRR(CATEGORIES, EPSILON), np.random.default_rng(0)
    shares = 0.7 ** np.arange(CATEGORIES)
    reports, counts = protocol.simulate(rng.multinomial(USERS, shares / shares.sum()), rng)
    with pm.Model() as model:
        p = pm.Deterministic("p", pm.math.softmax(pm.Normal("z", shape=CATEGORIES)))
        if way == "observe":
            observe("y", p, Collection([str(x) for x in range(CATEGORIES)], [Tally(protocol, reports, counts)]))
        else:
            channel = np.ones((CATEGORIES, CATEGORIES)) + np.expm1(EPSILON) * np.eye(CATEGORIES)
            listed = np.bincount(reports, counts, CATEGORIES).astype(int)
            pm.Multinomial("y", USERS, pt.dot(channel / channel.sum(axis=0), p), observed=listed)
    start = time.process_time()
    compiled = nutpie.compile_pymc_model(model)
    middle = time.process_time()
    trace = nutpie.sample(compiled, draws=1000, tune=1000, chains=4, cores=1, seed=1, progress_bar=False)
    end = time.process_time()
    draws = trace.posterior["p"].values
    effective = min(float(array_stats.ess(draws[..., x], chain_axis=0, draw_axis=1)) for x in range(CATEGORIES))
    return {"compile": middle - start, "sample": end - middle, "effective": effective}


def main():
    """Print a line for every run, the two ways in turn, and the ratios of their totals."""
    rates = {"hand": [], "observe": []}
    for repeat in range(REPEATS + 1):
        for way, of in rates.items():
            command = [sys.executable, "-W", "ignore", __file__, way]
            out = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
            if repeat:
                of.append([out["effective"] / (out["compile"] + out["sample"]), out["effective"] / out["sample"]])
                print(
                    f"{way:8} compile {out['compile']:5.1f} s, sample {out['sample']:5.2f} s, effective draws "
                    f"{out['effective']:5.0f}"
                )
    for i, name in enumerate(["compilation included", "sampling alone"]):
        ours, theirs = (sorted(line[i] for line in rates[way])[REPEATS // 2] for way in ("observe", "hand"))
        print(f"Effective draws a second, observe / by hand, {name}: {ours / theirs:.2f} (medians of {REPEATS})")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
