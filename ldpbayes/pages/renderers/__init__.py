"""Renderers: one file each, found by importing this package; a page is written in the format of a file's suffix."""

import importlib
import pathlib
import pkgutil
import re

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.pages.page import Page
from ldpbayes.pages.rendering import AbstractRenderer, make_renderer, renderers

#: Characters that a link in Markdown or LaTeX would have to escape.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def renderer_of(path, name: str = "page", others: tuple[str, ...] = ()) -> AbstractRenderer:
    """Return the renderer for a file, chosen by its suffix; a refusal names the argument, and the other endings it takes.

    Raises
    ------
    ArgumentError
        Where no renderer writes files with this suffix.
    """
    suffixes = {suffix: cls for cls in renderers().values() for suffix in cls.suffixes}
    suffix = files.as_path(path).suffix.lower()
    if suffix not in suffixes:
        raise ArgumentError(f"{name} must end in one of {', '.join(sorted((*suffixes, *others)))}, got {shown(str(path))}.")
    return suffixes[suffix]()


def folder_of(path) -> pathlib.Path:
    """Return the folder beside a page that holds its pictures: ``out-figures`` of ``out.md``; a name that links can have."""
    path = pathlib.Path(path)
    return path.with_name(f"{_UNSAFE.sub('-', path.stem)}-figures")


def check_page(path) -> None:
    """Raise what writing a page there would end in, before time is spent on it.

    Raises
    ------
    ArgumentError
        Where no renderer writes files with this suffix.
    DataError
        Where the page, or the folder of its pictures, cannot be written.
    """
    renderer = renderer_of(path)
    files.check_output(path)
    if renderer.picture:
        files.check_folder(folder_of(path))


def write(page: Page, path) -> None:
    """Write a page to a file, after its pictures, so that it never links what is not there; see ``ldpbayes.save``.

    Without matplotlib pages in Markdown and LaTeX have no figures.
    """
    checks.instance(page, "page", Page, "a Page")
    renderer = renderer_of(path)
    if renderer.picture and page.figures:
        folder, pictures = folder_of(path), [_picture(figure, renderer.picture) for figure in page.figures]
        names = [f"{i}-{figure.name}.{renderer.picture}" for i, figure in enumerate(page.figures, 1)]
        drawn = {name: picture for name, picture in zip(names, pictures, strict=True) if picture}
        if drawn:
            files.make_folder(folder)
        for name, picture in drawn.items():
            files.write_bytes(folder / name, picture)
        links = tuple(f"{folder.name}/{name}" if name in drawn else "" for name in names)
        renderer = make_renderer(renderer.name, links=links)
    files.write_bytes(path, renderer.encode(page))


def _picture(figure, kind: str) -> bytes:
    """Return a figure as the bytes of a picture; empty where matplotlib is not installed."""
    from ldpbayes.plots import to_pdf, to_svg

    try:
        drawn = figure.draw()
    except InfeasibleError:
        return b""
    return to_svg(drawn).encode() if kind == "svg" else to_pdf(drawn)
