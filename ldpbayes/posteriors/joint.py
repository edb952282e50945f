"""All cells at once under a prior over them: chains on the cells in their forms, with weights on the reports."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.inference import verdict
from ldpbayes.inference.diagnostics import MAX_DIAGNOSED, chain_diagnostics, extremes, mcse_of_mean
from ldpbayes.inference.effects import Chains, bent
from ldpbayes.inference.sampling import going_on
from ldpbayes.inference.structure import MAX_DENSE
from ldpbayes.inference.target import Target
from ldpbayes.likelihoods.kinds import StackedRows
from ldpbayes.posteriors import expanded
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Refusal, Sample, inside, whole
from ldpbayes.posteriors.forms import MAX_ENTRIES, Forms, entries, expand, improved, log_weights, reweighed
from ldpbayes.posteriors.laplace import Laplace

#: Cells with at most so many entries (distinct reports × categories) in all keep their rows: a gradient visits them all.
FEW_ENTRIES = 60_000
#: Spread of the first expansion, as a share of the pooled mean.
FIRST_SPREAD = 0.3
#: Rounds in which stand-ins are improved, and cells that they do not fit enter with their rows instead; a joint weight may
#: keep this variance of its log from the cells that stay summaries, and that much from any of them: one cell's part has a
#: heavy tail, the sum of many has not.
ROUNDS, LEFT, ALONE = 3, 0.5, 0.05
#: Chains become at most so many times as long as was asked for, or more where that was little.
LONGEST = 32
#: Draws of the normal approximation that say where to expand.
PILOT = 150


class AbstractSampled(AbstractPosterior):
    """A sampler of the prior's unknowns; ``distribution`` has shape (chains, draws, cells, categories).

    Separable reports and few distinct ones enter as they are. Other cells are expanded at their pooled mean p̄ with
    variances (0.3 p̄)², and again at the means and variances of two rough posteriors; the draws are weighted by full
    likelihood over summary. A weight belongs to a draw of all unknowns, so that what cells share stays with them. Where
    weights are rejected, the draws improve the stand-ins, the cells that these fit worst enter with their rows, and all
    cells are sampled again; where that does not help, with all rows. A run whose draws are too few goes on.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    checked: ClassVar[Mapping] = {
        "draws": whole(4),
        "form": lambda value, name: checks.choice(value, name, ("auto", "rows", "summary")),
    }

    form: str

    @abc.abstractmethod
    def sampled(self, chains, rng, watch, going):
        """Return the Run of settled Chains; see inference.sampling for ``going``."""

    def prepare(self, problem):
        size = entries(problem.likelihoods)
        if self.form == "rows" and size > MAX_ENTRIES:
            return Refusal(
                f"The rows have {size} entries (distinct reports × categories); a sampler takes at most {MAX_ENTRIES}."
            )
        rows = self.form == "rows" or size == 0 or (self.form == "auto" and size <= FEW_ENTRIES)
        how = "their reports as they are" if rows else "their reports expanded, and weighted afterwards"
        return Plan(f"The prior joins all cells, so that they are sampled together, {how}.", 0.0, (problem, rows, size))

    def run(self, plan, rng, watch):
        problem, rows, size = plan.state
        prior, likelihoods = problem.prior, problem.likelihoods
        summaries, z = (None, None) if rows else self._expanded(prior, likelihoods, rng)
        facts: dict = {}
        on_rows: set = set()
        rounds = 0
        while True:
            target = Target(prior, Forms.of(likelihoods, summaries))
            run, sample = self._enough(problem, target, z, rng, watch)
            facts |= run.facts | {"form": "summaries" if summaries else "reports"}
            sample = replace(sample, facts=dict(facts))
            if run.trouble:
                return replace(sample, verdict=verdict.refused(run.trouble))
            if not summaries:
                return sample
            sample, better, blamed = self._weighted(problem, sample, summaries, rng)
            if not sample.rejected or self.form == "summary" or watch.interrupted:
                return _entered(sample, len(on_rows), len(likelihoods))
            rounds += 1
            on_rows |= blamed
            z = run.z.reshape(-1, run.z.shape[-1])
            if rounds < ROUNDS and entries([likelihoods[c] for c in on_rows]) <= max(FEW_ENTRIES, size / 4):
                summaries = [None if c in blamed else summary for c, summary in enumerate(better)]
                facts["cells_on_rows"] = len(on_rows)
            elif size <= MAX_ENTRIES:
                summaries, facts = None, {"summaries_rejected": sample.verdict.problem}
            else:
                return sample

    def _enough(self, problem, target, pilot, rng, watch):
        """Return (Run of chains that go on where their draws are too few, its Sample); as many are kept as asked for."""
        longest = LONGEST * self.draws * max(verdict.USUAL / (self.draws * self.chains), 1.0)
        seen: list = [None, None]

        def wanting(run, made):
            judged, sample = self._judged(problem, run, rng)
            seen[:] = run, sample
            return judged.next == "more" and judged.times * made <= longest

        def going(more):
            return going_on(more, wanting, self.draws, watch, thin=True)

        run = self.sampled(Chains(target, pilot, self.chains, rng), rng, watch, going)
        return run, seen[1] if seen[0] is run else self._sample(problem, run)

    def _judged(self, problem, run, rng):
        """Return (Verdict on a Run by what a result shows of it, its Sample with what was found).

        Where one variable is short of draws, those after it are not looked at, of which the last are the users' own
        frequencies.
        """
        from ldpbayes.result.building import frequencies

        sample, divergences = self._sample(problem, run), int(np.sum(run.stats.get("diverging", 0)))
        size, r_hat, ess, diagnostics = run.z.shape[:2], np.nan, np.nan, {}
        arrays = {"distribution": sample.distribution} | {name: values for name, (_, values) in sample.variables.items()}
        for name in (*arrays, "frequency"):
            if name == "frequency":
                sample = replace(sample, frequencies=frequencies(problem.cells, sample.distribution, rng))
                arrays[name] = sample.frequencies[0]
            if arrays[name] is None:
                break
            diagnostics[name] = chain_diagnostics(arrays[name].reshape(*size, -1))
            worst, least = extremes(diagnostics[name])
            r_hat, ess = float(np.fmax(r_hat, worst)), float(np.fmin(ess, least))
            judged = verdict.of_chains(r_hat, ess, divergences, size[0] * size[1])
            if judged.next != "done":
                break
        return judged, replace(sample, known=diagnostics)

    def _expanded(self, prior, likelihoods, rng):
        """Return (Summary or None of each cell, draws (S, u) of a rough posterior)."""
        centre = pooled_mean(likelihoods)
        shape = (len(likelihoods), centre.size)
        pilots, spreads = np.broadcast_to(centre, shape), np.broadcast_to((FIRST_SPREAD * centre) ** 2, shape)
        z = None
        for _ in range(2):
            target = Target(prior, Forms.of(likelihoods, expand(likelihoods, pilots, spreads)))
            z = bent(target, z).of(rng.standard_normal((PILOT, prior.n_unknowns)))
            p = prior.to_simplex(z)
            pilots, spreads = p.mean(axis=0), p.var(axis=0)
            pilots = pilots / pilots.sum(axis=1, keepdims=True)
        return expand(likelihoods, pilots, spreads), z

    def _weighted(self, problem, unweighted, summaries, rng):
        """Return (a Sample on summaries, resampled within each chain by weights, better summaries, cells to blame)."""
        chains, length = unweighted.distribution.shape[:2]
        p = unweighted.distribution.reshape(chains * length, *problem.prior.shape)
        logs = log_weights(problem.likelihoods, summaries, p)
        sample, weights = reweighed(unweighted, logs.sum(axis=1), rng)
        values = {"distribution": unweighted.distribution} | {name: v for name, (_, v) in unweighted.variables.items()}
        weight = weights.weight.reshape(chains, length)
        sample = replace(sample, known={name: of_chains(x, weight) for name, x in values.items()}, frequencies=None)
        if weights.verdict.accepted:
            return sample, summaries, set()
        better, left = improved(summaries, logs, p)
        places = [c for c, summary in enumerate(summaries) if summary is not None]
        return sample, better, {places[k] for k in _widest(left)}

    def _sample(self, problem, run):
        """Return the Sample of a Run."""
        flat, split = run.z.reshape(-1, run.z.shape[-1]), run.z.shape[:2]
        p = problem.prior.to_simplex(flat)
        variables = {
            name: (dims, values.reshape(*split, *values.shape[1:]))
            for name, (dims, values) in problem.prior.variables(flat).items()
        }
        return Sample(p.reshape(*split, *p.shape[1:]), independent=False, stats=run.stats, variables=variables)


