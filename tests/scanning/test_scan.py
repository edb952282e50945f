"""Scans against read on the same rows: every kind of source, passes, files of summaries, failures, resumption."""

import contextlib
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.cli import options
from ldpbayes.protocols import (
    GRR,
    CohortRR,
    HadamardResponse,
    LocalHashing,
    PooledHashing,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
    designs,
)
from ldpbayes.scanning import ChannelCells, Fold, Found, Partial, Scan, pilots

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).parents[2]

COUNTED = {
    "grr": GRR(5, 1.0),
    "warner": designs.warner(0.7),
    "hadamard": HadamardResponse(6, 1.0),
    "cohorts": CohortRR(5, 1.0, buckets=2, cohorts=8),
    "short bits": UnaryEncoding.optimized(11, 1.0),
    "seed pool": PooledHashing(20, 1.0, seeds=32),
    "few sets": SubsetSelection(5, 1.0),
}
SUMMED = {
    "oue": UnaryEncoding.optimized(20, 1.0),
    "sue": UnaryEncoding.symmetric(37, 1.2),
    "subset": SubsetSelection(30, 1.0),
    "olh": LocalHashing(20, 1.0),
    "olh-xxhash": LocalHashing(20, 1.0, family="xxhash"),
    "rappor": Rappor.one_time(20, 1.0, 16, 3, 2, candidates=tuple(f"c{i}" for i in range(20))),
}
PROTOCOLS = COUNTED | SUMMED


def packed(reports):
    """Return canonical packed reports as a column of fixed-size bytes."""
    data = pa.py_buffer(np.ascontiguousarray(reports).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(reports.shape[1]), len(reports), [None, data])


def table_of(protocol, n=600, seed=0):
    """Return an Arrow table of n reports with the columns country and day."""
    rng = np.random.default_rng(seed)
    values = rng.choice(protocol.n_categories, size=n, p=rng.dirichlet(np.ones(protocol.n_categories)))
    reports = protocol.privatize(values, rng)
    fields = protocol.report_fields
    if fields == ("cohort", "bits"):
        texts = protocol.format_reports(reports, [str(i) for i in range(protocol.n_categories)])
        columns = dict(zip(fields, texts, strict=True))
    elif reports.dtype == np.uint8:
        columns = {fields[0]: packed(reports)}
    else:
        columns = dict(zip(fields, reports.reshape(n, -1).T, strict=True))
    keys = {"country": rng.choice(["NL", "BE", "FR"], size=n), "day": rng.integers(8, 11, size=n)}
    return pa.table(columns | keys)


def agree(found, expected, rtol=1e-10):
    """Check the cells of a scan against collections of the same rows."""
    assert list(found) == list(expected)
    for key, cell in found.items():
        if found.protocol.countable():
            assert cell.tallies[0] == expected[key].tallies[0]
            continue
        rows = lb.collections.Summary.of(expected[key].likelihood, cell.pilot, cell.spread)
        assert cell.n_reports == rows.n_reports
        np.testing.assert_array_equal(cell.supports, rows.supports)
        for name in ("value", "gradient", "square", "cross", "log_constant"):
            np.testing.assert_allclose(getattr(cell, name), getattr(rows, name), rtol=rtol, err_msg=name)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_against_read_frame(name):
    protocol = PROTOCOLS[name]
    table = table_of(protocol)
    found = lb.scan(table, protocol, by=["country", "day"])
    agree(found, lb.read(table, protocol, by=["country", "day"]))
    assert found.by == ("country", "day") and found.n_reports == 600


def sources(table, folder):
    """Yield (name, source) of every kind that holds this table."""
    import duckdb

    path = folder / "all.parquet"
    pq.write_table(table, path, row_group_size=100)
    yield "path", path
    yield "pattern", str(folder / "*.parquet")
    yield "folder", folder
    yield "list of paths", [str(path)]
    yield "table", table
    yield "batch", table.combine_chunks().to_batches()[0]
    yield "dataset", pyarrow.dataset.dataset(path)
    yield "duckdb", duckdb.sql(f"select * from read_parquet('{path}')")
    yield "polars", polars.from_arrow(table)
    yield "polars, lazy", polars.scan_parquet(path)
    yield "pandas", table.to_pandas()


@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
def test_every_source(name, tmp_path):
    protocol = PROTOCOLS[name]
    table = table_of(protocol)
    expected = lb.read(table, protocol, by="country")
    for kind, source in sources(table, tmp_path):
        found = lb.scan(source, protocol, by="country")
        agree(found, expected)
        assert found.n_reports == 600, kind


