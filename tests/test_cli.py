"""The command line as a user meets it: tables, JSON, files, and one sentence on bad input."""

import csv
import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import run
from tabulated import each_row

import ldpbayes as lb
from ldpbayes import cli, result
from ldpbayes.cli import printing
from ldpbayes.pages.prose import first_sentence

NIGERIA = "data/rr_nigeria.toml"

GOOD = """
categories = ["no", "yes"]

[[channels]]
protocol = "grr"
file = "counts.csv"
report = "report"
count = "count"
parameters = { epsilon = 1.0 }
"""


@pytest.fixture(autouse=True)
def in_checkout(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


def test_fit_prints_table_and_reason(capsys):
    status, out, _ = run(capsys, "fit", NIGERIA, "--prior", "flat", "--seed", 1, "--explain")
    assert status == 0
    for word in ("0.2621", "0.0144", "0.2341 to 0.2905", "0.2619", "method exact", "Log-evidence", "mean of F"):
        assert word in out


def test_json_has_everything(capsys):
    status, out, err = run(capsys, "fit", NIGERIA, "--prior", "flat", "--seed", 1, "--json")
    found = json.loads(out)
    assert status == 0 and err == ""
    assert found["method"] == "exact" and found["categories"] == ["no", "yes"] and found["random_seed"] == 1
    for target in ("distribution", "frequency"):
        assert set(found[target]) == {"mean", "sd", "lower", "upper", "lower_error", "upper_error", "mcse"}
        assert sum(found[target]["mean"]) == pytest.approx(1)
    assert found["distribution"]["mean"][1] == pytest.approx(0.26211, abs=5e-6)
    assert found["mle"][1] == pytest.approx(0.26191, abs=5e-6)
    assert found["oracle"][1] == pytest.approx(0.26191, abs=5e-6)
    assert np.isfinite(found["log_evidence"]) and found["diagnostics"]["converged"] == 1


def test_same_seed_same_numbers(capsys):
    first = run(capsys, "fit", NIGERIA, "--seed", 7, "--json")
    assert run(capsys, "fit", NIGERIA, "--seed", 7, "--json") == first
    assert run(capsys, "fit", NIGERIA, "--seed", 8, "--json") != first


def test_a_protocol_beside_a_file_that_states_it(capsys, tmp_path):
    """What the file states needs no labels, and what contradicts it is told by both levels."""
    lb.write([0, 1, 2, 2], tmp_path / "r.parquet", lb.GRR(3, epsilon=1.0))
    given = ["fit", tmp_path / "r.parquet", "--protocol", "grr", "-p", "epsilon=2"]
    status, _, problems = run(capsys, *given)
    assert status == 2 and "--protocol" in problems
    status, _, problems = run(capsys, *given, "--n-categories", "3")
    assert status == 2 and "epsilon=1.0" in problems and "epsilon=2.0" in problems


def test_derived_quantities_are_printed(capsys):
    status, out, _ = run(capsys, "fit", "data/rr_minarets.toml", "--prior", "flat", "--seed", 1, "--draws", 100)
    assert status == 0
    for quantity, mean in (("pi", "0.87"), ("t", "0.63")):
        assert any(line.startswith(f"│ {quantity} ") and mean in line for line in out.splitlines())


def test_files_are_written_and_read_back(capsys, tmp_path):
    status, out, _ = run(capsys, "fit", NIGERIA, "--seed", 1, "--output", tmp_path / "f.nc", "--plot", tmp_path / "f.png")
    assert status == 0 and "Wrote" in out
    tree = result.load(tmp_path / "f.nc")
    assert tree.attrs["method"] == "exact" and tree.attrs["random_seed"] == 1
    assert tree["posterior"]["distribution"].dims == ("chain", "draw", "category")
    assert (tmp_path / "f.png").read_bytes()[1:4] == b"PNG"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.nc", "f.png"]


def test_explain_names_every_method_considered(capsys):
    status, out, _ = run(capsys, "fit", "data/rr_minarets.toml", "--explain", "--draws", 0)
    assert status == 0 and "exact" in out and "chosen" in out


#: One command of each kind, as short as it can be.
SHAPES = [
    *(f"fit example:{name} --draws 0 --seed 1" for name in ("nigeria", "cheating", "survey")),
    "fit example:nigeria_cells --draws 100 --prior hierarchical --seed 1",
    "regress example:nigeria_cells 'connected ~ female' --seed 1",
    "associate example:wada --draws 100 --seed 1",
    "check example:wada --fake-share 0.05 --channel A",
    "check example:nigeria_cells",
    "plan --n-categories 5 --epsilon 1 --n-groups 2 --delta 0.05 --power 0.8 --fake-share 0.05",
    "private-groups example:survey.csv --value region --report smokes --protocol warner -p p=0.7 --categories no,yes "
    "--draws 50 --seed 1",
    "protocols",
    pytest.param("crosscheck example:nigeria --draws 100 --seed 1", marks=pytest.mark.calibrate),
]


@pytest.mark.parametrize("command", SHAPES, ids=lambda command: " ".join(command.split()[:2]))
def test_the_answer_then_tables_then_three_notes(capsys, monkeypatch, command):
    """At 100 characters: one sentence, tables of eight columns, three notes; --explain has every table and note."""
    monkeypatch.setenv("COLUMNS", "100")
    shown, display = [], printing.display
    monkeypatch.setattr(
        printing, "display", lambda page, *settings: (shown.append((page, settings)), display(page, *settings))
    )
    status, out, _ = run(capsys, *shlex.split(command))
    ((page, (as_json, explain, details)),) = shown
    lines = [line for line in out.splitlines() if line.strip()]
    boxes = [i for i, line in enumerate(lines) if line[:1] in "┏┃┡│└"]
    assert status in (0, 1) and not (as_json or explain or details)
    assert max(map(len, lines)) <= 100, max(lines, key=len)
    assert all(line.count("┳") < 8 for line in lines if line.startswith("┏"))
    said = " ".join(" ".join(lines[: boxes[0]]).split())
    assert said.startswith(" ".join(page.summary.split())) and first_sentence(page.summary) == page.summary
    brief = page.in_lines("--explain", details)
    told = [note.text for note in brief.notes if not note.text.endswith(": --explain.")]
    assert len(told) <= 3 and all(first_sentence(text) == text for text in told)
    hidden = [table.title for table in page.tables if table not in brief.tables]
    assert not any(re.search(rf"^{re.escape(title)}\s*┏", out, re.M) for title in hidden)
    assert not hidden or hidden[0] in lines[-1] + lines[-2] + lines[-3]
    rows_of_no = [line for line in lines if re.search(r"│ no +│ +\d+\.\d", line)]  # also a group is "no" of female
    # Where there are two categories the second says all; groups, and two ways to compute the same, are shown in full.
    assert len(rows_of_no) == {"private-groups": 1, "crosscheck": 1}.get(command.split()[0], 0)
    capsys.readouterr()
    display(page, False, True)
    full = " ".join(capsys.readouterr().out.split())
    assert all(" ".join(note.text.split()) in full for note in page.notes) and "--explain" not in full.rpartition("│")[2]


def test_details_are_printed_where_they_are_asked_for(capsys):
    """What a prior learns, of which nobody asked, stands below the answer with --top or --explain, and always by name."""
    command = ("fit", "example:survey", "--by", "region", "--draws", 50, "--prior", "hierarchical", "--seed", 1)
    _, out, _ = run(capsys, *command)
    assert "\nEffect" not in out and "Effect: --explain" in " ".join(out.split())
    _, out, _ = run(capsys, *command, "--top", 30)
    assert "\nEffect" in out and "\nPooled" in out


def test_protocols_lists_designs(capsys):
    status, out, _ = run(capsys, "protocols")
    assert status == 0
    for name in ("grr", "crosswise", "forced_response", "kronecker", "epsilon"):
        assert name in out


def test_protocols_say_what_one_of_them_is(capsys):
    status, out, _ = run(capsys, "protocols", "crosswise")
    assert status == 0 and "innocuous question" in out and "P(same | carrier) = p" in out
    status, out, _ = run(capsys, "protocols", "oue", "--json")
    found = json.loads(out)
    assert (
        status == 0
        and found["protocol"] == "unary"
        and {row["parameter"] for row in found["parameters"]} == {"epsilon", "lam"}
    )
    status, _, said = run(capsys, "protocols", "croswise")
    assert status == 2 and "mean crosswise?" in said


def test_a_number_may_begin_with_its_point(capsys):
    said = [
        run(
            capsys,
            "fit",
            "example:survey.csv",
            *f"--protocol warner -p p={p} --categories no,yes --report smokes --seed 1".split(),
        )
        for p in (".7", "0.7")
    ]
    assert said[0] == said[1] and said[0][0] == 0


def test_help_teaches(capsys):
    status, out, _ = run(capsys, "fit", "--help")
    assert status == 0 and "example:nigeria" in out and "oracle" in out


def test_help_names_the_first_commands_and_says_in_a_line_what_each_is_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    status, out, _ = run(capsys, "--help")
    first = re.findall(r"^ +ldpbayes (\w+) \S+", out, re.M)
    assert status == 0 and first[:3] == ["fit", "check", "plan"]
    commands = out.rpartition("Commands")[2].splitlines()[1:-2]
    assert [line.split()[1] for line in commands if line.startswith("│")] == list(cli.COMMANDS)


def test_every_option_of_help_is_that_of_its_command():
    """A flag takes no value, every other option says what it takes, and no text is of another command's options."""
    for name in cli.COMMANDS:
        command = cli._parsed(name).commands[name]
        with command.make_context(name, [], resilient_parsing=True) as context:
            parameters = command.get_params(context)
        own = {flag for parameter in parameters for flag in parameter.opts}
        for parameter in parameters:
            text = vars(parameter).get("help") or ""
            assert text and (parameter.metavar == "") == bool(vars(parameter).get("is_flag")), (name, parameter.name)
            assert parameter.metavar is not None and "study" not in text, (name, parameter.name)
            mentioned = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
            assert mentioned <= own, (name, parameter.name, mentioned - own)
            panel = vars(parameter).get("rich_help_panel")
            assert panel != "Three of these give the fourth" or name == "plan"
        meanings = {parameter.name: vars(parameter).get("help") for parameter in parameters}
        assert "--categories" not in own or "label" in meanings["categories"]
        assert "--n-categories" not in own or "Number of categories" in meanings["n_categories"]
        assert ("-n" in own) == (name in ("plan", "simulate"))


@each_row(
    "toml, table, words",
    [
        (GOOD, "report,count\nno,3\nmaybe,4\n", ["counts.csv", "line 3", "maybe"]),
        (GOOD, "report,count\nno,3\nyes,-4\n", ["line 3", "count"]),
        (GOOD, "report,count\nno,0\nyes,0\n", ["no reports"]),
        (GOOD, "report,count\n", ["no rows"]),
        (GOOD, "report\nno\n", ["no column 'count'"]),
        (GOOD.replace("epsilon = 1.0", "epsilon = 0"), "", ["epsilon must be a number in (0, 50], got 0"]),
        (GOOD.replace("epsilon = 1.0", "epsilon = -1"), "", ["epsilon", "-1"]),
        (GOOD.replace("epsilon = 1.0", "epsilon = nan"), "", ["epsilon", "nan"]),
        (GOOD.replace("epsilon = 1.0", "epsilon = 800"), "", ["epsilon", "800"]),
        (GOOD.replace("epsilon = 1.0", ""), "", ["needs the parameter 'epsilon'"]),
        (GOOD.replace('"grr"', '"grrr"'), "", ["protocol must be one of"]),
        (GOOD.replace(', "yes"', ""), "", ["categories"]),
        (GOOD + "n = 8\n", "report,count\nno,3\nyes,4\n", ["add up to 7", "8"]),
        (GOOD.replace("epsilon = 1.0", "epsilon ="), "", ["not valid TOML"]),
        (GOOD.replace("file =", "fil ="), "", ["unknown key 'fil'"]),
    ],
)
def test_bad_collections_get_one_sentence(capsys, tmp_path, toml, table, words):
    (tmp_path / "c.toml").write_text(toml)
    (tmp_path / "counts.csv").write_text(table)
    status, out, err = run(capsys, "fit", tmp_path / "c.toml")
    flat = " ".join(err.split())
    assert status == 2 and out == "" and "Traceback" not in err
    for word in words:
        assert word in flat, flat


@each_row(
    "arguments, words",
    [
        (["fit", "nowhere.toml"], "nowhere.toml"),
        (["fit", NIGERIA, "--prior", "jefferys"], "prior must be one of jeffreys, flat"),
        (["fit", NIGERIA, "--prior", "-1"], "prior must be a finite number above 0"),
        (["fit", NIGERIA, "--prior", "nan"], "prior must be a finite number above 0"),
        (["fit", NIGERIA, "--ci", "1"], "--ci must be a probability in (0, 1)"),
        (["fit", NIGERIA, "--method", "magic"], "magic"),
        (["fit", "data/rr_minarets.toml", "--method", "exact"], "single out one category"),
        (["fit", NIGERIA, "--plot", "x.txt"], "plot must end in"),
        (["fit", NIGERIA, "--output", "no/such/folder/x.nc"], "cannot be written"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_arguments_get_one_sentence(capsys, arguments, words):
    status, _, err = run(capsys, *arguments)
    assert status == 2 and "Traceback" not in err
    assert words in " ".join(err.replace("│", " ").split())


def test_a_csv_page_has_every_category(capsys, tmp_path):
    path = tmp_path / "many.toml"
    assert run(capsys, "simulate", path, "--n-categories", 60, "--users", 1000, "-p", "epsilon=2", "--seed", 1)[0] == 0
    assert run(capsys, "fit", path, "--seed", 1, "--top", 5, "--page", tmp_path / "page.csv")[0] == 0
    with open(tmp_path / "page.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["category"]]
    assert [line["category"] for line in lines] == [f"c{x:02d}" for x in range(60)]
    assert all(line["distribution_confidence_lower"] for line in lines)


@each_row(
    "arguments, words",
    [
        (("fit", "example:nigeria", "--ci", 95), "--ci must be a probability in (0, 1), got 95.0."),
        (("check", "example:nigeria", "--fake-share", 5), "--fake-share must be"),
        (("plan", "--n-categories", 16, "--epsilon", 1), "determine the fourth; --users, --error are missing."),
        (("plan", "--protocol", "warner", "-p", "p=0.5", "--users", 100), "ldpbayes: p must be different from 0.5"),
        (("fit", "x.csv", "--protocol", "warner", "-p", "p=x"), "--parameter p must be a probability in [0, 1], got 'x'."),
        (("simulate", "x.toml", "--n-categories", 3, "-p", "epsilon=-1"), "--parameter epsilon must be"),
        (("simulate", "x.toml", "-p", "epsilon=1"), "--n-categories must be given for the population zipf."),
    ],
)
def test_complaints_name_the_option(capsys, arguments, words):
    status, _, problems = run(capsys, *arguments)
    assert status == 2 and words in problems and len(problems.splitlines()) == 1


def test_help_comes_before_anything_heavy():
    """Neither NumPy nor a module of the package that needs it is loaded to say what the commands are; -h is --help."""
    script = """
import pathlib, sys
from ldpbayes.cli import main
try:
    main([sys.argv[1]])
except SystemExit as end:
    assert not end.code
print(*sys.modules, file=sys.stderr)
most = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
assert int(most.split()[1]) < 60 * 1024, most
"""
    for option, words in (
        ("--help", "private-groups"),
        ("-h", "private-groups"),
        ("--version", f"ldpbayes {lb.__version__}"),
    ):
        done = subprocess.run([sys.executable, "-c", script, option], capture_output=True, text=True)
        assert done.returncode == 0 and words in done.stdout, done.stderr
        assert not {"numpy", "scipy", "ldpbayes.checks", "ldpbayes.pages"} & set(done.stderr.split())


def test_keys_that_are_set_are_those_of_the_command(capsys):
    """A key that is unknown, given twice, without a value, or with names where it takes none, is refused in one sentence."""
    for wrong in (
        ["wight=w"],
        ["weights"],
        ["weights=w", "weights=v"],
        ["weights.north=w"],
        ["noncompliance=no"],
        ["population_size."],
    ):
        given = [word for text in wrong for word in ("--set", text)]
        status, out, err = run(capsys, "fit", NIGERIA, *given)
        assert status == 2 and out == "" and "--set must" in err and err.count("\n") == 1, (wrong, err)


def test_a_table_without_protocol_says_it_by_options(capsys, tmp_path):
    rows = ["answer,sex", *["no,f"] * 60, *["yes,f"] * 20, *["no,m"] * 50, *["yes,m"] * 30, ",m", "NA,f"]
    (tmp_path / "survey.csv").write_text("\n".join(rows) + "\n")
    stated = ("--protocol", "forced_response", "-p", "truth=2/3", "-p", "forced=1,1", "--categories", "no,yes")
    file = (tmp_path / "survey.csv", "--report", "answer")
    status, _, problems = run(capsys, "fit", *file, *stated)
    assert status == 2 and "unknown report ''" in problems and "missing=''" in problems
    status, _, problems = run(capsys, "fit", file[0], *stated)
    assert status == 2 and "by --report" in " ".join(problems.split())
    status, out, _ = run(capsys, "fit", *file, *stated, "--set", "missing=NA", "--json", "--seed", 1)
    assert status == 0 and json.loads(out)["distribution"]["mean"][1] == pytest.approx(
        0.21875, abs=0.01
    )  # (50/160 − 1/6)·3/2
    status, out, _ = run(capsys, "fit", *file, *stated, "--set", "missing=NA", "--by", "sex")
    assert status == 0 and "2 of 162 people" in " ".join(out.split())
    (tmp_path / "empty.csv").write_text("\n".join(rows[:-1]) + "\n")
    status, out, _ = run(capsys, "fit", tmp_path / "empty.csv", *file[1:], *stated, "--set", "missing=", "--by", "sex")
    assert status == 0 and "1 of 161 people" in " ".join(out.split())
    status, out, _ = run(capsys, "check", tmp_path / "survey.csv", "--bad-rows", "skip")
    assert status == 2
    status, _, problems = run(capsys, "fit", "example:nigeria", *stated)
    assert status == 2 and "collection file" in problems
    status, _, problems = run(capsys, "crosscheck", *file, "--protocol", "grr", "-p", "epsilon=1")
    assert status == 2 and "categories must" in problems


def survey(tmp_path, *last, suffix="csv"):
    """Return a file of forty rows, and some more lines, and the options that say what a column of it is."""
    rows = [f"{'yes' if i % 3 else 'no'},{20 + i},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["smokes,age,g", *rows, *last, ""]))
    if suffix == "parquet":
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(tmp_path / "t.csv"), tmp_path / "t.parquet")
    if suffix == "jsonl":
        lines = pyarrow.csv.read_csv(tmp_path / "t.csv").to_pylist()
        (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    stated = "--protocol warner -p p=0.8 --categories no,yes --report smokes --method mle --json".split()
    return [tmp_path / f"t.{suffix}", "smokes ~ age + C(g)", *stated]


def test_a_regression_reads_files_as_other_commands_do(capsys, tmp_path):
    status, expected, err = run(capsys, "regress", *survey(tmp_path))
    assert status == 0, err
    for suffix in ("parquet", "jsonl"):
        assert run(capsys, "regress", *survey(tmp_path, suffix=suffix))[:2] == (0, expected.replace("t.csv", f"t.{suffix}"))
    path, *arguments = survey(tmp_path)
    rows = path.read_text().splitlines()
    for g in "ab":  # in the name of a folder, which is no text of the file
        (tmp_path / "hive" / f"g={g}").mkdir(parents=True)
        lines = ["smokes,age", *(row.rpartition(",")[0] for row in rows if row.endswith(f",{g}"))]
        (tmp_path / "hive" / f"g={g}" / "x.csv").write_text("\n".join(lines))
    found = json.loads(run(capsys, "regress", tmp_path / "hive", *arguments)[1])
    np.testing.assert_allclose(found["coefficients"], json.loads(expected)["coefficients"], atol=1e-9)
    arguments = [path, *arguments]
    blanks = (tmp_path / "t.csv").read_text().replace(",a\n", ',"a "\n', 7).replace("b\n", "b \n", 3)
    (tmp_path / "t.csv").write_text(blanks)
    assert run(capsys, "regress", *arguments)[:2] == (0, expected)


@each_row(
    "last, words",
    [
        ("yes,thirty,a", "field 'age': holds 'thirty' among numbers; correct it, or write C(age) for a factor"),
        ("yes,33", "t.csv, line 42: has 2 cells, the header 3"),
        ('yes,33,"a', "t.csv, line 42: is not a valid CSV file: unexpected end of data"),
        ("yes,NA,a", "field 'age': is missing in 1 of 41 rows"),
        ("NA,33,a", "field 'smokes': is missing in 1 of 41 rows"),
    ],
)
def test_a_row_of_a_regression_that_is_none_is_refused(capsys, tmp_path, last, words):
    status, _, err = run(capsys, "regress", *survey(tmp_path, last))
    assert status == 2 and words in " ".join(err.split())
