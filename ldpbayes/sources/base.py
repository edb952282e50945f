"""What all sources share: sentences for what a table lacks, for lost reports, and for errors of other libraries."""

import contextlib
import decimal
import importlib

import numpy as np

from ldpbayes.errors import ArgumentError, DataError, LDPBayesError, listed, shown


def check_total(n_read: int, n_out: int, source: object = None) -> None:
    """Refuse to go on where reports were lost or doubled between their reading and the result."""
    if n_read != n_out:
        raise DataError(
            f"{n_read:,} reports were read and {n_out:,} came out: the data changed while they were read, or ldpbayes is at "
            "fault; please report it",
            source=source,
        )


def sorted_keys(keys):
    """Return keys in order: numbers by their value, whole ones also where they are texts, before all else by its text."""

    def rank(part):
        text = str(part)
        if isinstance(part, (float, decimal.Decimal)):
            return 0, part, text
        return (0, int(text), text) if is_whole(text) else (1, 0, text)

    return sorted(keys, key=lambda key: [rank(part) for part in key])


def check_column(names, name, subject="", use="", **at):
    """Refuse a table that lacks a column, or has two of its name; ``use`` says in the sentence what the column is for."""
    columns = list(names)
    if columns.count(name) != 1:
        problem = "has two columns" if name in columns else "has no column"
        # The name that readers take where none is stated.
        say = "; name the column of the reports by report=…" if name == "report" and name not in columns else ""
        raise DataError(f"{subject}{problem} {shown(name)}{use}; it has {listed(columns) or 'none'}{say}", **at)


@contextlib.contextmanager
def by_users(protocols):
    """Say by which argument long data are read, where reports that hold all that a user sent are refused."""
    try:
        yield
    except (ArgumentError, DataError) as err:
        histories = next((protocol for protocol in protocols if protocol.repeats() is not None), None)
        if histories is None:
            raise
        text = err.message if isinstance(err, DataError) else str(err)
        said = (
            f"{text.rstrip('.')}. A report of {histories.name} is all that one user sent; where a row is one of several "
            "reports of a user, name the column of users: by_user=…, on the command line --set by_user=COLUMN"
        )
        if isinstance(err, ArgumentError):
            raise ArgumentError(f"{said}.") from None
        raise DataError(said, source=err.source, line=err.line, field=err.field) from None


def is_whole(text):
    """Return whether a text is a whole number of at most 18 digits."""
    digits = text.removeprefix("-")
    return len(digits) < 19 and digits.isascii() and digits.isdecimal()


def whole_or_texts(texts):
    """Return texts as whole numbers where all of them are such in plain digits, else as they are; a missing one stays."""
    plain = all(is_whole(text) and str(int(text)) == text for text in texts if text is not None)
    return [int(text) if plain and text is not None else text for text in texts]


def shared_keys(keys):
    """Return {key: the key that files of any format share}: whole numbers where all of a column are such, else texts."""
    columns = [whole_or_texts(list(map(str, column))) for column in zip(*keys, strict=True)]
    return dict(zip(keys, zip(*columns, strict=True), strict=True)) if columns else {key: key for key in keys}


def texts_of(metadata):
    """Return the key-value metadata of Arrow as texts."""
    return {key.decode(errors="replace"): text.decode(errors="replace") for key, text in (metadata or {}).items()}


def optional(module, purpose, extra="frames"):
    """Import an optional package, or raise the ArgumentError that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as err:
        package = module.split(".")[0]
        raise ArgumentError(
            f"{purpose} needs the package {package}, which is not installed: pip install 'ldpbayes[{extra}]'."
        ) from err


def arrow_integers(values, kind=None):
    """Return whole numbers of NumPy as an Arrow array, by default of their own type, otherwise of one as wide.

    ``pyarrow.array`` asks whether they are of pandas and imports it, which takes longer than a scan of ten million rows.
    """
    import pyarrow as pa

    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def numpy_integers(array):
    """Return an Arrow array of whole numbers, none of them missing, as NumPy's; ``to_numpy`` imports pandas."""
    dtype = np.dtype(f"{'i' if str(array.type).startswith('i') else 'u'}{array.type.bit_width // 8}")
    return np.frombuffer(array.buffers()[1] or b"", dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)


def arrow_kind(kind):
    """Return what a column of an Arrow type holds, in words: texts, bytes, lists of texts, …; a dictionary its entries."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "texts"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_boolean(kind):
        return "booleans"
    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return "whole numbers"
    if types.is_floating(kind):
        return "numbers with decimals"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"lists of {arrow_kind(kind.value_type)}"
    return str(kind)


@contextlib.contextmanager
def foreign(message, source=None):
    """Turn errors of another library into a DataError in one sentence."""
    try:
        yield
    except (LDPBayesError, MemoryError):
        raise
    except Exception as err:
        if isinstance(err, OSError) and err.strerror:
            raise DataError(f"cannot be read ({err.strerror})", source=source) from err
        first = next((line.strip() for line in str(err).splitlines() if line.strip()), type(err).__name__)
        raise DataError(f"{message}: {first[:200]}", source=source) from err
