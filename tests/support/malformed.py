"""Malformed arguments, generated from signatures: every public callable, one argument at a time, by every value of VALUES.

``CALLS`` and ``METHODS`` hold one valid call of each callable of the public doors. ``attempts`` lists what may be
replaced in them; ``outcome`` makes one such call and says what it ended in.
"""

import contextlib
import datetime
import decimal
import fractions
import functools
import importlib
import inspect
import math
import pathlib
import resource
import signal
import uuid
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa

import ldpbayes as lb
from ldpbayes.errors import LDPBayesError, LDPBayesWarning
from ldpbayes.protocols import Uncertain, designs
from ldpbayes.scanning import Scan

SECONDS = 30  # of the processor for one call; pytest ends one that waits
MEMORY = 3 * 2**30  # bytes above those in use; samplers start threads, each with an address space of its own

#: Malformed values by name; made anew for every call, because some are used up or changed.
VALUES = {
    "None": lambda m: None,
    "True": lambda m: True,
    "NumPy False": lambda m: np.False_,
    "nan": lambda m: math.nan,
    "inf": lambda m: math.inf,
    "-inf": lambda m: -math.inf,
    "-1": lambda m: -1,
    "0": lambda m: 0,
    "1.5": lambda m: 1.5,
    "10**9": lambda m: 10**9,
    "2**63": lambda m: 2**63,
    "10**400": lambda m: 10**400,
    "1e300": lambda m: 1e300,
    "5e-324": lambda m: 5e-324,
    "complex": lambda m: 1 + 2j,
    "Decimal": lambda m: decimal.Decimal("0.5"),
    "Decimal NaN": lambda m: decimal.Decimal("sNaN"),
    "Fraction": lambda m: fractions.Fraction(1, 3),
    "empty text": lambda m: "",
    "word": lambda m: "zzz",
    "NUL": lambda m: "a\x00b",
    "surrogate": lambda m: "\ud800",
    "line break": lambda m: "a\nb\x1b[2J",
    "long text": lambda m: "x" * 100_000,
    "bytes": lambda m: b"ab\xff",
    "bytearray": lambda m: bytearray(b"ab"),
    "memoryview": lambda m: memoryview(b"ab"),
    "empty list": lambda m: [],
    "list of nan": lambda m: [math.nan],
    "ragged list": lambda m: [[1], [2, 3]],
    "list of lists": lambda m: [[1, 2], [3, 4]],
    "list of None": lambda m: [None],
    "list of texts": lambda m: ["a", "b", "c"],
    "mixed list": lambda m: [1, "a", None],
    "list of huge": lambda m: [10**400, 1],
    "list within itself": lambda m: _within_itself(),
    "tuple of negatives": lambda m: (5, -3),
    "empty tuple": lambda m: (),
    "empty dict": lambda m: {},
    "dict": lambda m: {"a": 1, 2: None},
    "set": lambda m: {1, 2},
    "range": lambda m: range(3),
    "generator": lambda m: (i for i in (1, 2)),
    "iterator of texts": lambda m: iter("ab"),
    "object": lambda m: object(),
    "hostile": lambda m: Hostile(),
    "function": lambda m: lambda *a, **k: None,
    "class": lambda m: dict,
    "module": lambda m: math,
    "array of texts": lambda m: np.array(["a", "b"]),
    "array of objects": lambda m: np.array([None, {}, 1], dtype=object),
    "array of datetimes": lambda m: np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    "array of complex": lambda m: np.array([1 + 1j, 2.0]),
    "structured array": lambda m: np.zeros(2, dtype=[("a", int), ("b", float)]),
    "masked array": lambda m: np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]),
    "array without dimensions": lambda m: np.array(3.0),
    "array of three dimensions": lambda m: np.ones((2, 2, 2)),
    "empty array": lambda m: np.array([]),
    "array of bool": lambda m: np.array([True, False]),
    "array of 2**63": lambda m: np.array([2**63, 1], dtype=np.uint64),
    "array with inf": lambda m: np.array([0.5, math.inf, -1.0]),
    "Series with an odd index": lambda m: pd.Series([0.5, 0.5], index=["u", "u"]),
    "data frame": lambda m: pd.DataFrame({"a": [1, 2], 3: ["x", None]}),
    "NA": lambda m: pd.NA,
    "NaT": lambda m: pd.NaT,
    "Series with NA": lambda m: pd.Series([1, pd.NA], dtype="Int64"),
    "categorical": lambda m: pd.Categorical(["a", None]),
    "Arrow table": lambda m: pa.table({"a": [1, None]}),
    "Arrow array": lambda m: pa.array([1, None]),
    "date": lambda m: datetime.date(2020, 1, 1),
    "timedelta": lambda m: datetime.timedelta(1),
    "UUID": lambda m: uuid.UUID(int=1),
    "Path": lambda m: pathlib.Path("nowhere/x"),
    "folder": lambda m: pathlib.Path(),
    "tree": lambda m: m.tree,
    "part of a tree": lambda m: m.tree["posterior"],
    "Dataset": lambda m: m.tree["posterior"].to_dataset(),
    "empty tree": lambda m: type(m.tree)(),
    "protocol": lambda m: m.grr,
    "Tally": lambda m: m.tally,
    "Collection": lambda m: m.collection,
    "Cells": lambda m: m.cells,
    "prior": lambda m: lb.priors.Dirichlet([1.0, 2.0]),
    "method": lambda m: lb.methods.Exact(),
    "exception": lambda m: lb.errors.ArgumentError,
}


def _within_itself():
    made = []
    made.append(made)
    return made


class Hostile:
    """An object that no operator and no conversion takes."""

    def _refuse(self, *args):
        raise RuntimeError("hostile")

    __eq__ = __bool__ = __len__ = __iter__ = __float__ = __int__ = __index__ = __array__ = __str__ = __repr__ = _refuse
    __fspath__ = __getitem__ = __contains__ = __lt__ = __add__ = __radd__ = __mul__ = __rmul__ = __hash__ = _refuse
    __array_ufunc__ = None


