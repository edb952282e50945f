"""PyMC: the likelihood of a collection inside any PyMC model, and the plain model under a prior of the package."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ldpbayes import checks
from ldpbayes.collections import as_data, tensor, tensor_rates
from ldpbayes.collections.devices import with_outcomes
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.likelihoods import StackedRows
from ldpbayes.methods import expanded
from ldpbayes.priors import DEFAULT, as_dirichlet, prior_for
from ldpbayes.road.ruling import rule

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor.variable import TensorVariable

LIKELIHOODS = ("full", "surrogate")
#: Rule: Cells are expanded at their pooled mean with a standard deviation of this share of it, as ``Sampler.spread`` first
#: does: a share of .1 is taken to be .04 to .16 in 95 % of the cells. Half is .07 to .13, beyond which many real groups
#: lie; with double shares below zero count, where log-likelihoods are steep. Weights on the true likelihood correct either.
FIRST_SPREAD = 0.3


def observe(
    name: str,
    p: Any,
    collection: Any,
    *,
    dims: str | Sequence[str] | None = None,
    likelihood: str = "full",
    prior: Any = DEFAULT,
    channel: Any = None,
) -> "tuple[TensorVariable, ...]":
    """Add the likelihood of reports to the PyMC model on the context stack.

    A protocol with at most MAX_OUTPUTS possible reports becomes ``Multinomial(n, Q p)`` over all of them; so does one whose
    reports each single out one category (GRR, forced response, any two categories), where Q p costs O(a). Any other
    protocol becomes a distribution whose log-probability is that of the whole reports, Σ_j w_j log (L p)_j, and whose value
    is the support counts C_x, which people look at. For both, ``pm.sample_posterior_predictive`` predicts report or support
    counts of fresh users and ``pm.compute_log_likelihood`` gives log P(reports | p).

    Cells enter together: one variable holds the reports of all cells through a channel, so that the model is compiled once
    however many cells there are, and its log-likelihood has one value per cell. For a single collection each channel is one
    observation; the result of ``attach`` has a log-likelihood of each report by ``extend``, for leave-one-out comparison.

    The *surrogate* log-likelihood c + Σ_x b_x p_x − D_x p_x²/2 costs O(a) for any number of reports, and takes reports
    whose rows no PyMC model could hold. It is an approximation, good near the pilot at which the likelihood is expanded:
    weigh the draws by the true likelihood over it before relying on them.

    Parameters
    ----------
    name : str
        Of the observed variable; with several channels it is ``{name}_{channel}``, one variable each.
    p : (a,) or (cells, a) tensor
        The distribution of the private values, on the simplex: any expression of the model's variables, of ``pymc.dims``
        too. Where its dims have coords with the labels of the data, they stand in the order of the data.
    collection : Collection, Summary or Cells
        Cells need a p with one row per cell, in their order.
    dims : tuple of str, optional
        Names of p's dimensions, such as ("cell", "category"); observed variables then have them instead of their own.
    likelihood : {"full", "surrogate"}
        Summaries are surrogates in either case: to expand elsewhere, pass ``cells.summaries(pilot, spread)``.
    prior : {"default"}, str, float, array or Dirichlet
        Of "surrogate" only: a collection is expanded at its posterior mean under this prior, cells are expanded at the
        posterior mean of their pooled reports. By default Jeffreys', because a place for an expansion need not be learnt.
    channel : (b, a) tensor, pair of tensors, or mapping of str to these, optional
        The device itself, where its probabilities are variables of the model: P(report | category), a row per report and a
        column per category, whose columns (sums over axis 0) add up to one, for a protocol whose reports can be listed; two
        rates for others. Those of unary encodings and RAPPOR are the chances that a bit is sent as one where the value sets
        it and where it does not, of local hashing the chances of the value's own bucket and of any other one. With several
        channels a mapping by their names. Constants are checked; variables are not: a transposed tensor is another device.

    Returns
    -------
    tuple of TensorVariable
        One observed variable per channel; cells whose channels have different numbers of reports need several.

    Raises
    ------
    ArgumentError
        Where p does not have one entry per category (and one row per cell) or is a free variable that does not add up to
        one, coords have the labels of the data in another order, the model has a variable of that name, or the collection
        is none.
    InfeasibleError
        Where the likelihood rows have more than MAX_ENTRIES entries; the surrogate of two categories.

    Notes
    -----
    Arrays enter as ``pm.Data`` named ``{variable}_…``, so that draws do not depend on what was compiled before. New counts
    are ``pm.set_data({"{variable}_counts": counts.astype("uint64")})``: ``set_data`` casts signed integers to 32 bits, and
    they are refused. The support counts are a summary, not sufficient: the log-probability reads the rows in
    ``{variable}_rows`` and ``{variable}_weights``, and predictions the number in ``{variable}_users``, so new data for such
    a channel go there (or into a new model); new support counts are refused.
    Predicting them runs the protocol's own NumPy simulation; PyTensor warns once ("object mode"), which is harmless.

    Examples
    --------
    Groups that borrow strength from each other, each with its own reports over the same categories:

    >>> import pymc as pm
    >>> from ldpbayes import GRR, Cells, Collection, Tally
    >>> from ldpbayes.pymc import observe
    >>> counts = {"north": [40, 30, 30], "south": [8, 7, 5]}
    >>> categories = ["a", "b", "c"]
    >>> groups = Cells({g: Collection(categories, [Tally(GRR(3, 1.0), [0, 1, 2], c)]) for g, c in counts.items()})
    >>> with pm.Model(coords={"cell": groups.labels, "category": categories}) as model:
    ...     centre = pm.Normal("centre", dims="category")
    ...     spread = pm.HalfNormal("spread")
    ...     z = pm.Normal("z", dims=("cell", "category"))
    ...     p = pm.Deterministic("p", pm.math.softmax(centre + spread * z, axis=-1), dims=("cell", "category"))
    ...     _ = observe("reports", p, groups, dims=("cell", "category"))
    >>> [variable.name for variable in model.observed_RVs]
    ['reports']
    """
    checks.choice(likelihood, "likelihood", LIKELIHOODS)
    name = tensor.variable_name(name, "observe")
    given, p = p, tensor.as_tensor(p).astype("float64")  # as counts and rows are, whatever the model computes in
    if dims is not None:
        dims = (
            (dims,) if isinstance(dims, str) else checks.labels(dims, "dims", f"one name for each of the {p.ndim} dims of p")
        )
        if len(dims) != p.type.ndim:
            raise ArgumentError(f"dims must have one name for each of the {p.type.ndim} dimensions of p, got {dims}.")
        p = tensor.as_tensor(given, dims).astype("float64")
    collection = as_data(collection)
    tensor.check_order(given, dims, (collection.labels, collection.categories)[-len(collection.dims) :])
    tensor.check_shape(p, collection, bool(collection.by))
    tensor.check_simplex(given, p)
    if channel is not None:
        return tensor_rates.observe(name, p, collection, channel, dims)
    expansion = expand(collection, prior) if likelihood == "surrogate" and collection.channels() else None
    return tensor.observe(name, p, collection, dims, expansion)


def build_model(collection: Any, prior: Any = DEFAULT, *, likelihood: str = "full") -> "pm.Model":
    """Return the PyMC model p ~ prior, reports ~ collection, in coordinates that NUTS samples well.

    ``distribution`` (dim category) is p, over the outcomes of a device whose probabilities are not known exactly, which are
    then variables by their names; ``reports`` or ``reports_{channel}`` are observed. The coordinates are chosen by
    measurement: see ``Dirichlet.pymc``.

    Parameters
    ----------
    collection : Collection
    prior : as in fit
    likelihood : {"full", "surrogate"}
        See observe.

    Returns
    -------
    pymc.Model
    """
    checks.choice(likelihood, "likelihood", LIKELIHOODS)
    collection = with_outcomes(collection)
    expansion = expand(collection, prior) if likelihood == "surrogate" else None
    return tensor.build(collection, prior_for(rule(prior, collection, "auto").prior, collection), expansion)


def expand(data, prior):
    """Return (mean, variances) at which likelihoods are expanded: those of the surrogate posterior of all reports.

    Parameters
    ----------
    data : Collection or Cells
        Cells are expanded at their common mean with a standard deviation of FIRST_SPREAD times it.
    prior : as in observe

    Returns
    -------
    tuple of two (a,) arrays

    Raises
    ------
    InfeasibleError
        On two categories, and a prior that is not Dirichlet.
    """
    if data.n_categories < 3:
        raise InfeasibleError("The surrogate needs three categories; the full likelihood of two costs next to nothing.")
    alpha = as_dirichlet(
        "jeffreys" if isinstance(prior, str) and prior == DEFAULT else prior, data.n_categories, "The surrogate likelihood"
    ).alpha
    rows = [tally.rows for same in data.channels().values() for _, tally in same]
    mean, spread = expanded.pilot(rows[0] if len(rows) == 1 else StackedRows(rows), alpha)
    return mean, (FIRST_SPREAD * mean) ** 2 if len(data.dims) > 1 else spread
