"""Every engine of structured priors against NUTS on the full likelihood of every report, in PyMC: ``make calibrate``.

The same prior is written twice, in the engine's own code and as PyMC variables, and the likelihood is in one case an
expansion or a compiled form, in the other PyMC's own over all reports. Means and standard deviations of P (or of the
coefficients) and of the hyperparameters agree within Monte Carlo error. The numbers go to against_nuts.csv beside this file.
"""

import csv
import pathlib
import time
import warnings

import numpy as np
import pytest
from recorded import record
from samples import regression_model
from scipy.stats import norm

import ldpbayes as lb
from ldpbayes import GRR, Cells, Collection, Tally
from ldpbayes.errors import DiagnosticWarning
from ldpbayes.priors import Compliance, Hierarchical, Learnt, LogLinear, as_prior
from ldpbayes.protocols import Attributes, designs
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding
from ldpbayes.result.facts import facts_of

HERE = pathlib.Path(__file__).parent
TABLE = HERE / "against_nuts.csv"
#: A case fails where its largest difference has a smaller chance than this among as many independent ones.
LEVEL = 0.001
#: Largest |ratio of the sds − 1| that the draws of a case may show.
SPREAD = 0.15
#: … of these. The draws of hyperparameters have tails so heavy that the ratio of two sds varies by more; like all others
#: they are compared in Monte Carlo errors.
BOUNDED = "distribution", "coefficients", "noncompliance"
NUTS = {"draws": 1500, "tune": 1500, "chains": 4, "target_accept": 0.95, "random_seed": 1}


def simulated(protocol, p, n, seed=1):
    p = np.asarray(p, dtype=float) / np.sum(p)
    rng = np.random.default_rng(seed)
    tally = Tally(protocol, *protocol.simulate(rng.multinomial(n, p.ravel()), rng))
    return Collection([f"c{x}" for x in range(protocol.n_categories)], [tally])


