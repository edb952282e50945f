"""Mutated files of every format, read in a process of its own: ``python tests/support/fuzzing.py FIRST EXAMPLES``.

A C library that hangs, crashes or takes all memory ends this process, and its last line names the format and the seed.
"""

import csv
import faulthandler
import pathlib
import random
import re
import resource
import struct
import sys
import tempfile
import unittest.mock
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import ldpbayes as lb
from ldpbayes import read, result, write
from ldpbayes.errors import LDPBayesError
from ldpbayes.protocols import GRR, Channel, HadamardResponse, LocalHashing, SubsetSelection, UnaryEncoding, designs
from ldpbayes.result import saving
from ldpbayes.scanning import scan
from ldpbayes.sources.parameters import protocol_text

SECONDS = 60  # for one example: what takes so long, on however busy a machine, hangs
MEMORY = 700 * 2**20  # bytes of address space above those in use; one column of a batch has 2^27 bytes at most

NUMBERS = ["0", "-1", "1", "2", "1e30", "1e400", "nan", "inf", "-inf", "0.5", "1000000000", "1000000000001", "9" * 4400]
NUMBERS += ["1.0", "1_0", "0x10", "٣", "５", "1e-300", "true", '"1/0"', '"1/6"', '"ln(3)"', "[]", "{}", "1979-05-27", '""']
PIECES = ["\0", "\x1b[2J", "\u202e", "\ufeff", "\r", "\n", "\n\n", ",", '"', "'", '"""', "[", "]", "[[", "{", "}", "=", "."]
PIECES += [
    "/",
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
    "x" * 300,
    "a.a.a.a.a.a.a.a.a = 1\n",
]
PIECES += ["by = 'report'\n", "where = { report = 'red' }\n", "n = 3\n", "[derived.distribution]\nof = ['red']\n", "count"]
PIECES += ["by_user = 'report'\n", "weight = 'count'\n", "ordered = true\n", "null", "NaN", "=cmd|' /C calc'!A0", "$_{$"]


# ---- mutations -------------------------------------------------------------------------------------------------------
def mutate_text(text, random):
    """Return text with one to four changes: of letters, numbers, words, lines, or fields between commas."""
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        lines = text.split("\n")
        i, j = sorted(random.randrange(len(text) + 1) for _ in range(2))
        line = random.randrange(len(lines))
        match random.randrange(12):
            case 0:
                text = text[:i] + text[min(j, i + random.randrange(1, 20)) :]
            case 1:
                text = text[:i] + random.choice(PIECES) + text[i:]
            case 2:
                text = text[:i] + chr(random.choice([random.randrange(128), random.randrange(0x300)])) + text[i + 1 :]
            case 3 | 4:
                spots = list(re.finditer(r"[0-9][0-9.e+-]*", text))
                if spots:
                    spot = random.choice(spots)
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
            case 10 | 11:
                fields = lines[line].split(",")
                k = random.randrange(len(fields))
                fields[k : k + 1] = random.choice(
                    [[], [""], [random.choice(PIECES)], fields[k : k + 1] * 2, [random.choice(fields)]]
                )
                text = "\n".join([*lines[:line], ",".join(fields), *lines[line + 1 :]])
    return text


def mutate_bytes(data, random, low=0):
    """Return bytes with one to four changes behind ``low``: noise, runs, missing pieces, other numbers."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        i = random.randrange(min(low, len(data) - 1), len(data)) if data else 0
        width = random.choice([1, 1, 2, 4, 8, 100])
        match random.randrange(6):
            case 0 | 1:
                data[i : i + width] = random.randbytes(width)
            case 2:
                data[i : i + width] = bytes([random.choice([0, 255])]) * width
            case 3:
                data = data[: random.choice([i, len(data) - 1, 8])]
            case 4:
                del data[i : i + width]
            case 5:
                number = random.choice([0, 1, -1, 2**31 - 1, 2**20, 2**40, 2**63 - 1])
                data[i : i + 8] = random.choice([struct.pack("<q", number), varint(number)])
    return bytes(data)


def varint(number):
    """Return a number as Thrift's compact protocol writes it, as in the footer and the pages of a Parquet file."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def mutate_parquet(data, random):
    """Change a Parquet file: somewhere, in its footer, or in the headers of its first pages."""
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    match random.randrange(4):
        case 0:
            return mutate_bytes(data, random)
        case 1 | 2:
            mutated = mutate_bytes(data[footer:-8], random)
            return data[:footer] + mutated + len(mutated).to_bytes(4, "little") + b"PAR1"
        case _:
            return data[:4] + mutate_bytes(data[4:40], random) + data[40:]