@dataclass(frozen=True)
class Rotating(AbstractSampled):
    """Hamiltonian Monte Carlo whose standard normal part is solved exactly, each cell in its cheapest form.

    Parameters
    ----------
    draws, chains : int
        Draws kept per chain, and chains. About 90 draws of each chain are discarded.
    form : {"auto", "rows", "summary"}
        What stands for cells whose reports are neither separable nor few: summaries, whose draws are weighted by the
        reports, or the rows themselves.

    Notes
    -----
    With log-density −|u|²/2 − V(u) and momentum v, a step is a kick v − (t/2)∇V(u), a rotation of (u, v) by the angle t,
    and a kick. Only V is integrated with an error, so that few steps make a trajectory of a right angle, or of more
    where reports say little, after which a draw has forgotten the one before. The energy decides on acceptance. Effects
    are bent (inference.bending) so that they hardly depend on their scale. Where trajectories of 64 steps are still
    refused too often, or lose their energy, NUTS takes over.

    References
    ----------
    Shahbaba, Lan, Johnson and Neal 2014, Statistics and Computing 24, on splitting off the normal part; Neal 2011, Handbook
    of Markov Chain Monte Carlo, chapter 5; the theory page on cells.
    """

    draws: int = 1000
    chains: int = 4
    form: str = "auto"
    name: ClassVar[str] = "hmc"

    def prepare(self, problem):
        prior = problem.prior
        shaped = (prior.local() or prior.spectrum(np.zeros(prior.n_unknowns))) is not None
        if prior.n_unknowns > MAX_DENSE and not shaped:
            return Refusal(
                f"The method hmc takes at most {MAX_DENSE} unknowns of a prior that does not know how they hang together; "
                f"got {prior.n_unknowns}."
            )
        return super().prepare(problem)

    def sampled(self, chains, rng, watch, going):
        return chains.by_hmc(rng, watch, going)


