"""Moments by the product rule, and the interval ends of every category."""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import special

from ldpbayes.methods.quadrature.margins import StickMargin


@dataclass(frozen=True, eq=False)
class RuleMoments:
    """What one product rule gives: moments of the group sums, log-evidence and the first stick's margin.

    Attributes
    ----------
    log_evidence : float
    mean, cov : (g,) and (g, g) arrays
    left_out : float
        Largest share of the mass that windows leave out.
    margin : StickMargin, optional
    """

    log_evidence: float
    mean: np.ndarray
    cov: np.ndarray
    left_out: float
    margin: StickMargin | None

    @cached_property
    def sd(self):
        """Standard deviations of the group sums."""
        return np.sqrt(np.diag(self.cov))


def difference(fine, coarse):
    """Return the largest difference of two sets of moments: means in sd, sd relative, log-evidence in nats."""
    scale = np.maximum(fine.sd, np.finfo(float).tiny)
    shift = np.abs(fine.mean - coarse.mean) / scale
    return float(
        max(shift.max(), np.abs(fine.sd - coarse.sd).max() / scale.max(), abs(fine.log_evidence - coarse.log_evidence))
    )


def integrate(integrand, rule, watch):
    """Return the RuleMoments of an integrand by a ProductRule."""
    g = integrand.alpha.size
    if g == 1:
        return RuleMoments(integrand.log_factor + integrand.top, np.ones(1), np.zeros((1, 1)), 0.0, None)
    density, first_sum, second_sum = np.zeros(rule.interpolated), np.zeros(g), np.zeros((g, g))
    batches = watch.track(
        rule.batches(integrand),
        f"Quadrature, {rule.nodes} nodes per dimension",
        round(rule.size(g)),
        weight=lambda batch: len(batch[1]),
    )
    for first, p, log_weight in batches:
        weight = np.exp(log_weight)
        density += np.bincount(first, weight, density.size)
        centred = p - integrand.centre
        first_sum += weight @ centred
        second_sum += centred.T @ (weight[:, None] * centred)
    total = density.sum()
    shift = first_sum / total
    cov = second_sum / total - np.outer(shift, shift)
    log_evidence = math.log(total) + integrand.top + integrand.log_factor
    left_out = math.exp(min(-integrand.depth - math.log(total), 700.0))
    return RuleMoments(log_evidence, integrand.centre + shift, cov, left_out, StickMargin.of(integrand, density / total))


def margins_of(merged, integrand, rule, moments, watch):
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
            margins[g] = integrate(integrand.ordered(order), rule, watch).margin
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
