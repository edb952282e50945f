"""Maximum likelihood of a private answer and an outcome that depends on it, with standard errors; why there may be none."""

from typing import Any

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ConvergenceError, InfeasibleError, listed
from ldpbayes.inference.ends import normal_reach
from ldpbayes.regression import predictor_target
from ldpbayes.regression.devices import AS_TRIALS, Tried, refuse_ends
from ldpbayes.regression.maximum import MAXIMA, Maximum, dependent, on_columns
from ldpbayes.regression.predictor_target import OutcomeTarget


class OutcomeMaximum(Maximum):
    """Maximum-likelihood estimates of a private answer and of an outcome: an xarray.Dataset.

    Attributes
    ----------
    outcome_coefficients, outcome_standard_errors : (outcome terms,) DataArray
        Of the linear predictor of the outcome, by the observed information of both parts together.
    outcome_covariance : (outcome terms, outcome terms) DataArray
    outcome_sd : float
        Standard deviation of the outcome given the answer and the covariates; nan where the family has none.
    coefficients, standard_errors, covariance, … : as in Maximum
        Of the private answer.
    private_formula, family : str
    """

    __slots__ = ()

    def summary(self, ci_prob: float | None = None) -> Any:
        """Return what Maximum has of the private answer, and outcome_mean, outcome_sd, outcome_lower and outcome_upper.

        Parameters
        ----------
        ci_prob : float, optional
            Of the intervals, by the normal approximation; by default that of regress.
        """
        ci_prob = self.ci_prob if ci_prob is None else checks.level(ci_prob)
        estimate, error = self.outcome_coefficients, self.outcome_standard_errors
        half = normal_reach(ci_prob) * error
        ends = {"outcome_lower": estimate - half, "outcome_upper": estimate + half}
        return super().summary(ci_prob).assign({"outcome_mean": estimate, "outcome_sd": error, **ends})


def estimate(target: OutcomeTarget, n: int, ci_prob: float, near: float) -> OutcomeMaximum:
    """Return the estimates.

    Parameters
    ----------
    target : OutcomeTarget
        With ``flat`` set.
    n : int
        Number of reports.
    ci_prob : float
        Of the intervals of the summary.
    near : float
        A lower maximum is mentioned up to so many nats below.

    Raises
    ------
    InfeasibleError
        Where the design is rank-deficient or the likelihood has no maximum.
    ConvergenceError
        Where Newton's method stops elsewhere.
    """
    prior, records = target.prior, target.prior.outcome
    linked = dependent(prior.design, target.reports.sizes, tuple(prior.terms))
    rows = records.columns.reshape(-1, len(records.design.terms))
    linked += dependent(rows, np.ones(len(rows)), tuple(records.design.terms))
    if linked:
        raise InfeasibleError(
            f"The design is rank-deficient: {listed(linked)} depend on the other columns; leave columns out."
        )
    target, (z, *_), lower = predictor_target.climb(target)
    information = -target.hessian(z)
    _refuse_infinite(target, z, information)
    covariance, gradient = np.linalg.inv(information), target.value_and_gradient(z)[1]
    gain = 0.5 * float(gradient @ covariance @ gradient)
    if not gain < 1e-6 or np.diag(covariance).min() <= 0:
        raise ConvergenceError(f"The likelihood was not maximized: another step would gain {gain:.2g} nats.", None)
    coefficients, errors, of_answer = on_columns(prior, z, covariance)
    span, (_, unit) = prior.spans["outcome"], records.units
    of_outcome = unit**2 * records.transform @ covariance[span, span] @ records.transform.T
    value, free = target.value_and_gradient(z)[0] + target.reports.constant, z.size
    deviance, sentence = -2 * value, f"Maximum likelihood of {n:,} reports and outcomes, from the observed information."
    of_device: tuple[dict, dict] = prior.estimates(z, covariance) if isinstance(prior, Tried) else ({}, {})
    sentence += f" {AS_TRIALS}" if isinstance(prior, Tried) else ""
    if lower and min(lower) < near:
        sentence += f" Another maximum is only {min(lower):.2g} nats lower; standard errors leave it out."
    said = predictor_target.form_facts(target, z)
    sentence = " ".join(text for text in (sentence, said["contradiction"], said["form"]) if text)
    predictor_target.warn_of_form(said)
    spread = prior.variables(z[None]).get("outcome_sd", ((), np.array([[np.nan]])))[1]
    attrs = {
        "question": "Regression on a private answer by maximum likelihood",
        "formula": records.asked.formula.text,
        "private_formula": records.asked.private.text,
        "family": records.asked.family.name,
        "terms": tuple(prior.terms),
        "categories": prior.categories,
        "reference": prior.categories[prior.reference],
        "log_likelihood": value,
        "deviance": deviance,
        "n_parameters": free,
        "aic": deviance + 2 * free,
        "bic": deviance + free * float(np.log(n)),
        "n_reports": n,
        "outcome": sentence,
        "outcome_sd": float(spread[0, 0]),
        "weighted": False,
        "link": "logit",
        "ci_prob": ci_prob,
    }
    data: dict[str, Any] = {"coefficients": (("term", "category"), coefficients)}
    data["standard_errors"] = ("term", "category"), errors
    data["covariance"] = ("coefficient", "coefficient_bis"), of_answer
    data["outcome_coefficients"] = "outcome_term", prior.outcome_coefficients(z[None])[0]
    data["outcome_standard_errors"] = "outcome_term", np.sqrt(np.diag(of_outcome))
    data["outcome_covariance"] = ("outcome_term", "outcome_term_bis"), of_outcome
    coords = {"term": list(prior.terms), "category": list(prior.categories), "outcome_term": list(records.design.terms)}
    return OutcomeMaximum(data | of_device[0], coords | of_device[1], attrs)


def _refuse_infinite(target: OutcomeTarget, z: np.ndarray, information: np.ndarray) -> None:
    """Raise where the likelihood still rises as unknowns go to infinity, or is flat."""
    prior, records = target.prior, target.prior.outcome
    eigenvalues, vectors = np.linalg.eigh(0.5 * (information + information.T))
    kinds, eta = prior.logits_of(z)[target.reports.sizes > 0], target.linear_predictor(z)
    beyond = np.ptp(kinds, axis=1).max() > MAXIMA.extreme or np.abs(eta).max() > MAXIMA.extreme
    # Unknowns are of the order of one where log odds, or sds of the outcome, are.
    scale = float(np.median(np.append(prior.scales, records.scales)))
    if eigenvalues[0] > 0 and (scale / np.sqrt(eigenvalues[0]) < MAXIMA.unbounded or not beyond):
        return
    refuse_ends(prior, vectors[:, 0])
    along = np.abs(vectors[:, 0])
    parts = {
        f"{prior.terms[k]} of {records.asked.answer}": along[prior.spans[""]][k * (prior.n_categories - 1)]
        for k in range(len(prior.terms))
    }
    parts |= dict(zip(records.design.terms, along[prior.spans["outcome"]], strict=True))
    named = listed([name for name, size in parts.items() if size > 0.3 * along.max()][:4] or ["the outcome's spread"])
    why = (
        f"still rises while the coefficients of {named} go to infinity (perfect separation, or a share at an end)"
        if beyond
        else f"is flat in the direction of {named}"
    )
    raise InfeasibleError(f"The likelihood has no maximum: it {why}; use the posterior, where the prior keeps them finite.")
