"""Results: files of version 0.1.0 are read, damage is one sentence, traces become results, cells stack and come apart."""

import functools
import io
import pathlib
import types
import warnings

import arviz_stats
import h5netcdf
import h5py
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from tabulated import each_row

from ldpbayes import GRR, Cells, Collection, Tally, answers, fit, load, result, save
from ldpbayes.collections import Derived
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.methods.frequency import frequency_moments
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.pymc import observe
from ldpbayes.result import saving
from ldpbayes.result.facts import facts_of
from ldpbayes.robust.crosschecking import predictive_check

pytestmark = pytest.mark.long

OLD = sorted((pathlib.Path(__file__).parent / "data").glob("result_0.1.0_*.nc"))
LABELS = ["a", "b", "c", "d"]


# ---- files of 0.1.0 and damaged ones -------------------------------------------------------------------------------------
@pytest.mark.calibrated("exact", "nuts")
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem.removeprefix("result_0.1.0_"))
def test_results_of_version_0_1_0_are_read_and_answer(path, tmp_path, monkeypatch):
    if path != OLD[0]:  # one of them takes the second process, and its time
        monkeypatch.setattr(saving, "_read_elsewhere", lambda path: None)
    tree = load(path)
    assert tree.attrs["method"] == path.stem.removeprefix("result_0.1.0_")
    first = str(tree["posterior"]["category"].values[0])
    share = answers.category_sum(tree, first)
    assert share["lower"] <= share["mean"] <= share["upper"]
    assert 0 <= float(answers.interval_parts(tree)["privacy_share"][0]) <= 1
    assert answers.simultaneous_intervals(tree).sizes["category"] == tree["posterior"].sizes["category"]
    save(tree, tmp_path / "again.nc")
    again = load(tmp_path / "again.nc")
    assert again["posterior"].to_dataset().equals(tree["posterior"].to_dataset()) and repr(again.attrs) == repr(tree.attrs)


def test_there_are_files_of_version_0_1_0():
    assert {path.stem.removeprefix("result_0.1.0_") for path in OLD} == {"exact", "quadrature", "augmentation", "nuts"}


@functools.cache
def old_tree():
    """Return what a result of version 0.1.0 must have: each variable more takes time to write and to read."""
    tree = xr.open_datatree(OLD[0], engine="h5netcdf").load()
    needed = {name: tree[name].to_dataset() for name in ("posterior", "observed_data", "constant_data", "summary")}
    needed["posterior"] = needed["posterior"][["distribution", "frequency"]]
    derived = [name for name in needed["summary"].data_vars if name.startswith("derived")]
    needed["summary"] = needed["summary"].drop_vars([*derived, "quantity"])
    out = xr.DataTree.from_dict(needed)
    out.attrs |= tree.attrs
    return out


def damaged(change):
    """Return an old result after a change to its groups (a dict of Datasets) and attrs."""
    tree = old_tree()
    groups, attrs = {name: node.to_dataset().copy() for name, node in tree.children.items()}, dict(tree.attrs)
    change(groups, attrs)
    out = xr.DataTree.from_dict(groups)
    out.attrs |= attrs
    return out


def put(group, name, value):
    def change(groups, attrs):
        dims = groups[group][name].dims
        groups[group][name] = (dims, np.array(value(groups[group][name].values.copy())))

    return change


def negative(values):
    values[0, 0] = [1.25, -0.25, *[0.0] * (values.shape[-1] - 2)]
    return values


def unfinished(values):
    values[1, 3, 0] = np.nan
    return values


def without(group, name=None):
    def change(groups, attrs):
        if name is None:
            del groups[group]
        else:
            groups[group] = groups[group].drop_vars(name)

    return change


def attribute(name, value=None):
    def change(groups, attrs):
        attrs.pop(name)
        if value is not None:
            attrs[name] = value

    return change


def relabelled(groups, attrs):
    groups["summary"] = groups["summary"].assign_coords(
        category=[f"x{i}" for i in range(groups["summary"].sizes["category"])]
    )


