"""What samplers of all cells at once share: the target, cells in their forms, and weights on the reports."""

import abc
from dataclasses import dataclass, field, replace

import numpy as np

from ldpbayes import checks
from ldpbayes.inference import verdict
from ldpbayes.inference.bending import Batch, Bend
from ldpbayes.inference.diagnostics import MAX_DIAGNOSED, chain_diagnostics, extremes, mcse_of_mean
from ldpbayes.inference.sampling import going_on
from ldpbayes.likelihoods.kinds import StackedRows
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import Plan, Refusal, Sample
from ldpbayes.posteriors.forms import Forms, entries, expand, improved, log_weights, reweighed
from ldpbayes.posteriors.joint.base import AbstractJoint

#: Cells with at most so many entries (distinct reports × categories) in all keep their rows: a gradient visits them all.
FEW_ENTRIES = 60_000
#: More entries than this are not written out.
MAX_ENTRIES = 2**25
#: Spread of the first expansion, as a share of the pooled mean.
FIRST_SPREAD = 0.3
#: Rounds in which stand-ins are improved, and cells that they do not fit enter with their rows instead; a joint weight may
#: keep this variance of its log from the cells that stay summaries, and that much from any of them: one cell's part has a
#: heavy tail, the sum of many has not.
ROUNDS, LEFT, ALONE = 3, 0.5, 0.05
#: Of the bend: reports of weak cells bound effects, rather than saying where they are.
NORMALITY = -0.3
#: Chains become at most so many times as long as was asked for, or more where that was little.
LONGEST = 32


@dataclass(frozen=True, eq=False)
class Target:
    """The log-density of the unknowns, bent or not, and its gradient, with the likelihoods in compiled forms."""

    prior: object
    forms: Forms
    cells: int
    bend: Bend | None = None
    _logits: object = field(init=False)

    def __post_init__(self):
        from ldpbayes.posteriors import _form_kernels

        object.__setattr__(self, "_logits", self.prior.logits())
        object.__setattr__(self, "_from_logits", _form_kernels.from_logits)
        object.__setattr__(self, "_from_shares", _form_kernels.from_shares)
        object.__setattr__(self, "_out", np.empty(self.prior.shape))

    @property
    def local(self):
        """(start, width) of the unknowns that move one cell only, or None."""
        return None if self._logits is None else self._logits.local()

    def spectrum(self, z):
        """Return what the prior knows of the Hessian of its effects, or None."""
        return None if self._logits is None else self._logits.spectrum(z)

    @property
    def first(self):
        """Number of unknowns before those of single cells, or of effects; 0 where the prior does not know."""
        parts = self.local or self.spectrum(np.zeros(self.prior.n_unknowns))
        return 0 if parts is None else parts[0]

    @property
    def scales(self):
        """Where the unknowns are logs of half-normal scales of the effects after them, a slice; or None."""
        return None if self._logits is None else self._logits.scales()

    @property
    def grouped(self):
        """The prior's form that is compiled as a whole, or None."""
        return None if self._logits is None else self._logits.grouped()

    @property
    def straight(self):
        """The bend, one that changes nothing where there is none."""
        size, scales = self.prior.n_unknowns, self.scales
        if self.bend is not None or scales is None:
            return self.bend
        return self._bend_at(np.zeros(size), np.zeros(size))

    def _bend_at(self, at, precision):
        scales = self.scales
        step, own = scales.stop - scales.start, range(scales.start, scales.stop)
        spans = [slice(scales.stop + j, at.size, step) for j in range(step)]
        return Bend([Batch(place, span, 1.0, 2) for place, span in zip(own, spans, strict=True)], at, precision, NORMALITY)

    def bent(self, z, share):
        """Return this target in unknowns bent about z, and z in them; as it is where no share is known."""
        if share is None:
            return self, z
        stop, centre, precision = self.scales.stop, z.copy(), np.zeros(z.size)
        centre[stop:], precision[stop:] = 0.0, share / (1 - share)
        return replace(self, bend=self._bend_at(z.copy(), precision)), centre

    def unbent(self, y):
        """Return the prior's unknowns, shape (…, u)."""
        return y if self.bend is None else self.bend.unbent(y)

    def value_and_gradient(self, z):
        """Return the log-density at z, without the likelihood's constants, and its gradient."""
        if self.bend is None:
            return self._plain(z)
        z = self.bend.unbent(z)
        return self.bend.pulled(z, *self._plain(z))

    def _plain(self, z):
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


