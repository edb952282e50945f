"""Matplotlib figures: ``plot_forest(result)``, predicted reports, regressions, private groups, plans.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; line styles and markers repeat them.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.association.figures import plot_association as plot_association
    from ldpbayes.planning.figures import plot_plan as plot_plan
    from ldpbayes.plots.base import PALETTE as PALETTE
    from ldpbayes.plots.base import save_figure as save_figure
    from ldpbayes.plots.base import to_pdf as to_pdf
    from ldpbayes.plots.base import to_svg as to_svg
    from ldpbayes.plots.forest import plot_forest as plot_forest
    from ldpbayes.plots.groups import plot_groups as plot_groups
    from ldpbayes.plots.predictive import plot_expected as plot_expected
    from ldpbayes.plots.predictive import plot_predictive as plot_predictive
    from ldpbayes.plots.predictive import plot_predictive_cells as plot_predictive_cells
    from ldpbayes.private_groups.figures import plot_private_differences as plot_private_differences
    from ldpbayes.private_groups.figures import plot_private_functions as plot_private_functions
    from ldpbayes.private_groups.figures import plot_private_quantiles as plot_private_quantiles
    from ldpbayes.regression.figures import plot_coefficients as plot_coefficients
    from ldpbayes.regression.figures import plot_predictions as plot_predictions
    from ldpbayes.robust.figures import plot_contamination as plot_contamination
    from ldpbayes.robust.figures import plot_crosscheck as plot_crosscheck
    from ldpbayes.robust.figures import plot_sensitivity as plot_sensitivity
    from ldpbayes.surveys.figures import plot_missing as plot_missing

_HOMES = {
    "PALETTE": "plots.base",
    "plot_association": "association.figures",
    "plot_coefficients": "regression.figures",
    "plot_contamination": "robust.figures",
    "plot_crosscheck": "robust.figures",
    "plot_expected": "plots.predictive",
    "plot_forest": "plots.forest",
    "plot_groups": "plots.groups",
    "plot_missing": "surveys.figures",
    "plot_plan": "planning.figures",
    "plot_predictions": "regression.figures",
    "plot_predictive": "plots.predictive",
    "plot_predictive_cells": "plots.predictive",
    "plot_private_differences": "private_groups.figures",
    "plot_private_functions": "private_groups.figures",
    "plot_private_quantiles": "private_groups.figures",
    "plot_sensitivity": "robust.figures",
    "save_figure": "plots.base",
    "to_pdf": "plots.base",
    "to_svg": "plots.base",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
