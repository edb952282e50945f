"""Maximum likelihood of a regression: Newton's method, standard errors, and why there may be no maximum."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ldpbayes import checks
from ldpbayes.answer import Answer
from ldpbayes.errors import ConvergenceError, InfeasibleError, listed
from ldpbayes.inference.ends import normal_reach
from ldpbayes.inference.newton import find_mode
from ldpbayes.regression import devices
from ldpbayes.regression.target import RegressionTarget


@dataclass(frozen=True)
class Maxima:
    """When a likelihood has no maximum, and where else one is looked for.

    Attributes
    ----------
    extreme : float
        Log odds. Derived: beyond 12 a share is 6e-6 or less, fewer than one person of most surveys.
    unbounded : float
        Standard error of a standardized log odds: above it, and beyond ``extreme``, there is no maximum. Measured:
        of the 280 designs of benchmarks/weak_regressions.py 218 stop at 65 and less, 62 at 5,400 and more. Any value
        between serves: half and double change none.
    sharp : float
        Standard error of a standardized log odds below which a maximum counts as the only one. Measured: of these 280
        designs 94 are below, and starts elsewhere end at another value in four of them (from .17 on); between .3 and 65
        in 19 of 124. No end of these 218 was higher than the first by ``same``, nor another finite one within ``near``. So
        .15 and .6 give the same answers there; the further starts are a guard.
    climbs : tuple of float
        Distances of further starting points, where it is larger, in sds of the prior. Measured: of these designs 97 % of
        the starts at each distance reach the highest end. Derived: a maximum that three starts of ten lead to is found by
        eight with probability .94, by four with .76 and by 16 with .997.
    most : int
        Entries of the likelihood up to which there are these; up to ten times as many there is a second start. Derived: a
        search visits them some twenty times for a gradient, at a few ns each, so that eight searches take a tenth of a
        second. Half and double change that time, and whether another maximum is looked for.
    same : float
        Maxima whose log-likelihoods differ by fewer nats are the same. Derived: a difference of δ nats is √(2δ) = .014
        standard errors of the estimates.
    near : float
        A second maximum is mentioned where it is lower by fewer nats. Derived: e² = 7 times less likely.
    """

    extreme: float = 12.0
    unbounded: float = 100.0
    sharp: float = 0.3
    climbs: tuple[float, ...] = (0.5, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
    most: int = 10**5
    same: float = 1e-4
    near: float = 2.0


MAXIMA = Maxima()


class Maximum(Answer):
    """Maximum-likelihood estimates of a regression: an xarray.Dataset over terms and categories.

    Attributes
    ----------
    coefficients, standard_errors : (terms, a) DataArray
        Zero for the reference category. Standard errors come from the observed information, of an uncertain device too;
        with survey weights from the variance of the weighted scores.
    covariance : (terms · (a − 1), terms · (a − 1)) DataArray
        Of the coefficients of the other categories, the category running fastest.
    average, average_errors : (a,) DataArray
        Shares averaged over the respondents' covariates, with standard errors by the delta method; not beside effects of
        groups.
    denial, denial_errors : (denied,) DataArray
        Where some deny: their share where its columns are at their means, with its standard error.
    device, device_errors : (device_share,) DataArray
        Of an uncertain device: the estimates of its probabilities, with their standard errors.
    formula : str
    terms, categories : tuple of str
    reference : str
        The category that the coefficients are log odds against.
    link : str
        What they change: "logit" is log odds.
    log_likelihood : float
        log P(reports), with the constants of the protocols. Beside an uncertain device also of its trials, as a ratio to
        their own maximum.
    deviance : float
        −2 log-likelihood.
    n_parameters : int
        Number of free coefficients, of sds between groups, and of free probabilities of a device.
    group_sd, group_sd_errors : (effects,) DataArray
        With effects of groups: their sd, with its standard error (0 where the sd is). The effects at their modes have the
        names of the formula, such as ``1|county``, over their levels and the categories.
    aic, bic : float
        The criteria of Akaike and of Schwarz, the latter with the number of reports; nan beside known totals, and under
        weights, strata or clusters, where there is no likelihood.
    n_reports : int
    outcome : str
    weighted : bool
        Whether the sample is no simple random one: ``log_likelihood`` and ``deviance`` are those of a weighted
        pseudo-likelihood, and there is no information criterion.
    ci_prob : float
        Of the intervals of summary().
    """

    __slots__ = ()

    def _called(self, function: str, arguments: Mapping[str, Any]) -> None:
        # Nothing is drawn; the number of draws only says how exact known totals are.
        unused = {"random_seed"} if arguments.get("totals") else {"draws", "chains", "random_seed"}
        super()._called(function, {name: value for name, value in arguments.items() if name not in unused})

    @property
    def link(self) -> str:  # type: ignore[override]
        return str(self.attrs.get("link", "logit"))

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        """Whether the sample is no simple random one."""
        return bool(self.attrs["weighted"])

    @property
    def fit(self) -> str:
        """The log-likelihood and what follows from it, in one sentence."""
        if self.weighted:
            return f"Weighted log-pseudo-likelihood {self.log_likelihood:.4f}; it has no information criterion."
        if np.isnan(self.aic):
            return f"Log-likelihood of the reports {self.log_likelihood:.4f}; beside known totals it has no criterion."
        criteria = f"AIC {self.aic:.3f}, BIC {self.bic:.3f}"
        return f"Log-likelihood {self.log_likelihood:.4f}, deviance {self.deviance:.3f}, {criteria}."

    def summary(self, ci_prob: float | None = None) -> xr.Dataset:
        """Return mean, sd, lower, upper, and of log odds odds_ratio and its ends, as a Dataset (term, category).

        Parameters
        ----------
        ci_prob : float, optional
            Of the intervals, by the normal approximation; by default that of regress.
        """
        ci_prob = self.ci_prob if ci_prob is None else checks.level(ci_prob)
        half = normal_reach(ci_prob) * self.standard_errors
        low, high = self.coefficients - half, self.coefficients + half
        data = {"mean": self.coefficients, "sd": self.standard_errors, "lower": low, "upper": high}
        if self.link == "logit":
            data |= {"odds_ratio": np.exp(self.coefficients), "odds_lower": np.exp(low), "odds_upper": np.exp(high)}
        return xr.Dataset(data, attrs={"ci_prob": ci_prob}).drop_sel(category=self.reference)


def dependent(columns: np.ndarray, sizes: np.ndarray, terms: tuple[str, ...]) -> list[str]:
    """Return the terms whose columns are linear combinations of those before them, over the cells that have reports.

    Parameters
    ----------
    columns : (cells, terms) array
    sizes : (cells,) array
        Reports of each cell.
    terms : tuple of str
    """
    used = columns[sizes > 0]
    varies = np.ptp(used, axis=0) > 0
    if used[:, ~varies].any():  # beside a constant what counts is how the others vary
        used = used - varies * used.mean(axis=0)
        used = used - varies * used.mean(axis=0)
    used = used / np.maximum(np.abs(used).max(axis=0), 1e-300)
    names: list[str] = []
    basis = np.zeros((len(used), 0))
    for k, name in enumerate(terms):
        column = used[:, k]
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        norm = np.linalg.norm(rest)
        if norm <= np.finfo(float).eps ** 0.5 * max(np.linalg.norm(column), 1e-300) or not norm:
            names.append(name)
        else:
            basis = np.column_stack([basis, rest / norm])
    return names


def starting_point(target: RegressionTarget) -> np.ndarray:
    """Return unknowns under which every cell has about the distribution of all people together."""
    prior, z = target.prior, np.zeros(target.prior.n_unknowns)
    if prior.intercept is not None:
        logits = np.log(target.reports.pooled() @ prior.collapse) @ prior.basis
        k, free = prior.intercept, logits.size
        z[k * free : (k + 1) * free] = logits / prior.transform[k, k] * prior.unit
    return z


def climb(target: RegressionTarget, watch=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (mode, eigenvalues, eigenvectors of minus the Hessian), from the better of two starting points."""
    start = starting_point(target)
    mode = find_mode(target, start, watch)
    if start.any() and target.reports.cell.size * target.reports.n_categories <= 10 * MAXIMA.most:
        from_zero = find_mode(target, np.zeros_like(start))
        if target.value_and_gradient(from_zero[0])[0] > target.value_and_gradient(mode[0])[0] + 1e-6:
            mode = from_zero
    return mode


