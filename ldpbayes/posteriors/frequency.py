"""The users' own frequencies F = T/n, from the distribution P: moments without a sampler, and draws given draws of P."""

import math

import numpy as np

from ldpbayes.likelihoods import require_sampler
from ldpbayes.priors.dirichlet import frequency_moments as frequency_moments
from ldpbayes.progress import finished, track

#: Exact draws of F may take this long in all.
LIMIT_SECONDS = 20.0
#: After an interruption so many draws of F are worth keeping.
LEAST_KEPT = 200
#: Var(F) from the moments of P is a difference, which the noise of sampled moments drowns below this share of Var(P).
LEAST_SHARE = 0.25


def frequency_draws(rows, distribution, rng, *, progressbar=False, partial=False):
    """Return one draw of F for each draw of P, shape (S, a).

    Given P, the users behind report j split over the categories as Multinomial(w_j, L_j∘P/(L P)_j). Spec 2.2.

    Parameters
    ----------
    rows : Rows
    distribution : (S, a) array
        Draws of P.
    rng : numpy.random.Generator
    progressbar : bool
    partial : bool
        Whether Ctrl-C returns the finished draws, of the first draws of P, if at least LEAST_KEPT.
    """
    sampler = require_sampler(rows)
    draws = (sampler.allocate(p, rng) for p in track(distribution, "Draws of the users' own frequencies", shown=progressbar))
    return np.stack(finished(draws, LEAST_KEPT if partial else math.inf)) / rows.n_reports


def frequency_draws_within(rows, distribution, rng, mean, sd, *, limit_seconds=LIMIT_SECONDS, **progress):
    """Return (draws of F, how): exact ones where they are cheap enough, else draws of P moved to F's moments.

    The second kind is E[F] + (P − E[P])·sd(F)/sd(P), cut at 0 and divided by its sum: right where n is so large that both
    posteriors have one shape, which is where exact draws are dear. Where the reports nearly give the values away, so that F
    is much narrower than P, draws are exact whatever they take.

    Parameters
    ----------
    rows, distribution, rng
        As in frequency_draws.
    mean, sd : (a,) arrays
        Moments of F given the reports (frequency_moments).
    limit_seconds : float
        Predicted time above which the second kind is used.
    **progress
        progressbar and partial, as in frequency_draws.
    """
    spread = distribution.std(axis=0)
    told = (sd**2 < LEAST_SHARE * spread**2).any()
    if told or require_sampler(rows).seconds * len(distribution) <= limit_seconds:
        return frequency_draws(rows, distribution, rng, **progress), "allocated"
    scale = np.divide(sd, spread, out=np.zeros_like(sd), where=spread > 0)
    moved = np.maximum(mean + (distribution - distribution.mean(axis=0)) * scale, 0.0)
    return moved / moved.sum(axis=1, keepdims=True), "moment-matched"
