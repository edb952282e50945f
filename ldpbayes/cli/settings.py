"""``--set KEY=VALUE``: the keys of a collection file, with the same meaning in every command that reads reports."""

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ldpbayes import files
from ldpbayes.cli.options import flags, level, people
from ldpbayes.errors import ArgumentError, listed, shown


@dataclass(frozen=True)
class Key:
    """A key of a collection file; words in capital letters stand for names of the user's own.

    Attributes
    ----------
    pattern : str
        Such as "population_size.STRATUM".
    kind : {"text", "labels", "number", "flag", "law"}
        How its value is read. Labels may be set several times, and may be empty.
    """

    pattern: str
    kind: str = "text"

    def places(self, path: str) -> list[str] | None:
        """Return the names of the tables and the key that a path means; None where it is none of this pattern."""
        parts = self.pattern.split(".")
        match = re.fullmatch(r"\.".join("(.+?)" if part.isupper() else f"({part})" for part in parts), path)
        return None if match is None else list(match.groups())


_SAMPLE = (Key("weights"), Key("strata"), Key("cluster"))
_SIZES = (Key("population_size", "number"), Key("population_size.STRATUM", "number"))
_IGNORING = (Key("noncompliance.NAME.CHANNEL", "law"), Key("noncompliance.NAME", "law"))
_DENYING = (Key("deniers.of", "labels"), Key("deniers.say"), Key("deniers.channel", "labels"))
_MISSING, _USERS = Key("missing", "labels"), Key("by_user")
_TEXTS = tuple(Key(name) for name in ("title", "question", "citation", "licence", "notes", "id"))
_DERIVED = (Key("derived.NAME.of", "labels"), Key("derived.NAME.given", "labels"))
#: All that may be set.
KEYS = (*_SAMPLE, *_SIZES, _USERS, _MISSING, *_IGNORING, *_DENYING, Key("ordered", "flag"), *_DERIVED, *_TEXTS)
#: What commands use that do not use all keys; regress has these of a table, and all of a collection file.
USED = {
    "scan": (_MISSING, _USERS),
    "associate": tuple(key for key in KEYS if key not in (*_IGNORING, *_DENYING)),
    "private-groups": (Key("weights"),),
    "plan": (Key("noncompliance.NAME", "law"), *_DENYING[:2]),
}
#: Keys of which a regression on a table, rather than on a collection file, has a use.
OF_TABLE = (*_SAMPLE, *_DENYING)
#: The options that say what other keys of a collection file say there, and what --set said in former versions.
OPTIONS = {
    "by": "by",
    "categories": "categories",
    "protocol": "protocol",
    "parameters": "parameter",
    "report": "report",
    "count": "count",
    "epsilon": "epsilon_column",
    "rate": "rate_column",
    "noncompliance_prior": "noncompliance_prior",
    "deniers_prior": "deniers_prior",
    "deniers.formula": "deniers_formula",
    "deniers.delta": "deniers_share",
    "totals": "totals",
    "gamma": "gamma",
    "p": "truth",
    "target": "target",
    "estimator": "estimator",
}


def used(command: str) -> tuple[Key, ...]:
    """Return the keys that a command uses."""
    return USED.get(command, KEYS)


def named(name: str, command: str) -> str | None:
    """Return the key of a command that an option of some name stands for, such as population_size."""
    return next((key.pattern for key in used(command) if key.pattern.partition(".")[0] == name), None)


def parsed(texts: Iterable[str] | None, command: str) -> dict[str, Any]:
    """Return what repeated options --set KEY=VALUE say, as a collection file would have it.

    Parameters
    ----------
    texts : iterable of str, optional
    command : str

    Raises
    ------
    ArgumentError
        On a key that the command does not use, a value of another kind, and a key that is set twice.
    """
    document: dict[str, Any] = {}
    for text in texts or ():
        path, equals, value = (part.strip() for part in text.partition("="))
        key, (*tables, last) = _resolved(path, command)
        if not equals or not (value or key.kind == "labels"):
            raise ArgumentError(f"--set must be KEY=VALUE, got {shown(text)}.")
        table = document
        for name in tables:
            table = table.setdefault(name, {}) if isinstance(table, dict) else table
        if not isinstance(table, dict) or (last in table and key.kind != "labels"):
            raise ArgumentError(f"--set must set each key once, got {shown(path)} twice.")
        read = _READ[key.kind](value, path)
        table[last] = [*table.get(last, ()), *read] if key.kind == "labels" else read
    return document


def refuse_other(document: dict[str, Any], keys: tuple[Key, ...], why: str) -> None:
    """Refuse a document with a key that is none of these."""
    roots = {key.pattern.partition(".")[0] for key in keys}
    if odd := next((name for name in document if name not in roots), None):
        raise ArgumentError(f"--set must be one of {_listed(keys)} {why}, got {shown(odd)}.")


def _resolved(path, command):
    """Return (key, its places) of a path; refuse one that the command does not use, with what to write instead."""
    keys = used(command)
    for key in keys:
        if (places := key.places(path)) is not None:
            return key, places
    root = path.partition(".")[0]
    option = flags(command).get(OPTIONS.get(path) or OPTIONS.get(root, ""))
    if option is not None:
        raise ArgumentError(f"--set must be one of {_listed(keys)}, got {shown(path)}; that is the option {option}.")
    patterns = [key.pattern for key in keys]
    near = difflib.get_close_matches(path, patterns, 1) or [name for name in patterns if name.startswith(f"{root}.")]
    hint = f"; did you mean {near[0]}?" if near else "."
    raise ArgumentError(f"--set must be one of {_listed(keys)}, got {shown(path)}{hint}")


def _listed(keys):
    return listed([key.pattern for key in keys], most=len(KEYS))


def _labels(text, path):
    """Return the labels of a text: one, or a list as TOML has it, ["a", "b"]."""
    value = _toml(text) if text.startswith("[") else text
    return [str(label) for label in value] if isinstance(value, list) else [text]


def _number(text, path):
    rule = "a number, or population_size.STRATUM=number" if path == "population_size" else "a number"
    return level(people(text, path), path, rule)


def _flag(text, path):
    if text not in ("true", "false"):
        raise ArgumentError(f"{path} must be true or false, got {shown(text)}.")
    return text == "true"


def _law(text, path):
    """Return a law: the name of one, or a list or a table as TOML has it."""
    return _toml(text) if text[0] in "[{" else text


def _toml(text):
    files.check_structure(f"value = {text}", "--set")
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        raise ArgumentError(f"--set must have a value as TOML writes it, got {shown(text)}.") from None


_READ = {"text": lambda text, path: text, "labels": _labels, "number": _number, "flag": _flag, "law": _law}
