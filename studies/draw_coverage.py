"""Figures and tables of docs/studies/coverage.md from the stored results of the coverage study."""

import argparse
import pathlib

import numpy as np
import pyarrow.parquet as pq

from ldpbayes.plots.base import wrapped
from studies import binary, coverage
from studies.draw import PLACE, canvas, finish, labelled, save

METHODS = {
    "jeffreys": "Jeffreys, equal-tailed",
    "jeffreys_hdi": "Jeffreys, HDI",
    "flat": "flat, equal-tailed",
    "flat_hdi": "flat, HDI",
    "learnt": "learnt, equal-tailed",
    "learnt_hdi": "learnt, HDI",
    "confidence": "exact confidence",
    "wilson": "Wilson",
    "wald": "Wald of the oracle",
    "bootstrap": "bootstrap of the MLE",
}
DESIGNS = {"warner": "Warner's design", "unrelated_question": "unrelated question"}
#: Designs of the first figure: (design, ε, n).
SHOWN = (("warner", 1.0, 100), ("warner", 1.0, 1_000), ("unrelated_question", 2.0, 1_000))


def select(lines, **wanted):
    """Return the lines whose columns have the wanted values; a callable is asked."""

    def fits(line):
        return all(value(line[key]) if callable(value) else line[key] == value for key, value in wanted.items())

    return [line for line in lines if fits(line)]


def draw_binary():
    """Write the figure of exact coverage over the true share: panels of credible intervals, then those of the others."""
    families = (("jeffreys", "jeffreys_hdi", "flat", "flat_hdi"), ("confidence", "wilson", "wald", "bootstrap"))
    figure, panels = canvas(2 * len(SHOWN), 1, 1.75, sharex=True, sharey=True)
    p = np.geomspace(0.002, 0.5, 1200)
    for i, (design, epsilon, n) in enumerate(SHOWN):
        hit, other = coverage.rates_of(design, epsilon)
        counts = binary.likely_counts(n, other, hit)
        found = binary.all_intervals(counts, n, hit, other)
        for axes, names in zip(panels[i :: len(SHOWN), 0], families, strict=True):
            for name in names:
                held, _ = binary.expected(*found[name], counts, n, hit, other, p)
                axes.plot(p, held, lw=1, label=METHODS[name])
            axes.axhline(0.95, color="0.4", lw=0.8)
            axes.set(xscale="log", ylim=(0.7, 1.005), ylabel="coverage", xticks=(0.01, 0.1))
            axes.set_title(f"{DESIGNS[design]}, ε = {epsilon:g}, {n:,} people")
    for axes in panels[:: len(SHOWN), 0]:
        axes.legend(loc="lower right", borderaxespad=0, labelspacing=0.2)
    panels[-1, 0].set_xlabel("true share")
    text = "Jeffreys' equal-tailed intervals hold small shares; flat ones and highest densities miss some"
    finish(figure, text)
    save(figure, "coverage-binary")


def draw_several(lines):
    """Write the figure of several categories: coverage of the largest share against that of all shares, cell by cell."""
    names = ("jeffreys", "flat", "learnt", "confidence", "wald", "bootstrap")
    figure, panels = canvas(3, 2, 1.85, sharex=True, sharey=True)
    for axes, name in zip(panels.flat, names, strict=True):
        for size, marker in ((5, "o"), (20, "s"), (100, "^")):
            cells = select(lines, estimator=name, n_categories=size, population=lambda value: value != "even")
            all_of, largest = ([line["value"] for line in select(cells, metric=m)] for m in ("coverage", "coverage_largest"))
            axes.plot(all_of, largest, marker, ms=4, alpha=0.7, label=f"{size} categories")
        axes.axhline(0.95, color="0.4", lw=0.8)
        axes.axvline(0.95, color="0.4", lw=0.8)
        axes.set_title(wrapped(METHODS[name], 20))
    for axes in panels[-1]:
        axes.set_xlabel("coverage of all\npositive shares")
    for axes in panels[:, 0]:
        axes.set_ylabel("coverage of the\nlargest share")
    text = "Priors and the bootstrap can miss the largest share of many; exact and Wald intervals do not"
    finish(figure, text, labelled(panels), columns=2)
    save(figure, "coverage-several")