@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
def test_every_format_of_files(name, tmp_path):
    """CSV, JSON lines and Arrow are read and scanned to the cells of the table, and name the row of a bad report."""
    protocol = PROTOCOLS[name]
    table = table_of(protocol)
    if pa.types.is_fixed_size_binary(table.schema.field("report" if name != "olh" else "seed").type):
        texts = protocol.format_reports(
            np.array([list(entry) for entry in table["report"].to_pylist()], np.uint8), list(map(str, range(20)))
        )[0]
        table = table.set_column(0, "report", pa.array(list(texts)))
    expected = lb.read(table, protocol, by="country")
    rows = table.to_pylist()
    bad = [*rows[:30], rows[30] | {table.column_names[0]: "none"}, *rows[31:]]
    for suffix, where in {".csv": "line 32", ".jsonl": "", ".arrow": "row 31"}.items():
        path = tmp_path / f"x{suffix}"
        for written in (rows, bad):
            columns = {key: [str(row[key]) if written is bad else row[key] for row in written] for key in rows[0]}
            if suffix == ".csv":
                pandas.DataFrame(columns).to_csv(path, index=False)
            elif suffix == ".jsonl":
                lines = zip(*columns.values(), strict=True)
                path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in lines))
            else:
                pyarrow.feather.write_feather(pa.table(columns), path)
            if written is rows:
                agree(lb.scan(path, protocol, by="country"), expected)
                assert lb.read(path, protocol, by="country") == expected
        for call in (
            lambda path=path: lb.scan(path, protocol, by="country"),
            lambda path=path: lb.read(path, protocol, by="country"),
        ):
            with pytest.raises(lb.errors.DataError, match=rf"x{suffix}.*{where}.*'?none'?"):
                call()


def test_a_checkpoint_of_csv_files(tmp_path):
    for i in range(2):
        pandas.DataFrame({"report": ["0", "1"], "country": ["NL", "BE"]}).to_csv(tmp_path / f"{i}.csv", index=False)
    found = lb.scan(str(tmp_path / "*.csv"), GRR(3, 1.0), by="country", checkpoint=tmp_path / "state")
    assert [cell.n_reports for cell in found.values()] == [2, 2] and (tmp_path / "state").exists()
    lb.write(found, tmp_path / "cells.parquet")
    assert not (tmp_path / "state").exists()


@each_row(
    "content, sentence",
    [
        ('report,g\n0,a\n"1,b\n2,c\n', "x.csv.*4:.*unexpected"),
        ('report,g\n0,a\n1,"b\n2,c\n', "x.csv.*4:.*unexpected"),
        ("report,g\n0,a\n1,b,c\n", "x.csv.*3:.*3 cells.*2"),
        ("report,g\n0,a\n\n\n7,b\n", "x.csv.*5,.*'report'.*'7'"),
        ('report,g\n"0",a\n1,"b\nb"\n7,b\n', "x.csv.*5,.*'report'.*'7'"),
        ("report,g\n0,a\n1,\n", "x.csv.*3,.*'g'"),
        ("report,g", "no rows"),
    ],
)
def test_scans_of_csv_name_the_line(content, sentence, tmp_path):
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(lb.errors.DataError, match=sentence):
        lb.scan(tmp_path / "x.csv", GRR(3, 1.0), by="g")


def test_a_reader_serves_one_pass_only():
    grr, oue = table_of(PROTOCOLS["grr"]), table_of(PROTOCOLS["oue"])
    agree(lb.scan(grr.to_reader(), PROTOCOLS["grr"], by="country"), lb.read(grr, PROTOCOLS["grr"], by="country"))
    with pytest.raises(lb.errors.ArgumentError, match="read once"):
        lb.scan(oue.to_reader(), PROTOCOLS["oue"])


def forms(reports, a):
    """Yield (name, column) of every form in which a table holds sets."""
    members = np.unpackbits(reports, axis=1, count=a)
    yield "fixed-size bytes", packed(reports)
    yield "bytes", pa.array(list(map(bytes, reports)), pa.binary())
    yield "large bytes", pa.array(list(map(bytes, reports)), pa.large_binary())
    yield "booleans", pa.array(list(members.astype(bool)))
    yield "fixed-size booleans", pa.FixedSizeListArray.from_arrays(pa.array(members.astype(bool).ravel()), a)
    yield "zeros and ones", pa.FixedSizeListArray.from_arrays(pa.array(members.ravel()), a)
    yield "positions", pa.array([np.flatnonzero(row) for row in members])
    yield "bits in text", pa.array(["".join(map(str, row)) for row in members])


@pytest.mark.parametrize("protocol", [SUMMED["oue"], COUNTED["short bits"]], ids=["summed", "counted"])
def test_every_form_of_a_set(protocol):
    rng = np.random.default_rng(4)
    reports = protocol.privatize(rng.integers(protocol.n_categories, size=200), rng)
    country = rng.choice(["NL", "BE"], size=200)
    first = None
    for name, column in forms(reports, protocol.n_categories):
        found = lb.scan(pa.table({"bits": column, "country": country}), protocol, report="bits", by="country")
        first = first or found
        assert found == first, name
    members = np.unpackbits(reports, axis=1, count=protocol.n_categories)
    for kind, columns in {"bytes": reports.T, "zeros and ones": members.T, "booleans": members.T.astype(bool)}.items():
        table = pa.table({f"{i}": values for i, values in enumerate(columns)} | {"country": country})
        assert lb.scan(table, protocol, report=[f"{i}" for i in range(len(columns))], by="country") == first, kind
    with pytest.raises(lb.errors.DataError, match=r"'1': row 3:.*got 2"):
        wrong = {str(i): pa.array(values) for i, values in enumerate(members.T)} | {"1": pa.array([0, 0, 2] + 197 * [0])}
        lb.scan(pa.table(wrong), protocol, report=list(wrong))


