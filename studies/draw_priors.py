"""Figure and table of docs/theory/priors-study.md from the stored results of the study of priors."""

import argparse
import pathlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from ldpbayes.plots import PALETTE
from studies.priors import geometric_means

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=PALETTE)

PLACE = pathlib.Path(__file__).parents[1] / "docs" / "theory"
SHOWN = {"learnt": "o", "flat": "s", "mle": "^", "norm_sub": "v", "power_law": "D", "smooth": "*"}


def ratios(table, estimator):
    """Return {(population, a, n): geometric mean over protocols and ε of the error over Jeffreys'}."""
    found = {}
    for line in table.to_pylist():
        if line["metric"] == "ratio" and line["estimator"] == estimator:
            found.setdefault((line["population"], line["n_categories"], line["n_reports"]), []).append(line["value"])
    return {key: float(np.exp(np.log(values).mean())) for key, values in found.items()}


def draw(table, path):
    """Write the figure: a row for each population, a panel for each number of reports."""
    by = {name: ratios(table, name) for name in SHOWN}
    rows = sorted({key[:2] for key in by["learnt"]}, key=lambda key: (key[1], key[0]), reverse=True)
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 7), sharey=True, layout="constrained")
    for axes, n in zip(panels, (10_000, 1_000_000), strict=True):
        for name, marker in SHOWN.items():
            points = [(by[name][(*row, n)], i) for i, row in enumerate(rows) if (*row, n) in by[name]]
            size = 6 if name in ("learnt", "smooth") else 4
            axes.plot(*zip(*points, strict=True), marker, ms=size, label=name.replace("_", "-"))
        axes.axvline(1, color="0.4", lw=0.8)
        axes.set(xscale="log", xlim=(0.1, 100), title=f"n = {n:,}", xlabel="squared error / that under Jeffreys' prior")
        axes.grid(axis="y", lw=0.3)
    panels[0].set_yticks(range(len(rows)), [f"{name} ({a:,})" for name, a in rows], fontsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=110)


def main():
    """Write the figure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=PLACE / "priors-study.parquet")
    table = pq.read_table(parser.parse_args().results)
    draw(table, PLACE / "priors-study.png")
    for name in ("learnt", "flat", "mle", "norm_sub", "norm_cut", "power_law", "oracle", "smooth"):
        parts = geometric_means(table, name)
        print(name, {part: tuple(round(x, 3) for x in found) for part, found in parts.items()})
    for key, value in sorted(ratios(table, "learnt").items(), key=lambda item: (item[0][1], item[0])):
        print(*key, round(value, 2))


if __name__ == "__main__":
    main()
