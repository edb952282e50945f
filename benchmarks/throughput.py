"""Client and server of every protocol against plain NumPy and, where they install, pure-ldp and multi-freq-ldpy.

Client: values to reports. Server: reports to the unbiased oracle, validation and tallying included on our side.
CPU seconds of one thread; the yardsticks are what a competent user would write in NumPy, without validation.

Run: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/throughput.py [--small] [--peers FOLDER]

``--peers`` makes a virtual environment in FOLDER, installs the packages there with pip, and skips them where it cannot.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
import venv

import numpy as np
from rich.console import Console
from rich.table import Table

from ldpbayes.collections import Tally
from ldpbayes.protocols import GRR, Channel
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

EPSILON = 1.0
#: Rows of an (n, a) array that a yardstick holds at a time, so that a million reports fit in memory.
CHUNK = 20_000
#: The packages, what pure-ldp imports without asking for it, and the last xxhash whose calls multi-freq-ldpy knows.
PEERS = ("pure-ldp", "multi-freq-ldpy", "scikit-learn", "statsmodels", "xxhash<4")


def chunked(function, values):
    """Return the concatenation of function over chunks of values."""
    return np.concatenate([function(values[i : i + CHUNK]) for i in range(0, len(values), CHUNK)])


class GRRYardstick:
    def __init__(self, protocol):
        self.a, (self.g, self.h) = protocol.n_categories, protocol.hit_rates

    def client(self, values, rng):
        other = rng.integers(self.a - 1, size=values.size)
        other += other >= values
        return np.where(rng.random(values.size) < self.g, values, other)

    def server(self, reports):
        return (np.bincount(reports, minlength=self.a) / len(reports) - self.h) / (self.g - self.h)


class BitsYardstick:
    """Unary encoding."""

    def __init__(self, protocol):
        self.a, (self.g, self.h) = protocol.n_categories, protocol.hit_rates

    def client(self, values, rng):
        def chunk(part):
            members = rng.random((part.size, self.a)) < self.h
            members[np.arange(part.size), part] = rng.random(part.size) < self.g
            return np.packbits(members, axis=1)

        return chunked(chunk, values)

    def server(self, reports):
        total = sum(
            np.unpackbits(reports[i : i + CHUNK], axis=1, count=self.a).sum(axis=0) for i in range(0, len(reports), CHUNK)
        )
        return (total / len(reports) - self.h) / (self.g - self.h)


class SubsetYardstick(BitsYardstick):
    def __init__(self, protocol):
        super().__init__(protocol)
        self.size = protocol.size

    def client(self, values, rng):
        def chunk(part):
            keys = rng.random((part.size, self.a), dtype=np.float32)
            users, held = np.arange(part.size), rng.random(part.size) < self.g
            keys[users, part] = np.where(held, -1, 2)
            members = np.zeros((part.size, self.a), dtype=bool)
            np.put_along_axis(members, np.argpartition(keys, self.size - 1, axis=1)[:, : self.size], True, axis=1)
            return np.packbits(members, axis=1)

        return chunked(chunk, values)


class HashYardstick:
    """Local hashing with a plain multiply-shift."""

    def __init__(self, protocol):
        self.a, self.buckets, (self.g, self.h) = protocol.n_categories, protocol.buckets, protocol.hit_rates

    def hash(self, seeds, x):
        return ((seeds * (2 * np.uint64(x) + np.uint64(1)) >> np.uint64(32)) * np.uint64(self.buckets)) >> np.uint64(32)

    def client(self, values, rng):
        seeds = rng.integers(2**63, size=values.size).astype(np.uint64)
        odd = 2 * values.astype(np.uint64) + np.uint64(1)
        hashed = ((((seeds * odd) >> np.uint64(32)) * np.uint64(self.buckets)) >> np.uint64(32)).astype(np.int64)
        other = rng.integers(self.buckets - 1, size=values.size)
        other += other >= hashed
        return np.stack([seeds, np.where(rng.random(values.size) < self.g, hashed, other).astype(np.uint64)], axis=1)

    def server(self, reports):
        seeds, answers = np.ascontiguousarray(reports[:, 0]), np.ascontiguousarray(reports[:, 1])
        hits = np.array([(self.hash(seeds, x) == answers).sum() for x in range(self.a)])
        return (hits / len(reports) - self.h) / (self.g - self.h)


class HadamardYardstick:
    def __init__(self, protocol):
        from scipy.linalg import hadamard

        self.a, self.order, (self.g, self.h) = protocol.n_categories, protocol.n_outputs, protocol.hit_rates
        self.members = hadamard(self.order, dtype=np.int8)[1 : self.a + 1] > 0

    def client(self, values, rng):
        report = rng.integers(self.order, size=values.size)
        inside = self.members[values, report]
        index = values + 1
        return np.where(inside == (rng.random(values.size) < self.g), report, report ^ (index & -index))

    def server(self, reports):
        return (self.members @ np.bincount(reports, minlength=self.order) / len(reports) - self.h) / (self.g - self.h)


class ChannelYardstick:
    def __init__(self, protocol):
        self.matrix = protocol.matrix

    def client(self, values, rng):
        cumulative = self.matrix.cumsum(axis=0).T.copy()
        u = rng.random(values.size)
        return chunked(lambda part: (cumulative[values[part]] < u[part, None]).sum(axis=1), np.arange(values.size))

    def server(self, reports):
        return np.linalg.lstsq(self.matrix, np.bincount(reports, minlength=len(self.matrix)) / len(reports))[0]


class CohortYardstick:
    def __init__(self, protocol):
        self.table, self.buckets = protocol.table, protocol.buckets
        self.channel = protocol.channel()
        self.truth = protocol.beta / (protocol.buckets + protocol.beta)

    def client(self, values, rng):
        cohort = rng.integers(len(self.table), size=values.size)
        truthful = rng.random(values.size) < self.truth
        answer = np.where(truthful, self.table[cohort, values], rng.integers(self.buckets, size=values.size))
        return np.stack([cohort, answer], axis=1)

    def server(self, reports):
        counts = np.bincount(reports[:, 0] * self.buckets + reports[:, 1], minlength=len(self.channel))
        return np.linalg.lstsq(self.channel, counts / len(reports))[0]


def protocols(a):
    """Return (label, protocol, yardstick class or None) of every registered protocol at a categories."""
    labels = tuple(f"value {x}" for x in range(a))
    cohorts = max(8, a // 8)
    return [
        ("GRR", GRR(a, EPSILON), GRRYardstick),
        ("SUE", UnaryEncoding.symmetric(a, EPSILON), BitsYardstick),
        ("OUE", UnaryEncoding.optimized(a, EPSILON), BitsYardstick),
        ("SS", SubsetSelection(a, EPSILON), SubsetYardstick),
        ("OLH", LocalHashing(a, EPSILON), HashYardstick),
        ("OLH xxhash", LocalHashing(a, EPSILON, family="xxhash"), None),
        ("HR", HadamardResponse(a, EPSILON), HadamardYardstick),
        ("O-RR", CohortRR(a, EPSILON, 32, cohorts, "label", labels), CohortYardstick),
        ("O-RAPPOR", Rappor.one_time(a, EPSILON, 32, cohorts, 2, candidates=labels), None),
        ("channel", Channel(GRR(a, EPSILON).channel()), ChannelYardstick),
    ]


def cpu(function, repeats):
    """Return (result, median CPU seconds)."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        seconds.append(time.process_time() - start)
    return result, float(np.median(seconds))


