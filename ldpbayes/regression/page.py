"""The page of a regression."""

import functools
import re
from dataclasses import replace

import numpy as np

from ldpbayes import plots
from ldpbayes.answer import Answer
from ldpbayes.answers.odds import odds_ratio
from ldpbayes.errors import listed
from ldpbayes.pages.fit import notes_of
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, figure_of, stated
from ldpbayes.pages.prose import number_of
from ldpbayes.pages.summary import shares, summary_of_fit
from ldpbayes.pages.tables import TableRows, filled, interval_of, numbers_of, odds_spec, of_asked, percent, spec_of
from ldpbayes.priors.links import scale_of
from ldpbayes.regression.figures import LEVELS, ROWS, changes, is_predicted, term_in_words, with_changes
from ldpbayes.regression.maximum import Maximum
from ldpbayes.regression.questions import predictions
from ldpbayes.result.facts import facts_of

#: Questions whose answers plot_predictions draws.
_PREDICTED = ("comparisons", "poststratify", "predictions", "slopes")
#: Display: Rows of the figure of predictions.
PREDICTED = 12
#: Display: Effects, and changes over levels, that the first sentences name.
SENTENCES = 4
#: Tables beside the coefficients: title, name of the variable, and dims.
BESIDE = (
    ("Who denies, of all of a category", "denial", ["denied"]),
    ("Coefficients: log odds of denying", "denial_coefficients", ["denial_term", "denied"]),
    ("How many other items apply, of all of a category", "items", ["category", "items_applying"]),
    ("Coefficients: log odds of each other item", "item_coefficients", ["item_term"]),
)
_GROUPS, _CURVES, _AVERAGE = "Effects of groups", "Curves", "Average over the respondents' covariates"
#: The title of the probabilities of an uncertain device, which are those of no answer.
DEVICE = "Probabilities of the device"
#: Tables of the parameters that no term or category has, and what heads their first column.
_PARAMETERS = {_CURVES: "sd of the curve", DEVICE: "probability"}
_CHANGE = "Change of the {} against the reference category for one more unit of the column."
_OVER_LEVELS = " Of a term with two levels, or with the ends of a curve: from the first to the last of them."
_BETWEEN = " Of the sd of a group: standard deviation of its effects."
_ODDS = "Factor of the odds: the exponential of the log odds."
_MEDIAN = "Posterior median of the factor of the odds: the exponential of the median of the log odds, not of their mean."


def of_regression(result) -> Page:
    """Return the Page of the posterior that regress() returned."""
    attrs, summary = facts_of(result), result["summary"].to_dataset()
    tables = [_coefficient_table(result), _share_table(summary)]
    tables += _tables_beside(summary)
    tables += [*_step_tables(result), *_spread_tables(summary)]
    return Page(
        attrs["title"],
        tuple(tables),
        tuple(_notes(result)),
        tuple(_figures(result)),
        _facts(result),
        _summary(result),
    )


