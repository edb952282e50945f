"""The outcome of a method: draws and what is known beside them, typed; all that follows a run reads it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldpbayes.inference.diagnostics import Diagnostics
from ldpbayes.inference.verdict import ACCEPTED, Verdict


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method's run() returns.

    Attributes
    ----------
    distribution : (chains, draws, a) array
        Draws of P; fewer than asked for only after an interruption.
    tallies : (chains, draws, a) array, optional
        Draws of the true tallies T; None leaves F to be drawn from the rows.
    signal : (chains · draws, a) int array, optional
        Draws of the signal tallies (likelihoods.AbstractSampler), from which T is drawn.
    independent : bool
        Whether the draws are independent; otherwise they form chains.
    effective : float, optional
        Independent draws that repeated ones are worth, in all.
    verdict : Verdict
        Whether the draws may be used. One with a problem and nothing to do next lets the draws form a result that says so.
    weighted_draws : pair of (S, a) and (S,) arrays, optional
        The draws that ``distribution`` was resampled from, and their normalized weights: moments and Monte Carlo errors
        come from these.
    frequency : pair of (a,) arrays, optional
        Mean and sd of F, where they follow from ``weighted_draws`` draws by conjugacy.
    exact : mapping, optional
        Entries of result.EXACT.
    intervals : callable, optional
        ci_prob → further entries of result.EXACT.
    stats : mapping of (chains, draws) arrays
    facts : mapping
        Further attrs of the result.
    facts_at : callable, optional
        ci_prob → further attrs, such as the ends of a hyperparameter's interval.
    hyperparameters : mapping of (chains, draws) arrays
        Draws of the prior's hyperparameters, by name.
    variables : mapping of (dims, array)
        Draws of the prior's variables, of cells: the arrays have shape (chains, draws, …).
    known : mapping of mappings
        Entries of the summary of variables that are known better, or already, as in diagnostics.summarize.
    known_at : callable, optional
        ci_prob → what takes the place of ``known``.
    frequencies : tuple, optional
        Draws of F of cells for ``distribution``, as frequency.together makes them.
    unknowns : (chains, draws, u) array, optional
        The prior's unknowns, where somebody asks for them.
    """

    distribution: np.ndarray
    tallies: np.ndarray | None = None
    signal: np.ndarray | None = None
    independent: bool = True
    effective: float | None = None
    verdict: Verdict = ACCEPTED
    weighted_draws: tuple[np.ndarray, np.ndarray] | None = None
    frequency: tuple[np.ndarray, np.ndarray] | None = None
    exact: Mapping[str, Any] = field(default_factory=dict)
    intervals: Callable[[float], Mapping[str, np.ndarray]] | None = None
    stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    facts_at: Callable[[float], Mapping[str, Any]] | None = None
    hyperparameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    variables: Mapping[str, tuple[tuple[str, ...], np.ndarray]] = field(default_factory=dict)
    known: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    known_at: Callable[[float], Mapping[str, Mapping[str, np.ndarray]]] | None = None
    frequencies: tuple | None = None
    unknowns: np.ndarray | None = None

    @classmethod
    def of_weights(
        cls, draws: Any, prior: Any, p: np.ndarray, split: tuple[int, int], rng: np.random.Generator
    ) -> "Outcome":
        """Return the Outcome of weighted draws, resampled, with the variables of their prior.

        Parameters
        ----------
        draws : inference.weighted.Draws
        prior : AbstractPrior
        p : (N, …) array
            P of all draws.
        split : (int, int)
            Chains and draws.
        rng : numpy.random.Generator
        """
        variables, chosen = prior.variables(draws.z), draws.chosen(rng)
        named = {"distribution": p} | {name: values for name, (_, values) in variables.items()}
        return cls(
            p[chosen].reshape(*split, *p.shape[1:]),
            effective=draws.effective,
            verdict=draws.verdict,
            weighted_draws=(p, draws.found.weight),
            hyperparameters={name: v[chosen].reshape(split) for name, (dims, v) in variables.items() if not dims},
            variables={name: (dims, v[chosen].reshape(*split, *v.shape[1:])) for name, (dims, v) in variables.items()},
            known_at=lambda prob: {name: replace(draws, prob=prob).known(values) for name, values in named.items()},
            facts=draws.found.facts,
            unknowns=draws.z[chosen].reshape(*split, -1),
        )

    def diagnostics(self, interrupted: bool, share: float = 1.0) -> Diagnostics:
        """Return what the method says of its draws, where this share of them is left."""
        return Diagnostics(
            sampling="independent" if self.independent else "mcmc",
            effective_draws=None if self.effective is None else self.effective * share,
            checked=self.verdict.checked if self.verdict.accepted else "",
            problem=self.problem,
            interrupted=interrupted,
        )

    @property
    def problem(self) -> str:
        """Why the draws may not be used and what helps, in words without a full stop; empty where they may."""
        return self.verdict.advised(self.distribution.shape[1])

    @property
    def rejected(self) -> str:
        """Why the draws cannot be used, in one sentence, or an empty string."""
        return "" if self.verdict.next == "done" else f"The draws cannot be trusted: {self.problem}."
