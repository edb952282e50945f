"""The prior by rule: learnt from twenty categories on where it can be served, else Jeffreys'; the result says why."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ldpbayes import Cells, Collection, Tally, fit, select_method
from ldpbayes.errors import ConvergenceError
from ldpbayes.inference.verdict import refused
from ldpbayes.methods import conjugate
from ldpbayes.methods.exact import Exact
from ldpbayes.methods.pair_slice import PairSlice
from ldpbayes.methods.surrogate import Surrogate
from ldpbayes.pages import show
from ldpbayes.priors import as_prior, parse_prior
from ldpbayes.priors.naming import default_prior
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.unary import UnaryEncoding

QUICK = {"random_seed": 1, "draws": 50, "estimates": False}


def collected(protocol, n=500, seed=3):
    rng = np.random.default_rng(seed)
    a = protocol.n_categories
    return Collection(
        [f"c{x}" for x in range(a)], [Tally(protocol, *protocol.simulate(rng.multinomial(n, np.full(a, 1 / a)), rng))]
    )


TWENTY, NINETEEN = collected(GRR(20, 2.0)), collected(GRR(19, 2.0))


def test_the_rule():
    assert (default_prior(19), default_prior(20)) == ("jeffreys", "learnt")
    assert as_prior("default", 20) == as_prior("learnt", 20) and parse_prior("default") == "default"


@pytest.mark.parametrize(
    ("collection", "prior", "method", "words"),
    [
        (NINETEEN, "Jeffreys, Dirichlet(0.5)", "exact", "below 20 categories it is Jeffreys'; prior='learnt'"),
        (TWENTY, "learnt, symmetric Dirichlet", "exact", "from 20 categories on .* prior='jeffreys' keeps"),
    ],
)
def test_a_fit_without_a_prior_says_which_it_used_and_why(collection, prior, method, words):
    tree = fit(collection, **QUICK)
    assert tree.attrs["prior"].startswith(prior) and tree.attrs["method"] == method
    assert tree.attrs["converged"]
    (note,) = [note.text for note in show(tree).notes if "No prior was given" in note.text]
    assert re.search(words, note) and note == tree.attrs["prior_reason"]
    choice = select_method(collection, draws=50)
    assert (choice.method.name, choice.prior_reason) == (method, note)


def test_a_prior_that_was_given_is_not_explained():
    assert "prior_reason" not in fit(TWENTY, "jeffreys", **QUICK).attrs
    assert select_method(TWENTY, "jeffreys").prior_reason == ""
    assert fit(TWENTY, "learnt", **QUICK).attrs["prior"] == fit(TWENTY, **QUICK).attrs["prior"]


@pytest.mark.parametrize("method", ["pair_slice", PairSlice(draws=50)], ids=["name", "object"])
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.DiagnosticWarning")
def test_a_method_that_serves_no_learnt_prior_keeps_jeffreys(method):
    quick = QUICK if isinstance(method, str) else {"random_seed": 1, "estimates": False}
    tree = fit(TWENTY, method=method, **quick)
    assert tree.attrs["prior"].startswith("Jeffreys") and "pair_slice" in tree.attrs["prior_reason"]
    for serving in ("exact", "surrogate") if isinstance(method, str) else ():
        assert fit(TWENTY, method=serving, **QUICK).attrs["prior"].startswith("learnt")


def test_jeffreys_where_the_learnt_prior_cannot_be_served(monkeypatch):
    choice = select_method(TWENTY, draws=50, exclude=("exact", "surrogate"))
    assert choice.method.name == "pair_slice" and "were excluded" in choice.prior_reason
    for method in (Exact, Surrogate):
        monkeypatch.setattr(method, "most", 1.0)
    assert "take about" in select_method(TWENTY, draws=50).prior_reason


@pytest.mark.parametrize("status", ["rejected", "no draws"])
def test_jeffreys_where_the_answer_under_the_learnt_prior_is_rejected(monkeypatch, status):
    def run(self, plan, rng, watch, original=conjugate.run):
        if plan.state[0].alpha is not None:
            return original(self, plan, rng, watch)
        if status == "no draws":
            raise ConvergenceError("no draws of any use were made")
        return replace(original(self, plan, rng, watch), verdict=refused("for a test"))

    monkeypatch.setattr(conjugate, "run", run)
    tree = fit(TWENTY, **QUICK)
    assert tree.attrs["prior"].startswith("Jeffreys") and tree.attrs["method"] == "exact"
    assert "learnt prior" in tree.attrs["prior_reason"]


def test_non_compliers_keep_jeffreys():
    half = collected(UnaryEncoding.optimized(20, 1.0), 300).with_noncompliers({"silent": "no bits"})
    assert "may ignore" in select_method(half).prior_reason


def test_cells_have_one_sentence():
    tree = fit(Cells({"x": NINETEEN, "y": NINETEEN}), **QUICK)
    assert tree.attrs["prior_reason"].startswith("No prior was given: below 20")
