"""The unbiased frequency oracle of a collection, with its exact standard error."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.errors import ArgumentError
from ldpbayes.estimators.base import project
from ldpbayes.estimators.estimate import Estimate
from ldpbayes.presenting import recorded
from ldpbayes.protocols.decoding import MatrixDecoder, needed_decoder


@dataclass(frozen=True)
class Oracle:
    """The unbiased affine estimate of P (and of F); entries may be negative.

    One channel: its protocol's oracle. Several explicit channels: weighted least squares on all their tallies together,
    which needs only their joint rank. With other protocols among several, each coordinate is averaged with weights inverse
    to its exact variances. All weights are those at the uniform distribution, so that none depends on the
    data and the estimate stays unbiased.

    The standard error is the exact one (users drawn from P) at the oracle projected onto the simplex.

    Examples
    --------
    >>> from ldpbayes.protocols import warner
    >>> from ldpbayes.collections import Collection, Tally
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])])
    >>> Oracle()(survey).distribution.round(3).tolist()
    [0.75, 0.25]
    """

    name = "oracle"

    @recorded
    def __call__(self, collection: Collection | Tally) -> Estimate:
        """Return the Estimate for a Collection or a Tally.

        Raises
        ------
        ArgumentError
            Where the channels leave some combination of categories undetermined.
        """
        collection = as_collection(collection)
        tallies = collection.tallies
        if collection.weighted:
            raise ArgumentError("The oracle takes no sampling weights; the MLE does.")
        decoders = [needed_decoder(tally.protocol) for tally in tallies]
        systems = [decoder.linear_system(t.reports, t.counts) for decoder, t in zip(decoders, tallies, strict=True)]
        sizes = [tally.n_reports for tally in tallies]
        if all(system is not None for system in systems):
            value, variance = _least_squares(systems, sizes)
            how = "weighted least-squares inverse of the channel" + ("s" if len(tallies) > 1 else "")
        else:
            value, variance = _average(decoders, [tally.rows for tally in tallies], sizes, collection.n_categories)
            how = (
                f"the unbiased oracle of {tallies[0].protocol.name}"
                if len(tallies) == 1
                else "the channels' unbiased oracles, averaged by inverse variance"
            )
        error = np.sqrt(np.maximum(variance(project(value)), 0.0))
        inside = (value >= 0).all() and abs(value.sum() - 1) < 1e-9
        likelihood = float(collection.rows.log_likelihood(value)) if inside else float("nan")
        outside = int((value < 0).sum())
        note = f"; {outside} of {value.size} entries are negative" if outside else ""
        outcome = f"Computed in closed form: {how}{note}."
        return Estimate("oracle", value, error, likelihood, float("nan"), outcome, collection=collection)


def _average(decoders, rows, sizes, n_categories):
    """Return the inverse-variance average and its variance function; with one decoder, that one's."""
    uniform = np.full(n_categories, 1 / n_categories)
    values = np.stack([decoder.oracle(one) for decoder, one in zip(decoders, rows, strict=True)])

    def variances(p):
        variances_each = (decoder.variance(p, n, "distribution") for decoder, n in zip(decoders, sizes, strict=True))
        return np.stack([np.broadcast_to(variance, n_categories) for variance in variances_each])

    if len(decoders) == 1:
        return values[0], lambda p: variances(p)[0]
    precision = 1 / variances(uniform)
    weights = precision / precision.sum(axis=0)
    return (weights * values).sum(axis=0), lambda p: (weights**2 * variances(p)).sum(axis=0)


def _least_squares(systems, sizes):
    """Return the stacked weighted least-squares estimate (Σ QᵀWQ)⁻¹ Σ QᵀW S/n and its variance function.

    W_t = n_t diag(1/Q_t u) with u uniform: the inverse of the multinomial covariance, up to its null direction.
    """
    # That of one channel in which a report says which channel it came through, each with the share of its users.
    weights = np.array(sizes) / sum(sizes)
    joint = MatrixDecoder(np.concatenate([share * matrix for share, (matrix, _) in zip(weights, systems, strict=True)]))
    if joint.rank < joint.n_categories:
        raise ArgumentError(
            f"The oracle needs channels of joint rank {joint.n_categories}, the number of categories, got {joint.rank}; "
            "use the MLE or a posterior."
        )
    inverses_each = np.split(joint.inverse, np.cumsum([len(matrix) for matrix, _ in systems])[:-1], axis=1)
    inverses = [share * inverse for share, inverse in zip(weights, inverses_each, strict=True)]

    def variance(p):
        total = np.zeros(p.size)
        for inverse, (matrix, _), n in zip(inverses, systems, sizes, strict=True):
            q = matrix @ p
            total += (inverse**2 @ q - (inverse @ q) ** 2) / n
        return total

    return sum(inverse @ shares for inverse, (_, shares) in zip(inverses, systems, strict=True)), variance
