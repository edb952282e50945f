"""The reports of a collection or of cells as observed variables of a PyMC model; models and NUTS both stand on this."""

import functools
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.transforms import SimplexTransform
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.tensor.sharedvar import TensorSharedVariable
from pytensor.xtensor.type import XTensorVariable

from ldpbayes import checks
from ldpbayes.collections.cells import Cells
from ldpbayes.collections.collection import Collection
from ldpbayes.compiling import give_pytensor_a_folder, model_data
from ldpbayes.errors import ArgumentError, InfeasibleError, listed, shown
from ldpbayes.likelihoods import Summary
from ldpbayes.protocols.formats import places

#: Memory: Dense likelihood rows with more entries than this do not go into a PyMC model.
MAX_ENTRIES = 2**25
#: Mathematics: Shares down to this far below zero are those of a model that computes the last as one less the others.
ROUNDING = 1e-9
#: Time: Protocols with at most this many possible reports are observed as one multinomial over all of them (GRR: any
#: number).
MAX_OUTPUTS = 1024

give_pytensor_a_folder()


def build(data: Collection | Cells, prior: Any, expansion: tuple | None = None) -> pm.Model:
    """Return the PyMC model P ~ prior, reports ~ data, with P as ``distribution`` and the reports as ``reports``.

    Parameters
    ----------
    data : Collection or Cells
    prior : AbstractPrior
        Over P of one collection, or of all cells.
    expansion : tuple, optional
        As for observe.

    Returns
    -------
    pymc.Model
    """
    dims = ("cell", "category")[-len(prior.shape) :]
    labels = dict(
        zip(("category", "cell"), (list(data.categories), *([data.labels] if len(dims) > 1 else [])), strict=False)
    )
    with pm.Model(coords=labels) as model:
        distribution = pm.Deterministic("distribution", prior.pymc("latent"), dims=dims)
        observe("reports", distribution, data, dims if len(dims) > 1 else None, expansion)
    return model


def observe(name: str, p: Any, data: Any, dims: tuple | None = None, expansion: tuple | None = None) -> tuple:
    """Add the likelihood of the reports to the model on the context stack, one variable per channel and form of likelihood.

    Parameters
    ----------
    name : str
        Of the variable; with several of them the first part of their names.
    p : (a,) or (cells, a) tensor
    data : Collection, Summarized or Cells
    dims : tuple of str, optional
        Names of p's dimensions.
    expansion : tuple, optional
        (pilot, spread), two (a,) arrays: the likelihood of reports is expanded there, as Summary does it.

    Returns
    -------
    tuple of TensorVariable

    Raises
    ------
    ArgumentError
        Where p or its dims do not fit the data.
    InfeasibleError
        On sampling weights, and where the likelihood rows have more than MAX_ENTRIES entries.
    """
    many = isinstance(data, Cells)
    check_shape(p, data, many)
    lead, last = named_dims(name, data, dims) if many else ((), dims and dims[-1])
    cells = list(data.collections())
    if any(cell.weighted for cell in cells):
        raise InfeasibleError("NUTS and observe take no sampling weights, strata or clusters; other methods of fit do.")
    parts = list(_parts(name, data, expansion))
    variables = []
    for label, add, positions, content in parts:
        label, chosen, shape = name if len(parts) == 1 else label, p, lead
        if len(positions) < len(cells) and many:
            chosen, shape = p[model_data(f"{label}_cells", np.array(positions))], (f"{label}_cell",)
            add_coord(*shape, [data.labels[c] for c in positions])
        variables.append(add(label, chosen, content, data.categories, (shape, last)))
    return tuple(variables)


