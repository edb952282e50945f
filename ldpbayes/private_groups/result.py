"""What by_private_group returns: draws of the distribution of an open value in every private group, and its answers."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.inference.ends import ends_of_equal_draws, tails
from ldpbayes.presenting import AbstractResult
from ldpbayes.private_groups.checking import ShareCheck
from ldpbayes.private_groups.measure import Measure
from ldpbayes.private_groups.storing import fields_of, to_tree

#: What differences can be asked of.
QUANTITIES = ("share", "mean", "quantile", "cdf")
#: Names of dims and columns in tables of answers.
COLUMNS = frozenset(
    (
        "cell group quantity quantile outcome z versus mean sd lower upper mcse probability_positive recipe target method"
    ).split()
)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateGroups(AbstractResult):
    """The distribution of an open value in each group of a private answer.

    Answers are Datasets with mean, sd, lower, upper (equal-tailed interval) and mcse, over the groups and, with open
    covariates, over cells.

    Attributes
    ----------
    groups : tuple of str
    cells : tuple of tuple
        Keys of the combinations of open covariates; one empty key without.
    by : tuple of str
    levels : tuple of str or None
        Labels of an open categorical outcome.
    value : str
        Name of the open value.
    target : {"distribution", "frequency"}
    method : {"smooth", "rounding", "recipe"}
        What made the draws.
    reason : str
        Why this method.
    quantiles : tuple of float
        Levels of the summary.
    ci_prob : float
    random_seed : int
    n_records : int
    n_bins : tuple of int
        Of each cell.
    sampling : {"weighted", "annealed"}
        Weighted draws of the normal approximation, or of particles that moved from there to the posterior in steps.
    problem : str
        Why the draws may not be used; empty where they may.
    k_hat, effective_draws : float
        Pareto k̂ of the weights, and how many independent draws these draws are worth; nan for the recipe.
    check : ShareCheck
        How far the shares are from those that the reports alone give, without the value.
    hanging : tuple of int
        On how many records the mean of each cell hangs; 0 where it has an interval. Others are left out: they are nan.
    left_out : str
        What is left out, with the reason; empty where everything is there.
    discretization : (cells, quantities, k) array or None
        How far share, mean and the quantiles of the summary move where the posterior mean curves are interpolated within
        bins: the error that bins make, to first order. None for an open category, which has no bins, and for the recipe.
    recipe : tuple of dict or None
        The reweighting recipe's share, mean and quantile for each cell, without errors.
    who_decides : str
        Whether data or prior decide on the groups' shares, by scaling the prior; see inference.scaling.
    design : str
        How the reports were made, in words.
    """

    groups: tuple[str, ...]
    measures: tuple[Measure, ...] = field(repr=False)
    cells: tuple[tuple, ...]
    by: tuple[str, ...]
    levels: tuple[str, ...] | None
    value: str
    target: str
    method: str
    reason: str
    quantiles: tuple[float, ...]
    ci_prob: float
    random_seed: int
    n_records: int
    n_bins: tuple[int, ...]
    sampling: str
    problem: str
    k_hat: float
    effective_draws: float
    check: ShareCheck
    hanging: tuple[int, ...]
    left_out: str
    discretization: np.ndarray | None
    recipe: Any
    who_decides: str
    design: str = ""

    def to_tree(self) -> xr.DataTree:
        """Return a DataTree of everything, which ``ldpbayes.save`` writes."""
        tree = to_tree(self)
        tree.attrs["call"] = self._call
        return tree

    def _random_seed(self) -> int:
        return self.random_seed

    # ---- answers -------------------------------------------------------------------------------------------------
    def shares(self, ci_prob: float | None = None) -> Answer:
        """Return the share of each group."""
        return self._asked("share", ci_prob)

    def mean(self, ci_prob: float | None = None) -> Answer:
        """Return the mean value in each group; nan where it depends on a handful of records, as ``left_out`` says."""
        return self._asked("mean", ci_prob)

    def quantile(self, q: Any = None, ci_prob: float | None = None) -> Answer:
        """Return quantiles of the value in each group.

        Of the population they are nan where the interval ends at a least or greatest value that one record has: nothing
        says how far others lie beyond.

        Parameters
        ----------
        q : float or sequence of float, optional
            Levels; those of the summary by default.
        ci_prob : float, optional
        """
        return self._asked("quantile", ci_prob, q, "q")

    def cdf(self, z: Any, ci_prob: float | None = None) -> Answer:
        """Return P(value ≤ z | group).

        Beyond the first or last record the interval of the population is about [0, 3/n] or [1 − 3/n, 1], for n records in
        the group.

        Parameters
        ----------
        z : float or sequence of float
        ci_prob : float, optional
        """
        return self._asked("cdf", ci_prob, z, "z")

    def outcomes(self, ci_prob: float | None = None) -> Answer:
        """Return P(open category | group), for an open categorical outcome."""
        return self._asked("outcome", ci_prob)

    def difference(
        self, of: str = "mean", at: Any = None, *, versus: str | None = None, ci_prob: float | None = None
    ) -> Answer:
        """Return how much larger a quantity is in each group than in one of them, with the probability that it is.

        Parameters
        ----------
        of : {"mean", "share", "quantile", "cdf", "outcome"}
        at : float or sequence of float, optional
            Levels of quantiles, or points of distribution functions.
        versus : str, optional
            The group to compare with; the first by default.
        ci_prob : float, optional
        """
        first = self.groups[0] if versus is None else checks.choice(versus, "versus", self.groups)
        draws, extra = self._bounded(of, at, "at", ci_prob)
        draws = draws - draws[..., [self.groups.index(first)]]
        answer = self._summarized(draws, extra, ci_prob)
        counts = np.isfinite(draws).sum(axis=0)  # draws in which neither group is empty
        above = ((draws > 0).sum(axis=0) + 0.5 * (draws == 0).sum(axis=0)) / np.where(counts > 0, counts, np.nan)
        answer["probability_positive"] = (answer["mean"].dims, above.reshape(answer["mean"].shape))
        return answer.drop_sel(group=first).assign_attrs(versus=first)

    def draws(self, of: str, at: Any = None) -> np.ndarray:
        """Return draws of a quantity, shape (draws, cells, [points,] groups).

        Parameters
        ----------
        of : {"share", "mean", "quantile", "cdf", "outcome"}
        at : sequence of float, optional
            Levels of quantiles, those of the summary by default, or points of distribution functions.
        """
        return self._draws(of, at, "at")[0]

    def _asked(self, of, ci_prob, at=None, name="at"):
        return self._summarized(*self._bounded(of, at, name, ci_prob), ci_prob)

    def _bounded(self, of, at, name, ci_prob):
        """Return _draws, nan for quantiles whose interval ends at the value of one record, beyond which nothing is known."""
        draws, extra = self._draws(of, at, name)
        if of == "quantile" and self.target == "distribution":
            tail = tails(self.ci_prob if ci_prob is None else checks.level(ci_prob))[0]
            for c, atoms in enumerate(measure.atoms for measure in self.measures):
                for end in atoms.value[[0, -1]][list(atoms.lone)]:
                    draws[:, c, (draws[:, c] == end).mean(axis=0) > tail] = np.nan
        return draws, extra

    def _draws(self, of, at, name):
        """Return (draws of a quantity, the dim of its points and their labels); ``name`` is that of the argument at."""
        methods = {"share": Measure.shares, "mean": Measure.mean, "outcome": Measure.per_bin}
        checks.choice(of, "of", (*QUANTITIES, "outcome"))
        if self.levels is None and of == "outcome":
            raise ArgumentError("outcomes are those of an open category; numbers have mean, quantile and cdf.")
        if self.levels is not None and of not in ("share", "outcome"):
            raise ArgumentError(f"{of} needs a number; {self.value!r} is an open category: use outcomes.")
        if of in methods:
            extra = {"outcome": list(self.levels or ())} if of == "outcome" else {}
            draws = np.stack([methods[of](measure) for measure in self.measures], axis=1)
            if of == "mean":
                draws[:, np.flatnonzero(self.hanging)] = np.nan
            return draws, extra
        if of == "quantile":
            points = _points(self.quantiles if at is None else at, name)
            for level in points.tolist():
                checks.probability(level, name)
            return np.stack([measure.quantile(points) for measure in self.measures], axis=1), {"quantile": points.tolist()}
        if at is None:
            raise ArgumentError(f"{name} must hold the points of the distribution functions, got none.")
        points = _points(at, name)
        return np.stack([measure.cdf(points) for measure in self.measures], axis=1), {"z": points}

    def summary(self, ci_prob: float | None = None) -> Answer:
        """Return share, mean and quantiles of each group, dims ([cell,] group, quantity).

        For an open categorical outcome share and the probabilities of its categories.
        """
        return self._together(lambda of: self._asked(of, ci_prob))

    def differences(self, ci_prob: float | None = None) -> Answer:
        """Return how much larger the quantities of the summary are in each other group than in the first, likewise.

        Parameters
        ----------
        ci_prob : float, optional
        """
        return self._together(lambda of: self.difference(of, ci_prob=ci_prob))

    def _together(self, get: Callable[[str], Answer]) -> Answer:
        """Return the quantities of the summary side by side, dims ([cell,] group, quantity)."""
        tables = [get("share").expand_dims(quantity=["share"])]
        if self.levels is not None:
            tables.append(get("outcome").rename(outcome="quantity"))
        else:
            tables.append(get("mean").expand_dims(quantity=["mean"]))
            if self.quantiles:
                names = [f"q{100 * level:g}" for level in self.quantiles]
                tables.append(get("quantile").assign_coords(quantile=names).rename(quantile="quantity"))
        whole = xr.concat(tables, "quantity", coords="minimal", compat="override")
        whole = whole.transpose(*(("cell",) if self.by else ()), "group", "quantity")
        return Answer(whole.data_vars, whole.coords, self.attrs | {"question": f"{self.value} by group"})

    # ---- diagnostics -----------------------------------------------------------------------------------------------
    @property
    def attrs(self) -> dict[str, Any]:
        """What made the result, for a page or a file."""
        names = ["value", "target", "method", "reason", "n_records", "random_seed", "ci_prob", "outcome"]
        names += [] if self.method == "recipe" else ["sampling", "k_hat", "effective_draws"]
        attrs = {name: getattr(self, name) for name in names} | {"n_bins": list(self.n_bins)}
        attrs["discrepancy"], attrs["discrepancy_allowed"] = self.check.worst
        attrs |= {"converged": int(self.trusted)} | ({"left_out": self.left_out} if self.left_out else {})
        attrs["who_decides"] = self.who_decides
        if self.discretization is not None:
            attrs["discretization_sd"] = self.discretization_sd
        return attrs

    @property
    def discretization_sd(self) -> float:
        """The largest discretization error of share, mean and quantiles, in posterior standard deviations.

        Zero for an open category, nan for the recipe.
        """
        if self.discretization is None:
            return 0.0 if self.levels is not None else float("nan")
        of_quantiles = [self.draws("quantile", self.quantiles)] if self.quantiles else []
        draws = np.concatenate([self.draws("share")[:, :, None], self.draws("mean")[:, :, None], *of_quantiles], axis=2)
        moved, scale = np.abs(self.discretization), 1e-12 * np.maximum(np.abs(draws).max(axis=0), 1e-300)
        scale = np.maximum(draws.std(axis=0, ddof=1), scale)
        return float(np.nanmax(np.where(moved > 0, moved / scale, 0.0)))

    @property
    def columns(self) -> tuple[str, ...]:
        """What tables call the open covariates: their names, or "by_group" for a covariate "group" and so on."""
        return tuple(f"by_{name}" if name in COLUMNS else name for name in self.by)

    @property
    def empty(self) -> np.ndarray:
        """Whether the recipe's bootstrap leaves a group empty too often for its share's interval to hold, (cells, k)."""
        often = (self.draws("share") <= 0).mean(axis=0) > tails(self.ci_prob)[0]
        return often & (self.method == "recipe")

    @property
    def edges(self) -> tuple[str, ...]:
        """The groups that are so in some cell."""
        return tuple(group for group, empty in zip(self.groups, self.empty.any(axis=0), strict=True) if empty)

    @property
    def trusted(self) -> bool:
        """Whether the draws are good and the shares agree with those that the reports alone give."""
        if self.method == "recipe":
            return self.check.good and not self.edges
        return not self.problem and self.check.good

    @property
    def outcome(self) -> str:
        """The verdict: how the draws were made, and whether to trust them."""
        if self.method == "recipe":
            if self.trusted:
                return self.reason
            if not self.edges:
                return f"Do not trust these groups yet: {self.reason}"
            empty = f"Many of its draws have nobody in {listed(self.edges)}: intervals that end at 0 or 1 are too short."
            return f"Do not trust these groups yet: {self.reason} {empty}"
        drawn = f"{self.sampling.capitalize()} draws: Pareto k-hat {self.k_hat:.2f}, {self.effective_draws:,.0f} effective."
        return f"{'' if self.trusted else 'Do not trust these groups yet: '}{self.reason} {drawn}"

    def _summarized(self, draws: np.ndarray, extra: dict[str, Any], ci_prob: float | None) -> Answer:
        """Return the Dataset of draws (S, cells, […,] k)."""
        prob = self.ci_prob if ci_prob is None else checks.level(ci_prob)
        dims = ["cell", *extra, "group"]
        coords: dict[str, Any] = {**extra, "group": list(self.groups)}
        if self.by:
            coords["cell"] = list(map(label_of, self.cells))
            for i, name in enumerate(self.columns):
                coords[name] = ("cell", [str(key[i]) for key in self.cells])
        else:
            draws, dims = draws[:, 0], dims[1:]
        if np.isnan(draws).any():  # of a group that is empty in some draws, the others are summarized
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                mean, sd = np.nanmean(draws, axis=0), np.nanstd(draws, axis=0, ddof=1)
                lower, upper = np.nanquantile(draws, tails(prob), axis=0)
        else:
            mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
            lower, upper = ends_of_equal_draws(draws, prob)
        worth = len(draws) if not np.isfinite(self.effective_draws) else self.effective_draws
        data = {"mean": mean, "sd": sd, "lower": lower, "upper": upper, "mcse": sd / np.sqrt(worth)}
        about = {"question": f"{self.value} by group", "ci_prob": prob}
        return Answer({name: (dims, values) for name, values in data.items()}, coords, about)


def label_of(key: tuple) -> str:
    """Return the label of a cell: the entries of its key.

    Parameters
    ----------
    key : tuple
    """
    return ", ".join(map(str, key))


def _points(value: Any, name: str) -> np.ndarray:
    """Return levels or points, one number or a sequence of at least one."""
    rule = "a number, or a sequence of numbers"
    points = np.atleast_1d(checks.reals(value, name, rule, ndim=None, finite=False))
    if points.ndim > 1 or not points.size or np.isnan(points).any():
        raise ArgumentError(f"{name} must be {rule}, got {shown(value)}.")
    return points


def from_tree(tree: xr.DataTree) -> PrivateGroups:
    """Return the private groups of a DataTree that ``PrivateGroups.to_tree`` made, or raise a DataError."""
    result = PrivateGroups(**fields_of(tree))
    result._keep(str(tree.attrs.get("call", "")))
    return result
