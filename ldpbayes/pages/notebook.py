"""Notebooks show a result as its page: a table and what to know about it, with the tree of arrays folded below."""

import sys

#: Where xarray defines the class of results, for a formatter that does not import xarray.
_CLASS = ("xarray.core.datatree", "DataTree")


def register(formatter=None) -> bool:
    """Make notebooks display the results of ldpbayes as pages; other trees are displayed as before.

    ``import ldpbayes`` calls this. A result stays an xarray.DataTree, which every function of xarray and ArviZ takes.

    Parameters
    ----------
    formatter : IPython formatter, optional
        Of HTML; that of the running IPython session by default.

    Returns
    -------
    bool
        Whether there is a formatter.
    """
    if formatter is None:
        session = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        formatter = None if session is None else session.display_formatter.formatters["text/html"]
    if formatter is None:
        return False
    formatter.for_type_by_name(*_CLASS, html_of)
    return True


def is_result(tree) -> bool:
    """Return whether a DataTree is a result of fit or attach, with all that its page needs."""
    facts = ("collection", "title", "method", "reason", "settings", "random_seed", "n_reports")
    return "summary" in tree.children and all(name in tree.attrs for name in facts)


def html_of(tree) -> str:
    """Return what a notebook shows of a DataTree."""
    arrays = tree._repr_html_()
    if not is_result(tree):
        return arrays
    from ldpbayes.pages.showing import show

    return f"{show(tree)._repr_html_()}<details><summary>All arrays (xarray.DataTree)</summary>{arrays}</details>"
