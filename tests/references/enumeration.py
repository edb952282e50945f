"""Exact posteriors of small collections by the sum over all tallies: what other methods are compared with."""

import math

from ldpbayes.theory.enumeration import Enumeration

#: The limit that users have does not hold here: 2 · 10^9 sums take a few seconds.
ENUMERATION = Enumeration(most=2e9)


def enumerated(collection, prior, ci_prob=0.95):
    """Return the entries of the group ``exact`` of a result, by name: moments, ends, covariance and log-evidence."""
    found = ENUMERATION(collection, prior)
    entries = found.moments | found.ends(ci_prob) | {"distribution_cov": found.covariance()}
    assert math.isfinite(found.log_evidence)
    return entries | {"log_evidence": found.log_evidence}
