"""Numba kernels over packed supports: sums by lists of members, and the draw of signal users.

Imported where the first large SupportRows needs it, so that nothing else pays for loading numba.
"""

import numpy as np

from ldpbayes.compiling import compiled
from ldpbayes.likelihoods.constants import BELOW_ONE
from ldpbayes.likelihoods.pass_kernels import fill_tables

#: Time: Rejected proposals after which a signal user's category is drawn by going through its support.
PATIENCE = 64
#: Time: Supports of up to so many bytes are added up by tables, instead of proposing categories.
TABLED = 32
#: Time: Signal users whose categories are looked for together, at least.
WAITING = 4096
#: Its shifts by 0 to 63 bits have different upper six bits, which tell where the only one of a word stands.
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)


@compiled(nogil=True)
def list_members(words, starts, members):
    """Write the categories of row j to members[starts[j]:starts[j + 1]]; words are in the order of ``pass_kernels``."""
    place = np.empty(64, dtype=np.int64)
    for bit in range(64):
        place[(DE_BRUIJN << np.uint64(bit)) >> np.uint64(58)] = bit ^ 7
    for j in range(words.shape[0]):
        at = starts[j]
        for w in range(words.shape[1]):
            left = words[j, w]
            while left:
                lowest = left & (~left + np.uint64(1))
                members[at] = 64 * w + place[(lowest * DE_BRUIJN) >> np.uint64(58)]
                left ^= lowest
                at += 1


@compiled(nogil=True)
def sparse_sums(starts, members, p):
    """Return Σ_{x ∈ S_j} p_x for every row j of listed members."""
    out = np.empty(starts.size - 1)
    for j in range(out.size):
        total = 0.0
        for i in range(starts[j], starts[j + 1]):
            total += p[members[i]]
        out[j] = total
    return out


@compiled(nogil=True)
def sparse_totals(starts, members, r, n_categories):
    """Return Σ_j r_j [x ∈ S_j], the transpose of sparse_sums."""
    out = np.zeros(n_categories)
    for j in range(r.size):
        for i in range(starts[j], starts[j + 1]):
            out[members[i]] += r[j]
    return out


@compiled(nogil=True)
def alias_table(p):
    """Return (accept, alias) of Walker's method: column x keeps x with probability accept[x], else gives alias[x]."""
    a = p.size
    accept, alias = p * (a / p.sum()), np.arange(a)
    small, large = np.empty(a, dtype=np.int64), np.empty(a, dtype=np.int64)
    n_small = n_large = 0
    for x in range(a):
        if accept[x] < 1.0:
            small[n_small] = x
            n_small += 1
        else:
            large[n_large] = x
            n_large += 1
    while n_small and n_large:
        n_small -= 1
        x, y = small[n_small], large[n_large - 1]
        alias[x] = y
        accept[y] -= 1.0 - accept[x]
        if accept[y] < 1.0:
            n_large -= 1
            small[n_small] = y
            n_small += 1
    for i in range(n_small):
        accept[small[i]] = 1.0
    return accept, alias


@compiled(nogil=True)
def _scan(row, beta, p, rng):
    """Return the category of one user by inversion over the support, −1 for noise."""
    total = 0.0
    for x in range(p.size):
        if row[x >> 3] & (128 >> (x & 7)):
            total += p[x]
    left = rng.random() * (1.0 + beta * total) - 1.0
    if left < 0:
        return -1
    last = -1
    for x in range(p.size):
        if row[x >> 3] & (128 >> (x & 7)):
            last = x
            left -= beta * p[x]
            if left < 0:
                break
    return last


@compiled(nogil=True)
def _tabled(bits, repeats, beta, draws, rng):
    """Return signals() by tables of the partial sums of every byte: which users of some rows signal, then what.

    A branch that is taken by chance costs more than the sums, so that neither step has one for each user.
    """
    width = bits.shape[1]
    weight, tables = np.zeros(8 * width), np.empty((width, 256))
    room = max(WAITING, repeats.max())
    row, place = np.empty(room, dtype=np.int64), np.empty(room)
    out = np.zeros(draws.shape, dtype=np.int64)
    for s in range(draws.shape[0]):
        for x in range(draws.shape[1]):
            weight[x] = beta * draws[s, x]
        fill_tables(weight, 1.0, tables)
        j = 0
        while j < repeats.size:
            waiting = 0
            while j < repeats.size and waiting + repeats[j] <= room:
                total = 1.0
                for c in range(width):
                    total += tables[c, bits[j, c]]
                for _ in range(repeats[j]):
                    left = rng.random() * total - 1.0
                    row[waiting], place[waiting] = j, left
                    waiting += left >= 0
                j += 1
            for i in range(waiting):
                out[s, _member(bits, row[i], tables, place[i])] += 1
    return out


