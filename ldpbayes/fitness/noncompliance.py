"""Do some respondents ignore the device, and what would it change: a test, a Bayes factor and a sensitivity curve."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc

from ldpbayes import checks
from ldpbayes.collections import Collection, Tally
from ldpbayes.collections.noncompliance import EXPLANATION, compliers_only
from ldpbayes.errors import ArgumentError, InfeasibleError, LDPBayesWarning, listed
from ldpbayes.estimators.mle import maximise
from ldpbayes.fitting import fit, select_method
from ldpbayes.protocols import Channel
from ldpbayes.protocols.laws import ListLaw

#: The fit without noncompliers that a Bayes factor needs: draws per chain, and the most seconds that it may take.
DRAWS, LONGEST = 250, 5.0
#: No curve goes on to γ = 1, where nobody follows the device.
MAX_GAMMA = 0.99


@dataclass(frozen=True)
class ComplianceTest:
    """The likelihood-ratio test of γ = 0.

    Attributes
    ----------
    statistic : float
        Twice the gain in log-likelihood by the respondents who ignore the device.
    p_value : float
    gamma : float
        Their share at the maximum.
    """

    statistic: float
    p_value: float
    gamma: float


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A maximum-likelihood answer against the share γ of respondents who ignore the device.

    Attributes
    ----------
    gamma, answer : (k,) arrays
    turning : float
        The least γ at which the answer is at the threshold; nan where it is there nowhere, or no threshold was given.
    """

    gamma: np.ndarray
    answer: np.ndarray
    turning: float


def compliance_test(collection: Collection) -> ComplianceTest:
    """Return the likelihood-ratio test of γ = 0 for a collection made by ``with_noncompliers``.

    γ = 0 lies on the boundary: with one law the statistic is 0 or χ²₁ with probability ½ each; with m laws the mixture of
    χ² with m − 1 and m degrees of freedom that is used bounds the p-value from above.

    Raises
    ------
    InfeasibleError
        Where the reports do not identify γ, or are weighted: the statistic has no χ² law then.

    References
    ----------
    Self and Liang (1987), Journal of the American Statistical Association 82.
    """
    _need(collection)
    found = collection.noncompliance()
    if not found.identified:
        raise InfeasibleError(found.sentence)
    if collection.survey is not None:
        raise InfeasibleError("The test of full compliance takes no sampling weights: its statistic has no known law then.")
    whole, plain = collection.rows, compliers_only(collection).rows
    p = maximise(whole).p
    gain = float(whole.log_likelihood(p) - plain.log_likelihood(maximise(plain).p))
    statistic, m = max(2 * gain, 0.0), collection.n_laws
    below = (statistic <= 0.0) if m == 1 else chdtrc(m - 1, statistic)
    return ComplianceTest(statistic, float(0.5 * (below + chdtrc(m, statistic))), float(p[-m:].sum()))


def findings(tree, collection: Collection, prior) -> dict:
    """Return the facts about non-compliance that stand in the attrs of a result.

    Parameters
    ----------
    tree : DataTree
        The result.
    collection : Collection
        Made by ``with_noncompliers``.
    prior : AbstractPrior
        Of p′.

    Returns
    -------
    dict
        noncompliance: what P and F mean, and what the reports can say of γ; noncompliance_low and _high: the γ that the
        reports allow; noncompliance_sd: the sd that the design gives; compliance: the test of full compliance and the Bayes
        factor, with compliance_statistic, compliance_p, compliance_gamma and log_bayes_factor_noncompliance.
    """
    found = collection.noncompliance()
    facts = {"noncompliance": f"{EXPLANATION} {_said(found)}", "noncompliance_sd": found.sd}
    if not found.identified:
        return facts | {"noncompliance_low": found.low, "noncompliance_high": found.high}
    if collection.survey is not None:  # no χ² law, and no evidence, under weights
        return facts
    test = compliance_test(collection)
    factor = _log_bayes_factor(tree, collection, prior)
    sentence = (
        f"Full compliance (γ = 0): likelihood-ratio statistic {test.statistic:.2f}, p = {test.p_value:.3g}, with "
        f"γ = {test.gamma:.3g} at the maximum."
    )
    if math.isfinite(factor):
        word = "against" if factor > 0 else "for"
        sentence += f" The log Bayes factor {word} full compliance is {abs(factor):.1f}, under these priors."
    return facts | {
        "compliance": sentence,
        "compliance_statistic": test.statistic,
        "compliance_p": test.p_value,
        "compliance_gamma": test.gamma,
        "log_bayes_factor_noncompliance": factor,
    }


