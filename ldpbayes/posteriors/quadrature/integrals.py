"""Moments by the product rule, and the interval ends of every category."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from ldpbayes.posteriors.quadrature.margins import Margin
from ldpbayes.posteriors.quadrature.rules import FIRST_STICK, product_nodes


@dataclass(frozen=True, eq=False)
class Moments:
    """What one product rule gives: moments of the group sums, log-evidence and the first stick's margin."""

    log_evidence: float
    mean: np.ndarray
    cov: np.ndarray
    left_out: float
    margin: "Margin | None"

    def distance(self, other):
        """Return the largest difference: means in sd, sd relative, log-evidence in nats."""
        sd, other_sd = np.sqrt(np.diag(self.cov)), np.sqrt(np.diag(other.cov))
        scale = np.maximum(sd, np.finfo(float).tiny)
        shift = np.abs(self.mean - other.mean) / scale
        return float(
            max(shift.max(), np.abs(sd - other_sd).max() / scale.max(), abs(self.log_evidence - other.log_evidence))
        )


def integrate(target, nodes, watch):
    """Return the Moments by the product rule with so many nodes a stick."""
    g = target.alpha.size
    if g == 1:
        return Moments(target.log_factor + target.top, np.ones(1), np.zeros((1, 1)), 0.0, None)
    density, first_sum, second_sum = np.zeros(FIRST_STICK * nodes), np.zeros(g), np.zeros((g, g))
    batches = watch.track(
        product_nodes(target, nodes),
        f"Quadrature, {nodes} nodes per dimension",
        FIRST_STICK * nodes ** (g - 1),
        weight=lambda batch: len(batch[1]),
    )
    for first, p, log_weight in batches:
        weight = np.exp(log_weight)
        density += np.bincount(first, weight, density.size)
        centred = p - target.centre
        first_sum += weight @ centred
        second_sum += centred.T @ (weight[:, None] * centred)
    total = density.sum()
    shift = first_sum / total
    cov = second_sum / total - np.outer(shift, shift)
    log_evidence = math.log(total) + target.top + target.log_factor
    left_out = math.exp(min(-target.depth - math.log(total), 700.0))
    return Moments(log_evidence, target.centre + shift, cov, left_out, Margin.of(target, density / total))


def margins_of(merged, target, nodes, moments, watch):
    """Return {category: (distribution function, quantile function)} of P_x, for the first category of every kind."""
    out, margins = {}, {0: moments.margin}
    for x in merged.margins()[0]:
        g, alpha = merged.groups[x], merged.member_alpha[x]
        rest = merged.alpha[g] - alpha
        if merged.n_groups == 1:
            out[x] = partial(special.betainc, alpha, rest), partial(special.betaincinv, alpha, rest)
            continue
        if g not in margins:
            order = np.r_[g, np.delete(np.arange(merged.n_groups), g)]
            margins[g] = integrate(target.ordered(order), nodes, watch).margin
        margin = margins[g]
        if (merged.groups == g).sum() == 1:
            out[x] = margin.cdf, margin.quantile
        else:
            out[x] = (
                partial(margin.share_cdf, alpha=alpha, rest=rest),
                partial(margin.share_quantile, alpha=alpha, rest=rest),
            )
    return out


def interval_ends(merged, margins, tail):
    """Return the equal-tailed interval ends of every category, shape (a,) each."""
    first, kind = merged.margins()
    ends = np.array([[margins[x][1](level) for level in (tail, 1 - tail)] for x in first])
    return ends[kind, 0], ends[kind, 1]
