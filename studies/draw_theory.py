"""Figures of docs/theory from the stored results of their studies, and the table of the study of priors."""

import argparse
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from studies.draw import canvas, finish, labelled, save
from studies.plotting import plot_study
from studies.priors import geometric_means

PLACE = pathlib.Path(__file__).parents[1] / "docs" / "theory"
SHOWN = {"learnt": "o", "flat": "s", "mle": "^", "norm_sub": "v", "power_law": "D", "smooth": "*"}
#: What the stored names say, in words.
WORDS = {
    "mle": "maximum likelihood",
    "norm_sub": "Norm-Sub",
    "power_law": "power law",
    "posterior": "plain posterior",
    "posterior_law": "posterior, law known",
    "recover": "LDPRecover",
    "recover_targets": "LDPRecover*",
    "exact": "one row a user",
    "independent": "reports taken for users",
    "memoized_grr": "memoized GRR",
    "memoized_unary": "memoized unary encoding",
    "loloha": "LOLOHA",
    "adult_workclass": "work class",
    "adult_education": "education",
    "adult_age": "age",
    "adult_hours": "hours of work",
    "adult_workclass_education": "work class × education",
    "adult_age_sex": "age × sex",
    "adult_education_marital_income": "education × marriage × income",
    "flights_carrier": "carrier",
    "flights_dest": "destination",
    "flights_origin_dest": "origin × destination",
    "flights_air_time": "time in the air",
    "flights_dep_delay": "delay",
    "flights_dep_minute_of_day": "minute of departure",
    "flights_distance": "distance",
    "flights_speed": "speed",
    "zipf_1": "Zipf 1",
    "zipf_1.5": "Zipf 1.5",
    "zipf_1_sparse": "Zipf 1, most empty",
}


def ratios(table, estimator):
    """Return {(population, a, n): geometric mean over protocols and ε of the error over Jeffreys'}."""
    found = {}
    for line in table.to_pylist():
        if line["metric"] == "ratio" and line["estimator"] == estimator:
            found.setdefault((line["population"], line["n_categories"], line["n_reports"]), []).append(line["value"])
    return {key: float(np.exp(np.log(values).mean())) for key, values in found.items()}


def draw(table):
    """Write the figure: a line for each population, with its name above, and a panel for each number of reports."""
    by = {name: ratios(table, name) for name in SHOWN}
    rows = sorted({key[:2] for key in by["learnt"]}, key=lambda key: (key[1], key[0]), reverse=True)
    figure, panels = canvas(1, 2, 0.32 * len(rows), sharey=True)
    for axes, n in zip(panels[0], (10_000, 1_000_000), strict=True):
        for name, marker in SHOWN.items():
            points = [(by[name][(*row, n)], i) for i, row in enumerate(rows) if (*row, n) in by[name]]
            size = 6 if name in ("learnt", "smooth") else 4
            axes.plot(*zip(*points, strict=True), marker, ms=size, label=WORDS.get(name, name))
        axes.axvline(1, color="0.4", lw=0.8)
        axes.set(xscale="log", xlim=(0.1, 100), ylim=(-0.4, len(rows) - 0.1), title=f"{n:,} reports")
        axes.set_yticks(range(len(rows)), [""] * len(rows))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("squared error / that\nunder Jeffreys' prior")
        axes.grid(axis="y")
    panels[0, 0].set(zorder=2, facecolor="none")  # names reach over the next panel
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    for i, (name, a) in enumerate(rows):
        panels[0, 0].text(0.11, i + 0.5, f"{WORDS[name]} ({a:,})", va="center", bbox=box, in_layout=False)
    text = "A learnt prior is seldom worse than Jeffreys' and often far better; smooth ones suit ordered categories"
    finish(figure, text, labelled(panels), columns=2)
    save(figure, "priors-study", PLACE)


def draw_study(name, x, panels, title, most_columns, **where):
    """Write the figure of a study's cells with these values, its names in words: the first of panels are rows."""
    rows = [
        {key: WORDS.get(value, value) for key, value in row.items()}
        for row in pq.read_table(PLACE / f"{name}-study.parquet").to_pylist()
        if all(row[key] in values for key, values in where.items())
    ]
    order = list(dict.fromkeys(row[panels[0]] for row in rows))
    rows.sort(key=lambda row: order.index(row[panels[0]]))
    figure = plot_study(pa.Table.from_pylist(rows), x, ("estimator",), panels, most_columns=most_columns, title=title)
    save(figure, f"{name}-study", PLACE)


def draw_all(table):
    """Write the figures: that of the study of priors, from its table, and those of the studies of repeats and poisoning."""
    draw(table)
    says = "Taken for users, the reports of one user make intervals that miss; one row a user keeps its promise"
    draw_study("repeats", "times", ("protocol",), says, 1, metric=("coverage",))
    says = "Who knows the attack or its targets withstands it; projection and a plain posterior do not (100,000 reports)"
    shown = ("norm_sub", "posterior", "recover", "recover_targets", "posterior_law")
    panels = "protocol", "population"
    draw_study("poisoning", "fakes", panels, says, 2, metric=("mse",), n_reports=(100_000,), estimator=shown)


def main():
    """Write the figures and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=PLACE / "priors-study.parquet")
    table = pq.read_table(parser.parse_args().results)
    draw_all(table)
    for name in ("learnt", "flat", "mle", "norm_sub", "norm_cut", "power_law", "oracle", "smooth"):
        parts = geometric_means(table, name)
        print(name, {part: tuple(round(x, 3) for x in found) for part, found in parts.items()})
    for key, value in sorted(ratios(table, "learnt").items(), key=lambda item: (item[0][1], item[0])):
        print(*key, round(value, 2))


if __name__ == "__main__":
    main()