class AbstractSampled(AbstractJoint):
    """A sampler of the prior's unknowns: NUTS, or Hamiltonian Monte Carlo where the posterior is nearly normal.

    Separable reports and few distinct ones enter as they are. Other cells are expanded at their pooled mean p̄ with
    variances (0.3 p̄)², and again at the means and variances of two rough posteriors; the draws are weighted by full
    likelihood over summary. A weight belongs to a draw of all unknowns, so that what cells share stays with them. Where
    weights are rejected, the draws improve the stand-ins, the cells that these fit worst enter with their rows, and all
    cells are sampled again; where that does not help, with all rows. A run whose draws are too few goes on.
    """

    form: str

    def __post_init__(self):
        for name, least in (("draws", 4), ("chains", 1)):
            object.__setattr__(self, name, checks.integer(getattr(self, name), name, minimum=least))
        checks.choice(self.form, "form", ("auto", "rows", "summary"))

    @abc.abstractmethod
    def _pilot(self, target, before, rng):
        """Return some unknowns of a rough posterior, (draws, u), from those of one before it."""

    @abc.abstractmethod
    def _last(self, target, pilot, rng, watch, going):
        """Return the Run of the chains that a reader gets; see inference.sampling for ``going``."""

    def prepare(self, problem):
        size = entries(problem.likelihoods)
        if self.form == "rows" and size > MAX_ENTRIES:
            return Refusal(
                f"The rows have {size} entries (distinct reports × categories); a sampler takes at most {MAX_ENTRIES}."
            )
        rows = self.form == "rows" or size == 0 or (self.form == "auto" and size <= FEW_ENTRIES)
        how = "their reports as they are" if rows else "their reports expanded, and weighted afterwards"
        return Plan(f"The prior joins all cells, so that they are sampled together, {how}.", np.nan, (problem, rows, size))

    def run(self, plan, rng, watch):
        problem, rows, size = plan.state
        if rows:
            return self._on_rows(problem, rng, watch, {})
        sample = self._on_summaries(problem, rng, watch, size)
        weighted = "k_hat" in sample.facts  # else the sampler itself gave up
        if not (sample.rejected and weighted) or size > MAX_ENTRIES or self.form == "summary" or watch.interrupted:
            return sample
        return self._on_rows(problem, rng, watch, {"summaries_rejected": sample.verdict.problem})

    # ---- the two forms ---------------------------------------------------------------------------------------------------
    def _on_rows(self, problem, rng, watch, facts):
        target = Target(problem.prior, Forms.of(problem.likelihoods), len(problem.cells))
        run, sample = self._enough(problem, target, np.zeros((1, problem.prior.n_unknowns)), rng, watch)
        return _doubted(replace(sample, facts=facts | run.facts | {"form": "reports"}), run.trouble)

    def _enough(self, problem, target, pilot, rng, watch):
        """Return (Run of chains that go on where their draws are too few, its Sample); as many are kept as asked for."""
        longest = LONGEST * self.draws * max(verdict.USUAL / (self.draws * self.chains), 1.0)
        seen: list = [None, None]

        def times(run, made):
            judged, sample = self._judged(problem, run)
            seen[:] = run, sample
            return judged.times if judged.next == "more" and judged.times * made <= longest else 1

        def going(more):
            return going_on(more, times, self.draws, watch, thin=True)

        run = self._last(target, pilot, rng, watch, going)
        return run, seen[1] if seen[0] is run else self._sample(problem, run)

    def _judged(self, problem, run):
        """Return (Verdict on a Run by what a result shows of it, its Sample with what was found).

        Where one variable is short of draws, those after it are not looked at.
        """
        sample, divergences = self._sample(problem, run), int(np.sum(run.stats.get("diverging", 0)))
        size, r_hat, ess, known = run.z.shape[:2], np.nan, np.nan, {}
        arrays = {"distribution": sample.distribution} | {name: values for name, (_, values) in sample.variables.items()}
        for name, values in arrays.items():
            known[name] = chain_diagnostics(values.reshape(*size, -1))
            worst, least = extremes(known[name])
            r_hat, ess = float(np.fmax(r_hat, worst)), float(np.fmin(ess, least))
            found = verdict.of_chains(r_hat, ess, divergences, size[0] * size[1])
            if found.next == "more":
                break
        return found, replace(sample, known=known)

    def _on_summaries(self, problem, rng, watch, size):
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
        summaries, kept = expand(likelihoods, pilots, spreads), set()
        rounds = 0
        while True:
            target = Target(prior, Forms.of(likelihoods, summaries), len(problem.cells))
            run, whole = self._enough(problem, target, z, rng, watch)
            facts = run.facts | {"form": "summaries"} | ({"cells_on_rows": len(kept)} if kept else {})
            whole = replace(whole, facts=facts)
            if run.trouble:
                return _doubted(whole, run.trouble)
            sample, better, blamed = self._weighted(problem, whole, summaries, rng)
            held = entries([likelihoods[c] for c in blamed | kept])
            if kept and not sample.rejected:
                checked = f"{sample.verdict.checked} {_entered(len(kept), len(likelihoods))}"
                sample = replace(sample, verdict=replace(sample.verdict, checked=checked))
            rounds += 1
            again = rounds < ROUNDS and held <= max(FEW_ENTRIES, size / 4)
            if not (sample.rejected and again) or self.form == "summary" or watch.interrupted:
                return sample
            kept |= blamed
            summaries = [None if c in blamed else one for c, one in enumerate(better)]
            z = run.z.reshape(-1, run.z.shape[-1])

    def _weighted(self, problem, whole, summaries, rng):
        """Return (a Sample on summaries, resampled within each chain by weights, better summaries, cells to blame)."""
        chains, length = whole.distribution.shape[:2]
        p = whole.distribution.reshape(chains * length, *problem.prior.shape)
        logs = log_weights(problem.likelihoods, summaries, p)
        places = [c for c, one in enumerate(summaries) if one is not None]
        sample, found = reweighed(whole, logs.sum(axis=1), rng)
        values = {"distribution": whole.distribution} | {name: v for name, (_, v) in whole.variables.items()}
        weight = found.weight.reshape(chains, length)
        sample = replace(sample, known={name: of_chains(array, weight) for name, array in values.items()})
        if found.verdict.accepted:
            return sample, summaries, set()
        better, left = improved(summaries, logs, p)
        return sample, better, _widest(left, places)

    def _sample(self, problem, run):
        """Return the Sample of a Run."""
        chains, length = run.z.shape[:2]
        flat = run.z.reshape(chains * length, -1)
        p = problem.prior.to_simplex(flat)
        variables = {
            name: (dims, values.reshape(chains, length, *values.shape[1:]))
            for name, (dims, values) in problem.prior.variables(flat).items()
        }
        draws = p.reshape(chains, length, *p.shape[1:])
        return Sample(draws, independent=False, stats=run.stats, variables=variables)


def pooled_mean(likelihoods):
    """Return the posterior mean of one distribution of all cells whose reports need rows, under Jeffreys' prior."""
    held = [one.rows() for one in likelihoods if one.separable() is None and one.keeps_reports]
    rows = held[0] if len(held) == 1 else StackedRows(held)
    proposal, _ = surrogate.expand(rows, np.full(rows.n_categories, 0.5))
    mean = proposal.saddle_moments()[0]
    return mean / mean.sum()


def _doubted(sample, trouble):
    """Return a sample as it is, or as one that cannot be trusted."""
    return replace(sample, verdict=verdict.refused(trouble)) if trouble else sample


def _widest(logs, places):
    """Return the cells to blame for a joint weight: those that vary much alone, and the fewest beyond which LEFT is left."""
    variance = logs.var(axis=0)
    order = np.argsort(-variance)
    left = variance.sum() - np.cumsum(variance[order])
    fewest = int(np.argmax(left <= LEFT)) + 1 if variance.sum() > LEFT else 0
    return {places[k] for k in order[: max(fewest, int((variance > ALONE).sum()))]}


def _entered(kept, cells):
    """Return the sentence about the cells that entered with their reports."""
    return f"{kept} of the {cells} cells entered with their reports as they are."


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
