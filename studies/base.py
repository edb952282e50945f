"""What every study is: cells to evaluate, and what a plot of them shows."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

#: Sizes of a study: about a minute on one core, or the whole grid.
SETTINGS = ("small", "paper")


@dataclass(frozen=True)
class Study:
    """A grid of cells and what to do in each.

    Attributes
    ----------
    name, title, source : str
        Word for the command line, one line for the reader, and the figures or tables it repeats.
    cells : callable
        setting -> list of dicts with keys of CELL_COLUMNS and ``replications``.
    evaluate : callable
        (cell, Generator) -> list of dicts with keys of RESULT_COLUMNS.
    x : str
        Column on the horizontal axis of the figure.
    lines, panels : tuple of str
        Columns whose values make a curve, and a panel.
    settings : tuple of str
        Those of SETTINGS that the study has.
    """

    name: str
    title: str
    source: str
    cells: Callable
    evaluate: Callable
    x: str = "epsilon"
    lines: tuple = ("estimator",)
    panels: tuple = ("protocol", "n_categories", "n_reports", "target")
    settings: tuple = SETTINGS


def grid(**axes):
    """Return the cells of a full grid: every combination of the values of the axes, the last one fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
