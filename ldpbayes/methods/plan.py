"""A plan of a method, or its refusal, and how long a fit takes."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple


class Pace(NamedTuple):
    """Seconds on one core of the machine where they were measured: they tell how long a fit takes, and decide nothing.

    Attributes
    ----------
    start, category, operation : float
        Whatever the size; for each category, of which ``most`` count; for each operation that is counted.
    most : int
        Categories beyond which one more takes as good as no time: numpy's calls outweigh them. Chosen once; nobody has
        shown that it matters.
    """

    start: float
    category: float
    operation: float
    most: int = 60

    def seconds(self, work: float, n_categories: int) -> float:
        """Return the predicted seconds of so many operations."""
        return self.start + self.category * min(n_categories, self.most) + self.operation * work


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
