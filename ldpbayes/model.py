"""PyMC: the likelihood of a collection inside any PyMC model, and the plain model with a Dirichlet prior."""

from os import PathLike
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from ldpbayes import checks
from ldpbayes.collections import Cells, Collection
from ldpbayes.compiling import give_pytensor_a_folder, model_data
from ldpbayes.errors import ArgumentError, InfeasibleError, no_foreign_errors, shown
from ldpbayes.likelihoods import StackedRows, Summary
from ldpbayes.priors import Dirichlet, as_dirichlet, prior_for
from ldpbayes.protocols.base import distinct

#: Protocols with at most this many possible reports are observed as one multinomial over all of them (GRR: any number).
MAX_OUTPUTS = 1024
#: Dense likelihood rows with more entries than this do not go into a PyMC model.
MAX_ENTRIES = 2**25
LIKELIHOODS = ("full", "surrogate")
UNWEIGHTED = "NUTS and observe take no sampling weights, strata or clusters; other methods of fit do."
#: Cells are first expanded at their pooled mean with a standard deviation of this share of it.
FIRST_SPREAD = 0.3

give_pytensor_a_folder()


def observe(name: str, p: Any, data: Any, *, dims=None, likelihood="full", prior="jeffreys", pilot=None, spread=None) -> Any:
    """Add the likelihood of reports to the PyMC model on the context stack.

    A protocol with at most MAX_OUTPUTS possible reports becomes ``Multinomial(n, Q p)`` over all of them; so does one whose
    reports each single out one category (GRR, forced response, any two categories), where Q p costs O(a). Any other
    protocol becomes a distribution whose log-probability is that of the whole reports, Σ_j w_j log (L p)_j, and whose value
    is the support counts C_x, which people look at. For both, ``pm.sample_posterior_predictive`` predicts report or support
    counts of fresh users and ``pm.compute_log_likelihood`` gives log P(reports | p).

    Cells enter together: one variable holds the reports of all cells through a channel, so that the model is compiled once
    however many cells there are, and its log-likelihood has one value per cell. For a single collection each channel is one
    observation; ``result.attach`` adds a pointwise log-likelihood by report, which leave-one-out comparison needs.

    The *surrogate* log-likelihood c + Σ_x b_x p_x − D_x p_x²/2 costs O(a) for any number of reports, and takes reports
    whose rows no PyMC model could hold. It is an approximation, good near the pilot at which the likelihood is expanded:
    weigh the draws by the true likelihood over it before relying on them (``NUTS(likelihood="surrogate")``
    does).

    Parameters
    ----------
    name : str
        Of the observed variable; with several channels it is ``{name}_{channel}``, one variable each.
    p : (a,) or (cells, a) tensor
        The distribution of the private values, on the simplex: any expression of the model's variables.
    data : Collection, Summary or Cells
        Cells need a p with one row per cell, in their order.
    dims : tuple of str, optional
        Names of p's dimensions, such as ("cell", "category"); observed variables then have them instead of their own.
    likelihood : {"full", "surrogate"}
        Summaries are surrogates in either case.
    prior : str, float, array or Dirichlet
        Of "surrogate" only: a collection is expanded at its posterior mean under this prior, cells are expanded at the
        posterior mean of their pooled reports.
    pilot, spread : (a,) or (cells, a) array, optional
        Of "surrogate" only: the point at which to expand instead, and variances about it (see Summary).

    Returns
    -------
    tuple of TensorVariable
        One observed variable per channel; cells whose channels have different numbers of reports need several.

    Raises
    ------
    ArgumentError
        Where p does not have one entry per category (and one row per cell), or data is no collection.
    InfeasibleError
        Where the likelihood rows have more than MAX_ENTRIES entries; the surrogate of two categories.

    Notes
    -----
    Arrays enter as ``pm.Data`` named ``{variable}_…``, so that draws do not depend on what was compiled before. The
    support counts are a summary, not sufficient: the log-probability reads the rows in ``{variable}_rows`` and
    ``{variable}_weights``, so new data for such a channel go there (or into a new model), not into the observed value.
    Predicting them runs the protocol's own NumPy simulation; PyTensor warns once ("object mode"), which is harmless.

    Examples
    --------
    Groups that borrow strength from each other, each with its own reports over the same categories:

    >>> import pymc as pm
    >>> from ldpbayes import Cells, Collection, GRR, Tally, observe
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
    name = variable_name(name, "observe")
    p = as_tensor(p).astype("float64")  # as counts and rows are, whatever the model computes in
    dims = _checked_dims(dims, p)
    if isinstance(data, Cells):
        if any(isinstance(cell, Collection) and cell.survey is not None for cell in data.values()):
            raise InfeasibleError(UNWEIGHTED)
        return _observe_cells(name, p, data, dims, likelihood, prior, pilot, spread)
    if isinstance(data, Summary):
        _check_vector(p, data.n_categories)
        labels = [str(x) for x in range(data.n_categories)]
        return (_observe_summaries(name, p, [data], None, labels, (None, dims and dims[-1])),)
    if not isinstance(data, Collection):
        raise ArgumentError(f"data must be a Collection, a Summary or Cells, got {_named(data)}.")
    _check_vector(p, data.n_categories)
    expansion = None
    if likelihood == "surrogate":
        expansion = _expand(data.rows, prior, data.n_categories) if pilot is None else _pilots(pilot, spread, p, data)
    if data.survey is not None:
        raise InfeasibleError(UNWEIGHTED)
    single = len(data.tallies) == 1
    variables = []
    for tally in data.tallies:
        label = name if single else f"{name}_{tally.name}"
        support = (f"{label}_support" if dims is None else dims[-1], list(data.categories))
        if expansion:
            variables.append(_observe_surrogate(label, p, tally, support, expansion))
        elif _lists_reports(tally):
            variables.append(_observe_counts(label, p, tally, data.categories))
        else:
            variables.append(_observe_reports(label, p, tally, support))
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
    prior = prior_for(prior, collection)
    with pm.Model(coords={"category": list(collection.categories)}) as model:
        distribution = pm.Deterministic("distribution", prior.pymc("latent"), dims="category")
        observe("reports", distribution, collection, likelihood=likelihood, prior=prior)
    return model


def sample_cells(
    cells,
    prior,
    *,
    draws=1000,
    tune=1000,
    chains=4,
    target_accept=0.9,
    random_seed=None,
    progressbar=False,
):
    """Return the trace of a model of all cells under a prior over all of them, sampled with nutpie.

    Parameters
    ----------
    cells : Cells
    prior : AbstractPrior
        With P of shape (cells, categories).
    draws, tune, chains : int
        Draws kept and discarded per chain, and chains.
    target_accept : float
    random_seed : int, optional
    progressbar : bool

    Returns
    -------
    DataTree
        With the variable ``distribution``, dims chain, draw, cell, category.
    """
    with pm.Model(coords={"cell": cells.labels, "category": list(cells.categories)}):
        distribution = pm.Deterministic("distribution", prior.pymc("latent"), dims=("cell", "category"))
        observe("reports", distribution, cells, dims=("cell", "category"))
        with no_foreign_errors("The sampler nutpie"):
            return pm.sample(
                draws=draws,
                tune=tune,
                chains=chains,
                cores=1,
                random_seed=random_seed,
                nuts_sampler="nutpie",
                nuts={"target_accept": target_accept},
                progressbar=progressbar,
                quiet=not progressbar,
                compute_convergence_checks=False,
            )


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
    return _multinomial(name, counts, _report_probabilities(name, p, rows), f"{name}_report")


def _multinomial(name, counts, probabilities, dims):
    """Add Multinomial(n, probabilities), one for each row of counts."""
    observed = model_data(f"{name}_counts", counts.astype(np.uint64), dims=dims)
    users = observed.sum(axis=-1).astype("int64")
    return pm.Multinomial(name, n=users, p=probabilities, observed=observed, dims=dims)


def _report_probabilities(name, p, rows):
    """Return Q p: base + slope · p[index] where each row looks at one category, a product elsewhere."""
    scale = np.exp(rows.log_constants)
    form = rows.separable()
    if form is None:
        return pt.dot(model_data(f"{name}_channel", scale[:, None] * rows.dense()), p)
    base, slope = model_data(f"{name}_base", scale * form.base), model_data(f"{name}_slope", scale * form.slope)
    return base + slope * _looked_at(name, p, form.index, rows.n_categories)


def _observe_reports(name, p, tally, support):
    """Add the likelihood of whole reports, observed through their support counts."""
    rows = tally.rows
    if rows.n_rows * rows.n_categories > MAX_ENTRIES:
        raise InfeasibleError(
            f"Channel {tally.name!r} has {rows.n_rows} distinct reports over {rows.n_categories} categories, more than the "
            f'{MAX_ENTRIES} likelihood entries that a PyMC model takes; use likelihood="surrogate" or another method.'
        )
    _add_coord(*support)
    parameters = (
        p,
        model_data(f"{name}_rows", rows.dense()),
        model_data(f"{name}_weights", rows.counts),
        model_data(f"{name}_log_constant", rows.log_constant),
    )
    return pm.CustomDist(
        name,
        *parameters,
        logp=_reports_logp,
        random=_fresh_support_counts(tally.protocol, lambda rows, weights, log_constant: weights.sum()),
        signature="(a),(m,a),(m),()->(a)",
        dtype="float64",
        observed=model_data(f"{name}_counts", _floats(rows.support_counts())),
        dims=support[0],
        class_name="PrivatisedReports",
    )


def _expand(rows, prior, n_categories):
    """Return (mean, spread) at which every channel's likelihood is expanded: the surrogate posterior's."""
    from ldpbayes.posteriors import surrogate

    if n_categories < 3:
        raise InfeasibleError("The surrogate needs three categories; the full likelihood of two costs next to nothing.")
    engine, _ = surrogate.expand(rows, as_dirichlet(prior, n_categories, "The surrogate likelihood").alpha)
    return engine.saddle_moments()[0], engine.factor_variance


def _observe_surrogate(name, p, tally, support, expansion):
    """Add the quadratic stand-in for the likelihood of a tally, observed through its support counts."""
    from ldpbayes.posteriors import surrogate

    mean, spread = expansion
    linear, curvature = surrogate.quadratic(tally.rows, mean, spread)
    constant = tally.rows.log_likelihood(mean) - linear @ mean + 0.5 * curvature @ mean**2
    _add_coord(*support)
    parameters = {"linear": linear, "curvature": curvature, "constant": constant, "users": float(tally.n_reports)}
    return pm.CustomDist(
        name,
        p,
        *(model_data(f"{name}_{key}", value) for key, value in parameters.items()),
        logp=_surrogate_logp,
        random=_fresh_support_counts(tally.protocol, lambda linear, curvature, constant, users: users),
        signature="(a),(a),(a),(),()->(a)",
        dtype="float64",
        observed=model_data(f"{name}_counts", _floats(tally.rows.support_counts())),
        dims=support[0],
        class_name="PrivatisedReportsSurrogate",
    )


def _reports_logp(value, p, rows, weights, log_constant):
    return log_constant + pt.dot(weights, pt.log(pt.dot(rows, p)))


def _surrogate_logp(value, p, linear, curvature, constant, users):
    return constant + pt.dot(linear, p) - 0.5 * pt.dot(curvature, p**2)


def _fresh_support_counts(protocol, users):
    """Return the random function of a CustomDist: support counts of n fresh users at p, n = users(*parameters)."""

    def random(p, *parameters, rng=None, size=None):
        batch = p.shape[:-1] if size is None else tuple(size)
        flat = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(-1, p.shape[-1])
        n = round(float(users(*parameters)))
        return np.array([_fresh(protocol, q, n, rng) for q in flat]).reshape(*batch, p.shape[-1])

    return random


def _fresh(protocol, p, n, rng):
    """Return the support counts of n fresh users at p."""
    true_counts = rng.multinomial(n, p / p.sum())
    return protocol.simulate_support_counts(true_counts, rng)


# ---- cells ---------------------------------------------------------------------------------------------------------------
def _observe_cells(name, p, cells, dims, likelihood, prior, pilot, spread):
    """Add the reports of all cells: one variable per channel and form of likelihood, for any number of cells."""
    if p.type.ndim != 2 or any(
        known not in (None, size) for known, size in zip(p.type.shape, (len(cells), cells.n_categories), strict=True)
    ):
        raise ArgumentError(
            f"p must have one row per cell and one column per category ({len(cells)}, {cells.n_categories}), got shape "
            f"{p.type.shape}."
        )
    places = _cell_dims(name, cells, dims)
    parts = list(_parts(name, cells, likelihood, prior, pilot, spread))
    variables = []
    for label, add, positions, content in parts:
        label = name if len(parts) == 1 else label
        whole = len(positions) == len(cells)
        if whole:
            chosen, cell_dim = p, places[0]
        else:
            chosen, cell_dim = p[model_data(f"{label}_cells", np.array(positions))], f"{label}_cell"
            _add_coord(cell_dim, [cells.labels[c] for c in positions])
        variables.append(add(label, chosen, content, cells.categories, (cell_dim, places[1])))
    return tuple(variables)


def _parts(name, cells, likelihood, prior, pilot, spread):
    """Yield (label, adder, positions of the cells, content): the variables that hold the reports of all cells."""
    kept = [(c, cell.likelihood) for c, cell in enumerate(cells.values()) if cell.likelihood.rows() is None]
    if kept:
        yield f"{name}_summary", _add_summaries, [c for c, _ in kept], [(summary, None) for _, summary in kept]
    channels = cells.channels()
    if likelihood == "surrogate" and channels:
        pilots, spreads = _cell_pilots(cells, prior, pilot, spread)
        for channel, held in channels.items():
            expanded = [(Summary.of(tally.rows, pilots[c], spreads[c]), tally.protocol) for c, tally in held]
            yield f"{name}_{channel}", _add_summaries, [c for c, _ in held], expanded
        return
    for channel, held in channels.items():
        kinds = {}
        for c, tally in held:
            kinds.setdefault(_kind(tally), []).append((c, tally))
        for i, (kind, same) in enumerate(kinds.items()):
            label = f"{name}_{channel}" if len(kinds) == 1 else f"{name}_{channel}_{i + 1}"
            add = _add_whole_reports if kind is None else _add_counts
            yield label, add, [c for c, _ in same], [tally for _, tally in same]


def _kind(tally):
    """Return what tallies of one variable share: the number of possible reports and the form of Q p; None: whole reports."""
    if not _lists_reports(tally):
        return None
    return tally.protocol.n_outputs, tally.rows.separable() is not None


def _add_counts(name, p, tallies, categories, dims):
    """Add Multinomial(n_c, Q_c p_c) over every report that the protocols can send, one row per cell."""
    listed = {}
    for tally in tallies:
        if tally.protocol not in listed:
            every = tally.protocol.all_reports()
            listed[tally.protocol] = every, tally.protocol.rows(every, np.ones(len(every)))
    counts = np.stack([_counted(listed[tally.protocol][0], tally) for tally in tallies])
    possible = np.stack([rows.matvec(np.ones(p.type.shape[-1] or rows.n_categories)) > 0 for _, rows in listed.values()])
    # A report that no value can send has probability 0 and, unseen, nothing to say; its gradient would be 0/0.
    kept = possible.any(axis=0) | (counts > 0).any(axis=0)
    report = f"{name}_report"
    first, (every, _) = next(iter(listed.items()))
    labels = [", ".join(parts) for parts in zip(*first.format_reports(every[kept], categories), strict=True)]
    _add_coord(report, labels if len(listed) == 1 else [str(i) for i in range(int(kept.sum()))])
    if len(listed) == 1:
        probabilities = _shared_probabilities(name, p, first.rows(every[kept], np.ones(int(kept.sum()))))
    else:
        order = list(listed)
        which = np.array([order.index(tally.protocol) for tally in tallies])
        rows = [protocol.rows(every[kept], np.ones(int(kept.sum()))) for protocol, (every, _) in listed.items()]
        probabilities = _stacked_probabilities(name, p, rows, which)
    return _multinomial(name, counts[:, kept], probabilities, (dims[0], report))


def _counted(every, tally):
    """Return the counts of a tally over all possible reports, in the order of ``every``."""
    reports, counts = distinct(np.concatenate([every, tally.reports]), np.r_[np.zeros(len(every), np.int64), tally.counts])
    if len(reports) != len(every) or not np.array_equal(reports, every):
        order, _ = distinct(every, np.arange(len(every)) + 1)
        place = {np.asarray(report).tobytes(): i for i, report in enumerate(order)}
        return np.array([counts[place[np.asarray(report).tobytes()]] for report in every])
    return counts


def _shared_probabilities(name, p, rows):
    """Return p_c Qᵀ for every cell, one protocol for all."""
    scale = np.exp(rows.log_constants)
    form = rows.separable()
    if form is None:
        return pt.dot(p, model_data(f"{name}_channel", (scale[:, None] * rows.dense()).T.copy()))
    base, slope = model_data(f"{name}_base", scale * form.base), model_data(f"{name}_slope", scale * form.slope)
    return base + slope * _looked_at(name, p, form.index, rows.n_categories)


def _looked_at(name, p, index, n_categories):
    """Return the entries of p that reports single out; p itself where they do so in order (GRR), which evaluates faster."""
    return p if np.array_equal(index, np.arange(n_categories)) else p[..., model_data(f"{name}_index", index)]


def _stacked_probabilities(name, p, rows, which):
    """Return Q_c p_c for every cell, with a protocol for each."""
    scales = [np.exp(part.log_constants) for part in rows]
    forms = [part.separable() for part in rows]
    which = model_data(f"{name}_protocol", which)
    if None in forms:
        channel = np.stack([scale[:, None] * part.dense() for scale, part in zip(scales, rows, strict=True)])
        return (model_data(f"{name}_channel", channel)[which] * p[:, None, :]).sum(axis=-1)
    base, slope, index = (
        np.stack([scale * form.base for scale, form in zip(scales, forms, strict=True)]),
        np.stack([scale * form.slope for scale, form in zip(scales, forms, strict=True)]),
        np.stack([form.index for form in forms]),
    )
    base, slope = model_data(f"{name}_base", base)[which], model_data(f"{name}_slope", slope)[which]
    return base + slope * pt.take_along_axis(p, model_data(f"{name}_index", index)[which], axis=-1)


def _add_whole_reports(name, p, tallies, categories, dims):
    """Add the likelihood of whole reports of all cells: their rows in one array, each with the number of its cell."""
    rows = [tally.rows for tally in tallies]
    entries = sum(part.n_rows for part in rows) * len(categories)
    if entries > MAX_ENTRIES:
        raise InfeasibleError(
            f"{name} has {entries} likelihood entries (distinct reports × categories), more than the {MAX_ENTRIES} that a "
            'PyMC model takes; use likelihood="surrogate".'
        )
    parameters = {
        "rows": np.concatenate([part.dense() for part in rows]),
        "weights": np.concatenate([part.counts for part in rows]),
        "place": np.repeat(np.arange(len(rows)), [part.n_rows for part in rows]),
        "log_constants": np.array([part.log_constant for part in rows]),
        "users": np.array([part.n_reports for part in rows]),
    }
    support = _support_dim(name, categories, dims)
    return pm.CustomDist(
        name,
        p,
        *(model_data(f"{name}_{key}", value) for key, value in parameters.items()),
        logp=_cells_logp,
        random=_fresh_cells([tally.protocol for tally in tallies], matrix=True),
        signature="(c,a),(m,a),(m),(m),(c),(c)->(c,a)",
        dtype="float64",
        observed=model_data(f"{name}_counts", _floats(np.stack([part.support_counts() for part in rows]))),
        dims=(dims[0], support),
        class_name="PrivatisedReportsOfCells",
    )


def _add_summaries(name, p, held, categories, dims):
    """Add the summaries of all cells; ``held`` has (Summary, protocol or None) for each."""
    return _observe_summaries(name, p, [summary for summary, _ in held], [kind for _, kind in held], categories, dims)


def _observe_summaries(name, p, summaries, protocols, categories, dims):
    """Add quadratic log-likelihoods, one per cell, or a single one where p is a vector."""
    parameters = {
        "linear": [summary.linear for summary in summaries],
        "curvature": [summary.tangent_curvature for summary in summaries],
        "constant": [summary.constant for summary in summaries],
        "users": [summary.n_reports for summary in summaries],
    }
    blank = np.full(len(categories), np.nan)
    counts = [blank if summary.supports is None else summary.supports for summary in summaries]
    single = p.type.ndim == 1
    support = _support_dim(name, categories, dims)
    return pm.CustomDist(
        name,
        p,
        *(
            model_data(f"{name}_{key}", _floats(value[0] if single else np.array(value)))
            for key, value in parameters.items()
        ),
        logp=_summaries_logp,
        random=_fresh_cells(protocols or [None], matrix=False),
        signature="(a),(a),(a),(),()->(a)",
        dtype="float64",
        observed=model_data(f"{name}_counts", np.nan_to_num(_floats(counts[0] if single else np.stack(counts)))),
        dims=support if single else (dims[0], support),
        class_name="PrivatisedSummaries",
    )


def _cells_logp(value, p, rows, weights, place, log_constants, users):
    """Return the log-likelihood of each cell's whole reports."""
    terms = weights * pt.log((rows * p[place]).sum(axis=-1))
    return pt.inc_subtensor(log_constants[place], terms)