def _parts(name, data, expansion):
    """Yield (label, adder, positions of the cells, content): the variables that hold the reports of all cells."""
    summaries = [(c, cell.likelihood) for c, cell in enumerate(data.collections()) if not cell.tallies]
    if summaries:
        yield f"{name}_summary", _add_summaries, [c for c, _ in summaries], [(summary, None) for _, summary in summaries]
    for channel, tallies in data.channels().items():
        kinds: dict[Any, list] = {}
        for c, tally in tallies:
            kinds.setdefault(_kind(tally) if expansion is None else "expanded", []).append((c, tally))
        for i, (kind, same) in enumerate(kinds.items(), 1):
            label = f"{name}_{channel}" if len(kinds) == 1 else f"{name}_{channel}_{i}"
            content = [tally for _, tally in same]
            add = _add_whole_reports if kind is None else _add_counts
            if expansion is not None:
                add = _add_summaries
                content = [(Summary.of(tally.rows, *expansion), tally.protocol) for tally in content]
            yield label, add, [c for c, _ in same], content


def _kind(tally):
    """Return what tallies of one variable share: the number of possible reports and the form of Q p; None: whole reports."""
    return (tally.protocol.n_outputs, _single_out(tally)) if lists_reports(tally) else None


def lists_reports(tally: Any) -> bool:
    """Return whether every possible report is counted: few of them, or each singles out one category."""
    outputs = tally.protocol.n_outputs
    return outputs is not None and (outputs <= MAX_OUTPUTS or _single_out(tally))


def _single_out(tally):
    """Return whether each report that can be sent singles out one category: those that came in may do by chance."""
    return tally.rows.separable() is not None and _all_single_out(tally.protocol)


@functools.lru_cache(maxsize=256)
def _all_single_out(protocol):
    every = protocol.all_reports()
    return protocol.rows(every, np.ones(len(every))).separable() is not None


def _add_counts(name, p, tallies, categories, dims):
    """Add Multinomial(n_c, Q_c p_c) over every report that the protocols can send."""
    listed = {}
    for tally in tallies:
        if tally.protocol not in listed:
            every = tally.protocol.all_reports()
            listed[tally.protocol] = every, tally.protocol.rows(every, np.ones(len(every)))
    counts = np.stack([counted(listed[tally.protocol][0], tally) for tally in tallies])
    possible = np.stack([rows.matvec(np.ones(len(categories))) > 0 for _, rows in listed.values()])
    # A report that no value can send has probability 0 and, unseen, nothing to say; its gradient would be 0/0.
    kept = possible.any(axis=0) | (counts > 0).any(axis=0)
    report = f"{name}_report"
    first, (every, _) = next(iter(listed.items()))
    labels = [", ".join(parts) for parts in zip(*first.format_reports(every[kept], categories), strict=True)]
    add_coord(report, labels if len(listed) == 1 else [str(i) for i in range(int(kept.sum()))])
    rows = [protocol.rows(every[kept], np.ones(int(kept.sum()))) for protocol, (every, _) in listed.items()]
    order = list(listed)
    which = np.array([order.index(tally.protocol) for tally in tallies]) if len(rows) > 1 else None
    probabilities = _probabilities(name, p, rows, which)
    lead = dims[0]
    counts = (counts if lead else counts[0])[..., kept]
    observed = observed_data(f"{name}_counts", counts.astype(np.uint64), dims=(*lead, report))
    users = observed.sum(axis=-1).astype("int64")
    return pm.Multinomial(name, n=users, p=probabilities, observed=observed, dims=(*lead, report))


class _Observed(TensorSharedVariable):
    """Observed values; of new ones those are refused that PyMC may have cut to 32 bits, or that no likelihood reads."""

    def set_value(self, new_value, borrow=False):
        kind = np.asarray(new_value).dtype
        if self.type.dtype != "uint64":
            rule = "keep its values: it sums up the reports, and the likelihood reads these; observe new ones in a new model"
            raise ArgumentError(f"{self.name} must {rule}.")
        if kind.kind != "u":
            rule = "be whole numbers without a sign, as in counts.astype('uint64'): set_data casts others"
            raise ArgumentError(f"{self.name} must {rule}, got {kind}.")
        super().set_value(new_value, borrow)


def observed_data(name, values, dims=None):
    """Return an array as observed data of the model on the context stack, with its type kept."""
    model = pm.modelcontext(None)
    kind = pt.TensorType(values.dtype, shape=(None,) * values.ndim)
    shared = _Observed(type=kind, value=np.array(values), strict=False, name=model.name_for(name))
    model.register_data_var(shared, dims=dims)
    return shared


