"""Results of 0.2.0 for everything that the net of 0.1.0 does not hold: priors that learn, cells, regression, summaries, …

``python tests/net/wide.py`` records what is missing in wide.json, and ``python tests/net/wide.py NAME …`` records the named
entries anew: only those whose numbers were wrong, with the reason in the commit. tests/test_net_wide.py computes the same
entries and compares them within their errors. The reports are in wide_reports.npz, because clients may come to draw other
random numbers; entries that need more reports add them there.

An entry is a dict of arrays: ``mean``, ``sd``, ``lower``, ``upper`` of P, and so on for F (``frequency_…``), for derived
quantities and hyperparameters; ``…_error`` beside each is the standard error of the means, 0 where nothing is drawn.
``combination`` are three fixed linear combinations over all cells and categories: their sd hangs on the dependence between
them.
"""

import functools
import json
import pathlib
import sys
import time
import warnings

import numpy as np

import ldpbayes as lb
from ldpbayes.protocols import LOLOHA, DBitFlip, MemoizedGRR, MemoizedUnary, Repeated, UnaryEncoding, designs
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.result.facts import facts_of

HERE = pathlib.Path(__file__).parent
FILE, REPORTS = HERE / "wide.json", HERE / "wide_reports.npz"
KEYS = ("mean", "sd", "lower", "upper")
#: Numbers of one kind that an entry keeps, some.
MOST = 300
SETTINGS = {"draws": 250, "random_seed": 7, "ci_prob": 0.9, "estimates": False}


# ---- reports -------------------------------------------------------------------------------------------------------------
@functools.cache
def _held():
    if not REPORTS.exists():
        return {}
    with np.load(REPORTS) as held:
        return dict(held)


def stored(name, compute):
    """Return the arrays of that name, computed and put with the others where they are not held yet."""
    held = _held()
    if f"{name}/0" not in held:
        held |= {f"{name}/{i}": np.asarray(array) for i, array in enumerate(compute())}
    return [held[key] for key in sorted(k for k in held if k.rpartition("/")[0] == name)]


def seed_of(name):
    """Return a generator that hangs on a name alone."""
    return np.random.default_rng(list(name.encode()))


def tally(name, protocol, p, n, label="all"):
    """Return the tally of n reports of people drawn from p."""

    def compute():
        rng = seed_of(name)
        return protocol.simulate(rng.multinomial(n, p), rng)

    reports, counts = stored(name, compute)
    return lb.Tally(protocol, reports, counts, name=label)


def labels(a):
    return [f"c{x:02d}" for x in range(a)]


def collection(name, protocol, p, n, **facts):
    """Return a collection of one channel."""
    return lb.Collection(labels(len(p)), [tally(name, protocol, p, n)], id="net", **facts)


def cells(name, protocol, ps, n, **facts):
    """Return cells of n reports each."""
    parts = {f"g{k:04d}": collection(f"{name}/{k}", protocol, p, n) for k, p in enumerate(ps)}
    return lb.Cells(parts, "group", categories=labels(len(ps[0])), **facts)


def table(name, n, **columns):
    """Return a data frame of which every column is made by a function of (generator, the columns before it)."""
    import pandas as pd

    def compute():
        rng, made = seed_of(name), {}
        for column, make in columns.items():
            made[column] = np.asarray(make(rng, made))
        return made.values()

    return pd.DataFrame(dict(zip(columns, stored(name, compute), strict=True)))


def zipf(a, power=1.0):
    weight = np.arange(1, a + 1.0) ** -power
    return weight / weight.sum()


def hill(a, at=0.4, width=0.2):
    weight = np.exp(-0.5 * ((np.arange(a) / a - at) / width) ** 2) + 0.02
    return weight / weight.sum()


def pooled(name, k, a, spread=0.4):
    """Return k distributions around a common one."""
    rng = seed_of(name + " truth")
    logits = np.log(zipf(a)) + spread * rng.standard_normal((k, a))
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def protocols(a, epsilon):
    """Return a protocol of each kind of likelihood."""
    return {
        "grr": lb.GRR(a, epsilon),
        "oue": UnaryEncoding.optimized(a, epsilon),
        "sue": UnaryEncoding.symmetric(a, epsilon),
        "olh": LocalHashing(a, epsilon),
        "subset": SubsetSelection(a, epsilon),
        "hadamard": HadamardResponse(a, epsilon),
    }


