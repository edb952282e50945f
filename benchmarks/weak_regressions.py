"""Interval ends of regressions on weak reports: 280 random designs against references that share no code with it.

``python benchmarks/weak_regressions.py [seeds] [first] [last]`` fits designs number first to last − 1 (0 to 280 by default)
with so many seeds each (5); references are kept in weak_regressions.csv, fits in weak_regressions_fits.csv, and those that
are there are not made again: remove the second file to try a new version of the package. An end counts as right within .1
posterior sd of the reference. References of two and three unknowns are sums over a grid, others differential-evolution
Markov chains (ter Braak 2006, Statistics and Computing 16) of 256 walkers, with the error of their ends over ten stretches
of time. Where that error was above .02, chains are longer: BURN = 5000, STEPS = 40000 (60000 for designs 43, 130 and 154);
so they are for designs 39, 172 and 271, with BURN = 3000 and STEPS = 12000 to 20000.
"""

import itertools
import pathlib
import sys
import time
import warnings

import numpy as np
import pandas as pd

import ldpbayes as lb
from ldpbayes.protocols import designs
from ldpbayes.result.facts import facts_of

FILE = pathlib.Path(__file__).with_suffix(".csv")
FITS = FILE.with_name("weak_regressions_fits.csv")
#: Limits of the package were tuned on the designs up to this.
TUNED = 259
DESIGNS, SEEDS = 280, 5
#: An end within so many posterior sd is right.
RIGHT = 0.1
WALKERS, BURN, STEPS = 256, 1500, 5000
#: Points along each axis of the grids that two and three unknowns have, one after the other until the ends move by fewer
#: sd than EXACT, and how many nats below the largest density a point is left out.
GRIDS, EXACT, NEGLIGIBLE = {2: (200, 200, 300, 500, 800), 3: (50, 50, 50, 70, 100, 150, 220)}, 0.01, 18.0
COLUMNS = ["design", "coefficient", "mean", "sd", "lower", "upper", "error"]


def channels(a, rng):
    """Return {name: (protocol, matrix of P(answer | truth))} of one or two channels of a design."""
    labels = tuple("xyz"[:a])
    if a == 2:
        choice = {
            "forced": lambda: designs.forced_response(rng.uniform(0.6, 0.9), (1, 1), answers=labels),
            "one-sided": lambda: designs.forced_response(0.7, (0, 1), answers=labels),
            "crosswise": lambda: designs.crosswise(rng.uniform(0.1, 0.35), answers=labels),
            "warner": lambda: designs.warner(rng.uniform(0.6, 0.85), answers=labels),
            "direct": lambda: designs.direct(answers=labels),
            "kuk": lambda: designs.kuk(1.0, 0.3, answers=labels),
        }
    else:
        stay = np.exp(rng.uniform(0.8, 2.5))
        grr = np.full((3, 3), 1.0) + (stay - 1) * np.eye(3)
        choice = {
            "grr": lambda: lb.protocols.channel.Channel(grr / grr.sum(axis=0), labels),
            "direct": lambda: designs.direct(3, answers=labels),
            "forced": lambda: designs.forced_response(0.7, (1, 1, 0), answers=labels),
        }
    number = 1 + (rng.random() < 0.4)
    return {str(name): choice[name]() for name in rng.choice(list(choice), number, replace=False)}


def design(number):
    """Return (frame with counts, formula, channels, columns (rows, K) as R codes them, their names, a)."""
    rng = np.random.default_rng(10_000 + number)
    a = 2 if rng.random() < 0.75 else 3
    wanted = int(rng.integers(2, 7)) if a == 2 else int(rng.integers(2, 4))
    n = int(np.exp(rng.uniform(np.log(100), np.log(3000))))
    data, terms, columns, names = {}, [], [np.ones(n)], ["Intercept"]
    while len(columns) < wanted:
        left, name = wanted - len(columns), f"v{len(terms)}"
        kind = rng.choice(["binary", "three", "number"]) if left > 1 else rng.choice(["binary", "number"])
        if kind == "number":
            data[name] = rng.integers(0, 5, n).astype(float)
            columns.append(data[name])
            names.append(name)
        else:
            levels = "pq" if kind == "binary" else "pqr"
            data[name] = rng.choice(list(levels), n, p=rng.dirichlet(np.full(len(levels), 5.0)))
            for level in levels[1:]:
                columns.append((data[name] == level).astype(float))
                names.append(f"{name}[{level}]")
        terms.append(name)
    x = np.stack(columns, axis=1)
    eta = np.zeros((n, a))
    for k in range(1, a):
        beta = np.append(rng.uniform(-5, 0), rng.normal(0, 1.2, x.shape[1] - 1))
        eta[:, k] = (x - np.append(0, x[:, 1:].mean(axis=0))) @ beta
    p = np.exp(eta - eta.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    truth = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, a - 1)
    used = channels(a, rng)
    data["channel"] = rng.choice(list(used), n)
    report = np.empty(n, dtype=int)
    for name, protocol in used.items():
        mine = data["channel"] == name
        law = protocol.matrix[:, truth[mine]].cumsum(axis=0)
        report[mine] = (rng.random(mine.sum()) > law).sum(axis=0).clip(0, a - 1)
    data["report"] = np.array(list("xyz"))[report]
    frame = pd.DataFrame(data)
    return frame, "answer ~ " + (" + ".join(terms) or "1"), used, x, names, a


