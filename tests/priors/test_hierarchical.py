"""Structures of cells: order of days, graphs of neighbours, and what is refused."""

import datetime

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes import GRR, Cells, Collection, Tally, fit
from ldpbayes.errors import ArgumentError
from ldpbayes.priors import Hierarchical, as_prior, parse_prior


def cells(keys, by=None):
    one = Collection(["no", "yes", "?"], [Tally(GRR(3, 1.0), [0, 1, 2], [30, 20, 10])])
    return Cells(dict.fromkeys(keys, one), by=by)


def covariance(prior):
    """Return the covariance of the effects of the cells, over σ²."""
    matrix = prior.field_.root
    return matrix @ matrix.T


def increments(prior, order):
    """Return the covariance of the steps of a walk in an order."""
    steps = np.diff(np.eye(len(order))[order], axis=0)
    return steps @ covariance(prior) @ steps.T


@each_row(
    "keys, order, gaps",
    [
        ([3, 1, 2], [1, 2, 0], [1, 1]),
        (["2024-03-02", "2024-02-28", "2024-02-29", "2024-03-01"], [1, 2, 3, 0], [1, 1, 1]),
        ([1, 2, 5, 6], [0, 1, 2, 3], [1, 3, 1]),
        (["Mon", "Tue", "Wed"], [0, 1, 2], [1, 1]),
        ([2000, 2010, 2020], [0, 1, 2], [1, 1]),
        (["1", "10", "2", "3"], [0, 2, 3, 1], [1, 1, 7]),
        (["1.5", "10.5", "2.5"], [0, 2, 1], [1, 8]),
        (["2024-01", "2023-12", "2024-03"], [1, 0, 2], [1, 2]),
        (["2024-Q1", "2023Q4", "2024-Q2"], [1, 0, 2], [1, 1]),
        ([20240401, 20240331, 20240402], [1, 0, 2], [1, 1]),
        (["2024-03-31T12:00", "2024-03-30T12:00", "2024-04-02T12:00"], [1, 0, 2], [1, 2]),
        ([datetime.date(2024, 3, 30), datetime.datetime(2024, 3, 31), "2024-04-01"], [0, 1, 2], [1, 1]),
        ([np.datetime64("2024-03-31", "ns"), np.datetime64("2024-03-30", "ns")], [1, 0], [1]),
    ],
)
def test_days_walk_in_their_order(keys, order, gaps):
    prior = Hierarchical("days").on(cells(keys, by="day"))
    np.testing.assert_allclose(increments(prior, order), np.diag(gaps), atol=1e-10)
    np.testing.assert_allclose(covariance(prior).sum(axis=0), 0, atol=1e-9)


def test_the_description_mentions_days_whose_keys_have_no_order():
    assert (
        Hierarchical("days")
        .on(cells(["Mon", "Tue"]))
        .describe()
        .startswith("hierarchical, random walk over 2 days in the order of the cells about")
    )
    assert "order" not in Hierarchical("days").on(cells([2, 1])).describe()


@pytest.mark.parametrize(
    "keys, words",
    [
        ([1.0, float("nan"), 2.0], "finite.*nan"),
        (["1", "inf", "2"], "finite.*inf"),
        (["2024-01-01", "20240101", "2024-01-02"], "2024-01-01.*20240101"),
    ],
)
def test_days_without_a_length_between_them_are_refused(keys, words):
    with pytest.raises(ArgumentError, match=words):
        Hierarchical("days").on(cells(keys))


def test_two_cells_may_be_named_as_a_pair():
    for given in ([("a", "b")], {"a": "b", "b": None}, {frozenset("ab")}, np.array([["a", "b"]])):
        np.testing.assert_array_equal(Hierarchical(given).on(cells("ab")).field_.settings["neighbours"], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(
        Hierarchical([[0, 2], [2, 0]]).on(cells("ab")).field_.settings["neighbours"], [[0, 2], [2, 0]]
    )


def test_a_frame_of_neighbours_is_read_by_its_names_and_a_sparse_matrix_by_place():
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    matrix = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]])
    held, backwards = cells("abc"), list("cba")
    frame = pandas.DataFrame(matrix[::-1, ::-1], backwards, backwards)
    for given in (frame, pandas.DataFrame(matrix), sparse.csr_matrix(matrix)):
        np.testing.assert_array_equal(Hierarchical(given).on(held).field_.settings["neighbours"], matrix)
    with pytest.raises(ArgumentError, match=r"cell 'z'.*a, b, c"):
        Hierarchical(frame.rename(columns={"c": "z"})).on(held)


