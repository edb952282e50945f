"""Regression where some deny: P by covariates, and beside it the share δ who deny, one number or by a formula of its own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from ldpbayes.collections.noncompliance import deniers_stated
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import Law, NormalLaw
from ldpbayes.priors.regression import SCALE
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.channel import YES_NO
from ldpbayes.regression.beside import Beside, checked_intercept
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.reports import RowReports, cells_of


@dataclass(frozen=True)
class Honesty:
    """A design whose categories join a trait of two answers and whether respondents are honest.

    Attributes
    ----------
    columns : tuple of int
        The category of the design that each kind of people is: of each answer, and then of those who deny it.
    denied : tuple of int
        The answers that are denied, in one share where there are two.
    names : tuple of str
        Names of the categories of the design, of the labels of the answers.
    traits : tuple of str
        The answers.
    """

    columns: tuple[int, ...]
    denied: tuple[int, ...]
    names: tuple[str, ...]
    traits: tuple[str, ...] = YES_NO

    @classmethod
    def of(cls, protocol: Any, data: Any, labels: Sequence[str] | None) -> "Honesty | None":
        """Return the design that all channels are of, or None.

        Parameters
        ----------
        protocol : protocol or mapping of protocols, optional
        data : Cells or table
        labels : sequence of str, optional
            Of the answers.
        """
        cells = cells_of(data)
        channels: Iterable[Any] = protocol.values() if isinstance(protocol, Mapping) else (protocol,)
        if cells is not None:
            channels = [tally.protocol for cell in cells.collections() for tally in cell.tallies]
        designs = {channel.design for channel in channels if isinstance(channel, AbstractProtocol)}
        honesty = HONESTY.get(designs.pop()) if len(designs) == 1 else None
        return honesty if honesty is None or labels is None or len(labels) != 2 else replace(honesty, traits=tuple(labels))

    @property
    def categories(self) -> list[str]:
        """Labels of the categories of the design."""
        return [name.format(*self.traits) for name in self.names]

    def apart(self, reports: RowReports) -> RowReports:
        """Return reports with the likelihood of each kind of people in its column."""
        return replace(reports, table=reports.table[:, list(self.columns)])


#: Clark and Desharnais 1998; Moshagen, Musch and Erdfelder 2012. Cheaters may be of either answer.
HONESTY = {
    "stochastic_lie_detector": Honesty((2, 0, 1), (1,), ("{1}, honest", "{1}, lying", "{0}")),
    "cheater_detection": Honesty((1, 0, 2, 2), (0, 1), ("{1}, honest", "{0}, honest", "cheaters")),
}


def honest(protocol: Any, data: Any, labels: Any, predicts: bool) -> tuple[Honesty | None, Any]:
    """Return (the design that says who is honest or None, labels that its reports are read with); see Honesty.of.

    Parameters
    ----------
    protocol, data, labels : as in Honesty.of
    predicts : bool
        Whether the private answer is a predictor, which these designs do not serve.
    """
    honesty = Honesty.of(protocol, data, labels)
    if honesty is not None and predicts:
        raise ArgumentError("protocol must be one whose categories are the answers, where these are a predictor.")
    return honesty, labels if honesty is None or protocol is None else honesty.categories


def asked(deniers: Any, data: Any, answer: str, honesty: Honesty | None = None) -> tuple[Any, Formula | None, dict | None]:
    """Return (data, formula of δ or None where nobody denies, what ``with_deniers`` takes for a table).

    Parameters
    ----------
    deniers : str, mapping or None
        As in ``regress``.
    data : Cells or table
    answer : str
    honesty : Honesty, optional
        Of a design that says by itself who may deny what.
    """
    if honesty is not None:
        if isinstance(deniers, Mapping):
            raise ArgumentError("deniers must be a formula of δ or left out: the design says who may deny what.")
        return data, _formula("1" if deniers is None else deniers, answer), None
    cells = cells_of(data)
    denied = cells is not None and bool(cells.denied)
    if deniers is None:
        return data, Formula.parse(f"{answer} ~ 1") if denied else None, None
    if not isinstance(deniers, str | Mapping):
        raise ArgumentError(f"deniers must be a formula of δ, or a mapping with of, say and channel, got {shown(deniers)}.")
    stated = {"formula": deniers} if isinstance(deniers, str) else dict(deniers)
    formula = _formula(stated.pop("formula", "1"), answer)
    if stated or not denied:
        stated = deniers_stated(stated)
        return (data, formula, stated) if cells is None else (cells.with_deniers(**stated), formula, None)
    return data, formula, None


def _formula(terms, answer):
    """Return the formula of δ."""
    if not isinstance(terms, str):
        raise ArgumentError(f'the formula of deniers must be a text such as "age", got {shown(terms)}.')
    formula = Formula.parse(f"{answer} ~ {terms.strip().removeprefix('~')}")
    if formula.groups or formula.paths:
        raise ArgumentError("the formula of deniers must have common terms only.")
    return formula


def apart(reports: RowReports, stated: dict | None) -> RowReports:
    """Return reports of a table with the likelihood of those who deny in further columns, which those of cells have.

    Parameters
    ----------
    reports : RowReports
        With the channel of each row, of a table.
    stated : dict, optional
        What ``with_deniers`` takes, for a table.
    """
    if stated is None:
        return reports
    pooled = reports.pooled.with_deniers(**stated)
    where = {stated["channel"]} if isinstance(stated["channel"], str) else set(stated["channel"])
    assert reports.channel is not None  # of a table
    there, say = np.isin(reports.channel, list(where))[:, None], pooled.categories.index(stated["say"])
    admitted = reports.table[:, [x for x in pooled.owners if x is not None]]
    denied = np.where(there, reports.table[:, [say]], admitted)
    return replace(reports, pooled=pooled, table=np.hstack([reports.table, denied]))


class EvenLogit(NormalLaw):
    """z ~ N(0, 1), which stands for the logit of the uniform number Φ(z)."""

    def of(self, z, xp=np):
        return log_ndtr(z) - log_ndtr(-z)

    def slope(self, z):
        density = self.log_density(z)
        return np.exp(density - log_ndtr(z)) + np.exp(density - log_ndtr(-z))


@dataclass(frozen=True, eq=False)
class Denied(Beside):
    """The prior of a regression beside that of δ: logit δ_c = logit δ₀ + 2.5 Σ_k W̃_ck z_k, z standard normal.

    δ₀, where the columns W̃ are at their means, is uniform: Beta(1, 1).

    Parameters
    ----------
    denied : tuple of int
        The categories that are denied.
    one : bool
        Whether they have one δ.
    """

    denied: tuple[int, ...] = ()
    one: bool = False
    part: ClassVar[str] = "denial"
    law: ClassVar[Law] = EvenLogit()

    def __post_init__(self):
        super().__post_init__()
        checked_intercept(self.other_design, "deniers")

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        number = 1 if self.one else len(self.denied)
        return (number,), (number,)

    @property
    def owners(self) -> np.ndarray:
        return np.array([*range(self.n_categories), *self.denied])

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct rows of W̃, and which of them each cell has."""
        rows, which = np.unique(self.other_columns, axis=0, return_inverse=True)
        return rows, which.ravel()

    def denial(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return δ of every cell and category that is denied, shape (…, cells, k)."""
        rows, which = self._distinct
        delta = expit(values["denial"][..., None, :] + rows @ values["denial_slopes"])[..., which, :]
        return np.repeat(delta, len(self.denied), axis=-1) if self.one else delta

    def parts(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        delta = self.denial(values)
        out = np.ones((*delta.shape[:-1], self.n_categories + len(self.denied)))
        out[..., list(self.denied)], out[..., self.n_categories :] = 1 - delta, delta
        return out

    def pulled_parts(self, parts: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, delta = list(self.denied), parts[:, self.n_categories :]
        along = (slope[:, self.n_categories :] - slope[:, places]) * delta * (1 - delta)
        if self.one:
            along = along.sum(axis=1, keepdims=True)
        return along.sum(axis=0), self.other_columns.T @ along

    def describe(self) -> str:
        return f"{super().describe()}, δ uniform where its columns are at their means, N(0, {SCALE:g}²) for one sd of them"

    def coords(self) -> dict[str, Sequence]:
        return {**super().coords(), "denied": [self.categories[x] for x in self.denied]}

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return what a regression has, ``denial`` (of all who are of a category), and the coefficients of logit δ."""
        z, places = np.asarray(z, dtype=float), list(self.denied)

        def share(people, values):
            return (people[..., places] * self.denial(values)).sum(axis=1) / people[..., places].sum(axis=1)

        values, (mean, unit) = self.values(z), self._standard
        slopes = values["denial_slopes"] * unit[:, None]
        first = values["denial"] - (mean[:, None] * slopes).sum(axis=-2)
        coefficients = np.concatenate([first[..., None, :], slopes], axis=-2)
        if self.one:
            coefficients = np.repeat(coefficients, len(places), axis=-1)
        own = {"denial_coefficients": (("denial_term", "denied"), coefficients)}
        return super().variables(z) | own | {"denial": (("denied",), self.in_blocks(z, share, (len(places),)))}

    def stated(self, table: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        a = self.n_categories
        return {"likelihood_rows": (("code", "category"), table[:, :a]), "denied_rows": (("code", "denied"), table[:, a:])}

    def stated_columns(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return {"denial_columns": (("pattern_of_columns", "denial_term"), self.other_design)}

    def at_means(self, z: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (δ where its columns are at their means, its standard errors), of unknowns with a covariance."""
        place = self.spans[self.part]
        at, errors = z[place], np.sqrt(np.diag(covariance)[place]) * np.exp(self.law.log_density(z[place]))
        times = len(self.denied) // at.size
        return np.repeat(ndtr(at), times), np.repeat(errors, times)
