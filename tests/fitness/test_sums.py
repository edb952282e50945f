"""Kind: reports of which only sums were kept have a test of their design, of ε, variant, buckets and hash family.

Doors: check, fit with and without draws, the page of a scan, files of this version and of earlier ones, sums over files.
Siblings: OUE, SUE, both families of OLH, RAPPOR with one hash and two; GRR and subset selection, where nothing can tell.
"""

import csv
import itertools
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import ldpbayes as lb
from ldpbayes.fitness.sums import fitness_of_excess, power, shown_levels
from ldpbayes.protocols import LocalHashing, Rappor, SubsetSelection, UnaryEncoding
from ldpbayes.protocols.base import SizeLaw
from ldpbayes.scanning import Scan
from ldpbayes.scanning.partials import ChannelSums, Partial

A, N, SIMULATED = 32, 100_000, 10_000
TABLE = pathlib.Path(__file__).parents[1] / "data" / "sums_power.csv"
LEVELS, RATIOS = (0.5, 1.0, 2.0), (0.8, 0.9, 1.0, 1.1, 1.25)
MAKERS = {
    "OUE": lambda e: UnaryEncoding.optimized(A, e),
    "SUE": lambda e: UnaryEncoding.symmetric(A, e),
    "OLH": lambda e, g=None: LocalHashing(A, e, g),
    "OLH xxhash": lambda e, g=None: LocalHashing(A, e, g, "xxhash"),
    "RAPPOR": lambda e: Rappor.one_time(A, e, 64, 8, 2, candidates=tuple(map(str, range(A)))),
}


def pairs():
    """Yield (name, protocol of the client, protocol that it is read as): every ε', and every other variant or family."""
    for read, level in itertools.product(MAKERS, LEVELS):
        server = MAKERS[read](level)
        for made, ratio in itertools.product(MAKERS, RATIOS):
            if made == read or (ratio == 1.0 and made[:2] in ("OU", "SU") and read[:2] in ("OU", "SU")):
                buckets = (server.buckets,) if "OLH" in read else ()
                yield (made, read, level, ratio), MAKERS[made](level * ratio, *buckets), server
            elif ratio == 1.0 and "OLH" in made and "OLH" in read:
                yield (made, read, level, ratio), OtherHash(server.buckets), server


class OtherHash:
    """Local hashing by another family than it is read with: every category is in a support with probability 1/g."""

    def __init__(self, buckets):
        self.hit_rates = 1 / buckets, 1 / buckets

    def size_law(self):
        g = self.hit_rates[0]
        return SizeLaw(A * g, A * g * (1 - g), 1.0)


def totals(protocol, rng, size, n=N):
    """Return the sums of the sizes of n reports of the first category, ``size`` times, by their exact law."""
    if isinstance(protocol, Rappor):
        weights, counts = protocol._bit_weights[0], np.eye(A, dtype=int)[0] * n
        return np.array([(weights * protocol.simulate_bit_counts(counts, rng)[0]).sum() for _ in range(size)])
    g, h = protocol.hit_rates
    return rng.binomial(n, g, size) + rng.binomial(n * (A - 1), h, size)


def flagged(protocol, sums, n=N):
    """Return the share of sums that the test flags when they are read as those of a protocol."""
    law = protocol.size_law()
    return np.mean([fitness_of_excess(law.excess(n, total), n).flagged for total in sums])


def test_the_stored_powers_are_those_of_the_formula():
    rows = list(csv.DictReader(TABLE.read_text().splitlines()))
    assert len(rows) == len(list(pairs()))
    for row, ((made, read, level, ratio), client, server) in zip(rows, pairs(), strict=True):
        assert (row["made"], row["read"], float(row["epsilon"]), float(row["ratio"])) == (made, read, level, ratio)
        assert float(row["predicted"]) == pytest.approx(power(client, server, N), abs=5e-5)
        error = 4 * np.sqrt(float(row["predicted"]) * (1 - float(row["predicted"])) / SIMULATED) + 1e-3
        assert float(row["simulated"]) == pytest.approx(float(row["predicted"]), abs=error)
        law, other = server.size_law(), client.size_law()
        expected = np.sqrt(N / law.variance) * abs(other.mean - law.mean)
        assert expected < 4.3 or float(row["simulated"]) >= 0.98


