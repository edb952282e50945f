"""What priors that are made of independent parts have in common."""

import abc
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ldpbayes.inference.bending import ScaledEffects
from ldpbayes.priors.base import AbstractPrior, unused


class AbstractParts(AbstractPrior):
    """A prior of P that is made of independent parts, each with a prior of its own: a member states how."""

    #: Where the unknowns of the first part lie at z = 0.
    _start: np.ndarray | float = 0.0

    @property
    @abc.abstractmethod
    def parts(self) -> list[AbstractPrior]:
        """The priors of the parts."""

    @abc.abstractmethod
    def joined(self, parts: Sequence[Any], xp: Any = np) -> Any:
        """Return P (…, a) from the parts."""

    @abc.abstractmethod
    def apart(self, parts: Sequence[np.ndarray], dp: np.ndarray) -> list[np.ndarray]:
        """Return the gradients in the parts of a function of P = joined(parts) whose gradient is dp."""

    @abc.abstractmethod
    def parted(self, p: np.ndarray) -> list[np.ndarray]:
        """Return the parts of P (…, a) = joined(parts)."""

    @property
    def n_unknowns(self) -> int:
        return sum(prior.n_unknowns for prior in self.parts)

    @property
    def has_atom(self) -> bool:
        return any(prior.has_atom for prior in self.parts)

    @cached_property
    def varying(self) -> list[ScaledEffects]:  # type: ignore[override]  # cached
        starts = np.cumsum([0, *(prior.n_unknowns for prior in self.parts)]).tolist()
        return [batch.moved(start) for prior, start in zip(self.parts, starts, strict=False) for batch in prior.varying]

    def _each(self, z: np.ndarray) -> list[tuple[AbstractPrior, np.ndarray]]:
        """Return (prior, its unknowns) of each part."""
        unknowns = np.split(np.asarray(z, dtype=float), np.cumsum([prior.n_unknowns for prior in self.parts[:-1]]), axis=-1)
        return list(zip(self.parts, [unknowns[0] + self._start, *unknowns[1:]], strict=True))

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.joined([prior.sample(size, rng) for prior in self.parts])

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray | None:
        each = [prior.unknowns(size, rng) for prior in self.parts]
        first, *others = [own for own in each if own is not None]
        return np.concatenate([first - self._start, *others], axis=1) if len(others) + 1 == len(each) else None

    def log_density(self, z: np.ndarray) -> np.ndarray:
        return sum(prior.log_density(z_part) for prior, z_part in self._each(z))  # type: ignore[return-value]  # of one at least

    def gradient(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate([prior.gradient(z_part) for prior, z_part in self._each(z)])

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        return self.joined([prior.to_simplex(z_part) for prior, z_part in self._each(z)])

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        each = self._each(z)
        slopes = self.apart([prior.to_simplex(z_part) for prior, z_part in each], dp)
        return np.concatenate([prior.pullback(z_part, slope) for (prior, z_part), slope in zip(each, slopes, strict=True)])

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Return those of all parts; a name that an earlier part has is numbered: alpha, alpha_2, …"""
        out: dict[str, np.ndarray] = {}
        for prior, z_part in self._leaves(z):
            out |= {unused(name, out): values for name, values in prior.hyperparameters(z_part).items()}
        return out

    def _leaves(self, z: np.ndarray) -> list[tuple[AbstractPrior, np.ndarray]]:
        """Return (prior, its unknowns) of each part, of parts that are made of parts themselves each of theirs."""
        pairs = [prior._leaves(own) if isinstance(prior, AbstractParts) else [(prior, own)] for prior, own in self._each(z)]
        return [pair for some in pairs for pair in some]


def log_density_of_shares(prior: AbstractPrior, p: np.ndarray) -> np.ndarray | None:
    """Return the log-density of P in softmax coordinates, up to a constant, of a Dirichlet prior or one of such parts.

    To the power γ it is that of γ times the concentrations. None of any other prior.

    Parameters
    ----------
    prior : AbstractPrior
    p : (…, a) array
        Draws of P.
    """
    alpha = prior.concentrations()
    if alpha is not None:
        return np.log(np.maximum(p, 1e-300)) @ alpha
    if not isinstance(prior, AbstractParts):
        return None
    logs = [log_density_of_shares(part, x) for part, x in zip(prior.parts, prior.parted(p), strict=True)]
    return None if any(log is None for log in logs) else sum(logs)  # type: ignore[arg-type, return-value]  # arrays
