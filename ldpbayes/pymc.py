"""Reports inside models of PyMC: their likelihood, models made of it, and results from the draws."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.model import build_model, observe
    from ldpbayes.outcomes.mixture import observe_mixture
    from ldpbayes.result import add_log_likelihood, attach

_HOMES = {
    "add_log_likelihood": "result",
    "attach": "result",
    "build_model": "model",
    "observe": "model",
    "observe_mixture": "outcomes.mixture",
}

__all__ = [
    "add_log_likelihood",
    "attach",
    "build_model",
    "observe",
    "observe_mixture",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
