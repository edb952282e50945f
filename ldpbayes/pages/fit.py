"""The page of a fit."""

import functools
import json
import math
import sys

import numpy as np

from ldpbayes.inference.diagnostics import unknown_arrays
from ldpbayes.pages.about import about, again, fingerprint_of_arrays
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.prose import as_sentences
from ldpbayes.pages.summary import summary_of_fit
from ldpbayes.posteriors import evidence

#: Categories that a table shows unless the caller wants another number.
TOP = 40
#: Sds below this share of the largest one take no further decimals.
NEGLIGIBLE = 0.01
#: Numbers of reports a user that are listed one by one.
_SPENT_ROWS = 12
_LABELS = {"mle": "MLE", "oracle": "oracle"}
#: What the columns of point estimates are.
_MEANS = {
    "mle": "Maximum-likelihood estimate: uses no prior and is a distribution.",
    "oracle": "Unbiased estimate, by inverting the channel: uses no prior and may be negative.",
}
#: Whose shares P and F are.
_WHOSE = {"P": "the population that these people were drawn from", "F": "these very people"}
_STANDARD_ERROR = "Standard error of the estimate; empty where the estimate is 0."
_R_HAT = "Agreement of the chains: 1 where they agree, and not trusted above 1.01."
_EFFECTIVE = "How many independent draws would be as precise as these."
#: What the arrays of unknowns of our priors are, by name.
_ARRAYS = {
    "pooled": "The distribution of a typical group.",
    "effect": "By how much the log odds of a group depart from those of the typical group.",
}
_KEYS = ("mean", "sd", "lower", "upper", "mcse")
#: Errors of the ends, which results of earlier versions do not have.
_ERRORS = ("lower_error", "upper_error")
#: Keys of columns, which a grouping column of the same name must not hide.
_TAKEN = {"table", "mean", "sd", "lower", "upper", "mle", "oracle", "mle_standard_error", "oracle_standard_error"}


def of_fit(tree, *, top: int = TOP, collection=None, command: str = "") -> Page:
    """Return the Page of a result of fit().

    Parameters
    ----------
    tree : DataTree
    top : int
        Categories in table and figure: those with the largest posterior means. Of a result with cells, every table has at
        most this many rows (or the rows of one cell): those of the first cells. Files with room have all rows.
    collection : Collection or Cells, optional
        What was fitted: the page then says question and design.
    command : str
        The line for a shell that makes this page.

    Returns
    -------
    Page
        A table of the categories, one of the derived quantities, notes on data, method, diagnostics and estimates, and
        figures; facts hold every number.
    """
    title = tree.attrs["title"] or tree.attrs["collection"]
    summary = tree["summary"]
    derived = _derived_table(tree, top) if "quantity" in summary.coords else None
    parameters = _parameter_table(tree, top) if "parameter" in summary.coords else None
    tables = [_category_table(tree, title, top), *filter(None, (derived, parameters)), *_unknown_tables(tree, top)]
    tables += [_spent_table(tree)] if "epsilon_spent" in tree.attrs else []
    return Page(
        title,
        tuple(tables),
        tuple(_notes(tree)),
        tuple(_figures(tree, title, top, collection)),
        _facts(tree),
        summary_of_fit(tree),
        {} if collection is None else about(collection),
        _again(tree, command),
    )


def _again(tree, command):
    held = tree["observed_data"].data_vars if "observed_data" in tree.children else {}
    arrays = {str(name): values.values for name, values in held.items()}
    data = fingerprint_of_arrays(tree["summary"]["category"].values, arrays)
    return again(command, seed=int(tree.attrs["random_seed"]), data=data, settings=tree.attrs["settings"])