def of_maximum(result: Maximum, *, ci_prob: float | None = None) -> Page:
    """Return the Page of maximum-likelihood estimates."""
    ci_prob = result.ci_prob if ci_prob is None else ci_prob
    summary, said = result.summary(ci_prob), facts_of(result)
    level, rows = interval_of(ci_prob), TableRows(summary, "term", "category")
    scale = scale_of(result.link)
    columns = _coefficient_columns(summary, rows, "", scale)
    (_, estimate), (_, error), (interval, ends) = columns[-3:]
    columns[-3:] = [
        (Column("estimate", scale, spec=interval.spec, means=_CHANGE.format(scale)), estimate),
        (Column("standard_error", "s.e.", spec=interval.spec), error),
        (interval, ends),
        *(
            _odds_columns(odds_ratio(result, ci_prob=ci_prob), rows, level, (1, 3), "odds ratio", _ODDS)
            if result.link == "logit"
            else ()
        ),
    ]
    title = _coefficients_of(result.reference, list(map(str, summary["category"].values)), scale)
    names = ("formula", "n_reports", "reference", "link", "log_likelihood", "deviance", "weighted")
    facts = {"method": "mle", **{name: getattr(result, name) for name in names}}
    facts |= {"terms": list(result.terms), "categories": list(result.categories)}
    beside = [name for name in ("average", "group_sd", "denial", "device") if name in result.data_vars]
    facts |= {name: result[name].values for of in beside for name in (of, f"{of}_errors")}
    facts |= {"probability": list(map(str, result["device_share"].values))} if "device" in beside else {}
    facts |= {"coefficients": result.coefficients.values, "standard_errors": result.standard_errors.values}
    tables = [filled(title, columns)]
    own = {
        "average": (_AVERAGE, "category", "category"),
        "denial": (BESIDE[0][0], "denied", "denied"),
        "device": (DEVICE, "device_share", _PARAMETERS[DEVICE]),
    }
    parts = [(of, result, *own[of]) for of in beside if of in own]
    if "group_sd" in beside:
        kinds = np.array([_kind_of(f"{name}_sigma") for name in result["effects"].values])
        each = ((kind, result.isel(effects=kinds == kind)) for kind in (_GROUPS, _CURVES) if kind in kinds)
        parts = [("group_sd", some, f"{kind}: sd", "effects", "effect") for kind, some in each] + parts
    for name, some, title, dim, heading in parts:
        spec = spec_of(some[f"{name}_errors"].values)
        pairs = (("estimate", name), ("s.e.", f"{name}_errors"))
        known = (some[name] != 0) | (name != "group_sd")  # an sd of 0 has no standard error
        numbers: list = [
            (Column(key, called, spec=spec), some[key].where(known | (key == name)).values) for called, key in pairs
        ]
        tables.append(filled(title, [TableRows(some[name], dim).label(dim, heading), *numbers]))
    return Page(
        result.formula,
        tuple(tables),
        (*stated(said, (Kind.DATA, "dropped"), (Kind.METHOD, "outcome")), Note(Kind.ESTIMATE, result.fit)),
        (_coefficients_figure(result, f"Coefficients with {level}s."),),
        facts,
        _headline_of_maximum(result, summary, ci_prob),
        again={"Design": said["mechanisms"], "Data (SHA-256)": said["data"]} if "data" in said else {},
    )


def _headline_of_maximum(result, summary, ci_prob):
    """Return the first coefficient but the intercept, or where it is alone, it, with reports, design and formula."""
    reports = number_of(result.n_reports, "report")
    design = facts_of(result).get("mechanisms", "")
    source = design if design.startswith(f"{result.n_reports:,} ") else f"{reports} ({design})" if design else reports
    terms = [str(name) for name in summary["term"].values]
    at = {"term": terms[min(1, len(terms) - 1)], "category": summary["category"].values[-1]}
    spec = spec_of(summary["sd"].values)
    middle, low, high = (format(float(summary[name].sel(at)), spec) for name in ("mean", "lower", "upper"))
    moves, where = f"moves by {middle} with {at['term']}", ""
    if len(terms) == 1:
        moves = f"is {middle}"
        where = f", with {listed(map(str, result['effects'].values))} at 0" if "effects" in result.coords else ""
    return (
        f"From {source}, by maximum likelihood of {result.formula}: the {scale_of(result.link)} of {at['category']} against "
        f"{result.reference} {moves} ({interval_of(ci_prob)} {low} to {high}){where}."
    )


def _coefficients_of(reference, categories, scale):
    """Return the title of the table of coefficients."""
    which = f"{scale} of {categories[0]}" if len(categories) == 1 else scale
    return f"Coefficients: {which} against {reference}"


def _coefficient_columns(summary, rows, prefix, scale):
    """Return term, category where there are several, and the coefficients as columns."""
    labels = [rows.label("term"), *([rows.label("category")] if summary.sizes["category"] > 1 else [])]
    settings = {"prefix": prefix, "heading": f"mean {scale}", "priority": (0, 3, 0), "means": (_CHANGE.format(scale), "")}
    settings["spec"] = spec_of(summary[f"{prefix}sd"].values)
    (mean, values), *rest = rows.summary(summary, **settings)
    return [*labels, (replace(mean, full=f"mean of the {scale}"), values), *rest]


