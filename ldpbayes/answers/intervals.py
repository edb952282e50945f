"""Intervals that hold for all categories at once, and what the width of an interval is made of."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.collections.wrappers import WRAPPERS
from ldpbayes.constants import ATOMS, ROUNDING, STEPS
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.confidence import intervals_at
from ldpbayes.inference.ends import level_of_largest
from ldpbayes.result.facts import facts_of

#: Rule: Parts of the draws that are each left out once when a band made of the others is tested. The shape of the band then
#: comes from four fifths of the draws, with √(5/4) = 1.12 times the error that all have. With two parts it is 1.41 times,
#: and bands are wider; with ten 1.05 times, for twice the work.
FOLDS = 5
#: Rule: A category whose 2 % quantile is below this share of its 76 % quantile has an interval that begins at 0. Of a Gamma
#: law with shape k the ratio is .016 at k = 1, where the density begins to be highest at 0, and .028 at k = 1.2. The limit
#: is k = 1.07. At half it is .87, and laws that are highest at 0 would begin above it; at double it is 1.38, and laws that
#: are 0 there would begin at it.
TOUCHING = 0.02
PARTS = "How much of each sd is sampling, how much privacy"


@base.asks
def simultaneous_intervals(
    result: xr.DataTree,
    *,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
) -> Answer:
    """Return intervals that hold for all categories at once with posterior probability ci_prob.

    Where the method knows the quantiles of every category exactly, the interval of each category leaves out the same
    probability γ: half of it on either side or, for a category that may well be absent, all of it above. γ is chosen so that
    the probability of missing any category is 1 − ci_prob. With N the number of categories outside,
    P(N ≥ 1) = b E N + E[1(N ≥ 1) − b N]: E N = aγ is exact, and the second mean, whose variance is small for the best b,
    comes from the draws. For other methods the interval of category x is (m_x − c l_x)² … (m_x + c u_x)², with m the mean
    of √p_x and l, u its spreads below and above; c is calibrated on draws that took no part in m, l and u (the draws are
    cut into five parts, each left out once). Ends of F are multiples of 1/n; where one user is more than the error of m, l
    and u, c is calibrated on all draws, which the band holds with the probability stated.

    Returns
    -------
    Answer
        lower, upper (category); attrs ci_prob, ``probability``, the posterior probability of the band estimated out of
        sample, and ``mcse``, its Monte Carlo standard error.
    """
    ci_prob = checks.level(ci_prob)
    draws, category = base.draws_of(result, target, cell)
    quantiles = base.exact_part(result, f"{target}_quantile", cell)
    if quantiles is None:
        lower, upper, probability, error = _from_draws(result, draws, ci_prob, base.n_reports(result, cell))
    else:
        lower, upper, probability, error = _from_quantiles(
            result, draws, result.children["exact"].dataset["level"].values, quantiles, ci_prob
        )
    attrs = {"ci_prob": ci_prob, "probability": probability, "mcse": error}
    return base.by_category(category, "Shares of all categories at once", {"lower": lower, "upper": upper}, **attrs)


@base.asks
def largest(
    result: xr.DataTree,
    k: int,
    *,
    ci_prob: float = 0.95,
    simultaneous: bool = False,
    cell: str | tuple[str, ...] | None = None,
) -> Answer:
    """Return the k largest shares with confidence intervals that hold although the largest were picked.

    A category is among the largest also because its reports happened to be many, so that intervals at the level c cover it
    less often. At the level 1 − (1 − c) k/a of each, the share of the k shown that are covered is at least c on average,
    whichever rule picks them and however they depend on each other; ``simultaneous`` ones, at 1 − (1 − c)/a, cover all with
    probability c. This holds for intervals with confidence, not for credible ones, and for a k fixed beforehand.

    Parameters
    ----------
    result : DataTree
        With the group ``confidence``.
    k : int
        From 1 to the number of categories.
    ci_prob : float
        c.
    simultaneous : bool

    Returns
    -------
    Answer
        mean, lower, upper (category), the largest posterior mean of P first; attrs ci_prob and ``level``, that of each.

    Raises
    ------
    ArgumentError
        If k, ci_prob or cell breaks its rule, or the result has no confidence intervals.

    References
    ----------
    Benjamini and Yekutieli (2005), Journal of the American Statistical Association 100.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> counts = [40, 30, 9, 8, 7, 6]
    >>> result = lb.fit(lb.Collection("abcdef", lb.Tally(lb.GRR(6, 2.0), range(6), counts)), random_seed=1)
    >>> answer = largest(result, 2)
    >>> answer["category"].values.tolist(), round(answer.attrs["level"], 3)
    (['a', 'b'], 0.983)
    """
    ci_prob, shares = checks.level(ci_prob), base.summary(result, cell)["mean"].sel(target="distribution")
    a, simultaneous = shares.sizes["category"], checks.flag(simultaneous, "simultaneous")
    k = checks.integer(k, "k", minimum=1, maximum=a)
    named = {str(name) for group in ("posterior", "cells") if group in result.children for name in result[group].data_vars}
    if {wrapper.name for wrapper in WRAPPERS.values() if wrapper.tested} & (named | set(facts_of(result))):
        raise ArgumentError(
            "result must be one of respondents of whom all follow the device: with others P has no interval."
        )
    if "confidence" not in result.children:
        raise ArgumentError(
            "result must have confidence intervals, which need whole reports and estimates=True; it has none."
        )
    level = level_of_largest(ci_prob, k, a, simultaneous=simultaneous)
    ends = intervals_at(base.of_cell(result, result["confidence"].to_dataset(), cell), level)
    chosen = np.argsort(-shares.values, kind="stable")[:k]
    values = {name: array[chosen] for name, array in zip(("mean", "lower", "upper"), (shares.values, *ends), strict=True)}
    names = ", ".join(map(str, shares["category"].values[chosen][:6])) + (", …" if k > 6 else "")
    kind = (
        f"cover all {k} with confidence {ci_prob:g}"
        if simultaneous
        else f"cover {100 * ci_prob:g} % of the {k} shown on average"
    )
    kind = kind if k > 1 else f"cover it in {100 * ci_prob:g} % of samples"
    picked = "these were picked for being the largest" if k > 1 else "it was picked for being the largest"
    title = f"The {k} largest shares" if k > 1 else "The largest share"
    sentence = f"{title}: {names}. The confidence intervals {kind}, although {picked}."
    attrs = {"ci_prob": ci_prob, "level": level, "sentence": sentence}
    return base.by_category(shares["category"].values[chosen], title, values, **attrs)


@base.asks
def interval_parts(result: xr.DataTree, *, cell: str | tuple[str, ...] | None = None) -> Answer:
    """Return the posterior variance of P split into a sampling part and a privacy part.

    Var(P_x|Y) = E[Var(P_x|T)|Y] + Var(E[P_x|T]|Y): what would remain had the true tallies T been seen, and what the
    randomization adds, (n/A)² Var(F_x|Y) with A = Σα + n (law of total variance under a Dirichlet(α) prior).

    Returns
    -------
    Answer
        sd, sampling_sd, privacy_sd (category) and privacy_share, the privacy part's share of the variance.

    Raises
    ------
    ArgumentError
        If the prior is not a Dirichlet, or cell breaks its rule.
    """
    weight, n, summary = base.prior_weight(result, cell), base.n_reports(result, cell), base.summary(result, cell)
    variance = summary["sd"].sel(target="distribution").values ** 2
    frequency = summary["sd"].sel(target="frequency").values
    privacy = np.minimum((n / (n + weight) * frequency) ** 2, variance)
    share = np.divide(privacy, variance, out=np.zeros_like(variance), where=variance > 0)
    variances = {"sd": variance, "sampling_sd": variance - privacy, "privacy_sd": privacy}
    values = {name: np.sqrt(value) for name, value in variances.items()} | {"privacy_share": share}
    return base.by_category(summary["category"].values, PARTS, values)


# ---- a band from exact quantiles -------------------------------------------------------------------------------------
def _from_quantiles(
    tree: xr.DataTree, draws: NDArray, levels: NDArray, quantiles: NDArray, ci_prob: float
) -> tuple[NDArray, NDArray, float, float]:
    """Return (lower, upper, probability, its error) of equal-tailed intervals at the common level."""
    curve = PchipInterpolator(ndtri(levels), np.log(np.maximum(quantiles, 1e-300)))
    least = 2 * levels.min()
    rare, usual = np.exp(curve([-2.0, 0.7]))
    touching = rare < TOUCHING * usual

    def band(gamma: float) -> tuple[NDArray, NDArray]:
        one_sided, low, high = np.exp(curve(-ndtri([gamma, 1 - gamma / 2, gamma / 2])))
        return np.where(touching, 0.0, low), np.where(touching, one_sided, high)

    def missed(gamma: float) -> tuple[float, float]:
        """Return (P(N ≥ 1), its standard error) at this level."""
        lower, upper = band(gamma)
        outside = ((draws < lower) | (draws > upper)).sum(axis=1).astype(float)
        miss = (outside > 0).astype(float)
        spread = outside.var()
        slope = ((miss - miss.mean()) * (outside - outside.mean())).mean() / spread if spread > 0 else 1.0
        rest = miss - slope * outside
        return slope * draws.shape[1] * gamma + rest.mean(), float(base.mcse(tree, rest))

    # Level 1 − ci_prob for each is too much, the a-th part of it too little (Bonferroni).
    left = 1 - ci_prob
    low, high = np.log(max(left / draws.shape[1], least)), np.log(left)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if missed(np.exp(middle))[0] > 1 - ci_prob else (middle, high)
        if high - low < 1e-6:
            break
    probability, error = missed(np.exp(low))
    # Where no draw was in doubt the sample says no more than that fewer than about one in S is.
    return *band(np.exp(low)), float(1 - probability), float(np.hypot(error, 1 / len(draws)))


# ---- a band from draws alone -----------------------------------------------------------------------------------------
def _from_draws(tree: xr.DataTree, draws: NDArray, ci_prob: float, n: float) -> tuple[NDArray, NDArray, float, float]:
    """Return (lower, upper, probability, its error) of m ± c·(spread below, above) on the scale of √p.

    Where draws are whole numbers of ``n`` users, so are the ends. Where one user is more than the error of a shape, a shape
    from a part of the draws can hold a value that the band itself just leaves out: c is then that of all draws.
    """
    lower, upper = draws.min(axis=0), draws.max(axis=0)
    moving, atoms = upper > lower, np.allclose(draws * n, np.rint(draws * n), rtol=0, atol=ATOMS)
    roots = np.sqrt(draws[:, moving])
    shape, reach = _shape(roots), np.zeros(len(roots))
    if atoms and (n * draws.std(axis=0) < np.sqrt(len(draws))).all():
        reach = _reach(roots, *shape)
    else:
        for fold in np.array_split(np.arange(len(roots)), min(FOLDS, len(roots) // 2)) if moving.any() else ():
            kept = np.ones(len(roots), dtype=bool)
            kept[fold] = False
            reach[fold] = _reach(roots[fold], *_shape(roots[kept]))
    # The quantile at the level ci_prob of S + 1 draws, of which the one that the band must hold is unseen.
    rank = min(int(np.ceil(ci_prob * (len(reach) + 1))), len(reach))
    c = np.partition(reach, rank - 1)[rank - 1]
    inside = (reach <= c).astype(float)
    middle, below, above = shape
    # Rounding must not put an end on the wrong side of the value that it stands for.
    lower[moving] = np.maximum(middle - c * below, 0.0) ** 2 * (1 - ROUNDING)
    upper[moving] = np.minimum((middle + c * above) ** 2 * (1 + ROUNDING), 1.0)
    if atoms:
        lower, upper = np.ceil(lower * n - ATOMS) / n + 0.0, np.floor(upper * n + ATOMS) / n
    return lower, upper, float(inside.mean()), float(base.mcse(tree, inside))


def _shape(roots: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return (mean, spread below, spread above) of each column: root mean squares of the distances on either side."""
    middle = roots.mean(axis=0)
    away = roots - middle
    above = np.maximum(away, 0.0)
    away -= above
    return middle, *(np.sqrt(2 * np.einsum("sx,sx->x", side, side) / len(roots)) for side in (away, above))


def _reach(roots: NDArray, middle: NDArray, below: NDArray, above: NDArray) -> NDArray:
    """Return the least c whose band holds each draw entirely."""
    away = roots - middle
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(away < 0, -away / below, away / above)
    return np.where(away == 0, 0.0, scaled).max(axis=1, initial=0.0)
