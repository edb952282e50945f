"""Exact posterior of separable likelihoods: GRR with any number of channels, forced response, every two-category design."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import InfeasibleError
from ldpbayes.inference.ends import LEVELS, tails
from ldpbayes.posteriors.base import AbstractPosterior, Pace, Plan, Sample
from ldpbayes.posteriors.conditioned_product import ConditionedProduct
from ldpbayes.posteriors.frequency import frequency_moments
from ldpbayes.posteriors.problem import scaled
from ldpbayes.posteriors.products import Products
from ldpbayes.priors import as_prior

#: Above this many categories the covariance matrix is not stored with the result.
COVARIANCE_LIMIT = 2000
#: Draws need tables of about 20 √w numbers for a category named by w reports; with more than this in all (some GB with
#: what builds them) they are refused.
MAX_TABLES = 1e8


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
        return {
            **self.engine.diagnostics(),
            "mean_sum_error": float(abs(self.mean.sum() - 1)),
            "covariance_row_sum_error": self.engine.row_sum_error(),
        }


#: Operations of one factor, in those of a draw of one category.
FACTOR = 250


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
    pace: ClassVar[Pace] = Pace(0.02, 0.0, 4e-7)

    def prepare(self, problem):
        form = singling(problem.separable)
        refuse_fractions(form)
        refuse_tables(form)
        work = problem.n_categories * (self.draws * self.chains + FACTOR) + _tables(form) / 4
        return Plan("Every report singles out one category: the posterior is exact at any size.", work, (problem, form))

    def moments(self, collection, prior):
        """Return ExactMoments: mean, variance, covariance, quantiles and log-evidence, without draws.

        Raises
        ------
        InfeasibleError
            Where the likelihood is not separable.
        """
        return exact_moments(scaled(collection).rows, as_prior(prior, collection.n_categories))

    def run(self, plan, rng, watch):
        problem, form = plan.state
        moments = moments_of(form, problem.alpha, problem.n_users)
        flat, signal, acceptance = moments.engine.draws(self.chains * self.draws, rng)
        signal += certain(form, problem.n_categories)
        exact = {
            "distribution_mean": moments.mean,
            "distribution_sd": moments.sd,
            "frequency_mean": moments.frequency_mean,
            "frequency_sd": moments.frequency_sd,
            "log_evidence": moments.log_evidence,
        }
        facts = {f"exact_{name}": value for name, value in moments.diagnostics().items()}
        facts["exact_acceptance"] = acceptance
        if problem.n_categories <= COVARIANCE_LIMIT:
            exact["distribution_cov"] = moments.covariance()
        else:
            facts["exact_covariance"] = f"left out above {COVARIANCE_LIMIT} categories; Exact().moments gives it"

        def intervals(ci_prob):
            lower, upper, *quantiles = moments.quantile([*tails(ci_prob), *LEVELS])
            return {"distribution_lower": lower, "distribution_upper": upper, "distribution_quantile": np.array(quantiles)}

        draws = flat.reshape(self.chains, self.draws, -1)
        return Sample(draws, signal=signal, exact=exact, intervals=intervals, facts=facts)


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


def certain(form, n_categories):
    """Return how many users certainly have each category, shape (a,): their reports are impossible under every other."""
    pure = form.base == 0
    return np.bincount(form.index[pure], form.counts[pure], n_categories).astype(np.int64)


def singling(form):
    """Return the separable form, or refuse where there is none or where some report makes its category less likely."""
    if form is None:
        raise InfeasibleError(
            "The separable exact posterior needs reports that each single out one category (GRR, forced response, any "
            "two-category design); these reports weigh several categories differently. Use another method."
        )
    if (form.slope < 0).any():
        raise InfeasibleError(
            "The separable exact posterior needs reports that single out a category by being likelier there; these "
            "single one out by being less likely. Use another method."
        )
    return form


def refuse_fractions(form):
    """Raise an InfeasibleError where counts are weights and not whole numbers: draws come from polynomials."""
    if (form.counts % 1).any():
        raise InfeasibleError("Exact draws need whole counts, and sampling weights are none; Exact().moments takes them.")


def _tables(form):
    """Return the numbers in the tables that draws are made from."""
    named = np.bincount(form.index, form.counts)
    return np.minimum(named, 20 * np.sqrt(named)).sum()


def refuse_tables(form):
    """Raise an InfeasibleError where the tables that draws are made from are too large."""
    size = _tables(form)
    if size > MAX_TABLES:
        raise InfeasibleError(
            f"Exact draws need tables of at most {MAX_TABLES:.0e} numbers, got {size:.2g}; Exact().moments gives the "
            "posterior without draws."
        )
