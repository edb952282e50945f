"""Numba kernel of packed Bernoulli bits: sixteen generators side by side, and 64 bits settled at a time."""

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.protocols.constants import LANES

#: Time: Digits after which it pays to look whether any bit is still open.
FIRST_LOOK = 10


@compiled(nogil=True)
def bernoulli_words(words, digits, state):
    """Fill the words with bits whose probability has these binary digits.

    A uniform number is below the probability if they agree in some first digits and the next one is 0 in the number and 1 in
    the probability; a random word holds one digit of 64 numbers. A number that agrees in all digits is not below.

    Parameters
    ----------
    words : (m,) uint64 array
    digits : (k,) uint64 array
        All ones where the digit is 1, else 0.
    state : (4 LANES,) uint64 array
        Of sixteen xoshiro256++ generators (Blackman, Vigna 2021), not all zero in any of them; changed.
    """
    # One array for all: the compiler need not ask whether arrays overlap.
    s = np.empty(6 * LANES, dtype=np.uint64)
    for i in range(4 * LANES):
        s[i] = state[i]
    for start in range(0, words.size, LANES):
        for lane in range(LANES):
            s[4 * LANES + lane] = np.uint64(0)
            s[5 * LANES + lane] = np.uint64(0xFFFFFFFFFFFFFFFF)
        for k in range(digits.size):
            digit = digits[k]
            for lane in range(LANES):
                s0, s1, s2, s3 = s[lane], s[LANES + lane], s[2 * LANES + lane], s[3 * LANES + lane]
                drawn = s0 + s3
                drawn = ((drawn << np.uint64(23)) | (drawn >> np.uint64(41))) + s0
                moved = s1 << np.uint64(17)
                s2 ^= s0
                s3 ^= s1
                s1 ^= s2
                s0 ^= s3
                s2 ^= moved
                s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
                s[lane], s[LANES + lane], s[2 * LANES + lane], s[3 * LANES + lane] = s0, s1, s2, s3
                open_bits = s[5 * LANES + lane]
                s[4 * LANES + lane] |= open_bits & ~drawn & digit
                s[5 * LANES + lane] = open_bits & ~(drawn ^ digit)
            if k >= FIRST_LOOK:
                left = np.uint64(0)
                for lane in range(LANES):
                    left |= s[5 * LANES + lane]
                if left == 0:
                    break
        for lane in range(min(LANES, words.size - start)):
            words[start + lane] = s[4 * LANES + lane]
    for i in range(4 * LANES):
        state[i] = s[i]
