"""Seconds per report of pure-ldp and multi-freq-ldpy; run by throughput.py inside the environment that holds them.

Both packages work report by report, so a few thousand reports give the time of any number. Prints one line of JSON.
"""

import json
import sys
import time
import warnings

import numpy as np

EPSILON = 1.0
#: Reports per measurement; local hashing servers cost a hash per report and category.
N, N_HASHED = 3000, 300


def clock(client, server, n, a):
    """Return {client, server} in CPU seconds per report."""
    values = [int(x) for x in np.random.default_rng(0).integers(a, size=n)]
    client(values[0])  # compiles what is compiled
    start = time.process_time()
    reports = [client(x) for x in values]
    middle = time.process_time()
    server(reports)
    return {"client": (middle - start) / n, "server": (time.process_time() - middle) / n}


def pure_ldp(a):
    """Yield (protocol, client, server, reports to time)."""
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    def same(x):
        return x

    def collect(server):
        def run(reports):
            for report in reports:
                server.aggregate(report)
            return [server.estimate(x, suppress_warnings=True) for x in range(a)]

        return run

    pairs = [
        ("GRR", DEClient(EPSILON, a, index_mapper=same), DEServer(EPSILON, a, index_mapper=same), N),
        ("SUE", UEClient(EPSILON, a, index_mapper=same), UEServer(EPSILON, a, index_mapper=same), N),
        ("OUE", UEClient(EPSILON, a, use_oue=True, index_mapper=same), UEServer(EPSILON, a, True, index_mapper=same), N),
        (
            "OLH",
            LHClient(EPSILON, a, use_olh=True, index_mapper=same),
            LHServer(EPSILON, a, use_olh=True, index_mapper=same),
            N_HASHED,
        ),
    ]
    for label, client, server, n in pairs:
        yield label, client.privatize, collect(server), n
    server = HadamardResponseServer(EPSILON, a, index_mapper=same)
    client = HadamardResponseClient(EPSILON, a, server.get_hash_funcs(), index_mapper=same)
    yield "HR", client.privatize, collect(server), N


def multi_freq_ldpy(a):
    """Yield (protocol, client, server, reports to time)."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    yield "GRR", lambda x: GRR_Client(x, a, EPSILON), lambda r: GRR_Aggregator_MI(r, a, EPSILON), N
    yield "SS", lambda x: SS_Client(x, a, EPSILON), lambda r: SS_Aggregator_MI(r, a, EPSILON), N
    yield "SUE", lambda x: UE_Client(x, a, EPSILON, False), lambda r: UE_Aggregator_MI(r, EPSILON, False), N
    yield "OUE", lambda x: UE_Client(x, a, EPSILON, True), lambda r: UE_Aggregator_MI(r, EPSILON, True), N
    yield "OLH", lambda x: LH_Client(x, a, EPSILON, True), lambda r: LH_Aggregator_MI(r, a, EPSILON, True), N_HASHED


def main():
    warnings.simplefilter("ignore")
    out = {}
    for package in (pure_ldp, multi_freq_ldpy):
        for a in map(int, sys.argv[1:]):
            try:
                for label, client, server, n in package(a):
                    try:
                        times = clock(client, server, n, a)
                    except Exception as err:
                        print(f"{package.__name__} {label}: {err!r}", file=sys.stderr)
                        continue
                    out.setdefault(package.__name__, {}).setdefault(label, {})[str(a)] = times
            except ImportError as err:
                print(f"{package.__name__}: {err}", file=sys.stderr)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