# ---- numbers -------------------------------------------------------------------------------------------------------------
def numbers(tree):
    """Return the numbers of a result, with their standard errors."""
    summary, out = tree["summary"].to_dataset(), {}
    for target, prefix in (("distribution", ""), ("frequency", "frequency_")):
        if target in summary["target"].values:
            out |= _block({key: summary[key].sel(target=target).values for key in (*KEYS, "mcse", "ess_bulk")}, prefix)
    for kind in ("derived", "parameter"):
        if f"{kind}_mean" in summary:
            block = {
                key: summary[f"{kind}_{key}"].values for key in (*KEYS, "mcse", "ess_bulk") if f"{kind}_{key}" in summary
            }
            out |= _block(block, f"{kind}_")
    for name in ("coefficients", "distribution"):
        if "posterior" in tree.children and name in tree["posterior"]:
            draws = tree["posterior"][name]
            if name == "coefficients" or "cell" in draws.dims:
                out |= _combined(draws, f"{name}_combination_")
    attrs = facts_of(tree)
    exact = tree["exact"] if "exact" in tree.children else {}
    known = exact["log_evidence"] if "log_evidence" in exact and np.ndim(exact["log_evidence"]) == 0 else np.nan
    if np.isfinite(evidence := float(attrs.get("log_evidence", known))):
        error = float(attrs.get("log_evidence_error", 0.0))
        out["log_evidence"], out["log_evidence_error"] = [evidence], [error if np.isfinite(error) else 0.0]
    # the fewest users whose shares F are stated, one step of F's quantiles
    sizes = tree["constant_data"]["n_reports"].values if "n_reports" in tree["constant_data"] else attrs["n_reports"]
    return out | {"users": int(np.min(sizes)), "method": attrs["method"]}


def _block(block, prefix):
    mean = np.asarray(block["mean"], dtype=float).ravel()
    if not np.isfinite(mean).any():
        return {}
    sd = np.asarray(block["sd"], dtype=float).ravel()
    mcse = np.nan_to_num(np.asarray(block.get("mcse", np.zeros_like(mean)), dtype=float).ravel())
    worth = np.asarray(block.get("ess_bulk", np.full_like(mean, np.nan)), dtype=float).ravel()
    drawn = np.isfinite(worth) & (worth > 0)
    # ends and sds may be of draws where the mean is exact: their error is that of so many draws
    spread = np.where(drawn, sd / np.sqrt(np.where(drawn, worth, 1.0)), mcse)
    held = {key: np.asarray(block[key], dtype=float).ravel() for key in KEYS if key in block}
    return {f"{prefix}{key}": values.tolist() for key, values in held.items()} | {
        f"{prefix}error": np.maximum(mcse, 0).tolist(),
        f"{prefix}spread_error": np.maximum(spread, mcse).tolist(),
    }


def _combined(draws, prefix):
    """Return mean and sd of three linear combinations of all entries."""
    draws = draws.transpose("chain", "draw", ..., "category")
    values = draws.values.reshape(draws.shape[0] * draws.shape[1], -1)
    weight = seed_of(prefix).standard_normal((3, values.shape[1]))
    weight[0] = 0.0
    weight[0, :: draws.shape[-1]] = 1.0  # the first category, or coefficient, of every cell
    combined = values @ weight.T / np.abs(weight).sum(axis=1)
    by_chain = combined.reshape(draws.shape[0], -1, 3)
    between = by_chain.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(draws.shape[0])
    sd = combined.std(axis=0)
    error = np.maximum(between, sd / np.sqrt(len(combined)))
    return {f"{prefix}mean": combined.mean(axis=0).tolist(), f"{prefix}sd": sd.tolist(), f"{prefix}error": error.tolist()}


def fitted(data, prior="default", method="auto", **settings):
    """Return the numbers of a fit."""
    return numbers(lb.fit(data, prior, method, **SETTINGS | settings))


