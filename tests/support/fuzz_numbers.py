"""A standing fuzzer of numbers: random protocols × priors × cells × respondents, at the public door, against plain NumPy.

``python tests/support/fuzz_numbers.py [--seconds 600] [--seed 17] [--count 1]`` (``make fuzz-numbers``) draws fresh seeds,
prints what it compared, and for every number that lies further from its reference than stated errors allow the line that
makes it again. ``tests/test_fuzz_numbers.py`` runs a seeded few.
"""

import argparse
import math
import sys
import time
import traceback
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import populations
import worlds

import ldpbayes as lb
from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.result.facts import facts_of

#: Stated errors by which a number may lie away, and shares of a posterior sd besides: rules of quadrature, two processors.
ERRORS, FLOOR = 6.0, 2e-3
#: Most reports whose tallies are listed, by the number of categories.
MOST = {2: 300, 3: 45, 4: 20, 5: 12}
#: Most tallies that are listed in small settings; with more the reference is a population of so many chains.
LISTED, CHAINS = 2 * 10**5, 3000
#: Relative errors of integrals where nothing else is stated: of means, sds and ends in sds, of log-evidences in nats.
SOLVED, NATS = 1e-4, 1e-6
#: Least share of the numbers of small settings that lies within two standard errors, or within the bound stated.
WITHIN = 0.93
#: Methods that are asked for by name; the rest of the problems is left to the package's choice.
METHODS = ("exact", "quadrature", "surrogate", "pair_slice")
PRIORS = ("flat", "jeffreys", "uneven", "learnt")


class Skipped(Exception):
    """The package refused or distrusts its own numbers, or the reference is worth too little: nothing is compared."""


class Compared:
    """What lies too far from its reference, and how many numbers were compared."""

    def __init__(self):
        self.count, self.faults, self.said = 0, [], ""
        self.within = Counter()  # of each kind of number: how many were compared with what is stated, and how many hold it

    def near(self, what, found, expected, allowed):
        self.count += 1
        if not abs(float(found) - float(expected)) <= float(allowed):
            self.faults.append(f"{what}: {float(found):.8g}, and {float(expected):.8g} ± {float(allowed):.2g} by reference")

    def holds(self, what, found, expected, stated, slack=0.0, *, bound, step=0.0):
        """Count whether a number lies within two standard errors, or within a bound, and ``slack`` for the reference.

        A fault is one beyond six standard errors and a step, or beyond twice the bound.
        """
        kind, off = what.partition(" of ")[0], abs(float(found) - float(expected))
        self.within[kind] += off <= (1 if bound else 2) * stated + 2 * slack
        self.within[f"{kind}, all"] += 1
        self.near(what, found, expected, (2 if bound else ERRORS) * stated + ERRORS * slack + step)


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
    evidence = facts_of(tree).get("log_evidence", tree["exact"]["log_evidence"].item() if "exact" in tree else None)
    if evidence is not None:
        error = ERRORS * facts_of(tree).get("log_evidence_error", 0.0) + FLOOR
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
    summary = tree["summary"].to_dataset().sel(category=made.protocol.default_labels[1])
    for k, term in enumerate(("Intercept", "g[b]")):
        one = {key: float(summary[f"coefficients_{key}"].sel(term=term)) for key in ("mean", "sd", "mcse")}
        found.near(f"mean of {term}", one["mean"], mean[k], ERRORS * one["mcse"] + 5 * FLOOR * sd[k])
        found.near(f"sd of {term}", one["sd"], sd[k], 2 * ERRORS * one["mcse"] + 10 * FLOOR * sd[k])
    if "log_evidence" in facts_of(tree):
        allowed = ERRORS * facts_of(tree).get("log_evidence_error", 0.0) + FLOOR
        found.near("log-evidence", facts_of(tree)["log_evidence"], evidence, allowed)


