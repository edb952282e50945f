"""Shared parts of the theory: a number with its error, averages over a Dirichlet prior, sums and means over reports."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import betaln, expit

from ldpbayes import checks
from ldpbayes.arguments import REFUSES, by_name, explained
from ldpbayes.arrays import FloatArray, count_vectors, log_multinomial
from ldpbayes.collections import Collection, Tally, as_collection
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.priors import Dirichlet
from ldpbayes.protocols import AbstractProtocol
from ldpbayes.theory.enumeration import Enumeration

__all__ = [
    "WORDS",
    "Value",
    "average",
    "beta_expectation",
    "beta_rule",
    "checked",
    "described",
    "draw_distributions",
    "exact_moments",
    "jackknife",
    "over_reports",
]


@dataclass(frozen=True)
class Value:
    """A number with its Monte Carlo or quadrature error.

    Attributes
    ----------
    value : float or array
    standard_error : float or array
        Monte Carlo standard error; 0 for closed forms and sums over all reports; for ``method="quadrature"`` the
        difference to a coarser rule.
    method : str
        "closed form", "sum over reports", "quadrature", "Monte Carlo", …
    """

    value: Any  # a float, or an array for a covariance
    standard_error: Any = 0.0
    method: str = "closed form"

    def __post_init__(self) -> None:
        for name in ("value", "standard_error"):
            if np.ndim(getattr(self, name)) == 0:
                object.__setattr__(self, name, float(getattr(self, name)))

    def __float__(self) -> float:
        return float(self.value)


#: What the arguments of the theory must be, by name: each kind of argument is checked in one place.
_RULES: dict[str, Callable[[Any, str], Any]] = {
    "protocol": lambda value, name: checks.instance(value, name, AbstractProtocol, "a protocol of ldpbayes"),
    "prior": lambda value, name: checks.instance(value, name, Dirichlet, "a Dirichlet prior"),
    "n": checks.users,
    "target": lambda value, name: checks.choice(value, name, ("distribution", "frequency")),
    "norm": lambda value, name: checks.choice(value, name, ("l2", "l1", "max")),
    "draws": lambda value, name: checks.integer(value, name, 0, 10**7),
    "random_seed": checks.generator,
}
#: What they are. Draws and simulations matter only where no quadrature or sum is feasible.
WORDS = {
    "protocol": "protocol : AbstractProtocol",
    "prior": "prior : Dirichlet",
    "p": "p : (a,) array\n    The distribution of the private values.",
    "n": "n : int\n    Number of users.",
    "n_categories": "n_categories : int",
    "epsilon": "epsilon : float",
    "n_outputs": "n_outputs : int, optional\n    b, for the paper's own term.",
    "target": 'target : {"distribution", "frequency"}\n    P, or the users\' own frequencies F.',
    "norm": 'norm : {"l2", "l1", "max"}\n    Sum of squared or of absolute errors, or the largest standard error.',
    "draws": "draws : int\n    Draws of P or of collections.",
    "simulations": "simulations : int\n    Reports that stand for a channel which is too large to sum over.",
    "random_seed": "random_seed : int, SeedSequence or Generator",
}
_SECTIONS = {"Returns": "Value"} | REFUSES


def _same_categories(arguments: Mapping[str, Any]) -> None:
    if {"protocol", "prior"} <= set(arguments):
        size, wanted = arguments["prior"].n_categories, arguments["protocol"].n_categories
        if size != wanted:
            raise ArgumentError(f"prior must be over the {wanted} categories of the protocol, got {size}.")


#: Decorates the questions of the theory: their arguments are checked, and described, by name.
checked = by_name(_RULES, _same_categories, WORDS, _SECTIONS)
#: Decorates what they share: its arguments are described alone.
described = explained(WORDS, _SECTIONS)


def jackknife(function: Callable[[FloatArray], Any], batches: FloatArray, method: str) -> Value:
    """Return function(mean of batches) as a Value, bias-corrected and with a delete-one standard error if m > 1.

    Parameters
    ----------
    function : callable
        Takes the mean of some batches, returns a number or an array.
    batches : (m, …) array
        Independent estimates.
    method : str
        Recorded in the Value.

    Returns
    -------
    Value
    """
    value, m = function(batches.mean(axis=0)), len(batches)
    if m == 1 or not np.isfinite(value).all():
        return Value(value, 0.0 * np.nan_to_num(value, posinf=0.0, neginf=0.0), method)
    total = batches.sum(axis=0)
    left_out = np.array([function((total - batch) / (m - 1)) for batch in batches])
    error = np.sqrt((m - 1) / m * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    return Value(m * value - (m - 1) * left_out.mean(axis=0), error, method)


# ---- averages over a Dirichlet prior -------------------------------------------------------------------------------
_of_beta = explained(dict.fromkeys(("p", "q"), "p, q : float\n    Parameters of the Beta law, above 0."), {})


@_of_beta
def beta_rule(p: float, q: float, order: int) -> tuple[FloatArray, FloatArray]:
    """Return (nodes, weights) of the Gauss–Jacobi rule for E f(B), B ~ Beta(p, q); weights sum to one.

    By the eigenvectors of the Jacobi matrix (Golub and Welsch 1969), which need no normalizing constant:
    ``scipy.special.roots_jacobi`` overflows above p + q ≈ 1,000 and loses seven digits of the weights near p = 0.001.

    Parameters
    ----------
    order : int
        Number of nodes.

    Returns
    -------
    (order,) array, (order,) array
        Nodes in [0, 1] and weights.
    """
    a, b, i = q - 1, p - 1, np.arange(order, dtype=float)
    total = 2 * i + a + b
    with np.errstate(invalid="ignore", divide="ignore"):
        diagonal = (b * b - a * a) / (total * (total + 2))
        squares = 4 * i * (i + a) * (i + b) * (i + a + b) / (total**2 * (total + 1) * (total - 1))
    diagonal[0] = (b - a) / (a + b + 2)
    if order > 1:
        squares[1] = 4 * (1 + a) * (1 + b) / ((a + b + 2) ** 2 * (a + b + 3))
    nodes, vectors = eigh_tridiagonal(diagonal, np.sqrt(squares[1:]))
    return np.clip((1 + nodes) / 2, 0.0, 1.0), vectors[0] ** 2


@_of_beta
def beta_expectation(function: Callable[[FloatArray], FloatArray], p: float, q: float, scale: float = 1.0) -> Value:
    """Return E f(B), B ~ Beta(p, q), for f with a singularity at −1/scale; the Value's error is that to a coarser rule.

    Gauss–Jacobi of an order that grows with √scale, geometric in the order; where that would be long, the trapezoidal
    rule in logit B, which sees the singularity at distance π from the real line at any scale.

    Parameters
    ----------
    function : callable
        Takes an array of nodes, returns their values.
    scale : float
        The singularity of f lies at −1/scale.

    Returns
    -------
    Value
    """
    order = int(max(24, 12 + 6 * math.sqrt(scale)))
    if order <= 150:
        rules = beta_rule(p, q, order), beta_rule(p, q, 3 * order // 4)
    else:
        step = min(0.2, 0.5 / math.sqrt(p + q))
        rules = _logit_rule(p, q, step), _logit_rule(p, q, 1.5 * step)
    fine, coarse = (float(weights @ function(nodes)) for nodes, weights in rules)
    return Value(fine, abs(fine - coarse), "quadrature")


def _logit_rule(p: float, q: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Return (nodes, weights) of the trapezoidal rule for Beta(p, q) on the logit scale, out to tails below e^−40."""
    # Exponential, Gaussian and double-exponential parts of each tail, about the middle log(p/q).
    below = 40 / p + 12 / math.sqrt(p) + math.log1p(45 / q)
    above = 40 / q + 12 / math.sqrt(q) + math.log1p(45 / p)
    x = math.log(p / q) + np.arange(-below, above + step, step)
    log_density = -p * np.logaddexp(0, -x) - q * np.logaddexp(0, x) - betaln(p, q)
    return expit(x), step * np.exp(log_density)