@pytest.mark.calibrate
def test_power_and_size_in_simulated_sums():
    rng, stored = np.random.default_rng(5), csv.DictReader(TABLE.read_text().splitlines())
    for row, (key, client, server) in zip(stored, pairs(), strict=True):
        share, predicted = flagged(server, totals(client, rng, SIMULATED)), power(client, server, N)
        assert share == pytest.approx(predicted, abs=4 * np.sqrt(predicted * (1 - predicted) / SIMULATED) + 1e-3), key
        assert share == pytest.approx(float(row["simulated"]), abs=6 * np.sqrt(0.25 / SIMULATED)), key
        if client == server:
            assert abs(share - 0.05) < 3 * np.sqrt(0.05 * 0.95 / SIMULATED), key


@pytest.mark.parametrize("name", MAKERS)
def test_sizes_of_reports_have_their_law(name):
    """Mean and variance from whole reports, of one value and of another: the law does not depend on P."""
    protocol, m = MAKERS[name](1.0), 60_000
    law, rng = protocol.size_law(), np.random.default_rng(3)
    for value in (0, 7):
        sizes = protocol.report_sizes(protocol.privatize(np.full(m, value), rng))
        assert sizes.mean() == pytest.approx(law.mean, abs=4 * np.sqrt(law.variance / m))
        assert sizes.var() == pytest.approx(law.variance, rel=4 * np.sqrt(2 / m) + 0.01)


def reports(protocol, n=N, seed=2):
    rng = np.random.default_rng(seed)
    return lb.write(protocol.privatize(rng.choice(A, n, p=rng.dirichlet(np.ones(A))), rng), None, protocol)


def said(found):
    return " ".join(note.text for note in found.page().notes)


def misread(table, protocol, **settings):
    """Return the scan of reports that are read as those of another protocol, in two cells."""
    table = table.drop_columns(["protocol"]).replace_schema_metadata({})
    table = table.append_column("half", pa.array(np.arange(len(table)) % 2))
    return lb.scan(table, protocol, by="half", **settings)


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (MAKERS["OUE"](1.0), MAKERS["OUE"](1.2)),
        (MAKERS["OUE"](1.0), MAKERS["SUE"](1.0)),
        (MAKERS["OLH"](1.0, 4), MAKERS["OLH"](1.3, 4)),
        (MAKERS["OLH xxhash"](1.0), MAKERS["OLH"](1.0)),
        (MAKERS["RAPPOR"](1.0), MAKERS["RAPPOR"](1.1)),
    ],
    ids=["OUE 1.2", "SUE", "OLH 1.3", "hash family", "RAPPOR"],
)
def test_a_scan_notices_a_wrong_device(made, read):
    table = reports(made, 40_000)
    wrong, right = misread(table, read), misread(table, made)
    assert not right.keeps_reports
    assert lb.check(wrong).flagged and not lb.check(right).flagged
    assert "not fit" in said(wrong) and "reports fit" in said(right)
    if not isinstance(made, Rappor):  # whose summary is refused
        assert lb.fit(wrong, "jeffreys", draws=0).attrs["fitness_flagged"] == 1
        assert lb.fit(right, "jeffreys", draws=0).attrs["fitness_flagged"] == 0


