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
import tomllib
import unittest.mock
import warnings

import numpy as np
import pyarrow
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ldpbayes as lb
from ldpbayes import result
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import LDPBayesError, LDPBayesWarning
from ldpbayes.protocols import GRR, Channel, designs, kronecker, mixture
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result import saving
from ldpbayes.simulate import population
from ldpbayes.sources import read_collection, write_collection

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 600))
SECONDS = 10  # for one example, on a busy machine
MEMORY = 500 * 2**20  # bytes above those in use


# ---- good files ------------------------------------------------------------------------------------------------------
def good_collections():
    rng = np.random.default_rng(1)

    def simulated(protocol, name="all"):
        a = protocol.n_categories
        return Tally(protocol, *protocol.simulate(rng.multinomial(60, np.full(a, 1 / a)), rng), name)

    three = ["red", "green", "blue"]
    yield Collection(["no", "yes"], Tally(designs.warner(0.7), [0, 1], [60, 40]), title="A survey", notes="two\nlines")
    yield Collection(three, simulated(GRR(3, 1.0)), derived=[lb.Derived("share", ["red"], ["red", "blue"])])
    yield Collection(three, [simulated(GRR(3, 1.0), "first"), simulated(GRR(3, 2.0), "second")])
    yield Collection(three, simulated(designs.forced_response(0.7, [1, 2, 1])))
    for protocol in (
        UnaryEncoding.optimised(3, 1.0),
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


# ---- mutations -------------------------------------------------------------------------------------------------------
NUMBERS = ["0", "-1", "1", "2", "1e30", "1e400", "nan", "inf", "-inf", "0.5", "1000000000", "1000000000001", "9" * 4400]
NUMBERS += ["1.0", "1_0", "0x10", "٣", "５", "1e-300", "true", '"1/0"', '"1/6"', '"ln(3)"', "[]", "{}", "1979-05-27", '""']
PIECES = [
    "\0",
    "\x1b[2J",
    "\u202e",
    "\ufeff",
    "\r",
    "\n",
    "\n\n",
    ",",
    '"',
    "'",
    '"""',
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ".",
    "/",
]
PIECES += [
    "#",
    "\\",
    "\\u0000",
    ";",
    " ",
    "\t",
    "é",
    "🙂",
    "[channels]",
    "[[channels]]",
    "a.a.a.a.a.a.a.a.a.a = 1\n",
    "x" * 300,
]
PIECES += ["by = 'report'\n", "where = { report = 'red' }\n", "n = 3\n", "[derived.distribution]\nof = ['red']\n", "count"]


def mutate_text(text, random):
    """Return text with one to four changes."""
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        lines = text.split("\n")
        i, j = sorted(random.randrange(len(text) + 1) for _ in range(2))
        line = random.randrange(len(lines))
        match random.randrange(10):
            case 0:
                text = text[:i] + text[min(j, i + random.randrange(1, 20)) :]
            case 1:
                text = text[:i] + random.choice(PIECES) + text[i:]
            case 2:
                text = text[:i] + chr(random.choice([random.randrange(128), random.randrange(0x300)])) + text[i + 1 :]
            case 3 | 4:
                found = list(re.finditer(r"[0-9][0-9.e+-]*", text))
                if found:
                    spot = random.choice(found)
                    text = text[: spot.start()] + random.choice(NUMBERS) + text[spot.end() :]
            case 5:
                text = "\n".join(lines[:line] + lines[line + 1 :])
            case 6:
                text = "\n".join([*lines[:line], lines[line], *lines[line:]])
            case 7:
                other = random.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
                text = "\n".join(lines)
            case 8:
                words = list(re.finditer(r"[A-Za-z_]+", text))
                if len(words) > 1:
                    spot, source = random.sample(words, 2)
                    text = text[: spot.start()] + source[0] + text[spot.end() :]
            case 9:
                text = text[:i]
    return text


def mutate_bytes(data, random):
    """Return bytes with one to four changes."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        i = random.randrange(len(data) or 1)
        width = random.choice([1, 1, 2, 4, 8, 100])
        match random.randrange(5):
            case 0 | 1:
                data[i : i + width] = random.randbytes(width)
            case 2:
                data[i : i + width] = bytes(random.choice([0, 255]) for _ in range(1)) * width
            case 3:
                data = data[: random.choice([i, len(data) - 1, 8])]
            case 4:
                del data[i : i + width]
    return bytes(data)


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
            assert found == {label: n for (label,), n in counts.items() if n}
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
    derandomize="FUZZ_EXAMPLES" not in os.environ,
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


@settings(fuzzed, max_examples=max(1, EXAMPLES // 4))
@given(seeds)
def test_mutated_populations(tmp_path_factory, seed):
    generator = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "people.csv"
    path.write_text(mutate_text("value,count\nyoung,100\nold,250\n", generator), encoding="utf-8", errors="replace")
    with limited():
        people = population(path)
        with open(path, encoding="utf-8-sig", newline="") as handle:
            rows = [row for row in csv.reader(handle) if row]
        header = [cell.strip() for cell in rows[0]]
        value, count = header.index("value"), header.index("count")
        assert list(people.categories) == [row[value].strip() for row in rows[1:]]
        assert people.counts.tolist() == [int(row[count]) for row in rows[1:]]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "good.parquet"
    pq.write_table(pyarrow.table({"answer": ["no", "yes"] * 50, "count": [3, 2] * 50}), path)
    return path.read_bytes()


@settings(fuzzed, max_examples=max(1, EXAMPLES // 4))
@given(seeds)
def test_mutated_parquet(parquet, tmp_path_factory, seed):
    generator = random.Random(seed)
    folder = tmp_path_factory.getbasetemp() / "parquet"
    folder.mkdir(exist_ok=True)
    (folder / "c.toml").write_text(
        'categories = ["no", "yes"]\n[[channels]]\nprotocol = "warner"\nfile = "c.parquet"\nreport = "answer"\n'
        'count = "count"\nparameters = { p = 0.7 }\n'
    )
    (folder / "c.parquet").write_bytes(mutate_bytes(parquet, generator))
    with limited():
        collection = read_collection(folder / "c.toml")
        table = pq.read_table(folder / "c.parquet").to_pylist()
        assert collection.n_reports == sum(row["count"] for row in table)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "good.nc"
    result.save(lb.fit(Collection(["no", "yes"], Tally(GRR(2, 1.0), [0, 1], [6, 4])), draws=50, random_seed=1), path)
    return path.read_bytes()


@settings(fuzzed, max_examples=max(1, EXAMPLES // 30))
@given(seeds)
def test_mutated_results(saved, tmp_path_factory, seed):
    generator = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "r.nc"
    # Without its checksum, as an earlier version wrote it, a file is read in a second process, which takes a second.
    unsealed = generator.randrange(10) == 0
    path.write_bytes(mutate_bytes(saved[: -len(saving.SEAL)] if unsealed else saved, generator))
    with limited(), unittest.mock.patch.object(saving, "PATIENCE", SECONDS / 2):
        tree = result.load(path)
        for name in ("distribution", "frequency"):
            values = tree["posterior"][name].values
            assert (values >= 0).all() and np.allclose(values.sum(axis=-1), 1)
