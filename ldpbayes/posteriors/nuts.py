"""No-U-Turn sampling with PyMC: any collection, the slow and general way; or on the surrogate, weighted."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import no_foreign_errors
from ldpbayes.inference.importance import within_chains
from ldpbayes.inference.nuts import finished
from ldpbayes.inference.verdict import ACCEPTED
from ldpbayes.posteriors.base import AbstractPosterior, Plan, Refusal, Sample
from ldpbayes.posteriors.surrogate import pilot

#: Dense likelihood rows with more entries than this (rows × categories) are refused; O(a) likelihoods never are.
MAX_ENTRIES = 2**25
#: Seconds: compiling a model of a new structure, one gradient, and one entry of the rows in one gradient.
COMPILATION, GRADIENT, ENTRY = 15.0, 3e-6, 1.5e-9
#: Gradients per draw, between the 7 of strong data and the 40 of badly scaled ones.
GRADIENTS_PER_DRAW = 15

_compiled: dict = {}


@dataclass(frozen=True)
class NUTS(AbstractPosterior):
    """Posterior of P by the No-U-Turn sampler on the model of build_model, and of F by one draw given each draw of P.

    Parameters
    ----------
    draws, tune : int
        Draws kept and discarded, per chain.
    chains : int
    target_accept : float
        Acceptance rate that the step size is adapted to, in (0, 1).
    sampler : {"nutpie", "pymc"}
        Both give correct draws; nutpie compiles faster and keeps what it compiled for the next collection of the same
        structure.
    cores : int, optional
        Chains sampled at the same time; the draws do not depend on it. By default all of them with nutpie, whose chains are
        threads, and one with PyMC, whose chains are processes.
    likelihood : {"full", "surrogate"}
        "surrogate" samples on observe's O(a) likelihood and then resamples each chain with Pareto-smoothed weights
        true likelihood / surrogate, in its order, so that R-hat and effective sample sizes count repeated draws. Refused
        where the weights cannot be trusted, as Surrogate does.

    Notes
    -----
    Ctrl-C stops nutpie and returns the draws that the chains have finished; the attrs say how many.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.9
    sampler: str = "nutpie"
    cores: int | None = None
    likelihood: str = "full"
    name: ClassVar[str] = "nuts"
    order: ClassVar[float] = 23
    needs: ClassVar[tuple[str, ...]] = ("rows",)

    def __post_init__(self):
        for field, least in (("draws", 4), ("tune", 50), ("chains", 1)):
            object.__setattr__(self, field, checks.integer(getattr(self, field), field, minimum=least))
        if self.cores is not None:
            object.__setattr__(self, "cores", checks.integer(self.cores, "cores", minimum=1))
        accept = checks.probability(self.target_accept, "target_accept", open_low=True, open_high=True)
        object.__setattr__(self, "target_accept", accept)
        checks.choice(self.sampler, "sampler", ("nutpie", "pymc"))
        checks.choice(self.likelihood, "likelihood", ("full", "surrogate"))

    def prepare(self, problem):
        a = problem.n_categories
        if problem.collection.nature.weighted:
            return Refusal("The method nuts takes no sampling weights.")
        gradients = self.chains * (self.draws + self.tune) * GRADIENTS_PER_DRAW
        if self.likelihood == "surrogate":
            if a < 3:
                return Refusal("The surrogate needs three categories.")
            if problem.alpha is None:
                return Refusal(f"The surrogate is expanded under a Dirichlet prior; this one is {problem.prior.describe()}.")
            entries, reason = a, "NUTS on the surrogate with weights on the true likelihood; see its k-hat."
            weights = self.chains * self.draws * problem.rows.n_rows * a * 2.5e-11
        else:
            entries = sum(_entries(tally.rows) for tally in problem.collection.tallies)
            weights, reason = 0.0, "NUTS applies to every collection and prior; its draws are correlated."
        seconds = COMPILATION + gradients * (GRADIENT + ENTRY * entries) + weights
        if entries > MAX_ENTRIES and self.likelihood == "full":
            limit = f"NUTS takes at most {MAX_ENTRIES}"
            return Refusal(f"The likelihood has {entries} entries (rows × categories), {limit}.", seconds)
        return Plan(reason, seconds, problem)

    def run(self, plan, rng, watch):
        """Return the Sample; the same seed gives the same draws however many cores there are and whatever was compiled."""
        problem = plan.state
        sampler_seed, next_seed = rng.bit_generator.seed_seq.spawn(2)
        rng.bit_generator.state = np.random.default_rng(next_seed).bit_generator.state  # F is drawn from the second stream
        sample = {"nutpie": self._nutpie, "pymc": self._pymc}[self.sampler]
        expansion = pilot(problem.rows, problem.alpha) if self.likelihood == "surrogate" else None
        model = _model(problem, expansion)
        with no_foreign_errors(f"The sampler {self.sampler}"):
            tree = sample(model, int(sampler_seed.generate_state(1)[0]), watch.shown)
        chains, length = finished(tree["posterior"]["distribution"].values)
        draws = tree["posterior"]["distribution"].values[chains, :length]
        draws = draws / draws.sum(axis=-1, keepdims=True)
        statistics = {name: values[chains, :length] for name, values in _statistics(tree["sample_stats"]).items()}
        names = [name for name in problem.prior.hyperparameter_names if name in tree["posterior"]]
        hyper = {name: tree["posterior"][name].values[chains, :length] for name in names}
        facts, verdict = {"sampler": self.sampler}, ACCEPTED
        if self.likelihood == "surrogate":
            draws, pick, more, verdict = _mend(model, problem.rows, draws, rng)
            statistics, hyper = ({name: values[pick] for name, values in part.items()} for part in (statistics, hyper))
            facts |= more
        kept = {"stats": statistics, "facts": facts, "hyperparameters": hyper, "interleaved": True}
        return Sample(draws, independent=False, verdict=verdict, **kept)

    def _nutpie(self, model, seed, progressbar):
        import nutpie

        return nutpie.sample(
            _compile(model),
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            cores=min(self.cores or self.chains, self.chains),
            seed=seed,
            target_accept=self.target_accept,
            progress_bar=progressbar,
            save_warmup=False,
        )

    def _pymc(self, model, seed, progressbar):
        import pymc as pm

        with model:
            return pm.sample(
                draws=self.draws,
                tune=self.tune,
                chains=self.chains,
                cores=min(self.cores or 1, self.chains),
                random_seed=seed,
                nuts_sampler="pymc",
                nuts={"target_accept": self.target_accept},
                progressbar=progressbar,
                quiet=not progressbar,
                compute_convergence_checks=False,
            )


