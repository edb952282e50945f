"""``ldpbayes plan`` and ``ldpbayes simulate`` as a user meets them."""

import re

import pytest
from commands import run

from ldpbayes import read_collection
from ldpbayes.simulate import true_values


@pytest.fixture(autouse=True)
def in_checkout(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


def cells(out, protocol):
    """Return the cells of the table's line of a protocol."""
    line = next(line for line in out.splitlines() if re.match(rf"│ {protocol}\s", line))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_plan_inverts_itself_on_the_command_line(capsys):
    status, out, _ = run(capsys, "plan", "--categories", 16, "--epsilon", 1, "--error", 0.01)
    users = int(cells(out, "subset")[3].replace(",", ""))
    assert status == 0 and 1000 < users < 100_000
    _, out, _ = run(capsys, "plan", "--categories", 16, "--epsilon", 1, "--users", users)
    assert float(cells(out, "subset")[4]) == pytest.approx(0.01, rel=1e-3)


def test_plan_takes_a_population_and_draws(capsys, tmp_path):
    arguments = ["--epsilon", 1, "--users", 32561, "--categories", 9, "--p", "data/populations/adult_workclass.csv"]
    status, out, _ = run(capsys, "plan", *arguments, "--protocol", "grr", "--plot", tmp_path / "plan.png")
    assert status == 0 and "grr" in out and "subset" not in out
    assert (tmp_path / "plan.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--categories", 16], "exactly one"),
        (["--categories", 16, "--epsilon", 0, "--error", 0.1], "epsilon must be"),
        (["--categories", 16, "--epsilon", 1, "--error", -1], "error"),
        (["--categories", 16, "--epsilon", 1, "--error", 0.1, "--kind", "l3"], "kind must be one of"),
        (["--categories", 16, "--epsilon", 1, "--error", 0.1, "--protocol", "magic"], "magic"),
        (["--categories", 16, "--epsilon", 1, "--error", 0.1, "--p", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_plan_refuses_in_one_sentence(capsys, arguments, words):
    status, out, err = run(capsys, "plan", *arguments)
    assert status == 2 and out == "" and words in " ".join(err.split())


def test_simulate_then_fit(capsys, tmp_path):
    file = tmp_path / "made.toml"
    arguments = ["--population", "zipf", "--categories", 6, "--users", 3000, "--protocol", "subset", "-p", "epsilon=2"]
    status, out, _ = run(capsys, "simulate", file, *arguments, "--seed", 3)
    assert status == 0 and "3,000 reports" in out
    first = file.read_text(), file.with_suffix(".csv").read_text()
    run(capsys, "simulate", file, *arguments, "--seed", 3)
    assert (file.read_text(), file.with_suffix(".csv").read_text()) == first
    assert true_values(read_collection(file))[1].sum() == 3000
    status, out, _ = run(capsys, "fit", file, "--seed", 1)
    assert status == 0 and "mean of F" in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--population", "zipf", "--users", 10, "-p", "epsilon=1"], "n_categories"),
        (["--categories", 5, "-p", "epsilon=1"], "users must be given"),
        (["--categories", 5, "--users", 10], "needs the parameter 'epsilon'"),
        (["--categories", 5, "--users", 10, "-p", "epsilon"], "name=value"),
        (["--categories", 5, "--users", 10, "-p", "epsilon=one"], "epsilon must be"),
    ],
)
def test_simulate_refuses_in_one_sentence(capsys, tmp_path, arguments, words):
    status, out, err = run(capsys, "simulate", tmp_path / "x.toml", *arguments)
    assert status == 2 and out == "" and words in " ".join(err.split())
    assert not list(tmp_path.iterdir())
