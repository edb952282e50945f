"""The picture of a joint table: conditional shares of every pair of attributes, with what departs from independence."""

from typing import Any

import numpy as np

from ldpbayes.association import questions as association
from ldpbayes.association.questions import TOP
from ldpbayes.plots.base import LABEL, SMALL, WIDTH, Canvas, Drawn, checked, plain, wrapped


@checked()
def plot_association(result: Any, *, top: Any = TOP, ax: Drawn | None = None, **style: Any) -> Drawn:
    """Return a matplotlib figure: one heat map for each pair of attributes, the strongest associations first.

    The number in a cell is the share of the column's level among people with the row's level; its colour is the residual
    ``(p_ij − p_i· p_·j)/√(p_i· p_·j)`` of the posterior mean: blue where a combination is more frequent than under
    independence, red where it is rarer.

    Parameters
    ----------
    result : DataTree
        From ``associate``.
    top : int
        Most pairs.
    """
    pairs = association.pairs_of(result)
    strength = [float(association.cramers_v(result, *pair)["mean"]) for pair in pairs]
    pairs = [pairs[i] for i in np.argsort(strength)[::-1][:top]]
    tables = [association.joint_table(result, pair)["mean"] for pair in pairs]
    rows = [table.shape[0] for table in tables]
    size = WIDTH, 0.5 + sum(0.9 + 0.34 * height for height in rows)
    canvas = Canvas(ax, style, size, len(pairs), gridspec_kw={"height_ratios": [height + 1 for height in rows]})
    for axes, (first, second), table in zip(canvas.axes, pairs, tables, strict=True):
        shares = association.conditional(result, second, given=first)["mean"].values
        p = table.values
        product = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
        residual = (p - product) / np.sqrt(np.maximum(product, 1e-300))
        reach = max(np.abs(residual).max(), 0.05)
        image = axes.imshow(residual, cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
        for i, j in np.ndindex(*p.shape):
            dark = abs(residual[i, j]) > 0.6 * reach
            axes.text(
                j, i, f"{shares[i, j]:.2f}", ha="center", va="center", color="white" if dark else "black", fontsize=SMALL
            )
        axes.set_xticks(range(p.shape[1]), [wrapped(level, 12) for level in table[second].values], fontsize=SMALL)
        axes.set_yticks(range(p.shape[0]), [wrapped(level, 16) for level in table[first].values], fontsize=SMALL)
        axes.set_xlabel(plain(second), fontsize=LABEL)
        axes.set_ylabel(plain(first), fontsize=LABEL)
        canvas.figure.colorbar(image, ax=axes, label="residual")
    return canvas.finish("Shares of the columns given the rows", legend=False)