def _odds_columns(odds, rows, level, priority, heading, means):
    """Return odds ratios with their intervals as columns."""
    spec = odds_spec(odds)
    ratio = Column("odds_ratio", heading, spec=spec, priority=priority[0], means=means)
    interval = Column("odds_interval", level, "interval", spec, priority[1], full=f"{level} of the odds ratio")
    return [(ratio, rows.numbers(odds["odds_ratio"])), (interval, rows.pairs(odds["lower"], odds["upper"]))]


def _coefficient_table(tree):
    """Return the table of all terms: coefficients, changes over levels, and sds between groups, which have no category."""
    reference, scale = tree.attrs["reference"], _scale(tree)
    summary, draws = with_changes(tree)
    categories = [str(name) for name in summary["category"].values]
    rows, level = TableRows(summary, "term", "category"), interval_of(summary.attrs["ci_prob"])
    means = f"Posterior probability that the change of the {scale} is above zero."
    positive = Column("positive", "P(> 0)", spec=".3f", priority=5, means=means)
    odds = np.exp(summary[["coefficients_lower", "coefficients_upper"]])
    odds = odds.rename(coefficients_lower="lower", coefficients_upper="upper")
    odds = odds.assign(odds_ratio=np.exp(draws.median(("chain", "draw"))))
    columns = [
        *_coefficient_columns(summary, rows, "coefficients_", scale),
        *(_odds_columns(odds, rows, level, (1, 4), "median odds ratio", _MEDIAN) if scale == scale_of("logit") else ()),
        (positive, rows.numbers((draws > 0).mean(("chain", "draw")))),
    ]
    whole = tree["summary"].to_dataset()
    spread = [_spread_row(whole, name) for name in _parameters(whole, _GROUPS)]
    columns = [(column, [*values, *(row.get(column.key) for row in spread)]) for column, values in columns]
    more = (_OVER_LEVELS if changes(tree) else "") + (_BETWEEN if spread else "")
    columns = [(replace(column, means=column.means + more * (column.key == "mean")), values) for column, values in columns]
    return filled(_coefficients_of(reference, categories, scale), columns)


def _spread_row(summary, name):
    """Return the row of the sd between groups, by the keys of columns."""
    mean, sd, *ends = (float(summary[f"parameter_{key}"].sel(parameter=name)) for key in ("mean", "sd", "lower", "upper"))
    return {"term": f"sd of {name.removesuffix('_sigma')}", "mean": mean, "sd": sd, "interval": tuple(ends)}


def _scale(tree):
    """Return what the coefficients of a result change, in words."""
    return scale_of(facts_of(tree).get("link", "logit"))


def _share_table(summary):
    """Return the table of the average shares: of two answers the one that is asked for."""
    rows, p = TableRows(summary, "category"), summary.sel(target="distribution")
    settings = {"key": "distribution_", "heading": "mean of P", "of": "P", "priority": (0, 1, 0)}
    return of_asked(rows.table(_AVERAGE, p, **settings), "category")


def _step_tables(tree):
    """Yield for each monotone effect the shares of its change that its steps have, to read where asked."""
    for name in _rises(tree):
        dim = f"{name}_step"
        summary = tree["summary"].to_dataset()[[f"{name}_steps_{key}" for key in ("mean", "sd", "lower", "upper")]]
        rows = TableRows(summary, dim)
        settings = {"prefix": f"{name}_steps_", "heading": "mean share", "spec": ".3f", "priority": (0, 1, 0)}
        means = ("Share of the whole change that comes with the step to this level from the one before.", "")
        columns = [rows.label(dim, "step to"), *rows.summary(summary, means=means, **settings)]
        yield replace(filled(f"Steps of {name}", columns), detail=True)


def _rises(tree):
    """Return the names of the monotone effects."""
    names = (str(name) for name in tree["posterior"])
    return [name.removesuffix("_steps") for name in names if name.startswith("mo(") and name.endswith("_steps")]


