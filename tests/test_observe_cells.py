"""observe() of many cells in one graph: log-probabilities, their size, predictions, and refusals."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special

from ldpbayes import GRR, Cells, Collection, Tally
from ldpbayes.collections import tensor
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.likelihoods import Summary
from ldpbayes.model import expand
from ldpbayes.protocols import Channel
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.pymc import observe

pytestmark = [pytest.mark.together("models"), pytest.mark.usefixtures("interpreted")]

A = 5
LABELS = [f"c{x}" for x in range(A)]
CHANNEL = Channel(np.random.default_rng(0).dirichlet(np.ones(A + 2), size=A).T)


def simulated(protocols, n=60, seed=0, names=None):
    """Return Cells with one channel per cell, one protocol for each."""
    rng = np.random.default_rng(seed)
    cells = {}
    for i, protocol in enumerate(protocols):
        reports, counts = protocol.simulate(rng.multinomial(n + 10 * i, rng.dirichlet(np.ones(A))), rng)
        tally = Tally(protocol, reports, counts, name="all" if names is None else names[i])
        cells[f"g{i}"] = Collection(LABELS, [tally])
    return Cells(cells, by="group")


def coefficient(collection):
    """Return the log of the multinomial coefficients of a collection's tallies."""
    return sum(special.gammaln(t.n_reports + 1) - special.gammaln(t.counts + 1).sum() for t in collection.tallies)


def pointwise(cells, **settings):
    """Return the log-likelihood of every cell at random distributions, through PyMC, and the distributions."""
    rng = np.random.default_rng(1)
    points = rng.dirichlet(np.full(A, 0.7), size=len(cells))
    p = pt.matrix("p", shape=(len(cells), A))
    with pm.Model() as model:
        observe("reports", p, cells, **settings)
    parts = model.logp(vars=model.observed_RVs, sum=False)
    found = pytensor.function([p], parts, mode="FAST_COMPILE")(points)
    assert all(part.ndim == 1 for part in found)
    return np.concatenate(found), points, model


FORMS = {
    "one GRR": [GRR(A, 1.0)] * 3,
    "GRR at several ε": [GRR(A, 1.0), GRR(A, 2.0), GRR(A, 1.0), GRR(A, 0.5)],
    "one channel": [CHANNEL] * 3,
    "several channels": [CHANNEL, Channel(CHANNEL.matrix[::-1])],
    "hadamard": [HadamardResponse(A, 1.0)] * 2,
    "unary, listed": [UnaryEncoding.symmetric(A, 1.5)] * 3,
}


