"""One function that makes the page of anything that has one, and the one list of what has."""

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

from ldpbayes import checks, files, rooms
from ldpbayes.collections import Cells, Collection, as_data
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.pages.about import about, again, fingerprint, known_of
from ldpbayes.pages.page import TOP, Page
from ldpbayes.pages.renderers import renderer_of, write
from ldpbayes.plots.base import on_axes
from ldpbayes.presenting import AbstractResult
from ldpbayes.result import saving
from ldpbayes.result.facts import facts_of

#: What of the core has a page, in words, by the class that knows it (of itself or of a base class); the builder of its page.
PAGES = {
    "ldpbayes.fitness.base.Fitness": ("a Fitness", "pages.check.of_check"),
    "ldpbayes.fitness.cells.CellsFitness": ("a CellsFitness", "pages.check.of_check_of_cells"),
    "ldpbayes.fitness.base.ComplianceTest": ("a ComplianceTest", "pages.check.of_compliance"),
    "ldpbayes.estimators.estimate.Estimate": ("an Estimate", "pages.estimate.of_estimate"),
    "ldpbayes.road.methods.Choice": ("a Choice", "pages.data.of_choice"),
    "ldpbayes.collections.cells.Cells": ("Cells", "pages.data.of_cells"),
    "ldpbayes.collections.collection.Collection": ("a Collection", "pages.data.of_collection"),
    "ldpbayes.collections.tally.Tally": ("a Tally", "pages.data.of_tally"),
    "xarray.core.dataset.Dataset": ("an Answer", "pages.answers.of_dataset"),
}
_TREE = "xarray.core.datatree.DataTree"
_TRACE = "arviz.data.inference_data.InferenceData"
_RESULT = "a result of fit, regress, associate or attach"
#: What makes the first table alone, of pages that have much beside it.
TABLES = {"pages.fit.of_fit": "pages.fit.first_table"}
#: Ending of the files that ``load`` reads.
STORED = ".nc"
#: Builders of the pages of data themselves.
_OF_DATA = ("pages.data.of_collection", "pages.data.of_cells", "pages.data.of_tally")
#: The rows of a table, which any page can be asked for.
_TOP = inspect.Parameter("top", inspect.Parameter.KEYWORD_ONLY, default=TOP)
#: Facts without which a tree of arrays is no result.
_FACTS = ("title", "method", "n_reports")


def show(result: Any, *, collection: Any = None, command: str = "", **settings: Any) -> Page:
    """Return the Page of a result or of data, to print or to save: its tables, figures, warnings and notes.

    A notebook displays the page as HTML, an interactive session as text.

    Parameters
    ----------
    result : DataTree, Dataset, Collection, Cells, list of Plan or another result of the package
        What ``fit``, ``regress``, ``associate`` or another function of the package returned, or the data themselves.
    collection : Collection or Cells, optional
        The data that the result is of: the page then says question, design and source.
    command : str
        The line for a shell that makes this page.
    **settings
        Of this kind of result, such as ``title``, and ``top`` of any: the rows of a table (files have all of them).

    Returns
    -------
    Page
        ``page.render("markdown")`` is the same in another format, ``page.save(path)`` a file.

    Raises
    ------
    ArgumentError
        On anything else, listing what has a page, and on a setting that this page does not take.

    Examples
    --------
    >>> from ldpbayes import Collection, Tally, fit
    >>> from ldpbayes.protocols.designs import warner
    >>> survey = Collection(["no", "yes"], [Tally(warner(0.7), [0, 1], [60, 40])], title="A survey")
    >>> page = show(fit(survey, prior="flat", random_seed=1))
    >>> page.title, [round(row[1], 3) for row in page.tables[0].rows]
    ('A survey', [0.259])
    """
    name = _builder(result)
    if name is None:
        names = _names(result)
        if _TRACE in names or (_TREE in names and "posterior" in result.children):
            raise ArgumentError(f"show takes {_RESULT}; lb.pymc.attach(trace, data) turns a trace of PyMC into a result.")
        others = ", ".join(words for words, _ in (PAGES | rooms.brought("PAGES")).values())
        raise ArgumentError(f"show takes {_RESULT}, {others} or a list of Plan, got {shown(result)}.")
    build = rooms.function(name)
    parameters = dict(list(inspect.signature(build).parameters.items())[1:])
    data = result if name in _OF_DATA else collection
    if collection is not None:
        checks.instance(collection, "collection", (Collection, Cells), "the Collection or Cells that the result is of")
        settings |= {"collection": collection} if "collection" in parameters else {}
    if settings.get("top") is None:
        settings.pop("top", None)
    settings = _checked(settings, {"top": _TOP} | parameters)
    most = None if "top" in parameters else settings.pop("top", TOP)
    page = build(result, **settings)
    if most is not None:
        page = replace(page, tables=tuple(table.first(most) for table in page.tables))
    facts = dict(page.again)
    if isinstance(result, AbstractResult) and result.settings:
        facts["Settings"] = json.dumps(result.settings)
    if _TREE in _names(result):
        facts = known_of(result)
    elif data is not None:
        data = as_data(data)
        facts["Data (SHA-256)"] = fingerprint(data)
    words = about(data) if data is not None else {}
    return replace(page, about=words | dict(page.about), again=again(checks.text(command, "command"), facts))


