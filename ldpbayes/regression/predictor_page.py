"""The page of a regression whose predictor is a private answer: the effect on the outcome first."""

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, stated
from ldpbayes.pages.prose import number_of
from ldpbayes.pages.tables import TableRows, filled, interval_of, numbers_of, percent, spec_of
from ldpbayes.regression import figures, page
from ldpbayes.regression.predictor import FAMILIES
from ldpbayes.regression.predictor_maximum import OutcomeMaximum
from ldpbayes.regression.predictor_target import form_decides
from ldpbayes.regression.questions import comparisons
from ldpbayes.result.facts import facts_of

#: What differs between answers, by family.
_WHAT = {"normal": "the mean of {}", "bernoulli": "the share of {}", "poisson": "the mean count of {}"}


def of_posterior(result) -> Page:
    """Return the Page of the posterior of regress() with an outcome."""
    whole, facts, summary = page.of_regression(result), facts_of(result), result["summary"].to_dataset()
    y, answer, ci_prob = facts["formula"].partition("~")[0].strip(), facts["predictor"], summary.attrs["ci_prob"]
    effect = comparisons(result, answer, ci_prob=ci_prob)
    median = result["posterior"]["outcome_coefficients"].median(("chain", "draw"))
    tables = [_outcome_table(summary, y, facts["family"], "outcome_coefficients_", "mean", median)]
    tables.append(
        TableRows(effect, "comparison").table(f"Differences of {y} by {answer}", spec=spec_of(effect["sd"].values))
    )
    tables += _of_answer(whole.tables, answer)
    if "outcome_sd_mean" in summary:
        rows = TableRows(summary, "outcome")
        spec = spec_of(summary["outcome_sd_sd"].values)
        tables.append(rows.table(f"sd of {y} given the answer and the covariates", prefix="outcome_sd_", spec=spec))
    of_form = Kind.WARNING if form_decides(facts) else Kind.METHOD
    notes = [*whole.notes, *stated(facts, (Kind.WARNING, "contradiction"), (of_form, "form"))]
    of_mean, of_ends = float(effect["mcse"].max()), float(np.maximum(effect["lower_error"], effect["upper_error"]).max())
    by_draws = f"Differences are averages over draws: Monte Carlo error {of_mean:.2g} of the mean, {of_ends:.2g} of an end."
    notes.append(Note(Kind.METHOD, by_draws))
    numbers = {"private_formula": facts["private_formula"], "family": facts["family"], "form_share": facts["form_share"]}
    numbers |= {"outcome_terms": [str(name) for name in summary["outcome_term"].values]}
    numbers |= {"outcome_coefficients": numbers_of(summary, {}, "outcome_coefficients_")}
    numbers |= {"effect": {"comparison": [str(name) for name in effect["comparison"].values], **numbers_of(effect, {})}}
    return Page(
        whole.title,
        tuple(tables),
        tuple(notes),
        (_figure(summary, y, facts["family"], "outcome_coefficients_"), *whole.figures[:1]),
        {**whole.facts, **numbers},
        _summary(result, effect, y, facts, ci_prob),
    )


def of_maximum(result: OutcomeMaximum, *, ci_prob: float | None = None) -> Page:
    """Return the Page of maximum-likelihood estimates with an outcome."""
    ci_prob = result.ci_prob if ci_prob is None else ci_prob
    whole, summary = page.of_maximum(result, ci_prob=ci_prob), result.summary(ci_prob)
    y, answer = result.formula.partition("~")[0].strip(), result.private_formula.partition("~")[0].strip()
    tables = [_outcome_table(summary, y, result.family, "outcome_", "estimate")]
    tables += _of_answer(whole.tables, answer)
    at = [k for k, name in enumerate(summary["outcome_term"].values) if str(name).startswith(f"private({answer})[")]
    effects = summary.isel(outcome_term=at)
    values = [effects[f"outcome_{key}"].values for key in ("mean", "lower", "upper")]
    said = "; ".join(
        f"{name} has the coefficient {_number(mean, sd)} ({interval_of(ci_prob)} {_number(low, sd)} to {_number(high, sd)})"
        for name, mean, low, high, sd in zip(
            effects["outcome_term"].values, *values, effects["outcome_sd"].values, strict=True
        )
    )
    facts: dict[str, Any] = {name: result[name].values for name in ("outcome_coefficients", "outcome_standard_errors")}
    facts |= {name: getattr(result, name) for name in ("private_formula", "family", "outcome_sd")}
    facts |= {"outcome_terms": [str(name) for name in summary["outcome_term"].values]}
    figure = _figure(summary, y, result.family, "outcome_")
    text = f"From {result.mechanisms}, by maximum likelihood of the {result.family} regression {result.formula}, {said}."
    return replace(
        whole, tables=tuple(tables), figures=(figure, *whole.figures), facts={**whole.facts, **facts}, summary=text
    )


