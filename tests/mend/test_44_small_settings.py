"""Entry 44: default fits of small collections; benchmarks/small_settings.py has their times, these are what they hang on."""

import numpy as np
import pytest
from cases import neighbours

import ldpbayes as lb
from ldpbayes.likelihoods.kinds import DenseSampler
from ldpbayes.posteriors.base import AbstractPosterior
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.unary import UnaryEncoding

BITS = RapporBits(Rappor.one_time(40, 9.6, 32, 16, candidates=tuple(f"word {x}" for x in range(40))))


def even(protocol, n):
    a = protocol.n_categories
    return lb.simulate_collection(protocol, np.full(a, 1 / a), n, random_seed=1)[0]


@pytest.mark.parametrize(
    ("protocol", "n", "method"),
    [(LocalHashing(50, 5.12), 1203, "mixture"), (LocalHashing(5, 0.69), 3702, "surrogate"), (BITS, 268, "mixture")],
    ids=["olh", "olh of five", "rappor bits"],
)
@pytest.mark.filterwarnings("ignore::ldpbayes.errors.CompositeWarning")
def test_small_hashed_collections_take_one_method(monkeypatch, protocol, n, method):
    """The bits went through three methods, and five hashed categories through 15 s of quadrature."""
    tried, plain = [], AbstractPosterior.answer

    def counted(self, *args, **settings):
        tried.append(self.name)
        return plain(self, *args, **settings)

    monkeypatch.setattr(AbstractPosterior, "answer", counted)
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
