"""Reports through a device that is itself random in a PyMC model: a channel of tensors, or tensors of two rates."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from ldpbayes.collections import tensor
from ldpbayes.collections.tensor import ROUNDING
from ldpbayes.compiling import model_data
from ldpbayes.errors import ArgumentError, InfeasibleError, listed, shown


def observe(name: str, p: Any, data: Any, channel: Any, dims: tuple | None = None) -> tuple:
    """Add the likelihood of the reports to the model on the context stack, one variable per channel.

    Parameters
    ----------
    name : str
    p : (a,) or (cells, a) tensor
    data : Collection or Cells
    channel : tensor, pair of tensors, or mapping of channel to these
        As ``ldpbayes.pymc.observe`` takes it.
    dims : tuple of str, optional
        Names of p's dimensions.

    Returns
    -------
    tuple of TensorVariable

    Raises
    ------
    ArgumentError
        Where a channel has no tensor, or one of another shape, and constants that are no probabilities or no channel.
    InfeasibleError
        On summaries, sampling weights, and protocols that two rates do not describe.
    """
    many = bool(data.by)
    tensor.check_shape(p, data, many)
    if data.weighted or not data.keeps_reports:
        raise InfeasibleError("A random device needs the reports of a sample without weights.")
    lead, last = tensor.named_dims(name, data, dims) if many else ((), dims and dims[-1])
    held = data.channels()
    stated = channel if isinstance(channel, Mapping) else dict.fromkeys(held, channel)
    if set(stated) != set(held):
        raise ArgumentError(f"channel must have one entry for each channel ({listed(held)}), got {listed(stated)}.")
    out = []
    for label, pairs in held.items():
        tallies = [tally for _, tally in pairs]
        if len({tally.protocol for tally in tallies}) > 1 or (many and len(pairs) < len(data)):
            raise InfeasibleError(f"Channel {shown(label)} must have one protocol, and reports in every cell.")
        random, own = stated[label], name if len(held) == 1 else f"{name}_{label}"
        if isinstance(random, (tuple, list)) and any(isinstance(row, (tuple, list)) for row in random):
            random = pt.stack([pt.stack(list(row)) for row in random])
        add = _add_rates if isinstance(random, (tuple, list)) else _add_channel
        out.append(add(own, p, tallies, random, data.categories, (lead, last)))
    return tuple(out)


def _add_channel(name: str, p: Any, tallies: list, channel: Any, categories: tuple, dims: tuple) -> Any:
    """Add Multinomial(n_c, Q p_c) over every report, with a tensor Q."""
    protocol, lead = tallies[0].protocol, dims[0]
    every, channel = protocol.all_reports(), tensor.as_tensor(channel).astype("float64")
    shape = len(every), len(categories)
    if channel.type.ndim != 2 or any(n not in (None, size) for n, size in zip(channel.type.shape, shape, strict=True)):
        raise ArgumentError(f"channel must have one row per report and one column per category {shape}.")
    _check_constant(channel, axis=0)
    report = f"{name}_report"
    tensor.add_coord(report, [", ".join(x) for x in zip(*protocol.format_reports(every, categories), strict=True)])
    counts = np.stack([tensor.counted(every, tally) for tally in tallies])
    observed = tensor.observed_data(f"{name}_counts", (counts if lead else counts[0]).astype(np.uint64), (*lead, report))
    users = observed.sum(axis=-1).astype("int64")
    return pm.Multinomial(name, n=users, p=pt.dot(p, channel.T), observed=observed, dims=(*lead, report))


def _check_constant(values: Any, axis: int | None = None) -> None:
    """Refuse constants that are no probabilities, or do not add up to one along an axis; variables are the caller's."""
    if not all(isinstance(part, Constant) for part in graph_inputs([values])):
        return
    numbers = np.asarray(values.eval())
    if not ((numbers >= 0) & (numbers <= 1)).all():
        raise ArgumentError("channel must hold probabilities, from 0 to 1.")
    if axis is not None and np.abs(numbers.sum(axis=axis) - 1).max() > ROUNDING:
        sums = numbers.sum(axis=axis).round(6).tolist()
        raise ArgumentError(f"channel must have columns that add up to 1 (a column is a category), got the sums {sums}.")


def _add_rates(name: str, p: Any, tallies: list, rates: Any, categories: tuple, dims: tuple) -> Any:
    """Add the likelihood of whole reports with two rates that are tensors; its value are the support counts."""
    lead, last = dims
    rated = tallies[0].protocol.rated()
    if len(rates) != 2 or rated is None:
        raise InfeasibleError(
            f"A pair of rates is for unary encodings, RAPPOR and local hashing, not {tallies[0].protocol.design}."
        )
    for rate in rates:
        _check_constant(tensor.as_tensor(rate))
    forms = [rated.of(tally.reports) for tally in tallies]
    support = f"{name}_support" if last is None else last
    tensor.add_coord(support, list(categories))
    joined = {key: np.concatenate([getattr(form, key) for form in forms]).astype(float) for key in ("hits", "sizes", "ones")}
    joined["weights"] = np.concatenate([tally.counts for tally in tallies]).astype(float)
    place = np.repeat(np.arange(len(tallies)), [len(tally.counts) for tally in tallies])
    users = np.array([tally.n_reports for tally in tallies], dtype=float)
    bits, constant = forms[0].bits, forms[0].log_constant

    def logp(value: Any, p: Any, on: Any, off: Any, *parameters: Any) -> Any:
        hits, sizes, ones, weights, place, users = parameters
        rows = pt.exp(hits * pt.log(on / off) + (sizes - hits) * pt.log((1 - on) / (1 - off)))
        base = constant + ones * pt.log(off) + (bits - ones) * pt.log1p(-off)
        terms = weights * (base + pt.log((rows * (p[place] if lead else p)).sum(axis=-1)))
        total = pt.inc_subtensor(pt.zeros_like(users)[place], terms) if lead else terms.sum()
        return tensor.of_shares(total, p)

    def random(p: Any, on: Any, off: Any, *parameters: Any, rng: Any = None, size: Any = None) -> Any:
        flat = np.broadcast_to(p, (*(size or p.shape[:-1]), p.shape[-1])).reshape(-1, p.shape[-1])
        protocol = rated.at(float(on), float(off))
        numbers = np.resize(parameters[-1], len(flat))
        drawn = [
            protocol.simulate_support_counts(rng.multinomial(round(n), q / q.sum()), rng)
            for q, n in zip(flat, numbers, strict=True)
        ]
        return np.array(drawn, dtype=float).reshape(*(size or p.shape[:-1]), p.shape[-1])

    counts = np.stack([tally.rows.support_counts() for tally in tallies])
    data = [model_data(f"{name}_{key}", value) for key, value in joined.items()]
    core = "(c,a),(),(),(m,a),(m,a),(m),(m),(m),(c)->(c,a)" if lead else "(a),(),(),(m,a),(m,a),(m),(m),(m),(c)->(a)"
    return pm.CustomDist(
        name,
        p,
        *map(tensor.as_tensor, rates),
        *data,
        model_data(f"{name}_place", place),
        model_data(f"{name}_users", users),
        logp=logp,
        random=random,
        signature=core,
        dtype="float64",
        observed=tensor.observed_data(f"{name}_counts", counts if lead else counts[0]),
        dims=(*lead, support),
        class_name="PrivatizedReports",
    )