def _spread_tables(summary):
    """Yield the sds of curves, and the probabilities of a device, each a table."""
    for kind, heading in _PARAMETERS.items():
        if names := _parameters(summary, kind):
            own = summary.sel(parameter=names)
            rows = TableRows(own, "parameter")
            column, labels = rows.label("parameter", heading)
            spec = spec_of(own["parameter_sd"].values)
            columns = rows.summary(own, prefix="parameter_", spec=spec, priority=(0, 1, 0))
            yield filled(kind, [(column, [name.removesuffix("_sigma") for name in labels]), *columns])


def _parameters(summary, kind):
    """Return the names of the parameters of a kind, which have neither term nor category."""
    names = [str(name) for name in summary["parameter"].values] if "parameter" in summary.coords else []
    return [name for name in names if _kind_of(name) == kind]


def _kind_of(name):
    """Return what a parameter is: of groups, of a curve or of the device."""
    if not name.endswith("_sigma"):
        return DEVICE
    return _CURVES if "|" not in name else _GROUPS


def _curves(tree, summary):
    """Yield what is said of monotone effects, and of walks and curves, which have no coefficients."""
    reference, level, said = tree.attrs["reference"], interval_of(summary.attrs["ci_prob"]), []
    for name, term in changes(tree).items():
        for category in [str(label) for label in summary["category"].values if str(label) != reference]:
            values = (float(summary[f"{name}_{key}"].sel(category=category)) for key in ("mean", "lower", "upper"))
            mean, low, high = (f"{value:#.3g}" for value in values)
            said.append(
                f"{term} changes the {_scale(tree)} of {category} against {reference} by {mean} ({level} {low} to {high})"
            )
    yield from said[:SENTENCES]
    if len(said) > SENTENCES:
        yield f"the table has {len(said) - SENTENCES} further changes"
    if curves := [name.removesuffix("_sigma") for name in _parameters(summary, _CURVES)]:
        yield f"predictions show {listed(curves)} in between"


def _tables_beside(summary):
    """Yield the tables of who denies, or of how many items of a list apply, and of what that depends on."""
    for title, name, dims in BESIDE:
        if f"{name}_mean" in summary:  # the coefficients need covariates
            spec = spec_of(summary[f"{name}_sd"].values) if name.endswith("coefficients") else ".4f"
            yield TableRows(summary, *dims).table(title, prefix=f"{name}_", spec=spec, priority=(0, 1, 0))


def _notes(tree):
    """Yield the notes of a regression, in the order in which they are read."""
    attrs = facts_of(tree)
    yield Note(
        Kind.DATA,
        f"{number_of(int(attrs['n_patterns']), 'distinct row')} of covariates; prior {attrs['prior']}; method "
        f"{attrs['method']}; seed {attrs['random_seed']}.",
    )
    if rises := _rises(tree):
        yield Note(
            Kind.METHOD,
            f"The intercept, and coefficients of what multiplies {listed(rises)}, are at its mean over respondents, not at "
            "the first level.",
        )
    yield from notes_of(tree)
    yield from stated(attrs, (Kind.DATA, "totals"), (Kind.WARNING, "prior_decides"))


def _figures(tree):
    """Yield the coefficients, and predictions over the covariates."""
    level = percent(tree["summary"].attrs["ci_prob"])

    caption = f"Coefficients, as {_scale(tree)} against {tree.attrs['reference']}, with {level} intervals."
    yield _coefficients_figure(tree, caption)
    design = tree["design"].to_dataset()
    names = [str(name).removeprefix("covariate ") for name in design.data_vars if str(name).startswith("covariate ")]
    if not names:
        return
    columns, people = {name: design[f"covariate {name}"].values for name in names}, design["n_reports"].values
    if curves := [name for name in names if _is_curve(tree, name, columns[name])]:
        for name in curves:
            table, others = _rows_along(name, columns, people)
            caption = f"Predicted shares over {name} with {level} intervals{others}."
            yield Figure(f"over_{name}", caption, caption, functools.partial(_predicted, tree, table))
        return
    table, which = _rows_to_predict(columns, people)
    caption = f"Predicted shares with {level} intervals {which}."
    draw = functools.partial(_predicted, tree, table)
    yield Figure("predictions", caption, f"One line per row of covariates: {caption}", draw)


