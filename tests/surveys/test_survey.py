"""Weights, strata and clusters: the design effect."""

import warnings

import numpy as np
import pyarrow.csv
import pytest
from commands import run
from samples import from_sample
from scipy import stats
from tabulated import each_row

from ldpbayes import GRR, Cells, comparisons, contrast, fit, poststratify, read, regress, show, write
from ldpbayes.collections.survey import design_effect
from ldpbayes.errors import ArgumentError, DataError, DiagnosticWarning, InfeasibleError
from ldpbayes.estimators import MLE, Oracle
from ldpbayes.methods import Exact
from ldpbayes.methods.problem import scaled
from ldpbayes.priors import Compliance, Dirichlet
from ldpbayes.protocols import designs
from ldpbayes.result.cells import select
from ldpbayes.result.facts import facts_of
from ldpbayes.road.methods import JOINT
from ldpbayes.robust import sensitivity


def test_simple_random_samples_have_no_design_effect():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(400, 3))
    found = design_effect(scores)
    assert found.value == pytest.approx(1.0) and found.kish == 1.0 and found.degrees == pytest.approx(399)
    assert found.respondents == pytest.approx(400)
    np.testing.assert_allclose(found.effects, 1.0)


def test_effect_of_a_mean_is_that_of_the_textbook_formulas():
    """Linearized variances of a weighted mean: Σ_h n_h/(n_h−1) Σ_c (z_hc − z̄_h)², written out with loops."""
    rng = np.random.default_rng(2)
    n = 300
    y, w = rng.random(n), rng.uniform(0.5, 3, n)
    strata, clusters = rng.integers(3, size=n), rng.integers(12, size=n)
    mean = w @ y / w.sum()
    scores = y - mean
    expected = 0.0
    for h in range(3):
        totals = [float((w * scores)[(strata == h) & (clusters == c)].sum()) for c in set(clusters[strata == h].tolist())]
        z = np.array(totals) / w.sum()
        expected += (1 - z.size / 40) * z.size / (z.size - 1) * ((z - z.mean()) ** 2).sum()
        expected += z.size / 40 * ((w * scores)[strata == h] ** 2).sum() / w.sum() ** 2  # people in villages
    found = design_effect(scores, w, [f"s{h}" for h in strata], clusters, {f"s{h}": 40 for h in range(3)})
    random = n / (n - 1) * (w / w.sum()) @ scores**2 / n
    assert found.value == pytest.approx(expected / random)
    assert found.kish == pytest.approx(n * (w**2).sum() / w.sum() ** 2)
    # One row for several respondents who are alike, and any basis of the scores.
    wide = np.column_stack([scores, y**2 - w @ y**2 / w.sum()])
    counts = rng.integers(1, 4, n)
    grouped = design_effect(wide, w, strata, counts=counts)
    every = np.repeat(np.arange(n), counts)
    apart = design_effect(wide[every] @ np.array([[1.0, 2.0], [0.5, -1.0]]), w[every], strata[every])
    np.testing.assert_allclose(grouped.effects, apart.effects)


def test_rows_of_one_cluster_in_every_stratum_and_other_designs_without_variance_are_refused():
    y = np.arange(6.0)
    for arguments, error, match in (
        (({"strata": list("aaabbc")}), DataError, "'c' has a single respondent"),
        (({"strata": list("aaabbb"), "clusters": list("xyyzzz")}), DataError, "'b' has a single cluster"),
        (({"weights": [1, 1, 0, 1, 1, 1]}), DataError, "above 0, got 0"),
        (({"weights": [1, 1, -2, 1, 1, 1]}), DataError, "above 0, got -2"),
        (({"weights": [1, 1, np.nan, 1, 1, 1]}), DataError, "a missing one"),
        (({"strata": ["a", "a", None, "a", "a", "a"]}), DataError, "strata must not be missing"),
        (({"population": 5}), DataError, "must not be below the 6 sampled units"),
        (({"population": "many"}), ArgumentError, "positive number"),
        (({"strata": list("aaabbb"), "population": {"a": 9}}), ArgumentError, "lacks that of 'b'"),
        (({"population": {"a": 9}}), ArgumentError, "by stratum needs the strata"),
        (({"weights": [1, 2]}), ArgumentError, "one entry per row"),
    ):
        with pytest.raises(error, match=match):
            design_effect(y, **arguments)
    assert design_effect(y, strata=list("aaaaab"), population={"a": 90, "b": 1}).value > 0  # b was asked whole


