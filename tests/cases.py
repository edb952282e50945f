"""The table of protocols that every contract test runs over: name → protocol at (n_categories, epsilon)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ldpbayes.protocols import GRR, designs


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes
    ----------
    name : str
    build : callable (n_categories, epsilon) -> protocol
    categories : tuple of int
        Numbers of categories that the contract tests draw from.
    tight : bool
        Whether the largest ratio in the channel is e^epsilon exactly.
    """

    name: str
    build: Callable
    categories: tuple[int, ...] = (2, 3, 5)
    tight: bool = True

    def __str__(self):
        return self.name


CASES = [
    Case("grr", GRR),
    Case("warner", lambda a, epsilon: designs.warner(1 / (1 + math.exp(-epsilon))), (2,)),
]
