"""A standing fuzzer of numbers: random protocol × prior × size × estimand, through the public door, against plain NumPy.

``python tests/fuzz_numbers.py [--seconds 600] [--seed 17] [--count 1]`` (``make fuzz-numbers``) draws fresh seeds, prints
what it compared, and for every number that lies further from its reference than stated errors allow the line that makes it
again. ``tests/test_fuzz_numbers.py`` runs a seeded few.
"""

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import worlds

import ldpbayes as lb
from ldpbayes.errors import ConvergenceError, InfeasibleError

#: Stated errors by which a number may lie away, and shares of a posterior sd besides: rules of quadrature, two processors.
ERRORS, FLOOR = 6.0, 2e-3
#: Most reports whose tallies are listed, by the number of categories.
MOST = {2: 300, 3: 45, 4: 20, 5: 12}
#: Methods that are asked for by name; the rest of the problems is left to the package's choice.
METHODS = ("exact", "quadrature", "tally_states", "augmentation", "surrogate", "pair_slice")
PRIORS = ("flat", "jeffreys", "uneven", "learnt")


class Skipped(Exception):
    """The package refused or distrusts its own numbers, or the reference is worth too little: nothing is compared."""


class Compared:
    """What lies too far from its reference, and how many numbers were compared."""

    def __init__(self):
        self.count, self.faults, self.said = 0, [], ""

    def near(self, what, found, expected, allowed):
        self.count += 1
        if not abs(float(found) - float(expected)) <= float(allowed):
            self.faults.append(f"{what}: {float(found):.8g}, and {float(expected):.8g} ± {float(allowed):.2g} by reference")


