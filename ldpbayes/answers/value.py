"""What the reports are worth: an equivalent number of direct answers, and the least error that any protocol allows."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from scipy.special import betaincinv

from ldpbayes.collections import Collection
from ldpbayes.errors import listed
from ldpbayes.protocols.subset import least_variance


def worth_given(
    mean: NDArray, sd: NDArray, alpha_total: float, collection: Collection, unidentified: bool
) -> dict[str, Any]:
    """Return what reports are worth: how many direct answers carry as much information, and the least error.

    m direct answers would leave (1 − Σp²)/(Σα + m + 1) = Σ_x Var(P_x|Y), p = E[P|Y]: what the prior contributes is not
    counted. The least error is that of the best protocol with the largest ε of the channels at uniform P
    (``theory.bounds.exact_bound``), the worst case over P for large n. A posterior can be narrower, because P is far from
    uniform or because the prior is informative; then the comparison is left out.

    Parameters
    ----------
    mean, sd : (a,) arrays
        Of P.
    alpha_total : float
        Σα, the answers that the prior is worth.
    collection : Collection
    unidentified : bool
        Whether the channels cannot tell some categories apart.

    Returns
    -------
    dict
        effective_direct_answers, the m above; total_sd, the root of the summed variances; bound_sd, the root of the least
        total variance, nan where no comparison is valid; and ``worth``, the comparison as a sentence.
    """
    n, variance = collection.n_reports, float((sd**2).sum())
    p = mean / mean.sum()
    direct_answers = min(max(float((1 - p @ p) / variance) - alpha_total - 1, 0.0), float(n))
    wrapped = [(tally.protocol, tally.protocol.noncompliance()) for tally in collection.tallies]
    epsilon = max((protocol if other is None else other.compliers).epsilon for protocol, other in wrapped)
    worth = f"{direct_answers:,.0f} direct answers" if direct_answers >= 1.5 else "a single direct answer at most"
    histories = all(tally.protocol.repeats() for tally in collection.tallies)
    subject = f"The reports of these {n:,} users" if histories else f"These {n:,} reports"
    sentence = f"{subject} carry as much information about P as {worth}."
    bound = float("nan")
    if not collection.weighted and 0 < epsilon < float("inf") and not unidentified and alpha_total <= direct_answers:
        least = least_variance(mean.size, min(epsilon, 50.0)) / n
        if least <= variance:
            bound = least**0.5
            sentence += (
                f" The total sd (the root of the summed variances) is {variance**0.5:.4f}; with as many reports no protocol "
                f"with ε = {epsilon:.3g} can guarantee less than {bound:.4f} for every P (large n)."
            )
    return {
        "effective_direct_answers": direct_answers,
        "total_sd": variance**0.5,
        "bound_sd": bound,
        "worth": sentence,
    }


#: Rule: A prior that is worth more than this share of what the reports say of a sum of categories is mentioned: it moves the
#: mean by a twentieth of the way to its own. With 100 answers' worth of reports at .3 and a prior's mean of .6 that is .014,
#: or .3 sd. With half a sixth of an sd would be mentioned, which nobody reads; with double .6 sd would not.
MENTIONED = 0.05


def prior_of_shares(
    collection: Collection, alpha: NDArray | None, moments: Mapping[str, tuple[float, float]]
) -> dict[str, str]:
    """Return what a Dirichlet prior says of derived shares, as an attr, where that is much beside the reports.

    A sum of categories is Beta(Σ of their α, Σ of the others') in the prior: many categories make it worth many answers, as
    none of them is. Reports are worth the m for which m(1 − m)/sd² − 1 − Σα = m.

    Parameters
    ----------
    collection : Collection
    alpha : (a,) array, optional
        Concentrations; None of any other prior.
    moments : mapping
        Name of a derived quantity → its posterior mean and sd.
    """
    alike: dict[tuple[float, float], list[tuple[str, float]]] = {}
    if alpha is None:
        return {}
    for item in collection.derived:
        inside = float(sum(alpha[collection.categories.index(label)] for label in item.of))
        rest, (mean, sd) = float(alpha.sum()) - inside, moments[item.name]
        worth = mean * (1 - mean) / max(sd, 1e-300) ** 2 - 1 - inside - rest
        if not item.given and rest > 1e-9 and inside + rest > MENTIONED * worth:
            alike.setdefault((inside, round(rest, 9)), []).append((item.name, max(worth, 0.0)))
    texts = []
    for (inside, rest), shares in alike.items():
        low, high = betaincinv(inside, rest, 0.025), betaincinv(inside, rest, 0.975)
        names, middle = listed(name for name, _ in shares), inside / (inside + rest)
        ends = dict.fromkeys(f"{choose(worth for _, worth in shares):.0f}" for choose in (min, max))
        texts.append(
            f"Before any report this prior gives {names} a mean of {middle:.3g}, and 95 % between {low:.2f} and {high:.2f}. "
            f"That is {inside + rest:g} direct answers beside the {' to '.join(ends)} that the reports are worth for such a "
            f"share; the prior 'share:{shares[0][0]}' would be flat on it."
        )
    return {"prior_of_shares": " ".join(texts)} if texts else {}
