"""Navigation timings of browsers: page loads with the confidence label that the browser randomizes.

An entry of ``performance.getEntriesByType("navigation")`` has a ``confidence`` with two members: ``value``, "high" or "low",
and ``randomizedTriggerRate``, the probability r with which the browser tossed a fair coin for the value instead of stating
it (W3C, Navigation Timing Level 2, PerformanceTimingConfidence). The value is therefore a report of randomised response
over two categories, P(report = x | x) = 1 − r/2, so that ε = log((1 − r/2)/(r/2)); browsers choose ε and state
r = 2/(1 + e^ε), which is 0.4994798 at ε = 1.1.
"""

import glob
import gzip
import io
import json
import math
import os
import pathlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ldpbayes import checks, files
from ldpbayes.errors import ArgumentError, DataError, listed, shown
from ldpbayes.progress import track
from ldpbayes.sources.base import foreign, optional
from ldpbayes.sources.frame import FrameSource
from ldpbayes.sources.parquet_batches import read_batches, schema_of

#: The values of a confidence; the order of the categories.
LABELS = ("high", "low")
#: Where the value and the rate stand in a table that has no object: names that flattening gives them.
VALUE_NAMES = ("confidence.value", "confidence_value", "confidenceValue")
RATE_NAMES = (
    "confidence.randomizedTriggerRate",
    "confidence_randomizedTriggerRate",
    "confidence_randomized_trigger_rate",
    "randomizedTriggerRate",
    "randomized_trigger_rate",
)
#: Times that are 0 as long as the event has not happened.
UNFINISHED = (
    "duration",
    "loadEventEnd",
    "loadEventStart",
    "domComplete",
    "domContentLoadedEventEnd",
    "domContentLoadedEventStart",
    "domInteractive",
    "responseEnd",
    "responseStart",
)
#: Bytes of a file that are in memory together, and the longest line.
_BLOCK = 2**23
MAX_LINE = 2**24
#: Rows of a Parquet file that are in memory together.
_JSON = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, eq=False)
class NavigationTimings(Mapping):
    """Page loads with a randomised confidence: a mapping from the names of columns to arrays of equal length.

    The columns are the time (``"duration"``, or the one that was asked for), ``"confidence"`` ("high" or "low"), ``"rate"``
    and the other columns that were asked for. ``lb.by_private_group(timings.frame(), value=timings.value,
    report="confidence", rate="rate")`` answers how the two groups differ.

    Attributes
    ----------
    columns : dict of str to (n,) array
    value : str
        The column of times.
    n_entries : int
        Navigation entries in the file, the ones left out included.
    n_missing, n_empty : int
        Entries left out because they have no confidence, or an empty one.
    n_unfinished : int
        Entries left out because the time is missing, or 0 as it is before the event.
    n_tossed : int
        Entries left out because their rate is 1: their confidence is a coin toss and carries no information on the group.
    n_other : int
        Entries of other types, such as "resource", which are not counted above.
    """

    columns: dict[str, np.ndarray] = field(repr=False)
    value: str
    n_entries: int
    n_missing: int
    n_empty: int
    n_unfinished: int
    n_tossed: int
    n_other: int

    def __getitem__(self, name):
        return self.columns[name]

    def __iter__(self):
        return iter(self.columns)

    def __len__(self):
        return len(self.columns)

    @property
    def n_records(self) -> int:
        """The entries that were kept."""
        return len(self.columns["rate"])

    def frame(self):
        """Return the columns as a PyArrow table."""
        pyarrow = optional("pyarrow", "A table of navigation timings")
        return pyarrow.table(dict(self.columns))

    def epsilons(self) -> dict[float, tuple[float, int]]:
        """Return, for each rate in the records, its ε and the number of records with it."""
        rates, counts = np.unique(self.columns["rate"], return_counts=True)
        return {float(rate): (epsilon_of(float(rate)), int(count)) for rate, count in zip(rates, counts, strict=True)}

    def sentences(self) -> list[str]:
        """Return what a reader must know of the entries that were left out, and of the noise; one sentence each."""
        found = [f"{self.n_records:,} of {self.n_entries:,} navigation entries were used."]
        left = {
            "has no confidence": self.n_missing,
            "has an empty confidence": self.n_empty,
            f"has no {self.value} yet": self.n_unfinished,
            "has a confidence that is a coin toss (rate 1)": self.n_tossed,
        }
        for why, count in left.items():
            if count:
                many = f"entries {why.replace('has ', 'have ', 1)} and were"
                found.append(f"{count:,} {f'entry {why} and was' if count == 1 else many} left out.")
        if self.n_missing or self.n_empty:
            found.append("The answers are about page loads in browsers that state a confidence.")
        if self.n_other:
            found.append(f"{self.n_other:,} entries of other types were skipped.")
        levels = self.epsilons()
        if len(levels) == 1:
            ((rate, (epsilon, _)),) = levels.items()
            found.append(f"The confidence was randomized at the rate {rate:.5g} (ε = {epsilon:.3g}).")
        elif levels:
            found.append(
                f"The confidence was randomized at {len(levels)} rates from {min(levels):.5g} to {max(levels):.5g}."
            )
        return found


