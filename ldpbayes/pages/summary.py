"""The first sentences of a page: what was found, in words that need no statistics."""

import math

import numpy as np

from ldpbayes.pages.prose import number_of
from ldpbayes.plots.groups import group_names

#: Categories and derived quantities that a summary names.
NAMED = 3


def summary_of_fit(result) -> str:
    """Return the answer of a result of fit(): the shares, or the range of one share over the groups.

    Parameters
    ----------
    result : DataTree

    Returns
    -------
    str
    """
    summary = result["summary"].to_dataset()
    start = f"From {number_of(int(result.attrs['n_reports']), 'report')}"
    text = _groups(summary, start) if "cell" in summary.dims else _shares(summary, start)
    if result.attrs.get("converged", 1):
        return text
    return f"{text} The computation did not pass its own checks, so these numbers are not final."


def _shares(summary, start):
    """Return the largest shares of people and the derived quantities with their intervals."""
    level = f"{summary.attrs['ci_prob'] * 100:g} % interval "
    p = summary.sel(target="distribution")
    labels, mean, sd, low, high = (p[key].values for key in ("category", "mean", "sd", "lower", "upper"))
    first = [1] if labels.size == 2 else np.argsort(-mean, kind="stable")[:NAMED]
    shares = [
        f"{_percent(mean[x], sd[x])} for {labels[x]} ({level if i == 0 else ''}{_between(low[x], high[x], sd[x])})"
        for i, x in enumerate(first)
    ]
    if labels.size == 2:
        text = f"{start}, an estimated {shares[0].replace(' for ', ' of people are in the category ', 1)}."
    else:
        which = f"the largest of {labels.size:,} shares" if labels.size > len(first) else "the shares"
        text = f"{start}, {which} of people are estimated as {_listed(shares)}."
    if "quantity" in summary.coords:
        names, mean, sd, low, high = (
            summary[key].values[:NAMED]
            for key in ("quantity", "derived_mean", "derived_sd", "derived_lower", "derived_upper")
        )
        known = [
            f"{name} is {_percent(mean[i], sd[i])} ({_between(low[i], high[i], sd[i])})"
            for i, name in enumerate(names)
            if 0 <= mean[i] <= 1
        ]
        text += f" Of the derived quantities, {_listed(known)}." if known else ""
    return text


def _groups(summary, start):
    """Return the range over the groups of the share that is largest on average, or of the second of two."""
    p = summary.sel(target="distribution")
    labels, cells = p["category"].values, group_names(summary)
    mean, sd, low, high = (p[key].transpose("cell", "category").values for key in ("mean", "sd", "lower", "upper"))
    x = 1 if labels.size == 2 else int(np.argmax(mean.mean(axis=0)))
    level = f"{summary.attrs['ci_prob'] * 100:g} % interval "
    ends = [
        f"{_percent(mean[c, x], sd[c, x])} in {cells[c]} ({words}{_between(low[c, x], high[c, x], sd[c, x])})"
        for c, words in ((int(np.argmin(mean[:, x])), level), (int(np.argmax(mean[:, x])), ""))
    ]
    return f"{start} in {len(cells):,} groups, the share of {labels[x]} is estimated between {ends[0]} and {ends[1]}."


def _between(low, high, sd):
    return f"{_percent(low, sd)} to {_percent(high, sd)}"


def _percent(value, sd):
    """Return a share in per cent, with as many decimals as its standard deviation allows."""
    decimals = min(max(math.ceil(-math.log10(20 * sd)), 0), 6) if 0 < sd < 1 else 1
    return f"{100 * value:.{decimals}f} %"


def _listed(texts):
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
