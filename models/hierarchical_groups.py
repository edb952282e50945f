"""Groups that borrow strength: partial pooling of strata, with ldpbayes.observe for the likelihood.

Randomised response is noisy, and the strata of a survey are small. Fitted alone a stratum tells little, pooled with the
others it tells nothing of its own. Between the two, the logits of each stratum g vary around common ones,

    μ_x ~ N(0, 1.5),    τ ~ HalfNormal(1),    p_g = softmax(μ + τ z_g),  z_gx ~ N(0, 1),    reports_g ~ collection_g | p_g,

and τ, learned from the data, says how different the strata are: τ = 0 pools them completely. The overall distribution
weighs the strata by their shares of the population, which need not be those of the sample.

Any protocol can stand in each stratum, also a different one: observe() takes care of that. The deviations are written as
τ z (non-centred), because reports under strong privacy say little about each stratum.
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
    """
    collections = list(groups.values())
    categories = list(collections[0].categories)
    if shares is None:
        sizes = np.array([collection.n_reports for collection in collections])
        shares = sizes / sizes.sum()
    with pm.Model(coords={"group": list(groups), "category": categories}) as result:
        common = pm.Normal("common", 0, 1.5, dims="category")
        spread = pm.HalfNormal("spread", 1)
        deviations = pm.Normal("deviations", 0, 1, dims=("group", "category"))
        logits = common + spread * deviations
        p = pm.Deterministic("distribution", pm.math.softmax(logits, axis=-1), dims=("group", "category"))
        pm.Deterministic("overall", np.asarray(shares) @ p, dims="category")
        for g, (name, collection) in enumerate(groups.items()):
            observe(f"reports_{name}", p[g], collection)
    return result
