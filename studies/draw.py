"""Figures and tables of docs/studies from the stored results: the numbers on those pages are all made here.

python -m studies.draw            draw everything
python -m studies.draw --stored out/studies   from other results
"""

import argparse
import csv
import functools
import math
import pathlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from ldpbayes.plots import PALETTE
from ldpbayes.plots.base import LABEL, LETTER, SMALL, TITLE, WIDTH, wrapped
from ldpbayes.theory import bounds
from studies import figures, floor
from studies.plotting import write_out
from studies.pooled import read

#: One look for every figure of the studies, that of ldpbayes.plots: its palette, two spines, its width and sizes of text,
#: which a phone shows legibly.
plt.rcParams |= {
    "axes.prop_cycle": plt.cycler(color=PALETTE),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": SMALL,
    "axes.titlesize": SMALL,
    "axes.labelsize": SMALL,
    "figure.titlesize": LABEL,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "legend.handlelength": 1.6,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "grid.linewidth": 0.3,
}
PLACE = pathlib.Path(__file__).parents[1] / "docs" / "studies"
#: The colours of every figure, and a pale one for areas; markers and dashes repeat them.
(BLUE, ORANGE, GREEN, PINK, SKY, RED, BLACK), YELLOW = PALETTE, "#F0E442"
STYLE = {
    "oracle": ("oracle", ORANGE, "^", "-"),
    "normalized": ("normalized", PINK, "v", "-"),
    "norm_sub": ("Norm-Sub", SKY, "s", "-"),
    "projected": ("projected", SKY, "s", "-"),
    "mle": ("maximum likelihood", GREEN, "D", "-"),
    "posterior_mean": ("posterior mean", BLUE, "o", "-"),
    "learnt": ("posterior mean, learnt prior", RED, "*", "-"),
}
FLOORS = {
    "floor": ("worst case of unbiased estimates", BLACK, "--"),
    "bound": ("Cor. 4.3, this protocol", "0.45", "-."),
    "bound_any": ("Thm 4.5, any protocol", "0.45", ":"),
    "bound_finite": ("Thm 4.1, this n", "0.7", "-"),
}
TARGETS = {"distribution": "P", "frequency": "F"}


def pick(rows, **where):
    """Return the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def one(rows, **where):
    """Return the row with these values, or None."""
    found = pick(rows, **where)
    return max(found, key=lambda row: row["replications"]) if found else None


def curve(axes, rows, name, *, x="epsilon", label=None):
    """Draw one estimator with bars of two Monte Carlo errors."""
    rows = sorted(rows, key=lambda row: row[x])
    text, color, marker, dash = STYLE[name]
    at, value, error = (np.array([row[key] for row in rows], dtype=float) for key in (x, "value", "standard_error"))
    settings = {"color": color, "marker": marker, "ls": dash, "ms": 7 if marker == "*" else 4, "lw": 1, "capsize": 2}
    axes.errorbar(at, value, 2 * np.nan_to_num(error), label=label or text, **settings)


def canvas(rows, columns, height, **shared):
    """Return (figure, array of axes): as wide as a phone shows legibly, with axes of this height in inches."""
    size = WIDTH, rows * height
    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **shared)


def finish(figure, text, handles=(), *, columns=1):
    """Give a figure its title, line by line as wide as it is, and a legend below; it grows by what these take.

    Parameters
    ----------
    figure : matplotlib Figure
    text : str
    handles : mapping
        Artists by their labels.
    columns : int
        Of the legend.
    """
    letters = int(WIDTH * 72 / (LETTER * LABEL))
    text = "\n".join(wrapped(line, letters) for line in text.splitlines())
    figure.suptitle(text)
    rows = -(-len(handles) // columns)
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, columnspacing=1.0)
    inches = ((text.count("\n") + 1) * TITLE + rows * SMALL) * 1.45 / 72
    figure.set_figheight(figure.get_figheight() + inches + 0.2)


def labelled(panels):
    """Return {label: artist} of what all panels show."""
    pairs = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in np.ravel(panels))
    return {label: handle for found in pairs for handle, label in found}


def save(figure, name, place=PLACE):
    """Write a figure, with powers of ten written out.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
    place : Path
        The folder.
    """
    for axes in figure.axes:
        write_out(axes.xaxis)
        write_out(axes.yaxis)
    figure.savefig(place / f"{name}.png", dpi=130)
    plt.close(figure)


def write_table(name, headers, rows):
    """Write a table in Markdown that a page includes."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    path = PLACE / "tables" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def number(value, error=None):
    """Return a number with the digits that its error leaves."""
    if value is None or not math.isfinite(value):
        return "–"
    if not error or not math.isfinite(error):
        return f"{value:.3g}"
    digits = max(2, 2 - math.floor(math.log10(error / abs(value)))) if value else 2
    return f"{value:.{min(digits, 4)}g} ± {error:.1g}"


