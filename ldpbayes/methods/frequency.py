"""The users' own frequencies F = T/n, from the distribution P: moments without a sampler, and draws given draws of P."""

import contextlib
import math
from dataclasses import dataclass

import numpy as np

from ldpbayes.inference.ends import beta_ends, tails
from ldpbayes.likelihoods import require_sampler
from ldpbayes.methods.constants import ALLOCATED_TOGETHER
from ldpbayes.priors.dirichlet import frequency_moments as frequency_moments


@dataclass(frozen=True)
class Allocation:
    """How draws of F are made.

    Attributes
    ----------
    most : float
        Operations that exact draws of one collection may take: some seconds. Bank: half and double show nothing.
    least_share : float
        Var(F) from the moments of P is a difference, which the noise of sampled moments drowns below this share of Var(P).
        Derived: a variance by 4,000 draws has an error of √(2/4000) = 2 %. A difference of a quarter of it has 9 %.
    averaged : int
        Draws of P that give the moments of F. Derived: to 1/√500 of its sd, a few percent. Bank: half and double change no
        number.
    """

    most: float = 1e9
    least_share: float = 0.25
    averaged: int = 500


ALLOCATION = Allocation()


def moments_from_draws(likelihood, distribution):
    """Return (mean, sd) of F given the reports, from draws of P under any prior.

    Given P, E[T_x] = P_x g_x and Var(T_x) = P_x g_x − P_x² D_x, where g is the gradient of the log-likelihood at P and D
    minus the diagonal of its Hessian: T_x is a sum of independent choices with probabilities L_jx P_x/(L P)_j. Averages
    over P follow by the laws of total expectation and variance; F = T/n.

    Parameters
    ----------
    likelihood : AbstractLikelihood
    distribution : (S, a) array
        Draws of P.

    Returns
    -------
    tuple of two (a,) arrays
    """
    mean, variance = likelihood.tally_moments(distribution)
    spread = mean.var(axis=0) + variance.mean(axis=0)
    return mean.mean(axis=0) / likelihood.n_reports, np.sqrt(np.maximum(spread, 0.0)) / likelihood.n_reports


def tallies_given(problems):
    """Return the function of P, (cells, a), that gives mean and variance of T given P and the reports of each problem."""

    def given_p(p):
        pairs = zip(problems, p, strict=True)
        return np.moveaxis(np.array([problem.likelihood.tally_moments(at) for problem, at in pairs]), 1, 0)

    return given_p


def mixed_frequency_moments(distribution, weight, alpha, n):
    """Return (mean, sd) of F from weighted draws of P, each drawn from the posterior under a Dirichlet prior of its own.

    ``frequency_moments``, by the laws of total expectation and variance: with A = Σα + n of a draw, T has the mean
    of A P − α. Its variance is the variance of A P − α less the mean of A P (1 − P).

    Parameters
    ----------
    distribution : (S, a) array
    weight : (S,) array
        Normalized.
    alpha : (S, a) array
    n : int
        Number of users.

    Returns
    -------
    tuple of two (a,) arrays
    """
    total = alpha.sum(axis=1) + n
    tallies = total[:, None] * distribution - alpha
    mean = weight @ tallies
    spread = weight @ (tallies - mean) ** 2 - (weight * total) @ (distribution * (1 - distribution))
    return np.clip(mean / n, 0.0, 1.0), np.sqrt(np.maximum(spread, 0.0)) / n


def frequency_draws(rows, distribution, rng, *, signal=None, watch=None, least=math.inf):
    """Return one draw of F for each draw of P, shape (S, a).

    Given P, the users behind report j split over the categories as Multinomial(w_j, L_j∘P/(L P)_j). Given the signal
    tallies too, the others split as Multinomial(n − Σ signal, P).

    Parameters
    ----------
    rows : Rows
    distribution : (S, a) array
        Draws of P.
    rng : numpy.random.Generator
    signal : (S, a) int array, optional
        Draws of the signal tallies (likelihoods.AbstractSampler) that belong to the draws of P.
    watch : Watch, optional
        Shows progress, and keeps at Ctrl-C the draws of F for the first draws of P, if at least ``least``.
    least : float
    """
    sampler, out, finished = require_sampler(rows), np.empty(distribution.shape), 0
    blocks = [slice(start, min(start + ALLOCATED_TOGETHER, len(out))) for start in range(0, len(out), ALLOCATED_TOGETHER)]
    shown = sizes = [block.stop - block.start for block in blocks]
    if watch is not None:
        shown = watch.track(sizes, "Draws of the users' own frequencies", len(out), weight=int)
    with contextlib.nullcontext() if watch is None else watch.keeping(lambda: finished >= least):
        for size, block in zip(shown, blocks, strict=True):
            tallies = sampler.allocate_each(distribution[block], rng, None if signal is None else signal[block])
            np.divide(tallies, rows.n_reports, out=out[block])
            finished += size
    return out[:finished]


