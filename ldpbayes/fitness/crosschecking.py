"""Several answers to one question side by side: exact, NUTS, MLE and oracle, and whether the channel fits at all."""

import math
from dataclasses import dataclass, field

import numpy as np

from ldpbayes import checks
from ldpbayes.collections import as_data
from ldpbayes.errors import listed
from ldpbayes.estimators.together import point_estimates
from ldpbayes.fitness.base import Check, Fitness
from ldpbayes.fitness.cells import CellsFitness
from ldpbayes.fitness.checking import check
from ldpbayes.fitting import fit
from ldpbayes.presenting import AbstractResult
from ldpbayes.priors import DEFAULT, prior_for
from ldpbayes.road.ruling import rule

#: Two posteriors agree where their means differ by at most this many Monte Carlo standard errors.
MAX_MCSE = 4.0
#: A point estimate further than this many posterior sd from the posterior mean is pointed out (not a failure).
MAX_SD = 3.0
#: A posterior predictive p-value below this flags the channel.
MIN_P_VALUE = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class CrossCheck(AbstractResult):
    """The outcome of crosscheck().

    Attributes
    ----------
    categories : tuple of str
    reference, sampler : str
        Methods of the two posteriors.
    mean, sd : (a,) arrays
        E[P|Y] and its posterior sd by the reference.
    difference_sd, difference_mcse : (a,) arrays
        NUTS mean minus the reference's, in posterior sd and in Monte Carlo standard errors.
    estimates : dict of str to (a,) array
        Point estimates minus the posterior mean, in posterior sd.
    verdicts : tuple of str
        One per category.
    channels : tuple of Check
        The posterior predictive checks, the first of the whole collection; empty where the reports can be counted neither
        whole nor by support.
    outcome : str
        NUTS's own diagnostics.
    sampler_converged : bool
    fitness : Fitness
        The tests that need no posterior, of size MIN_P_VALUE.
    """

    categories: tuple
    reference: str
    sampler: str
    mean: np.ndarray
    sd: np.ndarray
    difference_sd: np.ndarray
    difference_mcse: np.ndarray
    estimates: dict
    verdicts: tuple
    channels: tuple
    outcome: str
    sampler_converged: bool
    fitness: Fitness = field(default_factory=lambda: Fitness(()))

    @property
    def apart(self):
        """Whether the two posteriors differ by more than their Monte Carlo errors allow."""
        return bool((np.abs(self.difference_mcse) > MAX_MCSE).any())

    @property
    def flagged(self):
        """Whether anything is wrong: a channel that does not fit, posteriors that differ, or a sampler to distrust."""
        misfit = self.fitness.flagged or any(check.p_value < MIN_P_VALUE for check in self.channels)
        return self.apart or misfit or not self.sampler_converged

    @property
    def conclusion(self):
        """One sentence per finding."""
        said = [
            f"The reports of {check.name} do not look like this channel's (posterior predictive p = {check.p_value:.4f}): "
            "the design, its parameters or the categories are probably wrong, and so is any posterior from them."
            for check in self.channels
            if check.p_value < MIN_P_VALUE
        ]
        if self.fitness.flagged:
            said.append(self.fitness.verdict)
        if self.apart:
            said.append(f"NUTS and {self.reference} differ by more than {MAX_MCSE:g} Monte Carlo standard errors.")
        if not self.sampler_converged:
            said.append(self.outcome)
        return " ".join(said) or f"Nothing to flag: {self.reference} and NUTS agree, and the channel fits the reports."


@dataclass(frozen=True, eq=False, repr=False)
class CellsCrossCheck(AbstractResult):
    """The cross-checks of many cells.

    Attributes
    ----------
    labels : tuple of str
    cells : tuple of CrossCheck
    fitness : CellsFitness
        The tests that need no posterior, of all cells together.
    """

    labels: tuple
    cells: tuple
    fitness: CellsFitness

    @property
    def flagged(self):
        """Whether the posteriors of some cell differ, or the reports do not fit, all cells together."""
        return self.fitness.flagged or bool(self.apart or self.doubtful or self.unpredicted)

    @property
    def apart(self):
        """Labels of the cells whose two posteriors differ."""
        return self._where(lambda found: found.apart)

    @property
    def doubtful(self):
        """Labels of the cells whose sampler did not converge."""
        return self._where(lambda found: not found.sampler_converged)

    @property
    def unpredicted(self):
        """Labels of the cells whose predictive p-value is below the size of the test divided by the number of cells."""
        return self._where(lambda found: any(c.p_value * len(self.cells) < MIN_P_VALUE for c in found.channels))

    @property
    def conclusion(self):
        """One sentence per finding."""
        said = [self.fitness.verdict] if self.fitness.flagged else []
        for labels, words in (
            (self.apart, f"The two posteriors differ by more than {MAX_MCSE:g} Monte Carlo standard errors in"),
            (self.doubtful, "The sampler did not converge in"),
            (self.unpredicted, "The posterior predictive check fails in"),
        ):
            if labels:
                said.append(f"{words} {listed(labels)}.")
        return " ".join(said) or "Nothing to flag: the posteriors of all cells agree, and the channels fit the reports."

    def _where(self, holds):
        return [label for label, found in zip(self.labels, self.cells, strict=True) if holds(found)]


