"""Estimates of pure-ldp and multi-freq-ldpy from reports in files; run by accuracy.py in the environment that holds them.

Takes a folder with cases.json and one NPZ file a case; writes the estimates of each package beside it where none are, and
prints the packages' versions and what could not be run.
"""

import importlib.metadata
import json
import pathlib
import sys
import warnings

import numpy as np

#: Normalizations of pure-ldp by their numbers.
NORMALIZATIONS = {"raw": 0, "additive": 1, "simplex": 2, "threshold cut": 3}


def pure_ldp(label, a, epsilon, reports):
    """Return {normalization: shares} of pure-ldp's server."""
    from pure_ldp.frequency_oracles.direct_encoding import DEServer
    from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseServer
    from pure_ldp.frequency_oracles.local_hashing import LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEServer

    def same(x):
        return x

    servers = {
        "GRR": lambda: DEServer(epsilon, a, index_mapper=same),
        "SUE": lambda: UEServer(epsilon, a, index_mapper=same),
        "OUE": lambda: UEServer(epsilon, a, use_oue=True, index_mapper=same),
        "OLH": lambda: LHServer(epsilon, a, use_olh=True, index_mapper=same),
        "HR": lambda: HadamardResponseServer(epsilon, a, index_mapper=same),
    }
    if label not in servers:
        return {}
    server = servers[label]()
    for report in tuples(reports) if label == "OLH" else reports:
        server.aggregate(report)
    return {
        name: server.estimate_all(range(a), suppress_warnings=True, normalization=number) / len(reports)
        for name, number in NORMALIZATIONS.items()
    }


def multi_freq_ldpy(label, a, epsilon, reports):
    """Return {estimator: shares} of multi-freq-ldpy: MI (clipped and normalized) and iterative Bayesian update."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    calls = {
        "GRR": lambda: (GRR.GRR_Aggregator_MI(reports, a, epsilon), GRR.GRR_Aggregator_IBU(reports, a, epsilon)),
        "SUE": lambda: (UE.UE_Aggregator_MI(reports, epsilon, False), UE.UE_Aggregator_IBU(reports, a, epsilon, False)),
        "OUE": lambda: (UE.UE_Aggregator_MI(reports, epsilon, True), UE.UE_Aggregator_IBU(reports, a, epsilon, True)),
        "OLH": lambda: (LH.LH_Aggregator_MI(tuples(reports), a, epsilon, True),),
        "SS": lambda: (SS.SS_Aggregator_MI(reports, a, epsilon), SS.SS_Aggregator_IBU(reports, a, epsilon)),
    }
    return dict(zip(("MI", "IBU"), calls[label](), strict=False)) if label in calls else {}


def several_attributes(label, sizes, epsilon, reports):
    """Return {"MI": margins, one after the other} of multi-freq-ldpy's schemes for several attributes."""
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution, SMP_solution, SPL_solution

    aggregate = {
        "SPL": SPL_solution.SPL_GRR_Aggregator_MI,
        "SMP": SMP_solution.SMP_GRR_Aggregator_MI,
        "RS+FD": RSpFD_solution.RSpFD_GRR_Aggregator_MI,
    }[label]
    return {"MI": np.concatenate(list(aggregate(tuples(reports), list(sizes), len(sizes), epsilon)))}


def tuples(reports):
    """Return reports of several numbers as tuples of Python's own integers, which xxHash asks for."""
    return [tuple(row) for row in reports.tolist()]


def main():
    """Read the cases, let every server estimate, and write the estimates."""
    warnings.simplefilter("ignore")
    if len(sys.argv) != 2:
        print("[{}, []]")
        return
    folder, missed = pathlib.Path(sys.argv[1]), []
    for case in json.loads((folder / "cases.json").read_text()):
        if "sizes" in case:
            servers = {"multi-freq-ldpy": several_attributes}
            setting = case["label"], case["sizes"], case["epsilon"]
        else:
            servers = {"pure-ldp": pure_ldp, "multi-freq-ldpy": multi_freq_ldpy}
            setting = case["label"], case["n_categories"], case["epsilon"]
        replications = np.load(folder / case["file"])["reports"]
        for package, server in servers.items():
            stored = folder / f"{package} {case['file']}"
            if stored.exists():
                continue
            try:
                named = [server(*setting, reports) for reports in replications]
            except Exception as err:  # one server that fails does not take the others with it
                missed.append(f"{package}, {case['label']}: {err!r}")
                continue
            found = {f"{package}, {name}": np.array([one[name] for one in named], dtype=float) for name in named[0]}
            np.savez(stored, **found)
            print(stored.stem, file=sys.stderr, flush=True)
    packages = ("pure-ldp", "multi-freq-ldpy", "xxhash", "numpy")
    print(json.dumps([{name: importlib.metadata.version(name) for name in packages}, missed]))


if __name__ == "__main__":
    main()