def target(frame, used, x, a):
    """Return (log-density of θ (S, u), map from θ to coefficients): an own writing of the model of the docs."""
    spread, mean = x.std(axis=0), x.mean(axis=0)
    spread[0], mean[0] = 1.0, 0.0
    kinds = list(used)
    keys = np.column_stack([x, [kinds.index(name) for name in frame["channel"]], frame["report"].map("xyz".index)])
    rows, counts = np.unique(keys, axis=0, return_counts=True)
    law = np.array([used[kinds[int(k)]].matrix[int(y)] for k, y in rows[:, -2:]])
    standard = (rows[:, :-2] - mean) / spread
    scales = np.append(np.pi, np.full(x.shape[1] - 1, 2.5))
    inverse = np.linalg.inv(0.5 * (np.eye(a - 1) + 1))

    def density(theta):
        b = theta.reshape(len(theta), x.shape[1], a - 1)
        odds = [np.exp(np.clip(b[:, :, k] @ standard.T, -300, 300)) for k in range(a - 1)]
        given = law[:, 0] + sum(law[:, k + 1] * one for k, one in enumerate(odds))
        with np.errstate(divide="ignore"):
            fit = np.log(given / (1 + sum(odds))) @ counts
        z = b / scales[:, None]
        return fit - 0.5 * np.einsum("skx,xy,sky->s", z, inverse, z)

    def coefficients(theta):
        b = theta.reshape(len(theta), x.shape[1], a - 1) / spread[:, None]
        b[:, 0] -= np.einsum("k,skx->sx", mean[1:], b[:, 1:])
        return b.reshape(len(theta), -1)

    return density, coefficients, scales


def reference(density, coefficients, scales, a, rng):
    """Return (mean, sd, lower, upper, error of the ends in sd) of each coefficient."""
    u = len(scales) * (a - 1)
    if u in GRIDS:
        return on_a_grid(density, coefficients, u)
    scale = np.repeat(scales, a - 1)
    z = scale * rng.standard_normal((WALKERS, u))
    values = density(z)
    better = scale * rng.standard_normal((20 * WALKERS, u)) * rng.uniform(0.1, 1, (20 * WALKERS, 1))
    candidates = np.concatenate([values, density(better)])
    z = np.concatenate([z, better])[np.argsort(-candidates)[: 4 * WALKERS]][rng.permutation(4 * WALKERS)[:WALKERS]]
    values = density(z)
    kept, half = [], WALKERS // 2
    for step in range(BURN + STEPS):
        for mine, others in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
            pool = z[others]
            i, j = rng.integers(half, size=(2, half))
            jump = 1.0 if step % 10 == 0 else 2.38 / np.sqrt(2 * u) * rng.uniform(0.5, 1.2)
            there = z[mine] + jump * (pool[i] - pool[j]) + 1e-4 * rng.standard_normal((half, u))
            found = density(there)
            taken = np.log(rng.random(half)) < found - values[mine]
            z[mine][taken], values[mine][taken] = there[taken], found[taken]
        if step >= BURN and step % 4 == 0:
            kept.append(z.copy())
    draws = coefficients(np.concatenate(kept))
    parts = np.array_split(draws, 10)
    ends = np.array([np.quantile(part, [0.025, 0.975], axis=0) for part in parts])
    sd = draws.std(axis=0)
    error = ends.std(axis=0, ddof=1).max(axis=0) / np.sqrt(10) / sd
    return draws.mean(axis=0), sd, *np.quantile(draws, [0.025, 0.975], axis=0), error


