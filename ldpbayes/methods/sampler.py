"""Chains on the reports in their cheapest form, of one collection or of all cells at once, with weights on the reports."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpbayes.inference import verdict
from ldpbayes.inference.constants import MAX_DIAGNOSED
from ldpbayes.inference.diagnostics import chain_diagnostics, extremes, mcse_of_mean
from ldpbayes.inference.effects import Chains, bent
from ldpbayes.inference.sampling import Run, going_on
from ldpbayes.inference.target import Target
from ldpbayes.likelihoods.kinds import StackedRows
from ldpbayes.methods import expanded, frequency
from ldpbayes.methods.forms import Forms, entries, expand, log_weights, reweighed
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.walk import Walks, unknowns_near


@dataclass(frozen=True)
class Sampler:
    """Chains in coordinates that the structure of the prior gives; ``distribution`` is (chains, draws, …, categories).

    Separable reports and few distinct ones enter as they are. Other likelihoods are expanded at the pooled mean p̄ with
    variances (spread p̄)², and again at the means and variances of two rough posteriors; the draws are weighted by full
    likelihood over expansion. A weight belongs to a draw of all unknowns, so that what cells share stays with them.

    Attributes
    ----------
    written : int
        Entries, distinct reports × categories of all cells, up to which reports enter as they are: a gradient visits them
        all. Measured: an expansion costs as much as some hundred gradients of this size. Bank: half and double change no
        number of two.
    spread : float
        Sd of P in the first expansion, as a share of the pooled mean. Derived: the next expansions do not depend on it.
        Bank: half and double change no number of two.
    pilot : int
        Draws of a rough posterior that say where to expand. Derived: their means are off by 1/√150 = .08 posterior sd, and
        by .25 in the worst of many categories: what an expansion d sd away leaves out grows by 1 + d² (Errors.near), here
        by 6 %. Their sds are off by 1/√300 = 6 %. With half it is 13 and 8 %, with double 3 and 4 %. Weights on the true
        likelihood correct what is left, so that this costs draws and no exactness. Bank: half and double change no number
        of two.
    longest : int
        The longest that chains become, in multiples of the usual number of draws. Derived: twice LIMITS.most, since chains
        double. Bank: half and double change no number of two.
    """

    written: int = 60_000
    spread: float = 0.3
    pilot: int = 150
    longest: int = 32

    def takes_reports(self, problem: Any) -> bool:
        """Return whether all reports of a problem enter as they are."""
        return entries(problem.likelihoods) <= self.written

    def form(self, problem: Any, rng: np.random.Generator) -> tuple[Forms, list | None, np.ndarray | None]:
        """Return (Forms of a problem, the Summary or None of each cell or None where there are none, draws nearby).

        Parameters
        ----------
        problem : Problem or Joint
        rng : numpy.random.Generator
        """
        likelihoods = problem.likelihoods
        if self.takes_reports(problem):
            return Forms.of(likelihoods), None, None
        centre = pooled_mean(likelihoods)
        shape = (len(likelihoods), centre.size)
        pilots, spreads = np.broadcast_to(centre, shape), np.broadcast_to((self.spread * centre) ** 2, shape)
        z = None
        for _ in range(2):
            form = Forms.of(likelihoods, expand(likelihoods, pilots, spreads))
            z = self._near(problem.prior, form, z, rng)
            p = problem.prior.to_simplex(z).reshape(len(z), *shape)
            pilots, spreads = p.mean(axis=0), p.var(axis=0)
            pilots = pilots / pilots.sum(axis=1, keepdims=True)
        summaries = expand(likelihoods, pilots, spreads)
        return Forms.of(likelihoods, summaries), summaries, z

    def _near(self, prior, form, before, rng):
        """Return draws of the prior's unknowns near the posterior under a form of the likelihood."""
        if prior.kind == "walk":
            return unknowns_near(form, prior, self.pilot, rng)
        return bent(Target(prior, form), before).of(rng.standard_normal((self.pilot, prior.n_unknowns)))

    def outcome(
        self,
        problem: Any,
        draws: int,
        number: int,
        rng: np.random.Generator,
        watch: Any,
        way: Callable[[Any, Callable], Run],
    ) -> Outcome:
        """Return the Outcome of chains.

        Parameters
        ----------
        problem : Problem or Joint
        draws, number : int
            Draws of each chain, and chains.
        rng : numpy.random.Generator
        watch : Watch
        way : callable
            (settled chains, Going) → Run; see inference.sampling.
        """
        form, summaries, before = self.form(problem, rng)
        prior = problem.prior
        is_walk = prior.kind == "walk"
        chains = Walks(form, prior, number, rng) if is_walk else Chains(Target(prior, form), before, number, rng)
        longest = self.longest * draws * max(verdict.LIMITS.usual / (draws * number), 1.0)
        seen: list = [None, None]
        start = time.process_time()

        def wanting(run, made):
            judged, sample = self._judged(problem, run, summaries, rng, made * number)
            seen[:] = run, sample
            if wanted := judged.next == "more" and judged.times * made <= longest:
                watch.announce("A run with enough draws", (time.process_time() - start) * judged.times)
            return wanted

        run = way(chains, lambda more: going_on(more, wanting, draws, watch, thin=True))
        sample = seen[1] if seen[0] is run else self._shown(problem, run, summaries, rng)
        facts = run.facts | dict(sample.facts) | {"form": "summaries" if summaries else "reports"}
        return replace(sample, facts=facts, verdict=verdict.refused(run.trouble) if run.trouble else sample.verdict)

    def _judged(self, problem, run, summaries, rng, made):
        """Return (Verdict on a Run by what a result shows of it, its Outcome with what was found).

        Where one variable is short of draws, the variables after it are not judged. The last variable is the users' own
        frequencies, which are drawn once for one collection, at the end.
        """
        sample, divergences = self._shown(problem, run, summaries, rng), int(np.sum(run.stats.get("diverging", 0)))
        if sample.rejected:
            return sample.verdict, sample
        size, r_hat, ess, diagnostics = run.z.shape[:2], np.nan, np.nan, {}
        arrays = {"distribution": sample.distribution} | {name: values for name, (_, values) in sample.variables.items()}
        for name in (*arrays, *(() if problem.alone else ("frequency",))):
            if name == "frequency":
                sample = replace(sample, frequencies=frequency.together(problem.likelihoods, sample.distribution, rng))
                arrays[name] = sample.frequencies[0]
            if arrays[name] is None:
                break
            diagnostics[name] = chain_diagnostics(arrays[name].reshape(*size, -1))
            worst, least = extremes(diagnostics[name])
            r_hat, ess = float(np.fmax(r_hat, worst)), float(np.fmin(ess, least))
            judged = verdict.of_chains(r_hat, ess, divergences, size[0] * size[1], made)
            if judged.next != "done":
                break
        return judged, replace(sample, known=sample.known or diagnostics)

    def _shown(self, problem, run, summaries, rng):
        """Return the Outcome of a Run; of one on summaries, resampled within each chain by weights."""
        plain = self._sample(problem, run)
        if not summaries:
            return plain
        chains, length = plain.distribution.shape[:2]
        p = plain.distribution.reshape(chains * length, len(problem.likelihoods), problem.n_categories)
        logs = log_weights(problem.likelihoods, summaries, p)
        sample, weights = reweighed(plain, logs.sum(axis=1), rng)
        values = {"distribution": plain.distribution} | {name: v for name, (_, v) in plain.variables.items()}
        weight = weights.weight.reshape(chains, length)
        return replace(sample, known={name: weighted_entries(x, weight) for name, x in values.items()})

    def _sample(self, problem, run):
        """Return the Outcome of a Run."""
        flat, split = run.z.reshape(-1, run.z.shape[-1]), run.z.shape[:2]
        p = problem.prior.to_simplex(flat)
        variables = {
            name: (dims, values.reshape(*split, *values.shape[1:]))
            for name, (dims, values) in problem.prior.variables(flat).items()
        }
        numbers = {name: values for name, (dims, values) in variables.items() if not dims}
        return Outcome(
            p.reshape(*split, *p.shape[1:]),
            independent=False,
            stats=run.stats,
            hyperparameters=numbers,
            variables=variables,
        )


