"""Posterior moments by listing the mixture over true tallies: the reference for tests at tiny n."""

import math
from types import SimpleNamespace

import numpy as np


def enumerated_moments(collection, prior):
    """Posterior moments by the mixture over true tallies, one user at a time; reference for tiny n."""
    mixture = {tuple([0] * collection.n_categories): 1.0}
    for tally in collection.tallies:
        matrix = np.exp(tally.rows.log_constants)[:, None] * tally.rows.dense()
        for row, count in zip(matrix, tally.rows.counts.astype(int), strict=True):
            for _ in range(count):
                grown = {}
                for t, weight in mixture.items():
                    for x in range(len(t)):
                        key = (*t[:x], t[x] + 1, *t[x + 1 :])
                        grown[key] = grown.get(key, 0.0) + weight * row[x]
                mixture = grown
    tallies, weights = np.array(list(mixture)), np.array(list(mixture.values()))

    def log_beta(alpha):
        return np.vectorize(math.lgamma)(alpha).sum(axis=-1) - np.vectorize(math.lgamma)(alpha.sum(axis=-1))

    weights = weights * np.exp(log_beta(prior.alpha + tallies) - log_beta(prior.alpha))
    evidence, alpha = weights.sum(), prior.alpha + tallies
    weights, total = weights / evidence, alpha[0].sum()
    mean = weights @ alpha / total
    second = weights @ (alpha * (alpha + 1)) / (total * (total + 1))
    return SimpleNamespace(mean=mean, variance=second - mean**2, log_evidence=math.log(evidence))
