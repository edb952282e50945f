"""Summaries: the posterior of a log-likelihood that is known as its expansion at a pilot, and how far that can be off."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp, softmax

from ldpbayes.constants import MIN_P_VALUE
from ldpbayes.errors import CellsError, InfeasibleError
from ldpbayes.likelihoods.summary import LEAST_REPORTS, Summary, sum_of_shares
from ldpbayes.methods import expanded


@dataclass(frozen=True)
class Errors:
    """How the error of an expansion is predicted, and how large it may be. Guards, measured on simulated surveys.

    Attributes
    ----------
    most : float
        A summary whose means or sds may be off by more posterior sd is refused. Derived: the error that is accepted of an
        interval's end, LIMITS.end_error.
    margins : pair of float
        Measured: what the sample's third moments predict is multiplied by these, expanded at a point and with a spread
        (which removes most of the third order): products of at most a tenth stayed above the error measured. The first
        multiplies the error by pairs of categories, too.
    left : float
        The part of the third order that an expansion with the spread at its own mean leaves out, of what one at a point
        does. Measured: on the surveys of docs/theory/summaries.md.
    slope, ground, near : float
        Measured: the bound without a sample is slope · ρ · min(1, √(ground a / n)), ρ the largest Σ w L²/u² over Σ w L/u of
        a category; a pilot d posterior sd away multiplies it by (1 + d²)/near where that is above one, and ``near`` does
        where reports are crowded. Errors and bound are in posterior sd. ``ground`` is reports a category, beyond which
        errors fall as 1/√n. Of the 170 cases of docs/theory/summary-boundary.csv it accepts 74, whose error is at most .55
        of the bound; with half 81, at most .78; with a quarter 86, two of them with errors above the bound; with double
        70. See docs/theory/summaries.md.
    crowded : float
        Share of the categories that a report supports, above which the bound of a summary with a spread is larger. Measured:
        on the same surveys.
    weighed : pair of int
        Least and most draws that are weighted for the evidence of an expansion. Derived: 32 weights show
        their error to 1/√(2 · 32) = an eighth. Bank: half and double of the file show nothing.
    most_gap, gap_noise : float
        Measured: where H = diag(D) + f1ᵀ + 1fᵀ misses a larger share of the Hessian (of D(p₀ − 1/a), in posterior sd), the
        diagonal does not describe the reports; the second number times a/n is what finitely many reports add to its square.
        Of the 462 summaries without a sample in docs/theory/summary-check.csv it refuses two that the bound accepts; their
        means are off by .06 and .08 sd, and sds are too small by 6 and 10 %. Half refuses six more, off by .09 sd at
        most; double refuses none.
    """

    most: float = 0.1
    margins: tuple[float, float] = (1.3, 2.0)
    left: float = 0.9
    slope: float = 0.05
    ground: float = 500.0
    near: float = 5.0
    crowded: float = 0.3
    weighed: tuple[int, int] = (32, 256)
    most_gap: float = 0.2
    gap_noise: float = 1.5


ERRORS = Errors()


@dataclass(frozen=True, eq=False)
class ExpansionAccuracy:
    """Distance between the posteriors of a summary and of its reports, as far as the summary can tell.

    Attributes
    ----------
    distance : float
        Largest distance of a posterior mean from the pilot, in posterior sd.
    error : float
        Predicted error of the means and sds, in posterior sd.
    by : str
        What predicts it.
    gap : float
        Share of the Hessian that the diagonal form misses, less its noise; nan for one with a spread and a sample.
    pairs : float
        The part of the error that comes from what the diagonal form misses between the most probable categories.
    evidence : float
        Error of the log-evidence in nats.
    """

    distance: float
    error: float
    by: str
    gap: float
    pairs: float
    evidence: float = math.inf

    @property
    def problem(self) -> str:
        """Why the summary is refused, without the full stop; empty where it is accepted."""
        if self.gap > ERRORS.most_gap:
            return f"a diagonal misses {100 * self.gap:.0f} % of the reports' curvature, which a tally would keep whole"
        if not self.error <= ERRORS.most:
            return (
                f"its means may be off by {self.error:.3g} posterior sd ({self.by}), and {ERRORS.most} are allowed; the "
                f"mean is {self.distance:.2g} sd from the pilot"
            )
        return ""

    @property
    def sentence(self) -> str:
        """What was checked."""
        return (
            f"Expansion at a pilot: the mean is {self.distance:.2g} posterior sd from it, and means and sds are predicted "
            f"to be off by at most {self.error:.2g} sd ({self.by})."
        )

    def facts(self) -> dict:
        """Return the attrs of a result."""
        return {"pilot_distance": self.distance, "predicted_error": self.error, "predicted_by": self.by}


def proposal_of(summary, alpha):
    """Return the TiltedProposal of a summary under Dirichlet(α): Π_x g^{α_x − 1} exp(b_x g − D_x g²/2), given Σ g = 1."""
    return expanded.TiltedProposal(expanded.ExpandedFactors(alpha, summary.linear, summary.tangent_curvature))


def accuracy(summary, mean, variance, spread):
    """Return the ExpansionAccuracy of a summary whose posterior has these moments.

    With a sample: S times the part of E[∇ℓ] over the posterior that the expansion misses is the error of the mean, to first
    order, where S = diag(v) − v vᵀ/Σv. The missing part is of third order in p − p₀. Without one: a bound.

    Parameters
    ----------
    summary : Summary
    mean, variance : (a,) arrays
    spread : (a,) array
        Variances before Σ p = 1 is imposed.
    """
    sd = np.sqrt(variance)
    distance = float(np.max(np.abs(mean - summary.pilot) / sd))
    missed = summary.missed(mean, spread)
    if missed is None:
        ratio = float(np.max(summary.square / np.maximum(summary.gradient, 1e-300)))
        error = ERRORS.slope * ratio * min(1.0, math.sqrt(ERRORS.ground * mean.size / summary.n_reports))
        error *= max(1.0, (1 + distance**2) / ERRORS.near) * (ERRORS.near if _crowded(summary) else 1.0)
        pairs, by = 0.0, "a bound without a sample of reports"
    else:
        moved = variance * (missed.gradient - (variance @ missed.gradient) / variance.sum())
        # Where the prior decides, the likelihood's curvature hardly matters.
        share = np.minimum(summary.tangent_curvature * variance, 1.0)
        widened = np.abs(np.sqrt(missed.curvature) - 1) * share
        error = ERRORS.margins[summary.spread is not None] * float(max(np.max(np.abs(moved) / sd), np.max(widened)))
        pairs = ERRORS.margins[0] * _off_by_pairs(missed, spread)
        by = f"third moments of a sample of {round(summary.sample.counts.sum()):,} reports"
    noise = ERRORS.gap_noise * mean.size / summary.n_reports
    # With a spread H p₀ = G holds nearly; where a sample says more, it is not asked.
    seen = replace(summary, spread=None).structure_gap if missed is None or summary.spread is None else math.nan
    gap = math.sqrt(max(seen**2 - noise, 0.0))
    error = max(error, pairs)
    # To first order what widens a category's factor by a share adds as much to the log of its mass.
    return ExpansionAccuracy(distance, error, by, gap, pairs, mean.size * error)


def _crowded(summary):
    """Return whether reports support too many categories each for ρ to show how far they depend on few reports."""
    supports = summary.supports
    dense = supports is None or supports.sum() > ERRORS.crowded * summary.n_reports * summary.n_categories
    return summary.spread is not None and bool(dense)


def _off_by_pairs(missed, spread):
    """Return the largest relative error of a sd by what the diagonal form misses between the most probable categories.

    With S = diag(v) − v vᵀ/Σv the covariance of the expansion and E what it misses, the covariance is S − S E (1 + S E)⁻¹ S.
    """
    heavy, pairs = missed.heavy, missed.pairs
    near = np.diag(spread[heavy]) - np.outer(spread[heavy], spread[heavy]) / spread.sum()
    moved = np.diag(near @ pairs @ np.linalg.solve(np.eye(heavy.size) + near @ pairs, near))
    ratio = 1 - moved / np.diag(near)
    return float(np.max(np.abs(1 / np.sqrt(np.maximum(ratio, 1e-3)) - 1)))


def trusted(summary, alpha=None):
    """Return the accuracy of a summary under Dirichlet(α); Jeffreys' prior stands for priors that are no Dirichlet."""
    proposal = proposal_of(summary, np.full(summary.n_categories, 0.5) if alpha is None else alpha)
    return accuracy(summary, *proposal.saddle_moments(), proposal.factor_variance)


