"""Numbers as texts in collection files: fractions and natural logarithms."""

import math
import re
from fractions import Fraction

_PLAIN = r"[0-9]{1,30}(?:\.[0-9]{1,30})?"
_FRACTION = re.compile(rf"\s*([+-]?{_PLAIN})\s*/\s*({_PLAIN})\s*")
_LOGARITHM = re.compile(rf"\s*(?:({_PLAIN})\s*\*\s*)?ln\(\s*({_PLAIN})\s*(?:/\s*({_PLAIN})\s*)?\)\s*(?:/\s*({_PLAIN})\s*)?")


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
        if found := _FRACTION.fullmatch(text):
            return float(Fraction(found[1]) / Fraction(found[2]))
        if found := _LOGARITHM.fullmatch(text):
            factor, top, bottom, divisor = (Fraction(part or 1) for part in found.groups())
            return float(factor) * math.log(top / bottom) / float(divisor)
    except (ValueError, ZeroDivisionError):
        pass
    return None
