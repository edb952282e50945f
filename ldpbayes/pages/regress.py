"""The page of a regression."""

import math

import numpy as np

from ldpbayes.pages.about import about, again, fingerprint_of_arrays
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.prose import as_sentences, number_of
from ldpbayes.regression.maximum import Maximum

#: Terms × categories that a table shows.
TOP = 200
#: Rows of the figure of predictions.
PREDICTED = 24
_LOG_ODDS = "Change of the log odds against the reference category for one more unit of the column."
_ODDS = "Factor of the odds: the exponential of the log odds."


def of_regression(tree, *, top: int = TOP, collection=None, command: str = "") -> Page:
    """Return the Page of the posterior that regress() returned.

    Parameters
    ----------
    tree : DataTree
    top : int
        Rows of a table.
    collection : Collection or Cells, optional
        Where the reports come from: the page then says question and design.
    command : str
        The line for a shell that makes this page.

    Returns
    -------
    Page
        Coefficients as log odds and odds ratios, the average distribution, notes, and figures.
    """
    attrs, summary = tree.attrs, tree["summary"].to_dataset()
    tables = [_coefficient_table(tree, top), _share_table(summary)]
    if "parameter" in summary.coords:
        tables.append(_spread_table(summary))
    arrays = {str(name): values.values for name, values in tree["observed_data"].data_vars.items()}
    data = fingerprint_of_arrays(summary["category"].values, arrays)
    return Page(
        attrs["title"],
        tuple(tables),
        tuple(_notes(tree)),
        tuple(_figures(tree)),
        _facts(tree),
        _summary(tree),
        {} if collection is None else about(collection),
        again(command, seed=int(attrs["random_seed"]), data=data, settings=attrs["settings"]),
    )


def of_maximum(found: Maximum, *, ci_prob: float | None = None, command: str = "") -> Page:
    """Return the Page of maximum-likelihood estimates.

    Parameters
    ----------
    found : Maximum
    ci_prob : float, optional
        Of the intervals; by default that of regress.
    command : str
    """
    ci_prob = found.ci_prob if ci_prob is None else ci_prob
    summary = found.summary(ci_prob)
    several = summary.sizes["category"] > 1
    level = f"{ci_prob * 100:g} % interval"
    columns = [
        Column("term", "term", "text"),
        *([Column("category", "category", "text")] if several else []),
        Column("estimate", "log odds", means=_LOG_ODDS),
        Column("standard_error", "s.e."),
        Column("interval", level, "interval", priority=2),
        Column("odds_ratio", "odds ratio", spec="#.3g", priority=1, means=_ODDS),
        Column("odds_interval", level, "interval", "#.3g", 3, full=f"{level} of the odds ratio"),
    ]
    rows = []
    for term in summary["term"].values:
        for category in summary["category"].values:
            one = {key: float(summary[key].sel(term=term, category=category)) for key in summary.data_vars}
            rows.append(
                (
                    str(term),
                    *([str(category)] if several else []),
                    one["mean"],
                    one["sd"],
                    (one["lower"], one["upper"]),
                    one["odds_ratio"],
                    (one["odds_lower"], one["odds_upper"]),
                )
            )
    title = _coefficients_of(found.reference, [str(c) for c in summary["category"].values])
    notes = (
        Note(Kind.METHOD, found.outcome),
        Note(Kind.ESTIMATE, found.fit),
    )

    def draw():
        from ldpbayes.plots import plot_coefficients

        return plot_coefficients(found)

    caption = f"Coefficients with {level}s."
    facts = {
        "method": "mle",
        "formula": found.formula,
        "n_reports": found.n_reports,
        "reference": found.reference,
        "terms": list(found.terms),
        "categories": list(found.categories),
        "coefficients": found.coefficients.values,
        "standard_errors": found.standard_errors.values,
        "log_likelihood": found.log_likelihood,
        "deviance": found.deviance,
        "weighted": found.weighted,
    }
    return Page(
        found.formula,
        (Table(title, tuple(columns), tuple(rows)),),
        notes,
        (Figure("coefficients", caption, f"Forest plot: {caption} The table has the numbers.", draw),),
        facts,
        f"From {number_of(found.n_reports, 'report')}, by maximum likelihood.",
        {},
        again(command),
    )


