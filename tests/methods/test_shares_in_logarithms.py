"""A derived share of categories without reports is well defined under a tiny α: its law is the prior's."""

import numpy as np
import pytest
from scipy.stats import beta, kstest

import ldpbayes as lb
from ldpbayes.collections import Derived
from ldpbayes.result.facts import facts_of

SHARES = [Derived("c", ("c",), ("c", "d", "e")), Derived("d or e", ("d", "e"), ("c", "d", "e"))]


def fitted(prior, counts=(300, 60, 0, 0, 0), **settings):
    """Return the fit of direct answers, so that the posterior is Dirichlet(α + counts)."""
    survey = lb.Collection(list("abcde"), lb.Tally(lb.protocols.direct(5), np.arange(5), counts), derived=SHARES)
    return lb.fit(survey, prior=prior, random_seed=1, **settings)


@pytest.mark.parametrize("alpha", [0.002, 1e-4, 0.02])
def test_shares_under_a_tiny_concentration_have_their_law(alpha):
    """Given no reports in c, d and e, the share of c among them is Beta(α, 2α) whatever the total."""
    tree = fitted(alpha)
    assert tree.attrs["converged"] and "undefined" not in facts_of(tree)
    first, second = (tree["posterior"][item.name].values.ravel() for item in SHARES)
    np.testing.assert_allclose(first + second, 1, atol=1e-12)
    # Beta(α, 2α) is all but two points: its distribution function at a few values, within five standard errors.
    for x in (1e-6, 0.1, 0.5, 0.9, 1 - 1e-6):
        expected = beta.cdf(x, alpha, 2 * alpha)
        margin = 5 * np.sqrt(expected * (1 - expected) / first.size) + 1e-3
        assert abs((first <= x).mean() - expected) < margin
    mean = float(tree["summary"]["derived_mean"].sel(quantity="c"))
    assert mean == pytest.approx(1 / 3, abs=5 * np.sqrt(2 / 9 / first.size))


def test_device_reports_and_unequal_concentrations():
    """Given shares that no float64 holds, the share of c among them is Beta(.001, .006), with mean 1/7."""
    alpha = np.array([0.5, 0.5, 0.001, 0.002, 0.004])
    survey = lb.Collection(list("abcde"), lb.Tally(lb.GRR(5, 3.0), np.arange(5), [900, 300, 60, 60, 60]), derived=SHARES)
    tree = lb.fit(survey, prior=alpha, random_seed=2)
    values = tree["posterior"]["c"].values
    assert np.isfinite(values).all()
    none = tree["posterior"]["distribution"].values[..., 2:].sum(axis=-1) < 1e-250
    assert none.sum() > 40
    assert abs(values[none].mean() - 1 / 7) < 5 * np.sqrt(6 / 49 / none.sum())


def test_shares_of_usual_size_are_the_quotients():
    tree = fitted(0.5)
    p = tree["posterior"]["distribution"].values
    np.testing.assert_allclose(tree["posterior"]["c"].values, p[..., 2] / p[..., 2:].sum(axis=-1), rtol=1e-12)
    assert kstest(tree["posterior"]["c"].values.ravel(), beta(0.5, 1.0).cdf).pvalue > 1e-4