# ---- entries -------------------------------------------------------------------------------------------------------------
def entries():
    """Yield (name, function that computes the entry)."""
    yield from _learnt()
    yield from _without_draws()
    yield from _ordered()
    yield from _over_cells()
    yield from _joint_tables()
    yield from _regressions()
    yield from _multinomial()
    yield from _private_groups()
    yield from _histories()
    yield from _summaries()
    yield from _respondents()
    yield from _samples()
    yield from _other_protocols()


def _learnt():
    for a, n, epsilon in ((5, 200, 1.0), (20, 2000, 1.0), (40, 20_000, 2.0)):
        for kind, protocol in protocols(a, epsilon).items():
            name = f"learnt/{kind}/{a}"
            yield (
                name,
                lambda name=name, protocol=protocol, a=a, n=n: fitted(collection(name, protocol, zipf(a, 1.3), n), "learnt"),
            )
    for kind, protocol in protocols(8, 1.5).items():
        name = f"learnt/cells/{kind}"
        yield (
            name,
            lambda name=name, protocol=protocol: fitted(cells(name, protocol, pooled(name, 4, 8), 300), "learnt", draws=100),
        )
    yield (
        "learnt/two protocols",
        lambda: fitted(
            lb.Collection(
                labels(6),
                [
                    tally("learnt/two/a", lb.GRR(6, 1.0), zipf(6), 500, "a"),
                    tally("learnt/two/b", UnaryEncoding.optimized(6, 0.7), zipf(6), 500, "b"),
                ],
            ),
            "learnt",
        ),
    )


def _without_draws():
    for prior in ("jeffreys", "flat", "learnt"):
        for a, n, epsilon in ((3, 150, 0.8), (6, 800, 1.0), (24, 5000, 2.0)):
            for kind, protocol in protocols(a, epsilon).items():
                name = f"without draws/{kind}/{a}"
                yield (
                    f"{name}/{prior}",
                    lambda name=name, protocol=protocol, a=a, n=n, prior=prior: fitted(
                        collection(name, protocol, zipf(a), n), prior, draws=0
                    ),
                )
    for k, a, n in ((30, 10, 300), (700, 4, 200), (2600, 3, 100)):
        name = f"without draws/cells/{k}"
        yield (
            name,
            lambda name=name, k=k, a=a, n=n: fitted(cells(name, lb.GRR(a, 1.0), pooled(name, k, a), n), "jeffreys", draws=0),
        )
    yield (
        "without draws/learnt over cells",
        lambda: fitted(cells("without draws/shared", lb.GRR(10, 1.0), pooled("shared", 12, 10), 400), "learnt", draws=0),
    )


def _ordered():
    for a, n in ((8, 300), (24, 3000)):
        for kind, protocol in protocols(a, 1.0).items():
            name = f"smooth/{kind}/{a}"
            yield (
                name,
                lambda name=name, protocol=protocol, a=a, n=n: fitted(
                    collection(name, protocol, hill(a), n, ordered=True), "smooth"
                ),
            )


def _over_cells():
    for kind in ("grr", "oue", "subset"):
        for k, a, n in ((4, 3, 150), (10, 5, 300)):
            name = f"hierarchical/{kind}/{k}"
            protocol = protocols(a, 1.5)[kind]
            yield (
                name,
                lambda name=name, protocol=protocol, k=k, a=a, n=n: fitted(
                    cells(name, protocol, pooled(name, k, a), n), "hierarchical"
                ),
            )
    yield (
        "hierarchical/weak",
        lambda: fitted(cells("hierarchical/weak", lb.GRR(6, 0.7), pooled("weak", 12, 6, 0.8), 120), "hierarchical"),
    )
    for k in (8, 20):
        name = f"days/{k}"
        yield (
            name,
            lambda name=name, k=k: fitted(
                cells(name, lb.GRR(4, 1.5), pooled(name, k, 4, 0.2), 250, covariates={"day": np.arange(k)}),
                lb.priors.Hierarchical("days"),
            ),
        )
    pairs = [(i, i + 1) for i in range(7)]
    graph = np.zeros((8, 8), dtype=bool)
    for i, j in pairs:
        graph[i, j] = graph[j, i] = True
    yield (
        "neighbours",
        lambda: fitted(
            cells("neighbours", lb.GRR(3, 1.5), pooled("neighbours", 8, 3, 0.3), 300), lb.priors.Hierarchical(graph)
        ),
    )
    design = np.stack([np.ones(9), np.repeat([0.0, 1.0, 2.0], 3)], axis=1)
    yield (
        "regression prior",
        lambda: fitted(
            cells("regression prior", lb.GRR(3, 1.5), pooled("regression prior", 9, 3, 0.3), 300),
            lb.priors.Regression(design, ("one", "x"), n_categories=3),
        ),
    )
    yield (
        "hierarchical/601",
        lambda: fitted(cells("hierarchical/601", lb.GRR(3, 2.0), pooled("601", 601, 3, 0.3), 40), "hierarchical"),
    )


