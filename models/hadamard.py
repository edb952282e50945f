"""Hadamard response, as in a textbook.

Let K be the least power of two above a and H the K × K Hadamard matrix, H[i, y] = (−1)^{number of ones in i & y}. Category x
owns row x + 1, which is +1 on one half of the K possible reports. A person sends a report from the own half with
probability e^ε/(1 + e^ε), uniform within it, else one from the other half:

    Q[y, x] = (2/K) e^ε/(1 + e^ε) if H[x + 1, y] = +1, else (2/K)/(1 + e^ε).

Rows of H agree on exactly half of the reports, so every pair of categories is distinguished equally well. There
are only K reports: their counts are multinomial with probabilities Q p.

This file does not import ldpbayes. It is documentation, and a second opinion: a test holds the two to the same numbers.
"""

import numpy as np
import pymc as pm
from scipy.linalg import hadamard


def model(counts, n_categories, epsilon, alpha=0.5):
    """Return the PyMC model.

    Parameters
    ----------
    counts : (K,) array of int
        How many people sent each report.
    n_categories : int
        a.
    epsilon : float
        Privacy level in nats.
    alpha : float or (a,) array
        Dirichlet concentration.
    """
    counts = np.asarray(counts)
    signs = hadamard(counts.size)[1 : n_categories + 1]
    channel = np.where(signs > 0, np.exp(epsilon), 1.0).T * 2 / counts.size / (1 + np.exp(epsilon))
    with pm.Model() as result:
        distribution = pm.Dirichlet("distribution", a=np.broadcast_to(alpha, n_categories).astype(float))
        pm.Multinomial("reports", n=counts.sum(), p=channel @ distribution, observed=counts)
    return result
