"""Subset selection, as in a textbook.

A person whose value is x sends a set Z of w of the a categories. Sets that hold x are e^ε times as likely as sets that do
not: C(a − 1, w − 1) sets hold x and C(a − 1, w) do not, so

    P(Z | x) = e^{ε[x ∈ Z]} / (e^ε C(a − 1, w − 1) + C(a − 1, w)),

and the true value is in the set with probability g = w e^ε / (w e^ε + a − w). Summing over the unknown value,
P(Z) = (1 + (e^ε − 1) p(Z)) / (…), with p(Z) the probability of the set.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import math

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(members, epsilon, alpha=0.5):
    """Return the PyMC model; each person's report is one observation.

    Parameters
    ----------
    members : (n, a) array of 0 and 1
        Which categories each report holds; every row has the same number w of ones.
    epsilon : float
        Privacy level in nats.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    members = np.asarray(members)
    a, w = members.shape[1], int(members[0].sum())
    odds = math.exp(epsilon)
    sets = odds * math.comb(a - 1, w - 1) + math.comb(a - 1, w)
    truthful = w * odds / (w * odds + a - w)

    def logp(members, p):
        return pt.log(1 + (odds - 1) * (members * p).sum(axis=-1)) - math.log(sets)

    def generate(p, size):
        value = pm.Categorical.dist(p, size=size)
        kept = pm.Bernoulli.dist(truthful, size=value.shape)
        is_value = pt.eq(value[..., None], pt.arange(a))
        # A uniform key per category, above all others if the truth is kept and below if not: the w largest are sent.
        key = pm.Uniform.dist(0, 1, size=is_value.shape) + pt.where(is_value, 2 * kept[..., None] - 1, 0)
        rank = pt.argsort(pt.argsort(-key, axis=-1), axis=-1)
        return pt.cast(pt.lt(rank, w), "int64")

    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, a).astype(float))
        pm.CustomDist("reports", distribution, logp=logp, dist=generate, signature="(a)->(a)", observed=members)
    return result
