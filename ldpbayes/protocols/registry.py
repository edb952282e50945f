"""Protocols by name: from what a collection file or a user says to the protocol, and what each takes."""

import functools
import importlib
import inspect
import numbers
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbayes import checks, rooms
from ldpbayes.errors import ArgumentError, shown
from ldpbayes.protocols.base import AbstractProtocol, check_entries, check_parameters
from ldpbayes.protocols.constants import COMBINED_ENTRIES

#: Concrete protocol classes, and makers of survey designs and of combinations, by the name that collection files use; filled
#: as their files are imported.
PROTOCOLS: dict[str, Any] = {}
DESIGNS: dict[str, Callable] = {}
COMBINATORS: dict[str, Callable] = {}

#: Other names of protocols, with the parameters that they fix.
ALIASES: dict[str, tuple[str, dict]] = {
    "oue": ("unary", {"variant": "optimized"}),
    "optimized_unary": ("unary", {"variant": "optimized"}),
    "optimised_unary": ("unary", {"variant": "optimized"}),
    "sue": ("unary", {"variant": "symmetric"}),
    "symmetric_unary": ("unary", {"variant": "symmetric"}),
    "olh": ("local_hashing", {}),
    "optimized_local_hashing": ("local_hashing", {}),
    "optimised_local_hashing": ("local_hashing", {}),
    "spl": ("attributes", {}),
    "blh": ("local_hashing", {"buckets": 2}),
    "binary_local_hashing": ("local_hashing", {"buckets": 2}),
    # The extended design asks two groups with p and 1 − p: two channels of one collection, each a crosswise model.
    "extended_crosswise": ("crosswise", {}),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a protocol, as a collection file states it.

    Attributes
    ----------
    name : str
    required : bool
    default : object
        None where the parameter is required.
    """

    name: str
    required: bool = True
    default: object = None

    def __str__(self):
        return self.name if self.required else f"{self.name}={self.default!r}"


#: Sections of a protocol's text that a reader of its page wants.
_TOLD = ("Formula", "Notes", "References")


@dataclass(frozen=True)
class Description:
    """What a collection file may say about a protocol.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter
    stated : str
        The parameters in words: alternatives where not all of them go together.
    summary : str
        What the protocol is, without markup.
    aliases : tuple of str
        Its other names.
    text : str
        All that is written about it, by sections.
    """

    name: str
    parameters: tuple[Parameter, ...]
    stated: str
    summary: str
    aliases: tuple[str, ...]
    text: str = ""

    def meanings(self) -> dict[str, str]:
        """Return what each parameter is, by name, as far as the text says so."""
        entries = re.findall(r"^(\w[\w, ]*) : (.*)\n((?:    .*\n?)+)", self.text, re.M)
        said = {name: f"{kind}. {' '.join(lines.split())}" for names, kind, lines in entries for name in names.split(", ")}
        return {item.name: said[item.name] for item in self.parameters if item.name in said}

    def sections(self) -> dict[str, str]:
        """Return the rest of the text, by heading; the part above the headings is called formula."""
        pieces = re.split(r"\n\n(\w+)\n-+\n", self.text)
        above = pieces[0].partition("\n\n")[2]
        texts = {"Formula": above} | dict(zip(pieces[1::2], pieces[2::2], strict=True))
        return {name: " ".join(text.split()) for name, text in texts.items() if text and name in _TOLD}


@dataclass(frozen=True)
class Numbered(Sequence):
    """The labels "0", "1", … of so many categories, made one by one where they are asked for."""

    size: int

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return str(range(self.size)[i])


@functools.cache
def _load() -> None:
    """Import every file of this package, and of rooms that bring protocols, and note what they define."""
    package = importlib.import_module("ldpbayes.protocols")
    for module in pkgutil.walk_packages(package.__path__, "ldpbayes.protocols."):
        if "._" not in module.name:  # those are compiled kernels, loaded where the first large call needs them
            importlib.import_module(module.name)
    for name in rooms.brought("PROTOCOLS").values():
        importlib.import_module(name)
    PROTOCOLS.update(_loaded())


def _loaded():
    """Return the registered protocols whose files are loaded, by name."""
    return {cls.name: cls for cls in _below(AbstractProtocol) if cls.registered and "name" in vars(cls)}


def _below(cls):
    return [heir for child in cls.__subclasses__() for heir in (child, *_below(child))]


def protocol_names() -> list[str]:
    """Return every name that make_protocol knows, aliases included, sorted."""
    _load()
    return sorted({*PROTOCOLS, *DESIGNS, *COMBINATORS, *ALIASES})


def resolve(name: str, parameters: dict | None = None) -> tuple[str, dict]:
    """Return the registered name behind a name or alias, and the parameters with those that the alias fixes.

    Raises
    ------
    ArgumentError
        Where the parameters state one that the alias fixes otherwise.
    """
    name, fixed = ALIASES.get(alias := checks.text(name, "name"), (name, {}))
    parameters = {} if parameters is None else checks.mapping(parameters, "parameters", "a mapping from names to values")
    for key, value in fixed.items():
        stated = parameters.setdefault(key, value)
        if not isinstance(stated, (str, numbers.Number)) or stated != value:
            raise ArgumentError(f"{alias} is {name} with {key} {value!r}; leave {key} out, got {shown(stated)}.")
    return name, parameters


def parse_name(text: str) -> tuple[str, dict]:
    """Return the name and the parameters of a text such as "olh:seeds=4096,buckets=4".

    Parameters
    ----------
    text : str
        A name, or a name, a colon and name=value pairs; values are numbers where they parse, else texts.

    Returns
    -------
    str, dict

    Raises
    ------
    ArgumentError
        On a pair without an equals sign, or a parameter that is given twice.

    Examples
    --------
    >>> parse_name("olh:seeds=4096")
    ('olh', {'seeds': 4096})
    """
    name, colon, rest = checks.text(text, "protocol").partition(":")
    parameters: dict = {}
    for pair in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key or key in parameters:
            raise ArgumentError(f"protocol must be a name, or name:parameter=value,… with each once, got {shown(text)}.")
        parameters[key] = _number(value)
    return name.strip(), parameters


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def known_name(name: object, argument: str = "protocol") -> str:
    """Return the name of a protocol as it is registered, or an alias: those of people may be OUE or Forced response.

    Parameters
    ----------
    name : object
        What a file or a user says.
    argument : str
        What the error is about.

    Raises
    ------
    ArgumentError
        On an unknown name.
    """
    names = protocol_names()
    written = re.sub(r"[\s-]+", "_", name.strip().lower()) if isinstance(name, str) else name
    return str(checks.choice(written if isinstance(written, str) and written in names else name, argument, names))


def make_protocol(
    name: str, categories: Sequence[str] | int | None = None, parameters: dict | None = None
) -> AbstractProtocol:
    """Return a protocol by its name in files and commands: ``make_protocol("warner", parameters={"p": 0.8})``.

    Parameters
    ----------
    name : str
        A protocol ("grr", …), a survey design ("warner", …), "channel", a combinator ("compose", …) or an alias ("oue", …).
    categories : sequence of str or int, optional
        Category labels, in order, or their number. A survey design and a matrix know it themselves, and candidates are
        labels; of other protocols it may also be the parameter ``n_categories``.
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
    if not isinstance(name, str) or name not in DESIGNS:  # those are in one file
        name = known_name(name)
    name, parameters = resolve(name, parameters)
    if categories is None and name in (*DESIGNS, "channel"):
        return _design(DESIGNS[name], parameters) if name in DESIGNS else PROTOCOLS[name].from_parameters(None, parameters)
    if categories is None:
        categories = parameters.pop("n_categories", parameters.get("candidates"))
        if categories is None and name in COMBINATORS:
            return _combine(name, parameters, None)
        if categories is None:
            example = f"make_protocol({name!r}, ['no', 'yes'], parameters)"
            raise ArgumentError(f"categories must be the labels of the categories, or their number, for {name}: {example}.")
    if isinstance(categories, Mapping):
        raise ArgumentError(
            f"categories must be labels, or their number; parameters are the third argument, got {shown(categories)}."
        )
    if isinstance(categories, numbers.Number):
        categories = Numbered(checks.categories_count(categories, "categories"))
    elif not isinstance(categories, Numbered):
        categories = checks.entries(categories, "categories", "a sequence of labels")
    if name in PROTOCOLS:
        protocol = PROTOCOLS[name].from_parameters(categories, parameters)
    elif name in COMBINATORS:
        protocol = _combine(name, parameters, len(categories))
    else:
        if "n_categories" in inspect.signature(DESIGNS[name]).parameters:
            parameters.setdefault("n_categories", len(categories))
        stated = parameters.get("n_categories", len(categories))  # before a matrix of that size is made
        if checks.categories_count(stated) != len(categories):
            raise ArgumentError(f"n_categories must be the number of categories ({len(categories)}), got {shown(stated)}.")
        protocol = _design(DESIGNS[name], parameters)
    if protocol.n_categories != len(categories):
        raise ArgumentError(
            f"categories must match the {name} channel, which has {protocol.n_categories} of them, got {len(categories)}."
        )
    return protocol


def describe_protocols() -> list[Description]:
    """Return the Description of every protocol, survey design and combinator, by name."""
    _load()
    makers = {**COMBINATORS, **DESIGNS, **PROTOCOLS}
    return [_described(name, makers[name]) for name in sorted(makers)]


def describe_protocol(name: str) -> Description | None:
    """Return the Description of one protocol whose file is loaded, as that of every protocol in use is, else None."""
    makers = COMBINATORS | DESIGNS | _loaded()
    return _described(name, makers[name]) if name in makers else None


def _described(name: str, maker: Any) -> Description:
    parameters = tuple(
        Parameter(p.name) if p.default is p.empty else Parameter(p.name, False, p.default)
        for p in inspect.signature(maker).parameters.values()
        if p.name not in ("n_categories", "answers", "design", "settings", "counts", "law")
    )
    stated = None if inspect.isfunction(maker) else maker.file_parameters
    text = (inspect.getdoc(maker) or "").replace("`", "")
    summary = " ".join(text.split("\n\n")[0].split())
    aliases = tuple(alias for alias, (registered, _) in ALIASES.items() if registered == name)
    return Description(name, parameters, stated or ", ".join(map(str, parameters)), summary, aliases, text)


def _design(maker, parameters):
    """Call a constructor with the parameters of a file, or say which is unknown or missing."""
    fields = {k: v for k, v in inspect.signature(maker).parameters.items() if k not in ("design", "settings")}
    check_parameters(maker.__name__.lower(), parameters, fields, [k for k, v in fields.items() if v.default is v.empty])
    return maker(**parameters)


def _combine(name, parameters, n_categories):
    """Return the combination of the protocols that the tables ``factors``, or ``outer`` and ``inner``, describe."""
    parameters = dict(parameters)
    # The factors of a product or a mixture share the file's categories; those of kronecker have their own.
    size = None if name == "kronecker" else n_categories
    if name == "kronecker":
        _check_kronecker(parameters.get("factors"), n_categories)
    if isinstance(parameters.get("factors"), list):
        parameters["factors"] = [make_factor(table, size, f"factor {i}") for i, table in enumerate(parameters["factors"], 1)]
    elif "factors" in parameters:
        raise ArgumentError(f"factors must be a list of tables, each with a protocol, got {shown(parameters['factors'])}.")
    if "inner" in parameters:
        parameters["inner"] = make_factor(parameters["inner"], size, "inner")
        if "outer" in parameters:
            parameters["outer"] = make_factor(parameters["outer"], parameters["inner"].n_outputs, "outer")
    return _design(COMBINATORS[name], parameters)


def _check_kronecker(factors, n_categories):
    """Refuse factors that state more categories than the whole has, before anything of their size is made."""
    for i, table in enumerate(factors if isinstance(factors, list) else (), 1):
        stated = table.get("n_categories") if isinstance(table, dict) else None
        if stated is not None and n_categories is not None and checks.categories_count(stated) > n_categories:
            raise ArgumentError(
                f"n_categories of factor {i} must be at most the number of categories ({n_categories}), got {shown(stated)}."
            )


def make_factor(table, n_categories, where):
    """Return the protocol of one factor: its table names the protocol, and n_categories where nothing else fixes it."""
    settings = dict(table) if isinstance(table, dict) else {}
    name = settings.pop("protocol", None)
    if name not in protocol_names():
        raise ArgumentError(f"{where} must name a protocol, got {shown(name)}; known are {', '.join(protocol_names())}.")
    name, settings = resolve(name, settings)
    if name in DESIGNS:
        return _design(DESIGNS[name], settings)
    if name == "channel":
        return PROTOCOLS[name].from_parameters(None, settings)
    stated = settings.pop("n_categories", None)
    if stated is not None and n_categories is not None and stated != n_categories:
        raise ArgumentError(f"n_categories of {where} must be {n_categories}, got {shown(stated)}.")
    if name in COMBINATORS:
        return _combine(name, settings, n_categories if stated is None else stated)
    size = checks.categories_count(n_categories if stated is None else stated, f"n_categories of {where}")
    check_entries(size, 1, COMBINED_ENTRIES)
    return make_protocol(name, Numbered(size), settings)


def inner_protocol(name, key, table, categories):
    """Return the protocol over the same categories that a parameter of another one, a table, describes."""
    if not isinstance(table, Mapping) or not isinstance(table.get("protocol"), str):
        raise ArgumentError(f"{name} needs the parameter {key!r}, a table with a protocol, got {shown(table)}.")
    return make_protocol(table["protocol"], categories, {k: value for k, value in table.items() if k != "protocol"})
