"""Very many cells or categories: moments, intervals and evidence in vectorised calls, without draws."""

import contextlib
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, logsumexp

from ldpbayes.errors import ConvergenceError, InfeasibleError
from ldpbayes.inference.ends import normal_reach, tails
from ldpbayes.inference.scaling import POWERS, Scaled
from ldpbayes.likelihoods import Summary
from ldpbayes.posteriors.base import Watch
from ldpbayes.posteriors.conditioned_product.batched import Batch, batch, log_masses
from ldpbayes.posteriors.exact import moments_of, singling, stacked_factors
from ldpbayes.posteriors.expansion import accuracy, checked_expansion, refuse_doubtful
from ldpbayes.posteriors.frequency import frequency_moments
from ldpbayes.posteriors.mixing import heavy, integrals_of, key_of, mixed_moments, moved_ends
from ldpbayes.posteriors.mixture import mixture_moments, shared_facts
from ldpbayes.posteriors.nodes import Nodes, place
from ldpbayes.posteriors.surrogate import ExpandedFactors, Proposal, expanded
from ldpbayes.priors import Dirichlet

#: Seconds of one factor of one cell: moments and the ends of an interval.
SECONDS = 4e-5
#: Why a result has no draws.
ASKED = "Moments, intervals and evidence were asked for, and no draws."
MANY_CATEGORIES = "So many categories have moments, intervals and evidence, and no draws."
MANY_CELLS = "So many cells have moments, intervals and evidence in vectorised calls, and no draws."
#: What was checked of integrals, and the refusal of a prior.
INTEGRALS = "Moments, intervals and evidence are integrals; no draws were made."
NEITHER = "Moments without draws need a Dirichlet prior, or a mixture of such priors; this one is {}."
#: Values of the hyperparameter of a mixture at which all cells are worked on, about.
VALUES = 40
#: Log-evidences with a larger error are computed by integrals.
CLOSE = 1e-6
#: Above so many categories the saddle point is used for expansions, which is then accurate to its second order.
MAX_LINE = 2000
#: Seconds of an entry (report × category) of a fit without draws, and the GB beyond which it is refused.
ENTRY_SECONDS, LARGEST = 1.2e-8, 12.0
#: Most categories of one collection whose reports do not single out one category each.
MAX_FACTORS = 200_000


@dataclass(frozen=True, eq=False)
class Many:
    """Cells that one vectorised call handles, under one Dirichlet prior for each or a mixture of such priors.

    Attributes
    ----------
    separable, summarized : lists of (position, Separable or Summary)
    n_reports : (cells,) array
    n_categories : int
    """

    separable: list
    summarized: list
    n_reports: np.ndarray
    n_categories: int

    @classmethod
    def of(cls, cells):
        """Return the Many of cells.

        Raises
        ------
        InfeasibleError
            Where a cell has reports that do not single out one category each.
        """
        separable, summarized = [], []
        for position, (label, cell) in enumerate(zip(cells.labels, cells.collections(), strict=True)):
            if not cell.keeps_reports:
                summarized.append((position, cell.likelihood))
                continue
            try:
                separable.append((position, singling(cell.likelihood.separable())))
            except InfeasibleError as err:
                raise InfeasibleError(f"Cell {label}: {err}") from err
        sizes = np.array([cell.n_reports for cell in cells.values()], dtype=float)
        return cls(separable, summarized, sizes, cells.n_categories)

    def under(self, alpha, levels=(), watch=None) -> Batch:
        """Return the Batch of all cells under Dirichlet(α), with the log-evidence of their reports.

        Parameters
        ----------
        alpha : (a,) array
        levels : sequence of float
        watch : Watch, optional
        """
        k, a = len(self.n_reports), self.n_categories
        mean, variance, quantiles = np.empty((k, a)), np.empty((k, a)), np.empty((len(levels), k, a))
        out = Batch(mean, variance, np.empty(k), quantiles, np.zeros(k, bool), np.empty(k))
        normaliser = gammaln(alpha.sum()) - gammaln(alpha).sum()
        for members, make in ((self.separable, stacked_factors), (self.summarized, _gaussians)):
            if not members:
                continue
            place = np.array([position for position, _ in members])
            family, log_scale = make([one for _, one in members], alpha)
            found = batch(family, len(members), levels, watch=watch)
            out.mean[place], out.variance[place] = found.mean, found.variance
            out.rough[place], out.tilt[place] = found.rough, found.tilt
            out.log_evidence[place] = found.log_evidence + log_scale + normaliser
            out.quantiles[:, place] = found.quantiles
        return out

    def log_evidence(self, alpha) -> np.ndarray:
        """Return the log-evidence of the reports of each cell under Dirichlet(α), shape (cells,), without moments."""
        a, out = self.n_categories, np.empty(len(self.n_reports))
        normaliser = gammaln(alpha.sum()) - gammaln(alpha).sum()
        for members, make in ((self.separable, stacked_factors), (self.summarized, _gaussians)):
            if not members:
                continue
            family, log_scale = make([one for _, one in members], alpha)
            found, error = log_masses(family, np.ones(a), len(members))
            rough = np.flatnonzero(error > CLOSE)  # the errors of many cells would add up
            if rough.size:
                some = family.take((rough[:, None] * a + np.arange(a)).ravel())
                found[rough] = batch(some, rough.size).log_evidence
            out[[position for position, _ in members]] = found + log_scale + normaliser
        return out

    def accuracies(self, entries: dict, labels) -> list:
        """Return the Accuracy of every summary, in the order of ``summarized``, by entries of ``exact``.

        Raises
        ------
        CellsError
            Where summaries cannot stand for their reports.
        """
        out = []
        for position, one in self.summarized:
            mean, variance = entries["distribution_mean"][position], entries["distribution_sd"][position] ** 2
            out.append(accuracy(one, mean, variance, variance))
        refuse_doubtful([labels[position] for position, _ in self.summarized], [one for _, one in self.summarized], out)
        return out


