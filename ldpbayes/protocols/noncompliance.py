"""Respondents who ignore the device: one more category for each known law by which they report."""

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks, entropy
from ldpbayes.errors import ArgumentError, DataError, InfeasibleError, shown
from ldpbayes.likelihoods.extended import ExtendedRows
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import MAX_CHANNEL_ENTRIES, MAX_LISTED, AbstractProtocol
from ldpbayes.protocols.decoding import MatrixDecoder
from ldpbayes.protocols.laws import ListLaw


class AbstractLaw(abc.ABC):
    """How somebody reports who ignores the device: a distribution over the reports of a protocol."""

    @abc.abstractmethod
    def log_probabilities(self, protocol, reports) -> np.ndarray:
        """Return log P(report), shape (m,), of canonical reports."""

    @abc.abstractmethod
    def draw(self, protocol, size, rng) -> np.ndarray:
        """Return reports drawn with a numpy Generator."""

    @abc.abstractmethod
    def draw_one(self, protocol):
        """Return one report drawn from the operating system's entropy."""

    @abc.abstractmethod
    def shares(self, protocol) -> list[Fraction]:
        """Return the exact probabilities of draw_one, in the order of ``all_reports``."""

    @abc.abstractmethod
    def setting(self):
        """Return what a collection file states."""


@dataclass(frozen=True)
class Always(AbstractLaw):
    """The same report from everybody.

    Parameters
    ----------
    report : int or tuple of int
        The canonical report: an integer, or the entries of a row.
    """

    report: int | tuple[int, ...]

    def _one(self, protocol):
        try:
            return protocol.check_reports(np.array([self.report], dtype=np.int64))
        except DataError:  # packed bits
            return protocol.check_reports(np.array([self.report], dtype=np.uint8))

    def log_probabilities(self, protocol, reports):
        same = reports == self._one(protocol)
        return np.where(same if same.ndim == 1 else same.all(axis=1), 0.0, -math.inf)

    def draw(self, protocol, size, rng):
        return np.repeat(self._one(protocol), size, axis=0)

    def draw_one(self, protocol):
        return self._one(protocol)[0]

    def shares(self, protocol):
        found = np.isfinite(self.log_probabilities(protocol, protocol.all_reports()))
        return [Fraction(int(same)) for same in found]

    def setting(self):
        return self.report if isinstance(self.report, int) else list(self.report)


@dataclass(frozen=True)
class Uniform(AbstractLaw):
    """Every possible report with the same probability."""

    def log_probabilities(self, protocol, reports):
        return np.full(len(reports), -math.log(protocol.n_outputs))

    def draw(self, protocol, size, rng):
        return protocol.all_reports()[rng.integers(protocol.n_outputs, size=size)]

    def draw_one(self, protocol):
        return protocol.all_reports()[entropy.below(protocol.n_outputs)]

    def shares(self, protocol):
        return entropy.shares(protocol.n_outputs)

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

    def shares(self, protocol):
        return [Fraction(1, 2 ** protocol.free_bits())] * 2 ** protocol.free_bits()

    def setting(self):
        return "fair coins"


#: Laws by the words of files and the command line; others are "always LABEL".
WORDS = ("uniform", "fair coins", "no bits", "all bits")


def as_law(value, protocol: AbstractProtocol, labels) -> AbstractLaw:
    """Return the law that a user means for the reports of a protocol.

    Parameters
    ----------
    value : str, int, sequence of int or AbstractLaw
        One of WORDS, "always LABEL" or LABEL, a report as the protocol's tables have it; or the canonical report itself.
    protocol : AbstractProtocol
    labels : sequence of str
        Labels of the protocol's categories.

    Raises
    ------
    ArgumentError
        On anything else, or a law that the protocol's reports cannot follow.
    """
    if isinstance(value, AbstractLaw):
        return value
    if isinstance(value, str):
        if value in WORDS:
            if _report(value, protocol, labels) is not None:
                raise ArgumentError(
                    f"law {value!r} is a label too; write 'always {value}' for the label, or give that category another one."
                )
            return _worded(value, protocol)
        found = _report(value, protocol, labels)
        if found is None and value.startswith("always "):
            found = _report(value.removeprefix("always "), protocol, labels)
        if found is None:
            raise ArgumentError(
                f"law must be one of {', '.join(WORDS)}, or a report of {protocol.design} such as 'always "
                f"{labels[0]}', got {shown(value)}."
            )
        return Always(_plain(found))
    try:
        array = np.asarray(value)
        if array.dtype == bool or array.dtype.kind not in "iu" or array.ndim > 1:
            raise ValueError
        law = Always(_plain(array))
        law.draw_one(protocol)
    except (DataError, TypeError, ValueError, OverflowError):
        raise ArgumentError(f"law must be a text or a report of {protocol.design}, got {shown(value)}.") from None
    return law


