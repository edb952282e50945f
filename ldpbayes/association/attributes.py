"""Several attributes of one person, each answered through its own channel, without the joint channel written out."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.likelihoods import KroneckerRows
from ldpbayes.likelihoods.tensor import along_axes
from ldpbayes.protocols import bits
from ldpbayes.protocols.base import MAX_CHANNEL_ENTRIES, AbstractProtocol, float_above
from ldpbayes.protocols.columns import Integers
from ldpbayes.protocols.combine import stated
from ldpbayes.protocols.decoding import AbstractDecoder, MatrixDecoder
from ldpbayes.protocols.formats import Numbers, check_labels
from ldpbayes.protocols.grr import GRR
from ldpbayes.protocols.labels import check_factors, split_labels
from ldpbayes.protocols.registry import make_factor
from ldpbayes.protocols.unary import UnaryEncoding

#: Format: Bits that the code of a set may have.
MAX_BITS = 62
#: What one attribute may be answered with in the collecting schemes.
BASES = {"grr": GRR, "oue": UnaryEncoding.optimized, "sue": UnaryEncoding.symmetric}


class AbstractAttributes(AbstractProtocol):
    """Several attributes of one person: a report has a code for each.

    Attributes
    ----------
    sizes : tuple of int
        Number of categories of each attribute.
    coded : tuple of Coded
        The reports of every attribute as codes.
    separator : str
        Joins the attributes' labels in those of the cells.
    """

    if TYPE_CHECKING:  # a field of some members and a property of others

        @property
        def sizes(self) -> tuple[int, ...]: ...

    separator = "/"

    @property
    @abc.abstractmethod
    def coded(self) -> tuple["Coded", ...]: ...

    @property
    def n_outputs(self):
        outputs = math.prod(coder.n_codes for coder in self.coded)
        return outputs if outputs * self.n_categories <= MAX_CHANNEL_ENTRIES else None

    def list_reports(self):
        return np.array(list(product(*(range(coder.n_codes) for coder in self.coded))), dtype=np.int64)

    def check_reports(self, reports):
        return Numbers(self.report_fields, tuple(coder.n_codes for coder in self.coded)).check(reports)

    @property
    def report_fields(self):
        """Columns of one report in a file: one for each attribute."""
        d = len(self.sizes)
        return ("report",) if d == 1 else tuple(f"report_{k}" for k in range(1, d + 1))

    def check_categories(self, categories):
        check_factors([coder.protocol for coder in self.coded], categories, (self.separator,))

    def labels_of(self, categories):
        """Return the labels of every attribute from those of the cells; its own where these are not joined labels."""
        labels = split_labels(categories, self.sizes, self.separator)
        return [coder.protocol.default_labels for coder in self.coded] if labels is None else labels

    def parse_reports(self, columns, categories):
        each = zip(self.coded, columns, self.labels_of(categories), strict=True)
        return np.stack([coder.parse(column, labels) for coder, column, labels in each], axis=1)

    def format_reports(self, reports, categories):
        labels = self.labels_of(categories)
        return [coder.format(codes, names) for coder, codes, names in zip(self.coded, reports.T, labels, strict=True)]

    def coded_rows(self, reports):
        """Yield (attribute's protocol, rows of its distinct codes, their log constants, place of each report's code)."""
        for coder, codes in zip(self.coded, np.asarray(reports).T, strict=True):
            distinct, place = np.unique(codes, return_inverse=True)
            yield coder, *coder.rows(distinct), place

    def report_columns(self, reports, categories):
        """Return texts: the numbers of an attribute's reports are no reports of its protocol."""
        return self.format_reports(reports, categories)


