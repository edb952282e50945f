"""RAPPOR with both stages: a user's permanent Bloom filter, and any number of instantaneous reports on it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ldpbayes import entropy
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import AbstractProtocol, passed_on
from ldpbayes.protocols.formats import split_cohorts
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.repeated import memoized_bits
from ldpbayes.repeated.histories import Rates, check_times


@dataclass(frozen=True)
class MemoizedRappor(memoized_bits.AbstractMemoizedBits):
    """All RAPPOR reports of a user: one permanent filter, and fresh noise on its bits each time.

    RAPPOR(p, q, f) over Bloom filters: one cohort, one permanent filter and T reports on it for each user.

    Given the cohort c the bits are independent, so that L_x ∝ Π_{j ∈ B_c(x)} ρ(c_j) with c_j the ones of bit j among T
    reports and ρ as for ``MemoizedUnary`` with κ = 1 − f/2, λ = f/2, r = q, s = p.

    Parameters
    ----------
    protocol : Rappor
        The filters and p, q, f.
    times : int, or pairs (int, int), optional
        How many reports a user sends, or the law of that number; see ``AbstractHistories``.

    Notes
    -----
    A history is the cohort, T and the ones of every bit: in a file the columns "cohort", "times" and "ones". In long data a
    report is that of ``Rappor``, and a user keeps one cohort. A file's parameters are those of rappor, and times.
    ``epsilon_changing`` counts the candidates: other strings that a user reports have a permanent filter each as well.

    References
    ----------
    Erlingsson, Pihur, Korolova (2014), §3 and Theorem 1; docs/theory/repeated.md for the rows.

    Examples
    --------
    >>> protocol = MemoizedRappor(Rappor.direct(3, p=0.25, q=0.75, f=0.5), times=4)
    >>> round(protocol.spent(1), 3), round(protocol.spent(4), 3), round(protocol.epsilon_infinity, 3)
    (1.022, 2.133, 2.197)
    """

    protocol: Rappor
    times: Any = None  # a Times comes in
    name: ClassVar[str] = "memoized_rappor"
    report_fields: ClassVar[tuple[str, ...]] = ("cohort", "times", "ones")
    file_parameters: ClassVar[str] = "those of rappor; times"

    def __post_init__(self):
        if not isinstance(self.protocol, AbstractProtocol) or self.protocol.name != Rappor.name:
            raise ArgumentError(f"protocol must be a Rappor, got {type(self.protocol).__name__}.")
        object.__setattr__(self, "times", check_times(self.times))

    n_categories = passed_on("protocol", "n_categories")
    default_labels = passed_on("protocol", "default_labels")
    check_categories = passed_on("protocol", "check_categories")
    n_bits = passed_on("protocol", "n_bits")
    table = passed_on("protocol", "table")
    epsilon_infinity = passed_on("protocol", "epsilon_longitudinal")
    epsilon_one = passed_on("protocol", "epsilon_one_time")
    has_full_rank = passed_on("protocol", "has_full_rank")
    identifying_matrix = passed_on("protocol", "identifying_matrix")
    permanent_one = passed_on("protocol", "permanent_one")
    instantaneous_one = passed_on("protocol", "instantaneous_one")

    def rates(self):
        return Rates(*self.stages) if self.protocol.assignment == "direct" else None

    # ---- reports -------------------------------------------------------------------------------------------------------
    @property
    def leading_fields(self):
        return ("cohort", len(self.table)), *super().leading_fields

    @property
    def single(self):
        return self.protocol

    def single_bits(self, reports):
        return split_cohorts(reports)

    # ---- server and client ---------------------------------------------------------------------------------------------
    @property
    def _thresholds(self):
        flip, p, q = self.protocol.thresholds
        return 2**entropy.BITS - flip, flip, q, p

    # ---- parameters ----------------------------------------------------------------------------------------------------
    def parameters(self):
        out = super().parameters()
        del out["protocol"]
        return self.protocol.parameters() | out

    @classmethod
    def from_parameters(cls, categories, parameters):
        parameters = dict(parameters)
        times = parameters.pop("times", None)
        try:
            return cls(Rappor.from_parameters(categories, parameters), times)
        except ArgumentError as err:
            raise ArgumentError(str(err).replace("rappor ", f"{cls.name} ", 1)) from None
