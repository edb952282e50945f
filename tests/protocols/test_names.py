"""Names of protocols: aliases, descriptions and the public door (mend 25, 27, 29)."""

import pytest
from tabulated import each_row

import ldpbayes as lb
from ldpbayes.errors import ArgumentError, LDPBayesError
from ldpbayes.protocols import (
    COMBINATORS,
    DESIGNS,
    GRR,
    PROTOCOLS,
    LocalHashing,
    UnaryEncoding,
    describe_protocols,
    designs,
    make_protocol,
    protocol_names,
)
from ldpbayes.protocols.registry import ALIASES, resolve
from ldpbayes.sources import read_collection

ABC = ("a", "b", "c")


@each_row(
    "name, expected",
    [
        ("oue", UnaryEncoding.optimized(3, 1.0)),
        ("sue", UnaryEncoding.symmetric(3, 1.0)),
        ("olh", LocalHashing(3, 1.0)),
        ("blh", LocalHashing(3, 1.0, buckets=2)),
        ("optimised_local_hashing", LocalHashing(3, 1.0)),
        ("optimised_unary", UnaryEncoding.optimized(3, 1.0)),
    ],
)
def test_aliases_build_what_they_name(name, expected):
    assert make_protocol(name, ABC, {"epsilon": 1.0}) == expected


def test_the_extended_crosswise_model_is_crosswise_in_each_group():
    assert make_protocol("extended_crosswise", ("no", "yes"), {"p": 0.2}) == designs.crosswise(0.2)


def test_what_an_alias_fixes_cannot_be_stated_otherwise():
    assert make_protocol("blh", ABC, {"epsilon": 1.0, "buckets": 2}).buckets == 2
    with pytest.raises(ArgumentError, match=r"blh.*buckets.*got 3"):
        make_protocol("blh", ABC, {"epsilon": 1.0, "buckets": 3})


def test_every_alias_leads_to_a_registered_name_and_hides_none():
    registered = {*PROTOCOLS, *DESIGNS, *COMBINATORS}
    assert not set(ALIASES) & registered
    assert {resolve(alias)[0] for alias in ALIASES} <= registered
    assert set(protocol_names()) == registered | set(ALIASES)


def test_aliases_stand_in_files_and_factors(tmp_path):
    (tmp_path / "x.csv").write_text("report\n110\n011\n")
    (tmp_path / "x.toml").write_text(
        'categories = ["a", "b", "c"]\n[[channels]]\nprotocol = "oue"\nfile = "x.csv"\nreport = ["report"]\n'
        "[channels.parameters]\nepsilon = 1.0\n"
    )
    assert read_collection(tmp_path / "x.toml").tallies[0].protocol == UnaryEncoding.optimized(3, 1.0)
    factors = {"shares": [0.5, 0.5], "factors": [{"protocol": "oue", "epsilon": 1.0}, {"protocol": "grr", "epsilon": 1.0}]}
    mixed = make_protocol("mixture", ABC, factors)
    assert mixed == lb.protocols.mixture([0.5, 0.5], [UnaryEncoding.optimized(3, 1.0), GRR(3, 1.0)])


def test_names_are_read_as_people_write_them():
    assert make_protocol("OUE", list("ab"), {"epsilon": 1.0}) == make_protocol("oue", list("ab"), {"epsilon": 1.0})
    stated = {"truth": 0.5, "forced": [1, 1]}
    assert make_protocol("Forced response", ["no", "yes"], stated) == make_protocol("forced_response", ["no", "yes"], stated)
    with pytest.raises(ArgumentError, match="mean crosswise"):
        make_protocol("croswise", ["no", "yes"], {"p": 0.3})


def test_the_old_spelling_is_still_read():
    assert make_protocol("unary", ABC, {"epsilon": 1.0, "variant": "optimised"}).variant == "optimized"
    assert UnaryEncoding.optimized(3, 1.0) == UnaryEncoding.optimized(3, 1.0)


def test_every_protocol_class_is_found_at_the_public_door():
    for cls in PROTOCOLS.values():
        assert getattr(lb.protocols, cls.__name__) is cls


@each_row("described", describe_protocols())
def test_descriptions_are_plain_words(described):
    assert described.summary.endswith((".", "?")) and not described.summary.startswith("Return")
    assert not [word for word in ("`", ".py", "spec ", "  ") if word in described.summary + described.stated]


def test_parameters_are_described_one_by_one():
    described = {x.name: x for x in describe_protocols()}
    assert [(p.name, p.required, p.default) for p in described["kuk"].parameters] == [
        ("p_carrier", True, None),
        ("p_other", True, None),
        ("cards", False, 1),
    ]
    assert "olh" in described["local_hashing"].aliases and "variant" in described["unary"].stated


@each_row("name", sorted(PROTOCOLS.keys() | ALIASES.keys()))
def test_a_number_of_categories_stands_for_as_many_labels(name):
    """The kind: what the default of an argument means, and a count where labels stand; of every protocol and alias."""
    made = 0
    for parameters in ({"epsilon": 1.0}, {"epsilon": 1.0, "buckets": 2, "cohorts": 2}, {"kappa": 0.6, "lam": 0.2}):
        try:
            labelled = make_protocol(name, ["0", "1", "2", "3"], parameters)
        except LDPBayesError:
            continue
        made += 1
        assert make_protocol(name, 4, parameters) == labelled
        assert make_protocol(name, parameters={"n_categories": 4} | parameters) == labelled
        with pytest.raises(ArgumentError, match="categories must"):
            make_protocol(name, parameters=parameters)
    assert made or name not in ("grr", "unary", "oue", "olh", "hadamard", "subset", "block_design")


def test_categories_that_are_left_out_are_asked_for_or_known():
    for arguments in (("grr", None, {"epsilon": 1.0}), ("grr", {"epsilon": 1.0})):
        with pytest.raises(ArgumentError, match=r"categories .*(make_protocol\('grr', |third argument)"):
            make_protocol(*arguments)
    parameters = {"p": 0.5, "q": 0.7, "f": 0.1, "n_bits": 4, "cohorts": 2, "hashes": 1, "candidates": ["a", "b", "c"]}
    assert make_protocol("rappor", parameters=parameters) == make_protocol("rappor", ["a", "b", "c"], parameters)


def test_designs_and_matrices_know_their_categories():
    assert make_protocol("warner", 2, {"p": 0.7}) == make_protocol("warner", parameters={"p": 0.7}) == designs.warner(0.7)
    assert make_protocol("direct", 3) == make_protocol("direct", ABC) == designs.direct(3)
    matrix = {"matrix": [[0.7, 0.3], [0.3, 0.7]]}
    assert make_protocol("channel", parameters=matrix) == make_protocol("channel", 2, matrix)
    factors = {"factors": [{"protocol": "warner", "p": 0.7}, {"protocol": "grr", "epsilon": 1.0, "n_categories": 3}]}
    assert make_protocol("kronecker", parameters=factors) == make_protocol("kronecker", 6, factors)
    for count in (1, 0, -1, 1.5, True, 10**9):
        with pytest.raises(ArgumentError, match=r"categories must.*2"):
            make_protocol("grr", count, {"epsilon": 1.0})