def climb_all(target: RegressionTarget, watch: Any = None) -> tuple[RegressionTarget, tuple[np.ndarray, ...]]:
    """Return (the target with its modes, the highest as ``climb`` has it): labels may switch where the device may, too."""
    first = climb(target, watch)
    others = [find_mode(target, at) for at in target.exchanged(first[0])]
    target, best, _ = target.ranked([first, *(mode for mode in others if np.linalg.norm(mode[0] - first[0]) > 1e-3)])
    return target, best


def highest(target: RegressionTarget) -> tuple[np.ndarray, float]:
    """Return (unknowns where the likelihood is largest, how much lower the next finite maximum found is, else inf).

    Behind a device the likelihood can have several maxima, where the reports are few or noisy. Where the standard errors at
    the first one are large, further climbs begin elsewhere.

    Parameters
    ----------
    target : RegressionTarget
        With ``flat`` set.
    """
    z, eigenvalues, _ = climb(target)
    size = target.reports.cell.size * target.reports.n_categories
    points = [z, *(find_mode(target, at)[0] for at in target.exchanged(z))]
    if _unit(target) / np.sqrt(eigenvalues.min()) >= MAXIMA.sharp and size <= MAXIMA.most:
        rng = np.random.default_rng(0)
        points += [find_mode(target, distance * rng.standard_normal(z.size))[0] for distance in MAXIMA.climbs]
    values = [target.value_and_gradient(point)[0] for point in points]
    best = int(np.argmax(values))
    if values[best] < values[0] + MAXIMA.same:
        best = 0
    below = np.inf
    for point, value in zip(points, values, strict=True):
        logits = target.prior.logits_of(point)[target.reports.sizes > 0]
        if MAXIMA.same < values[best] - value < below and np.ptp(logits, axis=1).max() < MAXIMA.extreme:
            below = values[best] - value
    return points[best], float(below)


