"""Point estimates: maximum likelihood, with a prior's mass, and the unbiased decoders (oracles)."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.estimators.mle import MLE
    from ldpbayes.estimators.oracle import Oracle

_HOMES = {
    "MLE": "estimators.mle",
    "Oracle": "estimators.oracle",
}

__all__ = [
    "MLE",
    "Oracle",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