def _predicted(tree, table):
    return plots.plot_predictions(predictions(tree, table, ci_prob=tree["summary"].attrs["ci_prob"]), title="")


def _is_curve(tree, name, values):
    """Return whether a curve, a walk or steps over a covariate of many numbers are among the terms."""
    over = any(re.search(rf"\b{re.escape(name)}\b", term) for term in changes(tree))
    return over and values.dtype.kind in "iuf" and len(np.unique(values)) > LEVELS


def _rows_along(name, columns, people):
    """Return (rows along a covariate as a dict of columns, at which levels the others are in words): the most frequent."""
    points, others = np.unique(columns[name]), {}
    points = points[np.unique(np.linspace(0, points.size - 1, ROWS).astype(int))]
    for other in columns.keys() - {name}:
        labels, place = np.unique(columns[other], return_inverse=True)
        others[other] = labels[np.bincount(place.ravel(), people).argmax()]
    others = {other: others[other] for other in columns if other != name}
    said = ", ".join(f"{other} {value}" for other, value in others.items())
    rows = {other: np.repeat(np.atleast_1d(value), points.size) for other, value in others.items()}
    return {name: points} | rows, f"; the others at their most frequent values: {said}" if said else ""


def _rows_to_predict(columns, people):
    """Return (rows of covariates as a dict of columns, which they are in words): None for all, a grid, the most frequent.

    The grid has the deciles 1, 5 and 9 of columns of many numbers, over the people, and of the others all levels that occur
    together.
    """
    names, n = list(columns), len(people)
    rows = np.lexsort([np.unique(columns[name], return_inverse=True)[1] for name in names[::-1]])
    if n <= PREDICTED:
        return None, "for every row of covariates"
    levels, cut = {}, []
    for name, values in columns.items():
        levels[name] = np.unique(values)
        if values.dtype.kind in "iuf" and len(levels[name]) > LEVELS:
            order = np.argsort(values, kind="stable")
            share = np.cumsum(people[order]) / people.sum()
            levels[name] = np.unique(values[order][np.searchsorted(share, (0.1, 0.5, 0.9))])
            cut.append(name)
    if cut and np.prod([len(points) for points in levels.values()]) <= PREDICTED:
        grid = dict(zip(names, (part.ravel() for part in np.meshgrid(*levels.values(), indexing="ij")), strict=True))
        others = [name for name in names if name not in cut]  # their levels go together as they do in the data
        seen = {tuple(columns[name][k] for name in others) for k in range(n)}
        present = [tuple(grid[name][k] for name in others) in seen for k in range(grid[names[0]].size)]
        return {name: part[present] for name, part in grid.items()}, f"at the 10 %, 50 % and 90 % quantiles of {listed(cut)}"
    frequent = rows[np.isin(rows, np.argsort(-people, kind="stable")[:PREDICTED])]
    table = {name: values[frequent] for name, values in columns.items()}
    return table, f"for the {PREDICTED} most frequent rows of covariates"


def _coefficients_figure(result, caption):
    draw = functools.partial(plots.plot_coefficients, result, title="")
    alone = functools.partial(plots.plot_coefficients, result)
    return Figure("coefficients", caption, f"Forest plot: {caption} The table has the numbers.", draw, alone)


