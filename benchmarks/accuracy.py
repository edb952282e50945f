"""Squared error of our estimators, of post-processing, and of pure-ldp and multi-freq-ldpy on the very same reports.

Our clients make the reports. They go to our estimators and, in the form in which the other packages' clients would have made
them, to those packages' servers. Printed are sums of squared errors over all shares with Monte Carlo errors, ratios to the
posterior mean's with paired errors, and how far the packages' numbers are from ours where both compute the same.

Run: python benchmarks/accuracy.py [--peers FOLDER] [--store FOLDER] [--replications 20] [--epsilon 1]

``--peers`` makes a virtual environment in FOLDER and installs the packages there with pip, as throughput.py does. What is in
``--store`` is not computed again: a run that was interrupted continues. What could not be run is said below the tables.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))  # for studies/

import ldpbayes
from ldpbayes.association.attributes import Attributes
from ldpbayes.association.fake_data import FakeData
from ldpbayes.association.sampled_attribute import SampledAttribute
from ldpbayes.collections import Collection, Tally
from ldpbayes.estimators.mle import MLE
from ldpbayes.estimators.oracle import Oracle
from ldpbayes.estimators.postprocess import norm_cut, norm_sub, power_law, truncate_and_renormalize
from ldpbayes.protocols import GRR, Channel
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from studies import common, evaluate, priors

N = 10_000
#: Populations: a census of data/populations and how many of its most frequent categories are kept.
POPULATIONS = (("flights_dest", 20), ("flights_dest", 100))
#: Joint table of two attributes.
TABLE, SIZES = "adult_workclass_education", (9, 16)
BASE = "posterior mean, learnt"
#: What the other packages' numbers are compared with: ours that should be the same but for rounding.
SAME = {
    "pure-ldp, raw": "oracle",
    "pure-ldp, simplex": "Norm-Sub",
    "multi-freq-ldpy, MI": "Norm-Mul",
    "multi-freq-ldpy, IBU": "MLE",  # with GRR; elsewhere its matrix is no channel of the reports
}
#: What is said of packages that take no part.
ASK_FOR_PEERS = "pure-ldp and multi-freq-ldpy: --peers FOLDER asks for them"
R_PACKAGES = ("RRreg, rr, GLMMRR, RRTCS, dapper: R packages, which pip does not install",)


def protocols(a, epsilon):
    """Return {label: protocol} with the settings that the other packages use."""
    return {
        "GRR": GRR(a, epsilon),
        "SUE": UnaryEncoding.symmetric(a, epsilon),
        "OUE": UnaryEncoding.optimized(a, epsilon),
        "OLH": LocalHashing(a, epsilon, round(math.exp(epsilon)) + 1, family="xxhash"),
        "HR": HadamardResponse(a, epsilon),
        "SS": SubsetSelection(a, epsilon, max(1, round(a / (math.exp(epsilon) + 1)))),
    }


def schemes(sizes, epsilon):
    """Return {label: protocol} of the schemes for several attributes, as multi-freq-ldpy sets them."""
    return {
        "SPL": Attributes.split(sizes, epsilon, "grr"),
        "SMP": SampledAttribute(math.prod(sizes), epsilon, sizes, "grr"),
        "RS+FD": FakeData.amplified(sizes, epsilon, "grr", "uniform"),
    }


def encode(label, reports, a):
    """Return our reports as the other packages' clients make them.

    GRR and HR: a number. SUE and OUE: a row of bits. OLH: (value, seed). SS: the members of the set. Several attributes: a
    row of numbers; SMP: (attribute, value).
    """
    if label in ("SUE", "OUE", "SS"):
        bits = np.unpackbits(reports, axis=1, count=a)
        return bits.astype(np.int64) if label != "SS" else np.nonzero(bits)[1].reshape(len(bits), -1)
    return reports[:, ::-1] if label == "OLH" else reports


def shares_of(name, size):
    """Return the distribution over the most frequent categories of a census."""
    shares = np.sort(common.census(name).distribution)[::-1][:size]
    return shares / shares.sum()


def table_of(name):
    """Return the joint distribution of a census of two attributes with labels "x y", all cells, the last one fastest."""
    census = common.census(name)
    pairs = [label.split(" ", 1) for label in census.categories]
    rows, columns = (sorted({pair[i] for pair in pairs}) for i in (0, 1))
    out = np.zeros((len(rows), len(columns)))
    for (row, column), share in zip(pairs, census.distribution, strict=True):
        out[rows.index(row), columns.index(column)] = share
    return out.ravel()


def norm(estimate):
    """Return the estimate with what is missing to a sum of one spread evenly: Norm; entries may stay negative."""
    return estimate + (1 - estimate.sum()) / estimate.size


def estimates(collection):
    """Return {name: shares} of our estimators and of the post-processing of the oracle."""
    oracle = Oracle()(collection)
    raw = oracle.distribution
    return {
        BASE: priors.moments(collection, "learnt")[0],
        "posterior mean, Jeffreys": priors.moments(collection, "jeffreys")[0],
        "MLE": MLE()(collection).distribution,
        "oracle": raw,
        "Norm": norm(raw),
        "Norm-Mul": truncate_and_renormalize(raw),
        "Norm-Sub": norm_sub(raw),
        "Norm-Cut": norm_cut(raw),
        "Base-Pos": np.maximum(raw, 0.0),
        "power law": power_law(raw, oracle.standard_error, collection.n_reports),
    }


def margins(shares, sizes):
    """Return the margins of a table of two attributes, one after the other."""
    table = np.reshape(shares, sizes)
    return np.concatenate([table.sum(axis=1), table.sum(axis=0)])


def by_attribute(label, reports, protocol):
    """Return [(channel, reports)] of each attribute alone: what its own reports say of its margin.

    SPL: GRR at ε/d. SMP: GRR at ε, for those who drew the attribute. RS+FD: GRR for one user in d, else a uniform answer.
    """
    if label == "SPL":
        return [(factor, reports[:, k]) for k, factor in enumerate(protocol.factors)]
    out, d = [], len(protocol.sizes)
    for k, size in enumerate(protocol.sizes):
        one = GRR(size, protocol.epsilon)
        if label == "SMP":
            out.append((one, reports[reports[:, 0] == k, 1]))
        else:
            out.append((Channel(one.channel() / d + (1 - 1 / d) / size), reports[:, k]))
    return out


def margin_estimates(label, reports, protocol):
    """Return {name: margins, one after the other} of our estimators, one attribute at a time."""
    parts = []
    for channel, own in by_attribute(label, reports, protocol):
        parts.append(estimates(Collection(evaluate.labels(channel.n_categories), Tally(channel, own))))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def collect(epsilon, replications, folder):
    """Return the cases with the truth and our estimates; the encoded reports are written to the folder."""
    cases = []
    for name, a in POPULATIONS:
        p = shares_of(name, a)
        cases += [
            (label, one, p, p, {"n_categories": a}, f"{name}, a = {a}") for label, one in protocols(a, epsilon).items()
        ]
    p = table_of(TABLE)
    truth = margins(p, SIZES)
    for label, one in schemes(SIZES, epsilon).items():
        cases.append((label, one, p, truth, {"sizes": list(SIZES)}, f"{TABLE}, margins of {SIZES[0]} × {SIZES[1]}"))
    out = []
    for i, (label, protocol, p, truth, facts, title) in enumerate(cases):
        file, stored, ours, encoded = f"case_{i}.npz", folder / f"ours_{i}.npz", [], []
        case = {"label": label, "epsilon": epsilon, "file": file, "truth": truth, "title": title} | facts
        if stored.exists():
            out.append(case | {"found": dict(np.load(stored))})
            continue
        for rng in np.random.default_rng([20, i]).spawn(replications):
            values = rng.choice(p.size, size=N, p=p)
            reports = protocol.privatize(values, rng)
            encoded.append(encode(label, reports, p.size))
            if "sizes" in facts:
                ours.append(margin_estimates(label, reports, protocol))
            else:
                ours.append(estimates(Collection(evaluate.labels(p.size), Tally(protocol, reports))))
        np.savez(folder / file, reports=np.array(encoded))
        found = {one: np.array([row[one] for row in ours]) for one in ours[0]}
        np.savez(stored, **found)
        out.append(case | {"found": found})
        print(f"{title}, {label}: {replications} sets of reports", file=sys.stderr, flush=True)
    kept = [{k: v for k, v in case.items() if k not in ("truth", "found", "title")} for case in out]
    (folder / "cases.json").write_text(json.dumps(kept))
    return out


def add_peers(cases, folder, environment):
    """Add the other packages' estimates to the cases; return their versions, and what could not be run."""
    from throughput import peer_python  # beside this script

    try:
        script = pathlib.Path(__file__).with_name("accuracy_peers.py")
        command = [peer_python(environment), script, folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=3600)
    except (OSError, subprocess.SubprocessError) as err:
        return {}, [f"pure-ldp and multi-freq-ldpy: {err}"]
    for case in cases:
        for stored in sorted(folder.glob(f"* {case['file']}")):
            case["found"] |= dict(np.load(stored))
    versions, missed = json.loads(done.stdout.splitlines()[-1])
    return versions, missed