def over(row, base):
    """Return an estimator's loss over the base's, with the error of the paired difference."""
    if row is None or row["excess"] is None:
        return "–"
    ratio, error = 1 + row["excess"] / base["value"], row["excess_error"] / base["value"]
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"{ratio:.3f} ± {error:.3f}" if ratio < 10 else f"{ratio:.1f} ± {error:.1f}"


# ---- Lopuhaä-Zwakenberg et al. (2020) ------------------------------------------------------------------------------------
def risk(rows):
    """Draw Fig. 2 and 3, and the table of excesses over the optimum."""
    for figure, protocol, says in (
        ("2", "GRR, 1,024 categories", "Without a prior every estimate is far from the optimum"),
        ("3", "OUE, ten categories", "With 100 reports a prior matters, with a million it does not"),
    ):
        held = pick(rows, figure=figure)
        sizes = sorted({row["n_reports"] for row in held}, reverse=True)
        drawn, panels = canvas(2, 2, 2.0, sharex=True, sharey="row")
        for line, n in zip(panels, sizes, strict=True):
            for axes, target in zip(line, TARGETS, strict=True):
                here = pick(held, n_reports=n, target=target)
                for name, (text, color, dash) in FLOORS.items():
                    found = sorted(pick(here, metric=name), key=lambda row: row["epsilon"])
                    if found:
                        at, value = ([row[key] for row in found] for key in ("epsilon", "value"))
                        axes.plot(at, value, color=color, ls=dash, lw=1, label=text)
                for name in ("oracle", "norm_sub", "mle", "learnt", "posterior_mean"):
                    found = pick(here, estimator=name, metric="mse", part="learnt")
                    if found:
                        curve(axes, found, name, label="optimum E[·|Y]" if name == "posterior_mean" else None)
                axes.set(yscale="log", title=f"{TARGETS[target]}, n = {n:,}")
                axes.grid()
        for axes in panels[-1]:
            axes.set_xlabel("ε")
        for axes in panels[:, 0]:
            axes.set_ylabel("mean squared error")
        text = f"{says}\nFig. {figure} of Lopuhaä-Zwakenberg et al. (2020): {protocol}, Jeffreys' prior"
        finish(drawn, text, labelled(panels))
        save(drawn, f"lopuhaa-2020-fig-{figure}")
    table = []
    for figure in ("2", "3"):
        for n in sorted({row["n_reports"] for row in pick(rows, figure=figure)}):
            for target in TARGETS:
                for epsilon in (0.2, 1.0, 2.0):
                    here = pick(
                        rows, figure=figure, n_reports=n, target=target, epsilon=epsilon, metric="mse", part="learnt"
                    )
                    base = one(here, estimator="posterior_mean")
                    if base is None:
                        continue
                    floor = one(rows, figure=figure, n_reports=n, target=target, epsilon=epsilon, metric="floor")
                    found = [over(one(here, estimator=name), base) for name in ("learnt", "mle", "norm_sub", "oracle")]
                    ratio = f"{base['value'] / floor['value']:.3g}" if floor else "–"
                    at = [figure, f"{n:,}", TARGETS[target], f"{epsilon:g}", number(base["value"], base["standard_error"])]
                    table.append([*at, ratio, *found, f"{base['replications']:,}"])
    headers = [
        "Fig.",
        "n",
        "of",
        "ε",
        "optimum",
        "optimum / worst case",
        "learnt / optimum",
        "MLE / optimum",
        "Norm-Sub / optimum",
        "oracle / optimum",
        "runs",
    ]
    write_table("lopuhaa-2020-excess", headers, table)


NAMES = {
    "flights_distance": "flights' distance (a = 1,000)",
    "adult_age": "adults' age (a = 73)",
    "flights_carrier_5": "flights' carriers (a = 5)",
    "adult_workclass": "adults' work class (a = 9)",
}


