"""Long data with a column of users: readers, collection files, what is refused, spent levels, and coverage."""

import json
import math

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.collections import Tally
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.pages import show
from ldpbayes.protocols import GRR, LOLOHA, LocalHashing, MemoizedGRR, MemoizedUnary, Repeated
from ldpbayes.repeated.spending import spent
from ldpbayes.result.facts import facts_of
from ldpbayes.sources import read_collection, write_collection
from ldpbayes.sources.parameters import protocol_text
from studies import repeats
from studies.catalogue import STUDIES
from studies.runner import run_study

ABC = ("a", "b", "c")
MEMO = MemoizedGRR.from_levels(3, 2.0, 1.0)
LONG = {"user": ["u2", "u1", "u2", "u3", "u2"], "report": ["a", "b", "a", "c", "b"], "day": ["x", "y", "x", "x", "x"]}


def written(tmp_path, columns, name="long.csv"):
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path / name


def test_every_reader_makes_one_history_a_user(tmp_path):
    expected = Tally(MEMO, [0, 1, 0, 2, 1], user=LONG["user"])
    assert expected.reports.tolist() == [[0, 0, 1], [0, 1, 0], [2, 1, 0]]
    path = written(tmp_path, LONG)
    assert lb.read(path, MEMO, by_user="user", categories=ABC) == expected
    assert lb.read(pyarrow.table(LONG), MEMO, report="report", by_user="user", categories=ABC) == expected
    counted = {"user": ["u1", "u2", "u2", "u3"], "report": ["b", "a", "b", "c"], "n": [1, 2, 1, 1]}
    assert lb.read(pyarrow.table(counted), MEMO, count="n", by_user="user", categories=ABC) == expected
    stated = LONG | {"protocol": [protocol_text(MEMO, ABC).replace('"', '""').join('""')] * 5}
    assert lb.read(written(tmp_path, stated, "stated.csv"), by_user="user") == expected
    settings = 'categories = ["a", "b", "c"]\n[[channels]]\nprotocol = "memoized_grr"\nfile = "long.csv"\n'
    settings += 'by_user = "user"\nn = 3\nparameters = {epsilon_infinity = 2, epsilon_one = 1}\n'
    (tmp_path / "long.toml").write_text(settings)
    read = read_collection(tmp_path / "long.toml")
    assert read.tallies == (expected,)
    write_collection(read, tmp_path / "again.toml")
    assert read_collection(tmp_path / "again.toml") == lb.Collection(ABC, (expected,), id="long")


def test_reports_of_other_protocols_are_fresh_and_cells_have_their_own_lengths(tmp_path):
    fresh = lb.read(pyarrow.table(LONG), GRR(3, 1.0), report="report", by_user="user", categories=ABC)
    assert fresh.protocol == Repeated(GRR(3, 1.0), ((1, 2), (3, 1)))
    cells = lb.read(pyarrow.table(LONG), MEMO, report="report", by="day", by_user="user", categories=ABC)
    assert [cell.tallies[0].protocol.times for cell in cells.values()] == [((1, 1), (3, 1)), ((1, 1),)]