def frequency_draws_within(rows, distribution, rng, known, **watching):
    """Return (draws of F, how): exact ones where they are cheap enough, else draws of P moved to F's moments.

    The second kind is E[F] + (P − E[P])·s, cut at 0 and divided by its sum, with s such that every F_x has its sd: accurate
    when n is large, because then both posteriors have the same shape, and exact draws would be expensive. Where the reports
    nearly give the values away, so that F is much narrower than P, draws are exact at any cost.

    Parameters
    ----------
    rows, distribution, rng
        As in frequency_draws.
    known : callable
        Mean and sd of F given the reports, two (a,) arrays; asked only where exact draws are expensive.
    **watching
        signal, watch and least, as in frequency_draws.
    """
    if watching.get("signal") is None and require_sampler(rows).work * len(distribution) > ALLOCATION.most:
        mean, sd = known()
        if (sd**2 >= ALLOCATION.least_share * distribution.var(axis=0)).all():
            return _moved(distribution - distribution.mean(axis=0), mean, sd), "moment-matched"
    return frequency_draws(rows, distribution, rng, **watching), "allocated"


def _moved(centred, mean, sd):
    """Return mean + centred·s on the simplex, with s such that the sds are ``sd``: the division by the sum changes them."""
    scale = np.ones_like(sd)
    for _ in range(30):
        moved = np.maximum(mean + centred * scale, 0.0)
        moved /= moved.sum(axis=1, keepdims=True)
        spread = moved.std(axis=0)
        ratio = np.divide(sd, spread, out=np.ones_like(sd), where=spread > 0)
        if np.abs(ratio - 1).max() < 1e-3:  # draws say no more of an sd
            break
        scale *= ratio
    return moved


def together(likelihoods, draws, rng):
    """Return (draws of F or None, its mean or None, how): by allocation where every cell allows it.

    Parameters
    ----------
    likelihoods : sequence of AbstractLikelihood
        Likelihood of each cell, or of one collection.
    draws : (chains, draws, [cells,] a) array
        Draws of P.
    rng : numpy.random.Generator
    """
    samplers, n = [likelihood.sampler() for likelihood in likelihoods], draws.shape[0] * draws.shape[1]
    cells = draws.reshape(n, len(samplers), -1)
    most = 60 * ALLOCATION.most  # of all cells: a minute
    if None not in samplers and n * sum(sampler.work for sampler in samplers) <= most:
        shares = np.stack([s.allocate_each(cells[:, c], rng) / s.n_reports for c, s in enumerate(samplers)], axis=1)
        return shares.reshape(draws.shape), None, "allocated"
    means = [x.tally_means(cells[:, c]).mean(axis=0) / x.n_reports for c, x in enumerate(likelihoods)]
    return None, np.stack(means).reshape(draws.shape[2:]), "mean only"


def frequency_intervals(exact: dict, n_reports, ci_prob: float) -> dict[str, np.ndarray]:
    """Return the ends of F's intervals, multiples of 1/n, and their errors, from the moments of F and the interval of P.

    Where the noise of the reports decides, F and P have posteriors of one shape: the interval of P is moved to the mean and
    sd of F. It keeps the shape of a posterior near zero, which no beta distribution has. Where the reports nearly give the
    values away, so that F is much narrower than P, and where P has no interval, that of a beta distribution with the mean
    and sd of F takes its place. The error of an end is the distance between both, a multiple, and that of P's end by draws.

    Parameters
    ----------
    exact : dict
        frequency_mean and frequency_sd, and where they are known distribution_mean, _sd, _lower and _upper;
        of ends of P by draws also distribution_lower_error and _upper_error.
    n_reports : float or array
        n, which broadcasts with them.
    ci_prob : float

    Returns
    -------
    dict
    """
    mean, sd = (np.asarray(exact[f"frequency_{name}"], dtype=float) for name in ("mean", "sd"))
    ends = simple = beta_ends(mean, sd, tails(ci_prob))
    errors = [np.zeros_like(sd)] * 2
    names = [f"distribution_{name}" for name in ("mean", "sd", "lower", "upper")]
    if all(name in exact for name in names):
        centre, spread, *ends_of_p = (np.asarray(exact[name], dtype=float) for name in names)
        ratio = np.divide(sd, spread, out=np.zeros_like(sd), where=spread > 0)
        alike = ratio**2 >= ALLOCATION.least_share
        moved = [mean + ratio * (end - centre) for end in ends_of_p]
        ends = [np.where(alike, own, end) for own, end in zip(moved, simple, strict=True)]
        drawn = [ratio * exact.get(f"distribution_{side}_error", 0.0) for side in ("lower", "upper")]
        errors = [np.abs(near - end) + error for near, end, error in zip(moved, simple, drawn, strict=True)]
    # F takes multiples of 1/n, and the mass of a multiple lies within half of one about it.
    lower, upper = (np.clip(np.rint(end * n_reports), 0.0, n_reports) / n_reports + 0.0 for end in ends)
    errors = [np.where(sd > 0, error + 1 / n_reports, 0.0) for error in errors]
    names = [f"frequency_{name}" for name in ("lower", "upper", "lower_error", "upper_error")]
    return dict(zip(names, (lower, upper, *errors), strict=True))