def epsilon_of(rate: float) -> float:
    """Return the ε = log((1 − r/2)/(r/2)) of a randomized trigger rate r.

    Parameters
    ----------
    rate : float
        From 0, which is no noise (ε = ∞), to 1, which is nothing but noise (ε = 0).

    Examples
    --------
    >>> round(epsilon_of(0.4994798), 5)
    1.1
    """
    return math.inf if rate == 0 else math.log(2 / rate - 1)


def read_navigation_timings(
    source,
    value: str = "duration",
    *,
    columns: str | Sequence[str] = (),
    rate: float | None = None,
    keep_unfinished: bool = False,
    progressbar: bool = False,
) -> NavigationTimings:
    """Read navigation timings of browsers with their randomised confidence.

    Parameters
    ----------
    source : path or data frame
        A file of JSON lines (``.jsonl``, ``.ndjson``, ``.json``, also with ``.gz``), one entry or one list of entries a
        line, as ``JSON.stringify(performance.getEntriesByType("navigation"))`` writes it; a Parquet file or a pattern such
        as ``"timings/*.parquet"``; or a data frame that narwhals reads.
    value : str
        The time that is compared: ``"duration"``, ``"loadEventEnd"``, ``"responseStart"`` or another number of the entry.
        A dot leads into an object: ``"timing.loadEventEnd"``.
    columns : str or sequence of str
        Other columns to keep, such as a country or a weight.
    rate : float, optional
        The randomized trigger rate of entries that do not state it.
    keep_unfinished : bool
        Whether times of 0 are kept. Browsers write 0 for an event that has not happened when the entry is read.
    progressbar : bool
        Whether a long read shows its progress on standard error.

    Returns
    -------
    NavigationTimings
        Entries without a confidence, with an empty one, or at rate 1 carry no information; they are left out and counted.

    Raises
    ------
    DataError
        Naming the line or row: on lines that are not JSON, a confidence that is neither "high" nor "low", a rate outside
        0 to 1 or missing, and a time that is no number.
    ArgumentError
        On an argument that breaks its rule.

    Notes
    -----
    The confidence may be an object, as browsers give it, or two columns: ``confidence.value`` or ``confidence_value``
    (also a plain text in ``confidence``), and ``confidence.randomizedTriggerRate``, ``confidence_randomizedTriggerRate`` or
    ``randomizedTriggerRate``. A million lines of full entries take some twenty CPU seconds, in a Parquet file less than one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> line = '{"duration": %s, "confidence": {"value": "%s", "randomizedTriggerRate": 0.4994798}}'
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "timings.jsonl"
    >>> lines = [line % (812.5, "high"), line % (2301, "low"), '{"duration": 640, "confidence": {}}']
    >>> _ = path.write_text("\\n".join(lines))
    >>> timings = read_navigation_timings(path)
    >>> timings["duration"].tolist(), timings["confidence"].tolist()
    ([812.5, 2301.0], ['high', 'low'])
    >>> print(*timings.sentences(), sep="\\n")
    2 of 3 navigation entries were used.
    1 entry has an empty confidence and was left out.
    The answers are about page loads in browsers that state a confidence.
    The confidence was randomized at the rate 0.49948 (ε = 1.1).
    """
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"value must be the name of a column, got {shown(value)}.")
    columns = checks.columns(columns, "columns") or ()
    checks.flag(keep_unfinished, "keep_unfinished")
    checks.flag(progressbar, "progressbar")
    if clash := {"confidence", "rate", value} & set(columns):
        raise ArgumentError(f"columns must not name what is read anyway, got {listed(sorted(clash))}.")
    if value in ("confidence", "rate"):
        raise ArgumentError(f"value must be a time, got {shown(value)}.")
    if rate is not None:
        rate = checks.probability(rate, "rate")
    wanted = _Wanted(value, tuple(dict.fromkeys(columns)), rate, keep_unfinished)
    if not _is_path(source):
        parts = _frame_parts(source, wanted)
        return _joined(parts, wanted, None)
    path = files.as_path(source)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] in (*([suffix] for suffix in _JSON),) or (suffixes[-1:] == [".gz"] and suffixes[-2:-1] != [".parquet"]):
        return _joined(_json_parts(path, wanted, progressbar), wanted, path)
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return _joined(_parquet_parts(path, wanted, progressbar), wanted, path)
    raise ArgumentError(
        f"source must be a file of JSON lines (.jsonl, .ndjson, .json, .gz) or .parquet, got {shown(str(path))}."
    )