@each_row(
    "change, settings, message",
    [
        ({"user": ["u2", "u1", "", "u3", "u2"]}, {}, "line 4,.*'user'"),
        ({"report": ["a", "b", "a", "z", "b"]}, {}, "unknown report 'z'"),
        ({"day": ["x", "y", "y", "x", "x"]}, {"by": "day"}, "'u2'.*'x'.*'y'"),
        ({}, {"protocol": MemoizedGRR(3, 2.0, 1.0, 2)}, "'u2'.*3 reports.*2"),
        ({}, {"by_user": "who"}, "column 'who'"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_sentence(tmp_path, change, settings, message):
    path = written(tmp_path, LONG | change)
    with pytest.raises(DataError, match=message) as caught:
        lb.read(path, **({"protocol": MEMO, "by_user": "user", "categories": ABC} | settings))
    assert str(caught.value).count("\n") == 0


def test_users_of_two_protocols_and_users_without_a_name_are_refused():
    texts = [protocol_text(MEMO, ABC), protocol_text(GRR(3, 1.0), ABC)]
    table = pyarrow.table({"user": ["u", "u"], "report": ["a", "b"], "protocol": texts})
    with pytest.raises(DataError, match=r"user 'u'.*grr.*memoized_grr"):
        lb.read(table, by_user="user")
    with pytest.raises(DataError, match="missing values"):
        lb.read(pyarrow.table({"user": ["u", None], "report": ["a", "b"]}), MEMO, by_user="user", categories=ABC)
    with pytest.raises(ArgumentError, match=r"left out.*by_user"):
        lb.read(pyarrow.table(LONG), MEMO, report="report", by_user="user", categories=ABC, weights="day")
    with pytest.raises(ArgumentError, match="by_user must"):
        lb.read(pyarrow.table(LONG), MEMO, report="report", by_user=3, categories=ABC)
    table = pyarrow.table({"user": ["u", "u"], "seed": [1, 2], "value": [0, 1]})
    with pytest.raises(DataError, match=r"'u'.*two seeds"):
        lb.read(table, LOLOHA.from_levels(3, 2.0, 1.0), by_user="user")


def test_spent_levels_are_part_of_the_result_and_of_its_page():
    tally = Tally(MEMO, [0, 1, 0, 2, 1], user=LONG["user"], categories=ABC)
    tree = lb.fit(tally, random_seed=1)
    lines = json.loads(facts_of(tree)["epsilon_spent"])
    assert [(times, users) for times, _, users in lines] == [(1, 2), (3, 1)]
    assert lines[0][1] == pytest.approx(1.0) and 1 < lines[1][1] < 2
    assert facts_of(tree)["epsilon_spent_max"] == lines[1][1] and facts_of(tree)["epsilon_spent_bound"] == 2
    assert facts_of(tree)["epsilon_spent_mean"] == pytest.approx((2 * lines[0][1] + lines[1][1]) / 3)
    assert facts_of(tree)["spent"].startswith("5 reports of 3 users, 1 to 3 each: a user has spent")
    page = show(tree)
    assert [(row[0], row[1]) for row in page.tables[-1].rows] == [("1", 2), ("3", 1)]
    assert any(note.text == facts_of(tree)["spent"] for note in page.notes)
    assert page.summary.startswith("From 5 reports of 3 users, ") and "3 users" in facts_of(tree)["worth"]
    both = lb.Collection(ABC, [tally, Tally(GRR(3, 1.0), [0, 1], name="others")])
    assert show(lb.fit(both, random_seed=1)).summary.startswith("From 7 reports of 5 users, ")  # it said 5 reports
    assert spent([Tally(GRR(3, 1.0), [0, 1])]) == {}
    fresh = spent([Tally(GRR(3, 1.0), [0, 1], user=[4, 4])])
    assert fresh["epsilon_spent_max"] == 2 and math.isinf(fresh["epsilon_spent_bound"])


def test_pages_hold_no_report_and_no_file_holds_the_names_of_users(tmp_path):
    """The seed of a hashed report points to its user as a name does."""
    protocol, rng = LocalHashing(3, 1.0), np.random.default_rng(1)
    reports = protocol.privatize(np.arange(40) % 3, rng)
    tally = Tally(protocol, reports, user=[f"somebody {k % 30}" for k in range(40)], categories=ABC)
    result = lb.fit(tally, "jeffreys", draws=25, random_seed=1)
    lb.write(lb.Collection(ABC, [tally]), tmp_path / "c.toml")
    for name in ("r.html", "r.md", "r.json", "r.csv", "r.nc"):
        result.save(tmp_path / name)
    lb.check(tally).save(tmp_path / "check.html")
    for path in tmp_path.rglob("*"):
        held = b"" if path.is_dir() else path.read_bytes()
        assert b"somebody" not in held, path
        page = path.name not in ("c.csv", "r.nc")
        assert not (page and any(str(seed).encode() in held for seed in reports[:, 0])), path


def test_users_of_several_days_have_spent_the_sum():
    """Two users report twice a day on three days; each day by itself shows a third of what they have spent."""
    days = {"user": [user for _ in range(6) for user in "uv"], "report": ["a", "b", "c"] * 4}
    days["day"] = [str(k // 4) for k in range(12)]
    cells = lb.read(pyarrow.table(days), GRR(3, 0.5), report="report", by_user="user", categories=ABC, by="day")
    attrs = facts_of(lb.fit(cells, "jeffreys", draws=0, random_seed=1))
    assert attrs["epsilon_spent_max"] == 3.0 and attrs["epsilon_spent_mean"] == 1.0
    assert attrs["spent"] == (
        "12 reports of 6 users, 2 each: in a cell a user has spent 1 nats on average and 1 at most. Who is in several cells "
        "counts as a user in each and has spent the sum, 3 where in all."
    )
    whole = lb.read(pyarrow.table(days), GRR(3, 0.5), report="report", by_user="user", categories=ABC)
    attrs = facts_of(lb.fit(whole, "jeffreys", draws=0, random_seed=1))
    assert attrs["epsilon_spent_max"] == 3.0
    assert attrs["spent"].endswith("a user has spent 3 nats on average and 3 at most. Every further report adds to that.")
    memoized = {"user": list("abcdef"), "report": ["a", "b", "c"] * 2, "day": list("xyxyxy")}
    cells = lb.read(pyarrow.table(memoized), MEMO, report="report", by_user="user", categories=ABC, by="day")
    assert facts_of(lb.fit(cells, "jeffreys", draws=0, random_seed=1))["epsilon_spent_max"] == MEMO.spent(1)


def test_the_command_takes_a_column_of_users(tmp_path, capsys):
    stated = LONG | {"protocol": [protocol_text(MEMO, ABC).replace('"', '""').join('""')] * 5}
    path = written(tmp_path, stated)
    status, out, _ = run(capsys, "fit", path, "--set", "by_user=user", "--draws", "100", "--seed", "1", "--json")
    assert status == 0 and json.loads(out)["n_reports"] == 3
    assert "of 3 users" in out
    status, _, err = run(capsys, "fit", path, "--set", "by_user=who")
    assert status == 2 and "column 'who'" in err
    status, _, err = run(capsys, "fit", "example:nigeria", "--set", "by_user=who")
    assert status == 2 and "column 'who'" in err


@pytest.mark.parametrize(
    "protocol", [MEMO, LOLOHA.from_levels(3, 2.0, 1.0), MemoizedUnary.from_levels(3, 2.0, 1.0)], ids=repr
)
def test_reports_of_users_read_without_their_column_name_the_argument(tmp_path, protocol):
    frame = pyarrow.table(LONG)
    for door in (
        lambda: lb.read(frame, protocol, categories=ABC),
        lambda: lb.read(frame, protocol, report="report", categories=ABC),
        lambda: lb.scan(frame, protocol, report="report", categories=ABC),
    ):
        with pytest.raises((ArgumentError, DataError), match="by_user"):
            door()


def test_the_command_names_the_argument_of_users(tmp_path, capsys):
    stated = "--protocol memoized_grr -p epsilon_infinity=2 -p epsilon_one=1 --categories a,b,c --report report".split()
    status, _, err = run(capsys, "fit", written(tmp_path, LONG), *stated)
    assert status == 2 and "--set by_user" in err and "line 2" in err


def test_a_headline_says_the_design_of_fresh_reports_in_words():
    found = lb.fit(lb.read(pyarrow.table(LONG), GRR(3, 1.0), categories=ABC, by_user="user"), draws=0, random_seed=1)
    assert "grr (epsilon = 1)" in found.page().summary and "1 to 3 reports a user" in found.page().summary
    assert "{" not in found.page().summary and "of =" not in found.page().summary


def test_checks_take_a_column_of_users(tmp_path, capsys):
    """Views of a permanent answer that are read as fresh reports agree with each other too well."""
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(300), 5)
    answers = MEMO.permanent.privatize(rng.choice(3, size=300, p=[0.6, 0.3, 0.1]), rng)[user]
    columns = {"user": user.astype(str), "report": np.array(ABC)[MEMO.instantaneous.privatize(answers, rng)]}
    path = written(tmp_path, columns)
    stated = ("--categories", "a,b,c", "--set", "by_user=user")
    for protocol, levels, expected in (
        ("memoized_grr", ("-p", "epsilon_infinity=2", "-p", "epsilon_one=1"), 0),
        ("grr", ("-p", "epsilon=1"), 1),
    ):
        status, out, _ = run(capsys, "check", path, "--protocol", protocol, *levels, *stated)
        assert status == expected and ("do not fit the design" in out) == bool(expected)
    nobody = (*stated[:-1], "by_user=who")
    status, _, err = run(capsys, "crosscheck", path, "--protocol", "grr", "-p", "epsilon=1", *nobody)
    assert status == 2 and "column 'who'" in err
    status, _, err = run(capsys, "check", path, "--protocol", "grr", "-p", "epsilon=1", *stated, "--set", "gamma=1")
    assert status == 2 and "weights, strata" in err and "got 'gamma'" in err


# ---- coverage ----------------------------------------------------------------------------------------------------------
def test_two_views_of_the_same_reports_agree_where_users_report_once():
    cell = {"n_categories": 4, "epsilon": 1.5, "n_reports": 200, "times": 1, "replications": 3}
    for protocol in repeats.PROTOCOLS:
        lines = repeats.coverage_of_repeats(cell | {"protocol": protocol}, np.random.default_rng(1))
        exact, independent = (
            [line["value"] for line in lines if line["estimator"] == name] for name in ("exact", "independent")
        )
        np.testing.assert_allclose(exact, independent, rtol=1e-6)


def test_exact_rows_cover_and_reports_taken_for_users_do_not():
    """A small sibling of the stored study: 60 replications of memoized GRR with 20 reports a user, within 4 errors."""
    cell = {"protocol": "memoized_grr", "n_categories": 4, "epsilon": 1.5, "n_reports": 1000, "times": 20}
    lines = repeats.coverage_of_repeats(cell | {"replications": 60}, np.random.default_rng(2))
    found = {line["estimator"]: line for line in lines if line["metric"] == "coverage"}
    assert abs(found["exact"]["value"] - 0.9) <= 4 * found["exact"]["standard_error"]
    assert found["independent"]["value"] <= 0.6


@pytest.mark.calibrate
def test_laplace_intervals_are_those_of_a_fit():
    rng = np.random.default_rng(5)
    protocol = repeats.protocol_of({"protocol": "memoized_grr", "n_categories": 4, "epsilon": 1.5, "times": 5})
    tally = Tally(protocol, repeats.draw(protocol, rng.choice(4, 1000, p=repeats.SHARES), 5, rng)[0])
    mode, low, high = repeats.interval(tally.rows, 0.95)
    summary = lb.fit(tally, "jeffreys", random_seed=1, estimates=False)["summary"].sel(target="distribution")
    sd = summary["sd"].values
    assert (np.abs(mode - summary["mean"].values) <= 0.1 * sd).all()
    assert (np.abs(low - summary["lower"].values) <= 0.25 * sd).all()
    assert (np.abs(high - summary["upper"].values) <= 0.25 * sd).all()


@pytest.mark.calibrate
def test_the_whole_study_covers_within_two_points():
    table = run_study(STUDIES["repeats"], "paper")
    assert_covers(table.to_pylist())


def test_the_stored_study_covers_within_two_points():
    path = __file__.replace("tests/repeated/test_by_user.py", "docs/theory/repeats-study.parquet")
    assert_covers(pyarrow.parquet.read_table(path).to_pylist())


def assert_covers(lines):
    """1,000 replications: exact rows cover 0.88 to 0.92 of 90 % intervals; reports taken for users do not from T = 5 on."""
    found = {(line["protocol"], line["times"], line["estimator"]): line for line in lines if line["metric"] == "coverage"}
    assert {key[:2] for key in found} == {(protocol, times) for protocol in repeats.PROTOCOLS for times in repeats.TIMES}
    assert all(line["replications"] >= 1000 for line in found.values())
    for (_, times, treatment), line in found.items():
        if treatment == "exact" or times == 1:
            assert 0.88 <= line["value"] <= (0.92 if times > 1 else 0.925), line
        else:
            assert line["value"] < 0.82, line