def test_without_grouping_columns_there_is_one_cell():
    protocol = SUMMED["subset"]
    found = lb.scan(table_of(protocol), protocol)
    assert list(found) == [("all",)] and found["all"].n_reports == 600


def test_labels_are_read_and_kept():
    table = pa.table({"answer": ["b", "a", "b", "c"], "country": ["NL", "BE", "NL", "NL"]})
    found = lb.scan(table, GRR(3, 1.0), report="answer", by="country", categories=["a", "b", "c"])
    assert found["NL",].categories == ("a", "b", "c")
    assert found["NL",].tallies[0].reports.tolist() == [1, 2] and found["NL",].tallies[0].counts.tolist() == [2, 1]


# ---- the fold ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["grr", "oue", "rappor"])
def test_the_pieces_of_a_scan_make_the_same(name, tmp_path):
    """Partials of pieces, sent through pickle and bytes and added in any order, give the result of the scan."""
    protocol = PROTOCOLS[name]
    for i in range(3):
        pq.write_table(table_of(protocol, 300, seed=i), tmp_path / f"{i}.parquet")
    scan = Scan(tmp_path, protocol, by=["country"], sample=50)
    whole = scan()
    fold, pieces = pickle.loads(pickle.dumps(scan.fold)), pickle.loads(pickle.dumps(scan.pieces()))
    assert len(pieces) == 3

    def total(order, at=None):
        return sum(Partial.from_bytes(fold.partial(pieces[i], at).to_bytes()) for i in order)

    first = total([2, 0, 1])
    if scan.fold.countable:
        assert fold.finish(first) == whole
    else:
        at = fold.pilots(first)
        again = fold.finish(first, total([1, 2, 0], at), at)
        assert again == whole and again.samples == whole.samples
    assert lb.scan(tmp_path, protocol, by=["country"], sample=50, jobs=2) == whole


def test_an_arrow_batch_is_a_piece():
    protocol = SUMMED["oue"]
    table = table_of(protocol)
    scan = Scan(table, protocol, by="country")
    first = sum(scan.fold.partial(batch) for batch in table.to_batches(100))
    at = scan.fold.pilots(first)
    second = sum(scan.fold.partial(batch, at) for batch in table.to_batches(150))
    agree(scan.fold.finish(first, second, at), lb.read(table, protocol, by="country"))


def test_cells_that_share_a_pilot_add_up():
    protocol = SUMMED["oue"]
    table = table_of(protocol)
    found = lb.scan(table, protocol, by=["country", "day"], pilot_by="country", sample=20)
    assert len({cell.pilot.tobytes() for cell in found.values()}) == 3
    countries = found.added("country")
    assert list(countries) == [("BE",), ("FR",), ("NL",)]
    agree(countries, lb.read(table, protocol, by="country"))
    assert countries.samples["NL",].level >= max(found.samples[key].level for key in found if key[0] == "NL")
    with pytest.raises(lb.errors.ArgumentError, match=r"different pilots.*pilot_by"):
        found.added()
    half = len(table) // 2
    parts = [Scan(part, protocol, by="country") for part in (table[:half], table[half:])]
    with pytest.raises(lb.errors.ArgumentError, match="different pilots"):
        parts[0]() + parts[1]()
    pilot = np.full(20, 1 / 20)
    agree(parts[0].again(pilot) + parts[1].again(pilot), lb.read(table, protocol, by="country"))


def test_again_expands_at_given_pilots_with_a_spread():
    protocol = SUMMED["subset"]
    table = table_of(protocol)
    scan = Scan(table, protocol, by="country")
    rng = np.random.default_rng(1)
    points = rng.dirichlet(np.ones(30), size=3)
    found = scan.again(points, (0.3 * points) ** 2)
    agree(found, lb.read(table, protocol, by="country"))
    np.testing.assert_allclose(found["FR",].pilot, points[1])
    assert found == scan.again(dict(zip(found, points, strict=True)), (0.3 * points) ** 2)
    with pytest.raises(lb.errors.ArgumentError, match=r"every cell.*NL"):
        scan.again({("BE",): points[0], ("FR",): points[1]})
    with pytest.raises(lb.errors.ArgumentError, match="are counted"):
        Scan(table_of(COUNTED["grr"]), COUNTED["grr"]).again(points)


def test_the_pilot_is_the_mean_given_the_support_counts():
    """Against a grid over the simplex of three categories, for the likelihood of the support counts alone."""
    protocol, n = UnaryEncoding.optimized(3, 1.0), 400
    supports = protocol.simulate_support_counts([200, 150, 50], np.random.default_rng(2))
    step = np.linspace(0, 1, 201)
    first, second = np.meshgrid(step, step, indexing="ij")
    p = np.stack([first, second, 1 - first - second], axis=-1)[first + second <= 1 + 1e-12]
    g, h = protocol.hit_rates
    q = h + (g - h) * p
    covariance = np.einsum("kx,xy->kxy", q * (1 - q) + (g - h) ** 2 * p**2, np.eye(3))
    covariance = n * (covariance - (g - h) ** 2 * np.einsum("kx,ky->kxy", p, p))
    off = supports - n * q
    log_density = -0.5 * np.einsum("kx,kx->k", off, np.linalg.solve(covariance, off[..., None])[..., 0])
    log_density -= 0.5 * np.linalg.slogdet(covariance)[1]
    log_density -= 0.5 * np.log(np.maximum(p, step[1] / 4)).sum(axis=1)
    weight = np.exp(log_density - log_density.max())
    mean = weight @ p / weight.sum()
    sd = np.sqrt(weight @ (p - mean) ** 2 / weight.sum())
    (found,), (variance,) = pilots.posterior_moments([pilots.of_supports(protocol, [n], [supports])], (1, 3))
    assert (np.abs(found - mean) < 0.15 * sd).all() and (np.abs(np.sqrt(variance) / sd - 1) < 0.1).all()