def refusal(summary, accuracy, label="", kept=False):
    """Return the sentence that refuses a summary, with what to do; ``kept`` says that the reports are there."""
    which = f"The summary of {label}" if label else "The summary"
    first, found = "", sum_of_shares(summary.excess, summary.n_reports)
    if found is not None and found[3] < MIN_P_VALUE and summary.n_reports >= LEAST_REPORTS:
        first = f"The reports contradict the design (shares add up to {found[0]:.4g}, not 1 ± {found[1]:.2g}): check ε. "
    remedy = "Use a method for whole reports"
    if not kept:
        remedy = f"Scan again with keep={round(summary.n_reports) + 1}, which keeps the reports whole, and fit with draws"
        if accuracy.distance > 1 and not accuracy.gap > ERRORS.most_gap and accuracy.pairs <= ERRORS.most:
            remedy += "; scan.again(pilots), which expands the likelihood closer to the posterior mean, may do"
    return f"{first}{which} ({summary.n_reports:,.0f} reports) cannot stand for its reports: {accuracy.problem}. {remedy}."


def refuse_doubtful(labels, summaries, accuracies):
    """Raise a CellsError where summaries of cells cannot stand for their reports.

    Parameters
    ----------
    labels : sequence of str
        Labels of the cells.
    summaries : sequence of Summary
    accuracies : sequence of ExpansionAccuracy
    """
    doubtful = [x for x in zip(labels, summaries, accuracies, strict=True) if x[2].problem]
    if doubtful:
        label, *first = doubtful[0]
        raise CellsError(refusal(*first, f"cell {label}"), {name: refusal(*doubt) for name, *doubt in doubtful})


