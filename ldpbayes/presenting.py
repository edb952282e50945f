"""What every result and every answer has for its readers: a page, a table, a file and a short text.

Pages know all results, and results know of pages only by name, when one is asked for.
"""

import functools
import importlib
import inspect
import json
import os
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ldpbayes.errors import shown
from ldpbayes.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from ldpbayes.pages.page import Page

#: What completion of a result offers of xarray, beside the result's own names, groups, variables and attributes.
ARRAYS = ("attrs", "children", "coords", "data_vars", "dims", "groups", "isel", "sel", "sizes", "to_dataset", "to_netcdf")


class Recorded:
    """Something that states how it was called for."""

    __slots__ = ()
    #: What ``settings`` returns, as JSON.
    _call: Any = ""

    @property
    def settings(self) -> dict[str, Any]:
        """What it takes to compute this again: function, version and arguments.

        Arguments are given by name, with defaults and with the seed that was chosen. Data and other objects are described;
        an answer's results are their own settings.

        Examples
        --------
        >>> import ldpbayes as lb
        >>> nigeria = lb.load_example("nigeria")
        >>> result = lb.fit(nigeria, "flat")
        >>> arguments = result.settings["arguments"] | {"collection": nigeria}
        >>> bool((lb.fit(**arguments)["posterior"] == result["posterior"]).all()["frequency"])
        True
        """
        return json.loads(self._call or "{}")

    def _called(self, function: str, arguments: Mapping[str, Any]) -> None:
        """Keep how this was computed."""
        seed = self._random_seed()
        given = {name: plain(value) for name, value in arguments.items() if value is not None and name != "progressbar"}
        given |= {} if seed is None or "random_seed" not in arguments else {"random_seed": int(seed)}
        call = {"function": function, "version": __version__, "arguments": given}
        self._keep(json.dumps(call, sort_keys=True))

    def _keep(self, call: str) -> None:
        """Keep settings, as JSON."""
        object.__setattr__(self, "_call", call)

    def _random_seed(self) -> int | None:
        """Return the seed that this was computed with; None where nothing is drawn."""
        return None


class AbstractResult(Recorded):
    """Something that answers a question, and can be read, worked on and kept."""

    __slots__ = ()
    #: The class of xarray that this is too, where it is arrays.
    _arrays: ClassVar[Any] = None

    @property
    def headline(self) -> str:
        """The answer in one sentence: its number, and from how many reports, by what design and by which model it comes."""
        return self.page().summary

    def page(self, **settings: Any) -> "Page":
        """Return the Page: what ``ldpbayes.show`` returns of this.

        Parameters
        ----------
        **settings
            Of the page, such as ``top``, the number of rows.

        Returns
        -------
        ldpbayes.pages.Page
            A notebook displays it; ``page.render("markdown")`` is the same in another format.
        """
        return _pages().show(self, **settings)

    def table(self, **settings: Any) -> "pd.DataFrame":
        """Return the first table of the page with all its rows and every digit.

        The others are in ``page().tables``, each with ``frame()``.

        Parameters
        ----------
        **settings
            Of the page of this kind of result: ``ci_prob`` of estimates by maximum likelihood, ``title`` of answers and
            collections, ``top`` of any, which leaves the rows of a table as they are. A wrong name is refused with those
            there are.

        Returns
        -------
        pandas.DataFrame
            An interval is two columns, its lower and its upper end.
        """
        return importlib.import_module("ldpbayes.pages.showing").frame(self, **settings)

    def plot(self, ax: "Axes | Figure | SubFigure | None" = None, **style: Any) -> "Axes":
        """Draw the picture of this, which is the first one of its page, and return its Axes.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, optional
            Where to draw; a new figure of pyplot by default, which a notebook displays. Axes take a single panel.
        **style
            ``title``, ``figsize`` in inches, ``legend``, ``palette``, and arguments of the function of ``ldpbayes.plots``
            that draws it, such as ``top``.

        Returns
        -------
        matplotlib.axes.Axes
            Of several panels the first; ``figure`` is the whole picture.

        Raises
        ------
        ArgumentError
            Where this has no picture.
        InfeasibleError
            Where matplotlib is not installed.
        """
        return importlib.import_module("ldpbayes.pages.showing").plotted(self, ax, style)

    def save(self, path: str | PathLike) -> None:
        """Write this to a file, as ``ldpbayes.save`` does: a posterior as NetCDF, or the page in the format of the suffix.

        Parameters
        ----------
        path : path-like
            Ending in .nc, .html, .md, .json, .csv, .parquet, .tex or .txt.
        """
        _pages().save(self, path)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the page says beside the answer and its tables, warnings first: a tuple of sentences."""
        return tuple(note.text for note in self.page().ranked())

    def to_tree(self) -> "xr.DataTree | None":
        """Return what a NetCDF file of this holds; None where only the page can be kept."""
        return None

    def __dir__(self) -> list[str]:
        names = list(super().__dir__())
        if self._arrays is None:
            return names
        of_arrays = {name for name in dir(self._arrays) if not name.startswith("_")} - set(ARRAYS)
        return [name for name in names if name not in of_arrays or name in vars(AbstractResult)]

    def __repr__(self) -> str:
        try:
            return self.page().brief()
        except Exception:  # what is being built, a part of a result or one that somebody changed: arrays
            return super().__repr__()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        arrays = "" if self._arrays is None else self._arrays._repr_html_(self)
        try:
            page = self.page()._repr_html_()
        except Exception:
            if not arrays:
                raise
            return arrays
        return f"{page}<details><summary>All arrays (xarray)</summary>{arrays}</details>" if arrays else page


def recorded[F: Callable](function: F) -> F:
    """Return a function whose results state how it was called; see ``Recorded.settings``.

    Parameters
    ----------
    function : callable
        Returns something Recorded. Of a method, its object's class is named, with its fields.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        more = next((name for name, one in signature.parameters.items() if one.kind is one.VAR_KEYWORD), "")
        arguments = dict(bound.arguments)
        owner, others = arguments.pop("self", None), arguments.pop(more, {})
        name, fields = (function.__name__, {}) if owner is None else (type(owner).__name__, vars(owner))
        result._called(name, arguments | fields | others)
        return result

    return cast(F, call)


@functools.singledispatch
def plain(value: Any) -> Any:
    """Return an argument as JSON holds it; of an object of the package its short text, of any other its class.

    Parameters
    ----------
    value : object
        Modules register how theirs are stated.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Recorded) and value.settings:
        return value.settings
    if type(value).__module__.startswith("ldpbayes.") and not isinstance(value, AbstractResult):
        return shown(value)
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, PathLike):
        return os.fspath(value)
    return f"<{type(value).__name__}>"  # the text of a frame or a tree takes long to make


def _pages() -> Any:
    """Return the package of pages, which stands above all that have one."""
    return importlib.import_module("ldpbayes.pages")
