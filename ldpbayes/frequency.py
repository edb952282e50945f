"""The users' own frequencies F = T/n, from the distribution P: moments without a sampler, and draws given draws of P."""

import numpy as np


def frequency_moments(mean, variance, alpha, n):
    """Return (mean, sd) of F given the reports, from the posterior moments of P under a Dirichlet(α) prior.

    With A = Σα + n:  E[T|Y] = A μ − α  and  Var(T_x|Y) = A[(A+1) Var(P_x|Y) − μ_x(1−μ_x)]; F = T/n. Spec 2.2.

    Parameters
    ----------
    mean, variance : (a,) arrays
        E[P|Y] and Var(P|Y).
    alpha : (a,) array
    n : int
        Number of users.
    """
    total = alpha.sum() + n
    frequency = np.clip((total * mean - alpha) / n, 0.0, 1.0)
    spread = total * ((total + 1) * variance - mean * (1 - mean))
    return frequency, np.sqrt(np.maximum(spread, 0.0)) / n


def frequency_draws(rows, distribution, rng):
    """Return one draw of F for each draw of P, shape (S, a).

    Given P, the users behind report j split over the categories as Multinomial(w_j, L_j∘P/(L P)_j). Spec 2.2.

    Parameters
    ----------
    rows : Rows
    distribution : (S, a) array
        Draws of P.
    rng : numpy.random.Generator
    """
    return np.stack([rows.allocate(p, rng) for p in distribution]) / rows.n_reports
