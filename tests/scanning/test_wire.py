"""What other clients send: orders of bits, filters and hashes of others, and the version of the wire format."""

import hashlib
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes import hashing
from ldpbayes.protocols import GRR, LocalHashing, Rappor, SubsetSelection, UnaryEncoding
from ldpbayes.sources.parameters import VERSION, parse_protocol, protocol_text


@pytest.mark.parametrize("a", [3, 8, 12, 20])
def test_bits_with_the_lowest_first_are_the_same_reports(a):
    protocol = UnaryEncoding.optimized(a, 1.0)
    bits = np.unpackbits(protocol.privatize(np.arange(60) % a, np.random.default_rng(0)), axis=1, count=a)
    little = np.packbits(bits, axis=1, bitorder="little")
    digits = ["".join(map(str, row)) for row in bits]
    expected = lb.read(pd.DataFrame({"report": digits}), protocol)
    forms = {
        "bytes": {"report": list(map(bytes, little))},
        "hexadecimal": {"report": ["0x" + row.tobytes().hex() for row in little]},
        "text": {"report": [text[::-1] for text in digits]},
        "0b": {"report": ["0b" + text[::-1] for text in digits]},
    }
    if a > 8:  # one column of whole numbers is none of bytes
        forms["byte columns"] = {f"b{i}": column for i, column in enumerate(little.T)}
    for name, columns in forms.items():
        report = list(columns) if name == "byte columns" else None
        assert lb.read(pd.DataFrame(columns), protocol, report=report, bitorder="little") == expected, name
        found = lb.scan(pa.table(columns), protocol, report=report, keep=100, bitorder="little")
        assert found["all",].n_reports == 60
        again = lb.scan(pa.table({"report": digits}), protocol, keep=100)
        assert found == again, name


def test_an_order_is_big_or_little_and_of_bits():
    frame = pd.DataFrame({"report": ["010"]})
    for protocol, order in ((SubsetSelection(3, 1.0), "middle"), (GRR(3, 1.0), "little")):
        for read in (lb.read, lambda *args, **settings: lb.scan(pa.Table.from_pandas(args[0]), *args[1:], **settings)):
            with pytest.raises(lb.errors.ArgumentError) as caught:
                read(frame, protocol, bitorder=order)
            assert "bitorder" in str(caught.value)


def test_filters_of_google_rappor_by_name():
    """Bit i of a word is byte i of MD5 of the cohort and the word, as client/python/rappor.py has it."""
    words, settings = ["home", "news", "größe"], {"p": 0.5, "q": 0.75, "f": 0.25, "n_bits": 16, "cohorts": 4, "hashes": 2}
    positions = tuple(
        tuple(
            sorted({byte % 16 for byte in hashlib.md5(cohort.to_bytes(4, "big") + word.encode()).digest()[:2]})
            for cohort in range(4)
        )
        for word in words
    )
    ours = Rappor(3, assignment="md5", candidates=tuple(words), **settings)
    stated = Rappor(3, assignment="positions", positions=positions, **settings)
    for cohort in range(4):
        np.testing.assert_array_equal(ours.filters(cohort), stated.filters(cohort))
    reports = ours.privatize(np.arange(300) % 3, np.random.default_rng(0))
    assert np.array_equal(ours.rows(reports, np.ones(300)).dense(), stated.rows(reports, np.ones(300)).dense())
    assert parse_protocol(protocol_text(ours)).protocol == ours
    theirs = pd.DataFrame({"cohort": [0, 3], "irr": ["0110101011010010", "1100101001110011"]})
    mine = theirs.assign(irr=[text[::-1] for text in theirs["irr"]])
    report = ["cohort", "irr"]
    assert lb.read(theirs, ours, report=report, bitorder="little") == lb.read(mine, ours, report=report)
    key = bytes(32)
    assert ours.permanent_label("home", key).tolist() == ours.permanent_one(0, key).tolist()


#: XXH32 of texts by seed, as the reference implementation's own test has them for short inputs.
XXH32 = {("a", 0): 0x550D7456, ("abc", 0): 0x32D153FF, ("", 0): 0x02CC5D05, ("", 0x9E3779B1): 0x36B78AE7}


def test_xxh32_of_published_vectors():
    for (text, seed), value in XXH32.items():
        digits = [np.array([byte], dtype=np.uint32) for byte in text.encode()]
        assert int(hashing._xxh32(np.array([seed], dtype=np.uint32), digits)[0]) == value


def test_reports_of_pure_ldp_are_read_by_the_name_of_their_hash():
    """As its client makes them: xxh32(str(value), seed) mod g, over seeds of 32 bits."""
    import xxhash

    protocol, rng = LocalHashing(30, 1.0, family="xxhash"), np.random.default_rng(0)
    seeds, values = rng.integers(2**32, size=500), rng.integers(30, size=500)
    hashed = [
        xxhash.xxh32(str(x).encode(), seed=int(s)).intdigest() % protocol.buckets for x, s in zip(values, seeds, strict=True)
    ]
    frame = pd.DataFrame({"seed": seeds, "value": hashed})
    supports = protocol.rows(np.stack([seeds, hashed], axis=1), np.ones(500)).dense() > 1
    assert supports[np.arange(500), values].all()
    assert lb.scan(pa.Table.from_pandas(frame), protocol, keep=1000).n_reports == 500


def test_the_version_is_written_and_read():
    text = protocol_text(GRR(3, 1.0))
    assert json.loads(text)["version"] == VERSION == 1
    assert parse_protocol(text.replace('"version":1,', "")).protocol == GRR(3, 1.0)
    for other in (2, 0, "1", 1.0, True, None):
        with pytest.raises(lb.errors.DataError) as caught:
            parse_protocol(text.replace('"version":1', f'"version":{json.dumps(other)}'))
        assert "version" in str(caught.value) and caught.value.field == "protocol"
    table = lb.write([0, 1], None, GRR(3, 1.0))
    assert b'"version":1' in table.schema.metadata[b"ldpbayes.protocol"]
    newer = pa.array([text.replace('"version":1', '"version":2')] * 2)
    for read in (lb.read, lambda source: lb.scan(source)):
        with pytest.raises(lb.errors.DataError) as caught:
            read(pa.table({"report": [0, 1], "protocol": newer}))
        assert "version 2" in str(caught.value)


def test_the_command_line_reads_bits_with_the_lowest_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    protocol = UnaryEncoding.optimized(4, 1.0)
    bits = np.unpackbits(protocol.privatize(np.arange(40) % 4, np.random.default_rng(0)), axis=1, count=4)
    pd.DataFrame({"report": ["b" + "".join(map(str, row[::-1])) for row in bits]}).replace("^b", "0b", regex=True).to_csv(
        "r.csv", index=False
    )
    options = ["--protocol", "oue", "-p", "epsilon=1", "--n-categories", "4", "--bitorder", "little"]
    assert run(capsys, "scan", "r.csv", *options, "--output", "s.parquet")[0] == 0
    (cell,) = lb.read("s.parquet").values()
    rows = lb.collections.Tally(protocol, np.packbits(bits, axis=1))
    assert np.array_equal(cell.tallies[0].reports, rows.reports) and np.array_equal(cell.tallies[0].counts, rows.counts)
    assert run(capsys, "check", "r.csv", *options)[0] == 0
