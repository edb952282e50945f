"""No-U-Turn sampling of the model that PyMC users see: any collection and prior, the slow and general way."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes.inference.diagnostics import verdict_on
from ldpbayes.inference.effects import LENGTHS
from ldpbayes.inference.modes import PriorDraws
from ldpbayes.inference.nuts import by_nutpie
from ldpbayes.inference.verdict import ACCEPTED, LIMITS
from ldpbayes.methods.base import AbstractPosterior, Pace, Preparation, Refusal, inside, whole
from ldpbayes.methods.constants import MAX_ENTRIES
from ldpbayes.methods.forms import Apart, entries
from ldpbayes.methods.outcome import Outcome
from ldpbayes.methods.sampler import Sampler

#: What is announced.
NAMED = "The No-U-Turn sampler, the last method left for this collection and prior,"

_compiled: dict = {}


@dataclass(frozen=True)
class NUTS(AbstractPosterior):
    """The No-U-Turn sampler on the full likelihood.

    One collection is the model of build_model, in PyMC. Cells under one prior over all of them are sampled in coordinates
    that the Hessian whitens: their model in PyMC takes minutes where effects are many.

    Parameters
    ----------
    draws, tune : int
        Draws kept and discarded, per chain. Format: the defaults of PyMC, so that a reader compares like with like.
    chains : int
    target_accept : float
        Acceptance rate that the step size is adapted to, in (0, 1). Derived: above PyMC's .8, since
        posteriors bend next to shares of zero. Where draws diverge, the chains are made once more with
        .99, and the result has it as the attr ``target_accept_used``. Chains that are short of effective draws go on.
        Draws at equal distances are then kept, and the attr ``thinned`` has the distance.

    Attributes
    ----------
    most : float
        As in AbstractPosterior. Derived: below every problem's operations, so that ``auto`` asks NUTS last: its
        model has to be compiled.

    Notes
    -----
    nutpie samples, keeps what it compiled for the next collection of the same structure, and runs the chains in threads;
    the draws do not depend on how many there are. Ctrl-C stops it and returns the draws that the chains have finished; the
    attrs say how many.
    """

    tune: int = 1000
    target_accept: float = 0.9
    name: ClassVar[str] = "nuts"
    after: ClassVar[str] = "hmc"
    joint: ClassVar[bool] = True
    most: ClassVar[float] = 1.0
    pace: ClassVar[Pace] = Pace(15.0, 0.0, 2.2e-8)
    needs: ClassVar[tuple[str, ...]] = ("rows",)
    checked: ClassVar[Mapping] = {"draws": whole(4), "tune": whole(50), "target_accept": inside}

    def prepare(self, problem):
        if not problem.alone:
            return self._of_cells(problem)
        if problem.collection.weighted:
            return Refusal("The method nuts takes no sampling weights.")
        visited = sum(_entries(tally.rows) for tally in problem.collection.tallies)
        if visited > MAX_ENTRIES:
            limit = f"NUTS takes at most {MAX_ENTRIES}"
            return Refusal(f"The likelihood has {visited} entries (rows × categories), {limit}.")
        work = self.chains * (self.draws + self.tune) * visited
        return Preparation("NUTS applies to every collection and prior; its draws are correlated.", work, problem)

    def _of_cells(self, problem):
        """Return the Preparation of all cells at once, or the Refusal."""
        size = entries(problem.likelihoods)
        if size > MAX_ENTRIES:
            return Refusal(
                f"The rows have {size} entries (distinct reports × categories); nuts takes at most {MAX_ENTRIES}."
            )
        return Preparation("The prior joins all cells: they are sampled together, their reports as they are.", 0.0, problem)

    def run(self, plan, rng, watch):
        """Return the Outcome; the same seed gives the same draws however many cores there are and whatever was compiled."""
        if not plan.state.alone:

            def way(chains, going):
                return chains.by_nuts(rng, watch, going, self.tune, self.target_accept)

            return Sampler(MAX_ENTRIES).outcome(plan.state, self.draws, self.chains, rng, watch, way)
        return self._by_pymc(plan.state, rng, watch)

    def _by_pymc(self, problem, rng, watch):
        from ldpbayes.collections import tensor  # loads PyMC

        sampler_seed, next_seed = rng.bit_generator.seed_seq.spawn(2)
        rng.bit_generator.state = np.random.default_rng(next_seed).bit_generator.state  # F is drawn from the second stream
        model = tensor.build(problem.collection, problem.prior)
        compiled, seed = _compile(model), int(sampler_seed.generate_state(1)[0])
        settings = {"draws": self.draws, "tune": self.tune, "chains": self.chains, "cores": self.chains, "seed": seed}
        trial = max(self.tune // 20, 4)  # says how long all of them take
        tried = settings | {"draws": trial, "tune": trial, "chains": 1, "cores": 1}
        *_, each = _timed(compiled, False, target_accept=self.target_accept, **tried)
        for rate in dict.fromkeys((self.target_accept, max(self.target_accept, LENGTHS.careful))):
            watch.announce(NAMED, each * self.chains * (self.draws + self.tune))
            drawn, stats, each = _timed(compiled, watch.shown, target_accept=rate, **settings)
            whole_run = drawn["distribution"].shape[:2] == (self.chains, self.draws)
            if not whole_run or not stats["diverging"].any():
                break
        facts: dict = {} if rate == self.target_accept else {"target_accept_used": rate}
        names, times = [name for name in ("distribution", *problem.prior.hyperparameter_names) if name in drawn], 1
        judged = self._judged(drawn, stats, names)
        most = max(LIMITS.most, judged.times)
        while whole_run and judged.next == "more" and times < most:  # the same seed makes the same chains, which go on
            times = min(times * judged.times, most)
            with watch.keeping(lambda: True):
                longer = settings | {"draws": times * self.draws}
                watch.announce(NAMED, each * self.chains * (longer["draws"] + self.tune))
                *runs, each = _timed(compiled, watch.shown, target_accept=rate, **longer)
                whole_run = runs[0]["distribution"].shape[:2] == (self.chains, longer["draws"])
                if whole_run:
                    drawn, stats = ({name: run[name][:, times - 1 :: times] for name in run} for run in runs)
                    stats["diverging"] = runs[1]["diverging"].reshape(self.chains, self.draws, times).any(axis=2)
                    facts["thinned"], judged = times, self._judged(drawn, stats, names)
            if watch.interrupted:
                break
        draws = drawn["distribution"] / drawn["distribution"].sum(axis=-1, keepdims=True)
        verdict = ACCEPTED
        # Too few draws do not reach as far as the posterior, so that their box shows nothing.
        if problem.alpha is None and (judged.accepted or "thinned" in facts):
            p, reports = draws.reshape(-1, problem.n_categories), Apart(problem.likelihoods)
            seen = PriorDraws.of(problem.prior, reports, np.random.default_rng(sampler_seed))
            verdict = verdict.with_outside(seen.outside(p, np.full(len(p), 1 / len(p)), LIMITS.ess))
        return Outcome(
            draws,
            independent=False,
            verdict=verdict,
            stats=stats,
            facts=facts,
            hyperparameters={name: drawn[name] for name in names[1:]},
        )

    def _judged(self, drawn, stats, names):
        """Return the Verdict on the variables of these names."""
        values = np.concatenate([drawn[name].reshape(*drawn[name].shape[:2], -1) for name in names], axis=2)
        return verdict_on(values, int(stats["diverging"].sum()), self.draws * self.chains)


def _timed(compiled, shown, **settings):
    """Return (draws by variable, statistics, processor seconds of a draw), discarded draws counted."""
    start = time.process_time()
    drawn, stats = by_nutpie(compiled, "distribution", shown, **settings)
    return drawn, stats, (time.process_time() - start) / (settings["chains"] * (settings["draws"] + settings["tune"]))


def _compile(model):
    """Return the compiled nutpie model; a structure that was compiled before only gets its new data."""
    import nutpie

    data = {variable.name: variable.get_value() for variable in model.data_vars}
    names, key = [variable.name for variable in model.deterministics], _structure(model)
    if key not in _compiled:
        _compiled[key] = nutpie.compile_pymc_model(model, var_names=names)
    compiled = _compiled[key]
    shared = {variable.name for variable in compiled.shared_var_keys}
    return compiled.with_data(**{name: value for name, value in data.items() if name in shared})


def _structure(model):
    """Return what two models must share for one compiled function: variables, dimensions, and every constant.

    Concentrations and reports are data and may differ. The settings of other priors, such as the degrees of freedom of
    steps, are constants of the graph.
    """
    from pytensor.graph.basic import Constant
    from pytensor.graph.traversal import graph_inputs

    data = [(variable.name, variable.ndim, str(variable.dtype)) for variable in model.data_vars]
    latent = [(variable.name, type(variable.owner.op).__name__) for variable in model.free_RVs]
    inputs = graph_inputs([*model.free_RVs, *model.observed_RVs, *model.deterministics, *model.potentials])
    constants = [np.asarray(constant.data) for constant in inputs if isinstance(constant, Constant)]
    return (
        len(model.coords["category"]),
        *(variable.name for variable in model.deterministics),
        *latent,
        *sorted(data),
        *((array.dtype.str, array.shape, array.tobytes()) for array in constants),
    )


def _entries(rows):
    """Return the entries of the likelihood that one gradient visits."""
    return rows.n_rows if rows.separable() is not None else rows.n_rows * rows.n_categories