def test_a_fit_with_draws_warns_of_one_cell_and_of_all():
    found = misread(reports(MAKERS["OUE"](1.0), 20_000), MAKERS["OUE"](1.2))
    tree = lb.fit(found, "jeffreys", draws=100, random_seed=1)
    assert tree.attrs["fitness_flagged"] == 1 and (tree["cells"]["fitness_flagged"] == 1).all()
    table = reports(MAKERS["OUE"](1.0), 20_000).drop_columns(["protocol"]).replace_schema_metadata({})
    whole = lb.scan(table, MAKERS["OUE"](1.2))["all",]
    assert lb.fit(whole, "jeffreys", draws=100, random_seed=1).attrs["fitness_flagged"] == 1
    halves = sum(cell.excess for cell in found.values())
    assert halves == pytest.approx(whole.excess) and lb.check(whole).checks[0].statistic > 30


def test_a_fault_that_all_cells_share_is_seen_though_none_stands_out():
    made, read = MAKERS["OUE"](1.0), MAKERS["OUE"](1.01)
    table = reports(made, 200_000).drop_columns(["protocol"]).replace_schema_metadata({})
    table = table.append_column("cell", pa.array(np.arange(len(table)) % 400))
    found = lb.scan(table, read, by="cell")
    tested = lb.check(found)
    assert tested.flagged and "no single" in tested.verdict
    assert not lb.check(lb.scan(table, made, by="cell")).flagged


def test_where_nothing_can_tell_it_is_said():
    found = misread(reports(SubsetSelection(A, 1.0), 5000), SubsetSelection(A, 1.0))
    assert lb.check(found).verdict.endswith("no sum can say whether they fit the design.")
    assert "many categories" in said(found)
    assert shown_levels(UnaryEncoding.symmetric(2, 1.0), N) == (0.0, np.inf)
    for size in (0.05, 0.01):
        for level in shown_levels(MAKERS["OUE"](1.0), N, size):
            assert power(MAKERS["OUE"](level), MAKERS["OUE"](1.0), N, size) == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize("name", ["OUE", "RAPPOR"])
def test_files_and_states_of_earlier_versions_are_read(tmp_path, name):
    protocol = MAKERS[name](1.0)
    found = lb.scan(reports(protocol, 5000))
    lb.write(found, tmp_path / "new.parquet")
    assert lb.check(lb.read(tmp_path / "new.parquet")).verdict == lb.check(found).verdict
    old = parquet.read_table(tmp_path / "new.parquet")
    parquet.write_table(old.drop_columns(["excess"]), tmp_path / "old.parquet")
    read = lb.read(tmp_path / "old.parquet")
    if name == "OUE":  # the support counts say it
        assert lb.check(read).verdict == lb.check(found).verdict
    else:
        assert "earlier version" in lb.check(read).verdict
    scan = Scan(reports(protocol, 5000))
    first = next(scan.fold.partial(piece) for piece in scan.pieces())
    ((text, sums),) = first.channels.items()
    former = Partial(
        {text: ChannelSums(sums.keys, {k: v for k, v in sums.sums.items() if k != "sizes"})}, n_rows=first.n_rows
    )
    total = former + first
    assert total.n_rows == 10_000 and "sizes" not in total.channels[text].sums


def test_the_first_sentences_say_that_the_reports_contradict_the_design():
    made, read = MAKERS["OUE"](1.0), MAKERS["OUE"](1.2)
    wrong, right = misread(reports(made, 20_000), read), misread(reports(made, 20_000), made)
    doubt = "so this is not final."
    assert wrong.page().summary.endswith(doubt) and doubt not in right.page().summary
    cells = lb.fit(wrong, "jeffreys", draws=100, random_seed=1)
    assert cells.page().summary.endswith(doubt) and "2 of 2 cells" in cells.page().summary
    assert lb.fit(wrong, "jeffreys", draws=0).page().summary.endswith(doubt)
    assert doubt not in lb.fit(right, "jeffreys", draws=100, random_seed=1).page().summary
    whole = lb.scan(reports(made, 20_000).drop_columns(["protocol"]).replace_schema_metadata({}), read)["all",]
    assert lb.fit(whole, "jeffreys", draws=0).page().summary.endswith(f"design, {doubt}")