def fitted(*arguments, make=lb.fit, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = make(*arguments, random_seed=1, **settings)
        except (ConvergenceError, InfeasibleError) as error:
            raise Skipped(f"refused: {type(error).__name__}") from error
    if not tree.attrs["converged"]:
        raise Skipped("the result says that it is not to be trusted")
    return tree


def problem(a, rng, most=None):
    """Return (collection, answers) of a random problem over so many categories, of one or two channels."""
    n = int(rng.integers(1, (most or MOST[a]) + 1))
    p = rng.dirichlet(np.full(a, rng.choice([0.3, 1.0, 5.0])))
    parts = np.split(rng.choice(a, n, p=p), [n // 3] if n > 3 and rng.random() < 0.25 else [])
    made = [worlds.answers(a, truth, rng) for truth in parts]
    tallies = [lb.Tally(one.protocol, one.reports, name=f"channel {i}") for i, one in enumerate(made)]
    return lb.Collection([f"c{x}" for x in range(a)], tallies), made


def prior_of(name, a, rng):
    """Return (what the package is given, [(log weight, alpha), …])."""
    if name == "learnt":
        return name, worlds.learnt(a)
    alpha = {"flat": np.ones(a), "jeffreys": np.full(a, 0.5), "uneven": rng.uniform(0.2, 4, a)}[name]
    return (alpha if name == "uneven" else name), [(0.0, alpha)]


# ---- what is compared ----------------------------------------------------------------------------------------------------
def shares(found, law, summary, where=""):
    """Compare P and F of one collection: means, standard deviations and ends, within the errors that the summary states."""
    for x, category in enumerate(summary["category"].values):
        one = summary.sel(target="distribution", category=category)
        mean, sd, lower, upper = law.share([x])
        error = float(np.nan_to_num(one["mcse"]))
        found.near(f"{where}mean of P({category})", one["mean"], mean, ERRORS * error + FLOOR * sd)
        found.near(f"{where}sd of P({category})", one["sd"], sd, 2 * ERRORS * error + FLOOR * sd)
        for key, end in (("lower", lower), ("upper", upper)):
            stated = float(np.nan_to_num(one.get(f"{key}_error", 0.0)))
            allowed = ERRORS * max(stated, 3 * error) + 3 * FLOOR * sd
            if abs(float(one[key]) - end) > allowed:  # a flat tail: what counts is the probability outside
                weight, a, b = law.betas([x])
                outside = weight @ worlds.special.betainc(a, b, float(one[key]))
                level = 0.025 if key == "lower" else 0.975
                found.near(f"{where}probability below the {key} end of P({category})", outside, level, 0.012)
            found.count += 1
        counts = law.count(x)
        k = np.arange(counts.size)
        mean, one = counts @ k / law.tallies.n, summary.sel(target="frequency", category=category)
        sd = np.sqrt(max(counts @ (k / law.tallies.n - mean) ** 2, 0))
        error = float(np.nan_to_num(one["mcse"]))
        found.near(f"{where}mean of F({category})", one["mean"], mean, ERRORS * error + FLOOR * sd + 1e-9)
        found.near(f"{where}sd of F({category})", one["sd"], sd, 2 * ERRORS * error + FLOOR * sd + 1e-9)


def estimators(found, tree, made):
    """The maximum by its conditions of optimality, the oracle by the weights that its definition gives."""
    estimate = tree["estimate"].to_dataset()
    rows = np.concatenate([one.rows for one in made])
    p = estimate["value"].sel(estimator="mle").values
    slope = (rows / (rows @ p)[:, None]).sum(axis=0)
    found.near("sum of the maximum-likelihood estimate", p.sum(), 1, 1e-8)
    found.near("slope beyond n at the maximum of the likelihood", max(slope.max() - len(rows), 0), 0, 1e-3)
    found.near("log-likelihood", estimate["log_likelihood"].sel(estimator="mle"), np.log(rows @ p).sum(), 1e-6)
    if len(made) == 1 and made[0].weights is not None and "oracle" in estimate["estimator"]:
        for x, value in enumerate(estimate["value"].sel(estimator="oracle").values):
            found.near(f"oracle of c{x}", value, made[0].weights[:, x].mean(), 1e-7)


def collections(rng, found):
    a = int(rng.integers(2, 6))
    data, made = problem(a, rng)
    name = str(rng.choice(PRIORS))
    prior, parts = prior_of(name, a, rng)
    method = str(rng.choice(METHODS)) if name != "learnt" and rng.random() < 0.4 else "auto"
    found.said = f"{' and '.join(one.said for one in made)}, n = {data.n_reports}, prior {prior}, method {method}"
    law = worlds.Law(worlds.Tallies.of(np.concatenate([one.rows for one in made])), parts)
    draws = 0 if method == "auto" and rng.random() < 0.3 else None
    tree = fitted(data, prior, method, draws=draws)
    shares(found, law, tree["summary"].to_dataset())
    if "estimate" in tree.children:  # moments alone are made without
        estimators(found, tree, made)
    evidence = tree.attrs.get("log_evidence", tree["exact"]["log_evidence"].item() if "exact" in tree else None)
    if evidence is not None:
        error = ERRORS * tree.attrs.get("log_evidence_error", 0.0) + FLOOR
        found.near("log-evidence", evidence, law.log_evidence, error)
    if draws is None:
        chosen = sorted(rng.choice(a, int(rng.integers(1, a)), replace=False).tolist())
        mean, sd, *_ = law.share(chosen)
        said = lb.answers.category_sum(tree, [f"c{x}" for x in chosen])
        found.near(f"mean of the sum of {chosen}", said["mean"], mean, ERRORS * float(said["mcse"]) + FLOOR * sd)
        found.near(f"sd of the sum of {chosen}", said["sd"], sd, 2 * ERRORS * float(said["mcse"]) + FLOOR * sd)
        posterior = tree["posterior"]["distribution"].values
        difference = (posterior[..., 0] - posterior[..., 1]).mean()
        mean, sd = law.difference(0, 1)
        ess = float(np.nan_to_num(tree["summary"]["ess_bulk"].sel(target="distribution").min(), nan=posterior[..., 0].size))
        found.near("mean of P(c0) − P(c1) by the draws", difference, mean, ERRORS * sd / np.sqrt(max(ess, 1)) + FLOOR * sd)


def cells(rng, found):
    a, number = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    pairs = [problem(a, rng, 30) for _ in range(number)]
    prior, parts = prior_of(str(rng.choice(["flat", "jeffreys", "learnt"])), a, rng)
    data = lb.Cells({f"g{c}": one for c, (one, _) in enumerate(pairs)}, by="group")
    found.said = f"{number} cells: {'; '.join(' and '.join(one.said for one in made) for _, made in pairs)}, prior {prior}"
    tree = fitted(data, prior, draws=int(rng.choice([0, 500])) or 0)
    summary = tree["summary"].to_dataset()
    listed = [worlds.Tallies.of(np.concatenate([one.rows for one in made])) for _, made in pairs]
    evidence = np.array([[one.under(alpha)[0] for _, alpha in parts] for one in listed])
    for c, tallies in enumerate(listed):  # the cells share what is learnt
        others = np.delete(evidence, c, axis=0).sum(axis=0)
        law = worlds.Law(tallies, [(log + more, alpha) for (log, alpha), more in zip(parts, others, strict=True)])
        shares(found, law, summary.sel(cell=f"g{c}"), f"cell g{c}: ")


def by_draws(found, summary, values, log_likelihood, labels):
    """Compare means and sds with weighted draws from the prior."""
    mean, sd, error, evidence, evidence_error, size = worlds.weighted(values, log_likelihood)
    if size < 2000:
        raise Skipped("too few of the prior's draws count")
    for k, label in enumerate(labels):
        one = summary[k]
        found.near(f"mean of P({label})", one["mean"], mean[k], ERRORS * np.hypot(one["mcse"], error[k]) + FLOOR * sd[k])
        allowed = 2 * ERRORS * np.hypot(one["mcse"], error[k]) + FLOOR * sd[k]
        found.near(f"sd of P({label})", one["sd"], sd[k], allowed)
    return evidence, evidence_error


def smooth(rng, found):
    a = int(rng.integers(3, 7))
    data, made = problem(a, rng, 60)
    found.said = f"{' and '.join(one.said for one in made)}, n = {data.n_reports}, prior smooth"
    tree = fitted(data, "smooth")
    p = worlds.smooth_draws(a, 200_000, rng)
    rows = np.concatenate([one.rows for one in made])
    summary = tree["summary"].to_dataset().sel(target="distribution")
    by_draws(found, [summary.isel(category=x) for x in range(a)], p, worlds.log_likelihood(p, rows), data.categories)


def hierarchical(rng, found):
    a, number = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    pairs = [problem(a, rng, 25) for _ in range(number)]
    scale, centre = rng.uniform(0.5, 1.5), rng.uniform(0.8, 2)
    data = lb.Cells({f"g{c}": one for c, (one, _) in enumerate(pairs)}, by="group")
    found.said = f"{number} cells: {'; '.join(' and '.join(one.said for one in made) for _, made in pairs)}, hierarchical"
    tree = fitted(data, lb.priors.Hierarchical(scale=scale, centre=centre))
    p = worlds.hierarchical_draws(number, a, scale, centre, 150_000, rng)
    total = sum(
        worlds.log_likelihood(p[:, c], np.concatenate([one.rows for one in made])) for c, (_, made) in enumerate(pairs)
    )
    summary = tree["summary"].to_dataset().sel(target="distribution")
    chosen = [summary.isel(cell=c, category=x) for c in range(number) for x in range(a)]
    labels = [f"g{c}, c{x}" for c in range(number) for x in range(a)]
    by_draws(found, chosen, p.reshape(len(p), -1), total, labels)


def tables(rng, found):
    """Two questions of two answers: the Bayes factor of independence by sums over tallies of the table and its margins."""
    n = int(rng.integers(2, MOST[4] + 1))
    x = rng.choice(4, n, p=rng.dirichlet(np.ones(4)))
    one, two = (worlds.forced(2, column, rng) for column in (x // 2, x % 2))
    found.said = f"{one.said} and {two.said} of {n}"
    protocol = lb.protocols.Attributes((one.protocol, two.protocol))
    data = lb.Collection(["n/n", "n/y", "y/n", "y/y"], lb.Tally(protocol, np.column_stack([one.reports, two.reports])))
    rows = (one.rows[:, :, None] * two.rows[:, None, :]).reshape(n, 4)
    tree = fitted(data, make=lb.associate, prior="flat", draws=200)
    table = worlds.Law(worlds.Tallies.of(rows), [(0.0, np.ones(4))]).log_evidence
    margins = sum(worlds.Law(worlds.Tallies.of(part.rows), [(0.0, np.ones(2))]).log_evidence for part in (one, two))
    said = lb.answers.independence(tree)
    allowed = ERRORS * float(said.get("log_bayes_factor_error", 0.0)) + FLOOR
    found.near("log Bayes factor of independence", said["log_bayes_factor"], margins - table, allowed)


def regressions(rng, found):
    n = int(rng.integers(20, 600))
    group = (rng.random(n) < rng.uniform(0.2, 0.8)).astype(int)
    if group.min() == group.max():
        raise Skipped("one group only")
    truth = (rng.random(n) < worlds.special.expit(rng.normal(-1, 1) + rng.normal(0, 1) * group)).astype(int)
    made = worlds.forced(2, truth, rng)
    found.said = f"y ~ g by {made.said}, n = {n}"
    frame = pd.DataFrame({"g": np.array(["a", "b"])[group], "report": made.reports})
    tree = fitted(frame, "y ~ g", made.protocol, make=lb.regress, report="report")
    mean, sd, evidence = worlds.two_groups(made.rows, group)
    summary = tree["summary"].to_dataset().sel(category="1")
    for k, term in enumerate(("Intercept", "g[b]")):
        one = {key: float(summary[f"coefficients_{key}"].sel(term=term)) for key in ("mean", "sd", "mcse")}
        found.near(f"mean of {term}", one["mean"], mean[k], ERRORS * one["mcse"] + 5 * FLOOR * sd[k])
        found.near(f"sd of {term}", one["sd"], sd[k], 2 * ERRORS * one["mcse"] + 10 * FLOOR * sd[k])
    if "log_evidence" in tree.attrs:
        allowed = ERRORS * tree.attrs.get("log_evidence_error", 0.0) + FLOOR
        found.near("log-evidence", tree.attrs["log_evidence"], evidence, allowed)


#: Kinds of problems, and how many of a hundred are of each.
KINDS = {collections: 55, cells: 12, tables: 10, regressions: 10, smooth: 7, hierarchical: 6}


def compare(seed):
    """Return (kind, Compared) of a seed; what is skipped says why in ``said``."""
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[rng.choice(len(KINDS), p=np.array(list(KINDS.values())) / 100)]
    found = Compared()
    try:
        kind(rng, found)
    except Skipped as reason:
        found.count, found.said = 0, f"{found.said}: {reason}"
    except Exception:
        found.faults.append(traceback.format_exc())
    return kind.__name__, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
    parser.add_argument("--seed", type=int, help="first seed; fresh by default")
    parser.add_argument("--count", type=int, help="stop after so many problems")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
    print(f"first seed {seed}", flush=True)
    began, tried, numbers, skipped, bad = time.monotonic(), Counter(), 0, Counter(), 0
    while time.monotonic() - began < given.seconds and (given.count is None or tried.total() < given.count):
        kind, found = compare(seed)
        tried[kind] += 1
        numbers += found.count
        skipped[kind] += not found.count and not found.faults
        if found.faults:
            bad += 1
            print(f"\nFAULT: {kind}: {found.said}", *found.faults, sep="\n  ")
            print(f"  again: python tests/fuzz_numbers.py --seed {seed} --count 1", flush=True)
        elif given.count == 1:
            print(f"{kind}: {found.said}: {found.count} numbers agree")
        seed += 1
    said = ", ".join(f"{count} {kind} ({skipped[kind]} not compared)" for kind, count in tried.items())
    print(f"\n{numbers} numbers of {tried.total()} problems: {said}; {bad} with faults")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