def _model(problem, expansion):
    from ldpbayes.collections import tensor  # loads PyMC

    return tensor.build(problem.collection, problem.prior, expansion)


def _mend(model, rows, draws, rng):
    """Return (draws, their places, attrs, Verdict), resampled chain by chain by likelihood over surrogate."""
    flat = draws.reshape(-1, draws.shape[-1])
    terms = {
        key: sum(model[f"{variable.name}_{key}"].get_value() for variable in model.observed_RVs)
        for key in ("linear", "curvature")
    }
    stand_in = flat @ terms["linear"] - 0.5 * flat**2 @ terms["curvature"]
    pick, found, attrs = within_chains(draws, rows.log_likelihood(np.ascontiguousarray(flat.T)) - stand_in, rng)
    return draws[pick], pick, attrs, found.verdict


def _compile(model):
    """Return the compiled nutpie model; a structure that was compiled before only gets its new data."""
    import nutpie

    data = {variable.name: variable.get_value() for variable in model.data_vars}
    kept, key = [variable.name for variable in model.deterministics], _structure(model)
    if key not in _compiled:
        _compiled[key] = nutpie.compile_pymc_model(model, var_names=kept)
    compiled = _compiled[key]
    known = {variable.name for variable in compiled.shared_var_keys}
    return compiled.with_data(**{name: value for name, value in data.items() if name in known})


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
    constants = [np.asarray(one.data) for one in inputs if isinstance(one, Constant)]
    return (
        len(model.coords["category"]),
        *(variable.name for variable in model.deterministics),
        *latent,
        *sorted(data),
        *((one.dtype.str, one.shape, one.tobytes()) for one in constants),
    )


def _entries(rows):
    """Return the entries of the likelihood that one gradient visits."""
    return rows.n_rows if rows.separable() is not None else rows.n_rows * rows.n_categories


def _statistics(stats):
    """Return the sampler's per-draw numbers under ArviZ's names."""
    names = {
        "diverging": "diverging",
        "depth": "tree_depth",
        "tree_depth": "tree_depth",
        "n_steps": "n_steps",
        "energy": "energy",
        "step_size": "step_size",
        "logp": "lp",
        "lp": "lp",
        "mean_tree_accept": "acceptance_rate",
        "acceptance_rate": "acceptance_rate",
    }
    return {new: stats[old].values for old, new in names.items() if old in stats}
