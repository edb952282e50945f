"""Tables that rooms fill: a folder with a file ``registered.py`` is a room, and this file is all that the core reads of it.

A room is what one may leave closed: it stands on the core, and the core never imports it. Its ``registered.py`` has tables,
dicts by the names below, whose values name modules of the room as text, so that nothing of it loads before it is needed.

- ``PAGES``: the full name of a class → (what it is, in words, and the function that makes its page).
- ``TREES``: an attribute of results → the function that makes the page of results that have it.
- ``LISTS``: the full name of a class → the function that makes the page of a list of its objects.
- ``SETTINGS``: a setting of pages → the function that checks it, given its value and its name.
- ``PROTOCOLS``: the name of a protocol → the module that defines it.
- ``USERS``: "histories" → the function that makes histories of single reports and their users; "read" → their reader.
- ``FACTS``: a word → the function that returns attributes of a result, given the data.
- ``DESCRIBERS``: what is described, as a sentence starts → the function that returns attributes of a result, given its
  log-evidence, the collection, the prior and a function that returns log-evidences.
- ``TABLES``: a table of the page of a fit → the function that makes it of a result, or returns None.
- ``FIGURES``: a figure beside the page of a fit → the function that makes it of a result and its data, or returns None.
- ``ODDS``: an attribute of results, or the full name of a class → the function that makes their odds ratios.
- ``DENSITIES``: an attribute of results → the function that returns the log-density of what was observed beside a report,
  given each answer, (draws, rows, categories), of a result, rows of the group ``outcome_design`` and outcomes.
- ``ANSWERS``: a figure beside the page of an answer → the function that makes it of the answer, or returns None.
- ``SOURCES``: a library → the function that makes a source of its data, or returns None; asked where the library is loaded.
- ``CELLS``: "read" and "write" → the functions for files of cells without their reports. The first is given paths, and says
  None of other files.
- ``HOLDERS``: what a stored file says it holds → the module whose ``from_tree`` reads it.
"""

import functools
import importlib
import pathlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any


@functools.cache
def brought(table: str) -> dict[str, Any]:
    """Return the entries that all rooms have in a table.

    Parameters
    ----------
    table : str
        Its name, such as "PAGES".

    Returns
    -------
    dict
    """
    return {key: value for room in _rooms() for key, value in vars(room).get(table, {}).items()}


def function(name: str) -> Callable[..., Any]:
    """Return a function that a table names.

    Parameters
    ----------
    name : str
        Its module below ldpbayes, and its own name, such as "planning.page.of_plan".

    Returns
    -------
    callable
    """
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(f"ldpbayes.{module}"), last)


@functools.cache
def _rooms() -> list[ModuleType]:
    """Return the ``registered`` modules of all rooms, by the names of the rooms."""
    here = pathlib.Path(__file__).parent
    folders = [folder.name for folder in pkgutil.iter_modules([str(here)]) if folder.ispkg]
    rooms = [name for name in folders if any(file.name == "registered" for file in pkgutil.iter_modules([str(here / name)]))]
    return [importlib.import_module(f"ldpbayes.{name}.registered") for name in rooms]
