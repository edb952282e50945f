"""No-U-Turn sampling with PyMC: any collection, the slow and general way; or on the surrogate, weighted."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldpbayes import checks, result
from ldpbayes.errors import ArgumentError, ConvergenceError, InfeasibleError
from ldpbayes.posteriors import surrogate
from ldpbayes.posteriors.base import AbstractPosterior, Feasibility
from ldpbayes.posteriors.frequency import frequency_draws_within, frequency_moments
from ldpbayes.priors import as_prior

#: Dense likelihood rows with more entries than this (rows × categories) are refused; O(a) likelihoods never are.
MAX_ENTRIES = 2**25
#: Seconds: compiling a model of a new structure, one gradient, and one entry of the rows in one gradient.
COMPILATION, GRADIENT, ENTRY = 15.0, 3e-6, 1.5e-9
#: Gradients per draw, between the 7 of strong data and the 40 of badly scaled ones.
GRADIENTS_PER_DRAW = 15

_compiled = {}


@dataclass(frozen=True)
class NUTS(AbstractPosterior):
    """Posterior of P by the No-U-Turn sampler on model.build_model, and of F by one draw given each draw of P.

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
        "surrogate" samples on model.observe's O(a) likelihood and then resamples each chain with Pareto-smoothed weights
        true likelihood / surrogate, in its order, so that R-hat and effective sample sizes count repeated draws. Refused
        where the weights cannot be trusted, as Surrogate does.

    Notes
    -----
    Ctrl-C stops nutpie and returns the draws that the chains have finished, with the attr ``problem``.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.9
    sampler: str = "nutpie"
    cores: int = None
    likelihood: str = "full"
    name: ClassVar[str] = "nuts"

    def __post_init__(self):
        for field, least in (("draws", 4), ("tune", 50), ("chains", 1)):
            object.__setattr__(self, field, checks.integer(getattr(self, field), field, minimum=least))
        if self.cores is not None:
            object.__setattr__(self, "cores", checks.integer(self.cores, "cores", minimum=1))
        accept = checks.probability(self.target_accept, "target_accept", open_low=True, open_high=True)
        object.__setattr__(self, "target_accept", accept)
        checks.choice(self.sampler, "sampler", ("nutpie", "pymc"))
        checks.choice(self.likelihood, "likelihood", ("full", "surrogate"))

    def feasibility(self, collection, prior):
        """Return whether the rows fit, and the predicted seconds: compilation plus gradients."""
        as_prior(prior, collection.n_categories)
        if self.likelihood == "surrogate":
            return self._feasibility_of_surrogate(collection)
        entries = sum(_entries(tally) for tally in collection.tallies)
        gradients = self.chains * (self.draws + self.tune) * GRADIENTS_PER_DRAW
        seconds = COMPILATION + gradients * (GRADIENT + ENTRY * entries)
        if entries > MAX_ENTRIES:
            reason = f"The likelihood has {entries} entries (rows × categories), NUTS takes at most {MAX_ENTRIES}."
            return Feasibility(False, seconds, reason)
        return Feasibility(True, seconds, "NUTS applies to every collection and prior; its draws are correlated.")

    def _feasibility_of_surrogate(self, collection):
        a, m = collection.n_categories, collection.rows.n_rows
        if a < 3:
            return Feasibility(False, float("nan"), "The surrogate needs three categories.")
        gradients = self.chains * (self.draws + self.tune) * GRADIENTS_PER_DRAW
        seconds = COMPILATION + gradients * (GRADIENT + ENTRY * a) + self.chains * self.draws * m * a * 2.5e-11
        return Feasibility(True, seconds, "NUTS on the surrogate with weights on the true likelihood; see its k-hat.")

    def posterior(self, collection, prior, *, random_seed=None, ci_prob=0.95, progressbar=False):
        """Return the DataTree of result.build with draws of P and F and the sampler's statistics.

        The same seed gives the same draws, bit for bit, whatever was compiled before and however many cores there are.

        Parameters
        ----------
        collection : Collection
        prior : str, float, array or Dirichlet
        random_seed : int, optional
            Stored in the settings, drawn afresh if not given.
        ci_prob : float
            Stored in the settings for the summary.
        progressbar : bool

        Raises
        ------
        InfeasibleError
            Where feasibility() says no.
        ConvergenceError
            Where the weights of likelihood="surrogate" cannot be trusted; it holds the result.
        """
        prior = as_prior(prior, collection.n_categories)
        feasible = self.feasibility(collection, prior)
        if not feasible.feasible:
            raise InfeasibleError(feasible.reason)
        if random_seed is None:
            random_seed = int(np.random.SeedSequence().generate_state(1)[0])
        sampler_seed, frequency_seed = np.random.SeedSequence(_seed(random_seed)).spawn(2)
        sample = {"nutpie": self._nutpie, "pymc": self._pymc}[self.sampler]
        model = _model(collection, prior, self.likelihood)
        tree = sample(model, int(sampler_seed.generate_state(1)[0]), progressbar)
        chains, length = _finished(tree["posterior"]["distribution"].values)
        draws = tree["posterior"]["distribution"].values[chains, :length]
        draws = draws / draws.sum(axis=-1, keepdims=True)
        statistics = {name: values[chains, :length] for name, values in _statistics(tree["sample_stats"]).items()}
        rng = np.random.default_rng(frequency_seed)
        mended = {}
        if self.likelihood == "surrogate":
            draws, statistics, mended = _mend(model, collection.rows, draws, statistics, rng)
        flat = draws.swapaxes(0, 1).reshape(-1, collection.n_categories)  # all chains get on alike, should it be cut short
        moments = frequency_moments(flat.mean(axis=0), flat.var(axis=0), prior.alpha, collection.n_reports)
        frequencies, kind = frequency_draws_within(
            collection.rows, flat, rng, *moments, progressbar=progressbar, partial=True
        )
        length = len(frequencies) // len(chains)
        draws = draws[:, :length]
        frequencies = frequencies[: length * len(chains)].reshape(length, *draws[:, 0].shape).swapaxes(0, 1)
        attrs = {"sampling": "mcmc", "sampler": self.sampler, "frequency_draws": kind}
        tree = result.build(
            collection,
            prior,
            method=self.name,
            settings=dataclasses.asdict(self) | {"random_seed": random_seed, "ci_prob": ci_prob},
            draws=draws,
            frequencies=frequencies,
            sample_stats={name: values[:, :length] for name, values in statistics.items()},
            attrs=attrs | self._interrupted(chains, length) | mended,
        )
        if mended.get("problem"):
            raise ConvergenceError(f"The surrogate's weights cannot be trusted: {mended['problem']}.", tree)
        return tree

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

    def _interrupted(self, chains, length):
        if (len(chains), length) == (self.chains, self.draws):
            return {}
        done = f"{len(chains)} of {self.chains} chains with {length} of {self.draws} draws"
        return {"problem": f"sampling was interrupted and left {done}", "interrupted": 1}


