"""How people report who ignore the device: distributions over the reports of a protocol."""

import abc
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes import entropy
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.protocols import bits
from ldpbayes.protocols.crafting import AbstractCrafting, ListedCrafting

#: No targets: then every report of a protocol is as good for an attack as any other.
NOBODY = np.zeros(0, dtype=np.int64)


class AbstractLaw(abc.ABC):
    """How somebody reports who ignores the device: a distribution over the reports of a protocol."""

    def crafted(self, protocol) -> AbstractCrafting:
        """Return the reports that are sent, each with the same probability, where this is such a law."""
        raise NotImplementedError

    def log_probabilities(self, protocol, reports) -> np.ndarray:
        """Return log P(report), shape (m,), of canonical reports."""
        return self.crafted(protocol).log_probabilities(reports)

    def draw(self, protocol, size, rng) -> np.ndarray:
        """Return reports drawn with a numpy Generator."""
        return self.crafted(protocol).draw(size, rng)

    def draw_one(self, protocol):
        """Return one report drawn from the operating system's entropy."""
        return self.crafted(protocol).draw_one()

    @abc.abstractmethod
    def setting(self):
        """Return what a collection file states."""

    def words(self, protocol, labels) -> str:
        """Return the law in words, with the labels of the protocol's categories."""
        return str(self.setting())

    def placed(self, protocol, labels) -> "AbstractLaw":
        """Return this law for the reports of a protocol over these labels, or raise an ArgumentError."""
        return self


@dataclass(frozen=True)
class Always(AbstractLaw):
    """The same report from everybody.

    Parameters
    ----------
    report : int or tuple of int
        The canonical report: an integer, or the entries of a row.
    """

    report: int | tuple[int, ...]

    def placed(self, protocol, labels):
        try:
            self._checked(protocol)
        except (DataError, OverflowError) as err:
            raise ArgumentError(f"report must be one of {protocol.design}: {err}.") from None
        return self

    def _checked(self, protocol):
        try:
            return protocol.check_reports(np.array([self.report], dtype=np.int64))
        except DataError:  # packed bits
            return protocol.check_reports(np.array([self.report], dtype=np.uint8))

    def log_probabilities(self, protocol, reports):
        same = reports == self._checked(protocol)
        return np.where(same if same.ndim == 1 else same.all(axis=1), 0.0, -math.inf)

    def draw(self, protocol, size, rng):
        return np.repeat(self._checked(protocol), size, axis=0)

    def draw_one(self, protocol):
        return self._checked(protocol)[0]

    def setting(self):
        return self.report if isinstance(self.report, int) else list(self.report)

    def words(self, protocol, labels):
        return "always " + ", ".join(str(column[0]) for column in protocol.format_reports(self._checked(protocol), labels))


@dataclass(frozen=True)
class Uniform(AbstractLaw):
    """Every possible report with the same probability."""

    def crafted(self, protocol):
        if protocol.n_outputs is None:
            return protocol.crafted(NOBODY)
        return ListedCrafting(protocol.all_reports(), np.arange(protocol.n_outputs), protocol)

    def setting(self):
        return "uniform"


@dataclass(frozen=True)
class FairCoins(AbstractLaw):
    """One fair coin for every bit of a report."""

    def log_probabilities(self, protocol, reports):
        return np.full(len(reports), -protocol.free_bits() * math.log(2))

    def draw(self, protocol, size, rng):
        return bits.bernoulli(size, protocol.free_bits(), 0.5, rng)

    def draw_one(self, protocol):
        size = protocol.free_bits()
        padded = entropy.word(size) << (8 * bits.width(size) - size)
        return np.frombuffer(padded.to_bytes(bits.width(size), "big"), dtype=np.uint8)

    def setting(self):
        return "fair coins"


