"""The Dirichlet prior, conjugate to direct answers: what exact methods need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, log_expit

from ldpbayes import checks
from ldpbayes.compiling import model_data
from ldpbayes.errors import ArgumentError
from ldpbayes.priors.base import AbstractPrior

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

#: Mathematics: Relative error of the moments of P by integrals, and that by rounding alone; error of their log-evidence.
INTEGRALS, ROUNDING, NATS = 1e-9, 1e-12, 1e-6
#: Rule: Up to this many categories the PyMC variable breaks a stick; above, it normalizes independent variables. A stick has
#: no free direction beside tight ones, which strong reports of few categories need; but its steps depend on all before it,
#: and of 100 categories and 10,000 reports the variables of Jeffreys' prior gave 4,428 effective draws a CPU second,
#: PyMC's own simplex 145. Where in between the two change places was not measured; both give the same posterior.
MAX_STICKS = 10


@dataclass(frozen=True, eq=False)
class Dirichlet(AbstractPrior):
    """Dirichlet(α): density ∝ Π_x p_x^{α_x − 1} on the simplex.

    Parameters
    ----------
    alpha : (a,) array
        Concentrations, finite and above zero; Jeffreys is ½, flat is 1.

    Notes
    -----
    The unknowns are the logits z of sticks, σ(z_x + c_x) = P_x / Σ_{x' ≥ x} P_x' ~ Beta(α_x, Σ_{x' > x} α_x'), where c_x
    makes P uniform at z = 0.
    """

    alpha: np.ndarray

    def __post_init__(self):
        alpha = checks.reals(self.alpha, "alpha", "numbers above 0, one per category", ndim=None, finite=False)
        if alpha.ndim != 1 or alpha.size < 2:
            raise ArgumentError(f"alpha must be one-dimensional with at least two entries, got shape {alpha.shape}.")
        if not (np.isfinite(alpha) & (alpha > 0)).all():
            raise ArgumentError(f"alpha must be finite and above 0, got {alpha[~(np.isfinite(alpha) & (alpha > 0))][0]}.")
        for value in (alpha.min(), alpha.max()):
            checks.positive(float(value), "alpha")
        alpha.setflags(write=False)
        object.__setattr__(self, "alpha", alpha)

    def __eq__(self, other):
        return isinstance(other, Dirichlet) and np.array_equal(self.alpha, other.alpha)

    def __hash__(self):
        return hash(self.alpha.tobytes())

    @classmethod
    def jeffreys(cls, n_categories: int) -> "Dirichlet":
        """Return Dirichlet(½, …, ½)."""
        return cls(np.full(checks.categories_count(n_categories), 0.5))

    @classmethod
    def flat(cls, n_categories: int) -> "Dirichlet":
        """Return Dirichlet(1, …, 1), uniform on the simplex."""
        return cls(np.ones(checks.categories_count(n_categories)))

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], "Dirichlet"]]:
        return {"jeffreys": cls.jeffreys, "flat": cls.flat}

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of categories, a."""
        return self.alpha.size

    def without(self, owners: tuple[int | None, ...]) -> "Dirichlet":
        alpha = self.alpha[: self.alpha.size - len(owners)].copy()
        for own, x in zip(self.alpha[alpha.size :], owners, strict=True):
            if x is not None:
                alpha[x] += own
        return Dirichlet(alpha)

    @property
    def total(self) -> float:
        """Σ_x α_x."""
        return float(self.alpha.sum())

    @property
    def mean(self) -> np.ndarray:
        """E[P] = α / Σα."""
        return self.alpha / self.total

    def concentrations(self) -> np.ndarray:
        return self.alpha

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return rng.dirichlet(self.alpha, size)

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return stick_draws(np.broadcast_to(self.sticks, (size, self.alpha.size - 1, 2)), rng)

    @property
    def n_unknowns(self) -> int:
        return self.alpha.size - 1

    @property
    def _rest(self):
        """Return Σ_{x' > x} α_x' for every stick, shape (a − 1,)."""
        return self.alpha[::-1].cumsum()[::-1][1:]

    @property
    def sticks(self) -> np.ndarray:
        """Parameters of the Beta distribution of each stick, (a − 1, 2)."""
        return np.column_stack([self.alpha[:-1], self._rest])

    def _logits(self, z):
        """Return the sticks' logits; z = 0 is the uniform distribution."""
        return z - np.log(np.arange(self.alpha.size - 1, 0, -1.0))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        alpha, rest, logit = self.alpha[:-1], self._rest, self._logits(np.asarray(z, dtype=float))
        constant = (gammaln(alpha + rest) - gammaln(alpha) - gammaln(rest)).sum()
        return constant + log_expit(logit) @ alpha + log_expit(-logit) @ rest

    def gradient(self, z: np.ndarray) -> np.ndarray:
        share = np.exp(log_expit(self._logits(z)))
        return self.alpha[:-1] * (1 - share) - self._rest * share

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        logit = self._logits(np.asarray(z, dtype=float))
        left = np.cumsum(log_expit(-logit), axis=-1)
        before = np.concatenate([np.zeros_like(left[..., :1]), left], axis=-1)
        return np.exp(np.concatenate([log_expit(logit) + before[..., :-1], left[..., -1:]], axis=-1))

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        # d log P_x/dz_x = 1 − s_x, and d log P_y/dz_x = −s_x for the later y > x.
        flow, share = self.to_simplex(z) * dp, np.exp(log_expit(self._logits(z)))
        later = flow[..., ::-1].cumsum(axis=-1)[..., ::-1][..., 1:]
        return flow[..., :-1] * (1 - share) - later * share

    def pymc(self, name: str) -> "TensorVariable":
        """Return P as an expression of unconstrained variables that NUTS samples well.

        =============================== ===============================================================================
        a ≤ MAX_STICKS                  logits y of sticks, σ(y_x) ~ Beta(α_x, Σ_{x' > x} α_x'): as many as P has
                                        dimensions, so strong data leave no free direction beside tight ones
        above, Jeffreys                 z ~ N(0, I), P = z²/Σz²
        above, any other α              log g_x with g_x ~ Gamma(α_x), P = g/Σg
        =============================== ===============================================================================

        α enters as ``pm.Data``; only whether all of it is ½ shapes the model.

        Parameters
        ----------
        name : str
            Of the latent variable.
        """
        import pymc as pm
        import pytensor.tensor as pt

        # Starts are support points: an initval is where pm.sample_smc would put all of its draws from the prior.
        alpha, size = self.alpha, self.alpha.size
        if size > MAX_STICKS and (alpha == 0.5).all():
            z = pm.CustomDist(name, dist=_normal, shape=size, support_point=lambda rv, size: pt.ones(size))
            return z**2 / (z**2).sum()
        if size > MAX_STICKS:
            log_gamma = pm.CustomDist(
                name,
                model_data(f"{name}_alpha", alpha),
                dist=log_gamma_variable,
                logp=_log_gamma_logp,
                shape=size,
                support_point=lambda rv, size, alpha: pt.zeros(size),
            )
            return pm.math.softmax(log_gamma)
        rest = model_data(f"{name}_alpha_rest", self._rest)
        return sticks(name, model_data(f"{name}_alpha", alpha[:-1]), rest, size)

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"alpha": self.alpha}

    def describe(self) -> str:
        """Return a short name such as ``Jeffreys, Dirichlet(0.5)``."""
        first = self.alpha[0]
        if (self.alpha == first).all():
            name = {0.5: "Jeffreys, ", 1.0: "flat, "}.get(float(first), "")
            return f"{name}Dirichlet({first:g})"
        return f"Dirichlet with concentrations {self.alpha.min():g} to {self.alpha.max():g}"


def evidence_error(alpha):
    """Return the error of a log-evidence that is an integral: that of the sums of log Γ(α) counts where α is large."""
    return max(NATS, np.finfo(float).eps * float(np.abs(gammaln(alpha)).sum() + np.abs(gammaln(alpha.sum()))))


def frequency_moments(mean, variance, alpha, n, given_p=None, error=INTEGRALS):
    """Return (mean, sd) of F given the reports, from the posterior moments of P under a Dirichlet(α) prior.

    With A = Σα + n and μ = E[P|Y]:  E[T|Y] = A μ − α  and  Var(T_x|Y) = A[(A+1) Var(P_x|Y) − μ_x(1−μ_x)]; F = T/n. Both
    follow from P | T ~ Dirichlet(α + T) by the laws of total expectation and variance. The difference multiplies the error
    of the moments by A/n. Where that exceeds n/A, by which P given T depends on T, F has its moments given P = μ.

    Parameters
    ----------
    mean, variance : (a,) arrays
        E[P|Y] and Var(P|Y).
    alpha : (a,) array
    n : int
        Number of users.
    given_p : callable, optional
        P, in the shape of ``mean``, → mean and variance of T given P and the reports.
    error : float
        Relative error of the moments.

    Returns
    -------
    tuple of two (a,) arrays
    """
    total = alpha.sum() + n
    frequency = np.clip((total * mean - alpha) / n, 0.0, 1.0)
    less = mean * (1 - mean)
    spread = (total + 1) * variance - less
    # What is left of two equal numbers is their rounding: F is known where all were asked directly.
    square = np.where(spread > ROUNDING * less, total * spread, 0.0)
    near = (np.asarray(n) / total) ** 2 < error
    if given_p is not None and near.any():
        tally, tally_variance = given_p(mean)
        frequency = np.where(near, np.clip(tally / n, 0.0, 1.0), frequency)
        square = np.where(near, np.maximum(tally_variance, 0.0), square)
    return frequency, np.sqrt(square) / n


def stick_draws(parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return draws of sticks z, shape (S, k), by the parameters (S, k, 2) of the Beta distribution of each stick's share."""
    # Gamma(α) = Gamma(α + 1) U^(1/α), in logs: a small α underflows otherwise.
    logs = np.log(rng.standard_gamma(parameters + 1)) + np.log(rng.random(parameters.shape)) / parameters
    return logs[..., 0] - logs[..., 1] + np.log(np.arange(parameters.shape[1], 0, -1.0))


def _normal(size):
    import pymc as pm

    return pm.Normal.dist(0.0, 1.0, size=size)


def _log_gamma_logp(value, alpha):
    import pytensor.tensor as pt

    return alpha * value - pt.exp(value) - pt.gammaln(alpha)


def log_gamma_variable(alpha, size):
    """Return log g, g ~ Gamma(α), as a PyMC variable, accurate for small α."""
    import pymc as pm
    import pytensor.tensor as pt

    # Gamma(α) = Gamma(α + 1) U^(1/α), in logs: small α underflows otherwise.
    return pt.log(pm.Gamma.dist(alpha + 1, 1, size=size)) + pt.log(pm.Uniform.dist(0, 1, size=size)) / alpha


def sticks(name, alpha, rest, size):
    """Return P over ``size`` categories with sticks ~ Beta(alpha, rest), as an expression of their logits in PyMC."""
    import pymc as pm
    import pytensor.tensor as pt

    even = -np.log(np.arange(size - 1, 0, -1.0))
    logit = pm.CustomDist(
        name,
        alpha,
        rest,
        dist=_logit_beta,
        logp=_logit_beta_logp,
        shape=size - 1,
        support_point=lambda rv, size, *parameters: pt.broadcast_to(even, size),
    )
    log_share, left = -pt.softplus(-logit), -pt.cumsum(pt.softplus(logit))
    return pt.exp(pt.concatenate([log_share[:1], log_share[1:] + left[:-1], left[-1:]]))


def _logit_beta_logp(value, alpha, beta):
    import pytensor.tensor as pt

    normalizer = pt.gammaln(alpha) + pt.gammaln(beta) - pt.gammaln(alpha + beta)
    return -alpha * pt.softplus(-value) - beta * pt.softplus(value) - normalizer


def _logit_beta(alpha, beta, size):
    return log_gamma_variable(alpha, size) - log_gamma_variable(beta, size)
