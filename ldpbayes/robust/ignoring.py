"""Some respondents may ignore the device: what their share would change."""

import math
from collections.abc import Sequence

import numpy as np

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.answers.base import conclusion
from ldpbayes.collections import Collection
from ldpbayes.collections.data import mechanisms
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.estimators.base import information_covariance
from ldpbayes.estimators.mle import maximize
from ldpbayes.fitness.nested import need_noncompliers
from ldpbayes.likelihoods import DenseRows
from ldpbayes.methods.problem import scaled
from ldpbayes.presenting import recorded

#: Time: Likelihood rows with more entries than this are not written out for a curve.
MAX_ENTRIES = 2**22
#: Time: Points of a curve; each is a maximum of the likelihood.
MAX_POINTS = 10**5
#: Mathematics: No curve goes on to γ = 1, where nobody follows the device.
MAX_GAMMA = 0.99


class Sensitivity(Answer):
    """A maximum-likelihood answer against the share γ of respondents who ignore the device.

    ``answer`` and ``error``, its standard error, over ``gamma``. The attributes are question, sentence; threshold (nan
    without one) and turning, the least γ at which the answer is there (nan where it is so nowhere); allowed: whether the
    curve covers all γ that the reports allow; otherwise γ is identified.
    """

    __slots__ = ()


@recorded
def sensitivity(
    collection: Collection, categories: str | Sequence[str], *, threshold: float | None = None, points: int = 41
) -> Sensitivity:
    """Return the maximum-likelihood share of some categories among the compliers, for every γ that the reports allow.

    At a given γ everybody's channel is (1 − γ) Q + γ q 1ᵀ, and P has an ordinary maximum-likelihood estimate. Where some
    deny, it is given their share δ instead, the same of every category that is denied. Where the share is identified the
    curve covers two standard deviations of the design about its estimate.

    Parameters
    ----------
    collection : Collection
        Made by ``with_noncompliers`` with one law, or by ``with_deniers``.
    categories : str or sequence of str
        A category of the compliers, several whose shares are added up, or a conclusion such as "yes > 0.2" or
        "often + always < 10 %".
    threshold : float, optional
        The answer at which the conclusion turns, where ``categories`` states none.
    points : int

    Returns
    -------
    Sensitivity

    Raises
    ------
    ArgumentError
        On categories that the compliers do not have, or a threshold that is no share.
    InfeasibleError
        On several laws, or likelihood rows too large to write out.

    Examples
    --------
    >>> from ldpbayes import GRR, Collection, Tally
    >>> survey = Collection(["no", "yes"], Tally(GRR(2, 1.5), [0, 1], [700, 300])).with_noncompliers({"no-sayer": "no"})
    >>> curve = sensitivity(survey, "yes < 0.3")
    >>> round(curve.turning, 3), curve.sentence
    (0.196, 'yes < 0.3 holds at γ = 0 (0.185) and turns at γ = 0.196; the reports allow every γ from 0 to 0.633.')
    """
    words = need_noncompliers(collection)
    answers = collection.answers
    labels, sign, stated = conclusion(categories, answers, "categories")
    if isinstance(stated, str):
        raise ArgumentError(f"categories must be compared with a share, got {shown(categories)}.")
    if stated is not None and threshold is not None:
        raise ArgumentError("threshold must be left out where categories state one.")
    threshold = stated if threshold is None else checks.probability(threshold, "threshold")
    points = checks.integer(points, "points", minimum=2, maximum=MAX_POINTS)
    if len(collection.laws) > 1 and not collection.denied:
        raise InfeasibleError("A sensitivity curve needs one law of those who ignore the device; ask for one at a time.")
    source = f"{mechanisms(collection.channels())}, by maximum likelihood"
    collection = scaled(collection)
    rows, test = collection.rows, collection.noncompliance()
    if rows.n_rows * rows.n_categories > MAX_ENTRIES:
        raise InfeasibleError(f"A sensitivity curve needs likelihood rows of at most {MAX_ENTRIES} entries.")
    low, high = test.low, test.high
    denied, size = [x for x in collection.owners if x is not None], len(answers)
    if test.identified:
        p = maximize(rows).p
        of_all = p[denied].sum() + p[size:].sum() if denied else 1.0
        middle = float(p[size:].sum() / max(of_all, 1e-300))
        low, high = max(middle - 2 * test.sd, 0.0), middle + 2 * test.sd
    elif denied:
        low, high = 0.0, 1.0
    gammas = np.linspace(low, max(min(high, MAX_GAMMA), low), points)
    dense, chosen = rows.dense(), np.isin(answers, labels).astype(float)

    def answer(gamma):
        """Return (the answer at a given γ, its standard error)."""
        seen = np.array(dense[:, :size])
        if denied:
            seen[:, denied] = (1 - gamma) * seen[:, denied] + gamma * dense[:, size:]
        else:
            seen = (1 - gamma) * seen + gamma * dense[:, -1:]
        possible = seen.any(axis=1)  # at γ = 0 some may not be; towards it these say nothing of P
        mixed = DenseRows(seen[possible], rows.counts[possible], rows.log_constants[possible])
        p = maximize(mixed, tolerance=1e-8).p
        covariance = information_covariance(mixed, p)
        covariance[p == 0, :] = covariance[:, p == 0] = 0.0
        return float(p @ chosen), float(np.sqrt(max(chosen @ covariance @ chosen, 0.0)))

    values, errors = np.array([answer(gamma) for gamma in gammas]).T
    turning = _turning(gammas, values, threshold, answer)
    question = " + ".join(labels) + ("" if threshold is None else f" {sign} {threshold:g}")
    span = f"from {gammas[0]:.3g} to {gammas[-1]:.3g}"
    s = words.symbol
    allowed = f"{s} is identified, and the curve goes {span}" if test.identified else f"the reports allow every {s} {span}"
    if threshold is None:
        sentence = f"{question} goes from {values.min():#.3g} to {values.max():#.3g}; {allowed}."
    else:
        holds = values[0] > threshold if sign == ">" else values[0] < threshold
        start = f"{question} {'holds' if holds else 'does not hold'} at {s} = {gammas[0]:.3g} ({values[0]:.3g})"
        sentence = f"{start} and turns at {s} = {turning:.3g}; {allowed}."
        if math.isnan(turning):
            sentence = f"{start} and turns nowhere; {allowed}."
    attrs = {"question": question, "sentence": sentence, "threshold": math.nan if threshold is None else threshold}
    attrs |= {"source": source, "turning": turning, "allowed": int(not test.identified), "symbol": s, "share": words.share}
    return Sensitivity({"answer": ("gamma", values), "error": ("gamma", errors)}, {"gamma": gammas}, attrs)


def _turning(gammas, values, threshold, answer):
    """Return the γ at which the answer crosses the threshold first; nan where there is none."""
    if threshold is None:
        return math.nan
    beyond = values - threshold
    crossings = np.flatnonzero(beyond[:-1] * beyond[1:] <= 0)
    if not crossings.size:
        return math.nan
    i = crossings[0]
    if beyond[i] * beyond[i + 1] < 0:
        from scipy.optimize import brentq

        return float(brentq(lambda gamma: answer(gamma)[0] - threshold, gammas[i], gammas[i + 1], xtol=1e-6))
    return float(gammas[i] if beyond[i] == 0 else gammas[i + 1])