@dataclass(frozen=True)
class Attributes(AbstractAttributes):
    """Several answers of a person, each through a device of its own, as one joint table.

    Q = Q¹ ⊗ … ⊗ Q^d over the cells of the joint table.

    ε of the whole record is the sum of the attributes' ε. With every attribute at ε/d this is the scheme SPL, which splits
    the level among all attributes. Every association of the attributes is identified where every channel has full rank.

    Parameters
    ----------
    factors : sequence of protocols
        One for each attribute; their reports are single numbers (randomized response, survey designs, explicit channels) or
        sets of bits over at most 62 categories (unary encodings).
    separator : str
        Joins the attributes' labels in those of the cells.

    Notes
    -----
    A report is a row of d codes: a number, or a set as the integer of its bits; in a file it has a column for each
    attribute, report_1 to report_d unless the file names them. In a collection file the parameters are
    {factors}, a list of tables with a protocol and its parameters, or {epsilon, sizes, base} for SPL, with base "grr",
    "oue" or "sue". The last attribute varies fastest among the cells.

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), §7; Arcolezi et al. (2021), CIKM, §3.1, on splitting the level.

    Examples
    --------
    >>> pair = Attributes.split((2, 3), epsilon=2.0, base="grr")
    >>> pair.n_categories, pair.n_outputs, round(pair.epsilon, 9), round(pair.attribute_epsilon, 9)
    (6, 6, 2.0, 1.0)
    """

    factors: tuple[AbstractProtocol, ...]
    separator: str = "/"
    name: ClassVar[str] = "attributes"
    file_parameters: ClassVar[str] = "factors = [{protocol, its parameters}, …]; or epsilon, sizes, base (grr, oue or sue)"

    @cached_property
    def coded(self) -> tuple["Coded", ...]:
        """The reports of every attribute as codes."""
        return tuple(Coded(factor) for factor in self.factors)

    def __post_init__(self):
        factors = tuple(self.factors) if isinstance(self.factors, (list, tuple)) else ()
        if not factors or not all(isinstance(factor, AbstractProtocol) for factor in factors):
            raise ArgumentError(f"factors must be a list of protocols, one for each attribute, got {shown(self.factors)}.")
        if not isinstance(self.separator, str) or not self.separator:
            raise ArgumentError(f"separator must be a text, got {shown(self.separator)}.")
        object.__setattr__(self, "factors", factors)
        self.coded  # noqa: B018 (refuses what has no codes)
        checks.attribute_sizes(self.sizes)

    @classmethod
    def split(cls, sizes: Sequence[int], epsilon: float, base: str, separator: str = "/") -> "Attributes":
        """Return SPL: every attribute at ε/d.

        Parameters
        ----------
        sizes : sequence of int
            Number of categories of each attribute.
        epsilon : float
            Level of the whole record.
        base : {"grr", "oue", "sue"}
        separator : str

        Returns
        -------
        Attributes

        Raises
        ------
        ArgumentError
            On a size, a level or a base that is none.
        """
        sizes = checks.attribute_sizes(sizes)
        level = checks.epsilon(epsilon) / len(sizes)
        while Fraction(level) * len(sizes) > Fraction(epsilon):
            level = math.nextafter(level, 0.0)
        make = BASES[checks.choice(base, "base", tuple(BASES))]
        return cls(tuple(make(size, level) for size in sizes), separator)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each attribute."""
        return tuple(factor.n_categories for factor in self.factors)

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of cells of the joint table."""
        return math.prod(self.sizes)

    @cached_property
    def epsilon(self) -> float:  # type: ignore[override]
        levels = [factor.epsilon for factor in self.factors]
        return math.inf if math.inf in levels else float_above(sum(map(Fraction, levels)))

    @property
    def attribute_epsilon(self) -> float:
        """Level at which any one attribute is protected while the others stay as they are."""
        return max(factor.epsilon for factor in self.factors)

    # ---- server ----------------------------------------------------------------------------------------------------------
    def rows(self, reports, counts):
        factors, index, log_constants = [], [], 0.0
        for _, matrix, constants, place in self.coded_rows(reports):
            excess = np.minimum(constants + 300.0, 0.0)  # what would leave the range of floats stays a logarithm
            factors.append(matrix * np.exp(constants - excess)[:, None])
            index.append(place)
            log_constants = log_constants + excess[place]
        return KroneckerRows(factors, np.stack(index, axis=1), counts, log_constants)

    def has_full_rank(self):
        return all(coder.has_full_rank() for coder in self.coded)

    def attribute_factors(self):
        return self.factors

    @cached_property
    def _decoder(self):
        return KroneckerDecoder(self)

    # ---- client ----------------------------------------------------------------------------------------------------------
    def randomize(self, values, rng):
        levels = np.unravel_index(values, self.sizes)
        return np.stack([coder.privatize(x, rng) for coder, x in zip(self.coded, levels, strict=True)], axis=1)

    def randomize_one(self, value):
        levels = np.unravel_index(value, self.sizes)
        return np.array([coder.privatize_one(int(x)) for coder, x in zip(self.coded, levels, strict=True)], dtype=np.int64)

    # ---- parameters ------------------------------------------------------------------------------------------------------
    def parameters(self):
        return {"factors": [stated(factor) for factor in self.factors], "separator": self.separator}

    @classmethod
    def from_parameters(cls, categories, parameters):
        given = dict(parameters)
        separator = given.pop("separator", "/")
        if set(given) == {"factors"} and isinstance(given["factors"], list):
            return cls(tuple(make_factor(t, None, f"factor {i}") for i, t in enumerate(given["factors"], 1)), separator)
        if set(given) == {"epsilon", "sizes", "base"}:
            return cls.split(**given, separator=separator)
        raise ArgumentError(
            f"attributes takes factors, a list of tables; or epsilon, sizes and base; got {', '.join(given) or 'none'}."
        )


