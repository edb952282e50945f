"""What the answers share: the draws of a result, the positions of labels, Monte Carlo errors and the summary of a number."""

import functools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.arguments import REFUSES, explained
from ldpbayes.collections import Collection, Tally
from ldpbayes.collections.cells import as_collection
from ldpbayes.constants import GOLDEN
from ldpbayes.errors import ArgumentError, DiagnosticWarning, InfeasibleError, listed, shown, warn
from ldpbayes.estimators.confidence import combined_interval
from ldpbayes.inference.diagnostics import mcse_of_mean
from ldpbayes.inference.ends import beta_ends, ends_of_draws, ends_of_equal_draws, tails
from ldpbayes.presenting import recorded
from ldpbayes.result.facts import facts_of
from ldpbayes.result.validation import NO_DRAWS, need_draws, need_result

#: Mathematics: Points of a lattice in two dimensions.
LATTICE = 2**13

TARGETS = ("distribution", "frequency")
#: A conclusion about shares of categories, and the number that it may end with.
_CONCLUSION = re.compile(r"(.+?)\s*([<>])=?\s*(.+?)\s*")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+\s*%?")
#: What questions take.
WORDS = {
    "result": "result : DataTree\n    A result of fit, or another that answers the question.",
    "categories": "categories : str or sequence of str\n    Distinct labels, whose shares are added up.",
    "ci_prob": "ci_prob : float\n    Probability of the equal-tailed intervals.",
    "target": 'target : {"distribution", "frequency"}\n    P, or these users\' own F.',
    "cell": "cell : str or tuple of str, optional\n    Which cell, by its label or its key, for a result with cells.",
    "collection": """collection : Collection or Tally, optional
    The reports: a confidence interval of P, from these alone, stands beside the credible one.""",
}
#: What they return unless they say more.
ANSWER = REFUSES | {"Returns": "Answer\n    mean, sd, lower, upper and their errors mcse, lower_error and upper_error."}
#: Decorates what questions share.
part = explained(WORDS)


