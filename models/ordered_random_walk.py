"""Ordered categories: a logistic-normal random walk as prior, with ldpbayes.pymc.observe for the likelihood.

Ages, incomes, minutes of delay: neighbouring categories have similar probabilities. A Dirichlet prior does not know that
and leaves the privacy noise of each category where it is. A random walk on the logits does,

    step ~ HalfNormal(1),    η_1 = 0,    η_{x+1} = η_x + step · z_x,  z_x ~ N(0, 1),    p = softmax(η),

with the step learned from the data: small steps give a smooth p that shares the reports among neighbours, large ones a
ragged p. The walk is written in its increments z (non-centred), because reports under strong privacy say little on each.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ldpbayes.pymc import observe


def model(collection, step=1.0):
    """Return the PyMC model.

    Parameters
    ----------
    collection : Collection
        Categories in their order.
    step : float
        Scale of the half-normal prior of the standard deviation of one step of the logits.
    """
    categories = list(collection.categories)
    with pm.Model(coords={"category": categories, "increment": categories[1:]}) as result:
        scale = pm.HalfNormal("step", step)
        increments = pm.Normal("increments", 0, 1, dims="increment")
        logits = pt.concatenate([np.zeros(1), pt.cumsum(scale * increments)])
        distribution = pm.Deterministic("distribution", pm.math.softmax(logits), dims="category")
        observe("reports", distribution, collection)
    return result