@dataclass(frozen=True)
class Whitened(AbstractSampled):
    """NUTS in coordinates whitened by the Hessian, each cell in its cheapest form; no model is compiled.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and discarded per chain, and chains; ``tune`` counts where the coordinates are not whitened.
    target_accept : float
    form : {"auto", "rows", "summary"}
        As of Rotating.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.8
    form: str = "auto"
    name: ClassVar[str] = "nuts"
    checked: ClassVar[Mapping] = {**AbstractSampled.checked, "tune": whole(50), "target_accept": inside}

    def sampled(self, chains, rng, watch, going):
        return chains.by_nuts(rng, watch, going, self.tune, self.target_accept)


#: Methods for all cells by name, in the order in which ``auto`` considers them.
JOINT: dict[str, type[AbstractPosterior]] = {cls.name: cls for cls in (Laplace, Rotating, Whitened)}


def pooled_mean(likelihoods):
    """Return the posterior mean of one distribution of all cells whose reports need rows, under Jeffreys' prior."""
    held = [likelihood.rows() for likelihood in likelihoods if likelihood.separable() is None and likelihood.keeps_reports]
    rows = held[0] if len(held) == 1 else StackedRows(held)
    mean = expanded.expand(rows, np.full(rows.n_categories, 0.5))[0].saddle_moments()[0]
    return mean / mean.sum()


def _widest(logs):
    """Return whose parts of a weight are to blame: those that vary much alone, and the fewest beyond which LEFT is left."""
    variance = logs.var(axis=0)
    order = np.argsort(-variance)
    left = variance.sum() - np.cumsum(variance[order])
    fewest = int(np.argmax(left <= LEFT)) + 1 if variance.sum() > LEFT else 0
    return order[: max(fewest, int((variance > ALONE).sum()))].tolist()


def _entered(sample, on_rows, cells):
    """Return a Sample with the sentence about the cells that entered with their reports."""
    if sample.rejected or not on_rows:
        return sample
    checked = f"{sample.verdict.checked} {on_rows} of the {cells} cells entered with their reports as they are."
    return replace(sample, verdict=replace(sample.verdict, checked=checked))


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
    entries = {"mean": mean, "sd": np.sqrt(variance), "mcse": error, "ess_bulk": worth}
    return {name: value.reshape(shape) for name, value in entries.items()}
