"""Outputs of the public interface on fixed inputs, recorded with version 0.1.0 before the second storey was built.

The reports themselves are in reports.npz: clients draw other random numbers since then.

``python tests/net/record.py`` writes outputs.json; tests/test_net.py computes the same entries and compares. Record anew
only the entries whose numbers were wrong, and say in the commit which and why: ``python tests/net/record.py NAME …``.
"""

import functools
import json
import pathlib
import sys
import time
import warnings

import numpy as np

import ldpbayes as lb
from ldpbayes.result.facts import facts_of

HERE = pathlib.Path(__file__).parent
DATA = HERE.parents[1] / "data"
FILE = HERE / "outputs.json"
REPORTS = HERE / "reports.npz"
ENGINES = ("exact", "quadrature", "surrogate", "pair_slice")
KEYS = ("mean", "sd", "lower", "upper")


def fitted(collection, prior, method):
    """Return the numbers of one fit, or None where the method refuses or rejects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = lb.fit(collection, prior, method, draws=100, random_seed=7, ci_prob=0.9, estimates=False)
        except (lb.errors.InfeasibleError, lb.errors.ConvergenceError):
            return None
    summary = tree["summary"]
    out = {key: summary[key].values.ravel().tolist() for key in KEYS}
    out["mcse"] = summary["mcse"].values.ravel().tolist()
    for key in KEYS:
        if f"derived_{key}" in summary:
            out[f"derived_{key}"] = summary[f"derived_{key}"].values.tolist()
            out["derived_mcse"] = summary["derived_mcse"].values.tolist()
    out["method"], out["step"] = tree.attrs["method"], 1 / collection.n_reports
    out["log_evidence_error"] = float(facts_of(tree).get("log_evidence_error", 0.0))
    if "exact" in tree.children and "log_evidence" in tree["exact"]:
        out["log_evidence"] = float(tree["exact"]["log_evidence"])
    elif "log_evidence" in facts_of(tree):
        out["log_evidence"] = float(facts_of(tree)["log_evidence"])
    return out


def estimated(collection):
    """Return the MLE and, where there is one, the oracle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mle = lb.estimators.MLE()(collection)
        out = {"mle": mle.distribution.tolist(), "mle_log_likelihood": float(mle.log_likelihood)}
        try:
            out["oracle"] = np.asarray(lb.estimators.Oracle()(collection).distribution).tolist()
        except lb.LDPBayesError:
            pass
    return out


@functools.cache
def reports():
    """Return the reports that the clients of 0.1.0 made; later ones draw other random numbers."""
    with np.load(REPORTS) as held:
        return dict(held)


def simulated(name, protocol, parts=None):
    """Return the collection of that name: its reports, or those of several protocols side by side."""
    tallies = [
        lb.Tally(one, reports()[f"{name}/{i}/reports"], reports()[f"{name}/{i}/counts"], name=f"part{i}")
        for i, one in enumerate([protocol, *(parts or [])])
    ]
    return lb.Collection([f"c{x}" for x in range(protocol.n_categories)], tallies)


def random_collection(seed):
    """Return (collection, prior) number ``seed`` of the random ones."""
    rng = np.random.default_rng(1000 + seed)
    a = int(rng.choice([2, 3, 4, 5, 8, 12, 20, 40]))
    rng.choice([20, 100, 500, 3000])  # users
    labels = [f"c{x}" for x in range(a)]

    def protocol():
        epsilon = float(np.round(rng.uniform(0.5, 4), 2))
        name = str(rng.choice(["grr", "unary", "subset", "hadamard", "local_hashing", "cohort_rr", "channel"]))
        if name == "channel":
            matrix = rng.dirichlet(np.ones(a + 1), size=a).T * 0.6 + 0.4 / (a + 1)
            return lb.protocols.Channel(matrix)
        parameters = {"epsilon": epsilon}
        if name == "unary":
            parameters["variant"] = str(rng.choice(["symmetric", "optimised"]))
        if name == "cohort_rr":
            parameters |= {"buckets": 2, "cohorts": 16}
        return lb.make_protocol(name, labels, parameters)

    first = protocol()
    parts = [protocol()] if rng.random() < 0.2 else None
    kind = rng.integers(3)
    prior = "jeffreys" if kind == 0 else "flat" if kind == 1 else np.round(rng.uniform(0.3, 3, a), 2)
    return simulated(f"random/{seed}", first, parts), prior


def cases():
    """Yield (name, protocol) of the contract table."""
    sys.path.insert(0, str(HERE.parent / "support"))
    from cases import CASES

    for case in CASES[:18]:  # the table as version 0.1.0 had it
        for a in case.categories:
            yield f"case/{case.name}/{a}", case.build(a, 1.3)


def entries():
    """Yield (name, function that computes the entry)."""
    for path in sorted(DATA.glob("rr_*.toml")):

        def load(path=path):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return lb.read(path)

        yield f"data/{path.stem}/estimates", lambda load=load: estimated(load())
        for engine in ENGINES:
            yield f"data/{path.stem}/{engine}", lambda load=load, engine=engine: fitted(load(), "jeffreys", engine)
    for name, protocol in cases():
        yield name, lambda name=name, protocol=protocol: fitted(simulated(name, protocol), "flat", "auto")
        yield f"{name}/estimates", lambda name=name, protocol=protocol: estimated(simulated(name, protocol))
    for seed in range(100):
        yield f"random/{seed}", lambda seed=seed: fitted(*random_collection(seed), "auto")


def main(names):
    """Record every entry, or only those named."""
    old = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, compute in entries():
        if names and name not in names:
            continue
        start = time.perf_counter()
        old[name] = compute()
        took = time.perf_counter() - start
        if took > 1:
            print(f"{name}: {took:.1f} s", flush=True)
    clean = json.loads(json.dumps(old), parse_constant=lambda _: None)
    lines = (f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in clean.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(len(clean), "entries,", sum(entry is None for entry in clean.values()), "refused")


if __name__ == "__main__":
    main(sys.argv[1:])
