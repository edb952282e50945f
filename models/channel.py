"""Any randomized-response design, and several of them on one population, as in a textbook.

A design is its channel Q[report, category] = P(report | true category), columns summing to one: Warner, forced response,
unrelated question, crosswise, Kuk and the others differ in Q alone. Reports are multinomial with probabilities Q p.
Questionnaire forms with different Q given to different people share p, and their likelihoods multiply:

    p ~ Dirichlet(α),    S_c ~ Multinomial(n_c, Q_c p)    for each form c.

Two forms can identify what neither does alone: the stochastic lie detector asks one group with p = 0.6 and another with
p = 0.8 to tell honest carriers, lying carriers and non-carriers apart.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm


def model(channels, alpha=0.5):
    """Return the PyMC model.

    Parameters
    ----------
    channels : dict of str to (Q, counts)
        Per form, the (b, a) channel and the (b,) counts of its reports.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    a = np.shape(next(iter(channels.values()))[0])[1]
    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, a).astype(float))
        for name, (channel, counts) in channels.items():
            pm.Multinomial(f"reports_{name}", n=np.sum(counts), p=np.asarray(channel) @ distribution, observed=counts)
    return result