def _summary(tree):
    """Return the first sentences: the average shares, and the coefficients whose intervals exclude zero."""
    summary, reference = tree["summary"].to_dataset(), tree.attrs["reference"]
    terms = [str(name) for name in summary["term"].values if str(name) != "Intercept"]
    products = [name for name in [*terms, *changes(tree)] if ":" in name]
    factors = {part for name in products for part in name.split(":")}
    clear, interacting = [], False
    for term in terms:
        if term in factors:  # it holds only where the others of its interactions are 0
            interacting = True
            continue
        for category in [str(name) for name in summary["category"].values if str(name) != reference]:
            at = {"term": term, "category": category}
            low, high = (float(summary[f"coefficients_{end}"].sel(at)) for end in ("lower", "upper"))
            if low > 0 or high < 0:
                clear.append(
                    f"{f'those of {category}' if clear else f'the odds of {category} against {reference}'} "
                    f"{'rise' if low > 0 else 'fall'} with {term_in_words(term)}"
                )
    level, curves = percent(summary.attrs["ci_prob"]), list(_curves(tree, summary))
    if not clear and interacting:
        said = "terms interact, so that comparisons and slopes say what a term does"
    elif not clear and curves:
        said = ""
    elif not clear:
        but = " but the intercept" if "Intercept" in summary["term"].values else ""
        said = f"no coefficient{but} has a {level} interval that excludes zero"
    else:
        rest = len(clear) - SENTENCES
        more = f", and {rest} further coefficients differ from zero" if rest > 0 else ""
        said = f"at {level}, {'; '.join(clear[:SENTENCES])}{more}"
    said = "; ".join([*([said] if said else []), *curves])
    if "denial_mean" in summary:
        names = map(str, summary["denied"].values)
        numbers = (np.atleast_1d(summary[f"denial_{key}"].values) for key in ("mean", "lower", "upper", "sd"))
        said += "".join(
            f"; of those in {name} an estimated {share} deny"
            for name, share in zip(names, shares(*numbers, interval_of(summary.attrs["ci_prob"])), strict=True)
        )
    formula = tree.attrs.get("formula", tree.attrs["title"])
    return f"{summary_of_fit(tree).removesuffix('.')}; by the regression {formula}, {said}."


def _facts(tree):
    """Return every number under stable names: the keys of the JSON output."""
    summary, attrs = tree["summary"].to_dataset(), facts_of(tree)
    names = ("method", "reason", "n_reports", "n_patterns", "prior", "random_seed", "reference", "link", "identifiability")
    diagnostics = ("converged", "outcome", "k_hat", "effective_draws", "log_evidence", "prior_decides", "design_effect")
    spread = {}
    if "parameter" in summary.coords:
        names_of = [str(name) for name in summary["parameter"].values]
        device = np.array([_kind_of(name) == DEVICE for name in names_of])
        for key, label, at in (("group_sd", "effects", ~device), ("device", "probability", device)):
            if at.any():
                own = [name.removesuffix("_sigma") for name, is_in in zip(names_of, at, strict=True) if is_in]
                spread[key] = {label: own, **numbers_of(summary.isel(parameter=at), {}, "parameter_")}
    for _, name, dims in BESIDE:
        if f"{name}_mean" in summary:
            labels = {dim: [str(label) for label in summary[dim].values] for dim in dims}
            spread[name] = labels | numbers_of(summary, {}, f"{name}_")
    return {
        "formula": attrs.get("formula", attrs["title"]),
        **{name: attrs[name] for name in names if name in attrs},
        "ci_prob": summary.attrs["ci_prob"],
        "terms": [str(name) for name in summary["term"].values],
        "categories": [str(name) for name in summary["category"].values],
        "coefficients": numbers_of(summary, {}, "coefficients_"),
        "changes": {term: numbers_of(summary, {}, f"{name}_") for name, term in changes(tree).items()},
        "distribution": numbers_of(summary, {"target": "distribution"}),
        **spread,
        "diagnostics": {name: attrs[name] for name in diagnostics if name in attrs},
    }


def of_predicted(answer):
    """Return the figure of predictions, comparisons, slopes or a population, or None of another answer."""
    if not isinstance(answer, Answer) or answer.settings.get("function") not in _PREDICTED or not is_predicted(answer):
        return None
    level = percent(answer.attrs["ci_prob"])
    groups = "group" in answer.dims
    caption = f"{answer.attrs['question']}, with {level} intervals{'; the line is the population' if groups else ''}."
    alt = f"One line per {'subgroup' if groups else 'row'}: {caption} The table has the numbers."
    return figure_of("subgroups" if groups else "predicted", caption, alt, plots.plot_predictions, answer)