def _coefficients_of(reference, categories):
    """Return the title of the table of coefficients."""
    which = f"log odds of {categories[0]}" if len(categories) == 1 else "log odds"
    return f"Coefficients: {which} against {reference}"


def _coefficient_table(tree, top):
    summary, reference = tree["summary"].to_dataset(), tree.attrs["reference"]
    draws = tree["posterior"]["coefficients"]
    categories = [str(name) for name in summary["category"].values if str(name) != reference]
    level, several = f"{summary.attrs['ci_prob'] * 100:g} % interval", len(categories) > 1
    columns = [
        Column("term", "term", "text"),
        *([Column("category", "category", "text")] if several else []),
        Column("mean", "log odds", full="mean of the log odds", means=_LOG_ODDS),
        Column("sd", "sd", priority=1),
        Column("interval", level, "interval", priority=2),
        Column("odds_ratio", "odds ratio", spec="#.3g", priority=3, means=_ODDS),
        Column("odds_interval", level, "interval", "#.3g", 4, full=f"{level} of the odds ratio"),
        Column(
            "positive", "P(> 0)", spec=".3f", priority=5, means="Posterior probability that the log odds are above zero."
        ),
    ]
    rows, total = [], len(summary["term"]) * len(categories)
    for term in [str(name) for name in summary["term"].values]:
        for category in categories:
            if len(rows) >= top:
                break
            at = {"term": term, "category": category}
            mean, sd, low, high = (float(summary[f"coefficients_{key}"].sel(at)) for key in ("mean", "sd", "lower", "upper"))
            values = draws.sel(at).values.ravel()
            middle, lower, upper = np.exp([np.median(values), low, high])
            label = [category] if several else []
            rows.append((term, *label, mean, sd, (low, high), middle, (lower, upper), float((values > 0).mean())))
    note = f"The first {len(rows):,} of {total:,} coefficients are shown." if len(rows) < total else ""
    return Table(_coefficients_of(reference, categories), tuple(columns), tuple(rows), note)


def _share_table(summary):
    level = f"{summary.attrs['ci_prob'] * 100:g} % interval"
    columns = (
        Column("category", "category", "text"),
        Column("distribution_mean", "mean of P"),
        Column("distribution_sd", "sd", priority=1, full="sd of P"),
        Column("distribution_interval", level, "interval", full=f"{level} of P"),
    )
    p = summary.sel(target="distribution")
    rows = []
    for x, name in enumerate(summary["category"].values):
        mean, sd, low, high = (float(p[key].values[x]) for key in ("mean", "sd", "lower", "upper"))
        rows.append((str(name), mean, sd, (low, high)))
    return Table("Average over the respondents' covariates", columns, tuple(rows))


def _spread_table(summary):
    level = f"{summary.attrs['ci_prob'] * 100:g} % interval"
    columns = (
        Column("parameter", "sd between groups", "text"),
        Column("mean", "mean"),
        Column("sd", "sd", priority=1),
        Column("interval", level, "interval"),
    )
    rows = []
    for i, name in enumerate(summary["parameter"].values):
        mean, sd, low, high = (float(summary[f"parameter_{key}"].values[i]) for key in ("mean", "sd", "lower", "upper"))
        rows.append((str(name).removesuffix("_sigma"), mean, sd, (low, high)))
    return Table("Effects of groups", columns, tuple(rows))


def _notes(tree):
    """Yield the notes of a regression, in the order in which they are read."""
    attrs = tree.attrs
    yield Note(
        Kind.DATA,
        f"{attrs['n_reports']:,} reports in {number_of(int(attrs['n_patterns']), 'distinct row')} of covariates; prior "
        f"{attrs['prior']}; method {attrs['method']}; seed {attrs['random_seed']}.",
    )
    yield Note(Kind.METHOD, f"Why {attrs['method']}: {as_sentences(attrs['reason'])}")
    kind = Kind.DIAGNOSTIC if attrs["converged"] else Kind.WARNING
    for found, name in (
        (kind, "outcome"),
        (Kind.WARNING, "identifiability"),
        (Kind.WARNING, "caveat"),
        (Kind.DATA, "device"),
        (Kind.WARNING, "prior_decides"),
        (Kind.DATA, "pseudo"),
    ):
        if attrs.get(name):
            yield Note(found, as_sentences(attrs[name]))
    if math.isfinite(attrs.get("log_evidence", math.nan)):
        yield Note(
            Kind.EVIDENCE, f"Log-evidence {attrs['log_evidence']:.4f}, standard error {attrs['log_evidence_error']:.4f}."
        )