@each_row("given", ["xy", ["ab", "bc"], [[1, 2], [3]], {"ab"}, np.array([["a", "b", "c"]])])
def test_structures_of_no_kind_are_refused_in_one_sentence(given):
    with pytest.raises(ArgumentError, match="structure must"):
        Hierarchical(given).on(cells("abc"))


def test_neighbours_are_a_graph():
    edges = [("a", "b"), ("b", "c"), ("d", "e")]
    held = cells("abcdef", by="region")
    by_pairs = Hierarchical(edges).on(held)
    by_lists = Hierarchical({"a": ["b"], "b": ["a", "c"], "e": "d"}).on(held)
    matrix = by_pairs.field_.settings["neighbours"]
    np.testing.assert_array_equal(matrix, by_lists.field_.settings["neighbours"])
    np.testing.assert_allclose(covariance(by_pairs), covariance(Hierarchical(matrix).on(held)))
    found = covariance(by_pairs)
    assert found[5, 5] == 1 and not found[5, :5].any()  # no neighbours: an effect of its own
    for part in ([0, 1, 2], [3, 4]):
        inside = found[np.ix_(part, part)]
        np.testing.assert_allclose(inside.sum(axis=0), 0, atol=1e-12)
        assert np.exp(np.log(inside.diagonal()).mean()) == pytest.approx(1)
    laplacian = np.diag(matrix.sum(axis=0)) - matrix
    kept = np.linalg.pinv(found[:3, :3])  # the precision of the first part, up to its scale
    np.testing.assert_allclose(kept / kept[0, 0], laplacian[:3, :3] / laplacian[0, 0], atol=1e-9)


def test_one_scale_for_all_categories_is_the_textbook_prior():
    """Contrasts of a standard normal vector over the categories are standard normal: softmax sees no more."""
    prior, rng = Hierarchical(scale=0.8).sized(4, 2), np.random.default_rng(1)
    size = 40_000
    centre, scale = 1.5 * rng.standard_normal((size, 1, 4)), np.abs(0.8 * rng.standard_normal((size, 1, 1)))
    p = np.exp(centre + scale * rng.standard_normal((size, 2, 4)))
    p /= p.sum(axis=-1, keepdims=True)
    ours = prior.sample(size, rng)
    for statistic in (lambda q: q, lambda q: q**2, lambda q: q[:, 0] * q[:, 1], lambda q: np.abs(q[:, 0] - q[:, 1])):
        one, other = statistic(p), statistic(ours)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / size)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * error).all()


def test_names_and_sentences():
    assert parse_prior("hierarchical") == "hierarchical" and "3 groups" in as_prior("hierarchical", 3, 3).describe()
    collection = cells("ab")["a"]
    with pytest.raises(ArgumentError, match=r"several cells.*by"):
        fit(collection, "hierarchical")
    for structure, words in (
        ("weeks", "structure"),
        (np.ones((3, 3)), "zero diagonal"),
        (np.zeros((2, 2)), "3 × 3 cells"),
        (np.zeros((3, 3)), "at least one pair"),
        ([[0, 1, 0], [0, 0, 1], [0, 1, 0]], "symmetric"),
        ([("a", "z")], "'z', which is none of"),
        ([("a", "a")], "its own neighbour"),
    ):
        with pytest.raises(ArgumentError, match=words):
            Hierarchical(structure).on(cells("abc"))
    with pytest.raises(ArgumentError, match="two cells"):
        Hierarchical("days").on(cells("a"))
    with pytest.raises(ArgumentError, match="grouping column"):
        Hierarchical("days").on(cells([("a", 1), ("a", 2)], by=("country", "day")))
    with pytest.raises(ArgumentError, match=r"prior must.*2"):
        Hierarchical().on(cells("abc")).on(cells("ab"))