def pooled_mean(likelihoods):
    """Return the posterior mean of one distribution of all cells whose reports need rows, under Jeffreys' prior."""
    written = [
        likelihood.rows() for likelihood in likelihoods if likelihood.separable() is None and likelihood.keeps_reports
    ]
    rows = written[0] if len(written) == 1 else StackedRows(written)
    mean = expanded.expand(rows, np.full(rows.n_categories, 0.5))[0].saddle_moments()[0]
    return mean / mean.sum()


def weighted_entries(values, weight):
    """Return mean, sd, mcse and ess_bulk of weighted chains. The error is that of the mean of w (x − μ), with its
    autocorrelation.

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
    chosen = chosen[(variance[chosen] > 0) & (np.ptp(x[..., chosen], axis=(0, 1)) > 0)]  # no rounding of chains that stand
    error, worth = np.full(mean.size, np.nan), np.full(mean.size, np.nan)
    if chosen.size:
        error[chosen] = mcse_of_mean(weight.size * weight[..., None] * (x[..., chosen] - mean[chosen]), independent=False)
        worth[chosen] = variance[chosen] / error[chosen] ** 2
    entries = {"mean": mean, "sd": np.sqrt(variance), "mcse": error, "ess_bulk": worth}
    return {name: value.reshape(shape) for name, value in entries.items()}
