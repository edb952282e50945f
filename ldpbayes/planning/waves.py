"""The next wave of a collection: what more reports can be expected to do to a posterior, and which subset to restrict to."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import helmert

from ldpbayes.arrays import FloatArray
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols import AbstractProtocol, RestrictedResponse
from ldpbayes.theory import information
from ldpbayes.theory.information import BATCHES

__all__ = ["Belief", "best_restriction"]

#: Time: Sizes of subsets, and shares of ε within one, that are compared for a restricted response; with at most so many
#: categories single ones are exchanged too.
SIZES, EXCHANGED = 24, 40
#: Rule: shares of ε within the subset that are compared.
SPLITS = (0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


class Belief:
    """Mean and covariance of P under a posterior, from all draws and with each batch of them left out.

    Parameters
    ----------
    result : DataTree
        A result with draws of P.
    cell : str or tuple of str, optional
        Which population, for a result with cells.

    Attributes
    ----------
    categories : tuple of str
    means : (1 + BATCHES, a) array
        Of all draws first.

    Raises
    ------
    ArgumentError
        Where the result has too few draws, or cell breaks its rule.
    """

    def __init__(self, result: Any, cell: Any = None) -> None:
        from ldpbayes.result.cells import select  # results load ArviZ
        from ldpbayes.result.validation import need_draws

        need_draws(result, "after")
        if "distribution" not in result["posterior"]:
            raise ArgumentError("after must be the result of a fit, with draws of the distribution of the categories.")
        if ("cell" in result["posterior"]["distribution"].dims) != (cell is not None):
            raise ArgumentError(
                "cell must name one of the populations of a result with cells, and goes with no other result."
            )
        posterior: Any = (result if cell is None else select(result, cell))["posterior"]["distribution"]
        self.categories = tuple(map(str, posterior["category"].values))
        draws = posterior.transpose("chain", "draw", "category").values.reshape(-1, len(self.categories))
        if len(draws) < (least := 2 * max(BATCHES, draws.shape[1])):
            raise ArgumentError(f"after must have at least {least} draws, got {len(draws)}.")
        folds = np.array_split(np.arange(len(draws)), BATCHES)
        samples = [draws, *(np.delete(draws, fold, axis=0) for fold in folds)]
        basis = helmert(draws.shape[1]).T
        self.means = np.array([sample.mean(axis=0) for sample in samples])
        self._roots = [basis.T @ _root(np.cov(sample, rowvar=False)) for sample in samples]
        self._basis = basis

    def variances(self, protocol: AbstractProtocol | None, *, whole: bool = False) -> Callable[[float], FloatArray]:
        """Return the function from n to the variances of P that are expected to be left after n more reports.

        They are those of the best estimate that is linear in the counts of the new reports, (Λ the eigenvalues and U the
        eigenvectors of LᵀTL, Σ = LLᵀ the covariance of P, T the information of one report at the mean of P)

            Σ_n = L U diag[(1 − Λ) / (1 + (n − 1)Λ)] Uᵀ Lᵀ,

        which is exact at every n, whatever the posterior. The posterior mean does at least as well.

        Parameters
        ----------
        protocol : AbstractProtocol or None
            None for direct answers.
        whole : bool
            Whether to leave out the batches.

        Returns
        -------
        callable
            n -> (1 + BATCHES, a) array, or (1, a).
        """
        variances = []
        for mean, root in list(zip(self.means, self._roots, strict=True))[: 1 if whole else None]:
            if protocol is None:
                positive = mean > 0
                fisher = (self._basis[positive].T / mean[positive]) @ self._basis[positive]
            else:
                fisher = information.informations(protocol, mean / mean.sum())[0].mean(axis=0)
            values, vectors = np.linalg.eigh(root.T @ fisher @ root)
            variances.append((np.clip(values, 0.0, 1.0), (self._basis @ root @ vectors) ** 2))
        return lambda n: np.array([w @ ((1 - told) / np.maximum(1 + (n - 1) * told, 1e-300)) for told, w in variances])


def best_restriction(
    belief: Belief, epsilon: float, loss: Callable[[AbstractProtocol], float]
) -> tuple[RestrictedResponse, float]:
    """Return the restricted response with the least loss that a search finds, and that loss.

    The likeliest categories are the subset, in several sizes and with several splits of ε; then single categories join the
    best of these subsets, leave it, or take each other's place, as long as that helps.

    Parameters
    ----------
    belief : Belief
    epsilon : float
    loss : callable

    Returns
    -------
    RestrictedResponse, float
    """
    order = np.argsort(-belief.means[0], kind="stable").tolist()
    a = len(order)
    sizes = np.unique(np.geomspace(1, a - 1, SIZES).round().astype(int) if a > SIZES else np.arange(1, a))
    tried: dict[RestrictedResponse, float] = {}

    def best_of(subsets: Iterable[set[int]], splits: tuple[float, ...]) -> RestrictedResponse:
        for subset in subsets:
            for split in splits if 0 < len(subset) < a else ():
                restricted = RestrictedResponse(a, epsilon, tuple(subset), split)
                tried[restricted] = tried[restricted] if restricted in tried else loss(restricted)
        return min(tried, key=lambda one: tried[one])

    before, best = None, best_of((set(order[:k]) for k in sizes), SPLITS)
    while best != before and a <= EXCHANGED:
        before, best = best, best_of((set(best.subset) ^ {x} for x in order), SPLITS)
        best = best_of(
            (set(best.subset) ^ {x, y} for x in best.subset for y in order if y not in best.subset), (best.split,)
        )
    return best, tried[best]


def _root(covariance: FloatArray) -> FloatArray:
    """Return L with L Lᵀ = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