@dataclass(frozen=True)
class AbstractAttack(AbstractLaw):
    """An attack on some categories.

    Parameters
    ----------
    targets : sequence of str or int
        Labels of different categories, or their positions.
    """

    targets: tuple[str | int, ...]
    word: ClassVar[str]

    def __post_init__(self):
        targets = (self.targets,) if isinstance(self.targets, (str, int)) else tuple(self.targets)
        if not targets or len(set(targets)) != len(targets):
            raise ArgumentError(f"targets must be at least one category, each named once, got {shown(list(targets))}.")
        object.__setattr__(self, "targets", targets)

    def placed(self, protocol, labels):
        places = {label: x for x, label in enumerate(labels)}
        positions = []
        for target in self.targets:
            whole = isinstance(target, (int, np.integer)) and not isinstance(target, bool)
            place = int(target) if whole and 0 <= target < len(labels) else places.get(target)
            if place is None:
                raise ArgumentError(f"targets must be among the categories {listed(labels)}, got {shown(target)}.")
            positions.append(place)
        law = replace(self, targets=tuple(sorted(positions)))
        law.check(protocol)
        return law

    def check(self, protocol):
        """Raise an ArgumentError where no such attack on the protocol is known."""

    def setting(self):
        return {"law": self.word, "targets": list(self.targets)}

    def words(self, protocol, labels):
        named = (target if isinstance(target, str) else labels[target] for target in self.targets)
        return f"{self.word}: {', '.join(named)}"


@dataclass(frozen=True)
class Input(AbstractAttack):
    """Reports of the honest device, fed with one of the targets, each with the same probability.

    P(report) = Σ_t Q[report, t]/r: a mixture of columns of the channel, which no design tells from people whose values are
    the targets.

    References
    ----------
    Cao, Jia and Gong (2021), USENIX Security: the random item attack. Cheu, Smith and Ullman (2021), IEEE Security and
    Privacy, on manipulation in general.
    """

    word: ClassVar[str] = "input"

    def log_probabilities(self, protocol, reports):
        rows, p = protocol.rows(reports, np.ones(len(reports))), np.zeros(protocol.n_categories)
        p[list(self.targets)] = 1 / len(self.targets)
        with np.errstate(divide="ignore"):
            return np.log(rows.matvec(p)) + rows.log_constants + protocol.log_public_share()

    def draw(self, protocol, size, rng):
        return protocol.privatize(np.array(self.targets)[rng.integers(len(self.targets), size=size)], rng)

    def draw_one(self, protocol):
        return protocol.privatize_one(self.targets[entropy.below(len(self.targets))])


@dataclass(frozen=True)
class MaximalGain(AbstractAttack):
    """Reports made by hand to raise the estimates of the targets as far as a report can.

    GRR: one of the targets. Unary encodings: all targets, filled up with random categories to the mean size of an honest
    report. Subset selection: a set with as many targets as it holds. Local hashing: a pair (seed, value) that supports as
    many targets as one of a thousand seeds allows. Other protocols that list their reports: those with the largest sum of
    scores of the targets.

    References
    ----------
    Cao, Jia and Gong (2021), USENIX Security.

    Examples
    --------
    >>> from ldpbayes.protocols import GRR
    >>> np.exp(MaximalGain((1, 2)).log_probabilities(GRR(4, 1.0), np.arange(4)))
    array([0. , 0.5, 0.5, 0. ])
    """

    word: ClassVar[str] = "maximal gain"

    def check(self, protocol):
        if self.crafted(protocol) is None:
            raise ArgumentError(
                f"law 'maximal gain' sends the reports that add most to an estimate; that from reports of {protocol.design} "
                "is not known as a mean over reports that support categories or can be listed."
            )

    def crafted(self, protocol):
        return protocol.crafted(np.array(self.targets, dtype=np.int64))


#: Attacks on targets, by the words of files and the command line.
ATTACKS = {law.word: law for law in (Input, MaximalGain)}


def targeted(text) -> AbstractLaw | None:
    """Return the attack that a text such as "maximal gain: a, b" names, or None."""
    word, colon, targets = text.partition(":")
    if not colon or word.strip() not in ATTACKS:
        return None
    return ATTACKS[word.strip()](tuple(target.strip() for target in targets.split(",") if target.strip()))