def _category_table(tree, title, top):
    summary = tree["summary"]
    spec = f".{_digits(summary)}f"
    level = f"{summary.attrs['ci_prob'] * 100:g} % interval"
    columns = [*_key_columns(summary), Column("category", "category", "text")]
    targets = _targets(tree)
    for target, letter, order in (("distribution", "P", (0, 5, 0, 2)), ("frequency", "F", (6, 8, 7, 8))):
        if target not in targets:
            continue
        columns += [
            Column(
                f"{target}_mean",
                f"mean of {letter}",
                spec=spec,
                priority=order[0],
                means=f"Posterior mean of the share among {_WHOSE[letter]}, with its sd.",
            ),
            Column(f"{target}_sd", "sd", spec=spec, priority=order[1], full=f"sd of {letter}"),
            Column(
                f"{target}_interval",
                level,
                "interval",
                spec,
                order[2],
                full=f"{level} of {letter}",
                means="Credible interval: holds this probability of the posterior.",
            ),
        ]
        if _has_confidence(tree, target):
            words = level.replace("interval", "confidence")
            columns.append(
                Column(
                    f"{target}_confidence",
                    words,
                    "interval",
                    spec,
                    order[3],
                    full=f"{words} interval of {letter}",
                    means="From the reports alone: covers the true share with this probability, whichever it is.",
                )
            )
    names = _estimators(tree)
    for name in names:
        # The oracle goes first, then F, then the standard errors, the MLE and the sd of P.
        value, error = (9, 10) if name != "mle" else (3, 4)
        columns.append(Column(name, _LABELS.get(name, name), spec=spec, priority=value, means=_MEANS.get(name, "")))
        if _has_errors(tree, name):
            columns.append(
                Column(
                    f"{name}_standard_error",
                    "s.e.",
                    spec=spec,
                    priority=error,
                    full=f"s.e. of the {_LABELS.get(name, name)}",
                    means=_STANDARD_ERROR,
                )
            )
    rows, total, kept = [], summary.sizes["category"], 0
    labels = [str(label) for label in summary["category"].values]
    places = _shown_cells(summary, min(total, top), top)
    for c in places:
        here = summary if c is None else summary.isel(cell=c)
        means = here["mean"].sel(target="distribution").values
        shown = _largest(means, top)
        if _undrawn(tree):  # so many categories have no order that a reader knows
            shown = sorted(shown, key=lambda x: -means[x])
        kept, keys = len(shown), _keys(here)
        values = [labels, *_category_values(tree, here, targets, names, c)]
        rows += [(*keys, *(column[x] for column in values)) for x in shown]
    parts = [f"the {kept} largest of {total:,} categories"] if kept < total else []
    cut = kept < total or len(places) < summary.sizes.get("cell", 1)
    whole = functools.partial(_category_table, tree, title, sys.maxsize) if cut else None
    return Table(title, tuple(columns), tuple(rows), _left_out(parts, summary, places), len(_by(summary)), whole)


def _undrawn(tree):
    """Return whether a result holds moments alone because of its size."""
    return tree.attrs.get("draws") == "none"


def _category_values(tree, here, targets, names, cell):
    """Yield the values of every column but the first ones, as lists over all categories of one cell."""
    for target in targets:
        mean, sd, low, high = (here[key].sel(target=target).values.tolist() for key in _KEYS[:4])
        yield from (mean, sd, list(zip(low, high, strict=True)))
        if _has_confidence(tree, target):
            yield _confidence(tree, target, cell)
    for name in names:
        value, error = _estimate(tree, name, cell)
        yield value.tolist()
        if _has_errors(tree, name):
            yield error.tolist()


def _targets(tree):
    """Return what a table shows: P, and F unless it has no meaning under sampling weights."""
    return ("distribution",) if "pseudo" in tree.attrs else ("distribution", "frequency")


