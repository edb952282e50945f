"""The page of a fit."""

import functools
import math
import sys
from dataclasses import replace

import numpy as np

from ldpbayes import plots, rooms
from ldpbayes.answers.base import keys_of
from ldpbayes.answers.deciding import who_decides
from ldpbayes.collections.wrappers import WRAPPERS
from ldpbayes.estimators.confidence import intervals_at
from ldpbayes.inference.ends import level_of_largest
from ldpbayes.pages.page import DRAWN, TOP, Column, Kind, Note, Page, Table, figure_of, stated
from ldpbayes.pages.prose import as_sentences
from ldpbayes.pages.summary import summary_of_fit
from ldpbayes.pages.tables import TableRows, decimals, filled, numbers_of, of_asked, percent
from ldpbayes.plots.base import NAMES, asked, largest, title_of
from ldpbayes.plots.groups import drawn, spaced, words_of
from ldpbayes.result.facts import facts_of
from ldpbayes.result.facts import log_evidence as log_evidence_of
from ldpbayes.result.summary import unknown_arrays

#: Display: Categories of each cell that a table shows where it has no room for all: at least this many, of fewer cells.
FEWEST = 3
#: Display: Derived quantities stand before the shares where there are at least so many categories for each.
FEW = 4
#: What the columns of point estimates are.
_MEANS = {
    "mle": "Maximum-likelihood estimate: uses no prior and is a distribution.",
    "oracle": "Unbiased estimate, by inverting the channel: uses no prior and may be negative.",
}
#: Whose shares P and F are.
_WHOSE = {"P": "the population that these people were drawn from", "F": "these very people"}
_STANDARD_ERROR = "Standard error of the estimate; empty where the estimate is 0."
#: What the arrays of unknowns of our priors are, by name.
_ARRAYS = {
    "pooled": "The distribution of a typical group.",
    "effect": "How far the log of a group's share, less the mean over the categories, is from that of the typical group. "
    "With two categories it is half the difference in log odds.",
}
_DECIDED = "Whether twice the weight of its prior would move the hyperparameter, and whether the reports would move it back."
#: Keys of columns, which a grouping column of the same name must not hide.
_TAKEN = {"table", "mean", "sd", "lower", "upper", "mle", "oracle", "mle_standard_error", "oracle_standard_error"}


def of_fit(result, *, top: int = TOP, collection=None) -> Page:
    """Return the Page of a result of fit()."""
    title = title_of(result)
    summary = result["summary"]
    derived = _derived_table(result, top) if "quantity" in summary.coords else None
    parameters = _parameter_table(result, top) if "parameter" in summary.coords else None
    tables = [_category_table(result, title, top), *filter(None, (derived, parameters))]
    if derived and _derived_first(summary):
        tables[:2] = derived, tables[0]
    tables += [_unknown_table(result, name, top) for name in unknown_arrays(result["posterior"])]
    more = [rooms.function(name)(result) for name in rooms.brought("TABLES").values()]
    tables += [table for table in more if table is not None]
    return Page(
        title,
        tuple(tables),
        tuple(_notes(result)),
        tuple(_figures(result, top, collection)),
        _facts(result),
        summary_of_fit(result),
    )


def first_table(result) -> Table:
    """Return the first table of the page of a result of fit(), with all its rows."""
    if _derived_first(result["summary"]):
        return _derived_table(result, sys.maxsize)
    return _category_table(result, title_of(result), sys.maxsize)


def _derived_first(summary):
    """Return whether derived quantities stand before the shares: where they are few, they were asked for."""
    several = "quantity" in summary.coords and "cell" not in summary.sizes
    return several and FEW * summary.sizes["quantity"] <= summary.sizes["category"]