def exact_entries(mean, variance, ends, alpha, n_reports, log_evidence) -> dict:
    """Return the variables of the group ``exact``: moments of P with those of F, two ends, and the evidence.

    Parameters
    ----------
    mean, variance : (…, a) arrays
    ends : pair of (…, a) arrays
    alpha : (a,) array
    n_reports : (…, 1) array or number
    log_evidence : (…) array or float
    """
    frequency_mean, frequency_sd = frequency_moments(mean, variance, alpha, n_reports)
    return {
        "distribution_mean": mean,
        "distribution_sd": np.sqrt(variance),
        "distribution_lower": ends[0],
        "distribution_upper": ends[1],
        "frequency_mean": frequency_mean,
        "frequency_sd": frequency_sd,
        "log_evidence": np.asarray(log_evidence),
    }


def mixed_entries(many: Many, mixture, levels, watch: Watch) -> tuple[dict, Nodes, float]:
    """Return (entries of ``exact``, nodes, log Bayes factor against Jeffreys' prior) of cells that share a hyperparameter.

    Means and variances are mixed over the nodes. The ends of intervals are averages of the nodes' ends, moved so that the
    interval is as much wider than theirs as the sd is.
    """
    known: dict[bytes, float] = {}

    def total(prior):
        key = key_of(prior)
        if key not in known:
            known[key] = float(many.log_evidence(prior.concentrations()).sum())
        return known[key]

    nodes = place(mixture, total)
    some = heavy(nodes, 1e-6)
    shown = watch.track(some.priors, "Posteriors of the cells at the nodes")
    found = [many.under(prior.concentrations(), levels) for prior in shown]
    means, variances, ends = (np.stack([getattr(one, name) for one in found]) for name in ("mean", "variance", "quantiles"))
    out = mixed_moments(some, means, variances, many.n_reports[:, None])
    ends = moved_ends(some, ends, variances, out["distribution_mean"], out["distribution_sd"])
    out |= dict(zip(("distribution_lower", "distribution_upper"), ends, strict=True))
    out["log_evidence"] = logsumexp([one.log_evidence for one in found], axis=0, b=some.weights[:, None])
    return out, nodes, nodes.log_evidence - total(Dirichlet.jeffreys(many.n_categories))


def _gaussians(summaries: list[Summary], alpha):
    """Return (ExpandedFactors of all cells, log of the constants left out of each) of summaries."""
    linear = np.concatenate([one.linear for one in summaries])
    curvature = np.concatenate([one.tangent_curvature for one in summaries])
    return ExpandedFactors(np.tile(alpha, len(summaries)), linear, curvature), np.array([one.constant for one in summaries])


def seconds_of_mixture(many: Many) -> float:
    """Return the predicted time under a mixture."""
    return math.ceil(VALUES * 0.7) * SECONDS * len(many.n_reports) * many.n_categories


