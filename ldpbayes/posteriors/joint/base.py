"""What makes an engine one for a prior over all cells."""

from typing import ClassVar

from ldpbayes.posteriors.base import AbstractPosterior


class AbstractJoint(AbstractPosterior):
    """A way to get the joint posterior of all cells; ``distribution`` has shape (chains, draws, cells, categories)."""

    needs: ClassVar[tuple[str, ...]] = ()