def _category_table(tree, title, top):
    data = tree["summary"].to_dataset()
    spec, total = f".{decimals(data['sd'].values)}f", data.sizes["category"]
    count = data.sizes.get("cell", 1)
    yes = asked(data["category"].values) if top < sys.maxsize else None
    each = 1 if yes is not None else total if total <= top else max(top // count, min(top, FEWEST))
    cells, phrases = min(count, max(top // each, 1)), []
    means = data["mean"].sel(target="distribution").values.reshape(-1, total)[:cells]
    shown = [largest(row, each) if yes is None else [yes] for row in means]
    if tree.attrs.get("draws") == "none":  # so many categories have no order that a reader knows
        shown = [sorted(places, key=lambda x, row=row: -row[x]) for places, row in zip(shown, means, strict=True)]
    most = len(shown[-1]) if yes is None else total
    if most < total:
        phrases = [f"the {most} largest of {total:,} categories{' of each cell' if cells == count > 1 else ''}"]
    rows = TableRows(
        data, "cell", "category", at=np.concatenate([c * total + np.asarray(row) for c, row in enumerate(shown)])
    )
    columns = [*_key_columns(rows), rows.label("category")]
    for target in _targets(tree):
        columns += _target_columns(tree, rows, target, spec, most)
    for name in _estimators(tree):
        columns += _estimator_columns(tree, rows, name, spec)
    if cells < count:
        phrases.append(f"the first{f' {cells}' if cells > 1 else ''} of {count:,} cells")
    # Without what no row has, such as the ends of F of a summary.
    empty = [column.kind != "text" and not np.isfinite(np.array(values, dtype=float)).any() for column, values in columns]
    pairs = [pair for pair, is_empty in zip(columns, empty, strict=True) if top == sys.maxsize or not is_empty]
    again = functools.partial(_category_table, tree, title)
    if not phrases and yes is None and len(pairs) == len(columns):
        return filled(title, columns, brief=again if count == 1 else None)
    verb = "is" if cells == 1 and len(phrases) == 1 and most == total else "are"
    note = f"{' of '.join(phrases).capitalize()} {verb} shown." if phrases else ""
    if most < total and any(_has_confidence(tree, target) for target in _targets(tree)):
        note += " Confidence intervals allow for the choice: they are wider than those of a category that is asked about."
    return filled(
        title, pairs, note, whole=functools.partial(again, sys.maxsize), brief=again if phrases or count == 1 else None
    )


def _target_columns(tree, rows, target, spec, top):
    """Return posterior and confidence intervals of P or of F as columns; the latter hold for so many of the largest."""
    letter, order = {"distribution": ("P", (0, 5, 0, 2)), "frequency": ("F", (6, 8, 7, 8))}[target]
    by_draws = "exact" in tree.children and f"{target}_lower" not in tree["exact"]  # beside exact moments
    means = (
        f"Posterior mean of the share among {_WHOSE[letter]}, with its sd.",
        f"Credible interval: holds this probability of the posterior.{' Its ends come from draws.' if by_draws else ''}",
    )
    settings = {"key": f"{target}_", "bar": True, "heading": f"mean of {letter}", "of": letter, "spec": spec}
    columns = rows.summary(rows.data.sel(target=target), **settings, priority=order[:3], means=means)
    if _has_confidence(tree, target):
        ci_prob = rows.data.attrs["ci_prob"]
        words, data = f"{percent(ci_prob)} confidence", tree["confidence"].to_dataset()
        full, size = f"{words} interval of {letter}", rows.data.sizes["category"]
        means = "From the reports alone: covers the true share with this probability, whichever it is."
        ends = data.sel(target=target)
        if top < size:
            means = f"From the reports alone: on average this share of the intervals of the {top} largest shown cover."
            pair = intervals_at(data, level_of_largest(ci_prob, top, size), target)
            ends = ends.assign({name: (ends[name].dims, x) for name, x in zip(("lower", "upper"), pair, strict=True)})
        column = Column(f"{target}_confidence", words, "interval", spec, order[3], full=full, means=means)
        columns.append((column, rows.pairs(ends["lower"], ends["upper"])))
    return columns


def _estimator_columns(tree, rows, name, spec, values="value", errors="standard_error"):
    """Return an estimate and, of the MLE where it is known, its standard error as columns.

    The oracle is left out first, then F, then the standard errors, the MLE and the sd of P. Of several quantities those
    that only the posterior has, such as what a prior learns, are nan.
    """
    label = NAMES.get(name, name)
    value, error = (9, 10) if name != "mle" else (3, 4)
    data = tree["estimate"].to_dataset()[[values, errors]].sel(estimator=name)
    data = data.reindex({dim: rows.data[dim] for dim in rows.sizes if dim != "cell" and dim in data.dims})
    column = Column(name, label, spec=spec, priority=value, means=_MEANS.get(name, "") if values == "value" else "")
    columns = [(column, rows.numbers(data[values]))]
    if name == "mle" and (values != "value" or bool(np.isfinite(data[errors].values).any())):
        means = _STANDARD_ERROR if values == "value" else ""
        column = Column(
            f"{name}_standard_error", "s.e.", spec=spec, priority=error, full=f"s.e. of the {label}", means=means
        )
        columns.append((column, rows.numbers(data[errors])))
    return columns


def _targets(tree):
    """Return what a table shows: P, and F unless it has no meaning under sampling weights."""
    return ("distribution",) if "pseudo" in tree.attrs else ("distribution", "frequency")


def _derived_table(tree, top):
    data = tree["summary"].to_dataset()
    spec, n = f".{decimals(data['derived_sd'].values)}f", data.sizes["quantity"]
    rows = TableRows(data, "cell", "quantity")
    columns = [*_key_columns(rows), rows.label("quantity")]
    columns += rows.summary(data, prefix="derived_", spec=spec, priority=(0, 5, 0))
    estimated = "estimate" in tree.children and "derived" in tree["estimate"]
    for name in _estimators(tree) if estimated else ():
        columns += _estimator_columns(tree, rows, name, spec, "derived", "derived_standard_error")
    # A model of one's own has other scalars beside the quantities of the collection.
    title = "Other quantities" if tree.attrs["method"] == "attached" else "Derived quantities"
    return filled(title, columns).first(max(top // n, 1) * n)


def _key_columns(rows):
    """Return one column per grouping column, in words; none for a single collection."""
    columns = []
    for name in _by(rows.data):
        column, values = rows.label(name, spaced(name), f"cell_{name}" if name in _TAKEN else name)
        columns.append((replace(column, words=words_of(rows.data[name].values.astype(str))), values))
    return columns


def _by(summary):
    """Return the names of the grouping columns, with "cell" for keys that have no name; none for a single collection."""
    keys, nameless = keys_of(summary), "cell" in summary.coords and summary["cell"].values.tolist() != ["all"]
    return keys or (["cell"] if nameless else [])  # a scan without groups has "all"


def _unknown_table(tree, name, top):
    """Return the table of an array of unknowns of the prior, such as the effects of groups; of two categories of one."""
    data = tree["summary"].to_dataset()
    dims = data[f"{name}_mean"].dims
    rows, columns = TableRows(data, *dims), []
    for dim in map(str, dims):
        columns += _key_columns(rows) if dim == "cell" else [rows.label(dim, key=f"label_{dim}" if dim in _TAKEN else dim)]
    columns += rows.summary(data, prefix=f"{name}_", priority=(0, 1, 0))
    columns += rows.diagnostics(data, f"{name}_", (3, 2))
    title = f"{name[0].upper()}{name[1:]}".replace("_", " ")
    table = filled(title, columns, _ARRAYS.get(name, ""), detail=True)
    return (of_asked(table, "category") if "category" in dims and top < sys.maxsize else table).first(top)


def _parameter_table(tree, top):
    """Return the table of what a prior learns, such as its concentration or the scale of its steps."""
    data = tree["summary"].to_dataset()
    each, n = "cell" in data["parameter_mean"].dims, data.sizes["parameter"]
    rows = TableRows(data, *(["cell"] if each else []), "parameter")
    columns = [*(_key_columns(rows) if each else ()), rows.label("parameter")]
    columns += rows.summary(data, prefix="parameter_", spec=".4g")
    columns += rows.diagnostics(data, "parameter_", (1, 2))
    if not each and "sensitivity" in tree.children and tree["sensitivity"].sizes.get("parameter") == n:
        column = Column("decided_by", "decided by", "text", priority=3, means=_DECIDED)
        columns.append((column, rows(tree["sensitivity"]["parameter_decided_by"]).tolist()))
    title = "Hyperparameters of the prior" if "cell" not in data.dims or each else "Other unknowns of the model"
    return filled(title, columns, detail=True).first(max(top // n, 1) * n)


def _notes(tree):
    """Yield the notes of a fit, in the order in which they are read."""
    attrs = facts_of(tree)
    yield Note(Kind.DATA, f"Prior {attrs['prior']}; method {attrs['method']}; seed {attrs['random_seed']}.")
    yield from stated(attrs, (Kind.METHOD, "prior_reason"))
    yield from notes_of(tree)
    if attrs.get("draws") == "none" and "fitness" not in attrs:
        yield Note(Kind.VERDICT, "Without draws a fit does not test whether the reports fit the design: check does.")
    yield from stated(attrs, (Kind.METHOD, "order"), (Kind.EVIDENCE, "bayes_factors"))
    if "estimate" in tree.children and tree["estimate"]["outcome"].ndim == 1:
        for name, text in zip(_estimators(tree), tree["estimate"]["outcome"].values, strict=True):
            label = NAMES.get(name, name)
            yield Note(Kind.ESTIMATE, f"{label[0].upper()}{label[1:]}: {as_sentences(str(text))}")


def _no_answer(tree) -> str:
    """Return how many who were asked gave no answer; empty where everybody answered, or nobody counted."""
    missing = tree["constant_data"].get("missing") if "constant_data" in tree.children else None
    total = 0 if missing is None else int(missing.sum())
    if not total:
        return ""
    asked = total + tree.attrs["n_reports"]
    return (
        f"{total:,} of {asked:,} people who were asked ({100 * total / asked:.3g} %) gave no answer and are left out; "
        "answers.missing_answers says how far they could move a share."
    )


def notes_of(tree):
    """Yield the notes that posteriors of P and of coefficients have: method, verdict, what reports do not say, evidence."""
    attrs = facts_of(tree)
    if said := _no_answer(tree):
        yield Note(Kind.WARNING, said)
    yield Note(Kind.METHOD, f"Why {attrs['method']}: {as_sentences(attrs['reason'])}")
    yield from stated(
        attrs,
        (Kind.DIAGNOSTIC if attrs["converged"] else Kind.WARNING, "outcome"),
        (Kind.WARNING, "left_out", "identifiability", "caveat"),
        (Kind.DATA, "dropped", *(wrapper.name for wrapper in WRAPPERS.values()), "device", "pseudo", "clusters", "spent"),
        (Kind.VERDICT, *(wrapper.test for wrapper in WRAPPERS.values() if wrapper.tested)),
        (Kind.WORTH, "worth"),
        (Kind.WARNING, "decides"),
        (Kind.METHOD, "decides_note", "prior_of_shares"),
        (Kind.WARNING if attrs.get("fitness_flagged") else Kind.DIAGNOSTIC, "fitness"),
    )
    log_evidence, error = log_evidence_of(tree) or (math.nan, None)
    if math.isfinite(log_evidence):
        suffix = "" if not error else f", standard error {'below 0.0001' if error < 1e-4 else f'{error:.4f}'}"
        yield Note(Kind.EVIDENCE, f"Log-evidence {log_evidence:.4f}{suffix}.")


def _figures(tree, top, collection):
    """Yield the figures of a fit: intervals or groups, then the predictive check where the collection is known."""
    several = "cell" in tree["summary"].dims
    yield _groups_figure(tree) if several else _forest(tree, top)
    if collection is None:
        return
    for name in rooms.brought("FIGURES").values():
        figure = rooms.function(name)(tree, collection)
        if figure is not None:
            yield figure
    if _predicts(tree, collection):
        caption = "Predictive check: counts of the reports that came in, and of those that the posterior predicts."
        if several:
            what = "distances of the counts of reports from what the posterior predicts"
            caption = f"Predictive check: {what}, group by group."
        plot = plots.plot_predictive_cells if several else plots.plot_predictive
        yield figure_of(
            "predictive", caption, f"{caption} {facts_of(tree).get('fitness', '')}".strip(), plot, tree, collection
        )


def _predicts(tree, collection):
    """Return whether there are draws of P that say what reports to expect."""
    a = collection.n_categories
    same = tree["posterior"].sizes.get("category") in (a, a - len(collection.laws)) and "pseudo" not in tree.attrs
    cells = [cell for cell in collection.collections() if cell.keeps_reports]
    same = same and "distribution" in tree["posterior"]
    return same and any(tally.protocol.report_law() is not None for cell in cells for tally in cell.tallies)


def _forest(tree, top):
    summary = tree["summary"]
    level = percent(summary.attrs["ci_prob"])
    caption = f"Mean and {level} interval of each share.{_decided(tree)}"
    p = summary.sel(target="distribution")
    largest = int(np.argmax(p["mean"].values))
    mean, low, high = (float(p[key].values[largest]) for key in ("mean", "lower", "upper"))
    alt = f"Forest plot: {caption} The largest of {p['mean'].size:,} categories is {summary['category'].values[largest]}"
    alt += f" with mean {mean:.3g} ({low:.3g} to {high:.3g}). The table has the numbers."
    return figure_of("forest", caption, alt, plots.plot_forest, tree, top=min(top, DRAWN), alone={"top": top})


def _groups_figure(tree):
    summary = tree["summary"]
    level, shown = percent(summary.attrs["ci_prob"]), drawn(tree, 1)[0]
    total = summary.sizes["cell"]
    which = f"the {DRAWN} of {total:,} groups with the least and the largest" if total > DRAWN else f"{total} groups"
    caption = f"Shares of {shown} in {which}: means and {level} intervals.{_decided(tree)}"
    alt = f"One line per group: {caption} {summary_of_fit(tree)}"
    return figure_of("groups", caption, alt, plots.plot_groups, tree, top=1, most=DRAWN)


def _decided(tree):
    """Return the sentence of a caption that says where the prior decides; empty where it does not."""
    words = who_decides(tree)
    return f" {words[0].upper()}{words[1:]}: see the warning." if words else ""


def _facts(tree):
    """Return every number of a fit under stable names: the keys of the JSON output."""
    summary = tree["summary"]
    facts = ("title", "n_reports", "prior", "random_seed", "identifiability", "caveat")
    said = facts_of(tree)
    diagnostics = {k: v for k, v in said.items() if k not in (*facts, "collection", "method", "reason", "settings")}
    estimates = {}
    for name in _estimators(tree):
        estimates[name] = tree["estimate"]["value"].sel(estimator=name).values
        estimates[f"{name}_standard_error"] = tree["estimate"]["standard_error"].sel(estimator=name).values
    cells = {}
    if "cell" in summary.dims:
        keys = {name: summary[name].values for name in _by(summary)}
        cells = {"cells": [str(c) for c in summary["cell"].values], "by": keys}
    return {
        "collection": tree.attrs["collection"],
        "method": tree.attrs["method"],
        "reason": tree.attrs["reason"],
        **{fact: said[fact] for fact in facts},
        "ci_prob": summary.attrs["ci_prob"],
        **cells,
        "categories": [str(c) for c in summary["category"].values],
        **{target: numbers_of(summary, {"target": target}) for target in _targets(tree)},
        "derived": _derived_facts(tree),
        **_prior_facts(tree),
        "confidence": _confidence_facts(tree),
        "mle": None,
        "oracle": None,
        **estimates,
        "log_evidence": (log_evidence_of(tree) or (None,))[0],
        "diagnostics": diagnostics,
    }


def _derived_facts(tree):
    summary, facts = tree["summary"], {}
    estimated = "estimate" in tree.children and "derived" in tree["estimate"]
    for name in summary["quantity"].values if "quantity" in summary.coords else ():
        entry = numbers_of(summary, {"quantity": name}, "derived_")
        for estimator in _estimators(tree) if estimated and name in tree["estimate"]["quantity"].values else ():
            at = {"estimator": estimator, "quantity": name}
            entry[estimator] = tree["estimate"]["derived"].sel(at).values
            entry[f"{estimator}_standard_error"] = tree["estimate"]["derived_standard_error"].sel(at).values
        facts[str(name)] = entry
    return facts


def _prior_facts(tree):
    """Return mean, sd, interval and errors of what a prior learns, and of its arrays with the labels of their dims."""
    summary, posterior = tree["summary"], tree["posterior"]
    names = summary["parameter"].values if "parameter" in summary.coords else ()
    learnt = {str(name): numbers_of(summary, {"parameter": name}, "parameter_") for name in names}
    arrays = {}
    for name in unknown_arrays(posterior):
        labels = {str(dim): [str(label) for label in posterior[name][dim].values] for dim in posterior[name].dims[2:]}
        arrays[name] = {"dims": labels, **numbers_of(summary, {}, f"{name}_")}
    return {key: values for key, values in (("parameters", learnt), ("unknowns", arrays)) if values}


def _estimators(tree):
    return [str(name) for name in tree["estimate"]["estimator"].values] if "estimate" in tree.children else []


def _has_confidence(tree, target):
    """Return whether a result has confidence intervals of a target."""
    if "confidence" not in tree.children:
        return False
    lower, upper = (tree["confidence"][key].sel(target=target).values for key in ("lower", "upper"))
    return bool((np.isfinite(lower) & (upper - lower < 1)).any())  # from 0 to 1 says nothing


def _confidence_facts(tree):
    """Return the confidence intervals of P and F, and where they come from; None where there are none."""
    if "confidence" not in tree.children:
        return None
    data = tree["confidence"].to_dataset()
    facts = {"method": data.attrs["method"]}
    for target in ("distribution", "frequency"):
        if _has_confidence(tree, target):
            facts[target] = {key: data[key].sel(target=target).values for key in ("lower", "upper")}
    return facts
