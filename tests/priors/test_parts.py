"""Priors made of parts: what each part learns has a name of its own, in results and in PyMC's models."""

import numpy as np
import pytest

import ldpbayes as lb
from ldpbayes.methods.problem import Problem
from ldpbayes.priors import Learnt, Product, Tree

SURVEY = lb.Collection(list("abcd"), lb.Tally(lb.GRR(4, 2.0), [0, 1, 2, 3], [20, 9, 5, 14]))


@pytest.mark.parametrize(
    ("prior", "names"),
    [
        (Tree(((0, 1), (2, 3)), "learnt", "learnt"), ("alpha", "alpha_2", "alpha_3")),
        (Product((2, 2), "floor"), ("floor", "alpha", "floor_2", "alpha_2")),
        (Tree(((0, 1, 2), (3,)), "learnt", Tree(((0, 1), (2,)), 1.0, "learnt")), ("alpha", "alpha_2")),
        (Tree(((0, 1, 2), (3,)), 1.0, Tree(((0, 1), (2,)), 1.0, 1.0)), ()),
        (lb.priors.Compliance(Tree(((0, 1), (2, 3)), "smooth", 1.0)), ("sigma", "tau")),
    ],
)
def test_every_part_has_names_of_its_own(prior, names):
    others = isinstance(prior, lb.priors.Compliance)
    data = SURVEY.with_noncompliers({"coins": "uniform"}) if others else SURVEY
    assert Problem.of(data, prior).prior.hyperparameter_names == names
    assert set(names) <= set(lb.pymc.build_model(data, prior).named_vars)


def test_concentrations_are_those_of_their_parts():
    """Both learnt under other priors, by reports that say little: the means are those of the priors."""
    prior = Product((2, 2), [Learnt(1.0, 0.1), Learnt(9.0, 0.1)])
    summary = lb.fit(SURVEY, prior, random_seed=1, draws=500)["summary"].to_dataset()
    found = summary["parameter_mean"].sel(parameter=["alpha", "alpha_2"])
    np.testing.assert_allclose(found, [1.0, 9.0], rtol=0.05)
