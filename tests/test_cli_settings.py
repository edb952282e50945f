"""``--set KEY=VALUE`` is one language: the keys of a collection file, in every command that reads reports."""

import dataclasses
import json
import pathlib
import re

import pytest
from commands import run

import ldpbayes as lb
from ldpbayes.cli import options, settings
from ldpbayes.errors import ArgumentError
from ldpbayes.sources import collection_file

#: How a key is written on the command line and in a file, one row each.
SAME = (
    ([], ""),
    (["title=A survey, 2024", "citation=x"], 'title = "A survey, 2024"\ncitation = "x"'),
    (["ordered=true"], "ordered = true"),
    (["missing=NA", "missing="], 'missing = ["NA", ""]'),
    (['missing=["NA", ""]'], 'missing = ["NA", ""]'),
    (["missing=", "missing=NA", "weights=w"], 'missing = ["", "NA"]\nweights = "w"'),
    (["missing=NA", "missing=", "strata=s", "population_size=900"], 'missing = ["NA", ""]\nstrata="s"\npopulation_size=900'),
    (
        ["missing=NA", "missing=", "strata=s", "cluster=c", "population_size.a=9", "population_size.b=8"],
        'missing = ["NA", ""]\nstrata = "s"\ncluster = "c"\npopulation_size = { a = 9, b = 8 }',
    ),
    (["noncompliance.no-sayer=no"], '[noncompliance]\nno-sayer = "no"'),
    (["noncompliance.x.device=uniform"], '[noncompliance]\nx = { device = "uniform" }'),
    (["derived.carriers.of=yes"], '[derived.carriers]\nof = ["yes"]'),
    (["derived.all.of=yes", "derived.all.of=no"], '[derived.all]\nof = ["yes", "no"]'),
    (["deniers.of=yes", "deniers.say=no", "deniers.channel=device"], '[deniers]\nof="yes"\nsay="no"\nchannel="device"'),
)
CHANNEL = """
[[channels]]
name = "device"
protocol = "warner"
parameters = { p = 0.8 }
file = "t.csv"
report = "r"
"""
STATED = {"protocol": "warner", "parameter": ["p=0.8"], "report": ["r"]}


