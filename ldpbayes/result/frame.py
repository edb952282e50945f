"""The class of results: a DataTree that can be read."""

from typing import Any

import xarray as xr

from ldpbayes.presenting import AbstractResult
from ldpbayes.result import extending
from ldpbayes.result.facts import facts_of, state
from ldpbayes.result.validation import validate


class Result(AbstractResult, xr.DataTree):
    """A posterior and what is said beside it: an xarray.DataTree, as ArviZ reads it, with a page, a table and a file.

    xarray takes it, and ArviZ: its functions of draws unless the result was made without any (``draws=0``), those of
    predictions, of the prior and of the likelihood after ``extend``. Groups and attributes are those that the module
    ldpbayes.result names.

    Examples
    --------
    >>> import ldpbayes as lb
    >>> result = lb.fit(lb.load_example("nigeria"), "flat", random_seed=1)
    >>> result.table()[["category", "distribution_mean"]].round(3).values.tolist()
    [['no', 0.738], ['yes', 0.262]]
    """

    #: The data and the prior of the fit; of a result that was loaded, copied or selected there are none.
    __slots__ = ("_problem",)
    _arrays = xr.DataTree

    @property
    def _call(self) -> str:  # type: ignore[override]  # a file has it
        return str(facts_of(self).get("call", ""))

    def _keep(self, call: str) -> None:
        state(self, {"call": call})

    def _random_seed(self) -> Any:
        return self.attrs.get("random_seed")

    def extend(self, *groups: str, collection: Any = None, by: str | None = None) -> "Result":
        """Add groups that ArviZ reads, under its names and with the dims of the posterior.

        Parameters
        ----------
        *groups : {"prior", "log_prior", "log_likelihood", "posterior_predictive", "prior_predictive"}
            Which; one that is there is made again.
        collection : Collection or Cells, optional
            What the result was fitted to, for a result that was loaded; regressions hold their reports.
        by : {"report", "cell"}, optional
            What one observation of ``log_likelihood`` is: a report, or all reports of a cell. By default the report, where
            all reports were kept and reports × draws are at most 5 · 10⁷.

        Returns
        -------
        Result
            This one. ``prior``: draws of what the posterior has, as many. ``log_prior``: the density of what power-scaling
            scales, of a Dirichlet prior in softmax coordinates, in which twice its logarithm is that of twice the
            concentrations; of any other prior that of its hyperparameters. ``log_likelihood``: ``reports``,
            log P(report | P), a value for each user; those with the same report have the same. Reports that do not depend
            on P are left out: they are the same in every model, and Pareto smoothing cannot take a constant. Predictions:
            ``reports``, a fresh report of every user as its place in the list of possible reports; where these cannot be
            listed, or are too many, counts of reports, supports or bits (of so many draws that users × draws of those that
            are simulated are at most 5 · 10⁷). What came in stands beside them in
            ``observed_data`` under the same name: ``plot_ppc_dist(result, var_names=["reports"])``.

        Raises
        ------
        ArgumentError
            On another name, where the collection is not that of the result, and for a prior that the result does not hold.
        InfeasibleError
            Where there are too many reports, they were not kept, or the prior has no density to scale.

        Notes
        -----
        In a model where every cell has its own P, leaving a whole cell out changes the posterior of its P a lot, and the
        Pareto k of ``arviz.loo`` shows it; leaving single reports out does not. The values leave the multinomial
        coefficients out, which those of ``pm.compute_log_likelihood`` hold where counts are observed: compare like with
        like.

        Examples
        --------
        >>> import ldpbayes as lb
        >>> result = lb.fit(lb.load_example("nigeria"), "flat", random_seed=1).extend("log_likelihood", "prior")
        >>> dict(result["log_likelihood"].sizes)
        {'chain': 4, 'draw': 1000, 'report': 2435}
        """
        extending.extend(self, groups, collection, by)
        return self

    def loo(self, *, collection: Any = None) -> Any:
        """Return what ``arviz.loo`` says of all reports, from the distinct ones, however many users sent them.

        Parameters
        ----------
        collection : Collection or Cells, optional
            As in extend.

        Returns
        -------
        arviz.ELPDData
            ``arviz.compare`` takes it. An observation is a user's report; users with the same report have the same elpd and
            the same Pareto k.

        Raises
        ------
        InfeasibleError
            Where reports were not kept, are weighted, or do not depend on P.
        """
        return extending.leave_one_out(self, collection)

    @property
    def fitted(self) -> tuple[Any, Any]:
        """(What the result was fitted to, the prior); None where a result does not hold them."""
        try:
            return self._problem
        except AttributeError:
            return None, None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in extending.GROUPS and key not in self.children:
            raise extending.missing(key)
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        # No AttributeError: ArviZ asks with hasattr for what it needs, and would hide how to get it.
        if name in extending.GROUPS and name not in self.children:
            raise extending.missing(name)
        return super().__getattr__(name)

    @property
    def tree(self) -> xr.DataTree:
        """The same groups and attributes as a plain DataTree."""
        return xr.DataTree(self.to_dataset(), dict(self.children))

    def to_tree(self) -> xr.DataTree:
        """Return what a file of the result holds: its tree, which follows the schema of results."""
        validate(self)
        return self.tree