def compare(case):
    """Return [(name, mean Σ squared errors, its error, ratio to BASE, its paired error)], the least first."""
    losses = {name: ((found - case["truth"]) ** 2).sum(axis=1) for name, found in case["found"].items()}
    base, rows = losses[BASE], []
    for name, loss in losses.items():
        value, error = evaluate.mean_and_error(loss)
        ratio = value / base.mean()
        _, ratio_error = evaluate.mean_and_error((loss - ratio * base) / base.mean())
        rows.append((name, value, error, ratio, ratio_error))
    return sorted(rows, key=lambda row: row[1])


def differences(case):
    """Return {(their name, our name): largest difference of a share} where both compute the same."""
    found = case["found"]
    pairs = [(one, other) for one, other in SAME.items() if one in found and (other != "MLE" or case["label"] == "GRR")]
    return {(one, other): float(np.abs(found[one] - found[other]).max()) for one, other in pairs}


def main():
    """Run the comparison and print its tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", metavar="FOLDER", help="environment for pure-ldp and multi-freq-ldpy")
    parser.add_argument("--store", metavar="FOLDER", help="where reports and estimates are kept between runs")
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument(
        "--epsilon", type=float, default=1.0, help="at most 1, where both packages' Hadamard responses agree"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.store:
            folder = pathlib.Path(options.store) / f"{options.replications}_{options.epsilon:g}"
            folder.mkdir(parents=True, exist_ok=True)
        cases = collect(options.epsilon, options.replications, folder)
        versions, missed = add_peers(cases, folder, options.peers) if options.peers else ({}, [ASK_FOR_PEERS])
    shown = ", ".join(f"{name} {version}" for name, version in ({"ldpbayes": ldpbayes.__version__} | versions).items())
    print(f"n = {N:,}, epsilon = {options.epsilon:g}, {options.replications} sets of reports; {shown}\n")
    for case in cases:
        print(f"### {case['title']}, {case['label']}\n")
        print("| estimator | 10⁴ · Σ squared errors | ratio to the posterior mean's |\n|---|---:|---:|")
        for name, value, error, ratio, ratio_error in compare(case):
            print(f"| {name} | {1e4 * value:.2f} ± {1e4 * error:.2f} | {ratio:.2f} ± {ratio_error:.2f} |")
        for (one, other), apart in differences(case).items():
            print(f"\n{one} and our {other} differ by at most {apart:.1g}.")
        print()
    print("Not run:", *(f"- {what}" for what in [*missed, *R_PACKAGES]), sep="\n")


if __name__ == "__main__":
    main()