def counted(every, tally):
    """Return the counts of a tally over all possible reports, in the order of ``every``."""
    counts = np.zeros(len(every), dtype=np.int64)
    counts[places(every, tally.reports)] = tally.counts
    return counts


def _probabilities(name, p, rows, which):
    """Return Q p of every cell: base + slope · p[index] where each report looks at one category, a product elsewhere.

    ``which`` is the number of each cell's protocol, or None where there is one.
    """
    scales, forms = [np.exp(part.log_constants) for part in rows], [part.separable() for part in rows]
    number = None if which is None else model_data(f"{name}_protocol", which)

    def of_cells(key, values):
        if which is None:
            return model_data(f"{name}_{key}", values[0])
        return model_data(f"{name}_{key}", np.stack(values))[number]

    if None in forms:
        channel = of_cells("channel", [scale[:, None] * part.dense() for scale, part in zip(scales, rows, strict=True)])
        return pt.dot(p, channel.T) if which is None else (channel * p[:, None, :]).sum(axis=-1)
    base = of_cells("base", [scale * form.base for scale, form in zip(scales, forms, strict=True)])
    slope = of_cells("slope", [scale * form.slope for scale, form in zip(scales, forms, strict=True)])
    if all(np.array_equal(form.index, np.arange(rows[0].n_categories)) for form in forms):  # as GRR's: evaluates faster
        return base + slope * p
    index = of_cells("index", [form.index for form in forms])
    return base + slope * (p[..., index] if which is None else pt.take_along_axis(p, index, axis=-1))


def _add_whole_reports(name, p, tallies, categories, dims):
    """Add the likelihood of whole reports of all cells: their rows in one array, each with the number of its cell."""
    rows = [tally.rows for tally in tallies]
    entries = sum(part.n_rows for part in rows) * len(categories)
    if entries > MAX_ENTRIES:
        raise InfeasibleError(
            f"{name} has {entries} likelihood entries (distinct reports × categories), more than the {MAX_ENTRIES} that a "
            'PyMC model takes; use likelihood="surrogate" or another method.'
        )
    shared = {"rows": np.concatenate([part.dense() for part in rows]), "weights": np.concatenate([r.counts for r in rows])}
    if dims[0]:
        shared["place"] = np.repeat(np.arange(len(rows)), [part.n_rows for part in rows])
    each = {"log_constants": [part.log_constant for part in rows], "users": [part.n_reports for part in rows]}
    logp, signature = (_cells_logp, "(c,a),(m,a),(m),(m),(c),(c)->(c,a)") if dims[0] else (_logp, "(a),(m,a),(m),(),()->(a)")
    counts, protocols = [part.support_counts() for part in rows], [tally.protocol for tally in tallies]
    return _add_support_counts(name, p, shared, each, counts, categories, dims, protocols, bool(dims[0]), logp, signature)


def _add_summaries(name, p, summaries, categories, dims):
    """Add quadratic log-likelihoods, one for each (Summary, its protocol or None)."""
    held = [summary for summary, _ in summaries]
    each = {
        "linear": [summary.linear for summary in held],
        "curvature": [summary.tangent_curvature for summary in held],
        "constant": [summary.constant for summary in held],
        "users": [summary.n_reports for summary in held],
    }
    blank = np.full(len(categories), np.nan)
    counts = [blank if summary.supports is None else summary.supports for summary in held]
    protocols, signature = [protocol for _, protocol in summaries], "(a),(a),(a),(),()->(a)"
    return _add_support_counts(name, p, {}, each, counts, categories, dims, protocols, False, _quadratic_logp, signature)


def _add_support_counts(name, p, shared, each, counts, categories, dims, protocols, matrix, logp, signature):
    """Add a likelihood whose value, the support counts, is what people look at; ``each`` has one entry per cell."""
    lead, last = dims
    support = f"{name}_support" if last is None else last
    add_coord(support, list(categories))
    parameters = shared | {key: _of_cells(value, lead) for key, value in each.items()}
    return pm.CustomDist(
        name,
        p,
        *(model_data(f"{name}_{key}", value) for key, value in parameters.items()),
        logp=logp,
        random=_fresh(protocols, matrix),
        signature=signature,
        dtype="float64",
        observed=observed_data(f"{name}_counts", np.nan_to_num(_of_cells(counts, lead))),
        dims=(*lead, support),
        class_name="PrivatizedReports",
    )