DAMAGE = {
    "draws off the simplex, sum": (put("posterior", "distribution", lambda v: v * 1.1), "does not sum to one"),
    "draws off the simplex, sign": (put("posterior", "distribution", negative), "holds negative shares, such as -0.25"),
    "frequencies off the simplex": (put("posterior", "frequency", negative), "frequency holds negative shares"),
    "draws that are nan": (put("posterior", "distribution", unfinished), "not finite"),
    "draws that are integers": (put("posterior", "distribution", lambda v: v > 0.5), "floating-point numbers"),
    "no posterior": (without("posterior"), "no group 'posterior'"),
    "no observed data": (without("observed_data"), "no group 'observed_data'"),
    "no constant data": (without("constant_data"), "no group 'constant_data'"),
    "no distribution": (without("posterior", "distribution"), "no variable 'distribution'"),
    "no frequency": (without("posterior", "frequency"), "no variable 'frequency'"),
    "no labels": (without("posterior", "category"), "no labels"),
    "no sd in the summary": (without("summary", "sd"), "no variable 'sd'"),
    "no targets in the summary": (without("summary", "target"), "must have the targets"),
    "means that are no shares": (put("summary", "mean", lambda v: v + 3), "shares from 0 to 1"),
    "other labels in the summary": (relabelled, "other categories than"),
    "no settings": (attribute("settings"), "no attribute 'settings'"),
    "settings that are no JSON": (attribute("settings", "{"), "must be JSON and a number"),
    "settings that are a list": (attribute("settings", "[]"), "a JSON object"),
    "no number of reports": (attribute("n_reports", "many"), "must be JSON and a number"),
    "negative number of reports": (attribute("n_reports", -3), "a number above 0"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_results_are_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "_read_elsewhere", lambda path: None)
    change, words = DAMAGE[name]
    damaged(change).to_netcdf(tmp_path / "damaged.nc", engine="h5netcdf")
    with pytest.raises(DataError, match=words) as caught:
        load(tmp_path / "damaged.nc")
    assert "damaged.nc" in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_files_with_changed_or_missing_bytes_never_raise_anything_else(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "_read_elsewhere", lambda path: None)  # none of these files keeps HDF5 busy
    raw, rng = OLD[0].read_bytes(), np.random.default_rng(7)
    refused = 0
    for attempt in range(40):
        data = bytearray(raw)
        if attempt % 2:
            del data[int(rng.integers(8, len(raw))) :]
        for place in rng.integers(0, len(data), size=int(rng.integers(1, 40))):
            data[place] = rng.integers(256)
        path = tmp_path / f"{attempt}.nc"
        path.write_bytes(bytes(data))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(path)
        except DataError as err:
            refused += 1
            assert str(path) in str(err) and "\n" not in str(err)
    assert refused > 20  # the others' changes fell on bytes that nothing reads


# ---- the checksum, and files without one ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """Return the bytes of a saved result."""
    path = tmp_path_factory.mktemp("sealed") / "r.nc"
    save(damaged(lambda groups, attrs: None), path)
    return path.read_bytes()


def test_every_changed_or_missing_byte_of_a_saved_result_is_refused_before_hdf5_sees_it(sealed, tmp_path, monkeypatch):
    monkeypatch.setattr(saving.xr, "open_datatree", None)
    monkeypatch.setattr(saving.subprocess, "run", None)
    path, rng, seal = tmp_path / "r.nc", np.random.default_rng(3), len(saving.SEAL) + 32
    for place in [0, 9, 41, *rng.integers(0, len(sealed) - seal, size=200).tolist(), len(sealed) - 1]:
        path.write_bytes(sealed[:place] + bytes([sealed[place] ^ 1 << rng.integers(8)]) + sealed[place + 1 :])
        with pytest.raises(DataError, match=r"r\.nc:.*(damaged|NetCDF)"):
            load(path)
    for length in (9, 47, 48, 600, len(sealed) - seal - 1):
        path.write_bytes(sealed[:length])
        with pytest.raises(DataError, match=rf"r\.nc:.*cut short.*{length:,}"):
            load(path)


def test_other_programs_read_a_saved_result_which_stays_closed(sealed, tmp_path):
    path = tmp_path / "r.nc"
    path.write_bytes(sealed)
    load(path)
    with h5netcdf.File(path, "a") as file:  # was refused while the file was still open for reading
        assert set(file.groups) == set(old_tree().children)
        file.attrs["added"] = "by another program"
    with h5py.File(path) as file:
        assert file.attrs["added"] == "by another program"


def test_a_file_without_a_checksum_is_read_in_a_second_process_first(sealed, tmp_path, monkeypatch):
    path, asked = tmp_path / "r.nc", []
    monkeypatch.setattr(saving.subprocess, "run", lambda command, **settings: asked.append(command) or done)
    done = types.SimpleNamespace(returncode=0)
    path.write_bytes(sealed)
    load(path)
    assert not asked
    path.write_bytes(sealed[: -len(saving.SEAL)])
    assert load(path)["posterior"].sizes["draw"] == old_tree()["posterior"].sizes["draw"] and asked[0][-1] == str(path)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("while True: pass", r"did not finish within 0 seconds"),
        ("import os; os.kill(os.getpid(), 11)", "failed with a fault"),
    ],
)
def test_a_file_that_hdf5_does_not_survive_is_one_sentence(program, words, tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(program)
    monkeypatch.setattr(saving.storage, "__file__", str(tmp_path / "program.py"))
    monkeypatch.setattr(saving, "PATIENCE", 0.2 if "while" in program else 60.0)
    (tmp_path / "r.nc").write_bytes(OLD[0].read_bytes())
    with pytest.raises(DataError, match=rf"r\.nc: .*HDF5 library {words}"):
        load(tmp_path / "r.nc")


@pytest.mark.calibrate
def test_a_file_that_keeps_hdf5_busy_for_ever_is_refused(sealed, tmp_path, monkeypatch):
    place = sealed.index(b"GCOL") + 24  # the size of the first text in the heap of texts: -16, so that none follows it
    data = sealed[:place] + b"\xf0" + b"\xff" * 7 + sealed[place + 8 :]
    monkeypatch.setattr(saving, "PATIENCE", 5.0)
    (tmp_path / "r.nc").write_bytes(data)
    with pytest.raises(DataError, match="checksum"):
        load(tmp_path / "r.nc")
    (tmp_path / "r.nc").write_bytes(data[:-1])
    with pytest.raises(DataError, match="5 seconds"):
        load(tmp_path / "r.nc")


def test_what_is_no_result_is_not_saved(tmp_path):
    for tree, words in ((None, "got NoneType"), (xr.DataTree(), "got DataTree; result has no group 'posterior'")):
        with pytest.raises(ArgumentError, match=rf"result must.*{words}"):
            save(tree, tmp_path / "x.nc")
    assert not (tmp_path / "x.nc").exists()


def test_what_is_no_netcdf_is_one_sentence(tmp_path):
    for content in (b"", b"not a file of this kind", io.BytesIO(np.arange(9).tobytes()).getvalue()):
        (tmp_path / "x.nc").write_bytes(content)
        with pytest.raises(DataError, match=r"read.*NetCDF"):
            load(tmp_path / "x.nc")
    with pytest.raises(DataError, match=r"cannot.*read"):
        load(tmp_path / "missing.nc")


# ---- traces of models of one's own ---------------------------------------------------------------------------------------
def survey(counts, **facts):
    return Collection(LABELS, [Tally(GRR(4, 1.5), [0, 1, 2, 3], counts)], **facts)


def trace_of(draws, name="p", dims=("category",), coords=None, **others):
    """Return a trace as pm.sample returns it, from draws made elsewhere."""
    data = {name: (("chain", "draw", *dims), draws)}
    data |= {key: (("chain", "draw"), value) for key, value in others.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(data, coords)})