def populations(rows):
    """Draw Fig. 4 and 5 in one, with the floor of F."""
    drawn, panels = canvas(2, 2, 2.2, sharex=True)
    table = []
    for axes, (name, title) in zip(panels.flat, NAMES.items(), strict=True):
        here = pick(rows, population=name, metric="mse", target="frequency")
        for estimator in ("oracle", "norm_sub", "mle", "posterior_mean", "learnt"):
            found = pick(here, estimator=estimator)
            if found:
                text = "posterior mean, Jeffreys' prior" if estimator == "posterior_mean" else None
                curve(axes, found, estimator, label=text)
        if here:
            a, n = here[0]["n_categories"], here[0]["n_reports"]
            floor = [bounds.exact_bound(a, e, "frequency").value / n for e in figures.EPSILONS]
            axes.plot(figures.EPSILONS, floor, color=BLACK, ls="--", lw=1, label=FLOORS["floor"][0])
            axes.set(title=f"{title[: title.index(chr(40))]}\n{title[title.index(chr(40)) + 1 : -1]}, n = {n:,}")
        axes.set(yscale="log")
        axes.grid()
        for epsilon in (0.2, 1.0, 2.0):
            mine = pick(here, epsilon=epsilon)
            best = one(mine, estimator="mle")
            if best is None:
                continue
            found = []
            for estimator in ("oracle", "norm_sub", "mle", "posterior_mean", "learnt"):
                row = one(mine, estimator=estimator)
                found.append(number(row["value"], row["standard_error"]) if row else "–")
            table.append([title, f"{epsilon:g}", *found, f"{best['replications']}"])
    for axes in panels[-1]:
        axes.set_xlabel("ε")
    for axes in panels[:, 0]:
        axes.set_ylabel("squared error of F")
    text = (
        "A prior helps where categories are many for the reports\n"
        "Fig. 4 (GRR, above) and 5 (OUE, below) of Lopuhaä-Zwakenberg et al. (2020), on populations that are open"
    )
    finish(drawn, text, labelled(panels))
    save(drawn, "lopuhaa-2020-fig-4-5")
    headers = ["population", "ε", "oracle", "Norm-Sub", "MLE", "Jeffreys", "learnt", "runs"]
    write_table("lopuhaa-2020-populations", headers, table)


# ---- Kairouz, Bonawitz, Ramage (2016) ------------------------------------------------------------------------------------
def table_of(rows, value, alphabets=figures.ALPHABETS):
    """Return the (k, ε) array of value(row at k and ε), nan where there is none."""
    out = np.full((len(alphabets), len(figures.KAIROUZ_EPSILONS)), np.nan)
    for i, a in enumerate(alphabets):
        for j, epsilon in enumerate(figures.KAIROUZ_EPSILONS):
            found = value(pick(rows, n_categories=a, epsilon=epsilon))
            out[i, j] = np.nan if found is None else found
    return out


def heat(axes, values, title, limit, *, centre=0.0, alphabets=figures.ALPHABETS):
    """Draw a map of values and return it: blue below the centre, orange above."""
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("differences", [BLUE, "white", ORANGE])
    drawn = axes.imshow(values, cmap=colors, vmin=centre - limit, vmax=centre + limit, aspect="auto")
    epsilons = figures.KAIROUZ_EPSILONS
    axes.set_xticks(range(0, len(epsilons), 2), [f"{e:g}" for e in epsilons[::2]])
    axes.set_yticks(range(0, len(alphabets), 2), alphabets[::2])
    axes.set_title(title)
    return drawn


def scale(figure, panels, drawn, words):
    """Say below all maps what their colours mean, and label their axes."""
    figure.colorbar(drawn, ax=panels, location="bottom", label=words, extend="both", aspect=30, pad=0.02)
    for axes in panels[-1]:
        axes.set_xlabel("ε")
    for axes in panels[:, 0]:
        axes.set_ylabel("categories")


def value_of(rows, name):
    row = one(rows, estimator=name)
    return None if row is None else row["value"]


DECODERS = {"grr": ("mle", "normalized", "projected"), "sue": ("oracle", "normalized", "projected")}
#: Cells with fewer replications of the posterior mean are left blank.
ENOUGH = 20
SHAPES = {"geometric": "geometric", "flat": "Dirichlet(1)"}


