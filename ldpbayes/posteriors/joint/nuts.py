"""All cells at once by the No-U-Turn sampler on the prior's unknowns, without a model to compile."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.likelihoods.kinds import StackedRows
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import Plan, Refusal, Sample, Status
from ldpbayes.posteriors.chains import sample_density
from ldpbayes.posteriors.diagnostics import MAX_DIAGNOSED, mcse_of_mean
from ldpbayes.posteriors.joint.base import AbstractJoint
from ldpbayes.posteriors.joint.forms import Forms, entries, expand, log_weights
from ldpbayes.posteriors.joint.whitening import Plain, whitened

#: Where draws diverge, they are made once more with this acceptance rate.
CAREFUL = 0.99
#: Cells with at most so many entries (distinct reports × categories) in all keep their rows: a gradient visits them all.
FEW_ENTRIES = 60_000
#: More entries than this are not written out.
MAX_ENTRIES = 2**25
#: Draws of a short run that says where to expand, and discarded draws before it and before the last run.
PILOT, PILOT_TUNE, TUNE = 150, 100, 100
#: Spread of the first expansion, as a share of the pooled mean.
FIRST_SPREAD = 0.3
#: The log of a joint weight varies more with every cell: beyond so many, each cell has its own weights.
MAX_JOINT = 600


@dataclass(frozen=True, eq=False)
class Target:
    """The log-density of the unknowns and its gradient, with the likelihoods in compiled forms."""

    prior: object
    forms: Forms
    cells: int
    _logits: object = field(init=False)

    def __post_init__(self):
        from ldpbayes.posteriors.joint import _kernels

        object.__setattr__(self, "_logits", self.prior.logits())
        object.__setattr__(self, "_from_logits", _kernels.from_logits)
        object.__setattr__(self, "_from_shares", _kernels.from_shares)
        object.__setattr__(self, "_out", np.empty(self.prior.shape))

    @property
    def local(self):
        """(start, width) of the unknowns that move one cell only, or None."""
        return None if self._logits is None else self._logits.local()

    def spectrum(self, z):
        """Return what the prior knows of the Hessian of its effects, or None."""
        return None if self._logits is None else self._logits.spectrum(z)

    @property
    def grouped(self):
        """The prior's form that is compiled as a whole, or None."""
        return None if self._logits is None else self._logits.grouped()

    def value_and_gradient(self, z):
        """Return the log-density at z, without the likelihood's constants, and its gradient."""
        out = self._out
        if self._logits is None:
            p = np.ascontiguousarray(self.prior.to_simplex(z))
            value = self._from_shares(p, *self.forms.arrays, out)
            slope = self.prior.pullback(z, out)
        else:
            eta = np.ascontiguousarray(self._logits.of(z))
            value = self._from_logits(eta, *self.forms.arrays, out)
            slope = self._logits.pullback(z, out)
        return value + float(self.prior.log_density(z)), slope + self.prior.gradient(z)


