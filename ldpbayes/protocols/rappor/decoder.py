"""RAPPOR's least-squares decoder: from counts of set bits to frequencies."""

from dataclasses import dataclass

import numpy as np

from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.decoding import AbstractLeastSquares


@dataclass(frozen=True, eq=False)
class FilterDecoder(AbstractLeastSquares):
    """Least squares of bit counts on the filters: X p = (C N/n − p*)/(q* − p*), unbiased where X has full column rank.

    X stacks the filters of all cohorts, N the counts of their set bits. With ``single`` a report is one of the k bits, each
    as likely, and N is multiplied by k.
    """

    protocol: AbstractProtocol
    single: bool = False

    def gram(self):
        """Return XᵀX, whose entries count the bits that two filters share."""
        shared = np.zeros((self.n_categories, self.n_categories))
        for c in range(self.protocol.cohorts):
            filters = self.protocol.filters(c)
            shared += filters.T @ filters
        return shared

    def right(self, rows):
        on, off = self.protocol.rates
        sizes = (self.protocol.table >= 0).sum(axis=(0, 1))
        share = self._bits_per_report * self.protocol.cohorts * rows.support_counts() / rows.n_reports
        return (share - off * sizes) / (on - off)

    def design(self):
        return "filters", f"{self.protocol.n_bits} bits"

    def scores(self, rows, weights):
        values, vectors, kept = self._spectrum
        if not kept.all():
            return None
        on, off = self.protocol.rates
        turned = vectors @ ((vectors.T @ weights) / values) / (on - off)
        sizes = (self.protocol.table >= 0).sum(axis=(0, 1))
        held = rows.support_sums(turned)
        held = rows.hit_sums(turned) if held is None else held  # categories of several bits
        return self._bits_per_report * self.protocol.cohorts * held - off * (sizes @ turned)

    def variance(self, p, n, target="frequency"):
        """Return the exact variance of each coordinate of the oracle at n reports, shape (a,).

        A user of category x' in cohort c adds A_c y with A_c = C/(q* − p*) (XᵀX)⁻¹ X_cᵀ and independent bits y of means μ_c:
        mean over c and x' of Σ_b A²μ(1−μ) + (Aμ)², less the square of the mean given x' ("frequency") or of the whole mean.
        With single bits the mean square is that over b of (k A y)².
        """
        p = self._checked(p, target)
        self._require_rank()
        on, off = self.protocol.rates
        values, vectors, _ = self._spectrum
        inverse = self.protocol.cohorts / (on - off) * (vectors / values) @ vectors.T
        square, mean = np.zeros(self.n_categories), np.zeros((self.n_categories, self.n_categories))
        for c in range(self.protocol.cohorts):
            filters = self.protocol.filters(c)
            decoder, mu = inverse @ filters.T, off + (on - off) * filters
            centre = decoder @ mu
            if self.single:
                square += self._bits_per_report * (decoder**2 @ (mu @ p))
            else:
                square += decoder**2 @ (mu * (1 - mu) @ p) + centre**2 @ p
            mean += centre / self.protocol.cohorts
        known = mean**2 @ p if target == "frequency" else (mean @ p) ** 2
        return (square / self.protocol.cohorts - known) / n

    @property
    def _bits_per_report(self):
        return self.protocol.n_bits if self.single else 1
