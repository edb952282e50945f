"""In your own PyMC model: observe(name, p, data) adds reports; build_model(data) makes one; attach(trace, data) a result."""

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
