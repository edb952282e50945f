"""The page of private groups of an open measurement."""

import math

import numpy as np

from ldpbayes.errors import listed
from ldpbayes.outcomes import PrivateGroups
from ldpbayes.pages.about import again
from ldpbayes.pages.page import Column, Figure, Kind, Note, Page, Table
from ldpbayes.plots.outcomes import largest_cells, quantity_name

#: Rows of a table.
TOP = 60
_RECIPE = "What negative weights give: unbiased, without an interval."


def of_groups(
    found: PrivateGroups,
    *,
    unit: str = "",
    design: str = "",
    top: int = TOP,
    command: str = "",
) -> Page:
    """Return the Page of the groups that by_private_group found.

    Parameters
    ----------
    found : PrivateGroups
    unit : str
        Of the open value, such as "ms".
    design : str
        How the reports were made, in words.
    top : int
        Rows of a table.
    command : str
        The line for a shell that makes this page.

    Returns
    -------
    Page
        Share, mean and quantiles of every group with the reweighting recipe's numbers beside them, differences between
        groups, and figures.
    """
    tables = [_share_table(found, top), _value_table(found, unit, top), _difference_table(found, unit, top)]
    title = f"{_capital(found.value)} by private group"
    about = {"Groups": f"{len(found.groups)} private groups: {listed(found.groups)}.", "Design": design}
    if found.by:
        about["Cells"] = f"{len(found.cells):,} combinations of {' and '.join(found.by)}; the groups are estimated in each."
    return Page(
        title,
        tuple(tables),
        tuple(_notes(found)),
        tuple(_figures(found, unit)),
        _facts(found, unit),
        _summary(found, unit),
        {heading: text for heading, text in about.items() if text},
        again(command, seed=found.random_seed),
    )


def long_rows(found: PrivateGroups) -> list[dict]:
    """Return every answer as a row: cell, group, quantity, versus, mean, sd, lower, upper, mcse, probability, recipe.

    Rows of quantities have no ``versus``; those of differences name the group that is compared with, and have the
    probability that the difference is above zero.

    Parameters
    ----------
    found : PrivateGroups
    """
    rows = []
    keys = ("mean", "sd", "lower", "upper", "mcse")
    for table, versus in _tables(found):
        for cell in range(len(found.cells)):
            own = table.isel(cell=cell) if found.by else table
            covariates = dict(zip(found.columns, map(_plain, found.cells[cell]), strict=True))
            for group in map(str, own["group"].values):
                for quantity in map(str, own["quantity"].values):
                    one = own.sel(group=group, quantity=quantity)
                    row = {**covariates, "group": group, "quantity": quantity, "versus": versus}
                    row |= {key: float(one[key]) for key in keys}
                    row["probability"] = float(one["probability"]) if versus else None
                    row["recipe"] = None if versus else recipe_of(found, cell, group, quantity)
                    rows.append(row)
    return rows


def _plain(key):
    """Return an entry of a key as it stands in any file: dates and other objects as their text."""
    return key if isinstance(key, (bool, int, float)) else str(key)


def recipe_of(found: PrivateGroups, cell: int, group: str, quantity: str) -> float | None:
    """Return the reweighting recipe's value of a quantity; None where it has none."""
    if found.recipe is None or (found.levels is not None and quantity != "share"):
        return None
    held, x = found.recipe[cell], found.groups.index(group)
    if quantity in ("share", "mean"):
        value = float(held[quantity][x])
    else:
        names = [f"q{100 * level:g}" for level in found.quantiles]
        value = float(np.asarray(held["quantile"])[names.index(quantity), x])
    return value if math.isfinite(value) else None


def _tables(found):
    """Yield (Dataset of quantities, "") and (Dataset of differences, the group that is compared with)."""
    yield found.summary(), ""
    yield _differences(found), found.groups[0]


