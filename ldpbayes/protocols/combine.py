"""Channels made of channels: compose, product, mixture and kronecker, each an explicit Channel with its exact level."""

from functools import reduce
from math import prod

import numpy as np

from ldpbayes import checks
from ldpbayes.errors import ArgumentError, InfeasibleError, shown
from ldpbayes.protocols.base import AbstractProtocol, check_entries
from ldpbayes.protocols.channel import Channel
from ldpbayes.protocols.constants import COMBINED_ENTRIES
from ldpbayes.protocols.registry import COMBINATORS


def as_channel(protocol):
    """Return a protocol as an explicit Channel, its reports labelled by their text form.

    Raises
    ------
    InfeasibleError
        Where the protocol has too many possible reports, or its probabilities are not known exactly.
    """
    if isinstance(protocol, Channel):
        protocol.require_known()
        return protocol
    _check_sizes([protocol])
    matrix = protocol.channel()
    labels = [str(x) for x in range(protocol.n_categories)]
    columns = protocol.format_reports(protocol.all_reports(), labels)
    return Channel(matrix, tuple(" ".join(cells) for cells in zip(*columns, strict=True)))


def compose(outer, inner) -> Channel:
    """Two devices one after the other: the report of the first is what the second is told.

    The channel is the matrix product R Q.

    Q is the inner channel, R the outer one, whose categories are the inner one's reports, in order. LDP(R∘Q) ≤ LDP(Q), and
    ≤ LDP(R); ``epsilon`` of the result is the exact level of the product.

    Parameters
    ----------
    outer, inner : protocols

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), §7.

    Examples
    --------
    >>> from ldpbayes.protocols.designs import warner
    >>> compose(warner(0.9), warner(0.8)).matrix.round(2)
    array([[0.74, 0.26],
           [0.26, 0.74]])
    """
    for name, protocol in (("outer", outer), ("inner", inner)):
        checks.instance(protocol, name, AbstractProtocol, "a protocol of ldpbayes")
    second, first = as_channel(outer), as_channel(inner)
    if second.n_categories != first.n_outputs:
        raise ArgumentError(
            f"outer must have one category per report of inner ({first.n_outputs}), got {second.n_categories}."
        )
    check_entries(second.n_outputs, first.n_categories, COMBINED_ENTRIES)
    settings = {"outer": stated(outer), "inner": stated(inner)}
    return Channel(second.matrix @ first.matrix, second.answers, "compose", settings)


def product(factors, separator="/") -> Channel:
    """Several reports on one value, each by a device of its own.

    They are drawn independently: Q[(y₁, …, y_k), x] = Π_j Q^j[y_j, x].

    Columns are Kronecker products of the factors' columns (Khatri–Rao); the last report varies fastest. Budgets add up at
    most: LDP ≤ Σ_j LDP(Q^j), with equality where the same pair of values is the worst of every factor.

    Parameters
    ----------
    factors : sequence of protocols
        Over the same categories.
    separator : str
        Joins the answers of the factors.

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), §7.
    """
    factors = _listed(factors)
    _check_sizes(factors, factors[0].n_categories)
    channels = _over_same_categories(factors)
    matrix = reduce(
        lambda left, right: (left[:, None] * right[None]).reshape(-1, left.shape[1]), (c.matrix for c in channels)
    )
    return Channel(matrix, _joined(channels, separator), "product", _all_settings(factors) | {"separator": separator})


def mixture(shares, factors, separator=":") -> Channel:
    """One of several devices, drawn with public probabilities and named in the report.

    Its rows are w_j Q^j.

    LDP is the largest of the factors with a share above zero. Users whose channel is known are better held as several
    channels of one Collection, which has the same posterior.

    Parameters
    ----------
    shares : (k,) sequence
        Probabilities of the factors.
    factors : sequence of protocols
        Over the same categories.
    separator : str
        Stands between the factor's number, from one, and its answer.

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), §7.
    """
    channels = _over_same_categories(factors)
    w = checks.distribution(shares, "shares", len(channels))
    matrix = np.concatenate([share * c.matrix for share, c in zip(w, channels, strict=True)])
    checks.text(separator, "separator")
    answers = tuple(f"{j}{separator}{answer}" for j, c in enumerate(channels, 1) for answer in c.answers)
    settings = {"shares": w.tolist()} | _all_settings(factors) | {"separator": separator}
    return Channel(matrix, answers, "mixture", settings)


def kronecker(factors, separator="/") -> Channel:
    """Several attributes of a person, each through a channel of its own, as one channel of the joint table.

    Q = Q¹ ⊗ … ⊗ Qᵏ on the product alphabet; the last attribute varies fastest, and answers are joined by the separator.
    ε is the sum of the attributes' ε.

    Parameters
    ----------
    factors : sequence of protocols
    separator : str

    References
    ----------
    Lopuhaä-Zwakenberg et al. (2019), §7.
    """
    factors = _listed(factors)
    _check_sizes(factors, prod(f.n_categories for f in factors))
    channels = _channels(factors)
    matrix = reduce(np.kron, (channel.matrix for channel in channels))
    return Channel(matrix, _joined(channels, separator), "kronecker", _all_settings(factors) | {"separator": separator})


# Functions of this file by the name that collection files use.
COMBINATORS |= {f.__name__: f for f in (compose, product, mixture, kronecker)}


def _channels(factors):
    return [as_channel(factor) for factor in _listed(factors)]


def _listed(factors):
    """Return factors as a list of at least one protocol."""
    protocols = list(factors) if isinstance(factors, (list, tuple)) else []
    if not protocols or not all(isinstance(factor, AbstractProtocol) for factor in protocols):
        raise ArgumentError(f"factors must be a list of protocols with at least one channel, got {shown(factors)}.")
    return protocols


def _over_same_categories(factors):
    channels = _channels(factors)
    sizes = {channel.n_categories for channel in channels}
    if len(sizes) > 1:
        raise ArgumentError(f"factors must be over the same categories, got {', '.join(map(str, sorted(sizes)))} of them.")
    return channels


def _joined(channels, separator):
    checks.text(separator, "separator")
    return tuple(
        reduce(lambda left, right: [f"{a}{separator}{b}" for a in left for b in right], (c.answers for c in channels))
    )


def _check_sizes(factors, n_categories=None):
    """Refuse factors, or their combination over n_categories, too large to write out, before any is."""
    for factor in factors:
        if factor.n_outputs is None:
            raise InfeasibleError(f"{shown(factor)} has too many possible reports to write its channel out.")
        check_entries(factor.n_outputs, factor.n_categories, COMBINED_ENTRIES)
    check_entries(prod(f.n_outputs for f in factors), n_categories or factors[0].n_categories, COMBINED_ENTRIES)


def _all_settings(factors):
    return {"factors": [stated(factor) for factor in factors]}


def stated(protocol):
    """Return a protocol's name and parameters, as a collection file states a factor."""
    sized = {} if isinstance(protocol, Channel) else {"n_categories": protocol.n_categories}
    return {"protocol": protocol.design, **sized, **protocol.parameters()}