def moments_of_cells(many: Many, cells, prior, run: dict, settings: dict):
    """Return the result of all cells, without draws.

    Parameters
    ----------
    many : Many
    cells : Cells
    prior : AbstractPrior
        A Dirichlet prior of every cell, or a mixture whose hyperparameter they share.
    run : dict
        random_seed, ci_prob and progressbar.
    settings : dict
        What was asked for, to be recorded.

    Returns
    -------
    DataTree, and what scaling the prior does to the shares, a Scaled or None

    Raises
    ------
    InfeasibleError
        Where the prior is neither, or a summary cannot stand for its reports.
    """
    from ldpbayes.result.cells import facts_of

    watch, alpha, levels = Watch(run["progressbar"]), prior.concentrations(), tails(run["ci_prob"])
    checked, about = INTEGRALS, {}
    if alpha is not None:
        found = many.under(alpha, levels, watch)
        entries = exact_entries(
            found.mean, found.variance, found.quantiles, alpha, many.n_reports[:, None], found.log_evidence
        )
        if found.rough.any():
            about["rough_cells"] = int(found.rough.sum())
    elif (mixture := prior.mixture()) is not None:
        entries, nodes, factor = mixed_entries(many, mixture, levels, watch)
        about = shared_facts(nodes, factor, run["ci_prob"])
        about["prior"] = f"{prior.describe()}, one {mixture.parameter} for all cells"
    else:
        raise InfeasibleError(NEITHER.format(prior.describe()))
    if accuracies := many.accuracies(entries, cells.labels):
        worst = max(accuracies, key=lambda one: one.error)
        checked += f" Of the summaries the least accurate: {worst.sentence}"
        about |= worst.facts()
    methods = np.full(len(cells), "exact", dtype=object)
    methods[[position for position, _ in many.summarized]] = "summary"
    method = "exact" if not many.summarized else "summary" if not many.separable else "several"
    facts = facts_of(
        len(cells),
        method=methods,
        converged=1,
        log_evidence=entries["log_evidence"],
        outcome=checked,
        frequency_draws="moments only",
    )

    def again(alpha):
        under = many.under(alpha)
        return under.mean, under.variance

    return _result(cells, prior, method, entries, (MANY_CELLS, checked, about), run, settings, again, facts)


def _result(data, prior, method, entries, said, run, settings, again, facts=None):
    """Return the result of moments, and what scaling the prior does to the shares, a Scaled or None.

    Parameters
    ----------
    data : Collection, Summarized or Cells
    prior : AbstractPrior
    method : str
    entries : dict
        Of ``exact``.
    said : tuple
        Why there are no draws, what was checked, and further attrs.
    run, settings : dict
        As for moments_of_cells.
    again : callable
        For scaled_moments.
    facts : dict of (cells,) arrays, optional
        Of each cell.
    """
    from ldpbayes.result.beside import add_sensitivity
    from ldpbayes.result.moments import build_moments

    (reason, checked, about), ci_prob = said, run["ci_prob"]
    rough = f" {about['rough_cells']} have moments of second order in the saddle point." if "rough_cells" in about else ""
    attrs = {
        "reason": (ASKED if settings.get("draws") == 0 else reason) + rough,
        "sampling": "independent",
        "converged": 1,
        "interrupted": 0,
        "checked": checked,
        "problems": "",
        "outcome": checked,
        "random_seed": run["random_seed"],
    }
    kept = {key: value for key, value in (settings | run).items() if key != "progressbar" and value is not None}
    scaled = scaled_moments(prior, about, entries["distribution_mean"], entries["distribution_sd"], again, ci_prob)
    tree = build_moments(
        data, prior, method=method, settings=kept, exact=entries, ci_prob=ci_prob, attrs=attrs | about, facts=facts
    )
    if scaled is not None:
        add_sensitivity(tree, data, [scaled] if facts is None else [scaled.at(k) for k in range(len(data))])
    return tree, scaled


def scaled_moments(prior, facts, mean, sd, moments, ci_prob) -> Scaled | None:
    """Return what scaling the prior does to posteriors that are made again by ``moments``; None for other priors.

    Where the median of a learnt prior moves, the posterior of log α moves by its variance over the prior's times that, as a
    normal one does: the posteriors are made again at the middle of its interval, with powers nearer to one.

    Parameters
    ----------
    prior : AbstractPrior
        A Dirichlet, or the learnt prior.
    facts : dict
        With the ends of the interval of α under the learnt prior.
    mean, sd : (…, a) arrays
    moments : callable, optional
        Concentrations → means and variances of P.
    ci_prob : float
    """
    alpha, known, part = prior.concentrations(), prior.to_dict(), 1.0
    if moments is None or (alpha is None and not {"median", "sd"} <= set(known)):
        return None
    if alpha is None:
        low, high = (math.log(facts[f"alpha_{end}"]) for end in ("lower", "upper"))
        alpha = np.full(mean.shape[-1], math.exp((low + high) / 2))
        part = min(((high - low) / 2 / normal_reach(ci_prob) / float(known["sd"])) ** 2, 1.0)
    found = [moments(power**part * alpha) for power in POWERS]
    under = np.array([one[0] for one in found]), np.sqrt([one[1] for one in found])
    return Scaled.of(mean, sd, under, shares=True, ci_prob=ci_prob)