def _is_path(source):
    """Return whether a source names a file."""
    return isinstance(source, (str, bytes, pathlib.PurePath))


@dataclass(frozen=True)
class _Wanted:
    """What is read of every entry."""

    value: str
    columns: tuple[str, ...]
    rate: float | None
    keep_unfinished: bool

    @property
    def drops_zeros(self):
        return not self.keep_unfinished and self.value.rpartition(".")[2] in UNFINISHED


@dataclass
class _Part:
    """Entries that were read together: kept columns, and counts of the others."""

    times: np.ndarray
    codes: np.ndarray
    rates: np.ndarray
    extra: list
    counts: np.ndarray  # entries, missing, empty, unfinished, other
    named: bool  # whether any entry has the time at all

    def informative(self) -> "_Part":
        """Return the part without the entries whose confidence is a coin toss."""
        kept = self.rates < 1
        extra = [column[kept] for column in self.extra]
        return _Part(self.times[kept], self.codes[kept], self.rates[kept], extra, self.counts, self.named)


def _joined(parts, wanted, source):
    """Return the NavigationTimings of parts, or the error of a source that has none."""
    held = list(parts)
    counts = sum((part.counts for part in held), np.zeros(5, dtype=np.int64))
    entries, missing, empty, unfinished, other = map(int, counts)
    if not entries:
        raise DataError("holds no navigation entry", source=source)
    if not any(part.named for part in held):
        raise DataError("holds no entry with this time", source=source, field=wanted.value)
    tossed = sum(int(np.count_nonzero(part.rates == 1)) for part in held)
    kept = [one for part in held if (one := part.informative()).times.size]
    if not kept and tossed:
        raise DataError("every confidence is a coin toss (rate 1); there is nothing to compare", source=source)
    if not kept:
        problem = "no entry has a confidence" if missing + empty == entries else "no entry has both a time and a confidence"
        raise DataError(f"{problem} ({missing:,} without one, {empty:,} with an empty one)", source=source)
    labels = np.array(LABELS, dtype=object)
    columns = {
        wanted.value: np.concatenate([part.times for part in kept]),
        "confidence": labels[np.concatenate([part.codes for part in kept])],
        "rate": np.concatenate([part.rates for part in kept]),
    }
    for i, name in enumerate(wanted.columns):
        found = [part.extra[i] for part in kept]
        if len({column.dtype.kind for column in found}) > 1:
            raise DataError("mixes texts and numbers", source=source, field=name)
        columns[name] = np.concatenate(found)
    return NavigationTimings(columns, wanted.value, entries, missing, empty, unfinished, tossed, other)


