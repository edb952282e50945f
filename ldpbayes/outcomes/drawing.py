"""Draws of curves of group shares: weighted draws of their normal approximations, or particles moved from there."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from ldpbayes.inference.importance import resample
from ldpbayes.inference.verdict import together
from ldpbayes.outcomes.annealing import ROUNDS, annealed
from ldpbayes.outcomes.smoothing import LEAST_DRAWN, Curve, Curves, Normal, sizes_of


def draw_curves(curves: Sequence[Curve], draws: int, rng: np.random.Generator, sampling: str = "auto") -> Curves:
    """Return draws of curves with a common scale σ.

    Draws of the normal approximations get importance weights. Where these are not accepted, particles move from there to the
    posterior step by step; see annealing.

    Parameters
    ----------
    curves : sequence of Curve
    draws : int
    rng : Generator
    sampling : {"auto", "weighted", "annealed"}

    Returns
    -------
    Curves
    """
    normal = Normal.of(curves)
    every = range(len(curves))
    total = max(draws, LEAST_DRAWN)
    evidences = [np.array([one.log_evidence for one in modes]) for modes in normal.modes]
    sizes = sizes_of(normal.share(evidences), total)
    held = [normal.drawn(c, sizes, rng) for c in every]
    moved = [False for _ in every]
    for number in range(ROUNDS + 1):
        evidences = [one.evidence(len(normal.scales)) for one in held]
        weights = [normal.weighed(c, held[c], evidences) for c in every]
        verdicts = [one.judged(min(draws, one.log_weight.size)) for one in weights]
        forced = sampling == "annealed" and number == 0
        if number == ROUNDS or sampling == "weighted" or (all(one.accepted for one in verdicts) and not forced):
            break
        for c in every:
            if forced or not verdicts[c].accepted:
                held[c] = annealed(normal, c, evidences, total, number, rng)
                moved[c] = True
    node, picked = _joined(normal, held, weights, draws, rng)
    effective = min(min(one.effective_sample for one in weights), float(draws))
    return Curves(
        tuple(curve.shares(held[c].g[picked[c]]) for c, curve in enumerate(curves)),
        normal.scales[node],
        "annealed" if any(moved) else "weighted",
        together(verdicts, "curves"),
        max(one.k_hat for one in weights),
        effective,
    )


def _joined(normal, held, weights, draws, rng):
    """Return (node of each draw, places of equally likely draws of each curve): in one draw all curves have one node."""
    share = normal.share([one.evidence(len(normal.scales)) for one in held])
    chosen = np.bincount(resample(share, rng, draws), minlength=share.size)
    order = rng.permutation(draws)
    every = []
    for drawn, weighted in zip(held, weights, strict=True):
        picked = []
        for i in np.flatnonzero(chosen).tolist():
            mine = np.flatnonzero(drawn.node == i)
            own = np.exp(weighted.log_weight[mine] - logsumexp(weighted.log_weight[mine]))
            picked.append(mine[rng.permutation(resample(own, rng, chosen[i]))])
        every.append(np.concatenate(picked)[order])
    return np.repeat(np.arange(len(share)), chosen)[order], every
