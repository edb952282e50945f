"""The page of private groups of an open measurement."""

import functools
import math
from dataclasses import replace

import numpy as np

from ldpbayes import plots
from ldpbayes.errors import listed
from ldpbayes.pages.page import TOP, Column, Figure, Kind, Note, Page, Table
from ldpbayes.pages.summary import shares
from ldpbayes.pages.tables import TableRows, filled, interval_of, percent
from ldpbayes.plots.base import asked
from ldpbayes.private_groups import PrivateGroups
from ldpbayes.private_groups.figures import largest_cells, quantity_name

#: What the facts take from a result as it is.
_FACTS = ("target", "method", "reason", "outcome", "trusted", "left_out", "n_records", "n_bins", "ci_prob", "random_seed")
#: Display: Numbers of a table of which the largest is so many times the middle one have four digits each.
SPREAD = 1e4
_ABOVE = "Posterior probability that the difference is above zero."
_RECIPE = "What negative weights give: unbiased, without an interval."


def of_groups(
    result: PrivateGroups,
    *,
    unit: str = "",
    design: str = "",
    top: int = TOP,
) -> Page:
    """Return the Page of the groups that by_private_group found."""
    heading = _capital(result.value) + (f" ({unit})" if unit else "")
    apart = f"{heading}: differences from {result.groups[0]}"
    tables = [
        _table(result, heading, result.summary(), "value_", "estimate", top),
        _table(result, "Shares of the groups", result.summary(), "share_", "share", top),
        _table(result, apart, result.differences(), "difference_", "difference", top),
    ]
    title = f"{_capital(result.value)} by private group"
    about = {"Groups": f"{len(result.groups)} private groups: {listed(result.groups)}.", "Design": design}
    if result.by:
        about["Cells"] = (
            f"{len(result.cells):,} combinations of {' and '.join(result.by)}; the groups are estimated in each."
        )
    return Page(
        title,
        tuple(tables),
        tuple(_notes(result)),
        tuple(_figures(result, unit)),
        _facts(result, unit),
        _summary(result, unit),
        {heading: text for heading, text in about.items() if text},
        {"Random seed": str(result.random_seed)},
    )


