"""Priors beside a device whose probabilities are not known exactly: P, and the shares of what the device does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaln, log_expit

from ldpbayes.collections.devices import without_outcomes
from ldpbayes.inference.bending import ScaledEffects
from ldpbayes.inference.modes import LOOKING
from ldpbayes.priors.base import AbstractPrior, Law, state
from ldpbayes.priors.dirichlet import Dirichlet
from ldpbayes.priors.naming import as_prior
from ldpbayes.priors.parts import AbstractParts
from ldpbayes.priors.tree import SHARE
from ldpbayes.protocols.uncertain import DeviceLaw, Uncertain

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


class Informed(Dirichlet):
    """A Dirichlet prior whose unknowns are zero at the means of its sticks, where an informative one has its mass."""

    @cached_property
    def _centre(self) -> np.ndarray:
        alpha, rest = self.sticks.T
        return np.log(alpha / rest) + np.log(np.arange(self.alpha.size - 1, 0, -1.0))

    @classmethod
    def named(cls) -> Mapping[str, Callable[[int], Dirichlet]]:
        return {}

    def _logits(self, z: np.ndarray) -> np.ndarray:
        return super()._logits(z + self._centre)

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return super().unknowns(size, rng) - self._centre


@dataclass(frozen=True, eq=False)
class LogitBetaLaw(Law):
    """z is the logit of a share ~ Beta less that of its mean, for several shares side by side.

    Parameters
    ----------
    sticks : (k, 2) array
        The parameters of each Beta law.
    """

    sticks: np.ndarray

    def _shares(self, z: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return (logs of the shares, of the rest, both parameters)."""
        logit, (b, c) = self.of(z), self.sticks.T
        return log_expit(logit), log_expit(-logit), b, c

    def log_density(self, z):
        share, rest, b, c = self._shares(z)
        return b * share + c * rest - betaln(b, c)

    def score(self, z):
        share, rest, b, c = self._shares(z)
        return b * np.exp(rest) - c * np.exp(share)

    def draw(self, shape, rng):
        share = rng.beta(*self.sticks.T, shape)
        return np.log(share) - np.log1p(-share) - np.log(self.sticks[:, 0] / self.sticks[:, 1])

    def of(self, z, xp=np):
        return z + np.log(self.sticks[:, 0] / self.sticks[:, 1])

    def pymc(self, name, shape):
        import pymc as pm
        import pytensor.tensor as pt

        share = pm.Beta(name, *self.sticks.T, shape=shape)
        return pt.log(share) - pt.log1p(-share)