def _of_cells(values, lead):
    """Return values as a float array with one entry per cell, or the only one where p is a vector."""
    return np.asarray(values if lead else values[0], dtype=float)


def _cells_logp(value, p, rows, weights, place, log_constants, users):
    """Return the log-likelihood of each cell's whole reports."""
    terms = weights * pt.log((rows * p[place]).sum(axis=-1))
    return of_shares(pt.inc_subtensor(log_constants[place], terms), p)


def _logp(value, p, rows, weights, log_constant, users):
    return of_shares(log_constant + pt.dot(weights, pt.log(pt.dot(rows, p))), p)


def _quadratic_logp(value, p, linear, curvature, constant, users):
    return of_shares(constant + (linear * p - 0.5 * curvature * p**2).sum(axis=-1), p)


def of_shares(logp, p):
    """Return a log-probability that is -inf where p is no distribution, as that of pm.Multinomial is."""
    return check_parameters(logp, p >= -ROUNDING, pt.isclose(p.sum(axis=-1), 1.0), msg="p >= 0, sum(p) = 1")


def _fresh(protocols, matrix):
    """Return the random function of a CustomDist: support counts of as many fresh users as each cell has."""

    def random(p, *parameters, rng=None, size=None):
        if any(protocol is None for protocol in protocols):
            raise InfeasibleError("Reports cannot be predicted from a summary, which does not know its protocol.")
        size = () if size is None else tuple(size)
        batch = np.broadcast_shapes(size + (p.shape[-2],) * matrix, p.shape[:-1]) if matrix else (size or p.shape[:-1])
        flat = np.broadcast_to(p, (*batch, p.shape[-1])).reshape(-1, len(protocols), p.shape[-1])
        users = np.broadcast_to(parameters[-1], batch).reshape(-1, len(protocols))
        drawn = [
            [
                protocol.simulate_support_counts(rng.multinomial(round(float(n)), q / q.sum()), rng)
                for protocol, q, n in zip(protocols, row, sizes, strict=True)
            ]
            for row, sizes in zip(flat, users, strict=True)
        ]
        return np.array(drawn, dtype=float).reshape(*batch, p.shape[-1])

    return random


def check_shape(p, data, many):
    """Refuse p of another shape than the data ask for."""
    wanted = (len(data), data.n_categories) if many else (data.n_categories,)
    if p.type.ndim == len(wanted) and all(n in (None, size) for n, size in zip(p.type.shape, wanted, strict=True)):
        return
    rule, hint = f"have one row per cell and one column per category {wanted}", ""
    if not many:
        rule = f"be a vector with one entry per category ({data.n_categories})"
        hint = "; for one row of p per person or group read the reports as Cells, with by=" if p.type.ndim == 2 else ""
    if data.n_categories == 2 and p.type.ndim == len(wanted) - 1:
        hint = "; of two categories, the shares q of the second are pm.math.stack([1 - q, q], axis=-1)"
    if data.n_laws:
        hint = f"; as {data.doubt}, the categories are {listed(data.categories)}"
    raise ArgumentError(f"p must {rule}, got shape {p.type.shape}{hint}.")


def check_simplex(given: Any, p: Any) -> None:
    """Refuse a free variable of the model, p as a tensor, whose draws do not add up to one, such as log odds."""
    model = pm.modelcontext(None)
    if not any(given is free for free in model.free_RVs) or isinstance(model.rvs_to_transforms[given], SimplexTransform):
        return
    try:
        total = p.sum(axis=-1).eval(mode=Mode("py", "fast_compile"))
    except NotImplementedError:  # no draws: of a flat variable, or of a density alone
        total = 0.0 if isinstance(given.owner.op, (FlatRV, HalfFlatRV)) else 1.0
    if not np.allclose(total, 1.0):
        raise ArgumentError(
            f"p must be probabilities that add up to 1 over the categories; {given.name} is no such variable. Of log odds "
            f"they are pm.math.softmax({given.name}, axis=-1)."
        )


