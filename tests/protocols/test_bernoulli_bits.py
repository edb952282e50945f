"""Packed Bernoulli bits: their law, their independence, and the compiled generators against a plain one."""

import numpy as np
import pytest
from tabulated import each_row

from ldpbayes.protocols import bits

MASK = 2**64 - 1


@pytest.fixture(params=["numpy", "compiled"])
def version(request, monkeypatch):
    monkeypatch.setattr(bits, "FEW_USERS", 2**60 if request.param == "numpy" else 0)
    return request.param


@each_row("probability", [0.0, 0.5, 0.75, 1e-9, 1e-3, 0.26894142, 1 - 2**-53])
@each_row("a", [2, 9, 64, 101])
def test_every_bit_has_its_probability(version, probability, a):
    n = 4000
    packed = bits.bernoulli(n, a, probability, np.random.default_rng(a))
    assert packed.shape == (n, bits.width(a)) and packed.dtype == np.uint8 and packed.flags.writeable
    bits.check_packed(packed, a)  # padding is zero
    members = np.unpackbits(packed, axis=1, count=a)
    sd = np.sqrt(probability * (1 - probability) / n)
    assert (np.abs(members.mean(axis=0) - probability) <= 5 * sd + 1e-3 * (probability < 1e-6)).all()
    pairs = np.corrcoef(members.T) if 0.2 < probability < 0.8 else np.eye(a)
    assert np.abs(pairs - np.eye(a)).max() < 5.5 / np.sqrt(n)
    again = bits.bernoulli(n, a, probability, np.random.default_rng(a))
    np.testing.assert_array_equal(packed, again)


def plain(words, probability, state):
    """Return what the kernel gives, with Python's integers."""
    digits = bits._digits(probability)
    lanes = [[int(state[16 * k + lane]) for k in range(4)] for lane in range(16)]

    def draw(s):
        total = (s[0] + s[3]) & MASK
        out = (((total << 23) | (total >> 41)) + s[0]) & MASK
        moved = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= moved
        s[3] = ((s[3] << 45) | (s[3] >> 19)) & MASK
        return out

    found = []
    while len(found) < words:
        held, undecided = [0] * 16, [MASK] * 16
        for k, digit in enumerate(digits):
            for lane in range(16):
                drawn = draw(lanes[lane])
                if digit == "1":
                    held[lane] |= undecided[lane] & ~drawn
                undecided[lane] &= drawn if digit == "1" else ~drawn
            if k >= 10 and not any(undecided):
                break
        found += held
    return found[:words]


@pytest.mark.parametrize("probability", [0.5, 0.26894142, 1e-3])
def test_the_kernel_is_sixteen_generators_and_digits(probability):
    from ldpbayes.protocols import _bit_kernels

    state = np.random.default_rng(3).integers(1, 2**64, size=64, dtype=np.uint64)
    expected, words = plain(37, probability, state), np.empty(37, dtype=np.uint64)
    digits = np.array([int(digit) * MASK for digit in bits._digits(probability)], dtype=np.uint64)
    _bit_kernels.bernoulli_words(words, digits, state)
    assert words.tolist() == expected


def test_digits_are_those_of_the_probability():
    for probability in (0.5, 0.3, 1e-3, 1 - 2**-53):
        digits = bits._digits(probability)
        assert sum(int(d) / 2 ** (k + 1) for k, d in enumerate(digits)) == pytest.approx(probability, rel=0, abs=2**-63)


def test_generators_advance_and_differ(monkeypatch):
    """Two calls of one generator, and two seeds, give different reports."""
    monkeypatch.setattr(bits, "FEW_USERS", 0)
    rng = np.random.default_rng(2)
    one, two, other = (bits.bernoulli(50, 70, 0.4, source) for source in (rng, rng, np.random.default_rng(3)))
    assert (one != two).any() and (one != other).any()
