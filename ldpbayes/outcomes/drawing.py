"""Draws of curves of group shares: weighted draws of their normal approximations, or particles moved from there."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ldpbayes.inference.handover import hand_over, in_order
from ldpbayes.inference.importance import resample
from ldpbayes.inference.verdict import Verdict, together
from ldpbayes.outcomes.annealing import ROUNDS, drawn
from ldpbayes.outcomes.smoothing import LEAST_DRAWN, Curve, Normal

#: The ways to draws; each moves those curves whose draws the way before it left unaccepted.
WAYS = ("weighted", *(f"annealed {number}" for number in range(1, ROUNDS)))


class Curves(NamedTuple):
    """Draws of curves that share a scale.

    Attributes
    ----------
    shares : tuple of (S, m, k) arrays
        One array for each curve.
    scale : (S,) array
        σ of each draw.
    sampling : {"weighted", "annealed"}
        Weighted draws of the normal approximation, or of particles that moved from there to the posterior in steps.
    verdict : Verdict
        On the weights of all curves.
    k_hat : float
        Worst Pareto k̂ of the weights over curves.
    effective : float
        Least number of independent draws that those of a curve are worth.
    """

    shares: tuple[np.ndarray, ...]
    scale: np.ndarray
    sampling: str
    verdict: Verdict
    k_hat: float
    effective: float


def draw_curves(curves: Sequence[Curve], draws: int, rng: np.random.Generator, ways: Sequence[str] = WAYS) -> Curves:
    """Return draws of curves with a common scale σ.

    Draws of the normal approximations get importance weights. Where these are not accepted, particles move from there to the
    posterior step by step; see annealing.

    Parameters
    ----------
    curves : sequence of Curve
    draws : int
    rng : Generator
    ways : sequence of str
        Of WAYS.
    """
    normal, total = Normal.of(curves), max(draws, LEAST_DRAWN)
    evidences = [np.array([one.log_evidence for one in modes]) for modes in normal.modes]
    held: list[Any] = [None] * len(curves)
    weights: list[Any] = [None] * len(curves)

    def judged(one):
        return one.judged(min(draws, one.log_weight.size))

    def run(way):
        nonlocal evidences, weights
        for c, one in enumerate(weights):
            if one is None or not judged(one).accepted:
                held[c] = drawn(normal, c, evidences, total, WAYS.index(way), rng)
        evidences = [one.evidence(len(normal.scales)) for one in held]
        weights = [normal.weighed(c, one, evidences) for c, one in enumerate(held)]
        return together(map(judged, weights), "curves")

    outcome = hand_over(in_order({way: partial(run, way) for way in ways}), lambda verdict: verdict.problem)
    node, picked = _joined(normal.share(evidences), held, weights, draws, rng)
    return Curves(
        tuple(curve.shares(held[c].g[picked[c]]) for c, curve in enumerate(curves)),
        normal.scales[node],
        outcome.name.split()[0],
        outcome.answer,
        max(one.k_hat for one in weights),
        min(min(one.effective_sample for one in weights), float(draws)),
    )


def _joined(share, held, weights, draws, rng):
    """Return (node of each draw, places of equally likely draws of each curve): in one draw all curves have one node."""
    chosen = np.bincount(resample(share, rng, draws), minlength=share.size)
    order = rng.permutation(draws)
    every = []
    for own, weighted in zip(held, weights, strict=True):
        picked = []
        for i in np.flatnonzero(chosen).tolist():
            mine = np.flatnonzero(own.node == i)
            weight = np.exp(weighted.log_weight[mine] - logsumexp(weighted.log_weight[mine]))
            picked.append(mine[rng.permutation(resample(weight, rng, chosen[i]))])
        every.append(np.concatenate(picked)[order])
    return np.repeat(np.arange(len(share)), chosen)[order], every
