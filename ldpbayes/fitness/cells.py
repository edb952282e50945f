"""Whether the reports of many cells fit their designs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from ldpbayes.arrays import FloatArray
from ldpbayes.fitness.base import OTHER_PEOPLE, Check, Fitness
from ldpbayes.presenting import AbstractResult

#: Display: Cells whose names a verdict lists.
NAMED = 8


@dataclass(frozen=True, repr=False)
class CellsFitness(AbstractResult):
    """Whether the reports of many cells can have come from their designs.

    Attributes
    ----------
    labels : tuple of str
    cells : tuple of Fitness
        One per cell.
    equality : Check or None
        The test that all cells have the same distribution, which is no test of fit; None where it cannot be made.
    level : float
        Probability with which honest reports are flagged, all cells together.
    combined : (k,) array, optional
        P-values that are combined, where they are not those of each cell: see ``sums.combined``.
    source : str
        Reports and designs in words.
    random_seed : int, optional
        Of the simulated tables of each cell.
    """

    labels: tuple[str, ...]
    cells: tuple[Fitness, ...]
    equality: Check | None = None
    level: float = 0.05
    combined: FloatArray | None = None
    source: str = ""
    random_seed: int | None = field(default=None, compare=False)

    def _random_seed(self) -> int | None:
        return self.random_seed

    @property
    def p_values(self) -> NDArray:
        """The least adjusted p-value of every cell; nan where no test is possible."""
        return np.array([cell.p_value for cell in self.cells])

    @cached_property
    def _outcome(self) -> tuple[str, bool]:
        return verdict_of_cells(self.labels, self.p_values, self.level, self.combined)

    @property
    def flagged(self) -> bool:
        """Whether the reports do not fit the design at this level."""
        return self._outcome[1]

    @property
    def verdict(self) -> str:
        """One sentence about all cells, and why where no test is possible in any."""
        why = () if np.isfinite(self.p_values).any() else dict.fromkeys(note for cell in self.cells for note in cell.notes)
        return " ".join((self._outcome[0], *why))

    @property
    def compliance(self) -> str:
        """In which cells some ignore the device or deny, which is no question of fit; "" where that is not tested."""
        tests = [cell.compliance for cell in self.cells]
        some = next((test.words.some for test in tests if test is not None), "")
        return compliance_of_cells(self.labels, [np.nan if t is None else t.p_value for t in tests], some, self.level)


def compliance_of_cells(labels: Sequence[str], p_values: ArrayLike, some: str, level: float = 0.05) -> str:
    """Return in which cells some respondents ignore the device or deny; "" where no cell was tested.

    Parameters
    ----------
    labels : sequence of str
    p_values : (cells,) array
        ``ComplianceTest.p_value`` of every cell; nan where there was no test.
    some : str
        What is found, such as "some deny".
    level : float
        Probability with which it is found in any cell where it is true of none.
    """
    p = np.asarray(p_values, dtype=float)
    tested = int(np.isfinite(p).sum())
    if not tested:
        return ""
    adjusted = np.minimum(p * tested, 1.0)
    where = np.flatnonzero(adjusted <= level)
    if not where.size:
        least = f"least p = {np.nanmin(adjusted):.3g}, adjusted for the number of cells"
        return f"The reports do not show in any of {tested} cells that {some} ({least})."
    named = f"{', '.join(labels[int(c)] for c in where[:NAMED])}{', …' if where.size > NAMED else ''}"
    least, largest = adjusted[where].min(), adjusted[where].max()
    p_value = f"p = {largest:.3g}{' or less' if least < largest else ''}, adjusted for the number of cells"
    return f"{some[0].upper()}{some[1:]} in {where.size} of {tested} cells: {named} ({p_value})."


def adjusted_of_cells(p_values: ArrayLike) -> FloatArray:
    """Return the p-value of each cell alone, adjusted for the number of cells tested and for the test of all together.

    Parameters
    ----------
    p_values : (cells,) array
        ``Fitness.p_value`` of every cell; nan where no test was possible.
    """
    p = np.asarray(p_values, dtype=float)
    return np.minimum(2 * p * np.isfinite(p).sum(), 1.0)


def contradicting(p_values: ArrayLike, level: float = 0.05) -> NDArray:
    """Return the places of the cells that do not fit the design by themselves.

    Parameters
    ----------
    p_values : (cells,) array
        ``Fitness.p_value`` of every cell; nan where no test was possible.
    level : float
        Probability with which honest reports may be flagged.
    """
    return np.flatnonzero(adjusted_of_cells(p_values) <= level)


def verdict_of_cells(
    labels: Sequence[str], p_values: ArrayLike, level: float = 0.05, combined: ArrayLike | None = None
) -> tuple[str, bool]:
    """Return (one sentence, whether the reports do not fit) of the p-values of many cells.

    Half of the level goes to the least p-value, adjusted by the number of cells, and half to Fisher's combination
    −2 Σ log p ~ χ² with two degrees of freedom per cell, which sees a fault that all cells share.

    Parameters
    ----------
    labels : sequence of str
    p_values : (cells,) array
        ``Fitness.p_value`` of every cell; nan where no test was possible.
    level : float
        Probability with which honest reports may be flagged.
    combined : array, optional
        P-values that are combined, where they are not those of each cell; see ``sums.combined``.
    """
    p = np.asarray(p_values, dtype=float)
    tested = np.isfinite(p)
    joint = p if combined is None else np.asarray(combined)
    joint = np.clip(joint[np.isfinite(joint)], 1e-300, 1.0)
    if not joint.size:
        return "No test of fit is possible in any cell.", False
    together = min(1.0, 2 * float(chdtrc(2 * joint.size, -2 * np.log(joint).sum())))
    alone = adjusted_of_cells(p)
    least = float(np.min(alone, initial=1.0, where=tested))
    which = f"all {p.size} cells" if p.size > 1 else "the only cell"
    if 0 < tested.sum() < p.size:
        which = f"the {tested.sum()} of {p.size} cells in which a test is possible"
    numbers = f"adjusted p-values: {together:.3g} of all together, {least:.3g} of the cell that fits least"
    if min(together, least) > level:
        return f"The reports of {which} fit the design ({numbers}).", False
    bad = [labels[int(c)] for c in contradicting(p, level)]
    causes = (
        "Respondents did not follow the device, reports were fabricated or copied, or the design, its parameters or the "
        f"categories are wrong. {OTHER_PEOPLE}"
    )
    if bad:
        named = f"{', '.join(bad[:NAMED])}{', …' if len(bad) > NAMED else ''}"
        rest = "; nothing stands out in the others" if len(bad) < tested.sum() else ""
        many = f"{len(bad)} of {p.size} cells" if p.size > 1 else "the cell"
        return f"The reports of {many} do not fit the design: {named}{rest} ({numbers}). {causes}", True
    together_only = "no single cell stands out, but taken together the reports do not fit the design"
    return f"Of {which}, {together_only} ({numbers}). {causes}", True