# ---- JSON lines, by the standard library: PyArrow's parser crashes on some malformed lines -----------------------------
class _Entries:
    """Entries that are read one by one."""

    def __init__(self, wanted: _Wanted):
        self.wanted = wanted
        self.times: list[float] = []
        self.codes: list[int] = []
        self.rates: list[float] = []
        self.extra: list[list] = [[] for _ in wanted.columns]
        self.texts: dict[str, str] = {}
        self.counts = np.zeros(5, dtype=np.int64)
        self.named = False

    def take_line(self, text: bytes):
        """Read one line."""
        try:
            found = json.loads(text.decode("utf-8"))
        except UnicodeDecodeError:
            raise DataError("is not UTF-8 text") from None
        except RecursionError:
            raise DataError("is nested too deeply") from None
        except json.JSONDecodeError as err:
            hint = "; write one entry a line" if text.strip() in (b"[", b"{") else ""
            raise DataError(f"is not valid JSON ({err.msg} at column {err.colno}){hint}") from None
        except ValueError:  # an integer of thousands of digits
            raise DataError("holds a number that is too long") from None
        for entry in found if isinstance(found, list) else [found]:
            if not isinstance(entry, dict):
                raise DataError(f'must hold an entry, an object such as {{"duration": 812.5, …}}, got {shown(entry)}')
            self.take(entry)

    def take(self, entry: dict):
        """Read one entry."""
        if entry.get("entryType", "navigation") not in ("navigation", None):
            self.counts[4] += 1
            return
        self.counts[0] += 1
        time = _present(_inside(entry, self.wanted.value))
        self.named |= time is not None
        report, rate, empty = _confidence(entry)
        if time is not None:
            time = _time(time, self.wanted.value)
        if report is not None:
            code = _code(report)
            rate = _rate(self.wanted.rate if rate is None else rate)
        if report is None:
            self.counts[2 if empty else 1] += 1
        elif time is None or (time == 0 and self.wanted.drops_zeros):
            self.counts[3] += 1
        else:
            self.times.append(time)
            self.codes.append(code)
            self.rates.append(rate)
            for held, name in zip(self.extra, self.wanted.columns, strict=True):
                held.append(self._scalar(_inside(entry, name), name))

    def _scalar(self, cell, name):
        if cell is None or cell != cell:
            raise DataError("is missing", field=name)
        if isinstance(cell, str):
            return self.texts.setdefault(cell, cell)
        if isinstance(cell, (bool, int, float)):
            return cell
        raise DataError(f"must be a text, a number or a boolean, got {shown(cell)}", field=name)

    def part(self) -> _Part:
        """Return what was read."""
        extra = [_column(held, name) for held, name in zip(self.extra, self.wanted.columns, strict=True)]
        arrays = np.array(self.times, dtype=float), np.array(self.codes, dtype=np.int8), np.array(self.rates, dtype=float)
        return _Part(*arrays, extra, self.counts, self.named)


def _inside(entry, name):
    """Return the member of an entry that a name with dots leads to; None where there is none."""
    if name in entry or "." not in name:
        return entry.get(name)
    found = entry
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def _confidence(entry):
    """Return (value or None, rate or None, whether there is an empty object) of an entry."""
    found = entry.get("confidence")
    value = rate = None
    if isinstance(found, dict):
        value, rate = found.get("value"), found.get("randomizedTriggerRate")
    elif isinstance(found, str):
        value = found
    elif found is not None:
        raise DataError(f"must be an object with value and randomizedTriggerRate, got {shown(found)}", field="confidence")
    value = _one(value, entry, VALUE_NAMES, "confidence.value")
    return value, _one(rate, entry, RATE_NAMES, RATE_NAMES[0]), isinstance(found, dict)


