"""Mutated files: whatever is changed in a good file, it is read as it stands or refused by an LDPBayesError, and soon.

``make fuzz`` runs many more examples (FUZZ_EXAMPLES) than the suite does.
"""

import collections
import contextlib
import csv
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tomllib
import warnings

import numpy as np
import pytest
from fuzzing import SECONDS, mutate_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ldpbayes as lb
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import LDPBayesError, LDPBayesWarning
from ldpbayes.protocols import GRR, Channel, designs, kronecker, mixture
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.sources import read_collection, write_collection

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 150))
MEMORY = 500 * 2**20  # bytes above those in use


# ---- good files ------------------------------------------------------------------------------------------------------
def good_collections():
    rng = np.random.default_rng(1)

    def simulated(protocol, name="all"):
        a = protocol.n_categories
        return Tally(protocol, *protocol.simulate(rng.multinomial(60, np.full(a, 1 / a)), rng), name)

    three = ["red", "green", "blue"]
    yield Collection(["no", "yes"], Tally(designs.warner(0.7), [0, 1], [60, 40]), title="A survey", notes="two\nlines")
    yield Collection(three, simulated(GRR(3, 1.0)), derived=[lb.collections.Derived("share", ["red"], ["red", "blue"])])
    yield Collection(three, [simulated(GRR(3, 1.0), "first"), simulated(GRR(3, 2.0), "second")])
    yield Collection(three, simulated(designs.forced_response(0.7, [1, 2, 1])))
    for protocol in (
        UnaryEncoding.optimized(3, 1.0),
        SubsetSelection(3, 1.0, 2),
        HadamardResponse(3, 1.0),
        LocalHashing(3, 1.0),
        CohortRR(3, 1.0, 2, 4),
        Rappor.one_time(3, 1.0, 4, 2, candidates=tuple(three)),
        Channel([[0.5, 0.2, 0.3], [0.5, 0.8, 0.7]]),
        mixture([0.5, 0.5], [GRR(3, 1.0), UnaryEncoding.symmetric(3, 1.0)]),
    ):
        yield Collection(three, simulated(protocol))
    yield Collection(["aa", "ab", "ba", "bb"], simulated(kronecker([GRR(2, 1.0), GRR(2, 1.0)])))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Pairs (TOML, CSV) of good collections."""
    folder = tmp_path_factory.mktemp("good")
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        for i, collection in enumerate(good_collections()):
            write_collection(collection, folder / f"c{i}.toml")
            assert same_meaning(read_collection(folder / f"c{i}.toml"), folder / f"c{i}.toml")
            texts = [(folder / f"c{i}{suffix}").read_text().replace(f"c{i}", "c") for suffix in (".toml", ".csv")]
            found.append(tuple(texts))
    return found


# ---- what is checked -------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def limited():
    """Allow SECONDS and MEMORY, and no exception other than an LDPBayesError; yields a list that then holds its sentence."""

    def late(*args):
        raise AssertionError(f"not finished after {SECONDS} seconds")

    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    refused = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LDPBayesWarning)
            yield refused
    except LDPBayesError as err:
        assert str(err) and str(err).isprintable() and len(str(err)) <= 2000
        refused.append(str(err))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, handler)


def same_meaning(collection, path):
    """Return whether a collection holds what an independent, strict reading of its file finds: labels and counts."""
    document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    if "by" in document:
        return collection.n_reports == sum(strict_count(path, c, None).total() for c in document["channels"])
    assert list(collection.categories) == document["categories"]
    assert len(collection.tallies) == len(document["channels"])
    for tally, channel in zip(collection.tallies, document["channels"], strict=True):
        assert tally.protocol.n_categories == len(document["categories"])
        fields = channel.get("report", list(tally.protocol.report_fields))
        counts = strict_count(path, channel, [fields] if isinstance(fields, str) else fields)
        assert counts.total() == tally.n_reports == channel.get("n", tally.n_reports)
        assert 0 < tally.n_reports <= 10**12
        parameters = channel.get("parameters", {})
        for key, value in parameters.items():
            stated = getattr(tally.protocol, key, value)
            if isinstance(value, (int, float)) and isinstance(stated, (int, float)):
                assert float(stated) == float(value)
        if tally.protocol.design in ("grr", "warner", "forced_response", "channel", "kronecker", "mixture"):
            (column,) = tally.protocol.format_reports(tally.reports, collection.categories)
            found = {label: n for label, n in zip(column, tally.counts.tolist(), strict=True) if n}
            wanted = collections.Counter()
            for (label,), n in counts.items():  # of whole numbers a table may have floats
                wanted[label if label in found else label.removesuffix(".0")] += n
            assert found == {label: n for label, n in wanted.items() if n}
    for item in collection.derived:
        stated = document["derived"][item.name]
        assert list(item.of) == stated["of"] and list(item.given) == stated.get("given", [])
        assert len(set(item.of)) == len(item.of) and (not item.given or set(item.of) <= set(item.given))
    return True


def strict_count(path, channel, fields):
    """Return the Counter of the stripped cells of every report of a channel's CSV."""
    with open(path.parent / channel["file"], encoding="utf-8-sig", newline="") as handle:
        rows = [row for row in csv.reader(handle) if row]
    header = [cell.strip() for cell in rows[0]]
    wanted = {header.index(key): str(value).strip() for key, value in channel.get("where", {}).items()}
    out = collections.Counter()
    for row in rows[1:]:
        assert len(row) == len(header)
        if all(row[i].strip() == value for i, value in wanted.items()):
            count = 1
            if "count" in channel:
                cell = row[header.index(channel["count"])].strip()
                assert re.fullmatch(r"\+?[0-9]+|-0+", cell)
                count = int(cell)
            out[tuple(row[header.index(field)].strip() for field in fields or ())] += count
    return out


fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    # The suite tries the same files every time; `make fuzz` looks for new ones.
)
seeds = st.integers(0, 2**63)


@fuzzed
@given(seeds)
def test_mutated_collections(good, tmp_path_factory, seed):
    generator = random.Random(seed)
    toml, table = generator.choice(good)
    where = generator.randrange(3)
    toml = mutate_text(toml, generator) if where != 1 else toml
    table = mutate_text(table, generator) if where != 0 else table
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    (folder / "c.toml").write_bytes(toml.encode("utf-8", "surrogatepass"))
    (folder / "c.csv").write_bytes(table.encode("utf-8", "surrogatepass"))
    with limited():
        collection = read_collection(folder / "c.toml")
        assert same_meaning(collection, folder / "c.toml")
        collection.title, collection.n_reports  # noqa: B018


def test_mutated_files_of_every_format():
    """Tables with and without a protocol, Parquet, summaries, results, JSON lines and populations, in another process."""
    first = random.SystemRandom().randrange(2**40) if "FUZZ_EXAMPLES" in os.environ else 0
    command = [sys.executable, pathlib.Path(__file__).parent / "support" / "fuzzing.py", str(first), str(EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last}\n{done.stderr}"
    assert re.fullmatch(r"[0-9]+ of [0-9]+ were read, the others refused", last[0])
