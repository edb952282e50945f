"""The front door of joint tables: associate fits the table of two or more privatized attributes."""

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.errors import (
    ArgumentError,
    DataError,
    DiagnosticWarning,
    InfeasibleError,
    LDPBayesError,
    LDPBayesWarning,
    listed,
    shown,
    warn,
)
from ldpbayes.fitting import fit
from ldpbayes.methods.evidence import log_bayes_factors
from ldpbayes.methods.loglinear import evidences
from ldpbayes.presenting import recorded
from ldpbayes.priors import LogLinear, as_prior
from ldpbayes.protocols import Attributes
from ldpbayes.result import Result
from ldpbayes.result.facts import facts_of, log_evidence, state
from ldpbayes.result.fits import leaving_out
from ldpbayes.sources.door import collected, read

#: Time: Independence of pairs is tested for at most so many pairs, each with so many draws in a chain. The bank's 317
#: problems never cross it.
MAX_PAIRS, PAIR_DRAWS = 36, 500
#: Time: Predicted seconds of an evidence that the engine of a fit does not give.
PATIENCE = 5.0
#: Names that an attribute cannot have: variables of the answers' tables, whose dims are the attributes.
TAKEN = ("mean", "sd", "lower", "upper", "mcse", "median", "log_mean", "log_sd", "log_mcse", "probability_above_one")


@recorded
def associate(
    data: Any,
    reports: Mapping[str, str] | None = None,
    protocols: Mapping[str, Any] | None = None,
    *,
    categories: Mapping[str, Sequence[str]] | None = None,
    count: str | None = None,
    names: Sequence[str] | None = None,
    prior: Any = "loglinear",
    order: int | None = None,
    separator: str = "/",
    random_seed: int | None = None,
    **settings: Any,
) -> Result:
    """Fit the joint table of several private answers: from a column of reports for each, or one Collection over its cells.

    Parameters
    ----------
    data : data frame, Collection or path-like
        A frame with a column of reports for each attribute; or a collection (file) over the cells of the table, labelled
        "no/yes" and so on, in as many channels as there were forms.
    reports : mapping of str to str, optional
        Attribute → column of its reports, for a frame.
    protocols : mapping of str to protocol, optional
        Attribute → protocol of its reports, for a frame.
    categories : mapping of str to sequence of str, optional
        Attribute → its levels, for a frame, of every attribute; the reports are then read as labels.
    count : str, optional
        Column of counts of a frame.
    names : sequence of str, optional
        The attributes of a collection, in the order of its labels; by default those of its derived quantities that are
        margins, else "A", "B", ….
    prior : {"loglinear"}, or as in fit
    order : int, optional
        Most attributes that interact in the log-linear prior, 3 by default; other priors take none.
    separator : str
        Between the levels in the labels of cells.
    random_seed : int, optional
    **settings
        Of ``fit``, such as draws (1000 by default), chains, ci_prob and progressbar.

    Returns
    -------
    Result
        The result of ``fit`` over the cells, with the attributes in its attrs, for the questions of ``ldpbayes.answers``:
        joint_table, conditional, odds_ratio, cramers_v, mutual_information and independence.

    Raises
    ------
    ArgumentError
        On columns, protocols or labels that do not go together.
    InfeasibleError
        Where the table is too large.

    Warns
    -----
    RankDeficientWarning
        Where the reports do not identify every association.

    Examples
    --------
    >>> import pyarrow
    >>> import ldpbayes as lb
    >>> from ldpbayes.protocols.designs import warner
    >>> table = pyarrow.table({"q1": ["no", "no", "yes", "yes"], "q2": ["no", "yes", "no", "yes"], "n": [400, 90, 110, 150]})
    >>> asked = {"doping": "q1", "advice": "q2"}
    >>> design = {"doping": warner(0.8), "advice": warner(0.8)}
    >>> levels = {"doping": ["no", "yes"], "advice": ["no", "yes"]}
    >>> found = lb.associate(table, asked, design, categories=levels, count="n", random_seed=1)
    >>> lb.answers.independence(found, "doping", "advice")["probability"].item() < 0.01
    True
    >>> lb.answers.conditional(found, "doping", given="advice")["mean"].dims
    ('advice', 'doping')
    """
    random_seed = checks.seed(random_seed)
    checks.text(separator, "separator", empty=False)
    if reports is None:
        collection = as_collection(_in_file(data) if isinstance(data, (str, os.PathLike)) else data)
        if protocols is not None or categories is not None or count is not None:
            raise ArgumentError("reports must name the columns of a frame; a collection has its protocols and labels.")
        attributes = attributes_in(collection, names, separator)
    else:
        if names is not None:
            raise ArgumentError("names must be left out with a frame: reports names the attributes.")
        collection, attributes = _from_frame(data, reports, protocols, categories, count, separator)
    sizes = tuple(map(len, attributes.values()))
    loglinear = isinstance(prior, str) and prior == "loglinear"
    if order is not None and not loglinear:
        raise ArgumentError(f'order must be left out: it belongs to prior="loglinear", and prior is {shown(prior)}.')
    belief = LogLinear(sizes, order=3 if order is None else order) if loglinear else prior
    _check_sizes(belief, sizes)
    tree = fit(collection, belief, random_seed=random_seed, **({"draws": 1000} | settings))  # answers ask for draws
    state(tree, {"attributes": json.dumps([[name, list(levels)] for name, levels in attributes.items()])})
    said, factor = tree.attrs.get("left_out", ""), (math.nan, math.nan, "it is left out")
    with leaving_out(tree.attrs, "Independence of all attributes"):
        factor = _against_independence(tree, collection, attributes, belief, random_seed)
    state(
        tree,
        {
            "log_bayes_factor_independence": factor[0],
            "log_bayes_factor_independence_error": factor[1],
            "independence_reason": factor[2],
        },
    )
    if len(attributes) > 2:
        factors, why = _pairwise(tree, collection, attributes, belief if not loglinear else None, random_seed)
        state(tree, {"independence_of_pairs": json.dumps(factors), "independence_of_pairs_reason": why})
    if len(added := tree.attrs.get("left_out", "")[len(said) :].strip()):
        warn(added, DiagnosticWarning)
    return tree


