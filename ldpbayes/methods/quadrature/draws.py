"""Independent draws: nodes by their weights, then one exact move along every stick."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from ldpbayes.methods.constants import BATCH, CELLS, KEPT_NODES
from ldpbayes.methods.quadrature.integrand import Integrand, windows
from ldpbayes.methods.quadrature.margins import interpolation
from ldpbayes.methods.quadrature.rules import ProductRule, jacobi, remainder, stick_rule


@dataclass(frozen=True, eq=False)
class Drawer:
    """Draws of the group sums from a product rule.

    Attributes
    ----------
    integrand : Integrand
    rule : ProductRule
        Its nodes are what draws start from.
    nodes : int
        Nodes of conditional densities.
    kept_nodes : int
        That stay in memory; beyond them batches are computed a second time.
    """

    integrand: Integrand
    rule: ProductRule
    nodes: int
    kept_nodes: int = KEPT_NODES

    def draw(self, size, rng, watch):
        """Return i.i.d. draws, shape (size, g): nodes by their weights, then one exact move a stick."""
        g = self.integrand.alpha.size
        if g == 1:
            return np.ones((size, 1))
        batches, totals = [], []
        for _, p, log_weight in self.rule.batches(self.integrand):
            weight = np.exp(log_weight)
            totals.append(weight.sum())
            batches.append((p, weight) if len(p) * len(totals) <= self.kept_nodes else None)
        chosen = rng.multinomial(size, np.array(totals) / sum(totals))
        p = np.concatenate(list(self._pick(batches, chosen, rng)))
        rng.shuffle(p)
        for stick in watch.track(range(g - 1), "Draws"):
            for start in range(0, size, BATCH):
                s = slice(start, start + BATCH)
                p[s] = self.move(p[s], stick, rng)
        return p

    def _pick(self, batches, chosen, rng):
        """Yield the chosen number of nodes of every batch; batches that were not kept are computed again."""
        again = (None for _ in chosen) if all(batch is not None for batch in batches) else self.rule.batches(self.integrand)
        for weights, count, batch in zip(batches, chosen, again, strict=True):
            if count:
                p, weight = weights if weights is not None else (batch[1], np.exp(batch[2]))
                yield p[rng.choice(len(p), size=count, p=weight / weight.sum())]

    def move(self, p, stick, rng):
        """Return p with one stick drawn from its conditional given the others."""
        matrix = self.integrand.matrix
        rest = p[:, stick:].sum(axis=1)
        tail = p[:, stick + 1 :] / np.maximum(p[:, stick + 1 :].sum(axis=1, keepdims=True), np.finfo(float).tiny)
        prefix = p[:, :stick] @ matrix[:, :stick].T
        head = prefix + rest[:, None] * matrix[:, stick]
        foot = prefix + rest[:, None] * (tail @ matrix[:, stick + 1 :].T)
        low, high = windows(self.integrand, head, foot[:, :, None])
        alpha, after = self.integrand.alpha[stick], self.integrand.alpha[stick + 1 :].sum()
        _, v, complement, log_weight = stick_rule(low, high, alpha, after, self.nodes)
        image = foot[:, None, :] * complement[:, :, None] + head[:, None, :] * v[:, :, None]
        with np.errstate(divide="ignore"):
            log_weight += np.log(image) @ self.integrand.counts
        t = inverted(log_weight, low, high, alpha, after, CELLS, rng)
        v = low + (high - low) * t
        out = p.copy()
        out[:, stick] = rest * v
        out[:, stick + 1 :] = (rest * (1 - high + (high - low) * (1 - t)))[:, None] * tail
        return out


@lru_cache(maxsize=16)
def _cumulative(nodes, low, high, cells):
    """Return (edges of cells, matrix that takes weights at the nodes to the distribution function there).

    The edges are in the distribution function s of Beta(low, high), where the density is smooth: evenly spaced there, which
    follows it to its singular ends, and half as many more in between them. Beta(0.001, high) has hardly any s away from
    zero, where the posterior is if the reports ask for the category.
    """
    x, w = np.polynomial.legendre.leggauss(4)
    between = np.sin(np.pi / 2 * np.arange(1, cells // 2) / (cells // 2)) ** 2
    edges = np.unique(np.concatenate([np.arange(cells + 1) / cells, special.betainc(low, high, between)]))
    width = np.diff(edges)
    s = edges[:-1, None] + (1 + x) / 2 * width[:, None]
    basis = np.moveaxis(interpolation(nodes, low, high, special.betaincinv(low, high, s)), -1, 0)
    _, weights = jacobi(nodes, low, high)
    masses = basis @ (w / 2) * width * special.beta(low, high) / weights[:, None]
    return edges, np.concatenate([np.zeros((nodes, 1)), np.cumsum(masses, axis=1)], axis=1)


def inverted(log_weight, low, high, alpha, rest, cells, rng):
    """Return one draw in [0, 1] for each row of log-weights at the nodes of a stick_rule over [low, high]."""
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    t = np.empty(len(weight))
    for at_low in (False, True):
        for at_high in (False, True):
            rows = np.flatnonzero(((low == 0) == at_low) & ((high == 1) == at_high))
            if rows.size:
                ends = (float(alpha) if at_low else 1.0, remainder(float(rest)) if at_high else 1.0)
                t[rows] = _inverted(weight[rows], *ends, cells, rng)
    return t


def _inverted(weight, low, high, cells, rng):
    """Return one draw in [0, 1] for each row of weights at the Gauss nodes of (low, high)."""
    edges, cumulative = _cumulative(weight.shape[1], low, high, cells)
    cdf = np.maximum.accumulate(weight @ cumulative, axis=1)
    level = rng.random(len(weight)) * cdf[:, -1]
    cell = np.clip((cdf <= level[:, None]).sum(axis=1) - 1, 0, edges.size - 2)
    row = np.arange(len(weight))
    inside = (level - cdf[row, cell]) / np.maximum(cdf[row, cell + 1] - cdf[row, cell], np.finfo(float).tiny)
    return special.betaincinv(low, high, edges[cell] + inside * (edges[cell + 1] - edges[cell]))
