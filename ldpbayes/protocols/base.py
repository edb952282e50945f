"""The interface of a protocol: client, server and format of one privatized report."""

import abc
import dataclasses
import functools
import inspect
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks, entropy
from ldpbayes.arrays import log_choose
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.presenting import plain
from ldpbayes.protocols.constants import MAX_CHANNEL_ENTRIES, MAX_DRAWN_USERS
from ldpbayes.protocols.crafting import AbstractCrafting, ListedCrafting
from ldpbayes.protocols.decoding import AbstractDecoder, MatrixDecoder, SupportDecoder, needed_decoder
from ldpbayes.protocols.formats import Labels, distinct
from ldpbayes.protocols.laws import AbstractReportLaw, ListLaw, SupportLaw

#: Rule: Protocols with more possible reports are compared by support counts: most of their reports are never seen.
MAX_LISTED = 4096

if TYPE_CHECKING:
    from ldpbayes.likelihoods import Rows


@dataclasses.dataclass(frozen=True, eq=False)
class Ancillary:
    """A function of one report whose law under an honest collection is known for every distribution P.

    Attributes
    ----------
    name : str
        What it is, in the plural: "support sizes".
    values : callable
        Canonical reports -> (m,) integers.
    size : int
        The values are 0 … size − 1.
    law : (size,) array, optional
        Their probabilities; without it and without a mean they are uniform.
    mean : float, optional
        Their expectation, for a function of which no more is known.
    """

    name: str
    values: Callable[[np.ndarray], np.ndarray]
    size: int
    law: np.ndarray | None = None
    mean: float | None = None


@dataclasses.dataclass(frozen=True)
class PairRates:
    """Chances that a report supports two categories, which depend only on whether the value is one of the two.

    Attributes
    ----------
    neither, one : float
        P(x and y are supported) where the value is another one, and where it is x or y.
    dimension : int
        Dimension of the space that the centred products of two bits span.
    independent : bool
        Whether bits are independent given the value.
    """

    neither: float
    one: float
    dimension: int
    independent: bool


class SizeLaw(NamedTuple):
    """What is known for every P of the size of a report: how many categories it supports, or a weighted number of bits.

    Attributes
    ----------
    mean, variance : float
        Of one report; the variance is zero where all reports have one size.
    slope : float
        By how much a value raises the mean above that of a report of nobody's.
    """

    mean: float
    variance: float
    slope: float

    def excess(self, n: float, total: float) -> np.ndarray:
        """Return n times what the unbiased estimates of all shares add up to, less one, and its variance, (2,).

        Parameters
        ----------
        n : float
            Number of reports.
        total : float
            The sum of their sizes.
        """
        return np.array([(total - n * self.mean) / self.slope, n * self.variance / self.slope**2])


@dataclasses.dataclass(frozen=True, eq=False)
class Binomials:
    """Support counts with an exact law: C_x ~ Binomial(n, h_x + (g_x − h_x) p_x) where users are drawn from P.

    Attributes
    ----------
    counts : (a,) array
        C_x, how many reports support category x.
    hit, other : (a,) arrays
        g_x and h_x: the probability that a report supports x where its value is x, and where it is not; g_x > h_x.
    n : int or (a,) array
        Number of users.
    """

    counts: np.ndarray
    hit: np.ndarray
    other: np.ndarray
    n: int | np.ndarray


class Rated(NamedTuple):
    """Reports as functions of two rates, c off^ones (1 − off)^(bits − ones) o^hits ((1 − on)/(1 − off))^(sizes − hits).

    o = on/off.

    Attributes
    ----------
    hits, sizes : (m, a) int arrays
        How many of the bits that a category sets are ones of the report, and how many it sets.
    ones : (m,) int array
        Ones of each report.
    bits : int
        Bits of a report.
    log_constant : float
        log c of one report.
    """

    hits: np.ndarray
    sizes: np.ndarray
    ones: np.ndarray
    bits: int
    log_constant: float = 0.0


class RatedForm(NamedTuple):
    """A protocol as a function of two rates.

    Attributes
    ----------
    of : callable
        Reports → Rated.
    at : callable
        Rates (on, off) → the protocol with these.
    """

    of: Callable[[np.ndarray], Rated]
    at: Callable[[float, float], Any]