def _summaries_logp(value, p, linear, curvature, constant, users):
    return constant + (linear * p - 0.5 * curvature * p**2).sum(axis=-1)


def _fresh_cells(protocols, matrix):
    """Return the random function of a CustomDist over cells: support counts of as many fresh users as each cell has."""

    def random(p, *parameters, rng=None, size=None):
        if any(protocol is None for protocol in protocols):
            raise InfeasibleError("Reports cannot be predicted from a summary, which does not know its protocol.")
        size = () if size is None else tuple(size)
        batch = np.broadcast_shapes(size + (p.shape[-2],) * matrix, p.shape[:-1]) if matrix else (size or p.shape[:-1])
        flat = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(-1, len(protocols), p.shape[-1])
        users = np.broadcast_to(parameters[-1], batch).reshape(-1, len(protocols))
        drawn = [
            [_fresh(protocol, q, round(float(n)), rng) for protocol, q, n in zip(protocols, row, sizes, strict=True)]
            for row, sizes in zip(flat, users, strict=True)
        ]
        return np.array(drawn, dtype=float).reshape(*batch, p.shape[-1])

    return random


def _cell_pilots(cells, prior, pilot, spread):
    """Return (pilots, spreads), each (cells, a): by default the pooled posterior mean p̄ with variances (0.3 p̄)²."""
    shape = (len(cells), cells.n_categories)
    if pilot is None:
        held = [tally.rows for same in cells.channels().values() for _, tally in same]
        pilot, _ = _expand(held[0] if len(held) == 1 else StackedRows(held), prior, cells.n_categories)
        spread = (FIRST_SPREAD * pilot) ** 2 if spread is None else spread
    try:
        spreads = [None] * len(cells) if spread is None else np.broadcast_to(np.asarray(spread, dtype=float), shape)
        return np.broadcast_to(np.asarray(pilot, dtype=float), shape), spreads
    except ValueError:
        raise ArgumentError(f"pilot and spread must have shape ({shape[1]},) or {shape}.") from None