def _figures(tree):
    """Yield the coefficients, and predictions for the most frequent rows of covariates."""
    level = f"{tree['summary'].attrs['ci_prob'] * 100:g} %"

    def coefficients():
        from ldpbayes.plots import plot_coefficients

        return plot_coefficients(tree)

    caption = f"Coefficients, as log odds against {tree.attrs['reference']}, with {level} intervals."
    yield Figure("coefficients", caption, f"Forest plot: {caption} The table has the numbers.", coefficients)
    held = tree["design"].to_dataset()
    names = [str(name).removeprefix("covariate ") for name in held.data_vars if str(name).startswith("covariate ")]
    if not names:
        return

    def predictions():
        from ldpbayes.answers.regression import predictions as predict
        from ldpbayes.plots import plot_predictions

        largest = np.sort(np.argsort(-held["n_reports"].values, kind="stable")[:PREDICTED])
        table = {name: held[f"covariate {name}"].values[largest] for name in names}
        return plot_predictions(predict(tree, table, ci_prob=tree["summary"].attrs["ci_prob"]))

    shown = min(PREDICTED, held.sizes["pattern"])
    caption = f"Predicted shares with {level} intervals for the {shown} most frequent rows of covariates."
    if shown == held.sizes["pattern"]:
        caption = f"Predicted shares with {level} intervals for every row of covariates."
    yield Figure("predictions", caption, f"One line per row of covariates: {caption}", predictions)


def _summary(tree):
    """Return the first sentences: the average shares, and the coefficients whose intervals exclude zero."""
    from ldpbayes.pages.summary import summary_of_fit

    summary, reference = tree["summary"].to_dataset(), tree.attrs["reference"]
    terms = [str(name) for name in summary["term"].values if str(name) != "Intercept"]
    parts = {part for name in terms if ":" in name for part in name.split(":")}
    clear, interacting = [], False
    for term in terms:
        if term in parts:  # it holds only where the others of its interactions are 0
            interacting = True
            continue
        for category in [str(name) for name in summary["category"].values if str(name) != reference]:
            at = {"term": term, "category": category}
            low, high = (float(summary[f"coefficients_{end}"].sel(at)) for end in ("lower", "upper"))
            if low > 0 or high < 0:
                clear.append(
                    f"{f'those of {category}' if clear else f'the odds of {category} against {reference}'} "
                    f"{'rise' if low > 0 else 'fall'} with {term}"
                )
    level = f"{summary.attrs['ci_prob'] * 100:g} %"
    if not clear and interacting:
        return f"{summary_of_fit(tree)} Terms interact: comparisons and slopes average over people what a term does."
    if not clear:
        return f"{summary_of_fit(tree)} No coefficient has a {level} interval that excludes zero."
    more = f", and {len(clear) - 4} further coefficients differ from zero" if len(clear) > 4 else ""
    return f"{summary_of_fit(tree)} At {level}, {'; '.join(clear[:4])}{more}."


def _facts(tree):
    """Return every number under stable names: the keys of the JSON output."""
    summary, attrs = tree["summary"].to_dataset(), tree.attrs
    keys = ("mean", "sd", "lower", "upper", "mcse")
    names = ("method", "reason", "n_reports", "n_patterns", "prior", "random_seed", "reference", "identifiability")
    kept = ("converged", "outcome", "k_hat", "effective_draws", "log_evidence", "prior_decides", "design_effect")
    spread = {}
    if "parameter" in summary.coords:
        values = {key: summary[f"parameter_{key}"].values for key in keys}
        names_of = [str(name).removesuffix("_sigma") for name in summary["parameter"].values]
        spread = {"group_sd": {"effects": names_of, **values}}
    return {
        "formula": attrs["title"],
        **{name: attrs[name] for name in names},
        "ci_prob": summary.attrs["ci_prob"],
        "terms": [str(name) for name in summary["term"].values],
        "categories": [str(name) for name in summary["category"].values],
        "coefficients": {key: summary[f"coefficients_{key}"].values for key in keys},
        "distribution": {key: summary[key].sel(target="distribution").values for key in keys},
        **spread,
        "diagnostics": {name: attrs[name] for name in kept if name in attrs},
    }
