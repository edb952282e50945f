"""Regression where some deny: P by covariates, and beside it the share δ who deny, one number or by a formula of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_ndtr

from ldpbayes.collections import Cells
from ldpbayes.collections.noncompliance import deniers_stated
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import Law, NormalLaw
from ldpbayes.priors.regression import SCALE
from ldpbayes.regression.beside import Beside, checked_intercept
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.reports import RowReports


def asked(deniers: Any, data: Any, answer: str) -> tuple[Any, Formula | None, dict | None]:
    """Return (data, formula of δ or None where nobody denies, what ``with_deniers`` takes for a table).

    Parameters
    ----------
    deniers : str, mapping or None
        As in ``regress``.
    data : Cells or table
    answer : str
    """
    cells = isinstance(data, Cells)
    if deniers is None:
        return data, Formula.parse(f"{answer} ~ 1") if cells and data.denied else None, None
    if not isinstance(deniers, str | Mapping):
        raise ArgumentError(f"deniers must be a formula of δ, or a mapping with of, say and channel, got {shown(deniers)}.")
    stated = {"formula": deniers} if isinstance(deniers, str) else dict(deniers)
    terms = stated.pop("formula", "1")
    if not isinstance(terms, str):
        raise ArgumentError(f'the formula of deniers must be a text such as "age", got {shown(terms)}.')
    formula = Formula.parse(f"{answer} ~ {terms.strip().removeprefix('~')}")
    if formula.groups or formula.paths:
        raise ArgumentError("the formula of deniers must have common terms only.")
    if stated or not (cells and data.denied):
        stated = deniers_stated(stated)
        return (data.with_deniers(**stated), formula, None) if cells else (data, formula, stated)
    return data, formula, None


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
    """

    denied: tuple[int, ...] = ()
    part: ClassVar[str] = "denial"
    law: ClassVar[Law] = EvenLogit()

    def __post_init__(self):
        super().__post_init__()
        checked_intercept(self.other_design, "deniers")

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (len(self.denied),), (len(self.denied),)

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
        return expit(values["denial"][..., None, :] + rows @ values["denial_slopes"])[..., which, :]

    def parts(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        delta = self.denial(values)
        out = np.ones((*delta.shape[:-1], self.n_categories + len(self.denied)))
        out[..., list(self.denied)], out[..., self.n_categories :] = 1 - delta, delta
        return out

    def pulled_parts(self, parts: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, delta = list(self.denied), parts[:, self.n_categories :]
        along = (slope[:, self.n_categories :] - slope[:, places]) * delta * (1 - delta)
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
        own = {"denial": (("denied",), self.in_blocks(z, share, (len(places),)))}
        return super().variables(z) | own | {"denial_coefficients": (("denial_term", "denied"), coefficients)}

    def stated(self, table: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        a = self.n_categories
        return {"likelihood_rows": (("code", "category"), table[:, :a]), "denied_rows": (("code", "denied"), table[:, a:])}

    def stated_columns(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return {"denial_columns": (("pattern_of_columns", "denial_term"), self.other_design)}
