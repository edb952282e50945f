"""Several attributes at once: splitting, sampling and fake data, by the channel that each client draws from."""

import itertools
import math

import numpy as np
import pytest

from ldpbayes import entropy
from ldpbayes.collections import Collection, Tally
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols import (
    GRR,
    Attributes,
    FakeData,
    HadamardResponse,
    LocalHashing,
    SampledAttribute,
    kronecker,
    make_protocol,
)
from ldpbayes.protocols.base import largest_ratio
from ldpbayes.protocols.unary import UnaryEncoding

LEVEL = 1.2
SCHEMES = {
    "spl-oue": Attributes.split((2, 3), LEVEL, "oue"),
    "mixed": Attributes((GRR(2, 0.5), UnaryEncoding.symmetric(3, 1.0), HadamardResponse(2, 0.7))),
    "smp-sue": SampledAttribute(6, LEVEL, (2, 3), "sue"),
    "smp-three": SampledAttribute(12, LEVEL, (2, 3, 2), "grr"),
    "fd-uneven": FakeData(6, LEVEL, (2, 3), "grr", "uniform"),
    "fd-zeros": FakeData(6, LEVEL, (3, 2), "oue", "zeros"),
    "fd-random": FakeData(4, LEVEL, (2, 2), "sue", "random"),
}


@pytest.fixture(params=SCHEMES, ids=str)
def scheme(request):
    return SCHEMES[request.param]


@pytest.mark.sampled(3)
def test_channel_of_the_rows_is_that_of_the_client(scheme):
    exact = scheme.rational_channel()
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    assert largest_ratio(exact) <= entropy.exp_below(scheme.epsilon)
    np.testing.assert_allclose(scheme.channel(), np.array(exact, dtype=float), rtol=1e-12)
    assert math.log(largest_ratio(exact)) == pytest.approx(scheme.epsilon, rel=1e-9)


def test_level_of_one_attribute_is_exact(scheme):
    """The largest ratio over pairs of records that differ in one attribute, by enumeration."""
    channel, cells = scheme.channel(), list(np.ndindex(*scheme_sizes(scheme)))
    largest = max(
        (channel[:, i] / channel[:, j]).max()
        for (i, x), (j, y) in itertools.permutations(enumerate(cells), 2)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    assert math.log(largest) == pytest.approx(scheme.attribute_epsilon, rel=1e-9)


def scheme_sizes(scheme):
    return scheme.sizes


def test_products_and_text_forms(scheme):
    from products import assert_same_products

    rng = np.random.default_rng(3)
    reports = scheme.privatize(rng.integers(scheme.n_categories, size=60), rng)
    assert_same_products(Tally(scheme, reports).rows)
    labels = ["/".join(cell) for cell in itertools.product(*([f"v{x}" for x in range(a)] for a in scheme.sizes))]
    np.testing.assert_array_equal(scheme.parse_reports(scheme.format_reports(reports, labels), labels), reports)
    again = make_protocol(scheme.name, labels, scheme.parameters())
    assert again == scheme


def test_published_amplification_protects_one_attribute_only():
    """ε′ = ln(d(e^ε − 1) + 1): one attribute is protected at ε where sizes are equal; a whole record at ε′."""
    equal = FakeData.amplified((3, 3, 3), 1.0, "grr", "uniform")
    assert equal.attribute_epsilon == pytest.approx(1.0, rel=1e-12)
    assert equal.epsilon == pytest.approx(math.log(3 * math.expm1(1.0) + 1), rel=1e-12)
    assert FakeData.amplified((2, 30), 1.0, "oue", "zeros").attribute_epsilon == pytest.approx(1.0, rel=1e-12)
    # The larger attribute is less protected than published, and random fake sets break the promise for all.
    assert FakeData.amplified((2, 30), 1.0, "grr", "uniform").attribute_epsilon > 1.2
    assert FakeData.amplified((3, 3, 3), 1.0, "sue", "random").attribute_epsilon > 1.15


def test_product_equals_the_channel_that_is_written_out():
    factors = [GRR(2, 0.5), UnaryEncoding.symmetric(3, 1.0)]
    np.testing.assert_allclose(Attributes(tuple(factors)).channel(), kronecker(factors).matrix, rtol=1e-12)


def test_sampled_and_fake_answers_identify_margins_only():
    for scheme in (SampledAttribute(6, 2.0, (2, 3), "grr"), FakeData(6, 2.0, (2, 3), "oue", "zeros")):
        p, q = np.random.default_rng(1).dirichlet(np.ones(6)), None
        table = p.reshape(2, 3)
        q = np.outer(table.sum(axis=1), table.sum(axis=0)).ravel()
        np.testing.assert_allclose(scheme.channel() @ p, scheme.channel() @ q, rtol=1e-12)
        assert np.linalg.matrix_rank(scheme.channel()) == 1 + 1 + 2
        tally = Tally(scheme, scheme.all_reports()[:2])
        assert Collection([f"c{x}" for x in range(6)], tally).unidentified()


def test_a_large_table_is_never_written_out():
    """2^12 cells: the products of the axes, and the oracle, take milliseconds."""
    protocol = Attributes.split((2,) * 12, 24.0, "grr")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4096))
    rows = Tally(protocol, protocol.privatize(rng.choice(4096, 3000, p=p), rng)).rows
    picked = rng.integers(rows.n_rows, size=5)
    whole = np.ones((5, 1))
    for factor, index in zip(rows.factors, rows.index[picked].T, strict=True):
        whole = (whole[:, :, None] * factor[index][:, None]).reshape(5, -1)
    np.testing.assert_allclose(rows.matvec(p)[picked], whole @ p, rtol=1e-10)
    assert protocol.oracle(rows).sum() == pytest.approx(1, rel=1e-9)


def test_many_outputs_go_row_by_row():
    """Sets over 12 × 12 × 12 categories: the tuples of sets are too many for a table, and products go report by report."""
    protocol = Attributes.split((12, 12, 12), 3.0, "oue")
    rng = np.random.default_rng(2)
    rows = Tally(protocol, protocol.privatize(rng.integers(1728, size=300), rng)).rows
    assert not rows._whole
    dense, p, r = rows.dense(), rng.dirichlet(np.ones(1728)), rng.normal(size=rows.n_rows)
    np.testing.assert_allclose(rows.matvec(p), dense @ p, rtol=1e-10)
    np.testing.assert_allclose(rows.rmatvec(r), dense.T @ r, rtol=1e-9, atol=1e-13 * np.abs(dense).max())


def test_wrong_settings_are_one_sentence():
    with pytest.raises(ArgumentError, match=r"number.*set"):
        Attributes((GRR(2, 1.0), LocalHashing(3, 1.0)))
    with pytest.raises(ArgumentError, match="product 6"):
        SampledAttribute(6, 1.0, (2, 2), "grr")
    with pytest.raises(ArgumentError, match="fake"):
        FakeData(4, 1.0, (2, 2), "grr", "zeros")
    with pytest.raises(ArgumentError, match="sizes"):
        Attributes.split("23", 1.0, "grr")
    with pytest.raises(ArgumentError, match="base"):
        Attributes.split((2, 3), 1.0, "olh")