def on_a_grid(density, coefficients, u):
    """Return the same of two or three unknowns by sums over a grid, laid anew where the density is not negligible.

    Grids lie along the unknowns until enough of their points count, and then along axes of their covariance turned at
    random: points that project onto as many values of each coefficient make its distribution function smooth. The error is
    how far the last grid moved an end.
    """
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((u, u)))[0]
    centre, axes, low, high, found = np.zeros(u), np.eye(u), np.full(u, -25.0), np.full(u, 25.0), None
    for points in GRIDS[u]:
        lines = [np.linspace(one, two, points) for one, two in zip(low, high, strict=True)]
        step = (high - low) / (points - 1)
        theta, inside, values, top = [], [], [], -np.inf
        for first in np.array_split(lines[0], points if u > 2 else 8):
            part = np.stack([axis.ravel() for axis in np.meshgrid(first, *lines[1:], indexing="ij")], axis=1)
            value = density(centre + part @ axes)
            top = max(top, value.max())
            near = value > top - NEGLIGIBLE
            inside.append(part[near])
            values.append(value[near])
        values, inside = np.concatenate(values), np.concatenate(inside)
        near = values > top - NEGLIGIBLE
        inside, weight = inside[near], np.exp(values[near] - top)
        weight /= weight.sum()
        low, high = inside.min(axis=0) - 2 * step, inside.max(axis=0) + 2 * step
        if near.sum() < 1000:
            continue
        theta = centre + inside @ axes
        now, before = summary(coefficients(theta), weight), found
        found = now
        if before is not None:
            error = np.abs([(now[k] - before[k]) / now[1] for k in (2, 3)]).max(axis=0)
            if error.max() < EXACT:
                break
        old, mean = axes, weight @ theta
        lengths, vectors = np.linalg.eigh((weight[:, None] * (theta - mean)).T @ (theta - mean))
        centre, axes = mean, turned @ (vectors * np.sqrt(lengths)).T
        reach, corners = (theta - centre) @ np.linalg.inv(axes), list(itertools.product((-2, 2), repeat=u))
        margin = np.abs((corners * step) @ old @ np.linalg.inv(axes)).max(axis=0)
        low, high = reach.min(axis=0) - margin, reach.max(axis=0) + margin
    return *found, error


def summary(values, weight):
    """Return (mean, sd, lower, upper) of weighted points of each coefficient."""
    out = []
    for one in values.T:
        order = np.argsort(one)
        below = np.cumsum(weight[order]) - 0.5 * weight[order]
        mean = weight @ one
        out.append((mean, np.sqrt(weight @ (one - mean) ** 2), *np.interp([0.025, 0.975], below, one[order])))
    return tuple(np.array(part) for part in zip(*out, strict=True))


def stored():
    """Return {design: rows of references} of the file."""
    if not FILE.exists():
        return {}
    table = pd.read_csv(FILE)
    return {int(number): part for number, part in table.groupby("design")}


def fitted(frame, formula, used, a, seed):
    """Return (coefficients' lower and upper ends (terms · (a − 1),), result)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = lb.regress(
            frame, formula, used, report="report", design="channel", categories=list("xyz"[:a]), random_seed=seed
        )
    summary = found["summary"].to_dataset().isel(category=slice(1, None))
    return [summary[f"coefficients_{name}"].values.ravel() for name in ("lower", "upper")], found


def refer(number):
    """Return the rows of references of a design, and write them into the file where they are not there yet."""
    known = stored()
    if number not in known:
        frame, _, used, x, names, a = design(number)
        values = np.stack(reference(*target(frame, used, x, a), a, np.random.default_rng(number)), axis=1)
        fresh = pd.DataFrame(
            [
                [number, f"{name} {label}", *(float(f"{v:.5g}") for v in row)]
                for (name, label), row in zip(itertools.product(names, "yz"[: a - 1]), values, strict=True)
            ],
            columns=COLUMNS,
        )
        known[number] = fresh
        pd.concat([known[k] for k in sorted(known)]).to_csv(FILE, index=False)
    return known[number]


def main(seeds=SEEDS, first=0, last=DESIGNS):
    """Fit what the table of fits does not have yet, seed by seed, and print what the table says."""
    for seed in range(seeds):
        done = {(int(k), int(s)) for k, s in pd.read_csv(FITS)[["design", "seed"]].values} if FITS.exists() else set()
        for number in range(first, last):
            if (number, seed) in done:
                continue
            right, (frame, formula, used, _, _, a) = refer(number), design(number)
            begin = time.process_time()
            ends, found = fitted(frame, formula, used, a, seed)
            seconds = time.process_time() - begin
            known = np.array([right["lower"], right["upper"]])
            off = np.abs(np.array(ends) - known) / right["sd"].values
            row = {
                "design": number,
                "seed": seed,
                "n": len(frame),
                "unknowns": len(right),
                "method": found.attrs["method"],
                "converged": int(found.attrs["converged"]),
                "stated": round(facts_of(found)["interval_error"], 4),
                "worst": round(off.max(), 4),
                "wrong": int((off > RIGHT).sum()),
                "ends": off.size,
                "reference_error": round(right["error"].max(), 4),
                "seconds": round(seconds, 2),
                "channels": " + ".join(used),
            }
            pd.DataFrame([row]).to_csv(FITS, mode="a", header=not FITS.exists(), index=False)
    table = pd.read_csv(FITS)
    for name, part in (("all designs", table), ("designs that no limit was tuned on", table[table["design"] > TUNED])):
        for kind, rows in (
            ("trusted", part[part["converged"] == 1]),
            ("announced as not converged", part[part["converged"] == 0]),
        ):
            print(
                f"{name}, {kind}: {len(rows)} fits, {rows['wrong'].sum()} of {rows['ends'].sum()} ends off by more than "
                f"{RIGHT} sd, the worst by {rows['worst'].max():.3f}; {rows['seconds'].sum():.0f} CPU s."
            )
    print(table.loc[table["wrong"] > 0].to_string(index=False))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
