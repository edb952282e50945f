"""Exact posterior of separable likelihoods: GRR with any number of channels, forced response, every two-category design."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.inference.ends import tails
from ldpbayes.posteriors.base import AbstractPosterior, Answer, Pace, Plan, Watch
from ldpbayes.posteriors.mixing import Separable, blocks, entries_of, inverted
from ldpbayes.posteriors.mixture import nodes_of, sampled
from ldpbayes.posteriors.nodes import Nodes
from ldpbayes.posteriors.problem import Problem, scaled
from ldpbayes.posteriors.products import EVERY, drawable, tables
from ldpbayes.priors import as_prior

#: Above this many categories the covariance matrix is not stored with the result.
COVARIANCE_LIMIT = 2000
#: Operations of one factor, in those of a draw of one category.
FACTOR = 250


class ExactMoments:
    """Posterior of P without draws, where every report singles out one category.

    Under a Dirichlet prior, or under all that a prior mixes.

    Parameters
    ----------
    rows : Rows
    prior : AbstractPrior

    Attributes
    ----------
    weights : (k,) array
        Posterior weights of the Dirichlet priors.
    engines : list of ConditionedProduct
        Under each of them; ``engine`` is the first.
    mean : (a,) array
        E[P|Y].
    """

    def __init__(self, rows, prior):
        self._server = Separable([Problem(rows, prior, rows.n_reports, prior.n_categories, None)])
        mixture = prior.mixture()
        self._nodes = Nodes.alone(prior) if mixture is None else nodes_of(mixture, [self._server])[0]
        self.weights = self._nodes.weights
        self.engines = [self._server.engine(given) for given in self._nodes.priors]
        if any(engine.rough.any() for engine in self.engines):
            raise ConvergenceError("The transforms must die out, but these factors are too rough; use another method.")
        self.engine = self.engines[0]
        self.mean = self.weights @ np.concatenate([engine.mean for engine in self.engines])

    @cached_property
    def entries(self):
        """Entries of result.EXACT: moments of P and of the users' own frequencies F, and log P(Y), of ordered reports."""
        return {name: values[0] for name, values in entries_of(self._server, self._nodes).items()}

    @property
    def sd(self):
        """Posterior standard deviations of P, shape (a,)."""
        return self.entries["distribution_sd"]

    @property
    def variance(self):
        """Var(P|Y), shape (a,)."""
        return self.sd**2

    @property
    def frequency_mean(self):
        """E[F|Y], shape (a,)."""
        return self.entries["frequency_mean"]

    @property
    def frequency_sd(self):
        """Posterior standard deviations of F, shape (a,)."""
        return self.entries["frequency_sd"]

    @property
    def log_evidence(self):
        """log P(Y = these ordered reports) under the prior."""
        return float(self.entries["log_evidence"])

    def covariance(self):
        """Return Cov(P|Y), shape (a, a)."""
        return entries_of(self._server, self._nodes, dependent=True)["distribution_cov"][0]

    def quantile(self, q):
        """Return the q-quantiles of every P_x: shape (a,), or (len(q), a) for several q."""
        if len(self.engines) == 1:
            out = self.engine.quantile(np.atleast_1d(q))[:, 0]
        else:
            out = np.array([inverted(self.engines, self.weights, level, self.mean[None])[0] for level in np.atleast_1d(q)])
        return out if np.ndim(q) else out[0]

    def interval(self, ci_prob=0.95):
        """Return the ends of the equal-tailed intervals, two arrays of shape (a,)."""
        return self.quantile(np.array(tails(checks.level(ci_prob))))

    def diagnostics(self):
        """Return the route of the engine under the first prior, its nodes and its self-checks as a dict."""
        return self.engine.diagnostics()


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
        return ExactMoments(scaled(collection).rows, as_prior(prior, collection.n_categories))

    def run(self, plan, rng, watch):
        problem, server, facts = plan.state, Separable([plan.state]), {}
        (sample,), _ = sampled(Nodes.alone(problem.prior), [server], (self.chains, self.draws), [rng], rng, watch)
        exact, engine = dict(sample.exact), server.engine(problem.prior)
        facts = {f"exact_{name}": value for name, value in engine.diagnostics().items()}
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
