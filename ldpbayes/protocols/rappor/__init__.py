"""RAPPOR: cohorts of Bloom filters whose bits are randomized once for good and again for every report."""

from ldpbayes.protocols.rappor.mechanism import ASSIGNMENTS, MAX_HASHES, Rappor

__all__ = ["ASSIGNMENTS", "MAX_HASHES", "Rappor"]
