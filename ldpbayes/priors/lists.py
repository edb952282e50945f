"""List experiments: a flat share of the trait, and numbers of items that are much the same with the trait and without."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, gammaln

from ldpbayes import checks
from ldpbayes.priors.base import AbstractSoftmax, Law, LogitLaw, NormalLaw, ScaleLaw, softmax
from ldpbayes.protocols.designs import items_of_lists


@dataclass(frozen=True)
class Lists(AbstractSoftmax):
    """A flat share of the trait; numbers of items that are nearly binomial, and much the same with the trait and without.

    Of c = (c_1, c_2, …) items of lists with J_1, J_2, … items let x_k = 2 c_k/J_k − 1. Without the trait,
    log P(c) = Σ_k {log binom(J_k, c_k) + J_k (¾ a_k x_k + ½ b_k x_k²)} + ½ √(J_1 J_2) r x_1 x_2 + τ ε_c + const.; with it
    Σ_k {β_k x_k + τ δ_k(c_k)} is added. The share is uniform, a, b, r, ε and δ are standard normal, β_k ~ N(0, effect²), and
    τ ~ half-normal(deviation). Where nobody answers two lists, these are independent given the trait: no r, and an ε for
    each number of each list.

    Parameters
    ----------
    items : int or sequence of int
        Number of innocuous items, as ListExperiment takes it; the categories are its categories.
    apart : bool
        Whether nobody answers two of the lists.
    effect : float
        Prior sd of β: from none to all of the items of a list the odds of the trait change by the factor exp(2 β).
    deviation : float
        Scale of τ, of what the numbers of items have that a smooth law has not.

    Notes
    -----
    Jeffreys' prior of the items, for those with the trait and for the others, says that these have nothing to do with each
    other, and that neighbouring numbers have not: docs/howto/list-experiments.md has what follows from it.

    References
    ----------
    Imai (2011), Journal of the American Statistical Association 106, on binomial numbers of items given the trait.

    Examples
    --------
    >>> prior = Lists((3, 3))
    >>> prior.n_categories, prior.n_unknowns
    (32, 33)
    """

    items: Any  # a number or numbers come in, a tuple stays
    apart: bool = False
    effect: float = 1.0
    deviation: float = 0.5

    def __post_init__(self):
        object.__setattr__(self, "items", items_of_lists(self.items))
        object.__setattr__(self, "apart", checks.flag(self.apart, "apart"))
        for name in ("effect", "deviation"):
            object.__setattr__(self, name, checks.positive(getattr(self, name), name))

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of categories, those without the trait before those with it."""
        return 2 * math.prod([size + 1 for size in self.items])

    @cached_property
    def _columns(self) -> tuple[np.ndarray, ...]:
        """(Log binomial coefficients, columns of a, b and r, of β, of ε and δ) of all categories."""
        most = np.array(self.items)
        numbers = np.array(list(np.ndindex(*(most + 1))))
        x = 2 * numbers / most - 1
        binomial = (gammaln(most + 1) - gammaln(numbers + 1) - gammaln(most - numbers + 1)).sum(axis=1)
        smooth = [0.75 * most * x, 0.5 * most * x**2]
        if len(most) == 2 and not self.apart:
            smooth.append(0.5 * math.sqrt(most.prod()) * x.prod(axis=1, keepdims=True))
        levels = np.concatenate([np.eye(size + 1)[own] for size, own in zip(most, numbers.T, strict=True)], axis=1)
        own, without = levels if self.apart else np.eye(len(numbers)), np.zeros_like(levels)
        return (
            np.tile(binomial, 2),
            np.tile(np.concatenate(smooth, axis=1), (2, 1)),
            np.concatenate([np.zeros_like(x), self.effect * x]),
            np.block([[own, without], [own, levels]]),
        )

    def blocks(self) -> Mapping[str, tuple[Law, tuple[int, ...]]]:
        _, smooth, along, single = self._columns
        return {
            "share": (LogitLaw(), (1,)),
            "items": (NormalLaw(), (smooth.shape[1],)),
            "trait": (NormalLaw(), (along.shape[1],)),
            "local": (ScaleLaw(2, self.deviation), (1,)),
            "deviations": (NormalLaw(), (single.shape[1],)),
        }

    def eta(self, values: Mapping[str, Any], xp: Any) -> Any:
        binomial, smooth, along, single = self._columns
        logits = binomial + values["items"] @ smooth.T + values["trait"] @ along.T
        logits = logits + values["local"] * (values["deviations"] @ single.T)
        half, parts = self.n_categories // 2, []
        for sign, part in ((1, logits[..., :half]), (-1, logits[..., half:])):
            part = part - part.max(axis=-1, keepdims=True)
            whole = xp.log(xp.exp(part).sum(axis=-1, keepdims=True))
            parts.append(part - whole - xp.logaddexp(0.0, sign * values["share"]))
        return xp.concatenate(parts, axis=-1)

    def pulled(self, values: Mapping[str, np.ndarray], slope: np.ndarray) -> dict[str, np.ndarray]:
        _, smooth, along, single = self._columns
        each, share = slope.reshape(2, -1), expit(values["share"])
        total = each.sum(axis=1, keepdims=True)
        logits = (each - softmax(self.eta(values, np).reshape(2, -1)) * total).ravel()
        by_deviations = logits @ single
        return {
            "share": (1 - share) * total[1] - share * total[0],
            "items": logits @ smooth,
            "trait": logits @ along,
            "local": by_deviations @ values["deviations"],
            "deviations": values["local"] * by_deviations,
        }

    def multiplied(self) -> Mapping[str, str]:
        return {"local": "deviations"}

    @property
    def pivots(self) -> list[int]:
        return [self.spans["share"].start]

    def learnt(self, values: Mapping[str, Any]) -> dict[str, Any]:
        effects = {f"beta_{k + 1}": self.effect * values["trait"][..., k] for k in range(len(self.items))}
        return {"tau": values["local"][..., 0], **effects}

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        effects = [f"beta_{k + 1}" for k in range(len(self.items))]
        if not {"tau", *effects} <= set(draws):
            return None
        return -0.5 * ((draws["tau"] / self.deviation) ** 2 + sum((draws[name] / self.effect) ** 2 for name in effects))

    def describe(self) -> str:
        given = ", the lists independent given it" if self.apart and len(self.items) > 1 else ""
        return f"flat for the share of the trait, smooth for the numbers of items, which it moves along{given}"

    def to_dict(self) -> dict[str, np.ndarray]:
        return {"items": np.array(self.items), "effect": np.array(self.effect), "deviation": np.array(self.deviation)}
