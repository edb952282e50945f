"""The reweighting recipe: unbiased weights that may be negative, and its bootstrap."""

import numpy as np

from ldpbayes.private_groups.measure import Atoms, Measure

#: Time: Bins of the bootstrap, at most.
FINE = 1000


def weighed(value: np.ndarray, weights: np.ndarray, levels: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return shares (k,), means (k,) and quantiles (levels, k) of records with unbiased weights.

    Weight w_ix has the mean 1 where x is the group of record i and 0 elsewhere. Shares are Σ_i w_ix/n, means
    Σ w_ix z_i / Σ w_ix, and a quantile is the least value at which the weighted distribution function, which is not
    monotone, first reaches the level.

    Parameters
    ----------
    value : (n,) array
    weights : (n, k) array
    levels : tuple of float
    """
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = value @ weights / total
        distinct, code = np.unique(value, return_inverse=True)
        steps = np.stack([np.bincount(code, column, len(distinct)) for column in weights.T], axis=1)
        running = np.cumsum(steps, axis=0) / total
    quantiles = np.full((len(levels), len(total)), np.nan)
    for t, level in enumerate(levels):
        for x in np.flatnonzero(total > 0):
            reached = running[:, x] >= level * (1 - 1e-12)
            quantiles[t, x] = distinct[reached.argmax()] if reached.any() else distinct[-1]
    return total / total.sum(), mean, quantiles


def bootstrap(
    value: np.ndarray,
    kind: np.ndarray,
    decode: np.ndarray,
    weight: np.ndarray,
    draws: int,
    rng: np.random.Generator,
) -> Measure:
    """Return the recipe's bootstrap as draws of a measure: every distribution function made monotone.

    Records are drawn again by bin and report. The weighted distribution function of a group is replaced by the nearest
    monotone one in [0, 1], where distance is ∫ (F − G)² dz, which keeps the mean.

    Parameters
    ----------
    value : (n,) array
    kind : (n,) int array
    decode : (J, k) array
    weight : (n,) array
    draws : int
    rng : Generator
    """
    from scipy.optimize import isotonic_regression

    distinct, code = np.unique(value, return_inverse=True)
    size = min(FINE, len(distinct))
    mass = np.bincount(code, weight, len(distinct)).astype(float)
    rank = (np.cumsum(mass) - mass / 2) / mass.sum()
    # half the bins by rank, half by value, so that neither a spike nor a tail is one bin
    reach = (distinct - distinct[0]) / max(distinct[-1] - distinct[0], 1e-300)
    bins = np.unique(((rank + reach) / 2 * size).astype(int), return_inverse=True)[1]
    index = bins[code]
    size = int(bins.max()) + 1
    J, k = decode.shape
    key = index * J + kind
    keys, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    load = np.bincount(place, weight) / counts
    drawn = rng.poisson(counts, (draws, len(keys)))
    again = drawn * (len(value) / np.maximum(drawn.sum(axis=1, keepdims=True), 1))
    weights = decode[keys % J]
    atoms = Atoms.of(value, index, size, np.zeros(len(value), dtype=np.int64), 1, weight)
    gaps = np.maximum(np.diff(atoms.mean[:, 0]), 1e-300)
    out = np.zeros((draws, size, 1, k))
    for x in range(k):
        step = np.zeros((draws, size))
        weighted = again * (load * weights[:, x])
        starts = np.flatnonzero(np.append(True, np.diff(keys // J) > 0))
        step[:, (keys // J)[starts]] = np.add.reduceat(weighted, starts, axis=1)
        total = step.sum(axis=1)
        for s in range(draws):
            if total[s] <= 0:
                continue
            running = np.cumsum(step[s])[:-1] / total[s]
            if running.size:
                running = np.clip(isotonic_regression(running, weights=gaps).x, 0.0, 1.0)
            out[s, :, 0, x] = np.diff(running, prepend=0.0, append=1.0) * total[s]
    return Measure(atoms, np.maximum(out, 0.0), record=float((weight**2).sum() / weight.sum()))