# ---- good files and what is read -------------------------------------------------------------------------------------
ABC = ["red", "green", "blue"]


def protocols():
    yield GRR(3, 1.0)
    yield UnaryEncoding.optimized(3, 1.0)
    yield SubsetSelection(3, 1.0, 2)
    yield HadamardResponse(3, 1.0)
    yield LocalHashing(3, 1.0)
    yield Channel([[0.5, 0.2, 0.3], [0.5, 0.8, 0.7]])
    yield designs.forced_response(0.7, [1, 2, 1])


def made(protocol, n, rng):
    return protocol.privatize(rng.integers(protocol.n_categories, size=n), rng)


class Fuzz:
    """The formats: each method takes a random generator, writes a mutated file and reads it."""

    def __init__(self, folder):
        self.folder, rng = pathlib.Path(folder), np.random.default_rng(1)
        self.stated, self.parquets, self.summaries = [], [], []
        for i, protocol in enumerate(protocols()):
            reports = made(protocol, 30, rng)
            keys = {"country": ["NL", "BE"] * 15, "who": [str(k % 20) for k in range(30)]}
            path = self.folder / f"good{i}.parquet"
            write(reports, path, protocol, categories=ABC, **keys)
            self.parquets.append(path.read_bytes())
            columns = {**dict(zip(protocol.report_fields, protocol.format_reports(reports, ABC), strict=True)), **keys}
            frame = pd.DataFrame(columns | {"protocol": protocol_text(protocol, ABC)})
            frame.to_csv(self.folder / f"good{i}.csv", index=False)
            self.stated.append((self.folder / f"good{i}.csv").read_bytes())
            assert read(path).n_reports == read(path.with_suffix(".csv")).n_reports == 30
            path = self.folder / f"summary{i}.parquet"
            write(scan(str(self.folder / f"good{i}.parquet"), by="country"), path)
            assert read(path).n_reports == 30
            self.summaries.append(path.read_bytes())
        self.typed = [self._typed(column) for column in self._columns()]
        self.plain = "report,count,group\nred,3,a\ngreen,4,a\nblue,5,b\n"
        tree = lb.fit(lb.Collection(["no", "yes"], lb.Tally(GRR(2, 1.0), [0, 1], [6, 4])), draws=50, random_seed=1)
        lb.save(tree, self.folder / "good.nc")
        self.saved = (self.folder / "good.nc").read_bytes()

    def _columns(self):
        """Yield columns of every type that may hold reports of three categories, or none."""
        yield pa.array(ABC * 10)
        yield pa.array(ABC * 10).dictionary_encode()
        yield pa.array([0, 1, 2] * 10, pa.int8())
        yield pa.array([0, 1, 2] * 10, pa.uint64())
        yield pa.array([0, 1, 2] * 10, pa.decimal128(5, 0))
        yield pa.array([True, False, True] * 10)
        yield pa.array([b"\x80", b"\x40", b"\x20"] * 10)
        yield pa.array([b"\x80", b"\x40", b"\x20"] * 10, pa.binary(1))
        yield pa.array([[True, False, True], [False, True, False]] * 15)
        yield pa.array([["red"], ["green", "blue"], []] * 10)
        yield pa.array([0.0, -0.0, 1.5] * 10)
        yield pa.array(pd.date_range("2024-10-27", periods=30, freq="h", tz="Europe/Amsterdam"))

    def _typed(self, column):
        settings = {"compression": "none"} if len(column) % 2 else {"compression": "zstd", "data_page_size": 64}
        path = self.folder / "typed.parquet"
        pq.write_table(pa.table({"report": column, "count": [3, 2, 1] * 10}), path, row_group_size=12, **settings)
        return path.read_bytes()

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        return path

    def options(self, random):
        """Return arguments that go with some files and not with others."""
        found = {}
        if random.randrange(3) == 0:
            found["by"] = random.choice(["country", "report", "group", ["country", "who"]])
        if random.randrange(6) == 0:
            found["by_user"] = "who"
        return found | self.bad_rows(random)

    def bad_rows(self, random):
        return {"bad_rows": "skip", "quarantine": self.folder / "bad.csv"} if random.randrange(4) == 0 else {}

    def read_csv_with_protocol(self, random):
        path = self.write("stated.csv", mutate_text(random.choice(self.stated).decode(), random))
        found = read(path, **self.options(random))
        assert 0 < found.n_reports <= rows_of(path)

    def read_csv_without(self, random):
        path = self.write("plain.csv", mutate_text(self.plain, random))
        count = random.choice([None, "count"])
        found = read(path, GRR(3, 1.0), report="report", count=count, categories=ABC, **self.options(random))
        assert found.n_reports <= (rows_of(path) if count is None else 10**12)

    def read_csv_by_two_doors(self, random):
        path = self.write("plain.csv", mutate_text(self.plain, random))
        settings, found = {"by": random.choice([None, "country"])} | self.bad_rows(random), []
        for door in (read, lambda *args, **settings: scan(*args, **settings)):
            try:
                found.append(door(path, GRR(3, 1.0), report="report", categories=ABC, **settings).n_reports)
            except LDPBayesError:
                found.append(None)
        assert found[0] == found[1]

    def read_parquet_with_protocol(self, random):
        path = self.write("stated.parquet", mutate_parquet(random.choice(self.parquets), random))
        door = random.choice([read, lambda path, by_user=None, **settings: scan(str(path), **settings)])
        found = door(path, **self.options(random))
        assert 0 < found.n_reports <= 30

    def read_parquet_of_any_type(self, random):
        path = self.write("typed.parquet", mutate_parquet(random.choice(self.typed), random))
        protocol = random.choice([GRR(3, 1.0), UnaryEncoding.optimized(3, 1.0)])
        categories, by = random.choice([None, ABC]), random.choice([None, "report", "count"])
        report = "count" if by == "report" else "report"
        door = random.choice([read, lambda path, *args, **settings: scan(str(path), *args, **settings)])
        skip = self.bad_rows(random)
        found = door(path, protocol, report=report, by=by, categories=categories, **skip)
        assert found.n_reports == 30 or (skip and found.n_reports < 30)

    def read_summaries(self, random):
        path = self.write("summary.parquet", mutate_parquet(random.choice(self.summaries), random))
        for cell in read(path).values():
            assert 0 < cell.n_reports <= 10**12

    def read_results(self, random):
        # Without its checksum, as an earlier version wrote it, a file is read in a second process, which takes a second.
        unsealed = random.randrange(40) == 0
        path = self.write("r.nc", mutate_bytes(self.saved[: -len(saving.SEAL)] if unsealed else self.saved, random))
        with unittest.mock.patch.object(saving, "PATIENCE", 10):
            tree = result.load(path)
        values = tree["posterior"]["distribution"].values
        assert (values >= 0).all() and np.allclose(values.sum(axis=-1), 1)

    def read_population(self, random):
        path = self.write("people.csv", mutate_text("value,count\nyoung,100\nold,250\n", random))
        assert lb.theory.population(path).counts.sum() <= 10**12


def rows_of(path):
    with open(path, encoding="utf-8-sig", newline="") as handle:
        return sum(1 for row in csv.reader(handle) if row) - 1


FORMATS = [name for name in vars(Fuzz) if name.startswith("read_")]


def run(fuzz, seed):
    """Read one mutated file; return "read", or the sentence of its refusal."""
    generator = random.Random(seed)
    name = FORMATS[seed % len(FORMATS)]
    print(name, seed, flush=True)
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(fuzz, name)(generator)
        return "read"
    except LDPBayesError as err:
        assert str(err) and str(err).isprintable() and len(str(err)) <= 2000
        return str(err)
    finally:
        faulthandler.cancel_dump_traceback_later()


def main(first, examples):
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(folder)
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        n_read = sum(run(fuzz, seed) == "read" for seed in range(first, first + examples))
    print(f"{n_read} of {examples} were read, the others refused")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
