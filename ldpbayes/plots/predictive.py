"""The predictive check as a picture: reports that came in against those that the posterior expects."""

from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.answers.base import keys_of
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.plots.base import LABEL, SMALL, WIDTH, Canvas, Drawn, brief, checked, lines, one_of, pitch, plain, wrapped
from ldpbayes.result.compliers import extended_draws

#: Display: Counts with more entries are drawn as distances from their expectation, without names.
NAMED = 24
#: Display: Draws of the posterior that replicate the reports.
DRAWS = 200
#: Display: and those of each of many cells, of which so many are drawn.
DRAWS_OF_CELLS, MOST_CELLS = 100, 60
_KINDS = {"list": "report", "supports": "category supported", "bits": "bit"}


@checked()
def plot_predictive(
    result: Any,
    collection: Any,
    *,
    draws: Any = DRAWS,
    most: Any = None,
    random_seed: Any = 0,
    ax: Drawn | None = None,
    **style: Any,
) -> Drawn:
    """Return a matplotlib figure of observed counts of reports, beside what the posterior predicts for as many users.

    One panel per channel. Up to NAMED counts stand as shares with their predictive 95 % interval; more of them as
    (observed − expected)/sd, of which some 95 % should lie within two. Where there are many possible reports, the reports
    whose support holds each category are counted.

    Parameters
    ----------
    result : DataTree
        Its posterior.
    draws : int
        Draws of the posterior.
    most : int, optional
        Counts that a panel with names shows at most: those farthest from what is predicted. All by default.

    Raises
    ------
    InfeasibleError
        Where the reports of no channel can be counted.
    """
    rng, collection = checks.generator(random_seed, "random_seed"), with_outcomes(collection)
    chosen = _some(extended_draws(result, collection), draws, rng)
    title = "Reports that came in, and those that the posterior predicts"
    return _drawn(collection, chosen, rng, title, "predicted", most, ax, style)


@checked()
def plot_expected(
    collection: Any,
    p: Any,
    *,
    draws: Any = DRAWS,
    most: Any = None,
    random_seed: Any = 0,
    ax: Drawn | None = None,
    **style: Any,
) -> Drawn:
    """Return the same figure at one distribution, such as the maximum-likelihood estimate: what the reports fit best.

    Parameters
    ----------
    p : (a,) array
    draws : int
        Simulated collections.
    most : int, optional
        Counts that a panel with names shows at most: those farthest from what is expected. All by default.
    """
    chosen = np.tile(checks.distribution(p, "p", collection.n_categories), (draws, 1))
    rng = checks.generator(random_seed, "random_seed")
    title = "Reports that came in, and those that the best fit expects"
    return _drawn(collection, chosen, rng, title, "expected", most, ax, style)


def _drawn(collection, chosen, rng, title, word, most, ax, style):
    """Return the figure of counts under distributions (S, a), one simulated collection for each."""
    panels = _panels(collection, chosen, rng)
    if not panels:
        raise InfeasibleError("The reports of these channels can be counted neither whole nor by support.")
    shown = [_farthest(seen, fresh, most) for _, _, seen, fresh in panels]
    labels = [
        np.asarray(_labels(collection, tally, law, len(seen)), dtype=object)[row] if len(seen) <= NAMED else None
        for row, (tally, law, seen, _) in zip(shown, panels, strict=True)
    ]
    heights = [2.2 if names is None else 0.5 + pitch(names) * len(names) for names in labels]
    canvas = Canvas(ax, style, (WIDTH, sum(heights) + 1.0), len(panels), height_ratios=heights)
    for axes, names, row, (tally, law, seen, fresh) in zip(canvas.axes, labels, shown, panels, strict=True):
        if len(panels) > 1:
            axes.set_title(plain(f"channel {tally.name}"), fontsize=LABEL)
        if names is None:
            handles = _distances(canvas, axes, law, seen, fresh)
        else:
            handles = _named(canvas, axes, names, seen[row] / tally.n_reports, fresh[:, row] / tally.n_reports)
        handles[0].set_label(f"{word}: {handles[0].get_label()}")
    return canvas.finish(title, handles)


def _some(flat, draws, rng):
    """Return some of the draws of P, by chance."""
    return flat[rng.choice(len(flat), size=min(draws, len(flat)), replace=False)]


def _panels(collection, chosen, rng):
    """Return (tally, law, counts, counts under each distribution) of every channel whose reports can be counted."""
    panels = []
    for tally in collection.tallies:
        if (law := tally.protocol.report_law()) is not None:
            fresh = np.stack([law.simulate(rng.multinomial(tally.n_reports, p / p.sum()), rng) for p in chosen])
            panels.append((tally, law, np.asarray(law.tally(tally.reports, tally.counts), dtype=float), fresh))
    return panels


def _farthest(seen, fresh, most):
    """Return the positions of at most so many counts, those farthest from their expectation, in their order."""
    away = np.abs(_standardized(seen, fresh))
    return np.arange(len(seen)) if most is None else np.sort(np.argsort(-away, kind="stable")[:most])


