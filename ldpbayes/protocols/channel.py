"""Any explicit channel matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ldpbayes import checks, entropy
from ldpbayes.arrays import groups_of
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.likelihoods import DenseRows
from ldpbayes.protocols.base import (
    AbstractListed,
    Binomials,
    check_entries,
    check_parameters,
    largest_ratio,
    log_above,
)
from ldpbayes.protocols.decoding import MatrixDecoder
from ldpbayes.protocols.formats import Labels
from ldpbayes.protocols.labels import Places, check_factors, check_order
from ldpbayes.protocols.laws import ListLaw
from ldpbayes.protocols.registry import DESIGNS, make_factor
from ldpbayes.protocols.uncertain import DeviceLaw, laws_in

#: Display: Channels with at most so many reports and categories are said in words.
MAX_SAID = 4
YES_NO = ("no", "yes")
#: Survey designs whose respondents answer in words of the categories.
_OF_CATEGORIES = {"direct", "warner", "forced_response", "unrelated_question"}
#: Parameters of survey designs that are shares of several things; all others are one probability.
_SHARES = {"forced", "shares"}


def _share(chance):
    """Return a probability in words: "all", "3 of 4", "17.5 of 100"."""
    if chance == 1:
        return "all"
    simple = Fraction(chance).limit_denominator(100)
    return f"{simple.numerator} of {simple.denominator}" if abs(simple - chance) < 1e-9 else f"{100 * chance:.3g} of 100"


class AbstractMatrix(AbstractListed):
    """A protocol that is its channel, written out.

    Attributes
    ----------
    matrix : (b, a) array
        Q[report, category]; columns sum to one.
    """

    matrix: Any

    @property
    def n_outputs(self):
        return self.matrix.shape[0]

    def rows(self, reports, counts):
        return DenseRows(self.matrix[reports], counts)

    def channel(self) -> np.ndarray:
        return self.matrix

    def randomize(self, values, rng):
        out = np.empty(values.size, dtype=np.int64)
        cumulative = self.matrix.cumsum(axis=0)
        for x, group in groups_of(values):
            out[group] = np.searchsorted(cumulative[:-1, x], rng.random(group.size), side="right")
        return out

    def randomize_one(self, value):
        bits, columns = self._thresholds
        draw = entropy.word(bits)
        return sum([entropy.passed(draw, threshold, bits) for threshold in columns[value]])

    def rational_channel(self):
        unit = 2 ** self._thresholds[0]
        return [[Fraction(share, unit) for share in row] for row in self._shares]

    @property
    def _shares(self):
        """The rational channel times 2 to the bits of the client's draw: whole numbers."""
        bits, columns = self._thresholds
        columns = [(0, *thresholds, 2**bits) for thresholds in columns]
        return [[column[y + 1] - column[y] for column in columns] for y in range(self.n_outputs)]

    def draw_reports(self, true_counts, rng):
        """Return (every report, counts): one multinomial per category, O(a b) for any number of users."""
        return self.all_reports(), rng.multinomial(true_counts, self.matrix.T).sum(axis=0)

    @cached_property
    def _thresholds(self):
        """Bits of the client's one draw, and for each category the draws at which the second and later reports start.

        An entry of the matrix is a double, that is an integer over a power of two, and a column of them adds up to one
        only to rounding. Thresholds are the column's exact cumulative shares, rounded to the bits of the draw: those of
        the smallest entry and entropy.BITS more. A column that adds up to one exactly is therefore sampled exactly.
        """
        columns = [[q.as_integer_ratio() for q in column] for column in self.matrix.T.tolist()]
        smallest = max(below.bit_length() - 1 for column in columns for _, below in column)
        bits = entropy.steady(entropy.BITS + smallest)
        out = []
        for column in columns:
            whole = [above * (2**smallest // below) for above, below in column]
            total = sum(whole)
            out.append([(part << bits) // total for part in accumulate(whole[:-1])])
        return bits, out


@dataclass(frozen=True, eq=False)
class Channel(AbstractMatrix):
    """Any device whose probabilities are known: a matrix Q[report, category]; every survey design is one.

    Parameters
    ----------
    matrix : (b, a) array
        Non-negative; each column sums to one within 1e-9 and is then divided by its sum.
    answers : tuple of str, optional
        Labels of the b reports as they stand in files; "0", "1", … by default.
    design : str
        Name of the constructor in a collection file, "channel" for a plain matrix.
    settings : dict
        The constructor's parameters, as a collection file states them.
    validated : (b, a) array, optional
        Counts of a validation study: validated[y, x] reports y of people who are known to be x. The columns are then not
        known exactly: column x ~ Dirichlet(validated[:, x] + 1). ``matrix`` may be left out; a zero in it says that the
        report never comes, and it becomes the mean of the law.
    law : DeviceLaw, optional
        Of a design with an ``Uncertain`` parameter; its constructor makes it.

    Raises
    ------
    ArgumentError
        On a matrix, answers or counts that break these rules.

    Notes
    -----
    The oracle is the weighted least-squares inverse (Qᵀ D⁻¹ Q)⁻¹ Qᵀ D⁻¹ S/n with D = diag(Q 1/a): affine and unbiased,
    the plain inverse when Q is square. It needs rank a.
    """

    matrix: np.ndarray = None  # type: ignore[assignment]  # that of the counts by default
    answers: tuple[str, ...] = None  # type: ignore[assignment]  # the numbers of the reports by default
    design: str = "channel"
    settings: dict = field(default_factory=dict)
    validated: np.ndarray | None = None
    law: DeviceLaw | None = field(default=None, repr=False)
    name: ClassVar[str] = "channel"
    file_parameters: ClassVar[str | None] = "matrix, answers, validated = counts (reports, categories)"

    if TYPE_CHECKING:  # anything like an array goes in; arrays come out

        def __init__(
            self,
            matrix: ArrayLike | None = None,
            answers: Sequence[str] | None = None,
            design: str = "channel",
            settings: dict[str, Any] = ...,
            validated: ArrayLike | None = None,
            law: DeviceLaw | None = None,
        ) -> None: ...

    def __post_init__(self):
        if self.validated is not None:
            self._set_law()
        rule = "rectangular and numeric: one row a report, one column a category"
        matrix = checks.reals(self.matrix, "matrix", rule, ndim=None, finite=False)
        if matrix.ndim != 2 or matrix.shape[1] < 2 or matrix.shape[0] < 1:
            raise ArgumentError(f"matrix must be (reports, categories) with at least two categories, got {matrix.shape}.")
        if not np.isfinite(matrix).all() or (matrix < 0).any():
            raise ArgumentError("matrix must hold probabilities: finite and not negative.")
        sums = matrix.sum(axis=0)
        if (np.abs(sums - 1) > 1e-9).any():
            x = int(np.abs(sums - 1).argmax())
            raise ArgumentError(f"matrix must have columns that sum to 1, got {sums[x]:.12g} in column {x}.")
        answers = check_answers(self.answers if self.answers is not None else range(len(matrix)))
        if len(answers) != len(matrix) or len(set(answers)) != len(answers):
            raise ArgumentError(
                f"answers must be {len(matrix)} distinct labels, one per row of matrix, got {shown(answers)}."
            )
        matrix = matrix / sums
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "answers", answers)

    def _set_law(self):
        """Make the law of the columns from the counts of a validation study, and the matrix its mean."""
        counts = checks.reals(self.validated, "validated", "numbers, one row a report, one column a category", ndim=None)
        if counts.ndim != 2 or min(counts.shape) < 2 or (counts < 0).any():
            raise ArgumentError(
                f"validated must be (reports, categories), two or more each, not negative, got {shown(self.validated)}."
            )
        if (counts != np.floor(counts)).any():
            raise ArgumentError(
                f"validated must be whole numbers of trials, got {shown(self.validated)}; shares are the matrix."
            )
        if not counts.any():
            raise ArgumentError("validated must have a trial: all of them are 0.")
        stated = counts.shape if self.matrix is None else np.shape(self.matrix)
        if stated != counts.shape:
            raise ArgumentError(f"validated must have the shape of matrix, {stated}, got {counts.shape}.")
        possible = np.ones(counts.shape, bool) if self.matrix is None else np.asarray(self.matrix, dtype=float) > 0
        if (counts[~possible] > 0).any() or not possible.any(axis=0).all():
            raise ArgumentError("validated must be 0 where matrix is, and every category must have a report.")
        check_entries(counts.shape[0], counts.size)
        law = DeviceLaw.of_counts(counts, possible)
        counts.setflags(write=False)
        object.__setattr__(self, "validated", counts)
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "matrix", law.mean)

    def __eq__(self, other):
        same = isinstance(other, Channel) and self.answers == other.answers and self.design == other.design
        return same and np.array_equal(self.matrix, other.matrix) and self.law == other.law

    def rows(self, reports, counts):
        self.require_known()
        return super().rows(reports, counts)

    def require_known(self) -> None:
        """Raise an InfeasibleError where the probabilities are not known exactly."""
        if self.law is not None:
            raise InfeasibleError(
                f"The probabilities of {self.design} are not known exactly. Such a device goes with fit, check, crosscheck, "
                "regress and planning.validation; observe takes a tensor as channel; all else needs the device's known()."
            )

    def known(self) -> "Channel":
        """Return this channel with its probabilities known, at the means of their laws; a survey design stays one."""
        laws = laws_in(self.settings)
        if self.design not in DESIGNS or not laws:
            return Channel(self.matrix, self.answers)
        means = {name: law.mean.tolist() if name in _SHARES else float(law.mean[0]) for name, law in laws.items()}
        try:
            return DESIGNS[self.design](**self.settings | means)  # equal to what a file that states them makes
        except ArgumentError:  # means at which the design is none, such as a half in Warner's
            return Channel(self.matrix, self.answers)

    def device_law(self):
        return self.law

    def __hash__(self):
        return hash((self.matrix.tobytes(), self.answers, self.design))

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of columns of the matrix."""
        return self.matrix.shape[1]

    @property
    def default_labels(self):
        """The answers of a survey design that asks for the category; no and yes where another asks about one attribute."""
        if self.design in _OF_CATEGORIES and all(self.answers):
            return self.answers
        return YES_NO if self.design in DESIGNS and self.n_categories == 2 else super().default_labels

    @cached_property
    def epsilon(self) -> float:  # type: ignore[override]
        ratio = largest_ratio(self._shares)
        return math.inf if ratio == math.inf else log_above(ratio)

    @cached_property
    def _matrix_decoder(self):
        self.require_known()
        return MatrixDecoder(self.matrix, ListLaw(self).tally)

    def device(self, categories):
        """Return who gives each report, where reports are few: the last of two says it all."""
        b, a = self.matrix.shape
        if b > MAX_SAID or a > MAX_SAID or (b == a and np.array_equal(self.matrix, np.eye(a))):
            return ""
        said = []
        for row in range(1 if b == 2 else 0, b):
            order = [x for x in np.argsort(-self.matrix[row], kind="stable") if self.matrix[row, x] > 0]
            about = "" if self.law is None else "about "
            who = [f"{about}{_share(self.matrix[row, x])} in {categories[x]!r}" for x in order]
            named = " and ".join([*([", ".join(who[:-1])] if who[:-1] else []), who[-1]]) if who else ""
            named = f"before the reports, {named}" if about and named and not said else named
            said.append(
                f"{named[0].upper()}{named[1:]} say {self.answers[row]!r}."
                if named
                else f"Nobody says {self.answers[row]!r}."
            )
        return " ".join(said)

    @property
    def report_format(self):
        return Labels(self.n_outputs, self.answers, self.design in _OF_CATEGORIES and Places(self.answers).counted)

    def check_categories(self, categories):
        if self.design == "channel":
            return  # the rows of a plain matrix may have any order, those of a design belong to its categories
        settings = self.settings
        if self.design == "item_count":
            traits = [label.rsplit("/", np.size(settings["items"]))[0] for label in categories]
            categories = tuple(dict.fromkeys(traits)) if settings["group"] == "direct" else categories
        of_categories = self.design in _OF_CATEGORIES or len(categories) < self.n_categories
        if not (of_categories and Places(self.answers).counted):
            check_order(categories, self.answers, f"answers of {self.design}", whole=not of_categories)
        if self.default_labels == YES_NO:  # the others, then the carriers, whatever these answer
            check_order(categories, YES_NO, f"categories of {self.design}")
        if self.design in ("product", "mixture"):
            for i, table in enumerate(settings["factors"], 1):
                make_factor(table, self.n_categories, f"factor {i}").check_categories(categories)
        elif self.design == "compose":
            make_factor(settings["inner"], self.n_categories, "inner").check_categories(categories)
        elif self.design == "kronecker":
            check_factors(self.attribute_factors(), categories, {settings["separator"], "/"})

    def parse_reports(self, columns, categories):
        self.check_categories(categories)
        same = self.n_outputs == self.n_categories and (self.design == "channel" or not Places(self.answers).counted)
        return super().parse_reports(columns, categories if same or self.report_format.categories else ())

    def binomials(self, reports, counts):
        """Return how many reports are likelier than the average under each value, where that has one chance elsewhere.

        The support of x are the reports y with Q[y, x] above the mean of their row. Two categories, forced response, GRR
        and block designs have supports that all other values hit with one probability.
        """
        if self.law is not None:
            return None
        supports = self.matrix > self.matrix.mean(axis=1, keepdims=True)
        chances = supports.T.astype(float) @ self.matrix
        hit = np.diag(chances).copy()
        rest = chances[~np.eye(len(hit), dtype=bool)].reshape(len(hit), -1)
        if (np.ptp(rest, axis=1) > 1e-12).any() or (hit - rest.max(axis=1) < 1e-12).any():
            return None
        return Binomials(supports[reports].T.astype(float) @ counts, hit, rest.mean(axis=1), int(np.sum(counts)))

    def attribute_factors(self):
        if self.design != "kronecker":
            return None
        return tuple(make_factor(table, None, f"factor {i}") for i, table in enumerate(self.settings["factors"], 1))

    def parameters(self):
        if self.design != "channel":
            return dict(self.settings) | {name: law.setting() for name, law in laws_in(self.settings).items()}
        answers = {"answers": list(self.answers)}
        if self.validated is None:
            return {"matrix": self.matrix.tolist()} | answers
        whole = self.validated if (self.validated % 1).any() else self.validated.astype(np.int64)
        impossible = {} if self.matrix.all() else {"matrix": self.matrix.tolist()}
        return impossible | {"validated": whole.tolist()} | answers

    @classmethod
    def from_parameters(cls, categories, parameters):
        validated = parameters.get("validated")
        check_parameters(cls.name, parameters, ("matrix", "answers", "validated"), () if validated else ("matrix",))
        channel = cls(parameters.get("matrix"), parameters.get("answers"), validated=validated)
        if categories is not None and channel.n_categories != len(categories):
            raise ArgumentError(f"matrix must have one column per category ({len(categories)}), got {channel.n_categories}.")
        return channel


def check_answers(answers):
    """Return labels of reports as a tuple of str, from a sequence of texts or numbers (one text is not a sequence)."""
    labels = () if isinstance(answers, str) else checks.entries(answers, "answers", "a list of labels")
    if not labels or not all(isinstance(label, (str, int, np.integer)) for label in labels):
        raise ArgumentError(f"answers must be a list of labels, got {shown(answers)}.")
    return tuple(map(str, labels))