@dataclasses.dataclass(frozen=True)
class Supports:
    """Reports whose likelihood rows are c (1 + β[x ∈ S]), for passes over many of them without a row each.

    Attributes
    ----------
    beta : float
        e^ε − 1.
    per_report, per_member : float
        log c = per_report + per_member · |S|.
    hashed : tuple of (str, int), optional
        The hash family and the number of buckets where a report is a pair (seed, value) and S = {x : hash_seed(x) = value};
        otherwise a report is S itself in packed bits.
    """

    beta: float
    per_report: float
    per_member: float = 0.0
    hashed: tuple[str, int] | None = None


#: What a method that every protocol writes without a check takes; users may call it too.
_CHECKED: dict[str, Callable] = {
    "randomize": lambda self, values, rng: (checks.values(values, self.n_categories), checks.generator(rng)),
    "randomize_one": lambda self, value: (entropy.one_value(value, self.n_categories),),
    "crafted": lambda self, targets: (checks.values(targets, self.n_categories, "targets"),),
}


def _checked(method, check):
    """Return a method whose arguments are checked first."""

    @functools.wraps(method)
    def checked(self, *arguments, **named):
        return method(self, *check(self, *arguments, **named))

    return checked


class AbstractProtocol(abc.ABC):
    """A privacy mechanism over n_categories values: P(report y | value x) = Q[y, x].

    Client and server are the same frozen object. A *report array* has one report per entry of its first axis
    (integers for GRR and explicit channels, packed bits, pairs, … elsewhere); a distinct report is a distinct row of it.

    Subclasses are final frozen dataclasses that validate every field with checks, and give the two attributes and the
    abstract members below. Those whose reports have two-level rows, with P(x ∈ support | x) = g and
    P(x ∈ support | x' ≠ x) = h, only state ``hit_rates``; the oracle and its exact variance follow.

    Attributes
    ----------
    n_categories : int
        Size a of the input alphabet.
    epsilon : float
        LDP level in nats, log max_{y,x,x'} Q[y,x] / Q[y,x']; inf where some report excludes a value.
    """

    n_categories: int
    epsilon: float

    name: ClassVar[str]  # the word for it in collection files and on the command line
    report_fields: ClassVar[tuple[str, ...]] = ("report",)  # columns of one report in a file
    file_parameters: ClassVar[str | None] = None  # what a file may state, where that is not the constructor's parameters
    registered: ClassVar[bool] = True  # whether files name it; else another class of the same name makes it from a file
    caveat: ClassVar[str] = ""  # a sentence that every fit must warn with; "{name}" is the channel's name

    def device(self, categories: Sequence[str]) -> str:
        """Return what each report stands for, in words, where a reader may mistake it; empty elsewhere.

        Parameters
        ----------
        categories : sequence of str
        """
        return ""

    def __post_init__(self) -> None:
        """Check the two fields that most protocols start with; a protocol with more of them calls this first."""
        object.__setattr__(self, "n_categories", checks.categories_count(self.n_categories))
        object.__setattr__(self, "epsilon", checks.epsilon(self.epsilon))

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for name, check in _CHECKED.items():
            if inspect.isfunction(vars(cls).get(name)):
                setattr(cls, name, _checked(vars(cls)[name], check))

    @property
    def design(self) -> str:
        """The name under which make_protocol builds this one: ``name``, or for an explicit channel that of its design."""
        return self.name

    @property
    def default_labels(self) -> tuple[str, ...]:
        """The labels of the categories where nobody states them: "0", "1", …."""
        return tuple(map(str, range(self.n_categories)))

    @property
    def beta(self) -> float:
        """β = e^ε − 1, without cancellation at small ε."""
        return math.expm1(self.epsilon)

    # ---- reports -----------------------------------------------------------------------------------------------
    @property
    def report_format(self) -> Any:
        """How reports are checked, counted, read and written: a format of ``protocols.formats``.

        None where the protocol overrides ``check_reports``, ``parse_reports`` and ``format_reports``.
        """
        return None

    def check_categories(self, categories: Sequence[str]) -> None:
        """Raise an ArgumentError where a label of a category is that of another one in what the protocol calls them.

        That are the answers of a survey design and the candidates of hashed words; other protocols have no labels.
        """
        return None

    def check_reports(self, reports: ArrayLike) -> np.ndarray:
        """Return reports as a canonical array, or raise a DataError that names the first malformed one."""
        return self.report_format.check(reports)

    def parse_reports(self, columns: Sequence, categories: Sequence[str]) -> np.ndarray:
        """Return the canonical array for one column per report field: texts, or a class of ``protocols.columns``."""
        return self.report_format.parse(columns, categories)

    def format_reports(self, reports: np.ndarray, categories: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return the text columns that parse_reports reads back."""
        return self.report_format.format(reports, categories)

    def report_columns(self, reports: np.ndarray, categories: Sequence[str]) -> Sequence:
        """Return one column per report field for a binary file: integers (m,), packed bits (m, bytes) or texts.

        By default the canonical array itself, where its columns are the fields. ``parse_reports`` reads the columns back.
        """
        if reports.ndim == 1:
            return (reports,)
        if reports.dtype == np.uint8 and len(self.report_fields) == 1:
            return (reports,)
        return tuple(reports.T)

    # ---- server ------------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def rows(self, reports: np.ndarray, counts: np.ndarray) -> "Rows":
        """Return the likelihood Rows of distinct canonical reports with counts above zero."""

    @property
    def n_outputs(self):
        """Number of possible reports b, or None where there are too many (or infinitely many) to list."""
        return None

    def all_reports(self) -> np.ndarray:
        """Return every possible report, in the order of the rows of channel()."""
        if self.n_outputs is None:
            raise InfeasibleError(f"{self} has too many possible reports to list.")
        return self.list_reports()

    def list_reports(self) -> np.ndarray:
        """Return every possible report, where ``n_outputs`` says how many there are."""
        raise NotImplementedError

    def channel(self) -> np.ndarray:
        """Return the dense channel Q[report, category], shape (b, a); columns sum to one."""
        if self.n_outputs is None or self.n_outputs * self.n_categories > MAX_CHANNEL_ENTRIES:
            raise InfeasibleError(f"{self} has too many possible reports for a dense channel; use rows().")
        reports = self.all_reports()
        rows = self.rows(reports, np.ones(len(reports)))
        return np.exp(rows.log_constants)[:, None] * rows.dense()

    def identifying_matrix(self) -> np.ndarray:
        """Return a matrix with the null space of the channel, shape (any, a): what no number of reports can tell apart.

        The channel itself unless a protocol knows a smaller one.
        """
        return self.channel()

    def has_full_rank(self) -> bool:
        """Return whether the channel is known to tell all categories apart, without being written out.

        By default where there are hit rates: g is above h.
        """
        return self.hit_rates is not None

    # ---- client ------------------------------------------------------------------------------------------------
    def privatize(self, values: ArrayLike, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return one report per value.

        Without a generator each value goes through ``privatize_one``, which draws from the operating system's entropy: this
        protects people. With one the reports are simulated, vectorized over users; these protect nobody.

        Parameters
        ----------
        values : (n,) int array
        rng : numpy.random.Generator, optional
            For simulation only.
        """
        if rng is not None:
            return self.randomize(values, rng)  # type: ignore[arg-type]  # checked there
        numbers = checks.values(values, self.n_categories)
        if not numbers.size:
            return self.randomize(numbers, np.random.default_rng(0))  # no report, in the form that reports have
        return self.check_reports(np.stack([np.asarray(self.privatize_one(int(value))) for value in numbers]))

    @abc.abstractmethod
    def randomize(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Do ``privatize`` for checked values, an int64 array that may be written over."""

    def privatize_one(self, value):
        """Return the report of one value, drawn from the operating system's entropy by exact integer arithmetic.

        The number and sizes of the draws are the same for every value and every outcome, and the outcome is selected by
        arithmetic and indexing. Running time then says next to nothing about the value; Python cannot promise that it
        says nothing, see ``ldpbayes.entropy``.
        """
        return self.randomize_one(value)

    @abc.abstractmethod
    def randomize_one(self, value: int) -> Any:
        """Do ``privatize_one`` for a checked value."""

    def rational_channel(self) -> list[list[Fraction]]:
        """Return the exact channel of privatize_one as nested lists of Fraction, [report][category] (small b only).

        It is what the client does, by going through all outcomes of its draws.
        """
        if self.n_outputs is None or self.n_outputs * self.n_categories > MAX_CHANNEL_ENTRIES:
            raise InfeasibleError(f"{self} has too many possible reports for an exact channel.")
        reports = self.check_reports(self.all_reports())
        place: dict[Hashable, int] = {np.asarray(report).tobytes(): y for y, report in enumerate(reports)}
        out = [[Fraction(0)] * self.n_categories for _ in place]
        for x in range(self.n_categories):
            for report, chance in entropy.outcomes(functools.partial(self._sent, x)).items():
                out[place[report]][x] = chance
        return out

    def _sent(self, value):
        """Return the canonical bytes of one report of a value."""
        return self.check_reports(np.asarray(self.randomize_one(value))[None]).tobytes()

    def simulate(self, true_counts: ArrayLike, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (distinct reports, counts) of a population with the given true counts; vectorized over users."""
        return self.draw_reports(checks.counts(true_counts, "true_counts", self.n_categories), checks.generator(rng))

    def draw_reports(self, true_counts: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Do ``simulate`` for checked counts; by default the report of every user is drawn."""
        if true_counts.sum() > MAX_DRAWN_USERS:
            raise InfeasibleError(
                f"Simulating {self.design} draws the report of every user, of {MAX_DRAWN_USERS:,} at most; got "
                f"{true_counts.sum():,} users."
            )
        return distinct(self.randomize(np.repeat(np.arange(self.n_categories), true_counts), rng))

    def simulate_support_counts(self, true_counts: ArrayLike, rng: np.random.Generator) -> np.ndarray:
        """Return how many reports of such a population support each category, shape (a,)."""
        reports, counts = self.simulate(true_counts, rng)
        seen = counts > 0
        return self.rows(reports[seen], counts[seen]).support_counts()

    # ---- unbiased oracle -----------------------------------------------------------------------------------------
    @property
    def hit_rates(self) -> tuple[float, float] | None:
        """(g, h) where the support of a report holds the true value w.p. g and each other one w.p. h; else None."""
        return None

    @property
    def support_sizes(self) -> np.ndarray | None:
        """P(size of the support = k), k = 0..a, where reports are exchangeable sets with rows ∝ 1 + β[x ∈ S]; else None.

        Exchangeable: given its size, a support holding x is uniform over those sets, and so is one that does not. Then
        closed forms of the theory follow from these sizes alone (they do not depend on the value).
        """
        return None

    def size_law(self) -> SizeLaw | None:
        """Return the mean and variance of ``report_sizes``, the same for every P; None where they are not known.

        By default those of ``support_sizes``. Those of local hashing hold for hashes of three categories that are
        independent: of ``hashing.key_buckets`` any two are, and three nearly.
        """
        sizes, rates = self.support_sizes, self.hit_rates
        if sizes is None or rates is None:
            return None
        k = np.arange(sizes.size)
        mean = float(k @ sizes)
        return SizeLaw(mean, float((k - mean) ** 2 @ sizes), rates[0] - rates[1])

    def report_sizes(self, reports: np.ndarray) -> np.ndarray:
        """Return the size of each canonical report, by default how many categories it supports, (m,)."""
        rows: Any = self.rows(reports, np.ones(len(reports)))
        return rows.support_sums(np.ones(self.n_categories))

    def at_level(self, epsilon: float) -> "AbstractProtocol | None":
        """Return the same design with another ε, None where its ε follows from other parameters."""
        settings = self.parameters()
        if "epsilon" not in settings:
            return None
        return type(self).from_parameters(self.default_labels, settings | {"epsilon": epsilon})

    def countable(self) -> bool:
        """Return whether so few reports are possible that any number of users is a short table of counts."""
        return self.n_outputs is not None

    def supports(self) -> Supports | None:
        """Return how the rows of a report follow from the set that it supports, where they are two-level; else None."""
        return None

    def free_bits(self) -> int | None:
        """Return how many bits a report has, where every set of them is a report; else None."""
        return None

    def unlisted(self) -> Any:
        """Return how people report whose words are no candidates, as a law of respondents, where it is known; else None."""
        return None

    def crafted(self, targets: np.ndarray) -> AbstractCrafting | None:
        """Return the reports of the maximal gain attack: those that raise the estimates of some categories most; else None.

        By default every possible report with the largest sum of scores, where reports can be listed.

        Parameters
        ----------
        targets : int array
            Positions of the categories; without any, all reports qualify.
        """
        return ListedCrafting.among(self, checks.values(targets, self.n_categories, "targets"))

    def noncompliance(self) -> Any:
        """Return this protocol where its last categories are respondents who ignore the device; else None."""
        return None

    def attribute_factors(self) -> "tuple[AbstractProtocol, ...] | None":
        """Return the protocol of every attribute where a report is a tuple of independent ones, else None."""
        return None

    def ancillaries(self) -> tuple[Ancillary, ...]:
        """Return the functions of a report whose law does not depend on P: what reports can be tested by without a fit."""
        return ()

    def pair_rates(self) -> PairRates | None:
        """Return the chances that a report supports two categories, where all pairs have the same; else None."""
        return None

    def rated(self) -> "RatedForm | None":
        """Return the protocol as a function of two rates; None where it is not described by them.

        The rates are P(a bit is one | the value sets it) and P(a bit is one | it does not), or of hashed values the chances
        of the value's own bucket and of any other one.
        """
        return None

    @property
    def owners(self) -> tuple[int | None, ...]:
        """The category that each of the last ones belongs to, None of people who ignore the device; empty elsewhere."""
        return ()

    @property
    def wrapper(self) -> str:
        """The kind of wrapper whose categories the last ones are, as ``collections.wrappers`` names it; empty elsewhere."""
        return ""

    def device_law(self) -> Any:
        """Return the law of the channel's probabilities where they are not known exactly, a DeviceLaw; else None."""
        return None

    def repeats(self) -> Any:
        """Return this protocol where a report is everything that one user sent; else None. See ``ldpbayes.repeated``."""
        return None

    def merged(self, other: "AbstractProtocol") -> "AbstractProtocol | None":
        """Return the protocol of the reports of both, or None where they cannot be in one tally."""
        return self if self == other else None

    def log_public_share(self) -> float:
        """Return the log-probability of what the rows take as given, such as a public seed: every one has the same."""
        return 0.0

    def binomials(self, reports: np.ndarray, counts: np.ndarray) -> Binomials | None:
        """Return the support counts of distinct reports where each is exactly binomial for every P; else None.

        By default those of the hit rates. Reports of cohorts have no such law: whether another value shares the support
        depends on the pair of values.

        Parameters
        ----------
        reports : array
            Canonical reports.
        counts : (m,) array
        """
        if self.hit_rates is None:
            return None
        seen = counts > 0
        supports = self.rows(reports[seen], counts[seen]).support_counts()
        hit, other = (np.full(self.n_categories, float(rate)) for rate in self.hit_rates)
        return Binomials(np.rint(supports), hit, other, int(counts.sum()))

    def decoder(self) -> AbstractDecoder | None:
        """Return what turns reports into the unbiased estimate with its exact variance; None where there is no such thing.

        By default that of the hit rates, else the least-squares inverse of a channel that is small enough.
        """
        return self._decoder

    @functools.cached_property
    def _decoder(self) -> AbstractDecoder | None:
        rates = self.hit_rates
        return self._matrix_decoder if rates is None else SupportDecoder(self.n_categories, *rates)

    @functools.cached_property
    def _matrix_decoder(self):
        b, a = self.n_outputs, self.n_categories
        if b is None or b > MAX_LISTED or b * a**2 > MAX_LISTED**3 // 16:
            return None
        return MatrixDecoder(self.channel(), ListLaw(self).tally)

    def report_law(self) -> AbstractReportLaw | None:
        """Return how reports are compared with what a distribution predicts, and simulated for that; None: not at all.

        By default all reports are counted where these are few integers, or few and without hit rates; else supports.
        """
        listed = self.n_outputs is not None and self.n_outputs <= MAX_LISTED
        if listed and (self.hit_rates is None or self.all_reports().ndim == 1):
            return ListLaw(self)
        return None if self.hit_rates is None else SupportLaw.of_rates(self, *self.hit_rates)

    def oracle(self, rows: "Rows") -> np.ndarray:
        """Return the decoder's unbiased estimate of F and of P, shape (a,); entries may be negative."""
        return needed_decoder(self).oracle(rows)

    def oracle_variance(self, p: ArrayLike, n: float, target: str = "frequency") -> np.ndarray:
        """Return the exact variance of each coordinate of the oracle at n users, shape (a,), by the decoder.

        Parameters
        ----------
        p : (a,) array
            On the simplex.
        n : int
            Number of users.
        target : {"frequency", "distribution"}
            Whether only the reports vary, or the users too.

        Returns
        -------
        (a,) array

        Raises
        ------
        ArgumentError
            If the protocol has no decoder, or p is not a distribution.
        """
        return needed_decoder(self).variance(p, checks.users(n), target)

    # ---- parameters ----------------------------------------------------------------------------------------------
    def parameters(self):
        """Return the fields other than n_categories, as a collection file states them."""
        fields = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "n_categories")
        return {key: list(value) if isinstance(value, tuple) else value for key, value in fields if value is not None}

    @classmethod
    def from_parameters(cls, categories, parameters):
        """Return the protocol over these category labels with the parameters of a collection file."""
        known = [f for f in dataclasses.fields(cls) if f.name != "n_categories"]
        needed = [f.name for f in known if f.default is f.default_factory is dataclasses.MISSING]
        check_parameters(cls.name, parameters, [f.name for f in known], needed)
        return cls(len(categories), **parameters)


@plain.register(AbstractProtocol)
def _stated(protocol: AbstractProtocol) -> dict[str, Any]:
    """Return a protocol as ``make_protocol`` takes it."""
    return {"name": protocol.design, "parameters": plain(protocol.parameters())}


class AbstractListed(AbstractProtocol):
    """A protocol whose report is one of ``n_outputs`` numbers, from zero."""

    def list_reports(self):
        return np.arange(self.n_outputs)

    @property
    def report_format(self):
        return Labels(self.n_outputs)


def passed_on(wrapped: str, name: str) -> Any:
    """Return a member of a protocol that is another one's: that of the protocol in the field ``wrapped``."""
    return property(operator.attrgetter(f"{wrapped}.{name}"))


def check_parameters(name, parameters, known, needed=()):
    """Refuse parameters that a protocol does not take, and the lack of one that it needs.

    Parameters
    ----------
    name : str
        Of the protocol.
    parameters : mapping
        Those of a file.
    known, needed : sequence of str
    """
    for key in parameters:
        if key not in known:
            raise ArgumentError(f"{name} has no parameter {shown(key)}; it takes {', '.join(known) or 'none'}.")
    for key in needed:
        if key not in parameters:
            raise ArgumentError(f"{name} needs the parameter {key!r}.")


def check_entries(n_rows: int, n_columns: int, limit: int = MAX_CHANNEL_ENTRIES) -> None:
    """Raise an InfeasibleError, before anything is allocated, where a matrix has more entries than the limit.

    Parameters
    ----------
    n_rows : int
        Reports.
    n_columns : int
        Categories.
    limit : int
        Most entries.

    Raises
    ------
    InfeasibleError
        If n_rows · n_columns is above the limit.
    """
    if n_rows * n_columns > limit:
        raise InfeasibleError(
            f"A channel of {n_rows} reports over {n_columns} categories is too large to write out (limit {limit} entries)."
        )


def independent_sizes(n_categories, hit_rates):
    """Return support_sizes where categories enter a support independently: Bernoulli(g) + Binomial(a − 1, h)."""
    g, h = hit_rates
    k = np.arange(n_categories)
    others = np.exp(log_choose(n_categories - 1, k) + k * np.log(h) + (n_categories - 1 - k) * np.log1p(-h))
    return np.convolve(others, [1 - g, g])


def largest_ratio(channel):
    """Return the exact largest ratio Q[y,x]/Q[y,x'] of a rational channel, or of whole multiples, as a Fraction, or inf."""
    largest = Fraction(1)
    for row in channel:
        high, low = max(row), min(row)
        if high and not low:
            return float("inf")
        if high:
            largest = max(largest, Fraction(high, low))
    return largest


def log_above(ratio, times=1):
    """Return the least float that is not below times·log(ratio), for an exact ratio (a Fraction) of at least one."""
    context = Context(prec=60)  # for every operation: those of the caller's context may round to a few digits
    log = context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    return float_above(Fraction(log) * times)


def float_above(exact):
    """Return the least float that is not below an exact number, a Fraction."""
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def float_below(exact):
    """Return the largest float that is not above an exact number, a Fraction."""
    return -float_above(-exact)