def _derived_table(tree, top):
    summary, level = tree["summary"], f"{tree['summary'].attrs['ci_prob'] * 100:g} % interval"
    sd = summary["derived_sd"].values
    spec = f".{_decimals(sd)}f"
    columns = [*_key_columns(summary), Column("quantity", "quantity", "text")]
    columns += [Column("mean", "mean", spec=spec), Column("sd", "sd", spec=spec, priority=5)]
    columns.append(Column("interval", level, "interval", spec))
    known = "estimate" in tree.children and "derived" in tree["estimate"]
    names = _estimators(tree) if known else []
    for name in names:
        columns.append(Column(name, _LABELS.get(name, name), spec=spec, priority=3 if name == "mle" else 9))
        if name == "mle":
            columns.append(Column("mle_standard_error", "s.e.", spec=spec, priority=4, full="s.e. of the MLE"))
    rows, places = [], _shown_cells(summary, summary.sizes["quantity"], top)
    for c in places:
        here = summary if c is None else summary.isel(cell=c)
        mean, sd, low, high = (here[f"derived_{key}"].values.tolist() for key in _KEYS[:4])
        values = [[str(name) for name in summary["quantity"].values], mean, sd, list(zip(low, high, strict=True))]
        for name in names:
            value, error = _estimate(tree, name, c, "derived", "derived_standard_error", summary["quantity"].values)
            values += [value.tolist(), *([error.tolist()] if name == "mle" else [])]
        rows += [(*_keys(here), *row) for row in zip(*values, strict=True)]
    # A model of one's own has other scalars beside the quantities of the collection.
    title = "Other quantities" if tree.attrs["method"] == "attached" else "Derived quantities"
    whole = functools.partial(_derived_table, tree, sys.maxsize) if len(places) < summary.sizes.get("cell", 1) else None
    return Table(title, tuple(columns), tuple(rows), _left_out([], summary, places), len(_by(summary)), whole)


def _spent_table(tree):
    """Return how many users sent how many reports, and the level they have spent; of many numbers, spans of them."""
    lines = json.loads(tree.attrs["epsilon_spent"])
    spans: dict = {}
    for times, level, users in lines:
        key = times if len(lines) <= _SPENT_ROWS else times.bit_length()
        low, _, most, total = spans.get(key, (times, times, 0.0, 0))
        spans[key] = (low, times, max(most, level), total + users)
    rows = [(str(low) if low == high else f"{low} to {high}", users, most) for low, high, most, users in spans.values()]
    columns = (
        Column("reports", "reports a user", "text", align="right"),
        Column("users", "users", spec=",d"),
        Column("epsilon_spent", "spent", spec=".4g", full="level spent, in nats"),
    )
    return Table("Reports of a user, and the epsilon they have spent", columns, tuple(rows))


def _key_columns(summary):
    """Return one text column per grouping column; none for a single collection."""
    return [Column(f"cell_{name}" if name in _TAKEN else name, name, "text") for name in _by(summary)]


def _keys(here):
    """Return the key of one cell as texts."""
    return [str(here[name].values) for name in _by(here)]


def _by(summary):
    """Return the names of the grouping columns, with "cell" for keys that have no name; none for a single collection."""
    if "cell" not in summary.coords:
        return []
    own = [str(name) for name, values in summary.coords.items() if name != "cell" and values.dims == summary["cell"].dims]
    return own or ["cell"]


