"""The exceptions: all that ldpbayes raises on purpose derive from LDPBayesError, such as DataError and ArgumentError.

Sentences quote what a file or a caller gave. ``shown``, ``listed`` and ``printable`` keep such quotes short and harmless.
"""

import contextlib
import functools
import math
import os
import reprlib
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from datetime import date

#: Display: Longest sentence of an error, in characters; the middle of a longer one is left out.
MAX_SENTENCE = 2000
#: Display: Longest quotation of one value.
MAX_SHOWN = 80

#: How the names of files between the caller and a warning begin: of the package, and of decorators around its functions.
#: A whole name is no beginning to CPython.
_NOT_THE_CALLER = (
    os.path.join(os.path.dirname(__file__), ""),
    *(os.path.splitext(str(module.__file__))[0] for module in (contextlib, functools)),
)

#: Unicode categories that a terminal obeys instead of printing: control, format (direction of text), surrogate, line ends.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, *, keep: str = "") -> str:
    """Return text with control characters escaped, so that it cannot move the cursor or change colours in a terminal.

    Parameters
    ----------
    text : str
    keep : str
        Characters that stay as they are, such as a line feed.

    Examples
    --------
    >>> printable("\\x1b[31mred")
    '\\\\x1b[31mred'
    """
    if text.isascii() and text.isprintable():
        return text
    # A zero-width joiner makes emoji, and cannot turn the direction of a text.
    bad = {c for c in set(text) if unicodedata.category(c) in _UNPRINTABLE and c not in keep and c not in "\u200c\u200d"}
    return text.translate({ord(c): repr(c)[1:-1] for c in bad}) if bad else text


def shown(value: object) -> str:
    """Return a short quotation of a value for a sentence: its ``repr``, cut in the middle, without line breaks."""
    return " ".join(_SHORT.repr(value).split())


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names joined by commas; of more than ``most`` the first ones and their number. Odd ones are quoted.

    Semicolons separate names that hold commas, such as those of cells by several columns.

    Examples
    --------
    >>> listed("abcd", most=3)
    'a, b, c, … (4 in all)'
    """
    plain = (str(name) for name in names)
    texts = [name if 0 < len(name) <= MAX_SHOWN and name.isprintable() else shown(name) for name in plain]
    between = "; " if any(", " in text for text in texts) else ", "
    return between.join(texts) if len(texts) <= most else f"{between.join([*texts[:most], '…'])} ({len(texts)} in all)"


class _Short(reprlib.Repr):
    """Quotations of at most MAX_SHOWN characters; ``repr`` alone refuses integers of thousands of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = MAX_SHOWN
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = self.maxarray = 6
        self.maxlevel = 3

    def repr(self, x: object) -> str:
        text = super().repr(x)
        return text if len(text) <= 2 * MAX_SHOWN else f"{text[: 2 * MAX_SHOWN - 20]} … {text[-17:]}"

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() < 130:
            return repr(x)
        return f"an integer of {int(x.bit_length() * math.log10(2)) + 1} digits"

    def repr_date(self, x: date, level: int) -> str:
        return x.isoformat()

    repr_datetime = repr_time = repr_date

    def repr_instance(self, x: object, level: int) -> str:
        try:
            return super().repr_instance(x, level)
        except Exception:  # a foreign __repr__ must not hide the sentence that quotes it
            return f"<{type(x).__name__}>"


_SHORT = _Short()


def _text(value: object) -> str:
    """Return the text of a value, or its quotation where it has none."""
    try:
        return str(value)
    except Exception:
        return shown(value)


def _sentence(message: object) -> str:
    text = printable(str(message))
    return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE - 500]} … {text[-480:]}"


class LDPBayesError(Exception):
    """Base of every error that ldpbayes raises on purpose; the command line prints its sentence and exits with status 2.

    Parameters
    ----------
    message : str
        The sentence; control characters in it are escaped, and more than MAX_SENTENCE characters are cut.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_sentence(message))


class ArgumentError(LDPBayesError, ValueError):
    """An argument breaks its rule: ``<name> must be <rule>, got <value>[; <what to do>].``"""


class MissingGroupError(ArgumentError, KeyError):
    """A result lacks a group that ``extend`` adds."""

    __str__ = LDPBayesError.__str__


class DataError(LDPBayesError, ValueError):
    """A file or a set of reports is malformed; the sentence names the file, the line or row, and the field.

    Parameters
    ----------
    message : str
        What is wrong, without a location.
    source : path-like, optional
        File that holds the data.
    line : int, optional
        Line in that file, counted from one.
    field : str, optional
        Column or key.
    """

    def __init__(self, message: str, *, source: object = None, line: int | None = None, field: str | None = None) -> None:
        self.message, self.source, self.line, self.field = message, source, line, field
        where = [_text(source)] if source is not None else []
        where += [f"line {_text(line)}"] if line is not None else []
        where += [f"field {shown(field)}"] if field is not None else []
        super().__init__(f"{', '.join(where)}: {message}" if where else message)

    def at(self, *, source: object = None, line: int | None = None, field: str | None = None) -> "DataError":
        """Return the same error with the location filled in where it was missing.

        Parameters
        ----------
        source : path-like, optional
        line : int, optional
            Counted from one.
        field : str, optional
            Column or key.

        Returns
        -------
        DataError
        """
        return DataError(
            self.message,
            source=self.source if self.source is not None else source,
            line=self.line if self.line is not None else line,
            field=self.field if self.field is not None else field,
        )


class InfeasibleError(LDPBayesError, ValueError):
    """A method's predicted cost is above its stated limit, or the method does not apply to this collection."""


class CellsError(InfeasibleError):
    """Some cells cannot be served; ``reasons`` says why, by label. A fit of cells leaves them out and serves the others."""

    def __init__(self, message: str, reasons: dict[str, str]) -> None:
        super().__init__(message)
        self.reasons = reasons


class ConvergenceError(LDPBayesError, RuntimeError):
    """An iteration or a sampler stopped before its criterion was met; ``result`` holds what it had."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


@contextlib.contextmanager
def no_foreign_errors(dependency: str) -> Iterator[None]:
    """Turn whatever a dependency raises into a ConvergenceError that says what happened.

    A panic of compiled Rust code is a BaseException, which no ``except Exception`` catches.

    Parameters
    ----------
    dependency : str
        What stopped, such as "The sampler nutpie".
    """
    try:
        yield
    except (LDPBayesError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        raise ConvergenceError(f"{dependency} stopped: {type(error).__name__}{f': {said}' if said else ''}.") from error


class LDPBayesWarning(UserWarning):
    """Base of the warnings that ldpbayes issues."""


def warn(message: str, category: type[LDPBayesWarning]) -> None:
    """Issue a warning at the line of the caller's own that led to it, however deep in the package it arises."""
    warnings.warn(message, category, skip_file_prefixes=_NOT_THE_CALLER)


class RankDeficientWarning(LDPBayesWarning):
    """The channel maps different distributions to the same reports: part of the posterior is the prior."""


class CompositeWarning(LDPBayesWarning):
    """The counts are marginal: a composite likelihood replaces the likelihood."""


class DiagnosticWarning(LDPBayesWarning):
    """A sampler's or an approximation's diagnostic is outside its acceptable range."""


__all__ = [
    "ArgumentError",
    "CompositeWarning",
    "ConvergenceError",
    "DataError",
    "DiagnosticWarning",
    "InfeasibleError",
    "LDPBayesError",
    "LDPBayesWarning",
    "RankDeficientWarning",
]


def __dir__() -> list[str]:
    return [*__all__]
