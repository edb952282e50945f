"""Protocols that travel with their reports: as text, in written files, and in every reader."""

import pytest
from cases import CASES

from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.protocols import GRR, make_protocol
from ldpbayes.sources import parameters
from ldpbayes.sources.parameters import parse_protocol, protocol_of, protocol_text, protocols_of

ABC = ("a", "b", "c")
ONE, TWO = (protocol_text(GRR(3, epsilon)) for epsilon in (1.0, 2.0))


def sentence(call, *arguments, kind=DataError, **settings):
    """Return the sentence that a call ends in."""
    with pytest.raises(kind) as caught:
        call(*arguments, **settings)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_protocol_survives_as_text(case):
    for a in case.categories:
        protocol = case.build(a, 0.7)
        labels = [f"label {x}" for x in range(protocol.n_categories)]
        assert parse_protocol(protocol_text(protocol)).protocol == protocol
        found = parse_protocol(protocol_text(protocol, labels))
        assert (found.protocol, found.categories) == (protocol, tuple(labels))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("grr", "must hold a protocol as JSON"),
        ("[" * 100_000, "must hold a protocol as JSON"),
        ("[1]", "must hold a JSON object"),
        ('{"protocol": "grr"}', "must state n_categories or categories"),
        ('{"protocol": "grr", "epsilon": 1}', "unknown key 'epsilon'"),
        ('{"protocol": "grr", "n_categories": 1e400}', "n_categories must be an integer"),
        ('{"protocol": "grr", "n_categories": 3, "parameters": {"epsilon": NaN}}', "epsilon must be a number"),
        ('{"protocol": "grr", "n_categories": 3, "parameters": 1}', "parameters must be a JSON object"),
        ('{"protocol": "grr", "categories": ["a", "a"]}', "categories must be distinct"),
        ('{"protocol": "grr", "n_categories": 3, "categories": ["a", "b"]}', "categories must be 3 labels, got 2"),
        ('{"protocol": "gr", "n_categories": 3}', "protocol must be one of"),
        ('{"protocol": "warner", "n_categories": 3, "parameters": {"p": 0.7}}', "warner"),
    ],
)
def test_malformed_texts_are_one_sentence(text, problem):
    said = sentence(parse_protocol, text)
    assert problem in said and said.startswith("field 'protocol': ")


def test_what_the_data_state_is_compared_with_what_the_caller_states():
    assert protocols_of([], given=GRR(3, 1.0)) == ({"": GRR(3, 1.0)}, None)
    assert protocols_of([ONE], [ONE], GRR(3, 1.0)) == ({ONE: GRR(3, 1.0)}, None)
    assert protocols_of([], [ONE]) == ({"": GRR(3, 1.0)}, None)
    assert protocols_of([ONE, TWO], [TWO])[0] == {ONE: GRR(3, 1.0), TWO: GRR(3, 2.0)}
    assert protocol_of([ONE, ONE.replace(",", ", ")], categories=ABC).categories == ABC
    assert "protocol must be given" in sentence(protocols_of, [], kind=ArgumentError)
    assert "the column 'protocol' states GRR(n_categories=3, epsilon=1.0), the argument GRR" in sentence(
        protocols_of, [ONE], [], GRR(3, 2.0)
    )
    assert "the metadata states" in sentence(protocols_of, [], [ONE], GRR(3, 2.0))
    assert "the metadata states GRR(n_categories=3, epsilon=2.0), the column" in sentence(protocols_of, [ONE], [TWO])
    assert "that of another file" in sentence(protocols_of, [], [ONE, TWO])
    assert "different numbers of categories (3, 4)" in sentence(protocols_of, [ONE, protocol_text(GRR(4, 1.0))])
    assert "holds several protocols" in sentence(protocol_of, [ONE, TWO])


def test_labels_of_entries_agree_with_each_other_and_with_the_caller():
    named, other = protocol_text(GRR(3, 1.0), ABC), protocol_text(GRR(3, 2.0), ("a", "b", "d"))
    assert protocols_of([named, TWO])[1] == ABC
    assert "other categories than another entry, such as 'c' and 'd'" in sentence(protocols_of, [named, other])
    assert "other categories than the caller, such as 'x' and 'a'" in sentence(
        protocols_of, [named], categories=("x", "b", "c")
    )
    assert "categories must be the protocol's 3 labels" in sentence(
        protocols_of, [ONE], categories=("x", "y"), kind=ArgumentError
    )


def test_names_of_channels_are_distinct():
    protocols = [GRR(3, 1.0), GRR(3, 1.5), make_protocol("oue", ABC, {"epsilon": 1.0}), GRR(4, 1.0)]
    assert parameters.channel_names(protocols) == [
        "grr, epsilon 1",
        "grr, epsilon 1.5",
        "unary, epsilon 1",
        "grr, epsilon 1, 2",
    ]