def _moments_again(problem, mean):
    """Return the function of concentrations that gives mean and variance of P under that Dirichlet prior, two (a,) arrays.

    Of reports that do not single out one category each by the likelihood's expansion at the posterior's mean.
    """
    form, summarized = problem.separable, not problem.keeps_reports
    if form is not None and (form.slope >= 0).all():

        def under(alpha):
            one = batch(stacked_factors([form], alpha)[0], 1)
            return one.mean[0], one.variance[0]

        return under
    if not summarized and problem.n_categories == 2:
        return None
    pilot = np.maximum(mean, 1e-12)
    family = _gaussians([problem.likelihood], pilot)[0] if summarized else expanded(problem.rows, pilot, pilot)
    return lambda alpha: Proposal(replace(family, alpha=alpha)).saddle_moments()


def refuse_long(collection):
    """Raise an InfeasibleError, before any work is done, where reports that are all distinct would take too long.

    Parameters
    ----------
    collection : Collection or Summarized
    """
    # Reports of one number (GRR, Hadamard) are counted or transformed; those of several become a row of bits each.
    entries = sum(float(len(one.reports)) * collection.n_categories for one in collection.tallies if one.reports.ndim > 1)
    seconds, size = ENTRY_SECONDS * entries, entries / 8e9
    if size > LARGEST:
        raise InfeasibleError(
            f"The likelihood of these reports has {entries:.2g} entries (reports × categories): about {seconds / 60:.0f} "
            f"minutes and {size:.2g} GB. Scan them into a summary (lb.scan), or ask about fewer categories."
        )


def undrawn(problem, levels, method: str = "auto"):
    """Return (entries of ``exact``, facts, what was checked, the method's name) of one collection without draws.

    Parameters
    ----------
    problem : Problem
    levels : pair of floats
        Of the ends of the intervals.
    method : str
        As for moments_of_one.
    """
    alpha, form = problem.alpha, problem.separable
    if method == "exact" and alpha is None:
        raise InfeasibleError(f"The method exact needs a Dirichlet prior; this one is {problem.prior.describe()}.")
    if method == "exact":
        singling(form)
    if method == "mixture" and alpha is not None:
        raise InfeasibleError("The method mixture is for priors that mix Dirichlet priors, such as learnt.")
    if alpha is None:
        if problem.mixture is None:
            raise InfeasibleError(NEITHER.format(problem.prior.describe()))
        return *mixture_moments(problem, levels), "mixture"
    if method != "summary" and form is not None and (form.slope >= 0).all():
        with contextlib.suppress(ConvergenceError):  # powers that are no whole numbers, of few weighted reports
            found = moments_of(form, alpha, problem.n_users)
            ends = found.quantile(levels)
            entries = exact_entries(found.mean, found.variance, ends, alpha, problem.n_users, found.log_evidence)
            return entries, {}, INTEGRALS, "exact"
    if method != "summary" and (integrals := integrals_of(problem, levels)) is not None:
        return *integrals, "quadrature"
    if problem.n_categories > MAX_FACTORS:
        raise InfeasibleError(
            f"Moments of reports that do not single out one category each are made for at most {MAX_FACTORS:,} "
            f"categories, got {problem.n_categories:,}."
        )
    own, accuracy_found = checked_expansion(problem.likelihood, alpha)
    mean, variance, ends, log_evidence = own.moments(levels, problem.n_categories <= MAX_LINE)
    entries = exact_entries(mean, variance, ends, alpha, problem.n_users, float(log_evidence))
    return entries, accuracy_found.facts(), accuracy_found.sentence, "summary"


def moments_of_one(problem, run: dict, settings: dict, method: str = "auto"):
    """Return the result of one collection without draws: of separable reports exact, of others by their expansion.

    Parameters
    ----------
    problem : Problem
    run, settings : dict
        As for moments_of_cells.
    method : str
        "auto", or the method that was asked for.

    Returns
    -------
    DataTree, and what scaling the prior does to the shares, a Scaled or None

    Raises
    ------
    InfeasibleError
        Where the prior is no Dirichlet, the method does not apply, or the expansion may be off.
    """
    entries, about, checked, method = undrawn(problem, tails(run["ci_prob"]), method)
    if problem.collection.nature.weighted:  # the evidence and the users' own frequencies have no meaning
        entries = {name: values for name, values in entries.items() if name.startswith("distribution")}
        about = about | dict(problem.stated)
    said, again = (MANY_CATEGORIES, checked, about), _moments_again(problem, entries["distribution_mean"])
    return _result(problem.collection, problem.prior, method, entries, said, run, settings, again)
