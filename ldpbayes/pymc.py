"""Reports in your own PyMC model: observe adds them, build_model writes a whole model, attach makes its trace a Result."""

from typing import TYPE_CHECKING

from ldpbayes.doors import lazily

if TYPE_CHECKING:
    from ldpbayes.model import build_model as build_model
    from ldpbayes.model import observe as observe
    from ldpbayes.private_groups.mixture import observe_mixture as observe_mixture
    from ldpbayes.result import attach as attach

_HOMES = {
    "attach": "result",
    "build_model": "model",
    "observe": "model",
    "observe_mixture": "private_groups.mixture",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)