def test_small_cells_keep_their_reports_where_a_summary_would_be_off():
    protocol = UnaryEncoding.optimized(20, 3.0)
    table = table_of(protocol)
    found = lb.scan(table, protocol, by=["country", "day"], pilot_by="country")
    assert found == lb.read(table, protocol, by=["country", "day"], categories=found.categories)
    sizes = lb.read(table, protocol, by="country").sizes
    some = lb.scan(table, protocol, by=["country", "day"], pilot_by="country", keep=int(np.sort(sizes)[1]))
    whole = {key[0] for key, cell in some.items() if cell.likelihood.rows() is not None}
    assert len(whole) == 1 and len(some.added("country")) == 3
    with pytest.raises(lb.errors.ArgumentError, match=r"kept.*summaries"):
        some.added()


@pytest.mark.calibrate
def test_the_posterior_is_that_of_the_reports(tmp_path):
    """From files to fit in one call, against the surrogate on the reports themselves."""
    protocol = SUMMED["oue"]
    pq.write_table(table_of(protocol, 3000), tmp_path / "a.parquet")
    found = lb.fit(lb.scan(tmp_path, protocol, by="country"), "jeffreys", draws=0)["summary"]
    cells = lb.read(table_of(protocol, 3000), protocol, by="country")
    for key, cell in cells.items():
        whole = lb.fit(cell, "jeffreys", "surrogate", random_seed=1, estimates=False)["summary"].sel(target="distribution")
        here = found.sel(target="distribution", cell=key[0])
        sd = whole["sd"].values
        assert (np.abs(here["mean"].values - whole["mean"].values) < 0.1 * sd).all()
        np.testing.assert_allclose(here["sd"].values, sd, rtol=0.1)


# ---- files of summaries --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["grr", "hadamard", "short bits", "oue", "olh", "rappor"])
def test_summaries_come_back_from_a_file(name, tmp_path):
    protocol = PROTOCOLS[name]
    found = lb.scan(table_of(protocol), protocol, by=["country", "day"], sample=30)
    lb.write(found, tmp_path / "summaries.parquet")
    back = lb.read(tmp_path / "summaries.parquet")
    assert back == found and back.protocol == protocol and back.samples == found.samples
    assert pandas.read_parquet(tmp_path / "summaries.parquet")["country"].tolist() == [key[0] for key in found]


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_files_of_summaries_are_read_together(name, tmp_path):
    """One day a file, as a job of every night writes them; counted cells of the same key add up."""
    protocol, table = PROTOCOLS[name], table_of(PROTOCOLS[name])
    whole, paths = lb.scan(table, protocol, by=["country", "day"]), []
    for day in sorted(set(table["day"].to_pylist())):
        paths.append(tmp_path / f"{day}.parquet")
        lb.write(lb.scan(table.filter(pc.equal(table["day"], day)), protocol, by=["country", "day"]), paths[-1])
    for source in (paths, tmp_path / "*.parquet", tmp_path):
        found = lb.read(source)
        assert set(found) == set(whole) and all(found[key] == whole[key] for key in whole)
    lb.write(lb.scan(table, protocol, by="country"), tmp_path / "other.parquet")
    with pytest.raises(lb.errors.ArgumentError, match="scans must"):
        lb.read([paths[0], tmp_path / "other.parquet"])
    lb.write([0], tmp_path / "reports.parquet", GRR(3, 1.0))
    with pytest.raises(lb.errors.DataError, match=r"reports\.parquet:.*summaries"):
        lb.read([paths[0], tmp_path / "reports.parquet"])
    twice = [paths[0], shutil.copy(paths[0], tmp_path / "copy.parquet")]
    if protocol.countable():
        with pytest.raises(lb.errors.ArgumentError, match=r'same reports.*copies="add"'):
            lb.read(twice)
        assert lb.read(twice, copies="add").n_reports == 2 * lb.read(paths[0]).n_reports
    else:
        lb.write(lb.scan(table, protocol), tmp_path / "all.parquet")
        with pytest.raises(lb.errors.ArgumentError, match="same reports"):
            lb.read([tmp_path / "all.parquet", shutil.copy(tmp_path / "all.parquet", tmp_path / "again.parquet")])