def table(folder, odd=True):
    """Write a table of reports with columns of a sample, and two answers that are missing."""
    rows = [f"{'yes' if i % 3 else 'no'},{1 + i % 5},{'ab'[i % 2]},{i % 8}" for i in range(48)]
    more = ["NA,1,a,0", ",2,b,1"] if odd else []
    (folder / "t.csv").write_text("\n".join(["r,w,s,c", *rows, *more, ""]))


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
@pytest.mark.parametrize("texts, lines", SAME, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_key_means_in_a_command_what_it_means_in_a_file(texts, lines, tmp_path):
    """The same collection from a table with --set, from a file that states it, and from one that does not with --set."""
    table(tmp_path, "missing" in lines)
    top, _, tables = lines.partition("[")
    top, tables = (top, f"[{tables}") if re.match(r"^\[", lines, re.M) else (lines, "")
    stated = 'id = "t"\ncategories = ["no", "yes"]\n'
    (tmp_path / "full.toml").write_text(f"{stated}{top}\n{CHANNEL}{tables}\n")
    (tmp_path / "plain.toml").write_text(f"{stated}{CHANNEL}")
    asked = settings.parsed(texts, "fit")
    expected = lb.read(tmp_path / "full.toml")
    assert options.read(tmp_path.joinpath("plain.toml").as_posix(), stated=asked) == expected
    rows = options.TableOptions(**STATED, categories="no,yes").settings | {"name": "device"}
    same = options.read(tmp_path.joinpath("t.csv").as_posix(), stated=asked, **rows)
    assert dataclasses.replace(same, published=expected.published) == expected


def test_a_set_key_of_a_table_keeps_the_others_of_the_file(tmp_path):
    table(tmp_path, odd=False)
    text = f'categories = ["no", "yes"]\n{CHANNEL}[derived.carriers]\nof = ["yes"]\n'
    (tmp_path / "x.toml").write_text(text)
    found = options.read(str(tmp_path / "x.toml"), stated=settings.parsed(["derived.others.of=no"], "fit"))
    assert [item.name for item in found.derived] == ["carriers", "others"]


def test_every_key_is_one_of_a_collection_file():
    known = {*collection_file._COLLECTION, *collection_file._CHANNEL}
    for key in settings.KEYS:
        assert key.pattern.partition(".")[0] in known
    page = (pathlib.Path(__file__).parents[1] / "docs" / "howto" / "collection-files.md").read_text()
    assert all(f"`{key.pattern}`" in page for key in settings.KEYS)
    for keys in (*settings.USED.values(), settings.OF_TABLE):
        assert {key.pattern for key in keys} <= {key.pattern for key in settings.KEYS}


@pytest.mark.parametrize(
    "command, text, names",
    [
        ("fit", "wight=w", ["weights", "did you mean weights"]),
        ("fit", "deniers.whom=yes", ["did you mean deniers."]),
        ("fit", "noncompliance_prior=1,9", ["--noncompliance-prior"]),
        ("fit", "deniers_prior=1,9", ["--deniers-prior"]),
        ("fit", "categories=no,yes", ["--categories"]),
        ("fit", "by=region", ["--by"]),
        ("fit", "parameters.p=0.7", ["--parameter"]),
        ("regress", "totals.yes=0.3", ["--total"]),
        ("regress", "deniers.formula=age", ["--deniers-formula"]),
        ("plan", "p=uniform", ["--truth", "noncompliance.NAME"]),
        ("plan", "target=frequency", ["--target"]),
        ("plan", "estimator=oracle", ["--estimator"]),
        ("plan", "gamma=0.2", ["--noncompliance-share"]),
        ("plan", "deniers.delta=0.2", ["--deniers-share"]),
        ("plan", "weights=w", ["deniers.of"]),
        ("scan", "weights=w", ["missing, by_user"]),
        ("private-groups", "missing=NA", ["weights"]),
        ("check", "gamma=1", ["weights", "missing"]),
        ("crosscheck", "weight=w", ["did you mean weights"]),
        ("associate", "clusters=c", ["did you mean cluster?"]),
        ("associate", "noncompliance.no-sayer=no/no", ["weights", "missing"]),
        ("associate", "deniers.of=yes/yes", ["weights", "missing"]),
    ],
)
def test_what_a_command_does_not_use_is_refused_with_what_it_does(command, text, names):
    with pytest.raises(ArgumentError, match="--set must") as refused:
        settings.parsed([text], command)
    assert all(name in str(refused.value) for name in names) and repr(text.partition("=")[0]) in str(refused.value)


@pytest.mark.parametrize(
    "texts",
    [["weights"], ["weights="], ["weights=w", "weights=v"], ["missing=[NA"], ["ordered=yes"], ["population_size=many"]],
)
def test_what_is_no_value_is_refused(texts):
    with pytest.raises(ArgumentError):
        settings.parsed(texts, "fit")
    with pytest.raises(ArgumentError):
        settings.parsed(["population_size=3", "population_size.a=3"], "fit")


@pytest.mark.parametrize("text", ["noncompliance.no-sayer=uniform", "deniers.channel=A"])
def test_associate_neither_lists_nor_takes_deniers_and_those_who_ignore_the_device(text, capsys):
    """It says which keys it takes, and ends with the status 2; its help names none that it refuses."""
    status, _, said = run(capsys, "associate", "example:wada", "--set", text)
    taken = [key.pattern for key in settings.used("associate")]
    assert status == 2 and said.count("ldpbayes:") == 1 and ", ".join(taken) in " ".join(said.split())
    assert not any(pattern.startswith(("noncompliance", "deniers")) for pattern in taken)
    _, out, _ = run(capsys, "associate", "--help")
    assert "derived.NAME.of" in out and not re.search(r"(noncompliance|deniers)\.\w", out)


def test_one_key_in_every_command_that_reads_reports(tmp_path, capsys):
    """weights=w and deniers reach fit, check, crosscheck, regress and private-groups; the same number of them all."""
    table(tmp_path, odd=False)
    stated = ["--protocol", "warner", "-p", "p=0.8", "--categories", "no,yes", "--report", "r", "--set", "weights=w"]
    file = str(tmp_path / "t.csv")
    status, out, _ = run(capsys, "fit", file, *stated, "--draws", 0, "--json")
    weighted = json.loads(out)["distribution"]["mean"][1]
    status, out, _ = run(capsys, "fit", file, *stated[:-2], "--draws", 0, "--json")
    assert status == 0 and abs(json.loads(out)["distribution"]["mean"][1] - weighted) > 1e-3
    status, out, _ = run(capsys, "check", file, *stated)
    assert status == 0 and "weights" in out
    status, out, _ = run(capsys, "regress", file, "smokes ~ s", *stated, "--method", "mle", "--json")
    assert status == 0 and json.loads(out)
    status, _, said = run(capsys, "regress", file, "yes ~ s", *stated, "--set", "by_user=w")
    assert status == 2 and "of weights" in said and "by_user" in said
