"""NUTS on the full likelihood of all cells in one PyMC model: what sampled priors over cells are compared with."""

import pymc as pm

from ldpbayes.collections import tensor


def sample_cells(cells, prior, *, draws, tune, chains, target_accept=0.9, random_seed=None):
    """Return nutpie's trace of all cells, with the variable ``distribution``, dims chain, draw, cell, category."""
    with tensor.build(cells, prior):
        return pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            cores=1,
            random_seed=random_seed,
            nuts_sampler="nutpie",
            nuts={"target_accept": target_accept},
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
