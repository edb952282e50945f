"""Studies: resumed, in parallel, and right: the posterior mean beats every estimator and risks fall on their formulas."""

import dataclasses
import pathlib

import joblib
import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr

from ldpbayes.errors import ArgumentError, DataError
from studies import __main__ as command
from studies import common, convergence, evaluate, plotting
from studies.base import Study, grid
from studies.catalogue import STUDIES
from studies.figures import FULL
from studies.page import pivot
from studies.plotting import plot_study
from studies.runner import find_study, run_study

NAMES = list(STUDIES)
CALLS = []
STOP_AFTER = [None]


def noted(cell, rng):
    """Note the call, stop where asked as Ctrl-C does, and return one draw."""
    if STOP_AFTER[0] is not None and len(CALLS) == STOP_AFTER[0]:
        raise KeyboardInterrupt
    CALLS.append(cell["epsilon"])
    values = rng.standard_normal(cell["replications"]) ** 2
    return evaluate.summarize_losses({("oracle", "distribution", "mse"): values})


def five_cells(setting):
    return grid(protocol=["grr"], n_categories=[3], n_reports=[10], epsilon=[0.1, 0.2, 0.5, 1.0, 2.0], replications=[4])


NOTED = Study("noted", "A study that notes its calls", "nobody", five_cells, noted)


@pytest.fixture(autouse=True)
def forget_calls():
    CALLS.clear()
    STOP_AFTER[0] = None


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.calibrate)])
def risk(request):
    """Study (a) at its small setting with fewer replications, a third without its largest alphabet or whole, as dicts."""
    study = find_study("risk")
    if request.param == "some":
        few = [cell for cell in study.cells("small") if cell["n_categories"] < 1000][::3]
        study = dataclasses.replace(study, cells=lambda setting: few)
    return run_study(study, replications=10, random_seed=5).to_pylist()


# ---- what the studies find -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("risk", ["all"], indirect=True)
@pytest.mark.calibrate
def test_posterior_mean_has_the_least_mse_on_every_cell(risk):
    """Paired differences on the same reports: never below zero by more than three standard errors, and mostly above by one.

    With many reports the gain is a few errors of ten replications; a sixth of equal estimators would be above by one.
    """
    others = [line for line in risk if line["estimator"] != "posterior_mean"]
    assert len(others) == 16 * 2 * 3
    for line in others:
        assert line["excess"] > -3 * line["excess_error"], line
    assert sum(line["excess"] > line["excess_error"] for line in others) > 0.75 * len(others)


@pytest.mark.calibrated("some")
def test_simulated_risks_fall_on_the_formulas(risk):
    """The oracle's closed form; for the posterior mean, its own posterior variance."""
    checked = [line for line in risk if line["estimator"] in ("oracle", "posterior_mean")]
    for line in checked:
        assert abs(line["value"] - line["expected"]) < 4 * np.hypot(line["standard_error"], line["expected_error"]), line
    # All together the deviations must look like noise: no bias that hides below four errors.
    z = [(r["value"] - r["expected"]) / np.hypot(r["standard_error"], r["expected_error"]) for r in checked]
    assert abs(np.mean(z)) < 0.5