# ---- combinations: any world, prior and wrapper against populations of chains --------------------------------------------
def near_chains(found, what, stated, values):
    """Compare what a summary states of one number with its values (times, chains) under the posterior."""
    mean, error, sd, sd_error = populations.of_chains(values)
    if sd < 1e-9:
        found.near(f"mean of {what}", stated["mean"], mean, 1e-6)
        return
    mcse = np.nan_to_num(stated["mcse"])
    found.near(f"mean of {what}", stated["mean"], mean, ERRORS * np.hypot(mcse, error) + FLOOR * sd)
    found.near(f"sd of {what}", stated["sd"], sd, ERRORS * np.hypot(1.5 * mcse, sd_error) + 2 * FLOOR * sd)
    for end, level in (("lower", 0.025), ("upper", 0.975)):
        at, slack = stated[end], ERRORS * max(np.nan_to_num(stated[f"{end}_error"]), mcse) + 2 * FLOOR * sd + 1e-9
        less, more = (values < at - slack).mean(axis=0), (values <= at + slack).mean(axis=0)  # of each chain
        room = [ERRORS * (one.std() + 0.01) / np.sqrt(one.size) for one in (less, more)]
        if not less.mean() - room[0] <= level <= more.mean() + room[1]:
            outside = (values <= at).mean()
            found.faults.append(f"{end} end of {what}: {at:.6g}, below which {outside:.4f} lie by reference, not {level}")
        found.count += 1


def stated(summary, prefix="", **place):
    """Return what a summary states of one number."""
    keys = ("mean", "sd", "mcse", "lower", "upper", "lower_error", "upper_error")
    return {key: float(summary[prefix + key].sel(place)) if prefix + key in summary else np.nan for key in keys}


def designed(rng, wrapper):
    """Return seeds and makers of channels: each makes answers of true values, by the same design every time."""
    makers = [worlds.answers, worlds.answers, worlds.zeros, worlds.history][: 3 if wrapper == "law" else 4]
    chosen = [makers[rng.integers(len(makers))] for _ in range(rng.choice([1, 2, 3], p=[0.55, 0.35, 0.1]))]
    if wrapper == "deniers":
        chosen = [worlds.direct, *(rng.choice([worlds.answers, worlds.grr]) for _ in chosen[:2])]
    return [(maker, int(rng.integers(2**31))) for maker in chosen]