def _worded(word, protocol):
    size = protocol.free_bits()
    if word == "uniform" and size is None:
        if protocol.n_outputs is None:
            raise ArgumentError(f"law 'uniform' needs reports that can be listed; those of {protocol.design} are too many.")
        return Uniform()
    if size is None:
        raise ArgumentError(f"law {word!r} needs reports of free bits (unary encodings), got {protocol.design}.")
    if word in ("uniform", "fair coins"):
        return FairCoins()
    return Always(tuple(np.packbits(np.full(size, word == "all bits")).tolist()))


def _report(text, protocol, labels):
    """Return the canonical report that a text stands for in the protocol's tables, or None."""
    if len(protocol.report_fields) != 1:
        return None
    try:
        return protocol.parse_reports([[text]], list(labels))[0]
    except DataError:
        return None


def _plain(report):
    return int(report) if np.ndim(report) == 0 else tuple(int(entry) for entry in report)


@dataclass(frozen=True)
class Noncompliance(AbstractProtocol):
    """Another protocol with respondents who ignore it: P(report) = (1 − γ) Q p + γ q = [Q, q] p′, p′ = ((1 − γ) p, γ).

    One more category for each law q. A respondent of the first a categories follows the wrapped protocol; one of the others
    sends a report of the law for every true value.

    Parameters
    ----------
    compliers : AbstractProtocol
        What those do who follow the instructions.
    laws : sequence
        One or more of what ``as_law`` takes: "uniform", "fair coins", "no bits", "all bits", "always LABEL" (positions are
        labels here), an integer report, or the entries of a report.

    Attributes
    ----------
    epsilon : float
        Infinite: it is that of the longer alphabet, in which ignoring the device is a value. What protects the respondents
        is ``compliers.epsilon``.

    References
    ----------
    Clark and Desharnais (1998), Psychological Methods 3, on cheater detection; Moshagen, Musch, Erdfelder (2012), Behavior
    Research Methods 44, on the stochastic lie detector; both are this with a law "always". As designs with their own latent
    categories they are ``designs.cheater_detection`` and ``designs.stochastic_lie_detector``.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import warner
    >>> Noncompliance(warner(0.75), (0,)).channel()
    array([[0.75, 0.25, 1.  ],
           [0.25, 0.75, 0.  ]])
    """

    compliers: AbstractProtocol
    laws: tuple[AbstractLaw, ...]
    name: ClassVar[str] = "noncompliance"
    file_parameters: ClassVar[str | None] = "compliers = {protocol, its parameters}, laws = [law, …]"

    def __post_init__(self):
        if not isinstance(self.compliers, AbstractProtocol):
            raise ArgumentError(f"compliers must be a protocol of ldpbayes, got {type(self.compliers).__name__}.")
        if self.compliers.noncompliance() is not None or self.compliers.caveat:
            raise ArgumentError(
                f"compliers must be a protocol whose reports are those of single users who follow it, got "
                f"{self.compliers.design}."
            )
        laws = (self.laws,) if isinstance(self.laws, (str, int, AbstractLaw)) else tuple(self.laws)
        if not laws:
            raise ArgumentError("laws must hold at least one law of reports, got none.")
        labels = tuple(map(str, range(self.compliers.n_categories)))
        laws = tuple(as_law(law, self.compliers, labels) for law in laws)
        repeated = next((law for i, law in enumerate(laws) if law in laws[:i]), None)
        if repeated is not None:
            raise ArgumentError(f"laws must be different, got {shown(repeated.setting())} twice.")
        object.__setattr__(self, "laws", laws)
        checks.categories_count(self.n_categories)

    @property
    def n_categories(self):
        """Categories of the wrapped protocol, and one for each law."""
        return self.compliers.n_categories + len(self.laws)

    @property
    def epsilon(self):
        return math.inf

    @property
    def report_fields(self):
        """Columns of one report in a file: those of the wrapped protocol."""
        return self.compliers.report_fields

    def noncompliance(self):
        return self

    # ---- reports: those of the wrapped protocol -------------------------------------------------------------------------
    def check_reports(self, reports):
        return self.compliers.check_reports(reports)

    def parse_reports(self, columns, categories):
        return self.compliers.parse_reports(columns, categories[: self.compliers.n_categories])

    def format_reports(self, reports, categories):
        return self.compliers.format_reports(reports, categories[: self.compliers.n_categories])

    def report_columns(self, reports, categories):
        return self.compliers.report_columns(reports, categories[: self.compliers.n_categories])

    @property
    def n_outputs(self):
        return self.compliers.n_outputs

    def all_reports(self):
        return self.compliers.all_reports()

    # ---- server ---------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        laws = np.stack([law.log_probabilities(self.compliers, reports) for law in self.laws], axis=1)
        return ExtendedRows(self.compliers.rows(reports, counts), laws)

    def decoder(self):
        """Return the least-squares inverse of the channel, or None where it is too large to write out."""
        listed = self.n_outputs is not None and self.n_outputs * self.n_categories <= MAX_CHANNEL_ENTRIES
        return self._listed_decoder if listed else None

    def report_law(self):
        return ListLaw(self) if self.n_outputs is not None and self.n_outputs <= MAX_LISTED else None

    @cached_property
    def _listed_decoder(self):
        return ListedDecoder(self.channel(), self)

    # ---- client ---------------------------------------------------------------------------------------------------------
    def privatize(self, values, rng):
        values = checks.values(values, self.n_categories)
        first = self.compliers.n_categories
        out = np.array(self.compliers.privatize(np.where(values < first, values, 0), rng))
        for x, law in enumerate(self.laws, first):
            here = np.flatnonzero(values == x)
            out[here] = law.draw(self.compliers, here.size, rng)
        return out

    def privatize_one(self, value):
        value, first = entropy.one_value(value, self.n_categories), self.compliers.n_categories
        reports = [self.compliers.privatize_one(min(value, first - 1))]
        reports += [law.draw_one(self.compliers) for law in self.laws]
        return reports[max(value - first + 1, 0)]

    def rational_channel(self):
        if self.n_outputs is None:
            raise InfeasibleError(f"{self} has too many possible reports for an exact channel.")
        laws = [law.shares(self.compliers) for law in self.laws]
        inner = self.compliers.rational_channel()
        return [[*row, *others] for row, others in zip(inner, zip(*laws, strict=True), strict=True)]

    # ---- parameters -----------------------------------------------------------------------------------------------------
    def parameters(self):
        compliers = {"protocol": self.compliers.design, **self.compliers.parameters()}
        return {"compliers": compliers, "laws": [law.setting() for law in self.laws]}

    @classmethod
    def from_parameters(cls, categories, parameters):
        from ldpbayes.protocols import make_protocol

        for key in parameters:
            if key not in ("compliers", "laws"):
                raise ArgumentError(f"noncompliance has no parameter {shown(key)}; it takes compliers, laws.")
        table, laws = parameters.get("compliers"), parameters.get("laws")
        if not isinstance(table, Mapping) or not isinstance(table.get("protocol"), str):
            raise ArgumentError("noncompliance needs the parameter 'compliers', a table with a protocol.")
        if not isinstance(laws, list) or not laws:
            raise ArgumentError("noncompliance needs the parameter 'laws', a list of laws.")
        labels = tuple(categories)[: -len(laws)]
        if len(labels) < 2:
            raise ArgumentError(
                f"laws must leave at least two of the {len(categories)} categories to the compliers, got {len(laws)} laws."
            )
        settings = {key: value for key, value in table.items() if key != "protocol"}
        compliers = make_protocol(table["protocol"], labels, settings)
        return cls(compliers, tuple(as_law(law, compliers, labels) for law in laws))


@dataclass(frozen=True, eq=False)
class ListedDecoder(MatrixDecoder):
    """The decoder of an explicit channel whose reports are those of any protocol that can list them."""

    protocol: AbstractProtocol

    def linear_system(self, reports, counts):
        return self.matrix, ListLaw(self.protocol).tally(reports, counts) / np.sum(counts)
