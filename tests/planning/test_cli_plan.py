"""``ldpbayes plan`` and ``ldpbayes simulate`` as a user meets them."""

import json
import re

import pytest
from commands import run
from tabulated import each_row

from ldpbayes import planning, read
from ldpbayes.protocols import make_protocol


@pytest.fixture(autouse=True)
def in_checkout(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


def cells(out, protocol):
    """Return the cells of the table's line of a protocol."""
    line = next(line for line in out.splitlines() if re.match(rf"│ {protocol}\s", line))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_plan_inverts_itself_on_the_command_line(capsys):
    status, out, _ = run(capsys, "plan", "--n-categories", 16, "--epsilon", 1, "--error", 0.01)
    users = int(cells(out, "subset")[3].replace(",", ""))
    assert status == 0 and 1000 < users < 100_000
    _, out, _ = run(capsys, "plan", "--n-categories", 16, "--epsilon", 1, "--users", users)
    assert float(cells(out, "subset")[4]) == pytest.approx(0.01, rel=1e-3)


def test_plan_takes_a_population_and_draws(capsys, tmp_path):
    arguments = ["--epsilon", 1, "--users", 32561, "--n-categories", 9, "--truth", "data/populations/adult_workclass.csv"]
    status, out, _ = run(capsys, "plan", *arguments, "--protocol", "grr", "--plot", tmp_path / "plan.png")
    assert status == 0 and "grr" in out and "subset" not in out
    assert (tmp_path / "plan.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    "name, parameters, settings",
    [
        ("local_hashing", ["buckets=2"], {"buckets": 2}),
        ("unary", ["variant=optimised"], {"variant": "optimised"}),
        ("cohort_rr", ["buckets=4", "cohorts=8"], {"buckets": 4, "cohorts": 8}),
        ("subset", ["size=3"], {"size": 3}),
    ],
)
def test_plan_takes_every_protocol(capsys, name, parameters, settings):
    """The error on the command line is that of Python's expected_error."""
    given = [word for text in parameters for word in ("-p", text)]
    status, out, err = run(
        capsys, "plan", "--n-categories", 8, "--epsilon", 1, "--users", 5000, "--protocol", name, *given, "--json"
    )
    assert status == 0, err
    protocol = make_protocol(name, list("abcdefgh"), settings | {"epsilon": 1.0})
    assert json.loads(out)["plans"][0]["error"] == pytest.approx(planning.expected_error(protocol, 5000), rel=1e-12)


@pytest.mark.parametrize(
    "name, categories, parameters, settings",
    [
        ("warner", 2, ["p=0.7"], {"p": 0.7}),
        ("forced_response", 2, ["truth=0.75", "forced=[1, 1]"], {"truth": 0.75, "forced": [1, 1]}),
        ("crosswise", 2, ["p=0.2"], {"p": 0.2}),
        ("triangular", 2, ["p=0.2"], {"p": 0.2}),
        ("unrelated_question", 2, ["p=0.7", "innocuous=0.4"], {"p": 0.7, "innocuous": 0.4}),
        ("christofides", 2, ["shares=[0.2, 0.3, 0.5]"], {"shares": [0.2, 0.3, 0.5]}),
        ("kuk", 2, ["p_carrier=0.8", "p_other=0.2"], {"p_carrier": 0.8, "p_other": 0.2}),
        ("direct", 3, ["n_categories=3"], {"n_categories": 3}),
        ("channel", 2, ["matrix=[[0.8, 0.3], [0.2, 0.7]]"], {"matrix": [[0.8, 0.3], [0.2, 0.7]]}),
        (
            "kronecker",
            4,
            ['factors=[{protocol="warner", p=0.7}, {protocol="crosswise", p=0.2}]'],
            {"factors": [{"protocol": "warner", "p": 0.7}, {"protocol": "crosswise", "p": 0.2}]},
        ),
    ],
)
def test_plan_takes_every_design(capsys, name, categories, parameters, settings):
    given = [word for text in parameters for word in ("-p", text)]
    given += ["--protocol", name, "--n-categories", categories, "--kind", "half_width", "--json"]
    status, out, err = run(capsys, "plan", "--users", 5000, *given)
    assert status == 0, err
    (found,) = json.loads(out)["plans"]
    protocol = make_protocol(name, [str(x) for x in range(categories)], settings)
    error = planning.expected_error(protocol, 5000, kind="half_width")
    assert found["error"] == pytest.approx(error, rel=1e-12)
    _, out, _ = run(capsys, "plan", "--error", error, *given)
    assert json.loads(out)["plans"][0]["n"] == 5000  # planning inverts itself


def test_plan_of_a_design_draws(capsys, tmp_path):
    given = ["--protocol", "warner", "-p", "p=0.7", "--error", 0.03, "--plot", tmp_path / "w.png"]
    status, _, _ = run(capsys, "plan", *given)
    assert status == 0 and (tmp_path / "w.png").stat().st_size > 5000


@each_row(
    "arguments, words",
    [
        (
            ["--protocol", "warner", "-p", "p=0.7", "--epsilon", 1, "--users", 9],
            "epsilon follows from the parameters of warner; leave it out, and name these, as in warner:p=….",
        ),
        (
            ["--protocol", "rappor", "--epsilon", 1, "--users", 9],
            "leave it out, and name these, as in rappor:p=…,q=…,f=…,n_bits=…,cohorts=…,hashes=….",
        ),
        (["--protocol", "warner", "-p", "p=0.7"], "exactly one of n_categories, n, error"),
        (["--protocol", "warner", "--users", 9], "needs the parameter 'p'"),
        (["--n-categories", 4, "--epsilon", 1, "--users", 9, "-p", "p=0.7"], "exactly one --protocol"),
        (
            ["--protocol", "stochastic_lie_detector", "-p", "p=0.2", "--n-categories", 3, "--error", 0.1],
            "No number of reports",
        ),
        (["--n-categories", 16], "--epsilon, --users, --error are missing"),
        (["--n-categories", 16, "--epsilon", 0, "--error", 0.1], "epsilon must be"),
        (["--n-categories", 16, "--epsilon", 1, "--error", -1], "error"),
        (["--n-categories", 16, "--epsilon", 1, "--error", 0.1, "--kind", "l3"], "kind must be one of"),
        (["--n-categories", 16, "--epsilon", 1, "--error", 0.1, "--protocol", "magic"], "magic"),
        (["--n-categories", 16, "--epsilon", 1, "--error", 0.1, "--truth", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_plan_refuses_in_one_sentence(capsys, arguments, words):
    status, out, err = run(capsys, "plan", *arguments)
    assert status == 2 and out == "" and words in " ".join(err.split())


def test_simulate_then_fit(capsys, tmp_path):
    file = tmp_path / "made.toml"
    arguments = ["--truth", "zipf", "--n-categories", 6, "--users", 3000, "--protocol", "subset", "-p", "epsilon=2"]
    status, out, _ = run(capsys, "simulate", file, *arguments, "--seed", 3)
    assert status == 0 and "3,000 reports" in out
    first = file.read_text(), file.with_suffix(".csv").read_text()
    run(capsys, "simulate", file, *arguments, "--seed", 3)
    assert (file.read_text(), file.with_suffix(".csv").read_text()) == first
    assert sum(read(file).published[0]["estimate"]) == 3000
    status, out, _ = run(capsys, "fit", file, "--seed", 1)
    assert status == 0 and "mean of F" in out


@each_row(
    "arguments, words",
    [
        (["--truth", "zipf", "--users", 10, "-p", "epsilon=1"], "--n-categories must be given"),
        (["--n-categories", 5, "-p", "epsilon=1"], "users must be given"),
        (["--n-categories", 5, "--users", 10], "needs the parameter 'epsilon'"),
        (["--n-categories", 5, "--users", 10, "-p", "epsilon"], "name=value"),
        (["--n-categories", 5, "--users", 10, "-p", "epsilon=one"], "epsilon must be"),
    ],
)
def test_simulate_refuses_in_one_sentence(capsys, tmp_path, arguments, words):
    status, out, err = run(capsys, "simulate", tmp_path / "x.toml", *arguments)
    assert status == 2 and out == "" and words in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_names_that_plan_prints_are_accepted_everywhere(capsys, tmp_path):
    _, out, _ = run(capsys, "plan", "--n-categories", 4, "--epsilon", 1, "--users", 1000, "--json")
    names = [line["protocol"] for line in json.loads(out)["plans"]]
    assert set(names) == set(planning.PROTOCOLS)
    for name in names:
        file = tmp_path / f"{name}.toml"
        given = ["--n-categories", 4, "--users", 200, "--protocol", name, "-p", "epsilon=1", "--seed", 1]
        status, _, err = run(capsys, "simulate", file, *given)
        assert status == 0, (name, err)
        assert read(file).n_reports == 200
        file.write_text(re.sub('protocol = "[a-z_]+"', f'protocol = "{name}"', file.read_text()))
        assert read(file).n_reports == 200


@pytest.mark.parametrize("name, parameters", [("blh", ["--epsilon", 1]), ("extended_crosswise", ["-p", "p=0.2"])])
def test_plan_knows_aliases(capsys, name, parameters):
    status, _, err = run(capsys, "plan", "--n-categories", 2, "--users", 1000, "--protocol", name, *parameters)
    assert status == 0, (name, err)
