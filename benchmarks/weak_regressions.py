"""Interval ends of regressions on weak reports: 200 random designs against references that share no code with it.

``python benchmarks/weak_regressions.py [first] [last]`` fits designs number first to last − 1 (0 to 200 by default) with
five seeds each, and prints a line for each; references are kept in weak_regressions.csv. An end counts as right within .1
posterior sd of the reference. References of two unknowns are sums over a grid, others differential-evolution Markov chains
(ter Braak 2006, Statistics and Computing 16) of 256 walkers, with the error of their ends over ten stretches of time.
"""

import csv
import pathlib
import sys
import time
import warnings

import numpy as np
import pandas as pd

import ldpbayes as lb
from ldpbayes.protocols import designs

FILE = pathlib.Path(__file__).with_suffix(".csv")
DESIGNS, SEEDS = 200, 5
#: An end within so many posterior sd is right.
RIGHT = 0.1
WALKERS, BURN, STEPS = 256, 1500, 5000
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
    if u == 2:
        return on_a_grid(density, coefficients)
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


def on_a_grid(density, coefficients):
    """Return the same of two unknowns: a grid that is laid once more where the density is not negligible."""
    low, high = np.full(2, -25.0), np.full(2, 25.0)
    for _ in range(3):
        axes = [np.linspace(one, two, 700) for one, two in zip(low, high, strict=True)]
        theta = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
        values = np.concatenate([density(part) for part in np.array_split(theta, 60)])
        inside = theta[values > values.max() - 22]
        step = (high - low) / 699
        low, high = inside.min(axis=0) - 2 * step, inside.max(axis=0) + 2 * step
    weight = np.exp(values - values.max())
    weight /= weight.sum()
    b = coefficients(theta)
    out = []
    for one in b.T:
        order = np.argsort(one)
        below = np.cumsum(weight[order]) - 0.5 * weight[order]
        mean = weight @ one
        out.append((mean, np.sqrt(weight @ (one - mean) ** 2), *np.interp([0.025, 0.975], below, one[order]), 1e-3))
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
            formula, frame, used, report="report", design="channel", categories=list("xyz"[:a]), random_seed=seed
        )
    summary = found["summary"].to_dataset().isel(category=slice(1, None))
    return [summary[f"coefficients_{name}"].values.ravel() for name in ("lower", "upper")], found


def main(first=0, last=DESIGNS):
    """Print a line for each design, and the worst ends of all."""
    known, wrong, worst, refused, ends = stored(), 0, 0.0, 0, 0
    print(f"{'design':>6} {'n':>5} {'unknowns':>8} {'reference':>9} {'worst end':>9} {'CPU s':>6}  engines, channels")
    for number in range(first, last):
        frame, formula, used, x, names, a = design(number)
        if number not in known:
            parts = target(frame, used, x, a)
            values = np.stack(reference(*parts, a, np.random.default_rng(number)), axis=1)
            labels = [f"{name} {label}" for name in names for label in "yz"[: a - 1]]
            rows = [[number, label, *(f"{v:.5g}" for v in row)] for label, row in zip(labels, values, strict=True)]
            fresh = not FILE.exists()
            with FILE.open("a", newline="") as handle:
                csv.writer(handle).writerows(([COLUMNS] if fresh else []) + rows)
            known = stored()
        right = known[number]
        sd, away, engines, seconds = right["sd"].values, 0.0, [], []
        for seed in range(SEEDS):
            begin = time.process_time()
            (lower, upper), found = fitted(frame, formula, used, a, seed)
            seconds.append(time.process_time() - begin)
            engines.append(found.attrs["method"])
            if not found.attrs["converged"]:
                refused += 1
                engines[-1] += " (not trusted)"
                continue
            off = np.abs(np.concatenate([lower - right["lower"].values, upper - right["upper"].values])) / np.tile(sd, 2)
            ends += off.size
            wrong += int((off > RIGHT).sum())
            away = max(away, float(off.max()))
        worst = max(worst, away)
        print(
            f"{number:>6} {len(frame):>5} {len(sd):>8} {right['error'].max():>9.3f} {away:>9.3f} {np.mean(seconds):>6.2f}  "
            f"{', '.join(sorted(set(engines)))}; {', '.join(used)}",
            flush=True,
        )
    print(f"{wrong} of {ends} ends off by more than {RIGHT} sd, the worst by {worst:.3f}; {refused} fits not trusted.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
