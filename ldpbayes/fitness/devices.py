"""Whether reports can have come from a device as it was tried: reports and trials at the estimate that suits both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, xlogy

from ldpbayes.collections import Collection, Tally
from ldpbayes.fitness.base import Check
from ldpbayes.protocols.laws import ListLaw


@dataclass(frozen=True)
class Expectation:
    """When steps of expectation and maximization end, and what they leave at zero.

    Attributes
    ----------
    steps : int
        The most. Derived: a loop has to end; ``gain`` ends it earlier once the maximum is reached.
    gain : float
        Nats. Derived: steps that gain less move a p-value by less than its last printed digit.
    nobody : float
        Users below which a category is at zero, and takes no parameter. Derived: a hundredth of one is no person.
    """

    steps: int = 20_000
    gain: float = 1e-9
    nobody: float = 1e-2


def fit_of_devices(
    collection: Collection, tallies: Sequence[Tally], limits: Expectation = Expectation()
) -> tuple[Check, ...]:
    """Return the test of the counts of reports and of the trials behind the laws of the devices; none where all fit.

    G² = 2 Σ S log(S/E) over the reports of every channel and over the trials, whose counts are the concentrations less one,
    at the P and θ of largest likelihood of both. A category at zero is a parameter less, so that a device whose trials had
    more false answers than the reports have answers at all does not fit.

    Parameters
    ----------
    collection : Collection
        Over the outcomes of its devices.
    tallies : sequence of Tally
        Its channels whose reports can be listed.
    limits : Expectation
    """
    law = collection.device_law
    channels = [(tally.protocol.channel(), ListLaw(tally.protocol).tally(tally.reports, tally.counts)) for tally in tallies]
    trials = [np.maximum(np.array(unknown.concentrations) - 1, 0.0) for _, unknown in law.unknowns]
    p, theta = np.full(law.category.max() + 1, 1 / (law.category.max() + 1)), [x.mean for _, x in law.unknowns]
    before = -np.inf
    for _ in range(limits.steps):
        outcomes = law.outcomes(p, theta)
        expected = [counts.sum() * (matrix @ outcomes) for matrix, counts in channels]
        users = sum(
            outcomes * (counts.sum() * matrix.T @ np.divide(counts, e, out=np.zeros_like(e), where=e > 0))
            for (matrix, counts), e in zip(channels, expected, strict=True)
        )
        value = sum(float(xlogy(c, np.maximum(e, 1e-300)).sum()) for (_, c), e in zip(channels, expected, strict=True))
        value += sum(float(xlogy(t, x).sum()) for t, x in zip(trials, theta, strict=True))
        if value - before < limits.gain:
            break
        before, p = value, np.bincount(law.category, users, p.size) / users.sum()
        theta = [
            _share(t + np.bincount(at[at >= 0], users[at >= 0], t.size)) for t, at in zip(trials, law.places, strict=True)
        ]
    statistic = sum(_deviance(counts, e) for (_, counts), e in zip(channels, expected, strict=True))
    statistic += sum(_deviance(t, t.sum() * x) for t, x in zip(trials, theta, strict=True))
    zeros = int((users.sum() * p < limits.nobody).sum())
    df = sum(len(counts) - 1 for _, counts in channels) - (p.size - 1 - zeros)
    if df < 1:
        return ()
    detail = f"G² = {statistic:.4g}, {df} degrees of freedom"
    return (
        Check(
            "G² of the reports and of the trials of the device",
            "",
            statistic,
            df,
            float(chdtrc(df, statistic)),
            "chi-squared",
            detail=detail,
        ),
    )


def _share(counts: NDArray) -> NDArray:
    return counts / counts.sum()


def _deviance(counts: NDArray, expected: NDArray) -> float:
    return 2 * float(xlogy(counts, np.where(counts > 0, counts / np.maximum(expected, 1e-300), 1.0)).sum())