@described
def average(
    prior: Dirichlet,
    function: Callable[[FloatArray], FloatArray],
    *,
    draws: int = 400,
    random_seed: object = 0,
    pointwise: bool = False,
) -> Value:
    """Return E f(P) for P ~ prior: product Gauss–Jacobi rules for up to four categories, else Monte Carlo.

    Parameters
    ----------
    function : callable
        Takes P of shape (m, a), returns (m,) values.
    pointwise : bool
        Whether function works one p at a time, so that thousands of nodes would take too long.
    """
    order = ({2: 160} if pointwise else {2: 160, 3: 80, 4: 24}).get(prior.n_categories)
    if order is not None:
        fine, coarse = (float(w @ function(nodes)) for nodes, w in (_sticks(prior, order), _sticks(prior, 3 * order // 4)))
        error = abs(fine - coarse) if math.isfinite(fine) else 0.0
        return Value(fine, error, "quadrature")
    p = draw_distributions(prior, draws, checks.generator(random_seed))
    values = np.concatenate([function(block) for block in np.array_split(p, max(1, draws // 50))])
    if not np.isfinite(values).all():
        return Value(float(values.sum() if not np.isnan(values).any() else np.nan), 0.0, "Monte Carlo")
    return Value(float(values.mean()), float(values.std(ddof=1) / math.sqrt(draws)), "Monte Carlo")


@described
def draw_distributions(prior: Dirichlet, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return draws of P, shape (draws, a), none exactly on the boundary.

    Parameters
    ----------
    rng : numpy.random.Generator

    Returns
    -------
    (draws, a) array
    """
    p = np.maximum(rng.dirichlet(prior.alpha, draws), 1e-300)
    return p / p.sum(axis=1, keepdims=True)


def _sticks(prior: Dirichlet, order: int) -> tuple[FloatArray, FloatArray]:
    """Return (nodes (m, a), weights (m,)) of the stick-breaking product rule."""
    alpha, left, weights = prior.alpha, np.ones(1), np.ones(1)
    columns: list[FloatArray] = []
    for i in range(alpha.size - 1):
        nodes, w = beta_rule(alpha[i], alpha[i + 1 :].sum(), order)
        columns = [np.repeat(c, order) for c in columns] + [np.multiply.outer(left, nodes).ravel()]
        left = np.multiply.outer(left, 1 - nodes).ravel()
        weights = np.multiply.outer(weights, w).ravel()
    return np.stack([*columns, left], axis=1), weights


# ---- reports simulated or listed under a prior -----------------------------------------------------------------------
@described
def exact_moments(collection: Collection, prior: Dirichlet) -> Any:
    """Return the exact posterior moments: by integrals where every report singles out a category, else over all tallies.

    Parameters
    ----------
    collection : Collection

    Returns
    -------
    object
        With mean and variance of P, (a,) arrays, and log_evidence, log P(Y) of these ordered reports under the prior.

    Raises
    ------
    InfeasibleError
        Where neither method applies: the true tallies are too many to list.
    """
    # Imported lazily: nothing else of the theory needs the posterior package.
    from ldpbayes.methods.exact import Exact

    try:
        return Exact().moments(collection, prior)
    except InfeasibleError as err:
        not_separable = err
    try:
        return Enumeration()(collection, prior)
    except InfeasibleError as err:
        raise InfeasibleError(f"{not_separable} {err}") from None


@described
def over_reports(
    protocol: AbstractProtocol,
    prior: Dirichlet,
    n: int,
    function: Callable[[Collection, Any, FloatArray | None], float],
    *,
    draws: int,
    random_seed: object,
    limit: int = 1_000,
) -> Value:
    """Return E f(collection, posterior moments, P) over P ~ prior and the reports of n users, as a Value.

    If there are at most ``limit`` tallies, C(n+b−1, b−1), all of them are listed and P is None. Otherwise P, the values and
    the reports are simulated.

    Parameters
    ----------
    function : callable
        (collection, moments, P or None) -> float.
    draws : int
        Simulated collections.
    limit : int
        Most report tallies that are listed.

    Returns
    -------
    Value

    Raises
    ------
    InfeasibleError
        If the tallies are too many to list and draws is below 2.
    """
    checks.users_count(n)
    b = protocol.n_outputs
    every = count_vectors(b, n) if b is not None and math.comb(n + b - 1, n) <= limit else None
    if every is not None:
        reports, total = protocol.all_reports(), 0.0
        for counts in every:
            collection = as_collection(Tally(protocol, reports, counts))
            if not (collection.rows.dense().max(axis=1) > 0).all():
                continue
            exact = exact_moments(collection, prior)
            total += math.exp(exact.log_evidence + log_multinomial(counts)) * function(collection, exact, None)
        return Value(total, 0.0, "sum over reports")
    if checks.integer(draws, "draws", minimum=0) < 2:
        raise InfeasibleError(f"{n} users can send more than {limit} tallies: Monte Carlo needs draws of at least 2.")
    rng, values = checks.generator(random_seed), []
    for p in draw_distributions(prior, draws, rng):
        reports, counts = protocol.simulate(rng.multinomial(n, p), rng)
        collection = as_collection(Tally(protocol, reports, counts))
        values.append(function(collection, exact_moments(collection, prior), p))
    return Value(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(draws)), "Monte Carlo")
