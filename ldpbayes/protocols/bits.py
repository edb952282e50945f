"""Sets of categories as packed bits: drawing, checking, reading and writing them.

Category x is bit 7 − x mod 8 of byte ⌊x/8⌋ (``np.packbits`` order); padding bits are zero.
"""

import numpy as np

from ldpbayes.errors import DataError

#: Entries of one unpacked block: what a call works on at a time, whatever the number of reports.
BLOCK = 2**23


def width(n_categories):
    """Return the number of bytes of one packed report, ⌈a/8⌉."""
    return -(-n_categories // 8)


def blocks(n, n_categories):
    """Yield slices of reports whose unpacked bits fit in one block."""
    size = max(1, BLOCK // n_categories)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def sizes(bits):
    """Return |y| of each packed report, shape (m,)."""
    if bits.shape[1] % 8 == 0 and bits.flags.c_contiguous:
        bits = bits.view(np.uint64)  # the order of bytes does not matter to a count, and words are eight times fewer
    return np.bitwise_count(bits).sum(axis=1, dtype=np.int64)


def bernoulli(n, n_categories, probability, rng):
    """Return n packed reports whose bits are independent with the given probability, exact to double precision.

    Sixteen random bits settle all but one bit in 65,536; those ties are settled by a double.
    """
    threshold, remainder = divmod(probability * 65536, 1)
    out = np.empty((n, width(n_categories)), dtype=np.uint8)
    for part in blocks(n, n_categories):
        total = (part.stop - part.start) * n_categories
        words = rng.integers(2**64, size=-(-total // 4), dtype=np.uint64).view(np.uint16)[:total]
        members = words < np.uint16(threshold)
        ties = np.flatnonzero(words == np.uint16(threshold))
        members[ties] = rng.random(ties.size) < remainder
        out[part] = np.packbits(members.reshape(-1, n_categories), axis=1)
    return out


def assign(bits, categories, member):
    """Set, in place, the bit of categories[i] in report i to member[i]."""
    byte, mask = _place(categories)
    users = np.arange(len(bits))
    bits[users, byte] = np.where(member, bits[users, byte] | mask, bits[users, byte] & ~mask)


def resize(bits, fixed, size, n_categories, rng):
    """Add or remove, in place, uniformly chosen members other than fixed[i] until every report has ``size`` of them.

    Exchangeable bits stay exchangeable, so the result is a uniform set of that size given whether it holds fixed[i].
    """
    missing = size - sizes(bits)
    active = np.flatnonzero(missing)
    while active.size:
        position = rng.integers(n_categories, size=active.size)
        byte, mask = _place(position)
        held = (bits[active, byte] & mask) != 0
        change = (held == (missing[active] < 0)) & (position != fixed[active])
        users = active[change]
        bits[users, byte[change]] ^= mask[change]
        missing[users] -= np.sign(missing[users])
        active = active[missing[active] != 0]


def every_set(n_categories):
    """Return all 2^a sets in order, packed; small a only."""
    codes = np.arange(2**n_categories, dtype=np.uint64) << np.uint64(64 - n_categories)
    return np.ascontiguousarray(codes.astype(">u8").view(np.uint8).reshape(-1, 8)[:, : width(n_categories)])


def check(reports, n_categories):
    """Return reports as packed bits, from packed bits or from an (m, a) array of zeros and ones.

    Raises
    ------
    DataError
        On a wrong shape or type, an entry that is neither 0 nor 1, or a padding bit that is set.
    """
    array = np.asarray(reports)
    n_bytes = width(n_categories)
    if array.ndim != 2 or array.shape[1] not in (n_bytes, n_categories):
        raise DataError(
            f"reports must be (m, {n_bytes}) packed bytes or (m, {n_categories}) zeros and ones, got shape {array.shape}"
        )
    if array.shape[1] == n_categories:
        if array.dtype != bool and not np.issubdtype(array.dtype, np.integer):
            raise DataError(f"reports must be zeros and ones, got {array.dtype}")
        _first_bad((array != 0) & (array != 1), "report {} has an entry that is neither 0 nor 1")
        return np.packbits(array.astype(bool), axis=1)
    if array.dtype != np.uint8:
        raise DataError(f"packed reports must be bytes (uint8), got {array.dtype}")
    padding = np.uint8((1 << (8 * n_bytes - n_categories)) - 1)
    _first_bad((array[:, -1:] & padding) != 0, f"report {{}} has bits set beyond its {n_categories} categories")
    return np.ascontiguousarray(array)


def check_size(bits, size):
    """Raise a DataError unless every packed report has ``size`` members."""
    found = sizes(bits)
    bad = np.flatnonzero(found != size)
    if bad.size:
        raise DataError(f"report {bad[0]} has {found[bad[0]]} members, it must have {size}", line=int(bad[0]))


def parse(texts, labels):
    """Return packed bits for texts that are bit strings "0110", packed hex "0x60", or lists of labels or indices "b;c".

    A text of exactly a zeros and ones is a bit string. List items are labels; where no label is a whole number they may
    be indices from zero. The empty text is the empty set.
    """
    a = len(labels)
    joined = "".join(texts)
    if joined.isascii() and all(len(text) == a for text in texts):
        flat = np.frombuffer(joined.encode(), dtype=np.uint8).reshape(-1, a)
        if ((flat == 48) | (flat == 49)).all():
            return np.packbits(flat == 49, axis=1)
    positions = {label: i for i, label in enumerate(labels)}
    if not any(label.isdecimal() for label in labels):
        positions |= {str(i): i for i in range(a)}
    return np.stack([_parse_one(text.strip(), a, positions, line) for line, text in enumerate(texts)])


def format(bits, n_categories):
    """Return one text per packed report: a bit string up to 64 categories, packed hex beyond."""
    if n_categories > 64:
        return [f"0x{row.tobytes().hex()}" for row in bits]
    text = (np.unpackbits(bits, axis=1, count=n_categories) + np.uint8(48)).tobytes().decode()
    return [text[i : i + n_categories] for i in range(0, len(text), n_categories)]


def _parse_one(text, a, positions, line):
    if text.startswith("0x"):
        try:
            row = np.frombuffer(bytes.fromhex(text[2:]), dtype=np.uint8)
        except ValueError:
            raise DataError(f"report {text!r} is not hexadecimal", line=line) from None
        if row.size != width(a):
            raise DataError(f"report {text!r} has {row.size} bytes, it must have {width(a)}", line=line)
        try:
            return check(row[None], a)[0]
        except DataError:
            raise DataError(f"report {text!r} has bits set beyond its {a} categories", line=line) from None
    if set(text) <= {"0", "1"} and len(text) == a:
        return np.packbits(np.array(list(text)) == "1")
    members = np.zeros(a, dtype=bool)
    for item in filter(None, (item.strip() for item in text.split(";"))):
        if item not in positions:
            hint = f"{a} zeros and ones, 0x and hexadecimal bytes, or labels separated by semicolons"
            raise DataError(f"unknown category {item!r} in report {text!r}; a report is {hint}", line=line)
        if members[positions[item]]:
            raise DataError(f"category {item!r} stands twice in report {text!r}", line=line)
        members[positions[item]] = True
    return np.packbits(members)


def _place(categories):
    return categories >> 3, np.right_shift(np.uint8(128), (categories & 7).astype(np.uint8))


def _first_bad(bad, message):
    rows = np.flatnonzero(bad.any(axis=1))
    if rows.size:
        raise DataError(message.format(rows[0]), line=int(rows[0]))