def told(a, rng, cells, joint):
    """Return (what the package is given, the reference's prior, whether it joins the cells)."""
    number, counts = float(rng.uniform(0.2, 3)), rng.choice([0.3, 1.0, 8.0]) * rng.uniform(0.3, 3, a)
    median, sd = float(rng.uniform(0.2, 2)), float(rng.uniform(0.3, 1.5))
    scale, centre, many = float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.8, 2)), bool(rng.random() < 0.3)
    made = {
        "number": lambda: (number, populations.dirichlet(np.full(a, number))),
        "counts": lambda: (counts, populations.dirichlet(counts)),
        "learnt": lambda: ("learnt", populations.concentration(a)),
        "Learnt": lambda: (lb.priors.Learnt(median, sd), populations.concentration(a, 1, median, sd)),
        "floor": lambda: (lb.priors.Floor(median, sd, 2.0 + scale), populations.over_floor(a, median, sd, 2.0 + scale)),
        "smooth": lambda: (lb.priors.Smooth(local=scale / 2), populations.walk(a, local=scale / 2)),
    }
    if a in (4, 6):
        sizes = (2, a // 2)
        made["table"] = lambda: (lb.priors.LogLinear(sizes, centre, scale), populations.log_linear(sizes, centre, scale, 2))
        made["product"] = lambda: (
            lb.priors.Product(sizes, [number, median]),
            populations.independent(sizes, (number, median)),
        )
    if a > 3:
        made["tree"] = lambda: (
            lb.priors.Tree(((0, 2), (1, *range(3, a))), [number, median], scale),
            populations.tree(a, number, median, scale),
        )
    if not joint:
        if cells > 1:  # cells share one concentration
            del made["learnt"], made["Learnt"]
        name = str(rng.choice(list(made)))
        return name, *made[name](), False
    structures = {
        "groups": ("groups", np.eye(cells)),
        "days": ("days", populations.root_of_walk(cells)),
        "ring": (populations.ring(cells), populations.root_of_graph(populations.ring(cells))),
    }
    if rng.random() < 0.25:
        return "learnt", "learnt", populations.concentration(a, cells), True
    name = str(rng.choice(list(structures)))
    structure, root = structures[name]
    given = lb.priors.Hierarchical(structure, scale, centre, many)
    return f"{name}, by category {many}", given, populations.pooled(a, root, scale, centre, many), True


def combinations(rng, found, size=600):
    """Any cells, channels, prior, respondents and method: all that the summary states, and what is asked of it."""
    a = int(rng.choice([2, 3, 4, 5, 6], p=[0.35, 0.25, 0.2, 0.1, 0.1]))
    number = int(rng.choice([1, 2, 3, 5], p=[0.55, 0.2, 0.15, 0.1]))
    joint = number > 1 and rng.random() < 0.75
    wrapper = str(rng.choice(["none", "deniers", "law"], p=[0.6, 0.2, 0.2]))
    kind, given, prior, joint = told(a, rng, number, joint)
    if wrapper != "none" and kind in ("learnt", "table", "product", "tree", "floor") and number > 1:
        joint = False  # the cells share no concentration then
        prior = populations.concentration(a) if kind == "learnt" else prior
    channels = designed(rng, wrapper)
    shares = worlds.softmax(rng.normal(0, 1.5, a) + rng.choice([0.1, 0.7]) * rng.normal(0, 1, (number, a)))
    owners, data, cells, places = worlds.collected(a, shares, channels, wrapper, rng)
    if wrapper != "none":
        b, c = (1.0, 9.0) if wrapper == "law" else (1.0, 1.0)
        if rng.random() < 0.5:
            b, c = rng.uniform(0.5, 3), rng.uniform(1, 9)
            given = lb.priors.Compliance(given, (b, c)) if wrapper == "law" else lb.priors.Denial(given, (b, c))
        prior = populations.with_others(prior, number if joint else 1, owners, b, c)
    methods = ("auto",) * 5 + ("exact", "quadrature", "weighted", "surrogate", "pair_slice")
    method = str(rng.choice(methods))
    if kind == "learnt" and joint:  # other methods give each cell a concentration of its own, and say so
        method = "auto"
    draws = 0 if method == "auto" and rng.random() < 0.15 else None
    found.said = (
        f"{number} cells of {a} categories, n = {[int(counts.sum()) for _, counts in cells]}, {' and '.join(places)}, "
        f"{wrapper}, prior {kind}: {given}, method {method}, draws {draws}"
    )
    try:
        tree = fitted(data, given, method, draws=draws)
    except Skipped:
        if method == "auto" and draws is None:
            raise
        tree = fitted(data, given)
    found.said += f", by {tree.attrs['method']}"
    for block in [range(number)] if joint else [[c] for c in range(number)]:
        chains = populations.population(prior, [cells[c] for c in block], rng, size)
        combined(found, tree, chains, block, cells, owners, rng)


def combined(found, tree, chains, block, cells, owners, rng):
    """Compare the cells of one posterior, ``block``, and what they share."""
    summary = tree["summary"].to_dataset()
    labels = list(summary["category"].values)
    p = populations.answers_of(chains.p, len(labels), owners)
    for k, c in enumerate(block):
        place, said = ({"cell": f"g{c}"}, f" in g{c}") if len(cells) > 1 else ({}, "")
        users = populations.answers_of(populations.members(chains.p[-1][:, k], cells[c], rng), len(labels), owners)
        for x, label in enumerate(labels):
            near_chains(
                found, f"P({label}){said}", stated(summary, target="distribution", category=label, **place), p[:, :, k, x]
            )
            of_users = stated(summary, target="frequency", category=label, **place)
            if np.isfinite([of_users["mean"], *users[:, x]]).all():
                near_chains(found, f"F({label}){said}", of_users, users[None, :, x])
            if "effect_mean" in summary:
                effect = stated(summary, "effect_", category=label, **place)
                near_chains(found, f"effect on {label}{said}", effect, chains.named["effect"][:, :, k, x])
        for name, values in respondents(chains.named, owners, k):
            near_chains(found, f"{name}{said}", stated(summary, "derived_", quantity=name, **place), values)
    for x, label in enumerate(labels if "pooled_mean" in summary else ()):
        near_chains(found, f"pooled {label}", stated(summary, "pooled_", category=label), chains.named["pooled"][:, :, x])
    for name in ("alpha", "scale", "sigma", "tau", "floor"):
        if name in summary.get("parameter", ()):
            place = {"cell": f"g{block[0]}"} if "cell" in summary["parameter_mean"].dims else {}
            near_chains(found, name, stated(summary, "parameter_", parameter=name, **place), chains.named[name])
    evidence(found, tree, chains, block, len(cells))
    if "posterior" in tree.children and "distribution" in tree["posterior"]:
        asked(found, tree, p, block, len(cells), rng)


def respondents(named, owners, k):
    """Yield (name, values) of the shares of respondents of a cell who deny or ignore the device."""
    if owners == [None]:
        yield "noncompliance", named["noncompliance"][:, :, k]
    elif owners:
        yield "deniers", named["deniers"][:, :, k]
        for at, owner in enumerate(owners):
            yield "denial" if len(owners) == 1 else f"denial, c{owner}", named["denial"][:, :, k, at]


def evidence(found, tree, chains, block, number):
    """Compare the log-evidence of all cells together, of the only cell, or of one among several."""
    for source in (facts_of(tree), *(tree[name] for name in ("exact", "cells") if name in tree.children)):
        values = np.ravel(source.get("log_evidence", np.nan))
        if values.size == (number if len(block) == 1 else 1):
            at = block[0] if values.size > 1 else 0
            value, error = values[at], np.nan_to_num(np.resize(source.get("log_evidence_error", 0.0), number)[at])
            if np.isfinite(value):
                allowed = ERRORS * np.hypot(error, chains.log_evidence_error) + FLOOR
                found.near("log-evidence", value, chains.log_evidence, allowed)


def asked(found, tree, p, block, number, rng):
    """Compare contrasts of categories and of cells, and who is the largest."""
    a, place = p.shape[-1], {"cell": f"g{block[0]}"} if number > 1 else {}
    x, y = rng.choice(a, 2, replace=False)
    said = lb.contrast(tree, f"c{x}", f"c{y}", **place)
    near_chains(found, f"P(c{x}) − P(c{y}) {place}", stated(said), p[:, :, 0, x] - p[:, :, 0, y])
    if len(block) > 1:
        said = lb.contrast(tree, f"c{x}", f"c{x}", cell="g0", other_cell="g1")
        near_chains(found, f"P(c{x}) in g0 − in g1", stated(said), p[:, :, 0, x] - p[:, :, 1, x])
    chances = lb.answers.probability_in_top(tree, 1, **place)["probability"].values
    draws = tree["posterior"]["distribution"].size / a / number
    size = min(np.nan_to_num(tree["summary"]["ess_bulk"].sel(target="distribution").min(), nan=draws), draws)
    for x, chance in enumerate(chances):
        first = (p[:, :, 0].argmax(axis=-1) == x).mean(axis=0)
        error = np.hypot(first.std() / np.sqrt(first.size), 0.5 / np.sqrt(size))
        found.near(f"probability that c{x} is the largest {place}", chance, first.mean(), ERRORS * error)


# ---- small settings: what is stated beside each number -----------------------------------------------------------------
def small(rng, found):
    """Every protocol, one and two channels, every prior of one concentration: numbers lie within the errors stated.

    Where ``mcse`` is 0 a number is an integral, and errors are bounds; else they are standard errors. The sd of draws has
    that of its mean times √((κ − 1)/4), with the kurtosis κ.
    """
    a, n = int(rng.integers(2, 9)), int(rng.integers(1, 61))
    makers = [worlds.grr, worlds.unary, worlds.hadamard, worlds.hashing, worlds.rappor, worlds.channel, worlds.zeros]
    makers += [worlds.subset] * (a > 2)
    truth = rng.choice(a, n, p=rng.dirichlet(np.full(a, rng.choice([0.3, 1.0, 5.0]))))
    parts = np.split(truth, [n // 3] if n > 3 and rng.random() < 0.4 else [])
    made = [makers[rng.integers(len(makers))](a, part, rng) for part in parts]
    data = lb.Collection(
        [f"c{x}" for x in range(a)],
        [lb.Tally(one.protocol, one.reports, name=f"channel {i}") for i, one in enumerate(made)],
    )
    kind, draws = str(rng.choice(["jeffreys", "flat", "learnt", "floor", "stated"])), 0 if rng.random() < 0.5 else None
    stated_alpha = 10.0 ** rng.uniform(-1, 8) * rng.uniform(0.5, 2, a)
    prior, rows = stated_alpha if kind == "stated" else kind, np.concatenate([one.rows for one in made])
    found.said = f"{' and '.join(one.said for one in made)}, n = {n}, prior {prior}, draws {draws}"
    tree = fitted(data, prior, draws=draws)
    found.said += f", by {tree.attrs['method']}"
    if kind == "floor" or math.comb(n + a - 1, n) > LISTED:
        alpha = {"jeffreys": 0.5, "flat": 1.0}.get(kind, 1.0) * np.ones(a)
        law = {"learnt": populations.concentration, "floor": populations.over_floor}.get(
            kind, lambda _: populations.dirichlet(stated_alpha if kind == "stated" else alpha)
        )
        reference = of_population(law(a), rows, rng)
    else:
        dirichlet = {"flat": np.ones(a), "jeffreys": np.full(a, 0.5), "stated": stated_alpha}
        parts = worlds.learnt(a)[::4] if kind == "learnt" else [(-math.log(4), dirichlet[kind])]
        law = worlds.Law(worlds.Tallies.of(rows), [(log + math.log(4), alpha) for log, alpha in parts])
        reference = of_law(law)
    against(found, tree, *reference)


def of_law(law):
    """Return (log-evidence, its error, a function of target and category: mean, sd, ends, their errors, kurtosis)."""

    def share(target, x):
        if target == "distribution":
            values, (weight, a, b) = law.share([x]), law.betas([x])
            mean, sd = values[:2]
            moments = worlds.beta_moments(a, b)
            fourth = weight @ (
                (moments[0] - mean) ** 4
                + 6 * (moments[0] - mean) ** 2 * moments[1]
                + 4 * (moments[0] - mean) * moments[2]
                + moments[3]
            )
        else:
            counts, k = law.count(x), np.arange(law.tallies.n + 1) / law.tallies.n
            mean = counts @ k
            sd, fourth = math.sqrt(counts @ (k - mean) ** 2), counts @ (k - mean) ** 4
            below = counts.cumsum()
            values = mean, sd, *(k[np.searchsorted(below, level - 1e-12)] for level in (0.025, 0.975))
        return values, (0.0,) * 4, fourth / sd**4 if sd else 3.0

    return law.log_evidence, 0.0, share


def of_population(prior, rows, rng):
    """Return what ``of_law`` does, by chains."""
    cell = np.unique(rows, axis=0, return_counts=True)
    chains = populations.population(prior, [cell], rng, CHAINS)
    p = chains.p[:, :, 0]
    users = populations.members(p.reshape(-1, p.shape[-1]), cell, rng).reshape(p.shape) / len(rows)

    def share(target, x):
        values = (p if target == "distribution" else users)[:, :, x]
        mean, error, sd, sd_error = populations.of_chains(values)
        ends = np.quantile(values, (0.025, 0.975))
        errors = []
        for end, level in zip(ends, (0.025, 0.975), strict=True):
            off = (values <= end).mean(axis=0).std() / math.sqrt(values.shape[1])
            low, high = np.quantile(values, np.clip([level - 2 * off, level + 2 * off], 0, 1))
            errors.append(max(high - end, end - low) / 2)
        return (mean, sd, *ends), (error, sd_error, *errors), ((values - mean) ** 4).mean() / sd**4 if sd else 3.0

    return chains.log_evidence, chains.log_evidence_error, share


def against(found, tree, log_evidence, evidence_error, share):
    """Compare a result with a reference, each number in units of the error that stands beside it."""
    summary, attrs = tree["summary"].to_dataset(), facts_of(tree)
    source = tree["exact"] if "exact" in tree.children and "log_evidence" in tree["exact"] else attrs
    if "log_evidence" in source:
        error = float(attrs.get("log_evidence_error", 0.0))
        found.holds("evidence", source["log_evidence"], log_evidence, max(error, NATS), evidence_error, bound=False)
    off = max(SOLVED, *(float(attrs.get(name, 0.0)) for name in ("predicted_error", "quadrature_error")))
    for target in ("distribution", "frequency"):
        for x, category in enumerate(summary["category"].values):
            one = {key: float(summary[key].sel(target=target, category=category)) for key in STATED}
            if not np.isfinite(one["mean"]):
                continue
            (mean, sd, *ends), errors, kurtosis = share(target, x)
            bound = not one["mcse"] > 0
            errors_of = [off * sd, off * sd] if bound else [one["mcse"], one["mcse"] * math.sqrt(max(kurtosis - 1, 0) / 4)]
            where = f"{'P' if target == 'distribution' else 'F'}({category})"
            least = 1e-9  # of numbers that are certain
            found.holds(f"mean of {where}", one["mean"], mean, errors_of[0] + least, errors[0], bound=bound)
            found.holds(f"sd of {where}", one["sd"], sd, errors_of[1] + least, errors[1], bound=bound)
            for key, end, error in zip(("lower", "upper"), ends, errors[2:], strict=True):
                stated_error = np.nan_to_num(one[f"{key}_error"]) + least
                user = 0.0 if target == "distribution" or bound else 1 / attrs["n_reports"]  # a step of F's law
                found.holds(f"{key} end of {where}", one[key], end, stated_error, error, bound=bound, step=user)


STATED = ("mean", "sd", "mcse", "lower", "upper", "lower_error", "upper_error")

#: Kinds of problems, and how many of a hundred are of each.
KINDS = {collections: 35, cells: 9, tables: 8, regressions: 8, smooth: 5, hierarchical: 5, combinations: 15, small: 15}


def compare(seed):
    """Return (kind, Compared) of a seed; what is skipped says why in ``said``."""
    kind, found = tried(seed)
    if kind is combinations and found.faults:  # what remains where there are ten times as many chains
        kind, found = tried(seed, size=6000)
    return kind.__name__, found


def tried(seed, **settings):
    """Return (kind, Compared) of the problem that a seed draws."""
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[rng.choice(len(KINDS), p=np.array(list(KINDS.values())) / 100)]
    found = Compared()
    try:
        kind(rng, found, **settings)
    except Skipped as reason:
        found.count, found.said = 0, f"{found.said}: {reason}"
    except Exception:
        found.faults.append(traceback.format_exc())
    return kind, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
    parser.add_argument("--seed", type=int, help="first seed; fresh by default")
    parser.add_argument("--count", type=int, help="stop after so many problems")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
    print(f"first seed {seed}", flush=True)
    began, tried, numbers, skipped, bad, within = time.monotonic(), Counter(), 0, Counter(), 0, Counter()
    while time.monotonic() - began < given.seconds and (given.count is None or tried.total() < given.count):
        kind, found = compare(seed)
        tried[kind] += 1
        numbers += found.count
        within += found.within
        skipped[kind] += not found.count and not found.faults
        if found.faults:
            bad += 1
            print(f"\nFAULT: {kind}: {found.said}", *found.faults, sep="\n  ")
            print(f"  again: python tests/support/fuzz_numbers.py --seed {seed} --count 1", flush=True)
        elif given.count == 1:
            print(f"{kind}: {found.said}: {found.count} numbers agree")
        seed += 1
    said = ", ".join(f"{count} {kind} ({skipped[kind]} not compared)" for kind, count in tried.items())
    print(f"\n{numbers} numbers of {tried.total()} problems: {said}; {bad} with faults")
    short = []
    for name in [name for name in within if f"{name}, all" in within]:
        share, every = within[name] / within[f"{name}, all"], within[f"{name}, all"]
        print(f"{name}: {share:.3f} of {every} in small settings are within two standard errors, or within the bound stated")
        short += [name] if share < WITHIN - 3 * math.sqrt(WITHIN * (1 - WITHIN) / every) else []
    sys.exit(1 if bad or short else 0)


if __name__ == "__main__":
    main()
