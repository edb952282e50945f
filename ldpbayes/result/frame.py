"""The class of results: a DataTree that can be read."""

import xarray as xr

from ldpbayes.presenting import AbstractResult
from ldpbayes.result.validation import validate


class Result(AbstractResult, xr.DataTree):
    """A posterior and what is said beside it: an xarray.DataTree, as ArviZ reads it, with a page, a table and a file.

    xarray takes it, and ArviZ: its functions of draws unless the result was made without any (``draws=0``), ``loo`` and
    ``compare`` after ``add_log_likelihood``, those of predictions and of the prior where a trace brought these to
    ``attach``. What its ``psense_summary`` says stands in the group ``sensitivity``. Groups and attributes are those that
    the module ldpbayes.result names.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> result = lb.fit(lb.load_example("nigeria"), "flat", random_seed=1)
    >>> result.table()[["category", "distribution_mean"]].round(3).values.tolist()
    [['no', 0.738], ['yes', 0.262]]
    """

    __slots__ = ()
    _arrays = xr.DataTree

    @property
    def tree(self) -> xr.DataTree:
        """The same groups and attributes as a plain DataTree."""
        return xr.DataTree(self.to_dataset(), dict(self.children))

    def to_tree(self) -> xr.DataTree:
        """Return what a file of the result holds: its tree, which follows the schema of results."""
        validate(self)
        return self.tree