@dataclass(frozen=True)
class Whitened(AbstractJoint):
    """NUTS in coordinates whitened by the Hessian, each cell in its cheapest form.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and discarded per chain, and chains; ``tune`` counts where the coordinates are not whitened.
    target_accept : float
    form : {"auto", "rows", "summary"}
        What stands for cells whose reports are neither separable nor few: summaries, whose draws are weighted by the
        reports, or the rows themselves.

    Notes
    -----
    Separable reports and few distinct ones enter as they are. Other cells are expanded at their pooled mean p̄ with
    variances (0.3 p̄)², and again at the means and variances of two short runs; the draws of the last run are weighted by
    full likelihood over summary. Beyond MAX_JOINT cells every cell has its own weights. Where these are rejected, the rows
    are sampled.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.8
    form: str = "auto"
    name: ClassVar[str] = "nuts"

    def __post_init__(self):
        for name, least in (("draws", 4), ("tune", 50), ("chains", 1)):
            object.__setattr__(self, name, checks.integer(getattr(self, name), name, minimum=least))
        accept = checks.probability(self.target_accept, "target_accept", open_low=True, open_high=True)
        object.__setattr__(self, "target_accept", accept)
        checks.choice(self.form, "form", ("auto", "rows", "summary"))

    def prepare(self, problem):
        size = entries(problem.likelihoods)
        if self.form == "rows" and size > MAX_ENTRIES:
            return Refusal(
                f"The rows have {size} entries (distinct reports × categories); NUTS takes at most {MAX_ENTRIES}."
            )
        rows = self.form == "rows" or size == 0 or (self.form == "auto" and size <= FEW_ENTRIES)
        how = "their reports as they are" if rows else "their reports expanded, and weighted afterwards"
        return Plan(f"The prior joins all cells, so that they are sampled together, {how}.", np.nan, (problem, rows, size))

    def run(self, plan, rng, watch):
        problem, rows, size = plan.state
        if rows:
            return self._on_rows(problem, rng, watch, {})
        sample = self._on_summaries(problem, rng, watch)
        if not sample.rejected or size > MAX_ENTRIES or self.form == "summary" or watch.interrupted:
            return sample
        return self._on_rows(problem, rng, watch, {"summaries_rejected": sample.detail})

    # ---- the two forms ---------------------------------------------------------------------------------------------------
    def _on_rows(self, problem, rng, watch, facts):
        prior = problem.prior
        target = Target(prior, Forms.of(problem.likelihoods), len(problem.cells))
        pilot = self._pilot(target, np.zeros((1, prior.n_unknowns)), rng)
        z, stats, more = self._last(target, pilot, rng, watch)
        return self._sample(problem, z, stats, facts | more | {"form": "reports"})

    def _on_summaries(self, problem, rng, watch):
        prior, likelihoods = problem.prior, problem.likelihoods
        centre = pooled_mean(likelihoods)
        shape = (len(likelihoods), centre.size)
        pilots, spreads = np.broadcast_to(centre, shape), np.broadcast_to((FIRST_SPREAD * centre) ** 2, shape)
        z = np.zeros((1, prior.n_unknowns))
        for _ in range(2):
            summaries = expand(likelihoods, pilots, spreads)
            target = Target(prior, Forms.of(likelihoods, summaries), len(problem.cells))
            z = self._pilot(target, z, rng)
            p = prior.to_simplex(z)
            pilots, spreads = p.mean(axis=0), p.var(axis=0)
            pilots = pilots / pilots.sum(axis=1, keepdims=True)
        summaries = expand(likelihoods, pilots, spreads)
        target = Target(prior, Forms.of(likelihoods, summaries), len(problem.cells))
        z, stats, more = self._last(target, z, rng, watch)
        return self._weighted(problem, z, stats, more, summaries, rng)

    def _weighted(self, problem, z, stats, more, summaries, rng):
        """Return the Sample of draws on summaries, resampled within each chain by their weights."""
        chains, length = z.shape[:2]
        whole = self._sample(problem, z, stats, more | {"form": "summaries"})
        p = whole.distribution.reshape(chains * length, *problem.prior.shape)
        logs = log_weights(problem.likelihoods, summaries, p)
        places = [c for c, one in enumerate(summaries) if one is not None]
        if len(places) > MAX_JOINT:
            return _each_cell(whole, p, logs, places, rng)
        found = surrogate.weigh(p.reshape(len(p), -1), logs.sum(axis=1))
        weight = found.weight.reshape(chains, length)
        pick = np.arange(chains)[:, None], _within_chains(weight, rng)
        variables = {name: (dims, values[pick]) for name, (dims, values) in whole.variables.items()}
        values = {"distribution": whole.distribution} | {name: v for name, (_, v) in whole.variables.items()}
        return replace(
            whole,
            distribution=whole.distribution[pick],
            variables=variables,
            stats={name: held[pick] for name, held in stats.items()},
            known={name: of_chains(array, weight) for name, array in values.items()},
            status=_status(found.problem),
            detail=found.problem or found.checked,
            facts=dict(whole.facts)
            | {"k_hat": found.k_hat, "shift_by_weights": found.shift, "weights_effective": found.effective_sample},
        )

    def _sample(self, problem, z, stats, facts):
        chains, length = z.shape[:2]
        flat = z.reshape(chains * length, -1)
        p = problem.prior.to_simplex(flat)
        variables = {
            name: (dims, values.reshape(chains, length, *values.shape[1:]))
            for name, (dims, values) in problem.prior.variables(flat).items()
        }
        draws = p.reshape(chains, length, *p.shape[1:])
        return Sample(draws, independent=False, stats=stats, facts=facts, variables=variables)

    # ---- runs ------------------------------------------------------------------------------------------------------------
    def _pilot(self, target, before, rng):
        """Return the unknowns of a short run that starts from the draws of one before it, (draws, u)."""
        coordinates = whitened(target, before.mean(axis=0))
        settings = {"draws": PILOT, "tune": PILOT_TUNE, "chains": 1, "target_accept": self.target_accept}
        u, _ = sample_in(target, coordinates, rng, start=coordinates.back(before), **settings)
        return coordinates.of(u[0])

    def _last(self, target, pilot, rng, watch):
        """Return (unknowns (chains, draws, u), statistics, facts) of the run whose draws are kept."""
        coordinates = whitened(target, pilot.mean(axis=0))
        white = type(coordinates) is not Plain
        start = coordinates.back(pilot)
        settings, more = {"draws": self.draws, "tune": TUNE if white else self.tune, "chains": self.chains}, {}
        u, stats = sample_in(
            target, coordinates, rng, target_accept=self.target_accept, start=start, watch=watch, **settings
        )
        if stats["diverging"].any() and self.target_accept < CAREFUL and not (watch is not None and watch.interrupted):
            # Once more with smaller steps: a scale near zero makes the effects narrow.
            settings |= {"tune": max(settings["tune"], self.tune)}
            more = {"target_accept_used": CAREFUL}
            u, stats = sample_in(target, coordinates, rng, target_accept=CAREFUL, start=start, watch=watch, **settings)
        return coordinates.of(u), stats, more


def sample_in(target, coordinates, rng, *, start, **settings):
    """Return (draws (chains, draws, u), statistics) in the given coordinates; chains start near some points of theirs.

    Parameters
    ----------
    target : Target
    coordinates : Plain, Dense or Arrow
    rng : numpy.random.Generator
    start : (k, u) array
    **settings
        As for ``chains.sample_density``.
    """
    size = coordinates.centre.size

    def stepwise(u):
        value, slope = target.value_and_gradient(coordinates.of(u))
        return value, coordinates.gradient(slope)

    def begin(own):
        return start[own.integers(len(start))] + 0.1 * own.standard_normal(size)

    return sample_density(coordinates.compiled(target) or stepwise, begin, rng, size=size, **settings)


def pooled_mean(likelihoods):
    """Return the posterior mean of one distribution of all cells whose reports need rows, under Jeffreys' prior."""
    held = [one.rows() for one in likelihoods if one.separable() is None and one.rows() is not None]
    rows = held[0] if len(held) == 1 else StackedRows(held)
    proposal, _ = surrogate.expand(rows, np.full(rows.n_categories, 0.5))
    mean = proposal.saddle_moments()[0]
    return mean / mean.sum()