def _shown_cells(summary, rows, top):
    """Return the positions of the cells that a table shows, with ``rows`` rows each; [None] for a single collection."""
    return range(min(summary.sizes["cell"], max(top // rows, 1))) if "cell" in summary.dims else [None]


def _left_out(parts, summary, places):
    """Return the sentence that says which part of a table is shown; empty where it is all of it."""
    if "cell" in summary.dims and len(places) < summary.sizes["cell"]:
        parts = [*parts, f"the first {len(places)} of {summary.sizes['cell']:,} cells"]
    text = " of ".join(parts)
    return f"{text[0].upper()}{text[1:]} are shown." if text else ""


def _unknown_tables(tree, top):
    """Yield a table for each array of unknowns of the prior, such as the effects of groups."""
    summary, level = tree["summary"], f"{tree['summary'].attrs['ci_prob'] * 100:g} % interval"
    for name in unknown_arrays(tree["posterior"]):
        dims = tree["posterior"][name].dims[2:]
        spec = f".{min(_decimals(summary[f'{name}_sd'].values), 4)}f"
        columns = [Column(f"label_{dim}" if dim in _TAKEN else str(dim), str(dim), "text") for dim in dims]
        columns += [Column("mean", "mean", spec=spec), Column("sd", "sd", spec=spec, priority=1)]
        columns.append(Column("interval", level, "interval", spec))
        columns += [
            Column("r_hat", "R-hat", spec=".3f", priority=3, means=_R_HAT),
            Column("ess_bulk", "effective draws", spec=",.0f", priority=2, means=_EFFECTIVE),
        ]
        labels = [[str(label) for label in summary[dim].values] for dim in dims]
        places = list(np.ndindex(*map(len, labels)))
        rows = []
        for place in places[:top]:
            mean, sd, low, high, r_hat, ess = (
                float(summary[f"{name}_{key}"].values[place])
                for key in ("mean", "sd", "lower", "upper", "r_hat", "ess_bulk")
            )
            row = [own[i] for own, i in zip(labels, place, strict=True)]
            rows.append((*row, mean, sd, (low, high), r_hat, ess))
        said = [_ARRAYS.get(name, "")]
        said += [f"The first {top:,} of {len(places):,} rows are shown."] if len(places) > top else []
        whole = functools.partial(_unknown_table, tree, name) if len(places) > top else None
        yield Table(
            f"{name[0].upper()}{name[1:]}".replace("_", " "),
            tuple(columns),
            tuple(rows),
            " ".join(filter(None, said)),
            0,
            whole,
        )


def _unknown_table(tree, name):
    """Return the table of one array of unknowns, with all its rows."""
    tables = dict(zip(unknown_arrays(tree["posterior"]), _unknown_tables(tree, sys.maxsize), strict=True))
    return tables[name]


def _parameter_table(tree, top):
    """Return the table of what a prior learns, such as its concentration or the scale of its steps."""
    summary = tree["summary"].to_dataset()
    spec, level = ".4g", f"{summary.attrs['ci_prob'] * 100:g} % interval"
    each = "cell" in summary["parameter_mean"].dims
    columns = [*(_key_columns(summary) if each else ()), Column("parameter", "parameter", "text")]
    columns += [
        Column("mean", "mean", spec=spec),
        Column("sd", "sd", spec=spec),
        Column("interval", level, "interval", spec),
    ]
    if np.isfinite(summary["parameter_r_hat"].values).any():
        columns += [
            Column("r_hat", "R-hat", spec=".3f", priority=1, means=_R_HAT),
            Column("ess_bulk", "effective draws", spec=",.0f", priority=2, means=_EFFECTIVE),
        ]
    names, rows = [str(name) for name in summary["parameter"].values], []
    places = _shown_cells(summary, len(names), top) if each else [None]
    for c in places:
        here = summary if c is None else summary.isel(cell=c)
        statistics, keys = (*_KEYS[:4], "r_hat", "ess_bulk"), _keys(here) if each else []
        mean, sd, low, high, *more = (here[f"parameter_{key}"].values.tolist() for key in statistics)
        values = [names, mean, sd, list(zip(low, high, strict=True)), *more][: len(columns) - len(keys)]
        rows += [(*keys, *row) for row in zip(*values, strict=True)]
    title = "Hyperparameters of the prior" if "cell" not in summary.dims or each else "Other unknowns of the model"
    cut = each and len(places) < summary.sizes["cell"]
    whole = functools.partial(_parameter_table, tree, sys.maxsize) if cut else None
    note = _left_out([], summary, places) if each else ""
    return Table(title, tuple(columns), tuple(rows), note, len(_by(summary)) if each else 0, whole)


def _notes(tree):
    """Yield the notes of a fit, in the order in which they are read."""
    attrs = tree.attrs
    seed = attrs["random_seed"]
    yield Note(
        Kind.DATA,
        f"{attrs['n_reports']:,} reports; prior {attrs['prior']}; method {attrs['method']}; seed {seed}.",
    )
    if attrs.get("prior_reason"):
        yield Note(Kind.METHOD, as_sentences(attrs["prior_reason"]))
    yield Note(Kind.METHOD, f"Why {attrs['method']}: {as_sentences(attrs['reason'])}")
    kind = Kind.DIAGNOSTIC if attrs["converged"] else Kind.WARNING
    for found, name in (
        (kind, "outcome"),
        (Kind.WARNING, "identifiability"),
        (Kind.WARNING, "caveat"),
        (Kind.DATA, "device"),
        (Kind.DATA, "pseudo"),
        (Kind.DATA, "spent"),
        (Kind.DATA, "noncompliance"),
        (Kind.VERDICT, "compliance"),
        (Kind.WORTH, "worth"),
        (Kind.WARNING, "decides"),
        (Kind.METHOD, "decides_note"),
        (Kind.WARNING if tree.attrs.get("fitness_flagged") else Kind.DIAGNOSTIC, "fitness"),
    ):
        if attrs.get(name):
            yield Note(found, as_sentences(attrs[name]))
    found, error = evidence.of_result(tree) or (None, None)
    if found is not None:
        yield Note(Kind.EVIDENCE, f"Log-evidence {found:.4f}" + (f", standard error {error:.4f}." if error else "."))
    if attrs.get("order"):
        yield Note(Kind.METHOD, attrs["order"])
    if attrs.get("bayes_factors"):
        yield Note(Kind.EVIDENCE, attrs["bayes_factors"])
    if "estimate" in tree.children and tree["estimate"]["outcome"].ndim == 1:
        for name, text in zip(_estimators(tree), tree["estimate"]["outcome"].values, strict=True):
            label = _LABELS.get(name, name)
            yield Note(Kind.ESTIMATE, f"{label[0].upper()}{label[1:]}: {as_sentences(str(text))}")


def _figures(tree, title, top, collection):
    """Yield the figures of a fit: intervals or groups, then the predictive check where the collection is known."""
    if "cell" in tree["summary"].dims:
        yield _groups_figure(tree)
        if collection is not None and _predicts_cells(tree, collection):
            yield _predictive_of_cells(tree, collection)
        return
    yield _forest(tree, top)
    if collection is not None and collection.n_laws == 1:
        yield _sensitivity(tree, collection)
    if collection is not None and _predicts(tree, collection):

        def draw():
            from ldpbayes.plots import plot_predictive

            return plot_predictive(collection, tree)

        caption = "Predictive check: counts of the reports that came in, and of those that the posterior predicts."
        yield Figure("predictive", caption, f"{caption} {tree.attrs.get('fitness', '')}".strip(), draw)


def _predicts_cells(tree, cells):
    """Return whether the draws of P say what reports to expect in some cell; see _predicts."""
    if tree["posterior"].sizes["category"] != cells.n_categories or "pseudo" in tree.attrs:
        return False
    whole = [cell for one, cell in zip(cells.likelihoods, cells.values(), strict=True) if one.rows() is not None]
    return any(tally.protocol.report_law() is not None for cell in whole for tally in cell.tallies)


def _predictive_of_cells(tree, cells):
    def draw():
        from ldpbayes.plots import plot_predictive_cells

        return plot_predictive_cells(cells, tree)

    caption = "Predictive check: distances of the counts of reports from what the posterior predicts, group by group."
    alt = f"One line of dots per group: {caption} {tree.attrs.get('fitness', '')}".strip()
    return Figure("predictive", caption, alt, draw)


def _sensitivity(tree, collection):
    """Return the figure of the largest share, or the second of two, against the share who ignore the device."""
    mean = tree["summary"]["mean"].sel(target="distribution")
    label = str(mean["category"].values[1 if mean.size == 2 else int(np.argmax(mean.values))])

    def draw():
        from ldpbayes.fitness.noncompliance import sensitivity
        from ldpbayes.plots import plot_sensitivity

        return plot_sensitivity(sensitivity(collection, label, points=21))

    which = "every γ that the reports allow" if "noncompliance_low" in tree.attrs else "γ within two sds of its estimate"
    caption = f"The share of {label} among those who follow the device, for {which}."
    return Figure("sensitivity", caption, f"Curve: {caption} {tree.attrs.get('noncompliance', '')}".strip(), draw)


def _predicts(tree, collection):
    """Return whether the draws of P say what reports to expect: not where P is that of the compliers alone."""
    same = tree["posterior"].sizes["category"] == collection.n_categories and "pseudo" not in tree.attrs
    same = same and "distribution" in tree["posterior"]
    return same and any(tally.protocol.report_law() is not None for tally in collection.tallies)


def _forest(tree, top):
    summary = tree["summary"]

    def draw():
        from ldpbayes.plots import plot_forest

        return plot_forest(tree, top=top)

    level = f"{summary.attrs['ci_prob'] * 100:g} %"
    whose = "P" if "pseudo" in tree.attrs else "P and of F"
    caption = f"Posterior means and {level} intervals of {whose}, with the point estimates.{_decided(tree)}"
    p = summary.sel(target="distribution")
    largest = int(np.argmax(p["mean"].values))
    mean, low, high = (float(p[key].values[largest]) for key in ("mean", "lower", "upper"))
    alt = f"Forest plot: {caption} The largest of {p['mean'].size:,} categories is {summary['category'].values[largest]}"
    alt += f" with mean {mean:.3g} ({low:.3g} to {high:.3g}). The table has the numbers."
    return Figure("forest", caption, alt, draw)


def _groups_figure(tree):
    from ldpbayes.plots.groups import drawn

    def draw():
        from ldpbayes.plots import plot_groups

        return plot_groups(tree)

    summary = tree["summary"]
    level = f"{summary.attrs['ci_prob'] * 100:g} %"
    caption = f"Posterior means and {level} intervals of {', '.join(drawn(tree))} in {summary.sizes['cell']:,} groups."
    caption += _decided(tree)
    return Figure("groups", caption, f"One line per group: {caption} {summary_of_fit(tree)}", draw)


def _decided(tree):
    """Return the sentence of a caption that says where the prior decides; empty where it does not."""
    from ldpbayes.answers.deciding import who_decides  # loads xarray, which a command without a result never needs

    words = who_decides(tree)
    return f" {words[0].upper()}{words[1:]}: see the warning." if words else ""


def _facts(tree):
    """Return every number of a fit under stable names: the keys of the JSON output."""
    summary = tree["summary"]
    facts = ("title", "n_reports", "prior", "random_seed", "identifiability", "caveat")
    diagnostics = {k: v for k, v in tree.attrs.items() if k not in (*facts, "collection", "method", "reason", "settings")}
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
        **{fact: tree.attrs[fact] for fact in facts},
        "ci_prob": summary.attrs["ci_prob"],
        **cells,
        "categories": [str(c) for c in summary["category"].values],
        **{target: {key: summary[key].sel(target=target).values for key in _held(summary)} for target in _targets(tree)},
        "derived": _derived_facts(tree),
        **_parameter_facts(summary),
        **_unknown_facts(tree),
        "confidence": _confidence_facts(tree),
        "mle": None,
        "oracle": None,
        **estimates,
        "log_evidence": (evidence.of_result(tree) or (None,))[0],
        "diagnostics": diagnostics,
    }


def _derived_facts(tree):
    summary, found = tree["summary"], {}
    known = "estimate" in tree.children and "derived" in tree["estimate"]
    for name in summary["quantity"].values if "quantity" in summary.coords else ():
        entry = {key: summary[f"derived_{key}"].sel(quantity=name).values for key in _held(summary, "derived_")}
        for estimator in _estimators(tree) if known and name in tree["estimate"]["quantity"].values else ():
            at = {"estimator": estimator, "quantity": name}
            entry[estimator] = tree["estimate"]["derived"].sel(at).values
            entry[f"{estimator}_standard_error"] = tree["estimate"]["derived_standard_error"].sel(at).values
        found[str(name)] = entry
    return found


def _unknown_facts(tree):
    """Return mean, sd, interval and error of the arrays of unknowns, with the labels of their dims."""
    found = {}
    for name in unknown_arrays(tree["posterior"]):
        dims = tree["posterior"][name].dims[2:]
        labels = {str(dim): [str(label) for label in tree["summary"][dim].values] for dim in dims}
        found[name] = {"dims": labels, **{key: tree["summary"][f"{name}_{key}"].values for key in _KEYS}}
    return {"unknowns": found} if found else {}


def _parameter_facts(summary):
    names = summary["parameter"].values if "parameter" in summary.coords else ()
    found = {
        str(n): {key: summary[f"parameter_{key}"].sel(parameter=n).values for key in _held(summary, "parameter_")}
        for n in names
    }
    return {"parameters": found} if found else {}


def _estimators(tree):
    return [str(name) for name in tree["estimate"]["estimator"].values] if "estimate" in tree.children else []


def _estimate(tree, name, cell, value="value", error="standard_error", quantities=None):
    """Return (values, standard errors) of one estimator, of one cell where the result has cells.

    Of several quantities those that only the posterior has, such as what a prior learns, are nan.
    """
    found = tree["estimate"].to_dataset()[[value, error]].sel(estimator=name)
    if cell is not None and "cell" in found[value].dims:
        found = found.isel(cell=cell)
    if quantities is not None:
        found = found.reindex(quantity=quantities)
    return found[value].values, found[error].values


def _has_confidence(tree, target):
    """Return whether a result has confidence intervals of a target."""
    if "confidence" not in tree.children:
        return False
    return bool(np.isfinite(tree["confidence"]["lower"].sel(target=target).values).any())


def _confidence(tree, target, cell):
    """Return the ends of the confidence intervals of all categories of one cell, as pairs."""
    found = tree["confidence"].to_dataset().sel(target=target)
    found = found.isel(cell=cell) if "cell" in found.dims else found
    return list(zip(found["lower"].values.tolist(), found["upper"].values.tolist(), strict=True))


def _confidence_facts(tree):
    """Return the confidence intervals of P and F, and where they come from; None where there are none."""
    if "confidence" not in tree.children:
        return None
    found = tree["confidence"].to_dataset()
    facts = {"method": found.attrs["method"]}
    for target in ("distribution", "frequency"):
        if _has_confidence(tree, target):
            facts[target] = {key: found[key].sel(target=target).values for key in ("lower", "upper")}
    return facts


def _held(summary, prefix=""):
    """Return the numbers that a summary has: errors of the ends are missing from results of earlier versions."""
    return (*_KEYS, *(key for key in _ERRORS if f"{prefix}{key}" in summary.data_vars))


def _has_errors(tree, name):
    return name == "mle" and bool(np.isfinite(tree["estimate"]["standard_error"].sel(estimator=name).values).any())


def _largest(mean, top):
    return sorted(sorted(range(mean.size), key=lambda x: -mean[x])[:top])


def _digits(summary):
    return _decimals(summary["sd"].values)


def _decimals(sd):
    """Return how many decimals show two digits of the smallest sd that matters beside the largest, four at least."""
    least = sd[sd > NEGLIGIBLE * np.nanmax(sd, initial=0.0)]
    return min(max(4, math.ceil(1 - math.log10(least.min()))), 12) if least.size else 4
