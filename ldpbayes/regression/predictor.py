"""A private answer as a predictor: an open outcome, its family, its columns for each answer, and what is asked of both."""

import abc
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, gammaln, log_expit

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.priors.regression import INTERCEPT, SCALE, moments_of
from ldpbayes.regression.design import Design
from ldpbayes.regression.formula import Apply, Formula, FrameColumn, Node, columns_of
from ldpbayes.regression.table import distinct_rows

#: The function of a formula whose argument is the private answer.
PRIVATE = "private"
_PLAIN = re.compile(r"[^\W\d][\w.]*")


class OutcomeFamily(abc.ABC):
    """A law of the outcome given its linear predictor η, in units in which η is of the order of one.

    Outcomes are (y − centre)/unit. Formulas take arrays of any shapes that go together.
    """

    name: ClassVar[str]
    #: What a coefficient changes, in words, and the name of its exponential; empty where that means nothing.
    words: ClassVar[str]
    factor: ClassVar[str] = ""
    #: What the columns of that exponential and of its interval begin with.
    key: ClassVar[str] = "factor"
    #: Whether the law has a spread of its own, whose logarithm is an unknown.
    spread: ClassVar[bool] = False
    #: Whether a mixture of two such laws shows its parts by its form, without any report.
    formed: ClassVar[bool] = True

    @abc.abstractmethod
    def units(self, y: np.ndarray, people: np.ndarray, name: str) -> tuple[float, float]:
        """Return (centre of η, unit) of outcomes that people have, or raise the DataError of what is none."""

    def standard(self, y: np.ndarray, centre: float, unit: float) -> np.ndarray:
        """Return outcomes as the other methods take them."""
        return y

    @abc.abstractmethod
    def log_density(self, y: Any, eta: Any, log_spread: Any) -> Any:
        """Return log f(y | η), without what depends on y alone."""

    @abc.abstractmethod
    def scores(self, y: Any, eta: Any, log_spread: Any) -> tuple[Any, Any]:
        """Return the derivatives of log_density in η and in the log of the spread."""

    def constant(self, y: np.ndarray, people: np.ndarray, centre: float, unit: float) -> float:
        """Return what log_density leaves out, of all people."""
        return 0.0

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Return the mean of outcomes in their own units, where η is."""
        return eta


class Normal(OutcomeFamily):
    """y ~ N(η, σ²), with one σ for all."""

    name, words, spread = "normal", "change of the mean", True

    def units(self, y, people, name):
        mean, sd = moments_of(y, people)
        if not np.ptp(y[people > 0]) > 0:
            raise DataError("has one value, so that there is nothing to explain", field=name)
        return float(mean), float(sd)

    def standard(self, y, centre, unit):
        return (y - centre) / unit

    def log_density(self, y, eta, log_spread):
        return -0.5 * ((y - eta) * np.exp(-log_spread)) ** 2 - log_spread

    def scores(self, y, eta, log_spread):
        rest = (y - eta) * np.exp(-log_spread)
        return rest * np.exp(-log_spread), rest**2 - 1

    def constant(self, y, people, centre, unit):
        return -float(people.sum()) * (0.5 * np.log(2 * np.pi) + np.log(unit))


class Bernoulli(OutcomeFamily):
    """y is 1 with probability 1/(1 + e^−η), else 0."""

    name, words, factor, formed = "bernoulli", "change of the log odds", "odds ratio", False
    key = "odds"

    def units(self, y, people, name):
        if not np.isin(y, (0, 1)).all():
            raise DataError("must hold 0 and 1, or truth values, with family='bernoulli'", field=name)
        return 0.0, 1.0

    def log_density(self, y, eta, log_spread):
        return log_expit(np.where(y > 0, eta, -eta))

    def scores(self, y, eta, log_spread):
        return y - expit(eta), 0.0

    def mean(self, eta):
        return expit(eta)


class Poisson(OutcomeFamily):
    """y ~ Poisson(e^η); the centre of η is the log of the mean outcome."""

    name, words, factor = "poisson", "change of the log mean", "ratio of means"

    def units(self, y, people, name):
        if (y < 0).any() or (y != np.round(y)).any():
            raise DataError("must hold counts 0, 1, 2, … with family='poisson'", field=name)
        if not y @ people > 0:
            raise DataError("has no count above 0, so that there is nothing to explain", field=name)
        return float(np.log(y @ people / people.sum())), 1.0

    def standard(self, y, centre, unit):
        return np.stack([y, np.full(y.shape, centre)])

    def log_density(self, y, eta, log_spread):
        eta = np.minimum(eta + y[1], 300.0)
        return y[0] * eta - np.exp(eta)

    def scores(self, y, eta, log_spread):
        return y[0] - np.exp(np.minimum(eta + y[1], 300.0)), 0.0

    def constant(self, y, people, centre, unit):
        return -float(people @ gammaln(y + 1))

    def mean(self, eta):
        return np.exp(np.minimum(eta, 300.0))


FAMILIES: Mapping[str, OutcomeFamily] = {family.name: family for family in (Normal(), Bernoulli(), Poisson())}


@dataclass(frozen=True)
class Predicted:
    """The part of a regression that has an open outcome.

    Attributes
    ----------
    formula : Formula
        ``y ~ age + private(answer)``; its left side is the outcome.
    private : Formula
        Of the private answer.
    family : OutcomeFamily
    """

    formula: Formula
    private: Formula
    family: OutcomeFamily

    @classmethod
    def asked(cls, formula: Formula, family: Any, private: Any) -> "Predicted | None":
        """Return the part that a formula with ``private(answer)`` asks for; None where it has no such term.

        Raises
        ------
        ArgumentError
            Where family or private do not go with the formula.
        """
        names = {str(one.to[0]) for one in itertools.chain(*formula.terms, *_grouping(formula)) if _is_private(one)}
        if not names:
            for what, value in (("family", family), ("private", private)):
                if value is not None:
                    raise ArgumentError(f"{what} must be left out where the formula has no term private(answer).")
            return None
        chosen = FAMILIES[checks.choice(family, "family", tuple(FAMILIES))]
        open_ = set().union(*(columns_of(one) for one in itertools.chain(*formula.terms) if not _is_private(one)))
        if formula.groups or formula.paths:
            raise ArgumentError(
                "formula must have no groups, steps or curves beside private(answer); the formula that private states may, "
                f"got {shown(formula.text)}."
            )
        if len(names) > 1 or names & open_:
            raise ArgumentError(
                f"formula must have one private(answer), whose column is no other term, got {shown(formula.text)}."
            )
        if () not in formula.terms:
            raise ArgumentError("formula must keep its intercept beside private(answer).")
        answer = names.pop()
        of_answer = _default(formula, answer) if private is None else Formula.parse(private)
        if of_answer.answer != answer or any(map(_is_private, itertools.chain(*of_answer.terms))):
            raise ArgumentError(f'private must be the formula of the private answer, such as "{answer} ~ age".')
        if formula.answer in (answer, *of_answer.variables):
            raise ArgumentError(f"private must not have the outcome {formula.answer!r} among its terms, nor be it.")
        return cls(formula, of_answer, chosen)

    @property
    def answer(self) -> str:
        """The private answer."""
        return self.private.answer

    @property
    def covariates(self) -> tuple[str, ...]:
        """The open columns of the outcome's formula."""
        return tuple(name for name in self.formula.variables if name != self.answer)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that it reads, the outcome first."""
        return self.formula.answer, *self.covariates

    def refuse(self, stated: Mapping[str, Any]) -> None:
        """Refuse columns of a sample that is no simple random one, and links: the answer has log odds."""
        for name in ("weights", "strata", "cluster", "link"):
            if stated[name] is not None:
                raise ArgumentError(f"{name} must be left out where a private answer is a predictor.")

    def of(self, cleaned: Any, reports: Any, labels: tuple[str, ...], reference: str | None) -> "OutcomeRecords":
        """Return the outcomes of a table, and their columns for each answer.

        Parameters
        ----------
        cleaned : pandas.DataFrame
            With ``columns``.
        reports : regression.reports.RowReports
            Of the same rows.
        labels : tuple of str
            Of the private answer.
        reference : str, optional
            The answer that others are compared with.
        """
        y, count = cleaned[self.formula.answer].to_numpy(), reports.count
        if y.dtype.kind not in "biuf":
            name = self.formula.answer
            said = f'must hold numbers or truth values, as an outcome; data["{name}"] == "{y[0]}" makes texts truth values'
            raise DataError(said, field=name)
        base = labels[0] if reference is None else reference
        levels = (base, *(label for label in labels if label != base)) if base in labels else labels  # else it is refused
        if reports.weighted:
            raise ArgumentError(
                "data must have no survey weights, strata or clusters where a private answer is a predictor."
            )
        first, place = distinct_rows([cleaned[name].to_numpy() for name in self.covariates], len(cleaned))
        rows = np.tile(np.bincount(place, minlength=len(first)), len(levels))
        frame = self.with_answers(cleaned.iloc[first][list(self.covariates)], levels)
        names = tuple(dict.fromkeys((*self.covariates, *self.private.variables)))
        met, person = distinct_rows([cleaned[name].to_numpy() for name in names], len(cleaned))
        people = cleaned.iloc[met][list(names)].reset_index(drop=True), np.bincount(person, count, len(met))
        design = Design(self.formula, frame, rows)
        scales = np.where(np.array(design.terms) == "Intercept", INTERCEPT, SCALE)
        return OutcomeRecords(self, design, labels, levels, y.astype(float), place, count, people, scales)

    def with_answers(self, frame: Any, levels: tuple[str, ...]) -> Any:
        """Return a frame of covariates with every answer beside each row: all rows with the first answer come first."""
        import pandas as pd

        size = len(frame)
        out = frame.iloc[np.tile(np.arange(size), len(levels))].reset_index(drop=True)
        answers = pd.Categorical(np.repeat(levels, size), levels, ordered=True)
        return out.assign(**{self.answer: answers})


@dataclass(frozen=True, eq=False)
class OutcomeRecords:
    """Outcomes with their columns, and the prior scales of these.

    Attributes
    ----------
    asked : Predicted
    design : Design
        Of every answer beside each distinct row of covariates.
    labels, levels : tuple of str
        The answers, in their order; and with that first which others are compared with.
    y : (n,) array
    place : (n,) int array
        The distinct row of covariates of each row.
    count : (n,) array
    people : pair of pandas.DataFrame and array
        The distinct rows of the covariates of both parts, and how many users have each.
    scales : (terms,) array
        Prior sd of the coefficients, for one sd of the column.
    """

    asked: Predicted
    design: Design
    labels: tuple[str, ...]
    levels: tuple[str, ...]
    y: np.ndarray
    place: np.ndarray
    count: np.ndarray
    people: tuple[Any, np.ndarray]
    scales: np.ndarray

    def under(self, scale: Any, others: tuple[str, ...]) -> tuple["OutcomeRecords", Any]:
        """Return (the records with the scales that are stated, what of these is left for the private answer).

        Parameters
        ----------
        scale : float, mapping or None
            As in ``regress``.
        others : tuple of str
            Terms of the private answer.
        """
        scales = self.scales.copy()
        if not isinstance(scale, Mapping):
            at = np.arange(scales.size) != self.intercept
            scales[at] = SCALE if scale is None else checks.positive(scale, "scale")
            return replace(self, scales=scales), scale
        rest = dict(scale)
        for name, value in scale.items():
            chosen = [k for k, term in enumerate(self.design.terms) if name in (term, term.split("[")[0])]
            scales[chosen] = checks.positive(value, f"scale of {name}")
            if chosen and not any(name in (term, term.split("[")[0]) for term in others):
                del rest[name]
        return replace(self, scales=scales), rest or None

    @cached_property
    def columns(self) -> np.ndarray:
        """X of each distinct row of covariates and answer, shape (places, a, terms)."""
        return by_answer(self.design.columns.common, self.levels, self.labels)

    @cached_property
    def transform(self) -> np.ndarray:
        """T with X T the columns that standard normal unknowns multiply, shape (terms, terms).

        Columns are centred at a person with average covariates, between the answers, and divided by their largest sd over
        the people of one answer: an indicator of the answer itself, whose sd no report says, counts as it is.
        """
        people = np.bincount(self.place, self.count, len(self.columns))
        moments = [moments_of(self.columns[:, x], people) for x in range(len(self.levels))]
        varies = np.array([np.ptp(self.columns[people > 0, x], axis=0) > 0 for x in range(len(self.levels))])
        mean = np.mean([mean for mean, _ in moments], axis=0)
        sd = np.where(varies, [sd for _, sd in moments], 0.0).max(axis=0)
        factor = self.scales / np.where(sd > 0, sd, 1.0)
        matrix, intercept = np.diag(factor), self.intercept
        matrix[intercept] = -mean * factor
        matrix[intercept, intercept] = self.scales[intercept]
        return matrix

    @property
    def intercept(self) -> int:
        return self.design.terms.index("Intercept")

    @cached_property
    def units(self) -> tuple[float, float]:
        """Centre of η and unit of the outcome."""
        return self.asked.family.units(self.y, self.count, self.asked.formula.answer)

    def effects(self) -> list[int]:
        """Return the places of the terms that are the private answer alone."""
        names = [f"{PRIVATE}({self.asked.answer})[{label}]" for label in self.levels[1:]]
        return [k for k, term in enumerate(self.design.terms) if term in names]


def by_answer(common: np.ndarray, levels: tuple[str, ...], labels: Any) -> np.ndarray:
    """Return columns (levels · rows, terms), all rows of a level together, as (rows, labels, terms)."""
    each = common.reshape(len(levels), -1, common.shape[1])
    return np.ascontiguousarray(each[[levels.index(label) for label in labels]].swapaxes(0, 1))


def stored_columns(stored: Any, kind: str) -> dict[str, np.ndarray]:
    """Return the columns of a stored group whose names begin with a word, by the rest of their names."""
    names = [str(name) for name in stored.data_vars if str(name).startswith(f"{kind} ")]
    return {name.removeprefix(f"{kind} "): stored[name].values for name in names}


def _is_private(node: Node) -> bool:
    return isinstance(node, Apply) and node.name == PRIVATE and isinstance(node.to[0], FrameColumn)


def _grouping(formula: Formula) -> list:
    return [node for pair in formula.groups for node in pair]


def _default(formula: Formula, answer: str) -> Formula:
    """Return the formula of the private answer that has the other terms of the outcome's."""
    odd = [name for name in formula.variables if not _PLAIN.fullmatch(name)]
    if odd:
        raise ArgumentError(f"private must state the formula of {answer!r} where columns have such names as {listed(odd)}.")
    terms = [term for term in formula.terms if not any(map(_is_private, term))]
    return Formula.parse(f"{answer} ~ {' + '.join(':'.join(map(str, term)) or '1' for term in terms)}")