def _unit(target):
    """Return what an unknown counts for: log odds for one sd of a column."""
    return float(np.median(target.prior.odds_scales)) / np.sqrt(2)


def maximize(target: RegressionTarget) -> tuple[np.ndarray, np.ndarray, float]:
    """Return (unknowns of largest likelihood, covariance by the observed information, how much lower the next maximum is).

    Parameters
    ----------
    target : RegressionTarget
        With ``flat`` set.

    Raises
    ------
    InfeasibleError
        Where the design is rank-deficient, or the likelihood has no maximum (perfect separation, shares at the boundary).
    ConvergenceError
        Where Newton's method stops elsewhere.
    """
    prior, e = target.prior, target.reports
    linked = dependent(prior.design, e.sizes, tuple(prior.terms))
    if linked:
        raise InfeasibleError(
            f"The design is rank-deficient: over the rows with reports, {listed(linked)} "
            f"{'is a linear combination' if len(linked) == 1 else 'are linear combinations'} of the other columns; leave "
            "columns out, or use the posterior, where the prior decides between them."
        )
    z, next_lower = highest(target)
    _refuse_infinite(target, z)
    gradient = target.value_and_gradient(z)[1]
    covariance = np.linalg.inv(-target.hessian(z))
    gain = 0.5 * float(gradient @ covariance @ gradient)
    if not gain < 1e-6 or np.diag(covariance).min() <= 0:
        raise ConvergenceError(f"The likelihood was not maximized: another step would gain {gain:.2g} nats.", None)
    return z, covariance, next_lower