def _pilots(pilot, spread, p, data):
    """Return (pilot, spread) of a single collection."""
    summary = Summary.of(data.rows, pilot, spread)
    return summary.pilot, np.zeros_like(summary.pilot) if summary.spread is None else summary.spread


def _cell_dims(name, cells, dims):
    """Return the names of the dims of cells and of categories, with coords in the model; None: one for each variable."""
    model = pm.modelcontext(None)
    if dims is not None:
        check_dims(dims, (len(cells), cells.n_categories))
        return dims
    for dim in ("cell", f"{name}_cell"):
        if dim not in model.coords:
            _add_coord(dim, cells.labels)
        if tuple(map(str, model.coords[dim])) == cells.labels:
            return dim, None
    raise ArgumentError(f"The model already has other coords named 'cell' and '{name}_cell'; give dims=.")


def _support_dim(name, categories, dims):
    """Return the name of the dim of support counts, with its coords in the model."""
    support = f"{name}_support" if dims[1] is None else dims[1]
    _add_coord(support, list(categories))
    return support


def _add_coord(name, values):
    """Add coords to the model unless it has them."""
    model = pm.modelcontext(None)
    if name not in model.coords:
        model.add_coord(name, list(values))
    check_dims((name,), (len(values),))


def check_dims(dims, sizes):
    """Refuse dims that the model being built does not have, or has with other sizes."""
    if len(dims) != len(sizes):
        raise ArgumentError(f"dims must name {len(sizes)} dimensions, got {len(dims)}.")
    lengths = pm.modelcontext(None).dim_lengths
    for dim, size in zip(dims, sizes, strict=True):
        length = lengths.get(dim, pt.constant(-1))
        if (length.get_value() if isinstance(length, SharedVariable) else length.eval()) != size:
            raise ArgumentError(f"dims must name coords of the model with {size} entries, got {shown(dim)}.")