def test_other_files_are_no_summaries(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(lb.errors.ArgumentError, match="protocol must"):
        lb.read(tmp_path / "a.parquet")


ONE_REPORT = bytes([1, 0, 0, 0, 3, 0, 0, 0, 128, 0, 0])
DAMAGED_SUMMARIES = {
    "no reports": ({"n_reports": 0.0}, "'n_reports': must hold numbers above 0"),
    "fewer than none": ({"n_reports": -5.0}, "'n_reports': must hold numbers above 0"),
    "negative pilot": ({"pilot": [1.05, *[0.0] * 18, -0.05]}, "'pilot': must hold probabilities that add up to one"),
    "pilot of another sum": ({"pilot": [0.5] * 20}, "'pilot': must hold probabilities that add up to one"),
    "negative spread": ({"spread": [-1.0] * 20}, "'spread': must hold no negative numbers"),
    "negative supports": ({"supports": [-1.0] * 20}, "'supports': must hold no negative numbers"),
    "infinite": ({"cross": [np.inf] * 20}, "'cross': must hold 20 finite numbers a cell"),
    "sample alone": ({"sample_level": 3}, "'sample_reports': holds a sample that was cut off"),
    "sample without keys": (
        {"sample_level": 3, "sample_keys": None, "sample_reports": ONE_REPORT},
        "'sample_keys': must hold 1 whole",
    ),
    "reports without counts": ({"reports": ONE_REPORT}, "'counts': must hold 1 whole numbers"),
    "other counts": ({"reports": ONE_REPORT, "counts": [7]}, r"counts add up to 7, but n_reports says \d+\.0"),
    "reports of another protocol": ({"reports": ONE_REPORT[:-1] + b"\1"}, "parquet: a report has bits set beyond its 20"),
}


@pytest.fixture(scope="module")
def summaries():
    """Return a table of summaries."""
    protocol = PROTOCOLS["oue"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "s.parquet"
        lb.write(lb.scan(table_of(protocol), protocol, by="country"), path)
        return pq.read_table(path)


@each_row("name", DAMAGED_SUMMARIES)
def test_damaged_summaries_are_one_sentence(name, summaries, tmp_path):
    changes, sentence = DAMAGED_SUMMARIES[name]
    table = summaries
    for column, value in changes.items():
        kind = table.schema.field(column)
        entries = pa.array([value] * len(table), kind.type)
        table = table.set_column(table.schema.get_field_index(column), kind, entries)
    pq.write_table(table, tmp_path / "s.parquet")
    with pytest.raises(lb.errors.DataError, match=sentence) as caught:
        lb.read(tmp_path / "s.parquet")
    assert "s.parquet" in str(caught.value)


def test_changed_bytes_of_summaries_are_refused_or_change_nothing(tmp_path):
    found, path, rng = (
        lb.scan(table_of(PROTOCOLS["oue"]), PROTOCOLS["oue"]),
        tmp_path / "s.parquet",
        np.random.default_rng(5),
    )
    lb.write(found, path)
    raw, refused = path.read_bytes(), 0
    for place in rng.integers(0, len(raw), size=80).tolist():
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << rng.integers(8)]) + raw[place + 1 :])
        try:
            assert lb.read(path) == found
        except lb.errors.DataError as err:
            refused += 1
            assert "s.parquet" in str(err)
    assert refused > 40


def test_files_of_summaries_have_the_ending_by_which_they_are_found(tmp_path):
    found = lb.scan(grr_table(), GRR(5, 1.0), by="country")
    for path, sentence in (("s.csv", "path must end in .parquet"), (None, "path must be the name of a file")):
        with pytest.raises(lb.errors.ArgumentError, match=sentence):
            lb.write(found, path if path is None else tmp_path / path)
    lb.write(found, tmp_path / "s.parquet")
    assert lb.read(bytes(tmp_path / "s.parquet")) == found


def test_a_path_that_names_no_file_is_one_sentence():
    class Broken:
        def __fspath__(self):
            raise RuntimeError("broken")

    for door in (lb.read, lb.fit, lambda source: lb.scan(source, GRR(5, 1.0))):
        for path in (Broken(), "\ud800", "\ud800.parquet", "\ud800.toml"):
            with pytest.raises(lb.LDPBayesError, match=r"path must.*file"):
                door(path)


# ---- protocols that travel with the reports ------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["grr", "oue"])
def test_the_protocol_is_read_from_the_reports(name, tmp_path):
    import duckdb

    protocol = PROTOCOLS[name]
    labels = [f"label {i}" for i in range(protocol.n_categories)]
    rng = np.random.default_rng(0)
    reports = protocol.privatize(rng.integers(protocol.n_categories, size=90), rng)
    lb.write(reports, tmp_path / "a.parquet", protocol, categories=labels, country=["NL", "BE", "FR"] * 30)
    found = lb.scan(tmp_path / "a.parquet", by="country")
    assert found.protocol == protocol and found.categories == tuple(labels) and found.n_reports == 90
    table = pq.read_table(tmp_path / "a.parquet")
    assert lb.scan(table, by="country") == found == lb.scan(duckdb.from_arrow(table), by="country")
    assert lb.scan(polars.from_arrow(table), by="country") == found
    other = GRR(protocol.n_categories, 0.5) if name == "grr" else UnaryEncoding.symmetric(20, 1.0)
    with pytest.raises(lb.errors.DataError, match=r"states.*argument"):
        lb.scan(table, other)


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_categories_in_another_order_or_of_another_name_are_refused(name, tmp_path):
    protocol = PROTOCOLS[name]
    labels = [f"label {i}" for i in range(protocol.n_categories)]
    reports = protocol.privatize(np.arange(protocol.n_categories), np.random.default_rng(0))
    for day, stated in enumerate([labels, labels[::-1], ["renamed", *labels[1:]]]):
        lb.write(reports, tmp_path / f"{day}.parquet", protocol, categories=stated)
    for other in (1, 2):
        with pytest.raises(lb.errors.DataError, match=rf"{other}.parquet.*other categories"):
            lb.scan([tmp_path / "0.parquet", tmp_path / f"{other}.parquet"])


