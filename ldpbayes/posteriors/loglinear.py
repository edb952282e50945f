"""Log-linear models of tables, without PyMC: a Gaussian core of the effects at every sd of interactions, and weights."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky
from scipy.special import logsumexp

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.nested import WAYS, Cores, Grid, Nested, nested, settled
from ldpbayes.inference.structure import Factor
from ldpbayes.likelihoods.expansion import Quadratic
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Refusal, Sample
from ldpbayes.priors.base import softmax

#: More effects than this are left to NUTS: their Hessian is a dense matrix.
MAX_EFFECTS = 1200
#: Most entries of (distinct reports × effects) and of (cells × effects).
MAX_ENTRIES = 5e7
#: Rows of at most so many entries are one matrix: products along attributes visit fewer numbers, but in many small steps.
SMALL = 2**16
#: The log-likelihood of so many times more distinct reports than cells is expanded, of so many cells at most, and of more
#: entries than the last: the few reports that are as cheap leave shares near zero, where an expansion proposes too little.
MANY, MAX_EXPANDED, CHEAP = 4, 512, 2**12
#: Nodes of log σ lie on a lattice with this step, or a smaller one of so many over the square root of the effects whose sd
#: it is, between these ends …
STEP, FINER, ENDS = 0.7, 2.0, (-12.0, 4.0)
#: … wherever the approximate posterior is within FALL nats of the best node.
FALL, MAX_NODES = 8.0, 80


@dataclass(frozen=True, eq=False)
class Reports:
    """The log-likelihood of P by all distinct reports."""

    rows: Any

    @cached_property
    def channel(self) -> np.ndarray | None:
        """The rows as one matrix (reports, a), where they are few."""
        return self.rows.dense() if self.rows.n_rows * self.rows.n_categories <= SMALL else None

    def matvec(self, p: np.ndarray) -> np.ndarray:
        """Return the rows times columns (a, …)."""
        return self.rows.matvec(p) if self.channel is None else self.channel @ p

    def value_and_gradient(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ℓ of many P (S, a), and its gradient."""
        u, w = self.matvec(np.ascontiguousarray(p.T)), self.rows.counts
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value, inverse = w @ np.log(u) + self.rows.log_constant, w[:, None] / u
            return value, (self.rows.rmatvec(inverse) if self.channel is None else self.channel.T @ inverse).T

    def curvature(self, p: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return Kᵀ H K for minus the Hessian H of ℓ at P (a,) and steps K (a, k)."""
        bent = self.matvec(steps) / self.matvec(p)[:, None]
        return (self.rows.counts[:, None] * bent).T @ bent


@dataclass(frozen=True, eq=False)
class Table:
    """The posterior of the effects θ of a log-linear model, P = softmax(B θ), given log(σ_m/scale) of every order m.

    Attributes
    ----------
    prior : LogLinear
    rows : Rows
    expansion : Quadratic, optional
        What takes the place of the log-likelihood, but in the weights at the end.
    """

    prior: Any
    rows: Any
    expansion: Quadratic | None = None

    @property
    def visited(self) -> int:
        """Numbers that one evaluation of the density visits."""
        return self.rows.n_rows + self.prior.n_categories

    def grid(self) -> Grid:
        """Return the grid of log(σ_m/scale); the densities hold their prior."""
        low, high = ENDS
        steps = [min(STEP, FINER / math.sqrt(batch.size)) for batch in self.prior.batches]
        axes = tuple(step * np.arange(math.ceil(low / step), math.floor(high / step) + 1) for step in steps)
        return Grid(axes, tuple(-math.ceil(low / step) for step in steps), lambda *logs: 0.0, FALL, MAX_NODES)

    def start(self) -> np.ndarray:
        """Return no effects."""
        return np.zeros(self.prior.n_effects)

    @cached_property
    def likelihood(self) -> Reports | Quadratic:
        """The log-likelihood that the density has."""
        return Reports(self.rows) if self.expansion is None else self.expansion

    def shares(self, effects: np.ndarray) -> np.ndarray:
        """Return P of θ, shape (…, a)."""
        return softmax(self.prior.predictor(effects))

    judged = shares

    def log_density_and_gradient(self, effects: np.ndarray, *logs: float) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(Y, θ, logs) of many θ (S, u), without (2π)^(−u/2), and its gradient."""
        p = self.shares(effects)
        value, gradient = self.likelihood.value_and_gradient(p)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = self.prior.effects_of(p * (gradient - (p * gradient).sum(axis=1, keepdims=True)))
        value = value + self.prior.log_prior_given(effects, logs) + 0.5 * effects.shape[1] * math.log(2 * math.pi)
        return value, slope - effects * self.prior.deviations(np.array(logs)) ** -2.0

    def information(self, effects: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of ℓ, its mean over θ (S, u).

        Kᵀ H K − Bᵀ diag(t − n p) B + s mᵀ + m sᵀ − 2 n m mᵀ, with H minus the Hessian in P, K = ∂P/∂θ = diag(p) (B − 1mᵀ),
        m = Bᵀ p, t = p ∇ℓ, s = Bᵀ t and n = Σ t.
        """
        basis, shares = self.prior.basis, self.shares(effects)
        out = np.zeros((basis.shape[1],) * 2)
        for p, gradient in zip(shares, self.likelihood.value_and_gradient(shares)[1], strict=True):
            mean, pulled = basis.T @ p, p * gradient
            n = pulled.sum()
            cross = np.outer(basis.T @ pulled - n * mean, mean)
            out += self.likelihood.curvature(p, p[:, None] * (basis - mean)) + cross + cross.T
            out += basis.T @ ((n * p - pulled)[:, None] * basis)
        return out / len(effects)

    def factor(self, information: np.ndarray, *logs: float) -> Factor:
        """Return the factor of the prior's precision plus an information (u, u)."""
        precision = np.diag(self.prior.deviations(np.array(logs)) ** -2.0)
        return Factor(cholesky(information + precision, lower=True, check_finite=False), precision.shape[:1])

    def left_out(self, effects: np.ndarray, nodes: Any) -> np.ndarray:
        """Return log p(θ), the sds integrated over, less the log of its sum over the nodes, for θ (S, u).

        Of an expansion, plus what it leaves out of the log-likelihood.
        """
        prior = self.prior.log_prior(effects) - logsumexp([self.prior.log_prior_given(effects, t) for t in nodes], axis=0)
        if self.expansion is None:
            return prior
        p = self.shares(effects)
        return prior + self.rows.log_likelihood(np.ascontiguousarray(p.T)) - self.expansion.value_and_gradient(p)[0]

    def expanded(self) -> "Table":
        """Return the same posterior with its log-likelihood expanded at the mode at the first node."""
        grid = self.grid()
        at = tuple(float(axis[i]) for axis, i in zip(grid.axes, grid.first, strict=True))
        pilot = self.shares(settled(self, at, self.start()).centre)
        return replace(self, expansion=Quadratic.around(self.rows, pilot[None]))

    def drawn(self, draws: int, rng: np.random.Generator, watch: Any = None) -> Nested:
        """Return draws of the effects, with the evidence of the reports.

        Where distinct reports are many, all is done with an expansion of the log-likelihood, which the weights correct;
        where they do not, all is done again with the reports.
        """
        cells = self.prior.n_categories
        if self.expansion is None and cells <= MAX_EXPANDED and self.rows.n_rows > max(MANY * cells, CHEAP / cells):
            found = self.expanded().drawn(draws, rng, watch)
            if found.verdict.accepted:
                return found
        return nested(Cores.of([self], self.grid(), watch), draws, rng, WAYS, watch, "tables")


def evidences(prior: Any, rows: Any, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the facts about the evidence of a log-linear prior and of independence.

    Parameters
    ----------
    prior : LogLinear
    rows : Rows
    draws : int
    rng : numpy.random.Generator

    Raises
    ------
    InfeasibleError
        Where there are too many effects for a dense Hessian, or the weights of the draws are not accepted.
    """
    if prior.n_effects > MAX_EFFECTS or max(rows.n_rows, prior.n_categories) * prior.n_effects > MAX_ENTRIES:
        raise InfeasibleError(f"the evidence of {prior.n_effects:,} effects would take too long")
    drawn = Table(prior, rows).drawn(draws, rng)
    if not drawn.verdict.accepted:
        raise InfeasibleError(f"the draws for the evidence cannot be trusted: {drawn.verdict.problem}")
    (weights,) = drawn.weights
    facts = {"log_evidence": weights.log_evidence, "log_evidence_error": weights.log_evidence_error}
    return facts | of_independence(prior, rows, draws, rng)


def of_independence(prior: Any, rows: Any, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the facts about the evidence of a log-linear prior without interactions.

    Parameters
    ----------
    prior : LogLinear
    rows : Rows
    draws : int
    rng : numpy.random.Generator
    """
    (weights,) = Table(prior.independence(), rows).drawn(draws, rng).weights
    return {
        "log_evidence_independence": weights.log_evidence,
        "log_evidence_independence_error": weights.log_evidence_error,
    }


@dataclass(frozen=True)
class LogLinearTable(AbstractPosterior):
    """The posterior of a log-linear prior: weighted draws about the modes of the effects, one for every sd of interactions.

    Given the sds of the interactions the effects are nearly normal. Newton's method finds their mode and precision on a
    lattice of log σ; draws of these normal laws are weighted by the posterior density of the effects, in which the sds are
    integrated over exactly, and resampled. Where Pareto's k-hat or their number is not accepted, particles move from there
    to the posterior in steps; see ldpbayes.inference.nested. Where distinct reports are many, all of this visits their
    log-likelihood's expansion, and the weights alone visit the reports.

    Parameters
    ----------
    draws, chains : int
        Draws kept, shaped like chains; at least as many are weighted and resampled.

    Notes
    -----
    A surrogate that is diagonal in the cells is wrong for channels that are products over attributes: their information is
    block-diagonal in the interactions instead, see docs/theory/association.md. The Hessian of the effects is used in
    full. The log-evidence comes with that of independence, the model without interactions.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "loglinear"
    order: ClassVar[float] = 21
    pace: ClassVar[Pace] = Pace(0.1, 0.0, 6e-9)
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def prepare(self, problem):
        prior = problem.prior.log_linear()
        if prior is None:
            return Refusal(f"The method loglinear needs a log-linear prior; this one is {problem.prior.describe()}.")
        effects, reports = prior.n_effects, problem.rows.n_rows
        if effects > MAX_EFFECTS:
            return Refusal(f"The method loglinear takes at most {MAX_EFFECTS} effects; {prior.describe()} has {effects}.")
        if max(reports, prior.n_categories) * effects > MAX_ENTRIES:
            return Refusal(
                f"The method loglinear holds a matrix of reports × effects ({reports:,} × {effects:,} here), of "
                f"{MAX_ENTRIES:.0e} entries at most; lower order."
            )
        try:
            prior.basis  # noqa: B018  (made here, so that run() finds it)
        except InfeasibleError as err:
            return Refusal(str(err))
        work = effects**2 * (reports + prior.n_categories)
        return Plan("A log-linear prior: Laplace's approximation at every sd, weighted.", work, problem)

    def run(self, plan, rng, watch):
        problem = plan.state
        prior, size, split = problem.prior.log_linear(), self.draws * self.chains, (self.chains, self.draws)
        table = Table(prior, problem.rows)
        found = table.drawn(size, rng, watch)
        (effects,), (drawn,), (weights,) = found.g, found.drawn, found.weights
        facts = weights.facts
        if prior.order > 1:
            facts |= of_independence(prior, problem.rows, size, rng)
        hyper = prior.draw_scales(effects, rng)
        return Sample(
            table.shares(effects).reshape(*split, *prior.shape),
            effective=found.effective,
            verdict=found.verdict,
            weighted=(table.shares(drawn.g), weights.weight),
            hyperparameters={name: values.reshape(split) for name, values in hyper.items()},
            facts=facts,
        )
