"""The difference in means of list experiments: of each list, of all of them, and whether they agree."""

import numpy as np
from scipy.special import chdtrc

from ldpbayes.answer import Answer
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.errors import ArgumentError, DataError
from ldpbayes.presenting import recorded
from ldpbayes.protocols.designs import ListExperiment


@recorded
def difference_in_means(collection: Collection | Tally) -> Answer:
    """Return by how much more items apply on average where the sensitive one is among them, the share of its carriers.

    Unbiased for any distribution of the other items, and without a prior. Lists are pooled with the inverse of their
    covariance S, which knows of respondents who answer two. Where they agree about the share, (d − d̄)ᵀ S⁻¹ (d − d̄) is χ²
    with a degree of freedom less than there are lists.

    Parameters
    ----------
    collection : Collection
        Of one list or of several, as ``from_lists`` makes it. Direct questions are left out.

    Returns
    -------
    Answer
        Over ``list``: difference and standard_error. The attributes are question, sentence, pooled and pooled_error; of
        several lists statistic, df and p_value.

    Raises
    ------
    ArgumentError
        On sampling weights, and on what is no list experiment, or one without control or treatment.

    Examples
    --------
    >>> from ldpbayes.protocols import ListExperiment
    >>> race = Collection.from_lists(ListExperiment(3), [8, 132, 222, 227], [19, 123, 229, 219, 34])
    >>> difference_in_means(race).sentence
    'The difference in means is 0.068, with a standard error of 0.050.'
    """
    data = as_collection(collection)
    items = {ListExperiment.items_of(tally.protocol) for tally in data.tallies}
    sizes = next(iter(items))
    if len(items) > 1 or sizes is None or data.weighted:
        raise ArgumentError("A difference in means needs the groups of one list experiment, without sampling weights.")
    moments = [_moments(tally, len(sizes)) for tally in data.tallies]
    groups = [group for group in moments if group is not None]
    users = sum((n * signs for n, signs, _, _ in groups), np.zeros((2, len(sizes))))
    if (users == 0).any():
        raise ArgumentError("A difference in means needs a control group and a treatment group of every list.")
    difference, covariance = np.zeros(len(sizes)), np.zeros((len(sizes), len(sizes)))
    for n, signs, mean, spread in groups:
        share = (signs[1] / users[1] - signs[0] / users[0]) * n
        difference += share * mean
        covariance += share[:, None] * spread * share / n
    try:
        inverse = np.linalg.inv(covariance)
    except np.linalg.LinAlgError:
        raise DataError("a difference in means needs answers that differ within the groups") from None
    weight = inverse.sum(axis=0) / inverse.sum()
    pooled, error = float(weight @ difference), float(inverse.sum() ** -0.5)
    attrs = {"question": "difference in means", "pooled": pooled, "pooled_error": error}
    sentence = f"The difference in means is {pooled:.3f}, with a standard error of {error:.3f}."
    if len(sizes) > 1:
        statistic, df = float((difference - pooled) @ inverse @ (difference - pooled)), len(sizes) - 1
        attrs |= {"statistic": statistic, "df": df, "p_value": float(chdtrc(df, statistic))}
        texts = ", ".join(f"{value:.3f}" for value in difference)
        sentence = f"{sentence} By list it is {texts}, and the test that they agree has p = {attrs['p_value']:.3f}."
    variables = {"difference": ("list", difference), "standard_error": ("list", np.sqrt(np.diag(covariance)))}
    return Answer(variables, {"list": list(range(1, len(sizes) + 1))}, attrs | {"sentence": sentence})


def _moments(tally, n_lists):
    """Return (respondents, which lists they answer without and with the sensitive item, means and covariance by list).

    None of those who were asked directly.
    """
    protocol, n = tally.protocol, tally.n_reports
    if protocol.settings["group"] == "direct":
        return None
    columns = np.stack(protocol.report_columns(tally.reports, ()), axis=1).astype(float)
    on = protocol.settings.get("on", 1) - 1
    answered = [on] if columns.shape[1] == 1 else list(range(n_lists))
    signs, mean, spread = np.zeros((2, n_lists)), np.zeros(n_lists), np.zeros((n_lists, n_lists))
    signs[0, answered] = 1
    if protocol.settings["group"] != "control":
        signs[:, on] = 0, 1
    mean[answered] = tally.counts @ columns / n
    away = columns - mean[answered]
    spread[np.ix_(answered, answered)] = (away.T * tally.counts) @ away / max(n - 1, 1)
    return n, signs, mean, spread


__all__ = ["difference_in_means"]