def _one(inside, entry, names, field):
    """Return what an entry states inside its confidence or in columns, all of which must agree; None where nowhere."""
    stated = [cell for cell in (inside, *(entry.get(name) for name in names)) if _present(cell) is not None]
    if any(cell != stated[0] for cell in stated):
        raise DataError(f"is stated twice and differs: {listed(map(shown, stated))}", field=field)
    return stated[0] if stated else None


def _present(cell):
    """Return a cell, or None where it is not a number."""
    return None if cell != cell else cell


def _time(found, name):
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise DataError(f"must be a number of milliseconds, got {shown(found)}", field=name)
    try:
        found = float(found)
    except OverflowError:
        found = math.inf
    if not 0 <= found < math.inf:
        raise DataError(f"must be finite and not negative, got {shown(found)}", field=name)
    return found


def _code(found):
    try:
        return LABELS.index(found)
    except ValueError:
        raise DataError(f'must be "high" or "low", got {shown(found)}', field="confidence.value") from None


def _rate(found):
    name = "confidence.randomizedTriggerRate"
    if found is None:
        raise DataError("is missing though there is a value; state it with rate=", field=name)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= 1:
        raise DataError(f"must be from 0 to 1, got {shown(found)}", field=name)
    return float(found)


def _column(held, name):
    """Return the cells of another column as an array of one kind: texts, numbers or booleans."""
    kinds = {bool if isinstance(cell, bool) else str if isinstance(cell, str) else float for cell in held}
    if len(kinds) > 1:
        raise DataError("mixes texts and numbers", field=name)
    kind = kinds.pop() if kinds else str
    try:
        return np.array(held, dtype=object if kind is str else kind)
    except OverflowError:
        raise DataError("holds a number that is too large", field=name) from None


def _json_parts(path, wanted, progressbar) -> Iterator[_Part]:
    """Yield the parts of a file of JSON lines."""
    size = os.path.getsize(path) if os.path.exists(path) else 0
    line = 1
    weight = len if path.suffix.lower() != ".gz" else None
    for block in track(_blocks(path), "Reading", size or 1, shown=progressbar and weight is not None, weight=weight):
        entries = _Entries(wanted)
        for number, text in enumerate(block.split(b"\n"), line):
            if text.strip():
                try:
                    entries.take_line(text)
                except DataError as err:
                    raise err.at(source=path, line=number) from None
        line += block.count(b"\n")
        try:
            yield entries.part()
        except DataError as err:
            raise err.at(source=path) from None