def asking[F: Callable](words: Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator of questions: it completes the docstring, and the answer says of what it is and how it was asked.

    Attributes are ``n_reports``, ``source`` (design and model in words) and ``random_seed`` of its results, ``call``, and
    ``doubt`` where a result is not final.

    Parameters
    ----------
    words : mapping of str to str
        As for ``explained``.
    """

    def decorate(function: F) -> F:
        question = recorded(function)

        @explained(words, ANSWER)
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = question(*args, **kwargs)
            trees = [value for value in (*args, *kwargs.values()) if isinstance(value, xr.DataTree | xr.Dataset)]
            about = _about([tree for tree in trees if "n_reports" in tree.attrs])
            if "doubt" in about and "sentence" in answer.attrs:
                about["sentence"] = f"{answer.attrs['sentence']} {about['doubt']}"
            return answer.assign_attrs(about)

        return cast(F, call)

    return decorate


def _about(results: Sequence[Any]) -> dict[str, Any]:
    """Return what an answer states of the results that it came from."""
    attrs = [facts_of(result) for result in results]
    if not attrs:
        return {}
    seeds = "; ".join(dict.fromkeys(str(one["random_seed"]) for one in attrs if "random_seed" in one))
    users = sum(int(one["n_reports"]) for one in attrs)
    sources = dict.fromkeys(str(one.get("source") or source_of(one)) for one in attrs)
    doubts = [doubt for result in results if (doubt := result.attrs.get("doubt") or doubt_of(result))]
    about = {"n_reports": users, "source": " and ".join(sources)} | ({"random_seed": seeds} if seeds else {})
    return about | ({"doubt": " ".join(dict.fromkeys(doubts))} if doubts else {})


def doubt_of(result: Any) -> str:
    """Return why what is said of a result is not final, as a sentence; empty where nothing is against it."""
    if not result.attrs.get("converged", 1):
        return "The computation failed its own checks, so this is not final."
    if not result.attrs.get("fitness_flagged", 0):
        return ""
    of = " of some cells" if "cells" in result.children else ""
    return f"The reports{of} contradict the design, so this is not final."


def source_of(attrs: Mapping[str, Any]) -> str:
    """Return reports, design and model of a result in words."""
    reports, n = attrs.get("mechanisms") or "of which only a summary is known", f"{int(attrs['n_reports']):,} "
    design = reports if reports.startswith(n) else f"{n}reports ({reports})"
    formula = f", by the regression {attrs['formula']}" if "formula" in attrs else ""
    return f"{design}{formula}, {f'under the prior {attrs["prior"]}' if 'prior' in attrs else 'by maximum likelihood'}"


asks = asking(WORDS)


def as_result(result: Any) -> Any:
    """Return an answer with draws, such as that of ``poststratify``, as a result whose cells are its groups."""
    if not isinstance(result, Answer) or "draws" not in result.data_vars:
        return result
    draws = result["draws"]
    cells = draws.rename({"group": "cell"}) if "group" in draws.dims else draws
    posterior = xr.Dataset({"distribution": cells.drop_attrs()})
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=draws.attrs), "posterior": posterior})


@part
def cell_position(result: xr.DataTree, cell: str | tuple[str, ...] | None) -> int | None:
    """Return the position of a cell along the dim ``cell``; None for a result without cells.

    Parameters
    ----------
    cell : str or tuple of str, optional
        Label of the cell, or its key with one entry for each key column.

    Returns
    -------
    int or None

    Raises
    ------
    ArgumentError
        If the result has cells and none of them is named, if the name is unknown, or if there are no cells.
    """
    result = as_result(result)
    need_result(result)
    values = result["posterior"].to_dataset()
    if "cell" not in values.dims:
        if cell is not None:
            raise ArgumentError(f"cell must be left out for the result of a single collection, got {shown(cell)}.")
        return None
    labels = [str(label) for label in values["cell"].values]
    named = "; ".join(labels[:6]) + ("; …" if len(labels) > 6 else "")
    if cell is None:
        raise ArgumentError(f"cell must name one of the {len(labels)} cells ({named}), got none.")
    if isinstance(cell, tuple):
        keyed = result["constant_data"].to_dataset() if "constant_data" in result.children else values
        columns = keys_of(keyed) or ["cell"]
        keys = list(zip(*([str(entry) for entry in keyed[c].values] for c in columns), strict=True))
        words = tuple(entry if isinstance(entry, str) else shown(entry) for entry in cell)
        if keys.count(words) == 1:
            return keys.index(words)
    elif isinstance(cell, str | numbers.Number | date | np.generic) and str(cell) in labels:
        return labels.index(str(cell))
    raise ArgumentError(f"cell must be one of {named}, got {shown(cell)}.")


def keys_of(values: Any) -> list[str]:
    """Return the names of the grouping columns of a group of a result, which the labels of its cells list the values of."""
    return [str(name) for name, column in values.coords.items() if name != "cell" and column.dims == ("cell",)]


@part
def draws_of(result: xr.DataTree, target: str, cell: str | tuple[str, ...] | None = None) -> tuple[NDArray, NDArray]:
    """Return (draws, shape (chains · draws, a), chains in order; category labels, shape (a,)).

    Returns
    -------
    tuple of two arrays

    Raises
    ------
    ArgumentError
        As cell_position, and on an unknown target or one that the result lacks.
    """
    values = of_cell(result, values_of(result, target), cell).transpose("chain", "draw", "category")
    return values.values.reshape(-1, values.sizes["category"]), values["category"].values


def values_of(result: xr.DataTree, target: str) -> xr.DataArray:
    """Return the draws of a target, of all cells where the result has cells; or refuse one that the result lacks."""
    checks.choice(target, "target", TARGETS)
    result = as_result(result)
    need_draws(result)
    if target not in result["posterior"]:
        raise ArgumentError("target must be 'distribution': this result has no frequencies.")
    return result.children["posterior"].dataset[target]


def of_cell(result: xr.DataTree, values: Any, cell: str | tuple[str, ...] | None) -> Any:
    """Return what arrays hold of one cell of a result, where the result has cells and they have that dim."""
    position = cell_position(result, cell)
    return values.isel(cell=position) if position is not None and "cell" in values.dims else values


@part
def exact_part(result: xr.DataTree, name: str, cell: str | tuple[str, ...] | None = None) -> NDArray | None:
    """Return a variable of the group ``exact`` for one cell, or None if the method does not know it exactly.

    Parameters
    ----------
    name : str
        A variable of the group ``exact``.

    Returns
    -------
    array or None

    Raises
    ------
    ArgumentError
        As cell_position.
    """
    if "exact" not in result.children or name not in result["exact"]:
        return None
    part = of_cell(result, result.children["exact"].dataset[name], cell).values
    return part if np.isfinite(part).all() else None


def one_channel(collection: Collection, channel: str | None) -> Tally:
    """Return the tally of the channel that is named, or of the only one."""
    names = [tally.name for tally in collection.tallies]
    if channel is None and len(names) > 1:
        raise ArgumentError(f"channel must name one of {listed(names)}.")
    return collection.tallies[0 if channel is None else names.index(checks.choice(channel, "channel", tuple(names)))]


def conclusion(
    asked: str | Iterable[str], known: tuple[str, ...], name: str
) -> tuple[tuple[str, ...], str, float | str | None]:
    """Return (categories, whose shares are added up; ">" or "<"; what they are compared with) of a question.

    Parameters
    ----------
    asked : str or sequence of str
        A category, several, or a conclusion such as "yes > 0.2", "often + always < 10 %" or "apples > pears".
    known : tuple of str
        The categories.
    name : str
        Of the argument, for errors.

    Returns
    -------
    tuple
        The last entry is a threshold, a category, or None where nothing is concluded.

    Raises
    ------
    ArgumentError
        On categories that are unknown or named twice, and on what is neither a share nor a category.
    """
    sign, right = ">", None
    if isinstance(asked, str):
        match = None if asked in known else _CONCLUSION.fullmatch(asked)
        text, sign, right = (asked, ">", None) if match is None else match.groups()
        labels = (text,) if text in known else tuple(part.strip() for part in text.split("+"))
    else:
        labels = tuple(checks.labels(asked, name, "a text or a list of categories"))
    named = (*labels, right) if right in known else labels
    if not labels or len({*named} & {*known}) < len(named):
        raise ArgumentError(f"{name} must hold categories, each once ({listed(known)}), got {shown(asked)}.")
    if right is None or right in known:
        return labels, sign, right
    if not _NUMBER.fullmatch(right):
        such = f"'{known[0]} > 0.2' or '{known[0]} > {known[1]}'"
        raise ArgumentError(f"{name} must be categories, or a conclusion such as {such}, got {shown(asked)}.")
    threshold = float(right.rstrip("% ")) / (100 if right.endswith("%") else 1)
    return labels, sign, checks.probability(threshold, "the threshold of a conclusion")


def words(categories: str | Iterable[str]) -> str:
    """Return a label, or several as a sum, for a question."""
    return categories if isinstance(categories, str) else " + ".join(map(str, categories))


def named(text: str, result: xr.DataTree, cell: str | tuple[str, ...] | None) -> str:
    """Return what was asked with the cell that it is about, where the result has cells: "home in NL, 2026-11-01"."""
    position = cell_position(result, cell)
    return text if position is None else f"{text} in {as_result(result)['posterior']['cell'].values[position]}"


def of_each(texts: Sequence[str], results: Sequence[xr.DataTree]) -> list[str]:
    """Return what was asked of each of two results with the name by which their collections differ: "home in day 2"."""
    trees = [as_result(result) for result in results]
    pairs = [[str(tree.attrs.get(key, "")) for tree in trees] for key in ("collection", "title")]
    names = next((pair for pair in pairs if all(pair) and pair[0] != pair[1]), ["the first result", "the second result"])
    words = ["of" if "cell" in tree["posterior"].dims else "in" for tree in trees]
    return [" ".join(parts) for parts in zip(texts, words, names, strict=True)]


def interval_text(answer: xr.Dataset, turned: bool = False) -> str:
    """Return the interval of an answer that is one number, or of minus it: "95 % interval 0.136 to 0.167"."""
    level, lower, upper = answer.attrs["ci_prob"] * 100, float(answer["lower"]), float(answer["upper"])
    lower, upper = (-upper, -lower) if turned else (lower, upper)
    return f"{level:g} % interval {lower:.3f} to {upper:.3f}"


def probability_text(probability: float, n: int) -> str:
    """Return a probability that a share of n draws estimates; one that no draw contradicts is above 1 − 1/n.

    Without draws (n = 0) one that rounds to 1 is above 0.9995.
    """
    least = 1 - 1 / n if n else 0.9995
    return f"above {least:.4g}" if probability >= (1 if n else least) else f"{probability:.3g}"


def positions(categories: str | Iterable[str], known: NDArray, name: str = "categories") -> list[int]:
    """Return the positions of one label or of several distinct labels.

    Parameters
    ----------
    categories : str or iterable of str
    known : (a,) array of str
    name : str
        Of the argument, for the error.

    Returns
    -------
    list of int

    Raises
    ------
    ArgumentError
        If a label is unknown, repeated or not a string, or if there is none.
    """
    if isinstance(categories, str):
        labels = [categories]
    else:
        labels = list(checks.entries(categories, name, "a label or a sequence of labels", ordered=False))
    if not labels:
        raise ArgumentError(f"{name} must name at least one category, got none.")
    index = {str(label): x for x, label in enumerate(known)}
    for label in labels:
        if not isinstance(label, str) or label not in index:
            raise ArgumentError(f"{name} must be among the labels of the collection, got {shown(label)}.")
    if len(set(labels)) != len(labels):
        raise ArgumentError(f"{name} must name each category once, got {', '.join(map(repr, labels))}.")
    return [index[label] for label in labels]


def confidence_of(
    collection: Collection | Tally | None,
    first: str | Iterable[str],
    second: str | Iterable[str],
    ci_prob: float,
    target: str,
) -> dict[str, NDArray]:
    """Return confidence_lower and confidence_upper of a sum of shares less another; nothing without a collection.

    Raises
    ------
    ArgumentError
        If a label is unknown, the sums share one, or F is asked about.
    InfeasibleError
        Where a channel has no unbiased estimate.
    """
    if collection is None:
        return {}
    collection = as_collection(collection)
    if target != "distribution" or collection.laws:
        raise ArgumentError("collection must be left out for F, and where respondents may ignore the device.")
    labels = np.array(collection.categories)
    chosen, minus = positions(first, labels, "first"), positions(second, labels, "second") if second else []
    if set(chosen) & set(minus):
        raise ArgumentError("first and second must share no category for a confidence interval of their difference.")
    interval = combined_interval(collection, chosen, minus, ci_prob)
    if interval is None:
        raise InfeasibleError("These channels have no unbiased estimate, from which a confidence interval could be made.")
    return {"confidence_lower": np.array(interval.lower), "confidence_upper": np.array(interval.upper)}


def mcse(result: xr.DataTree, draws: NDArray) -> NDArray:
    """Return the Monte Carlo standard errors of the means of (draws, …) arrays, in the order of the result's draws."""
    result = as_result(result)
    independent, chains = facts_of(result).get("sampling") == "independent", result["posterior"].sizes["chain"]
    error = mcse_of_mean(draws.reshape(chains, len(draws) // chains, -1), independent=independent)
    share = float(np.min(facts_of(result).get("effective_draws", len(draws)))) / len(
        draws
    )  # of one, where weights resampled
    return error.reshape(draws.shape[1:]) / np.sqrt(min(share, 1.0))


@part
def described(
    result: xr.DataTree, draws: NDArray, coords: Mapping[str, Any], ci_prob: float, question: str, **more: NDArray | float
) -> Answer:
    """Return mean, sd and the ends of the equal-tailed interval of draws, each but the sd with its Monte Carlo error.

    Parameters
    ----------
    draws : (n, …) array
        Of some quantities, in the order of the result's draws; some of them at equal steps will do.
    coords : mapping of str to sequence
        Labels of the quantities along each dim.
    question : str
        What was asked, in words.
    **more : array
        Further variables over the dims, or others in place of these.

    Returns
    -------
    Answer
        Variables mean, sd, lower, upper, mcse, lower_error, upper_error and those of ``more``.

    Raises
    ------
    ArgumentError
        If ci_prob is not between 0 and 1.
    """
    ci_prob = checks.level(ci_prob)
    found: dict[str, Any] = {"mean": draws.mean(axis=0), "sd": draws.std(axis=0, ddof=1)}
    found["mcse"] = np.asarray(more["mcse"] if "mcse" in more else mcse(result, draws))
    # As many draws as the mean is worth; what does not vary is known.
    worth = np.divide(
        found["sd"], found["mcse"], out=np.full(found["sd"].shape, np.sqrt(len(draws))), where=found["mcse"] > 0
    )
    ends = ends_of_draws(draws.reshape(len(draws), -1), ci_prob, np.ravel(worth) ** 2)
    names = "lower", "upper", "lower_error", "upper_error"
    found |= {name: end.reshape(draws.shape[1:]) for name, end in zip(names, ends, strict=True)} | more
    dims = tuple(coords)
    data = {name: (dims, values) for name, values in found.items()}
    return Answer(data, dict(coords), {"question": question, "ci_prob": ci_prob})


def by_category(labels: NDArray, question: str, values: Mapping[str, NDArray], **about: Any) -> Answer:
    """Return the answer of some numbers of each category."""
    data = {name: (("category",), array) for name, array in values.items()}
    return Answer(data, {"category": labels}, {"question": question} | about)


def without_draws(result: xr.DataTree) -> bool:
    """Return whether a result has moments and intervals, and no draws."""
    result = as_result(result)
    need_result(result)
    return result.attrs.get("draws") == NO_DRAWS


def warn_of_clusters(result: xr.DataTree) -> dict[str, str]:
    """Return the attr of a sum or a difference of cells that have clusters in common, and warn of it."""
    said = facts_of(result).get("clusters")
    if said:
        warn(said, DiagnosticWarning)
    return {"clusters": said} if said else {}


@part
def need_apart(result: xr.DataTree) -> None:
    """Refuse, of a result without draws, cells that are linked by a prior over all of them, or one that learns for all."""
    result = as_result(result)
    if "cells" not in result.children or "method" not in result["cells"] or "parameter_mean" in result["summary"]:
        need_draws(result)


@part
def moments_of(
    result: xr.DataTree, categories: str | Iterable[str], minus: str | Iterable[str] | None, target: str, cell: Any
) -> tuple[NDArray, NDArray, float]:
    """Return means and covariance of the shares of A and B, and by how many sds an end of a beta law for one may be off.

    That is the largest distance, in sds, between an exact end of a category's share and that of the beta law with its mean
    and sd: sums are nearer to such a law than their terms. Of draws their mean and covariance, and no such error.

    Parameters
    ----------
    categories : str or sequence of str
        A.
    minus : str or sequence of str, optional
        B.

    Raises
    ------
    ArgumentError
        Where the result has neither draws nor covariances, and on categories and cells as elsewhere.
    """
    terms = [categories] if minus is None else [categories, minus]
    cov = exact_part(result, "distribution_cov", cell) if target == "distribution" else None
    if cov is None or not without_draws(result):
        draws, labels = draws_of(result, target, cell)
        shares = np.stack([draws[:, positions(term, labels)].sum(axis=1) for term in terms])
        return shares.mean(axis=1), np.atleast_2d(np.cov(shares)), 0.0
    summary_of_p = summary(result, cell).sel(target="distribution")
    weights = np.zeros((len(terms), summary_of_p.sizes["category"]))
    for row, term in zip(weights, terms, strict=True):
        row[positions(term, summary_of_p["category"].values)] = 1.0
    off = beta_errors(summary_of_p, result["summary"].attrs["ci_prob"])
    return weights @ summary_of_p["mean"].values, weights @ cov @ weights.T, float(off[weights.any(axis=0)].max())


def beta_errors(held: xr.Dataset, ci_prob: float) -> NDArray:
    """Return by how many sds the ends of intervals may be away from those of beta laws with the means and sds.

    Parameters
    ----------
    held : Dataset
        A summary of one target.
    ci_prob : float
        Of its intervals.
    """
    mean, sd, *ends = (held[name].values for name in ("mean", "sd", "lower", "upper"))
    errors = np.nan_to_num([held[f"{name}_error"].values for name in ("lower", "upper")])
    away = (np.abs(np.array(ends) - beta_ends(mean, sd, tails(ci_prob))) + errors).max(axis=0)
    return np.divide(away, sd, out=np.zeros_like(away), where=sd > 0)


@part
def of_moments(mean: NDArray, cov: NDArray, off: float, ci_prob: float, question: str, **more: Any) -> Answer:
    """Return the answer of ``described`` about a share, or about one share less another, from their moments.

    A share has the beta law with its mean and sd. Of two, the laws are joined by a normal copula with their correlation, and
    the difference is moved to its mean and sd; how far the ends of the beta law on (−1, 1) are away is part of their error.

    Parameters
    ----------
    mean, cov, off
        From ``moments_of``: of one share or of two.
    question : str
    **more : array
        Further variables.
    """
    levels = tails(checks.level(ci_prob))
    sds = np.sqrt(np.maximum(np.diag(cov), 0.0))
    if mean.size == 1:
        values = of_beta(mean[0], sds[0], off, ci_prob)
    else:
        sign = np.array([1.0, -1.0])
        centre, sd = float(sign @ mean), math.sqrt(max(float(sign @ cov @ sign), 0.0))
        both = float(sds.prod())
        rho = min(max(float(cov[0, 1]) / both, -1.0), 1.0) if both else 0.0
        lattice = (np.arange(LATTICE) + 0.5) / LATTICE, np.arange(1, LATTICE + 1) * GOLDEN % 1
        first, second = ndtri(lattice[0]), ndtri(lattice[1])
        normal = first, rho * first + math.sqrt(1 - rho**2) * second
        delta = np.subtract(*(beta_ends(m, s, (ndtr(z),))[0] for m, s, z in zip(mean, sds, normal, strict=True)))
        spread = float(delta.std())
        delta = np.clip(centre + (delta - delta.mean()) * (sd / spread if spread else 0.0), -1.0, 1.0)
        simple = np.array(beta_ends((centre + 1) / 2, sd / 2, levels)) * 2 - 1
        lower, upper = ends_of_equal_draws(delta, ci_prob)
        errors = np.abs(simple - [lower, upper]) + off * sd
        chances = [float((delta + way * off * sd > 0).mean()) for way in (-1, 0, 1)]
        more |= {"probability_positive": chances[1], "probability_mcse": (chances[2] - chances[0]) / 2}
        values = {"mean": centre, "sd": sd, "mcse": 0.0, "lower": lower, "upper": upper}
        values |= {"lower_error": errors[0], "upper_error": errors[1]}
    return Answer(values | more, None, {"question": question, "ci_prob": ci_prob})


def of_beta(mean: Any, sd: Any, off: Any, ci_prob: float) -> dict[str, Any]:
    """Return the numbers of ``described`` of shares that have beta laws, whose ends may be off by so many sds."""
    lower, upper = beta_ends(mean, sd, tails(ci_prob))
    error = off * sd
    values = {"mean": mean, "sd": sd, "mcse": 0.0 * sd, "lower": lower, "upper": upper}
    return values | {"lower_error": error, "upper_error": error}


def summary(result: xr.DataTree, cell: str | tuple[str, ...] | None = None) -> xr.Dataset:
    """Return the group ``summary``, of one cell where the result has cells."""
    need_result(result)
    return of_cell(result, result["summary"].to_dataset(), cell)


def prior_weight(result: xr.DataTree, cell: str | tuple[str, ...] | None = None) -> float:
    """Return the weight of the prior in direct answers: Σα of a Dirichlet.

    Raises
    ------
    ArgumentError
        If the prior has no such weight.
    """
    need_result(result)
    if "alpha" in result["constant_data"]:  # also in results of version 0.1.0, which hold nothing else
        return float(of_cell(result, result.children["constant_data"].dataset["alpha"], cell).sum())
    weight = float(np.ravel(facts_of(result).get("prior_weight", np.nan))[0])
    if not np.isfinite(weight):
        raise ArgumentError(f"This answer needs a Dirichlet prior, got {result.attrs.get('prior', 'another prior')}.")
    return weight


def n_reports(result: xr.DataTree, cell: str | tuple[str, ...] | None = None) -> float:
    """Return the number of reports, of one cell where the result has cells."""
    position = cell_position(result, cell)
    if position is None:
        return float(result.attrs["n_reports"])
    return float(result.children["constant_data"].dataset["n_reports"].values[position])
