"""Files of versions 0.1.0 and 0.2.0 that every later version must read, and the numbers that are in them.

``python tests/legacy/record.py FOLDER`` writes them with the ldpbayes that PYTHONPATH names (0.1.0 is the commit 8c47f73):
compressed files and their lines of manifest.json, taken from what was in memory and not from what was read back.
"""

import gzip
import json
import pathlib
import shutil
import sys
import tempfile
import warnings

import numpy as np

import ldpbayes as lb
from ldpbayes.protocols import designs, kronecker
from ldpbayes.result.facts import facts_of

HERE = pathlib.Path(__file__).parent
LABELS = ["a", "b", "c", "d"]
DRAWN = {"draws": 8, "chains": 2, "random_seed": 7}


def numbers_of(tree):
    """Return what a result must still say: names, and the summary of P."""
    summary = tree["summary"].to_dataset()
    at = {"target": "distribution"} if "target" in summary.dims else {}
    out = {name: np.ravel(summary[name].sel(at)).tolist() for name in ("mean", "sd", "lower", "upper")}
    out["category"] = [str(label) for label in tree["summary"]["category"].values]
    out |= {name: str(facts_of(tree)[name]) for name in ("method", "prior", "n_reports")}
    if "distribution" in tree["posterior"]:
        out["last_draw"] = np.ravel(tree["posterior"]["distribution"].values[-1, -1]).tolist()
    return out


def counted(collection):
    """Return what a collection must still say: labels, protocols, counts, and the fit of maximum likelihood."""
    estimate = lb.estimators.MLE()(collection)
    return {
        "categories": list(collection.categories),
        "channels": [[tally.name, type(tally.protocol).__name__] for tally in collection.tallies],
        "counts": [sorted(np.asarray(tally.counts, dtype=int).tolist()) for tally in collection.tallies],
        "derived": [quantity.name for quantity in collection.derived],
        "log_likelihood": float(estimate.log_likelihood),
    }


def simulated(protocol, n=300, labels=LABELS, **fields):
    """Return reports of n users under a geometric distribution, the same in every version but for how they are drawn."""
    rng = np.random.default_rng(5)
    p = 0.6 ** np.arange(len(labels))
    truth = rng.multinomial(n, p / p.sum())
    return lb.Collection(labels, (lb.Tally(protocol, *protocol.simulate(truth, rng)),), **fields)


def collections():
    """Yield (name, collection) that both versions can make."""
    make = lb.make_protocol
    yield "grr", simulated(make("grr", LABELS, {"epsilon": 1.0}), title="Four answers", question="Which?", notes="None.")
    yield "unary", simulated(make("unary", LABELS, {"epsilon": 1.0, "variant": "optimised"}))
    yield "subset", simulated(make("subset", LABELS, {"epsilon": 1.0, "size": 2}))
    yield "hadamard", simulated(make("hadamard", LABELS, {"epsilon": 1.0}))
    yield "local_hashing", simulated(make("local_hashing", LABELS, {"epsilon": 1.0}), n=60)
    yield "cohort_rr", simulated(make("cohort_rr", LABELS, {"epsilon": 1.0, "buckets": 2, "cohorts": 4}))
    bloom = {"p": 0.25, "q": 0.75, "f": 0.5, "n_bits": 8, "cohorts": 2, "hashes": 2}
    yield "rappor", simulated(make("rappor", LABELS, bloom), n=60)
    both = kronecker([designs.warner(0.8), designs.warner(0.7)])
    sums = (lb.collections.Derived("first", ("yes/no", "yes/yes")), lb.collections.Derived("agree", ("no/no", "yes/yes")))
    yield "two_questions", simulated(both, labels=["no/no", "no/yes", "yes/no", "yes/yes"], derived=sums)
    forms = [lb.Tally(designs.warner(p), [0, 1], counts, str(p)) for p, counts in ((0.7, [60, 40]), (0.2, [45, 55]))]
    yield "two_forms", lb.Collection(["no", "yes"], tuple(forms))


