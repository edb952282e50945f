"""Groups that borrow strength: partial pooling of strata, with ldpbayes.observe for the likelihood.

Randomised response is noisy, and the strata of a survey are small. Fitted alone a stratum tells little, pooled with the
others it tells nothing of its own. Between the two, each stratum g has its own distribution around a common centre,

    centre ~ Dirichlet(½, …),    κ ~ Gamma(2, 0.1),    p_g ~ Dirichlet(κ · centre),    reports_g ~ collection_g | p_g,

and the concentration κ, learned from the data, says how alike the strata are: κ → ∞ pools them completely. The overall
distribution weighs the strata by their share of the population, not of the sample.

Any protocol can stand in each stratum, also a different one: observe() takes care of that.
"""

import numpy as np
import pymc as pm

from ldpbayes import observe


def model(groups, shares=None):
    """Return the PyMC model.

    Parameters
    ----------
    groups : dict of str to Collection
        Per stratum, its reports; the categories are the same throughout.
    shares : (g,) array, optional
        Share of each stratum in the population, by default that of the sample.

    Notes
    -----
    Dirichlet draws are written as normalised Gammas: p_g = γ_g / Σ γ_g with γ_gx ~ Gamma(κ centre_x), which NUTS samples
    without the correlations of a stick-breaking transform.
    """
    collections = list(groups.values())
    categories = list(collections[0].categories)
    if shares is None:
        sizes = np.array([collection.n_reports for collection in collections])
        shares = sizes / sizes.sum()
    with pm.Model(coords={"group": list(groups), "category": categories}) as result:
        centre = pm.Dirichlet("centre", np.full(len(categories), 0.5), dims="category")
        concentration = pm.Gamma("concentration", alpha=2, beta=0.1)
        gammas = pm.Gamma("gammas", alpha=concentration * centre, beta=1, dims=("group", "category"))
        p = pm.Deterministic("distribution", gammas / gammas.sum(axis=1, keepdims=True), dims=("group", "category"))
        pm.Deterministic("overall", np.asarray(shares) @ p, dims="category")
        for g, (name, collection) in enumerate(groups.items()):
            observe(f"reports_{name}", p[g], collection)
    return result
