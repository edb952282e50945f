"""Respondents who ignore the device, or deny: one more category for each known law by which they report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, DataError, shown
from ldpbayes.likelihoods.extended import ExtendedRows
from ldpbayes.protocols.base import MAX_LISTED, AbstractProtocol, check_parameters, passed_on
from ldpbayes.protocols.registry import inner_protocol
from ldpbayes.protocols.respondents import ATTACKS, NOBODY, AbstractLaw, Always, FairCoins, Uniform, targeted

#: Laws by the words of files and the command line; others are "always LABEL".
WORDS = ("uniform", "unlisted", "fair coins", "no bits", "all bits")


def as_law(value, protocol: AbstractProtocol, labels) -> AbstractLaw:
    """Return the law that a user means for the reports of a protocol.

    Parameters
    ----------
    value : str, int, sequence of int, mapping or AbstractLaw
        One of WORDS, "always LABEL" or LABEL, a report as the protocol's tables have it; "maximal gain: LABEL, …" or
        "input: LABEL, …"; a mapping {"law": word, "targets": [label, …]}; or the canonical report itself.
    protocol : AbstractProtocol
    labels : sequence of str
        Labels of the protocol's categories.

    Raises
    ------
    ArgumentError
        On anything else, or a law that the protocol's reports cannot follow.
    """
    if isinstance(value, AbstractLaw):
        return value.placed(protocol, labels)
    if isinstance(value, Mapping):
        if set(value) != {"law", "targets"} or value["law"] not in ATTACKS or isinstance(value["targets"], Mapping):
            words = " or ".join(map(repr, ATTACKS))
            raise ArgumentError(
                f"law must be a text, a report, or {{law = {words}, targets = [label, …]}}, got {shown(value)}."
            )
        return ATTACKS[value["law"]](value["targets"]).placed(protocol, labels)
    if isinstance(value, str):
        attack = targeted(value)
        if attack is not None and _report(value, protocol, labels) is None:
            return attack.placed(protocol, labels)
        if value in WORDS:
            if _report(value, protocol, labels) is not None:
                raise ArgumentError(
                    f"law {value!r} is a label too; write 'always {value}' for the label, or give that category another one."
                )
            return _worded(value, protocol)
        report = _report(value, protocol, labels)
        if report is None and value.startswith("always "):
            report = _report(value.removeprefix("always "), protocol, labels)
        if report is None:
            words = ", ".join((*WORDS, *(f"{word}: LABEL" for word in ATTACKS)))
            raise ArgumentError(f"law must be one of {words}, or {_example(protocol, labels)}, got {shown(value)}.")
        return Always(_plain(report))
    try:
        array = np.asarray(value)
        if array.dtype == bool or array.dtype.kind not in "iu" or array.ndim > 1:
            raise ValueError
        law = Always(_plain(array))
        law.draw_one(protocol)
    except (DataError, TypeError, ValueError, OverflowError):
        raise ArgumentError(f"law must be a text or a report of {protocol.design}, got {shown(value)}.") from None
    return law


def _example(protocol, labels):
    """Return what a text may name of a protocol's reports, with the first of them where they can be listed."""
    what = f"a report of {protocol.design}"
    if len(protocol.report_fields) != 1 or protocol.n_outputs is None or protocol.n_outputs > MAX_LISTED:
        return f"{what} as its tables have it"
    return f"{what} such as 'always {protocol.format_reports(protocol.all_reports()[:1], labels)[0][0]}'"