def _in_file(path):
    """Return the collection of a file; one that states no protocol is a table, whose columns the caller has to name."""
    try:
        return collected(path)
    except DataError as err:
        if "protocol must be given" not in str(err):
            raise
        raise ArgumentError(
            f"reports must name the columns of a table, {{attribute: column}}, and protocols and categories how each was "
            f"asked; data alone is a collection or its file, and {shown(os.fspath(path))} states no protocol."
        ) from None


def _check_sizes(belief, sizes):
    """Refuse a log-linear prior over another table with as many cells."""
    model: Any = as_prior(belief, math.prod(sizes))
    if model.kind == "table" and model.sizes != sizes:
        got, needed = (" × ".join(map(str, shape)) for shape in (model.sizes, sizes))
        raise ArgumentError(f"prior must be over {needed} cells like the attributes, got one over {got} cells.")


def attributes_in(collection: Collection, names: Sequence[str] | None = None, separator: str = "/") -> dict:
    """Return attribute → levels of a collection over the cells of a table.

    Parameters
    ----------
    collection : Collection
    names : sequence of str, optional
    separator : str

    Returns
    -------
    dict

    Raises
    ------
    ArgumentError
        Where its labels are not all combinations of levels in order, names do not fit, or there are noncompliers.
    """
    if collection.n_laws:
        raise ArgumentError("associate takes no deniers and no noncompliance: leave them out, or fit the collection.")
    cells = [tuple(label.split(separator)) for label in collection.categories]
    d = len(cells[0])
    levels = [tuple(dict.fromkeys(cell[k] for cell in cells)) for k in range(d)] if {len(c) for c in cells} == {d} else []
    if d < 2 or not levels or cells != list(product(*levels)):
        raise ArgumentError(
            f"categories must be all combinations of the attributes' levels, such as no{separator}yes, the last attribute "
            f"fastest, got {listed(collection.categories, most=4)}."
        )
    if names is None:
        names = _derived_names(collection, levels, separator) or [chr(65 + k) if d <= 26 else f"A{k + 1}" for k in range(d)]
    names = checks.labels(names, "names", f"{d} different texts, one for each attribute")
    if len(names) != d or len(set(names)) != d or not all(names):
        raise ArgumentError(f"names must be {d} different texts, one for each attribute, got {shown(names)}.")
    _check_names(names)
    return dict(zip(names, levels, strict=True))


