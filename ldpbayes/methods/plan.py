"""A plan of a method, or its refusal, and how long a fit takes."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple


class Pace(NamedTuple):
    """Seconds on one core of the machine where they were measured: they tell how long a fit takes, and decide nothing.

    Attributes
    ----------
    start, category, operation : float
        Whatever the size; for each category, up to those that calls of NumPy outweigh; for each operation that is counted.
    """

    start: float
    category: float
    operation: float

    def seconds(self, work: float, n_categories: int) -> float:
        """Return the predicted seconds of ``work`` operations."""
        return self.start + self.category * min(n_categories, 60) + self.operation * work


@dataclass(frozen=True)
class Cost:
    """Seconds of one processor core where they were measured: they say beforehand how long moments take.

    What would take longer than ``Watch.long`` gets Jeffreys' prior in place of a learnt one by rule, and what takes longer
    than ``beside`` no Bayes factors.

    Attributes
    ----------
    factor : float
        Seconds of one factor of one cell. Measured: 40 µs for moments and the ends of an interval.
    entry : float
        Seconds of an entry (report × category) of an expansion. Measured: 12 ns.
    beside : float
        Above this the log-evidences of other priors are left out beside a fit. Bank: half and double show nothing.
    """

    factor: float = 4e-5
    entry: float = 1.2e-8
    beside: float = 0.5

    def mixed(self, cells: Any, placement: Any) -> float:
        """Return the predicted seconds of cells under a prior that mixes Dirichlet priors."""
        return 2 * placement.nodes * self.factor * len(cells) * cells.n_categories


@dataclass(frozen=True)
class Preparation:
    """What prepare() found: why the engine applies, and the work that run() continues.

    Attributes
    ----------
    reason : str
    work : float
        Operations, as the engine counts them: what chooses between engines.
    state : object
    pace : Pace, optional
        How long they take, where that is not the engine's usual pace.
    seconds : float
        Predicted, of a whole fit.
    """

    reason: str
    work: float
    state: Any = field(default=None, repr=False, compare=False)
    pace: Pace | None = None
    seconds: float = math.nan
    feasible: ClassVar[Literal[True]] = True


@dataclass(frozen=True)
class Refusal:
    """Why an engine does not apply."""

    reason: str
    seconds: ClassVar[float] = math.nan
    feasible: ClassVar[Literal[False]] = False
