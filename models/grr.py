"""Generalized randomized response, as in a textbook; two categories are Warner's design.

A person whose value is x reports x with probability e^ε/(e^ε + a − 1) and each other of the a categories with
probability 1/(e^ε + a − 1). With β = e^ε − 1, report y therefore has probability

    P(y) = Σ_x Q[y, x] p_x = (1 + β p_y) / (a + β),

because p sums to one: the a × a product is not needed. Reports of different people are independent given p, so their
counts are multinomial. The prior on p is Dirichlet(α); α = ½ is Jeffreys', α = 1 is flat.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm


def model(counts, epsilon, alpha=0.5):
    """Return the PyMC model.

    Parameters
    ----------
    counts : (a,) array of int
        How many people reported each category.
    epsilon : float
        Privacy level in nats.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    counts = np.asarray(counts)
    a, beta = counts.size, np.expm1(epsilon)
    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, a).astype(float))
        pm.Multinomial("reports", n=counts.sum(), p=(1 + beta * distribution) / (a + beta), observed=counts)
    return result