def test_bounds_stand_below_what_they_bound(risk):
    for line in risk:
        assert line["bound_any"] <= line["bound"] * (1 + 1e-9)
        if line["bound_finite"] is not None and line["estimator"] == "posterior_mean":
            assert line["bound_finite"] <= line["value"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("protocol", ["grr", "oue", "subset", "hadamard"])
def test_mle_and_oracle_reach_their_risks(protocol):
    """A fixed distribution inside the simplex and many reports: both targets on the formulas of planning.risk."""
    cell = {"protocol": protocol, "n_categories": 5, "epsilon": 2.0, "n_reports": 20_000, "population": "geometric"}
    rng = np.random.default_rng(11)
    lines = evaluate.simulate_risks(cell | {"replications": 200}, rng, estimators=("mle", "oracle"))
    assert len(lines) == 4
    for line in lines:
        assert abs(line["value"] - line["expected"]) < 4 * np.hypot(line["standard_error"], line["expected_error"]), line


@pytest.mark.calibrate
def test_distance_to_the_mle_falls_with_n():
    study = find_study("convergence")
    found = run_study(study, replications=4).to_pylist()
    for name in ("grr", "hadamard"):
        here = [line for line in found if line["protocol"] == name and line["metric"] == "distance_in_sd"]
        distances = [line["value"] for line in here if line["estimator"] == "mle"]
        assert distances == sorted(distances, reverse=True)
        assert distances[-1] < 0.2
        assert all(line["value"] < 0.2 for line in here if line["estimator"] == "nuts")
    assert all(line["value"] == 0 for line in found if line["metric"] == "apart" and line["estimator"] != "nuts")


def test_losses_of_a_cross_check_are_those_of_its_numbers():
    checked = xr.Dataset(
        {
            "mean": ("category", [0.6, 0.3, 0.1]),
            "sd": ("category", [0.1, 0.1, 0.05]),
            "difference_sd": ("category", [0.1, -0.1, 0.0]),
            "difference_mcse": ("category", [5.0, -1.0, 0.0]),
            "away": (("estimator", "category"), [[1.0, 0.0, -2.0], [1.0, -2.0, 2.0]]),
            "convex_astray": 0,
        },
        {"estimator": ["convex", "mle"]},
    )
    found = convergence.losses_of(checked, np.array([0.5, 0.4, 0.1]))
    assert found["posterior_mean", "mse"] == pytest.approx(0.02)
    assert found["mle", "distance_in_sd"] == pytest.approx(np.sqrt(3))
    assert found["mle", "distance"] == pytest.approx(np.sqrt(0.06))  # at (.7, .1, .2)
    assert found["mle", "mse"] == pytest.approx(0.04 + 0.09 + 0.01)
    assert (found["nuts", "apart"], found["convex", "apart"]) == (1, 0)
    assert ("enumeration", "apart") not in found


@pytest.mark.sampled(3)
@pytest.mark.calibrated("convergence", "coverage", "priors")
@pytest.mark.parametrize("name", NAMES)
def test_every_study_runs(name):
    """The cheapest and some other cells of every study; errors of Monte Carlo are stated."""
    if name in ("poisoning", "populations", "priors") and not common.POPULATIONS.is_dir():
        pytest.skip("data/populations is in a checkout only")
    study = find_study(name)
    whole = FULL[name].cells() if name in FULL else study.cells("paper")
    assert len(whole) > len(study.cells("small"))
    cells = study.cells("small")
    some = [c for c in cells if c["n_categories"] <= 16 and c.get("n_reports", 0) <= 50_000] or cells
    if name == "priors":  # over a hundred categories as they are
        some = [cell | {"population": "adult_education", "n_categories": 16, "n_reports": 1000} for cell in some]
    chosen = dataclasses.replace(study, cells=lambda setting: some[:: max(1, len(some) // 3)])
    table = run_study(chosen, replications=2)
    for line in table.to_pylist():
        assert np.isfinite(line["value"]) and (line["value"] >= 0 or line["metric"] == "gain")
        assert np.isfinite(line["standard_error"])
    headers, rows = pivot(table, chosen)
    assert rows and {len(row) for row in rows} == {len(headers)}
    assert plot_study(table, study.x, study.lines, study.panels, title=study.title).axes


# ---- the runner ----------------------------------------------------------------------------------------------------------
def test_interrupted_run_goes_on_where_it_stopped(tmp_path):
    whole = run_study(NOTED)
    CALLS.clear()
    STOP_AFTER[0] = 3
    with pytest.raises(KeyboardInterrupt):
        run_study(NOTED, output=tmp_path)
    assert CALLS == [0.1, 0.2, 0.5]
    assert len(list((tmp_path / "cells").iterdir())) == 3  # nothing half written beside them
    assert not (tmp_path / "noted-small.parquet").exists()
    CALLS.clear()
    STOP_AFTER[0] = None
    resumed = run_study(NOTED, output=tmp_path)
    assert CALLS == [1.0, 2.0]
    assert resumed.equals(whole)
    assert pq.read_table(tmp_path / "noted-small.parquet").equals(whole)
    CALLS.clear()
    assert run_study(NOTED, output=tmp_path).equals(whole)
    assert CALLS == []


def test_other_seed_or_replications_are_other_cells(tmp_path):
    first = run_study(NOTED, output=tmp_path)
    other = run_study(NOTED, output=tmp_path, random_seed=1)
    assert len(CALLS) == 10
    assert first["value"].to_pylist() != other["value"].to_pylist()
    assert run_study(NOTED, output=tmp_path, replications=9)["replications"].to_pylist() == [9] * 5
    assert len(CALLS) == 15


def test_numbers_do_not_depend_on_jobs_or_on_other_cells():
    with joblib.parallel_config(backend="threading"):
        parallel = run_study(NOTED, jobs=2)
    assert parallel.equals(run_study(NOTED))
    fewer = run_study(dataclasses.replace(NOTED, cells=lambda setting: five_cells(setting)[3:]))
    assert fewer["value"].to_pylist() == parallel["value"].to_pylist()[3:]


@pytest.mark.calibrate
def test_processes_give_the_same_numbers():
    study = find_study("decoders")
    chosen = dataclasses.replace(study, cells=lambda setting: study.cells(setting)[:4])
    assert run_study(chosen, replications=2, jobs=2).equals(run_study(chosen, replications=2))


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fails(path, data):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(pathlib.Path, "write_bytes", fails)
    with pytest.raises(DataError, match=r"parquet:.*disk full"):
        run_study(NOTED, output=tmp_path)
    assert list((tmp_path / "cells").iterdir()) == []


def test_a_damaged_cell_is_named(tmp_path):
    run_study(NOTED, output=tmp_path)
    cell = next((tmp_path / "cells").iterdir())
    cell.write_bytes(cell.read_bytes()[:50])
    with pytest.raises(DataError, match=rf"{cell.name}:.*finished cell"):
        run_study(NOTED, output=tmp_path)


def test_a_cell_holds_itself(tmp_path):
    """Neither another cell's file, nor another seed's, nor an empty or a foreign table is taken for a finished cell."""
    run_study(NOTED, output=tmp_path)
    first, second = sorted((tmp_path / "cells").iterdir())[:2]
    right = first.read_bytes()
    table = pq.read_table(first)
    refused = rf"{first.name}: holds something else than its cell; remove it"

    def assert_refused(path=first):
        with pytest.raises(DataError, match=refused):
            run_study(NOTED, output=tmp_path)

    first.write_bytes(second.read_bytes())
    assert_refused()
    pq.write_table(table.slice(0, 0), first)
    assert_refused()
    pq.write_table(table.replace_schema_metadata(None), first)
    assert_refused()
    pq.write_table(table.drop_columns(["value"]), first)
    assert_refused()
    other = tmp_path / "other"
    run_study(NOTED, output=other, random_seed=1)
    first.write_bytes(next((other / "cells").iterdir()).read_bytes())
    assert_refused()
    first.write_bytes(b"")
    with pytest.raises(DataError, match="finished cell"):
        run_study(NOTED, output=tmp_path)
    first.write_bytes(right)
    CALLS.clear()
    run_study(NOTED, output=tmp_path)
    assert CALLS == []


def test_no_jobs(tmp_path):
    with pytest.raises(ArgumentError, match=r"jobs must.*1"):
        run_study(NOTED, jobs=0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("nonsense",), "study must.*'nonsense'"),
        (("risk", "huge"), "setting must.*'huge'"),
    ],
)
def test_bad_names(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        run_study(*arguments)


def test_bad_numbers(tmp_path):
    with pytest.raises(ArgumentError, match=r"replications must.*2"):
        run_study(NOTED, replications=1)
    with pytest.raises(ArgumentError, match="random_seed must"):
        run_study(NOTED, random_seed=-1)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot.*made"):
        run_study(NOTED, output=tmp_path / "file")


# ---- figure and command ------------------------------------------------------------------------------------------------
def test_figure_shows_the_numbers():
    table = run_study(NOTED)
    (axes,) = plot_study(table, "epsilon", ("estimator",), ("protocol",), title="T").axes
    (bars,) = axes.containers
    x, y = bars.lines[0].get_data()
    assert list(x) == [0.1, 0.2, 0.5, 1.0, 2.0]
    np.testing.assert_array_equal(y, table["value"].to_pylist())
    assert axes.get_title() == "GRR" and axes.get_xscale() == "log"


def test_ticks_of_a_study_are_far_apart():
    assert plotting._spread([0.1, 0.2, 0.5, 1, 2, 5]) == [0.1, 0.5, 2, 5]
    many = np.geomspace(100, 1e6, 17)
    kept = plotting._spread(many)
    assert len(kept) <= 6 and kept[0] == 100
    assert np.diff(np.log(kept)).min() >= np.log(1e4) / 5 * 0.99
    assert plotting._spread([3.0]) == [3.0]


def test_figure_keeps_the_best_of_what_it_leaves_out():
    def cells(setting):
        return grid(protocol=["orr_open"], n_categories=[3], epsilon=[1.0], buckets=[2, 4, 8], replications=[4])

    table = run_study(dataclasses.replace(NOTED, cells=cells))
    (axes,) = plot_study(table, "epsilon", ("protocol",), ("n_categories",)).axes
    assert list(axes.containers[0].lines[0].get_ydata()) == [min(table["value"].to_pylist())]


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(STUDIES, "noted", NOTED)
    command.main(["noted", "--output", str(tmp_path), "--page", str(tmp_path / "noted.md")])
    assert "its calls" in (tmp_path / "noted.md").read_text()
    shown = capsys.readouterr().out
    assert "its calls" in shown and "Wrote" in shown
    assert (tmp_path / "noted-small.png").stat().st_size > 5_000
    assert pq.read_table(tmp_path / "noted-small.parquet").num_rows == 5


def test_command_lists_and_refuses(capsys):
    command.main([])
    listed = capsys.readouterr().out
    assert all(name in listed for name in NAMES)
    with pytest.raises(SystemExit) as stopped:
        command.main(["nonsense"])
    assert stopped.value.code == 2