def frame(result: Any, **settings: Any) -> Any:
    """Return the first table of the page of a result with all its rows, as a data frame.

    Parameters
    ----------
    result, **settings
        As in show.
    """
    name = None if settings else _builder(result)
    return rooms.function(TABLES[name])(result).frame() if name in TABLES else show(result, **settings).frame()


def plotted(result: AbstractResult, ax: Any, style: dict[str, Any]) -> Any:
    """Draw the first figure of the page of a result, and return its first Axes.

    Parameters
    ----------
    result : AbstractResult
    ax : matplotlib Axes, Figure or SubFigure, optional
    style : dict
        As for ``AbstractResult.plot``.
    """
    figures = result.page().figures
    if not figures:
        raise ArgumentError(f"This {type(result).__name__} has no picture; its numbers are in table().")
    return on_axes(figures[0].alone or figures[0].draw, ax, style)


def save(result: Any, path: str | PathLike) -> None:
    """Write a posterior to .nc, for ``load``, or any result's page to .html, .md, .csv …; a failed write changes no file.

    ``load`` reads NetCDF, which has a checksum behind it and all that a posterior holds. Pages in Markdown and LaTeX link
    their figures, which are written into a folder beside the page: that of ``out.md`` is ``out-figures``.

    Parameters
    ----------
    result : Result, PrivateGroups, DataTree, Page, or anything that ``show`` takes
        What is not a posterior or private groups has a page only.
    path : path-like
        Ending in .nc for NetCDF; in .html, .md, .json, .csv, .parquet, .tex or .txt for a page.

    Raises
    ------
    ArgumentError
        Where the file has another ending, or its kind is not one of the result.
    DataError
        Where the file cannot be written.
    """
    if files.as_path(path).suffix.lower() == STORED:
        saving.save(result, path)
    else:
        renderer_of(path, "path", (STORED,))
        write(result if isinstance(result, Page) else show(result), path)


def _builder(result) -> str | None:
    """Return the name of the function that builds the page of a result, or None where it has no page."""
    names, known = _names(result), PAGES | rooms.brought("PAGES")
    for name in names:
        if name in known:
            return known[name][1]
    if _TREE in names:  # a tree of arrays says itself what it is the result of
        if "summary" not in result.children or any(fact not in facts_of(result) for fact in _FACTS):
            return None
        return next((name for attr, name in rooms.brought("TREES").items() if attr in facts_of(result)), "pages.fit.of_fit")
    entries = [_names(entry) for entry in result] if isinstance(result, list | tuple) and result else [[]]
    return next((page for cls, page in rooms.brought("LISTS").items() if all(cls in names for names in entries)), None)


def _names(result) -> list[str]:
    """Return the full names of the classes of an object, its own first: nothing is imported to ask for them."""
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in type(result).__mro__]


def _checked(settings: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, each checked by its name; None stands for the default of a setting that has none."""
    out, of_rooms = {}, rooms.brought("SETTINGS")
    for name, value in settings.items():
        if name not in parameters:
            takes = ", ".join(dict.fromkeys((*parameters, "collection", "command")))
            raise ArgumentError(f"show of this result takes {takes}, got {shown(name)}.")
        if value is not None or parameters[name].default is not None:
            rule = rooms.function(of_rooms[name]) if name in of_rooms else _SETTINGS.get(name)
            out[name] = value if rule is None else rule(value, name)
    return out


#: Settings of builders by name: what each must be.
_SETTINGS: dict[str, Callable[[Any, str], Any]] = {
    "top": lambda value, name: checks.integer(value, name, minimum=1),
    "ci_prob": lambda value, name: checks.probability(value, name, open_low=True, open_high=True),
    **dict.fromkeys(("assumed", "design", "title", "unit"), checks.text),
    "groups": lambda value, name: checks.integer(value, name, minimum=2),
    **dict.fromkeys(("delta", "fakes"), checks.probability),
}
