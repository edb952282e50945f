"""The point estimates that stand beside a posterior."""

from ldpbayes.errors import ArgumentError, InfeasibleError


def point_estimates(collection):
    """Return the estimates shown beside a posterior: MLE, and the oracle where the channels have one.

    Where respondents may ignore the device, the MLE is that of the compliers; there is none where γ is not identified.
    """
    from ldpbayes.estimators.derived import among_compliers, with_derived
    from ldpbayes.estimators.mle import MLE
    from ldpbayes.estimators.oracle import Oracle

    if collection.wrapper and not (collection.wrapper.tested and collection.noncompliance().identified):
        return []
    if collection.laws:
        return [among_compliers(with_derived(MLE()(collection), collection), collection)]
    estimates = [MLE()(collection)]
    try:
        estimates.append(Oracle()(collection))
    except (ArgumentError, InfeasibleError):
        pass  # Rank-deficient and very large channels have no oracle; the table leaves its column out.
    return [with_derived(estimate, collection) for estimate in estimates]
