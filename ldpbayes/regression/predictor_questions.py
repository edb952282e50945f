"""Questions to a regression whose predictor is a private answer: the outcome for each answer, and what changes it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ldpbayes.answer import Answer
from ldpbayes.answers import base
from ldpbayes.arrays import blocks
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.regression.changing import changed, compared
from ldpbayes.regression.constants import MAX_NUMBERS, NUMBERS_TOGETHER, ROUNDING
from ldpbayes.regression.design import Design, arrays
from ldpbayes.regression.formula import Formula
from ldpbayes.regression.predictor import FAMILIES, Predicted, by_answer, stored_columns
from ldpbayes.result.facts import facts_of
from ldpbayes.sources.base import foreign


class FittedOutcome:
    """The part of a result that has an outcome, beside that of the private answer.

    Parameters
    ----------
    fitted : questions.Fitted
        Of the private answer.
    """

    def __init__(self, fitted: Any):
        result, facts = fitted.result, facts_of(fitted.result)
        self.fitted, self.categories = fitted, fitted.categories
        with foreign("the group 'outcome_design' is not that of a regression"):
            stored = result["outcome_design"].to_dataset()
            self.design = Design.restore(
                stored.attrs["design"], stored_columns(stored, "covariate"), stored["n_rows"].values
            )
            self.levels = tuple(map(str, np.atleast_1d(stored.attrs["levels"])))
            asked = Predicted.asked(Formula.parse(self.design.text), facts["family"], facts["private_formula"])
            people = stored_columns(stored, "person")
            self.sizes = np.asarray(stored["n_reports"].values, dtype=float)
        columns, draws = self.design.columns.common, result.children["posterior"].dataset["outcome_coefficients"].values
        limit = ROUNDING * np.abs(columns).max(axis=0, initial=1e-300)
        if asked is None or sorted(self.levels) != sorted(self.categories) or stored["columns"].shape != columns.shape:
            raise DataError("the group 'outcome_design' is not that of this result")
        if not (np.abs(stored["columns"].values - columns) <= limit).all():
            raise DataError("the group 'outcome_design' describes other columns than those of the fit; fit again")
        if draws.shape != (*fitted.coefficients.shape[:2], columns.shape[1]) or not np.isfinite(draws).all():
            raise DataError("posterior 'outcome_coefficients' are not finite, or not of the draws and terms of this result")
        if not np.isfinite(self.sizes).all() or not self.sizes.sum() > 0:
            raise DataError("the group 'outcome_design' must have the number of reports of every row of covariates")
        self.asked, self.family, self._of_outcome = asked, FAMILIES[facts["family"]], draws
        self.frame = self._typed(people)

    def _typed(self, people: dict[str, NDArray]) -> Any:
        """Return stored rows of covariates in the types of the fit."""
        import pandas as pd

        of = {**self.design.variables, **self.fitted.design.variables}
        columns = {name: values.astype(bool) if of[name].kind == "truth" else values for name, values in people.items()}
        return pd.DataFrame(columns, index=range(self.sizes.size))

    @property
    def names(self) -> tuple[str, ...]:
        """The covariates of both parts."""
        return tuple(dict.fromkeys((*self.asked.covariates, *self.fitted.design.variables)))

    def people(self, data: Any) -> tuple[Any, NDArray]:
        """Return (frame of the covariates of both parts, how many people each row stands for)."""
        return (self.frame, self.sizes) if data is None else self.fitted.people(data, names=self.names)

    def draws(self, rows: int) -> tuple[NDArray, NDArray]:
        """Return coefficients of the private answer (S, K, a) and of the outcome (S, k), of the same draws."""
        of_answer = self.fitted.coefficients
        chains, length = of_answer.shape[:2]
        step = min(max(1, -(-chains * length * rows * len(self.categories) // MAX_NUMBERS)), max(1, length // 50))
        parts = of_answer[:, ::step], self._of_outcome[:, ::step]
        return parts[0].reshape(-1, *of_answer.shape[2:]), parts[1].reshape(-1, self._of_outcome.shape[2])

    def means(self, frame: Any, coefficients: NDArray) -> NDArray:
        """Return the mean outcome of each row under every answer, (S, rows, a)."""
        expanded = self.asked.with_answers(frame[list(self.asked.covariates)], self.levels)
        columns = by_answer(self.design.new(expanded).common, self.levels, self.categories)
        return self.family.mean((columns @ coefficients.T).transpose(2, 0, 1))

    def shares(self, frame: Any, coefficients: NDArray) -> NDArray:
        """Return the shares of the answers of each row, (S, rows, a)."""
        columns = self.fitted.design.new(frame)
        return self.fitted.shares(columns, coefficients, self.fitted.effects(columns, coefficients))

    def described(self, draws: NDArray, coords: dict, ci_prob: float, question: str, **more: NDArray) -> Answer:
        """Return the Answer of draws (S, …) over dims."""
        return base.described(self.fitted.result, draws, coords, ci_prob, question, **more)


def log_densities(result: xr.DataTree, pattern: NDArray, y: NDArray) -> NDArray:
    """Return the log-density of outcomes y (n,) given each answer at every draw, shape (S, n, a).

    Parameters
    ----------
    result : DataTree
    pattern : (n,) int array
        The row of covariates of each outcome, in the group ``outcome_design``.
    y : (n,) array
    """
    stored, posterior, family = result["outcome_design"], result["posterior"].dataset, FAMILIES[facts_of(result)["family"]]
    levels, answers = tuple(map(str, np.atleast_1d(stored.attrs["levels"]))), list(map(str, posterior["category"].values))
    columns = by_answer(np.asarray(stored["columns"]), levels, answers)[pattern]
    draws = posterior["outcome_coefficients"].values.reshape(-1, columns.shape[-1])
    eta = np.einsum("nat,st->sna", columns, draws)
    spread = np.zeros((len(draws), 1))
    if "outcome_sd" in posterior:
        spread = np.log(posterior["outcome_sd"].values.reshape(-1, 1))
    own = family.standard(y, 0.0, 1.0)
    left_out = [family.constant(y[i : i + 1], np.ones(1), 0.0, 1.0) for i in range(y.size)]
    each = [family.log_density(own, eta[..., x], spread) for x in range(columns.shape[1])]
    return np.stack(each, axis=-1) + np.array(left_out)[:, None]


def predictions(outcome: FittedOutcome, data: Any, ci_prob: float) -> Answer:
    """Return the mean outcome of each row under every answer, and the shares of the answers; see questions.predictions."""
    frame, sizes = outcome.people(data)
    if data is None:
        order = outcome.design.order(frame[list(outcome.names)])
        frame, sizes = frame.iloc[order].reset_index(drop=True), sizes[order]
    of_answer, of_outcome = outcome.draws(min(len(frame), 1000))
    answers, labels = [], {"category": outcome.categories}
    for rows in blocks(len(frame), len(of_answer) * len(outcome.categories), NUMBERS_TOGETHER):
        some, coords = frame.iloc[rows], {"row": np.arange(len(frame))[rows], **labels}
        what = f"Predicted {outcome.asked.formula.answer} by {outcome.asked.answer}"
        means = outcome.described(outcome.means(some, of_outcome), coords, ci_prob, what)
        shares = outcome.described(outcome.shares(some, of_answer), coords, ci_prob, what)
        answers.append(means.assign({f"share_{name}": shares[name] for name in ("mean", "sd", "lower", "upper")}))
    columns: dict[str, Any] = {}
    for name, values in arrays(frame[list(outcome.names)]).items():
        columns[name if name not in ("row", "category") else f"covariate_{name}"] = (("row",), values)
    if data is None:
        columns["n_reports"] = (("row",), sizes)
    joined = xr.concat(answers, "row").assign_coords(columns)
    return Answer(joined.data_vars, joined.coords, joined.attrs)


def comparisons(outcome: FittedOutcome, variable: str, values: Sequence[Any] | None, data: Any, ci_prob: float) -> Answer:
    """Return how the mean outcome changes with the private answer or a covariate; see questions.comparisons."""
    frame, weight = outcome.people(data)
    weight = weight / weight.sum()
    if variable == outcome.asked.answer:
        chosen = list(outcome.levels) if values is None else list(map(str, compared(values)))
        if not set(chosen) <= set(outcome.categories):
            raise ArgumentError(f"values must be among the answers ({listed(outcome.categories)}), got {shown(values)}.")
        places = [outcome.categories.index(value) for value in chosen]
        (_, of_outcome), labels = outcome.draws(len(frame)), [f"{value} - {chosen[0]}" for value in chosen[1:]]
        total = np.zeros((len(of_outcome), len(outcome.categories)))
        for rows in blocks(len(frame), total.size, NUMBERS_TOGETHER):
            total += np.einsum("sra,r->sa", outcome.means(frame.iloc[rows], of_outcome), weight[rows])
        draws = (total[:, places] - total[:, places[:1]])[:, 1:]
    else:
        if not isinstance(variable, str) or variable not in outcome.names:
            every = listed((outcome.asked.answer, *outcome.names))
            raise ArgumentError(f"variable must be the private answer or a covariate ({every}), got {shown(variable)}.")
        own = outcome.frame[variable]
        number = own.dtype.kind in "iuf" and variable not in (*outcome.design.factors, *outcome.fitted.design.factors)
        frames, labels = changed(frame, variable, own, number, values)
        of_answer, of_outcome = outcome.draws(len(frame) * len(frames))
        draws = np.zeros((len(of_outcome), len(frames)))
        for rows in blocks(len(frame), len(of_outcome) * len(outcome.categories), NUMBERS_TOGETHER):
            shares = outcome.shares(frame.iloc[rows], of_answer)
            for k, one in enumerate(frames):
                draws[:, k] += np.einsum("sra,sra,r->s", outcome.means(one.iloc[rows], of_outcome), shares, weight[rows])
        draws = draws[:, 1:] - draws[:, :1]
    question = f"Differences of {outcome.asked.formula.answer} by {variable}"
    positive = (draws > 0).mean(axis=0)
    return outcome.described(draws, {"comparison": labels}, ci_prob, question, probability_positive=positive).assign_coords(
        variable=variable
    )
