"""What a larger validation of a device is worth: the standard deviation of P with more trials of its probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.presenting import AbstractResult, recorded
from ldpbayes.protocols import AbstractProtocol

__all__ = ["ValidationStudy", "validation"]


@dataclass(frozen=True, repr=False)
class ValidationStudy(AbstractResult):
    """Standard deviations of P by the number of trials behind the law of a device.

    Attributes
    ----------
    times : tuple of float
        How many times as many trials as the law stands for; infinite where the device is known.
    sd : (k, a) array
        Of each share, for each of these.
    categories : tuple of str
        Names of the shares; their places, from 0, where P has none.
    """

    times: tuple[float, ...]
    sd: NDArray
    categories: tuple[str, ...]

    @property
    def least_certain(self) -> int:
        """Place of the share with the largest sd; of those that are equal but for rounding, the last."""
        return int(np.flatnonzero(np.isclose(self.sd[0], self.sd[0].max()))[-1])

    @property
    def sentence(self) -> str:
        """What the trials are worth, for the least certain share."""
        x = self.least_certain
        words = {1: "now", np.inf: "were the device known"}
        widths = ", ".join(
            f"{sd:.2g} {words.get(times, f'with {times:g} times the trials')}"
            for times, sd in zip(self.times, self.sd[:, x], strict=True)
        )
        name = "" if self.categories[x] == str(x) else f"{self.categories[x]}, "
        return f"The standard deviation of {name}the least certain share: {widths}."


@recorded
def validation(
    device: AbstractProtocol,
    n: float,
    *,
    p: ArrayLike | xr.DataTree | None = None,
    times: Sequence[float] = (1, 2, 5, 10, np.inf),
) -> ValidationStudy:
    """Return what more trials of a device are worth, for a number of reports.

    The law of the device is scaled, as if there had been so many times as many trials with the same shares. The sd is that
    of large numbers: the inverse of the information of the reports in P and θ together, and of the law in θ. Near an end of
    [0, 1] a posterior is narrower on one side.

    Parameters
    ----------
    device : protocol
        With probabilities that are not known exactly.
    n : float
        Reports.
    p : (a,) array or Result, optional
        Assumed shares; equal ones by default. Of the result of a fit the means of P, with the names of its categories.
    times : sequence of float
        Above zero.

    Returns
    -------
    ValidationStudy

    Raises
    ------
    ArgumentError
        Where the device is known, or a number breaks its rule.
    InfeasibleError
        Where the reports do not tell all categories apart.

    Examples
    --------
    >>> from ldpbayes.protocols import Channel
    >>> test = Channel(validated=[[399, 19], [2, 103]])
    >>> validation(test, 3330, p=[0.98, 0.02], times=[1, 10, float("inf")]).sd[:, 1].round(4).tolist()
    [0.006, 0.0036, 0.0032]
    """
    checks.instance(device, "device", AbstractProtocol, "a protocol of ldpbayes")
    law, n = device.device_law(), checks.users(n)
    if law is None:
        raise ArgumentError(
            "device must have probabilities that are not known exactly, by Channel(validated=…) or Uncertain."
        )
    a = device.n_categories
    categories = tuple(map(str, range(a)))
    if isinstance(p, xr.DataTree):
        from ldpbayes.result.validation import need_result  # results load ArviZ

        need_result(p, "p")
        mean = p["summary"].to_dataset()["mean"].sel(target="distribution")
        if mean.dims != ("category",):
            raise ArgumentError("p must be the shares of one population, got a result of cells; give an array.")
        p, categories = mean.values, tuple(map(str, mean["category"].values))
    shares = np.full(a, 1 / a) if p is None else checks.distribution(p, "p", a)
    numbers = [checks.real(x, "times", "numbers above 0") for x in checks.entries(times, "times", "numbers above 0")]
    if not numbers or not all(x > 0 for x in numbers):
        raise ArgumentError("times must be numbers above 0, at least one.")
    theta = [unknown.mean for _, unknown in law.unknowns]
    channel = law.channel(theta)
    mixed = channel @ shares
    basis = np.linalg.svd(np.ones((1, a)))[2][1:]  # of changes of P
    columns, precisions = [channel @ basis.T], []
    for k, (_, unknown) in enumerate(law.unknowns):
        mean = unknown.mean
        spread = np.eye(mean.size)[:-1] - np.eye(mean.size)[-1]  # the last share is one less the others
        moved = [law.channel([*theta[:k], mean + move, *theta[k + 1 :]]) @ shares - mixed for move in spread]
        columns.append(np.array(moved).T)
        total = sum(unknown.concentrations) + 1
        precisions.append(np.linalg.inv((np.diag(mean) - np.outer(mean, mean))[:-1, :-1] / total))
    slopes, seen = np.concatenate(columns, axis=1), mixed > 0
    information = n * slopes[seen].T @ (slopes[seen] / mixed[seen, None])
    if np.linalg.matrix_rank(channel, tol=1e-9) < a:
        raise InfeasibleError("Reports through this device do not tell all categories apart, however many trials there are.")
    law_of = np.zeros_like(information)
    at = a - 1
    for precision in precisions:
        law_of[at : at + len(precision), at : at + len(precision)] = precision
        at += len(precision)
    out = []
    for x in numbers:
        whole = information[: a - 1, : a - 1] if np.isinf(x) else information + x * law_of
        covariance = np.linalg.inv(whole)[: a - 1, : a - 1]
        out.append(np.sqrt(np.einsum("ix,ij,jx->x", basis, covariance, basis)))
    return ValidationStudy(tuple(numbers), np.array(out), categories)