def long_rows(result: PrivateGroups) -> list[dict]:
    """Return every answer as a row.

    Columns are cell, group, quantity, versus, mean, sd, lower, upper, mcse, probability_positive and recipe.
    TableRows of quantities have no ``versus``; those of differences name the group that is compared with, and have the
    probability that the difference is above zero.

    Parameters
    ----------
    result : PrivateGroups
    """
    lines = []
    for table, versus in ((result.summary(), ""), (result.differences(), result.groups[0])):
        rows = TableRows(table, "cell", "group", "quantity")
        keys = ("mean", "sd", "lower", "upper", "mcse", *(["probability_positive"] if versus else []))
        numbers = zip(*(rows.numbers(table[key]) for key in keys), strict=True)
        labels = zip(rows.label("group")[1], rows.label("quantity")[1], strict=True)
        recipe = [math.nan] * rows.size if versus else rows.numbers(_recipe(result, table))
        cells = np.repeat(np.arange(len(result.cells)), rows.size // len(result.cells)).tolist()
        for cell, (group, quantity), values, value in zip(cells, labels, numbers, recipe, strict=True):
            covariates = dict(zip(result.columns, map(_plain, result.cells[cell]), strict=True))
            line = {**covariates, "group": group, "quantity": quantity, "versus": versus}
            answer = dict(zip(keys, values, strict=True))
            answer |= {"probability_positive": answer.get("probability_positive")}
            answer |= {"recipe": None if math.isnan(value) else value}
            lines.append(line | answer)
    return lines


def rows_table(result: PrivateGroups) -> Table:
    """Return every answer as a row of a table, for files that other programs read."""
    rows = long_rows(result)
    return Table("", tuple(Column(key, key, "text") for key in rows[0]), tuple(tuple(row.values()) for row in rows))


def _plain(key):
    """Return an entry of a key as it stands in any file: dates and other objects as their text."""
    return key if isinstance(key, (bool, int, float)) else str(key)


def _recipe(result: PrivateGroups, summary):
    """Return the reweighting recipe's value of every entry of a summary; nan where it has none."""
    names = list(map(str, summary["quantity"].values))
    values = np.full((len(result.cells), len(result.groups), len(names)), np.nan)
    for cell, entry in enumerate(result.recipe or ()):
        numbers = {"share": entry["share"]}
        if result.levels is None:
            levels = [f"q{100 * level:g}" for level in result.quantiles]
            numbers |= {"mean": entry["mean"], **dict(zip(levels, np.asarray(entry["quantile"]), strict=True))}
        for i, name in enumerate(names):
            values[cell, :, i] = numbers.get(name, np.nan)
    values = summary["mean"].copy(data=values if result.by else values[0])
    return values.where(np.isfinite(values))


def _spec(result, values):
    """Return a format with about four digits for the numbers of a table."""
    if result.levels is not None:
        return ".4f"
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    most = float(sizes.max(initial=0.0))
    if sizes.size and most > SPREAD * np.median(sizes):  # by a mean far out in a tail
        return ".4g"
    return ",.0f" if most >= 1000 else ".1f" if most >= 100 else ".2f" if most >= 10 else ".4g"


def _table(result, title, answer, key, heading, top):
    """Return the table of shares, of mean and quantiles or the levels of an open category, or of differences of these.

    It shows the combinations with most records, and knows all of them.
    """
    of_shares = key == "share_"
    answer = answer.sel(quantity=(answer["quantity"] == "share") == of_shares)
    spec = ".4f" if of_shares else _spec(result, answer["mean"].values)
    if "probability_positive" not in answer:
        answer = answer.assign(recipe=_recipe(result, answer))
    per_cell, every = answer.sizes["quantity"] * answer.sizes["group"], list(range(len(result.cells)))
    shown = largest_cells(result, max(1, top // max(per_cell, 1)))
    note = "" if shown == every else f"The {len(shown):,} of {len(every):,} combinations with most records are shown."

    def table(cells, note, whole):
        chosen = answer.isel(cell=cells) if result.by else answer
        rows = TableRows(chosen, "cell", "group", "quantity")
        labels = [rows.label(name, by) for name, by in zip(result.columns, result.by, strict=True)] + [rows.label("group")]
        (mean, values), sd, interval = rows.summary(chosen, key=key, heading=heading, spec=spec, priority=(0, 2, 0))
        if not of_shares:
            label, names = rows.label("quantity", result.value if result.levels is not None else "quantity")
            labels.append((label, list(map(quantity_name, names))))
        if "probability_positive" in chosen:
            above = Column("probability_positive", "P(> 0)", spec=".3f", priority=1, means=_ABOVE)
            more = [(above, rows.numbers(chosen["probability_positive"]))]
        else:
            mean, more = mean if of_shares else replace(mean, full="posterior mean"), [sd]
            if result.recipe is not None and (of_shares or result.levels is None):
                settings = {"spec": spec, "priority": 1, "full": "reweighting recipe", "means": _RECIPE}
                more.append((Column(f"{key}recipe", "recipe", **settings), rows.numbers(chosen["recipe"])))
        return filled(title, [*labels, (mean, values), interval, *more], note, whole=whole)

    return table(shown, note, None if not note else lambda: table(every, "", None))


def _notes(result):
    """Yield the notes, in the order in which they are read."""
    target = "the population that they were drawn from" if result.target == "distribution" else "these very records"
    yield Note(Kind.DATA, f"{result.n_records:,} records; answers are about {target}; seed {result.random_seed}.")
    bins = sorted(set(result.n_bins))
    size = f"{bins[0]:,}" if len(bins) == 1 else f"{bins[0]:,} to {bins[-1]:,}"
    ways = {
        "smooth": f"Smooth curves over {size} bins: the groups' shares change smoothly with the value.",
        "rounding": f"Smooth curves over {size} bins, one for each class of values.",
        "recipe": "The reweighting recipe with a bootstrap.",
    }
    if result.levels is not None and result.method == "smooth":
        yield Note(Kind.METHOD, f"The groups' shares in each category of {result.value}, with a common spread.")
    else:
        yield Note(Kind.METHOD, ways[result.method])
    kind = Kind.DIAGNOSTIC if result.trusted and result.method != "recipe" else Kind.WARNING
    yield Note(kind, result.outcome)
    if result.left_out:
        yield Note(Kind.WARNING, result.left_out)
    if result.method != "recipe":
        yield Note(Kind.METHOD, result.who_decides)
    if result.discretization is not None:
        moved = result.discretization_sd
        yield Note(Kind.METHOD, f"The bins move share, mean and quantiles by at most {moved:.2f} posterior sd.")
    if result.recipe is not None:
        text = "The recipe weighs records by the inverse channel: a report that contradicts a group gives a negative weight."
        yield Note(Kind.ESTIMATE, f"{text} It has no intervals.")


def _figures(result, unit):
    """Yield distribution functions, the forest of quantiles and differences."""
    level = percent(result.ci_prob)

    def figure(name, plot, caption, alt):
        draw = functools.partial(plot, result, unit=unit, top=1, title="")
        return Figure(name, caption, alt.format(caption), draw, functools.partial(plot, result, unit=unit))

    of, each = f"{result.value} in the private groups", "One curve for each group. {}"
    caption = f"Distribution functions of {of}, with pointwise {level} bands."
    if result.levels is None:
        yield figure("functions", plots.plot_private_functions, caption, each)
    what = "Shares" if result.levels is not None else "Means and quantiles"
    caption, alt = f"{what} of {of}, with {level} intervals.", "Forest plot. {} The table has the numbers."
    yield figure("quantiles", plots.plot_private_quantiles, caption, alt)
    if result.levels is None:
        caption = f"How much larger each quantile of {result.value} is than in {result.groups[0]}, with {level} bands."
        yield figure("differences", plots.plot_private_differences, caption, "One curve for each other group. {}")


def _summary(result, unit):
    """Return the first sentence: how far the middles of the groups are apart, and how large the groups are."""
    cell = largest_cells(result, 1)[0]
    summary, apart = result.summary(), result.differences()
    if result.by:
        summary, apart = summary.isel(cell=cell), apart.isel(cell=cell)
    where = f"In {', '.join(map(str, result.cells[cell]))}, the combination with most records, " if result.by else ""
    yes, level, clauses = asked(result.groups), interval_of(result.ci_prob), []
    named = list(result.groups[:4] if yes is None else [result.groups[yes]])
    of = summary.sel(quantity="share", group=named)
    texts = shares(*(of[key].values for key in ("mean", "lower", "upper", "sd")), level)
    if result.levels is None:
        name = "q50" if 0.5 in result.quantiles else "mean"
        what, suffix, scale = quantity_name(name), f" {unit}" if unit else "", 1.0
        spec = _spec(result, apart["mean"].sel(quantity=name).values)
    else:
        clearest = np.abs(apart["probability_positive"] - 0.5).sel(quantity=list(result.levels)).max("group")
        name = result.levels[int(np.argmax(clearest.values))]
        what, suffix, scale, spec = f"share of {name}", " percentage points", 100.0, ".1f"
    for group in map(str, apart["group"].values[:3]):
        gap = apart.sel(group=group, quantity=name)
        mean, low, high = (scale * float(gap[key]) for key in ("mean", "lower", "upper"))
        if not math.isfinite(mean):
            continue
        if low * high > 0:
            least, most = sorted((abs(low), abs(high)))
            side = "larger" if mean > 0 else "smaller"
            clauses.append(
                f"the {what} of {result.value} is {abs(mean):{spec}}{suffix} {side} in {group} than in {result.groups[0]} "
                f"({level} {least:{spec}} to {most:{spec}})"
            )
        else:
            clauses.append(
                f"whether the {what} of {result.value} is larger in {group} or in {result.groups[0]} is not settled, the "
                f"difference being {mean:{spec}}{suffix} ({level} {low:{spec}} to {high:{spec}})"
            )
    clauses += [f"the share of {group} is {text}" for group, text in zip(named, texts, strict=True)]
    through = f" through {result.design}" if result.design else ""
    source = f"from {result.n_records:,} records{through}, by the method {result.method}"
    return _capital(f"{where}{'; '.join(clauses)}; {source}.")


def _capital(text):
    return text[:1].upper() + text[1:]


def _facts(result, unit):
    """Return every number under stable names: the keys of the JSON output."""
    return {
        "value": result.value,
        "unit": unit,
        "groups": list(result.groups),
        "by": list(result.by),
        "cells": [list(map(str, key)) for key in result.cells],
        **{name: getattr(result, name) for name in _FACTS},
        "diagnostics": {
            "sampling": result.sampling,
            "k_hat": result.k_hat,
            "effective_draws": result.effective_draws,
            "discrepancy": result.check.worst[0],
            "discrepancy_allowed": result.check.worst[1],
        },
        "answers": long_rows(result),
    }
