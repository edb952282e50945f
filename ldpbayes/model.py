"""PyMC: the likelihood of a collection inside any PyMC model, and the plain model with a Dirichlet prior."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ldpbayes import checks
from ldpbayes.compiling import give_pytensor_a_folder
from ldpbayes.errors import ArgumentError, InfeasibleError
from ldpbayes.priors import Dirichlet, as_dirichlet, as_prior
from ldpbayes.protocols.base import distinct

#: Protocols with at most this many possible reports are observed as one multinomial over all of them (GRR: any number).
MAX_OUTPUTS = 1024
#: Dense likelihood rows with more entries than this do not go into a PyMC model.
MAX_ENTRIES = 2**25
LIKELIHOODS = ("full", "surrogate")

give_pytensor_a_folder()


def observe(name, p, collection, *, likelihood="full", prior="jeffreys"):
    """Add the likelihood of a collection to the PyMC model on the context stack.

    A protocol with at most MAX_OUTPUTS possible reports becomes ``Multinomial(n, Q p)`` over all of them; so does one whose
    reports each single out one category (GRR, forced response, any two categories), where Q p costs O(a). Any other
    protocol becomes a distribution whose log-probability is that of the whole reports, Σ_j w_j log (L p)_j, spec 1.1, and
    whose value is their summary that people look at, the support counts C_x. So for both, ``pm.sample_posterior_predictive``
    predicts report or support counts of fresh users and ``pm.compute_log_likelihood`` gives log P(reports | p). Each
    tally is one observation: leave-one-out comparison has nothing to leave out.

    The *surrogate* log-likelihood c + Σ_x b_x p_x − D_x p_x²/2 costs O(a) whatever the number of reports, and takes reports
    whose rows no PyMC model could hold. It is an approximation, good near the posterior that the reports have under
    ``prior``; weigh the draws by collection.rows.log_likelihood over it, as NUTS(likelihood="surrogate") does, before
    relying on it.

    Parameters
    ----------
    name : str
        Of the observed variable; with several channels it is ``{name}_{channel}``, one variable each.
    p : (a,) tensor
        The distribution of the private values, on the simplex: any expression of the model's variables.
    collection : Collection
    likelihood : {"full", "surrogate"}
    prior : str, float, array or Dirichlet
        Of "surrogate" only: the likelihood is expanded at the posterior mean under this prior.

    Returns
    -------
    tuple of TensorVariable
        One observed variable per channel.

    Raises
    ------
    ArgumentError
        Where p is not a vector with one entry per category.
    InfeasibleError
        Where the likelihood rows have more than MAX_ENTRIES entries; the surrogate of two categories.

    Notes
    -----
    Arrays enter as ``pm.Data`` named ``{variable}_…``, so that draws do not depend on what was compiled before. The
    support counts are a summary, not sufficient: the log-probability reads the rows in ``{variable}_rows`` and
    ``{variable}_weights``, so new data for such a channel go there (or into a new model), not into the observed value.
    Predicting them runs the protocol's own NumPy simulation; PyTensor says so once ("object mode"), which is harmless.

    Examples
    --------
    Groups that borrow strength from each other, each with its own reports over the same categories:

    >>> import pymc as pm
    >>> from ldpbayes import Collection, GRR, Tally, observe
    >>> protocol = GRR(3, epsilon=1.0)
    >>> groups = {"north": [40, 30, 30], "south": [8, 7, 5]}
    >>> with pm.Model() as model:
    ...     centre = pm.Dirichlet("centre", [1.0, 1.0, 1.0])
    ...     concentration = pm.Gamma("concentration", 2, 0.1)
    ...     for group, counts in groups.items():
    ...         p = pm.Dirichlet(f"p_{group}", concentration * centre)
    ...         seen = Collection(["a", "b", "c"], [Tally(protocol, [0, 1, 2], counts)])
    ...         _ = observe(f"reports_{group}", p, seen)
    >>> [variable.name for variable in model.observed_RVs]
    ['reports_north', 'reports_south']
    """
    p = pt.as_tensor_variable(p)
    if p.type.ndim != 1 or p.type.shape[0] not in (None, collection.n_categories):
        raise ArgumentError(
            f"p must be a vector with one entry per category ({collection.n_categories}), got shape {p.type.shape}."
        )
    checks.choice(likelihood, "likelihood", LIKELIHOODS)
    expansion = _expand(collection, prior) if likelihood == "surrogate" else None
    single = len(collection.tallies) == 1
    variables = []
    for tally in collection.tallies:
        label = name if single else f"{name}_{tally.name}"
        if expansion:
            variables.append(_observe_surrogate(label, p, tally, collection.categories, expansion))
        else:
            add = _observe_counts if _lists_reports(tally) else _observe_reports
            variables.append(add(label, p, tally, collection.categories))
    return tuple(variables)


def build_model(collection, prior="jeffreys", *, likelihood="full"):
    """Return the PyMC model p ~ Dirichlet(α), reports ~ collection, in coordinates that NUTS samples well.

    ``distribution`` (dim category) is p; ``reports`` or ``reports_{channel}`` are observed. The coordinates are chosen by
    measurement: see ``dirichlet``.

    Parameters
    ----------
    collection : Collection
    prior : str, float, array or Dirichlet
    likelihood : {"full", "surrogate"}
        See observe.

    Returns
    -------
    pymc.Model
    """
    prior = as_prior(prior, collection.n_categories)
    with pm.Model(coords={"category": list(collection.categories)}) as model:
        distribution = pm.Deterministic("distribution", prior.pymc("latent"), dims="category")
        observe("reports", distribution, collection, likelihood=likelihood, prior=prior)
    return model


def dirichlet(name, alpha):
    """Return p ~ Dirichlet(α) as an expression of unconstrained variables that NUTS samples well.

    Parameters
    ----------
    name : str
        Of the latent variable; see Dirichlet.pymc.
    alpha : (a,) array
    """
    return Dirichlet(alpha).pymc(name)


def _lists_reports(tally):
    """Return whether observe() counts every possible report: few of them, or each singles out one category."""
    outputs = tally.protocol.n_outputs
    return outputs is not None and (outputs <= MAX_OUTPUTS or tally.rows.separable() is not None)


def _observe_counts(name, p, tally, categories):
    """Add Multinomial(n, Q p) over every report that the protocol can send."""
    every = tally.protocol.all_reports()
    none = np.zeros(len(every), dtype=np.int64)
    reports, counts = distinct(np.concatenate([every, tally.reports]), np.concatenate([none, tally.counts]))
    rows = tally.protocol.rows(reports, np.ones(len(reports)))
    # A report that no value can send has probability 0 and, unseen, nothing to say; its gradient would be 0/0.
    kept = (rows.matvec(np.ones(rows.n_categories)) > 0) | (counts > 0)
    reports, counts = reports[kept], counts[kept]
    rows = tally.protocol.rows(reports, np.ones(len(reports)))
    labels = [", ".join(cells) for cells in zip(*tally.protocol.format_reports(reports, categories), strict=True)]
    pm.modelcontext(None).add_coord(f"{name}_report", labels)
    observed = pm.Data(f"{name}_counts", counts, dims=f"{name}_report")
    return pm.Multinomial(
        name, n=observed.sum(), p=_report_probabilities(name, p, rows), observed=observed, dims=f"{name}_report"
    )


def _report_probabilities(name, p, rows):
    """Return Q p: base + slope · p[index] where each row looks at one category, a product elsewhere."""
    scale = np.exp(rows.log_constants)
    form = rows.separable()
    if form is None:
        return pt.dot(pm.Data(f"{name}_channel", scale[:, None] * rows.dense()), p)
    base, slope = pm.Data(f"{name}_base", scale * form.base), pm.Data(f"{name}_slope", scale * form.slope)
    return base + slope * p[pm.Data(f"{name}_index", form.index)]


def _observe_reports(name, p, tally, categories):
    """Add the likelihood of whole reports, observed through their support counts."""
    rows = tally.rows
    if rows.n_rows * rows.n_categories > MAX_ENTRIES:
        raise InfeasibleError(
            f"Channel {tally.name!r} has {rows.n_rows} distinct reports over {rows.n_categories} categories, more than the "
            f'{MAX_ENTRIES} likelihood entries that a PyMC model takes; use likelihood="surrogate" or another method.'
        )
    pm.modelcontext(None).add_coord(f"{name}_support", list(categories))
    parameters = (
        p,
        pm.Data(f"{name}_rows", rows.dense()),
        pm.Data(f"{name}_weights", rows.counts),
        pm.Data(f"{name}_log_constant", rows.log_constant),
    )
    return pm.CustomDist(
        name,
        *parameters,
        logp=_reports_logp,
        random=_fresh_support_counts(tally.protocol, lambda rows, weights, log_constant: weights.sum()),
        signature="(a),(m,a),(m),()->(a)",
        dtype="float64",
        observed=pm.Data(f"{name}_counts", support_counts(rows)),
        dims=f"{name}_support",
        class_name="PrivatisedReports",
    )


def _expand(collection, prior):
    """Return (mean, spread) at which every channel's likelihood is expanded: the surrogate posterior's."""
    from ldpbayes.posteriors import surrogate

    if collection.n_categories < 3:
        raise InfeasibleError("The surrogate needs three categories; the full likelihood of two costs next to nothing.")
    engine, _ = surrogate.expand(
        collection.rows, as_dirichlet(prior, collection.n_categories, "The surrogate likelihood").alpha
    )
    return engine.saddle_moments()[0], engine.factor_variance


def _observe_surrogate(name, p, tally, categories, expansion):
    """Add the quadratic stand-in for the likelihood of a tally, observed through its support counts."""
    from ldpbayes.posteriors import surrogate

    mean, spread = expansion
    linear, curvature = surrogate.quadratic(tally.rows, mean, spread)
    constant = tally.rows.log_likelihood(mean) - linear @ mean + 0.5 * curvature @ mean**2
    pm.modelcontext(None).add_coord(f"{name}_support", list(categories))
    parameters = {"linear": linear, "curvature": curvature, "constant": constant, "users": float(tally.n_reports)}
    return pm.CustomDist(
        name,
        p,
        *(pm.Data(f"{name}_{key}", value) for key, value in parameters.items()),
        logp=_surrogate_logp,
        random=_fresh_support_counts(tally.protocol, lambda linear, curvature, constant, users: users),
        signature="(a),(a),(a),(),()->(a)",
        dtype="float64",
        observed=pm.Data(f"{name}_counts", support_counts(tally.rows)),
        dims=f"{name}_support",
        class_name="PrivatisedReportsSurrogate",
    )


def support_counts(rows):
    """Return C_x, how many reports have x in their support; for rows of several levels Σ_j w_j L_jx / Σ_x' L_jx'."""
    if hasattr(rows, "support_counts"):
        return np.asarray(rows.support_counts(), dtype=float)
    dense = rows.dense()
    return rows.counts @ (dense / dense.sum(axis=1, keepdims=True))


def _reports_logp(value, p, rows, weights, log_constant):
    return log_constant + pt.dot(weights, pt.log(pt.dot(rows, p)))


def _surrogate_logp(value, p, linear, curvature, constant, users):
    return constant + pt.dot(linear, p) - 0.5 * pt.dot(curvature, p**2)


def _fresh_support_counts(protocol, users):
    """Return the random function of a CustomDist: support counts of n fresh users at p, n = users(*parameters)."""

    def one(p, n, rng):
        true_counts = rng.multinomial(n, p / p.sum())
        if hasattr(protocol, "simulate_support_counts"):
            return protocol.simulate_support_counts(true_counts, rng)
        reports, counts = protocol.simulate(true_counts, rng)
        seen = counts > 0
        return support_counts(protocol.rows(reports[seen], counts[seen]))

    def random(p, *parameters, rng=None, size=None):
        batch = p.shape[:-1] if size is None else tuple(size)
        flat = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(-1, p.shape[-1])
        n = round(float(users(*parameters)))
        return np.array([one(q, n, rng) for q in flat]).reshape(*batch, p.shape[-1])

    return random
