"""What every renderer is: a page in, text or the bytes of a file out."""

import abc
from typing import Any, ClassVar

from ldpbayes import checks
from ldpbayes.errors import ArgumentError


class AbstractRenderer[Page](abc.ABC):
    """A format in which pages are written. Settings are fields of the (frozen dataclass) subclass, all with defaults.

    A page needs its renderers, so that these take its type from it and do not import it.
    """

    #: What people call it.
    name: ClassVar[str]
    #: Endings of the files that it writes.
    suffixes: ClassVar[tuple[str, ...]] = ()
    #: Format of the pictures that stand beside a file and are its setting ``links``; empty where none do.
    picture: ClassVar[str] = ""

    @abc.abstractmethod
    def render(self, page: Page) -> str:
        """Return the page as text."""

    def encode(self, page: Page) -> bytes:
        """Return what a file of this format holds: the text in UTF-8, except for formats that are no text."""
        return self.render(page).encode()


def renderers() -> dict[str, type[AbstractRenderer[Any]]]:
    """Return the renderer classes by name: every concrete subclass of AbstractRenderer."""
    return {cls.name: cls for cls in AbstractRenderer.__subclasses__()}


def make_renderer(name: str, **settings) -> AbstractRenderer[Any]:
    """Return a renderer by its name, with its settings.

    Parameters
    ----------
    name : str
        Such as "terminal", "json", "markdown" or "html".
    **settings
        Fields of the renderer.

    Returns
    -------
    AbstractRenderer

    Raises
    ------
    ArgumentError
        On an unknown name or setting.
    """
    classes = renderers()
    checks.choice(name, "renderer", tuple(classes))
    try:
        return classes[name](**settings)
    except TypeError as err:
        raise ArgumentError(f"renderer {name!r} does not take these settings: {err}.") from err