def decoders(rows):
    """Draw Fig. 1 and 2, and what the posterior means add."""
    main = pick(rows, part="main", metric="l1", target="frequency")

    def best(held, protocol):
        found = [value_of(held, name) for name in DECODERS[protocol]]
        return None if None in found else min(found)

    drawn, panels = canvas(1, 2, 2.9, sharey=True)
    for axes, (protocol, title) in zip(panels[0], (("grr", "k-RR"), ("sue", "k-RAPPOR")), strict=True):
        held = pick(main, protocol=protocol, population="geometric", n_reports=30_000)

        def gain(found, protocol=protocol):
            values = [value_of(found, name) for name in DECODERS[protocol]]
            return None if None in values else values[-1] - min(values[:-1])

        colors = heat(axes, table_of(held, gain), title, 0.5)
    scale(drawn, panels, colors, "ℓ1 of projected − best of the other two")
    text = (
        "Projection is the wrong decoder for many categories and a small ε\n"
        "Fig. 1 of Kairouz et al. (2016): difference in ℓ1, geometric distribution, 30,000 reports"
    )
    finish(drawn, text)
    save(drawn, "kairouz-2016-fig-1")

    drawn, panels = canvas(2, 2, 2.1, sharex=True, sharey=True)
    for line, (population, shape) in zip(panels, SHAPES.items(), strict=True):
        for axes, n in zip(line, (100, 30_000), strict=True):
            held = pick(main, population=population, n_reports=n)

            def difference(found):
                rr, rappor = (best(pick(found, protocol=protocol), protocol) for protocol in ("grr", "sue"))
                return None if rr is None or rappor is None else rr - rappor

            colors = heat(axes, table_of(held, difference), f"{shape}, n = {n:,}", 0.5)
    scale(drawn, panels, colors, "ℓ1 of k-RR − ℓ1 of k-RAPPOR")
    text = (
        "k-RR is better at large ε (blue), k-RAPPOR at small ones (orange)\n"
        "Fig. 2 of Kairouz et al. (2016): ℓ1 of the best k-RR decoder less that of the best k-RAPPOR decoder"
    )
    finish(drawn, text)
    save(drawn, "kairouz-2016-fig-2")

    # What the posterior means add: squared error over that of the best decoder on the same reports.
    maps = {}
    for protocol, title in (("grr", "k-RR"), ("sue", "k-RAPPOR")):
        for population, n in ((p, n) for p in SHAPES for n in (100, 30_000)):
            held = pick(rows, protocol=protocol, population=population, n_reports=n, metric="mse", target="frequency")
            values = table_of(held, functools.partial(_posterior_over_best, protocol=protocol))
            maps[f"{title}, {SHAPES[population]}, n = {n:,}"] = values
    # A map with less than half of its cells would mislead.
    maps = {title: values for title, values in maps.items() if np.isfinite(values).mean() > 0.5}
    drawn, panels = canvas(-(-len(maps) // 2), 2, 2.1, sharex=True, sharey=True)
    for axes, (title, values) in zip(panels.flat, maps.items(), strict=False):
        colors = heat(axes, values, title.replace(", n", ",\nn"), 0.8, centre=1.0)
    scale(drawn, panels, colors, "squared error / that of the best decoder")
    text = (
        "Posterior means have half the squared error of the best decoder where ε is small for the categories\n"
        "Squared error of F, ratios (Dirichlet: true prior; geometric: Jeffreys')"
    )
    finish(drawn, text)
    save(drawn, "kairouz-2016-optimum")
    _learnt_decoders(pick(rows, part="learnt", metric="mse", target="frequency"))
    _decoder_tables(rows)


def _learnt_decoders(rows):
    """Draw the squared error of the learnt prior over the best decoder's and over the given prior's, and write a table."""
    alphabets = [a for a in figures.ALPHABETS if a >= figures.LEAST_LEARNT]
    drawn, panels = canvas(4, 2, 1.75, sharex=True, sharey=True)
    table = []
    for row, (population, n) in enumerate((p, n) for p in SHAPES for n in (100, 30_000)):
        held = pick(rows, population=population, n_reports=n)
        given = "Jeffreys' prior" if population == "geometric" else "the true prior"
        for axes, value, of in (
            (panels[row, 0], _learnt_over_best, "the best decoder"),
            (panels[row, 1], _learnt_over_given, given),
        ):
            values = table_of(held, value, alphabets)
            title = f"{SHAPES[population]}, n = {n:,}\nover {of}"
            colors = heat(axes, values, title, 0.8, centre=1.0, alphabets=alphabets)
        for a, epsilon in ((a, e) for a in (32, 256, 2048) for e in (1.0, 4.0, 8.0)):
            here = pick(held, n_categories=a, epsilon=epsilon)
            learnt, best = one(here, estimator="learnt"), _learnt_over_best(here)
            if best is not None:
                at = [SHAPES[population], f"{n:,}", f"{a:,}", f"{epsilon:g}"]
                ratios = f"{best:.2f}", over(learnt, one(here, estimator="posterior_mean"))
                table.append([*at, number(learnt["value"], learnt["standard_error"]), *ratios, f"{learnt['replications']}"])
    scale(drawn, panels, colors, "squared error / that of the other estimate")
    text = (
        "A prior learnt from the reports costs next to nothing beside the true one\n"
        "k-RR, squared error of F under the learnt prior, ratios"
    )
    finish(drawn, text)
    save(drawn, "kairouz-2016-learnt")
    headers = ["population", "n", "k", "ε", "learnt prior", "over the best decoder", "over the given prior", "runs"]
    write_table("kairouz-2016-learnt", headers, table)


def _learnt_over_best(found):
    mine = one(found, estimator="learnt")
    if mine is None or mine["replications"] < ENOUGH:
        return None
    return mine["value"] / min(value_of(found, name) for name in DECODERS["grr"])


def _learnt_over_given(found):
    mine = one(found, estimator="learnt")
    if mine is None or mine["replications"] < ENOUGH:
        return None
    return 1 + mine["excess"] / one(found, estimator="posterior_mean")["value"]


def _posterior_over_best(found, protocol):
    """Return the ratio of the posterior mean's squared error to the best decoder's, on the same reports."""
    # Every part with the posterior mean has the decoders too; the one with most replications counts.
    mine = one(found, estimator="posterior_mean")
    if mine is None or mine["replications"] < ENOUGH:
        return None
    held = pick(found, part=mine["part"])
    known = [value_of(held, decoder) for decoder in {*DECODERS[protocol], "mle"}]
    return mine["value"] / min(value for value in known if value is not None)


def _decoder_tables(rows):
    table = []
    for population in SHAPES:
        for n in (100, 30_000):
            for protocol, title in (("grr", "k-RR"), ("sue", "k-RAPPOR")):
                for metric in ("l1", "mse"):
                    held = pick(
                        rows,
                        part="main",
                        metric=metric,
                        target="frequency",
                        population=population,
                        n_reports=n,
                        protocol=protocol,
                    )
                    cells = {(row["n_categories"], row["epsilon"]) for row in held}
                    wins = dict.fromkeys(DECODERS[protocol], 0)
                    for a, epsilon in cells:
                        here = pick(held, n_categories=a, epsilon=epsilon)
                        values = {name: value_of(here, name) for name in wins}
                        wins[min(values, key=values.get)] += 1
                    table.append([SHAPES[population], f"{n:,}", title, metric, f"{len(cells)}", *map(str, wins.values())])
    headers = ["population", "n", "mechanism", "loss", "cells", "ML / standard", "normalized", "projected"]
    write_table("kairouz-2016-wins", headers, table)


COHORT_NAMES = {
    "orr_open": ("O-RR, open", BLUE, "o"),
    "orappor_open": ("O-RAPPOR, open", ORANGE, "s"),
    "orr_closed": ("O-RR, closed", BLUE, "o"),
    "orappor_closed": ("O-RAPPOR, closed", ORANGE, "s"),
}


def cohorts(rows):
    """Draw Fig. 3 and 9."""
    from ldpbayes.simulation import population

    p = population("geometric", figures.CANDIDATES).distribution
    held = pick(rows, figure="3", part="least squares")
    drawn, panels = canvas(2, 1, 2.5, sharex=True)
    table = []
    for axes, kind in zip(panels[:, 0], ("open", "closed"), strict=True):
        for protocol in (f"orr_{kind}", f"orappor_{kind}"):
            label, color, marker = COHORT_NAMES[protocol]
            chosen = []
            for epsilon in figures.HASHED_EPSILONS:
                found = pick(held, protocol=protocol, epsilon=epsilon)
                if found:
                    chosen.append(min(found, key=lambda row: row["value"]))
            x, y, low, high = ([row[key] for row in chosen] for key in ("epsilon", "value", "low", "high"))
            axes.plot(
                x, y, color=color, marker=marker, ms=4, lw=1, label=f"{label.split(chr(44))[0]}: projected least squares"
            )
            axes.fill_between(x, low, high, color=color, alpha=0.25, lw=0)
            for row in chosen:
                if row["epsilon"] in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0):
                    at = [label, f"{row['epsilon']:g}", number(row["value"], row["standard_error"])]
                    table.append(
                        [
                            *at,
                            f"{row['low']:.3g} to {row['high']:.3g}",
                            *(f"{row[k]:,}" for k in ("buckets", "cohorts", "hashes")),
                        ]
                    )
        for protocol, estimator, color, marker, label in (
            (f"orr_{kind}", "mle", GREEN, "D", "O-RR: maximum likelihood"),
            (f"orr_{kind}", "learnt", RED, "*", "O-RR: posterior mean, learnt prior"),
            ("subset", "projected", SKY, "^", "subset selection: projected"),
            ("subset", "learnt", PINK, "v", "subset selection: posterior mean, learnt p."),
        ):
            if protocol == "subset" and kind == "open":
                continue
            found = pick(rows, figure="3", part="posterior", protocol=protocol, estimator=estimator, metric="l1")
            if found:
                x, y = ([row[key] for row in found] for key in ("epsilon", "value"))
                axes.plot(x, y, color=color, marker=marker, ls="none", ms=7 if marker == "*" else 4, label=label)
        axes.axhline(np.sqrt(2 * p * (1 - p) / np.pi / 1e6).sum(), color=BLACK, ls=":", lw=1, label="no privacy")
        axes.axhline(np.abs(p - 1 / p.size).sum(), color="0.5", ls="-.", lw=1, label="uniform estimate")
        axes.set(yscale="log", title=f"{kind} alphabet of 256, n = 1,000,000", ylabel="median ℓ1 loss, 90 %")
        axes.grid()
    panels[1, 0].set_xlabel("ε")
    text = "From ε = 2 on O-RR loses less than O-RAPPOR\nFig. 3 of Kairouz et al. (2016): best buckets, cohorts and hashes"
    finish(drawn, text, labelled(panels))
    save(drawn, "kairouz-2016-fig-3")
    write_table("kairouz-2016-fig-3", ["mechanism", "ε", "median ℓ1", "90 % of losses", "k", "C", "h"], table)

    held = pick(rows, figure="9", part="least squares")
    wanted = (0.02, 0.05, 0.1, 0.2, 0.3)
    drawn, panels = canvas(3, 2, 1.75, sharex=True, sharey=True)
    for axes, loss in zip(panels.flat, wanted, strict=False):
        for protocol in ("orr_open", "orappor_open"):
            label, color, marker = COHORT_NAMES[protocol]
            points = []
            for n in sorted({row["n_reports"] for row in held}):
                best = [
                    min((row["value"] for row in pick(held, protocol=protocol, n_reports=n, epsilon=e)), default=math.nan)
                    for e in figures.HASHED_EPSILONS
                ]
                found = needed(figures.HASHED_EPSILONS, best, loss)
                if found is not None:
                    points.append((n, found))
            if points:
                axes.plot(*zip(*points, strict=True), color=color, marker=marker, ms=4, lw=1, label=label)
        axes.set(xscale="log", title=f"ℓ1 = {loss:g}")
        axes.grid()
    panels[-1, -1].axis("off")
    for axes in (panels[1, 1], panels[2, 0]):
        axes.set_xlabel("users")
        axes.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("ε that suffices")
    text = (
        "With few users O-RR reaches the same loss at a smaller ε\n"
        "Fig. 9 of Kairouz et al. (2016): the privacy that a median loss leaves, open alphabet of 256"
    )
    finish(drawn, text, labelled(panels), columns=2)
    save(drawn, "kairouz-2016-fig-9")


def needed(epsilons, losses, wanted):
    """Return the ε at which the loss falls to what is wanted, interpolated in logs; None where it is not on the grid."""
    losses = np.minimum.accumulate(np.asarray(losses))
    if not losses[-1] <= wanted <= losses[0]:
        return None
    return float(np.exp(np.interp(-math.log(wanted), -np.log(losses), np.log(epsilons))))


# ---- Wang et al. (2016) --------------------------------------------------------------------------------------------------
#: Mechanisms whose optimum is computed; that of the other subset size is hardly different.
OPTIMA = ("sue", "grr", "subset")
MECHANISMS = {"sue": "BRR", "grr": "MRR", "subset_information": "information", "subset": "subset"}


def subset(rows):
    """Draw Table 1 as a figure, and write published numbers beside recomputed ones."""
    with (PLACE / "wang-2016-table-1.csv").open() as handle:
        published = {(int(row["d"]), float(row["epsilon"])): row for row in csv.DictReader(handle)}
    table, optimum = [], []
    for (d, epsilon), row in published.items():
        every = pick(rows, n_categories=d, epsilon=epsilon, metric="mse")
        own = pick(every, part="main", estimator="projected", population="uniforms", target="frequency")
        here = pick(every, target="distribution")
        texts = [f"{d}", f"{epsilon:g}"]
        for protocol, column in MECHANISMS.items():
            found = one(own, protocol=protocol)
            mine = f"{found['value']:.3g}" if found else "–"
            texts.append(f"{float(row[column + '_l2']):.3g} / {mine}")
        table.append(texts)
        best = pick(here, protocol="subset", population="flat", estimator="posterior_mean")
        texts = [f"{d}", f"{epsilon:g}"]
        texts.append(f"{bounds.exact_bound(d, epsilon).value / 10_000:.3g}")
        for protocol in MECHANISMS:
            found = [
                r
                for r in pick(here, protocol=protocol, population="flat", estimator="posterior_mean")
                if r["part"] != "none"
            ]
            base = max(found, key=lambda r: r["replications"], default=None)
            texts.append(number(base["value"], base["standard_error"]) if base else "–")
        if best:
            mine = pick(here, protocol="subset", population="flat", part=best[0]["part"])
            texts += [over(one(mine, estimator=name), best[0]) for name in ("projected", "mle", "learnt")]
            texts.append(f"{best[0]['replications']}")
        else:
            texts += ["–"] * 4
        optimum.append(texts)
    headers = ["d", "ε", "BRR", "MRR", "k\\*-subset", "k#-subset"]
    write_table("wang-2016-published", headers, table)
    headers = [
        "d",
        "ε",
        "worst case, unbiased",
        "BRR",
        "MRR",
        "k*-subset",
        "k#-subset",
        "projected / optimum",
        "MLE / optimum",
        "learnt / optimum",
        "runs",
    ]
    write_table("wang-2016-optimum", headers, optimum)

    sizes = list(figures.TABLE)
    drawn, panels = canvas(5, 2, 1.7)
    colors = {"sue": (ORANGE, "s"), "grr": (SKY, "^"), "subset_information": (GREEN, "D"), "subset": (BLUE, "o")}
    for axes, d in zip(panels.flat, sizes, strict=False):
        here = pick(rows, n_categories=d, metric="mse", population="flat", target="distribution")
        for protocol, name in MECHANISMS.items():
            color, marker = colors[protocol]
            for estimator, dash in (("projected", "-"), ("posterior_mean", ":")):
                found = {}
                for row in pick(here, protocol=protocol, estimator=estimator):
                    if row["epsilon"] not in found or row["replications"] > found[row["epsilon"]]["replications"]:
                        found[row["epsilon"]] = row
                if found:
                    x = sorted(found)
                    y, error = ([found[e][key] for e in x] for key in ("value", "standard_error"))
                    label = f"{name}, {'projected' if estimator == 'projected' else 'optimum'}"
                    axes.errorbar(
                        x, y, 2 * np.nan_to_num(error), color=color, marker=marker, ls=dash, ms=3, lw=1, label=label
                    )
        x = np.geomspace(figures.TABLE[d][0], figures.TABLE[d][-1], 40)
        axes.plot(x, [bounds.exact_bound(d, e).value / 1e4 for e in x], color=BLACK, ls="--", lw=1, label=FLOORS["floor"][0])
        top = max((row["value"] for row in here), default=1.0)
        axes.set(xscale="log", yscale="log", title=f"{d} categories", ylim=(None, 3 * min(top, 1.0)))
        if x[-1] < 10 * x[0]:  # less than a decade: ticks at round numbers, since those between decades overprint each other
            axes.set_xticks([tick for tick in (0.5, 1, 2, 3, 5, 10) if x[0] <= tick <= x[-1]], minor=False)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        axes.grid()
    panels[-1, -1].axis("off")
    for axes in (panels[-2, 1], panels[-1, 0]):
        axes.set_xlabel("ε")
    for axes in panels[:, 0]:
        axes.set_ylabel("squared error")
    text = (
        "Where ε is small for the categories the optimum is far below every projected estimate\n"
        "Table 1 of Wang et al. (2016): 10,000 reports, squared error of P from Dirichlet(1)"
    )
    finish(drawn, text, labelled(panels))
    save(drawn, "wang-2016-table-1")


# ---- Lopuhaä-Zwakenberg et al. (2019) ------------------------------------------------------------------------------------
UNARY = {
    "grr": ("GRR", BLUE, "o"),
    "sue": ("basic RAPPOR", ORANGE, "s"),
    "oue": ("OUE", GREEN, "D"),
    "dual": ("BLH", PINK, "v"),
}


def privacy(rows):
    """Draw Fig. 2: average privacy over the number of categories."""
    drawn, ((axes,),) = canvas(1, 1, 2.2)
    for protocol, (label, color, marker) in UNARY.items():
        found = sorted(pick(rows, protocol=protocol, metric="average_privacy"), key=lambda row: row["n_categories"])
        axes.plot(
            [r["n_categories"] for r in found],
            [r["value"] for r in found],
            color=color,
            marker=marker,
            ms=4,
            lw=1,
            label=label,
        )
    axes.axhline(math.exp(-2), color=BLACK, ls="--", lw=1, label="worst-case privacy of all")
    axes.set(
        xlabel="categories",
        xticks=(2, 5, 10, 15, 20),
        ylabel="privacy",
        ylim=(0, 1),
    )
    axes.grid()
    text = (
        "From 16 categories on GRR keeps most private on average\n"
        "Fig. 2 of Lopuhaä-Zwakenberg et al. (2019): ε = 2, Jeffreys' prior"
    )
    finish(drawn, text, labelled(axes))
    save(drawn, "lopuhaa-2019-fig-2")
    sizes = (2, 3, 5, 8, 12, 20)
    table = []
    for protocol, (label, *_) in UNARY.items():
        found = {r["n_categories"]: r["value"] for r in pick(rows, protocol=protocol, metric="average_privacy")}
        table.append([label, *(f"{found[a]:.4f}" for a in sizes)])
    write_table("lopuhaa-2019-fig-2", ["average privacy S", *(f"a = {a}" for a in sizes)], table)


def tradeoff(rows):
    """Draw Fig. 3: the participation factor over average and over worst-case privacy."""
    drawn, panels = canvas(2, 1, 2.4)
    panels = panels[:, 0]
    for protocol, (label, color, marker) in UNARY.items():
        found = {
            metric: {r["epsilon"]: r["value"] for r in pick(rows, protocol=protocol, metric=metric)} for metric in METRICS
        }
        for axes, metric in zip(panels, ("average_privacy", "worst_case_privacy"), strict=True):
            x, y = found[metric], found["participation_factor"]
            axes.plot([x[e] for e in y], list(y.values()), color=color, marker=marker, ms=4, lw=1, label=label)
    limit = {r["epsilon"]: r["value"] for r in pick(rows, protocol="grr", metric="participation_limit")}
    panels[1].plot(
        [math.exp(-e) for e in limit],
        np.minimum(list(limit.values()), 1.0),
        color=BLACK,
        ls="--",
        lw=1,
        label="no protocol above (Thm 8.1)",
    )
    panels[0].set(xlabel="average privacy", ylabel="participation factor")
    panels[1].set(xlabel="worst-case privacy", ylabel="participation factor")
    for axes in panels:
        axes.grid()
    panels[1].set_xscale("function", functions=(np.sqrt, np.square))
    panels[1].set_yscale("function", functions=(np.sqrt, np.square))
    panels[1].set(xlim=(0, 1), ylim=(0, 1))
    text = (
        "Which protocol is best depends on whether privacy is meant on average or in the worst case\n"
        "Fig. 3 of Lopuhaä-Zwakenberg et al. (2019): three categories, ε from 0.05 to 10, Jeffreys' prior"
    )
    finish(drawn, text, labelled(panels))
    save(drawn, "lopuhaa-2019-fig-3")
    table = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        texts = [f"{epsilon:g}", f"{min(limit[epsilon], 1.0):.3f}"]
        for protocol in UNARY:
            found = {m: one(rows, protocol=protocol, metric=m, epsilon=epsilon)["value"] for m in METRICS}
            texts.append(f"{found['average_privacy']:.3f} / {found['participation_factor']:.3f}")
        table.append(texts)
    write_table("lopuhaa-2019-fig-3", ["ε", "limit of F", *(label for label, *_ in UNARY.values())], table)


def floors(lines):
    """Write the table of the study of floors, a line for each population, and for all cells."""
    rows, populations = [], floor.by_population(lines)
    every = [cell for some in populations.values() for cell in some]
    for name, cells in [*populations.items(), ("all", every)]:
        found, sizes = floor.summary(cells), {cell["floor", "mse"]["n_categories"] for cell in cells}
        texts = [[f"{value:.3f}" for value in pair if math.isfinite(value)] for pair in found["coverage"].values()]
        covered = [" · ".join(pair) or "–" for pair in texts]
        fell = "{:+.3f} ± {:.3f}".format(*found["rise"])
        few = f"{min(sizes):,} to {max(sizes):,}" if len(sizes) > 1 else f"{min(sizes):,}"
        rows.append([f"`{name}`", few, str(len(cells)), "{:.3f} ± {:.3f}".format(*found["ratio"]), fell, *covered])
    headers = ["population", "a", "cells", "squared error / learnt", "coverage gained", "all: learnt · floor"]
    write_table("floor", [*headers, "above 2 %", "shown"], rows)


METRICS = ("average_privacy", "worst_case_privacy", "participation_factor")
DRAW = {
    "risk": risk,
    "populations": populations,
    "decoders": decoders,
    "cohorts": cohorts,
    "subset": subset,
    "privacy": privacy,
    "tradeoff": tradeoff,
    "floor": floors,
}


def main():
    """Draw every figure whose results are stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stored", type=pathlib.Path, default=PLACE)
    stored = parser.parse_args().stored
    for name, draw in DRAW.items():
        path = stored / f"{name}.parquet"
        if path.exists():
            draw(read(path))


if __name__ == "__main__":
    main()
