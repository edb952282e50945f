"""What a scan says of its source: drift, duplicates, supports beyond the design."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run
from scipy import stats

import ldpbayes as lb
from ldpbayes.pages.page import Kind
from ldpbayes.protocols import GRR, LocalHashing, SubsetSelection, UnaryEncoding
from ldpbayes.scanning import Partial, Scan
from ldpbayes.scanning.monitor import beyond, drift, repeats

PROTOCOLS = {
    "grr": GRR(8, 1.0),
    "oue": UnaryEncoding.optimized(20, 1.0),
    "olh": LocalHashing(20, 1.0),
    "subset": SubsetSelection(30, 1.0),
}


def written(folder, protocol, change=lambda i, values, reports: (values, reports), n=400, rng=None):
    """Write four files, one a day, of reports of one population."""
    rng = np.random.default_rng(0) if rng is None else rng
    for i in range(4):
        values = rng.integers(protocol.n_categories, size=n) ** 2 // protocol.n_categories
        values, _ = change(i, values, None)
        reports = change(i, values, protocol.privatize(values, rng))[1]
        table = lb.write(reports, None, protocol, day=[i] * n).drop_columns(["protocol"]).replace_schema_metadata(None)
        pq.write_table(table, folder / f"{i}.parquet")
    return str(folder / "*.parquet")


@pytest.mark.calibrated("olh")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_drift_of_no_drift_has_uniform_p_values(name):
    """χ² over 300 sources of four parts: the law of support counts is that of the design."""
    protocol, rng, p_values, alone = PROTOCOLS[name], np.random.default_rng(1), [], []
    values = np.arange(1600) % protocol.n_categories
    shares = np.bincount(values) / len(values)
    for _ in range(300):
        reports = protocol.privatize(rng.choice(protocol.n_categories, p=shares, size=1600), rng)
        parts = {}
        for i, own in enumerate(np.array_split(reports, 4)):
            counts = protocol.rows(own, np.ones(len(own))).support_counts()
            parts[str(i)] = np.append(len(own), counts)
        found = drift("files", [(protocol, parts)])
        p_values.append(found.p_value)
        alone.append(found.category_p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01, np.mean(p_values)
    # Of the category that differs most, times their number: at most uniform.
    assert all(np.mean(np.array(alone) <= level) <= level + 3 * np.sqrt(level / 300) for level in (0.01, 0.05, 0.2))


def test_a_jump_of_one_category_is_named_where_all_together_hide_it():
    """Against SciPy's χ² of the table of the reports that support the category, and of those that do not."""
    protocol, rng = UnaryEncoding.optimized(24, 1.0), np.random.default_rng(3)
    parts = {}
    for day in range(6):
        shares = np.full(24, 0.92 / 23)
        shares[23] = 0.08 if day < 4 else 0.2
        values = rng.choice(24, size=8000, p=shares / shares.sum())
        parts[str(day)] = np.append(8000, protocol.rows(*protocol.simulate(np.bincount(values), rng)).support_counts())
    found = drift("files", [(protocol, parts)])
    table = np.array([[part[24], part[0] - part[24]] for part in parts.values()])
    assert found.category == 23
    assert found.category_p_value == pytest.approx(24 * stats.chi2_contingency(table, correction=False).pvalue, rel=1e-6)
    assert found.category_p_value < 0.01 < found.p_value


