"""What those who gave no answer may change: bounds of a share of all who were asked, and a curve in how they differ."""

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.answers.shares import total
from ldpbayes.errors import ArgumentError
from ldpbayes.inference.ends import tails

#: Odds ratios of the curve, between 0 and inf.
ODDS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, np.inf)


@base.asks
def missing_answers(
    result: xr.DataTree,
    categories: str | Iterable[str],
    *,
    odds_ratio: float | Sequence[float] = ODDS,
    ci_prob: float = 0.95,
    target: str = "distribution",
    cell: str | tuple[str, ...] | None = None,
) -> Answer:
    """Return the share of some categories among all who were asked, whatever those answer who gave no answer.

    With p the share among those who answered, m the share who did not and v theirs, it is (1 − m) p + m v: between
    (1 − m) p and (1 − m) p + m. In between, v has the odds of p times an odds ratio ω, which no report tells: at ω = 1 those
    who gave no answer are like the others. m ~ Beta(½ + k m̂, ½ + k(1 − m̂)), apart from p: of k who were asked the share m̂
    gave no answer. In a sample with weights m̂ is weighted, and k the respondents of a simple random sample who know as much
    of it.

    Parameters
    ----------
    result : DataTree
        Of answers some of which were missing: see ``missing=`` of ``read``.
    categories : str or sequence of str
        A category; several, for their sum; or a conclusion such as "yes > 0.2".
    odds_ratio : float or sequence of float
        At least 0; 0 and inf are the bounds.
    target : {"distribution", "frequency"}
        "frequency": of the people themselves who were asked, so that m is known.

    Returns
    -------
    Answer
        Over ``odds_ratio``: mean, sd, lower, upper, mcse, and the probability of a conclusion. The attributes are question,
        sentence, answers, missing, and low and high: the ends of an interval that holds every share between the bounds, with
        the sampling error of p and m, with probability ci_prob at least.

    Raises
    ------
    ArgumentError
        Where nobody's answer is missing, or an argument breaks its rule.

    References
    ----------
    Manski (2003), Partial Identification of Probability Distributions.
    """
    several = [odds_ratio] if np.isscalar(odds_ratio) else odds_ratio
    ratios = checks.reals(several, "odds_ratio", "numbers of at least 0, or inf", finite=False)
    if not ratios.size or not (ratios >= 0).all():
        raise ArgumentError("odds_ratio must be numbers of at least 0, or inf.")
    ci_prob = checks.level(ci_prob)
    place = base.cell_position(result, cell)
    known = tuple(map(str, result.children["posterior"].dataset["category"].values))
    labels, sign, threshold = base.conclusion(categories, known, "categories")
    if isinstance(threshold, str):
        raise ArgumentError("categories must be compared with a number where answers are missing.")
    p, n = total(result, labels, target=target, cell=cell), base.n_reports(result, cell)
    held = result.children["constant_data"].dataset
    lost, share, asked = (
        float(np.ravel(held[name].values)[place or 0]) if name in held else np.nan
        for name in ("missing", "missing_share", "missing_respondents")
    )
    if not lost > 0:
        raise ArgumentError("missing answers must be counted in the result: read the reports with missing=LABEL.")
    counted = lost / (lost + n)
    how = "" if np.isclose(share, counted) or "pseudo" not in result.attrs else " by weight"
    if np.isnan(share):  # of a sample with weights: these rows have none
        share, asked, how = counted, lost + n, how and ", whose weights are not known"
    rng = np.random.default_rng(int(result.attrs["random_seed"]))
    m = rng.beta(share * asked + 0.5, (1 - share) * asked + 0.5, len(p)) if target == "distribution" else share
    with np.errstate(invalid="ignore"):
        theirs = np.where(np.isinf(ratios), 1.0, ratios * p[:, None] / (1 - p[:, None] + ratios * p[:, None]))
    theirs = np.where(np.isinf(ratios) | ~np.isnan(theirs), theirs, p[:, None])
    draws = (1 - m) * p
    both = draws[:, None] + np.reshape(m, (-1, 1)) * theirs
    tail = tails(ci_prob)[0]
    low, high = float(np.quantile(draws, tail)), float(np.quantile(draws + m, 1 - tail))
    named = base.words(labels)
    sentence = (
        f"{lost:,.0f} of {lost + n:,.0f} who were asked ({100 * share:.3g} %{how}) gave no answer. Whatever they "
        "would say, "
        f"{100 * ci_prob:g} % of the posterior has the share of {named} among all between {low:.3f} and {high:.3f}."
    )
    answer = base.described(result, both, {"odds_ratio": ratios}, ci_prob, named)
    if threshold is not None:
        true = both > threshold if sign == ">" else both < threshold
        answer["probability"] = ("odds_ratio", true.mean(axis=0))
    answer.attrs |= {"sentence": sentence, "answers": int(n), "missing": int(lost), "low": low, "high": high}
    return answer