class Material:
    """What valid calls are made of, each made where it is first needed."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def __getattr__(self, name):
        if name not in MATERIAL:
            raise AttributeError(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LDPBayesWarning)
            made = MATERIAL[name](self)
        setattr(self, name, made)
        return made


def _reports_of(values, **columns):
    rng = np.random.default_rng(1)
    size = 60
    return pd.DataFrame(
        {
            "report": np.array(values)[rng.integers(0, len(values), size)],
            **{k: make(rng, size) for k, make in columns.items()},
        }
    )


def _file(m, name, text):
    path = m.folder / name
    path.write_text(text)
    return path


#: Settings of small fits, and columns of a table of counts.
DRAWN = dict(draws=20, chains=2, random_seed=1)
COUNTED = dict(report="report", count="count", categories=list("012"), name="all", by="g")

MATERIAL = {
    "grr": lambda m: lb.GRR(3, 1.0),
    "warner": lambda m: designs.warner(0.7),
    "device": lambda m: designs.warner(0.95),
    "tally": lambda m: lb.Tally(m.grr, [0, 1, 2], [30, 20, 10]),
    "unary": lambda m: lb.protocols.UnaryEncoding.optimized(3, 1.0),
    "rappor": lambda m: lb.protocols.Rappor(3, 0.2, 0.9, 0.5, 3, 2, 1, candidates=tuple("abc")),
    "cohorts_and_bits": lambda m: ([0, 1, 1], [[0, 0, 1], [1, 1, 0], [0, 1, 0]]),
    "collection": lambda m: lb.Collection("abc", [m.tally], derived=[lb.collections.Derived("share", ["a"], ["a", "b"])]),
    "ordered": lambda m: lb.Collection("abc", [m.tally], ordered=True),
    "zeros": lambda m: lb.Collection(
        "abcd", [lb.Tally(lb.protocols.SubsetSelection(4, 1.0, 2), [[1, 1, 0, 0], [0, 0, 1, 1]], [5, 6])]
    ),
    "maximum_of_zeros": lambda m: lb.estimators.MLE()(m.zeros).distribution,
    "survey": lambda m: lb.Collection(["no", "yes"], [lb.Tally(m.warner, [0, 1], [60, 40])]),
    "cells": lambda m: lb.Cells({"x": m.collection, "y": m.collection}, by="k", covariates={"z": [0.0, 1.0]}),
    "joint": lambda m: lb.Collection(
        ["no/no", "no/yes", "yes/no", "yes/yes"],
        [lb.Tally(lb.protocols.kronecker([m.device, m.device], "/"), [0, 1, 2, 3], [60, 20, 15, 30])],
    ),
    "tree": lambda m: lb.fit(m.collection, "jeffreys", **DRAWN),
    "tree_of_survey": lambda m: lb.fit(m.survey, "jeffreys", **DRAWN),
    "tree_of_cells": lambda m: lb.fit(m.cells, "jeffreys", **DRAWN),
    "associated": lambda m: lb.associate(m.joint, names=["u", "w"], prior="jeffreys", **DRAWN),
    "frame": lambda m: _reports_of(
        ["no", "yes"],
        x=lambda r, n: r.normal(size=n),
        g=lambda r, n: np.array(list("ab"))[r.integers(0, 2, n)],
        n=lambda r, n: np.ones(n, int),
        w=lambda r, n: r.integers(1, 4, n),
    ),
    "bits": lambda m: pd.DataFrame({"report": ["100" * 10, "011" * 10, "010" * 10] * 4, "g": list("ab") * 6}),
    "values": lambda m: _reports_of(["0", "1"], v=lambda r, n: r.integers(1, 9, n)),
    "regressed": lambda m: lb.regress(
        m.frame, "report ~ x + g", m.device, report="report", categories=["no", "yes"], draws=50, chains=2, random_seed=1
    ),
    "maximum": lambda m: lb.regress(
        m.frame, "report ~ x + g", m.device, report="report", categories=["no", "yes"], method="mle"
    ),
    "private": lambda m: lb.by_private_group(m.values, "v", lb.GRR(2, 3.0), report="report", draws=25, random_seed=1),
    "tree_with_missing": lambda m: lb.fit(lb.Collection(["no", "yes"], m.survey.tallies, missing=9), "flat", **DRAWN),
    "hull": lambda m: lb.robust.contamination_hull(m.collection),
    "curve": lambda m: lb.robust.sensitivity(m.noncompliant, "yes", points=5),
    "checked": lambda m: lb.check(m.survey),
    "crosschecked": lambda m: lb.crosscheck(m.survey, "flat", **DRAWN),
    "plans": lambda m: lb.planning.plan(n_categories=4, epsilon=1.0, n=1000, protocols=["grr"]),
    "found": lambda m: lb.scan(m.frame[["report", "g"]], m.warner, by="g"),
    "summary": lambda m: lb.collections.Summary.of(m.collection.rows, np.full(3, 1 / 3)),
    "page": lambda m: lb.show(m.tree_of_survey),
    "figure": lambda m: lb.plots.plot_forest(m.tree_of_survey),
    "csv": lambda m: _file(m, "reports.csv", "report,count,g\n0,30,u\n1,20,v\n2,10,u\n"),
    "counted": lambda m: pd.DataFrame({"report": ["0", "1", "2"], "count": [30, 20, 10], "g": ["u", "v", "u"]}),
    "toml": lambda m: lb.write(m.survey, m.folder / "good.toml") or m.folder / "good.toml",
    "people": lambda m: _file(m, "people.csv", "value,count\nold,30\nyoung,20\n"),
    "saved": lambda m: lb.save(m.tree_of_survey, m.folder / "good.nc") or m.folder / "good.nc",
    "rng": lambda m: np.random.default_rng(1),
}

#: Modules whose public functions and classes are doors: what ``__all__`` names, or what they define without underscore.
DOORS = (
    "ldpbayes",
    "ldpbayes.protocols",
    "ldpbayes.collections",
    "ldpbayes.errors",
    "ldpbayes.priors",
    "ldpbayes.methods",
    "ldpbayes.estimators",
    "ldpbayes.robust",
    "ldpbayes.pymc",
    "ldpbayes.theory",
    "ldpbayes.sources",
    "ldpbayes.simulation",
    "ldpbayes.estimators.postprocess",
    "ldpbayes.result",
    "ldpbayes.answers",
    "ldpbayes.fitness",
    "ldpbayes.planning",
    "ldpbayes.planning.risk",
    "ldpbayes.theory.bounds",
    "ldpbayes.theory.metrics",
    "ldpbayes.pages",
    "ldpbayes.plots",
)

#: Functions that commands and other parts of the package hand users' arguments to.
HELPERS = {
    "ldpbayes.repeated.spending": ("spent",),
    "ldpbayes.answers.shares": ("total",),
    "ldpbayes.plots.base": ("check_ending",),
    "ldpbayes.priors": ("as_dirichlet", "parse_prior", "prior_for"),
    "ldpbayes.priors.naming": ("default_prior",),
    "ldpbayes.protocols.registry": ("parse_name", "resolve"),
}

UNIFORM = [0.2, 0.3, 0.5]
FLAT = lb.priors.Dirichlet([1.0, 1.0, 1.0])


def _risk(**named):
    return lambda m: dict(protocol=m.grr, prior=FLAT, **named)


def _tree(**named):
    return lambda m: dict(result=m.tree, ci_prob=0.9, target="distribution", **named)


def _pair(**named):
    return lambda m: dict(result=m.associated, first="u", second="w", target="distribution", ci_prob=0.9, **named)


def _drawn(method, **named):
    return lambda m: dict(draws=20, chains=2, **named)


#: Valid calls: name of the callable -> its arguments, all that are stated being replaced one at a time.
CALLS = {
    # ---- collections and protocols
    "Tally": lambda m: dict(
        protocol=m.grr, reports=[0, 1, 2], counts=[3, 2, 1], name="all", categories=("a", "b", "c"), user=None
    ),
    "Tally of users": lambda m: dict(protocol=m.grr, reports=[0, 1, 2], user=["u", "u", "v"]),
    "Tally of cohorts": lambda m: dict(protocol=m.rappor, reports=m.cohorts_and_bits),
    "Collection": lambda m: dict(
        categories="abc",
        tallies=[m.tally],
        id="i",
        title="t",
        question="q",
        citation="c",
        licence="l",
        notes="n",
        derived=(),
        published=(),
        ordered=False,
        missing=1,
    ),
    "Derived": lambda m: dict(name="share", of=["a"], given=["a", "b"]),
    "Cells": lambda m: dict(
        cells={"x": m.collection, "y": m.collection},
        by="k",
        covariates={"z": [0.0, 1.0]},
        categories=tuple("abc"),
        id="i",
        title="t",
    ),
    "Summary": lambda m: {
        k: getattr(m.summary, k)
        for k in ("n_reports", "pilot", "value", "gradient", "square", "cross", "log_constant", "spread", "supports", "rate")
    },
    "GRR": lambda m: dict(n_categories=3, epsilon=1.0),
    "Attributes": lambda m: dict(factors=(m.grr, m.grr), separator="/"),
    "Channel": lambda m: dict(matrix=[[0.7, 0.2], [0.3, 0.8]], answers=("no", "yes"), design="channel"),
    "kronecker": lambda m: dict(factors=[m.grr, m.grr], separator=","),
    "product": lambda m: dict(factors=[m.grr, m.grr], separator=","),
    "mixture": lambda m: dict(shares=[0.5, 0.5], factors=[m.grr, lb.GRR(3, 2.0)], separator=":"),
    "compose": lambda m: dict(outer=m.grr, inner=m.grr),
    "make_protocol": lambda m: dict(name="grr", categories="abc", parameters={"epsilon": 1.0}),
    "make_protocol of a number": lambda m: dict(name="unary", categories=3, parameters={"kappa": 0.6, "lam": 0.2}),
    "make_protocol of nothing else": lambda m: dict(name="grr", parameters={"n_categories": 3, "epsilon": 1.0}),
    "open_source": lambda m: dict(data=m.csv),
    "parse_name": lambda m: dict(text="olh:seeds=16"),
    "resolve": lambda m: dict(name="oue", parameters={}),
    "LOLOHA": lambda m: dict(
        n_categories=3, epsilon_infinity=2.0, epsilon_instant=3.0, buckets=2, family="ldpbayes", times=((1, 1),)
    ),
    "BlockDesign": lambda m: dict(n_categories=3, epsilon=1.0),
    "CohortRR": lambda m: dict(
        n_categories=3, epsilon=1.0, buckets=2, cohorts=4, assignment="label", candidates=tuple("abc"), seed=0
    ),
    "DBitFlip": lambda m: dict(n_categories=3, epsilon_infinity=1.0, buckets=3, sampled=2, flip=0.1, times=((1, 1),)),
    "FakeData": lambda m: dict(n_categories=4, epsilon=1.0, sizes=(2, 2), base="grr", fake="uniform"),
    "HadamardResponse": lambda m: dict(n_categories=3, epsilon=1.0),
    "LocalHashing": lambda m: dict(n_categories=3, epsilon=1.0, buckets=2, family="ldpbayes"),
    "PooledHashing": lambda m: dict(n_categories=3, epsilon=1.0, buckets=2, family="ldpbayes", seeds=16),
    "RestrictedResponse": lambda m: dict(n_categories=4, epsilon=1.0, subset=[0, 2], split=0.8),
    "MemoizedGRR": lambda m: dict(n_categories=3, epsilon_infinity=2.0, epsilon_instant=3.0, times=((1, 1),)),
    "MemoizedRappor": lambda m: dict(
        protocol=lb.protocols.Rappor(3, 0.2, 0.9, 0.5, 3, 2, 1, candidates=tuple("abc")), times=((1, 1),)
    ),
    "MemoizedUnary": lambda m: dict(n_categories=3, kappa=0.5, lam=0.3, on=0.9, off=0.2, times=((1, 1),)),
    "Noncompliance": lambda m: dict(compliers=lb.protocols.UnaryEncoding.symmetric(3, 1.0), laws=("no bits",)),
    "Rappor": lambda m: dict(
        n_categories=3,
        p=0.2,
        q=0.9,
        f=0.5,
        n_bits=3,
        cohorts=2,
        hashes=1,
        assignment="label",
        candidates=tuple("abc"),
        seed=0,
    ),
    "RapporBits": lambda m: dict(rappor=lb.protocols.Rappor(3, 0.2, 0.9, 0.5, 3, 2, 1, candidates=tuple("abc"))),
    "Repeated": lambda m: dict(protocol=m.grr, times=((1, 1), (2, 1))),
    "SampledAttribute": lambda m: dict(n_categories=4, epsilon=1.0, sizes=(2, 2), base="grr"),
    "SubsetSelection": lambda m: dict(n_categories=4, epsilon=1.0, size=2),
    "UnaryEncoding": lambda m: dict(n_categories=3, epsilon=1.0, lam=0.3),
    "direct": lambda m: dict(n_categories=2, answers=("no", "yes")),
    "warner": lambda m: dict(p=0.7, answers=("no", "yes")),
    "forced_response": lambda m: dict(truth=0.7, forced=[1, 2], answers=("no", "yes")),
    "unrelated_question": lambda m: dict(p=0.7, innocuous=0.5, answers=("no", "yes")),
    "crosswise": lambda m: dict(p=0.2, answers=("one", "two")),
    "triangular": lambda m: dict(p=0.2, answers=("one", "two")),
    "kuk": lambda m: dict(p_carrier=0.7, p_other=0.2, cards=1, answers=("no", "yes")),
    "christofides": lambda m: dict(shares=[0.5, 0.3, 0.2], answers=("1", "2", "3")),
    "stochastic_lie_detector": lambda m: dict(p=0.2, answers=("no", "yes")),
    "cheater_detection": lambda m: dict(p=0.2, answers=("no", "yes")),
    "item_count": lambda m: dict(
        items=[2, 1], group="treatment", ceiling_effect=0.1, floor_effect=0.0, answers=("0", "1", "2", "3"), on=1
    ),
    "ListExperiment": lambda m: dict(items=(2, 1), ceiling_effect=0.1, floor_effect=0.0, traits=("no", "yes")),
    # ---- priors
    "Dirichlet": lambda m: dict(alpha=[1.0, 2.0]),
    "Tree": lambda m: dict(blocks=((0, 2), (1,)), shares=1.0, splits="jeffreys"),
    "Lists": lambda m: dict(items=(2, 3), apart=False, effect=1.0, deviation=0.5),
    "Product": lambda m: dict(sizes=(2, 3), factors="jeffreys"),
    "Compliance": lambda m: dict(compliers="jeffreys", gamma=(1.0, 9.0), n_laws=1, n_categories=3),
    "Denial": lambda m: dict(compliers="jeffreys", denial=(1.0, 1.0), of=(1,), n_categories=3),
    "Hierarchical": lambda m: dict(structure="groups", scale=1.0, centre=1.5, by_category=False, n_categories=3, n_cells=2),
    "Floor": lambda m: dict(median=0.5, sd=1.0, evenness=4.0, n_categories=3),
    "Learnt": lambda m: dict(median=0.5, sd=1.0, n_categories=3),
    "LogLinear": lambda m: dict(sizes=(2, 2), main=2.0, scale=0.5, order=2),
    "Regression": lambda m: dict(
        design=[[1.0, 0.0], [1.0, 1.0]],
        terms=("intercept", "x"),
        n_categories=2,
        scale=2.5,
        effects=(),
        reference=0,
        categories=("no", "yes"),
    ),
    "Smooth": lambda m: dict(rate=1.0, degrees=2.0, local=0.5, n_categories=3),
    "as_prior": lambda m: dict(prior="flat", n_categories=3),
    "default_prior": lambda m: dict(n_categories=3),
    "parse_prior": lambda m: dict(text="flat"),
    "prior_for": lambda m: dict(prior="flat", collection=m.collection),
    "as_dirichlet": lambda m: dict(prior="flat", n_categories=3, what="this"),
    # ---- estimators and methods
    "MLE": lambda m: dict(tolerance=1e-6, max_iterations=100),
    "difference_in_means": lambda m: dict(
        collection=lb.Collection.from_lists(lb.protocols.ListExperiment(1), [5, 4], [3, 4, 2])
    ),
    "NUTS": _drawn("NUTS", tune=50, target_accept=0.9),
    "Exact": _drawn("Exact"),
    "HMC": _drawn("HMC", written=60_000),
    "Weighted": _drawn("Weighted"),
    "PairSlice": _drawn("PairSlice", tune=100, thin=1, route="auto"),
    "Quadrature": _drawn("Quadrature", tolerance=1e-6, nodes=28, max_work=6e9),
    "Surrogate": _drawn("Surrogate"),
    # ---- fit and check
    "fit": lambda m: dict(
        collection=m.collection,
        prior="jeffreys",
        method="auto",
        **DRAWN,
        ci_prob=0.9,
        progressbar=False,
        estimates=True,
        exclude=(),
    ),
    "select_method": lambda m: dict(collection=m.collection, prior="flat", exclude=(), draws=20),
    "associate": lambda m: dict(
        data=m.joint,
        names=["u", "w"],
        prior="jeffreys",
        separator="/",
        **DRAWN,
        ci_prob=0.9,
        progressbar=False,
    ),
    "associate from a frame": lambda m: dict(
        data=m.frame.assign(s=m.frame["report"]),
        reports={"u": "report", "w": "s"},
        protocols={"u": m.warner, "w": m.warner},
        categories={"u": ["no", "yes"], "w": ["no", "yes"]},
        count="n",
        prior="jeffreys",
        **DRAWN,
    ),
    "regress": lambda m: dict(
        formula="report ~ x",
        data=m.frame,
        protocol=m.warner,
        report="report",
        count="n",
        categories=["no", "yes"],
        reference="no",
        scale=2.5,
        method="weighted",
        **DRAWN,
        ci_prob=0.9,
        progressbar=False,
        bad_rows="refuse",
    ),
    "regress by design": lambda m: dict(
        formula="report ~ x",
        data=m.frame,
        protocol={"a": m.warner, "b": designs.direct()},
        report="report",
        design="g",
        weights="w",
        categories=["no", "yes"],
        method="mle",
    ),
    "regress on a private answer": lambda m: dict(
        formula="x ~ private(report)",
        data=m.frame,
        protocol=m.warner,
        report="report",
        categories=["no", "yes"],
        family="normal",
        private="report ~ g",
        method="mle",
    ),
    "by_private_group": lambda m: dict(
        data=m.values,
        value="v",
        report="report",
        protocol=lb.GRR(2, 3.0),
        categories=["0", "1"],
        target="distribution",
        method="auto",
        draws=25,
        chains=4,
        quantiles=(0.5,),
        ci_prob=0.9,
        random_seed=1,
    ),
    "check": lambda m: dict(collection=m.collection, level=0.05, random_seed=0, replications=19),
    "check of zeros": lambda m: dict(
        collection=m.zeros,
        replications=19,
        estimate=m.maximum_of_zeros,
    ),
    "equality_test": lambda m: dict(cells=m.cells),
    "information_criteria": lambda m: dict(collection=m.collection, log_likelihood=-60.0),
    "compliance_test": lambda m: dict(collection=m.noncompliant),
    "sensitivity": lambda m: dict(collection=m.noncompliant, categories="yes", threshold=0.2, points=5),
    "contamination_hull": lambda m: dict(
        collection=m.collection, categories=["a"], share=[0.01, 0.05], channel="all", ci_prob=0.9
    ),
    "crosscheck": lambda m: dict(collection=m.survey, prior="flat", **DRAWN, progressbar=False),
    "observe": lambda m: dict(
        name="y",
        p=np.array(UNIFORM),
        collection=m.collection,
        likelihood="full",
        prior="jeffreys",
    ),
    "observe_mixture": lambda m: dict(
        name="y",
        value="v",
        components=_components(),
        p=[0.5, 0.5],
        data=m.values,
        report="report",
        protocol=lb.GRR(2, 3.0),
        categories=["0", "1"],
    ),
    "build_model": lambda m: dict(collection=m.survey, prior="flat", likelihood="full"),
    # ---- files
    "load": lambda m: dict(path=m.saved),
    "save": lambda m: dict(result=m.tree_of_survey, path=m.folder / "again.nc"),
    "save a page": lambda m: dict(result=m.page, path=m.folder / "p.md"),
    "load_example": lambda m: dict(name="nigeria"),
    "read": lambda m: dict(data=m.toml),
    "read a table": lambda m: dict(data=m.csv, protocol=m.grr, missing="-", **COUNTED),
    "read a survey": lambda m: dict(
        data=m.frame,
        protocol=m.warner,
        report="report",
        categories=["no", "yes"],
        weights="w",
        strata="g",
        cluster="n",
        population_size=1000,
    ),
    "write reports": lambda m: dict(collection=[[1, 0, 1], [0, 0, 1]], path=m.folder / "w.parquet", protocol=m.unary),
    "write cohorts": lambda m: dict(collection=m.cohorts_and_bits, path=m.folder / "w.parquet", protocol=m.rappor),
    "write a collection": lambda m: dict(collection=m.survey, path=m.folder / "again.toml"),
    "read_collection": lambda m: dict(path=m.toml),
    "scan": lambda m: dict(
        data=m.frame[["report", "g"]],
        protocol=m.warner,
        report="report",
        by="g",
        sample=10,
        jobs=1,
        categories=["no", "yes"],
        keep=0,
        random_seed=0,
        progressbar=False,
        missing="-",
    ),
    "write_collection": lambda m: dict(collection=m.survey, path=m.folder / "again.toml"),
    "population": lambda m: dict(source="zipf", n_categories=3, exponent=1.0),
    "population: geometric": lambda m: dict(source="geometric", n_categories=3, mean=1.0),
    "population: dirichlet": lambda m: dict(source="dirichlet", n_categories=3, alpha=1.0, random_seed=1),
    "population: file": lambda m: dict(source=m.people),
    "simulate": lambda m: dict(
        p=UNIFORM, protocol=m.grr, n=20, random_seed=1, categories="abc", id="i", title="t", name="all"
    ),
    "simulate_reports": lambda m: dict(
        path=m.folder / "s.parquet", protocol=m.grr, p=[3, 2, 1], random_seed=1, categories=list("abc")
    ),
    # ---- results and answers
    "attach": lambda m: dict(
        trace=m.trace,
        collection=m.collection,
        var_name="p",
        prior_label="mine",
        random_seed=1,
        ci_prob=0.9,
    ),
    "select": lambda m: dict(result=m.tree_of_cells, cell="x"),
    "facts_of": lambda m: dict(result=m.tree),
    "validate": lambda m: dict(result=m.tree),
    "missing_answers": lambda m: dict(
        result=m.tree_with_missing, categories="yes > 0.2", odds_ratio=[0.5, 2.0], ci_prob=0.9, target="distribution"
    ),
    "category_sum": _tree(categories=["a", "b"]),
    "comparisons": lambda m: dict(result=m.regressed, variable="x", values=[0.0, 1.0], data=m.frame, ci_prob=0.9),
    "slopes": lambda m: dict(result=m.regressed, variable="x", data=m.frame, ci_prob=0.9),
    "predictions": lambda m: dict(result=m.regressed, data=m.frame, ci_prob=0.9),
    "odds_ratio of a regression": lambda m: dict(result=m.regressed, ci_prob=0.9),
    "odds_ratio of a maximum": lambda m: dict(result=m.maximum, ci_prob=0.9),
    "conditional": lambda m: dict(result=m.associated, of="u", given=["w"], target="distribution", ci_prob=0.9),
    "contrast": _tree(first="a", second="b"),
    "contrast of results": lambda m: dict(result=m.tree, first="a", second="b", other=m.tree),
    "contrast of cells": lambda m: dict(result=m.tree_of_cells, first="a", second="a", cell="x", other_cell="y"),
    "cramers_v": _pair(),
    "odds_ratio": _pair(kind="local"),
    "mutual_information": _pair(),
    "independence": lambda m: dict(result=m.associated, first="u", second="w"),
    "joint_table": lambda m: dict(result=m.associated, attributes=["u", "w"], target="distribution", ci_prob=0.9),
    "entropy": _tree(cell=None),
    "fakes": lambda m: dict(collection=m.collection, category="a", lift=0.1, channel="all"),
    "fakes to overtake": lambda m: dict(collection=m.tree, category="a", overtake="b"),
    "largest": lambda m: dict(result=m.tree, k=1, ci_prob=0.9, simultaneous=False, cell=None),
    "interval_parts": lambda m: dict(result=m.tree_of_cells, cell="x"),
    "poststratify": lambda m: dict(result=m.tree_of_cells, population=[1.0, 2.0], ci_prob=0.9, target="distribution"),
    "poststratify a regression": lambda m: dict(result=m.regressed, population=m.frame, ci_prob=0.9, count="n", by="g"),
    "probability_in_top": lambda m: dict(result=m.tree, k=1, target="distribution"),
    "simultaneous_intervals": _tree(cell=None),
    "spent": lambda m: dict(tallies=[lb.Tally(m.grr, [0, 1, 1], user=["u", "u", "v"])], cells=2),
    "total": lambda m: dict(result=m.tree_of_cells, categories=["a"], target="distribution", cell="x"),
    "show": lambda m: dict(result=m.tree, top=2),
    # ---- theory
    "plan": lambda m: dict(
        n_categories=3,
        epsilon=1.0,
        error=0.1,
        kind="l2",
        p="uniform",
        target="distribution",
        estimator="mle",
        protocols=["grr"],
        ci_prob=0.9,
    ),
    "plan after a wave": lambda m: dict(n=100, epsilon=1.0, after=m.tree_of_cells, cell="x"),
    "plan of a design": lambda m: dict(n_categories=2, n=100, protocols="warner:p=0.7"),
    "expected_error": lambda m: dict(
        protocol=m.grr, n=100, kind="l2", p="uniform", target="distribution", estimator="mle", ci_prob=0.9
    ),
    "curves": lambda m: dict(
        along="epsilon", values=[0.5, 1.0], n_categories=3, n=100, protocols=["grr"], kind="l2", estimator="mle"
    ),
    "bytes_per_report": lambda m: dict(protocol=m.grr),
    "named_makers": lambda m: dict(names=["grr"], parameters={}),
    "has_free_epsilon": lambda m: dict(name="grr", parameters={}),
    "with_prospects": lambda m: dict(plans=m.plans, groups=2, delta=0.1, fakes=0.01, gamma=0.1),
    "power": lambda m: dict(protocol=m.grr, n=1000, delta=0.1, groups=2, ci_prob=0.9),
    "least_difference": lambda m: dict(half_width_of_group=0.1, probability=0.8, ci_prob=0.9),
    "half_width_for": lambda m: dict(delta=0.1, probability=0.8, groups=2, ci_prob=0.9),
    "asked_directly": lambda m: dict(protocol=m.warner, n=100, of=1, say=0, delta=0.2, p=[0.6, 0.4], direct=[0.2, 0.5]),
    "validation": lambda m: dict(device=designs.warner(Uncertain((7, 3))), n=100, p=[0.6, 0.4], times=[1.0, 2.0]),
    "Uncertain": lambda m: dict(concentrations=(7.0, 3.0)),
    "poisoned_share": lambda m: dict(protocol=m.grr, fakes=0.1, share=0.01),
    "noncompliance": lambda m: dict(
        protocols=[m.warner, designs.warner(0.2)], n=1000, laws={"denier": "no"}, gamma=0.1, p=None
    ),
    "oracle_risk": lambda m: dict(protocol=m.grr, p=UNIFORM, n=100, target="distribution", norm="l2"),
    "mle_risk": lambda m: dict(
        protocol=m.grr, p=UNIFORM, n=100, target="distribution", norm="l2", simulations=100, random_seed=0
    ),
    "balanced_mle_risk": lambda m: dict(protocol=m.grr, p=UNIFORM, n=100, target="distribution", norm="l2"),
    "bayes_risk": _risk(n=100, target="distribution", draws=20, random_seed=0),
    "average_risk": _risk(n=100, target="distribution", norm="l2", estimator="mle", draws=20, random_seed=0),
    "spread": lambda m: dict(variance=[0.1, 0.2], norm="l2"),
    "gamma": _risk(draws=20, simulations=100, random_seed=0),
    "delta": _risk(draws=20, simulations=100, random_seed=0),
    "corollary_4_3": _risk(target="distribution", draws=20, simulations=100, random_seed=0),
    "theorem_4_1": _risk(n=100, draws=20, random_seed=0),
    "theorem_4_4": lambda m: dict(n_categories=3, epsilon=1.0, target="distribution"),
    "theorem_4_5": lambda m: dict(n_categories=3, epsilon=1.0, target="distribution", n_outputs=3),
    "exact_bound": lambda m: dict(n_categories=3, epsilon=1.0, target="distribution"),
    "ldp_level": lambda m: dict(protocol=m.grr),
    "worst_case_privacy": lambda m: dict(protocol=m.grr),
    "average_privacy": _risk(draws=20, simulations=100, random_seed=0),
    "asymptotic_utility": _risk(draws=20, simulations=100, random_seed=0),
    "direct_answers_utility": lambda m: dict(prior=FLAT),
    "participation_factor": _risk(draws=20, simulations=100, random_seed=0),
    "frontier": lambda m: dict(worst_case=1.0),
    # ---- estimates
    **{
        name: lambda m: dict(estimate=[0.5, 0.6, -0.1])
        for name in (
            "truncate_and_renormalize",
            "project_to_simplex",
            "norm_sub",
            "norm_cut",
        )
    },
    "power_law": lambda m: dict(
        estimate=[0.5, 0.6, -0.1], standard_error=[0.1, 0.1, 0.1], n_reports=100, exponent=1.0, nodes=64
    ),
    "ldp_recover": lambda m: dict(estimate=[0.5, 0.6, -0.1], rates=(0.7, 0.3), share=0.05, targets=[0], support=1.0),
    # ---- pages and plots
    "Column": lambda m: dict(key="k", heading="h", kind="number", spec=".4f", priority=0, align="left", full="f", means="m"),
    "Figure": lambda m: dict(name="f", caption="c", alt="a", draw=lambda: m.figure),
    "Note": lambda m: dict(kind=lb.pages.Kind.DATA, text="t"),
    "Table": lambda m: dict(title="t", columns=(lb.pages.Column("k", "h"),), rows=((1.0,),), note="n"),
    "Page": lambda m: dict(
        title="t", tables=(), notes=(), figures=(), facts={"a": 1}, summary="s", about={"a": "b"}, again={"a": "b"}
    ),
    "check_ending": lambda m: dict(path="x.png"),
    "plot_association": lambda m: dict(result=m.associated, top=2),
    "plot_coefficients": lambda m: dict(result=m.regressed, intercept=False),
    "plot_missing": lambda m: dict(result=lb.answers.missing_answers(m.tree_with_missing, "yes")),
    "plot_contamination": lambda m: dict(result=m.hull),
    "plot_crosscheck": lambda m: dict(result=m.crosschecked, top=2, title="t"),
    "plot_expected": lambda m: dict(collection=m.collection, p=UNIFORM, draws=5, random_seed=0),
    "plot_forest": lambda m: dict(result=m.tree, top=2),
    "plot_groups": lambda m: dict(result=m.tree_of_cells, top=2),
    "plot_plan": lambda m: dict(
        along="n", values=[1, 2], result={"grr": [0.1, 0.2]}, label="error", chosen=(1, 0.1, "grr"), title="t"
    ),
    "plot_predictions": lambda m: dict(result=m.predicted, title="t"),
    "plot_predictive": lambda m: dict(result=m.tree, collection=m.collection, draws=5, random_seed=0),
    "plot_predictive_cells": lambda m: dict(result=m.tree_of_cells, collection=m.cells, draws=5, most=2, random_seed=0),
    "plot_private_differences": lambda m: dict(result=m.private, unit="s", versus="0", top=1),
    "plot_private_functions": lambda m: dict(result=m.private, unit="s", top=1),
    "plot_private_quantiles": lambda m: dict(result=m.private, unit="s", top=1),
    "plot_sensitivity": lambda m: dict(result=m.curve),
    "save_figure": lambda m: dict(figure=m.figure, path=m.folder / "f.png"),
    "to_pdf": lambda m: dict(figure=m.figure),
    "to_svg": lambda m: dict(figure=m.figure),
    # ---- studies
}

MATERIAL |= {
    "trace": lambda m: _trace({"p": (("chain", "draw", "p_dim_0"), _draws(m, 40).reshape(2, 20, 3))}),
    "trace_of_cells": lambda m: _trace({"p": (("chain", "draw", "cell", "category"), _draws(m, 400).reshape(2, 100, 2, 3))}),
    "summaries": lambda m: m.cells.summaries(np.array([0.5, 0.3, 0.2])),
    "noncompliant": lambda m: lb.Collection(
        ["no", "yes"], [lb.Tally(m.warner, [0, 1], [60, 40], "a"), lb.Tally(designs.warner(0.2), [0, 1], [50, 40], "b")]
    ).with_noncompliers({"denier": "no"}),
    "denied": lambda m: lb.Collection(
        ["no", "yes"], [lb.Tally(m.warner, [0, 1], [60, 40], "a"), lb.Tally(designs.direct(), [0, 1], [60, 20], "b")]
    ).with_deniers("yes", "no", "b"),
    "predicted": lambda m: lb.predictions(m.regressed, m.frame[:5]),
    "folded": lambda m: lb.write(m.found, m.folder / "found.parquet") or m.folder / "found.parquet",
}


def _draws(m, size):
    return np.random.default_rng(1).dirichlet([30.0, 20.0, 10.0], size)


def _trace(variables):
    import xarray as xr

    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


def _components():
    import pymc as pm

    return [pm.Normal.dist(3.0, 1.0), pm.Normal.dist(6.0, 1.0)]


#: Classes that the package fills in: what users do with their objects are the methods.
RESULTS = {
    "Answer", "Check", "CellsFitness", "Description", "Fitness", "Groups", "Kind",
    "Parameter", "Plan", "Plans", "Population", "PrivateGroups", "Result", "ValidationStudy",
}  # fmt: skip

#: Functions by which the package builds results: no user calls them.
INNER = {
    "extended_draws", "stack", "of_parts",
}  # fmt: skip

#: Methods through which engines ask protocols, priors and methods: no user calls them, and they check nothing twice.
HOOKS = {
    # protocols
    "at_level", "binomials", "bit_counts", "filters", "format_reports", "report_sizes",
    "from_parameters", "gather", "least_squares", "lengths", "level_ratio", "likelihoods", "list_histories", "merged",
    "oracle", "parse_reports", "rational_channel", "report_columns", "rows",
    "simulate_bit_counts", "simulate_support_counts", "supported", "tally_arrays", "text", "untext",
    "check_categories", "check_histories", "device", "draw", "draw_one", "labels_of", "list_reports",
    "bucket", "draw_cohorts", "draw_reports", "draw_seeds", "mapped", "ones", "permanent", "shown", "sums",
    "coded_rows", "draw_permanent_one", "draw_reports_one", "single_bits",
    # priors
    "alpha", "beside", "coefficients", "curvature", "draw_scales", "effects_of", "gradient",
    "hyperparameters", "log_density", "log_prior", "log_prior_given", "log_prior_mains", "logits_of", "on", "over",
    "deviations", "eta", "join", "learnt", "log_hyperprior", "of_groups", "pulled", "pulled_slopes", "slopes_of", "to_odds",
    "values",
    "predictor", "pullback", "pullback_logits", "pymc", "sized", "start", "to_simplex", "sample", "unknowns", "variables",
    "without", "spectrum", "kinds", "stated", "apart", "joined", "parted", "given", "coordinate",
    "exchanged",
    # methods
    "answer", "feasibility", "integrals", "moments", "plan", "prepare", "run", "weighted",
    # collections, likelihoods and pages
    "evaluate", "first", "log_likelihood", "missed", "observed", "single", "tally_means",
    "tally_moments", "trusted", "value_and_gradient",
    "weights",
}  # fmt: skip

#: Methods: class -> (an object or the class itself, {method: arguments}).
METHODS = {
    "Collection": (
        lambda m: m.noncompliant,
        {
            "from_lists": lambda m: dict(
                design=lb.protocols.ListExperiment((1, 1)),
                control=[[5, 4], [5, 4]],
                treatment=[[3, 4, 2], [3, 4, 2]],
                direct=[4, 2],
                both=[[[3, 4], [4, 5], [1, 1]], [[3, 4, 1], [4, 5, 1]]],
                trait="t",
                title="t",
            ),
            "noncompliance": lambda m: dict(gamma=0.1),
        },
    ),
    "Collection, as asked": (
        lambda m: m.survey,
        {
            "with_noncompliers": lambda m: dict(laws={"denier": "no"}),
            "with_deniers": lambda m: dict(of=["yes"], say="no", channel=[m.survey.tallies[0].name]),
        },
    ),
    "Cells": (
        lambda m: m.cells,
        {
            "summaries": lambda m: dict(pilot=UNIFORM, spread=[0.01] * 3),
            "take": lambda m: dict(keys=["x"]),
            "with_cells": lambda m: dict(cells={"x": m.collection, "y": m.collection}),
            "with_noncompliers": lambda m: dict(laws={"denier": "a"}),
            "with_deniers": lambda m: dict(of=["b"], say="a", channel=[next(iter(m.cells.channels()))]),
        },
    ),
    "Summary": (lambda m: m.summary, {"curvature": lambda m: dict(p=UNIFORM), "of": None}),
    "Dirichlet": (
        lambda m: FLAT,
        {
            "flat": lambda m: dict(n_categories=3),
            "jeffreys": lambda m: dict(n_categories=3),
        },
    ),
    "Page": (
        lambda m: m.page,
        {
            "render": lambda m: dict(renderer="markdown"),
            "save": lambda m: dict(path=m.folder / "q.md"),
            "in_lines": lambda m: dict(more="x"),
            "without": lambda m: dict(texts=["a"]),
        },
    ),
    "Column": (lambda m: lb.pages.Column("k", "h"), {"text": lambda m: dict(value=1.0)}),
    "Table": (lambda m: m.page.tables[0], {"only": lambda m: dict(columns=[0])}),
    "PrivateGroups": (
        lambda m: m.private,
        {
            "cdf": lambda m: dict(z=[3.0], ci_prob=0.9),
            "difference": lambda m: dict(of="mean", at=None, versus="0", ci_prob=0.9),
            "draws": lambda m: dict(of="quantile", at=0.5),
            "mean": lambda m: dict(ci_prob=0.9),
            "quantile": lambda m: dict(q=[0.5], ci_prob=0.9),
            "shares": lambda m: dict(ci_prob=0.9),
            "summary": lambda m: dict(ci_prob=0.9),
        },
    ),
    "DataError": (lambda m: lb.errors.DataError("m"), {"at": lambda m: dict(source="s", line=1, field="f")}),
}
METHODS |= {
    "Tree": (
        lambda m: lb.priors.Tree(((0, 2), (1,))),
        {
            "of_share": lambda m: dict(
                collection=lb.Collection.from_lists(lb.protocols.ListExperiment(1), [5, 4], [3, 4, 2]), name="trait"
            )
        },
    ),
    "MLE": (lambda m: lb.estimators.MLE(), {"__call__": lambda m: dict(collection=m.collection)}),
    "Oracle": (lambda m: lb.estimators.Oracle(), {"__call__": lambda m: dict(collection=m.collection)}),
    "Maximum": (lambda m: m.maximum, {"summary": lambda m: dict(ci_prob=0.9)}),
    "Scan": (
        lambda m: Scan(m.bits, lb.protocols.UnaryEncoding.symmetric(30, 1.0), by="g", progressbar=False),
        {"again": lambda m: dict(pilots=[1 / 30] * 30, spread=None)},
    ),
    "Found": (
        lambda m: m.found,
        {
            "added": lambda m: dict(by=()),
            "summaries": lambda m: dict(pilot=[0.5, 0.5], spread=None),
            "take": lambda m: dict(keys=["a"]),
        },
    ),
}
#: What a user's device calls, and who simulates it: of every protocol.
CLIENT = {
    "privatize": lambda m: dict(values=[0, 1, 1], rng=m.rng),
    "privatize_one": lambda m: dict(value=1),
    "randomize": lambda m: dict(values=[0, 1, 1], rng=m.rng),
    "randomize_one": lambda m: dict(value=1),
    "crafted": lambda m: dict(targets=[0]),
    "check_reports": lambda m: dict(reports=None),
    "simulate": lambda m: dict(true_counts=None, rng=m.rng),
    "oracle_variance": lambda m: dict(p=None, n=100, target="frequency"),
}
#: Protocols whose reports do not determine the distribution have no oracle.
WITHOUT_ORACLE = {"FakeData", "SampledAttribute"}


def two_stages(name):
    """Return the calls of a client that keeps a permanent answer."""
    return {
        "permanent_one": lambda m: dict(value=1, key=bytes(32)),
        "instantaneous_one": lambda m: dict(permanent=doors()[name](**CALLS[name](m)).permanent_one(1, bytes(32))),
    }


#: Makers of protocols beside their constructors, and what only some of them have.
MAKERS = {
    "Attributes": {"split": lambda m: dict(sizes=(2, 2), epsilon=1.0, base="grr", separator="/")},
    "Uncertain": {"counted": lambda m: dict(counts=[7, 3]), "stated": lambda m: dict(value=0.3, name="p", size=2)},
    "CohortRR": {"privatize_label": lambda m: dict(label="a")},
    "FakeData": {"amplified": lambda m: dict(sizes=(2, 2), epsilon=1.0, base="grr", fake="uniform")},
    "LOLOHA": {
        "from_levels": lambda m: dict(
            n_categories=3, epsilon_infinity=2.0, epsilon_one=1.0, buckets=2, times=2, family="ldpbayes", rule="exact"
        ),
        "spent": lambda m: dict(times=2),
        **two_stages("LOLOHA"),
    },
    "DBitFlip": {"spent": lambda m: dict(times=2)} | two_stages("DBitFlip"),
    "MemoizedGRR": {
        "from_levels": lambda m: dict(n_categories=3, epsilon_infinity=2.0, epsilon_one=1.0, times=2, rule="exact"),
        "spent": lambda m: dict(times=2),
        **two_stages("MemoizedGRR"),
    },
    "MemoizedRappor": {"spent": lambda m: dict(times=2)} | two_stages("MemoizedRappor"),
    "MemoizedUnary": {
        "from_levels": lambda m: dict(n_categories=3, epsilon_infinity=2.0, epsilon_one=1.0, variant="l-sue", times=2),
        "rappor": lambda m: dict(n_categories=3, p=0.2, q=0.9, f=0.5, times=2),
        "spent": lambda m: dict(times=2),
        **two_stages("MemoizedUnary"),
    },
    "Repeated": {"spent": lambda m: dict(times=2)},
    "Rappor": {
        "direct": lambda m: dict(n_categories=3, p=0.2, q=0.9, f=0.5),
        "from_map": lambda m: dict(lines=[("a", [1, 4]), ("b", [2, 5])], p=0.2, q=0.9, f=0.5, n_bits=3, cohorts=2, hashes=1),
        "one_time": lambda m: dict(n_categories=3, epsilon=1.0, n_bits=3, cohorts=2, hashes=1, candidates=tuple("abc")),
        "permanent_label": lambda m: dict(label="a", key=bytes(32)),
        **two_stages("Rappor"),
    },
    "UnaryEncoding": {
        **dict.fromkeys(("dual", "optimized", "symmetric"), lambda m: dict(n_categories=3, epsilon=1.0)),
        "from_rates": lambda m: dict(n_categories=3, kappa=0.6, lam=0.2),
    },
}


def found_at(module):
    """Return {name: callable} of the doors of a module."""
    module = importlib.import_module(module)
    names = getattr(module, "__all__", None)
    if names is None and module.__name__ in HELPERS:
        names = ()
    elif names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = [*names, *HELPERS.get(module.__name__, ())]
    found = {name: getattr(module, name) for name in names if not name.startswith("_")}
    return {name: value for name, value in found.items() if callable(value) and not inspect.ismodule(value)}


@functools.cache
def doors():
    """Return {name: callable} of all doors; exceptions and abstract classes are none."""
    found = {}
    for module in (*DOORS, *(name for name in HELPERS if name not in DOORS)):
        for name, value in found_at(module).items():
            plain = inspect.isclass(value) and (issubclass(value, (Exception, Warning)) or inspect.isabstract(value))
            if plain or name in RESULTS | INNER or not inspect.signature(value).parameters:
                continue
            if name in found and found[name] is not value:
                name = f"{module.rpartition('.')[2]}.{name}"
            if name in found and found[name] is not value:
                raise AssertionError(f"two doors are called {name}: say which one a valid call is of")
            found[name] = value
    return found


def methods_of(cls):
    """Return the names of the methods of a class that take arguments and are no hooks."""
    names = []
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "__func__", member)
        if name.startswith("_") or name in HOOKS or not inspect.isfunction(function):
            continue
        if function.__module__.startswith("ldpbayes") and len(inspect.signature(function).parameters) > isinstance(
            member, classmethod | staticmethod
        ) + (not isinstance(member, classmethod | staticmethod)):
            names.append(name)
    return names


def calls():
    """Yield (name of a valid call, function of the material that returns (callable, arguments))."""
    for name, arguments in CALLS.items():
        target = doors()[name.replace(":", " ").split()[0]]
        target = _within_a_model(target) if target in (lb.pymc.observe, lb.pymc.observe_mixture) else target
        yield (
            name,
            functools.partial(lambda m, target, arguments: (target, arguments(m)), target=target, arguments=arguments),
        )
    for cls, (maker, entries) in METHODS.items():
        for method, arguments in entries.items():
            if arguments is not None:
                yield (
                    f"{cls}.{method}",
                    functools.partial(_bound, maker=maker, method=method, arguments=arguments),
                )
    for cls, protocol in protocols().items():
        for method, arguments in (CLIENT | MAKERS.get(cls, {})).items():
            if method == "oracle_variance" and cls in WITHOUT_ORACLE:
                continue
            yield f"{cls}.{method}", functools.partial(_of_protocol, protocol=protocol, method=method, arguments=arguments)


def _within_a_model(function):
    @functools.wraps(function)
    def call(*args, **named):
        import pymc as pm

        with pm.Model():
            return function(*args, **named)

    return call


def _bound(m, maker, method, arguments):
    return getattr(maker(m), method), arguments(m)


def _of_protocol(m, protocol, method, arguments):
    made = protocol(m)
    named = arguments(m)
    if named.get("true_counts", 0) is None:
        named["true_counts"] = [5] * made.n_categories
    if named.get("reports", 0) is None:
        named["reports"] = made.privatize([0, 1, 1], m.rng)
    if named.get("p", 0) is None and method == "oracle_variance":
        named["p"] = [1 / made.n_categories] * made.n_categories
    return getattr(made, method), named


@functools.cache
def protocols():
    """Return {class: maker} of every concrete protocol, made from its valid constructor call."""
    return {
        cls.__name__: functools.partial(lambda m, name: doors()[name](**CALLS[name](m)), name=cls.__name__)
        for cls in (*lb.protocols.PROTOCOLS.values(), lb.protocols.PooledHashing)
    }


@contextlib.contextmanager
def limited(seconds=SECONDS, memory=MEMORY):
    """Allow so much time and memory; warnings of dependencies are errors, those of the package are not."""

    def late(*args):
        raise Late(f"not finished after {seconds} seconds")

    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, late)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", LDPBayesWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, handler)


class Late(BaseException):
    """A call that does not end; no ``except Exception`` catches it."""


#: Arguments that are functions: one that a user writes may end in whatever it does.
FUNCTIONS = {"constraints", "draw", "moments", "whole"}


def values_of(material, argument):
    """Return the names of the values that replace an argument."""
    return [name for name, make in VALUES.items() if argument not in FUNCTIONS or not callable(make(material))]


def outcome(material, make, argument=None, value=None):
    """Return ("value", result), ("sentence", text) or ("fault", exception) of a call with one argument replaced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function, arguments = make(material)
        if argument is not None:
            arguments[argument] = VALUES[value](material)
    # Positional-only arguments, and those that no keyword may name.
    parameters = inspect.signature(function).parameters
    positional = [arguments.pop(name) for name, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and name in arguments]
    try:
        with limited():
            return "value", function(*positional, **arguments)
    except LDPBayesError as err:
        text = str(err)
        good = text and text.isprintable() and len(text) <= 2000
        return ("sentence", text) if good else ("fault", AssertionError(f"no sentence: {text!r:.300}"))
    except (Exception, Late) as err:
        return "fault", err


def arguments_of(material, make):
    """Return the names of the arguments of a valid call, those that it leaves out too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function, arguments = make(material)
    parameters = inspect.signature(function).parameters
    known = [name for name, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return list(dict.fromkeys([*known, *arguments]))
