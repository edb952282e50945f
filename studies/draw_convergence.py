"""Figure and table of docs/studies/mle-against-bayes.md from the stored results of the study of convergence."""

import argparse
import pathlib

import numpy as np
import pyarrow.parquet as pq

from studies.draw import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PLACE,
    canvas,
    finish,
    labelled,
    number,
    one,
    over,
    pick,
    save,
    write_table,
)

PROTOCOLS = {"grr": ("GRR", BLUE, "o"), "oue": ("OUE", ORANGE, "s"), "hadamard": ("Hadamard response", GREEN, "^")}
#: Slopes are fitted to cells with this many reports and more: with fewer the maximum is often at the edge of the simplex.
MANY = 1_000
#: Display: Distances on the vertical axis.
DISTANCES = (0.02, 0.05, 0.1, 0.2, 0.5)


def slope(rows):
    """Return the exponent of n in a power law through the values, by least squares in logs."""
    n, values = (np.array([row[key] for row in rows], dtype=float) for key in ("n_reports", "value"))
    return float(np.polyfit(np.log(n), np.log(values), 1)[0])


def draw(rows):
    """Draw distances of the MLE and of NUTS's mean from the posterior mean, a panel for each number of categories."""
    sizes = sorted({row["n_categories"] for row in rows})
    figure, panels = canvas(len(sizes), 1, 2.3, sharex=True)
    for axes, a in zip(panels[:, 0], sizes, strict=True):
        for name, (label, color, marker) in PROTOCOLS.items():
            for estimator, dash, words in (("mle", "-", "MLE"), ("nuts", ":", "NUTS's mean")):
                here = pick(rows, protocol=name, n_categories=a, estimator=estimator, metric="distance_in_sd")
                if not here:
                    continue
                at, value, error = ([row[key] for row in here] for key in ("n_reports", "value", "standard_error"))
                style = {"color": color, "marker": marker, "ls": dash, "ms": 4, "lw": 1, "capsize": 2}
                axes.errorbar(at, value, 2 * np.array(error), label=f"{label}: {words}", **style)
        n = np.array([1e2, 1e5])
        axes.plot(n, 5 / np.sqrt(n), color=BLACK, ls="--", lw=1, label="5/√n")
        axes.set(xscale="log", yscale="log", title=f"{a} categories", ylabel="distance in posterior sd")
        axes.set_xticks([100, 1_000, 10_000, 100_000], ["100", "1,000", "10,000", "100,000"])
        axes.set_yticks(DISTANCES, [f"{value:g}" for value in DISTANCES])
        axes.minorticks_off()
        axes.grid()
    panels[-1, 0].set_xlabel("reports")
    text = "The MLE comes to the posterior mean as reports come in; NUTS is there from the beginning"
    finish(figure, text, labelled(panels))
    save(figure, "mle-against-bayes")


def tables(rows):
    """Write the tables: distances with their slopes, and squared errors."""
    distances, errors = [], []
    sizes = sorted({row["n_reports"] for row in rows})
    for a in sorted({row["n_categories"] for row in rows}):
        for name, (label, *_) in PROTOCOLS.items():
            here = pick(rows, protocol=name, n_categories=a)
            for metric, words in (("distance_in_sd", "in sd"), ("distance", "of P")):
                mle = sorted(pick(here, estimator="mle", metric=metric), key=lambda row: row["n_reports"])
                values = {row["n_reports"]: number(row["value"], row["standard_error"]) for row in mle}
                many = [row for row in mle if row["n_reports"] >= MANY]
                fitted = f"{slope(many):.2f}" if len(many) > 1 else "–"
                if mle:
                    distances.append([label, f"{a}", words, *(values.get(n, "–") for n in sizes), fitted])
            for n in sizes:
                found = pick(here, n_reports=n, metric="mse")
                base = one(found, estimator="posterior_mean")
                if base is None:
                    continue
                others = [over(one(found, estimator=estimator), base) for estimator in ("nuts", "mle", "convex", "oracle")]
                errors.append([label, f"{a}", f"{n:,}", number(base["value"], base["standard_error"]), *others])
    headers = ["protocol", "a", "distance", *(f"n = {n:,}" for n in sizes), f"slope, n ≥ {MANY:,}"]
    write_table("mle-against-bayes-distances", headers, distances)
    headers = ["protocol", "a", "n", "squared error of the posterior mean", "NUTS", "MLE", "MLE by cvxpy", "oracle"]
    write_table("mle-against-bayes-errors", headers, errors)


def main():
    """Write the figure and the tables, and print how many cross-checks found two answers apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=PLACE / "convergence.parquet")
    rows = pq.read_table(parser.parse_args().results).to_pylist()
    draw(rows)
    tables(rows)
    for name in ("nuts", "enumeration", "convex"):
        found = pick(rows, estimator=name, metric="apart")
        checks = sum(row["replications"] for row in found)
        print(f"{name}: apart in {sum(row['value'] * row['replications'] for row in found):.0f} of {checks} cross-checks")
    far = max(row["value"] for row in pick(rows, estimator="nuts", metric="distance_in_sd"))
    print(f"nuts: at most {far:.3f} posterior sd from the posterior mean, on average over a cell")


if __name__ == "__main__":
    main()