@pytest.mark.parametrize("form", FORMS)
def test_counts_of_all_cells_are_one_multinomial(form):
    cells = simulated(FORMS[form])
    found, points, model = pointwise(cells)
    expected = [cell.rows.log_likelihood(p) + coefficient(cell) for cell, p in zip(cells.values(), points, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert [variable.name for variable in model.observed_RVs] == ["reports"]
    assert model.coords["cell"] == cells.labels and model.named_vars_to_dims["reports"][0] == "cell"


@pytest.fixture
def whole(monkeypatch):
    """Make every protocol be observed by its whole reports."""
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)


@pytest.mark.parametrize("protocols", [[UnaryEncoding.optimized(A, 1.5)] * 3, [GRR(A, 1.0), CHANNEL]], ids=["one", "two"])
def test_whole_reports_of_all_cells_are_stacked(protocols, whole):
    cells = simulated(protocols)
    found, points, model = pointwise(cells)
    expected = [cell.rows.log_likelihood(p) for cell, p in zip(cells.values(), points, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert model["reports_rows"].eval().shape[0] == sum(cell.rows.n_rows for cell in cells.values())


def test_summaries_are_vectors():
    cells = simulated([UnaryEncoding.optimized(A, 1.5)] * 3).summaries(np.full(A, 1 / A))
    found, points, _ = pointwise(cells)
    expected = [summary.log_likelihood(p) for summary, p in zip(cells.values(), points, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_one_summary_is_observed_at_a_vector():
    rows = simulated([UnaryEncoding.optimized(A, 1.5)])["g0"].rows
    summary = Summary.of(rows, np.full(A, 1 / A))
    p = pt.vector("p", shape=(A,))
    with pm.Model() as model:
        observe("reports", p, summary)
    q = np.random.default_rng(0).dirichlet(np.ones(A))
    found = pytensor.function([p], model.logp(vars=model.observed_RVs), mode="FAST_COMPILE")(q)
    assert float(found) == pytest.approx(summary.log_likelihood(q))


def test_surrogate_expands_cells_at_their_pooled_mean():
    cells = simulated([UnaryEncoding.optimized(A, 1.0)] * 4, n=4000)
    found, points, _ = pointwise(cells, likelihood="surrogate")
    pilot, spread = expand(cells, "jeffreys")
    np.testing.assert_allclose(spread, (0.3 * pilot) ** 2)
    expected = [
        Summary.of(cell.rows, pilot, spread).log_likelihood(p) for cell, p in zip(cells.values(), points, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    given, _, _ = pointwise(cells.summaries(points))
    exact = [cell.rows.log_likelihood(p) for cell, p in zip(cells.values(), points, strict=True)]
    np.testing.assert_allclose(given, exact, rtol=1e-10)


def test_cells_of_every_kind_stand_side_by_side(monkeypatch):
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: tally.protocol.name != "unary")
    unary = UnaryEncoding.symmetric(A, 1.0)
    cells = dict(simulated([GRR(A, 1.0), unary, CHANNEL, GRR(A, 2.0), unary]))
    cells["g5"] = Summary.of(cells["g1",].rows, np.full(A, 1 / A))
    cells = Cells({key if isinstance(key, tuple) else (key,): cell for key, cell in cells.items()}, by="group")
    found, points, model = pointwise(cells)
    names = [variable.name for variable in model.observed_RVs]
    assert len(names) == 4 and names[0] == "reports_summary"
    expected = sum(cell.likelihood.log_likelihood(p) for cell, p in zip(cells.values(), points, strict=True))
    constants = sum(coefficient(cells[f"g{i}"]) for i in (0, 2, 3))
    assert found.sum() == pytest.approx(expected + constants, rel=1e-10) and found.size == 6


def test_several_channels_are_several_variables():
    rng = np.random.default_rng(3)
    cells = {}
    for i in range(3):
        tallies = [Tally(GRR(A, 1.0), *GRR(A, 1.0).simulate(rng.multinomial(40, np.ones(A) / A), rng), name="phone")]
        if i != 1:
            tallies.append(Tally(CHANNEL, *CHANNEL.simulate(rng.multinomial(30, np.ones(A) / A), rng), name="web"))
        cells[f"g{i}"] = Collection(LABELS, tallies)
    cells = Cells(cells)
    found, points, model = pointwise(cells)
    assert [variable.name for variable in model.observed_RVs] == ["reports_phone", "reports_web"]
    assert model.coords["reports_web_cell"] == ("g0", "g2")
    expected = sum(c.rows.log_likelihood(p) + coefficient(c) for c, p in zip(cells.values(), points, strict=True))
    assert found.sum() == pytest.approx(expected, rel=1e-10)


def graph_size(cells, **settings):
    """Return the numbers of nodes of the log-probability with its gradient, and of observed variables."""
    with pm.Model(coords={"cell": cells.labels, "category": LABELS}) as model:
        z = pm.Normal("z", dims=("cell", "category"))
        p = pm.Deterministic("p", pm.math.softmax(z, axis=-1), dims=("cell", "category"))
        observe("reports", p, cells, dims=("cell", "category"), **settings)
    function = model.logp_dlogp_function(mode="FAST_COMPILE", ravel_inputs=True)
    return len(function._pytensor_function.maker.fgraph.toposort()), len(model.observed_RVs)


@pytest.mark.parametrize("kind", ["counts", "whole reports", "summaries"])
def test_the_graph_does_not_grow_with_the_cells(kind, monkeypatch):
    if kind == "whole reports":
        monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)
    settings = {"likelihood": "surrogate"} if kind == "summaries" else {}
    few, many = (
        graph_size(simulated([GRR(A, 1.0), GRR(A, 2.0)] * half, names=["all"] * 2 * half), **settings) for half in (1, 10)
    )
    assert few == many and many[1] == 1


@pytest.mark.parametrize("kind", ["counts", "whole reports", "surrogate"])
def test_log_likelihood_and_predictions_have_one_row_per_cell(kind, monkeypatch):
    import arviz_base

    if kind == "whole reports":
        monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)
    cells = simulated([UnaryEncoding.symmetric(A, 1.0)] * 3, n=500)
    p = np.random.default_rng(4).dirichlet(np.ones(A), size=3)
    with pm.Model(coords={"cell": cells.labels, "category": LABELS}):
        fixed = pm.Deterministic("p", pt.as_tensor(p) + pm.Normal("nothing", 0, 1e-12), dims=("cell", "category"))
        settings = {"likelihood": "surrogate"} if kind == "surrogate" else {}
        observe("reports", fixed, cells, dims=("cell", "category"), **settings)
        tree = arviz_base.from_dict({"posterior": {"nothing": np.zeros((1, 200))}})
        density = pm.compute_log_likelihood(tree, progressbar=False, extend_inferencedata=False)["reports"]
        predicted = pm.sample_posterior_predictive(tree, random_seed=1, progressbar=False)
    expected = [cell.rows.log_likelihood(q) for cell, q in zip(cells.values(), p, strict=True)]
    if kind == "surrogate":
        at = expand(cells, "jeffreys")
        expected = [Summary.of(cell.rows, *at).log_likelihood(q) for cell, q in zip(cells.values(), p, strict=True)]
    if kind == "counts":
        expected = [value + coefficient(cell) for value, cell in zip(expected, cells.values(), strict=True)]
    assert density.dims == ("chain", "draw", "cell")
    np.testing.assert_allclose(density.values[0, 0], expected, rtol=1e-9)
    draws = predicted["posterior_predictive"]["reports"]
    assert draws.dims[:3] == ("chain", "draw", "cell")
    if kind == "counts":
        assert (draws.sum("reports_report").values == cells.sizes).all()
        return
    assert draws.dims[3] == "category"
    g, h = UnaryEncoding.symmetric(A, 1.0).hit_rates
    q = h + (g - h) * p
    error = np.sqrt(q * (1 - q) / (200 * cells.sizes[:, None]))
    assert np.abs((draws.values[0].mean(axis=0) / cells.sizes[:, None] - q) / error).max() < 4.5


def test_observe_of_a_path_or_a_list_is_refused_in_a_sentence():
    p = pt.as_tensor(np.full(2, 0.5))
    for data, words in [
        ("survey.toml", "got the path 'survey.toml'; read it first, with read"),
        ([1, 2], r"got a list; make Cells of several collections"),
        (None, "must be a Collection, a Tally, a Summary or Cells, got NoneType"),
    ]:
        with pm.Model(), pytest.raises(ArgumentError, match=words):
            observe("reports", p, data)


def test_wrong_shapes_are_refused(monkeypatch):
    cells = simulated([GRR(A, 1.0)] * 3)
    matrix, vector = pt.as_tensor(np.full((3, A), 1 / A)), pt.as_tensor(np.full(A, 1 / A))
    refused = [
        (vector, cells, {}, r"one row per cell and one column per category \(3, 5\)"),
        (matrix.T, cells, {}, r"one row per cell and one column per category \(3, 5\)"),
        (matrix, cells["g0"], {}, "p must be a vector"),
        (matrix, cells, {"dims": ("cell",)}, "one name for each of the 2 dimensions"),
        (matrix, cells, {"dims": ("cell", "category")}, "coords of the model with 3 entries, got 'cell'"),
        (matrix, cells, {"likelihood": "exact"}, "likelihood must be one of"),
    ]
    for p, data, settings, words in refused:
        with pm.Model(), pytest.raises(ArgumentError, match=words):
            observe("reports", p, data, **settings)
    monkeypatch.setattr(tensor, "lists_reports", lambda tally: False)
    monkeypatch.setattr(tensor, "MAX_ENTRIES", 20)
    with pm.Model(), pytest.raises(InfeasibleError, match="the 20"):
        observe("reports", matrix, cells)


def test_a_tally_is_a_collection_of_one_channel():
    tally = Tally(GRR(2, 1.0), [0, 1], [60, 40])
    with pm.Model() as model:
        (reports,) = observe("reports", pt.as_tensor([0.3, 0.7]), tally)
    with pm.Model() as other:
        observe("reports", pt.as_tensor([0.3, 0.7]), Collection(["0", "1"], [tally]))
    assert model.point_logps() == other.point_logps() and model.observed_RVs == [reports]


def test_summaries_predict_nothing():
    cells = simulated([UnaryEncoding.symmetric(A, 1.0)] * 2).summaries(np.full(A, 1 / A))
    with pm.Model():
        (reports,) = observe("reports", pt.as_tensor(np.full((2, A), 1 / A)), cells)
        with pytest.raises(InfeasibleError, match="its protocol"):
            pm.draw(reports, mode="FAST_COMPILE")


def test_coords_with_the_labels_in_another_order_are_refused():
    """Each share would be read as another label's."""
    cells = simulated([GRR(A, 1.0)] * 3)
    north, back = cells["g0"], LABELS[::-1]
    for data, coords, dims in [
        (north, {"answer": back}, ("answer",)),
        (cells, {"place": cells.labels[::-1], "answer": LABELS}, ("place", "answer")),
        (cells, {"place": cells.labels, "answer": back}, ("place", "answer")),
    ]:
        for stated in (dims, None):  # p has them in the model, said again or not
            with pm.Model(coords=coords), pytest.raises(ArgumentError, match=r"order.*data"):
                observe("reports", pm.Dirichlet("p", np.ones(A), dims=dims), data, dims=stated)
    with pm.Model(coords={"place": ["north", "south", "west"], "answer": LABELS}):
        observe("reports", pm.Dirichlet("p", np.ones(A), dims=("place", "answer")), cells, dims=("place", "answer"))


@pytest.mark.parametrize("likelihood", ["full", "surrogate"])
def test_what_is_no_distribution_has_no_probability(likelihood, whole):
    """A softmax along the wrong axis, say; the counts of a GRR have had none all along."""
    cells = simulated([UnaryEncoding.optimized(A, 1.5)] * 3)
    p = pt.matrix("p", shape=(3, A))
    with pm.Model() as model:
        observe("reports", p, cells, likelihood=likelihood)
    (part,) = model.logp(vars=model.observed_RVs, sum=False)
    logp = pytensor.function([p], part, mode="FAST_COMPILE")
    even = np.full((3, A), 1 / A)
    assert np.isfinite(logp(even)).all()
    for wrong in (2 * even, even + np.eye(3, A) * [0.5, 0, 0, 0, 0] - np.eye(3, A, 1) * [0, 0.5, 0, 0, 0]):
        with pytest.raises(pm.logprob.utils.ParameterValueError):
            logp(wrong)


def test_a_name_that_the_model_has_is_refused():
    cells = simulated([GRR(A, 1.0)])
    with pm.Model():
        p = pm.Dirichlet("p", np.ones(A))
        observe("reports", p, cells["g0"])
        for name in ("reports", "p"):
            with pytest.raises(ArgumentError, match=f"has a variable '{name}'"):
                observe(name, p, cells["g0"])


def test_who_leaves_out_those_who_deny_is_told_their_categories():
    tallies = [Tally(GRR(2, 1.0), [0, 1], [60, 40], "device"), Tally(GRR(2, 9.0), [0, 1], [80, 20], "direct")]
    survey = Collection(["no", "yes"], tallies).with_deniers(of="yes", say="no", channel="direct")
    with pm.Model(), pytest.raises(ArgumentError, match=r"deny.*yes, denied"):
        observe("reports", pt.as_tensor([0.3, 0.7]), survey)


def test_which_reports_came_in_does_not_change_the_variables():
    """Reports that single out a category each by chance had a variable of their own, and 4,096 possible ones were listed."""
    protocol = UnaryEncoding.optimized(A, 1.5)
    bits = np.packbits(np.eye(A, dtype=np.uint8)[[0, 1, 1]], axis=1)
    few = Collection(LABELS, [Tally(protocol, bits, [1, 1, 1])])
    assert few.rows.separable() is not None
    cells = Cells({"few": few, "many": simulated([protocol], n=200)["g0"]})
    found, points, model = pointwise(cells)
    expected = [cell.rows.log_likelihood(p) + coefficient(cell) for cell, p in zip(cells.values(), points, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert [variable.name for variable in model.observed_RVs] == ["reports"]
    wide = UnaryEncoding.optimized(12, 8.0)
    assert not tensor.lists_reports(Tally(wide, np.packbits(np.eye(12, dtype=np.uint8)[:2], axis=1), [1, 1]))


def test_variables_of_pymc_dims_are_read_by_their_dims():
    import pymc.dims as pmd

    cells, z = simulated([GRR(A, 1.0)] * 3), np.random.default_rng(2).normal(size=(3, A))
    p, logps = special.softmax(z, axis=1), []
    for order in (("cell", "answer"), ("answer", "cell")):
        with pm.Model(coords={"cell": cells.labels, "answer": LABELS}) as model:
            share = pmd.math.softmax(pmd.Normal("z", dims=order), dim="answer")
            observe("reports", share, cells, dims=("cell", "answer"))
        logp = model.compile_logp(model.observed_RVs, mode="FAST_COMPILE")
        logps.append(logp({"z": z if order[0] == "cell" else z.T}))
    expected = sum(cell.rows.log_likelihood(q) + coefficient(cell) for cell, q in zip(cells.values(), p, strict=True))
    np.testing.assert_allclose(logps, expected, rtol=1e-10)
    with (
        pm.Model(coords={"cell": cells.labels, "answer": LABELS[::-1]}),
        pytest.raises(ArgumentError, match=r"order.*data"),
    ):
        observe("reports", pmd.math.softmax(pmd.Normal("z", dims=("cell", "answer")), dim="answer"), cells)