def _blocks(path) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks of whole lines."""
    with (
        files.open_input(path) as raw,
        io.BufferedReader(gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw) as handle,
    ):
        held, first = b"", True
        while True:
            try:
                found = handle.read(_BLOCK)
            except (EOFError, zlib.error) as err:
                raise DataError(f"cannot be read ({err})", source=path) from err
            except OSError as err:
                raise DataError(f"cannot be read ({err.strerror or err})", source=path) from err
            if first:
                found, first = found.removeprefix(b"\xef\xbb\xbf"), False
            end = found.rfind(b"\n") + 1
            if not found:
                if held:
                    yield held
                return
            if not end:
                held += found
                if len(held) > MAX_LINE:
                    raise DataError(f"has a line of more than {MAX_LINE:,} bytes; write one entry a line", source=path)
                continue
            yield held + found[:end]
            held = found[end:]


# ---- tables: Parquet and data frames -----------------------------------------------------------------------------------
class _Odd(Exception):
    """A table that is not wholly good; whoever made it finds the place."""


def _of_table(pa, table, wanted) -> _Part:
    """Return the part of a PyArrow table of entries, or raise _Odd(row, message, field) at its first fault."""
    kept = np.ones(table.num_rows, dtype=bool)
    names = set(table.column_names)
    other = np.zeros_like(kept)
    if "entryType" in names:
        kinds = _texts(pa, table["entryType"], "entryType")
        other = np.array([kind not in ("navigation", None) for kind in kinds[0]], dtype=bool)[kinds[1]]
    entry = ~other
    times, has_time = _numbers(pa, table, wanted.value)
    bad = entry & has_time & ~((times >= 0) & (times < np.inf))
    _refuse(bad, "must be finite and not negative", times, wanted.value)
    codes, has_report, empty, rates, has_rate = _confidences(pa, table, names, entry)
    rates = np.where(has_rate, rates, np.nan if wanted.rate is None else wanted.rate)
    lacking = entry & has_report & ~has_rate & (wanted.rate is None)
    _refuse(lacking, "is missing though there is a value; state it with rate=", None, RATE_NAMES[0])
    _refuse(entry & has_report & ~((rates >= 0) & (rates <= 1)), "must be from 0 to 1", rates, RATE_NAMES[0])
    late = ~has_time | ((times == 0) & wanted.drops_zeros)
    kept = entry & has_report & ~late
    counts = [entry, entry & ~has_report & ~empty, entry & ~has_report & empty, entry & has_report & late, other]
    chosen = np.flatnonzero(kept)
    extra = [_other_column(pa, table, name, chosen) for name in wanted.columns]
    summed = np.array([np.count_nonzero(mask) for mask in counts], dtype=np.int64)
    return _Part(times[chosen], codes[chosen], rates[chosen], extra, summed, bool((entry & has_time).any()))


def _refuse(bad, message, values, name):
    """Raise _Odd for the first bad row."""
    if bad.any():
        row = int(np.argmax(bad))
        raise _Odd(row, message if values is None else f"{message}, got {shown(float(values[row]))}", name)


def _confidences(pa, table, names, entry):
    """Return codes, whether there is one, whether it is an empty object, rates, whether there is one."""
    n = table.num_rows
    codes, has_report, empty = np.zeros(n, dtype=np.int8), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    rates, has_rate = np.full(n, np.nan), np.zeros(n, dtype=bool)
    sources = [(name, table[name]) for name in VALUE_NAMES if name in names]
    levels = [(name, table[name]) for name in RATE_NAMES if name in names]
    if "confidence" in names:
        whole = table["confidence"].combine_chunks()
        whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
        if pa.types.is_struct(whole.type):
            members = {field.name for field in whole.type}
            parts = dict(zip([f.name for f in whole.type], whole.flatten(), strict=True))
            empty = np.asarray(whole.is_valid())
            sources = [("confidence.value", parts["value"])] * ("value" in members) + sources
            rate = "randomizedTriggerRate"
            levels = [(RATE_NAMES[0], parts[rate])] * (rate in members) + levels
        elif not pa.types.is_null(whole.type):
            sources = [("confidence", whole), *sources]
    for name, column in sources:
        texts, at = _texts(pa, column, name)
        known = np.array(
            [-1 if text is None else LABELS.index(text) if text in LABELS else -2 for text in texts], dtype=np.int8
        )
        here = known[at] if at.size else np.zeros(n, dtype=np.int8)
        wrong = entry & ~has_report & (here == -2)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise _Odd(row, f'must be "high" or "low", got {shown(texts[at[row]])}', "confidence.value")
        twice = entry & has_report & (here != -1) & (here != codes)
        if twice.any():
            raise _Odd(int(np.argmax(twice)), "is stated twice and differs", "confidence.value")
        new = ~has_report & (here >= 0)
        codes[new], has_report = here[new], has_report | new
    for name, column in levels:
        found, there = _floats(pa, column, name)
        twice = entry & has_rate & there & (found != rates)
        if twice.any():
            raise _Odd(int(np.argmax(twice)), "is stated twice and differs", name)
        new = ~has_rate & there
        rates[new], has_rate = found[new], has_rate | new
    return codes, has_report, empty, rates, has_rate


def _texts(pa, column, name):
    """Return (distinct texts, place of each row's text among them); a missing text is None."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind)
    ):
        raise _Odd(None, f"must hold texts, got a column of {column.type}", name)
    column = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    coded = column.dictionary_encode(null_encoding="encode") if not pa.types.is_null(kind) else None
    if coded is None:
        return [None], np.zeros(len(column), dtype=np.int64)
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)