def test_the_noise_of_the_device_stays_when_everybody_was_asked():
    """A census through Warner's design: what is left is the variance of the device, not zero."""
    y = np.array([1.0, -1.0] * 50)
    census = design_effect(y, population=100, device=[[0.75]])
    assert census.variance == pytest.approx(100 * 0.75)
    assert design_effect(y, population=1e12, device=[[0.75]]).value == pytest.approx(1.0, abs=1e-6)


def test_degrees_of_freedom_are_those_of_the_matrix_of_the_quadratic_form():
    """(tr B)²/tr(B²) with B written out: clusters of unlike weights in three strata, of which a domain has a few people."""
    rng = np.random.default_rng(7)
    strata, clusters, w = rng.integers(3, size=40), rng.integers(6, size=40), rng.uniform(0.5, 3, 40)
    sampled, size = {"0": (9, 1.0), "1": (20, 1.0), "2": (6, 1.0)}, {"0": 90, "1": 40, "2": 600}
    found = design_effect(rng.random(40), w, strata, clusters, size, frame=sampled).degrees
    units, place = np.unique(strata * 6 + clusters, return_inverse=True)
    total, v = np.bincount(place, w), np.bincount(place, w**2)
    n = np.array([sampled[str(h)][0] for h in units // 6], dtype=float)
    g = (1 - n / [size[str(h)] for h in units // 6]) * n / (n - 1)
    same = (units // 6)[:, None] == (units // 6)[None]
    apart = np.eye(len(units)) - np.outer(total, np.ones(len(units))) / total.sum()
    b = np.sqrt(v)[:, None] * (apart.T @ (g[:, None] * (np.eye(len(units)) - same / n[:, None])) @ apart) * np.sqrt(v)
    assert found == pytest.approx(np.trace(b) ** 2 / (b * b).sum())
    equal = design_effect(rng.random(60), strata=np.repeat(np.arange(3), 20), clusters=np.arange(60) // 4)
    assert equal.degrees == pytest.approx(15 - 3, rel=0.1)
    rows = rng.integers(1, 4, 40)
    grouped, every = design_effect(w, w, strata, counts=rows), np.repeat(np.arange(40), rows)
    assert grouped.degrees == pytest.approx(design_effect(w[every], w[every], strata[every]).degrees)


def test_a_domain_of_few_clusters_knows_no_more_than_they_do():
    y, villages = np.array([0.0, 1.0] * 6), np.repeat(["a", "b"], 6)
    one = design_effect(y, clusters=["a"] * 12, frame={"": (40.0, 480.0)})
    assert one.respondents == 1.0 and np.isnan(one.variance).all()  # the village may be of one mind
    alike = design_effect(y, clusters=villages, device=[[0.1]], frame={"": (40.0, 480.0)})  # z = 0 in both
    assert alike.value == pytest.approx(0) and alike.respondents == pytest.approx(12 / (0.1 / (0.25 * 12 / 11)))
    with pytest.raises(DataError, match="not vary"):
        design_effect(y, clusters=villages, frame={"": (40.0, 480.0)})


def test_people_drawn_in_villages_of_which_most_were_visited_are_a_sample_still():
    """Forty of fifty villages, twelve of sixty people: the variance of 1,000 samples of one population."""
    rng, found, estimated = np.random.default_rng(8), [], []
    people = rng.random((50, 60)) < rng.beta(0.25 * 9, 0.75 * 9, 50)[:, None]
    for _ in range(1000):
        order = np.argsort(rng.random((40, 60)), axis=1)[:, :12]
        answers = people[rng.choice(50, 40, replace=False)[:, None], order].astype(float).ravel()
        found.append(answers.mean())
        estimated.append(design_effect(answers, clusters=np.arange(480) // 12, population=50).variance.item() / 480**2)
    assert 0.9 <= np.mean(estimated) / np.var(found) <= 1.25


# ---- collections, files and fits -----------------------------------------------------------------------------------
DESIGN = {"weights": np.array([1.0, 3.0, 0.6]), "shares": np.array([0.05, 0.15, 0.3])}


def sampled(n=442, seed=1, protocol=None, **columns):
    """Return (collection, answers, weights, strata) of a stratified sample."""
    rng = np.random.default_rng(seed)
    strata = np.arange(n) % 3
    weights = DESIGN["weights"][strata]
    values = (rng.random(n) < DESIGN["shares"][strata]).astype(int)
    protocol = protocol or designs.forced_response(2 / 3, [1, 1])
    answers = protocol.privatize(values, rng)
    found = from_sample(["no", "yes"], protocol, answers, weights=weights, strata=strata, **columns)
    return found, answers, weights, strata


def test_standard_error_is_that_of_the_stratified_estimator():
    """A forced response is an affine function of a weighted mean, whose stratified linearization has a closed form."""
    collection, answers, weights, strata = sampled()
    high, low = collection.tallies[0].protocol.channel()[1, ::-1]
    share = weights @ answers / weights.sum()
    z = weights * (answers - share)
    groups = [z[strata == h] for h in range(3)]
    error = sum(group.size * group.var(ddof=1) for group in groups)
    found = MLE()(collection)
    assert found.distribution[1] == pytest.approx((share - low) / (high - low), abs=1e-6)
    assert found.standard_error[1] == pytest.approx(np.sqrt(error) / weights.sum() / (high - low), rel=1e-6)
    assert "linearized" in found.outcome
    with pytest.raises(ArgumentError, match="sampling weights"):
        Oracle()(collection)


def test_pseudo_posterior_by_every_engine_that_takes_weights():
    collection, *_ = sampled(population_size=3000)
    tree = fit(collection, random_seed=1)
    assert tree.attrs["method"] == "quadrature" and "a pseudo-posterior" in tree.attrs["pseudo"]
    assert (
        "frequency" not in tree["posterior"] and "log_evidence" not in facts_of(tree) and "log_evidence" not in tree["exact"]
    )
    moments = Exact().moments(collection, "jeffreys")
    np.testing.assert_allclose(tree["summary"]["mean"].sel(target="distribution"), moments.mean, atol=1e-9)
    np.testing.assert_allclose(tree["summary"]["sd"].sel(target="distribution"), moments.sd, atol=1e-9)
    # The same on a grid: so many answers, of which the weighted share said yes.
    known, p = scaled(collection).survey.effect.respondents, np.linspace(0, 1, 200_001)[1:-1]
    assert 1 < collection.n_reports / facts_of(tree)["design_effect"] / known < 1.01  # hundreds of degrees of freedom
    high, low = collection.tallies[0].protocol.channel()[1, ::-1]
    share = collection.rows.counts[1] / collection.n_reports
    yes = low + (high - low) * p
    density = known * (share * np.log(yes) + (1 - share) * np.log1p(-yes))
    density -= 0.5 * np.log(p * (1 - p))
    density = np.exp(density - density.max())
    assert moments.mean[1] == pytest.approx(density @ p / density.sum(), abs=1e-5)
    for method in ("exact", "nuts"):
        with pytest.raises(InfeasibleError):
            fit(collection, method=method)
    text = show(tree).render("markdown")
    assert "mean of F" not in text and "a pseudo-posterior" in text


TOML = """categories = ["no", "yes"]
weights = "w"
strata = "region"
cluster = "village"
[[channels]]
protocol = "grr"
file = "t.csv"
report = "answer"
[channels.parameters]
epsilon = 2.0
"""


def written(tmp_path, rows=None):
    if rows is None:
        rng = np.random.default_rng(3)
        draws = zip(rng.integers(3, size=200), rng.integers(8, size=200), rng.random(200) < 0.3, strict=True)
        rows = [f"{[1, 2.5, 0.5][r]},r{r},v{village},{'yes' if yes else 'no'}" for r, village, yes in draws]
    (tmp_path / "t.csv").write_text("\n".join(["w,region,village,answer", *rows]) + "\n")
    (tmp_path / "x.toml").write_text(TOML)
    return tmp_path / "x.toml"


def test_columns_of_files_and_frames(tmp_path, capsys):
    path = written(tmp_path)
    found = read(path)
    table = pyarrow.csv.read_csv(tmp_path / "t.csv")
    columns = {"weights": "w", "strata": "region", "cluster": "village"}
    frame = read(table, GRR(2, 2.0), report="answer", categories=["no", "yes"], **columns)
    values = {name: table[name].to_numpy() for name in table.column_names}
    reports = (values["answer"] == "yes").astype(int)
    own = {"weights": values["w"], "strata": values["region"], "clusters": values["village"]}
    plain = from_sample(["no", "yes"], GRR(2, 2.0), reports, **own)
    errors = [MLE()(one).standard_error for one in (found, frame, plain)]
    np.testing.assert_allclose(errors, np.tile(errors[2], (3, 1)))
    assert found.survey.sentence() == "Sampled with weights, 3 strata and 24 clusters."  # villages of the same name in each
    write(found, tmp_path / "y.toml")
    np.testing.assert_allclose(MLE()(read(tmp_path / "y.toml")).standard_error, errors[0])
    cells = read(table, GRR(2, 2.0), report="answer", categories=["no", "yes"], weights="w", cluster="village", by="region")
    tree = fit(cells, random_seed=1, draws=100)
    assert (tree["cells"]["design_effect"].values > 0).all() and "Pseudo-posterior" in tree.attrs["pseudo"]
    write(cells, tmp_path / "z.toml")
    assert list(read(tmp_path / "z.toml")) == list(cells)
    status, out, _ = run(
        capsys, "fit", path, "--draws", "100", "--seed", "1", *(f"--set=population_size.r{i}=90" for i in range(3))
    )
    assert status == 0 and "a finite population" in out and "mean of F" not in out


def test_cells_are_domains_of_one_sample(tmp_path):
    """Women of a sample: units without any of them count, n_h and f_h are those of the sample (written out with loops)."""
    path = written(tmp_path)
    rows = [line.split(",") for line in (tmp_path / "t.csv").read_text().split()[1:]]
    lines = [",".join([*row, "m" if i % 19 else "f"]) for i, row in enumerate(rows)]
    (tmp_path / "t.csv").write_text("\n".join(["w,region,village,answer,sex", *lines]) + "\n")
    w, y = np.array([float(row[0]) for row in rows]), np.array([row[3] == "yes" for row in rows], dtype=float)
    here, region = np.arange(len(rows)) % 19 == 0, np.array([row[1] for row in rows])
    units = np.array([f"{row[1]} {row[2]}" for row in rows])
    high, low = GRR(2, 2.0).channel()[1, ::-1]
    mean = (w * here) @ y / (w @ here)
    z, device = w * here * (y - mean) / (w @ here), high * (1 - high)
    assert len(set(units[here])) < len(set(units)) == 24
    population = {"r0": 20, "r1": 30, "r2": 40}
    for clusters, stated in ((True, None), (True, population), (False, None)):
        variance = 0.0
        for h in np.unique(region):
            of = units[region == h] if clusters else np.arange(int((region == h).sum()))
            totals = np.array([z[region == h][of == one].sum() for one in np.unique(of)])
            f = 0.0 if stated is None else totals.size / stated[h]
            variance += (1 - f) * totals.size / (totals.size - 1) * ((totals - totals.mean()) ** 2).sum()
            kept = z**2 if clusters else device * (w * here / (w @ here)) ** 2
            variance += f * kept[region == h].sum()
        settings = {"by": "sex", "population_size": stated}
        if not clusters:
            path.write_text(TOML.replace('cluster = "village"\n', ""))
        cells = read(path, **settings)
        found = MLE()(cells["f",])
        assert found.distribution[1] == pytest.approx((mean - low) / (high - low), abs=1e-6)
        assert found.standard_error[1] == pytest.approx(np.sqrt(variance) / (high - low), rel=1e-5)
    alone = [",".join([*row, "x" if i == 3 else "m"]) for i, row in enumerate(rows)]
    (tmp_path / "u.csv").write_text("\n".join(["w,region,village,answer,sex", *alone]) + "\n")
    (tmp_path / "u.toml").write_text(path.read_text().replace("t.csv", "u.csv"))
    one = fit(read(tmp_path / "u.toml", by="sex"), random_seed=1, draws=50)
    assert (
        one["cells"]["design_effect"].sel(cell="x") == 1 and one["estimate"]["standard_error"].sel(cell="x").isnull().all()
    )
    table = pyarrow.csv.read_csv(tmp_path / "t.csv")
    columns = {"weights": "w", "strata": "region", "by": "sex", "categories": ["no", "yes"]}
    frame = read(table, GRR(2, 2.0), report="answer", **columns)
    assert frame["f",].survey == cells["f",].survey
    write(cells, tmp_path / "z.toml")
    again = read(tmp_path / "z.toml")
    assert MLE()(again["f",]).standard_error[1] == pytest.approx(found.standard_error[1])


def test_a_population_alone_is_a_design_too(tmp_path, capsys):
    """Without columns of weights, strata or clusters: from the command line, a file and a frame."""
    path = written(tmp_path)
    path.write_text("\n".join(line for line in TOML.splitlines() if line[:1] not in ("w", "s") and line[:3] != "clu"))
    status, out, _ = run(capsys, "fit", path, "--draws", "50", "--seed", "1", "--set", "population_size=400")
    assert status == 0 and "finite population" in out
    found = read(path, population_size=400)
    table = pyarrow.csv.read_csv(tmp_path / "t.csv")
    frame = read(table, GRR(2, 2.0), report="answer", categories=["no", "yes"], population_size=400)
    reports = (table["answer"].to_numpy() == "yes").astype(int)
    own = from_sample(["no", "yes"], GRR(2, 2.0), reports, population_size=400)
    path.write_text("population = 400\n" + path.read_text())  # the key of earlier files
    errors = [MLE()(one).standard_error[1] for one in (found, frame, read(path), own)]
    assert errors == pytest.approx([errors[3]] * 4)
    path.write_text(path.read_text().partition("\n")[2])
    assert errors[3] < MLE()(read(path)).standard_error[1]


@each_row(
    "row, match",
    [
        (",r0,v1,no", "'w'.*missing"),
        ("0,r0,v1,no", "above 0, got '0'"),
        ("x,r0,v1,no", "above 0, got 'x'"),
        ("1,,v1,no", "'region'.*missing"),
        ("1,alone,v1,no", "'alone'.*cluster"),
    ],
)
def test_bad_columns_are_one_sentence(tmp_path, row, match):
    good = [f"1,r{i % 2},v{i % 5},{'no' if i % 3 else 'yes'}" for i in range(30)]
    with pytest.raises(DataError, match=match):
        fit(read(written(tmp_path, [*good, row])))


# ---- coverage --------------------------------------------------------------------------------------------------------
STRATA = {"share": np.array([0.4, 0.3, 0.2, 0.1]), "p": np.array([0.05, 0.15, 0.3, 0.5]), "correlation": 0.15}
CLUSTERS, SIZE = 15, 12


def coverage(replications, seed):
    """Return the shares of the 95 % intervals that hold the truth: weights scaled by the design, to n, and no weights.

    Four strata that are sampled alike though they are not alike in size, clusters of people who are like each other, and a
    forced response. Posteriors under Jeffreys' prior on a grid.
    """
    rng, n = np.random.default_rng(seed), 4 * CLUSTERS * SIZE
    truth = float(STRATA["share"] @ STRATA["p"])
    protocol = designs.forced_response(0.75, [1, 1])
    high, low = protocol.channel()[1, ::-1]
    strata, clusters = np.repeat(np.arange(4), CLUSTERS * SIZE), np.repeat(np.arange(4 * CLUSTERS), SIZE)
    weights = STRATA["share"][strata]
    grid = np.linspace(0, 1, 1001)[1:-1]  # thirty points a posterior sd
    yes = low + (high - low) * grid
    prior = -0.5 * np.log(grid * (1 - grid))
    inside = np.zeros((replications, 3), dtype=bool)
    for r in range(replications):
        size = 1 / STRATA["correlation"] - 1
        own = rng.beta(*(size * np.stack([STRATA["p"], 1 - STRATA["p"]])[:, :, None]), size=(4, CLUSTERS))
        answers = (rng.random(n) < low + (high - low) * own.ravel()[clusters]).astype(float)
        share = weights @ answers / weights.sum()
        known = design_effect((answers - share) / (share * (1 - share)), weights, strata, clusters).respondents
        for k, (rate, answered) in enumerate(((share, known), (share, n), (answers.mean(), n))):
            density = answered * (rate * np.log(yes) + (1 - rate) * np.log1p(-yes)) + prior
            mass = np.cumsum(np.exp(density - density.max()))
            below = np.interp(truth, grid, mass / mass[-1])
            inside[r, k] = 0.025 <= below <= 0.975
    return inside.mean(axis=0)


@pytest.mark.calibrate
def test_intervals_of_stratified_and_clustered_surveys_cover():
    scaled, weighted, plain = coverage(2000, 2)
    assert abs(scaled - 0.95) <= 0.02 and weighted < 0.9 and plain < 0.2


def test_weighted_direct_answers_are_counts_of_a_beta():
    """p^0.7 is no polynomial: a rule that took it for one needed a million nodes under small concentrations."""
    weights, answers = np.array([0.4, 1.7, 0.3, 2.2, 1.1]), np.array([0, 0, 1, 0, 1])
    device = designs.forced_response(2 / 3, [1, 1])
    direct_only = from_sample(["no", "yes"], designs.direct(2), answers, weights=weights)
    asked = from_sample(["no", "yes"], device, np.array([1, 0, 1]), weights=np.array([1.0, 0.5, 3.0]))
    yes = scaled(direct_only).rows.counts[1]
    for alpha in (0.004, 0.5):
        found = fit(direct_only, Dirichlet((alpha, alpha)), method="quadrature", draws=50, random_seed=1)
        law = stats.beta(alpha + yes, alpha + scaled(direct_only).survey.effect.respondents - yes)
        summary = found["summary"].sel(target="distribution", category="yes")
        assert [float(summary[name]) for name in ("mean", "sd")] == pytest.approx([law.mean(), law.std()], rel=1e-6)
        assert facts_of(found)["nodes_per_stick"] < 100
    # Few effective respondents of a device: as many nodes as a broken power needs, against a fine grid.
    few = fit(asked, method="quadrature", draws=50, random_seed=1)
    grid, counts = (np.arange(400_000) + 0.5) / 400_000, scaled(asked).rows.counts
    x = np.sin(grid * np.pi / 2) ** 2  # Beta(½, ½) is flat in the angle
    density = np.exp(np.log(scaled(asked).rows.dense() @ np.stack([1 - x, x])).T @ counts)
    assert few["summary"]["mean"].sel(target="distribution").values[1] == pytest.approx(
        density @ x / density.sum(), abs=1e-7
    )


def regional(replications, seed):
    """Return the shares of 95 % intervals that hold the truth of a region: by the respondents known, and by n/deff.

    Of 40 villages four or five belong to the region; twelve people are asked in each, with a forced response.
    """
    rng, protocol = np.random.default_rng(seed), designs.forced_response(0.75, [1, 1])
    high, low = protocol.channel()[1, ::-1]
    grid = np.linspace(0, 1, 501)[1:-1]
    yes, prior, inside = low + (high - low) * grid, -0.5 * np.log(grid * (1 - grid)), np.zeros((replications, 2), dtype=bool)
    for r in range(replications):
        k = 4 + r % 2
        share = rng.beta(0.2 * 4, 0.8 * 4, k)  # correlation 0.2
        answers = (rng.random(12 * k) < low + (high - low) * np.repeat(share, 12)).astype(float)
        mean = answers.mean()
        p = np.clip((mean - low) / (high - low), 0, 1)
        noise = (p * high * (1 - high) + (1 - p) * low * (1 - low)) * np.ones((1, 1))
        found = design_effect(answers, clusters=np.arange(12 * k) // 12, device=noise, frame={"": (40.0, 480.0)})
        for j, n in enumerate((found.respondents, 12 * k / max(found.value, 1e-9))):
            density = n * (mean * np.log(yes) + (1 - mean) * np.log1p(-yes)) + prior
            mass = np.cumsum(np.exp(density - density.max()))
            inside[r, j] = 0.025 <= np.interp(0.2, grid, mass / mass[-1]) <= 0.975
    return inside.mean(axis=0)


def test_intervals_of_a_region_with_few_villages_cover():
    known, plugged = regional(1000, 3)
    assert 0.9 <= known <= 0.98 and plugged < 0.85


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_a_share_at_zero_has_the_design_effect_of_its_answers():
    """With two answers scores are affine in the answer, wherever p is: also where the estimate is cut to 0."""
    rng, villages = np.random.default_rng(5), np.arange(120) // 12
    answers = (rng.random(120) < np.where(villages < 3, 0.5, 0.02)).astype(int)
    held = from_sample(["no", "yes"], designs.warner(0.8), answers, clusters=villages)
    assert MLE()(held).distribution[1] == 0 and np.isnan(MLE()(held).standard_error).all()
    found = scaled(held).survey.effect
    assert found.value == pytest.approx(design_effect(answers.astype(float), clusters=villages).value) and found.value > 3


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")  # two groups say little about a scale
def test_a_prior_over_weighted_cells_never_counts_them_as_whole_reports():
    collection, *_ = sampled(n=300, protocol=GRR(2, 2.0))
    other, *_ = sampled(n=300, seed=2, protocol=GRR(2, 2.0))
    cells = Cells({"a": collection, "b": other}, by="region")
    tree = fit(cells, "hierarchical", random_seed=1, draws=250)
    assert tree.attrs["method"] != "nuts" and "seudo-posterior" in tree.attrs["pseudo"]
    days = fit(cells, "days", method="weighted", random_seed=1, draws=250)  # knows its evidence, which weights do not have
    assert "no meaning" in days.attrs["pseudo"] and "log_evidence" not in facts_of(days)
    with pytest.raises(InfeasibleError):
        fit(cells, "hierarchical", random_seed=1, exclude=[name for name in JOINT if name != "nuts"])
    with pytest.raises(ArgumentError, match=r"cannot.*pooled"):
        cells.pooled()
    with pytest.raises(ArgumentError, match=r"cannot.*added"):
        collection + other


@pytest.mark.filterwarnings("ignore::ldpbayes.errors.RankDeficientWarning")
def test_weights_and_respondents_who_ignore_the_device():
    collection, *_ = sampled(protocol=GRR(2, 2.0))
    wrapped = collection.with_noncompliers({"no-sayer": "no"})
    tree = fit(wrapped, Compliance("jeffreys", (2, 18)), random_seed=1, draws=250)
    assert "a pseudo-posterior" in tree.attrs["pseudo"] and "from 0 to" in facts_of(tree)["noncompliance"]
    assert tree["posterior"].sizes["category"] == 2 and "compliance_p" not in facts_of(tree)
    curve = sensitivity(wrapped, "yes", points=3)
    assert curve.answer[0] == pytest.approx(MLE()(collection).distribution[1], abs=1e-4)
    assert curve.error[0] == pytest.approx(MLE()(collection).standard_error[1], rel=0.02)  # both know the design


def test_the_sd_of_gamma_knows_the_design_of_the_sample():
    rng = np.random.default_rng(4)
    strata = np.arange(600) % 3
    answers = designs.kuk(0.8, 0.2, cards=2).privatize((rng.random(600) < DESIGN["shares"][strata]).astype(int), rng)
    settings = ["no", "yes"], designs.kuk(0.8, 0.2, cards=2), answers
    weighted = from_sample(*settings, weights=DESIGN["weights"][strata], strata=strata)
    found = weighted.with_noncompliers({"none red": "0"})
    plain = from_sample(*settings, weights=np.ones(600)).with_noncompliers({"none red": "0"}).noncompliance().sd
    tree = fit(found, random_seed=1, draws=50)
    effect = facts_of(tree)["design_effect"]
    assert effect > 1.2
    assert found.noncompliance().sd == pytest.approx(plain * np.sqrt(facts_of(tree)["kish_effect"]), rel=0.05)
    assert facts_of(tree)["noncompliance_sd"] == pytest.approx(
        found.noncompliance().sd * np.sqrt(effect / facts_of(tree)["kish_effect"])
    )
    assert f"with a design effect of {effect:.3g}, determine" in facts_of(tree)["noncompliance"]


def test_weights_that_are_alike_in_one_cell_are_written_with_those_of_others(tmp_path):
    rng, protocol = np.random.default_rng(5), GRR(2, 2.0)
    weights = {"m": np.ones(60), "f": rng.uniform(1, 3, 60), "x": np.full(60, 2.0)}
    answers = protocol.privatize(rng.integers(2, size=60), rng)
    settings = ["no", "yes"], protocol, answers
    held = {key: from_sample(*settings, weights=w, strata=np.arange(60) % 3) for key, w in weights.items()}
    write(Cells(held, by="sex"), tmp_path / "x.toml")
    again = read(tmp_path / "x.toml")
    for key, one in held.items():
        assert again[key,].survey.weights @ again[key,].survey.counts == pytest.approx(
            one.survey.weights @ one.survey.counts
        )
    for bad, match in ((["a"] * 60, "must be numbers"), (np.append(np.ones(59), 1e300), "at most 1e\\+100, got 1e\\+300")):
        with pytest.raises(DataError, match=match):
            from_sample(*settings, weights=bad)


def test_keys_of_cells_of_a_sample_are_whole_numbers_as_those_of_other_collection_files_are(tmp_path):
    """Texts of a CSV file and numbers of a Parquet file are the same keys, also beside a column of weights."""
    (tmp_path / "table.csv").write_text("report,day,weight\n0,1,2\n1,2,1\n1,1,1\n0,2,3\n")
    lines = ['categories = ["no", "yes"]', 'by = "day"', "[[channels]]", 'protocol = "grr"', 'file = "table.csv"']
    lines.append("parameters = {epsilon = 1.0}")
    (tmp_path / "plain.toml").write_text("\n".join(lines))
    (tmp_path / "sampled.toml").write_text("\n".join(['weights = "weight"', *lines]))
    assert list(read(tmp_path / "sampled.toml")) == list(read(tmp_path / "plain.toml")) == [(1,), (2,)]


def test_sums_and_differences_of_cells_with_clusters_in_common_say_what_they_leave_out():
    """The cells' intervals are those of the design; the sum of two is .025 wide where linearization over the villages says
    .032, and their difference .050 for .026. A regression with the clusters has both."""
    rng = np.random.default_rng(3)
    village, sex = np.repeat(np.arange(60), 20), rng.choice(["f", "m"], 1200)
    said = (rng.random(1200) < rng.beta(0.6, 1.4, 60)[village]).astype(int)
    frame = {"y": said, "village": village, "sex": sex}
    asked = {"report": "y", "categories": ["no", "yes"], "cluster": "village"}
    apart = fit(read(pyarrow.table(frame), designs.direct(), **asked, by="sex"), random_seed=1)
    together = regress(frame, "y ~ sex", designs.direct(), **asked, random_seed=1)
    errors = {}
    for sign, name in ((1, "sum"), (-1, "difference")):
        part = {g: (sex == g) * (said - said[sex == g].mean()) / (sex == g).sum() for g in ("f", "m")}
        z = np.bincount(village, part["m"] + sign * part["f"])
        errors[name] = np.sqrt(60 / 59 * (z**2).sum())
    census = {"sex": ["f", "m"], "people": [1, 1]}
    for found, error in (
        (poststratify(together, census, count="people"), errors["sum"] / 2),
        (comparisons(together, "sex"), errors["difference"]),
    ):
        assert np.ravel(found["sd"].sel(category="yes"))[0] == pytest.approx(error, rel=0.05)
    for ask in (
        lambda tree: poststratify(tree, {"f": 1, "m": 1}),
        lambda tree: contrast(tree, "yes", "yes", cell="f", other_cell="m"),
    ):
        with pytest.warns(DiagnosticWarning, match=r"clusters.*common"):
            assert "in common" in str(ask(apart).page())
    pooled = fit(read(pyarrow.table(frame), designs.direct(), **asked, by="sex"), "hierarchical", random_seed=1)
    assert "in common" in str(pooled.page()) and "clusters" not in facts_of(select(apart, "f"))
    regions = read(pyarrow.table(frame | {"sex": np.where(village < 30, "f", "m")}), designs.direct(), **asked, by="sex")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contrast(fit(regions, random_seed=1), "yes", "yes", cell="f", other_cell="m")
