"""Every argument of every public callable, replaced by every kind of value: the call ends in an answer or a sentence.

The suite makes a seeded part of these calls. ``make fuzz`` makes all of them, and those that start a sampler.
"""

import inspect
import os
import random

import malformed
import pytest
from tabulated import each_row

WHOLE = "FUZZ_EXAMPLES" in os.environ
#: Calls of the suite for every callable, beside the valid one.
SAMPLED = 4
#: Calls that compile a model or take a second each: the suite leaves them to ``make fuzz``.
SLOW = {
    *("associate from a frame", "conditional", "crosscheck", "plot_crosscheck", "observe_mixture"),
    *("NUTS.posterior", "PairSlice.posterior", "HMC.posterior"),
}
#: Arguments and values that `make fuzz` found, of which the sample of every day has none.
MENDED = {
    ("Cells.with_cells", "cells"): ("None", "word", "empty list", "empty dict", "dict"),
    ("GRR.crafted", "targets"): ("None", "word", "ragged list"),
    ("GRR.randomize_one", "value"): ("None", "word", "hostile", "10**400"),
    ("Tally of users", "user"): ("tree", "Dataset", "hostile", "array of objects"),
    ("UnaryEncoding.check_reports", "reports"): ("ragged list", "hostile", "tree"),
    ("item_count", "items"): ("hostile",),
    ("item_count", "on"): ("array of three dimensions", "empty array"),
    ("read a table", "missing"): ("10**400", "list of huge"),
    ("write reports", "collection"): ("ragged list",),
    ("make_protocol", "name"): ("hostile", "empty array", "NA"),
    ("Compliance", "n_categories"): ("10**9", "10**400"),
    ("Floor", "evenness"): ("Decimal NaN", "hostile", "array of texts", "NA"),
    ("regress", "protocol"): ("empty dict", "dict", "empty tree", "Cells"),
    ("regress by design", "protocol"): ("empty dict", "part of a tree"),
    ("missing_answers", "result"): ("None", "hostile", "Dataset", "empty tree"),
    ("contrast", "cell"): ("Decimal NaN", "hostile"),
    ("contrast of cells", "other_cell"): ("hostile", "structured array"),
    ("largest", "simultaneous"): ("hostile", "empty array", "NA"),
    ("plan", "protocols"): ("empty array",),
    ("plan after a wave", "p"): ("hostile", "array of texts", "structured array"),
    ("curves", "protocols"): ("True", "hostile", "empty array"),
    ("with_prospects", "deniers"): ("True", "array of texts", "Arrow table", "Cells"),
}
NAMES = [name for name, _ in malformed.calls() if WHOLE or name not in SLOW]


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    return malformed.Material(tmp_path_factory.mktemp("malformed"))


def test_every_public_callable_has_a_valid_call():
    called = {name.replace(":", " ").split()[0] for name in malformed.CALLS}
    assert set(malformed.doors()) == called, sorted(set(malformed.doors()) ^ called)


def test_every_method_has_a_valid_call():
    lacking = {}
    for name, value in malformed.doors().items():
        if inspect.isclass(value):
            known = set(malformed.MAKERS.get(name, {}))
            for own in (calls for said, (_, calls) in malformed.METHODS.items() if said.split(",")[0] == name):
                known |= set(own)
            known |= set(malformed.CLIENT) if name in malformed.protocols() else set()
            if left := set(malformed.methods_of(value)) - known:
                lacking[name] = left
    assert not lacking


@each_row("name, argument", MENDED)
def test_what_ended_in_a_traceback_once_ends_in_a_sentence(name, argument, material):
    make = dict(malformed.calls())[name]
    for value in MENDED[name, argument]:
        kind, found = malformed.outcome(material, make, argument, value)
        assert kind != "fault", f"{name}({argument}={value}): {found!r}"


@pytest.mark.sampled(3)
@pytest.mark.timeout(7200 if WHOLE else 300)
@pytest.mark.parametrize("name", NAMES)
def test_malformed_arguments_end_in_a_sentence(name, material, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a word is also the name of a file to write
    make = dict(malformed.calls())[name]
    kind, found = malformed.outcome(material, make)
    assert kind == "value", f"the valid call of {name} ends in {found!r}"
    arguments = malformed.arguments_of(material, make)
    pairs = [(argument, value) for argument in arguments for value in malformed.values_of(material, argument)]
    if not WHOLE:
        pairs = random.Random(name).sample(pairs, min(SAMPLED, len(pairs)))
    faults = []
    for argument, value in pairs:
        kind, found = malformed.outcome(material, make, argument, value)
        if kind == "fault":
            faults.append(f"{name}({argument}={value}): {type(found).__name__}: {found!s:.200}")
    assert not faults, "\n".join(faults)