def crosscheck(collection, prior=DEFAULT, *, random_seed=None, draws=1000, chains=4, progressbar=False):
    """Return exact (where feasible), NUTS, MLE and oracle side by side, and the predictive check of the channel.

    Parameters
    ----------
    collection : Collection, Tally or Cells
        Cells are compared one by one, each with the prior of one distribution.
    prior : as in fit
    random_seed : int or Generator, optional
    draws, chains : int
        Of both posteriors.
    progressbar : bool

    Returns
    -------
    CrossCheck, or CellsCrossCheck of Cells
    """
    collection = as_data(collection, summaries=False)
    if collection.by:
        seeds = np.random.SeedSequence(_seed(random_seed)).spawn(len(collection))
        settings = {"draws": draws, "chains": chains, "progressbar": progressbar}
        found = [
            crosscheck(cell, prior, random_seed=int(own.generate_state(1)[0]), **settings)
            for cell, own in zip(collection.values(), seeds, strict=True)
        ]
        return CellsCrossCheck(collection.labels, tuple(found), check(collection, size=MIN_P_VALUE))
    prior = prior_for(rule(prior, collection, "auto").prior, collection)
    seed = int(np.random.SeedSequence(_seed(random_seed)).generate_state(1)[0])
    settings = {"prior": prior, "random_seed": seed, "estimates": False, "progressbar": progressbar}
    reference = fit(collection, exclude=("nuts",), draws=draws, chains=chains, **settings)
    sampled = fit(collection, method="nuts", draws=draws, chains=chains, **settings)
    first, second = (tree["summary"].sel(target="distribution") for tree in (reference, sampled))
    mean, sd = first["mean"].values, first["sd"].values
    difference = second["mean"].values - mean
    error = np.sqrt(second["mcse"].values ** 2 + first["mcse"].values ** 2)
    in_mcse = np.divide(difference, error, out=np.zeros_like(error), where=error > 0)
    in_sd = difference / sd
    estimates = {e.name: (e.distribution - mean) / sd for e in point_estimates(collection)}
    return CrossCheck(
        categories=tuple(map(str, first["category"].values)),
        reference=reference.attrs["method"],
        sampler=sampled.attrs["method"],
        mean=mean,
        sd=sd,
        difference_sd=in_sd,
        difference_mcse=in_mcse,
        estimates=estimates,
        verdicts=tuple(_verdict(x, in_mcse, estimates) for x in range(mean.size)),
        channels=predictive_check(collection, reference, random_seed=seed),
        fitness=check(collection, size=MIN_P_VALUE, random_seed=seed),
        outcome=sampled.attrs["outcome"],
        sampler_converged=bool(sampled.attrs["converged"]),
    )


def predictive_check(collection, tree, *, draws=1000, random_seed=None):
    """Return a Check of the whole collection, then one per channel.

    The discrepancy Σ_y (S_y − n (Qp)_y)² / (n (Qp)_y) of the observed tally at one draw p of the posterior is compared with
    that of tallies simulated from the same p; protocols with too many possible reports to list are compared by their support
    counts. If P comes from the prior, the truth and a draw from the posterior have the same law given the reports, so that
    the p-value is exactly uniform; for a fixed truth it is so for many reports. Averaged over all draws it would be
    conservative, because the posterior has seen the reports.

    Parameters
    ----------
    collection : Collection
    tree : DataTree
        Its posterior.
    draws : int
        Simulated tallies.
    random_seed : int, optional
        Chooses the draw, too.

    Returns
    -------
    tuple of Check
        The statistic is that of the observed tally; the p-value is uniform for reports from the design.

    References
    ----------
    Johnson (2004), Annals of Statistics 32; Gosselin (2011), PLoS ONE 6.
    """
    from ldpbayes.result import extended_draws

    rng = checks.generator(random_seed, "random_seed")
    flat = extended_draws(tree, collection)
    p = flat[rng.integers(len(flat))]
    p = p / p.sum()
    laws = [(tally, tally.protocol.report_law()) for tally in collection.tallies]
    checked = [(tally, law) for tally, law in laws if law is not None]
    if not checked:
        return ()
    observed, replicated = np.empty(len(checked)), np.empty((draws, len(checked)))
    for c, (tally, law) in enumerate(checked):
        share = law.expected(p)
        expected = tally.n_reports * share
        observed[c] = _discrepancy(law.tally(tally.reports, tally.counts), expected)
        if law.kind == "list":
            fresh = rng.multinomial(tally.n_reports, share / share.sum(), draws)
        else:
            fresh = np.stack([law.simulate(rng.multinomial(tally.n_reports, p), rng) for _ in range(draws)])
        replicated[:, c] = _discrepancy(fresh, expected)
    found = [_check(f"channel {t.name}", observed[c], replicated[:, c]) for c, (t, _) in enumerate(checked)]
    return (_check("the collection", observed.sum(), replicated.sum(axis=1)), *(found if len(found) > 1 else ()))


def _seed(random_seed):
    if isinstance(random_seed, np.random.Generator):
        random_seed = random_seed.integers(2**31)
    return None if random_seed is None else checks.seed(random_seed)


def _verdict(x, in_mcse, estimates):
    if abs(in_mcse[x]) > MAX_MCSE:
        return f"differs by {in_mcse[x]:+.1f} MCSE"
    far = [name for name, away in estimates.items() if abs(away[x]) > MAX_SD]
    return f"agrees; {' and '.join(far)} far from the mean" if far else "agrees"


def _check(name, observed, replicated):
    # The observed tally counts as one of them: a p-value of 0 is never claimed.
    p_value = (1 + (replicated >= observed * (1 - 1e-12)).sum()) / (1 + replicated.size)
    detail = f"{replicated.size:,} simulated tallies"
    return Check(name, "", float(observed), math.nan, float(p_value), "posterior predictive", detail=detail)


def _discrepancy(tallied, expected):
    # A report that cannot occur (expected 0) but did would be an infinite discrepancy; the draws of P exclude it.
    return ((tallied - expected) ** 2 / np.where(expected > 0, expected, 1.0)).sum(axis=-1)