# ---- the command line ----
@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Work in a folder with two files of reports, whose protocol stands in a column, and a third without it."""
    monkeypatch.chdir(tmp_path)
    protocol, rng = SUMMED["oue"], np.random.default_rng(0)
    for i in range(2):
        made = protocol.privatize(rng.integers(20, size=90), rng)
        lb.write(made, f"r{i}.parquet", protocol, country=["NL", "BE", "FR"] * 30, day=[1, 2, 3] * 30)
    pq.write_table(pq.read_table("r0.parquet").drop(["protocol"]).replace_schema_metadata(None), "bare.parquet")


def test_scan_then_fit(reports, capsys):
    by = ["--by", "country,day", "--pilot-by", "country", "--sample", 1000]
    status, out, err = run(capsys, "scan", "r*.parquet", *by, "--output", "s.parquet", "--page", "s.md")
    assert status == 0 and "180 reports in 3" in out and "summary" in out, err
    assert "fit s.parquet" in out and "Wrote s.parquet." in out and pathlib.Path("s.md").exists()
    found = lb.scan("r*.parquet", by=["country", "day"], pilot_by="country", sample=1000)
    assert lb.read("s.parquet") == found
    fitted = lb.fit("s.parquet", "jeffreys", draws=0, estimates=False)
    assert fitted["summary"]["mean"].sizes["cell"] == 3 and fitted.attrs["method"] == "surrogate"
    status, out, _ = run(capsys, "scan", "r0.parquet", "r1.parquet", "--by", "country", "--json")
    assert status == 0 and [cell["reports"] for cell in json.loads(out)["cells"]] == [60, 60, 60]
    added = options.read("s.parquet", ["country"])
    assert list(added) == [("BE",), ("FR",), ("NL",)] and added.by == ("country",)
    stated = ["--protocol", "oue", "-p", "epsilon=1", "--n-categories", 20]
    status, out, err = run(capsys, "scan", "bare.parquet", *stated, "--by", "day")
    assert status == 0 and "90 reports in 3" in out, err


@each_row(
    "command, sentence",
    [
        ("scan bare.parquet", "protocol must be given"),
        ("scan bare.parquet --protocol oue -p epsilon=1", "--categories must be labels in order, or @FILE"),
        ("scan bare.parquet -p epsilon=1", "protocol must say how the reports were made"),
        ("scan r0.parquet --protocol sue -p epsilon=1 --n-categories 20", "leave the argument out, or correct it"),
        ("scan r0.parquet --by county", "r0.parquet: has no column 'county'; it has"),
        ("scan r0.parquet --output r0.csv", "output must end in .parquet"),
        ("scan r0.parquet --output r0.parquet", "cannot be written, for this command has read it"),
        ("scan gone.parquet", "gone.parquet: cannot be read"),
        ("fit s.parquet --by country", "different pilots"),
        ("fit s.parquet --by county", "by must name grouping columns of the scan"),
        ("fit s.parquet --set weights=w", "weights must be left out"),
    ],
)
def test_refusals_of_the_command_line(reports, capsys, command, sentence):
    scanned = lb.scan("r*.parquet", by=["country", "day"])
    moved = Scan("r*.parquet", by=["country", "day"]).again(np.full(20, 0.05))
    both = {("NL", 1): scanned["NL", 1], ("NL", 2): moved["BE", 2]}
    lb.write(Found([ChannelCells(scanned.protocol, both)], ("country", "day"), scanned.categories), "s.parquet")
    before = sorted(path.name for path in pathlib.Path().iterdir())
    status, _, err = run(capsys, *command.split())
    assert status == 2 and sentence in " ".join(err.split()), err
    assert sorted(path.name for path in pathlib.Path().iterdir()) == before


# ---- failures ------------------------------------------------------------------------------------------------------------
def written(folder, *tables, **settings):
    """Write tables as 0.parquet, 1.parquet, … and return the folder."""
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"{i}.parquet", **settings)
    return folder


def grr_table(n=50, **columns):
    """Return n reports of GRR over five categories with the column country."""
    return pa.table({"report": np.arange(n) % 5, "country": np.array(["NL", "BE"])[np.arange(n) % 2]} | columns)


def bad_row(n=50, at=37, value=5):
    """Return a table with a report outside the alphabet in one row."""
    reports = np.arange(n) % 5
    reports[at] = value
    return grr_table(n, report=reports)


def nulls(n=50, at=37, column="country"):
    """Return a table with a missing entry."""
    table = grr_table(n)
    values = table[column].to_pylist()
    values[at] = None
    return table.set_column(table.schema.names.index(column), column, pa.array(values))


@each_row(
    "tables, sentence",
    [
        ([grr_table(), bad_row()], "1.parquet.*'report'.*38:.*5"),
        ([bad_row(value=-1)], "0.parquet.*'report'.*38:.*-1"),
        ([nulls()], "0.parquet.*'country'.*38:"),
        ([nulls(column="report")], "0.parquet.*'report'.*38:"),
        ([grr_table(), pa.table({"report": [1]})], "1.parquet:.*'country'.*report"),
        (
            [grr_table(), pa.table({"report": ["1"], "country": ["NL"]})],
            "1.parquet.*'report': holds",
        ),
        (
            [grr_table(), pa.table({"report": [1], "country": [3]})],
            "1.parquet.*'country': holds",
        ),
        ([pa.table({"report": [1], "country": [[1]]})], "0.parquet.*'country': must"),
        ([pa.table({"report": [b"\1"], "country": ["NL"]})], "0.parquet.*'report': holds"),
    ],
)
def test_bad_files_are_one_sentence(tables, sentence, tmp_path_factory):
    with pytest.raises(lb.errors.DataError, match=sentence) as caught:
        lb.scan(written(tmp_path_factory.mktemp("bad"), *tables, row_group_size=10), GRR(5, 1.0), by="country")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.98])
def test_truncated_files_are_one_sentence(kept, tmp_path):
    path = written(tmp_path, grr_table(5000)) / "0.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    with pytest.raises(lb.errors.DataError, match=r"0.parquet:.*readable"):
        lb.scan(path, GRR(5, 1.0), by="country")


def test_a_damaged_page_is_one_sentence(tmp_path):
    protocol = SUMMED["oue"]
    path = written(tmp_path, table_of(protocol), compression="zstd") / "0.parquet"
    data = bytearray(path.read_bytes())
    data[100:400] = bytes(300)
    path.write_bytes(data)
    with pytest.raises(lb.errors.DataError, match=r"0.parquet"):
        lb.scan(path, protocol, by="country")


def test_bad_bits_name_their_row(tmp_path):
    protocol = SUMMED["oue"]
    reports = protocol.privatize(np.zeros(40, dtype=int), np.random.default_rng(0))
    reports[31, -1] |= 1
    path = written(tmp_path, pa.table({"report": packed(reports)}), row_group_size=7) / "0.parquet"
    with pytest.raises(lb.errors.DataError, match=r"0.parquet.*'report'.*32:.*20"):
        lb.scan(path, protocol)
    short = pa.table({"report": pa.array([bytes(3), bytes(2)], pa.binary())})
    with pytest.raises(lb.errors.DataError, match=r"'report'.*row 2:.*3"):
        lb.scan(short, protocol)
    size = SUMMED["subset"].size
    with pytest.raises(lb.errors.DataError, match=rf"row 1:.*0 members.*{size}"):
        lb.scan(pa.table({"report": [bytes(4)]}), SUMMED["subset"])


@each_row(
    "change, sentence",
    [
        ({"data": 3}, "data must"),
        ({"data": "nowhere/*.parquet"}, "nowhere/.*: matches"),
        ({"data": "nowhere.parquet"}, "nowhere.parquet: cannot"),
        ({"protocol": GRR}, "protocol must"),
        ({"report": ["a", "b"]}, "report must.*2"),
        ({"by": ["country", "country"]}, "by must"),
        ({"by": "report"}, "by must"),
        ({"by": 3}, "by must"),
        ({"pilot_by": "day"}, "pilot_by must.*country.*day"),
        ({"jobs": 0}, "jobs must.*1"),
        ({"sample": -1}, "sample must.*0"),
        ({"categories": ["a", "b"]}, "categories must.*5.*2"),
        ({"checkpoint": "state"}, "checkpoint needs"),
        ({"data": pa.table({"report": pa.array([], pa.int64()), "country": pa.array([], pa.string())})}, "no rows"),
        ({"data": pa.table({"report": [1]})}, "column 'country'"),
    ],
)
def test_bad_arguments_are_one_sentence(change, sentence):
    given = {"data": grr_table(), "protocol": GRR(5, 1.0), "by": "country"} | change
    with pytest.raises(lb.LDPBayesError, match=sentence):
        lb.scan(**given)


def test_an_empty_source_of_reports_that_are_summed_is_one_sentence():
    protocol = SUMMED["oue"]
    scan = Scan(table_of(protocol)[:0], protocol, by="country")
    with pytest.raises(lb.errors.DataError, match="no rows"):
        scan()
    with pytest.raises(lb.errors.DataError, match="no rows"):
        scan.again(np.full(20, 0.05))


def test_a_source_that_changes_between_the_passes_is_refused(tmp_path):
    protocol = SUMMED["oue"]
    path = written(tmp_path, table_of(protocol)) / "0.parquet"
    scan = Scan(path, protocol, by="country")
    first = sum(map(scan.fold.partial, scan.pieces()))
    at = scan.fold.pilots(first)
    pq.write_table(table_of(protocol, 700), path)
    with pytest.raises(lb.errors.DataError, match=r"changed.*passes"):
        scan.fold.finish(first, sum(scan.fold.partial(piece, at) for piece in scan.pieces()), at)
    pq.write_table(table_of(protocol).set_column(1, "country", pa.array(["XX"] * 600)), path)
    with pytest.raises(lb.errors.DataError, match=r"XX.*first pass"):
        sum(scan.fold.partial(piece, at) for piece in scan.pieces())


# ---- killed and resumed --------------------------------------------------------------------------------------------------
SCRIPT = """
import os, signal, sys
import ldpbayes as lb
from ldpbayes.scanning import checkpoint, fold