def bumpy(a):
    """A population over ordered categories with a slope, a jump and a spike."""
    p = np.exp(-np.arange(a) / a) * np.where(np.arange(a) < a // 2, 1.0, 2.5)
    p[a // 4] *= 5
    return p


def of_one(collection, prior):
    """Return the draws of one cell under a prior by the method that auto takes, and by NUTS."""
    prior = as_prior(prior, collection.n_categories)
    one = lb.fit(collection, prior, exclude=("nuts",), draws=4000, random_seed=1, estimates=False)
    settings = {name: value for name, value in NUTS.items() if name != "random_seed"}
    other = lb.fit(collection, prior, lb.methods.NUTS(**settings), estimates=False, random_seed=NUTS["random_seed"])
    names = ["distribution", *prior.hyperparameter_names]
    if "noncompliance" in one["posterior"]:
        names.append("noncompliance")
    return one, *(
        {name: tree["posterior"][name].values for name in names if name in tree["posterior"]} for tree in (one, other)
    )


def groups(protocol, cells=6, n=400, sd=0.5):
    """Return cells that vary about a centre."""
    rng, a, found = np.random.default_rng(3), protocol.n_categories, {}
    centre = rng.normal(size=a)
    for g in range(cells):
        p = np.exp(centre + sd * rng.normal(size=a))
        found[g] = Collection("abcdefgh"[:a], [Tally(protocol, *protocol.simulate(rng.multinomial(n, p / p.sum()), rng))])
    return Cells(found)


def of_cells(cells, prior):
    """Return the draws of cells under a prior over all of them, and NUTS's."""
    from nutscells import sample_cells

    prior = prior.on(cells)
    one = lb.fit(cells, prior, draws=2500, random_seed=1, estimates=False)
    other = sample_cells(cells, prior, **NUTS)
    return (
        one,
        {"distribution": one["posterior"]["distribution"].values},
        {"distribution": other["posterior"]["distribution"].values},
    )


def of_regression(formula, protocol, n):
    """Return the draws of regress, and those of PyMC over cells of people with the same covariates."""
    import pandas as pd
    from nutscells import sample_cells

    rng = np.random.default_rng(11)
    a = protocol.n_categories
    frame = pd.DataFrame({"x": rng.integers(0, 4, n) / 2, "g": rng.choice(list("abcdef"), n)})
    shift = dict(zip("abcdef", rng.normal(size=(6, a)), strict=True))
    eta = np.array([0.4 * x * np.arange(a) + 0.5 * shift[g] for x, g in zip(frame["x"], frame["g"], strict=True)])
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    reports = protocol.privatize((rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1), rng)
    labels = [str(x) for x in range(a)]
    (written,) = protocol.format_reports(reports, labels)
    frame = frame.assign(report=written)
    model = regression_model(formula, frame, protocol)
    found = {}
    for c in range(len(model.prior.sizes)):
        found[c] = Collection(labels, [Tally(protocol, reports[model.cell == c])])
    one = lb.regress(frame, formula, protocol, report="report", categories=labels, draws=4000, random_seed=1)
    cells = sample_cells(Cells(found), model.prior, **NUTS)["posterior"]["distribution"].values
    weight = model.prior.sizes / model.prior.sizes.sum()
    mine, theirs = {"distribution": one["posterior"]["distribution"].values}, {"distribution": weight @ cells}
    if not model.prior.effects:  # log odds are linear in the columns
        odds = np.log(cells[..., 1:]) - np.log(cells[..., :1])
        theirs["coefficients"] = np.einsum("tc,ijcx->ijtx", np.linalg.pinv(model.prior.design), odds)
        mine["coefficients"] = one["posterior"]["coefficients"].values[..., 1:]
    return one, mine, theirs


def ring(cells):
    return np.roll(np.eye(cells), 1, axis=0) + np.roll(np.eye(cells), -1, axis=0)


def noncompliant(protocols, law, n):
    rng = np.random.default_rng(5)
    a = protocols[0].n_categories
    labels = [f"c{x}" for x in range(a)]
    empty = [Tally(q, *q.simulate(np.ones(a, dtype=int), rng), f"c{i}") for i, q in enumerate(protocols)]
    wrapped = [t.protocol for t in Collection(labels, empty).with_noncompliers({"other": law}).tallies]
    truth = np.append(0.85 * np.arange(1, a + 1) / (a * (a + 1) / 2), 0.15)
    tallies = []
    for i, protocol in enumerate(wrapped):
        reports = protocol.simulate(rng.multinomial(n // len(wrapped), truth), rng)
        tallies.append(Tally(protocol.compliers, *reports, f"c{i}"))
    return Collection(labels, tallies).with_noncompliers({"other": law})


OUE = UnaryEncoding.optimized
CASES = {
    "learnt, grr 10": lambda: of_one(simulated(GRR(10, 1.5), 0.6 ** np.arange(10), 600), Learnt()),
    "learnt, oue 8": lambda: of_one(simulated(OUE(8, 1.0), 0.6 ** np.arange(8), 1500), Learnt()),
    "learnt, hadamard 12": lambda: of_one(simulated(HadamardResponse(12, 1.0), 0.7 ** np.arange(12), 1000), Learnt()),
    "smooth, grr 20": lambda: of_one(simulated(GRR(20, 2.0), bumpy(20), 3000), "smooth"),
    "smooth, grr 30": lambda: of_one(simulated(GRR(30, 1.5), bumpy(30), 2000), "smooth"),
    "smooth, oue 10": lambda: of_one(simulated(OUE(10, 1.0), bumpy(10), 4000), "smooth"),
    "smooth, oue 11, expanded": lambda: of_one(simulated(OUE(11, 1.0), bumpy(11), 8000), "smooth"),
    "smooth, subset 12": lambda: of_one(simulated(SubsetSelection(12, 1.0), bumpy(12), 1500), "smooth"),
    "groups, oue": lambda: of_cells(groups(OUE(4, 1.0)), Hierarchical()),
    "groups, 57 reports": lambda: of_cells(groups(OUE(4, 3.0), cells=10, n=57), Hierarchical()),
    "many reports, oue": lambda: of_cells(groups(OUE(4, 1.0), cells=12, n=4000), Hierarchical()),
    "many groups, oue": lambda: of_cells(groups(OUE(6, 1.0), cells=20, n=3000), Hierarchical()),
    "many days, grr": lambda: of_cells(groups(GRR(5, 1.0), cells=20, n=2000), Hierarchical("days")),
    "many neighbours, oue": lambda: of_cells(groups(OUE(4, 1.0), cells=12, n=4000), Hierarchical(ring(12))),
    "by category, grr": lambda: of_cells(groups(GRR(4, 1.5)), Hierarchical(by_category=True)),
    "days, oue": lambda: of_cells(groups(OUE(4, 1.0)), Hierarchical("days")),
    "neighbours, oue": lambda: of_cells(groups(OUE(4, 1.0)), Hierarchical(ring(6))),
    "regression, binary": lambda: of_regression("answer ~ x + g", designs.warner(0.85), 800),
    "regression, three categories": lambda: of_regression("answer ~ x", GRR(3, 2.0), 800),
    "regression, sets": lambda: of_regression("answer ~ x", OUE(3, 2.0), 800),
    "regression, groups": lambda: of_regression("answer ~ x + (1 | g)", designs.warner(0.9), 800),
    "non-compliance, crosswise pair": lambda: of_one(
        noncompliant([designs.crosswise(0.2), designs.crosswise(0.8)], 1, 2000), Compliance("jeffreys")
    ),
    "non-compliance, oue": lambda: of_one(noncompliant([OUE(4, 1.5)], "no bits", 1500), Compliance("jeffreys")),
    "log-linear, 3 x 4": lambda: of_one(
        simulated(Attributes((GRR(3, 2.0), GRR(4, 2.0))), np.outer([5, 3, 2], [4, 3, 2, 1]) + 6 * np.eye(3, 4), 2000),
        LogLinear((3, 4)),
    ),
}


def errors(draws, effective):
    """Return (mean, sd, error of the mean, error of the sd) of draws (chain, draw, …), flattened.

    Repeated draws look independent; ``effective`` is how many the weights say that there are.
    """
    from arviz_stats.base import array_stats

    draws = draws.reshape(*draws.shape[:2], -1)
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    moved = sd > 1e-12
    draws, wider = np.moveaxis(draws[..., moved], -1, 0), np.sqrt(max(draws.shape[0] * draws.shape[1] / effective, 1.0))
    found = [np.asarray(array_stats.mcse(draws, method=what)) * wider for what in ("mean", "sd")]
    return mean[moved], sd[moved], *found


def compare(name):
    """Return the line of a case."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        tree, mine, theirs = CASES[name]()
    far, wide, parts = [], [], []
    size = np.prod(mine["distribution"].shape[:2])
    effective = float(np.min(facts_of(tree).get("effective_draws", size)))
    independent = facts_of(tree).get("sampling") == "independent"
    for what in mine:
        one, other = errors(mine[what], effective if independent else size), errors(theirs[what], np.inf)
        far.append(np.abs(one[0] - other[0]) / np.hypot(one[2], other[2]))
        far.append(np.abs(one[1] - other[1]) / np.hypot(one[3], other[3]))
        if what in BOUNDED:
            wide.append(np.abs(one[1] / other[1] - 1).max())
        parts.append(what)
    far = np.concatenate(far)
    line = {"case": name, "engine": tree.attrs["method"], "compared": " ".join(parts), "differences": far.size}
    line |= {"largest_in_errors": f"{far.max():.2f}", "p": f"{-np.expm1(far.size * np.log1p(-2 * norm.sf(far.max()))):.4f}"}
    line |= {"sd_apart": f"{max(wide):.3f}", "k_hat": f"{float(np.max(facts_of(tree).get('k_hat', np.nan))):.2f}"}
    return line | {"seconds": f"{time.process_time() - start:.0f}"}


@pytest.mark.calibrate
@pytest.mark.parametrize("name", CASES)
def test_engine_agrees_with_nuts_on_the_full_likelihood(name):
    line = compare(name)
    record(TABLE, line, ("case",))
    hold(line)


def hold(line):
    assert float(line["p"]) > LEVEL, line
    assert float(line["sd_apart"]) < SPREAD, line


def test_stored_comparisons_are_whole_and_hold():
    with TABLE.open() as file:
        lines = {line["case"]: line for line in csv.DictReader(file)}
    assert lines.keys() == CASES.keys()
    for line in lines.values():
        hold(line)