def _outcome_table(summary, y, family, prefix, heading, middle=None):
    """Return the table of the coefficients of the outcome, with their exponentials where these mean something.

    ``middle`` are posterior medians of the coefficients; without them the coefficients are estimates.
    """
    law, rows = FAMILIES[family], TableRows(summary, "outcome_term")
    ci_prob = summary.attrs["ci_prob"]
    settings: dict[str, Any] = {"prefix": prefix, "heading": heading, "spec": spec_of(summary[f"{prefix}sd"].values)}
    columns = [rows.label("outcome_term", "term"), *rows.summary(summary, **settings, priority=(0, 1, 0))]
    if middle is None:
        columns = [(replace(column, heading="s.e.") if column.heading == "sd" else column, x) for column, x in columns]
    if law.factor:
        low, high = (np.exp(summary[f"{prefix}{key}"]) for key in ("lower", "upper"))
        point = np.exp(summary[f"{prefix}mean"] if middle is None else middle)
        means = "" if middle is None else "Exponential of the posterior median of the coefficient."
        heading = law.factor if middle is None else f"median {law.factor}"
        ratio = Column(f"{law.key}_ratio", heading, spec="#.3g", means=means)
        full = f"{interval_of(ci_prob)} of the {law.factor}"
        interval = Column(f"{law.key}_interval", interval_of(ci_prob), "interval", "#.3g", 2, full=full)
        columns += [(ratio, rows.numbers(point)), (interval, rows.pairs(low, high))]
    return filled(f"Coefficients of {y}: {law.words}", columns)


def _of_answer(tables, answer):
    """Yield the tables of the private answer, which their titles name, and that of the device."""
    for table in tables:
        of_device = table.title == page.DEVICE
        yield table if of_device else replace(table, title=f"{answer}: {table.title[:1].lower()}{table.title[1:]}")


def _figure(summary, y, family, prefix):
    """Return the forest of the coefficients of the outcome."""
    caption = f"Coefficients of {y}, {FAMILIES[family].words}, with {percent(summary.attrs['ci_prob'])} intervals."
    draw = functools.partial(_drawn, summary, y, prefix)
    return Figure("outcome", caption, f"Forest plot: {caption} The table has the numbers.", draw)


def _drawn(summary, y, prefix, **style):
    terms = [str(name) for name in summary["outcome_term"].values]
    at = [k for k, name in enumerate(terms) if name != "Intercept"]
    values = [summary[f"{prefix}{key}"].values[at, None] for key in ("mean", "lower", "upper")]
    level = f"{percent(summary.attrs['ci_prob'])} interval"
    return figures.drawn_forest([terms[k] for k in at], y, values, level, **style)


def _number(value, sd):
    """Return a number with two digits of its sd."""
    places = max(0, 1 - int(np.floor(np.log10(sd)))) if sd > 0 else 4
    return f"{value:,.{places}f}"


def _summary(result, effect, y, facts, ci_prob):
    """Return the first sentence: how the outcome differs between answers, from how many reports, by which model."""
    what, answer, clauses = _WHAT[facts["family"]].format(y), facts["predictor"], []
    for name in map(str, effect["comparison"].values):
        mean, low, high, sd = (float(effect[key].sel(comparison=name)) for key in ("mean", "lower", "upper", "sd"))
        more, less = name.split(" - ", 1)
        ends = sorted([low, high] if mean >= 0 else [-low, -high])
        clauses.append(
            f"{_number(abs(mean), sd)} ({interval_of(ci_prob)} {_number(ends[0], sd)} to {_number(ends[1], sd)}) "
            f"{'higher' if mean >= 0 else 'lower'} where {answer} is {more} than where it is {less}"
        )
    n = number_of(int(facts["n_reports"]), "report")
    design = facts.get("mechanisms") or n
    design = design if design.startswith(n.partition(" ")[0] + " ") else f"{n} ({design})"
    doubt = "; the reports contradict it, so this is not final" if facts["contradiction"] else ""
    doubt = doubt if result.attrs.get("converged", 1) else "; the computation failed its own checks, so this is not final"
    model = f"the {facts['family']} regression {facts['formula']}"
    return f"From {design}, {what} is {' and '.join(clauses)}, all else equal, by {model}{doubt}."
