"""Regression through a device whose probabilities are not known exactly: these are unknowns beside the coefficients."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, xlogy

from ldpbayes.collections.devices import without_outcomes
from ldpbayes.errors import InfeasibleError, listed
from ldpbayes.priors.device import LogitBetaLaw, reordered, said
from ldpbayes.priors.regression import Regression
from ldpbayes.protocols.uncertain import DeviceLaw
from ldpbayes.regression.beside import Beside

#: Display: What maximum likelihood says of itself through an uncertain device.
AS_TRIALS = "The law of the device counts as the likelihood of its trials, and standard errors include it."


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
    linear = Regression.linear  # type: ignore[assignment]  # as of a known device

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

    @property
    def unknown_device(self) -> tuple:
        starts = np.cumsum([0, *(len(law.concentrations) - 1 for _, law in self.device.unknowns)])
        arrays = self.owners, self.device.places, self.law.sticks
        owners, places, sticks = map(np.ascontiguousarray, arrays)
        centre = self.law.of(np.zeros(len(sticks)))
        return owners, places, starts, self.spans[self.part].start, centre, sticks

    @cached_property
    def _starts(self) -> np.ndarray:
        """Where the sticks of the second and later unknowns begin."""
        return np.cumsum([len(law.concentrations) - 1 for _, law in self.device.unknowns])[:-1]

    @property
    def pivots(self) -> list[int]:
        """Places of the coefficients, where it hangs on a category's share what reports say of the device.

        Not where there are more of them than unknowns of the device; see ``priors.device``.
        """
        common = self.spans[""]
        if self.device.of_all_columns or common.stop - common.start > len(self.law.sticks):
            return []
        return list(range(common.start, common.stop))

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

    def trials(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-likelihood of the trials, Σ (α − 1) log θ less its maximum, at z (u,), and its gradient.

        It is the density of the law in θ. That of z has the Jacobian, and another maximum.
        """
        gradient, (yes, no) = np.zeros(z.size), self._trials
        logit = self.law.of(z[self.spans[self.part]])
        gradient[self.spans[self.part]] = yes * expit(-logit) - no * expit(logit)
        most = xlogy(yes, yes) + xlogy(no, no) - xlogy(yes + no, yes + no)
        return float((yes * log_expit(logit) + no * log_expit(-logit) - most).sum()), gradient

    @cached_property
    def _trials(self) -> np.ndarray:
        """How often the event of each stick came in the trials, and how often a later one did, (2, k)."""
        laws = [np.array(law.concentrations) - 1 for _, law in self.device.unknowns]
        later = [counts[::-1].cumsum()[::-1][1:] for counts in laws]
        return np.stack([np.concatenate([counts[:-1] for counts in laws]), np.concatenate(later)])

    def rows(self, z: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return the rows (S, m, a) of categories at draws z (S, u), of the rows (m, E) of outcomes."""
        theta = self.theta({self.part: self.law.of(z[:, self.spans[self.part]])})
        return (table * np.prod(np.stack(self.device.shares(theta)), axis=0)[:, None]) @ self.collapse

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
        return "; ".join([super().describe(), *said(self.device)])

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

    def relabelled(self, z: np.ndarray, order: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return unknowns like z (u,) with the device that reports to categories in another order as this one does to them.

        Or nearly so, by least squares of P(report | category).

        Parameters
        ----------
        z : (u,) array
        order : (a,) int array
        table : (m, E) array
            P(report | outcome), up to a factor of each row.
        """
        out, span, of_category = z.copy(), self.spans[self.part], np.eye(self.n_categories)[self.owners]

        def channel(unknowns):
            theta = self.theta({self.part: self.law.of(unknowns)})
            return table * np.prod(np.stack(self.device.shares(theta)), axis=0) @ of_category

        out[span] = reordered(channel, z[span], order)
        return out

    def precision(self, z: np.ndarray) -> np.ndarray:
        """Return minus the second derivative of the log-density of the law of each unknown of the device at z (u,), (k,)."""
        share = expit(self.law.of(z[self.spans[self.part]]))
        return self.law.sticks.sum(axis=1) * share * (1 - share)

    def estimates(self, z: np.ndarray, covariance: np.ndarray) -> tuple[dict[str, Any], dict[str, Sequence]]:
        """Return (the probabilities of the device and their standard errors as a Maximum has them, their names).

        Parameters
        ----------
        z : (u,) array
        covariance : (u, u) array
        """
        place, values, errors = self.spans[self.part].start, list[float](), list[float]()
        theta = self.theta(self.values(z))
        for (names, _), shares in zip(self.device.unknowns, theta, strict=True):
            m = shares.size
            stick = shares[:-1] / shares[::-1].cumsum()[::-1][:-1]
            steep = shares[:, None] * (np.eye(m, m - 1) - np.tri(m, m - 1) * stick)  # of shares in logits of sticks
            span, place = slice(place, place + m - 1), place + m - 1
            variance = np.einsum("ui,ij,uj->u", steep, covariance[span, span], steep)
            named = np.flatnonzero([bool(name) for name in names])
            values, errors = [*values, *shares[named]], [*errors, *np.sqrt(variance[named])]
        data = {"device": (("device_share",), np.array(values)), "device_errors": (("device_share",), np.array(errors))}
        return data, {"device_share": self.coords()["device_share"]}

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
        dims = "unknown", "device_outcome"
        return {
            "likelihood_rows": (("code", "device_outcome"), table),
            "outcome_category": (("device_outcome",), self.owners),
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
            f"The probabilities of the device must be known for {listed(named)}. Take the device at its mean by known(), "
            "refit at both ends of its law, and compare."
        )


def unidentified(pooled: Any) -> str:
    """Return the sentence about answers that channels cannot tell apart, uncertain devices at their means; else empty."""
    over_answers = pooled if pooled.device_law is None else without_outcomes(pooled)
    return over_answers.identifiability() if over_answers.unidentified() else ""


def without_prior(target: Any) -> Any:
    """Return the target whose maximum is that of the likelihood: of the reports, and of the trials of an uncertain device.

    Parameters
    ----------
    target : RegressionTarget

    Raises
    ------
    InfeasibleError
        Where a law is that of no trials, because its density is infinite at an end.
    """
    prior = target.prior
    if not isinstance(prior, Tried):
        return replace(target, flat=True)
    for _, law in prior.device.unknowns:
        if min(law.concentrations) < 1:
            raise InfeasibleError(
                f"Maximum likelihood takes the law of a device as that of trials, and {law.describe()} is none: its density "
                "is infinite at an end. Take the posterior, or concentrations of 1 or more."
            )
    return replace(target, flat=True, trials=prior.trials)


def refuse_ends(prior: Any, direction: np.ndarray) -> None:
    """Raise where a direction, in which a likelihood has no maximum, is that of the probabilities of an uncertain device.

    Parameters
    ----------
    prior : Regression
    direction : (u,) array
        Of length one.

    Raises
    ------
    InfeasibleError
    """
    if not isinstance(prior, Tried):
        return
    along = direction[prior.spans[prior.part]]
    if (along**2).sum() >= 0.5:
        names = list(itertools.chain.from_iterable(_of_sticks(names) for names, _ in prior.device.unknowns))
        raise InfeasibleError(
            f"The likelihood has no maximum: it is flat, or still rises, while {names[int(np.abs(along).argmax())]!r} of "
            "the device goes to an end, as where trials never had an event; take the posterior."
        )


def _of_sticks(names: Sequence[str]) -> list[str]:
    """Return what the sticks of an unknown are called: their shares, or that which has a name."""
    return [name or next(filter(None, names)) for name in names[:-1]]


def sticks_of(concentrations: Sequence[float]) -> np.ndarray:
    """Return the parameters of the Beta law of each stick of a Dirichlet law, (m − 1, 2)."""
    alpha = np.array(concentrations)
    return np.column_stack([alpha[:-1], alpha[::-1].cumsum()[::-1][1:]])