def table(headers, rows):
    """Print a table in Markdown."""
    print("| " + " | ".join(headers) + " |\n|---" + "|---:" * (len(headers) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def binary_tables(lines):
    """Print least coverage, coverage at small shares and widths of the binary designs."""
    lines = select(lines, n_categories=2)
    sizes = sorted({line["n_reports"] for line in lines})
    least, low, wide = [], [], []
    for name, words in METHODS.items():
        own = select(lines, estimator=name)
        values = [[line["value"] for line in select(own, metric="coverage_least", n_reports=n)] for n in sizes]
        least.append([words, *(f"{min(value):.3f}" for value in values)])
        values = [
            [ln["value"] for ln in select(own, metric="coverage", population=p)] for p in ("0.01", "0.05", "0.1", "0.3")
        ]
        low.append([words, *(f"{min(value):.2f} to {max(value):.2f}" for value in values)])
        ratios = [relative_widths(lines, name, n) for n in sizes]
        wide.append([words, *(f"{value:.2f}" for value in ratios)])
    table(["least coverage, p from 0.01 to 0.99", *(f"n = {n:,}" for n in sizes)], least)
    table(["least and largest coverage", *(f"p = {p}" for p in ("0.01", "0.05", "0.1", "0.3"))], low)
    table(["width / exact confidence, all p alike", *(f"n = {n:,}" for n in sizes)], wide)


def relative_widths(lines, name, n, population="uniform"):
    """Return the geometric mean over designs and ε of the expected width over that of exact confidence intervals."""
    width = {
        (line["protocol"], line["epsilon"], line["estimator"]): line["value"]
        for line in select(lines, metric="width", population=population, n_reports=n)
    }
    logs = [np.log(value / width[key[0], key[1], "confidence"]) for key, value in width.items() if key[2] == name]
    return float(np.exp(np.mean(logs)))


def several_tables(lines):
    """Print coverage and widths under GRR by the number of categories and ε, and under protocols with sets as reports."""
    lines = select(lines, n_categories=lambda size: size > 2)
    grr = [(size, epsilon) for size in (5, 20, 100) for epsilon in (1.0, 4.0)]
    groups = {f"a = {a}, ε = {e:g}": select(lines, protocol="grr", n_categories=a, epsilon=e) for a, e in grr}
    several_table(groups, "GRR")
    sets = [(size, epsilon) for size in (20, 100) for epsilon in (1.0, 4.0)]
    others = select(lines, protocol=lambda name: name != "grr")
    several_table({f"a = {a}, ε = {e:g}": select(others, n_categories=a, epsilon=e) for a, e in sets}, "OUE, OLH, subset")


def several_table(groups, title):
    """Print, for each group of cells, "all shares / largest share" covered, empty categories covered, and widths."""
    groups = {words: group for words, group in groups.items() if group}
    held, empty, wide = [], [], []
    keys = ("protocol", "n_categories", "population", "epsilon", "n_reports")
    for name, words in METHODS.items():
        rows = {title: [words], "empty": [words], "wide": [words]}
        for group in groups.values():
            own = select(group, estimator=name)
            if not own:
                continue
            every = np.mean([line["value"] for line in select(own, metric="coverage")])
            uneven = select(own, metric="coverage_largest", population=lambda p: p != "even")
            largest = [line["value"] for line in uneven]
            rows[title].append(f"{every:.2f} / " + (f"{np.mean(largest):.2f} ({min(largest):.2f})" if largest else "–"))
            none = [line["value"] for line in select(own, metric="coverage_empty")]
            rows["empty"].append(f"{np.mean(none):.2f}" if none else "–")
            width = {tuple(line[key] for key in keys): line["value"] for line in select(own, metric="width")}
            base = select(group, estimator="confidence", metric="width")
            logs = [np.log(width[tuple(line[key] for key in keys)] / line["value"]) for line in base]
            rows["wide"].append(f"{np.exp(np.mean(logs)):.2f}")
        for found, row in ((held, rows[title]), (empty, rows["empty"]), (wide, rows["wide"])):
            found += [row] if row[1:] else []
    table([f"{title}: all / largest (least)", *groups], held)
    table([f"{title}: empty categories", *groups], empty)
    table([f"{title}: width / exact confidence", *groups], wide)


def main():
    """Write the figures and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=PLACE / "coverage.parquet")
    lines = pq.read_table(parser.parse_args().results).to_pylist()
    draw_binary()
    draw_several(lines)
    binary_tables(lines)
    several_tables(lines)


if __name__ == "__main__":
    main()
