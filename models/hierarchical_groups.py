"""Groups that borrow strength: partial pooling of strata, with ldpbayes.pymc.observe for the likelihood.

Randomized response is noisy, and the strata of a survey are small. Fitted alone, a stratum says little; pooled with the
others, it loses what makes it different. In between, the logits of each stratum g vary around common ones,

    μ_x ~ N(0, 1.5),    τ ~ HalfNormal(1),    p_g = softmax(μ + τ z_g),  z_gx ~ N(0, 1),    reports_g ~ collection_g | p_g,

and τ, learned from the data, says how different the strata are: τ = 0 pools them completely. The overall distribution
weighs the strata by their shares of the population, which need not be those of the sample.

Each stratum can have another protocol: observe() takes care of that, and holds the reports of all strata in one graph, so
that the model compiles as fast with fifty strata as with five. The deviations are written as τ z (non-centred), because
reports under strong privacy say little about each stratum. After sampling,

    ldpbayes.pymc.attach(trace, groups, var_name="distribution")

makes a result of the trace, with the frequencies of the strata's own users.
"""

import numpy as np
import pymc as pm

from ldpbayes import Cells
from ldpbayes.pymc import observe


def model(groups, shares=None):
    """Return the PyMC model.

    Parameters
    ----------
    groups : Cells, or dict of str to Collection
        The reports of each stratum, over the same categories.
    shares : (g,) array, optional
        Share of each stratum in the population, by default that of the sample.
    """
    groups = groups if isinstance(groups, Cells) else Cells(groups, by="group")
    if shares is None:
        shares = groups.sizes / groups.n_reports
    with pm.Model(coords={"group": groups.labels, "category": groups.categories}) as result:
        common = pm.Normal("common", 0, 1.5, dims="category")
        spread = pm.HalfNormal("spread", 1)
        deviations = pm.Normal("deviations", 0, 1, dims=("group", "category"))
        logits = common + spread * deviations
        p = pm.Deterministic("distribution", pm.math.softmax(logits, axis=-1), dims=("group", "category"))
        pm.Deterministic("overall", np.asarray(shares) @ p, dims="category")
        observe("reports", p, groups, dims=("group", "category"))
    return result