checkpoint._SHARE = 1e9  # written after every piece
read, partial = [], fold.Fold.partial
def counted(self, piece, at=None):
    read.append(piece)
    if len(read) == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return partial(self, piece, at)
fold.Fold.partial = counted
found = lb.scan(sys.argv[1], by="country", sample=20, checkpoint=sys.argv[2], progressbar=False)
lb.write(found, sys.argv[3])
"""


def test_killed_and_resumed(tmp_path, monkeypatch):
    """A scan of six files is killed in its second pass; the next run reads only the files that are left."""
    protocol = SUMMED["oue"]
    rng = np.random.default_rng(0)
    for i in range(6):
        reports = protocol.privatize(rng.integers(20, size=50), rng)
        lb.write(reports, tmp_path / f"{i}.parquet", protocol, country=["NL", "BE"] * 25)
    files, state, out = str(tmp_path / "*.parquet"), tmp_path / "state", tmp_path / "summaries"
    command = [sys.executable, "-c", SCRIPT, files, str(state), str(out)]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == -signal.SIGKILL
    assert state.exists() and not out.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    with pytest.raises(lb.errors.DataError, match=r"checkpoint.*another scan"):
        lb.scan(files, checkpoint=state)
    partial, read = Fold.partial, []

    def counted(self, piece, at=None):
        read.append(piece)
        return partial(self, piece, at)

    whole = lb.scan(files, by="country", sample=20)
    monkeypatch.setattr(Fold, "partial", counted)
    resumed = lb.scan(files, by="country", sample=20, checkpoint=state)
    assert len(read) == 4
    assert resumed == whole and resumed.samples == whole.samples


def test_a_scan_of_counts_does_without_slow_imports(tmp_path):
    """A scan of ten million rows takes less time than pandas and SciPy take to import."""
    n = 400_000  # of small files it is asked besides whether they are alike by chance
    country = pa.array(["NL", "BE"] * (n // 2)).dictionary_encode()
    pq.write_table(table_of(COUNTED["grr"], n).set_column(1, "country", country), tmp_path / "a.parquet")
    code = "import sys, ldpbayes as lb; lb.scan(sys.argv[1], lb.GRR(5, 1.0), by='country')\n"
    code += "print(*{'pandas', 'scipy', 'numba', 'pyarrow.compute', 'xarray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_ctrl_c_keeps_what_was_read(tmp_path, monkeypatch):
    protocol = SUMMED["oue"]
    for i in range(3):
        pq.write_table(table_of(protocol, 60, seed=i), tmp_path / f"{i}.parquet")
    state = tmp_path / "state"
    scan = Scan(str(tmp_path / "*.parquet"), protocol, checkpoint=state)
    partial, read = Fold.partial, []

    def interrupted(self, piece, at=None):
        read.append(piece)
        if len(read) == 3:
            raise KeyboardInterrupt
        return partial(self, piece, at)

    monkeypatch.setattr(Fold, "partial", interrupted)
    monkeypatch.setattr("ldpbayes.scanning.checkpoint._SHARE", 1e-9)  # no writing on the way
    with pytest.raises(KeyboardInterrupt):
        scan()
    assert state.exists()
    monkeypatch.undo()
    again = Scan(str(tmp_path / "*.parquet"), protocol, checkpoint=state)
    assert again() == lb.scan(str(tmp_path / "*.parquet"), protocol)
    state.write_text("something else")
    with pytest.raises(lb.errors.DataError, match=r"state:.*checkpoint"):
        again()


def test_ctrl_c_that_foreign_code_swallows_is_not_lost(tmp_path, monkeypatch, request):
    """Kind: an interrupt that ends in "Exception ignored", as in an import from Cython, stops the scan and keeps its state.

    The state stays until the cells are written. The handler before the scan is there again after it.
    """
    protocol, state = SUMMED["oue"], tmp_path / "state"
    for i in range(3):
        pq.write_table(table_of(protocol, 60, seed=i), tmp_path / f"{i}.parquet")
    partial, read = Fold.partial, []

    def swallowing(self, piece, at=None):
        read.append(piece)
        if len(read) == 2:
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        return partial(self, piece, at)

    monkeypatch.setattr(Fold, "partial", swallowing)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what runs in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    scan = Scan(str(tmp_path / "*.parquet"), protocol, checkpoint=state)
    with pytest.raises(KeyboardInterrupt):
        scan()
    assert len(read) == 2 and state.exists() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    found = scan()
    assert state.exists() and len(read) == 6
    lb.write(found, tmp_path / "cells.pq")
    assert not state.exists()


def test_above_epsilon_one_and_a_half_summaries_have_a_sample_and_a_spread():
    protocol = UnaryEncoding.optimized(20, 2.0)
    table = table_of(protocol)
    found = lb.scan(table, protocol, by="country", keep=0, sample=60)
    agree(found, lb.read(table, protocol, by="country"))
    for key, cell in found.items():
        assert cell.spread is not None and cell.rate == found.samples[key].rate < 1
        assert cell.sample.n_reports == len(found.samples[key].keys) <= 60
