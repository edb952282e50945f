"""Odds ratios of any result that has them; rooms say how, each of its own results."""

from typing import Any

import xarray as xr

from ldpbayes import rooms
from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.result.facts import facts_of


@base.asks
def odds_ratio(
    result: xr.DataTree | Answer,
    first: str | None = None,
    second: str | None = None,
    *,
    kind: str = "local",
    target: str = "distribution",
    ci_prob: float = 0.95,
) -> Answer:
    """Return odds ratios: of two attributes of a joint table, or the exponentials of the coefficients of a logit.

    Of two attributes they are ``p_ij p_kl / (p_il p_kj)``; with two levels each there is one. The coefficients of a
    regression give one for each term and category, against the reference category.

    Parameters
    ----------
    result : Result or Maximum
        From ``associate`` or ``regress``.
    first, second : str, optional
        Attributes of a joint table. A regression has none.
    kind : {"local", "reference", "all"}
        Levels of the attributes that are compared: neighbours, all with the first one, or all pairs.
    target : {"distribution", "frequency"}
        P, or these users' own F. A regression has P alone.
    ci_prob : float
        Of the intervals: equal-tailed, or by the normal approximation for maximum likelihood.

    Returns
    -------
    Answer
        Of attributes: median, lower and upper of the odds ratio; log_mean, log_sd and log_mcse of its logarithm;
        probability_above_one. Dims are the attributes, with labels such as "yes / no". Of F it may be 0 or infinite in some
        draws, and its logarithm has no moments then, which are nan; draws in which it is 0/0 are left out.
        Of a regression: odds_ratio (the posterior median, or the estimate), lower and upper (term, category).

    Raises
    ------
    ArgumentError
        If the result has no odds ratios, or an argument breaks its rule.
    """
    answers = rooms.brought("ODDS")
    stated = {*map(_name, type(result).__mro__), *(facts_of(result) if isinstance(result, xr.DataTree) else ())}
    answer = next((name for word, name in answers.items() if word in stated), None)
    if answer is None:
        raise ArgumentError(f"result must be what associate or regress returned, got {shown(result)}.")
    return rooms.function(answer)(result, first, second, kind=kind, target=target, ci_prob=ci_prob)


def _name(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
