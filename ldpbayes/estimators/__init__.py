"""Point estimates: maximum likelihood, with a prior's mass, and the unbiased decoders (oracles)."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.estimators.mle import MAP, MLE
    from ldpbayes.estimators.oracle import Oracle

_HOMES = {
    "MAP": "estimators.mle",
    "MLE": "estimators.mle",
    "Oracle": "estimators.oracle",
}

__all__ = [
    "MAP",
    "MLE",
    "Oracle",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