def test_a_trace_of_one_distribution_becomes_a_result(tmp_path):
    collection = survey([90, 50, 40, 20], derived=(Derived("ab", ("a", "b")),))
    exact = fit(collection, "flat", "exact", random_seed=1)
    draws = exact["posterior"]["distribution"].values
    tree = result.attach(trace_of(draws, sigma=np.ones((4, 1000))), collection, random_seed=2, prior_label="flat")
    assert (
        tree.attrs["method"] == "attached" and tree.attrs["converged"] and facts_of(tree)["frequency_draws"] == "allocated"
    )
    mean, sd = frequency_moments(
        exact["exact"]["distribution_mean"].values, exact["exact"]["distribution_sd"].values ** 2, np.ones(4), 200
    )
    found = tree["summary"].sel(target="frequency")
    assert np.abs((found["mean"].values - mean) / (sd / np.sqrt(4000))).max() < 4
    np.testing.assert_allclose(found["sd"], sd, rtol=0.07)
    assert tree["summary"]["quantity"].values.tolist() == ["ab", "sigma"]
    assert answers.category_sum(tree, ["a", "b"])["mean"] == pytest.approx(float(tree["summary"]["derived_mean"][0]))
    (whole,) = predictive_check(collection, tree, random_seed=1)
    assert 0.01 < whole.p_value < 1
    save(tree, tmp_path / "attached.nc")
    again = load(tmp_path / "attached.nc")
    assert again["posterior"].to_dataset().equals(tree["posterior"].to_dataset())


