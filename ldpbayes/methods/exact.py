"""Exact posterior of separable likelihoods: GRR with any number of channels, forced response, every two-category design."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.inference.ends import tails
from ldpbayes.methods import conjugate
from ldpbayes.methods.answer import MethodAnswer
from ldpbayes.methods.base import AbstractPosterior
from ldpbayes.methods.conjugate import entries_of, inverted, nodes_of, sampled
from ldpbayes.methods.nodes import Placement, checked_placement
from ldpbayes.methods.plan import Pace
from ldpbayes.methods.problem import Problem, scaled
from ldpbayes.methods.servers import EXACT, SeparableServer, blocks
from ldpbayes.methods.watch import Watch
from ldpbayes.priors import as_prior


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
        self._server = SeparableServer([Problem(rows, prior, rows.n_reports, prior.n_categories, None)])
        self._nodes = nodes_of(prior.nodes(), [self._server], Placement())[0]
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
    """Exact posterior where every report singles out at most one category, under a Dirichlet prior or what a prior mixes.

    p(P|Y) ∝ Π_x p_x^{α_x−1} Π_j (1 + c_xj p_x)^{w_xj} on the simplex; moments, covariance, quantiles and evidence are
    one-dimensional integrals, and draws are independent. Under a prior that mixes Dirichlet priors, such as ``learnt``,
    nodes stand where the evidence of the reports places them, and a few categories of any reports are served by quadrature
    at each node, too.

    Parameters
    ----------
    draws, chains : int
        Independent draws of (P, F), shaped like chains so that every tool reads them.
    placement : Placement
        Placement of the nodes.

    Notes
    -----
    Under such a prior the attrs have the log-evidence with the hyperparameter integrated over, ``log_bayes_factor_jeffreys``
    (its difference to the log-evidence of Jeffreys' prior; above 0 favours this prior), and mean, lower and upper end of the
    hyperparameter.

    References
    ----------
    Lopuhaä-Zwakenberg et al. 2020, App. A.
    """

    placement: Placement = field(default=Placement(), repr=False)
    name: ClassVar[str] = "exact"
    pace: ClassVar[Pace] = Pace(0.02, 1e-3, 4e-7)
    needs: ClassVar[tuple[str, ...]] = ()
    checked: ClassVar[Mapping] = {"placement": checked_placement}
    kinds: ClassVar[tuple[type, ...]] = EXACT

    def prepare(self, problem):
        return conjugate.plan_of(self, problem, self.kinds)

    def moments(self, collection, prior):
        """Return ExactMoments: mean, variance, covariance, quantiles and log-evidence, without draws.

        Raises
        ------
        InfeasibleError
            Where the likelihood is not separable.
        """
        return ExactMoments(scaled(collection).rows, as_prior(prior, collection.n_categories))

    def run(self, plan, rng, watch):
        return conjugate.run(self, plan, rng, watch)


def fit_alone(
    cells: Any, prior: Any, sizes: Mapping[str, Any], seeds: list[int], settings: Mapping[str, Any]
) -> list[MethodAnswer]:
    """Return the MethodAnswers of cells whose posteriors are all exact, in one computation; none where some are not.

    Parameters
    ----------
    cells : Cells
        Without respondents who ignore the device.
    prior : AbstractPrior
        Prior of each cell.
    sizes : mapping
        draws and chains.
    seeds : list of int
        Seed of each cell: its draws do not depend on the other cells.
    settings : mapping
        ci_prob and progressbar.
    """
    problems = [Problem.of(cell, prior) for cell in cells.collections()]
    if problems[0].alpha is None or any(problem.collection.weighted for problem in problems):
        return []
    method, watch, rngs = Exact(**sizes), Watch(settings["progressbar"]), [np.random.default_rng(seed) for seed in seeds]
    try:
        plans = [method.prepare(problem) for problem in problems]
    except InfeasibleError:
        return []
    servers = list(blocks(SeparableServer, problems, range(len(problems))))
    samples, _ = sampled(nodes_of(prior.nodes(), servers, method.placement)[0], servers, method, rngs, None, watch)
    asked = [{"random_seed": seed, "ci_prob": settings["ci_prob"]} for seed in seeds]
    several = zip(problems, samples, rngs, asked, plans, strict=True)
    return [
        MethodAnswer(method, problem, sample, rng, watch, one, plan.reason) for problem, sample, rng, one, plan in several
    ]