def _said(found):
    """Return what the reports can say of γ, for a result that was made all the same."""
    if found.identified:
        return found.sentence
    return (
        f"The reports do not decide between the γ from {found.low:.3g} to {found.high:.3g}: within that interval γ follows "
        "its prior, and so does P with it. No maximum-likelihood estimate is shown, because it is not unique; a sensitivity "
        "curve shows P for every γ."
    )


def _evidence(tree):
    """Return the log-evidence of a result, or nan."""
    known = tree["exact"] if "exact" in tree.children else {}
    return float(known["log_evidence"] if "log_evidence" in known else tree.attrs.get("log_evidence", math.nan))


def _log_bayes_factor(tree, collection, prior):
    """Return log P(reports | prior) − log P(reports | all follow the device) by the evidence of a result, or nan."""
    plain, belief = compliers_only(collection), prior.without(collection.n_laws)
    if belief is None or not math.isfinite(_evidence(tree)):
        return math.nan
    choice = select_method(plain, belief, draws=DRAWS)
    if choice.plan.seconds > LONGEST:
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        return _evidence(tree) - _evidence(fit(plain, belief, draws=DRAWS, random_seed=0, estimates=False))


def log_bayes_factor(collection: Collection, prior="jeffreys", *, compliers="jeffreys", random_seed=0) -> float:
    """Return log P(reports | some ignore the device) − log P(reports | all follow it).

    nan where the engine that ``fit`` takes knows no evidence.

    Parameters
    ----------
    collection : Collection
        Made by ``with_noncompliers``.
    prior : as in fit
    compliers : as in fit
        Prior where all follow the device.
    random_seed : int
    """
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        for one, belief in ((collection, prior), (compliers_only(collection), compliers)):
            found.append(_evidence(fit(one, belief, random_seed=random_seed, estimates=False)))
    return found[0] - found[1]


def sensitivity(
    collection: Collection, of: Sequence[str], *, threshold: float | None = None, points: int = 41
) -> Sensitivity:
    """Return the maximum-likelihood share of some categories among the compliers, for every γ that the reports allow.

    Where γ is identified the curve covers two standard deviations of the design about its estimate.

    Parameters
    ----------
    collection : Collection
        Made by ``with_noncompliers`` with one law, of protocols whose reports can be listed.
    of : sequence of str
        Categories of the compliers whose shares are added up.
    threshold : float, optional
        The answer at which the conclusion turns.
    points : int
    """
    _need(collection)
    known = collection.categories[: collection.n_categories - collection.n_laws]
    for label in of if not isinstance(of, str) else (of,):
        if label not in known:
            raise ArgumentError(f"of must hold categories of the compliers ({listed(known)}), got {label!r}.")
    points = checks.integer(points, "points", minimum=2)
    if collection.n_laws > 1 or any(tally.protocol.decoder() is None for tally in collection.tallies):
        raise InfeasibleError("A sensitivity curve needs one law, and protocols whose reports can be listed.")
    chosen, found = np.isin(known, (of,) if isinstance(of, str) else of), collection.noncompliance()
    low, high = found.low, found.high
    if found.identified:
        middle = float(maximise(collection.rows).p[-1])
        low, high = max(middle - 2 * found.sd, 0.0), middle + 2 * found.sd
    gammas = np.linspace(low, min(high, MAX_GAMMA), points)
    counts = [ListLaw(t.protocol).tally(t.reports, t.counts).astype(np.int64) for t in collection.tallies]
    channels = [t.protocol.channel() for t in collection.tallies]

    def answer(gamma):
        """Return the answer at a given γ, where everybody's channel is (1 − γ) Q + γ q 1ᵀ."""
        tallies = [
            Tally(Channel((1 - gamma) * q[:, :-1] + gamma * q[:, -1:]), np.arange(len(q)), seen, f"{i}")
            for i, (q, seen) in enumerate(zip(channels, counts, strict=True))
        ]
        return float(maximise(Collection(known, tallies).rows, tolerance=1e-8).p[chosen].sum())

    values = np.array([answer(gamma) for gamma in gammas])
    turning = math.nan
    if threshold is not None:
        beyond = values - checks.real(threshold, "threshold")
        crossings = np.flatnonzero(beyond[:-1] * beyond[1:] <= 0)
        if crossings.size:
            i = crossings[0]
            ends = beyond[i], beyond[i + 1]
            turning = float(gammas[i] if ends[0] == 0 else gammas[i + 1])
            if ends[0] * ends[1] < 0:
                turning = float(brentq(lambda g: answer(g) - threshold, gammas[i], gammas[i + 1], xtol=1e-6))
    return Sensitivity(gammas, values, turning)


def _need(collection):
    if not isinstance(collection, Collection) or not collection.n_laws:
        raise ArgumentError("collection must be one made by with_noncompliers.")
