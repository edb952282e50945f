"""Scans of several channels: an ε that changes over time, and protocols that a column states."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.collections import Summary
from ldpbayes.protocols import GRR, LocalHashing, SubsetSelection, UnaryEncoding
from ldpbayes.scanning import Partial, Scan

LEVELS = {1: 0.5, 2: 1.0, 3: 2.5}
PROTOCOLS = {
    "grr": lambda epsilon: GRR(5, epsilon),
    "oue": lambda epsilon: UnaryEncoding.optimized(20, epsilon),
    "olh": lambda epsilon: LocalHashing(20, epsilon, buckets=4),
}


def days(make, levels=LEVELS, n=200, seed=0, stated=False):
    """Return a table of reports with the columns country, day and eps, or the protocol that made each."""
    rng, tables = np.random.default_rng(seed), []
    for day, epsilon in levels.items():
        protocol = make(epsilon)
        reports = protocol.privatize(
            rng.choice(protocol.n_categories, size=n, p=np.full(protocol.n_categories, 1 / protocol.n_categories)), rng
        )
        table = lb.write(reports, None, protocol, country=rng.choice(["NL", "BE"], size=n), day=[day] * n)
        table = table.replace_schema_metadata(None).append_column("eps", pa.array([epsilon] * n))
        tables.append(table if stated else table.drop_columns(["protocol"]))
    return pa.concat_tables(tables)


def agree(found, expected, rtol=1e-10):
    """Check the cells of a scan against what read makes of the same rows."""
    assert list(found) == list(expected)
    for key, cell in found.items():
        tallies = {tally.protocol.epsilon: tally for tally in expected[key].tallies}
        if cell.keeps_reports:
            assert {tally.protocol.epsilon: tally for tally in cell.tallies} == tallies
            continue
        parts = [Summary.of(tally.rows, cell.pilot, cell.spread) for tally in tallies.values()]
        total = sum(parts)
        assert cell.n_reports == total.n_reports
        for name in ("value", "gradient", "square", "cross", "log_constant", "supports"):
            np.testing.assert_allclose(getattr(cell, name), getattr(total, name), rtol=rtol, err_msg=name)
        for channel in found.by_channel:
            if key in channel.cells:
                own = Summary.of(tallies[channel.protocol.epsilon].rows, cell.pilot, cell.spread)
                np.testing.assert_allclose(channel.cells[key].gradient, own.gradient, rtol=rtol)


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("by", [["country"], ["country", "day"]], ids=len)
def test_a_column_of_levels_is_a_channel_each(name, by):
    make = PROTOCOLS[name]
    table = days(make)
    found = lb.scan(table, make(1.0), by=by, epsilon_column="eps", keep=0)
    agree(found, lb.read(table, make(1.0), by=by, epsilon_column="eps"))
    assert [protocol.epsilon for protocol in found.protocols] == sorted(LEVELS.values())
    kept = lb.scan(table, make(1.0), by=by, epsilon_column="eps")  # fewer reports than a summary needs at the largest ε
    agree(kept, lb.read(table, make(1.0), by=by, epsilon_column="eps"))
    assert kept.keeps_reports
    stated = days(make, stated=True)
    assert lb.scan(stated, by=by, keep=0) == found == lb.scan(stated, make, by=by, epsilon_column="eps", keep=0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_files_pieces_and_bytes_make_the_same(name, tmp_path):
    make = PROTOCOLS[name]
    for day in LEVELS:
        pq.write_table(days(make, {day: LEVELS[day]}, seed=day), tmp_path / f"{day}.parquet")
    scan = Scan(tmp_path, make(1.0), by="country", epsilon_column="eps", sample=20, keep=0)
    whole = scan()
    fold, pieces = pickle.loads(pickle.dumps(scan.fold)), pickle.loads(pickle.dumps(scan.pieces()))

    def total(order, at=None):
        return sum(Partial.from_bytes(fold.partial(pieces[i], at).to_bytes()) for i in order)

    first = total([2, 0, 1])
    at = None if fold.countable else scan.fold.pilots(first)
    again = scan.fold.finish(first) if fold.countable else scan.fold.finish(first, total([1, 2, 0], at), at)
    assert again == whole
    assert [channel.samples for channel in again.by_channel] == [channel.samples for channel in whole.by_channel]
    for key, cell in whole.items():
        samples = [channel.samples[key] for channel in whole.by_channel if not cell.keeps_reports]
        assert cell.keeps_reports or cell.sample.n_reports == sum(len(s.keys) * cell.rate / s.rate for s in samples)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_files_of_summaries_hold_channels_and_add_up_by_channel(name, tmp_path):
    make = PROTOCOLS[name]
    table, pilot = days(make), np.full(5 if name == "grr" else 20, 1 / (5 if name == "grr" else 20))
    counted = make(1.0).countable()

    def scanned(rows):
        scan = Scan(rows, make(1.0), by="country", epsilon_column="eps", keep=0)
        return scan() if counted else scan.again(pilot)

    whole = scanned(table)
    lb.write(whole, tmp_path / "whole.parquet")
    back = lb.read(tmp_path / "whole.parquet")
    assert back == whole and back.protocols == whole.protocols
    parts = [scanned(table.filter(pa.compute.is_in(table["day"], pa.array(some)))) for some in ([1, 2], [2, 3])]
    assert [len(part.by_channel) for part in parts] == [2, 2]
    total = parts[0] + scanned(table.filter(pa.compute.equal(table["day"], 3)))
    assert [protocol.epsilon for protocol in total.protocols] == [0.5, 1.0, 2.5]
    agree(total, lb.read(table, make(1.0), by="country", epsilon_column="eps"))
    for i, part in enumerate(parts):
        lb.write(part, tmp_path / f"part-{i}.parquet")
    both = lb.read(str(tmp_path / "part-*.parquet"), copies="add")
    assert both.n_reports == 800 and [protocol.epsilon for protocol in both.protocols] == [0.5, 1.0, 2.5]
    if counted:
        assert np.isfinite(lb.fit(total, "jeffreys", draws=0)["summary"]["mean"]).all()


def test_a_pilot_of_several_levels_is_that_of_all_their_reports():
    """With many reports the pilot is within a posterior sd of the mean given the whole reports."""
    make = PROTOCOLS["oue"]
    table = days(make, {1: 0.5, 2: 1.0, 3: 1.4}, n=20_000)
    found = lb.scan(table, make(1.0), epsilon_column="eps")
    (cell,) = found.values()
    tree = lb.fit(found, "jeffreys", draws=0)["summary"].sel(target="distribution")
    away = (cell.pilot - tree["mean"].values.ravel()) / tree["sd"].values.ravel()
    assert (np.abs(away) < 1).all(), away
    alone = [Summary.of(t.rows, cell.pilot) for t in lb.read(table, make(1.0), epsilon_column="eps").tallies]
    assert np.allclose(cell.tangent_curvature, sum(alone).tangent_curvature)


@each_row(
    "change, words",
    [
        ({"protocol": None}, ["protocol", "epsilon_column"]),
        ({"protocol": lb.protocols.designs.warner(0.7)}, ["epsilon_column"]),
        ({"epsilon_column": "level"}, ["no column", "level"]),
        ({"eps": [0.5, -1.0]}, ["row 2", "epsilon", "-1"]),
        ({"eps": [0.5, None]}, ["row 2", "eps"]),
        ({"eps": ["much", "more"]}, ["row 1", "numbers", "much"]),
    ],
)
def test_bad_levels_are_one_sentence(change, words):
    given = {"protocol": GRR(3, 1.0), "epsilon_column": "eps"} | {k: v for k, v in change.items() if k != "eps"}
    table = pa.table({"report": [0, 1], "eps": pa.array(change.get("eps", [0.5, 1.0]))})
    with pytest.raises(lb.LDPBayesError) as caught:
        lb.scan(table, **given)
    assert all(word in str(caught.value) for word in words)


def test_rows_with_a_bad_level_are_left_out():
    table = pa.table({"report": [0, 1, 2, 1], "eps": pa.array([0.5, None, -1.0, 2.0])})
    with pytest.warns(lb.errors.LDPBayesWarning):
        found = lb.scan(table, GRR(3, 1.0), epsilon_column="eps", bad_rows="skip")
    assert found.n_reports == 2 and [protocol.epsilon for protocol in found.protocols] == [0.5, 2.0]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_that_the_caller_names_is_that_of_all_rows(name, tmp_path):
    """A wrong ε is refused with its row, in a column and in the metadata of files."""
    make = PROTOCOLS[name]
    table = days(make, {1: 1.0, 2: 2.0}, n=3, stated=True)
    pq.write_table(table, tmp_path / "a.parquet")
    for source in (tmp_path / "a.parquet", table):
        with pytest.raises(lb.errors.DataError) as caught:
            lb.scan(source, make(1.0))
        assert "row 4" in str(caught.value) and "the argument" in str(caught.value)
    for i, epsilon in enumerate((1.0, 2.0)):
        written = lb.write(make(epsilon).privatize([0, 1, 2], np.random.default_rng(0)), None, make(epsilon))
        pq.write_table(written.drop_columns(["protocol"]), tmp_path / f"m{i}.parquet")
        pq.write_table(written, tmp_path / f"c{i}.parquet")
    with pytest.raises(lb.errors.DataError) as caught:
        lb.scan(str(tmp_path / "m*.parquet"))
    assert "metadata" in str(caught.value)
    assert len(lb.scan(str(tmp_path / "c*.parquet")).protocols) == 2
    stale = written.drop_columns(["protocol"]).append_column(
        "protocol", pa.array([written["protocol"][0].as_py().replace("2.0", "0.7")] * 3)
    )
    with pytest.raises(lb.errors.DataError) as caught:
        lb.scan(stale)
    assert "metadata" in str(caught.value)


def test_counted_and_summed_reports_do_not_mix():
    rng, tables = np.random.default_rng(0), []
    for protocol in (UnaryEncoding.optimized(30, 1.0), SubsetSelection(30, 1.0)):
        tables.append(lb.write(protocol.privatize(np.arange(20), rng), None, protocol).replace_schema_metadata(None))
    assert len(lb.scan(pa.concat_tables(tables)).protocols) == 2
    grr = GRR(20, 1.0)
    texts = [dict(report=[f"{i}"], protocol=[lb.write([i], None, grr)["protocol"][0].as_py()]) for i in (1,)]
    hashed = UnaryEncoding.optimized(20, 1.0)
    bits = ["".join("01"[i == j] for j in range(20)) for i in range(2)]
    stated = lb.write(hashed.privatize([0], rng), None, hashed)["protocol"][0].as_py()
    mixed = pa.table({"report": [*bits, *texts[0]["report"]], "protocol": [stated, stated, *texts[0]["protocol"]]})
    with pytest.raises(lb.errors.DataError) as caught:
        lb.scan(mixed)
    assert "row 3" in str(caught.value) and "counted" in str(caught.value)


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(days(PROTOCOLS["oue"]), "r.parquet")
    options = ["--protocol", "oue", "-p", "epsilon=1", "--n-categories", "20", "--epsilon-column", "eps"]
    assert run(capsys, "scan", "r.parquet", *options, "--by", "country", "--output", "s.parquet")[0] == 0
    assert [protocol.epsilon for protocol in lb.read("s.parquet").protocols] == sorted(LEVELS.values())
    assert run(capsys, "fit", "r.parquet", *options, "--draws", "100")[0] == 0