def refuse_doubtful_cells(cells):
    """Raise a CellsError where summaries cannot stand for their reports under Jeffreys' prior.

    Parameters
    ----------
    cells : Cells
    """
    pairs = zip(cells.labels, cells.likelihoods, strict=True)
    summaries = {label: likelihood for label, likelihood in pairs if not likelihood.keeps_reports}
    refuse_doubtful(summaries, summaries.values(), map(trusted, summaries.values()))


def at_mean(rows, alpha=None):
    """Return (Summary of rows at the posterior mean, with all reports for a sample, variances of the factors there).

    By default under Jeffreys' prior.
    """
    proposal, _ = expanded.expand(rows, np.full(rows.n_categories, 0.5) if alpha is None else alpha)
    mean = np.maximum(proposal.saddle_moments()[0], 1e-12)
    return replace(Summary.of(rows, mean / mean.sum()), sample=rows), proposal.factor_variance


def of_rows(rows, alpha):
    """Return (Summary, its accuracy) of reports that were kept: expanded at the posterior mean, over the posterior's spread.

    The spread takes up most of the third order, so that the fixed point does not show what is left. An expansion at the mean
    alone shows the third order itself, and what is left was below ERRORS.left of that in every case measured. Of the orders
    beyond, the draws that mend the evidence show the sum over the categories.

    Parameters
    ----------
    rows : Rows
    alpha : (a,) array or None
        By default Jeffreys' prior.
    """
    point, spread = at_mean(rows, alpha)
    seen = trusted(point, alpha)
    summary = replace(Summary.of(rows, point.pilot, spread), sample=rows)
    gained, noise = _gained(rows, summary, np.full(rows.n_categories, 0.5) if alpha is None else alpha)
    # The gain of the evidence is a sum over the dimensions; one dimension has a part of it.
    error = max(ERRORS.left * seen.error / ERRORS.margins[0], seen.pairs)
    error += (abs(gained) + 2 * noise) / math.sqrt(rows.n_categories - 1)
    return replace(summary, value=summary.value + gained), replace(seen, error=error, evidence=noise)


def _gained(rows, summary, alpha):
    """Return (log of the mean of exp(ℓ − ℓ̃) over the posterior of the expansion ℓ̃, its standard error), by weighted draws.

    They take no longer than a few expansions do.
    """
    a, cost = rows.n_categories, expanded.Expansion()
    size = int(np.clip(2 * cost.entry * a / (cost.logarithm + a * rows.entry_work), *ERRORS.weighed))
    p, log_surrogate = expanded.proposals(proposal_of(summary, alpha), size, np.random.default_rng(0))
    columns = np.ascontiguousarray(p.T)
    logs = [likelihood.log_likelihood(columns) - log_surrogate for likelihood in (rows, summary)]
    weights = [softmax(log) for log in logs]
    gained = float(logsumexp(logs[0]) - logsumexp(logs[1]))
    return gained, math.sqrt(size) * float(np.std(weights[0] - weights[1]))


def checked_expansion(rows, alpha):
    """Return what of_rows does: the one road from reports that were kept to moments of an expansion, without draws.

    Parameters
    ----------
    rows : Rows
    alpha : (a,) array

    Raises
    ------
    InfeasibleError
        Where means or sds may be off by more than ERRORS.most posterior sd.
    """
    summary, quality = of_rows(rows, alpha)
    refuse_inexact(summary, quality)
    return summary, quality


def refuse_inexact(summary, quality):
    """Raise an InfeasibleError where an expansion of reports that were kept is not accurate enough for moments."""
    if quality.problem:
        raise InfeasibleError(
            f"Moments without draws come here from an expansion of the log-likelihood of {summary.n_reports:,.0f} reports, "
            f"which is not accurate enough: {quality.problem}. Leave out draws=0, or make draws: they are weighted by the "
            "likelihood itself."
        )
