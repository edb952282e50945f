"""What every result and every answer has for its readers: a page, a table, a file and a short text.

Pages know all results, and results know of pages only by name, when one is asked for.
"""

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


class AbstractResult:
    """Something that answers a question, and can be read, worked on and kept."""

    __slots__ = ()

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
        return self.page(**settings).frame()

    def save(self, path: str | PathLike) -> None:
        """Write the page to a file, in the format of its suffix.

        Parameters
        ----------
        path : path-like
            Ending in .html, .md, .json, .csv, .parquet, .tex or .txt.

        Raises
        ------
        ArgumentError
            Where the file has another ending.
        DataError
            Where the file cannot be written.
        """
        _pages().write(self.page(), path)

    def __repr__(self) -> str:
        return self.page().brief()

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


def _pages() -> Any:
    """Return the package of pages, which stands above all that have one."""
    return importlib.import_module("ldpbayes.pages")
