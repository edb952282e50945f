"""What a protocol says every reader must know goes with the result: attrs, the printed fit, JSON, the saved file."""

import json

import numpy as np
import pytest

from ldpbayes import Collection, Tally, cli, fit, load, save
from ldpbayes.errors import CompositeWarning
from ldpbayes.protocols import GRR
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.result.facts import facts_of
from ldpbayes.sources import write_collection

SENTENCE = "Channel 'bits': these are marginal bit counts, so only the composite likelihood applies"


@pytest.fixture(scope="module")
def bits():
    protocol = Rappor(3, 0.25, 0.75, 0.5, 8, 2, 2, candidates=("a", "b", "c"))
    totals, sizes = protocol.simulate_bit_counts(np.array([600, 300, 100]), np.random.default_rng(2))
    return Collection(["a", "b", "c"], Tally(RapporBits(protocol), *RapporBits.tally_arrays(totals, sizes), name="bits"))


def test_the_result_carries_the_caveat(bits, tmp_path):
    with pytest.warns(CompositeWarning, match=SENTENCE):
        tree = fit(bits, random_seed=1, draws=100, estimates=False)
    assert facts_of(tree)["caveat"].startswith(SENTENCE)
    save(tree, tmp_path / "bits.nc")
    assert facts_of(load(tmp_path / "bits.nc"))["caveat"] == facts_of(tree)["caveat"]


def test_two_channels_of_bits_are_both_named_and_others_say_nothing(bits):
    tally = bits.tallies[0]
    other = Tally(tally.protocol, tally.reports, tally.counts, name="more")
    plain = Tally(GRR(3, 1.0), [0, 1, 2], [5, 4, 3], name="plain")
    said = Collection(["a", "b", "c"], [tally, plain, other]).caveat()
    assert said.count("Channel") == 2 and "'bits'" in said and "'more'" in said
    assert Collection(["a", "b", "c"], plain).caveat() == ""


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_command_prints_the_caveat(bits, form, tmp_path, capsys):
    write_collection(bits, tmp_path / "bits.toml")
    with pytest.raises(SystemExit) as stopped:
        told = "--json" if form == "json" else "--explain"
        cli.main(["fit", str(tmp_path / "bits.toml"), "--seed", "1", "--draws", "100", told])
    captured = capsys.readouterr()
    assert not stopped.value.code
    said = json.loads(captured.out)["caveat"] if form == "json" else " ".join(captured.out.split())
    assert SENTENCE in said and "among bits" in said
    assert captured.err.count(SENTENCE) == 1