def _joint_tables():
    for first, second in ((2, 2), (2, 3), (4, 3)):
        for epsilon in (1.0, 2.0):
            name = f"tables/{first} x {second}/{epsilon:g}"
            protocol = lb.protocols.kronecker([lb.GRR(first, epsilon), lb.GRR(second, epsilon)])
            rng = seed_of(name + " truth")
            p = rng.dirichlet(np.full(first * second, 1.5))

            def compute(name=name, protocol=protocol, p=p, first=first, second=second):
                cross = [f"a{i}/b{j}" for i in range(first) for j in range(second)]
                data = lb.Collection(cross, [tally(name, protocol, p, 3000)])
                return numbers(lb.associate(data, names=["a", "b"], draws=250, random_seed=7, ci_prob=0.9))

            yield name, compute


def _answers(protocol, score):
    """Return the column of private answers of a binary logit, through a protocol of two categories."""

    def make(rng, made):
        truth = rng.random(len(made["x"])) < 1 / (1 + np.exp(-score(made)))
        channel = protocol.channel()
        return (rng.random(len(truth)) < channel[1, truth.astype(int)]).astype(int)

    return make


def _regressions():
    designed = {
        "grr": lb.GRR(2, 1.5),
        "forced": designs.forced_response(0.75, [1, 1]),
        "crosswise": designs.crosswise(0.2),
        "warner": designs.warner(0.8),
        "direct": designs.direct(2),
        "one-sided": designs.forced_response(0.7, [0, 1]),
    }
    formulas = {"x": "y ~ x", "g": "y ~ g", "x + g": "y ~ x + g", "x * g": "y ~ x * g", "groups": "y ~ x + (1 | region)"}
    for kind, protocol in designed.items():
        for n in (400, 3000):
            name = f"regression/{kind}/{n}"

            def frame(name=name, protocol=protocol, n=n):
                made = table(
                    name,
                    n,
                    x=lambda rng, _: np.round(rng.standard_normal(n), 1),
                    g=lambda rng, _: rng.integers(0, 2, n),
                    region=lambda rng, _: rng.integers(0, 8, n),
                    w=lambda rng, _: rng.choice([0.5, 1.0, 2.0], n),
                    y=_answers(
                        protocol, lambda made: 0.2 + 0.7 * made["x"] - 0.5 * made["g"] + 0.3 * np.sin(made["region"])
                    ),
                )
                made["g"] = np.where(made["g"] == 1, "b", "a")
                made["region"] = [f"r{k}" for k in made["region"]]
                made["y"] = [_labels(protocol)[k] for k in made["y"]]
                return made

            for label, formula in formulas.items():
                if label == "groups" and n == 400 and kind != "grr":
                    continue

                def compute(frame=frame, formula=formula, protocol=protocol):
                    return numbers(
                        lb.regress(
                            frame(), formula, protocol, report="y", categories=["no", "yes"], draws=500, random_seed=7
                        )
                    )

                yield f"{name}/{label}", compute
        if kind in ("grr", "forced"):
            yield (
                f"regression/{kind}/weights",
                lambda frame=frame, protocol=protocol: numbers(
                    lb.regress(
                        frame(), "y ~ x + g", protocol, report="y", categories=["no", "yes"], weights="w", random_seed=7
                    )
                ),
            )


