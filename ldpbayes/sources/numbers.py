"""Numbers as texts in collection files: fractions and natural logarithms."""

import datetime
import math
import re
from fractions import Fraction

from ldpbayes.errors import ArgumentError, shown

#: Parameters that are texts even where they look like "1/2".
_LABELS = {"answers", "candidates", "laws", "separator"}
_PLAIN = r"[0-9]{1,30}(?:\.[0-9]{1,30})?"
_FRACTION = re.compile(rf"\s*([+-]?{_PLAIN})\s*/\s*({_PLAIN})\s*")
_LOGARITHM = re.compile(rf"\s*(?:({_PLAIN})\s*\*\s*)?ln\(\s*({_PLAIN})\s*(?:/\s*({_PLAIN})\s*)?\)\s*(?:/\s*({_PLAIN})\s*)?")

#: A count with a point before three digits.
_THOUSANDS = re.compile(r"\s*([+-]?[1-9][0-9]{0,30})\.([0-9]{3})\s*")


def number(text):
    """Return the number that a text writes as a fraction or a logarithm, or None where it writes neither.

    The grammar is ``x/y`` and ``[x*]ln(y[/z])[/w]`` with decimal numbers of at most 30 digits.

    Parameters
    ----------
    text : str

    Returns
    -------
    float or None
        None also where the text divides by zero or takes the logarithm of zero.

    Examples
    --------
    >>> number("1/8"), number("ln(3)/2"), number("2 * ln(1.5)"), number("yes")
    (0.125, 0.5493061443340549, 0.8109302162163288, None)
    """
    try:
        if match := _FRACTION.fullmatch(text):
            return float(Fraction(match[1]) / Fraction(match[2]))
        if match := _LOGARITHM.fullmatch(text):
            factor, top, bottom, divisor = (Fraction(part or 1) for part in match.groups())
            return float(factor) * math.log(top / bottom) / float(divisor)
    except (ValueError, ZeroDivisionError):
        pass
    return None


def thousands(text):
    """Return the two numbers that a text such as 1.000 may write, for the end of a sentence; empty where it writes one.

    Some write a point before three digits of thousands, and others before those of a fraction.

    Parameters
    ----------
    text : str
    """
    match = _THOUSANDS.fullmatch(text)
    return f", which may be {float(text):.15g} or {int(match[1] + match[2])}; write one of them" if match else ""


def as_numbers(value):
    """Return parameters with every text such as "1/6" or "ln(3)" turned into a float; labels and other texts stay."""
    if isinstance(value, dict):
        return {key: item if key in _LABELS else as_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_numbers(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        raise ArgumentError(f"parameters must be numbers, texts, lists and tables, got the date or time {shown(value)}.")
    if isinstance(value, str):
        value_read = number(value)
        return value if value_read is None else value_read
    return value