def results_of_both():
    """Yield (name, result) of the methods that both versions have."""
    known = dict(collections())
    asked = {
        "exact": ("grr", "flat"),
        "quadrature": ("two_forms", "jeffreys"),
        "surrogate": ("unary", 2.0),
        "augmentation": ("hadamard", "jeffreys"),
        "pair_slice": ("subset", [1.0, 2.0, 1.0, 0.5]),
    }
    for method, (name, prior) in asked.items():
        yield method, lb.fit(known[name], prior, method, **DRAWN | ({"draws": 150} if method == "surrogate" else {}))
    yield "derived", lb.fit(known["two_questions"], "flat", **DRAWN)


def results_of_the_second():
    """Yield (name, result) that 0.1.0 did not know."""
    known = dict(collections())
    survey = lb.load_example("nigeria_cells")
    yield "moments", lb.fit(known["grr"], draws=0)
    yield "learnt", lb.fit(known["grr"], "learnt", **DRAWN)
    yield "smooth", lb.fit(known["grr"], "smooth", random_seed=7, draws=8)
    yield "loglinear", lb.associate(known["two_questions"], draws=8, chains=2, random_seed=7)
    cells = lb.Cells({(day,): simulated(lb.GRR(4, 1.0), n=100 + 50 * day) for day in range(3)}, by=["day"])
    yield "cells", lb.fit(cells, "flat", **DRAWN)
    yield "hierarchical", lb.fit(cells, lb.priors.Hierarchical(), random_seed=7, draws=8)
    yield "regression", lb.regress(survey, "connected ~ female + married", draws=8, chains=2, random_seed=7)
    yield "noncompliance", lb.fit(known["two_forms"].with_noncompliers({"liars": "no"}), draws=8, random_seed=7)


def cells_of_the_second():
    """Yield (name, cells) for write_collection."""
    yield "survey", lb.load_example("nigeria_cells")
    yield "days", lb.Cells({(day,): simulated(lb.GRR(4, 1.0), n=100 + 50 * day) for day in range(3)}, by=["day"])


def summaries():
    """Yield (name, cells) that a scan found, for their ``to_parquet``: reports in summary, by day."""
    labels = [f"c{x}" for x in range(20)]
    for name, parameters in (("unary", {"epsilon": 2.0, "variant": "optimised"}), ("local_hashing", {"epsilon": 2.0})):
        protocol, rng = lb.make_protocol(name, labels, parameters), np.random.default_rng(5)
        reports = protocol.privatize(rng.integers(0, 8, 400), rng)
        table = lb.write(reports, None, protocol, categories=labels, day=np.repeat([1, 2], 200))
        yield name, lb.scan(table, by="day", random_seed=3)


def summed(found):
    """Return what summaries must still say: the number of reports, and the posterior mean, of every cell."""
    fits = {key: lb.fit(found[key], "flat", draws=0, estimates=False)["summary"] for key in found}
    means = {str(key): np.ravel(one["mean"].sel(target="distribution")).tolist() for key, one in fits.items()}
    return {"n_reports": {str(key): int(found[key].n_reports) for key in found}, "mean": means}


def main(folder):
    """Write the files of this version, and replace its lines in the manifest."""
    version, folder = ".".join(lb.__version__.split(".")[:3]), pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text()) if (folder / "manifest.json").exists() else {}
    target = folder / version
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    manifest = {name: entry for name, entry in manifest.items() if not name.startswith(version)}
    warnings.simplefilter("ignore")
    for name, collection in collections():
        lb.write(collection, target / f"{name}.toml")
        manifest[f"{version}/{name}.toml"] = counted(collection)
    results = [*results_of_both(), *(results_of_the_second() if version >= "0.2" else [])]
    with tempfile.TemporaryDirectory() as scratch:
        for name, tree in results:
            lb.save(tree, f"{scratch}/{name}.nc")
            packed = gzip.compress(pathlib.Path(f"{scratch}/{name}.nc").read_bytes(), 9, mtime=0)
            (target / f"{name}.nc.gz").write_bytes(packed)
            manifest[f"{version}/{name}.nc"] = numbers_of(tree)
    if version >= "0.2":
        for name, cells in cells_of_the_second():
            lb.write(cells, target / f"{name}.toml")
            manifest[f"{version}/{name}.toml"] = {"cells": {str(key): counted(cells[key]) for key in cells}}
        for name, found in summaries():
            found.to_parquet(target / f"{name}.parquet")
            manifest[f"{version}/{name}.parquet"] = summed(found)
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(manifest.items()))
    (folder / "manifest.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