def _multinomial():
    for a, n in ((3, 1500), (4, 8000)):
        name, protocol = f"regression/categories/{a}", lb.GRR(a, 1.5)

        def compute(name=name, protocol=protocol, a=a, n=n):
            def answers(rng, made):
                logits = np.outer(made["x"], np.linspace(0, 0.6, a)) - np.linspace(0, 0.8, a)
                weight = np.exp(logits)
                truth = (rng.random((n, 1)) > (weight / weight.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
                return [rng.choice(a, p=protocol.channel()[:, x]) for x in truth]

            frame = table(name, n, x=lambda rng, _: np.round(rng.standard_normal(n), 1), y=answers)
            frame["y"] = [labels(a)[k] for k in frame["y"]]
            return numbers(lb.regress(frame, "y ~ x", protocol, report="y", categories=labels(a), random_seed=7))

        yield name, compute


def _labels(protocol):
    """Return the reports of a design as people write them."""
    answers = getattr(protocol, "answers", None)
    return list(answers) if answers else ["no", "yes"]


def _private_groups():
    for kind, protocol in (("grr", lb.GRR(2, 1.5)), ("warner", designs.warner(0.8)), ("grr3", lb.GRR(3, 2.0))):
        a = protocol.n_categories
        name, n = f"private groups/{kind}", 4000

        def compute(name=name, protocol=protocol, kind=kind, a=a, n=n):
            frame = table(
                name,
                n,
                group=lambda rng, _: rng.choice(a, n, p=zipf(a)),
                value=lambda rng, made: np.round(np.exp(5 + 0.5 * made["group"] + 0.4 * rng.standard_normal(n)), 1),
                y=lambda rng, made: [rng.choice(a, p=protocol.channel()[:, x]) for x in made["group"]],
            )
            reports = labels(a) if kind != "warner" else _labels(protocol)
            frame["y"] = [reports[k] for k in frame["y"]]
            return _of_groups(
                lb.by_private_group(frame, "value", protocol, report="y", categories=labels(a), draws=125, random_seed=7)
            )

        yield name, compute


def _of_groups(found):
    summary = found.summary() if callable(getattr(found, "summary", None)) else found.summary
    out = {}
    for key in ("mean", "sd", "lower", "upper"):
        if key in summary:
            out[key] = np.asarray(summary[key].values, dtype=float).ravel().tolist()
    sd = np.asarray(out["sd"])
    out["error"] = out["spread_error"] = (sd / np.sqrt(max(float(getattr(found, "effective_draws", 400)), 100))).tolist()
    out["method"] = str(getattr(found, "method", ""))
    return out


def _histories():
    made = {
        "memoized grr": (MemoizedGRR(3, 2.0, 1.0, 3), 3),
        "memoized unary": (MemoizedUnary.from_levels(3, 2.0, 1.0, times=3), 3),
        "loloha": (LOLOHA.from_levels(4, 2.0, 1.0, times=2), 4),
        "d-bit-flip": (DBitFlip(4, 2.0, 4, 2, 0.1, times=2), 4),
        "repeated": (Repeated(lb.GRR(4, 1.0), 3), 4),
    }
    for kind, (protocol, a) in made.items():
        for prior in ("jeffreys", "learnt"):
            name = f"histories/{kind}"
            yield (
                f"{name}/{prior}",
                lambda name=name, protocol=protocol, a=a, prior=prior: fitted(
                    collection(name, protocol, zipf(a), 600), prior
                ),
            )


def _summaries():
    for kind in ("oue", "sue", "olh", "subset"):
        for a, n in ((6, 3000), (16, 20_000)):
            name = f"summaries/{kind}/{a}"
            protocol = protocols(a, 1.0)[kind]

            def compute(name=name, protocol=protocol, a=a, n=n):
                held = tally(name, protocol, zipf(a), n)
                reports = np.repeat(held.reports, held.counts, axis=0)
                frame = lb.write(reports, None, protocol, categories=labels(a))
                return fitted(lb.scan(frame), "jeffreys")

            yield name, compute


def _respondents():
    forms = {
        "crosswise": ([designs.crosswise(0.2), designs.crosswise(0.8)], {"same": 1}),
        "forced": ([designs.forced_response(0.5, [1, 1]), designs.forced_response(0.8, [1, 1])], {"no-sayer": 0}),
        "grr": ([lb.GRR(3, 0.7), lb.GRR(3, 2.5)], {"first": 0}),
        "unary": ([UnaryEncoding.optimized(4, 1.0)], {"silent": "no bits"}),
    }
    for kind, (channels, laws) in forms.items():
        for prior in ("jeffreys", "flat"):
            name = f"respondents/{kind}"

            def compute(name=name, channels=channels, laws=laws, prior=prior):
                a = channels[0].n_categories
                tallies = [tally(f"{name}/{i}", one, zipf(a), 1500, f"form {i}") for i, one in enumerate(channels)]
                return fitted(lb.Collection(labels(a), tallies).with_noncompliers(laws), prior)

            yield f"{name}/{prior}", compute


def _samples():
    for a in (2, 4):
        for prior in ("jeffreys", "flat"):

            def compute(a=a, prior=prior):
                frame = table(
                    f"samples/{a}",
                    900,
                    stratum=lambda rng, _: np.repeat([0, 1, 2], 300),
                    y=lambda rng, made: [
                        rng.choice(a, p=lb.GRR(a, 1.5).channel() @ np.roll(zipf(a), s)) for s in made["stratum"]
                    ],
                )
                weights = np.array([1.0, 2.0, 4.0])[frame["stratum"]]
                answers, strata = frame["y"].to_numpy(), frame["stratum"].to_numpy()
                from samples import from_sample

                data = from_sample(labels(a), lb.GRR(a, 1.5), answers, weights=weights, strata=strata)
                return fitted(data, prior)

            yield f"samples/{a}/{prior}", compute
    for kind in ("grr", "oue"):
        protocol = protocols(5, 1.0)[kind]
        name = f"derived/{kind}"
        rare = (
            lb.collections.Derived("last two", ["c03", "c04"]),
            lb.collections.Derived("last of last two", ["c04"], ["c03", "c04"]),
        )
        for prior in ("jeffreys", "learnt"):
            yield (
                f"{name}/{prior}",
                lambda name=name, protocol=protocol, rare=rare, prior=prior: fitted(
                    collection(name, protocol, zipf(5), 800, derived=rare), prior
                ),
            )


def _other_protocols():
    sys.path.insert(0, str(HERE.parent / "support"))
    from cases import CASES

    for case in CASES[18:]:  # those before are in the net of 0.1.0
        a = case.categories[-1]
        name = f"protocols/{case.name}"

        def compute(name=name, case=case, a=a):
            return fitted(collection(name, case.build(a, 1.5), zipf(a), 400), "jeffreys")

        yield name, compute


# ---- recording -----------------------------------------------------------------------------------------------------------
def thinned(entry):
    """Return an entry with some MOST of its numbers of each kind where there are more: every so many of them."""
    steps = {key: -(-len(value) // MOST) for key, value in entry.items() if isinstance(value, list)}
    return entry | {key: entry[key][::step] for key, step in steps.items()}


def computed(compute):
    """Return an entry, or the words of its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return thinned(compute())
        except (lb.errors.InfeasibleError, lb.errors.ConvergenceError) as err:
            return {"refused": str(err)}


def main(names):
    held = json.loads(FILE.read_text()) if FILE.exists() else {}
    every = dict(entries())
    chosen = [name for name in every if (not names and name not in held) or any(name.startswith(part) for part in names)]
    for name in chosen:
        start = time.process_time()
        held[name] = computed(every[name])
        held[name]["seconds"] = round(time.process_time() - start, 2)
        print(f"{name}: {held[name].get('method') or held[name].get('refused')}, {held[name]['seconds']:.1f} s", flush=True)
        _write(held, every)
    print(len(held), "entries,", sum("refused" in entry for entry in held.values()), "refused")


def _write(held, every):
    rounded = {name: {key: _rounded(value) for key, value in held[name].items()} for name in every if name in held}
    lines = (f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in rounded.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    np.savez_compressed(REPORTS, **_held())


def _rounded(value):
    return [_number(x) for x in value] if isinstance(value, list) else value


def _number(x):
    return x if isinstance(x, str) else None if x is None or not np.isfinite(x) else float(f"{x:.9g}")


if __name__ == "__main__":
    main(sys.argv[1:])