def test_the_same_seed_attaches_the_same_frequencies():
    collection = survey([90, 50, 40, 20])
    trace = trace_of(np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 50)))
    one, two = (result.attach(trace, collection, random_seed=5)["posterior"]["frequency"].values for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.fixture(scope="module")
def groups():
    """Five groups with their reports under OUE, by region and year."""
    rng, protocol = np.random.default_rng(3), UnaryEncoding.optimized(4, 2.0)
    centre, cells = np.array([0.5, 0.0, -0.3, -0.2]), {}
    for i, n in enumerate([300, 200, 150, 400, 250]):
        eta = centre + 0.4 * rng.normal(size=4)
        p = np.exp(eta) / np.exp(eta).sum()
        tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p), rng))
        cells["north" if i < 3 else "south", 2020 + i] = Collection(LABELS, [tally])
    return Cells(cells, by=["region", "year"], covariates={"rural": [0.1, 0.2, 0.3, 0.4, 0.5]})


def hierarchical(cells):
    """Return the trace of a model in which the groups' logits vary about common ones."""
    with pm.Model(coords={"cell": cells.labels, "category": LABELS}):
        common = pm.Normal("common", 0, 1.5, dims="category")
        spread = pm.HalfNormal("spread", 1)
        logits = common + spread * pm.Normal("deviations", 0, 1, dims=("cell", "category"))
        p = pm.Deterministic("p", pm.math.softmax(logits, axis=-1), dims=("cell", "category"))
        observe("reports", p, cells, dims=("cell", "category"))
        return pm.sample(
            draws=500,
            tune=500,
            chains=4,
            cores=1,
            random_seed=1,
            nuts_sampler="nutpie",
            nuts={"target_accept": 0.95},
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )


@pytest.fixture(scope="module", params=["ours", pytest.param("pymc", marks=pytest.mark.calibrate)])
def trace(request, groups):
    """Draws of groups about a common mean: the package's own, or those of a PyMC model, which takes time to compile."""
    if request.param == "pymc":
        return hierarchical(groups)
    posterior = fit(groups, "hierarchical", draws=500, random_seed=1, estimates=False)["posterior"]
    return trace_of(posterior["distribution"].values, dims=("cell", "category"), spread=posterior["scale"].values)


def test_a_hierarchical_trace_becomes_a_result(groups, trace, tmp_path):
    tree = result.attach(trace, groups, random_seed=1, prior_label="hierarchical")
    assert tree["posterior"]["distribution"].dims == ("chain", "draw", "cell", "category")
    assert tree["constant_data"]["region"].values.tolist() == ["north"] * 3 + ["south"] * 2
    assert tree["constant_data"]["year"].values.tolist() == [2020, 2021, 2022, 2023, 2024]
    assert tree["constant_data"]["rural"].values.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    summary = tree["summary"]
    assert summary["mean"].dims == ("target", "cell", "category") and summary["parameter"].values.tolist() == ["spread"]
    # E[T | P] = P∘∇ℓ(P), the second way to the mean of F.
    draws = tree["posterior"]["distribution"].values.reshape(-1, 5, 4)
    for c, (likelihood, size) in enumerate(zip(groups.likelihoods, groups.sizes, strict=True)):
        expected = likelihood.tally_means(draws[:, c]).mean(axis=0) / size
        row = summary.sel(target="frequency").isel(cell=c)
        assert np.abs((row["mean"].values - expected) / np.maximum(row["mcse"].values, 1e-12)).max() < 4.5
    key = ("south", 2024)
    share = answers.category_sum(tree, ["a", "b"], cell=key, target="frequency")
    assert 0 < share["lower"] < share["mean"] < share["upper"] < 1
    assert answers.poststratify(tree, groups.sizes)["mean"].sum() == pytest.approx(1)
    (check,) = predictive_check(groups[key], result.select(tree, key), draws=200, random_seed=1)
    assert check.p_value > 0.01
    save(tree, tmp_path / "groups.nc")
    again = load(tmp_path / "groups.nc")
    assert again["posterior"].to_dataset().equals(tree["posterior"].to_dataset())
    assert again["summary"]["cell"].values.tolist() == list(groups.labels)