def _differences(found):
    """Return share, mean and quantiles of each other group less those of the first."""
    import xarray as xr

    parts = [found.difference("share").expand_dims(quantity=["share"])]
    if found.levels is not None:
        table = found.difference("table")
        parts += [table.sel(outcome=one, drop=True).expand_dims(quantity=[one]) for one in found.levels]
    else:
        parts.append(found.difference("mean").expand_dims(quantity=["mean"]))
        if found.quantiles:
            names = [f"q{100 * level:g}" for level in found.quantiles]
            parts.append(found.difference("quantile").assign_coords(quantile=names).rename(quantile="quantity"))
    return xr.concat(parts, "quantity", coords="minimal", compat="override")


def _spec(values):
    """Return a format with about four digits for the numbers of a table."""
    values = [abs(value) for value in values if value is not None and math.isfinite(value)]
    most = max(values, default=1.0)
    return ",.0f" if most >= 1000 else ".1f" if most >= 100 else ".2f" if most >= 10 else ".4g"


def _share_table(found, top):
    """Return the table of the groups' shares."""
    summary = found.summary().sel(quantity="share", drop=True)
    columns = (
        *_key_columns(found),
        Column("share_mean", "share", spec=".4f"),
        Column("share_interval", f"{100 * found.ci_prob:g} % interval", "interval", spec=".4f"),
        Column("share_sd", "sd", spec=".4f", priority=2),
        Column("share_recipe", "recipe", spec=".4f", priority=1, full="reweighting recipe", means=_RECIPE),
    )

    def rows(shown):
        for cell, group, one in _each(found, summary, shown):
            yield *_key(found, cell), group, *_three(one), recipe_of(found, cell, group, "share")

    return _table(found, "Shares of the groups", columns, rows, len(found.groups), top)


def _value_table(found, unit, top):
    """Return the table of mean and quantiles, or of the shares of the levels of an open category."""
    summary = found.summary()
    names = [str(name) for name in summary["quantity"].values if str(name) != "share"]
    spec = ".4f" if found.levels is not None else _spec(summary["mean"].sel(quantity=names).values.ravel().tolist())
    columns = (
        *_key_columns(found),
        Column("quantity", found.value if found.levels is not None else "quantity", "text"),
        Column("value_mean", "estimate", spec=spec, full="posterior mean"),
        Column("value_interval", f"{100 * found.ci_prob:g} % interval", "interval", spec=spec),
        Column("value_sd", "sd", spec=spec, priority=2),
        *(
            [Column("value_recipe", "recipe", spec=spec, priority=1, full="reweighting recipe", means=_RECIPE)]
            * (found.levels is None)
        ),
    )

    def rows(shown):
        for cell, group, one in _each(found, summary, shown):
            for name in names:
                recipe = [recipe_of(found, cell, group, name)] if found.levels is None else []
                yield *_key(found, cell), group, quantity_name(name), *_three(one.sel(quantity=name)), *recipe

    return _table(found, _headed(found, unit), columns, rows, len(names) * len(found.groups), top)


def _difference_table(found, unit, top):
    """Return the table of how much larger mean and quantiles are than in the first group."""
    apart = _differences(found)
    names = [str(name) for name in apart["quantity"].values if str(name) != "share"]
    spec = ".4f" if found.levels is not None else _spec(apart["mean"].sel(quantity=names).values.ravel().tolist())
    columns = (
        *_key_columns(found),
        Column("quantity", found.value if found.levels is not None else "quantity", "text"),
        Column("difference_mean", "difference", spec=spec),
        Column("difference_interval", f"{100 * found.ci_prob:g} % interval", "interval", spec=spec),
        Column(
            "probability", "P(> 0)", spec=".3f", priority=1, means="Posterior probability that the difference is above zero."
        ),
    )

    def rows(shown):
        for cell, group, own in _each(found, apart, shown):
            for name in names:
                one = own.sel(quantity=name)
                yield *_key(found, cell), group, quantity_name(name), *_three(one)[:2], float(one["probability"])

    title = f"{_headed(found, unit)}: differences from {found.groups[0]}"
    return _table(found, title, columns, rows, len(names) * (len(found.groups) - 1), top)