def _check_names(names):
    """Refuse names of attributes that the tables of answers use for their columns."""
    for name in names:
        if name in TAKEN:
            raise ArgumentError(f"names of attributes must be other than {listed(TAKEN)}, got {shown(name)}.")


def _derived_names(collection, levels, separator):
    """Return the names of derived quantities that are the share of one level of every attribute, or None."""
    names = {}
    for item in collection.derived:
        cells = {tuple(label.split(separator)) for label in item.of}
        for k, labels in enumerate(levels):
            for level in labels:
                if not item.given and cells == set(product(*levels[:k], (level,), *levels[k + 1 :])):
                    names.setdefault(k, item.name)
    return [names[k] for k in range(len(levels))] if len(names) == len(levels) else None


def _from_frame(frame, reports, protocols, categories, count, separator):
    """Return (collection, attributes) of a frame with a column for each attribute."""
    if not isinstance(reports, Mapping) or len(reports) < 2:
        raise ArgumentError(f"reports must map two or more attributes to their columns, got {shown(reports)}.")
    if not isinstance(protocols, Mapping) or set(protocols) != set(reports):
        raise ArgumentError(f"protocols must map each of {listed(reports)} to a protocol.")
    _check_names(reports)
    if categories is not None and (not isinstance(categories, Mapping) or set(categories) != set(reports)):
        raise ArgumentError(f"categories must map each of {listed(reports)} to its levels.")
    factors = [protocols[name] for name in reports]
    protocol = Attributes(tuple(factors), separator)
    levels = [
        factor.default_labels if categories is None else checks.labels(categories[name], f"categories of {name}")
        for name, factor in zip(reports, factors, strict=True)
    ]
    for name, factor, tags in zip(reports, factors, levels, strict=True):
        if len(tags) != factor.n_categories or not all(isinstance(level, str) and separator not in level for level in tags):
            raise ArgumentError(
                f"categories of {name} must be {factor.n_categories} texts without {separator!r}, got {shown(tags)}."
            )
    labels = tuple(separator.join(cell) for cell in product(*levels))
    named = labels if categories is not None else None
    tally = read(frame, protocol, report=list(reports.values()), count=count, categories=named)
    collection = Collection(labels, Tally.trusted(protocol, tally.reports, tally.counts, "all"))
    return collection, dict(zip(reports, levels, strict=True))


def split(tally: Tally) -> tuple[tuple, np.ndarray] | None:
    """Return (protocol of each attribute, (m, d) reports) of reports through a product of channels; None for others.

    Parameters
    ----------
    tally : Tally
    """
    factors = tally.protocol.attribute_factors()
    if factors is None:
        return None
    if tally.reports.ndim == 2:
        return factors, tally.reports
    spans = [factor.n_outputs for factor in factors]
    return factors, np.stack(np.unravel_index(tally.reports, spans), axis=1)


def marginal(collection: Collection, attributes: Mapping[str, Sequence[str]], chosen: Sequence[str]) -> Collection | None:
    """Return the collection of the reports on some attributes alone, or None where reports do not split by attribute.

    Parameters
    ----------
    collection : Collection
    attributes : mapping of str to levels
    chosen : sequence of str

    Returns
    -------
    Collection or None
    """
    places = [list(attributes).index(name) for name in chosen]
    tallies = []
    for tally in collection.tallies:
        pair = split(tally)
        if pair is None or len(pair[0]) != len(attributes):
            return None
        protocol = Attributes(tuple(pair[0][k] for k in places))
        tallies.append(Tally(protocol, np.ascontiguousarray(pair[1][:, places]), tally.counts, tally.name))
    return Collection(tuple("/".join(cell) for cell in product(*(attributes[name] for name in chosen))), tuple(tallies))