@pytest.mark.calibrated("ours")
def test_leave_one_out_compares_two_models(groups, trace):
    one = result.attach(trace, groups, random_seed=1).extend("log_likelihood")
    pooled = fit(groups.pooled(), "flat", draws=500, random_seed=1)["posterior"]["distribution"].values
    shared = np.repeat(pooled[:, :, None], len(groups), axis=2)  # the same P in all groups
    two = result.attach(trace_of(shared, dims=("cell", "category")), groups, random_seed=1).extend("log_likelihood")
    found = one["log_likelihood"]["reports"]
    assert found.dims == ("chain", "draw", "report") and 0.4 * groups.n_reports < found.sizes["report"] < groups.n_reports
    draws = one["posterior"]["distribution"].values[1, 7]
    expected = [likelihood.log_likelihood(p) for likelihood, p in zip(groups.likelihoods, draws, strict=True)]
    for c, label in enumerate(groups.labels):
        rows, own = groups.likelihoods[c], found.values[1, 7, found["report_cell"].values == label]
        flat = np.ptp(rows.dense(), axis=1) == 0  # no bit or every bit set: nothing about P
        assert own.size == rows.counts[~flat].sum()
        said = rows.counts @ (flat * (np.log(rows.matvec(draws[c])) + rows.log_constants))
        assert own.sum() + said == pytest.approx(expected[c], rel=1e-10)
    for tree in (one, two):
        assert (arviz_stats.loo(tree, pointwise=True).pareto_k < 0.7).all()
    table = arviz_stats.compare({"hierarchical": one, "pooled": two})
    assert set(table.index) == {"hierarchical", "pooled"}
    one.extend("log_likelihood", by="cell")
    assert one["log_likelihood"]["reports"].dims == ("chain", "draw", "cell")
    np.testing.assert_allclose(one["log_likelihood"]["reports"].values[1, 7], expected, rtol=1e-12)


def test_pointwise_log_likelihood_by_report():
    collection = survey([90, 50, 40, 20])
    tree = fit(collection, "flat", "exact", draws=200, random_seed=1)
    tree.extend("log_likelihood")
    values = tree["log_likelihood"]["reports"]
    assert values.dims == ("chain", "draw", "report") and values.sizes["report"] == 200
    p = tree["posterior"]["distribution"].values[0, 0]
    assert values.values[0, 0].sum() == pytest.approx(collection.rows.log_likelihood(p), rel=1e-10)
    # One parameter per freedom: the effective number of parameters is about the three of P.
    assert 1.5 < arviz_stats.loo(tree).p < 3.5


def test_summaries_have_the_mean_of_the_frequencies_only(groups, trace, tmp_path):
    full = result.attach(trace, groups, random_seed=1)
    pilot = full["summary"]["mean"].sel(target="distribution").values
    tree = result.attach(trace, groups.summaries(pilot), random_seed=1)
    assert "frequency" not in tree["posterior"] and facts_of(tree)["frequency_draws"] == "mean only"
    exact, found = (one["summary"].sel(target="frequency") for one in (full, tree))
    # Within a fraction of a posterior sd; the expansion is good near the pilot.
    assert (np.abs(exact["mean"] - found["mean"]) < 0.25 * exact["sd"]).all()
    np.testing.assert_allclose(found["mean"].sum("category"), 1, atol=1e-9)
    assert found["sd"].isnull().all()
    with pytest.raises(ArgumentError, match="no frequencies"):
        answers.category_sum(tree, "a", target="frequency", cell="north, 2020")
    save(tree, tmp_path / "mean.nc")
    assert facts_of(load(tmp_path / "mean.nc"))["frequency_draws"] == "mean only"


@each_row(
    "change, words",
    [
        (lambda t, c: (t, [c]), "Collection,.*Cells"),
        (lambda t, c: (xr.DataTree(), c), "group 'posterior'"),
        (lambda t, c: (trace_of(t, "theta"), c), "the trace"),
        (lambda t, c: (trace_of(t[..., :3]), c), r"shape.*4\)"),
        (lambda t, c: (trace_of(t * 2), c), "be distributions"),
        (lambda t, c: (trace_of(t, coords={"category": LABELS[::-1]}), c), "order.*data"),
        (lambda t, c: (trace_of(t), Cells({"x": c})), r"shape.*1, 4\)"),
    ],
)
def test_traces_that_do_not_fit_are_refused(change, words):
    draws = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 10))
    trace, data = change(draws, survey([90, 50, 40, 20]))
    trace = trace_of(trace) if isinstance(trace, np.ndarray) else trace
    with pytest.raises((ArgumentError, DataError), match=words):
        result.attach(trace, data)


def test_log_likelihood_of_other_data_is_refused(groups):
    tree = fit(survey([90, 50, 40, 20]), "flat", "exact", draws=20, random_seed=1)
    with pytest.raises(ArgumentError, match="fitted to"):
        tree.extend("log_likelihood", collection=groups)
