"""Regression through a device whose probabilities are not known exactly: these are unknowns beside the coefficients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldpbayes.errors import InfeasibleError, listed
from ldpbayes.priors.device import LogitBetaLaw, said
from ldpbayes.priors.regression import Regression
from ldpbayes.protocols.uncertain import DeviceLaw
from ldpbayes.regression.beside import Beside


@dataclass(frozen=True, eq=False)
class Tried(Beside):
    """The prior of a regression, and that of the device, which is one for all people.

    Parameters
    ----------
    device : DeviceLaw
        Its outcomes are the kinds of people.
    """

    device: Any = None
    part: ClassVar[str] = "device"

    @classmethod
    def settings(cls, device: DeviceLaw, cells: int) -> dict[str, Any]:
        """Return the fields of this prior beside those of a regression, for so many cells."""
        return {"device": device, "other_design": np.ones((cells, 1))}

    @cached_property
    def law(self) -> LogitBetaLaw:  # type: ignore[override]  # each device has its own
        """The law of the logits of the sticks of all unknown shares, one after the other."""
        return LogitBetaLaw(np.concatenate([sticks_of(law.concentrations) for _, law in self.device.unknowns]))

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (len(self.law.sticks),), (len(self.law.sticks),)

    @property
    def owners(self) -> np.ndarray:
        return self.device.category

    @cached_property
    def _starts(self) -> np.ndarray:
        """Where the sticks of the second and later unknowns begin."""
        return np.cumsum([len(law.concentrations) - 1 for _, law in self.device.unknowns])[:-1]

    def theta(self, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return the unknown shares of the device, (…, m_k) each."""
        out = []
        for logits in np.split(values["device"], self._starts, axis=-1):
            share, left = 1 / (1 + np.exp(-logits)), np.cumprod(1 / (1 + np.exp(logits)), axis=-1)
            before = np.concatenate([np.ones_like(left[..., :1]), left[..., :-1]], axis=-1)
            out.append(np.concatenate([share * before, left[..., -1:]], axis=-1))
        return out

    def parts(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        each = np.prod(np.stack(self.device.shares(self.theta(values))), axis=0)
        return np.broadcast_to(each[..., None, :], (*each.shape[:-1], len(self.design), each.shape[-1]))

    def pulled_parts(self, parts: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        along, out = parts[0] * slope.sum(axis=0), []
        for places, (_, law) in zip(self.device.places, self.device.unknowns, strict=True):
            m, seen = len(law.concentrations), places >= 0
            share = np.bincount(places[seen], parts[0][seen], m)
            flow, share = np.bincount(places[seen], along[seen], m), share / share.sum()
            later = flow[::-1].cumsum()[::-1]
            stick = share[:-1] / share[::-1].cumsum()[::-1][:-1]
            out.append(flow[:-1] * (1 - stick) - later[1:] * stick)
        return np.concatenate(out), np.zeros((0, len(self.law.sticks)))

    def describe(self) -> str:
        laws = (f"{law.describe()} for {said(names)}" for names, law in self.device.unknowns)
        return "; ".join([super().describe(), *laws])

    def coords(self) -> dict[str, Sequence]:
        return {
            **Regression.coords(self),
            "device_share": [name for names, _ in self.device.unknowns for name in names if name],
        }

    def variables(self, z: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return what a regression has, and the probabilities of the device by their names."""
        theta, out = self.theta(self.values(np.asarray(z, dtype=float))), super().variables(z)
        for (names, _), shares in zip(self.device.unknowns, theta, strict=True):
            out |= {name: ((), shares[..., u]) for u, name in enumerate(names) if name}
        return out

    def stated(self, table: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the rows of outcomes, and how probabilities of outcomes follow from those of the device.

        An outcome has Π_k (offset[k] + slope[k] · named shares) of its category; a share without a name is one less others.
        """
        names = self.coords()["device_share"]
        offset, slope = np.ones(self.device.places.shape), np.zeros((*self.device.places.shape, len(names)))
        for k, ((of_unknown, _), places) in enumerate(zip(self.device.unknowns, self.device.places, strict=True)):
            at = [names.index(name) for name in of_unknown if name]
            for u, name in enumerate(of_unknown):
                outcomes = np.flatnonzero(places == u)
                offset[k, outcomes] = 0.0 if name else 1.0
                slope[k, outcomes[:, None], [names.index(name)] if name else at] = 1.0 if name else -1.0
        dims = "unknown", "outcome"
        return {
            "likelihood_rows": (("code", "outcome"), table),
            "outcome_category": (("outcome",), self.owners),
            "outcome_offset": (dims, offset),
            "outcome_slope": ((*dims, "device_share"), slope),
        }


def refuse(asked: Mapping[str, Any]) -> None:
    """Refuse what goes with a known device alone.

    Parameters
    ----------
    asked : mapping of str to object
        What it is called, and whether it was asked for.
    """
    if named := [name for name, value in asked.items() if value]:
        raise InfeasibleError(
            f"The probabilities of the device must be known for {listed(named)}: a device with a law goes with the "
            "posterior of a private answer alone. Take it at its mean by known(), refit at both ends of the law, and "
            "compare."
        )


def sticks_of(concentrations: Sequence[float]) -> np.ndarray:
    """Return the parameters of the Beta law of each stick of a Dirichlet law, (m − 1, 2)."""
    alpha = np.array(concentrations)
    return np.column_stack([alpha[:-1], alpha[::-1].cumsum()[::-1][1:]])