def _refuse_infinite(target, z):
    """Raise where the likelihood still rises as coefficients go to infinity."""
    prior = target.prior
    information = -target.hessian(z)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (information + information.T))
    # The unknowns are log odds in units of scale/√2 for one sd of a column.
    unit = _unit(target)
    logits = prior.logits_of(z)[target.reports.sizes > 0]
    beyond = np.ptp(logits, axis=1).max() > MAXIMA.extreme
    if eigenvalues[0] > 0 and (unit / np.sqrt(eigenvalues[0]) < MAXIMA.unbounded or not beyond):
        return
    devices.refuse_ends(prior, vectors[:, 0])
    if not beyond and eigenvalues[0] <= 0:
        raise InfeasibleError(
            "The likelihood is flat in some direction: the reports do not determine all coefficients; use the posterior, "
            "where the prior decides."
        )
    flattest = vectors[prior.spans[""], 0]
    if (flattest**2).sum() < 0.5:
        raise InfeasibleError(
            "The likelihood has no maximum: it still rises while the share who deny goes to 0 or 1; use the posterior."
        )
    flat = vectors[prior.spans[""], unit >= MAXIMA.unbounded * np.sqrt(np.maximum(eigenvalues, 0.0))]
    flat = flat[:, (flat**2).sum(axis=0) >= 0.5]
    moved = np.tensordot(prior.transform, flat.reshape(-1, prior.n_categories - 1, flat.shape[1]), 1)
    size = np.abs(moved * prior.spread[:, None, None]).max(axis=1)
    size = (size / size.max(axis=0)).max(axis=1)  # a direction of its own where two shares are at their ends
    named = [term for term, share in zip(prior.terms, size, strict=True) if share > 0.3]
    at_end = logits.min(axis=0) - logits.max(axis=1).min()
    lowest = int(np.argmin(at_end))
    label = prior.categories[prior.owners[lowest]] if prior.categories else str(lowest)
    raise InfeasibleError(
        f"The likelihood has no maximum: it still rises while the coefficients of {listed(named)} go to infinity (perfect "
        f"separation, or a share of {label!r} at the end of its range in some cells); use the posterior, where the prior "
        "keeps them finite."
    )


def scores_of(target: RegressionTarget, z: np.ndarray, cell: np.ndarray, reports: Any) -> np.ndarray:
    """Return the scores of the users of each row in the unknowns of the common terms, shape (n, k).

    Parameters
    ----------
    target : RegressionTarget
    z : (n_unknowns,) array
    cell : (n,) int array
        The cell of each row of the table.
    reports : Reports
    """
    prior = target.prior
    p = prior.to_simplex(z)
    joint = target.joint(z, cell, reports.code)
    inner = prior.pulled_slopes(prior.values(z), joint / joint.sum(axis=1, keepdims=True) - p[cell], cell)
    return (prior.columns[cell][:, :, None] * inner[:, None, :]).reshape(len(cell), -1) * prior.slopes_of(z)


def on_columns(prior: Any, z: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (coefficients (terms, a), their standard errors, covariance of those of the other categories)."""
    others = [x for x in range(prior.n_categories) if x != prior.reference]
    map_ = np.kron(prior.transform, prior.odds[:, others].T) * prior.slopes_of(z)
    mapped = map_ @ covariance[prior.spans[""], prior.spans[""]] @ map_.T
    errors = np.zeros((prior.design.shape[1], prior.n_categories))
    errors[:, others] = np.sqrt(np.diag(mapped)).reshape(-1, len(others))
    return prior.coefficients(z[None])[0], errors, mapped
