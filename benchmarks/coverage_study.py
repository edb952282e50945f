"""Figures and tables of docs/studies/coverage.md from the stored results of the coverage study."""

import argparse
import pathlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from ldpbayes.study import binary, coverage

PLACE = pathlib.Path(__file__).parents[1] / "docs" / "studies"
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
#: Designs of the first figure: (design, ε, n).
SHOWN = (("warner", 1.0, 100), ("warner", 1.0, 1_000), ("unrelated_question", 2.0, 1_000))


def select(lines, **wanted):
    """Return the lines whose columns have the wanted values; a callable is asked."""

    def fits(line):
        return all(value(line[key]) if callable(value) else line[key] == value for key, value in wanted.items())

    return [line for line in lines if fits(line)]


def draw_binary(path):
    """Write the figure of exact coverage over the true share: a row for each design, a column for each family."""
    families = (("jeffreys", "jeffreys_hdi", "flat", "flat_hdi"), ("confidence", "wilson", "wald", "bootstrap"))
    figure, panels = plt.subplots(len(SHOWN), 2, figsize=(9.5, 8), sharex=True, sharey=True, layout="constrained")
    p = np.geomspace(0.002, 0.5, 1200)
    for row, (design, epsilon, n) in zip(panels, SHOWN, strict=True):
        hit, other = coverage.rates_of(design, epsilon)
        counts = binary.likely_counts(n, other, hit)
        found = binary.all_intervals(counts, n, hit, other)
        for axes, names in zip(row, families, strict=True):
            for name in names:
                held, _ = binary.expected(*found[name], counts, n, hit, other, p)
                axes.plot(p, held, lw=1, label=METHODS[name])
            axes.axhline(0.95, color="0.4", lw=0.8)
            axes.set(xscale="log", ylim=(0.7, 1.005), title=f"{design.replace('_', ' ')}, ε = {epsilon:g}, n = {n:,}")
    for axes in panels[-1]:
        axes.set_xlabel("true share p")
    for axes, names in zip(panels[0], families, strict=True):
        axes.legend(fontsize=7, loc="lower right", ncols=2, title=None if names else "")
    panels[1, 0].set_ylabel("exact coverage of 95 % intervals")
    figure.savefig(path, dpi=100)


def draw_several(lines, path):
    """Write the figure of several categories: coverage of the largest share against that of all shares, cell by cell."""
    names = ("jeffreys", "flat", "learnt", "confidence", "wald", "bootstrap")
    figure, panels = plt.subplots(2, 3, figsize=(9.5, 6), sharex=True, sharey=True, layout="constrained")
    for axes, name in zip(panels.flat, names, strict=True):
        for size, marker in ((5, "o"), (20, "s"), (100, "^")):
            cells = select(lines, estimator=name, n_categories=size, population=lambda value: value != "even")
            all_of, largest = ([line["value"] for line in select(cells, metric=m)] for m in ("coverage", "coverage_largest"))
            axes.plot(all_of, largest, marker, ms=5, alpha=0.7, label=f"a = {size}")
        axes.axhline(0.95, color="0.4", lw=0.8)
        axes.axvline(0.95, color="0.4", lw=0.8)
        axes.set_title(METHODS[name], fontsize=10)
    panels[0, 0].legend(fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("coverage of all positive shares")
    for axes in panels[:, 0]:
        axes.set_ylabel("coverage of the largest share")
    figure.savefig(path, dpi=100)


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
    """Print coverage of all, of the largest and of the empty shares, and widths, by the number of categories."""
    lines = select(lines, n_categories=lambda size: size > 2)
    rows = []
    for name, words in METHODS.items():
        own = select(lines, estimator=name)
        if not own:
            continue
        row = [words]
        for size in (5, 20, 100):
            held = select(own, n_categories=size)
            mean = np.mean([line["value"] for line in select(held, metric="coverage")])
            largest = [line["value"] for line in select(held, metric="coverage_largest", population=lambda p: p != "even")]
            empty = np.mean([line["value"] for line in select(held, metric="coverage_empty")])
            row += [f"{mean:.3f}", f"{min(largest):.2f}", f"{empty:.2f}"]
        rows.append(row)
    headers = [f"a = {size}: {word}" for size in (5, 20, 100) for word in ("all", "largest, least cell", "empty")]
    table(["coverage", *headers], rows)
    keys = ("protocol", "n_categories", "population", "epsilon", "n_reports")
    width = {(*(line[key] for key in keys), line["estimator"]): line["value"] for line in select(lines, metric="width")}
    rows = []
    for name, words in METHODS.items():
        row = [words]
        for size in (5, 20, 100):
            logs = [
                np.log(value / width[*key[:-1], "confidence"])
                for key, value in width.items()
                if key[-1] == name and key[1] == size
            ]
            row.append(f"{np.exp(np.mean(logs)):.2f}" if logs else "")
        if any(row[1:]):
            rows.append(row)
    table(["width / exact confidence", "a = 5", "a = 20", "a = 100"], rows)


def main():
    """Write the figures and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=PLACE / "coverage.parquet")
    lines = pq.read_table(parser.parse_args().results).to_pylist()
    draw_binary(PLACE / "coverage-binary.png")
    draw_several(select(lines, n_categories=lambda size: size > 2), PLACE / "coverage-several.png")
    binary_tables(lines)
    several_tables(lines)


if __name__ == "__main__":
    main()
