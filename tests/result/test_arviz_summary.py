"""The rows of ArviZ's summary: each has the mean of that very variable at those very labels, whatever the model."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ldpbayes as lb
from ldpbayes.priors.regression import Effects
from ldpbayes.protocols import ListExperiment, UnaryEncoding
from ldpbayes.protocols.designs import warner

pytestmark = pytest.mark.filterwarnings("ignore")
DEVICE = warner(0.8)
FEW = {"draws": 40, "chains": 2, "random_seed": 1}


def frame(n=300):
    rng = np.random.default_rng(3)
    columns = {"age": rng.integers(18, 80, n), "edu": rng.integers(0, 3, n), "town": rng.choice(list("abc"), n)}
    device = rng.integers(0, 2, n)
    truth = (rng.random(n) < 0.3 + 0.1 * columns["edu"]).astype(int)
    sent = np.where(device, DEVICE.privatize(truth, rng), truth)
    return pd.DataFrame(columns).assign(sent=sent, mode=np.where(device, "device", "direct"), y=rng.normal(truth))


def regressed(formula, protocol=DEVICE, **more):
    return lb.regress(frame(), formula, protocol, report="sent", categories=["no", "yes"], **FEW | more)


def with_curves():
    try:
        return regressed("drug ~ mo(edu) + s(age, k=4) + (1 | town)", method="weighted", draws=100)
    except lb.errors.ConvergenceError as err:  # weights of so few draws
        return err.result


def with_deniers():
    both = {"device": DEVICE, "direct": lb.protocols.direct()}
    stated = {"of": "yes", "say": "no", "channel": "direct", "formula": "age"}
    return regressed("drug ~ mo(edu)", both, design="mode", deniers=stated)


def of_a_list():
    rng = np.random.default_rng(1)
    n = 300
    x, g, treat, trait = rng.normal(size=n).round(1), rng.choice(list("abc"), n), rng.integers(0, 2, n), rng.random(n) < 0.4
    table = pd.DataFrame({"x": x, "g": g, "treat": treat, "y": rng.integers(0, 3, n) + treat * trait})
    return lb.regress(table, "angry ~ x", ListExperiment(2), report="y", design="treat", **FEW)


def cells(protocols):
    rng = np.random.default_rng(2)
    tallies = [(protocol.simulate(rng.multinomial(60, [0.5, 0.3, 0.2]), rng), protocol) for protocol in protocols]
    tallies = [lb.Tally(protocol, *reports, name) for (reports, protocol), name in zip(tallies, "uvw", strict=False)]
    return lb.Cells(
        {name: lb.Collection(["a", "b", "c"], tallies) for name in ("north", "east", "south", "west")}, by="place"
    )


def of_cells(prior, *protocols, **more):
    return lb.fit(cells(protocols or [lb.GRR(3, 1.0)]), prior, estimates=False, **FEW | more)


def with_effects():
    data = cells([lb.GRR(3, 1.0)])
    effects = (Effects("1|side", ("n", "e"), np.array([[1.0, 0], [0, 1], [0, 1], [1, 0]])),)
    design = np.column_stack([np.ones(4), np.arange(4.0)])
    prior = lb.priors.Regression(design, ("Intercept", "x"), 3, sizes=data.sizes, effects=effects)
    return lb.fit(data, prior, estimates=False, **FEW)


def attached():
    """A model of the caller's own, in which effects of groups stand before the categories."""
    rng, data = np.random.default_rng(4), cells([lb.GRR(3, 1.0)])
    drawn = {
        "weight": (("chain", "draw", "term", "category"), rng.normal(size=(2, 40, 2, 3))),
        "effect": (("chain", "draw", "side", "category"), rng.normal(size=(2, 40, 2, 3))),
        "p": (("chain", "draw", "place", "category"), rng.dirichlet([6, 3, 1], size=(2, 40, 4))),
    }
    coords = {"chain": [0, 1], "draw": range(40), "category": list("abc"), "place": list(data.labels), "term": ["x", "y"]}
    posterior = xr.Dataset(drawn, coords | {"side": ["n", "e"]})
    trace = xr.DataTree.from_dict({"posterior": posterior, "prior": posterior.isel(draw=slice(None, None, -1))})
    result = lb.pymc.attach(trace, data, random_seed=1)
    for name, values in drawn.items():
        given = posterior[name].rename({"place": "cell"} if name == "p" else {})
        for group, back in (("posterior", 1), ("prior", -1)):
            stored = result[group]["distribution" if name == "p" else name].transpose(*given.dims)
            np.testing.assert_allclose(stored.values, values[1][:, ::back], rtol=1e-12)
    return result


PREDICTED = ("prior", "posterior_predictive", "prior_predictive")
#: What makes each kind of result, and the groups that are asked for.
MAKERS = {
    "regression": (with_curves, ("log_likelihood",)),
    "three answers": (
        lambda: lb.regress(frame(), "edu ~ (1 | town)", lb.GRR(3, 2.0), report="edu", **FEW),
        ("log_likelihood",),
    ),
    "deniers": (with_deniers, ("log_likelihood",)),
    "list": (of_a_list, ("log_likelihood",)),
    "outcome": (lambda: regressed("y ~ age + private(drug)", family="normal"), ("log_likelihood",)),
    "uncertain device": (lambda: regressed("drug ~ (1 | town)", warner(lb.protocols.Uncertain((80, 20)))), ()),
    "one collection": (lambda: lb.fit(next(cells([lb.GRR(3, 1.0)]).collections()), "learnt", **FEW), PREDICTED),
    "hierarchical": (lambda: of_cells("hierarchical"), PREDICTED),
    "cells": (lambda: of_cells("flat"), PREDICTED),
    "two channels of cells": (
        lambda: of_cells("flat", *(UnaryEncoding.optimized(3, level) for level in (1.0, 2.0))),
        PREDICTED,
    ),
    "coefficients of cells": (with_effects, ("prior", "log_likelihood")),
    "attached": (attached, ("log_likelihood",)),
}


@pytest.mark.calibrated("three answers", "deniers", "one collection", "cells", "uncertain device", "hierarchical")
@pytest.mark.parametrize("kind", MAKERS)
def test_each_row_of_arvizs_summary_has_the_mean_at_its_labels(kind, tmp_path):
    make, groups = MAKERS[kind]
    result = make().extend(*groups)
    result.save(tmp_path / "result.nc")
    for tree in (result, lb.load(tmp_path / "result.nc")):
        for group in {"posterior", "prior", *groups} & set(tree.children) - {"log_likelihood"}:
            rows = az.summary(tree, group=group, kind="stats", round_to="none")["mean"]
            expected = {}
            for name, values in tree[group].data_vars.items():
                means = values.mean(("chain", "draw"))
                labels = [means[dim].values.tolist() for dim in means.dims]
                for place in np.ndindex(means.shape):
                    at = ", ".join(str(names[k]) for names, k in zip(labels, place, strict=True))
                    expected[f"{name}[{at}]" if at else name] = float(means.values[place])
            assert list(rows.index) == list(expected)
            np.testing.assert_allclose(rows.values, list(expected.values()), rtol=1e-9, atol=1e-12)
