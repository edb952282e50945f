"""Regression on a private answer: formulas, effects of groups, maximum likelihood, and shares of a population.

From the core it takes likelihoods of cells, the prior of coefficients, how methods hand over, readers of tables, and the
parts of answers, pages and figures. It brings pages (``registered.py``), the command ``regress``, five answers and two
figures.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.regression.fitting import METHODS as METHODS
    from ldpbayes.regression.fitting import Model as Model
    from ldpbayes.regression.fitting import regress as regress
    from ldpbayes.regression.maximum import Maximum as Maximum

_HOMES = {
    "METHODS": "regression.fitting",
    "Maximum": "regression.maximum",
    "Model": "regression.fitting",
    "regress": "regression.fitting",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