def _checked_dims(dims, p):
    """Return dims as a tuple with one name per dimension of p."""
    if dims is None:
        return None
    rule = f"one name for each of the {p.type.ndim} dimensions of p"
    dims = (dims,) if isinstance(dims, str) else checks.labels(dims, "dims", rule)
    if len(dims) != p.type.ndim:
        raise ArgumentError(f"dims must have one name for each of the {p.type.ndim} dimensions of p, got {dims}.")
    return dims


def variable_name(name, function: str) -> str:
    """Return the name of a variable of the model that is being built, or refuse where none is, or the name is none."""
    if not checks.text(name, "name", empty=False).isprintable() or "/" in name:
        raise ArgumentError(f"name must be printable text without '/', got {shown(name)}.")
    try:
        pm.modelcontext(None)
    except TypeError as err:
        raise ArgumentError(f"{function} must be called within a model: with pymc.Model(): {function}(…).") from err
    return name


def as_tensor(p):
    """Return probabilities, a variable of PyTensor or numbers, as a tensor."""
    return pt.as_tensor_variable(p if isinstance(p, Variable) else checks.reals(p, "p", "numbers or a tensor", ndim=None))


def _check_vector(p, n_categories):
    if p.type.ndim != 1 or p.type.shape[0] not in (None, n_categories):
        raise ArgumentError(f"p must be a vector with one entry per category ({n_categories}), got shape {p.type.shape}.")


def _named(value):
    """Return what a value is, with a remedy where there is a usual one."""
    if isinstance(value, (str, PathLike)):
        return f"the path {shown(value)}; read it first, with read_collection"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__}; make Cells of several collections: Cells({{key: collection, …}})"
    return type(value).__name__


def _floats(values):
    return np.asarray(values, dtype=float)
