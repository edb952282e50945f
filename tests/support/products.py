"""Fast likelihood rows held to their dense twin."""

import numpy as np

from ldpbayes.likelihoods import DenseRows


def twin(fast):
    return DenseRows(fast.dense(), fast.counts, fast.log_constants)


def assert_same_products(fast, seed=1):
    """Assert that every product of the rows equals the one of their dense twin, at random arguments."""
    rng = np.random.default_rng(seed)
    dense, a = twin(fast), fast.n_categories
    p, draws = rng.dirichlet(np.ones(a)), rng.dirichlet(np.ones(a), 11).T
    r = rng.normal(size=fast.n_rows)
    for name, *arguments in [
        ("matvec", p),
        ("matvec", 3 * draws),
        ("matvec", p, 2),
        ("matvec", p, 3),
        ("rmatvec", r),
        ("rmatvec", np.stack([r, r**2], axis=1)),
        ("rmatvec", r, 2),
        ("rmatvec", r, 3),
        ("gram", r),
        ("gram", r**2),
        ("log_likelihood", p),
        ("log_likelihood", draws),
    ]:
        expected = getattr(dense, name)(*arguments)
        tolerance = 1e-12 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(fast, name)(*arguments), expected, rtol=1e-11, atol=tolerance, err_msg=name)
    for got, expected in zip(fast.value_and_gradient(p), dense.value_and_gradient(p), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-10)
    for spread in (None, 0.1 * p**2):
        found, expected = fast.expansion(p, spread), dense.expansion(p, spread)
        for name in ("value", "gradient", "square", "cross"):
            one, other = getattr(found, name), getattr(expected, name)
            scale = max(fast.counts.sum(), np.abs(other).max())
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11 * scale, err_msg=name)
