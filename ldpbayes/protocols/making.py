"""Protocols by name whose ε is still open: constructors from a number of categories and an ε."""

import re
from collections.abc import Callable

from ldpbayes import checks
from ldpbayes.protocols.base import AbstractProtocol
from ldpbayes.protocols.registry import (
    Numbered,
    describe_protocol,
    describe_protocols,
    known_name,
    make_protocol,
    parse_name,
    resolve,
)


def named_makers(names, parameters=None) -> dict[str, Callable[[int, float | None], AbstractProtocol]]:
    """Return name -> constructor (n_categories, epsilon), which leaves ε alone where the parameters fix it.

    Parameters
    ----------
    names : sequence of str
        As collection files take them; parameters may follow, "olh:seeds=4096".
    parameters : dict, optional
        Further parameters, such as ``{"buckets": 8}``, for each of them.

    Returns
    -------
    dict of str to callable
        Constructors, which take None for an ε that is fixed.

    Raises
    ------
    ArgumentError
        On an unknown name.
    """
    parameters = {} if parameters is None else checks.mapping(parameters, "parameters")

    def maker(text):
        name, parameters_stated = parse_name(text)
        name = known_name(name, "protocols")
        free = has_free_epsilon(text, parameters)
        return lambda a, epsilon: make_protocol(
            name,
            Numbered(a),
            parameters | parameters_stated | ({"epsilon": epsilon} if free and epsilon is not None else {}),
        )

    return {name: maker(name) for name in checks.labels(names, "names", "names of protocols")}


def epsilon_follows(name):
    """Return the sentence that refuses ε beside a protocol whose parameters fix it."""
    name = parse_name(name)[0]
    described = _described(resolve(known_name(name))[0])
    needed = ",".join(f"{parameter.name}=…" for parameter in described.parameters if parameter.required)
    say = f", and name these, as in {name}:{needed}" if needed else ""
    return f"epsilon follows from the parameters of {name}; leave it out{say}."


def _described(known):
    return describe_protocol(known) or next((design for design in describe_protocols() if design.name == known), None)


def has_free_epsilon(name, parameters=None) -> bool:
    """Return whether a protocol of this name takes ε as a parameter; the ε of a survey design follows from its devices."""
    name, stated = parse_name(name)
    parameters = {} if parameters is None else checks.mapping(parameters, "parameters")
    known, given = resolve(known_name(name), parameters | stated)
    described = _described(known)
    takes = described is None or re.search(r"\bepsilon\b", described.stated)  # and not epsilon_infinity alone
    return bool(takes) and not {*given} & {"epsilon", "attribute_epsilon", "kappa", "factors"}