def _headed(found, unit):
    return _capital(found.value) + (f" ({unit})" if unit else "")


def _key_columns(found):
    return (
        *[Column(key, name, "text") for key, name in zip(found.columns, found.by, strict=True)],
        Column("group", "group", "text"),
    )


def _key(found, cell):
    return tuple(map(str, found.cells[cell]))


def _each(found, table, shown):
    """Yield (cell, group, Dataset of the group's quantities)."""
    for cell in shown:
        own = table.isel(cell=cell) if found.by else table
        for group in map(str, own["group"].values):
            yield cell, group, own.sel(group=group)


def _three(one):
    """Return (mean, interval, sd); None for what no draw has, such as the mean of an empty group."""
    mean, low, high, sd = (float(one[key]) for key in ("mean", "lower", "upper", "sd"))
    return (mean, (low, high), sd) if math.isfinite(mean) else (None, None, None)


def _table(found, title, columns, rows, per_cell, top):
    """Return a table of the combinations with most records, which knows all of them."""
    every = list(range(len(found.cells)))
    shown = largest_cells(found, max(1, top // max(per_cell, 1)))
    note = "" if shown == every else f"The {len(shown):,} of {len(every):,} combinations with most records are shown."
    columns = columns if found.recipe is not None else tuple(one for one in columns if not one.key.endswith("_recipe"))
    width, keys = len(columns), len(found.by)

    def table(cells, note, whole):
        return Table(title, columns, tuple(row[:width] for row in rows(cells)), note, keys=keys, whole=whole)

    return table(shown, note, None if not note else lambda: table(every, "", None))


def _notes(found):
    """Yield the notes, in the order in which they are read."""
    target = "the population that they were drawn from" if found.target == "distribution" else "these very records"
    yield Note(Kind.DATA, f"{found.n_records:,} records; answers are about {target}; seed {found.random_seed}.")
    bins = sorted(set(found.n_bins))
    size = f"{bins[0]:,}" if len(bins) == 1 else f"{bins[0]:,} to {bins[-1]:,}"
    ways = {
        "smooth": f"Smooth curves over {size} bins: the groups' shares change smoothly with the value.",
        "rounding": f"Smooth curves over {size} bins, one for each rounding class of the values.",
        "recipe": "The reweighting recipe with a bootstrap.",
    }
    if found.levels is not None and found.method == "smooth":
        yield Note(Kind.METHOD, f"The groups' shares in each category of {found.value}, with a common spread.")
    else:
        yield Note(Kind.METHOD, ways[found.method])
    kind = Kind.DIAGNOSTIC if found.trusted and found.method != "recipe" else Kind.WARNING
    yield Note(kind, found.outcome)
    if found.method != "recipe":
        yield Note(Kind.METHOD, found.who_decides)
    if found.discretization is not None:
        moved = found.discretization_sd
        yield Note(Kind.METHOD, f"The bins move share, mean and quantiles by at most {moved:.2f} posterior sd.")
    if found.recipe is not None:
        text = "The recipe weighs records by the inverse channel: a report that contradicts a group gives a negative weight."
        yield Note(Kind.ESTIMATE, f"{text} It has no intervals.")


def _figures(found, unit):
    """Yield distribution functions, the forest of quantiles and differences."""
    level = f"{100 * found.ci_prob:g} %"

    def functions():
        from ldpbayes.plots import plot_private_functions

        return plot_private_functions(found, unit=unit)

    def quantiles():
        from ldpbayes.plots import plot_private_quantiles

        return plot_private_quantiles(found, unit=unit)

    def differences():
        from ldpbayes.plots import plot_private_differences

        return plot_private_differences(found, unit=unit)

    caption = f"Distribution functions of {found.value} in the private groups, with pointwise {level} bands."
    if found.levels is None:
        yield Figure("functions", caption, f"One curve for each group. {caption}", functions)
    what = "Shares" if found.levels is not None else "Means and quantiles"
    caption = f"{what} of {found.value} in the private groups, with {level} intervals."
    yield Figure("quantiles", caption, f"Forest plot. {caption} The table has the numbers.", quantiles)
    if found.levels is None:
        caption = f"How much larger each quantile of {found.value} is than in {found.groups[0]}, with {level} bands."
        yield Figure("differences", caption, f"One curve for each other group. {caption}", differences)


def _summary(found, unit):
    """Return the first sentences: how large the groups are, and how far their middles are apart."""
    cell = largest_cells(found, 1)[0]
    summary, apart = found.summary(), _differences(found)
    if found.by:
        summary, apart = summary.isel(cell=cell), apart.isel(cell=cell)
    where = f"In {', '.join(map(str, found.cells[cell]))}, the combination with most records, " if found.by else ""
    shares = []
    for group in found.groups[:4]:
        one = {key: float(summary[key].sel(group=group, quantity="share")) for key in ("mean", "lower", "upper")}
        shares.append(f"{group} {100 * one['mean']:.1f} % ({100 * one['lower']:.1f} to {100 * one['upper']:.1f})")
    text = _capital(f"{where}the groups' shares are {', '.join(shares)}{', …' if len(found.groups) > 4 else ''}.")
    if found.levels is None:
        name = "q50" if 0.5 in found.quantiles else "mean"
        quantities, suffix, scale = [name], f" {unit}" if unit else "", 1.0
        spec = _spec(apart["mean"].sel(quantity=name).values.ravel().tolist())
    else:
        clearest = np.abs(apart["probability"] - 0.5).sel(quantity=list(found.levels)).max("group")
        name = found.levels[int(np.argmax(clearest.values))]
        quantities, suffix, scale, spec = [name], " percentage points", 100.0, ".1f"
    for quantity in quantities:
        for group in map(str, apart["group"].values[:3]):
            one = apart.sel(group=group, quantity=quantity)
            mean, low, high = (scale * float(one[key]) for key in ("mean", "lower", "upper"))
            if not math.isfinite(mean):
                continue
            what = f"share of {quantity}" if found.levels is not None else quantity_name(quantity)
            side = "larger" if mean > 0 else "smaller"
            ends = sorted((abs(low), abs(high))) if low * high > 0 else None
            if ends:
                span = f"{format(ends[0], spec)} to {format(ends[1], spec)}"
                text += (
                    f" The {what} of {found.value} is {format(abs(mean), spec)}{suffix} ({span}) {side} in {group} than in "
                    f"{found.groups[0]}."
                )
            else:
                text += (
                    f" Whether the {what} of {found.value} is larger in {group} or in {found.groups[0]} is not settled: the "
                    f"difference is {format(mean, spec)}{suffix} ({format(low, spec)} to {format(high, spec)})."
                )
    return text


def _capital(text):
    return text[:1].upper() + text[1:]


def _facts(found, unit):
    """Return every number under stable names: the keys of the JSON output."""
    return {
        "value": found.value,
        "unit": unit,
        "groups": list(found.groups),
        "by": list(found.by),
        "cells": [list(map(str, key)) for key in found.cells],
        "target": found.target,
        "method": found.method,
        "reason": found.reason,
        "outcome": found.outcome,
        "trusted": found.trusted,
        "n_records": found.n_records,
        "n_bins": list(found.n_bins),
        "ci_prob": found.ci_prob,
        "random_seed": found.random_seed,
        "diagnostics": {
            "sampling": found.sampling,
            "k_hat": found.k_hat,
            "effective_draws": found.effective_draws,
            "discrepancy": found.check.worst[0],
            "discrepancy_allowed": found.check.worst[1],
        },
        "answers": long_rows(found),
    }
