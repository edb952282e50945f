"""The No-U-Turn sampler on the coefficients, in coordinates whitened by the Hessian; no model is compiled."""

import math

import numpy as np

from ldpbayes.regression.target import Target

#: Draws of a short run about the mode, discarded ones before it, and before the run that is kept.
PILOT, PILOT_TUNE, TUNE = 200, 300, 300
#: Curvatures below this share of the prior's count as this.
LEAST = 0.05
TARGET_ACCEPT = 0.85


def sample(target: Target, mode: np.ndarray, draws: int, chains: int, seed: int, progressbar: bool = False):
    """Return (unknowns (chains, draws, u), statistics by ArviZ's names).

    Parameters
    ----------
    target : Target
    mode : (u,) array
        Where a short run starts; the run that is kept starts from its draws.
    draws, chains : int
    seed : int
    progressbar : bool
    """
    rng = np.random.default_rng(seed)
    density = _density(target)
    centre = mode.copy()
    for place, _ in target.prior.places:  # the mode of a small sd between groups lies far from its mass
        centre[place] = max(centre[place], -1.0)
    start = centre[None]
    for _ in range(2):
        found, _ = _run(density, target, centre, start, PILOT, PILOT_TUNE, 1, rng)
        start = found[0]
        centre = start.mean(axis=0)
    return _run(density, target, centre, start, draws, TUNE, chains, rng, progressbar)


def _density(target):
    """Return the function from unknowns to the log-density and its gradient."""
    from ldpbayes.regression import _kernels

    prior, e = target.prior, target.entries
    columns, transposed = np.ascontiguousarray(target.columns), np.ascontiguousarray(target.columns.T)
    basis, sizes = prior.basis, e.sizes
    free, k = basis.shape[1], prior.design.shape[1]
    table, cell, row, weight = (np.ascontiguousarray(part) for part in (e.table, e.cell, e.row, e.weight))
    slope = np.empty((e.n_cells, prior.n_categories))

    def density(z):
        stacked = target.stacked(z)
        value = _kernels.from_logits(columns @ (stacked @ basis.T), cell, row, weight, table, sizes, slope)
        inner = transposed @ (slope @ basis)
        found = np.empty(z.size)
        found[: k * free] = inner[:k].ravel()
        at = k
        for effect, (place, begin) in zip(prior.effects, prior.places, strict=True):
            m = len(effect.levels)
            found[begin : begin + m * free] = math.exp(min(z[place], 300.0)) * inner[at : at + m].ravel()
            found[place] = float((inner[at : at + m] * stacked[at : at + m]).sum())
            at += m
        return value + float(prior.log_density(z)), found + prior.gradient(z)

    return density


def _run(density, target, centre, start, draws, tune, chains, rng, progressbar=False):
    """Return (draws, statistics) of a run in coordinates whitened about a point."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    size = centre.size
    values, vectors = np.linalg.eigh(-target.hessian(centre))
    scale = 1 / np.sqrt(np.maximum(np.abs(values), LEAST))
    root = vectors * scale

    def log_density(v):
        with np.errstate(all="ignore"):
            value, gradient = density(centre + root @ v)
        if not math.isfinite(value) or not np.isfinite(gradient).all():
            return -math.inf, np.zeros(size)
        return value, gradient @ root

    def make_expand(seed, _, chain):
        return lambda v: {"v": np.asarray(v, dtype=np.float64)}

    white = ((start - centre) @ vectors) / scale

    def begin(seed):
        own = np.random.default_rng(abs(int(seed)))
        return white[own.integers(len(white))] + 0.1 * own.standard_normal(size)

    model = from_pyfunc(
        size, lambda: log_density, make_expand, [np.dtype("float64")], [(size,)], ["v"], make_initial_point_fn=begin
    )
    trace = nutpie.sample(
        model,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=1,
        seed=int(rng.integers(2**31)),
        save_warmup=False,
        progress_bar=progressbar,
        target_accept=TARGET_ACCEPT,
    )
    v = trace["posterior"]["v"].values
    names = {"diverging": "diverging", "depth": "tree_depth", "n_steps": "n_steps", "energy": "energy", "logp": "lp"}
    stats = trace["sample_stats"]
    return centre + v @ root.T, {new: stats[old].values for old, new in names.items() if old in stats}
