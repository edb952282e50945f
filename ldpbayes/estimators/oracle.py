"""The unbiased frequency oracle of a collection, with its exact standard error."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.base import project
from ldpbayes.estimators.estimate import Estimate
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.channel import Channel


@dataclass(frozen=True)
class Oracle:
    """The unbiased affine estimate of P (and of F); entries may be negative (spec 1.2, 2.1).

    One channel: its protocol's oracle. Several explicit channels: weighted least squares on all their tallies together,
    which needs only their joint rank. Several channels with other protocols among them: each coordinate averaged with
    weights inverse to its exact variances. All weights are those at the uniform distribution, so that none depends on the
    data and the estimate stays unbiased.

    The standard error is the exact one (users drawn from P) at the oracle projected onto the simplex.

    Examples
    --------
    >>> from ldpbayes.protocols import designs
    >>> from ldpbayes.collections import Collection, Tally
    >>> survey = Collection(["no", "yes"], [Tally(designs.warner(0.7), [0, 1], [60, 40])])
    >>> Oracle()(survey).distribution.round(3).tolist()
    [0.75, 0.25]
    """

    name = "oracle"

    def __call__(self, collection):
        """Return the Estimate.

        Raises
        ------
        ArgumentError
            Where the channels leave some combination of categories undetermined.
        """
        tallies = collection.tallies
        if all(isinstance(tally.protocol, Channel) for tally in tallies):
            value, variance = _least_squares(tallies)
            how = "weighted least-squares inverse of the channel" + ("s" if len(tallies) > 1 else "")
        elif len(tallies) == 1:
            value, variance = _own(tallies[0]), _own_variance(tallies[0])
            how = f"the unbiased oracle of {tallies[0].protocol.name}"
        else:
            value, variance = _average(tallies, collection.n_categories)
            how = "the channels' unbiased oracles, averaged by inverse variance"
        error = np.sqrt(np.maximum(variance(project(value)), 0.0))
        inside = (value >= 0).all() and abs(value.sum() - 1) < 1e-9
        likelihood = float(collection.rows.log_likelihood(value)) if inside else float("nan")
        outside = int((value < 0).sum())
        note = f"; {outside} of {value.size} entries are negative" if outside else ""
        return Estimate("oracle", value, error, likelihood, float("nan"), f"Computed in closed form: {how}{note}.")


def _own(tally):
    """Return the oracle of one tally by its own protocol, shape (a,)."""
    protocol = tally.protocol
    if isinstance(protocol, Channel):
        return protocol.oracle_from_tally(protocol.tally(tally.reports, tally.counts))
    if protocol.hit_rates is None and type(protocol).oracle is AbstractProtocol.oracle:
        raise ArgumentError(f"The oracle is not defined for {protocol.name}; use the MLE or a posterior.")
    return protocol.oracle(tally.rows)


def _own_variance(tally):
    """Return the function p -> exact variance of each coordinate of the tally's oracle."""
    return lambda p: tally.protocol.oracle_variance(p, tally.n_reports, "distribution")


def _average(tallies, size):
    """Return the inverse-variance average and its variance function."""
    uniform = np.full(size, 1 / size)
    values = np.stack([_own(tally) for tally in tallies])
    variances = [_own_variance(tally) for tally in tallies]
    precision = 1 / np.stack([np.broadcast_to(variance(uniform), size) for variance in variances])
    weights = precision / precision.sum(axis=0)
    return (weights * values).sum(axis=0), lambda p: sum(w**2 * v(p) for w, v in zip(weights, variances, strict=True))


def _least_squares(tallies):
    """Return the stacked weighted least-squares estimate (Σ QᵀWQ)⁻¹ Σ QᵀW S/n and its variance function.

    W_t = n_t diag(1/Q_t u) with u uniform: the inverse of the multinomial covariance, up to its null direction.
    """
    matrices = [tally.protocol.matrix for tally in tallies]
    shares = [tally.protocol.tally(tally.reports, tally.counts) / tally.n_reports for tally in tallies]
    weighted = []
    for tally, matrix in zip(tallies, matrices, strict=True):
        mean = matrix.mean(axis=1, keepdims=True)
        weighted.append(tally.n_reports * np.divide(matrix, mean, out=np.zeros_like(matrix), where=mean > 0))
    size = matrices[0].shape[1]
    rank = np.linalg.matrix_rank(np.concatenate(matrices))
    if rank < size:
        raise ArgumentError(
            f"The oracle needs channels of joint rank {size}, the number of categories, got {rank}; "
            "use the MLE or a posterior."
        )
    normal = sum(w.T @ q for w, q in zip(weighted, matrices, strict=True))
    inverses = [np.linalg.solve(normal, w.T) for w in weighted]

    def variance(p):
        total = np.zeros(size)
        for inverse, matrix, tally in zip(inverses, matrices, tallies, strict=True):
            q = matrix @ p
            total += (inverse**2 @ q - (inverse @ q) ** 2) / tally.n_reports
        return total

    return sum(m @ share for m, share in zip(inverses, shares, strict=True)), variance
