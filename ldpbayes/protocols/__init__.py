"""Protocols: one file each, found by importing this package; make_protocol builds one from its name."""

import importlib
import inspect
import pkgutil

from ldpbayes import checks
from ldpbayes.errors import ArgumentError
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.channel import Channel, kronecker
from ldpbayes.protocols.designs import DESIGNS
from ldpbayes.protocols.grr import GRR

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

#: Concrete protocol classes by the name that collection files use.
PROTOCOLS = {cls.name: cls for cls in AbstractProtocol.__subclasses__()}


def protocol_names():
    """Return every name that make_protocol knows, sorted."""
    return sorted({*PROTOCOLS, *DESIGNS, "kronecker"})


def make_protocol(name, categories, parameters=None):
    """Return the protocol that a collection file names.

    Parameters
    ----------
    name : str
        A protocol ("grr", …), a survey design ("warner", …), "channel" or "kronecker".
    categories : sequence of str
        Category labels, in order.
    parameters : dict, optional
        The protocol's parameters under their own names.

    Returns
    -------
    AbstractProtocol

    Raises
    ------
    ArgumentError
        On an unknown name, an unknown, missing or invalid parameter, or a wrong number of categories.
    """
    checks.choice(name, "protocol", protocol_names())
    parameters = dict(parameters or {})
    if name in PROTOCOLS:
        protocol = PROTOCOLS[name].from_parameters(tuple(categories), parameters)
    elif name == "kronecker":
        protocol = _design(_kronecker, parameters, name)
    else:
        protocol = _design(DESIGNS[name], parameters)
    if protocol.n_categories != len(categories):
        raise ArgumentError(
            f"categories must match the {name} channel, which has {protocol.n_categories} of them, got {len(categories)}."
        )
    return protocol


def describe_protocols():
    """Return (name, parameters, first docstring line) of every protocol and design."""
    out = []
    for name in protocol_names():
        maker = PROTOCOLS.get(name) or DESIGNS.get(name) or _kronecker
        known = [
            str(p.replace(annotation=inspect.Parameter.empty))
            for p in inspect.signature(maker).parameters.values()
            if p.name not in ("n_categories", "answers", "design", "settings")
        ]
        out.append((name, ", ".join(known), inspect.getdoc(maker).splitlines()[0]))
    return out


def _design(maker, parameters, name=None):
    """Call a constructor with the parameters of a file, or say which is unknown or missing."""
    name = name or maker.__name__.lower()
    known = {k: v for k, v in inspect.signature(maker).parameters.items() if k not in ("design", "settings")}
    for key in parameters:
        if key not in known:
            raise ArgumentError(f"{name} has no parameter {key!r}; it takes {', '.join(known)}.")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in parameters:
            raise ArgumentError(f"{name} needs the parameter {key!r}.")
    return maker(**parameters)


def _kronecker(factors, separator=","):
    """Several attributes, each through its own channel; the joint distribution is estimated."""
    channels = []
    for i, factor in enumerate(factors):
        settings = dict(factor)
        name = settings.pop("protocol", None)
        if name in DESIGNS:
            channels.append(_design(DESIGNS[name], settings))
        elif name == "channel":
            channels.append(_design(Channel, settings))
        else:
            raise ArgumentError(f"factors must name a survey design or channel, got {name!r} in factor {i + 1}.")
    return kronecker(channels, separator)


__all__ = [
    "DESIGNS",
    "GRR",
    "PROTOCOLS",
    "AbstractProtocol",
    "Channel",
    "describe_protocols",
    "kronecker",
    "make_protocol",
    "protocol_names",
]