def named_dims(name, cells, dims):
    """Return ((dim of the cells,), dim of the categories), with coords in the model; None: one for each variable."""
    model = pm.modelcontext(None)
    if dims is not None:
        check_dims(dims, (len(cells), cells.n_categories))
        return (dims[0],), dims[1]
    for dim in ("cell", f"{name}_cell"):
        if dim not in model.coords:
            add_coord(dim, cells.labels)
        if tuple(map(str, model.coords[dim])) == cells.labels:
            return (dim,), None
    raise ArgumentError(f"The model already has other coords named 'cell' and '{name}_cell'; give dims=.")


def add_coord(name: str, values: Any) -> None:
    """Add coords to the model that is being built unless it has them, of the same number."""
    model = pm.modelcontext(None)
    if name not in model.coords:
        model.add_coord(name, list(values))
    check_dims((name,), (len(values),))


def check_dims(dims: tuple, sizes: tuple) -> None:
    """Refuse dims that the model being built does not have, or has with other sizes."""
    if len(dims) != len(sizes):
        raise ArgumentError(f"dims must name {len(sizes)} dimensions, got {len(dims)}.")
    lengths = pm.modelcontext(None).dim_lengths
    for dim, size in zip(dims, sizes, strict=True):
        length = lengths.get(dim, pt.constant(-1))
        if (length.get_value() if isinstance(length, SharedVariable) else length.eval()) != size:
            raise ArgumentError(f"dims must name coords of the model with {size} entries, got {shown(dim)}.")


def check_order(p: Any, dims: tuple | None, labels: tuple) -> None:
    """Refuse dims of p whose coords are the labels of the data in another order: each share would be read as another's.

    Parameters
    ----------
    p : tensor, or whatever stands for one
    dims : tuple of str, optional
        Of p; by default those that it has itself, or under which the model knows it.
    labels : tuple of sequence of str
        Of the data, for each dimension of p; empty where they have none.
    """
    model = pm.modelcontext(None)
    named = dims or (p.dims if isinstance(p, XTensorVariable) else model.named_vars_to_dims.get(as_tensor(p).name)) or ()
    coords = {dim: [str(label) for label in model.coords[dim] or ()] for dim in model.coords}
    for k, wanted in enumerate(map(list, labels)):
        dims_of = [dim for dim in named[k : k + 1] if dim in coords] if named else list(coords)
        others = [dim for dim in dims_of if sorted(coords[dim]) == sorted(wanted)]
        if others and wanted not in [coords[dim] for dim in others]:
            raise ArgumentError(
                f"coords {shown(others[0])} of the model must have the order of the data, {listed(wanted)}; got "
                f"{listed(coords[others[0]])}{'' if named else ', and p states no dims'}."
            )


def variable_name(name: Any, function: str) -> str:
    """Return the name of a variable of the model that is being built, or refuse where none is, or the name is none."""
    if not checks.text(name, "name", empty=False).isprintable() or "/" in name:
        raise ArgumentError(f"name must be printable text without '/', got {shown(name)}.")
    try:
        model = pm.modelcontext(None)
    except TypeError as err:
        raise ArgumentError(f"{function} must be called within a model: with pymc.Model(): {function}(…).") from err
    if model.name_for(name) in model.named_vars:
        raise ArgumentError(f"name must be new to the model, which has a variable {shown(name)}.")
    return name


def as_tensor(p: Any, dims: tuple | None = None) -> Any:
    """Return probabilities, a variable of PyTensor, of pymc.dims in the order of dims, or numbers, as a tensor."""
    if isinstance(p, XTensorVariable) and dims is not None and set(dims) == set(p.dims):
        p = p.transpose(*dims)
    given = p if isinstance(p, Variable) else checks.reals(p, "p", "numbers or a tensor", ndim=None)
    return pt.as_tensor_variable(given, allow_xtensor_conversion=True)
