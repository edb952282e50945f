"""What every result and every answer has for its readers: a page, a table, a file and a short text.

Pages know all results, and results know of pages only by name, when one is asked for.
"""

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class AbstractResult:
    """Something that answers a question, and can be read, worked on and kept."""

    __slots__ = ()
    #: The class of xarray that this is too, where it is arrays.
    _arrays: ClassVar[Any] = None

    def page(self, **settings: Any) -> Any:
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

        Parameters
        ----------
        **settings
            Of the page.

        Returns
        -------
        pandas.DataFrame
            An interval is two columns, its lower and its upper end.
        """
        return _pages().frame(self, **settings)

    def save(self, path: str | PathLike) -> None:
        """Write this to a file, as ``ldpbayes.save`` does: a posterior as NetCDF, or the page in the format of the suffix.

        Parameters
        ----------
        path : path-like
            Ending in .nc, .html, .md, .json, .csv, .parquet, .tex or .txt.
        """
        _pages().save(self, path)

    @property
    def notes(self) -> Any:
        """What the page says beside the answer and its tables, warnings first: a tuple of sentences."""
        return tuple(note.text for note in self.page().ranked())

    def to_tree(self) -> "xr.DataTree | None":
        """Return what a NetCDF file of this holds; None where only the page can be kept."""
        return None

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


def _pages() -> Any:
    """Return the package of pages, which stands above all that have one."""
    return importlib.import_module("ldpbayes.pages")
