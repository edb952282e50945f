"""The table of protocols that every contract test runs over: name → protocol at (n_categories, epsilon)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldpbayes.protocols import (
    GRR,
    LOLOHA,
    Attributes,
    BlockDesign,
    Channel,
    DBitFlip,
    FakeData,
    MemoizedGRR,
    MemoizedRappor,
    MemoizedUnary,
    Noncompliance,
    Repeated,
    RestrictedResponse,
    SampledAttribute,
    compose,
    designs,
    kronecker,
    mixture,
    product,
)
from ldpbayes.protocols.cohort_rr import CohortRR
from ldpbayes.protocols.hadamard import HadamardResponse
from ldpbayes.protocols.local_hashing import LocalHashing, PooledHashing
from ldpbayes.protocols.rappor import Rappor
from ldpbayes.protocols.rappor_bits import RapporBits
from ldpbayes.protocols.subset import SubsetSelection
from ldpbayes.protocols.unary import UnaryEncoding

ANY = (2, 3, 5)


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
    takes_epsilon : bool
        Whether the builder hands epsilon to the protocol, which then refuses impossible ones; designs take probabilities.
    engines : bool
        Whether the engines are compared on it; not where another line has rows of the same kind.
    """

    name: str
    build: Callable
    categories: tuple[int, ...] = ANY
    tight: bool = True
    takes_epsilon: bool = True
    engines: bool = True

    def __str__(self):
        return self.name


def has_channel(protocol):
    """Return whether the reports of a protocol can be listed, so that its channel is a small matrix."""
    return protocol.n_outputs is not None and protocol.n_outputs * protocol.n_categories <= 4096


def full_rank(protocol):
    """Return whether a protocol tells all categories apart: else nothing estimates them without bias."""
    return protocol.decoder().rank == protocol.n_categories


def kept(epsilon):
    """Return the probability e^ε/(1 + e^ε) of the likelier of two answers."""
    return 1 / (1 + math.exp(-epsilon))


def weights(epsilon):
    """Return the weights of three cards of Christofides' design at this level."""
    numbers = np.array([math.exp(epsilon), (1 + math.exp(epsilon)) / 2, 1.0])
    return numbers / numbers.sum()


def pairs(a, epsilon):
    """Return the joint channel of an attribute with two values and one with the rest."""
    return kronecker([GRR(2, epsilon)] if a == 2 else [GRR(2, epsilon / 2), GRR(a // 2, epsilon / 2)])


def halves(a):
    """Return the sizes of two attributes whose table has so many cells."""
    if isinstance(a, int) and a % 2 == 0 and a > 2:
        return (2, a // 2)
    return (a,)


def ignored(a, epsilon):
    """Return unary encoding with respondents who set no bits."""
    return Noncompliance(UnaryEncoding.symmetric(a - 1, epsilon), ("no bits",))


def positions(a):
    """Return a map of RAPPOR: each category sets one bit in each of two cohorts of six bits."""
    return [(f"c{x}", [1 + x, 7 + 2 * x % 6]) for x in range(a)]


def given(name, build, categories=(2,), tight=True, engines=True):
    """Return the case of a protocol that is stated by probabilities or other protocols, not by a level."""
    return Case(name, build, categories, tight, takes_epsilon=False, engines=engines)


def filters(a, epsilon):
    """Return RAPPOR's two stages over filters of three bits in two cohorts."""
    return MemoizedRappor(Rappor(a, 0.2, 0.9, 2 / (1 + math.exp(epsilon / 2)), 3, 2, 1, candidates=tuple("abc"[:a])), 2)


CASES = [
    Case("grr", GRR),
    Case("warner", lambda a, epsilon: designs.warner(kept(epsilon)), (2,), takes_epsilon=False),
    Case("sue", UnaryEncoding.symmetric),
    Case("oue", UnaryEncoding.optimized),
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
    # Version 0.1.0 had the cases above; tests/net/record.py reads them by position.
    given("rappor-map", lambda a, e: Rappor.from_map(positions(a), 0, 1, 2 / (1 + math.exp(e / 2)), 6, 2, 1), ANY),
    given("rappor-bits", lambda a, e: RapporBits(Rappor.one_time(a, 2 * e, 6, 2, candidates=tuple("abcde"[:a]))), ANY),
    given("compose", lambda a, epsilon: compose(GRR(a, 8.0), GRR(a, epsilon)), ANY, tight=False),
    given("product", lambda a, epsilon: product([GRR(a, epsilon / 2), UnaryEncoding.symmetric(a, epsilon / 2)]), ANY),
    given("kronecker", pairs, (2, 4, 6)),
    Case("channel", lambda a, epsilon: Channel(np.vstack([0.8 * GRR(a, epsilon).channel(), np.full(a, 0.2)])), (2, 3)),
    given("direct", lambda a, epsilon: designs.direct(a), ANY),
    given("forced-response", lambda a, epsilon: designs.forced_response(1 - a / (math.expm1(epsilon) + a), [1] * a), ANY),
    given("unrelated-question", lambda a, epsilon: designs.unrelated_question(math.tanh(epsilon / 2), 0.5)),
    given("crosswise", lambda a, epsilon: designs.crosswise(1 - kept(epsilon))),
    given("triangular", lambda a, epsilon: designs.triangular(math.exp(-epsilon))),
    given("kuk", lambda a, epsilon: designs.kuk(kept(epsilon), 1 - kept(epsilon))),
    given("kuk-2", lambda a, epsilon: designs.kuk(kept(epsilon / 2), 1 - kept(epsilon / 2), cards=2)),
    given("christofides", lambda a, epsilon: designs.christofides(weights(epsilon))),
    given("stochastic-lie-detector", lambda a, epsilon: designs.stochastic_lie_detector(1 - kept(epsilon)), (3,)),
    Case("attributes", lambda a, e: Attributes.split(halves(a), e, "grr"), (2, 4, 6)),
    Case("smp", lambda a, e: SampledAttribute(a, e, halves(a), "grr"), (2, 4)),
    Case("rs-fd", lambda a, e: FakeData(a, e, halves(a), "grr", "uniform"), (2, 4)),
    given("noncompliance", ignored, (3, 5), tight=False),
    Case("olh-pool", lambda a, epsilon: PooledHashing(a, epsilon, seeds=24), engines=False),
    Case("block-design", BlockDesign, engines=False),
    given("cheater-detection", lambda a, epsilon: designs.cheater_detection(1 - kept(epsilon)), (3,)),
    given("memoized-grr", lambda a, e: MemoizedGRR(a, e, e / 2, 2), (2, 3), engines=False),
    given("memoized-unary", lambda a, e: MemoizedUnary.from_levels(a, e, e / 2, times=2), (2,), engines=False),
    given("loloha", lambda a, e: LOLOHA.from_levels(a, e, e / 2, times=2), (2, 3), engines=False),
    given("d-bit-flip", lambda a, e: DBitFlip(a, e, a, 2, 0.1, times=2), (3,), engines=False),
    given("memoized-rappor", filters, (2,), engines=False),
    given("repeated", lambda a, e: Repeated(GRR(a, e / 2), 2), (2, 3), engines=False),
    Case("restricted", lambda a, epsilon: RestrictedResponse(a, epsilon, range(a // 2), 0.7), (2, 3, 5), engines=False),
]


def neighbours(a):
    """Return a channel that reports the truth or a value next to it: no surrogate with a factor a category fits that."""
    matrix = np.array([[0.9 if abs(y - x) <= 1 else 0.02 for x in range(a)] for y in range(a)])
    return Channel(matrix / matrix.sum(axis=0))
