"""Point estimates of c: ``MLE()(c)``, which check takes; unbiased ``Oracle()(c)``; for lists ``difference_in_means(c)``."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.estimators.mle import MLE
    from ldpbayes.estimators.oracle import Oracle
    from ldpbayes.surveys.lists import difference_in_means

_HOMES = {
    "MLE": "estimators.mle",
    "Oracle": "estimators.oracle",
    "difference_in_means": "surveys.lists",
}

__all__ = [
    "MLE",
    "Oracle",
    "difference_in_means",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
