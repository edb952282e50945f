"""Log-linear models of tables, without PyMC: a Gaussian core of the effects at every sd of interactions, and weights."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.special import logsumexp

from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.nested import WAYS, Cores, Grid, Nested, conditional_mode, nested
from ldpbayes.inference.structure import Factor
from ldpbayes.likelihoods.expansion import Quadratic
from ldpbayes.methods.constants import MAX_ENTRIES
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.plan import Pace, Preparation, Refusal
from ldpbayes.priors.base import softmax


@dataclass(frozen=True, eq=False)
class ReportLikelihood:
    """The log-likelihood of P by all distinct reports.

    Attributes
    ----------
    rows : Rows
    small : int
        The most entries of rows that are one matrix: products along attributes visit fewer numbers, but in many small
        steps. Bank: small tables take three times as long without it.
    """

    rows: Any
    small: int = 2**16

    @cached_property
    def channel(self) -> np.ndarray | None:
        """The rows as one matrix (reports, a), where they are small."""
        return self.rows.dense() if self.rows.n_rows * self.rows.n_categories <= self.small else None

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
class EffectsPosterior:
    """The posterior of the effects θ of a log-linear model, P = softmax(B θ), given log(σ_m/scale) of every order m.

    Attributes
    ----------
    prior : LogLinear
    rows : Rows
    expansion : Quadratic, optional
        Takes the place of the log-likelihood, except in the weights at the end.
    step : float
        Step of the lattice of log σ. Derived: the cores of two neighbours overlap. Bank: at double two of three are apart.
    finer : float
        The step at most, in units of one over the square root of the effects whose sd it is. Derived: the posterior
        sd of log σ is about 1/√(2 · effects) where they are known, so that a step is some three sds at most.
    reach : float
        The farthest that the lattice is from the prior's scale. Derived: no posterior mass lies beyond. Bank: half takes
        twice as long, double changes no number.
    fall : float
        Nats by which a node's evidence is below the best one's where the lattice ends. Derived: e⁻⁸ = .0003 of the mass
        of the best node is left out. Bank: at half and at double one of three is apart.
    nodes : int
        The most nodes of the lattice. Bank: without it tables of three attributes take twice as long.
    effects : int
        The most effects. Memory: their Hessian is a dense matrix, of 12 MB.
    many : int
        Distinct reports a cell of the table from which on the log-likelihood is expanded. Bank: half and double change no
        number. An expansion, a matrix of cells × cells, visits fewer numbers from one on, and takes a few passes to make.
    """

    prior: Any
    rows: Any
    expansion: Quadratic | None = None
    step: float = 0.7
    finer: float = 2.0
    reach: float = 12.0
    fall: float = 8.0
    nodes: int = 80
    effects: int = 1200
    many: int = 4

    @property
    def too_large(self) -> str:
        """Why there are too many effects, as what goes on after the name of a method, or an empty string."""
        effects, largest = self.prior.n_effects, max(self.rows.n_rows, self.prior.n_categories)
        if effects > self.effects:
            return f"takes at most {self.effects} effects; {self.prior.describe()} has {effects}"
        if largest * effects > MAX_ENTRIES:
            return (
                f"holds a matrix of reports × effects ({self.rows.n_rows:,} × {effects:,} here), of {MAX_ENTRIES:.0e} "
                "entries at most; lower order"
            )
        return ""

    @property
    def visited(self) -> int:
        """Numbers that one evaluation of the density visits."""
        return self.rows.n_rows + self.prior.n_categories

    def grid(self) -> Grid:
        """Return the grid of log(σ_m/scale); the densities hold their prior."""
        steps = [min(self.step, self.finer / math.sqrt(batch.size)) for batch in self.prior.batches]
        ends = [math.floor(self.reach / step) for step in steps]
        axes = tuple(step * np.arange(-end, end + 1) for step, end in zip(steps, ends, strict=True))
        return Grid(axes, tuple(ends), lambda *logs: 0.0, self.fall, self.nodes)

    def start(self) -> np.ndarray:
        """Return no effects."""
        return np.zeros(self.prior.n_effects)

    @cached_property
    def likelihood(self) -> ReportLikelihood | Quadratic:
        """The log-likelihood that the density has."""
        return ReportLikelihood(self.rows) if self.expansion is None else self.expansion

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

    def expanded(self) -> "EffectsPosterior":
        """Return the same posterior with its log-likelihood expanded at the mode at the first node."""
        grid = self.grid()
        at = tuple(float(axis[i]) for axis, i in zip(grid.axes, grid.first, strict=True))
        pilot = self.shares(conditional_mode(self, at, self.start()).centre)
        return replace(self, expansion=self.rows.quadratic(pilot[None]))

    def drawn(self, draws: int, rng: np.random.Generator, watch: Any = None) -> Nested:
        """Return draws of the effects, with the evidence of the reports.

        Where distinct reports are many, all is done with an expansion of the log-likelihood, which the weights correct;
        where they do not, all is done again with the reports.
        """
        if self.expansion is None and self.rows.n_rows > self.many * self.prior.n_categories:
            drawing = self.expanded().drawn(draws, rng, watch)
            if drawing.verdict.accepted:
                return drawing
        return nested(Cores.of([self], self.grid(), watch), draws, rng, WAYS, watch, "tables")

    def outcome(self, draws: int, split: tuple[int, int], rng: np.random.Generator, watch: Any) -> Outcome:
        """Return the Outcome of ``draws`` draws, split in chains, with the evidence, also of independence."""
        prior, drawing = self.prior, self.drawn(draws, rng, watch)
        (effects,), (drawn,), (weights,) = drawing.g, drawing.drawn, drawing.weights
        facts = weights.facts
        if prior.order > 1:
            facts |= of_independence(prior, self.rows, draws, rng)
        return Outcome(
            self.shares(effects).reshape(*split, *prior.shape),
            effective=drawing.effective,
            verdict=drawing.verdict,
            weighted_draws=(self.shares(drawn.g), weights.weight),
            hyperparameters={name: values.reshape(split) for name, values in prior.draw_scales(effects, rng).items()},
            facts=facts,
        )


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
    table = EffectsPosterior(prior, rows)
    if why := table.too_large:
        raise InfeasibleError(f"the evidence by weighted draws {why}")
    drawn = table.drawn(draws, rng)
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
    (weights,) = EffectsPosterior(prior.independence(), rows).drawn(draws, rng).weights
    return {
        "log_evidence_independence": weights.log_evidence,
        "log_evidence_independence_error": weights.log_evidence_error,
    }


def planned(problem: Any) -> Preparation | Refusal:
    """Return the Preparation of the method weighted for a log-linear prior; its state ends with the effects' posterior.

    Parameters
    ----------
    problem : Problem
    """
    prior = problem.prior
    table = EffectsPosterior(prior, problem.rows)
    if why := table.too_large:
        return Refusal(f"The method weighted {why}.")
    try:
        prior.basis  # noqa: B018  (made for run())
    except InfeasibleError as err:
        return Refusal(str(err))
    work = prior.n_effects**2 * min(table.visited, (1 + table.many) * prior.n_categories)
    reason = "A log-linear prior: Laplace's approximation at every sd, weighted."
    return Preparation(reason, work, (problem, table), Pace(0.1, 0.0, 2e-7))
