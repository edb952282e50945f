"""A client of Hadamard response does the same work for every value: one call for 0 took longer or shorter than one for 7."""

import ast
import inspect
import textwrap

import numpy as np
import pytest

from ldpbayes import entropy
from ldpbayes.protocols.hadamard import HadamardResponse


@pytest.mark.parametrize("a", [2, 3, 8, 300])
def test_no_integer_of_the_client_is_small_for_one_value_and_large_for_another(a):
    """Python keeps the integers −5 to 256 and makes others anew, which takes longer."""
    protocol = HadamardResponse(a, epsilon=1.0)
    sizes = {word.bit_length() for pair in protocol._words for word in pair}
    assert len(sizes) == 1 and sizes.pop() > 9


@pytest.mark.parametrize("a", [2, 3, 8, 300])
def test_the_report_is_inside_the_support_as_often_as_it_should_be(a, monkeypatch):
    """Every report and both outcomes once: the channel of the client is that of the protocol, report by report."""
    protocol = HadamardResponse(a, epsilon=1.0)
    channel = protocol.channel()
    for value in (0, 1, a // 2, a - 1):
        for hit in (0, 1):
            drawn = []
            for report in range(protocol.n_outputs):
                monkeypatch.setattr(entropy, "bernoulli", lambda threshold, hit=hit: hit)
                monkeypatch.setattr(entropy, "word", lambda bits, report=report: report)
                drawn.append(protocol.privatize_one(value))
            inside = channel[:, value] == channel[:, value].max()
            counts = np.bincount(drawn, minlength=protocol.n_outputs)
            assert (counts[inside] == 2 * hit).all() and (counts[~inside] == 2 - 2 * hit).all()


def test_the_client_neither_branches_nor_loops():
    source = textwrap.dedent(inspect.getsource(HadamardResponse.privatize_one))
    kinds = (ast.If, ast.IfExp, ast.For, ast.While, ast.BoolOp, ast.Compare, ast.Try)
    assert not any(isinstance(node, kinds) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize("a", [8, 300])
def test_the_number_of_draws_is_the_same_for_every_value(a, monkeypatch):
    protocol, asked = HadamardResponse(a, epsilon=1.0), []
    whole = entropy.secrets.randbits
    monkeypatch.setattr(entropy.secrets, "randbits", lambda bits: asked.append(bits) or whole(bits))
    seen = set()
    for value in [*range(a), *range(a)]:
        asked.clear()
        protocol.privatize_one(value)
        seen.add(tuple(asked))
    assert len(seen) == 1
