"""The table of protocols that every contract test runs over: name → protocol at (n_categories, epsilon)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ldpbayes.protocols import GRR, designs, mixture
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes
    ----------
    name : str
    build : callable (n_categories, epsilon) -> protocol
    categories : tuple of int
        Numbers of categories that the contract tests draw from.
    tight : bool
        Whether the largest ratio in the channel is e^epsilon exactly.
    """

    name: str
    build: Callable
    categories: tuple[int, ...] = (2, 3, 5)
    tight: bool = True

    def __str__(self):
        return self.name


CASES = [
    Case("grr", GRR),
    Case("warner", lambda a, epsilon: designs.warner(1 / (1 + math.exp(-epsilon))), (2,)),
    Case("sue", UnaryEncoding.symmetric),
    Case("oue", UnaryEncoding.optimised),
    Case("dual", UnaryEncoding.dual),
    Case("unary-rates", lambda a, epsilon: UnaryEncoding(a, epsilon, lam=0.4)),
    Case("subset", SubsetSelection),
    Case("subset-2", lambda a, epsilon: SubsetSelection(a, epsilon, size=2), (3, 5)),
    Case("hadamard", HadamardResponse, (2, 3, 4, 5)),
    Case("olh", LocalHashing),
    Case("blh", lambda a, epsilon: LocalHashing(a, epsilon, buckets=2)),
    Case("olh-xxhash", lambda a, epsilon: LocalHashing(a, epsilon, family="xxhash")),
    Case("cohort-permutation", lambda a, epsilon: CohortRR(a, epsilon, buckets=2, cohorts=8)),
    Case("cohort-label", lambda a, epsilon: CohortRR(a, epsilon, 3, 8, "label", tuple("abcde"[:a]))),
    Case("rappor", lambda a, epsilon: Rappor.one_time(a, epsilon, 6, 3, 1, candidates=tuple("abcde"[:a]))),
    Case(
        "rappor-bloom", lambda a, epsilon: Rappor.one_time(a, epsilon, 6, 3, 2, candidates=tuple("abcde"[:a])), tight=False
    ),
    Case("rappor-direct", lambda a, epsilon: Rappor.one_time(a, epsilon, a, 1, assignment="direct")),
    Case("mixture", lambda a, epsilon: mixture([0.3, 0.7], [GRR(a, epsilon), UnaryEncoding.symmetric(a, epsilon)])),
]
