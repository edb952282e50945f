"""Regression where some deny: P by covariates, and beside it the share δ who deny, one number or by a formula of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_ndtr

from ldpbayes.collections import Cells
from ldpbayes.collections.noncompliance import deniers_stated
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.priors.base import Law, NormalLaw
from ldpbayes.priors.regression import SCALE, Regression
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.reports import Reports
from ldpbayes.regression.target import Target

#: Numbers that a block of draws × entries may hold.
BLOCK = 2**22


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


def apart(reports: Reports, stated: dict | None) -> Reports:
    """Return reports with the likelihood of those who deny in columns of their own.

    Parameters
    ----------
    reports : Reports
        Of cells, with these columns last; of a table, with the channel of each row.
    stated : dict, optional
        What ``with_deniers`` takes, for a table.
    """
    if stated is None:
        a = len(reports.pooled.answers)
        return replace(reports, table=reports.table[:, :a], denied=reports.table[:, a:])
    pooled = reports.pooled.with_deniers(**stated)
    where = {stated["channel"]} if isinstance(stated["channel"], str) else set(stated["channel"])
    assert reports.channel is not None  # of a table
    there, say = np.isin(reports.channel, list(where))[:, None], pooled.categories.index(stated["say"])
    admitted = reports.table[:, [x for x in pooled.owners if x is not None]]
    return replace(reports, pooled=pooled, denied=np.where(there, reports.table[:, [say]], admitted))


@dataclass(frozen=True, eq=False)
class Denied(Regression):
    """The prior of a regression beside that of δ: logit δ_c = logit Φ(z₀) + 2.5 Σ_k W̃_ck z_k, z standard normal.

    The columns W̃ are centred and divided by their sd, so that δ is uniform where they are at their means: Beta(1, 1).

    Parameters
    ----------
    denied : tuple of int
        The categories that are denied.
    denial_design : (cells, terms) array
        W, the first column of which is ones.
    denial_terms : tuple of str
    """

    denied: tuple[int, ...] = ()
    denial_design: np.ndarray = field(default_factory=lambda: np.ones((1, 1)))
    denial_terms: tuple[str, ...] = ("Intercept",)

    def __post_init__(self):
        super().__post_init__()
        if not (self.denial_design[:, 0] == 1).all():
            raise ArgumentError("the formula of deniers must keep its intercept.")

    @cached_property
    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of the columns of W but the first, and what a unit of z changes the logit by for one unit of them."""
        columns = self.denial_design[:, 1:]
        assert self.sizes is not None
        weight = self.sizes / self.sizes.sum()
        mean = weight @ columns
        sd = np.sqrt(weight @ (columns - mean) ** 2)
        return mean, SCALE / np.where(sd > 1e-12 * np.abs(columns).max(axis=0, initial=0.0), sd, 1.0)

    @cached_property
    def denial_columns(self) -> np.ndarray:
        """2.5 W̃, without the intercept, shape (cells, terms − 1)."""
        return (self.denial_design[:, 1:] - self._standard[0]) * self._standard[1]

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        return {**super().blocks(), "denial": (NormalLaw(), (self.denial_design.shape[1], len(self.denied)))}

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        return super().pulled(values, slope) | {"denial": np.zeros_like(values["denial"])}

    def _of_denial(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (logit of δ at the means (…, k), the other unknowns (…, terms − 1, k))."""
        own = self.values(np.asarray(z, dtype=float))["denial"]
        return log_ndtr(own[..., 0, :]) - log_ndtr(-own[..., 0, :]), own[..., 1:, :]

    def denial(self, z: np.ndarray) -> np.ndarray:
        """Return δ of every cell and category that is denied, shape (…, cells, k)."""
        middle, slopes = self._of_denial(z)
        return expit(middle[..., None, :] + self.denial_columns @ slopes)

    def describe(self) -> str:
        return f"{super().describe()}, δ uniform where its columns are at their means, N(0, {SCALE:g}²) for one sd of them"

    def coords(self) -> dict[str, Sequence]:
        labels = [self.categories[x] for x in self.denied]
        return {**super().coords(), "denied": labels, "denial_term": list(self.denial_terms)}

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return what a regression has, ``denial`` (of all who are of a category), and the coefficients of logit δ."""
        z = np.asarray(z, dtype=float)
        (middle, slopes), (mean, unit) = self._of_denial(z), self._standard
        slopes = slopes * unit[:, None]
        first = middle - (mean[:, None] * slopes).sum(axis=-2)
        coefficients = np.concatenate([first[..., None, :], slopes], axis=-2)
        share, step, sizes = np.empty((len(z), len(self.denied))), max(BLOCK // self.design.size, 1), np.asarray(self.sizes)
        for start in range(0, len(z), step):
            part = slice(start, start + step)
            people = sizes[:, None] * self.to_simplex(z[part])[..., list(self.denied)]
            share[part] = (people * self.denial(z[part])).sum(axis=1) / people.sum(axis=1)
        own = {"denial": (("denied",), share), "denial_coefficients": (("denial_term", "denied"), coefficients)}
        return super().variables(z) | own


@dataclass(frozen=True, eq=False)
class DeniedTarget(Target):
    """The target of a regression whose rows hang on δ: (1 − δ) times those who admit, δ times those who deny.

    Attributes
    ----------
    denied_rows : (m, k) array
        The likelihood of the reports for those who deny.
    """

    prior: Denied
    denied_rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    #: There is no compiled density.
    kernel: ClassVar[Any] = None  # type: ignore[misc]  # a property of what is compiled

    def rows_at(self, z: np.ndarray, cell: np.ndarray, code: np.ndarray) -> np.ndarray:
        places, found = list(self.prior.denied), self.entries.table[code]
        delta = self.prior.denial(z)[..., cell, :]
        found = np.array(np.broadcast_to(found, (*delta.shape[:-1], found.shape[-1])))
        found[..., places] += delta * (self.denied_rows[code] - found[..., places])
        return found

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        prior, e, places = self.prior, self.entries, list(self.prior.denied)
        p, delta, rows = prior.to_simplex(z), prior.denial(z), self.rows_at(z, e.cell, e.row)
        seen = np.maximum((rows * p[e.cell]).sum(axis=1), 1e-300)
        ratio = (e.weight / seen)[:, None]

        def by_cell(values):
            return np.stack([np.bincount(e.cell, column, e.n_cells) for column in values.T], axis=1)

        along = by_cell(ratio * rows)
        out = prior.pullback_logits(z, p * (along - (p * along).sum(axis=1, keepdims=True)))
        slope = by_cell(ratio * p[e.cell][:, places] * (self.denied_rows[e.row] - e.table[e.row][:, places]))
        slope *= delta * (1 - delta)
        first = prior.values(z)["denial"][0]
        density = -0.5 * first**2 - 0.5 * np.log(2 * np.pi)
        moved = np.exp(density - log_ndtr(first)) + np.exp(density - log_ndtr(-first))
        own = np.vstack([slope.sum(axis=0) * moved, prior.denial_columns.T @ slope])
        out[out.size - own.size :] = own.ravel()
        value = float(e.weight @ np.log(seen))
        return (value, out) if self.flat else (value + float(prior.log_density(z)), out + prior.gradient(z))

    def likelihoods(self, z: np.ndarray, *, tallies: bool = False, watch=None):
        e, a, size = self.entries, self.prior.n_categories, len(z)
        value, shares, expected = np.empty(size), np.empty((size, a)), np.empty((size, a))
        step = max(BLOCK // (a * (e.cell.size + e.n_cells)), 1)
        for start in range(0, size, step):
            part = slice(start, start + step)
            p = self.prior.to_simplex(z[part])
            joint = self.rows_at(z[part], e.cell, e.row) * p[:, e.cell]
            seen = np.maximum(joint.sum(axis=-1), 1e-300)
            value[part], shares[part] = np.log(seen) @ e.weight + e.constant, np.einsum("c,sca->sa", e.sizes, p)
            if tallies:
                expected[part] = np.einsum("se,sea->sa", e.weight / seen, joint)
        return value, shares, expected if tallies else None
