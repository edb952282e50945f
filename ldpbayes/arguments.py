"""Arguments that many functions take: each is described once and checked once, by its name."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

#: Sections of a docstring in their order.
SECTIONS = ("Parameters", "Returns", "Raises", "Warns", "Notes", "References", "Examples")
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)})\n-+$", re.MULTILINE)
#: What every function raises that checks its arguments.
REFUSES = {"Raises": "ArgumentError\n    If an argument breaks its rule."}


def explained[F: Callable](words: Mapping[str, str], sections: Mapping[str, str] = REFUSES) -> Callable[[F], F]:
    """Return a decorator that adds to a docstring the arguments, and the sections, that it does not describe itself.

    Parameters
    ----------
    words : mapping of str to str
        Name of an argument → its text below "Parameters"; one text may describe several names.
    sections : mapping of str to str
        Heading → text of a section.

    Examples
    --------
    >>> @explained({"x": "x : float\\n    A number."}, {})
    ... def double(x):
    ...     '''Return twice a number.'''
    >>> print(double.__doc__)
    Return twice a number.
    <BLANKLINE>
    Parameters
    ----------
    x : float
        A number.
    """

    def decorate(function: F) -> F:
        if function.__doc__:  # python -OO leaves none
            function.__doc__ = _written(function.__doc__, inspect.signature(function).parameters, words, sections)
        return function

    return decorate


def _written(text, names, words, sections):
    """Return a docstring with what is described elsewhere, the arguments in the order of the call."""
    text, *rest = _HEADING.split(inspect.cleandoc(text))
    bodies = dict(sections) | {heading: body.strip("\n") for heading, body in zip(rest[::2], rest[1::2], strict=True)}
    entries = re.split(r"\n(?=\S)", bodies["Parameters"]) if "Parameters" in bodies else []
    heads = {entry: entry.partition("\n")[0].partition(" : ")[0] for entry in entries}
    texts = dict(words) | {name.strip(" *"): entry for entry, head in heads.items() for name in head.split(",")}
    bodies["Parameters"] = "\n".join(dict.fromkeys([texts[name] for name in names if name in texts] + entries))
    blocks = [f"{heading}\n{'-' * len(heading)}\n{bodies[heading]}" for heading in SECTIONS if bodies.get(heading)]
    return "\n\n".join([text.rstrip(), *blocks])


def by_name[F: Callable](
    rules: Mapping[str, Callable[[Any, str], Any]],
    together: Callable[[Mapping[str, Any]], None] | None = None,
    words: Mapping[str, str] | None = None,
    sections: Mapping[str, str] = REFUSES,
) -> Callable[[F], F]:
    """Return a decorator for functions that share arguments: each is checked by the rule of its name before the call.

    Parameters
    ----------
    rules : mapping of str to callable
        (value, name) -> anything; raises an ArgumentError where the value breaks the rule. What it returns is not used.
    together : callable, optional
        Takes all arguments that were given, by name; raises an ArgumentError where they do not go together.
    words, sections
        As for ``explained``.

    Returns
    -------
    callable
        Decorator that keeps the signature. None passes where it is the default of an argument.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        optional = {name for name, parameter in signature.parameters.items() if parameter.default is None}

        @explained(words or {}, sections)
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            for name, value in given.items():
                if name in rules and not (value is None and name in optional):
                    rules[name](value, name)
            if together is not None:
                together(given)
            return function(*args, **kwargs)

        return cast(F, call)

    return decorate
