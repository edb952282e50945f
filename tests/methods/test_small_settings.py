"""Default fits of small collections; benchmarks/small_settings.py has their times, these are what they hang on."""

import numpy as np
import pytest
from cases import neighbours

import ldpbayes as lb
from ldpbayes.inference.ends import tails
from ldpbayes.likelihoods.kinds import DenseSampler
from ldpbayes.methods.base import AbstractPosterior, Watch
from ldpbayes.methods.frequency import moments_from_draws
from ldpbayes.methods.many import undrawn
from ldpbayes.methods.problem import Problem
from ldpbayes.methods.surrogate import Surrogate
from ldpbayes.protocols.local_hashing import LocalHashing, PooledHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.unary import UnaryEncoding

BITS = RapporBits(Rappor.one_time(40, 9.6, 32, 16, candidates=tuple(f"word {x}" for x in range(40))))


def even(protocol, n):
    a = protocol.n_categories
    return lb.simulate(np.full(a, 1 / a), protocol, n, random_seed=1)


@pytest.fixture
def tried(monkeypatch):
    """Names of the methods that ran."""
    names, plain = [], AbstractPosterior.answer

    def counted(self, *args, **settings):
        names.append(self.name)
        return plain(self, *args, **settings)

    monkeypatch.setattr(AbstractPosterior, "answer", counted)
    return names


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("protocol", "n", "method"),
    [(LocalHashing(50, 5.12), 1203, "surrogate"), (LocalHashing(5, 0.69), 3702, "surrogate"), (BITS, 268, "surrogate")],
    ids=["olh", "olh of five", "rappor bits"],
)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.CompositeWarning")
def test_small_hashed_collections_take_one_method(tried, protocol, n, method):
    """The bits went through three methods, and five hashed categories through 15 s of quadrature."""
    tree = lb.fit(even(protocol, n), draws=100, random_seed=1, estimates=False)
    assert tried == [method] and tree.attrs["converged"]


@pytest.mark.parametrize("protocol", [UnaryEncoding.optimized(12, 4.0), neighbours(12)], ids=["sparse", "dense"])
@pytest.mark.parametrize("compiled", [0, np.inf])
def test_draws_of_true_tallies_have_their_means(monkeypatch, protocol, compiled):
    """Rows leave out the categories at their floor, and few users a row are drawn one by one."""
    monkeypatch.setattr("ldpbayes.likelihoods.kinds.COMPILED", compiled or -1)
    rows = even(protocol, 400).rows
    p = np.random.default_rng(2).dirichlet(np.ones(12))
    found = DenseSampler(rows).allocate_each(np.tile(p, (2000, 1)), np.random.default_rng(1))
    dense = rows.dense()
    share = dense * p / (dense @ p)[:, None]
    mean, variance = rows.counts @ share, rows.counts @ (share * (1 - share))
    assert (found.sum(axis=1) == 400).all()
    assert (np.abs(found.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / 2000) + 1e-9).all()
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.2, atol=1e-3)


def test_moments_of_frequencies_under_a_learnt_prior_follow_from_the_draws():
    """They are those of passes over the rows for each draw, which took 4 of 7 seconds."""
    collection = even(Rappor.one_time(20, 1.0, 32, 16, candidates=tuple(f"word {x}" for x in range(20))), 3000)
    problem, method = Problem.of(collection, "learnt"), Surrogate(draws=500)
    sample = method.run(method.plan(problem), np.random.default_rng(1), Watch())
    mean, sd = moments_from_draws(problem.likelihood, sample.distribution.reshape(-1, 20)[::4])
    assert (np.abs(sample.frequency[0] - mean) < 6 * sd / np.sqrt(500)).all()
    np.testing.assert_allclose(sample.frequency[1], sd, rtol=0.25)


def test_predicted_seconds_are_those_of_the_whole_fit():
    choice = lb.select_method(even(UnaryEncoding.symmetric(30, 1.0), 5000))
    assert choice.plan.seconds - choice.method.pace.seconds(choice.plan.work, 30) > 0.3
    assert choice.plan.seconds == pytest.approx(1.5, rel=0.5)


def test_ends_of_an_expansion_whose_transforms_do_not_die_out():
    """A default fit ended in a ConvergenceError of what is said beside it."""
    truth = [0.971, 0.002, 0.0, 0.027]
    collection = lb.simulate(truth, PooledHashing(4, 0.29, seeds=4096), 26_594, random_seed=91)
    problem = Problem.of(collection, 0.5 / 2**0.5)
    entries, *_ = undrawn([problem], tails(0.95), "surrogate")
    lower, upper = entries["distribution_lower"], entries["distribution_upper"]
    assert (lower < entries["distribution_mean"]).all() and (entries["distribution_mean"] < upper).all()
