"""Small repairs of sentences that are put together from parts."""

import re
from collections.abc import Mapping
from typing import Any

#: The first letter of a text, or the first one after a full stop.
_START = re.compile(r"(?:^|(?<=[.!?] ))([a-zα-ω]\w*)")


def as_sentences(text: str) -> str:
    """Return the text with every sentence begun by a capital.

    A name written with underscores, such as that of a method, stays as it is typed: "The method pair_slice …".

    Examples
    --------
    >>> as_sentences("exact draws. pair_slice ran first.")
    'Exact draws. The method pair_slice ran first.'
    """

    def begin(match):
        word = match[1]
        if _is_inside(text, match.start()):
            return word
        return f"The method {word}" if "_" in word else word[0].upper() + word[1:]

    return _START.sub(begin, text)


def number_of(count: int, singular: str, plural: str = "") -> str:
    """Return "1 report", "2,435 reports"."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def first_sentence(text: str) -> str:
    """Return the text up to its first full stop that ends a sentence.

    Examples
    --------
    >>> first_sentence("The prior decides on faculty[Law (incl. Criminology)]. Others are known.")
    'The prior decides on faculty[Law (incl. Criminology)].'
    """
    ends = (match.start() + 1 for match in re.finditer(r"\.\s+(?=[A-ZΑ-Ω0-9'\"(])", text))
    return text[: next((end for end in ends if not _is_inside(text, end)), len(text))]


def _is_inside(text, place):
    """Return whether a bracket is open at a place of a text, as in the names of levels; both ends of an interval count."""
    before = text[:place]
    return sum(map(before.count, "([")) > sum(map(before.count, ")]"))


def sourced(text: str, attrs: Mapping[str, Any]) -> str:
    """Return a text whose first sentence says from what reports, through which design and by which model it comes."""
    first, rest = split(text)
    whole = f"{first.removesuffix('.')}, from {attrs['source']}." if first and attrs.get("source") else first
    return " ".join(filter(None, (whole, rest)))


def split(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, and the rest."""
    first = first_sentence(text)
    return first, text[len(first) :].strip()