class Coded:
    """One attribute's protocol whose reports are written as whole numbers.

    Parameters
    ----------
    protocol : AbstractProtocol
        Its reports are single numbers, or free sets of at most MAX_BITS bits.
    """

    def __init__(self, protocol: AbstractProtocol):
        self.protocol: Any = protocol  # unary encodings have more methods than every protocol
        self.bits = protocol.free_bits()
        if self.bits is None:
            listed = protocol.n_outputs is not None and protocol.n_outputs <= MAX_CHANNEL_ENTRIES
            if not listed or protocol.all_reports().ndim != 1:
                raise ArgumentError(
                    "An attribute must be answered by a protocol whose report is one number or a set of bits, such as grr, "
                    f"a survey design or unary, got {protocol.design}."
                )
        elif self.bits > MAX_BITS:
            raise ArgumentError(f"An attribute with a set of bits has at most {MAX_BITS} categories, got {self.bits}.")
        self.n_codes = protocol.n_outputs if self.bits is None else 2**self.bits

    def encode(self, reports):
        """Return the codes of canonical reports, shape (m,)."""
        return np.asarray(reports, dtype=np.int64) if self.bits is None else bits.codes_of(reports, self.bits)

    def decode(self, codes):
        """Return the canonical reports of codes."""
        return np.asarray(codes, dtype=np.int64) if self.bits is None else bits.of_codes(codes, self.bits)

    def parse(self, column, labels):
        """Return the codes of a column of reports: as the protocol reads them, or whole numbers that are codes of sets."""
        if self.bits is not None and isinstance(column, Integers) and not column.labelled and not column.boolean:
            return check_labels(column.values, self.n_codes)
        return self.encode(self.protocol.parse_reports([column], labels))

    def format(self, codes, labels):
        return self.protocol.format_reports(self.decode(codes), labels)[0]

    def rows(self, codes):
        """Return (L, log constants) of some codes: P(code | x) = exp(constant) L_x."""
        rows = self.protocol.rows(self.decode(codes), np.ones(len(codes)))
        return rows.dense(), np.array(rows.log_constants)

    def privatize(self, values, rng) -> np.ndarray:
        return self.encode(self.protocol.privatize(values, rng))

    def privatize_one(self, value):
        return self.encode_one(self.protocol.privatize_one(value))

    def encode_one(self, report):
        """Return the code of one report."""
        return int(report) if self.bits is None else int.from_bytes(bytes(report), "big") >> (8 * len(report) - self.bits)

    def has_full_rank(self):
        if self.protocol.has_full_rank():
            return True
        return np.linalg.matrix_rank(self.protocol.identifying_matrix()) == self.protocol.n_categories


class KroneckerDecoder(AbstractDecoder):
    """F̂ = (M¹ ⊗ … ⊗ M^d) S/n, M^k the least-squares inverse of channel k; with its D, also that of the joint channel.

    Parameters
    ----------
    protocol : Attributes
    """

    def __init__(self, protocol: Attributes):
        self.protocol, self.n_categories = protocol, protocol.n_categories

    @cached_property
    def _inverses(self):
        return [MatrixDecoder(factor.channel()) for factor in self.protocol.factors]

    @cached_property
    def rank(self):
        """Product of the ranks of the channels."""
        return self.n_categories if self.protocol.has_full_rank() else math.prod(part.rank for part in self._inverses)

    def oracle(self, rows):
        self._require_rank("a channel", "this one has")
        return rows.backward(self._scores(rows), rows.counts) / rows.n_reports

    def scores(self, rows, weights):
        return None if self.rank < self.n_categories else rows.forward(self._scores(rows), np.asarray(weights, dtype=float))

    def _scores(self, rows):
        """Return what every distinct report of each attribute adds to the estimates of its levels."""
        pairs = zip(self._inverses, rows.factors, strict=True)
        return [decoder.solved((factor / factor.mean(axis=1, keepdims=True)).T).T for decoder, factor in pairs]

    def variance(self, p, n, target="frequency"):
        # E[M_y²] = ⊗ (M^k∘M^k) Q^k p, of which given the users E[M_y | x]² = [x' = x] varies not.
        self._require_rank("a channel", "this one has")
        p = self._checked(p, target)
        square = along_axes([decoder.inverse**2 @ decoder.matrix for decoder in self._inverses], p[None])[0]
        return (square - (p if target == "frequency" else p**2)) / n

    def linear_system(self, reports, counts):
        decoder = self.protocol._matrix_decoder
        return None if decoder is None else decoder.linear_system(reports, counts)