def our_server(protocol, reports):
    """Return the oracle of raw reports: validated, merged, decoded."""
    tally = Tally(protocol, reports)
    return protocol.oracle(tally.rows)


def measure(protocol, yardstick, n, repeats):
    """Return CPU seconds {client, server} of ours and of the yardstick, and the largest error of each in its own sd."""
    rng = np.random.default_rng(7)
    weights = 1.0 / np.arange(1, protocol.n_categories + 1)
    values = rng.choice(protocol.n_categories, size=n, p=weights / weights.sum())
    truth = np.bincount(values, minlength=protocol.n_categories) / n
    small = protocol.privatize(values[:2000], rng)
    our_server(protocol, small)  # compiles the kernels and fills caches
    reports, client = cpu(lambda: protocol.privatize(values, rng), repeats)
    estimate, server = cpu(lambda: our_server(protocol, reports), repeats)
    sd = np.sqrt(protocol.oracle_variance(truth, n))
    out = {"client": client, "server": server, "error": float(np.abs((estimate - truth) / sd).max())}
    if yardstick is not None:
        plain = yardstick(protocol)
        plain.server(plain.client(values[:2000], rng))
        reports, out["plain client"] = cpu(lambda: plain.client(values, rng), repeats)
        estimate, out["plain server"] = cpu(lambda: plain.server(reports), repeats)
        out["plain error"] = float(np.abs((estimate - truth) / sd).max())
    return out


def peer_python(folder):
    """Return the Python of the environment in a folder that holds the peers; it is made, and they are installed, once.

    Raises
    ------
    OSError or subprocess.SubprocessError
        Where that cannot be done.
    """
    python = pathlib.Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True, timeout=900)
    return python


def peer_times(folder, sizes):
    """Return {package: {protocol: {a: {client, server}}}} in seconds per report, or {} where nothing installs."""
    try:
        script = pathlib.Path(__file__).with_name("throughput_peers.py")
        command = [peer_python(folder), script, *map(str, sizes)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError) as err:
        print(f"peers skipped: {err}", file=sys.stderr)
        return {}


def ratio(other, ours):
    return "–" if other is None else f"{other / ours:,.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="n = 1e4 and 1e5 only")
    parser.add_argument("--only", help="one protocol label")
    parser.add_argument("--peers", metavar="FOLDER", help="environment for pure-ldp and multi-freq-ldpy")
    options = parser.parse_args()
    sizes = (100, 1024)
    peers = peer_times(options.peers, sizes) if options.peers else {}
    console = Console(width=150)
    table = Table(title=f"epsilon = {EPSILON:g}; CPU ns per report, and how many times longer the others take")
    for heading in ("protocol", "a", "n", "client", "server", "NumPy client", "NumPy server", "max |z|"):
        table.add_column(heading, justify="right")
    for package in ("pure_ldp", "multi_freq_ldpy"):
        table.add_column(f"{package} client", justify="right")
        table.add_column(f"{package} server", justify="right")
    for a in sizes:
        for label, protocol, yardstick in protocols(a):
            if options.only not in (None, label):
                continue
            for n in (10_000, 100_000) if options.small else (100_000, 1_000_000):
                got = measure(protocol, yardstick, n, 3 if n <= 100_000 else 1)
                cells = [label, str(a), f"{n:,}", f"{got['client'] / n * 1e9:,.0f}", f"{got['server'] / n * 1e9:,.0f}"]
                cells += [ratio(got.get(f"plain {side}"), got[side]) for side in ("client", "server")]
                cells.append(f"{got['error']:.1f}")
                for package in ("pure_ldp", "multi_freq_ldpy"):
                    times = peers.get(package, {}).get(label, {}).get(str(a), {})
                    cells += [ratio(times.get(side), got[side] / n) for side in ("client", "server")]
                table.add_row(*cells)
                print(" ".join(cells), file=sys.stderr, flush=True)
    console.print(table)


if __name__ == "__main__":
    main()
