"""Gauss–Jacobi rules on one stick, and their product over all sticks in batches."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from ldpbayes.methods.constants import BATCH
from ldpbayes.methods.quadrature.integrand import whole_part, windows


@lru_cache(maxsize=64)
def jacobi(nodes, low, high):
    """Return nodes and weights on [0, 1] for the weight t^{low − 1} (1 − t)^{high − 1}."""
    with np.errstate(invalid="ignore", divide="ignore"):  # SciPy computes 0/0 where low + high = 1 and then discards it
        x, w = special.roots_jacobi(nodes, high - 1, low - 1)
    return (1 + x) / 2, w / 2 ** (low + high - 1)


def remainder(value):
    """Return value minus the whole number that leaves it in (0, 1], or a little above."""
    return value - float(whole_part(value))


def stick_rule(low, high, alpha, rest, nodes):
    """Return (t, v, 1 − v, log weights), each (N, nodes), that integrate against Beta(alpha, rest) over [low, high].

    The ends 0 and 1 carry the prior's singular factors in the weight of the rule; elsewhere they are part of the function.
    """
    width, left = (high - low)[:, None], remainder(rest)
    shape = (low.size, nodes)
    t, log_weight = np.empty(shape), np.empty(shape)
    at_low, at_high = low == 0, high == 1
    for touch_low in (False, True):
        for touch_high in (False, True):
            rows = (at_low == touch_low) & (at_high == touch_high)
            x, w = jacobi(nodes, alpha if touch_low else 1.0, left if touch_high else 1.0)
            t[rows], log_weight[rows] = x, np.log(w)
    v = low[:, None] + width * t
    complement = (1 - high)[:, None] + width * (1 - t)
    at_low, at_high = at_low[:, None], at_high[:, None]
    log_weight += np.log(width) + (alpha - 1) * np.where(at_low, np.log(width), np.log(v))
    log_weight += np.where(at_high, (left - 1) * np.log(width) + (rest - left) * np.log(complement), 0)
    log_weight += np.where(at_high, 0, (rest - 1) * np.log(complement)) - special.betaln(alpha, rest)
    return t, v, complement, log_weight


@dataclass(frozen=True)
class ProductRule:
    """The product of Gauss–Jacobi rules over all sticks.

    Attributes
    ----------
    nodes : int
        Nodes of each stick but the first.
    """

    nodes: int

    @property
    def interpolated(self):
        """Number of nodes of a density that is interpolated, such as the first stick's, and not only integrated."""
        return 2 * self.nodes

    def size(self, g):
        """Return the number of nodes over g categories."""
        return 2 * math.exp(min((g - 1) * math.log(self.nodes), 700.0))

    def batches(self, integrand):
        """Yield (index of the first stick's node, p, log weight) in batches, depth first."""
        start = np.zeros((1, integrand.alpha.size)), np.ones(1), np.zeros(1), np.zeros(1, dtype=int)
        yield from self._expanded(integrand, 0, *start)

    def _expanded(self, integrand, stick, p, rest, log_weight, first):
        """Yield batches of nodes whose first sticks are chosen: p, what is left of one, and its weight."""
        images = p @ integrand.matrix.T
        head = images + rest[:, None] * integrand.matrix[:, stick]
        tails = images[:, :, None] + rest[:, None, None] * integrand.matrix[:, stick + 1 :]
        low, high = windows(integrand, head, tails) if stick else integrand.first
        tail = integrand.alpha[stick + 1 :].sum()
        nodes = self.nodes if stick else self.interpolated
        _, v, complement, log_rule = stick_rule(low, high, integrand.alpha[stick], tail, nodes)
        p = np.repeat(p, nodes, axis=0)
        p[:, stick] = (rest[:, None] * v).ravel()
        rest = (rest[:, None] * complement).ravel()
        log_weight = (log_weight[:, None] + log_rule).ravel()
        first = np.repeat(first, nodes) if stick else np.arange(nodes)
        if stick == integrand.alpha.size - 2:
            p[:, -1] = rest
            with np.errstate(divide="ignore"):
                yield first, p, log_weight + np.log(p @ integrand.matrix.T) @ integrand.counts - integrand.top
            return
        for start in range(0, len(p), BATCH):
            s = slice(start, start + BATCH)
            yield from self._expanded(integrand, stick + 1, p[s], rest[s], log_weight[s], first[s])


def exact_nodes(merged):
    """Return the number of nodes a stick at which the rule over whole sticks is exact; infinity where none is."""
    if (merged.counts % 1).any():
        return math.inf
    whole = whole_part(merged.alpha)
    degree = merged.counts.sum() + whole.sum() + math.floor((merged.alpha - whole).sum()) + 2  # 2 for second moments
    return int(degree) // 2 + 1
