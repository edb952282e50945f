"""Exact posterior of separable likelihoods: GRR with any number of channels, forced response, every two-category design."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.posteriors.base import AbstractPosterior, Answer, Pace, Plan, Watch
from ldpbayes.posteriors.conditioned_product import ConditionedProduct
from ldpbayes.posteriors.frequency import frequency_moments
from ldpbayes.posteriors.mixing import Separable, blocks
from ldpbayes.posteriors.mixture import sampled
from ldpbayes.posteriors.nodes import Nodes
from ldpbayes.posteriors.problem import Problem, scaled
from ldpbayes.posteriors.products import EVERY, Products, drawable, singling, tables
from ldpbayes.priors import as_prior

#: Above this many categories the covariance matrix is not stored with the result.
COVARIANCE_LIMIT = 2000
#: Operations of one factor, in those of a draw of one category.
FACTOR = 250


@dataclass(frozen=True, eq=False)
class ExactMoments:
    """Posterior of P without draws.

    Attributes
    ----------
    mean, variance : (a,) arrays
        E[P|Y] and Var(P|Y).
    log_evidence : float
        log P(Y = these ordered reports) under the prior.
    frequency_mean, frequency_sd : (a,) arrays
        E and sd of the users' own frequencies F.
    engine : ConditionedProduct
    """

    mean: np.ndarray
    variance: np.ndarray
    log_evidence: float
    frequency_mean: np.ndarray
    frequency_sd: np.ndarray
    engine: ConditionedProduct = field(repr=False)

    @cached_property
    def sd(self):
        """Posterior standard deviations of P."""
        return np.sqrt(self.variance)

    def covariance(self):
        """Return Cov(P|Y), shape (a, a)."""
        return self.engine.covariance()

    def quantile(self, q):
        """Return the q-quantiles of every P_x: shape (a,), or (len(q), a) for several q."""
        return self.engine.quantile(q)

    def interval(self, ci_prob=0.95):
        """Return the ends of the equal-tailed intervals, two arrays of shape (a,)."""
        tail = (1 - checks.level(ci_prob)) / 2
        return self.quantile(np.array([tail, 1 - tail]))

    def diagnostics(self):
        """Return the route of the engine, its nodes and its self-checks as a dict."""
        return checks_of(self.engine)


@dataclass(frozen=True)
class Exact(AbstractPosterior):
    """Exact posterior where every report singles out at most one category.

    p(P|Y) ∝ Π_x p_x^{α_x−1} Π_j (1 + c_xj p_x)^{w_xj} on the simplex; moments, covariance, quantiles and evidence are
    one-dimensional integrals, and draws are independent.

    Parameters
    ----------
    draws, chains : int
        Independent draws of (P, F), shaped like chains so that every tool reads them.

    References
    ----------
    Lopuhaä-Zwakenberg et al. 2020, App. A.
    """

    draws: int = 1000
    chains: int = 4
    name: ClassVar[str] = "exact"
    order: ClassVar[float] = 1
    most: ClassVar[float] = 2.5e7
    pace: ClassVar[Pace] = Pace(0.01, 0.0, 4e-7)

    def prepare(self, problem):
        form, size = drawable(problem.separable), self.draws * self.chains
        return Plan(EVERY, problem.n_categories * (size + FACTOR) + tables(form) / 4, problem)

    def moments(self, collection, prior):
        """Return ExactMoments: mean, variance, covariance, quantiles and log-evidence, without draws.

        Raises
        ------
        InfeasibleError
            Where the likelihood is not separable.
        """
        return exact_moments(scaled(collection).rows, as_prior(prior, collection.n_categories))

    def run(self, plan, rng, watch):
        problem, server, facts = plan.state, Separable([plan.state]), {}
        (sample,), _ = sampled(Nodes.alone(problem.prior), [server], (self.chains, self.draws), [rng], rng, watch)
        exact, engine = dict(sample.exact), server.engine(problem.prior)
        facts = {f"exact_{name}": value for name, value in checks_of(engine).items()}
        if problem.n_categories <= COVARIANCE_LIMIT:
            exact["distribution_cov"] = engine.covariance()[0]
        else:
            facts["exact_covariance"] = f"left out above {COVARIANCE_LIMIT} categories; Exact().moments gives it"
        return replace(sample, exact=exact, facts=dict(sample.facts) | facts)


def fit_alone(cells, prior, sizes, seeds, run):
    """Return the Answers of cells whose posteriors are all exact, in one computation; none where that of some cell is not.

    Parameters
    ----------
    cells : Cells
        Without respondents who ignore the device.
    prior : AbstractPrior
        Of each cell.
    sizes : dict
        draws and chains.
    seeds : list of int
        Of each cell: its draws do not depend on the other cells.
    run : dict
        ci_prob and progressbar.
    """
    problems = [Problem.of(cell, prior) for cell in cells.collections()]
    if problems[0].alpha is None or any(problem.collection.weighted for problem in problems):
        return []
    method, watch, rngs = Exact(**sizes), Watch(run["progressbar"]), [np.random.default_rng(seed) for seed in seeds]
    try:
        plans = [method.prepare(problem) for problem in problems]
    except InfeasibleError:
        return []
    servers = list(blocks(Separable, problems, range(len(problems))))
    samples, _ = sampled(Nodes.alone(prior), servers, (method.chains, method.draws), rngs, None, watch)
    settings = [{"random_seed": seed, "ci_prob": run["ci_prob"]} for seed in seeds]
    several = zip(problems, samples, rngs, settings, plans, strict=True)
    return [Answer(method, problem, sample, rng, watch, asked, plan.reason) for problem, sample, rng, asked, plan in several]


def checks_of(engine):
    """Return the route of an engine of one set of factors, its nodes and its self-checks as a dict."""
    return {
        **engine.diagnostics(),
        "mean_sum_error": float(abs(engine.mean.sum() - 1)),
        "covariance_row_sum_error": engine.row_sum_error(),
    }


def exact_moments(rows, prior):
    """Return the ExactMoments of separable rows under a Dirichlet prior.

    Parameters
    ----------
    rows : Rows
    prior : Dirichlet
    """
    return moments_of(singling(rows.separable()), prior.concentrations(), rows.n_reports)


def moments_of(form, alpha, n):
    """Return the ExactMoments of a separable form under Dirichlet(α).

    Parameters
    ----------
    form : Separable
    alpha : (a,) array
    n : int
        Number of users.
    """
    products = Products.of([form], alpha.size)
    engine = products.engine(alpha)
    log_evidence = engine.log_evidence + float(products.left_out(alpha)[0])
    frequency = frequency_moments(engine.mean, engine.variance, alpha, n)
    return ExactMoments(engine.mean, engine.variance, log_evidence, *frequency, engine)