def test_drift_of_few_reports_over_many_categories_has_uniform_p_values():
    """The covariance is that of the counts themselves: with shares of another estimate it was indefinite."""
    protocol, rng, p_values = UnaryEncoding.optimized(64, 0.5), np.random.default_rng(2), []
    for _ in range(200):
        reports = protocol.privatize(rng.integers(64, size=3500) ** 2 // 64, rng)
        counts = {
            str(i): np.append(500, part.sum(axis=0))
            for i, part in enumerate(np.unpackbits(reports, axis=1).reshape(7, 500, 64))
        }
        p_values.append(drift("cells", [(protocol, counts)]).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_days_of_counted_reports_drift_within_what_they_share(tmp_path):
    """Two countries that differ, of which one has its labels reversed on a day: the day is named, and warned of."""
    protocol, rng, rows = UnaryEncoding.optimized(8, 1.0), np.random.default_rng(1), []
    for country, power in (("NL", 1), ("SE", 3)):
        for day in range(3):
            values = (8 * rng.random(3000) ** power).astype(int)
            reports = protocol.privatize(7 - values if (country, day) == ("SE", 1) else values, rng)
            rows.append(lb.write(reports, None, protocol, country=[country] * 3000, day=[day] * 3000))
    found = lb.scan(pa.concat_tables(rows), by=["country", "day"], pilot_by="country")
    (drifted,) = found.monitor.drifts
    assert drifted.over == "cells" and drifted.worst == "SE, 1" and drifted.p_value < 1e-6 and drifted.df == 4 * 8
    assert any(note.kind == Kind.WARNING and "SE, 1" in note.text for note in found.page().notes)
    unasked = lb.scan(pa.concat_tables(rows), by=["country", "day"]).monitor
    assert not unasked.drifts and "pilot_by" in unasked.needs


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_scan_without_faults_warns_of_nothing(name, tmp_path):
    protocol = PROTOCOLS[name]
    found = lb.scan(written(tmp_path, protocol), protocol, by="day", pilot_by=[])
    assert all(drifted.p_value > 0.01 for drifted in found.monitor.drifts)
    assert {drifted.over for drifted in found.monitor.drifts} == {"files", "cells"}
    assert all(min(copies.p_value, copies.share_p_value) > 0.01 for copies in found.monitor.duplicates)


def test_the_bound_of_repeats_is_above_their_chance():
    """For every total: the law of a sum of Poisson counts above 0, convolved, times what a fixed n costs."""
    often, n = np.array([0.01, 0.3, 0.3, 2.0]), 1000.0
    law = np.ones(1)
    for rate in often:
        own = stats.poisson(rate).pmf(np.arange(40)) / -np.expm1(-rate)
        law = np.convolve(law, np.where(np.arange(40) > 0, own, 0.0))
    for total in range(4, 40):
        exact = law[total:].sum() / stats.poisson(n).pmf(n)
        bound = repeats(total, often, often[:, None], n)
        assert min(exact, 1.0) <= bound * (1 + 1e-9) and bound <= min(1.0, 20 * exact)
    rare = np.full(1000, 1e-4)
    assert repeats(1000, rare, rare[:, None], 1e6) == 1 and repeats(1020, rare, rare[:, None], 1e6) < 1e-20
    one_of_two = np.column_stack([often, 0.5 * often])  # the larger λ decide, whichever P sets t
    assert repeats(20, 0.7 * often, one_of_two, n) >= repeats(20, often, often[:, None], n)


def test_many_copies_of_which_none_came_often_are_seen(tmp_path):
    """Of two channels, 8 % of the reports of one came twice: the page names it."""
    rng = np.random.default_rng(3)
    for name, variant, twice in (("a", UnaryEncoding.optimized, 0), ("b", UnaryEncoding.symmetric, 1600)):
        protocol = variant(20, 1.0)
        reports = protocol.privatize(rng.integers(20, size=20_000), rng)
        lb.write(np.concatenate([reports, reports[:twice]]), tmp_path / f"{name}.parquet", protocol)
    found = lb.scan(tmp_path)
    honest, copied = found.monitor.duplicates
    assert honest.share_p_value == 1 and copied.p_value > 0.01 and copied.share_p_value < 1e-6
    (warned,) = (note.text for note in found.page().notes if "Duplicates" in note.text and note.kind == Kind.WARNING)
    assert "symmetric" in warned


@pytest.mark.calibrated("5-1")
@pytest.mark.parametrize("a, size", [(6, 2), (5, 1), (3, 2)])
def test_drift_of_sets_that_are_counted(a, size, tmp_path):
    """Sets of few categories, weak reports: p-values of 40 scans are uniform; three categories have no rates of pairs."""
    protocol, rng, p_values = SubsetSelection(a, 0.5, size), np.random.default_rng(4), []
    for _ in range(1 if a == 3 else 40):
        for name in "ab":
            lb.write(protocol.privatize(rng.choice(a, 60), rng), tmp_path / f"{name}.parquet", protocol)
        p_values += [drifted.p_value for drifted in lb.scan(tmp_path, copies="add").monitor.drifts]
    assert len(p_values) == (0 if a == 3 else 40)
    assert not p_values or stats.kstest(p_values, "uniform").pvalue > 0.01


@pytest.mark.calibrated("6")
@pytest.mark.parametrize("a", [2, 6, 16])
def test_drift_of_counted_bits(a, tmp_path):
    """Unary reports over at most 16 categories are counted: p-values of 40 weak scans are uniform; other values drift."""
    protocol, rng, p_values = UnaryEncoding.optimized(a, 0.5), np.random.default_rng(4), []
    for honest in (True,) * 40 + (False,):
        for name in "ab":
            values = rng.choice(a, 60 if honest else 2000) * (honest or name == "a")  # else b's are all the first
            lb.write(protocol.privatize(values, rng), tmp_path / f"{name}.parquet", protocol)
        found = lb.scan(tmp_path, copies="add").monitor.drifts[0]
        p_values.append(found.p_value)
        assert found.df == a and found.worst.count(".parquet") == 2
    assert stats.kstest(p_values[:-1], "uniform").pvalue > 0.01 and p_values[-1] < 0.01


FAULTS = {
    "drift": lambda i, values, reports: (39 - values if i == 2 else values, reports),
    "duplicates": lambda i, values, reports: (values, None if reports is None else np.tile(reports[:2500], (8, 1))[:20000]),
    "beyond": lambda i, values, reports: (values, None if reports is None else reports & np.uint8(0x7F)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_seen(name, tmp_path, capsys, monkeypatch):
    protocol = UnaryEncoding.optimized(40, 1.0)
    source = written(tmp_path, protocol, FAULTS[name], n=20_000)
    scan = Scan(source, protocol, by="day", pilot_by=[])
    found = scan()
    drifted, copies = {one.over: one for one in found.monitor.drifts}, found.monitor.duplicates[0]
    if name == "drift":
        assert drifted["files"].p_value < 1e-6 and drifted["files"].worst.endswith("2.parquet")
        assert drifted["cells"].worst == "2"
    elif name == "duplicates":
        assert copies.most == 8 and copies.p_value < 1e-6
        assert copies.share == pytest.approx(7 / 8, abs=0.01) and copies.expected < 0.001
    else:
        part = found.by_channel[0].cells[0,]
        share, p_value = beyond(protocol, part.n_reports, part.supports)
        assert p_value < 1e-9 and share > 0.01
    page = found.page()
    assert any(name[:5] in str(note.text).lower() or "any P gives" in str(note.text) for note in page.notes)
    parts = [Partial.from_bytes(scan.fold.partial(piece).to_bytes()) for piece in scan.pieces()]
    assert scan.fold.pilots(sum(parts[::-1])) is not None
    (mine,), (other,) = sum(parts).channels.values(), sum(parts[::-1]).channels.values()
    assert np.array_equal(mine.chosen.reports, other.chosen.reports) and mine.origins.keys() == other.origins.keys()
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "scan", "*.parquet", "--protocol", "oue", "-p", "epsilon=1", "--n-categories=40", "--json")
    assert status == 0 and '"duplicates"' in out


def test_reports_in_memory_have_no_files():
    protocol = PROTOCOLS["oue"]
    table = pa.table({"report": list(map(bytes, protocol.privatize(np.arange(400) % 20, np.random.default_rng(0))))})
    assert lb.scan(table, protocol).monitor.drifts == ()


def test_a_monitor_says_what_it_would_need(tmp_path):
    """Of counted reports in one file neither test can be made; of several files drift can; sums keep no parts."""
    table = pa.table({"report": ["a", "b", "a", "c"] * 5, "user": [f"u{i // 2}" for i in range(20)]})
    settings = {"report": "report", "categories": list("abc")}
    one = lb.scan(table, GRR(3, 1.0), **settings)
    assert not one.monitor.drifts and not one.monitor.duplicates
    assert "two files" in one.monitor.needs and one.monitor.needs in " ".join(str(one.page()).split())
    for i in range(2):
        pq.write_table(table, tmp_path / f"{i}.parquet")
    several = lb.scan(str(tmp_path / "*.parquet"), GRR(3, 1.0), **settings, copies="add")
    assert several.monitor.drifts and "two files" not in several.monitor.needs
    assert "together" in (one + several).monitor.needs
    assert "user" in lb.scan(table, GRR(3, 1.0), **settings, by_user="user").monitor.needs


def test_keys_that_differ_in_case_only_are_said():
    table = pa.table({"report": ["a", "b", "a", "c"] * 5, "country": ["NL", "nl"] * 10})
    found = lb.scan(table, GRR(3, 1.0), report="report", by="country", categories=list("abc"))
    assert len(found) == 2 and "differ in case" in str(found.page())


def test_files_of_a_cell_drift_and_files_in_another_order_are_copies(tmp_path):
    """Six files, one of them with five times one category, hold two countries; without `by` the same is warned of."""
    protocol, rng = lb.GRR(8, 2.0), np.random.default_rng(3)
    for day in range(6):
        shares = {
            "NL": np.full(8, 1 / 8),
            "SE": np.r_[5.0 if day == 4 else 1.0, np.full(7, 1.0)] * np.linspace(1, 3, 8),
        }
        tables = []
        for country, p in shares.items():
            reports = protocol.privatize(rng.choice(8, 3000, p=p / p.sum()), rng)
            tables.append(lb.write(reports, None, protocol, country=[country] * 3000))
        pq.write_table(pa.concat_tables(tables), tmp_path / f"{day}.parquet")
    for by, over in (("country", "files of a cell"), (None, "files")):
        found = lb.scan(tmp_path, by=by)
        (drifted,) = found.monitor.drifts
        assert (
            drifted.over == over and "4.parquet" in drifted.worst and min(drifted.p_value, drifted.category_p_value) < 1e-3
        )
        assert drifted.df == (2 if by else 1) * 5 * 7 and drifted.worst.endswith("SE" if by else "parquet")
        (note,) = [note for note in found.page().notes if note.text.startswith("Drift between files")]
        assert note.kind == Kind.WARNING and "Drift between files" in str(found)
    table = pq.read_table(tmp_path / "2.parquet")
    pq.write_table(table.take(rng.permutation(len(table))), tmp_path / "9.parquet", compression="gzip")
    with pytest.raises(lb.errors.DataError, match="in another order or form"):
        lb.scan(tmp_path)
    assert lb.scan(tmp_path, copies="add").n_reports == 7 * 6000


def test_the_share_of_duplicates_is_that_of_all_reports_within_its_error(tmp_path):
    """The report without any bit, the most frequent of all, had the key 0 and was chosen always."""
    protocol, away = UnaryEncoding.optimized(20, 1.5), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        reports = protocol.privatize(rng.choice(20, 30_000, p=rng.dirichlet(np.ones(20))), rng)
        lb.write(reports, tmp_path / "reports.parquet", protocol)
        (copies,) = lb.scan(tmp_path / "reports.parquet").monitor.duplicates
        away.append((copies.share - 1 + len(np.unique(reports, axis=0)) / len(reports)) / copies.share_error)
    assert np.abs(away).max() < 4 and abs(np.mean(away)) < 1.7
