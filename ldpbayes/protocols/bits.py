"""Sets of categories as packed bits: drawing, checking, reading and writing them.

Category x is bit 7 − x mod 8 of byte ⌊x/8⌋ (``np.packbits`` order); padding bits are zero.
"""

import numpy as np

from ldpbayes import checks
from ldpbayes.arrays import as_words, blocks
from ldpbayes.errors import DataError, shown
from ldpbayes.protocols.columns import Bytes, Integers, ListColumn, refuse
from ldpbayes.protocols.constants import BLOCK, FEW_USERS, MANY
from ldpbayes.protocols.labels import Places

#: The value of each ASCII hexadecimal digit; 255 for every other byte.
_NIBBLES = np.full(256, 255, dtype=np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)
_NIBBLES[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)


def width(n_categories):
    """Return the number of bytes of one packed report, ⌈a/8⌉."""
    return -(-n_categories // 8)


def sizes(bits):
    """Return |y| of each packed report, shape (m,)."""
    return np.bitwise_count(as_words(bits)).sum(axis=1, dtype=np.int64)


def bernoulli(n, n_categories, probability, rng):
    """Return n packed reports whose bits are independent with the given probability, exact to double precision.

    Sixteen random bits settle all but one bit in 65,536; those ties are settled by a double. FEW_USERS reports, or
    MANY bits, are drawn by a compiled kernel instead, which compares binary digits of 64 numbers at a time with those of the
    probability, to 2^-64; it takes 64 words from the generator.

    Parameters
    ----------
    n : int
        Number of reports.
    n_categories : int
        Number of categories, a ≥ 2.
    probability : float
        In [0, 1).
    rng : numpy.random.Generator

    Returns
    -------
    (n, ⌈a/8⌉) uint8 array
    """
    if (n >= FEW_USERS or n * n_categories >= MANY) and probability:
        return _compiled_bernoulli(n, n_categories, probability, rng)
    threshold, remainder = divmod(probability * 65536, 1)
    out = np.empty((n, width(n_categories)), dtype=np.uint8)
    for part in blocks(n, n_categories, BLOCK):
        total = (part.stop - part.start) * n_categories
        words = rng.integers(2**64, size=-(-total // 4), dtype=np.uint64).view(np.uint16)[:total]
        members = words < np.uint16(threshold)
        ties = np.flatnonzero(words == np.uint16(threshold))
        members[ties] = rng.random(ties.size) < remainder
        out[part] = np.packbits(members.reshape(-1, n_categories), axis=1)
    return out


def _compiled_bernoulli(n, n_categories, probability, rng):
    from ldpbayes.protocols import _bit_kernels

    n_bytes = width(n_categories)
    words = np.empty(-(-n * n_bytes // 8), dtype=np.uint64)
    digits = np.array([int(digit) for digit in _digits(probability)], dtype=np.uint64) * np.uint64(2**64 - 1)
    _bit_kernels.bernoulli_words(words, digits, rng.integers(1, 2**64, size=64, dtype=np.uint64))
    words = words.astype("<u8", copy=False)  # so that a seed gives the same reports everywhere
    out = words.view(np.uint8)[: n * n_bytes].reshape(n, n_bytes)
    out[:, -1] &= np.uint8(256 - (1 << (8 * n_bytes - n_categories)))
    return out


def _digits(probability):
    """Return the binary digits of a probability as a text, to 2^-64."""
    return f"{int(probability * 2.0**64):064b}".rstrip("0")


def assign(bits, categories, member):
    """Set, in place, the bit of categories[i] in report i to member[i].

    Parameters
    ----------
    bits : (m, ⌈a/8⌉) uint8 array
        Packed reports.
    categories : (m,) int array
        One category per report.
    member : (m,) bool array
        Whether the report shall hold it.
    """
    byte, mask = _place(categories)
    byte += np.arange(len(bits)) * bits.shape[1]
    flat = bits.reshape(-1)
    flat[byte] = flat[byte] & ~mask | mask * member


def resize(bits, fixed, size, n_categories, rng):
    """Add or remove, in place, uniformly chosen members other than fixed[i] until every report has ``size`` of them.

    Exchangeable bits stay exchangeable, so the result is a uniform set of that size given whether it holds fixed[i].

    Parameters
    ----------
    bits : (m, ⌈a/8⌉) uint8 array
        Packed reports.
    fixed : (m,) int array
        The category of each report that stays as it is.
    size : int or (m,) array
        Members that every report shall have.
    n_categories : int
        Number of categories, a ≥ 2.
    rng : numpy.random.Generator
    """
    missing = size - sizes(bits)
    active = np.flatnonzero(missing)
    while active.size:
        position = rng.integers(n_categories, size=active.size)
        byte, mask = _place(position)
        member = (bits[active, byte] & mask) != 0
        change = (member == (missing[active] < 0)) & (position != fixed[active])
        users = active[change]
        bits[users, byte[change]] ^= mask[change]
        missing[users] -= np.sign(missing[users])
        active = active[missing[active] != 0]


def every_set(n_categories):
    """Return all 2^a sets in order, packed; small a only."""
    return of_codes(np.arange(2**n_categories), n_categories)


def of_codes(codes, n_categories):
    """Return the packed sets whose bits, the first category's the highest, are whole numbers; of 62 categories at most."""
    words = np.asarray(codes).astype(np.uint64) << np.uint64(64 - n_categories)
    return np.ascontiguousarray(words.astype(">u8").view(np.uint8).reshape(-1, 8)[:, : width(n_categories)])


def codes_of(bits, n_categories):
    """Return the whole numbers of packed sets, the inverse of ``of_codes``."""
    padded = np.zeros((len(bits), 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return (padded.view(">u8").ravel().astype(np.uint64) >> np.uint64(64 - n_categories)).astype(np.int64)


def check(reports, n_categories):
    """Return reports as packed bits, from packed bits or from an (m, a) array of zeros and ones.

    Raises
    ------
    DataError
        On a wrong shape or type, an entry that is neither 0 nor 1, or a padding bit that is set.
    """
    array = checks.array_of(reports, "reports", "packed bytes, or zeros and ones, one report a row")
    n_bytes = width(n_categories)
    if array.ndim != 2 or array.shape[1] not in (n_bytes, n_categories):
        raise DataError(
            f"reports must be (m, {n_bytes}) packed bytes or (m, {n_categories}) zeros and ones, got shape {array.shape}"
        )
    if array.shape[1] == n_categories:
        if array.dtype != bool and not np.issubdtype(array.dtype, np.integer):
            raise DataError(f"reports must be zeros and ones, got {array.dtype}")
        _first_bad((array != 0) & (array != 1), "a report has an entry that is neither 0 nor 1")
        return np.packbits(array.astype(bool), axis=1)
    if array.dtype != np.uint8:
        raise DataError(f"packed reports must be bytes (uint8), got {array.dtype}")
    return check_packed(array, n_categories)


def check_packed(array, n_categories):
    """Return (m, ⌈a/8⌉) bytes, contiguous, or raise a DataError where a padding bit is set."""
    n_bytes = width(n_categories)
    padding = np.uint8((1 << (8 * n_bytes - n_categories)) - 1)
    _first_bad((array[:, -1:] & padding) != 0, f"a report has bits set beyond its {n_categories} categories")
    return np.ascontiguousarray(array)


def check_size(bits, size):
    """Raise a DataError unless every packed report has ``size`` members."""
    numbers = sizes(bits)
    bad = np.flatnonzero(numbers != size)
    if bad.size:
        raise DataError(f"a report has {numbers[bad[0]]} members, it must have {size}", line=int(bad[0]))


def parse(column, labels):
    """Return the packed bits of a column of sets.

    ==============================  ====================================================================================
    a column of                     holds
    ==============================  ====================================================================================
    texts                           each a bit string of exactly a zeros and ones ("0110", or "0b0110"), packed bytes in
                                    hexadecimal ("0x60"), or a list of members ("b;c"; the empty text is the empty set)
    bytes                           packed bits, ⌈a/8⌉ bytes a report
    lists of booleans               a entries a report, true for a member
    lists of whole numbers          a zeros and ones in every report, or members in every report
    lists of texts                  members
    ==============================  ====================================================================================

    Members are labels; where no label is a whole number they may be positions from zero. What could be read in two ways
    is refused: a text of a zeros and ones, or one that begins with 0b or 0x, that is also a label (a list of one label
    may end in a semicolon, "01;"), an empty text among bits alone, which may be a missing answer, fewer zeros and
    ones beside bits, as a spreadsheet leaves 11 of 0011, and lists of whole numbers over two categories that could be zeros
    and ones as well as members.

    Parameters
    ----------
    column : sequence of str, Bytes or ListColumn
    labels : sequence of str

    Raises
    ------
    DataError
        On the first malformed report, with its row as ``line``.
    """
    a = len(labels)
    if isinstance(column, Integers):
        refuse(column, f"a set is a text of {a} zeros and ones, a list of members, or packed bytes")
    if isinstance(column, Bytes):
        return _from_bytes(column, a)
    found = Places(labels)
    if isinstance(column, ListColumn):
        return _from_lists(column, found, a)
    if not any(_looks_like_bits(label, a) for label in labels):
        whole = _from_digits(column, a)
        if whole is not None:
            return whole
    return _from_texts(column, found, a)


def format(bits, n_categories, labels=()):
    """Return one text per packed report: a bit string up to 64 categories, packed bytes in hexadecimal beyond.

    Bit strings begin with 0b where some label could be taken for one.

    Parameters
    ----------
    bits : (m, ⌈a/8⌉) uint8 array
        Packed reports.
    n_categories : int
        Number of categories, a ≥ 2.
    labels : sequence of str
        Labels of the categories.

    Returns
    -------
    list of str
        One text per report.
    """
    if n_categories > 64:
        return [f"0x{row.tobytes().hex()}" for row in bits]
    prefix = "0b" if any(_looks_like_bits(label, n_categories) for label in labels) else ""
    text = (np.unpackbits(bits, axis=1, count=n_categories) + np.uint8(48)).tobytes().decode()
    return [prefix + text[i : i + n_categories] for i in range(0, len(text), n_categories)]


def _looks_like_bits(text, a):
    return text.startswith(("0b", "0x")) or (len(text) == a and set(text) <= {"0", "1"})


def _from_digits(texts, a):
    """Return packed bits where all texts are plain bit strings, or all are hexadecimal; None otherwise."""
    lengths = set(map(len, texts))
    if lengths not in ({a}, {2 + 2 * width(a)}):
        return None
    joined = "".join(texts)
    if not joined.isascii():
        return None
    flat = np.frombuffer(joined.encode(), dtype=np.uint8).reshape(len(texts), -1)
    if lengths == {a} and (flat - np.uint8(48) <= 1).all():
        return np.packbits(flat == 49, axis=1)
    if lengths == {a} or not ((flat[:, 0] == 48) & (flat[:, 1] == 120)).all():
        return None
    digits = _NIBBLES[flat[:, 2:]]
    if digits.max(initial=0) > 15:
        return None
    packed = digits[:, ::2] << np.uint8(4) | digits[:, 1::2]
    padding = np.uint8((1 << (8 * width(a) - a)) - 1)
    return None if (packed[:, -1] & padding).any() else packed


def _from_texts(texts, found, a):
    """Return packed bits of texts of any form, one by one."""
    has_semicolon = any(";" in label for label in found.labels)
    out = np.zeros((len(texts), width(a)), dtype=np.uint8)
    lists, lengths, members, bare = [], [], [], []
    for line, text in enumerate(texts):
        text = text.strip()
        if ";" not in text and _looks_like_bits(text, a):
            if found.place(text, positions=False) is not None:
                raise DataError(
                    f"report {text!r} could be bits or the label; write '0b…' for bits, or {text + ';'!r} for the label",
                    line=line,
                )
            out[line] = _one_bits(text, a, line)
            continue
        bare += [line] if text and set(text) <= {"0", "1"} else []
        if ";" in text and has_semicolon:
            raise DataError(
                f"report {shown(text)} could be one label or several, because a label has a semicolon; write the report as "
                f"'0b' and {a} zeros and ones",
                line=line,
            )
        items = [item for item in map(str.strip, text.split(";")) if item]
        places = [found.place(item) for item in items]
        if None in places:
            hint = f"{a} zeros and ones, 0x and hexadecimal bytes, or labels separated by semicolons"
            item = items[places.index(None)]
            raise DataError(f"unknown category {shown(item)} in report {shown(text)}; a report is {hint}", line=line)
        if len(set(places)) < len(places):
            item = next(item for item, x in zip(items, places, strict=True) if places.count(x) > 1)
            raise DataError(f"category {shown(item)} stands twice in report {shown(text)}", line=line)
        lists.append(line)
        lengths.append(len(places))
        members += places
    if 0 < len(lists) < len(texts) and not members:
        raise DataError("an empty report stands beside bits; write a set without members as zeros", line=lists[0])
    if bare and any(len(text.strip()) == a and set(text.strip()) <= {"0", "1"} for text in texts):
        text = texts[bare[0]].strip()
        raise DataError(
            f"report {text!r} stands beside {a} zeros and ones and may have lost the zeros before it, as in a spreadsheet; "
            f"write '0b' and {a} zeros and ones, or {text + ';'!r} for the member",
            line=bare[0],
        )
    if lists:
        out[lists] = _pack(np.array(lengths), np.array(members, dtype=np.int64), a)
    return out


def _one_bits(text, a, line):
    """Return the packed bits of one bit string or hexadecimal text."""
    if text.startswith("0x"):
        try:
            row = np.frombuffer(bytes.fromhex(text[2:]), dtype=np.uint8)
        except ValueError:
            raise DataError(f"report {shown(text)} is not hexadecimal", line=line) from None
        if row.size != width(a):
            raise DataError(f"report {shown(text)} has {row.size} bytes, it must have {width(a)}", line=line)
        try:
            return check(row[None], a)[0]
        except DataError:
            raise DataError(f"report {shown(text)} has bits set beyond its {a} categories", line=line) from None
    digits = text.removeprefix("0b")
    if len(digits) != a or not set(digits) <= {"0", "1"}:
        raise DataError(f"report {shown(text)} must have {a} zeros and ones", line=line)
    return np.packbits(np.array(list(digits)) == "1")


def _from_bytes(column, a):
    bad = np.flatnonzero(column.lengths != width(a))
    if bad.size:
        i = int(bad[0])
        raise DataError(f"a report has {column.lengths[i]} bytes, it must have {width(a)} for {a} categories", line=i)
    packed = column.values.reshape(-1, width(a))
    return check_packed(packed, a)


def _from_lists(column, found, a):
    """Return packed bits of lists: an entry per category where they are booleans, else zeros and ones, or members."""
    values, lengths = column.values, column.lengths
    if isinstance(values, np.ndarray) and values.dtype == bool:
        bad = np.flatnonzero(lengths != a)
        if bad.size:
            i = int(bad[0])
            raise DataError(f"a report has {lengths[i]} booleans, it must have one per category, {a}", line=i)
        return np.packbits(values.reshape(-1, a), axis=1)
    if isinstance(values, np.ndarray):
        if _is_indicator(lengths, values, a):
            return np.packbits(values.reshape(-1, a) != 0, axis=1)
        keys, inverse = np.unique(values, return_inverse=True)
        keys = list(map(str, keys.tolist()))
    else:
        keys = {item: i for i, item in enumerate(dict.fromkeys(values))}
        inverse = np.fromiter(map(keys.__getitem__, values), np.int64, len(values))
    known = [found.place(key) for key in keys]
    places = np.array([-1 if place is None else place for place in known], dtype=np.int64)[inverse]
    bad = np.flatnonzero(places < 0)
    if bad.size:
        i = int(bad[0])
        line = int(np.repeat(np.arange(len(lengths)), lengths)[i])
        raise DataError(f"unknown category {shown(str(values[i]))} in a report; a list holds members", line=line)
    packed = _pack(lengths, places, a)
    bad = np.flatnonzero(sizes(packed) != lengths)
    if bad.size:
        hint = f"; zeros and ones must be {a} in every report" if isinstance(values, np.ndarray) else ""
        raise DataError(f"a report names a category twice{hint}", line=int(bad[0]))
    return packed


def _is_indicator(lengths, values, a):
    """Return whether whole numbers are zeros and ones, a per report, or refuse where they could be members as well.

    Over three categories or more, a list of a zeros and ones repeats an entry, which members never do. Over two, only
    [0, 0] and [1, 1] tell zeros and ones from members.
    """
    if not len(lengths) or not (lengths == a).all() or not np.isin(values, (0, 1)).all():
        return False
    if a == 2:
        pairs = values.reshape(-1, 2)
        if (pairs[:, 0] != pairs[:, 1]).all():
            raise DataError("holds lists such as [0, 1], which could be zeros and ones or members; use lists of booleans")
    return True


def _pack(lengths, members, a):
    """Return the packed bits of sets given by their sizes and, one set after the other, their members."""
    out = np.zeros((len(lengths), width(a)), dtype=np.uint8)
    byte, mask = _place(members)
    np.bitwise_or.at(out, (np.repeat(np.arange(len(lengths)), lengths), byte), mask)
    return out


def _place(categories):
    return categories >> 3, np.right_shift(np.uint8(128), (categories & 7).astype(np.uint8))


def _first_bad(bad, message):
    rows = np.flatnonzero(bad.any(axis=1))
    if rows.size:
        raise DataError(message, line=int(rows[0]))