@compiled(nogil=True)
def _member(bits, j, tables, left):
    """Return the member of support j up to which the sum of weights first exceeds ``left``, by tables of partial sums."""
    chosen = 0
    for c in range(bits.shape[1]):
        if bits[j, c]:
            chosen = c  # the last one possible, if rounding runs past the end
            if left < tables[c, bits[j, c]]:
                break
            left -= tables[c, bits[j, c]]
    byte, bit = bits[j, chosen], 0
    for k in range(8):
        bit += left >= tables[chosen, byte & (0xFF00 >> (k + 1))]
    if bit == 8:
        bit = 7
        while not byte & (128 >> bit):
            bit -= 1
    return 8 * chosen + bit


@compiled(nogil=True)
def signals(bits, repeats, beta, draws, rng):
    """Return how many users of all rows are signal users of each category for each draw of p, shape (S, a).

    A user is noise with weight Σp and signal of category x in the support with weight β p_x. Short supports are inverted
    byte by byte, by tables of partial sums. For others propose "signal" with probability β/(1 + β) and then x ~ p by
    Walker's alias table: a proposal outside the support starts the user anew. Neither p(S) nor any sum over the support is
    needed then unless proposals keep failing.

    Parameters
    ----------
    bits : (m, ⌈a/8⌉) uint8 array
    repeats : (m,) int array
        Users behind each row.
    beta : float
    draws : (S, a) array
        Each sums to one.
    rng : numpy.random.Generator
    """
    if bits.shape[1] <= TABLED:
        return _tabled(bits, repeats, beta, draws, rng)
    out = np.zeros(draws.shape, dtype=np.int64)
    for s in range(draws.shape[0]):
        _propose(bits, repeats, beta, draws[s], rng, out[s])
    return out


@compiled(nogil=True)
def _propose(bits, repeats, beta, p, rng, out):
    """Add to out (a,) the signal users for one p, by proposals."""
    accept, alias = alias_table(p)
    a = p.size
    noise = 1.0 / (1.0 + beta)
    for j in range(bits.shape[0]):
        for _ in range(repeats[j]):
            settled = False
            for _ in range(PATIENCE):
                if rng.random() < noise:
                    settled = True
                    break
                place = rng.random() * a
                x = min(int(place), a - 1)
                if place - x >= accept[x]:
                    x = alias[x]
                if bits[j, x >> 3] & (128 >> (x & 7)):
                    out[x] += 1
                    settled = True
                    break
            if not settled:
                x = _scan(bits[j], beta, p, rng)
                if x >= 0:
                    out[x] += 1


@compiled(nogil=True)
def sparse_signal(starts, members, repeats, beta, p, rng):
    """Return one draw of signals(), (a,), from listed members, by inversion over the list."""
    out = np.zeros(p.size, dtype=np.int64)
    for j in range(repeats.size):
        total = 0.0
        for i in range(starts[j], starts[j + 1]):
            total += p[members[i]]
        for _ in range(repeats[j]):
            left = rng.random() * (1.0 + beta * total) - 1.0
            if left < 0 or starts[j] == starts[j + 1]:
                continue
            i = starts[j]
            while i < starts[j + 1] - 1 and left >= beta * p[members[i]]:
                left -= beta * p[members[i]]
                i += 1
            out[members[i]] += 1
    return out


@compiled(nogil=True)
def dense_signals(excess, floor, counts, some, draws, rng, out):
    """Add to out (S, a) the signal tallies of some rows floor + excess (m, a) for draws of p (S, a), user by user."""
    sums = np.empty(draws.shape[1])
    for s in range(draws.shape[0]):
        whole = draws[s].sum()
        for j in some:
            total = _product(excess[j], draws[s])
            every = total + floor[j] * whole
            ready = False
            for _ in range(counts[j]):
                place = rng.random() * every
                if place >= total:
                    continue
                if not ready:  # most users of a row of one are noise, for whom no category is looked for
                    summed, ready = 0.0, True
                    for x in range(sums.size):
                        summed += excess[j, x] * draws[s, x]
                        sums[x] = summed
                out[s, np.searchsorted(sums, min(place, sums[-1] * BELOW_ONE), side="right")] += 1


@compiled(nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _product(row, other):
    """Return the inner product of two vectors, added up in any order."""
    total = 0.0
    for x in range(row.size):
        total += row[x] * other[x]
    return total