def _named(canvas, axes, labels, seen, fresh):
    """Draw shares of reports with their predictive intervals; return the legend's handles."""
    y = lines(axes, labels)
    low, high = np.quantile(fresh, (0.025, 0.975), axis=0)
    handle = axes.hlines(y, low, high, color=canvas.colors[0], lw=6, alpha=0.45, label="95 % interval")
    handles = [handle, *axes.plot(seen, y, "D", color=canvas.colors[6], ms=5, label="observed")]
    axes.set_xlabel("share of the reports", fontsize=LABEL)
    return handles


def _distances(canvas, axes, law, seen, fresh):
    """Draw distances from the expectation in predictive sd; return the legend's handles."""
    away = _standardized(seen, fresh)
    band = axes.axhspan(-2, 2, color=canvas.colors[0], alpha=0.2, lw=0, label="two standard deviations")
    handles = [band, *axes.plot(np.arange(len(seen)) + 1, away, ".", color=canvas.colors[6], ms=4, label="observed")]
    axes.set_xlabel(f"{_KINDS[law.kind]}, in order", fontsize=LABEL)
    axes.set_ylabel("(observed − expected)/sd", fontsize=LABEL)
    reach = max(3.5, 1.1 * float(np.abs(away).max()))
    axes.set_ylim(-reach, reach)
    return handles


def _standardized(seen, fresh):
    """Return (observed − predicted)/sd of every count; zero where no draw varies."""
    mean, sd = fresh.mean(axis=0), fresh.std(axis=0, ddof=1)
    return np.divide(seen - mean, sd, out=np.zeros_like(mean), where=sd > 0)


def _labels(collection, tally, law, size):
    """Return what each count is of: the text of a report, a category, or a position."""
    if law.kind == "supports":
        return list(collection.categories)
    if law.kind == "list":
        columns = tally.protocol.format_reports(tally.protocol.all_reports(), collection.categories)
        return [", ".join(row) for row in zip(*columns, strict=True)]
    return [f"bit {i + 1}" for i in range(size)]


@checked({"collection": one_of("ldpbayes.collections", "Cells", "Cells")}, {"collection": "collection : Cells"})
def plot_predictive_cells(
    result: Any,
    collection: Any,
    *,
    draws: Any = DRAWS_OF_CELLS,
    most: Any = MOST_CELLS,
    random_seed: Any = 0,
    ax: Drawn | None = None,
    **style: Any,
) -> Drawn:
    """Return a matplotlib figure of a result with cells: how far the counts of reports lie from what is predicted.

    One line per cell, one dot per count: (observed − predicted)/sd, of which some 95 % should lie within two. The counts
    are those of ``plot_predictive``, of all channels.

    Parameters
    ----------
    result : DataTree
        Their posterior.
    draws : int
        Draws of the posterior of each cell.
    most : int
        Cells drawn at most: those whose tests of fit have the least p-values, where the result has them; else the first.

    Raises
    ------
    InfeasibleError
        Where the reports of no cell can be counted.
    """
    rng = checks.generator(random_seed, "random_seed")
    if "cell" not in result["posterior"].dims:
        raise ArgumentError("result must be a result with cells; this one is of a single collection.")
    rows, collection = [], with_outcomes(collection)
    for c, (label, cell) in enumerate(zip(collection.labels, collection.collections(), strict=True)):
        counted = cell.keeps_reports and any(t.protocol.report_law() is not None for t in cell.tallies)
        rows += [(c, label, cell)] if counted else []
    if not rows:
        raise InfeasibleError("The reports of no cell can be counted: whole reports were not kept, or have no supports.")
    total = len(rows)
    if total > most and "cells" in result.children:
        p = np.nan_to_num(result["cells"]["fitness_p"].values.astype(float), nan=1.0)
        rows = sorted(sorted(rows, key=lambda row: p[row[0]])[:most])
    rows = rows[:most]
    labels = [brief(label) for _, label, _ in rows]
    canvas = Canvas(ax, style, (WIDTH, pitch(labels, 0.05) * len(rows) + 1.9))
    (axes,) = canvas.axes
    band = axes.axvspan(-2, 2, color=canvas.colors[0], alpha=0.2, lw=0, label="two standard deviations")
    reach, dots = 3.5, []
    for y, (c, _, cell) in zip(range(len(rows))[::-1], rows, strict=True):
        chosen = _some(extended_draws(result, cell, c), draws, rng)
        away = np.concatenate([_standardized(seen, fresh) for _, _, seen, fresh in _panels(cell, chosen, rng)])
        dots = axes.plot(away, np.full(away.size, y), ".", color=canvas.colors[6], ms=4, alpha=0.7, label="observed")
        reach = max(reach, 1.1 * float(np.abs(away).max()))
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_yticks(range(len(rows))[::-1], labels, fontsize=SMALL)
    axes.set_xlabel("(observed − predicted)/predictive sd", fontsize=LABEL)
    axes.set_ylabel(wrapped(", ".join(keys_of(result["summary"])), 34), fontsize=LABEL)
    title = "How far the counts of reports are from what the posterior predicts"
    more = f" ({len(rows)} of {total:,} groups)" if len(rows) < total else ""
    return canvas.finish(title, [band, *dots], most=3, more=more)