def _worded(word, protocol):
    size = protocol.free_bits()
    if word == "unlisted":
        if protocol.unlisted() is None:
            raise ArgumentError(f"law 'unlisted' needs hashed words (rappor, cohort_rr), got reports of {protocol.design}.")
        return protocol.unlisted()
    if word == "uniform" and size is None:
        if protocol.n_outputs is None and protocol.crafted(NOBODY) is None:
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
    """Another protocol, which some respondents ignore.

    P(report) = (1 − γ) Q p + γ q = [Q, q] p′, p′ = ((1 − γ) p, γ).

    One more category for each law q. A respondent of the first a categories follows the wrapped protocol; one of the others
    sends a report of the law for every true value.

    Parameters
    ----------
    compliers : AbstractProtocol
        What those do who follow the instructions.
    laws : sequence
        One or more of what ``as_law`` takes: "uniform", "fair coins", "no bits", "all bits", "always LABEL" (positions are
        labels here), an integer report, or the entries of a report.
    of : sequence of int
        The category that each further one belongs to, where these are people of that category who report as another one in
        some channel: deniers. Empty where they ignore the device.

    Attributes
    ----------
    epsilon : float
        Infinite: it is that of the longer alphabet, in which ignoring the device is a value. What protects the respondents
        is ``compliers.epsilon``.

    References
    ----------
    Clark and Desharnais (1998), Psychological Methods 3, on cheater detection; Moshagen, Musch, Erdfelder (2012), Behavior
    Research Methods 44, on the stochastic lie detector; both are this with a law "always". As designs with their own latent
    categories they are ``cheater_detection`` and ``stochastic_lie_detector``.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import warner
    >>> Noncompliance(warner(0.75), (0,)).channel()
    array([[0.75, 0.25, 1.  ],
           [0.25, 0.75, 0.  ]])
    """

    compliers: AbstractProtocol
    laws: tuple[AbstractLaw, ...]
    of: tuple[int, ...] = ()
    name: ClassVar[str] = "noncompliance"
    file_parameters: ClassVar[str | None] = "compliers = {protocol, its parameters}, laws = [law, …], of = [category, …]"

    if TYPE_CHECKING:  # texts and reports go in; laws come out

        def __init__(self, compliers: AbstractProtocol, laws: Sequence[Any], of: Sequence[int] = ()) -> None: ...

    def __post_init__(self):
        if not isinstance(self.compliers, AbstractProtocol):
            raise ArgumentError(f"compliers must be a protocol of ldpbayes, got {type(self.compliers).__name__}.")
        if self.compliers.noncompliance() is not None or self.compliers.caveat:
            raise ArgumentError(
                f"compliers must be a protocol whose reports are those of single users who follow it, got "
                f"{self.compliers.design}."
            )
        alone = isinstance(self.laws, (str, int, AbstractLaw))
        laws = (self.laws,) if alone else checks.entries(self.laws, "laws", "a sequence of laws of reports")
        if not laws:
            raise ArgumentError("laws must hold at least one law of reports, got none.")
        labels = tuple(map(str, range(self.compliers.n_categories)))
        laws = tuple(as_law(law, self.compliers, labels) for law in laws)
        of = tuple(checks.integer(x, "of", 0, len(labels) - 1) for x in checks.entries(self.of, "of", "categories"))
        if of and (len(of) != len(laws) or len(set(of)) != len(of)):
            raise ArgumentError(f"of must name a category of its own for each of {len(laws)} laws, got {shown(list(of))}.")
        object.__setattr__(self, "of", of)
        repeated = next((law for i, law in enumerate(laws) if law in laws[:i]), None)
        if repeated is not None and not of:
            raise ArgumentError(f"laws must be different, got {shown(repeated.setting())} twice.")
        object.__setattr__(self, "laws", laws)
        checks.categories_count(self.n_categories)

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Categories of the wrapped protocol, and one for each law."""
        return self.compliers.n_categories + len(self.laws)

    @property
    def owners(self):
        """The category that each of the last ones belongs to; None for people who ignore the device."""
        return self.of or (None,) * len(self.laws)

    @property
    def wrapper(self):
        return "denying" if self.of else "ignoring"

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return math.inf

    def noncompliance(self):
        return self

    # ---- reports: those of the wrapped protocol -------------------------------------------------------------------------
    report_fields = passed_on("compliers", "report_fields")
    check_reports = passed_on("compliers", "check_reports")
    n_outputs = passed_on("compliers", "n_outputs")
    list_reports = passed_on("compliers", "all_reports")
    log_public_share = passed_on("compliers", "log_public_share")
    crafted = passed_on("compliers", "crafted")

    def check_categories(self, categories):
        self.compliers.check_categories(categories[: self.compliers.n_categories])

    def parse_reports(self, columns, categories):
        return self.compliers.parse_reports(columns, categories[: self.compliers.n_categories])

    def format_reports(self, reports, categories):
        return self.compliers.format_reports(reports, categories[: self.compliers.n_categories])

    def report_columns(self, reports, categories):
        return self.compliers.report_columns(reports, categories[: self.compliers.n_categories])

    # ---- server ---------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        laws = np.stack([law.log_probabilities(self.compliers, reports) for law in self.laws], axis=1)
        laws -= self.compliers.log_public_share()  # the rows take the public seed as given
        return ExtendedRows(self.compliers.rows(reports, counts), laws)

    def report_law(self):
        law = self.compliers.report_law()
        if law is not None and law.kind == "bits" and self.laws == (self.compliers.unlisted(),):
            return replace(law, unlisted=True)
        return super().report_law()

    # ---- client ---------------------------------------------------------------------------------------------------------
    def randomize(self, values, rng):
        first = self.compliers.n_categories
        out = np.array(self.compliers.privatize(np.where(values < first, values, 0), rng))
        for x, law in enumerate(self.laws, first):
            here = np.flatnonzero(values == x)
            out[here] = law.draw(self.compliers, here.size, rng)
        return out

    def randomize_one(self, value):
        first = self.compliers.n_categories
        reports = [self.compliers.privatize_one(min(value, first - 1))]
        reports += [law.draw_one(self.compliers) for law in self.laws]
        return reports[max(value - first + 1, 0)]

    # ---- parameters -----------------------------------------------------------------------------------------------------
    def parameters(self):
        compliers = {"protocol": self.compliers.design, **self.compliers.parameters()}
        of = {"of": list(self.of)} if self.of else {}
        return {"compliers": compliers, "laws": [law.setting() for law in self.laws], **of}

    @classmethod
    def from_parameters(cls, categories, parameters):
        check_parameters(cls.name, parameters, ("compliers", "laws", "of"))
        laws = parameters.get("laws")
        if not isinstance(laws, list) or not laws:
            raise ArgumentError("noncompliance needs the parameter 'laws', a list of laws.")
        labels = tuple(categories)[: -len(laws)]
        if len(labels) < 2:
            raise ArgumentError(
                f"laws must leave at least two of the {len(categories)} categories to the compliers, got {len(laws)} laws."
            )
        compliers = inner_protocol(cls.name, "compliers", parameters.get("compliers"), labels)
        return cls(compliers, tuple(as_law(law, compliers, labels) for law in laws), parameters.get("of", ()))
