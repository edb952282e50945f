"""The figure of missing answers: the share of all who were asked, by what those who gave none may have answered."""

from typing import Any

import numpy as np

from ldpbayes.errors import ArgumentError
from ldpbayes.pages.page import Figure, figure_of
from ldpbayes.plots.base import LABEL, SMALL, WIDTH, Canvas, Drawn, checked, one_of, plain

#: What the argument of this figure must be.
ANSWER = {"result": one_of("ldpbayes.answer", "Answer", "what missing_answers returned")}


@checked(ANSWER, {"result": "result : Answer\n    From ``ldpbayes.answers.missing_answers``."})
def plot_missing(result: Any, *, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure of the share of all who were asked, by the odds ratio of those who gave no answer."""
    if "odds_ratio" not in result.sizes:
        raise ArgumentError("result must be what missing_answers returned, got one without odds ratios.")
    canvas = Canvas(ax, style, (WIDTH, 3.6))
    (axes,), color, place = canvas.axes, canvas.colors[0], np.arange(result.sizes["odds_ratio"])
    words = f"{100 * result.attrs['ci_prob']:g} % interval"
    band = axes.fill_between(place, result["lower"], result["upper"], color=color, alpha=0.25, lw=0, label=words)
    (line,) = axes.plot(place, result["mean"], color=color, lw=2, marker="o", ms=4, label="posterior mean")
    axes.set_xticks(place, [f"{ratio:g}" for ratio in result["odds_ratio"].values], fontsize=SMALL)
    axes.set_xlabel("odds of those who gave no answer, over the odds of the others", fontsize=LABEL)
    axes.set_ylabel(plain(result.attrs["question"]), fontsize=LABEL)
    return canvas.finish(f"{result.attrs['question']}, among all who were asked", [line, band])


def of_missing(answer: Any) -> Figure | None:
    """Return the figure beside the page of ``missing_answers``, or None of another answer."""
    if "odds_ratio" not in answer.sizes:
        return None
    caption = f"{answer.attrs['question']}, among all who were asked, by what those without an answer may have said."
    return figure_of("missing", caption, f"Curve: {caption} The table has the numbers.", plot_missing, answer)
