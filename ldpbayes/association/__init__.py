"""Association between several privatized questions: the table of their joint distribution, and what it says of pairs.

From the core it takes protocols and likelihoods of one attribute, the log-linear prior, ``fit`` and evidences, and the
parts of answers, pages and figures. It brings protocols of several attributes and the page of tables (``registered.py``),
the command ``associate``, six answers and a figure.
"""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.association.fitting import associate as associate

_HOMES = {"associate": "association.fitting"}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