@dataclass(frozen=True, eq=False)
class IndependentCells(AbstractPrior):
    """Independent distributions of several cells, each with the same prior.

    Parameters
    ----------
    each : AbstractPrior
        Of one cell.
    n_cells : int
    """

    each: AbstractPrior
    n_cells: int

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of categories, a."""
        return self.each.n_categories

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_cells, self.n_categories)

    @property
    def n_unknowns(self) -> int:
        return self.n_cells * self.each.n_unknowns

    def _of_cells(self, z: np.ndarray) -> np.ndarray:
        return np.reshape(z, (*np.shape(z)[:-1], self.n_cells, self.each.n_unknowns))

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.each.sample(size * self.n_cells, rng).reshape(size, *self.shape)

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray | None:
        drawn = self.each.unknowns(size * self.n_cells, rng)
        return None if drawn is None else drawn.reshape(size, -1)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        flat = self._of_cells(z).reshape(-1, self.each.n_unknowns)
        return self.each.log_density(flat).reshape(*np.shape(z)[:-1], self.n_cells).sum(axis=-1)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate([self.each.gradient(part) for part in self._of_cells(z)])

    def to_simplex(self, z: np.ndarray) -> np.ndarray:
        flat = self._of_cells(z).reshape(-1, self.each.n_unknowns)
        return self.each.to_simplex(flat).reshape(*np.shape(z)[:-1], *self.shape)

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        return np.concatenate([self.each.pullback(*pair) for pair in zip(self._of_cells(z), dp, strict=True)])

    def cell_unknowns(self) -> tuple[int, int]:
        return 0, self.each.n_unknowns

    def pymc(self, name: str) -> "TensorVariable":
        import pytensor.tensor as pt

        return pt.stack([self.each.pymc(f"{name}_{k}") for k in range(self.n_cells)])

    def describe(self) -> str:
        return f"{self.each.describe()}, in each cell"

    def to_dict(self) -> dict[str, np.ndarray]:
        return self.each.to_dict()


@dataclass(frozen=True, eq=False)
class WithDevice(AbstractParts):
    """P of the outcomes e of a device: P_x(e) Π_k θ_k[places[k, e]], with P and each θ_k independent, θ_k Dirichlet.

    Parameters
    ----------
    answers : AbstractPrior
        Of P, of one collection or of all cells; the device is one for all cells.
    law : DeviceLaw

    Notes
    -----
    The unknowns of the device stand before the scales of effects and what moves one cell only, which come last: the Hessian
    of cells is an arrow still.
    """

    answers: AbstractPrior
    law: DeviceLaw
    _devices: list = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "_devices", [Informed(np.array(law.concentrations)) for _, law in self.law.unknowns])

    @classmethod
    def of(cls, prior: Any, data: Any, prior_for: Callable[..., AbstractPrior]) -> AbstractPrior:
        """Return the prior over the outcomes of a collection, or of all cells, from what ``fit`` takes for P.

        Parameters
        ----------
        prior : as in fit
        data : Collection or Cells
            Over outcomes.
        prior_for : callable
            Prior and collection → the prior of one collection.
        """
        if isinstance(prior, cls):
            return prior
        first, *_ = map(without_outcomes, data.collections())
        if not data.by:
            return cls(prior_for(prior, first), data.device_law)
        plain = data.with_cells({key: without_outcomes(cell) for key, cell in data.items()})
        named_share = isinstance(prior, str) and prior.startswith(SHARE)
        answers = prior_for(prior, first) if named_share else as_prior(prior, plain.n_categories, cells=plain)
        return cls(answers if len(answers.shape) > 1 else IndependentCells(answers, len(data)), data.device_law)

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """Number of outcomes."""
        return self.law.category.size

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.answers.shape[:-1], self.n_categories)

    @property
    def parts(self) -> list[AbstractPrior]:
        """The prior of P, and that of each unknown of the device."""
        return [self.answers, *self._devices]

    @property
    def ordered(self) -> bool:
        return self.answers.ordered

    # ---- where the unknowns stand ----------------------------------------------------------------------------------------
    @cached_property
    def _layout(self) -> tuple[int, int]:
        """Where the unknowns of the device begin, and how many they are."""
        answers, local = self.answers, self.answers.cell_unknowns()
        last = answers.n_unknowns if local is None else local[0]
        return min((batch.place for batch in answers.varying), default=last), sum(x.n_unknowns for x in self._devices)

    @cached_property
    def _order(self) -> np.ndarray:
        """The place of each unknown of the parts, one part after the other."""
        (at, size), n = self._layout, self.answers.n_unknowns
        return np.concatenate([np.arange(at), np.arange(at, n) + size, np.arange(at, at + size)])

    def _each(self, z: np.ndarray) -> list[tuple[AbstractPrior, np.ndarray]]:
        return super()._each(np.asarray(z, dtype=float)[..., self._order])

    def _placed(self, values: np.ndarray) -> np.ndarray:
        """Return numbers of the unknowns, given one part after the other, in the order of the unknowns."""
        out = np.empty_like(values)
        out[..., self._order] = values
        return out

    def unknowns(self, size: int, rng: np.random.Generator) -> np.ndarray | None:
        drawn = super().unknowns(size, rng)
        return None if drawn is None else self._placed(drawn)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        return self._placed(super().gradient(z))

    def pullback(self, z: np.ndarray, dp: np.ndarray) -> np.ndarray:
        return self._placed(super().pullback(z, dp))

    def cell_unknowns(self) -> tuple[int, int] | None:
        local = self.answers.cell_unknowns()
        return None if local is None else (local[0] + self._layout[1], local[1])

    def spectrum(self, z: np.ndarray) -> tuple[int, np.ndarray, np.ndarray] | None:
        (_, at), *_ = self._each(z)
        values = self.answers.spectrum(at)
        return None if values is None else (int(self._order[values[0]]), *values[1:])

    @property
    def varying(self) -> list[ScaledEffects]:
        of = self._order
        return [batch._replace(place=int(of[batch.place]), span=of[batch.span]) for batch in self.answers.varying]

    @property
    def pivots(self) -> list[int]:
        """Places of the unknowns of P, where it hangs on a category's share what reports say of the device.

        Not of many cells, in some of which every category is seen: P has more unknowns than the device then.
        """
        if self.varying or self.law.of_all_columns or self.answers.n_unknowns > self._layout[1]:
            return []
        return self._order[: self.answers.n_unknowns].tolist()

    def exchanged(self, z: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return z with a device that reports to two answers the other way round, for all that its law may exchange."""
        own, (at, size) = [part for _, part in self._each(z)[1:]], self._layout
        ends, out, begin = np.cumsum([part.size for part in own])[:-1], [], np.concatenate(own)

        def channel(unknowns):
            parts = zip(self._devices, np.split(unknowns, ends), strict=True)
            return self.law.channel([prior.to_simplex(part) for prior, part in parts])

        for pair in self.law.exchangeable(LOOKING.draws):
            order, start = np.arange(self.answers.n_categories), z.copy()
            order[list(pair)] = pair[::-1]
            start[at : at + size] = reordered(channel, begin, order)
            out.append((start, np.arange(at, at + size)))
        return out

    # ---- P of the outcomes -----------------------------------------------------------------------------------------------
    def joined(self, parts: Sequence[Any], xp: Any = np) -> Any:
        return self.law.outcomes(parts[0], parts[1:], xp)

    def parted(self, p: np.ndarray) -> list[np.ndarray]:
        out = [_summed(p, self.law.category, self.answers.n_categories)]
        for places, prior in zip(self.law.places, self._devices, strict=True):
            seen = np.flatnonzero(places >= 0)
            share = _summed(p[..., seen], places[seen], prior.n_categories)
            out.append(share / share.sum(axis=-1, keepdims=True))
        return out

    def apart(self, parts: Sequence[np.ndarray], dp: np.ndarray) -> list[np.ndarray]:
        shares = [x[..., None, :] if len(self.shape) > 1 else x for x in self.law.shares(parts[1:])]
        factors, out = [parts[0][..., self.law.category], *shares], []
        for k, part in enumerate(parts):
            slope, places = dp, self.law.places[k - 1] if k else self.law.category
            for j, factor in enumerate(factors):
                slope = slope * factor if j != k else slope
            if k and len(self.shape) > 1:
                slope = slope.sum(axis=-2)
            seen = np.flatnonzero(places >= 0)
            out.append(_summed(slope[..., seen], places[seen], part.shape[-1]))
        return out

    def without(self, owners: tuple[int | None, ...]) -> AbstractPrior:
        return self.answers

    def weight(self) -> float:
        return self.answers.weight()

    def pymc(self, name: str) -> "TensorVariable":
        import pytensor.tensor as pt

        parts = [prior.pymc(f"{name}_device_{k}") for k, prior in enumerate(self._devices, 1)]
        for (names, _), theta in zip(self.law.unknowns, parts, strict=True):
            for u, one in enumerate(names):
                if one:
                    state(one, theta[u])
        return self.joined([self.answers.pymc(name), *parts], pt)

    # ---- what readers see ------------------------------------------------------------------------------------------------
    def describe(self) -> str:
        return "; ".join([self.answers.describe(), *said(self.law)])

    def to_dict(self) -> dict[str, np.ndarray]:
        laws = {f"device_{k}": prior.alpha for k, prior in enumerate(self._devices, 1)}
        return self.answers.to_dict() | laws

    def hyperparameters(self, z: np.ndarray) -> dict[str, np.ndarray]:
        return self.answers.hyperparameters(self._each(z)[0][1])

    def log_hyperprior(self, draws: Mapping[str, np.ndarray]) -> np.ndarray | None:
        return self.answers.log_hyperprior(draws)

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        (_, at), *devices = self._each(z)
        out = self.answers.variables(at)
        if len(self.shape) > 1:  # of one collection they are derived quantities
            for (names, _), (prior, own) in zip(self.law.unknowns, devices, strict=True):
                theta = prior.to_simplex(own)
                out |= {name: ((), theta[..., u]) for u, name in enumerate(names) if name}
        return out

    def coords(self) -> dict[str, Sequence]:
        return self.answers.coords()


def reordered(channel: Callable[[np.ndarray], np.ndarray], unknowns: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the unknowns of a device whose columns are these in another order, or nearly so, by least squares.

    Parameters
    ----------
    channel : callable
        Unknowns (k,) → P(report | category), up to a factor of each row.
    unknowns : (k,) array
    order : (a,) int array
    """
    from scipy.optimize import least_squares  # loads slowly

    wanted = channel(unknowns)[:, order]
    return least_squares(lambda at: (channel(at) - wanted).ravel(), unknowns).x


def said(device: DeviceLaw) -> list[str]:
    """Return the law of each unknown in words: of two shares that of the one with a name, which may be the second."""
    out = []
    for names, law in device.unknowns:
        own = Uncertain(law.concentrations[::-1]) if len(names) == 2 and not names[0] else law
        out.append(f"{own.describe()} for {' and '.join(filter(None, names))}")
    return out


def _summed(values: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Return Σ of values (…, E) at each of so many places."""
    return values @ np.eye(size)[places]