def _within_chains(weight, rng):
    """Return indices (chains, draws) that resample each chain in its order."""
    return np.stack([surrogate.resample(chain / max(chain.sum(), np.finfo(float).tiny), rng) for chain in weight])


def _status(problem):
    return Status.NOT_TRUSTED if problem else Status.ACCEPTED


def _each_cell(whole, p, logs, places, rng):
    """Return the Sample with the draws of every cell resampled by its own weights; other unknowns stay as they are."""
    draws = whole.distribution.copy()
    chains, length = draws.shape[:2]
    each = [surrogate.weigh(p[:, c], logs[:, k]) for k, c in enumerate(places)]
    for c, found in zip(places, each, strict=True):
        chosen = _within_chains(found.weight.reshape(chains, length), rng)
        draws[:, :, c] = whole.distribution[np.arange(chains)[:, None], chosen, c]
    rejected = [found for found in each if found.problem]
    worst = max(rejected or each, key=lambda found: found.k_hat)
    facts = {
        "k_hat": worst.k_hat,
        "shift_by_weights": max(found.shift for found in each),
        "weights_effective": min(found.effective_sample for found in each),
        "weights": "each cell has its own",
    }
    detail = f"in {len(rejected)} of {len(each)} cells {worst.problem}" if rejected else f"In every cell: {worst.checked}"
    return replace(whole, distribution=draws, status=_status(bool(rejected)), detail=detail, facts=dict(whole.facts) | facts)


def of_chains(values, weight):
    """Return mean, sd, mcse and ess_bulk of weighted chains: those of the mean of w (x − μ), correlated as it is.

    Parameters
    ----------
    values : (chains, draws, …) array
    weight : (chains, draws) array
        With sum one.
    """
    shape = values.shape[2:]
    x = values.reshape(*weight.shape, -1)
    mean = np.tensordot(weight, x, 2)
    variance = np.tensordot(weight, (x - mean) ** 2, 2)
    chosen = np.unique(np.linspace(0, mean.size - 1, min(mean.size, MAX_DIAGNOSED)).astype(int))
    chosen = chosen[variance[chosen] > 0]
    error, worth = np.full(mean.size, np.nan), np.full(mean.size, np.nan)
    if chosen.size:
        error[chosen] = mcse_of_mean(weight.size * weight[..., None] * (x[..., chosen] - mean[chosen]), independent=False)
        worth[chosen] = variance[chosen] / error[chosen] ** 2
    found = {"mean": mean, "sd": np.sqrt(variance), "mcse": error, "ess_bulk": worth}
    return {name: value.reshape(shape) for name, value in found.items()}