def _finished(draws):
    """Return (chains, length): the largest rectangle of finite draws, all of them unless sampling was interrupted."""
    lengths = np.isfinite(draws).all(axis=-1).sum(axis=1)
    order = np.argsort(-lengths, kind="stable")
    kept = int((lengths[order] * np.arange(1, len(order) + 1)).argmax()) + 1
    length = int(lengths[order[kept - 1]])
    if length < 4:
        raise KeyboardInterrupt("sampling was interrupted before any chain had four draws")
    return np.sort(order[:kept]), length


def _model(collection, prior, likelihood):
    from ldpbayes.model import build_model

    return build_model(collection, prior, likelihood=likelihood)


def _mend(model, rows, draws, statistics, rng):
    """Return (draws, statistics, attrs): each chain resampled, in its order, by true likelihood over the model's surrogate.

    The attr ``problem`` is there only where the weights cannot be trusted.
    """
    flat = draws.reshape(-1, draws.shape[-1])
    terms = {
        key: sum(model[f"{variable.name}_{key}"].get_value() for variable in model.observed_RVs)
        for key in ("linear", "curvature")
    }
    stand_in = flat @ terms["linear"] - 0.5 * flat**2 @ terms["curvature"]
    found = surrogate.weigh(flat, rows.log_likelihood(np.ascontiguousarray(flat.T)) - stand_in)
    weight = found.weight.reshape(draws.shape[:2])
    chosen = np.stack([surrogate.resample(chain / max(chain.sum(), np.finfo(float).tiny), rng) for chain in weight])
    attrs = {"k_hat": found.k_hat, "weights_effective": found.effective_sample, "shift_by_weights": found.shift}
    attrs |= {"checked": found.checked} | ({"problem": found.problem} if found.problem else {})
    pick = np.arange(len(draws))[:, None], chosen
    return draws[pick], {name: values[pick] for name, values in statistics.items()}, attrs


def _compile(model):
    """Return the compiled nutpie model; a structure that was compiled before only gets its new data."""
    import nutpie

    data = {variable.name: variable.get_value() for variable in model.data_vars}
    latent = [(variable.name, type(variable.owner.op).__name__) for variable in model.free_RVs]
    key = (
        len(model.coords["category"]),
        *latent,
        *sorted((name, value.ndim, value.dtype.str) for name, value in data.items()),
    )
    if key not in _compiled:
        _compiled[key] = nutpie.compile_pymc_model(model, var_names=["distribution"])
    compiled = _compiled[key]
    known = {variable.name for variable in compiled.shared_var_keys}
    return compiled.with_data(**{name: value for name, value in data.items() if name in known})


def _entries(tally):
    """Return the entries of the likelihood that one gradient visits."""
    rows = tally.rows
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


def _seed(value):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ArgumentError(f"random_seed must be a non-negative integer or None, got {value!r}.")
    return int(value)