def _against_independence(tree, collection, attributes, belief, random_seed):
    """Return (log Bayes factor of independence, its error, why it is not known).

    Given independence the reports of the attributes are independent, and so are their margins under both priors: the
    evidence is the product of those of the attributes alone. The log-linear engine integrates it as one.
    """
    nothing = math.nan, math.nan
    model: Any = as_prior(belief, collection.n_categories)
    is_table = model.kind == "table"
    if collection.weighted:
        return *nothing, "sampling weights have no evidence"
    if collection.laws:
        return *nothing, f"{collection.doubt}, and then the reports of the attributes depend on each other"
    if is_table and model.order < 2:
        return *nothing, "the prior has no interactions: it holds all attributes to be independent"
    if not is_table:
        whole, margins = _evidence(tree, collection, belief), []
        for name in attributes:
            margin = marginal(collection, attributes, [name])
            if margin is None:
                return *nothing, "a channel is not a product over the attributes"
            if not isinstance(belief, (str, int, float)):
                return *nothing, "a prior of all cells of the table says nothing of the attributes alone"
            margins.append(_evidence(_fitted(margin, belief, random_seed), margin, belief))
        if whole is None or None in margins:
            return *nothing, f"under the prior {shown(belief)} the evidence of these reports is not known"
        error = math.hypot(whole[1], *(part[1] for part in margins))
        return sum(part[0] for part in margins) - whole[0], error, ""
    facts = facts_of(tree)
    if "log_evidence_independence" not in facts:  # another engine made the draws
        size = tree["posterior"].sizes["chain"] * tree["posterior"].sizes["draw"]
        try:
            facts = evidences(model, collection.rows, size, np.random.default_rng(random_seed))
        except InfeasibleError as err:
            return *nothing, str(err)
    error = math.hypot(facts["log_evidence_error"], facts["log_evidence_independence_error"])
    return float(facts["log_evidence_independence"] - facts["log_evidence"]), error, ""


def _fitted(collection, prior, random_seed):
    """Return a short fit of some of the attributes, without the warnings that the fit of all of them gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LDPBayesWarning)
        return fit(collection, prior, draws=PAIR_DRAWS, random_seed=random_seed, estimates=False)


def _evidence(tree, collection, belief):
    """Return (log-evidence, its error) of a result, else by the expansion of its reports; None where neither has it."""
    evidence = log_evidence(tree)
    if evidence is None:
        factors = log_bayes_factors(collection, belief, limit=PATIENCE)
        name = factors.used
        known = name in factors.log_evidence
        evidence = (factors.log_evidence[name], factors.error[name]) if known else None
    return evidence


def _pairwise(tree, collection, attributes, belief, random_seed):
    """Return [first, second, [log Bayes factor of independence, error]] of all pairs by their own reports; or why none.

    A pair that cannot be served is left out by name.
    """
    pairs = list(combinations(attributes, 2))
    if len(pairs) > MAX_PAIRS:
        return [], f"more than {MAX_PAIRS} pairs are not tested"
    if collection.weighted:
        return [], "sampling weights have no evidence"
    out, why = [], ""
    for pair in pairs:
        margin = marginal(collection, attributes, pair)
        if margin is None:
            return [], "a channel is not a product over the attributes"
        sizes = tuple(len(attributes[name]) for name in pair)
        try:
            with leaving_out(tree.attrs, f"Independence of {pair[0]} and {pair[1]}"):
                prior = LogLinear(sizes) if belief is None else belief
                two, fitted = {name: attributes[name] for name in pair}, _fitted(margin, prior, random_seed)
                *factor, reason = _against_independence(fitted, margin, two, prior, random_seed)
                why = why or reason
                out.append([*pair, factor])
        except LDPBayesError as err:  # a prior over the whole table, such as one concentration for each cell
            return [], f"the prior does not serve a pair of attributes: {err}"
    return out, why
