"""Maximum likelihood of a model: what has none, the maximum by the way that fits the model, and the Maximum that says it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes.errors import InfeasibleError, listed
from ldpbayes.inference.newton import find_mode
from ldpbayes.regression import denying, devices, lists, maximum, predictor_maximum
from ldpbayes.regression.beside import Beside
from ldpbayes.regression.marginal import MixedMaximum, maximize_marginal


@dataclass(frozen=True, eq=False)
class RegressionSolution:
    """A maximum of the likelihood.

    Attributes
    ----------
    prior : Regression
        Of the unknowns, without effects of groups.
    z : (u,) array
    inverse : (u, u) array
        Of the observed information.
    covariance : (u, u) array
        The same, and over the design of a sample the sandwich.
    log_likelihood : float
        Of the reports.
    sentences : tuple of str
        What it says of itself.
    mixed : MixedMaximum, optional
        With effects of groups.
    """

    prior: Any
    z: np.ndarray
    inverse: np.ndarray
    covariance: np.ndarray
    log_likelihood: float
    sentences: tuple[str, ...] = field(default=())
    mixed: MixedMaximum | None = None


def estimate(model: Any, ci_prob: float, draws: int) -> maximum.Maximum:
    """Return the Maximum of a model.

    Parameters
    ----------
    model : Model
    ci_prob : float
    draws : int
        For which an exact total is exact.

    Raises
    ------
    InfeasibleError
        Where there is no maximum, or none with standard errors.
    """
    if model.records is not None:
        if model.design.columns.groups:
            names = listed([group.name for group in model.design.columns.groups])
            raise InfeasibleError(
                f"Maximum likelihood beside an outcome has no groups and curves ({names}); take the posterior."
            )
        target = devices.without_prior(model.target)
        return predictor_maximum.estimate(target, model.n_reports, ci_prob, maximum.MAXIMA.near)
    _refuse(model)
    return _described(model, _solved(model, draws), ci_prob)


def _refuse(model):
    """Raise where a model has no maximum likelihood."""
    prior, reports = model.prior, model.reports
    if isinstance(prior, lists.Listed):
        raise InfeasibleError("Maximum likelihood is not for the trait of lists; take the posterior.")
    if prior.monotone:
        raise InfeasibleError(f"Maximum likelihood has no effects of steps ({prior.monotone[0].name}); take the posterior.")
    if isinstance(prior, Beside) and (reports.weighted or prior.effects):
        tried = isinstance(prior, devices.Tried)
        what = "through an uncertain device" if tried else "beside those who deny"
        way = ", or known devices with the middle and both ends of its laws" if tried else ""
        raise InfeasibleError(f"Maximum likelihood {what} has no weights and no groups; take the posterior{way}.")
    if why := devices.unidentified(reports.pooled):
        raise InfeasibleError(why)
    if prior.effects and reports.weighted:
        name = prior.effects[0].name
        raise InfeasibleError(f"Maximum likelihood with survey weights has common terms only, no effects ({name}).")
    if model.known is not None and (reports.weighted or prior.effects):
        raise InfeasibleError("Maximum likelihood with known totals has no weights and no effects of groups.")


def _solved(model, draws):
    """Return the RegressionSolution of a model."""
    prior, reports, target = model.prior, model.reports, devices.without_prior(model.target)
    if prior.effects:
        mixed = maximize_marginal(target, model.one_factor)
        value, inverse, bare = mixed.value + target.reports.constant, mixed.covariance, replace(prior, effects=())
        return RegressionSolution(bare, mixed.theta, inverse, inverse, value, (mixed.sentence(),), mixed)
    z, inverse, next_lower = maximum.maximize(target)
    sentences: tuple[str, ...] = ()
    if next_lower < maximum.MAXIMA.near:
        sentences = (f"The likelihood has another maximum, only {next_lower:.2g} nats lower; standard errors leave it out.",)
    if model.known is not None:
        bound, said = replace(model, target=target).with_totals(z, inverse, draws)
        z, values, vectors = find_mode(bound.target, z)
        inverse, sentences = (vectors / values) @ vectors.T, (said, *sentences)
    covariance = inverse
    if reports.weighted:
        effect = reports.design(maximum.scores_of(target, z, model.cell, reports))
        covariance = inverse @ effect.variance @ inverse
        pairs = (maximum.on_columns(prior, z, one)[1] for one in (covariance, inverse))
        untold = [term for term, errors, before in zip(prior.terms, *pairs, strict=True) if _vanishes(errors, before)]
        if untold:
            raise InfeasibleError(
                f"The sample does not tell the variance of the coefficients of {listed(untold)}: their columns vary between "
                "so few clusters that scores add up to 0 in each; use the posterior, which takes respondents as independent "
                "there."
            )
    value = target.value_and_gradient(z)[0] + target.reports.constant
    return RegressionSolution(prior, z, inverse, covariance, value, sentences)


def _described(model, solution, ci_prob):
    """Return the Maximum of a RegressionSolution."""
    prior, weighted, n = solution.prior, model.reports.weighted, model.n_reports
    coefficients, errors, covariance = maximum.on_columns(prior, solution.z, solution.covariance)
    cells = model.target.reports.n_cells
    by = "the variance of the weighted scores" if weighted else "the observed information"
    first = f"Maximum likelihood of {n:,} reports in {cells:,} cell{'s' if cells > 1 else ''}; standard errors from {by}."
    first += f" {devices.AS_TRIALS}" if isinstance(prior, devices.Tried) else ""
    free, deviance, none = len(solution.inverse), -2 * solution.log_likelihood, weighted or model.known is not None
    attrs = {
        "question": "Regression by maximum likelihood",
        "formula": model.design.text,
        "terms": tuple(prior.terms),
        "categories": prior.categories,
        "reference": prior.categories[prior.reference],
        "link": prior.link,
        "log_likelihood": solution.log_likelihood,
        "deviance": deviance,
        "n_parameters": free,
        "aic": np.nan if none else deviance + 2 * free,
        "bic": np.nan if none else deviance + free * float(np.log(n)),
        "n_reports": n,
        "outcome": " ".join((first, *solution.sentences)),
        "weighted": weighted,
        "ci_prob": ci_prob,
    }
    coords = {"term": list(prior.terms), "category": list(prior.categories)}
    data = {"coefficients": (("term", "category"), coefficients), "standard_errors": (("term", "category"), errors)}
    if isinstance(prior, denying.Denied):
        denial, denial_errors = prior.at_means(solution.z, solution.inverse)
        data |= {"denial": (("denied",), denial), "denial_errors": (("denied",), denial_errors)}
        coords["denied"] = [prior.categories[x] for x in prior.denied]
    if isinstance(prior, devices.Tried):
        stated, names = prior.estimates(solution.z, solution.inverse)
        data, coords = data | stated, coords | names
    if solution.mixed is None:
        average, average_errors = _average(prior, model.target.reports.sizes, solution)
        data |= {"average": (("category",), average), "average_errors": (("category",), average_errors)}
    if solution.mixed is not None:
        effects = model.prior.effects
        units = np.array([effect.unit for effect in effects])
        spread = np.sqrt(np.diag(solution.inverse)[prior.spans[""].stop :])
        data |= {"group_sd": (("effects",), solution.mixed.sds / units), "group_sd_errors": (("effects",), spread / units)}
        data |= solution.mixed.variables()
        coords |= {"effects": [effect.name for effect in effects]}
        coords |= {f"{effect.name}_level": list(effect.levels) for effect in effects}
    return maximum.Maximum(data | {"covariance": (("coefficient", "coefficient_bis"), covariance)}, coords, attrs)


def _average(prior, sizes, solution):
    """Return the shares averaged over the respondents' covariates, and their standard errors by the delta method, (a,)."""

    def shares(z):
        return sizes / sizes.sum() @ prior.to_simplex(z)

    z, step = solution.z, 1e-5
    slopes = np.array([shares(z + one) - shares(z - one) for one in step * np.eye(z.size)]) / (2 * step)
    return shares(z), np.sqrt(np.einsum("ux,uv,vx->x", slopes, solution.covariance, slopes))


def _vanishes(errors, before):
    """Return whether standard errors over the design are zero, but for rounding, beside those without it."""
    return bool((errors < 1e-6 * before).any())
