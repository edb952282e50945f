"""Very many sets of few distinct factors, each conditioned on its own sum: tables of transforms, and matrix products."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ldpbayes.methods.conditioned_product import factors
from ldpbayes.methods.conditioned_product.transform import period

#: Nodes of a factor, and steps of the line of ω after which transforms that have not died out are given up.
NODES, LINE = 96, 640
#: Size of the product of all transforms below which it has died out.
NEGLIGIBLE = 1e-10
#: A common tilt works for sets whose means add up to one within so many sds of their sums.
NEAR = 2.5
#: Tilts that are tried before the sets that are left are given up, and complex numbers in memory at once.
TILTS, LARGEST = 60, 4e6
#: Steps of ω between two looks at what has died out.
LOOK = 16


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Moments of all factors of all sets, given that each set sums to one.

    Attributes
    ----------
    mean, variance : (k, a) arrays
    log_evidence : (k,) array
        log ∫ Π φ over the simplex.
    rough : (k,) bool array
        Sets whose transforms die out slowly: of second order in the saddle point.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_evidence: np.ndarray
    rough: np.ndarray


def tabulate(family, index, start=None):
    """Return the Tabulated moments of k sets of a factors each that are chosen from V distinct ones.

    The inverse transform of Π_x φ_x(g_x) e^{−t g_x} at Σ g = 1 holds for any tilt t. Sets of like factors share one tilt, so
    that each distinct factor is transformed once: the sum of the logs over a set is a product of the matrix of
    multiplicities (k × V) with the table of logs (V × J), and all means are a product of two tables.

    Parameters
    ----------
    family : PowerFactors or another family
        V distinct factors.
    index : (k, a) int array
        Which factor each category of each set has.
    start : float, optional
        Where the search for a tilt begins.
    """
    k, a = index.shape
    mean, variance = np.empty((k, a)), np.empty((k, a))
    log_evidence, rough = np.full(k, np.nan), np.zeros(k, dtype=bool)
    left = np.arange(k)
    tilt = float(_first_tilt(family, index[: min(k, 64)])) if start is None else start
    for _ in range(TILTS):
        if not left.size:
            break
        used, places = np.unique(index[left], return_inverse=True)
        own, places = family.take(used), places.reshape(left.size, a)
        counts = _multiplicities(places, used.size)
        tilt, nodes, delta = _shared_tilt(own, counts, tilt)
        near = np.abs(delta) <= NEAR
        found = _at_tilt(nodes, tilt, counts[near], places[near])
        chosen = left[near]
        mean[chosen], variance[chosen], log_evidence[chosen], rough[chosen] = found
        left = left[~near]
    if left.size:
        raise FloatingPointError("No tilt works for some sets of factors.")
    return Tabulated(mean, variance, log_evidence, rough)


def _multiplicities(places, size):
    """Return the sparse (k, V) matrix of how often each factor occurs in each set."""
    k, a = places.shape
    rows = np.repeat(np.arange(k), a)
    return sparse.coo_matrix((np.ones(k * a), (rows, places.ravel())), shape=(k, size)).tocsr()


def _first_tilt(family, index):
    size = index.shape[1]
    bounds = family.alpha * size + family.slope(np.full(family.alpha.shape, 1 / size))
    used = np.unique(index)
    counts = np.bincount(index.ravel(), minlength=family.alpha.size) / index.shape[0]
    own, counts = family.take(used), counts[used]
    low, high = bounds[used].min(), bounds[used].max()
    return factors.bisect(lambda t: counts @ own.modes(t) > 1, low, high, 40)


def _shared_tilt(family, counts, tilt):
    """Return (tilt, Nodes, excess of each set in sds of its sum) with a tilt that suits the set in the middle."""
    for _ in range(30):
        each = np.full(family.alpha.size, tilt)
        centre = family.modes(each)
        window = factors._window(family, each, centre)
        nodes = factors._trapezoid(family, each, centre, *window, NODES)
        excess = counts @ (centre + nodes.mean_offset) - 1
        spread = counts @ nodes.variance
        delta = excess / np.sqrt(spread)
        middle = np.argsort(delta)[delta.size // 2]
        if abs(delta[middle]) < 0.3:
            break
        tilt = tilt + max(excess[middle] * (1 + excess[middle]) / spread[middle], -0.5 * (tilt - np.max(family.lowest_tilt)))
    return tilt, nodes, delta


def _at_tilt(nodes, tilt, counts, places):
    """Return (mean, variance, log-evidence, rough) of the sets at a common tilt."""
    k, a = places.shape
    size = nodes.centre.size
    variances = nodes.variance
    wide = np.argsort(counts @ variances)[-4:]
    step = (
        2
        * np.pi
        / max(
            period(
                nodes.offset[places[i]][None],
                nodes.weight[places[i]][None],
                np.ones(a),
                np.sqrt(variances[places[i]].sum()[None]),
            )[0]
            for i in wide
        )
    )
    logs, first, second = (np.empty((size, LINE), dtype=complex) for _ in range(3))
    turn = np.exp(-1j * step * nodes.offset)
    now = nodes.weight.astype(complex)
    died = np.zeros(k, dtype=bool)
    for j in range(LINE):
        total = now.sum(axis=1)
        total[np.abs(total) < 1e-30] = 1e-30
        logs[:, j] = np.log(total)
        moved = now * nodes.offset
        first[:, j] = moved.sum(axis=1) / total
        second[:, j] = (moved * nodes.offset).sum(axis=1) / total
        now *= turn
        if j % LOOK == LOOK - 1:
            died |= counts @ logs[:, j].real < np.log(NEGLIGIBLE)
            if died.all():
                break
    line = j + 1
    logs, first, second = logs[:, :line], first[:, :line], second[:, :line]
    mean, variance = np.empty((k, a)), np.empty((k, a))
    log_evidence = np.empty(k)
    shift = 1 - counts @ nodes.centre
    omega = 1j * step * np.arange(line)
    chunk = max(1, int(LARGEST // max(line, min(size, a * line))))
    for begin in range(0, k, chunk):
        part = slice(begin, min(begin + chunk, k))
        v = np.exp(counts[part] @ logs + shift[part, None] * omega)
        v[:, 0] *= 0.5
        total = v.real.sum(axis=1)
        v /= total[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            log_evidence[part] = np.log(step / np.pi * total)
        if size <= 4 * a:
            one, two = (np.take_along_axis((v @ table.T).real, places[part], axis=1) for table in (first, second))
        else:
            one, two = (
                np.stack([np.einsum("kj,kj->k", v, table[x]).real for x in places[part].T], axis=1)
                for table in (first, second)
            )
        mean[part] = nodes.centre[places[part]] + one
        variance[part] = two - one**2
    log_evidence += counts @ nodes.log_mass + tilt
    rough = ~(died & np.isfinite(log_evidence) & (variance > 0).all(axis=1))
    if rough.any():
        mean[rough], variance[rough], log_evidence[rough] = _saddle(nodes, tilt, counts[rough], places[rough])
    return mean, variance, log_evidence, rough


def _saddle(nodes, tilt, counts, places):
    """Return (mean, variance, log-evidence) to second order in the saddle point: see TiltedFactors."""
    offset = nodes.offset - nodes.mean_offset[:, None]
    v, third, fourth = (np.einsum("gn,gn->g", nodes.weight, offset**order) for order in (2, 3, 4))
    k2, k3, k4 = counts @ v, counts @ third, counts @ (fourth - 3 * v**2)
    excess = 1 - counts @ (nodes.centre + nodes.mean_offset)
    total, skewed = k2[:, None], (k3 / k2)[:, None]
    own = v[places]
    centre = nodes.centre[places]
    # The shift by the excess, of first order, and the skewness, of second.
    mean = centre + nodes.mean_offset[places] + own / total * excess[:, None] + (own * skewed - third[places]) / (2 * total)
    mean = np.maximum(mean, 1e-3 * centre)
    mean /= mean.sum(axis=1, keepdims=True)
    delta, skew = excess / np.sqrt(k2), k3 / k2**1.5
    correction = skew * (delta**3 - 3 * delta) / 6 + k4 / k2**2 / 8 - 5 * skew**2 / 24
    density = -0.5 * (np.log(2 * np.pi * k2) + delta**2) + np.log1p(np.maximum(correction, -0.9))
    return mean, own * (1 - own / total), tilt + counts @ nodes.log_mass + density