def _numbers(pa, table, name):
    """Return a column of numbers, and where it has any; a column that is not there has none."""
    if name in table.column_names:
        return _floats(pa, table[name], name)
    if "." in name:
        root, *rest = name.split(".")
        column = table[root] if root in table.column_names else None
        for part in rest:
            inside = column is not None and pa.types.is_struct(column.type)
            column = column.combine_chunks() if inside and isinstance(column, pa.ChunkedArray) else column
            members = [field.name for field in column.type] if inside else []
            column = column.flatten()[members.index(part)] if part in members else None
        if column is not None:
            return _floats(pa, column, name)
    return np.full(table.num_rows, np.nan), np.zeros(table.num_rows, dtype=bool)


def _floats(pa, column, name):
    """Return a column as floats, and where it is not null."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan), np.zeros(len(column), dtype=bool)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise _Odd(None, f"must hold numbers, got a column of {kind}", name)
    values = np.asarray(column.cast(pa.float64(), safe=False).fill_null(np.nan))
    return values, ~np.isnan(values)


def _other_column(pa, table, name, chosen):
    """Return the kept cells of another column, none of which may be missing."""
    if name not in table.column_names:
        raise _Odd(None, "is missing" if not len(chosen) else f"is missing; there are {listed(table.column_names)}", name)
    column = table[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    there = np.asarray(column.is_valid())[chosen]
    if not there.all():
        raise _Odd(int(chosen[np.argmin(there)]), "is missing", name)
    if pa.types.is_boolean(kind):
        return np.asarray(column, dtype=bool)[chosen]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = _floats(pa, column, name)[0][chosen]
        if np.isnan(values).any():
            raise _Odd(int(chosen[np.argmax(np.isnan(values))]), "is missing", name)
        return values
    if pa.types.is_null(kind):
        return np.empty(0, dtype=object)
    if pa.types.is_date(kind):
        column = column.cast(pa.string())
    texts, at = _texts(pa, column, name)
    return np.array(texts, dtype=object)[at[chosen]]


def _table_part(pa, table, wanted, path, first):
    """Return the part of a table whose first row has a number; errors name the row."""
    try:
        return _of_table(pa, table, wanted)
    except _Odd as err:
        row, message, name = err.args
        where = "" if row is None else f"row {first + row}: "
        raise DataError(f"{where}{message}", source=path, field=name) from None


def _parquet_parts(path, wanted, progressbar) -> Iterator[_Part]:
    """Yield the parts of one Parquet file, or of all that a pattern matches."""
    pyarrow = optional("pyarrow", "Reading Parquet")
    found = sorted(glob.glob(str(path))) if glob.has_magic(str(path)) and not os.path.exists(path) else [str(path)]
    if not found:
        raise DataError("matches no file", source=path)
    roots = {name.split(".")[0] for name in (wanted.value, *wanted.columns)}
    used = {"entryType", "confidence", wanted.value, *wanted.columns, *roots, *VALUE_NAMES, *RATE_NAMES}
    for file in track(found, "Reading", shown=progressbar):
        files.open_input(file).close()
        with foreign("is not a readable Parquet file", file):
            names = schema_of(file).names
            doubled = [name for name in used if names.count(name) > 1]
            if doubled:
                raise DataError("is the name of two columns", source=file, field=doubled[0])
            first = 1
            present = [name for name in names if name in used]
            for batch in read_batches(file, present):
                yield _table_part(pyarrow, batch, wanted, file, first)
                first += batch.num_rows


def _frame_parts(frame, wanted) -> Iterator[_Part]:
    """Yield the only part of a data frame."""
    pyarrow = optional("pyarrow", "Reading navigation timings from a data frame")
    source = FrameSource(frame)
    roots = {name.split(".")[0] for name in (wanted.value, *wanted.columns)}
    used = {"entryType", "confidence", wanted.value, *wanted.columns, *roots, *VALUE_NAMES, *RATE_NAMES}
    with foreign("the frame cannot be read"):
        rows = source.eager()
        table = rows.select([name for name in rows.columns if name in used]).to_arrow()
    yield _table_part(pyarrow, table, wanted, None, 1)
