"""Regression on a private answer inside a model of one's own, with ldpbayes.pymc.observe for the likelihood.

``ldpbayes.regress`` has one form: log odds that are linear in covariates, with normal effects of groups. A model of one's
own can have any other. Here the log odds are linear in covariates, and what the covariates do not explain differs from cell
to cell,

    η_c = x_c B + τ e_c,    e_cx ~ N(0, 1),    τ ~ HalfNormal(1),    p_c = softmax(η_c),    reports_c ~ collection_c | p_c,

so that τ says how much the covariates leave open: with τ = 0 it is the regression itself. Every cell may have another
protocol; observe() takes care of that. After sampling,

    ldpbayes.pymc.attach(trace, cells, var_name="distribution")

makes a result of the trace.
"""

import numpy as np
import pymc as pm

from ldpbayes.pymc import observe


def model(cells, x, scale=2.5):
    """Return the PyMC model.

    Parameters
    ----------
    cells : Cells
    x : (cells, terms) array
        Covariates of the cells in their order, with a column of ones in front.
    scale : float
        Prior standard deviation of the log odds between two categories, for a covariate's change by one.
    """
    with pm.Model(coords={"cell": cells.labels, "category": cells.categories}) as result:
        b = pm.Normal("coefficients", 0, scale / np.sqrt(2), shape=(x.shape[1], cells.n_categories))
        spread = pm.HalfNormal("spread", 1)
        left_open = pm.Normal("left_open", 0, 1, dims=("cell", "category"))
        eta = pm.math.dot(np.asarray(x, dtype=float), b) + spread * left_open
        p = pm.Deterministic("distribution", pm.math.softmax(eta, axis=-1), dims=("cell", "category"))
        observe("reports", p, cells, dims=("cell", "category"))
    return result
