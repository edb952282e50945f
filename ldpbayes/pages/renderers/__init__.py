"""Renderers: one file each, found by importing this package; a page is written by name or by a file's suffix."""

import importlib
import pathlib
import pkgutil

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError
from ldpbayes.pages.page import Page
from ldpbayes.pages.renderers.base import AbstractRenderer

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def renderers() -> dict[str, type[AbstractRenderer]]:
    """Return the renderer classes by name: every concrete subclass of AbstractRenderer."""
    return {cls.name: cls for cls in AbstractRenderer.__subclasses__()}


def make_renderer(name: str, **settings) -> AbstractRenderer:
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
    known = renderers()
    checks.choice(name, "renderer", tuple(known))
    try:
        return known[name](**settings)
    except TypeError as err:
        raise ArgumentError(f"renderer {name!r} does not take these settings: {err}.") from err


def renderer_of(path) -> AbstractRenderer:
    """Return the renderer for a file, chosen by its suffix.

    Raises
    ------
    ArgumentError
        Where no renderer writes files with this suffix.
    """
    suffixes = {suffix: cls for cls in renderers().values() for suffix in cls.suffixes}
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in suffixes:
        raise ArgumentError(f"page must end in one of {', '.join(sorted(suffixes))}, got {str(path)!r}.")
    return suffixes[suffix]()


def write(page: Page, path) -> None:
    """Write a page to a file, in the format of its suffix, whole or not at all.

    Parameters
    ----------
    page : Page
    path : path-like
        Ending in .html, .md, .json, .csv, .parquet, .tex or .txt.

    Raises
    ------
    ArgumentError
        Where no renderer writes files with this suffix.
    DataError
        Where the file cannot be written.
    """
    files.write_bytes(path, renderer_of(path).encode(page))
