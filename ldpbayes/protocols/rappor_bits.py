"""One bit of a RAPPOR report at a time: the channel behind marginal bit counts, and so their composite likelihood."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.arrays import groups_of
from ldpbayes.errors import ArgumentError
from ldpbayes.likelihoods import LevelRows
from ldpbayes.protocols.base import AbstractProtocol, log_above, passed_on
from ldpbayes.protocols.decoding import DesignDecoder
from ldpbayes.protocols.formats import Numbers
from ldpbayes.protocols.rappor import Rappor


@dataclass(frozen=True)
class RapporBits(AbstractProtocol):
    """Bit counts of RAPPOR: one uniformly chosen bit of each report.

    The report is (cohort, bit, value), the form in which bit counts are stored.

    Q[(c, b, y), x] = Bernoulli(y; q* if b ∈ B_c(x) else p*) / (C k).

    Servers that keep only how often each bit was set still have, for every cohort and bit, counts of zeros and ones. Read
    as reports of this channel they have the *composite* likelihood: the bits' own likelihoods multiplied as if every bit
    came from another user. It is the likelihood where users do send one bit each, and a stand-in where they send all k.

    Parameters
    ----------
    rappor : Rappor
        The protocol of the whole reports; in a collection file its parameters stand here unchanged.

    Attributes
    ----------
    epsilon : float
        Level of one bit; that of a whole report is ``rappor.epsilon``.

    Notes
    -----
    Reports are (m, 3) integers (cohort, bit, value). Counts count bits, not users: F is then the frequency among bits, and
    its interval, like that of P, takes the bits for independent.

    References
    ----------
    Kairouz, Bonawitz, Ramage (2016), Proposition 7.
    """

    rappor: Rappor
    name: ClassVar[str] = "rappor_bits"
    file_parameters: ClassVar[str] = "those of rappor"
    report_fields: ClassVar[tuple[str, ...]] = ("cohort", "bit", "value")
    caveat: ClassVar[str] = (
        "Channel {name}: these are marginal bit counts, so only the composite likelihood applies: bits of one report are "
        "taken for reports of different users. Estimates stay consistent; standard errors and intervals do not count the "
        "dependence between bits, and F is a frequency among bits."
    )

    def __post_init__(self):
        if not isinstance(self.rappor, Rappor):
            raise ArgumentError(f"rappor must be a Rappor protocol, got {type(self.rappor).__name__}.")

    @classmethod
    def tally_arrays(cls, bit_counts, cohort_sizes):
        """Return (reports, counts) for a Tally from bit counts (C, k) and cohort sizes (C,), zeros first."""
        sizes = checks.counts(cohort_sizes, "cohort_sizes")
        ones = np.asarray(bit_counts)
        if ones.ndim != 2 or len(ones) != sizes.size:
            raise ArgumentError(f"bit_counts must have one row per cohort ({sizes.size}), got shape {ones.shape}.")
        ones = checks.counts(ones.ravel(), "bit_counts").reshape(ones.shape)
        if (ones > sizes[:, None]).any():
            c, b = np.argwhere(ones > sizes[:, None])[0]
            raise ArgumentError(
                f"bit_counts must be at most the cohort's size {sizes[c]}, got {ones[c, b]} in cohort {c}, bit {b}."
            )
        reports = np.indices((*ones.shape, 2)).reshape(3, -1).T
        return np.ascontiguousarray(reports), np.stack([sizes[:, None] - ones, ones], axis=2).ravel()

    n_categories = passed_on("rappor", "n_categories")
    default_labels = passed_on("rappor", "default_labels")
    check_categories = passed_on("rappor", "check_categories")
    parameters = passed_on("rappor", "parameters")

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        on, off = self.rappor.exact_rates
        return log_above(max(on / off, (1 - off) / (1 - on)))

    @property
    def n_outputs(self):
        return 2 * self.rappor.cohorts * self.rappor.n_bits

    def list_reports(self):
        return np.ascontiguousarray(np.indices((self.rappor.cohorts, self.rappor.n_bits, 2)).reshape(3, -1).T)

    @property
    def report_format(self):
        return Numbers(self.report_fields, self._limits)

    def rows(self, reports, counts):
        cohort, bit, value = reports.T
        member = np.empty((len(reports), self.n_categories), dtype=np.uint8)
        for c, here in groups_of(cohort):
            member[here] = self.rappor.filters(c)[bit[here]]
        levels = 2 * value[:, None].astype(np.uint8) + member
        on, off = self.rappor.exact_rates
        values = [float(1 - off), float(1 - on), float(off), float(on)]
        return LevelRows(levels, values, counts, [0, 0, 0, 1], -np.log(self.n_outputs / 2))

    @cached_property
    def _decoder(self):
        return DesignDecoder(self.rappor, exclusive=True, per_report=self.rappor.n_bits)

    def randomize(self, values, rng):
        on, off = self.rappor.rates
        cohort = rng.integers(self.rappor.cohorts, size=values.size)
        bit = rng.integers(self.rappor.n_bits, size=values.size)
        member = (self.rappor.table[cohort, :, values] == bit[:, None]).any(axis=1)
        value = rng.random(values.size) < np.where(member, on, off)
        return np.stack([cohort, bit, value], axis=1)

    def randomize_one(self, value):
        report = self.rappor.privatize_one(value)
        bit = entropy.below(self.rappor.n_bits)
        answer = report[4 + bit // 8] >> (7 - bit % 8) & 1
        return np.array([int.from_bytes(report[:4].tobytes(), "big"), bit, answer], dtype=np.int64)

    @classmethod
    def from_parameters(cls, categories, parameters):
        return cls(Rappor.from_parameters(categories, parameters))

    @property
    def _limits(self):
        return self.rappor.cohorts, self.rappor.n_bits, 2
